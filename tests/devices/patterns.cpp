// The layer `patterns`: in front of a device that compiles node by node, it claims a product, the
// sum that reads it and the maximum that reads that as one atomic claim, besides the claims of the
// device. compile then gets either nodes that the device claimed or exactly one such claim, and the
// layer refuses anything that mixes them.
//
// It stands in front of `sim` alone. Options: `alone=0`: the ops of the pattern are not taken by
// themselves. `cost=NS`: of a claim. `torn=1`: the claim leaves out the sum, so that a path leaves
// it and comes back. `broken=1`: a claim names a node twice. `without=OP`: the op is refused.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "tenon/abi/compile.h"
#include "tenon/cpp/graph.hpp"
#include "tenon/cpp/layer.hpp"

namespace {

using tenon::Status;

class Patterns {
 public:
  Status attach(tenon::LayerSubject& subject) {
    uint64_t alone = 1, cost = 1, torn = 0, broken = 0;
    TENON_TRY(subject.number("alone", &alone));
    TENON_TRY(subject.number("cost", &cost));
    TENON_TRY(subject.number("torn", &torn));
    TENON_TRY(subject.number("broken", &broken));
    TENON_TRY(subject.each_option("without", [&](std::string_view op) -> Status {
      without_.emplace_back(op);
      return {};
    }));
    TENON_TRY(subject.options_done());
    if (subject.plugin() != "sim") return {};
    broken_ = broken != 0;
    alone_ = alone != 0, cost_ns_ = static_cast<double>(cost), torn_ = torn != 0;
    next_ = subject.next<tenon_compile_api_t>(TENON_COMPILE_ID);
    if (next_ == nullptr) return {};
    table_.claim = tenon::layer_slot<&Patterns::claim>;
    table_.compile = tenon::layer_slot<&Patterns::compile>;
    subject.put(TENON_COMPILE_ID, &table_, this);
    return {};
  }

  tenon_code_t claim(tenon_str_t target, tenon_graph_t* graph,
                     const tenon_compile_options_t* options, const tenon_claim_sink_t* sink) {
    Filter filter{this, graph, sink};
    const tenon_claim_sink_t mine = {sizeof mine, 0, &filter, Filter::claim, Filter::refuse};
    TENON_TRY(next_->claim(next_->self, target, graph, options, &mine));
    for (const std::vector<tenon_node_t>& nodes : patterns(graph)) {
      std::vector<tenon_node_t> named = nodes;
      if (torn_) named.erase(named.begin() + 1);
      if (broken_) named.push_back(named[0]);
      const tenon_claim_t claim = {
          sizeof claim, TENON_CLAIM_ATOMIC, named.data(), static_cast<uint32_t>(named.size()), 0,
          cost_ns_};
      TENON_TRY(sink->claim(sink->self, &claim));
    }
    return TENON_OK;
  }

  tenon_code_t compile(tenon_str_t target, tenon_graph_t* graph,
                       const tenon_compile_options_t* options, tenon_artifact_t** out) {
    const std::vector<tenon_node_t> nodes = tenon::main_region(graph).node_ids();
    const auto found = patterns(graph);
    const bool exact = found.size() == 1 && nodes.size() == 3;
    const bool mixed = std::any_of(nodes.begin(), nodes.end(), [&](tenon_node_t n) {
      return !alone_ && is_of_pattern(tenon::Node(graph, n).op());
    });
    if (mixed && !exact)
      return tenon::fail(TENON_INTERNAL, "patterns: compile got something else than it claimed")
          .code();
    tenon::log("patterns", TENON_LOG_INFO, "compiles ", nodes.size(), " nodes, ",
               exact ? "one pattern" : "by themselves");
    return next_->compile(next_->self, target, graph, options, out);
  }

 private:
  static bool is_of_pattern(std::string_view op) {
    return op == "dot_general" || op == "add" || op == "max";
  }

  // The device's own claims, without the ops of the pattern if they are not taken alone.
  struct Filter {
    Patterns* layer;
    tenon_graph_t* graph;
    const tenon_claim_sink_t* sink;
    static tenon_code_t claim(void* self, const tenon_claim_t* claim) {
      const Filter& f = *static_cast<Filter*>(self);
      const tenon_node_t node = claim->nodes[0];
      const std::vector<std::string>& without = f.layer->without_;
      const std::string_view op = tenon::Node(f.graph, node).op();
      if (std::find(without.begin(), without.end(), op) != without.end()) {
        const std::string why = tenon::cat("no ", op, " of this shape");
        return f.sink->refuse(f.sink->self, node, TENON_UNIMPLEMENTED, tenon::str(why));
      }
      if (f.layer->alone_ || !is_of_pattern(op)) return f.sink->claim(f.sink->self, claim);
      return f.sink->refuse(f.sink->self, node, TENON_UNIMPLEMENTED,
                            tenon::str("this device takes it in its pattern alone"));
    }
    static tenon_code_t refuse(void* self, tenon_node_t node, tenon_code_t code,
                               tenon_str_t reason) {
      const Filter& f = *static_cast<Filter*>(self);
      return f.sink->refuse(f.sink->self, node, code, reason);
    }
  };

  // The only node that reads the result of another, if it is of this op; else TENON_NONE.
  static tenon_node_t only_reader(tenon_graph_t* graph, tenon_node_t of, std::string_view op) {
    const tenon_host_graph_t& api = tenon::graph_api();
    const tenon_use_t* uses = nullptr;
    uint32_t count = 0;
    const tenon_value_t value = tenon::Node(graph, of).result(0).id();
    if (api.value_uses(api.self, graph, value, &uses, &count) != TENON_OK || count != 1 ||
        uses[0].node == TENON_NONE || tenon::Node(graph, uses[0].node).op() != op)
      return TENON_NONE;
    return uses[0].node;
  }

  static std::vector<std::vector<tenon_node_t>> patterns(tenon_graph_t* graph) {
    std::vector<std::vector<tenon_node_t>> out;
    for (tenon_node_t product : tenon::main_region(graph).node_ids()) {
      if (tenon::Node(graph, product).op() != "dot_general") continue;
      const tenon_node_t sum = only_reader(graph, product, "add");
      const tenon_node_t maximum = sum == TENON_NONE ? TENON_NONE : only_reader(graph, sum, "max");
      if (maximum != TENON_NONE) out.push_back({product, sum, maximum});
    }
    return out;
  }

  bool alone_ = true, torn_ = false, broken_ = false;
  std::vector<std::string> without_;
  double cost_ns_ = 1;
  const tenon_compile_api_t* next_ = nullptr;
  tenon_compile_api_t table_ = {};
};

}  // namespace

TENON_LAYER("patterns", "0.1.0", Patterns)
