#include "common.h"

namespace tenon::passes {
namespace {

constexpr tenon_str_t kStatistics[] = {str("unary"), str("binary")};

bool is_element_wise(const Node& node, uint32_t operands) {
  return node.operand_count() == operands && node.result_count() == 1 &&
         node.view().region_count == 0 && has_trait(op_of(node), TENON_TRAIT_ELEMENTWISE);
}

bool same_placement(const Node& a, const Node& b) {
  return a.i64s("dims") == b.i64s("dims") && a.dims("shape") == b.dims("shape");
}

// Applies the op before the broadcast instead of after it. Ends: every application moves a
// broadcast nearer to the end of the graph. Never worse: the op runs on fewer elements, and a
// broadcast with another user is left alone.
Status rebuild(Builder& builder, const Node& node, std::vector<Value> inner,
               std::vector<Value>* out) {
  const Node broadcast = node.operand(0).node();
  std::vector<Attr> attrs;
  for (uint32_t i = 0; i < node.view().attr_count; ++i) attrs.push_back(Attr(node.view().attrs[i]));
  const std::vector<int64_t> dims = broadcast.i64s("dims");
  const Dims shape = broadcast.dims("shape");
  const Node op = builder.build_node(node.op(), inner, attrs);
  if (!op) return builder.status();
  *out = {builder.broadcast(op.result(), shape, dims)};
  return {};
}

Status unary(Builder& builder, const Node& node, std::vector<Value>* out) {
  Value x;
  if (!is_element_wise(node, 1) || !match_op("broadcast", bind(&x))(node.operand(0))) return {};
  if (node.operand(0).use_count() != 1) return {};
  return rebuild(builder, node, {x}, out);
}

Status binary(Builder& builder, const Node& node, std::vector<Value>* out) {
  Value x, y;
  if (!is_element_wise(node, 2) || !match_op("broadcast", bind(&x))(node.operand(0)) ||
      !match_op("broadcast", bind(&y))(node.operand(1))) {
    return {};
  }
  if (node.operand(0).use_count() != 1 || node.operand(1).use_count() != 1 || x.dims() != y.dims())
    return {};
  if (!same_placement(node.operand(0).node(), node.operand(1).node())) return {};
  return rebuild(builder, node, {x, y}, out);
}

constexpr tenon_rewrite_t kRewrites[] = {rewrite<unary>("unary", ""),
                                         rewrite<binary>("binary", "")};

constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%x: f32[4]) -> (y: f32[4, 8]) {
  %0 = broadcast(%x) {dims = [0], shape = dims [4, 8]} : f32[4, 8]
  %1 = exp(%0) : f32[4, 8]
  yield %1
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g(%x: f32[4]) -> (y: f32[4, 8]) {
  %0 = exp(%x) : f32[4]
  %1 = broadcast(%0) {dims = [0], shape = dims [4, 8]} : f32[4, 8]
  yield %1
}
)";

constexpr auto kPass =
    pass("sink-broadcasts", "Computes before broadcasting if the result is the same.")
        .describe(
            "An element-wise op whose operands are all broadcast in the same way is "
            "applied before the broadcast: the same numbers from fewer elements. "
            "Afterwards, fold sees constants that the broadcast hid.")
        .example(kBefore, kAfter)
        .statistics(kStatistics)
        .rewrites(kRewrites);

}  // namespace
}  // namespace tenon::passes

TENON_PASS(sink_broadcasts, tenon::passes::kPass)
