// Prepares a kernel of the stage IR for scheduling: one offset per memory access, as few axes as
// possible, and groups of stages that share loops. Internal to kernelgen.
//
// Accesses keep the names of their buffers, even where a temp is stored in the memory of an output
// (Buffer::alias_of). Each element of a buffer has one value while a point of the lead axes runs,
// so a load names a value, and deductions about it stay true after the memory is overwritten.
// memory_of() says where a buffer is.
#ifndef TENON_KERNELGEN_SCHEDULE_PREPARE_H_
#define TENON_KERNELGEN_SCHEDULE_PREPARE_H_

#include <string>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"

namespace tenon::kernelgen {

// Stages that run in one loop nest inside the lead axes.
struct Pass {
  std::vector<size_t> stages;
  // Inner axes. Maps in the same pass as a Reduce run along its reduce axes.
  std::vector<uint32_t> space, reduce;
};

// After prepare(), every load and store has exactly one index: the offset in elements. Temps of the
// kernel are dense over their inner dims (lead axes have stride 0), or have the layout of the
// output whose memory they use.
struct Prepared {
  Kernel kernel;
  std::vector<Pass> passes;
  std::vector<ExprId> temp_elements;  // by buffer: elements per row of a temp; else kNone
  std::vector<bool> temp_memory;      // by buffer: read in a later pass than its writer's
};

Prepared prepare(const Kernel& kernel);

// The size of a kernel's results, in bytes.
ExprId result_bytes(Kernel& kernel);

}  // namespace tenon::kernelgen
#endif
