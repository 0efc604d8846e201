// The one session of a test process, and small graphs from text.
#pragma once
#include <gtest/gtest.h>

#include <string_view>

#include <tenon/cpp/session.hpp>

#include "tests/random/rounding/evaluation.h"

namespace tenon::random_tests {

inline Session& session() {
  static auto* opened = [] {
    auto* made = new Session;
    EXPECT_TRUE(made->open().ok()) << failure_text();
    return made;
  }();
  return *opened;
}

// A graph with one binding of random inputs, evaluated. The arguments have constant dims.
inline Generated graph_of(std::string_view text, uint64_t seed = 1) {
  Generated out;
  Model model;
  tenon_graph_t* graph = nullptr;
  (void)session();
  EXPECT_TRUE(session().load_bytes(text, "graph.tir", &model).ok()) << failure_text();
  EXPECT_EQ(session().api().model_graph(session().api().self, model.get(), &graph), TENON_OK);
  out.graph = Graph(graph);
  out.seed = seed;
  const Region main = main_region(graph);
  out.nodes = main.view().node_count;
  Binding& run = out.bindings.emplace_back();
  run.symbols.resize(graph_view(graph).symbol_limit, 1);
  for (const Value argument : main.arguments()) {
    std::vector<int64_t> dims;
    for (const Dim dim : argument.dims()) dims.push_back(dim.constant());
    out.inputs.emplace_back(sym_text(argument.view().name));
    run.inputs.push_back(random_tensor(argument.dtype(), std::move(dims), seed + argument.id()));
  }
  for (uint32_t i = 0; i < main.view().yield_count; ++i)
    out.outputs.emplace_back(sym_text(main.view().output_names[i]));
  return out;
}

}  // namespace tenon::random_tests
