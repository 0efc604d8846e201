// roi_align: regions of an image, sampled to one size.
#include "compose.h"
#include "flag.h"

namespace tenon::ops::roi_align {

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
// The four neighbours of a position; false beyond one element outside x.
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
      .attr(flag("half_pixel", "1: regions are shifted by half an element, and may be small", 1))
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
      .no_derivative("no rule for it is there yet")
      .cost(TENON_COST_REDUCTION)
      .tolerance(16);
  return draft;
}

TENON_OPS(roi_align, roi_align)

}  // namespace tenon::ops::roi_align
