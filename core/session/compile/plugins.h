// What sessions need from the plugin host: devices and frontends by name. The only file of this
// room that uses core/host.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <tenon/abi/frontend.h>

#include "core/base/errors/status.h"
#include "core/runtime/device/device.h"

namespace tenon::session {

// When a device is used depends on the priority of its plugin's manifest: from 0 up, without being
// named; below 0, only if named; from kLastResort down, also if no other device takes a node.
inline constexpr int64_t kLastResort = -100;

struct DeviceKind {
  std::string name;
  int64_t priority = 0;
};
// Kinds of devices that enabled plugins provide, highest priority first, else in the host's order.
// Loads nothing.
std::vector<DeviceKind> device_kinds();
// Names of another kind ("collective") in the same order.
std::vector<std::string> provided_by_priority(std::string_view kind);

// The tables of a device kind; loads its plugin. NOT_FOUND T0502 with did-you-mean and the reasons
// of plugins that would provide it, UNAVAILABLE T0503 if its plugin cannot be used.
Result<runtime::DeviceApis> device_apis(std::string_view kind);

// Brings the kernel sets of devices that are in use to what plugins provide now. Threads: safe.
void update_kernel_sets();

// One line per unusable plugin that provides a device: "cpu: P0401: disabled by
// TENON_PLUGINS_DISABLE=cpu".
std::string devices_left_out();

struct PluginIdentity {
  std::string name, version;
  std::string sha256;  // of its library; empty: it has none, since the program registered it
};
// A plugin that was found; without its digest unless `digest`, which reads the whole library. P0903
// if there is none.
Result<PluginIdentity> plugin_identity(std::string_view name, bool digest);

struct Frontend {
  std::string name;
  const tenon_frontend_api_t* api = nullptr;
};

// The frontends to try for a file, loaded: those that list its extension or, if no plugin lists it,
// all. T0790 if there is none, with the frontends left out and why.
Result<std::vector<Frontend>> frontends_for(std::string_view path);

}  // namespace tenon::session
