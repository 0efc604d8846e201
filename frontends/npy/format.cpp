#include "format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tenon::npy {
namespace {

struct Name {
  std::string_view descr;  // without the byte order
  tenon_dtype_t dtype;
  uint64_t bytes;
};

// NumPy has no bf16; ml_dtypes writes its arrays as raw two-byte elements, "V2".
constexpr Name kNames[] = {{"b1", TENON_PRED, 1}, {"i1", TENON_I8, 1},     {"i2", TENON_I16, 2},
                           {"i4", TENON_I32, 4},  {"i8", TENON_I64, 8},    {"u1", TENON_U8, 1},
                           {"u2", TENON_U16, 2},  {"u4", TENON_U32, 4},    {"u8", TENON_U64, 8},
                           {"f2", TENON_F16, 2},  {"f4", TENON_F32, 4},    {"f8", TENON_F64, 8},
                           {"c8", TENON_C64, 8},  {"c16", TENON_C128, 16}, {"V2", TENON_BF16, 2}};

constexpr std::string_view kMagic("\x93NUMPY", 6);

std::string quoted(std::string_view text) {
  std::string out = "'";
  for (unsigned char c : text.substr(0, 64)) {
    if (c < 0x20 || c >= 0x7f) {
      out += fmt::format("\\x{:02x}", c);
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + (text.size() > 64 ? "...'" : "'");
}

// Reads the dict literal that NumPy writes. Nothing is evaluated: only strings, True, False and
// tuples of decimal numbers are accepted.
class Literal {
 public:
  explicit Literal(std::string_view text) : text_(text) {}

  std::string parse(Header* out) {
    if (!take('{')) return wrong("'{'");
    while (!take('}')) {
      std::string_view key;
      if (!string(&key)) return wrong("a key in quotes");
      if (!take(':')) return wrong("':'");
      if (std::string error = value(key, out); !error.empty()) return error;
      if (!take(',') && peek() != '}') return wrong("',' or '}'");
    }
    skip_space();
    if (at_ != text_.size()) return wrong("the end of the header");
    if (seen_ != 7) return "T0123: the header lacks 'descr', 'fortran_order' or 'shape'";
    return {};
  }

 private:
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view word) {
    skip_space();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  std::string wrong(std::string_view expected) const {
    return fmt::format(
        "T0123: the header is not an array header: at byte {} it has {}, expected {}", at_,
        quoted(text_.substr(at_, 16)), expected);
  }
  bool string(std::string_view* out) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return false;
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return false;
    *out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return true;
  }

  std::string value(std::string_view key, Header* out) {
    const int bit = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
    if (bit == 0) return fmt::format("T0123: the header has the unknown key {}", quoted(key));
    if ((seen_ & bit) != 0)
      return fmt::format("T0123: the header has the key {} twice", quoted(key));
    seen_ |= bit;
    if (bit == 1) return descr(out);
    if (bit == 4) return shape(out);
    out->fortran_order = take("True");
    return out->fortran_order || take("False") ? std::string() : wrong("True or False");
  }

  std::string descr(Header* out) {
    if (peek() == '[') return "T0124: structured arrays are not read; save each field as an array";
    std::string_view text;
    if (!string(&text)) return wrong("an element type in quotes");
    const std::string_view whole = text;
    char order = '|';
    if (!text.empty() && std::strchr("<>|=", text[0]) != nullptr) {
      order = text[0];
      text.remove_prefix(1);
    }
    if (text.starts_with('O')) {
      return "T0124: it holds pickled Python objects, which are code and are never loaded; save an "
             "array of numbers";
    }
    const auto* name = std::find_if(std::begin(kNames), std::end(kNames),
                                    [&](const Name& n) { return n.descr == text; });
    if (name == std::end(kNames)) {
      return fmt::format(
          "T0124: the element type {} is not one of b1, i1..i8, u1..u8, f2, f4, f8, c8, c16 or V2 "
          "(bf16)",
          quoted(whole));
    }
    out->dtype = name->dtype;
    out->element_bytes = name->bytes;
    out->big_endian = order == '>' && name->bytes > 1;
    return {};
  }

  std::string shape(Header* out) {
    if (!take('(')) return wrong("a tuple of dims");
    while (!take(')')) {
      int64_t dim = 0;
      const size_t begin = (skip_space(), at_);
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
        if (__builtin_mul_overflow(dim, 10, &dim) ||
            __builtin_add_overflow(dim, text_[at_] - '0', &dim)) {
          return "T0102: a dim is beyond the limit of 2^63-1";
        }
      }
      if (at_ == begin) return wrong("a dim, which is a number and not negative");
      if (out->dims.size() == TENON_RANK_MAX) {
        return fmt::format("T0102: the rank is beyond the limit of {}", TENON_RANK_MAX);
      }
      out->dims.push_back(dim);
      if (!take(',') && peek() != ')') return wrong("',' or ')'");
    }
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
  int seen_ = 0;
};

std::string check_size(std::string_view file, Header* out) {
  uint64_t bytes = out->element_bytes;
  for (const int64_t dim : out->dims) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes)) {
      return "T0102: the shape's size in bytes is beyond the limit of 2^64-1";
    }
  }
  const uint64_t there = file.size() - out->data_offset;
  if (bytes != there) {
    return fmt::format("T0125: the shape needs {} bytes of elements, the file holds {}", bytes,
                       there);
  }
  out->data_bytes = bytes;
  return {};
}

}  // namespace

std::string parse_header(std::string_view file, Header* out) {
  if (file.starts_with("PK\x03\x04"))
    return "T0121: it is a .npz archive; unpack it and give one of its .npy files";
  if (file.starts_with("\x80") && !file.starts_with(kMagic)) {
    return "T0121: it is a Python pickle, which is code and is never loaded; save the array with "
           "numpy.save";
  }
  if (!file.starts_with(kMagic))
    return "T0121: it is not an .npy file: it does not begin with \\x93NUMPY";
  if (file.size() < 10) return "T0122: the file ends within its header";
  const auto major = static_cast<unsigned char>(file[6]);
  if (major < 1 || major > 3)
    return fmt::format("T0122: format version {} is unknown; 1 to 3 are read", major);
  const uint64_t width = major == 1 ? 2 : 4;
  if (file.size() < 8 + width) return "T0122: the file ends within its header";
  uint64_t length = 0;
  for (uint64_t i = 0; i < width; ++i)
    length |= uint64_t{static_cast<unsigned char>(file[8 + i])} << (8 * i);
  if (length > file.size() - 8 - width) {
    return fmt::format("T0122: the header's length is {}, the file has {} bytes left", length,
                       file.size() - 8 - width);
  }
  if (length > kMaxHeaderBytes) {
    return fmt::format("T0102: the header has {} bytes, the limit is {}", length, kMaxHeaderBytes);
  }
  *out = Header();
  out->data_offset = 8 + width + length;
  if (std::string error = Literal(file.substr(8 + width, length)).parse(out); !error.empty())
    return error;
  return check_size(file, out);
}

std::vector<char> to_row_major(std::string_view data, const Header& header) {
  std::vector<char> out(data.begin(), data.end());
  const uint64_t size = header.element_bytes;
  const uint64_t count = size == 0 ? 0 : data.size() / size;
  if (header.fortran_order && header.dims.size() > 1 && count > 0) {
    // Walks the result in row-major order and tracks the element's position in the column-major
    // data.
    const size_t rank = header.dims.size();
    std::vector<uint64_t> strides(rank), index(rank);
    uint64_t stride = 1;
    for (size_t d = 0; d < rank; ++d) {
      strides[d] = stride;
      stride *= static_cast<uint64_t>(header.dims[d]);
    }
    uint64_t from = 0;
    for (uint64_t to = 0; to < count; ++to) {
      std::memcpy(out.data() + to * size, data.data() + from * size, size);
      for (size_t d = rank; d-- > 0;) {
        from += strides[d];
        if (++index[d] < static_cast<uint64_t>(header.dims[d])) break;
        from -= strides[d] * index[d];
        index[d] = 0;
      }
    }
  }
  if (header.big_endian) {
    const bool complex = header.dtype == TENON_C64 || header.dtype == TENON_C128;
    const uint64_t part = complex ? size / 2 : size;
    for (uint64_t at = 0; at + part <= out.size(); at += part)
      std::reverse(&out[at], &out[at] + part);
  }
  return out;
}

uint64_t element_bytes(tenon_dtype_t dtype) {
  for (const Name& name : kNames) {
    if (name.dtype == dtype) return name.bytes;
  }
  return 0;
}

std::string make_header(tenon_dtype_t dtype, const int64_t* dims, uint32_t rank) {
  const auto* name = std::find_if(std::begin(kNames), std::end(kNames),
                                  [&](const Name& n) { return n.dtype == dtype; });
  if (name == std::end(kNames)) return {};
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': (",
                                   name->bytes > 1 ? '<' : '|', name->descr);
  for (uint32_t i = 0; i < rank; ++i) header += fmt::format("{}{}", i == 0 ? "" : ", ", dims[i]);
  if (rank == 1) header += ',';
  header += "), }";
  const uint64_t prefix = kMagic.size() + 2 + 2;
  header.append((64 - (prefix + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  std::string out(kMagic);
  out += {'\1', '\0', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return out + header;
}

}  // namespace tenon::npy
