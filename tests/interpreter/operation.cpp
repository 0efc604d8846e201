#include "tests/interpreter/operation.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace tenon::interpreter {
namespace {

using kernelgen::is_float;
using kernelgen::kExp2;
using kernelgen::kFloorDiv;
using kernelgen::kMod;
using kernelgen::kMulAdd;
using kernelgen::kRound;

bool is_unsigned(DType t) {
  return !kernelgen::is_signed(t);
}

// Rounds down. Division by 0 or less gives 0, as in generated code.
int64_t floor_div(int64_t a, int64_t b) {
  if (b <= 0) return 0;
  const int64_t q = a / b;
  return a % b < 0 ? q - 1 : q;
}
int64_t floor_mod(int64_t a, int64_t b) {
  return b <= 0 ? 0 : a - floor_div(a, b) * b;
}

int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t wrap_sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t wrap_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

template <class T>
bool holds(uint8_t relation, T a, T b) {
  switch (relation) {
    case TENON_CMP_EQ:
      return a == b;
    case TENON_CMP_NE:
      return a != b;
    case TENON_CMP_LT:
      return a < b;
    case TENON_CMP_LE:
      return a <= b;
    case TENON_CMP_GT:
      return a > b;
    default:
      return a >= b;
  }
}

template <class F>
void floats(DType t, Reg* dst, size_t n, F f) {
  if (t == TENON_F32) {
    for (size_t k = 0; k < n; ++k) dst[k].f = static_cast<float>(f(k));
  } else if (t == TENON_F64) {
    for (size_t k = 0; k < n; ++k) dst[k].f = f(k);
  } else {
    for (size_t k = 0; k < n; ++k) dst[k].f = op::scalar_round(t, f(k));
  }
}

template <class F>
void integers(Reg* dst, size_t n, F f) {
  for (size_t k = 0; k < n; ++k) dst[k].i = f(k);
}

op::ScalarElement element(DType t, Reg x) {
  return is_float(t) ? op::ScalarElement{x.f, 0} : op::ScalarElement{0, x.i};
}

Reg reg(DType t, op::ScalarElement x) {
  Reg r;
  if (is_float(t))
    r.f = x.f;
  else
    r.i = x.i;
  return r;
}

bool float_code(uint16_t op, Operation* out) {
  switch (op) {
    case kMulAdd:
      out->code = Code::kFloatMulAdd;
      return true;
    case TENON_S_ADD:
      out->code = Code::kFloatAdd;
      return true;
    case TENON_S_SUB:
      out->code = Code::kFloatSub;
      return true;
    case TENON_S_MUL:
      out->code = Code::kFloatMul;
      return true;
    case TENON_S_DIV:
      out->code = Code::kFloatDiv;
      return true;
    case TENON_S_REM:
    case TENON_S_POW:
    case TENON_S_ATAN2:
    case TENON_S_MAX:
    case TENON_S_MIN:
      out->code = Code::kFloatBinary;
      return true;
    default:
      out->code = Code::kFloatUnary;
      out->function = op::scalar_float_unary(op);
      return out->function != nullptr;
  }
}

bool integer_code(uint16_t op, Operation* out) {
  const bool word = out->type == TENON_I64;
  out->code = op >= TENON_S_ADD ? Code::kIntBinary : Code::kIntUnary;
  if (word && op == TENON_S_ADD) out->code = Code::kWordAdd;
  if (word && op == TENON_S_SUB) out->code = Code::kWordSub;
  if (word && op == TENON_S_MUL) out->code = Code::kWordMul;
  if (op == kFloorDiv) out->code = Code::kFloorDiv;
  if (op == kMod) out->code = Code::kMod;
  const bool unary = op >= TENON_S_NEG && op <= TENON_S_CLZ;
  const bool binary = op >= TENON_S_ADD && op <= TENON_S_SHR_L && op != TENON_S_ATAN2;
  return unary || binary || op == kFloorDiv || op == kMod;
}

}  // namespace

bool make_operation(uint16_t op, uint32_t relation, DType type, DType from, Operation* out) {
  *out = {};
  out->op = op;
  out->relation = static_cast<uint8_t>(relation);
  out->type = type;
  out->from = from;
  switch (op) {
    case TENON_S_CMP:
      out->code = is_float(from)      ? Code::kCompareFloat
                  : is_unsigned(from) ? Code::kCompareUnsigned
                                      : Code::kCompareSigned;
      return relation <= TENON_CMP_GE;
    case TENON_S_SELECT:
      out->code = Code::kSelect;
      return true;
    case TENON_S_CONVERT:
    case kRound:
      out->code = Code::kConvert;
      return true;
    case TENON_S_CONVERT_WRAP:
      out->code = Code::kConvertWrap;
      return true;
    case TENON_S_BITCAST_RESULT:
      out->code = Code::kBitcast;
      return kernelgen::size_of(type) == kernelgen::size_of(from);
    case TENON_S_IS_NAN:
      out->code = Code::kIsNan;
      return true;
    case kExp2:
      out->code = Code::kFloatUnary;
      out->function = [](double x) { return std::exp2(x); };
      return is_float(type);
    default:
      break;
  }
  if (op == TENON_S_NOT && type == TENON_PRED) return out->code = Code::kNot, true;
  return is_float(type) ? float_code(op, out) : integer_code(op, out);
}

void apply(const Operation& o, Reg* dst, const Reg* a, const Reg* b, const Reg* c, size_t n) {
  switch (o.code) {
    case Code::kFloatAdd:
      return floats(o.type, dst, n, [&](size_t k) { return a[k].f + b[k].f; });
    case Code::kFloatSub:
      return floats(o.type, dst, n, [&](size_t k) { return a[k].f - b[k].f; });
    case Code::kFloatMul:
      return floats(o.type, dst, n, [&](size_t k) { return a[k].f * b[k].f; });
    case Code::kFloatDiv:
      return floats(o.type, dst, n, [&](size_t k) { return a[k].f / b[k].f; });
    case Code::kFloatMulAdd:
      return floats(o.type, dst, n, [&](size_t k) { return std::fma(a[k].f, b[k].f, c[k].f); });
    case Code::kFloatUnary:
      return floats(o.type, dst, n, [&](size_t k) { return o.function(a[k].f); });
    case Code::kFloatBinary:
      return floats(o.type, dst, n,
                    [&](size_t k) { return op::scalar_float_binary(o.op, a[k].f, b[k].f); });
    case Code::kWordAdd:
      return integers(dst, n, [&](size_t k) { return wrap_add(a[k].i, b[k].i); });
    case Code::kWordSub:
      return integers(dst, n, [&](size_t k) { return wrap_sub(a[k].i, b[k].i); });
    case Code::kWordMul:
      return integers(dst, n, [&](size_t k) { return wrap_mul(a[k].i, b[k].i); });
    case Code::kFloorDiv:
      return integers(dst, n,
                      [&](size_t k) { return op::scalar_wrap(o.type, floor_div(a[k].i, b[k].i)); });
    case Code::kMod:
      return integers(dst, n, [&](size_t k) { return floor_mod(a[k].i, b[k].i); });
    case Code::kIntUnary:
      return integers(dst, n, [&](size_t k) { return op::scalar_int_unary(o.op, o.type, a[k].i); });
    case Code::kIntBinary:
      return integers(
          dst, n, [&](size_t k) { return op::scalar_int_binary(o.op, o.type, a[k].i, b[k].i); });
    case Code::kCompareFloat:
      return integers(dst, n, [&](size_t k) { return holds(o.relation, a[k].f, b[k].f); });
    case Code::kCompareSigned:
      return integers(dst, n, [&](size_t k) { return holds(o.relation, a[k].i, b[k].i); });
    case Code::kCompareUnsigned:
      return integers(dst, n, [&](size_t k) {
        return holds(o.relation, static_cast<uint64_t>(a[k].i), static_cast<uint64_t>(b[k].i));
      });
    case Code::kNot:
      return integers(dst, n, [&](size_t k) { return a[k].i == 0; });
    case Code::kIsNan:
      return integers(dst, n, [&](size_t k) { return is_float(o.from) && std::isnan(a[k].f); });
    case Code::kSelect:
      for (size_t k = 0; k < n; ++k) dst[k] = a[k].i != 0 ? b[k] : c[k];
      return;
    case Code::kConvert:
    case Code::kConvertWrap:
      for (size_t k = 0; k < n; ++k)
        dst[k] = reg(o.type, op::scalar_convert(o.from, o.type, o.code == Code::kConvertWrap,
                                                element(o.from, a[k])));
      return;
    case Code::kBitcast:
      for (size_t k = 0; k < n; ++k)
        dst[k] = reg(o.type, op::scalar_bitcast(o.from, o.type, element(o.from, a[k])));
      return;
  }
}

Reg constant(DType type, int64_t bits) {
  Reg r;
  if (is_float(type))
    r.f = op::scalar_round(type, std::bit_cast<double>(bits));
  else
    r.i = bits;
  return r;
}

Reg read_element(DType type, const unsigned char* from) {
  return reg(type, op::scalar_load(type, reinterpret_cast<const std::byte*>(from)));
}

void write_element(DType type, unsigned char* to, Reg value) {
  op::scalar_store(type, reinterpret_cast<std::byte*>(to), element(type, value));
}

}  // namespace tenon::interpreter
