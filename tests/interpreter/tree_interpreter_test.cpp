// The tree interpreter: trees for every target give the results of their stages, and planted
// defects are reported.
#include <cmath>

#include <tenon/kernelgen/fuse/load_time.h>
#include <tenon/kernelgen/loops/loop_ir.h>

#include "tests/interpreter/agreement.h"
#include "tests/interpreter/test_programs.h"
#include "tests/interpreter/tree_interpreter.h"

namespace tenon::interpreter {
namespace {

using kg::Bind;
using kg::Builder;
using kg::ExprId;
using kg::Kernel;
using kg::LoopTree;
using kg::Node;
using kg::NodeKind;
using kg::Role;
using kg::Target;
using kg::Tensor;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

LoopTree tree_of(const Kernel& kernel, const Target& target) {
  kg::Prepared p = kg::prepare(kernel);
  kg::Schedule schedule;
  LoopTree tree;
  std::string why;
  EXPECT_TRUE(kg::schedule_kernel(p.kernel, target, &schedule, &why)) << why;
  EXPECT_TRUE(kg::lower(p, schedule, &tree, &why)) << why;
  return tree;
}

// Runs a tree and returns the reports; the subject's memory holds its results.
std::string run(Subject& s, const LoopTree& tree, const Target& target, int64_t pieces = 3) {
  Report report;
  std::vector<Memory*> memory;
  std::vector<Name> names;
  TreeOptions options{5, pieces, target.items(), {}};
  for (uint32_t b = 0; b < s.memory.size(); ++b) {
    memory.push_back(&s.memory[b]);
    names.push_back(name_of_buffer(b));
    bool shared = false;
    for (const kg::Buffer& temp : s.kernel.buffers)
      shared = shared || temp.alias_of == static_cast<int32_t>(b);
    options.rewritten.push_back(shared);
  }
  run_tree(tree, s.extents, memory, names, 1, options, &report);
  return report.text();
}

// The first node of the kind in the order of the text; null if there is none.
Node* find(std::vector<Node>& nodes, NodeKind kind,
           const std::function<bool(const Node&)>& fits = nullptr) {
  for (Node& n : nodes) {
    if (n.kind == kind && (!fits || fits(n))) return &n;
    for (auto* list : {&n.body, &n.other}) {
      if (Node* found = find(*list, kind, fits)) return found;
    }
  }
  return nullptr;
}
Node* find(LoopTree& tree, NodeKind kind, const std::function<bool(const Node&)>& fits = nullptr) {
  return find(tree.body, kind, fits);
}

bool to_buffer(const Node& n) {
  return n.space == kg::Space::kBuffer;
}
bool masked(const Node& n) {
  return n.args[n.kind == NodeKind::kStore ? 2 : 1] != kg::kNoValue;
}

std::vector<Target> targets() {
  return {Target::avx512(),        Target::avx2(),   Target::baseline(),
          Target::generic(),       Target::scalar(), Target::opencl(true),
          Target::opencl(true, 8), Target::cuda(32), Target::cuda(64)};
}

// Checks that stages and trees of a kernel leave the same results on these targets.
void agrees(const std::function<Kernel()>& make, const std::vector<Target>& all = targets()) {
  for (const Target& target : all) {
    SCOPED_TRACE(target.isa + (target.items() ? " " + std::to_string(target.group) : ""));
    Subject stages(make()), loops(stages.kernel);
    ASSERT_EQ(stages.run(), "");
    ASSERT_EQ(run(loops, tree_of(loops.kernel, target), target), "");
    for (uint32_t b = 0; b < stages.memory.size(); ++b) {
      if (stages.kernel.buffers[b].role != Role::kOut) continue;
      EXPECT_EQ(disagreement(loops.memory[b], stages.memory[b], magnitude_of(stages.memory[b]),
                             computed_type(stages.kernel)),
                "");
    }
  }
}

Kernel sums(int64_t rows, int64_t columns) {
  Builder b;
  const uint32_t last[] = {1};
  b.output(b.reduce(b.input(TENON_F32, dims_of(b, {rows, columns})), last, kg::Fold::kSum));
  return only_kernel(b);
}

Kernel products(int64_t m, int64_t k, int64_t n) {
  Builder b;
  const uint32_t inner_a[] = {1}, inner_b[] = {0};
  b.output(b.dot(b.input(TENON_F32, dims_of(b, {m, k})), b.input(TENON_F32, dims_of(b, {k, n})), {},
                 {}, inner_a, inner_b));
  return only_kernel(b);
}

// Rows of f32 times constant weights of bf16, which were packed at load.
Kernel products_of_panels(int64_t m, int64_t k, int64_t n, const Target& target) {
  Builder b;
  const uint32_t inner_a[] = {1}, inner_b[] = {0};
  b.output(b.dot(b.input(TENON_F32, dims_of(b, {m, k})),
                 b.convert(b.constant(TENON_BF16, dims_of(b, {k, n})), TENON_F32), {}, {}, inner_a,
                 inner_b));
  EXPECT_TRUE(b.ok()) << b.why();
  Kernel program = b.take_program();
  kg::move_to_load(program, target);
  for (Kernel& kernel : kg::partition(program, target)) {
    if (kernel.stages[0].kind == kg::StageKind::kContract) return std::move(kernel);
  }
  ADD_FAILURE() << "no product";
  return program;
}

// The operands are large numbers, so scores are scaled down to a few units. The last keys are
// hidden.
Kernel attention(int64_t queries, int64_t keys, int64_t features, int64_t columns) {
  Builder b;
  kg::Pool& p = b.pool();
  const Tensor q = b.input(TENON_F32, dims_of(b, {1, 2, queries, features})),
               k = b.input(TENON_F32, dims_of(b, {1, 2, keys, features})),
               v = b.input(TENON_F32, dims_of(b, {1, 2, keys, columns}));
  b.output(b.attention(q, k, v, 1, [&](ExprId x, std::span<const ExprId> at) {
    x = p.op(TENON_S_MUL, {x, p.number(2e-7, TENON_F32)});
    return p.op(TENON_S_SELECT, {p.cmp(TENON_CMP_LE, at[3], p.integer(keys - 5)), x,
                                 p.number(-INFINITY, TENON_F32)});
  }));
  return only_kernel(b, Target::avx512());
}

Kernel doubled(int64_t n) {
  Builder b;
  const Tensor x = b.input(TENON_F32, dims_of(b, {n}));
  b.output(b.map(x.type, x.dims, [&](std::span<const ExprId> i) {
    return b.pool().op(TENON_S_ADD, {b.load(x, i), b.load(x, i)});
  }));
  return only_kernel(b);
}

// A row of 64 floats times 20 columns of (q - zero) scale in blocks of 32, q of 4 or 8 bits; with
// the packed weights as inputs.
Subject weights_of_few_bits(bool nibbles, const Target& target) {
  Builder b;
  const std::vector<ExprId> dims = dims_of(b, {20, 2, 32});
  const Tensor q = b.constant(TENON_U8, dims), scale = b.constant(TENON_F32, dims_of(b, {20, 2})),
               zero = b.constant(TENON_U8, dims_of(b, {20, 2}));
  const Tensor real = b.map(TENON_F32, dims, [&](std::span<const ExprId> i) {
    kg::Pool& p = b.pool();
    ExprId integer = b.load(q, i);
    if (nibbles) integer = p.op(TENON_S_AND, {integer, p.integer(15, TENON_U8)});
    const ExprId from_zero = p.op(TENON_S_SUB, {p.convert(integer, TENON_F32),
                                                p.convert(b.load(zero, i.first(2)), TENON_F32)});
    return p.op(TENON_S_MUL, {from_zero, b.load(scale, i.first(2))});
  });
  const uint32_t last[] = {1};
  b.output(b.dot(b.input(TENON_F32, dims_of(b, {1, 64})), b.reshape(real, dims_of(b, {20, 64})), {},
                 {}, last, last));
  EXPECT_TRUE(b.ok()) << b.why();
  Kernel program = b.take_program();
  kg::move_to_load(program, target);
  for (Kernel& kernel : kg::partition(std::move(program), target)) {
    if (kernel.stages[0].kind != kg::StageKind::kContract) continue;
    for (kg::Buffer& buffer : kernel.buffers) {
      if (buffer.role == Role::kPersistent) buffer.role = Role::kIn;
    }
    Subject s(std::move(kernel));
    for (uint32_t id = 0; id < s.memory.size(); ++id) {
      for (size_t i = 0; s.memory[id].type == TENON_U8 && i < s.memory[id].cells.size(); ++i)
        s.put(id, i, {.i = static_cast<int64_t>(i * 37 % 256)});
    }
    return s;
  }
  ADD_FAILURE() << "no product";
  return Subject(doubled(1));
}

TEST(Trees, DigitsAgreeWithTheirStages) {
  for (const Target& target : {Target::avx512_vnni(), Target::avx2_vnni()}) {
    for (const bool nibbles : {false, true}) {
      Subject stages = weights_of_few_bits(nibbles, target), loops = stages;
      // One block of the row, whose buffer alone has no panels, has an outlier and goes by floats.
      for (uint32_t id = 0; id < stages.memory.size(); ++id) {
        const kg::Buffer& x = stages.kernel.buffers[id];
        if (x.role != Role::kIn || x.panel != 0) continue;
        for (Subject* s : {&stages, &loops}) s->put(id, 40, {.f = 1e12});
      }
      LoopTree tree = tree_of(loops.kernel, target);
      ASSERT_NE(find(tree, NodeKind::kDigits), nullptr);
      ASSERT_EQ(stages.run(), "");
      ASSERT_EQ(run(loops, tree, target), "");
      const uint32_t out = buffer_with(stages.kernel, Role::kOut);
      EXPECT_EQ(disagreement(loops.memory[out], stages.memory[out], 0, TENON_F32), "");
    }
  }
}

TEST(PlantedInTrees, DigitsThatAreNotMade) {
  const Target target = Target::avx512_vnni();
  Subject s = weights_of_few_bits(true, target);
  LoopTree t = tree_of(s.kernel, target);
  Node* digits = find(t, NodeKind::kDigits);
  ASSERT_NE(digits, nullptr);
  digits->kind = NodeKind::kComment;
  EXPECT_TRUE(has(run(s, t, target), "stores what is not known"));
}

TEST(PlantedInTrees, DigitsOfAnotherBlock) {
  const Target target = Target::avx512_vnni();
  Subject s = weights_of_few_bits(true, target), right = s;
  LoopTree t = tree_of(s.kernel, target);
  ASSERT_EQ(run(right, t, target), "");
  Node* digits = find(t, NodeKind::kDigits);
  ASSERT_NE(digits, nullptr);
  digits->bits = 64;
  EXPECT_NE(run(s, t, target), "");
}

TEST(Trees, RowsAgreeWithTheirStages) {
  agrees([] { return softmax_kernel(5, 19); });
  agrees([] { return sums(7, 33); });
}
TEST(Trees, ProductsAgreeWithTheirStages) {
  agrees([] { return products(9, 5, 21); });
  agrees([] { return products(3, 40, 70); });
}
TEST(Trees, ProductsOfBf16PanelsAgreeWithTheirStages) {
  for (const Target& target : {Target::avx512_bf16(), Target::avx2(), Target::baseline()}) {
    const Kernel kernel = products_of_panels(7, 35, 50, target);
    LoopTree tree = tree_of(kernel, target);
    const Node* product = find(tree, NodeKind::kMma);
    ASSERT_NE(product, nullptr);
    EXPECT_EQ(product->read, kg::DType{TENON_BF16});
    agrees([&] { return kernel; }, {target});
  }
}
TEST(Trees, TransposesAgreeWithTheirStages) {
  agrees([] {
    Builder b;
    const uint32_t turned[] = {1, 0};
    const Tensor x = b.input(TENON_F32, dims_of(b, {21, 37}));
    b.output(b.transpose(x, turned));
    return only_kernel(b);
  });
}
TEST(Trees, OrderedKindsAgreeWithTheirStages) {
  agrees([] {
    Builder b;
    b.output(b.scan(b.input(TENON_I32, dims_of(b, {5, 7})), 1, kg::Fold::kSum, true, false,
                    TENON_I32, TENON_I32));
    return only_kernel(b);
  });
  agrees([] {
    Builder b;
    const Tensor x[] = {b.input(TENON_F32, dims_of(b, {3, 40}))};
    const int64_t descending[] = {1};
    for (const Tensor& t : b.sort(x, 1, 1, descending, b.dim(40), TENON_I64)) b.output(t);
    return only_kernel(b);
  });
}
TEST(Trees, AttentionAgreesWithItsStages) {
  const std::vector<Target> processors = {Target::avx512(), Target::avx2(), Target::baseline()};
  // Packed keys; keys where they are, with and without a rest of features; too few features.
  agrees([] { return attention(5, 70, 20, 12); }, processors);
  agrees([] { return attention(1, 70, 32, 64); }, processors);
  agrees([] { return attention(2, 65, 21, 32); }, processors);
  agrees([] { return attention(1, 70, 3, 12); }, processors);
}

// ---- Planted defects ----

TEST(PlantedInTrees, ADroppedMaskOfALoad) {
  Subject s(doubled(19));
  LoopTree t = tree_of(s.kernel, Target::avx2());
  Node* load = find(t, NodeKind::kLoad, masked);
  ASSERT_NE(load, nullptr);
  load->args[1] = load->args[2] = kg::kNoValue;
  EXPECT_TRUE(has(run(s, t, Target::avx2()), "loads b0[19], which is outside of it"));
}

TEST(PlantedInTrees, ADroppedMaskOfAStore) {
  Subject s(doubled(19));
  LoopTree t = tree_of(s.kernel, Target::avx2());
  Node* store = find(t, NodeKind::kStore, masked);
  ASSERT_NE(store, nullptr);
  store->args[2] = kg::kNoValue;
  EXPECT_TRUE(has(run(s, t, Target::avx2()), "which is outside of it"));
}

TEST(PlantedInTrees, AStoreMovedOutOfItsLoop) {
  Subject s(softmax_kernel(3, 5, TENON_F16));
  LoopTree t = tree_of(s.kernel, Target::scalar());
  // The innermost loop that stores results, and its store moved after it.
  Node* inner = find(t, NodeKind::kLoop, [](const Node& n) {
    const Node* last = n.body.empty() ? nullptr : &n.body.back();
    return last != nullptr && last->kind == NodeKind::kStore && to_buffer(*last);
  });
  ASSERT_NE(inner, nullptr);
  const Node store = inner->body.back();
  Node* outer = find(t, NodeKind::kLoop, [](const Node& n) { return n.bind == Bind::kRange; });
  ASSERT_NE(outer, nullptr);
  inner->body.pop_back();
  outer->body.push_back(store);
  EXPECT_EQ(run(s, t, Target::scalar()), "");
  const uint32_t out = buffer_with(s.kernel, Role::kOut);
  EXPECT_FALSE(s.stored(out, 0));
  EXPECT_TRUE(s.stored(out, 4));
}

TEST(PlantedInTrees, AWholeVectorLoopThatGoesTooFar) {
  Subject s(doubled(21));
  LoopTree t = tree_of(s.kernel, Target::avx2());
  Node* loop = find(t, NodeKind::kLoop, [](const Node& n) { return n.full; });
  ASSERT_NE(loop, nullptr);
  loop->full = false;
  const std::string problems = run(s, t, Target::avx2());
  EXPECT_TRUE(has(problems, "outside of it") || has(problems, "a second time")) << problems;
}

TEST(PlantedInTrees, AStateThatStartsAsGarbage) {
  Subject s(sums(3, 5));
  LoopTree t = tree_of(s.kernel, Target::scalar());
  Node* var = find(t, NodeKind::kVar);
  ASSERT_NE(var, nullptr);
  // The sum starts with a scratch element that was never stored.
  Node load;
  load.kind = NodeKind::kLoad;
  load.space = kg::Space::kScratch;
  load.type = TENON_F32;
  load.dst = var->dst;
  load.args[0] = t.begin;
  t.scratch_bytes = kg::SizeProgram{{0, 256}};
  *var = load;
  EXPECT_TRUE(has(run(s, t, Target::scalar()), "stores what is not known to b1[0]"));
}

TEST(PlantedInTrees, ScratchOfTheItemBefore) {
  Subject s(softmax_kernel(6, 3, TENON_F16));
  LoopTree t = tree_of(s.kernel, Target::scalar());
  Subject right(s.kernel);
  ASSERT_EQ(run(right, t, Target::scalar(), 1), "");
  // Only the first item stores the exponentials; the others load what it left.
  Node* store =
      find(t, NodeKind::kStore, [](const Node& n) { return n.space == kg::Space::kScratch; });
  Node* range = find(t, NodeKind::kLoop, [](const Node& n) { return n.bind == Bind::kRange; });
  ASSERT_NE(store, nullptr);
  ASSERT_NE(range, nullptr);
  Node first;
  first.kind = NodeKind::kOp;
  first.op = TENON_S_CMP;
  first.ref = TENON_CMP_EQ;
  first.args[0] = range->dst;
  first.args[1] = t.begin;
  first.dst = static_cast<kg::ValueId>(t.values.size());
  t.values.push_back({TENON_PRED, 1});
  store->args[2] = first.dst;
  range->body.insert(range->body.begin(), first);
  const std::string problems = run(s, t, Target::scalar(), 1);
  EXPECT_TRUE(has(problems, "stores what is not known")) << problems;
}

TEST(PlantedInTrees, TwoItemsOnOneElement) {
  Subject s(sums(4, 3));
  LoopTree t = tree_of(s.kernel, Target::scalar());
  Node* store = find(t, NodeKind::kStore, to_buffer);
  ASSERT_NE(store, nullptr);
  Node* zero =
      find(t, NodeKind::kConst, [](const Node& n) { return n.type == TENON_I64 && n.bits == 0; });
  ASSERT_NE(zero, nullptr);
  store->args[0] = zero->dst;
  EXPECT_TRUE(has(run(s, t, Target::scalar()), "stores what another item stores: b1[0]"));
}

TEST(PlantedInTrees, AWrongStride) {
  Subject s(products(5, 4, 9));
  LoopTree t = tree_of(s.kernel, Target::avx2());
  Node* node = find(t, NodeKind::kMma);
  if (node == nullptr) node = find(t, NodeKind::kLoad, to_buffer);
  ASSERT_NE(node, nullptr);
  Subject right(s.kernel);
  ASSERT_EQ(run(right, t, Target::avx2()), "");
  Node* zero =
      find(t, NodeKind::kConst, [](const Node& n) { return n.type == TENON_I64 && n.bits == 0; });
  ASSERT_NE(zero, nullptr);
  node->stride = zero->dst;
  const std::string problems = run(s, t, Target::avx2());
  const uint32_t out = buffer_with(s.kernel, Role::kOut);
  EXPECT_TRUE(!problems.empty() ||
              !disagreement(s.memory[out], right.memory[out], 0, TENON_F32).empty());
}

TEST(PlantedInTrees, OneKeyTooMany) {
  Subject s(attention(1, 70, 32, 64));
  LoopTree t = tree_of(s.kernel, Target::avx2());
  Node* dots = find(t, NodeKind::kDots);
  ASSERT_NE(dots, nullptr);
  // 6 keys are left for the last panel of 16.
  Node* all =
      find(t, NodeKind::kConst, [](const Node& n) { return n.type == TENON_I64 && n.bits == 16; });
  ASSERT_NE(all, nullptr);
  dots->args[1] = all->dst;
  EXPECT_TRUE(has(run(s, t, Target::avx2()), "which is outside of it"));
}

TEST(PlantedInTrees, AMissingBarrier) {
  const Target target = Target::opencl(true, 8);
  Subject s(sums(2, 4096));
  LoopTree t = tree_of(s.kernel, target);
  ASSERT_TRUE(t.together);
  Subject right(s.kernel);
  ASSERT_EQ(run(right, t, target), "");
  Node* barrier = find(t, NodeKind::kBarrier);
  ASSERT_NE(barrier, nullptr);
  barrier->kind = NodeKind::kComment;
  EXPECT_TRUE(has(run(s, t, target), "what another item stores"));
}

TEST(PlantedInTrees, ABarrierThatSomeItemsMiss) {
  const Target target = Target::opencl(true, 8);
  Subject s(sums(2, 4096));
  LoopTree t = tree_of(s.kernel, target);
  Node* branch = find(t, NodeKind::kIf);
  ASSERT_NE(branch, nullptr);
  Node barrier;
  barrier.kind = NodeKind::kBarrier;
  branch->body.push_back(barrier);
  EXPECT_TRUE(has(run(s, t, target), "meets a barrier that not all items of the group reach"));
}

TEST(PlantedInTrees, PlainDivisionOfANegativeNumber) {
  Subject s(doubled(4));
  LoopTree t = tree_of(s.kernel, Target::scalar());
  Node minus, divide;
  minus.kind = NodeKind::kConst;
  minus.type = TENON_I64;
  minus.bits = -3;
  minus.dst = static_cast<kg::ValueId>(t.values.size());
  divide.kind = NodeKind::kOp;
  divide.op = kg::kFloorDiv;
  divide.bits = 1;
  divide.args[0] = minus.dst;
  divide.args[1] = minus.dst + 1;
  divide.dst = minus.dst + 2;
  Node two = minus;
  two.bits = 2;
  two.dst = minus.dst + 1;
  for (int i = 0; i < 3; ++i) t.values.push_back({TENON_I64, 1});
  t.body.insert(t.body.begin(), {minus, two, divide});
  EXPECT_TRUE(has(run(s, t, Target::scalar()), "divides -3 by 2 in plain words"));
}

}  // namespace
}  // namespace tenon::interpreter
