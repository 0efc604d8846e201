// Shared by layout.cpp and layout_convolution.cpp: reordered buffers, and facts about operands.
// Internal to kernelgen.
#ifndef TENON_KERNELGEN_FUSE_LAYOUT_INTERNAL_H_
#define TENON_KERNELGEN_FUSE_LAYOUT_INTERNAL_H_

#include <map>
#include <tuple>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/ir/target.h"

namespace tenon::kernelgen {

// Adds temps with a chosen memory order, and stages that copy into them, at the end of a program's
// stages.
class Edges {
 public:
  explicit Edges(Kernel& k) : channels(k.buffers.size(), -1), k_(k), p_(k.pool) {}

  // By buffer: the channel dim, which should be innermost; -1: no preference.
  std::vector<int32_t> channels;

  Kernel& kernel() { return k_; }
  // Whether row-major order already has the channels innermost.
  bool same_order(uint32_t buffer) const;
  // Sets the strides of a buffer to have its channels innermost.
  void order(uint32_t buffer);
  // A new temp; channel < 0: row-major.
  uint32_t temp(DType type, std::vector<ExprId> dims, int32_t channel);
  uint32_t like(uint32_t buffer, int32_t channel);
  std::vector<ExprId> fresh_axes(const std::vector<ExprId>& dims, std::vector<uint32_t>* ids);
  void copy(uint32_t from, uint32_t to, const std::vector<uint32_t>& origins);
  // A copy in this order and type. Calls with equal arguments share one copy.
  uint32_t reordered(uint32_t buffer, int32_t channel, DType type,
                     const std::vector<uint32_t>& origins);

 private:
  Kernel& k_;
  Pool& p_;
  std::map<std::tuple<uint32_t, int32_t, DType>, uint32_t> copies_;
};

bool floats(const Pool& p, ExprId e);  // a load of f32
// The load, if `e` is an f32 load, a 16-bit float load widened to f32 or an integer that i16 holds
// widened to i32; else kNone.
ExprId operand(const Pool& p, ExprId e);
bool divides(const Pool& p, ExprId e);
// The longest of these axes that has a dim of the result for itself; ~0u: none.
uint32_t widest_column(Pool& p, const Stage& s, const std::vector<uint32_t>& axes);

// Lays out the operands of a convolution for register tiles: weights in panels, the channels of the
// input adjacent, an input of few channels with its padding. The stages that write them are added
// at the end of the program, before `s`.
void convolution_operands(Edges& edges, const Target& target, Stage& s);

}  // namespace tenon::kernelgen
#endif
