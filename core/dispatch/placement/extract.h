// Cuts a segment out of a graph, as a graph of its own for a device to compile.
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "core/ir/graph.h"

namespace tenon::dispatch {

struct Subgraph {
  ir::Ref<ir::Graph> graph;         // frozen
  std::vector<ir::Value> inputs;    // of the original, one per argument
  std::vector<ir::Value> outputs;   // of the original, one per yield
  std::vector<ir::Symbol> symbols;  // of the original, in the order of the main region's symbols
  // Symbols of the original that nodes inside define and outputs mention, in order of definition.
  std::vector<ir::Symbol> out_symbols;
  // Values of the original from outside that are constants here, whose bytes come at load.
  struct Late {
    ir::Value value;
    ir::Ref<ir::Blob> blob;  // stands for them
  };
  std::vector<Late> late;
};

// nodes: of the main region of `from`, in order. outputs: those of their results that are read
// elsewhere. Outside symbols become symbols of the new main region, constants are shared, locations
// are kept. T0506 if a value that is not a tensor crosses the boundary. late: arguments with
// constant dims, which become constants; sorted.
Result<Subgraph> extract(const ir::Graph& from, std::span<const ir::Node> nodes,
                         std::span<const ir::Value> outputs, std::string_view name,
                         std::span<const ir::Value> late = {});

// The same for nodes of any one region, with any values as yields. `arguments` come first among the
// inputs, used or not.
Result<Subgraph> extract_part(const ir::Graph& from, std::span<const ir::Node> nodes,
                              std::span<const ir::Value> arguments,
                              std::span<const ir::Value> yields, std::string_view name);

// The whole graph as one subgraph, without copying. False if its form does not allow that: an
// output that is an argument or a constant, or one value output twice.
bool take_whole(const ir::Graph& from, Subgraph* out);

}  // namespace tenon::dispatch
