// iota: every element is its index along one dim.
#include "common.h"

namespace tenon::ops::iota_op {

Status infer(const InferQuery& q) {
  const Dims shape = q.dims("shape");
  TENON_TRY(require_dim(q, "C1", q.i64("dim"), shape.size()));
  if (!is_in(q.dtype("dtype"), kNumber))
    return q.fail("C2", cat("dtype is ", dtype_name(q.dtype("dtype"))));
  return q.result(q.dtype("dtype"), shape);
}

Status reference(const Eval& e) {
  const Array y = e.output();
  const auto along = static_cast<size_t>(e.i64("dim"));
  each_index(y.dims(), [&](const Index& i) {
    if (is_float(y.dtype())) {
      store_double(y.dtype(), y.at(i), static_cast<double>(i[along]));
    } else {
      store_int(y.dtype(), y.at(i), i[along]);
    }
  });
  return {};
}

Status value_of(const InferQuery& q, uint32_t, tenon_dim_t* out) {
  Axes shape;
  for (Dim d : q.dims("shape")) {
    if (!d.is_constant()) return TENON_NOT_FOUND;
    shape.push_back(d.constant());
  }
  if (!is_in(q.dtype("dtype"), kIndex)) return TENON_NOT_FOUND;
  each_index(shape, [&](const Index& i) { *out++ = i[static_cast<size_t>(q.i64("dim"))]; });
  return {};
}

constexpr OpDraft declare() {
  OpDraft draft = op("iota", kPrimitive);
  draft.summary("Every element is its index along one dim; integers wrap.")
      .result("y", "dtype and shape as asked for")
      .attr_dims("shape", "the dims of the result")
      .attr_i64("dim", "the dim that counts", 0)
      .attr_dtype("dtype", "the element type of the result", TENON_I64)
      .constraint("C1", "dim is a dim of shape", "iota() {shape = [2], dim = 1}")
      .constraint("C2", "dtype is a number of 8 bits or more", "iota() {shape = [2], dtype = pred}")
      .example("iota() {shape = [3]} -> i64[3] [0, 1, 2]")
      .example("iota() {shape = [2, 2], dim = 0, dtype = f32} -> f32[2, 2] [[0, 0], [1, 1]]")
      .infer<infer>()
      .value_of<value_of>()
      .reference<reference>()
      .cost(TENON_COST_FREE);
  return draft;
}

TENON_OPS(iota, declare)

}  // namespace tenon::ops::iota_op
