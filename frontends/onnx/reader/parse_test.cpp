#include "frontends/onnx/reader/model.h"

#include <gtest/gtest.h>

#include <string>

namespace tenon::onnx {
namespace {

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  return out + static_cast<char>(value);
}
std::string number(uint32_t field, uint64_t value) {
  return varint(field << 3) + varint(value);
}
std::string data(uint32_t field, const std::string& value) {
  return varint(field << 3 | 2) + varint(value.size()) + value;
}

std::string relu_model() {
  const std::string node = data(1, "x") + data(2, "y") + data(3, "n") + data(4, "Relu");
  const std::string dims = data(1, number(1, 2)) + data(1, data(2, "batch"));
  const std::string x = data(1, "x") + data(2, data(1, number(1, 1) + data(2, dims)));
  const std::string graph = data(1, node) + data(2, "g") + data(11, x) + data(12, data(1, "y"));
  return number(1, 8) + data(8, number(2, 17)) + data(7, graph);
}

TEST(OnnxParse, ReadsAModel) {
  const std::string bytes = relu_model();
  ModelProto model;
  Problems problems;
  ASSERT_TRUE(parse_model(bytes, &model, &problems)) << problems.text("m");
  EXPECT_EQ(model.ir_version, 8);
  ASSERT_EQ(model.opsets.size(), 1u);
  EXPECT_EQ(model.opsets[0].version, 17);
  ASSERT_EQ(model.graph->nodes.size(), 1u);
  EXPECT_EQ(model.graph->nodes[0].op_type, "Relu");
  ASSERT_EQ(model.graph->inputs.size(), 1u);
  const ValueProto& x = model.graph->inputs[0];
  EXPECT_EQ(x.elem_type, kFloat);
  ASSERT_EQ(x.dims.size(), 2u);
  EXPECT_EQ(x.dims[0].value, 2);
  EXPECT_EQ(x.dims[1].param, "batch");
  // Names are views into the file: nothing is copied.
  EXPECT_GE(x.name.data(), bytes.data());
  EXPECT_LT(x.name.data(), bytes.data() + bytes.size());
}

TEST(OnnxParse, AnyCutAndAnyFlipIsAnswered) {
  const std::string bytes = relu_model();
  for (size_t i = 0; i < bytes.size(); ++i) {
    ModelProto model;
    Problems problems;
    if (!parse_model(std::string_view(bytes).substr(0, i), &model, &problems)) {
      EXPECT_FALSE(problems.empty());
    }
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ 1 << bit);
      ModelProto other;
      Problems found;
      if (!parse_model(flipped, &other, &found)) {
        EXPECT_FALSE(found.empty());
      }
    }
  }
}

TEST(OnnxParse, RefusesWithTheRightCode) {
  std::string deep = data(4, "If");
  for (int i = 0; i < 100; ++i)
    deep = data(4, "If") + data(5, data(1, "then_branch") + data(6, data(1, deep)));
  const struct {
    std::string bytes, code;
  } cases[] = {
      {"", "T0701"},
      {"no model at all", "T0701"},
      {number(1, 8) + varint(7 << 3 | 2) + varint(~uint64_t{0}) + "x", "T0701"},
      {data(7, data(1, data(4, "\xff\xfe"))), "T0701"},
      {data(7, data(1, data(1, std::string(1 << 20, 'n')))), "T0102"},
      {data(7, data(1, deep)), "T0102"},
      {varint(99 << 3 | 3), "T0701"},
  };
  for (const auto& c : cases) {
    ModelProto model;
    Problems problems;
    EXPECT_FALSE(parse_model(c.bytes, &model, &problems));
    EXPECT_EQ(problems.text("m").substr(0, 5), c.code) << problems.text("m");
  }
}

TEST(OnnxProblems, TextIsSafeToShow) {
  EXPECT_EQ(quote("a\x1b[31m\n"), "'a\\x1b[31m\\x0a'");
  EXPECT_EQ(quote("\xff\xc3\xa9"), "'\\xff\xc3\xa9'");
  EXPECT_EQ(quote(std::string(300, 'a')), "'" + std::string(256, 'a') + "...'");
  Problems problems;
  problems.add("T0706", "first");
  EXPECT_EQ(problems.text("m.onnx"), "T0706: 'm.onnx': first");
  for (int i = 0; i < 30; ++i) problems.add("T0705", "more");
  EXPECT_NE(problems.text("m.onnx").find("and 11 more"), std::string::npos);
}

}  // namespace
}  // namespace tenon::onnx
