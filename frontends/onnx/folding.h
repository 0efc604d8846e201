// Computes values of a graph that is being built from the constants behind them, when they are
// small.
#ifndef FRONTENDS_ONNX_FOLDING_H_
#define FRONTENDS_ONNX_FOLDING_H_

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <tenon/cpp/graph.hpp>

#include "weights.h"

namespace tenon::onnx {

// Of one graph; what was computed is kept.
class Folding {
 public:
  // Null where the value follows from something else than constants, or is too large. Borrowed
  // until this goes.
  const Constant* of(const Value& value);

 private:
  const Constant* compute(const Value& value, size_t depth);
  const Constant* evaluate(const Value& value, const Node& node, const std::vector<int64_t>& dims,
                           const std::vector<tenon_array_t>& inputs);
  static uint32_t symbol_limit(tenon_graph_t* graph);

  std::unordered_map<tenon_value_t, Constant> known_;
  std::unordered_set<tenon_value_t> refused_;  // what evaluation failed for
  size_t nodes_ = 0;
  uint64_t work_left_ =
      1 << 24;  // elements that may be touched for a whole model: real ones compute a few numbers
};

}  // namespace tenon::onnx

#endif  // FRONTENDS_ONNX_FOLDING_H_
