// One call of a kernel set: an anchor with the nodes after it that it computes too, and the set's
// answer.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/abi/kernels.h>

#include "core/base/errors/status.h"
#include "core/ir/graph.h"

namespace tenon::dispatch {

// Whether kernels may be asked about this version of an op: those that came with a definition of it
// do not fit another one.
using SuitsOp = std::function<bool(tenon_sym_t op, uint32_t version)>;

// The kernels of one plugin for the devices of a kind. Tables live as long as the process.
struct KernelsOfPlugin {
  const tenon_device_api_t* device = nullptr;
  const tenon_queue_api_t* queue = nullptr;  // null: kernels are complete when they return
  const tenon_kernels_api_t* kernels = nullptr;
  std::string plugin, version;
  SuitsOp suits;  // empty for kernels that are asked about every op
  const tenon_exchange_api_t* exchange = nullptr;  // of the device, for native streams
  bool has_options = false;  // the device has code of its own, and options are for that
};

// Whether the kernels submit to the device's native stream.
inline bool is_native(const KernelsOfPlugin& set) {
  return set.queue != nullptr && set.kernels->queue_kind.size != 0;
}

// The nodes that one call may cover, found in a graph: who reads what.
class Chains {
 public:
  explicit Chains(const ir::Graph& graph);
  // The longest chain after a node, in order, without nodes of `taken` (by node index; empty:
  // none): each computes with the result of the one before, which nothing else reads. A node that
  // reads only arguments and constants stands right before the one that alone reads it.
  std::vector<ir::Node> chain_after(ir::Node anchor, const std::vector<bool>& taken = {}) const;

 private:
  static constexpr size_t kLongest = 16;
  bool plain(ir::Node n) const;            // one result, no regions, no sizes of its own
  ir::Node only_reader(ir::Node n) const;  // kNone: several, none, or an output
  bool reads_only_given(ir::Node n) const;
  const ir::Graph& graph_;
  std::vector<std::vector<ir::Node>> readers_;  // by value
  std::vector<bool> output_;                    // by value
};

// A call as the table has it. The graph outlives it.
class KernelCall {
 public:
  // nodes: the anchor, then the epilogue.
  KernelCall(const ir::Graph& graph, std::vector<ir::Node> nodes, bool deterministic);
  KernelCall(const KernelCall&) = delete;
  const tenon_kernel_call_t& record() const { return record_; }
  std::span<const ir::Node> nodes() const { return nodes_; }
  ir::Node anchor() const { return nodes_.front(); }
  ir::Node last() const { return nodes_.back(); }
  std::span<const ir::Value> operands() const { return values_; }  // kNone: absent

 private:
  std::vector<ir::Node> nodes_;
  std::vector<ir::Value> values_;
  std::vector<tenon_kernel_operand_t> operands_;
  std::vector<tenon_type_t> results_;
  tenon_kernel_call_t record_{};
};

// What the set says of the whole call; UNIMPLEMENTED with its reason if it refuses. T0512 for an
// answer that makes no sense.
Result<tenon_kernel_candidate_t> query(const KernelsOfPlugin& set, tenon_str_t target,
                                       const KernelCall& call);

// An anchor with as much of `epilogue` as the set takes.
struct TakenCall {
  std::vector<ir::Node> nodes;
  tenon_kernel_candidate_t candidate;
};
Result<TakenCall> query_longest(const KernelsOfPlugin& set, tenon_str_t target,
                                const ir::Graph& graph, ir::Node anchor,
                                const std::vector<ir::Node>& epilogue, bool deterministic);

}  // namespace tenon::dispatch
