// The text and binary forms: round trips, diagnostics with their place, and hostile bytes.
#include <gtest/gtest.h>

#include <random>

#include "core/ir/dims/expression.h"
#include "core/ir/dtype.h"
#include "core/ir/serial/serial.h"
#include "core/ir/test_ops.h"

namespace tenon::ir {
namespace {

constexpr std::string_view kAllForms = R"(tenon.tir 1
graph @main<n in [0, 4096] % 8 hint 128, m in [1, inf], "odd name"; n <= m>(%x: f32[n, 128], %t: token, %"we\x1brd \"q\"": object "db", %p: i64[]) -> (scores: f32[n, 128], "o 2": token, i64[1, u0]) {
  %w = const f32[2] [1, 2.5]
  %z = const f32[4, 4] splat 0
  %h = const f16[2] hex "017e0000"
  %big = const u64[1] [18446744073709551615] loc("weights.bin" "w0":7)
  %i4 = const i4[3] [-8, 7, 1]
  %c = const c64[1] [(1, -2.5)]
  %b = const pred[2] [true, false]
  %e = const f64[3] [inf, -inf, nan]
  %empty = const f32[0] []
  %0 = plus(%x, %x) : f32[n, 128] loc("model.net" "first":12, "model.net" "second")
  %1 = reshape_to(%0) {shape = dims [2, n floordiv 2, min(m, n), (m + 1)*(n mod 3)]} : f32[2, n floordiv 2, min(m, n), m*(n mod 3) + (n mod 3)]
  %2 = find(%w) <u0 in [0, 2]> : i64[1, u0]
  %3 = every(%w) {b = hex "00ff", d = dims [n], f = 1e+300, fs = [0.5, inf], i = -3, is = [1, -2], mode = "fill", s = "a\nb", ss = ["x", "y"], ts = [], type = bf16} : f32[2]
  %4 = every@1(%w) : f32[2]
  %5 = maybe(%w, _) : f32[2]
  %y = branch(%p, %z, %h, %big, %i4, %c, %b, %e, %empty) : f32[n, 128] regions { (%a: f32[n, 128]) {
    %6 = plus(%a, %x) : f32[n, 128]
    yield %6
  } {
    yield %x
  } }
  %y#1 = plus(%y, %0) : f32[n, 128]
  %"12" = print(%t, %y) : token
  yield %y#1, %"12", %2
}
)";

class TextTest : public testing::Test {
 protected:
  void SetUp() override { test::use_test_ops(); }
  static std::string print(const Graph& g) {
    Result<TextForm> form = write_text(g);
    EXPECT_TRUE(form.ok()) << form.status().text();
    return form.ok() ? form->text : "";
  }
  static Ref<Graph> parse(std::string_view text) {
    Result<Ref<Graph>> g = read_text(text, "test.tir", {});
    EXPECT_TRUE(g.ok()) << g.status().text();
    return g.ok() ? *g : Ref<Graph>();
  }
  static std::string body(std::string_view lines) {
    return "tenon.tir 1\ngraph @g<n>(%x: f32[n], %i: i64[]) -> (f32[n]) {\n" + std::string(lines) +
           "\n  yield %x\n}\n";
  }
  static Status fails(std::string_view text) {
    Result<Ref<Graph>> g = read_text(text, "test.tir", {});
    EXPECT_FALSE(g.ok()) << text;
    return g.ok() ? Status() : g.status();
  }
};

TEST_F(TextTest, PrintParsePrintIsStable) {
  const Ref<Graph> g = parse(kAllForms);
  ASSERT_TRUE(g);
  const std::string first = print(*g);
  const Ref<Graph> again = parse(first);
  ASSERT_TRUE(again);
  EXPECT_EQ(print(*again), first);
  EXPECT_EQ(print(*g->clone()), first);
  EXPECT_EQ(*g->structural_hash(), *again->structural_hash());
  // Everything that was written is there.
  for (const char* part :
       {"%\"12\" = print", "every@1(%w)", "%y#1", "hint 128", "; n <= m>",
        "loc(\"model.net\" \"first\":12, \"model.net\" \"second\")", "type = bf16", "splat 0",
        "hex \"017e0000\"", "fs = [0.5, inf]", "maybe(%w, _)", "<u0 in [0, 2]>"}) {
    EXPECT_NE(first.find(part), std::string::npos) << part << "\n" << first;
  }
}

TEST_F(TextTest, BinaryRoundTrip) {
  const Ref<Graph> g = parse(kAllForms);
  const std::string bytes = *write_binary(*g);
  Result<Ref<Graph>> back =
      read_graph(*blob_bytes(std::as_bytes(std::span(bytes))), "test.tirb", {});
  ASSERT_TRUE(back.ok()) << back.status().text();
  EXPECT_EQ(print(**back), print(*g));
  EXPECT_EQ(*(*back)->structural_hash(), *g->structural_hash());
}

TEST_F(TextTest, LargeConstantsGoToTheSidecar) {
  Ref<Graph> g = Graph::create("g");
  std::vector<std::byte> data(4000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7);
  const Dim dims[] = {1000};
  const tenon_type_t type{TENON_F32, TENON_KIND_TENSOR, 1, dims, 0};
  const Value a = *g->add_constant(type, blob_adopt(data), "a");
  const Value b = *g->add_constant(type, blob_adopt(data), "b");
  const Value both[] = {a, b};
  ASSERT_TRUE(g->set_yields(0, both, {}).ok());
  const TextForm form = *write_text(*g);
  EXPECT_EQ(form.sidecar.size(), 1u);  // equal bytes are stored once
  EXPECT_EQ(read_text(form.text, "t.tir", {}).status().error_code(), "T0207");
  std::string bytes = *sidecar_bytes(form);
  Result<Ref<Graph>> back =
      read_text(form.text, "t.tir", *blob_bytes(std::as_bytes(std::span(bytes))));
  ASSERT_TRUE(back.ok()) << back.status().text();
  EXPECT_EQ(*(*back)->structural_hash(), *g->structural_hash());
  bytes[17] ^= 1;
  EXPECT_EQ(read_text(form.text, "t.tir", *blob_bytes(std::as_bytes(std::span(bytes))))
                .status()
                .error_code(),
            "T0208");
  const std::string binary = *write_binary(*g);
  EXPECT_TRUE(read_graph(*blob_bytes(std::as_bytes(std::span(binary))), "t", {}).ok());
}

TEST_F(TextTest, DiagnosticsNameThePlace) {
  const Status s = fails(body("  %0 = plus(%x, %nope) : f32[n]"));
  EXPECT_EQ(s.error_code(), "T0202");
  EXPECT_EQ(s.message(),
            "test.tir:3:17: the value `%nope` is not defined before this place\n"
            "    %0 = plus(%x, %nope) : f32[n]\n"
            "                  ^");
  struct Case {
    const char* line;
    const char* code;
  };
  const Case cases[] = {
      {"  %0 = pluss(%x, %x)", "T0308"},
      {"  %0 = plus(%x)", "T0309"},
      {"  %0 = plus(%x, %i)", "T0310"},
      {"  %0 = plus(%x, %x) {axis = 1}", "T0311"},
      {"  %0 = reshape_to(%x)", "T0311"},
      {"  %0 = size(%x) {axis = 3}", "T0312"},
      {"  %0 = plus(%x, %x) : f32[n + 1]", "T0313"},
      {"  %0 = plus(%x, %x) : f32[q]", "T0202"},
      {"  %0, %1 = plus(%x, %x)", "T0313"},
      {"  %x = plus(%x, %x)", "T0203"},
      {"  %0 = const i8[1] [128]", "T0204"},
      {"  %0 = const i64[1] [99999999999999999999]", "T0204"},
      {"  %0 = const u8[1] [-1]", "T0204"},
      {"  %0 = const f32[2] [1]", "T0205"},
      {"  %0 = const f32[2] [1, 2, 3]", "T0205"},
      {"  %0 = const f32[n] splat 0", "T0319"},
      {"  %0 = const f32[1000] [1]", "T0205"},
      {"  %0 = const f32[4611686018427387904, 4] splat 0", "T0110"},
      {"  %0 = every(%x) {mode = \"flip\"}", "T0311"},
      {"  %0 = branch(%i) regions { { } }", "T0317"},
      {"  %0 = reshape_to(%x) {shape = dims [n floordiv 0]}", "T0304"},
      {"  %0 = reshape_to(%x) {shape = dims [9223372036854775807 * 2]}", "T0303"},
      {"  %0 = find(%x) <a, b> : i64[1, a]", "T0318"},
      {"  %0 = plus(%x %x)", "T0201"},
      {"  %0 = plus(%x, \"", "T0201"},
      {"  $", "T0201"},
  };
  for (const Case& c : cases) {
    const Status got = fails(body(c.line));
    EXPECT_EQ(got.error_code(), c.code) << c.line << "\n" << got.text();
    EXPECT_NE(got.message().find("test.tir:3:"), std::string::npos) << got.text();
  }
  EXPECT_NE(fails(body("  %0 = pluss(%x, %x)")).message().find("did you mean `plus`"),
            std::string::npos);
  EXPECT_EQ(fails("").error_code(), "T0201");
  EXPECT_EQ(fails("tenon.tir 2\n").error_code(), "T0209");
  EXPECT_EQ(fails("tenon.tir 1 graph @g() -> () { yield } more").error_code(), "T0201");
  EXPECT_EQ(fails("tenon.tir 1 graph @g() -> (f32[]) { yield }").error_code(), "T0313");
  EXPECT_EQ(fails("tenon.tir 1 graph @g(%x: f32[]) -> () { %0 = plus(%x, %x)").error_code(),
            "T0317");
  EXPECT_EQ(fails("tenon.tir 1\n// \xff\xfe\n").error_code(), "T0206");
}

TEST_F(TextTest, ByteOrderMarkAndCarriageReturnsAreTaken) {
  std::string text = "\xef\xbb\xbf";
  for (char c : kAllForms) {
    if (c == '\n') text += '\r';
    text += c;
  }
  parse(text);
}

TEST_F(TextTest, NestingIsBounded) {
  std::string open, close;
  for (int i = 0; i < 10000; ++i) {
    open += "%b" + std::to_string(i) + " = branch(%i) regions { { ";
    close += " yield %x } }";
  }
  EXPECT_EQ(fails(body(open + close)).error_code(), "T0102");
  EXPECT_EQ(fails(body("%0 = reshape_to(%x) {shape = dims [" + std::string(10000, '(') + "n]}"))
                .error_code(),
            "T0102");
  EXPECT_EQ(fails(body("%0 = reshape_to(%x) {shape = dims [" + std::string(10000, '-') + "n]}"))
                .error_code(),
            "T0102");
  std::string twice = "n";
  for (int i = 0; i < 12; ++i)
    twice = "((" + twice + ") floordiv 2 + (" + twice + ") mod " + std::to_string(1009 + i) + ")";
  const Status large = fails(body("%0 = reshape_to(%x) {shape = dims [" + twice + "]}"));
  EXPECT_EQ(large.error_code(), "T0305");
  EXPECT_TRUE(large.message().starts_with("test.tir:3:")) << large.text();
  EXPECT_EQ(fails(body("%0 = const f32[1] " + std::string(10000, '['))).error_code(), "T0201");
  EXPECT_EQ(fails(body("%0 = const f64[1] [1" + std::string(400, '0') + "]")).error_code(),
            "T0204");
  EXPECT_EQ(fails(std::string(10 << 20, ' ')).error_code(), "T0102");
}

TEST_F(TextTest, EveryCutAndManyFlipsAreAnswered) {
  for (size_t i = 0; i < kAllForms.size() - 1; ++i) {
    EXPECT_FALSE(read_text(kAllForms.substr(0, i), "cut.tir", {}).ok()) << i;
  }
  std::mt19937 rng(3);
  for (int i = 0; i < 4000; ++i) {
    std::string text(kAllForms);
    for (int k = static_cast<int>(rng() % 3); k >= 0; --k)
      text[rng() % text.size()] = static_cast<char>(rng());
    Result<Ref<Graph>> g = read_text(text, "flip.tir", {});
    if (!g.ok()) continue;
    const std::string printed = print(**g);
    Result<Ref<Graph>> back = read_text(printed, "back.tir", {});
    ASSERT_TRUE(back.ok()) << back.status().text() << printed;
    EXPECT_EQ(print(**back), printed);
  }
  const std::string binary = *write_binary(*parse(kAllForms));
  for (size_t i = 0; i < binary.size(); ++i) {
    const std::string cut = binary.substr(0, i);
    EXPECT_FALSE(read_graph(*blob_bytes(std::as_bytes(std::span(cut))), "cut", {}).ok()) << i;
    std::string flipped = binary;
    flipped[i] ^= static_cast<char>(1 << (i % 8));
    EXPECT_FALSE(read_graph(*blob_bytes(std::as_bytes(std::span(flipped))), "flip", {}).ok()) << i;
  }
}

TEST_F(TextTest, DumpWritesTheText) {
  const Ref<Graph> g = parse(kAllForms);
  ::testing::internal::CaptureStderr();
  g->dump();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), print(*g));
  ::testing::internal::CaptureStderr();
  g->dims().dump(g->type(g->region(0).arguments[0]).dims[0]);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "n\n");
}

TEST_F(TextTest, NumbersRoundTrip) {
  std::mt19937_64 rng(5);
  for (uint16_t dtype = 1; dtype < elements::kDtypeEnd; ++dtype) {
    const Dim dims[] = {15};
    const tenon_type_t type{dtype, TENON_KIND_TENSOR, 1, dims, 0};
    for (int round = 0; round < 60; ++round) {
      Ref<Graph> g = Graph::create("g");
      std::vector<std::byte> data((15 * dtype_bits(dtype) + 7) / 8);
      for (std::byte& b : data) b = static_cast<std::byte>(dtype == TENON_PRED ? rng() % 2 : rng());
      const Value v = *g->add_constant(type, blob_adopt(data), "c");
      ASSERT_TRUE(g->set_yields(0, {&v, 1}, {}).ok());
      const std::string text = print(*g);
      Result<Ref<Graph>> back = read_text(text, "n.tir", {});
      ASSERT_TRUE(back.ok()) << back.status().text();
      EXPECT_EQ(*(*back)->structural_hash(), *g->structural_hash()) << text;
    }
  }
}

TEST_F(TextTest, Expressions) {
  Result<Expression> e =
      parse_expression("plus(f32[2] [1, 2], f32[2] [3, 4]) -> f32[2] [4, 6]", "example");
  ASSERT_TRUE(e.ok()) << e.status().text();
  EXPECT_EQ(e->operands.size(), 2u);
  ASSERT_TRUE(e->has_results);
  EXPECT_EQ(e->results[0].blob->size_bytes(), 8u);
  EXPECT_TRUE(build_expression(*e).ok());
  e = parse_expression("plus(f32[2], f32[3])", "negative");
  ASSERT_TRUE(e.ok());
  EXPECT_EQ(build_expression(*e).status().error_code(), "T0312");
  e = parse_expression("reshape_to(f32[n, 4]) {shape = dims [4, n]} -> f32[4, n]", "example");
  ASSERT_TRUE(e.ok()) << e.status().text();
  EXPECT_TRUE(build_expression(*e).ok());
  EXPECT_TRUE(parse_expression("maybe(f32[] 1.5, _) -> f32[] -1.5", "e").ok());
  EXPECT_FALSE(parse_expression("plus(f32[2] [1, 2]", "e").ok());
}

}  // namespace
}  // namespace tenon::ir
