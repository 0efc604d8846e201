// grid_sample: samples x at computed positions.
#include "compose.h"
#include "derivative.h"
#include "flag.h"

namespace tenon::ops::grid_sample_op {

Status infer(const InferQuery& q) {
  const uint32_t rank = q.rank(0);
  if (q.rank(1) != rank)
    return q.fail("C1", cat("grid has rank ", q.rank(1), ", x has rank ", rank));
  TENON_TRY(q.require_equal("C2", q.dim(0, 0), q.dim(1, 0), "batches of x and grid"));
  TENON_TRY(q.require_equal("C3", q.dim(1, rank - 1), q.constant(rank - 2),
                            "the last dim of grid and the spatial dims"));
  Dims dims = {q.dim(0, 0), q.dim(0, 1)};
  for (uint32_t i = 1; i + 1 < rank; ++i) dims.push_back(q.dim(1, i));
  for (uint32_t i = 2; i < rank; ++i)
    TENON_TRY(q.require("C4", TENON_REL_LT, q.constant(0), q.dim(0, i), "0 and a spatial dim"));
  return q.result(q.dtype(0), dims);
}

double cubic_weight(double distance) {
  constexpr double a = -0.75;
  const double d = std::fabs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

// ---- Reference ----

struct Place {
  std::string_view padding;
  bool corners;
  // Applies the padding mode to a position that may lie outside of [0, n).
  double settle(double x, double n) const {
    if (padding == "reflection") {
      const double low = corners ? 0 : -0.5, span = corners ? n - 1 : n;
      if (span == 0) return 0;
      double d = std::fmod(std::fabs(x - low), 2 * span);
      if (d > span) d = 2 * span - d;
      x = d + low;
    }
    return padding == "zeros" ? x : std::min(std::max(x, 0.0), n - 1);
  }
  double denormalise(double g, double n) const {
    return corners ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2;
  }
};

struct Tap {
  int64_t index;  // -1: outside
  double weight;
};
std::vector<Tap> taps(const Place& place, std::string_view mode, double g, int64_t extent_) {
  const auto n = static_cast<double>(extent_);
  double x = place.denormalise(g, n);
  if (std::isnan(x)) x = -1;
  const auto at = [&](double i, double weight) {
    const double settled = mode == "cubic" ? place.settle(i, n) : i;
    const bool inside = settled >= 0 && settled <= n - 1;
    return Tap{inside ? static_cast<int64_t>(settled) : -1, weight};
  };
  if (mode != "cubic") x = place.settle(x, n);
  if (mode == "nearest") return {at(std::nearbyint(x), 1)};
  const double base = std::floor(x);
  if (mode == "linear") return {at(base, 1 - (x - base)), at(base + 1, x - base)};
  std::vector<Tap> out;
  for (int k = -1; k <= 2; ++k) out.push_back(at(base + k, cubic_weight(base + k - x)));
  return out;
}

Status reference(const Eval& e) {
  const Array x = e.input(0), grid = e.input(1), y = e.output();
  const Place place = {e.text("padding"), e.i64("align_corners") != 0};
  const std::string_view mode = e.text("mode");
  const size_t spatial = x.rank() - 2;
  each_index(y.dims(), [&](const Index& to) {
    std::vector<std::vector<Tap>> all;
    Axes counts;
    for (size_t d = 0; d < spatial; ++d) {
      Index at = {to[0]};
      at.insert(at.end(), to.begin() + 2, to.end());
      at.push_back(static_cast<int64_t>(spatial - 1 - d));
      all.push_back(taps(place, mode, load_double(grid.dtype(), grid.at(at)), x.dim(2 + d)));
      counts.push_back(static_cast<int64_t>(all.back().size()));
    }
    double sum = 0;
    each_index(counts, [&](const Index& k) {
      Index from = {to[0], to[1]};
      double weight = 1;
      for (size_t d = 0; d < spatial; ++d) {
        const Tap& tap = all[d][static_cast<size_t>(k[d])];
        if (tap.index < 0) return;
        from.push_back(tap.index);
        weight *= tap.weight;
      }
      sum += weight * load_double(x.dtype(), x.at(from));
    });
    store_double(y.dtype(), y.at(to), sum);
  });
  return {};
}

// ---- Decomposition ----

struct Choice {
  Term index, weight, inside;  // `inside` is absent if every position is inside
};

// The type of numbers of elements: half as wide where the extents are known to allow it.
tenon_dtype_t index_type(const Dims& dims) {
  int64_t count = 1;
  for (size_t d = 2; d < dims.size(); ++d) {
    if (!dims[d].is_constant() || dims[d].constant() > INT32_MAX / std::max<int64_t>(count, 1))
      return TENON_I64;
    count *= dims[d].constant();
  }
  return TENON_I32;
}

Term settle(Term x, Term n, std::string_view padding, bool corners) {
  if (padding == "reflection") {
    const double low = corners ? 0 : -0.5;
    const Term span = corners ? max(n - 1, 1e-30) : n;
    const Term d = apply("rem", abs(x - low), span * 2);
    x = min(d, span * 2 - d) + low;
  }
  return padding == "zeros" ? x : max(min(x, n - 1), 0);
}
Choice choose(Term position, Term weight, Term n, bool settled) {
  const Term last = n - 1;
  Choice c = {max(min(position, last), 0), weight, {}};
  if (!settled)
    c.inside = compare(position, TENON_CMP_GE, 0) & compare(position, TENON_CMP_LE, last);
  return c;
}
Term cubic_weight(Term distance) {
  constexpr double a = -0.75;
  const Term d = abs(distance);
  return where(compare(d, TENON_CMP_LE, 1), ((d * (a + 2) - (a + 3)) * d * d) + 1,
               where(compare(d, TENON_CMP_LT, 2), ((d * a - 5 * a) * d + 8 * a) * d - 4 * a, 0));
}
std::vector<Choice> choices(Term g, Term n, std::string_view mode, std::string_view padding,
                            bool corners) {
  Term x = corners ? (g + 1) * 0.5 * (n - 1) : ((g + 1) * n - 1) * 0.5;
  x = where(apply("is_nan", x), -1, x);
  if (mode == "cubic") {
    std::vector<Choice> out;
    const Term base = floor(x);
    for (int k = -1; k <= 2; ++k) {
      const Term at = base + k;
      out.push_back(
          choose(settle(at, n, padding, corners), cubic_weight(at - x), n, padding != "zeros"));
    }
    return out;
  }
  x = settle(x, n, padding, corners);
  if (mode == "nearest") return {choose(apply("round_even", x), {}, n, padding != "zeros")};
  const Term base = floor(x), part = x - base;
  // A neighbour beyond the border has weight 0.
  return {choose(base, 1 - part, n, padding != "zeros"),
          choose(base + 1, part, n, padding != "zeros")};
}

Status decompose(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, widen(b, node.operand(0))}, grid = {b, b.convert(node.operand(1), x.dtype())};
  const std::string mode = node.text("mode"), padding = node.text("padding");
  const bool corners = node.i64("align_corners") != 0;
  const Dims result = node.result().dims(), dims = x.dims();
  const auto spatial = static_cast<int64_t>(dims.size()) - 2;
  Dims places = grid.dims();
  places.pop_back();
  std::vector<std::vector<Choice>> all;
  Axes counts;
  for (int64_t d = 0; d < spatial; ++d) {
    const int64_t c = spatial - 1 - d;
    const Term g = reshape(cut(grid, spatial + 1, b.dim(c), b.dim(c + 1)), places);
    const Term n = extent(b, dims[static_cast<size_t>(2 + d)], x.dtype());
    all.push_back(choices(g, n, mode, padding, corners));
    counts.push_back(static_cast<int64_t>(all.back().size()));
  }
  Axes over = range(0, spatial + 2);
  over.erase(over.begin() + 1);
  const tenon_dtype_t number = index_type(dims);
  Dim count = b.dim(1);
  for (int64_t d = 0; d < spatial; ++d) count = count * dims[static_cast<size_t>(2 + d)];
  const Term flat = reshape(x, {dims[0], dims[1], count});
  Term sum;
  each_index(counts, [&](const Index& k) {
    // Each place is one number and one weight, which all channels share.
    Term at, weight, inside;
    for (int64_t d = 0; d < spatial; ++d) {
      const Choice& c = all[static_cast<size_t>(d)][static_cast<size_t>(k[static_cast<size_t>(d)])];
      const Term index = as(c.index, number);
      at = at.v ? at * extent(b, dims[static_cast<size_t>(2 + d)], number) + index : index;
      if (c.weight.v) weight = weight.v ? weight * c.weight : c.weight;
      if (c.inside.v) inside = inside.v ? inside & c.inside : c.inside;
    }
    Term part = {b, b.build("gather", {flat.v, at.v},
                            {{"sizes", Dims{b.dim(1), dims[1], b.dim(1)}},
                             {"offset_dims", {1}},
                             {"collapsed_dims", {2}},
                             {"index_map", {2}},
                             {"batch_dims", {0}},
                             {"index_batch_dims", {0}},
                             {"index_vector_dim", spatial + 1}})};
    if (weight.v) part = part * broadcast(weight, result, over);
    if (inside.v) part = where(broadcast(inside, result, over), part, 0);
    sum = sum.v ? sum + part : part;
  });
  return b.finish(out, {b.convert(sum, node.result().dtype())});
}

constexpr OpDraft declare() {
  OpDraft draft = op("grid_sample", kComposite);
  draft.summary("x read at the places that a grid names, between its elements too.")
      .doc(
          "A place is one number per spatial dim, the last dim first, from -1 to 1: the first and "
          "the last element with align_corners, else the outer edges of them. nearest rounds "
          "halves to even. A place that is NaN counts as just before the first element.")
      .operand("x", "[batch, channels, spatial...]", kFloat, 1, 3)
      .operand("grid", "[batch, places..., spatial dims of x]", kFloat, 1, 3)
      .result("y", "[batch, channels, places...]")
      .attr_string("mode", "which elements are taken: one, two or four per dim", "linear",
                   "nearest|linear|cubic")
      .attr_string("padding", "what lies outside of x: zeros, its border, or its mirror image",
                   "zeros", "zeros|border|reflection")
      .attr(flag("align_corners", "1: -1 and 1 are the centres of the outer elements", 0))
      .constraint("C1", "x and grid have equal rank", "grid_sample(f32[1, 1, 2, 2], f32[1, 2, 2])")
      .constraint("C2", "x and grid have equal batches",
                  "grid_sample(f32[2, 1, 2, 2], f32[1, 2, 2, 2])")
      .constraint("C3", "the last dim of grid counts the spatial dims",
                  "grid_sample(f32[1, 1, 2, 2], f32[1, 2, 2, 3])")
      .constraint("C4", "spatial dims are not empty",
                  "grid_sample(f32[1, 1, 0, 2], f32[1, 2, 2, 2])")
      .example(
          "grid_sample(f32[1, 1, 1, 2] [[[[2, 4]]]], f32[1, 1, 2, 2] [[[[0, 0], [-0.5, 0]]]]) -> "
          "f32[1, 1, 1, 2] [[[[3, 2]]]]")
      .infer<infer>()
      .reference<reference>()
      .decompose<decompose>()
      .batch<batch_images<3>>()
      .cost(TENON_COST_DATA_MOVEMENT)
      .tolerance(64);
  return draft;
}

TENON_OPS(grid_sample, declare)

}  // namespace tenon::ops::grid_sample_op
