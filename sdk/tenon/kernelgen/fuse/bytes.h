// From stage IR to stage IR: integer products read the bytes that they are made of.
#ifndef TENON_KERNELGEN_FUSE_BYTES_H_
#define TENON_KERNELGEN_FUSE_BYTES_H_

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/ir/target.h"

namespace tenon::kernelgen {

// For every Contract in i32 of operands that maps compute as `byte - zero`, one of them constant:
// the Contract reads both bytes, the constant ones signed and the others unsigned, and its final
// values subtract what the zero points add. The sums are the same modulo 2^32. Adds load-time sums
// of the constant operand, and sums of the other one where the constant one has a zero point. Does
// nothing where the target does not multiply bytes. Runs before inline_maps.
void multiply_bytes(Kernel& program, const Target& target);

}  // namespace tenon::kernelgen
#endif
