// unique, searchsorted, nms: ops that order and compare whole elements.
#include <array>

#include "compose.h"
#include "flag.h"

namespace tenon::ops::unique_op {

// -1, 0 or 1; NaN is above all numbers and equal to itself.
int order(tenon_dtype_t dtype, const std::byte* a, const std::byte* b) {
  if (is_float(dtype)) {
    const double x = load_double(dtype, a), y = load_double(dtype, b);
    if (std::isnan(x) || std::isnan(y))
      return static_cast<int>(std::isnan(x)) - static_cast<int>(std::isnan(y));
    return x < y ? -1 : static_cast<int>(y < x);
  }
  const int64_t x = load_int(dtype, a), y = load_int(dtype, b);
  if (is_in(dtype, kUnsigned)) {
    const auto ux = static_cast<uint64_t>(x), uy = static_cast<uint64_t>(y);
    return ux < uy ? -1 : static_cast<int>(uy < ux);
  }
  return x < y ? -1 : static_cast<int>(y < x);
}

Status infer_unique(const InferQuery& q) {
  TENON_TRY(require_dim(q, "C1", q.i64("dim"), q.rank(0)));
  const Dim length = q.dim(0, static_cast<uint32_t>(q.i64("dim")));
  const Dim found = q.fresh_symbol(0, upper_bound(length));
  TENON_TRY(q.require("C2", TENON_REL_LE, found, length, "distinct slices and slices"));
  Dims dims = q.dims(0);
  dims[static_cast<size_t>(q.i64("dim"))] = found;
  TENON_TRY(q.result(q.dtype(0), dims));
  TENON_TRY(q.result(TENON_I64, {found}));
  TENON_TRY(q.result(TENON_I64, {length}));
  return q.result(TENON_I64, {found});
}

Status reference_unique(const Eval& e) {
  const Array x = e.input(0);
  const auto dim = static_cast<size_t>(e.i64("dim"));
  const int64_t length = x.dim(dim);
  Axes rest(x.dims().begin(), x.dims().end());
  rest[dim] = 1;
  const auto compare_slices = [&](int64_t a, int64_t b) {
    int found = 0;
    each_index(rest, [&](Index i) {
      if (found != 0) return;
      i[dim] = a;
      const std::byte* pa = x.at(i);
      i[dim] = b;
      found = order(x.dtype(), pa, x.at(i));
    });
    return found;
  };
  std::vector<int64_t> first, group(static_cast<size_t>(length)), counts;
  for (int64_t i = 0; i < length; ++i) {
    size_t g = 0;
    while (g < first.size() && compare_slices(first[g], i) != 0) ++g;
    if (g == first.size()) {
      first.push_back(i);
      counts.push_back(0);
    }
    ++counts[g];
    group[static_cast<size_t>(i)] = static_cast<int64_t>(g);
  }
  std::vector<size_t> places(first.size());
  for (size_t g = 0; g < places.size(); ++g) places[g] = g;
  if (e.i64("sorted") != 0) {
    std::sort(places.begin(), places.end(),
              [&](size_t a, size_t b) { return compare_slices(first[a], first[b]) < 0; });
  }
  const auto found = static_cast<int64_t>(first.size());
  Axes dims(x.dims().begin(), x.dims().end());
  dims[dim] = found;
  TENON_TRY(e.alloc(0, dims));
  TENON_TRY(e.alloc(1, {&found, 1}));
  TENON_TRY(e.alloc(3, {&found, 1}));
  const Array y = e.output(0), index = e.output(1), inverse = e.output(2), count = e.output(3);
  std::vector<int64_t> rank_of(places.size());
  for (int64_t p = 0; p < found; ++p) {
    const size_t g = places[static_cast<size_t>(p)];
    rank_of[g] = p;
    store_int(TENON_I64, index.at({&p, 1}), first[g]);
    store_int(TENON_I64, count.at({&p, 1}), counts[g]);
  }
  each_index(y.dims(), [&](const Index& to) {
    Index from = to;
    from[dim] = first[places[static_cast<size_t>(to[dim])]];
    y.copy_from(to, x, from);
  });
  for (int64_t i = 0; i < length; ++i)
    store_int(TENON_I64, inverse.at({&i, 1}),
              rank_of[static_cast<size_t>(group[static_cast<size_t>(i)])]);
  return {};
}

constexpr OpDraft unique() {
  OpDraft draft = op("unique", kPure | TENON_TRAIT_DEFINES_SYMBOL);
  draft.summary("The distinct slices of x along a dim, and where they are.")
      .doc(
          "Slices are compared element by element in row-major order; NaN is above all numbers "
          "and equal to NaN. It has no decomposition, since the extent of its results is its own.")
      .operand("x", "the input", kNumber | kPred, 0, 1)
      .result("y", "the distinct slices")
      .result("indices", "i64: where each of them is first")
      .result("inverse", "i64: for each slice of x, which of them it is")
      .result("counts", "i64: how often each of them is there")
      .attr_i64("dim", "the dim of the slices", 0)
      .attr(flag("sorted", "1: in increasing order, 0: in the order of their first place", 1))
      .constraint("C1", "dim is a dim of x", "unique(f32[2]) {dim = 1}")
      .example(
          "unique(f32[4] [3, 1, 3, 2]) -> f32[3] [1, 2, 3], i64[3] [1, 3, 0], i64[4] [2, 0, 2, "
          "1], i64[3] [1, 1, 2]")
      .infer<infer_unique>()
      .reference<reference_unique>()
      .no_derivative("the number of its results depends on which elements are equal")
      .traits(TENON_TRAIT_NO_RECOMPUTE)
      .cost(TENON_COST_REDUCTION);
  return draft;
}

Status infer_search(const InferQuery& q) {
  if (!is_in(q.dtype("index_dtype"), kIndex))
    return q.fail("C1", cat("index_dtype is ", dtype_name(q.dtype("index_dtype"))));
  return q.result(q.dtype("index_dtype"), q.dims(1));
}
// Counts the elements that come before the value. NaN is above all numbers, as in sort.
Status decompose_search(Builder& b, const Node& node, tenon_value_t* out) {
  const Term sorted = {b, node.operand(0)}, values = {b, node.operand(1)};
  const tenon_dtype_t type = node.dtype("index_dtype");
  Dims wide = values.dims();
  wide.push_back(sorted.dim(0));
  const int64_t last = values.rank();
  const Term s = broadcast(sorted, wide, {last}), v = broadcast(values, wide, range(0, last));
  const bool right = node.i64("right") != 0;
  Term before = compare(s, right ? TENON_CMP_LE : TENON_CMP_LT, v);
  if (is_float(sorted.dtype())) {
    const Term above = apply("is_nan", v);
    before = before | (right ? above : above & !apply("is_nan", s));
  }
  return b.finish(out, {reduced("reduce_sum", as(before, type), {last})});
}
Status reference_search(const Eval& e) {
  const Array sorted = e.input(0), values = e.input(1), y = e.output();
  const bool right = e.i64("right") != 0;
  each_index(y.dims(), [&](const Index& i) {
    int64_t k = 0;
    for (int64_t at = 0; at < sorted.dim(0); ++at) {
      const int found = order(sorted.dtype(), sorted.at({&at, 1}), values.at(i));
      k += static_cast<int64_t>(found < 0 || (found == 0 && right));
    }
    store_int(y.dtype(), y.at(i), k);
  });
  return {};
}
constexpr OpDraft searchsorted() {
  OpDraft draft = op("searchsorted", kComposite);
  draft.summary("Where values go in a sorted list, so that it stays sorted.")
      .doc(
          "That is how many of its elements come before the value, with the order of sort; of a "
          "list that is not sorted too.")
      .operand("sorted", "increasing, NaN last", kNumber, 1, 1, 1)
      .operand("values", "what is searched", kNumber, 1)
      .result("indices", "index_dtype, dims of values, in [0, length]")
      .attr(flag("right", "1: after equal elements, 0: before them", 0))
      .attr_dtype("index_dtype", "i32 or i64", TENON_I64)
      .constraint("C1", "index_dtype is i32 or i64",
                  "searchsorted(f32[2], f32[1]) {index_dtype = f32}")
      .example("searchsorted(f32[3] [1, 3, 5], f32[3] [3, 0, 9]) -> i64[3] [1, 0, 3]")
      .example("searchsorted(f32[3] [1, 3, 5], f32[1] [3]) {right = 1} -> i64[1] [2]")
      .infer<infer_search>()
      .reference<reference_search>()
      .no_derivative("its result is indices")
      .decompose<decompose_search>()
      .cost(TENON_COST_REDUCTION);
  return draft;
}

// ---- nms ----

Status infer_nms(const InferQuery& q) {
  TENON_TRY(q.require_equal("C1", q.dim(0, 0), q.dim(1, 0), "batches of boxes and scores"));
  TENON_TRY(q.require_equal("C1", q.dim(0, 1), q.dim(1, 2), "boxes and scores"));
  TENON_TRY(q.require_equal("C1", q.dim(0, 2), q.constant(4), "numbers of a box and 4"));
  if (q.i64("most") < 0) return q.fail("C2", cat("most is ", q.i64("most")));
  const Dim per_class = min(q.dim(0, 1), q.constant(q.i64("most")));
  const Dim bound = q.dim(1, 0) * q.dim(1, 1) * per_class;
  const Dim found = q.fresh_symbol(0, upper_bound(bound));
  TENON_TRY(q.require("C3", TENON_REL_LE, found, bound, "chosen boxes and boxes"));
  return q.result(TENON_I64, {found, q.constant(3)});
}
struct Box {
  double y1, x1, y2, x2;
  double area() const { return (y2 - y1) * (x2 - x1); }
};
double overlap(const Box& a, const Box& b) {
  const double h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  const double w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (h <= 0 || w <= 0) return 0;
  const double both = a.area() + b.area() - h * w;
  return both > 0 ? h * w / both : 0;
}
Status reference_nms(const Eval& e) {
  const Array boxes = e.input(0), scores = e.input(1);
  const bool center = e.text("form") == "center";
  std::vector<std::array<int64_t, 3>> kept;
  for (int64_t n = 0; n < boxes.dim(0); ++n) {
    std::vector<Box> all;
    for (int64_t i = 0; i < boxes.dim(1); ++i) {
      double v[4];
      for (int64_t k = 0; k < 4; ++k) v[k] = load_double(boxes.dtype(), boxes.at(Index{n, i, k}));
      if (center) {
        all.push_back({v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2});
      } else {
        all.push_back({std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]),
                       std::max(v[1], v[3])});
      }
    }
    for (int64_t c = 0; c < scores.dim(1); ++c) {
      if (e.cancelled()) return TENON_CANCELLED;
      const auto score = [&](int64_t i) {
        return load_double(scores.dtype(), scores.at(Index{n, c, i}));
      };
      std::vector<int64_t> order_, chosen;
      for (int64_t i = 0; i < boxes.dim(1); ++i) {
        if (score(i) > e.f64("score")) order_.push_back(i);
      }
      std::sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) {
        return score(a) != score(b) ? score(a) > score(b) : a < b;
      });
      for (int64_t i : order_) {
        if (static_cast<int64_t>(chosen.size()) >= e.i64("most")) break;
        bool apart = true;
        for (int64_t k : chosen)
          apart &=
              overlap(all[static_cast<size_t>(i)], all[static_cast<size_t>(k)]) <= e.f64("overlap");
        if (apart) {
          chosen.push_back(i);
          kept.push_back({n, c, i});
        }
      }
    }
  }
  const int64_t dims[] = {static_cast<int64_t>(kept.size()), 3};
  TENON_TRY(e.alloc(0, dims));
  const Array y = e.output();
  each_index(y.dims(), [&](const Index& i) {
    store_int(TENON_I64, y.at(i), kept[static_cast<size_t>(i[0])][static_cast<size_t>(i[1])]);
  });
  return {};
}
constexpr OpDraft nms() {
  OpDraft draft = op("nms", kPure | TENON_TRAIT_DEFINES_SYMBOL);
  draft.summary("Boxes by falling score, without those that overlap a better one of their class.")
      .doc(
          "Overlap is the shared area by the joined area. Of equal scores the first box is "
          "better; NaN scores are left out. It has no decomposition, since the extent of its "
          "result is its own.")
      .operand("boxes",
               "[batch, boxes, 4]: two corners (y, x, y, x), or centre and size (x, y, "
               "width, height)",
               kFloat, 1, 3, 3)
      .operand("scores", "[batch, classes, boxes]", kFloat, 1, 3, 3)
      .result("chosen", "i64, [a dim of its own, 3]: batch, class, box")
      .attr_i64("most", "how many per batch and class", INT64_MAX)
      .attr_f64("overlap", "boxes that overlap more are left out", 0)
      .attr_f64("score", "boxes that have no higher score are left out",
                -std::numeric_limits<double>::infinity())
      .attr_string("form", "what the numbers of a box are", "corners", "corners|center")
      .constraint("C1", "batches and boxes agree, a box has 4 numbers",
                  "nms(f32[1, 2, 4], f32[1, 1, 3])")
      .constraint("C2", "most is at least 0", "nms(f32[1, 2, 4], f32[1, 1, 2]) {most = -1}")
      .example(
          "nms(f32[1, 3, 4] [[[0, 0, 1, 1], [0, 0, 1, 0.9], [0, 2, 1, 3]]], f32[1, 1, 3] "
          "[[[0.5, 0.9, 0.7]]]) {most = 3, overlap = 0.5} -> i64[2, 3] [[0, 0, 1], [0, 0, 2]]")
      .infer<infer_nms>()
      .reference<reference_nms>()
      .no_derivative("its result is indices")
      .traits(TENON_TRAIT_NO_RECOMPUTE)
      .cost(TENON_COST_REDUCTION);
  return draft;
}

TENON_OPS(unique, unique, searchsorted, nms)

}  // namespace tenon::ops::unique_op
