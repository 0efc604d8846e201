// Reference implementations in C++: arrays in host memory with obvious access. Correct and plain,
// not fast.
//
// There are two ways to compute. Ops that only move elements copy bytes (`at(index)`). Ops that
// compute read a whole operand into numbers (`read<double>()`, `read<int64_t>()`), compute with
// these, and write back with one rounding. Integers of every width are held in int64_t (u64 as its
// bit pattern), floats in double.
#ifndef TENON_CPP_EVAL_HPP_
#define TENON_CPP_EVAL_HPP_

#include "tenon/abi/ops.h"
#include "tenon/cpp/attributes.hpp"
#include "tenon/cpp/dtype.hpp"
#include "tenon/cpp/graph.hpp"

namespace tenon::inline sdk {

using Index = std::vector<int64_t>;

// Row-major counting through dims: false once it wraps around.
inline bool next(Index& index, std::span<const int64_t> dims) {
  for (size_t i = dims.size(); i-- > 0;) {
    if (++index[i] < dims[i]) return true;
    index[i] = 0;
  }
  return false;
}
inline int64_t count_of(std::span<const int64_t> dims) {
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  return count;
}

// Calls visit(index) for every index of dims in row-major order; never for an empty array.
template <class Visit>
void each_index(std::span<const int64_t> dims, Visit&& visit) {
  if (count_of(dims) == 0) return;
  Index index(dims.size(), 0);
  do {
    visit(index);
  } while (next(index, dims));
}

// A view of tenon_array_t.
class Array {
 public:
  explicit Array(const tenon_array_t& raw) : raw_(&raw) {}
  bool present() const { return raw_->dtype != TENON_DTYPE_NONE; }
  tenon_dtype_t dtype() const { return raw_->dtype; }
  uint32_t rank() const { return raw_->rank; }
  std::span<const int64_t> dims() const { return {raw_->dims, raw_->rank}; }
  int64_t dim(size_t i) const { return raw_->dims[i]; }
  std::span<const int64_t> strides_bytes() const { return {raw_->strides_bytes, raw_->rank}; }
  int64_t count() const { return count_of(dims()); }
  uint32_t element_bytes() const { return dtype_bytes(raw_->dtype); }
  std::byte* at(std::span<const int64_t> index) const {
    auto* p = static_cast<std::byte*>(raw_->data);
    for (size_t i = 0; i < index.size(); ++i) p += index[i] * raw_->strides_bytes[i];
    return p;
  }
  void copy_from(std::span<const int64_t> to, const Array& source,
                 std::span<const int64_t> from) const {
    std::memcpy(at(to), source.at(from), element_bytes());
  }

  // All elements in row-major order as numbers.
  template <class Number>
  std::vector<Number> read() const {
    std::vector<Number> out;
    out.reserve(static_cast<size_t>(count()));
    each_index(dims(), [&](const Index& i) {
      if constexpr (std::is_same_v<Number, double>) {
        out.push_back(load_double(raw_->dtype, at(i)));
      } else {
        out.push_back(static_cast<Number>(load_int(raw_->dtype, at(i))));
      }
    });
    return out;
  }
  template <class Number>
  void write(const std::vector<Number>& values) const {
    size_t k = 0;
    each_index(dims(), [&](const Index& i) {
      if constexpr (std::is_same_v<Number, double>) {
        store_double(raw_->dtype, at(i), values[k++]);
      } else {
        store_int(raw_->dtype, at(i), static_cast<int64_t>(values[k++]));
      }
    });
  }

 private:
  const tenon_array_t* raw_;
};

// Lists of dims among the attributes are numbers here: i64s() reads them.
class Eval : public Attributes {
 public:
  explicit Eval(const tenon_eval_t* raw)
      : Attributes(raw->op, raw->attrs, raw->attr_count), raw_(raw) {}
  const tenon_eval_t& raw() const { return *raw_; }
  uint32_t input_count() const { return raw_->input_count; }
  bool has(uint32_t i) const {
    return i < raw_->input_count && tenon_array_at(raw_->inputs, i)->dtype != TENON_DTYPE_NONE;
  }
  Array input(uint32_t i) const { return Array(*tenon_array_at(raw_->inputs, i)); }
  Array output(uint32_t i = 0) const { return Array(*tenon_array_at(raw_->outputs, i)); }

  // Gives a result whose dims depend on data its memory.
  Status alloc(uint32_t i, std::span<const int64_t> dims) const {
    return raw_->alloc_output(raw_->host, i, dims.data(), static_cast<uint32_t>(dims.size()));
  }
  // The list; if it is empty, `count` times `otherwise`.
  std::vector<int64_t> i64s_or(std::string_view name, size_t count, int64_t otherwise) const {
    const auto list = i64s(name);
    return list.empty() ? std::vector<int64_t>(count, otherwise)
                        : std::vector<int64_t>(list.begin(), list.end());
  }
  bool cancelled() const { return raw_->cancelled != nullptr && raw_->cancelled(raw_->host) != 0; }

 private:
  const tenon_eval_t* raw_;
};

// Calls body with a number of the type in which `dtype` is computed: double for floats, uint64_t
// for unsigned integers (division and order differ), int64_t for the others.
template <class Body>
Status with_number(tenon_dtype_t dtype, Body&& body) {
  if (is_float(dtype)) return body(double{});
  if (is_in(dtype, kUnsigned)) return body(uint64_t{});
  return body(int64_t{});
}

// Lowest and highest value of an element type, as a number of that computing type. Infinities for
// floats.
template <class Number>
Number lowest_of(tenon_dtype_t dtype) {
  if constexpr (std::is_same_v<Number, double>) {
    return -std::numeric_limits<double>::infinity();
  } else {
    if (!is_in(dtype, kSigned)) return 0;
    return static_cast<Number>(std::numeric_limits<int64_t>::min() >> (64 - dtype_bits(dtype)));
  }
}
template <class Number>
Number highest_of(tenon_dtype_t dtype) {
  if constexpr (std::is_same_v<Number, double>) {
    return std::numeric_limits<double>::infinity();
  } else {
    if (dtype == TENON_PRED) return 1;
    if (is_in(dtype, kSigned)) {
      return static_cast<Number>(std::numeric_limits<int64_t>::max() >> (64 - dtype_bits(dtype)));
    }
    return static_cast<Number>(std::numeric_limits<uint64_t>::max() >> (64 - dtype_bits(dtype)));
  }
}

// NaN wins, -0 is below +0 (scalar.h).
template <class Number>
Number max_of(Number a, Number b) {
  if constexpr (std::is_same_v<Number, double>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
    if (a == 0 && b == 0) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}
template <class Number>
Number min_of(Number a, Number b) {
  if constexpr (std::is_same_v<Number, double>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
    if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  }
  return b < a ? b : a;
}

// Row-major strides in elements.
inline std::vector<int64_t> strides_of(std::span<const int64_t> dims) {
  std::vector<int64_t> out(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) out[i - 1] = out[i] * dims[i];
  return out;
}
inline int64_t offset_of(std::span<const int64_t> index, std::span<const int64_t> strides) {
  int64_t offset = 0;
  for (size_t i = 0; i < index.size(); ++i) offset += index[i] * strides[i];
  return offset;
}

}  // namespace tenon::inline sdk

#endif
