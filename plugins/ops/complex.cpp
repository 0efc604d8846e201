// complex, real, imag: pairs of numbers as one element. Also barrier.
#include <algorithm>
#include <iterator>

#include "derivative.h"

namespace tenon::ops::complex_op {

constexpr tenon_dtypes_t kParts = dtype_bit(TENON_F32) | dtype_bit(TENON_F64);

Status infer_complex(const InferQuery& q) {
  TENON_TRY(q.require_same_shape("C1", 0, 1));
  return q.result(q.dtype(0) == TENON_F32 ? TENON_C64 : TENON_C128, q.dims(0));
}
Status reference_complex(const Eval& e) {
  const Array re = e.input(0), im = e.input(1), y = e.output();
  each_index(y.dims(), [&](const Index& i) {
    std::memcpy(y.at(i), re.at(i), re.element_bytes());
    std::memcpy(y.at(i) + re.element_bytes(), im.at(i), im.element_bytes());
  });
  return {};
}
Status infer_part(const InferQuery& q) {
  return q.result(q.dtype(0) == TENON_C64 ? TENON_F32 : TENON_F64, q.dims(0));
}
template <size_t kPart>
Status reference_part(const Eval& e) {
  const Array x = e.input(0), y = e.output();
  each_index(y.dims(), [&](const Index& i) {
    std::memcpy(y.at(i), x.at(i) + kPart * y.element_bytes(), y.element_bytes());
  });
  return {};
}

// complex(real(x), imag(x)) is x, and the parts of complex(re, im) are re and im: so a chain of
// complex ops, each decomposed by itself, becomes one of real ops.
Value fold_complex(Builder&, const Node& node) {
  const Node re = node.operand(0).node(), im = node.operand(1).node();
  const bool whole = re && im && re.is("real") && im.is("imag") && re.operand(0) == im.operand(0);
  return whole ? re.operand(0) : Value();
}
template <uint32_t kPart>
Value fold_part(Builder&, const Node& node) {
  const Node whole = node.operand(0).node();
  return whole && whole.is("complex") ? whole.operand(kPart) : Value();
}

// The cotangent of a number with parts re and im has the cotangents of these as its parts.
Value transpose_complex(Builder& b, const Node&, uint32_t operand,
                        std::span<const Value> cotangents) {
  return b.build(operand == 0 ? "real" : "imag", {cotangents[0]});
}
template <uint32_t kPart>
Value transpose_part(Builder& b, const Node&, uint32_t, std::span<const Value> cotangents) {
  const Value g = cotangents[0], none = b.full_like(g, 0);
  return kPart == 0 ? b.build("complex", {g, none}) : b.build("complex", {none, g});
}

constexpr OpDraft complex() {
  OpDraft draft = op("complex", kPrimitive);
  draft.summary("Complex numbers from their parts.")
      .operand("re", "the real parts", kParts, 1)
      .operand("im", "the imaginary parts, same type as re", kParts, 1)
      .result("y", "c64 of f32, c128 of f64")
      .constraint("C1", "re and im have equal shapes", "complex(f32[2], f32[3])")
      .example("complex(f32[2] [1, 2], f32[2] [3, -4]) -> c64[2] [(1, 3), (2, -4)]")
      .infer<infer_complex>()
      .reference<reference_complex>()
      .linear({0, 1})
      .transposed<transpose_complex>()
      .batched({0, 1})
      .fold<fold_complex>()
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}
constexpr OpDraft part(std::string_view name, std::string_view summary, std::string_view example) {
  OpDraft draft = op(name, kPrimitive);
  draft.summary(summary)
      .operand("x", "complex numbers", kComplex)
      .result("y", "f32 of c64, f64 of c128")
      .example(example)
      .infer<infer_part>()
      .linear({0})
      .batched({0})
      .cost(TENON_COST_DATA_MOVEMENT);
  return draft;
}
constexpr OpDraft real() {
  return part("real", "The real parts.", "real(c64[2] [(1, 3), (2, -4)]) -> f32[2] [1, 2]")
      .reference<reference_part<0>>()
      .transposed<transpose_part<0>>()
      .fold<fold_part<0>>();
}
constexpr OpDraft imag() {
  return part("imag", "The imaginary parts.", "imag(c64[2] [(1, 3), (2, -4)]) -> f32[2] [3, -4]")
      .reference<reference_part<1>>()
      .transposed<transpose_part<1>>()
      .fold<fold_part<1>>();
}

// ---- barrier ----

Status infer_barrier(const InferQuery& q) {
  for (uint32_t i = 0; i < q.operand_count(); ++i) TENON_TRY(q.result(q.dtype(i), q.dims(i)));
  return {};
}
Status reference_barrier(const Eval& e) {
  for (uint32_t i = 0; i < e.input_count(); ++i)
    each_index(e.input(i).dims(),
               [&](const Index& at) { e.output(i).copy_from(at, e.input(i), at); });
  return {};
}
// Tangents of what has them wait for each other, as the operands do; cotangents pass.
std::vector<Value> jvp_barrier(Builder& b, const Node&, std::span<const Value> tangents) {
  std::vector<Value> given, out;
  std::copy_if(tangents.begin(), tangents.end(), std::back_inserter(given),
               [](const Value& v) { return v.valid(); });
  const Node made = b.build_node("barrier", given);
  uint32_t at = 0;
  for (const Value& v : tangents) out.push_back(v.valid() ? made.result(at++) : Value());
  return out;
}
std::vector<Value> pull_barrier(Builder&, const Node&, std::span<const uint8_t>,
                                std::span<const Value> cotangents) {
  return {cotangents.begin(), cotangents.end()};
}
std::vector<Value> batch_barrier(Builder& b, const Node&, std::span<const Value> operands,
                                 std::span<const uint8_t> is_batched, Dim size) {
  std::vector<Value> all, out;
  for (size_t i = 0; i < operands.size(); ++i)
    all.push_back(repeated(b, operands[i], is_batched[i] != 0, size));
  const Node made = b.build_node("barrier", all);
  for (uint32_t i = 0; i < all.size(); ++i) out.push_back(made.result(i));
  return out;
}

constexpr OpDraft barrier() {
  OpDraft draft = op("barrier", kPrimitive | TENON_TRAIT_NO_RECOMPUTE);
  draft.summary("Its operands as they are; what reads the results comes after all of them.")
      .doc("It keeps work that was repeated on purpose from being merged or moved across.")
      .variadic("operands", "any tensors", kWhole)
      .result("results", "as many as operands, types as theirs")
      .example("barrier(f32[2] [1, 2], i64[] 3) -> f32[2] [1, 2], i64[] 3")
      .infer<infer_barrier>()
      .reference<reference_barrier>()
      .jvp<jvp_barrier>()
      .pull<pull_barrier>()
      .batch<batch_barrier>()
      .cost(TENON_COST_FREE);
  return draft;
}

TENON_OPS(complex, complex, real, imag, barrier)

}  // namespace tenon::ops::complex_op
