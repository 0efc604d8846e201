#include "core/session/api/host_inspect.h"

#include <tenon/abi/session.h>
#include <tenon/cpp/record.hpp>

#include <algorithm>
#include <cstring>

#include "core/base/cache.h"
#include "core/base/errors/guard.h"
#include "core/base/limits.h"
#include "core/base/process/activity.h"
#include "core/base/record.h"
#include "core/base/str.h"
#include "core/session/api/handles.h"
#include "core/session/compile/pipeline.h"

namespace tenon::session {
namespace {

tenon_code_t passes_run(void*, tenon_graph_t* graph, tenon_str_t passes,
                        const tenon_passes_options_t* options, const tenon_sink_t* prints,
                        const tenon_sink_t* stats_json) {
  return slot([&]() -> Status {
    TENON_REQUIRE(graph, "graph");
    TENON_REQUIRE(options, "options");
    TENON_ASSIGN_OR_RETURN(const tenon_passes_options_t full, prefix_of(options));
    TENON_RETURN_IF_ERROR(check_flags(
        full.flags, TENON_PASSES_VERIFY_EACH | TENON_PASSES_PRINT_CHANGED | TENON_PASSES_PRINT_DIFF,
        "passes_run"));
    pass::Settings settings;
    settings.verify_each = (full.flags & TENON_PASSES_VERIFY_EACH) != 0;
    settings.print_changed = (full.flags & TENON_PASSES_PRINT_CHANGED) != 0;
    settings.print_diff = (full.flags & TENON_PASSES_PRINT_DIFF) != 0;
    settings.print_before = from_abi_str(full.print_before);
    settings.print_after = from_abi_str(full.print_after);
    settings.prints = prints;
    TENON_ASSIGN_OR_RETURN(
        const std::vector<pass::Report> reports,
        pass::run_pipeline(host_tables(), pass_registry(), graph, from_abi_str(passes), settings));
    return stats_json == nullptr ? Status() : write(stats_json, pass::reports_json(reports));
  });
}

// ---- The cache folder ----

tenon_code_t cache_list(void*, const tenon_sink_t* json) {
  return slot([&]() -> Status {
    TENON_REQUIRE(json, "sink");
    const Cache& cache = Cache::process();
    uint64_t total = 0;
    std::string rows;
    for (const CacheListing& entry : cache.list()) {
      total += entry.size_bytes;
      rows +=
          fmt::format("{}\n{{\"kind\":{},\"name\":{},\"bytes\":{},\"used_ns\":{}}}",
                      rows.empty() ? "" : ",", json_quoted(entry.kind),
                      json_quoted(std::string_view(entry.path).substr(entry.path.rfind('/') + 1)),
                      entry.size_bytes, entry.used_ns);
    }
    return write(
        json, fmt::format("{{\"schema\":1,\"folder\":{},\"usable\":{},\"why_not\":{},"
                          "\"limit_bytes\":{},\"bytes\":{},\"entries\":[{}]}}\n",
                          json_quoted(cache.folder()), cache.usable(), json_quoted(cache.why_not()),
                          limit(Limit::kCacheBytes), total, rows));
  });
}

tenon_code_t cache_prune(void*, uint64_t max_bytes, uint64_t* out_removed_bytes) {
  return slot([&]() -> Status {
    TENON_REQUIRE(out_removed_bytes, "out_removed_bytes");
    Cache& cache = Cache::process();
    if (!cache.usable())
      return error(TENON_FAILED_PRECONDITION, "T0801", "there is no cache to prune: {}",
                   cache.why_not());
    *out_removed_bytes = cache.prune(max_bytes);
    return {};
  });
}

tenon_code_t cache_watch(void*, const tenon_cache_lookup_sink_t* sink) {
  return slot([&]() -> Status {
    static tenon_cache_lookup_sink_t watcher;
    if (sink == nullptr) {
      Cache::watch(nullptr, nullptr);
      return {};
    }
    TENON_ASSIGN_OR_RETURN(watcher, prefix_of(sink));
    TENON_REQUIRE(watcher.lookup, "the sink's function");
    Cache::watch(
        [](void*, const CacheLookup& lookup) {
          auto record = sized<tenon_cache_lookup_t>();
          record.found = static_cast<uint32_t>(lookup.found);
          record.kind = to_abi_str(lookup.kind);
          record.name = to_abi_str(lookup.name);
          record.difference = to_abi_str(lookup.difference);
          watcher.lookup(watcher.self, &record);
        },
        nullptr);
    return {};
  });
}

// ---- Crashes: no `slot`, which would lock and allocate ----

uint32_t copy_text(std::string_view text, char* out, uint32_t size_bytes) {
  if (out == nullptr || size_bytes == 0) return 0;
  const size_t length = std::min<size_t>(text.size(), size_bytes - 1);
  std::memcpy(out, text.data(), length);
  out[length] = 0;
  return static_cast<uint32_t>(length);
}

uint32_t crash_describe(void*, char* text, uint32_t size_bytes) {
  const Activity* activity = Activity::current();
  return activity == nullptr ? 0 : static_cast<uint32_t>(activity->describe(text, size_bytes));
}

tenon_code_t crash_save(void*, char* path, uint32_t size_bytes) {
  return guarded([&]() -> Status {
    const Activity* activity = Activity::current();
    if (activity == nullptr) return error(TENON_UNAVAILABLE, "T0801", "no plugin was at work");
    TENON_ASSIGN_OR_RETURN(const std::string saved, activity->save());
    copy_text(saved, path, size_bytes);
    return {};
  });
}

}  // namespace

const tenon_host_inspect_t* host_inspect_table() {
  static const tenon_host_inspect_t table = {sizeof(tenon_host_inspect_t),
                                             nullptr,
                                             passes_run,
                                             cache_list,
                                             cache_prune,
                                             cache_watch,
                                             crash_describe,
                                             crash_save};
  return &table;
}

}  // namespace tenon::session
