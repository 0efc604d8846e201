// The steps of a run.
#pragma once
#include <memory>
#include <vector>

#include "core/runtime/run/context.h"
#include "core/runtime/run/trace.h"

namespace tenon::runtime {

// Walks the steps of the plan: copies values, executes work, and returns buffers to their pools
// after the last step that reads them. Sizes that only work determines are awaited.
class Steps {
 public:
  explicit Steps(RunContext& run);
  ~Steps() { drop_sinks(); }
  void set_trace(std::shared_ptr<Trace> trace) { trace_ = std::move(trace); }
  bool traced() const { return trace_ != nullptr; }
  void begin_run();
  // Once the inputs are in their places. Work may be on its way afterwards, also after a failure.
  Status run();

 private:
  void drop_sinks();
  Status run_step(uint32_t index);
  void trace_step(const Step& step, uint64_t begin_ns, uint64_t transferred_bytes);
  void release_dead(uint32_t index);
  Status execute(uint32_t index);
  void list_inputs(const Step& step);
  Status place_outputs(uint32_t index, const Needs& needs);
  Status check_need(const Step& step, size_t output, const Needs::Output& need);
  tenon_call_t call_of(const Step& step, const Sizes::OfStep& sizes, const Buffer* workspace);
  Status submit(const Step& step, tenon_call_t call);
  Status execute_now(const Step& step, tenon_call_t call, bool asks);
  Status check_made(const Step& step);
  Status send_outputs(const Step& step, bool queued);

  RunContext& run_;
  std::vector<std::vector<uint32_t>> dead_after_;  // by step: slots that no later step reads
  // Of the step that runs; kept, so that a run of known sizes allocates little.
  std::vector<tenon_span_t> inputs_, outputs_;
  std::vector<tenon_fence_point_t> waits_;
  std::shared_ptr<Trace> trace_;                   // null: no profile
  std::vector<std::unique_ptr<TraceSink>> sinks_;  // one per device, while a trace is taken
};

// Gives an output of a step its buffer, once SlotState::reads counts for this step: that of an
// input which nothing else reads, that of the caller, or a new one. With the buffer of the input
// that it shares, that one has none, or this one too.
Status place_output(RunContext& run, uint32_t step, size_t output, const Needs::Output& need);

}  // namespace tenon::runtime
