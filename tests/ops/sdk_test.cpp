// Tests of sdk/tenon/cpp: handles, building, patterns, numbers, declarations.
#include <gtest/gtest.h>

#include <cmath>

#include "tenon/cpp/op.hpp"
#include "tenon/cpp/pass.hpp"
#include "test_host.h"

namespace tenon {
namespace {

class Sdk : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const std::string wrong = register_test_ops();
    ASSERT_EQ(wrong, "");
    attach(test_host());
  }
  void SetUp() override {
    ASSERT_TRUE(Graph::create("g", &graph_).ok());
    tenon_symbol_t n = 0;
    ASSERT_EQ(
        graph_api().symbol_define(graph_api().self, graph_.get(), main_region(graph_.get()).id(),
                                  str("n"), 0, 1000, 1, -1, &n),
        TENON_OK);
    tenon_symbol_view_t view = {};
    view.size_bytes = sizeof view;
    ASSERT_EQ(graph_api().symbol_view(graph_api().self, graph_.get(), n, &view), TENON_OK);
    n_ = Dim(graph_.get(), view.dim);
    ASSERT_TRUE(argument(main_region(graph_.get()), {TENON_F32, {n_, Dim(4)}}, "x", &x_).ok());
  }
  Builder builder() { return Builder(graph_.get(), main_region(graph_.get()).id()); }

  Graph graph_;
  Dim n_;
  Value x_;
};

TEST_F(Sdk, DimsComputeAndCompare) {
  EXPECT_TRUE(surely_equal(n_ + n_, n_ * Dim(2)));
  EXPECT_TRUE(surely_equal((n_ + Dim(3)) - Dim(3), n_));
  EXPECT_EQ(compare(TENON_REL_LT, n_, n_ + Dim(1)), TENON_YES);
  EXPECT_EQ(compare(TENON_REL_EQ, n_, Dim(7)), TENON_MAYBE);
  EXPECT_EQ(compare(TENON_REL_EQ, Dim(3), Dim(4)), TENON_NO);
  const Dim huge = Dim(graph_.get(), INT64_MAX);
  EXPECT_FALSE((huge + Dim(1)).valid());
  EXPECT_FALSE((huge + Dim(1) + n_).valid()) << "an invalid dim stays invalid";
}

TEST_F(Sdk, FailuresAreSticky) {
  Builder b = builder();
  const Value wrong = b.build("add", {x_, b.scalar(TENON_F32, 1)});
  EXPECT_FALSE(wrong.valid());
  EXPECT_EQ(b.status().code(), TENON_INVALID_ARGUMENT);
  EXPECT_FALSE(b.build("neg", {x_}).valid()) << "nothing is built after a failure";
  tenon_value_t out = TENON_NONE;
  EXPECT_EQ(b.finish(&out, {x_}).code(), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(out, TENON_NONE);
}

TEST_F(Sdk, InvalidHandlesReadAsEmptyOnes) {
  Builder b = builder();
  const Value wrong = b.build("add", {x_, b.scalar(TENON_F32, 1)});
  EXPECT_FALSE(wrong.dim(0).valid());
  EXPECT_FALSE((wrong.dim(1) * Dim(2) + n_).valid());
  EXPECT_FALSE(x_.dim(2).valid()) << "beyond the rank";
  EXPECT_TRUE(wrong.dims().empty());
  EXPECT_TRUE(wrong.uses().empty());
  EXPECT_TRUE(Value().uses().empty());
  EXPECT_TRUE(Node().operands().empty());
  EXPECT_TRUE(Region().nodes().empty());
  EXPECT_FALSE(b.full_like(wrong, 0).valid());
}

TEST_F(Sdk, PatternsMatchAndCapture) {
  Builder b = builder();
  const Value one = b.full_like(x_, 1);
  const Value y = b.build("add", {one, b.build("neg", {x_})});
  ASSERT_TRUE(y.valid()) << b.status().code();
  Value found;
  double number = 0;
  EXPECT_FALSE(match(y.node(), match_op("add", match_op("neg", bind(&found)), any())));
  EXPECT_TRUE(
      match(y.node(), match_commutative("add", match_op("neg", bind(&found)), splat(&number))));
  EXPECT_EQ(found, x_);
  EXPECT_EQ(number, 1);
  EXPECT_TRUE(match(y.node(), match_op("add", splat(1.0), one_use(match_op("neg", same(&x_))))));
  EXPECT_FALSE(match(y.node(), match_op("add", splat(2.0), any())));
  EXPECT_FALSE(match(x_.node(), match_op("add", any(), any()))) << "an argument has no node";
}

TEST_F(Sdk, AttributesAreReadBack) {
  Builder b = builder();
  const Value y =
      b.build("slice", {x_},
              {{"start", Dims{Dim(0), Dim(1)}}, {"limit", Dims{n_, Dim(3)}}, {"stride", {1, 2}}});
  ASSERT_TRUE(y.valid());
  EXPECT_EQ(y.node().i64s("stride"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(y.node().dims("limit")[0], n_);
  EXPECT_EQ(y.dim(0), n_);
  EXPECT_TRUE(y.dim(1).is(1));
  EXPECT_EQ(main_region(graph_.get()).nodes().size(), 1u);
  EXPECT_TRUE(erase(y.node()).ok());
  EXPECT_TRUE(main_region(graph_.get()).nodes().empty());
}

TEST(SdkNumbers, NarrowFloatsRoundTripAndRoundToEven) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (!std::isnan(f16_to(half))) EXPECT_EQ(f16_from(f16_to(half)), half) << bits;
    if (!std::isnan(bf16_to(half))) EXPECT_EQ(bf16_from(bf16_to(half)), half) << bits;
  }
  EXPECT_EQ(f16_from(1 + 0x1p-11), f16_from(1.0));  // half way: to the even one
  EXPECT_EQ(f16_from(1 + 3 * 0x1p-11), f16_from(1 + 0x1p-9));
  EXPECT_EQ(f16_from(1 + 0x1p-11 + 0x1p-40), f16_from(1 + 0x1p-10));  // one rounding, not two
  EXPECT_EQ(f16_from(65519.999), 0x7bff);
  EXPECT_EQ(f16_from(65520), 0x7c00);
  EXPECT_TRUE(std::isnan(f16_to(f16_from(NAN))));
  EXPECT_EQ(saturate<int8_t>(300), 127);
  EXPECT_EQ(saturate<uint8_t>(-3), 0);
  EXPECT_EQ(saturate<int32_t>(NAN), 0);
  EXPECT_EQ(saturate<int64_t>(1e30), INT64_MAX);
}

TEST(SdkNumbers, WindowsHaveTheExtentOfTheFormula) {
  for (int64_t in : {0, 1, 5, 9}) {
    for (int64_t window : {1, 3}) {
      for (int64_t stride : {1, 2}) {
        for (int64_t pad : {-1, 0, 2}) {
          const int64_t padded = in + pad - window;
          const int64_t wanted = padded < 0 ? 0 : padded / stride + 1;
          Graph graph;
          ASSERT_TRUE(Graph::create("g", &graph).ok());
          const Dim got = window_extent(Dim(graph.get(), in), 1, pad, 0, window, 1, stride);
          EXPECT_TRUE(got.is(wanted))
              << in << " " << window << " " << stride << " " << pad << ": " << got.raw();
        }
      }
    }
  }
}

TEST(SdkText, NamesFromInputAreQuotedAndCut) {
  EXPECT_EQ(cat("dim ", 3, " is ", -1.5, '!'), "dim 3 is -1.5!");
  EXPECT_EQ(tenon::quoted("a\nb"), "'a?b'");
  EXPECT_EQ(tenon::quoted(std::string(300, 'x')).size(), 256u + 5);
}

// The tables of a declaration have exactly its contents.
constexpr OpDraft declare() {
  return op("halve", kElementwise)
      .summary("x / 2.")
      .operand("x", "the input", kFloat)
      .result("y", "x / by")
      .attr_f64("by", "what it is divided by", 2)
      .example("halve(f32[1] [4]) -> f32[1] [2]")
      .infer<infer_same>()
      .scalar(scalar::arg(0) / scalar::attr(0));
}
TEST(SdkOp, DeclarationsAreStaticTables) {
  constexpr const tenon_op_def_t& def = *kOpPointers<declare>[0];
  static_assert(def.operand_count == 1 && def.attr_count == 1 && def.example_count == 1 &&
                def.constraint_count == 0);
  EXPECT_EQ(view(def.name), "halve");
  ASSERT_EQ(def.scalar_words, 3u);
  EXPECT_EQ(def.scalar[0], TENON_SCALAR_WORD(TENON_S_ARG, 0));
  EXPECT_EQ(def.scalar[1], TENON_SCALAR_WORD(TENON_S_ATTR, 0));
  EXPECT_EQ(def.scalar[2], TENON_SCALAR_WORD(TENON_S_DIV, 0));
}

// The example at the top of op.hpp declares a working op.
namespace header_example {
#include "op_header_example.inc"
}  // namespace header_example
TEST_F(Sdk, TheExampleInTheHeaderIsADeclaration) {
  ASSERT_EQ(header_example::kOps.size(), 1u);
  const tenon_op_def_t& relu = *header_example::kOps[0];
  EXPECT_EQ(view(relu.name), "relu");
  EXPECT_EQ(relu.operand_count, 1u);
  EXPECT_EQ(relu.result_count, 1u);
  EXPECT_NE(relu.decompose, nullptr);
}

// A missing facet is a compile error.
template <auto Declare>
concept Compiles = requires { typename std::bool_constant<Declare().complete()>; };
constexpr OpDraft bare() {
  return op("half", kCompositeElementwise)
      .summary("x / 2.")
      .example("half(f32[1] [4]) -> f32[1] [2]")
      .infer<infer_elementwise>()
      .scalar(scalar::arg(0) * 0.5)
      .decompose_scalar();
}
constexpr OpDraft half() {
  return bare().operand("x", "the input", kFloat).result("y", "x / 2");
}
constexpr OpDraft no_result() {
  return bare().operand("x", "the input", kFloat);
}
constexpr OpDraft no_operand() {
  return bare().result("y", "x / 2");
}
constexpr OpDraft other_operand() {
  return half().scalar(scalar::arg(0) * scalar::arg(1));
}
constexpr OpDraft constant_first() {
  return half().scalar(scalar::Expr(0.5) * scalar::arg(1));
}
static_assert(Compiles<half>);
static_assert(!Compiles<no_result>);
static_assert(!Compiles<no_operand>);
static_assert(!Compiles<other_operand>);
static_assert(!Compiles<constant_first>);

}  // namespace
}  // namespace tenon
