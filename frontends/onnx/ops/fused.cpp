// The fused float ops that ONNX Runtime's optimiser writes, attention apart: products and
// convolutions with activations, gelu in its forms, norms with skip connections, embeddings. Each
// is built from the ops of which it was fused.
#include <algorithm>
#include <array>
#include <limits>

#include "frontends/onnx/ops/fused.h"
#include "frontends/onnx/ops/quantise/quantise.h"

namespace tenon::onnx {

Value sum_of(NodeContext& n, Value a, Value b) {
  const std::vector<Value> same = n.broadcast({a, b});
  return same.size() == 2 ? n.build("add", same) : Value();
}

namespace {

// ---- Activations ----

// Parameters by position: activation_params of FusedConv, activation_alpha to _gamma of FusedGemm.
using Parameters = std::array<std::optional<double>, 3>;

Value clipped(NodeContext& n, Value x, double low, double high) {
  return n.build("clamp", {x}, {{"min", low}, {"max", high}});
}
Value hard_sigmoid(NodeContext& n, Value x, double alpha, double beta) {
  if (!x.valid()) return x;
  return clipped(n, n.build("add", {scaled(n, x, alpha), n.full_like(x, beta)}), 0, 1);
}

Value activated(NodeContext& n, Value x, std::string_view name, const Parameters& p) {
  static constexpr std::pair<std::string_view, std::string_view> kPlain[] = {
      {"Relu", "relu"},         {"Tanh", "tanh"},         {"Sigmoid", "logistic"},
      {"Softplus", "softplus"}, {"Softsign", "softsign"}, {"HardSwish", "hard_swish"}};
  if (!n.ok() || !x.valid() || name.empty()) return x;
  for (const auto& [theirs, ours] : kPlain) {
    if (theirs == name) return n.build(ours, {x});
  }
  if (name == "LeakyRelu") return n.build("leaky_relu", {x}, {{"alpha", p[0].value_or(0.01)}});
  if (name == "Elu") return n.build("elu", {x}, {{"alpha", p[0].value_or(1.0)}});
  if (name == "HardSigmoid") return hard_sigmoid(n, x, p[0].value_or(0.2), p[1].value_or(0.5));
  constexpr double kMost = std::numeric_limits<float>::max();
  if (name == "Clip") return clipped(n, x, p[0].value_or(-kMost), p[1].value_or(kMost));
  return refuse(n, cat("the activation ", quote(name), " is not supported"), "T0714");
}

// ---- Convolutions and products ----

}  // namespace

bool fused_convolution(NodeContext& n, Value x, Value w) {
  Parameters p;
  const std::vector<double> given = n.numbers("activation_params");
  for (size_t i = 0; i < given.size() && i < p.size(); ++i) p[i] = given[i];
  Value y = convolution(n, x, w);
  if (n.has(3)) {
    if (!y.valid() || !n.ok()) return n.ok();
    if (n.rank(3) != static_cast<int64_t>(y.rank()))
      return n.fail("T0713", "what it adds has another rank than its result");
    y = sum_of(n, y, n.value(3));
  }
  return n.set(0, activated(n, y, n.text("activation", ""), p));
}

namespace {

bool fused_conv(NodeContext& n) {
  return n.arity(2, 4) && fused_convolution(n, n.value(0), n.value(1));
}

// Channels last: [batch, spatial..., channels]. Filters are [filters, spatial..., channels], or
// [filters, channels, spatial...] in files of older versions.
bool nhwc_conv(NodeContext& n) {
  if (!n.arity(2, 4)) return false;
  const int64_t rank = n.rank(0);
  if (rank < 3 || n.rank(1) != rank)
    return n.fail("T0713", "its input and filters need one rank of 3 or more");
  std::vector<int64_t> inward = {0, rank - 1}, outward = {0};
  for (int64_t i = 1; i < rank - 1; ++i) inward.push_back(i);
  for (int64_t i = 2; i < rank; ++i) outward.push_back(i);
  outward.push_back(1);
  const Dim channels = n.dims(0).back();
  const bool last = n.dims(1).back() * n.dim(n.integer("group", 1)) == channels;
  const Value w = last ? n.transpose(n.value(1), inward) : n.value(1);
  Value y = convolution(n, n.transpose(n.value(0), inward), w);
  if (!y.valid() || !n.ok()) return n.ok();
  y = n.transpose(y, outward);
  if (n.has(3)) y = sum_of(n, y, n.value(3));
  return n.set(0, activated(n, y, n.text("activation", ""), {}));
}

bool fused_gemm(NodeContext& n) {
  Parameters p;
  static constexpr std::string_view kNames[] = {"activation_alpha", "activation_beta",
                                                "activation_gamma"};
  for (size_t i = 0; i < p.size(); ++i) {
    if (n.has_attribute(kNames[i])) p[i] = n.number(kNames[i], 0);
  }
  return n.set(0, activated(n, general_product(n), n.text("activation", ""), p));
}

// The last two dims swapped; with `batch`, the leading dim first moves after the other leading
// ones.
Value turned(NodeContext& n, Value x, bool swap, bool batch) {
  if (!x.valid() || x.rank() < 2) return x;
  std::vector<int64_t> perm(x.rank());
  for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
  if (batch) std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
  if (swap) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return n.transpose(x, perm);
}

bool fused_matmul(NodeContext& n) {
  if (!n.arity(2, 2) || !n.same_types()) return false;
  if (n.rank(0) < 1 || n.rank(1) < 1) return n.fail("T0713", "its inputs need rank 1 or more");
  const auto operand = [&](size_t i, std::string_view swap, std::string_view batch) {
    return turned(n, n.value(i), n.integer(swap, 0) != 0, n.integer(batch, 0) != 0);
  };
  const Value a = operand(0, "transA", "transBatchA"), b = operand(1, "transB", "transBatchB");
  const double alpha = n.number("alpha", 1);
  if (!n.ok() || !a.valid() || !b.valid()) return n.ok();
  const Dim inner = b.dims()[b.rank() == 1 ? 0 : b.rank() - 2];
  if (!n.require_equal(a.dims().back(), inner, "the inner dims")) return false;
  return n.set(0, scaled(n, n.build("matmul", {a, b}), alpha));
}

// ---- Gelu in its forms ----

bool bias_gelu(NodeContext& n) {
  const bool plain = n.op() == "Gelu", fast = n.op() == "FastGelu";
  if (!n.arity(n.op() == "BiasGelu" ? 2 : 1, plain ? 1 : 2)) return false;
  const Value x = n.has(1) ? sum_of(n, n.value(0), n.value(1)) : n.value(0);
  return n.set(0, n.build(fast ? "gelu_tanh" : "gelu", {x}));
}

bool quick_gelu(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const Value x = n.value(0);
  const Value gate = n.build("logistic", {scaled(n, x, n.number("alpha", 1.702f))});
  return n.set(0, n.build("mul", {x, gate}));
}

// The first half of the last dim times gelu of the second.
bool bias_split_gelu(NodeContext& n) {
  if (!n.arity(2, 2) || n.rank(0) < 1) return false;
  const Value x = sum_of(n, n.value(0), n.value(1));
  if (!n.ok() || !x.valid()) return n.ok();
  const Dim half = n.quotient({x.dims().back()}, {n.dim(2)});
  const auto part = [&](Dim start, Dim limit) {
    Dims starts(x.rank(), n.dim(0)), limits = x.dims();
    starts.back() = start;
    limits.back() = limit;
    return n.build("slice", {x}, {{"start", starts}, {"limit", limits}});
  };
  if (!n.ok()) return false;
  return n.set(
      0, n.build("mul", {part(n.dim(0), half), n.build("gelu", {part(half, x.dims().back())})}));
}

bool bias_add(NodeContext& n) {
  return n.arity(3, 3) && n.set(0, sum_of(n, sum_of(n, n.value(0), n.value(1)), n.value(2)));
}

// Softmax over the dims from `axis` on, as one.
bool bias_softmax(NodeContext& n) {
  if (!n.arity(2, 2)) return false;
  n.integer("is_inner_broadcast", 0);  // follows from the shapes
  const int64_t axis = n.axis(n.integer("axis", 1), n.rank(0));
  const Value x = sum_of(n, n.value(0), n.value(1));
  if (!n.ok() || !x.valid()) return n.ok();
  const Dims d = x.dims();
  Dims flat(d.begin(), d.begin() + axis);
  flat.push_back(n.product(std::span(d).subspan(static_cast<size_t>(axis))));
  const Value y = n.build("softmax", {n.reshape(x, flat)}, {{"dim", axis}});
  return n.set(0, n.reshape(y, d));
}

// ---- Norms ----

// The mean, unless rms, and the inverse of the deviation over the last dims, kept as dims of 1.
void statistics(NodeContext& n, Value x, int64_t axis, double epsilon, bool rms, size_t mean,
                size_t inverse) {
  if (!x.valid() || (!n.wants(mean) && !n.wants(inverse))) return;
  std::vector<int64_t> dims;
  Dims kept = x.dims();
  for (auto i = static_cast<size_t>(axis); i < kept.size(); ++i) {
    dims.push_back(static_cast<int64_t>(i));
    kept[i] = n.dim(1);
  }
  const Value wide = n.convert(x, TENON_F32);
  if (n.wants(mean) && !rms)
    n.set(mean, n.reshape(n.build("mean", {wide}, {{"dims", dims}}), kept));
  const Value spread = rms ? n.build("mean", {n.build("mul", {wide, wide})}, {{"dims", dims}})
                           : n.build("var", {wide}, {{"dims", dims}});
  if (!spread.valid()) return;
  const Value root = n.build("rsqrt", {n.build("add", {spread, n.full_like(spread, epsilon)})});
  n.set(inverse, n.reshape(root, kept));
}

// operands: scale, and bias where given.
Value norm_of(NodeContext& n, Value x, int64_t axis, double epsilon, bool rms,
              std::span<const Value> factors) {
  if (!n.ok() || !x.valid()) return Value();
  const Dims d = x.dims(), normalised(d.begin() + axis, d.end());
  std::vector<Value> operands = {x};
  for (const Value v : factors)
    operands.push_back(n.broadcast_to(n.convert(v, x.dtype()), normalised));
  return n.build(rms ? "rms_norm" : "layer_norm", operands, {{"dim", axis}, {"epsilon", epsilon}});
}

bool skip_norm(NodeContext& n) {
  const bool rms = n.op() == "SkipSimplifiedLayerNormalization";
  if (!n.arity(3, rms ? 4 : 5, 4) || n.rank(0) < 1) return false;
  const double epsilon = n.number("epsilon", 1e-12f);
  const size_t bias = rms ? 3 : 4;
  Value x = sum_of(n, n.value(0), n.value(1));
  if (n.has(bias)) x = sum_of(n, x, n.value(bias));
  if (!n.ok() || !x.valid()) return n.ok();
  std::vector<Value> factors = {n.value(2)};
  if (!rms && n.has(3)) factors.push_back(n.value(3));
  const int64_t axis = n.rank(0) - 1;
  statistics(n, x, axis, epsilon, rms, 1, 2);
  n.set(3, x);
  return n.set(0, norm_of(n, x, axis, epsilon, rms, factors));
}

bool simplified_norm(NodeContext& n) {
  if (!n.arity(2, 2, 2)) return false;
  const double epsilon = n.number("epsilon", 1e-5f);
  n.integer("stash_type", 1);
  const int64_t axis = n.axis(n.integer("axis", -1), n.rank(0));
  if (!n.ok()) return false;
  const Value factors[] = {n.value(1)};
  statistics(n, n.value(0), axis, epsilon, true, n.output_count(), 1);
  const Value y = norm_of(n, n.value(0), axis, epsilon, true, factors);
  return n.set(0, n.convert(y, n.dtype(1)));
}

// Channels last, unless channels_last is 0.
bool group_norm(NodeContext& n) {
  if (!n.arity(3, 3) || n.rank(0) < 2) return false;
  const double epsilon = n.number("epsilon", 1e-5f);
  const int64_t dim = n.integer("channels_last", 1) != 0 ? n.rank(0) - 1 : 1;
  const int64_t activation = n.integer("activation", 0), groups = n.integer("groups", 0);
  if (!n.has_attribute("groups")) return n.fail("T0708", "attribute 'groups' is missing");
  // Factors of a wider type keep their digits.
  Value x = n.dtype(1) == n.dtype(0) && n.dtype(2) == n.dtype(0) ? n.value(0) : n.wide(n.value(0));
  if (!x.valid()) return n.ok();
  const auto factor = [&](size_t i) { return n.convert(n.value(i), x.dtype()); };
  std::vector<int64_t> inward = {0, dim}, outward = {0};
  for (int64_t i = 1; i < n.rank(0); ++i) {
    if (i != dim) inward.push_back(i);
  }
  for (int64_t i = 2; i < n.rank(0); ++i) outward.push_back(i);
  if (n.rank(0) > 1) outward.insert(dim == 1 ? outward.begin() + 1 : outward.end(), 1);
  x = n.build("group_norm", {n.transpose(x, inward), factor(1), factor(2)},
              {{"groups", groups}, {"epsilon", epsilon}});
  x = n.ok() && x.valid() ? n.transpose(x, outward) : x;
  return n.set(0, n.convert(activation == 1 ? n.build("silu", {x}) : x, n.dtype(0)));
}

// ---- Embeddings ----

// Rows of table i that ids name.
Value rows(NodeContext& n, size_t i, Value ids) {
  return n.build("take", {n.value(i), ids}, {{"dim", 0}, {"mode", "in_bounds"}});
}

// The number of tokens that a mask of each sample keeps; 0 where they are not counted.
Value mask_index(NodeContext& n, Dim batch, bool counted) {
  if (!counted) return n.builder().splat(n.builder().scalar_int(TENON_I32, 0), {batch});
  const Value mask = n.value(7);
  const Value kept = n.build("compare", {mask, n.full_like(mask, 1)}, {{"direction", 0}});
  return n.build("reduce_sum", {n.convert(kept, TENON_I32)}, {{"dims", {1}}});
}

// input_ids, segment_ids, tables of words, positions and segments, scale, bias, mask, position_ids.
bool embed_norm(NodeContext& n) {
  if (n.input_count() < 7 || n.input_count() > 9 || n.output_count() > 3)
    return n.fail("T0709", "it takes 7 to 9 inputs and gives 1 to 3 outputs");
  const double epsilon = n.number("epsilon", 1e-12f);
  const bool counts = n.integer("mask_index_type", 0) == 1;
  if (n.rank(0) != 2) return n.fail("T0713", "its ids need rank 2");
  const Dims ids = n.dims(0);
  const Value place =
      n.has(8)
          ? n.value(8)
          : n.build("iota", std::vector<Value>(),
                    {{"shape", Dims{n.dim(1), ids[1]}}, {"dim", 1}, {"dtype", dtype(TENON_I64)}});
  Value x = sum_of(n, rows(n, 2, n.value(0)), rows(n, 3, place));
  if (n.has(1) && n.has(4)) x = sum_of(n, x, rows(n, 4, n.value(1)));
  if (!n.ok() || !x.valid()) return n.ok();
  const Value factors[] = {n.value(5), n.value(6)};
  if (n.wants(1)) n.set(1, mask_index(n, ids[0], n.has(7) && counts));
  n.set(2, x);
  return n.set(0, norm_of(n, x, 2, epsilon, false, factors));
}

// Rows of table i, whose bytes have scale i + 6 and zero point i + 11.
Value real_rows(NodeContext& n, size_t i, Value ids) {
  if (!check_scale(n, i + 6, ScaleUse::kDequantise)) return Value();
  const Value q = rows(n, i, ids);
  if (!n.ok() || !q.valid()) return Value();
  const Value zero = n.has(i + 11) ? spread(n, n.value(i + 11), q.dims(), {}) : Value();
  return dequantised(n, q, spread(n, n.value(i + 6), q.dims(), {}), zero);
}

// EmbedLayerNormalization of bytes: its first eight operands, then the scales of operands 2 to 6
// and their zero points. Without position_ids.
bool quantised_embed_norm(NodeContext& n) {
  if (n.input_count() < 13 || n.input_count() > 18 || n.output_count() > 2)
    return n.fail("T0709", "it takes 13 to 18 inputs and gives 1 or 2 outputs");
  for (size_t i : {0, 2, 3, 5, 6}) {
    if (!n.has(i)) return n.fail("T0709", cat("its input ", i, " is missing"));
  }
  const double epsilon = n.number("epsilon", 1e-12f);
  if (n.rank(0) != 2) return n.fail("T0713", "its ids need rank 2");
  const Dims ids = n.dims(0);
  const Value place =
      n.build("iota", std::vector<Value>(),
              {{"shape", Dims{n.dim(1), ids[1]}}, {"dim", 1}, {"dtype", dtype(TENON_I64)}});
  Value x = sum_of(n, real_rows(n, 2, n.value(0)), real_rows(n, 3, place));
  if (n.has(1) && n.has(4)) x = sum_of(n, x, real_rows(n, 4, n.value(1)));
  if (!n.ok() || !x.valid()) return n.ok();
  const Value factors[] = {dequantised(n, Quantised{5, 11, 16}),
                           dequantised(n, Quantised{6, 12, 17})};
  if (n.wants(1)) n.set(1, mask_index(n, ids[0], n.has(7)));
  return n.set(0, norm_of(n, x, 2, epsilon, false, factors));
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"FusedConv", 1, fused_conv, kMicrosoft},
    {"NhwcConv", 1, nhwc_conv, kMicrosoft},
    {"NhwcFusedConv", 1, nhwc_conv, kMicrosoft},
    {"FusedGemm", 1, fused_gemm, kMicrosoft},
    {"FusedMatMul", 1, fused_matmul, kMicrosoft},
    {"TransposeMatMul", 1, fused_matmul, kMicrosoft},
    {"Gelu", 1, bias_gelu, kMicrosoft},
    {"BiasGelu", 1, bias_gelu, kMicrosoft},
    {"FastGelu", 1, bias_gelu, kMicrosoft},
    {"QuickGelu", 1, quick_gelu, kMicrosoft},
    {"BiasSplitGelu", 1, bias_split_gelu, kMicrosoft},
    {"BiasAdd", 1, bias_add, kMicrosoft},
    {"BiasSoftmax", 1, bias_softmax, kMicrosoft},
    {"SkipLayerNormalization", 1, skip_norm, kMicrosoft},
    {"SkipSimplifiedLayerNormalization", 1, skip_norm, kMicrosoft},
    // ONNX Runtime writes it into ONNX's own domain, too.
    {"SimplifiedLayerNormalization", 1, simplified_norm},
    {"SimplifiedLayerNormalization", 1, simplified_norm, kMicrosoft},
    {"GroupNorm", 1, group_norm, kMicrosoft},
    {"EmbedLayerNormalization", 1, embed_norm, kMicrosoft},
    {"QEmbedLayerNormalization", 1, quantised_embed_norm, kMicrosoft},
});

}  // namespace

std::span<const OpImporter> fused_importers() {
  return kTable;
}

}  // namespace tenon::onnx
