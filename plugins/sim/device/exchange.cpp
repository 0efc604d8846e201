// tenon.exchange/1: handles of buffers, queues and fences, as other users of a simulated device
// would pass them on.
#include "plugins/sim/device/device.h"
#include "tenon/cpp/plugin.hpp"

namespace tenon::sim {
namespace {

constexpr std::string_view kMemory = "sim.handle", kStream = "sim.queue", kFence = "sim.fence";
constexpr uint64_t kElementBytes = 16;  // the largest element: kernels want it aligned

Status check_kind(tenon_str_t kind, std::string_view known) {
  if (view(kind) == known) return {};
  return fail(TENON_UNIMPLEMENTED,
              cat("sim: there are no such handles of the kind \"", view(kind), "\""));
}

Status kinds(void*, uint32_t, tenon_str_t* out) {
  *out = str(kMemory);
  return {};
}

Status import_memory(void*, tenon_device_t* d, const tenon_native_memory_t* memory,
                     tenon_buffer_t** out) {
  Device& device = *device_of(d);
  TENON_TRY(device.alive());
  TENON_TRY(check_kind(memory->kind, kMemory));
  uint64_t handle = 0, alias = 0;
  TENON_TRY(device.number_of(memory->handle, &handle));
  if (memory->offset_bytes % kElementBytes != 0) {
    return fail(TENON_UNIMPLEMENTED, cat("sim: the offset ", memory->offset_bytes,
                                         " is not a multiple of ", kElementBytes));
  }
  TENON_TRY(device.memory.alias(handle, memory->offset_bytes, memory->length_bytes, &alias));
  *out = buffer_of(alias);
  return {};
}

Status export_memory(void*, tenon_device_t* d, tenon_buffer_t* buffer, tenon_str_t kind,
                     tenon_native_memory_t* out) {
  Device& device = *device_of(d);
  TENON_TRY(device.alive());
  TENON_TRY(check_kind(kind, kMemory));
  auto made = sized<tenon_native_memory_t>();
  TENON_TRY(device.memory.size(handle_of(buffer), &made.length_bytes));
  made.kind = str(kMemory);
  made.handle = device.native_of(handle_of(buffer));
  return give_record(out, made);
}

Status queue_kinds(void*, uint32_t, tenon_str_t* out_streams, tenon_str_t* out_fences) {
  *out_streams = str(kStream);
  *out_fences = str(kFence);
  return {};
}

Status import_queue(void*, tenon_device_t* d, const tenon_native_handle_t* stream,
                    tenon_queue_t** out) {
  Device& device = *device_of(d);
  TENON_TRY(device.alive());
  TENON_TRY(check_kind(stream->kind, kStream));
  std::shared_ptr<Queue> queue;
  TENON_TRY(device.find_stream(stream->handle, &queue));
  *out = reinterpret_cast<tenon_queue_t*>(new HostQueue{&device, std::move(queue), 0});
  return {};
}

Status export_queue(void*, tenon_queue_t* q, tenon_str_t kind, tenon_native_handle_t* out) {
  const HostQueue& queue = *queue_of(q);
  TENON_TRY(queue.device->alive());
  TENON_TRY(check_kind(kind, kStream));
  uint64_t number = queue.stream;
  const std::lock_guard lock(queue.device->objects_mutex);
  for (const auto& [its, known] : queue.device->streams) {
    if (known == queue.queue) number = its;  // an imported one
  }
  auto made = sized<tenon_native_handle_t>();
  made.kind = str(kStream);
  made.flags = queue.queue->holds() ? 0 : TENON_NATIVE_ALL_THERE;
  made.handle = queue.device->native_of(number);
  return give_record(out, made);
}

// Passes what becomes of one fence on to another, as long as that exists.
void follow(HostFence& from, uint64_t value, const std::shared_ptr<HostFence>& to,
            uint64_t to_value) {
  from.when(value, [weak = std::weak_ptr(to), to_value](const Fault& fault) {
    const std::shared_ptr<HostFence> fence = weak.lock();
    if (fence == nullptr) return;
    fault.code == TENON_OK ? fence->signal(to_value) : fence->fail(to_value, fault);
  });
}

Status import_fence(void*, tenon_device_t* d, const tenon_native_handle_t* native,
                    tenon_fence_point_t* out) {
  Device& device = *device_of(d);
  TENON_TRY(device.alive());
  TENON_TRY(check_kind(native->kind, kFence));
  std::shared_ptr<HostFence> other;
  TENON_TRY(device.find_fence(native->handle, &other));
  const std::shared_ptr<HostFence> made = device.make_fence(0);
  const bool to_signal = (native->flags & TENON_NATIVE_TO_SIGNAL) != 0;
  to_signal ? follow(*made, 1, other, native->value) : follow(*other, native->value, made, 1);
  *out = {reinterpret_cast<tenon_fence_t*>(made.get()), 1};
  return {};
}

}  // namespace

const tenon_exchange_api_t kExchangeTable = {sizeof(tenon_exchange_api_t),
                                             nullptr,
                                             entry<kinds>,
                                             entry<import_memory>,
                                             entry<export_memory>,
                                             entry<queue_kinds>,
                                             entry<import_queue>,
                                             entry<export_queue>,
                                             entry<import_fence>};

}  // namespace tenon::sim
