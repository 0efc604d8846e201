// Queries shared by the schedule and the lowering of contractions. Internal to kernelgen.
#ifndef TENON_KERNELGEN_SCHEDULE_CONTRACTION_H_
#define TENON_KERNELGEN_SCHEDULE_CONTRACTION_H_

#include <optional>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"

namespace tenon::kernelgen {

// Columns of a panel if e reads a packed operand, widened or not; else 0.
uint32_t panel_of(const Kernel& k, ExprId e);

// The operand that e widens, if register tiles can multiply pairs of such: bf16 widened to f32, or
// an integer that i16 holds widened to i32. kNone for others.
ExprId narrow_of(const Pool& p, ExprId e);
// Whether e reads a packed operand that is stored in pairs along the sum: [...][sum /
// 2][panel][2].
bool in_pairs(const Kernel& k, ExprId e);

// Weights that pack.h keeps in few bits: (q - zero) scale. zero: a load, a constant or kNone.
struct FewBits {
  ExprId q = kNone, zero = kNone, scale = kNone;  // q and scale: loads
  uint32_t bits = 0;                              // 4: two steps in each byte; 8
};
std::optional<FewBits> few_bits_of(const Kernel& k, ExprId e);

// Whether e is an unguarded load of type `acc`.
bool plain_load(const Pool& p, ExprId e, DType acc);

// Orders the axes, outermost first, so that offset = rest + step * (their linear index). False if
// no order does.
bool chain(Pool& p, ExprId offset, std::vector<uint32_t>* axes, ExprId* step, ExprId* rest);

}  // namespace tenon::kernelgen
#endif
