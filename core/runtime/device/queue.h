// One asynchronous queue of a device, with a fence that counts submissions. Belongs to one run at a
// time.
#pragma once
#include <initializer_list>
#include <memory>

#include "core/runtime/device/device.h"

namespace tenon::runtime {

// A copy of no bytes to a buffer, which only waits and signals. Every device takes such a copy.
tenon_copy_t copy_of_nothing(tenon_buffer_t* any);

// Waits briefly for a value of a fence; DEADLINE_EXCEEDED if it is not reached. fence_query counts
// as well: otherwise a device whose waits keep returning early would hold up a run whose work is
// done until the device is given up.
tenon_code_t wait_a_moment(const tenon_queue_api_t* api, tenon_fence_t* fence, uint64_t value);

// Waits until the fence has the value, but at most Limit::kDeviceWaitSeconds. *out_code: OK; the
// code that the fence failed with, whose reason is this thread's failure; DEADLINE_EXCEEDED,
// without a reason, if neither came in time. T0001 if the operation is cancelled, unless
// `to_the_end`.
Status await_value(const tenon_queue_api_t* api, tenon_fence_point_t point, bool to_the_end,
                   tenon_code_t* out_code);

class Queue {
 public:
  static Result<std::unique_ptr<Queue>> create(std::shared_ptr<Device> device);
  // Makes a queue of a native stream, which outlives it. T0635 if the device takes none.
  static Result<std::unique_ptr<Queue>> import(std::shared_ptr<Device> device,
                                               const tenon_native_handle_t& stream);
  ~Queue();  // waits for its work

  tenon_queue_t* handle() const { return queue_; }
  Device& device() const { return *device_; }
  // The point that the next piece of submitted work signals.
  tenon_fence_point_t next_signal() { return {fence_, ++submitted_}; }
  // Takes back the last next_signal(), for work that was refused at submission. The memory it named
  // is reused only when the queue has ended, not on the plugin's word alone.
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
  using Points = std::initializer_list<tenon_fence_point_t>;  // null points are none
  // Submits a copy that begins after these points, and after all earlier submissions. Host memory
  // that it names must stay valid until the copy is done.
  Status copy(const tenon_copy_t& copy, Points after = {});
  // The same for a FILL; false if the device takes none.
  Result<bool> fill(const tenon_copy_t& copy, Points after);
  // Whether its copies may read memory of `from`, another open device of the plugin.
  Result<bool> reaches(Device& from);
  // From here on its work may fail with what befell another device.
  void set_reads_others() { reads_others_ = true; }
  // Submits nothing but a signal, its own or that of another fence, after all earlier work; the
  // latter after a point of another queue, too. `any`: a buffer of the device, which is not
  // touched.
  Status mark(tenon_buffer_t* any);
  Status signal(tenon_buffer_t* any, tenon_fence_point_t point, tenon_fence_point_t after);
  // Waits for its work, after which nothing can be submitted. Only then may fences go that its work
  // waited for.
  void end();
  // As known from earlier waits.
  bool reached(uint64_t value) const { return value <= reached_; }
  // Waits briefly for the work up to `value`; false if it is not done, the first error if it
  // failed.
  Result<bool> poll(uint64_t value);
  // The first value whose work failed; 0 if none did. All work has ended.
  uint64_t first_failed() const;
  // Grows as work completes, as far as the device reports it.
  uint64_t progress() const;
  // After poll() has failed the fence is poisoned, and refused work may be in flight: a new queue
  // is needed.
  bool failed() const { return failed_; }

 private:
  explicit Queue(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  Status make_fence();
  Status submit(const tenon_copy_t& copy, Points after, tenon_fence_point_t signal);
  Status status_of_wait(tenon_code_t code);
  std::shared_ptr<Device> device_;
  tenon_queue_t* queue_ = nullptr;
  tenon_fence_t* fence_ = nullptr;
  uint64_t submitted_ = 0, reached_ = 0;
  bool failed_ = false;
  bool reads_others_ = false;
};

}  // namespace tenon::runtime
