// Checks that apply to every op, then the op's own inference; and what is known about values at
// compile time.
#include <fmt/format.h>
#include <tenon/cpp/elements.hpp>

#include <algorithm>
#include <cstring>
#include <list>
#include <optional>

#include "core/base/checked.h"
#include "core/base/errors/failure.h"
#include "core/base/intern.h"
#include "core/base/limits.h"
#include "core/base/str.h"
#include "core/ir/dtype.h"
#include "core/op/registry.h"

namespace tenon::op {
namespace {

using ir::Dim;
using ir::Graph;
using ir::Value;

constexpr uint64_t kKnownElementsMax = 4096;
constexpr int kKnownDepthMax = 128;  // links of a chain of shape arithmetic
constexpr size_t kResultsMax = 1024;

std::string kind_name(uint32_t kind) {
  static constexpr const char* kNames[] = {
      "nothing",          "integer",        "float",           "string",
      "list of integers", "list of floats", "list of strings", "list of dims",
      "list of types",    "blob",           "element type"};
  return kind < std::size(kNames) ? kNames[kind] : "unknown kind";
}

// ---- Known values ----

using Known = std::optional<std::vector<Dim>>;

struct KnownCache {
  std::unordered_map<Value, Known> values;
};

Known known(Graph& graph, Value value, KnownCache* cache, int depth);

Known known_constant(Graph& graph, Value value, uint64_t count) {
  const tenon_type_t& type = graph.type(value);
  ir::Blob& blob = *graph.value(value).blob;
  const uint32_t width = ir::dtype_bits(type.dtype) / 8;
  const std::span<const std::byte> splat = blob.splat_element();
  const std::byte* data = splat.data();
  if (splat.empty() && count != 0) {
    Result<const void*> bytes = blob.data();
    if (!bytes.ok()) return {};
    data = static_cast<const std::byte*>(*bytes);
  }
  std::vector<Dim> out;
  bool fits = true;
  for (uint64_t i = 0; i < count; ++i) {
    const int64_t v = elements::load_integer(type.dtype, splat.empty() ? data + i * width : data);
    fits = fits && (type.dtype != TENON_U64 || v >= 0);
    const Result<Dim> d = graph.dims().constant(v);
    if (!d.ok()) return {};
    out.push_back(*d);
  }
  return fits ? Known(std::move(out)) : Known();
}

// State of one query of inference or value_of; lives for one call.
struct Query {
  Graph* graph;
  const tenon_op_def_t* def;
  std::vector<Value> operands;
  std::vector<tenon_type_t> types;
  std::vector<tenon_attr_t> attrs;
  tenon_infer_t abi = {};
  KnownCache* cache;
  int depth = 0;
  // Borrowed by the op until the call returns. A list, since an empty one allocates nothing.
  std::list<std::vector<Dim>> answers;
  std::vector<ir::TypeDraft> results;
  std::vector<ir::DimFact> facts;
  Status failure;

  Query(Graph& g, const tenon_op_def_t& d, std::span<const Value> given,
        std::vector<tenon_attr_t> declared, std::span<const ir::Region> regions, KnownCache* c)
      : graph(&g),
        def(&d),
        operands(given.begin(), given.end()),
        attrs(std::move(declared)),
        cache(c) {
    // Trailing optional operands that are left out look like ones that are explicitly absent.
    uint32_t plain = 0;
    for (uint32_t i = 0; i < d.operand_count; ++i)
      plain += !(d.operands[i].flags & TENON_OPERAND_VARIADIC);
    while (operands.size() < plain) operands.push_back(ir::kNone);
    for (Value v : operands) types.push_back(v == ir::kNone ? tenon_type_t{} : g.type(v));
    abi.size_bytes = sizeof abi;
    abi.operand_count = static_cast<uint32_t>(operands.size());
    abi.attr_count = static_cast<uint32_t>(attrs.size());
    abi.region_count = static_cast<uint32_t>(regions.size());
    abi.op = def;
    abi.graph = g.abi();
    abi.operands = types.data();
    abi.attrs = attrs.data();
    abi.regions = regions.data();
    abi.host = this;
    abi.value_of = value_of;
    abi.result = result;
    abi.fail = fail;
    abi.require = require;
  }
  Query(const Query&) = delete;

  static tenon_code_t value_of(void* host, uint32_t operand, const Dim** out, uint64_t* out_count) {
    Query& q = *static_cast<Query*>(host);
    if (operand >= q.operands.size() || q.operands[operand] == ir::kNone) return TENON_NOT_FOUND;
    Known k = known(*q.graph, q.operands[operand], q.cache, q.depth);
    if (!k) return TENON_NOT_FOUND;
    q.answers.push_back(std::move(*k));
    *out = q.answers.back().data();
    *out_count = q.answers.back().size();
    return TENON_OK;
  }

  static tenon_code_t result(void* host, tenon_dtype_t dtype, const Dim* dims, uint32_t rank) {
    Query& q = *static_cast<Query*>(host);
    if (q.results.size() == kResultsMax || rank > TENON_RANK_MAX) {
      return q.keep(error(TENON_RESOURCE_EXHAUSTED, "T0102",
                          "inference gives more than {} results or a rank above {}", kResultsMax,
                          TENON_RANK_MAX));
    }
    ir::TypeDraft type;
    type.dtype = dtype;
    // Inference writes a token as a result without element type.
    if (dtype == TENON_DTYPE_NONE) type.kind = TENON_KIND_TOKEN;
    if (rank != 0) type.dims.assign(dims, dims + rank);
    q.results.push_back(std::move(type));
    return TENON_OK;
  }

  tenon_code_t keep(Status s) {
    if (failure.ok()) failure = std::move(s);
    return failure.code();
  }

  static tenon_code_t fail(void* host, tenon_str_t label, tenon_str_t text) {
    Query& q = *static_cast<Query*>(host);
    std::string rule;
    for (uint32_t i = 0; i < q.def->constraint_count; ++i) {
      if (from_abi_str(q.def->constraints[i].label) == from_abi_str(label)) {
        rule = fmt::format(" (rule: {})", printable(from_abi_str(q.def->constraints[i].text)));
      }
    }
    Status s = error(TENON_INVALID_ARGUMENT, "T0312", "{} {}: {}{}", from_abi_str(q.def->name),
                     printable(from_abi_str(label)), printable(from_abi_str(text), 2048), rule);
    s.add("constraint", from_abi_str(label));
    return q.keep(std::move(s));
  }

  static tenon_code_t require(void* host, tenon_str_t label, uint32_t rel, Dim a, Dim b,
                              tenon_str_t what) {
    Query& q = *static_cast<Query*>(host);
    const ir::DimTable& dims = q.graph->dims();
    if (rel > TENON_REL_DIVISIBLE || !dims.valid(a) || !dims.valid(b)) {
      return q.keep(error(TENON_INTERNAL, "T0301", "inference compares dims that do not exist"));
    }
    const uint32_t answer = dims.compare(rel, a, b);
    if (answer == TENON_YES) return TENON_OK;
    if (answer == TENON_MAYBE) {
      q.facts.push_back({rel, a, b});
      return TENON_OK;
    }
    static constexpr const char* kWords[] = {"is not", "is not below", "is above",
                                             "is not a multiple of"};
    const std::string text = fmt::format("{}: {} {} {}", printable(from_abi_str(what)),
                                         dims.text(a), kWords[rel], dims.text(b));
    return fail(host, label, to_abi_str(text));
  }
};

Known known_result(Graph& graph, Value value, uint64_t count, KnownCache* cache, int depth) {
  const ir::NodeData node = graph.node(graph.value(value).node);
  const tenon_op_def_t* def = ir::op_set()->find(node.op, node.op_version);
  if (def == nullptr || def->value_of == nullptr) return {};
  Query query(graph, *def, {node.operands, node.operand_count},
              declared_attrs(*def, {node.attrs, node.attr_count}),
              {node.regions, node.region_count}, cache);
  query.depth = depth + 1;
  std::vector<Dim> out(count, 0);
  if (def->value_of(def->self, &query.abi, graph.value(value).index, out.data()) != TENON_OK) {
    clear_failure();
    return {};
  }
  for (Dim d : out) {
    if (!graph.dims().valid(d)) return {};
  }
  return out;
}

Known known(Graph& graph, Value value, KnownCache* cache, int depth) {
  if (depth > kKnownDepthMax) return {};
  const tenon_type_t& type = graph.type(value);
  const bool integral = ir::dtype_is_integer(type.dtype) && ir::dtype_bits(type.dtype) >= 8;
  if (type.kind != TENON_KIND_TENSOR || !(integral || type.dtype == TENON_PRED)) return {};
  uint64_t count = 1;
  for (uint32_t i = 0; i < type.rank; ++i) {
    if (type.dims[i] < 0 || !checked_mul(count, static_cast<uint64_t>(type.dims[i]), &count))
      return {};
  }
  if (count > kKnownElementsMax) return {};
  if (const auto it = cache->values.find(value); it != cache->values.end()) return it->second;
  Known out;
  if (graph.value(value).kind == TENON_VALUE_CONSTANT)
    out = known_constant(graph, value, count);
  else if (graph.value(value).kind == TENON_VALUE_RESULT)
    out = known_result(graph, value, count, cache, depth);
  cache->values[value] = out;
  return out;
}

// ---- Schema ----

Status check_operands(const Graph& graph, const tenon_op_def_t& def,
                      std::span<const Value> operands) {
  uint32_t least = 0;
  const bool variadic = def.operand_count != 0 &&
                        (def.operands[def.operand_count - 1].flags & TENON_OPERAND_VARIADIC);
  for (uint32_t i = 0; i < def.operand_count; ++i) least += (def.operands[i].flags & 3) == 0;
  if (operands.size() < least || (!variadic && operands.size() > def.operand_count)) {
    std::string wanted = variadic ? fmt::format("at least {}", least)
                         : least == def.operand_count
                             ? std::to_string(least)
                             : fmt::format("{} to {}", least, def.operand_count);
    return error(TENON_INVALID_ARGUMENT, "T0309", "{} takes {} operands; {} are given",
                 from_abi_str(def.name), wanted, operands.size());
  }
  // By group: the first operand of it. Few ops have a group, and hardly any two.
  std::vector<std::pair<uint32_t, size_t>> groups;
  for (size_t i = 0; i < operands.size(); ++i) {
    const tenon_operand_def_t& o = def.operands[std::min<size_t>(i, def.operand_count - 1)];
    const std::string_view name = from_abi_str(o.name);
    if (operands[i] == ir::kNone) {
      if (o.flags & TENON_OPERAND_OPTIONAL) continue;
      return error(TENON_INVALID_ARGUMENT, "T0309", "{}: operand {} is required",
                   from_abi_str(def.name), quoted(name));
    }
    const tenon_type_t& type = graph.type(operands[i]);
    // Tokens and objects have no element type; bit 0 of the set represents them.
    if (!(o.dtypes >> type.dtype & 1)) {
      std::string list;
      for (uint16_t d = 1; d < elements::kDtypeEnd; ++d) {
        if (o.dtypes >> d & 1) list += (list.empty() ? "" : ", ") + std::string(ir::dtype_name(d));
      }
      return error(TENON_INVALID_ARGUMENT, "T0310",
                   "{}: operand {} has type {}; its element type must be one of {}",
                   from_abi_str(def.name), quoted(name), graph.type_text(type), list);
    }
    if (type.rank < o.rank_min || type.rank > o.rank_max) {
      return error(TENON_INVALID_ARGUMENT, "T0310",
                   "{}: operand {} has type {}; its rank must be in [{}, {}]",
                   from_abi_str(def.name), quoted(name), graph.type_text(type), o.rank_min,
                   o.rank_max);
    }
    if (o.dtype_group == 0) continue;
    const auto known = std::find_if(groups.begin(), groups.end(),
                                    [&](const auto& g) { return g.first == o.dtype_group; });
    if (known == groups.end()) {
      groups.emplace_back(o.dtype_group, i);
    } else if (graph.type(operands[known->second]).dtype != type.dtype) {
      return error(TENON_INVALID_ARGUMENT, "T0310",
                   "{}: operands {} and {} have element types {} and {}, which must be equal",
                   from_abi_str(def.name), known->second, i,
                   ir::dtype_name(graph.type(operands[known->second]).dtype),
                   ir::dtype_name(type.dtype));
    }
  }
  return {};
}

Status check_attrs(const tenon_op_def_t& def, std::span<const tenon_attr_t> attrs) {
  const std::string_view op = from_abi_str(def.name);
  std::vector<bool> seen(def.attr_count);
  for (const tenon_attr_t& a : attrs) {
    const std::string_view name = sym_text(a.name);
    uint32_t i = 0;
    while (i < def.attr_count && from_abi_str(def.attrs[i].name) != name) ++i;
    if (i == def.attr_count) {
      std::vector<std::string_view> names;
      for (uint32_t k = 0; k < def.attr_count; ++k)
        names.push_back(from_abi_str(def.attrs[k].name));
      return error(TENON_INVALID_ARGUMENT, "T0311", "{} has no attribute {}{}", op, quoted(name),
                   did_you_mean(name, std::span<const std::string_view>(names)));
    }
    const tenon_attr_def_t& d = def.attrs[i];
    if (seen[i])
      return error(TENON_INVALID_ARGUMENT, "T0311", "{}: attribute {} is given twice", op,
                   quoted(name));
    seen[i] = true;
    if (a.kind != d.kind) {
      return error(TENON_INVALID_ARGUMENT, "T0311", "{}: attribute {} is a {}; it must be a {}", op,
                   quoted(name), kind_name(a.kind), kind_name(d.kind));
    }
    if (a.kind == TENON_ATTR_DTYPE && !ir::dtype_valid(static_cast<tenon_dtype_t>(a.u.i)) &&
        a.u.i != 0) {
      return error(TENON_INVALID_ARGUMENT, "T0311", "{}: attribute {} is not an element type", op,
                   quoted(name));
    }
    if (d.choices.size == 0) continue;
    const std::string given =
        a.kind == TENON_ATTR_I64 ? std::to_string(a.u.i) : std::string(from_abi_str(a.u.s));
    bool found = false;
    std::vector<std::string_view> choices = split(from_abi_str(d.choices), '|');
    for (std::string_view c : choices) found = found || c == given;
    if (!found) {
      return error(TENON_INVALID_ARGUMENT, "T0311", "{}: attribute {} is {}; it must be one of {}",
                   op, quoted(name), quoted(given), printable(from_abi_str(d.choices)));
    }
  }
  for (uint32_t i = 0; i < def.attr_count; ++i) {
    if (!seen[i] && (def.attrs[i].flags & TENON_ATTR_REQUIRED)) {
      return error(TENON_INVALID_ARGUMENT, "T0311", "{}: attribute {} is required", op,
                   quoted(from_abi_str(def.attrs[i].name)));
    }
  }
  return {};
}

tenon_attr_t default_attr(const tenon_attr_def_t& d) {
  tenon_attr_t a = {};
  a.name = intern(from_abi_str(d.name));
  a.kind = d.kind;
  a.count = 1;
  switch (d.kind) {
    case TENON_ATTR_I64:
    case TENON_ATTR_DTYPE:
      a.u.i = d.default_i;
      break;
    case TENON_ATTR_F64:
      a.u.f = d.default_f;
      break;
    case TENON_ATTR_STRING:
      a.u.s = d.default_s;
      break;
    default:
      a.count = 0;
      break;  // empty lists, no blob
  }
  return a;
}

}  // namespace

std::vector<tenon_attr_t> declared_attrs(const tenon_op_def_t& def,
                                         std::span<const tenon_attr_t> attrs) {
  std::vector<tenon_attr_t> out;
  for (uint32_t i = 0; i < def.attr_count; ++i) {
    const tenon_sym_t name = intern(from_abi_str(def.attrs[i].name));
    const auto it = std::find_if(attrs.begin(), attrs.end(),
                                 [&](const tenon_attr_t& a) { return a.name == name; });
    out.push_back(it == attrs.end() ? default_attr(def.attrs[i]) : *it);
  }
  return out;
}

std::optional<std::vector<Dim>> known_value(Graph& graph, Value value) {
  if (!graph.value_live(value)) return {};
  KnownCache cache;
  return known(graph, value, &cache, 0);
}

Result<ir::Inferred> Registry::infer(Graph& graph, const ir::NodeDraft& draft) {
  const tenon_op_def_t* def = find(draft.op, draft.op_version);
  if (def == nullptr) return unknown(draft.op, draft.op_version);
  TENON_RETURN_IF_ERROR(check_operands(graph, *def, draft.operands));
  TENON_RETURN_IF_ERROR(check_attrs(*def, draft.attrs));
  KnownCache cache;
  Query query(graph, *def, draft.operands, declared_attrs(*def, draft.attrs), draft.regions,
              &cache);
  clear_failure();
  const tenon_code_t code = def->infer(def->self, &query.abi);
  if (!query.failure.ok()) {
    clear_failure();
    return query.failure;
  }
  TENON_RETURN_IF_ERROR(from_abi(code, fmt::format("inference of {}", from_abi_str(def->name))));
  ir::Inferred out;
  out.def = def;
  out.attrs = std::move(query.attrs);
  out.results = std::move(query.results);
  out.facts = std::move(query.facts);
  return out;
}

}  // namespace tenon::op
