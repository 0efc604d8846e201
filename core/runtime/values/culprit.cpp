#include "core/runtime/values/culprit.h"

#include <algorithm>

#include "core/base/checked.h"
#include "core/base/errors/failure.h"
#include "core/base/errors/guard.h"

namespace tenon::runtime {
namespace {

constexpr int kDepthMost = 64;

void add_symbols_below(const GraphReader& graph, tenon_dim_t dim, int depth,
                       std::vector<bool>* out) {
  if (dim >= 0 || depth > kDepthMost) return;
  const tenon_dim_view_t v = graph.dim(dim);
  if (v.op == TENON_DIM_SYMBOL) (*out)[v.symbol] = true;
  if (v.op == TENON_DIM_SYMBOL || v.op == TENON_DIM_CONSTANT) return;
  add_symbols_below(graph, v.a, depth + 1, out);
  add_symbols_below(graph, v.b, depth + 1, out);
}

std::vector<std::vector<tenon_dim_t>> dims_of(const GraphReader& graph, const tenon_value_t* values,
                                              uint32_t count) {
  std::vector<std::vector<tenon_dim_t>> out(count);
  for (uint32_t i = 0; i < count; ++i) {
    if (values[i] == TENON_NONE) continue;
    const tenon_type_t type = graph.value(values[i]).type;
    out[i].assign(type.dims, type.dims + type.rank);
  }
  return out;
}

std::vector<tenon_dim_t> joined(const std::vector<std::vector<tenon_dim_t>>& lists) {
  std::vector<tenon_dim_t> out;
  for (const auto& list : lists) out.insert(out.end(), list.begin(), list.end());
  return out;
}

std::vector<tenon_dim_t> own_dims(const SizedNode& node) {
  std::vector<tenon_dim_t> out = joined(node.operands);
  for (const auto* more : {&node.results, &node.dim_attrs}) {
    const std::vector<tenon_dim_t> dims = joined(*more);
    out.insert(out.end(), dims.begin(), dims.end());
  }
  return out;
}

bool contains(const std::vector<tenon_dim_t>& list, tenon_dim_t dim) {
  return std::ranges::find(list, dim) != list.end();
}

}  // namespace

std::vector<SizedNode> sized_nodes(const GraphReader& graph) {
  std::vector<SizedNode> out;
  const tenon_region_view_t main = graph.main();
  for (uint32_t n = 0; n < main.node_count; ++n) {
    const tenon_node_view_t node = graph.node(main.nodes[n]);
    if (node.loc == 0) continue;
    SizedNode& one = out.emplace_back();
    one.loc = node.loc;
    one.operands = dims_of(graph, node.operands, node.operand_count);
    one.results = dims_of(graph, node.results, node.result_count);
    for (uint32_t i = 0; i < node.attr_count; ++i) {
      const tenon_attr_t& attr = node.attrs[i];
      if (attr.kind == TENON_ATTR_DIMS)
        one.dim_attrs.emplace_back(attr.u.dims, attr.u.dims + attr.count);
    }
  }
  return out;
}

std::string text_of_place(const GraphReader& graph, const Blame* blame, tenon_loc_t loc) {
  if (loc == 0) return {};
  if (blame != nullptr) {
    const auto found = blame->texts.find(loc);
    return found == blame->texts.end() ? std::string() : found->second;
  }
  std::string text;
  const tenon_sink_t sink = sink_into(text);
  return graph.api->loc_text(graph.api->self, graph.graph, loc, &sink) == TENON_OK ? text
                                                                                   : std::string();
}

std::string at_place(const GraphReader& graph, const Blame* blame, tenon_loc_t loc) {
  const std::string text = text_of_place(graph, blame, loc);
  return text.empty() ? text : ", at " + text;
}

void add_symbols(const GraphReader& graph, tenon_dim_t dim, std::vector<bool>* out) {
  add_symbols_below(graph, dim, 0, out);
}

template <class Test>
std::string Culprit::first(Test test) const {
  for (const SizedNode& node : nodes_) {
    if (!test(node)) continue;
    if (std::string text = at_place(graph_, blame_, node.loc); !text.empty()) return text;
  }
  return {};
}

std::string Culprit::negative() const {
  return first([this](const SizedNode& node) {
    for (tenon_dim_t dim : joined(node.results)) {
      int64_t size = 0;
      if (dim < 0 && (!evaluate(dim, &size) || size < 0)) return true;
    }
    return false;
  });
}

bool Culprit::has_size_attr(const SizedNode& node) const {
  return std::ranges::find(node.dim_attrs, node.results[0]) != node.dim_attrs.end();
}

std::string Culprit::resized() const {
  return first([this](const SizedNode& node) {
    if (node.operands.size() != 1 || node.results.size() != 1) return false;
    const std::vector<tenon_dim_t>&from = node.operands[0], &to = node.results[0];
    const bool drops =
        std::ranges::any_of(from, [&](tenon_dim_t d) { return d < 0 && !contains(to, d); });
    int64_t before = 0, after = 0;
    return has_size_attr(node) && drops && count(from, &before) && count(to, &after) &&
           before != after;
  });
}

bool Culprit::any_empty(const std::vector<std::vector<tenon_dim_t>>& lists) const {
  for (tenon_dim_t dim : joined(lists)) {
    int64_t size = dim;
    if ((dim >= 0 || evaluate(dim, &size)) && size <= 0) return true;
  }
  return false;
}

std::string Culprit::emptied() const {
  return first([this](const SizedNode& node) {
    return any_empty(node.results) && !any_empty(node.operands);
  });
}

std::string Culprit::relating(tenon_dim_t a, tenon_dim_t b) const {
  const std::string exact = first([&](const SizedNode& node) {
    const std::vector<tenon_dim_t> operands = joined(node.operands), all = own_dims(node);
    return contains(all, a) && contains(all, b) && (contains(operands, a) || contains(operands, b));
  });
  if (!exact.empty()) return exact;
  std::vector<bool> wanted(symbols_.size());
  add_symbols(graph_, a, &wanted);
  add_symbols(graph_, b, &wanted);
  return first([&](const SizedNode& node) {
    std::vector<bool> known(symbols_.size());
    for (tenon_dim_t dim : own_dims(node)) add_symbols(graph_, dim, &known);
    for (size_t s = 0; s < wanted.size(); ++s) {
      if (wanted[s] && !known[s]) return false;
    }
    return true;
  });
}

bool Culprit::evaluate(tenon_dim_t dim, int64_t* out) const {
  const bool done =
      graph_.api->dim_evaluate(graph_.api->self, graph_.graph, dim, symbols_.data(),
                               static_cast<uint32_t>(symbols_.size()), out) == TENON_OK;
  if (!done) clear_failure();
  return done;
}

bool Culprit::count(const std::vector<tenon_dim_t>& dims, int64_t* out) const {
  *out = 1;
  for (tenon_dim_t dim : dims) {
    int64_t size = dim;
    if ((dim < 0 && !evaluate(dim, &size)) || !checked_mul(*out, size, out)) return false;
  }
  return true;
}

}  // namespace tenon::runtime
