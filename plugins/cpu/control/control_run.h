// One execution of a control program: its regions, part by part. Included by the files that run the
// kinds of parts.
#ifndef TENON_PLUGINS_CPU_CONTROL_CONTROL_RUN_H_
#define TENON_PLUGINS_CPU_CONTROL_CONTROL_RUN_H_

#include "control/control_kernels.h"
#include "control/control_state.h"

namespace tenon::cpu {

class ControlRun {
 public:
  // base, bytes: the caller's workspace.
  ControlRun(const LoadedProgram& loaded, const ControlShape& shape, const tenon_call_t& call,
             char* base, uint64_t bytes)
      : loaded_(loaded),
        program_(loaded.program),
        call_(call),
        sizes_(loaded, shape),
        values_(sizes_, program_.values.size(), base, bytes),
        kernels_(loaded, shape, call, sizes_, values_) {}

  Status run();

 private:
  class Call;  // Of an op in C++: control_native.cpp.
  class Loop;  // control_loops.cpp

  const ControlValue& value(uint32_t v) const { return program_.values[v]; }
  char* output(size_t i) const {
    const tenon_span_t& span = *tenon_call_output(&call_, static_cast<uint32_t>(i));
    return span.buffer->data + span.offset_bytes;
  }
  Status bind_values();
  Status run_region(uint32_t index);
  Status run_switch(const ControlPart& part);
  void run_barrier(const ControlPart& part);
  int64_t index_of(uint32_t v);
  Status run_while(const ControlPart& part);   // control_loops.cpp
  Status run_scan(const ControlPart& part);    // control_loops.cpp
  Status run_native(const ControlPart& part);  // control_native.cpp

  const LoadedProgram& loaded_;
  const ControlProgram& program_;
  const tenon_call_t& call_;
  RunSizes sizes_;
  RunValues values_;
  RunKernels kernels_;
};

}  // namespace tenon::cpu
#endif
