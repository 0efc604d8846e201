// Between the stage IR and a schedule: one number per memory access, as few axes as possible, and
// which stages share loops. Internal to kernelgen.
//
// Accesses keep the names of their buffers, also where a temp lies in the memory of an output
// (Buffer::alias_of): each element of a buffer has one value while a point of the lead axes runs,
// so a load is a name for a value, and what follows from it stays true after the memory is written
// anew. memory_of() says where a buffer lies.
#ifndef TENON_KERNELGEN_SCHEDULE_PREPARE_H_
#define TENON_KERNELGEN_SCHEDULE_PREPARE_H_

#include <string>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"

namespace tenon::kernelgen {

// Stages that run in one loop nest inside the lead axes.
struct Pass {
  std::vector<size_t> stages;
  std::vector<uint32_t> space,
      reduce;  // inner axes; Maps beside a Reduce run along its reduce axes
};

// After prepare(): every load and store has exactly one index, the offset in elements. Temps of the
// kernel are dense over their inner dims (lead axes have stride 0), or lie as the output does whose
// memory they use.
struct Prepared {
  Kernel kernel;
  std::vector<Pass> passes;
  std::vector<ExprId> temp_elements;  // by buffer: elements per row of a temp; kNone for others
  std::vector<bool> temp_memory;      // by buffer: read in another pass than the one that writes it
};

Prepared prepare(const Kernel& kernel);

// What a kernel puts out, in bytes.
ExprId result_bytes(Kernel& kernel);

}  // namespace tenon::kernelgen
#endif
