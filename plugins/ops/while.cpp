// while: repeats a body as long as a condition holds.
#include "control.h"

namespace tenon::ops::while_op {

// The dim of a carried value after the loop; data-dependent if the body leaves it open.
Dim carried_dim(const InferQuery& q, Region body, Dim argument) {
  if (!is_open(body, argument)) return argument;
  const tenon_symbol_view_t symbol = symbol_view(argument.graph(), *bare_symbol(argument));
  return fresh_dim(q, symbol.lo, symbol.hi, symbol.multiple_of);
}

Status infer(const InferQuery& q) {
  if (q.raw().region_count != 2)
    return q.fail("C1", cat("there are ", q.raw().region_count, " regions"));
  const Region condition = region_of(q, 0), body = region_of(q, 1);
  const uint32_t count = q.operand_count();
  TENON_TRY(require_arguments(q, "C2", condition, 0, count, true));
  TENON_TRY(require_arguments(q, "C2", body, 0, count, true));
  const std::vector<Value> answer = condition.yields(), yields = body.yields();
  if (answer.size() != 1 || answer[0].dtype() != TENON_PRED || answer[0].rank() != 0) {
    return q.fail("C3", "region 0 yields something other than one predicate of rank 0");
  }
  if (yields.size() < count) {
    return q.fail(
        "C4", cat("the body yields ", yields.size(), " values for ", count, " that are carried"));
  }
  for (uint32_t i = 0; i < count; ++i) {
    TENON_TRY(require_carried(q, "C4", body, i));
    for (uint32_t d = 0; d < q.rank(i); ++d) {
      const bool open = is_open(body, body.arguments()[i].dim(d));
      if (open != is_open(condition, condition.arguments()[i].dim(d))) {
        return q.fail(
            "C2", cat("dim ", d, " of value ", i, " is open in one region and not in the other"));
      }
    }
  }
  for (uint32_t i = 0; i < count; ++i) {
    Dims dims;
    for (const Dim& d : body.arguments()[i].dims()) dims.push_back(carried_dim(q, body, d));
    TENON_TRY(q.result(yields[i].dtype(), dims));
  }
  if (yields.size() == count) return {};
  const int64_t most = q.i64("max_trip");
  const Dim trips = fresh_dim(q, 0, most < 0 ? std::numeric_limits<int64_t>::max() : most);
  for (size_t i = count; i < yields.size(); ++i) {
    Dims dims;
    TENON_TRY(require_outside(q, "C5", body, yields[i], &dims));
    if (yields[i].view().type.kind != TENON_KIND_TENSOR)
      return q.fail("C5", "a collected value is not a tensor");
    dims.insert(dims.begin(), trips);
    TENON_TRY(q.result(yields[i].dtype(), dims));
  }
  return {};
}

// The values of one collected result, one iteration after another.
struct Collected {
  std::vector<std::byte> bytes;
  std::vector<int64_t> dims;
  Status add(const tenon_array_t& iteration) {
    const Array array(iteration);
    if (bytes.empty()) dims.assign(array.dims().begin(), array.dims().end());
    if (!std::equal(dims.begin(), dims.end(), array.dims().begin(), array.dims().end())) {
      return fail(
          TENON_INVALID_ARGUMENT,
          "T0324: while: a collected value changed its size from one iteration to the next");
    }
    each_index(array.dims(), [&](const Index& at) {
      bytes.insert(bytes.end(), array.at(at), array.at(at) + array.element_bytes());
    });
    return {};
  }
};

// Checks that a carried value keeps the sizes that its type fixes.
Status check_carried(const Eval& e, uint32_t i, const tenon_array_t& next) {
  const tenon_array_t& fixed = *tenon_array_at(e.raw().outputs, i);
  for (uint32_t d = 0; d < next.rank; ++d) {
    if (fixed.dims[d] < 0 || fixed.dims[d] == next.dims[d]) continue;
    return fail(TENON_INVALID_ARGUMENT,
                cat("T0324: while: dim ", d, " of carried value ", i, " was ", fixed.dims[d],
                    " and became ", next.dims[d],
                    " in an iteration; only dims that are symbols of the body may change"));
  }
  return {};
}

Status reference(const Eval& e) {
  const uint32_t count = e.input_count();
  const int64_t most = e.i64("max_trip");
  Arrays carried = operands_from(e, 0, count), holds = rooms_for(1),
         iteration = rooms_for(e.raw().output_count);
  std::vector<Collected> collected(e.raw().output_count - count);
  int64_t trips = 0;
  for (; most < 0 || trips < most; ++trips) {
    TENON_TRY(run_region(e, 0, carried, &holds));
    if (load_int(TENON_PRED, static_cast<const std::byte*>(holds[0].data)) == 0) break;
    TENON_TRY(run_region(e, 1, carried, &iteration));
    for (uint32_t i = 0; i < count; ++i) TENON_TRY(check_carried(e, i, iteration[i]));
    std::copy_n(iteration.begin(), count, carried.begin());
    for (size_t k = 0; k < collected.size(); ++k) TENON_TRY(collected[k].add(iteration[count + k]));
  }
  for (uint32_t i = 0; i < count; ++i) TENON_TRY(give_output(e, i, carried[i]));
  for (uint32_t k = 0; k < collected.size(); ++k) {
    const tenon_array_t& known = *tenon_array_at(e.raw().outputs, count + k);
    std::vector<int64_t> dims(known.dims, known.dims + known.rank);
    dims[0] = trips;
    TENON_TRY(e.raw().alloc_output(e.raw().host, count + k, dims.data(), known.rank));
    if (!collected[k].bytes.empty()) {
      std::memcpy(tenon_array_at(e.raw().outputs, count + k)->data, collected[k].bytes.data(),
                  collected[k].bytes.size());
    }
  }
  return {};
}

constexpr OpDraft declare() {
  OpDraft draft = op("while", kPrimitive | TENON_TRAIT_DEFINES_SYMBOL | TENON_TRAIT_NO_RECOMPUTE);
  draft.summary("Runs its body as long as its condition holds.")
      .doc(
          "Region 0 is the condition, region 1 the body; both take the carried values, which begin "
          "as the operands. The "
          "body yields the next carried values, and after them any number of values that are "
          "collected: each becomes a "
          "result with a new first dim, the number of iterations. A dim of an argument that is a "
          "symbol "
          "of the region may change "
          "from iteration to iteration. With max_trip at least 0 the loop ends after so many "
          "iterations at the "
          "latest.")
      .variadic("x", "the carried values at the beginning", kTensor)
      .result("y", "the carried values at the end, then the collected ones")
      .attr_i64("max_trip", "most iterations; -1: no bound", -1)
      .constraint("C1", "there are two regions", "while(i32[] 0)")
      .constraint(
          "C2",
          "both regions take the operands; dims that may change are symbols of their own in both",
          "while(i32[] 0) regions { { %c = const pred[] 0 yield %c } (%i: i32[]) { yield %i } }")
      .constraint("C3", "region 0 yields one pred of rank 0",
                  "while(i32[] 0) regions { (%i: i32[]) { yield %i } (%j: i32[]) { yield %j } }")
      .constraint("C4", "the body yields a next value of the same type for each carried one",
                  "while(i32[] 0) regions { (%i: i32[]) { %c = const pred[] 0 yield %c } (%j: "
                  "i32[]) { %k = const f32[] 0 "
                  "yield %k } }")
      .constraint("C5", "collected values have a size that is known outside of the body",
                  "while(f32[2]) regions { <n>(%a: f32[n]) { %c = const pred[] 0 yield %c } "
                  "<m>(%b: f32[m]) { yield %b, %b } }")
      .example(
          "while(i32[] 1) regions { (%i: i32[]) { %n = const i32[] 100 %c = compare(%i, %n) "
          "{direction = 2} yield %c } "
          "(%j: i32[]) { %k = add(%j, %j) yield %k } } -> i32[] 128")
      .example(
          "while(i32[] 1) {max_trip = 3} regions { (%i: i32[]) { %c = const pred[] 1 yield %c } "
          "(%j: i32[]) { %k = add(%j, "
          "%j) yield %k } } -> i32[] 8")
      .infer<infer>()
      .reference<reference>()
      .cost(TENON_COST_FREE);
  return draft;
}

TENON_OPS(while, declare)

}  // namespace tenon::ops::while_op
