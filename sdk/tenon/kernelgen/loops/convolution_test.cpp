// Convolutions compared with the meaning of the stage IR, on every instruction set of this machine:
// random windows in one to three dims, groups, depthwise, strides, dilations, uneven paddings,
// transposed ones, sizes known only at run time; and chains of convolutions with the ops that
// networks put between them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>

#include "tenon/kernelgen/testing/test_values.h"

namespace tenon::kernelgen {
namespace {

using testing::compare;
using testing::Data;
using testing::op;
using testing::targets;

// odd: these inputs hold NaN and infinities. Weights do not, because the stage IR multiplies
// padding by them and the kernels leave it out (PaddingIsNoProduct).
void check(Builder& b, const std::vector<std::vector<int64_t>>& sizes,
           const std::vector<uint32_t>& odd = {}, double tolerance = 2e-5) {
  testing::check(b, sizes, {odd, tolerance});
}

Tensor relu(Builder& b, const Tensor& x) {
  return op(b, TENON_S_MAX, {x, b.fill(x.type, x.dims, 0)});
}
Tensor silu(Builder& b, const Tensor& x) {
  return op(b, TENON_S_MUL, {x, op(b, TENON_S_LOGISTIC, {x})});
}

ConvDims numbers(size_t spatial) {
  ConvDims n;
  for (uint32_t d = 0; d < spatial; ++d) {
    n.x_spatial.push_back(2 + d);
    n.w_spatial.push_back(2 + d);
    n.out_spatial.push_back(2 + d);
  }
  return n;
}

ExprId out_size(Builder& b, ExprId in, const WindowDim& w) {
  Pool& p = b.pool();
  const ExprId spread =
      p.add(p.mul(p.sub(in, p.integer(1)), p.integer(w.base_dilation)), p.integer(1));
  const ExprId room = p.sub(p.add(spread, p.integer(w.pad_low + w.pad_high)),
                            p.integer((w.size - 1) * w.dilation + 1));
  return p.add(p.floordiv(room, p.integer(w.stride)), p.integer(1));
}

Tensor conv(Builder& b, const Tensor& x, const Tensor& w, std::vector<WindowDim> window,
            int64_t groups = 1) {
  std::vector<ExprId> dims = {x.dims[0], w.dims[0]};
  for (size_t d = 0; d < window.size(); ++d) dims.push_back(out_size(b, x.dims[2 + d], window[d]));
  return b.conv(x, w, numbers(window.size()), window, groups, dims);
}

Tensor weights(Builder& b, int64_t out, int64_t in, const std::vector<WindowDim>& window,
               bool constant = true, DType type = TENON_F32) {
  std::vector<ExprId> dims = {b.dim(out), b.dim(in)};
  for (const WindowDim& w : window) dims.push_back(b.dim(w.size));
  return constant ? b.constant(type, dims) : b.input(type, dims);
}

Tensor with_bias(Builder& b, const Tensor& y) {
  const uint32_t channel[] = {1};
  return op(b, TENON_S_ADD, {y, b.broadcast(b.constant(y.type, {y.dims[1]}), y.dims, channel)});
}

// The random convolutions, for the message of a failure.
std::string specs_of_trace;

// Adds a convolution with random parameters; returns its input. symbolic: batch and spatial sizes
// are extents, whose values go to `ext`.
Tensor generated(Builder& b, std::mt19937& rng, bool symbolic, std::vector<int64_t>* ext) {
  auto one_of = [&](std::initializer_list<int64_t> list) {
    return list.begin()[rng() % list.size()];
  };
  const size_t spatial = static_cast<size_t>(one_of({1, 2, 2, 2, 3}));
  const int64_t groups = one_of({1, 1, 1, 2, 3, 0});  // 0: depthwise
  const int64_t per_group = groups == 0 ? 1 : one_of({1, 3, 8, 13});
  const int64_t g = groups == 0 ? one_of({1, 7, 16, 37}) : groups;
  const int64_t out = groups == 0 ? one_of({1, 1, 2}) : one_of({1, 4, 17, 33});
  std::vector<WindowDim> window;
  auto size = [&](int64_t v) {
    if (!symbolic) return b.dim(v);
    ext->push_back(v);
    return b.extent({1, 4096, 1, v});
  };
  std::vector<ExprId> dims = {size(one_of({1, 1, 2})), b.dim(per_group * g)};
  for (size_t d = 0; d < spatial; ++d) {
    WindowDim w;
    w.size = one_of({1, 2, 3, spatial == 1 ? 7 : 3});
    w.stride = one_of({1, 1, 2, 3});
    w.dilation = one_of({1, 1, 2});
    w.base_dilation = one_of({1, 1, 1, 2});
    w.pad_low = one_of({0, 1, 2, 4});
    w.pad_high = one_of({0, 1, 3});
    window.push_back(w);
    dims.push_back(size((w.size - 1) * w.dilation + one_of({1, 4, spatial == 3 ? 3 : 9})));
  }
  const Tensor x = b.input(TENON_F32, dims);
  const Tensor y = conv(b, x, weights(b, out * g, per_group, window, rng() % 3 != 0), window, g);
  std::string spec = "groups " + std::to_string(g) + " of " + std::to_string(per_group) + " to " +
                     std::to_string(out) + ", buffer " + std::to_string(y.buffer);
  for (size_t d = 0; d < spatial; ++d) {
    const WindowDim& w = window[d];
    spec += "; " + b.pool().text(dims[d + 2]) + " by";
    for (int64_t v : {w.size, w.stride, w.pad_low, w.pad_high, w.dilation, w.base_dilation})
      spec += " " + std::to_string(v);
  }
  specs_of_trace += "\n" + spec;
  switch (rng() % 3) {
    case 0:
      b.output(y);
      break;
    case 1:
      b.output(relu(b, with_bias(b, y)));
      break;
    default:
      b.output(silu(b, y));
      break;
  }
  return x;
}

TEST(Convolution, GeneratedWindows) {
  for (uint32_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    Builder b;
    std::mt19937 rng(seed);
    specs_of_trace.clear();
    std::vector<uint32_t> inputs;
    for (int i = 0; i < 8; ++i) inputs.push_back(generated(b, rng, false, nullptr).buffer);
    SCOPED_TRACE(specs_of_trace);
    check(b, {{}}, seed == 2 ? inputs : std::vector<uint32_t>{});
  }
}

TEST(Convolution, SymbolicSizes) {
  for (uint32_t seed : {4u, 5u}) {
    SCOPED_TRACE(seed);
    Builder b;
    std::mt19937 rng(seed);
    std::vector<int64_t> ext;
    specs_of_trace.clear();
    for (int i = 0; i < 6; ++i) generated(b, rng, true, &ext);
    SCOPED_TRACE(specs_of_trace);
    std::vector<int64_t> larger = ext;
    for (int64_t& e : larger) e += 2;
    check(b, {ext, larger});
  }
}

// Depthwise filters whose rows share their inputs: lines shorter and longer than a strip, steps of
// one and two, padding on both sides or none, an image narrower than the filter.
TEST(Convolution, DepthwiseRuns) {
  Builder b;
  const ExprId h = b.extent({1, 512, 1, 6}), w = b.extent({1, 512, 1, 28});
  const WindowDim windows[] = {{3, 1, 1, 1}, {3, 2, 1, 1}, {5, 1, 2, 2},
                               {5, 2, 2, 1}, {3, 2, 0, 1}, {4, 1, 3, 0}};
  for (const WindowDim& across : windows) {
    for (int64_t channels : {16, 21}) {
      const std::vector<WindowDim> window = {{3, 1, 1, 1}, across};
      const Tensor x = b.input(TENON_F32, {b.dim(2), b.dim(channels), h, w});
      b.output(
          relu(b, with_bias(b, conv(b, x, weights(b, channels, 1, window), window, channels))));
    }
  }
  check(b, {{6, 28}, {3, 7}, {2, 9}, {1, 3}});
}

// Ops between convolutions: bias, relu, a pool, a residual sum, a nearest resize, a concat of
// channels, a depthwise filter, a squeeze and its gate. At the end, a product over all that
// remains. Two sizes.
TEST(Convolution, ChainOfANetwork) {
  Builder b;
  Pool& p = b.pool();
  const ExprId n = b.extent({1, 64, 1, 1}), h = b.extent({4, 512, 1, 9}),
               w = b.extent({4, 512, 1, 11});
  const std::vector<WindowDim> three = {{3, 1, 1, 1}, {3, 1, 1, 1}}, one = {{1}, {1}},
                               stem = {{3, 2, 1, 1}, {3, 2, 1, 1}};
  const Tensor x = b.input(TENON_F32, {n, b.dim(3), h, w});
  const Tensor y = relu(b, with_bias(b, conv(b, x, weights(b, 20, 3, stem), stem)));
  const WindowDim pool[] = {{1}, {1}, {3, 1, 1, 1}, {3, 1, 1, 1}};
  const Tensor z = b.reduce_window(y, pool, Fold::kMax, y.dims);
  const Tensor branch = with_bias(b, conv(b, z, weights(b, 20, 20, three), three));
  const Tensor sum = relu(b, op(b, TENON_S_ADD, {branch, y}));
  const Tensor filtered = silu(b, conv(b, sum, weights(b, 20, 1, three), three, 20));
  const uint32_t area[] = {2, 3}, kept[] = {0, 1};
  const Tensor gate = op(b, TENON_S_LOGISTIC, {b.reduce(filtered, area, Fold::kSum)});
  const Tensor gated = op(b, TENON_S_MUL, {filtered, b.broadcast(gate, filtered.dims, kept)});
  const Tensor parts[] = {gated, sum};
  const Tensor both = b.concat(parts, 1);
  const Tensor wide =
      b.map(TENON_F32, {n, both.dims[1], p.mul(both.dims[2], p.integer(2)), both.dims[3]},
            [&](std::span<const ExprId> a) {
              const ExprId at[] = {a[0], a[1], p.floordiv(a[2], p.integer(2)), a[3]};
              return b.load(both, at);
            });
  const Tensor last = conv(b, wide, weights(b, 5, 40, one), one);
  b.output(last);
  const Tensor flat = b.reshape(last, {n, b.dim(5), p.mul(last.dims[2], last.dims[3])});
  const uint32_t features[] = {1}, first[] = {0};
  b.output(b.dot(flat, b.constant(TENON_F32, {b.dim(5), b.dim(6)}), {}, {}, features, first));
  check(b, {{1, 9, 11}, {2, 6, 7}});
}

// A reshape of a channels-last temp is read in the order of the reshape, as in classifiers of small
// images.
TEST(Convolution, FlattenAndProduct) {
  Builder b;
  const std::vector<WindowDim> three = {{3, 1, 1, 1}, {3, 1, 1, 1}};
  const Tensor x = b.input(TENON_F32, {b.dim(2), b.dim(4), b.dim(5), b.dim(6)});
  const Tensor y = relu(b, conv(b, x, weights(b, 9, 4, three), three));
  const Tensor flat = b.reshape(y, {b.dim(2), b.dim(9 * 30)});
  const uint32_t last[] = {1}, first[] = {0};
  b.output(b.dot(flat, b.constant(TENON_F32, {b.dim(9 * 30), b.dim(7)}), {}, {}, last, first));
  check(b, {{}});
}

// Disjoint windows, as a product and a movement of pixels: [n, h, w, out, 2, 2] to [n, out, 2h,
// 2w].
TEST(Convolution, TransposedBlocks) {
  Builder b;
  Pool& p = b.pool();
  const ExprId h = b.extent({1, 512, 1, 6}), w = b.extent({1, 512, 1, 5});
  const std::vector<WindowDim> one = {{1}, {1}};
  const Tensor x = b.input(TENON_F32, {b.dim(1), b.dim(10), h, w});
  Tensor y = relu(b, conv(b, x, weights(b, 12, 10, one), one));
  for (int64_t out : {9, 1}) {
    const uint32_t channel[] = {1}, first[] = {0}, order[] = {0, 3, 1, 4, 2, 5};
    const Tensor v = b.constant(TENON_F32, {y.dims[1], b.dim(out), b.dim(2), b.dim(2)});
    const Tensor blocks = b.transpose(b.dot(y, v, {}, {}, channel, first), order);
    y = relu(b,
             with_bias(b, b.reshape(blocks, {y.dims[0], b.dim(out), p.mul(y.dims[2], p.integer(2)),
                                             p.mul(y.dims[3], p.integer(2))})));
  }
  b.output(y);
  check(b, {{6, 5}, {3, 8}});
}

// 16-bit inputs are widened once, summed in f32 and rounded at the end.
TEST(Convolution, SixteenBits) {
  for (DType type : {TENON_BF16, TENON_F16}) {
    Builder b;
    const std::vector<WindowDim> three = {{3, 1, 1, 1}, {3, 1, 1, 1}},
                                 stem = {{3, 2, 1, 1}, {3, 2, 1, 1}};
    const Tensor x = b.input(type, {b.dim(1), b.dim(3), b.dim(11), b.dim(12)});
    const Tensor y = with_bias(b, conv(b, x, weights(b, 18, 3, stem, true, type), stem));
    const Tensor z = conv(b, y, weights(b, 18, 1, three, true, type), three, 18);
    b.output(conv(b, z, weights(b, 7, 18, three, true, type), three));
    check(b, {{}}, {}, 2e-2);
  }
}

// A pad of the input with another value was once taken for the zeros of the convolution's own
// padding.
// Integers run in pairs of channels; odd numbers of channels and one filter per channel do not.
TEST(Convolution, Integers) {
  for (const DType type : {DType{TENON_I16}, DType{TENON_U8}}) {
    for (const auto& [in, out, groups] :
         {std::array<int64_t, 3>{16, 40, 1}, {5, 8, 1}, {8, 8, 8}, {8, 12, 2}}) {
      Builder b;
      const WindowDim w{3, 1, 1, 1, 1, 1};
      const Tensor x = b.input(type, {b.dim(2), b.dim(in), b.dim(9), b.dim(7)});
      const Tensor f = weights(b, out, in / groups, {w, w}, true, type);
      std::vector<ExprId> dims = {x.dims[0], f.dims[0], out_size(b, x.dims[2], w),
                                  out_size(b, x.dims[3], w)};
      const WindowDim window[] = {w, w};
      b.output(b.conv(x, f, numbers(2), window, groups, dims, TENON_DTYPE_NONE, TENON_I32));
      check(b, {{}}, {}, 0);
    }
  }
}

// Bytes minus zero points run in quads of channels, with the zero point around the image; an odd
// number of channels is padded before. Weights with a zero point, and few channels, do not.
TEST(Convolution, Bytes) {
  for (const DType type : {DType{TENON_U8}, DType{TENON_I8}}) {
    for (const bool at_run : {false, true}) {
      for (const auto& [in, out, groups, middle] :
           {std::tuple<int64_t, int64_t, int64_t, double>{16, 40, 1, 0},
            {7, 9, 1, 0},
            {6, 8, 1, 0},
            {8, 8, 8, 0},
            {16, 12, 2, 0},
            {16, 8, 1, 3},
            {4, 6, 1, 0}}) {
        SCOPED_TRACE(std::to_string(in) + " channels in " + std::to_string(groups) + " groups");
        Builder b;
        const WindowDim w{3, 2, 1, 2, 1, 1};
        const auto wide = [&](const Tensor& t, const Tensor& zero) {
          const Tensor of = b.broadcast(b.convert(zero, TENON_I16), t.dims, {});
          return op(b, TENON_S_SUB, {b.convert(t, TENON_I16), of});
        };
        const Tensor zero =
            at_run ? b.input(type, {}) : b.fill(type, {}, type == TENON_U8 ? 200 : -7);
        Tensor x = wide(b.input(type, {b.dim(2), b.dim(in), b.dim(9), b.dim(7)}), zero);
        Tensor f = wide(weights(b, out, in / groups, {w, w}, true, TENON_I8),
                        b.fill(TENON_I8, {}, middle));
        if (in == 7) {
          const Tensor nothing = b.fill(TENON_I16, {}, 0);
          const int64_t low[] = {0, 0, 0, 0};
          std::vector<ExprId> x_dims = x.dims, f_dims = f.dims;
          x_dims[1] = f_dims[1] = b.dim(8);
          x = b.pad(x, nothing, low, {}, x_dims);
          f = b.pad(f, nothing, low, {}, f_dims);
        }
        std::vector<ExprId> dims = {x.dims[0], f.dims[0], out_size(b, x.dims[2], w),
                                    out_size(b, x.dims[3], w)};
        const WindowDim window[] = {w, w};
        b.output(b.conv(x, f, numbers(2), window, groups, dims, TENON_DTYPE_NONE, TENON_I32));
        const auto quads = [](Target& t) {
          const Target best = Target::avx512_bf16();
          if (t.isa == best.isa && testing::machine_has(best)) t = best;
        };
        testing::check(b, {{}}, {{}, 0, true}, quads);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(Convolution, SurroundedByAnotherValueThanZero) {
  for (const int64_t size : {1, 3}) {
    for (const int64_t channels : {3, 20}) {
      for (const int64_t groups : {int64_t{1}, channels}) {
        SCOPED_TRACE(std::to_string(channels) + " channels in " + std::to_string(groups) +
                     " groups, taps " + std::to_string(size));
        Builder b;
        const std::vector<WindowDim> window = {{size, 1, 0, 0}, {size, 1, 0, 0}};
        const Tensor x = b.input(TENON_F32, {b.dim(2), b.dim(channels), b.dim(6), b.dim(9)});
        const int64_t low[] = {0, 0, 0, 2}, interior[] = {0, 0, 0, 0};
        const Tensor wide = b.pad(x, b.fill(TENON_F32, {}, 1.5), low, interior,
                                  {b.dim(2), b.dim(channels), b.dim(6), b.dim(11)});
        b.output(conv(b, wide, weights(b, groups == 1 ? 24 : channels, channels / groups, window),
                      window, groups));
        check(b, {{}});
      }
    }
  }
}

// An infinite or NaN weight affects the result where its tap is inside the image and nowhere else,
// as in plain loops that skip padding.
TEST(Convolution, PaddingIsNoProduct) {
  for (const int64_t groups : {1, 9}) {
    for (const Target& target : targets()) {
      if (target.vector_bytes == 0) continue;
      SCOPED_TRACE(target.isa);
      constexpr int64_t kIn = 9, kOut = 9, kH = 5, kW = 6;
      Builder b;
      const std::vector<WindowDim> three = {{3, 1, 1, 1}, {3, 1, 1, 1}};
      const Tensor x = b.input(TENON_F32, {b.dim(1), b.dim(kIn), b.dim(kH), b.dim(kW)});
      const Tensor w = weights(b, kOut, kIn / groups, three), y = conv(b, x, w, three, groups);
      b.output(y);
      const Kernel program = b.take_program();
      testing::Session session;
      ASSERT_TRUE(session.build(program, target, {})) << session.why;
      std::vector<Data> memory;
      std::mt19937 rng(3);
      for (const Buffer& buffer : program.buffers) {
        int64_t n = 1;
        for (ExprId d : buffer.dims) n *= program.pool.evaluate(d, {});
        Data& data = memory.emplace_back(TENON_F32, static_cast<size_t>(n));
        for (size_t i = 0; i < data.size(); ++i) data.set(i, testing::draw(rng, 0));
      }
      const int64_t per_group = kIn / groups;
      auto weight = [&](int64_t o, int64_t c, int64_t i, int64_t j) {
        return static_cast<size_t>(((o * per_group + c) * 3 + i) * 3 + j);
      };
      memory[w.buffer].set(weight(2, 0, 0, 1), INFINITY);
      memory[w.buffer].set(weight(4, per_group - 1, 2, 2), NAN);
      session.run(&memory, 2);
      std::vector<double> want;
      for (int64_t o = 0; o < kOut; ++o) {
        for (int64_t p = 0; p < kH * kW; ++p) {
          double sum = 0;
          for (int64_t t = 0; t < per_group * 9; ++t) {
            const int64_t c = t / 9, i = t / 3 % 3, j = t % 3, at_h = p / kW + i - 1,
                          at_w = p % kW + j - 1;
            if (at_h < 0 || at_h >= kH || at_w < 0 || at_w >= kW) continue;
            const int64_t channel = groups == 1 ? c : o;
            sum += memory[x.buffer].get(static_cast<size_t>((channel * kH + at_h) * kW + at_w)) *
                   memory[w.buffer].get(weight(o, c, i, j));
          }
          want.push_back(sum);
        }
      }
      compare(memory[y.buffer], want, 2e-5, y.buffer);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace tenon::kernelgen
