// Derivatives of switch.
#include <algorithm>

#include "loops.h"
#include "regions.h"

namespace tenon::passes {
namespace {

// A branch, with the tangents of its yields; invalid for zero.
struct Branch {
  Body body;
  std::vector<Value> yields, tangents;
};

Status push_branch(const Node& node, Region region, const ValueMap& tangents, Branch* branch) {
  std::vector<Value> arguments;
  ValueMap inside;
  for (uint32_t i = 1; i < node.operand_count(); ++i)
    arguments.push_back(branch->body.argument_like(node.operand(i)));
  for (uint32_t i = 1; i < node.operand_count(); ++i) {
    if (tangent_of(tangents, node.operand(i)).valid())
      inside[arguments[i - 1].id()] = branch->body.argument_like(node.operand(i));
  }
  TENON_TRY(clone_region(branch->body.builder(), region, arguments, &branch->yields));
  TENON_TRY(branch->body.yield(branch->yields));
  for (const Value v : captures_of(node)) {
    if (tangent_of(tangents, v).valid()) inside[v.id()] = tangent_of(tangents, v);
  }
  TENON_TRY(
      push_nodes(branch->body.builder(), branch->body.region().nodes(), branch->yields, &inside));
  branch->yields = branch->body.region().yields();
  for (const Value v : branch->yields) branch->tangents.push_back(tangent_of(inside, v));
  return {};
}

Status pull_branch(Body& body, const Node& node, Region region, const Targets& targets,
                   std::span<const Value> cotangents) {
  std::vector<Value> arguments, yields, results;
  for (uint32_t i = 1; i < node.operand_count(); ++i)
    arguments.push_back(body.argument_like(node.operand(i)));
  std::vector<Value> given(cotangents.size());
  for (size_t r = 0; r < cotangents.size(); ++r) {
    if (cotangents[r].valid()) given[r] = body.argument_like(cotangents[r]);
  }
  TENON_TRY(clone_region(body.builder(), region, arguments, &yields));
  TENON_TRY(body.yield(yields));
  const std::vector<Node> nodes = body.region().nodes();
  ValueSet varied;
  for (const uint32_t i : targets.operands) varied.insert(arguments[i - 1].id());
  for (const Value v : targets.captures) varied.insert(v.id());
  mark_varied(nodes, &varied);
  Cotangents sums(body.builder());
  for (size_t r = 0; r < given.size(); ++r) sums.add(yields[r], given[r]);
  TENON_TRY(sums.walk(nodes, varied));
  const auto give = [&](Value v) {
    const Value sum = sums.of(v);
    results.push_back(sum.valid() ? sum : zeros_like(body.builder(), v));
  };
  for (const uint32_t i : targets.operands) give(arguments[i - 1]);
  for (const Value v : targets.captures) give(v);
  return body.yield(results);
}

}  // namespace

Status push_branches(Builder& b, const Node& node, ValueMap* tangents) {
  std::vector<Branch> branches;
  for (const Region region : regions_of(node)) {
    branches.push_back({Body(b), {}, {}});
    TENON_TRY(push_branch(node, region, *tangents, &branches.back()));
  }
  std::vector<uint32_t> with_tangent;
  for (uint32_t r = 0; r < node.result_count(); ++r) {
    const bool any = std::any_of(branches.begin(), branches.end(),
                                 [&](const Branch& x) { return x.tangents[r].valid(); });
    if (any) with_tangent.push_back(r);
  }
  std::vector<Region> regions;
  for (Branch& branch : branches) {
    for (const uint32_t r : with_tangent) {
      const Value t = branch.tangents[r];
      branch.yields.push_back(t.valid() ? t : zeros_like(branch.body.builder(), branch.yields[r]));
    }
    TENON_TRY(branch.body.yield(branch.yields));
    regions.push_back(branch.body.region());
  }
  std::vector<Value> operands = node.operands();
  for (uint32_t i = 1; i < node.operand_count(); ++i) {
    const Value t = tangent_of(*tangents, node.operand(i));
    if (t.valid()) operands.push_back(t);
  }
  const Node made = b.build_node("switch", operands, attributes_of(node), regions);
  TENON_TRY(b.status());
  for (uint32_t k = 0; k < with_tangent.size(); ++k)
    (*tangents)[made.result(with_tangent[k]).id()] = made.result(node.result_count() + k);
  return replace_node(node, made);
}

Status pull_branches(Builder& b, const Node& node, const ValueSet& varied,
                     std::span<const Value> cotangents, Cotangents* sums) {
  const Targets targets = targets_of(node, varied, 1);
  std::vector<Region> regions;
  for (const Region region : regions_of(node)) {
    Body body(b);
    TENON_TRY(pull_branch(body, node, region, targets, cotangents));
    regions.push_back(body.region());
  }
  std::vector<Value> operands = node.operands();
  for (const Value v : cotangents) {
    if (v.valid()) operands.push_back(v);
  }
  const Node made = b.build_node("switch", operands, {}, regions);
  TENON_TRY(b.status());
  uint32_t at = 0;
  for (const uint32_t i : targets.operands) sums->add(node.operand(i), made.result(at++));
  for (const Value v : targets.captures) sums->add(v, made.result(at++));
  return {};
}

}  // namespace tenon::passes
