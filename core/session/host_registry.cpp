// tenon.host.registry/1: ops from core/op, other plugins' interfaces from core/host.
#include <algorithm>

#include "core/base/failure.h"
#include "core/base/intern.h"
#include "core/base/log.h"
#include "core/base/str.h"
#include "core/host/plugin_host.h"
#include "core/op/registry.h"
#include "core/session/session.h"

namespace tenon::session {
namespace {

// Ops of plugins that are not loaded yet.
class OpLoader final : public op::OpLoader {
 public:
  Status load(std::string_view name) override {
    Result<const host::Plugin*> plugin = host::PluginHost::process().load_provider("op", name);
    if (!plugin.ok()) {
      const bool nobody = plugin.status().error_code() == "P0901";
      return nobody ? Status(TENON_NOT_FOUND, "", "") : std::move(plugin).status();
    }
    return take(**plugin);
  }
  void names(std::vector<std::string>* out) override { *out = host::PluginHost::process().provided_names("op"); }
  void load_all() override {
    for (const host::Plugin* plugin : host::PluginHost::process().load_all("op")) (void)take(*plugin);
  }

 private:
  Status take(const host::Plugin& plugin) {
    std::lock_guard lock(mutex_);
    if (std::find(taken_.begin(), taken_.end(), &plugin) != taken_.end()) return {};
    taken_.push_back(&plugin);
    const auto* ops = plugin.table<tenon_ops_t>(TENON_OPS_ID);
    if (ops == nullptr) return error(TENON_NOT_FOUND, "P0904", "plugin {} has no {}", quoted(plugin.name()), TENON_OPS_ID);
    Status status = op::Registry::instance().register_ops(*ops, plugin.name());
    if (!status.ok()) log_warning("plugins", "some ops of plugin {} are left out: {}", quoted(plugin.name()), status.text());
    return {};
  }
  std::mutex mutex_;
  std::vector<const host::Plugin*> taken_;
};

tenon_code_t op_find(void*, tenon_sym_t name, uint32_t version, const tenon_op_def_t** out) {
  clear_failure();
  const tenon_op_def_t* def = op::Registry::instance().find(name, version);
  if (def == nullptr) return to_abi(op::Registry::instance().unknown(name, version));
  *out = def;
  return TENON_OK;
}

tenon_code_t op_each(void*, void* context, void (*visit)(void*, const tenon_op_def_t*, tenon_str_t)) {
  for (const op::OpRecord* record : op::Registry::instance().all_records()) {
    visit(context, &record->def, to_abi_str(record->provider));
  }
  return TENON_OK;
}

tenon_code_t node_attrs(void*, tenon_graph_t* graph, tenon_node_t node, tenon_attr_t* out) {
  clear_failure();
  const ir::Graph& g = *ir::Graph::from(graph);
  if (!g.node_live(node)) return to_abi(error(TENON_INVALID_ARGUMENT, "T0301", "there is no node {}", node));
  const tenon_op_def_t* def = op::Registry::instance().find(g.node(node).op, g.node(node).op_version);
  if (def == nullptr) return to_abi(op::Registry::instance().unknown(g.node(node).op, g.node(node).op_version));
  const std::vector<tenon_attr_t> attrs = op::declared_attrs(*def, g.attrs(node));
  std::copy(attrs.begin(), attrs.end(), out);
  return TENON_OK;
}

tenon_code_t evaluate(void*, tenon_graph_t*, tenon_node_t, const int64_t*, uint32_t, const tenon_array_t*, uint32_t,
                      tenon_array_t*, uint32_t) {
  return to_abi(error(TENON_UNIMPLEMENTED, "T0321", "core/op evaluates no nodes yet"));
}
void array_free(void*, tenon_array_t*) {}

tenon_code_t plugin_interface(void*, tenon_str_t kind, tenon_str_t name, tenon_str_t id, const void** out) {
  clear_failure();
  Result<const void*> table =
      host::PluginHost::process().find_interface(from_abi_str(kind), from_abi_str(name), from_abi_str(id));
  if (!table.ok()) return to_abi(table.status());
  *out = *table;
  return TENON_OK;
}

}  // namespace

const tenon_host_registry_t* host_registry_table() {
  static const tenon_host_registry_t* table = [] {
    // A table handed to every plugin: it lives as long as the process.
    op::Registry::instance().set_loader(new OpLoader());
    return new tenon_host_registry_t{sizeof(tenon_host_registry_t), nullptr, op_find, op_each, node_attrs, evaluate,
                                     array_free, plugin_interface};
  }();
  return table;
}

}  // namespace tenon::session
