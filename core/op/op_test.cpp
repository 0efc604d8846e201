// The registry, schema checks and the meaning of scalar programs.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "core/base/intern.h"
#include "core/ir/dims/expression.h"
#include "core/ir/dtype.h"
#include "core/ir/test_ops.h"
#include "core/op/evaluate.h"
#include "core/op/registry.h"

namespace tenon::op {
namespace {

using test::str;

// ---- Declarations ----

class RegistryTest : public testing::Test {
 protected:
  void SetUp() override { test::use_test_ops(); }
  static Status declare(const tenon_op_def_t& def) {
    const tenon_op_def_t* list[] = {&def};
    const tenon_ops_t ops = {sizeof ops, nullptr, list, 1};
    return Registry::instance().register_ops(ops, "other");
  }
};

TEST_F(RegistryTest, RefusesBadDeclarations) {
  tenon_op_def_t good = test::make_op("fine_op", TENON_TRAIT_PURE, test::kTwo, test::same_as_first);
  auto refuses = [&](auto change, std::string_view why) {
    tenon_op_def_t bad = good;
    change(bad);
    const Status s = declare(bad);
    EXPECT_EQ(s.error_code(), "T0320");
    EXPECT_NE(s.message().find(why), std::string::npos) << s.text();
  };
  refuses([](auto& d) { d.name = str("Bad Name"); }, "lower-case");
  refuses([](auto& d) { d.version = 0; }, "versions begin at 1");
  refuses([](auto& d) { d.infer = nullptr; }, "no inference");
  refuses([](auto& d) { d.reference = nullptr; }, "neither reference");
  refuses([](auto& d) { d.traits = TENON_TRAIT_ELEMENTWISE; }, "without a scalar program");
  refuses([](auto& d) { d.traits = TENON_TRAIT_COMPOSITE; }, "without a decomposition");
  refuses([](auto& d) { d.size_bytes = 16; }, "shorter");
  refuses([](auto& d) { d.ulp_f32 = 2; }, "its accuracy");
  refuses([](auto& d) { d.ulp_f32 = d.ulp_f64 = -1; }, "its accuracy");
  refuses([](auto& d) { d.ulp_f32 = d.ulp_f64 = NAN; }, "its accuracy");
  refuses([](auto& d) { d.ulp_of = 3; }, "its accuracy");
  static constexpr tenon_operand_def_t kVariadicFirst[] = {test::kAny[0], test::kTwo[0]};
  refuses([](auto& d) { d.operands = kVariadicFirst; }, "variadic");
  static constexpr tenon_attr_def_t kTwice[] = {test::kAxis[0], test::kAxis[0]};
  refuses([](auto& d) { d.attrs = kTwice, d.attr_count = 2; }, "two attributes");
  static constexpr tenon_attr_def_t kNoDefault[] = {
      {str("m"), {}, TENON_ATTR_STRING, 0, 0, 0, str("c"), str("a|b")}};
  refuses([](auto& d) { d.attrs = kNoDefault, d.attr_count = 1; }, "none of its choices");
  static constexpr uint32_t kShort[] = {TENON_SCALAR_WORD(TENON_S_ADD, 0)};
  refuses([](auto& d) { d.scalar = kShort, d.scalar_words = 1; }, "stack is too short");
  static constexpr uint32_t kMixed[] = {
      TENON_SCALAR_WORD(TENON_S_ARG, 0), TENON_SCALAR_WORD(TENON_S_ARG, 0),
      TENON_SCALAR_WORD(TENON_S_ARG, 1), TENON_SCALAR_WORD(TENON_S_CMP, 0),
      TENON_SCALAR_WORD(TENON_S_ADD, 0)};
  refuses([](auto& d) { d.scalar = kMixed, d.scalar_words = 5; }, "different element types");
  static constexpr uint32_t kNoOperand[] = {TENON_SCALAR_WORD(TENON_S_ARG, 7)};
  refuses([](auto& d) { d.scalar = kNoOperand, d.scalar_words = 1; }, "no such operand");
  static constexpr uint32_t kCut[] = {TENON_SCALAR_WORD(TENON_S_CONST_F, 0), 0};
  refuses([](auto& d) { d.scalar = kCut, d.scalar_words = 2; }, "constant is cut");
  static constexpr tenon_op_rules_t kNoTranspose = {.size_bytes = sizeof(tenon_op_rules_t),
                                                    .linear = 1};
  refuses([](auto& d) { d.rules = &kNoTranspose; }, "go together");
  // The derivative with respect to the other float operand would silently be 0.
  static constexpr tenon_op_rules_t kOneOfTwo = {
      .size_bytes = sizeof(tenon_op_rules_t),
      .linear = 1,
      .transpose = [](void*, const tenon_builder_t*, tenon_node_t, uint32_t, const tenon_value_t*,
                      tenon_value_t*) -> tenon_code_t { return TENON_OK; }};
  refuses([](auto& d) { d.rules = &kOneOfTwo; }, "in no mask of linearity");
  static constexpr tenon_op_rules_t kBeyond = {.size_bytes = sizeof(tenon_op_rules_t),
                                               .batched = 1u << 20};
  refuses([](auto& d) { d.rules = &kBeyond; }, "does not have");
  static constexpr uint32_t kTwo[] = {TENON_SCALAR_WORD(TENON_S_ARG, 0),
                                      TENON_SCALAR_WORD(TENON_S_RESULT, 0)};
  static constexpr tenon_partial_t kPartial = {0, 2, kTwo};
  static constexpr tenon_op_rules_t kTwoValues = {.size_bytes = sizeof(tenon_op_rules_t),
                                                  .partials = &kPartial,
                                                  .partial_count = 1,
                                                  .partial_bytes = sizeof(tenon_partial_t)};
  static constexpr uint32_t kFirst[] = {TENON_SCALAR_WORD(TENON_S_ARG, 0)};
  refuses([](auto& d) { d.rules = &kTwoValues; }, "those of its scalar program");
  refuses(
      [](auto& d) {
        d.scalar = kFirst, d.scalar_words = 1;
        d.rules = &kTwoValues;
      },
      "leaves 2 values and not one");
  static constexpr uint32_t kReadsResult[] = {TENON_SCALAR_WORD(TENON_S_RESULT, 0)};
  refuses([](auto& d) { d.scalar = kReadsResult, d.scalar_words = 1; }, "no such instruction");
  EXPECT_TRUE(declare(good).ok());
  EXPECT_EQ(declare(good).code(), TENON_ALREADY_EXISTS);
}

TEST_F(RegistryTest, FindsVersionsAndSuggestsNames) {
  Registry& r = Registry::instance();
  EXPECT_EQ(r.find(intern("every"), 0)->version, 2u);
  EXPECT_EQ(r.find(intern("every"), 1)->version, 1u);
  EXPECT_EQ(r.find(intern("every"), 9), nullptr);
  EXPECT_NE(r.unknown(intern("every"), 9).message().find("newest is 2"), std::string::npos);
  EXPECT_NE(r.unknown(intern("reshape_too"), 0).message().find("did you mean `reshape_to`"),
            std::string::npos);
}

TEST_F(RegistryTest, OlderTablesAreFilledUp) {
  tenon_op_def_t old = test::make_op("old_op", 0, test::kTwo, test::same_as_first);
  old.size_bytes = offsetof(tenon_op_def_t, decompose);
  old.decompose = test::decompose_double;  // a slot beyond what this plugin's header knew
  ASSERT_TRUE(declare(old).ok());
  EXPECT_EQ(Registry::instance().find(intern("old_op"), 1)->decompose, nullptr);
}

// ---- Evaluation ----

// Evaluates one expression and returns its first result's elements as doubles.
std::vector<double> values_of(std::string_view text, Meaning meaning = Meaning::kFirst) {
  Result<ir::Expression> e = ir::parse_expression(text, "test");
  EXPECT_TRUE(e.ok()) << e.status().text();
  Result<ir::Node> node = ir::build_expression(*e);
  EXPECT_TRUE(node.ok()) << node.status().text();
  std::vector<std::vector<int64_t>> shapes(e->operands.size());
  std::vector<tenon_array_t> inputs;
  for (size_t i = 0; i < e->operands.size(); ++i) {
    inputs.push_back(*constant_array(*e->graph, e->operands[i].value, &shapes[i]));
  }
  Result<std::vector<HostArray>> out = evaluate(*e->graph, *node, {}, inputs, meaning);
  EXPECT_TRUE(out.ok()) << out.status().text();
  std::vector<double> values;
  const tenon_array_t& a = (*out)[0].view();
  int64_t count = 1;
  for (uint32_t d = 0; d < a.rank; ++d) count *= a.dims[d];
  for (int64_t i = 0; i < count; ++i) {
    if (a.dtype == TENON_F32)
      values.push_back(static_cast<float*>(a.data)[i]);
    else if (a.dtype == TENON_I64)
      values.push_back(static_cast<double>(static_cast<int64_t*>(a.data)[i]));
    else if (a.dtype == TENON_F16)
      values.push_back(ir::f16_to_f32(static_cast<uint16_t*>(a.data)[i]));
    else
      ADD_FAILURE() << "element type " << a.dtype;
  }
  return values;
}

TEST_F(RegistryTest, EvaluatesByScalarProgramReferenceDecompositionAndRegions) {
  using V = std::vector<double>;
  EXPECT_EQ(values_of("plus(f32[2] [1, 2], f32[2] [3, 4])"), (V{4, 6}));
  EXPECT_EQ(values_of("plus(f16[2] [1, 65504], f16[2] [0.0009765625, 16])"),
            (V{1.0009765625, INFINITY}));
  EXPECT_EQ(values_of("plus(i64[1] [9223372036854775807], i64[1] [1])"),
            (V{-9223372036854775808.0}));
  EXPECT_EQ(values_of("plus(f32[3] splat 2, f32[3] splat 3)"), (V{5, 5, 5}));
  EXPECT_EQ(values_of("size(f32[2, 5] splat 0) {axis = 1}"), (V{5}));
  EXPECT_EQ(values_of("double(f32[2] [1, 2])", Meaning::kDecomposition), (V{2, 4}));
  EXPECT_EQ(values_of("find(f32[4] [0, 1, 0, 2])"), (V{1, 3}));
  const char* branch =
      "branch(i64[] {}, f32[2] [1, 2]) regions {{ (%a: f32[2]) {{ yield %a }} (%b: f32[2]) {{ %c = "
      "double(%b) yield %c }} }}";
  EXPECT_EQ(values_of(fmt::format(fmt::runtime(branch), 0)), (V{1, 2}));
  EXPECT_EQ(values_of(fmt::format(fmt::runtime(branch), 1)), (V{2, 4}));
}

// One instruction on one or two f64 or i64 values.
template <typename T>
T run(uint32_t instruction, tenon_dtype_t dtype, T a, T b = T(), tenon_dtype_t out_dtype = 0) {
  const bool two = (instruction & 255) >= TENON_S_ADD;
  uint32_t words[3] = {TENON_SCALAR_WORD(TENON_S_ARG, 0), TENON_SCALAR_WORD(TENON_S_ARG, 1),
                       instruction};
  if (!two) words[1] = instruction;
  tenon_op_def_t def = {};
  def.name = str("one");
  def.scalar = words;
  def.scalar_words = two ? 3 : 2;
  def.result_count = 1;
  def.operand_count = 2;
  T data[2] = {a, b};
  tenon_array_t inputs[2] = {};
  for (int i = 0; i < 2; ++i) {
    inputs[i].dtype = dtype;
    inputs[i].data = &data[i];
  }
  std::vector<HostArray> out;
  out.push_back(std::move(*HostArray::create(out_dtype != 0 ? out_dtype : dtype, {})));
  EXPECT_TRUE(run_scalar(def, {}, inputs, out).ok());
  T result = {};
  std::memcpy(&result, out[0].view().data,
              static_cast<size_t>(ir::dtype_bits(out[0].view().dtype) / 8));
  return result;
}

TEST(ScalarProgram, IntegersFollowTheContract) {
  constexpr int64_t kMin = INT64_MIN;
  auto i64 = [](uint32_t op, int64_t a, int64_t b) { return run<int64_t>(op, TENON_I64, a, b); };
  auto i8 = [](uint32_t op, int8_t a, int8_t b) { return run<int8_t>(op, TENON_I8, a, b); };
  auto u8 = [](uint32_t op, uint8_t a, uint8_t b) { return run<uint8_t>(op, TENON_U8, a, b); };
  EXPECT_EQ(i64(TENON_S_DIV, 7, -2), -3);
  EXPECT_EQ(i64(TENON_S_DIV, 7, 0), -1);
  EXPECT_EQ(i64(TENON_S_DIV, kMin, -1), kMin);
  EXPECT_EQ(i8(TENON_S_DIV, -128, -1), -128);
  EXPECT_EQ(u8(TENON_S_DIV, 7, 0), 255);
  EXPECT_EQ(i64(TENON_S_REM, -7, 3), -1);
  EXPECT_EQ(i64(TENON_S_REM, 7, 0), 7);
  EXPECT_EQ(i64(TENON_S_REM, kMin, -1), 0);
  EXPECT_EQ(i64(TENON_S_SHL, 1, 64), 0);
  EXPECT_EQ(i64(TENON_S_SHL, 1, -1), 0);
  EXPECT_EQ(i8(TENON_S_SHL, 1, 7), -128);
  EXPECT_EQ(i64(TENON_S_SHR_A, -8, 99), -1);
  EXPECT_EQ(i8(TENON_S_SHR_L, -128, 1), 64);
  EXPECT_EQ(i8(TENON_S_ADD, 127, 1), -128);
  EXPECT_EQ(u8(TENON_S_SUB, 0, 1), 255);
  EXPECT_EQ(u8(TENON_S_MAX, 200, 3), 200);
  EXPECT_EQ(i8(TENON_S_ABS, -128, 0), -128);
  EXPECT_EQ(i8(TENON_S_CLZ, 1, 0), 7);
  EXPECT_EQ(i8(TENON_S_POPCOUNT, -1, 0), 8);
  EXPECT_EQ(run<uint8_t>(TENON_S_NOT, TENON_PRED, 1), 0);
}

TEST(ScalarProgram, FloatsFollowTheContract) {
  auto f = [](uint32_t op, float a, float b = 0) { return run<float>(op, TENON_F32, a, b); };
  EXPECT_TRUE(std::isnan(f(TENON_S_MAX, NAN, 1)));
  EXPECT_TRUE(std::isnan(f(TENON_S_MIN, 1, NAN)));
  EXPECT_FALSE(std::signbit(f(TENON_S_MAX, -0.0f, 0.0f)));
  EXPECT_TRUE(std::signbit(f(TENON_S_MIN, 0.0f, -0.0f)));
  EXPECT_TRUE(std::isnan(f(TENON_S_SIGN, NAN)));
  EXPECT_TRUE(std::signbit(f(TENON_S_SIGN, -0.0f)));
  EXPECT_EQ(f(TENON_S_ROUND_EVEN, 2.5f), 2.0f);
  EXPECT_EQ(f(TENON_S_ROUND_EVEN, 3.5f), 4.0f);
  EXPECT_EQ(f(TENON_S_REM, -7.5f, 2.0f), -1.5f);
  EXPECT_EQ(f(TENON_S_ADD, 16777216.0f, 1.0f), 16777216.0f);
  EXPECT_NEAR(f(TENON_S_ERF_INV, 0.5f), 0.4769362762f, 1e-7);
  EXPECT_NEAR(f(TENON_S_DIGAMMA, 1.0f), -0.5772156649f, 1e-6);
}

TEST(ScalarProgram, ConversionsFollowTheContract) {
  auto to = [](uint32_t op, double v, tenon_dtype_t d) {
    const double raw = run<double>(op, TENON_F64, v, 0, d);
    return static_cast<int64_t>(std::bit_cast<uint64_t>(raw));
  };
  const uint32_t saturate = TENON_SCALAR_WORD(TENON_S_CONVERT_RESULT, 0),
                 wrap = TENON_SCALAR_WORD(TENON_S_CONVERT_WRAP, 0);
  EXPECT_EQ(to(saturate, 300.7, TENON_U8), 255);
  EXPECT_EQ(to(saturate, -1, TENON_U8), 0);
  EXPECT_EQ(to(saturate, 1e30, TENON_I64), INT64_MAX);
  EXPECT_EQ(to(saturate, -1e30, TENON_I64), INT64_MIN);
  EXPECT_EQ(to(saturate, NAN, TENON_I64), 0);
  EXPECT_EQ(to(saturate, -2.9, TENON_I64), -2);
  EXPECT_EQ(to(saturate, NAN, TENON_PRED), 1);
  EXPECT_EQ(to(wrap, 300.7, TENON_U8), 44);
  EXPECT_EQ(to(wrap, -1, TENON_U8), 255);
  // 2049 lies between two f16 numbers; going through f32 must not round twice.
  EXPECT_EQ(to(saturate, 2049.0000001, TENON_F16), ir::f32_to_f16(2050));
  EXPECT_EQ(to(saturate, 2049, TENON_F16), ir::f32_to_f16(2048));
}

TEST(NarrowFloats, RoundTripAndRoundToNearestEven) {
  for (uint32_t b = 0; b < 65536; ++b) {
    const uint16_t h = static_cast<uint16_t>(b);
    if (!std::isnan(ir::f16_to_f32(h))) ASSERT_EQ(ir::f32_to_f16(ir::f16_to_f32(h)), h);
    if (!std::isnan(ir::bf16_to_f32(h))) ASSERT_EQ(ir::f32_to_bf16(ir::bf16_to_f32(h)), h);
    const uint8_t q = static_cast<uint8_t>(b);
    if (!std::isnan(ir::f8e4m3fn_to_f32(q)))
      ASSERT_EQ(ir::f32_to_f8e4m3fn(ir::f8e4m3fn_to_f32(q)), q);
    if (!std::isnan(ir::f8e5m2_to_f32(q))) ASSERT_EQ(ir::f32_to_f8e5m2(ir::f8e5m2_to_f32(q)), q);
  }
  // Halfway between neighbours goes to the even one, a hair off goes to the nearer.
  for (uint16_t h = 0; h < 0x7bff; ++h) {
    const float a = ir::f16_to_f32(h), b = ir::f16_to_f32(static_cast<uint16_t>(h + 1)),
                middle = (a + b) / 2;
    ASSERT_EQ(ir::f32_to_f16(middle), h % 2 == 0 ? h : h + 1);
    ASSERT_EQ(ir::f32_to_f16(std::nextafter(middle, 0.0f)), h);
    ASSERT_EQ(ir::f32_to_f16(std::nextafter(middle, INFINITY)), h + 1);
  }
  EXPECT_EQ(ir::f32_to_f16(65520), 0x7c00);
  EXPECT_EQ(ir::f32_to_f16(65519), 0x7bff);
  EXPECT_EQ(ir::f32_to_f8e4m3fn(1e9f), 0x7f);
}

}  // namespace
}  // namespace tenon::op
