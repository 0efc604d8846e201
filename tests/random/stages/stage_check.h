// Runs generated graphs through every step of kernelgen. An interpreter runs the output of each
// step and compares it with the expected results; no compiler takes part. Reports name the step at
// fault, the target and the stage.
//
// Steps of the whole program: lower, keep_what_pays, place_stores, inline_maps, choose_layouts,
// split_reductions, place_parts, keep_the_rest, pack_constants. Then build_kernels(), as devices
// call it, and for each kernel: split (its own stages, with shuffled lead points), in_place,
// general (any sizes), prepare, loops (trees, run with shadow memory).
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
      targets;  // each graph goes through `targets_per_graph` of them, chosen by its seed
  uint32_t targets_per_graph = 1;
  uint32_t trees_every = 1;  // makes loop trees of every N-th graph; 0: of none
  bool verify = false;       // also runs kernelgen's verifier; its errors are failures
  bool texts = false;        // a failure prints the kernel too
};

// Parses names separated by commas; all targets if empty. False if a name is unknown.
bool choose_targets(std::string_view names, std::vector<kernelgen::Target>* out);
std::string target_names();

struct StageStatistics {
  uint64_t graphs = 0, kernels = 0, trees = 0;
  std::map<std::string, uint64_t>
      shapes;  // loop trees by shape of schedule, and those with tiles, sorts and the like
  std::map<std::string, uint64_t> left_out;  // reasons why graphs or trees were not checked
};

class ProgramCheck;

class StageCheck {
 public:
  StageCheck(const kernelgen::HostTables& host, StageCheckOptions options)
      : host_(host), options_(std::move(options)) {}

  // A Runner: empty if all is right.
  std::string operator()(const Generated& generated);
  const StageStatistics& statistics() const { return statistics_; }

 private:
  std::string on_target(const Generated& generated, const kernelgen::Target& target,
                        tenon_graph_t* graph, kernelgen::Lowered lowered, ProgramCheck* check);

  kernelgen::HostTables host_;
  StageCheckOptions options_;
  StageStatistics statistics_;
};

// The host's tables, after a session has been opened.
Status find_host_tables(kernelgen::HostTables* out);

}  // namespace tenon::random_tests
