// Parts that are one op in C++ (native/native_ops.h).
#include <algorithm>

#include "control/control_run.h"
#include "native/native_ops.h"
#include "tenon/cpp/graph.hpp"
#include "tenon/cpp/plugin.hpp"

namespace tenon::cpu {

class ControlRun::Call final : public NativeCall {
 public:
  Call(ControlRun& run, const ControlPart& part)
      : run_(run), part_(part), dims_(part.inputs.size()), made_(part.outputs.size()) {
    for (size_t i = 0; i < part.inputs.size(); ++i) {
      const ControlValue& value = run.value(part.inputs[i]);
      for (const kernelgen::SizeProgram& dim : value.dims)
        dims_[i].push_back(dim.evaluate(run.sizes_.symbols()));
      inputs.push_back(
          {static_cast<tenon_dtype_t>(value.dtype), dims_[i], run.values_[part.inputs[i]]});
    }
    parameters = part.parameters;
    place = part.place;
  }
  Status make(size_t output, std::span<const int64_t> dims, char** data) override {
    for (const ControlSize& s : part_.defines) {
      if (s.index == output) TENON_TRY(run_.sizes_.learn(s.symbol, dims[s.dim]));
    }
    const uint32_t v = part_.outputs[output];
    const ControlValue& value = run_.value(v);
    for (size_t d = 0; d < value.dims.size(); ++d) {
      if (const int64_t wanted = run_.sizes_.dim(v, d); wanted != dims[d]) {
        return fail(TENON_INVALID_ARGUMENT,
                    cat("T0607: ", place, ": dim ", d, " of result ", output, " is ", dims[d],
                        ", and the model needs ", wanted, "."));
      }
    }
    made_[output] = true;
    TENON_TRY(run_.values_.place(v));
    *data = run_.values_[v];
    return {};
  }
  bool complete() const {
    return std::ranges::all_of(made_, [](bool made) { return made; });
  }

 private:
  ControlRun& run_;
  const ControlPart& part_;
  std::vector<std::vector<int64_t>> dims_;
  std::vector<bool> made_;
};

Status ControlRun::run_native(const ControlPart& part) {
  if (cancelled()) return fail(TENON_CANCELLED, "T0001: The run was cancelled.");
  Call call(*this, part);
  TENON_TRY(find_native(part.native)->run(call));
  return call.complete() ? Status()
                         : fail(TENON_INTERNAL, cat(part.place, ": a result was not made."));
}

}  // namespace tenon::cpu
