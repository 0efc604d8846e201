#include "linearized.h"

#include <algorithm>

#include "regions.h"

namespace tenon::passes {
namespace {

// Whether a node computes something from constants alone, such as zeros of some sizes.
bool is_of_constants(const Node& node) {
  if (node.view().region_count != 0 || node.view().symbol_count != 0) return false;
  const std::vector<Value> operands = node.operands();
  return is_removable(op_of(node)) && std::all_of(operands.begin(), operands.end(), [](Value v) {
           return !v.valid() || v.is_constant();
         });
}

// The symbols that a node mentions, with repetitions: in types, attributes and regions.
std::vector<tenon_symbol_t> symbols_in(const Node& node) {
  std::vector<tenon_symbol_t> out;
  const auto add = [&](const TypeView& type) {
    const std::vector<tenon_symbol_t> more = type.symbols();
    out.insert(out.end(), more.begin(), more.end());
  };
  for (uint32_t r = 0; r < node.result_count(); ++r) add(node.result(r).type());
  const tenon_node_view_t view = node.view();
  for (uint32_t i = 0; i < view.attr_count; ++i) {
    if (view.attrs[i].kind != TENON_ATTR_DIMS) continue;
    tenon_type_t type = {};
    type.rank = static_cast<uint32_t>(view.attrs[i].count);
    type.dims = view.attrs[i].u.dims;
    add(TypeView(node.graph(), type));
  }
  for (uint32_t i = 0; i < view.region_count; ++i) {
    for (const Node& inner : Region(node.graph(), view.regions[i]).nodes()) {
      const std::vector<tenon_symbol_t> more = symbols_in(inner);
      out.insert(out.end(), more.begin(), more.end());
    }
  }
  return out;
}

}  // namespace

Status Linearized::choose(const PassContext& context) {
  TENON_TRY(ports_.inputs(context.text(0), "wrt", &wrt_));
  if (!context.text(1).empty()) TENON_TRY(ports_.outputs(context.text(1), "of", &of_));
  for (size_t i = 0; context.text(1).empty() && i < ports_.yields().size(); ++i) {
    if (is_differentiable(ports_.yields()[i])) of_.push_back(i);
  }
  for (const Value v : wrt_) TENON_TRY(require_variable(v, sym_text(v.view().name)));
  for (const size_t i : of_) TENON_TRY(require_variable(ports_.yields()[i], ports_.name(i)));
  return {};
}

// Copies the graph before forward mode, so that the loops of the copy do not carry tangents.
Status Linearized::keep_point() {
  Body body(old_);
  for (const Value v : ports_.main().arguments()) {
    Value now;
    TENON_TRY(argument(body.region(), {v.dtype(), v.dims()}, sym_text(v.view().name), &now));
    arguments_.push_back(now);
  }
  point_ = body.region();
  tenon_graph_t* whole = nullptr;  // a region cannot be copied into itself
  TENON_TRY(graph_api().clone(graph_api().self, graph(), &whole));
  const Graph owner(whole);
  return clone_region(body.builder(), main_region(whole), arguments_, &copies_);
}

Status Linearized::push(bool keeps_point) {
  const std::vector<Node> nodes = ports_.nodes();
  values_ = ports_.yields();
  for (const Node& node : nodes) {
    for (uint32_t r = 0; r < node.result_count(); ++r) values_.push_back(node.result(r));
  }
  TENON_TRY(yield(ports_.main(), values_));
  if (keeps_point) TENON_TRY(keep_point());
  first_ = next_node(graph());
  ValueMap tangents;
  for (const Value v : wrt_) {
    const std::string name = cat(sym_text(v.view().name), "_t");
    Value tangent;
    TENON_TRY(argument(ports_.main(), {v.dtype(), v.dims()}, name, &tangent));
    tangents[v.id()] = tangent;
    given_.push_back(tangent);
    known_.insert(tangent.id());
  }
  Builder b = old_;
  std::vector<Value> results;
  for (const size_t i : of_) results.push_back(values_[i]);
  TENON_TRY(push_nodes(b, nodes, results, &tangents));
  values_ = ports_.main().yields();
  for (const size_t i : of_) {
    const Value found = tangent_of(tangents, values_[i]);
    out_.push_back(found.valid() ? found : zeros_like(b, values_[i]));
  }
  TENON_TRY(b.status());
  find_linear();
  find_saved();
  return {};
}

// Finds the nodes that depend on tangents. The map also gets the nodes that mention sizes which
// only its own nodes define.
void Linearized::find_linear() {
  ValueSet point, dependent;
  for (const Value v : values_) point.insert(v.id());
  for (const Value v : given_) dependent.insert(v.id());
  nodes_ = ports_.nodes();
  for (const Node& node : nodes_) {
    bool is_linear = false, is_inside = false;
    for (const Value v : node.operands()) is_linear = is_linear || dependent.contains(v.id());
    for (const Value v : captures_of(node)) is_linear = is_linear || dependent.contains(v.id());
    for (uint32_t r = 0; r < node.result_count(); ++r) {
      const Value v = node.result(r);
      if (is_linear && !point.contains(v.id())) dependent.insert(v.id());
    }
    for (const tenon_symbol_t s : symbols_in(node)) is_inside = is_inside || symbols_.contains(s);
    if (is_linear) linear_.insert(node.id());
    if (!is_linear && !is_inside) continue;
    inside_.insert(node.id());
    const tenon_node_view_t view = node.view();
    symbols_.insert(view.symbols, view.symbols + view.symbol_count);
  }
}

void Linearized::save(Value v) {
  if (known_.insert(v.id()).second) saved_.push_back(v);
}

// Saves a value that the map uses, unless the map computes it itself.
void Linearized::use(Value v) {
  if (!v.valid() || v.is_constant() || known_.contains(v.id())) return;
  const Node maker = v.node();
  if (maker && is_of_constants(maker)) inside_.insert(maker.id());
  if (!maker || !inside_.contains(maker.id())) save(v);
}

void Linearized::find_saved() {
  for (const Node& node : nodes_) {
    if (!inside_.contains(node.id())) continue;
    for (const Value v : node.operands()) use(v);
    for (const Value v : captures_of(node)) use(v);
  }
  for (const Value v : out_) use(v);
  save_symbols();
}

// Saves values for the sizes in the map that none of its other inputs determines.
void Linearized::save_symbols() {
  std::unordered_set<tenon_dim_t> known;
  const auto know = [&](Value v) {
    for (const Dim d : v.dims()) known.insert(d.raw());
  };
  for (const Value v : given_) know(v);
  for (const Value v : saved_) know(v);
  std::vector<Value> all = ports_.main().arguments();
  for (const Node& node : nodes_) {
    for (uint32_t r = 0; r < node.result_count() && !inside_.contains(node.id()); ++r)
      all.push_back(node.result(r));
  }
  for (const Node& node : nodes_) {
    if (!inside_.contains(node.id())) continue;
    for (const tenon_symbol_t s : symbols_in(node)) {
      auto view = sized<tenon_symbol_view_t>();
      (void)graph_api().symbol_view(graph_api().self, graph(), s, &view);
      if (symbols_.contains(s) || known.contains(view.dim)) continue;
      const auto has = [&](Value v) {
        const Dims dims = v.dims();
        return std::find(dims.begin(), dims.end(), Dim(graph(), view.dim)) != dims.end();
      };
      const auto found = std::find_if(all.begin(), all.end(), has);
      if (found == all.end()) continue;  // a region inside the map defines it
      save(*found);
      know(*found);
    }
  }
}

Status Linearized::finish(Body& body, const std::vector<Value>& yields,
                          const std::vector<std::string>& names) const {
  TENON_TRY(body.yield(yields));
  std::vector<tenon_str_t> texts;
  for (const std::string& name : names) texts.push_back(str(name));
  return graph_api().main_set(graph_api().self, graph(), body.region().id(), texts.data());
}

// The graph before forward mode, with the nodes of forward mode that do not depend on tangents.
Status Linearized::set_point(const PassContext& context) {
  Body body(old_, point_);
  Batching copies(old_.dim(1), context);
  const std::vector<Value> inputs = ports_.main().arguments();
  for (size_t i = 0; i < arguments_.size(); ++i) copies.set(inputs[i], {arguments_[i], false});
  for (size_t i = 0; i < values_.size(); ++i) {
    copies.set(values_[i], {copies_[i], false});
    if (values_[i].node()) copies.set_symbols(values_[i].node(), copies_[i].node());
  }
  const tenon_node_t first = next_node(graph());
  std::vector<Node> more = nodes_;
  std::erase_if(more, [&](const Node& n) { return n.id() < first_ || linear_.contains(n.id()); });
  TENON_TRY(copies.nodes(body.builder(), more));
  std::vector<Value> yields(copies_.begin(),
                            copies_.begin() + static_cast<int64_t>(ports_.yields().size()));
  std::vector<std::string> names;
  for (size_t i = 0; i < yields.size(); ++i) names.push_back(ports_.name(i));
  for (size_t k = 0; k < saved_.size(); ++k) {
    std::string name = cat("saved", k);
    while (std::find(names.begin(), names.end(), name) != names.end()) name += "_";
    yields.push_back(copies.at(saved_[k]).value);
    names.push_back(name);
  }
  TENON_TRY(finish(body, yields, names));
  erase_unused(nodes_since(graph(), body.region().id(), first));
  return {};
}

// Adds a saved value as an input of the map. The map defines new symbols for the sizes that nodes
// of the point define, since it does not have these nodes.
Status Linearized::saved_argument(Body& body, size_t place, Batching* copies) const {
  const Value v = saved_[place];
  for (const tenon_symbol_t s : v.type().symbols()) {
    auto view = sized<tenon_symbol_view_t>();
    TENON_TRY(graph_api().symbol_view(graph_api().self, graph(), s, &view));
    if (view.node == TENON_NONE || !(copies->now(Dim(graph(), view.dim)) == Dim(graph(), view.dim)))
      continue;
    tenon_symbol_t made = 0;
    TENON_TRY(graph_api().symbol_define(graph_api().self, graph(), ports_.main().id(),
                                        str(sym_text(view.name)), view.lo, view.hi,
                                        view.multiple_of, view.hint, &made));
    TENON_TRY(graph_api().symbol_view(graph_api().self, graph(), made, &view));
    copies->set(s, Dim(graph(), view.dim));
  }
  Value now;
  TENON_TRY(argument(body.region(), {v.dtype(), copies->now(v.dims())}, cat("saved", place), &now));
  copies->set(v, {now, false});
  return {};
}

Status Linearized::set_map(const PassContext& context) {
  Body body(old_);
  Batching copies(old_.dim(1), context);
  for (size_t k = 0; k < saved_.size(); ++k) TENON_TRY(saved_argument(body, k, &copies));
  for (const Value v : given_) {
    Value now;
    const std::string name(sym_text(v.view().name));
    TENON_TRY(argument(body.region(), {v.dtype(), v.dims()}, name, &now));
    copies.set(v, {now, false});
  }
  std::vector<Node> inside = nodes_;
  std::erase_if(inside, [&](const Node& n) { return !inside_.contains(n.id()); });
  TENON_TRY(copies.nodes(body.builder(), inside));
  std::vector<Value> yields;
  std::vector<std::string> names;
  for (size_t i = 0; i < of_.size(); ++i) {
    yields.push_back(copies.at(out_[i]).value);
    names.push_back(cat(ports_.name(of_[i]), "_t"));
  }
  TENON_TRY(finish(body, yields, names));
  erase_unused(nodes_since(graph(), body.region().id(), 0));
  return {};
}

}  // namespace tenon::passes
