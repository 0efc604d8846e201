// fft: discrete Fourier transforms of complex and of real numbers, over any dims.
#include <complex>
#include <numbers>

#include "complex_math.h"
#include "derivative.h"

namespace tenon::ops::fft_op {

constexpr int64_t kLengthMax = int64_t{1} << 28;  // keeps j k below 2^63 and constants in memory
// The largest DFT matrix that is multiplied with, and the largest factor that is split off.
constexpr int64_t kMatrixMax = 128, kRadixMax = 32;

enum class Kind { kForward, kInverse, kRealForward, kRealInverse };

Kind kind_of(std::string_view name) {
  if (name == "ifft") return Kind::kInverse;
  if (name == "rfft") return Kind::kRealForward;
  return name == "irfft" ? Kind::kRealInverse : Kind::kForward;
}
bool is_inverse(Kind kind) {
  return kind == Kind::kInverse || kind == Kind::kRealInverse;
}
double scale_of(std::string_view norm, Kind kind, double count) {
  if (norm == "ortho") return 1 / std::sqrt(count);
  return (norm == "forward") != is_inverse(kind) ? 1 / count : 1;
}

// ---- Inference ----

Status infer(const InferQuery& q) {
  const auto axes = q.i64s("dims"), lengths = q.i64s("lengths");
  TENON_TRY(q.require_axes("C1", axes, q.rank(0)));
  if (axes.empty()) return q.fail("C1", "dims is empty");
  TENON_TRY(require_length(q, "C2", "lengths", lengths.size(), axes.size()));
  const Kind kind = kind_of(q.text("kind"));
  if (is_complex(q.dtype(0)) == (kind == Kind::kRealForward))
    return q.fail("C4", cat("kind is ", q.text("kind"), ", x has ", dtype_name(q.dtype(0))));
  Dims dims = q.dims(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (lengths[i] < 1 || lengths[i] > kLengthMax)
      return q.fail("C2", cat("lengths holds ", lengths[i]));
    const bool last = i + 1 == axes.size();
    const int64_t half = lengths[i] / 2 + 1;
    Dim& dim = dims[static_cast<size_t>(axes[i])];
    const int64_t wanted = last && kind == Kind::kRealInverse ? half : lengths[i];
    TENON_TRY(q.require_equal("C3", dim, q.constant(wanted), cat("dim ", axes[i], " of x")));
    dim = q.constant(last && kind == Kind::kRealForward ? half : lengths[i]);
  }
  const tenon_dtype_t x = q.dtype(0);
  return q.result(kind == Kind::kRealForward   ? complex_of(x)
                  : kind == Kind::kRealInverse ? part_of(x)
                                               : x,
                  dims);
}

// ---- Reference: the sum of the definition ----

using Number = std::complex<double>;

std::vector<Number> read(const Array& x) {
  std::vector<Number> out;
  each_index(x.dims(), [&](const Index& i) {
    const std::byte* at = x.at(i);
    if (!is_complex(x.dtype())) {
      out.emplace_back(load_double(x.dtype(), at), 0);
      return;
    }
    const tenon_dtype_t part = part_of(x.dtype());
    out.emplace_back(load_double(part, at), load_double(part, at + dtype_bytes(part)));
  });
  return out;
}
void write(const Array& y, const std::vector<Number>& values) {
  size_t k = 0;
  each_index(y.dims(), [&](const Index& i) {
    const Number v = values[k++];
    if (!is_complex(y.dtype())) return store_double(y.dtype(), y.at(i), v.real());
    const tenon_dtype_t part = part_of(y.dtype());
    store_double(part, y.at(i), v.real());
    store_double(part, y.at(i) + dtype_bytes(part), v.imag());
  });
}

// exp(sign 2 pi i k / n) for k below n. Quarter turns are exact, so that real signals have zeros
// where they should.
std::vector<Number> roots_of_unity(int64_t n, bool inverse) {
  const Number quarters[] = {{1, 0}, {0, inverse ? 1.0 : -1.0}, {-1, 0}, {0, inverse ? -1.0 : 1.0}};
  std::vector<Number> out;
  for (int64_t k = 0; k < n; ++k) {
    if (4 * k % n == 0) {
      out.push_back(quarters[4 * k / n]);
      continue;
    }
    const double turn = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n);
    out.emplace_back(std::cos(turn), inverse ? std::sin(turn) : -std::sin(turn));
  }
  return out;
}

struct Lines {
  std::vector<Number> values;
  Axes dims;
};
// Replaces every line along `axis` by `length` sums over `n` terms. Terms after the end of a line
// are conjugates of those before it: the half of a spectrum that real numbers have.
Status transform(const Eval& e, Lines& x, size_t axis, int64_t n, int64_t length, bool inverse) {
  const std::vector<Number> roots = roots_of_unity(n, inverse);
  Axes dims = x.dims;
  dims[axis] = length;
  const auto from = strides_of(x.dims), to = strides_of(dims);
  std::vector<Number> out(static_cast<size_t>(count_of(dims)));
  Axes lines = x.dims;
  lines[axis] = 1;
  Status status;
  each_index(lines, [&](const Index& line) {
    if (!status.ok()) return;
    if (e.cancelled()) status = TENON_CANCELLED;
    const int64_t in = offset_of(line, from), at = offset_of(line, to);
    for (int64_t k = 0; k < length; ++k) {
      Number sum = 0;
      for (int64_t j = 0; j < n; ++j) {
        const bool mirrored = j >= x.dims[axis];
        const Number v = x.values[static_cast<size_t>(in + (mirrored ? n - j : j) * from[axis])];
        sum += (mirrored ? std::conj(v) : v) * roots[static_cast<size_t>(j * k % n)];
      }
      out[static_cast<size_t>(at + k * to[axis])] = sum;
    }
  });
  x = {std::move(out), dims};
  return status;
}
Status reference(const Eval& e) {
  const Array in = e.input(0);
  const Kind kind = kind_of(e.text("kind"));
  const auto axes = e.i64s("dims"), lengths = e.i64s("lengths");
  Lines x = {read(in), Axes(in.dims().begin(), in.dims().end())};
  double count = 1;
  // The last dim first where it is cut to half, else last where it becomes whole.
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t at = is_inverse(kind) ? i : axes.size() - 1 - i;
    const bool halves = kind == Kind::kRealForward && at + 1 == axes.size();
    const int64_t n = lengths[at];
    count *= static_cast<double>(n);
    TENON_TRY(transform(e, x, static_cast<size_t>(axes[at]), n, halves ? n / 2 + 1 : n,
                        is_inverse(kind)));
  }
  const double scale = scale_of(e.text("norm"), kind, count);
  for (Number& v : x.values) v *= scale;
  write(e.output(), x.values);
  return {};
}

// ---- Decomposition ----

// Complex numbers in the decomposition; without imaginary parts for real numbers.
struct Signal {
  Builder& b;
  Term re, im;
  bool is_real = false;

  template <class Function>
  Signal each(Function&& f) const {
    return {b, f(re), is_real ? im : f(im), is_real};
  }
};

Complex constants(Builder& b, tenon_dtype_t type, const std::vector<Number>& values,
                  const Axes& dims) {
  const auto part = [&](auto&& of) -> Term {
    std::vector<std::byte> bytes(values.size() * dtype_bytes(type));
    for (size_t i = 0; i < values.size(); ++i)
      store_double(type, bytes.data() + i * dtype_bytes(type), of(values[i]));
    return {b, b.constant(type, dims, bytes.data(), bytes.size())};
  };
  return {part([](Number v) { return v.real(); }), part([](Number v) { return v.imag(); })};
}
// roots[j k mod n] for j below rows and k below columns.
std::vector<Number> powers(const std::vector<Number>& roots, int64_t rows, int64_t columns) {
  std::vector<Number> out;
  const auto n = static_cast<int64_t>(roots.size());
  for (int64_t j = 0; j < rows; ++j) {
    for (int64_t k = 0; k < columns; ++k) out.push_back(roots[static_cast<size_t>(j * k % n)]);
  }
  return out;
}
// Sums over dim `dim` of x with the rows of a DFT matrix; the new dim comes last.
Signal times_matrix(const Signal& x, int64_t dim, int64_t n, bool inverse) {
  const Complex w = constants(x.b, x.re.dtype(), powers(roots_of_unity(n, inverse), n, n), {n, n});
  const auto dot = [&](Term a, Term m) -> Term {
    return {x.b, x.b.build("dot_general", {a, m}, {{"a_contract", {dim}}, {"b_contract", {0}}})};
  };
  if (x.is_real) return {x.b, dot(x.re, w.re), dot(x.re, w.im)};
  return {x.b, dot(x.re, w.re) - dot(x.im, w.im), dot(x.re, w.im) + dot(x.im, w.re)};
}
Signal times(const Signal& x, const Complex& factor, const Axes& dims) {
  const Complex f = {broadcast(factor.re, x.re.dims(), dims),
                     broadcast(factor.im, x.re.dims(), dims)};
  if (x.is_real) return {x.b, x.re * f.re, x.re * f.im};
  const Complex product = Complex{x.re, x.im} * f;
  return {x.b, product.re, product.im};
}

// The largest factor of n that is at most kRadixMax; 1 if there is none.
int64_t radix_of(int64_t n) {
  for (int64_t r = kRadixMax; r > 1; --r) {
    if (n % r == 0) return r;
  }
  return 1;
}

Signal along_last(const Signal& x, int64_t n, bool inverse);

// Of x [lines, n] with n = r s: transforms of length r over every s-th element, twiddles, and
// transforms of length s. Element k1 + r k2 of the result is element k2 of the k1-th of these.
Signal split(const Signal& x, int64_t n, int64_t r, bool inverse) {
  Builder& b = x.b;
  const int64_t s = n / r;
  const Dim lines = x.re.dim(0);
  const Dims cut = {lines, b.dim(r), b.dim(s)};
  const Signal first = times_matrix(x.each([&](Term t) { return reshape(t, cut); }), 1, r, inverse);
  const Complex twiddles =
      constants(b, x.re.dtype(), powers(roots_of_unity(n, inverse), s, r), {s, r});
  const Signal turned = times(first, twiddles, {1, 2});
  const Dims rows = {lines * b.dim(r), b.dim(s)};
  const Signal second = along_last(
      turned.each([&](Term t) { return reshape(transpose(t, {0, 2, 1}), rows); }), s, inverse);
  const Dims whole = {lines, b.dim(n)};
  return second.each([&](Term t) { return reshape(transpose(reshape(t, cut), {0, 2, 1}), whole); });
}

// The transform of 2^k numbers (Stockham's order). Of a constant it is made here: folding the graph
// of a long one takes very long, and running it would be repeated in every call.
std::vector<Number> spectrum(std::vector<Number> x) {
  const auto n = static_cast<int64_t>(x.size());
  const std::vector<Number> roots = roots_of_unity(n, false);
  std::vector<Number> next(x.size());
  for (int64_t half = n / 2, run = 1; half > 0; half /= 2, run *= 2) {
    for (int64_t j = 0; j < half * run; ++j) {
      const int64_t block = j / run;
      const Number a = x[static_cast<size_t>(j)], b = x[static_cast<size_t>(j + half * run)];
      const auto to = static_cast<size_t>(j + block * run);
      next[to] = a + b;
      next[to + static_cast<size_t>(run)] = (a - b) * roots[static_cast<size_t>(block * run)];
    }
    x.swap(next);
  }
  return x;
}

// Bluestein: with j k = (j j + k k - (k - j)^2) / 2 a transform of any length is a convolution,
// which a longer one of a length with small factors computes.
Signal convolve(const Signal& x, int64_t n, bool inverse) {
  Builder& b = x.b;
  int64_t m = 1;
  while (m < 2 * n - 1) m *= 2;
  const std::vector<Number> roots = roots_of_unity(2 * n, inverse);
  std::vector<Number> chirp, kernel(static_cast<size_t>(m));
  for (int64_t j = 0; j < n; ++j) {
    chirp.push_back(roots[static_cast<size_t>(j * j % (2 * n))]);
    kernel[static_cast<size_t>(j)] = std::conj(chirp.back());
    if (j != 0) kernel[static_cast<size_t>(m - j)] = std::conj(chirp.back());
  }
  const tenon_dtype_t type = x.re.dtype();
  const Complex turn = constants(b, type, chirp, {n});
  const Value zero = b.scalar(type, 0);
  const auto padded = [&](Term t) -> Term {
    return {b, b.build("pad", {t, zero}, {{"low", {0, 0}}, {"high", {0, m - n}}})};
  };
  const Signal a = along_last(times(x, turn, {1}).each(padded), m, false);
  const Complex factor = constants(b, type, spectrum(std::move(kernel)), {m});
  const Signal back = along_last(times(a, factor, {1}), m, true).each([&](Term t) {
    return cut(t, 1, b.dim(0), b.dim(n)) / static_cast<double>(m);
  });
  return times(back, turn, {1});
}

// x [lines, n], not scaled.
Signal along_last(const Signal& x, int64_t n, bool inverse) {
  if (n == 1) return {x.b, x.re, x.is_real ? x.re.same(0) : x.im};
  if (n <= kRadixMax) return times_matrix(x, 1, n, inverse);
  const int64_t r = radix_of(n);
  if (r > 1) return split(x, n, r, inverse);
  return n <= kMatrixMax ? times_matrix(x, 1, n, inverse) : convolve(x, n, inverse);
}

// Applies `function` to the lines along a dim, as [lines, extent].
template <class Function>
Signal on_lines(const Signal& x, int64_t dim, int64_t result, Function&& function) {
  const int64_t rank = x.re.rank();
  Axes to = others(rank, Axes{dim});
  to.push_back(dim);
  Axes back(static_cast<size_t>(rank));
  for (int64_t i = 0; i < rank; ++i) back[static_cast<size_t>(to[static_cast<size_t>(i)])] = i;
  const Dims before = transpose(x.re, to).dims();
  const Dims lines = {product(x.b, before, 0, before.size() - 1), before.back()};
  Dims after = before;
  after.back() = x.b.dim(result);
  return function(x.each([&](Term t) { return reshape(transpose(t, to), lines); }))
      .each([&](Term t) { return transpose(reshape(t, after), back); });
}
// The second half of a spectrum of real numbers: conjugates in reverse order.
Signal completed(const Signal& half, int64_t n) {
  Builder& b = half.b;
  const auto whole = [&](Term t, bool negated) {
    if (n < 3) return n == 1 ? cut(t, 1, b.dim(0), b.dim(1)) : t;
    const Term middle = cut(t, 1, b.dim(1), b.dim((n + 1) / 2));
    const Term mirrored = {b, b.build("reverse", {middle}, {{"dims", {1}}})};
    return concat(b, {t, negated ? -mirrored : mirrored}, 1);
  };
  return {b, whole(half.re, false), whole(half.im, true)};
}

Status decompose(Builder& b, const Node& node, tenon_value_t* out) {
  const Kind kind = kind_of(node.text("kind"));
  const std::string norm(node.text("norm"));
  const Axes axes = node.i64s("dims"), lengths = node.i64s("lengths");
  const Value in = node.operand(0);
  const bool inverse = is_inverse(kind);
  bool is_real = !is_complex(in.dtype());
  Term re = {b, is_real ? in : b.build("real", {in})};
  Term im = {b, is_real ? in : b.build("imag", {in})};
  double count = 1;
  std::vector<size_t> order;
  for (size_t i = 0; i < axes.size(); ++i) order.push_back(inverse ? i : axes.size() - 1 - i);
  for (size_t at : order) {
    const int64_t n = lengths[at];
    const bool last = at + 1 == axes.size();
    const bool halves = last && kind == Kind::kRealForward;
    const bool doubles = last && kind == Kind::kRealInverse;
    count *= static_cast<double>(n);
    const Signal y =
        on_lines({b, re, im, is_real}, axes[at], halves ? n / 2 + 1 : n, [&](const Signal& lines) {
          const Signal whole = doubles ? completed(lines, n) : lines;
          const Signal all = along_last(whole, n, inverse);
          if (!halves) return all;
          return all.each([&](Term t) { return cut(t, 1, b.dim(0), b.dim(n / 2 + 1)); });
        });
    re = y.re, im = y.im, is_real = y.is_real;
  }
  const double scale = scale_of(norm, kind, count);
  if (kind == Kind::kRealInverse) return b.finish(out, {re * scale});
  return b.finish(out, {joined(b, {re * scale, im * scale})});
}

// ---- Derivative ----

// The half of a spectrum that real numbers have, where all elements but the first, and the last of
// an even length, stand for their mirror images too.
Value doubled(Builder& b, Value half, int64_t dim, int64_t n) {
  const Value re = b.build("real", {half}), im = b.build("imag", {half});
  std::vector<double> weights(static_cast<size_t>(n / 2 + 1), 2);
  weights.front() = 1;
  if (n % 2 == 0) weights.back() = 1;
  const Value w = b.broadcast(numbers(b, re.dtype(), weights), re.dims(), Axes{dim});
  return b.build("complex", {b.build("mul", {re, w}), b.build("mul", {im, w})});
}
// The other direction, scaled as this one is.
Value transpose(Builder& b, const Node& node, uint32_t, std::span<const Value> cotangents) {
  const Kind kind = kind_of(node.text("kind"));
  const std::string norm(node.text("norm"));
  const std::string other = norm == "ortho" ? norm : norm == "forward" ? "backward" : "forward";
  const Axes axes = node.i64s("dims"), lengths = node.i64s("lengths");
  const auto transformed = [&](Value x, std::string_view name) {
    return b.build("fft", {x},
                   {{"kind", name}, {"dims", axes}, {"lengths", lengths}, {"norm", other}});
  };
  const Value g = cotangents[0];
  if (kind == Kind::kForward) return transformed(g, "ifft");
  if (kind == Kind::kInverse) return transformed(g, "fft");
  const int64_t last = axes.back(), n = lengths.back();
  if (kind == Kind::kRealInverse) return doubled(b, transformed(g, "rfft"), last, n);
  Dims whole = g.dims();
  whole[static_cast<size_t>(last)] = b.dim(n);
  const Value full = placed(b, g, Dims(g.rank(), b.dim(0)), whole);
  return b.build("real", {transformed(full, "ifft")});
}

constexpr OpDraft fft() {
  OpDraft draft = op("fft", kComposite);
  draft.summary("The discrete Fourier transform over some dims, or its inverse.")
      .doc(
          "kind: fft and ifft are of complex numbers. rfft is of real ones, whose spectrum is "
          "symmetric: the last of dims is cut to lengths / 2 + 1. irfft is its inverse and gives "
          "real numbers; the imaginary part of what has no mirror image is not read. norm says "
          "which direction is divided by the number of elements: backward the inverse, forward the "
          "other one, ortho both by its root.")
      .operand("x", "complex numbers; floats of kind rfft",
               kComplex | dtype_bit(TENON_F32) | dtype_bit(TENON_F64), 0, 1)
      .result("y", "complex numbers; floats of kind irfft")
      .attr_string("kind", "which transform", "fft", "fft|ifft|rfft|irfft")
      .attr_i64s("dims", "the dims that are transformed")
      .role(TENON_ROLE_AXES)
      .attr_i64s("lengths", "the lengths of the signal along them")
      .attr_string("norm", "what is divided by the length", "backward", "backward|ortho|forward")
      .constraint("C1", "dims are distinct dims of x, at least one",
                  "fft(c64[2]) {dims = [1], lengths = [2]}")
      .constraint("C2", "lengths has one entry per dim, from 1 to 2^28",
                  "fft(c64[2]) {dims = [0], lengths = []}")
      .constraint("C3", "the extents of x are the lengths; of irfft, the last is half of it plus 1",
                  "fft(c64[2]) {dims = [0], lengths = [3]}")
      .constraint("C4", "x is real of kind rfft and complex of the others",
                  "fft(f32[2]) {dims = [0], lengths = [2]}")
      .example(
          "fft(c64[4] [(1, 0), (2, 0), (3, 0), (4, 0)]) {dims = [0], lengths = [4]} -> "
          "c64[4] [(10, 0), (-2, 2), (-2, 0), (-2, -2)]")
      .example(
          "fft(f32[4] [1, 2, 3, 4]) {kind = \"rfft\", dims = [0], lengths = [4]} -> "
          "c64[3] [(10, 0), (-2, 2), (-2, 0)]")
      .example(
          "fft(c64[3] [(10, 0), (-2, 2), (-2, 0)]) {kind = \"irfft\", dims = [0], lengths = [4]} "
          "-> f32[4] [1, 2, 3, 4]")
      .infer<infer>()
      .reference<reference>()
      .linear({0})
      .transposed<transpose>()
      .batched({0})
      .decompose<decompose>()
      .cost(TENON_COST_CONTRACTION)
      .traits(TENON_TRAIT_NO_RECOMPUTE)
      .tolerance(10);
  return draft;
}

TENON_OPS(fft, fft)

}  // namespace tenon::ops::fft_op
