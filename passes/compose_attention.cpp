#include "compose.h"

namespace tenon::passes {
namespace {

constexpr tenon_str_t kStatistics[] = {str("attention")};
const std::vector<int64_t> kSwap = {0, 1, 3, 2};

// A number times one value.
struct Scaled {
  Value value;
  double number = 1;
};
Scaled scaled_of(Value v) {
  const Product product = product_of(v);
  if (product.values.size() != 1 || product.number == 0 || !std::isfinite(product.number))
    return {v, 1};
  return {product.values[0], product.number};
}

// Keys as [batch, heads, keys, features] from [batch, heads, features, keys]. Some exporters
// transpose with batch and heads merged.
Value keys_of(Builder& builder, Value transposed) {
  const Node split = transposed.node();
  const Node swap = split.is("reshape") ? split.operand(0).node() : Node();
  const Node join = swap.is("transpose") && swap.i64s("perm") == std::vector<int64_t>{0, 2, 1}
                        ? swap.operand(0).node()
                        : Node();
  if (join.is("reshape")) {
    const Value keys = join.operand(0);
    const Dims to = transposed.dims(), from = keys.dims(), joined = join.result().dims();
    if (from.size() == 4 && from[0] == to[0] && from[1] == to[1] && from[2] == to[3] &&
        from[3] == to[2] && joined[1] == from[2] && joined[2] == from[3]) {
      return keys;
    }
  }
  return builder.build("transpose", {transposed}, {{"perm", kSwap}});
}

// A mask in the form of sdpa: rank 4, with dims of 1 where it repeats. select(seen, 0, -inf)
// becomes `seen`.
Value mask_of(Builder& builder, Value mask) {
  const auto narrow = [&](Value v) {
    const Node n = v.node();
    const std::vector<int64_t> places = n.is("broadcast") ? n.i64s("dims") : std::vector<int64_t>();
    const Dims dims = n.is("broadcast") ? n.operand(0).dims() : Dims();
    const bool last = places.empty() || (dims.size() == 4 && places == count_up(4));
    if (!n.is("broadcast") || !last) return v;
    if (dims.size() == 4) return n.operand(0);
    Dims padded(4 - dims.size(), Dim(v.graph(), 1));
    padded.insert(padded.end(), dims.begin(), dims.end());
    return builder.build("reshape", {n.operand(0)}, {{"shape", padded}});
  };
  const Value added = narrow(mask);
  const Node select = added.node();
  const double hidden = -std::numeric_limits<double>::infinity();
  if (!select.is("select") || splat_of(select.operand(1)) != 0.0 ||
      splat_of(select.operand(2)) != hidden)
    return added;
  return select.operand(0).rank() == 4 ? narrow(select.operand(0)) : added;
}

struct Scores {
  Value queries, keys, mask;
  double scale = 1;
};

// Matches queries times transposed keys, times numbers, plus a mask.
std::optional<Scores> read_scores(Builder& builder, Value v) {
  const Node add = v.node();
  for (uint32_t i = 0; add.is("add") && i < 2; ++i) {
    const Scaled product = scaled_of(add.operand(i));
    if (!product.value.node().is("matmul")) continue;
    auto scores = read_scores(builder, add.operand(i));
    if (scores) scores->mask = mask_of(builder, add.operand(1 - i));
    return scores;
  }
  const Scaled product = scaled_of(v);
  const Node matmul = product.value.node();
  if (!matmul.is("matmul") || matmul.operand(0).rank() != 4 || matmul.operand(1).rank() != 4)
    return {};
  const Scaled queries = scaled_of(matmul.operand(0)), keys = scaled_of(matmul.operand(1));
  return Scores{queries.value, keys_of(builder, keys.value), Value(v.graph(), TENON_NONE),
                product.number * queries.number * keys.number};
}

// The softmax over the keys, with or without a select that replaces NaN by 0.
Node softmax_of(Value weights, bool* zero_nan) {
  const Node select = weights.node();
  Node softmax = select;
  if (select.is("select") && splat_of(select.operand(1)) == 0.0) {
    const Node test = select.operand(0).node();
    if (!test.is("is_nan") || test.operand(0) != select.operand(2)) return Node();
    softmax = select.operand(2).node();
    *zero_nan = true;
  }
  return softmax.is("softmax") && softmax.i64("dim") == 3 && softmax.result().rank() == 4 ? softmax
                                                                                          : Node();
}

// Ends: each application removes one matmul.
Status attention(Builder& builder, const Node& node, std::vector<Value>* out) {
  bool zero_nan = false;
  const Node softmax = softmax_of(node.operand(0), &zero_nan);
  const Value values = node.operand(1);
  if (!softmax || values.rank() != 4) return {};
  const auto scores = read_scores(builder, softmax.operand(0));
  if (!scores) return {};
  // matmul broadcasts batches, sdpa does not.
  for (uint32_t i = 0; i < 2; ++i) {
    if (scores->queries.dim(i) != scores->keys.dim(i) || values.dim(i) != scores->keys.dim(i))
      return {};
  }
  if (scores->queries.dtype() != values.dtype()) return {};
  const std::vector<Value> operands = {scores->queries, scores->keys, values, scores->mask};
  const std::vector<Attr> attrs = {{"scale", scores->scale}, {"zero_nan", zero_nan ? 1 : 0}};
  *out = {builder.build_node("sdpa", std::span(operands).first(scores->mask.valid() ? 4 : 3), attrs)
              .result()};
  return {};
}

constexpr tenon_rewrite_t kRewrites[] = {rewrite<attention>("attention", "matmul")};

constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%q: f32[1, 2, 3, 4], %k: f32[1, 2, 4, 5], %v: f32[1, 2, 5, 4]) -> (y: f32[1, 2, 3, 4]) {
  %0 = matmul(%q, %k) : f32[1, 2, 3, 5]
  %1 = softmax(%0) {dim = 3} : f32[1, 2, 3, 5]
  %2 = matmul(%1, %v) : f32[1, 2, 3, 4]
  yield %2
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g(%q: f32[1, 2, 3, 4], %k: f32[1, 2, 4, 5], %v: f32[1, 2, 5, 4]) -> (y: f32[1, 2, 3, 4]) {
  %0 = transpose(%k) {perm = [0, 1, 3, 2]} : f32[1, 2, 5, 4]
  %1 = sdpa(%q, %0, %v) {scale = 1.0} : f32[1, 2, 3, 4]
  yield %1
}
)";

constexpr auto kPass =
    pass("compose-attention", "Recognises scaled dot-product attention that exporters decomposed.")
        .describe(
            "softmax(scale q k' + mask) v over four dims becomes sdpa. The scale may "
            "be on q, on k, on both or on the scores. A mask that a predicate makes 0 "
            "or -inf becomes that predicate. So a hidden score that is NaN or "
            "infinite stays hidden and does not spread along its row.")
        .example(kBefore, kAfter)
        .statistics(kStatistics)
        .rewrites(kRewrites);

}  // namespace
}  // namespace tenon::passes

TENON_PASS(compose_attention, tenon::passes::kPass)
