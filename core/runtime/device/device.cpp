#include "core/runtime/device/device.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include <tenon/abi/copy.h>
#include <tenon/cpp/record.hpp>

#include "core/base/errors/failure.h"
#include "core/base/limits.h"
#include "core/base/str.h"
#include "core/runtime/device/device_limit.h"

namespace tenon::runtime {
namespace {

std::atomic<bool> g_shut_down{false};

// The device whose turn this thread shares.
thread_local const Device* t_same_turn = nullptr;

// An alignment above this is a garbled record, not hardware.
constexpr uint64_t kAlignmentMax = uint64_t{1} << 21;
// Of a device that is not in this machine.
constexpr uint64_t kAlignmentUnknown = 64;

// Empty, or why the record makes no sense.
std::string wrong_in(const tenon_device_info_t& info) {
  for (const auto& [name, text] :
       {std::pair("kind", info.kind), std::pair("target", info.target),
        std::pair("description", info.description), std::pair("uuid", info.uuid)}) {
    if (text.data == nullptr && text.size != 0)
      return fmt::format("a {} of {} bytes at null", name, text.size);
  }
  if (info.kind.size == 0) return "an empty kind";
  if (!std::has_single_bit(info.alignment_bytes) || info.alignment_bytes > kAlignmentMax) {
    return fmt::format("an alignment of {}", info.alignment_bytes);
  }
  if (info.threading > TENON_THREADING_FREE)
    return fmt::format("a threading of {}", info.threading);
  // Costs are computed from these two: a NaN would corrupt every comparison.
  for (double value : {info.copy_gigabytes_per_second, info.copy_latency_ns}) {
    if (!std::isfinite(value) || value < 0)
      return fmt::format("a copy bandwidth or latency of {}", value);
  }
  return "";
}

// "opencl.mem,opencl.image"
std::vector<std::string> kinds_in(tenon_str_t text) {
  std::vector<std::string> out;
  if (text.data == nullptr) return out;
  for (const std::string_view kind : split(from_abi_str(text), ',')) out.emplace_back(kind);
  return out;
}

std::string kinds_text(const std::vector<std::string>& kinds) {
  return fmt::format("the kind{} {}", kinds.size() == 1 ? "" : "s", join_names(kinds));
}

}  // namespace

void set_plugins_shut_down() {
  g_shut_down.store(true, std::memory_order_release);
}
bool plugins_shut_down() {
  return g_shut_down.load(std::memory_order_acquire);
}

Result<std::shared_ptr<Device>> Device::create(const DeviceApis& apis, uint32_t ordinal,
                                               uint32_t number) {
  std::shared_ptr<Device> device(new Device(apis, ordinal));
  device->info_.size_bytes = sizeof(tenon_device_info_t);
  clear_failure();
  TENON_RETURN_IF_ERROR(
      from_abi(apis.device->info(apis.device->self, ordinal, &device->info_),
               fmt::format("plugin {}: info of device {}", quoted(apis.plugin), ordinal)));
  const tenon_device_info_t& info = device->info_;
  if (const std::string wrong = wrong_in(info); !wrong.empty()) {
    return error(TENON_INTERNAL, "T0503", "plugin {} describes device {} with {}",
                 quoted(apis.plugin), ordinal, wrong);
  }
  device->set_name(number);
  return device;
}

Result<std::shared_ptr<Device>> Device::create_for_target(const DeviceApis& apis,
                                                          std::string_view kind, uint32_t number,
                                                          std::string_view target) {
  std::shared_ptr<Device> device(new Device(apis, 0));
  tenon_device_info_t& info = device->info_;
  info.size_bytes = sizeof info;
  clear_failure();
  if (apis.device->info(apis.device->self, 0, &info) != TENON_OK || !wrong_in(info).empty()) {
    info = {};
    info.size_bytes = sizeof info;
    info.threading = TENON_THREADING_SERIAL;
    info.alignment_bytes = kAlignmentUnknown;
  }
  info.uuid = {};  // not of a device of this machine
  info.flags = 0;
  clear_failure();
  device->kind_ = kind;
  device->target_ = target;
  info.kind = to_abi_str(device->kind_);
  info.target = to_abi_str(device->target_);
  device->set_name(number);
  return device;
}

void Device::set_name(uint32_t number) {
  name_ = printable(from_abi_str(info_.kind));
  if (number != 0) name_ += fmt::format(":{}", number);
  tensor_text_ = fmt::format("a tensor on device {}", quoted(name_));
  memory_limit_ = device_memory_limit(name_);
}

Status Device::reserve(uint64_t bytes) {
  if (!memory_limit_) return memory_reserve(bytes, tensor_text_);
  uint64_t used = memory_used_.load(std::memory_order_relaxed);
  do {
    if (bytes > *memory_limit_ || used > *memory_limit_ - bytes) {
      return error(TENON_RESOURCE_EXHAUSTED, "T0609",
                   "{} needs {} bytes; {} are in use there and its TENON_DEVICE_MEMORY_LIMIT is {}",
                   tensor_text_, bytes, used, *memory_limit_);
    }
  } while (!memory_used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return {};
}

void Device::give_back(uint64_t bytes) {
  if (!memory_limit_) return memory_return(bytes);
  memory_used_.fetch_sub(bytes, std::memory_order_relaxed);
}

Device::~Device() {
  (void)end_uses(true);
  if (handle() != nullptr) pinned_.end();
  if (handle() != nullptr && !plugins_shut_down() && !abandoned())
    (void)apis_.device->close(apis_.device->self, handle());
}

Status Device::open() {
  if (handle() != nullptr) return alive();
  std::lock_guard lock(open_mutex_);
  TENON_RETURN_IF_ERROR(alive());
  if (handle() != nullptr) return {};
  clear_failure();
  tenon_device_t* handle = nullptr;
  Status status = from_abi(apis_.device->open(apis_.device->self, ordinal_, &handle), "open");
  if (!status.ok()) {
    if (status.code() == TENON_DEVICE_LOST) lost_.store(true, std::memory_order_release);
    return error(status.code(), "T0503", "device {} cannot be used: {}", quoted(name_),
                 status.message());
  }
  if (handle == nullptr)
    return error(TENON_INTERNAL, "T0503", "plugin {} opened device {} as nothing",
                 quoted(apis_.plugin), name_);
  handle_.store(handle, std::memory_order_release);
  return {};
}

Status Device::check(tenon_code_t code, std::string_view what) {
  if (code == TENON_OK) [[likely]]
    return {};
  Status status = from_abi(code, fmt::format("device {} ({})", quoted(name_), what));
  if (code == TENON_DEVICE_LOST && status.error_code() == "T0618") {
    abandon();  // its work may go on: kernels that waited for it have given up
  } else if (code == TENON_DEVICE_LOST) {
    lost_.store(true, std::memory_order_release);
    status =
        error(code, "T0611",
              "device {} was lost ({}) and gives no results until the process is started again: {}",
              quoted(name_), what, status.message());
  } else if (status.error_code().empty() && code != TENON_CANCELLED) {
    // The plugin's message, with what it lacks: a stable code, the device, and the operation.
    const char* const id = code == TENON_RESOURCE_EXHAUSTED ? "T0609" : "T0617";
    Status whole = error(code, id, "device {} ({}): {}", quoted(name_), what, status.message());
    for (const KeyValue& pair : status.evidence()) whole.add(pair.key, pair.value);
    status = std::move(whole);
  }
  return std::move(status).with("device", name_);
}

Status Device::alive() const {
  if (!lost_.load(std::memory_order_acquire)) [[likely]]
    return {};
  return error(TENON_DEVICE_LOST, "T0611",
               "device {} was lost and gives no results until the process is started again",
               quoted(name_));
}

std::string Device::use_text() {
  if (apis_.device->memory == nullptr) return "";
  uint64_t used = 0, peak = 0;
  auto guard = serialise();
  const tenon_code_t code = apis_.device->memory(apis_.device->self, handle(), &used, &peak);
  clear_failure();
  return code == TENON_OK ? fmt::format(" (it has {} in use)", used) : "";
}

Status Device::exchanges() const {
  if (apis_.exchange != nullptr) return {};
  return error(
      TENON_UNIMPLEMENTED, "T0633",
      "device {} takes no memory of other libraries and gives none: its plugin {} has no {}",
      quoted(name_), quoted(apis_.plugin), TENON_EXCHANGE_ID);
}

Status Device::exchanges_queues() const {
  if (has_queue() && apis_.exchange != nullptr && apis_.exchange->import_queue != nullptr &&
      apis_.exchange->import_fence != nullptr)
    return {};
  return error(TENON_UNIMPLEMENTED, "T0635",
               "device {} takes no streams and fences of other libraries: its plugin {} imports "
               "none",
               quoted(name_), quoted(apis_.plugin));
}

Device::ExchangeKinds Device::exchange_kinds() const {
  ExchangeKinds out;
  if (apis_.exchange == nullptr) return out;
  const tenon_exchange_api_t& x = *apis_.exchange;
  tenon_str_t memory{}, streams{}, fences{};
  if (x.kinds(x.self, ordinal_, &memory) == TENON_OK) out.memory = kinds_in(memory);
  if (exchanges_queues().ok() && x.queue_kinds != nullptr &&
      x.queue_kinds(x.self, ordinal_, &streams, &fences) == TENON_OK) {
    out.streams = kinds_in(streams);
    out.fences = kinds_in(fences);
  }
  clear_failure();
  return out;
}

Status Device::check_native(tenon_code_t code, std::string_view what, Native native,
                            tenon_str_t kind) {
  Status status = check(code, what);
  if (code == TENON_OK || code == TENON_DEVICE_LOST) return status;
  const ExchangeKinds kinds = exchange_kinds();
  // A device that exchanges memory names at least one kind of memory, and so for streams: without
  // one its plugin did not name them. There may be no kind of fences.
  if ((native == Native::kMemory ? kinds.memory : kinds.streams).empty()) return status;
  const auto& [noun, known] = native == Native::kMemory   ? std::pair("memory", kinds.memory)
                              : native == Native::kStream ? std::pair("streams", kinds.streams)
                                                          : std::pair("fences", kinds.fences);
  if (std::ranges::find(known, from_abi_str(kind)) != known.end()) return status;
  Status named = error(code, native == Native::kMemory ? "T0633" : "T0635",
                       "{}; the device takes {}", status.message(),
                       known.empty() ? fmt::format("no {} of other libraries", noun)
                                     : fmt::format("{} of {}", noun, kinds_text(known)));
  for (const KeyValue& pair : status.evidence()) named.add(pair.key, pair.value);
  return named;
}

void Device::abandon() {
  abandoned_.store(true, std::memory_order_release);
  lost_.store(true, std::memory_order_release);
}

void Device::leave_behind(const void* handle) {
  std::lock_guard lock(open_mutex_);
  left_behind_.push_back(handle);
}

Device::SameTurn::SameTurn(const Device& device) : before_(std::exchange(t_same_turn, &device)) {}
Device::SameTurn::~SameTurn() {
  t_same_turn = before_;
}

std::unique_lock<std::mutex> Device::serialise() {
  if (info_.threading != TENON_THREADING_SERIAL || t_same_turn == this) return {};
  return std::unique_lock(serial_mutex_);
}

std::unique_lock<std::mutex> Device::serialise_execution(bool on_queue) {
  const bool free = info_.threading == TENON_THREADING_FREE ||
                    (info_.threading == TENON_THREADING_PER_QUEUE && on_queue);
  if (free) return {};
  return std::unique_lock(serial_mutex_);
}

void Device::free_after(tenon_buffer_t* buffer, Uses uses) {
  const tenon_device_api_t* api = apis_.device;
  (void)end_uses(false);
  std::erase_if(uses, [](const auto& use) { return use->over(); });
  if (uses.empty() || api->free_behind == nullptr) {
    uses.clear();  // waits
    auto guard = serialise();
    (void)api->free(api->self, handle(), buffer);
    return;
  }
  std::vector<tenon_fence_point_t> points;
  for (const auto& use : uses) points.push_back(use->point());
  {
    auto guard = serialise();
    (void)api->free_behind(api->self, handle(), buffer, points.data(),
                           static_cast<uint32_t>(points.size()));
  }
  std::lock_guard lock(uses_mutex_);
  std::ranges::move(uses, std::back_inserter(freed_after_));
  has_freed_after_.store(true, std::memory_order_release);
}

bool Device::end_uses(bool all) {
  if (!has_freed_after_.load(std::memory_order_acquire)) return false;
  Uses ended;  // end without the lock
  std::lock_guard lock(uses_mutex_);
  const auto done =
      std::ranges::partition(freed_after_, [all](const auto& use) { return !all && !use->over(); });
  std::move(done.begin(), done.end(), std::back_inserter(ended));
  freed_after_.erase(done.begin(), done.end());
  has_freed_after_.store(!freed_after_.empty(), std::memory_order_release);
  return !ended.empty();
}

Status Device::copy(const tenon_copy_t& copy) {
  TENON_RETURN_IF_ERROR(alive());
  auto guard = serialise();
  clear_failure();
  TENON_RETURN_IF_ERROR(check(apis_.device->copy(apis_.device->self, handle(), &copy), "copy"),
                        "copying on device {}", quoted(name_));
  return {};
}

Result<bool> Device::fill(tenon_buffer_t* to, const void* data, uint64_t size_bytes) {
  auto copy = sized<tenon_copy_t>();
  if (!fills() || !tenon_copy_make_fill(&copy, to, data, size_bytes)) return false;
  Status status = this->copy(copy);
  if (status.ok()) return true;
  if (status.code() != TENON_UNIMPLEMENTED) return status;
  fills_not();
  clear_failure();
  return false;
}

// Every call of a lost device fails so (R-C30).
bool Device::says_lost() {
  auto guard = serialise();
  tenon_buffer_t* buffer = nullptr;
  const tenon_code_t code = apis_.device->alloc(apis_.device->self, handle(), 0, &buffer);
  if (code == TENON_OK && buffer != nullptr)
    (void)apis_.device->free(apis_.device->self, handle(), buffer);
  clear_failure();
  return code == TENON_DEVICE_LOST;
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  device_ = std::move(other.device_);
  handle_ = std::exchange(other.handle_, nullptr);
  host_ = std::exchange(other.host_, nullptr);
  size_bytes_ = std::exchange(other.size_bytes_, 0);
  counted_bytes_ = std::exchange(other.counted_bytes_, 0);
  imported_ = std::exchange(other.imported_, false);
  uses_ = std::move(other.uses_);
  return *this;
}

Status Buffer::use_on(const tenon_native_handle_t& stream) {
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<Use> use, Use::begin(*device_, stream, handle_));
  std::lock_guard lock(device_->uses_mutex());
  uses_.push_back(std::move(use));
  return {};
}

bool Buffer::in_use() {
  Uses over;  // end without the lock
  std::lock_guard lock(device_->uses_mutex());
  const auto done = std::ranges::partition(uses_, [](const auto& use) { return !use->over(); });
  std::move(done.begin(), done.end(), std::back_inserter(over));
  uses_.erase(done.begin(), done.end());
  return !uses_.empty();
}

void Buffer::reset() {
  if (handle_ != nullptr) {
    if (device_->abandoned()) {
      device_->leave_behind(handle_);
    } else if (!plugins_shut_down()) {
      device_->free_after(handle_, std::move(uses_));
    }
    device_->give_back(counted_bytes_);
  }
  handle_ = nullptr;
  host_ = nullptr;
  size_bytes_ = counted_bytes_ = 0;
  imported_ = false;
  uses_.clear();
  device_.reset();
}

// Memory freed after work of other libraries is usable again once that work is done.
Result<Buffer> Buffer::allocate(std::shared_ptr<Device> device, uint64_t size_bytes) {
  TENON_RETURN_IF_ERROR(device->open());
  (void)device->end_uses(false);
  Result<Buffer> made = allocate_once(device, size_bytes);
  if (made.ok() || made.status().code() != TENON_RESOURCE_EXHAUSTED || !device->end_uses(true))
    return made;
  return allocate_once(std::move(device), size_bytes);
}

Result<Buffer> Buffer::allocate_once(std::shared_ptr<Device> device, uint64_t size_bytes) {
  TENON_RETURN_IF_ERROR(device->reserve(size_bytes));
  Buffer buffer;
  buffer.counted_bytes_ = size_bytes;
  buffer.size_bytes_ = size_bytes;
  const tenon_device_api_t* api = device->apis().device;
  Status status;
  {
    auto guard = device->serialise();
    clear_failure();
    tenon_buffer_t* handle = nullptr;  // a local: a handle stored despite an error is not ours
    status = device->check(api->alloc(api->self, device->handle(), size_bytes, &handle), "alloc");
    if (status.ok()) buffer.handle_ = handle;
    if (status.ok() && handle == nullptr) {
      status = error(TENON_INTERNAL, "T0612", "device {} gave no buffer for {} bytes",
                     quoted(device->name()), size_bytes);
    }
    if (status.ok() && api->map != nullptr) {
      void* host = nullptr;
      const tenon_code_t code = api->map(api->self, device->handle(), handle, &host);
      if (code == TENON_UNIMPLEMENTED) {
        clear_failure();  // the host cannot access this buffer, so it is copied instead
      } else if (status = device->check(code, "map"); status.ok()) {
        buffer.host_ = host;
      }
    }
  }
  buffer.device_ = std::move(device);
  if (status.ok()) return buffer;
  if (buffer.handle_ == nullptr) buffer.device_->give_back(size_bytes);
  if (status.code() == TENON_RESOURCE_EXHAUSTED) {
    return error(TENON_RESOURCE_EXHAUSTED, "T0609", "{} bytes on device {}{}: {}", size_bytes,
                 quoted(buffer.device_->name()), buffer.device_->use_text(), status.message());
  }
  return status;
}

Result<Buffer> Buffer::adopt(std::shared_ptr<Device> device, const tenon_native_memory_t& memory) {
  TENON_RETURN_IF_ERROR(device->open());
  TENON_RETURN_IF_ERROR(device->exchanges());
  const tenon_exchange_api_t* api = device->apis().exchange;
  Buffer buffer;
  auto guard = device->serialise();
  clear_failure();
  tenon_buffer_t* handle = nullptr;
  TENON_RETURN_IF_ERROR(
      device->check_native(api->import_memory(api->self, device->handle(), &memory, &handle),
                           "import of a handle", Device::Native::kMemory, memory.kind));
  if (handle == nullptr) {
    return error(TENON_INTERNAL, "T0612", "device {} made no buffer of a handle",
                 quoted(device->name()));
  }
  buffer.handle_ = handle;
  buffer.imported_ = true;
  buffer.size_bytes_ = memory.length_bytes;
  buffer.device_ = std::move(device);
  return buffer;
}

Result<Buffer> Buffer::import(std::shared_ptr<Device> device, void* data, uint64_t size_bytes,
                              uint32_t flags) {
  TENON_RETURN_IF_ERROR(device->open());
  const tenon_device_api_t* api = device->apis().device;
  Buffer buffer;
  if (api->import == nullptr || data == nullptr || size_bytes == 0) return buffer;
  auto guard = device->serialise();
  clear_failure();
  tenon_buffer_t* handle = nullptr;
  const tenon_memory_import_t record = {sizeof record, flags, data, size_bytes};
  const tenon_code_t code = api->import(api->self, device->handle(), &record, &handle);
  // Importing only saves a copy, so any refusal leads to a copy. With a lost device a copy would
  // fail too.
  if (code == TENON_OK ? handle == nullptr : code != TENON_DEVICE_LOST) {
    clear_failure();
    return buffer;
  }
  TENON_RETURN_IF_ERROR(device->check(code, "import"));
  buffer.handle_ = handle;
  buffer.imported_ = true;
  buffer.size_bytes_ = size_bytes;
  buffer.host_ = device->host_visible() ? data : nullptr;
  buffer.device_ = std::move(device);
  return buffer;
}

}  // namespace tenon::runtime
