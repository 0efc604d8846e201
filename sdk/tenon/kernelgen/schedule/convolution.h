// Definitions shared by the layout, the schedule and the lowering of convolutions. Internal to
// kernelgen.
#ifndef TENON_KERNELGEN_SCHEDULE_CONVOLUTION_H_
#define TENON_KERNELGEN_SCHEDULE_CONVOLUTION_H_

#include <cstdint>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/ir/target.h"

namespace tenon::kernelgen {

// Which operand's index mentions a space axis of a contraction.
struct ContractAxes {
  std::vector<uint32_t> only_a, only_b, both;
};
ContractAxes contract_axes(const Pool& pool, const Stage& stage);

// The register tile, as rows x vectors, that wastes least for m rows and n columns. nr is fixed
// unless 0.
struct TileShape {
  uint32_t mr = 1, nr = 1;
};
TileShape convolution_tile(const Target& target, uint32_t lanes, int64_t m, int64_t n, uint32_t nr);

// Columns of one panel of a depthwise convolution, in vectors.
inline constexpr uint32_t kDepthwiseVectors = 8;

// A likely value of a size, for decisions that affect only speed.
int64_t likely_size(const Pool& pool, ExprId e);

}  // namespace tenon::kernelgen
#endif
