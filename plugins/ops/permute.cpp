// permute: arrays move from process to process.
#include "collective.h"

namespace tenon::ops::permute_op {

// Source and target of each move: the list has them in turn.
Status check_pairs(const InferQuery& q, int64_t members) {
  const auto pairs = q.i64s("pairs");
  if (pairs.size() % 2 != 0)
    return q.fail("C1", cat("pairs has ", pairs.size(), " entries, which are no pairs"));
  std::vector<uint8_t> sends(static_cast<size_t>(members)), gets(sends);
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i] < 0 || pairs[i] >= members)
      return q.fail("C1",
                    cat("process ", pairs[i], " is not one of the ", members, " of the group"));
    uint8_t& is_used = (i % 2 == 0 ? sends : gets)[static_cast<size_t>(pairs[i])];
    if (is_used != 0)
      return q.fail("C2", cat("process ", pairs[i], i % 2 == 0 ? " sends" : " gets", " twice"));
    is_used = 1;
  }
  return {};
}

Status infer(const InferQuery& q) {
  Group group;
  TENON_TRY(read_group(q, &group));
  TENON_TRY(check_pairs(q, group.members()));
  return q.result(q.dtype(0), q.dims(0));
}

Status reference(const Eval& e) {
  bool is_alone = false;
  TENON_TRY(alone(e.text("mesh"), e, &is_alone));
  const Array x = e.input(0), y = e.output();
  if (!e.i64s("pairs").empty()) {
    each_index(y.dims(), [&](const Index& i) { y.copy_from(i, x, i); });
  } else if (y.count() != 0) {
    std::memset(y.at(Index(y.dims().size())), 0,
                static_cast<size_t>(y.count()) * dtype_bytes(y.dtype()));
  }
  return {};
}

Value stack(Builder& b, const Node& node, std::span<const Value> operands) {
  const Group group = Group::of(node);
  const Value x = group.grouped(b, operands[0]);
  const std::vector<int64_t> pairs = node.i64s("pairs");
  Dims one = x.dims();
  one[1] = b.dim(1);
  const Value nothing = b.splat(b.scalar_int(x.dtype(), 0), one);
  std::vector<Value> parts(static_cast<size_t>(group.members()), nothing);
  for (size_t i = 0; i < pairs.size(); i += 2) {
    Dims start, limit = x.dims();
    for (size_t d = 0; d < limit.size(); ++d) start.push_back(b.dim(0));
    start[1] = b.dim(pairs[i]);
    limit[1] = b.dim(pairs[i] + 1);
    parts[static_cast<size_t>(pairs[i + 1])] =
        b.build("slice", {x}, {{"start", start}, {"limit", limit}});
  }
  return group.stacked(b, parts.size() == 1 ? parts[0] : b.build("concat", parts, {{"dim", 1}}));
}

Value transpose(Builder& b, const Node& node, uint32_t, std::span<const Value> cotangents) {
  std::vector<int64_t> back = node.i64s("pairs");
  for (size_t i = 0; i < back.size(); i += 2) std::swap(back[i], back[i + 1]);
  return together(b, node, "permute", cotangents[0], {{"pairs", back}});
}

constexpr OpDraft declare() {
  OpDraft draft = op("permute", kCollective);
  draft.summary("x of another process of the group, or zeros.")
      .doc(
          "Each pair names the process that sends its array and the one that gets it, as places in "
          "the group. A process that no pair sends anything to gets zeros.")
      .operand("x", "what this process has", kWhole)
      .result("y", "same type as x")
      .attr(mesh_attr())
      .attr(axes_attr())
      .attr_i64s("pairs",
                 "source and target of each move, in turn: [0, 1, 1, 0] exchanges two "
                 "arrays")
      .constraint("M1", kMeshRule, "permute(f32[2]) {mesh = \"=2\", axes = \"data\"}")
      .constraint("M2", kAxesRule, "permute(f32[2]) {mesh = \"data=1\", axes = \"a\"}")
      .constraint("C1", "pairs has pairs of processes of the group",
                  "permute(f32[2]) {mesh = \"data=1\", axes = \"data\", pairs = [0, 1]}")
      .constraint("C2", "no process sends twice or gets twice",
                  "permute(f32[2]) {mesh = \"data=2\", axes = \"data\", pairs = [0, 1, 1, 1]}")
      .example(
          "permute(f32[2] [1, 2]) {mesh = \"data=1\", axes = \"data\", pairs = [0, 0]} -> "
          "f32[2] [1, 2]")
      .example("permute(f32[2] [1, 2]) {mesh = \"data=1\", axes = \"data\"} -> f32[2] [0, 0]")
      .infer<infer>()
      .reference<reference>()
      .stack<stack>()
      .linear({0})
      .transposed<transpose>()
      .batched({0})
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}

TENON_OPS(permute, declare)

}  // namespace tenon::ops::permute_op
