// Scalar programs (tenon/abi/scalar.h), run over blocks of elements: the type is looked at once per
// instruction and block. Floats are computed in double and rounded to their type after each
// instruction, integers in 64 bits and wrapped.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include <tenon/cpp/arithmetic.hpp>
#include <tenon/cpp/elements.hpp>

#include "core/base/errors/failure.h"
#include "core/base/process/operation.h"
#include "core/base/str.h"
#include "core/ir/dtype.h"
#include "core/op/evaluate.h"
#include "core/op/scalar_element.h"
#include "core/op/special_functions.h"

namespace tenon::op {
namespace {

using arithmetic::comparison_holds;
using namespace elements;

constexpr int64_t kBlock = 256;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool is_float(tenon_dtype_t d) {
  return ir::dtype_is_float(d);
}
bool is_unsigned(tenon_dtype_t d) {
  return d >= TENON_U8 && d <= TENON_U64;
}
uint32_t bits_of(tenon_dtype_t d) {
  return ir::dtype_bits(d);
}
tenon_dtype_t working(tenon_dtype_t d) {
  return is_float(d) && bits_of(d) < 32 ? TENON_F32 : d;
}

// One stack entry for a block of elements. Floats use `f`, everything else `i`.
struct Lanes {
  tenon_dtype_t type = TENON_DTYPE_NONE;
  // Of elements as they lay in memory: their type there, and of floats `i` holds the patterns. A
  // NaN has bits that no number of another type keeps, and a bitcast gives them.
  tenon_dtype_t stored = TENON_DTYPE_NONE;
  double f[kBlock];
  int64_t i[kBlock];
};

// ---- One element ----

// To the nearest value of a float type, once.
double round_to(tenon_dtype_t type, double x) {
  switch (type) {
    case TENON_F64:
      return x;
    case TENON_F32:
      return static_cast<float>(x);
    case TENON_F16:
      return ir::f16_to_f32(f16_from(x));
    case TENON_BF16:
      return ir::bf16_to_f32(bf16_from(x));
    case TENON_F8E4M3FN:
      return ir::f8e4m3fn_to_f32(ir::f32_to_f8e4m3fn(static_cast<float>(x)));
    default:
      return ir::f8e5m2_to_f32(ir::f32_to_f8e5m2(static_cast<float>(x)));
  }
}
// Truncates and takes modulo 2^n; NaN and infinities give 0.
int64_t wrap_float(tenon_dtype_t type, double x) {
  if (!std::isfinite(x)) return 0;
  const double rest = std::fmod(std::trunc(x), 0x1p64);
  const uint64_t magnitude = static_cast<uint64_t>(std::fabs(rest));
  return wrap(type, static_cast<int64_t>(rest < 0 ? 0 - magnitude : magnitude));
}

double load_float(tenon_dtype_t type, const std::byte* p) {
  switch (type) {
    case TENON_F64:
      return load_as<double>(p);
    case TENON_F32:
      return load_as<float>(p);
    case TENON_F16:
      return ir::f16_to_f32(load_as<uint16_t>(p));
    case TENON_BF16:
      return ir::bf16_to_f32(load_as<uint16_t>(p));
    case TENON_F8E4M3FN:
      return ir::f8e4m3fn_to_f32(load_as<uint8_t>(p));
    default:
      return ir::f8e5m2_to_f32(load_as<uint8_t>(p));
  }
}
void store_float(tenon_dtype_t type, std::byte* p, double x) {
  switch (type) {
    case TENON_F64:
      return store_as(p, x);
    case TENON_F32:
      return store_as(p, static_cast<float>(x));
    case TENON_F16:
      return store_as(p, f16_from(x));
    case TENON_BF16:
      return store_as(p, bf16_from(x));
    case TENON_F8E4M3FN:
      return store_as(p, ir::f32_to_f8e4m3fn(static_cast<float>(x)));
    default:
      return store_as(p, ir::f32_to_f8e5m2(static_cast<float>(x)));
  }
}

// ---- Instructions ----

// exp(-x) would overflow before the result is 0.
double logistic(double x) {
  const double e = std::exp(-std::fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}
double sign_of(double x) {
  return x > 0 ? 1 : x < 0 ? -1 : x;
}
double float_max(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return kNan;
  if (a == 0 && b == 0) return std::signbit(a) ? b : a;
  return a < b ? b : a;
}
double float_min(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return kNan;
  if (a == 0 && b == 0) return std::signbit(a) ? a : b;
  return b < a ? b : a;
}

using FloatUnary = double (*)(double);
FloatUnary float_unary(uint32_t op) {
  switch (op) {
    case TENON_S_NEG:
      return [](double x) { return -x; };
    case TENON_S_ABS:
      return [](double x) { return std::fabs(x); };
    case TENON_S_SIGN:
      return sign_of;
    case TENON_S_FLOOR:
      return [](double x) { return std::floor(x); };
    case TENON_S_CEIL:
      return [](double x) { return std::ceil(x); };
    case TENON_S_TRUNC:
      return [](double x) { return std::trunc(x); };
    case TENON_S_ROUND_EVEN:
      return [](double x) { return std::nearbyint(x); };
    case TENON_S_SQRT:
      return [](double x) { return std::sqrt(x); };
    case TENON_S_RSQRT:
      return [](double x) { return 1 / std::sqrt(x); };
    case TENON_S_EXP:
      return [](double x) { return std::exp(x); };
    case TENON_S_EXPM1:
      return [](double x) { return std::expm1(x); };
    case TENON_S_LOG:
      return [](double x) { return std::log(x); };
    case TENON_S_LOG1P:
      return [](double x) { return std::log1p(x); };
    // In long double: glibc's own reduction of large arguments is some units off beside a zero.
    case TENON_S_SIN:
      return [](double x) { return static_cast<double>(std::sin(static_cast<long double>(x))); };
    case TENON_S_COS:
      return [](double x) { return static_cast<double>(std::cos(static_cast<long double>(x))); };
    case TENON_S_TANH:
      return [](double x) { return std::tanh(x); };
    case TENON_S_LOGISTIC:
      return logistic;
    case TENON_S_ERF:
      return [](double x) { return std::erf(x); };
    case TENON_S_ERFC:
      return [](double x) { return std::erfc(x); };
    case TENON_S_ERF_INV:
      return erf_inv;
    case TENON_S_LGAMMA:
      return log_gamma;
    case TENON_S_DIGAMMA:
      return digamma;
    default:
      return nullptr;
  }
}
int64_t int_unary(uint32_t op, tenon_dtype_t type, int64_t x) {
  const uint64_t pattern = static_cast<uint64_t>(x) & (~uint64_t{0} >> (64 - bits_of(type)));
  switch (op) {
    case TENON_S_NEG:
      return static_cast<int64_t>(0 - static_cast<uint64_t>(x));
    case TENON_S_ABS:
      return !is_unsigned(type) && x < 0 ? static_cast<int64_t>(0 - static_cast<uint64_t>(x)) : x;
    case TENON_S_SIGN:
      return x == 0 ? 0 : !is_unsigned(type) && x < 0 ? -1 : 1;
    case TENON_S_NOT:
      return type == TENON_PRED ? x == 0 : ~x;
    case TENON_S_POPCOUNT:
      return std::popcount(pattern);
    case TENON_S_CLZ:
      return std::countl_zero(pattern) - (64 - static_cast<int64_t>(bits_of(type)));
    default:
      return x;  // FLOOR and its like change no integer
  }
}

double float_binary(uint32_t op, double a, double b) {
  switch (op) {
    case TENON_S_ADD:
      return a + b;
    case TENON_S_SUB:
      return a - b;
    case TENON_S_MUL:
      return a * b;
    case TENON_S_DIV:
      return a / b;
    case TENON_S_REM:
      return std::fmod(a, b);
    case TENON_S_POW:
      return std::pow(a, b);
    case TENON_S_ATAN2:
      return std::atan2(a, b);
    case TENON_S_MAX:
      return float_max(a, b);
    default:
      return float_min(a, b);
  }
}
int64_t int_div(tenon_dtype_t type, int64_t a, int64_t b) {
  if (b == 0) return -1;
  if (is_unsigned(type))
    return static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
  return b == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(a)) : a / b;
}
int64_t int_rem(tenon_dtype_t type, int64_t a, int64_t b) {
  if (b == 0) return a;
  if (is_unsigned(type))
    return static_cast<int64_t>(static_cast<uint64_t>(a) % static_cast<uint64_t>(b));
  return b == -1 ? 0 : a % b;
}
// Wraps. To a negative exponent it is 1 divided by the power, truncated, where no power wraps: a
// large one is no 0.
int64_t int_pow(tenon_dtype_t type, int64_t a, int64_t b) {
  if (!is_unsigned(type) && b < 0)
    return a == -1 && (b & 1) == 0 ? 1 : a == -1 || a == 1 || a == 0 ? int_div(type, 1, a) : 0;
  uint64_t base = static_cast<uint64_t>(a), power = 1;
  for (auto n = static_cast<uint64_t>(b); n != 0; n >>= 1) {
    if ((n & 1) != 0) power *= base;
    base *= base;
  }
  return wrap(type, static_cast<int64_t>(power));
}
int64_t int_shift(uint32_t op, tenon_dtype_t type, int64_t a, int64_t b) {
  const int64_t width = bits_of(type);
  const bool far = b < 0 || b >= width;  // a u64 count beyond 2^63 looks negative
  const uint64_t pattern = static_cast<uint64_t>(a) & (~uint64_t{0} >> (64 - width));
  if (op == TENON_S_SHL) return far ? 0 : static_cast<int64_t>(pattern << b);
  if (op == TENON_S_SHR_L || is_unsigned(type)) return far ? 0 : static_cast<int64_t>(pattern >> b);
  return far ? (a < 0 ? -1 : 0) : a >> b;
}
int64_t int_binary(uint32_t op, tenon_dtype_t type, int64_t a, int64_t b) {
  const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  const bool below = is_unsigned(type) ? x < y : a < b;
  switch (op) {
    case TENON_S_ADD:
      return static_cast<int64_t>(x + y);
    case TENON_S_SUB:
      return static_cast<int64_t>(x - y);
    case TENON_S_MUL:
      return static_cast<int64_t>(x * y);
    case TENON_S_DIV:
      return int_div(type, a, b);
    case TENON_S_REM:
      return int_rem(type, a, b);
    case TENON_S_POW:
      return int_pow(type, a, b);
    case TENON_S_MAX:
      return below ? b : a;
    case TENON_S_MIN:
      return below ? a : b;
    case TENON_S_AND:
      return a & b;
    case TENON_S_OR:
      return a | b;
    case TENON_S_XOR:
      return a ^ b;
    default:
      return int_shift(op, type, a, b);
  }
}
ScalarElement convert_element(tenon_dtype_t from, tenon_dtype_t to, bool wraps, ScalarElement x) {
  if (is_float(from) && is_float(to)) return {round_to(to, x.f), 0};
  if (is_float(from)) {
    return {0, to == TENON_PRED ? x.f != 0 : wraps ? wrap_float(to, x.f) : saturated(to, x.f)};
  }
  if (!is_float(to)) return {0, wrap(to, x.i)};
  const bool large = from == TENON_U64 && x.i < 0;
  const double wide =
      large ? static_cast<double>(static_cast<uint64_t>(x.i)) : static_cast<double>(x.i);
  const float narrow =
      large ? static_cast<float>(static_cast<uint64_t>(x.i)) : static_cast<float>(x.i);
  return {to == TENON_F32 ? narrow : round_to(to, wide), 0};
}
void convert(Lanes& x, tenon_dtype_t to, int64_t n, bool wraps) {
  for (int64_t k = 0; k < n; ++k) {
    const ScalarElement made = convert_element(x.type, to, wraps, {x.f[k], x.i[k]});
    x.f[k] = made.f;
    x.i[k] = made.i;
  }
  x.type = to;
  x.stored = TENON_DTYPE_NONE;
}
void bitcast(Lanes& x, tenon_dtype_t to, int64_t n) {
  const bool computed = is_float(x.type) && x.stored == TENON_DTYPE_NONE;
  std::byte element[16] = {};
  for (int64_t k = 0; k < n; ++k) {
    computed ? store_float(x.type, element, x.f[k])
             : store_integer(x.stored != TENON_DTYPE_NONE ? x.stored : x.type, element, x.i[k]);
    if (is_float(to)) x.f[k] = load_float(to, element);
    x.i[k] = load_integer(to, element);
  }
  x.type = x.stored = to;
}

// ---- The machine ----

// Walks an array in row-major order of the common dims.
struct Cursor {
  const tenon_array_t* array;
  std::vector<int64_t> index;
  const std::byte* at;
  bool scalar;
  explicit Cursor(const tenon_array_t& a)
      : array(&a),
        index(a.rank, 0),
        at(static_cast<const std::byte*>(a.data)),
        scalar(a.rank == 0) {}
  void advance() {
    if (scalar) return;
    for (uint32_t d = array->rank; d-- > 0;) {
      at += array->strides_bytes[d];
      if (++index[d] < array->dims[d]) return;
      at -= array->strides_bytes[d] * array->dims[d];
      index[d] = 0;
    }
  }
};

class Machine {
 public:
  Machine(const tenon_op_def_t& def, std::span<const tenon_attr_t> attrs,
          std::span<const tenon_array_t> inputs, std::span<HostArray> outputs)
      : def_(def), attrs_(attrs), inputs_(inputs), outputs_(outputs) {
    for (const tenon_array_t& a : inputs) cursors_.emplace_back(a);
  }

  Status run() {
    const tenon_array_t& shape = outputs_[0].view();
    int64_t total = 1;
    for (uint32_t d = 0; d < shape.rank; ++d) total *= shape.dims[d];
    for (int64_t done = 0; done < total; done += kBlock) {
      TENON_RETURN_IF_ERROR(check_cancelled());
      n_ = std::min(kBlock, total - done);
      load_block();
      depth_ = 0;
      work_ = inputs_.empty() ? TENON_DTYPE_NONE : working(inputs_[0].dtype);
      for (uint32_t at = 0; at < def_.scalar_words;) at += step(def_.scalar + at);
      for (size_t r = 0; r < outputs_.size(); ++r) store_block(r, done);
    }
    return {};
  }

 private:
  void load_block() {
    arguments_.resize(inputs_.size());
    for (size_t a = 0; a < inputs_.size(); ++a) {
      Lanes& lanes = arguments_[a];
      lanes.stored = inputs_[a].dtype;
      lanes.type = working(inputs_[a].dtype);
      for (int64_t k = 0; k < n_; ++k, cursors_[a].advance()) {
        if (is_float(lanes.type)) lanes.f[k] = load_float(lanes.stored, cursors_[a].at);
        lanes.i[k] = load_integer(lanes.stored, cursors_[a].at);
      }
    }
  }
  void store_block(size_t result, int64_t done) {
    const tenon_array_t& out = outputs_[result].view();
    const int64_t bytes = bits_of(out.dtype) / 8;
    std::byte* to = static_cast<std::byte*>(out.data) + done * bytes;
    Lanes& lanes = stack_[result];
    // A program may leave a value of the wide type; the result's type is rounded to once.
    if (is_float(lanes.type) != is_float(out.dtype)) convert(lanes, out.dtype, n_, false);
    const bool computed = is_float(out.dtype) && lanes.stored != out.dtype;
    for (int64_t k = 0; k < n_; ++k, to += bytes) {
      computed ? store_float(out.dtype, to, lanes.f[k]) : store_integer(out.dtype, to, lanes.i[k]);
    }
  }

  Lanes& push(tenon_dtype_t type) {
    if (depth_ == stack_.size()) stack_.emplace_back();
    Lanes& lanes = stack_[depth_++];
    lanes.type = type;
    lanes.stored = TENON_DTYPE_NONE;
    return lanes;
  }
  Lanes& top(size_t below = 0) { return stack_[depth_ - 1 - below]; }
  void fill(double f) {
    Lanes& lanes = push(work_);
    const double rounded = is_float(work_) ? round_to(work_, f) : 0;
    const int64_t integer = is_float(work_)       ? 0
                            : work_ == TENON_PRED ? f != 0
                                                  : saturated(work_, f);
    std::fill_n(lanes.f, n_, rounded);
    std::fill_n(lanes.i, n_, integer);
  }
  void fill_int(int64_t i) {
    Lanes& lanes = push(work_);
    std::fill_n(lanes.f, n_, is_float(work_) ? round_to(work_, static_cast<double>(i)) : 0);
    std::fill_n(lanes.i, n_, wrap(work_, i));
  }

  // Runs one instruction; gives the number of its words. The registry has checked the program.
  uint32_t step(const uint32_t* words) {
    const uint32_t op = words[0] & 255, a = words[0] >> 8;
    if (op == TENON_S_CONST_F || op == TENON_S_CONST_I) {
      const uint64_t bits = words[1] | static_cast<uint64_t>(words[2]) << 32;
      op == TENON_S_CONST_F ? fill(std::bit_cast<double>(bits))
                            : fill_int(static_cast<int64_t>(bits));
      return 3;
    }
    if (op < TENON_S_NEG) {
      leaf(op, a);
    } else if (op < TENON_S_ADD) {
      unary(op, a);
    } else if (op < TENON_S_SELECT) {
      binary(op, a);
    } else {
      select();
    }
    return 1;
  }
  void leaf(uint32_t op, uint32_t a) {
    switch (op) {
      case TENON_S_ARG:
        push(TENON_DTYPE_NONE) = arguments_[a];
        break;
      case TENON_S_ATTR:
        attrs_[a].kind == TENON_ATTR_F64 ? fill(attrs_[a].u.f) : fill_int(attrs_[a].u.i);
        break;
      case TENON_S_PICK: {
        const Lanes copy = top(a);
        push(copy.type) = copy;
        break;
      }
      case TENON_S_WORK:
        work_ = working(inputs_[a].dtype);
        break;
      default: {
        const bool low = op == TENON_S_CONST_MIN;
        const double limit = work_ == TENON_F64 ? std::numeric_limits<double>::max()
                                                : std::numeric_limits<float>::max();
        is_float(work_) ? fill(low ? -limit : limit)
                        : fill_int(low ? lowest_integer(work_) : highest_integer(work_));
      }
    }
  }
  void unary(uint32_t op, uint32_t a) {
    Lanes& x = top();
    switch (op) {
      case TENON_S_CONVERT:
        return convert(x, static_cast<tenon_dtype_t>(a), n_, false);
      case TENON_S_CONVERT_RESULT:
        return convert(x, outputs_[a].view().dtype, n_, false);
      case TENON_S_CONVERT_WRAP:
        return convert(x, outputs_[a].view().dtype, n_, true);
      case TENON_S_BITCAST_RESULT:
        return bitcast(x, outputs_[a].view().dtype, n_);
      case TENON_S_IS_NAN:
        for (int64_t k = 0; k < n_; ++k) x.i[k] = is_float(x.type) && std::isnan(x.f[k]);
        x.type = TENON_PRED;
        x.stored = TENON_DTYPE_NONE;
        return;
      default:
        break;
    }
    if (!is_float(x.type)) {
      for (int64_t k = 0; k < n_; ++k) x.i[k] = wrap(x.type, int_unary(op, x.type, x.i[k]));
      return;
    }
    const FloatUnary function = float_unary(op);
    for (int64_t k = 0; k < n_; ++k) x.f[k] = round_to(x.type, function(x.f[k]));
    x.stored = TENON_DTYPE_NONE;
  }
  void binary(uint32_t op, uint32_t a) {
    Lanes& x = top(1);
    const Lanes& y = top();
    --depth_;
    if (op == TENON_S_CMP || op == TENON_S_CMP_ATTR) {
      const uint32_t direction = op == TENON_S_CMP ? a : static_cast<uint32_t>(attrs_[a].u.i);
      for (int64_t k = 0; k < n_; ++k) {
        if (is_float(x.type)) {
          x.i[k] = comparison_holds(direction, x.f[k], y.f[k]);
        } else if (is_unsigned(x.type)) {
          x.i[k] = comparison_holds(direction, static_cast<uint64_t>(x.i[k]),
                                    static_cast<uint64_t>(y.i[k]));
        } else {
          x.i[k] = comparison_holds(direction, x.i[k], y.i[k]);
        }
      }
      x.type = TENON_PRED;
      x.stored = TENON_DTYPE_NONE;
      return;
    }
    for (int64_t k = 0; k < n_; ++k) {
      if (is_float(x.type)) {
        x.f[k] = round_to(x.type, float_binary(op, x.f[k], y.f[k]));
      } else {
        x.i[k] = wrap(x.type, int_binary(op, x.type, x.i[k], y.i[k]));
      }
    }
    x.stored = TENON_DTYPE_NONE;
  }
  void select() {
    Lanes& p = top(2);
    const Lanes &x = top(1), &y = top();
    depth_ -= 2;
    for (int64_t k = 0; k < n_; ++k) {
      const Lanes& chosen = p.i[k] != 0 ? x : y;
      p.f[k] = chosen.f[k];
      p.i[k] = chosen.i[k];
    }
    p.type = x.type;
    p.stored = TENON_DTYPE_NONE;
  }

  const tenon_op_def_t& def_;
  std::span<const tenon_attr_t> attrs_;
  std::span<const tenon_array_t> inputs_;
  std::span<HostArray> outputs_;
  std::vector<Cursor> cursors_;
  std::vector<Lanes> arguments_;
  std::deque<Lanes> stack_;  // references stay good while it grows
  size_t depth_ = 0;
  int64_t n_ = 0;
  tenon_dtype_t work_ = TENON_DTYPE_NONE;
};

}  // namespace

Status run_scalar(const tenon_op_def_t& def, std::span<const tenon_attr_t> attrs,
                  std::span<const tenon_array_t> inputs, std::span<HostArray> outputs) {
  auto unfit = [](tenon_dtype_t d) {
    return ir::dtype_is_complex(d) || d == TENON_I4 || d == TENON_U4;
  };
  for (size_t i = 0; i < inputs.size() + outputs.size(); ++i) {
    const tenon_dtype_t d =
        i < inputs.size() ? inputs[i].dtype : outputs[i - inputs.size()].view().dtype;
    if (!unfit(d)) continue;
    return error(TENON_UNIMPLEMENTED, "T0321", "the scalar program of {} does not run on {} here",
                 quoted(from_abi_str(def.name)), ir::dtype_name(d));
  }
  for (const tenon_array_t& a : inputs) {
    if (a.rank != 0 && a.rank != outputs[0].view().rank) {
      return internal_error(fmt::format("the scalar program of {} has operands of unequal rank",
                                        from_abi_str(def.name)));
    }
  }
  return Machine(def, attrs, inputs, outputs).run();
}

// ---- One element at a time ----

double scalar_round(tenon_dtype_t type, double x) {
  return round_to(type, x);
}
int64_t scalar_wrap(tenon_dtype_t type, int64_t x) {
  return wrap(type, x);
}
ScalarFunction scalar_float_unary(uint32_t op) {
  return float_unary(op);
}
double scalar_float_binary(uint32_t op, double a, double b) {
  return float_binary(op, a, b);
}
int64_t scalar_int_unary(uint32_t op, tenon_dtype_t type, int64_t x) {
  return wrap(type, int_unary(op, type, x));
}
int64_t scalar_int_binary(uint32_t op, tenon_dtype_t type, int64_t a, int64_t b) {
  return wrap(type, int_binary(op, type, a, b));
}

ScalarElement scalar_convert(tenon_dtype_t from, tenon_dtype_t to, bool wraps, ScalarElement x) {
  return convert_element(from, to, wraps, x);
}

ScalarElement scalar_bitcast(tenon_dtype_t from, tenon_dtype_t to, ScalarElement x) {
  std::byte element[16] = {};
  scalar_store(from, element, x);
  return scalar_load(to, element);
}

ScalarElement scalar_load(tenon_dtype_t type, const std::byte* from) {
  if (is_float(type)) return {load_float(type, from), 0};
  return {0, load_integer(type, from)};
}
void scalar_store(tenon_dtype_t type, std::byte* to, ScalarElement x) {
  is_float(type) ? store_float(type, to, x.f) : store_integer(type, to, x.i);
}

}  // namespace tenon::op
