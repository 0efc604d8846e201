// Builds a program of stages op by op, for the lowering of a device's graph. Every call, data
// movement included, appends a stage that writes a temp buffer. Fusion (fuse.h) decides later what
// is inlined or joined, so lowering can ignore it. Dims of extent 1 are handled like any other.
//
// Threads: one at a time per builder. Errors: a call that cannot be built returns a Tensor whose
// valid() is false, and why() gives the reason in one sentence. Later calls on invalid tensors are
// harmless and return invalid tensors.
#ifndef TENON_KERNELGEN_LOWER_BUILDER_H_
#define TENON_KERNELGEN_LOWER_BUILDER_H_

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

// The dims of x, w and the result that are batch, in-feature and out-feature; spatial dims in
// window order.
struct ConvDims {
  uint32_t x_batch = 0, x_feature = 1, w_out = 0, w_in = 1, out_batch = 0, out_feature = 1;
  std::vector<uint32_t> x_spatial, w_spatial, out_spatial;
};

// Converts an index: the element at `index` under dims `from` has the returned index under dims
// `to`. Both dims are row-major and of equal size.
std::vector<ExprId> relabel(Pool& pool, std::span<const ExprId> from, std::span<const ExprId> index,
                            std::span<const ExprId> to);

// The target of one update of a scatter. Where guard is false the update is dropped; kNone is
// always true.
struct Place {
  std::vector<ExprId> index;
  ExprId guard = kNone;
};

class Builder {
 public:
  // Sizes. Constants are baked into the code; extents become arguments in the order of these calls.
  ExprId dim(int64_t v) { return kernel_.pool.integer(v); }
  ExprId extent(Extent info = {});
  Pool& pool() { return kernel_.pool; }

  // Operands, contiguous and row-major unless strides (in elements) and an offset are given.
  // Tensor::buffer is an ordinal in the order of all calls that create a tensor.
  Tensor input(DType type, std::vector<ExprId> dims, std::vector<ExprId> strides = {},
               ExprId offset = kNone);
  Tensor constant(DType type, std::vector<ExprId> dims);  // like input, and may be packed at load
  // Marks a tensor as a result of the program. The caller provides its memory.
  void output(const Tensor& t);

  // Sets the caller's id of the operation that the following calls lower, for Stage::origins.
  void set_origin(uint32_t id) { origin_ = id; }

  // Any element-wise op: its scalar program over operands of equal dims.
  std::vector<Tensor> map(std::span<const uint32_t> program, std::span<const Tensor> operands,
                          std::span<const ScalarAttr> attrs, std::span<const DType> results);
  // For everything else: body gets one axis per dim and returns the element. Use load() inside.
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

  // The elements of `t` along `axis` at `indices` (any integer type). Result dims: those of t with
  // `axis` replaced by indices.dims. For indices outside, which includes negative ones, kClip
  // clamps and kFill gives 0 (for NaN the caller adds a select).
  enum class Outside : uint8_t { kClip, kFill, kInBounds };
  Tensor take(const Tensor& t, const Tensor& indices, uint32_t axis, Outside outside);

  // Reductions. The reduced dims are dropped. `acc` is the type of the states (NONE: f32 for f16
  // and bf16, else the operand's type). `out` is the type of the result (NONE: the operand's type;
  // ArgMax and ArgMin need an integer). ArgMax takes the first of equal elements, and NaN wins.
  Tensor reduce(const Tensor& t, std::span<const uint32_t> dims, Fold fold,
                DType acc = TENON_DTYPE_NONE, DType out = TENON_DTYPE_NONE);
  // Attention over q [batch, heads, queries, features] and k, v [batch, key heads, keys, features],
  // in f32; heads are a multiple of key heads. score gives the score at (batch, head, query, key)
  // from the product of query and key. final gives the result from the weighted mean of the values
  // and from the sum of the weights relative to the largest. That sum is 0 for a query that sees no
  // key (its mean is NaN), NaN where a score is NaN, else 1 or more. Empty final: the mean.
  Tensor attention(
      const Tensor& q, const Tensor& k, const Tensor& v, int64_t group,
      const std::function<ExprId(ExprId product, std::span<const ExprId> place)>& score,
      const std::function<ExprId(ExprId mean, ExprId sum)>& final = {});
  // The running fold along a dim. exclusive: without the element itself.
  Tensor scan(const Tensor& t, uint32_t dim, Fold fold, bool reverse, bool exclusive, DType acc,
              DType out);
  // x with updates applied at their places, in the order of the points of `updates`. combine
  // computes the new element from the old one.
  Tensor scatter(const Tensor& x, std::vector<ExprId> updates,
                 const std::function<Place(std::span<const ExprId>)>& place,
                 const std::function<ExprId(std::span<const ExprId>, ExprId old)>& combine);
  // Sorts lines along dim by the first `keys` operands. NaN is above all numbers; the sort is
  // stable. Returns the first `length` elements of each line of each operand, then, if index is a
  // type, their positions in the line.
  std::vector<Tensor> sort(std::span<const Tensor> operands, uint32_t dim, size_t keys,
                           std::span<const int64_t> descending, ExprId length,
                           DType index = TENON_DTYPE_NONE);
  // The largest element of each window, and its row-major position in t: first of equal elements,
  // NaN is largest. An empty window gives the lowest value and -1.
  std::vector<Tensor> window_argmax(const Tensor& t, std::span<const WindowDim> window,
                                    std::vector<ExprId> dims, DType index);
  // One WindowDim per dim of t. Padding counts as the identity of the fold.
  Tensor reduce_window(const Tensor& t, std::span<const WindowDim> window, Fold fold,
                       std::vector<ExprId> dims, DType acc = TENON_DTYPE_NONE,
                       DType out = TENON_DTYPE_NONE);

  // Sum of products. Result dims: batch, free dims of a, free dims of b (as dot_general). acc NONE:
  // f32 for f16 and bf16, i32 for 8-bit integers, else the operand's type.
  Tensor dot(const Tensor& a, const Tensor& b, std::span<const uint32_t> batch_a,
             std::span<const uint32_t> batch_b, std::span<const uint32_t> sum_a,
             std::span<const uint32_t> sum_b, DType acc = TENON_DTYPE_NONE,
             DType out = TENON_DTYPE_NONE);
  Tensor conv(const Tensor& x, const Tensor& w, const ConvDims& numbers,
              std::span<const WindowDim> window, int64_t groups, std::vector<ExprId> dims,
              DType acc = TENON_DTYPE_NONE, DType out = TENON_DTYPE_NONE);

  bool ok() const { return why_.empty(); }
  const std::string& why() const { return why_; }
  // Returns the program and leaves the builder empty.
  Kernel take_program() { return std::move(kernel_); }

 private:
  Tensor fail(std::string why);
  Tensor add_buffer(DType type, std::vector<ExprId> dims, Role role);
  Stage& add_stage(StageKind kind);
  void append(Stage s);
  ExprId sort_key(ExprId x, bool descending);
  // One step of a window along a dim: the element it reads, and whether that element exists and is
  // in the window.
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
