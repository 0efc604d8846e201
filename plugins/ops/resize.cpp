// resize: x resampled to other extents along some dims, as ONNX 10 to 19 define it.
#include "compose.h"
#include "flag.h"

namespace tenon::ops::resize_op {

// The parameters of resampling one dim, shared by the reference and the decomposition.
struct Rule {
  std::string mode, coordinates, nearest;
  double cubic, extrapolation;
  bool exclude_outside, antialias;
};
template <class Source>
Rule rule_of(const Source& q) {
  return {std::string(q.text("mode")),    std::string(q.text("coordinates")),
          std::string(q.text("nearest")), q.f64("cubic"),
          q.f64("extrapolation"),         q.i64("exclude_outside") != 0,
          q.i64("antialias") != 0};
}
// The extents of one dim, and the part of it that is resampled (tf_crop_and_resize).
struct Line {
  int64_t in, out;
  double scale, roi_start, roi_end;
};

// The position in x of element `o` of the result.
double position(const Rule& rule, const Line& line, int64_t o) {
  const double n = static_cast<double>(line.in), width = line.scale * n,
               at = static_cast<double>(o);
  const std::string& c = rule.coordinates;
  if (c == "align_corners") return width == 1 ? 0 : at * (n - 1) / (width - 1);
  if (c == "asymmetric") return at / line.scale;
  if (c == "tf_crop_and_resize") {
    const double size = line.roi_end - line.roi_start;
    const double inner = width == 1 ? size * (n - 1) / 2 : at * size * (n - 1) / (width - 1);
    return inner + line.roi_start * (n - 1);
  }
  if (c == "pytorch_half_pixel" && width == 1) return -0.5;
  const double half = (at + 0.5) / line.scale - 0.5;
  if (c != "half_pixel_symmetric") return half;
  return n / 2 * (1 - static_cast<double>(line.out) / width) + half;
}

// Whether the dim is not cropped.
bool shows_all(const Rule& rule, double roi_start, double roi_end) {
  return rule.coordinates != "tf_crop_and_resize" || (roi_start == 0 && roi_end == 1);
}

double cubic_weight(double distance, double a) {
  const double d = std::fabs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

struct Tap {
  int64_t index;
  double weight;
};
// The elements of x that contribute to element `o`, with their weights. Empty: the extrapolation
// value.
std::vector<Tap> taps(const Rule& rule, const Line& line, int64_t o) {
  const double x = position(rule, line, o);
  const int64_t last = line.in - 1;
  if (rule.coordinates == "tf_crop_and_resize" && (x < 0 || x > static_cast<double>(last)))
    return {};
  if (rule.mode == "nearest") {
    const double r = rule.nearest == "floor"                ? std::floor(x)
                     : rule.nearest == "ceil"               ? std::ceil(x)
                     : rule.nearest == "round_prefer_floor" ? std::ceil(x - 0.5)
                                                            : std::floor(x + 0.5);
    return {{std::clamp<int64_t>(saturate<int64_t>(r), 0, last), 1}};
  }
  const bool cubic = rule.mode == "cubic";
  const double stretch = rule.antialias ? std::min(line.scale, 1.0) : 1.0;
  const double support = (cubic ? 2.0 : 1.0) / stretch;
  std::vector<Tap> out;
  double sum = 0;
  for (auto i = static_cast<int64_t>(std::floor(x - support)) + 1;
       static_cast<double>(i) < x + support; ++i) {
    const double d = (static_cast<double>(i) - x) * stretch;
    double weight = cubic ? cubic_weight(d, rule.cubic) : std::max(0.0, 1 - std::fabs(d));
    if (rule.exclude_outside && (i < 0 || i > last)) weight = 0;
    sum += weight;
    out.push_back({std::clamp<int64_t>(i, 0, last), weight});
  }
  for (Tap& t : out) t.weight /= sum;
  return out;
}

// ---- Inference ----

Status infer(const InferQuery& q) {
  const size_t rank = q.rank(0);
  const Dims sizes = q.dims("sizes");
  TENON_TRY(require_length(q, "C1", "sizes", sizes.size(), rank));
  const auto scales = q.f64s("scales"), roi = q.f64s("roi");
  if (!scales.empty()) TENON_TRY(require_length(q, "C1", "scales", scales.size(), rank));
  if (!roi.empty()) TENON_TRY(require_length(q, "C1", "roi", roi.size(), 2 * rank));
  for (double s : scales) {
    if (s == 0 && q.has(1)) continue;
    if (!(s > 0) || std::isinf(s)) return q.fail("C2", cat("a scale is ", s));
  }
  if (q.has(1))
    TENON_TRY(q.require_equal("C1", q.dim(1, 0), q.constant(static_cast<int64_t>(rank)),
                              "the given scales and the dims of x"));
  const bool nearest = q.text("mode") == "nearest";
  if (!nearest && !is_float(q.dtype(0)))
    return q.fail("C3", cat("mode ", q.text("mode"), " over ", dtype_name(q.dtype(0))));
  for (uint32_t i = 0; i < rank; ++i) {
    const bool given = q.has(1) && (scales.empty() || scales[i] == 0);
    if (sizes[i] == q.dim(0, i) && !given && (scales.empty() || scales[i] == 1) && roi.empty())
      continue;
    TENON_TRY(q.require("C4", TENON_REL_LT, q.constant(0), q.dim(0, i), cat("0 and dim ", i)));
    // The width of a filter that is wider than one element follows from the quotient of the
    // extents.
    if (!nearest && q.i64("antialias") != 0 && scales.empty() && !sizes[i].is_constant())
      TENON_TRY(q.require("C5", TENON_REL_LT, q.constant(0), sizes[i],
                          cat("0 and the extent of dim ", i)));
    if (!nearest && q.i64("antialias") != 0 && given)
      return q.fail("C5", cat("the scale of dim ", i, " is computed"));
  }
  return q.result(q.dtype(0), sizes);
}

Line line_of(const Eval& e, size_t rank, size_t dim, int64_t in, int64_t out) {
  const auto scales = e.f64s("scales"), roi = e.f64s("roi");
  double scale = scales.empty() ? 0 : scales[dim];
  if (scale == 0 && e.has(1)) scale = e.input(1).read<double>()[dim];
  if (scale == 0) scale = static_cast<double>(out) / static_cast<double>(in);
  return {in, out, scale, roi.empty() ? 0 : roi[dim], roi.empty() ? 1 : roi[rank + dim]};
}

// ---- Meaning ----

Status reference(const Eval& e) {
  const Array x = e.input(0), y = e.output();
  const Rule rule = rule_of(e);
  std::vector<std::vector<std::vector<Tap>>> lines(x.rank());
  for (size_t d = 0; d < x.rank(); ++d) {
    const Line line = line_of(e, x.rank(), d, x.dim(d), y.dim(d));
    const bool kept =
        line.in == line.out && line.scale == 1 && shows_all(rule, line.roi_start, line.roi_end);
    if (!(line.scale > 0) || std::isinf(line.scale))
      return fail(TENON_INVALID_ARGUMENT,
                  cat("resize: the scale of dim ", d, " is ", line.scale, "."));
    for (int64_t o = 0; o < y.dim(d); ++o) {
      lines[d].push_back(kept ? std::vector<Tap>{{o, 1}} : taps(rule, line, o));
    }
  }
  Index from(x.rank());
  each_index(y.dims(), [&](const Index& to) {
    Axes counts;
    for (size_t d = 0; d < to.size(); ++d) {
      counts.push_back(static_cast<int64_t>(lines[d][static_cast<size_t>(to[d])].size()));
    }
    if (count_of(counts) == 0) {
      return store_double(y.dtype(), y.at(to), rule.extrapolation);
    }
    double sum = 0;
    each_index(counts, [&](const Index& k) {
      double weight = 1;
      for (size_t d = 0; d < k.size(); ++d) {
        const Tap& tap = lines[d][static_cast<size_t>(to[d])][static_cast<size_t>(k[d])];
        from[d] = tap.index;
        weight *= tap.weight;
      }
      if (rule.mode == "nearest") {
        y.copy_from(to, x, from);
      } else {
        sum += weight * load_double(x.dtype(), x.at(from));
      }
    });
    if (rule.mode != "nearest") store_double(y.dtype(), y.at(to), sum);
  });
  return {};
}

// ---- Decomposition: dim by dim ----

struct Step {
  const Rule& rule;
  int64_t dim;
  Dim in, out;
  double scale;  // 0: `given`, or else out / in
  double roi_start, roi_end;
  std::optional<Term> given;  // a computed scale, in f64
};
bool by_extents(const Step& s) {
  return s.scale == 0 && !s.given;
}

// How often each element is repeated, if nearest does nothing more; else 0.
int64_t repeats(const Step& s) {
  if (s.rule.mode != "nearest" || s.rule.coordinates == "align_corners" ||
      s.rule.coordinates == "tf_crop_and_resize")
    return 0;
  const bool asymmetric = s.rule.coordinates == "asymmetric";
  const bool rounds = s.rule.nearest != "floor" && s.rule.nearest != "ceil";
  if (asymmetric ? s.rule.nearest != "floor" : !rounds) return 0;
  int64_t times = 0;
  if (s.scale != 0 && s.scale == std::floor(s.scale) && s.scale < 65536) {
    times = static_cast<int64_t>(s.scale);
  } else if (by_extents(s) && s.in.is_constant() && s.out.is_constant() &&
             s.out.constant() % s.in.constant() == 0) {
    times = s.out.constant() / s.in.constant();
  }
  return times > 0 && surely_equal(s.in * Dim(s.in.graph(), times), s.out) ? times : 0;
}
Term repeat(Term x, const Step& s, int64_t times) {
  Dims wide = x.dims(), merged = wide;
  Axes places = range(0, s.dim + 1);
  for (int64_t i = s.dim + 1; i < x.rank(); ++i) places.push_back(i + 1);
  wide.insert(wide.begin() + s.dim + 1, x.b->dim(times));
  merged[static_cast<size_t>(s.dim)] = s.out;
  return reshape(broadcast(x, wide, places), merged);
}

// A sum of weighted neighbours: `index[k]` and `weight[k]` are vectors over the result's dim.
Term weighted(Term x, const Step& s, const std::vector<Term>& index,
              const std::vector<Term>& weight) {
  Term sum;
  for (size_t k = 0; k < index.size(); ++k) {
    Term part = take(x, index[k], s.dim);
    if (!weight.empty()) part = part * broadcast(weight[k], part.dims(), Axes{s.dim});
    sum = k == 0 ? part : sum + part;
  }
  return sum;
}
Term masked(Term y, const Step& s, Term inside) {
  return where(broadcast(inside, y.dims(), Axes{s.dim}), y, s.rule.extrapolation);
}

// For constant extents: positions and weights are constants.
Term by_constants(Term x, const Step& s) {
  Builder& b = *x.b;
  Line line = {s.in.constant(), s.out.constant(), s.scale, s.roi_start, s.roi_end};
  if (line.scale == 0) line.scale = static_cast<double>(line.out) / static_cast<double>(line.in);
  std::vector<std::vector<Tap>> all;
  size_t most = 0;
  bool crops = false;
  for (int64_t o = 0; o < line.out; ++o) {
    all.push_back(taps(s.rule, line, o));
    most = std::max(most, all.back().size());
    crops |= all.back().empty();
  }
  Term y;
  if (most > 4) {
    // Many neighbours: a matrix product.
    std::vector<double> matrix(static_cast<size_t>(line.in * line.out), 0);
    for (size_t o = 0; o < all.size(); ++o) {
      for (const Tap& t : all[o])
        matrix[o * static_cast<size_t>(line.in) + static_cast<size_t>(t.index)] += t.weight;
    }
    const Term w = reshape(numbers(b, x.dtype(), matrix), {s.out, s.in});
    const Term rest = {b, b.build("dot_general", {x.v, w.v},
                                  {{"a_contract", Axes{s.dim}}, {"b_contract", Axes{1}}})};
    Axes perm = range(0, x.rank() - 1);
    perm.insert(perm.begin() + s.dim, x.rank() - 1);
    y = transpose(rest, perm);
  } else {
    std::vector<Term> index, weight;
    for (size_t k = 0; k < std::max<size_t>(most, 1); ++k) {
      std::vector<double> at, factor;
      for (const std::vector<Tap>& t : all) {
        at.push_back(k < t.size() ? static_cast<double>(t[k].index) : 0);
        factor.push_back(k < t.size() ? t[k].weight : 0);
      }
      index.push_back(numbers(b, TENON_I64, at));
      if (s.rule.mode != "nearest") weight.push_back(numbers(b, x.dtype(), factor));
    }
    y = weighted(x, s, index, weight);
  }
  if (!crops) return y;
  std::vector<double> inside;
  for (const std::vector<Tap>& t : all) inside.push_back(t.empty() ? 0 : 1);
  return masked(y, s, {b, b.convert(numbers(b, TENON_U8, inside), TENON_PRED)});
}

// position() on a vector.
Term positions(Builder& b, const Step& s, Term n) {
  const Term at = as(iota(b, {s.out}, 0), TENON_F64);
  const Term size = extent(b, s.out, TENON_F64);
  const Term scale = s.given ? *s.given : s.scale != 0 ? constant(b, TENON_F64, s.scale) : size / n;
  const Term width = by_extents(s) ? size : scale * n;
  const std::string& c = s.rule.coordinates;
  const Term below = max(width - 1, 1e-9);  // with a width of 1 there is only element 0
  if (c == "align_corners") return at * ((n - 1) / below);
  if (c == "asymmetric") return at / scale;
  if (c == "tf_crop_and_resize") {
    const double span = s.roi_end - s.roi_start;
    const Term many = at * ((n - 1) * span / below);
    const Term one = at * 0 + (n - 1) * (span / 2);
    const Term single = {b, b.splat(compare(width, TENON_CMP_EQ, 1), at.dims())};
    return where(single, one, many) + (n - 1) * s.roi_start;
  }
  const Term half = (at + 0.5) / scale - 0.5;
  if (c == "pytorch_half_pixel") {
    const Term single = {b, b.splat(compare(width, TENON_CMP_EQ, 1), at.dims())};
    return where(single, -0.5, half);
  }
  if (c != "half_pixel_symmetric") return half;
  return half + n * 0.5 * (1 - size / width);
}

Term cubic_weights(Term distance, double a) {
  const Term d = abs(distance);
  const Term near = ((d * (a + 2) - (a + 3)) * d * d) + 1;
  const Term far = ((d * a - 5 * a) * d + 8 * a) * d - 4 * a;
  return where(compare(d, TENON_CMP_LE, 1), near, where(compare(d, TENON_CMP_LT, 2), far, 0));
}

// An upper bound of the number of elements that the antialias filter covers: twice its support,
// plus two. The support is that of the mode, widened by the step between elements of the result.
Dim taps_at_most(Builder& b, const Step& s) {
  const int64_t reach = s.rule.mode == "cubic" ? 4 : 2;
  if (s.scale != 0)
    return b.dim(reach * saturate<int64_t>(std::ceil(std::max(1.0, 1 / s.scale))) + 2);
  return b.dim(reach) * max(b.dim(1), (s.in + s.out - b.dim(1)) / s.out) + b.dim(2);
}

// For symbolic extents with antialias, where the number of neighbours may be symbolic too: sums
// products of positions and weights of shape [result, neighbours].
Term by_sums(Term x, const Step& s) {
  Builder& b = *x.b;
  const bool cubic = s.rule.mode == "cubic";
  const Dims grid = {s.out, taps_at_most(b, s)};
  const auto rows = [&](Term v) { return broadcast(v, grid, Axes{0}); };
  const Term n = extent(b, s.in, TENON_F64), last = n - 1;
  const Term scale =
      s.scale != 0 ? constant(b, TENON_F64, s.scale) : extent(b, s.out, TENON_F64) / n;
  const Term stretch = min(scale, 1), support = (cubic ? 2.0 : 1.0) / stretch;
  const Term at = positions(b, s, n);
  const Term place = rows(floor(at - support) + 1) + as(iota(b, grid, 1), TENON_F64);
  const Term distance = (place - rows(at)) * stretch;
  Term weight = cubic ? cubic_weights(distance, s.rule.cubic) : max(1 - abs(distance), 0);
  if (s.rule.exclude_outside)
    weight = where(compare(place, TENON_CMP_GE, 0) & compare(place, TENON_CMP_LE, last), weight, 0);
  weight = weight / rows(reduced("reduce_sum", weight, {1}));
  // [..., result, neighbours, ...]: x gathered along the resampled dim.
  const Term near = take(x, as(max(min(place, last), 0), TENON_I64), s.dim);
  const Term y = reduced(
      "reduce_sum", near * broadcast(as(weight, x.dtype()), near.dims(), Axes{s.dim, s.dim + 1}),
      {s.dim + 1});
  if (s.rule.coordinates != "tf_crop_and_resize") return y;
  return masked(y, s, compare(at, TENON_CMP_GE, 0) & compare(at, TENON_CMP_LE, last));
}

// For symbolic extents: positions and weights are computed in the run.
Term by_formula(Term x, const Step& s) {
  if (s.rule.antialias && s.rule.mode != "nearest") return by_sums(x, s);
  Builder& b = *x.b;
  const Term n = extent(b, s.in, TENON_F64);
  const Term at = positions(b, s, n), last = n - 1;
  const auto index = [&](Term v) { return as(max(min(v, last), 0), TENON_I64); };
  Term y;
  if (s.rule.mode == "nearest") {
    const Term r = s.rule.nearest == "floor"                ? floor(at)
                   : s.rule.nearest == "ceil"               ? ceil(at)
                   : s.rule.nearest == "round_prefer_floor" ? ceil(at - 0.5)
                                                            : floor(at + 0.5);
    y = take(x, index(r), s.dim);
  } else {
    const bool cubic = s.rule.mode == "cubic";
    const Term base = floor(at);
    std::vector<Term> where_, weight;
    Term sum;
    for (int k = cubic ? -1 : 0; k <= (cubic ? 2 : 1); ++k) {
      const Term i = base + k;
      Term w = cubic ? cubic_weights(i - at, s.rule.cubic) : 1 - abs(i - at);
      if (s.rule.exclude_outside)
        w = where(compare(i, TENON_CMP_GE, 0) & compare(i, TENON_CMP_LE, last), w, 0);
      sum = weight.empty() ? w : sum + w;
      where_.push_back(index(i));
      weight.push_back(w);
    }
    for (Term& w : weight) w = as(s.rule.exclude_outside ? w / sum : w, x.dtype());
    y = weighted(x, s, where_, weight);
  }
  if (s.rule.coordinates != "tf_crop_and_resize") return y;
  return masked(y, s, compare(at, TENON_CMP_GE, 0) & compare(at, TENON_CMP_LE, last));
}

Status decompose(Builder& b, const Node& node, tenon_value_t* out) {
  const Rule rule = rule_of(node);
  const Dims sizes = node.dims("sizes");
  const std::vector<double> scales = node.f64s("scales"), roi = node.f64s("roi");
  const bool nearest = rule.mode == "nearest";
  Term x = {b, nearest ? node.operand(0) : widen(b, node.operand(0))};
  const size_t rank = sizes.size();
  for (size_t d = 0; d < rank; ++d) {
    const Dim in = x.dim(static_cast<int64_t>(d));
    const double scale = scales.empty() ? 0 : scales[d];
    const double start = roi.empty() ? 0 : roi[d], end = roi.empty() ? 1 : roi[rank + d];
    const Value all = node.operand(1);
    const bool given = scale == 0 && all.valid();
    if (in == sizes[d] && !given && (scale == 0 || scale == 1) && shows_all(rule, start, end))
      continue;
    Step s = {rule, static_cast<int64_t>(d), in, sizes[d], scale, start, end, {}};
    if (given)
      s.given = as(reshape(cut({b, all}, 0, b.dim(static_cast<int64_t>(d)),
                               b.dim(static_cast<int64_t>(d) + 1)),
                           {}),
                   TENON_F64);
    if (const int64_t times = repeats(s)) {
      x = repeat(x, s, times);
    } else {
      x = in.is_constant() && sizes[d].is_constant() && !given ? by_constants(x, s)
                                                               : by_formula(x, s);
    }
  }
  return b.finish(out, {b.convert(x, node.result().dtype())});
}

constexpr OpDraft declare() {
  OpDraft draft = op("resize", kComposite);
  draft.summary("x sampled on a grid of other extents.")
      .doc(
          "Per dim, element o of the result lies at a position of x that `coordinates` gives, with "
          "n and m the extents of x and of the result, s the scale and w = s n: half_pixel (o + "
          "1/2) / s - 1/2; asymmetric o / s; align_corners o (n - 1) / (w - 1); "
          "pytorch_half_pixel as half_pixel, and -1/2 where w is 1; half_pixel_symmetric as "
          "half_pixel plus n/2 (1 - m/w); tf_crop_and_resize runs over roi, and gives "
          "extrapolation outside of x. There mode takes one element (nearest), two (linear) or "
          "four (cubic), with positions outside of x moved to its border. antialias widens linear "
          "and cubic by 1/s where s is below 1. Dims that keep their extent and scale, and show "
          "all of x, are "
          "left alone. NaN spreads to every element that it has a weight in, also of 0.")
      .operand("x", "the input", kWhole)
      .optional("factors", "scales that are computed, one per dim of x",
                dtype_bit(TENON_F32) | dtype_bit(TENON_F64), 0, 1, 1)
      .result("y", "element type of x, dims as in sizes")
      .attr_dims("sizes", "the extents of the result, one per dim of x")
      .required()
      .attr_f64s("scales", "the scale per dim of x; empty: the quotient of the extents")
      .attr_f64s("roi",
                 "starts and then ends of the range that is shown, per dim of x, as parts "
                 "of its extent; empty: all of it")
      .attr_string("mode", "which elements are taken", "nearest", "nearest|linear|cubic")
      .attr_string("coordinates", "where an element of the result lies in x", "half_pixel",
                   "half_pixel|half_pixel_symmetric|pytorch_half_pixel|align_corners|asymmetric|"
                   "tf_crop_and_resize")
      .attr_string("nearest", "how a position is rounded", "round_prefer_floor",
                   "round_prefer_floor|round_prefer_ceil|floor|ceil")
      .attr_f64("cubic", "the coefficient a of cubic", -0.75)
      .attr(flag("exclude_outside", "1: what lies outside of x has no weight", 0))
      .attr(flag("antialias", "1: a smaller result averages", 0))
      .attr_f64("extrapolation", "the value outside of x, for tf_crop_and_resize", 0)
      .constraint("C1", "sizes, scales and factors have one entry per dim of x, roi two",
                  "resize(f32[2, 3]) {sizes = [4]}")
      .constraint("C2", "scales are positive and finite, or 0 where there are factors",
                  "resize(f32[2]) {sizes = [4], scales = [-2.0]}")
      .constraint("C3", "linear and cubic take floats",
                  "resize(i32[2]) {sizes = [4], mode = \"linear\"}")
      .constraint("C4", "a dim that changes is not empty", "resize(f32[0]) {sizes = [4]}")
      .constraint("C5",
                  "with antialias, no scale is computed, and without scales dims that change have "
                  "elements in the result",
                  "resize(f32[n], f32[1]) {sizes = [4], mode = \"linear\", antialias = 1}")
      .example("resize(f32[2] [1, 2]) {sizes = [4]} -> f32[4] [1, 1, 2, 2]")
      .example(
          "resize(f32[1, 2] [[1, 3]]) {sizes = [1, 4], mode = \"linear\"} -> f32[1, 4] [[1, 1.5, "
          "2.5, 3]]")
      .example(
          "resize(f32[4] [1, 2, 3, 4]) {sizes = [2], mode = \"linear\", antialias = 1, scales = "
          "[0.5]} -> f32[2] [1.625, 3.375]")
      .infer<infer>()
      .reference<reference>()
      .decompose<decompose>()
      .cost(TENON_COST_DATA_MOVEMENT)
      .tolerance(8);
  return draft;
}

TENON_OPS(resize, declare)

}  // namespace tenon::ops::resize_op
