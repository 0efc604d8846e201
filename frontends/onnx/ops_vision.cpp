// Resampling and what belongs to images: Resize, Upsample, ConvTranspose, GridSample, RoiAlign,
// MaxUnpool, Col2Im, LpPool.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "importer.h"

namespace tenon::onnx {
namespace {

// ---- Resize, Upsample ----

struct Resampling {
  std::vector<int64_t> axes;
  std::vector<double> scales;  // per axis; empty: sizes are given
  Dims sizes;
  std::vector<double> roi;  // starts, then ends, per axis; empty: all
};

// A size that was computed in floats: NaN, which comes from 0 * infinity, and numbers beyond the limit are refused.
int64_t rounded_size(NodeContext& n, double size) {
  return n.within_limit(size <= 0x1p62 ? static_cast<__int128>(size) : INT64_MAX, "the size of its result");
}

// floor(dim * scale). A symbolic dim takes a scale that is a quotient of small numbers.
Dim scaled_dim(NodeContext& n, Dim d, double scale) {
  if (!(scale > 0)) return n.fail("T0713", cat("its scale ", scale, " is not positive")), d;
  if (d.is_constant()) return n.dim(rounded_size(n, std::floor(static_cast<double>(d.constant()) * scale)));
  for (int64_t q = 1; q <= 64; ++q) {
    const double p = scale * static_cast<double>(q), whole = std::round(p);
    if (whole < 1 || whole > 65536 || std::fabs(p - whole) > 1e-6 * whole) continue;
    return d * n.dim(static_cast<int64_t>(whole)) / n.dim(q);
  }
  n.fail("T0714", cat("a scale of ", scale, " over a symbolic dim is not supported"));
  return Dim();
}

// Sizes of which one scale follows for all axes.
bool keep_aspect(NodeContext& n, std::string_view policy, Resampling* r) {
  if (policy != "not_larger" && policy != "not_smaller")
    return n.fail("T0708",
                  "attribute 'keep_aspect_ratio_policy' is none of stretch, not_larger "
                  "and not_smaller");
  const Dims x = n.dims(0);
  double scale = 0;
  for (size_t i = 0; i < r->axes.size(); ++i) {
    const Dim from = x[r->axes[i]];
    if (!from.is_constant() || !r->sizes[i].is_constant())
      return n.fail("T0714", "keeping the aspect ratio of symbolic dims is not supported");
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

bool read_scales(NodeContext& n, size_t operand, Resampling* r) {
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
  // Linear and cubic over integers go through f32, as the definition of the op computes.
  Value in = n.value(0);
  const tenon_dtype_t type = n.dtype(0);
  if (mode != "nearest" && is_int(type)) in = n.convert(in, TENON_F32);
  const Value y = n.build("resize", {in},
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
         n.fail("T0708", "attribute 'mode' is none of nearest, linear and cubic");
}

// Resize of opset 10 and Upsample, before coordinates could be chosen.
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
  // An empty tensor stands for an operand that is left out.
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

struct Transposed {
  std::vector<int64_t> size, strides, dilations, more, low, high;
};

// Paddings from the wanted extents; the odd element goes to the front, but behind with SAME_UPPER.
bool pads_for(NodeContext& n, std::span<const int64_t> wanted, std::span<const Dim> dims,
              bool upper, Transposed* w) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!dims[i].is_constant() && wanted.size() == dims.size())
      return n.fail("T0714", "output_shape over symbolic dims is not supported");
    // SAME: the result is the input times the stride, whatever the input is.
    const __int128 reach = static_cast<__int128>(w->size[i] - 1) * w->dilations[i] + 1 + w->more[i];
    const int64_t total = n.within_limit(
        wanted.empty() ? reach - w->strides[i] : static_cast<__int128>(w->strides[i]) * (dims[i].constant() - 1) + reach - wanted[i],
        "the sum of its paddings");
    const int64_t half = total >= 0 ? total / 2 : (total - 1) / 2;
    w->low.push_back(upper ? half : total - half);
    w->high.push_back(upper ? total - half : half);
  }
  return n.ok();
}

bool conv_transpose(NodeContext& n) {
  if (!n.arity(2, 3) || !n.same_types()) return false;
  const Dims x = n.dims(0), filters = n.dims(1);
  if (x.size() < 3 || filters.size() != x.size())
    return n.fail("T0713", "its inputs need one rank of 3 or more");
  const size_t spatial = x.size() - 2;
  const std::span<const Dim> dims = std::span(x).subspan(2);
  Transposed w;
  for (size_t i = 0; i < spatial; ++i) {
    if (!filters[i + 2].is_constant())
      return n.fail("T0714", "filters of symbolic size are not supported");
    w.size.push_back(filters[i + 2].constant());
  }
  if (n.has_attribute("kernel_shape") && n.integers("kernel_shape") != w.size)
    return n.fail("T0708", "attribute 'kernel_shape' differs from the shape of its filters");
  w.strides = n.per_dim("strides", spatial, 1, 1);
  w.dilations = n.per_dim("dilations", spatial, 1, 1);
  w.more = n.per_dim("output_padding", spatial, 0, 0);
  const std::string_view kind = n.text("auto_pad", "NOTSET");
  std::vector<int64_t> wanted = n.integers("output_shape");
  if (wanted.size() == x.size()) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (!wanted.empty() && wanted.size() != spatial)
    return n.fail("T0708", "attribute 'output_shape' needs one entry per spatial dim");
  const bool same = kind == "SAME_UPPER" || kind == "SAME_LOWER";
  if (!same && kind != "NOTSET" && kind != "VALID")
    return n.fail("T0708",
                  "attribute 'auto_pad' is none of NOTSET, SAME_UPPER, SAME_LOWER and VALID");
  if (!wanted.empty() || same) {
    if (!n.ok() || !pads_for(n, wanted, dims, kind == "SAME_UPPER", &w)) return false;
    n.integers("pads");
  } else if (kind == "VALID") {
    n.integers("pads");
    w.low.assign(spatial, 0);
    w.high.assign(spatial, 0);
  } else {
    const std::vector<int64_t> pads = n.per_dim("pads", 2 * spatial, 0, 0);
    w.low.assign(pads.begin(), pads.begin() + static_cast<int64_t>(spatial));
    w.high.assign(pads.begin() + static_cast<int64_t>(spatial), pads.end());
  }
  std::vector<Value> operands = {n.value(0), n.value(1)};
  if (n.has(2)) operands.push_back(n.value(2));
  return n.set(0, n.build("conv_transpose", operands,
                          {{"strides", w.strides},
                           {"pad_low", w.low},
                           {"pad_high", w.high},
                           {"dilation", w.dilations},
                           {"output_padding", w.more},
                           {"groups", n.integer("group", 1)}}));
}

// ---- Reading at places ----

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

// Places of an image of given extents, moved by a matrix per batch.
bool affine_grid(NodeContext& n) {
  if (!n.arity(2, 2)) return false;
  const bool corners = n.integer("align_corners", 0) != 0;
  const auto size = n.need_numbers(1, "the size");
  if (!size) return false;
  if (size->size() < 4 || size->size() > 5)
    return n.fail("T0713", "its size needs 4 or 5 numbers");
  const std::vector<int64_t> extents(size->begin() + 2, size->end());
  const auto spatial = static_cast<int64_t>(extents.size());
  Dims image;
  for (const int64_t e : extents) {
    if (e < 1) return n.fail("T0713", "one of its extents is not positive");
    image.push_back(n.dim(e));
  }
  const tenon_dtype_t type = n.dtype(0);
  if (!is_float(type)) return n.fail("T0710", "its matrices need floats");
  // The last dim comes first in a place, and 1 stands behind for the shift.
  std::vector<Value> columns;
  Dims column = image;
  column.push_back(n.dim(1));
  for (int64_t d = spatial - 1; d >= 0; --d) {
    const double count = static_cast<double>(extents[d]);
    const double step = !corners ? 2 / count : count > 1 ? 2 / (count - 1) : 0;
    const double first = corners ? -1 : 1 / count - 1;
    Value at = n.build("iota", std::vector<Value>(),
                       {{"shape", image}, {"dim", d}, {"dtype", dtype(type)}});
    if (!at.valid()) return n.ok();
    at = n.build("add", {n.build("mul", {at, n.full_like(at, step)}), n.full_like(at, first)});
    columns.push_back(n.reshape(at, column));
  }
  columns.push_back(n.builder().full(type, column, 1));
  const Value places = n.build("concat", columns, {{"dim", spatial}});
  // [batch, spatial + 1 rows] over [image..., spatial + 1]: batch, rows, image...
  const Value moved = n.build("dot_general", {n.value(0), places},
                              {{"a_contract", {2}}, {"b_contract", {spatial}}});
  std::vector<int64_t> perm = {0};
  for (int64_t d = 0; d < spatial; ++d) perm.push_back(2 + d);
  perm.push_back(1);
  return moved.valid() ? n.set(0, n.transpose(moved, perm)) : n.ok();
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
  const std::vector<int64_t> window = n.per_dim("kernel_shape", spatial, 1, 1),
                             strides = n.per_dim("strides", spatial, 1, 1),
                             pads = n.per_dim("pads", 2 * spatial, 0, 0);
  Dims shape = {x[0], x[1]};
  for (size_t i = 0; i < spatial && n.ok(); ++i) {
    if (!x[i + 2].is_constant()) return n.fail("T0714", "symbolic spatial dims are not supported");
    const int64_t size = n.within_limit(
        static_cast<__int128>(x[i + 2].constant() - 1) * strides[i] + window[i] - pads[i] - pads[spatial + i], "the size of its result");
    if (size < 0) return n.fail("T0713", "its paddings are larger than its result");
    shape.push_back(n.dim(size));
  }
  Value y = n.build("max_unpool", {n.value(0), n.value(1)}, {{"shape", shape}});
  if (!n.has(2)) return n.set(0, y);
  const auto wanted = n.need_numbers(2, "the shape of the result");
  if (!wanted) return false;
  if (wanted->size() != x.size())
    return n.fail("T0713", "its shape needs one number per dim");
  std::vector<int64_t> low(x.size(), 0), high(x.size(), 0);
  for (size_t i = 2; i < x.size(); ++i) {
    if ((*wanted)[i] < 0) return n.fail("T0713", cat("its shape has the negative size ", (*wanted)[i]));
    high[i] = (*wanted)[i] - shape[i].constant();
  }
  return n.set(0, n.build("pad", {y, n.scalar(n.dtype(0), 0)}, {{"low", low}, {"high", high}}));
}

bool col2im(NodeContext& n) {
  if (!n.arity(3, 3)) return false;
  const Extents* image = n.need(1, "the shape of the image");
  const auto block = n.need_numbers(2, "the shape of a block");
  if (image == nullptr || !block) return false;
  const size_t spatial = block->size();
  Dims dims;
  for (const Extent& e : *image) dims.push_back(e.dim(n.graph()));
  const std::vector<int64_t> strides = n.per_dim("strides", spatial, 1, 1),
                             dilation = n.per_dim("dilations", spatial, 1, 1),
                             pads = n.per_dim("pads", 2 * spatial, 0, 0);
  const auto middle = pads.begin() + static_cast<int64_t>(spatial);
  return n.ok() && n.set(0, n.build("col2im", {n.value(0)},
                                    {{"image", dims},
                                     {"window", *block},
                                     {"strides", strides},
                                     {"dilation", dilation},
                                     {"pad_low", std::vector<int64_t>(pads.begin(), middle)},
                                     {"pad_high", std::vector<int64_t>(middle, pads.end())}}));
}

// Paddings of a pool with constant dims: explicit, SAME or VALID, and a last window that may hang
// over where the size is rounded up.
bool pool_pads(NodeContext& n, std::span<const Dim> dims, Transposed* w) {
  const size_t spatial = dims.size();
  const std::string_view kind = n.text("auto_pad", "NOTSET");
  const bool up = n.version() >= 18 && n.integer("ceil_mode", 0) != 0;
  std::vector<int64_t> pads = n.per_dim("pads", 2 * spatial, 0, 0);
  for (size_t i = 0; i < spatial && n.ok(); ++i) {
    const int64_t reach = n.within_limit(static_cast<__int128>(w->size[i] - 1) * w->dilations[i] + 1, "what its window spans");
    w->low.push_back(kind == "NOTSET" ? pads[i] : 0);
    w->high.push_back(kind == "NOTSET" ? pads[spatial + i] : 0);
    const bool same = kind == "SAME_UPPER" || kind == "SAME_LOWER";
    if (!same && !up) continue;
    if (!dims[i].is_constant())
      return n.fail("T0714", "auto_pad and ceil_mode over symbolic dims are not supported");
    const int64_t in = dims[i].constant();
    if (same) {
      const int64_t count = (in + w->strides[i] - 1) / w->strides[i];
      const int64_t total = std::max<int64_t>(0, (count - 1) * w->strides[i] + reach - in);
      w->low.back() = kind == "SAME_UPPER" ? total / 2 : total - total / 2;
      w->high.back() = total - w->low.back();
    } else {
      const int64_t rest = (in + w->low[i] + w->high[i] - reach) % w->strides[i];
      if (rest > 0) w->high[i] += w->strides[i] - rest;
    }
  }
  return n.ok();
}

bool lp_pool(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const Dims x = n.dims(0);
  if (x.size() < 3) return n.fail("T0713", "its input needs rank 3 or more");
  const double p = n.version() >= 2 ? static_cast<double>(n.integer("p", 2)) : n.number("p", 2);
  Transposed w;
  w.size = n.per_dim("kernel_shape", x.size() - 2, 1, 1);
  w.strides = n.per_dim("strides", x.size() - 2, 1, 1);
  w.dilations = n.version() >= 18 ? n.per_dim("dilations", x.size() - 2, 1, 1)
                                  : std::vector<int64_t>(x.size() - 2, 1);
  if (!n.ok() || !pool_pads(n, std::span(x).subspan(2), &w)) return false;
  return n.set(0, n.build("lp_pool", {n.value(0)},
                          {{"p", p},
                           {"window", w.size},
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

bool center_crop_pad(NodeContext& n) {
  if (!n.arity(2, 2)) return false;
  const auto wanted = n.need_numbers(1, "the shape");
  Resampling r = all_dims(n);
  if (n.has_attribute("axes")) {
    r.axes = n.integers("axes");
    for (int64_t& a : r.axes) a = n.axis(a, n.rank(0));
  }
  if (!n.ok() || !wanted || wanted->size() != r.axes.size())
    return n.fail("T0713", "its shape needs one number per axis");
  const Dims x = n.dims(0);
  std::vector<int64_t> low(x.size(), 0), high(x.size(), 0);
  for (size_t i = 0; i < r.axes.size(); ++i) {
    const Dim from = x[r.axes[i]];
    if (!from.is_constant()) return n.fail("T0714", "symbolic dims are not supported");
    if ((*wanted)[i] < 0) return n.fail("T0713", cat("its shape has the negative size ", (*wanted)[i]));
    // What is odd is cut, or added, behind.
    const int64_t more = (*wanted)[i] - from.constant();
    const int64_t before = more >= 0 ? more / 2 : -(-more / 2);
    low[r.axes[i]] = before;
    high[r.axes[i]] = more - before;
  }
  return n.set(
      0, n.build("pad", {n.value(0), n.scalar(n.dtype(0), 0)}, {{"low", low}, {"high", high}}));
}

// ---- Normalizations by length or by all ----

bool lp_normalization(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const int64_t axis = n.axis(n.integer("axis", -1), n.rank(0));
  const double p = static_cast<double>(n.integer("p", 2));
  const Value x = n.value(0);
  if (!n.ok() || !x.valid()) return n.ok();
  Dims kept = n.dims(0);
  kept[axis] = n.dim(1);
  const Value length = n.broadcast_to(
      n.reshape(n.build("norm", {x}, {{"dims", {axis}}, {"p", p}}), kept), n.dims(0));
  if (!length.valid()) return n.ok();
  // What has no length stays 0.
  const Value none = n.build("compare", {length, n.full_like(length, 0)}, {{"direction", 0}});
  return n.set(0, n.build("select", {none, n.full_like(x, 0), n.build("div", {x, length})}));
}

bool mean_variance(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  std::vector<int64_t> axes =
      n.has_attribute("axes") ? n.integers("axes") : std::vector<int64_t>{0, 2, 3};
  axes = n.axes(axes, n.rank(0));
  const Value x = n.value(0);
  if (!n.ok() || !x.valid()) return n.ok();
  Dims kept = n.dims(0);
  for (const int64_t a : axes) kept[a] = n.dim(1);
  const auto whole = [&](Value v) { return n.broadcast_to(n.reshape(v, kept), n.dims(0)); };
  const Value mean = whole(n.build("mean", {x}, {{"dims", axes}}));
  const Value std = whole(n.build("std", {x}, {{"dims", axes}}));
  if (!std.valid()) return n.ok();
  return n.set(0, n.build("div", {n.build("sub", {x, mean}),
                                  n.build("add", {std, n.full_like(std, 1e-9)})}));
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"Upsample", 7, upsample},
    {"Resize", 10, upsample},
    {"Resize", 11, resize},
    {"ConvTranspose", 1, conv_transpose},
    {"GridSample", 16, grid_sample},
    {"AffineGrid", 20, affine_grid},
    {"RoiAlign", 10, roi_align},
    {"MaxUnpool", 9, max_unpool},
    {"Col2Im", 18, col2im},
    {"LpPool", 1, lp_pool},
    {"GlobalLpPool", 1, global_lp_pool},
    {"CenterCropPad", 18, center_crop_pad},
    {"LpNormalization", 1, lp_normalization},
    {"MeanVarianceNormalization", 9, mean_variance},
});

}  // namespace

std::span<const OpImporter> vision_importers() {
  return kTable;
}

}  // namespace tenon::onnx
