// Stage IR to stage IR: operands of contractions that are known at load are laid out as the
// register tile reads them.
#ifndef TENON_KERNELGEN_FUSE_PACK_H_
#define TENON_KERNELGEN_FUSE_PACK_H_

#include <cstdint>

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/ir/target.h"

namespace tenon::kernelgen {

// Columns of one panel for products in `acc`, and of the register tile that reads it: the one place
// where this is decided, for packing and for schedules alike. n: columns in all, 0 if they are not
// known. 0: this target packs nothing.
int64_t panel_columns(const Target& target, DType acc, int64_t n);

// For every Contract one of whose operands depends on constants only and owns the columns of the
// result: a Map that writes that operand as [batch...][columns / panel][sum][panel], zeros behind
// the last column, into a persistent buffer (Buffer::panel), and the Contract reads that. Where the
// target multiplies pairs of bf16, products of bf16 numbers keep them: [batch...][columns /
// panel][sum / 2][panel][2], with a zero behind an odd sum. After inline_maps, before partition.
void pack_constants(Kernel& program, const Target& target);

}  // namespace tenon::kernelgen
#endif
