// Values at which floats go wrong, as bytes of every element type.
#pragma once
#include <cstdint>

#include <tenon/abi/base.h>

namespace tenon::conform {

struct FloatLimits {
  double smallest = 0, smallest_normal = 0;  // above zero
};
FloatLimits float_limits(tenon_dtype_t dtype);  // zeros for what is no float

// Rounded to the element type.
void store_float(tenon_dtype_t dtype, double value, unsigned char* to);

// Fills for cases. Every pair of their sixteen values meets in two operands of 16 * 16 elements;
// other element types get usual values.
void fill_usual(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes);
void fill_special(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes);
void fill_denormal(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes);
void fill_zeros(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes);
// The ends of the range of integers and what lies beside them.
void fill_ends(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes);
// Around the ends of every integer type, NaN and infinities among them: 32 values over and over.
void fill_integer_boundaries(tenon_dtype_t dtype, uint64_t stream, int64_t count,
                             unsigned char* bytes);
// Few different numbers, multiples of a half: what ties, and what is halfway between two.
void fill_halves(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes);
// Usual values, with zeros of both signs and, by `round`, some NaN (0) or infinities of both signs
// (1), so few that not every sum has one.
inline constexpr int kSparseRounds = 2;
void fill_sparse(int round, tenon_dtype_t dtype, uint64_t stream, int64_t count,
                 unsigned char* bytes);

// Makes zeros of their sign of all denormals.
void flush_denormals(tenon_dtype_t dtype, int64_t count, unsigned char* bytes);

}  // namespace tenon::conform
