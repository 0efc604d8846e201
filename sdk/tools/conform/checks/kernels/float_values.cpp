#include "sdk/tools/conform/checks/kernels/float_values.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <tenon/cpp/dtype.hpp>

#include "sdk/tools/support/tensors.h"

namespace tenon::conform {
namespace {

constexpr double kSpecial[16] = {0.0,
                                 -0.0,
                                 1.0,
                                 -1.0,
                                 std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity(),
                                 std::numeric_limits<double>::quiet_NaN(),
                                 0.5,
                                 -2.5,
                                 3.0,
                                 100.0,
                                 -100.0,
                                 1e-3,
                                 60000.0,
                                 -7.75,
                                 2.0};

// -0 first, for tensors of few elements.
constexpr double kZeros[16] = {-0.0, 0.0, 1.0, -1.0, 0.25, -0.25, -0.0, 3.5,
                               -3.5, 0.0, 2.0, -2.0, -0.5, 0.5,   -0.0, 7.0};

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

constexpr double kBoundaryValues[32] = {0.5,
                                        -0.5,
                                        1.9,
                                        -1.9,
                                        kNan,
                                        127.5,
                                        128,
                                        -128.9,
                                        -129,
                                        255.9,
                                        256,
                                        -1,
                                        kInfinity,
                                        32767.5,
                                        32768,
                                        -32769,
                                        65535.5,
                                        65536,
                                        -kInfinity,
                                        2147483e3,
                                        2147483648.,
                                        -2147483648.,
                                        -2147483904.,
                                        4294967040.,
                                        4294967296.,
                                        1e12,
                                        -1e12,
                                        9223371487098961920.,
                                        9223372036854775808.,
                                        -9223373136366403584.,
                                        18446744073709551616.,
                                        -0.0};

size_t special_index(uint64_t stream, int64_t i) {
  return static_cast<size_t>(stream % 2 == 0 ? i % 16 : i / 16 % 16);
}

// The ends of the range and their neighbours.
uint64_t integer_end(tenon_dtype_t dtype, size_t which) {
  const uint32_t bits = dtype_bits(dtype);
  const uint64_t all = bits == 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1,
                 top = uint64_t{1} << (bits - 1);
  const uint64_t values[16] = {0,   1,       2,       3,   5,       7,       10,      31,
                               all, all - 1, all - 2, top, top - 1, top + 1, top - 2, all - 9};
  return values[which] & all;
}

// The number of stored mantissa bits, and the exponent of the smallest normal number.
struct Format {
  int mantissa = 0, exponent = 0;
};
Format format_of(tenon_dtype_t dtype) {
  switch (dtype) {
    case TENON_F64:
      return {52, -1022};
    case TENON_F32:
      return {23, -126};
    case TENON_F16:
      return {10, -14};
    case TENON_BF16:
      return {7, -126};
    default:
      return {};
  }
}

// The sixteen values of fill_denormal: each of eight with both signs.
uint64_t denormal_bits(tenon_dtype_t dtype, size_t which) {
  const Format format = format_of(dtype);
  const uint64_t one = uint64_t{1} << format.mantissa;
  const uint64_t bias = (uint64_t{1} << (dtype_bits(dtype) - format.mantissa - 2)) - 1;
  const uint64_t values[8] = {0,
                              1,
                              one - 1,
                              one / 2 + 1,
                              one / 4,
                              one,                      // the smallest normal
                              bias << format.mantissa,  // 1
                              (bias + 2) << format.mantissa};
  const uint64_t sign = uint64_t{which % 2} << (dtype_bits(dtype) - 1);
  return values[which / 2] | sign;
}

}  // namespace

FloatLimits float_limits(tenon_dtype_t dtype) {
  const Format format = format_of(dtype);
  if (format.mantissa == 0) return {};
  return {std::ldexp(1.0, format.exponent - format.mantissa), std::ldexp(1.0, format.exponent)};
}

void store_float(tenon_dtype_t dtype, double value, unsigned char* to) {
  const auto narrow = static_cast<float>(value);
  switch (dtype) {
    case TENON_F64:
      std::memcpy(to, &value, 8);
      break;
    case TENON_F32:
      std::memcpy(to, &narrow, 4);
      break;
    case TENON_F16: {
      const uint16_t bits = f16_from(narrow);
      std::memcpy(to, &bits, 2);
      break;
    }
    case TENON_BF16: {
      const uint16_t bits = bf16_from(narrow);
      std::memcpy(to, &bits, 2);
      break;
    }
    default:
      break;
  }
}

namespace {

// The sixteen values, repeated.
void store_floats(tenon_dtype_t dtype, const double (&values)[16], uint64_t stream, int64_t count,
                  unsigned char* bytes) {
  const uint32_t width = dtype_bits(dtype) / 8;
  for (int64_t i = 0; i < count; ++i)
    store_float(dtype, values[special_index(stream, i)], bytes + i * width);
}

// The same for values given by their bits.
void store_bits(tenon_dtype_t dtype, uint64_t (*bits_of)(tenon_dtype_t, size_t), uint64_t stream,
                int64_t count, unsigned char* bytes) {
  const uint32_t width = dtype_bits(dtype) / 8;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = bits_of(dtype, special_index(stream, i));
    std::memcpy(bytes + i * width, &bits, width);  // little endian
  }
}

}  // namespace

void fill_usual(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes) {
  tools::fill_random(dtype, 7, stream, count, bytes);
}

void fill_special(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes) {
  if (!is_in(dtype, kAnyFloat)) return fill_usual(dtype, stream, count, bytes);
  store_floats(dtype, kSpecial, stream, count, bytes);
}

void fill_zeros(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes) {
  if (!is_in(dtype, kAnyFloat)) return fill_usual(dtype, stream, count, bytes);
  store_floats(dtype, kZeros, stream, count, bytes);
}

void fill_integer_boundaries(tenon_dtype_t dtype, uint64_t stream, int64_t count,
                             unsigned char* bytes) {
  if (format_of(dtype).mantissa == 0) return fill_ends(dtype, stream, count, bytes);
  const uint32_t width = dtype_bits(dtype) / 8;
  for (int64_t i = 0; i < count; ++i)
    store_float(dtype, kBoundaryValues[i % 32], bytes + i * width);
}

void fill_halves(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes) {
  fill_usual(dtype, stream, count, bytes);
  if (format_of(dtype).mantissa == 0) return;
  const uint32_t width = dtype_bits(dtype) / 8;
  uint64_t state = 0xd1342543de82ef95u * (stream + 1);
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    store_float(dtype, 0.5 * static_cast<double>(static_cast<int64_t>(state >> 60) - 6),
                bytes + i * width);
  }
}

void fill_sparse(int round, tenon_dtype_t dtype, uint64_t stream, int64_t count,
                 unsigned char* bytes) {
  tools::fill_random(dtype, 11 + static_cast<uint64_t>(round), stream, count, bytes);
  if (format_of(dtype).mantissa == 0) return;
  const uint32_t width = dtype_bits(dtype) / 8;
  const double of_round[kSparseRounds][2] = {{kNan, kNan}, {kInfinity, -kInfinity}};
  // One element in eight is special and one in four a zero, at places that do not align with the
  // rows of any shape.
  uint64_t state =
      0x9e3779b97f4a7c15u * (stream * kSparseRounds + static_cast<uint64_t>(round) + 1);
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t draw = state >> 59, which = state >> 58 & 1;
    if (draw < 4) store_float(dtype, of_round[round][which], bytes + i * width);
    if (draw >= 4 && draw < 12) store_float(dtype, which == 0 ? 0.0 : -0.0, bytes + i * width);
  }
}

void fill_denormal(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes) {
  if (format_of(dtype).mantissa == 0) return fill_usual(dtype, stream, count, bytes);
  store_bits(dtype, denormal_bits, stream, count, bytes);
}

void fill_ends(tenon_dtype_t dtype, uint64_t stream, int64_t count, unsigned char* bytes) {
  if (!is_in(dtype, kAnyInt) || dtype_bits(dtype) < 8)
    return fill_usual(dtype, stream, count, bytes);
  store_bits(dtype, integer_end, stream, count, bytes);
}

void flush_denormals(tenon_dtype_t dtype, int64_t count, unsigned char* bytes) {
  const Format format = format_of(dtype);
  if (format.mantissa == 0) return;
  const uint32_t width = dtype_bits(dtype) / 8;
  const uint64_t sign = uint64_t{1} << (8 * width - 1),
                 mantissa = (uint64_t{1} << format.mantissa) - 1;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes + i * width, width);
    if ((bits & ~sign & ~mantissa) == 0) bits &= sign;
    std::memcpy(bytes + i * width, &bits, width);
  }
}

}  // namespace tenon::conform
