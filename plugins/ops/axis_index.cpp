// axis_index: which process this is.
#include "collective.h"

namespace tenon::ops::axis_index_op {

Status infer(const InferQuery& q) {
  Group group;
  TENON_TRY(read_group(q, &group));
  return q.result(TENON_I64, {});
}

Status reference(const Eval& e) {
  bool is_alone = false;
  TENON_TRY(alone(e.text("mesh"), e, &is_alone));
  store_int(TENON_I64, e.output().at({}), 0);
  return {};
}

Value stack(Builder& b, const Node& node, std::span<const Value>) {
  const Group group = Group::of(node);
  const int64_t groups = group.mesh().rank_count() / group.members();
  const Dims shape = {b.dim(groups), b.dim(group.members())};
  const Value places = b.build("iota", std::vector<Value>{},
                               {{"shape", shape}, {"dim", 1}, {"dtype", dtype(TENON_I64)}});
  return group.stacked(b, places);
}

constexpr OpDraft declare() {
  OpDraft draft = op("axis_index", kCollective);
  draft.summary("The place of this process in its group.")
      .result("y", "i64, rank 0")
      .attr(mesh_attr())
      .attr(axes_attr())
      .constraint("M1", kMeshRule, "axis_index() {mesh = \"data=x\", axes = \"data\"}")
      .constraint("M2", kAxesRule, "axis_index() {mesh = \"data=1\", axes = \"model\"}")
      .example("axis_index() {mesh = \"data=1,model=1\", axes = \"data\"} -> i64[] 0")
      .infer<infer>()
      .reference<reference>()
      .stack<stack>()
      .no_derivative("its result is an index")
      .cost(TENON_COST_FREE);
  return draft;
}

TENON_OPS(axis_index, declare)

}  // namespace tenon::ops::axis_index_op
