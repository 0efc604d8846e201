// Kernels rewritten on the way into another pool. Internal to kernelgen.
#ifndef TENON_KERNELGEN_IR_KERNEL_COPY_H_
#define TENON_KERNELGEN_IR_KERNEL_COPY_H_

#include <unordered_map>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"

namespace tenon::kernelgen {

// Copies stages with what they mention: axes, buffers and extents get numbers in order of first
// appearance, and the copy's origins are those of `from`. Derived classes give sizes and indices
// another form.
class KernelCopy {
 public:
  KernelCopy(const Kernel& from, Kernel* to) : from_(from), to_(*to) {}
  virtual ~KernelCopy() = default;

  void lead(const std::vector<uint32_t>& axes);
  void stage(const Stage& stage);
  // The number in the copy.
  uint32_t axis(uint32_t a);
  uint32_t buffer(uint32_t b);
  ExprId expr(ExprId e);

 protected:
  virtual ExprId axis_extent(uint32_t a) { return expr(from_.pool.axes()[a].extent); }
  // dims, strides and offset; the rest is copied, without alias_of.
  virtual void form(uint32_t b, Buffer* out);
  virtual ExprId extent(uint32_t ordinal);
  // Axes of a list, and what takes their place.
  virtual std::vector<uint32_t> axes(const std::vector<uint32_t>& list);
  virtual std::vector<ExprId> index(uint32_t b, std::span<const ExprId> index);
  ExprId new_extent(Extent info, uint32_t origin);

  const Kernel& from_;
  Kernel& to_;

 private:
  ExprId operation(const Expr& x, std::span<const ExprId> args);

  std::unordered_map<uint32_t, uint32_t> axes_, buffers_, extents_;
  std::unordered_map<ExprId, ExprId> memo_;
};

}  // namespace tenon::kernelgen
#endif
