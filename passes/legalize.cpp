#include "common.h"

namespace tenon::passes {
namespace {

constexpr tenon_str_t kStatistics[] = {str("inlined")};

// Composites may nest; a deeper nesting than this is a cycle of declarations.
constexpr int kRoundsMax = 64;

// The decomposition that takes the place of a node that no device takes; null for none. Complex
// numbers have their own, also in ops that are primitive for real ones.
decltype(tenon_op_def_t::decompose) decomposition_of(const Node& node) {
  const tenon_op_def_t* op = op_of(node);
  if (op == nullptr) return nullptr;
  if (op->decompose_complex != nullptr && is_complex_node(node)) return op->decompose_complex;
  return has_trait(op, TENON_TRAIT_COMPOSITE) ? op->decompose : nullptr;
}

void composites(Region region, std::vector<tenon_node_t>* out) {
  for (const tenon_node_t id : region.node_ids()) {
    const Node node(region.graph(), id);
    if (decomposition_of(node) != nullptr) out->push_back(id);
    const tenon_node_view_t view = node.view();
    const std::vector<tenon_region_t> inner(view.regions, view.regions + view.region_count);
    for (const tenon_region_t r : inner) composites(Region(region.graph(), r), out);
  }
}

// The dims of a composite and of its decomposition are equal wherever both are valid. Where that
// cannot be proved it is asserted, and every run checks it.
Status assert_equal(Value a, Value b) {
  const Dims x = a.dims(), y = b.dims();
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (compare(TENON_REL_EQ, x[i], y[i]) != TENON_MAYBE) continue;
    TENON_TRY(graph_api().symbol_assert(graph_api().self, a.graph(), TENON_REL_EQ, x[i].raw(),
                                        y[i].raw()));
  }
  return {};
}

Status inline_node(const Node& node, const PassContext& context) {
  const tenon_builder_t at = {node.graph(), node.view().parent, node.id(), node.view().loc};
  std::vector<Value> results;
  for (uint32_t i = 0; i < node.result_count(); ++i) results.push_back(node.result(i));
  std::vector<tenon_value_t> built(results.size(), TENON_NONE);
  TENON_TRY(decomposition_of(node)(op_of(node)->self, &at, node.id(), built.data()));
  for (size_t i = 0; i < results.size(); ++i) {
    const Value made(node.graph(), built[i]);
    TENON_TRY(assert_equal(results[i], made));
    TENON_TRY(replace(results[i], made));
  }
  context.count("inlined");
  return erase(Node(node.graph(), node.id()));
}

// Works in rounds, with all queries before all changes, so that devices look at one graph per round
// and not at one per node. It terminates because decompositions consist of smaller ops; the bound
// on rounds covers declarations that break this rule.
Status run(tenon_graph_t* graph, const PassContext& context) {
  for (int round = 0; round < kRoundsMax; ++round) {
    std::vector<tenon_node_t> found, unclaimed;
    composites(main_region(graph), &found);
    for (const tenon_node_t id : found) {
      if (!context.claimed(Node(graph, id))) unclaimed.push_back(id);
    }
    if (unclaimed.empty()) return {};
    for (const tenon_node_t id : unclaimed) {
      // Nodes inside of a call that was inlined have gone with it; their copies are for the next
      // round.
      if (!Node(graph, id).erased()) TENON_TRY(inline_node(Node(graph, id), context));
    }
  }
  return fail(TENON_INTERNAL,
              "T0405: decompositions did not end after 64 rounds: an op decomposes into itself");
}

constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  %0 = square(%x) : f32[2]
  yield %0
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  %0 = mul(%x, %x) : f32[2]
  yield %0
}
)";

constexpr auto kPass =
    pass("legalize", "Inlines composites that no planned device takes whole.")
        .describe(
            "Each composite (softmax, layer_norm, ...) that no device claims is "
            "replaced by its decomposition, until only claimed composites and smaller "
            "ops are left. Ops of complex numbers become ops of their parts in the same way. "
            "Without devices, as in `tenon opt`, every composite is "
            "inlined.")
        .example(kBefore, kAfter)
        .statistics(kStatistics)
        .establishes("legal")
        .run<run>();

}  // namespace
}  // namespace tenon::passes

TENON_PASS(legalize, tenon::passes::kPass)
