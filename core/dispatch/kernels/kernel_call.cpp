#include "core/dispatch/kernels/kernel_call.h"

#include <fmt/format.h>

#include <tenon/cpp/record.hpp>

#include <algorithm>
#include <cmath>

#include "core/base/errors/failure.h"
#include "core/base/intern.h"
#include "core/base/str.h"
#include "core/dispatch/placement/placement.h"

namespace tenon::dispatch {

using ir::Graph;
using ir::kNone;
using ir::Node;
using ir::Value;

// ---- Chains ----

Chains::Chains(const Graph& graph)
    : graph_(graph), readers_(graph.value_limit()), output_(graph.value_limit(), false) {
  for (Node n : graph.nodes(graph.main())) {
    for (Value v : reads_of(graph, n)) readers_[v].push_back(n);
  }
  for (Value v : graph.region(graph.main()).yields) output_[v] = true;
  for (Value v : sizes_yielded(graph)) output_[v] = true;
}

bool Chains::plain(Node n) const {
  return graph_.results(n).size() == 1 && graph_.regions(n).empty() && graph_.symbols(n).empty();
}

Node Chains::only_reader(Node n) const {
  const Value v = graph_.results(n)[0];
  return output_[v] || readers_[v].size() != 1 ? kNone : readers_[v][0];
}

bool Chains::reads_only_given(Node n) const {
  const std::vector<Value> reads = reads_of(graph_, n);
  return std::all_of(reads.begin(), reads.end(),
                     [&](Value v) { return graph_.value(v).kind != TENON_VALUE_RESULT; });
}

std::vector<Node> Chains::chain_after(Node anchor, const std::vector<bool>& taken) const {
  const auto is_free = [&](Node n) { return plain(n) && (n >= taken.size() || !taken[n]); };
  std::vector<Node> chain;
  if (!plain(anchor)) return chain;
  for (Node at = anchor; chain.size() < kLongest;) {
    const Node next = only_reader(at);
    if (next == kNone || !is_free(next)) break;
    const size_t before = chain.size();
    for (Value v : graph_.operands(next)) {
      if (v == kNone || graph_.value(v).kind != TENON_VALUE_RESULT) continue;
      const Node side = graph_.value(v).node;
      if (side == at || !is_free(side) || only_reader(side) != next || !reads_only_given(side) ||
          std::find(chain.begin() + static_cast<ptrdiff_t>(before), chain.end(), side) !=
              chain.end())
        continue;
      chain.push_back(side);
    }
    chain.push_back(at = next);
  }
  return chain;
}

// ---- Calls ----

KernelCall::KernelCall(const Graph& graph, std::vector<Node> nodes, bool deterministic)
    : nodes_(std::move(nodes)) {
  const auto made_here = [&](Value v) {
    return v != kNone && graph.value(v).kind == TENON_VALUE_RESULT &&
           std::find(nodes_.begin(), nodes_.end(), graph.value(v).node) != nodes_.end();
  };
  for (Node n : nodes_) {
    for (Value v : graph.operands(n)) {
      if (!made_here(v)) values_.push_back(v);
    }
  }
  for (Value v : values_) {
    tenon_kernel_operand_t operand{};
    if (v != kNone) {
      operand.type = graph.type(v);
      if (graph.value(v).kind == TENON_VALUE_CONSTANT)
        operand.flags = TENON_KERNEL_OPERAND_CONSTANT;
    }
    operands_.push_back(operand);
  }
  for (Value v : graph.results(last())) results_.push_back(graph.type(v));
  record_.size_bytes = sizeof(record_);
  record_.anchor = anchor();
  record_.graph = const_cast<Graph&>(graph).abi();
  record_.epilogue = nodes_.data() + 1;
  record_.epilogue_count = static_cast<uint32_t>(nodes_.size() - 1);
  record_.flags = deterministic ? TENON_KERNEL_CALL_DETERMINISTIC : 0;
  record_.operand_count = static_cast<uint32_t>(operands_.size());
  record_.result_count = static_cast<uint32_t>(results_.size());
  record_.operands = operands_.data();
  record_.results = results_.data();
  record_.operand_bytes = sizeof(tenon_kernel_operand_t);
}

namespace {

Status check_op(const KernelsOfPlugin& set, const Graph& graph, Node n) {
  const ir::NodeData& node = graph.node(n);
  if (!set.suits || set.suits(node.op, node.op_version)) return {};
  return error(TENON_UNIMPLEMENTED, "T0512",
               "the kernels of plugin {} came with another definition of {} than version {}",
               quoted(set.plugin), printable(sym_text(node.op)), node.op_version);
}

// The bits of the operands that are constants; operands beyond bit 31 cannot be packed.
uint32_t constants_of(const tenon_kernel_call_t& call) {
  uint32_t mask = 0;
  for (uint32_t i = 0; i < call.operand_count && i < 32; ++i) {
    if ((call.operands[i].flags & TENON_KERNEL_OPERAND_CONSTANT) != 0) mask |= 1u << i;
  }
  return mask;
}

Status check_candidate(const KernelsOfPlugin& set, const tenon_kernel_call_t& call,
                       const tenon_kernel_candidate_t& candidate) {
  std::string what;
  if (candidate.epilogue_taken > call.epilogue_count) {
    what = fmt::format("take {} nodes of an epilogue of {}", candidate.epilogue_taken,
                       call.epilogue_count);
  } else if ((candidate.prepack_mask & ~constants_of(call)) != 0) {
    what = fmt::format("pack operands that are no constants (mask {:#x} of {:#x})",
                       candidate.prepack_mask, constants_of(call));
  } else if (candidate.prepack_mask != 0 && set.kernels->prepack == nullptr) {
    what = "want packed operands and have no prepack";
  } else if (!std::isfinite(candidate.cost_ns) || candidate.cost_ns < 0) {
    what = fmt::format("cost {} ns", candidate.cost_ns);
  } else {
    return {};
  }
  return error(TENON_INTERNAL, "T0512", "kernels of plugin {} {}", quoted(set.plugin), what);
}

// The longest part of the epilogue, of at most `count` nodes from the front, that ends on the
// chain: the result of a node that only feeds a later one is not the call's.
uint32_t ends_on_chain(const Graph& graph, std::span<const Node> nodes, uint32_t count) {
  uint32_t end = 0;
  Value made = graph.results(nodes[0])[0];
  for (uint32_t i = 1; i <= count; ++i) {
    const auto reads = graph.operands(nodes[i]);
    if (std::find(reads.begin(), reads.end(), made) == reads.end()) continue;
    made = graph.results(nodes[i])[0];
    end = i;
  }
  return end;
}

}  // namespace

Result<tenon_kernel_candidate_t> query(const KernelsOfPlugin& set, tenon_str_t target,
                                       const KernelCall& call) {
  const Graph& graph = *Graph::from(call.record().graph);
  for (Node n : call.nodes()) TENON_RETURN_IF_ERROR(check_op(set, graph, n));
  auto candidate = sized<tenon_kernel_candidate_t>();
  candidate.part_count = 1;
  clear_failure();
  TENON_RETURN_IF_ERROR(
      from_abi(set.kernels->query(set.kernels->self, target, &call.record(), &candidate),
               fmt::format("kernels of plugin {}", quoted(set.plugin))));
  TENON_RETURN_IF_ERROR(check_candidate(set, call.record(), candidate));
  candidate.part_count = std::max(candidate.part_count, 1u);
  return candidate;
}

Result<TakenCall> query_longest(const KernelsOfPlugin& set, tenon_str_t target, const Graph& graph,
                                Node anchor, const std::vector<Node>& epilogue,
                                bool deterministic) {
  std::vector<Node> nodes = {anchor};
  nodes.insert(nodes.end(), epilogue.begin(), epilogue.end());
  TENON_ASSIGN_OR_RETURN(tenon_kernel_candidate_t candidate,
                         query(set, target, KernelCall(graph, nodes, deterministic)));
  if (candidate.epilogue_taken != epilogue.size()) {
    const uint32_t wanted = ends_on_chain(graph, nodes, candidate.epilogue_taken);
    nodes.resize(1 + wanted);
    TENON_ASSIGN_OR_RETURN(candidate, query(set, target, KernelCall(graph, nodes, deterministic)));
    if (candidate.epilogue_taken != wanted)
      return error(TENON_INTERNAL, "T0512",
                   "kernels of plugin {} took {} nodes of a longer epilogue, and take {} of them "
                   "when asked about these alone",
                   quoted(set.plugin), wanted, candidate.epilogue_taken);
  }
  return TakenCall{std::move(nodes), candidate};
}

}  // namespace tenon::dispatch
