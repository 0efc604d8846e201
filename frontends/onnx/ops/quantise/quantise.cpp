#include "frontends/onnx/ops/quantise/quantise.h"

#include <cmath>

namespace tenon::onnx {
namespace {

struct Range {
  double low, high;
};
// Of the integer types that numbers are quantised to.
std::optional<Range> range_of(tenon_dtype_t type) {
  const uint32_t bits = dtype_bits(type);
  if (!is_in(type, kAnyInt) || bits > 16) return {};
  const double half = std::ldexp(1, static_cast<int>(bits) - 1);
  return is_in(type, kSigned | dtype_bit(TENON_I4)) ? Range{-half, half - 1}
                                                    : Range{0, 2 * half - 1};
}

bool is_one_element(const Dims& dims) {
  for (const Dim d : dims) {
    if (!d.is(1)) return false;
  }
  return true;
}

// One scale for each block of elements: each is repeated, the last one cut where the axis ends.
Value spread_blocks(NodeContext& n, Value p, const Dims& shape, const Along& along) {
  const auto axis = static_cast<size_t>(along.axis);
  const Dims from = p.dims();
  if (from.size() != shape.size()) {
    n.fail("T0713", cat("scales of blocks have rank ", from.size(), ", and need ", shape.size()));
    return Value();
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != axis && !n.require_equal(from[i], shape[i], "the dims of scales and of numbers"))
      return Value();
  }
  const Dim block = n.dim(along.block), covered = from[axis] * block;
  if (!n.require(TENON_REL_LE, shape[axis], covered, "the numbers along its axis and its blocks") ||
      !n.require(TENON_REL_LT, covered, shape[axis] + block,
                 "its blocks and the numbers along its axis"))
    return Value();
  Dims split(from.begin(), from.begin() + along.axis + 1), joined = from;
  split.push_back(block);
  split.insert(split.end(), from.begin() + along.axis + 1, from.end());
  joined[axis] = covered;
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < static_cast<int64_t>(split.size()); ++i) {
    if (i != along.axis + 1) kept.push_back(i);
  }
  Value out = n.build("broadcast", {p}, {{"shape", split}, {"dims", kept}});
  out = n.reshape(out, joined);
  if (surely_equal(covered, shape[axis])) return out;
  return n.build("slice", {out}, {{"start", Dims(shape.size(), n.dim(0))}, {"limit", shape}});
}

// The elements of an operand that is a constant of floats; empty for others.
std::vector<double> floats(NodeContext& n, size_t operand) {
  std::vector<double> out;
  const Constant* constant = n.item(operand).constant();
  if (constant == nullptr || !is_float(constant->dtype)) return out;
  const std::span<const std::byte> bytes = blob_bytes(constant->blob.get());
  const size_t width = dtype_bytes(constant->dtype);
  for (size_t at = 0; at + width <= bytes.size(); at += width)
    out.push_back(load_double(constant->dtype, &bytes[at]));
  return out;
}

// Numbers of i32 are sums, or biases, which have no zero point. A constant one of 0 is let pass.
bool check_zero_of_sums(NodeContext& n, size_t operand) {
  const Constant* constant = n.item(operand).constant();
  if (constant == nullptr || constant->dtype != TENON_I32) return n.ok();
  const std::span<const std::byte> bytes = blob_bytes(constant->blob.get());
  for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    const int64_t zero = load_int(TENON_I32, &bytes[at]);
    if (zero == 0) continue;
    return n.fail("T0720", cat("its zero point, input ", operand, ", is ", zero,
                               ", and must be 0 for numbers of i32"));
  }
  return n.ok();
}

// An operand in its held type. A model's input has its declared type, with which no op computes.
Value held(NodeContext& n, size_t operand) {
  n.item(operand);
  const Value v = n.value(operand);
  if (!v.valid() || v.dtype() == held_type(v.dtype())) return v;
  n.fail("T0710", cat("its input ", operand, " is an input of the model with element type ",
                      dtype_name(v.dtype()), "; only constants and results may have it"));
  return Value();
}

// Rounds f32 to the numbers of an 8-bit float: its mantissa, its least exponent, its largest
// number.
Value round_to_f8(NodeContext& n, Value x, tenon_dtype_t type) {
  const bool wide = type == TENON_F8E5M2;
  const double largest = wide ? 57344 : 448;
  const bool saturates = n.integer("saturate", 1) != 0;
  const Value from = saturates ? n.build("clamp", {x}, {{"min", -largest}, {"max", largest}}) : x;
  const Value bits = n.build("bitcast", {from}, {{"dtype", dtype(TENON_I32)}});
  if (!bits.valid()) return Value();
  const Value exponent = n.build("and", {bits, n.full_like(bits, 0x7f800000)});
  const Value power = n.build("bitcast", {exponent}, {{"dtype", dtype(TENON_F32)}});
  const Value least = n.full_like(x, std::ldexp(1, wide ? -14 : -6));
  const Value step = n.build(
      "mul", {n.build("max", {power, least}), n.full_like(x, std::ldexp(1, wide ? -2 : -3))});
  const Value rounded =
      n.build("mul", {n.build("round_even", {n.build("div", {from, step})}), step});
  if (saturates) return rounded;
  const double beyond = wide ? HUGE_VAL : std::nan("");
  const Value size = n.build("abs", {rounded});
  const Value fits = n.build("compare", {size, n.full_like(x, largest)}, {{"direction", 3}});
  const Value signs =
      n.build("select", {n.build("compare", {x, n.full_like(x, 0)}, {{"direction", 2}}),
                         n.full_like(x, -beyond), n.full_like(x, beyond)});
  // Neither NaN nor what is too large fits.
  const Value is_nan = n.build("is_nan", {x});
  return n.build("select", {fits, rounded, n.build("select", {is_nan, x, signs})});
}

}  // namespace

bool check_scale(NodeContext& n, size_t operand, ScaleUse use) {
  if (!n.has(operand)) return n.fail("T0720", cat("its scale, input ", operand, ", is missing"));
  if (!is_float(n.dtype(operand)))
    return n.fail("T0710", cat("its scale, input ", operand, ", has element type ",
                               dtype_name(n.dtype(operand)), ", and must have floats"));
  for (const double scale : floats(n, operand)) {
    const bool fits = scale != 0 || use == ScaleUse::kDequantise;
    if (std::isfinite(scale) && fits) continue;
    return n.fail("T0720", cat("its scale, input ", operand, ", is ", scale, ", and must be ",
                               use == ScaleUse::kDequantise ? "finite" : "finite and not 0"));
  }
  return n.ok();
}

Value spread(NodeContext& n, Value p, const Dims& shape, const Along& along) {
  if (!n.ok() || !p.valid()) return Value();
  if (is_one_element(p.dims())) return n.broadcast_to(n.reshape(p, {}), shape);
  if (along.block > 0) return spread_blocks(n, p, shape, along);
  if (p.rank() == shape.size()) return n.broadcast_to(p, shape);
  const auto axis = static_cast<size_t>(along.axis);
  if (p.rank() != 1 || axis >= shape.size()) {
    n.fail("T0713", cat("a scale or zero point of rank ", p.rank(),
                        " does not fit numbers of rank ", shape.size()));
    return Value();
  }
  if (!n.require_equal(
          p.dims()[0], shape[axis],
          cat("the numbers of scales or zero points and of elements along axis ", axis)))
    return Value();
  const std::vector<int64_t> at = {along.axis};
  return n.build("broadcast", {p}, {{"shape", shape}, {"dims", at}});
}

Value saturate(NodeContext& n, Value real, Value zero, tenon_dtype_t type) {
  const auto range = range_of(type);
  if (!range) {
    n.fail("T0710", cat("it quantises to ", dtype_name(type), ", which is not supported"));
    return Value();
  }
  Value out = n.build("round_even", {real});
  if (zero.valid()) out = n.build("add", {out, n.convert(zero, TENON_F32)});
  out = n.build("clamp", {out}, {{"min", range->low}, {"max", range->high}});
  return n.convert(out, held_type(type));
}

tenon_dtype_t zero_type(NodeContext& n, size_t zero, tenon_dtype_t otherwise) {
  return n.has(zero) ? n.dtype(zero) : otherwise;
}

bool set_quantised(NodeContext& n, Value real, size_t scale, size_t zero, tenon_dtype_t type,
                   const Along& along) {
  if (!check_scale(n, scale, ScaleUse::kQuantise) || !real.valid()) return n.ok();
  const Dims shape = real.dims();
  const Value divisor = spread(n, n.convert(n.value(scale), real.dtype()), shape, along);
  const Value scaled = n.convert(n.build("div", {real, divisor}), TENON_F32);
  if (held_type(type) == TENON_F32) return n.set(0, Item::held(round_to_f8(n, scaled, type), type));
  const Value offset = n.has(zero) ? spread(n, held(n, zero), shape, along) : Value();
  const Value q = saturate(n, scaled, offset, type);
  return n.ok() && q.valid() ? n.set(0, Item::held(q, type)) : n.ok();
}

Value dequantised(NodeContext& n, Value q, Value scale, Value zero) {
  if (!n.ok() || !q.valid() || !scale.valid()) return Value();
  // Differences of i32 are taken before numbers are rounded to f32; others are exact in f32.
  const bool wide = dtype_bits(q.dtype()) > 16 && !is_float(q.dtype());
  Value difference = wide ? q : n.convert(q, TENON_F32);
  if (zero.valid())
    difference = n.build("sub", {difference, wide ? zero : n.convert(zero, TENON_F32)});
  return n.build("mul", {n.convert(difference, TENON_F32), n.convert(scale, TENON_F32)});
}

Value dequantised(NodeContext& n, const Quantised& x, const Along& along) {
  if (!check_scale(n, x.scale, ScaleUse::kDequantise)) return Value();
  const Value q = held(n, x.q);
  if (!q.valid()) return Value();
  Value zero;
  if (n.has(x.zero)) {
    zero = held(n, x.zero);
    if (zero.valid() && zero.dtype() != q.dtype()) {
      n.fail("T0710", cat("its numbers have element type ", dtype_name(n.dtype(x.q)),
                          ", its zero point has ", dtype_name(n.dtype(x.zero))));
      return Value();
    }
    if (!check_zero_of_sums(n, x.zero)) return Value();
  }
  const Dims shape = q.dims();
  return dequantised(n, q, spread(n, n.value(x.scale), shape, along),
                     spread(n, zero, shape, along));
}

Dynamic quantise_dynamically(Builder& b, Value x) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < static_cast<int64_t>(x.rank()); ++i) all.push_back(i);
  const Value none = b.scalar(TENON_F32, 0);
  const Value low = b.build("min", {b.build("reduce_min", {x}, {{"dims", all}}), none});
  const Value high = b.build("max", {b.build("reduce_max", {x}, {{"dims", all}}), none});
  const Value width = b.build("div", {b.build("sub", {high, low}), b.scalar(TENON_F32, 255)});
  const Value flat = b.build("compare", {high, low}, {{"direction", 0}});
  Dynamic out;
  out.scale = b.build("select", {flat, b.scalar(TENON_F32, 1), width});
  const auto rounded = [&](Value v) {
    return b.build("clamp", {b.build("round_even", {v})}, {{"min", 0.0}, {"max", 255.0}});
  };
  const Value zero = rounded(b.build("sub", {none, b.build("div", {low, out.scale})}));
  out.zero = b.convert(zero, TENON_U8);
  const Value scaled = b.build("div", {x, b.splat(out.scale, x.dims())});
  const Value placed = b.build("add", {b.build("round_even", {scaled}), b.splat(zero, x.dims())});
  out.q = b.convert(b.build("clamp", {placed}, {{"min", 0.0}, {"max", 255.0}}), TENON_U8);
  return out;
}

Value through_dynamic(Builder& b, Value x) {
  const Dynamic made = quantise_dynamically(b, x);
  const auto number = [&](Value v) { return b.splat(b.convert(v, TENON_F32), x.dims()); };
  const Value difference = b.build("sub", {b.convert(made.q, TENON_F32), number(made.zero)});
  return b.build("mul", {difference, number(made.scale)});
}

}  // namespace tenon::onnx
