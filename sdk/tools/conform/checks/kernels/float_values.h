// Values at which floating-point code goes wrong, as bytes of every element type.
#pragma once
#include <cstdint>

#include <tenon/abi/base.h>

namespace tenon::conform {

struct FloatLimits {
  double smallest = 0, smallest_normal = 0;  // both above zero
};
FloatLimits float_limits(tenon_dtype_t dtype);  // zeros for a type that is not a float

// Rounded to the element type.
void store_float(tenon_dtype_t dtype, double value, unsigned char* to);

// Fills for cases. Every pair of the sixteen values meets in two operands of 16 * 16 elements;
// element types other than floats get usual values.
void fill_usual(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes);
void fill_special(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes);
void fill_denormal(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes);
void fill_zeros(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes);
// The ends of the integer range and their neighbours.
void fill_ends(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes);
// Around the ends of every integer type, with NaN and infinities: 32 values, repeated.
void fill_integer_boundaries(tenon_dtype_t dtype, uint64_t stream, int64_t count,
                             unsigned char* bytes);
// Few distinct numbers, multiples of a half: for ties and halfway cases.
void fill_halves(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes);
// Usual values with zeros of both signs and, depending on `round`, some NaN (0) or infinities of
// both signs (1), so few that not every sum contains one.
inline constexpr int kSparseRounds = 2;
void fill_sparse(int round, tenon_dtype_t dtype, uint64_t stream, int64_t count,
                 unsigned char* bytes);

// Replaces all denormals by zeros of their sign.
void flush_denormals(tenon_dtype_t dtype, int64_t count, unsigned char* bytes);

}  // namespace tenon::conform
