// Quotients of what is made bytes, as products.
//
// What quantises a number divides it by a scale, rounds to an integer and clamps. A division takes
// as long as some ten products. For one divisor c, x*hi + x*lo with one rounding of the sum, where
// hi + lo is nearly 1/c (Brisebarre, Muller and Raina, "Accelerating correctly rounded
// floating-point division when the divisor is known in advance", IEEE ToC 53(8), 2004), is mostly
// the same float. Whether the integers are the same, for every x, is decided here for each c: both
// are step functions that never fall, so that it is enough to compare them at their steps.
#ifndef TENON_KERNELGEN_FUSE_QUOTIENTS_H_
#define TENON_KERNELGEN_FUSE_QUOTIENTS_H_

#include <optional>

#include "tenon/kernelgen/ir/ir.h"
#include "tenon/kernelgen/ir/target.h"

namespace tenon::kernelgen {

struct Reciprocal {
  float hi, lo;
};
// So that round_even(fma(x, hi, x * lo)) and round_even(x / c) are equal for every x, infinities
// and NaN too, once both are clamped to [low, high]; none if there is no such pair, or it is not
// looked for.
std::optional<Reciprocal> reciprocal_for(float c, double low, double high);

// Replaces such quotients in the stages of a program, for C++ targets that multiply and add in one.
void multiply_quotients(Kernel& program, const Target& target);

}  // namespace tenon::kernelgen
#endif
