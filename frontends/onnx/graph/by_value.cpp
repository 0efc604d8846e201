// Data-dependent numbers that are needed as sizes, axes or counts. Each becomes a symbol that the
// run defines, so one graph serves all values. Where a symbol cannot express the number (an axis,
// the sign of a step), the host gets the names of the inputs that determine it, loads again with
// their values whenever these are new, and guards the compiled program by them.
#include <fmt/format.h>

#include <algorithm>

#include "frontends/onnx/graph/importer_internal.h"

namespace tenon::onnx {
namespace {

constexpr size_t kMaxSymbols = 64;  // per operand: sizes, bounds, repeats for each dim

bool is_constant(const Dims& dims) {
  return std::all_of(dims.begin(), dims.end(), [](Dim d) { return d.is_constant(); });
}

// Few enough to compare at every call. For a symbolic dim, the host checks the count when it runs.
bool is_small(const Dims& dims) {
  int64_t count = 1;
  for (const Dim d : dims) {
    if (!d.is_constant()) return dims.size() == 1;
    if (__builtin_mul_overflow(count, d.constant(), &count)) return false;
  }
  return count <= static_cast<int64_t>(kMaxKnownElements);
}

}  // namespace

// Computes an item that follows from constants alone.
bool Importer::fold(Item* item) {
  if (item->constant() != nullptr || item->elements() != nullptr || item->input() != nullptr ||
      !builder_->status().ok())
    return false;
  const Constant* constant = folding_.of(value_of(item));
  if (constant == nullptr) return false;
  item->set_constant(std::make_shared<Constant>(
      Constant{constant->dtype, constant->dims, Blob::retain(constant->blob.get())}));
  return true;
}

// What determines an item; computed once for each.
Importer::Follows Importer::follows(const Item* item) {
  const auto by_itself = [&](const Item* at) {
    if (at->constant() != nullptr || (at->elements() != nullptr && !symbolic_.contains(at)))
      return Follows::kConstants;
    if (at->input() != nullptr)
      return is_small(at->dims()) && is_in(at->dtype(), kInt | kPred) ? Follows::kInputs
                                                                      : Follows::kUnknown;
    return origins_.contains(at) ? Follows::kOpen : Follows::kUnknown;
  };
  std::vector<const Item*> open = {item};
  while (!open.empty()) {
    const Item* at = open.back();
    const auto [found, fresh] = follows_.try_emplace(at, by_itself(at));
    Follows& out = found->second;
    if (fresh && out == Follows::kOpen) {
      for (const Item* origin : origins_[at]) {
        if (origin != nullptr) open.push_back(origin);
      }
      continue;
    }
    open.pop_back();
    if (out != Follows::kOpen) continue;
    out = Follows::kConstants;
    for (const Item* origin : origins_[at]) {
      if (origin != nullptr) out = std::max(out, follows_[origin]);
    }
  }
  return follows_[item];
}

// Notes the inputs that determine an item. False if none does, or if one has values that are not
// integers, or too many.
bool Importer::note_inputs(const Item* item, std::string_view why) {
  // Floats only where they are the operand itself, like the scales of Resize: what is computed from
  // them changes at every call.
  if (item->input() != nullptr ? !is_small(item->dims()) : follows(item) != Follows::kInputs)
    return false;
  std::vector<const Item*> open = {item};
  while (!open.empty()) {
    const Item* at = open.back();
    open.pop_back();
    if (at->input() != nullptr) {
      const auto noted = [&](const auto& entry) { return entry.first == at->input()->name; };
      if (std::none_of(value_inputs_.begin(), value_inputs_.end(), noted))
        value_inputs_.emplace_back(at->input()->name, why);
      continue;
    }
    if (!noted_.insert(at).second) continue;
    for (const Item* origin : origins_[at]) {
      if (origin != nullptr && follows(origin) == Follows::kInputs) open.push_back(origin);
    }
  }
  return true;
}

// Postpones the node if the values of inputs would determine the item. As long as they are not
// known to be needed, they are only noted.
bool Importer::postpone(const Item* item, std::string_view why) {
  if (!note_inputs(item, why) || unknown_ == Unknown::kSymbols) return false;
  return postponed_ = true;
}

// A symbol for each number of an item, at least `least` (0 or 1). Null if there are too many, or if
// the node waits for values.
const Extents* Importer::symbols_of(Item* item, std::string_view why, int64_t least) {
  const bool from_inputs = note_inputs(item, why);
  if (from_inputs && unknown_ == Unknown::kPostpone) return nullptr;
  const tenon_host_graph_t& api = graph_api();
  if (symbolic_.contains(item)) {
    for (const Extent& e : *item->elements()) {
      if (least > 0 && e.symbolic &&
          api.symbol_assert(api.self, graph_.get(), TENON_REL_LT, Dim(graph_.get(), 0).raw(),
                            e.symbolic->raw()) != TENON_OK)
        return nullptr;
    }
    return item->elements();
  }
  if (item->dims().size() > 1 || !is_constant(item->dims()) || !is_in(item->dtype(), kInt))
    return nullptr;
  const int64_t count = item->dims().empty() ? 1 : item->dims()[0].constant();
  const Value all = value_of(item);
  if (count > static_cast<int64_t>(kMaxSymbols) || !all.valid()) return nullptr;
  Extents elements;
  for (int64_t i = 0; i < count; ++i) {
    Value one = all;
    if (!item->dims().empty()) {
      const Dims start = {Dim(graph_.get(), i)}, limit = {Dim(graph_.get(), i + 1)};
      one = builder_->build("slice", {all}, {{"start", start}, {"limit", limit}});
      one = builder_->build("reshape", {one}, {{"shape", Dims()}});
    }
    const Value extent = builder_->build("dim_from_scalar", {one}, {{"lo", least}});
    if (!extent.valid()) return nullptr;
    elements.push_back(Extent::of(extent.dim(0)));
    sources_.try_emplace(extent.dim(0).raw(), extent, 0);
  }
  item->set_elements(std::move(elements));
  symbolic_.insert(item);
  return item->elements();
}

// ---- The outline of a model whose graph depends on values ----

// The declared type of an output; unknown sizes become symbols.
bool Importer::outline_type(const ValueProto& output, const OutputType* known, Type* out) {
  if (known != nullptr) {
    ValueProto shaped;
    shaped.name = output.name;
    shaped.dims.resize(known->dims.size());
    out->dtype = known->dtype;
    for (size_t i = 0; i < known->dims.size(); ++i) {
      out->dims.push_back(known->dims[i] >= 0 ? Dim(graph_.get(), known->dims[i])
                                              : symbol(shaped, i));
      if (!out->dims.back().valid())
        return add_host_failure(fmt::format("output {}", quote(output.name)));
    }
    return true;
  }
  out->dtype = dtype_of_onnx(output.elem_type);
  if (!output.is_tensor || !output.has_shape || out->dtype == TENON_DTYPE_NONE) {
    return problems_->add(
        "T0714",
        fmt::format(
            "output {} is declared without element type or shape, and its shape follows from the "
            "values of inputs; declare it",
            quote(output.name)));
  }
  for (size_t i = 0; i < output.dims.size(); ++i) {
    const DimProto& dim = output.dims[i];
    out->dims.push_back(dim.has_value && dim.value >= 0 ? Dim(graph_.get(), dim.value)
                                                        : symbol(output, i));
    if (!out->dims.back().valid())
      return add_host_failure(fmt::format("output {}", quote(output.name)));
  }
  return true;
}

bool Importer::outline(Graph* out, const std::vector<OutputType>& known) {
  const GraphProto& main = *model_.graph;
  const Graph imported = std::move(graph_);  // has the dims of the question
  const auto input_dims = std::move(input_dims_);
  graph_ = Graph();
  folding_ = Folding();
  symbols_.clear();
  sources_.clear();
  if (!Graph::create(main.name.empty() ? "main" : main.name, &graph_).ok())
    return add_host_failure("the graph");
  region_ = main_region(graph_.get());
  builder_.emplace(graph_.get(), region_.id());
  Scope scope;
  if (!add_initializers(main, &scope) || !add_inputs(main, &scope)) return false;
  std::vector<Value> operands, results;
  for (const ValueProto& input : main.inputs) {
    const Item* item = scope.find(input.name)->second;
    if (item->value().valid()) operands.push_back(item->value());
  }
  std::vector<Type> types(main.outputs.size());
  std::vector<tenon_dim_t> dims;
  std::vector<tenon_type_t> raw;
  std::vector<std::string> names;
  for (size_t i = 0; i < types.size(); ++i) {
    if (!outline_type(main.outputs[i], known.empty() ? nullptr : &known[i], &types[i]))
      return false;
    for (const Dim d : types[i].dims) dims.push_back(d.raw());
    names.emplace_back(main.outputs[i].name);
  }
  const tenon_dim_t* at = dims.data();
  for (const Type& type : types) {
    raw.push_back({type.dtype, TENON_KIND_TENSOR, static_cast<uint32_t>(type.dims.size()), at, 0});
    at += type.dims.size();
  }
  tenon_attr_t listed = {};
  listed.name = intern("results");
  listed.kind = TENON_ATTR_TYPES;
  listed.count = raw.size();
  listed.u.types = raw.data();
  const Attr attrs[] = {Attr("name", "by_value"), Attr(listed)};
  const Node node = builder_->build_node("custom_call", operands, attrs);
  if (!builder_->status().ok()) return add_host_failure("the outline");
  for (size_t i = 0; i < types.size(); ++i)
    results.push_back(node.result(static_cast<uint32_t>(i)));
  if (!yield(region_, results, names).ok()) return add_host_failure("the outputs");
  if (question_) {
    const Dim truth = question_in(scope, input_dims);
    if (!truth.valid()) return add_host_failure(question_->why);
    question_->truth = truth;
  }
  *out = std::move(graph_);
  return true;
}

}  // namespace tenon::onnx
