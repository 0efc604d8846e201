// Runs a pipeline over a graph: options, properties, statistics, timing, verify-each, prints
// between passes, and a reproducer when something fails. Called by core/session (compile,
// passes_run).
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/errors/status.h"
#include "core/pass/registry.h"
#include "core/pass/rewriter.h"

namespace tenon::pass {

struct Settings {
  bool verify_each = false;
  // Names of passes, comma-separated, or "all". Printed graphs have no elements of large constants.
  std::string_view print_before, print_after;
  bool print_changed = false;            // after each pass that changed the graph
  bool print_diff = false;               // the lines in which each pass changed it
  const tenon_sink_t* prints = nullptr;  // receives the texts
  // Whether the planned devices claim this node whole; null means no. See
  // tenon_pass_context_t::claimed.
  std::function<bool(tenon_node_t)> claimed;
};

struct Report {
  std::string pass;
  double ms = 0;
  std::vector<std::pair<std::string, int64_t>> statistics;  // those that are not 0, by name
  bool of_rewrites = false;
  uint64_t rewrites = 0;     // applications that were made
  std::string last_rewrite;  // with the option apply: see Rewritten::last
};

// Changes `graph` in place. After a failure the graph must be discarded. The message names the pass
// and, if a folder for it is known, the reproducer: a .tir file whose first lines hold the
// pipeline, as input for `tenon opt`. The folder is TENON_REPRODUCER_DIR, or `reproducers` in the
// cache folder. Errors: T0401 to T0409; a pass's own errors appear under T0405.
Result<std::vector<Report>> run_pipeline(const HostTables& tables, Registry& registry,
                                         tenon_graph_t* graph, std::string_view pipeline,
                                         const Settings& settings);

// {"schema":1,"passes":[{"pass":"cse","ms":0.1,"statistics":{"merged":3}}]}; for passes of rewrites
// also "rewrites":3, and with the option apply "last":"`drop` at `neg` (m.tir:5)".
std::string reports_json(const std::vector<Report>& reports);

}  // namespace tenon::pass
