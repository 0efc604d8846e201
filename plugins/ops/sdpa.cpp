// sdpa: scaled dot-product attention, kept whole for backends that run it in one pass.
#include "compose.h"
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

// A mask: the keys that each query sees. The last two dims of `shape` are queries and keys.
Term visible(Builder& b, const Dims& shape, bool first) {
  const auto rank = static_cast<int64_t>(shape.size());
  const Dims grid = {shape[shape.size() - 2], shape.back()};
  Term row = iota(b, grid, 0);
  if (!first) row = row + (extent(b, grid[1]) - extent(b, grid[0]));
  return broadcast(compare(iota(b, grid, 1), TENON_CMP_LE, row), shape, {rank - 2, rank - 1});
}

Status decompose(Builder& b, const Node& node, tenon_value_t* out) {
  const tenon_dtype_t type = node.operand(0).dtype();
  const Dims result = node.result().dims();
  Term q = {b, node.operand(0)};
  const Term k = {b, node.operand(1)}, v = {b, node.operand(2)};
  const Value mask = node.operand(3);
  const std::string causal = node.text("causal");
  const double given = node.f64("scale"), cap = node.f64("softcap");
  const Dims dims = q.dims();
  const bool grouped = !(dims[1] == k.dim(1));
  // Queries of one key head are grouped: [batch, key heads, group, queries, features].
  if (grouped) q = reshape(q, {dims[0], k.dim(1), dims[1] / k.dim(1), dims[2], dims[3]});
  const tenon_dtype_t wide = is_narrow(type) ? tenon_dtype_t{TENON_F32} : type;
  const auto product = [&](Term x, Term y, int64_t over, tenon_dtype_t to) {
    return Term{b, b.build("dot_general", {x.v, y.v},
                           {{"a_batch", Axes{0, 1}},
                            {"b_batch", Axes{0, 1}},
                            {"a_contract", Axes{x.rank() - 1}},
                            {"b_contract", Axes{over}},
                            {"dtype", dtype(to)}})};
  };
  Term scores = product(q, k, 3, wide);
  if (given != 0) {
    scores = scores * given;
  } else if (dims[3].is_constant()) {
    scores = scores * (1 / std::sqrt(static_cast<double>(dims[3].constant())));
  } else {
    scores = scores * apply("rsqrt", extent(b, dims[3], wide));
  }
  if (cap != 0) scores = apply("tanh", scores / cap) * cap;
  const double hidden = -std::numeric_limits<double>::infinity();
  if (mask) {
    Term m = {b, mask};
    Dims md = m.dims();
    Axes places = range(0, 4);
    if (grouped) {
      const bool one = md[1].is(1);
      m = reshape(m,
                  {md[0], one ? md[1] : k.dim(1), one ? md[1] : dims[1] / k.dim(1), md[2], md[3]});
      places = range(0, 5);
    }
    m = broadcast(m, scores.dims(), places);
    scores = m.dtype() == TENON_PRED ? where(m, scores, hidden) : scores + as(m, wide);
  }
  if (causal != "none")
    scores = where(visible(b, scores.dims(), causal == "first"), scores, hidden);
  Term weights = {b, b.build("softmax", {scores.v}, {{"dim", scores.rank() - 1}})};
  if (node.i64("zero_nan") != 0) weights = where(!apply("is_nan", weights), weights, 0.0);
  if (node.i64("zero_blind") != 0) {
    const Axes last = {scores.rank() - 1};
    const Term blind = compare(reduced("reduce_max", scores, last), TENON_CMP_EQ, hidden);
    weights = where(spread(blind, scores, last), 0, weights);
  }
  const Term y = product(as(weights, type), v, 2, type);
  return b.finish(out, {reshape(y, result)});
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
      .cost(TENON_COST_CONTRACTION)
      .tolerance(8);
  return draft;
}

TENON_OPS(sdpa, declare)

}  // namespace tenon::ops::sdpa_op
