// One operation of an expression or of a loop tree on registers, used by both interpreters. Its
// meaning is the reference's (core/op/scalar_element.h). It is chosen once, then applied to many
// elements.
#pragma once
#include <cstddef>
#include <cstdint>

#include <tenon/kernelgen/ir/ir.h>

#include "core/op/scalar_element.h"

namespace tenon::interpreter {

using kernelgen::DType;

// A value: a float of any type as a double that holds it exactly, integers and predicates extended
// to 64 bits.
union Reg {
  double f;
  int64_t i;
};

enum class Code : uint8_t {
  kFloatAdd,
  kFloatSub,
  kFloatMul,
  kFloatDiv,
  kFloatMulAdd,
  kFloatUnary,
  kFloatBinary,
  kWordAdd,
  kWordSub,
  kWordMul,  // of i64
  kIntUnary,
  kIntBinary,
  kFloorDiv,
  kMod,
  kCompareFloat,
  kCompareSigned,
  kCompareUnsigned,
  kNot,
  kIsNan,
  kSelect,
  kConvert,
  kConvertWrap,
  kBitcast
};

struct Operation {
  Code code = Code::kSelect;
  uint8_t relation = 0;  // TENON_CMP_*
  uint16_t op = 0;
  DType type = TENON_DTYPE_NONE, from = TENON_DTYPE_NONE;  // of the result and of the first operand
  op::ScalarFunction function = nullptr;
};

// False if the operation is not defined for this type.
bool make_operation(uint16_t op, uint32_t relation, DType type, DType from, Operation* out);

// Computes n elements at once; `dst` may be an operand. Operands that the operation does not have
// are not read.
void apply(const Operation& operation, Reg* dst, const Reg* a, const Reg* b, const Reg* c,
           size_t n);

// The value of a constant's bits (Expr::bits, Node::bits).
Reg constant(DType type, int64_t bits);

// Reads an element in the layout of devices.
Reg read_element(DType type, const unsigned char* from);
void write_element(DType type, unsigned char* to, Reg value);

}  // namespace tenon::interpreter
