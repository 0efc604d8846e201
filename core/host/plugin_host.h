// The plugins of a process: found by their manifests, loaded when something they provide is first
// used, and explained.
//
// Reading manifests opens no library. A plugin that fails is recorded with the gate that stopped
// it; it never stops the others.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/errors/status.h"
#include "core/base/process/settings.h"
#include "core/host/discovery/candidate.h"
#include "core/host/loading/tables.h"

namespace tenon::host {

// A loaded plugin. Never unloaded, never freed.
struct Plugin {
  AdoptedPlugin adopted;
  uint64_t registration = 0;  // numbered from 1 in this process; 0: of a file
  const std::string& name() const { return adopted.name; }
  // The full-size table, or null. A vendor's own interface is returned as the plugin made it.
  const void* interface(std::string_view id) const;
  template <typename Table>
  const Table* table(std::string_view id) const {
    return static_cast<const Table*>(interface(id));
  }
};

// While one exists, its thread runs a plugin's query, or what makes a plugin's tables.
struct InPlugin {
  InPlugin();
  ~InPlugin();
  InPlugin(const InPlugin&) = delete;
  InPlugin& operator=(const InPlugin&) = delete;
};

// Something that a usable manifest provides.
struct Provider {
  std::string kind, name, plugin;
};

class PluginHost {
 public:
  struct Options {
    std::vector<std::string> paths;      // manifests or folders, searched first
    const tenon_host_t* host = nullptr;  // null: host_table()
    bool only_paths = false;             // nothing but `paths` is searched
    bool strict = false;                 // start: strict_status() refuses the host
  };
  // Scans the search path.
  explicit PluginHost(Options options);
  PluginHost(const PluginHost&) = delete;
  PluginHost& operator=(const PluginHost&) = delete;

  // The host of the process, scanned on first use. Threads: safe.
  static PluginHost& process();
  // Makes the host of the process with these options, if there is none yet. P0910 if the program
  // set a variable that neither core nor any manifest lists, P0905 by Options::strict: then there
  // is still none. Threads: safe.
  static Status start(const Options& options);
  // P0910 for a setting that neither core nor any manifest lists.
  Status check_settings(const Settings& settings) const;

  // Every manifest that was found, in search order, then registered plugins. Candidates are never
  // freed; gates and states change (explain_json takes the lock and gives a consistent picture).
  std::vector<const Candidate*> candidates() const;

  // Registers a plugin of the program itself, which passes the same gates as one of a file and
  // replaces an earlier registration of its name (docs/adr/0031-plugins-at-run-time.md). `commit`
  // gets the plugin when all else is right and may still refuse it; nothing is left then. It runs
  // under the host's lock. Failures: see tenon.host.plugins/1. Threads: safe.
  Status add(const tenon_plugin_t* record, std::string_view manifest,
             const std::function<Status(const Plugin&)>& commit);
  // Takes a registered plugin back. `commit` gets it before it is out of the list.
  Status remove(std::string_view name, const std::function<void(const Plugin&)>& commit);
  // P0908 if the calling thread runs a query, or what makes a plugin's tables: no plugin can be
  // registered there.
  static Status may_register();

  // What the usable manifests provide, in search order; kind as in manifest.h, empty for all. A
  // plugin that failed to load provides nothing any more.
  std::vector<Provider> providers(std::string_view kind = {}) const;
  // The names of one kind, sorted, each once.
  std::vector<std::string> provided_names(std::string_view kind) const;

  // Loads a plugin by name, or returns the loaded one. P0903 no such plugin; P0902 with the reason
  // if it cannot be used; P0907 if its own query is running and led to this call, directly or
  // through other plugins. Threads: safe; queries never run concurrently.
  Result<const Plugin*> load(std::string_view plugin_name);

  // Loads the plugin that provides (kind, name): the first in search order that can be loaded.
  // P0901 if no plugin provides it, with did-you-mean and what to do; P0902 with the plugins that
  // would provide it and why they cannot.
  Result<const Plugin*> load_provider(std::string_view kind, std::string_view name);

  // "plugin `acme`: P0702: ...; run `...`" for each plugin that would provide (kind, name) but
  // cannot be used, or that has this name and an unreadable manifest. Empty if there is none.
  std::string why_not(std::string_view kind, std::string_view name) const;

  // The table `interface_id` of the plugin that provides (kind, name). P0904 if that plugin lacks
  // the interface.
  Result<const void*> find_interface(std::string_view kind, std::string_view name,
                                     std::string_view interface_id);
  template <typename Table>
  Result<const Table*> find(std::string_view kind, std::string_view name,
                            std::string_view interface_id) {
    TENON_ASSIGN_OR_RETURN(const void* table, find_interface(kind, name, interface_id));
    return static_cast<const Table*>(table);
  }

  // Loads every usable plugin that provides something of this kind; failures are recorded and
  // logged. For registries that need all ops or all passes.
  std::vector<const Plugin*> load_all(std::string_view kind);

  // With TENON_PLUGIN_STRICT=1: the first failure of any plugin so far (P0905), else OK.
  Status strict_status() const;

  // {"schema":1,"plugins":[{"name","version","state","manifest","library","origin","provides":{kind:[names]},
  //  "gates":[{"gate","outcome","code","text"}],"advice","unknown_keys","idle_keys"}],
  //  "layers":[{"name","text","plugin","problem"}]}. `filter`: a glob on names, empty for all.
  //  Layers are those that TENON_LAYERS names.
  std::string explain_json(std::string_view filter) const;
  // The same as text: a line per plugin, and its gates if `filter` names it.
  std::string explain_text(std::string_view filter) const;

  // The contents of a lock file for the plugins that are usable now and match `filter`:
  // {"schema":1,"plugins":[{"name","version","sha256","manifest_sha256"}]}. Reads their libraries
  // but opens none.
  Result<std::string> lock_json(std::string_view filter) const;

  // Names of all plugins that are known, loaded or not; their manifests' `environment` variables.
  std::vector<std::string> plugin_names() const;
  std::vector<std::string> environment_names() const;

  // Calls every loaded plugin's shutdown once, those of layers first, and returns the first
  // failure, which is also logged. Call it before a normal end of the process, when nothing is in
  // flight.
  Status shutdown();

 private:
  void scan(const Options& options);
  void add_manifest(const struct FoundManifest& found);
  void check_names();
  void check_requirements_of_all();
  Status load_candidate(Candidate& candidate);
  Status opened(Candidate& candidate);
  Status open_candidate(Candidate& candidate);
  Result<tenon_plugin_query_t> open_checked(Candidate& candidate);
  Status check_files(Candidate& candidate, const FileIdentity& seen);
  std::string circle_of(const Candidate& candidate) const;
  Status add_layers(Candidate& candidate, AdoptedPlugin* plugin);
  Candidate* usable_candidate(std::string_view plugin_name) const;
  Result<std::unique_ptr<Candidate>> checked(const tenon_plugin_t* record,
                                             std::string_view manifest);
  Status check_selected(Candidate& candidate) const;
  Status check_taken(const Candidate& candidate) const;
  Candidate* registered(std::string_view name) const;
  void retire(const Candidate& candidate);
  Status unusable(std::string_view kind, std::string_view name) const;

  const tenon_host_t* host_;
  mutable std::recursive_mutex mutex_;  // a plugin's query may request another plugin
  std::vector<std::unique_ptr<Candidate>> candidates_;
  std::vector<std::unique_ptr<Candidate>> retired_;  // replaced or taken back
  std::vector<const Candidate*> loading_;  // by the thread that holds the lock, outermost first
};

}  // namespace tenon::host
