// What the schedule and the lowering of contractions both ask. Internal to kernelgen.
#ifndef TENON_KERNELGEN_CONTRACTION_H_
#define TENON_KERNELGEN_CONTRACTION_H_

#include <vector>

#include "tenon/kernelgen/ir.h"

namespace tenon::kernelgen {

// Columns of a panel if e reads a packed operand; else 0.
uint32_t panel_of(const Kernel& k, E e);

// A load of that type without a guard.
bool plain_load(const Pool& p, E e, DType acc);

// Orders the axes, outermost first, so that offset = rest + step * (their linear number); false if none does.
bool chain(Pool& p, E offset, std::vector<uint32_t>* axes, E* step, E* rest);

}  // namespace tenon::kernelgen
#endif
