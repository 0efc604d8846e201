// roi_align: regions of an image, sampled to one size.
#include "compose.h"
#include "derivative.h"
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

// ---- Derivatives ----

Term as_column(Term rows, const Dims& shape) {
  return broadcast(rows, shape, {0});
}
Term as_row(Term entries, const Dims& shape) {
  return broadcast(entries, shape, {1});
}

// How much each element along a dim of x weighs in each part of each region, [regions, parts,
// extent], and how that changes with the places. The weights of both dims multiply.
class Along {
 public:
  // dim: 0 for height, 1 for width, the second ones in x and in `sizes`, the first in a region.
  Along(Builder& b, const Node& node, Term regions, int64_t dim)
      : b_(b), regions_(regions), dim_(dim), parts_(node.i64s("sizes")[static_cast<size_t>(dim)]) {
    samples_ = node.i64("samples");
    scale_ = node.f64("scale");
    shift_ = node.i64("half_pixel") != 0 ? 0.5 : 0;
    extent_ = node.operand(0).dim(static_cast<uint32_t>(2 + dim));
    places_ = {regions_.dim(0), b.dim(parts_ * samples_)};
    shape_ = {places_[0], places_[1], extent_};
    std::vector<double> steps;
    for (int64_t i = 0; i < parts_ * samples_; ++i) {
      steps.push_back((static_cast<double>(i) + 0.5) / static_cast<double>(parts_ * samples_));
    }
    steps_ = as_row(numbers(b, regions.dtype(), steps), places_);
    length_ = column(3 - dim) - column(1 - dim);
    const Term used = shift_ == 0 ? max(length_, 1) : length_;
    at_ = as_column(column(1 - dim) - shift_, places_) + steps_ * as_column(used, places_);
    const Term n = extent(b, extent_, regions.dtype());
    last_ = n - 1;
    inside_ = compare(at_, TENON_CMP_GE, -1) & compare(at_, TENON_CMP_LE, n);
    const Term index = iota(b, shape_, 2, regions.dtype());
    distance_ = over(max(min(at_, last_), 0)) - index;
  }
  Term weights() const { return mean(where(over(inside_), max(1 - abs(distance_), 0), 0)); }
  // The tangents of the weights, from those of the regions.
  Term moved(Term tangents) const {
    Term length = column(tangents, 3 - dim_) - column(tangents, 1 - dim_);
    if (shift_ == 0) length = where(compare(length_, TENON_CMP_GT, 1), length, 0);
    const Term along =
        as_column(column(tangents, 1 - dim_), places_) + steps_ * as_column(length, places_);
    const auto between = [&](double low, double high) {
      return compare(distance_, TENON_CMP_GE, low) & compare(distance_, TENON_CMP_LT, high);
    };
    const Term slope =
        where(between(0, 1), distance_.same(-1), where(between(-1, 0), distance_.same(1), 0));
    const Term free = inside_ & compare(at_, TENON_CMP_GT, 0) & compare(at_, TENON_CMP_LT, last_);
    return mean(where(over(free), slope * over(along), 0));
  }

 private:
  Term column(Term of, int64_t which) const {
    return reshape(cut(of, 1, b_.dim(which), b_.dim(which + 1)), {of.dim(0)}) * scale_;
  }
  Term column(int64_t which) const { return column(regions_, which); }
  Term over(Term places) const { return broadcast(places, shape_, {0, 1}); }
  Term mean(Term of_places) const {
    const Dims apart = {shape_[0], b_.dim(parts_), b_.dim(samples_), extent_};
    return reduced("reduce_sum", reshape(of_places, apart), {2}) / static_cast<double>(samples_);
  }

  Builder& b_;
  Term regions_;
  int64_t dim_, parts_, samples_ = 0;
  double scale_ = 1, shift_ = 0;
  Dim extent_;
  Dims places_, shape_;
  Term steps_, length_, at_, last_, inside_, distance_;
};

// The parts of all regions: sums over the elements of x, times the weights of both dims.
Term weighted(Term x, Term batches, Term down, Term across) {
  Builder& b = *x.b;
  const Term chosen = {
      b, b.build("one_hot", {batches}, {{"depth", Dims{x.dim(0)}}, {"dtype", dtype(x.dtype())}})};
  const Dims shape = {down.dim(0), down.dim(1), x.dim(0), x.dim(2)};
  const Term rows = broadcast(chosen, shape, {0, 2}) * broadcast(down, shape, {0, 1, 3});
  const Value lines =
      b.build("dot_general", {rows, x}, {{"a_contract", {2, 3}}, {"b_contract", {0, 2}}});
  const Value parts =
      b.build("dot_general", {lines, across},
              {{"a_batch", {0}}, {"b_batch", {0}}, {"a_contract", {3}}, {"b_contract", {2}}});
  return transpose({b, parts}, {0, 2, 1, 3});
}

std::vector<Value> jvp(Builder& b, const Node& node, std::span<const Value> tangents) {
  if (node.i64("samples") == 0 || node.text("kind") != "mean") {
    b.note(fail(TENON_UNIMPLEMENTED,
                "T0410: roi_align has no derivative with samples = 0, where the regions decide how "
                "many places there are, nor with kind max: give samples, and take the mean"));
    return {};
  }
  const auto wide = [&](Value v) {
    return Term(b, b.convert(v, is_narrow(v.dtype()) ? TENON_F32 : v.dtype()));
  };
  const Term x = wide(node.operand(0)), batches = {b, node.operand(2)};
  const Term regions = {b, b.convert(node.operand(1), x.dtype())};
  const Along down(b, node, regions, 0), across(b, node, regions, 1);
  Value sum;
  if (tangents[0]) sum = weighted(wide(tangents[0]), batches, down.weights(), across.weights());
  if (tangents[1]) {
    const Term moves = {b, b.convert(tangents[1], x.dtype())};
    sum = plus(b, sum, weighted(x, batches, down.moved(moves), across.weights()));
    sum = plus(b, sum, weighted(x, batches, down.weights(), across.moved(moves)));
  }
  return {sum ? b.convert(sum, node.result().dtype()) : Value()};
}

// The samples of regions are more regions, and those of x more batches. A batch that x has not
// stays one that it has not.
std::vector<Value> batch(Builder& b, const Node& node, std::span<const Value> operands,
                         std::span<const uint8_t> is_batched, Dim size) {
  const Dim regions = node.operand(1).dim(0), images = node.operand(0).dim(0);
  Value x = operands[0];
  const Value boxes = repeated(b, operands[1], is_batched[1] != 0, size);
  Term batches = as({b, repeated(b, operands[2], is_batched[2] != 0, size)}, TENON_I64);
  if (is_batched[0] != 0) {
    Dims shape = x.dims();
    shape[1] = size * images;
    shape.erase(shape.begin());
    x = reshape(b, x, shape);
    const Term count = extent(b, images);
    const Term known = compare(batches, TENON_CMP_GE, 0) & compare(batches, TENON_CMP_LT, count);
    batches = where(known, batches + iota(b, {size, regions}, 0) * count, -1);
  }
  const Value y = b.build_node("roi_align",
                               std::vector<Value>{x, reshape(b, boxes, {size * regions, b.dim(4)}),
                                                  reshape(batches, {size * regions})},
                               attributes_of(node))
                      .result();
  Dims whole = node.result().dims();
  whole.insert(whole.begin(), size);
  return {reshape(b, y, whole)};
}

constexpr OpDraft roi_align() {
  OpDraft draft = op("roi_align", kPure);
  draft.summary("Regions of an image brought to one size, from samples between its elements.")
      .doc(
          "A region is cut into sizes parts; each is the mean (or the largest weighted neighbour) "
          "of samples x samples places in it. With samples 0 there are as many as the part has "
          "elements, which data decides; so it has no decomposition. Places beyond one element "
          "outside of x count as 0. A batch that x has not is an error when it runs. It "
          "differentiates "
          "with a number of samples, and as a mean.")
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
      .jvp<jvp>()
      .batch<batch>()
      .cost(TENON_COST_REDUCTION)
      .tolerance(16);
  return draft;
}

TENON_OPS(roi_align, roi_align)

}  // namespace tenon::ops::roi_align
