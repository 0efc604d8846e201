// Each device's answer for each node of a graph: claimed, at what cost, or refused, and why. Every
// refusal is kept, to explain why a node does not run there.
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

// One compiler's answer, by node index of the graph.
struct Answers {
  std::vector<double> cost_ns;    // kNotClaimed if refused
  std::vector<Refusal> refusals;  // reason empty if claimed
  bool claimed(tenon_node_t node) const {
    return node < cost_ns.size() && cost_ns[node] != kNotClaimed;
  }
};

// One device's answer. The cheapest of its own plugin and other plugins' kernel sets for it counts:
// they share the device's memory, so nothing is copied between them.
struct Claims : Answers {
  std::shared_ptr<runtime::Device> device;
  std::vector<uint32_t> by;     // a node's compiler, numbered as in runtime::DeviceApis::compiler
  std::vector<Answers> all;     // the device's own, then those of kernel sets; empty without sets
  std::vector<uint32_t> asked;  // the compiler of each of `all`
};

// The cost of taking a node out of its device's own code: two more executions, and no fusion
// across.
inline constexpr double kKernelSetNs = 3000;

// Collects a device's claims on a frozen graph. A device that fails while claiming claims nothing;
// its failure becomes the refusal of every node. Only nodes of the main region are kept.
// offered_ops: globs of the ops that the user allows on this device; empty: all.
Claims collect_claims(std::shared_ptr<runtime::Device> device, const runtime::GraphRef& graph,
                      const std::vector<std::string>& offered_ops = {});

}  // namespace tenon::dispatch
