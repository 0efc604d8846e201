// Products and convolutions of quantised operands. Zero points are subtracted first, in i16 where
// the numbers have 8 bits; sums are kept in i32, so they are exact modulo 2^32.
#include <algorithm>
#include <array>

#include "frontends/onnx/ops/quantise/quantise.h"

namespace tenon::onnx {
namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";

// Whether a zero point is absent or known to be 0 everywhere.
bool is_zero(NodeContext& n, size_t operand) {
  if (!n.has(operand)) return true;
  const auto numbers = n.constants(operand);
  return numbers && std::all_of(numbers->begin(), numbers->end(), [](double v) { return v == 0; });
}

// An operand of 8 bits and what is subtracted from it.
struct Side {
  size_t q = 0, zero = kNone;
  int64_t axis = 0;  // of zero points of more than one element
};

bool check_side(NodeContext& n, const Side& side) {
  const tenon_dtype_t type = n.dtype(side.q);
  if (type != TENON_U8 && type != TENON_I8)
    return n.fail("T0710", cat("its input ", side.q, " has element type ", dtype_name(type),
                               ", and needs u8 or i8"));
  if (n.has(side.zero) && n.dtype(side.zero) != type)
    return n.fail("T0710", cat("its input ", side.q, " has element type ", dtype_name(type),
                               ", its zero point has ", dtype_name(n.dtype(side.zero))));
  return n.ok();
}

Value minus_zero(NodeContext& n, Value q, const Side& side) {
  const Value wide = n.convert(q, TENON_I16);
  if (!wide.valid() || is_zero(n, side.zero)) return wide;
  const Value zero = n.convert(n.value(side.zero), TENON_I16);
  return n.build("sub", {wide, spread(n, zero, wide.dims(), {.axis = side.axis})});
}

// Both operands without their zero points, of one type: as they are where nothing is subtracted
// and their types agree.
std::array<Value, 2> sides(NodeContext& n, const Side& a, const Side& b) {
  if (!check_side(n, a) || !check_side(n, b)) return {};
  const Value x = n.value(a.q), y = n.value(b.q);
  if (!x.valid() || !y.valid()) return {};
  if (is_zero(n, a.zero) && is_zero(n, b.zero) && x.dtype() == y.dtype()) return {x, y};
  return {minus_zero(n, x, a), minus_zero(n, y, b)};
}

// a times b in i32.
Value product(NodeContext& n, size_t a, size_t a_zero, size_t b, size_t b_zero) {
  if (n.rank(a) < 1 || n.rank(b) < 1) {
    n.fail("T0713", "its inputs need rank 1 or more");
    return Value();
  }
  const int64_t rows = std::max<int64_t>(n.rank(a) - 2, 0), columns = n.rank(b) - 1;
  const Dim inner = n.dims(b)[n.rank(b) == 1 ? 0 : n.rank(b) - 2];
  if (!n.require_equal(n.dims(a).back(), inner, "the inner dims")) return Value();
  const auto both = sides(n, {a, a_zero, rows}, {b, b_zero, columns});
  return n.build("matmul", {both[0], both[1]}, {{"dtype", dtype(TENON_I32)}});
}

// The operands of a product whose result is real or quantised again; the scales of a apply to rows,
// those of b to columns.
struct Scales {
  size_t a, b, y = kNone;
};

bool check_scales(NodeContext& n, const Scales& s) {
  return check_scale(n, s.a, ScaleUse::kDequantise) && check_scale(n, s.b, ScaleUse::kDequantise) &&
         (s.y == kNone || check_scale(n, s.y, ScaleUse::kQuantise));
}

// A scalar where one number serves all, in f32.
Value narrow(NodeContext& n, Value v) {
  if (!v.valid()) return v;
  v = n.convert(v, TENON_F32);
  for (const Dim d : v.dims()) {
    if (!d.is(1)) return v;
  }
  return n.reshape(v, {});
}

Value joined(NodeContext& n, std::string_view op, Value x, Value y) {
  const auto both = n.broadcast({x, y});
  return both.size() == 2 ? n.build(op, both) : Value();
}

// a_scale b_scale [/ y_scale] as wide as `shape`. What is the same for all elements is computed
// once.
Value factor(NodeContext& n, const Scales& s, const Dims& shape, int64_t rows, int64_t columns) {
  Value a = narrow(n, n.value(s.a)), b = narrow(n, n.value(s.b));
  if (!a.valid() || !b.valid()) return Value();
  int64_t axis = columns;
  if (a.rank() > 0 && b.rank() > 0) {
    a = spread(n, a, shape, {.axis = rows});
    b = spread(n, b, shape, {.axis = columns});
  } else if (a.rank() > 0) {
    axis = rows;
  }
  Value out = joined(n, "mul", a, b);
  if (s.y != kNone) out = joined(n, "div", out, narrow(n, n.value(s.y)));
  return spread(n, out, shape, {.axis = axis});
}

// The sum as real numbers, divided by the scale of y where there is one.
Value scaled(NodeContext& n, Value sum, const Scales& s, int64_t rows, int64_t columns) {
  if (!check_scales(n, s) || !sum.valid()) return Value();
  return n.build("mul", {n.convert(sum, TENON_F32), factor(n, s, sum.dims(), rows, columns)});
}

// The same of a matrix product.
Value scaled_product(NodeContext& n, Value sum, const Scales& s) {
  const auto rank = sum.valid() ? static_cast<int64_t>(sum.rank()) : 0;
  return scaled(n, sum, s, std::max<int64_t>(rank - 2, 0), std::max<int64_t>(rank - 1, 0));
}

bool set_saturated(NodeContext& n, Value real, size_t zero) {
  if (!n.ok() || !real.valid()) return n.ok();
  const Value offset = n.has(zero) ? spread(n, n.value(zero), real.dims(), {}) : Value();
  return n.set(0, saturate(n, real, offset, zero_type(n, zero)));
}

bool matmul_integer(NodeContext& n) {
  return n.arity(2, 4) && n.set(0, product(n, 0, 2, 1, 3));
}

bool matmul_integer16(NodeContext& n) {
  return n.arity(2, 2) &&
         n.set(0, n.build("matmul", {n.value(0), n.value(1)}, {{"dtype", dtype(TENON_I32)}}));
}

bool qlinear_matmul(NodeContext& n) {
  if (!n.arity(8, 8)) return false;
  const Value sum = product(n, 0, 2, 3, 5);
  return set_saturated(n, scaled_product(n, sum, {1, 4, 6}), 7);
}

// A bias of one number per column, if there is one.
Value with_bias(NodeContext& n, Value y, size_t bias) {
  if (!n.has(bias) || !y.valid()) return y;
  return n.build("add", {y, n.broadcast_to(n.convert(n.value(bias), y.dtype()), y.dims())});
}

// a is quantised while the model runs.
bool dynamic_quantize_matmul(NodeContext& n) {
  if (!n.arity(3, 5) || !check_scale(n, 2, ScaleUse::kDequantise)) return false;
  if (n.rank(0) < 1 || n.rank(1) != 2) return n.fail("T0713", "its weights need rank 2");
  if (!n.require_equal(n.dims(0).back(), n.dims(1)[0], "the inner dims") ||
      !check_side(n, {1, 3, 1}))
    return false;
  const Value a = n.convert(n.value(0), TENON_F32), b = n.value(1);
  if (!a.valid() || !b.valid()) return n.ok();
  const Dynamic made = quantise_dynamically(n.builder(), a);
  const Value zero = n.broadcast_to(n.convert(made.zero, TENON_I16), a.dims());
  const Value left = n.build("sub", {n.convert(made.q, TENON_I16), zero});
  const Value sum =
      n.build("matmul", {left, minus_zero(n, b, {1, 3, 1})}, {{"dtype", dtype(TENON_I32)}});
  if (!sum.valid()) return n.ok();
  const Value scale = joined(n, "mul", made.scale, narrow(n, n.value(2)));
  const Along columns = {.axis = static_cast<int64_t>(sum.rank()) - 1};
  const Value y =
      n.build("mul", {n.convert(sum, TENON_F32), spread(n, scale, sum.dims(), columns)});
  return n.set(0, n.convert(with_bias(n, y, 4), n.dtype(0)));
}

// alpha (a b + c), real without a scale of y. The numbers of c have the scale of the product.
bool qgemm(NodeContext& n) {
  const double alpha = n.number("alpha", 1);
  const bool trans_a = n.integer("transA", 0) != 0, trans_b = n.integer("transB", 0) != 0;
  if (!n.arity(6, 9)) return false;
  if (n.rank(0) != 2 || n.rank(3) != 2) return n.fail("T0713", "its matrices need rank 2");
  if (!n.require_equal(n.dims(0)[trans_a ? 0 : 1], n.dims(3)[trans_b ? 1 : 0], "the inner dims"))
    return false;
  const auto both = sides(n, {0, 2, 0}, {3, 5, trans_b ? 0 : 1});
  const Value a = trans_a ? n.transpose(both[0], {1, 0}) : both[0];
  const Value b = trans_b ? n.transpose(both[1], {1, 0}) : both[1];
  const Value sum = with_bias(n, n.build("matmul", {a, b}, {{"dtype", dtype(TENON_I32)}}), 6);
  Value y = scaled_product(n, sum, {1, 4, n.has(7) ? 7 : kNone});
  if (alpha != 1 && y.valid()) y = n.build("mul", {y, n.full_like(y, alpha)});
  return n.has(7) ? set_saturated(n, y, 8) : n.set(0, y);
}

// With a channel of zeros after an odd number of them, because devices multiply integers in pairs;
// one channel stays alone.
Value even_channels(NodeContext& n, Value v) {
  const Dims dims = v.dims();
  if (!dims[1].is_constant() || dims[1].constant() % 2 == 0 || dims[1].constant() == 1) return v;
  std::vector<int64_t> low(dims.size(), 0), high(dims.size(), 0);
  high[1] = 1;
  return n.build("pad", {v, n.scalar(v.dtype(), 0)}, {{"low", low}, {"high", high}});
}

// The sums of a convolution in i32.
Value convolved(NodeContext& n, const Side& x, const Side& w) {
  Convolution c;
  if (!read_convolution(n, n.dims(x.q), n.dims(w.q), &c)) return Value();
  const auto both = sides(n, x, w);
  if (!both[0].valid() || !both[1].valid()) return Value();
  Window& window = c.window;
  Value in = both[0], filters = both[1];
  if (c.groups == 1) {
    in = even_channels(n, in);
    filters = even_channels(n, filters);
  }
  in = bordered(n, in, &window, n.scalar(filters.dtype(), 0));
  return n.build("conv", {in, filters},
                 {{"strides", window.strides},
                  {"pad_low", window.low},
                  {"pad_high", window.high},
                  {"w_dilation", window.dilations},
                  {"groups", c.groups},
                  {"dtype", dtype(TENON_I32)}});
}

bool conv_integer(NodeContext& n) {
  return n.arity(2, 4) && n.set(0, convolved(n, {0, 2, 1}, {1, 3, 0}));
}

bool qlinear_conv(NodeContext& n) {
  if (!n.arity(8, 9)) return false;
  if (n.integer("channels_last", 0) != 0)
    return n.fail("T0714", "channels in the last dim are not supported");
  Value sum = convolved(n, {0, 2, 1}, {3, 5, 0});
  if (n.has(8) && sum.valid()) {
    if (n.rank(8) != 1) return n.fail("T0713", "its bias needs rank 1");
    sum = n.build("add", {sum, spread(n, n.value(8), sum.dims(), {.axis = 1})});
  }
  return set_saturated(n, scaled(n, sum, {1, 4, 6}, 0, 1), 7);
}

}  // namespace

bool matmul_integer_to_float(NodeContext& n) {
  if (!n.arity(4, 7, n.output_count())) return false;
  const Value sum = product(n, 0, 4, 1, 5);
  const Value y = with_bias(n, scaled_product(n, sum, {2, 3}), 6);
  return n.set(0, n.convert(y, n.dtype(2)));
}

namespace {

constexpr auto kTable = std::to_array<OpImporter>({
    {"MatMulInteger", 10, matmul_integer},
    {"ConvInteger", 10, conv_integer},
    {"QLinearMatMul", 10, qlinear_matmul},
    {"QLinearConv", 10, qlinear_conv},
    {"MatMulInteger16", 1, matmul_integer16, kMicrosoft},
    {"MatMulIntegerToFloat", 1, matmul_integer_to_float, kMicrosoft},
    {"DynamicQuantizeMatMul", 1, dynamic_quantize_matmul, kMicrosoft},
    {"QGemm", 1, qgemm, kMicrosoft},
    {"QLinearConv", 1, qlinear_conv, kMicrosoft},
});

}  // namespace

std::span<const OpImporter> quantised_product_importers() {
  return kTable;
}

}  // namespace tenon::onnx
