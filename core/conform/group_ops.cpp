// Group G, ops: declarations, inference, and that every way to compute an op gives the same.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <set>
#include <thread>

#include "core/base/str.h"
#include "core/conform/group_tables.h"
#include "core/conform/op_call.h"
#include "core/conform/session.h"
#include "core/ir/dtype.h"
#include "core/op/evaluate.h"

namespace tenon::conform {
namespace {

constexpr int kHostileRounds = 150;
constexpr unsigned kThreads = 4;

std::string name_of(const tenon_op_def_t& op) {
  return printable(view(op.name));
}

// ---- Declarations ------------------------------------------------------------------------------

// What the table says, whether the host registered it or not.
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
                   "op {} is not registered: another plugin has it, or its declaration is refused "
                   "(TENON_LOGS=+plugins tells)",
                   quoted(provided.name));
    break;  // one table holds all
  }
  for (const host::Provided& provided : s.subject().manifest.provides) {
    const auto taken = [&](const tenon_op_def_t* op) { return view(op->name) == provided.name; };
    CONFORM_EXPECT(
        provided.kind != "op" || std::any_of(registered.ops.begin(), registered.ops.end(), taken),
        "op {} is not registered: another plugin has it, or its declaration is refused",
        quoted(provided.name));
  }
  return pass();
}

// Plugins that name the op as theirs, beside this one.
Outcome nobody_else_has(Session& s, const HostTables& host) {
  std::string text;
  const tenon_sink_t sink = {&text, [](void* self, const void* data, uint64_t size) {
                               static_cast<std::string*>(self)->append(
                                   static_cast<const char*>(data), size);
                               return tenon_code_t{TENON_OK};
                             }};
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
      CONFORM_EXPECT(op->operands[i].name.size != 0 && op->operands[i].doc.size != 0,
                     "operand {} of {} has no name or no documentation", i, name);
    for (uint32_t i = 0; i < op->attr_count; ++i)
      CONFORM_EXPECT(op->attrs[i].name.size != 0 && op->attrs[i].doc.size != 0,
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
      const tenon_constraint_def_t& c = op->constraints[i];
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
      CONFORM_EXPECT(of == view(op->name), "{} is no call of {}", text, name_of(*op));
      CONFORM_EXPECT(why.constraint == view(c.label), "{} should break {}: {}", text, view(c.label),
                     why.text);
      ++tried;
    }
  }
  return tried == 0 ? not_offered("its ops have no constraints") : pass();
}

// ---- Inference
// -----------------------------------------------------------------------------------

// What inference says of a call: types, or the failure.
std::string answer(const HostTables& host, const tenon_op_def_t* op,
                   std::span<const tenon_attr_t> attributes, std::span<const Array> operands) {
  Call call;
  Failure why;
  if (!build_call(host, op, attributes, operands, false, &call, &why))
    return "refused: " + why.text;
  return type_of_results(host, call);
}

Outcome op_infer_function(Session& s) {
  PluginOps plugin;
  CONFORM_TRY(find_ops(s, &plugin));
  for (const tenon_op_def_t* op : plugin.ops) {
    for (const Example& example : examples_of(plugin.host, op)) {
      std::vector<tenon_attr_t> attributes;
      if (example.has_regions || !portable_attributes(plugin.host, example, &attributes)) continue;
      s.step("inferring " + printable(example.text, 300));
      const std::string first = answer(plugin.host, op, attributes, example.operands);
      for (int round = 0; round < 3; ++round) {
        const std::string again = answer(plugin.host, op, attributes, example.operands);
        CONFORM_EXPECT(again == first, "{}: asked again, inference says {} after {}",
                       printable(example.text, 300), again, first);
      }
      Call constants;
      Failure why;
      std::vector<Array> found;
      std::string problem;
      if (!build_call(plugin.host, op, attributes, example.operands, true, &constants, &why) ||
          !evaluate_graph(plugin.host, constants.graph.get(), {}, &found, &problem))
        continue;  // G.op-examples tells
      const tenon_node_view_t node = node_view(plugin.host, constants.graph.get(), constants.node);
      for (uint32_t r = 0; r < node.result_count && r < example.expected.size(); ++r) {
        const tenon_type_t type =
            value_view(plugin.host, constants.graph.get(), node.results[r]).type;
        const Array& e = example.expected[r];
        bool same = type.dtype == e.dtype && type.rank == e.dims.size();
        for (uint32_t d = 0; same && d < type.rank; ++d)
          same = type.dims[d] < 0 || type.dims[d] == e.dims[d];
        CONFORM_EXPECT(same, "{}: result {} is inferred as {}", printable(example.text, 300), r,
                       type_text(plugin.host, constants.graph.get(), type));
      }
    }
  }
  return pass();
}

// Questions that nobody would ask: any shapes, any attributes, within what the declaration admits.
class HostileQuestions {
 public:
  HostileQuestions(const tenon_op_def_t& op, const HostTables& host, uint64_t seed)
      : op_(op), host_(host), random_(seed) {}

  std::vector<Array> operands() {
    std::vector<Array> out;
    std::map<uint32_t, tenon_dtype_t> groups;
    for (uint32_t i = 0; i < op_.operand_count; ++i) {
      const tenon_operand_def_t& def = op_.operands[i];
      const bool variadic = (def.flags & TENON_OPERAND_VARIADIC) != 0;
      if ((def.flags & TENON_OPERAND_OPTIONAL) != 0 && below(2) == 0) {
        out.emplace_back();
        continue;
      }
      for (int64_t n = variadic ? below(4) : 1; n > 0; --n) out.push_back(operand(def, &groups));
    }
    return out;
  }

  std::vector<tenon_attr_t> attributes() {
    std::vector<tenon_attr_t> out;
    for (uint32_t i = 0; i < op_.attr_count; ++i) {
      const tenon_attr_def_t& def = op_.attrs[i];
      if ((def.flags & TENON_ATTR_REQUIRED) == 0 && below(2) == 0) continue;
      tenon_attr_t a = {};
      a.name = host_.host->intern(host_.host->self, def.name);
      a.kind = def.kind;
      a.count = 1;
      if (value(def, &a)) out.push_back(a);
    }
    return out;
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  int64_t number() {
    static constexpr int64_t kNumbers[] = {0,  1,  2,   3,    7,         -1,        -2,
                                           64, -9, 255, 1000, INT32_MAX, INT64_MAX, INT64_MIN};
    return kNumbers[below(std::size(kNumbers))];
  }
  Array operand(const tenon_operand_def_t& def, std::map<uint32_t, tenon_dtype_t>* groups) {
    auto dtype = static_cast<tenon_dtype_t>(1 + below(TENON_DTYPE_COUNT - 1));
    for (int tries = 0; tries < 64 && (def.dtypes >> dtype & 1) == 0; ++tries)
      dtype = static_cast<tenon_dtype_t>(1 + below(TENON_DTYPE_COUNT - 1));
    if (def.dtype_group != 0) dtype = groups->try_emplace(def.dtype_group, dtype).first->second;
    static constexpr int64_t kDims[] = {0, 1, 2, 3, 4, 8, 1, 2, 3, 1000, INT32_MAX, INT64_MAX};
    std::vector<int64_t> dims;
    const int64_t most = std::min<int64_t>(def.rank_max, below(8) == 0 ? TENON_RANK_MAX : 5);
    const int64_t rank = def.rank_min + (most > def.rank_min ? below(most - def.rank_min + 1) : 0);
    for (int64_t d = 0; d < rank; ++d)
      dims.push_back(kDims[below(below(4) == 0 ? std::size(kDims) : 6)]);
    return {dtype, std::move(dims), {}};
  }
  bool value(const tenon_attr_def_t& def, tenon_attr_t* a) {
    std::vector<int64_t>& numbers = numbers_.emplace_back();
    const int64_t count = below(6);
    for (int64_t i = 0; i < count; ++i) numbers.push_back(below(3) == 0 ? number() : below(4));
    switch (def.kind) {
      case TENON_ATTR_I64:
        a->u.i = below(2) == 0 ? number() : below(4);
        return true;
      case TENON_ATTR_DTYPE:
        a->u.i = 1 + below(TENON_DTYPE_COUNT - 1);
        return true;
      case TENON_ATTR_F64:
        a->u.f = below(4) == 0 ? std::numeric_limits<double>::quiet_NaN()
                               : static_cast<double>(number());
        return true;
      case TENON_ATTR_STRING: {
        const std::vector<std::string_view> choices = split(view(def.choices), '|');
        const std::string_view text =
            choices.empty()
                ? "\xff no word"
                : choices[static_cast<size_t>(below(static_cast<int64_t>(choices.size())))];
        a->u.s = {text.data(), text.size()};
        return true;
      }
      case TENON_ATTR_I64S:
        a->count = numbers.size();
        a->u.is = numbers.data();
        return true;
      case TENON_ATTR_DIMS:
        for (int64_t& n : numbers) n = std::max<int64_t>(n, 0);
        a->count = numbers.size();
        a->u.dims = numbers.data();
        return true;
      case TENON_ATTR_F64S:
        doubles_.emplace_back(numbers.begin(), numbers.end());
        a->count = numbers.size();
        a->u.fs = doubles_.back().data();
        return true;
      default:
        return false;  // texts in lists, types and blobs stay away
    }
  }

  const tenon_op_def_t& op_;
  const HostTables& host_;
  std::mt19937_64 random_;
  std::deque<std::vector<int64_t>> numbers_;
  std::deque<std::vector<double>> doubles_;
};

std::string question_text(const tenon_op_def_t& op, const std::vector<Array>& operands) {
  std::string text;
  for (const Array& a : operands) {
    text += text.empty() ? "" : ", ";
    text += a.dtype == TENON_DTYPE_NONE ? "_" : std::string(ir::dtype_name(a.dtype)) + "[";
    for (size_t d = 0; d < a.dims.size(); ++d)
      text += fmt::format("{}{}", d == 0 ? "" : ", ", a.dims[d]);
    text += a.dtype == TENON_DTYPE_NONE ? "" : "]";
  }
  return fmt::format("{}({})", name_of(op), text);
}

Outcome check_refusal(const tenon_op_def_t& op, const std::string& question, const Failure& why) {
  if (!why.constraint.empty()) {
    for (uint32_t i = 0; i < op.constraint_count; ++i) {
      if (view(op.constraints[i].label) == why.constraint) return pass();
    }
    return failed("{}: inference fails with the label {}, which {} does not declare", question,
                  quoted(why.constraint), name_of(op));
  }
  CONFORM_EXPECT(why.id != "T0002" && !why.text.empty(),
                 "{}: inference fails without a label and without a reason", question);
  CONFORM_EXPECT(why.code != TENON_INTERNAL, "{}: {}", question, why.text);
  return pass();
}

Outcome op_infer_hostile(Session& s) {
  PluginOps plugin;
  CONFORM_TRY(find_ops(s, &plugin));
  for (const tenon_op_def_t* op : plugin.ops) {
    HostileQuestions questions(*op, plugin.host, 1);
    for (int round = 0; round < kHostileRounds; ++round) {
      const std::vector<Array> operands = questions.operands();
      const std::vector<tenon_attr_t> attributes = questions.attributes();
      const std::string question = question_text(*op, operands);
      s.step("inferring " + question);
      Call call;
      Failure why;
      if (!build_call(plugin.host, op, attributes, operands, false, &call, &why)) {
        CONFORM_TRY(check_refusal(*op, question, why));
        continue;
      }
      const tenon_node_view_t node = node_view(plugin.host, call.graph.get(), call.node);
      for (uint32_t r = 0; r < node.result_count; ++r) {
        const tenon_type_t type = value_view(plugin.host, call.graph.get(), node.results[r]).type;
        CONFORM_EXPECT(type.kind != TENON_KIND_TENSOR || ir::dtype_valid(type.dtype),
                       "{}: result {} has no element type", question, r);
        for (uint32_t d = 0; d < type.rank; ++d) {
          tenon_dim_view_t dim = {};
          dim.size_bytes = sizeof(dim);
          const auto& graph = *plugin.host.graph;
          CONFORM_EXPECT(
              graph.dim_view(graph.self, call.graph.get(), type.dims[d], &dim) == TENON_OK &&
                  (dim.op != TENON_DIM_CONSTANT || dim.constant >= 0),
              "{}: dim {} of result {} is {}", question, d, r, type.dims[d]);
        }
      }
    }
  }
  return pass();
}

// ---- Meaning
// -------------------------------------------------------------------------------------

bool decompose(const HostTables& host, const tenon_op_def_t& op, Call* call, std::string* why) {
  tenon_graph_t* graph = call->graph.get();
  const tenon_node_view_t view = node_view(host, graph, call->node);
  std::vector<tenon_value_t> results(view.result_count, TENON_NONE);
  const tenon_builder_t builder = {graph, view.parent, call->node, 0};
  forget_failure();
  if (op.decompose(op.self, &builder, call->node, results.data()) != TENON_OK)
    return *why = "decompose fails: " + last_failure(host).text, false;
  for (size_t r = 0; r < results.size(); ++r) {
    const tenon_value_view_t made = value_view(host, graph, results[r]);
    const tenon_value_view_t wanted =
        value_view(host, graph, node_view(host, graph, call->node).results[r]);
    const std::string a = type_text(host, graph, made.type),
                      b = type_text(host, graph, wanted.type);
    if (made.kind == 0 || (a != b && a.find("dim ") == std::string::npos))
      return *why = fmt::format("decompose makes {} for result {}, and inference says {}", a, r, b),
             false;
  }
  if (!replace_node(host, graph, call->node, results))
    return *why = "its results cannot stand for the node's: " + last_failure(host).text, false;
  return true;
}

// By the scalar program alone; false where that has nothing to say.
bool run_scalar(const HostTables& host, const tenon_op_def_t& op, const Call& call,
                std::span<const Array> operands, std::vector<Array>* out, std::string* why) {
  std::vector<tenon_attr_t> attributes(op.attr_count);
  if (host.registry->node_attrs(host.registry->self, call.graph.get(), call.node,
                                attributes.data()) != TENON_OK)
    return *why = last_failure(host).text, false;
  std::deque<std::vector<int64_t>> strides;
  std::vector<tenon_array_t> inputs;
  for (const Array& a : operands) {
    std::vector<int64_t>& stride = strides.emplace_back(a.dims.size() + 1);
    int64_t next = ir::dtype_bits(a.dtype) / 8;
    for (size_t d = a.dims.size(); d-- > 0; next *= a.dims[d]) stride[d] = next;
    inputs.push_back({sizeof(tenon_array_t), a.dtype, 0, static_cast<uint32_t>(a.dims.size()), 0,
                      const_cast<unsigned char*>(a.bytes.data()), a.dims.data(), stride.data()});
  }
  std::vector<op::HostArray> outputs;
  const tenon_node_view_t node = node_view(host, call.graph.get(), call.node);
  for (uint32_t r = 0; r < node.result_count; ++r) {
    const tenon_type_t type = value_view(host, call.graph.get(), node.results[r]).type;
    Result<op::HostArray> made = op::HostArray::create(type.dtype, {type.dims, type.rank});
    if (!made.ok()) return *why = made.status().text(), false;
    outputs.push_back(std::move(*made));
  }
  if (Status status = op::run_scalar(op, attributes, inputs, outputs); !status.ok())
    return *why = status.text(), false;
  for (const op::HostArray& o : outputs) {
    Array& array =
        out->emplace_back(make_array(o.view().dtype, {o.dims().begin(), o.dims().end()}));
    std::memcpy(array.bytes.data(), o.view().data, o.size_bytes());
  }
  return true;
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

// Values to compute with: the example's own, some in which hardly an op leaves its domain, and some
// of both signs.
enum class Values { kOwn, kTame, kSigned };

Outcome meanings_agree(const HostTables& host, const Example& example, tenon_dtype_t dtype,
                       Values values, size_t* calls) {
  const tenon_op_def_t& op = *example.op;
  std::vector<tenon_attr_t> attributes;
  std::vector<Array> operands;
  if (!portable_attributes(host, example, &attributes) || !with_dtype(example, dtype, &operands))
    return pass();
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool integral = i != 0 && ir::dtype_is_integer(operands[i].dtype);
    if (values == Values::kOwn) operands[i] = example.operands[i];
    if (values == Values::kOwn || integral || operands[i].dtype == TENON_DTYPE_NONE) continue;
    if (values == Values::kTame) fill_tame(&operands[i], i + 1);
    if (values == Values::kSigned) fill_signed(&operands[i], i + 1);
  }
  for (const bool constants : {false, true}) {
    Call call;
    Failure why;
    if (!build_call(host, &op, attributes, operands, constants, &call, &why)) continue;
    const std::string what =
        fmt::format("{} in {}", printable(example.text, 300), ir::dtype_name(dtype));
    std::vector<Array> expected;
    std::string problem;
    // Numbers of no meaning may be no indices, or break what is asserted; the op says so.
    if (!evaluate_graph(host, call.graph.get(), call.inputs, &expected, &problem)) return pass();
    ++*calls;
    if (op.scalar_words != 0 && op.reference != nullptr) {
      std::vector<Array> found;
      CONFORM_EXPECT(run_scalar(host, op, call, operands, &found, &problem), "{}: {}", what,
                     problem);
      CONFORM_TRY(compare_all(what, "scalar program", op, found, expected));
    }
    if (op.decompose != nullptr && (op.reference != nullptr || op.scalar_words != 0)) {
      std::vector<Array> found;
      if (!decompose(host, op, &call, &problem)) return pass();  // G.op-decomposition tells
      CONFORM_EXPECT(evaluate_graph(host, call.graph.get(), call.inputs, &found, &problem),
                     "{}: its decomposition: {}", what, problem);
      CONFORM_TRY(compare_all(what, "decomposition", op, found, expected));
    }
    return pass();
  }
  return pass();
}

Outcome op_meanings(Session& s) {
  PluginOps plugin;
  CONFORM_TRY(find_ops(s, &plugin));
  size_t calls = 0;
  for (const tenon_op_def_t* op : plugin.ops) {
    for (const Example& example : examples_of(plugin.host, op)) {
      if (example.has_regions) continue;
      for (tenon_dtype_t dtype = TENON_PRED; dtype < TENON_DTYPE_COUNT; ++dtype) {
        s.step(fmt::format("evaluating {} in {}", printable(example.text, 300),
                           ir::dtype_name(dtype)));
        const bool own = !example.operands.empty() && example.operands[0].dtype == dtype;
        if (own) CONFORM_TRY(meanings_agree(plugin.host, example, dtype, Values::kOwn, &calls));
        CONFORM_TRY(meanings_agree(plugin.host, example, dtype, Values::kTame, &calls));
        CONFORM_TRY(meanings_agree(plugin.host, example, dtype, Values::kSigned, &calls));
      }
    }
  }
  return calls == 0 ? not_offered("its ops take no tensors whose values could be chosen") : pass();
}

Outcome op_decomposition(Session& s) {
  PluginOps plugin;
  CONFORM_TRY(find_ops(s, &plugin));
  size_t tried = 0;
  for (const tenon_op_def_t* op : plugin.ops) {
    if (op->decompose == nullptr) {
      CONFORM_EXPECT((op->traits & TENON_TRAIT_COMPOSITE) == 0,
                     "{} says that it is composite and has no decomposition", name_of(*op));
      continue;
    }
    for (Example& example : examples_of(plugin.host, op)) {
      s.step("decomposing " + printable(example.text, 300));
      const std::string what = printable(example.text, 300);
      std::string why;
      CONFORM_EXPECT(decompose(plugin.host, *op, &example.call, &why), "{}: {}", what, why);
      const tenon_region_view_t main = main_region(plugin.host, example.call.graph.get());
      for (uint32_t i = 0; i < main.node_count; ++i) {
        const tenon_node_view_t node =
            node_view(plugin.host, example.call.graph.get(), main.nodes[i]);
        CONFORM_EXPECT(op_name(plugin.host, node) != view(op->name),
                       "{}: its decomposition holds {} again", what, name_of(*op));
      }
      CONFORM_EXPECT(
          plugin.host.graph->verify(plugin.host.graph->self, example.call.graph.get()) == TENON_OK,
          "{}: its decomposition is no valid graph: {}", what, last_failure(plugin.host).text);
      ++tried;
    }
  }
  return tried == 0 ? not_offered("its ops have no decomposition") : pass();
}

// ---- Folds and rewrites
// --------------------------------------------------------------------------

struct Simplifier {
  std::string name;
  std::string_view root;  // empty: any
  std::function<tenon_code_t(const tenon_builder_t*, tenon_node_t, tenon_value_t*, uint32_t*)> run;
};

std::vector<Simplifier> simplifiers_of(const tenon_op_def_t& op) {
  std::vector<Simplifier> out;
  if (op.fold != nullptr) {
    out.push_back({"fold of " + name_of(op), view(op.name),
                   [&op](const tenon_builder_t* b, tenon_node_t n, tenon_value_t* r, uint32_t* m) {
                     return op.fold(op.self, b, n, r, m);
                   }});
  }
  for (uint64_t i = 0; i < op.rewrite_count; ++i) {
    const tenon_rewrite_t* rewrite = &op.rewrites[i];
    out.push_back(
        {"rewrite " + printable(view(rewrite->name)), view(rewrite->root),
         [rewrite](const tenon_builder_t* b, tenon_node_t n, tenon_value_t* r, uint32_t* m) {
           return rewrite->match_and_build(rewrite->self, b, n, r, m);
         }});
  }
  return out;
}

// Applies them until nothing matches.
Outcome simplify(const HostTables& host, std::span<const Simplifier> all, tenon_graph_t* graph) {
  constexpr int kApplicationsMax = 64;
  for (int applied = 0;; ++applied) {
    bool changed = false;
    const tenon_region_view_t main = main_region(host, graph);
    const std::vector<tenon_node_t> nodes(main.nodes, main.nodes + main.node_count);
    for (tenon_node_t n : nodes) {
      const tenon_node_view_t node = node_view(host, graph, n);
      for (const Simplifier& simplifier : all) {
        if (!simplifier.root.empty() && simplifier.root != op_name(host, node)) continue;
        std::vector<tenon_value_t> results(node.result_count, TENON_NONE);
        uint32_t matched = 0;
        const tenon_builder_t builder = {graph, node.parent, n, 0};
        forget_failure();
        CONFORM_EXPECT(simplifier.run(&builder, n, results.data(), &matched) == TENON_OK,
                       "the {} fails: {}", simplifier.name, last_failure(host).text);
        if (matched == 0) continue;
        CONFORM_EXPECT(applied < kApplicationsMax, "the {} does not end: it matched {} times",
                       simplifier.name, applied);
        CONFORM_EXPECT(replace_node(host, graph, n, results),
                       "what the {} builds cannot stand for the node: {}", simplifier.name,
                       last_failure(host).text);
        changed = true;
        break;
      }
      if (changed) break;
    }
    if (!changed) return pass();
  }
}

// Graphs in which a fold may find something: the example, its operands as zeros or ones or one
// value, and the op on its own result.
std::vector<std::pair<std::string, Call>> fold_inputs(const HostTables& host, const Example& e) {
  std::vector<std::pair<std::string, Call>> out;
  std::vector<tenon_attr_t> attributes;
  if (!portable_attributes(host, e, &attributes) || e.has_regions) return out;
  const auto add = [&](std::string what, const std::vector<Array>& operands, bool constants) {
    Call call;
    Failure why;
    if (build_call(host, e.op, attributes, operands, constants, &call, &why))
      out.emplace_back(std::move(what), std::move(call));
  };
  add("as it is", e.operands, true);
  add("on arguments", e.operands, false);
  for (size_t i = 0; i < e.operands.size(); ++i) {
    if (e.operands[i].dtype == TENON_DTYPE_NONE) continue;
    for (const double value : {0.0, 1.0, 2.0, -1.0}) {
      std::vector<Array> operands = e.operands;
      Array& changed = operands[i] = make_array(operands[i].dtype, operands[i].dims);
      const uint32_t width = ir::dtype_bits(changed.dtype) / 8;
      if (width == 0 || changed.dtype >= TENON_C64) continue;
      unsigned char element[8] = {};
      const auto narrow = static_cast<float>(value);
      const uint16_t half =
          changed.dtype == TENON_F16 ? ir::f32_to_f16(narrow) : ir::f32_to_bf16(narrow);
      const auto integer = static_cast<int64_t>(value);
      if (changed.dtype == TENON_F64)
        std::memcpy(element, &value, 8);
      else if (changed.dtype == TENON_F32)
        std::memcpy(element, &narrow, 4);
      else if (changed.dtype == TENON_F16 || changed.dtype == TENON_BF16)
        std::memcpy(element, &half, 2);
      else
        std::memcpy(element, &integer, std::min<size_t>(width, 8));
      for (int64_t n = 0; n < changed.count(); ++n)
        std::memcpy(changed.bytes.data() + n * width, element, width);
      if (changed.dtype == TENON_PRED && (value > 1 || value < 0)) continue;
      Call call;
      Failure why;
      // This one a constant, the others arguments: what a fold looks for most.
      if (build_call(host, e.op, attributes, operands, false, &call, &why)) {
        std::vector<Array> inputs;
        tenon_graph_t* graph = call.graph.get();
        const tenon_node_view_t node = node_view(host, graph, call.node);
        const tenon_value_t argument = node.operands[i];
        tenon_blob_t* blob = nullptr;
        tenon_value_t constant = 0;
        const tenon_type_t type = {changed.dtype, TENON_KIND_TENSOR,
                                   static_cast<uint32_t>(changed.dims.size()), changed.dims.data(),
                                   0};
        if (host.graph->blob_bytes(host.graph->self, changed.bytes.data(), changed.bytes.size() - 8,
                                   &blob) != TENON_OK)
          continue;
        if (host.graph->constant(host.graph->self, graph, &type, blob, &constant) == TENON_OK &&
            host.graph->value_replace(host.graph->self, graph, argument, constant) == TENON_OK)
          out.emplace_back(fmt::format("with operand {} all {}", i, value), std::move(call));
        host.graph->blob_release(host.graph->self, blob);
      }
    }
  }
  // One value for two operands.
  Call same;
  Failure why;
  if (build_call(host, e.op, attributes, e.operands, false, &same, &why)) {
    const tenon_node_view_t node = node_view(host, same.graph.get(), same.node);
    if (node.operand_count >= 2 && node.operands[0] != TENON_NONE &&
        node.operands[1] != TENON_NONE &&
        host.graph->operand_set(host.graph->self, same.graph.get(), same.node, 1,
                                node.operands[0]) == TENON_OK)
      out.emplace_back("with one value for two operands", std::move(same));
  }
  // The op on its own result.
  Call twice;
  if (build_call(host, e.op, attributes, e.operands, false, &twice, &why)) {
    tenon_graph_t* graph = twice.graph.get();
    const tenon_node_view_t node = node_view(host, graph, twice.node);
    if (node.result_count != 0 && node.operand_count != 0) {
      std::vector<tenon_value_t> operands(node.operands, node.operands + node.operand_count);
      operands[0] = node.results[0];
      const tenon_builder_t builder = {graph, node.parent, TENON_NONE, 0};
      tenon_node_spec_t spec = {};
      spec.size_bytes = sizeof(spec);
      spec.op = node.op;
      spec.operands = operands.data();
      spec.operand_count = node.operand_count;
      spec.attrs = attributes.data();
      spec.attr_count = static_cast<uint32_t>(attributes.size());
      tenon_node_t second = TENON_NONE;
      if (host.graph->node_build(host.graph->self, &builder, &spec, &second) == TENON_OK) {
        const tenon_node_view_t outer = node_view(host, graph, second);
        std::vector<tenon_value_t> results(outer.results, outer.results + outer.result_count);
        std::vector<std::string> names;
        std::vector<tenon_str_t> texts;
        for (size_t i = 0; i < results.size(); ++i) names.push_back(fmt::format("r{}", i));
        for (const std::string& name : names) texts.push_back({name.data(), name.size()});
        if (host.graph->region_yield(host.graph->self, graph, node.parent, results.data(),
                                     static_cast<uint32_t>(results.size()),
                                     texts.data()) == TENON_OK)
          out.emplace_back("on its own result", std::move(twice));
      }
    }
  }
  return out;
}

Outcome op_folds(Session& s) {
  PluginOps plugin;
  CONFORM_TRY(find_ops(s, &plugin));
  std::vector<Simplifier> all;
  for (const tenon_op_def_t* op : plugin.ops) {
    for (Simplifier& simplifier : simplifiers_of(*op)) all.push_back(std::move(simplifier));
  }
  if (all.empty()) return not_offered("its ops have no folds and no rewrites");
  for (const tenon_op_def_t* op : plugin.ops) {
    for (const Example& example : examples_of(plugin.host, op)) {
      for (auto& [form, call] : fold_inputs(plugin.host, example)) {
        const std::string what = fmt::format("{} {}", printable(example.text, 300), form);
        s.step("simplifying " + what);
        tenon_graph_t* graph = call.graph.get();
        std::vector<Array> expected, found;
        std::string why;
        const bool has_values = evaluate_graph(plugin.host, graph, call.inputs, &expected, &why);
        const Outcome done = simplify(plugin.host, all, graph);
        CONFORM_EXPECT(done.verdict == Verdict::kPass, "{}: {}", what, done.text);
        CONFORM_EXPECT(plugin.host.graph->verify(plugin.host.graph->self, graph) == TENON_OK,
                       "{}: the graph is broken afterwards: {}", what,
                       last_failure(plugin.host).text);
        if (!has_values) continue;
        CONFORM_EXPECT(evaluate_graph(plugin.host, graph, call.inputs, &found, &why),
                       "{}: afterwards: {}", what, why);
        CONFORM_TRY(compare_all(what, "simplified form", *op, found, expected));
      }
    }
  }
  return pass();
}

// ---- Shape arithmetic, traits, arrays, threads
// ---------------------------------------------------

// A question with answers of our own.
struct KnownQuestion {
  std::vector<std::vector<tenon_dim_t>> values;  // by operand; empty: not known
  static tenon_code_t value_of(void* self, uint32_t operand, const tenon_dim_t** out,
                               uint64_t* count) {
    const auto& q = *static_cast<KnownQuestion*>(self);
    if (operand >= q.values.size() || q.values[operand].empty()) return TENON_NOT_FOUND;
    *out = q.values[operand].data();
    *count = q.values[operand].size();
    return TENON_OK;
  }
};

bool integers_of(const Array& array, std::vector<tenon_dim_t>* out) {
  const uint32_t bits = ir::dtype_bits(array.dtype);
  if (!ir::dtype_is_integer(array.dtype) || bits < 8) return false;
  for (int64_t i = 0; i < array.count(); ++i) {
    int64_t value = 0;
    std::memcpy(&value, array.bytes.data() + i * (bits / 8), bits / 8);
    const bool is_signed = array.dtype >= TENON_I8 && array.dtype <= TENON_I64;
    if (is_signed && bits < 64)
      value = static_cast<int64_t>(static_cast<uint64_t>(value) << (64 - bits)) >> (64 - bits);
    if (value < 0) return false;  // a negative constant dim is not written as itself
    out->push_back(value);
  }
  return true;
}

Outcome known_values(const HostTables& host, const Example& e, size_t* known) {
  const tenon_op_def_t& op = *e.op;
  std::vector<tenon_attr_t> attributes;
  std::vector<Array> operands;
  if (e.has_regions || !portable_attributes(host, e, &attributes) ||
      !with_dtype(e, TENON_I64, &operands))
    return pass();
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].dtype == TENON_I64 && e.operands[i].dtype != TENON_I64)
      fill_tame(&operands[i], i + 1);
    else
      operands[i] = e.operands[i];
  }
  Call call;
  Failure why;
  std::vector<Array> expected;
  std::string problem;
  if (!build_call(host, &op, attributes, operands, true, &call, &why) ||
      !evaluate_graph(host, call.graph.get(), {}, &expected, &problem))
    return pass();
  KnownQuestion question;
  std::vector<tenon_type_t> types;
  for (const Array& a : operands) {
    if (!integers_of(a, &question.values.emplace_back())) question.values.back().clear();
    types.push_back(
        {a.dtype, TENON_KIND_TENSOR, static_cast<uint32_t>(a.dims.size()), a.dims.data(), 0});
  }
  std::vector<tenon_attr_t> declared(op.attr_count);
  (void)host.registry->node_attrs(host.registry->self, call.graph.get(), call.node,
                                  declared.data());
  tenon_infer_t query = {};
  query.size_bytes = sizeof(query);
  query.operand_count = static_cast<uint32_t>(types.size());
  query.attr_count = op.attr_count;
  query.op = &op;
  query.graph = call.graph.get();
  query.operands = types.data();
  query.attrs = declared.data();
  query.host = &question;
  query.value_of = KnownQuestion::value_of;
  for (uint32_t r = 0; r < expected.size(); ++r) {
    std::vector<tenon_dim_t> wanted;
    if (expected[r].count() > 4096 || !integers_of(expected[r], &wanted)) continue;
    std::vector<tenon_dim_t> found(wanted.size() + 1, -77);
    if (op.value_of(op.self, &query, r, found.data()) != TENON_OK) continue;
    ++*known;
    CONFORM_EXPECT(found.back() == -77, "{}: value_of writes more elements than result {} has",
                   printable(e.text, 300), r);
    found.pop_back();
    CONFORM_EXPECT(found == wanted,
                   "{} on integers: value_of says other elements of result {} than the reference",
                   printable(e.text, 300), r);
  }
  return pass();
}

Outcome op_known_values(Session& s) {
  PluginOps plugin;
  CONFORM_TRY(find_ops(s, &plugin));
  size_t known = 0, offered = 0;
  for (const tenon_op_def_t* op : plugin.ops) {
    if (op->value_of == nullptr) continue;
    ++offered;
    for (const Example& example : examples_of(plugin.host, op)) {
      s.step("value_of of " + printable(example.text, 300));
      CONFORM_TRY(known_values(plugin.host, example, &known));
    }
  }
  if (offered == 0) return not_offered("its ops have no value_of");
  return known == 0 ? skipped("no example has integers whose results it knows") : pass();
}

Outcome check_traits(const HostTables& host, const Example& e, size_t* tried) {
  const tenon_op_def_t& op = *e.op;
  std::vector<tenon_attr_t> attributes;
  if (e.has_regions || !portable_attributes(host, e, &attributes)) return pass();
  const std::string what = printable(e.text, 300);
  if ((op.traits & TENON_TRAIT_ELEMENTWISE) != 0) {
    ++*tried;
    for (const Array& operand : e.operands) {
      CONFORM_EXPECT(operand.dtype == TENON_DTYPE_NONE || operand.dims.empty() ||
                         operand.dims == e.expected[0].dims,
                     "{}: it says that it is elementwise, and shapes differ", what);
    }
  }
  if ((op.traits & TENON_TRAIT_COMMUTATIVE) != 0 && e.operands.size() == 2) {
    ++*tried;
    const std::vector<Array> swapped = {e.operands[1], e.operands[0]};
    Call call;
    Failure why;
    std::vector<Array> found;
    std::string problem;
    CONFORM_EXPECT(
        build_call(host, &op, attributes, swapped, true, &call, &why) &&
            evaluate_graph(host, call.graph.get(), {}, &found, &problem),
        "{}: it says that it commutes, and does not take its operands in the other order", what);
    CONFORM_TRY(
        compare_all(what, "result with operands in the other order", op, found, e.expected));
  }
  if ((op.traits & TENON_TRAIT_IDEMPOTENT) != 0 && e.operands.size() == 1) {
    ++*tried;
    Call call;
    Failure why;
    std::vector<Array> found;
    std::string problem;
    CONFORM_EXPECT(build_call(host, &op, attributes, {&e.expected[0], 1}, true, &call, &why) &&
                       evaluate_graph(host, call.graph.get(), {}, &found, &problem),
                   "{}: it says that it is idempotent, and does not take its result", what);
    CONFORM_TRY(compare_all(what, "second application", op, found, e.expected));
  }
  return pass();
}

Outcome op_traits(Session& s) {
  PluginOps plugin;
  CONFORM_TRY(find_ops(s, &plugin));
  size_t tried = 0;
  for (const tenon_op_def_t* op : plugin.ops) {
    for (const Example& example : examples_of(plugin.host, op)) {
      s.step("traits of " + printable(example.text, 300));
      CONFORM_TRY(check_traits(plugin.host, example, &tried));
    }
  }
  return tried == 0 ? not_offered("its ops have no trait that could be tried") : pass();
}

// An array with other strides: every second element of a larger one, the last dim backwards.
struct Strided {
  std::vector<unsigned char> bytes;
  std::vector<int64_t> strides;
  tenon_array_t array = {};
};
bool make_strided(const Array& from, Strided* out) {
  const auto width = static_cast<int64_t>(ir::dtype_bits(from.dtype) / 8);
  if (width == 0) return false;
  const size_t rank = from.dims.size();
  out->strides.resize(rank + 1);
  int64_t next = 2 * width;
  for (size_t d = rank; d-- > 0; next *= std::max<int64_t>(from.dims[d], 1)) out->strides[d] = next;
  out->bytes.assign(static_cast<size_t>(next) + 16, 0x5a);
  unsigned char* first = out->bytes.data();
  if (rank != 0 && from.dims[rank - 1] > 0) {
    first += (from.dims[rank - 1] - 1) * out->strides[rank - 1];
    out->strides[rank - 1] = -out->strides[rank - 1];
  }
  std::vector<int64_t> index(rank);
  for (int64_t n = 0; n < from.count(); ++n) {
    unsigned char* at = first;
    for (size_t d = 0; d < rank; ++d) at += index[d] * out->strides[d];
    std::memcpy(at, from.bytes.data() + n * width, static_cast<size_t>(width));
    for (size_t d = rank; d-- > 0;) {
      if (++index[d] < from.dims[d]) break;
      index[d] = 0;
    }
  }
  out->array = {sizeof(tenon_array_t), from.dtype,         0, static_cast<uint32_t>(rank), 0, first,
                from.dims.data(),      out->strides.data()};
  return true;
}

Outcome strided_operands(const HostTables& host, const Example& e) {
  tenon_graph_t* graph = e.call.graph.get();
  const std::string what = printable(e.text, 300);
  std::deque<Strided> strided;
  std::vector<tenon_array_t> inputs;
  for (const Array& operand : e.operands) {
    tenon_array_t none = {};
    none.size_bytes = sizeof(none);
    if (operand.dtype == TENON_DTYPE_NONE)
      inputs.push_back(none);
    else if (make_strided(operand, &strided.emplace_back()))
      inputs.push_back(strided.back().array);
    else
      return pass();
  }
  std::vector<std::vector<unsigned char>> before;
  for (const Strided& one : strided) before.push_back(one.bytes);
  std::vector<tenon_array_t> outputs(e.expected.size());
  for (tenon_array_t& output : outputs) output.size_bytes = sizeof(output);
  const std::vector<int64_t> symbols(64, 0);
  CONFORM_EXPECT(host.registry->evaluate(host.registry->self, graph, e.call.node, symbols.data(),
                                         static_cast<uint32_t>(symbols.size()), inputs.data(),
                                         static_cast<uint32_t>(inputs.size()), outputs.data(),
                                         static_cast<uint32_t>(outputs.size())) == TENON_OK,
                 "{} on strided arrays: {}", what, last_failure(host).text);
  Outcome outcome = pass();
  for (size_t r = 0; r < outputs.size(); ++r) {
    Array found =
        make_array(outputs[r].dtype, {outputs[r].dims, outputs[r].dims + outputs[r].rank});
    std::memcpy(found.bytes.data(), outputs[r].data, found.bytes.size() - 8);
    host.registry->array_free(host.registry->self, &outputs[r]);
    const std::string wrong = difference(found, e.expected[r], tolerance_of(*e.op));
    if (!wrong.empty()) outcome = failed("{} on strided arrays: result {}: {}", what, r, wrong);
  }
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] != strided[i].bytes) outcome = failed("{}: it changes operand {}", what, i);
  }
  return outcome;
}

// Operands whose first dim has the stride 0, against the same elements written out.
Outcome repeated_operands(const HostTables& host, const Example& e) {
  std::vector<tenon_attr_t> attributes;
  if (!portable_attributes(host, e, &attributes)) return pass();
  std::deque<std::vector<int64_t>> strides;
  std::vector<Array> written = e.operands;
  std::vector<tenon_array_t> inputs;
  for (Array& operand : written) {
    tenon_array_t array = {};
    array.size_bytes = sizeof(array);
    const auto width = static_cast<int64_t>(ir::dtype_bits(operand.dtype) / 8);
    if (operand.dtype != TENON_DTYPE_NONE) {
      if (width == 0) return pass();
      std::vector<int64_t>& stride = strides.emplace_back(operand.dims.size() + 1);
      int64_t next = width;
      for (size_t d = operand.dims.size(); d-- > 0; next *= operand.dims[d]) stride[d] = next;
      const bool floats = operand.dtype >= TENON_F16;  // indices and counts keep their values
      if (!operand.dims.empty() && floats) {
        const int64_t row = operand.dims[0] == 0 ? 0 : operand.count() / operand.dims[0] * width;
        for (int64_t i = 1; i < operand.dims[0]; ++i)
          std::memcpy(operand.bytes.data() + i * row, operand.bytes.data(),
                      static_cast<size_t>(row));
        stride[0] = 0;
      }
      array.dtype = operand.dtype;
      array.rank = static_cast<uint32_t>(operand.dims.size());
      array.data = operand.bytes.data();
      array.dims = operand.dims.data();
      array.strides_bytes = stride.data();
    }
    inputs.push_back(array);
  }
  Call call;
  Failure failure;
  std::vector<Array> expected;
  std::string why;
  if (!build_call(host, e.op, attributes, written, true, &call, &failure) ||
      !evaluate_graph(host, call.graph.get(), {}, &expected, &why))
    return pass();  // these values mean nothing to it
  std::vector<tenon_array_t> outputs(expected.size());
  for (tenon_array_t& output : outputs) output.size_bytes = sizeof(output);
  const std::vector<int64_t> symbols(64, 0);
  const std::string what = printable(e.text, 300);
  CONFORM_EXPECT(
      host.registry->evaluate(host.registry->self, call.graph.get(), call.node, symbols.data(),
                              static_cast<uint32_t>(symbols.size()), inputs.data(),
                              static_cast<uint32_t>(inputs.size()), outputs.data(),
                              static_cast<uint32_t>(outputs.size())) == TENON_OK,
      "{} on arrays with strides of 0: {}", what, last_failure(host).text);
  Outcome outcome = pass();
  for (size_t r = 0; r < outputs.size(); ++r) {
    Array found =
        make_array(outputs[r].dtype, {outputs[r].dims, outputs[r].dims + outputs[r].rank});
    std::memcpy(found.bytes.data(), outputs[r].data, found.bytes.size() - 8);
    host.registry->array_free(host.registry->self, &outputs[r]);
    const std::string wrong = difference(found, expected[r], tolerance_of(*e.op));
    if (!wrong.empty())
      outcome = failed("{} on arrays with strides of 0: result {}: {}", what, r, wrong);
  }
  return outcome;
}

Outcome op_arrays(Session& s) {
  PluginOps plugin;
  CONFORM_TRY(find_ops(s, &plugin));
  for (const tenon_op_def_t* op : plugin.ops) {
    for (const Example& example : examples_of(plugin.host, op)) {
      if (example.has_regions) continue;
      s.step("strided operands of " + printable(example.text, 300));
      CONFORM_TRY(strided_operands(plugin.host, example));
      CONFORM_TRY(repeated_operands(plugin.host, example));
    }
  }
  return pass();
}

Outcome op_threads(Session& s) {
  PluginOps plugin;
  CONFORM_TRY(find_ops(s, &plugin));
  std::vector<Example> examples;
  for (const tenon_op_def_t* op : plugin.ops) {
    for (Example& example : examples_of(plugin.host, op)) {
      std::vector<Array> found;
      std::string why;
      if (evaluate_graph(plugin.host, example.call.graph.get(), {}, &found, &why) &&
          examples.size() < 256)
        examples.push_back(std::move(example));
    }
  }
  for (const Example& example : examples)
    plugin.host.graph->freeze(plugin.host.graph->self, example.call.graph.get());
  s.step("inferring and evaluating in several threads");
  std::vector<Outcome> outcomes(kThreads);
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (const Example& example : examples) {
          for (int round = 0; round < 8 && outcomes[t].verdict == Verdict::kPass; ++round) {
            std::vector<Array> found;
            std::string why;
            const std::string what = printable(example.text, 300);
            Example again;
            if (!read_example(plugin.host, example.op, example.text, &again, &why) ||
                !evaluate_graph(plugin.host, example.call.graph.get(), {}, &found, &why))
              outcomes[t] = failed("{} in one of several threads: {}", what, why);
            else
              outcomes[t] = compare_all(what, "result in one of several threads", *example.op,
                                        found, example.expected);
          }
        }
      });
    }
  }
  for (Outcome& outcome : outcomes) CONFORM_TRY(std::move(outcome));
  return pass();
}

constexpr Check kChecks[] = {
    {"R-G01", "op-declared", op_declared},
    {"R-G02", "op-examples", op_examples},
    {"R-G03", "op-negatives", op_negatives},
    {"R-G04", "op-infer-function", op_infer_function},
    {"R-G05", "op-infer-hostile", op_infer_hostile},
    {"R-G06", "op-meanings", op_meanings},
    {"R-G07", "op-decomposition", op_decomposition},
    {"R-G08", "op-folds", op_folds},
    {"R-G25", "op-known-values", op_known_values},
    {"R-G26", "op-traits", op_traits},
    {"R-G27", "op-arrays", op_arrays},
    {"R-G28", "op-threads", op_threads},
};

}  // namespace

std::span<const Check> op_checks() {
  return kChecks;
}

}  // namespace tenon::conform
