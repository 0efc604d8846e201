// Whether two runs of one kernel left the same in memory.
#pragma once
#include <span>
#include <string>

#include "tests/interpreter/memory.h"

namespace tenon::interpreter {

// Empty when the same elements were stored and their values agree: integers exactly, floats to what
// another order of sums and another implementation of a function may change. magnitude: of the
// largest number that was computed with; computed: the least precise float type that was. spread:
// by element, how far other orders of sums have been seen to move it; empty: unknown.
std::string disagreement(const Memory& found, const Memory& expected, double magnitude,
                         DType computed, std::span<const double> spread = {});
// The largest finite |x| of the elements that somebody stored; 0 for integers.
double magnitude_of(const Memory& memory);
// The least precise type of floats that a kernel computes with; f64 when it does not.
DType computed_type(const kernelgen::Kernel& kernel);

}  // namespace tenon::interpreter
