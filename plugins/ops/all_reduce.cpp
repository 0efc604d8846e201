// all_reduce: the combination of an array over processes.
#include "collective.h"

namespace tenon::ops::all_reduce_op {

Status infer(const InferQuery& q) {
  Group group;
  TENON_TRY(read_group(q, &group));
  return q.result(q.dtype(0), q.dims(0));
}

Value stack(Builder& b, const Node& node, std::span<const Value> operands) {
  const Group group = Group::of(node);
  return group.for_all(b, combined(b, node.text("kind"), group.grouped(b, operands[0])));
}

// Every result depends on every operand, so a cotangent is the sum of those of all members.
std::vector<Value> pull(Builder& b, const Node& node, std::span<const uint8_t>,
                        std::span<const Value> cotangents) {
  const Value sum = together(b, node, "all_reduce", cotangents[0]);
  if (node.text("kind") == "sum") return {sum};
  return {b.build("mul", {share_of(b, node, node.operand(0), node.result()), sum})};
}

std::vector<Value> jvp(Builder& b, const Node& node, std::span<const Value> tangents) {
  Value t = tangents[0];
  if (node.text("kind") != "sum")
    t = b.build("mul", {share_of(b, node, node.operand(0), node.result()), t});
  return {together(b, node, "all_reduce", t)};
}

constexpr OpDraft declare() {
  OpDraft draft = op("all_reduce", kCollective);
  draft.summary("Element by element, x of all processes of a group combined.")
      .doc(
          "Each process of the group gets the same result. The order of the sum is the engine's. "
          "f16 and bf16 are added in f32 and rounded once.")
      .operand("x", "what this process has", kNumber)
      .result("y", "same type as x")
      .attr(mesh_attr())
      .attr(axes_attr())
      .attr(combine_attr())
      .constraint("M1", kMeshRule, "all_reduce(f32[2]) {mesh = \"data\", axes = \"data\"}")
      .constraint("M2", kAxesRule, "all_reduce(f32[2]) {mesh = \"data=1\", axes = \"model\"}")
      .example("all_reduce(f32[2] [1, 2]) {mesh = \"data=1\", axes = \"data\"} -> f32[2] [1, 2]")
      .infer<infer>()
      .reference<same_alone>()
      .stack<stack>()
      .pull<pull>()
      .jvp<jvp>()
      .batched({0})
      .cost(TENON_COST_REDUCTION);
  return draft;
}

TENON_OPS(all_reduce, declare)

}  // namespace tenon::ops::all_reduce_op
