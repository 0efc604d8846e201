// all_gather: the arrays of several processes, one after the other.
#include "collective.h"

namespace tenon::ops::all_gather_op {

Status infer(const InferQuery& q) {
  Group group;
  TENON_TRY(read_group(q, &group));
  TENON_TRY(require_dim(q, "C1", q.i64("dim"), q.rank(0)));
  return infer_scaled(q, q.i64("dim"), group.members(), 1);
}

// The members become part of dim `dim`, then every member gets all.
Value stack(Builder& b, const Node& node, std::span<const Value> operands) {
  const Group group = Group::of(node);
  const Value x = group.grouped(b, operands[0]);
  const int64_t dim = node.i64("dim"), rank = node.operand(0).rank();
  Axes perm = {0};
  for (int64_t i = 0; i < rank; ++i) {
    if (i == dim) perm.push_back(1);
    perm.push_back(i + 2);
  }
  Dims shape = {x.dim(0)};
  const Dims own = node.result().dims();
  shape.insert(shape.end(), own.begin(), own.end());
  return group.for_all(b, Group::reshaped(b, Group::transposed(b, x, perm), shape));
}

Value fold(Builder& b, const Node& node) {
  return in_front(b, node, "dim");
}

Value transpose(Builder& b, const Node& node, uint32_t, std::span<const Value> cotangents) {
  return together(b, node, "reduce_scatter", cotangents[0], {{"dim", node.i64("dim")}});
}

constexpr OpDraft declare() {
  OpDraft draft = op("all_gather", kCollective);
  draft.summary("x of all processes of a group, concatenated along a dim.")
      .doc("Each process of the group gets the same result, in the order of the group.")
      .operand("x", "what this process has", kWhole, 0, 1)
      .result("y", "dim `dim` is that of x times the number of processes of the group")
      .attr(mesh_attr())
      .attr(axes_attr())
      .attr_i64("dim", "the dim along which the arrays are concatenated", 0)
      .role(TENON_ROLE_AXIS)
      .constraint("M1", kMeshRule, "all_gather(f32[2]) {mesh = \"1\", axes = \"data\"}")
      .constraint("M2", kAxesRule, "all_gather(f32[2]) {mesh = \"data=1\", axes = \"data,data\"}")
      .constraint("C1", "dim is a dim of x",
                  "all_gather(f32[2]) {mesh = \"data=1\", axes = \"data\", dim = 1}")
      .example("all_gather(f32[2] [1, 2]) {mesh = \"data=1\", axes = \"data\"} -> f32[2] [1, 2]")
      .infer<infer>()
      .reference<same_alone>()
      .stack<stack>()
      .fold<fold>()
      .linear({0})
      .transposed<transpose>()
      .batched({0})
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}

TENON_OPS(all_gather, declare)

}  // namespace tenon::ops::all_gather_op
