// sdpa: scaled dot-product attention, kept whole for backends that run it in one pass.
#include "compose.h"
#include "derivative.h"
#include "flag.h"

namespace tenon::ops::sdpa_op {

Status infer(const InferQuery& q) {
  const auto same = [&](uint32_t a, uint32_t i, uint32_t b, uint32_t k, std::string_view what) {
    return q.require_equal("C1", q.dim(a, i), q.dim(b, k), what);
  };
  TENON_TRY(same(0, 0, 1, 0, "batches of q and k"));
  TENON_TRY(same(0, 0, 2, 0, "batches of q and v"));
  TENON_TRY(same(1, 1, 2, 1, "heads of k and v"));
  TENON_TRY(same(0, 3, 1, 3, "features of q and k"));
  TENON_TRY(same(1, 2, 2, 2, "keys and values"));
  const auto heads = constant_of(q.dim(0, 1)), shared = constant_of(q.dim(1, 1));
  if (heads && shared ? *shared == 0 || *heads % *shared != 0
                      : compare(TENON_REL_EQ, q.dim(0, 1), q.dim(1, 1)) != TENON_YES) {
    return q.fail("C2", "the heads of q are not a constant multiple of those of k");
  }
  if (q.has(3)) {
    if (!is_in(q.dtype(3), kPred) && q.dtype(3) != q.dtype(0))
      return q.fail("C3",
                    cat("mask has ", dtype_name(q.dtype(3)), ", q has ", dtype_name(q.dtype(0))));
    const Dim full[] = {q.dim(0, 0), q.dim(0, 1), q.dim(0, 2), q.dim(1, 2)};
    for (uint32_t i = 0; i < 4; ++i) {
      if (!q.dim(3, i).is(1))
        TENON_TRY(q.require_equal("C4", q.dim(3, i), full[i], cat("dim ", i, " of mask")));
    }
  }
  return q.result(q.dtype(0), {q.dim(0, 0), q.dim(0, 1), q.dim(0, 2), q.dim(2, 3)});
}

// Plain loops over the formula, in double. The weights of a query serve all of its features.
Status reference(const Eval& e) {
  const Array q = e.input(0), k = e.input(1), v = e.input(2), y = e.output();
  const auto qs = q.read<double>(), ks = k.read<double>(), vs = v.read<double>();
  // Arrays here are dense.
  const auto at = [](const Array& a, const std::vector<double>& data, int64_t n, int64_t h,
                     int64_t row, int64_t column) {
    return data[static_cast<size_t>(((n * a.dim(1) + h) * a.dim(2) + row) * a.dim(3) + column)];
  };
  const int64_t group = q.dim(1) / k.dim(1), keys = k.dim(2), features = q.dim(3);
  const double scale =
      e.f64("scale") != 0 ? e.f64("scale") : 1 / std::sqrt(static_cast<double>(features));
  const double cap = e.f64("softcap");
  const std::string_view causal = e.text("causal");
  const bool zero_nan = e.i64("zero_nan") != 0, zero_blind = e.i64("zero_blind") != 0;
  const Axes queries = {y.dim(0), y.dim(1), y.dim(2)};
  Status status;
  each_index(queries, [&](const Index& o) {
    if (!status.ok()) return;
    if (e.cancelled()) return void(status = TENON_CANCELLED);
    const int64_t n = o[0], h = o[1], s = o[2];
    std::vector<double> score;
    double top = -std::numeric_limits<double>::infinity();
    for (int64_t t = 0; t < keys; ++t) {
      double x = 0;
      for (int64_t d = 0; d < features; ++d)
        x += at(q, qs, n, h, s, d) * at(k, ks, n, h / group, t, d);
      x *= scale;
      if (cap != 0) x = cap * std::tanh(x / cap);
      if (e.has(3)) {
        const Array m = e.input(3);
        Index i = {n, h, s, t};
        for (size_t d = 0; d < 4; ++d) i[d] = m.dim(d) == 1 ? 0 : i[d];
        const double given = load_double(m.dtype(), m.at(i));
        x = m.dtype() != TENON_PRED ? x + given
            : given != 0            ? x
                                    : -std::numeric_limits<double>::infinity();
      }
      const int64_t last = causal == "first" ? s : s + keys - q.dim(2);
      if (causal != "none" && t > last) x = -std::numeric_limits<double>::infinity();
      score.push_back(x);
      top = max_of(top, x);
    }
    const bool blind = zero_blind && top == -std::numeric_limits<double>::infinity();
    double sum = 0;
    for (double& x : score) sum += x = std::exp(x - top);
    for (double& x : score) x = zero_nan && std::isnan(x / sum) ? 0 : x / sum;
    for (int64_t d = 0; d < y.dim(3); ++d) {
      double result = 0;
      for (int64_t t = 0; t < keys && !blind; ++t)
        result += score[static_cast<size_t>(t)] * at(v, vs, n, h / group, t, d);
      store_double(y.dtype(), y.at(Index{n, h, s, d}), result);
    }
  });
  return status;
}

// ---- The steps, for all queries or a block of them ----

struct Attention {
  Builder& b;
  const Node& node;
  const tenon_dtype_t type, wide;
  const Term k, v;
  const Dims dims;  // of q
  // Queries of one key head are grouped: [batch, key heads, group, queries, ...].
  const bool grouped;
  const double cap;

  Attention(Builder& builder, const Node& of)
      : b(builder),
        node(of),
        type(of.operand(0).dtype()),
        wide(is_narrow(type) ? tenon_dtype_t{TENON_F32} : type),
        k(builder, of.operand(1)),
        v(builder, of.operand(2)),
        dims(of.operand(0).dims()),
        grouped(!(dims[1] == k.dim(1))),
        cap(of.f64("softcap")) {}

  Term in_groups(Term x) const {
    if (!grouped) return x;
    return reshape(x, {dims[0], k.dim(1), dims[1] / k.dim(1), x.dim(2), x.dim(3)});
  }
  Term in_heads(Term x) const {
    if (!grouped) return x;
    return reshape(x, {dims[0], dims[1], x.dim(3), x.dim(4)});
  }
  Term product(Term x, Axes over_x, Term y, Axes over_y, tenon_dtype_t to) const {
    return {b, b.build("dot_general", {as(x, type).v, as(y, type).v},
                       {{"a_batch", Axes{0, 1}},
                        {"b_batch", Axes{0, 1}},
                        {"a_contract", over_x},
                        {"b_contract", over_y},
                        {"dtype", dtype(to)}})};
  }
  // x over its last dim with `over` of keys or values.
  Term rows_with(Term x, Term y, int64_t over, tenon_dtype_t to) const {
    return product(x, {x.rank() - 1}, y, {over}, to);
  }
  // The sum over all queries of a key head.
  Term over_queries(Term x, Term y) const {
    const Axes over = range(2, x.rank() - 1);
    return product(x, over, y, over, wide);
  }
  Term scaled(Term scores) const {
    const double given = node.f64("scale");
    if (given != 0) return scores * given;
    if (dims[3].is_constant())
      return scores * (1 / std::sqrt(static_cast<double>(dims[3].constant())));
    return scores * apply("rsqrt", extent(b, dims[3], wide));
  }
  Term capped(Term scores) const { return cap != 0 ? apply("tanh", scores / cap) * cap : scores; }
  // The derivative of `capped` where it has this value.
  Term times_cap_slope(Term x, Term value) const {
    return cap != 0 ? x * ((1 - value / cap) * (value / cap + 1)) : x;
  }
  static constexpr double kHidden = -std::numeric_limits<double>::infinity();
  // With the mask, of which `mask` has the rows from `begin` on.
  Term masked(Term scores, Value mask, int64_t begin) const {
    if (mask) {
      Term m = {b, mask};
      Dims md = m.dims();
      if (grouped) {
        const bool one = md[1].is(1);
        m = reshape(
            m, {md[0], one ? md[1] : k.dim(1), one ? md[1] : dims[1] / k.dim(1), md[2], md[3]});
      }
      m = broadcast(m, scores.dims(), range(0, grouped ? 5 : 4));
      scores = m.dtype() == TENON_PRED ? where(m, scores, kHidden) : scores + as(m, wide);
    }
    if (node.text("causal") == "none") return scores;
    return where(visible(scores.dims(), begin), scores, kHidden);
  }
  // The keys that each query sees.
  Term visible(const Dims& shape, int64_t begin) const {
    const auto rank = static_cast<int64_t>(shape.size());
    const Dims grid = {shape[shape.size() - 2], shape.back()};
    Term row = iota(b, grid, 0);
    if (node.text("causal") != "first") row = row + (extent(b, grid[1]) - extent(b, dims[2]));
    row = row + static_cast<double>(begin);
    return broadcast(compare(iota(b, grid, 1), TENON_CMP_LE, row), shape, {rank - 2, rank - 1});
  }
  Term weights(Term scores) const {
    Term out = {b, b.build("softmax", {scores.v}, {{"dim", scores.rank() - 1}})};
    if (node.i64("zero_nan") != 0) out = where(!apply("is_nan", out), out, 0.0);
    if (node.i64("zero_blind") != 0) {
      const Axes last = {scores.rank() - 1};
      const Term blind = compare(reduced("reduce_max", scores, last), TENON_CMP_EQ, kHidden);
      out = where(spread(blind, scores, last), 0, out);
    }
    return out;
  }
  // x - the sum of x * weights, times weights: the derivative of softmax, both ways.
  Term through_softmax(Term x, Term weights) const {
    const Axes last = {x.rank() - 1};
    return weights * (x - spread(reduced("reduce_sum", x * weights, last), x, last));
  }
};

Status decompose(Builder& b, const Node& node, tenon_value_t* out) {
  const Dims result = node.result().dims();
  const Value mask = node.operand(3);
  const Attention a(b, node);
  const Term q = a.in_groups({b, node.operand(0)});
  const Term scores = a.masked(a.capped(a.scaled(a.rows_with(q, a.k, 3, a.wide))), mask, 0);
  const Term y = a.rows_with(a.weights(scores), a.v, 2, a.type);
  return b.finish(out, {reshape(y, result)});
}

// ---- Derivatives ----

// With P the weights and S the scores: (P * (tS - sum of P * tS)) v + P tv, tS from tq k' + q tk'.
std::vector<Value> jvp(Builder& b, const Node& node, std::span<const Value> tangents) {
  const Attention a(b, node);
  const auto wide = [&](Term x) { return as(x, a.wide); };
  const Term q = a.in_groups({b, node.operand(0)});
  const Term capped = a.capped(a.scaled(a.rows_with(q, a.k, 3, a.wide)));
  const Term weights = a.weights(a.masked(capped, node.operand(3), 0));
  Term change, y;
  const auto add = [](Term& sum, Term x) { sum = sum.v ? sum + x : x; };
  if (tangents[0]) add(change, a.rows_with(a.in_groups({b, tangents[0]}), a.k, 3, a.wide));
  if (tangents[1]) add(change, a.rows_with(q, {b, tangents[1]}, 3, a.wide));
  if (change.v) change = a.times_cap_slope(a.scaled(change), capped);
  if (tangents.size() > 3 && tangents[3]) {
    const Dims full = {a.dims[0], a.dims[1], a.dims[2], a.k.dim(2)};
    const Term added = broadcast({b, tangents[3]}, full, range(0, 4));
    add(change, wide(a.in_groups(added)));
  }
  if (change.v) add(y, a.rows_with(a.through_softmax(change, weights), a.v, 2, a.wide));
  if (tangents[2]) add(y, a.rows_with(weights, {b, tangents[2]}, 2, a.wide));
  return {y.v ? b.convert(a.in_heads(y), a.type) : Value()};
}

// Ranges of queries whose scores are in memory at the same time; one if sizes are not known.
constexpr int64_t kScoresMost = 1 << 21, kBlocksMost = 16, kTile = 16;
Axes block_begins(const Dims& q, Dim keys) {
  if (!q[0].is_constant() || !q[1].is_constant() || !q[2].is_constant() || !keys.is_constant())
    return {0};
  const auto up = [](int64_t n, int64_t unit) { return (n + unit - 1) / unit; };
  const int64_t rows = q[2].constant();
  const int64_t total = q[0].constant() * q[1].constant() * rows * keys.constant();
  const int64_t count = std::min({kBlocksMost, up(total, kScoresMost), up(rows, kTile)});
  if (count <= 1) return {0};
  const int64_t step = up(up(rows, count), kTile) * kTile;
  Axes out;
  for (int64_t begin = 0; begin < rows; begin += step) out.push_back(begin);
  return out;
}

// The sum over what a mask of these dims repeats; x has the heads of q.
Term for_mask(Term x, const Dims& mask) {
  Axes over;
  for (int64_t i = 0; i < 4; ++i) {
    if (mask[static_cast<size_t>(i)].is(1) && !x.dim(i).is(1)) over.push_back(i);
  }
  Dims shape = x.dims();
  for (const int64_t i : over) shape[static_cast<size_t>(i)] = x.b->dim(1);
  return over.empty() ? x : reshape(reduced("reduce_sum", x, over), shape);
}

// Scores and weights again, a block of queries at a time, so that only those of one block are in
// memory. With G the cotangent: P' G for v; and with gS = P * (G v' - sum of P * G v'): gS k for q,
// gS' q for k, gS for the mask.
std::vector<Value> pull(Builder& b, const Node& node, std::span<const uint8_t> wanted,
                        std::span<const Value> cotangents) {
  const Attention a(b, node);
  const Value mask = node.operand(3);
  const bool has_mask_rows = mask && !mask.dim(2).is(1);
  const bool of_mask = mask && wanted[3] != 0,
             of_rows = wanted[0] != 0 || wanted[1] != 0 || of_mask;
  const Axes begins = block_begins(a.dims, a.k.dim(2));
  std::vector<Value> of_q, of_mask_rows;
  Term of_k, of_v, of_whole_mask;
  const auto add = [](Term& sum, Term x) { sum = sum.v ? sum + x : x; };
  for (size_t i = 0; i < begins.size(); ++i) {
    const Dim end = i + 1 < begins.size() ? b.dim(begins[i + 1]) : a.dims[2];
    const auto rows = [&](Value x) {
      return begins.size() == 1 ? Term{b, x} : cut({b, x}, 2, b.dim(begins[i]), end);
    };
    const Term q = a.in_groups(rows(node.operand(0))), g = a.in_groups(rows(cotangents[0]));
    const Term capped = a.capped(a.scaled(a.rows_with(q, a.k, 3, a.wide)));
    const Term weights =
        a.weights(a.masked(capped, has_mask_rows ? rows(mask).v : mask, begins[i]));
    if (wanted[2] != 0) add(of_v, a.over_queries(weights, g));
    if (!of_rows) continue;
    Term change = a.through_softmax(a.rows_with(g, a.v, 3, a.wide), weights);
    if (of_mask) {
      const Term part = for_mask(a.in_heads(change), mask.dims());
      if (has_mask_rows)
        of_mask_rows.push_back(part);
      else
        add(of_whole_mask, part);
    }
    change = a.scaled(a.times_cap_slope(change, capped));
    if (wanted[0] != 0) of_q.push_back(a.in_heads(a.rows_with(change, a.k, 2, a.wide)));
    if (wanted[1] != 0) add(of_k, a.over_queries(change, q));
  }
  if (of_mask && has_mask_rows) of_whole_mask = concat(b, of_mask_rows, 2);
  const auto as_operand = [&](Value v, uint32_t i) {
    return v ? b.convert(v, node.operand(i).dtype()) : v;
  };
  std::vector<Value> out = {of_q.empty() ? Value() : as_operand(concat(b, of_q, 2), 0),
                            as_operand(of_k, 1), as_operand(of_v, 2)};
  if (of_mask) out.push_back(as_operand(of_whole_mask, 3));
  return out;
}

// Samples become batches.
std::vector<Value> batch(Builder& b, const Node& node, std::span<const Value> operands,
                         std::span<const uint8_t> is_batched, Dim size) {
  std::vector<Value> joined;
  for (uint32_t i = 0; i < operands.size(); ++i) {
    Value x = operands[i];
    const bool is_shared = is_batched[i] == 0 && i == 3 && x && x.dim(0).is(1);
    if (x && !is_shared) {
      x = repeated(b, x, is_batched[i] != 0, size);
      Dims shape = x.dims();
      if (i == 3 && shape[1].is(1) && !node.operand(0).dim(0).is(1)) {
        shape[1] = node.operand(0).dim(0);
        x = b.broadcast(x, shape, range(0, 5));
      }
      shape[1] = shape[0] * shape[1];
      shape.erase(shape.begin());
      x = reshape(b, x, shape);
    }
    joined.push_back(x);
  }
  const Value y = b.build_node("sdpa", joined, attributes_of(node)).result();
  Dims shape = node.result().dims();
  shape.insert(shape.begin(), size);
  return {reshape(b, y, shape)};
}

constexpr OpDraft declare() {
  OpDraft draft = op("sdpa", kComposite);
  draft.summary("Attention: softmax(q k' scale + mask) v, over the keys of each query.")
      .doc(
          "Several heads of q may share one of k and v: head h of q goes with head h / (heads of q "
          "/ heads of k). Scores and softmax are in f32 at least. A query that sees no key gives "
          "NaN, as 0 / 0, unless zero_nan turns weights that are NaN into 0, as PyTorch's "
          "exporters "
          "do, or zero_blind gives 0 to such queries alone.")
      .operand("q", "[batch, heads, queries, features]", kFloat, 1, 4, 4)
      .operand("k", "[batch, key heads, keys, features]", kFloat, 1, 4, 4)
      .operand("v", "[batch, key heads, keys, value features]", kFloat, 1, 4, 4)
      .optional("mask",
                "[batch, heads, queries, keys], each of them or 1: added to the scores, or "
                "pred that says which keys are seen",
                kFloat | kPred, 0, 4, 4)
      .result("y", "[batch, heads, queries, value features]")
      .attr_f64("scale", "factor of the scores; 0: 1 / sqrt(features)", 0)
      .attr_f64("softcap", "scores become softcap tanh(score / softcap); 0: as they are", 0)
      .attr_string("causal",
                   "first: query i sees keys to i; last: the last query sees all, the one before "
                   "all but one",
                   "none", "none|first|last")
      .attr(flag("zero_nan", "1: weights that are NaN become 0", 0))
      .attr(flag("zero_blind", "1: a query that sees no key gives 0", 0))
      .constraint("C1", "batches, key heads, features and keys agree",
                  "sdpa(f32[1, 1, 2, 4], f32[1, 1, 3, 5], f32[1, 1, 3, 2])")
      .constraint("C2", "the heads of q are a constant multiple of those of k",
                  "sdpa(f32[1, 3, 2, 4], f32[1, 2, 3, 4], f32[1, 2, 3, 2])")
      .constraint("C3", "a mask that is added has the element type of q",
                  "sdpa(f32[1, 1, 2, 4], f32[1, 1, 3, 4], f32[1, 1, 3, 2], f64[1, 1, 2, 3])")
      .constraint("C4", "dims of mask are those of the scores or 1",
                  "sdpa(f32[1, 1, 2, 4], f32[1, 1, 3, 4], f32[1, 1, 3, 2], f32[1, 1, 2, 2])")
      .example(
          "sdpa(f32[1, 1, 1, 1] [[[[0]]]], f32[1, 1, 2, 1] [[[[1], [2]]]], f32[1, 1, 2, 2] [[[[1, "
          "2], [3, 6]]]]) -> f32[1, 1, 1, 2] [[[[2, 4]]]]")
      .example(
          "sdpa(f32[1, 1, 2, 1] [[[[0], [0]]]], f32[1, 1, 2, 1] [[[[1], [2]]]], f32[1, 1, 2, 1] "
          "[[[[1], [3]]]]) {causal = \"first\"} -> f32[1, 1, 2, 1] [[[[1], [2]]]]")
      .example(
          "sdpa(f32[1, 1, 1, 1] [[[[1]]]], f32[1, 1, 1, 1] [[[[1]]]], f32[1, 1, 1, 1] [[[[5]]]], "
          "pred[1, 1, 1, 1] [[[[false]]]]) {zero_nan = 1} -> f32[1, 1, 1, 1] [[[[0]]]]")
      .example(
          "sdpa(f32[1, 1, 1, 1] [[[[0]]]], f32[1, 1, 1, 1] [[[[1]]]], f32[1, 1, 1, 1] [[[[2]]]], "
          "pred[1, 1, 1, 1] [[[[0]]]]) {zero_blind = 1} -> f32[1, 1, 1, 1] [[[[0]]]]")
      .infer<infer>()
      .reference<reference>()
      .decompose<decompose>()
      .jvp<jvp>()
      .pull<pull>()
      .batch<batch>()
      .cost(TENON_COST_CONTRACTION)
      .tolerance(8);
  return draft;
}

TENON_OPS(sdpa, declare)

}  // namespace tenon::ops::sdpa_op
