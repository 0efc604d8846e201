#include "core/conform/op_cases.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include <tenon/abi/graph.h>

#include "core/base/str.h"
#include "core/conform/session.h"
#include "core/tools/op_example.h"

namespace tenon::conform {
namespace {

bool read_example(std::string_view expression, OpCase* out) {
  tools::OpExample example;
  if (!tools::parse_example(expression, &example)) return false;
  out->op = example.op;
  for (std::string_view operand : example.operands)
    out->operands.emplace_back(operand == "_" ? operand : tools::type_of(operand));
  for (std::string_view result : example.results) out->results.emplace_back(tools::type_of(result));
  if (!example.attributes.empty()) out->attributes = " " + std::string(example.attributes);
  return true;
}

std::string join(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + text;
  return out;
}

// Whether the host takes a graph of this case alone: inference says so.
bool is_valid(const tenon_host_graph_t* graphs, const OpCase& c) {
  const std::string text = graph_of({&c, 1});
  tenon_blob_t* blob = nullptr;
  tenon_graph_t* graph = nullptr;
  if (graphs->blob_bytes(graphs->self, text.data(), text.size(), &blob) != TENON_OK) return false;
  const tenon_code_t code = graphs->graph_read(graphs->self, blob, {"case", 4}, nullptr, &graph);
  graphs->blob_release(graphs->self, blob);
  if (code == TENON_OK) graphs->release(graphs->self, graph);
  return code == TENON_OK;
}

struct Collector {
  const tenon_host_graph_t* graphs;
  const Vary* vary;
  std::set<std::string> seen;
  std::vector<OpCase> cases;
};

void collect(void* context, const tenon_op_def_t* op, tenon_str_t) {
  auto& all = *static_cast<Collector*>(context);
  constexpr uint64_t kLeftOut = TENON_TRAIT_ORDERED | TENON_TRAIT_DEFINES_SYMBOL;
  if ((op->traits & kLeftOut) != 0) return;
  for (uint32_t i = 0; i < op->example_count; ++i) {
    OpCase example;
    if (!read_example(view(op->examples[i]), &example)) continue;
    example.traits = op->traits;
    example.tolerance = op->tolerance == 0 ? 1 : op->tolerance;
    std::vector<OpCase> variants;
    (*all.vary)(example, &variants);
    for (OpCase& variant : variants) {
      if (!all.seen.insert(graph_of({&variant, 1})).second || !is_valid(all.graphs, variant))
        continue;
      all.cases.push_back(std::move(variant));
    }
  }
}

std::string changed_dims(const std::string& type, std::string_view dims) {
  return fmt::format("{}[{}]", type.substr(0, type.find('[')), dims);
}

}  // namespace

std::string OpCase::name() const {
  return fmt::format("{}({}){}", op, join(operands), attributes);
}

std::string graph_of(std::span<const OpCase> cases) {
  std::string arguments, results, nodes, yields;
  for (size_t c = 0; c < cases.size(); ++c) {
    std::string operands, names;
    for (size_t i = 0; i < cases[c].operands.size(); ++i) {
      const std::string& type = cases[c].operands[i];
      operands += i == 0 ? "" : ", ";
      if (type == "_") {
        operands += "_";
        continue;
      }
      const size_t index = cases[c].same_operands ? 0 : i;
      operands += fmt::format("%a{}_{}", c, index);
      if (index == i)
        arguments += fmt::format("{}%a{}_{}: {}", arguments.empty() ? "" : ", ", c, i, type);
    }
    for (size_t i = 0; i < cases[c].results.size(); ++i) {
      names += fmt::format("{}%r{}_{}", i == 0 ? "" : ", ", c, i);
      results +=
          fmt::format("{}r{}_{}: {}", results.empty() ? "" : ", ", c, i, cases[c].results[i]);
    }
    nodes += fmt::format("  {} = {}({}){} : {}\n", names, cases[c].op, operands,
                         cases[c].attributes, join(cases[c].results));
    yields += (yields.empty() ? "" : ", ") + names;
  }
  return fmt::format("tenon.tir 1\ngraph @cases({}) -> ({}) {{\n{}  yield {}\n}}\n", arguments,
                     results, nodes, yields);
}

std::vector<OpCase> generate_cases(const tenon_host_t* host, const Vary& vary) {
  const void *graphs = nullptr, *registry = nullptr;
  constexpr std::string_view kGraphs = TENON_HOST_GRAPH_ID, kRegistry = TENON_HOST_REGISTRY_ID;
  if (host->query(host->self, {kGraphs.data(), kGraphs.size()}, 0, &graphs) != TENON_OK) return {};
  if (host->query(host->self, {kRegistry.data(), kRegistry.size()}, 0, &registry) != TENON_OK)
    return {};
  Collector all{static_cast<const tenon_host_graph_t*>(graphs), &vary, {}, {}};
  const auto* ops = static_cast<const tenon_host_registry_t*>(registry);
  if (ops->op_each(ops->self, &all, collect) != TENON_OK) return {};
  return std::move(all.cases);
}

bool is_elementwise(const OpCase& example) {
  if ((example.traits & TENON_TRAIT_ELEMENTWISE) == 0 || example.operands.empty()) return false;
  auto dims = [](const std::string& type) {
    return type.substr(type.find('[') == std::string::npos ? 0 : type.find('['));
  };
  return std::all_of(example.operands.begin(), example.operands.end(),
                     [&](const std::string& type) {
                       return type != "_" && dims(type) == dims(example.operands[0]);
                     });
}

OpCase with_dtype(const OpCase& example, std::string_view from, std::string_view to) {
  OpCase out = example;
  for (std::vector<std::string>* types : {&out.operands, &out.results}) {
    for (std::string& type : *types) {
      if (type.starts_with(from) && type.size() > from.size() && type[from.size()] == '[')
        type.replace(0, from.size(), to);
    }
  }
  return out;
}

OpCase with_shape(const OpCase& example, std::string_view dims) {
  OpCase out = example;
  for (std::string& type : out.operands) type = changed_dims(type, dims);
  for (std::string& type : out.results) type = changed_dims(type, dims);
  return out;
}

std::string dtype_of(const OpCase& example) {
  return example.operands.empty() ? ""
                                  : example.operands[0].substr(0, example.operands[0].find('['));
}

}  // namespace tenon::conform
