#include "frontends/python/native/ops/ops.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <deque>
#include <memory>
#include <tuple>

#include "frontends/python/native/host/host.h"
#include "frontends/python/native/ops/python_slots.h"
#include "frontends/python/native/ops/trace.h"
#include "tenon/abi/ops.h"
#include "tenon/abi/pass.h"
#include "tenon/cpp/record.hpp"
#include "tenon/cpp/text.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tenon::python {
namespace {

using AttrSpec =
    std::tuple<std::string, uint32_t, bool, nb::object>;  // name, kind, required, default

// One registered definition. It lives as long as the process, as the host requires.
struct PythonOp {
  std::string name, summary, plugin_name, manifest;
  std::vector<std::string> operand_names, attr_names, attr_texts;
  std::vector<tenon_operand_def_t> operands;
  std::vector<tenon_attr_def_t> attrs;
  tenon_result_def_t result = {};
  PyObject* infer = nullptr;
  PyObject* decompose = nullptr;
  PyObject* pull = nullptr;  // null: none
  PyObject* jvp = nullptr;
  tenon_op_rules_t rules = {};
  tenon_op_def_t def = {};
  const tenon_op_def_t* list = nullptr;
  tenon_ops_t table = {};
  tenon_interface_t interface = {};
  tenon_plugin_t plugin = {};
};

tenon_code_t infer_slot(void* self, const tenon_infer_t* query) noexcept {
  const auto& op = *static_cast<PythonOp*>(self);
  std::vector<std::pair<tenon_dtype_t, std::vector<int64_t>>> results;
  const tenon_code_t code = in_python(op.name, [&] {
    nb::list types;
    for (uint32_t i = 0; i < query->operand_count; ++i) {
      nb::list dims;
      for (uint32_t d = 0; d < query->operands[i].rank; ++d)
        dims.append(query->operands[i].dims[d]);
      types.append(nb::make_tuple(dtype_name(query->operands[i].dtype), nb::tuple(dims)));
    }
    const LentTrace graph(tenon_builder_t{query->graph, 0, TENON_NONE, 0});
    const nb::object given =
        nb::borrow(op.infer)(graph.object(), types, attributes_of(query->attrs, query->attr_count));
    for (const nb::handle type : given) {
      const auto pair = nb::cast<std::tuple<std::string, std::vector<int64_t>>>(type);
      results.emplace_back(dtype_named(std::get<0>(pair)), std::get<1>(pair));
    }
  });
  if (code != TENON_OK) return code;
  for (const auto& [dtype, dims] : results) {
    const tenon_code_t added =
        query->result(query->host, dtype, dims.data(), static_cast<uint32_t>(dims.size()));
    if (added != TENON_OK) return added;
  }
  return TENON_OK;
}

tenon_code_t decompose_slot(void* self, const tenon_builder_t* builder, tenon_node_t node,
                            tenon_value_t* out_results) noexcept {
  const auto& op = *static_cast<PythonOp*>(self);
  auto view = sized<tenon_node_view_t>();
  const tenon_host_graph_t& g = *g_tables.graph;
  if (const tenon_code_t code = g.node_view(g.self, builder->graph, node, &view)) return code;
  return in_python(op.name, [&] {
    nb::list operands;
    for (uint32_t i = 0; i < view.operand_count; ++i) operands.append(view.operands[i]);
    const nb::dict attrs = attributes_of(view.attrs, view.attr_count);
    const uint32_t count = view.result_count;
    const LentTrace trace(*builder);
    const nb::object made = nb::borrow(op.decompose)(trace.object(), operands, attrs);
    const auto values = nb::cast<std::vector<uint32_t>>(made);
    if (values.size() != count) throw std::runtime_error("it gives another number of results now");
    std::copy(values.begin(), values.end(), out_results);
  });
}

// Lists of values for Python, with None for those that are absent.
nb::list value_list(const tenon_value_t* values, uint32_t count) {
  nb::list out;
  for (uint32_t i = 0; i < count; ++i) {
    if (values[i] == TENON_NONE)
      out.append(nb::none());
    else
      out.append(values[i]);
  }
  return out;
}

// A rule in Python: rule(trace, operands, results, attributes, given), where `given` are tangents
// or cotangents. It returns a value or None for each of `count`.
tenon_code_t run_rule(const PythonOp& op, PyObject* rule, const tenon_builder_t* builder,
                      tenon_node_t node, const tenon_value_t* given, bool backwards,
                      tenon_value_t* out) {
  auto view = sized<tenon_node_view_t>();
  const tenon_host_graph_t& g = *g_tables.graph;
  if (const tenon_code_t code = g.node_view(g.self, builder->graph, node, &view)) return code;
  return in_python(op.name, [&] {
    const uint32_t given_count = backwards ? view.result_count : view.operand_count;
    const uint32_t out_count = backwards ? view.operand_count : view.result_count;
    const nb::list operands = value_list(view.operands, view.operand_count);
    const nb::list results = value_list(view.results, view.result_count);
    const nb::dict attrs = attributes_of(view.attrs, view.attr_count);
    const LentTrace trace(*builder);
    const auto made = nb::cast<nb::list>(
        nb::borrow(rule)(trace.object(), operands, results, attrs, value_list(given, given_count)));
    if (made.size() != out_count)
      throw std::runtime_error("its rule gives another number of arrays");
    for (uint32_t i = 0; i < out_count; ++i)
      out[i] = made[i].is_none() ? TENON_NONE : nb::cast<uint32_t>(made[i]);
  });
}

tenon_code_t pull_slot(void* self, const tenon_builder_t* builder, tenon_node_t node,
                       const uint8_t*, const tenon_value_t* cotangents,
                       tenon_value_t* out) noexcept {
  const auto& op = *static_cast<PythonOp*>(self);
  return run_rule(op, op.pull, builder, node, cotangents, true, out);
}
tenon_code_t jvp_slot(void* self, const tenon_builder_t* builder, tenon_node_t node,
                      const tenon_value_t* tangents, tenon_value_t* out) noexcept {
  const auto& op = *static_cast<PythonOp*>(self);
  return run_rule(op, op.jvp, builder, node, tangents, false, out);
}

void describe(PythonOp& op, const std::vector<AttrSpec>& attrs) {
  for (const std::string& name : op.operand_names) {
    op.operands.push_back(
        {text(name), text("an array"), TENON_DTYPES_ANY, 0, 0, 0, TENON_RANK_MAX});
  }
  op.attr_names.reserve(attrs.size());
  op.attr_texts.reserve(attrs.size());
  for (const auto& [name, kind, required, value] : attrs) {
    tenon_attr_def_t def = {};
    def.name = text(op.attr_names.emplace_back(name));
    def.doc = text("an argument of the function");
    def.kind = kind;
    def.flags = required ? TENON_ATTR_REQUIRED : 0;
    if (!required && kind == TENON_ATTR_I64) def.default_i = nb::cast<int64_t>(value);
    if (!required && kind == TENON_ATTR_F64) def.default_f = nb::cast<double>(value);
    if (!required && kind == TENON_ATTR_STRING)
      def.default_s = text(op.attr_texts.emplace_back(nb::cast<std::string>(value)));
    op.attrs.push_back(def);
  }
}

void make_def(PythonOp& op) {
  op.result = {text("y"), text("what the function returns")};
  tenon_op_def_t& def = op.def;
  def.size_bytes = sizeof def;
  def.since = TENON_ABI_MINOR;
  def.cost_class = TENON_COST_ELEMENTWISE;
  def.name = text(op.name);
  def.summary = text(op.summary);
  def.self = &op;
  def.traits = TENON_TRAIT_PURE | TENON_TRAIT_COMPOSITE;
  def.operands = op.operands.data();
  def.operand_count = static_cast<uint32_t>(op.operands.size());
  def.results = &op.result;
  def.result_count = 1;
  def.attrs = op.attrs.data();
  def.attr_count = static_cast<uint32_t>(op.attrs.size());
  def.operand_bytes = sizeof(tenon_operand_def_t);
  def.result_bytes = sizeof(tenon_result_def_t);
  def.attr_bytes = sizeof(tenon_attr_def_t);
  def.infer = infer_slot;
  def.decompose = decompose_slot;
}

// An op or a pass as the only thing of a plugin.
template <class Made>
void make_plugin(Made& made, const char* interface, const char* what) {
  made.list = &made.def;
  made.table = {sizeof made.table, nullptr, &made.list, 1};
  describe_plugin(made, interface, &made.table, what, tenon::text::json_quoted(made.name));
}

// ---- Passes ----

struct PythonPass {
  std::string name, summary, plugin_name, manifest, before, after;
  std::deque<std::string> texts;  // of options and statistics
  std::vector<tenon_pass_option_def_t> options;
  std::vector<tenon_str_t> statistics;
  PyObject* run = nullptr;
  tenon_pass_def_t def = {};
  const tenon_pass_def_t* list = nullptr;
  tenon_passes_t table = {};
  tenon_interface_t interface = {};
  tenon_plugin_t plugin = {};
};

// Its options by name, as the pipeline gives them.
nb::dict options_of(const PythonPass& pass, const tenon_pass_context_t* context) {
  nb::dict out = attributes_of(nullptr, 0);
  for (uint32_t i = 0; i < context->option_count; ++i) {
    tenon_attr_t named = context->options[i];
    named.name = g_tables.host->intern(g_tables.host->self, pass.options[i].name);
    out.update(attributes_of(&named, 1));
  }
  return out;
}

tenon_code_t run_slot(void* self, tenon_graph_t* graph,
                      const tenon_pass_context_t* context) noexcept {
  const auto& pass = *static_cast<PythonPass*>(self);
  auto view = sized<tenon_graph_view_t>();
  const tenon_host_graph_t& g = *g_tables.graph;
  if (const tenon_code_t code = g.graph_view(g.self, graph, &view)) return code;
  return in_python(pass.name, [&] {
    const LentTrace trace(tenon_builder_t{graph, view.main, TENON_NONE, 0});
    trace.get().name_pass(pass.name);
    const auto counts = nb::cast<std::vector<std::pair<std::string, int64_t>>>(
        nb::borrow(pass.run)(trace.object(), options_of(pass, context)));
    for (const auto& [name, amount] : counts) context->count(context->host, text(name), amount);
  });
}

void register_op(const std::string& name, const std::string& summary,
                 const std::vector<std::string>& operands, const std::vector<AttrSpec>& attrs,
                 const nb::object& infer, const nb::object& decompose, const nb::object& pull,
                 const nb::object& jvp) {
  auto op = std::make_unique<PythonOp>();
  op->name = name;
  op->summary = summary;
  op->operand_names = operands;
  describe(*op, attrs);
  make_def(*op);
  make_plugin(*op, TENON_OPS_ID, "ops");
  op->infer = infer.ptr();
  op->decompose = decompose.ptr();
  op->pull = pull.is_none() ? nullptr : pull.ptr();
  op->jvp = jvp.is_none() ? nullptr : jvp.ptr();
  if (op->pull != nullptr || op->jvp != nullptr) {
    op->rules.size_bytes = sizeof op->rules;
    op->rules.pull = op->pull != nullptr ? pull_slot : nullptr;
    op->rules.jvp = op->jvp != nullptr ? jvp_slot : nullptr;
    op->def.rules = &op->rules;
  }
  register_plugin(op->plugin, op->manifest);
  for (PyObject* function : {op->infer, op->decompose, op->pull, op->jvp}) Py_XINCREF(function);
  (void)op.release();  // the host keeps it
}

// name, kind, default
using PassOption = std::tuple<std::string, uint32_t, std::string>;

void describe(PythonPass& pass, const std::vector<PassOption>& options,
              const std::vector<std::string>& statistics) {
  const auto kept = [&](const std::string& one) { return text(pass.texts.emplace_back(one)); };
  for (const auto& [name, kind, value] : options)
    pass.options.push_back({kept(name), text("an argument of the function"), kind, 0, kept(value)});
  for (const std::string& name : statistics) pass.statistics.push_back(kept(name));
  pass.def.options = pass.options.data();
  pass.def.option_count = static_cast<uint32_t>(pass.options.size());
  pass.def.option_bytes = sizeof(tenon_pass_option_def_t);
  pass.def.statistics = pass.statistics.data();
  pass.def.statistic_count = static_cast<uint32_t>(pass.statistics.size());
  pass.def.before = text(pass.before);
  pass.def.after = text(pass.after);
}

void register_pass(const std::string& name, const std::string& summary,
                   const std::vector<PassOption>& options,
                   const std::vector<std::string>& statistics, const std::string& before,
                   const std::string& after, const nb::object& run) {
  auto pass = std::make_unique<PythonPass>();
  pass->name = name;
  pass->summary = summary;
  pass->before = before;
  pass->after = after;
  pass->run = run.ptr();
  describe(*pass, options, statistics);
  pass->def.size_bytes = sizeof pass->def;
  pass->def.name = text(pass->name);
  pass->def.summary = text(pass->summary);
  pass->def.description = text(pass->summary);
  pass->def.self = pass.get();
  pass->def.run = run_slot;
  make_plugin(*pass, TENON_PASS_ID, "passes");
  register_plugin(pass->plugin, pass->manifest);
  Py_INCREF(pass->run);
  (void)pass.release();  // the host keeps it
}

// The text of a graph after some passes, and what they report, as JSON.
std::pair<std::string, std::string> run_passes(const std::string& graph_text,
                                               const std::string& passes) {
  const tenon_host_graph_t& g = *g_tables.graph;
  tenon_graph_t* graph = nullptr;
  std::string out, prints, stats;
  const tenon_sink_t to_out = sink_to(&out), to_prints = sink_to(&prints),
                     to_stats = sink_to(&stats);
  const tenon_code_t done = without_gil([&]() -> tenon_code_t {
    tenon_blob_t* blob = nullptr;
    if (const tenon_code_t code = g.blob_bytes(g.self, graph_text.data(), graph_text.size(), &blob))
      return code;
    tenon_code_t code = g.graph_read(g.self, blob, text("graph.tir"), nullptr, &graph);
    g.blob_release(g.self, blob);
    if (code != TENON_OK) return code;
    code = g_tables.session->passes_run(g_tables.session->self, graph, text(passes), {},
                                        TENON_PASSES_VERIFY_EACH, &to_prints, &to_stats);
    return code == TENON_OK ? g.graph_write(g.self, graph, TENON_FORMAT_TEXT, &to_out) : code;
  });
  if (graph != nullptr) let_go([&] { g.release(g.self, graph); });
  if (done != TENON_OK) raise_failure(done);
  return {out, stats};
}

}  // namespace

void bind_ops(nb::module_& m) {
  m.def("register_pass", register_pass, "name"_a, "summary"_a, "options"_a, "statistics"_a,
        "before"_a, "after"_a, "run"_a,
        nb::sig("def register_pass(name: str, summary: str, options: list[tuple[str, int, str]], "
                "statistics: list[str], before: str, after: str, run: object) -> None"));
  m.def("run_passes", run_passes, "graph"_a, "passes"_a);
  m.def("set_pipeline", set_pipeline, "passes"_a);
  m.def("register_op", register_op, "name"_a, "summary"_a, "operands"_a, "attrs"_a, "infer"_a,
        "decompose"_a, "pull"_a.none() = nb::none(), "jvp"_a.none() = nb::none(),
        nb::sig("def register_op(name: str, summary: str, operands: list[str], attrs: "
                "list[tuple[str, int, bool, object]], infer: object, decompose: object, "
                "pull: object = None, jvp: object = None) -> None"));
}

}  // namespace tenon::python
