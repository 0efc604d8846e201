#include "sdk/tools/conform/checks/kernels/op_cases.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <set>

#include <tenon/abi/graph.h>
#include <tenon/cpp/dtype.hpp>

#include "sdk/tools/conform/subject/names.h"
#include "sdk/tools/conform/subject/session.h"
#include "sdk/tools/support/op_example.h"

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

struct Examples {
  std::vector<OpCase> cases;
};

void collect(void* context, const tenon_op_def_t* op, tenon_str_t) {
  // Of the ambiguous ones, other elements may be right.
  constexpr uint64_t kLeftOut =
      TENON_TRAIT_ORDERED | TENON_TRAIT_DEFINES_SYMBOL | TENON_TRAIT_AMBIGUOUS;
  if ((op->traits & kLeftOut) != 0) return;
  for (uint32_t i = 0; i < op->example_count; ++i) {
    OpCase example;
    if (!read_example(view(op->examples[i]), &example)) continue;
    if (example.attributes.find(" regions ") != std::string::npos) continue;
    example.traits = op->traits;
    example.tolerance = op->tolerance == 0 ? 1 : op->tolerance;
    example.declaration = op;
    static_cast<Examples*>(context)->cases.push_back(std::move(example));
  }
}

// The operands as a list, and which of them are arguments of the graph.
struct Operands {
  std::string names, arguments;
};
Operands operands_of(const OpCase& c, size_t number) {
  Operands out;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    out.names += i == 0 ? "" : ", ";
    if (c.operands[i] == "_") {
      out.names += "_";
      continue;
    }
    const size_t index = c.same_operands ? 0 : i;
    out.names += fmt::format("%a{}_{}", number, index);
    if (index == i)
      out.arguments +=
          fmt::format("{}%a{}_{}: {}", out.arguments.empty() ? "" : ", ", number, i, c.operands[i]);
  }
  return out;
}

}  // namespace

HostTables host_tables(const tenon_host_t* host) {
  HostTables out;
  const auto find = [&](std::string_view id) -> const void* {
    const void* table = nullptr;
    return host->query(host->self, {id.data(), id.size()}, 0, &table) == TENON_OK ? table : nullptr;
  };
  out.host = host;
  out.graph = static_cast<const tenon_host_graph_t*>(find(TENON_HOST_GRAPH_ID));
  out.registry = static_cast<const tenon_host_registry_t*>(find(TENON_HOST_REGISTRY_ID));
  return out;
}

std::string changed_dims(std::string_view type, std::string_view dims) {
  return fmt::format("{}[{}]", type.substr(0, type.find('[')), dims);
}

std::vector<int64_t> dims_of(std::string_view type) {
  std::vector<int64_t> out;
  const size_t open = type.find('[');
  if (open == std::string_view::npos) return out;
  for (std::string_view text : split(type.substr(open + 1, type.rfind(']') - open - 1), ',')) {
    int64_t dim = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), dim).ec == std::errc())
      out.push_back(dim);
  }
  return out;
}

std::string dims_text(std::span<const int64_t> dims) {
  std::string out;
  for (int64_t dim : dims) out += fmt::format("{}{}", out.empty() ? "" : ", ", dim);
  return out;
}

std::string OpCase::name() const {
  return fmt::format("{}({}){}", op, join(operands), attributes);
}

std::string graph_of(std::span<const OpCase> cases) {
  std::string arguments, results, nodes, yields;
  for (size_t c = 0; c < cases.size(); ++c) {
    const Operands operands = operands_of(cases[c], c);
    arguments += (arguments.empty() || operands.arguments.empty() ? "" : ", ") + operands.arguments;
    std::string names;
    for (size_t i = 0; i < cases[c].results.size(); ++i) {
      names += fmt::format("{}%r{}_{}", i == 0 ? "" : ", ", c, i);
      results +=
          fmt::format("{}r{}_{}: {}", results.empty() ? "" : ", ", c, i, cases[c].results[i]);
    }
    nodes += fmt::format("  {} = {}({}){} : {}\n", names, cases[c].op, operands.names,
                         cases[c].attributes, join(cases[c].results));
    yields += (yields.empty() ? "" : ", ") + names;
  }
  return fmt::format("tenon.tir 1\ngraph @cases({}) -> ({}) {{\n{}  yield {}\n}}\n", arguments,
                     results, nodes, yields);
}

std::vector<OpCase> op_examples(const tenon_host_t* host) {
  const HostTables tables = host_tables(host);
  Examples all;
  if (tables.registry == nullptr ||
      tables.registry->op_each(tables.registry->self, &all, collect) != TENON_OK)
    return {};
  return std::move(all.cases);
}

bool infer_results(const HostTables& host, OpCase* c) {
  const Operands operands = operands_of(*c, 0);
  std::string names;
  for (size_t i = 0; i < c->results.size(); ++i)
    names += fmt::format("{}%r{}", i == 0 ? "" : ", ", i);
  const std::string text =
      fmt::format("tenon.tir 1\ngraph @case({}) -> () {{\n  {} = {}({}){}\n  yield\n}}\n",
                  operands.arguments, names, c->op, operands.names, c->attributes);
  // The reason for a refusal is not needed here, and asking for it takes longer than all the rest.
  tenon_blob_t* blob = nullptr;
  tenon_graph_t* read = nullptr;
  const tenon_host_graph_t& api = *host.graph;
  if (api.blob_bytes(api.self, text.data(), text.size(), &blob) != TENON_OK) return false;
  const tenon_code_t code = api.graph_read(api.self, blob, {"case", 4}, nullptr, &read);
  api.blob_release(api.self, blob);
  if (code != TENON_OK) return false;
  const GraphRef graph(host, read);
  const tenon_region_view_t main = main_region(host, graph.get());
  if (main.node_count != 1) return false;
  const tenon_node_view_t node = node_view(host, graph.get(), main.nodes[0]);
  for (uint32_t i = 0; i < node.result_count && i < c->results.size(); ++i) {
    const tenon_type_t type = value_view(host, graph.get(), node.results[i]).type;
    if (std::any_of(type.dims, type.dims + type.rank, [](tenon_dim_t dim) { return dim < 0; }))
      return false;
    c->results[i] = type_text(host, graph.get(), type);
  }
  return true;
}

std::vector<OpCase> generate_cases(const tenon_host_t* host, const Vary& vary) {
  const HostTables tables = host_tables(host);
  if (tables.graph == nullptr) return {};
  std::set<std::string> seen;
  std::vector<OpCase> out;
  for (const OpCase& example : op_examples(host)) {
    std::vector<OpCase> variants;
    vary(example, &variants);
    for (OpCase& variant : variants) {
      if (seen.insert(variant.name() + (variant.same_operands ? " same" : "")).second &&
          infer_results(tables, &variant))
        out.push_back(std::move(variant));
    }
  }
  return out;
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
  const tenon_op_def_t* op = example.declaration;
  size_t chosen = 0;
  for (uint32_t i = 0; op != nullptr && i < op->operand_count && i < example.operands.size(); ++i) {
    if (example.operands[i] == "_" || std::popcount(tenon_op_operand(op, i)->dtypes) < 2) continue;
    chosen = i;
    break;
  }
  return example.operands.empty()
             ? ""
             : example.operands[chosen].substr(0, example.operands[chosen].find('['));
}

bool is_float_case(const OpCase& c) {
  return is_in(tenon::dtype_of(dtype_of(c)), kAnyFloat);
}

}  // namespace tenon::conform
