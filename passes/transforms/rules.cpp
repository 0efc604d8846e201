#include "rules.h"

#include <algorithm>

#include "loops.h"
#include "regions.h"
#include "scalar_derivative.h"

namespace tenon::passes {
namespace {

std::vector<tenon_value_t> ids_of(std::span<const Value> values) {
  std::vector<tenon_value_t> out;
  for (const Value v : values) out.push_back(v.id());
  return out;
}
std::vector<Value> values_of(tenon_graph_t* graph, const std::vector<tenon_value_t>& ids) {
  std::vector<Value> out;
  for (const tenon_value_t id : ids) out.push_back(Value(graph, id));
  return out;
}

// The declaration and the rules of a node's op.
struct Declared {
  const tenon_op_def_t& op;
  const tenon_op_rules_t* rules;
  bool is_complex;
  bool has(auto member) const { return rules != nullptr && rules->*member != nullptr; }
  bool is_linear() const { return has(&tenon_op_rules_t::transpose); }
  bool is_scalar() const {
    return op.scalar_words != 0 && (!is_complex || has_trait(&op, TENON_TRAIT_HOLOMORPHIC));
  }
  // Null if there is none. A decomposition from a scalar program does not hold for complex numbers.
  decltype(tenon_op_def_t::decompose) decomposition() const {
    if (is_complex && (op.decompose_complex != nullptr || op.scalar_words != 0))
      return op.decompose_complex;
    return op.decompose;
  }
};
Declared declared(const Node& node, const tenon_op_def_t& op) {
  return {op, op.rules, is_complex_node(node)};
}

// The plugin whose declaration of an op is in force; empty for none.
std::string plugin_of(const tenon_op_def_t& op) {
  std::pair<std::string_view, std::string> found = {view(op.name), ""};
  registry().op_each(registry().self, &found,
                     [](void* self, const tenon_op_def_t* each, tenon_str_t plugin) {
                       auto& [name, out] = *static_cast<decltype(found)*>(self);
                       if (view(each->name) == name) out = view(plugin);
                     });
  return found.second;
}

Status refuse_derivative(const Node& node, const Declared& d) {
  if (d.rules != nullptr && d.rules->no_derivative.size != 0)
    return refuse(node, "T0410", view(d.rules->no_derivative));
  return refuse(node, "T0410",
                cat("its declaration, in the plugin ", plugin_of(d.op),
                    ", has no rule, no scalar program and no decomposition"));
}

// ---- Forwards ----

Status push_scalar(Builder& b, const Node& node, const Declared& d, std::span<const Value> tangents,
                   std::vector<Value>* out) {
  for (uint32_t r = 0; r < node.result_count(); ++r) {
    Value sum;
    for (uint32_t i = 0; i < tangents.size(); ++i) {
      if (!tangents[i].valid()) continue;
      const Slope slope = scalar_derivative(b, node, d.op, r, i);
      const Value t = b.convert(tangents[i], detail::compute_type(tangents[i].dtype()));
      const Value term = times(b, t, slope);
      if (term.valid()) sum = sum.valid() ? b.build("add", {sum, term}) : term;
    }
    const tenon_dtype_t to = node.result(r).dtype();
    const bool has_tangent = is_float(to) || is_complex(to);
    out->push_back(sum.valid() && has_tangent ? b.convert(sum, to) : Value());
  }
  return b.status();
}

Status push_linear(Builder& b, const Node& node, const Declared& d, std::span<const Value> tangents,
                   std::vector<Value>* out) {
  std::vector<Value> operands = node.operands();
  bool any = false;
  for (uint32_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].valid() || !in_mask(d.op, d.rules->linear, i)) continue;
    any = any || tangents[i].valid();
    operands[i] = tangents[i].valid() ? tangents[i] : zeros_like(b, operands[i]);
  }
  out->assign(node.result_count(), Value());
  const auto add = [&](const std::vector<Value>& with) {
    const Node made = b.build_node(node.op(), with, attributes_of(node));
    for (uint32_t r = 0; r < out->size() && b.status().ok(); ++r) {
      Value& sum = (*out)[r];
      sum = sum.valid() ? b.build("add", {sum, made.result(r)}) : made.result(r);
    }
  };
  if (any) add(operands);
  for (uint32_t i = 0; i < operands.size(); ++i) {
    if (!tangents[i].valid() || !in_mask(d.op, d.rules->bilinear, i)) continue;
    std::vector<Value> with = node.operands();
    with[i] = tangents[i];
    add(with);
  }
  return b.status();
}

Status decompose(Builder& b, const Node& node, const Declared& d, std::vector<Value>* results) {
  std::vector<tenon_value_t> made(node.result_count(), TENON_NONE);
  TENON_TRY(d.decomposition()(d.op.self, &b.raw(), node.id(), made.data()));
  *results = values_of(node.graph(), made);
  return {};
}

Status push_decomposition(Builder& b, const Node& node, const Declared& d,
                          std::span<const Value> tangents, std::vector<Value>* out) {
  const tenon_node_t first = next_node(node.graph());
  std::vector<Value> results;
  TENON_TRY(decompose(b, node, d, &results));
  ValueMap known;
  for (uint32_t i = 0; i < tangents.size(); ++i) {
    if (tangents[i].valid()) known[node.operand(i).id()] = tangents[i];
  }
  TENON_TRY(push_nodes(b, nodes_since(node.graph(), b.raw().region, first), results, &known));
  for (const Value r : results) {
    const auto at = known.find(r.id());
    out->push_back(at == known.end() ? Value() : at->second);
  }
  return b.status();
}

Status push_by_rule(Builder& b, const Node& node, const Declared& d,
                    std::span<const Value> tangents, std::vector<Value>* out) {
  std::vector<tenon_value_t> made(node.result_count(), TENON_NONE);
  const std::vector<tenon_value_t> given = ids_of(tangents);
  TENON_TRY(d.rules->jvp(d.op.self, &b.raw(), node.id(), given.data(), made.data()));
  *out = values_of(node.graph(), made);
  return {};
}

// ---- Backwards ----

Status pull_scalar(Builder& b, const Node& node, const Declared& d,
                   const std::vector<uint8_t>& wanted, std::span<const Value> cotangents,
                   std::vector<Value>* out) {
  for (uint32_t i = 0; i < wanted.size(); ++i) {
    Value sum;
    for (uint32_t r = 0; wanted[i] != 0 && r < node.result_count(); ++r) {
      if (!cotangents[r].valid()) continue;
      const Slope slope = scalar_derivative(b, node, d.op, r, i);
      const Value g = b.convert(cotangents[r], detail::compute_type(node.operand(i).dtype()));
      const Value term = times(b, g, d.is_complex ? conjugate(b, slope) : slope);
      if (term.valid()) sum = sum.valid() ? b.build("add", {sum, term}) : term;
    }
    out->push_back(sum.valid() ? b.convert(sum, node.operand(i).dtype()) : Value());
  }
  return b.status();
}

Status pull_linear(Builder& b, const Node& node, const Declared& d,
                   const std::vector<uint8_t>& wanted, std::span<const Value> cotangents,
                   std::vector<Value>* out) {
  const std::vector<tenon_value_t> given = ids_of(cotangents);
  for (uint32_t i = 0; i < wanted.size(); ++i) {
    tenon_value_t made = TENON_NONE;
    if (wanted[i] != 0 && in_mask(d.op, d.rules->linear | d.rules->bilinear, i))
      TENON_TRY(d.rules->transpose(d.op.self, &b.raw(), node.id(), i, given.data(), &made));
    out->push_back(Value(node.graph(), made));
  }
  return {};
}

Status pull_by_rule(Builder& b, const Node& node, const Declared& d,
                    const std::vector<uint8_t>& wanted, std::span<const Value> cotangents,
                    std::vector<Value>* out) {
  std::vector<tenon_value_t> made(wanted.size(), TENON_NONE);
  const std::vector<tenon_value_t> given = ids_of(cotangents);
  TENON_TRY(
      d.rules->pull(d.op.self, &b.raw(), node.id(), wanted.data(), given.data(), made.data()));
  *out = values_of(node.graph(), made);
  return {};
}

Status pull_by_jvp(Builder& b, const Node& node, const Declared& d,
                   const std::vector<uint8_t>& wanted, std::span<const Value> cotangents,
                   std::vector<Value>* out) {
  const LinearRule rule = [&](std::span<const Value> tangents, std::vector<Value>* made) {
    return push_by_rule(b, node, d, tangents, made);
  };
  return pull_by_tangents(b, node, wanted, cotangents, rule, out);
}

// The rule for cotangents is linear in them, and its transpose takes tangents of the operands to
// those of the results.
Status push_by_pull(Builder& b, const Node& node, const Declared& d,
                    std::span<const Value> tangents, std::vector<Value>* out) {
  std::vector<Value> like;
  std::vector<uint8_t> wanted;
  for (uint32_t r = 0; r < node.result_count(); ++r)
    like.push_back(is_differentiable(node.result(r)) ? node.result(r) : Value());
  for (const Value t : tangents) wanted.push_back(t.valid() ? 1 : 0);
  const LinearRule rule = [&](std::span<const Value> cotangents, std::vector<Value>* made) {
    return pull_by_rule(b, node, d, wanted, cotangents, made);
  };
  return transposed(b, node, like, tangents, rule, out);
}

Status pull_decomposition(Builder& b, const Node& node, const Declared& d,
                          const std::vector<uint8_t>& wanted, std::span<const Value> cotangents,
                          std::vector<Value>* out) {
  const tenon_node_t first = next_node(node.graph());
  std::vector<Value> results;
  TENON_TRY(decompose(b, node, d, &results));
  const std::vector<Node> made = nodes_since(node.graph(), b.raw().region, first);
  ValueSet varied;
  for (uint32_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] != 0) varied.insert(node.operand(i).id());
  }
  mark_varied(made, &varied);
  Cotangents sums(b);
  for (uint32_t r = 0; r < results.size(); ++r) sums.add(results[r], cotangents[r]);
  TENON_TRY(sums.walk(made, varied));
  ValueSet taken;  // an operand that occurs twice gets its whole cotangent once
  for (uint32_t i = 0; i < wanted.size(); ++i) {
    const bool take = wanted[i] != 0 && taken.insert(node.operand(i).id()).second;
    out->push_back(take ? sums.of(node.operand(i)) : Value());
  }
  erase_unused_since(b, first, *out);
  return b.status();
}

}  // namespace

bool is_differentiable(Value v) {
  if (!v.valid()) return false;
  const TypeView type = v.type();
  return type.kind() == TENON_KIND_TENSOR && (is_float(type.dtype()) || is_complex(type.dtype()));
}

Value zeros_like(Builder& b, Value v) {
  return b.full_like(v, 0);
}

Status refuse(const Node& node, std::string_view what, std::string_view why) {
  std::string place;
  const tenon_sink_t sink = {
      &place, [](void* self, const void* data, uint64_t size) -> tenon_code_t {
        static_cast<std::string*>(self)->append(static_cast<const char*>(data), size);
        return TENON_OK;
      }};
  const tenon_loc_t loc = node.view().loc;
  if (loc != 0) (void)graph_api().loc_text(graph_api().self, node.graph(), loc, &sink);
  const std::string_view verb =
      what == "T0410" ? " has no derivative" : " cannot work on several samples";
  return fail(TENON_UNIMPLEMENTED,
              cat(what, ": ", node.op(), place.empty() ? "" : " at ", place, verb, ": ", why));
}

bool in_mask(const tenon_op_def_t& op, uint32_t mask, uint32_t operand) {
  const uint32_t last = op.operand_count == 0 ? 0 : op.operand_count - 1;
  return (mask >> std::min(operand, last) & 1) != 0;
}

Status push_node(Builder& b, const Node& node, std::span<const Value> tangents,
                 std::vector<Value>* out) {
  const tenon_op_def_t* op = op_of(node);
  if (op == nullptr) return refuse(node, "T0410", "its plugin is missing");
  bool any = false;
  for (uint32_t r = 0; r < node.result_count(); ++r) any |= is_differentiable(node.result(r));
  out->assign(any ? 0 : node.result_count(), Value());
  if (!any) return {};
  const Declared d = declared(node, *op);
  if (d.rules != nullptr && d.rules->no_derivative.size != 0) return refuse_derivative(node, d);
  if (d.is_linear()) return push_linear(b, node, d, tangents, out);
  if (d.is_scalar()) return push_scalar(b, node, d, tangents, out);
  if (d.has(&tenon_op_rules_t::jvp)) return push_by_rule(b, node, d, tangents, out);
  if (d.decomposition() != nullptr) return push_decomposition(b, node, d, tangents, out);
  if (d.has(&tenon_op_rules_t::pull)) return push_by_pull(b, node, d, tangents, out);
  return refuse_derivative(node, d);
}

Status pull_node(Builder& b, const Node& node, const std::vector<uint8_t>& wanted,
                 std::span<const Value> cotangents, std::vector<Value>* out) {
  const tenon_op_def_t* op = op_of(node);
  if (op == nullptr) return refuse(node, "T0410", "its plugin is missing");
  const Declared d = declared(node, *op);
  if (d.rules != nullptr && d.rules->no_derivative.size != 0) return refuse_derivative(node, d);
  if (d.has(&tenon_op_rules_t::pull)) return pull_by_rule(b, node, d, wanted, cotangents, out);
  if (d.is_linear()) return pull_linear(b, node, d, wanted, cotangents, out);
  if (d.is_scalar()) return pull_scalar(b, node, d, wanted, cotangents, out);
  if (d.has(&tenon_op_rules_t::jvp)) return pull_by_jvp(b, node, d, wanted, cotangents, out);
  if (d.decomposition() != nullptr) return pull_decomposition(b, node, d, wanted, cotangents, out);
  return refuse_derivative(node, d);
}

void mark_varied(const std::vector<Node>& nodes, ValueSet* varied) {
  for (const Node& node : nodes) {
    bool depends = false;
    for (const Value v : node.operands()) depends = depends || varied->contains(v.id());
    for (const Value v : captures_of(node)) depends = depends || varied->contains(v.id());
    for (uint32_t r = 0; depends && r < node.result_count(); ++r) {
      if (is_differentiable(node.result(r))) varied->insert(node.result(r).id());
    }
  }
}

void Cotangents::add(Value v, Value cotangent) {
  if (v.valid() && cotangent.valid()) parts_[v.id()].push_back(cotangent);
}

Value Cotangents::of(Value v) {
  const auto at = parts_.find(v.id());
  if (at == parts_.end()) return {};
  std::vector<Value>& parts = at->second;
  const tenon_dtype_t own = v.dtype();
  const tenon_dtype_t wide = parts.size() > 2 ? detail::compute_type(own) : own;
  Value sum = b_.convert(parts[0], wide);
  for (size_t i = 1; i < parts.size(); ++i)
    sum = b_.build("add", {sum, b_.convert(parts[i], wide)});
  parts = {b_.convert(sum, own)};
  return parts[0];
}

Status Cotangents::walk(const std::vector<Node>& nodes, const ValueSet& varied) {
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    std::vector<Value> given;
    bool any = false;
    for (uint32_t r = 0; r < node->result_count(); ++r) {
      given.push_back(varied.contains(node->result(r).id()) ? of(node->result(r)) : Value());
      any = any || given.back().valid();
    }
    if (!any) continue;
    TENON_TRY(b_.status());
    b_.set_loc(node->view().loc);
    if (node->view().region_count != 0) {
      TENON_TRY(pull_regions(b_, *node, varied, given, this));
      continue;
    }
    std::vector<uint8_t> wanted;
    for (const Value v : node->operands()) wanted.push_back(varied.contains(v.id()) ? 1 : 0);
    const std::vector<Value> operands = node->operands();
    std::vector<Value> made;
    TENON_TRY(pull_node(b_, *node, wanted, given, &made));
    for (uint32_t i = 0; i < operands.size(); ++i) {
      if (wanted[i] != 0) add(operands[i], made[i]);
    }
  }
  return b_.status();
}

std::vector<Node> nodes_since(tenon_graph_t* graph, tenon_region_t region, tenon_node_t first) {
  std::vector<Node> out;
  for (tenon_node_t id = first; id < next_node(graph); ++id) {
    const Node node(graph, id);
    if (node.view().parent == region) out.push_back(node);
  }
  return out;
}

tenon_node_t next_node(tenon_graph_t* graph) {
  return graph_view(graph).node_limit;
}

void erase_unused(const std::vector<Node>& nodes) {
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (node->erased() || !is_removable(op_of(*node))) continue;
    bool used = false;
    for (uint32_t r = 0; r < node->result_count(); ++r) used |= node->result(r).use_count() > 0;
    if (!used) (void)erase(*node);  // one whose symbols are in use stays
  }
}

}  // namespace tenon::passes
