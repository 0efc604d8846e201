// One operation of an expression or of a loop tree on registers: what both interpreters compute
// with. Its meaning is the reference's (core/op/scalar_element.h); here it is chosen once and then
// applied to many elements.
#pragma once
#include <cstddef>
#include <cstdint>

#include <tenon/kernelgen/ir/ir.h>

#include "core/op/scalar_element.h"

namespace tenon::interpreter {

using kernelgen::DType;

// A value: floats of every type as a double that holds a value of the type, integers and predicates
// extended to 64 bits.
union Reg {
  double f;
  int64_t i;
};

enum class Code : uint8_t {
  kFloatAdd,
  kFloatSub,
  kFloatMul,
  kFloatDiv,
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

// False when the operation has no meaning in this type.
bool make_operation(uint16_t op, uint32_t relation, DType type, DType from, Operation* out);

// n elements at once; `dst` may be an operand. Operands that the operation does not have are not
// read.
void apply(const Operation& operation, Reg* dst, const Reg* a, const Reg* b, const Reg* c,
           size_t n);

// The value of a constant's bits (Expr::bits, Node::bits).
Reg constant(DType type, int64_t bits);

// Memory as devices have it.
Reg read_element(DType type, const unsigned char* from);
void write_element(DType type, unsigned char* to, Reg value);

}  // namespace tenon::interpreter
