// Whether two runs of one kernel leave the same values in memory.
#pragma once
#include <span>
#include <string>

#include "tests/interpreter/memory.h"

namespace tenon::interpreter {

// Empty if the same elements were stored and their values agree: integers exactly, floats up to the
// effect of another order of sums and another implementation of functions. magnitude: the largest
// number in the computation; computed: its least precise float type. spread: by element, how far
// other orders of sums have moved it; empty: unknown.
std::string disagreement(const Memory& found, const Memory& expected, double magnitude,
                         DType computed, std::span<const double> spread = {});
// The largest finite |x| of all stored elements; 0 for integers.
double magnitude_of(const Memory& memory);
// The least precise float type that a kernel computes in; f64 if it uses none.
DType computed_type(const kernelgen::Kernel& kernel);

}  // namespace tenon::interpreter
