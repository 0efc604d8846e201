// Derivatives of element-wise nodes, from the scalar programs of their ops.
#pragma once
#include <tenon/cpp/decompose.hpp>

#include "../common.h"

namespace tenon::passes {

// A factor: zero, one, or a value.
struct Slope {
  enum class Kind { kZero, kOne, kValue };
  Kind kind = Kind::kZero;
  Value value;
  static Slope zero() { return {}; }
  static Slope one() { return {Kind::kOne, {}}; }
  static Slope of(Value v) { return {Kind::kValue, v}; }
  bool is_zero() const { return kind == Kind::kZero; }
};

// The derivative of a result of an element-wise node with respect to one operand, as nodes at the
// builder, in the type in which the program computes. The chain rule is applied forwards, since
// reverse mode would multiply zeros by infinities in the branches of `select` that were not taken.
// For a complex node it is the complex derivative; T0410 for a step that is not holomorphic.
Slope scalar_derivative(Builder& b, const Node& node, const tenon_op_def_t& op, uint32_t result,
                        uint32_t operand);

// `factor` times a slope; invalid for zero. Both have the same type.
Value times(Builder& b, Value factor, const Slope& slope);
// The factor of cotangents that corresponds to a complex factor of tangents.
Slope conjugate(Builder& b, const Slope& slope);

}  // namespace tenon::passes
