// Generated C++ compared with the meaning of the stage IR, for every instruction set of this
// machine.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <random>

#include "tenon/kernelgen/testing/test_values.h"
#ifdef TENON_TEST_OPENCL
#include "tenon/kernelgen/testing/test_opencl.h"
#endif

namespace tenon::kernelgen {
namespace {

using testing::compare;
using testing::Data;
using testing::dims;
using testing::Session;
using testing::targets;

struct Case {
  Builder b;
  std::vector<int64_t> ext;
  std::vector<std::pair<uint32_t, double>> special;  // a buffer to fill with a constant
  double tolerance = 2e-5;
  bool odd_values = false;  // NaN, infinities, denormals among the inputs
  double low = -2, high = 2;
  size_t kernels = 0;    // expected number; 0: any
  bool vectors = false;  // only for processors with vectors
};

size_t elements(const Kernel& k, uint32_t b, const std::vector<int64_t>& ext) {
  int64_t n = 1, top = 1;
  for (size_t d = 0; d < k.buffers[b].dims.size(); ++d) {
    const int64_t dim = k.pool.evaluate(k.buffers[b].dims[d], ext);
    n *= dim;
    top += std::max<int64_t>(0, dim - 1) * k.pool.evaluate(k.buffers[b].strides[d], ext);
  }
  if (k.buffers[b].offset != kNone) top += k.pool.evaluate(k.buffers[b].offset, ext);
  return static_cast<size_t>(std::max(n, top));
}

double random_value(DType t, const Case& c, std::mt19937& rng) {
  std::uniform_real_distribution<double> u(c.low, c.high);
  if (t == TENON_PRED) return u(rng) > (c.low + c.high) / 2;
  if (!is_float(t)) return std::floor(is_signed(t) ? 20 * u(rng) : 20 * std::fabs(u(rng)));
  if (c.odd_values) {
    switch (rng() % 23) {
      case 0:
        return NAN;
      case 1:
        return INFINITY;
      case 2:
        return -INFINITY;
      case 3:
        return 1e-41;
      case 4:
        return -0.0;
      default:
        break;
    }
  }
  return u(rng);
}

void check(Case& c) {
  ASSERT_TRUE(c.b.ok()) << c.b.why();
  const Kernel program = c.b.take_program();
  std::string why;
  ASSERT_TRUE(verify(program, &why)) << why;
  std::mt19937 rng(7);
  std::vector<Data> input;
  std::vector<std::vector<double>> meaning;
  for (uint32_t b = 0; b < program.buffers.size(); ++b) {
    Data d(program.buffers[b].type, elements(program, b, c.ext));
    const bool given =
        program.buffers[b].role == Role::kIn || program.buffers[b].role == Role::kConstant;
    for (size_t i = 0; i < d.size(); ++i) d.set(i, given ? random_value(d.type, c, rng) : 0);
    for (auto& [buffer, v] : c.special) {
      for (size_t i = 0; i < d.size() && buffer == b; ++i) d.set(i, v);
    }
    input.push_back(d);
    meaning.emplace_back();
    for (size_t i = 0; i < d.size(); ++i) meaning.back().push_back(d.get(i));
  }
  testing::Oracle(program, c.ext, &meaning).run();
#ifdef TENON_TEST_OPENCL
  static testing::OpenCl opencl(64);
  if (opencl.present() && !c.vectors) {
    SCOPED_TRACE("opencl");
    std::vector<Data> memory = input;
    std::string reason;
    ASSERT_TRUE(opencl.run(program, c.ext, &memory, &reason)) << reason;
    for (uint32_t b = 0; b < program.buffers.size(); ++b) {
      if (program.buffers[b].role != Role::kOut) continue;
      compare(memory[b], meaning[b], c.tolerance, b);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
#endif
  for (const Target& target : targets()) {
    SCOPED_TRACE(target.isa);
    if (c.vectors && target.vector_bytes == 0) continue;
    // General forms first, on one instruction set only: their sizes are the same on all.
    if (target.isa == targets().front().isa) {
      SCOPED_TRACE("for any sizes");
      Session general;
      ASSERT_TRUE(general.build(program, target, c.ext, "-O1", true)) << general.why << "\n"
                                                                      << general.module.text;
      std::vector<Data> memory = input;
      general.run(&memory, 3);
      for (uint32_t b = 0; b < program.buffers.size(); ++b) {
        if (program.buffers[b].role == Role::kOut) compare(memory[b], meaning[b], c.tolerance, b);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
    Session s;
    ASSERT_TRUE(s.build(program, target, c.ext)) << s.why << "\n" << s.module.text;
    if (c.kernels) EXPECT_EQ(s.kernels.size(), c.kernels) << to_text(s.kernels[0]);
    std::vector<Data> first;
    for (int64_t pieces : {1, 3, 16}) {
      std::vector<Data> memory = input;
      s.run(&memory, pieces);
      if (first.empty()) first = memory;
      for (uint32_t b = 0; b < program.buffers.size(); ++b) {
        if (program.buffers[b].role != Role::kOut) continue;
        ASSERT_EQ(memory[b].bytes, first[b].bytes) << "buffer " << b << " depends on the split";
        compare(memory[b], meaning[b], c.tolerance, b);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

Tensor unary(Builder& b, uint32_t op, const Tensor& x) {
  return testing::op(b, op, {x});
}
Tensor binary(Builder& b, uint32_t op, const Tensor& x, const Tensor& y) {
  return testing::op(b, op, {x, y});
}
Tensor rows(Builder& b, const Tensor& x, std::vector<ExprId> dims) {  // [r] to [r, n]
  const uint32_t at[] = {0};
  return b.broadcast(x, std::move(dims), at);
}

Tensor softmax(Builder& b, const Tensor& x, const Tensor& scale, const Tensor& mask) {
  const Tensor t =
      binary(b, TENON_S_ADD, binary(b, TENON_S_MUL, x, b.broadcast(scale, x.dims, {})), mask);
  const uint32_t last[] = {1};
  const Tensor mx = b.reduce(t, last, Fold::kMax);
  const Tensor e = unary(b, TENON_S_EXP, binary(b, TENON_S_SUB, t, rows(b, mx, x.dims)));
  const Tensor sum = b.reduce(e, last, Fold::kSum);
  return binary(b, TENON_S_DIV, e, rows(b, sum, x.dims));
}

void softmax_case(Case& c, DType type, ExprId r, ExprId n) {
  Builder& b = c.b;
  const Tensor x = b.input(type, {r, n}), scale = b.input(type, {}), mask = b.input(type, {r, n});
  b.output(softmax(b, x, scale, mask));
  c.kernels = 1;
}

TEST(Rows, SoftmaxStatic) {
  Case c;
  softmax_case(c, TENON_F32, c.b.dim(5), c.b.dim(77));
  check(c);
}
TEST(Rows, SoftmaxSymbolic) {
  for (int64_t n : {1, 16, 129}) {
    Case c;
    const ExprId r = c.b.extent(), e = c.b.extent();
    softmax_case(c, TENON_F32, r, e);
    c.ext = {4, n};
    check(c);
  }
}
TEST(Rows, SoftmaxOddValues) {
  Case c;
  softmax_case(c, TENON_F32, c.b.dim(40), c.b.dim(19));
  c.odd_values = true;
  check(c);
}
TEST(Rows, SoftmaxOtherTypes) {
  for (DType t : {TENON_F64, TENON_F16, TENON_BF16}) {
    Case c;
    softmax_case(c, static_cast<DType>(t), c.b.dim(5), c.b.dim(37));
    c.tolerance = t == TENON_F64 ? 1e-13 : t == TENON_F16 ? 2e-3 : 1e-2;
    check(c);
  }
}

// Long enough for work items that load and store four neighbours at once, in OpenCL C.
TEST(Rows, SoftmaxOfNeighbours) {
  for (DType t : {TENON_F32, TENON_F16, TENON_BF16}) {
    Case c;
    softmax_case(c, static_cast<DType>(t), c.b.extent(), c.b.dim(512));
    c.ext = {5};
    if (t != TENON_F32) c.tolerance = t == TENON_F16 ? 2e-3 : 1e-2;
    check(c);
  }
}
TEST(Pointwise, NeighboursOfOperandsThatAreNotAligned) {
  for (DType t : {TENON_F32, TENON_BF16, TENON_I8, TENON_I64}) {
    Case c;
    Builder& b = c.b;
    const Tensor x = b.input(static_cast<DType>(t), {b.dim(40), b.dim(132)}),
                 y = b.input(static_cast<DType>(t), {b.dim(40), b.dim(128)});
    const ExprId start[] = {b.dim(0), b.dim(1)};
    const int64_t step[] = {1, 1};
    b.output(binary(b, TENON_S_ADD, b.slice(x, start, step, y.dims), y));
    if (t == TENON_BF16) c.tolerance = 1e-2;
    check(c);
  }
}

TEST(Rows, LayerNorm) {
  Case c;
  Builder& b = c.b;
  const Tensor x = b.input(TENON_F32, dims(b, {3, 4, 100}));
  const Tensor gamma = b.input(TENON_F32, dims(b, {100})),
               beta = b.input(TENON_F32, dims(b, {100}));
  const uint32_t last[] = {2}, lead[] = {0, 1}, column[] = {2};
  const Tensor n = b.fill(TENON_F32, dims(b, {3, 4}), 100),
               eps = b.fill(TENON_F32, dims(b, {3, 4}), 1e-5);
  const Tensor mean = binary(b, TENON_S_DIV, b.reduce(x, last, Fold::kSum), n);
  const Tensor d = binary(b, TENON_S_SUB, x, b.broadcast(mean, x.dims, lead));
  const Tensor var =
      binary(b, TENON_S_DIV, b.reduce(binary(b, TENON_S_MUL, d, d), last, Fold::kSum), n);
  const Tensor r = unary(b, TENON_S_RSQRT, binary(b, TENON_S_ADD, var, eps));
  const Tensor y = binary(b, TENON_S_MUL, d, b.broadcast(r, x.dims, lead));
  b.output(binary(b, TENON_S_ADD, binary(b, TENON_S_MUL, y, b.broadcast(gamma, x.dims, column)),
                  b.broadcast(beta, x.dims, column)));
  c.kernels = 1;
  check(c);
}

TEST(Rows, FullReduction) {
  Case c;
  const Tensor x = c.b.input(TENON_F32, dims(c.b, {7, 33}));
  const uint32_t all[] = {0, 1};
  for (Fold f : {Fold::kSum, Fold::kMax, Fold::kMin, Fold::kProd})
    c.b.output(c.b.reduce(x, all, f));
  check(c);
}

TEST(Rows, ColumnReduction) {
  for (int64_t n : {3, 257}) {
    Case c;
    const Tensor x = c.b.input(TENON_F32, {c.b.extent(), c.b.extent()});
    c.ext = {37, n};
    const uint32_t first[] = {0};
    c.b.output(c.b.reduce(x, first, Fold::kSum));
    c.b.output(c.b.reduce(x, first, Fold::kMax));
    check(c);
  }
}

TEST(Rows, MiddleSoftmaxIsOneKernel) {
  Case c;
  Builder& b = c.b;
  const Tensor x = b.input(TENON_F32, dims(b, {2, 9, 21}));
  const uint32_t mid[] = {1}, outer[] = {0, 2};
  const Tensor mx = b.reduce(x, mid, Fold::kMax);
  const Tensor e = unary(b, TENON_S_EXP, binary(b, TENON_S_SUB, x, b.broadcast(mx, x.dims, outer)));
  b.output(binary(b, TENON_S_DIV, e, b.broadcast(b.reduce(e, mid, Fold::kSum), x.dims, outer)));
  c.kernels = 1;
  check(c);
}

// Every interleaved vector stores every result: a fault once lost all but the last result of a map.
TEST(Rows, SeveralResultsInColumns) {
  for (int64_t n : {3, 64, 150}) {
    Case c;
    Builder& b = c.b;
    const Tensor x = b.input(TENON_F32, dims(b, {9, n}));
    const uint32_t first[] = {0}, columns[] = {1};
    const Tensor most = b.broadcast(b.reduce(x, first, Fold::kMax), x.dims, columns);
    const uint32_t program[] = {
        TENON_SCALAR_WORD(TENON_S_ARG, 0), TENON_SCALAR_WORD(TENON_S_ARG, 1),
        TENON_SCALAR_WORD(TENON_S_SUB, 0), TENON_SCALAR_WORD(TENON_S_ARG, 0),
        TENON_SCALAR_WORD(TENON_S_ARG, 1), TENON_SCALAR_WORD(TENON_S_MUL, 0)};
    const Tensor both[] = {x, most};
    const DType types[] = {TENON_F32, TENON_F32};
    for (const Tensor& result : b.map(program, both, {}, types)) b.output(result);
    c.kernels = 1;
    check(c);
  }
}

TEST(Rows, ArgMaxFirstOfEqualsNanWins) {
  for (DType out : {TENON_I32, TENON_I64}) {
    Case c;
    const Tensor x = c.b.input(TENON_F32, dims(c.b, {9, 50}));
    const uint32_t last[] = {1}, first[] = {0};
    c.b.output(c.b.reduce(x, last, Fold::kArgMax, 0, static_cast<DType>(out)));
    c.b.output(c.b.reduce(x, first, Fold::kArgMin, 0, static_cast<DType>(out)));
    c.odd_values = true;
    c.low = 0;
    c.tolerance = 0;
    check(c);
  }
}

TEST(Rows, IntegersAndPredicates) {
  Case c;
  Builder& b = c.b;
  const Tensor x = b.input(TENON_I32, dims(b, {6, 45})), p = b.input(TENON_PRED, dims(b, {6, 45}));
  const Tensor u = b.input(TENON_U8, dims(b, {6, 45})), l = b.input(TENON_I64, dims(b, {6, 45}));
  const uint32_t last[] = {1};
  b.output(b.reduce(x, last, Fold::kSum));
  b.output(b.reduce(x, last, Fold::kMin));
  b.output(b.reduce(l, last, Fold::kMax));
  b.output(b.reduce(p, last, Fold::kOr));
  b.output(b.reduce(p, last, Fold::kAnd));
  b.output(b.convert(u, TENON_F32));
  b.output(b.convert(x, TENON_PRED));
  b.output(b.convert(p, TENON_F32));
  b.output(b.convert(x, TENON_I64));
  c.tolerance = 0;
  check(c);
}

// a x + b x with a = -b is 0. Where a compiler contracted the sum, it was the rounding error of a
// product: 5e21 here.
TEST(Pointwise, ProductsAreRoundedBeforeTheyAreAdded) {
  for (const DType type : {TENON_F32, TENON_F64}) {
    Case c;
    Builder& b = c.b;
    const std::vector<ExprId> dims = {b.dim(37)};
    const Tensor a = b.input(type, dims), minus_a = b.input(type, dims), x = b.input(type, dims);
    b.output(
        binary(b, TENON_S_ADD, binary(b, TENON_S_MUL, a, x), binary(b, TENON_S_MUL, minus_a, x)));
    c.special = {{a.buffer, 1e20 / 3}, {minus_a.buffer, -1e20 / 3}, {x.buffer, 1e10 / 3}};
    check(c);
  }
}

TEST(Pointwise, BroadcastsAndSymbols) {
  Case c;
  Builder& b = c.b;
  const ExprId m = b.extent(), n = b.extent();
  const Tensor x = b.input(TENON_F32, {m, n}), bias = b.input(TENON_F32, {n}),
               col = b.input(TENON_F32, {m});
  const uint32_t at1[] = {1}, at0[] = {0};
  const Tensor s = binary(b, TENON_S_ADD, x, b.broadcast(bias, x.dims, at1));
  b.output(unary(b, TENON_S_TANH, binary(b, TENON_S_MUL, s, b.broadcast(col, x.dims, at0))));
  c.ext = {13, 47};
  c.kernels = 1;
  check(c);
}

TEST(Pointwise, DataMovement) {
  Case c;
  Builder& b = c.b;
  const Tensor x = b.input(TENON_F32, dims(b, {4, 6, 10})),
               y = b.input(TENON_F32, dims(b, {4, 3, 10}));
  const Tensor zero = b.input(TENON_F32, {});
  const uint32_t perm[] = {2, 0, 1}, rev[] = {2};
  b.output(b.transpose(x, perm));
  b.output(b.reshape(x, dims(b, {8, 30})));
  b.output(b.reshape(x, dims(b, {24, 2, 5})));
  b.output(b.reshape(b.transpose(x, perm), dims(b, {60, 4})));
  const Tensor parts[] = {x, y, x};
  b.output(b.concat(parts, 1));
  b.output(b.reverse(x, rev));
  const ExprId start[] = {b.dim(1), b.dim(0), b.dim(2)};
  const int64_t step[] = {2, 1, 3};
  b.output(b.slice(x, start, step, dims(b, {2, 6, 3})));
  const int64_t low[] = {1, -1, 2}, interior[] = {0, 0, 1};
  b.output(b.pad(x, zero, low, interior, dims(b, {6, 7, 22})));
  b.output(b.iota(TENON_F32, dims(b, {5, 37}), 1));
  b.output(b.iota(TENON_I64, dims(b, {5, 37}), 0));
  c.tolerance = 0;
  check(c);
}

// Processor time of this process and of the compilers it ran; other load on the machine does not
// count.
double seconds_worked() {
  double seconds = 0;
  for (int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used = {};
    getrusage(who, &used);
    for (const timeval& time : {used.ru_utime, used.ru_stime})
      seconds += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  }
  return seconds;
}

// Two thousand parts: neither depth nor time may grow with them as in a chain.
TEST(Pointwise, WideConcat) {
  Builder b;
  constexpr uint32_t kParts = 2000;
  const DType t = TENON_F32;
  std::vector<Tensor> parts;
  for (uint32_t i = 0; i < kParts; ++i) parts.push_back(b.input(t, dims(b, {1 + i % 2, 2})));
  const Tensor y = b.concat(parts, 0);
  b.output(y);
  ASSERT_TRUE(b.ok()) << b.why();
  const Kernel program = b.take_program();
  const double before = seconds_worked();
  Session s;
  ASSERT_TRUE(s.build(program, Target::scalar(), {}, "-O0")) << s.why;
  EXPECT_LT(seconds_worked() - before, 60);
  std::vector<Data> memory;
  for (uint32_t i = 0; i < program.buffers.size(); ++i)
    memory.emplace_back(program.buffers[i].type, elements(program, i, {}));
  std::vector<float> want;
  for (uint32_t i = 0; i < kParts; ++i) {
    for (size_t j = 0; j < memory[parts[i].buffer].size(); ++j) {
      want.push_back(static_cast<float>(3 * i + j));
      memory[parts[i].buffer].put(j, want.back());
    }
  }
  s.run(&memory, 2);
  ASSERT_EQ(memory[y.buffer].size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(memory[y.buffer].raw<float>(i), want[i]) << i;
}

#ifdef TENON_TEST_OPENCL
// Scalar.WideNumbersRoundToHalvesOnce and WideIntegersWrapWhereBoundsAreKnown, in OpenCL C.
TEST(Pointwise, OpenClRoundsToHalvesOnceAndWraps) {
  testing::OpenCl opencl(64);
  if (!opencl.present()) GTEST_SKIP() << "no OpenCL platform";
  Builder b;
  const Tensor n = b.input(TENON_I32, dims(b, {2})), w = b.input(TENON_I64, dims(b, {2})),
               d = b.input(TENON_F64, dims(b, {2}));
  const Tensor i = b.iota(TENON_I64, dims(b, {4}), 0);
  constexpr uint64_t kFactor = 6364136223846793005;
  const uint32_t program[] = {TENON_SCALAR_WORD(TENON_S_ARG, 0),
                              TENON_SCALAR_WORD(TENON_S_CONST_I, 0), static_cast<uint32_t>(kFactor),
                              static_cast<uint32_t>(kFactor >> 32),
                              TENON_SCALAR_WORD(TENON_S_MUL, 0)};
  const DType t[] = {TENON_I64};
  const Tensor out[] = {b.convert(n, TENON_BF16), b.convert(w, TENON_BF16), b.convert(d, TENON_F16),
                        b.map(program, std::span(&i, 1), {}, t)[0]};
  for (const Tensor& x : out) b.output(x);
  ASSERT_TRUE(b.ok()) << b.why();
  const Kernel kernel = b.take_program();
  std::vector<Data> memory;
  for (uint32_t x = 0; x < kernel.buffers.size(); ++x)
    memory.emplace_back(kernel.buffers[x].type, elements(kernel, x, {}));
  for (int k = 0; k < 2; ++k) {
    const int sign = k ? -1 : 1;
    memory[n.buffer].put<int32_t>(k, sign * 16842753);
    memory[w.buffer].put<int64_t>(k, sign * ((int64_t{1} << 62) + (int64_t{1} << 54) + 1));
    memory[d.buffer].put<double>(k, sign * (1 + 0x1p-11 + 0x1p-40));
  }
  std::string why;
  ASSERT_TRUE(opencl.run(kernel, {}, &memory, &why)) << why;
  for (int k = 0; k < 2; ++k) {
    const int sign = k ? -1 : 1;
    EXPECT_EQ(memory[out[0].buffer].get(k), sign * 16908288.0);
    EXPECT_EQ(memory[out[1].buffer].get(k), sign * (0x1p62 + 0x1p55));
    EXPECT_EQ(memory[out[2].buffer].get(k), sign * (1 + 0x1p-10));
  }
  for (uint64_t k = 0; k < 4; ++k)
    EXPECT_EQ(memory[out[3].buffer].raw<uint64_t>(k), k * kFactor) << k;
}
#endif

TEST(Pointwise, Transposes) {
  for (DType t : {TENON_F32, TENON_F64, TENON_I32, TENON_F16}) {
    Case c;
    Builder& b = c.b;
    const Tensor x = b.input(static_cast<DType>(t), dims(b, {3, 37, 50})),
                 y = b.input(static_cast<DType>(t), {b.extent(), b.extent()});
    c.ext = {35, 67};
    const uint32_t perm[] = {0, 2, 1}, flip[] = {1, 0};
    b.output(b.transpose(x, perm));
    const Tensor z = b.transpose(y, flip);
    b.output(
        binary(b, TENON_S_ADD, z, b.transpose(b.reshape(y, {c.b.dim(35), c.b.dim(67)}), flip)));
    c.tolerance = t == TENON_F16 ? 1e-3 : 0;
    check(c);
  }
}

// A filter's rows, columns and channels are read as one run. The last block of results is padding,
// in part or as a whole.
TEST(Pointwise, TurnsPanelsOver) {
  Case c;
  Builder& b = c.b;
  const Tensor zero = b.fill(TENON_F32, {}, 0);
  const uint32_t perm[] = {2, 3, 1, 0}, flip[] = {1, 0};
  const int64_t none[] = {0, 0, 0, 0};
  for (int64_t columns : {50, 64}) {
    const Tensor x = b.input(TENON_F32, dims(b, {columns, 5, 3, 3})),
                 y = b.input(TENON_F32, dims(b, {columns, 37}));
    b.output(b.pad(b.transpose(x, perm), zero, none, none, dims(b, {3, 3, 5, 80})));
    b.output(b.pad(b.transpose(y, flip), zero, std::span(none).first(2), std::span(none).first(2),
                   dims(b, {37, 80})));
  }
  c.tolerance = 0;
  check(c);
}

// A few channels interleaved, padded, with known and unknown widths; results that do not fill the
// last vector.
TEST(Pointwise, WeavesFewChannels) {
  Case c;
  Builder& b = c.b;
  const ExprId wide = b.extent();
  c.ext = {45};
  const uint32_t perm[] = {0, 2, 3, 1};
  const int64_t low[] = {0, 1, 2, 0}, none[] = {0, 0, 0, 0};
  for (int64_t channels : {1, 2, 3, 4, 5}) {
    const Tensor x = b.input(TENON_F32, dims(b, {2, channels, 6, 37})),
                 y = b.input(TENON_I32, {b.dim(1), b.dim(channels), b.dim(3), wide});
    b.output(b.pad(b.transpose(x, perm), b.fill(TENON_F32, {}, 0), low, none,
                   dims(b, {2, 8, 40, channels})));
    b.output(b.transpose(y, perm));
  }
  c.tolerance = 0;
  check(c);
}

TEST(Pointwise, Take) {
  for (auto outside : {Builder::Outside::kClip, Builder::Outside::kFill}) {
    Case c;
    Builder& b = c.b;
    const Tensor x = b.input(TENON_F32, dims(b, {25, 33})), i = b.input(TENON_I32, dims(b, {4, 7}));
    b.output(b.take(x, i, 0, outside));
    b.output(b.take(x, i, 1, outside));
    c.tolerance = 0;
    check(c);
  }
}

void attention_case(int64_t queries, int64_t keys, int64_t features, int64_t columns, bool causal,
                    bool heads_inside, bool symbolic, bool masked = true) {
  Case c;
  Builder& b = c.b;
  Pool& p = b.pool();
  const ExprId n = symbolic ? b.extent() : b.dim(queries), m = symbolic ? b.extent() : b.dim(keys);
  if (symbolic) c.ext = {queries, keys};
  const uint32_t perm[] = {0, 2, 1, 3};
  auto operand = [&](ExprId rows, int64_t heads, int64_t width) {
    if (!heads_inside) return b.input(TENON_F32, {b.dim(2), b.dim(heads), rows, b.dim(width)});
    return b.transpose(b.reshape(b.input(TENON_F32, {b.dim(2), rows, b.dim(heads * width)}),
                                 {b.dim(2), rows, b.dim(heads), b.dim(width)}),
                       perm);
  };
  const Tensor q = operand(n, 4, features), k = operand(m, 2, features), v = operand(m, 2, columns);
  Tensor mask;
  if (masked) mask = b.input(TENON_F32, {n, m});
  const Tensor y = b.attention(q, k, v, 2, [&](ExprId x, std::span<const ExprId> at) {
    x = p.op(TENON_S_MUL, {x, p.number(0.3, TENON_F32)});
    if (masked) x = p.op(TENON_S_ADD, {x, b.load(mask, at.subspan(2))});
    if (!causal) return x;
    return p.op(TENON_S_SELECT,
                {p.cmp(TENON_CMP_LE, at[3], at[2]), x, p.number(-INFINITY, TENON_F32)});
  });
  b.output(heads_inside ? b.reshape(b.transpose(y, perm), {b.dim(2), n, b.dim(4 * columns)}) : y);
  c.kernels = 1;
  c.vectors = true;
  check(c);
}
TEST(Attention, OddSizes) {
  attention_case(7, 261, 19, 21, false, false, false);
  attention_case(101, 300, 8, 3, true, true, true);
}
// Axes of one point are not there, and vectors along them would be of other elements.
TEST(Attention, OneKeyFeatureOrColumn) {
  for (const bool masked : {true, false}) {
    attention_case(50, 1, 19, 21, false, false, false, masked);
    attention_case(50, 70, 1, 21, false, false, false, masked);
    attention_case(50, 70, 19, 1, false, false, false, masked);
    attention_case(65, 1, 1, 1, false, false, false, masked);
  }
}
// Nothing of a score is in memory, so that lanes run along queries.
TEST(Attention, LanesAlongQueries) {
  attention_case(32, 128, 16, 16, false, false, false, false);
  attention_case(70, 150, 19, 21, false, false, false, false);
  attention_case(35, 129, 20, 40, false, true, false, false);
  attention_case(150, 150, 8, 3, true, true, false, false);
  attention_case(130, 40, 33, 13, true, false, true, false);
}
TEST(Attention, FewQueriesReadKeysWhereTheyAre) {
  // Whole vectors of features and a rest, keys that lie apart, the last panel not full.
  attention_case(1, 300, 24, 32, false, false, false);
  attention_case(2, 257, 64, 64, false, true, false);
  attention_case(3, 70, 19, 21, true, true, false);
  // Fewer features than lanes.
  attention_case(1, 65, 3, 64, true, false, false);
}
TEST(Ordered, Scans) {
  for (const uint32_t dim : {0u, 1u, 2u}) {
    for (const int mode : {0, 3}) {
      Case c;
      Builder& b = c.b;
      const Tensor x = b.input(TENON_F32, {b.extent(), b.dim(5), b.dim(37)});
      const Fold fold = mode & 1 ? Fold::kSum : Fold::kMax;
      b.output(b.scan(unary(b, TENON_S_NEG, x), dim, fold, mode & 2, mode & 1, TENON_DTYPE_NONE,
                      TENON_F32));
      c.ext = {19};
      c.kernels = 1;
      check(c);
    }
  }
}
TEST(Ordered, ScatterAddsInOrder) {
  // Rows into rows, with repeated and missing positions; lanes run along the row.
  for (const bool rows : {true, false}) {
    Case c;
    Builder& b = c.b;
    Pool& p = b.pool();
    const Tensor x = b.input(TENON_F32, {b.dim(7), b.dim(45)}),
                 at = b.input(TENON_I64, {b.dim(11)});
    const Tensor u = b.input(TENON_F32, rows ? dims(b, {11, 45}) : dims(b, {11}));
    b.output(b.scatter(
        x, u.dims,
        [&](std::span<const ExprId> axes) {
          const ExprId row = b.load(at, {axes.data(), 1});
          const ExprId inside =
              p.both(p.cmp(TENON_CMP_GE, row, p.integer(0)), p.cmp(TENON_CMP_LT, row, x.dims[0]));
          return Place{{row, rows ? axes[1] : p.integer(3)}, inside};
        },
        [&](std::span<const ExprId> axes, ExprId old) {
          return p.op(TENON_S_ADD, {old, b.load(u, axes)});
        }));
    c.kernels = 1;
    check(c);
  }
}
TEST(Ordered, SortsKeepTheOrderOfEqualKeys) {
  for (const int64_t n : {1, 2, 16, 17, 33, 200}) {
    Case c;
    Builder& b = c.b;
    const Tensor x = b.input(TENON_F32, {b.extent(), b.dim(n), b.dim(3)}),
                 y = b.input(TENON_I32, {x.dims});
    const Tensor in[] = {y, x};
    const int64_t descending[] = {1, 0};
    for (const Tensor& t : b.sort(in, 1, 2, descending, b.dim(n), TENON_I64)) b.output(t);
    c.ext = {4};
    c.kernels = 1;
    check(c);
  }
}
TEST(Ordered, TopK) {
  Case c;
  Builder& b = c.b;
  const ExprId n = b.extent();
  const Tensor x = b.input(TENON_F32, {b.dim(5), n});
  const int64_t descending[] = {1};
  for (const Tensor& t : b.sort({&x, 1}, 1, 1, descending, b.dim(4), TENON_I32)) b.output(t);
  c.ext = {50};
  check(c);
}
// Lanes are rows, and each gathers a different element of its own temp.
TEST(Rows, LanesGatherFromTheirTemps) {
  Case c;
  Builder& b = c.b;
  const Tensor x = b.input(TENON_F32, dims(b, {3, 5, 37, 4}));
  const Tensor at = b.input(TENON_I32, dims(b, {3, 6, 37}));
  const uint32_t last[] = {3};
  const Tensor low = b.reduce(x, last, Fold::kMin);  // [3, 5, 37]
  const Tensor chosen = b.map(TENON_F32, at.dims, [&](std::span<const ExprId> i) {
    Pool& p = b.pool();
    const ExprId index =
        p.max(p.integer(0), p.min(p.convert(b.load(at, i), TENON_I64), p.integer(4)));
    const ExprId from[] = {i[0], index, i[2]};
    return b.load(low, from);
  });
  b.output(chosen);
  check(c);
}

TEST(Rows, WindowArgMax) {
  Case c;
  Builder& b = c.b;
  const Tensor x = b.input(TENON_F32, dims(b, {2, 9, 13}));
  const WindowDim window[] = {{1, 1}, {3, 2, 1, 1}, {2, 3, 0, 1, 2}};
  for (const Tensor& t : b.window_argmax(x, window, dims(b, {2, 5, 4}), TENON_I64)) b.output(t);
  check(c);
}
TEST(Rows, ReduceWindow) {
  Case c;
  Builder& b = c.b;
  const Tensor x = b.input(TENON_F32, dims(b, {2, 3, 13, 17}));
  const WindowDim pool2[] = {{}, {}, {2, 2}, {2, 2}};
  b.output(b.reduce_window(x, pool2, Fold::kMax, dims(b, {2, 3, 6, 8})));
  const WindowDim pool3[] = {{}, {}, {3, 2, 1, 1}, {3, 2, 1, 1}};
  b.output(b.reduce_window(x, pool3, Fold::kSum, dims(b, {2, 3, 7, 9})));
  check(c);
}

void dot_case(DType type, int64_t m, int64_t n, int64_t k, bool ta, bool tb, double tolerance) {
  SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) +
               (ta ? " a^T" : "") + (tb ? " b^T" : ""));
  Case c;
  Builder& b = c.b;
  const Tensor x = b.input(type, ta ? dims(b, {k, m}) : dims(b, {m, k})),
               y = b.input(type, tb ? dims(b, {n, k}) : dims(b, {k, n}));
  const uint32_t ka[] = {ta ? 0u : 1u}, kb[] = {tb ? 1u : 0u};
  b.output(b.dot(x, y, {}, {}, ka, kb));
  c.tolerance = tolerance;
  c.kernels = 1;
  check(c);
}

TEST(Contraction, Shapes) {
  const int64_t shapes[][3] = {{1, 10, 64}, {7, 33, 19}, {70, 130, 65}, {5, 1, 9}, {13, 8, 1}};
  for (auto& s : shapes) {
    for (int t : {0, 3}) dot_case(TENON_F32, s[0], s[1], s[2], t & 1, t & 2, 2e-5);
  }
}
TEST(Contraction, Types) {
  for (int t : {1, 2}) {
    dot_case(TENON_F64, 70, 33, 21, t & 1, t & 2, 1e-12);
    dot_case(TENON_F16, 70, 33, 21, t & 1, t & 2, 2e-3);
    dot_case(TENON_BF16, 13, 40, 21, t & 1, t & 2, 1e-2);
    dot_case(TENON_I32, 70, 33, 21, t & 1, t & 2, 0);
  }
}
TEST(Contraction, BatchSymbolicEpilogue) {
  Case c;
  Builder& b = c.b;
  const ExprId batch = b.extent(), m = b.extent(), n = b.extent();
  const Tensor x = b.input(TENON_F32, {batch, m, b.dim(24)}),
               y = b.input(TENON_F32, {batch, b.dim(24), n});
  const Tensor bias = b.input(TENON_F32, {n});
  const uint32_t zero[] = {0}, one[] = {1}, two[] = {2};
  const Tensor d = b.dot(x, y, zero, zero, two, one);
  const Tensor s = binary(b, TENON_S_ADD, d, b.broadcast(bias, d.dims, two));
  b.output(binary(b, TENON_S_MUL, s, unary(b, TENON_S_ERF, s)));
  c.ext = {3, 17, 37};
  c.kernels = 1;
  check(c);
}
TEST(Contraction, AttentionHeads) {
  // [B, S, H * D] split into heads, scores per head: reshapes and transposes are fused into the
  // operands.
  Case c;
  Builder& b = c.b;
  const Tensor q = b.input(TENON_F32, dims(b, {2, 11, 24})),
               k = b.input(TENON_F32, dims(b, {2, 11, 24}));
  const uint32_t perm[] = {0, 2, 1, 3};
  const Tensor qh = b.transpose(b.reshape(q, dims(b, {2, 11, 3, 8})), perm),
               kh = b.transpose(b.reshape(k, dims(b, {2, 11, 3, 8})), perm);
  const uint32_t batch[] = {0, 1}, sum[] = {3};
  const Tensor scores = b.dot(qh, kh, batch, batch, sum, sum);
  const Tensor v = b.dot(scores, kh, batch, batch, std::array{3u}, std::array{2u});
  b.output(b.reshape(b.transpose(v, perm), dims(b, {2, 11, 24})));
  c.kernels = 2;
  check(c);
}
TEST(Contraction, ProjectionsOfHeadsWithSymbols) {
  // The bias of a projection, a head split that a sum of products reads in place, a factor, and
  // heads joined by the store.
  Case c;
  Builder& b = c.b;
  const ExprId n = b.extent(), s = b.extent();
  const Tensor x = b.input(TENON_F32, {n, s, b.dim(24)}), w = b.input(TENON_F32, dims(b, {24, 48})),
               bias = b.input(TENON_F32, dims(b, {48}));
  const uint32_t zero[] = {0}, two[] = {2}, perm[] = {0, 2, 1, 3}, batch[] = {0, 1}, three[] = {3};
  const Tensor d = b.dot(x, w, {}, {}, two, zero);
  const Tensor both = binary(b, TENON_S_ADD, d, b.broadcast(bias, d.dims, two));
  auto head = [&](int64_t from) {
    const int64_t step[] = {1, 1, 1};
    const std::vector<ExprId> start{b.dim(0), b.dim(0), b.dim(from)};
    const Tensor part = b.slice(both, start, step, {n, s, b.dim(24)});
    return b.transpose(b.reshape(part, {n, s, b.dim(3), b.dim(8)}), perm);
  };
  const Tensor q = head(0), k = head(24);
  const Tensor scaled = binary(b, TENON_S_MUL, q, b.fill(TENON_F32, q.dims, 0.5));
  const Tensor scores = b.dot(scaled, k, batch, batch, three, three);
  const Tensor v = b.dot(scores, k, batch, batch, three, std::array{2u});
  b.output(b.reshape(b.transpose(v, perm), {n, s, b.dim(24)}));
  c.ext = {2, 13};
  c.kernels = 3;
  check(c);
}

void conv_case(std::vector<int64_t> x_dims, std::vector<int64_t> w_dims, WindowDim h, WindowDim v,
               int64_t groups, bool nhwc) {
  Case c;
  Builder& b = c.b;
  std::vector<ExprId> xd, wd;
  for (int64_t d : x_dims) xd.push_back(b.dim(d));
  for (int64_t d : w_dims) wd.push_back(b.dim(d));
  ConvDims n;
  n.x_spatial = n.out_spatial = nhwc ? std::vector<uint32_t>{1, 2} : std::vector<uint32_t>{2, 3};
  n.w_spatial = nhwc ? std::vector<uint32_t>{0, 1} : std::vector<uint32_t>{2, 3};
  if (nhwc) {
    n.x_feature = n.out_feature = 3;
    n.w_in = 2;
    n.w_out = 3;
  }
  const WindowDim window[] = {h, v};
  auto out = [](int64_t d, const WindowDim& w) {
    return (d + w.pad_low + w.pad_high - (w.size - 1) * w.dilation - 1) / w.stride + 1;
  };
  const int64_t oh = out(x_dims[n.x_spatial[0]], h), ow = out(x_dims[n.x_spatial[1]], v),
                oc = w_dims[n.w_out];
  const Tensor x = b.input(TENON_F32, xd), w = b.input(TENON_F32, wd),
               bias = b.input(TENON_F32, dims(b, {oc}));
  const Tensor y =
      b.conv(x, w, n, window, groups,
             nhwc ? dims(b, {x_dims[0], oh, ow, oc}) : dims(b, {x_dims[0], oc, oh, ow}));
  ASSERT_TRUE(b.ok()) << b.why();
  const uint32_t feature[] = {n.out_feature};
  const Tensor z = binary(b, TENON_S_ADD, y, b.broadcast(bias, y.dims, feature));
  b.output(binary(b, TENON_S_MAX, z, b.fill(TENON_F32, z.dims, 0)));
  check(c);
}

TEST(Convolution, Nchw) {
  conv_case({2, 3, 9, 11}, {8, 3, 3, 3}, {3, 1, 1, 1}, {3, 1, 1, 1}, 1, false);
  conv_case({1, 4, 14, 14}, {20, 4, 3, 3}, {3, 2, 1, 1}, {3, 2, 1, 1}, 1, false);
  conv_case({2, 5, 7, 7}, {9, 5, 1, 1}, {1}, {1}, 1, false);
  conv_case({1, 4, 10, 12}, {6, 4, 3, 2}, {3, 1, 2, 2, 2}, {2, 1, 0, 1}, 1, false);
}
TEST(Convolution, Groups) {
  conv_case({2, 6, 9, 19}, {8, 3, 3, 3}, {3, 1, 1, 1}, {3, 1, 1, 1}, 2, false);
  conv_case({1, 6, 9, 33}, {6, 1, 3, 3}, {3, 1, 1, 1}, {3, 1, 1, 1}, 6, false);
}
TEST(Convolution, Nhwc) {
  conv_case({2, 9, 11, 5}, {3, 3, 5, 18}, {3, 1, 1, 1}, {3, 1, 1, 1}, 1, true);
}

// ---- Random programs: unforeseen combinations of fusion, schedules and lowering ----

class RandomProgram {
 public:
  RandomProgram(Case& c, uint32_t seed) : c_(c), b_(c.b), rng_(seed) {}

  void build() {
    for (int i = 0; i < 3; ++i) {
      std::vector<int64_t> shape;
      for (uint32_t r = 1 + rng_() % 3; r > 0; --r) shape.push_back(size());
      add(b_.input(TENON_F32, ends(shape)), shape);
    }
    for (int i = 0; i < 12; ++i) step();
    for (size_t i = 0; i < pool_.size(); ++i) {
      if (i + 1 == pool_.size() || rng_() % 4 == 0) b_.output(pool_[i].first);
    }
  }

 private:
  using Known = std::pair<Tensor, std::vector<int64_t>>;

  int64_t size() {
    const int64_t sizes[] = {1, 2, 3, 5, 8, 17, 19, 33};
    return sizes[rng_() % std::size(sizes)];
  }
  // Some sizes are symbols.
  ExprId end(int64_t n) {
    if (rng_() % 4) return b_.dim(n);
    c_.ext.push_back(n);
    return b_.extent();
  }
  std::vector<ExprId> ends(const std::vector<int64_t>& shape) {
    std::vector<ExprId> out;
    for (int64_t n : shape) out.push_back(end(n));
    return out;
  }
  void add(const Tensor& t, std::vector<int64_t> shape) { pool_.push_back({t, std::move(shape)}); }
  const Known& pick() { return pool_[rng_() % 2 ? pool_.size() - 1 : rng_() % pool_.size()]; }

  void step() {
    const Known x = pick();
    const uint32_t rank = static_cast<uint32_t>(x.second.size());
    switch (rng_() % 9) {
      case 0:
      case 1: {
        const uint32_t ops[] = {TENON_S_TANH, TENON_S_NEG, TENON_S_ABS, TENON_S_LOGISTIC,
                                TENON_S_ERF};
        return add(unary(b_, ops[rng_() % 5], x.first), x.second);
      }
      case 2:
      case 3: {
        // y broadcast along the leading dims of x.
        for (const Known& y : pool_) {
          if (y.second.size() > x.second.size() || rng_() % 3 == 0) continue;
          std::vector<uint32_t> at;
          bool fits = true;
          for (uint32_t d = 0; d < y.second.size(); ++d) {
            const uint32_t to = static_cast<uint32_t>(rank - y.second.size() + d);
            at.push_back(to);
            fits = fits &&
                   (y.first.dims[d] == x.first.dims[to] || b_.pool().is_const(y.first.dims[d], 1));
          }
          if (!fits) continue;
          const uint32_t ops[] = {TENON_S_ADD, TENON_S_MUL, TENON_S_SUB, TENON_S_MAX};
          return add(binary(b_, ops[rng_() % 4], x.first, b_.broadcast(y.first, x.first.dims, at)),
                     x.second);
        }
        return;
      }
      case 4: {
        if (rank == 0) return;
        const uint32_t d[] = {static_cast<uint32_t>(rng_() % rank)};
        const Fold folds[] = {Fold::kSum, Fold::kMax, Fold::kMin};
        std::vector<int64_t> shape = x.second;
        shape.erase(shape.begin() + d[0]);
        return add(b_.reduce(x.first, d, folds[rng_() % 3]), shape);
      }
      case 5: {
        // Normalise along one dim: x - mean.
        if (rank == 0) return;
        const uint32_t d = static_cast<uint32_t>(rng_() % rank);
        std::vector<uint32_t> kept;
        for (uint32_t i = 0; i < rank; ++i) {
          if (i != d) kept.push_back(i);
        }
        const Tensor m = b_.reduce(x.first, std::array{d}, rng_() % 2 ? Fold::kSum : Fold::kMax);
        return add(binary(b_, TENON_S_SUB, x.first, b_.broadcast(m, x.first.dims, kept)), x.second);
      }
      case 6: {
        std::vector<uint32_t> perm(rank);
        for (uint32_t i = 0; i < rank; ++i) perm[i] = i;
        std::shuffle(perm.begin(), perm.end(), rng_);
        std::vector<int64_t> shape;
        for (uint32_t p : perm) shape.push_back(x.second[p]);
        return add(b_.transpose(x.first, perm), shape);
      }
      case 7: {
        if (rank == 0) return;
        const Tensor parts[] = {x.first, x.first};
        const uint32_t d = static_cast<uint32_t>(rng_() % rank);
        std::vector<int64_t> shape = x.second;
        shape[d] *= 2;
        return add(b_.concat(parts, d), shape);
      }
      default: {
        // x times a tensor with x's last size, or x squared.
        if (rank == 0) return;
        const uint32_t last[] = {rank - 1};
        const int64_t n = size();
        const Tensor w = b_.input(
            TENON_F32, rng_() % 2 ? std::vector<ExprId>{x.first.dims[rank - 1], b_.dim(n)}
                                  : std::vector<ExprId>{b_.dim(n), x.first.dims[rank - 1]});
        const uint32_t sum[] = {w.dims[0] == x.first.dims[rank - 1] ? 0u : 1u};
        std::vector<int64_t> shape = x.second;
        shape.back() = n;
        return add(b_.dot(x.first, w, {}, {}, last, sum), shape);
      }
    }
  }

  Case& c_;
  Builder& b_;
  std::mt19937 rng_;
  std::vector<Known> pool_;
};

TEST(Random, Programs) {
  const char* from = std::getenv("KERNELGEN_SEED");
  const uint32_t first = from ? static_cast<uint32_t>(std::atoi(from)) : 0;
  const char* number = std::getenv("KERNELGEN_COUNT");
  const uint32_t count = number ? static_cast<uint32_t>(std::atoi(number)) : 8;
  for (uint32_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Case c;
    RandomProgram(c, seed).build();
    c.tolerance = 1e-4;
    c.low = -1;
    c.high = 1;
    check(c);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace tenon::kernelgen
