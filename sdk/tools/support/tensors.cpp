#include "sdk/tools/support/tensors.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include <tenon/cpp/dtype.hpp>

namespace tenon::tools {
namespace {

bool is_complex(tenon_dtype_t dtype) {
  return dtype == TENON_C64 || dtype == TENON_C128;
}
tenon_dtype_t part_type(tenon_dtype_t dtype) {
  return dtype == TENON_C64 ? TENON_F32 : TENON_F64;
}

bool is_narrow_float(tenon_dtype_t dtype) {
  return dtype == TENON_F16 || dtype == TENON_BF16 || dtype == TENON_F8E4M3FN ||
         dtype == TENON_F8E5M2;
}
bool is_float_like(tenon_dtype_t dtype) {
  return is_float(dtype) || is_narrow_float(dtype) || is_complex(dtype);
}

double f8_to(tenon_dtype_t dtype, uint8_t bits) {
  // e5m2 is the upper half of an f16. e4m3fn has bias 7, no infinities, and NaN at all ones.
  if (dtype == TENON_F8E5M2) return f16_to(static_cast<uint16_t>(bits << 8));
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  const double magnitude = exponent == 15 && fraction == 7
                               ? std::numeric_limits<double>::quiet_NaN()
                           : exponent == 0 ? std::ldexp(fraction, -9)
                                           : std::ldexp(8 + fraction, exponent - 10);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}
uint8_t f8_from(tenon_dtype_t dtype, double value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (dtype == TENON_F8E5M2)
    return sign | static_cast<uint8_t>(float_pattern(std::fabs(value), 2, 15, 0x7c));
  return sign | static_cast<uint8_t>(float_pattern(std::fabs(value), 3, 7, 0x7e));
}

// Component `part` (0 real, 1 imaginary) of an element.
double component(const Dense& t, int64_t i, int part) {
  switch (t.dtype) {
    case TENON_I4:
    case TENON_U4: {
      const int nibble = t.data[i / 2] >> (i % 2 * 4) & 15;
      return t.dtype == TENON_I4 && nibble > 7 ? nibble - 16 : nibble;
    }
    case TENON_F8E4M3FN:
    case TENON_F8E5M2:
      return f8_to(t.dtype, t.data[i]);
    case TENON_C64:
    case TENON_C128:
      return load_double(part_type(t.dtype),
                         t.data + (i * 2 + part) * dtype_bytes(part_type(t.dtype)));
    default:
      return load_double(t.dtype, t.data + i * dtype_bytes(t.dtype));
  }
}

// A small generator with well-known constants (SplitMix64), so that seeds mean the same on every
// machine.
class Random {
 public:
  Random(uint64_t seed, uint64_t stream)
      : state_(seed * 0x9e3779b97f4a7c15u + stream * 0xd1342543de82ef95u) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>((next() >> 11) + 1) * 0x1p-53; }  // (0, 1]
  double normal() {
    if (have_spare_) {
      have_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2 * std::log(uniform())),
                 angle = 2 * 3.14159265358979323846 * uniform();
    spare_ = radius * std::sin(angle);
    have_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  uint64_t state_;
  double spare_ = 0;
  bool have_spare_ = false;
};

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return fmt::format("{:.6g}", value);
}

}  // namespace

int64_t Dense::count() const {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1},
                         [](int64_t a, int64_t b) { return a * b; });
}
uint64_t Dense::size_bytes() const {
  return (static_cast<uint64_t>(count()) * dtype_bits(dtype) + 7) / 8;
}

Dense dense_of(const tenon_array_t& array) {
  return {array.dtype, std::vector<int64_t>(array.dims, array.dims + array.rank),
          static_cast<const unsigned char*>(array.data)};
}

std::string type_text(const Dense& tensor) {
  std::string text(dtype_name(tensor.dtype));
  text += '[';
  for (size_t i = 0; i < tensor.dims.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", tensor.dims[i]);
  return text + ']';
}

double element(const Dense& tensor, int64_t index) {
  return component(tensor, index, 0);
}

std::string element_text(const Dense& tensor, int64_t index) {
  const double value = component(tensor, index, 0);
  if (tensor.dtype == TENON_PRED) return value != 0 ? "true" : "false";
  if (tensor.dtype == TENON_U64) {
    return fmt::format("{}",
                       static_cast<uint64_t>(load_int(tensor.dtype, tensor.data + index * 8)));
  }
  if (is_int(tensor.dtype)) {
    return fmt::format("{}",
                       load_int(tensor.dtype, tensor.data + index * dtype_bytes(tensor.dtype)));
  }
  if (is_complex(tensor.dtype)) {
    return fmt::format("({}, {})", number_text(value), number_text(component(tensor, index, 1)));
  }
  return number_text(value);
}

std::string preview(const Dense& tensor, int64_t most) {
  const int64_t count = tensor.count();
  if (tensor.dims.empty()) return element_text(tensor, 0);
  std::string text = "[";
  const int64_t head = count <= most ? count : most - most / 3, tail = count <= most ? 0 : most / 3;
  for (int64_t i = 0; i < head; ++i) text += (i == 0 ? "" : ", ") + element_text(tensor, i);
  if (count > most) text += ", ...";
  for (int64_t i = count - tail; i < count; ++i) text += ", " + element_text(tensor, i);
  return text + "]";
}

namespace {
// Rows and columns of a tensor of rank 1 or 2 with at least one column.
bool rows_of(const Dense& tensor, int64_t& rows, int64_t& columns) {
  if (tensor.dims.empty() || tensor.dims.size() > 2 || tensor.dims.back() < 1 ||
      is_complex(tensor.dtype))
    return false;
  columns = tensor.dims.back();
  rows = tensor.dims.size() == 2 ? tensor.dims[0] : 1;
  return rows > 0;
}
// Columns of a row, largest first, NaN last, equal ones in order.
std::vector<int64_t> largest(const Dense& tensor, int64_t row, int64_t columns, int64_t n) {
  std::vector<int64_t> order(static_cast<size_t>(columns));
  std::iota(order.begin(), order.end(), 0);
  n = std::min(n, columns);
  const auto key = [&](int64_t column) {
    const double value = element(tensor, row * columns + column);
    return std::isnan(value) ? -std::numeric_limits<double>::infinity() : value;
  };
  std::partial_sort(order.begin(), order.begin() + n, order.end(), [&](int64_t a, int64_t b) {
    const double x = key(a), y = key(b);
    return x != y ? x > y : a < b;
  });
  order.resize(static_cast<size_t>(n));
  return order;
}
constexpr int64_t kRowsShown = 16;
}  // namespace

std::string top_entries(const Dense& tensor, int64_t n) {
  int64_t rows = 0, columns = 0;
  if (!rows_of(tensor, rows, columns)) return "";
  std::string text;
  for (int64_t row = 0; row < std::min(rows, kRowsShown); ++row) {
    text += tensor.dims.size() == 2 ? fmt::format("  row {}:", row) : std::string("  top:");
    const char* separator = " ";
    for (const int64_t column : largest(tensor, row, columns, n)) {
      text +=
          fmt::format("{}{} ({})", separator, column, element_text(tensor, row * columns + column));
      separator = ", ";
    }
    text += '\n';
  }
  if (rows > kRowsShown) text += fmt::format("  ... {} more rows\n", rows - kRowsShown);
  return text;
}

std::string argmax_line(const Dense& tensor) {
  int64_t rows = 0, columns = 0;
  if (!is_float_like(tensor.dtype) || tensor.dims.size() != 2 || !rows_of(tensor, rows, columns) ||
      columns < 2) {
    return "";
  }
  std::string text = rows == 1 ? "  largest at: " : "  largest of each row at: ";
  for (int64_t row = 0; row < std::min(rows, kRowsShown); ++row) {
    text += fmt::format("{}{}", row == 0 ? "" : ", ", largest(tensor, row, columns, 1)[0]);
  }
  return text + (rows > kRowsShown ? ", ...\n" : "\n");
}

void fill_random(tenon_dtype_t dtype, uint64_t seed, uint64_t stream, int64_t count,
                 unsigned char* bytes) {
  Random random(seed, stream);
  const uint32_t size = dtype_bytes(dtype);
  for (int64_t i = 0; i < count; ++i) {
    if (dtype == TENON_I4 || dtype == TENON_U4) {
      const auto nibble = static_cast<unsigned char>(random.next() >> 61);
      bytes[i / 2] = static_cast<unsigned char>(i % 2 == 0 ? nibble : bytes[i / 2] | nibble << 4);
    } else if (dtype == TENON_F8E4M3FN || dtype == TENON_F8E5M2) {
      bytes[i] = f8_from(dtype, random.normal());
    } else if (is_complex(dtype)) {
      const double real = random.normal(), imaginary = random.normal();
      store_double(part_type(dtype), bytes + i * size, real);
      store_double(part_type(dtype), bytes + i * size + size / 2, imaginary);
    } else if (is_float(dtype)) {
      store_double(dtype, bytes + i * size, random.normal());
    } else {
      store_int(dtype, bytes + i * size,
                static_cast<int64_t>(random.next() >> (dtype == TENON_PRED ? 63 : 61)));
    }
  }
}

double default_tolerance(tenon_dtype_t dtype) {
  if (is_narrow_float(dtype)) return 2e-2;
  return is_float_like(dtype) ? 1e-4 : 0;
}

Comparison compare(const Dense& a, const Dense& b, double tolerance) {
  Comparison result;
  const int64_t count = b.count();
  const int parts = is_complex(b.dtype) ? 2 : 1;
  const bool exact = is_int(b.dtype);  // 64-bit integers do not fit a double
  for (int64_t i = 0; i < count; ++i) {
    for (int part = 0; part < parts; ++part) {
      const double x = component(a, i, part), y = component(b, i, part);
      if (std::isfinite(y)) result.scale = std::max(result.scale, std::fabs(y));
      double difference = std::fabs(x - y);
      if (x == y || (std::isnan(x) && std::isnan(y))) difference = 0;
      if (exact && difference == 0 &&
          std::memcmp(a.data + i * dtype_bytes(a.dtype), b.data + i * dtype_bytes(b.dtype),
                      dtype_bytes(b.dtype)) != 0) {
        difference = 1;
      }
      if (std::isnan(difference)) difference = std::numeric_limits<double>::infinity();
      if (difference > result.difference || result.worst < 0) {
        result.difference = difference;
        result.worst = i;
      }
    }
  }
  result.ok = std::isfinite(result.difference) &&
              result.difference <= tolerance * result.scale;  // false for any NaN
  return result;
}

std::string index_text(const std::vector<int64_t>& dims, int64_t flat) {
  std::vector<int64_t> index(dims.size());
  for (size_t d = dims.size(); d-- > 0;) {
    index[d] = flat % dims[d];
    flat /= dims[d];
  }
  std::string text = "[";
  for (size_t d = 0; d < index.size(); ++d)
    text += fmt::format("{}{}", d == 0 ? "" : ", ", index[d]);
  return text + "]";
}

}  // namespace tenon::tools
