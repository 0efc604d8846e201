// How memory lies for neighbours along an axis. Work items that take several at once load what is
// contiguous in one instruction, and what is the same only once. Internal to kernelgen.
#ifndef TENON_KERNELGEN_SCHEDULE_NEIGHBOURS_H_
#define TENON_KERNELGEN_SCHEDULE_NEIGHBOURS_H_

#include "tenon/kernelgen/ir/ir.h"

namespace tenon::kernelgen {

inline constexpr uint32_t kNeighbours = 4;  // f32 of 16 bytes

enum class Apart : uint8_t { kSame, kContiguous, kOther };

// Where `count` points along the axis are in memory, the first of them at a multiple of `count`.
// kContiguous: their elements begin at a multiple of `count`, too. Also for offsets that divide: of
// weights of 4 bits, say, of which two are in a byte.
Apart neighbours(Pool& pool, ExprId offset, uint32_t axis, uint32_t count);

// access_score for work items that take neighbours at once.
int64_t item_score(Pool& pool, const Stage& stage, uint32_t axis);

}  // namespace tenon::kernelgen
#endif
