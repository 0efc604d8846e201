// all_to_all: every process sends a part of its array to every other.
#include "collective.h"

namespace tenon::ops::all_to_all_op {

Status infer(const InferQuery& q) {
  Group group;
  TENON_TRY(read_group(q, &group));
  const int64_t split = q.i64("split_dim"), concat = q.i64("concat_dim");
  TENON_TRY(require_dim(q, "C1", split, q.rank(0)));
  TENON_TRY(require_dim(q, "C1", concat, q.rank(0)));
  TENON_TRY(require_divisible(q, "C2", split, group.members()));
  Dims dims = q.dims(0);
  const Dim members = q.constant(group.members());
  Dim& cut = dims[static_cast<size_t>(split)];
  cut = cut / members;
  Dim& grown = dims[static_cast<size_t>(concat)];
  grown = grown * members;
  return q.result(q.dtype(0), dims);
}

// [G, source, ..., target, split, ...] becomes [G, target, ..., source, concat, ...].
Value stack(Builder& b, const Node& node, std::span<const Value> operands) {
  const Group group = Group::of(node);
  const Value x = group.grouped(b, operands[0]);
  const int64_t split = node.i64("split_dim"), concat = node.i64("concat_dim");
  const Dim members = b.dim(group.members());
  Dims apart = {x.dim(0), x.dim(1)};
  Axes perm = {0, split + 2};
  for (uint32_t i = 0; i < node.operand(0).rank(); ++i) {
    Dim d = x.dim(i + 2);
    if (i == split) {
      apart.push_back(members);
      d = d / members;
    }
    apart.push_back(d);
    if (i == concat) perm.push_back(1);
    perm.push_back(i < split ? i + 2 : i + 3);
  }
  const Value turned = Group::transposed(b, Group::reshaped(b, x, apart), perm);
  Dims shape = {x.dim(0), x.dim(1)};
  const Dims own = node.result().dims();
  shape.insert(shape.end(), own.begin(), own.end());
  return group.stacked(b, Group::reshaped(b, turned, shape));
}

// Engines move parts along dim 0. The parts that arrive lie along a dim of their own, which then
// moves to where they are concatenated.
Value fold(Builder& b, const Node& node) {
  const int64_t split = node.i64("split_dim"), concat = node.i64("concat_dim");
  if (split == 0 && concat == 0) return {};
  const Value x = node.operand(0);
  const auto rank = static_cast<int64_t>(x.rank());
  const Dim members = b.dim(Group::of(node).members());
  Axes front = {split};
  for (const int64_t i : others(rank, front)) front.push_back(i);
  const Value moved = together(b, node, "all_to_all", Group::transposed(b, x, front),
                               {{"split_dim", 0}, {"concat_dim", 0}});
  // [members, split part, others...] to the order of x, with the members before `concat`.
  Dims apart = {members};
  Axes perm;
  for (int64_t i = 0; i < rank; ++i) {
    const Dim d = moved.dim(static_cast<uint32_t>(i));
    apart.push_back(i == 0 ? d / members : d);
    if (i == concat) perm.push_back(0);
    perm.push_back(i == split ? 1 : i < split ? i + 2 : i + 1);
  }
  const Value turned = Group::transposed(b, Group::reshaped(b, moved, apart), perm);
  return Group::reshaped(b, turned, node.result().dims());
}

Value transpose(Builder& b, const Node& node, uint32_t, std::span<const Value> cotangents) {
  return together(b, node, "all_to_all", cotangents[0],
                  {{"split_dim", node.i64("concat_dim")}, {"concat_dim", node.i64("split_dim")}});
}

constexpr OpDraft declare() {
  OpDraft draft = op("all_to_all", kCollective);
  draft.summary("Part i of x of every process of a group, concatenated, for process i.")
      .doc(
          "Dim `split_dim` of x is cut into equal parts, one for each process of the group. The "
          "parts that a process gets are concatenated along `concat_dim`, in the order of the "
          "group.")
      .operand("x", "what this process has", kWhole, 0, 1)
      .result("y",
              "dim `split_dim` is divided by the number of processes of the group, and "
              "`concat_dim` multiplied by it")
      .attr(mesh_attr())
      .attr(axes_attr())
      .attr_i64("split_dim", "the dim that is divided among the processes", 0)
      .role(TENON_ROLE_AXIS)
      .attr_i64("concat_dim", "the dim along which the parts are concatenated", 0)
      .role(TENON_ROLE_AXIS)
      .constraint("M1", kMeshRule, "all_to_all(f32[2]) {mesh = \"data=0\", axes = \"data\"}")
      .constraint("M2", kAxesRule, "all_to_all(f32[2]) {mesh = \"data=1\", axes = \"x\"}")
      .constraint("C1", "split_dim and concat_dim are dims of x",
                  "all_to_all(f32[2]) {mesh = \"data=1\", axes = \"data\", concat_dim = 1}")
      .constraint("C2", "split_dim is a multiple of the number of processes",
                  "all_to_all(f32[3]) {mesh = \"data=2\", axes = \"data\"}")
      .example("all_to_all(f32[2] [1, 2]) {mesh = \"data=1\", axes = \"data\"} -> f32[2] [1, 2]")
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

TENON_OPS(all_to_all, declare)

}  // namespace tenon::ops::all_to_all_op
