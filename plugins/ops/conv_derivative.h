// Derivatives and batches of conv. Element o of the result meets element (o strides + k w_dilation
// - low) / x_dilation of x at place k of the window.
#ifndef TENON_PLUGINS_OPS_CONV_DERIVATIVE_H_
#define TENON_PLUGINS_OPS_CONV_DERIVATIVE_H_

#include "conv_shape.h"
#include "derivative.h"

namespace tenon::ops::conv_op {

// ---- Dims ----

// Dim `at` as two.
inline Value split(Builder& b, Value x, int64_t at, Dim first, Dim second) {
  Dims shape = x.dims();
  shape[static_cast<size_t>(at)] = second;
  shape.insert(shape.begin() + at, first);
  return reshape(b, x, shape);
}
// Dims `at` and `at` + 1 as one.
inline Value join(Builder& b, Value x, int64_t at) {
  Dims shape = x.dims();
  shape[static_cast<size_t>(at)] =
      shape[static_cast<size_t>(at)] * shape[static_cast<size_t>(at + 1)];
  shape.erase(shape.begin() + at + 1);
  return reshape(b, x, shape);
}
inline Value moved_dim(Builder& b, Value x, int64_t from, int64_t to) {
  Axes perm = others(x.rank(), Axes{from});
  perm.insert(perm.begin() + to, from);
  return permute(b, x, perm);
}
inline Axes exchanged(Axes dims) {
  std::swap(dims[0], dims[1]);
  return dims;
}

// A conv as its rules see it.
struct Conv {
  Builder& b;
  Node node;
  Value x, w;
  ConvShape c;
  size_t spatial;
  Conv(Builder& builder, const Node& of)
      : b(builder),
        node(of),
        x(of.operand(0)),
        w(of.operand(1)),
        c(conv_shape(of, x.rank())),
        spatial(c.strides.size()) {}

  Dim x_dim(size_t i) const { return x.dim(static_cast<uint32_t>(c.x_dims[i])); }
  int64_t window(size_t i) const {
    return *constant_of(w.dim(static_cast<uint32_t>(c.w_dims[i + 2])));
  }
  // How far beyond its first element the window reaches.
  int64_t reach(size_t i) const { return (window(i) - 1) * c.w_dilation[i]; }
  // How far before the end of x the last window ends; of a symbolic extent, at most.
  int64_t rest(size_t i) const {
    const auto n = constant_of(x_dim(i + 2));
    if (!n) return c.strides[i] - 1;
    return ((*n - 1) * c.x_dilation[i] + c.pad_low[i] + c.pad_high[i] - reach(i)) % c.strides[i];
  }
  Value build(Value left, Value right, const ConvShape& s, bool as_declared = false) const {
    const tenon_dtype_t type = as_declared ? node.dtype("dtype") : TENON_DTYPE_NONE;
    return b.build("conv", {left, right},
                   {{"strides", s.strides},
                    {"pad_low", s.pad_low},
                    {"pad_high", s.pad_high},
                    {"x_dilation", s.x_dilation},
                    {"w_dilation", s.w_dilation},
                    {"reversal", s.reversal},
                    {"groups", s.groups},
                    {"batch_groups", s.batch_groups},
                    {"x_dims", s.x_dims},
                    {"w_dims", s.w_dims},
                    {"out_dims", s.out_dims},
                    {"acc", dtype(node.dtype("acc"))},
                    {"dtype", dtype(type)}});
  }
};

// ---- Cotangents ----

// w in the order of its roles, with in and out features exchanged within each group.
inline Value with_exchanged_features(const Conv& v) {
  Builder& b = v.b;
  const Dim groups = b.dim(v.c.groups * v.c.batch_groups);
  const Value w = permute(b, v.w, v.c.w_dims);
  return join(b, moved_dim(b, split(b, w, 0, groups, w.dim(0) / groups), 2, 1), 0);
}
// A conv of g, its elements `strides` apart, with the window seen from the other end.
inline Value transpose_x(const Conv& v, Value g) {
  Builder& b = v.b;
  const int64_t batches = v.c.batch_groups;
  ConvShape s = v.c;
  std::swap(s.strides, s.x_dilation);
  for (size_t i = 0; i < v.spatial; ++i) {
    s.pad_low[i] = v.reach(i) - v.c.pad_low[i];
    s.pad_high[i] = v.reach(i) - v.c.pad_high[i] + v.rest(i);
    s.reversal[i] = v.c.reversal[i] != 0 ? 0 : 1;
  }
  s.x_dims = v.c.out_dims;
  s.w_dims = range(0, v.x.rank());
  s.out_dims = batches == 1 ? v.c.x_dims : s.w_dims;
  s.groups = v.c.groups * batches;
  s.batch_groups = 1;
  Value out = v.build(g, with_exchanged_features(v), s);
  if (batches != 1) {  // parts of the batch lie in the features
    const Value parts = split(b, out, 1, b.dim(batches), v.x_dim(1));
    out = permute(b, join(b, moved_dim(b, parts, 1, 0), 0), inverse_of(v.c.x_dims));
  }
  if (out.dims() == v.x.dims()) return out;
  const Dims start(v.x.rank(), b.dim(0));
  return b.build("slice", {out}, {{"start", start}, {"limit", v.x.dims()}});
}
// The cotangent of w where the extent of g is a symbol, which a window cannot have: for each place
// of the window a product of g with what it meets in x.
inline Value transpose_w_by_places(const Conv& v, Value g) {
  Builder& b = v.b;
  const Dim groups = b.dim(v.c.groups * v.c.batch_groups);
  const auto grouped = [&](Value y, int64_t dim) {
    const Dim part = y.dim(static_cast<uint32_t>(dim)) / groups;
    return moved_dim(b, split(b, y, dim, groups, part), dim, 0);
  };
  Axes gaps = with_batch(v.c.x_dilation, 1), window;
  for (int64_t& distance : gaps) --distance;
  for (size_t i = 0; i < v.spatial; ++i) window.push_back(v.window(i));
  Value x = b.build("pad", {permute(b, v.x, v.c.x_dims), b.scalar(g.dtype(), 0)},
                    {{"low", with_batch(v.c.pad_low, 0)},
                     {"high", with_batch(v.c.pad_high, 0)},
                     {"interior", gaps}});
  x = grouped(x, v.c.batch_groups == 1 ? 1 : 0);
  g = grouped(permute(b, g, v.c.out_dims), 1);
  Axes summed = others(g.rank(), Axes{0, 2});
  std::vector<Value> parts;
  each_index(window, [&](const Index& k) {
    Dims start(x.rank(), b.dim(0)), limit = x.dims();
    Axes step(x.rank(), 1);
    for (size_t i = 0; i < v.spatial; ++i) {
      step[i + 3] = v.c.strides[i];
      start[i + 3] = b.dim(k[i] * v.c.w_dilation[i]);
      const Dim last = (g.dim(static_cast<uint32_t>(i + 3)) - b.dim(1)) * b.dim(v.c.strides[i]);
      limit[i + 3] = start[i + 3] + last + b.dim(1);
    }
    const Value met = b.build("slice", {x}, {{"start", start}, {"limit", limit}, {"stride", step}});
    const Value part = b.build("dot_general", {g, met},
                               {{"a_batch", {0}},
                                {"b_batch", {0}},
                                {"a_contract", summed},
                                {"b_contract", summed},
                                {"acc", dtype(v.node.dtype("acc"))}});
    parts.push_back(split(b, join(b, part, 0), 1, part.dim(2), b.dim(1)));
  });
  const Value places = parts.size() == 1 ? parts[0] : b.build("concat", parts, {{"dim", 2}});
  Dims shape;
  for (const int64_t dim : v.c.w_dims) shape.push_back(v.w.dim(static_cast<uint32_t>(dim)));
  return permute(b, reshape(b, places, shape), inverse_of(v.c.w_dims));
}
// A conv of x with g as its window: batch and features change places, strides and dilations too.
inline Value transpose_w(const Conv& v, Value g) {
  Builder& b = v.b;
  ConvShape s = v.c;
  std::swap(s.strides, s.w_dilation);
  std::swap(s.groups, s.batch_groups);
  Axes flipped;
  bool is_known = true;
  for (size_t i = 0; i < v.spatial; ++i) {
    s.pad_high[i] -= v.rest(i);
    if (s.reversal[i] != 0) flipped.push_back(v.c.w_dims[i + 2]);
    s.reversal[i] = 0;
    is_known = is_known && g.dim(static_cast<uint32_t>(v.c.out_dims[i + 2])).is_constant();
  }
  s.x_dims = exchanged(v.c.x_dims);
  s.w_dims = exchanged(v.c.out_dims);
  s.out_dims = exchanged(v.c.w_dims);
  const Value out = is_known ? v.build(v.x, g, s) : transpose_w_by_places(v, g);
  return flipped.empty() ? out : b.build("reverse", {out}, {{"dims", flipped}});
}
inline Value transpose(Builder& b, const Node& node, uint32_t operand,
                       std::span<const Value> cotangents) {
  const Conv v(b, node);
  const Value like = node.operand(operand);
  for (const Value each : {v.x, v.w, cotangents[0]}) {
    for (const Dim d : each.dims()) {
      if (d.is(0)) return b.full_like(like, 0);
    }
  }
  const Value g = b.convert(cotangents[0], like.dtype());
  return operand == 0 ? transpose_x(v, g) : transpose_w(v, g);
}

// ---- Samples ----

// An operand in the order of its roles, after the dim of samples if there is one.
inline Value in_order(Builder& b, Value x, const Axes& dims, bool is_batched) {
  Axes perm = is_batched ? shifted(dims) : dims;
  if (is_batched) perm.insert(perm.begin(), 0);
  return permute(b, x, perm);
}
// Samples of x go into its batch, of w into its out features, of both into groups.
inline std::vector<Value> batch(Builder& b, const Node& node, std::span<const Value> operands,
                                std::span<const uint8_t> is_batched, Dim size) {
  const Conv v(b, node);
  const bool of_x = is_batched[0] != 0, of_w = is_batched[1] != 0;
  Value x = in_order(b, operands[0], v.c.x_dims, of_x);
  Value w = in_order(b, operands[1], v.c.w_dims, of_w);
  ConvShape s = v.c;
  s.x_dims = s.w_dims = s.out_dims = range(0, v.x.rank());
  if (s.batch_groups != 1) {  // these are groups whose features lie in the batch
    const int64_t at = of_x ? 1 : 0;
    const Dim parts = b.dim(s.batch_groups);
    x = join(b, moved_dim(b, split(b, x, at, parts, v.x_dim(0) / parts), at, at + 1), at + 1);
    s.groups = std::exchange(s.batch_groups, 1);
  }
  const Dim groups = b.dim(s.groups), features = w.dim(of_w ? 1 : 0);
  Value y;
  if (of_x && of_w) {
    if (!size.is_constant()) {
      b.note(fail(TENON_UNIMPLEMENTED,
                  "T0411: conv cannot work on several samples: where x and w both have them, their "
                  "number has to be known"));
      return {};
    }
    s.groups *= size.constant();
    y = v.build(join(b, moved_dim(b, x, 0, 1), 1), join(b, w, 0), s, true);
    y = moved_dim(b, split(b, y, 1, size, features), 1, 0);
  } else if (of_x) {
    const Dim batch = x.dim(1);
    y = split(b, v.build(join(b, x, 0), w, s, true), 0, size, batch);
  } else {
    const Dim part = features / groups;
    w = moved_dim(b, split(b, w, 1, groups, part), 0, 1);
    y = v.build(x, join(b, join(b, w, 0), 0), s, true);
    y = split(b, split(b, y, 1, groups, size * part), 2, size, part);
    y = join(b, moved_dim(b, y, 2, 0), 2);
  }
  Axes perm = shifted(inverse_of(v.c.out_dims));
  perm.insert(perm.begin(), 0);
  return {permute(b, y, perm)};
}

}  // namespace tenon::ops::conv_op

#endif
