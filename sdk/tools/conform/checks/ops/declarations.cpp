// Group G, ops: declarations. inference.cpp, meaning.cpp and values.cpp have the rest.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

#include "sdk/tools/conform/checks/ops/op_call.h"
#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

// The host's answer about the op: why its declaration was refused, or which plugin has it.
std::string why_missing(const HostTables& host, std::string_view name) {
  const tenon_op_def_t* found = nullptr;
  const tenon_sym_t sym = host.host->intern(host.host->self, {name.data(), name.size()});
  if (host.registry->op_find(host.registry->self, sym, 0, &found) == TENON_OK)
    return "another plugin has it";
  return last_failure(host).text;
}

// The ops in the table, whether the host registered them or not.
Outcome declared_ops(Session& s, HostTables* host, std::vector<const tenon_op_def_t*>* out) {
  PluginOps registered;
  const Outcome found = find_ops(s, &registered);
  if (found.verdict == Verdict::kNotOffered) return found;
  CONFORM_TRY(find_host(host));
  for (const host::Provided& provided : s.subject().manifest.provides) {
    if (provided.kind != "op") continue;
    const void* table = nullptr;
    constexpr std::string_view kId = TENON_OPS_ID;
    if (host->registry->plugin_interface(host->registry->self, {"op", 2},
                                         {provided.name.data(), provided.name.size()},
                                         {kId.data(), kId.size()}, &table) != TENON_OK)
      return failed("op {}: {}", quoted(provided.name), last_failure(*host).text);
    const auto* ops = static_cast<const tenon_ops_t*>(table);
    for (uint64_t i = 0; out->empty() && i < ops->op_count; ++i) out->push_back(ops->ops[i]);
    const auto taken = [&](const tenon_op_def_t* op) { return view(op->name) == provided.name; };
    CONFORM_EXPECT(std::any_of(registered.ops.begin(), registered.ops.end(), taken),
                   "op {} is not registered: {}", quoted(provided.name),
                   why_missing(*host, provided.name));
    break;  // one table holds all ops
  }
  for (const host::Provided& provided : s.subject().manifest.provides) {
    const auto taken = [&](const tenon_op_def_t* op) { return view(op->name) == provided.name; };
    CONFORM_EXPECT(
        provided.kind != "op" || std::any_of(registered.ops.begin(), registered.ops.end(), taken),
        "op {} is not registered: {}", quoted(provided.name), why_missing(*host, provided.name));
  }
  return pass();
}

// Fails if other plugins claim one of the ops as well.
Outcome nobody_else_has(Session& s, const HostTables& host) {
  std::string text;
  const tenon_sink_t sink = sink_to(&text);
  constexpr std::string_view kWhat = "plugins";
  if (host.session->explain(host.session->self, {kWhat.data(), kWhat.size()}, {nullptr, 0},
                            &sink) != TENON_OK)
    return pass();
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("plugins")) return pass();
  for (const auto& plugin : json["plugins"]) {
    const std::string name = plugin.value("name", "");
    if (name == s.subject().manifest.name || !plugin.contains("provides") ||
        !plugin["provides"].contains("op"))
      continue;
    for (const auto& op : plugin["provides"]["op"]) {
      for (const host::Provided& provided : s.subject().manifest.provides) {
        CONFORM_EXPECT(provided.kind != "op" || op != provided.name, "plugin {} has an op {} too",
                       quoted(name), quoted(provided.name));
      }
    }
  }
  return pass();
}

Outcome op_declared(Session& s) {
  HostTables host;
  std::vector<const tenon_op_def_t*> ops;
  CONFORM_TRY(declared_ops(s, &host, &ops));
  CONFORM_TRY(nobody_else_has(s, host));
  for (const tenon_op_def_t* op : ops) {
    const std::string name = name_of(*op);
    CONFORM_EXPECT(op->version > 0, "{} has version 0", name);
    CONFORM_EXPECT(op->summary.size != 0, "{} has no summary", name);
    CONFORM_EXPECT(op->example_count != 0, "{} has no example", name);
    for (uint32_t i = 0; i < op->operand_count; ++i)
      CONFORM_EXPECT(
          tenon_op_operand(op, i)->name.size != 0 && tenon_op_operand(op, i)->doc.size != 0,
          "operand {} of {} has no name or no documentation", i, name);
    for (uint32_t i = 0; i < op->attr_count; ++i)
      CONFORM_EXPECT(tenon_op_attr(op, i)->name.size != 0 && tenon_op_attr(op, i)->doc.size != 0,
                     "attribute {} of {} has no name or no documentation", i, name);
  }
  return pass();
}

Outcome op_examples(Session& s) {
  PluginOps plugin;
  CONFORM_TRY(find_ops(s, &plugin));
  for (const tenon_op_def_t* op : plugin.ops) {
    for (uint32_t i = 0; i < op->example_count; ++i) {
      const std::string text = printable(view(op->examples[i]), 300);
      s.step(text);
      Example example;
      std::string why;
      CONFORM_EXPECT(read_example(plugin.host, op, view(op->examples[i]), &example, &why), "{}: {}",
                     text, why);
      std::vector<Array> found;
      CONFORM_EXPECT(evaluate_graph(plugin.host, example.call.graph.get(), {}, &found, &why),
                     "{}: {}", text, why);
      CONFORM_EXPECT(found.size() == example.expected.size(), "{}: it has {} results", text,
                     found.size());
      for (size_t r = 0; r < found.size(); ++r) {
        const std::string wrong = difference(found[r], example.expected[r], tolerance_of(*op));
        CONFORM_EXPECT(wrong.empty(), "{}: result {}: {}", text, r, wrong);
      }
    }
  }
  return pass();
}

Outcome op_negatives(Session& s) {
  PluginOps plugin;
  CONFORM_TRY(find_ops(s, &plugin));
  size_t tried = 0;
  for (const tenon_op_def_t* op : plugin.ops) {
    std::set<std::string_view> labels;
    for (uint32_t i = 0; i < op->constraint_count; ++i) {
      const tenon_constraint_def_t& c = *tenon_op_constraint(op, i);
      const std::string text = printable(view(c.negative), 300);
      s.step(text);
      CONFORM_EXPECT(labels.insert(view(c.label)).second, "{} declares the label {} twice",
                     name_of(*op), quoted(view(c.label)));
      CONFORM_EXPECT(c.text.size != 0 && c.negative.size != 0,
                     "constraint {} of {} has no text or no negative", quoted(view(c.label)),
                     name_of(*op));
      std::string of;
      Failure why;
      CONFORM_EXPECT(!read_negative(plugin.host, view(c.negative), &of, &why),
                     "{} is accepted, and should break {}", text, view(c.label));
      CONFORM_EXPECT(of == view(op->name), "{} is not a call of {}", text, name_of(*op));
      CONFORM_EXPECT(why.constraint == view(c.label), "{} should break {}: {}", text, view(c.label),
                     why.text);
      ++tried;
    }
  }
  return tried == 0 ? not_offered("its ops have no constraints") : pass();
}

constexpr Check kChecks[] = {
    {"R-G01", "op-declared", op_declared},
    {"R-G02", "op-examples", op_examples},
    {"R-G03", "op-negatives", op_negatives},
};

}  // namespace

std::span<const Check> op_checks() {
  static const auto* all = new std::vector<Check>(
      joined({kChecks, op_inference_checks(), op_meaning_checks(), op_value_checks()}));
  return *all;
}

}  // namespace tenon::conform
