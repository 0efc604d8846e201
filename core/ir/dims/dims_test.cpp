// Dims against brute force: what the algebra claims must hold for every small assignment of the
// symbols.
#include "core/ir/dims/dims.h"

#include <gtest/gtest.h>

#include <random>

#include "core/ir/dims/dims_test.h"

namespace tenon::ir {
namespace {

class DimsTest : public testing::Test {
 protected:
  Symbol add(std::string_view name, int64_t lo, int64_t hi, int64_t multiple = 1) {
    Result<Symbol> s = table.symbol_add(name, lo, hi, multiple, -1);
    EXPECT_TRUE(s.ok());
    return *s;
  }
  Dim dim(Symbol s) { return table.symbol(s).dim; }
  Dim make(uint32_t op, Dim a, Dim b) {
    Result<Dim> d = table.make(op, a, b);
    EXPECT_TRUE(d.ok()) << d.status().text();
    return d.ok() ? *d : 0;
  }
  DimTable table;
};

TEST_F(DimsTest, RandomExpressionsMeanWhatTheyEvaluateTo) {
  std::mt19937 rng(7);
  add("n", 0, 6);
  add("m", 1, 5);
  add("k", 0, 8, 4);
  std::vector<std::vector<int64_t>> points;
  for (int64_t n = 0; n <= 6; ++n)
    for (int64_t m = 1; m <= 5; ++m)
      for (int64_t k = 0; k <= 8; k += 4) points.push_back({n, m, k});
  std::vector<std::pair<Tree, Dim>> built;
  for (int i = 0; i < 3000 / TENON_RANDOM_SHARE; ++i) {
    Tree t = random_tree(rng, 4);
    const auto d = t.build(table);
    if (!d) continue;
    const DimRange range = table.range(*d);
    const int64_t multiple = table.multiple_of(*d);
    for (const auto& p : points) {
      int64_t want, have;
      if (!t.evaluate(p, &want)) continue;
      ASSERT_TRUE(table.evaluate(*d, p, &have).ok()) << table.text(*d);
      ASSERT_EQ(want, have) << table.text(*d) << " at n=" << p[0] << " m=" << p[1] << " k=" << p[2];
      ASSERT_LE(range.lo, have) << table.text(*d);
      ASSERT_GE(range.hi, have) << table.text(*d);
      ASSERT_EQ(have % multiple, 0) << table.text(*d) << " multiple of " << multiple;
    }
    built.emplace_back(std::move(t), *d);
  }
  ASSERT_GT(built.size(), 1000u / TENON_RANDOM_SHARE);
  // Comparisons: YES must hold everywhere, NO nowhere (both where the expressions have values).
  for (int i = 0; i < 6000 / TENON_RANDOM_SHARE; ++i) {
    const auto& [ta, a] = built[rng() % built.size()];
    const auto& [tb, b] = built[rng() % built.size()];
    for (uint32_t rel = 0; rel < 4; ++rel) {
      const uint32_t answer = table.compare(rel, a, b);
      if (answer == TENON_MAYBE) continue;
      for (const auto& p : points) {
        int64_t x, y;
        if (!ta.evaluate(p, &x) || !tb.evaluate(p, &y)) continue;
        if (rel == TENON_REL_DIVISIBLE && y <= 0) continue;
        const bool holds = rel == TENON_REL_EQ   ? x == y
                           : rel == TENON_REL_LT ? x < y
                           : rel == TENON_REL_LE ? x <= y
                                                 : x % y == 0;
        ASSERT_EQ(holds, answer == TENON_YES)
            << table.text(a) << " rel " << rel << " " << table.text(b) << " at n=" << p[0]
            << " m=" << p[1] << " k=" << p[2];
      }
    }
  }
}

TEST_F(DimsTest, EqualExpressionsAreOneDim) {
  const Dim n = dim(add("n", 0, INT64_MAX)), m = dim(add("m", 1, INT64_MAX));
  const Dim nm = make(TENON_DIM_MUL, n, m);
  EXPECT_EQ(nm, make(TENON_DIM_MUL, m, n));
  EXPECT_EQ(make(TENON_DIM_FLOORDIV, nm, m), n);
  EXPECT_EQ(make(TENON_DIM_SUB, make(TENON_DIM_ADD, n, m), m), n);
  const Dim half = make(TENON_DIM_FLOORDIV, n, 2), odd = make(TENON_DIM_MOD, n, 2);
  EXPECT_EQ(make(TENON_DIM_ADD, make(TENON_DIM_MUL, half, 2), odd), n);
  EXPECT_EQ(make(TENON_DIM_FLOORDIV, half, 3), make(TENON_DIM_FLOORDIV, n, 6));
  EXPECT_EQ(make(TENON_DIM_MIN, n, make(TENON_DIM_ADD, n, 1)), n);
  EXPECT_EQ(make(TENON_DIM_MAX, n, 0), n);
  const Dim k = dim(add("k", 0, INT64_MAX, 8));
  EXPECT_EQ(make(TENON_DIM_MUL, make(TENON_DIM_FLOORDIV, k, 4), 4), k);
  EXPECT_EQ(make(TENON_DIM_MOD, k, 4), 0);
}

TEST_F(DimsTest, TextReadsAsAPersonWouldWriteIt) {
  const Dim n = dim(add("n", 0, INT64_MAX)), m = dim(add("m", 1, INT64_MAX));
  EXPECT_EQ(table.text(make(TENON_DIM_ADD, make(TENON_DIM_MUL, n, 2), 1)), "2*n + 1");
  EXPECT_EQ(table.text(make(TENON_DIM_SUB, 3, n)), "-n + 3");
  EXPECT_EQ(table.text(make(TENON_DIM_FLOORDIV, n, 2)), "n floordiv 2");
  EXPECT_EQ(table.text(make(TENON_DIM_MOD, make(TENON_DIM_ADD, n, m), 4)), "(m + n) mod 4");
  EXPECT_EQ(table.text(make(TENON_DIM_MIN, n, 8)), "min(8, n)");
  EXPECT_EQ(table.text(make(TENON_DIM_MUL, make(TENON_DIM_FLOORDIV, n, 2), m)), "(n floordiv 2)*m");
}

TEST_F(DimsTest, FactsAreUsed) {
  const Dim n = dim(add("n", 0, INT64_MAX)), m = dim(add("m", 0, INT64_MAX)),
            k = dim(add("k", 0, INT64_MAX));
  const Dim n4 = make(TENON_DIM_FLOORDIV, n, 4), m4 = make(TENON_DIM_FLOORDIV, m, 4);
  EXPECT_EQ(table.compare(TENON_REL_EQ, n, m), TENON_MAYBE);
  ASSERT_TRUE(table.assert_fact(TENON_REL_EQ, n, m).ok());
  EXPECT_EQ(table.compare(TENON_REL_EQ, n, m), TENON_YES);
  EXPECT_EQ(table.compare(TENON_REL_EQ, n4, m4), TENON_YES);
  EXPECT_EQ(
      table.compare(TENON_REL_EQ, make(TENON_DIM_FLOORDIV, n, 8), make(TENON_DIM_FLOORDIV, m, 8)),
      TENON_YES);
  ASSERT_TRUE(table.assert_fact(TENON_REL_LE, k, n).ok());
  EXPECT_EQ(table.compare(TENON_REL_LE, k, m), TENON_YES);
  EXPECT_EQ(table.compare(TENON_REL_LT, k, make(TENON_DIM_ADD, m, 1)), TENON_YES);
  EXPECT_EQ(table.compare(TENON_REL_LE, make(TENON_DIM_ADD, m, 1), k), TENON_NO);
  EXPECT_FALSE(table.assert_fact(TENON_REL_LT, n, k).ok());
  ASSERT_TRUE(table.assert_fact(TENON_REL_LE, k, 10).ok());
  EXPECT_EQ(table.range(k).hi, 10);
  EXPECT_EQ(table.assert_fact(TENON_REL_EQ, k, 11).error_code(), "T0306");
  ASSERT_TRUE(table.assert_fact(TENON_REL_DIVISIBLE, n, 16).ok());
  EXPECT_EQ(table.compare(TENON_REL_DIVISIBLE, m, 8), TENON_YES);
}

TEST_F(DimsTest, RandomFactsNeverProveWhatIsFalse) {
  std::mt19937 rng(11);
  int used = 0;
  for (int round = 0; round < 300 / TENON_RANDOM_SHARE; ++round) {
    DimTable t;
    for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(t.symbol_add(name, 0, 5, 1, -1).ok());
    std::vector<std::vector<int64_t>> points;
    for (int64_t i = 0; i < 216; ++i) points.push_back({i % 6, i / 6 % 6, i / 36});
    for (int f = 0; f < 3; ++f) {
      const Tree x = random_tree(rng, 2), y = random_tree(rng, 2);
      const auto a = x.build(t), b = y.build(t);
      const uint32_t rel = rng() % 3;
      if (!a || !b || t.compare(rel, *a, *b) != TENON_MAYBE) continue;
      std::vector<std::vector<int64_t>> left;
      for (const auto& p : points) {
        int64_t u, v;
        if (!x.evaluate(p, &u) || !y.evaluate(p, &v)) continue;
        if (rel == TENON_REL_EQ ? u == v : rel == TENON_REL_LT ? u < v : u <= v) left.push_back(p);
      }
      if (left.empty()) continue;  // a contradiction that the table need not detect
      if (!t.assert_fact(rel, *a, *b).ok()) continue;
      points = left;
      ++used;
    }
    for (int q = 0; q < 60; ++q) {
      const Tree x = random_tree(rng, 3), y = random_tree(rng, 2);
      const auto a = x.build(t), b = y.build(t);
      if (!a || !b) continue;
      for (uint32_t rel = 0; rel < 3; ++rel) {
        const uint32_t answer = t.compare(rel, *a, *b);
        if (answer == TENON_MAYBE) continue;
        for (const auto& p : points) {
          int64_t u, v;
          if (!x.evaluate(p, &u) || !y.evaluate(p, &v)) continue;
          const bool holds = rel == TENON_REL_EQ ? u == v : rel == TENON_REL_LT ? u < v : u <= v;
          std::string known;
          if (holds != (answer == TENON_YES)) {
            for (const DimFact& f : t.facts())
              known += "; " + t.text(f.a) + " rel " + std::to_string(f.rel) + " " + t.text(f.b);
            for (Symbol s = 0; s < 3; ++s)
              known += "; in " + std::to_string(t.symbol(s).lo) + ".." +
                       std::to_string(t.symbol(s).hi) + " % " +
                       std::to_string(t.symbol(s).multiple_of);
          }
          ASSERT_EQ(holds, answer == TENON_YES) << "round " << round << ": " << t.text(*a)
                                                << " rel " << rel << " " << t.text(*b) << known;
        }
      }
    }
  }
  EXPECT_GT(used, 100 / TENON_RANDOM_SHARE);
}

TEST_F(DimsTest, OverflowAndLimitsAreErrors) {
  const Dim n = dim(add("n", 0, INT64_MAX));
  EXPECT_EQ(table.make(TENON_DIM_MUL, INT64_MAX, 2).status().error_code(), "T0303");
  EXPECT_EQ(table.make(TENON_DIM_FLOORDIV, n, 0).status().error_code(), "T0304");
  EXPECT_EQ(table.make(TENON_DIM_MOD, n, *table.constant(-3)).status().error_code(), "T0304");
  EXPECT_EQ(table.make(99, n, n).status().error_code(), "T0301");
  EXPECT_EQ(table.make(TENON_DIM_ADD, n, ~Dim{1000000}).status().error_code(), "T0301");
  Dim power = n;
  Status last;
  for (int i = 0; i < 40 && last.ok(); ++i) {
    Result<Dim> next = table.make(TENON_DIM_MUL, power, n);
    if (next.ok())
      power = *next;
    else
      last = next.status();
  }
  EXPECT_EQ(last.error_code(), "T0305");
  Dim nest = n;
  last = {};
  for (int i = 0; i < 60 && last.ok(); ++i) {
    Result<Dim> next = table.make(TENON_DIM_MOD, *table.make(TENON_DIM_ADD, nest, 1), 1009 + i);
    if (next.ok())
      nest = *table.make(TENON_DIM_ADD, *next, n);
    else
      last = next.status();
  }
  EXPECT_EQ(last.error_code(), "T0305");
}

// Each level contains the one below twice. With 22 levels, 2 KB of a model did not load within half
// a minute.
TEST_F(DimsTest, TreesOfSharedDimsAreBounded) {
  Dim dim = this->dim(add("n", 0, INT64_MAX));
  Status last;
  int levels = 0;
  for (; levels < 22 && last.ok(); ++levels) {
    Result<Dim> next = table.make(TENON_DIM_MOD, dim, 1009 + levels);
    if (next.ok()) next = table.make(TENON_DIM_ADD, make(TENON_DIM_FLOORDIV, dim, 2), *next);
    if (next.ok())
      dim = *next;
    else
      last = next.status();
  }
  EXPECT_GT(levels, 8);
  EXPECT_EQ(last.error_code(), "T0305");
  EXPECT_EQ(last.message(), "a symbolic dim has more than 4096 parts");
  EXPECT_LT(table.text(dim).size(), size_t{1} << 16);
  // What was made can be viewed part by part.
  table.freeze_views();
  tenon_dim_view_t view;
  table.view(dim, &view);
  EXPECT_EQ(view.op, TENON_DIM_ADD);
}

TEST_F(DimsTest, ThousandsOfFactsStayCheap) {
  std::vector<Dim> symbols;
  for (int i = 0; i < 2000; ++i) symbols.push_back(dim(add("s" + std::to_string(i), 0, INT64_MAX)));
  for (size_t i = 1; i < symbols.size(); ++i) {
    ASSERT_TRUE(
        table.assert_fact(TENON_REL_EQ, make(TENON_DIM_FLOORDIV, symbols[i], 1), symbols[i - 1])
            .ok());
  }
  EXPECT_EQ(table.compare(TENON_REL_EQ, symbols.front(), symbols.back()), TENON_YES);
  EXPECT_EQ(table.compare(TENON_REL_EQ, make(TENON_DIM_FLOORDIV, symbols[5], 3),
                          make(TENON_DIM_FLOORDIV, symbols[1500], 3)),
            TENON_YES);
}

// The terms were read once more after a step that left fewer of them.
TEST_F(DimsTest, SettlingMayLeaveNothing) {
  for (int i = 0; i < 8; ++i) {
    const Dim n = dim(add("n" + std::to_string(i), 0, 1 << 20));
    const Dim half = make(TENON_DIM_FLOORDIV, n, 2);
    const Dim rest = make(TENON_DIM_SUB, n, half);
    EXPECT_EQ(
        table.compare(TENON_REL_EQ, make(TENON_DIM_SUB, rest, half), make(TENON_DIM_MOD, n, 2)),
        TENON_YES);
    EXPECT_EQ(table.compare(TENON_REL_EQ, rest, half), TENON_UNKNOWN);
  }
}

// A bound that is asserted late applies to dims that were made before it, nested ones included.
TEST_F(DimsTest, LateBoundsReachWhatWasMadeBefore) {
  const Dim n = dim(add("n", 0, INT64_MAX));
  const Dim early = make(TENON_DIM_FLOORDIV, make(TENON_DIM_SUB, make(TENON_DIM_MAX, n, 3), 1), 2);
  const Dim product = make(TENON_DIM_MUL, early, make(TENON_DIM_MIN, n, 2));
  const Dim plain = make(TENON_DIM_FLOORDIV, make(TENON_DIM_SUB, n, 1), 2);
  EXPECT_EQ(table.compare(TENON_REL_EQ, early, plain), TENON_UNKNOWN);
  ASSERT_TRUE(table.assert_fact(TENON_REL_LE, 3, n).ok());
  EXPECT_EQ(table.compare(TENON_REL_EQ, early, plain), TENON_YES);
  EXPECT_EQ(table.compare(TENON_REL_EQ, product, make(TENON_DIM_MUL, plain, 2)), TENON_YES);
  EXPECT_EQ(table.compare(TENON_REL_EQ, make(TENON_DIM_FLOORDIV, early, 3),
                          make(TENON_DIM_FLOORDIV, plain, 3)),
            TENON_YES);
}

TEST_F(DimsTest, FrozenTablesOnlyFind) {
  const Dim n = dim(add("n", 0, INT64_MAX));
  const Dim twice = make(TENON_DIM_MUL, n, 2);
  table.freeze_views();
  EXPECT_EQ(*table.find(TENON_DIM_ADD, n, n), twice);
  EXPECT_EQ(table.find(TENON_DIM_MUL, n, 3).status().error_code(), "T0302");
  tenon_dim_view_t view;
  table.view(twice, &view);
  EXPECT_EQ(view.op, TENON_DIM_MUL);
  EXPECT_EQ(view.a, 2);
  EXPECT_EQ(view.b, n);
}

}  // namespace
}  // namespace tenon::ir
