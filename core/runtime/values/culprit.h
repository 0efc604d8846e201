// Who is to blame for sizes that cannot be: looked for only once something is wrong.
//
// Threads: const; safe.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include <tenon/abi/graph.h>

#include "core/runtime/values/views.h"

namespace tenon::runtime {

// A node of a main region as far as sizes go. One list of dims for each operand, result, and
// attribute that is a list of dims.
struct SizedNode {
  tenon_loc_t loc = 0;
  std::vector<std::vector<tenon_dim_t>> operands, results, dim_attrs;
};

// The nodes that have a location, in order.
std::vector<SizedNode> sized_nodes(const GraphReader& graph);

// What replaces the nodes and locations of a graph that is not there any more.
struct Blame {
  std::vector<SizedNode> nodes;
  std::map<tenon_loc_t, std::string> texts;
};

// The text of a location, or nothing where it is unknown. blame: null if the graph has the text.
std::string text_of_place(const GraphReader& graph, const Blame* blame, tenon_loc_t loc);
// ", at FILE: `node`", or nothing.
std::string at_place(const GraphReader& graph, const Blame* blame, tenon_loc_t loc);

// Marks the symbols that a dim mentions.
void add_symbols(const GraphReader& graph, tenon_dim_t dim, std::vector<bool>* out);

// Finds the first node that cannot have the sizes of a run. Each function returns ", at FILE:
// `node`", or nothing. blame: null if the graph has the nodes.
class Culprit {
 public:
  Culprit(const GraphReader& graph, const Blame* blame, std::span<const int64_t> symbols)
      : graph_(graph),
        blame_(blame),
        symbols_(symbols),
        nodes_(blame != nullptr ? blame->nodes : sized_nodes(graph)) {}

  // A node with a result of a negative size.
  std::string negative() const;
  // One that has its sizes as an attribute, drops a dim of its operand, and does not come out with
  // as many elements.
  std::string resized() const;
  // One whose result has no elements though each of its operands has some: a window or a cut beyond
  // the end.
  std::string emptied() const;
  // The node that relates the two dims: both stand among its own, or else the first that knows all
  // of their symbols.
  std::string relating(tenon_dim_t a, tenon_dim_t b) const;

 private:
  template <class Test>
  std::string first(Test test) const;
  bool evaluate(tenon_dim_t dim, int64_t* out) const;
  bool count(const std::vector<tenon_dim_t>& dims, int64_t* out) const;
  bool has_size_attr(const SizedNode& node) const;
  bool any_empty(const std::vector<std::vector<tenon_dim_t>>& lists) const;

  const GraphReader graph_;
  const Blame* blame_;
  std::span<const int64_t> symbols_;
  const std::vector<SizedNode> nodes_;
};

}  // namespace tenon::runtime
