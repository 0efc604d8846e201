// Each device's answer for each node of a graph: claimed by itself, claimed together with others,
// at what cost, or refused, and why. Every refusal is kept, to explain why a node does not run
// there.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/dispatch/placement/contraction.h"
#include "core/dispatch/placement/partition.h"
#include "core/runtime/device/device.h"
#include "core/runtime/values/views.h"

namespace tenon::dispatch {

struct Refusal {
  tenon_code_t code = TENON_UNIMPLEMENTED;
  std::string reason;
  // A node that stands for a part of a composite that the device refused: `reason` is about the
  // composite, which is what the user wrote. Its op, and the reason for the node itself.
  std::string composite = {}, reason_here = {};
};

// What the user asked of all devices.
struct CompileSettings {
  bool deterministic = false;
  bool autotune = false;  // costs of kernel sets, and of what competes with them, are measured
  std::vector<std::pair<std::string, std::string>> options;  // "cpu.opt" = "2"
};

// The settings as one kind of device gets them, to claim and to compile. Borrows the settings.
class DeviceOptions {
 public:
  DeviceOptions(const CompileSettings& settings, std::string_view kind);
  DeviceOptions(const DeviceOptions&) = delete;
  const tenon_compile_options_t* record() const { return &record_; }

 private:
  std::vector<tenon_key_value_t> pairs_;
  tenon_compile_options_t record_{};
};

// One compiler's answer, by node index of the graph.
struct Answers {
  std::vector<double> cost_ns;      // of the node by itself; else kNotClaimed
  std::vector<Refusal> refusals;    // reason empty if claimed by itself
  std::vector<AtomicClaim> atomic;  // nodes of the graph
  std::vector<uint32_t> together;   // in how many atomic claims a node is
  std::string failure = {};         // why it could not be asked at all; empty if it answered
  Status wrong_option = {};         // T0513 where that is an option
  bool alone(tenon_node_t node) const {
    return node < cost_ns.size() && cost_ns[node] != kNotClaimed;
  }
  bool claimed(tenon_node_t node) const {
    return alone(node) || (node < together.size() && together[node] != 0);
  }
};

// One device's answer. The cheapest of its own plugin and other plugins' kernel sets for it counts:
// they share the device's memory, so nothing is copied between them.
struct Claims : Answers {
  std::shared_ptr<runtime::Device> device;
  std::vector<uint32_t> by;     // a node's compiler, numbered as in runtime::DeviceApis::compiler
  std::vector<Answers> all;     // the device's own, then those of kernel sets; empty without sets
  std::vector<uint32_t> asked;  // the compiler of each of `all`
  bool measured = false;        // costs were measured where several compete (measure.h)
};

// The cost of taking a node out of its device's own code: two more executions, and no fusion
// across.
inline constexpr double kKernelSetNs = 3000;

// Collects a device's claims on a frozen graph. A device that fails while claiming claims nothing;
// its failure becomes the refusal of every node, and `wrong_option` is there for the caller to
// return. Only nodes of the main region are kept.
// offered_ops: globs of the ops that the user allows on this device; empty: all.
Claims collect_claims(std::shared_ptr<runtime::Device> device, const runtime::GraphRef& graph,
                      const CompileSettings& settings = {},
                      const std::vector<std::string>& offered_ops = {});

// Removes atomic claims that cannot be one segment, because a path leaves them and comes back, and
// makes that the refusal of their nodes. edges: of the main region, whose nodes are numbered by
// their place in it; made by the caller, once for all devices.
void refuse_torn_claims(const runtime::GraphRef& graph, const Edges& edges, Claims* claims);

// "plus, every and plus": the ops of these nodes, for messages.
std::string ops_text(const runtime::GraphRef& graph, std::span<const tenon_node_t> nodes);

}  // namespace tenon::dispatch
