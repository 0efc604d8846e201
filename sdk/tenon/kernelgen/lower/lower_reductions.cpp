// Lowerings of reductions, windows and contractions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tenon/kernelgen/lower/op_lowering.h"

namespace tenon::kernelgen {
namespace {

template <Fold fold>
std::vector<Tensor> reduce(LoweringSite& s) {
  return {s.b.reduce(s.in[0], s.ordinals("dims"), fold, s.acc(), s.result_types[0].dtype)};
}

template <Fold fold>
std::vector<Tensor> arg_reduce(LoweringSite& s) {
  const uint32_t dim = static_cast<uint32_t>(s.integer("dim"));
  const DType type = s.result_types[0].dtype;
  Builder& b = s.b;
  if (s.integer("last_index") == 0)
    return {b.reduce(s.in[0], {&dim, 1}, fold, TENON_DTYPE_NONE, type)};
  // The last of equal elements is the first of the reversed ones: size - 1 - position.
  const Tensor first =
      b.reduce(b.reverse(s.in[0], {&dim, 1}), {&dim, 1}, fold, TENON_DTYPE_NONE, type);
  if (!first.valid()) return {first};
  const ExprId last = b.pool().convert(b.pool().sub(s.in[0].dims[dim], b.pool().integer(1)), type);
  return {b.map(type, first.dims, [&](std::span<const ExprId> axes) {
    return b.pool().op(TENON_S_SUB, {last, b.load(first, axes)});
  })};
}

std::vector<Tensor> dot_general(LoweringSite& s) {
  return {s.b.dot(s.in[0], s.in[1], s.ordinals("a_batch"), s.ordinals("b_batch"),
                  s.ordinals("a_contract"), s.ordinals("b_contract"), s.acc(),
                  s.result_types[0].dtype)};
}

// Dim numbers [first, second, spatial...]; 0, 1, 2, ... by default.
std::vector<uint32_t> dim_numbers(LoweringSite& s, const char* name, size_t rank) {
  std::vector<uint32_t> out = s.ordinals(name);
  for (size_t i = out.size(); i < rank; ++i) out.push_back(static_cast<uint32_t>(i));
  return out;
}

std::vector<int64_t> padded(std::vector<int64_t> values, size_t count, int64_t otherwise) {
  values.resize(count, otherwise);
  return values;
}

// x whose batch holds groups, with these as groups of its features.
Tensor groups_of_features(Builder& b, const Tensor& x, uint32_t batch, uint32_t feature,
                          int64_t groups) {
  Pool& p = b.pool();
  std::vector<ExprId> split = x.dims, joined = x.dims;
  split[batch] = p.floordiv(x.dims[batch], p.integer(groups));
  joined[batch] = split[batch];
  joined[feature] = p.mul(x.dims[feature], p.integer(groups));
  split.insert(split.begin() + batch, p.integer(groups));
  // Of the dims after the split, all but the groups in their order, and the groups before the
  // features.
  const uint32_t features = feature < batch ? feature : feature + 1;
  std::vector<uint32_t> order;
  for (uint32_t d = 0; d < split.size(); ++d) {
    if (d == features) order.push_back(batch);
    if (d != batch) order.push_back(d);
  }
  return b.reshape(b.transpose(b.reshape(x, split), order), joined);
}

std::vector<Tensor> conv(LoweringSite& s) {
  Tensor x = s.in[0], w = s.in[1];
  const size_t rank = x.rank(), spatial = rank - 2;
  const std::vector<uint32_t> xd = dim_numbers(s, "x_dims", rank),
                              wd = dim_numbers(s, "w_dims", rank),
                              od = dim_numbers(s, "out_dims", rank);
  ConvDims numbers{xd[0], xd[1], wd[0], wd[1], od[0], od[1], {}, {}, {}};
  numbers.x_spatial.assign(xd.begin() + 2, xd.end());
  numbers.w_spatial.assign(wd.begin() + 2, wd.end());
  numbers.out_spatial.assign(od.begin() + 2, od.end());
  int64_t groups = s.integer("groups", 1);
  std::vector<uint32_t> flipped;
  const std::vector<int64_t> reversal = padded(s.integers("reversal"), spatial, 0);
  const std::vector<int64_t> strides = padded(s.integers("strides"), spatial, 1),
                             low = padded(s.integers("pad_low"), spatial, 0),
                             high = padded(s.integers("pad_high"), spatial, 0),
                             base = padded(s.integers("x_dilation"), spatial, 1),
                             dilation = padded(s.integers("w_dilation"), spatial, 1);
  std::vector<WindowDim> window;
  for (size_t i = 0; i < spatial; ++i) {
    const std::optional<int64_t> size = s.b.pool().value(w.dims[numbers.w_spatial[i]]);
    if (!size) return s.refuse("a filter whose size is symbolic is not generated");
    if (reversal[i] != 0) flipped.push_back(numbers.w_spatial[i]);
    window.push_back({*size, strides[i], low[i], high[i], dilation[i], base[i]});
  }
  const bool turned = !flipped.empty();
  if (turned) w = s.b.reverse(w, flipped);
  std::vector<ExprId> dims;
  if (!s.result_dims(0, &dims)) return s.refuse("its size depends on data");
  if (!turned) {
    if (const auto sums = depthwise_gradient(s, numbers, window, dims)) return {*sums};
  }
  if (const int64_t parts = s.integer("batch_groups", 1); parts != 1) {
    x = groups_of_features(s.b, x, xd[0], xd[1], parts);
    groups = parts;
  }
  return {s.b.conv(x, w, numbers, window, groups, dims, s.acc(), s.result_types[0].dtype)};
}

std::vector<Tensor> reduce_window(LoweringSite& s) {
  const size_t rank = s.in[0].rank();
  const std::vector<int64_t> sizes = padded(s.integers("window"), rank, 1),
                             strides = padded(s.integers("strides"), rank, 1),
                             low = padded(s.integers("pad_low"), rank, 0),
                             high = padded(s.integers("pad_high"), rank, 0),
                             base = padded(s.integers("base_dilation"), rank, 1),
                             dilation = padded(s.integers("dilation"), rank, 1);
  std::vector<WindowDim> window;
  for (size_t i = 0; i < rank; ++i)
    window.push_back({sizes[i], strides[i], low[i], high[i], dilation[i], base[i]});
  const std::string_view kind = s.text("kind");
  const Fold fold = kind == "max" ? Fold::kMax : kind == "min" ? Fold::kMin : Fold::kSum;
  std::vector<ExprId> dims;
  if (!s.result_dims(0, &dims)) return s.refuse("its size depends on data");
  return {s.b.reduce_window(s.in[0], window, fold, dims, s.acc(), s.result_types[0].dtype)};
}

// Shorter rows of scores fit the first-level cache and are faster as kernels of their own, because
// every core has more of them at once.
constexpr int64_t kLongRow = 384;

// Lowers attention with long rows to one pass; other attention is decomposed.
std::vector<Tensor> sdpa(LoweringSite& s) {
  const Tensor q = s.in[0], k = s.in[1], v = s.in[2], mask = s.in.size() > 3 ? s.in[3] : Tensor{};
  Pool& p = s.b.pool();
  if (q.type != TENON_F32 || p.likely(k.dims[2]) < kLongRow)
    return s.refuse("short or narrow rows are faster as separate kernels");
  // One token of a decoder would be a tile of queries.
  if (p.is_guess(q.dims[2])) return s.refuse("it is not known whether it has many queries");
  const auto heads = p.value(q.dims[1]), key_heads = p.value(k.dims[1]),
             features = p.value(q.dims[3]);
  if (!features || (q.dims[1] != k.dims[1] && (!heads || !key_heads || *key_heads == 0)))
    return s.refuse("its heads or features are symbolic");
  const int64_t group = q.dims[1] == k.dims[1] ? 1 : *heads / *key_heads;
  auto real = [&](std::string_view name) {
    const tenon_attr_t* a = s.attr(name);
    return a != nullptr && a->kind == TENON_ATTR_F64 ? a->u.f : 0.0;
  };
  const double scale = real("scale") != 0
                           ? real("scale")
                           : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(*features, 1)));
  const double cap = real("softcap");
  const std::string_view causal = s.text("causal");
  const auto score = [&](ExprId x, std::span<const ExprId> at) {
    const ExprId hidden = p.number(-std::numeric_limits<double>::infinity(), TENON_F32);
    x = p.op(TENON_S_MUL, {x, p.number(scale, TENON_F32)});
    if (cap != 0) {
      x = p.op(TENON_S_DIV, {x, p.number(cap, TENON_F32)});
      x = p.op(TENON_S_MUL, {p.op(TENON_S_TANH, {x}), p.number(cap, TENON_F32)});
    }
    if (mask.valid()) {
      std::vector<ExprId> where;
      for (size_t d = 0; d < 4; ++d)
        where.push_back(p.is_const(mask.dims[d], 1) ? p.integer(0) : at[d]);
      const ExprId m = s.b.load(mask, where);
      x = mask.type == TENON_PRED ? p.op(TENON_S_SELECT, {m, x, hidden})
                                  : p.op(TENON_S_ADD, {x, m});
    }
    if (causal.empty() || causal == "none") return x;
    const ExprId last = causal == "first" ? at[2] : p.add(at[2], p.sub(k.dims[2], q.dims[2]));
    return p.op(TENON_S_SELECT, {p.cmp(TENON_CMP_LE, at[3], last), x, hidden});
  };
  // A query that sees no key has weights of sum 0. If the sum is NaN, so are all its weights.
  const bool zero_nan = s.integer("zero_nan", 0) != 0;
  const bool zero_blind = s.integer("zero_blind", 0) != 0;
  const auto final = [&](ExprId mean, ExprId sum) {
    if (!zero_nan && !zero_blind) return mean;
    ExprId nothing = p.op(TENON_S_CMP, {sum, p.number(0, TENON_F32)}, TENON_CMP_EQ);
    if (zero_nan) nothing = p.op(TENON_S_OR, {nothing, p.op(TENON_S_IS_NAN, {sum})});
    return p.op(TENON_S_SELECT, {nothing, p.number(0, TENON_F32), mean});
  };
  return {s.b.attention(q, k, v, group, score, final)};
}

constexpr Lowering kTable[] = {
    {"sdpa", sdpa},
    {"reduce_sum", reduce<Fold::kSum>},
    {"reduce_prod", reduce<Fold::kProd>},
    {"reduce_max", reduce<Fold::kMax>},
    {"reduce_min", reduce<Fold::kMin>},
    {"reduce_and", reduce<Fold::kAnd>},
    {"reduce_or", reduce<Fold::kOr>},
    {"argmax", arg_reduce<Fold::kArgMax>},
    {"argmin", arg_reduce<Fold::kArgMin>},
    {"dot_general", dot_general},
    {"conv", conv},
    {"reduce_window", reduce_window},
};

}  // namespace

std::span<const Lowering> reduction_lowerings() {
  return kTable;
}

}  // namespace tenon::kernelgen
