#include "dce_regions.h"

namespace tenon::passes {
namespace {

constexpr tenon_str_t kStatistics[] = {str("removed"), str("pruned")};

// Visits inner regions first and nodes backwards, so that one traversal removes whole chains.
Status sweep(Region region, const PassContext& context) {
  const std::vector<tenon_node_t> ids = region.node_ids();
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
    const Node node(region.graph(), *id);
    bool used = false;
    for (uint32_t i = 0; i < node.result_count(); ++i) used |= node.result(i).use_count() > 0;
    const bool dead = !used && is_removable(op_of(node));
    // The host refuses to erase a node whose symbols occur in another value's type; such
    // definitions stay.
    if (dead && erase(node).ok()) {
      context.count("removed");
      continue;
    }
    if (node.view().region_count == 0) continue;
    Node now = node;
    int64_t pruned = 0;
    TENON_TRY(prune_regions(&now, &pruned));
    if (pruned != 0) context.count("pruned", pruned);
    const tenon_node_view_t view = now.view();
    const std::vector<tenon_region_t> inner(view.regions, view.regions + view.region_count);
    for (const tenon_region_t r : inner) TENON_TRY(sweep(Region(region.graph(), r), context));
  }
  return {};
}

Status run(tenon_graph_t* graph, const PassContext& context) {
  return sweep(main_region(graph), context);
}

constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  %0 = neg(%x) : f32[2]
  %1 = exp(%0) : f32[2]
  %2 = sin(%1) : f32[2]
  yield %0
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  %0 = neg(%x) : f32[2]
  yield %0
}
)";

constexpr auto kPass =
    pass("dce", "Removes nodes with unused results.")
        .describe(
            "A node stays if it has an effect, if it is ordered by tokens, or if it "
            "defines a symbol that a type mentions. Bodies of control flow are cleaned too: "
            "results "
            "that nothing uses, values that only carry themselves on, and operands that no region "
            "uses are left out.")
        .example(kBefore, kAfter)
        .statistics(kStatistics)
        .preserves("legal, folded")
        .run<run>();

}  // namespace
}  // namespace tenon::passes

TENON_PASS(dce, tenon::passes::kPass)
