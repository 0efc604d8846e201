#include "problem.h"

#include <tenon/cpp/plugin.hpp>

#include <algorithm>

namespace tenon::onednn {
namespace {

// Below this much work the call of the library costs more than it gains.
constexpr double kFlopsMin = 1e6;

Status check_types(const tenon_kernel_call_t& call) {
  for (uint32_t i = 0; i < 2; ++i) {
    const tenon_type_t& type = tenon_kernel_operand(&call, i)->type;
    if (type.dtype != TENON_F32 && type.dtype != TENON_BF16)
      return refuse("operands of f32 and bf16 only");
  }
  const Node anchor(call.graph, call.anchor);
  const tenon_dtype_t result = anchor.result(0).dtype();
  const tenon_dtype_t from = tenon_kernel_operand(&call, 0)->type.dtype;
  if (result != from && result != TENON_F32)
    return refuse("a result of the operands' type or f32 only");
  if (const tenon_dtype_t acc = anchor.dtype("acc"); acc != TENON_DTYPE_NONE && acc != TENON_F32)
    return refuse("sums in f32 only");
  if ((call.flags & TENON_KERNEL_CALL_DETERMINISTIC) != 0)
    return refuse("its sums depend on the number of threads and on the processor");
  return {};
}

Sizes dims_of(const tenon_type_t& type) {
  return Sizes(type.dims, type.dims + type.rank);
}

// Strides of a dense array.
Sizes dense(const Sizes& dims) {
  Sizes strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

Status read_product(const tenon_kernel_call_t& call, const Node& anchor, Problem* p) {
  ProductSide a, b;
  TENON_TRY(read_product_side(tenon_kernel_operand(&call, 0)->type, anchor.i64s("a_batch"),
                              anchor.i64s("a_contract"), &a));
  TENON_TRY(read_product_side(tenon_kernel_operand(&call, 1)->type, anchor.i64s("b_batch"),
                              anchor.i64s("b_contract"), &b));
  p->src = {
      tenon_kernel_operand(&call, 0)->type.dtype, {a.free, a.sum}, {a.free_stride, a.sum_stride}};
  p->weights = {p->src.dtype, {b.sum, b.free}, {b.sum_stride, b.free_stride}};
  p->dst = {anchor.result(0).dtype(), {a.free, b.free}, {b.free, 1}};
  if (a.batch != 1) {
    const auto add = [&](View* view, int64_t stride) {
      view->dims.insert(view->dims.begin(), a.batch);
      view->strides.insert(view->strides.begin(), stride);
    };
    add(&p->src, a.batch_stride);
    add(&p->weights, b.batch_stride);
    add(&p->dst, a.free * b.free);
  }
  p->flops = 2.0 * static_cast<double>(a.batch) * static_cast<double>(a.free) *
             static_cast<double>(a.sum) * static_cast<double>(b.free);
  if (b.free_dims == 1) p->feature_dim = int64_t{anchor.result(0).rank()} - 1;
  return {};
}

// A view in the order of `places`, of a dense array.
View permuted(const tenon_type_t& type, const Sizes& places) {
  const Sizes dims = dims_of(type), strides = dense(dims);
  View view{type.dtype, {}, {}};
  for (size_t i = 0; i < dims.size(); ++i) {
    const size_t at = places.empty() ? i : static_cast<size_t>(places[i]);
    view.dims.push_back(dims[at]);
    view.strides.push_back(strides[at]);
  }
  return view;
}

Sizes or_all(const Sizes& list, size_t count, int64_t value) {
  return list.empty() ? Sizes(count, value) : list;
}

Status check_window(const Node& anchor, const Problem& p) {
  const auto others = [](const Sizes& list, int64_t usual) {
    return std::any_of(list.begin(), list.end(), [&](int64_t v) { return v != usual; });
  };
  if (others(anchor.i64s("x_dilation"), 1) || others(anchor.i64s("reversal"), 0) ||
      anchor.i64("batch_groups") > 1)
    return refuse("no dilated input, reversed window or groups of the batch");
  const auto below_zero = [](int64_t v) { return v < 0; };
  if (std::any_of(p.pad_low.begin(), p.pad_low.end(), below_zero) ||
      std::any_of(p.pad_high.begin(), p.pad_high.end(), below_zero))
    return refuse("no negative borders");
  return {};
}

Status read_convolution(const tenon_kernel_call_t& call, const Node& anchor, Problem* p) {
  const tenon_type_t& x = tenon_kernel_operand(&call, 0)->type;
  const tenon_type_t& w = tenon_kernel_operand(&call, 1)->type;
  if (x.rank < 3 || x.rank > 5) return refuse("one to three spatial dims only");
  const size_t spatial = x.rank - 2;
  p->convolution = true;
  p->src = permuted(x, anchor.i64s("x_dims"));
  p->weights = permuted(w, anchor.i64s("w_dims"));
  p->dst = permuted(anchor.result(0).type().raw(), anchor.i64s("out_dims"));
  p->window_strides = or_all(anchor.i64s("strides"), spatial, 1);
  p->dilations = or_all(anchor.i64s("w_dilation"), spatial, 1);
  p->pad_low = or_all(anchor.i64s("pad_low"), spatial, 0);
  p->pad_high = or_all(anchor.i64s("pad_high"), spatial, 0);
  p->groups = anchor.i64("groups");
  TENON_TRY(check_window(anchor, *p));
  p->flops = 2;
  for (const int64_t d : p->dst.dims) p->flops *= static_cast<double>(d);
  for (size_t i = 1; i < p->weights.dims.size(); ++i)
    p->flops *= static_cast<double>(p->weights.dims[i]);
  if (p->groups > 1) {
    p->weights.dims[0] /= p->groups;
    p->weights.dims.insert(p->weights.dims.begin(), p->groups);
    p->weights.strides.insert(p->weights.strides.begin(),
                              p->weights.strides[0] * p->weights.dims[1]);
  }
  const Sizes out_dims = anchor.i64s("out_dims");
  p->feature_dim = out_dims.empty() ? 1 : out_dims[1];
  return {};
}

}  // namespace

Status refuse(std::string_view reason) {
  return fail(TENON_UNIMPLEMENTED, reason);
}

Status read_problem(const tenon_kernel_call_t& call, Problem* out) {
  const Node anchor(call.graph, call.anchor);
  const bool product = anchor.is("dot_general");
  if (!product && !anchor.is("conv")) return refuse("no kernel for this op here");
  TENON_TRY(check_types(call));
  for (uint32_t i = 0; i < 2; ++i)
    TENON_TRY(check_kernel_dims(tenon_kernel_operand(&call, i)->type));
  TENON_TRY(check_kernel_dims(anchor.result(0).type().raw()));
  TENON_TRY(product ? read_product(call, anchor, out) : read_convolution(call, anchor, out));
  if (out->flops < kFlopsMin && setting("TENON_ONEDNN") != "first")
    return refuse("too little work to call a library for");
  out->weights_constant =
      (tenon_kernel_operand(&call, kWeights)->flags & TENON_KERNEL_OPERAND_CONSTANT) != 0;
  read_epilogue(call, out);
  return {};
}

}  // namespace tenon::onednn
