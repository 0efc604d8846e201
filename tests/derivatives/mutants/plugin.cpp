// A pass, `mutants`, after which the rules of ops are called through this plugin: it writes down
// what they build, or changes it. For tests/derivatives/mutants.py, one thread, one process: the
// host's records of ops are written to.
#include <fstream>
#include <map>
#include <set>
#include <tenon/cpp/pass.hpp>

#include "changes.h"

namespace tenon::mutants {
namespace {

struct Wrapped {
  tenon_op_def_t op;       // as declared
  tenon_op_rules_t rules;  // as declared
  tenon_op_rules_t* live;  // what the host has; null if the op has no rules
};
struct State {
  std::map<std::string, Wrapped, std::less<>> ops;
  std::string op, rule, what;  // the change that is in force
  uint64_t changed = 0;        // how often it was done
  bool is_watching = false;
  std::set<std::string> seen;  // lines: op, rule, change
} g;

const Wrapped& wrapped(std::string_view op) {
  return g.ops.find(op)->second;
}

void note(std::string_view op, std::string_view rule, std::string_view what) {
  g.seen.insert(cat(op, "\t", rule, "\t", what));
}

void watch(const Emission& e, std::string_view rule) {
  const std::string op(e.source.op());
  note(op, rule, "");
  for (const std::string& what : changes_of_results(e)) note(op, rule, what);
  std::vector<std::pair<Node, Change>> all;
  each_change(e, [&](const Node& node, const Change& change) { all.emplace_back(node, change); });
  for (const auto& [node, change] : all) {
    if (g.seen.contains(cat(op, "\t", rule, "\t", change.name))) continue;
    const tenon_node_t first = next_node(node.graph());
    Builder b = Builder::before(node);
    if (!values_of(b, node, change).empty()) note(op, rule, change.name);
    erase_since(node.graph(), first);
  }
}

void change(const Emission& e, std::vector<Value>* results) {
  if (change_result(e, g.what, results)) {
    ++g.changed;
    return;
  }
  std::vector<std::pair<Node, Change>> found;
  each_change(e, [&](const Node& node, const Change& one) {
    if (one.name == g.what) found.emplace_back(node, one);
  });
  if (!found.empty() && apply(e, found[0].first, found[0].second, results)) ++g.changed;
}

std::vector<Value> values(tenon_graph_t* graph, const tenon_value_t* ids, uint32_t count) {
  std::vector<Value> out;
  for (uint32_t i = 0; i < count; ++i) out.push_back(Value(graph, ids[i]));
  return out;
}

// Around one call of a rule that gives `count` results.
template <class Call>
tenon_code_t around(const char* rule, const tenon_builder_t* at, tenon_node_t id,
                    std::vector<Value> given, tenon_value_t* out, uint32_t count, Call call) {
  return detail::guarded(context().host, [&]() -> Status {
    const Node source(at->graph, id);
    const tenon_node_t first = next_node(at->graph);
    TENON_TRY(call(wrapped(source.op()).rules));
    const bool is_changed = g.op == source.op() && g.rule == rule;
    if (!g.is_watching && !is_changed) return {};
    std::vector<Value> results = values(at->graph, out, count);
    const Emission e = {at, source, std::move(given), first, results, rule == std::string("batch")};
    if (g.is_watching) watch(e, rule);
    if (is_changed) change(e, &results);
    for (uint32_t i = 0; i < count; ++i) out[i] = results[i].id();
    return {};
  });
}

tenon_code_t jvp(void* self, const tenon_builder_t* at, tenon_node_t id,
                 const tenon_value_t* tangents, tenon_value_t* out) {
  const Node node(at->graph, id);
  return around("jvp", at, id, values(at->graph, tangents, node.operand_count()), out,
                node.result_count(), [&](const tenon_op_rules_t& rules) {
                  return Status(rules.jvp(self, at, id, tangents, out));
                });
}
tenon_code_t transpose(void* self, const tenon_builder_t* at, tenon_node_t id, uint32_t operand,
                       const tenon_value_t* cotangents, tenon_value_t* out) {
  const Node node(at->graph, id);
  return around("transpose", at, id, values(at->graph, cotangents, node.result_count()), out, 1,
                [&](const tenon_op_rules_t& rules) {
                  return Status(rules.transpose(self, at, id, operand, cotangents, out));
                });
}
tenon_code_t pull(void* self, const tenon_builder_t* at, tenon_node_t id, const uint8_t* wanted,
                  const tenon_value_t* cotangents, tenon_value_t* out) {
  const Node node(at->graph, id);
  return around("pull", at, id, values(at->graph, cotangents, node.result_count()), out,
                node.operand_count(), [&](const tenon_op_rules_t& rules) -> Status {
                  TENON_TRY(rules.pull(self, at, id, wanted, cotangents, out));
                  for (uint32_t i = 0; i < node.operand_count(); ++i) {
                    if (wanted[i] == 0) out[i] = TENON_NONE;
                  }
                  return {};
                });
}
tenon_code_t batch(void* self, const tenon_builder_t* at, tenon_node_t id,
                   const tenon_value_t* operands, const uint8_t* is_batched, tenon_dim_t size,
                   tenon_value_t* out, uint8_t* out_batched) {
  const Node node(at->graph, id);
  return around(
      "batch", at, id, values(at->graph, operands, node.operand_count()), out, node.result_count(),
      [&](const tenon_op_rules_t& rules) {
        return Status(rules.batch(self, at, id, operands, is_batched, size, out, out_batched));
      });
}
// Which ops a test has nodes of.
tenon_code_t infer(void* self, const tenon_infer_t* query) {
  const Wrapped& op = wrapped(view(query->op->name));
  if (g.is_watching) note(view(op.op.name), "node", "");
  return op.op.infer(self, query);
}

void wrap(void*, const tenon_op_def_t* op, tenon_str_t) {
  // The host's own copies, which are not in read-only memory.
  auto* live = const_cast<tenon_op_def_t*>(op);
  auto* rules = const_cast<tenon_op_rules_t*>(op->rules);
  Wrapped& own = g.ops[std::string(view(op->name))];
  own = {*op, rules != nullptr ? *rules : tenon_op_rules_t(), rules};
  own.op.rules = &own.rules;
  live->infer = &infer;
}
// The rules as declared, called through this plugin.
void reset(const Wrapped& op) {
  if (op.live == nullptr) return;
  *op.live = op.rules;
  if (op.live->jvp != nullptr) op.live->jvp = &jvp;
  if (op.live->transpose != nullptr) op.live->transpose = &transpose;
  if (op.live->pull != nullptr) op.live->pull = &pull;
  if (op.live->batch != nullptr) op.live->batch = &batch;
}

Status select(std::string_view op, std::string_view rule, std::string_view what) {
  for (const auto& [_, one] : g.ops) reset(one);
  g.op = op, g.rule = rule, g.what = what;
  g.changed = 0;
  const auto found = g.ops.find(op);
  if (op.empty() || g.rule == "jvp" || g.rule == "transpose" || g.rule == "pull" ||
      g.rule == "batch")
    return {};
  if (found == g.ops.end() || found->second.live == nullptr ||
      !change_declared(found->second.op, g.rule, g.what, found->second.live))
    return fail(TENON_INVALID_ARGUMENT, "T0405: there is no such change");
  ++g.changed;
  return {};
}

constexpr tenon_pass_option_def_t kOptions[] = {
    {str("op"), str("of this op"), TENON_ATTR_STRING, 0, {}},
    {str("rule"), str("this rule"), TENON_ATTR_STRING, 0, {}},
    {str("what"), str("is changed in this way"), TENON_ATTR_STRING, 0, {}},
    {str("watch"), str("1: the changes that are possible are noted"), TENON_ATTR_I64, 0, str("0")},
    {str("out"), str("file for what was noted since the last time"), TENON_ATTR_STRING, 0, {}}};

// What was noted, and how often the change in force was done.
void write(const std::string& path) {
  std::ofstream file(path);
  file << g.changed << "\n";
  for (const std::string& line : g.seen) file << line << "\n";
}
void declared() {
  for (const auto& [name, op] : g.ops) {
    if (op.live == nullptr) continue;
    for (const auto& [rule, what] : declared_changes(op.op)) note(name, rule, what);
    const tenon_op_rules_t& rules = op.rules;
    if (rules.jvp != nullptr) note(name, "jvp", "");
    if (rules.transpose != nullptr) note(name, "transpose", "");
    if (rules.pull != nullptr) note(name, "pull", "");
    if (rules.batch != nullptr) note(name, "batch", "");
  }
}

Status run(tenon_graph_t*, const PassContext& context) {
  if (g.ops.empty()) {
    const auto* registry = tenon::context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
    TENON_TRY(registry->op_each(registry->self, nullptr, &wrap));
    declared();
  }
  if (!context.text(4).empty()) write(std::string(context.text(4)));
  g.seen.clear();
  g.is_watching = context.i64(3) != 0;
  return select(context.text(0), context.text(1), context.text(2));
}

constexpr std::string_view kGraph = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  yield %x
}
)";
constexpr auto kPass = pass("mutants", "Changes what rules of ops build.")
                           .example(kGraph, kGraph)
                           .options(kOptions)
                           .run<run>();
constexpr const tenon_pass_def_t* kPasses[] = {&kPass.def};
constexpr tenon_passes_t kTable = {sizeof(tenon_passes_t), nullptr, kPasses, std::size(kPasses)};
constexpr tenon_interface_t kInterfaces[] = {offer(TENON_PASS_ID, kTable)};

}  // namespace
}  // namespace tenon::mutants

TENON_PLUGIN("mutants", "0.1.0", tenon::mutants::kInterfaces)
