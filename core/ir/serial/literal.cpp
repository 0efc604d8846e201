#include "core/ir/serial/literal.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>

#include "core/base/str.h"
#include "core/ir/dtype.h"

namespace tenon::ir {
namespace {

template <typename T>
T load(const std::byte* data, uint64_t index) {
  T v;
  std::memcpy(&v, data + index * sizeof(T), sizeof(T));
  return v;
}
template <typename T>
void store(std::byte* data, uint64_t index, T v) {
  std::memcpy(data + index * sizeof(T), &v, sizeof(T));
}

// Shortest text that reads back as the same number.
template <typename T>
std::string shortest(T v) {
  if (std::isnan(v)) return std::signbit(v) ? "-nan" : "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  return fmt::format("{}", v);
}

float narrow_at(tenon_dtype_t dtype, const std::byte* data, uint64_t i) {
  switch (dtype) {
    case TENON_F16:
      return f16_to_f32(load<uint16_t>(data, i));
    case TENON_BF16:
      return bf16_to_f32(load<uint16_t>(data, i));
    case TENON_F8E4M3FN:
      return f8e4m3fn_to_f32(load<uint8_t>(data, i));
    default:
      return f8e5m2_to_f32(load<uint8_t>(data, i));
  }
}

void store_narrow(tenon_dtype_t dtype, std::byte* data, uint64_t i, float v) {
  switch (dtype) {
    case TENON_F16:
      return store(data, i, f32_to_f16(v));
    case TENON_BF16:
      return store(data, i, f32_to_bf16(v));
    case TENON_F8E4M3FN:
      return store(data, i, f32_to_f8e4m3fn(v));
    default:
      return store(data, i, f32_to_f8e5m2(v));
  }
}

int64_t nibble(tenon_dtype_t dtype, const std::byte* data, uint64_t i) {
  const uint8_t n = (std::to_integer<uint8_t>(data[i / 2]) >> (i % 2 * 4)) & 15;
  return dtype == TENON_I4 && n >= 8 ? int64_t{n} - 16 : n;
}

}  // namespace

void write_element(tenon_dtype_t dtype, const std::byte* data, uint64_t i, std::string* out) {
  switch (dtype) {
    case TENON_PRED:
      *out += load<uint8_t>(data, i) != 0 ? "true" : "false";
      break;
    case TENON_I4:
    case TENON_U4:
      *out += std::to_string(nibble(dtype, data, i));
      break;
    case TENON_I8:
      *out += std::to_string(load<int8_t>(data, i));
      break;
    case TENON_I16:
      *out += std::to_string(load<int16_t>(data, i));
      break;
    case TENON_I32:
      *out += std::to_string(load<int32_t>(data, i));
      break;
    case TENON_I64:
      *out += std::to_string(load<int64_t>(data, i));
      break;
    case TENON_U8:
      *out += std::to_string(load<uint8_t>(data, i));
      break;
    case TENON_U16:
      *out += std::to_string(load<uint16_t>(data, i));
      break;
    case TENON_U32:
      *out += std::to_string(load<uint32_t>(data, i));
      break;
    case TENON_U64:
      *out += std::to_string(load<uint64_t>(data, i));
      break;
    case TENON_F32:
      *out += shortest(load<float>(data, i));
      break;
    case TENON_F64:
      *out += shortest(load<double>(data, i));
      break;
    case TENON_C64:
      *out += "(" + shortest(load<float>(data, 2 * i)) + ", " +
              shortest(load<float>(data, 2 * i + 1)) + ")";
      break;
    case TENON_C128:
      *out += "(" + shortest(load<double>(data, 2 * i)) + ", " +
              shortest(load<double>(data, 2 * i + 1)) + ")";
      break;
    default:
      *out += shortest(narrow_at(dtype, data, i));
      break;
  }
}

bool element_is_plain(tenon_dtype_t dtype, const std::byte* data, uint64_t i) {
  const uint32_t bits = dtype_bits(dtype);
  if (bits == 4) return true;
  if (dtype == TENON_PRED) return load<uint8_t>(data, i) <= 1;
  if (!dtype_is_float(dtype) && !dtype_is_complex(dtype)) return true;
  // Written and read back it must have the same bits.
  const uint32_t parts = dtype_is_complex(dtype) ? 2 : 1;
  const tenon_dtype_t part = dtype == TENON_C64    ? TENON_F32
                             : dtype == TENON_C128 ? TENON_F64
                                                   : dtype;
  const size_t width = bits / 8 / parts;
  for (uint32_t k = 0; k < parts; ++k) {
    const std::byte* at = data + (i * parts + k) * width;
    std::string text;
    write_element(part, at, 0, &text);
    const bool negative = text[0] == '-';
    std::byte back[16] = {};
    if (!read_element(part, negative, std::string_view(text).substr(negative ? 1 : 0), back, 0)
             .ok())
      return false;
    if (std::memcmp(back, at, width) != 0) return false;
  }
  return true;
}

std::string float_text(double value) {
  std::string text = shortest(value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

static Status unfit(tenon_dtype_t dtype, bool negative, std::string_view text) {
  return error(TENON_OUT_OF_RANGE, "T0204", "{} does not fit in {}",
               quoted((negative ? "-" : "") + std::string(text.substr(0, 64))), dtype_name(dtype));
}

static bool parse_double(std::string_view text, double* out) {
  if (text == "inf") return *out = INFINITY, true;
  if (text == "nan") return *out = NAN, true;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return ec == std::errc() && end == text.data() + text.size();
}

static Status read_float(tenon_dtype_t dtype, bool negative, std::string_view text, std::byte* data,
                         uint64_t i) {
  double d;
  if (!parse_double(text, &d)) return unfit(dtype, negative, text);
  if (dtype == TENON_F64) {
    store(data, i, negative ? -d : d);
    return {};
  }
  float f;
  if (std::isfinite(d)) {
    // Straight to f32: going through f64 would round twice.
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), f);
    if (ec != std::errc() && !(ec == std::errc::result_out_of_range && std::fabs(d) < 1))
      return unfit(dtype, negative, text);
    if (ec != std::errc()) f = static_cast<float>(d);
  } else {
    f = static_cast<float>(d);
  }
  if (negative) f = -f;
  if (dtype == TENON_F32) {
    store(data, i, f);
    return {};
  }
  store_narrow(dtype, data, i, f);
  if (std::isfinite(f) && !std::isfinite(narrow_at(dtype, data, i)))
    return unfit(dtype, negative, text);
  return {};
}

Status read_element(tenon_dtype_t dtype, bool negative, std::string_view text, std::byte* data,
                    uint64_t i) {
  if (dtype_is_float(dtype)) return read_float(dtype, negative, text, data, i);
  uint64_t magnitude = 0;
  if (text == "true" && !negative) {
    magnitude = 1;
  } else if (text != "false" || negative) {
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), magnitude);
    if (ec != std::errc() || end != text.data() + text.size()) return unfit(dtype, negative, text);
  }
  const uint32_t bits = dtype == TENON_PRED ? 1 : dtype_bits(dtype);
  const bool is_signed = dtype_is_signed(dtype);
  const uint64_t top = is_signed    ? (uint64_t{1} << (bits - 1)) - (negative ? 0 : 1)
                       : bits == 64 ? ~uint64_t{0}
                                    : (uint64_t{1} << bits) - 1;
  if (magnitude > top || (negative && !is_signed && magnitude != 0))
    return unfit(dtype, negative, text);
  const uint64_t v = negative ? 0 - magnitude : magnitude;
  switch (bits) {
    case 4: {
      const unsigned shift = static_cast<unsigned>(i % 2 * 4);
      const std::byte keep = data[i / 2] & static_cast<std::byte>(0xf0 >> shift);
      data[i / 2] = keep | static_cast<std::byte>((v & 15) << shift);
      break;
    }
    case 1:
    case 8:
      store(data, i, static_cast<uint8_t>(v));
      break;
    case 16:
      store(data, i, static_cast<uint16_t>(v));
      break;
    case 32:
      store(data, i, static_cast<uint32_t>(v));
      break;
    default:
      store(data, i, v);
      break;
  }
  return {};
}

std::string hex_text(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (std::byte b : bytes) {
    out += kDigits[std::to_integer<uint8_t>(b) >> 4];
    out += kDigits[std::to_integer<uint8_t>(b) & 15];
  }
  return out;
}

bool read_hex(std::string_view text, std::vector<std::byte>* out) {
  if (text.size() % 2 != 0) return false;
  auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (size_t i = 0; i < text.size(); i += 2) {
    const int hi = digit(text[i]), lo = digit(text[i + 1]);
    if (hi < 0 || lo < 0) return false;
    out->push_back(static_cast<std::byte>(hi << 4 | lo));
  }
  return true;
}

}  // namespace tenon::ir
