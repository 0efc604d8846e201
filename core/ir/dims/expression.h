// The expression form of .tir, in which op declarations write their examples and negatives
// (tenon/abi/ops.h).
//
//     slice(f32[5] [0, 1, 2, 3, 4]) {start = [1], limit = [4]} -> f32[3] [1, 2, 3]
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "core/ir/graph.h"

namespace tenon::ir {

struct ExpressionValue {
  TypeDraft type;       // dtype NONE and kind TENSOR: an absent operand, `_`
  Ref<Blob> blob;       // null for a type without a literal
  Value value = kNone;  // operands: a constant of the graph, or an argument if there is no literal
};

// One op applied to values of a graph of its own. Symbols in types are defined at their first use.
struct Expression {
  tenon_sym_t op = 0;
  uint32_t op_version = 0;
  Ref<Graph> graph;
  std::vector<ExpressionValue> operands;
  std::vector<tenon_attr_t> attrs;  // as written, borrowed from `storage`
  std::vector<Region> regions;
  bool has_results = false;
  std::vector<ExpressionValue> results;
  std::shared_ptr<void> storage;
};

// `name` is for diagnostics.
Result<Expression> parse_expression(std::string_view text, std::string_view name);

// Builds the node at the end of the expression's graph; for a negative this is where it fails.
Result<Node> build_expression(const Expression& expression);

}  // namespace tenon::ir
