// Queries shared by the schedule and the lowering of contractions. Internal to kernelgen.
#ifndef TENON_KERNELGEN_SCHEDULE_CONTRACTION_H_
#define TENON_KERNELGEN_SCHEDULE_CONTRACTION_H_

#include <optional>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/ir/target.h"

namespace tenon::kernelgen {

// Columns of a panel if e reads a packed operand, widened or not; else 0.
uint32_t panel_of(const Kernel& k, ExprId e);

// The operand that e widens, if register tiles can multiply pairs of such: bf16 widened to f32, or
// an integer that i16 holds widened to i32. kNone for others.
ExprId narrow_of(const Pool& p, ExprId e);
// Steps of the sum per lane in the packed operand that e reads: 1, or 2 or 4 where it is stored as
// [...][sum / steps][panel][steps].
uint32_t steps_of(const Kernel& k, ExprId e);
// The same for an operand and the other one, both narrow, by what the target multiplies.
uint32_t steps_of(const Target& target, DType acc, DType weights, DType other);

// Weights that pack.h keeps in few bits: (q - zero) scale. zero: a load, a constant or kNone.
struct FewBits {
  ExprId q = kNone, zero = kNone, scale = kNone;  // q and scale: loads
  uint32_t bits = 0;                              // 4: two steps in each byte; 8
  bool quads = false;  // a lane has four bytes of q; those of 4 bits hold steps 4 apart
};
std::optional<FewBits> few_bits_of(const Kernel& k, ExprId e);

// The largest number of steps of which digits of floats (docs/adr/0062-digits-of-floats.md) are
// made with one scale, where a block of weights has so many: 64, 32 or 16; 0 if none divides it.
uint32_t digit_block(int64_t weights);
// The most rows for which a kernel makes digits. With more, what widening weights costs is shared
// by as many products, and a product in floats is one instruction for 16 steps and lanes, not five.
inline constexpr int64_t kDigitRows = 2;

// Whether e is an unguarded load of type `acc`.
bool plain_load(const Pool& p, ExprId e, DType acc);

// Orders the axes, outermost first, so that offset = rest + step * (their linear index). False if
// no order does.
bool chain(Pool& p, ExprId offset, std::vector<uint32_t>* axes, ExprId* step, ExprId* rest);

}  // namespace tenon::kernelgen
#endif
