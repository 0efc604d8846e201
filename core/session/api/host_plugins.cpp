#include "core/session/api/host_plugins.h"

#include <mutex>

#include <tenon/abi/ops.h>
#include <tenon/abi/pass.h>

#include "core/base/errors/guard.h"
#include "core/base/str.h"
#include "core/host/plugin_host.h"
#include "core/op/registry.h"
#include "core/pass/registry.h"
#include "core/session/api/handles.h"
#include "core/session/compile/plugins.h"

namespace tenon::session {
namespace {

using host::Plugin;
using host::PluginHost;

// Registrations are rare and happen one after the other. Before the lock comes may_register, since
// a thread that loads a plugin holds the lock of the plugin host.
std::mutex g_mutex;

// What the host does not know about a plugin: whether its ops and passes are right.
Status take_over(const Plugin& plugin) {
  if (const auto* passes = plugin.table<tenon_passes_t>(TENON_PASS_ID))
    TENON_RETURN_IF_ERROR(pass::Registry::check(*passes));
  return op::Registry::instance().define(plugin.table<tenon_ops_t>(TENON_OPS_ID), plugin.name(),
                                         plugin.registration);
}

tenon_code_t plugin_register(void*, const tenon_plugin_t* plugin, tenon_str_t manifest) {
  return slot([&]() -> Status {
    TENON_REQUIRE(plugin, "plugin");
    TENON_REQUIRE(manifest.data, "manifest");
    TENON_RETURN_IF_ERROR(PluginHost::may_register());
    std::lock_guard lock(g_mutex);
    TENON_RETURN_IF_ERROR(PluginHost::process().add(plugin, from_abi_str(manifest), take_over),
                          "registering a plugin");
    update_kernel_sets();
    return {};
  });
}

tenon_code_t plugin_unregister(void*, tenon_str_t name) {
  return slot([&]() -> Status {
    TENON_RETURN_IF_ERROR(PluginHost::may_register());
    std::lock_guard lock(g_mutex);
    TENON_RETURN_IF_ERROR(
        PluginHost::process().remove(from_abi_str(name), [](const Plugin& plugin) {
          (void)op::Registry::instance().define(nullptr, plugin.name(), plugin.registration);
        }));
    update_kernel_sets();
    return {};
  });
}

}  // namespace

const tenon_host_plugins_t* host_plugins_table() {
  static const tenon_host_plugins_t table = {sizeof(tenon_host_plugins_t), nullptr, plugin_register,
                                             plugin_unregister};
  return &table;
}

}  // namespace tenon::session
