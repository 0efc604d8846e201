// The laws of floordiv, mod, min and max over symbols of which only the least value is known, 0
// among them. Whatever form a dim takes, it must have the values of the expression that it was made
// from, and what is proved about two dims must hold for every assignment that is tried.
#include <gtest/gtest.h>

#include "core/ir/dims/dims_test.h"

namespace tenon::ir {
namespace {

using Points = std::vector<std::vector<int64_t>>;

constexpr uint32_t kSymbols =
    4;  // n >= 0, m >= 1, k >= 0 and a multiple of 4, z in [-3, 3] (not a size)

// Small sizes, some of which divide evenly or just fail to.
Points points_of(std::mt19937& rng) {
  Points out;
  for (int64_t n = 0; n < 8; ++n) {
    for (int64_t m = 1; m < 6; ++m) out.push_back({n, m, 4 * (n % 3), (n + 2 * m) % 7 - 3});
  }
  for (int i = 0; i < 24; ++i) {
    const auto large = [&] { return static_cast<int64_t>(rng() % 3000); };
    out.push_back({large(), large() + 1, 4 * large(), large() % 7 - 3});
  }
  return out;
}

Tree call(uint32_t op, Tree a, Tree b) {
  return {op, 0, 0, {std::move(a), std::move(b)}};
}
Tree number(int64_t v) {
  return {TENON_DIM_CONSTANT, v, 0, {}};
}

class DimLawsTest : public testing::Test {
 protected:
  DimLawsTest() {
    EXPECT_TRUE(table.symbol_add("n", 0, INT64_MAX, 1, -1).ok());
    EXPECT_TRUE(table.symbol_add("m", 1, INT64_MAX, 1, -1).ok());
    EXPECT_TRUE(table.symbol_add("k", 0, INT64_MAX, 4, -1).ok());
    EXPECT_TRUE(table.symbol_add("z", -3, 3, 1, -1).ok());
  }
  // The dim has the value of its tree; its range and its divisor hold for it.
  void check(const Tree& tree, Dim dim, const Points& points) {
    const DimRange range = table.range(dim);
    const int64_t multiple = table.multiple_of(dim);
    for (const auto& p : points) {
      int64_t want, have;
      if (!tree.evaluate(p, &want)) continue;
      ASSERT_TRUE(table.evaluate(dim, p, &have).ok()) << table.text(dim);
      ASSERT_EQ(want, have) << table.text(dim) << " at n=" << p[0] << " m=" << p[1] << " k=" << p[2]
                            << " z=" << p[3];
      ASSERT_TRUE(range.lo <= have && have <= range.hi)
          << table.text(dim) << " is " << have << ", in " << range.lo << ".." << range.hi;
      ASSERT_EQ(have % multiple, 0) << table.text(dim);
    }
  }
  // No answer is wrong.
  void check_answers(const Tree& ta, Dim a, const Tree& tb, Dim b, const Points& points) {
    for (uint32_t rel = 0; rel < 4; ++rel) {
      const uint32_t answer = table.compare(rel, a, b);
      if (answer == TENON_MAYBE) continue;
      for (const auto& p : points) {
        int64_t x, y;
        if (!ta.evaluate(p, &x) || !tb.evaluate(p, &y) || (rel == TENON_REL_DIVISIBLE && y <= 0))
          continue;
        ASSERT_EQ(relation_holds(rel, x, y), answer == TENON_YES)
            << table.text(a) << " rel " << rel << " " << table.text(b) << " at n=" << p[0]
            << " m=" << p[1] << " k=" << p[2] << " z=" << p[3];
      }
    }
  }
  DimTable table;
};

TEST_F(DimLawsTest, FormsKeepTheirMeaningAndAnswersHold) {
  std::mt19937 rng(29);
  const Points points = points_of(rng);
  std::vector<std::pair<Tree, Dim>> built;
  for (int i = 0; i < 1000 / TENON_RANDOM_SHARE; ++i) {
    Tree tree = random_tree(rng, 5, kSymbols);
    const auto dim = tree.build(table);
    if (!dim) continue;
    check(tree, *dim, points);
    if (HasFatalFailure()) return;
    built.emplace_back(std::move(tree), *dim);
  }
  ASSERT_GT(built.size(), 400u / TENON_RANDOM_SHARE);
  for (int i = 0; i < 1500 / TENON_RANDOM_SHARE; ++i) {
    const auto& [ta, a] = built[rng() % built.size()];
    const auto& [tb, b] = built[rng() % built.size()];
    check_answers(ta, a, tb, b, points);
    if (HasFatalFailure()) return;
  }
}

// Identities that hold for any expressions: their sides are never reported different, and nearly
// always proved equal.
TEST_F(DimLawsTest, SidesOfIdentitiesAreProvedEqual) {
  std::mt19937 rng(31);
  const Points points = points_of(rng);
  int proved = 0, made = 0;
  for (int i = 0; i < 800 / TENON_RANDOM_SHARE; ++i) {
    const Tree x = random_tree(rng, 2, kSymbols), y = random_tree(rng, 2, kSymbols),
               d = number(static_cast<int64_t>(rng() % 7) + 1);
    const auto floor = [&](const Tree& of) { return call(TENON_DIM_FLOORDIV, of, d); };
    const Tree last = number(d.constant - 1), minus = call(TENON_DIM_SUB, number(0), x);
    const std::pair<Tree, Tree> sides[] = {
        {call(TENON_DIM_ADD, call(TENON_DIM_MUL, floor(x), d), call(TENON_DIM_MOD, x, d)), x},
        {call(TENON_DIM_ADD, call(TENON_DIM_MIN, x, y), call(TENON_DIM_MAX, x, y)),
         call(TENON_DIM_ADD, x, y)},
        {floor(call(TENON_DIM_ADD, x, last)), call(TENON_DIM_SUB, number(0), floor(minus))},
        {call(TENON_DIM_ADD, x, call(TENON_DIM_MOD, minus, d)),
         call(TENON_DIM_MUL, floor(call(TENON_DIM_ADD, x, last)), d)},
        {call(TENON_DIM_MAX, call(TENON_DIM_ADD, x, d), call(TENON_DIM_ADD, y, d)),
         call(TENON_DIM_ADD, call(TENON_DIM_MAX, x, y), d)},
        {floor(call(TENON_DIM_MAX, x, y)), call(TENON_DIM_MAX, floor(x), floor(y))},
        {floor(call(TENON_DIM_FLOORDIV, x, number(3))),
         call(TENON_DIM_FLOORDIV, x, call(TENON_DIM_MUL, d, number(3)))},
    };
    for (const auto& [left, right] : sides) {
      const auto a = left.build(table), b = right.build(table);
      if (!a || !b) continue;
      check(left, *a, points);
      check(right, *b, points);
      check_answers(left, *a, right, *b, points);
      if (HasFatalFailure()) return;
      const uint32_t answer = table.compare(TENON_REL_EQ, *a, *b);
      ASSERT_NE(answer, TENON_NO) << table.text(*a) << " and " << table.text(*b);
      ++made;
      proved += answer == TENON_YES;
    }
  }
  EXPECT_GT(made, 4000 / TENON_RANDOM_SHARE);
  EXPECT_GT(proved, made * 9 / 10);
}

// Repeated operations on a dim end in a fixed form or at a limit.
TEST_F(DimLawsTest, LongChainsEnd) {
  static constexpr uint32_t kOps[] = {TENON_DIM_ADD, TENON_DIM_MAX, TENON_DIM_FLOORDIV,
                                      TENON_DIM_MUL, TENON_DIM_MOD, TENON_DIM_MIN,
                                      TENON_DIM_SUB};
  std::mt19937 rng(37);
  int limits = 0;
  for (int round = 0; round < 60; ++round) {
    std::vector<Dim> dims = {table.symbol(0).dim, table.symbol(1).dim, table.symbol(2).dim};
    for (int i = 0; i < 80; ++i) {
      const uint32_t op = kOps[rng() % 7];
      const bool divides = op == TENON_DIM_FLOORDIV || op == TENON_DIM_MOD;
      const Dim a = dims[dims.size() - 1 - rng() % 2],
                b = divides ? static_cast<Dim>(rng() % 90 + 1)
                            : dims[dims.size() - 1 - rng() % dims.size()];
      const Result<Dim> next = table.make(op, a, b);
      if (next.ok()) {
        dims.push_back(*next);
        continue;
      }
      const std::string code(next.status().error_code());
      ASSERT_TRUE(code == "T0303" || code == "T0305") << next.status().text();
      ++limits;
    }
  }
  EXPECT_GT(limits, 0);
}

// The least size of each symbol decides; the largest is not known.
TEST_F(DimLawsTest, LeastSizesDecide) {
  const Dim n = table.symbol(0).dim, m = table.symbol(1).dim;
  const auto twice_less_one = [&](Dim d) {
    return *table.make(TENON_DIM_SUB, *table.make(TENON_DIM_MUL, d, 2), 1);
  };
  const auto grown = [&](Dim d) {
    return *table.make(TENON_DIM_ADD, *table.make(TENON_DIM_MAX, 0, twice_less_one(d)), 1);
  };
  EXPECT_EQ(grown(m), *table.make(TENON_DIM_MUL, m, 2));
  EXPECT_EQ(table.compare(TENON_REL_EQ, grown(n), *table.make(TENON_DIM_MUL, n, 2)), TENON_MAYBE);
  // n * m - n is n * (m - 1): products are compared beyond the ranges of their terms.
  const Dim rest = *table.make(TENON_DIM_SUB, *table.make(TENON_DIM_MUL, n, m), n);
  EXPECT_EQ(table.range(rest).lo, 0);
  EXPECT_EQ(*table.make(TENON_DIM_MAX, 0, rest), rest);
  ASSERT_TRUE(table.assert_fact(TENON_REL_LE, 1, n).ok());
  EXPECT_EQ(table.compare(TENON_REL_EQ, grown(n), *table.make(TENON_DIM_MUL, n, 2)), TENON_YES);
}

// A factor that may be negative reverses the bound of what it is multiplied by.
TEST_F(DimLawsTest, BoundsArePutBesideWhatKeepsTheirSign) {
  const Dim n = table.symbol(0).dim, m = table.symbol(1).dim, z = table.symbol(3).dim;
  const auto make = [&](uint32_t op, Dim a, Dim b) { return *table.make(op, a, b); };
  const Dim twice_half = make(TENON_DIM_MUL, 2, make(TENON_DIM_FLOORDIV, n, 2)),
            rest = make(TENON_DIM_MOD, n, 3), least = make(TENON_DIM_MIN, n, m);
  for (const Dim part : {twice_half, rest, least}) {
    EXPECT_EQ(table.compare(TENON_REL_LE, make(TENON_DIM_MUL, part, m), make(TENON_DIM_MUL, n, m)),
              TENON_YES)
        << table.text(part);
    EXPECT_EQ(table.compare(TENON_REL_LE, make(TENON_DIM_MUL, part, z), make(TENON_DIM_MUL, n, z)),
              TENON_MAYBE)
        << table.text(part);
  }
}

// A later fact may leave a divisor without a value; ranges must still be computable.
TEST_F(DimLawsTest, DivisorsMayTurnOutToHaveNoValue) {
  const Dim n = table.symbol(0).dim, m = table.symbol(1).dim;
  const Dim quotient = *table.make(TENON_DIM_FLOORDIV, m, n),
            rest = *table.make(TENON_DIM_MOD, m, n);
  ASSERT_TRUE(table.assert_fact(TENON_REL_LE, n, 0).ok());
  EXPECT_LE(table.range(quotient).lo, table.range(quotient).hi);
  EXPECT_GE(table.range(rest).lo, 0);
}

}  // namespace
}  // namespace tenon::ir
