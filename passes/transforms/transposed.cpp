// Transposes linear rules.
#include <algorithm>

#include "rules.h"

namespace tenon::passes {
namespace {

// A rule may ask for sizes of values that depend on the stand-ins. Such a size would keep them from
// being erased, so it is taken from other zeros of the same sizes.
void take_sizes_elsewhere(const std::vector<Node>& nodes, const ValueSet& linear) {
  for (const Node& node : nodes) {
    if (!node.is("dim_size") || !linear.contains(node.operand(0).id())) continue;
    Builder here = Builder::before(node);
    const Value size =
        here.build("dim_size", {zeros_like(here, node.operand(0))}, {{"dim", node.i64("dim")}});
    if (here.status().ok() && replace(node.result(), size).ok()) (void)erase(node);
  }
}

}  // namespace

void erase_unused_since(const Builder& b, tenon_node_t first, const std::vector<Value>& kept) {
  std::unordered_set<tenon_node_t> makers;
  for (const Value v : kept) {
    if (v.valid() && v.node()) makers.insert(v.node().id());
  }
  std::vector<Node> nodes = nodes_since(b.graph(), b.raw().region, first);
  std::erase_if(nodes, [&](const Node& node) { return makers.contains(node.id()); });
  erase_unused(nodes);
}

Status transposed(Builder& b, const Node& node, const std::vector<Value>& like,
                  std::span<const Value> cotangents, const LinearRule& rule,
                  std::vector<Value>* out) {
  const tenon_node_t first = next_node(node.graph());
  std::vector<Value> stand_ins(like.size()), results;
  ValueSet linear;
  for (size_t i = 0; i < like.size(); ++i) {
    if (!like[i].valid()) continue;
    stand_ins[i] =
        b.build("broadcast", {b.scalar(like[i].dtype(), 0)}, {{"shape", like[i].dims()}});
    linear.insert(stand_ins[i].id());
  }
  TENON_TRY(b.status());
  TENON_TRY(rule(stand_ins, &results));
  std::vector<Node> made = nodes_since(node.graph(), b.raw().region, first);
  mark_varied(made, &linear);
  take_sizes_elsewhere(made, linear);
  std::erase_if(made, [](const Node& one) { return one.erased(); });
  Cotangents sums(b);
  for (size_t r = 0; r < results.size(); ++r) sums.add(results[r], cotangents[r]);
  TENON_TRY(sums.walk(made, linear));
  for (const Value v : stand_ins) out->push_back(v.valid() ? sums.of(v) : Value());
  erase_unused_since(b, first, *out);
  for (const Value v : stand_ins) {
    if (v.valid() && !v.node().erased())
      return refuse(
          node, "T0410",
          "its rule is not linear in the tangents or cotangents that it gets: correct the rule");
  }
  return b.status();
}

Status pull_by_tangents(Builder& b, const Node& node, const std::vector<uint8_t>& wanted,
                        std::span<const Value> cotangents, const LinearRule& rule,
                        std::vector<Value>* out) {
  std::vector<Value> like(wanted.size());
  for (uint32_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] != 0) like[i] = node.operand(i);
  }
  return transposed(b, node, like, cotangents, rule, out);
}

}  // namespace tenon::passes
