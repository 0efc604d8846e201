// What layout.cpp and layout_convolution.cpp share: buffers in another order, and facts about
// operands. Internal to kernelgen.
#ifndef TENON_KERNELGEN_FUSE_LAYOUT_INTERNAL_H_
#define TENON_KERNELGEN_FUSE_LAYOUT_INTERNAL_H_

#include <map>
#include <tuple>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/ir/target.h"

namespace tenon::kernelgen {

// Adds temps in an order of its own, and stages that copy into them, to the end of a program's
// stages.
class Edges {
 public:
  explicit Edges(Kernel& k) : channels(k.buffers.size(), -1), k_(k), p_(k.pool) {}

  std::vector<int32_t>
      channels;  // by buffer: the dim of its channels, wanted innermost; -1: no wish

  Kernel& kernel() { return k_; }
  // Channels are innermost in row-major order too.
  bool same_order(uint32_t buffer) const;
  // Strides of a buffer with its channels innermost.
  void order(uint32_t buffer);
  // A new temp; channel < 0: row-major.
  uint32_t temp(DType type, std::vector<ExprId> dims, int32_t channel);
  uint32_t like(uint32_t buffer, int32_t channel);
  std::vector<ExprId> fresh_axes(const std::vector<ExprId>& dims, std::vector<uint32_t>* ids);
  void copy(uint32_t from, uint32_t to, const std::vector<uint32_t>& origins);
  // A copy in that order and type; one for all who ask.
  uint32_t reordered(uint32_t buffer, int32_t channel, DType type,
                     const std::vector<uint32_t>& origins);

 private:
  Kernel& k_;
  Pool& p_;
  std::map<std::tuple<uint32_t, int32_t, DType>, uint32_t> copies_;
};

bool floats(const Pool& p, ExprId e);  // a load of f32
// The load of an operand that is f32, or 16 bits widened to f32; kNone: another operand.
ExprId operand(const Pool& p, ExprId e);
bool divides(const Pool& p, ExprId e);
// Of these axes the longest that a dim of the result runs along alone; ~0u: none.
uint32_t widest_column(Pool& p, const Stage& s, const std::vector<uint32_t>& axes);

// Lays the operands of a convolution out for register tiles: weights in panels, channels of the
// input side by side, an input of few channels with its padding. Stages that write them go before
// `s`, to the end of the program's.
void convolution_operands(Edges& edges, const Target& target, Stage& s);

}  // namespace tenon::kernelgen
#endif
