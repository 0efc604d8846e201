// Resampling and image ops: Resize, Upsample, ConvTranspose, GridSample, RoiAlign, MaxUnpool,
// Col2Im.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "frontends/onnx/ops/borders.h"
#include "frontends/onnx/ops/window.h"

namespace tenon::onnx {
namespace {

// ---- Resize, Upsample ----

struct Resampling {
  std::vector<int64_t> axes;
  std::vector<double> scales;  // per axis; empty if sizes are given
  Dims sizes;
  std::vector<double> roi;  // starts, then ends, per axis; empty: all
  Value factors;            // data-dependent scales, one per dim of x; `scales` are then 0
};

// Converts a size computed in floats. Refuses numbers beyond the limit and NaN, which comes from 0
// * infinity.
int64_t rounded_size(NodeContext& n, double size) {
  return n.within_limit(size <= 0x1p62 ? static_cast<__int128>(size) : INT64_MAX,
                        "the size of its result");
}

// floor(dim * scale) in f32, as ONNX's shape inference and ONNX Runtime compute it: 10 elements by
// 0.7 give 7, although 0.7 in f32 is smaller than 0.7.
double scaled(int64_t dim, double scale) {
  return std::floor(static_cast<float>(dim) * static_cast<float>(scale));
}

// The scale as a quotient of small integers that gives the same sizes, for up to a million
// elements.
std::optional<std::pair<int64_t, int64_t>> quotient_of(double scale) {
  constexpr int64_t kTried = 1 << 20;
  for (int64_t q = 1; q <= 64; ++q) {
    const double p = scale * static_cast<double>(q), whole = std::round(p);
    if (whole < 1 || whole > 65536 || std::fabs(p - whole) > 1e-6 * whole) continue;
    const auto times = static_cast<int64_t>(whole);
    int64_t d = 1;
    while (d < kTried / std::max<int64_t>(1, times / q) &&
           scaled(d, scale) == static_cast<double>(d * times / q))
      ++d;
    if (d < kTried / std::max<int64_t>(1, times / q)) return {};
    return std::pair(times, q);
  }
  return {};
}

// The size that a scale gives. If no quotient is right for all symbolic sizes, the run computes it.
Dim scaled_dim(NodeContext& n, Dim d, double scale) {
  if (!(scale > 0)) return n.fail("T0713", cat("its scale ", scale, " is not positive")), d;
  if (d.is_constant()) return n.dim(rounded_size(n, scaled(d.constant(), scale)));
  if (const auto quotient = quotient_of(scale))
    return d * n.dim(quotient->first) / n.dim(quotient->second);
  const Value size = n.convert(n.number_of(Extent::of(d)), TENON_F32);
  return n.size_from(
      n.convert(n.build("floor", {n.build("mul", {size, n.scalar(TENON_F32, scale)})}), TENON_I64));
}

// Element i of a vector, as a scalar.
Value element(NodeContext& n, Value list, size_t i) {
  const auto at = static_cast<int64_t>(i);
  return n.reshape(
      n.build("slice", {list}, {{"start", Dims{n.dim(at)}}, {"limit", Dims{n.dim(at + 1)}}}), {});
}

// One scale for all axes, computed in the run: the smallest or the largest quotient. The sizes
// follow from it, rounded to the nearest.
bool aspect_at_run(NodeContext& n, bool larger, Resampling* r) {
  const Dims x = n.dims(0);
  const auto number = [&](Dim d) { return n.convert(n.number_of(Extent::of(d)), TENON_F64); };
  Value scale;
  for (size_t i = 0; i < r->axes.size(); ++i) {
    if (!n.require(TENON_REL_LT, n.dim(0), x[r->axes[i]], "0 and a dim to be resized"))
      return false;
    const Value s = n.build("div", {number(r->sizes[i]), number(x[r->axes[i]])});
    scale = i == 0 ? s : n.build(larger ? "max" : "min", {scale, s});
  }
  if (!n.ok() || !scale.valid()) return n.ok();
  const Value half = n.scalar(TENON_F64, 0.5);
  for (size_t i = 0; i < r->axes.size(); ++i) {
    const Value size =
        n.build("floor", {n.build("add", {n.build("mul", {scale, number(x[r->axes[i]])}), half})});
    r->sizes[i] = n.size_from(n.convert(size, TENON_I64));
  }
  r->factors = n.builder().splat(scale, {n.dim(n.rank(0))});
  r->scales.assign(r->axes.size(), 0);
  return n.ok();
}

// Adjusts the sizes so that one scale holds for all axes.
bool keep_aspect(NodeContext& n, std::string_view policy, Resampling* r) {
  if (policy != "not_larger" && policy != "not_smaller")
    return n.fail("T0708",
                  "attribute 'keep_aspect_ratio_policy' must be stretch, not_larger "
                  "or not_smaller");
  const Dims x = n.dims(0);
  double scale = 0;
  for (size_t i = 0; i < r->axes.size(); ++i) {
    const Dim from = x[r->axes[i]];
    if (!from.is_constant() || !r->sizes[i].is_constant())
      return aspect_at_run(n, policy == "not_smaller", r);
    const double s =
        static_cast<double>(r->sizes[i].constant()) / static_cast<double>(from.constant());
    scale = i == 0 ? s : policy == "not_larger" ? std::min(scale, s) : std::max(scale, s);
  }
  for (size_t i = 0; i < r->axes.size(); ++i) {
    const double size = scale * static_cast<double>(x[r->axes[i]].constant());
    r->sizes[i] = n.dim(rounded_size(n, std::floor(size + 0.5)));
  }
  r->scales.assign(r->axes.size(), scale);
  return n.ok();
}

// Scales that are data-dependent.
bool scales_at_run(NodeContext& n, size_t operand, Resampling* r) {
  const Value all = n.value(operand);
  const Dims x = n.dims(0);
  if (!n.ok() || !all.valid()) return n.ok();
  if (r->axes.size() != x.size())
    return n.fail("T0714",
                  "scales of some axes that are computed when the model runs are not supported");
  if (n.dtype(operand) != TENON_F32 || n.rank(operand) != 1 ||
      !n.require_equal(n.dims(operand)[0], n.dim(n.rank(0)),
                       "the numbers of its scales and of dims"))
    return n.fail("T0713", "its scales need one f32 per dim");
  for (size_t i = 0; i < x.size(); ++i) {
    const Value size = n.convert(n.number_of(Extent::of(x[i])), TENON_F32);
    r->sizes.push_back(n.size_from(
        n.convert(n.build("floor", {n.build("mul", {size, element(n, all, i)})}), TENON_I64)));
  }
  r->factors = all;
  r->scales.assign(x.size(), 0);
  return n.ok();
}

bool read_scales(NodeContext& n, size_t operand, Resampling* r) {
  if (n.only_at_run(operand, "the scales")) return scales_at_run(n, operand, r);
  const auto scales = n.need_constants(operand, "the scales");
  if (!scales) return false;
  if (scales->size() != r->axes.size())
    return n.fail("T0713", cat("it has ", scales->size(), " scales for ", r->axes.size(), " dims"));
  for (size_t i = 0; i < scales->size(); ++i) {
    r->sizes.push_back(scaled_dim(n, n.dims(0)[r->axes[i]], (*scales)[i]));
  }
  r->scales = *scales;
  return n.ok();
}
bool read_sizes(NodeContext& n, size_t operand, Resampling* r) {
  const Extents* sizes = n.need(operand, "the sizes");
  if (sizes == nullptr) return false;
  if (sizes->size() != r->axes.size())
    return n.fail("T0713", cat("it has ", sizes->size(), " sizes for ", r->axes.size(), " dims"));
  for (const Extent& e : *sizes) {
    r->sizes.push_back(e.dim(n.graph()));
    if (!r->sizes.back().valid()) return n.fail("T0713", "one of its sizes is negative");
  }
  return true;
}

// A cubic curve goes beyond the elements that it passes through. As in onnx.reference, the result
// is the nearest number that the integer type has. (Of linear mode, ONNX Runtime cuts fractions
// off.)
Value nearest_integer(NodeContext& n, Value y, tenon_dtype_t type) {
  const int bits = static_cast<int>(dtype_bits(type));
  const bool is_signed = is_in(type, kSigned);
  // The largest number of 32 bits or more that f32 has lies below a power of two.
  const double end = std::ldexp(1.0, is_signed ? bits - 1 : bits);
  const double most = bits < 32 ? end - 1 : end * (1 - 0x1p-24);
  return n.build("clamp", {n.build("round_even", {y})},
                 {{"min", is_signed ? -end : 0.0}, {"max", most}});
}

bool build_resize(NodeContext& n, const Resampling& r, std::string_view mode,
                  std::string_view coordinates, std::string_view nearest) {
  const Dims x = n.dims(0);
  Dims sizes = x;
  std::vector<double> scales(x.size(), 1), roi(2 * x.size(), 0);
  std::fill(roi.begin() + static_cast<int64_t>(x.size()), roi.end(), 1);
  for (size_t i = 0; i < r.axes.size(); ++i) {
    const auto axis = static_cast<size_t>(r.axes[i]);
    sizes[axis] = r.sizes[i];
    if (!r.scales.empty()) scales[axis] = r.scales[i];
    if (r.roi.empty()) continue;
    roi[axis] = r.roi[i];
    roi[x.size() + axis] = r.roi[r.axes.size() + i];
  }
  if (r.scales.empty()) scales.clear();
  if (r.roi.empty()) roi.clear();
  // Linear and cubic modes on integers compute in f32, as the op's definition does.
  Value in = n.value(0);
  const tenon_dtype_t type = n.dtype(0);
  if (mode != "nearest" && is_int(type)) in = n.convert(in, TENON_F32);
  std::vector<Value> operands = {in};
  if (r.factors.valid()) operands.push_back(r.factors);
  Value y = n.build("resize", operands,
                    {{"sizes", sizes},
                     {"scales", scales},
                     {"roi", roi},
                     {"mode", mode},
                     {"coordinates", coordinates},
                     {"nearest", nearest},
                     {"cubic", n.number("cubic_coeff_a", -0.75)},
                     {"exclude_outside", n.integer("exclude_outside", 0)},
                     {"antialias", n.integer("antialias", 0)},
                     {"extrapolation", n.number("extrapolation_value", 0)}});
  if (mode == "cubic" && is_int(type) && y.valid()) y = nearest_integer(n, y, type);
  return n.set(0, y.valid() ? n.convert(y, type) : y);
}

Resampling all_dims(NodeContext& n) {
  Resampling r;
  r.axes.resize(n.dims(0).size());
  std::iota(r.axes.begin(), r.axes.end(), 0);
  return r;
}
bool known_mode(NodeContext& n, std::string_view mode) {
  return mode == "nearest" || mode == "linear" || mode == "cubic" ||
         n.fail("T0708", "attribute 'mode' must be nearest, linear or cubic");
}

// Resize of opset 10, and Upsample, before the coordinate mode could be chosen.
bool upsample(NodeContext& n) {
  std::string_view mode = n.text("mode", "nearest");
  if (mode == "bilinear") mode = "linear";
  const bool attribute = n.op() == "Upsample" && n.version() < 9;
  if (!n.arity(attribute ? 1 : 2, attribute ? 1 : 2) || !known_mode(n, mode)) return false;
  Resampling r = all_dims(n);
  if (attribute) {
    r.scales = n.numbers("scales");
    if (r.scales.size() != r.axes.size())
      return n.fail("T0708", "attribute 'scales' needs one entry per dim of its input");
    for (size_t i = 0; i < r.axes.size() && n.ok(); ++i)
      r.sizes.push_back(scaled_dim(n, n.dims(0)[i], r.scales[i]));
  } else if (!read_scales(n, 1, &r)) {
    return false;
  }
  return n.ok() && build_resize(n, r, mode, "asymmetric", "floor");
}

// Of ONNX Runtime's blocked layout (nchwc.cpp), by whole scales.
bool upsample_blocks(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const std::string_view mode = n.text("mode", "nearest");
  const std::string_view coordinates = n.text("coordinate_transformation_mode", "asymmetric");
  if (!known_mode(n, mode)) return false;
  Resampling r = all_dims(n);
  for (int64_t scale : n.per_dim("scales", r.axes.size(), 1, 1)) {
    r.scales.push_back(static_cast<double>(scale));
    r.sizes.push_back(n.dims(0)[r.sizes.size()] * n.dim(scale));
  }
  return n.ok() && build_resize(n, r, mode, coordinates, "floor");
}

bool resize(NodeContext& n) {
  if (!n.arity(1, 4)) return false;
  const std::string_view mode = n.text("mode", "nearest");
  std::string_view coordinates = n.text("coordinate_transformation_mode", "half_pixel");
  const std::string_view policy = n.text("keep_aspect_ratio_policy", "stretch");
  const std::string_view nearest = n.text("nearest_mode", "round_prefer_floor");
  if (!known_mode(n, mode)) return false;
  Resampling r = all_dims(n);
  if (n.has_attribute("axes")) {
    r.axes = n.integers("axes");
    for (int64_t& a : r.axes) a = n.axis(a, n.rank(0));
  }
  // An empty tensor means an omitted operand.
  const auto given = [&](size_t i) { return n.has(i) && !(n.rank(i) == 1 && n.dims(i)[0].is(0)); };
  if (!n.ok() || (given(2) == given(3))) return n.fail("T0713", "it needs either scales or sizes");
  if (!(given(2) ? read_scales(n, 2, &r) : read_sizes(n, 3, &r))) return false;
  if (given(3) && policy != "stretch" && !keep_aspect(n, policy, &r)) return false;
  if (coordinates == "tf_half_pixel_for_nn") {
    return n.fail("T0714", "the coordinates tf_half_pixel_for_nn are not supported");
  }
  if (coordinates == "tf_crop_and_resize") {
    const auto roi = given(1) ? n.need_constants(1, "the roi") : std::vector<double>();
    if (!roi) return false;
    if (roi->size() != 2 * r.axes.size())
      return n.fail("T0713", "its roi needs two entries per dim");
    r.roi = *roi;
  }
  return build_resize(n, r, mode, coordinates, nearest);
}

// ---- ConvTranspose ----

// The attribute output_shape without batch and channels; empty when it is not given.
std::vector<int64_t> output_shape(NodeContext& n, size_t spatial) {
  std::vector<int64_t> wanted = n.integers("output_shape");
  if (wanted.size() == spatial + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (!wanted.empty() && wanted.size() != spatial)
    n.fail("T0708", "attribute 'output_shape' needs one entry per spatial dim");
  for (int64_t v : wanted) {
    if (v < 0) n.fail("T0708", cat("attribute 'output_shape' has the entry ", v));
    n.within_limit(v, "an entry of attribute 'output_shape'");
  }
  return n.ok() ? wanted : std::vector<int64_t>();
}

// Paddings for the wanted extents or for SAME, where the result is the input times the stride for
// any input. An odd element goes to the start, with SAME_UPPER to the end.
bool pads_for(NodeContext& n, const std::vector<int64_t>& wanted, std::span<const Dim> dims,
              const std::vector<int64_t>& further, bool upper, Window* w) {
  for (size_t i = 0; i < dims.size() && n.ok(); ++i) {
    const __int128 reach = static_cast<__int128>(span(n, *w, i)) + further[i],
                   stride = w->strides[i];
    const int64_t total = n.within_limit(
        wanted.empty() ? reach - stride : stride * (dims[i].constant() - 1) + reach - wanted[i],
        "the sum of its paddings");
    const int64_t half = total >= 0 ? total / 2 : (total - 1) / 2;
    w->low.push_back(upper ? half : total - half);
    w->high.push_back(upper ? total - half : half);
  }
  return n.ok();
}

// Cuts the full result to the wanted extents, for symbolic sizes. A wanted extent that is larger
// than the full one is an error of the run.
Value cut_to(NodeContext& n, Value y, const std::vector<int64_t>& wanted, bool upper) {
  if (!n.ok() || !y.valid()) return Value();
  Dims start(y.dims().size(), n.dim(0)), limit = y.dims();
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Dim want = n.dim(wanted[i]);
    if (!n.require(TENON_REL_LE, want, limit[i + 2], "the wanted size and that of the result"))
      return Value();
    const Dim total = limit[i + 2] - want, half = total / n.dim(2);
    start[i + 2] = upper ? half : total - half;
    limit[i + 2] = start[i + 2] + want;
  }
  return n.build("slice", {y}, {{"start", start}, {"limit", limit}});
}

bool conv_transpose(NodeContext& n) {
  if (!n.arity(2, 3) || !n.same_types()) return false;
  const Dims x = n.dims(0), filters = n.dims(1);
  if (x.size() < 3 || filters.size() != x.size())
    return n.fail("T0713", "its inputs need one rank of 3 or more");
  const size_t spatial = x.size() - 2;
  const std::span<const Dim> dims = std::span(x).subspan(2);
  Window w;
  for (size_t i = 0; i < spatial; ++i) {
    if (!filters[i + 2].is_constant())
      return n.fail("T0714", "filters of symbolic size are not supported");
    w.size.push_back(filters[i + 2].constant());
  }
  if (n.has_attribute("kernel_shape") && n.integers("kernel_shape") != w.size)
    return n.fail("T0708", "attribute 'kernel_shape' differs from the shape of its filters");
  w.strides = n.per_dim("strides", spatial, 1, 1);
  w.dilations = n.per_dim("dilations", spatial, 1, 1);
  const std::vector<int64_t> further = n.per_dim("output_padding", spatial, 0, 0),
                             wanted = output_shape(n, spatial);
  const auto kind = auto_pad(n);
  if (!n.ok() || !kind) return false;
  const bool upper = *kind == AutoPad::kSameUpper, same = upper || *kind == AutoPad::kSameLower;
  const bool data_dependent = !wanted.empty() && std::any_of(dims.begin(), dims.end(), [](Dim d) {
    return !d.is_constant();
  });
  if ((!wanted.empty() && !data_dependent) || (wanted.empty() && same)) {
    n.integers("pads");
    if (!pads_for(n, wanted, dims, further, upper, &w)) return false;
  } else if (data_dependent || *kind == AutoPad::kValid) {
    n.integers("pads");
    w.low.assign(spatial, 0);
    w.high.assign(spatial, 0);
  } else {
    explicit_pads(n, spatial, &w);
  }
  std::vector<Value> operands = {n.value(0), n.value(1)};
  if (n.has(2)) operands.push_back(n.value(2));
  const Value y = n.build("conv_transpose", operands,
                          {{"strides", w.strides},
                           {"pad_low", w.low},
                           {"pad_high", w.high},
                           {"dilation", w.dilations},
                           {"output_padding", further},
                           {"groups", n.integer("group", 1)}});
  return n.set(0, data_dependent ? cut_to(n, y, wanted, upper) : y);
}

// ---- Sampling at positions ----

bool grid_sample(NodeContext& n) {
  if (!n.arity(2, 2)) return false;
  std::string_view mode = n.text("mode", "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  const std::string_view padding = n.text("padding_mode", "zeros");
  return n.set(0, n.build("grid_sample", {n.value(0), n.value(1)},
                          {{"mode", mode},
                           {"padding", padding},
                           {"align_corners", n.integer("align_corners", 0)}}));
}

// The positions of elements along a dim of an image, in [-1, 1], as a value of the image's shape.
Value places_along(NodeContext& n, tenon_dtype_t type, const Dims& image, int64_t d, bool corners) {
  const Value at =
      n.build("iota", std::vector<Value>(), {{"shape", image}, {"dim", d}, {"dtype", dtype(type)}});
  if (!at.valid()) return Value();
  const Dim size = image[static_cast<size_t>(d)];
  const auto moved = [&](Value by, Value from) {
    return n.build("add", {n.build("mul", {at, by}), from});
  };
  if (size.is_constant()) {
    const double count = static_cast<double>(size.constant());
    const double step = !corners ? 2 / count : count > 1 ? 2 / (count - 1) : 0;
    return moved(n.full_like(at, step), n.full_like(at, corners ? -1 : 1 / count - 1));
  }
  const auto all = [&](Value v) { return n.builder().splat(n.convert(v, type), image); };
  const Value one = n.scalar(TENON_F64, 1), two = n.scalar(TENON_F64, 2);
  const Value count = n.convert(n.number_of(Extent::of(size)), TENON_F64);
  const Value gaps = corners ? n.build("max", {n.build("sub", {count, one}), one}) : count;
  return moved(
      all(n.build("div", {two, gaps})),
      corners ? n.full_like(at, -1) : all(n.build("sub", {n.build("div", {one, count}), one})));
}

// Positions of an image of given extents, transformed by one matrix per batch.
bool affine_grid(NodeContext& n) {
  if (!n.arity(2, 2)) return false;
  const bool corners = n.integer("align_corners", 0) != 0;
  const Extents* size = n.need(1, "the size", 1);
  if (size == nullptr) return false;
  if (size->size() < 4 || size->size() > 5) return n.fail("T0713", "its size needs 4 or 5 numbers");
  const auto spatial = static_cast<int64_t>(size->size()) - 2;
  Dims image;
  for (size_t i = 2; i < size->size(); ++i) {
    image.push_back((*size)[i].dim(n.graph()));
    if (image.back().is(0) || !image.back().valid())
      return n.fail("T0713", "one of its extents is not positive");
    if (!n.require(TENON_REL_LT, n.dim(0), image.back(), "0 and an extent")) return false;
  }
  if (!is_float(n.dtype(0))) return n.fail("T0710", "its matrices need floats");
  const Value matrices = n.wide(n.value(0));
  if (!matrices.valid()) return n.ok();
  const tenon_dtype_t type = matrices.dtype();
  // A position begins with the last dim and ends with a 1 for the translation.
  std::vector<Value> columns;
  Dims column = image;
  column.push_back(n.dim(1));
  for (int64_t d = spatial - 1; d >= 0; --d)
    columns.push_back(n.reshape(places_along(n, type, image, d, corners), column));
  columns.push_back(n.builder().full(type, column, 1));
  const Value places = n.build("concat", columns, {{"dim", spatial}});
  // [batch, spatial + 1 rows] over [image..., spatial + 1]: batch, rows, image...
  const Value moved =
      n.build("dot_general", {matrices, places}, {{"a_contract", {2}}, {"b_contract", {spatial}}});
  std::vector<int64_t> perm = {0};
  for (int64_t d = 0; d < spatial; ++d) perm.push_back(2 + d);
  perm.push_back(1);
  return moved.valid() ? n.set(0, n.convert(n.transpose(moved, perm), n.dtype(0))) : n.ok();
}

bool roi_align(NodeContext& n) {
  if (!n.arity(3, 3)) return false;
  const std::string_view mode = n.text("mode", "avg");
  const std::string_view place = n.version() >= 16
                                     ? n.text("coordinate_transformation_mode", "half_pixel")
                                     : "output_half_pixel";
  if ((mode != "avg" && mode != "max") || (place != "half_pixel" && place != "output_half_pixel"))
    return n.fail("T0708",
                  "attribute 'mode' or 'coordinate_transformation_mode' has an unknown value");
  return n.set(0, n.build("roi_align", {n.value(0), n.value(1), n.value(2)},
                          {{"sizes", {n.integer("output_height", 1), n.integer("output_width", 1)}},
                           {"samples", n.integer("sampling_ratio", 0)},
                           {"scale", n.number("spatial_scale", 1)},
                           {"half_pixel", place == "half_pixel" ? 1 : 0},
                           {"kind", mode == "max" ? "max" : "mean"}}));
}

// ---- Windows ----

bool max_unpool(NodeContext& n) {
  if (!n.arity(2, 3)) return false;
  const Dims x = n.dims(0);
  if (x.size() < 3) return n.fail("T0713", "its input needs rank 3 or more");
  const size_t spatial = x.size() - 2;
  Window w;
  w.size = n.per_dim("kernel_shape", spatial, 1, 1);
  w.strides = n.per_dim("strides", spatial, 1, 1);
  explicit_pads(n, spatial, &w);
  Dims shape = {x[0], x[1]};
  for (size_t i = 0; i < spatial && n.ok(); ++i) {
    // (x - 1) * stride + window, without paddings. An empty x gives nothing to place.
    const int64_t shift =
        n.within_limit(static_cast<__int128>(w.size[i]) - w.strides[i] - w.low[i] - w.high[i],
                       "the size of its result");
    const Dim size = x[i + 2] * n.dim(w.strides[i]), less = n.dim(std::max<int64_t>(0, -shift));
    if (!n.require(TENON_REL_LE, less, size, "its paddings and its result")) return false;
    shape.push_back(shift >= 0 ? size + n.dim(shift) : size - less);
    if (shape.back().is_constant())
      n.within_limit(shape.back().constant(), "the size of its result");
  }
  if (!n.ok()) return false;
  const Value places = n.value(1), count = n.number_of(Extent::of(n.product(shape)));
  if (!n.ok() || !places.valid() || !count.valid()) return n.ok();
  const Value end = n.broadcast_to(n.convert(count, places.dtype()), places.dims());
  const Value inside = n.build(
      "and", {n.build("compare", {places, n.full_like(places, 0)}, {{"direction", TENON_CMP_GE}}),
              n.build("compare", {places, end}, {{"direction", TENON_CMP_LT}})});
  const Value y = n.build(
      "max_unpool", {n.value(0), n.checked(places, inside, "an index is outside of its result")},
      {{"shape", shape}});
  if (!n.has(2)) return n.set(0, y);
  const Extents* wanted = n.need(2, "the shape of the result");
  if (wanted == nullptr) return false;
  if (wanted->size() != x.size()) return n.fail("T0713", "its shape needs one number per dim");
  Extents low(x.size()), high(x.size());
  for (size_t i = 2; i < x.size(); ++i) {
    if (!is_natural(n.graph(), (*wanted)[i]) && (*wanted)[i].is_number())
      return n.fail("T0713", cat("its shape has the negative size ", (*wanted)[i].number));
    const auto more = compute(n.graph(), Arithmetic::kSub, (*wanted)[i], Extent::of(shape[i]));
    if (!more) return n.fail("T0713", "its shape is beyond 64 bits");
    high[i] = *more;
  }
  return n.set(0, padded(n, y, low, high, n.scalar(n.dtype(0), 0)));
}

bool col2im(NodeContext& n) {
  if (!n.arity(3, 3)) return false;
  const Extents* image = n.need(1, "the shape of the image");
  const auto block = n.need_numbers(2, "the shape of a block");
  if (image == nullptr || !block) return false;
  const size_t spatial = block->size();
  Dims dims;
  for (const Extent& e : *image) dims.push_back(e.dim(n.graph()));
  Window w;
  w.strides = n.per_dim("strides", spatial, 1, 1);
  w.dilations = n.per_dim("dilations", spatial, 1, 1);
  explicit_pads(n, spatial, &w);
  return n.ok() && n.set(0, n.build("col2im", {n.value(0)},
                                    {{"image", dims},
                                     {"window", *block},
                                     {"strides", w.strides},
                                     {"dilation", w.dilations},
                                     {"pad_low", w.low},
                                     {"pad_high", w.high}}));
}

bool global_lp_pool(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const double p = n.version() >= 2 ? static_cast<double>(n.integer("p", 2)) : n.number("p", 2);
  Dims shape = n.dims(0);
  std::vector<int64_t> axes;
  for (size_t i = 2; i < shape.size(); ++i) {
    axes.push_back(static_cast<int64_t>(i));
    shape[i] = n.dim(1);
  }
  return n.set(0, n.reshape(n.build("norm", {n.value(0)}, {{"dims", axes}, {"p", p}}), shape));
}

// ---- Normalisations by length, or over everything ----

bool lp_normalization(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const int64_t axis = n.axis(n.integer("axis", -1), n.rank(0));
  const int64_t p = n.integer("p", 2);
  if (p != 1 && p != 2) return n.fail("T0708", cat("attribute 'p' is ", p, ", and must be 1 or 2"));
  const Value x = n.wide(n.value(0));
  if (!n.ok() || !x.valid()) return n.ok();
  Dims kept = n.dims(0);
  kept[axis] = n.dim(1);
  const Value length = n.broadcast_to(
      n.reshape(n.build("norm", {x}, {{"dims", {axis}}, {"p", static_cast<double>(p)}}), kept),
      n.dims(0));
  if (!length.valid()) return n.ok();
  // A vector of length 0 stays 0.
  const Value none = n.build("compare", {length, n.full_like(length, 0)}, {{"direction", 0}});
  const Value y = n.build("select", {none, n.full_like(x, 0), n.build("div", {x, length})});
  return n.set(0, n.convert(y, n.dtype(0)));
}

bool mean_variance(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  std::vector<int64_t> axes =
      n.has_attribute("axes") ? n.integers("axes") : std::vector<int64_t>{0, 2, 3};
  axes = n.axes(axes, n.rank(0));
  const Value x = n.wide(n.value(0));
  if (!n.ok() || !x.valid()) return n.ok();
  Dims kept = n.dims(0);
  for (const int64_t a : axes) kept[a] = n.dim(1);
  const auto whole = [&](Value v) { return n.broadcast_to(n.reshape(v, kept), n.dims(0)); };
  const Value mean = whole(n.build("mean", {x}, {{"dims", axes}}));
  const Value std = whole(n.build("std", {x}, {{"dims", axes}}));
  if (!std.valid()) return n.ok();
  const Value y =
      n.build("div", {n.build("sub", {x, mean}), n.build("add", {std, n.full_like(std, 1e-9)})});
  return n.set(0, n.convert(y, n.dtype(0)));
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"Upsample", 7, upsample},
    {"Upsample", 1, upsample_blocks, "com.microsoft.nchwc"},
    {"Resize", 10, upsample},
    {"Resize", 11, resize},
    {"ConvTranspose", 1, conv_transpose},
    {"GridSample", 16, grid_sample},
    {"AffineGrid", 20, affine_grid},
    {"RoiAlign", 10, roi_align},
    {"MaxUnpool", 9, max_unpool},
    {"Col2Im", 18, col2im},
    {"GlobalLpPool", 1, global_lp_pool},
    {"LpNormalization", 1, lp_normalization},
    {"MeanVarianceNormalization", 9, mean_variance},
});

}  // namespace

std::span<const OpImporter> vision_importers() {
  return kTable;
}

}  // namespace tenon::onnx
