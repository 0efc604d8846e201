// Drives rewrites over a graph until nothing matches, with a bound. Used by the manager.
#pragma once
#include <tenon/abi/pass.h>
#include <tenon/abi/plugin.h>

#include <map>
#include <span>
#include <string>

#include "core/base/errors/status.h"

namespace tenon::pass {

// The tables that passes work through; they live as long as the process.
struct HostTables {
  const tenon_host_t* host = nullptr;
  const tenon_host_graph_t* graph = nullptr;
};

// Which applications are made, numbered from 1 in the order in which the whole pass makes them. The
// others are left out: `first` to `last` with first = 1 makes exactly the first ones of the whole
// pass.
struct Applications {
  uint64_t first = 1, last = UINT64_MAX;
  bool all() const { return first == 1 && last == UINT64_MAX; }
};

// What was done.
struct Rewritten {
  std::map<std::string, int64_t> by_name;
  uint64_t count = 0;  // applications that were made
  std::string last;    // the last of them, unless all were to be made: "`drop` at `neg` (m.tir:5)"
};

// Tries `rewrites` (highest benefit first) on every node of every region, replaces each match by
// what was built, and revisits the nodes that this touched.
//
// The bound: 16 applications per node of the original graph, plus 4096. Beyond it T0406 names the
// rewrite that was applied most, and where; the graph must then be discarded. T0407 if a rewrite
// fails or builds something that cannot replace the node. CANCELLED if the operation was cancelled.
Status drive_rewrites(const HostTables& tables, tenon_graph_t* graph,
                      std::span<const tenon_rewrite_t> rewrites, const Applications& applications,
                      Rewritten* out);

}  // namespace tenon::pass
