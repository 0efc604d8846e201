// Index arithmetic: simplified expressions keep their values, and the pool decides a comparison
// only if the result always holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <unordered_map>

#include "tenon/kernelgen/ir/ir.h"

namespace tenon::kernelgen {
namespace {

// A random expression over two extents and the axes below, evaluated without the pool.
struct Tree {
  uint16_t op = 0;  // 0: a leaf
  int64_t constant = 0;
  int leaf = -1;  // index of the leaf; -1: the constant
  std::vector<Tree> args;

  int64_t evaluate(const std::vector<int64_t>& leaves) const {
    if (op == 0) return leaf < 0 ? constant : leaves[static_cast<size_t>(leaf)];
    const int64_t a = args[0].evaluate(leaves), b = args[1].evaluate(leaves);
    const auto quotient = [&] { return a / b - (a % b < 0 ? 1 : 0); };
    switch (op) {
      case TENON_S_ADD:
        return a + b;
      case TENON_S_SUB:
        return a - b;
      case TENON_S_MUL:
        return a * b;
      case TENON_S_MIN:
        return std::min(a, b);
      case TENON_S_MAX:
        return std::max(a, b);
      case kFloorDiv:
        return quotient();
      default:
        return a - quotient() * b;
    }
  }
  ExprId build(Pool& pool, const std::vector<ExprId>& leaves) const {
    if (op == 0) return leaf < 0 ? pool.integer(constant) : leaves[static_cast<size_t>(leaf)];
    return pool.op(op, {args[0].build(pool, leaves), args[1].build(pool, leaves)});
  }
};

Tree random_tree(std::mt19937& rng, int depth, int leaves) {
  Tree t;
  if (depth == 0 || rng() % 6 == 0) {
    t.leaf = rng() % 3 != 0 ? static_cast<int>(rng() % static_cast<unsigned>(leaves)) : -1;
    t.constant = static_cast<int64_t>(rng() % 7) - 2;
    return t;
  }
  static constexpr uint16_t kOps[] = {TENON_S_ADD, TENON_S_SUB, TENON_S_MUL, TENON_S_MIN,
                                      TENON_S_MAX, kFloorDiv,   kMod,        TENON_S_ADD};
  t.op = kOps[rng() % 8];
  t.args = {random_tree(rng, depth - 1, leaves), random_tree(rng, depth - 1, leaves)};
  if (t.op == kFloorDiv || t.op == kMod)
    t.args[1] = Tree{0, static_cast<int64_t>(rng() % 6) + 1, -1, {}};
  return t;
}

// Two extents of any size (the second at least 1), and axes whose extents are computed from them.
struct Setting {
  Pool pool;
  std::vector<ExprId> leaves,
      extents;  // leaves: the two sizes, then the axes; extents: of the axes
  Setting() {
    const ExprId n = pool.extent(pool.add_extent({0})), m = pool.extent(pool.add_extent({1}));
    leaves = {n, m};
    extents = {
        n,
        pool.floordiv(n, pool.integer(2)),
        pool.ceildiv(n, 2),
        pool.integer(3),
        m,
        pool.add(pool.floordiv(pool.sub(m, pool.integer(1)), pool.integer(3)), pool.integer(1))};
    for (const ExprId extent : extents) leaves.push_back(pool.axis(pool.add_axis(extent)));
  }
  // The value of every leaf at a point, often the first or last element of an axis. Empty: an axis
  // has no elements.
  std::vector<int64_t> point(std::mt19937& rng) {
    static constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 31, 64, 1000};
    std::vector<int64_t> out = {rng() % 9 == 0 ? 0 : kSizes[rng() % 13], kSizes[rng() % 13]};
    for (const ExprId extent : extents) {
      const int64_t size = pool.evaluate(extent, out);
      if (size <= 0) return {};
      out.push_back(rng() % 3 == 0   ? size - 1
                    : rng() % 3 == 0 ? 0
                                     : static_cast<int64_t>(rng() % static_cast<uint64_t>(size)));
    }
    return out;
  }
  int64_t value(ExprId e, const std::vector<int64_t>& at) {
    std::unordered_map<ExprId, ExprId> known;
    for (size_t i = 0; i < leaves.size(); ++i) known.emplace(leaves[i], pool.integer(at[i]));
    const auto v = pool.value(pool.substitute(e, known));
    EXPECT_TRUE(v.has_value()) << pool.text(e);
    return v.value_or(0);
  }
};

TEST(Index, RandomExpressionsKeepTheirValues) {
  std::mt19937 rng(17);
  Setting s;
  std::vector<std::vector<int64_t>> points;
  while (points.size() < 40) {
    if (auto p = s.point(rng); !p.empty()) points.push_back(std::move(p));
  }
  for (int i = 0; i < 2500; ++i) {
    const Tree tree = random_tree(rng, 4, static_cast<int>(s.leaves.size()));
    const ExprId e = tree.build(s.pool, s.leaves);
    const Interval range = s.pool.range(e);
    for (const auto& p : points) {
      const int64_t want = tree.evaluate(p);
      ASSERT_EQ(s.value(e, p), want) << s.pool.text(e);
      ASSERT_TRUE(range.lo <= want && want <= range.hi)
          << s.pool.text(e) << " is " << want << ", in " << range.lo << ".." << range.hi;
    }
  }
}

// A comparison that was decided must hold at every point; an undecided one is left to the kernel.
TEST(Index, DecidedComparisonsHold) {
  std::mt19937 rng(19);
  Setting s;
  std::vector<std::vector<int64_t>> points;
  while (points.size() < 120) {
    if (auto p = s.point(rng); !p.empty()) points.push_back(std::move(p));
  }
  const int leaves = static_cast<int>(s.leaves.size());
  int decided = 0;
  for (int i = 0; i < 6000; ++i) {
    const Tree a = random_tree(rng, 3, leaves), b = random_tree(rng, 2, leaves);
    const ExprId x = a.build(s.pool, s.leaves), y = b.build(s.pool, s.leaves);
    for (const uint32_t relation : {TENON_CMP_LT, TENON_CMP_LE, TENON_CMP_EQ}) {
      const auto answer = s.pool.value(s.pool.cmp(relation, x, y));
      if (!answer) continue;
      ++decided;
      for (const auto& p : points) {
        const int64_t u = a.evaluate(p), v = b.evaluate(p);
        const bool holds = relation == TENON_CMP_LT   ? u < v
                           : relation == TENON_CMP_LE ? u <= v
                                                      : u == v;
        ASSERT_EQ(holds, *answer != 0)
            << s.pool.text(x) << " relation " << relation << " " << s.pool.text(y);
      }
    }
  }
  EXPECT_GT(decided, 1000);
}

TEST(Index, SizesThatWereDividedBoundWhatIsReadOfThem) {
  Pool p;
  const ExprId n = p.extent(p.add_extent({}));
  const ExprId half = p.axis(p.add_axis(p.floordiv(n, p.integer(2)))),
               two = p.axis(p.add_axis(p.integer(2)));
  const ExprId rounded = p.axis(p.add_axis(p.ceildiv(n, 2))),
               quarter = p.axis(p.add_axis(p.floordiv(n, p.integer(4))));
  const auto below = [&](ExprId at) { return p.value(p.cmp(TENON_CMP_LT, at, n)) == 1; };
  // Adjacent windows lie inside their input; if the count is rounded up, the last may reach beyond
  // it.
  EXPECT_TRUE(below(p.add(p.mul(half, p.integer(2)), two)));
  EXPECT_FALSE(below(p.add(p.mul(rounded, p.integer(2)), two)));
  EXPECT_TRUE(below(p.sub(p.add(p.mul(rounded, p.integer(2)), two), p.integer(2))));
  EXPECT_TRUE(below(p.mul(quarter, p.integer(3))));
  EXPECT_FALSE(below(p.add(p.mul(quarter, p.integer(4)), p.integer(4))));
}

}  // namespace
}  // namespace tenon::kernelgen
