// tenon plugins, explain and doctor: what the host knows, as JSON or laid out as text.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "sdk/tools/tenon/cli/options.h"
#include "sdk/tools/tenon/console/console.h"
#include "sdk/tools/tenon/host/host.h"

namespace tenon::tools {
namespace {

using Json = nlohmann::json;

// A field as text: strings bare, lists joined, the rest as JSON.
std::string field(const Json& row, const char* key) {
  if (!row.is_object() || !row.contains(key)) return "";
  const Json& value = row[key];
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.is_null() ? "" : value.dump();
  std::string text;
  for (const Json& item : value) {
    text += (text.empty() ? "" : ", ") + (item.is_string() ? item.get<std::string>() : item.dump());
  }
  return text;
}
Json rows_of(const Json& json, const char* key) {
  return json.is_object() && json.contains(key) && json[key].is_array() ? json[key] : Json::array();
}

int ask(const Host& host, const char* what, std::string_view filter, Json& json) {
  std::string text;
  if (int s = explain(host, what, filter, text)) return s;
  json = Json::parse(text, nullptr, false);
  if (json.is_discarded())
    return fail(kDevice, "T0003", fmt::format("the report on {} is not JSON.", what));
  return kOk;
}

// "devices cpu; ops add, sub and 90 more".
std::string provides_text(const Json& plugin) {
  if (!plugin.contains("provides") || !plugin["provides"].is_object())
    return field(plugin, "provides");
  std::string text;
  for (const auto& [kind, names] : plugin["provides"].items()) {
    if (!names.is_array() || names.empty()) continue;
    text += (text.empty() ? "" : "; ") + kind + " ";
    size_t shown = 0;
    for (const Json& name : names) {
      if (++shown > 4) continue;
      text += (shown > 1 ? ", " : "") +
              (name.is_string() ? name.get<std::string>() : name.value("name", name.dump()));
    }
    if (shown > 4) text += fmt::format(" and {} more", shown - 4);
  }
  return text;
}

// "P0402: it is disabled", from the gate that stopped a candidate.
std::string stopped_by(const Json& plugin) {
  for (const Json& gate : rows_of(plugin, "gates")) {
    if (field(gate, "outcome") != "failed") continue;
    const std::string code = field(gate, "code");
    return (code.empty() ? "" : code + ": ") + field(gate, "text");
  }
  return "";
}

void print_plugin_line(const Json& plugin) {
  const std::string reason = stopped_by(plugin);
  out("{:<14} {:<10} {:<9} {}\n", safe(field(plugin, "name")), safe(field(plugin, "version")),
      safe(field(plugin, "state")), safe(reason.empty() ? provides_text(plugin) : reason, 400));
}

// The layers that TENON_LAYERS names, in its order.
void print_layer(const Json& layer) {
  const std::string problem = field(layer, "problem");
  out("TENON_LAYERS   {}: {}\n", safe(field(layer, "text"), 400),
      problem.empty() ? "of the plugin " + safe(field(layer, "plugin")) : safe(problem, 400));
}

void print_plugin_gates(const Json& plugin) {
  out("{} {}: {}\n  manifest      {}\n  library       {}\n", safe(field(plugin, "name")),
      safe(field(plugin, "version")), safe(field(plugin, "state")),
      safe(field(plugin, "manifest"), 1024), safe(field(plugin, "library"), 1024));
  if (const std::string origin = field(plugin, "origin"); !origin.empty())
    out("  found by      {}\n", safe(origin));
  if (const std::string text = provides_text(plugin); !text.empty())
    out("  provides      {}\n", safe(text, 1024));
  for (const Json& gate : rows_of(plugin, "gates")) {
    const std::string code = field(gate, "code"), text = field(gate, "text");
    out("  {:<13} ", safe(field(gate, "gate")));
    if (text.empty()) out("{}\n", safe(field(gate, "outcome")));
    if (!text.empty())
      out("{:<12} {}{}\n", safe(field(gate, "outcome")), code.empty() ? "" : code + ": ",
          safe(text, 1024));
  }
  if (const std::string advice = field(plugin, "advice"); !advice.empty())
    out("  -> {}\n", safe(advice, 1024));
  if (const std::string package = field(plugin, "package"); !package.empty())
    out("  {} is in the package {}\n", safe(field(plugin, "missing_library")), safe(package));
  if (const std::string command = field(plugin, "command"); !command.empty())
    out("  $ {}\n", safe(command, 1024));
  if (const std::string keys = field(plugin, "unknown_keys"); !keys.empty())
    out("  unknown keys: {}\n", safe(keys));
  if (const std::string keys = field(plugin, "idle_keys"); !keys.empty())
    out("  not acted upon by this host: {}\n", safe(keys));
}

int no_such_plugin(const Host& host, const std::string& name) {
  Json all;
  if (int s = ask(host, "plugins", "", all)) return s;
  std::vector<std::string> names;
  for (const Json& plugin : rows_of(all, "plugins")) names.push_back(field(plugin, "name"));
  return fail(kUsage, "T0008",
              fmt::format("there is no plugin {}{}", in_quotes(name), did_you_mean(name, names)),
              "`tenon plugins list` shows them; TENON_PLUGIN_ADD adds a folder.");
}

// The plugins that the names match, each once. A name that matches nothing is an error, even if
// unusable plugins have that name.
int write_lock(const Host& host, const PluginsOptions& options) {
  Json lock = {{"schema", 1}, {"plugins", Json::array()}};
  const std::vector<std::string> everything = {""};
  for (const std::string& name : options.names.empty() ? everything : options.names) {
    Json part;
    if (int s = ask(host, "lock", name, part)) return s;
    const Json rows = rows_of(part, "plugins");
    if (rows.empty() && !name.empty()) {
      Json known;
      if (int s = ask(host, "plugins", name, known)) return s;
      const Json unusable = rows_of(known, "plugins");
      if (unusable.empty()) return no_such_plugin(host, name);
      return fail(
          kUsage, "T0008",
          fmt::format("the plugin {} is not usable: {}", in_quotes(name), stopped_by(unusable[0])),
          fmt::format("`tenon plugins explain {}` shows more.", name));
    }
    for (const Json& row : rows) {
      const auto same = [&](const Json& other) {
        return field(other, "name") == field(row, "name");
      };
      if (std::none_of(lock["plugins"].begin(), lock["plugins"].end(), same))
        lock["plugins"].push_back(row);
    }
  }
  const std::string text = lock.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (options.output.empty()) {
    write_out(text);
    return kOk;
  }
  if (int s = write_file(host, options.output, text)) return s;
  const size_t count = lock["plugins"].size();
  talk("tenon: {} plugin{}; under this lock there are no others\n", count, count == 1 ? "" : "s");
  return kOk;
}

// The settings in force; with `all` the others too, with their purpose.
void print_settings(const Json& settings, bool all) {
  out("\nsettings\n");
  size_t hidden = 0;
  for (const Json& setting : settings) {
    const std::string value = field(setting, "value");
    if (value.empty() && !all) {
      ++hidden;
    } else if (all) {
      out("  {:<26} {:<12} {}\n", safe(field(setting, "name")), value.empty() ? "-" : safe(value),
          safe(field(setting, "what"), 400));
    } else {
      out("  {:<26} {}\n", safe(field(setting, "name")), safe(value));
    }
  }
  if (hidden > 0) out("  {} others are at their defaults; --verbose shows them\n", hidden);
}

}  // namespace

int command_plugins(const PluginsOptions& options) {
  Host host;
  Json json;
  if (int s = host_open(host)) return s;
  if (options.lock) return write_lock(host, options);
  // Naming one plugin asks why it is not used, so it is loaded to find failures that only show
  // then. A glob opens nothing.
  const bool tries = options.explain && options.name.find_first_of("*?[") == std::string::npos &&
                     !options.name.empty();
  if (int s = ask(host, tries ? "plugin" : "plugins", options.name, json)) return s;
  const Json plugins = rows_of(json, "plugins");
  if (!options.name.empty() && plugins.empty()) {
    return no_such_plugin(host, options.name);
  }
  if (options.json) {
    write_out(json.dump(2) + "\n");
    return kOk;
  }
  for (const Json& plugin : plugins)
    options.explain ? print_plugin_gates(plugin) : print_plugin_line(plugin);
  for (const Json& layer : rows_of(json, "layers")) print_layer(layer);
  if (plugins.empty()) {
    talk(
        "no plugin was found; `tenon plugins explain` shows where it looked, TENON_PLUGIN_ADD adds "
        "a folder\n");
  }
  return kOk;
}

int command_explain(const ExplainOptions& options) {
  Host host;
  Json json;
  if (int s = host_open(host)) return s;
  if (int s = ask(host, "errors", "", json)) return s;
  std::vector<std::string> codes;
  Json found = Json::array();
  std::string wanted = options.code;
  for (char& c : wanted) c = static_cast<char>(toupper(static_cast<unsigned char>(c)));
  for (const Json& error : rows_of(json, "errors")) {
    codes.push_back(field(error, "id"));
    if (wanted.empty() || codes.back() == wanted) found.push_back(error);
  }
  if (found.empty()) {
    return fail(kUsage, "T0008",
                fmt::format("there is no error code {}{}", in_quotes(options.code),
                            did_you_mean(wanted, codes)),
                "`tenon explain` lists all codes.");
  }
  if (options.json) {
    write_out(Json({{"schema", 1}, {"errors", found}}).dump(2) + "\n");
    return kOk;
  }
  for (const Json& error : found) {
    out("{}: {}\n", field(error, "id"), field(error, "title"));
    if (wanted.empty()) continue;
    out("\n{}\n{}\n", field(error, "explanation"), field(error, "what_to_do"));
  }
  return kOk;
}

// ", uuid ..., number 1 of the vendor", as far as the device has them.
std::string identity_of(const Json& device) {
  std::string text;
  if (const std::string uuid = safe(field(device, "uuid")); !uuid.empty()) text += ", uuid " + uuid;
  if (device.contains("native_ordinal") && device["native_ordinal"].is_number_unsigned())
    text += fmt::format(", the vendor's number {}", device["native_ordinal"].get<uint64_t>());
  return text;
}

// ", takes sim.handle, sim.queue", the kinds of handles of other libraries, if there are any.
std::string exchange_of(const Json& device) {
  std::string kinds;
  for (const char* what : {"memory", "streams", "fences"}) {
    for (const Json& kind : device.value("exchange", Json::object()).value(what, Json::array()))
      if (kind.is_string()) kinds += (kinds.empty() ? "" : ", ") + safe(kind.get<std::string>());
  }
  return kinds.empty() ? "" : ", takes " + kinds;
}

int command_doctor(bool as_json, bool verbose) {
  Host host;
  Json devices, absent, plugins, settings;
  if (int s = host_open(host)) return s;
  if (int s = ask(host, "devices", "", devices)) return s;
  if (int s = ask(host, "absent", "", absent)) return s;
  if (int s = ask(host, "plugins", "", plugins)) return s;
  if (int s = ask(host, "settings", "", settings)) return s;
  const uint32_t threads = host.threads->count(host.threads->self);
  if (as_json) {
    write_out(Json({{"schema", 1},
                    {"threads", threads},
                    {"devices", rows_of(devices, "devices")},
                    {"absent", rows_of(absent, "absent")},
                    {"plugins", rows_of(plugins, "plugins")},
                    {"settings", rows_of(settings, "settings")}})
                  .dump(2) +
              "\n");
    return kOk;
  }
  out("threads   {} (TENON_NUM_THREADS, cgroup and affinity decide)\n\ndevices\n", threads);
  for (const Json& device : rows_of(devices, "devices")) {
    out("  {:<12} {} ({}){}{}\n", safe(field(device, "name")),
        safe(field(device, "description"), 400), safe(field(device, "target"), 200),
        identity_of(device), exchange_of(device));
  }
  for (const Json& device : rows_of(absent, "absent"))
    out("  {:<12} not here: {}\n", safe(field(device, "name")), safe(field(device, "why"), 600));
  out("\nplugins\n");
  for (const Json& plugin : rows_of(plugins, "plugins")) {
    write_out("  ");
    print_plugin_line(plugin);
  }
  print_settings(rows_of(settings, "settings"), verbose);
  size_t troubles = 0;
  for (const Json& plugin : rows_of(plugins, "plugins")) {
    const std::string advice = field(plugin, "advice");
    if (stopped_by(plugin).empty() || advice.empty()) continue;
    out("{}{}: {}\n", troubles++ == 0 ? "\nto fix\n  " : "  ", safe(field(plugin, "name")),
        safe(advice, 400));
  }
  return kOk;
}

}  // namespace tenon::tools
