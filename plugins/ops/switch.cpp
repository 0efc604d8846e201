// switch: one of several regions, chosen by a number at run time.
#include "control.h"

namespace tenon::ops::switch_op {

// The dim of all regions if they agree, else a data-dependent one.
Dim joined(const InferQuery& q, const std::vector<Value>& yields, uint32_t d) {
  bool same = !is_inner(region_of(q, 0), yields[0].dim(d));
  DimRange range = range_of(yields[0].dim(d));
  for (uint32_t r = 1; r < yields.size(); ++r) {
    same = same && surely_equal(yields[0].dim(d), yields[r].dim(d));
    const DimRange other = range_of(yields[r].dim(d));
    range = {std::min(range.lo, other.lo), std::max(range.hi, other.hi)};
  }
  return same ? yields[0].dim(d) : fresh_dim(q, range.lo, range.hi);
}

Status infer(const InferQuery& q) {
  const uint32_t regions = q.raw().region_count;
  if (regions == 0) return q.fail("C1", "there are no regions");
  if (q.dtype(0) == TENON_PRED && regions != 2) {
    return q.fail("C1", cat("a predicate chooses between 2 regions, there are ", regions));
  }
  std::vector<std::vector<Value>> yields;
  for (uint32_t r = 0; r < regions; ++r) {
    TENON_TRY(require_arguments(q, "C2", region_of(q, r), 1, q.operand_count() - 1, false));
    yields.push_back(region_of(q, r).yields());
    if (yields[r].size() != yields[0].size()) {
      return q.fail("C3", cat("region ", r, " yields ", yields[r].size(),
                              " values, region 0 yields ", yields[0].size()));
    }
  }
  for (uint32_t i = 0; i < yields[0].size(); ++i) {
    std::vector<Value> column;
    for (const std::vector<Value>& list : yields) column.push_back(list[i]);
    for (uint32_t r = 1; r < regions; ++r) {
      TENON_TRY(require_form(q, "C3", column[0].type(), column[r].type(),
                             cat("yield ", i, " of regions 0 and ", r)));
    }
    Dims dims;
    for (uint32_t d = 0; d < column[0].rank(); ++d) dims.push_back(joined(q, column, d));
    TENON_TRY(q.result(column[0].dtype(), dims));
  }
  return {};
}

Status reference(const Eval& e) {
  const Array index = e.input(0);
  const int64_t last = static_cast<int64_t>(e.raw().region_count) - 1;
  const int64_t chosen = std::clamp<int64_t>(load_int(index.dtype(), index.at({})), 0, last);
  Arrays out = rooms_for(e.raw().output_count);
  TENON_TRY(
      run_region(e, static_cast<uint32_t>(chosen), operands_from(e, 1, e.input_count()), &out));
  for (uint32_t i = 0; i < out.size(); ++i) TENON_TRY(give_output(e, i, out[i]));
  return {};
}

constexpr OpDraft declare() {
  OpDraft draft = op("switch", kPrimitive | TENON_TRAIT_DEFINES_SYMBOL | TENON_TRAIT_NO_RECOMPUTE);
  draft.summary("Runs one of its regions, chosen by index.")
      .doc(
          "A predicate chooses region 1 when it holds, else region 0; an integer is clamped to the "
          "regions that there "
          "are. The regions take the other operands as arguments and may use any value that is "
          "visible where the op "
          "stands. A dim of a result that differs between regions is a symbol that the op defines.")
      .operand("index", "which region",
               dtype_bit(TENON_PRED) | dtype_bit(TENON_I32) | dtype_bit(TENON_I64), 0, 0, 0)
      .variadic("x", "arguments of the regions", kTensor)
      .result("y", "what the region yields")
      .constraint("C1", "there is a region, and two where the index is a predicate",
                  "switch(i32[] 0)")
      .constraint("C2", "every region takes the operands after index",
                  "switch(i32[] 0, f32[2]) regions { (%a: f32[3]) { yield %a } }")
      .constraint("C3", "the regions yield equally many values of equal element types and ranks",
                  "switch(pred[] 0, f32[2]) regions { (%a: f32[2]) { yield %a } (%b: f32[2]) { "
                  "yield %b, %b } }")
      .example(
          "switch(pred[] 1, f32[2] [1, 2]) regions { (%a: f32[2]) { yield %a } (%b: f32[2]) { %c = "
          "neg(%b) yield %c } } "
          "-> f32[2] [-1, -2]")
      .example(
          "switch(i32[] 7) regions { { %a = const i32[] 1 yield %a } { %b = const i32[] 2 yield %b "
          "} "
          "{ %c = const i32[] 3 yield %c } } -> i32[] 3")
      .infer<infer>()
      .reference<reference>()
      .cost(TENON_COST_FREE);
  return draft;
}

TENON_OPS(switch, declare)

}  // namespace tenon::ops::switch_op
