// From stage IR to stage IR: lays out contraction operands that are known at load in the order that
// the register tile reads them.
#ifndef TENON_KERNELGEN_FUSE_PACK_H_
#define TENON_KERNELGEN_FUSE_PACK_H_

#include <cstdint>

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/ir/target.h"

namespace tenon::kernelgen {

// Columns of one panel for products in `acc`, and of the register tile that reads it. Packing and
// schedules both use this function. n: the total number of columns, 0 if unknown. Returns 0 if this
// target packs nothing.
int64_t panel_columns(const Target& target, DType acc, int64_t n);

// For every Contract with an operand that depends only on constants and owns the columns of the
// result: adds a Map that writes the operand as [batch...][columns / panel][sum][panel], with zeros
// after the last column, into a persistent buffer (Buffer::panel) that the Contract then reads.
// Where the target multiplies pairs of bf16, operands of bf16 products stay bf16, and those of
// products of integers that i16 holds become i16 where it multiplies pairs of i16:
// [batch...][columns / panel][sum / 2][panel][2], with a zero after an odd sum. Signed bytes that
// are multiplied by unsigned ones become quads in the same way where it multiplies these. Runs
// after inline_maps and before partition.
//
// Weights that are computed as (q - zero) scale from integers of 4 or 8 bits are kept as three such
// operands: q with two steps of 4 bits per byte, and scale and zero once for each block of steps
// that has one. The register tile widens them. For few rows, weights of bf16 that are not
// multiplied in pairs stay bf16, too.
//
// Work items read no panels (docs/adr/0067-weights-for-work-items.md). A matrix that a vector is
// multiplied by becomes [batch...][columns][sum] where a group shares the sum, and one for tiles
// where it is adjacent along neither. Integers of few bits lie likewise, for any number of rows:
// those of 4 bits as [columns][sum / 8][4], step i beside step i + 4.
void pack_constants(Kernel& program, const Target& target);

}  // namespace tenon::kernelgen
#endif
