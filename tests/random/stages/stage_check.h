// Generated graphs through every step of kernelgen, each step run by an interpreter and compared
// with what the graph means: no compiler takes part. What goes wrong is told with the step that
// brought it, the target and the stage.
//
// Steps of the whole program: lower, keep_what_pays, place_stores, inline_maps, choose_layouts,
// split_reductions, place_parts, keep_the_rest, pack_constants. Then build_kernels(), as devices
// call it, and of each kernel: split (its own stages, the points of its lead axes shuffled),
// in_place, general (any sizes), prepare, loops (trees, run with shadow memory).
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include <tenon/kernelgen/lower/lower_graph.h>
#include <tenon/kernelgen/schedule/schedule.h>

#include "tests/random/runner.h"

namespace tenon::random_tests {

struct StageCheckOptions {
  std::vector<kernelgen::Target>
      targets;  // each graph goes through `targets_per_graph` of them, another choice for each seed
  uint32_t targets_per_graph = 1;
  uint32_t trees_every = 1;  // loop trees of one graph in so many; 0: of none
  bool verify = false;       // kernelgen's verifier looks too, and what it says is a failure
  bool texts = false;        // a failure tells the kernel too
};

// By names with commas between them ("avx512,opencl"); all when empty. False: one of the names is
// unknown.
bool choose_targets(std::string_view names, std::vector<kernelgen::Target>* out);
std::string target_names();

struct StageStatistics {
  uint64_t graphs = 0, kernels = 0, trees = 0;
  std::map<std::string, uint64_t>
      shapes;  // loop trees by shape of schedule, and those with tiles, sorts and the like
  std::map<std::string, uint64_t> left_out;  // reasons why graphs or trees were not looked at
};

class ProgramCheck;

class StageCheck {
 public:
  StageCheck(const kernelgen::HostTables& host, StageCheckOptions options)
      : host_(host), options_(std::move(options)) {}

  // A Runner: empty when all is right.
  std::string operator()(const Generated& generated);
  const StageStatistics& statistics() const { return statistics_; }

 private:
  std::string on_target(const Generated& generated, const kernelgen::Target& target,
                        tenon_graph_t* graph, kernelgen::Lowered lowered, ProgramCheck* check);

  kernelgen::HostTables host_;
  StageCheckOptions options_;
  StageStatistics statistics_;
};

// The host's tables, once a session is open.
Status find_host_tables(kernelgen::HostTables* out);

}  // namespace tenon::random_tests
