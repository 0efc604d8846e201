// The inputs and constants of a run: puts them where steps find them, takes the memory of tensors
// that are given up, and leaves the copies that a run made of the others with them.
#pragma once
#include <span>

#include "core/runtime/run/context.h"

namespace tenon::runtime {

// With the sizes of this run.
Status place_inputs(RunContext& run, std::span<const Argument> inputs);
// The run now owns the memory of a tensor that is given up, as what steps make.
void take_tensor(RunContext& run, uint32_t slot);
// At the end of the steps: what is still there becomes an output, or is freed.
void take_donated(RunContext& run);
// After a run that has succeeded: tensors keep the copies that were made of them.
void keep_copies(RunContext& run);
// Arrays are borrowed for the run only.
void drop_imports(RunContext& run);

}  // namespace tenon::runtime
