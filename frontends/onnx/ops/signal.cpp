// DFT, STFT, Det: Fourier transforms and determinants. ONNX keeps complex numbers as a last dim of
// two parts.
#include <array>

#include "frontends/onnx/graph/importer.h"

namespace tenon::onnx {
namespace {

// One part of x, whose last dim holds the parts.
Value part(NodeContext& n, Value x, int64_t index) {
  Dims start(x.rank(), n.dim(0)), limit = x.dims();
  start.back() = n.dim(index);
  limit.back() = n.dim(index + 1);
  Dims shape = x.dims();
  shape.pop_back();
  return n.reshape(n.build("slice", {x}, {{"start", start}, {"limit", limit}}), shape);
}
// Real numbers for a last dim of 1, complex ones for 2.
Value from_parts(NodeContext& n, Value x) {
  const Dim last = x.dim(x.rank() - 1);
  if (last.is(1)) return part(n, x, 0);
  if (last.is(2)) return n.build("complex", {part(n, x, 0), part(n, x, 1)});
  n.fail("T0713", cat("its last dim is ", last.is_constant() ? cat(last.constant()) : "unknown",
                      ", but complex numbers have 2 parts and real ones 1"));
  return {};
}
Value to_parts(NodeContext& n, Value x) {
  Dims shape = x.dims();
  shape.push_back(n.dim(1));
  if (x.dtype() != TENON_C64 && x.dtype() != TENON_C128) return n.reshape(x, shape);
  const Value re = n.reshape(n.build("real", {x}), shape);
  const Value im = n.reshape(n.build("imag", {x}), shape);
  return n.build("concat", {re, im}, {{"dim", static_cast<int64_t>(shape.size()) - 1}});
}
bool is_real(Value x) {
  return x.dtype() == TENON_F32 || x.dtype() == TENON_F64;
}
Value as_complex(NodeContext& n, Value x) {
  return is_real(x) ? n.convert(x, x.dtype() == TENON_F32 ? TENON_C64 : TENON_C128) : x;
}
bool wide_floats(NodeContext& n) {
  if (n.dtype(0) == TENON_F32 || n.dtype(0) == TENON_F64) return true;
  return n.fail("T0710", "its element type has no complex numbers: float and double have");
}

// The first `length` elements along a dim, followed by zeros if there are fewer.
Value resized(NodeContext& n, Value x, int64_t axis, int64_t length) {
  const Dim size = x.dim(static_cast<uint32_t>(axis));
  if (size.is(length)) return x;
  if (compare(TENON_REL_LE, n.dim(length), size) != TENON_YES) {
    // An unknown size gets as many zeros as it could lack.
    std::vector<int64_t> low(x.rank(), 0), high = low;
    high[static_cast<size_t>(axis)] = length - (size.is_constant() ? size.constant() : 0);
    x = n.build("pad", {x, n.scalar(x.dtype(), 0)}, {{"low", low}, {"high", high}});
  }
  if (!x.valid() || x.dim(static_cast<uint32_t>(axis)).is(length)) return x;
  Dims limit = x.dims();
  limit[static_cast<size_t>(axis)] = n.dim(length);
  return n.build("slice", {x}, {{"start", Dims(x.rank(), n.dim(0))}, {"limit", limit}});
}
Value transform(NodeContext& n, std::string_view kind, Value x, int64_t axis, int64_t length) {
  return n.build("fft", {x}, {{"kind", kind}, {"dims", {axis}}, {"lengths", {length}}});
}

// The one number of a constant operand; nothing after a failure.
std::optional<int64_t> one_number(NodeContext& n, size_t operand, std::string_view what) {
  const auto found = n.need_numbers(operand, what);
  if (!found) return {};
  if (found->size() == 1) return found->front();
  n.fail("T0713", cat(what, " is one number"));
  return {};
}

bool dft_along(NodeContext& n, int64_t given_axis) {
  const bool inverse = n.integer("inverse", 0) != 0, onesided = n.integer("onesided", 0) != 0;
  if (!n.ok() || !wide_floats(n)) return false;
  const Value pairs = n.value(0);
  if (!pairs.valid()) return n.ok();
  if (pairs.rank() < 2) return n.fail("T0713", "its operand needs a dim for the parts of numbers");
  const int64_t axis = n.axis(given_axis, pairs.rank());
  if (!n.ok()) return false;
  if (axis == pairs.rank() - 1) return n.fail("T0713", "its axis is that of the parts of numbers");
  Value x = from_parts(n, pairs);
  if (!x.valid()) return false;
  const Dim size = x.dim(static_cast<uint32_t>(axis));
  std::optional<int64_t> length;
  if (n.has(1)) {
    length = one_number(n, 1, "the length");
    if (!length) return n.ok();
  } else if (size.is_constant()) {
    length = inverse && onesided ? 2 * (size.constant() - 1) : size.constant();
  } else {
    return n.fail("T0710", cat("the length of a transform has to be known: the dim of its axis is ",
                               "symbolic; fix it, as with --dim L=N"));
  }
  if (*length < 1) return n.fail("T0713", cat("its length is ", *length));
  if (inverse && onesided) {
    if (is_real(x)) return n.fail("T0713", "the onesided inverse is of complex numbers");
    x = resized(n, as_complex(n, x), axis, *length / 2 + 1);
    return n.set(0, to_parts(n, transform(n, "irfft", x, axis, *length)));
  }
  x = resized(n, x, axis, *length);
  if (onesided && !is_real(x)) return n.fail("T0713", "onesided is for real numbers");
  if (onesided) return n.set(0, to_parts(n, transform(n, "rfft", x, axis, *length)));
  const std::string_view kind = inverse ? "ifft" : "fft";
  return n.set(0, to_parts(n, transform(n, kind, as_complex(n, x), axis, *length)));
}
bool dft_17(NodeContext& n) {
  return n.arity(1, 2) && dft_along(n, n.integer("axis", 1));
}
bool dft(NodeContext& n) {
  if (!n.arity(1, 3)) return false;
  if (!n.has(2)) return dft_along(n, -2);
  const auto axis = one_number(n, 2, "the axis");
  return axis ? dft_along(n, *axis) : n.ok();
}

// The length of frames: that given, that of the window, or of the whole signal. Nothing where it is
// not known.
std::optional<int64_t> frame_length(NodeContext& n, Dim signal) {
  if (n.has(3)) return one_number(n, 3, "the length of frames");
  if (!n.has(2)) return signal.constant();
  if (n.dims(2)[0].is_constant()) return n.dims(2)[0].constant();
  n.fail("T0713",
         "neither the length of frames nor that of its window is known; fix it, as with --dim L=N");
  return {};
}

// Frames of the signal as rows, times the window, transformed.
bool stft(NodeContext& n) {
  const bool onesided = n.integer("onesided", 1) != 0;
  if (!n.arity(2, 4) || !wide_floats(n)) return false;
  const auto step = one_number(n, 1, "the step of frames");
  if (!step) return n.ok();
  const Value signal = n.value(0);
  if (!signal.valid()) return n.ok();
  if (signal.rank() != 2 && signal.rank() != 3)
    return n.fail("T0713", cat("its signal has rank ", signal.rank(), ", not 2 or 3"));
  Value x = signal.rank() == 3 ? from_parts(n, signal) : signal;
  if (!x.valid()) return false;
  if (n.has(2) && n.rank(2) != 1)
    return n.fail("T0713", cat("its window needs rank 1, and has ", n.rank(2)));
  const Dim size = x.dim(1);
  if (!size.is_constant())
    return n.fail("T0710", "the length of its signal has to be known; fix it, as with --dim L=N");
  const auto length = frame_length(n, size);
  if (!length) return n.ok();
  if (*step < 1 || *length < 1 || *length > size.constant())
    return n.fail("T0713", cat("its frames have length ", *length, " and step ", *step,
                               ", its signal has ", size.constant(), " elements"));
  const int64_t count = (size.constant() - *length) / *step + 1;
  if (n.within_limit(static_cast<__int128>(count) * *length, "its frames") == 0) return false;
  std::vector<int64_t> places;
  for (int64_t f = 0; f < count; ++f) {
    for (int64_t k = 0; k < *length; ++k) places.push_back(f * *step + k);
  }
  const std::array<int64_t, 2> grid = {count, *length};
  const Value at = n.builder().constant(TENON_I64, grid, places.data(), places.size() * 8);
  Value frames = n.build("take", {x, at}, {{"dim", 1}});
  if (n.has(2)) {
    if (!n.require_equal(n.dims(2)[0], n.dim(*length), "the window and the frames")) return false;
    const Value window = n.broadcast_to(n.convert(n.value(2), frames.dtype()), frames.dims());
    frames = n.build("mul", {frames, window});
  }
  if (!frames.valid()) return n.ok();
  if (onesided && !is_real(frames)) return n.fail("T0713", "onesided is for real signals");
  return n.set(0, to_parts(n, onesided ? transform(n, "rfft", frames, 2, *length)
                                       : transform(n, "fft", as_complex(n, frames), 2, *length)));
}

bool det(NodeContext& n) {
  if (!n.arity(1, 1)) return false;
  const tenon_dtype_t type = n.dtype(0);
  const bool narrow = type == TENON_F16 || type == TENON_BF16;
  const Value x = narrow ? n.convert(n.value(0), TENON_F32) : n.value(0);
  return n.set(0, n.convert(n.build("det", {x}), type));
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"DFT", 17, dft_17},
    {"DFT", 20, dft},
    {"STFT", 17, stft},
    {"Det", 11, det},
});

}  // namespace

std::span<const OpImporter> signal_importers() {
  return kTable;
}

}  // namespace tenon::onnx
