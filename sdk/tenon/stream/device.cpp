#include "tenon/stream/device.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "tenon/cpp/copy.hpp"
#include "tenon/cpp/plugin.hpp"

namespace tenon::stream {

Device::~Device() {
  for (const auto& line : lines) line->stop();
  lines.clear();
  own.reset();
  if (runtime == nullptr) return;
  const Current current(*runtime);
  for (auto& events : free_events) {
    for (EventHandle e : events) runtime->event_destroy(e);
  }
  for (void* page : pages) (void)runtime->free_pinned(page);
}

Status Device::event(bool timed, EventRef* out) {
  EventHandle handle = nullptr;
  {
    const std::lock_guard lock(mutex);
    std::vector<EventHandle>& list = free_events[timed];
    if (list.empty()) {
      // Giving back must not fail, however many events are out.
      if (++events_made[timed] > list.capacity()) list.reserve(2 * events_made[timed]);
    } else {
      handle = list.back();
      list.pop_back();
    }
  }
  if (handle == nullptr) TENON_TRY(runtime->event_create(timed, &handle));
  *out = std::make_shared<Event>(*this, handle, timed);
  return {};
}

Status Device::slot(void** out) {
  constexpr uint64_t kPage = 4096;
  const std::lock_guard lock(mutex);
  if (free_slots.empty()) {
    void* page = nullptr;
    TENON_TRY(runtime->alloc_pinned(kPage, &page));
    pages.push_back(page);
    free_slots.reserve(pages.size() * (kPage / kSlotBytes));
    for (uint64_t at = 0; at < kPage; at += kSlotBytes)
      free_slots.push_back(static_cast<char*>(page) + at);
  }
  *out = free_slots.back();
  free_slots.pop_back();
  return {};
}

void Device::give_slot(void* slot) {
  const std::lock_guard lock(mutex);
  free_slots.push_back(slot);
}

Status start_device(Device& device) {
  Status status;
  device.own = std::make_shared<Line>(device, &status);
  device.lines.push_back(device.own);
  return status;
}

Status check_copy(const tenon_copy_t& c) {
  return tenon::check_copy(c, c.from != nullptr ? buffer_of(c.from)->size_bytes : 0,
                           c.to != nullptr ? buffer_of(c.to)->size_bytes : 0);
}

namespace {

// Streams fill with 1, 2 or 4 bytes at aligned addresses. Other fills double what is there already.
Status fill(Runtime& runtime, StreamHandle stream, const tenon_copy_t& c) {
  const Address to = buffer_of(c.to)->address + c.to_offset_bytes;
  const uint32_t width = c.pattern_bytes;
  unsigned char bytes[8];
  std::memcpy(bytes, &c.pattern, sizeof bytes);
  if (std::all_of(bytes, bytes + width, [&](unsigned char b) { return b == bytes[0]; }))
    return runtime.fill(stream, to, bytes[0], 1, c.length_bytes);
  if (width <= 4 && to % width == 0)
    return runtime.fill(stream, to, static_cast<uint32_t>(c.pattern), width,
                        c.length_bytes / width);
  for (uint32_t i = 0; i < width; ++i) TENON_TRY(runtime.fill(stream, to + i, bytes[i], 1, 1));
  for (uint64_t done = width; done < c.length_bytes; done *= 2) {
    TENON_TRY(runtime.copy_within(stream, to + done, to, std::min(done, c.length_bytes - done)));
  }
  return {};
}

Status close(void*, tenon_device_t* device) {
  delete device_of(device);
  return {};
}

Status alloc(void*, tenon_device_t* d, uint64_t size_bytes, tenon_buffer_t** out) {
  Device& device = *device_of(d);
  // A runtime may let memory of the host stand in for its own.
  if (device.memory_bytes != 0 && size_bytes > device.memory_bytes) {
    return fail(TENON_RESOURCE_EXHAUSTED,
                cat(device.name, ": ", size_bytes, " bytes are more than the ", device.memory_bytes,
                    " of the device"));
  }
  const Current current(*device.runtime);
  TENON_TRY(current.status());
  auto buffer = std::make_unique<Buffer>();
  buffer->size_bytes = size_bytes;
  TENON_TRY(device.runtime->alloc(std::max<uint64_t>(size_bytes, 1), &buffer->address));
  const std::lock_guard lock(device.mutex);
  device.used_bytes += size_bytes;
  device.peak_bytes = std::max(device.peak_bytes, device.used_bytes);
  *out = reinterpret_cast<tenon_buffer_t*>(buffer.release());
  return {};
}

Status give_back(Device& device, const Buffer& buffer) {
  if (buffer.imported) {
    if (buffer.address != 0) device.runtime->memory_leave(buffer.address);
    return {};
  }
  {
    const std::lock_guard lock(device.mutex);
    device.used_bytes -= buffer.size_bytes;
  }
  // Tried also where the device cannot be made current: no other code will free it.
  const Current current(*device.runtime);
  const Status freed = device.runtime->free(buffer.address);
  return current.status().ok() ? freed : current.status();
}

Status free(void*, tenon_device_t* d, tenon_buffer_t* b) {
  const std::unique_ptr<Buffer> buffer(buffer_of(b));
  return give_back(*device_of(d), *buffer);
}

// A buffer that each of several fences keeps. The last of them to be reached gives it back, on the
// thread that signals it.
struct KeptBuffer {
  KeptBuffer(Device& of, tenon_buffer_t* b) : device(of), buffer(buffer_of(b)) {}
  ~KeptBuffer() { (void)give_back(device, *buffer); }
  KeptBuffer(const KeptBuffer&) = delete;
  Device& device;
  const std::unique_ptr<Buffer> buffer;
};

Status free_behind(void*, tenon_device_t* d, tenon_buffer_t* b, const tenon_fence_point_t* points,
                   uint32_t count) {
  const auto kept = std::make_shared<KeptBuffer>(*device_of(d), b);
  for (const tenon_fence_point_t& point : std::span(points, count)) {
    if (point.fence == nullptr) continue;
    Fence& fence = *fence_of(point.fence);
    // When an event of others has happened, no callback says so.
    if (fence.foreign != nullptr && !fence.foreign->to_signal)
      (void)fence.wait(point.value, UINT64_MAX);
    fence.timeline.when(point.value, [](void*, const Fault&) {}, nullptr, kept);
  }
  return {};
}

Status copy(void*, tenon_device_t* d, const tenon_copy_t* c) {
  Device& device = *device_of(d);
  tenon_copy_t own;
  TENON_TRY(take_copy(c, &own));
  TENON_TRY(check_copy(own));
  if (own.from_device != nullptr)
    return fail(TENON_INVALID_ARGUMENT,
                cat(device.name, ": only a queue copies from another device"));
  const Current current(*device.runtime);
  TENON_TRY(current.status());
  const StreamHandle stream = device.own->stream();
  const Fault put = fault_of(enqueue_copy(*device.runtime, stream, own).code());
  const Fault ended = wait_out(*device.runtime, stream);
  return put.ok() ? ended.tell() : put.tell();
}

Status memory(void*, tenon_device_t* d, uint64_t* out_used, uint64_t* out_peak) {
  const std::lock_guard lock(device_of(d)->mutex);
  *out_used = device_of(d)->used_bytes;
  *out_peak = device_of(d)->peak_bytes;
  return {};
}

Status alloc_pinned(void*, tenon_device_t* d, uint64_t size_bytes, void** out) {
  Runtime& runtime = *device_of(d)->runtime;
  const Current current(runtime);
  TENON_TRY(current.status());
  return runtime.alloc_pinned(std::max<uint64_t>(size_bytes, 1), out);
}

Status free_pinned(void*, tenon_device_t* d, void* data) {
  Runtime& runtime = *device_of(d)->runtime;
  const Current current(runtime);
  const Status freed = runtime.free_pinned(data);
  return current.status().ok() ? freed : current.status();
}

}  // namespace

Fault wait_out(Runtime& runtime, StreamHandle stream) {
  Fault first = fault_of(runtime.stream_synchronize(stream).code());
  if (!first.ok()) (void)runtime.stream_synchronize(stream);
  return first;
}

Status enqueue_copy(Runtime& runtime, StreamHandle stream, const tenon_copy_t& c) {
  if (c.length_bytes == 0) return {};
  const Address from = c.from != nullptr ? buffer_of(c.from)->address + c.from_offset_bytes : 0,
                to = c.to != nullptr ? buffer_of(c.to)->address + c.to_offset_bytes : 0;
  switch (c.direction) {
    case TENON_COPY_HOST_TO_DEVICE:
      return runtime.copy_in(stream, to, c.host_from, c.length_bytes);
    case TENON_COPY_DEVICE_TO_HOST:
      return runtime.copy_out(stream, c.host_to, from, c.length_bytes);
    case TENON_COPY_DEVICE_TO_DEVICE:
      if (c.from_device != nullptr)
        return runtime.copy_across(stream, to, *device_of(c.from_device)->runtime, from,
                                   c.length_bytes);
      return runtime.copy_within(stream, to, from, c.length_bytes);
    default:
      return fill(runtime, stream, c);
  }
}

tenon_device_api_t device_table(CountSlot count, InfoSlot info, OpenSlot open) {
  return {sizeof(tenon_device_api_t),
          nullptr,
          count,
          info,
          open,
          entry<close>,
          entry<alloc>,
          entry<free>,
          entry<copy>,
          nullptr,
          nullptr,
          entry<memory>,
          entry<alloc_pinned>,
          entry<free_pinned>,
          entry<free_behind>};
}

}  // namespace tenon::stream
