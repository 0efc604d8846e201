// What the verifier reports about programs and kernels with one fault each, and what happens to
// them.
#include <gtest/gtest.h>

#include "tenon/kernelgen/ir/stages.h"
#include "tenon/kernelgen/testing/test_values.h"
#include "tenon/kernelgen/verify/memory_trace.h"

namespace tenon::kernelgen {
namespace {

using testing::compare;
using testing::Data;
using testing::dims;
using testing::Session;

Tensor unary(Builder& b, uint32_t code, const Tensor& x) {
  return testing::op(b, code, {x});
}
Tensor binary(Builder& b, uint32_t code, const Tensor& x, const Tensor& y) {
  return testing::op(b, code, {x, y});
}

// exp(x - max) / sum along the last dim: a row kernel of four stages whose temp uses the memory of
// the result.
void softmax(Builder& b, std::vector<ExprId> size) {
  const Tensor x = b.input(TENON_F32, size);
  const uint32_t last[] = {static_cast<uint32_t>(size.size() - 1)};
  std::vector<uint32_t> rows(size.size() - 1);
  for (uint32_t i = 0; i < rows.size(); ++i) rows[i] = i;
  const Tensor top = b.reduce(x, last, Fold::kMax);
  const Tensor e = unary(b, TENON_S_EXP, binary(b, TENON_S_SUB, x, b.broadcast(top, size, rows)));
  b.output(binary(b, TENON_S_DIV, e, b.broadcast(b.reduce(e, last, Fold::kSum), size, rows)));
}

Kernel softmax_kernel(std::vector<int64_t> size = {3, 5}) {
  Builder b;
  std::vector<ExprId> d;
  for (int64_t n : size) d.push_back(n < 0 ? b.extent() : b.dim(n));
  softmax(b, d);
  return partition(b.take_program(), Target::avx512())[0];
}

std::string complaint(const Kernel& k) {
  Verifier verifier(Verifier::kThorough);
  return verifier.kernel(k) ? "" : verifier.notes.back();
}
std::string complaint_of_program(const Kernel& k) {
  Verifier verifier(Verifier::kThorough);
  return verifier.program(k, "a step") ? "" : verifier.notes.back();
}
#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

size_t stage_that_stores(const Kernel& k, Role role) {
  for (size_t i = 0; i < k.stages.size(); ++i) {
    if (k.buffers[k.stages[i].store[0].buffer].role == role) return i;
  }
  return k.stages.size();
}

TEST(Verify, SoftmaxHolds) {
  EXPECT_EQ(complaint(softmax_kernel()), "");
  EXPECT_EQ(complaint(softmax_kernel({-1, -1})), "");
  EXPECT_EQ(complaint(softmax_kernel({50000, 4000})), "");
}

TEST(Verify, AnAxisTwiceInAStage) {
  Kernel k = softmax_kernel();
  Stage& s = k.stages[stage_that_stores(k, Role::kOut)];
  s.space.push_back(s.space[0]);
  EXPECT_SAYS(complaint(k), "runs twice along");
}

// The first defect that the verifier was written for: two axes of equal extent became one loop, and
// only the diagonal was written.
TEST(Verify, TheDiagonalOnly) {
  for (int64_t n : {3, 3000}) {
    Builder b;
    const Tensor x = b.input(TENON_F32, dims(b, {n, n}));
    b.output(unary(b, TENON_S_EXP, x));
    Kernel k = b.take_program();
    Stage& s = k.stages[0];
    const std::unordered_map<ExprId, ExprId> same = {
        {k.pool.axis(s.space[1]), k.pool.axis(s.space[0])}};
    rewrite(k.pool, s, same);
    EXPECT_SAYS(complaint_of_program(k), n == 3 ? "a second time" : "at every point of") << n;
    s.space.pop_back();
    EXPECT_SAYS(complaint_of_program(k), n == 3 ? "never stored" : "not every element is stored")
        << n;
  }
}

TEST(Verify, AStoreOfAnotherRow) {
  Kernel k = softmax_kernel({5, 5});
  Stage& s = k.stages[stage_that_stores(k, Role::kOut)];
  std::swap(s.store[0].index[0], s.store[0].index[1]);
  EXPECT_SAYS(complaint(k), "another row");
}

TEST(Verify, AReadOfAnotherRow) {
  for (const std::vector<int64_t>& size : {std::vector<int64_t>{5, 5}, {-1, 7}, {30000, 3000}}) {
    Kernel k = softmax_kernel(size);
    Stage& s = k.stages.back();
    std::unordered_map<ExprId, ExprId> map;
    for (ExprId l : loads_of(k.pool, s)) {
      if (k.buffers[k.pool.at(l).ref].role != Role::kTemp) continue;
      std::vector<ExprId> index(k.pool.args(l).begin() + 2, k.pool.args(l).end());
      index[0] = k.pool.integer(0);
      map[l] = k.pool.load(k.pool.at(l).ref, k.pool.type(l), index);
    }
    rewrite(k.pool, s, map);
    EXPECT_SAYS(complaint(k), "another row stores");
  }
}

TEST(Verify, AReadBeforeTheStore) {
  Kernel k = softmax_kernel();
  std::swap(k.stages[0], k.stages[1]);
  EXPECT_SAYS(complaint(k), "has not been stored yet");
}

TEST(Verify, MemoryTakenAStageEarly) {
  for (const std::vector<int64_t>& size : {std::vector<int64_t>{3, 5}, {-1, -1}, {3000, 5000}}) {
    Builder b;
    const Tensor x = b.input(TENON_F32, {size[0] < 0 ? b.extent() : b.dim(size[0]),
                                         size[0] < 0 ? b.extent() : b.dim(size[1])});
    const uint32_t last[] = {1}, row[] = {0};
    const Tensor e =
        unary(b, TENON_S_EXP,
              binary(b, TENON_S_SUB, x, b.broadcast(b.reduce(x, last, Fold::kMax), x.dims, row)));
    const Tensor sum = b.reduce(e, last, Fold::kSum);
    const Tensor y = binary(b, TENON_S_DIV, e, b.broadcast(sum, x.dims, row));
    b.output(y);
    const Tensor top = b.reduce(y, last, Fold::kMax);
    b.output(binary(b, TENON_S_MUL, e, b.broadcast(top, x.dims, row)));
    Kernel k = partition(b.take_program(), Target::avx512())[0];
    EXPECT_EQ(complaint(k), "");
    // e is read again after y was written.
    uint32_t temp = ~0u, first = ~0u;
    for (uint32_t i = 0; i < k.buffers.size(); ++i) {
      if (k.buffers[i].role == Role::kTemp && k.buffers[i].dims.size() == 2) temp = i;
      if (k.buffers[i].role == Role::kOut && first == ~0u) first = i;
    }
    ASSERT_NE(temp, ~0u) << to_text(k);
    k.buffers[temp].alias_of = static_cast<int32_t>(first);
    EXPECT_SAYS(complaint(k), "has overwritten");
  }
}

TEST(Verify, AGuardThatIsGone) {
  for (int64_t n : {6, 100000}) {
    Builder b;
    const Tensor x = b.input(TENON_F32, dims(b, {n})), zero = b.input(TENON_F32, {});
    const int64_t low[] = {1}, interior[] = {0};
    b.output(b.pad(x, zero, low, interior, dims(b, {n + 3})));
    Kernel k = b.take_program();
    EXPECT_EQ(complaint_of_program(k), "");
    Stage& s = k.stages[0];
    std::unordered_map<ExprId, ExprId> map;
    for (ExprId l : loads_of(k.pool, s)) {
      if (k.pool.arg(l, 0) != kNone)
        map[l] = k.pool.load(k.pool.at(l).ref, k.pool.type(l), k.pool.args(l).subspan(2));
    }
    ASSERT_FALSE(map.empty());
    rewrite(k.pool, s, map);
    EXPECT_SAYS(complaint_of_program(k), "reads beyond");
  }
}

TEST(Verify, SwappedAxes) {
  for (int64_t n : {4, 4000}) {
    Builder b;
    const Tensor x = b.input(TENON_F32, dims(b, {n, 2 * n}));
    const uint32_t flip[] = {1, 0};
    b.output(b.transpose(x, flip));
    Kernel k = b.take_program();
    Stage& s = k.stages[0];
    std::unordered_map<ExprId, ExprId> map;
    for (ExprId l : loads_of(k.pool, s)) {
      const ExprId index[] = {k.pool.arg(l, 3), k.pool.arg(l, 2)};
      map[l] = k.pool.load(k.pool.at(l).ref, k.pool.type(l), index);
    }
    rewrite(k.pool, s, map);
    EXPECT_SAYS(complaint_of_program(k), "reads beyond");
  }
}

TEST(Verify, AnAxisOfNoPointsReadsNothing) {
  Builder b;
  const Tensor x = b.input(TENON_F32, dims(b, {2, 3}));
  const std::vector<ExprId> from = dims(b, {5, 0});
  const int64_t steps[] = {1, 1};
  b.output(b.slice(x, from, steps, dims(b, {0, 3})));
  const uint32_t flip[] = {1, 0};
  b.output(b.transpose(b.slice(x, from, steps, dims(b, {0, 3})), flip));
  EXPECT_EQ(complaint_of_program(b.take_program()), "");
}

// ---- Loops ----

std::string complaint_of_loops(const Prepared& p) {
  std::string why;
  for (bool by_stage : {false, true}) {
    if (trace_prepared(p, {{}, Verifier::kThorough, Sizes::kReal, {}}, by_stage, &why) ==
        Traced::kWrong)
      return why;
  }
  return "";
}

// Stages over the same points in one loop nest: a stage may read only its own point's value of an
// earlier one. The stages of softmax are the maximum of a row, the exponentials, their sum and the
// quotient.
TEST(Verify, TheOrderOfKernels) {
  Builder b;
  softmax(b, dims(b, {3, 5}));
  Kernel k = b.take_program();
  inline_maps(k);
  ASSERT_EQ(k.stages.size(), 4u);
  std::string why;
  EXPECT_TRUE(verify_order(k, {0, 0, 1, 2}, &why)) << why;
  EXPECT_FALSE(verify_order(k, {0, 1, 0, 2}, &why));
  EXPECT_EQ(why, "stage 2 reads b" + std::to_string(k.stages[1].store[0].buffer) +
                     " before stage 1 has run");
  // An overlay of the exponentials, which the sum and the quotient read.
  Stage over = k.stages[1];
  over.overlay = true;
  k.stages.push_back(over);
  EXPECT_TRUE(verify_order(k, {0, 0, 1, 2, 2}, &why)) << why;
  EXPECT_FALSE(verify_order(k, {0, 0, 1, 2, 1}, &why));
  EXPECT_EQ(why, "stage 4 is stored over b" + std::to_string(over.store[0].buffer) +
                     " before stage 3 has run");
}

TEST(Verify, ALengthThatDataTells) {
  Kernel k = softmax_kernel();
  Pool& p = k.pool;
  const uint32_t counts = static_cast<uint32_t>(k.buffers.size());
  k.buffers.push_back({});
  k.buffers.back().type = TENON_I64;
  const uint32_t axis = p.add_axis(p.load(counts, TENON_I64, {}));
  k.stages.back().reduce = {axis};
  EXPECT_SAYS(complaint(k), "data decides how often it runs");
}

TEST(Verify, ALoopThatReadsAhead) {
  Prepared p = prepare(softmax_kernel());
  ASSERT_EQ(complaint_of_loops(p), "");
  ASSERT_GE(p.passes.size(), 3u);
  Pass& sum = p.passes[1];
  sum.stages.insert(sum.stages.end(), p.passes[2].stages.begin(), p.passes[2].stages.end());
  p.passes.erase(p.passes.begin() + 2);
  EXPECT_SAYS(complaint_of_loops(p), "has not been stored yet");
}

TEST(Verify, ATempWithoutMemory) {
  Builder b;
  const Tensor x = b.input(TENON_F32, dims(b, {3, 5}));
  const uint32_t last[] = {1}, row[] = {0};
  const Tensor e = unary(b, TENON_S_EXP, x);
  const Tensor y =
      binary(b, TENON_S_SUB, e, b.broadcast(b.reduce(e, last, Fold::kSum), x.dims, row));
  b.output(b.reduce(binary(b, TENON_S_MUL, y, y), last, Fold::kSum));
  Prepared p = prepare(partition(b.take_program(), Target::avx512())[0]);
  ASSERT_EQ(complaint_of_loops(p), "");
  const auto with = std::find(p.temp_memory.begin(), p.temp_memory.end(), true);
  ASSERT_NE(with, p.temp_memory.end()) << to_text(p.kernel);
  *with = false;
  EXPECT_SAYS(complaint_of_loops(p), "only at its own point");
}

// ---- What becomes of them ----

// Rejects every kernel of several stages, and every step that changed something.
class Suspicious : public Verifier {
 public:
  Suspicious() : Verifier(kThorough) {}
  bool program(const Kernel&, std::string_view step) override {
    return refuse("after " + std::string(step));
  }
  bool kernel(const Kernel& k, const std::vector<bool>& shared) override {
    return k.stages.size() == 1 ? Verifier::kernel(k, shared) : refuse("a kernel");
  }

 private:
  bool refuse(std::string text) { return notes.push_back(std::move(text)), false; }
};

TEST(Verify, WhatIsRefusedRunsInSingleStages) {
  Builder b;
  softmax(b, dims(b, {37, 41}));
  const Tensor x = b.input(TENON_F32, dims(b, {9, 20})), w = b.input(TENON_F32, dims(b, {20, 33}));
  const uint32_t right[] = {1}, left[] = {0};
  b.output(unary(b, TENON_S_TANH, b.dot(x, w, {}, {}, right, left)));
  ASSERT_TRUE(b.ok()) << b.why();
  const Kernel program = b.take_program();
  const testing::Meaning meaning(program, {}, {});
  for (const Target& target : testing::targets()) {
    Suspicious verifier;
    Session s;
    ASSERT_TRUE(s.build(program, target, {}, "-O1", false, &verifier)) << s.why;
    EXPECT_EQ(verifier.error, "");
    EXPECT_GE(verifier.notes.size(), 6u);
    for (const Kernel& k : s.kernels) EXPECT_EQ(k.stages.size(), 1u) << to_text(k);
    std::vector<Data> memory = meaning.input;
    s.run(&memory, 3);
    for (uint32_t i = 0; i < program.buffers.size(); ++i) {
      if (program.buffers[i].role == Role::kOut) compare(memory[i], meaning.want[i], 2e-5, i);
    }
  }
}

TEST(Verify, ASingleStageThatIsWrongIsAnError) {
  Builder b;
  b.output(unary(b, TENON_S_EXP, b.input(TENON_F32, dims(b, {4, 3}))));
  Kernel program = b.take_program();
  Stage& s = program.stages[0];
  std::swap(s.store[0].index[0], s.store[0].index[1]);
  Verifier verifier(Verifier::kQuick);
  split(program, Target::avx512(), &verifier);
  EXPECT_SAYS(verifier.error, "stores beyond the end");
}

TEST(Verify, WhichProgramsAreVerified) {
  EXPECT_TRUE(verifier_for(63, ""));
  EXPECT_FALSE(verifier_for(64, ""));
  EXPECT_TRUE(verifier_for(64, "1"));
  EXPECT_FALSE(verifier_for(3, "0"));
}

}  // namespace
}  // namespace tenon::kernelgen
