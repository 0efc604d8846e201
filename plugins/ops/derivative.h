// Shared by the derivative and batch rules of several ops.
#ifndef TENON_PLUGINS_OPS_DERIVATIVE_H_
#define TENON_PLUGINS_OPS_DERIVATIVE_H_

#include <algorithm>

#include "common.h"

namespace tenon::ops {

inline Value times(Builder& b, Value x, Value y) {
  return b.build("mul", {x, y});
}
inline Value minus(Builder& b, Value x, Value y) {
  return b.build("sub", {x, y});
}
// What a constant factor of tangents is to cotangents.
inline Value conjugate(Builder& b, Value x) {
  return is_complex(x.dtype()) ? b.build("conj", {x}) : x;
}
// The sum; an invalid value is zero.
inline Value plus(Builder& b, Value x, Value y) {
  if (!x.valid()) return y;
  return y.valid() ? b.build("add", {x, y}) : x;
}
inline Value reshape(Builder& b, Value x, const Dims& shape) {
  return b.build("reshape", {x}, {{"shape", shape}});
}
inline Value permute(Builder& b, Value x, std::span<const int64_t> perm) {
  return is_identity(perm) ? x : b.build("transpose", {x}, {{"perm", perm}});
}
inline Axes inverse_of(std::span<const int64_t> perm) {
  Axes out(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    out[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return out;
}
// Dims one further, after a new dim 0.
inline Axes shifted(std::span<const int64_t> axes) {
  Axes out;
  for (const int64_t axis : axes) out.push_back(axis + 1);
  return out;
}
// The value with a new dim 0 of extent `size`; it may have it already.
inline Value repeated(Builder& b, Value x, bool has_it, Dim size) {
  if (has_it || !x.valid()) return x;
  Dims shape = x.dims();
  shape.insert(shape.begin(), size);
  return b.broadcast(x, shape, range(1, static_cast<int64_t>(shape.size())));
}
// x moved along a dim by so many places, towards the end if positive; `border` comes in.
inline Value moved(Builder& b, Value x, int64_t dim, int64_t places, int64_t border) {
  Axes low(x.rank(), 0), high = low;
  low[static_cast<size_t>(dim)] = places;
  high[static_cast<size_t>(dim)] = -places;
  return b.build("pad", {x, b.scalar_int(x.dtype(), border)}, {{"low", low}, {"high", high}});
}
inline Value backwards(Builder& b, Value x, int64_t dim) {
  return b.build("reverse", {x}, {{"dims", {dim}}});
}
// 1, 2, 4... below an extent: what running products double. No memory holds 2^48 elements, so a
// symbol without a bound has 48 of them.
inline Axes doublings(Dim extent) {
  const int64_t bound = std::min(upper_bound(extent), int64_t{1} << 48);
  Axes out;
  for (int64_t distance = 1; distance < bound; distance *= 2) out.push_back(distance);
  return out;
}
inline Value equal(Builder& b, Value x, Value y) {
  return b.build("compare", {x, y}, {{"direction", TENON_CMP_EQ}});
}
// The element where a condition holds, else 0.
inline Value kept(Builder& b, Value condition, Value x) {
  return b.build("select", {condition, x, b.full_like(x, 0)});
}
inline Dim count_of_elements(Builder& b, const Dims& dims) {
  Dim out = b.dim(1);
  for (const Dim d : dims) out = out * d;
  return out;
}
// The attributes of a node as they are.
inline std::vector<Attr> attributes_of(const Node& node) {
  const tenon_node_view_t view = node.view();
  std::vector<Attr> out;
  for (uint32_t i = 0; i < view.attr_count; ++i) out.push_back(Attr(view.attrs[i]));
  return out;
}
// The rule `batch` of ops whose results begin with a dim of images or the like, as those operands
// do that have a bit in `kImages`: samples become more images. All other operands are shared by all
// images. Where they differ from sample to sample, the rule does not apply.
template <uint32_t kImages = 1>
std::vector<Value> batch_images(Builder& b, const Node& node, std::span<const Value> operands,
                                std::span<const uint8_t> is_batched, Dim size) {
  std::vector<Value> given(operands.begin(), operands.end());
  for (uint32_t i = 0; i < given.size(); ++i) {
    if ((kImages >> i & 1) == 0 && is_batched[i] != 0) return {};
    if ((kImages >> i & 1) == 0 || !given[i]) continue;
    given[i] = repeated(b, given[i], is_batched[i] != 0, size);
    Dims shape = given[i].dims();
    shape[1] = size * shape[1];
    shape.erase(shape.begin());
    given[i] = reshape(b, given[i], shape);
  }
  const Node made = b.build_node(node.op(), given, attributes_of(node));
  std::vector<Value> out;
  for (uint32_t i = 0; i < node.result_count() && b.status().ok(); ++i) {
    Dims whole = node.result(i).dims();
    whole.insert(whole.begin(), size);
    out.push_back(reshape(b, made.result(i), whole));
  }
  return out;
}
// Zeros of extents `shape`, with g from index `start` on.
inline Value placed(Builder& b, Value g, const Dims& start, const Dims& shape) {
  Axes low, high;
  bool known = true;
  for (uint32_t i = 0; i < g.rank(); ++i) {
    const Dim after = shape[i] - start[i] - g.dim(i);
    known = known && start[i].is_constant() && after.is_constant();
    low.push_back(known ? start[i].constant() : 0);
    high.push_back(known ? after.constant() : 0);
  }
  if (known) {
    if (all_equal(low, 0) && all_equal(high, 0)) return g;
    return b.build("pad", {g, b.scalar(g.dtype(), 0)}, {{"low", low}, {"high", high}});
  }
  for (uint32_t i = 0; i < g.rank(); ++i) {
    Dims border = g.dims();
    std::vector<Value> parts;
    border[i] = start[i];
    if (!border[i].is(0)) parts.push_back(b.full(g.dtype(), border, 0));
    parts.push_back(g);
    border[i] = shape[i] - start[i] - g.dim(i);
    if (!border[i].is(0)) parts.push_back(b.full(g.dtype(), border, 0));
    if (parts.size() > 1) g = b.build("concat", parts, {{"dim", static_cast<int64_t>(i)}});
  }
  return g;
}

}  // namespace tenon::ops

#endif
