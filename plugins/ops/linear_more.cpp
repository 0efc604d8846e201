// matmul_nbits, ragged_dot, embedding_bag, depthwise_conv, conv_bn_act: products of special forms.
#include "compose.h"

namespace tenon::ops::linear_more {

// ---- matmul_nbits ----

Status infer_nbits(const InferQuery& q) {
  const int64_t bits = q.i64("bits"), group = q.i64("group");
  if (bits != 4 && bits != 8) return q.fail("C1", cat("bits is ", bits));
  if (group < 1 || group > 65536 || group % 2 != 0) return q.fail("C1", cat("group is ", group));
  const Dim k = q.dim(0, q.rank(0) - 1), n = q.dim(1, 0);
  TENON_TRY(q.require("C2", TENON_REL_DIVISIBLE, k, q.constant(group), "features of x and group"));
  TENON_TRY(q.require_equal("C2", q.dim(1, 1) * q.constant(8 / bits), k,
                            "packed weights of a row and features of x"));
  for (uint32_t i = 2; i < 4; ++i) {
    if (!q.has(i)) continue;
    TENON_TRY(q.require_equal("C3", q.dim(i, 0), n, "rows of scales or zeros and of w"));
    TENON_TRY(q.require_equal("C3", q.dim(i, 1), k / q.constant(group),
                              "groups of scales or zeros and of w"));
  }
  Dims dims = q.dims(0);
  dims.back() = n;
  return q.result(q.dtype(0), dims);
}
Status decompose_nbits(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, node.operand(0)};
  Term w = {b, node.operand(1)};
  const Value given = node.operand(3);
  const int64_t bits = node.i64("bits");
  const Dim group = b.dim(node.i64("group"));
  const Dim n = w.dim(0), k = x.dim(x.rank() - 1), groups = k / group;
  if (bits == 4) {
    const Dims pair = {n, w.dim(1), b.dim(1)};
    const Term low = w & w.same(15), high = apply("shr_logical", w, w.same(4));
    w = concat(b, {reshape(low, pair), reshape(high, pair)}, 2);
  }
  w = as(reshape(w, {n, groups, group}), x.dtype());
  const auto per_group = [&](Value v) {
    return broadcast(as({b, v}, x.dtype()), w.dims(), {0, 1});
  };
  w = given ? w - per_group(given) : w - (bits == 4 ? 8.0 : 128.0);
  w = w * per_group(node.operand(2));
  return b.finish(out, {b.build("linear", {x.v, reshape(w, {n, k}).v}, {{"transpose_w", 1}})});
}

// ---- ragged_dot ----

Status infer_ragged(const InferQuery& q) {
  TENON_TRY(q.require_equal("C1", q.dim(0, 1), q.dim(1, 1), "columns of x and rows of w"));
  TENON_TRY(q.require_equal("C1", q.dim(2, 0), q.dim(1, 0), "sizes and matrices of w"));
  return q.result(q.dtype(0), {q.dim(0, 0), q.dim(1, 2)});
}
Status reference_ragged(const Eval& e) {
  const Array x = e.input(0), w = e.input(1), sizes = e.input(2), y = e.output();
  std::vector<double> out;
  int64_t group = 0, left = sizes.dim(0) > 0 ? load_int(sizes.dtype(), sizes.at(Index{0})) : 0;
  for (int64_t r = 0; r < x.dim(0); ++r) {
    while (left <= 0 && group < sizes.dim(0)) {
      if (++group < sizes.dim(0)) left = load_int(sizes.dtype(), sizes.at({&group, 1}));
    }
    for (int64_t c = 0; c < y.dim(1); ++c) {
      double sum = 0;
      for (int64_t k = 0; group < sizes.dim(0) && k < x.dim(1); ++k)
        sum += load_double(x.dtype(), x.at(Index{r, k})) *
               load_double(w.dtype(), w.at(Index{group, k, c}));
      out.push_back(sum);
    }
    --left;
  }
  y.write(out);
  return {};
}
// Every row with every matrix, of which its own is kept.
Status decompose_ragged(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, node.operand(0)}, w = {b, node.operand(1)};
  const Term sizes = as({b, node.operand(2)}, TENON_I64);
  const Dims grid = {x.dim(0), w.dim(0)};
  const Term end = {b, b.build("cumsum", {max(sizes, 0).v}, {{"dim", 0}})};
  const Term row = iota(b, grid, 0), ends = broadcast(end, grid, {1});
  const Term begins = broadcast(end - max(sizes, 0), grid, {1});
  const Term own = compare(row, TENON_CMP_GE, begins) & compare(row, TENON_CMP_LT, ends);
  const Term all = {b,
                    b.build("dot_general", {x.v, w.v}, {{"a_contract", {1}}, {"b_contract", {1}}})};
  const Term kept = where(broadcast(own, all.dims(), {0, 1}), all, 0);
  return b.finish(out, {reduced("reduce_sum", kept, {1})});
}

// ---- embedding_bag ----

Status infer_bag(const InferQuery& q) {
  return q.result(q.dtype(0), {q.dim(2, 0), q.dim(0, 1)});
}
Status reference_bag(const Eval& e) {
  const Array table = e.input(0), indices = e.input(1), offsets = e.input(2), y = e.output();
  const std::string_view kind = e.text("kind");
  for (int64_t bag = 0; bag < y.dim(0); ++bag) {
    for (int64_t d = 0; d < y.dim(1); ++d) {
      double sum = 0;
      int64_t count = 0;
      for (int64_t t = 0; t < indices.dim(0); ++t) {
        int64_t own = -1;  // the last bag that begins at t or before
        for (int64_t k = 0; k < offsets.dim(0); ++k)
          own += static_cast<int64_t>(load_int(offsets.dtype(), offsets.at({&k, 1})) <= t);
        if (own != bag) continue;
        const int64_t row = std::clamp<int64_t>(load_int(indices.dtype(), indices.at({&t, 1})), 0,
                                                table.dim(0) - 1);
        const double v = load_double(table.dtype(), table.at(Index{row, d}));
        sum = kind != "max" ? sum + v : count == 0 ? v : max_of(sum, v);
        ++count;
      }
      store_double(y.dtype(), y.at(Index{bag, d}),
                   kind == "mean" ? sum / std::max<double>(1, static_cast<double>(count)) : sum);
    }
  }
  return {};
}
Status decompose_bag(Builder& b, const Node& node, tenon_value_t* out) {
  const tenon_dtype_t type = node.result().dtype();
  const Term table = {b, widen(b, node.operand(0))}, indices = {b, node.operand(1)},
             offsets = as({b, node.operand(2)}, TENON_I64);
  const std::string kind = node.text("kind");
  const Dims result = node.result().dims();
  const Term rows = take(table, indices, 0);
  const Term at = iota(b, {indices.dim(0)}, 0);
  const Term bag = Term{b, b.build("searchsorted", {offsets.v, at.v}, {{"right", 1}})} - 1;
  const auto gathered = [&](Term start, Term updates, std::string_view how) {
    const Axes window = range(1, updates.rank());
    return Term{
        b,
        b.build(
            "scatter", {start.v, bag.v, updates.v},
            {{"kind", how}, {"inserted_dims", {0}}, {"index_map", {0}}, {"window_dims", window}})};
  };
  const auto filled = [&](double v, const Dims& dims) {
    return Term{b, b.full(table.dtype(), dims, v)};
  };
  const Term ones = filled(1, {indices.dim(0)});
  const Term counts = broadcast(gathered(filled(0, {result[0]}), ones, "add"), result, {0});
  Term y;
  if (kind == "max") {
    y = gathered(filled(-std::numeric_limits<double>::infinity(), result), rows, "max");
    y = where(compare(counts, TENON_CMP_EQ, 0), 0, y);
  } else {
    y = gathered(filled(0, result), rows, "add");
    if (kind == "mean") y = y / max(counts, 1);
  }
  return b.finish(out, {as(y, type)});
}

// ---- depthwise_conv, conv_bn_act ----

constexpr int64_t kBound = int64_t{1} << 31;

Status check_window(const InferQuery& q, Dims* spatial) {
  const size_t rank = q.rank(0);
  if (q.rank(1) != rank) return q.fail("C1", cat("x has rank ", rank, ", w has rank ", q.rank(1)));
  for (std::string_view name : {"strides", "pad_low", "pad_high", "dilation"}) {
    if (!q.i64s(name).empty())
      TENON_TRY(require_length(q, "C2", name, q.i64s(name).size(), rank - 2));
    const int64_t least = name.starts_with("pad") ? 0 : 1;
    for (int64_t v : q.i64s(name)) {
      if (v < least || v > kBound) return q.fail("C2", cat(name, " holds ", v));
    }
  }
  const Axes strides = list_or(q.i64s("strides"), rank - 2, 1),
             low = list_or(q.i64s("pad_low"), rank - 2, 0),
             high = list_or(q.i64s("pad_high"), rank - 2, 0),
             dilation = list_or(q.i64s("dilation"), rank - 2, 1);
  for (uint32_t i = 0; i + 2 < rank; ++i) {
    const auto k = constant_of(q.dim(1, i + 2));
    if (!k || *k < 1 || *k > kBound)
      return q.fail("C2", cat("spatial dim ", i, " of w is not a usable constant"));
    TENON_TRY(fitting_window(q, "C2", q.dim(0, i + 2), 1, low[i], high[i], *k, dilation[i],
                             strides[i], &spatial->emplace_back()));
  }
  return {};
}
Value convolve(Builder& b, const Node& node, Value bias, int64_t groups) {
  const Axes strides = node.i64s("strides"), low = node.i64s("pad_low"),
             high = node.i64s("pad_high"), dilation = node.i64s("dilation");
  std::vector<Value> operands = {node.operand(0), node.operand(1)};
  if (bias) operands.push_back(bias);
  return b.build("conv_bias", operands,
                 {{"strides", strides},
                  {"pad_low", low},
                  {"pad_high", high},
                  {"w_dilation", dilation},
                  {"groups", groups}});
}
Status infer_depthwise(const InferQuery& q) {
  Dims spatial;
  TENON_TRY(check_window(q, &spatial));
  const auto channels = constant_of(q.dim(0, 1));
  if (!channels || *channels < 1)
    return q.fail("C3", "the channels of x are not a positive constant");
  TENON_TRY(q.require("C3", TENON_REL_DIVISIBLE, q.dim(1, 0), q.constant(*channels),
                      "windows and channels of x"));
  TENON_TRY(q.require_equal("C3", q.dim(1, 1), q.constant(1), "dim 1 of w and 1"));
  if (q.has(2)) TENON_TRY(q.require_equal("C4", q.dim(2, 0), q.dim(1, 0), "bias and windows"));
  Dims dims = {q.dim(0, 0), q.dim(1, 0)};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return q.result(q.dtype(0), dims);
}
Status decompose_depthwise(Builder& b, const Node& node, tenon_value_t* out) {
  return b.finish(out, {convolve(b, node, node.operand(2), node.operand(0).dim(1).constant())});
}
Status infer_bn(const InferQuery& q) {
  Dims spatial;
  TENON_TRY(check_window(q, &spatial));
  const int64_t groups = q.i64("groups");
  if (groups < 1 || groups > kBound) return q.fail("C3", cat("groups is ", groups));
  TENON_TRY(q.require_equal("C3", q.dim(0, 1), q.dim(1, 1) * q.constant(groups),
                            "features of x and of w times groups"));
  TENON_TRY(q.require("C3", TENON_REL_DIVISIBLE, q.dim(1, 0), q.constant(groups),
                      "out features and groups"));
  for (uint32_t i = 2; i < 6; ++i)
    TENON_TRY(q.require_equal("C4", q.dim(i, 0), q.dim(1, 0),
                              cat("operand ", i, " and the out features")));
  Dims dims = {q.dim(0, 0), q.dim(1, 0)};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return q.result(q.dtype(0), dims);
}
Status decompose_bn(Builder& b, const Node& node, tenon_value_t* out) {
  const std::string activation = node.text("activation");
  const double epsilon = node.f64("epsilon");
  const Value y = convolve(b, node, Value(), node.i64("groups"));
  const Value n =
      b.build("batch_norm", {y, node.operand(2), node.operand(3), node.operand(4), node.operand(5)},
              {{"epsilon", epsilon}});
  return b.finish(out, {activate(b, n, activation)});
}
constexpr OpDraft& window_attrs(OpDraft& draft) {
  return draft.attr_i64s("strides", "step of the window per spatial dim; empty: 1")
      .attr_i64s("pad_low", "zeros before x; empty: 0")
      .attr_i64s("pad_high", "zeros behind x; empty: 0")
      .attr_i64s("dilation", "distance of the elements of w; empty: 1");
}

constexpr OpDraft matmul_nbits() {
  OpDraft draft = op("matmul_nbits", kComposite);
  draft.summary("x times a transposed matrix of 4 or 8 bits, with a scale per group of weights.")
      .doc(
          "A weight is (its bits - zero) scale, with the scale and zero of its row and group. Of "
          "4 bits, two weights share a byte, the first in its low half.")
      .operand("x", "[..., features]", kFloat, 1, 1)
      .operand("w", "[rows, features bits / 8]", 1u << TENON_U8, 0, 2, 2)
      .operand("scales", "[rows, features / group]", kFloat, 0, 2, 2)
      .optional("zeros", "[rows, features / group]; absent: 8 or 128", 1u << TENON_U8, 0, 2, 2)
      .result("y", "[..., rows]")
      .attr_i64("bits", "4 or 8", 4)
      .attr_i64("group", "how many features share a scale, an even number", 32)
      .constraint("C1", "bits is 4 or 8, group positive and even",
                  "matmul_nbits(f32[1, 4], u8[2, 2], f32[2, 1]) {group = 4, bits = 3}")
      .constraint("C2", "groups divide the features, and a row of w holds them all",
                  "matmul_nbits(f32[1, 4], u8[2, 3], f32[2, 1]) {group = 4}")
      .constraint("C3", "scales and zeros have one entry per row and group",
                  "matmul_nbits(f32[1, 4], u8[2, 2], f32[2, 2]) {group = 4}")
      .example(
          "matmul_nbits(f32[1, 2] [[1, 10]], u8[1, 1] [[169]], f32[1, 1] [[0.5]]) {group = 2} -> "
          "f32[1, 1] [[10.5]]")
      .infer<infer_nbits>()
      .decompose<decompose_nbits>()
      .cost(TENON_COST_CONTRACTION)
      .tolerance(8);
  return draft;
}
constexpr OpDraft ragged_dot() {
  OpDraft draft = op("ragged_dot", kComposite);
  draft.summary("Rows of x in groups of given sizes, each group times a matrix of its own.")
      .doc(
          "The first sizes[0] rows go with w[0], the next with w[1]; rows behind all groups give "
          "0. A negative size counts as 0.")
      .operand("x", "[rows, k]", kFloat, 1, 2, 2)
      .operand("w", "[groups, k, n]", kFloat, 1, 3, 3)
      .operand("sizes", "[groups]: how many rows", kIndex, 0, 1, 1)
      .result("y", "[rows, n]")
      .constraint("C1", "k and the number of groups agree",
                  "ragged_dot(f32[2, 3], f32[1, 4, 5], i64[1])")
      .example(
          "ragged_dot(f32[3, 1] [[1], [2], [3]], f32[2, 1, 1] [[[10]], [[100]]], i64[2] [1, 2]) -> "
          "f32[3, 1] [[10], [200], [300]]")
      .infer<infer_ragged>()
      .reference<reference_ragged>()
      .decompose<decompose_ragged>()
      .cost(TENON_COST_CONTRACTION)
      .tolerance(4);
  return draft;
}
constexpr OpDraft embedding_bag() {
  OpDraft draft = op("embedding_bag", kComposite);
  draft.summary("Rows of a table, put together in bags.")
      .doc(
          "Bag i holds the indices from offsets[i] up to offsets[i + 1]; what lies before the "
          "first offset is in no bag. An empty bag gives 0. Indices out of range take the nearest "
          "row.")
      .operand("table", "[rows, features]", kFloat, 0, 2, 2)
      .operand("indices", "which rows", kIndex, 0, 1, 1)
      .operand("offsets", "where each bag begins, increasing", kIndex, 0, 1, 1)
      .result("y", "[bags, features]")
      .attr_string("kind", "how rows are put together", "sum", "sum|mean|max")
      .example(
          "embedding_bag(f32[3, 1] [[1], [2], [4]], i64[3] [0, 2, 1], i64[2] [0, 2]) -> f32[2, 1] "
          "[[5], [2]]")
      .infer<infer_bag>()
      .reference<reference_bag>()
      .decompose<decompose_bag>()
      .cost(TENON_COST_DATA_MOVEMENT)
      .tolerance(4);
  return draft;
}
constexpr OpDraft depthwise_conv() {
  OpDraft draft = op("depthwise_conv", kComposite);
  draft.summary("A convolution in which every channel has windows of its own.")
      .operand("x", "[batch, channels, spatial...]", kFloat, 1, 2)
      .operand("w", "[windows, 1, spatial...], channel by channel", kFloat, 1, 2)
      .optional("bias", "one per window", kFloat, 1, 1, 1)
      .result("y", "[batch, windows, spatial...]");
  return window_attrs(draft)
      .constraint("C1", "x and w have equal rank", "depthwise_conv(f32[1, 1, 4], f32[1, 1, 2, 2])")
      .constraint("C2",
                  "lists have one entry per spatial dim, at least 1 (paddings 0), and w has "
                  "constant spatial dims, no larger than what they slide over",
                  "depthwise_conv(f32[1, 1, 4], f32[1, 1, 2]) {strides = [0]}")
      .constraint("C3", "channels are constant and divide the windows, dim 1 of w is 1",
                  "depthwise_conv(f32[1, 2, 4], f32[3, 1, 2])")
      .constraint("C4", "bias has one entry per window",
                  "depthwise_conv(f32[1, 1, 4], f32[1, 1, 2], f32[2])")
      .example(
          "depthwise_conv(f32[1, 2, 2] [[[1, 2], [3, 4]]], f32[2, 1, 1] [[[10]], [[100]]]) -> "
          "f32[1, 2, 2] [[[10, 20], [300, 400]]]")
      .infer<infer_depthwise>()
      .decompose<decompose_depthwise>()
      .cost(TENON_COST_CONTRACTION)
      .tolerance(4);
}
constexpr OpDraft conv_bn_act() {
  OpDraft draft = op("conv_bn_act", kComposite);
  draft.summary("A convolution, then batch_norm, then an activation.")
      .operand("x", "[batch, features, spatial...]", kFloat, 1, 2)
      .operand("w", "[out features, features / groups, spatial...]", kFloat, 1, 2)
      .operand("scale", "one per out feature", kFloat, 1, 1, 1)
      .operand("bias", "one per out feature", kFloat, 1, 1, 1)
      .operand("mean", "one per out feature", kFloat, 1, 1, 1)
      .operand("var", "one per out feature", kFloat, 1, 1, 1)
      .result("y", "[batch, out features, spatial...]");
  return window_attrs(draft)
      .attr_i64("groups", "features are split into that many groups that do not mix", 1)
      .attr_f64("epsilon", "added to the variance", 1e-5)
      .attr_string("activation", "what is applied last", "none", kActivations)
      .constraint("C1", "x and w have equal rank",
                  "conv_bn_act(f32[1, 1, 4], f32[1, 1, 2, 2], f32[1], f32[1], f32[1], f32[1])")
      .constraint(
          "C2",
          "lists have one entry per spatial dim, at least 1 (paddings 0), and w has constant "
          "spatial dims, no larger than what they slide over",
          "conv_bn_act(f32[1, 1, 4], f32[1, 1, 2], f32[1], f32[1], f32[1], f32[1]) {strides = [0]}")
      .constraint("C3", "features of x are those of w times groups, which divide the out features",
                  "conv_bn_act(f32[1, 3, 4], f32[1, 1, 2], f32[1], f32[1], f32[1], f32[1])")
      .constraint("C4", "scale, bias, mean and var have one entry per out feature",
                  "conv_bn_act(f32[1, 1, 4], f32[1, 1, 2], f32[1], f32[1], f32[1], f32[2])")
      .example(
          "conv_bn_act(f32[1, 1, 2] [[[1, 2]]], f32[1, 1, 1] [[[2]]], f32[1] [1], f32[1] [-3], "
          "f32[1] [0], f32[1] [1]) {epsilon = 0.0, activation = \"relu\"} -> f32[1, 1, 2] [[[0, "
          "1]]]")
      .infer<infer_bn>()
      .decompose<decompose_bn>()
      .cost(TENON_COST_CONTRACTION)
      .tolerance(8);
}

TENON_OPS(linear_more, matmul_nbits, ragged_dot, embedding_bag, depthwise_conv, conv_bn_act)

}  // namespace tenon::ops::linear_more
