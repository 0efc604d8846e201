#include "tests/random/shrink/rebuild.h"

#include <algorithm>
#include <numeric>

namespace tenon::random_tests {
namespace {

std::string name_of(const Value& value) {
  const std::string name(sym_text(value.view().name));
  return name.empty() ? "v" + std::to_string(value.id()) : name;
}

class Rebuild {
 public:
  Rebuild(const Generated& from, const std::vector<Values>& values, const Edit& edit, Generated* to)
      : from_(from), values_(values), edit_(edit), to_(*to), old_(from.graph.get()) {}

  bool run() {
    to_.seed = from_.seed;
    if (!Graph::create("random", &to_.graph).ok()) return false;
    new_ = to_.graph.get();
    main_ = main_region(new_).id();
    to_.bindings.resize(edit_.bindings.size());
    yields_ = main_region(old_).yields();
    for (const auto& [i, value] : edit_.earlier) yields_[i] = Value(old_, value);
    for (const size_t i : edit_.outputs) mark(yields_[i]);
    if (!symbols() || !arguments() || !nodes() || !outputs()) return false;
    for (Binding& binding : to_.bindings) binding.symbols.resize(graph_view(new_).symbol_limit, 1);
    return graph_api().verify(graph_api().self, new_) == TENON_OK && evaluate(&to_).empty();
  }

 private:
  Value source(Value value) const {
    const auto found = edit_.replaced.find(value.id());
    return found == edit_.replaced.end() ? value : source(Value(old_, found->second));
  }
  bool cut(const Value& value) const { return edit_.inputs.contains(value.id()); }

  // Marks everything that leads to an output.
  void mark(Value value) {
    value = source(value);
    if (!value.valid() || !needed_.insert(value.id()).second || cut(value)) return;
    const Node node = value.node();
    if (!node.valid()) return;
    needed_nodes_.insert(node.id());
    for (const Value operand : node.operands()) mark(operand);
  }

  // ---- Dims ----

  bool symbols() {
    const tenon_region_view_t main = main_region(old_).view();
    for (uint32_t i = 0; i < main.symbol_count; ++i) {
      const tenon_symbol_t symbol = main.symbols[i];
      if (!(edit_.fixed.contains(symbol) ? fix(symbol) : define(symbol))) return false;
    }
    return true;
  }
  bool fix(tenon_symbol_t symbol) {
    const int64_t size = from_.bindings[edit_.bindings[0]].symbols[symbol];
    extents_[symbol] = Dim(new_, size);
    return edit_.bindings.size() == 1;
  }
  bool define(tenon_symbol_t symbol) {
    tenon_symbol_view_t seen = {}, made = {};
    seen.size_bytes = made.size_bytes = sizeof seen;
    const tenon_host_graph_t& api = graph_api();
    tenon_symbol_t fresh = 0;
    if (api.symbol_view(api.self, old_, symbol, &seen) != TENON_OK) return false;
    if (api.symbol_define(api.self, new_, main_, str(sym_text(seen.name)), seen.lo, seen.hi,
                          seen.multiple_of, seen.hint, &fresh) != TENON_OK) {
      return false;
    }
    if (api.symbol_view(api.self, new_, fresh, &made) != TENON_OK) return false;
    extents_[symbol] = Dim(new_, made.dim);
    for (size_t b = 0; b < to_.bindings.size(); ++b) {
      auto& symbols = to_.bindings[b].symbols;
      symbols.resize(graph_view(new_).symbol_limit, 1);
      symbols[fresh] = from_.bindings[edit_.bindings[b]].symbols[symbol];
    }
    return true;
  }

  int64_t resized(int64_t extent) const {
    if (edit_.from == 0 || extent == 0) return extent;
    if (extent == edit_.from) return edit_.to;
    return edit_.multiples && extent % edit_.from == 0 ? extent / edit_.from * edit_.to : extent;
  }
  Dim translated(Dim dim) const {
    if (dim.is_constant()) return Dim(new_, resized(dim.constant()));
    tenon_dim_view_t view = {};
    view.size_bytes = sizeof view;
    if (graph_api().dim_view(graph_api().self, old_, dim.raw(), &view) != TENON_OK)
      return Dim::invalid();
    if (view.op == TENON_DIM_CONSTANT) return Dim(new_, 0) - Dim(new_, -view.constant);  // below 0
    if (view.op == TENON_DIM_SYMBOL) {
      const auto found = extents_.find(view.symbol);
      return found == extents_.end() ? Dim::invalid() : found->second;
    }
    return Dim::make(view.op, translated(Dim(old_, view.a)), translated(Dim(old_, view.b)));
  }
  Dims translated(const Dims& dims) const {
    Dims out;
    for (const Dim dim : dims) out.push_back(translated(dim));
    return out;
  }
  std::vector<int64_t> sizes(const Dims& dims, size_t binding) const {
    std::vector<int64_t> out;
    const auto& symbols = to_.bindings[binding].symbols;
    for (const Dim dim : dims) {
      out.push_back(-1);
      (void)graph_api().dim_evaluate(graph_api().self, new_, dim.raw(), symbols.data(),
                                     static_cast<uint32_t>(symbols.size()), &out.back());
    }
    return out;
  }

  // ---- Values ----

  bool arguments() {
    for (const Value argument : main_region(old_).arguments()) {
      if (needed_.contains(argument.id()) && !add_input(argument)) return false;
    }
    return true;
  }

  // Replaces a value by an input.
  bool add_input(const Value& value) {
    const Dims dims = translated(value.dims());
    const std::string name = name_of(value);
    Value made;
    for (const Dim dim : dims) {
      if (!dim.valid()) return false;
    }
    if (!argument(Region(new_, main_), {value.dtype(), dims}, name, &made).ok()) return false;
    made_[value.id()] = made;
    to_.inputs.push_back(name);
    for (size_t b = 0; b < to_.bindings.size(); ++b) {
      Tensor tensor = values_[edit_.bindings[b]].at(value.id());
      tensor.allowed = nullptr;
      std::vector<int64_t> wanted = sizes(dims, b);
      if (std::any_of(wanted.begin(), wanted.end(), [](int64_t size) { return size < 0; }))
        return false;
      if (tensor.dims != wanted)
        tensor = random_tensor(value.dtype(), std::move(wanted), from_.seed + value.id());
      to_.bindings[b].inputs.push_back(std::move(tensor));
    }
    return true;
  }

  bool add_constant(const Value& value) {
    const Dims dims = translated(value.dims());
    std::vector<int64_t> sizes;
    for (const Dim dim : dims) sizes.push_back(dim.constant());
    Builder builder(new_, main_);
    if (dims == value.dims()) {
      made_[value.id()] = builder.constant(value.dtype(), sizes, value.blob());
    } else {
      const Tensor tensor = random_tensor(value.dtype(), sizes, from_.seed + value.id());
      const auto bytes = static_cast<uint64_t>(tensor.count()) * dtype_bytes(value.dtype());
      made_[value.id()] = builder.constant(value.dtype(), sizes, tensor.data(), bytes);
    }
    return builder.status().ok();
  }

  // ---- Nodes ----

  bool nodes() {
    for (const Node& node : main_region(old_).nodes()) {
      if (needed_nodes_.contains(node.id()) && !add_node(node)) return false;
    }
    return true;
  }

  bool add_node(const Node& node) {
    const tenon_node_view_t view = node.view();
    if (view.region_count != 0) return false;
    std::vector<Value> operands;
    for (const Value operand : node.operands()) {
      Value made;
      if (operand.valid() && !find(source(operand), &made)) return false;
      operands.push_back(made);
    }
    std::vector<Attr> attrs;
    for (uint32_t i = 0; i < view.attr_count; ++i) {
      if (!add_attr(view.attrs[i], &attrs)) return false;
    }
    const Node made = Builder(new_, main_).build_node(node.op(), operands, attrs);
    if (!made || made.result_count() != node.result_count()) return false;
    ++to_.nodes;
    for (uint32_t i = 0; i < node.result_count(); ++i) {
      if (!cut(node.result(i))) made_.emplace(node.result(i).id(), made.result(i));
    }
    return true;
  }

  bool add_attr(const tenon_attr_t& attr, std::vector<Attr>* attrs) const {
    if (attr.kind != TENON_ATTR_DIMS) {
      attrs->emplace_back(attr);
      return attr.kind != TENON_ATTR_TYPES;
    }
    Dims dims;
    for (uint64_t i = 0; i < attr.count; ++i) dims.push_back(translated(Dim(old_, attr.u.dims[i])));
    attrs->emplace_back(sym_text(attr.name), dims);
    return std::all_of(dims.begin(), dims.end(), [](Dim dim) { return dim.valid(); });
  }

  // The new value for an old one.
  bool find(const Value& value, Value* made) {
    if (!made_.contains(value.id())) {
      const bool added = value.is_constant() ? add_constant(value) : cut(value) && add_input(value);
      if (!added) return false;
    }
    *made = made_.at(value.id());
    return made->valid();
  }

  bool outputs() {
    std::vector<Value> made;
    for (const size_t i : edit_.outputs) {
      if (!find(source(yields_[i]), &made.emplace_back())) return false;
      to_.outputs.push_back(from_.outputs[i]);
    }
    return yield(Region(new_, main_), made, to_.outputs).ok();
  }

  const Generated& from_;
  const std::vector<Values>& values_;
  const Edit& edit_;
  Generated& to_;
  tenon_graph_t* old_;
  tenon_graph_t* new_ = nullptr;
  tenon_region_t main_ = 0;
  std::vector<Value> yields_;
  std::set<tenon_value_t> needed_;
  std::set<tenon_node_t> needed_nodes_;
  std::map<tenon_symbol_t, Dim> extents_;
  std::map<tenon_value_t, Value> made_;
};

}  // namespace

Edit unchanged(const Generated& generated) {
  Edit edit;
  edit.outputs.resize(generated.outputs.size());
  edit.bindings.resize(generated.bindings.size());
  std::iota(edit.outputs.begin(), edit.outputs.end(), 0);
  std::iota(edit.bindings.begin(), edit.bindings.end(), 0);
  return edit;
}

bool rebuild(const Generated& generated, const std::vector<Values>& values, const Edit& edit,
             Generated* out) {
  return Rebuild(generated, values, edit, out).run();
}

}  // namespace tenon::random_tests
