// What the layout, the schedule and the lowering of convolutions agree on. Internal to kernelgen.
#ifndef TENON_KERNELGEN_SCHEDULE_CONVOLUTION_H_
#define TENON_KERNELGEN_SCHEDULE_CONVOLUTION_H_

#include <cstdint>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/ir/target.h"

namespace tenon::kernelgen {

// Which side of a contraction a space axis belongs to.
struct ContractAxes {
  std::vector<uint32_t> only_a, only_b, both;
};
ContractAxes contract_axes(const Pool& pool, const Stage& stage);

// Registers as rows x vectors: the shape that wastes least of m rows and n columns. nr fixed when
// not 0.
struct TileShape {
  uint32_t mr = 1, nr = 1;
};
TileShape convolution_tile(const Target& target, uint32_t lanes, int64_t m, int64_t n, uint32_t nr);

// Columns of one panel of a depthwise convolution, in vectors.
inline constexpr uint32_t kDepthwiseVectors = 8;

// A size for decisions about speed.
int64_t likely_size(const Pool& pool, ExprId e);

}  // namespace tenon::kernelgen
#endif
