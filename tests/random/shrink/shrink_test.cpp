// A failing graph becomes as small as possible and still fails.
#include "tests/random/shrink/shrink.h"

#include <filesystem>

#include "tests/random/graphs/fusion_graphs.h"
#include "tests/random/replay.h"
#include "tests/random/session_test.h"

namespace tenon::random_tests {
namespace {

uint64_t count(const Generated& generated, std::string_view op) {
  uint64_t found = 0;
  for (const Node& node : main_region(generated.graph.get()).nodes()) found += node.is(op) ? 1 : 0;
  return found;
}

// Reports a failure wherever a softmax's result is an operand of another op.
std::string wrong_after_softmax(const Generated& generated) {
  for (const Node& node : main_region(generated.graph.get()).nodes()) {
    for (const Value operand : node.operands()) {
      if (operand.valid() && operand.node().valid() && operand.node().is("softmax"))
        return "y: 1 instead of 2";
    }
  }
  return "";
}

TEST(Shrink, TheNodesThatItTakes) {
  int shrunk = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Generated made;
    ASSERT_TRUE((session(), fusion_graph(seed, &made)).ok());
    std::string problem = wrong_after_softmax(made);
    if (problem.empty()) continue;
    const Generated small = shrink(std::move(made), wrong_after_softmax, &problem);
    EXPECT_EQ(problem, "y: 1 instead of 2");
    EXPECT_EQ(wrong_after_softmax(small), problem);
    EXPECT_LE(small.nodes, 2u) << text_of(small);
    EXPECT_LE(small.outputs.size(), 1u) << text_of(small);
    EXPECT_EQ(small.bindings.size(), 1u) << text_of(small);
    EXPECT_EQ(main_region(small.graph.get()).view().symbol_count, 0u) << text_of(small);
    ++shrunk;
  }
  EXPECT_GE(shrunk, 5);
}

// A shrunk graph is consistent: the reference gives the outputs that its bindings have.
TEST(Shrink, CarriesWhatTheReferenceGives) {
  Generated made;
  for (uint64_t seed = 1; made.bindings.size() < 2; ++seed) {
    made = Generated();
    ASSERT_TRUE((session(), fusion_graph(seed, &made)).ok());
  }
  std::string problem = "y0: 1 instead of 2";
  Generated small = shrink(
      std::move(made), [](const Generated&) { return std::string("y0: 1 instead of 2"); },
      &problem);
  ASSERT_EQ(small.bindings.size(), 1u);
  const std::vector<Tensor> outputs = small.bindings[0].outputs;
  ASSERT_EQ(evaluate(&small), "");
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_EQ(difference("y", outputs[i], small.bindings[0].outputs[i].data()), "");
  }
}

TEST(Shrink, AnotherFailureIsAnotherFailure) {
  Generated made = graph_of(
      "tenon.tir 1\ngraph @g(%x: f32[4]) -> (y: f32[4], z: f32[4]) {\n %0 = exp(%x) : f32[4]\n"
      " %1 = neg(%0) : f32[4]\n yield %0, %1\n}\n");
  ASSERT_EQ(evaluate(&made), "");
  const auto runner = [](const Generated& generated) -> std::string {
    return count(generated, "neg") == 0   ? "compile: no neg"
           : count(generated, "exp") == 0 ? ""
                                          : "z: 1 instead of 2";
  };
  std::string problem = runner(made);
  const Generated small = shrink(std::move(made), runner, &problem);
  EXPECT_EQ(problem, "z: 1 instead of 2");
  EXPECT_EQ(small.nodes, 2u);
  EXPECT_EQ(small.bindings[0].inputs[0].dims, std::vector<int64_t>{1});
}

TEST(Shrink, WhatItSavesRunsAgain) {
  Generated made = graph_of(
      "tenon.tir 1\ngraph @g(%x: bf16[3]) -> (y: bf16[3]) {\n %0 = exp(%x) : bf16[3]\n yield "
      "%0\n}\n");
  ASSERT_EQ(evaluate(&made), "");
  const std::string folder = testing::TempDir() + "tenon_shrink_test";
  std::string command;
  ASSERT_EQ(save(made, folder, "one", &command), "");
  EXPECT_EQ(command, "tenon run " + folder + "/one.tir --input x=" + folder +
                         "/one.x.npy --check reference");
  Model model;
  EXPECT_TRUE(session().load(folder + "/one.tir", &model).ok()) << failure_text();
  EXPECT_TRUE(std::filesystem::exists(folder + "/one.x.npy"));
  std::filesystem::remove_all(folder);
  EXPECT_NE(save(made, "/dev/null/none", "one", &command), "");
}

}  // namespace
}  // namespace tenon::random_tests
