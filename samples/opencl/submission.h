// Work on its way to a queue: what it waits for, its commands, and the signal at the end.
#ifndef OPENCL_SAMPLE_SUBMISSION_H_
#define OPENCL_SAMPLE_SUBMISSION_H_

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "device.h"

namespace opencl_sample {

// Called when all is done, with the events of timed commands; may fail the signal.
using Done = std::function<tenon_code_t(std::span<const cl_event> timed, std::string* why)>;
// Puts a command on the line's queue. What it refers to lives until the signal.
using Command = std::function<tenon::Status()>;

// What callbacks refer to, until the last of them has come.
struct Work {
  explicit Work(std::shared_ptr<Line> on) : owner(std::move(on)), line(*owner) {}
  ~Work();

  const std::shared_ptr<Line> owner;  // fences may call when its queue is gone
  Line& line;
  tenon_fence_point_t signal = {};
  bool waited_for = false;  // whoever submitted it gets its fault, sync need not tell
  Done done;
  std::vector<cl_event> timed;
  bool held = false;  // commands wait below
  std::vector<Command> commands;
  std::atomic<uint32_t> waits{0};
  std::mutex mutex;
  tenon::Fault fault;  // of what it waited for
};

// Commands that follow wait for the points. When one fails they are not run, and the signal fails
// likewise.
void wait_for(std::span<const tenon_fence_point_t> points, const std::shared_ptr<Work>& work);
tenon::Status put(Work& work, Command command);
// What was put before signals when it is done.
tenon::Status signal_after(const std::shared_ptr<Work>& work);

}  // namespace opencl_sample
#endif
