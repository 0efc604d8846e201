// Computes small values of a graph under construction from the constants that determine them.
#ifndef FRONTENDS_ONNX_GRAPH_FOLDING_H_
#define FRONTENDS_ONNX_GRAPH_FOLDING_H_

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <tenon/cpp/graph.hpp>

#include "frontends/onnx/graph/weights.h"

namespace tenon::onnx {

// One per graph; keeps results.
class Folding {
 public:
  // Null if the value does not follow from constants alone, or is too large. Borrowed; valid as
  // long as this object.
  const Constant* of(const Value& value);

 private:
  const Constant* compute(const Value& value, size_t depth);
  const Constant* evaluate(const Value& value, const Node& node, const std::vector<int64_t>& dims,
                           const std::vector<tenon_array_t>& inputs);
  static uint32_t symbol_limit(tenon_graph_t* graph);

  std::unordered_map<tenon_value_t, Constant> known_;
  std::unordered_set<tenon_value_t> refused_;  // evaluation failed
  size_t nodes_ = 0;
  uint64_t work_left_ =
      1 << 24;  // elements that may be touched for a whole model: real ones compute a few numbers
};

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_GRAPH_FOLDING_H_
