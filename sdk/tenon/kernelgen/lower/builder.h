// Builds a program of stages op by op: what a device's graph lowering calls. Every call appends a
// stage that writes a temp buffer, data movement included; fuse.h decides later what is inlined or
// joined, so lowering never thinks about fusion. Dims of extent 1 are handled like any other.
//
// Threads: one builder, one thread. Errors: a call that cannot be built returns a Tensor with
// valid() false and why() says so in one sentence; later calls on invalid tensors are harmless and
// give invalid tensors.
#ifndef TENON_KERNELGEN_LIFT_BUILDER_H_
#define TENON_KERNELGEN_LIFT_BUILDER_H_

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/lower/scalar_program.h"

namespace tenon::kernelgen {

struct Tensor {
  uint32_t buffer = ~0u;
  DType type = TENON_DTYPE_NONE;
  std::vector<ExprId> dims;
  bool valid() const { return buffer != ~0u; }
  size_t rank() const { return dims.size(); }
};

enum class Fold : uint8_t { kSum, kProd, kMax, kMin, kAnd, kOr, kArgMax, kArgMin };

// Padding, stride and dilation per spatial dim. Negative padding crops.
struct WindowDim {
  int64_t size = 1, stride = 1, pad_low = 0, pad_high = 0, dilation = 1, base_dilation = 1;
};

// Which dim of x, w and the result is batch/in-feature/out-feature; the spatial dims in window
// order.
struct ConvDims {
  uint32_t x_batch = 0, x_feature = 1, w_out = 0, w_in = 1, out_batch = 0, out_feature = 1;
  std::vector<uint32_t> x_spatial, w_spatial, out_spatial;
};

// The index under dims `to` of the element that `index` names under dims `from`, both row-major and
// of equal size.
std::vector<ExprId> relabel(Pool& pool, std::span<const ExprId> from, std::span<const ExprId> index,
                            std::span<const ExprId> to);

// Where an update of a scatter goes; guard false (kNone: always true): nowhere.
struct Place {
  std::vector<ExprId> index;
  ExprId guard = kNone;
};

class Builder {
 public:
  // Sizes: constants are baked into the code, extents are arguments in the order of these calls.
  ExprId dim(int64_t v) { return kernel_.pool.integer(v); }
  ExprId extent(Extent info = {});
  Pool& pool() { return kernel_.pool; }

  // Operands. Contiguous row-major unless strides (in elements) and an offset are given. ids are
  // buffer ordinals in the order of these calls and of the results of the others: Tensor::buffer.
  Tensor input(DType type, std::vector<ExprId> dims, std::vector<ExprId> strides = {},
               ExprId offset = kNone);
  Tensor constant(DType type, std::vector<ExprId> dims);  // like input, and may be packed ahead
  // Marks a tensor as a result of the program that the caller's memory holds.
  void output(const Tensor& t);

  // The caller's id of the operation that the following calls lower; kept in Stage::origins.
  void set_origin(uint32_t id) { origin_ = id; }

  // Any element-wise op: its scalar program over operands of equal dims.
  std::vector<Tensor> map(std::span<const uint32_t> program, std::span<const Tensor> operands,
                          std::span<const ScalarAttr> attrs, std::span<const DType> results);
  // The escape hatch: body gets one axis per dim and returns the element. Use load() inside.
  using Body = std::function<ExprId(std::span<const ExprId> axes)>;
  Tensor map(DType type, std::vector<ExprId> dims, const Body& body);
  ExprId load(const Tensor& t, std::span<const ExprId> index, ExprId guard = kNone,
              ExprId other = kNone);

  // Data movement.
  Tensor broadcast(const Tensor& t, std::vector<ExprId> dims,
                   std::span<const uint32_t> dim_of_operand);
  Tensor transpose(const Tensor& t, std::span<const uint32_t> permutation);
  Tensor reshape(const Tensor& t, std::vector<ExprId> dims);
  Tensor slice(const Tensor& t, std::span<const ExprId> start, std::span<const int64_t> step,
               std::vector<ExprId> dims);
  Tensor pad(const Tensor& t, const Tensor& value, std::span<const int64_t> low,
             std::span<const int64_t> interior,
             std::vector<ExprId> dims);  // value: rank 0; negative low crops
  Tensor concat(std::span<const Tensor> parts, uint32_t axis);
  Tensor reverse(const Tensor& t, std::span<const uint32_t> dims);
  Tensor iota(DType type, std::vector<ExprId> dims, uint32_t axis);
  Tensor fill(DType type, std::vector<ExprId> dims, double value);
  Tensor convert(const Tensor& t, DType to);

  // Elements of `t` along `axis` at `indices` (any integer type): dims of t with `axis` replaced by
  // indices.dims. kClip clamps, kFill gives 0 outside (NaN is the caller's select), negative
  // indices are outside.
  enum class Outside : uint8_t { kClip, kFill, kInBounds };
  Tensor take(const Tensor& t, const Tensor& indices, uint32_t axis, Outside outside);

  // Reductions. `acc` is the type states have (NONE: f32 for f16/bf16, else the operand's); result
  // `out` (NONE: the operand's; ArgMax and ArgMin need an integer). The reduced dims are dropped.
  // ArgMax: first of equals, NaN wins.
  Tensor reduce(const Tensor& t, std::span<const uint32_t> dims, Fold fold,
                DType acc = TENON_DTYPE_NONE, DType out = TENON_DTYPE_NONE);
  // One WindowDim per dim of t. Padding counts as the identity of the fold.
  // Attention over q [batch, heads, queries, features], k and v [batch, key heads, keys, features]:
  // f32, heads a multiple of key heads. score gives the score at (batch, head, query, key) from the
  // product of query and key. final gives the result from the weighted mean of the values and from
  // the sum of the weights relative to the largest: 0 for a query that sees no key (its mean is
  // NaN), NaN where a score is NaN, else 1 or more. Empty: the mean.
  Tensor attention(
      const Tensor& q, const Tensor& k, const Tensor& v, int64_t group,
      const std::function<ExprId(ExprId product, std::span<const ExprId> place)>& score,
      const std::function<ExprId(ExprId mean, ExprId sum)>& final = {});
  // The running fold along a dim; exclusive: without the element itself.
  Tensor scan(const Tensor& t, uint32_t dim, Fold fold, bool reverse, bool exclusive, DType acc,
              DType out);
  // x with updates at places, in the order of the points of `updates`. combine gives the new
  // element of the old one.
  Tensor scatter(const Tensor& x, std::vector<ExprId> updates,
                 const std::function<Place(std::span<const ExprId>)>& place,
                 const std::function<ExprId(std::span<const ExprId>, ExprId old)>& combine);
  // Lines along dim in the order of the first `keys` operands; NaN is above all numbers, equal ones
  // keep their order. The first `length` of each line of each operand, then, if index is a type, of
  // their places.
  std::vector<Tensor> sort(std::span<const Tensor> operands, uint32_t dim, size_t keys,
                           std::span<const int64_t> descending, ExprId length,
                           DType index = TENON_DTYPE_NONE);
  // The largest element of each window and its place in t in row-major order: first of equals, NaN
  // largest, -1 and the lowest value where a window has none.
  std::vector<Tensor> window_argmax(const Tensor& t, std::span<const WindowDim> window,
                                    std::vector<ExprId> dims, DType index);
  Tensor reduce_window(const Tensor& t, std::span<const WindowDim> window, Fold fold,
                       std::vector<ExprId> dims, DType acc = TENON_DTYPE_NONE,
                       DType out = TENON_DTYPE_NONE);

  // Sum of products. Result dims: batch, free dims of a, free dims of b (as dot_general). acc NONE:
  // f32 for f16 and bf16, i32 for 8-bit integers, else the operand's.
  Tensor dot(const Tensor& a, const Tensor& b, std::span<const uint32_t> batch_a,
             std::span<const uint32_t> batch_b, std::span<const uint32_t> sum_a,
             std::span<const uint32_t> sum_b, DType acc = TENON_DTYPE_NONE,
             DType out = TENON_DTYPE_NONE);
  Tensor conv(const Tensor& x, const Tensor& w, const ConvDims& numbers,
              std::span<const WindowDim> window, int64_t groups, std::vector<ExprId> dims,
              DType acc = TENON_DTYPE_NONE, DType out = TENON_DTYPE_NONE);

  bool ok() const { return why_.empty(); }
  const std::string& why() const { return why_; }
  // The program; the builder is empty afterwards.
  Kernel take_program() { return std::move(kernel_); }

 private:
  Tensor fail(std::string why);
  Tensor add_buffer(DType type, std::vector<ExprId> dims, Role role);
  Stage& add_stage(StageKind kind);
  void append(Stage s);
  ExprId sort_key(ExprId x, bool descending);
  // One step of a window along a dim: the element that it reads, and whether that is there and in
  // the window.
  struct Tap {
    ExprId at = kNone, guard = kNone;
  };
  Tap add_tap(const WindowDim& w, ExprId out, ExprId extent, std::vector<uint32_t>* reduce);
  std::vector<ExprId> fresh_axes(const std::vector<ExprId>& dims, std::vector<uint32_t>* ids);
  std::vector<ExprId> shared_axes(const std::vector<ExprId>& dims, std::vector<uint32_t>* ids);
  ExprId widened(ExprId x, DType acc);
  Tensor finish_contract(Stage s, DType out, std::vector<ExprId> dims, std::vector<ExprId> store);
  bool fold_parts(Fold fold, DType acc, DType out, ExprId x, ExprId position, Stage* s);

  struct Axes {
    std::vector<ExprId> axes;
    std::vector<uint32_t> ids;
  };

  Kernel kernel_;
  std::map<std::vector<ExprId>, Axes> shapes_;
  uint32_t origin_ = ~0u;
  std::string why_;
};

}  // namespace tenon::kernelgen
#endif
