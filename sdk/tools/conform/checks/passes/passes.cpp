// Group G, passes: what each does to its own example, to modified forms of it, and to random
// graphs.
#include <sys/mman.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include <tenon/abi/pass.h>
#include <tenon/cpp/dtype.hpp>

#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/fixtures/graphs/host_graph.h"
#include "sdk/tools/conform/fixtures/graphs/random_graph.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

constexpr uint64_t kRandomGraphs = 40;
constexpr int64_t kSymbolSize = 3;
constexpr unsigned kThreads = 4;

struct PluginPasses {
  HostTables host;
  std::vector<const tenon_pass_def_t*> passes;
};

Outcome find_passes(Session& s, PluginPasses* out) {
  const void* table = nullptr;
  CONFORM_TRY(find_table(s, "pass", TENON_PASS_ID, &out->host, &table));
  const auto* passes = static_cast<const tenon_passes_t*>(table);
  for (uint64_t i = 0; i < passes->pass_count; ++i) out->passes.push_back(passes->passes[i]);
  return out->passes.empty() ? not_offered("a pass") : pass();
}

std::string name_of(const tenon_pass_def_t& def) {
  return printable(view(def.name));
}

// ---- Running one ----

// The options of a pass in memory that ends where they end: reading one more crashes.
const tenon_attr_t* guarded_options(const HostTables& host, const tenon_pass_def_t& def) {
  constexpr size_t kRoom = 1 << 16;
  auto* base = static_cast<char*>(
      ::mmap(nullptr, 2 * kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (base == MAP_FAILED || def.option_count * sizeof(tenon_attr_t) > kRoom) return nullptr;
  ::mprotect(base + kRoom, kRoom, PROT_NONE);
  auto* options = reinterpret_cast<tenon_attr_t*>(base + kRoom) - def.option_count;
  for (uint32_t i = 0; i < def.option_count; ++i) {
    const tenon_pass_option_def_t& option = *tenon_pass_option(&def, i);
    options[i] = {};
    options[i].name = host.host->intern(host.host->self, option.name);
    options[i].kind = option.kind;
    options[i].count = 1;
    const std::string text(view(option.default_text));
    if (option.kind == TENON_ATTR_I64) options[i].u.i = std::strtoll(text.c_str(), nullptr, 10);
    if (option.kind == TENON_ATTR_F64) options[i].u.f = std::strtod(text.c_str(), nullptr);
    if (option.kind == TENON_ATTR_STRING) options[i].u.s = option.default_text;
  }
  return options;
}

struct Counts {
  const tenon_pass_def_t* def;
  std::string undeclared;
  static void count(void* self, tenon_str_t statistic, int64_t) {
    auto& counts = *static_cast<Counts*>(self);
    const tenon_str_t* end = counts.def->statistics + counts.def->statistic_count;
    if (std::none_of(counts.def->statistics, end,
                     [&](tenon_str_t known) { return view(known) == view(statistic); }))
      counts.undeclared = view(statistic);
  }
};

tenon_code_t discard(void*, const void*, uint64_t) {
  return TENON_OK;
}

// Runs the pass by itself; the host drives a pass of rewrites. False, with the reason, if it fails.
bool run_pass(const HostTables& host, const tenon_pass_def_t& def, tenon_graph_t* graph,
              std::string* why, std::string* undeclared = nullptr) {
  if (def.run == nullptr) {
    const tenon_sink_t sink = {nullptr, discard};
    if (host.session->passes_run(host.session->self, graph, def.name, {nullptr, 0}, 0, &sink,
                                 &sink) == TENON_OK)
      return true;
    return *why = last_failure(host).text, false;
  }
  Counts counts{&def, {}};
  auto context = sized<tenon_pass_context_t>();
  context.option_count = def.option_count;
  context.options = guarded_options(host, def);
  context.host = &counts;
  context.count = Counts::count;
  context.claimed = [](void*, tenon_node_t) -> uint32_t { return TENON_NO; };
  forget_failure();
  const tenon_code_t code = def.run(def.self, graph, &context);
  if (undeclared != nullptr) *undeclared = counts.undeclared;
  if (code != TENON_OK) *why = last_failure(host).text;
  return code == TENON_OK;
}

// ---- Graphs to run it on ----

struct Trial {
  std::string name;
  GraphRef graph;
  std::vector<Array> inputs;
  std::vector<Array> expected;
  bool has_values = false;
};

// Arguments with small values; false if the graph has an argument that is not a tensor.
bool make_inputs(const HostTables& host, Trial* trial, bool both_signs) {
  tenon_graph_t* graph = trial->graph.get();
  auto whole = sized<tenon_graph_view_t>();
  if (host.graph->graph_view(host.graph->self, graph, &whole) != TENON_OK) return false;
  std::vector<int64_t> symbols(whole.symbol_limit, kSymbolSize);
  for (uint32_t i = 0; i < whole.symbol_limit; ++i) {
    auto symbol = sized<tenon_symbol_view_t>();
    if (host.graph->symbol_view(host.graph->self, graph, i, &symbol) != TENON_OK) continue;
    const int64_t step = std::max<int64_t>(symbol.multiple_of, 1);
    symbols[i] = std::max(symbol.lo, (kSymbolSize + step - 1) / step * step);
    symbols[i] = std::min(symbols[i], symbol.hi);
  }
  const tenon_region_view_t main = main_region(host, graph);
  for (uint32_t i = 0; i < main.argument_count; ++i) {
    const tenon_type_t type = value_view(host, graph, main.arguments[i]).type;
    if (type.kind != TENON_KIND_TENSOR) return false;
    std::vector<int64_t> dims(type.rank);
    for (uint32_t d = 0; d < type.rank; ++d) {
      if (host.graph->dim_evaluate(host.graph->self, graph, type.dims[d], symbols.data(),
                                   static_cast<uint32_t>(symbols.size()), &dims[d]) != TENON_OK ||
          dims[d] < 0 || dims[d] > 4096)
        return false;
    }
    Array& input = trial->inputs.emplace_back(make_array(type.dtype, std::move(dims)));
    both_signs ? fill_signed(&input, i + 1) : fill_tame(&input, i + 1);
  }
  return true;
}

// Adds the graph with values in the domain of nearly every op, and with values of both signs.
void add_trial(const HostTables& host, const std::string& name, const GraphRef& graph,
               std::vector<Trial>* out) {
  if (graph.get() == nullptr || host.graph->verify(host.graph->self, graph.get()) != TENON_OK)
    return;
  for (const bool both_signs : {false, true}) {
    Trial trial{name + (both_signs ? ", values of both signs" : ""),
                clone_graph(host, graph.get()),
                {},
                {},
                false};
    if (trial.graph.get() == nullptr) continue;
    std::string why;
    trial.has_values = make_inputs(host, &trial, both_signs) &&
                       evaluate_graph(host, trial.graph.get(), trial.inputs, &trial.expected, &why);
    if (both_signs && !trial.has_values) continue;
    out->push_back(std::move(trial));
  }
}

// Makes every value of the main region an output: a pass must not lose a value that is used
// elsewhere.
GraphRef with_all_outputs(const HostTables& host, tenon_graph_t* from) {
  GraphRef graph = clone_graph(host, from);
  if (graph.get() == nullptr) return graph;
  const tenon_region_view_t main = main_region(host, graph.get());
  std::vector<tenon_value_t> values;
  std::vector<std::string> names;
  for (uint32_t i = 0; i < main.node_count; ++i) {
    const tenon_node_view_t node = node_view(host, graph.get(), main.nodes[i]);
    for (uint32_t r = 0; r < node.result_count; ++r) {
      if (value_view(host, graph.get(), node.results[r]).type.kind != TENON_KIND_TENSOR) continue;
      values.push_back(node.results[r]);
      names.push_back(fmt::format("every{}", names.size()));
    }
  }
  std::vector<tenon_str_t> texts;
  for (const std::string& name : names) texts.push_back({name.data(), name.size()});
  auto whole = sized<tenon_graph_view_t>();
  (void)host.graph->graph_view(host.graph->self, graph.get(), &whole);
  if (values.empty() ||
      host.graph->region_yield(host.graph->self, graph.get(), whole.main, values.data(),
                               static_cast<uint32_t>(values.size()), texts.data()) != TENON_OK)
    return {};
  return graph;
}

std::vector<tenon_value_t> constants_of(const HostTables& host, tenon_graph_t* graph) {
  std::set<tenon_value_t> found;
  const tenon_region_view_t main = main_region(host, graph);
  for (uint32_t i = 0; i < main.node_count; ++i) {
    const tenon_node_view_t node = node_view(host, graph, main.nodes[i]);
    for (uint32_t o = 0; o < node.operand_count; ++o) {
      if (node.operands[o] != TENON_NONE &&
          value_view(host, graph, node.operands[o]).kind == TENON_VALUE_CONSTANT)
        found.insert(node.operands[o]);
    }
  }
  return {found.begin(), found.end()};
}

// With the elements of one constant changed: a pattern that requires a number must check it.
GraphRef with_other_constant(const HostTables& host, tenon_graph_t* from, tenon_value_t constant) {
  GraphRef graph = clone_graph(host, from);
  Array array;
  if (graph.get() == nullptr || !constant_array(host, graph.get(), constant, &array)) return {};
  fill_tame(&array, constant + 17);
  const tenon_type_t type = {array.dtype, TENON_KIND_TENSOR,
                             static_cast<uint32_t>(array.dims.size()), array.dims.data(), 0};
  tenon_blob_t* blob = nullptr;
  tenon_value_t other = 0;
  if (host.graph->blob_bytes(host.graph->self, array.bytes.data(), array.bytes.size() - 8, &blob) !=
      TENON_OK)
    return {};
  const bool fine =
      host.graph->constant(host.graph->self, graph.get(), &type, blob, &other) == TENON_OK &&
      host.graph->value_replace(host.graph->self, graph.get(), constant, other) == TENON_OK;
  host.graph->blob_release(host.graph->self, blob);
  return fine ? std::move(graph) : GraphRef();
}

// With the first two operands of one node swapped.
GraphRef with_swapped_operands(const HostTables& host, tenon_graph_t* from, tenon_node_t node) {
  GraphRef graph = clone_graph(host, from);
  if (graph.get() == nullptr) return graph;
  const tenon_node_view_t v = node_view(host, graph.get(), node);
  if (v.operand_count < 2 || v.operands[0] == TENON_NONE || v.operands[1] == TENON_NONE ||
      v.operands[0] == v.operands[1])
    return {};
  const tenon_value_t first = v.operands[0], second = v.operands[1];
  if (type_text(host, graph.get(), value_view(host, graph.get(), first).type) !=
      type_text(host, graph.get(), value_view(host, graph.get(), second).type))
    return {};
  if (host.graph->operand_set(host.graph->self, graph.get(), node, 0, second) != TENON_OK ||
      host.graph->operand_set(host.graph->self, graph.get(), node, 1, first) != TENON_OK)
    return {};
  return graph;
}

// With another value of the same type as one operand: a pattern that requires one value in two
// places must compare them.
GraphRef with_other_operand(const HostTables& host, tenon_graph_t* from, tenon_node_t node,
                            uint32_t index) {
  GraphRef graph = clone_graph(host, from);
  if (graph.get() == nullptr) return graph;
  const tenon_node_view_t v = node_view(host, graph.get(), node);
  if (v.operands[index] == TENON_NONE) return {};
  const tenon_type_t type = value_view(host, graph.get(), v.operands[index]).type;
  auto whole = sized<tenon_graph_view_t>();
  (void)host.graph->graph_view(host.graph->self, graph.get(), &whole);
  tenon_value_t other = 0;
  const std::vector<tenon_dim_t> dims(type.dims, type.dims + type.rank);
  const tenon_type_t copy = {type.dtype, type.kind, type.rank, dims.data(), type.object};
  if (copy.kind != TENON_KIND_TENSOR ||
      host.graph->argument_add(host.graph->self, graph.get(), whole.main, &copy,
                               {"conform_other", 13}, &other) != TENON_OK ||
      host.graph->operand_set(host.graph->self, graph.get(), node, index, other) != TENON_OK)
    return {};
  return graph;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// The pass's own example and its variants. Limited, since each costs two evaluations.
std::vector<Trial> relatives(const HostTables& host, const tenon_pass_def_t& def) {
  constexpr size_t kTrialsMax = 96;
  std::vector<Trial> out;
  GraphRef before;
  Failure why;
  const std::string text(view(def.before));
  if (!read_graph(host, text, &before, &why)) return out;  // G.pass-declared reports it
  add_trial(host, "its example", clone_graph(host, before.get()), &out);
  add_trial(host, "its example with every value an output", with_all_outputs(host, before.get()),
            &out);
  for (tenon_value_t constant : constants_of(host, before.get())) {
    add_trial(host, "its example with another constant",
              with_other_constant(host, before.get(), constant), &out);
  }
  const tenon_region_view_t main = main_region(host, before.get());
  const std::vector<tenon_node_t> nodes(main.nodes, main.nodes + main.node_count);
  for (tenon_node_t node : nodes) {
    const tenon_node_view_t v = node_view(host, before.get(), node);
    const std::string op(op_name(host, v));
    add_trial(host, fmt::format("its example with operands of {} swapped", op),
              with_swapped_operands(host, before.get(), node), &out);
    for (uint32_t i = 0; i < v.operand_count && out.size() < kTrialsMax; ++i)
      add_trial(host, fmt::format("its example with another operand {} of {}", i, op),
                with_other_operand(host, before.get(), node, i), &out);
  }
  for (const char* dtype : {"f64", "f16", "i32"}) {
    GraphRef graph;
    if (read_graph(host, replaced(text, "f32[", std::string(dtype) + "["), &graph, &why))
      add_trial(host, fmt::format("its example in {}", dtype), graph, &out);
  }
  return out;
}

std::vector<Trial> random_trials(const HostTables& host) {
  std::vector<Trial> out;
  for (uint64_t seed = 1; seed <= kRandomGraphs; ++seed) {
    RandomGraph random;
    if (!random_graph(host, seed, &random)) continue;
    out.push_back({fmt::format("random graph {}", seed), std::move(random.graph),
                   std::move(random.inputs), std::move(random.outputs), true});
  }
  return out;
}

// Runs each pass on a copy of each graph and checks the result. Failing runs are left to the check
// that covers them.
using Look = Outcome (*)(const HostTables&, const Trial&, tenon_graph_t* after);
// The inputs of a graph and the number of its outputs, as text.
std::string ports_of(const HostTables& host, tenon_graph_t* graph) {
  const tenon_region_view_t main = main_region(host, graph);
  std::string out = fmt::format("{} outputs", main.yield_count);
  for (uint32_t i = 0; i < main.argument_count; ++i) {
    const tenon_type_t type = value_view(host, graph, main.arguments[i]).type;
    out += fmt::format(", {} of rank {}", dtype_name(type.dtype), type.rank);
  }
  return out;
}

// Whether the graph has the same inputs and outputs after the pass in the pass's own example. A
// derivative has others: it computes something else.
bool keeps_ports(const HostTables& host, const tenon_pass_def_t& def) {
  GraphRef before, after;
  Failure why;
  if (!read_graph(host, std::string(view(def.before)), &before, &why) ||
      !read_graph(host, std::string(view(def.after)), &after, &why))
    return true;
  return ports_of(host, before.get()) == ports_of(host, after.get());
}

using Suits = bool (*)(const HostTables&, const tenon_pass_def_t&);

// suits: null, or which passes are looked at.
Outcome on_trials(Session& s, Look look, bool failures_count = false, Suits suits = nullptr) {
  PluginPasses plugin;
  CONFORM_TRY(find_passes(s, &plugin));
  std::vector<Trial> random = random_trials(plugin.host);
  for (const tenon_pass_def_t* def : plugin.passes) {
    if (suits != nullptr && !suits(plugin.host, *def)) continue;
    std::vector<Trial> own = relatives(plugin.host, *def);
    for (std::vector<Trial>* trials : {&own, &random}) {
      for (const Trial& trial : *trials) {
        const std::string what = fmt::format("{} on {}", name_of(*def), trial.name);
        s.step("running " + what);
        GraphRef graph = clone_graph(plugin.host, trial.graph.get());
        std::string why;
        if (!run_pass(plugin.host, *def, graph.get(), &why)) {
          // Possible reasons are a property that another pass must establish first, and what
          // G.pass-ends reports. A pass may refuse with a reason; but not by failing to settle.
          const Failure failure = last_failure(plugin.host);
          CONFORM_EXPECT(!failures_count || (!trim(why).empty() && failure.id != "T0406" &&
                                             failure.id != "T0407" && heard_failure().any),
                         "{} fails: {}", what, why.empty() ? "without a reason" : why);
          continue;
        }
        const Outcome seen = look(plugin.host, trial, graph.get());
        CONFORM_EXPECT(seen.verdict == Verdict::kPass, "{}: {}", what, seen.text);
      }
    }
  }
  return pass();
}

// ---- The checks ----

Outcome pass_declared(Session& s) {
  PluginPasses plugin;
  CONFORM_TRY(find_passes(s, &plugin));
  std::set<std::string_view> names;
  for (const tenon_pass_def_t* def : plugin.passes) {
    const std::string name = name_of(*def);
    CONFORM_EXPECT(def->name.size != 0 && names.insert(view(def->name)).second,
                   "a pass has no name, or two are called {}", quoted(name));
    CONFORM_EXPECT(def->summary.size != 0, "{} has no summary", name);
    CONFORM_EXPECT(def->before.size != 0 && def->after.size != 0, "{} has no before or no after",
                   name);
    for (tenon_str_t text : {def->before, def->after}) {
      GraphRef graph;
      Failure why;
      CONFORM_EXPECT(read_graph(plugin.host, std::string(view(text)), &graph, &why),
                     "the graph of {} cannot be read: {}", name, why.text);
    }
    for (uint32_t i = 0; i < def->option_count; ++i) {
      const tenon_pass_option_def_t& option = *tenon_pass_option(def, i);
      CONFORM_EXPECT(option.name.size != 0 && option.doc.size != 0,
                     "option {} of {} has no name or no documentation", i, name);
      const std::string text(view(option.default_text));
      char* end = nullptr;
      if (option.kind == TENON_ATTR_I64)
        (void)std::strtoll(text.c_str(), &end, 10);
      else if (option.kind == TENON_ATTR_F64)
        (void)std::strtod(text.c_str(), &end);
      else
        CONFORM_EXPECT(option.kind == TENON_ATTR_STRING, "option {} of {} is of kind {}", i, name,
                       option.kind);
      CONFORM_EXPECT(end == nullptr || (!text.empty() && *end == '\0'),
                     "the default of option {} of {} is {}, which is not a number", i, name,
                     quoted(text));
    }
  }
  return pass();
}

// "line 3 is `A`, and `B` was declared", for two graphs as text.
std::string first_difference(std::string_view got, std::string_view declared) {
  for (size_t line = 1; !got.empty() || !declared.empty(); ++line) {
    const std::string_view a = got.substr(0, got.find('\n')),
                           b = declared.substr(0, declared.find('\n'));
    if (a != b)
      return fmt::format("line {} is {}, and {} was declared", line, quoted(printable(a, 400)),
                         quoted(printable(b, 400)));
    got.remove_prefix(std::min(got.size(), a.size() + 1));
    declared.remove_prefix(std::min(declared.size(), b.size() + 1));
  }
  return "the texts are the same, and names or locations differ";
}

Outcome pass_example(Session& s) {
  PluginPasses plugin;
  CONFORM_TRY(find_passes(s, &plugin));
  for (const tenon_pass_def_t* def : plugin.passes) {
    s.step("running " + name_of(*def) + " on its example");
    GraphRef before, after;
    Failure why;
    if (!read_graph(plugin.host, std::string(view(def->before)), &before, &why) ||
        !read_graph(plugin.host, std::string(view(def->after)), &after, &why))
      return skipped("a graph cannot be read, as G.pass-declared reports");
    std::string problem;
    CONFORM_EXPECT(run_pass(plugin.host, *def, before.get(), &problem), "{}: {}", name_of(*def),
                   problem);
    CONFORM_EXPECT(same_structure(plugin.host, before.get(), after.get()),
                   "{} does not turn its before into its after: {}", name_of(*def),
                   first_difference(write_graph(plugin.host, before.get()),
                                    write_graph(plugin.host, after.get())));
  }
  return pass();
}

// Counts how often each rewrite is applied, for a pass that the host drives, on this graph. False,
// with the reason, if it fails.
bool count_rewrites(const HostTables& host, const tenon_pass_def_t& def, tenon_graph_t* graph,
                    std::map<std::string, int64_t>* applied, std::string* why) {
  std::string stats;
  const tenon_sink_t prints = {nullptr, discard};
  const tenon_sink_t sink = sink_to(&stats);
  if (host.session->passes_run(host.session->self, graph, def.name, {nullptr, 0}, 0, &prints,
                               &sink) != TENON_OK)
    return *why = last_failure(host).text, false;
  const auto json = nlohmann::json::parse(stats, nullptr, false);
  if (!json.is_object() || !json.contains("passes"))
    return *why = "the host reports no counts", false;
  for (const auto& pass : json["passes"]) {
    if (!pass.is_object() || !pass.contains("statistics")) continue;
    for (const auto& [name, count] : pass["statistics"].items())
      if (count.is_number_integer()) (*applied)[name] += count.get<int64_t>();
  }
  return true;
}

// A rewrite that its example does not reach has never been tried.
Outcome pass_rewrites(Session& s) {
  PluginPasses plugin;
  CONFORM_TRY(find_passes(s, &plugin));
  size_t rewrites = 0;
  std::vector<std::string> never;
  for (const tenon_pass_def_t* def : plugin.passes) {
    if (def->run != nullptr || def->rewrites == nullptr) continue;
    s.step("counting the rewrites of " + name_of(*def) + " on its example");
    GraphRef before;
    Failure unread;
    if (!read_graph(plugin.host, std::string(view(def->before)), &before, &unread))
      return skipped("a graph cannot be read, as G.pass-declared reports");
    std::map<std::string, int64_t> applied;
    std::string why;
    if (!count_rewrites(plugin.host, *def, before.get(), &applied, &why))
      return skipped(fmt::format("{} does not run on its example, as G.pass-example reports: {}",
                                 name_of(*def), why));
    const auto* record = reinterpret_cast<const char*>(def->rewrites);
    for (uint32_t i = 0; i < def->rewrite_count; ++i) {
      const auto* rewrite = reinterpret_cast<const tenon_rewrite_t*>(record);
      record += rewrite->size_bytes;
      // A rewrite without a root op may be meant for the ops of other plugins.
      if (rewrite->root.size == 0) continue;
      ++rewrites;
      const std::string name(view(rewrite->name));
      if (applied[name] <= 0) never.push_back(name_of(*def) + "'s " + name);
    }
  }
  CONFORM_EXPECT(
      never.empty(),
      "never applied in its example, which may have several outputs and needs one more: {}",
      join_names(never, 20));
  return rewrites == 0 ? not_offered("a rewrite that starts from an op of a name") : pass();
}

Outcome pass_valid(Session& s) {
  return on_trials(s, [](const HostTables& host, const Trial&, tenon_graph_t* after) {
    CONFORM_EXPECT(host.graph->verify(host.graph->self, after) == TENON_OK,
                   "the graph is broken afterwards: {}", last_failure(host).text);
    return pass();
  });
}

Outcome pass_meaning(Session& s) {
  const Look look = [](const HostTables& host, const Trial& trial, tenon_graph_t* after) {
    if (!trial.has_values) return pass();
    std::vector<Array> found;
    std::string why;
    CONFORM_EXPECT(evaluate_graph(host, after, trial.inputs, &found, &why), "afterwards: {}", why);
    CONFORM_EXPECT(found.size() == trial.expected.size(), "afterwards there are {} outputs",
                   found.size());
    // Allows for one rounding more or less per node.
    const double factor = 4 * (1 + main_region(host, trial.graph.get()).node_count);
    for (size_t i = 0; i < found.size(); ++i) {
      const std::string wrong = difference(found[i], trial.expected[i], factor);
      CONFORM_EXPECT(wrong.empty(), "output {}: {}", i, wrong);
    }
    return pass();
  };
  return on_trials(s, look, false, keeps_ports);
}

Outcome pass_counts(Session& s) {
  PluginPasses plugin;
  CONFORM_TRY(find_passes(s, &plugin));
  size_t tried = 0;
  for (const tenon_pass_def_t* def : plugin.passes) {
    if (def->run == nullptr) continue;  // the host counts for it
    for (const Trial& trial : relatives(plugin.host, *def)) {
      ++tried;
      s.step(fmt::format("running {} on {}", name_of(*def), trial.name));
      GraphRef graph = clone_graph(plugin.host, trial.graph.get());
      std::string why, undeclared;
      (void)run_pass(plugin.host, *def, graph.get(), &why, &undeclared);
      CONFORM_EXPECT(undeclared.empty(), "{} counts {}, which it does not declare", name_of(*def),
                     quoted(undeclared));
    }
  }
  return tried == 0 ? not_offered("its passes are rewrites: the host counts") : pass();
}

Outcome pass_ends(Session& s) {
  return on_trials(s, [](const HostTables&, const Trial&, tenon_graph_t*) { return pass(); }, true);
}

// Equal graphs give equal results, one after another and in several threads at once.
Outcome pass_same(Session& s) {
  PluginPasses plugin;
  CONFORM_TRY(find_passes(s, &plugin));
  for (const tenon_pass_def_t* def : plugin.passes) {
    GraphRef once;
    Failure failure;
    std::string why;
    if (!read_graph(plugin.host, std::string(view(def->before)), &once, &failure)) continue;
    GraphRef source = clone_graph(plugin.host, once.get());
    if (!run_pass(plugin.host, *def, once.get(), &why)) continue;    // G.pass-example reports it
    plugin.host.graph->freeze(plugin.host.graph->self, once.get());  // all threads read it
    s.step("running " + name_of(*def) + " in several threads");
    std::vector<std::vector<GraphRef>> graphs(kThreads);
    for (std::vector<GraphRef>& mine : graphs) {
      for (int round = 0; round < 16; ++round)
        mine.push_back(clone_graph(plugin.host, source.get()));
    }
    std::vector<std::string> problems(kThreads);
    {
      std::vector<std::jthread> threads;
      for (unsigned t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
          for (GraphRef& graph : graphs[t]) {
            std::string reason;
            if (!run_pass(plugin.host, *def, graph.get(), &reason))
              problems[t] = "it fails: " + reason;
            else if (!same_structure(plugin.host, graph.get(), once.get()))
              problems[t] = "it makes another graph than the first time";
          }
        });
      }
    }
    for (const std::string& problem : problems)
      CONFORM_EXPECT(problem.empty(), "{} on copies of its example: {}", name_of(*def), problem);
  }
  return pass();
}

constexpr Check kChecks[] = {
    {"R-G09", "pass-example", pass_example},   {"R-G10", "pass-valid", pass_valid},
    {"R-G11", "pass-meaning", pass_meaning},   {"R-G12", "pass-counts", pass_counts},
    {"R-G29", "pass-declared", pass_declared}, {"R-G30", "pass-same", pass_same},
    {"R-G31", "pass-ends", pass_ends},         {"R-G36", "pass-rewrites", pass_rewrites},
};

}  // namespace

std::span<const Check> pass_checks() {
  return kChecks;
}

}  // namespace tenon::conform
