// Forward mode in two halves: the values at a point, and a linear map of tangents.
#pragma once
#include "batch.h"
#include "loops.h"
#include "transform.h"

namespace tenon::passes {

// Builds forward mode in the main region, then splits it into the point and the linear map.
class Linearized {
 public:
  explicit Linearized(tenon_graph_t* graph) : ports_(graph), old_(graph, ports_.main().id()) {}

  // The inputs and outputs that the options `wrt` and `of` name.
  Status choose(const PassContext& context);
  // Forward mode. With `keeps_point` a copy of the graph as it was is made first.
  Status push(bool keeps_point);
  // Turns the graph into one half. The point needs `keeps_point`.
  Status set_point(const PassContext& context);
  Status set_map(const PassContext& context);

 private:
  Status keep_point();
  void find_linear();
  void find_saved();
  void use(Value v);
  void save(Value v);
  void save_symbols();
  Status saved_argument(Body& body, size_t place, Batching* copies) const;
  Status finish(Body& body, const std::vector<Value>& yields,
                const std::vector<std::string>& names) const;
  tenon_graph_t* graph() const { return old_.graph(); }

  Ports ports_;
  const Builder old_;
  std::vector<Value> wrt_, given_;  // and their tangents
  std::vector<size_t> of_;
  std::vector<Value> out_;  // tangents of the outputs

  // ---- Values of the graph as it was ----
  // The outputs, then the results of all nodes. Forward mode replaces a loop by one that also
  // carries tangents. Meanwhile the main region yields all these values, so that its yields are
  // their replacements afterwards.
  std::vector<Value> values_, copies_;  // in the point's body
  std::vector<Value> arguments_;        // of the point's body
  Region point_;

  // ---- The map ----
  tenon_node_t first_ = 0;  // the first node of forward mode
  std::vector<Node> nodes_;
  std::unordered_set<tenon_node_t> linear_, inside_;
  std::unordered_set<tenon_symbol_t> symbols_;  // defined by nodes inside
  std::vector<Value> saved_;
  ValueSet known_;  // the inputs of the map: saved values and tangents
};

}  // namespace tenon::passes
