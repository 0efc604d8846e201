#include "core/runtime/values/tensor.h"

#include <tenon/cpp/record.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/base/checked.h"
#include "core/base/str.h"

namespace tenon::runtime {

constexpr uint64_t kHostAlignment = 64;

Result<std::shared_ptr<std::byte>> host_memory(uint64_t size_bytes, bool zeroed) {
  TENON_RETURN_IF_ERROR(memory_reserve(size_bytes, "a tensor on the host"));
  uint64_t rounded = 0;
  void *data = nullptr, *aligned = nullptr;
  if (checked_align_up(std::max<uint64_t>(size_bytes, 1), kHostAlignment, &rounded)) {
    // The system supplies large memory zeroed; calloc knows that and does not write it again. What
    // aligned_alloc gave and was freed is not found again for the same size, so that a loop of
    // large results would grow.
    size_t room = rounded + kHostAlignment;
    if (room > rounded) data = zeroed ? std::calloc(room, 1) : std::malloc(room);
    aligned = data;
    if (data != nullptr) std::align(kHostAlignment, rounded, aligned, room);
  }
  if (data == nullptr) {
    memory_return(size_bytes);
    return error(TENON_RESOURCE_EXHAUSTED, "T0111",
                 "the system could not allocate {} bytes for a tensor", size_bytes);
  }
  return std::shared_ptr<std::byte>(static_cast<std::byte*>(aligned),
                                    [size_bytes, data](std::byte*) {
                                      std::free(data);
                                      memory_return(size_bytes);
                                    });
}

Result<std::shared_ptr<Buffer>> upload(std::shared_ptr<Device> device, const void* data,
                                       uint64_t size_bytes) {
  TENON_ASSIGN_OR_RETURN(Buffer made, Buffer::allocate(std::move(device), size_bytes));
  auto buffer = std::make_shared<Buffer>(std::move(made));
  if (size_bytes == 0) return buffer;
  if (buffer->host() != nullptr && !buffer->device().has_queue()) {
    std::memcpy(buffer->host(), data, size_bytes);
    return buffer;
  }
  TENON_ASSIGN_OR_RETURN(const bool filled,
                         buffer->device().fill(buffer->handle(), data, size_bytes));
  if (filled) return buffer;
  auto copy = sized<tenon_copy_t>();
  copy.direction = TENON_COPY_HOST_TO_DEVICE;
  copy.to = buffer->handle();
  copy.length_bytes = size_bytes;
  copy.host_from = data;
  TENON_RETURN_IF_ERROR(buffer->device().copy(copy));
  return buffer;
}

void keep_for_good(std::shared_ptr<void> memory) {
  static std::mutex mutex;
  static auto* kept = new std::vector<std::shared_ptr<void>>();
  std::lock_guard lock(mutex);
  kept->push_back(std::move(memory));
}

static Status gone() {
  return error(TENON_FAILED_PRECONDITION, "T0621",
               "the tensor was donated before, and has no value now");
}

// From 1. A thread takes many at a time, so that threads which make tensors share little.
static uint64_t new_value() {
  constexpr uint64_t kAtATime = 4096;
  static std::atomic<uint64_t> free_from{1};
  thread_local uint64_t next = 0, end = 0;
  if (next == end) {
    next = free_from.fetch_add(kAtATime, std::memory_order_relaxed);
    end = next + kAtATime;
  }
  return next++;
}

Tensor::Tensor(tenon_dtype_t dtype, std::vector<int64_t> dims, uint64_t size_bytes,
               std::shared_ptr<void> memory, bool of_caller)
    : dtype_(dtype),
      dims_(std::move(dims)),
      size_bytes_(size_bytes),
      of_caller_(of_caller),
      value_(new_value()),
      host_owner_(std::move(memory)),
      host_(host_owner_.get()) {}

Tensor::Tensor(tenon_dtype_t dtype, std::vector<int64_t> dims, uint64_t size_bytes,
               std::shared_ptr<Buffer> buffer, bool of_caller)
    : dtype_(dtype),
      dims_(std::move(dims)),
      size_bytes_(size_bytes),
      of_caller_(of_caller),
      value_(new_value()) {
  remember(std::move(buffer));
  host_.store(places_->buffer->host(), std::memory_order_release);
}

std::shared_ptr<Tensor> Tensor::gone_like(const Tensor& tensor) {
  auto gone = std::make_shared<Tensor>(tensor.dtype_, tensor.dims_, tensor.size_bytes_,
                                       std::shared_ptr<void>());
  (void)gone->take();
  return gone;
}

// Buffers that wrap the host memory go before it; a long list must not end in deep recursion. A
// device that was given up may still read what it imported.
Tensor::~Tensor() {
  bool abandoned = false;
  while (places_ != nullptr) {
    abandoned = abandoned || places_->buffer->device().abandoned();
    places_ = std::move(places_->next);
  }
  if (abandoned && host_owner_ != nullptr) keep_for_good(std::move(host_owner_));
}

Buffer* Tensor::on(const Device& device) const {
  for (const Place* p = first_.load(std::memory_order_acquire); p != nullptr; p = p->next.get()) {
    if (&p->buffer->device() == &device) return p->buffer.get();
  }
  return nullptr;
}

Status Tensor::use_on(const Device& device, const tenon_native_handle_t& stream) {
  std::shared_ptr<Buffer> buffer;
  {
    std::lock_guard lock(mutex_);
    const Place* p = places_.get();
    while (p != nullptr && &p->buffer->device() != &device) p = p->next.get();
    if (p == nullptr) return {};
    buffer = p->buffer;
  }
  Status status = buffer->use_on(stream);
  // A device that was lost writes nothing more.
  if (!status.ok() && status.code() != TENON_DEVICE_LOST) keep_for_good(std::move(buffer));
  return status;
}

Buffer* Tensor::in_reach_of(const Device& device) const {
  if (!device.has_queue() || device.apis().queue->reaches == nullptr) return nullptr;
  for (const Place* p = first_.load(std::memory_order_acquire); p != nullptr; p = p->next.get()) {
    const Device& there = p->buffer->device();
    if (&there != &device && device.same_plugin(there) && there.alive().ok())
      return p->buffer.get();
  }
  return nullptr;
}

void Tensor::remember(std::shared_ptr<Buffer> buffer) {
  std::lock_guard lock(mutex_);
  if (given_up() || on(buffer->device()) != nullptr) return;
  places_ = std::make_unique<Place>(std::move(buffer), std::move(places_));
  first_.store(places_.get(), std::memory_order_release);
}

void Tensor::remember_host(std::shared_ptr<void> memory) {
  std::lock_guard lock(mutex_);
  if (given_up() || host() != nullptr) return;
  host_owner_ = std::move(memory);
  host_.store(host_owner_.get(), std::memory_order_release);
}

Result<const void*> Tensor::fetch() {
  if (const void* there = host(); there != nullptr || size_bytes_ == 0) {
    if (given_up()) return gone();
    return there;
  }
  std::lock_guard lock(mutex_);
  if (given_up()) return gone();
  if (host() != nullptr) return host();
  const Place* from = places_.get();  // of a device that was not lost, if there is one
  while (from->next != nullptr && !from->buffer->device().alive().ok()) from = from->next.get();
  Buffer& buffer = *from->buffer;
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory, host_memory(size_bytes_, false));
  auto copy = sized<tenon_copy_t>();
  copy.direction = TENON_COPY_DEVICE_TO_HOST;
  copy.from = buffer.handle();
  copy.length_bytes = size_bytes_;
  copy.host_to = memory.get();
  TENON_RETURN_IF_ERROR(buffer.device().copy(copy));
  host_owner_ = std::move(memory);
  host_.store(host_owner_.get(), std::memory_order_release);
  return host();
}

Status Tensor::check_there() const {
  return given_up() ? gone() : Status();
}

Tensor::Taken Tensor::take() {
  std::lock_guard lock(mutex_);
  Taken taken;
  for (Place* p = places_.get(); p != nullptr; p = p->next.get())
    taken.buffers.push_back(p->buffer);
  given_up_.store(true, std::memory_order_release);
  value_.store(0, std::memory_order_relaxed);
  host_.store(nullptr, std::memory_order_release);
  first_.store(nullptr, std::memory_order_release);
  places_.reset();
  taken.host = std::move(host_owner_);
  return taken;
}

std::string Tensor::places() const {
  std::vector<std::string> names;
  for (const Place* p = first_.load(std::memory_order_acquire); p != nullptr; p = p->next.get())
    names.push_back(p->buffer->device().name());
  std::ranges::reverse(names);
  if (host() != nullptr && host_owner_ != nullptr) names.emplace_back("host");
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

}  // namespace tenon::runtime
