// Concats, pads and updates as views of their result, and few huge rows in chunks: which are
// chosen, and values on every instruction set.
#include "tenon/kernelgen/testing/test_values.h"

namespace tenon::kernelgen {
namespace {

using testing::check;
using testing::dims;
using testing::op;

Tensor linear(Builder& b, const Tensor& x, ExprId n) {
  const uint32_t sum_a[] = {1}, sum_b[] = {0};
  return b.dot(x, b.constant(TENON_F32, {x.dims[1], n}), {}, {}, sum_a, sum_b);
}
Tensor relu(Builder& b, const Tensor& x) {
  return op(b, TENON_S_MAX, {x, b.fill(x.type, x.dims, 0)});
}

Tensor softmax(Builder& b, const Tensor& x) {
  const uint32_t last[] = {1}, row[] = {0};
  const Tensor e =
      op(b, TENON_S_EXP,
         {op(b, TENON_S_SUB, {x, b.broadcast(b.reduce(x, last, Fold::kMax), x.dims, row)})});
  return op(b, TENON_S_DIV, {e, b.broadcast(b.reduce(e, last, Fold::kSum), x.dims, row)});
}

Tensor conv3(Builder& b, const Tensor& x, int64_t out) {
  ConvDims n;
  n.x_spatial = n.w_spatial = n.out_spatial = {2, 3};
  const WindowDim window[] = {{3, 1, 1, 1}, {3, 1, 1, 1}};
  std::vector<ExprId> to = x.dims;
  to[1] = b.dim(out);
  return b.conv(x, b.constant(TENON_F32, {b.dim(out), x.dims[1], b.dim(3), b.dim(3)}), n, window, 1,
                to);
}

Tensor concat(Builder& b, std::initializer_list<Tensor> parts, uint32_t axis) {
  const std::vector<Tensor> list(parts);
  return b.concat(list, axis);
}

std::vector<Kernel> kernels_of(Builder& b, const Target& target = Target::avx512()) {
  EXPECT_TRUE(b.ok()) << b.why();
  Kernel program = b.take_program();
  move_to_load(program, target);
  std::vector<Kernel> all = split(std::move(program), target);
  // Without the kernels that run at load.
  std::erase_if(all, [](const Kernel& k) {
    return k.stages[0].kind == StageKind::kMap &&
           std::ranges::any_of(k.buffers,
                               [](const Buffer& b) { return b.role == Role::kConstant; });
  });
  return all;
}

size_t copies(const std::vector<Kernel>& kernels) {
  return static_cast<size_t>(std::ranges::count_if(
      kernels, [](const Kernel& k) { return k.stages[0].kind == StageKind::kMap; }));
}

// Products with their epilogues, a softmax and a column sum are each written into their part; an
// input is copied.
void joined(Builder& b, ExprId rows, const std::vector<ExprId>& n, uint32_t axis) {
  const Tensor x = b.input(TENON_F32, {rows, b.dim(40)});
  const Tensor given =
      b.input(TENON_F32, axis == 1 ? std::vector{rows, n[2]} : std::vector{n[2], n[0]});
  const Tensor a = relu(b, linear(b, x, n[0]));
  const Tensor c =
      softmax(b, b.input(TENON_F32, axis == 1 ? std::vector{rows, n[1]} : std::vector{n[1], n[0]}));
  const Tensor y = concat(b, {a, c, given}, axis);
  b.output(y);
}

TEST(Views, OperandsAreWrittenIntoTheirPart) {
  for (uint32_t axis : {0u, 1u}) {
    Builder b;
    joined(b, b.dim(100), {b.dim(64), b.dim(70), b.dim(5)}, axis);
    const std::vector<Kernel> kernels = kernels_of(b);
    ASSERT_EQ(kernels.size(), 3u) << axis;
    EXPECT_EQ(copies(kernels), 1u) << "of the input alone";
    std::string all;
    for (const Kernel& k : kernels) all += to_text(k);
    EXPECT_NE(all.find(axis == 1 ? " + 64] = " : "[i0 + 100, "), std::string::npos) << all;
  }
}

TEST(Views, ValuesOfPartsOddAndSymbolic) {
  Builder b, s;
  const std::vector<ExprId> n = {s.extent({0, INT64_MAX, 1, 128}), s.extent({0, INT64_MAX, 1, 100}),
                                 s.extent()};
  const ExprId rows = s.extent({0, INT64_MAX, 1, 64});
  for (uint32_t axis : {0u, 1u}) {
    joined(b, b.dim(97), {b.dim(77), b.dim(61), b.dim(3)}, axis);
    joined(s, rows, n, axis);
  }
  check(b, {{}});
  check(s, {{17, 5, 19, 33}, {16, 1, 40, 16}, {0, 0, 2, 1}});
}

// Nested as in dense blocks: a concat is an operand of a concat, and convolutions read it in
// between.
TEST(Views, NestedConcatsOfConvolutionsMoveNothing) {
  auto build = [](Builder& b, int64_t h) {
    const Tensor x = b.input(TENON_F32, dims(b, {1, 16, h, h + 1}));
    const Tensor first = relu(b, conv3(b, x, 16)), second = relu(b, conv3(b, x, 24));
    const Tensor y1 = concat(b, {first, second}, 1);
    const Tensor y2 = concat(b, {y1, conv3(b, y1, 20)}, 1);
    b.output(conv3(b, y2, 16));
  };
  Builder b;
  build(b, 28);
  const std::vector<Kernel> kernels = kernels_of(b);
  size_t contractions = 0;
  for (const Kernel& k : kernels) contractions += k.stages[0].kind == StageKind::kContract;
  EXPECT_EQ(contractions, 4u);
  std::string moved;
  for (const Kernel& k : kernels) moved += k.stages[0].kind == StageKind::kMap ? to_text(k) : "";
  EXPECT_EQ(copies(kernels), 2u) << "the edges in NCHW\n" << moved;
  Builder v;
  build(v, 17);
  check(v, {{}});
}

TEST(Views, PadsAreFilledAroundWhatIsWrittenInside) {
  auto build = [](Builder& b, int64_t n, double fill) {
    const Tensor a = relu(b, linear(b, b.input(TENON_F32, dims(b, {90, 12})), b.dim(n)));
    const int64_t low[] = {2, 16};
    const Tensor value = b.fill(TENON_F32, {}, fill);
    b.output(b.pad(a, value, low, {}, dims(b, {95, n + 19})));
  };
  Builder b;
  build(b, 64, 0);
  const std::vector<Kernel> kernels = kernels_of(b);
  EXPECT_EQ(kernels.size(), 5u);
  EXPECT_EQ(copies(kernels), 4u) << "one for each side";
  for (int64_t n : {61, 77}) {
    Builder v;
    build(v, n, 1.5);
    check(v, {{}});
  }
}

TEST(Views, AnUpdateIsStoredOverItsOperand) {
  auto build = [](Builder& b, int64_t rows) {
    Pool& p = b.pool();
    const Tensor x = relu(b, linear(b, b.input(TENON_F32, dims(b, {rows, 12})), b.dim(61)));
    const Tensor u = b.input(TENON_F32, dims(b, {7, 61})), start = b.input(TENON_I64, {});
    b.output(b.map(TENON_F32, x.dims, [&](std::span<const ExprId> axes) {
      const ExprId at = p.max(p.integer(0), p.min(b.load(start, {}), p.integer(rows - 7)));
      const ExprId index[] = {p.sub(axes[0], at), axes[1]};
      const ExprId inside = p.both(p.cmp(TENON_CMP_GE, index[0], p.integer(0)),
                                   p.cmp(TENON_CMP_LT, index[0], p.integer(7)));
      return p.op(TENON_S_SELECT, {inside, b.load(u, index, inside), b.load(x, axes)});
    }));
  };
  Builder b;
  build(b, 90);
  const std::vector<Kernel> kernels = kernels_of(b);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].stages[0].kind, StageKind::kContract);
  EXPECT_NE(to_text(kernels[1]).find("axis i0 < 7"), std::string::npos) << to_text(kernels[1]);
  Builder v;
  build(v, 73);
  check(v, {{}});
}

// A reader that shares a register tile with the operand's writer keeps the copy, and so does an
// output.
TEST(Views, OthersThatFuseKeepTheOperand) {
  Builder b;
  const Tensor d = linear(b, b.input(TENON_F32, dims(b, {100, 40})), b.dim(64));
  const Tensor e = linear(b, b.input(TENON_F32, dims(b, {100, 40})), b.dim(64));
  b.output(e);
  b.output(concat(b, {d, e}, 1));
  b.output(op(b, TENON_S_EXP, {d}));
  EXPECT_EQ(copies(kernels_of(b)), 1u);
}

// ---- Few huge rows ----

TEST(HugeRows, ChunksAreReducedAndMerged) {
  Builder b;
  b.output(softmax(b, b.input(TENON_F32, dims(b, {1, 1 << 20}))));
  const std::vector<Kernel> kernels = kernels_of(b);
  // Maximum of chunks, then of all; exponentials with their sums, then the sum; quotients.
  ASSERT_EQ(kernels.size(), 5u);
  EXPECT_NE(to_text(kernels[0]).find("Reduce over [i0] reduce [i1]"), std::string::npos)
      << to_text(kernels[0]);
  EXPECT_NE(to_text(kernels[0]).find("axis i0 < 32"), std::string::npos);
  EXPECT_EQ(kernels[2].stages.size(), 2u) << to_text(kernels[2]);
  EXPECT_EQ(kernels[2].lead.size(), 1u);
  EXPECT_EQ(kernels[4].stages[0].kind, StageKind::kMap);
  std::string levels, why;
  Kernel last = kernels[4];
  ASSERT_TRUE(explain(last, Target::avx512(), &levels, &why)) << why;
  EXPECT_EQ(levels.find("floordiv"), std::string::npos)
      << "a place in a chunk folds to the place in the row\n"
      << levels;
}

TEST(HugeRows, ManyRowsAndSmallOnesStayWhole) {
  for (auto [rows, n] : {std::pair{8, 1 << 18}, std::pair{1, 1 << 17}}) {
    Builder b;
    const uint32_t last[] = {1};
    b.output(b.reduce(b.input(TENON_F32, dims(b, {rows, n})), last, Fold::kSum));
    EXPECT_EQ(kernels_of(b).size(), 1u);
  }
}

TEST(HugeRows, Values) {
  const uint32_t last[] = {1}, all[] = {0, 1, 2};
  Builder b;
  b.output(softmax(b, b.input(TENON_F32, dims(b, {2, 1 << 18}))));
  b.output(
      b.reduce(b.input(TENON_F32, dims(b, {3, 262147})), last, Fold::kMax));  // a prime: guards
  b.output(b.reduce(b.input(TENON_F64, dims(b, {40, 90, 77})), all, Fold::kSum));
  b.output(b.reduce(b.input(TENON_F32, dims(b, {30, 9000, 1})), all, Fold::kSum));
  check(b, {{}}, {{}, 1e-4});
  Builder s;
  const ExprId n = s.extent({0, INT64_MAX, 1, 300000});
  s.output(softmax(s, s.input(TENON_F32, {s.dim(1), n})));
  check(s, {{0}, {1}, {40000}, {65536}}, {{}, 1e-4});
  Builder o;
  o.output(o.reduce(o.input(TENON_F32, dims(o, {1, 262147})), last, Fold::kMax));
  check(o, {{}}, {{0}});
}

// ---- Columns of tall matrices, as if small ones were large ----

TEST(Columns, Values) {
  const std::function<void(Target&)> small = [](Target& t) {
    t.huge_row = 1 << 9;
    t.l2_bytes = 1 << 12;
  };
  const uint32_t first[] = {0}, outer[] = {0, 1}, ends[] = {0, 2};
  const auto sums = [&](Builder& b, ExprId rows, ExprId n) {
    const Tensor x = b.input(TENON_F32, {rows, n}), y = b.input(TENON_F32, {rows, n});
    b.output(b.reduce(op(b, TENON_S_MUL, {x, y}), first, Fold::kSum));
    b.output(op(b, TENON_S_SQRT, {op(b, TENON_S_ABS, {b.reduce(y, first, Fold::kSum)})}));
    b.output(b.reduce(y, first, Fold::kMax));
    // The second pass needs the result of the first one.
    const Tensor z = b.input(TENON_F32, {rows, n}), most = b.reduce(z, first, Fold::kMax);
    const uint32_t second[] = {1};
    const Tensor apart = op(b, TENON_S_SUB, {z, b.broadcast(most, z.dims, second)});
    b.output(b.reduce(op(b, TENON_S_EXP, {apart}), first, Fold::kSum));
  };
  Builder b;
  for (int64_t n : {64, 77, 300}) {
    sums(b, b.dim(97), b.dim(n));  // a prime: the last chunk has fewer rows
    sums(b, b.dim(96), b.dim(n));
    sums(b, b.dim(20), b.dim(n));  // too few to be cut
  }
  b.output(b.reduce(b.input(TENON_F32, dims(b, {9, 31, 70})), outer, Fold::kSum));
  b.output(b.reduce(b.input(TENON_F32, dims(b, {9, 31, 70})), ends, Fold::kSum));
  b.output(
      b.reduce(b.input(TENON_F32, dims(b, {5, 400, 70})), std::span(&outer[1], 1), Fold::kSum));
  b.output(b.reduce(b.input(TENON_I64, dims(b, {201, 70})), first, Fold::kSum));
  b.output(b.reduce(b.input(TENON_BF16, dims(b, {201, 70})), first, Fold::kMin));
  check(b, {{}}, {{}, 1e-4}, small);
  Builder s;
  sums(s, s.extent(), s.extent());
  check(s, {{3, 64}, {400, 70}, {1, 1000}, {0, 3}, {129, 33}}, {{}, 1e-4}, small);
}

// ---- Stores past the caches: as if every result were large ----

TEST(Streams, Values) {
  const std::function<void(Target&)> all = [](Target& t) {
    t.stream_bytes = t.vector_bytes == 0 ? 0 : 1;
  };
  const uint32_t last[] = {1};
  auto pointwise = [&](Builder& b, DType type, ExprId rows, ExprId n) {
    const Tensor x = b.input(type, {rows, n});
    b.output(op(b, TENON_S_ADD, {x, b.broadcast(b.input(type, {n}), x.dims, last)}));
    b.output(op(b, TENON_S_MUL, {x, x}));
  };
  Builder b;
  for (DType type : {TENON_F32, TENON_F64, TENON_BF16, TENON_I8}) {
    for (int64_t n : {64, 77}) pointwise(b, type, b.dim(5), b.dim(n));
  }
  const Tensor e = op(b, TENON_S_EXP, {b.input(TENON_F32, dims(b, {9, 96}))});
  b.output(e);
  b.output(b.reduce(e, last, Fold::kSum));
  check(b, {{}}, {{}, 1e-2}, all);
  Builder s;
  pointwise(s, TENON_F32, s.extent(), s.extent());
  check(s, {{3, 64}, {4, 70}, {1, 1000}, {0, 3}}, {}, all);
}

}  // namespace
}  // namespace tenon::kernelgen
