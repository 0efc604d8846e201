// Scalar programs (tenon/abi/scalar.h) as expressions of the stage IR. Nothing else in kernelgen
// reads their words.
#ifndef TENON_KERNELGEN_LOWER_SCALAR_PROGRAM_H_
#define TENON_KERNELGEN_LOWER_SCALAR_PROGRAM_H_

#include <span>
#include <string>
#include <vector>

#include "tenon/kernelgen/ir/ir.h"

namespace tenon::kernelgen {

// The value of one attribute that a program may use: a number, by its ordinal among the op's
// declared attributes.
struct ScalarAttr {
  bool is_float = false;
  int64_t i = 0;
  double f = 0;
};

// Appends the program of one op to the pool. `args` are the operands' elements in their stored
// types. f16 and bf16 are widened here, and results of these types end in one kRound, so that the
// rounding disappears when ops are fused. `*values` gets one expression per result, of types
// `results`. False: the program is malformed, or has a type that kernelgen does not compute in;
// `*why` says which.
bool append_scalar_program(Pool& pool, std::span<const uint32_t> program,
                           std::span<const ExprId> args, std::span<const ScalarAttr> attrs,
                           std::span<const DType> results, std::vector<ExprId>* values,
                           std::string* why);

}  // namespace tenon::kernelgen
#endif
