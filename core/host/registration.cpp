// Plugins that the program registers itself: the gates that they pass, and replacing them.
#include <algorithm>
#include <utility>

#include "core/base/process/log.h"
#include "core/base/str.h"
#include "core/host/discovery/requirements.h"
#include "core/host/discovery/selection.h"
#include "core/host/plugin_host.h"

namespace tenon::host {
namespace {

constexpr std::string_view kOrigin = "the program, which registered it";

// What may be open, or is part of what is open, when its plugin is to go.
constexpr std::string_view kLasting[] = {"device", "toolchain", "layer", "collective"};
// Several plugins may have kernels for one device, or read one extension.
constexpr std::string_view kShared[] = {"kernels", "extension"};

bool is_in(std::span<const std::string_view> kinds, std::string_view kind) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

bool has(std::span<const Provided> provides, std::string_view kind, std::string_view name) {
  return std::any_of(provides.begin(), provides.end(),
                     [&](const Provided& p) { return p.kind == kind && p.name == name; });
}

std::string named(std::string_view kind, std::string_view name) {
  return fmt::format("the {} {}", kind, quoted(name));
}

// P0809 unless the manifest provides exactly what the tables have.
Status check_provides(const Manifest& manifest, const AdoptedPlugin& plugin) {
  std::vector<Provided> offered;
  for (OfferedName& name : offered_names(plugin))
    offered.push_back({std::move(name.kind), std::move(name.name)});
  for (const Provided& p : manifest.provides) {
    if (has(offered, p.kind, p.name)) continue;
    return error(TENON_INVALID_ARGUMENT, "P0809",
                 "its manifest provides {}, which its tables do not have", named(p.kind, p.name));
  }
  for (const Provided& p : offered) {
    if (has(manifest.provides, p.kind, p.name)) continue;
    return error(TENON_INVALID_ARGUMENT, "P0809",
                 "its tables have {}, which its manifest does not provide", named(p.kind, p.name));
  }
  return Status();
}

// An op of a registered plugin needs a namespace: no later op of the standard set takes its name.
Status check_namespaces(const Manifest& manifest) {
  for (const Provided& p : manifest.provides) {
    const size_t dot = p.name.find('.');
    if (p.kind != "op" || (dot != std::string::npos && dot != 0 && dot + 1 != p.name.size()))
      continue;
    return error(TENON_INVALID_ARGUMENT, "T0320",
                 "op {}: the name of an op that a program registers has a namespace, as in {}",
                 quoted(p.name), quoted("demo." + p.name));
  }
  return Status();
}

// P0908 if this plugin is not one that can go.
Status check_can_go(const Candidate& c, std::string_view what) {
  for (const Provided& p : c.manifest.provides) {
    if (!is_in(kLasting, p.kind)) continue;
    return error(TENON_FAILED_PRECONDITION, "P0908",
                 "the plugin {} cannot be {}: it provides {}, which may be in use",
                 quoted(c.name()), what, named(p.kind, p.name));
  }
  return Status();
}

}  // namespace

Candidate* PluginHost::registered(std::string_view name) const {
  for (const auto& c : candidates_) {
    if (c->name() == name && c->plugin != nullptr && c->plugin->registration != 0) return c.get();
  }
  return nullptr;
}

Status PluginHost::check_selected(Candidate& c) const {
  TENON_RETURN_IF_ERROR(is_selected(read_selection(), c));
  TENON_RETURN_IF_ERROR(check_requirements(c.manifest));
  for (const std::string& name : c.manifest.required_plugins) {
    if (usable_candidate(name) == nullptr) {
      return error(TENON_UNAVAILABLE, "P0501", "it requires the plugin {}, which cannot be used",
                   quoted(name));
    }
  }
  return check_required_libraries(c.manifest.required_libraries);
}

// P0909 if its name, or one that it provides, is another plugin's.
Status PluginHost::check_taken(const Candidate& c) const {
  const Candidate* own = registered(c.name());
  for (const auto& other : candidates_) {
    if (other.get() == own) continue;
    if (other->name() == c.name()) {
      return error(TENON_ALREADY_EXISTS, "P0909", "there is a plugin {} already: {}",
                   quoted(c.name()), quoted(other->manifest_path));
    }
    if (!is_usable(other->state)) continue;
    for (const Provided& p : c.manifest.provides) {
      if (is_in(kShared, p.kind) || !has(other->manifest.provides, p.kind, p.name)) continue;
      return error(TENON_ALREADY_EXISTS, "P0909", "the plugin {} provides {} already",
                   quoted(other->name()), named(p.kind, p.name));
    }
  }
  return Status();
}

// The candidate with its tables, having passed all gates; it is in no list yet.
Result<std::unique_ptr<Candidate>> PluginHost::checked(const tenon_plugin_t* record,
                                                       std::string_view text) {
  if (record == nullptr)
    return error(TENON_INVALID_ARGUMENT, "P0802", "a plugin is registered without a record");
  auto made = std::make_unique<Candidate>();
  Candidate& c = *made;
  TENON_ASSIGN_OR_RETURN(c.manifest,
                         parse_manifest(text, "of a plugin to register", ManifestOf::kProgram));
  c.origin = kOrigin;
  c.named_explicitly = true;
  for (Gate gate : {Gate::kFound, Gate::kParsed, Gate::kSchema}) c.pass(gate);
  TENON_RETURN_IF_ERROR(check_platform(c.manifest));
  c.pass(Gate::kPlatform);
  TENON_RETURN_IF_ERROR(check_abi(c.manifest));
  c.pass(Gate::kAbi);
  TENON_RETURN_IF_ERROR(check_selected(c));
  for (Gate gate : {Gate::kDisabled, Gate::kRequirements}) c.pass(gate);
  for (Gate gate : {Gate::kProbe, Gate::kLoaded}) c.pass(gate, "part of the program");
  // On the heap from the beginning: layers and others borrow its texts.
  auto plugin = std::make_unique<Plugin>();
  TENON_ASSIGN_OR_RETURN(plugin->adopted, adopt_plugin(record, c.name()));
  TENON_RETURN_IF_ERROR(check_provides(c.manifest, plugin->adopted));
  TENON_RETURN_IF_ERROR(check_namespaces(c.manifest));
  TENON_RETURN_IF_ERROR(check_taken(c));
  c.pass(Gate::kInitialised);
  c.plugin = plugin.release();  // the caller keeps it or frees it
  return made;
}

Status PluginHost::add(const tenon_plugin_t* record, std::string_view manifest,
                       const std::function<Status(const Plugin&)>& commit) {
  TENON_RETURN_IF_ERROR(may_register());
  static std::atomic<uint64_t> registrations{0};
  std::lock_guard lock(mutex_);
  const InPlugin scope;  // devices are counted, layers attach
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<Candidate> made, checked(record, manifest));
  std::unique_ptr<Plugin> plugin(std::exchange(made->plugin, nullptr));
  plugin->registration = ++registrations;
  Candidate* before = registered(made->name());
  if (before != nullptr) TENON_RETURN_IF_ERROR(check_can_go(*before, "replaced"));
  candidates_.reserve(candidates_.size() + 1);
  retired_.reserve(retired_.size() + 1);
  // A layer that is attached may borrow from the plugin for ever, also if commit refuses it.
  keep_for_process(plugin.get());
  made->plugin = plugin.release();
  TENON_RETURN_IF_ERROR(add_layers(*made, &made->plugin->adopted));
  TENON_RETURN_IF_ERROR(commit(*made->plugin));
  made->pass(Gate::kSelected);
  made->state = State::kLoaded;
  log_info("plugins", "{} {} {}", before == nullptr ? "registered" : "replaced", made->name(),
           quoted(made->plugin->adopted.version));
  if (before != nullptr) retire(*before);
  candidates_.push_back(std::move(made));
  return Status();
}

Status PluginHost::remove(std::string_view name, const std::function<void(const Plugin&)>& commit) {
  TENON_RETURN_IF_ERROR(may_register());
  std::lock_guard lock(mutex_);
  Candidate* c = registered(name);
  if (c == nullptr) {
    return error(TENON_NOT_FOUND, "P0903", "no plugin {} is registered; there are {}", quoted(name),
                 join_names(plugin_names()));
  }
  TENON_RETURN_IF_ERROR(check_can_go(*c, "taken back"));
  retired_.reserve(retired_.size() + 1);
  commit(*c->plugin);
  retire(*c);
  return Status();
}

void PluginHost::retire(const Candidate& candidate) {
  const auto at = std::find_if(candidates_.begin(), candidates_.end(),
                               [&](const auto& c) { return c.get() == &candidate; });
  (*at)->state = State::kOff;
  retired_.push_back(std::move(*at));
  candidates_.erase(at);
}

}  // namespace tenon::host
