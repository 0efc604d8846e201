// tenon.host.registry/1: ops from core/op, other plugins' interfaces from core/host.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/errors/guard.h"
#include "core/base/intern.h"
#include "core/base/process/log.h"
#include "core/base/process/memory.h"
#include "core/base/str.h"
#include "core/host/plugin_host.h"
#include "core/ir/dtype.h"
#include "core/op/evaluate.h"
#include "core/op/registry.h"
#include "core/session/api/session.h"
#include "core/session/compile/plugins.h"

namespace tenon::session {
namespace {

// Loads the ops of plugins that are not loaded yet.
class OpLoader final : public op::OpLoader {
 public:
  Status load(std::string_view name) override {
    Result<const host::Plugin*> plugin = host::PluginHost::process().load_provider("op", name);
    if (!plugin.ok()) {
      const bool missing = plugin.status().error_code() == "P0901";
      return missing ? Status(TENON_NOT_FOUND, "", "") : std::move(plugin).status();
    }
    TENON_RETURN_IF_ERROR(take(**plugin));
    return refusal_of(name);
  }
  void names(std::vector<std::string>* out) override {
    *out = host::PluginHost::process().provided_names("op");
  }
  void load_all() override {
    for (const host::Plugin* plugin : host::PluginHost::process().load_all("op"))
      (void)take(*plugin);
  }
  void note_spaces(std::vector<std::string>* out) override {
    const host::PluginHost& host = host::PluginHost::process();
    std::set<std::string> spaces;
    const auto add_first_parts = [&](const std::vector<std::string>& names) {
      for (const std::string& name : names) {
        if (const size_t dot = name.find('.'); dot != std::string::npos)
          spaces.insert(name.substr(0, dot));
      }
    };
    const std::vector<std::string> plugins = host.plugin_names();
    spaces.insert(plugins.begin(), plugins.end());
    add_first_parts(plugins);
    add_first_parts(host.provided_names("op"));
    add_first_parts(host.provided_names("pass"));
    out->assign(spaces.begin(), spaces.end());
  }

 private:
  Status take(const host::Plugin& plugin) {
    if (plugin.registration != 0) return {};  // its ops came with it
    std::lock_guard lock(mutex_);
    if (std::find(taken_.begin(), taken_.end(), &plugin) != taken_.end()) return {};
    taken_.push_back(&plugin);
    const auto* ops = plugin.table<tenon_ops_t>(TENON_OPS_ID);
    if (ops == nullptr)
      return error(TENON_NOT_FOUND, "P0904", "plugin {} has no {}", quoted(plugin.name()),
                   TENON_OPS_ID);
    Status status = op::Registry::instance().register_ops(*ops, plugin.name());
    if (!status.ok())
      log_warning("plugins", "some ops of plugin {} are left out: {}", quoted(plugin.name()),
                  status.text());
    for (std::string_view line : split(status.message(), '\n')) refused_.emplace_back(line);
    return {};
  }
  // Why the declaration of this op was refused, for a look-up by its name.
  Status refusal_of(std::string_view name) {
    const std::string begin = "op " + quoted(name) + ":";
    std::lock_guard lock(mutex_);
    for (const std::string& line : refused_) {
      if (line.starts_with(begin)) return Status(TENON_INVALID_ARGUMENT, "T0320", line);
    }
    return {};
  }
  std::mutex mutex_;
  std::vector<const host::Plugin*> taken_;
  std::vector<std::string> refused_;  // refused declarations, a sentence each
};

tenon_code_t op_find(void*, tenon_sym_t name, uint32_t version, const tenon_op_def_t** out) {
  clear_failure();
  return guarded([&]() -> Status {
    const tenon_op_def_t* def = op::Registry::instance().find(name, version);
    if (def == nullptr) return op::Registry::instance().unknown(name, version);
    *out = def;
    return {};
  });
}

tenon_code_t op_each(void*, void* context,
                     void (*visit)(void*, const tenon_op_def_t*, tenon_str_t)) {
  return guarded([&]() -> Status {
    for (const op::OpRecord* record : op::Registry::instance().all_records()) {
      visit(context, &record->def, to_abi_str(record->provider));
    }
    return {};
  });
}

tenon_code_t node_attrs(void*, tenon_graph_t* graph, tenon_node_t node, tenon_attr_t* out) {
  clear_failure();
  return guarded([&]() -> Status {
    const ir::Graph& g = *ir::Graph::from(graph);
    if (!g.node_live(node))
      return error(TENON_INVALID_ARGUMENT, "T0301", "there is no node {}", node);
    const tenon_op_def_t* def =
        op::Registry::instance().find(g.node(node).op, g.node(node).op_version);
    if (def == nullptr)
      return op::Registry::instance().unknown(g.node(node).op, g.node(node).op_version);
    const std::vector<tenon_attr_t> attrs = op::declared_attrs(*def, g.attrs(node));
    std::copy(attrs.begin(), attrs.end(), out);
    return {};
  });
}

// Returns an array as one block that array_free finds by its dims: dims, strides, elements.
Status give(const op::HostArray& array, tenon_array_t* out) {
  const size_t shape_bytes = (2 * sizeof(int64_t) * array.dims().size() + 63) / 64 * 64 + 64;
  TENON_RETURN_IF_ERROR(memory_reserve(array.size_bytes(), "a result of the reference"));
  auto* block = static_cast<std::byte*>(std::malloc(shape_bytes + array.size_bytes()));
  if (block == nullptr) {
    memory_return(array.size_bytes());
    return error(TENON_RESOURCE_EXHAUSTED, "T0111", "not enough memory for a result of {} bytes",
                 array.size_bytes());
  }
  auto* shape = reinterpret_cast<int64_t*>(block);
  std::copy_n(array.view().dims, array.dims().size(), shape);
  std::copy_n(array.view().strides_bytes, array.dims().size(), shape + array.dims().size());
  std::memcpy(block + shape_bytes, array.view().data, array.size_bytes());
  *out = array.view();
  out->data = block + shape_bytes;
  out->dims = shape;
  out->strides_bytes = shape + array.dims().size();
  return {};
}

void array_free(void*, tenon_array_t* array) {
  // As it was counted: give() makes dense arrays.
  uint64_t bits = ir::dtype_bits(array->dtype);
  for (uint32_t d = 0; d < array->rank && array->dims != nullptr; ++d)
    bits *= static_cast<uint64_t>(array->dims[d]);
  if (array->dims != nullptr) memory_return((bits + 7) / 8);
  std::free(const_cast<int64_t*>(array->dims));
  *array = {};
}

// Facts already checked for the sizes with which this thread last evaluated a graph, so that a walk
// over its nodes checks each fact about once.
struct CheckedFacts {
  uint64_t graph = 0;
  std::vector<int64_t> symbols;
  std::vector<uint32_t> open;  // facts whose symbols no node has been given yet

  void begin(const ir::Graph& g, std::span<const int64_t> now) {
    const bool same = g.frozen() && graph == g.serial() &&
                      std::equal(now.begin(), now.end(), symbols.begin(), symbols.end());
    if (same) return;
    graph = g.serial();
    symbols.assign(now.begin(), now.end());
    open.resize(g.facts().size());
    std::iota(open.begin(), open.end(), 0u);
  }
};

Status check_fact(const ir::Graph& g, tenon_node_t node, const ir::DimFact& fact,
                  std::span<const int64_t> symbols) {
  int64_t a = 0, b = 0;
  TENON_RETURN_IF_ERROR(g.dims().evaluate(fact.a, symbols, &a));
  TENON_RETURN_IF_ERROR(g.dims().evaluate(fact.b, symbols, &b));
  if (ir::relation_holds(fact.rel, a, b)) return {};
  return error(TENON_INVALID_ARGUMENT, "T0607",
               "{} needs a relation between dims that {} and {} do not have", g.op_name(node), a,
               b);
}

// The symbols that a node is given: those of its operands and attributes, and of its results except
// those it defines itself.
std::vector<ir::Symbol> symbols_given(const ir::Graph& g, tenon_node_t node) {
  const ir::DimTable& dims = g.dims();
  std::vector<ir::Symbol> known;
  const auto add = [&](const tenon_type_t& type) {
    for (uint32_t d = 0; d < type.rank; ++d) dims.symbols_of(type.dims[d], &known);
  };
  for (ir::Value v : g.results(node)) add(g.type(v));
  const auto own = g.symbols(node);
  std::erase_if(known,
                [&](ir::Symbol s) { return std::find(own.begin(), own.end(), s) != own.end(); });
  for (ir::Value v : g.operands(node)) {
    if (v != ir::kNone) add(g.type(v));
  }
  for (const tenon_attr_t& a : g.attrs(node)) {
    for (uint64_t d = 0; a.kind == TENON_ATTR_DIMS && d < a.count; ++d)
      dims.symbols_of(a.u.dims[d], &known);
  }
  return known;
}

// Checks what inference assumed about the symbolic dims that this node is given. References index
// by these sizes and, unlike in a session, they have not been checked.
Status check_facts(const ir::Graph& g, tenon_node_t node, std::span<const int64_t> symbols) {
  const std::vector<ir::Symbol> known = symbols_given(g, node);
  for (ir::Symbol s : known) {
    const ir::SymbolData& data = g.dims().symbol(s);
    if (data.node == ir::kNone || s >= symbols.size()) continue;
    const int64_t value = symbols[s];
    if (value >= data.lo && value <= data.hi &&
        (data.multiple_of <= 1 || value % data.multiple_of == 0))
      continue;
    return error(TENON_INVALID_ARGUMENT, "T0608",
                 "{} is given a size that data decides, {}, and needs one of at least {}, at most "
                 "{}, a multiple of {}",
                 g.op_name(node), value, data.lo, data.hi, data.multiple_of);
  }
  if (g.facts().empty()) return {};
  thread_local CheckedFacts checked;
  checked.begin(g, symbols);
  if (checked.open.empty()) return {};
  const ir::DimTable& dims = g.dims();
  std::vector<ir::Symbol> used;
  const auto unknown = [&](ir::Symbol s) {
    return std::find(known.begin(), known.end(), s) == known.end();
  };
  size_t kept = 0;
  for (size_t i = 0; i < checked.open.size(); ++i) {
    const ir::DimFact& fact = g.facts()[checked.open[i]];
    used.clear();
    dims.symbols_of(fact.a, &used);
    dims.symbols_of(fact.b, &used);
    if (std::any_of(used.begin(), used.end(), unknown)) {
      checked.open[kept++] = checked.open[i];
    } else if (Status s = check_fact(g, node, fact, symbols); !s.ok()) {
      checked.graph = 0;
      return s;
    }
  }
  checked.open.resize(kept);
  return {};
}

tenon_code_t evaluate_into(tenon_graph_t* graph, tenon_node_t node, const int64_t* symbols,
                           uint32_t symbol_count, const tenon_array_t* inputs, uint32_t input_count,
                           tenon_array_t* outputs, uint32_t output_count) {
  ir::Graph& g = *ir::Graph::from(graph);
  if (!g.node_live(node))
    return to_abi(error(TENON_INVALID_ARGUMENT, "T0301", "there is no node {}", node));
  const size_t reads = op::values_read(g, node).size();
  if (input_count != reads || output_count != g.results(node).size()) {
    return to_abi(error(TENON_INVALID_ARGUMENT, "T0321",
                        "{} reads {} values and has {} results; {} and {} arrays are given",
                        g.op_name(node), reads, g.results(node).size(), input_count, output_count));
  }
  const Result<std::vector<tenon_array_t>> given_inputs =
      op::arrays_of(inputs, input_count, "the inputs");
  if (!given_inputs.ok()) return to_abi(given_inputs.status());
  if (const auto rooms = op::arrays_of(outputs, output_count, "the outputs"); !rooms.ok())
    return to_abi(rooms.status());
  if (Status s = check_facts(g, node, {symbols, symbol_count}); !s.ok())
    return to_abi(std::move(s).with_context(g.loc_text(g.node(node).loc)));
  Result<std::vector<op::HostArray>> made =
      op::evaluate(g, node, {symbols, symbol_count}, *given_inputs);
  if (!made.ok())
    return to_abi(std::move(made).status().with_context(g.loc_text(g.node(node).loc)));
  // On failure the caller's outputs are unchanged: they are filled only when all blocks exist.
  struct Given {
    std::vector<tenon_array_t> arrays;
    ~Given() {
      for (tenon_array_t& array : arrays) array_free(nullptr, &array);
    }
  } given{std::vector<tenon_array_t>(output_count)};
  for (uint32_t i = 0; i < output_count; ++i) {
    if (tenon_array_at(outputs, i)->data != nullptr) continue;
    if (Status s = give((*made)[i], &given.arrays[i]); !s.ok()) return to_abi(s);
  }
  for (uint32_t i = 0; i < output_count; ++i) {
    tenon_array_t* const output = tenon_array_in(outputs, i);
    if (output->data == nullptr) {
      op::give_array(std::exchange(given.arrays[i], {}), output);
    } else if ((*made)[i].size_bytes() != 0) {
      std::memcpy(output->data, (*made)[i].view().data, (*made)[i].size_bytes());
    }
  }
  return TENON_OK;
}

tenon_code_t evaluate(void*, tenon_graph_t* graph, tenon_node_t node, const int64_t* symbols,
                      uint32_t symbol_count, const tenon_array_t* inputs, uint32_t input_count,
                      tenon_array_t* outputs, uint32_t output_count) {
  clear_failure();
  return guarded([&] {
    return evaluate_into(graph, node, symbols, symbol_count, inputs, input_count, outputs,
                         output_count);
  });
}

tenon_code_t plugin_interface(void*, tenon_str_t kind, tenon_str_t name, tenon_str_t id,
                              const void** out) {
  clear_failure();
  return guarded([&]() -> Status {
    TENON_ASSIGN_OR_RETURN(*out, host::PluginHost::process().find_interface(
                                     from_abi_str(kind), from_abi_str(name), from_abi_str(id)));
    return {};
  });
}

tenon_code_t provided_each(void*, tenon_str_t kind, void* context,
                           void (*visit)(void*, tenon_str_t)) {
  clear_failure();
  return guarded([&]() -> Status {
    for (const std::string& name : provided_by_priority(from_abi_str(kind)))
      visit(context, to_abi_str(name));
    return {};
  });
}

uint64_t op_changes(void*) {
  return op::Registry::instance().changes();
}

}  // namespace

const tenon_host_registry_t* host_registry_table() {
  static const tenon_host_registry_t* table = [] {
    // Part of a table that is handed to every plugin, so it lives as long as the process.
    op::Registry::instance().set_loader(new OpLoader());
    return new tenon_host_registry_t{sizeof(tenon_host_registry_t),
                                     nullptr,
                                     op_find,
                                     op_each,
                                     node_attrs,
                                     evaluate,
                                     array_free,
                                     plugin_interface,
                                     op_changes,
                                     provided_each};
  }();
  return table;
}

}  // namespace tenon::session
