// Models of several processes: which of them this one is, and all of them in one.
#pragma once
#include <string>

#include <tenon/abi/collective.h>

#include "sdk/tools/tenon/cli/options.h"
#include "sdk/tools/tenon/host/host.h"

namespace tenon::tools {

// What a launcher says of this process.
struct ThisRank {
  bool is_launched = false;
  uint32_t rank = 0, rank_count = 1;
  const tenon_collective_api_t* engine = nullptr;  // that knows the launcher
};

// Asks the engines, which loads their plugins. Opens none.
ThisRank this_rank(const Host& host);
// Whether a graph has ops that several processes compute together.
bool has_collectives(const Host& host, tenon_graph_t* graph);
// Replaces the model by one that computes what all processes of the mesh do. mesh: "data=2", or
// empty for that of the model's ops.
int simulate(const Host& host, const std::string& mesh, Model& model);
// Whether names of inputs or folders have "{rank}"; name_rank makes them those of this rank.
bool names_rank(const RunOptions& options);
void name_rank(const ThisRank& here, RunOptions& options);

}  // namespace tenon::tools
