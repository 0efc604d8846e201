// token and custom_call: ordering of effects, and work that only a plugin knows. (barrier is in
// complex.cpp.)
#include "control.h"

namespace tenon::ops::effects_op {

// ---- token ----

Status infer_token(const InferQuery& q) {
  return q.result_token();
}
// An evaluator that runs node by node has already done what the tokens wait for.
Status nothing(const Eval&) {
  return {};
}

constexpr OpDraft token() {
  OpDraft draft = op("token", TENON_TRAIT_PRIMITIVE | TENON_TRAIT_NO_RECOMPUTE);
  draft.summary("A token after all of its operands; without any, the first of a chain.")
      .doc(
          "Tokens carry no data. An op with effects takes one and gives one, so that the order of "
          "effects is an order of values.")
      .variadic("after", "tokens", 1u)
      .result("token", "ready when all operands are")
      .none_example("a token has no value to compare")
      .infer<infer_token>()
      .reference<nothing>()
      .cost(TENON_COST_FREE);
  return draft;
}

// ---- custom_call ----

Status infer_call(const InferQuery& q) {
  if (q.text("name").empty()) return q.fail("C1", "the name is empty");
  const tenon_attr_t& results = q.attr("results");
  for (uint64_t i = 0; i < results.count; ++i) {
    const tenon_type_t& type = results.u.types[i];
    if (type.kind != TENON_KIND_TENSOR) return q.fail("C2", cat("result ", i, " is not a tensor"));
    Dims dims;
    for (uint32_t d = 0; d < type.rank; ++d) dims.push_back(Dim(q.raw().graph, type.dims[d]));
    TENON_TRY(q.result(type.dtype, dims));
  }
  for (uint32_t i = 0; i < q.operand_count(); ++i) {
    if (q.type(i).kind() == TENON_KIND_TOKEN) TENON_TRY(q.result_token());
  }
  return {};
}
Status unknown_call(const Eval& e) {
  return fail(TENON_UNIMPLEMENTED, cat("custom_call: no device here knows ", quoted(e.text("name")),
                                       "; it needs the plugin whose kernels serve it"));
}

constexpr OpDraft custom_call() {
  // Not pure: only its plugin knows its effect, so no call may be removed, merged or repeated.
  OpDraft draft = op("custom_call", TENON_TRAIT_PRIMITIVE | TENON_TRAIT_NO_RECOMPUTE);
  draft.summary("Calls, by name, what only a plugin knows.")
      .doc(
          "The results have the types that the attribute says, whatever the operands are. A token "
          "among the operands orders the call "
          "among others that have effects, and gives a token after the results, in their order. A "
          "device takes the calls whose names "
          "it or its kernel sets know; there is no other meaning and nothing to decompose into. An "
          "operator of one's own that has a "
          "meaning is better declared by tenon.ops/1.")
      .variadic("operands", "any tensors and tokens", kWhole | 1u)
      .result("results", "as the attribute says, then one token for each among the operands")
      .attr_string("name", "what is called", "", "")
      .required()
      .attr({str("results"),
             str("types of the results; their dims are those of the call's place"),
             TENON_ATTR_TYPES,
             TENON_ATTR_REQUIRED,
             0,
             0,
             {},
             {}})
      .attr_string("config", "passed on to what is called", "", "")
      .constraint("C1", "it has a name",
                  "custom_call(f32[2]) {name = \"\", results = types [f32[2]]}")
      .constraint("C2", "results are tensors",
                  "custom_call(f32[2]) {name = \"f\", results = types [token]}")
      .none_example("only the plugin that knows the name can compute it")
      .infer<infer_call>()
      .reference<unknown_call>()
      .cost(TENON_COST_CONTRACTION);
  return draft;
}

TENON_OPS(effects, token, custom_call)

}  // namespace tenon::ops::effects_op
