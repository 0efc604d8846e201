// sim.native/1, and the handles of streams and fences of tenon.exchange/1.
#include "plugins/sim/device/native.h"

#include "plugins/sim/device/device.h"
#include "tenon/cpp/plugin.hpp"

namespace tenon::sim {

uint64_t Device::native_of(uint64_t number) const {
  return uint64_t{ordinal} << kDeviceShift | number;
}

Status Device::number_of(uint64_t handle, uint64_t* out) const {
  if (handle >> kDeviceShift != ordinal) {
    return fail(TENON_INVALID_ARGUMENT, cat("sim: the handle is of device ", handle >> kDeviceShift,
                                            ", and this is device ", ordinal));
  }
  *out = handle & ((uint64_t{1} << kDeviceShift) - 1);
  return {};
}

Status Device::find_stream(uint64_t handle, std::shared_ptr<Queue>* out) {
  uint64_t number = 0;
  TENON_TRY(number_of(handle, &number));
  const std::lock_guard lock(objects_mutex);
  const auto it = streams.find(number);
  if (it == streams.end())
    return fail(TENON_INVALID_ARGUMENT, cat("sim: the handle ", handle, " is not one of a stream"));
  *out = it->second;
  return {};
}

Status Device::find_fence(uint64_t handle, std::shared_ptr<HostFence>* out) {
  uint64_t number = 0;
  TENON_TRY(number_of(handle, &number));
  const std::lock_guard lock(objects_mutex);
  const auto it = fences.find(number);
  if (it == fences.end())
    return fail(TENON_INVALID_ARGUMENT, cat("sim: the handle ", handle, " is not one of a fence"));
  *out = it->second;
  return {};
}

std::shared_ptr<HostFence> Device::make_fence(uint64_t initial) {
  const std::lock_guard lock(objects_mutex);
  auto fence = std::make_shared<HostFence>(this, initial, next_object++);
  fences.emplace(fence->number, fence);
  return fence;
}

uint64_t Device::add_stream(const std::shared_ptr<Queue>& queue) {
  const std::lock_guard lock(objects_mutex);
  queues.push_back(queue);
  streams.emplace(next_object, queue);
  return next_object++;
}

void Device::drop_stream(uint64_t number) {
  const std::lock_guard lock(objects_mutex);
  const auto it = streams.find(number);
  std::erase(queues, it->second);
  streams.erase(it);
}

namespace {

Status find_device(uint64_t ordinal, Device** out) {
  const std::lock_guard lock(Device::all_mutex());
  for (Device* device : Device::all()) {
    if (device->ordinal == ordinal) return *out = device, Status();
  }
  return fail(TENON_INVALID_ARGUMENT, cat("sim: device ", ordinal, " is not open"));
}

Status stream_create(void*, uint32_t ordinal, uint64_t* out) {
  Device* device = nullptr;
  TENON_TRY(find_device(ordinal, &device));
  *out = device->native_of(device->add_stream(std::make_shared<Queue>()));
  return {};
}

Status stream_destroy(void*, uint64_t stream) {
  Device* device = nullptr;
  std::shared_ptr<Queue> queue;
  uint64_t number = 0;
  TENON_TRY(find_device(stream >> kDeviceShift, &device));
  TENON_TRY(device->find_stream(stream, &queue));
  queue->finish();
  TENON_TRY(device->number_of(stream, &number));
  device->drop_stream(number);
  return {};
}

Status fence_at(uint64_t handle, std::shared_ptr<HostFence>* out) {
  Device* device = nullptr;
  TENON_TRY(find_device(handle >> kDeviceShift, &device));
  return device->find_fence(handle, out);
}

Status stream_submit(void*, uint64_t stream, uint64_t fence, uint64_t value, void (*work)(void*),
                     void* context) {
  Device* device = nullptr;
  std::shared_ptr<Queue> queue;
  TENON_TRY(find_device(stream >> kDeviceShift, &device));
  TENON_TRY(device->find_stream(stream, &queue));
  std::shared_ptr<HostFence> wait;
  if (fence != 0) TENON_TRY(fence_at(fence, &wait));
  std::vector<FencePoint> waits;
  if (wait != nullptr) waits.push_back({wait.get(), value});
  queue->submit(std::move(waits), {}, [device, wait, work, context](Queue&) -> Status {
    const std::shared_lock touching(device->touching);
    TENON_TRY(device->alive());
    const DeviceMemory::Access access(device->memory);
    work(context);
    return {};
  });
  return {};
}

Status fence_create(void*, uint32_t ordinal, uint64_t* out) {
  Device* device = nullptr;
  TENON_TRY(find_device(ordinal, &device));
  *out = device->native_of(device->make_fence(0)->number);
  return {};
}

Status fence_destroy(void*, uint64_t handle) {
  std::shared_ptr<HostFence> fence;
  TENON_TRY(fence_at(handle, &fence));
  const std::lock_guard lock(fence->device->objects_mutex);
  fence->device->fences.erase(fence->number);
  return {};
}

Status fence_signal(void*, uint64_t handle, uint64_t value) {
  std::shared_ptr<HostFence> fence;
  TENON_TRY(fence_at(handle, &fence));
  fence->signal(value);
  return {};
}

Status fence_fail(void*, uint64_t handle, uint64_t value) {
  std::shared_ptr<HostFence> fence;
  TENON_TRY(fence_at(handle, &fence));
  fence->fail(value, {TENON_ABORTED, "sim: the owner of a native fence made it fail"});
  return {};
}

Status fence_wait(void*, uint64_t handle, uint64_t value, uint64_t timeout_ns) {
  std::shared_ptr<HostFence> fence;
  TENON_TRY(fence_at(handle, &fence));
  return fence->wait(value, timeout_ns);
}

Status address(void*, uint64_t memory, void** out) {
  Device* device = nullptr;
  uint64_t number = 0, bytes = 0;
  TENON_TRY(find_device(memory >> kDeviceShift, &device));
  TENON_TRY(device->number_of(memory, &number));
  TENON_TRY(device->memory.size(number, &bytes));
  return device->memory.translate(number, 0, bytes, out);
}

}  // namespace

const tenon_sim_native_t kNativeTable = {sizeof(tenon_sim_native_t),
                                         nullptr,
                                         entry<stream_create>,
                                         entry<stream_destroy>,
                                         entry<stream_submit>,
                                         entry<fence_create>,
                                         entry<fence_destroy>,
                                         entry<fence_signal>,
                                         entry<fence_fail>,
                                         entry<fence_wait>,
                                         entry<address>};

}  // namespace tenon::sim
