// Slots of the host that are Python functions: ops, passes and importers, each registered as a
// plugin of its own while the program runs.
#ifndef FRONTENDS_PYTHON_NATIVE_OPS_PYTHON_SLOTS_H_
#define FRONTENDS_PYTHON_NATIVE_OPS_PYTHON_SLOTS_H_

#include <nanobind/nanobind.h>

#include <functional>
#include <string>

#include "frontends/python/native/host/host.h"
#include "tenon/abi/plugins.h"
#include "tenon/cpp/text.hpp"

namespace tenon::python {

// Runs work that needs Python on any thread of the host. Exceptions become failures of the host,
// which name `name`.
tenon_code_t in_python(const std::string& name, const std::function<void()>& work);

// Registers a plugin. If it calls Python, every slot of graphs gives the GIL back from then on. The
// record lives as long as the process once this returns. Raises.
void register_plugin(const tenon_plugin_t& plugin, const std::string& manifest,
                     bool calls_python = true);

// The record and the manifest of a plugin that offers one thing by one table. `provides`: the
// thing, as in a manifest.
template <class Made>
void describe_plugin(Made& made, const char* interface, const void* table, const char* what,
                     const std::string& provides) {
  made.interface = {text(interface), 0, 0, table};
  made.plugin_name = "python." + made.name;
  made.manifest = "{\"schema\": 1, \"name\": " + tenon::text::json_quoted(made.plugin_name) +
                  ", \"version\": \"1.0.0\", \"provides\": {\"" + what + "\": [" + provides + "]}}";
  made.plugin.size_bytes = sizeof made.plugin;
  made.plugin.abi = TENON_TARGET_ABI;
  made.plugin.name = text(made.plugin_name);
  made.plugin.version = text("1.0.0");
  made.plugin.interfaces = &made.interface;
  made.plugin.interface_count = 1;
  made.plugin.interface_bytes = sizeof(tenon_interface_t);
}

}  // namespace tenon::python

#endif
