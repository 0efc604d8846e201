// Derivatives of call.
#include <algorithm>
#include <iterator>

#include "loops.h"
#include "regions.h"

namespace tenon::passes {
namespace {

// ---- Rules of its own ----

bool has_own_rules(const Node& node) {
  return node.text("rules") != "none";
}

// The regions of a call of kind "custom_deriv"; the op `call` documents their order.
struct Custom {
  Region forward, pull, jvp;
  bool has_pull, has_jvp;

  explicit Custom(const Node& node) {
    const std::vector<Region> regions = regions_of(node);
    const std::string rules = node.text("rules");
    has_pull = rules == "pull" || rules == "both";
    has_jvp = rules == "jvp" || rules == "both";
    if (has_pull) forward = regions[1], pull = regions[2];
    if (has_jvp) jvp = regions.back();
  }
};

Status refuse_rule(const Node& node) {
  return refuse(
      node, "T0410",
      "its own rule uses the function itself, so that there is no rule for a derivative of "
      "this order: write the rule without the function");
}

// The rules have no derivatives for values that the call uses from outside.
Status require_closed(const Node& node, bool has_varied_capture) {
  if (!has_varied_capture) return {};
  return refuse(node, "T0410",
                "it has rules of its own, which are for its arguments, and it uses another value "
                "that depends on the variables: make this an argument");
}

Status push_own(Builder& b, const Node& node, ValueMap* tangents) {
  const Custom custom(node);
  if (!custom.has_jvp && !custom.has_pull) return refuse_rule(node);
  if (!custom.has_jvp) {
    return refuse(
        node, "T0410",
        "its own rule is for cotangents, and forward mode needs one for tangents: add one, "
        "or use reverse mode");
  }
  bool captured = false;
  for (const Value v : captures_of(node)) captured = captured || tangent_of(*tangents, v).valid();
  TENON_TRY(require_closed(node, captured));
  std::vector<Value> arguments = node.operands(), made;
  for (const Value v : node.operands()) {
    if (!is_differentiable(v)) continue;
    const Value t = tangent_of(*tangents, v);
    arguments.push_back(t.valid() ? t : zeros_like(b, v));
  }
  TENON_TRY(clone_region(b, custom.jvp, arguments, &made));
  uint32_t at = 0;
  for (uint32_t r = 0; r < node.result_count(); ++r) {
    if (is_differentiable(node.result(r))) (*tangents)[node.result(r).id()] = made[at++];
  }
  return {};
}

// The forward region replaces the call: its first yields are the results, the others are the values
// that the walk back needs.
Status pull_by_own(Builder& b, const Node& node, const Custom& custom,
                   std::span<const Value> cotangents, const Targets& targets, Cotangents* sums) {
  Builder here = Builder::before(node);
  std::vector<Value> made, cotangents_of;
  std::vector<Value> results;
  for (uint32_t r = 0; r < node.result_count(); ++r) results.push_back(node.result(r));
  const std::vector<Value> operands = node.operands();
  TENON_TRY(clone_region(here, custom.forward, operands, &made));
  std::vector<Value> given(made.begin() + static_cast<int64_t>(results.size()), made.end());
  for (size_t r = 0; r < results.size(); ++r) {
    if (!is_differentiable(results[r])) continue;
    given.push_back(cotangents[r].valid() ? cotangents[r] : zeros_like(b, results[r]));
  }
  TENON_TRY(clone_region(b, custom.pull, given, &cotangents_of));
  uint32_t at = 0;
  for (uint32_t i = 0; i < operands.size(); ++i) {
    if (!is_differentiable(operands[i])) continue;
    const Value cotangent = cotangents_of[at++];
    if (std::find(targets.operands.begin(), targets.operands.end(), i) != targets.operands.end())
      sums->add(operands[i], cotangent);
  }
  for (size_t r = 0; r < results.size(); ++r) TENON_TRY(replace(results[r], made[r]));
  return erase(node);
}

Status pull_by_own_jvp(Builder& b, const Node& node, const Custom& custom,
                       std::span<const Value> cotangents, const Targets& targets,
                       Cotangents* sums) {
  std::vector<uint8_t> wanted;
  for (const Value v : node.operands()) wanted.push_back(is_differentiable(v) ? 1 : 0);
  const LinearRule rule = [&](std::span<const Value> tangents, std::vector<Value>* out) -> Status {
    std::vector<Value> arguments = node.operands(), made;
    std::copy_if(tangents.begin(), tangents.end(), std::back_inserter(arguments),
                 [](Value v) { return v.valid(); });
    TENON_TRY(clone_region(b, custom.jvp, arguments, &made));
    uint32_t at = 0;
    for (uint32_t r = 0; r < node.result_count(); ++r)
      out->push_back(is_differentiable(node.result(r)) ? made[at++] : Value());
    return {};
  };
  std::vector<Value> pulled;
  TENON_TRY(pull_by_tangents(b, node, wanted, cotangents, rule, &pulled));
  for (const uint32_t i : targets.operands) sums->add(node.operand(i), pulled[i]);
  return {};
}

// ---- Computed again ----

// Puts the values and the cotangents through one barrier, so that nothing is computed again before
// the walk back has come here. `seen`: the results of the barrier, by the values.
Status after_barrier(Builder& b, const std::vector<Value>& values, std::vector<Value>* cotangents,
                     ValueMap* seen) {
  std::vector<Value> operands;
  for (const Value v : values) {
    if (v.is_constant() || seen->contains(v.id())) continue;
    (*seen)[v.id()] = v;
    operands.push_back(v);
  }
  const size_t count = operands.size();
  for (const Value v : *cotangents) {
    if (v.valid()) operands.push_back(v);
  }
  const Node barrier = b.build_node("barrier", operands);
  TENON_TRY(b.status());
  for (uint32_t i = 0; i < count; ++i) (*seen)[operands[i].id()] = barrier.result(i);
  auto at = static_cast<uint32_t>(count);
  for (Value& v : *cotangents) {
    if (v.valid()) v = barrier.result(at++);
  }
  return {};
}

}  // namespace

Status push_call(Builder& b, const Node& node, ValueMap* tangents) {
  if (has_own_rules(node)) return push_own(b, node, tangents);
  const tenon_node_t first = next_node(node.graph());
  std::vector<Value> made;
  TENON_TRY(clone_region(b, regions_of(node)[0], node.operands(), &made));
  const std::vector<Node> nodes = nodes_since(node.graph(), b.raw().region, first);
  // Users of the call get these results before the walk, so that they follow where it replaces a
  // loop inside.
  for (uint32_t r = 0; r < made.size(); ++r) TENON_TRY(replace(node.result(r), made[r]));
  TENON_TRY(erase(node));
  return push_nodes(b, nodes, made, tangents);
}

Status pull_call(Builder& b, const Node& node, const ValueSet& varied,
                 std::span<const Value> cotangents, Cotangents* sums) {
  const Targets targets = targets_of(node, varied, 0);
  if (has_own_rules(node)) {
    const Custom custom(node);
    if (!custom.has_jvp && !custom.has_pull) return refuse_rule(node);
    TENON_TRY(require_closed(node, !targets.captures.empty()));
    return custom.has_pull ? pull_by_own(b, node, custom, cotangents, targets, sums)
                           : pull_by_own_jvp(b, node, custom, cotangents, targets, sums);
  }
  std::vector<Value> used = node.operands(), given(cotangents.begin(), cotangents.end());
  const std::vector<Value> captures = captures_of(node);
  used.insert(used.end(), captures.begin(), captures.end());
  ValueMap seen;
  if (node.text("kind") == "remat") TENON_TRY(after_barrier(b, used, &given, &seen));
  const auto now = [&](Value v) {
    const auto at = seen.find(v.id());
    return at == seen.end() ? v : at->second;
  };
  const tenon_node_t first = next_node(node.graph());
  const Region inner = regions_of(node)[0];
  std::vector<Value> arguments, outside, made;
  for (const Value v : node.operands()) arguments.push_back(now(v));
  for (const Value v : captures) outside.push_back(now(v));
  TENON_TRY(clone_region(b, inner, arguments, &made, outside));
  const std::vector<Node> nodes = nodes_since(node.graph(), b.raw().region, first);
  std::vector<Value> wanted = targets.captures;
  for (const uint32_t i : targets.operands) wanted.push_back(node.operand(i));
  ValueSet inside;
  for (const Value v : wanted) inside.insert(now(v).id());
  mark_varied(nodes, &inside);
  Cotangents own(b);
  for (size_t r = 0; r < made.size(); ++r) own.add(made[r], given[r]);
  TENON_TRY(own.walk(nodes, inside));
  ValueSet done;
  for (const Value v : wanted) {
    if (done.insert(v.id()).second) sums->add(v, own.of(now(v)));
  }
  return b.status();
}

}  // namespace tenon::passes
