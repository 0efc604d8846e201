// broadcast_from: every process gets the array of one.
#include "collective.h"

namespace tenon::ops::broadcast_from_op {

Status infer(const InferQuery& q) {
  Group group;
  TENON_TRY(read_group(q, &group));
  if (q.i64("root") < 0 || q.i64("root") >= group.members()) {
    return q.fail("C1", cat("process ", q.i64("root"), " is not one of the ", group.members(),
                            " of the group"));
  }
  return q.result(q.dtype(0), q.dims(0));
}

Value stack(Builder& b, const Node& node, std::span<const Value> operands) {
  const Group group = Group::of(node);
  const Value x = group.grouped(b, operands[0]);
  Dims start, limit = x.dims(), shape = {x.dim(0)};
  for (size_t d = 0; d < limit.size(); ++d) start.push_back(b.dim(0));
  start[1] = b.dim(node.i64("root"));
  limit[1] = b.dim(node.i64("root") + 1);
  const Value one = b.build("slice", {x}, {{"start", start}, {"limit", limit}});
  const Dims rest = Group::tail(x, 2);
  shape.insert(shape.end(), rest.begin(), rest.end());
  return group.for_all(b, Group::reshaped(b, one, shape));
}

// The root gets the sum of all cotangents, the others nothing.
Value transpose(Builder& b, const Node& node, uint32_t, std::span<const Value> cotangents) {
  const Value sum = together(b, node, "all_reduce", cotangents[0]);
  const Attrs group = {Attr("mesh", node.text("mesh")), Attr("axes", node.text("axes"))};
  const Value index = b.build_node("axis_index", std::vector<Value>{}, group).result(0);
  const Value is_root = b.build("compare", {index, b.scalar_int(TENON_I64, node.i64("root"))},
                                {{"direction", TENON_CMP_EQ}});
  return b.build("select", {is_root, sum, b.splat(b.scalar_int(sum.dtype(), 0), sum.dims())});
}

constexpr OpDraft declare() {
  OpDraft draft = op("broadcast_from", kCollective);
  draft.summary("x of one process of the group.")
      .operand("x", "what this process has; only that of the root matters", kWhole)
      .result("y", "same type as x")
      .attr(mesh_attr())
      .attr(axes_attr())
      .attr_i64("root", "the place in the group of the process whose array all get", 0)
      .constraint("M1", kMeshRule, "broadcast_from(f32[2]) {mesh = \"a=1,a=1\", axes = \"a\"}")
      .constraint("M2", kAxesRule, "broadcast_from(f32[2]) {mesh = \"data=1\", axes = \"a\"}")
      .constraint("C1", "root is a process of the group",
                  "broadcast_from(f32[2]) {mesh = \"data=2\", axes = \"data\", root = 2}")
      .example(
          "broadcast_from(f32[2] [1, 2]) {mesh = \"data=1\", axes = \"data\"} -> "
          "f32[2] [1, 2]")
      .infer<infer>()
      .reference<same_alone>()
      .stack<stack>()
      .linear({0})
      .transposed<transpose>()
      .batched({0})
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}

TENON_OPS(broadcast_from, declare)

}  // namespace tenon::ops::broadcast_from_op
