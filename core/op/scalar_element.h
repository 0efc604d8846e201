// The meaning of scalar programs (tenon/abi/scalar.h), one instruction on one element at a time. It
// computes what run_scalar does, for interpreters of code that such programs are lowered to. Floats
// of every type are doubles that hold a value of their type; integers and predicates are sign- or
// zero-extended to 64 bits.
//
// Threads: safe.
#pragma once
#include <cstddef>
#include <cstdint>

#include "tenon/abi/base.h"

namespace tenon::op {

// Float types: rounds once, to the nearest value. Integer types: wraps.
double scalar_round(tenon_dtype_t type, double x);
int64_t scalar_wrap(tenon_dtype_t type, int64_t x);

// The function of a unary instruction on floats, without the rounding; null if it has none.
using ScalarFunction = double (*)(double);
ScalarFunction scalar_float_unary(uint32_t op);
double scalar_float_binary(uint32_t op, double a, double b);  // ADD to MIN, without the rounding

// On integers and predicates, wrapped.
int64_t scalar_int_unary(uint32_t op, tenon_dtype_t type, int64_t x);
int64_t scalar_int_binary(uint32_t op, tenon_dtype_t type, int64_t a, int64_t b);

// An element of memory and its value: `f` for floats, `i` for everything else.
struct ScalarElement {
  double f = 0;
  int64_t i = 0;
};
ScalarElement scalar_convert(tenon_dtype_t from, tenon_dtype_t to, bool wraps, ScalarElement x);
ScalarElement scalar_bitcast(tenon_dtype_t from, tenon_dtype_t to, ScalarElement x);
ScalarElement scalar_load(tenon_dtype_t type, const std::byte* from);
void scalar_store(tenon_dtype_t type, std::byte* to, ScalarElement x);

}  // namespace tenon::op
