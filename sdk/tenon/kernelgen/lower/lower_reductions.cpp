// Lowerings of reductions, windows and contractions.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

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

// The spatial extents of a result that is the gradient of a depthwise filter, if it has few
// elements per channel: each image of x is one group, and the filter is not turned.
std::optional<std::vector<int64_t>> few_sums(LoweringSite& s, const ConvDims& n,
                                             std::span<const WindowDim> window,
                                             std::span<const ExprId> dims) {
  constexpr int64_t kFew = 64;
  Pool& p = s.b.pool();
  const int64_t groups = s.integer("batch_groups", 1);
  if (groups == 1 || p.value(s.in[0].dims[n.x_batch]) != groups) return {};
  std::vector<int64_t> sizes;
  int64_t count = 1;
  const std::vector<int64_t> reversal = padded(s.integers("reversal"), window.size(), 0);
  for (size_t i = 0; i < window.size(); ++i) {
    const auto size = p.value(dims[n.out_spatial[i]]);
    if (!size || *size == 0 || window[i].base_dilation != 1 || reversal[i] != 0) return {};
    sizes.push_back(*size);
    count *= *size;
    if (count > kFew) return {};
  }
  return sizes;
}

// x with its padding, and its last spatial dim as [step, extent / step]: a filter that reads every
// `step`-th element then reads neighbours.
Tensor padded_in_steps(LoweringSite& s, const ConvDims& n, std::span<const WindowDim> window) {
  Pool& p = s.b.pool();
  const Tensor x = s.in[0];
  std::vector<ExprId> dims = x.dims;
  for (size_t i = 0; i < window.size(); ++i)
    dims[n.x_spatial[i]] =
        p.add(dims[n.x_spatial[i]], p.integer(window[i].pad_low + window[i].pad_high));
  const uint32_t last = n.x_spatial.back();
  const ExprId step = p.integer(window.back().dilation);
  dims[last] = p.ceildiv(dims[last], window.back().dilation);
  dims.insert(dims.begin() + last, step);
  return s.b.map(x.type, dims, [&](std::span<const ExprId> axes) {
    std::vector<ExprId> at(axes.begin(), axes.end());
    at[last + 1] = p.add(p.mul(axes[last + 1], step), axes[last]);
    at.erase(at.begin() + last);
    ExprId guard = kNone;
    for (size_t i = 0; i < window.size(); ++i) {
      ExprId& from = at[n.x_spatial[i]];
      from = p.sub(from, p.integer(window[i].pad_low));
      guard = p.both(guard, p.both(p.cmp(TENON_CMP_GE, from, p.integer(0)),
                                   p.cmp(TENON_CMP_LT, from, x.dims[n.x_spatial[i]])));
    }
    return s.b.load(x, at, guard);
  });
}

// The gradient of a depthwise filter: a sum over images for each of its few elements, of the
// products of w with x moved by that element. All read w at once and run along memory. `sizes`: the
// extents of the result's spatial dims.
Tensor sums_of_moved(LoweringSite& s, const ConvDims& n, std::span<const WindowDim> window,
                     std::span<const int64_t> sizes) {
  Builder& b = s.b;
  Pool& p = b.pool();
  const size_t spatial = window.size();
  const DType narrow = s.in[0].type;
  const DType acc = s.acc() != TENON_DTYPE_NONE                   ? s.acc()
                    : narrow == TENON_F16 || narrow == TENON_BF16 ? DType{TENON_F32}
                                                                  : narrow;
  const Tensor w = s.in[1];
  const Tensor x = padded_in_steps(s, n, window);
  // [channels, filters of one, features, spatial dims of w]
  const ExprId channels = s.in[0].dims[n.x_batch];
  std::vector<ExprId> products = {channels, p.floordiv(w.dims[n.w_out], channels), w.dims[n.w_in]};
  for (const uint32_t d : n.w_spatial) products.push_back(w.dims[d]);
  std::vector<uint32_t> summed(spatial + 1);
  for (size_t i = 0; i < summed.size(); ++i) summed[i] = static_cast<uint32_t>(i + 2);
  std::vector<Tensor> parts;
  std::vector<int64_t> at(spatial, 0);
  const auto product = [&](std::span<const ExprId> axes) {
    std::vector<ExprId> ix(spatial + 3), iw(spatial + 2);
    ix[n.x_batch] = axes[0];
    iw[n.w_out] = p.add(p.mul(axes[0], products[1]), axes[1]);
    ix[n.x_feature] = iw[n.w_in] = axes[2];
    for (size_t i = 0; i < spatial; ++i) {
      iw[n.w_spatial[i]] = axes[3 + i];
      const int64_t first = at[i] * window[i].stride, step = window[i].dilation;
      const bool last = i + 1 == spatial;
      ix[n.x_spatial[i]] = last ? p.add(axes[3 + i], p.integer(first / step))
                                : p.add(p.mul(axes[3 + i], p.integer(step)), p.integer(first));
      if (last) ix.back() = p.integer(first % step);
    }
    std::rotate(ix.begin() + n.x_spatial.back(), ix.end() - 1, ix.end());
    return p.op(TENON_S_MUL, {p.convert(b.load(w, iw), acc), p.convert(b.load(x, ix), acc)});
  };
  const int64_t count =
      std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  for (int64_t k = 0; k < count; ++k) {
    for (size_t i = spatial, rest = static_cast<size_t>(k); i-- > 0;) {
      at[i] = static_cast<int64_t>(rest % static_cast<size_t>(sizes[i]));
      rest /= static_cast<size_t>(sizes[i]);
    }
    const Tensor sum = b.reduce(b.map(acc, products, product), summed, Fold::kSum, acc, acc);
    parts.push_back(b.reshape(sum, {w.dims[n.w_out], p.integer(1)}));
  }
  std::vector<ExprId> in_order = {p.integer(1), w.dims[n.w_out]};
  for (const int64_t size : sizes) in_order.push_back(p.integer(size));
  const Tensor all = b.reshape(b.concat(parts, 1), in_order);
  std::vector<uint32_t> from(spatial + 2);
  from[n.out_batch] = 0;
  from[n.out_feature] = 1;
  for (size_t i = 0; i < spatial; ++i) from[n.out_spatial[i]] = static_cast<uint32_t>(2 + i);
  return b.convert(b.transpose(all, from), s.result_types[0].dtype);
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
  if (!flipped.empty()) w = s.b.reverse(w, flipped);
  std::vector<ExprId> dims;
  if (!s.result_dims(0, &dims)) return s.refuse("its size depends on data");
  if (const auto sizes = few_sums(s, numbers, window, dims))
    return {sums_of_moved(s, numbers, window, *sizes)};
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
