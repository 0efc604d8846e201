// Work on its way to a queue: what it waits for, its commands, and the signal at the end.
#ifndef OPENCL_SAMPLE_SUBMISSION_H_
#define OPENCL_SAMPLE_SUBMISSION_H_

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "device.h"

namespace opencl_sample {

// Called when all is done, with the events of timed commands; may fail the signal.
using Done = std::function<tenon_code_t(std::span<const cl_event> timed, std::string* why)>;

// What callbacks of the runtime refer to, until the last of them has come.
struct Work {
  Line* line = nullptr;
  tenon_fence_point_t signal = {};
  bool waited_for = false;  // whoever submitted it gets its fault, sync need not tell
  Done done;
  std::vector<cl_event> timed;
  std::mutex mutex;
  tenon::Fault fault;  // of what it waited for

  ~Work();
};

// Commands that follow on the line wait for the points. A point that fails terminates them.
tenon::Status wait_for(Device& device, Line& line, std::span<const tenon_fence_point_t> points, const std::shared_ptr<Work>& work);

// What was enqueued before signals when it is done.
tenon::Status signal_after(const std::shared_ptr<Work>& work);

}  // namespace opencl_sample
#endif
