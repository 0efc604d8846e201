// The stage interpreter computes what ir.h defines, and reports planted defects.
#include <cmath>

#include "tests/interpreter/test_programs.h"

namespace tenon::interpreter {
namespace {

using kg::Builder;
using kg::ExprId;
using kg::Kernel;
using kg::kNone;
using kg::Role;
using kg::Tensor;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// One Map of one input of `type`.
Kernel map_kernel(DType type, int64_t n, const std::function<ExprId(kg::Pool&, ExprId)>& body) {
  Builder b;
  const Tensor x = b.input(type, dims_of(b, {n}));
  const DType result = b.pool().type(body(b.pool(), b.pool().number(0, type)));
  b.output(b.map(result, x.dims,
                 [&](std::span<const ExprId> i) { return body(b.pool(), b.load(x, i)); }));
  return only_kernel(b);
}

Reg result_of(Kernel kernel, Reg operand) {
  Subject s(std::move(kernel));
  s.put(buffer_with(s.kernel, Role::kIn), 0, operand);
  EXPECT_EQ(s.run(), "");
  return s.at(buffer_with(s.kernel, Role::kOut), 0);
}

// ---- Values ----

TEST(Values, WordsAreExact) {
  const int64_t large = (int64_t{1} << 62) + 1;
  const Kernel k =
      map_kernel(TENON_I64, 1, [](kg::Pool& p, ExprId x) { return p.op(TENON_S_ADD, {x, x}); });
  EXPECT_EQ(result_of(k, Reg{.i = large}).i, INT64_MIN + 2);
}

TEST(Values, IntegersWrapInTheirType) {
  const Kernel k =
      map_kernel(TENON_U8, 1, [](kg::Pool& p, ExprId x) { return p.op(TENON_S_MUL, {x, x}); });
  EXPECT_EQ(result_of(k, Reg{.i = 17}).i, 289 - 256);
  const Kernel least = map_kernel(TENON_I32, 1, [](kg::Pool& p, ExprId x) {
    return p.op(TENON_S_DIV, {x, p.integer(-1, TENON_I32)});
  });
  EXPECT_EQ(result_of(least, Reg{.i = INT32_MIN}).i, INT32_MIN);
  const Kernel zero = map_kernel(TENON_I32, 1, [](kg::Pool& p, ExprId x) {
    return p.op(TENON_S_DIV, {p.integer(7, TENON_I32), x});
  });
  EXPECT_EQ(result_of(zero, Reg{.i = 0}).i, -1);
}

TEST(Values, NarrowFloatsRoundOnce) {
  const Kernel k =
      map_kernel(TENON_F32, 1, [](kg::Pool& p, ExprId x) { return p.convert(x, TENON_F16); });
  EXPECT_EQ(result_of(k, Reg{.f = 2049}).f, 2048);  // rounds to even
  EXPECT_EQ(result_of(k, Reg{.f = 65520}).f, INFINITY);
  const Kernel exact = map_kernel(TENON_F32, 1, [](kg::Pool& p, ExprId x) {
    return p.op(TENON_S_ADD, {x, p.number(1, TENON_F32)});
  });
  EXPECT_EQ(result_of(exact, Reg{.f = 16777216}).f, 16777216);
}

TEST(Values, ConversionsSaturate) {
  const Kernel k =
      map_kernel(TENON_F32, 1, [](kg::Pool& p, ExprId x) { return p.convert(x, TENON_I8); });
  EXPECT_EQ(result_of(k, Reg{.f = 1000}).i, 127);
  EXPECT_EQ(result_of(k, Reg{.f = NAN}).i, 0);
}

// ---- Kinds of stages ----

TEST(Stages, PartialSumsMeet) {
  Builder b;
  const uint32_t dims[] = {0, 1};
  b.output(b.reduce(b.input(TENON_I32, dims_of(b, {3, 5})), dims, kg::Fold::kSum));
  const Kernel k = only_kernel(b);
  for (uint32_t partials : {1u, 2u, 7u, 100u}) {
    Subject s(k);
    EXPECT_EQ(s.run({0, partials, nullptr}), "");
    EXPECT_EQ(s.at(buffer_with(k, Role::kOut), 0).i, 120) << partials;
  }
}

TEST(Stages, ArgMaxTakesTheFirstWhateverTheOrder) {
  Builder b;
  const uint32_t dims[] = {0};
  b.output(b.reduce(b.input(TENON_I32, dims_of(b, {5})), dims, kg::Fold::kArgMax, TENON_DTYPE_NONE,
                    TENON_I64));
  const Kernel k = only_kernel(b);
  for (uint32_t partials : {1u, 2u, 3u}) {
    Subject s(k);
    for (size_t i : {1, 2, 4}) s.put(0, i, Reg{.i = 9});
    EXPECT_EQ(s.run({0, partials, nullptr}), "");
    EXPECT_EQ(s.at(buffer_with(k, Role::kOut), 0).i, 1);
  }
}

TEST(Stages, ContractionsSumProducts) {
  Builder b;
  const uint32_t inner_a[] = {1}, inner_b[] = {0};
  b.output(b.dot(b.input(TENON_F32, dims_of(b, {2, 3})), b.input(TENON_F32, dims_of(b, {3, 2})), {},
                 {}, inner_a, inner_b));
  Subject s(only_kernel(b));
  EXPECT_EQ(s.run(), "");
  EXPECT_EQ(s.numbers(buffer_with(s.kernel, Role::kOut)), (std::vector<double>{22, 28, 49, 64}));
}

TEST(Stages, ScansRunInOrder) {
  Builder b;
  b.output(b.scan(b.input(TENON_I32, dims_of(b, {2, 3})), 1, kg::Fold::kSum, false, true, TENON_I32,
                  TENON_I32));
  Subject s(only_kernel(b));
  EXPECT_EQ(s.run({3, 1, nullptr}), "");
  EXPECT_EQ(s.numbers(buffer_with(s.kernel, Role::kOut)), (std::vector<double>{0, 1, 3, 0, 4, 9}));
}

TEST(Stages, ScattersAddToWhatIsThere) {
  Builder b;
  const Tensor x = b.input(TENON_I32, dims_of(b, {3})), at = b.input(TENON_I64, dims_of(b, {4}));
  const auto place = [&](std::span<const ExprId> i) {
    const ExprId index = b.load(at, i);
    return kg::Place{{index}, b.pool().cmp(TENON_CMP_LT, index, b.pool().integer(3))};
  };
  b.output(b.scatter(x, at.dims, place, [&](std::span<const ExprId>, ExprId old) {
    return b.pool().op(TENON_S_ADD, {old, b.pool().integer(10, TENON_I32)});
  }));
  Subject s(only_kernel(b));
  const uint32_t places = buffer_with(s.kernel, Role::kIn, 1);
  for (size_t i = 0; i < 4; ++i)
    s.put(places, i, Reg{.i = i == 3 ? 7 : 2});  // element 2 three times, one position empty
  EXPECT_EQ(s.run(), "");
  EXPECT_EQ(s.numbers(buffer_with(s.kernel, Role::kOut)), (std::vector<double>{1, 2, 33}));
}

TEST(Stages, SortsKeepTheOrderOfEqualKeys) {
  Builder b;
  const Tensor x = b.input(TENON_I32, dims_of(b, {4})), y = b.input(TENON_I32, dims_of(b, {4}));
  const Tensor both[] = {x, y};
  const int64_t descending[] = {1};
  for (const Tensor& t : b.sort(both, 0, 1, descending, b.dim(3))) b.output(t);
  Subject s(only_kernel(b));
  for (size_t i = 0; i < 4; ++i) s.put(0, i, Reg{.i = i == 2 ? 1 : 5});
  EXPECT_EQ(s.run(), "");
  EXPECT_EQ(s.numbers(buffer_with(s.kernel, Role::kOut, 1)), (std::vector<double>{1, 2, 4}));
}

TEST(Stages, GuardedLoadsGiveTheirOther) {
  Builder b;
  const int64_t low[] = {1}, interior[] = {0};
  const Tensor x = b.input(TENON_I32, dims_of(b, {2}));
  b.output(b.pad(x, b.fill(TENON_I32, {}, 9), low, interior, dims_of(b, {5})));
  Subject s(only_kernel(b));
  EXPECT_EQ(s.run(), "");
  EXPECT_EQ(s.numbers(buffer_with(s.kernel, Role::kOut)), (std::vector<double>{9, 1, 2, 9, 9}));
}

TEST(Stages, RowsThatShareMemoryOfTheResult) {
  Subject s(softmax_kernel(5, 3));
  ASSERT_TRUE(
      std::ranges::any_of(s.kernel.buffers, [](const kg::Buffer& b) { return b.alias_of >= 0; }));
  EXPECT_EQ(s.run({17, 2, nullptr}), "");
  double sum = 0;
  for (double x : s.numbers(buffer_with(s.kernel, Role::kOut))) sum += x;
  EXPECT_NEAR(sum, 5, 1e-5);
  s.fill();
  EXPECT_EQ(s.run_as_prepared({17, 2, nullptr}), "");
}

// ---- Planted defects ----

// [3, 4] = transpose of [4, 3], plus 1.
Kernel transposing() {
  Builder b;
  const Tensor x = b.input(TENON_F32, dims_of(b, {4, 3}));
  b.output(b.map(x.type, dims_of(b, {3, 4}), [&](std::span<const ExprId> i) {
    const ExprId turned[] = {i[1], i[0]};
    return b.pool().op(TENON_S_ADD, {b.load(x, turned), b.pool().number(1, TENON_F32)});
  }));
  return only_kernel(b);
}

TEST(Planted, NothingIsReportedForRightPrograms) {
  Subject s(transposing());
  EXPECT_EQ(s.run({5, 1, nullptr}), "");
  for (size_t i = 0; i < 12; ++i) EXPECT_TRUE(s.stored(buffer_with(s.kernel, Role::kOut), i));
}

TEST(Planted, TwoAxesOnOneLoop) {
  Kernel k = transposing();
  k.stages[0].space[1] = k.stages[0].space[0];
  EXPECT_TRUE(has(Subject(k).run(), "runs along axis i0 twice"));
}

TEST(Planted, AnAxisWithoutALoop) {
  Kernel k = transposing();
  k.stages[0].space.pop_back();
  k.lead = k.stages[0].space;
  EXPECT_TRUE(has(Subject(k).run(), "no loop runs along axis i1"));
}

TEST(Planted, SwappedIndicesOfAStore) {
  Kernel k = transposing();
  std::swap(k.stages[0].store[0].index[0], k.stages[0].store[0].index[1]);
  EXPECT_TRUE(has(Subject(k).run(), "which is outside of it"));
}

TEST(Planted, AStoreToOneElementFromManyPoints) {
  Kernel k = transposing();
  k.stages[0].store[0].index[1] = k.pool.integer(0);
  const std::string problems = Subject(k).run();
  EXPECT_TRUE(has(problems, "another point of the lead axes stored")) << problems;
}

TEST(Planted, AStoreThatLeavesElementsOut) {
  Kernel k = transposing();
  k.pool.add_axis(k.pool.integer(2));
  const uint32_t shorter = static_cast<uint32_t>(k.pool.axes().size() - 1);
  const std::unordered_map<ExprId, ExprId> rename = {
      {k.pool.axis(k.lead[1]), k.pool.axis(shorter)}};
  for (ExprId& e : k.stages[0].value) e = k.pool.substitute(e, rename);
  for (ExprId& e : k.stages[0].store[0].index) e = k.pool.substitute(e, rename);
  k.stages[0].space[1] = k.lead[1] = shorter;
  Subject s(k);
  EXPECT_EQ(s.run(), "");
  EXPECT_FALSE(s.stored(buffer_with(k, Role::kOut), 3));
}

TEST(Planted, ADroppedGuard) {
  Builder b;
  const int64_t low[] = {1}, interior[] = {0};
  b.output(b.pad(b.input(TENON_I32, dims_of(b, {2})), b.fill(TENON_I32, {}, 9), low, interior,
                 dims_of(b, {5})));
  Kernel k = only_kernel(b);
  std::vector<ExprId> loads;
  k.pool.loads(k.stages[0].value[0], &loads);
  ASSERT_FALSE(loads.empty());
  const ExprId l = loads[0], at[] = {k.pool.arg(l, 2)};
  ASSERT_NE(k.pool.arg(l, 0), kNone);
  k.stages[0].value[0] =
      k.pool.substitute(k.stages[0].value[0], {{l, k.pool.load(k.pool.at(l).ref, TENON_I32, at)}});
  EXPECT_TRUE(has(Subject(k).run(), "outside of it"));
}

// Finds the stage that divides, and its first load of the exponentials, which lie in the output.
TEST(Planted, AliasReadAfterItIsOverwritten) {
  Kernel k = softmax_kernel(5, 3);
  uint32_t temp = ~0u;
  for (uint32_t b = 0; b < k.buffers.size(); ++b) {
    if (k.buffers[b].alias_of >= 0) temp = b;
  }
  ASSERT_NE(temp, ~0u);
  // Another result of the exponentials, computed when the quotients already lie there.
  kg::Buffer late = k.buffers[static_cast<size_t>(k.buffers[temp].alias_of)];
  k.buffers.push_back(late);
  k.buffer_origin.push_back(77);
  kg::Stage copy = k.stages.back();
  copy.store[0].buffer = static_cast<uint32_t>(k.buffers.size() - 1);
  copy.value = {k.pool.load(temp, TENON_F32, copy.store[0].index)};
  k.stages.push_back(copy);
  const std::string problems = Subject(k).run();
  EXPECT_TRUE(has(problems, "where another value lies by now")) << problems;
}

TEST(Planted, ATempThatWasNeverStored) {
  Kernel k = softmax_kernel(5, 3);
  std::swap(k.stages[0], k.stages[1]);
  const std::string problems = Subject(k).run();
  EXPECT_TRUE(has(problems, "which was never stored")) << problems;
}

TEST(Planted, ARowThatReadsAnotherRow) {
  Kernel k = softmax_kernel(5, 3);
  kg::Stage& last = k.stages.back();
  const ExprId lead = k.pool.axis(k.lead[0]);
  const ExprId wrong = k.pool.min(k.pool.add(lead, k.pool.integer(1)), k.pool.integer(4));
  std::vector<ExprId> loads;
  k.pool.loads(last.value[0], &loads);
  std::unordered_map<ExprId, ExprId> map;
  for (ExprId l : loads) {
    std::vector<ExprId> at(k.pool.args(l).begin() + 2, k.pool.args(l).end());
    for (ExprId& e : at) e = k.pool.substitute(e, {{lead, wrong}});
    map[l] = k.pool.load(k.pool.at(l).ref, k.pool.type(l), at);
  }
  for (ExprId& e : last.value) e = k.pool.substitute(e, map);
  const std::string problems = Subject(k).run();
  EXPECT_TRUE(has(problems, "which was never stored") ||
              has(problems, "another point of the lead axes stored"))
      << problems;
}

// An element-wise stage whose result replaces its operand may read the operand at its own element
// only.
TEST(Planted, AnOperandInPlaceThatIsReadElsewhere) {
  Builder b;
  const Tensor x = b.input(TENON_I32, dims_of(b, {6}));
  const uint32_t dims[] = {0};
  b.output(b.reverse(x, dims));
  Subject s(only_kernel(b));
  std::vector<Place> places = places_of_program(s.kernel, &s.memory);
  const uint32_t in = buffer_with(s.kernel, Role::kIn), out = buffer_with(s.kernel, Role::kOut);
  places[out].memory = places[in].memory;
  Report report;
  run_stages(s.kernel, {}, places, {}, &report);
  EXPECT_TRUE(has(report.text(), "where another value lies by now")) << report.text();
}

// Two stages in one loop nest: the second overwrites what the first still has to read. It is
// reported for any order.
TEST(Planted, LoopsThatOverwriteWhatOtherPointsRead) {
  Builder b;
  const Tensor x = b.input(TENON_F32, dims_of(b, {3, 3}));
  b.output(b.map(x.type, x.dims, [&](std::span<const ExprId> i) {
    return b.pool().op(TENON_S_NEG, {b.load(x, i)});
  }));
  kg::Prepared p = kg::prepare(only_kernel(b));
  Kernel& k = p.kernel;
  // The stage again, in the same loops, but it stores to the operand, one element further.
  k.stages.push_back(k.stages[0]);
  const uint32_t in = buffer_with(k, Role::kIn);
  k.stages[0].store[0].buffer = buffer_with(k, Role::kOut);
  k.stages[1].store[0] = {
      in,
      {k.pool.min(k.pool.integer(8), k.pool.add(k.stages[0].store[0].index[0], k.pool.integer(1)))},
      kNone};
  k.stages[1].value = {k.pool.number(0, TENON_F32)};
  p.passes = {{{0, 1}, k.stages[0].space, {}}};
  k.lead.clear();
  k.buffers[in].role = Role::kIn;
  Subject s(k);
  std::vector<Place> places = places_of_program(k, &s.memory);
  places[in].rewritten = true;
  Report report;
  run_prepared(p, {}, places, {}, &report);
  EXPECT_TRUE(has(report.text(), "another point of the same loops")) << report.text();
}

TEST(Planted, AMergeThatForgetsAState) {
  Builder b;
  const uint32_t dims[] = {0};
  b.output(b.reduce(b.input(TENON_I32, dims_of(b, {4})), dims, kg::Fold::kSum));
  Kernel k = only_kernel(b);
  k.stages[0].merge = {k.pool.state(0, TENON_I32)};
  Subject s(k);
  EXPECT_EQ(s.run({0, 2, nullptr}), "");
  EXPECT_NE(s.at(buffer_with(k, Role::kOut), 0).i, 10);
}

}  // namespace
}  // namespace tenon::interpreter
