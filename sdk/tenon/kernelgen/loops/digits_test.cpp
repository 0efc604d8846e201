// Rows of floats times weights of few bits, where rows become digits: against sums in double
// precision, with a bound for each element, so that a row's large numbers do not hide errors of its
// small ones.
#include <gtest/gtest.h>

#include <random>

#include "tenon/kernelgen/testing/test_values.h"

namespace tenon::kernelgen {
namespace {

using testing::Data;
using testing::op;

constexpr int64_t kSteps = 384, kColumns = 70;

std::vector<Target> targets() {
  std::vector<Target> all = {Target::avx512_vnni(), Target::avx2_vnni(), Target::avx2()};
  std::erase_if(all, [](const Target& t) { return !testing::machine_has(t); });
  return testing::in_this_run(all);
}

enum class Zeros { kNone, kOne, kBlocks };

// Weights (q - zero) scale, [kColumns, kSteps] in blocks along the steps.
struct Weights {
  DType type = TENON_U8;
  bool nibbles = false;
  int64_t block = 32;
  Zeros zeros = Zeros::kOne;
  uint32_t q = 0, scale = 0, zero = 0;  // buffers

  int64_t most() const { return nibbles ? 15 : type == TENON_U8 ? 255 : 127; }
  double one() const { return nibbles ? 8 : type == TENON_U8 ? 128 : 0; }
};

Tensor weights(Builder& b, Weights* w) {
  const std::vector<ExprId> dims = {b.dim(kColumns), b.dim(kSteps / w->block), b.dim(w->block)};
  const uint32_t outer[] = {0, 1};
  Tensor q = b.constant(w->type, dims);
  w->q = q.buffer;
  if (w->nibbles) q = op(b, TENON_S_AND, {q, b.fill(w->type, dims, 15)});
  const Tensor scale = b.constant(TENON_F32, {dims[0], dims[1]});
  w->scale = scale.buffer;
  Tensor real = b.convert(q, TENON_F32);
  if (w->zeros == Zeros::kOne) real = op(b, TENON_S_SUB, {real, b.fill(TENON_F32, dims, w->one())});
  if (w->zeros == Zeros::kBlocks) {
    const Tensor zero = b.constant(w->type, {dims[0], dims[1]});
    w->zero = zero.buffer;
    real = op(b, TENON_S_SUB, {real, b.broadcast(b.convert(zero, TENON_F32), dims, outer)});
  }
  return b.reshape(op(b, TENON_S_MUL, {real, b.broadcast(scale, dims, outer)}),
                   {dims[0], b.dim(kSteps)});
}

// What a row holds.
enum class Row {
  kUsual,
  kOutliers,
  kSparse,
  kDenormal,
  kHuge,
  kZero,
  kNan,
  kInfinite,
  kFar,
  kCount
};

void fill_row(std::mt19937& rng, Row kind, Data* x, int64_t first) {
  std::normal_distribution<double> usual;
  for (int64_t i = 0; i < kSteps; ++i) {
    double v = usual(rng);
    if (kind == Row::kOutliers && i % 64 == 5) v *= 1e9;
    if (kind == Row::kFar) v *= i % 64 == 5 ? 1e37 : 1e-18;  // quotients of f32 are 0
    if (kind == Row::kSparse) v = v < 0.5 ? 0 : v * std::exp(-8 * usual(rng));
    if (kind == Row::kDenormal) v *= i < 96 ? 1e-40 : i % 7 == 0 ? 1e-39 : 1e-37;
    if (kind == Row::kHuge) v *= 1e34;
    if (kind == Row::kZero) v = i % 2 == 0 ? 0.0 : -0.0;
    if (kind == Row::kNan && i == 200) v = NAN;
    if (kind == Row::kInfinite && i % 100 == 77) v = INFINITY;
    x->set(static_cast<size_t>(first + i), v);
  }
}

// A product of a number of rows, known (its own buffer) or not.
struct Product {
  Weights weights;
  int64_t rows = 0;       // 0: not known
  bool computed = false;  // the rows are twice the input
  uint32_t x = 0, y = 0;
};

class Products {
 public:
  explicit Products(std::vector<Product> list) : list_(std::move(list)) {
    Builder b;
    const ExprId m = b.extent();
    for (Product& p : list_) {
      Tensor x = b.input(TENON_F32, {p.rows == 0 ? m : b.dim(p.rows), b.dim(kSteps)});
      p.x = x.buffer;
      if (p.computed) x = op(b, TENON_S_ADD, {x, x});
      const uint32_t sum_a[] = {1}, sum_b[] = {1};
      const Tensor y = b.dot(x, weights(b, &p.weights), {}, {}, sum_a, sum_b);
      b.output(y);
    }
    EXPECT_TRUE(b.ok()) << b.why();
    program_ = b.take_program();
    size_t next = 0;
    for (uint32_t id = 0; id < program_.buffers.size(); ++id) {
      if (program_.buffers[id].role == Role::kOut) list_[next++].y = id;
    }
  }

  void build(const Target& target) {
    Kernel moved = program_;
    Verifier verifier(Verifier::kThorough);
    move_to_load(moved, target, &verifier);
    ASSERT_TRUE(verifier.notes.empty()) << verifier.notes[0];
    ASSERT_TRUE(session.build(moved, target, {})) << session.why << "\n" << session.module.text;
  }

  // first: what the first row holds; the next ones follow in the order of Row.
  void run(int64_t unknown_rows, Row first, double scale_of_all = 1, double times = 1) {
    session.ext = {unknown_rows};
    std::mt19937 rng(7);
    std::vector<Data> memory;
    for (const Buffer& x : program_.buffers) {
      int64_t n = 1;
      for (ExprId d : x.dims) n *= program_.pool.evaluate(d, session.ext);
      memory.emplace_back(x.type, static_cast<size_t>(n));
    }
    for (const Product& p : list_) {
      fill(rng, p, first, scale_of_all, times, &memory);
    }
    std::vector<Data> whole = memory;
    session.run(&whole, 1);
    session.run(&memory, 3);
    for (size_t i = 0; i < list_.size(); ++i) {
      SCOPED_TRACE("product " + std::to_string(i));
      EXPECT_EQ(whole[list_[i].y].bytes, memory[list_[i].y].bytes) << "depends on the pieces";
      compare(list_[i], memory, rows_of(list_[i], unknown_rows));
      if (::testing::Test::HasFatalFailure()) return;
    }
  }

  testing::Session session;

 private:
  static int64_t rows_of(const Product& p, int64_t unknown) {
    return p.rows == 0 ? unknown : p.rows;
  }

  static void fill(std::mt19937& rng, const Product& p, Row first, double scale_of_all,
                   double times, std::vector<Data>* memory) {
    const Weights& w = p.weights;
    Data &x = (*memory)[p.x], &q = (*memory)[w.q], &scale = (*memory)[w.scale];
    const int64_t rows = static_cast<int64_t>(x.size()) / kSteps;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t kinds = static_cast<int64_t>(Row::kCount);
      fill_row(rng, static_cast<Row>((static_cast<int64_t>(first) + r) % kinds), &x, r * kSteps);
    }
    for (size_t i = 0; times != 1 && i < x.size(); ++i) x.set(i, times * x.get(i));
    for (size_t i = 0; i < scale.size(); ++i)
      scale.set(i, scale_of_all * (rng() % 8 == 0 ? -0.01 : 0.001 * (1 + rng() % 32)));
    std::vector<double> zero(scale.size(), w.zeros == Zeros::kOne ? w.one() : 0);
    if (w.zeros == Zeros::kBlocks) {
      for (size_t i = 0; i < zero.size(); ++i) {
        // Often at its limits.
        zero[i] = rng() % 3 == 0 ? 0 : rng() % 2 == 0 ? double(w.most()) : double(rng() % w.most());
        (*memory)[w.zero].set(i, zero[i]);
      }
    }
    for (size_t i = 0; i < q.size(); ++i) {
      const double z = zero[i / static_cast<size_t>(w.block)];
      double v = static_cast<double>(rng() % (w.most() + 1));
      if (w.type == TENON_I8 && rng() % 2 == 0) v = -v - 1;
      // Half of the columns have weights of 0 where rows have outliers, and small ones elsewhere.
      const size_t column = i / kSteps, step = i % kSteps;
      if (column % 2 == 0)
        v = step % 64 == 5 ? z : std::min<double>(w.most(), z + double(rng() % 2));
      // The upper half of a byte does not count.
      q.set(i, v + (w.nibbles ? 16 * double(rng() % 16) : 0));
    }
  }

  static void compare(const Product& p, const std::vector<Data>& memory, int64_t rows) {
    const Weights& w = p.weights;
    const Data &x = memory[p.x], &q = memory[w.q], &scale = memory[w.scale], &y = memory[p.y];
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < kColumns; ++c) {
        double want = 0, size = 0;
        for (int64_t i = 0; i < kSteps; ++i) {
          const auto at = static_cast<size_t>(c * kSteps + i),
                     block = at / static_cast<size_t>(w.block);
          const double number = q.get(at) - (w.nibbles ? std::floor(q.get(at) / 16) * 16 : 0),
                       zero = w.zeros == Zeros::kBlocks ? memory[w.zero].get(block)
                              : w.zeros == Zeros::kOne  ? w.one()
                                                        : 0;
          const double product = (p.computed ? 2 : 1) * x.get(static_cast<size_t>(r * kSteps + i)) *
                                 ((number - zero) * scale.get(block));
          want += product;
          size += std::fabs(product);
        }
        const double got = y.get(static_cast<size_t>(r * kColumns + c));
        if (!std::isfinite(want)) {
          ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want)
              << "row " << r << " column " << c << ": " << got << " instead of " << want;
          continue;
        }
        // 2^-18 where digits lost bits, and the rounding of floats.
        ASSERT_NEAR(got, want, size * 5e-6 + 1e-42) << "row " << r << " column " << c;
      }
    }
  }

  std::vector<Product> list_;
  Kernel program_;
};

std::vector<Product> usual_products() {
  std::vector<Product> out;
  for (const Zeros zeros : {Zeros::kOne, Zeros::kBlocks}) {
    for (const int64_t block : {16, 32, 48, 64, 96, 128, 384}) {
      for (const bool nibbles : {true, false})
        out.push_back({{.nibbles = nibbles, .block = block, .zeros = zeros}, 1});
    }
    out.push_back({{.type = TENON_I8, .block = 32, .zeros = zeros}, 1});
    out.push_back({{.nibbles = true, .block = 64, .zeros = zeros}, 2});
    out.push_back({{.nibbles = true, .block = 32, .zeros = zeros}, 0});
  }
  out.push_back({{.type = TENON_I8, .block = 128, .zeros = Zeros::kNone}, 1});
  out.push_back({{.nibbles = true, .block = 128, .zeros = Zeros::kNone}, 2});
  return out;
}

TEST(Digits, BlocksZeroPointsAndRows) {
  for (const Target& target : targets()) {
    SCOPED_TRACE(target.isa + (target.byte_quads ? " vnni" : ""));
    Products products(usual_products());
    products.build(target);
    for (int64_t first = 0; first < static_cast<int64_t>(Row::kCount); ++first) {
      SCOPED_TRACE("rows from kind " + std::to_string(first));
      products.run(1 + first % 2, static_cast<Row>(first));
      if (::testing::Test::HasFatalFailure()) return;
    }
    for (const int64_t rows : {0, 3, 7, 20}) products.run(rows, Row::kUsual);
    const std::string& text = products.session.module.text;
    for (const char* name : {"mmad4u1x", "mmad4u2x", "mmad8u1x", "digits_f32x"})
      EXPECT_EQ(text.find(name) != std::string::npos, target.byte_quads) << name;
  }
}

// More rows than are worth digits, and rows that are computed, which are stored as floats first.
TEST(Digits, OtherRows) {
  for (const Target& target : targets()) {
    SCOPED_TRACE(target.isa + (target.byte_quads ? " vnni" : ""));
    std::vector<Product> list;
    for (const int64_t rows : {3, 7, 64}) {
      list.push_back({{.nibbles = true, .zeros = Zeros::kBlocks}, rows});
      list.push_back({{.block = 64}, rows});
    }
    Products many(list);
    many.build(target);
    many.run(0, Row::kUsual);
    EXPECT_EQ(many.session.module.text.find("mmad"), std::string::npos);
    Products computed({{{.nibbles = true}, 1, true}, {{.nibbles = true}, 0, true}});
    computed.build(target);
    for (const int64_t rows : {1, 2, 3, 9}) computed.run(rows, Row::kOutliers);
  }
}

// Scales at the ends of their range: sums overflow, or are infinite or NaN from the start.
TEST(Digits, ScalesThatAreNotUsual) {
  for (const Target& target : targets()) {
    SCOPED_TRACE(target.isa + (target.byte_quads ? " vnni" : ""));
    Products products({{{.nibbles = true}, 1}, {{.zeros = Zeros::kBlocks}, 2}});
    products.build(target);
    for (const double scale : {1e-30, 1e25, double(INFINITY), double(NAN)}) {
      SCOPED_TRACE(scale);
      for (const Row row : {Row::kUsual, Row::kZero, Row::kOutliers}) products.run(0, row, scale);
    }
    // Sums of integers times floats that only the scale makes finite.
    products.run(0, Row::kUsual, 1e-8, 1e36);
  }
}

}  // namespace
}  // namespace tenon::kernelgen
