// The names of the instructions of scalar programs (abi/scalar.h). In a namespace of its own, for
// code generators use it too.
#ifndef TENON_CPP_INSTRUCTIONS_HPP_
#define TENON_CPP_INSTRUCTIONS_HPP_

#include <string_view>

#include "tenon/abi/scalar.h"

namespace tenon::instructions {

// Empty for leaves, and for those that stand for another one by a result's type or an attribute.
constexpr std::string_view name(uint32_t opcode) {
  constexpr std::string_view kUnary[] = {
      "neg",        "abs",     "sign",    "floor",   "ceil",     "trunc",
      "round_even", "sqrt",    "rsqrt",   "exp",     "expm1",    "log",
      "log1p",      "sin",     "cos",     "tanh",    "logistic", "erf",
      "erfc",       "erf_inv", "lgamma",  "digamma", "not",      "popcount",
      "clz",        "is_nan",  "convert", "",        "bitcast",  "convert_wrap"};
  constexpr std::string_view kBinary[] = {"add",   "sub",   "mul",   "div", "rem", "pow",
                                          "atan2", "max",   "min",   "and", "or",  "xor",
                                          "shl",   "shr_a", "shr_l", "cmp"};
  if (opcode >= TENON_S_NEG && opcode <= TENON_S_CONVERT_WRAP) return kUnary[opcode - TENON_S_NEG];
  if (opcode >= TENON_S_ADD && opcode <= TENON_S_CMP) return kBinary[opcode - TENON_S_ADD];
  return opcode == TENON_S_SELECT ? "select" : "";
}

}  // namespace tenon::instructions

#endif
