// What a run has found out that the next one at the same sizes need not find out again: sizes,
// needs, working memory, and where tensors lie (docs/adr/0059). For plans of one piece of work on a
// device that works in host memory and has finished when it returns: there a run is worth
// repeating, since the rest of it takes longer than a small kernel.
//
// A call that repeats a run names every input, and every output if outputs leave the Runner, and
// then calls Runner::run_again. Each of these may find that this run differs from the previous one.
// What is known is then forgotten, and Runner::run does all of it again.
//
// Threads: one at a time, as its Runner.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/runtime/run/context.h"

namespace tenon::runtime {

class Repeat {
 public:
  // Null if runs of this plan cannot be repeated.
  static std::unique_ptr<Repeat> of(RunContext& run);

  // A run is known, and nothing was forgotten since.
  bool ready() const { return ready_; }
  // Its outputs are the caller's memory or tensors, as each run says. Otherwise they are the
  // Runner's, in the same place as before.
  bool outputs_leave() const { return outputs_leave_; }
  void forget() { ready_ = false; }

  // Whether the input is the tensor of the run before. A tensor's number is its own for good, so
  // that nothing else need be compared, and nothing is kept alive for it.
  bool keeps(uint32_t input, const Tensor& tensor) const {
    return values_[input] == tensor.value();
  }
  // False if nothing about this tensor, array, or memory for an output is known from the last run.
  bool take(uint32_t input, const Tensor& tensor);
  bool take(uint32_t input, const tenon_array_t& array);
  bool give(uint32_t output, const tenon_array_t& array);
  // The output becomes a tensor: take_made. False as above.
  bool make(uint32_t output);

  // For the Runner. What a run that has just succeeded has found out. Is ready afterwards if all of
  // it lies where the next run finds it.
  void remember(std::span<const Argument> inputs, std::span<const OutputArray> outputs,
                bool outputs_leave);
  // As Runner::run_again, but that drop_failed() must follow unless it has succeeded.
  std::optional<Status> run();
  void drop_failed();
  // As Runner::take_made.
  std::shared_ptr<Tensor> take_made(uint32_t output);
  // Gives a workspace of so many bytes or more back to its pool.
  void release_workspace(uint64_t least_bytes);

 private:
  // Memory of the caller; empty for what the host cannot read.
  struct Range {
    uintptr_t begin = 0, end = 0;
    bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
    bool operator==(const Range&) const = default;
  };
  // An input or an output: its type, and the place of it in the device's call.
  struct Known {
    uint32_t span = kNone;  // kNone: no step reads it
    tenon_dtype_t dtype = TENON_DTYPE_NONE;
    std::vector<int64_t> dims;
    uint64_t bytes = 0;        // that the device is given
    uint64_t value_bytes = 0;  // of an output: of its elements
    Range range;
    bool made = false;               // an output that becomes a tensor
    std::shared_ptr<Buffer> buffer;  // made: in the run and until it is taken
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint64_t kArray = UINT64_MAX;  // in place of a tensor's number

  Repeat(RunContext& run, const Step& step);
  static bool fits(const Plan& plan, const Step& step);
  static bool same_type(const Known& known, const tenon_array_t& array);
  // Whether no output lies in memory of an input or of another output, as far as that may have
  // changed since the run before.
  bool apart();
  bool remember_input(uint32_t index, const Argument& input);
  bool remember_output(uint32_t index, const OutputArray& output);
  class Imports;
  bool import_inputs(Imports& imports);
  Result<bool> place_outputs(Imports& imports);
  tenon_call_t next_call() const;

  RunContext& run_;
  Device& device_;
  Executable& executable_;
  const Step& step_;
  bool ready_ = false, outputs_leave_ = false;
  std::vector<uint64_t> values_;  // by input: of tensors
  std::vector<Known> inputs_, outputs_;
  std::vector<uint32_t> arrays_;                          // inputs that are arrays
  std::vector<uint32_t> moved_inputs_, moved_outputs_;    // whose memory is another one
  std::vector<tenon_span_t> input_spans_, output_spans_;  // of the device's call
  std::vector<int64_t> symbols_;
  uint64_t workspace_bytes_ = 0;
  std::shared_ptr<Buffer> workspace_;      // of the Runner's pool; kept from run to run
  std::vector<tenon_buffer_t*> imported_;  // in a run
};

}  // namespace tenon::runtime
