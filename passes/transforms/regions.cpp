#include "regions.h"

#include <algorithm>

#include "loops.h"

namespace tenon::passes {

std::vector<Value> captures_of(const Node& node) {
  std::vector<Value> out;
  const tenon_node_view_t view = node.view();
  for (uint32_t r = 0; r < view.region_count; ++r) {
    const tenon_region_view_t region = Region(node.graph(), view.regions[r]).view();
    for (uint32_t i = 0; i < region.capture_count; ++i)
      out.push_back(Value(node.graph(), region.captures[i]));
  }
  return out;
}

namespace {

// Marks the nodes on whose differentiable results `results` depend. Others need no tangents.
std::vector<bool> leading_to(const std::vector<Value>& results, const std::vector<Node>& nodes) {
  std::vector<bool> out(nodes.size());
  ValueSet used;
  for (const Value v : results) used.insert(v.id());
  for (size_t k = nodes.size(); k-- > 0;) {
    const Node node = nodes[k];
    for (uint32_t r = 0; r < node.result_count(); ++r) {
      const Value v = node.result(r);
      out[k] = out[k] || (used.contains(v.id()) && is_differentiable(v));
    }
    if (!out[k]) continue;
    for (const Value v : node.operands()) used.insert(v.id());
    for (const Value v : captures_of(node)) used.insert(v.id());
  }
  return out;
}

}  // namespace

Status push_nodes(Builder& end, const std::vector<Node>& nodes, const std::vector<Value>& results,
                  ValueMap* tangents) {
  const std::vector<bool> needed = leading_to(results, nodes);
  for (size_t k = 0; k < nodes.size(); ++k) {
    if (!needed[k]) continue;
    const Node node = nodes[k];
    std::vector<Value> given;
    bool any = false;
    for (const Value v : node.operands()) {
      given.push_back(tangent_of(*tangents, v));
      any = any || given.back().valid();
    }
    for (const Value v : captures_of(node)) any = any || tangent_of(*tangents, v).valid();
    if (!any) continue;
    const tenon_node_t next = k + 1 < nodes.size() ? nodes[k + 1].id() : end.raw().before;
    Builder b(tenon_builder_t{node.graph(), end.raw().region, next, node.view().loc});
    if (node.view().region_count != 0) {
      TENON_TRY(push_regions(b, node, tangents));
      continue;
    }
    std::vector<Value> made;
    TENON_TRY(push_node(b, node, given, &made));
    for (uint32_t r = 0; r < made.size(); ++r) {
      if (made[r].valid()) (*tangents)[node.result(r).id()] = made[r];
    }
  }
  return end.status();
}

Status push_regions(Builder& b, const Node& node, ValueMap* tangents) {
  if (node.is("scan") || node.is("while")) return push_loop(b, node, tangents);
  if (node.is("switch")) return push_branches(b, node, tangents);
  if (node.is("call")) return push_call(b, node, tangents);
  return refuse(node, "T0410", "it has regions, and no transform knows it");
}

Status pull_regions(Builder& b, const Node& node, const ValueSet& varied,
                    std::span<const Value> cotangents, Cotangents* sums) {
  if (node.is("scan") || node.is("while")) return pull_loop(b, node, varied, cotangents, sums);
  if (node.is("switch")) return pull_branches(b, node, varied, cotangents, sums);
  if (node.is("call")) return pull_call(b, node, varied, cotangents, sums);
  return refuse(node, "T0410", "it has regions, and no transform knows it");
}

}  // namespace tenon::passes
