// One node in the place of another, with the symbols that the old one defined.
#include <algorithm>

#include "core/base/process/log.h"
#include "core/base/str.h"
#include "core/ir/graph.h"

namespace tenon::ir {

// Whether a dim has changed.
Result<bool> Graph::rename_symbols(std::vector<Dim>* dims, std::span<const Dim> renamed) {
  bool changed = false;
  for (Dim& d : *dims) {
    if (d >= 0) continue;
    TENON_ASSIGN_OR_RETURN(const Dim now, dims_.import(dims_, d, renamed));
    changed = changed || now != d;
    d = now;
  }
  return changed;
}

Status Graph::rename_symbols(tenon_attr_t* attr, std::span<const Dim> renamed) {
  if (attr->kind == TENON_ATTR_DIMS) {
    std::vector<Dim> dims(attr->u.dims, attr->u.dims + attr->count);
    TENON_ASSIGN_OR_RETURN(const bool changed, rename_symbols(&dims, renamed));
    if (changed) attr->u.dims = arena_.copy(dims.data(), dims.size());
  } else if (attr->kind == TENON_ATTR_TYPES) {
    tenon_type_t* types = arena_.copy(attr->u.types, attr->count);
    for (uint64_t i = 0; i < attr->count; ++i) {
      std::vector<Dim> dims(types[i].dims, types[i].dims + types[i].rank);
      TENON_ASSIGN_OR_RETURN(const bool changed, rename_symbols(&dims, renamed));
      if (changed) types[i].dims = arena_.copy(dims.data(), dims.size());
    }
    attr->u.types = types;
  }
  return {};
}

// In the types of all values and the attributes of all nodes but those of one, and in what is
// known.
Status Graph::rename_symbols(Node except, std::span<const Dim> renamed) {
  for (Value v = 0; v < values_.size(); ++v) {
    if (!value_live(v) || values_[v].node == except) continue;
    const tenon_type_t& old = type(v);
    TypeDraft draft{old.dtype, old.kind, {old.dims, old.dims + old.rank}, old.object};
    TENON_ASSIGN_OR_RETURN(const bool changed, rename_symbols(&draft.dims, renamed));
    if (!changed) continue;
    TENON_ASSIGN_OR_RETURN(const uint32_t t, intern_type(draft.view()));
    count_symbols(old, -1);
    values_[v].type = t;
    count_symbols(*types_[t], 1);
  }
  for (Node n = 0; n < nodes_.size(); ++n) {
    if (!node_live(n) || n == except) continue;
    for (uint32_t i = 0; i < nodes_[n].attr_count; ++i) {
      count_symbols(nodes_[n].attrs[i], -1);
      TENON_RETURN_IF_ERROR(rename_symbols(&nodes_[n].attrs[i], renamed));
      count_symbols(nodes_[n].attrs[i], 1);
    }
  }
  const std::vector<DimFact> known = dims_.facts();
  for (const DimFact& f : known) {
    std::vector<Dim> sides = {f.a, f.b};
    TENON_ASSIGN_OR_RETURN(const bool changed, rename_symbols(&sides, renamed));
    if (changed) TENON_RETURN_IF_ERROR(dims_.assert_fact(f.rel, sides[0], sides[1]));
  }
  return {};
}

Status Graph::replace_node(Node from, Node to, std::span<const uint32_t> order) {
  TENON_RETURN_IF_ERROR(mutable_or_fail());
  if (!node_live(from) || !node_live(to) || from == to) {
    return error(TENON_INVALID_ARGUMENT, "T0301", "node {} cannot be replaced by node {}", from,
                 to);
  }
  const std::vector<Value> old(results(from).begin(), results(from).end());
  const std::vector<Symbol> defined(symbols(from).begin(), symbols(from).end());
  std::vector<Value> now;
  for (uint32_t i = 0; i < old.size(); ++i) {
    const uint32_t at = order.empty() ? i : order[i];
    if (at == kNone && values_[old[i]].uses.empty()) {
      now.push_back(kNone);
      continue;
    }
    if (at >= results(to).size()) {
      return error(TENON_INVALID_ARGUMENT, "T0316",
                   "result {} of node {} is used, and node {} has no result {} in its place", i,
                   from, to, at);
    }
    now.push_back(results(to)[at]);
  }
  const size_t renamed_count = std::min(defined.size(), symbols(to).size());
  // Symbols without a counterpart go away.
  if (renamed_count < defined.size()) TENON_RETURN_IF_ERROR(symbols_unused_outside(from));
  if (renamed_count != 0) {
    std::vector<Dim> renamed(dims_.symbol_count());
    for (Symbol s = 0; s < renamed.size(); ++s) renamed[s] = dims_.symbol(s).dim;
    for (size_t i = 0; i < renamed_count; ++i)
      renamed[defined[i]] = dims_.symbol(symbols(to)[i]).dim;
    TENON_RETURN_IF_ERROR(rename_symbols(to, renamed));
  }
  for (size_t i = 0; i < old.size(); ++i) {
    if (now[i] == kNone) continue;
    if (values_[now[i]].name == 0) values_[now[i]].name = values_[old[i]].name;
    TENON_RETURN_IF_ERROR(replace(old[i], now[i]));
  }
  return erase(from);
}

}  // namespace tenon::ir
