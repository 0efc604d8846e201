// dim_size: an extent as a value; leads from shapes into shape arithmetic.
#include "common.h"

namespace tenon::ops::dim_size_op {

Status infer(const InferQuery& q) {
  TENON_TRY(require_dim(q, "C1", q.i64("dim"), q.rank(0)));
  return q.result(TENON_I64, {});
}
Status value_of(const InferQuery& q, uint32_t, tenon_dim_t* out) {
  *out = q.dim(0, static_cast<uint32_t>(q.i64("dim"))).raw();
  return {};
}
Status reference(const Eval& e) {
  store_int(TENON_I64, e.output().at({}), e.input(0).dim(static_cast<size_t>(e.i64("dim"))));
  return {};
}
Value fold(Builder& b, const Node& node) {
  const Dim d = node.operand(0).dim(static_cast<uint32_t>(node.i64("dim")));
  return d.is_constant() ? b.scalar_int(TENON_I64, d.constant()) : Value();
}

// The extent is the same in all samples.
tenon_code_t batch(void*, const tenon_builder_t* at, tenon_node_t id, const tenon_value_t* operands,
                   const uint8_t*, tenon_dim_t, tenon_value_t* out, uint8_t* out_batched) noexcept {
  return detail::guarded(context().host, [&] {
    Builder b(*at);
    const int64_t dim = Node(at->graph, id).i64("dim");
    out_batched[0] = 0;
    const Value x(at->graph, operands[0]);
    return b.finish(out, {b.build("dim_size", {x}, {{"dim", dim + 1}})});
  });
}

constexpr OpDraft declare() {
  OpDraft draft = op("dim_size", kPrimitive);
  draft.summary("The extent of a dim of x, as i64 of rank 0.")
      .operand("x", "any tensor; its elements are not read", kWhole, 0, 1)
      .result("size", "i64 of rank 0")
      .attr_i64("dim", "the dim", 0)
      .constraint("C1", "dim is a dim of x", "dim_size(f32[2]) {dim = 1}")
      .example("dim_size(f32[2, 3] [[1, 2, 3], [4, 5, 6]]) {dim = 1} -> i64[] 3")
      .infer<infer>()
      .value_of<value_of>()
      .reference<reference>()
      .fold<fold>()
      .cost(TENON_COST_FREE);
  draft.rules().batch = &batch;
  return draft;
}

TENON_OPS(dim_size, declare)

}  // namespace tenon::ops::dim_size_op
