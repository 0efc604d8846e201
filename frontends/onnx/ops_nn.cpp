// Contractions, convolutions, pools and normalizations.
#include <algorithm>
#include <array>

#include "importer.h"

namespace tenon::onnx {
namespace {

// ---- MatMul, Gemm ----

bool matmul(NodeContext& n) {
  if (!n.arity(2, 2) || !n.same_types()) return false;
  if (n.rank(0) < 1 || n.rank(1) < 1) return n.fail("T0713", "its inputs need rank 1 or more");
  const Dim inner = n.dims(1)[n.rank(1) == 1 ? 0 : n.rank(1) - 2];
  if (!n.require_equal(n.dims(0).back(), inner, "the inner dims")) return false;
  // Leading dims of 1 that only one side has are broadcast by matmul itself; others are made equal
  // here.
  return n.set(0, n.build("matmul", {n.value(0), n.value(1)}));
}

Value scaled(NodeContext& n, Value x, double factor) {
  return factor == 1.0 || !x.valid() ? x : n.build("mul", {x, n.full_like(x, factor)});
}

// The bias as linear takes it: one number per column. Invalid when C varies by row.
Value column_bias(NodeContext& n, Dim columns) {
  const Dims c = n.dims(2);
  for (size_t i = 0; i + 1 < c.size(); ++i) {
    if (!c[i].is(1)) return Value();
  }
  if (c.empty() || c.back().is(1)) return n.broadcast_to(n.reshape(n.value(2), {}), {columns});
  if (!n.require_equal(c.back(), columns, "the last dims of its product and of C")) return Value();
  return n.reshape(n.value(2), {c.back()});
}

bool gemm(NodeContext& n) {
  const double alpha = n.number("alpha", 1.0), beta = n.number("beta", 1.0);
  const bool trans_a = n.integer("transA", 0) != 0, trans_b = n.integer("transB", 0) != 0;
  if (!n.arity(2, 3) || !n.same_types()) return false;
  if (n.version() < 7) n.integer("broadcast", 0);
  if (n.rank(0) != 2 || n.rank(1) != 2) return n.fail("T0713", "its first two inputs need rank 2");
  if (n.has(2) && n.rank(2) > 2) return n.fail("T0713", "its third input needs rank 2 or less");
  if (!n.require_equal(n.dims(0)[trans_a ? 0 : 1], n.dims(1)[trans_b ? 1 : 0], "the inner dims"))
    return false;
  const Value a = trans_a ? n.transpose(n.value(0), {1, 0}) : n.value(0);
  const Dim rows = n.dims(0)[trans_a ? 1 : 0], columns = n.dims(1)[trans_b ? 0 : 1];
  if (alpha == 1.0) {
    const Value bias = n.has(2) && beta != 0 ? column_bias(n, columns) : Value();
    if (!n.ok()) return false;
    if (bias.valid()) {
      return n.set(0, n.build("linear", {a, n.value(1), scaled(n, bias, beta)},
                              {{"transpose_w", trans_b ? 1 : 0}}));
    }
  }
  const Value product =
      scaled(n, n.build("linear", {a, n.value(1)}, {{"transpose_w", trans_b ? 1 : 0}}), alpha);
  if (!n.has(2) || beta == 0) return n.set(0, product);
  return n.set(
      0, n.build("add", {product, scaled(n, n.broadcast_to(n.value(2), {rows, columns}), beta)}));
}

// ---- Windows of Conv and the pools ----

struct Window {
  std::vector<int64_t> size, strides, dilations, low, high;
};

// Elements that a window spans along dim i; 0 and a failure beyond the limit.
int64_t span(NodeContext& n, const Window& w, size_t i) {
  return n.within_limit(static_cast<__int128>(w.dilations[i]) * (w.size[i] - 1) + 1, "what its window spans");
}

void explicit_pads(NodeContext& n, size_t spatial, Window* w) {
  const std::vector<int64_t> pads = n.per_dim("pads", 2 * spatial, 0, 0);
  const auto middle = pads.begin() + static_cast<int64_t>(spatial);
  w->low.assign(pads.begin(), middle);
  w->high.assign(middle, pads.end());
}

// SAME: as many outputs as inputs over the stride, the odd element of padding at the end (UPPER) or
// the beginning.
bool same_pads(NodeContext& n, bool upper, std::span<const Dim> dims, Window* w) {
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t total = span(n, *w, i) - 1;
    if (!n.ok()) return false;
    if (w->strides[i] != 1) {
      if (!dims[i].is_constant())
        return n.fail("T0714", "auto_pad over symbolic dims with strides is not supported");
      const int64_t in = dims[i].constant();
      const int64_t rest = in % w->strides[i];
      total = std::max<int64_t>(0, total + 1 - (rest == 0 ? w->strides[i] : rest));
    }
    const int64_t less = total / 2;
    w->low.push_back(upper ? less : total - less);
    w->high.push_back(upper ? total - less : less);
  }
  return true;
}

bool pads(NodeContext& n, std::span<const Dim> dims, Window* w) {
  const std::string_view kind = n.text("auto_pad", "NOTSET");
  if (kind == "NOTSET") {
    explicit_pads(n, dims.size(), w);
    return n.ok();
  }
  n.integers("pads");  // some exporters write zeros beside auto_pad
  if (kind == "VALID") {
    w->low.assign(dims.size(), 0);
    w->high.assign(dims.size(), 0);
    return true;
  }
  if (kind != "SAME_UPPER" && kind != "SAME_LOWER") {
    return n.fail("T0708",
                  "attribute 'auto_pad' is none of NOTSET, SAME_UPPER, SAME_LOWER and VALID");
  }
  return same_pads(n, kind == "SAME_UPPER", dims, w);
}

// Ours would give nothing for a window that is larger than what it slides over; ONNX has no such convolution or pool. Where the size
// is symbolic the runs check it.
bool fits(NodeContext& n, std::span<const Dim> dims, const Window& w) {
  const tenon_host_graph_t& api = graph_api();
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t need = span(n, w, i);
    if (!n.ok()) return false;
    const int64_t least = need - w.low[i] - w.high[i];
    if (!dims[i].is_constant() && least > 0 &&
        api.symbol_assert(api.self, n.graph(), TENON_REL_LE, n.dim(least).raw(), dims[i].raw()) != TENON_OK) {
      return n.fail("T0713", cat("its window spans ", need, " elements, and the dim it slides over is always smaller"));
    }
    if (dims[i].is_constant() && need > dims[i].constant() + w.low[i] + w.high[i]) {
      return n.fail("T0713", cat("its window spans ", need, " elements of a dim that has ",
                                 dims[i].constant(), " and ", w.low[i] + w.high[i], " of padding"));
    }
  }
  return true;
}

// ---- Conv ----

bool conv(NodeContext& n) {
  if (!n.arity(2, 3) || !n.same_types()) return false;
  const Dims x = n.dims(0), w_dims = n.dims(1);
  if (x.size() < 3 || w_dims.size() != x.size()) {
    return n.fail("T0713", cat("its inputs have the ranks ", x.size(), " and ", w_dims.size(),
                               ", and need one rank of 3 or more"));
  }
  const size_t spatial = x.size() - 2;
  const int64_t groups = n.integer("group", 1);
  if (groups < 1)
    return n.fail("T0708", cat("attribute 'group' is ", groups, ", and must be positive"));
  if (w_dims[0].is_constant() && w_dims[0].constant() % groups != 0) {
    return n.fail("T0713", cat("its ", w_dims[0].constant(), " filters cannot be divided into ",
                               groups, " groups"));
  }
  if (!n.require_equal(x[1], w_dims[1] * n.dim(groups),
                       "the channels of its input and of its filters"))
    return false;
  Window w;
  for (size_t i = 0; i < spatial; ++i) {
    if (!w_dims[i + 2].is_constant())
      return n.fail("T0714", "filters of symbolic size are not supported");
    w.size.push_back(w_dims[i + 2].constant());
    if (w.size.back() < 1) return n.fail("T0713", "its filters have a dim of 0");
  }
  if (n.has_attribute("kernel_shape") && n.integers("kernel_shape") != w.size) {
    return n.fail("T0708", "attribute 'kernel_shape' differs from the shape of its filters");
  }
  w.strides = n.per_dim("strides", spatial, 1, 1);
  w.dilations = n.per_dim("dilations", spatial, 1, 1);
  const std::span<const Dim> dims = std::span(x).subspan(2);
  if (!n.ok() || !pads(n, dims, &w) || !fits(n, dims, w)) return false;
  if (n.has(2) && (n.rank(2) != 1 || !n.require_equal(n.dims(2)[0], w_dims[0],
                                                      "the numbers of biases and of filters"))) {
    return n.fail("T0713", "its bias needs rank 1");
  }
  std::vector<Value> operands = {n.value(0), n.value(1)};
  if (n.has(2)) operands.push_back(n.value(2));
  return n.set(0, n.build("conv_bias", operands,
                          {{"strides", w.strides},
                           {"pad_low", w.low},
                           {"pad_high", w.high},
                           {"w_dilation", w.dilations},
                           {"groups", groups}}));
}

// ---- Pools ----

// Rounding up adds a last window that hangs over the end, unless it would begin beyond the data and
// the leading padding.
bool round_up(NodeContext& n, std::span<const Dim> dims, Window* w, bool* grown) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (w->strides[i] == 1) continue;
    if (!dims[i].is_constant())
      return n.fail("T0714", "ceil_mode over symbolic dims is not supported");
    const int64_t in = dims[i].constant(), covered = in + w->low[i] + w->high[i],
                  need = span(n, *w, i);
    int64_t windows = (covered - need + w->strides[i] - 1) / w->strides[i] + 1;
    if ((windows - 1) * w->strides[i] >= in + w->low[i]) --windows;
    const int64_t more = (windows - 1) * w->strides[i] + need - covered;
    if (more > 0) {
      w->high[i] += more;
      *grown = true;
    }
  }
  return true;
}

// The place of each largest element in the whole input; with storage_order 1, each image counts
// its columns first.
bool pool_with_indices(NodeContext& n, const Window& w, bool columns_first) {
  const Dims x = n.dims(0);
  const auto whole = [](const std::vector<int64_t>& list, int64_t neutral) {
    std::vector<int64_t> out(2, neutral);
    out.insert(out.end(), list.begin(), list.end());
    return out;
  };
  const Value in = n.value(0);
  if (!n.ok() || !in.valid()) return n.ok();
  const std::vector<Value> operands = {in};
  const std::vector<int64_t> window = whole(w.size, 1), strides = whole(w.strides, 1),
                             low = whole(w.low, 0), high = whole(w.high, 0),
                             dilation = whole(w.dilations, 1);
  const std::vector<Attr> attrs = {Attr("window", window), Attr("strides", strides),
                                   Attr("pad_low", low), Attr("pad_high", high),
                                   Attr("dilation", dilation)};
  const Node node = n.builder().build_node("window_argmax", operands, attrs);
  Value at = node.result(1);
  if (columns_first && at.valid()) {
    if (x.size() != 4 || !x[2].is_constant() || !x[3].is_constant())
      return n.fail("T0714", "column-major indices need images of constant size");
    const Dims shape = at.dims();
    const auto number = [&](int64_t v) {
      return n.builder().splat(n.builder().scalar_int(TENON_I64, v), shape);
    };
    const int64_t rows = x[2].constant(), columns = x[3].constant();
    const int64_t image = n.within_limit(static_cast<__int128>(rows) * columns, "what an image holds");
    if (!n.ok()) return false;
    const Value inside = n.build("rem", {at, number(image)});
    const Value column = n.build("rem", {inside, number(columns)});
    const Value row = n.build("div", {inside, number(columns)});
    at = n.build("add", {n.build("sub", {at, inside}),
                         n.build("add", {n.build("mul", {column, number(rows)}), row})});
  }
  return n.set(0, node.result(0)) && n.set(1, at);
}

bool pool(NodeContext& n) {
  const bool average = n.op() == "AveragePool";
  if (!n.arity(1, 1, 2)) return false;
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
  const int64_t count_pad = average ? n.integer("count_include_pad", 0) : 0;
  const bool columns_first = !average && n.integer("storage_order", 0) != 0;
  const std::span<const Dim> dims = std::span(x).subspan(2);
  if (!n.ok() || !pads(n, dims, &w) || !fits(n, dims, w)) return false;
  bool grown = false;
  if (n.integer("ceil_mode", 0) != 0 && !round_up(n, dims, &w, &grown)) return false;
  if (grown && count_pad != 0)
    return n.fail("T0714", "ceil_mode together with count_include_pad is not supported");
  if (average) {
    return n.set(0, n.build("avg_pool", {n.value(0)},
                            {{"window", w.size},
                             {"strides", w.strides},
                             {"pad_low", w.low},
                             {"pad_high", w.high},
                             {"dilation", w.dilations},
                             {"count_pad", count_pad}}));
  }
  if (n.wants(1)) return pool_with_indices(n, w, columns_first);
  return n.set(0, n.build("max_pool", {n.value(0)},
                          {{"window", w.size},
                           {"strides", w.strides},
                           {"pad_low", w.low},
                           {"pad_high", w.high},
                           {"dilation", w.dilations}}));
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
  const double momentum = n.number("momentum", 0.9f);  // matters in training only
  n.integers("consumed_inputs");
  if (n.version() < 7) n.integer("is_test", 1);
  if (!n.arity(5, 5, 5)) return false;
  const bool training = n.integer("training_mode", 0) != 0;
  if (n.version() < 9 && n.integer("spatial", 1) == 0)
    return n.fail("T0714", "statistics for each activation are not supported");
  if (n.rank(0) < 2) return n.fail("T0713", "its input needs rank 2 or more");
  std::vector<Value> operands = {n.value(0)};
  for (size_t i = 1; i < 5; ++i) {
    if (n.rank(i) != 1 ||
        !n.require_equal(n.dims(i)[0], n.dims(0)[1], "the numbers of statistics and of channels")) {
      return n.fail("T0713", "its statistics need rank 1");
    }
    operands.push_back(n.convert(n.value(i), n.dtype(0)));
  }
  if (!training) return n.set(0, n.build("batch_norm", operands, {{"epsilon", epsilon}}));
  if (!n.ok()) return false;
  const std::vector<Attr> attrs = {Attr("epsilon", epsilon), Attr("momentum", momentum)};
  const Node node = n.builder().build_node("batch_norm_train", operands, attrs);
  for (size_t i = 1; i < 3; ++i) {
    if (n.wants(i)) n.set(i, n.convert(node.result(static_cast<uint32_t>(i)), n.dtype(i + 2)));
  }
  return n.set(0, node.result(0));
}

// The further outputs: the mean and the inverse of the standard deviation, dims kept.
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

bool layer_norm(NodeContext& n) {
  const bool rms = n.op() == "RMSNormalization";
  const double epsilon = n.number("epsilon", 1e-5f);
  n.integer("stash_type", 1);
  if (!n.arity(2, rms ? 2 : 3, rms ? 1 : 3)) return false;
  const int64_t axis = n.axis(n.integer("axis", -1), n.rank(0));
  if (!n.ok()) return false;
  const Dims normalized(n.dims(0).begin() + axis, n.dims(0).end());
  if (!rms && (n.wants(1) || n.wants(2))) layer_statistics(n, axis, epsilon);
  std::vector<Value> operands = {n.value(0)};
  for (size_t i = 1; i < n.input_count(); ++i) {
    if (n.has(i)) operands.push_back(n.broadcast_to(n.convert(n.value(i), n.dtype(0)), normalized));
  }
  return n.set(
      0, n.build(rms ? "rms_norm" : "layer_norm", operands, {{"dim", axis}, {"epsilon", epsilon}}));
}

bool group_norm(NodeContext& n) {
  const bool instance = n.op() == "InstanceNormalization";
  const double epsilon = n.number("epsilon", 1e-5f);
  n.integer("stash_type", 1);
  if (!n.arity(3, 3)) return false;
  if (n.rank(0) < 2 || !n.dims(0)[1].is_constant())
    return n.fail("T0714", "its channels must be a constant dim");
  const int64_t channels = n.dims(0)[1].constant();
  const int64_t groups = instance ? channels : n.integer("num_groups", 0);
  if (!instance && !n.has_attribute("num_groups"))
    return n.fail("T0708", "attribute 'num_groups' is missing");
  if (groups < 1 || channels % groups != 0)
    return n.fail("T0713", cat(channels, " channels cannot be divided into ", groups, " groups"));
  // Opset 18 had one scale and bias for each group.
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

// Local response normalization: x / (bias + alpha/size * sum of squares over neighbouring
// channels)^beta.
bool lrn(NodeContext& n) {
  const double alpha = n.number("alpha", 1e-4f), beta = n.number("beta", 0.75),
               bias = n.number("bias", 1.0);
  const int64_t size = n.integer("size", 0);
  if (!n.arity(1, 1)) return false;
  if (size < 1 || size > 65536) return n.fail("T0708", "attribute 'size' must be positive");
  if (n.rank(0) < 2) return n.fail("T0713", "its input needs rank 2 or more");
  const Value x = n.value(0);
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
  return n.set(0, n.build("div", {x, n.build("pow", {base, n.full_like(x, beta)})}));
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"MatMul", 1, matmul},
    {"Gemm", 6, gemm},
    {"Conv", 1, conv},
    {"MaxPool", 1, pool},
    {"AveragePool", 1, pool},
    {"GlobalAveragePool", 1, global_pool},
    {"GlobalMaxPool", 1, global_pool},
    {"BatchNormalization", 6, batch_norm},
    {"LayerNormalization", 17, layer_norm},
    {"RMSNormalization", 23, layer_norm},
    {"InstanceNormalization", 6, group_norm},
    {"GroupNormalization", 18, group_norm},
    {"LRN", 1, lrn},
});

}  // namespace

std::span<const OpImporter> nn_importers() {
  return kTable;
}

}  // namespace tenon::onnx
