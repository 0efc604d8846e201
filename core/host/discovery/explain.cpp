// The report on every plugin: which gates it passed, where it stopped and why, and what to do.
#include <nlohmann/json.hpp>

#include <algorithm>

#include "core/base/errors/error_codes.h"
#include "core/base/str.h"
#include "core/host/discovery/probe.h"
#include "core/host/discovery/remedy.h"
#include "core/host/host_interfaces.h"
#include "core/host/loading/layers.h"
#include "core/host/plugin_host.h"

namespace tenon::host {
namespace {

using Json = nlohmann::ordered_json;

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "passed";
    case Outcome::kFailed:
      return "failed";
    default:
      return "not reached";
  }
}

std::string advice_of(const Candidate& c) {
  const GateResult* stopped = c.stopped_by();
  const ErrorEntry* entry = stopped == nullptr ? nullptr : find_error_entry(stopped->code);
  return entry == nullptr ? std::string() : std::string(entry->what_to_do);
}

Json provides_of(const Candidate& c) {
  Json provides = Json::object();
  for (const Provided& p : c.manifest.provides) provides[p.kind].push_back(p.name);
  return provides;
}

// The gates as they are, but with the outcome of the requirements gate predicted. Required
// libraries are opened only with the plugin, and a report should say beforehand what will stop it.
std::array<GateResult, static_cast<size_t>(Gate::kCount)> foreseen_gates(const Candidate& c,
                                                                         const Remedy& remedy) {
  auto gates = c.gates;
  if (c.stopped_by() != nullptr || c.state == State::kLoaded || remedy.library.empty())
    return gates;
  GateResult& gate = gates[static_cast<size_t>(Gate::kRequirements)];
  gate = {Outcome::kFailed,
          "P0505",
          fmt::format("the library {} that it requires is not found", quoted(remedy.library)),
          {}};
  return gates;
}

Json to_json(const Candidate& c) {
  const Remedy remedy = remedy_of(c);
  const auto foreseen = foreseen_gates(c, remedy);
  Json gates = Json::array();
  for (size_t i = 0; i < static_cast<size_t>(Gate::kCount); ++i) {
    const GateResult& result = foreseen[i];
    Json gate = {{"gate", gate_name(static_cast<Gate>(i))},
                 {"outcome", outcome_name(result.outcome)}};
    if (!result.code.empty()) gate["code"] = result.code;
    if (!result.text.empty()) gate["text"] = result.text;
    gates.push_back(std::move(gate));
  }
  Json out = {{"name", c.name()},
              {"version", c.manifest.version},
              {"state", state_name(c.state)},
              {"manifest", c.manifest_path},
              {"library", c.library_path},
              {"origin", c.origin},
              {"summary", c.manifest.summary},
              {"provides", provides_of(c)},
              {"gates", std::move(gates)}};
  if (std::string advice = advice_of(c); !advice.empty()) out["advice"] = advice;
  if (!remedy.library.empty()) out["missing_library"] = remedy.library;
  if (!remedy.package.empty()) out["package"] = remedy.package;
  if (!remedy.command.empty()) out["command"] = remedy.command;
  if (!c.manifest.unknown_keys.empty()) out["unknown_keys"] = c.manifest.unknown_keys;
  if (!c.manifest.idle_keys.empty()) out["idle_keys"] = c.manifest.idle_keys;
  return out;
}

std::string one_line(const Candidate& c) {
  std::string line = fmt::format("{:<14} {:<9} {:<8} ", printable(c.name(), 64),
                                 state_name(c.state), printable(c.manifest.version, 32));
  std::string rest;
  if (c.stopped_by() != nullptr) {
    rest = c.reason();
  } else {
    Json provides = provides_of(c);
    for (const auto& [kind, names] : provides.items()) {
      if (!rest.empty()) rest += "; ";
      rest +=
          names.size() > 6 ? fmt::format("{} {}s", names.size(), kind) : fmt::format("{} ", kind);
      for (size_t i = 0; names.size() <= 6 && i < names.size(); ++i) {
        rest += (i == 0 ? "" : ", ") + printable(names[i].get<std::string>(), 64);
      }
    }
  }
  return line + rest + "\n";
}

std::string in_full(const Candidate& c) {
  const Remedy remedy = remedy_of(c);
  const auto gates = foreseen_gates(c, remedy);
  std::string out =
      fmt::format("{} {} ({})\n  manifest {}\n  library  {}\n  found by {}\n",
                  printable(c.name(), 64), printable(c.manifest.version, 32), state_name(c.state),
                  c.manifest_path.empty() ? "-" : printable(c.manifest_path, 1024),
                  c.library_path.empty() ? "-" : printable(c.library_path, 1024), c.origin);
  for (size_t i = 0; i < static_cast<size_t>(Gate::kCount); ++i) {
    const GateResult& result = gates[i];
    std::string text = result.code.empty() ? result.text : result.code + ": " + result.text;
    out += fmt::format("  {:<13} {:<12} {}\n", gate_name(static_cast<Gate>(i)),
                       outcome_name(result.outcome), text);
  }
  if (std::string advice = advice_of(c); !advice.empty()) out += "  -> " + advice + "\n";
  if (!remedy.package.empty())
    out += fmt::format("  {} is in the package {}\n", remedy.library, remedy.package);
  if (!remedy.command.empty())
    out += "  $ " + remedy.command + "\n";  // quoted for a shell, so safe for a terminal
  if (!c.manifest.unknown_keys.empty())
    out += "  unknown keys: " + join_names(c.manifest.unknown_keys) + "\n";
  if (!c.manifest.idle_keys.empty())
    out += "  not acted upon by this host: " + join_names(c.manifest.idle_keys) + "\n";
  return out;
}

}  // namespace

namespace {

// The layers that TENON_LAYERS names and the plugins that provide them. Loads nothing.
Json layers_of(const PluginHost& plugins) {
  Json out = Json::array();
  Result<std::vector<LayerChoice>> layers = parse_layers(setting("TENON_LAYERS"));
  if (!layers.ok()) {
    out.push_back({{"name", ""},
                   {"text", std::string(setting("TENON_LAYERS"))},
                   {"problem", layers.status().text()}});
    return out;
  }
  const std::vector<Provider> providers = plugins.providers("layer");
  const std::vector<std::string> names = plugins.provided_names("layer");
  for (const LayerChoice& choice : *layers) {
    Json layer = {{"name", choice.name}, {"text", choice.text()}};
    auto found = std::find_if(providers.begin(), providers.end(),
                              [&](const Provider& p) { return p.name == choice.name; });
    if (found != providers.end()) {
      layer["plugin"] = found->plugin;
    } else {
      layer["problem"] =
          fmt::format("P0901: no plugin provides the layer {}{}", quoted(choice.name),
                      did_you_mean(choice.name, std::span<const std::string>(names)));
    }
    out.push_back(std::move(layer));
  }
  return out;
}

}  // namespace

std::string PluginHost::explain_json(std::string_view filter) const {
  std::lock_guard lock(mutex_);
  Json plugins = Json::array();
  for (const auto& candidate : candidates_) {
    if (filter.empty() || glob_match(filter, candidate->name()))
      plugins.push_back(to_json(*candidate));
  }
  Json report = {{"schema", 1}, {"plugins", std::move(plugins)}, {"layers", layers_of(*this)}};
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string PluginHost::explain_text(std::string_view filter) const {
  std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& candidate : candidates_) {
    if (filter.empty()) out += one_line(*candidate);
    if (!filter.empty() && glob_match(filter, candidate->name())) out += in_full(*candidate);
  }
  for (const Json& layer : layers_of(*this)) {
    out += fmt::format("layer {}: {}\n", printable(layer.value("text", ""), 256),
                       layer.contains("problem") ? layer.value("problem", "")
                                                 : "of the plugin " + layer.value("plugin", ""));
  }
  return out;
}

Result<std::string> PluginHost::lock_json(std::string_view filter) const {
  std::lock_guard lock(mutex_);
  Json plugins = Json::array();
  for (const auto& candidate : candidates_) {
    const Candidate& c = *candidate;
    if (!is_usable(c.state) || c.manifest_path.empty()) continue;  // or registered by the program
    if (!filter.empty() && !glob_match(filter, c.name())) continue;
    TENON_ASSIGN_OR_RETURN(std::string digest, file_digest(c.library_path));
    TENON_ASSIGN_OR_RETURN(std::string manifest, file_digest(c.manifest_path));
    plugins.push_back({{"name", c.name()},
                       {"version", c.manifest.version},
                       {"sha256", std::move(digest)},
                       {"manifest_sha256", std::move(manifest)}});
  }
  Json file = {{"schema", 1}, {"plugins", std::move(plugins)}};
  return file.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tenon::host
