// Copies kernels into another pool and rewrites them on the way. Internal to kernelgen.
#ifndef TENON_KERNELGEN_IR_KERNEL_COPY_H_
#define TENON_KERNELGEN_IR_KERNEL_COPY_H_

#include <unordered_map>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"

namespace tenon::kernelgen {

// Copies stages and what they mention. Axes, buffers and extents are numbered in order of first
// appearance, and the origins of the copy refer to `from`. Derived classes change the form of sizes
// and indices.
class KernelCopy {
 public:
  KernelCopy(const Kernel& from, Kernel* to) : from_(from), to_(*to) {}
  virtual ~KernelCopy() = default;

  void lead(const std::vector<uint32_t>& axes);
  void stage(const Stage& stage);
  // These return the number in the copy.
  uint32_t axis(uint32_t a);
  uint32_t buffer(uint32_t b);
  ExprId expr(ExprId e);

 protected:
  virtual ExprId axis_extent(uint32_t a) { return expr(from_.pool.axes()[a].extent); }
  // Sets dims, strides and offset. The rest is copied, except alias_of.
  virtual void form(uint32_t b, Buffer* out);
  virtual ExprId extent(uint32_t ordinal);
  // Maps a list of axes to those that replace it.
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
