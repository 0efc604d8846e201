// The parts of a run that are compiled kernels. Each has a call that is prepared once and gets the
// addresses of the values each time.
#ifndef TENON_PLUGINS_CPU_CONTROL_CONTROL_KERNELS_H_
#define TENON_PLUGINS_CPU_CONTROL_CONTROL_KERNELS_H_

#include <vector>

#include "control/control_state.h"

namespace tenon::cpu {

class RunKernels {
 public:
  RunKernels(const LoadedProgram& loaded, const ControlShape& shape, const tenon_call_t& call,
             const RunSizes& sizes, RunValues& values)
      : loaded_(loaded),
        shape_(shape),
        call_(call),
        sizes_(sizes),
        values_(values),
        states_(loaded.parts.size()) {}

  Status run(const ControlPart& part);

 private:
  struct PartState {
    std::vector<tenon_buffer_t> buffers;  // Inputs, outputs, the workspace.
    std::vector<tenon_span_t> spans;
    std::vector<int64_t> symbols;
    std::vector<tenon_output_need_t> needs;
    tenon_call_t call = {};
    uint64_t workspace_bytes = 0;
    bool data_dependent = false, ready = false;
  };

  void prepare(const ControlPart& part, PartState& state);
  void set_sizes(const ControlPart& part, PartState& state);
  Status learn_sizes(const ControlPart& part, PartState& state);

  const LoadedProgram& loaded_;
  const ControlShape& shape_;
  const tenon_call_t& call_;
  const RunSizes& sizes_;
  RunValues& values_;
  std::vector<PartState> states_;  // By artifact.
};

}  // namespace tenon::cpu
#endif
