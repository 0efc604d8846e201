// Products and gathers with weights of few bits, whose scales belong to blocks.
#include <array>

#include "frontends/onnx/ops/quantise/quantise.h"

namespace tenon::onnx {
namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";

// A MatMulNBits: x [..., k] times weights [n, k], with a scale for each block of each row.
struct NBits {
  int64_t k = 0, rows = 0, bits = 4, block = 32, blocks = 0;
};

bool read_nbits(NodeContext& n, NBits* w) {
  for (const std::string_view name : {"K", "N", "block_size"}) {
    if (!n.has_attribute(name)) return n.fail("T0708", cat("attribute '", name, "' is missing"));
  }
  w->k = n.integer("K", 0);
  w->rows = n.integer("N", 0);
  w->bits = n.integer("bits", 4);
  w->block = n.integer("block_size", 32);
  n.integer("accuracy_level", 0);  // products are exact in any case
  if (n.integer("weight_prepacked", 0) != 0)
    return n.fail("T0714", "weights in an order of one device's own are not supported");
  if (w->bits != 2 && w->bits != 4 && w->bits != 8)
    return n.fail("T0714", cat("weights of ", w->bits, " bits are not supported"));
  if (w->k < 1 || w->rows < 1 || w->block < 2 || w->block > 65536 || w->block * w->bits % 8 != 0)
    return n.fail("T0708",
                  cat("its attributes K, N and block_size are ", w->k, ", ", w->rows, " and ",
                      w->block, ", and must be positive, the last one in whole bytes"));
  n.within_limit(static_cast<__int128>(w->k) * w->rows, "the number of its weights");
  if (!n.ok()) return false;
  w->blocks = (w->k + w->block - 1) / w->block;
  return n.ok();
}

// Fails unless operand i has `count` elements.
bool need_count(NodeContext& n, size_t i, int64_t count, std::string_view what) {
  return n.require_equal(n.product(n.dims(i)), n.dim(count), what);
}

}  // namespace

Value narrow_numbers(NodeContext& n, Value bytes, int64_t bits) {
  if (!bytes.valid() || bits == 8) return bytes;
  const int64_t each = 8 / bits;
  const Dims d = bytes.dims(), column = {d[0], d[1], n.dim(1)};
  const double mask = static_cast<double>((1 << bits) - 1);
  std::vector<Value> parts;
  for (int64_t i = 0; i < each; ++i) {
    Value part = bytes;
    if (i > 0)
      part = n.build("shr_logical", {part, n.full_like(part, static_cast<double>(i * bits))});
    if (i + 1 < each) part = n.build("and", {part, n.full_like(bytes, mask)});
    parts.push_back(n.reshape(part, column));
  }
  return n.reshape(n.build("concat", parts, {{"dim", 2}}), {d[0], d[1] * n.dim(each)});
}

Value first_columns(NodeContext& n, Value x, int64_t count) {
  if (!x.valid() || x.dims()[1].is(count)) return x;
  return n.build("slice", {x},
                 {{"start", Dims(2, n.dim(0))}, {"limit", Dims{x.dims()[0], n.dim(count)}}});
}

namespace {

// The zero points [rows, blocks], as bytes or as real numbers; invalid if there are none.
Value zeros_of(NodeContext& n, const NBits& w) {
  if (!n.has(3)) return Value();
  if (is_float(n.dtype(3))) {
    if (!need_count(n, 3, w.rows * w.blocks, "its zero points and its blocks")) return Value();
    return n.reshape(n.value(3), {n.dim(w.rows), n.dim(w.blocks)});
  }
  const int64_t bytes = (w.blocks * w.bits + 7) / 8;
  if (n.dtype(3) != TENON_U8) {
    n.fail("T0710", cat("its zero points have element type ", dtype_name(n.dtype(3)),
                        ", and need u8 or floats"));
    return Value();
  }
  if (!need_count(n, 3, w.rows * bytes, "the bytes of its zero points and its blocks"))
    return Value();
  const Value packed = n.reshape(n.value(3), {n.dim(w.rows), n.dim(bytes)});
  return first_columns(n, narrow_numbers(n, packed, w.bits), w.blocks);
}

// With one zero point and scale per feature, or with a last block that is not full.
Value by_floats(NodeContext& n, const NBits& w, Value packed, Value scales, Value zeros) {
  const tenon_dtype_t type = n.dtype(0);
  const Value q = n.convert(first_columns(n, narrow_numbers(n, packed, w.bits), w.k), type);
  if (!q.valid() || !scales.valid()) return Value();
  const Dims shape = q.dims();
  const auto per_feature = [&](Value v) {
    if (n.has(4)) {
      const Value columns = n.convert(n.value(4), TENON_I64);
      return n.build("take", {v, columns}, {{"dim", 1}, {"mode", "in_bounds"}});
    }
    return spread(n, v, shape, {.axis = 1, .block = w.block});
  };
  const Value zero = zeros.valid()
                         ? per_feature(n.convert(zeros, type))
                         : n.full_like(q, static_cast<double>(int64_t{1} << (w.bits - 1)));
  const Value real = n.build("mul", {n.build("sub", {q, zero}), per_feature(scales)});
  return n.build("linear", {n.value(0), real}, {{"transpose_w", 1}});
}

bool matmul_nbits(NodeContext& n) {
  NBits w;
  if (!n.arity(3, 6) || !read_nbits(n, &w) || !check_scale(n, 2, ScaleUse::kDequantise))
    return false;
  if (n.dtype(1) != TENON_U8)
    return n.fail("T0710",
                  cat("its weights have element type ", dtype_name(n.dtype(1)), ", and need u8"));
  const int64_t bytes = w.blocks * w.block * w.bits / 8;
  if (n.rank(0) < 1 ||
      !n.require_equal(n.dims(0).back(), n.dim(w.k), "the features of its input and K"))
    return n.fail("T0713", "its input needs rank 1 or more");
  if (!need_count(n, 1, w.rows * bytes, "the bytes of its weights and those of N rows of K") ||
      !need_count(n, 2, w.rows * w.blocks, "its scales and its blocks"))
    return false;
  if (n.has(4) && !need_count(n, 4, w.k, "the entries of g_idx and K")) return false;
  const Value packed = n.reshape(n.value(1), {n.dim(w.rows), n.dim(bytes)});
  const Value scales =
      n.convert(n.reshape(n.value(2), {n.dim(w.rows), n.dim(w.blocks)}), n.dtype(0));
  const Value zeros = zeros_of(n, w);
  if (!n.ok() || !packed.valid() || !scales.valid()) return n.ok();
  const bool whole = w.bits != 2 && w.block % 2 == 0 && w.k % w.block == 0 && !n.has(4);
  Value y;
  if (whole && (!zeros.valid() || zeros.dtype() == TENON_U8)) {
    std::vector<Value> operands = {n.value(0), packed, scales};
    if (zeros.valid()) operands.push_back(zeros);
    y = n.build("matmul_nbits", operands, {{"bits", w.bits}, {"group", w.block}});
  } else {
    y = by_floats(n, w, packed, scales, zeros);
  }
  if (n.has(5) && y.valid()) {
    if (n.rank(5) != 1) return n.fail("T0713", "its bias needs rank 1");
    y = n.build("add", {y, n.broadcast_to(n.convert(n.value(5), y.dtype()), y.dims())});
  }
  return n.set(0, y);
}

// ---- MatMulBnb4 ----

// The numbers that 4 bits stand for in bitsandbytes' two formats: signed floats of 2 exponent bits
// and 1 mantissa bit, divided by the largest, and quantiles of the normal distribution.
constexpr float kFp4[16] = {0,    0.0052083333f,  2 / 3.f,  1,  1 / 3.f,  0.5f,  1 / 6.f,  0.25f,
                            -0.f, -0.0052083333f, -2 / 3.f, -1, -1 / 3.f, -0.5f, -1 / 6.f, -0.25f};
constexpr float kNf4[16] = {-1,
                            -0.6961928009986877f,
                            -0.5250730514526367f,
                            -0.39491748809814453f,
                            -0.28444138169288635f,
                            -0.18477343022823334f,
                            -0.09105003625154495f,
                            0,
                            0.07958029955625534f,
                            0.16093020141124725f,
                            0.24611230194568634f,
                            0.33791524171829224f,
                            0.44070982933044434f,
                            0.5626170039176941f,
                            0.7229568362236023f,
                            1};

// Weights [N, K] in one list, the first of two in the high half of a byte, with the largest size of
// each block of the list.
bool matmul_bnb4(NodeContext& n) {
  if (!n.arity(3, 3) || !check_scale(n, 2, ScaleUse::kDequantise)) return false;
  const int64_t k = n.integer("K", 0), rows = n.integer("N", 0), block = n.integer("block_size", 0),
                kind = n.integer("quant_type", 0);
  if (n.integer("training_mode", 0) != 0) return n.fail("T0714", "training mode is not supported");
  if (n.integer("transB", 1) != 1) return n.fail("T0714", "weights [K, N] are not supported");
  if (k < 1 || rows < 1 || block < 1 || kind < 0 || kind > 1)
    return n.fail("T0708", cat("its attributes K, N, block_size and quant_type are ", k, ", ", rows,
                               ", ", block, " and ", kind));
  const int64_t count =
      n.within_limit(static_cast<__int128>(k) * rows, "the number of its weights");
  if (!n.ok()) return false;
  if (n.dtype(1) != TENON_U8) return n.fail("T0710", "its weights need element type u8");
  if (n.rank(0) < 1 ||
      !n.require_equal(n.dims(0).back(), n.dim(k), "the features of its input and K"))
    return n.fail("T0713", "its input needs rank 1 or more");
  if (!need_count(n, 1, (count + 1) / 2, "the bytes of its weights and those of N rows of K") ||
      !need_count(n, 2, (count - 1) / block + 1, "its scales and its blocks"))
    return false;
  const Value bytes = n.reshape(n.value(1), {n.dim((count + 1) / 2), n.dim(1)});
  const Value both = narrow_numbers(n, bytes, 4);
  if (!both.valid()) return n.ok();
  const Value turned = n.build("reverse", {both}, {{"dims", {1}}});
  const Value q =
      first_columns(n, n.reshape(turned, {n.dim(1), n.dim((count + 1) / 2 * 2)}), count);
  const int64_t sixteen = 16;
  const Value table =
      n.builder().constant(TENON_F32, {&sixteen, 1}, kind == 0 ? kFp4 : kNf4, sizeof kFp4);
  const Value real = n.build("take", {table, n.convert(q, TENON_I32)}, {{"dim", 0}});
  if (!real.valid()) return n.ok();
  const Value scales =
      n.reshape(n.convert(n.value(2), TENON_F32), {n.dim(1), n.product(n.dims(2))});
  const Value w =
      n.build("mul", {real, spread(n, scales, real.dims(), {.axis = 1, .block = block})});
  const Value matrix = n.convert(n.reshape(w, {n.dim(rows), n.dim(k)}), n.dtype(0));
  return n.set(0, n.build("linear", {n.value(0), matrix}, {{"transpose_w", 1}}));
}

// ---- GatherBlockQuantized ----

// The last dim of bytes of two numbers each, doubled.
Value unpacked(NodeContext& n, Value x) {
  if (!x.valid()) return x;
  Dims shape = x.dims();
  const Dim last = shape.back();
  shape.back() = last * n.dim(2);
  const Dims flat = {n.product(std::span(shape).first(shape.size() - 1)), last};
  return n.reshape(narrow_numbers(n, n.reshape(x, flat), 4), shape);
}

// Rows are taken first, so that only they are dequantised.
bool gather_block_quantized(NodeContext& n) {
  if (!n.arity(3, 4) || !check_scale(n, 2, ScaleUse::kDequantise)) return false;
  const int64_t rank = n.rank(0), bits = n.integer("bits", 4);
  const int64_t axis = n.axis(n.integer("gather_axis", 0), rank);
  Along along = {n.axis(n.integer("quantize_axis", 1), rank), n.integer("block_size", 128)};
  if (!n.ok()) return false;
  if (axis != 0 || along.axis == 0)
    return n.fail("T0714",
                  "only gathering along the first dim, with blocks along another axis, is "
                  "supported");
  if (along.block < 1 || (bits != 4 && bits != 8))
    return n.fail("T0708",
                  cat("attributes 'block_size' and 'bits' are ", along.block, " and ", bits));
  const bool packed = n.dtype(0) == TENON_U8 && bits == 4;
  const auto rows = [&](size_t i, bool pairs) {
    const Value all = n.value(i);
    const std::vector<Item> taken = n.as("Gather", 13, {Item::of(all), n.item(1)});
    const Value out = taken.empty() ? Value() : taken[0].value();
    return pairs ? unpacked(n, out) : out;
  };
  const Value q = rows(0, packed), scales = rows(2, false);
  if (!q.valid() || !scales.valid()) return n.ok();
  along.axis += n.rank(1) - 1;
  const auto spread_over = [&](Value v) { return spread(n, v, q.dims(), along); };
  Value zero;
  if (n.has(3)) {
    zero = rows(3, packed);
    // An odd number of blocks leaves half a byte over.
    if (zero.valid() && packed && zero.dims().back() != scales.dims().back())
      zero = n.build("slice", {zero},
                     {{"start", Dims(zero.rank(), n.dim(0))}, {"limit", scales.dims()}});
    zero = spread_over(zero);
  } else if (n.dtype(0) == TENON_U8) {
    zero = n.full_like(q, bits == 4 ? 8 : 128);
  }
  return n.set(0, n.convert(dequantised(n, q, spread_over(scales), zero), n.dtype(2)));
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"MatMulNBits", 1, matmul_nbits, kMicrosoft},
    {"MatMulBnb4", 1, matmul_bnb4, kMicrosoft},
    {"GatherBlockQuantized", 1, gather_block_quantized, kMicrosoft},
});

}  // namespace

std::span<const OpImporter> narrow_weight_importers() {
  return kTable;
}

}  // namespace tenon::onnx
