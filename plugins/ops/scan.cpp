// scan: runs a body over the slices of values along their first dim.
#include "control.h"
#include "flag.h"

namespace tenon::ops::scan_op {

Status infer(const InferQuery& q) {
  if (q.raw().region_count != 1)
    return q.fail("C1", cat("there are ", q.raw().region_count, " regions"));
  const int64_t carry = q.i64("carry");
  if (carry < 0 || carry > static_cast<int64_t>(q.operand_count())) {
    return q.fail("C2", cat("carry is ", carry, " of ", q.operand_count(), " operands"));
  }
  const auto first = static_cast<uint32_t>(carry);
  const Dims given = q.dims("length");
  if (given.size() > 1 || (given.empty() && first == q.operand_count())) {
    return q.fail("C3", cat("length has ", given.size(), " entries and ", q.operand_count() - first,
                            " operands are cut"));
  }
  const Region body = region_of(q, 0);
  const std::vector<Value> arguments = body.arguments(), yields = body.yields();
  if (arguments.size() != q.operand_count()) {
    return q.fail("C4", cat("the body has ", arguments.size(), " arguments for ", q.operand_count(),
                            " values"));
  }
  for (uint32_t i = 0; i < first; ++i)
    TENON_TRY(require_argument(q, "C4", body, i, q.type(i), false));
  Dim length = given.empty() ? Dim() : given[0];
  for (uint32_t i = first; i < q.operand_count(); ++i) {
    if (q.rank(i) == 0) return q.fail("C3", cat("operand ", i, " has no dim to be cut along"));
    if (!length.valid()) length = q.dim(i, 0);
    TENON_TRY(
        q.require_equal("C3", length, q.dim(i, 0), cat("the length and dim 0 of operand ", i)));
    tenon_type_t slice = q.raw().operands[i];
    slice.rank -= 1;
    slice.dims += 1;
    TENON_TRY(require_argument(q, "C4", body, i, TypeView(q.raw().graph, slice), false));
  }
  if (yields.size() < first)
    return q.fail("C5", cat("the body yields ", yields.size(), " of ", first, " carried values"));
  for (uint32_t i = 0; i < first; ++i) {
    TENON_TRY(require_carried(q, "C5", body, i));
    TENON_TRY(q.result(q.dtype(i), q.dims(i)));
  }
  for (size_t i = first; i < yields.size(); ++i) {
    Dims dims;
    TENON_TRY(require_outside(q, "C5", body, yields[i], &dims));
    if (yields[i].view().type.kind != TENON_KIND_TENSOR)
      return q.fail("C5", "a yield is not a tensor");
    dims.insert(dims.begin(), length);
    TENON_TRY(q.result(yields[i].dtype(), dims));
  }
  return {};
}

Status reference(const Eval& e) {
  const auto carry = static_cast<uint32_t>(e.i64("carry"));
  const int64_t length = e.i64s("length").empty() ? e.input(carry).dim(0) : e.i64s("length")[0];
  const bool reverse = e.i64("reverse") != 0;
  Arrays in = operands_from(e, 0, e.input_count()), out = rooms_for(e.raw().output_count);
  for (int64_t iteration = 0; iteration < length; ++iteration) {
    const int64_t at = reverse ? length - 1 - iteration : iteration;
    for (uint32_t i = carry; i < e.input_count(); ++i)
      in[i] = slice_at(*tenon_array_at(e.raw().inputs, i), at);
    TENON_TRY(run_region(e, 0, in, &out));
    std::copy_n(out.begin(), carry, in.begin());
    for (uint32_t i = carry; i < out.size(); ++i) {
      const tenon_array_t to = slice_at(*tenon_array_at(e.raw().outputs, i), at);
      const Array source(out[i]);
      if (!std::equal(to.dims, to.dims + to.rank, source.dims().begin(), source.dims().end())) {
        return fail(TENON_INVALID_ARGUMENT,
                    cat("T0324: scan: yield ", i, " has another size than was declared"));
      }
      each_index(source.dims(),
                 [&](const Index& index) { Array(to).copy_from(index, source, index); });
    }
  }
  for (uint32_t i = 0; i < carry; ++i) TENON_TRY(give_output(e, i, in[i]));
  return {};
}

constexpr OpDraft declare() {
  OpDraft draft = op("scan", kPrimitive | TENON_TRAIT_NO_RECOMPUTE);
  draft.summary("Runs its body once for each slice along the first dim of its operands.")
      .doc(
          "The first `carry` operands are carried: the body takes them, and yields the next. The "
          "other operands are cut "
          "along dim 0: the body takes one slice of each. What it yields after the carried values "
          "is put together along a "
          "new first dim, each at the place of its slice. With reverse the slices come last to "
          "first.")
      .variadic("x", "the carried values at the beginning, then the values to cut", kTensor)
      .result("y", "the carried values at the end, then one value per further yield")
      .attr_i64("carry", "how many operands are carried", 0)
      .attr_dims("length", "the number of iterations; may be left out where an operand is cut")
      .attr(flag("reverse", "1: last slice first", 0))
      .constraint("C1", "there is one region", "scan(f32[2, 3])")
      .constraint("C2", "carry is in [0, operands]",
                  "scan(f32[2]) {carry = 2} regions { (%a: f32[]) { yield %a } }")
      .constraint("C3", "the operands to cut have the length as dim 0",
                  "scan(f32[2], f32[3]) regions { (%a: f32[], %b: f32[]) { yield %a } }")
      .constraint("C4", "the body takes the carried values and the slices",
                  "scan(f32[2]) regions { (%a: f32[2]) { yield %a } }")
      .constraint("C5",
                  "the body yields the next carried values, and values whose size is known outside",
                  "scan(f32[], f32[2]) {carry = 1} regions { (%a: f32[], %b: f32[]) { %c = const "
                  "i32[] 0 yield %c } }")
      .example(
          "scan(f32[] 0, f32[3] [1, 2, 3]) {carry = 1} regions { (%a: f32[], %b: f32[]) { %c = "
          "add(%a, %b) yield %c, %c } } "
          "-> f32[] 6, f32[3] [1, 3, 6]")
      .example(
          "scan(f32[] 0, f32[3] [1, 2, 3]) {carry = 1, reverse = 1} regions { (%a: f32[], %b: "
          "f32[]) { %c = add(%a, %b) "
          "yield %c, %a } } -> f32[] 6, f32[3] [5, 3, 0]")
      .example(
          "scan(i32[] 1) {carry = 1, length = [4]} regions { (%a: i32[]) { %b = add(%a, %a) yield "
          "%b } } -> i32[] 16")
      .infer<infer>()
      .reference<reference>()
      .cost(TENON_COST_FREE);
  return draft;
}

TENON_OPS(scan, declare)

}  // namespace tenon::ops::scan_op
