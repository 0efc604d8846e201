// Runs a plan: places inputs, walks the steps, keeps memory between runs.
//
// Threads: one at a time per Runner; several Runners of one plan may run at once.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/runtime/device/native.h"
#include "core/runtime/device/queue.h"
#include "core/runtime/device/relay.h"
#include "core/runtime/run/arguments.h"
#include "core/runtime/run/buffer_pool.h"
#include "core/runtime/run/plan.h"
#include "core/runtime/run/repeat.h"
#include "core/runtime/run/trace.h"

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
  const std::vector<OutputArray>& outputs() const { return outputs_; }
  // Moves the memory of an output of the last run out of the Runner, to a caller that may keep it
  // for good, and write to it unless it stayed. *out_copied_bytes grows by what had to be copied,
  // because the memory is that of a constant or of another output as well, or much larger than the
  // output. At most once for each output.
  Result<std::shared_ptr<Tensor>> detach(size_t output, uint64_t* out_copied_bytes);
  // Ends the use of a call's arrays and outputs; buffers are kept for the next run, or for another
  // one that needs them earlier.
  void end_call();
  // Before anything else is done after end_call().
  void begin_call();
  // What is known of the last run, so that the next one can do with that; null if runs of this plan
  // are not repeated.
  Repeat* repeat() { return repeat_.get(); }
  // As `run`, once the ready repeat() has all that is given. Nothing if the run must be a whole one
  // after all; nothing was done then. timed: statistics().run_ms is of this run.
  std::optional<Status> run_again(bool timed);
  // An output of that run that became a tensor: once, before the next run.
  std::shared_ptr<Tensor> take_made(uint32_t output);
  const RunStatistics& statistics() const { return statistics_; }
  // reclaim: frees memory that others keep without need; false if there was none.
  void set_reclaim(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }
  // false: statistics().run_ms stays 0. Two readings of a clock are 3 % of a small run.
  void set_timed(bool timed) { timed_ = timed; }
  void set_trace(std::shared_ptr<Trace> trace) {  // null: no profile
    trace_ = std::move(trace);
    if (repeat_ != nullptr) repeat_->forget();
  }

 private:
  struct Place;
  struct DeviceState;
  struct SlotState;

  Result<uint32_t> device_of(const Native& native, std::string_view what) const;
  Status await_natives(std::span<const Native> waits);
  Status join_stream(const Native& native);
  Status follow_stream(uint32_t device, const Native& native);
  Status mark(uint32_t device);
  Status join(const Natives& natives);
  Status signal_natives();
  void leave_streams();
  Status run_steps(std::span<const Argument> inputs, std::span<const GivenSize> sizes);
  Status place_inputs(std::span<const Argument> inputs, std::span<const GivenSize> sizes);
  Status place_array(uint32_t slot, const tenon_array_t& array);
  Status place_tensor(uint32_t slot, const Argument& input);
  void take_tensor(uint32_t slot);
  void take_donated();
  Result<std::shared_ptr<Buffer>> take_buffer(uint32_t device, uint64_t size_bytes,
                                              bool* out_used = nullptr, bool leaves = false);
  Result<std::shared_ptr<Buffer>> take_workspace(uint32_t device, uint64_t size_bytes);
  Result<std::shared_ptr<std::byte>> take_host(uint64_t size_bytes, bool zeroed);
  // Memory for a copy from a device to the host, pinned if there is such memory.
  Result<std::shared_ptr<std::byte>> take_landing(uint32_t slot, uint32_t from,
                                                  uint64_t size_bytes);
  // Once more if memory was short and others gave some back.
  template <class Take>
  auto or_reclaimed(Take take) {
    auto taken = take();
    const bool again =
        !taken.ok() && taken.status().code() == TENON_RESOURCE_EXHAUSTED && reclaim_ && reclaim_();
    return again ? take() : std::move(taken);
  }
  bool can_repeat(std::span<const Argument> inputs, std::span<const GivenSize> sizes,
                  const Natives& natives) const;
  void remember(std::span<const Argument> inputs, bool outputs_leave);
  bool remember_input(uint32_t index, const Argument& input);
  bool remember_output(uint32_t index, const Needs::Output& need);
  void forget_repeat();
  void let_others_have(Repeat& repeat);
  std::optional<Status> repeat_work();
  class Imports;
  Result<bool> place_again(Imports& imports);
  void let_leave(std::span<const uint8_t> stays);
  void set_homes(std::span<const Home> homes);
  void keep_copies();
  Status solve_symbols(std::span<const Argument> inputs, std::span<const GivenSize> sizes);
  Result<const Needs*> needs_of(uint32_t executable, std::span<const int64_t> symbols);
  Status execute(uint32_t index);
  Status learn_symbols(const Step& step, std::span<const int64_t> out_symbols);
  Status copy_to_device(uint32_t slot, uint32_t device);
  Status upload(uint32_t slot, uint32_t device, uint64_t bytes, tenon_fence_point_t after);
  Result<Queue*> queue_for_copies(uint32_t device, uint64_t bytes);
  Result<bool> reaches(uint32_t device, uint32_t from);
  Result<bool> leaves_at_once(uint32_t slot, uint32_t from);
  Result<bool> copy_straight(uint32_t slot, uint32_t device, uint64_t bytes);
  Result<bool> copy_from_beside(uint32_t slot, uint32_t device, uint64_t bytes);
  Status submit_straight(uint32_t slot, const Buffer& from, uint32_t to, uint64_t bytes,
                         tenon_fence_point_t made);
  const void* staged(uint32_t device, const void* data, uint64_t bytes);
  Status copy_to_host(uint32_t slot);
  Status submit_copy_to_host(uint32_t slot, uint32_t from, uint64_t bytes);
  Status await_host(uint32_t slot);
  Status own_host(uint32_t slot);
  Result<std::shared_ptr<Tensor>> make_tensor(size_t output, uint64_t* out_copied_bytes);
  Status relay_to(uint32_t slot, uint32_t device, tenon_fence_point_t* out);
  Status queue_of(uint32_t device);
  Status wait_for(uint32_t device, Queue& queue, uint64_t value);
  Status wait(uint32_t device);
  Status wait_all();
  uint64_t progress() const;
  void give_up_one(uint32_t waited_for);
  bool release_abandoned();
  void release_readers(uint32_t given_up);
  void end_queues();
  Status check_made(const Step& step) const;
  std::shared_ptr<Buffer> given_up_for(uint32_t step, const Needs::Output& output);
  bool replaces_input(uint32_t step, uint32_t slot, const Needs::Output& output) const;
  Status take_home(uint32_t slot, uint32_t device, uint64_t size_bytes, bool in_place);
  Status place_output(uint32_t step, size_t output, const Needs::Output& need);
  Status take_outputs();
  void release_dead(uint32_t step);
  void drop_run_state();
  void drop_sinks();
  void drop_imports();
  Status bytes_of(uint32_t slot, uint64_t* out) const;

  std::shared_ptr<const Plan> plan_;
  std::vector<DeviceState> devices_;
  std::vector<SlotState> slots_;
  std::vector<int64_t> symbols_;
  // Memory that steps use again, so that a run of known sizes allocates little.
  struct Scratch {
    std::vector<int64_t> dims, symbols;
    std::vector<tenon_span_t> inputs, outputs;
    std::vector<tenon_fence_point_t> waits;
    std::vector<uint32_t> reads;  // by slot: how often the step that runs reads it, if it does
  };
  mutable Scratch scratch_;
  bool solved_ = false;
  std::vector<int64_t> solved_dims_;  // of all inputs, for which solved_symbols_ is the solution
  std::vector<int64_t> solved_symbols_;
  static constexpr uint64_t kUnknownBytes = UINT64_MAX;
  mutable std::vector<uint64_t> slot_bytes_;  // of values with the symbols of this run, once asked
  bool out_symbols_known_ = true;  // false: a step of the last run has set symbols of its own
  struct StepNeeds {
    std::vector<int64_t> symbols;
    std::shared_ptr<const Needs> needs;  // null before the first run
  };
  std::vector<StepNeeds> step_needs_;             // by executable: for the sizes of the last run
  std::vector<bool> set_symbols_;                 // by symbol: a step of this run has set it
  std::deque<std::vector<int64_t>> out_symbols_;  // of this run: lent to devices, which may write
                                                  // them until their queues have ended
  std::vector<std::pair<uint32_t, std::unique_ptr<NativeFence>>> signals_;  // by device
  std::vector<std::shared_ptr<std::byte>> staged_;  // uploads that devices read in this run
  std::vector<OutputArray> outputs_, spare_outputs_;
  RunStatistics statistics_;
  Status given_up_;  // of this run: why a device was abandoned
  bool timed_ = true;
  std::function<bool()> reclaim_;
  std::shared_ptr<Trace> trace_;
  std::vector<std::unique_ptr<TraceSink>> sinks_;  // one per device, while a trace is taken
  std::vector<std::vector<uint32_t>> dead_after_;  // by step: slots that no later step reads
  std::vector<bool> crosses_;  // by slot: copied from where it is made to a device
  std::vector<bool> leaves_;   // by slot, in this run: the same, or brought to the host
  std::vector<bool> stays_;    // by slot, in this run: no output of it must be on the host
  std::vector<bool> relayed_;  // by slot: it is copied to a device with a queue
  std::vector<std::vector<uint32_t>> targets_;  // by slot: the devices that it is copied to
  std::vector<Home> homes_;                     // by slot, in this run; empty: there are none
  std::unique_ptr<Repeat> repeat_;              // null: runs of this plan are not repeated
  bool clean_ = true;                           // there is no state of a run
};

}  // namespace tenon::runtime
