// ragged_dot: products of groups of rows, each with a matrix of its own.
#include "compose.h"
#include "derivative.h"

namespace tenon::ops::ragged_dot {

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
// [rows, groups]: whether a row is of a group.
Term members(Builder& b, const Node& node) {
  const Term sizes = as({b, node.operand(2)}, TENON_I64);
  const Dims grid = {node.operand(0).dim(0), node.operand(1).dim(0)};
  const Term end = {b, b.build("cumsum", {max(sizes, 0).v}, {{"dim", 0}})};
  const Term row = iota(b, grid, 0), ends = broadcast(end, grid, {1});
  const Term begins = broadcast(end - max(sizes, 0), grid, {1});
  return compare(row, TENON_CMP_GE, begins) & compare(row, TENON_CMP_LT, ends);
}
// Multiplies every row with every matrix and keeps the product with its own.
Status decompose_ragged(Builder& b, const Node& node, tenon_value_t* out) {
  const Term x = {b, node.operand(0)}, w = {b, node.operand(1)};
  const Term own = members(b, node);
  const Term all = {b,
                    b.build("dot_general", {x.v, w.v}, {{"a_contract", {1}}, {"b_contract", {1}}})};
  const Term kept = where(broadcast(own, all.dims(), {0, 1}), all, 0);
  return b.finish(out, {reduced("reduce_sum", kept, {1})});
}

// Of x: g with the transposed matrices; of w: x' g over the rows of each group.
Value transpose(Builder& b, const Node& node, uint32_t operand, std::span<const Value> cotangents) {
  const Value g = cotangents[0];
  if (operand == 0) {
    const Axes turned = {0, 2, 1};
    return b.build("ragged_dot", {g, permute(b, node.operand(1), turned), node.operand(2)});
  }
  const Term x = {b, node.operand(0)}, own = members(b, node);
  const Dims grid = {own.dim(0), own.dim(1), x.dim(1)};
  const Term kept = where(broadcast(own, grid, {0, 1}), broadcast(x, grid, {0, 2}), 0);
  return b.build("dot_general", {kept.v, g}, {{"a_contract", {0}}, {"b_contract", {0}}});
}

constexpr OpDraft ragged_dot() {
  OpDraft draft = op("ragged_dot", kComposite);
  draft.summary("Rows of x in groups of given sizes, each group times a matrix of its own.")
      .doc(
          "The first sizes[0] rows go with w[0], the next with w[1]; rows after all groups give "
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
      .bilinear({0, 1})
      .transposed<transpose>()
      .cost(TENON_COST_CONTRACTION)
      .tolerance(4);
  return draft;
}

TENON_OPS(ragged_dot, ragged_dot)

}  // namespace tenon::ops::ragged_dot
