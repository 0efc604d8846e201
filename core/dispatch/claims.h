// What each device says about each node of a graph: claimed at which cost, or refused and why.
// Every refusal is kept, since it is the answer to "why not there".
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/dispatch/partition.h"
#include "core/runtime/device.h"
#include "core/runtime/views.h"

namespace tenon::dispatch {

struct Refusal {
  tenon_code_t code = TENON_UNIMPLEMENTED;
  std::string reason;
};

// What one compiler says, by node index of the graph.
struct Answers {
  std::vector<double> cost_ns;    // kNotClaimed where not
  std::vector<Refusal> refusals;  // reason empty where claimed
  bool claimed(tenon_node_t node) const {
    return node < cost_ns.size() && cost_ns[node] != kNotClaimed;
  }
};

// One device's answer. Of its own plugin and the kernel sets that others have for it, the cheapest
// counts: they share the device's memory, so nothing is copied between them.
struct Claims : Answers {
  std::shared_ptr<runtime::Device> device;
  std::vector<uint32_t> by;  // who takes a node, as runtime::DeviceApis::compiler counts
  std::vector<Answers> all;  // the same order: the device's own plugin, then the kernel sets; empty
                             // when there are no sets
};

// What taking a node out of its device's own code costs: two more executions, and nothing is fused
// across.
inline constexpr double kKernelSetNs = 3000;

// Asks a device about a frozen graph. A device that fails while claiming claims nothing: its
// failure is the refusal of every node. Only nodes of the main region are kept. offered_ops: globs
// of the ops that the user lets this device have; empty: all.
Claims collect_claims(std::shared_ptr<runtime::Device> device, const runtime::GraphRef& graph,
                      const std::vector<std::string>& offered_ops = {});

}  // namespace tenon::dispatch
