// Passes in C++: the record and the function in one file. A pass with a pattern:
//
//     tenon::Status double_neg(tenon::Builder&, const tenon::Node& node,
//                              std::vector<tenon::Value>* out) {
//       tenon::Value x;
//       if (match(node, match_op("neg", match_op("neg", bind(&x))))) *out = {x};
//       return {};  // it ends: each match removes an op
//     }
//     constexpr tenon_rewrite_t kRewrites[] = {tenon::rewrite<double_neg>("double-neg", "neg")};
//     constexpr auto kPass = tenon::pass("double-neg", "Removes pairs of neg.")
//                                .describe("Replaces neg(neg(x)) by x.")
//                                .example("...before .tir...", "...after .tir...")
//                                .rewrites(kRewrites);
//     constexpr const tenon_pass_def_t* kPasses[] = {&kPass.def};
#ifndef TENON_CPP_PASS_HPP_
#define TENON_CPP_PASS_HPP_

#include <vector>

#include "tenon/abi/pass.h"
#include "tenon/cpp/graph.hpp"

namespace tenon::inline sdk {

// The options, statistics and queries of a running pass.
class PassContext {
 public:
  explicit PassContext(const tenon_pass_context_t* raw) : raw_(raw) {}
  int64_t i64(uint32_t option) const { return raw_->options[option].u.i; }
  double f64(uint32_t option) const { return raw_->options[option].u.f; }
  std::string_view text(uint32_t option) const { return view(raw_->options[option].u.s); }
  void count(std::string_view statistic, int64_t amount = 1) const {
    raw_->count(raw_->host, str(statistic), amount);
  }
  bool claimed(const Node& node) const { return raw_->claimed(raw_->host, node.id()) == TENON_YES; }

 private:
  const tenon_pass_context_t* raw_;
};

using PassFunction = Status (*)(tenon_graph_t* graph, const PassContext& context);
// Leaves `out` empty if there is no match; otherwise one replacement per result.
using RewriteFunction = Status (*)(Builder& builder, const Node& node, std::vector<Value>* out);

namespace detail {
template <PassFunction Function>
tenon_code_t run_pass(void*, tenon_graph_t* graph, const tenon_pass_context_t* raw) noexcept {
  return guarded(context().host, [&]() -> Status { return Function(graph, PassContext(raw)); });
}
template <RewriteFunction Function>
tenon_code_t run_rewrite(void*, const tenon_builder_t* at, tenon_node_t id,
                         tenon_value_t* out_results, uint32_t* out_matched) noexcept {
  return guarded(context().host, [&]() -> Status {
    Builder builder(*at);
    std::vector<Value> results;
    *out_matched = 0;
    TENON_TRY(Function(builder, Node(at->graph, id), &results));
    TENON_TRY(builder.status());
    for (Value v : results) *out_results++ = v.id();
    *out_matched = results.empty() ? 0 : 1;
    return {};
  });
}
}  // namespace detail

// One rewrite, for nodes of op `root` (empty: every op). A comment must say why it never loops.
template <RewriteFunction Function>
constexpr tenon_rewrite_t rewrite(std::string_view name, std::string_view root,
                                  uint32_t benefit = 1) {
  return {sizeof(tenon_rewrite_t),       benefit, str(name), str(root), nullptr,
          &detail::run_rewrite<Function>};
}

// Builds the record; use as a constexpr static object.
class PassRecord {
 public:
  tenon_pass_def_t def = {};

  constexpr PassRecord(std::string_view name, std::string_view summary) {
    def.size_bytes = sizeof def;
    def.name = str(name);
    def.summary = str(summary);
  }
  constexpr PassRecord& describe(std::string_view text) {
    return def.description = str(text), *this;
  }
  // run(before) prints `after`. Executed as a test, which must apply each rewrite with a root: a
  // graph with several outputs can show several of them.
  constexpr PassRecord& example(std::string_view before, std::string_view after) {
    def.before = str(before);
    def.after = str(after);
    return *this;
  }
  template <size_t N>
  constexpr PassRecord& options(const tenon_pass_option_def_t (&list)[N]) {
    def.options = list;
    def.option_count = N;
    def.option_bytes = sizeof(tenon_pass_option_def_t);
    return *this;
  }
  template <size_t N>
  constexpr PassRecord& statistics(const tenon_str_t (&list)[N]) {
    def.statistics = list;
    def.statistic_count = N;
    return *this;
  }
  constexpr PassRecord& needs(std::string_view properties) {
    return def.requires_ = str(properties), *this;
  }
  constexpr PassRecord& preserves(std::string_view properties) {
    return def.preserves = str(properties), *this;
  }
  constexpr PassRecord& establishes(std::string_view properties) {
    return def.establishes = str(properties), *this;
  }
  template <PassFunction Function>
  constexpr PassRecord& run() {
    def.run = &detail::run_pass<Function>;
    return *this;
  }
  template <size_t N>
  constexpr PassRecord& rewrites(const tenon_rewrite_t (&list)[N]) {
    def.rewrites = list;
    def.rewrite_count = N;
    return *this;
  }
};
constexpr PassRecord pass(std::string_view name, std::string_view summary) {
  return PassRecord(name, summary);
}

}  // namespace tenon::inline sdk

#endif
