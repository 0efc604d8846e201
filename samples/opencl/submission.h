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

// Called when all work is done, with the events of timed commands; may fail the signal.
using Done = std::function<tenon_code_t(std::span<const cl_event> timed, std::string* why)>;
// Puts a command on the line's queue. Objects that it refers to must live until the signal.
using Command = std::function<tenon::Status()>;

// A fence that the driver waits for: once it has `signalled`, `wanted` was reached, or never will
// be.
struct NativeWait {
  std::shared_ptr<Fence> fence;
  uint64_t wanted, signalled;
  EventRef end;
};

// State that callbacks refer to; lives until the last callback.
struct Work {
  explicit Work(std::shared_ptr<Line> on) : owner(std::move(on)), line(*owner) {}
  ~Work();

  const std::shared_ptr<Line> owner;  // fences may call after its queue is destroyed
  Line& line;
  tenon_fence_point_t signal = {};
  Done done;
  std::vector<cl_event> timed;
  bool held = false;  // `commands` wait
  cl_int status = CL_COMPLETE;
  std::vector<Command> commands;
  std::vector<NativeWait> native;
  std::atomic<uint32_t> waits{0};  // before it is submitted; then, before its end is reported
  std::atomic<bool> ended{false}, ready{false};  // the driver has done it; its end can be reported
  std::mutex mutex;
  tenon::Fault fault;  // of its waits
};

// Commands that follow wait for the points: in the driver where work of this context signals them,
// else they are held. If a wait fails, held ones do not run, and the signal fails in the same way.
// The driver's may have run: work that is with the driver fails only by what it finds in its own
// results, and kernels clamp.
void wait_for(std::span<const tenon_fence_point_t> points, const std::shared_ptr<Work>& work);
tenon::Status put(Work& work, Command command);
// Signals when all commands before it are done.
tenon::Status signal_after(const std::shared_ptr<Work>& work);

}  // namespace opencl_sample
#endif
