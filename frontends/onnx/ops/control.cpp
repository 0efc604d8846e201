// If, Loop and Scan: graphs in attributes become regions, which may use every value around them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "frontends/onnx/graph/importer_internal.h"

namespace tenon::onnx {

// ---- Regions ----

// Builds values that the body captures before the node, not inside it.
void Importer::materialise(Text name, const Scope& scope) {
  const auto at = scope.find(name);
  if (!name.empty() && at != scope.end() && at->second != nullptr && resolve(at->second))
    (void)value_of(at->second);
}

void Importer::materialise(const GraphProto& graph, const Scope& scope) {
  const auto need = [&](Text name) { materialise(name, scope); };
  for (const NodeProto& node : graph.nodes) {
    for (const Text name : node.inputs) need(name);
    for (const AttributeProto& attribute : node.attributes) {
      for (const auto& inner : attribute.graphs) materialise(*inner, scope);
    }
  }
  for (const ValueProto& output : graph.outputs) need(output.name);
}

bool Importer::run_body(const GraphProto& graph, const std::vector<Item>& inputs, bool root,
                        std::vector<Item*>* outputs) {
  Scope scope = *scope_;
  const OpsetVersions& versions = *versions_;
  const Frame* const frame = frame_;
  Scope own;
  if (!graph.sparse_initializers.empty())
    return problems_->add("T0714", "a body has sparse initializers, which are not supported");
  if (!add_initializers(graph, &own)) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Item* item = new_item();
    *item = inputs[i];
    const Text name = graph.inputs[i].name;
    if (!own.try_emplace(name, item).second) {
      return problems_->add(
          "T0705",
          fmt::format("two inputs or initializers of a body have the name {}", quote(name)));
    }
  }
  for (const auto& [name, item] : own) scope.insert_or_assign(name, item);
  run_nodes(graph.nodes, versions, &scope, frame, root ? &graph : nullptr);
  frame_ = frame;
  if (!problems_->empty() || halted()) return false;
  for (const ValueProto& output : graph.outputs) {
    const auto at = scope.find(output.name);
    if (at == scope.end() || at->second == nullptr) {
      return problems_->add(
          "T0706", fmt::format("a body's output {} is defined by nothing", quote(output.name)));
    }
    if (!resolve(at->second)) return false;
    outputs->push_back(at->second);
  }
  return true;
}

bool Importer::body(const GraphProto& graph, std::string_view what, const BindBody& bind,
                    const FinishBody& finish, Region* out) {
  materialise(graph, *scope_);
  tenon_region_t id = TENON_NONE;
  if (!builder_->status().ok()) return add_host_failure(what);
  if (graph_api().region_begin(graph_api().self, &builder_->raw(), &id) != TENON_OK)
    return add_host_failure(what);
  const Region outer_region = region_;
  const Builder outer = *builder_;
  const Scope* const scope = scope_;
  const OpsetVersions* const versions = versions_;
  region_ = Region(graph_.get(), id);
  builder_.emplace(graph_.get(), id);
  builder_->set_loc(outer.raw().loc);
  *out = region_;
  roots_.push_back(path_.size());
  const bool ok = fill_body(graph, what, bind, finish);
  roots_.pop_back();
  region_ = outer_region;
  builder_.emplace(outer);
  scope_ = scope;
  versions_ = versions;
  return ok;
}

bool Importer::fill_body(const GraphProto& graph, std::string_view what, const BindBody& bind,
                         const FinishBody& finish) {
  std::vector<Item> inputs;
  std::vector<Item*> outputs;
  std::vector<Value> yields;
  if (!bind(&inputs)) return false;
  if (inputs.size() != graph.inputs.size()) {
    return problems_->add("T0709", fmt::format("a body has {} inputs for {} values",
                                               graph.inputs.size(), inputs.size()));
  }
  if (!run_body(graph, inputs, true, &outputs)) return false;
  for (Item* item : outputs) yields.push_back(value_of(item));
  if (builder_->status().ok()) finish(&yields);
  if (!builder_->status().ok() || !yield(region_, yields).ok()) return add_host_failure(what);
  return true;
}

// ---- Regions, as importers use them ----

const GraphProto* NodeContext::body_of(std::string_view name) {
  const AttributeProto* attribute = typed(name, kAttrGraph, "a graph");
  if (attribute != nullptr && attribute->graphs.size() == 1) return attribute->graphs[0].get();
  fail("T0708", fmt::format("its attribute {} is missing", quote(name)));
  return nullptr;
}

bool NodeContext::region(const GraphProto& graph, const BindBody& bind, const FinishBody& finish,
                         Region* out) {
  const std::string what = fmt::format("{}: its body", node_text(node_));
  if (ok_ && !importer_->body(graph, what, bind, finish, out)) ok_ = false;
  return ok_;
}

bool NodeContext::ops_known(const GraphProto& branch) {
  ok_ = ok_ &&
        check_ops(importer_->model_, branch.nodes, *importer_->versions_, importer_->problems_);
  return ok_;
}

bool NodeContext::in_place(const GraphProto& graph) {
  if (graph.outputs.size() != output_count()) {
    return fail("T0709", fmt::format("its branch has {} outputs for its {}", graph.outputs.size(),
                                     output_count()));
  }
  std::vector<Item*> items;
  if (!ops_known(graph) || !importer_->run_body(graph, {}, false, &items)) return ok_ = false;
  for (size_t i = 0; i < items.size(); ++i) set(i, Item(*items[i]));
  return ok_;
}

Value NodeContext::new_argument(Region region, tenon_dtype_t dtype, const Dims& dims) {
  Value out;
  if (ok_ && !argument(region, Type{dtype, dims}, "", &out).ok())
    fail("T0715", host_failure(nullptr));
  return out;
}

Region NodeContext::current_region() {
  return importer_->region_;
}

namespace {

bool nothing(std::vector<Value>*) {
  return true;
}

// One element as rank 0.
Value scalar_of(NodeContext& n, Value x) {
  return n.reshape(x, {});
}

bool set_results(NodeContext& n, const Node& node, size_t first) {
  for (size_t i = 0; i < n.output_count(); ++i) {
    if (n.wants(i) && !n.set(i, node.result(static_cast<uint32_t>(first + i)))) return false;
  }
  return n.ok();
}

// ---- If ----

// What keeps the branches from being two ways to one result; empty if nothing does.
std::string difference(const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return fmt::format("{} and {} results", a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].dtype() != b[i].dtype())
      return fmt::format("the element types {} and {}", dtype_name(a[i].dtype()),
                         dtype_name(b[i].dtype()));
    const Dims x = a[i].dims(), y = b[i].dims();
    if (x.size() != y.size()) return fmt::format("the ranks {} and {}", x.size(), y.size());
    for (size_t d = 0; d < x.size(); ++d) {
      if (compare(TENON_REL_EQ, x[d], y[d]) == TENON_NO)
        return fmt::format("different sizes along dim {}", d);
    }
  }
  return "";
}

// Both branches as regions, which give values of the same types.
bool branches(NodeContext& n, const GraphProto& then_branch, const GraphProto& else_branch,
              std::vector<Region>* regions) {
  const auto no_inputs = [](std::vector<Item>*) { return true; };
  std::vector<Value> results[2];
  const auto keep_else = [&](std::vector<Value>* yields) {
    results[0] = *yields;
    return true;
  };
  const auto keep_then = [&](std::vector<Value>* yields) {
    results[1] = *yields;
    return true;
  };
  if (!n.ops_known(then_branch) || !n.ops_known(else_branch)) return false;
  if (!n.region(else_branch, no_inputs, keep_else, &(*regions)[0]) ||
      !n.region(then_branch, no_inputs, keep_then, &(*regions)[1]))
    return false;
  const std::string found = difference(results[1], results[0]);
  if (found.empty()) return true;
  if (!n.follows_from_inputs(0, "the condition")) return n.fork();
  return n.fail("T0714", fmt::format("its branches give {}, and its condition is not known before "
                                     "the run",
                                     found));
}

bool import_if(NodeContext& n) {
  if (!n.arity(1, 1, 1024)) return false;
  const GraphProto* then_branch = n.body_of("then_branch");
  const GraphProto* else_branch = n.body_of("else_branch");
  if (!n.ok()) return false;
  // Exporters test shapes that are known; the other branch may not even be valid.
  const std::optional<bool> known = n.condition(0);
  if (!n.ok()) return false;
  if (known) return n.in_place(*known ? *then_branch : *else_branch);
  const Value predicate = scalar_of(n, n.value(0));
  std::vector<Region> regions(2);
  const size_t known_problems = n.problem_count();
  if (!branches(n, *then_branch, *else_branch, &regions)) {
    // The branch that is taken may be the other one.
    n.wait_instead(0, "the condition", known_problems);
    return false;
  }
  const Value operands[] = {predicate};
  return set_results(n, n.builder().build_node("switch", operands, {}, regions), 0);
}

// ---- Loop ----

bool same_dim(const DimProto& a, const DimProto& b) {
  if (a.has_value != b.has_value) return false;
  return a.has_value ? a.value == b.value : a.param == b.param && !a.param.empty();
}

// Whether the file says that dim d of a carried value changes between iterations. Without shapes it
// is assumed to stay.
bool changes(const GraphProto& body, size_t input, size_t output, size_t d) {
  const ValueProto &in = body.inputs[input], &out = body.outputs[output];
  if (!in.has_shape || !out.has_shape || d >= in.dims.size() || d >= out.dims.size()) return false;
  return !same_dim(in.dims[d], out.dims[d]);
}

Dim open_dim(NodeContext& n, Region region, size_t value, size_t d) {
  tenon_symbol_t symbol = 0;
  auto view = sized<tenon_symbol_view_t>();
  const tenon_host_graph_t& api = graph_api();
  const std::string name = fmt::format("iteration_{}_{}", value, d);
  if (api.symbol_define(api.self, n.graph(), region.id(), str(name), 0, INT64_MAX, 1, -1,
                        &symbol) != TENON_OK ||
      api.symbol_view(api.self, n.graph(), symbol, &view) != TENON_OK) {
    return Dim::invalid();
  }
  return Dim(n.graph(), view.dim);
}

struct LoopShape {
  const GraphProto* body;
  std::vector<Value> carried;  // Iteration, whether to go on, the model's values.
};

// Arguments of one region of the loop.
std::vector<Value> loop_arguments(NodeContext& n, const LoopShape& loop, Region region) {
  std::vector<Value> out;
  for (size_t i = 0; i < loop.carried.size(); ++i) {
    Dims dims = loop.carried[i].dims();
    for (size_t d = 0; i >= 2 && d < dims.size(); ++d) {
      if (changes(*loop.body, i, i - 1, d)) dims[d] = open_dim(n, region, i, d);
    }
    out.push_back(n.new_argument(region, loop.carried[i].dtype(), dims));
  }
  return out;
}

bool loop_condition(NodeContext& n, const LoopShape& loop, Value limit, Region* out) {
  const GraphProto empty;
  std::vector<Value> arguments;
  const auto bind = [&](std::vector<Item>*) {
    arguments = loop_arguments(n, loop, n.current_region());
    return n.ok();
  };
  const auto finish = [&](std::vector<Value>* yields) {
    Value go_on = arguments[1];
    if (limit.valid())
      go_on =
          n.build("and", {n.build("compare", {arguments[0], limit}, {{"direction", 2}}), go_on});
    *yields = {go_on};
    return true;
  };
  return n.region(empty, bind, finish, out);
}

// A scalar, reshaped to the rank that the body's input declares.
Item as_declared(NodeContext& n, Value scalar, const ValueProto& input) {
  return Item::of(input.has_shape && input.dims.size() == 1 ? n.reshape(scalar, {n.dim(1)})
                                                            : scalar);
}

bool loop_body(NodeContext& n, const LoopShape& loop, Region* out) {
  std::vector<Value> arguments;
  const auto bind = [&](std::vector<Item>* items) {
    arguments = loop_arguments(n, loop, n.current_region());
    if (!n.ok()) return false;
    for (size_t i = 0; i < arguments.size(); ++i) {
      items->push_back(i < 2 ? as_declared(n, arguments[i], loop.body->inputs[i])
                             : Item::of(arguments[i]));
    }
    return true;
  };
  const auto finish = [&](std::vector<Value>* yields) {
    (*yields)[0] = scalar_of(n, (*yields)[0]);
    const Value next = n.build("add", {arguments[0], n.builder().scalar_int(TENON_I64, 1)});
    yields->insert(yields->begin(), next);
    return true;
  };
  return n.region(*loop.body, bind, finish, out);
}

bool import_loop(NodeContext& n) {
  LoopShape loop{n.body_of("body"), {}};
  if (!n.ok()) return false;
  const size_t values = n.input_count() < 2 ? 0 : n.input_count() - 2;
  if (loop.body->inputs.size() != values + 2 || loop.body->outputs.size() < values + 1 ||
      loop.body->outputs.size() != n.output_count() + 1) {
    return n.fail(
        "T0709",
        fmt::format("its body has {} inputs and {} outputs for {} values and {} results",
                    loop.body->inputs.size(), loop.body->outputs.size(), values, n.output_count()));
  }
  const Value limit = n.has(0) ? n.convert(scalar_of(n, n.value(0)), TENON_I64) : Value();
  loop.carried.push_back(n.builder().scalar_int(TENON_I64, 0));
  loop.carried.push_back(n.has(1) ? scalar_of(n, n.value(1))
                                  : n.builder().scalar_int(TENON_PRED, 1));
  for (size_t i = 0; i < values; ++i) loop.carried.push_back(n.value(i + 2));
  if (!n.ok() || !n.builder().status().ok()) return false;
  int64_t most = -1;
  if (const auto known = n.has(0) ? n.constant(0) : std::nullopt;
      known && *known >= 0 && *known < 1e18) {
    most = static_cast<int64_t>(*known);
  }
  std::vector<Region> regions(2);
  if (!loop_condition(n, loop, limit, &regions[0]) || !loop_body(n, loop, &regions[1]))
    return false;
  const Attr attrs[] = {{"max_trip", most}};
  return set_results(n, n.builder().build_node("while", loop.carried, attrs, regions), 2);
}

// ---- Scan ----

// A permutation that moves dim `axis` to the front, or back to its place.
std::vector<int64_t> moved(int64_t rank, int64_t axis, bool back) {
  std::vector<int64_t> perm;
  for (int64_t d = 0; d < rank; ++d) {
    if (!back) {
      perm.push_back(d == 0 ? axis : d <= axis ? d - 1 : d);
    } else {
      perm.push_back(d < axis ? d + 1 : d == axis ? 0 : d);
    }
  }
  return perm;
}

int64_t entry(const std::vector<int64_t>& list, size_t i) {
  return i < list.size() ? list[i] : 0;
}

Value reversed(NodeContext& n, Value x, bool yes) {
  return yes ? n.build("reverse", {x}, {{"dims", {0}}}) : x;
}

bool import_scan(NodeContext& n) {
  const GraphProto* body = n.body_of("body");
  const int64_t cut = n.integer("num_scan_inputs", 0);
  const std::vector<int64_t> in_axes = n.integers("scan_input_axes"),
                             out_axes = n.integers("scan_output_axes");
  const std::vector<int64_t> in_back = n.integers("scan_input_directions"),
                             out_back = n.integers("scan_output_directions");
  if (!n.ok()) return false;
  const auto count = static_cast<int64_t>(n.input_count());
  if (cut < 1 || cut > count || body->inputs.size() != n.input_count() ||
      body->outputs.size() != n.output_count()) {
    return n.fail(
        "T0709",
        fmt::format(
            "its body has {} inputs and {} outputs for {} values and {} results, {} of them cut",
            body->inputs.size(), body->outputs.size(), count, n.output_count(), cut));
  }
  const auto carried = static_cast<size_t>(count - cut);
  std::vector<Value> operands;
  for (size_t i = 0; i < n.input_count(); ++i) {
    Value x = n.value(i);
    if (i >= carried) {
      const int64_t axis = n.axis(entry(in_axes, i - carried), n.rank(i));
      if (!n.ok()) return false;
      x = reversed(n, n.transpose(x, moved(n.rank(i), axis, false)),
                   entry(in_back, i - carried) != 0);
    }
    operands.push_back(x);
  }
  if (!n.ok() || !n.builder().status().ok()) return false;
  const auto bind = [&](std::vector<Item>* items) {
    for (size_t i = 0; i < operands.size(); ++i) {
      Dims dims = operands[i].dims();
      if (i >= carried) dims.erase(dims.begin());
      const Value argument = n.new_argument(n.current_region(), operands[i].dtype(), dims);
      if (!n.ok()) return false;
      items->push_back(Item::of(argument));
    }
    return true;
  };
  std::vector<Region> regions(1);
  if (!n.region(*body, bind, nothing, &regions[0])) return false;
  const Attr attrs[] = {{"carry", static_cast<int64_t>(carried)}};
  const Node node = n.builder().build_node("scan", operands, attrs, regions);
  if (!n.builder().status().ok()) return false;
  for (size_t i = 0; i < n.output_count(); ++i) {
    if (!n.wants(i)) continue;
    Value y = node.result(static_cast<uint32_t>(i));
    if (i >= carried) {
      const int64_t rank = y.rank();
      const int64_t axis = n.axis(entry(out_axes, i - carried), rank);
      if (!n.ok()) return false;
      y = n.transpose(reversed(n, y, entry(out_back, i - carried) != 0), moved(rank, axis, true));
    }
    n.set(i, y);
  }
  return n.ok();
}

constexpr auto kTable = std::to_array<OpImporter>({
    {"If", 1, import_if},
    {"Loop", 1, import_loop},
    {"Scan", 9, import_scan},
});

}  // namespace

std::span<const OpImporter> control_importers() {
  return kTable;
}

}  // namespace tenon::onnx
