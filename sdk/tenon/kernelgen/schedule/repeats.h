// Maps whose neighbouring results come from one place: repeated (nearest upsampling), or one of
// each of a few operands (a stack along the last dim). Internal to kernelgen.
#ifndef TENON_KERNELGEN_SCHEDULE_REPEATS_H_
#define TENON_KERNELGEN_SCHEDULE_REPEATS_H_

#include "tenon/kernelgen/ir/ir.h"

namespace tenon::kernelgen {

// For a kernel of one map with one unguarded store, which prepare() made: if the result is
// contiguous along an axis that every load divides by the same small number, splits this axis in
// two, so that loads are contiguous along `*line` and do not move along the other, which is
// innermost. False: there is no such axis, and nothing changes that code could see.
bool split_repeats(Kernel& kernel, uint32_t* line);

}  // namespace tenon::kernelgen
#endif
