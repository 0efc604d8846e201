// The driver: inputs, initializers, nodes in order, functions inlined, outputs.
#include "frontends/onnx/graph/importer_internal.h"

#include <fmt/format.h>

#include <tenon/cpp/text.hpp>

#include <algorithm>
#include <unordered_set>

#include "frontends/onnx/graph/held_types.h"
#include "frontends/onnx/graph/plugin_ops.h"

namespace tenon::onnx {

std::string host_failure(std::string* id) {
  auto failure = sized<tenon_failure_t>();
  context().host->last_failure(context().host->self, &failure);
  if (id != nullptr) *id = view(failure.id);
  std::string text(view(failure.message));
  // The message may carry its code in front.
  if (failure.id.size > 0 && text.starts_with(view(failure.id)))
    text.erase(0, std::min(text.size(), failure.id.size + 2));
  // The node and the file, which the caller's sentence names.
  text.erase(std::min(text.size(), text.find(" (while building the op ")));
  return text;
}

std::span<const OpImporter> all_importers() {
  static const std::vector<OpImporter> kAll = [] {
    std::vector<OpImporter> all;
    for (const auto& importers : {elementwise_importers(),
                                  shape_importers(),
                                  pad_importers(),
                                  range_importers(),
                                  index_importers(),
                                  reduce_importers(),
                                  nn_importers(),
                                  vision_importers(),
                                  order_importers(),
                                  signal_importers(),
                                  attention_importers(),
                                  loss_importers(),
                                  control_importers(),
                                  recurrent_importers(),
                                  expert_importers(),
                                  fused_importers(),
                                  fused_attention_importers(),
                                  random_importers(),
                                  nchwc_importers(),
                                  quantise_importers(),
                                  quantised_product_importers(),
                                  quantised_linear_importers(),
                                  narrow_weight_importers(),
                                  quantised_attention_importers()})
      all.insert(all.end(), importers.begin(), importers.end());
    return all;
  }();
  return kAll;
}

const OpImporter* find_importer(std::string_view domain, std::string_view op, int64_t version) {
  using Table = std::unordered_map<std::string_view, std::vector<const OpImporter*>>;
  static const Table kTable = [] {
    Table table;
    for (const OpImporter& importer : all_importers()) table[importer.op].push_back(&importer);
    return table;
  }();
  const OpImporter* best = nullptr;
  if (const auto at = kTable.find(op); at != kTable.end()) {
    for (const OpImporter* candidate : at->second) {
      if (candidate->domain != domain || candidate->since > version) continue;
      if (best == nullptr || candidate->since > best->since) best = candidate;
    }
  }
  return best;
}

Importer::Importer(const ModelProto& model, const Source& source, Unknown unknown, Plan plan,
                   Problems* problems)
    : model_(model),
      source_(source),
      unknown_(unknown),
      plan_(std::move(plan)),
      problems_(problems) {}

bool Importer::run(Graph* out) {
  OpsetVersions versions;
  if (!check_header() || !read_opsets(model_.opsets, &versions, problems_)) return false;
  if (!check_ops(model_, model_.graph->nodes, versions, problems_)) return false;
  const GraphProto& main = *model_.graph;
  if (!main.sparse_initializers.empty()) {
    return problems_->add(
        "T0714",
        fmt::format("it has {} sparse initializers, which are not supported; export them dense",
                    main.sparse_initializers.size()));
  }
  if (!Graph::create(main.name.empty() ? "main" : main.name, &graph_).ok())
    return add_host_failure("the graph");
  region_ = main_region(graph_.get());
  builder_.emplace(graph_.get(), region_.id());
  Scope scope;
  bind_guarded_dims(main);
  if (!check_overrides(main) || !add_initializers(main, &scope) || !add_inputs(main, &scope))
    return false;
  if (!check_fixed_dims()) return false;
  for (const auto& [name, values] : source_.values) {
    const bool known = std::any_of(main.inputs.begin(), main.inputs.end(),
                                   [&](const ValueProto& i) { return i.name == name; });
    if (!known)
      return problems_->add("T0714",
                            fmt::format("there is no input {} to give integers to", quote(name)));
  }
  run_nodes(main.nodes, versions, &scope, nullptr, &main);
  if (!problems_->empty() || halted()) return false;
  if (postponed_) return outline(out, {});
  if (!add_outputs(main, scope)) return false;
  *out = std::move(graph_);
  return true;
}

// Every initializer that the user gives is an input as well.
bool Importer::check_overrides(const GraphProto& main) {
  std::vector<std::string> names;
  for (const TensorProto& tensor : main.initializers) {
    if (std::any_of(main.inputs.begin(), main.inputs.end(),
                    [&](const ValueProto& input) { return input.name == tensor.name; }))
      names.emplace_back(tensor.name);
  }
  for (const std::string& name : source_.overrides) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    return problems_->add(
        "T0793",
        fmt::format("{} is not an initializer that is an input of the "
                    "model, too{}",
                    quote(name),
                    names.empty() ? "; there is none" : "; there are " + text::join_names(names)));
  }
  return true;
}

// Every dim that the user fixed is one of an input.
bool Importer::check_fixed_dims() {
  for (const auto& [name, size] : source_.dims) {
    if (fixed_dims_.contains(name)) continue;
    std::vector<std::string> names;
    for (const auto& [key, dim] : symbols_) names.push_back(key);
    return problems_->add("T0793",
                          fmt::format("the model has no symbolic dim {} to fix{}", quote(name),
                                      names.empty() ? "" : "; it has " + text::join_names(names)));
  }
  return true;
}

bool Importer::check_header() {
  if (model_.graph == nullptr) return problems_->add("T0702", "it has no graph");
  if (model_.ir_version < 1) return problems_->add("T0702", "it has no IR version, or one below 1");
  // A newer one is read: the opsets say what the nodes mean, and they are checked by themselves.
  if (model_.opsets.empty()) return problems_->add("T0702", "it names no opset");
  return true;
}

bool Importer::add_host_failure(std::string_view what) {
  std::string id;
  const std::string text = host_failure(&id);
  return problems_->add(id.empty() ? "T0715" : id, fmt::format("{}: {}", what, text));
}

Item* Importer::new_item() {
  return &items_.emplace_back();
}

bool Importer::add_initializers(const GraphProto& graph, Scope* scope) {
  bool ok = true;
  for (const TensorProto& tensor : graph.initializers) {
    Item* item = new_item();
    *item = Item::pending(tensor);
    if (tensor.name.empty()) {
      ok = problems_->add("T0705", "an initializer has no name");
    } else if (!scope->try_emplace(tensor.name, item).second) {
      ok = problems_->add("T0705",
                          fmt::format("two initializers have the name {}", quote(tensor.name)));
    }
  }
  return ok;
}

bool Importer::add_inputs(const GraphProto& graph, Scope* scope) {
  bool ok = true;
  for (const ValueProto& input : graph.inputs) {
    // An initializer is the default of an input, which callers may give instead. Before IR version
    // 4 every initializer was an input, too.
    if (const auto at = scope->find(input.name);
        at != scope->end() && at->second->pending() != nullptr) {
      if (!source_.overrides.contains(input.name)) continue;
      scope->erase(at);
    }
    Item* item = new_item();
    if (input.name.empty()) {
      ok = problems_->add("T0705", "an input has no name");
    } else if (!scope->try_emplace(input.name, item).second) {
      ok = problems_->add("T0705", fmt::format("two inputs have the name {}", quote(input.name)));
    } else if (!add_input(input, item)) {
      ok = false;
    }
  }
  return ok;
}

bool Importer::add_input(const ValueProto& input, Item* item) {
  const std::string where = fmt::format("input {}", quote(input.name));
  if (!input.is_tensor)
    return problems_->add("T0710",
                          fmt::format("{} is not a tensor, and only tensors are supported", where));
  Type type = {dtype_of_onnx(input.elem_type), {}};
  if (type.dtype == TENON_DTYPE_NONE) {
    return problems_->add("T0710", fmt::format("{} has element type {}, which is not supported",
                                               where, input.elem_type));
  }
  if (!input.has_shape) {
    return problems_->add(
        "T0713",
        fmt::format("{} has no shape; export the model with shapes (symbolic dims are fine)",
                    where));
  }
  const auto guarded = source_.guarded.find(input.name);
  const bool is_guarded =
      guarded != source_.guarded.end() && guarded->second.dims.size() == input.dims.size();
  for (size_t i = 0; i < input.dims.size(); ++i) {
    const DimProto& dim = input.dims[i];
    if (dim.has_value && dim.value < -1) {
      return problems_->add("T0713", fmt::format("{} has the negative dim {}", where, dim.value));
    }
    // Some exporters write -1 for a size that is not known.
    const bool is_size = dim.has_value && dim.value >= 0;
    type.dims.push_back(is_size      ? Dim(graph_.get(), dim.value)
                        : is_guarded ? Dim(graph_.get(), guarded->second.dims[i])
                                     : symbol(input, i));
    if (!type.dims.back().valid()) return add_host_failure(where);
  }
  if (!check_elements(type.dims, where)) return false;
  if (const auto at = source_.values.find(input.name); at != source_.values.end())
    return fix_input(input, at->second, std::move(type), item);
  if (guarded != source_.guarded.end()) return guard_input(input, guarded->second, type, item);
  Value value;
  if (!argument(region_, type, input.name, &value).ok()) return add_host_failure(where);
  *item = Item::of(value, input);
  for (size_t i = 0; i < type.dims.size(); ++i) {
    if (type.dims[i].is_constant()) continue;
    sources_.try_emplace(type.dims[i].raw(), value, static_cast<int64_t>(i));
    input_dims_.try_emplace(type.dims[i].raw(), &input, i);
  }
  return true;
}

// An input whose integers the caller gave: known from here on, and no input any more.
bool Importer::fix_input(const ValueProto& input, const std::vector<int64_t>& values, Type type,
                         Item* item) {
  const auto count = static_cast<int64_t>(values.size());
  const bool fits = type.dims.empty() ? count == 1
                                      : type.dims.size() == 1 &&
                                            (!type.dims[0].is_constant() || type.dims[0].is(count));
  if (!fits || !is_in(type.dtype, kInt | kPred)) {
    return problems_->add(
        "T0714",
        fmt::format(
            "input {} cannot have the {} given integers: its type or its shape does not fit",
            quote(input.name), count));
  }
  if (!type.dims.empty()) type.dims[0] = Dim(graph_.get(), count);
  Extents elements;
  for (const int64_t value : values) elements.push_back(Extent::of(value));
  *item = Item::of(type.dtype, std::move(type.dims), std::move(elements));
  return true;
}

// An input that has this value whenever the graph runs: an input still, so that callers see the
// same ones, but nothing reads it.
bool Importer::guard_input(const ValueProto& input, const Constant& value, const Type& type,
                           Item* item) {
  bool fits = type.dims.size() == value.dims.size() && type.dtype == value.dtype;
  for (size_t i = 0; fits && i < value.dims.size(); ++i) {
    fits = type.dims[i].is(value.dims[i]);
  }
  if (!fits) {
    return problems_->add("T0713", fmt::format("the value of input {} is of another type or shape",
                                               quote(input.name)));
  }
  Value argument_of_it;
  if (!argument(region_, type, input.name, &argument_of_it).ok())
    return add_host_failure(fmt::format("input {}", quote(input.name)));
  *item = Item::of(
      std::make_shared<Constant>(Constant{value.dtype, value.dims, Blob::retain(value.blob.get())}),
      type.dims);
  return true;
}

// A name says that dims agree; `?`, which some exporters write, says nothing.
bool is_named(const DimProto& dim) {
  return !dim.param.empty() && dim.param != "?";
}

// Dims that have the name of one of a guarded input are as large as that is.
void Importer::bind_guarded_dims(const GraphProto& graph) {
  for (const ValueProto& input : graph.inputs) {
    const auto at = source_.guarded.find(input.name);
    if (at == source_.guarded.end() || at->second.dims.size() != input.dims.size()) continue;
    for (size_t i = 0; i < input.dims.size(); ++i) {
      if (!input.dims[i].has_value && is_named(input.dims[i]))
        symbols_.emplace(std::string(input.dims[i].param), Dim(graph_.get(), at->second.dims[i]));
    }
  }
}

Dim Importer::symbol(const ValueProto& input, size_t axis) {
  const DimProto& dim = input.dims[axis];
  const std::string key = is_named(dim) ? std::string(dim.param) : std::string();
  if (const auto at = symbols_.find(key); !key.empty() && at != symbols_.end()) return at->second;
  std::string name = key.empty() ? fmt::format("{}_{}", input.name, axis) : key;
  // Names of symbols are words of the text form.
  for (char& c : name) {
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'))
      c = '_';
  }
  if (name[0] >= '0' && name[0] <= '9') name.insert(0, "_");
  for (const std::string& given : {key, name}) {
    const auto fixed = source_.dims.find(given);
    if (fixed == source_.dims.end() || given.empty()) continue;
    fixed_dims_.insert(given);
    return Dim(graph_.get(), fixed->second);
  }
  tenon_symbol_t id = 0;
  auto view = sized<tenon_symbol_view_t>();
  const tenon_host_graph_t& api = graph_api();
  if (api.symbol_define(api.self, graph_.get(), region_.id(), str(name), 0, INT64_MAX, 1, -1,
                        &id) != TENON_OK ||
      api.symbol_view(api.self, graph_.get(), id, &view) != TENON_OK) {
    return Dim::invalid();
  }
  const Dim out(graph_.get(), view.dim);
  if (!key.empty()) symbols_.emplace(key, out);
  return out;
}

// A dim next to a dim of 0 is bounded as well: sums and differences of dims stay far from 64 bits.
bool Importer::check_elements(const Dims& dims, std::string_view where) {
  const auto limit = static_cast<int64_t>(limits().elements);
  int64_t count = 1, largest = 0;
  for (const Dim d : dims) {
    if (!d.is_constant()) continue;
    largest = std::max(largest, d.constant());
    if (__builtin_mul_overflow(count, d.constant(), &count)) count = INT64_MAX;
  }
  if (std::max(count, largest) <= limit) return true;
  return problems_->add(
      "T0102",
      fmt::format("{} has more elements than the limit of {}; TENON_LIMIT_ELEMENTS raises it",
                  where, limit));
}

void Importer::run_nodes(std::span<const NodeProto> nodes, const OpsetVersions& versions,
                         Scope* scope, const Frame* frame, const GraphProto* whole) {
  std::vector<const NodeProto*> order;
  if (!order_nodes(nodes, *scope, problems_, &order)) return;
  scope->reserve(scope->size() + order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (halted()) return;
    if (cancelled()) {
      problems_->add("T0001", "the operation was cancelled");
      return;
    }
    if (whole != nullptr && is_open(*order[i]))
      return run_forked(std::move(order), i, versions, scope, frame, *whole);
    run_node(*order[i], versions, scope, frame);
  }
}

// The items that a node reads, null for those that are absent. False if one could not be imported.
bool Importer::operands_of(const NodeProto& node, const Scope& scope, std::vector<Item*>* out) {
  bool ok = check_attributes(node);
  for (const Text name : node.inputs) {
    Item* const item = name.empty() ? nullptr : scope.find(name)->second;
    out->push_back(item);
    if (item == nullptr) continue;
    const size_t before = problems_->count();
    ok &= resolve(item);
    if (problems_->count() > before) problems_->advise(cat(node_text(node), " reads it"));
  }
  return ok;
}

void Importer::run_node(const NodeProto& node, const OpsetVersions& versions, Scope* scope,
                        const Frame* frame) {
  std::vector<Item*> inputs;
  bool failed = !operands_of(node, *scope, &inputs);
  if (const FunctionProto* function = find_function(model_, node)) {
    if (!failed && call(*function, node, inputs, scope, frame)) return;
    failed = true;
  }
  frame_ = frame;
  scope_ = scope;
  versions_ = &versions;
  const bool has_body = std::any_of(node.attributes.begin(), node.attributes.end(),
                                    [](const AttributeProto& a) { return !a.graphs.empty(); });
  const std::vector<Item*> origins = has_body ? std::vector<Item*>() : inputs;
  NodeContext n(this, node, versions.of(node.domain), std::move(inputs));
  if (!failed) {
    const std::string_view domain = node.domain == "ai.onnx" ? "" : node.domain;
    const OpImporter* importer = find_importer(domain, node.op_type, n.version());
    locate(node);
    path_.push_back(&node);
    failed = !n.finish(importer != nullptr
                           ? importer->import(n)
                           : import_by_plugin(n, find_plugin_op(domain, n.op(), n.version())));
    path_.pop_back();
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    Item* item = new_item();
    if (!failed) *item = std::move(n.outputs()[i]);
    if (!origins.empty() && !failed) origins_.emplace(item, origins);
    scope->try_emplace(node.outputs[i], item);
  }
}

bool Importer::check_attributes(const NodeProto& node) {
  for (size_t i = 0; i < node.attributes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (node.attributes[i].name == node.attributes[j].name) {
        return problems_->add("T0708", fmt::format("{} has the attribute {} twice", node_text(node),
                                                   quote(node.attributes[i].name)));
      }
    }
  }
  return true;
}

void Importer::locate(const NodeProto& node) {
  const std::string name =
      node.name.empty() ? fmt::format("{}#{}", node.op_type, node.index) : std::string(node.name);
  tenon_loc_t loc = 0;
  if (graph_api().loc_make(graph_api().self, graph_.get(), str(source_.name), str(name), 0, &loc) !=
      TENON_OK)
    loc = 0;
  builder_->set_loc(loc);
}

namespace {

const AttributeProto* named(const std::vector<AttributeProto>& attributes, std::string_view name) {
  const auto at = std::find_if(attributes.begin(), attributes.end(),
                               [&](const AttributeProto& a) { return a.name == name; });
  return at == attributes.end() ? nullptr : &*at;
}

bool refers_to(const std::vector<NodeProto>& nodes, std::string_view name) {
  for (const NodeProto& node : nodes) {
    for (const AttributeProto& attribute : node.attributes) {
      if (attribute.reference == name) return true;
      for (const auto& graph : attribute.graphs) {
        if (refers_to(graph->nodes, name)) return true;
      }
    }
  }
  return false;
}

}  // namespace

// A call has no more operands than its function takes, and no attributes that it does not know.
bool Importer::check_call(const FunctionProto& function, const NodeProto& node) {
  if (node.inputs.size() > function.inputs.size() ||
      node.outputs.size() > function.outputs.size()) {
    return problems_->add("T0709",
                          fmt::format("{} has {} inputs and {} outputs, its function {} and {}",
                                      node_text(node), node.inputs.size(), node.outputs.size(),
                                      function.inputs.size(), function.outputs.size()));
  }
  for (const AttributeProto& given : node.attributes) {
    const auto& names = function.attribute_names;
    if (std::find(names.begin(), names.end(), given.name) != names.end() ||
        named(function.defaults, given.name) != nullptr || refers_to(function.nodes, given.name))
      continue;
    return problems_->add("T0708", fmt::format("{} has the attribute {}, which its function does "
                                               "not declare",
                                               node_text(node), quote(given.name)));
  }
  return true;
}

// The scope of a function's body: its inputs.
bool Importer::bind_call(const FunctionProto& function, const NodeProto& node,
                         const std::vector<Item*>& inputs, Scope* inner) {
  if (!check_call(function, node)) return false;
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    // An input that the caller leaves out is absent in the body, too.
    Item* const given = i < inputs.size() ? inputs[i] : nullptr;
    if (!inner->try_emplace(function.inputs[i], given).second) {
      return problems_->add("T0705", fmt::format("function {} has the input {} twice",
                                                 quote(function.name), quote(function.inputs[i])));
    }
  }
  return true;
}

bool Importer::call(const FunctionProto& function, const NodeProto& node,
                    const std::vector<Item*>& inputs, Scope* scope, const Frame* frame) {
  OpsetVersions versions;
  Scope inner;
  if (!bind_call(function, node, inputs, &inner) ||
      !read_opsets(function.opsets, &versions, problems_))
    return false;
  const Frame callee{&node, &function, frame};
  path_.push_back(&node);
  run_nodes(function.nodes, versions, &inner, &callee);
  path_.pop_back();
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const auto at = inner.find(function.outputs[i]);
    if (at == inner.end() || at->second == nullptr) {
      if (problems_->empty() && !halted()) {
        problems_->add("T0706", fmt::format("function {} has the output {}, which nothing defines",
                                            quote(function.name), quote(function.outputs[i])));
      }
      return false;
    }
    scope->try_emplace(node.outputs[i], at->second);
  }
  return true;
}

const AttributeProto* Importer::attribute(const NodeProto& node, std::string_view name,
                                          const Frame* frame) const {
  for (const AttributeProto& attribute : node.attributes) {
    if (attribute.name != name) continue;
    if (attribute.reference.empty()) return &attribute;
    if (frame == nullptr) return nullptr;
    const AttributeProto* given =
        this->attribute(*frame->caller, attribute.reference, frame->parent);
    if (given == nullptr) given = named(frame->function->defaults, attribute.reference);
    if (given == nullptr || given->graphs.empty()) return given;
    // Its names are the caller's, and it may hold the reference that leads to it.
    problems_->add(
        "T0714",
        fmt::format("{} takes a graph from the caller of its function, which is not supported",
                    node_text(node)));
    return nullptr;
  }
  return nullptr;
}

int64_t Importer::channel_block() {
  if (channel_block_ != 0) return channel_block_;
  std::unordered_set<std::string_view> filters;
  for (const NodeProto& node : model_.graph->nodes) {
    if (node.domain == "com.microsoft.nchwc" && node.op_type == "Conv" && node.inputs.size() > 1)
      filters.insert(node.inputs[1]);
  }
#if defined(__x86_64__)
  channel_block_ = __builtin_cpu_supports("avx512f") ? 16 : 8;
#else
  channel_block_ = 16;
#endif
  for (const TensorProto& tensor : model_.graph->initializers) {
    const bool halves = !tensor.dims.empty() && tensor.dims[0] % 16 == 8;
    if (halves && filters.contains(tensor.name)) channel_block_ = 8;
  }
  return channel_block_;
}

bool Importer::resolve(Item* item) {
  const TensorProto* tensor = item->pending();
  if (tensor == nullptr) return !item->refused();
  *item = Item();
  auto constant = std::make_shared<Constant>();
  if (!read_tensor(*tensor, source_, fmt::format("initializer {}", quote(tensor->name)), problems_,
                   constant.get()))
    return false;
  Dims dims;
  for (const int64_t dim : constant->dims) dims.push_back(Dim(graph_.get(), dim));
  *item = Item::of(std::move(constant), std::move(dims));
  return true;
}

const Extents* Importer::known(Item* item) {
  if (item->elements() == nullptr && item->constant() != nullptr &&
      is_in(item->dtype(), kInt | kPred)) {
    const std::span<const std::byte> bytes = blob_bytes(item->constant()->blob.get());
    const size_t width = dtype_bytes(item->dtype());
    if (bytes.size() / width > kMaxKnownElements) return nullptr;
    Extents elements;
    for (size_t at = 0; at < bytes.size(); at += width)
      elements.push_back(Extent::of(load_int(item->dtype(), &bytes[at])));
    item->set_elements(std::move(elements));
  }
  return item->elements();
}

// ---- Values from known integers ----

Value Importer::value_of(Item* item) {
  if (item->value().valid() || !builder_->status().ok()) return item->value();
  if (const Constant* constant = item->constant()) {
    item->set_value(held_constant(*builder_, *constant));
  } else if (item->elements() != nullptr) {
    item->set_value(build_elements(*item));
  }
  return item->value();
}

Value Importer::build_elements(const Item& item) {
  const Extents& elements = *item.elements();
  if (std::all_of(elements.begin(), elements.end(),
                  [](const Extent& e) { return e.is_number(); })) {
    const size_t width = dtype_bytes(item.dtype());
    std::vector<std::byte> bytes(elements.size() * width);
    for (size_t i = 0; i < elements.size(); ++i)
      store_int(item.dtype(), &bytes[i * width], elements[i].number);
    std::vector<int64_t> dims;
    for (const Dim d : item.dims()) dims.push_back(d.constant());
    return builder_->constant(item.dtype(), dims, bytes.data(), bytes.size());
  }
  std::vector<Value> parts;
  const Dims one = {Dim(graph_.get(), 1)};
  std::unordered_map<tenon_dim_t, Value> made;
  for (const Extent& element : elements) {
    const Value number = element.is_number() ? builder_->scalar_int(TENON_I64, element.number)
                                             : dim_value(*element.symbolic, 0, &made);
    parts.push_back(builder_->build("reshape", {number}, {{"shape", one}}));
  }
  Value all = parts.size() == 1 ? parts[0] : builder_->build("concat", parts, {{"dim", 0}});
  if (item.dims().size() != 1) all = builder_->build("reshape", {all}, {{"shape", item.dims()}});
  return builder_->convert(all, item.dtype());
}

// made: numbers of dims at this place; a dim may hold another many times.
Value Importer::dim_value(Dim dim, size_t depth, std::unordered_map<tenon_dim_t, Value>* made) {
  if (dim.is_constant()) return builder_->scalar_int(TENON_I64, dim.constant());
  if (const auto at = made->find(dim.raw()); at != made->end()) return at->second;
  if (const auto at = sources_.find(dim.raw()); at != sources_.end()) {
    return builder_->build("dim_size", {at->second.first}, {{"dim", at->second.second}});
  }
  auto view = sized<tenon_dim_view_t>();
  static constexpr std::string_view kOps[] = {"",          "",          "add", "",   "mul",
                                              "floor_div", "floor_mod", "min", "max"};
  const bool seen =
      graph_api().dim_view(graph_api().self, graph_.get(), dim.raw(), &view) == TENON_OK;
  if (seen && view.op == TENON_DIM_CONSTANT) return builder_->scalar_int(TENON_I64, view.constant);
  if (seen && view.op == TENON_DIM_SYMBOL) {
    // What no input's shape gives, a result's does; here it is read from something that has this
    // extent.
    const Value counted = builder_->build("iota", std::vector<Value>(), {{"shape", Dims{dim}}});
    return made->emplace(dim.raw(), builder_->build("dim_size", {counted}, {{"dim", 0}}))
        .first->second;
  }
  if (!seen || depth > limits().depth || view.op >= std::size(kOps) || kOps[view.op].empty()) {
    builder_->note(fail(TENON_UNIMPLEMENTED,
                        "T0714: a size is needed as a number that is computed in too many steps"));
    return Value();
  }
  const Value a = dim_value(Dim(graph_.get(), view.a), depth + 1, made);
  const Value b = dim_value(Dim(graph_.get(), view.b), depth + 1, made);
  return made->emplace(dim.raw(), builder_->build(kOps[view.op], {a, b})).first->second;
}

// ---- Outputs ----

bool Importer::add_outputs(const GraphProto& graph, const Scope& scope) {
  bool ok = true;
  std::vector<Value> values;
  std::vector<std::string> names;
  std::unordered_set<std::string_view> seen;
  if (graph.outputs.empty()) return problems_->add("T0702", "it has no outputs");
  for (const ValueProto& output : graph.outputs) {
    const auto at = scope.find(output.name);
    if (at == scope.end()) {
      ok = problems_->add("T0706",
                          fmt::format("the output {} is defined by nothing", quote(output.name)));
      continue;
    }
    if (!seen.insert(output.name).second) {
      ok = problems_->add("T0705", fmt::format("two outputs have the name {}", quote(output.name)));
      continue;
    }
    if (!resolve(at->second) || !check_output(output, *at->second)) {
      ok = false;
      continue;
    }
    values.push_back(value_of(at->second));
    names.emplace_back(output.name);
    if (!builder_->status().ok())
      return add_host_failure(fmt::format("output {}", quote(output.name)));
    if (values.back().dtype() != at->second->dtype()) {
      ok =
          problems_->add("T0710", fmt::format("output {} has element type {}, which no tensor of a "
                                              "run has; give out its dequantised numbers",
                                              quote(output.name), dtype_name(at->second->dtype())));
    }
  }
  if (ok && !yield(region_, values, names).ok()) ok = add_host_failure("the outputs");
  return ok;
}

bool Importer::check_output(const ValueProto& output, const Item& item) {
  if (!output.is_tensor) return true;  // a type is optional
  const tenon_dtype_t dtype = dtype_of_onnx(output.elem_type);
  if (output.elem_type != 0 && dtype != item.dtype()) {
    return problems_->add(
        "T0710",
        fmt::format("output {} is declared with element type {}, but is {}", quote(output.name),
                    dtype == TENON_DTYPE_NONE ? std::to_string(output.elem_type)
                                              : std::string(dtype_name(dtype)),
                    dtype_name(item.dtype())));
  }
  if (!output.has_shape) return true;
  bool fits = output.dims.size() == item.dims().size();
  for (size_t i = 0; fits && i < item.dims().size(); ++i) {
    const DimProto& dim = output.dims[i];
    fits = !dim.has_value || dim.value == -1 || !item.dims()[i].is_constant() ||
           item.dims()[i].is(dim.value);
  }
  if (!fits)
    warnings_.push_back(
        fmt::format("output {} is declared as {}, and its nodes give {}, which "
                    "holds",
                    quote(output.name), shape_text(output), shape_text(item)));
  return true;
}

// "[2, n, ?]"
std::string Importer::shape_text(const ValueProto& declared) {
  std::vector<std::string> dims;
  for (const DimProto& dim : declared.dims)
    dims.push_back(dim.has_value && dim.value >= 0 ? std::to_string(dim.value)
                   : is_named(dim)                 ? std::string(dim.param)
                                                   : "?");
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

std::string Importer::shape_text(const Item& item) const {
  std::vector<std::string> dims;
  for (const Dim dim : item.dims()) {
    std::string text = dim.is_constant() ? std::to_string(dim.constant()) : "?";
    for (const auto& [name, symbol] : symbols_) {
      if (symbol == dim) text = name;
    }
    dims.push_back(text);
  }
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

void Importer::log_warnings() const {
  for (const std::string& warning : warnings_)
    log("onnx", TENON_LOG_WARN, quote(source_.name), ": ", warning);
}

namespace {

// Imports, from the beginning for each If that turned out to be compiled per branch.
std::unique_ptr<Importer> settled(const ModelProto& model, const Source& source, Unknown unknown,
                                  Plan plan, Problems* problems, bool* done, Graph* out) {
  for (;;) {
    Problems found;
    auto importer = std::make_unique<Importer>(model, source, unknown, std::move(plan), &found);
    *done = importer->run(out);
    if (importer->restart() && !cancelled()) {
      plan = importer->plan();
      continue;
    }
    *problems = std::move(found);
    importer->report_into(problems);
    return importer;
  }
}

// The outline of a model whose graph follows from a case of its sizes, which the host is asked for.
bool ask(const ModelProto& model, const Source& source, Importer* importer, Problems* problems,
         Graph* out, ByValue* by_value) {
  const std::string why = importer->question()->why;
  std::vector<OutputType> types;
  if (!types_of_cases(model, source, importer->plan(), why, &types, problems)) return false;
  if (!importer->outline(out, types)) return false;
  by_value->truth = importer->question()->truth;
  by_value->why_truth = why;
  by_value->only = cat(why, " follows from sizes");
  return true;
}

}  // namespace

Imported import_once(const ModelProto& model, const Source& source, Unknown unknown, Plan plan,
                     Problems* problems, Graph* out) {
  Imported result;
  const auto importer =
      settled(model, source, unknown, std::move(plan), problems, &result.done, out);
  result.by_value = !importer->value_inputs().empty();
  if (problems->empty()) result.question = importer->question();
  if (result.done) result.outputs = importer->output_types();
  return result;
}

bool import_model(const ModelProto& model, const Source& source, Problems* problems, Graph* out,
                  ByValue* by_value) {
  Plan plan;
  plan.cases = source.cases;
  plan.may_ask = by_value != nullptr && by_value->may_ask;
  bool done = false;
  const auto importer = settled(model, source, Unknown::kSymbols, plan, problems, &done, out);
  if (done) importer->log_warnings();
  if (by_value == nullptr) return done;
  if (!done && problems->empty() && importer->question() && !cancelled())
    return ask(model, source, importer.get(), problems, out, by_value);
  by_value->inputs = importer->value_inputs();
  if (done || by_value->inputs.empty() || cancelled()) return done;
  by_value->only = problems->first();
  const auto later = settled(model, source, Unknown::kPostpone, plan, problems, &done, out);
  by_value->inputs = later->value_inputs();
  return done;
}

}  // namespace tenon::onnx
