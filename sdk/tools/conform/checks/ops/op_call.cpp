#include "sdk/tools/conform/checks/ops/op_call.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>

#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"
#include "sdk/tools/support/op_example.h"

namespace tenon::conform {
namespace {

// The part of an expression between its operands and its results.
struct Middle {
  std::string attributes, regions;
};
Middle split_middle(std::string_view text) {
  size_t depth = 0, at = 0;
  bool in_quotes = false;
  for (; at < text.size(); ++at) {
    if (text[at] == '"') in_quotes = !in_quotes;
    if (in_quotes) continue;
    depth += text[at] == '{';
    if (text[at] == '}') --depth;
    if (depth == 0 && text.substr(at).starts_with("regions")) break;
  }
  return {std::string(text.substr(0, at)), std::string(text.substr(at))};
}

// The names in the dims of a type: "f32[n, 2*m]" has n and m.
void symbols_of(std::string_view type, std::set<std::string>* out) {
  static constexpr std::string_view kWords[] = {"floordiv", "mod", "min", "max"};
  const auto is_letter = [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  for (size_t at = std::min(type.find('['), type.size()); at < type.size();) {
    size_t end = at;
    while (end < type.size() &&
           (is_letter(type[end]) ||
            (end > at && std::isdigit(static_cast<unsigned char>(type[end])) != 0)))
      ++end;
    const std::string_view word = type.substr(at, end - at);
    if (!word.empty() && std::find(std::begin(kWords), std::end(kWords), word) == std::end(kWords))
      out->emplace(word);
    at = std::max(end, at + 1);
  }
}

bool has_literal(std::string_view typed) {
  return !trim(typed.substr(tools::type_of(typed).size())).empty();
}

// A graph with one node on these operands, which are constants if they have values.
std::string text_of(const tools::OpExample& e) {
  std::string arguments, constants, operands, symbols;
  std::set<std::string> names;
  for (std::string_view operand : e.operands) symbols_of(tools::type_of(operand), &names);
  for (const std::string& name : names) symbols += (symbols.empty() ? "<" : ", ") + name;
  if (!symbols.empty()) symbols += ">";
  for (size_t i = 0; i < e.operands.size(); ++i) {
    operands += i == 0 ? "" : ", ";
    if (e.operands[i] == "_") {
      operands += "_";
      continue;
    }
    operands += fmt::format("%a{}", i);
    if (has_literal(e.operands[i]))
      constants += fmt::format("  %a{} = const {}\n", i, e.operands[i]);
    else
      arguments += fmt::format("{}%a{}: {}", arguments.empty() ? "" : ", ", i, e.operands[i]);
  }
  std::string results;
  for (size_t i = 0; i < e.results.size(); ++i)
    results += fmt::format("{}%r{}", i == 0 ? "" : ", ", i);
  const Middle middle = split_middle(e.attributes);
  return fmt::format("tenon.tir 1\ngraph @call{}({}) -> () {{\n{}  {}{}{}({}) {} {}\n  yield\n}}\n",
                     symbols, arguments, constants, results, results.empty() ? "" : " = ", e.op,
                     operands, middle.attributes, middle.regions);
}

bool read_constants(const HostTables& host, std::span<const std::string_view> typed,
                    std::vector<Array>* out, std::string* why) {
  for (std::string_view text : typed) {
    if (text == "_") {
      out->emplace_back();
      continue;
    }
    const std::string graph_text =
        fmt::format("tenon.tir 1\ngraph @value() -> (x: {}) {{\n  %x = const {}\n  yield %x\n}}\n",
                    tools::type_of(text), text);
    GraphRef graph;
    Failure failure;
    if (!read_graph(host, graph_text, &graph, &failure)) return *why = failure.text, false;
    if (!constant_array(host, graph.get(), main_region(host, graph.get()).yields[0],
                        &out->emplace_back()))
      return *why = fmt::format("{} is not a constant", text), false;
  }
  return true;
}

bool yield_results(const HostTables& host, Call* call) {
  const tenon_node_view_t view = node_view(host, call->graph.get(), call->node);
  auto whole = sized<tenon_graph_view_t>();
  std::vector<std::string> names;
  std::vector<tenon_str_t> texts;
  for (uint32_t i = 0; i < view.result_count; ++i) names.push_back(fmt::format("r{}", i));
  for (const std::string& name : names) texts.push_back({name.data(), name.size()});
  const std::vector<tenon_value_t> results(view.results, view.results + view.result_count);
  return host.graph->graph_view(host.graph->self, call->graph.get(), &whole) == TENON_OK &&
         host.graph->region_yield(host.graph->self, call->graph.get(), whole.main, results.data(),
                                  static_cast<uint32_t>(results.size()), texts.data()) == TENON_OK;
}

tenon_type_t type_of(const Array& array) {
  return {array.dtype, TENON_KIND_TENSOR, static_cast<uint32_t>(array.dims.size()),
          array.dims.data(), 0};
}

bool add_operand(const HostTables& host, const Array& array, bool constant, Call* call,
                 tenon_value_t* out) {
  const tenon_type_t type = type_of(array);
  tenon_graph_t* graph = call->graph.get();
  if (!constant) {
    call->inputs.push_back(array);
    auto whole = sized<tenon_graph_view_t>();
    return host.graph->graph_view(host.graph->self, graph, &whole) == TENON_OK &&
           host.graph->argument_add(host.graph->self, graph, whole.main, &type, {nullptr, 0},
                                    out) == TENON_OK;
  }
  tenon_blob_t* blob = nullptr;
  if (host.graph->blob_bytes(host.graph->self, array.bytes.data(), array.bytes.size() - 8, &blob) !=
      TENON_OK)
    return false;
  const tenon_code_t code = host.graph->constant(host.graph->self, graph, &type, blob, out);
  host.graph->blob_release(host.graph->self, blob);
  return code == TENON_OK;
}

}  // namespace

Outcome find_ops(Session& session, PluginOps* out) {
  if (session.subject().manifest_error.failed())
    return skipped("the manifest cannot be read, as A.manifest-keys reports");
  const auto& provides = session.subject().manifest.provides;
  if (std::none_of(provides.begin(), provides.end(),
                   [](const host::Provided& p) { return p.kind == "op"; }))
    return not_offered(TENON_OPS_ID);
  CONFORM_TRY(find_host(&out->host));
  session.step("registering its ops");
  struct Visit {
    std::string_view plugin;
    std::vector<const tenon_op_def_t*>* ops;
  } visit{session.subject().manifest.name, &out->ops};
  const tenon_host_registry_t& registry = *out->host.registry;
  if (registry.op_each(registry.self, &visit,
                       [](void* context, const tenon_op_def_t* op, tenon_str_t plugin) {
                         auto& v = *static_cast<Visit*>(context);
                         if (view(plugin) == v.plugin) v.ops->push_back(op);
                       }) != TENON_OK)
    return skipped("the host cannot list its ops: " + last_failure(out->host).text);
  return out->ops.empty() ? skipped("the host took none of its ops, as G.op-declared reports")
                          : pass();
}

bool read_example(const HostTables& host, const tenon_op_def_t* op, std::string_view text,
                  Example* out, std::string* why) {
  tools::OpExample parsed;
  if (!tools::parse_example(text, &parsed))
    return *why = "it is not an expression with results", false;
  if (parsed.op.substr(0, parsed.op.find('@')) != view(op->name))
    return *why = "it is of another op", false;
  out->text = text;
  out->op = op;
  out->has_regions = !split_middle(parsed.attributes).regions.empty();
  if (!read_constants(host, parsed.operands, &out->operands, why)) return false;
  if (!read_constants(host, parsed.results, &out->expected, why)) return false;
  Failure failure;
  if (!read_graph(host, text_of(parsed), &out->call.graph, &failure))
    return *why = failure.text, false;
  const tenon_region_view_t main = main_region(host, out->call.graph.get());
  if (main.node_count != 1) return *why = "it makes no node", false;
  out->call.node = main.nodes[0];
  if (!yield_results(host, &out->call)) return *why = last_failure(host).text, false;
  return true;
}

std::vector<Example> examples_of(const HostTables& host, const tenon_op_def_t* op) {
  std::vector<Example> out;
  for (uint32_t i = 0; i < op->example_count; ++i) {
    Example example;
    std::string why;
    if (read_example(host, op, view(op->examples[i]), &example, &why))
      out.push_back(std::move(example));
  }
  return out;
}

bool read_negative(const HostTables& host, std::string_view text, std::string* op, Failure* why) {
  tools::OpExample parsed;
  const std::string whole = std::string(text) + " -> ";
  if (!tools::parse_example(whole, &parsed)) {
    why->text = "it is not an expression";
    return false;
  }
  *op = parsed.op.substr(0, parsed.op.find('@'));
  GraphRef graph;
  if (read_graph(host, text_of(parsed), &graph, why)) return true;
  return why->id == "T0313";  // the node was built; only its results have no names here
}

bool build_call(const HostTables& host, const tenon_op_def_t* op,
                std::span<const tenon_attr_t> attributes, std::span<const Array> operands,
                bool constants, Call* out, Failure* why) {
  tenon_graph_t* graph = nullptr;
  bool fine = host.graph->create(host.graph->self, {"call", 4}, &graph) == TENON_OK;
  if (fine) out->graph = GraphRef(host, graph);
  std::vector<tenon_value_t> values;
  for (const Array& array : operands) {
    if (array.dtype == TENON_DTYPE_NONE)
      values.push_back(TENON_NONE);
    else
      fine = fine && add_operand(host, array, constants, out, &values.emplace_back());
  }
  if (fine) {
    auto whole = sized<tenon_graph_view_t>();
    (void)host.graph->graph_view(host.graph->self, graph, &whole);
    const tenon_builder_t builder = {graph, whole.main, TENON_NONE, 0};
    auto spec = sized<tenon_node_spec_t>();
    spec.op = host.host->intern(host.host->self, op->name);
    spec.op_version = op->version;
    spec.operands = values.data();
    spec.operand_count = static_cast<uint32_t>(values.size());
    spec.attrs = attributes.data();
    spec.attr_count = static_cast<uint32_t>(attributes.size());
    fine = host.graph->node_build(host.graph->self, &builder, &spec, &out->node) == TENON_OK;
  }
  fine = fine && yield_results(host, out);
  if (!fine) *why = last_failure(host);
  return fine;
}

bool portable_attributes(const HostTables& host, const Example& example,
                         std::vector<tenon_attr_t>* out) {
  const tenon_node_view_t view = node_view(host, example.call.graph.get(), example.call.node);
  out->assign(view.attrs, view.attrs + view.attr_count);
  return std::all_of(out->begin(), out->end(), [](const tenon_attr_t& a) {
    return a.kind != TENON_ATTR_TYPES &&
           (a.kind != TENON_ATTR_DIMS ||
            std::all_of(a.u.dims, a.u.dims + a.count, [](tenon_dim_t dim) { return dim >= 0; }));
  });
}

bool with_dtype(const Example& example, tenon_dtype_t dtype, std::vector<Array>* operands) {
  const tenon_op_def_t& op = *example.op;
  if (op.operand_count == 0 || example.operands.empty()) return false;
  for (size_t i = 0; i < example.operands.size(); ++i) {
    const Array& from = example.operands[i];
    const tenon_operand_def_t& def =
        *tenon_op_operand(&op, std::min<size_t>(i, op.operand_count - 1));
    const bool follows =
        i == 0 || (def.dtype_group != 0 && def.dtype_group == op.operands[0].dtype_group);
    if (from.dtype == TENON_DTYPE_NONE || !follows) {
      operands->push_back(from);
      continue;
    }
    if ((def.dtypes >> dtype & 1) == 0) return false;
    operands->push_back(make_array(dtype, from.dims));
  }
  return true;
}

std::string type_of_results(const HostTables& host, const Call& call) {
  const tenon_node_view_t view = node_view(host, call.graph.get(), call.node);
  std::string text;
  for (uint32_t i = 0; i < view.result_count; ++i) {
    const tenon_value_view_t value = value_view(host, call.graph.get(), view.results[i]);
    text += (i == 0 ? "" : ", ") + type_text(host, call.graph.get(), value.type);
  }
  return text;
}

double tolerance_of(const tenon_op_def_t& op) {
  return op.tolerance > 0 ? op.tolerance : 1;
}

std::string name_of(const tenon_op_def_t& op) {
  return printable(view(op.name));
}

Outcome compare_all(const std::string& what, std::string_view means, const tenon_op_def_t& op,
                    const std::vector<Array>& found, const std::vector<Array>& expected) {
  CONFORM_EXPECT(found.size() == expected.size(), "{}: its {} has {} results", what, means,
                 found.size());
  for (size_t r = 0; r < found.size(); ++r) {
    const std::string wrong = difference(found[r], expected[r], tolerance_of(op));
    CONFORM_EXPECT(wrong.empty(), "{}: its {}: result {}: {}", what, means, r, wrong);
  }
  return pass();
}

}  // namespace tenon::conform
