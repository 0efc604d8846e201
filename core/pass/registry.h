// Passes by name: full-size copies of the records that plugins offer in tenon.pass/1. Used by
// core/session. It opens no plugin itself: a Source does.
#pragma once
#include <tenon/abi/pass.h>

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/errors/status.h"

namespace tenon::pass {

// Where passes come from: manifests give the names, and a plugin is loaded when a pass of it is
// used.
class Source {
 public:
  virtual ~Source() = default;
  // The tenon.pass/1 table of the plugin that provides `pass`. If plugins provide it but none is
  // usable, fails with the reasons of all of them; NOT_FOUND if no plugin provides it.
  virtual Result<const tenon_passes_t*> table(std::string_view pass) = 0;
  // The names of all provided passes, sorted. Loads nothing.
  virtual std::vector<std::string> names() = 0;
};

// A pass as the host keeps it, with full-size records whatever the plugin was compiled with. Lives
// as long as the registry.
struct Pass {
  const tenon_passes_t* table = nullptr;  // that it came from
  tenon_pass_def_t def = {};
  std::vector<tenon_rewrite_t> rewrites;  // benefit order; def.rewrites points here
};

// Threads: safe.
class Registry {
 public:
  explicit Registry(Source& source) : source_(source) {}
  // T0401 with a suggestion for an unknown name, T0402 for an unusable record. The source is asked
  // each time, since a plugin that the program registers may be replaced.
  Result<const Pass*> find(std::string_view name);
  // Every provided pass that loads, ordered by name; others are left out.
  std::vector<const Pass*> all();
  // {"schema":1,"standard":"...","passes":[{"name","summary","description","options":[{"name","doc","kind",
  // "default"}],"statistics","requires","preserves","establishes","before","after"}]}
  std::string json(std::string_view filter);
  // T0402 if a record of the table is unusable.
  static Status check(const tenon_passes_t& table);

 private:
  Status adopt(const tenon_passes_t& table);
  Source& source_;
  std::mutex mutex_;
  std::map<std::string, const Pass*, std::less<>> passes_;
  std::deque<Pass> all_;  // also replaced ones: pipelines may run them
};

}  // namespace tenon::pass
