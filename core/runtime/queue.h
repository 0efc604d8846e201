// One asynchronous queue of a device with a fence that counts what was submitted. Belongs to one
// run at a time.
#pragma once
#include <memory>

#include "core/runtime/device.h"

namespace tenon::runtime {

// Waits a moment for a value of a fence: DEADLINE_EXCEEDED when it is not reached. What fence_query
// says counts as well: a device whose waits end too early, again and again, would otherwise hold a
// run whose work is done until it is given up.
tenon_code_t wait_a_moment(const tenon_queue_api_t* api, tenon_fence_t* fence, uint64_t value);

class Queue {
 public:
  static Result<std::unique_ptr<Queue>> create(std::shared_ptr<Device> device);
  ~Queue();  // waits for its work

  tenon_queue_t* handle() const { return queue_; }
  Device& device() const { return *device_; }
  // The point that the next submitted piece of work signals.
  tenon_fence_point_t next_signal() { return {fence_, ++submitted_}; }
  // Takes back the last next_signal() of work that was refused at submission. What it names is used
  // again when the queue has ended, not on the plugin's word alone.
  void refused() {
    --submitted_;
    failed_ = true;
  }
  // The point after all work so far; the null point when there is none.
  tenon_fence_point_t last() const {
    return submitted_ == 0 ? tenon_fence_point_t{} : tenon_fence_point_t{fence_, submitted_};
  }
  tenon_fence_t* fence() const { return fence_; }
  uint64_t submitted() const { return submitted_; }
  // Submits a copy that begins after `after` (the null point: after what was submitted before);
  // host memory it names stays valid until then.
  Status copy(const tenon_copy_t& copy, tenon_fence_point_t after = {});
  // Known from a wait.
  bool reached(uint64_t value) const { return value <= reached_; }
  // Waits a moment for the work up to `value`; false when it is not done, its first error when it
  // failed.
  Result<bool> poll(uint64_t value);
  // Grows while work is done, as far as the device says.
  uint64_t progress() const;
  // After a failure of poll() the fence is poisoned, and refused work may be in flight: a new queue
  // is needed.
  bool failed() const { return failed_; }

 private:
  explicit Queue(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  std::shared_ptr<Device> device_;
  tenon_queue_t* queue_ = nullptr;
  tenon_fence_t* fence_ = nullptr;
  uint64_t submitted_ = 0, reached_ = 0;
  bool failed_ = false;
};

}  // namespace tenon::runtime
