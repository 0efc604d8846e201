// Where every node of a graph runs, and why: claims of the candidates, the partition, and reports.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/dispatch/placement/claims.h"
#include "core/dispatch/placement/partition.h"
#include "core/ir/graph.h"

namespace tenon::dispatch {

// A composite that the user wrote and that some devices refused, before it was replaced by its
// decomposition.
struct RefusedComposite {
  std::string op;
  ir::Loc loc = 0;         // never 0: without a location its parts cannot be recognised
  ir::Node first_new = 0;  // nodes from here on were made after it was refused
  std::vector<std::pair<std::string, Refusal>> refusals;  // by device name
};

// A kind of device, and what finds the one that is asked.
using Fallback = std::pair<std::string, std::function<Result<std::shared_ptr<runtime::Device>>()>>;

struct Candidates {
  std::vector<std::shared_ptr<runtime::Device>> devices;  // in order of preference
  bool by_preference = false;                             // the first that claims a node gets it
  bool no_fallback = false;                               // T0504 instead of asking a fallback
  // By index in `devices`: globs of the ops that the device may get; empty: all. Set by the user's
  // options NAME.ops.
  std::vector<std::vector<std::string>> offered_ops;
  CompileSettings settings;
  std::vector<RefusedComposite> composites;  // in the order in which they were refused
  // Tried in order while some node has no device. A failure is kept as the reason why that fallback
  // did not help.
  std::vector<Fallback> fallbacks;
};

struct Placement {
  size_t named = 0;                      // how many of `asked`, the first ones, the user named
  std::vector<Claims> asked;             // candidates, then the fallbacks that were tried
  std::vector<std::string> unavailable;  // "reference: reason" of fallbacks that failed
  std::vector<uint32_t> at;  // by node index: index into `asked`; kUnplaced outside the main region
  // By node index: the segment that is exactly the atomic claim by which the node was taken; else
  // kAlone.
  std::vector<uint32_t> claim;
  std::vector<Segment> segments;  // nodes are graph nodes; device is an index into `asked`

  // A kernel set refuses a segment after all, and the device's own compiler takes it.
  void take_back(uint32_t segment, const Status& refusal);
};

// Places a frozen, verified graph. T0501 names every node that no device takes, with each device's
// reason; T0504; T0513 for an option that a device does not have, or a value of it.
Result<Placement> place(const runtime::GraphRef& graph, const Candidates& candidates);

// The partition problem of a graph: costs and bytes with symbols at their likely sizes.
PartitionProblem make_problem(const ir::Graph& graph, std::span<const Claims> asked,
                              size_t fallbacks_from);

// The values that a node of the main region reads, constants left out: operands, captures and what
// decides its sizes. Each once, in order of index.
std::vector<ir::Value> reads_of(const ir::Graph& graph, ir::Node node);

// Values that a node of the main region reads only for a size: results of other nodes that define
// symbols it mentions. The same for what the graph yields.
std::vector<ir::Value> sizes_read(const ir::Graph& graph, ir::Node node);
std::vector<ir::Value> sizes_yielded(const ir::Graph& graph);

// One value per symbol, from likely_size.hpp. For costs and reports only.
std::vector<int64_t> likely_sizes(const ir::Graph& graph);
double likely_bytes(const ir::Graph& graph, ir::Value value, std::span<const int64_t> likely);

// "add(f32[2, n], f32[2, n]) at model.onnx: node": a node, for messages.
std::string node_text(const ir::Graph& graph, ir::Node node);

}  // namespace tenon::dispatch
