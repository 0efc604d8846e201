// tenon_host_session_t::explain: everything the host knows, as JSON.
#include "core/session/report/explain.h"

#include <cctype>

#include <tenon/cpp/record.hpp>
#include "core/base/errors/error_codes.h"
#include "core/base/limits.h"
#include "core/base/process/environment.h"
#include "core/base/str.h"
#include "core/dispatch/placement/properties.h"
#include "core/host/host_interfaces.h"
#include "core/host/plugin_host.h"
#include "core/op/registry.h"

#include "core/base/errors/failure.h"
#include "core/session/compile/devices.h"
#include "core/session/compile/pipeline.h"
#include "core/session/compile/plugins.h"

namespace tenon::session {
namespace {

bool wanted(std::string_view filter, std::string_view name) {
  return filter.empty() || glob_match(filter, name);
}

std::string document(std::string_view key, const std::string& rows) {
  return fmt::format("{{\"schema\":1,\"{}\":[{}]}}\n", key, rows);
}

void add_row(std::string* rows, const std::string& row) {
  *rows += (rows->empty() ? "" : ",\n") + row;
}

std::string names_json(const std::vector<std::string>& names) {
  return json_list(names, [](const std::string& name) { return json_quoted(name); });
}

// What it exchanges with other libraries.
std::string exchange_json(const runtime::Device& device) {
  const runtime::Device::ExchangeKinds kinds = device.exchange_kinds();
  return fmt::format("{{\"memory\":{},\"streams\":{},\"fences\":{}}}", names_json(kinds.memory),
                     names_json(kinds.streams), names_json(kinds.fences));
}

std::string devices_json(std::string_view filter) {
  std::string rows;
  for (const auto& device : all_devices()) {
    if (!wanted(filter, device->name())) continue;
    const tenon_device_info_t& info = device->info();
    const uint32_t properties = dispatch::compile_properties(*device);
    const std::string native_ordinal =
        (info.flags & TENON_DEVICE_NUMBERED) != 0 ? fmt::format("{}", info.native_ordinal) : "null";
    add_row(&rows,
            fmt::format("{{\"name\":{},\"plugin\":{},\"description\":{},\"target\":{},"
                        "\"uuid\":{},\"native_ordinal\":{},"
                        "\"memory_bytes\":{},\"alignment_bytes\":{},"
                        "\"host_visible\":{},\"queue\":{},\"same_bits\":{},\"one_long_call\":{},"
                        "\"static\":{},\"exchange\":{}}}",
                        json_quoted(device->name()), json_quoted(device->apis().plugin),
                        json_quoted({info.description.data, info.description.size}),
                        json_quoted({info.target.data, info.target.size}),
                        json_quoted({info.uuid.data, info.uuid.size}), native_ordinal,
                        info.memory_bytes, info.alignment_bytes, device->host_visible(),
                        device->has_queue(), (properties & TENON_COMPILE_SAME_BITS) != 0,
                        (properties & TENON_COMPILE_ONE_LONG_CALL) != 0,
                        (properties & TENON_COMPILE_STATIC) != 0, exchange_json(*device)));
  }
  return document("devices", rows);
}

std::string absent_json(std::string_view filter) {
  std::string rows;
  for (const AbsentDevice& device : absent_devices()) {
    if (!wanted(filter, device.kind)) continue;
    add_row(&rows, fmt::format("{{\"name\":{},\"why\":{}}}", json_quoted(device.kind),
                               json_quoted(device.why)));
  }
  return document("absent", rows);
}

std::string ops_json(std::string_view filter) {
  std::string rows;
  for (const op::OpRecord* record : op::Registry::instance().all_records()) {
    const std::string_view name(record->def.name.data, record->def.name.size);
    if (!wanted(filter, name)) continue;
    add_row(&rows,
            fmt::format("{{\"name\":{},\"version\":{},\"plugin\":{},\"summary\":{}}}",
                        json_quoted(name), record->def.version, json_quoted(record->provider),
                        json_quoted({record->def.summary.data, record->def.summary.size})));
  }
  return document("ops", rows);
}

std::string frontends_json(std::string_view filter) {
  std::string rows;
  for (const host::Provider& provider : host::PluginHost::process().providers("frontend")) {
    if (!wanted(filter, provider.name)) continue;
    std::string extensions;
    for (const host::Provider& e : host::PluginHost::process().providers("extension")) {
      if (e.plugin == provider.plugin)
        extensions += (extensions.empty() ? "" : ",") + json_quoted(e.name);
    }
    add_row(&rows,
            fmt::format("{{\"name\":{},\"plugin\":{},\"extensions\":[{}]}}",
                        json_quoted(provider.name), json_quoted(provider.plugin), extensions));
  }
  return document("frontends", rows);
}

std::string settings_json(std::string_view filter) {
  std::string rows;
  for (const VariableInfo& variable : known_variables()) {
    if (!wanted(filter, variable.name)) continue;
    add_row(&rows,
            fmt::format("{{\"name\":{},\"value\":{},\"what\":{}}}", json_quoted(variable.name),
                        json_quoted(host::setting(variable.name)), json_quoted(variable.what)));
  }
  return document("settings", rows);
}

std::string errors_json(std::string_view filter) {
  std::string rows;
  for (const ErrorEntry& entry : error_entries()) {
    if (!wanted(filter, entry.id)) continue;
    add_row(&rows, fmt::format("{{\"id\":{},\"title\":{},\"explanation\":{},\"what_to_do\":{}}}",
                               json_quoted(entry.id), json_quoted(entry.title),
                               json_quoted(entry.explanation), json_quoted(entry.what_to_do)));
  }
  return document("errors", rows);
}

}  // namespace

Result<std::string> explain(std::string_view what, std::string_view filter) {
  if (what == "plugins") return host::PluginHost::process().explain_json(filter);
  if (what == "plugin") {
    (void)host::PluginHost::process().load(filter);  // its gates report a failure
    return host::PluginHost::process().explain_json(filter);
  }
  if (what == "lock") return host::PluginHost::process().lock_json(filter);
  if (what == "passes") return pass_registry().json(filter);
  if (what == "devices") return devices_json(filter);
  if (what == "absent") return absent_json(filter);
  if (what == "ops") return ops_json(filter);
  if (what == "frontends") return frontends_json(filter);
  if (what == "settings") return settings_json(filter);
  if (what == "errors") return errors_json(filter);
  static const std::vector<std::string> kKnown = {"plugins",  "plugin", "lock",   "devices",
                                                  "absent",   "ops",    "passes", "frontends",
                                                  "settings", "errors"};
  return error(TENON_NOT_FOUND, "T0615", "there is nothing to explain about {}{} (known: {})",
               quoted(what), did_you_mean(what, kKnown), join_names(kKnown));
}

}  // namespace tenon::session
