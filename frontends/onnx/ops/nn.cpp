// Contractions, convolutions, pools and normalisations.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "frontends/onnx/ops/fused.h"
#include "frontends/onnx/ops/quantise/quantise.h"
#include "frontends/onnx/ops/window.h"

namespace tenon::onnx {
namespace {

// ---- MatMul, Gemm ----

bool matmul(NodeContext& n) {
  if (!n.arity(2, 2) || !n.same_types()) return false;
  if (n.rank(0) < 1 || n.rank(1) < 1) return n.fail("T0713", "its inputs need rank 1 or more");
  const Dim inner = n.dims(1)[n.rank(1) == 1 ? 0 : n.rank(1) - 2];
  if (!n.require_equal(n.dims(0).back(), inner, "the inner dims")) return false;
  // matmul broadcasts missing leading dims and leading dims of 1; others must be equal.
  return n.set(0, n.build("matmul", {n.value(0), n.value(1)}));
}

// The bias in the form of linear: one number per column. Invalid if C varies by row.
Value column_bias(NodeContext& n, Dim columns) {
  const Dims c = n.dims(2);
  for (size_t i = 0; i + 1 < c.size(); ++i) {
    if (!c[i].is(1)) return Value();
  }
  if (c.empty() || c.back().is(1)) return n.broadcast_to(n.reshape(n.value(2), {}), {columns});
  if (!n.require_equal(c.back(), columns, "the last dims of its product and of C")) return Value();
  return n.reshape(n.value(2), {c.back()});
}

}  // namespace

Value general_product(NodeContext& n) {
  const double alpha = n.number("alpha", 1.0), beta = n.number("beta", 1.0);
  const bool trans_a = n.integer("transA", 0) != 0, trans_b = n.integer("transB", 0) != 0;
  if (!n.arity(2, 3) || !n.same_types()) return Value();
  if (n.version() < 7 && n.op() == "Gemm") n.integer("broadcast", 0);
  if (n.rank(0) != 2 || n.rank(1) != 2) return refuse(n, "its first two inputs need rank 2");
  if (is_int(n.dtype(0)) && (alpha != std::trunc(alpha) || beta != std::trunc(beta)))
    return refuse(n, "attributes 'alpha' and 'beta' of integers must be whole");
  if (n.has(2) && n.rank(2) > 2) return refuse(n, "its third input needs rank 2 or less");
  if (!n.require_equal(n.dims(0)[trans_a ? 0 : 1], n.dims(1)[trans_b ? 1 : 0], "the inner dims"))
    return Value();
  const Value a = trans_a ? n.transpose(n.value(0), {1, 0}) : n.value(0);
  const Dim rows = n.dims(0)[trans_a ? 1 : 0], columns = n.dims(1)[trans_b ? 0 : 1];
  if (alpha == 1.0) {
    const Value bias = n.has(2) && beta != 0 ? column_bias(n, columns) : Value();
    if (!n.ok()) return Value();
    if (bias.valid()) {
      return n.build("linear", {a, n.value(1), scaled(n, bias, beta)},
                     {{"transpose_w", trans_b ? 1 : 0}});
    }
  }
  const Value product =
      scaled(n, n.build("linear", {a, n.value(1)}, {{"transpose_w", trans_b ? 1 : 0}}), alpha);
  if (!n.has(2) || beta == 0) return product;
  return n.build("add", {product, scaled(n, n.broadcast_to(n.value(2), {rows, columns}), beta)});
}

namespace {

bool gemm(NodeContext& n) {
  return n.arity(2, 3) && n.same_types() && n.set(0, general_product(n));
}

// ---- Conv ----

bool check_bias(NodeContext& n, Dim filters) {
  if (!n.has(2)) return true;
  if (n.rank(2) != 1) return n.fail("T0713", "its bias needs rank 1");
  return n.require_equal(n.dims(2)[0], filters, "the numbers of biases and of filters");
}

}  // namespace

Value convolution(NodeContext& n, Value x, Value w) {
  if (!n.ok() || !x.valid() || !w.valid()) return Value();
  Convolution c;
  if (!read_convolution(n, x.dims(), w.dims(), &c) || !check_bias(n, w.dims()[0])) return Value();
  std::vector<Value> operands = {bordered(n, x, &c.window, n.scalar(n.dtype(0), 0)), w};
  if (n.has(2)) operands.push_back(n.value(2));
  return n.build("conv_bias", operands,
                 {{"strides", c.window.strides},
                  {"pad_low", c.window.low},
                  {"pad_high", c.window.high},
                  {"w_dilation", c.window.dilations},
                  {"groups", c.groups}});
}

namespace {

bool conv(NodeContext& n) {
  return n.arity(2, 3) && n.same_types() && n.set(0, convolution(n, n.value(0), n.value(1)));
}

// ---- Pools ----

Value slide(NodeContext& n, std::string_view op, Value x, const Window& w,
            std::initializer_list<Attr> more = {}) {
  std::vector<Attr> attrs = {{"window", w.size},
                             {"strides", w.strides},
                             {"pad_low", w.low},
                             {"pad_high", w.high},
                             {"dilation", w.dilations}};
  attrs.insert(attrs.end(), more.begin(), more.end());
  return n.ok() && x.valid() ? n.builder().build_node(op, std::vector<Value>{x}, attrs).result(0)
                             : Value();
}
Value window_sum(NodeContext& n, Value x, const Window& w) {
  return n.build("reduce_window", {x},
                 {{"window", whole(w.size, 1)},
                  {"strides", whole(w.strides, 1)},
                  {"pad_low", whole(w.low, 0)},
                  {"pad_high", whole(w.high, 0)},
                  {"dilation", whole(w.dilations, 1)}});
}

// Converts row-major positions in an image to column-major ones.
Value by_columns(NodeContext& n, Value at, Dim rows, Dim columns) {
  const auto number = [&](Dim d) { return n.broadcast_to(n.number_of(Extent::of(d)), at.dims()); };
  const Value inside = n.build("rem", {at, number(rows * columns)});
  const Value column = n.build("rem", {inside, number(columns)}),
              row = n.build("div", {inside, number(columns)});
  return n.build("add", {n.build("sub", {at, inside}),
                         n.build("add", {n.build("mul", {column, number(rows)}), row})});
}

// The position of each maximum in the whole input; with storage_order 1, each image counts its
// columns first. If the first window begins at a data-dependent position, windows at all positions
// are computed first, so that padding before x is not mistaken for part of it.
bool pool_with_indices(NodeContext& n, Window w, bool columns_first) {
  const Dims x = n.dims(0);
  const Value in = n.value(0);
  if (!n.ok() || !in.valid()) return n.ok();
  Dims start(x.size(), n.dim(0)), limit;
  std::vector<int64_t> stride(x.size(), 1);
  for (size_t i = 0; i < w.skip.size(); ++i) {
    if (w.skip[i].valid()) stride[i + 2] = std::exchange(w.strides[i], 1);
  }
  const std::vector<int64_t> window = whole(w.size, 1), strides = whole(w.strides, 1),
                             low = whole(w.low, 0), high = whole(w.high, 0),
                             dilation = whole(w.dilations, 1);
  const std::vector<Value> operands = {in};
  const std::vector<Attr> attrs = {Attr("window", window), Attr("strides", strides),
                                   Attr("pad_low", low), Attr("pad_high", high),
                                   Attr("dilation", dilation)};
  const Node node = n.builder().build_node("window_argmax", operands, attrs);
  Value most = node.result(0), at = node.result(1);
  if (!at.valid()) return n.ok();
  if (!w.skip.empty()) {
    limit = at.dims();
    for (size_t i = 0; i < w.skip.size(); ++i) {
      if (!w.skip[i].valid()) continue;
      start[i + 2] = w.skip[i];
      limit[i + 2] = w.skip[i] + (w.count[i] - n.dim(1)) * n.dim(stride[i + 2]) + n.dim(1);
    }
    most = n.build("slice", {most}, {{"start", start}, {"limit", limit}, {"stride", stride}});
    at = n.build("slice", {at}, {{"start", start}, {"limit", limit}, {"stride", stride}});
  }
  if (columns_first) {
    if (x.size() != 4) return n.fail("T0714", "column-major indices need images of two dims");
    at = by_columns(n, at, x[2], x[3]);
  }
  return n.set(0, most) && n.set(1, at);
}

// The mean where avg_pool's own paddings do not suffice: the sum of each window divided by the
// number of elements of x in it. With count_pad, paddings count too, except those that rounding up
// added.
Value mean_of_windows(NodeContext& n, Value x, Window w, bool count_pad) {
  const tenon_dtype_t type = x.dtype(), wide = type == TENON_F64 ? type : tenon_dtype_t{TENON_F32};
  const Value zero = n.scalar(wide, 0);
  Window counted = w;
  Dims shape = x.dims();
  if (count_pad) {
    counted.high = w.more.empty() ? std::vector<int64_t>(w.size.size(), 0) : w.more;
    counted.low.assign(w.size.size(), 0);
    for (size_t i = 0; i < w.size.size(); ++i)
      shape[i + 2] = shape[i + 2] + n.dim(w.low[i] + w.high[i] - counted.high[i]);
  }
  const Value ones = n.builder().full(wide, shape, 1);
  const Value sum = window_sum(n, bordered(n, n.convert(x, wide), &w, zero), w);
  const Value count = window_sum(n, count_pad ? ones : bordered(n, ones, &counted, zero), counted);
  return n.convert(n.build("div", {sum, count}), type);
}

bool average_pool(NodeContext& n, Window w, bool count_pad) {
  const Value x = n.value(0);
  if (!n.ok() || !x.valid()) return n.ok();
  const bool data_dependent = !w.skip.empty();
  const bool grown = std::any_of(w.more.begin(), w.more.end(), [](int64_t m) { return m > 0; });
  if (count_pad ? grown && !data_dependent : data_dependent)
    return n.set(0, mean_of_windows(n, x, w, count_pad));
  const Value in = bordered(n, x, &w, n.scalar(n.dtype(0), 0));
  return n.set(0, slide(n, "avg_pool", in, w, {{"count_pad", int64_t{count_pad}}}));
}

Value lowest(NodeContext& n, tenon_dtype_t type) {
  if (is_float(type)) return n.scalar(type, -std::numeric_limits<double>::infinity());
  return n.builder().scalar_int(type,
                                is_in(type, kSigned) ? INT64_MIN >> (64 - dtype_bits(type)) : 0);
}

bool pool(NodeContext& n) {
  const bool lp = n.op() == "LpPool", average = n.op() == "AveragePool", most = n.op() == "MaxPool";
  if (!n.arity(1, 1, most ? 2 : 1)) return false;
  const Dims x = n.dims(0);
  if (x.size() < 3)
    return n.fail("T0713", cat("its input has rank ", x.size(), ", and needs 3 or more"));
  const size_t spatial = x.size() - 2;
  if (!n.has_attribute("kernel_shape"))
    return n.fail("T0708", "attribute 'kernel_shape' is missing");
  Window w;
  w.size = n.per_dim("kernel_shape", spatial, 1, 1);
  w.strides = n.per_dim("strides", spatial, 1, 1);
  w.dilations = n.per_dim("dilations", spatial, 1, 1);
  const bool count_pad = average && n.integer("count_include_pad", 0) != 0;
  const bool columns_first = most && n.integer("storage_order", 0) != 0;
  const double p = !lp                ? 0
                   : n.version() >= 2 ? static_cast<double>(n.integer("p", 2))
                                      : n.number("p", 2);
  const std::span<const Dim> dims = std::span(x).subspan(2);
  if (!n.ok() || !pads(n, dims, &w)) return false;
  if ((n.integer("ceil_mode", 0) != 0 && !round_up(n, dims, &w)) || !fits(n, dims, w)) return false;
  if (average) return average_pool(n, std::move(w), count_pad);
  if (most && n.wants(1)) return pool_with_indices(n, std::move(w), columns_first);
  const Value in =
      bordered(n, n.value(0), &w, lp ? n.scalar(n.dtype(0), 0) : lowest(n, n.dtype(0)));
  return n.set(0, lp ? slide(n, "lp_pool", in, w, {{"p", p}}) : slide(n, "max_pool", in, w));
}

bool global_pool(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  if (n.rank(0) < 3)
    return n.fail("T0713", cat("its input has rank ", n.rank(0), ", and needs 3 or more"));
  return n.set(
      0, n.build(n.op() == "GlobalMaxPool" ? "global_max_pool" : "global_avg_pool", {n.value(0)}));
}

// ---- Normalizations ----

bool batch_norm(NodeContext& n) {
  const double epsilon = n.number("epsilon", 1e-5f);
  const double momentum = n.number("momentum", 0.9f);  // only matters in training
  n.integers("consumed_inputs");
  if (n.version() < 7 && n.integer("is_test", 0) == 0)
    return n.fail("T0714", "training mode is not supported; attribute 'is_test' is 0");
  if (!n.arity(5, 5, 5)) return false;
  const bool training = n.integer("training_mode", 0) != 0;
  if (n.version() < 9 && n.integer("spatial", 1) == 0)
    return n.fail("T0714", "statistics for each activation are not supported");
  if (n.rank(0) < 2) return n.fail("T0713", "its input needs rank 2 or more");
  // Parameters of a wider type keep their digits.
  bool wider = false;
  for (size_t i = 1; i < 5; ++i) wider |= n.dtype(i) != n.dtype(0);
  const Value x = wider ? n.wide(n.value(0)) : n.value(0);
  std::vector<Value> operands = {x};
  for (size_t i = 1; i < 5; ++i) {
    if (n.rank(i) != 1 ||
        !n.require_equal(n.dims(i)[0], n.dims(0)[1], "the numbers of statistics and of channels")) {
      return n.fail("T0713", "its statistics need rank 1");
    }
    operands.push_back(n.convert(n.value(i), x.dtype()));
  }
  if (!training)
    return n.set(0, n.convert(n.build("batch_norm", operands, {{"epsilon", epsilon}}), n.dtype(0)));
  if (!n.ok()) return false;
  const std::vector<Attr> attrs = {Attr("epsilon", epsilon), Attr("momentum", momentum)};
  const Node node = n.builder().build_node("batch_norm_train", operands, attrs);
  for (size_t i = 1; i < 3; ++i) {
    if (n.wants(i)) n.set(i, n.convert(node.result(static_cast<uint32_t>(i)), n.dtype(i + 2)));
  }
  return n.set(0, n.convert(node.result(0), n.dtype(0)));
}

// The additional outputs: the mean and the inverse of the standard deviation, with dims kept.
void layer_statistics(NodeContext& n, int64_t axis, double epsilon) {
  std::vector<int64_t> dims;
  Dims kept = n.dims(0);
  for (int64_t i = axis; i < n.rank(0); ++i) {
    dims.push_back(i);
    kept[i] = n.dim(1);
  }
  const Value x = n.convert(n.value(0), TENON_F32);
  n.set(1, n.reshape(n.build("mean", {x}, {{"dims", dims}}), kept));
  const Value var = n.build("var", {x}, {{"dims", dims}});
  if (!var.valid()) return;
  n.set(2, n.reshape(n.build("rsqrt", {n.build("add", {var, n.full_like(var, epsilon)})}), kept));
}

// Norms compute in f32, or in f64 for f64. Another type is asked for by name.
bool check_stash_type(NodeContext& n) {
  const int64_t type = n.integer("stash_type", kFloat);
  if (type == kFloat || (type == kDouble && n.dtype(0) == TENON_F64 && n.output_count() == 1))
    return n.ok();
  return n.fail("T0714", cat("it computes in the element type ", type,
                             " of attribute 'stash_type', which is not supported; 1 is"));
}

bool layer_norm(NodeContext& n) {
  const bool rms = n.op() == "RMSNormalization";
  const double epsilon = n.number("epsilon", 1e-5f);
  if (!check_stash_type(n) || !n.arity(2, rms ? 2 : 3, rms ? 1 : 3)) return false;
  const int64_t axis = n.axis(n.integer("axis", -1), n.rank(0));
  if (!n.ok()) return false;
  const Dims normalized(n.dims(0).begin() + axis, n.dims(0).end());
  if (!rms && (n.wants(1) || n.wants(2))) layer_statistics(n, axis, epsilon);
  // The scale of RMSNormalization may have another type, whose digits are kept.
  const bool same = n.dtype(1) == n.dtype(0);
  const Value x = same ? n.value(0) : n.wide(n.value(0));
  std::vector<Value> operands = {x};
  for (size_t i = 1; i < n.input_count(); ++i) {
    if (n.has(i)) operands.push_back(n.broadcast_to(n.convert(n.value(i), x.dtype()), normalized));
  }
  const Value y =
      n.build(rms ? "rms_norm" : "layer_norm", operands, {{"dim", axis}, {"epsilon", epsilon}});
  return n.set(0, n.convert(y, n.dtype(0)));
}

bool group_norm(NodeContext& n) {
  const bool instance = n.op() == "InstanceNormalization";
  const double epsilon = n.number("epsilon", 1e-5f);
  if (!check_stash_type(n) || !n.arity(3, 3)) return false;
  if (n.rank(0) < 2 || !n.dims(0)[1].is_constant())
    return n.fail("T0714", "its channels must be a constant dim");
  const int64_t channels = n.dims(0)[1].constant();
  const int64_t groups = instance ? channels : n.integer("num_groups", 0);
  if (!instance && !n.has_attribute("num_groups"))
    return n.fail("T0708", "attribute 'num_groups' is missing");
  if (groups < 1 || channels % groups != 0)
    return n.fail("T0713", cat(channels, " channels cannot be divided into ", groups, " groups"));
  // Opset 18 has one scale and one bias per group.
  const auto per_channel = [&](size_t i) {
    const Value v = n.convert(n.value(i), n.dtype(0));
    if (instance || n.version() >= 21) return v;
    const Value wide = n.broadcast_to(n.reshape(v, {n.dim(groups), n.dim(1)}),
                                      {n.dim(groups), n.dim(channels / groups)});
    return n.reshape(wide, {n.dim(channels)});
  };
  return n.set(0, n.build("group_norm", {n.value(0), per_channel(1), per_channel(2)},
                          {{"groups", groups}, {"epsilon", epsilon}}));
}

// Local response normalisation: x / (bias + alpha/size * sum of squares over neighbouring
// channels)^beta.
bool lrn(NodeContext& n) {
  const double alpha = n.number("alpha", 1e-4f), beta = n.number("beta", 0.75),
               bias = n.number("bias", 1.0);
  const int64_t size = n.integer("size", 0);
  if (!n.arity(1, 1)) return false;
  if (size < 1 || size > 65536) return n.fail("T0708", "attribute 'size' must be positive");
  if (n.rank(0) < 2) return n.fail("T0713", "its input needs rank 2 or more");
  const Value x = n.wide(n.value(0));
  std::vector<int64_t> window(n.rank(0), 1), low(n.rank(0), 0), high(n.rank(0), 0);
  window[1] = size;
  low[1] = (size - 1) / 2;
  high[1] = size / 2;
  const Value squares =
      n.build("reduce_window", {n.build("mul", {x, x})},
              {{"kind", "sum"}, {"window", window}, {"pad_low", low}, {"pad_high", high}});
  if (!squares.valid()) return n.ok();
  const Value base =
      n.build("add", {scaled(n, squares, alpha / static_cast<double>(size)), n.full_like(x, bias)});
  const Value y = n.build("div", {x, n.build("pow", {base, n.full_like(x, beta)})});
  return n.set(0, n.convert(y, n.dtype(0)));
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"MatMul", 1, matmul},
    {"Gemm", 6, gemm},
    {"Conv", 1, conv},
    {"MaxPool", 1, pool},
    {"AveragePool", 1, pool},
    {"LpPool", 1, pool},
    {"GlobalAveragePool", 1, global_pool},
    {"GlobalMaxPool", 1, global_pool},
    {"BatchNormalization", 6, batch_norm},
    // ONNX Runtime writes it into models of older opsets.
    {"LayerNormalization", 1, layer_norm},
    {"RMSNormalization", 23, layer_norm},
    {"InstanceNormalization", 6, group_norm},
    {"GroupNormalization", 18, group_norm},
    {"LRN", 1, lrn},
    // Of blocked tensors, which are plain ones here (nchwc.cpp).
    {"MaxPool", 1, pool, "com.microsoft.nchwc"},
    {"AveragePool", 1, pool, "com.microsoft.nchwc"},
    {"GlobalAveragePool", 1, global_pool, "com.microsoft.nchwc"},
    {"GlobalMaxPool", 1, global_pool, "com.microsoft.nchwc"},
});

}  // namespace

std::span<const OpImporter> nn_importers() {
  return kTable;
}

}  // namespace tenon::onnx
