// Group G, ops: all ways to compute an op agree, and folds and rewrites preserve the result.
#include <cstring>
#include <deque>
#include <functional>

#include <tenon/cpp/dtype.hpp>

#include "core/op/evaluate.h"
#include "sdk/tools/conform/checks/ops/op_call.h"
#include "sdk/tools/conform/checks/tables.h"
#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"

namespace tenon::conform {
namespace {

// ---- Meaning ----

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
    return *why = "its results cannot replace the node's: " + last_failure(host).text, false;
  return true;
}

// By the scalar program alone; false if that does not apply.
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
    int64_t next = dtype_bits(a.dtype) / 8;
    for (size_t d = a.dims.size(); d-- > 0; next *= a.dims[d]) stride[d] = next;
    inputs.push_back({sizeof(tenon_array_t), a.dtype, 0, static_cast<uint32_t>(a.dims.size()), 0,
                      const_cast<unsigned char*>(a.bytes.data()), a.dims.data(), stride.data()});
  }
  std::vector<op::HostArray> outputs;
  const tenon_node_view_t node = node_view(host, call.graph.get(), call.node);
  for (uint32_t r = 0; r < node.result_count; ++r) {
    const tenon_type_t type = value_view(host, call.graph.get(), node.results[r]).type;
    auto made = op::HostArray::create(type.dtype, {type.dims, type.rank});
    if (!made.ok()) return *why = made.status().text(), false;
    outputs.push_back(std::move(*made));
  }
  if (tenon::Status status = op::run_scalar(op, attributes, inputs, outputs); !status.ok())
    return *why = status.text(), false;
  for (const op::HostArray& o : outputs) {
    Array& array =
        out->emplace_back(make_array(o.view().dtype, {o.dims().begin(), o.dims().end()}));
    std::memcpy(array.bytes.data(), o.view().data, o.size_bytes());
  }
  return true;
}

// Values to compute with: the example's own, values in the domain of nearly every op, and values of
// both signs.
enum class Values { kOwn, kTame, kSigned };

Outcome meanings_agree(const HostTables& host, const Example& example, tenon_dtype_t dtype,
                       Values values, size_t* calls) {
  const tenon_op_def_t& op = *example.op;
  std::vector<tenon_attr_t> attributes;
  std::vector<Array> operands;
  if (!portable_attributes(host, example, &attributes) || !with_dtype(example, dtype, &operands))
    return pass();
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool integral = i != 0 && is_in(operands[i].dtype, kAnyInt);
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
        fmt::format("{} in {}", printable(example.text, 300), dtype_name(dtype));
    std::vector<Array> expected;
    std::string problem;
    // Arbitrary numbers may be invalid indices, or break an assertion; the op reports that.
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
      if (!decompose(host, op, &call, &problem)) return pass();  // G.op-decomposition reports it
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
      for (tenon_dtype_t dtype = TENON_PRED; dtype < elements::kDtypeEnd; ++dtype) {
        s.step(fmt::format("evaluating {} in {}", printable(example.text, 300), dtype_name(dtype)));
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
                     "{} is declared composite but has no decomposition", name_of(*op));
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
          "{}: its decomposition is not a valid graph: {}", what, last_failure(plugin.host).text);
      ++tried;
    }
  }
  return tried == 0 ? not_offered("its ops have no decomposition") : pass();
}

// ---- Folds and rewrites ----

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
                       "what the {} builds cannot replace the node: {}", simplifier.name,
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
// shared value, and the op on its own result.
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
      const uint32_t width = dtype_bits(changed.dtype) / 8;
      if (width == 0 || changed.dtype >= TENON_C64) continue;
      unsigned char element[8] = {};
      const auto narrow = static_cast<float>(value);
      const uint16_t half = changed.dtype == TENON_F16 ? f16_from(narrow) : bf16_from(narrow);
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
      // This operand a constant, the others arguments: what folds most often look for.
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
      auto spec = sized<tenon_node_spec_t>();
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

constexpr Check kChecks[] = {
    {"R-G06", "op-meanings", op_meanings},
    {"R-G07", "op-decomposition", op_decomposition},
    {"R-G08", "op-folds", op_folds},
};

}  // namespace

std::span<const Check> op_meaning_checks() {
  return kChecks;
}

}  // namespace tenon::conform
