#include "core/session/compile/plugins.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "core/base/errors/failure.h"
#include "core/base/file.h"
#include "core/base/process/log.h"
#include "core/base/str.h"
#include "core/dispatch/kernels/kernel_device.h"
#include "core/host/discovery/probe.h"
#include "core/host/discovery/remedy.h"
#include "core/host/plugin_host.h"
#include "core/op/registry.h"
#include "core/session/compile/pass_source.h"

namespace tenon::session {

using host::Candidate;
using host::PluginHost;

namespace {

bool provides(const Candidate& candidate, std::string_view kind, std::string_view name) {
  return std::any_of(
      candidate.manifest.provides.begin(), candidate.manifest.provides.end(),
      [&](const host::Provided& p) { return p.kind == kind && (name.empty() || p.name == name); });
}

int64_t priority_of(std::string_view plugin) {
  for (const Candidate* candidate : PluginHost::process().candidates()) {
    if (candidate->name() == plugin && host::is_usable(candidate->state))
      return candidate->manifest.priority;
  }
  return 0;
}

// What plugins provide of a kind, those of a higher priority first.
std::vector<DeviceKind> by_priority(std::string_view kind) {
  std::vector<DeviceKind> kinds;
  for (const host::Provider& provider : PluginHost::process().providers(kind)) {
    const bool known = std::any_of(kinds.begin(), kinds.end(),
                                   [&](const DeviceKind& k) { return k.name == provider.name; });
    if (known) continue;
    const int64_t priority = priority_of(provider.plugin);
    const auto after = std::find_if(kinds.begin(), kinds.end(),
                                    [&](const DeviceKind& k) { return k.priority < priority; });
    kinds.insert(after, {provider.name, priority});
  }
  return kinds;
}

// "cpu (P0401: disabled by ...)" for each unusable plugin that provides (kind, name).
std::vector<std::string> left_out(std::string_view kind, std::string_view name) {
  std::vector<std::string> lines;
  for (const Candidate* candidate : PluginHost::process().candidates()) {
    if (candidate->state != host::State::kOff && candidate->state != host::State::kFailed) continue;
    if (!provides(*candidate, kind, name)) continue;
    const std::string_view way_back =
        candidate->state == host::State::kOff ? " (take that back to get it)" : "";
    lines.push_back(
        fmt::format("plugin {}: {}{}", quoted(candidate->name()), candidate->reason(), way_back) +
        host::remedy_of(*candidate).suffix());
  }
  return lines;
}

std::string suffix(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "; " + line;
  return text;
}

// The last extension, with its dot, in lower case: ".onnx".
std::string extension_of(std::string_view path) {
  const std::string_view name = file_name_of(path);
  const size_t dot = name.rfind('.');
  std::string extension(dot == std::string_view::npos ? "" : name.substr(dot));
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return extension;
}

// The kernel sets that other plugins have for a device, in search order. An unusable set is left
// out with a warning.
std::vector<runtime::KernelSet> kernel_sets(std::string_view kind, std::string_view owner) {
  std::vector<runtime::KernelSet> sets;
  for (const host::Provider& provider : PluginHost::process().providers("kernels")) {
    if (provider.name != kind || provider.plugin == owner) continue;
    Result<const host::Plugin*> plugin = PluginHost::process().load(provider.plugin);
    if (!plugin.ok()) {
      log_warning("plugins", "kernels for device {} are left out: {}", kind,
                  plugin.status().text());
      continue;
    }
    const auto* kernels = (*plugin)->table<tenon_kernels_api_t>(TENON_KERNELS_ID);
    if (kernels == nullptr ||
        std::string_view(kernels->device_kind.data, kernels->device_kind.size) != kind)
      continue;
    sets.push_back({provider.plugin, nullptr, kernels, true, (*plugin)->registration, false,
                    (*plugin)->adopted.version});
  }
  return sets;
}

// Kernels claim by name. Those of a registered plugin fit the definitions of their time only.
dispatch::SuitsOp suits_op(uint64_t registration) {
  if (registration == 0) return {};
  return [registration](tenon_sym_t op, uint32_t version) {
    return op::Registry::instance().suits(op, version, registration);
  };
}

bool goes_to_queue(const tenon_kernels_api_t& kernels, const tenon_queue_api_t* queue) {
  return queue != nullptr && (kernels.flags & TENON_KERNELS_ON_QUEUE) != 0;
}

// Whether kernels that submit to a native stream get one from the device.
bool finds_its_stream(const runtime::KernelSet& set, const runtime::DeviceApis& apis) {
  const auto& kernels = *static_cast<const tenon_kernels_api_t*>(set.table);
  if (kernels.queue_kind.size == 0) return true;
  const tenon_exchange_api_t* exchange = apis.exchange;
  if (goes_to_queue(kernels, apis.queue) && exchange != nullptr &&
      exchange->export_queue != nullptr)
    return true;
  log_warning(
      "plugins",
      "kernels of plugin {} are left out: they submit to streams of the kind {}, and plugin "
      "{} exports none",
      quoted(set.plugin), quoted(from_abi_str(kernels.queue_kind)), quoted(apis.plugin));
  return false;
}

// Brings a device's list to what plugins have now.
void update_kernel_sets(std::string_view kind, const runtime::DeviceApis& apis) {
  std::vector<runtime::KernelSet> wanted = kernel_sets(kind, apis.plugin);
  const std::vector<runtime::KernelSet> known = apis.kernel_sets->all();
  const auto same = [](const runtime::KernelSet& a, const runtime::KernelSet& b) {
    return a.table == b.table && a.in_force && b.in_force;
  };
  const auto is_in = [&](const auto& sets, const runtime::KernelSet& set) {
    return std::any_of(sets.begin(), sets.end(), [&](const auto& s) { return same(s, set); });
  };
  for (size_t i = 0; i < known.size(); ++i) {
    if (known[i].in_force && !is_in(wanted, known[i])) apis.kernel_sets->withdraw(i);
  }
  for (runtime::KernelSet& set : wanted) {
    if (is_in(known, set) || !finds_its_stream(set, apis)) continue;
    const auto* kernels = static_cast<const tenon_kernels_api_t*>(set.table);
    set.on_queue = goes_to_queue(*kernels, apis.queue);
    set.compile = dispatch::compile_from_kernels(
        {apis.device, set.on_queue ? apis.queue : nullptr, kernels, set.plugin, set.version,
         suits_op(set.registration), apis.exchange, apis.compile != nullptr});
    apis.kernel_sets->add(std::move(set));
  }
}

// The devices that were asked for, by kind.
struct KnownDevices {
  std::mutex mutex;
  std::map<std::string, runtime::DeviceApis, std::less<>> apis;
};
KnownDevices& known_devices() {
  static auto* known = new KnownDevices;
  return *known;
}

// A suggestion, or nothing. A name that begins another one means it, as `ref` does. Of two short
// names that begin differently neither means the other: `gpu` is not `cpu`.
std::string suggestion(std::string_view kind, std::span<const std::string> kinds) {
  constexpr size_t kShort = 3;
  std::vector<std::string> likely;
  for (const std::string& known : kinds) {
    if (kind.size() >= kShort && known.starts_with(kind)) return did_you_mean(known, {&known, 1});
    if (kind.size() > kShort || known.substr(0, 1) == kind.substr(0, 1)) likely.push_back(known);
  }
  return did_you_mean(kind, likely);
}

// The sentence about a device that no usable manifest names: an unusable plugin that provides it, a
// plugin of that name, or none.
std::string why_no_device(std::string_view kind, std::span<const std::string> kinds) {
  if (const std::vector<std::string> out = left_out("device", kind); !out.empty()) {
    return fmt::format("device {} is not available{}", quoted(kind), suffix(out));
  }
  if (const std::string reasons = PluginHost::process().why_not("device", kind); !reasons.empty()) {
    return fmt::format("device {} is not available; {}", quoted(kind), reasons);
  }
  const std::vector<std::string> plugins = PluginHost::process().plugin_names();
  if (std::find(plugins.begin(), plugins.end(), kind) != plugins.end()) {
    return fmt::format(
        "there is no device {0}; the manifest of the plugin {0} names none of this kind",
        quoted(kind));
  }
  const std::string meant = suggestion(kind, kinds);
  return fmt::format(
      "there is no device {}{}", quoted(kind),
      meant.empty() ? "; TENON_PLUGIN_ADD=FOLDER adds the plugins of a folder" : meant);
}

class PassSource final : public pass::Source {
 public:
  Result<const tenon_passes_t*> table(std::string_view name) override {
    Result<const tenon_passes_t*> found =
        PluginHost::process().find<tenon_passes_t>("pass", name, TENON_PASS_ID);
    if (found.ok() || found.status().error_code() != "P0901") return found;
    // No plugin provides it: the pass registry's message is better, since it has a suggestion.
    return error(TENON_NOT_FOUND, "P0901", "{}", found.status().message());
  }
  std::vector<std::string> names() override { return PluginHost::process().provided_names("pass"); }
};

}  // namespace

pass::Source& pass_source() {
  static auto* source = new PassSource();
  return *source;
}

std::vector<DeviceKind> device_kinds() {
  return by_priority("device");
}

std::vector<std::string> provided_by_priority(std::string_view kind) {
  std::vector<std::string> names;
  for (DeviceKind& one : by_priority(kind)) names.push_back(std::move(one.name));
  return names;
}

Result<runtime::DeviceApis> device_apis(std::string_view kind) {
  KnownDevices& known = known_devices();
  std::lock_guard lock(known.mutex);
  if (auto it = known.apis.find(kind); it != known.apis.end()) return it->second;
  std::vector<std::string> kinds;
  for (DeviceKind& k : device_kinds()) kinds.push_back(std::move(k.name));
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    return error(TENON_NOT_FOUND, "T0502", "{} (devices: {})", why_no_device(kind, kinds),
                 kinds.empty() ? "none" : join_names(kinds));
  }
  Result<const host::Plugin*> plugin = PluginHost::process().load_provider("device", kind);
  if (!plugin.ok()) {
    const std::string reasons = PluginHost::process().why_not("device", kind);
    return error(TENON_UNAVAILABLE, "T0503", "device {} cannot be used: {}", quoted(kind),
                 reasons.empty() ? plugin.status().message() : reasons);
  }
  const host::Plugin& p = **plugin;
  runtime::DeviceApis apis;
  apis.plugin = p.name();
  apis.device = p.table<tenon_device_api_t>(TENON_DEVICE_ID);
  apis.compile = p.table<tenon_compile_api_t>(TENON_COMPILE_ID);
  apis.queue = p.table<tenon_queue_api_t>(TENON_QUEUE_ID);
  apis.exchange = p.table<tenon_exchange_api_t>(TENON_EXCHANGE_ID);
  if (apis.device == nullptr) {
    return error(TENON_UNAVAILABLE, "T0503", "plugin {} provides device {} and has no {}",
                 quoted(p.name()), quoted(kind), TENON_DEVICE_ID);
  }
  update_kernel_sets(kind, apis);
  if (apis.compile == nullptr) {
    const auto* kernels = p.table<tenon_kernels_api_t>(TENON_KERNELS_ID);
    if (kernels == nullptr) {
      return error(TENON_UNAVAILABLE, "T0503",
                   "plugin {} provides device {} with neither {} nor {}", quoted(p.name()),
                   quoted(kind), TENON_COMPILE_ID, TENON_KERNELS_ID);
    }
    if (apis.queue != nullptr && !goes_to_queue(*kernels, apis.queue)) {
      log_detail("plugins", "device {} has queues, and kernels that do not use them", kind);
      apis.queue = nullptr;
    }
    apis.compile = dispatch::compile_from_kernels({apis.device, apis.queue, kernels, p.name(),
                                                   p.adopted.version, suits_op(p.registration),
                                                   apis.exchange});
  }
  known.apis.emplace(kind, apis);
  return apis;
}

void update_kernel_sets() {
  KnownDevices& known = known_devices();
  std::lock_guard lock(known.mutex);
  for (const auto& [kind, apis] : known.apis) update_kernel_sets(kind, apis);
}

Result<PluginIdentity> plugin_identity(std::string_view name, bool digest) {
  for (const auto& candidate : PluginHost::process().candidates()) {
    if (candidate->name() != name || !host::is_usable(candidate->state)) continue;
    PluginIdentity out{candidate->name(), candidate->manifest.version, {}};
    if (digest && !candidate->library_path.empty()) {
      TENON_ASSIGN_OR_RETURN(out.sha256, host::file_digest(candidate->library_path));
    }
    return out;
  }
  return error(TENON_NOT_FOUND, "P0903", "there is no plugin {}", quoted(name));
}

std::string devices_left_out() {
  std::string text;
  for (const std::string& line : left_out("device", "")) text += "\n  " + line;
  return text;
}

Result<std::vector<Frontend>> frontends_for(std::string_view path) {
  PluginHost& plugins = PluginHost::process();
  const std::string extension = extension_of(path);
  std::vector<const host::Plugin*> loaded;
  for (const host::Provider& provider : plugins.providers("extension")) {
    if (provider.name != extension) continue;
    Result<const host::Plugin*> plugin = plugins.load(provider.plugin);
    if (plugin.ok() && std::find(loaded.begin(), loaded.end(), *plugin) == loaded.end())
      loaded.push_back(*plugin);
  }
  // A file whose extension belongs to a plugin is not offered to others: a clear refusal is better
  // than a lucky guess.
  const std::vector<std::string> out =
      left_out("extension", extension);  // including those that just failed
  if (loaded.empty() && out.empty()) loaded = plugins.load_all("frontend");
  std::vector<Frontend> frontends;
  for (const host::Plugin* plugin : loaded) {
    const auto* api = plugin->table<tenon_frontend_api_t>(TENON_FRONTEND_ID);
    if (api != nullptr) frontends.push_back({plugin->name(), api});
  }
  if (!frontends.empty()) return frontends;
  const std::vector<std::string> extensions = plugins.provided_names("extension");
  return error(TENON_NOT_FOUND, "T0790",
               "no frontend that is enabled reads {}{} (extensions: .tir{}{})", quoted(path),
               suffix(out), extensions.empty() ? "" : ", ", join_names(extensions));
}

}  // namespace tenon::session
