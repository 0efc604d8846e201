#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "common.h"

namespace tenon::passes {
namespace {

constexpr tenon_str_t kStatistics[] = {str("op-fold"), str("op-rewrite"), str("idempotent"),
                                       str("constant-right")};

// Calls a function of an op's declaration that builds one value for each result.
template <class Call>
Status ask(const Node& node, std::vector<Value>* out, Call call) {
  std::vector<tenon_value_t> built(node.result_count(), TENON_NONE);
  uint32_t matched = 0;
  TENON_TRY(call(built.data(), &matched));
  for (const tenon_value_t value : built) {
    if (matched != 0) out->push_back(Value(node.graph(), value));
  }
  return {};
}

// The op's own fold. Its declaration states why it terminates.
Status op_fold(Builder& builder, const Node& node, std::vector<Value>* out) {
  const tenon_op_def_t* op = op_of(node);
  if (op == nullptr || op->fold == nullptr) return {};
  return ask(node, out, [&](tenon_value_t* built, uint32_t* matched) {
    return op->fold(op->self, &builder.raw(), node.id(), built, matched);
  });
}

using Rewrites = std::unordered_map<tenon_sym_t, std::vector<const tenon_rewrite_t*>>;

Rewrites collect_rewrites() {
  Rewrites found;
  (void)registry().op_each(
      registry().self, &found, [](void* self, const tenon_op_def_t* op, tenon_str_t) {
        const char* record = reinterpret_cast<const char*>(op->rewrites);
        for (uint64_t i = 0; i < op->rewrite_count; ++i) {
          const auto* rewrite = reinterpret_cast<const tenon_rewrite_t*>(record);
          const tenon_sym_t root = rewrite->root.size == 0 ? 0 : intern(view(rewrite->root));
          (*static_cast<Rewrites*>(self))[root].push_back(rewrite);
          record += rewrite->size_bytes;
        }
      });
  return found;
}

// The definitions of ops change only if a program registers plugins, which an older host cannot.
uint64_t op_changes() {
  const tenon_host_registry_t& host = registry();
  const bool has_slot = host.size_bytes > offsetof(tenon_host_registry_t, op_changes);
  return has_slot && host.op_changes != nullptr ? host.op_changes(host.self) : 0;
}

// The rewrites of all ops, by the op that they match, which need not be the op that declares them.
std::shared_ptr<const Rewrites> all_rewrites() {
  static std::mutex mutex;
  static std::shared_ptr<const Rewrites> table;
  static uint64_t made_at = 0;
  const std::lock_guard lock(mutex);
  const uint64_t now = op_changes();
  if (table == nullptr || made_at != now) {
    table = std::make_shared<const Rewrites>(collect_rewrites());
    made_at = op_changes() == now ? now : UINT64_MAX;  // collecting may load plugins
  }
  return table;
}

// Rewrites come from current definitions, and know nothing of a node of an earlier one.
bool is_current(const Node& node) {
  const tenon_op_def_t* op = nullptr;
  return registry().op_find(registry().self, node.view().op, 0, &op) == TENON_OK &&
         op->version == node.view().op_version;
}

Status op_rewrite(Builder& builder, const Node& node, std::vector<Value>* out) {
  const std::shared_ptr<const Rewrites> rewrites = all_rewrites();
  for (const tenon_sym_t root : {node.view().op, tenon_sym_t{0}}) {
    const auto found = rewrites->find(root);
    if (found == rewrites->end() || !is_current(node)) continue;
    for (const tenon_rewrite_t* rewrite : found->second) {
      TENON_TRY(ask(node, out, [&](tenon_value_t* built, uint32_t* matched) {
        return rewrite->match_and_build(rewrite->self, &builder.raw(), node.id(), built, matched);
      }));
      if (!out->empty()) return {};
    }
  }
  return {};
}

// relu of relu, floor of floor: the second has no effect. Ends: one node fewer each time.
Status idempotent(Builder&, const Node& node, std::vector<Value>* out) {
  const Node inner = node.operand(0).node();
  if (node.operand_count() != 1 || node.view().attr_count != 0 || !inner ||
      inner.view().op != node.view().op || inner.view().op_version != node.view().op_version)
    return {};
  if (has_trait(op_of(node), TENON_TRAIT_IDEMPOTENT)) *out = {node.operand(0)};
  return {};
}

// Moves a constant left operand of a commutative op to the right, where patterns look for it. Ends:
// afterwards the left operand is not constant.
Status constant_right(Builder& builder, const Node& node, std::vector<Value>* out) {
  if (node.operand_count() != 2 || !node.operand(0).is_constant() || node.operand(1).is_constant())
    return {};
  if (!has_trait(op_of(node), TENON_TRAIT_COMMUTATIVE)) return {};
  const tenon_node_view_t& view = node.view();
  const tenon_value_t operands[] = {view.operands[1], view.operands[0]};
  auto spec = sized<tenon_node_spec_t>();
  spec.op = view.op;
  spec.op_version = view.op_version;
  spec.loc = view.loc;
  spec.operands = operands;
  spec.operand_count = 2;
  spec.attrs = view.attrs;
  spec.attr_count = view.attr_count;
  tenon_node_t built = TENON_NONE;
  TENON_TRY(graph_api().node_build(graph_api().self, &builder.raw(), &spec, &built));
  const Node swapped(node.graph(), built);
  for (uint32_t i = 0; i < swapped.result_count(); ++i) out->push_back(swapped.result(i));
  return {};
}

constexpr tenon_rewrite_t kRewrites[] = {
    rewrite<op_fold>("op-fold", "", 3),
    rewrite<op_rewrite>("op-rewrite", "", 2),
    rewrite<idempotent>("idempotent", "", 2),
    rewrite<constant_right>("constant-right", "", 1),
};

constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  %0 = const f32[2] [1, 2]
  %1 = const f32[2] splat 1
  %2 = add(%0, %x) : f32[2]
  %3 = mul(%1, %2) : f32[2]
  yield %3
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  %0 = const f32[2] [1, 2]
  %1 = add(%x, %0) : f32[2]
  yield %1
}
)";

constexpr auto kPass =
    pass("canonicalize", "Applies the simplifications that ops declare.")
        .describe(
            "Runs the folds and the rewrites of every op until nothing changes: x + "
            "0, a transpose of a transpose, a reshape to the same shape. An "
            "idempotent op applied to itself is done once. Constants of commutative "
            "ops move to the right.")
        .example(kBefore, kAfter)
        .statistics(kStatistics)
        .rewrites(kRewrites);

}  // namespace
}  // namespace tenon::passes

TENON_PASS(canonicalize, tenon::passes::kPass)
