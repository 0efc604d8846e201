// The memory of a Runner: buffers of its devices and memory of the host.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "core/runtime/run/run_state.h"

namespace tenon::runtime {

// Buffers of one device for one Runner, reused by later steps and runs, and by other Runners
// between its own calls: a forward and a backward program hold what the larger one needs, not both.
class BufferPool {
 public:
  // wait: ends the work that may still use returned buffers, or fails with the reason.
  BufferPool(std::shared_ptr<Device> device, std::function<Status()> wait)
      : device_(std::move(device)), wait_(std::move(wait)) {}
  BufferPool(BufferPool&&) = default;  // not while they are offered
  ~BufferPool() { withdraw(); }
  // If the device is out of memory, waits and frees unused buffers. Fails as `wait` and
  // Buffer::allocate do. *out_used: earlier work of the run may still use it. leaves: it may not
  // come back.
  Result<std::shared_ptr<Buffer>> take(uint64_t size_bytes, bool* out_used = nullptr,
                                       bool leaves = false);
  void give_back(std::shared_ptr<Buffer> buffer);
  // The buffer was taken from here and does not come back.
  void forget(const Buffer& buffer) { held_bytes_ -= buffer.size_bytes(); }
  // The buffer was made elsewhere and comes back here.
  void adopt(const Buffer& buffer) { held_bytes_ += buffer.size_bytes(); }
  // No earlier work uses what was given back so far.
  void begin_run();
  // Frees buffers that the run just ended did not use.
  void end_run();
  // Between these two any thread may take free buffers from here, and nothing else may be done with
  // it. Only devices whose work has finished when a call returns are concerned.
  void offer();
  void withdraw();
  uint64_t held_bytes() const { return held_bytes_; }

 private:
  struct Free {
    std::shared_ptr<Buffer> buffer;
    bool used = true;  // in this run
  };
  Free* best_fit(uint64_t size_bytes, uint64_t slack_bytes);
  std::shared_ptr<Buffer> remove(Free* free);
  std::shared_ptr<Buffer> take_offered(uint64_t size_bytes, uint64_t slack_bytes);
  std::shared_ptr<Device> device_;
  std::function<Status()> wait_;
  std::vector<Free> free_;
  uint64_t held_bytes_ = 0;
  bool offered_ = false;
};

// A pool for each device, the sizes of workspaces, and host memory. Where memory is short, asks
// others for what they keep without need.
class RunMemory {
 public:
  // wait: ends the work of a device that may still use returned buffers, or fails with the reason.
  RunMemory(const Plan& plan, std::function<Status(uint32_t device)> wait);
  RunMemory(const RunMemory&) = delete;

  // reclaim: frees memory that others keep without need; false if there was none.
  void set_reclaim(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }
  void begin_run();
  // Returns the bytes that the run has used.
  uint64_t end_run();
  // Both as those of BufferPool.
  void offer();
  void withdraw();

  BufferPool& pool(uint32_t device) { return devices_[device].pool; }
  Result<std::shared_ptr<Buffer>> take(uint32_t device, uint64_t size_bytes,
                                       bool* out_used = nullptr, bool leaves = false);
  Result<std::shared_ptr<Buffer>> take_workspace(uint32_t device, uint64_t size_bytes);
  Result<std::shared_ptr<std::byte>> take_host(uint64_t size_bytes, bool zeroed);
  // Empties the place. A buffer of a pool goes back to it.
  void release(uint32_t device, SlotPlace& place);

 private:
  struct OfDevice {
    BufferPool pool;
    // The largest of this run so far, and of the run before: every step takes as much, so that one
    // buffer serves all of them.
    uint64_t workspace_bytes = 0, last_workspace_bytes = 0;
  };
  template <class Take>
  auto or_reclaimed(Take take);
  std::function<Status(uint32_t device)> wait_;
  std::function<bool()> reclaim_;
  std::vector<OfDevice> devices_;
};

}  // namespace tenon::runtime
