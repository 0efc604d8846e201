#include "core/pass/rewriter.h"

#include <tenon/abi/host.h>
#include <tenon/cpp/record.hpp>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "core/base/errors/guard.h"
#include "core/base/process/operation.h"
#include "core/base/str.h"

namespace tenon::pass {
namespace {

constexpr uint64_t kApplicationsPerNode = 16, kApplicationsMore = 4096;

class Driver {
 public:
  Driver(const HostTables& tables, tenon_graph_t* graph, std::span<const tenon_rewrite_t> rewrites,
         const Applications& applications)
      : tables_(tables),
        api_(*tables.graph),
        graph_(graph),
        rewrites_(rewrites),
        applications_(applications),
        applied_(rewrites.size()) {
    const void* registry = nullptr;
    if (tables.host->query(tables.host->self, to_abi_str(TENON_HOST_REGISTRY_ID), 0, &registry) ==
        TENON_OK) {
      registry_ = static_cast<const tenon_host_registry_t*>(registry);
    }
    for (uint32_t i = 0; i < rewrites.size(); ++i) {
      const tenon_str_t root = rewrites[i].root;
      by_root_[root.size == 0 ? 0 : tables.host->intern(tables.host->self, root)].push_back(i);
    }
  }

  Status all() {
    auto view = sized<tenon_graph_view_t>();
    TENON_RETURN_IF_ERROR(ok(api_.graph_view(api_.self, graph_, &view)));
    queued_.resize(view.node_limit);
    TENON_RETURN_IF_ERROR(queue_region(view.main));
    bound_ = kApplicationsMore + kApplicationsPerNode * work_.size();
    // The list is a stack, reversed so that the graph's first node comes first.
    std::reverse(work_.begin(), work_.end());
    while (!work_.empty()) {
      if ((++steps_ & 255) == 0) TENON_RETURN_IF_ERROR(check_cancelled());
      const tenon_node_t node = work_.back();
      work_.pop_back();
      queued_[node] = false;
      TENON_RETURN_IF_ERROR(visit(node));
    }
    return {};
  }

  void tell(Rewritten* out) const {
    for (size_t i = 0; i < rewrites_.size(); ++i) {
      if (applied_[i] > 0)
        out->by_name[std::string(from_abi_str(rewrites_[i].name))] +=
            static_cast<int64_t>(applied_[i]);
    }
    out->count = total_;
    out->last = last_;
  }

 private:
  static Status ok(tenon_code_t code) { return from_abi(code, "rewriting"); }

  void queue(tenon_node_t node) {
    if (node == TENON_NONE) return;
    if (node >= queued_.size()) queued_.resize(node + 1);
    if (queued_[node]) return;
    queued_[node] = true;
    work_.push_back(node);
  }

  Status queue_region(tenon_region_t region) {
    auto view = sized<tenon_region_view_t>();
    TENON_RETURN_IF_ERROR(ok(api_.region_view(api_.self, graph_, region, &view)));
    const std::vector<tenon_node_t> nodes(view.nodes, view.nodes + view.node_count);
    for (const tenon_node_t node : nodes) {
      tenon_node_view_t inner = {};
      TENON_RETURN_IF_ERROR(look(node, inner));
      const std::vector<tenon_region_t> regions(inner.regions, inner.regions + inner.region_count);
      for (const tenon_region_t nested : regions) TENON_RETURN_IF_ERROR(queue_region(nested));
      queue(node);
    }
    return {};
  }

  Status look(tenon_node_t node, tenon_node_view_t& view) const {
    view.size_bytes = sizeof view;
    return ok(api_.node_view(api_.self, graph_, node, &view));
  }

  Status visit(tenon_node_t node) {
    tenon_node_view_t view = {};
    TENON_RETURN_IF_ERROR(look(node, view));
    if (view.parent == TENON_NONE) return {};
    for (const tenon_sym_t root : {view.op, tenon_sym_t{0}}) {
      const auto found = by_root_.find(root);
      if (found == by_root_.end()) continue;
      for (const uint32_t i : found->second) {
        Outcome outcome = Outcome::kNoMatch;
        TENON_RETURN_IF_ERROR(attempt(i, node, outcome), "the rewrite {} at the node {}",
                              quoted(from_abi_str(rewrites_[i].name)), describe(node));
        if (outcome == Outcome::kApplied) return bounded(i, node);
        if (outcome == Outcome::kLeftOut) return {};
      }
    }
    return {};
  }

  enum class Outcome : uint8_t { kNoMatch, kApplied, kLeftOut };

  // Whether the match that was just made is to be applied. If not, what was built for it goes.
  bool wanted(uint32_t i, tenon_node_t node, tenon_node_t first_new) {
    if (applications_.all()) return true;
    ++matches_;
    if (matches_ >= applications_.first && matches_ <= applications_.last) {
      last_ = fmt::format("{} at {}", quoted(from_abi_str(rewrites_[i].name)), describe(node));
      return true;
    }
    // Those whose symbols are used stay until dce, as unused nodes.
    for (tenon_node_t n = node_limit(); n > first_new; --n)
      (void)api_.node_erase(api_.self, graph_, n - 1);
    clear_failure();
    return false;
  }

  Status attempt(uint32_t i, tenon_node_t node, Outcome& outcome) {
    tenon_node_view_t view = {};
    TENON_RETURN_IF_ERROR(look(node, view));
    const tenon_builder_t builder = {graph_, view.parent, node, view.loc};
    const std::vector<tenon_value_t> results(view.results, view.results + view.result_count);
    const std::vector<tenon_value_t> operands(view.operands, view.operands + view.operand_count);
    std::vector<tenon_value_t> built(results.size(), TENON_NONE);
    const tenon_node_t first_new = node_limit();
    uint32_t answer = 0;
    clear_failure();
    const tenon_code_t code =
        rewrites_[i].match_and_build(rewrites_[i].self, &builder, node, built.data(), &answer);
    if (code != TENON_OK) return from_abi(code, "match_and_build");
    if (answer == 0) return {};
    outcome = wanted(i, node, first_new) ? Outcome::kApplied : Outcome::kLeftOut;
    if (outcome == Outcome::kLeftOut) return {};
    for (size_t r = 0; r < results.size(); ++r)
      TENON_RETURN_IF_ERROR(replace(results[r], built[r]));
    TENON_RETURN_IF_ERROR(
        from_abi(api_.node_erase(api_.self, graph_, node), "erasing what was replaced"));
    for (const tenon_value_t operand : operands) release(operand);
    for (tenon_node_t n = first_new; n < node_limit(); ++n) queue(n);
    return {};
  }

  Status replace(tenon_value_t from, tenon_value_t to) {
    if (to == TENON_NONE || to == from) {
      return error(TENON_INTERNAL, "T0407", "a match left a result without a replacement");
    }
    TENON_RETURN_IF_ERROR(
        from_abi(api_.value_replace(api_.self, graph_, from, to), "replacing a result"));
    const tenon_use_t* uses = nullptr;
    uint32_t count = 0;
    TENON_RETURN_IF_ERROR(ok(api_.value_uses(api_.self, graph_, to, &uses, &count)));
    for (uint32_t u = 0; u < count; ++u) queue(uses[u].node);
    queue_definition(to);
    return {};
  }

  // The node that defines a value; NONE for arguments and constants.
  tenon_node_t definition(tenon_value_t value) const {
    auto view = sized<tenon_value_view_t>();
    if (value == TENON_NONE || api_.value_view(api_.self, graph_, value, &view) != TENON_OK)
      return TENON_NONE;
    return view.kind == TENON_VALUE_RESULT ? view.node : TENON_NONE;
  }
  void queue_definition(tenon_value_t value) { queue(definition(value)); }

  // A use of `value` is gone. Nodes that only served the replaced node are erased too, so that
  // patterns that require a single use see the truth; the rest is queued again.
  void release(tenon_value_t value) {
    std::vector<tenon_value_t> freed = {value};
    while (!freed.empty()) {
      const tenon_node_t node = definition(freed.back());
      freed.pop_back();
      if (node == TENON_NONE) continue;
      tenon_node_view_t view = {};
      if (!look(node, view).ok() || view.parent == TENON_NONE) continue;
      const std::vector<tenon_value_t> operands(view.operands, view.operands + view.operand_count);
      if (is_dead(view) && api_.node_erase(api_.self, graph_, node) == TENON_OK) {
        freed.insert(freed.end(), operands.begin(), operands.end());
      } else {
        queue(node);
      }
    }
  }

  bool is_dead(const tenon_node_view_t& view) const {
    const tenon_op_def_t* op = nullptr;
    if (registry_ == nullptr ||
        registry_->op_find(registry_->self, view.op, view.op_version, &op) != TENON_OK)
      return false;
    if ((op->traits & TENON_TRAIT_PURE) == 0 || (op->traits & TENON_TRAIT_ORDERED) != 0)
      return false;
    for (uint32_t i = 0; i < view.result_count; ++i) {
      auto result = sized<tenon_value_view_t>();
      if (api_.value_view(api_.self, graph_, view.results[i], &result) != TENON_OK ||
          result.use_count > 0)
        return false;
    }
    return true;
  }

  tenon_node_t node_limit() const {
    auto view = sized<tenon_graph_view_t>();
    return api_.graph_view(api_.self, graph_, &view) == TENON_OK ? view.node_limit : 0;
  }

  Status bounded(uint32_t i, tenon_node_t node) {
    ++applied_[i];
    if (++total_ <= bound_) return {};
    size_t most = 0;
    for (size_t r = 0; r < applied_.size(); ++r) {
      if (applied_[r] > applied_[most]) most = r;
    }
    return error(
        TENON_INTERNAL, "T0406",
        "the rewrite {} does not settle: it was applied {} times, last at or near the node {}",
        quoted(from_abi_str(rewrites_[most].name)), applied_[most], describe(node));
  }

  // "`add` (model.onnx: Add_3)".
  std::string describe(tenon_node_t node) const {
    auto view = sized<tenon_node_view_t>();
    if (api_.node_view(api_.self, graph_, node, &view) != TENON_OK) return "?";
    std::string place;
    const tenon_sink_t sink = sink_into(place);
    (void)api_.loc_text(api_.self, graph_, view.loc, &sink);
    return fmt::format("{} ({})",
                       quoted(from_abi_str(tables_.host->sym_text(tables_.host->self, view.op))),
                       printable(place));
  }

  const HostTables& tables_;
  const tenon_host_graph_t& api_;
  const tenon_host_registry_t* registry_ = nullptr;
  tenon_graph_t* graph_;
  std::span<const tenon_rewrite_t> rewrites_;
  const Applications applications_;
  uint64_t matches_ = 0;
  std::string last_;
  std::unordered_map<tenon_sym_t, std::vector<uint32_t>> by_root_;
  std::vector<uint64_t> applied_;
  std::vector<tenon_node_t> work_;
  std::vector<bool> queued_;
  uint64_t bound_ = 0, total_ = 0, steps_ = 0;
};

}  // namespace

Status drive_rewrites(const HostTables& tables, tenon_graph_t* graph,
                      std::span<const tenon_rewrite_t> rewrites, const Applications& applications,
                      Rewritten* out) {
  Driver driver(tables, graph, rewrites, applications);
  Status status = driver.all();
  driver.tell(out);
  return status;
}

}  // namespace tenon::pass
