// convert, convert_wrap, bitcast: from one element type to another.
#include "complex_math.h"

namespace tenon::ops::convert_op {

Status infer(const InferQuery& q) {
  const tenon_dtype_t to = q.dtype("dtype");
  if (!is_in(to, kNumber | kPred | kComplex)) return q.fail("C1", cat("dtype is ", dtype_name(to)));
  if (is_complex(q.dtype(0)) && !is_complex(to) && to != TENON_PRED)
    return q.fail("C2", cat("dtype is ", dtype_name(to), ", x has ", dtype_name(q.dtype(0))));
  return q.result(to, q.dims(0));
}
Status infer_wrap(const InferQuery& q) {
  const tenon_dtype_t to = q.dtype("dtype");
  if (!is_int(to)) return q.fail("C1", cat("dtype is ", dtype_name(to)));
  return q.result(to, q.dims(0));
}
Status infer_bitcast(const InferQuery& q) {
  const tenon_dtype_t to = q.dtype("dtype");
  if (dtype_bits(to) != dtype_bits(q.dtype(0)) || to == TENON_PRED ||
      is_in(to, dtype_bit(TENON_C64))) {
    return q.fail("C1", cat(dtype_name(q.dtype(0)), " has ", dtype_bits(q.dtype(0)), " bits, ",
                            dtype_name(to), " has ", dtype_bits(to)));
  }
  return q.result(to, q.dims(0));
}

Status value_of(const InferQuery& q, uint32_t, tenon_dim_t* out) {
  if (!is_in(q.dtype("dtype"), kIndex | kPred)) return TENON_NOT_FOUND;
  const auto x = known(q, 0);
  if (!x) return TENON_NOT_FOUND;
  if (q.dtype("dtype") != TENON_PRED) return answer_in(q.dtype("dtype"), x->values, out);
  for (Dim d : x->values) {
    const auto number = constant_of(d);
    if (!number) return TENON_NOT_FOUND;
    *out++ = *number != 0 ? 1 : 0;
  }
  return {};
}

// A real number becomes one without an imaginary part.
Status decompose_complex(Builder& b, const Node& node, tenon_value_t* out) {
  const Value x = node.operand(0);
  const tenon_dtype_t to = node.dtype("dtype");
  if (!is_complex(x.dtype())) {
    const Term re = {b, b.convert(x, part_of(to))};
    return b.finish(out, {joined(b, {re, re.same(0)})});
  }
  const Complex z = parts_of(b, x);
  if (to == TENON_PRED) return b.finish(out, {as(z.re, to) | as(z.im, to)});
  return b.finish(out, {joined(b, {as(z.re, part_of(to)), as(z.im, part_of(to))})});
}

// Whether `to` represents every value of `from` exactly.
bool is_exact(tenon_dtype_t from, tenon_dtype_t to) {
  if (from == to || from == TENON_PRED) return true;
  if (is_complex(from) || is_complex(to)) return false;
  if (is_float(from)) {
    if (from == TENON_F16 || from == TENON_BF16) return to == TENON_F32 || to == TENON_F64;
    return from == TENON_F32 && to == TENON_F64;
  }
  if (is_float(to)) return dtype_bits(from) <= (to == TENON_F64 ? 32u : to == TENON_F32 ? 16u : 8u);
  const bool wider = dtype_bits(to) > dtype_bits(from);
  return is_in(from, kUnsigned) ? wider : wider && is_in(to, kSigned);
}
// Folds a conversion to the same type, and one after an exact conversion. Not from an integer
// through a float to an integer type that cannot hold all values: floats saturate, integers wrap.
Value fold(Builder& b, const Node& node) {
  const Value x = node.operand(0);
  const tenon_dtype_t to = node.dtype("dtype");
  if (x.dtype() == to) return x;
  const Node inner = x.node();
  if (!inner || !inner.is("convert")) return {};
  const Value source = inner.operand(0);
  if (!is_exact(source.dtype(), x.dtype()) || source.dtype() == TENON_PRED) return {};
  const bool saturates =
      !is_float(source.dtype()) && is_float(x.dtype()) && !is_float(to) && to != TENON_PRED;
  if (saturates && !is_exact(source.dtype(), to)) return {};
  return b.convert(source, to);
}
Value fold_bitcast(Builder& b, const Node& node) {
  const Value x = node.operand(0);
  const tenon_dtype_t to = node.dtype("dtype");
  if (x.dtype() == to) return x;
  const Node inner = x.node();
  if (!inner || !inner.is("bitcast")) return {};
  const Value source = inner.operand(0);
  return source.dtype() == to ? source : b.build("bitcast", {source}, {{"dtype", dtype(to)}});
}

constexpr OpDraft convert() {
  OpDraft draft = op("convert", kPrimitiveElementwise);
  draft.summary("The same number in another element type.")
      .doc(
          "Floats round to nearest even. Float to integer truncates and saturates, NaN gives 0. "
          "Integers wrap. To pred "
          "it is x != 0, and NaN is true.")
      .operand("x", "the input", kNumber | kPred | kComplex)
      .result("y", "shape of x")
      .attr_dtype("dtype", "the element type of the result")
      .required()
      .constraint("C1", "dtype is pred, an integer, a float of 16 bits or more, or complex",
                  "convert(f32[2]) {dtype = f8e5m2}")
      .constraint("C2", "complex numbers become complex or pred; real and imag take them apart",
                  "convert(c64[2]) {dtype = f32}")
      .example("convert(f32[4] [1.9, -1.9, nan, 300]) {dtype = u8} -> u8[4] [1, 0, 0, 255]")
      .example("convert(i32[2] [0, 3]) {dtype = pred} -> pred[2] [0, 1]")
      .infer<infer>()
      .value_of<value_of>()
      .fold<fold>()
      .scalar(scalar::convert_result(arg(0)))
      .decompose_complex<decompose_complex>()
      .accuracy(0.5, 0.5);
  return draft;
}
constexpr OpDraft convert_wrap() {
  OpDraft draft = op("convert_wrap", kPrimitiveElementwise);
  draft.summary("A float to an integer, truncated and taken modulo 2^n.")
      .doc(
          "As convert, without saturation: for models whose exporter meant the machine's "
          "conversion. NaN and infinities "
          "give 0.")
      .operand("x", "the input", kFloat)
      .result("y", "shape of x")
      .attr_dtype("dtype", "the integer type of the result")
      .required()
      .constraint("C1", "dtype is an integer", "convert_wrap(f32[2]) {dtype = f16}")
      .example("convert_wrap(f32[3] [1.9, 257, -1]) {dtype = u8} -> u8[3] [1, 1, 255]")
      .infer<infer_wrap>()
      .scalar(scalar::unary(TENON_S_CONVERT_WRAP, arg(0), 0));
  return draft;
}
constexpr OpDraft bitcast() {
  OpDraft draft = op("bitcast", kPrimitiveElementwise);
  draft.summary("The same bits as another type of the same width.")
      .operand("x", "the input", kNumber)
      .result("y", "shape of x")
      .attr_dtype("dtype", "the element type of the result")
      .required()
      .constraint("C1", "dtype has the width of x and is not pred", "bitcast(f32[2]) {dtype = i64}")
      .example("bitcast(f32[2] [1, -2]) {dtype = i32} -> i32[2] [1065353216, -1073741824]")
      .infer<infer_bitcast>()
      .fold<fold_bitcast>()
      .scalar(scalar::unary(TENON_S_BITCAST_RESULT, arg(0), 0))
      .cost(TENON_COST_FREE);
  return draft;
}

TENON_OPS(convert, convert, convert_wrap, bitcast)

}  // namespace tenon::ops::convert_op
