// What scalar programs (tenon/abi/scalar.h) mean, one instruction and one element at a time: what
// run_scalar computes, for interpreters of what such programs are turned into. Floats of every type
// are doubles that hold a value of their type; integers and predicates are kept sign- or
// zero-extended in 64 bits.
//
// Threads: safe.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tenon/abi/base.h"

namespace tenon::op {

// To the nearest value of a float type, once; to the integers of a type, wrapped.
double scalar_round(tenon_dtype_t type, double x);
int64_t scalar_wrap(tenon_dtype_t type, int64_t x);

// The function of a unary instruction on floats, without the rounding; null when it has none.
using ScalarFunction = double (*)(double);
ScalarFunction scalar_float_unary(uint32_t op);
double scalar_float_binary(uint32_t op, double a, double b);  // ADD to MIN, without the rounding

// On integers and predicates, wrapped.
int64_t scalar_int_unary(uint32_t op, tenon_dtype_t type, int64_t x);
int64_t scalar_int_binary(uint32_t op, tenon_dtype_t type, int64_t a, int64_t b);

// An element of memory and its value: `f` of floats, `i` of everything else.
struct ScalarElement {
  double f = 0;
  int64_t i = 0;
};
ScalarElement scalar_convert(tenon_dtype_t from, tenon_dtype_t to, bool wraps, ScalarElement x);
ScalarElement scalar_bitcast(tenon_dtype_t from, tenon_dtype_t to, ScalarElement x);
ScalarElement scalar_load(tenon_dtype_t type, const std::byte* from);
void scalar_store(tenon_dtype_t type, std::byte* to, ScalarElement x);

}  // namespace tenon::op
