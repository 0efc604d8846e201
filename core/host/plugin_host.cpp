#include "core/host/plugin_host.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/errors/guard.h"
#include "core/base/limits.h"
#include "core/base/process/environment.h"
#include "core/base/process/log.h"
#include "core/base/process/settings.h"
#include "core/base/str.h"
#include "core/host/discovery/places.h"
#include "core/host/discovery/probe.h"
#include "core/host/discovery/remedy.h"
#include "core/host/discovery/requirements.h"
#include "core/host/discovery/selection.h"
#include "core/host/host_interfaces.h"
#include "core/host/loading/layers.h"
#include "core/host/loading/library.h"

namespace tenon::host {
namespace {

thread_local uint32_t t_in_plugin = 0;  // queries on this thread's stack

// The gate that a manifest's failure belongs to.
Gate gate_of(std::string_view error_code) {
  if (error_code == "P0201" || error_code == "P0202" || error_code == "P0203") return Gate::kParsed;
  return Gate::kSchema;
}

std::string stem_of(std::string_view path) {
  std::string_view name = file_name_of(path);
  if (size_t end = name.find(".plugin.json"); end != std::string_view::npos)
    name = name.substr(0, end);
  return printable(name, 128);
}

// Runs at most once.
Status shut_down(Candidate& candidate, std::recursive_mutex& mutex) {
  std::unique_lock lock(mutex);
  if (candidate.plugin == nullptr) return Status();
  tenon_plugin_t& record = candidate.plugin->adopted.record;
  auto call = std::exchange(record.shutdown, nullptr);
  lock.unlock();  // unlocked: a plugin may wait for a thread of its own that calls the host
  if (call == nullptr) return Status();
  Status status =
      from_abi(call(record.self), fmt::format("plugin {}: shutdown", quoted(candidate.name())));
  if (!status.ok()) log_warning("plugins", "{}", status.text());
  return status;
}

void report_failure(const Candidate& candidate) {
  const std::string reason = candidate.reason();
  const GateResult* stopped = candidate.stopped_by();
  const bool of_layers =
      stopped != nullptr && (stopped->code == "P0901" || stopped->code.starts_with("P10"));
  if (of_layers && !log_once(reason))
    return;  // an error in TENON_LAYERS stops every plugin, but is reported for the first only
  log_warning("plugins", "the plugin {} ({}) is skipped: {}", quoted(candidate.name()),
              quoted(candidate.manifest_path), reason);
}

Result<Manifest> read_manifest(const std::string& path, FileIdentity* out_seen) {
  Result<File> file = open_user_file(path);
  if (!file.ok()) return error(file.status().code(), "P0201", "{}", file.status().message());
  *out_seen = file->identity();
  Result<std::string> text = read_all(*file, limit(Limit::kManifestBytes), "a manifest");
  if (!text.ok()) return error(text.status().code(), "P0202", "{}", text.status().message());
  return parse_manifest(*text, path);
}

}  // namespace

InPlugin::InPlugin() {
  ++t_in_plugin;
}
InPlugin::~InPlugin() {
  --t_in_plugin;
}

Status PluginHost::may_register() {
  if (t_in_plugin == 0) return Status();
  return error(TENON_FAILED_PRECONDITION, "P0908",
               "plugins are registered by the program, and not while one is loaded");
}

const void* Plugin::interface(std::string_view id) const {
  for (const AdoptedInterface& offered : adopted.interfaces) {
    if (offered.id == id) return offered.table;
  }
  return nullptr;
}

PluginHost::PluginHost(Options options)
    : host_(options.host != nullptr ? options.host : host_table()) {
  scan(options);
}

namespace {
std::atomic<PluginHost*> g_process{nullptr};  // never freed

}  // namespace

Status PluginHost::check_settings(const Settings& settings) const {
  std::vector<std::string> names = environment_names();
  for (const VariableInfo& known : known_variables()) names.emplace_back(known.name);
  for (const auto& [name, value] : settings) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    return error(TENON_INVALID_ARGUMENT, "P0910",
                 "neither Tenon nor the manifest of a plugin knows the setting {}{}", quoted(name),
                 did_you_mean(name, std::span<const std::string>(names)));
  }
  return Status();
}

Status PluginHost::start(const Options& options) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (g_process.load(std::memory_order_acquire) != nullptr) return Status();
  auto made = std::make_unique<PluginHost>(options);
  TENON_RETURN_IF_ERROR(made->check_settings(current_settings()));
  if (options.strict) TENON_RETURN_IF_ERROR(made->strict_status());
  warn_unknown_variables(made->environment_names());
  warn_unknown_log_names(made->plugin_names());
  g_process.store(made.release(), std::memory_order_release);
  return Status();
}

PluginHost& PluginHost::process() {
  if (PluginHost* host = g_process.load(std::memory_order_acquire)) return *host;
  const Status started = start(Options{});
  TENON_CHECK(started.ok(), "{}", started.text());
  return *g_process.load(std::memory_order_acquire);
}

std::vector<const Candidate*> PluginHost::candidates() const {
  std::lock_guard lock(mutex_);
  std::vector<const Candidate*> all;
  for (const auto& candidate : candidates_) all.push_back(candidate.get());
  return all;
}

void PluginHost::scan(const Options& options) {
  std::vector<Place> places;
  if (options.only_paths) {
    for (const std::string& path : options.paths)
      places.push_back({path, "the program", true, false});
  } else {
    places = search_places(options.paths);
  }
  std::set<std::string> seen;  // a folder may be named twice
  for (const Place& place : places) {
    for (const FoundManifest& found : manifests_in(place)) {
      if (seen.insert(found.path).second) add_manifest(found);
    }
  }
  check_names();
  check_requirements_of_all();
  for (const auto& candidate : candidates_) {
    if (candidate->state == State::kFailed) report_failure(*candidate);
  }
}

void PluginHost::add_manifest(const FoundManifest& found) {
  Candidate& c = *candidates_.emplace_back(std::make_unique<Candidate>());
  c.manifest_path = found.path;
  c.origin = found.origin;
  c.named_explicitly = found.named_explicitly;
  c.in_prefix = found.in_prefix;
  c.manifest.name = stem_of(found.path);
  if (!found.status.ok()) return c.fail(Gate::kFound, found.status);
  c.pass(Gate::kFound, "named by " + found.origin);
  Result<Manifest> manifest = read_manifest(found.path, &c.manifest_identity);
  if (!manifest.ok()) {
    const Gate gate = gate_of(manifest.status().error_code());
    if (gate == Gate::kSchema) c.pass(Gate::kParsed);
    return c.fail(gate, manifest.status());
  }
  c.pass(Gate::kParsed);
  c.manifest = std::move(manifest).value();
  Result<std::string> library = library_path(found.path, c.manifest.library);
  if (!library.ok()) return c.fail(Gate::kSchema, library.status());
  c.library_path = std::move(library).value();
  c.pass(Gate::kSchema);
  if (Status status = check_platform(c.manifest); !status.ok())
    return c.fail(Gate::kPlatform, status);
  c.pass(Gate::kPlatform);
  if (Status status = check_abi(c.manifest); !status.ok()) return c.fail(Gate::kAbi, status);
  c.pass(Gate::kAbi,
         c.manifest.has_abi ? "" : "not stated; the library is asked when it is loaded");
}

void PluginHost::check_names() {
  Selection selection = read_selection();
  std::vector<std::string> names = plugin_names();
  warn_unmatched(selection, names);
  std::map<std::string, const Candidate*> taken;
  for (auto& candidate : candidates_) {
    Candidate& c = *candidate;
    if (c.state != State::kAvailable) continue;
    if (Status status = is_selected(selection, c); !status.ok()) {
      c.fail(Gate::kDisabled, status, State::kOff);
      taken.emplace(c.name(), &c);  // a disabled plugin is not replaced by a later one of its name
    } else if (const auto [first, is_new] = taken.emplace(c.name(), &c); !is_new) {
      const Candidate& other = *first->second;
      c.fail(Gate::kDisabled,
             error(TENON_ALREADY_EXISTS, "P0406",
                   "{}, found by {}, has the name {} too and comes first",
                   quoted(other.manifest_path), other.origin, quoted(c.name()))
                 .with("subject",
                       other.origin.starts_with("TENON_") ? other.origin : other.manifest_path),
             State::kOff);
    } else {
      c.pass(Gate::kDisabled);
      if (const LockedPlugin* locked = locked_as(selection, c)) {
        c.locked_sha256 = locked->sha256;
        c.locked_manifest_sha256 = locked->manifest_sha256;
      }
    }
  }
}

void PluginHost::check_requirements_of_all() {
  for (auto& candidate : candidates_) {
    Candidate& c = *candidate;
    if (c.state != State::kAvailable) continue;
    Status status = check_requirements(c.manifest);
    // A requirement that this machine does not meet is not worth a warning: the plugin is off.
    if (!status.ok()) {
      c.fail(Gate::kRequirements, status, State::kOff);
    } else {
      c.pass(Gate::kRequirements);
    }
  }
  for (auto& candidate : candidates_) {
    Candidate& c = *candidate;
    if (c.state != State::kAvailable) continue;
    for (const std::string& name : c.manifest.required_plugins) {
      if (usable_candidate(name) != nullptr) continue;
      c.fail(Gate::kRequirements,
             error(TENON_UNAVAILABLE, "P0501", "it requires the plugin {}, which cannot be used",
                   quoted(name)),
             State::kOff);
      break;
    }
  }
}

Candidate* PluginHost::usable_candidate(std::string_view plugin_name) const {
  for (const auto& candidate : candidates_) {
    if (candidate->name() == plugin_name && is_usable(candidate->state)) return candidate.get();
  }
  return nullptr;
}

std::vector<Provider> PluginHost::providers(std::string_view kind) const {
  std::lock_guard lock(mutex_);
  std::vector<Provider> out;
  for (const auto& candidate : candidates_) {
    if (!is_usable(candidate->state)) continue;
    for (const Provided& provided : candidate->manifest.provides) {
      if (kind.empty() || provided.kind == kind)
        out.push_back({provided.kind, provided.name, candidate->name()});
    }
  }
  return out;
}

std::vector<std::string> PluginHost::provided_names(std::string_view kind) const {
  std::set<std::string> names;
  for (Provider& provider : providers(kind)) names.insert(std::move(provider.name));
  return {names.begin(), names.end()};
}

Result<const Plugin*> PluginHost::load(std::string_view plugin_name) {
  std::lock_guard lock(mutex_);
  if (Candidate* usable = usable_candidate(plugin_name)) {
    TENON_RETURN_IF_ERROR(load_candidate(*usable), "loading the plugin {}", quoted(plugin_name));
    return static_cast<const Plugin*>(usable->plugin);
  }
  for (const auto& candidate : candidates_) {
    if (candidate->name() == plugin_name) {
      return error(TENON_UNAVAILABLE, "P0902", "the plugin {} cannot be used: {}",
                   quoted(plugin_name), candidate->reason());
    }
  }
  return error(TENON_NOT_FOUND, "P0903", "there is no plugin {}{}; there are {}",
               quoted(plugin_name),
               did_you_mean(plugin_name, std::span<const std::string>(plugin_names())),
               join_names(plugin_names()));
}

Result<const Plugin*> PluginHost::load_provider(std::string_view kind, std::string_view name) {
  std::lock_guard lock(mutex_);
  for (const auto& candidate : candidates_) {
    if (!is_usable(candidate->state)) continue;
    for (const Provided& provided : candidate->manifest.provides) {
      if (provided.kind != kind || provided.name != name) continue;
      Status status = load_candidate(*candidate);
      if (status.ok()) return static_cast<const Plugin*>(candidate->plugin);
      if (status.error_code() == "P0907") return status;
      break;  // the next provider may work
    }
  }
  return unusable(kind, name);
}

std::string PluginHost::why_not(std::string_view kind, std::string_view name) const {
  auto reason_of = [](const Candidate& c) {
    return fmt::format("plugin {}: {}", quoted(c.name()), c.reason() + remedy_of(c).suffix());
  };
  std::lock_guard lock(mutex_);
  std::string reasons;
  for (const auto& candidate : candidates_) {
    const std::vector<Provided>& provides = candidate->manifest.provides;
    const bool meant = std::any_of(provides.begin(), provides.end(), [&](const Provided& p) {
      return p.kind == kind && p.name == name;
    });
    if (meant && candidate->stopped_by() != nullptr)
      reasons += (reasons.empty() ? "" : "; ") + reason_of(*candidate);
  }
  if (!reasons.empty()) return reasons;
  // A manifest that could not be read does not say what it provides: its own name is the best hint.
  for (const auto& candidate : candidates_) {
    if (candidate->name() == name && candidate->state == State::kFailed)
      return reason_of(*candidate);
  }
  return reasons;
}

// Why no plugin provides (kind, name): which ones would and what stopped them, or what there is
// instead.
Status PluginHost::unusable(std::string_view kind, std::string_view name) const {
  if (const std::string reasons = why_not(kind, name); !reasons.empty()) {
    return error(TENON_UNAVAILABLE, "P0902", "the {} {} cannot be used: {}", kind, quoted(name),
                 reasons);
  }
  std::vector<std::string> names = provided_names(kind);
  std::string there_are = names.empty() ? fmt::format("no plugin provides any {}", kind)
                                        : fmt::format("there are {}", join_names(names));
  return error(TENON_NOT_FOUND, "P0901", "no plugin provides the {} {}{}; {}", kind, quoted(name),
               did_you_mean(name, std::span<const std::string>(names)), there_are);
}

Result<const void*> PluginHost::find_interface(std::string_view kind, std::string_view name,
                                               std::string_view interface_id) {
  TENON_ASSIGN_OR_RETURN(const Plugin* plugin, load_provider(kind, name));
  const void* table = plugin->interface(interface_id);
  if (table == nullptr) {
    return error(TENON_NOT_FOUND, "P0904", "the plugin {} of {} {} has no interface {}",
                 quoted(plugin->name()), kind, quoted(name), quoted(interface_id));
  }
  return table;
}

std::vector<const Plugin*> PluginHost::load_all(std::string_view kind) {
  std::lock_guard lock(mutex_);
  std::vector<const Plugin*> plugins;
  for (const auto& candidate : candidates_) {
    if (!is_usable(candidate->state)) continue;
    const std::vector<Provided>& provides = candidate->manifest.provides;
    bool wanted = candidate->state != State::kLoading &&  // its query is running
                  std::any_of(provides.begin(), provides.end(),
                              [&](const Provided& p) { return p.kind == kind; });
    if (wanted && load_candidate(*candidate).ok()) plugins.push_back(candidate->plugin);
  }
  return plugins;
}

// The circle of requests, from the first occurrence of `c`: "`a` asks for `b`, `b` asks for `a`".
std::string PluginHost::circle_of(const Candidate& c) const {
  std::string text;
  for (auto at = std::find(loading_.begin(), loading_.end(), &c); at != loading_.end(); ++at) {
    const Candidate& next = at + 1 == loading_.end() ? c : **(at + 1);
    text += fmt::format("{}{} asks for {}", text.empty() ? "" : ", ", quoted((*at)->name()),
                        quoted(next.name()));
  }
  return text;
}

// Neither an exception from a query nor a lack of memory may leave a plugin in the state kLoading.
Status PluginHost::opened(Candidate& c) {
  Status status;
  const tenon_code_t code = guarded([&]() -> tenon_code_t {
    status = open_candidate(c);
    return TENON_OK;
  });
  if (code == TENON_OK) return status;
  status = from_abi(code, "loading it");
  c.fail(Gate::kInitialised, status);
  return status;
}

// Runs under the lock. A query runs on the thread that holds it, so a plugin that is being loaded
// here is being requested by itself.
Status PluginHost::load_candidate(Candidate& c) {
  if (c.state == State::kLoaded) return Status();
  if (c.state == State::kLoading) {
    return error(TENON_FAILED_PRECONDITION, "P0907",
                 "the plugin {} is being loaded and is asked for meanwhile: {}", quoted(c.name()),
                 circle_of(c));
  }
  if (c.state != State::kAvailable) {
    return error(TENON_UNAVAILABLE, "P0902", "the plugin {} cannot be used: {}", quoted(c.name()),
                 c.reason());
  }
  c.state = State::kLoading;
  loading_.push_back(&c);
  Status status;
  {
    const InPlugin scope;
    status = opened(c);
  }
  loading_.pop_back();
  if (!status.ok()) {
    report_failure(c);
    return status;
  }
  c.state = State::kLoaded;
  c.pass(Gate::kSelected);
  log_info("plugins", "loaded {} {} from {}", c.name(), quoted(c.plugin->adopted.version),
           quoted(c.library_path));
  for (const std::string& id : c.plugin->adopted.unknown_interfaces) {
    log_info("plugins", "the plugin {} offers {}, which this host does not know", quoted(c.name()),
             quoted(id));
  }
  return Status();
}

// Checks digests and the probe for the library as `seen`.
Status PluginHost::check_files(Candidate& c, const FileIdentity& seen) {
  auto stop = [&](Gate gate, Status status) {
    c.fail(gate, status);
    return status;
  };
  struct Wanted {
    std::string_view what;
    const std::string& path;
    const FileIdentity& seen;
    const std::string& digest;
    std::string_view who;
  };
  // The manifest first: it decides what is opened, and from where.
  for (const Wanted& wanted :
       {Wanted{"manifest", c.manifest_path, c.manifest_identity, c.locked_manifest_sha256,
               "the lock file"},
        Wanted{"library", c.library_path, seen, c.manifest.sha256, "its manifest"},
        Wanted{"library", c.library_path, seen, c.locked_sha256, "the lock file"}}) {
    if (wanted.digest.empty()) continue;
    Status status = check_digest(wanted.what, wanted.path, wanted.seen, wanted.digest, wanted.who);
    if (!status.ok()) return stop(Gate::kProbe, std::move(status));
  }
  if (c.in_prefix || probe_mode() != ProbeMode::kChild) {
    c.pass(Gate::kProbe,
           c.in_prefix ? "part of the installation" : "not probed, because of TENON_PLUGIN_PROBE");
    return Status();
  }
  Status status = probe_library(c.library_path, seen, c.name(), c.manifest.required_libraries);
  if (status.ok()) {
    c.pass(Gate::kProbe, "answered in a helper process");
    return Status();
  }
  // A code that the helper got from the plugin belongs to the gate that queries it; a helper that
  // did not survive is the probe's own failure.
  std::string_view code = status.error_code();
  if (code == "P0505") return stop(Gate::kRequirements, std::move(status));
  if (const std::string library = missing_library(c.manifest);
      !code.starts_with("P06") && !library.empty()) {
    // Without what it requires it cannot be opened, or refuses; that is the more helpful reason.
    return stop(Gate::kRequirements, error(TENON_UNAVAILABLE, "P0505",
                                           "the library {} that it requires cannot be opened: {}",
                                           quoted(library), status.message()));
  }
  Gate gate = code.starts_with("P07")   ? Gate::kLoaded
              : code.starts_with("P06") ? Gate::kProbe
                                        : Gate::kInitialised;
  if (gate != Gate::kProbe) c.pass(Gate::kProbe);
  if (gate == Gate::kInitialised) c.pass(Gate::kLoaded);
  return stop(gate, std::move(status));
}

// The library, opened as the file that was checked. If another file replaced it during the check,
// that one is checked in turn. One that arrives between the last check and the system's loader is
// refused, though its constructors have run.
Result<tenon_plugin_query_t> PluginHost::open_checked(Candidate& c) {
  constexpr int kAttempts = 3;
  auto stop = [&](Gate gate, Status status) {
    c.fail(gate, status);
    return status;
  };
  auto changed = [&] {
    return error(TENON_FAILED_PRECONDITION, "P0605", "the library {} changes while it is loaded",
                 quoted(c.library_path));
  };
  Result<FileIdentity> seen = identify(c.library_path);
  for (int attempt = 1;; ++attempt) {
    if (!seen.ok())
      return stop(Gate::kProbe, error(TENON_NOT_FOUND, "P0208", "{}", seen.status().message()));
    Status status = check_files(c, *seen);
    // Opening a library runs its code in this process, so first make sure that the plugin requiring
    // it is the one that was meant.
    if (status.ok()) {
      status = check_required_libraries(c.manifest.required_libraries);
      if (!status.ok()) return stop(Gate::kRequirements, std::move(status));
      c.pass(Gate::kRequirements);
    }
    Result<FileIdentity> now = identify(c.library_path);
    const bool same = now.ok() && *now == *seen;
    if (same && !status.ok()) return status;
    if (same) break;
    if (attempt == kAttempts) return stop(Gate::kProbe, changed());
    seen = std::move(now);
  }
  Result<tenon_plugin_query_t> query = open_library(c.library_path);
  if (!query.ok()) return stop(Gate::kLoaded, query.status());
  const Result<FileIdentity> opened = identify(c.library_path);
  if (!opened.ok() || *opened != *seen) return stop(Gate::kLoaded, changed());
  c.state = State::kLoading;  // an earlier round of the check may have marked it failed
  return query;
}

Status PluginHost::open_candidate(Candidate& c) {
  auto stop = [&](Gate gate, Status status) {
    c.fail(gate, status);
    return status;
  };
  TENON_ASSIGN_OR_RETURN(const tenon_plugin_query_t query, open_checked(c));
  c.pass(Gate::kLoaded);
  Result<const tenon_plugin_t*> record = ask_plugin(query, host_, c.name());
  if (!record.ok()) return stop(Gate::kInitialised, record.status());
  Result<AdoptedPlugin> adopted = adopt_plugin(*record, c.name());
  if (!adopted.ok()) return stop(Gate::kInitialised, adopted.status());
  c.plugin = new Plugin{std::move(adopted).value()};  // its tables live as long as the process
  keep_for_process(c.plugin);
  c.pass(Gate::kInitialised);
  if (Status status = add_layers(c, &c.plugin->adopted); !status.ok())
    return stop(Gate::kInitialised, std::move(status));
  return Status();
}

// A plugin that provides a layer has no layers before it.
Status PluginHost::add_layers(Candidate& c, AdoptedPlugin* plugin) {
  const std::string_view wanted = setting("TENON_LAYERS");
  if (wanted.empty() || !has_layered_interfaces(*plugin)) return Status();
  for (const Provided& provided : c.manifest.provides) {
    if (provided.kind == "layer") return Status();
  }
  TENON_ASSIGN_OR_RETURN(const std::vector<LayerChoice> layers, parse_layers(wanted));
  std::string names;
  for (size_t i = layers.size(); i-- > 0;) {
    TENON_ASSIGN_OR_RETURN(
        const auto* layer, find<tenon_layer_api_t>("layer", layers[i].name, TENON_LAYER_ID),
        "putting the layer {} in front of it, as TENON_LAYERS says", quoted(layers[i].name));
    TENON_RETURN_IF_ERROR(apply_layer(*layer, layers[i], static_cast<uint32_t>(i), plugin));
    names = layers[i].text() + (names.empty() ? "" : ", ") + names;
  }
  if (!names.empty()) c.pass(Gate::kInitialised, "behind the layers " + names);
  return Status();
}

Status PluginHost::strict_status() const {
  if (!env_flag("TENON_PLUGIN_STRICT", false)) return Status();
  std::lock_guard lock(mutex_);
  for (const auto& candidate : candidates_) {
    if (candidate->state == State::kFailed) {
      return error(TENON_FAILED_PRECONDITION, "P0905",
                   "the plugin {} failed, and TENON_PLUGIN_STRICT is set: {}",
                   quoted(candidate->name()), candidate->reason());
    }
  }
  return Status();
}

std::vector<std::string> PluginHost::plugin_names() const {
  std::lock_guard lock(mutex_);
  std::set<std::string> names;
  for (const auto& candidate : candidates_) names.insert(candidate->name());
  return {names.begin(), names.end()};
}

std::vector<std::string> PluginHost::environment_names() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& candidate : candidates_) {
    const std::vector<std::string>& own = candidate->manifest.environment;
    names.insert(names.end(), own.begin(), own.end());
  }
  return names;
}

Status PluginHost::shutdown() {
  std::vector<Candidate*> order;
  {
    std::lock_guard lock(mutex_);
    // Layers may still use the tables below; their order is that of TENON_LAYERS.
    if (Result<std::vector<LayerChoice>> layers = parse_layers(setting("TENON_LAYERS"));
        layers.ok()) {
      for (const LayerChoice& choice : *layers) {
        for (const auto& candidate : candidates_) {
          const auto* layer = candidate->plugin == nullptr
                                  ? nullptr
                                  : candidate->plugin->table<tenon_layer_api_t>(TENON_LAYER_ID);
          if (layer != nullptr && from_abi_str(layer->name) == choice.name)
            order.push_back(candidate.get());
        }
      }
    }
    for (const auto& candidate : candidates_) order.push_back(candidate.get());
    for (const auto& candidate : retired_) order.push_back(candidate.get());
  }
  Status first;
  for (Candidate* candidate : order) {
    Status status = shut_down(*candidate, mutex_);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

}  // namespace tenon::host
