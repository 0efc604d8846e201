// Successive runs of a plan. Each part of a run has its own file, which decides how it is done. The
// Runner decides the order of the parts, and what is left after a failure.
//
// Threads: one at a time per Runner; several Runners of one plan may run at once.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/runtime/run/outputs.h"
#include "core/runtime/run/repeat.h"
#include "core/runtime/run/steps.h"

namespace tenon::runtime {

class Runner {
 public:
  explicit Runner(std::shared_ptr<const Plan> plan);
  ~Runner();

  // Runs to the end. inputs: one per input, checked by Shapes::check_input or, for tensors,
  // Shapes::check_type; borrowed for the call. stays: one per output, not 0 if it need not be on
  // the host; or none, and all are brought there. homes: one per output, or none. An output that
  // was made in its home has its data there. After a failure homes may have been written, and the
  // Runner, its devices (unless lost) and the process are usable. natives: what the run waits for,
  // signals and submits to, as tenon_program_call_t says.
  Status run(std::span<const Argument> inputs, std::span<const uint8_t> stays = {},
             std::span<const GivenSize> sizes = {}, std::span<const Home> homes = {},
             const Natives& natives = {});
  // Dense outputs of the last successful run; valid until the next run, even if the inputs change.
  const std::vector<OutputArray>& outputs() const { return outputs_.arrays(); }
  // Moves the memory of an output of the last run out of the Runner, to a caller that may keep it
  // for good, and write to it unless it stayed. *out_copied_bytes grows by what had to be copied,
  // because the memory is that of a constant or of another output as well, or much larger than the
  // output. At most once for each output.
  Result<std::shared_ptr<Tensor>> detach(size_t output, uint64_t* out_copied_bytes) {
    return outputs_.detach(output, out_copied_bytes);
  }
  // Ends the use of a call's arrays and outputs; buffers are kept for the next run, or for another
  // one that needs them earlier.
  void end_call();
  // Before anything else is done after end_call().
  void begin_call() { run_.memory.withdraw(); }
  // What is known of the last run, so that the next one can do with that; null if runs of this plan
  // are not repeated.
  Repeat* repeat() { return repeat_.get(); }
  // As `run`, once the ready repeat() has all that is given. Nothing if the run must be a whole one
  // after all; nothing was done then. timed: statistics().run_ms is of this run.
  std::optional<Status> run_again(bool timed);
  // An output of that run that became a tensor: once, before the next run.
  std::shared_ptr<Tensor> take_made(uint32_t output) { return repeat_->take_made(output); }
  const RunStatistics& statistics() const { return run_.statistics; }
  // reclaim: frees memory that others keep without need; false if there was none.
  void set_reclaim(std::function<bool()> reclaim) { run_.memory.set_reclaim(std::move(reclaim)); }
  // false: statistics().run_ms stays 0. Two readings of a clock are 3 % of a small run.
  void set_timed(bool timed) { timed_ = timed; }
  void set_trace(std::shared_ptr<Trace> trace) {  // null: no profile
    steps_.set_trace(std::move(trace));
    if (repeat_ != nullptr) repeat_->forget();
  }

 private:
  void begin_run(std::span<const uint8_t> stays, std::span<const Home> homes);
  Status do_steps(std::span<const Argument> inputs, std::span<const GivenSize> sizes,
                  const Natives& natives);
  void drop_thrown();
  bool can_repeat(std::span<const Argument> inputs, std::span<const GivenSize> sizes,
                  const Natives& natives) const;
  void drop_run_state();

  std::shared_ptr<const Plan> plan_;
  RunContext run_{*plan_};
  Streams streams_{run_};
  Steps steps_{run_};
  Outputs outputs_{run_};
  std::unique_ptr<Repeat> repeat_;  // null: runs of this plan are not repeated
  bool timed_ = true;
  bool clean_ = true;  // there is no state of a run
};

}  // namespace tenon::runtime
