// How a change is done.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "changes.h"

namespace tenon::mutants {
namespace {

using Now = std::unordered_map<tenon_value_t, Value>;

void map_results(const Now& now, std::vector<Value>* results) {
  for (Value& r : *results) {
    const auto at = r.valid() ? now.find(r.id()) : now.end();
    if (at != now.end()) r = at->second;
  }
}

// Builds nodes again that come after one with other values.
bool build_again(Builder& b, const std::vector<Node>& nodes, Now* now) {
  for (const Node& node : nodes) {
    std::vector<Value> operands = node.operands();
    map_results(*now, &operands);
    const std::vector<Value> made = copy(b, node, operands);
    if (!b.status().ok()) return false;
    for (uint32_t r = 0; r < made.size(); ++r) (*now)[node.result(r).id()] = made[r];
  }
  return true;
}

}  // namespace

std::vector<Attr> attributes(const Node& node) {
  const tenon_node_view_t view = node.view();
  std::vector<Attr> out;
  for (uint32_t i = 0; i < view.attr_count; ++i) out.push_back(Attr(view.attrs[i]));
  return out;
}
std::vector<Value> results_of(const Node& node) {
  std::vector<Value> out;
  for (uint32_t r = 0; node.valid() && r < node.result_count(); ++r) out.push_back(node.result(r));
  return out;
}
std::vector<Value> copy(Builder& b, const Node& node, const std::vector<Value>& operands) {
  return results_of(b.build_node(node.op(), operands, attributes(node)));
}

bool has_derivative(tenon_dtype_t dtype) {
  return is_float(dtype) || is_complex(dtype);
}
bool is_zeros(Value v) {
  if (v.node().is("broadcast")) v = v.node().operand(0);
  return v.is_constant() &&
         std::ranges::all_of(blob_bytes(v.blob()), [](std::byte b) { return b == std::byte{0}; });
}
bool has_imaginary(Value v) {
  return is_complex(v.dtype()) && !(v.node().is("complex") && is_zeros(v.node().operand(1)));
}
Value conjugate(Builder& b, Value v) {
  return b.build("conj", {v});
}
Value scaled(Builder& b, Value v) {
  Value factor = b.full_like(v, 1.25);
  for (int64_t dim = 0; dim < v.rank(); ++dim) {
    const Value place =
        b.convert(b.build("iota", {}, {{"shape", v.dims()}, {"dim", dim}}), v.dtype());
    factor = b.build("add", {factor, place});
  }
  return b.build("mul", {v, factor});
}

std::vector<std::pair<Node, int>> built(const Emission& e) {
  std::vector<std::pair<Node, int>> out;
  std::map<std::string, int, std::less<>> counts;
  for (tenon_node_t id = e.first; id < next_node(e.at->graph); ++id) {
    const Node node(e.at->graph, id);
    if (!node.erased()) out.emplace_back(node, counts[std::string(node.op())]++);
  }
  return out;
}

bool is_plain(const Node& node) {
  const tenon_node_view_t view = node.view();
  return view.region_count == 0 && view.symbol_count == 0;
}

std::vector<std::string> changes_of_results(const Emission& e) {
  std::vector<std::string> out;
  for (uint32_t i = 0; i < e.results.size(); ++i) {
    const Value v = e.results[i];
    if (!v.valid() || !has_derivative(v.dtype())) continue;
    if (has_imaginary(v)) out.push_back(cat("conjugate@result#", i));
    for (const char* how : {"negate", "scale", "zero"}) out.push_back(cat(how, "@result#", i));
    if (e.is_batch) out.push_back(cat("flip@result#", i));
    for (uint32_t j = 0; j < i; ++j) {
      if (e.results[j].valid() && !(e.results[j] == v) && e.results[j].type() == v.type())
        out.push_back(cat("swap ", j, "@result#", i));
    }
  }
  return out;
}

bool change_result(const Emission& e, const std::string& name, std::vector<Value>* results) {
  const size_t at = name.find("@result#");
  const std::vector<std::string> possible = changes_of_results(e);
  if (at == std::string::npos || std::ranges::find(possible, name) == possible.end()) return false;
  const std::string how = name.substr(0, at);
  Value& v = (*results)[std::stoul(name.substr(at + 8))];
  Builder b(*e.at);
  if (how == "negate") v = b.build("neg", {v});
  if (how == "conjugate") v = conjugate(b, v);
  if (how == "scale") v = scaled(b, v);
  if (how == "zero") v = e.is_batch ? b.full_like(v, 0) : Value();
  if (how == "flip") v = b.build("reverse", {v}, {{"dims", {0}}});
  if (how.starts_with("swap")) std::swap(v, (*results)[std::stoul(how.substr(5))]);
  return b.status().ok();
}

std::vector<Value> values_of(Builder& b, const Node& node, const Change& change) {
  std::vector<Value> made = change.make(b);
  if (!b.status().ok() || made.size() != node.result_count()) return {};
  for (uint32_t r = 0; r < made.size(); ++r) {
    if (!made[r].valid() || !(made[r].type() == node.result(r).type())) return {};
  }
  return made;
}

bool apply(const Emission& e, const Node& node, const Change& change, std::vector<Value>* results) {
  std::vector<Node> later;
  bool is_simple = node.view().parent == e.at->region;
  for (const auto& [one, _] : built(e)) {
    if (one.id() <= node.id()) continue;
    is_simple = is_simple && is_plain(one) && one.view().parent == e.at->region;
    later.push_back(one);
  }
  // Where a region follows, which cannot be copied here, the new nodes stand before the old one.
  Builder b = is_simple ? Builder(*e.at) : Builder::before(node);
  const std::vector<Value> made = values_of(b, node, change);
  if (made.empty()) return false;
  Now now;
  for (uint32_t r = 0; r < made.size(); ++r) now[node.result(r).id()] = made[r];
  if (is_simple && !build_again(b, later, &now)) return false;
  map_results(now, results);
  if (is_simple) {
    for (auto one = later.rbegin(); one != later.rend(); ++one) (void)erase(*one);
  } else {
    for (uint32_t r = 0; r < made.size(); ++r) (void)replace(node.result(r), made[r]);
  }
  (void)erase(node);
  return true;
}

tenon_node_t next_node(tenon_graph_t* graph) {
  return graph_view(graph).node_limit;
}

void erase_since(tenon_graph_t* graph, tenon_node_t first) {
  for (tenon_node_t id = next_node(graph); id-- > first;) {
    const Node node(graph, id);
    if (!node.erased()) (void)erase(node);
  }
}

}  // namespace tenon::mutants
