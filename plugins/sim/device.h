// One simulated device: memory of its own, a default queue, and the queues that the host makes.
#ifndef TENON_PLUGINS_SIM_DEVICE_H_
#define TENON_PLUGINS_SIM_DEVICE_H_

#include <memory>
#include <mutex>
#include <vector>

#include "memory.h"
#include "queue.h"
#include "tenon/abi/device.h"
#include "tenon/abi/queue.h"

namespace tenon::sim {

struct Device {
  explicit Device(uint64_t memory_bytes) : memory(memory_bytes) {}
  DeviceMemory memory;
  Queue default_queue;             // what the host submits without naming a queue
  std::mutex queues_mutex;
  std::vector<Queue*> queues;      // the host's, for sync
};

// A queue of the host's and the device it belongs to.
struct HostQueue {
  explicit HostQueue(Device* d) : device(d) {}
  Device* device;
  Queue queue;
};

inline Device* device_of(tenon_device_t* d) { return reinterpret_cast<Device*>(d); }
inline HostQueue* queue_of(tenon_queue_t* q) { return reinterpret_cast<HostQueue*>(q); }
inline Fence* fence_of(tenon_fence_t* f) { return reinterpret_cast<Fence*>(f); }
// Buffers are handles: numbers that are no addresses.
inline uint64_t handle_of(const tenon_buffer_t* b) { return reinterpret_cast<uint64_t>(b); }
inline tenon_buffer_t* buffer_of(uint64_t handle) { return reinterpret_cast<tenon_buffer_t*>(handle); }

inline FencePoint point_of(const tenon_fence_point_t& p) { return {fence_of(p.fence), p.value}; }
std::vector<FencePoint> points_of(const tenon_fence_point_t* points, uint32_t count);

extern const tenon_device_api_t kDeviceTable;
extern const tenon_queue_api_t kQueueTable;

}  // namespace tenon::sim
#endif
