// The buffers of a Runner that are free between steps and between runs.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "core/runtime/device/device.h"

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

}  // namespace tenon::runtime
