// Derivatives and batches of an op in its declaration (abi/ops.h, tenon_op_rules_t):
//
//     op("transpose", ...).linear({0}).transposed<permute_back>().batched({0})
//     op("relu", ...).partial(0, select(arg(0) > 0, 1, 0))
//     op("argmax", ...).no_derivative("its result is an index")
//
// An element-wise op needs none of it, and neither does a composite. An invalid value stands for
// zero. Rules build nodes with the builder, which keeps the first failure. Cotangents are adjoints:
// a complex factor of tangents is a conjugate factor of cotangents.
#ifndef TENON_CPP_RULES_HPP_
#define TENON_CPP_RULES_HPP_

#include <array>
#include <span>
#include <vector>

#include "tenon/abi/ops.h"
#include "tenon/cpp/graph.hpp"
#include "tenon/cpp/scalar.hpp"

namespace tenon::inline sdk {

// Tangents of the results, one each, from those of the operands.
using JvpFunction = std::vector<Value> (*)(Builder& builder, const Node& node,
                                           std::span<const Value> tangents);
// The cotangent of one operand in which the op is linear.
using TransposeFunction = Value (*)(Builder& builder, const Node& node, uint32_t operand,
                                    std::span<const Value> cotangents);
// Cotangents of the operands, one each; those that are not wanted may be left out.
using PullFunction = std::vector<Value> (*)(Builder& builder, const Node& node,
                                            std::span<const uint8_t> wanted,
                                            std::span<const Value> cotangents);
// The results of a node whose operands have a new dim 0 of extent `size` where `is_batched` says
// so. All results have it, too.
using BatchFunction = std::vector<Value> (*)(Builder& builder, const Node& node,
                                             std::span<const Value> operands,
                                             std::span<const uint8_t> is_batched, Dim size);

namespace detail {

inline std::vector<Value> values_of(tenon_graph_t* graph, const tenon_value_t* ids,
                                    uint32_t count) {
  std::vector<Value> out;
  for (uint32_t i = 0; i < count; ++i) out.push_back(Value(graph, ids[i]));
  return out;
}
inline Status give_values(Builder& builder, const std::vector<Value>& values, uint32_t count,
                          tenon_value_t* out) {
  TENON_TRY(builder.status());
  for (uint32_t i = 0; i < count; ++i) out[i] = i < values.size() ? values[i].id() : TENON_NONE;
  return {};
}

template <JvpFunction Function>
tenon_code_t run_jvp(void*, const tenon_builder_t* at, tenon_node_t id,
                     const tenon_value_t* tangents, tenon_value_t* out) noexcept {
  return guarded(context().host, [&] {
    Builder builder(*at);
    const Node node(at->graph, id);
    const auto given = values_of(at->graph, tangents, node.operand_count());
    return give_values(builder, Function(builder, node, given), node.result_count(), out);
  });
}
template <TransposeFunction Function>
tenon_code_t run_transpose(void*, const tenon_builder_t* at, tenon_node_t id, uint32_t operand,
                           const tenon_value_t* cotangents, tenon_value_t* out) noexcept {
  return guarded(context().host, [&] {
    Builder builder(*at);
    const Node node(at->graph, id);
    const auto given = values_of(at->graph, cotangents, node.result_count());
    return give_values(builder, {Function(builder, node, operand, given)}, 1, out);
  });
}
template <PullFunction Function>
tenon_code_t run_pull(void*, const tenon_builder_t* at, tenon_node_t id, const uint8_t* wanted,
                      const tenon_value_t* cotangents, tenon_value_t* out) noexcept {
  return guarded(context().host, [&] {
    Builder builder(*at);
    const Node node(at->graph, id);
    const auto given = values_of(at->graph, cotangents, node.result_count());
    const uint32_t count = node.operand_count();
    return give_values(builder, Function(builder, node, {wanted, count}, given), count, out);
  });
}
template <BatchFunction Function>
tenon_code_t run_batch(void*, const tenon_builder_t* at, tenon_node_t id,
                       const tenon_value_t* operands, const uint8_t* is_batched, tenon_dim_t size,
                       tenon_value_t* out, uint8_t* out_batched) noexcept {
  return guarded(context().host, [&] {
    Builder builder(*at);
    const Node node(at->graph, id);
    const uint32_t count = node.operand_count();
    const auto given = values_of(at->graph, operands, count);
    for (uint32_t i = 0; i < node.result_count(); ++i) out_batched[i] = 1;
    return give_values(builder,
                       Function(builder, node, given, {is_batched, count}, Dim(at->graph, size)),
                       node.result_count(), out);
  });
}

}  // namespace detail

// The rules of a declaration under construction.
struct RulesDraft {
  struct Partial {
    uint32_t operand = 0;
    scalar::Expr program;
  };
  tenon_op_rules_t rules = {};
  std::array<Partial, 3> partials = {};
  std::array<uint32_t, 20> roles = {};
  bool any = false;

  static constexpr uint32_t mask(std::initializer_list<uint32_t> operands) {
    uint32_t out = 0;
    for (const uint32_t i : operands) out |= 1u << i;
    return out;
  }
};

}  // namespace tenon::inline sdk

#endif
