// lp_pool, adaptive_pool, lrn, roi_align: less usual ways to summarise neighbours.
#include "compose.h"

namespace tenon::ops::pool_more {

constexpr int64_t kBound = int64_t{1} << 31;

// One entry per dim: batch and channels take no part.
Axes whole(std::span<const int64_t> list, size_t rank, int64_t neutral) {
  Axes out(2, neutral);
  for (int64_t v : list_or(list, rank - 2, neutral)) out.push_back(v);
  return out;
}

// ---- lp_pool ----

Status infer_lp(const InferQuery& q) {
  const size_t rank = q.rank(0);
  TENON_TRY(require_length(q, "C1", "window", q.i64s("window").size(), rank - 2));
  for (std::string_view name : {"strides", "pad_low", "pad_high", "dilation"}) {
    if (!q.i64s(name).empty())
      TENON_TRY(require_length(q, "C1", name, q.i64s(name).size(), rank - 2));
    const int64_t least = name.starts_with("pad") ? 0 : 1;
    for (int64_t v : q.i64s(name)) {
      if (v < least || v > kBound) return q.fail("C2", cat(name, " holds ", v));
    }
  }
  for (int64_t v : q.i64s("window")) {
    if (v < 1 || v > kBound) return q.fail("C2", cat("window holds ", v));
  }
  if (!(q.f64("p") > 0) || std::isinf(q.f64("p"))) return q.fail("C3", cat("p is ", q.f64("p")));
  const Axes window = whole(q.i64s("window"), rank, 1), strides = whole(q.i64s("strides"), rank, 1),
             low = whole(q.i64s("pad_low"), rank, 0), high = whole(q.i64s("pad_high"), rank, 0),
             dilation = whole(q.i64s("dilation"), rank, 1);
  Dims dims = {q.dim(0, 0), q.dim(0, 1)};
  for (uint32_t i = 2; i < rank; ++i)
    TENON_TRY(fitting_window(q, "C2", q.dim(0, i), 1, low[i], high[i], window[i], dilation[i],
                             strides[i], &dims.emplace_back()));
  return q.result(q.dtype(0), dims);
}
Term power(Term x, double p) {
  if (p == 1) return x;
  return p == 2 ? x * x : pow(x, p);
}
Term root(Term x, double p) {
  if (p == 1) return x;
  return p == 2 ? sqrt(x) : pow(x, 1 / p);
}
Status decompose_lp(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, widen(b, node.operand(0))};
  const auto rank = static_cast<size_t>(x.rank());
  const double p = node.f64("p");
  const Axes window = whole(node.i64s("window"), rank, 1),
             strides = whole(node.i64s("strides"), rank, 1),
             low = whole(node.i64s("pad_low"), rank, 0),
             high = whole(node.i64s("pad_high"), rank, 0),
             dilation = whole(node.i64s("dilation"), rank, 1);
  const Term sum = {b, b.build("reduce_window", {power(abs(x), p).v},
                               {{"window", window},
                                {"strides", strides},
                                {"pad_low", low},
                                {"pad_high", high},
                                {"dilation", dilation}})};
  return b.finish(out, {b.convert(root(sum, p), node.result().dtype())});
}

// ---- adaptive_pool ----

Status infer_adaptive(const InferQuery& q) {
  const size_t rank = q.rank(0);
  TENON_TRY(require_length(q, "C1", "sizes", q.i64s("sizes").size(), rank - 2));
  Dims dims = {q.dim(0, 0), q.dim(0, 1)};
  for (uint32_t i = 2; i < rank; ++i) {
    const int64_t size = q.i64s("sizes")[i - 2];
    if (size < 1 || size > 65536) return q.fail("C2", cat("a size is ", size));
    const auto from = constant_of(q.dim(0, i));
    if (size != 1 && (!from || *from < 1))
      return q.fail("C3", cat("spatial dim ", i - 2, " of x is not a positive constant"));
    dims.push_back(q.constant(size));
  }
  return q.result(q.dtype(0), dims);
}
// Dim by dim: the summary of windows of unequal length, one after another.
Status decompose_adaptive(Builder& b, const Node& node, tenon_value_t* out) {
  Term x = {b, widen(b, node.operand(0))};
  const bool mean = node.text("kind") == "mean";
  const Axes sizes = node.i64s("sizes");
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto dim = static_cast<int64_t>(i) + 2;
    const Dim n = x.dim(dim);
    std::vector<Value> parts;
    for (int64_t k = 0; k < sizes[i]; ++k) {
      const bool all = sizes[i] == 1;
      const Dim from = all ? b.dim(0) : b.dim(k * n.constant() / sizes[i]);
      const Dim to = all ? n : b.dim(((k + 1) * n.constant() + sizes[i] - 1) / sizes[i]);
      const Term part = cut(x, dim, from, to);
      const Term one =
          mean ? Term{b, mean_along(b, part, Axes{dim})} : reduced("reduce_max", part, {dim});
      parts.push_back(insert_dim(one, dim));
    }
    x = concat(b, parts, dim);
  }
  return b.finish(out, {b.convert(x, node.result().dtype())});
}

// ---- lrn ----

Status infer_lrn(const InferQuery& q) {
  if (q.i64("size") < 1 || q.i64("size") > 65536)
    return q.fail("C1", cat("size is ", q.i64("size")));
  return q.result(q.dtype(0), q.dims(0));
}
Status decompose_lrn(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, widen(b, node.operand(0))};
  const int64_t size = node.i64("size");
  const auto rank = static_cast<size_t>(x.rank());
  Axes window(rank, 1), low(rank, 0), high(rank, 0);
  window[1] = size;
  low[1] = (size - 1) / 2;
  high[1] = size / 2;
  const Term sum = {b, b.build("reduce_window", {(x * x).v},
                               {{"window", window}, {"pad_low", low}, {"pad_high", high}})};
  const Term base = sum * (node.f64("alpha") / static_cast<double>(size)) + node.f64("bias");
  return b.finish(out, {b.convert(x / pow(base, node.f64("beta")), node.result().dtype())});
}

// ---- roi_align ----

Status infer_roi(const InferQuery& q) {
  TENON_TRY(q.require_equal("C1", q.dim(1, 1), q.constant(4), "numbers of a region and 4"));
  TENON_TRY(q.require_equal("C1", q.dim(1, 0), q.dim(2, 0), "regions and their batches"));
  const auto sizes = q.i64s("sizes");
  if (sizes.size() != 2 || sizes[0] < 1 || sizes[1] < 1 || sizes[0] > 65536 || sizes[1] > 65536 ||
      q.i64("samples") < 0 || q.i64("samples") > 65536)
    return q.fail("C2", "sizes needs two positive numbers, samples is at least 0");
  return q.result(q.dtype(0),
                  {q.dim(1, 0), q.dim(0, 1), q.constant(sizes[0]), q.constant(sizes[1])});
}
struct Sample {
  int64_t index[4];
  double weight[4];
};
// The four neighbours of a place; without any beyond one element outside of x.
bool sample_at(double y, double x, int64_t height, int64_t width, Sample* out) {
  if (height < 1 || width < 1) return false;
  if (!(y >= -1 && y <= static_cast<double>(height) && x >= -1 && x <= static_cast<double>(width)))
    return false;
  const auto split = [](double v, int64_t n, int64_t* low, int64_t* high) {
    v = std::max(v, 0.0);
    *low = static_cast<int64_t>(v);
    if (*low >= n - 1) {
      *low = *high = n - 1;
      return 0.0;
    }
    *high = *low + 1;
    return v - static_cast<double>(*low);
  };
  int64_t y0 = 0, y1 = 0, x0 = 0, x1 = 0;
  const double fy = split(y, height, &y0, &y1), fx = split(x, width, &x0, &x1);
  *out = {{y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1},
          {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx}};
  return true;
}
Status reference_roi(const Eval& e) {
  const Array x = e.input(0), rois = e.input(1), batches = e.input(2), y = e.output();
  const double scale = e.f64("scale"), shift = e.i64("half_pixel") != 0 ? 0.5 : 0;
  const bool most = e.text("kind") == "max";
  const int64_t height = x.dim(2), width = x.dim(3);
  const auto values = x.read<double>();
  Status status;
  each_index(y.dims(), [&](const Index& o) {
    const int64_t batch = load_int(batches.dtype(), batches.at({&o[0], 1}));
    if (batch < 0 || batch >= x.dim(0)) {
      status = fail(TENON_OUT_OF_RANGE, cat("roi_align: region ", o[0], " names the batch ", batch,
                                            ", x has ", x.dim(0), "."));
      return;
    }
    const auto at = [&](int64_t k) {
      return load_double(rois.dtype(), rois.at(Index{o[0], k})) * scale - shift;
    };
    double h = at(3) - at(1), w = at(2) - at(0);
    if (shift == 0) {
      h = std::max(h, 1.0);
      w = std::max(w, 1.0);
    }
    const double bin_h = h / static_cast<double>(y.dim(2)),
                 bin_w = w / static_cast<double>(y.dim(3));
    const auto samples = [&](double size) {
      const int64_t given = e.i64("samples");
      return given > 0 ? given : std::clamp<int64_t>(saturate<int64_t>(std::ceil(size)), 0, 65536);
    };
    const int64_t rows = samples(bin_h), columns = samples(bin_w);
    double sum = 0;
    bool first = true;
    const int64_t base = (batch * x.dim(1) + o[1]) * height * width;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        const double py = at(1) + (static_cast<double>(o[2]) +
                                   (static_cast<double>(r) + 0.5) / static_cast<double>(rows)) *
                                      bin_h;
        const double px = at(0) + (static_cast<double>(o[3]) +
                                   (static_cast<double>(c) + 0.5) / static_cast<double>(columns)) *
                                      bin_w;
        Sample s = {};
        const bool inside = sample_at(py, px, height, width, &s);
        for (int k = 0; k < 4; ++k) {
          const double part =
              inside ? s.weight[k] * values[static_cast<size_t>(base + s.index[k])] : 0;
          sum = !most ? sum + part : first ? part : std::max(sum, part);
          first = false;
        }
      }
    }
    store_double(y.dtype(), y.at(o),
                 most ? sum : sum / std::max(1.0, static_cast<double>(rows * columns)));
  });
  return status;
}

constexpr OpDraft lp_pool() {
  OpDraft draft = op("lp_pool", kComposite);
  draft.summary("The p-norm of a window that slides over the spatial dims; borders are 0.")
      .operand("x", "[batch, channels, spatial...]", kFloat, 0, 3)
      .result("y", "element type of x")
      .attr_f64("p", "which norm", 2)
      .attr_i64s("window", "extent of the window per spatial dim")
      .required()
      .attr_i64s("strides", "step of the window; empty: 1")
      .attr_i64s("pad_low", "border before x; empty: 0")
      .attr_i64s("pad_high", "border behind x; empty: 0")
      .attr_i64s("dilation", "distance of the elements of the window; empty: 1")
      .constraint("C1", "every list has one entry per spatial dim",
                  "lp_pool(f32[1, 1, 4]) {window = [2, 2]}")
      .constraint(
          "C2",
          "windows, strides and dilations are at least 1, paddings at least 0, all below 2^31, "
          "windows of more than one element no larger than what they slide over",
          "lp_pool(f32[1, 1, 4]) {window = [0]}")
      .constraint("C3", "p is positive and finite", "lp_pool(f32[1, 1, 4]) {window = [2], p = 0.0}")
      .example("lp_pool(f32[1, 1, 3] [[[3, 4, 0]]]) {window = [2]} -> f32[1, 1, 2] [[[5, 4]]]")
      .infer<infer_lp>()
      .decompose<decompose_lp>()
      .cost(TENON_COST_REDUCTION)
      .tolerance(8);
  return draft;
}
constexpr OpDraft adaptive_pool() {
  OpDraft draft = op("adaptive_pool", kComposite);
  draft.summary("Spatial dims brought to given extents, by the mean or the largest of each part.")
      .doc("Of a dim of n elements, part i of m runs from floor(i n / m) to ceil((i + 1) n / m).")
      .operand("x", "[batch, channels, spatial...]", kFloat, 0, 3)
      .result("y", "element type of x")
      .attr_i64s("sizes", "the spatial dims of the result")
      .required()
      .attr_string("kind", "how a part is summarised", "mean", "mean|max")
      .constraint("C1", "sizes has one entry per spatial dim",
                  "adaptive_pool(f32[1, 1, 4]) {sizes = [2, 2]}")
      .constraint("C2", "sizes are between 1 and 65536",
                  "adaptive_pool(f32[1, 1, 4]) {sizes = [0]}")
      .constraint("C3", "a dim that is cut into several parts is a positive constant",
                  "adaptive_pool(f32[1, 1, n]) {sizes = [2]}")
      .example(
          "adaptive_pool(f32[1, 1, 3] [[[1, 2, 6]]]) {sizes = [2]} -> f32[1, 1, 2] [[[1.5, 4]]]")
      .infer<infer_adaptive>()
      .decompose<decompose_adaptive>()
      .cost(TENON_COST_REDUCTION)
      .tolerance(8);
  return draft;
}
constexpr OpDraft lrn() {
  OpDraft draft = op("lrn", kComposite);
  draft.summary("x / (bias + alpha / size times the squares of neighbouring channels)^beta.")
      .operand("x", "[batch, channels, ...]", kFloat, 0, 2)
      .result("y", "same type as x")
      .attr_i64("size", "how many neighbouring channels", 1)
      .required()
      .attr_f64("alpha", "factor of the mean square", 1e-4)
      .attr_f64("beta", "exponent", 0.75)
      .attr_f64("bias", "what is added", 1)
      .constraint("C1", "size is between 1 and 65536", "lrn(f32[1, 2]) {size = 0}")
      .example(
          "lrn(f32[1, 2] [[3, 4]]) {size = 3, alpha = 3.0, beta = 0.5, bias = 0.0} -> f32[1, 2] "
          "[[0.6, 0.8]]")
      .infer<infer_lrn>()
      .decompose<decompose_lrn>()
      .cost(TENON_COST_REDUCTION)
      .tolerance(16);
  return draft;
}
constexpr OpDraft roi_align() {
  OpDraft draft = op("roi_align", kPure);
  draft.summary("Regions of an image brought to one size, from samples between its elements.")
      .doc(
          "A region is cut into sizes parts; each is the mean (or the largest weighted neighbour) "
          "of samples x samples places in it. With samples 0 there are as many as the part has "
          "elements, which data decides; so it has no decomposition. Places beyond one element "
          "outside of x count as 0. A batch that x has not is an error when it runs.")
      .operand("x", "[batch, channels, height, width]", kFloat, 1, 4, 4)
      .operand("regions", "[regions, 4]: x, y of the first corner, x, y of the second", kFloat, 1,
               2, 2)
      .operand("batches", "per region, the batch it lies in", kIndex, 0, 1, 1)
      .result("y", "[regions, channels, sizes]")
      .attr_i64s("sizes", "height and width of the result")
      .required()
      .attr_i64("samples", "places per part and dim; 0: as many as it has elements", 0)
      .attr_f64("scale", "factor from the numbers of regions to elements of x", 1)
      .attr_i64("half_pixel", "1: regions are shifted by half an element, and may be small", 1)
      .attr_string("kind", "how a part is summarised", "mean", "mean|max")
      .constraint("C1", "a region has 4 numbers and a batch",
                  "roi_align(f32[1, 1, 2, 2], f32[1, 4], i64[2]) {sizes = [1, 1]}")
      .constraint("C2", "sizes are two positive numbers, samples is at least 0",
                  "roi_align(f32[1, 1, 2, 2], f32[1, 4], i64[1]) {sizes = [1]}")
      .example(
          "roi_align(f32[1, 1, 2, 2] [[[[1, 2], [3, 4]]]], f32[1, 4] [[0, 0, 2, 2]], i64[1] [0]) "
          "{sizes = [1, 1], samples = 2} -> f32[1, 1, 1, 1] [[[[2.5]]]]")
      .infer<infer_roi>()
      .reference<reference_roi>()
      .cost(TENON_COST_REDUCTION)
      .tolerance(16);
  return draft;
}

TENON_OPS(pool_more, lp_pool, adaptive_pool, lrn, roi_align)

}  // namespace tenon::ops::pool_more
