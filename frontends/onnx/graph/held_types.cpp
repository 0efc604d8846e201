// Constants of element types without arithmetic, as values of the types that hold them (ADR 0034).
// The bytes of the file stay as they are; ops widen them.
#include "frontends/onnx/graph/held_types.h"

namespace tenon::onnx {
namespace {

// Two numbers in each byte, the first in the low half. An odd count leaves half a byte over.
Value unpack_nibbles(Builder& b, const Constant& constant) {
  const bool is_signed = constant.dtype == TENON_I4;
  int64_t count = 1;
  Dims dims;
  for (const int64_t d : constant.dims) {
    count *= d;  // within the limit of elements
    dims.push_back(b.dim(d));
  }
  const int64_t size = (count + 1) / 2;
  const Value bytes = b.constant(is_signed ? TENON_I8 : TENON_U8, {&size, 1}, constant.blob.get());
  const auto shift = [&](std::string_view op, Value v) {
    return b.build(op, {v, b.full_like(v, 4)});
  };
  if (!bytes.valid()) return bytes;
  const std::string_view right = is_signed ? "shr_arith" : "shr_logical";
  const Value low = shift(right, shift("shl", bytes)), high = shift(right, bytes);
  const Dims column = {b.dim(size), b.dim(1)};
  const auto as_column = [&](Value v) { return b.build("reshape", {v}, {{"shape", column}}); };
  const std::vector<Value> both = {as_column(low), as_column(high)};
  Value all = b.build("concat", both, {{"dim", 1}});
  all = b.build("reshape", {all}, {{"shape", Dims{b.dim(2 * size)}}});
  if (count % 2 != 0)
    all = b.build("slice", {all}, {{"start", Dims{b.dim(0)}}, {"limit", Dims{b.dim(count)}}});
  return b.build("reshape", {all}, {{"shape", dims}});
}

// An e5m2 is the upper half of an f16. An e4m3fn in the place of an f16's bits is 2^8 times too
// small, its NaN apart.
Value decode_f8(Builder& b, const Constant& constant) {
  const Value bytes = b.constant(TENON_U8, constant.dims, constant.blob.get());
  const Value bits = b.convert(bytes, TENON_U16);
  if (!bits.valid()) return bits;
  const auto as_f32 = [&](Value v) {
    return b.convert(b.build("bitcast", {v}, {{"dtype", dtype(TENON_F16)}}), TENON_F32);
  };
  const auto masked = [&](int64_t mask, int64_t shift) {
    const Value kept = b.build("and", {bits, b.splat(b.scalar_int(TENON_U16, mask), bits.dims())});
    return b.build("shl", {kept, b.splat(b.scalar_int(TENON_U16, shift), bits.dims())});
  };
  if (constant.dtype == TENON_F8E5M2) return as_f32(masked(0xff, 8));
  const Value sign = masked(0x80, 8), size = masked(0x7f, 7);
  const Value number = as_f32(b.build("or", {sign, size}));
  const Value scaled = b.build("mul", {number, b.full_like(number, 256)});
  const Value is_nan =
      b.build("compare", {size, b.splat(b.scalar_int(TENON_U16, 0x7f << 7), bits.dims())},
              {{"direction", 0}});
  return b.build("select", {is_nan, b.full_like(number, __builtin_nan("")), scaled});
}

}  // namespace

tenon_dtype_t held_type(tenon_dtype_t type) {
  if (type == TENON_U4) return TENON_U8;
  if (type == TENON_I4) return TENON_I8;
  if (type == TENON_F8E4M3FN || type == TENON_F8E5M2) return TENON_F32;
  return type;
}

Value held_constant(Builder& b, const Constant& constant) {
  if (constant.dtype == TENON_U4 || constant.dtype == TENON_I4) return unpack_nibbles(b, constant);
  if (held_type(constant.dtype) == TENON_F32 && constant.dtype != TENON_F32)
    return decode_f8(b, constant);
  return b.constant(constant.dtype, constant.dims, constant.blob.get());
}

}  // namespace tenon::onnx
