// Contractions compared with the meaning of the stage IR, on every instruction set of this machine:
// packed and unpacked weights, few and many rows, odd sizes, fused producers and results; and the
// decisions of pack_constants.
#include <gtest/gtest.h>

#include <array>

#include <random>

#include "tenon/kernelgen/fuse/pack.h"
#include "tenon/kernelgen/testing/test_values.h"

namespace tenon::kernelgen {
namespace {

using testing::Data;
using testing::op;

std::vector<Target> targets() {
  std::vector<Target> all = testing::all_targets();
  for (const Target& t : {Target::avx2_vnni(), Target::avx512_vnni(), Target::avx512_bf16()}) {
    if (testing::machine_has(t)) all.insert(all.begin(), t);
  }
  return testing::in_this_run(all);
}

struct Values {
  bool odd = false;  // NaN and infinities among the inputs
  double tolerance = 2e-5;
};

// A program for one target: compiled once, run at several sizes.
class Checked {
 public:
  Checked(const Kernel& program, const Target& target)
      : program_(program), moved_(program), target_(target) {
    move_to_load(moved_, target);
    EXPECT_TRUE(verify(moved_, &session_.why)) << session_.why;
    built_ = session_.build(moved_, target, {});
    EXPECT_TRUE(built_) << session_.why << "\n" << session_.module.text;
  }

  void run(std::vector<int64_t> ext, const Values& values) {
    if (!built_) return;
    session_.ext = ext;
    std::vector<Data> input;
    std::vector<std::vector<double>> meaning;
    std::mt19937 rng(11);
    for (uint32_t b = 0; b < moved_.buffers.size(); ++b) {
      const Buffer& x = moved_.buffers[b];
      int64_t n = 1;
      for (ExprId d : x.dims) n *= moved_.pool.evaluate(d, ext);
      Data data(x.type, static_cast<size_t>(n));
      const bool given = x.role == Role::kIn || x.role == Role::kConstant;
      for (size_t i = 0; given && i < data.size(); ++i)
        data.set(i, is_integer(x.type) && size_of(x.type) == 1
                        ? testing::draw_byte(rng, x.type)
                        : testing::draw(rng, values.odd ? 29 : 0));
      meaning.emplace_back();
      for (size_t i = 0; i < data.size(); ++i) meaning.back().push_back(data.get(i));
      input.push_back(std::move(data));
    }
    testing::Oracle(program_, ext, &meaning).run();
    for (int64_t pieces : {1, 3}) {
      std::vector<Data> memory = input;
      session_.run(&memory, pieces);
      for (uint32_t b = 0; b < program_.buffers.size(); ++b) {
        if (program_.buffers[b].role == Role::kOut)
          testing::compare(memory[b], meaning[b], values.tolerance, b);
      }
    }
  }

  const Kernel& moved() const { return moved_; }
  const std::string& text() const { return session_.module.text; }

 private:
  Kernel program_, moved_;
  Target target_;
  testing::Session session_;
  bool built_ = false;
};

Tensor linear(Builder& b, const Tensor& x, const Tensor& w, bool transposed) {
  const uint32_t sum_a[] = {static_cast<uint32_t>(x.rank() - 1)}, sum_b[] = {transposed ? 1u : 0u};
  return b.dot(x, w, {}, {}, sum_a, sum_b);
}

// Weights [n][k] or [k][n], constants or inputs. The number of rows is known only at run time: one
// kernel serves all.
void linear_layers(DType type, bool constant, const Values& values,
                   std::initializer_list<int64_t> rows) {
  for (const Target& target : targets()) {
    if (target.byte_quads && type != TENON_BF16) continue;  // same code as without
    if (target.byte_quads && !target.bf16) continue;
    if (type != TENON_F32 && type != TENON_BF16 && target.isa == "baseline")
      continue;  // same code as avx2, with fewer lanes
    SCOPED_TRACE(target.isa);
    Builder b;
    const ExprId m = b.extent();
    bool transposed = false;
    std::vector<std::pair<int64_t, int64_t>> sizes = {{77, 31}, {16, 16}, {7, 3}};
    if (type == TENON_F32 && !values.odd)
      sizes.insert(sizes.end(),
                   {{1, 5}, {33, 7}, {64, 64}, {130, 40}, {96, 1}, {5, 64}, {0, 4}, {4, 0}});
    for (auto [n, k] : sizes) {
      const Tensor x = b.input(type, {m, b.dim(k)});
      const std::vector<ExprId> dims =
          transposed ? std::vector{b.dim(n), b.dim(k)} : std::vector{b.dim(k), b.dim(n)};
      b.output(linear(b, x, constant ? b.constant(type, dims) : b.input(type, dims), transposed));
      transposed = !transposed;
    }
    ASSERT_TRUE(b.ok()) << b.why();
    Checked checked(b.take_program(), target);
    for (int64_t count : rows) {
      SCOPED_TRACE(count);
      checked.run({count}, values);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Contraction, PackedWeightsServeEveryNumberOfRows) {
  linear_layers(TENON_F32, true, {}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 77});
}
TEST(Contraction, WeightsOfARunServeEveryNumberOfRows) {
  linear_layers(TENON_F32, false, {}, {0, 1, 2, 5, 7, 77});
}
TEST(Contraction, PackedDoubles) {
  linear_layers(TENON_F64, true, {false, 1e-13}, {1, 9});
}
TEST(Contraction, PackedHalves) {
  linear_layers(TENON_F16, true, {false, 2e-3}, {1, 9});
}
TEST(Contraction, PackedBf16) {
  linear_layers(TENON_BF16, true, {false, 1e-2}, {1, 9});
}
TEST(Contraction, Bf16NanAndInfinitiesPropagate) {
  linear_layers(TENON_BF16, true, {true, 1e-2}, {7});
}
TEST(Contraction, PackedIntegersAreExact) {
  linear_layers(TENON_I32, true, {false, 0}, {3, 8});
}
TEST(Contraction, NanAndInfinitiesPropagate) {
  linear_layers(TENON_F32, true, {true}, {1, 6, 9});
}

// Known numbers of rows, each with its own tiles; bias and relu in the epilogue, a sum before a.
TEST(Contraction, KnownRowsWithProducersAndEpilogues) {
  for (const Target& target : targets()) {
    SCOPED_TRACE(target.isa);
    Builder b;
    for (int64_t m : {1, 2, 3, 5, 6, 7, 8, 20}) {
      const Tensor x = b.input(TENON_F32, {b.dim(m), b.dim(19)}),
                   y = b.input(TENON_F32, {b.dim(m), b.dim(19)});
      const Tensor w = b.constant(TENON_F32, {b.dim(45), b.dim(19)}),
                   bias = b.constant(TENON_F32, {b.dim(45)});
      const uint32_t at[] = {1};
      const Tensor d = linear(b, m % 2 ? op(b, TENON_S_ADD, {x, y}) : x, w, true);
      b.output(op(b, TENON_S_TANH, {op(b, TENON_S_ADD, {d, b.broadcast(bias, d.dims, at)})}));
    }
    ASSERT_TRUE(b.ok()) << b.why();
    Checked(b.take_program(), target).run({}, {});
  }
}

// Batches in both operands, two summed dims, weights that are scaled and converted at load, weights
// on the left.
TEST(Contraction, BatchesSumsOfTwoDimsAndComputedWeights) {
  for (const Target& target : targets()) {
    SCOPED_TRACE(target.isa);
    Builder b;
    const uint32_t zero[] = {0}, one[] = {1}, two[] = {2};
    const Tensor q = b.input(TENON_F32, {b.dim(3), b.dim(9), b.dim(20)});
    b.output(
        b.dot(q, b.constant(TENON_F32, {b.dim(3), b.dim(20), b.dim(37)}), zero, zero, two, one));
    b.output(b.dot(q, b.input(TENON_F32, {b.dim(3), b.dim(37), b.dim(20)}), zero, zero, two, two));
    const uint32_t heads[] = {1, 2}, both[] = {0, 1};
    b.output(
        b.dot(q, b.constant(TENON_F32, {b.dim(9), b.dim(20), b.dim(50)}), {}, {}, heads, both));
    const Tensor w = b.constant(TENON_F32, {b.dim(20), b.dim(40)}),
                 s = b.constant(TENON_F32, {b.dim(40)});
    const Tensor scaled = op(b, TENON_S_MUL, {w, b.broadcast(s, w.dims, one)});
    b.output(b.dot(q, scaled, {}, {}, two, zero));
    // Here the constant owns the rows: nothing is packed.
    b.output(b.dot(w, b.input(TENON_F32, {b.dim(20), b.dim(70)}), {}, {}, zero, zero));
    ASSERT_TRUE(b.ok()) << b.why();
    Checked(b.take_program(), target).run({}, {});
  }
}

// x^T y, as in gradients of weights: rows lie across memory, so a block of rows and steps is
// gathered.
Tensor turned_product(Builder& b, ExprId steps, ExprId rows, ExprId columns) {
  const uint32_t zero[] = {0};
  return b.dot(b.input(TENON_F32, {steps, rows}), b.input(TENON_F32, {steps, columns}), {}, {},
               zero, zero);
}

TEST(Contraction, RowsAcrossMemoryAreGathered) {
  for (const Target& target : targets()) {
    SCOPED_TRACE(target.isa);
    Builder b;
    for (const auto& [k, m, n] : std::initializer_list<std::array<int64_t, 3>>{{64, 16, 16},
                                                                               {70, 100, 33},
                                                                               {256, 50, 70},
                                                                               {300, 61, 200},
                                                                               {777, 20, 17},
                                                                               {513, 64, 64}})
      b.output(op(b, TENON_S_TANH, {turned_product(b, b.dim(k), b.dim(m), b.dim(n))}));
    const uint32_t zero[] = {0}, one[] = {1};
    const Tensor x = b.input(TENON_F32, {b.dim(2), b.dim(130), b.dim(40)});
    b.output(b.dot(x, b.input(TENON_F32, {b.dim(2), b.dim(130), b.dim(24)}), zero, zero, one, one));
    ASSERT_TRUE(b.ok()) << b.why();
    Checked checked(b.take_program(), target);
    checked.run({}, {false, 1e-4});
    if (target.vector_bytes > 0) EXPECT_NE(checked.text().find("Gather a"), std::string::npos);
  }
}

// Every combination of sizes: also none, fewer than lanes, and just behind a block.
TEST(Contraction, GatheredRowsOfAnySize) {
  for (const Target& target : targets()) {
    SCOPED_TRACE(target.isa);
    Builder b;
    const ExprId k = b.extent(), m = b.extent(), n = b.extent();
    b.output(turned_product(b, k, m, b.dim(40)));
    b.output(turned_product(b, b.dim(90), m, n));
    b.output(turned_product(b, b.dim(300), b.dim(33), n));
    b.output(turned_product(b, k, b.dim(33), b.dim(40)));
    ASSERT_TRUE(b.ok()) << b.why();
    Checked checked(b.take_program(), target);
    for (const int64_t steps : {0, 1, 15, 257, 600}) {
      for (const int64_t size : {0, 1, 7, 16, 49})
        checked.run({steps, size, 50 - size}, {false, 1e-4});
    }
  }
}

// Long sums of rows along memory are cut into blocks, too; NaN and infinities come through.
TEST(Contraction, LongSumsAreCutIntoBlocks) {
  for (const Target& target : targets()) {
    SCOPED_TRACE(target.isa);
    for (const bool odd : {false, true}) {
      Builder b;
      for (const int64_t k : {2048, 2305}) {
        const Tensor x = b.input(TENON_F32, {b.dim(14), b.dim(k)});
        b.output(linear(b, x, b.input(TENON_F32, {b.dim(k), b.dim(20)}), false));
        b.output(linear(b, x, b.input(TENON_F32, {b.dim(20), b.dim(k)}), true));
        b.output(turned_product(b, b.dim(k), b.dim(20), b.dim(24)));
      }
      ASSERT_TRUE(b.ok()) << b.why();
      Checked(b.take_program(), target).run({}, {odd, 5e-4});
    }
  }
}

TEST(PackConstants, LinearWeightsBecomePanelsOfTheTilesWidth) {
  Builder b;
  const Tensor x = b.input(TENON_F32, {b.extent(), b.dim(32)});
  b.output(linear(b, x, b.constant(TENON_F32, {b.dim(100), b.dim(32)}), true));
  Kernel program = b.take_program();
  move_to_load(program, Target::avx512());
  const std::string text = to_text(program);
  EXPECT_NE(text.find("f32[2, 32, 64] strides [2048, 64, 1] persistent panels of 64"),
            std::string::npos)
      << text;
  std::vector<Kernel> kernels = partition(program, Target::avx512());
  ASSERT_EQ(kernels.size(), 2u);
  std::string levels, why;
  ASSERT_TRUE(explain(kernels[1], Target::avx512(), &levels, &why)) << why;
  EXPECT_NE(levels.find("b in panels since load"), std::string::npos) << levels;
  EXPECT_NE(levels.find("tile 6 rows"), std::string::npos) << levels;
}

// Products of bf16 stay in pairs where the CPU multiplies pairs. Sums over two dims and odd sums
// number the pairs in order.
TEST(PackConstants, Bf16StaysInPairs) {
  for (const Target& target : targets()) {
    SCOPED_TRACE(target.isa);
    Builder b;
    const uint32_t heads[] = {1, 2}, both[] = {0, 1};
    const Tensor x = b.input(TENON_BF16, {b.dim(9), b.dim(5), b.dim(7)});
    b.output(
        b.dot(x, b.constant(TENON_BF16, {b.dim(5), b.dim(7), b.dim(50)}), {}, {}, heads, both));
    const Tensor y = b.input(TENON_BF16, {b.dim(9), b.dim(24)});
    b.output(
        op(b, TENON_S_TANH, {linear(b, y, b.constant(TENON_BF16, {b.dim(24), b.dim(64)}), false)}));
    Checked checked(b.take_program(), target);
    checked.run({}, {false, 1e-2});
    EXPECT_EQ(to_text(checked.moved()).find("bf16[1, 12, 64, 2]") != std::string::npos,
              target.bf16);
    EXPECT_EQ(checked.text().find("dpbf16ps") != std::string::npos, target.bf16);
  }
}

// Weights of bf16 beside rows of f32 stay bf16 for few rows, and for rows whose number is not
// known.
TEST(PackConstants, Bf16BesideF32IsWidenedInRegisters) {
  for (const Target& target : targets()) {
    for (const int64_t rows : {0, 1, 7, 40}) {
      SCOPED_TRACE(target.isa + ", rows " + std::to_string(rows));
      Builder b;
      const ExprId m = rows == 0 ? b.extent() : b.dim(rows);
      const auto weights = [&](int64_t k, int64_t n) {
        return b.convert(b.constant(TENON_BF16, {b.dim(k), b.dim(n)}), TENON_F32);
      };
      const Tensor x = b.input(TENON_F32, {m, b.dim(300)});
      b.output(linear(b, x, weights(300, 50), false));
      b.output(linear(b, x, weights(17, 300), true));
      Checked checked(b.take_program(), target);
      const std::vector<int64_t> ext = rows == 0 ? std::vector<int64_t>{3} : std::vector<int64_t>{};
      checked.run(ext, {false, 2e-5});
      checked.run(ext, {true, 2e-5});
      EXPECT_EQ(checked.text().find("mmaw") != std::string::npos,
                rows < 16 && target.vector_bytes != 0);
      EXPECT_EQ(checked.text().find("dpbf16ps"), std::string::npos);
    }
  }
}

// Products of integers that i16 holds run in pairs, also where the two sides have different types.
TEST(PackConstants, IntegersArePairs) {
  for (const Target& target : targets()) {
    SCOPED_TRACE(target.isa);
    Builder b;
    const Tensor x = b.input(TENON_I16, {b.dim(9), b.dim(35)});
    b.output(b.dot(x, b.constant(TENON_I16, {b.dim(35), b.dim(50)}), {}, {},
                   std::array<uint32_t, 1>{1}, std::array<uint32_t, 1>{0}, TENON_DTYPE_NONE,
                   TENON_I32));
    const Tensor y = b.input(TENON_U8, {b.dim(7), b.dim(24)});
    b.output(b.dot(y, b.constant(TENON_U8, {b.dim(24), b.dim(64)}), {}, {},
                   std::array<uint32_t, 1>{1}, std::array<uint32_t, 1>{0}, TENON_DTYPE_NONE,
                   TENON_I32));
    Checked checked(b.take_program(), target);
    checked.run({}, {false, 0});
    EXPECT_EQ(to_text(checked.moved()).find("i16[") != std::string::npos, true);
    EXPECT_EQ(checked.text().find("mmah") != std::string::npos, target.i16_pairs);
    EXPECT_EQ(checked.text().find("vpdpwssd") != std::string::npos, target.byte_quads);
  }
}

// t - zero in i16, as formulas of quantised products have it. zero: a number or a tensor of one
// element or of one per column.
Tensor difference(Builder& b, const Tensor& t, const Tensor& zero) {
  const std::vector<uint32_t> column = {1};
  const Tensor wide = b.convert(zero, TENON_I16);
  return op(b, TENON_S_SUB,
            {b.convert(t, TENON_I16),
             b.broadcast(wide, t.dims, zero.rank() == 0 ? std::vector<uint32_t>{} : column)});
}

// Products of bytes minus zero points: signs of both sides, zero points that are known, known to be
// the middle, of a run, and one per column; sums that fill the last word or do not.
TEST(PackConstants, BytesAreQuads) {
  for (const Target& target : targets()) {
    SCOPED_TRACE(target.isa);
    for (const DType x_type : {DType{TENON_U8}, DType{TENON_I8}}) {
      for (const DType w_type : {DType{TENON_I8}, DType{TENON_U8}}) {
        Builder b;
        const ExprId m = b.extent();
        const Tensor at_run = b.input(x_type, {}), each = b.constant(w_type, {b.dim(50)});
        const Tensor x_limit = b.fill(x_type, {}, x_type == TENON_U8 ? 255 : -128);
        const Tensor middle = b.fill(w_type, {}, w_type == TENON_U8 ? 128 : 0);
        const Tensor w_limit = b.fill(w_type, {}, w_type == TENON_U8 ? 255 : -128);
        const uint32_t one[] = {1}, none[] = {0};
        for (const auto& [x_zero, w_zero, k] : {std::tuple{x_limit, middle, 37},
                                                {at_run, middle, 64},
                                                {x_limit, w_limit, 5},
                                                {at_run, each, 24}}) {
          const Tensor x = difference(b, b.input(x_type, {m, b.dim(k)}), x_zero);
          const Tensor w = difference(b, b.constant(w_type, {b.dim(k), b.dim(50)}), w_zero);
          b.output(b.dot(x, w, {}, {}, one, none, TENON_DTYPE_NONE, TENON_I32));
        }
        Checked checked(b.take_program(), target);
        for (const int64_t rows : {1, 7}) checked.run({rows}, {false, 0});
        EXPECT_EQ(checked.text().find("vpdpbusd") != std::string::npos, target.byte_quads);
        EXPECT_EQ(checked.text().find("mmah") != std::string::npos,
                  target.i16_pairs && !target.byte_quads);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

// The largest products of four bytes, and sums beyond i32, which wrap.
TEST(PackConstants, BytesAtTheirLimits) {
  for (const Target& target : targets()) {
    SCOPED_TRACE(target.isa);
    Builder b;
    const uint32_t one[] = {1}, none[] = {0};
    const Tensor zero = b.fill(TENON_U8, {}, 255), low = b.fill(TENON_I8, {}, -128);
    const Tensor x = b.input(TENON_U8, {b.dim(3), b.dim(40000)});
    const Tensor w = b.constant(TENON_I8, {b.dim(40000), b.dim(17)});
    b.output(b.dot(difference(b, x, zero), difference(b, w, low), {}, {}, one, none,
                   TENON_DTYPE_NONE, TENON_I32));
    const Kernel program = b.take_program();
    testing::Session session;
    Kernel moved = program;
    move_to_load(moved, target);
    ASSERT_TRUE(session.build(moved, target, {})) << session.why;
    std::vector<Data> memory;
    for (const Buffer& buffer : moved.buffers) {
      int64_t n = 1;
      for (ExprId d : buffer.dims) n *= moved.pool.evaluate(d, {});
      memory.emplace_back(buffer.type, static_cast<size_t>(n));
    }
    for (size_t i = 0; i < memory[x.buffer].size(); ++i) memory[x.buffer].set(i, 0);
    for (size_t i = 0; i < memory[w.buffer].size(); ++i) memory[w.buffer].set(i, 127);
    session.run(&memory, 2);
    // 40000 products of -255 and 255, modulo 2^32.
    const int32_t want = static_cast<int32_t>(uint32_t{0} - 40000u * 255u * 255u);
    const auto result = std::ranges::find(moved.buffers, Role::kOut, &Buffer::role);
    const Data& got = memory[static_cast<size_t>(result - moved.buffers.begin())];
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got.get(i), want) << i;
  }
}

// [70, 4 blocks, 16 steps] of (q - 3) scale as a matrix, from bytes or from their low halves.
Tensor few_bits(Builder& b, DType type, bool nibbles) {
  const std::vector<ExprId> dims = {b.dim(70), b.dim(4), b.dim(16)};
  const uint32_t outer[] = {0, 1};
  Tensor q = b.constant(type, dims);
  if (nibbles) q = op(b, TENON_S_AND, {q, b.fill(type, dims, 15)});
  const Tensor scale = b.broadcast(b.constant(TENON_F32, {dims[0], dims[1]}), dims, outer);
  const Tensor real = op(b, TENON_S_SUB, {b.convert(q, TENON_F32), b.fill(TENON_F32, dims, 3)});
  return b.reshape(op(b, TENON_S_MUL, {real, scale}), {b.dim(70), b.dim(64)});
}

// Weights of few bits stay so, whether few rows are known or any number is possible.
TEST(PackConstants, WeightsOfFewBits) {
  for (const Target& target : targets()) {
    SCOPED_TRACE(target.isa);
    Builder b;
    const ExprId m = b.extent();
    b.output(
        linear(b, b.input(TENON_F32, {b.dim(3), b.dim(64)}), few_bits(b, TENON_U8, true), true));
    b.output(linear(b, b.input(TENON_F32, {m, b.dim(64)}), few_bits(b, TENON_U8, false), true));
    b.output(
        linear(b, b.input(TENON_F32, {b.dim(1), b.dim(64)}), few_bits(b, TENON_I8, false), true));
    b.output(
        linear(b, b.input(TENON_F32, {b.dim(40), b.dim(64)}), few_bits(b, TENON_U8, true), true));
    Checked checked(b.take_program(), target);
    for (const int64_t rows : {1, 7}) checked.run({rows}, {false, 2e-5});
    const bool wide = target.vector_bytes >= 32;
    for (const char* name : {"mmaq4u3x", "mmaq8u"})
      EXPECT_EQ(checked.text().find(name) != std::string::npos, wide) << name;
    // In quads, signed bytes become unsigned.
    EXPECT_EQ(checked.text().find("mmaq8s1x") != std::string::npos, wide && !target.byte_quads);
    EXPECT_EQ(checked.text().find("mmad8u1x") != std::string::npos, target.byte_quads);
    EXPECT_EQ(checked.text().find("mmaq4u6x") != std::string::npos, wide) << "many rows, too";
  }
}

TEST(PackConstants, InputsAndDevicesWithoutVectorsAreLeftAlone) {
  for (bool constant : {false, true}) {
    Builder b;
    const Tensor x = b.input(TENON_F32, {b.dim(8), b.dim(32)});
    b.output(linear(b, x,
                    constant ? b.constant(TENON_F32, {b.dim(32), b.dim(100)})
                             : b.input(TENON_F32, {b.dim(32), b.dim(100)}),
                    false));
    Kernel program = b.take_program();
    move_to_load(program, constant ? Target::opencl(true) : Target::avx512());
    EXPECT_EQ(to_text(program).find("persistent"), std::string::npos);
  }
}

TEST(PackConstants, PanelsAreWideAndWasteLittle) {
  const Target t = Target::avx512();
  EXPECT_EQ(panel_columns(t, TENON_F32, 0), 64);
  EXPECT_EQ(panel_columns(t, TENON_F32, 768), 64);
  EXPECT_EQ(panel_columns(t, TENON_F32, 77), 48);  // 6 vectors, not 8
  EXPECT_EQ(panel_columns(t, TENON_F32, 10), 16);
  EXPECT_EQ(panel_columns(t, TENON_F64, 768), 32);
  EXPECT_EQ(panel_columns(Target::scalar(), TENON_F32, 768), 0);
}

}  // namespace
}  // namespace tenon::kernelgen
