#include "device.h"

#include <algorithm>
#include <cstring>

#include "tenon/cpp/plugin.hpp"

namespace tenon::sim {
namespace {

constexpr uint32_t kDeviceCount = 2;
constexpr uint64_t kMemoryBytes = uint64_t{4} << 30;

Status count(void*, uint32_t* out) {
  *out = kDeviceCount;
  return {};
}

Status info(void*, uint32_t ordinal, tenon_device_info_t* out) {
  if (ordinal >= kDeviceCount) return fail(TENON_OUT_OF_RANGE, cat("sim: there are ", kDeviceCount, " devices"));
  *out = {};
  out->size_bytes = sizeof *out;
  out->threading = TENON_THREADING_FREE;
  out->kind = str("sim");
  out->description = str("simulated accelerator: own memory, asynchronous queues, work items one after another");
  out->target = str("sim dialect=opencl-c fp64=1");
  out->memory_bytes = kMemoryBytes;
  out->alignment_bytes = kAlignmentBytes;
  out->copy_gigabytes_per_second = 8;
  out->copy_latency_ns = 10000;
  return {};
}

Status open(void*, uint32_t ordinal, tenon_device_t** out) {
  if (ordinal >= kDeviceCount) return fail(TENON_OUT_OF_RANGE, cat("sim: there are ", kDeviceCount, " devices"));
  auto device = std::make_unique<Device>(kMemoryBytes);
  TENON_TRY(device->memory.reserve());
  *out = reinterpret_cast<tenon_device_t*>(device.release());
  return {};
}

Status close(void*, tenon_device_t* device) {
  delete device_of(device);
  return {};
}

Status alloc(void*, tenon_device_t* device, uint64_t size_bytes, tenon_buffer_t** out) {
  uint64_t handle = 0;
  TENON_TRY(device_of(device)->memory.alloc(size_bytes, &handle));
  *out = buffer_of(handle);
  return {};
}

Status free(void*, tenon_device_t* device, tenon_buffer_t* buffer) {
  return device_of(device)->memory.free(handle_of(buffer));
}

void fill(char* to, uint64_t length, uint64_t pattern, uint32_t pattern_bytes) {
  for (uint64_t i = 0; i < length; i += pattern_bytes) std::memcpy(to + i, &pattern, pattern_bytes);
}

// Of nothing the addresses may be null.
void move(void* to, const void* from, uint64_t length) {
  if (length != 0) std::memcpy(to, from, length);
}

Status perform_copy(Device& device, const tenon_copy_t& c) {
  const DeviceMemory::Access access(device.memory);
  void *from = nullptr, *to = nullptr;
  if (c.direction == TENON_COPY_DEVICE_TO_HOST || c.direction == TENON_COPY_DEVICE_TO_DEVICE) {
    TENON_TRY(device.memory.translate(handle_of(c.from), c.from_offset_bytes, c.length_bytes, &from));
  }
  if (c.direction != TENON_COPY_DEVICE_TO_HOST) {
    TENON_TRY(device.memory.translate(handle_of(c.to), c.to_offset_bytes, c.length_bytes, &to));
  }
  switch (c.direction) {
    case TENON_COPY_HOST_TO_DEVICE: move(to, c.host_from, c.length_bytes); return {};
    case TENON_COPY_DEVICE_TO_HOST: move(c.host_to, from, c.length_bytes); return {};
    case TENON_COPY_DEVICE_TO_DEVICE: move(to, from, c.length_bytes); return {};
    case TENON_COPY_FILL: fill(static_cast<char*>(to), c.length_bytes, c.pattern, c.pattern_bytes); return {};
    default: return fail(TENON_INVALID_ARGUMENT, cat("sim: there is no copy direction ", c.direction));
  }
}

Status check_copy(const tenon_copy_t& c) {
  const uint32_t p = c.pattern_bytes;
  if (c.direction == TENON_COPY_FILL && ((p != 1 && p != 2 && p != 4 && p != 8) || c.length_bytes % p != 0)) {
    return fail(TENON_INVALID_ARGUMENT, cat("sim: a pattern of ", p, " bytes does not fill ", c.length_bytes, " bytes"));
  }
  return {};
}

Status raise(const Fault& fault) { return fault.code == TENON_OK ? Status() : fail(fault.code, fault.message); }

// Ordered after everything submitted before: the default queue takes it, the host's queues are drained.
Status drain_all(Device& device) {
  Fault first = device.default_queue.drain();
  const std::lock_guard lock(device.queues_mutex);
  for (Queue* q : device.queues) {
    Fault fault = q->drain();
    if (first.code == TENON_OK) first = std::move(fault);
  }
  return raise(first);
}

Status copy(void*, tenon_device_t* device, const tenon_copy_t* c) {
  TENON_TRY(check_copy(*c));
  TENON_TRY(drain_all(*device_of(device)));
  return perform_copy(*device_of(device), *c);
}

Status sync(void*, tenon_device_t* device) { return drain_all(*device_of(device)); }

Status memory(void*, tenon_device_t* device, uint64_t* out_used, uint64_t* out_peak) {
  *out_used = device_of(device)->memory.used_bytes();
  *out_peak = device_of(device)->memory.peak_bytes();
  return {};
}

Status queue_create(void*, tenon_device_t* device, tenon_queue_t** out) {
  auto queue = std::make_unique<HostQueue>(device_of(device));
  const std::lock_guard lock(device_of(device)->queues_mutex);
  device_of(device)->queues.push_back(&queue->queue);
  *out = reinterpret_cast<tenon_queue_t*>(queue.release());
  return {};
}

Status queue_destroy(void*, tenon_queue_t* q) {
  const std::unique_ptr<HostQueue> queue(queue_of(q));
  const std::lock_guard lock(queue->device->queues_mutex);
  std::erase(queue->device->queues, &queue->queue);
  return {};
}

Status copy_async(void*, tenon_queue_t* q, const tenon_copy_t* c, const tenon_fence_point_t* waits, uint32_t wait_count,
                  tenon_fence_point_t signal) {
  TENON_TRY(check_copy(*c));
  HostQueue* queue = queue_of(q);
  queue->queue.submit(points_of(waits, wait_count), point_of(signal),
                      [device = queue->device, c = *c] { return perform_copy(*device, c); });
  return {};
}

Status fence_create(void*, tenon_device_t*, uint64_t initial, tenon_fence_t** out) {
  *out = reinterpret_cast<tenon_fence_t*>(new Fence(initial));
  return {};
}

Status fence_destroy(void*, tenon_fence_t* fence) {
  delete fence_of(fence);
  return {};
}

Status fence_query(void*, tenon_fence_t* fence, uint64_t* out) { return fence_of(fence)->query(out); }

Status fence_signal(void*, tenon_fence_t* fence, uint64_t value) {
  fence_of(fence)->signal(value);
  return {};
}

Status fence_wait(void*, tenon_fence_t* fence, uint64_t value, uint64_t timeout_ns) {
  return fence_of(fence)->wait(value, timeout_ns);
}

}  // namespace

std::vector<FencePoint> points_of(const tenon_fence_point_t* points, uint32_t count) {
  std::vector<FencePoint> out;
  for (uint32_t i = 0; i < count; ++i) out.push_back(point_of(points[i]));
  return out;
}

// No map and no import: the host cannot touch this memory.
const tenon_device_api_t kDeviceTable = {
    sizeof(tenon_device_api_t), nullptr,     entry<count>, entry<info>, entry<open>, entry<close>, entry<alloc>, entry<free>,
    entry<copy>,                entry<sync>, nullptr,      nullptr,     entry<memory>};

const tenon_queue_api_t kQueueTable = {
    sizeof(tenon_queue_api_t), nullptr,          entry<queue_create>,  entry<queue_destroy>, entry<copy_async>, entry<fence_create>,
    entry<fence_destroy>,      entry<fence_query>, entry<fence_signal>, entry<fence_wait>};

}  // namespace tenon::sim
