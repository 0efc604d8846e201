#include "core/dispatch/placement/extract.h"

#include <gtest/gtest.h>

#include "core/ir/serial/serial.h"
#include "core/ir/test_ops.h"

namespace tenon::dispatch {
namespace {

using ir::Graph;
using ir::Node;
using ir::Value;

ir::Ref<Graph> read(std::string_view text) {
  test::use_test_ops();
  Result<ir::Ref<Graph>> graph = ir::read_text(text, "test", {});
  EXPECT_TRUE(graph.ok()) << graph.status().text();
  return *graph;
}

std::string text_of(const Graph& graph) {
  return ir::write_text(graph)->text;
}

constexpr std::string_view kChain = R"(tenon.tir 1
graph @g<n in [1, 64] % 2, m>(%x: f32[n, 3], %u: f32[m]) -> (y: f32[n, 3], z: f32[m]) {
  %c = const f32[3] [1, 2, 3]
  %a = plus(%x, %x) : f32[n, 3]
  %b = plus(%a, %x) : f32[n, 3]
  %z = plus(%u, %u) : f32[m]
  yield %b, %z
}
)";

TEST(Extract, SymbolsOfOutsideBecomeSymbolsOfTheSegment) {
  const ir::Ref<Graph> g = read(kChain);
  const std::span<const Node> nodes = g->nodes(g->main());
  const Node second[] = {nodes[1]};
  const Value outputs[] = {g->results(nodes[1])[0]};
  const Result<Subgraph> sub = extract(*g, second, outputs, "part");
  ASSERT_TRUE(sub.ok()) << sub.status().text();
  EXPECT_EQ(sub->inputs.size(), 2u);
  ASSERT_EQ(sub->symbols.size(), 1u);
  EXPECT_TRUE(sub->graph->frozen());
  EXPECT_TRUE(sub->graph->verify().ok()) << sub->graph->verify().text();
  const std::string text = text_of(*sub->graph);
  EXPECT_NE(text.find("n in [1, 64] % 2"), std::string::npos) << text;
  EXPECT_EQ(text.find("m"), text.find("m]"));  // the other input's symbol is not there
}

TEST(Extract, NotesGoWithTheirNodesAndValues) {
  const ir::Ref<Graph> g = read(R"(tenon.tir 1
graph @g(%x: f32[3] {a.of = "input"}) -> (y: f32[3]) {
  %c = const f32[3] {a.of = "constant"} [1, 2, 3]
  %a = plus(%x, %c) {a.cluster = 3} : f32[3] {a.of = "result"}
  %b = plus(%a, %c) : f32[3]
  yield %b
}
)");
  const std::span<const Node> nodes = g->nodes(g->main());
  const Node first[] = {nodes[0]}, second[] = {nodes[1]};
  const Value a[] = {g->results(nodes[0])[0]}, b[] = {g->results(nodes[1])[0]};
  const std::string part = text_of(*extract(*g, first, a, "part")->graph);
  for (const char* note : {"{a.of = \"input\"}", "{a.of = \"constant\"} [1", "{a.cluster = 3}",
                           "f32[3] {a.of = \"result\"}"})
    EXPECT_NE(part.find(note), std::string::npos) << part;
  // The result of the first is an argument of the second.
  const std::string other = text_of(*extract(*g, second, b, "part")->graph);
  EXPECT_NE(other.find("f32[3] {a.of = \"result\"}) ->"), std::string::npos) << other;
  EXPECT_EQ(other.find("cluster"), std::string::npos) << other;
}

TEST(Extract, AllNodesMakeTheSameGraph) {
  const ir::Ref<Graph> g = read(kChain);
  const Result<Subgraph> sub = extract(*g, g->nodes(g->main()), g->region(g->main()).yields, "g");
  ASSERT_TRUE(sub.ok()) << sub.status().text();
  EXPECT_TRUE(sub->graph->verify().ok());
  EXPECT_EQ(*sub->graph->structural_hash(), *g->structural_hash()) << text_of(*sub->graph);
}

TEST(Extract, SymbolsDefinedInsideAreToldInOrder) {
  const ir::Ref<Graph> g = read(R"(tenon.tir 1
graph @g<n>(%x: f32[n]) -> (i: i64[1, k]) {
  %i = find(%x) <k> : i64[1, k]
  yield %i
}
)");
  if (g.get() == nullptr) return;
  const Result<Subgraph> sub = extract(*g, g->nodes(g->main()), g->region(g->main()).yields, "g");
  ASSERT_TRUE(sub.ok()) << sub.status().text();
  EXPECT_EQ(sub->out_symbols.size(), 1u);
  EXPECT_EQ(sub->symbols.size(), 1u);
  EXPECT_TRUE(sub->graph->verify().ok()) << sub->graph->verify().text();
}

TEST(Extract, WholeGraphOnlyWhenOutputsAreResults) {
  Subgraph whole;
  EXPECT_TRUE(take_whole(*read(kChain), &whole));
  EXPECT_EQ(whole.inputs.size(), 2u);
  const ir::Ref<Graph> passes_through =
      read("tenon.tir 1\ngraph @g(%x: f32[2]) -> (a: f32[2]) {\n  yield %x\n}\n");
  EXPECT_FALSE(take_whole(*passes_through, &whole));
}

TEST(Extract, LateArgumentsBecomeConstantsWithoutBytes) {
  const ir::Ref<Graph> g = read(R"(tenon.tir 1
graph @g(%x: f32[2, 3], %w: f32[2, 3]) -> (y: f32[2, 3]) {
  %y = plus(%x, %w) : f32[2, 3]
  yield %y
}
)");
  const std::span<const Node> nodes = g->nodes(g->main());
  const Value outputs[] = {g->results(nodes[0])[0]};
  const Value late[] = {g->region(g->main()).arguments[1]};
  const Result<Subgraph> sub = extract(*g, nodes, outputs, "part", late);
  ASSERT_TRUE(sub.ok()) << sub.status().text();
  EXPECT_EQ(sub->inputs.size(), 1u);
  ASSERT_EQ(sub->late.size(), 1u);
  EXPECT_EQ(sub->late[0].value, late[0]);
  EXPECT_EQ(sub->late[0].blob->size_bytes(), 24u);
  EXPECT_NE(sub->late[0].blob->data().status().text().find("T0695"), std::string::npos);
}

}  // namespace
}  // namespace tenon::dispatch
