// Generated graphs have the intended properties: small, varied, with reused values, the same for
// the same seed.
#include "tests/random/graphs/fusion_graphs.h"

#include <map>
#include <set>

#include "tests/random/replay.h"
#include "tests/random/session_test.h"

namespace tenon::random_tests {
namespace {

TEST(FusionGraphs, FollowFromTheSeed) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Generated a, b;
    ASSERT_TRUE((session(), fusion_graph(seed, &a)).ok());
    ASSERT_TRUE(fusion_graph(seed, &b).ok());
    EXPECT_EQ(text_of(a), text_of(b));
    ASSERT_EQ(a.bindings.size(), b.bindings.size());
    for (size_t i = 0; i < a.bindings.size(); ++i) {
      for (size_t k = 0; k < a.bindings[i].inputs.size(); ++k) {
        EXPECT_EQ(*a.bindings[i].inputs[k].bytes, *b.bindings[i].inputs[k].bytes);
      }
    }
  }
}

struct Counts {
  std::map<std::string, int> ops;
  std::set<tenon_dtype_t> dtypes;
  std::set<size_t> ranks;
  int symbolic = 0, several_outputs = 0, used_and_yielded = 0, single_elements = 0;
};

void add(const Generated& made, Counts* counts) {
  const Region main = main_region(made.graph.get());
  counts->symbolic += made.bindings.size() > 1 ? 1 : 0;
  counts->several_outputs += made.outputs.size() > 1 ? 1 : 0;
  for (const Node& node : main.nodes()) ++counts->ops[std::string(node.op())];
  for (const Value value : main.yields()) counts->used_and_yielded += value.use_count() > 1 ? 1 : 0;
  for (const Tensor& output : made.bindings[0].outputs) {
    counts->dtypes.insert(output.dtype);
    counts->ranks.insert(output.dims.size());
    counts->single_elements += output.count() == 1 ? 1 : 0;
  }
}

TEST(FusionGraphs, HaveWhatFusionGoesWrongOn) {
  Counts counts;
  uint64_t nodes = 0;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    Generated made;
    ASSERT_TRUE((session(), fusion_graph(seed, &made)).ok()) << seed << ": " << failure_text();
    EXPECT_LE(made.nodes, 20u);
    nodes += made.nodes;
    add(made, &counts);
  }
  EXPECT_GT(nodes, 2000u * 5);
  for (const char* op :
       {"broadcast",   "reduce_sum",  "reduce_max",    "mean",       "softmax",
        "log_softmax", "transpose",   "reshape",       "slice",      "reverse",
        "pad",         "concat",      "split",         "select",     "compare",
        "convert",     "dot_general", "take",          "take_along", "argmax",
        "cumsum",      "conv",        "reduce_window", "layer_norm", "dynamic_update_slice",
        "one_hot",     "tile",        "matmul_nbits"}) {
    EXPECT_GE(counts.ops[op], 5) << op;
  }
  EXPECT_EQ(counts.ranks, (std::set<size_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(counts.dtypes,
            (std::set<tenon_dtype_t>{TENON_PRED, TENON_I8, TENON_I16, TENON_I32, TENON_I64,
                                     TENON_U8, TENON_U16, TENON_U32, TENON_U64, TENON_F16,
                                     TENON_BF16, TENON_F32, TENON_F64}));
  EXPECT_GT(counts.symbolic, 300);
  EXPECT_GT(counts.several_outputs, 1500);
  EXPECT_GT(counts.used_and_yielded, 1000);
  EXPECT_GT(counts.single_elements, 300);
}

// The outputs of a generated graph are those that evaluating it again gives.
TEST(FusionGraphs, CarryTheirOutputs) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Generated made;
    ASSERT_TRUE((session(), fusion_graph(seed, &made)).ok());
    const std::vector<Binding> carried = made.bindings;
    ASSERT_EQ(evaluate(&made), "") << seed;
    for (size_t b = 0; b < carried.size(); ++b) {
      for (size_t i = 0; i < carried[b].outputs.size(); ++i) {
        Tensor wanted = carried[b].outputs[i];
        wanted.allowed = nullptr;
        EXPECT_EQ(difference("y", wanted, made.bindings[b].outputs[i].data()), "") << seed;
      }
    }
  }
}

}  // namespace
}  // namespace tenon::random_tests
