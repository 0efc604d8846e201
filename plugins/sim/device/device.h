// One simulated device: its memory, a default queue, and the queues and fences that the host
// creates.
#ifndef TENON_PLUGINS_SIM_DEVICE_H_
#define TENON_PLUGINS_SIM_DEVICE_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_set>
#include <vector>

#include "plugins/sim/device/injection.h"
#include "plugins/sim/device/memory.h"
#include "plugins/sim/device/native.h"
#include "plugins/sim/device/queue.h"
#include "plugins/sim/device/statistics.h"
#include "tenon/abi/device.h"
#include "tenon/abi/exchange.h"
#include "tenon/abi/queue.h"

namespace tenon::sim {

struct HostFence;

// A native handle has its device in the upper bits, because both devices number their objects.
inline constexpr int kDeviceShift = 56;

struct Device {
  Device(uint32_t which, uint64_t memory_bytes)
      : ordinal(which),
        memory(memory_bytes),
        injection(which),
        default_queue(std::make_shared<Queue>()) {
    queues.push_back(default_queue);
    const std::lock_guard lock(all_mutex());
    all().insert(this);
  }
  ~Device() {
    const std::lock_guard lock(all_mutex());
    all().erase(this);
  }
  Device(const Device&) = delete;

  // DEVICE_LOST as soon as the device is lost.
  Status alive() const;
  // The first step of every command (kCopy, kLaunch), on its queue's thread: takes the latency, or
  // injects a fault.
  Status begin_command(Event event, Queue& queue);
  // Allocates for the host or for executables.
  Status alloc(uint64_t size_bytes, uint64_t* out_handle);
  void lose();
  bool is_pinned(const void* data, uint64_t length_bytes);

  // Native handles: of buffers, streams and fences, which are numbered. INVALID_ARGUMENT with a
  // reason for one that is none.
  uint64_t native_of(uint64_t number) const;
  Status number_of(uint64_t handle, uint64_t* out) const;
  Status find_stream(uint64_t handle, std::shared_ptr<Queue>* out);
  Status find_fence(uint64_t handle, std::shared_ptr<HostFence>* out);
  std::shared_ptr<HostFence> make_fence(uint64_t initial);
  uint64_t add_stream(const std::shared_ptr<Queue>& queue);  // its number
  void drop_stream(uint64_t number);

  const uint32_t ordinal;
  DeviceMemory memory;
  Injection injection;
  std::atomic<bool> lost{false};
  std::shared_mutex touching;  // held by commands while they access memory, so that a loss is
                               // reported only after they end
  const std::shared_ptr<Queue> default_queue;  // for work of the host without a queue
  std::mutex objects_mutex;
  std::vector<std::shared_ptr<Queue>> queues;
  std::map<uint64_t, std::shared_ptr<HostFence>> fences;  // by number
  std::map<uint64_t, std::shared_ptr<Queue>> streams;     // by number; not the default queue
  uint64_t next_object = 1;
  std::map<const char*, uint64_t> pinned;  // address -> bytes
  std::atomic<uint64_t> copies{0}, launches{0}, pinned_copies{0};

  // The open devices of this process, for statistics.
  static std::mutex& all_mutex();
  static std::unordered_set<Device*>& all();
};

// Counts a command as running during the lifetime of this object.
class Running {
 public:
  explicit Running(uint32_t ordinal);
  ~Running();
  Running(const Running&) = delete;

 private:
  const uint32_t ordinal_;
};

// A queue of the host, and the device that it belongs to.
struct HostQueue {
  Device* device = nullptr;
  std::shared_ptr<Queue> queue;
  uint64_t stream = 0;  // its number; 0: the stream of another library
};

struct HostFence : Fence {
  HostFence(Device* d, uint64_t initial, uint64_t its_number)
      : Fence(initial), device(d), number(its_number) {}
  Device* device;
  const uint64_t number;
};

// Whether the device is to hold work back that waits (TENON_SIM_HOLD).
bool holds_back();

inline Device* device_of(tenon_device_t* d) {
  return reinterpret_cast<Device*>(d);
}
inline HostQueue* queue_of(tenon_queue_t* q) {
  return reinterpret_cast<HostQueue*>(q);
}
inline HostFence* fence_of(tenon_fence_t* f) {
  return reinterpret_cast<HostFence*>(f);
}
// Buffers are handles: numbers that are not addresses.
inline uint64_t handle_of(const tenon_buffer_t* b) {
  return reinterpret_cast<uint64_t>(b);
}
inline tenon_buffer_t* buffer_of(uint64_t handle) {
  return reinterpret_cast<tenon_buffer_t*>(handle);
}

inline FencePoint point_of(const tenon_fence_point_t& p) {
  return {fence_of(p.fence), p.value};
}
std::vector<FencePoint> points_of(const tenon_fence_point_t* points, uint32_t count);

extern const tenon_device_api_t kDeviceTable;
// Whether this is the target of one of these devices.
bool is_target(std::string_view target);
extern const tenon_queue_api_t kQueueTable;
extern const tenon_exchange_api_t kExchangeTable;
extern const tenon_sim_statistics_t kStatisticsTable;
extern const tenon_sim_native_t kNativeTable;

}  // namespace tenon::sim
#endif
