// The texts of both IRs and of C++, for the common shapes. Assertions name the lines that matter,
// in order, but not the numbers of values.
#include <functional>

#include "tenon/kernelgen/device/text_executable.h"
#include "tenon/kernelgen/testing/test_values.h"

namespace tenon::kernelgen {
namespace {

using testing::op;

// Expects every line, each after the previous one.
void expect_in_order(const std::string& text, std::initializer_list<const char*> lines) {
  size_t at = 0;
  for (const char* line : lines) {
    const size_t found = text.find(line, at);
    if (found == std::string::npos) {
      ADD_FAILURE() << "missing after what came before: " << line << "\nin\n" << text;
      return;
    }
    at = found + 1;
  }
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
  return n;
}

struct Texts {
  std::vector<Kernel> kernels;
  std::string levels, code;
};

Texts texts(Builder& b, const Target& target) {
  EXPECT_TRUE(b.ok()) << b.why();
  Texts t;
  t.kernels = partition(b.take_program(), target);
  std::string why;
  EXPECT_EQ(t.kernels.size(), 1u);
  EXPECT_TRUE(explain(t.kernels[0], target, &t.levels, &why)) << why;
  Module m;
  EXPECT_TRUE(generate(t.kernels, target, &m, &why)) << why;
  t.code = m.text;
  return t;
}

void softmax(Builder& b, ExprId rows, ExprId n) {
  const Tensor x = b.input(TENON_F32, {rows, n}), scale = b.input(TENON_F32, {}),
               mask = b.input(TENON_F32, {rows, n});
  const uint32_t last[] = {1}, row[] = {0};
  const Tensor t =
      op(b, TENON_S_ADD, {op(b, TENON_S_MUL, {x, b.broadcast(scale, x.dims, {})}), mask});
  const Tensor mx = b.reduce(t, last, Fold::kMax);
  const Tensor e = op(b, TENON_S_EXP, {op(b, TENON_S_SUB, {t, b.broadcast(mx, x.dims, row)})});
  const Tensor s = b.reduce(e, last, Fold::kSum);
  b.output(op(b, TENON_S_DIV, {e, b.broadcast(s, x.dims, row)}));
}

TEST(Text, SoftmaxIsOneKernelOfThreeLoops) {
  Builder b;
  const ExprId rows = b.extent(), n = b.extent();
  softmax(b, rows, n);
  const Texts t = texts(b, Target::avx512());
  expect_in_order(
      t.levels,
      {"kernel lead [i0] {",
       "b0 f32[n0, n1] strides [n1, 1] in",
       "temp in b7",  // x * scale + mask, then the exponentials: both are in the row of the result
       "stage 0 Map over [i0, i1]",
       "= b0[i0, i1] + b1[]*b2[i0, i1]",
       "stage 1 Reduce over [i0] reduce [i2]",
       "init -inf; step max(s0, b3[i0, i2]); merge max(s0, s1)",
       "stage 2 Map over [i0, i3]",
       "= exp(b3[i0, i3] - b4[i0])",
       "stage 3 Reduce over [i0] reduce [i4]",
       "init 0; step s0 + b5[i0, i4]; merge s0 + s1",
       "stage 4 Map over [i0, i5]",
       "= b5[i0, i5] / b6[i0]",
       "schedule row reduction {",
       "lanes 16 along each stage's innermost axis",
       "range {",
       "do stage 1 Init",
       "vector full {",
       "do stage 0 Map",
       "do stage 1 Step",
       "do stage 1 Merge",
       "rotate",
       "do stage 1 Final",
       "do stage 3 Init",
       "vector full {",
       "do stage 2 Map",
       "do stage 3 Step",
       "do stage 3 Final",
       "vector full {",
       "do stage 4 Map"});
  expect_in_order(
      t.code, {"FN f32x16 exp_f32x16(f32x16 x)", "extern \"C\"",
               "void* const* buf, const i64* ext, i64 begin, i64 end, void* scratch)", "= begin;",
               "= ld_f32x16(b0 + ", "= max_f32x16(", "= __builtin_shufflevector(", "= exp_f32x16(",
               " / ", "st_f32x16(b3 + "});
  // One Range loop, three passes with a main loop and a masked rest each, and no scratch.
  EXPECT_EQ(count(t.code.substr(t.code.find("extern")), "for ("), 7u) << t.code;
  EXPECT_EQ(t.code.find("*)scratch"), std::string::npos);
}

// Padding costs no work: a window larger than the input runs over the input.
TEST(Text, WindowsLargerThanTheInputRunOverTheInput) {
  Builder b;
  const Tensor x = b.input(TENON_F32, {b.dim(3), b.dim(1000)});
  const WindowDim window[] = {{510, 2, 255, 255}, {511, 2, 255, 255}};
  b.output(b.reduce_window(x, window, Fold::kSum, {b.dim(2), b.dim(500)}));
  const std::string levels = texts(b, Target::avx512()).levels;
  EXPECT_EQ(count(levels, "< 510\n"), 0u) << levels;
  expect_in_order(levels,
                  {"axis i2 < 3\n", "axis i3 < 511\n", "Reduce over [i0, i1] reduce [i2, i3]"});
}

TEST(Text, EqualKernelsOfDifferentProgramsHashEqual) {
  Builder a, b;
  softmax(a, a.dim(8), a.dim(64));
  // The same after other inputs, with axes and extents in another order.
  b.input(TENON_I32, {b.extent()});
  b.map(TENON_F32, {b.dim(5)},
        [&](std::span<const ExprId> axes) { return b.pool().convert(axes[0], TENON_F32); });
  softmax(b, b.dim(8), b.dim(64));
  const auto ka = partition(a.take_program(), Target::avx2()),
             kb = partition(b.take_program(), Target::avx2());
  ASSERT_EQ(ka.size(), 1u);
  ASSERT_EQ(kb.size(), 1u);
  EXPECT_EQ(structural_hash(ka[0]), structural_hash(kb[0]));
  Builder c;
  softmax(c, c.dim(8), c.dim(65));
  EXPECT_FALSE(structural_hash(partition(c.take_program(), Target::avx2())[0]) ==
               structural_hash(ka[0]));
}

// Kernels with one hash share code, also from a cache. A product of two loads once had one hash for
// both orders of its factors, while the code took its buffers in the order in which it reads them.
TEST(Text, EqualHashesMeanEqualArguments) {
  const auto build = [](bool swapped) {
    Builder b;
    const Tensor s = b.input(TENON_F32, {b.dim(64)}), v = b.input(TENON_F32, {b.dim(64)});
    Pool& pool = b.pool();
    const ExprId four = pool.integer(4);
    const auto load = [&](const Tensor& t, ExprId at) { return b.load(t, {&at, 1}); };
    const ExprId first = load(swapped ? v : s, four);
    const ExprId second = load(swapped ? s : v, four);
    b.output(b.map(TENON_F32, {b.dim(64)}, [&](std::span<const ExprId> axes) {
      const ExprId difference = pool.op(TENON_S_SUB, {load(s, axes[0]), load(v, axes[0])});
      return pool.op(TENON_S_SUB, {difference, pool.op(TENON_S_MUL, {first, second})});
    }));
    return texts(b, Target::avx512());
  };
  const Texts a = build(false), b = build(true);
  EXPECT_EQ(structural_hash(a.kernels[0]) == structural_hash(b.kernels[0]), a.code == b.code)
      << a.code << b.code;
}

// Panels of weights: what is contiguous in the filter is one axis of the squares, and the guard of
// the last panel is evaluated per block.
TEST(Text, PanelsAreTurnedOver) {
  Builder b;
  const Tensor x = b.input(TENON_F32, {b.dim(50), b.dim(5), b.dim(3), b.dim(3)}),
               zero = b.fill(TENON_F32, {}, 0);
  const uint32_t perm[] = {2, 3, 1, 0};
  const int64_t none[] = {0, 0, 0, 0};
  b.output(
      b.pad(b.transpose(x, perm), zero, none, none, {b.dim(3), b.dim(3), b.dim(5), b.dim(64)}));
  const Texts t = texts(b, Target::avx512());
  expect_in_order(t.levels, {"schedule transpose {", "tiles along i", "transpose"});
}

TEST(Text, FewChannelsAreWoven) {
  Builder b;
  const uint32_t perm[] = {0, 2, 3, 1};
  b.output(b.transpose(b.input(TENON_F32, {b.dim(1), b.dim(3), b.dim(5), b.extent()}), perm));
  const Texts t = texts(b, Target::avx512());
  expect_in_order(t.levels, {"schedule pointwise {", "interleaved with i", "interleave ", " if "});
}

TEST(Text, GeluOfMatmulIsAnEpilogue) {
  Builder b;
  const Tensor x = b.input(TENON_F32, {b.dim(128), b.dim(96)}),
               w = b.input(TENON_F32, {b.dim(96), b.dim(256)});
  const Tensor bias = b.input(TENON_F32, {b.dim(256)});
  const uint32_t last[] = {1}, first[] = {0};
  const Tensor d = b.dot(x, w, {}, {}, last, first);
  const Tensor h = op(b, TENON_S_ADD, {d, b.broadcast(bias, d.dims, last)});
  const Tensor one = b.fill(TENON_F32, d.dims, 1), half = b.fill(TENON_F32, d.dims, 0.5),
               root = b.fill(TENON_F32, d.dims, 0.70710678);
  const Tensor erf = op(b, TENON_S_ERF, {op(b, TENON_S_MUL, {h, root})});
  b.output(op(b, TENON_S_MUL, {op(b, TENON_S_MUL, {h, half}), op(b, TENON_S_ADD, {erf, one})}));
  const Texts t = texts(b, Target::avx512());
  expect_in_order(
      t.levels, {"stage 0 Contract over [i0, i1] reduce [i2]", "s0 = sum(b0[i0, i2] * b1[i2, i1])",
                 "erf(", "schedule contraction {", "tile 6 rows of [i0] x 4 vectors of [i1]",
                 "a direct, b packed", "do stage 0 Pack b", "local0 f32[384]", "do stage 0 Step",
                 "mma 6 rows x 4 vectors of f32x16", "do stage 0 Final"});
  expect_in_order(t.code, {"mma6x4_f32x16(const f32* a0", "extern", "st_f32x16(((f32*)scratch) + ",
                           "l0[384]", "mma6x4_f32x16(", "erf_f32x16("});
}

// Two projections, scores, sums of values and the last projection, as exporters write a
// transformer.
void attention(Builder& b, ExprId positions, ExprId heads, ExprId width) {
  Pool& p = b.pool();
  const ExprId model = p.mul(heads, width);
  const Tensor x = b.input(TENON_F32, {positions, model}),
               v = b.input(TENON_F32, {heads, positions, width});
  const uint32_t zero[] = {0}, one[] = {1}, two[] = {2}, swap[] = {1, 0, 2}, turn[] = {1, 2, 0};
  auto project = [&](const Tensor& t) {
    const Tensor d = b.dot(t, b.constant(TENON_F32, {model, model}), {}, {}, one, zero);
    return op(b, TENON_S_ADD, {d, b.broadcast(b.constant(TENON_F32, {model}), d.dims, one)});
  };
  const Tensor q = b.transpose(b.reshape(project(x), {positions, heads, width}), swap);
  const Tensor k = b.transpose(b.reshape(project(x), {positions, heads, width}), turn);
  const Tensor scale = b.fill(TENON_F32, {heads, positions, positions}, 0.125);
  const Tensor scores = op(b, TENON_S_MUL, {b.dot(q, k, zero, zero, two, one), scale});
  const Tensor sums = b.dot(scores, v, zero, zero, two, one);
  b.output(project(b.reshape(b.transpose(sums, swap), {positions, model})));
}

TEST(Text, HeadsAreViewsOfContractions) {
  Builder b;
  attention(b, b.dim(128), b.dim(12), b.dim(64));
  EXPECT_TRUE(b.ok()) << b.why();
  std::vector<Kernel> kernels = partition(b.take_program(), Target::avx512());
  // q, k, scores, sums, projection: no kernel moves data, no operand computes.
  ASSERT_EQ(kernels.size(), 5u);
  for (const Kernel& k : kernels) {
    ASSERT_EQ(k.stages.size(), 1u);
    EXPECT_EQ(k.stages[0].kind, StageKind::kContract);
    EXPECT_EQ(k.pool.at(k.stages[0].a).kind, X::kLoad);
    EXPECT_EQ(k.pool.at(k.stages[0].b).kind, X::kLoad);
  }
  EXPECT_NE(to_text(kernels[0]).find("= s0 + b2[i1]"), std::string::npos) << to_text(kernels[0]);
  EXPECT_NE(to_text(kernels[2]).find("*64 + i3] * b1[i2, "), std::string::npos)
      << to_text(kernels[2]);
  EXPECT_NE(to_text(kernels[3]).find("b2[i1, i0*64 + i2] = s0"), std::string::npos)
      << to_text(kernels[3]);
}

// An additive mask lies along the keys; without one, no lane is empty along the queries.
TEST(Text, AttentionRunsAlongQueriesUnlessAMaskIsRead) {
  for (const bool masked : {false, true}) {
    Builder b;
    const std::vector<ExprId> dims{b.dim(2), b.dim(8), b.dim(64), b.dim(20)};
    const Tensor q = b.input(TENON_F32, dims), k = b.input(TENON_F32, dims),
                 v = b.input(TENON_F32, dims);
    const Tensor mask = b.input(TENON_F32, {b.dim(64), b.dim(64)});
    b.output(b.attention(q, k, v, 1, [&](ExprId x, std::span<const ExprId> at) {
      return masked ? b.pool().op(TENON_S_ADD, {x, b.load(mask, at.subspan(2))}) : x;
    }));
    ASSERT_TRUE(b.ok()) << b.why();
    const Texts t = texts(b, Target::avx512());
    expect_in_order(t.levels, {masked ? "tile 6 queries x 4 vectors of keys, 2 of values"
                                      : "tile 12 keys x 2 vectors of queries, 10 columns of values",
                               "do stage 0 Pack b", "do stage 0 Step", "do stage 0 Merge"});
  }
}

TEST(Text, AConstantFactorLeavesTheSum) {
  Builder b;
  const Tensor x = b.input(TENON_F32, {b.dim(64), b.dim(96)}),
               w = b.input(TENON_F32, {b.dim(96), b.dim(256)});
  const uint32_t last[] = {1}, first[] = {0};
  b.output(
      b.dot(op(b, TENON_S_MUL, {x, b.fill(TENON_F32, x.dims, 0.125)}), w, {}, {}, last, first));
  const Texts t = texts(b, Target::avx512());
  expect_in_order(t.levels, {"s0 = sum(b0[i0, i2] * b1[i2, i1])", "= 0.125*s0"});
}

TEST(Text, AMaskThatManyRowsReadIsComputedOnce) {
  Builder b;
  const ExprId heads = b.dim(12), n = b.dim(128);
  const Tensor q = b.input(TENON_F32, {heads, n, b.dim(64)}),
               k = b.input(TENON_F32, {heads, n, b.dim(64)});
  const Tensor table = b.input(TENON_F32, {b.dim(512)}), ids = b.input(TENON_I64, {n, n});
  const uint32_t zero[] = {0}, two[] = {2}, inner[] = {1, 2};
  const Tensor scores = b.dot(q, k, zero, zero, two, two);
  const Tensor mask = b.take(table, ids, 0, Builder::Outside::kClip);
  b.output(op(b, TENON_S_ADD, {scores, b.broadcast(mask, scores.dims, inner)}));
  const std::vector<Kernel> kernels = partition(b.take_program(), Target::avx512());
  ASSERT_EQ(kernels.size(), 2u);  // the mask first, then the scores with the mask in their epilogue
  EXPECT_EQ(kernels[0].stages[0].kind, StageKind::kMap);
  EXPECT_EQ(kernels[1].stages[0].kind, StageKind::kContract);
}

TEST(Text, TransposeGoesThroughSquareTiles) {
  Builder b;
  const Tensor x = b.input(TENON_F32, {b.dim(100), b.dim(200)});
  const uint32_t perm[] = {1, 0};
  b.output(b.transpose(x, perm));
  const Texts t = texts(b, Target::avx2());
  expect_in_order(t.levels, {"schedule transpose {", "tiles along", "transpose b0["});
}

// Known to be large: always. Symbolic: the kernel decides. Small, or with rows that begin inside a
// vector: never.
TEST(Text, LargeResultsAreStoredPastTheCaches) {
  auto code = [](const std::function<std::vector<ExprId>(Builder&)>& dims, const Target& target) {
    Builder b;
    const std::vector<ExprId> d = dims(b);
    const uint32_t last[] = {1};
    const Tensor x = b.input(TENON_F32, d);
    b.output(op(b, TENON_S_ADD, {x, b.broadcast(b.input(TENON_F32, {d[1]}), d, last)}));
    return texts(b, target);
  };
  const Texts large =
      code([](Builder& b) { return std::vector{b.dim(8192), b.dim(1024)}; }, Target::avx512());
  expect_in_order(large.levels, {"results past the caches from 33554432 bytes on", "address of",
                                 "stream if", "fence if"});
  expect_in_order(large.code, {"__builtin_nontemporal_store", "extern", "stn_f32x16(",
                               "__builtin_ia32_sfence()"});
  const Texts symbolic =
      code([](Builder& b) { return std::vector{b.extent(), b.extent()}; }, Target::avx2());
  expect_in_order(symbolic.levels, {"33554432", "fence if"});
  for (const auto& [rows, n] : {std::pair{8191, 1024}, std::pair{8192, 1025}}) {
    const Texts none =
        code([&](Builder& b) { return std::vector{b.dim(rows), b.dim(n)}; }, Target::avx512());
    EXPECT_EQ(count(none.code, "sfence"), 0u) << rows;
  }
  const Texts plain =
      code([](Builder& b) { return std::vector{b.dim(8192), b.dim(1024)}; }, Target::generic());
  EXPECT_EQ(count(plain.code, "sfence"), 0u);
}

TEST(Text, ColumnReductionRunsLanesAlongColumns) {
  Builder b;
  const Tensor x = b.input(TENON_F32, {b.dim(100), b.dim(512)});
  const uint32_t first[] = {0};
  b.output(b.reduce(x, first, Fold::kSum));
  const Texts t = texts(b, Target::avx2());
  expect_in_order(t.levels, {"schedule column reduction {", "lanes 8 along i0, unroll 4",
                             "do stage 0 Init", "serial", "do stage 0 Step"});
  EXPECT_EQ(t.code.find("shufflevector"), std::string::npos);
}

// More columns than registers hold: their states are in scratch, and rows are read whole.
TEST(Text, ColumnsOfWideRowsAreSummedLineByLine) {
  Builder b;
  const Tensor x = b.input(TENON_F32, {b.dim(600), b.dim(500)});
  const uint32_t first[] = {0};
  b.output(b.reduce(x, first, Fold::kSum));
  const Texts t = texts(b, Target::avx2());
  expect_in_order(t.levels,
                  {"schedule column reduction {", "lanes 8 along i0, unroll 1",
                   "lines of states in scratch", "store scratch", "serial {", "vector full",
                   "load scratch", "load b0", "store scratch", "do stage 0 Final"});
}

// What is done once per row does not decide along which axis the row is summed.
TEST(Text, AMeanOfRowsRunsAlongThem) {
  Builder b;
  const Tensor x = b.input(TENON_F32, {b.dim(100), b.dim(512)});
  const uint32_t last[] = {1};
  b.output(op(b, TENON_S_SQRT, {b.reduce(x, last, Fold::kSum)}));
  const Texts t = texts(b, Target::avx2());
  expect_in_order(t.levels, {"schedule row reduction {", "do stage 0 Step", "do stage 1 Map"});
}

// Large matrices of few columns are cut into chunks of rows that threads share.
TEST(Text, ColumnsOfTallMatricesAreSummedInChunks) {
  Builder b;
  const Tensor x = b.input(TENON_F32, {b.dim(10007), b.dim(768)});
  const Tensor y = b.input(TENON_F32, {b.dim(10007), b.dim(768)});
  const uint32_t first[] = {0};
  b.output(b.reduce(op(b, TENON_S_MUL, {x, y}), first, Fold::kSum));
  b.output(b.reduce(y, first, Fold::kSum));
  std::vector<Kernel> kernels = partition(b.take_program(), Target::avx512());
  std::string levels, why;
  ASSERT_EQ(kernels.size(), 3u);  // y is read once
  ASSERT_TRUE(explain(kernels[0], Target::avx512(), &levels, &why)) << why;
  // The last chunk has fewer rows, which its loop knows.
  expect_in_order(levels, {"stage 0 Reduce", "stage 1 Reduce", "lines of states in scratch",
                           "= min ", "serial {", "do stage 0 Step", "do stage 1 Step"});
  EXPECT_EQ(levels.find("predx16"), std::string::npos);
}

// The parts of a large concat are plain copies; of a small one, each point asks which part it is
// in.
TEST(Text, PartsOfALargeConcatAreCopiedApart) {
  for (const int64_t rows : {4, 400}) {
    Builder b;
    const Tensor x = b.input(TENON_F32, {b.dim(rows), b.dim(256)}),
                 y = b.input(TENON_F32, {b.dim(rows), b.dim(128)});
    const Tensor parts[] = {x, y};
    b.output(b.concat(parts, 1));
    const std::vector<Kernel> kernels = partition(b.take_program(), Target::avx512());
    ASSERT_EQ(kernels.size(), rows == 400 ? 2u : 1u);
    EXPECT_EQ(to_text(kernels[0]).find("if") == std::string::npos, rows == 400);
  }
}

// A select with 0 would make a load of a whole vector a masked one.
TEST(Text, WhatASelectTakesStaysAWholeLoad) {
  Builder b;
  const Tensor x = b.input(TENON_F32, {b.dim(1000)}), y = b.input(TENON_F32, {b.dim(1000)});
  b.output(b.map(TENON_F32, x.dims, [&](std::span<const ExprId> at) {
    Pool& p = b.pool();
    const ExprId zero = p.number(0, TENON_F32);
    const ExprId positive = p.cmp(TENON_CMP_LT, zero, b.load(x, at));
    return p.op(TENON_S_SELECT, {positive, b.load(y, at), zero});
  }));
  const Texts t = texts(b, Target::avx512());
  expect_in_order(t.code, {"held_f32x16(f32x16 x)", "sel_f32x16(", "held_f32x16(v"});
}

// Element-wise results of the same operands are computed by one kernel.
TEST(Text, ResultsOfTheSameOperandsShareAKernel) {
  Builder b;
  const Tensor x = b.input(TENON_F32, {b.dim(1000)}), y = b.input(TENON_F32, {b.dim(1000)});
  b.output(op(b, TENON_S_MAX, {x, y}));
  b.output(op(b, TENON_S_MUL, {x, y}));
  const Texts t = texts(b, Target::avx2());
  EXPECT_EQ(count(t.levels, "schedule pointwise"), 1u);
  expect_in_order(t.levels, {"do stage 0 Map", "do stage 1 Map"});
}

// The rows of a depthwise strip are within one line and load shared inputs once.
TEST(Text, DepthwiseStripsLieInLines) {
  Builder b;
  const Tensor x = b.input(TENON_F32, {b.dim(1), b.dim(32), b.dim(14), b.dim(14)});
  const Tensor w = b.constant(TENON_F32, {b.dim(32), b.dim(1), b.dim(3), b.dim(3)});
  ConvDims n;
  n.x_spatial = n.w_spatial = n.out_spatial = {2, 3};
  const WindowDim window[] = {{3, 1, 1, 1}, {3, 1, 1, 1}};
  b.output(b.conv(x, w, n, window, 32, x.dims));
  std::string levels, why;
  for (Kernel& k : partition(b.take_program(), Target::avx512())) {
    std::string one;
    ASSERT_TRUE(explain(k, Target::avx512(), &one, &why)) << why;
    levels += one;
  }
  expect_in_order(levels, {"schedule convolution {", "depthwise tile 7 rows x 2 vectors",
                           ", runs of i", "depthwise taps", " in runs of 3 by 1"});
}

// Bytes minus a zero point: quads of channels, or channels side by side; what quantises the sums
// bounds and narrows each vector by single instructions. Text only, so any processor will do.
TEST(Text, BytesStayBytes) {
  for (const int64_t groups : {1, 16}) {
    Builder b;
    const Target target = Target::avx512_bf16();
    const Tensor x = b.input(TENON_U8, {b.dim(1), b.dim(16), b.dim(14), b.dim(14)});
    const Tensor w = b.constant(TENON_I8, {b.dim(16), b.dim(16 / groups), b.dim(3), b.dim(3)});
    const Tensor zero = b.fill(TENON_I16, x.dims, 131);
    ConvDims n;
    n.x_spatial = n.w_spatial = n.out_spatial = {2, 3};
    const WindowDim window[] = {{3, 1, 1, 1}, {3, 1, 1, 1}};
    const Tensor sums =
        b.conv(op(b, TENON_S_SUB, {b.convert(x, TENON_I16), zero}), b.convert(w, TENON_I16), n,
               window, groups, x.dims, TENON_DTYPE_NONE, TENON_I32);
    const auto number = [&](double v) { return b.fill(TENON_F32, x.dims, v); };
    const Tensor real = op(b, TENON_S_MUL, {b.convert(sums, TENON_F32), number(0.01)});
    const Tensor least = op(b, TENON_S_MAX, {real, number(0)});
    b.output(b.convert(op(b, TENON_S_MIN, {least, number(255)}), TENON_U8));
    ASSERT_TRUE(b.ok()) << b.why();
    Kernel program = b.take_program();
    move_to_load(program, target);
    Module m;
    std::string why;
    std::vector<Kernel> kernels = partition(program, target);
    ASSERT_TRUE(generate(kernels, target, &m, &why)) << why;
    EXPECT_EQ(m.text.find("vpdpbusd512") != std::string::npos, groups == 1) << m.text;
    EXPECT_EQ(m.text.find("1_u8_u32x16(") != std::string::npos, groups == 16) << m.text;
    EXPECT_EQ(m.text.find("pmaddwd"), std::string::npos) << "no pairs of i16";
    expect_in_order(m.text, {"max0_f32x16(v", "minc_f32x16(v", "narrow_f32_u8x16(v"});
  }
}

// The largest few of many points are kept while looking at each once.
TEST(Text, FewOfManyAreSelected) {
  Builder b;
  const Tensor x = b.input(TENON_F32, {b.dim(50257)});
  const int64_t descending[] = {1};
  for (const Tensor& t : b.sort({&x, 1}, 0, 1, descending, b.dim(50), TENON_I64)) b.output(t);
  const std::string code = texts(b, Target::avx512()).code;
  EXPECT_NE(code.find("select_u32("), std::string::npos) << code;
  EXPECT_EQ(code.find("sort_u32("), std::string::npos) << code;
}

// Two convolutions in NCHW order: reordered only at the boundaries, weights in panels, relu on the
// tile.
TEST(Text, ConvolutionsAreChannelsLastBetweenTheEdges) {
  Builder b;
  const Tensor x = b.input(TENON_F32, {b.dim(1), b.dim(16), b.dim(28), b.dim(28)});
  const Tensor w = b.constant(TENON_F32, {b.dim(16), b.dim(16), b.dim(3), b.dim(3)});
  ConvDims n;
  n.x_spatial = n.w_spatial = n.out_spatial = {2, 3};
  const WindowDim window[] = {{3, 1, 1, 1}, {3, 1, 1, 1}};
  const Tensor y = b.conv(x, w, n, window, 1, x.dims);
  const Tensor z = op(b, TENON_S_MAX, {y, b.fill(TENON_F32, y.dims, 0)});
  b.output(b.conv(z, w, n, window, 1, x.dims));
  const Target target = Target::avx512();
  std::vector<Kernel> kernels = partition(b.take_program(), target);
  std::string levels, why;
  for (Kernel& k : kernels) {
    std::string one;
    ASSERT_TRUE(explain(k, target, &one, &why)) << why;
    levels += one;
  }
  EXPECT_EQ(count(levels, "schedule convolution {"), 2u) << levels;
  EXPECT_EQ(count(levels, "Contract over"), 2u);
  EXPECT_EQ(count(levels, "Map over"), 4u) << "two edges and two packs of weights\n" << levels;
  expect_in_order(levels, {"strides [12544, 1, 448, 16] out", "Contract over", "max(",
                           "schedule convolution {", "rows x 1 vectors", "panels all",
                           "do stage 0 Pack zeros", "do stage 0 Pack addresses", "do stage 0 Step",
                           "mma taps", "do stage 0 Final", "schedule convolution {", "schedule "});
}

TEST(Text, OpenClIsScalarsAndOneItemPerRow) {
  Builder b;
  softmax(b, b.extent(), b.extent());
  const Texts t = texts(b, Target::opencl(true));
  expect_in_order(t.code, {"__kernel void k_", "__global const f32* b0", "__global f32* b3",
                           "i64 n0", "get_global_id(0)", "exp_f32("});
  EXPECT_EQ(t.code.find("f32x"), std::string::npos);
  EXPECT_EQ(t.code.find("barrier"), std::string::npos);
}

// One row per group: partial results are combined in shared memory, passes are separated by
// barriers, and one item stores what all have.
TEST(Text, OpenClGroupsShareRows) {
  Builder b;
  softmax(b, b.extent(), b.extent());
  const Texts t = texts(b, Target::opencl(true, 64));
  expect_in_order(
      t.levels, {"groups of 64 work together", "group of 64", "shared0 f32[64]", "do stage 1 Init",
                 "lanes {", "do stage 0 Map", "do stage 1 Step", "do stage 1 Merge", "halving {",
                 "barrier", "if ", "shared0[", "barrier of all memory", "do stage 3 Merge"});
  expect_in_order(t.code, {"reqd_work_group_size(64, 1, 1)", "__local f32 s0[64];",
                           "get_group_id(0)", "get_local_id(0)", "barrier(", "/= 2"});
}

// Results are halved within warps; shared memory has one for each warp.
TEST(Text, CudaWarpsShareRows) {
  Builder b;
  softmax(b, b.extent(), b.extent());
  const Texts t = texts(b, Target::cuda(64));
  expect_in_order(t.levels, {"groups of 64 work together, in warps of 32", "shared0 f32[2]",
                             "do stage 1 Merge", "of the lane 16 further on",
                             "of the lane 1 further on", "shared0[", "barrier", "shared0["});
  EXPECT_EQ(t.levels.find("halving"), std::string::npos);
  expect_in_order(t.code, {"#define KERNEL extern \"C\"", "KERNEL __attribute__((GROUP_OF(64)))",
                           "const f32* b0", "SHARED f32 s0[2];", "group_id()", "local_id()",
                           "from_lane(", ", 16)", "meet();"});
  for (const char* word : {"__kernel", "__global", "barrier(", "get_local_id"})
    EXPECT_EQ(t.code.find(word), std::string::npos) << word;
}

TEST(Text, CudaOfOneWarpNeedsNoSharedMemory) {
  Builder b;
  softmax(b, b.extent(), b.extent());
  const Texts t = texts(b, Target::cuda(32));
  expect_in_order(t.levels, {"in warps of 32", "of the first lane of the warp"});
  EXPECT_EQ(t.code.find("SHARED f32 s"), std::string::npos);
}

// The same loop tree with AMD's builtins, and warps as wide as the target's.
TEST(Text, HipWarpsAreOfTheTarget) {
  Builder b;
  softmax(b, b.extent(), b.extent());
  const Texts t = texts(b, Target::hip(64, 128));
  expect_in_order(t.levels, {"groups of 128 work together, in warps of 64", "shared0 f32[2]",
                             "of the lane 32 further on"});
  expect_in_order(t.code, {"__builtin_amdgcn_ds_bpermute", "KERNEL __attribute__((GROUP_OF(128)))",
                           "SHARED f32 s0[2];", "from_lane(", ", 32)", "meet();"});
  EXPECT_EQ(t.code.find("__nvvm"), std::string::npos);
}

// Neighbours of rows that are whole, in one load and one store; each item has every 1024th quad.
TEST(Text, ItemsLoadNeighboursOfRowsAtOnce) {
  Builder b;
  softmax(b, b.extent(), b.dim(768));
  const Texts t = texts(b, Target::cuda(256));
  expect_in_order(t.levels, {"4 neighbours at once", "lanes {", "do stage 0 Map", "load b0[",
                             "lane 1 of ", "do stage 1 Step", "join ", "store b"});
  expect_in_order(t.code, {"VECTOR(f32, 4, f32x4);", "local_id() * 4", " += 1024",
                           "= *((const f32x4*)(b0 + ", ".y;", "f32x4 v", "*((f32x4*)(b"});
}

TEST(Text, RowsThatAreNotWholeAreLoadedOneByOne) {
  Builder b;
  softmax(b, b.extent(), b.dim(767));
  const Texts t = texts(b, Target::cuda(256));
  EXPECT_EQ(t.code.find("f32x4"), std::string::npos);
}

// What begins one element further on is not aligned, and is loaded alone; the result is.
TEST(Text, ItemsStoreNeighboursOfMapsAtOnce) {
  for (const Target& target :
       {Target::cuda(), Target::hip(64), Target::metal(), Target::opencl(false, 64)}) {
    Builder b;
    const Tensor x = b.input(TENON_F32, {b.dim(64), b.dim(260)}),
                 y = b.input(TENON_F32, {b.dim(64), b.dim(256)});
    const ExprId start[] = {b.dim(0), b.dim(1)};
    const int64_t step[] = {1, 1};
    b.output(op(b, TENON_S_ADD, {b.slice(x, start, step, y.dims), y}));
    const Texts t = texts(b, target);
    EXPECT_EQ(count(t.code, "f32x4*)(b"), 2u) << t.code;
    EXPECT_EQ(count(t.code, "= *(b1 + "), 4u) << t.code;
  }
}

// Metal's pointers name their space, and its arguments their place.
TEST(Text, MetalNamesSpacesAndPlaces) {
  Builder b;
  softmax(b, b.extent(), b.extent());
  const Texts t = texts(b, Target::metal(64));
  expect_in_order(
      t.code, {"#include <metal_stdlib>", "[[kernel, max_total_threads_per_threadgroup(64)]] void",
               "device const f32* b0 [[buffer(0)]]", "constant i64& n0 [[buffer(",
               "[[thread_position_in_threadgroup]]", "threadgroup f32 s0[2];", "from_lane("});
  for (const char* word : {"double", "__global", "SHARED", "get_local_id"})
    EXPECT_EQ(t.code.find(word), std::string::npos) << word;
}

// A matrix product is a tile of registers over a tile in shared memory.
TEST(Text, OpenClGroupsShareTiles) {
  Builder b;
  const Tensor x = b.input(TENON_F32, {b.dim(200), b.dim(100)}),
               y = b.input(TENON_F32, {b.dim(100), b.dim(300)});
  const uint32_t ka[] = {1}, kb[] = {0};
  b.output(b.dot(x, y, {}, {}, ka, kb));
  const Texts t = texts(b, Target::opencl(true, 256));
  expect_in_order(t.levels,
                  {"schedule contraction {", "groups of 256 work together", "tile 4 rows",
                   "4 vectors", "16 items wide, 16 steps deep", "group of 256", "shared0 f32[1056]",
                   "shared1 f32[1024]", "do stage 0 Fill a", "do stage 0 Fill b", "barrier",
                   "do stage 0 Step", "barrier", "do stage 0 Final"});
}

// Both operands are copied into the tile by loads of 16 bytes, wherever their memory is contiguous:
// along the sum into four lines, along the columns by one store.
TEST(Text, GroupsFillTilesWithNeighbours) {
  for (const Target& target :
       {Target::cuda(), Target::hip(64), Target::metal(), Target::opencl(false, 256)}) {
    for (const int64_t columns : {300, 299}) {
      Builder b;
      const Tensor x = b.input(TENON_F32, {b.dim(200), b.dim(100)}),
                   y = b.input(TENON_F32, {b.dim(100), b.dim(columns)});
      const uint32_t ka[] = {1}, kb[] = {0};
      b.output(b.dot(x, y, {}, {}, ka, kb));
      const Texts t = texts(b, target);
      EXPECT_EQ(count(t.code, "f32x4*)(b0 + "), 1u) << t.code;
      EXPECT_EQ(count(t.code, "f32x4*)(b1 + "), columns == 300 ? 1u : 0u) << t.code;
      // Metal's compiler joins stores to shared memory.
      const uint32_t stores = columns == 300 && target.dialect != Dialect::kMetal ? 1 : 0;
      EXPECT_EQ(count(t.code, "f32x4*)(s1 + "), stores) << t.code;
      EXPECT_EQ(count(t.code, "__attribute__((aligned(16)))"), stores) << t.code;
    }
  }
}

// A vector times a matrix: the items of a group run along the sum, so a matrix that is known at
// load is turned over once; f16 stays f16. One that a run provides is read as it is.
TEST(Text, MatricesOfVectorsAreTurnedAtLoad) {
  for (const bool known : {true, false}) {
    Builder b;
    const std::vector<ExprId> dims = {b.dim(512), b.dim(24)};
    const Tensor x = b.input(TENON_F32, {b.dim(1), b.dim(512)}),
                 y = known ? b.constant(TENON_F16, dims) : b.input(TENON_F16, dims);
    const uint32_t ka[] = {1}, kb[] = {0};
    b.output(b.dot(x, b.convert(y, TENON_F32), {}, {}, ka, kb));
    Kernel program = b.take_program();
    move_to_load(program, Target::cuda());
    std::vector<Kernel> kernels = split(std::move(program), Target::cuda());
    ASSERT_EQ(kernels.size(), known ? 2u : 1u);
    std::string text, why;
    ASSERT_TRUE(explain(kernels.back(), Target::cuda(), &text, &why)) << why;
    EXPECT_EQ(text.find("f16x4") != std::string::npos, known) << text;
    EXPECT_EQ(text.find("f16[24, 512, 1]") != std::string::npos, known) << text;
  }
}

size_t asked_at_once(const Target& target, bool sum) {
  Builder b;
  const std::vector<ExprId> square = {b.dim(96), b.dim(96)};
  const Tensor x = b.input(TENON_F32, square), y = b.input(TENON_F32, square);
  const uint32_t ka[] = {1}, kb[] = {0};
  const Tensor product = sum ? b.dot(x, y, {}, {}, ka, kb) : op(b, TENON_S_MUL, {x, y});
  b.output(sum ? product : op(b, TENON_S_ADD, {product, b.input(TENON_F32, square)}));
  const std::string code = texts(b, target).code;
  // A target without the instruction has no other way to round once.
  if (!target.fma) EXPECT_EQ(code.find("elementwise_fma"), std::string::npos) << code;
  return count(code, "mad_f32");
}

// A product and a sum are rounded once in sums of products, and nowhere else.
TEST(Text, OnlySumsOfProductsAreRoundedOnce) {
  for (const Target& target :
       {Target::avx512(), Target::avx2(), Target::baseline(), Target::neon(), Target::scalar(),
        Target::opencl(true, 64), Target::cuda(), Target::hip(64), Target::metal()}) {
    SCOPED_TRACE(target.isa);
    EXPECT_GE(asked_at_once(target, true), 2u);
    EXPECT_EQ(asked_at_once(target, false), 0u);
  }
}

TEST(Text, CompilersAreToldNotToContract) {
  for (const auto& [target, pragma] :
       {std::pair{Target::opencl(true), "#pragma OPENCL FP_CONTRACT OFF\n"},
        std::pair{Target::metal(), "#pragma METAL fp contract(off)\n"}}) {
    Builder b;
    softmax(b, b.extent(), b.extent());
    EXPECT_EQ(count(texts(b, target).code, pragma), 1u);
  }
}

// Each step uses the previous one twice: 64 shared expressions, but 2^64 nodes as a tree. Every
// walk must visit each expression once.
Tensor chained(Builder& b, Tensor x, uint32_t step, int length) {
  for (int i = 0; i < length; ++i) {
    switch (step) {
      case 0:
        x = op(b, TENON_S_ADD, {x, x});
        break;
      case 1:
        x = op(b, TENON_S_MUL, {x, x});
        break;
      case 2:
        x = op(b, TENON_S_MAX, {op(b, TENON_S_NEG, {x}), x});
        break;
      case 3:
        x = op(b, TENON_S_ADD, {op(b, TENON_S_MAX, {op(b, TENON_S_NEG, {x}), x}), x});
        break;
      case 4:
        x = op(b, TENON_S_MIN, {op(b, TENON_S_MUL, {x, x}), x});
        break;
      default:
        x = op(b, TENON_S_SUB, {op(b, TENON_S_DIV, {x, op(b, TENON_S_ADD, {x, x})}), x});
    }
  }
  return x;
}
constexpr uint32_t kChains = 6;

void expect_short(Builder& b, const Target& target, const std::string& what) {
  ASSERT_TRUE(b.ok()) << what << ": " << b.why();
  std::vector<Kernel> kernels = partition(b.take_program(), target);
  Module m;
  std::string why, levels;
  for (Kernel& k : kernels) {
    EXPECT_LT(to_text(k).size(), 100'000u) << what;
    ASSERT_TRUE(explain(k, target, &levels, &why)) << what << ": " << why;
    EXPECT_LT(levels.size(), 300'000u) << what;
  }
  ASSERT_TRUE(generate(kernels, target, &m, &why)) << what << ": " << why;
  EXPECT_LT(m.text.size(), 300'000u) << what;
}

TEST(Shared, ChainsOfEveryTypeAreLinear) {
  for (const Target& target : {Target::avx512(), Target::opencl(true, 64)}) {
    for (DType type : {TENON_F32, TENON_I32, TENON_I64}) {
      for (uint32_t step = 0; step < kChains; ++step) {
        Builder b;
        b.output(chained(b, b.input(type, {b.dim(64)}), step, 64));
        expect_short(b, target, "type " + std::to_string(type) + ", chain " + std::to_string(step));
      }
    }
  }
}

// As positions in a tensor, and computed from positions, where index arithmetic is simplified.
TEST(Shared, ChainsOfIndicesAreLinear) {
  for (const Target& target : {Target::avx512(), Target::opencl(true, 64)}) {
    for (bool data : {true, false}) {
      for (uint32_t step = 0; step < kChains; ++step) {
        Builder b;
        const Tensor start =
            data ? b.input(TENON_I64, {b.dim(64)}) : b.iota(TENON_I64, {b.dim(64)}, 0);
        b.output(b.take(b.input(TENON_F32, {b.dim(100)}), chained(b, start, step, 64), 0,
                        Builder::Outside::kClip));
        expect_short(b, target,
                     std::string(data ? "data" : "positions") + ", chain " + std::to_string(step));
      }
    }
  }
}

TEST(Shared, LargeExpressionsNameWhatTheyShare) {
  Builder b;
  b.output(chained(b, b.input(TENON_F32, {b.dim(8)}), 1, 12));
  const std::string text = to_text(partition(b.take_program(), Target::avx512())[0]);
  expect_in_order(text, {"t0 = b0[i0]", "t1 = t0*t0", "t2 = t1*t1", "= t11*t11"});
  Builder small;
  small.output(chained(small, small.input(TENON_F32, {small.dim(8)}), 1, 2));
  expect_in_order(to_text(partition(small.take_program(), Target::avx512())[0]),
                  {"= b0[i0]*b0[i0]*b0[i0]*b0[i0]"});
}

TEST(Refusals, SayWhatAndWhy) {
  Builder b;
  EXPECT_FALSE(b.input(TENON_C64, {b.dim(2)}).valid());
  EXPECT_EQ(b.why(), "kernelgen has no elements of type c64");
  Builder c;
  const Tensor x = c.input(TENON_F32, {c.dim(2)}), y = c.input(TENON_I32, {c.dim(2)});
  const uint32_t program[] = {TENON_SCALAR_WORD(TENON_S_ARG, 0), TENON_SCALAR_WORD(TENON_S_ARG, 1),
                              TENON_SCALAR_WORD(TENON_S_ADD, 0)};
  const Tensor in[] = {x, y};
  const DType t[] = {TENON_F32};
  EXPECT_FALSE(c.map(program, in, {}, t)[0].valid());
  EXPECT_EQ(c.why(), "scalar program: add of f32 and i32");
}

TEST(Index, SmallPowersAreProducts) {
  Pool p;
  const ExprId x = p.load(0, TENON_F32, {}), three = p.number(3, TENON_F32);
  EXPECT_EQ(p.text(p.op(TENON_S_POW, {x, three})), "b0[]*b0[]*b0[]");
  EXPECT_EQ(p.op(TENON_S_POW, {x, p.number(1, TENON_F32)}), x);
  EXPECT_EQ(p.at(p.op(TENON_S_POW, {x, p.number(2.5, TENON_F32)})).op, TENON_S_POW);
}

TEST(Index, ReshapesAndPadsFoldToPlainIndices) {
  Pool p;
  const ExprId n = p.extent(p.add_extent({}));
  const uint32_t i = p.add_axis(n), j = p.add_axis(p.integer(12));
  const ExprId linear = p.add(p.mul(p.axis(i), p.integer(12)), p.axis(j));
  EXPECT_EQ(p.floordiv(linear, p.integer(12)), p.axis(i));
  EXPECT_EQ(p.mod(linear, p.integer(12)), p.axis(j));
  EXPECT_EQ(p.text(p.floordiv(linear, p.integer(4))), "i0*3 + (i1 // 4)");
  // Symbolic: (j * n + i) / n with i < n.
  const ExprId symbolic = p.add(p.mul(p.axis(j), n), p.axis(i));
  EXPECT_EQ(p.floordiv(symbolic, n), p.axis(j));
  EXPECT_EQ(p.mod(symbolic, n), p.axis(i));
  // Split and joined.
  const uint32_t a = p.add_axis(p.integer(768));
  const ExprId x = p.axis(a), c = p.integer(64);
  EXPECT_EQ(p.add(p.mul(p.floordiv(x, c), c), p.mod(x, c)), x);
  EXPECT_EQ(p.add(p.mul(p.floordiv(x, c), p.integer(640)), p.mul(p.mod(x, c), p.integer(10))),
            p.mul(x, p.integer(10)));
  EXPECT_EQ(p.cmp(TENON_CMP_LT, p.axis(i), n), p.boolean(true));
  EXPECT_EQ(p.cmp(TENON_CMP_GE, p.axis(j), p.integer(12)), p.boolean(false));
}

TEST(TextExecutable, TimesOfADeviceMoveToTheHostsClock) {
  for (const uint64_t device_ns : {uint64_t{100}, uint64_t{1} << 62}) {
    KernelTime times[] = {{device_ns, device_ns + 20},
                          {device_ns + 30, device_ns + 70},
                          {device_ns + 25, device_ns + 50}};
    move_to_host_clock(times, 5000);
    EXPECT_EQ(times[1].end_ns, 5000u);
    EXPECT_EQ(times[1].begin_ns, 4960u);
    EXPECT_EQ(times[0].begin_ns, 4930u);
    EXPECT_EQ(times[2].end_ns, 4980u);
  }
  move_to_host_clock({}, 5000);
}

}  // namespace
}  // namespace tenon::kernelgen
