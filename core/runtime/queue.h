// One asynchronous queue of a device with a fence that counts what was submitted. Belongs to one run at a time.
#pragma once
#include <memory>

#include "core/runtime/device.h"

namespace tenon::runtime {

class Queue {
 public:
  static Result<std::unique_ptr<Queue>> create(std::shared_ptr<Device> device);
  ~Queue();  // waits for its work

  tenon_queue_t* handle() const { return queue_; }
  // The point that the next submitted piece of work signals.
  tenon_fence_point_t next_signal() { return {fence_, ++submitted_}; }
  // Takes back the last next_signal() of work that was refused at submission.
  void retract_signal() { --submitted_; }
  // The point after all work so far; the null point when there is none.
  tenon_fence_point_t last() const { return submitted_ == 0 ? tenon_fence_point_t{} : tenon_fence_point_t{fence_, submitted_}; }
  // Submits a copy; host memory it names stays valid until wait().
  Status copy(const tenon_copy_t& copy);
  // Waits for all work; its first error. T0617 when the device does not finish it in TENON_LIMIT_DEVICE_WAIT_SECONDS: it is abandoned. A cancelled operation still waits, since buffers are in use, and says so.
  Status wait();
  // After a failure of wait() the fence is poisoned and a new queue is needed.
  bool failed() const { return failed_; }

 private:
  Status give_up();
  explicit Queue(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  std::shared_ptr<Device> device_;
  tenon_queue_t* queue_ = nullptr;
  tenon_fence_t* fence_ = nullptr;
  uint64_t submitted_ = 0, waited_ = 0;
  bool failed_ = false;
};

}  // namespace tenon::runtime
