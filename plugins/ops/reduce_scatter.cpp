// reduce_scatter: each process gets its part of the combination.
#include "collective.h"

namespace tenon::ops::reduce_scatter_op {

Status infer(const InferQuery& q) {
  Group group;
  TENON_TRY(read_group(q, &group));
  TENON_TRY(require_dim(q, "C1", q.i64("dim"), q.rank(0)));
  TENON_TRY(require_divisible(q, "C2", q.i64("dim"), group.members()));
  return infer_scaled(q, q.i64("dim"), 1, group.members());
}

// [G, ..., M, d, ...] with the members in front: [G, M, ..., d, ...].
Value stack(Builder& b, const Node& node, std::span<const Value> operands) {
  const Group group = Group::of(node);
  const Value all = combined(b, node.text("kind"), group.grouped(b, operands[0]));
  const int64_t dim = node.i64("dim"), rank = node.operand(0).rank();
  const Dims own = node.result().dims();
  Dims shape = {all.dim(0)};
  Axes perm = {0, dim + 1};
  for (int64_t i = 0; i < rank; ++i) {
    if (i == dim) shape.push_back(b.dim(group.members()));
    shape.push_back(own[static_cast<size_t>(i)]);
    perm.push_back(i < dim ? i + 1 : i + 2);
  }
  return group.stacked(b, Group::transposed(b, Group::reshaped(b, all, shape), perm));
}

Value fold(Builder& b, const Node& node) {
  return in_front(b, node, "dim");
}

Value gathered(Builder& b, const Node& node, Value part) {
  return together(b, node, "all_gather", part, {{"dim", node.i64("dim")}});
}

std::vector<Value> pull(Builder& b, const Node& node, std::span<const uint8_t>,
                        std::span<const Value> cotangents) {
  const Value all = gathered(b, node, cotangents[0]);
  if (node.text("kind") == "sum") return {all};
  const Value share = share_of(b, node, node.operand(0), gathered(b, node, node.result()));
  return {b.build("mul", {share, all})};
}

std::vector<Value> jvp(Builder& b, const Node& node, std::span<const Value> tangents) {
  Value t = tangents[0];
  if (node.text("kind") != "sum") {
    const Value share = share_of(b, node, node.operand(0), gathered(b, node, node.result()));
    t = b.build("mul", {share, t});
  }
  return {together(b, node, "reduce_scatter", t, {{"dim", node.i64("dim")}})};
}

constexpr OpDraft declare() {
  OpDraft draft = op("reduce_scatter", kCollective);
  draft.summary("A part of the combination of x of all processes of a group.")
      .doc(
          "Dim `dim` of the combination is cut into equal parts. Process i of the group gets part "
          "i. The order of the sum is the engine's. f16 and bf16 are added in f32 and rounded "
          "once.")
      .operand("x", "what this process has", kNumber, 0, 1)
      .result("y", "dim `dim` is that of x divided by the number of processes of the group")
      .attr(mesh_attr())
      .attr(axes_attr())
      .attr(combine_attr())
      .attr_i64("dim", "the dim that is divided among the processes", 0)
      .role(TENON_ROLE_AXIS)
      .constraint("M1", kMeshRule, "reduce_scatter(f32[2]) {mesh = \"\", axes = \"data\"}")
      .constraint("M2", kAxesRule, "reduce_scatter(f32[2]) {mesh = \"data=1\", axes = \"\"}")
      .constraint("C1", "dim is a dim of x",
                  "reduce_scatter(f32[2]) {mesh = \"data=1\", axes = \"data\", dim = -1}")
      .constraint("C2", "dim is a multiple of the number of processes",
                  "reduce_scatter(f32[3]) {mesh = \"data=2\", axes = \"data\"}")
      .example(
          "reduce_scatter(f32[2] [1, 2]) {mesh = \"data=1\", axes = \"data\"} -> "
          "f32[2] [1, 2]")
      .infer<infer>()
      .reference<same_alone>()
      .stack<stack>()
      .fold<fold>()
      .pull<pull>()
      .jvp<jvp>()
      .batched({0})
      .cost(TENON_COST_REDUCTION);
  return draft;
}

TENON_OPS(reduce_scatter, declare)

}  // namespace tenon::ops::reduce_scatter_op
