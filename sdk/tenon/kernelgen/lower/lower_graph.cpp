#include "tenon/kernelgen/lower/lower_graph.h"
#include "tenon/cpp/record.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "tenon/kernelgen/lower/op_lowering.h"

namespace tenon::kernelgen {
namespace {

constexpr int kDimDepthMax = 64;
std::string_view view(tenon_str_t s) {
  return {s.data, static_cast<size_t>(s.size)};
}
tenon_str_t str(std::string_view s) {
  return {s.data(), s.size()};
}

bool is_tensor(const tenon_type_t& t) {
  return t.kind == TENON_KIND_TENSOR;
}

std::string type_text(const tenon_type_t& t) {
  if (!is_tensor(t)) return t.kind == TENON_KIND_TOKEN ? "token" : "object";
  std::string_view name = name_of(t.dtype);
  return std::string(name.empty() ? "type " + std::to_string(t.dtype) : std::string(name)) +
         " of rank " + std::to_string(t.rank);
}

// Complex numbers are pairs of this.
DType stored_type(DType t) {
  return t == TENON_C64 ? TENON_F32 : t == TENON_C128 ? TENON_F64 : t;
}

bool computable(const tenon_type_t& t, const LoweringLimits& limits, bool parts) {
  return is_tensor(t) && size_of(parts ? stored_type(t.dtype) : t.dtype) != 0 &&
         ((limits.dtypes >> t.dtype) & 1u);
}

// The value of all elements of a blob, if they are equal and a double represents it exactly.
bool uniform_value(const HostTables& host, const tenon_value_view_t& v, double* out) {
  const void* element = nullptr;
  uint32_t bytes = 0;
  uint64_t size = 0;
  const uint32_t width = size_of(v.type.dtype);
  if (width == 0 || v.blob == nullptr) return false;
  if (!host.graph->blob_is_splat(host.graph->self, v.blob, &element, &bytes)) {
    if (host.graph->blob_data(host.graph->self, v.blob, &element, &size) != TENON_OK ||
        size != width)
      return false;
    bytes = width;
  }
  if (bytes != width) return false;
  int64_t i = 0;
  uint64_t u = 0;
  std::memcpy(&u, element, width);
  switch (v.type.dtype) {
    case TENON_F32: {
      float f;
      std::memcpy(&f, element, 4);
      *out = f;
      return true;
    }
    case TENON_F64: {
      double d;
      std::memcpy(&d, element, 8);
      *out = d;
      return d == d;
    }
    case TENON_PRED:
      *out = u != 0;
      return true;
    case TENON_U8:
    case TENON_U16:
    case TENON_U32:
      *out = static_cast<double>(u);
      return true;
    case TENON_U64:
      *out = static_cast<double>(u);
      return u <= (1ull << 53);
    case TENON_I8:
      i = static_cast<int8_t>(u);
      break;
    case TENON_I16:
      i = static_cast<int16_t>(u);
      break;
    case TENON_I32:
      i = static_cast<int32_t>(u);
      break;
    case TENON_I64:
      i = static_cast<int64_t>(u);
      break;
    default:
      return false;
  }
  *out = static_cast<double>(i);
  return i <= (int64_t{1} << 53) && i >= -(int64_t{1} << 53);
}

const LoweringFn* find_lowering(std::string_view op) {
  for (std::span<const Lowering> table :
       {movement_lowerings(), reduction_lowerings(), order_lowerings()}) {
    for (const Lowering& l : table) {
      if (l.op == op) return &l.fn;
    }
  }
  return nullptr;
}

ScalarAttr scalar_attr(const tenon_attr_t& a) {
  ScalarAttr s;
  s.is_float = a.kind == TENON_ATTR_F64;
  if (s.is_float) {
    s.f = a.u.f;
  } else if (a.kind == TENON_ATTR_I64 || a.kind == TENON_ATTR_DTYPE) {
    s.i = a.u.i;
  }
  return s;
}

// Lowers element-wise ops. Rank-0 operands beside shaped ones (the predicate of select) are
// broadcast.
std::vector<Tensor> lower_elementwise(LoweringSite& site) {
  std::vector<tenon_attr_t> attrs(site.op->attr_count);
  if (site.op->attr_count != 0) {
    const HostTables& h = site.host;
    tenon_node_t self = TENON_NONE;
    tenon_value_view_t r = sized<tenon_value_view_t>();
    h.graph->value_view(h.graph->self, site.graph, site.node.results[0], &r);
    self = r.node;
    if (h.registry->node_attrs(h.registry->self, site.graph, self, attrs.data()) != TENON_OK) {
      return site.refuse("its attributes cannot be read");
    }
  }
  std::vector<ScalarAttr> scalars;
  for (const tenon_attr_t& a : attrs) scalars.push_back(scalar_attr(a));
  std::vector<DType> results;
  for (const tenon_type_t& t : site.result_types) results.push_back(t.dtype);
  std::vector<ExprId> shape;
  if (!site.result_dims(0, &shape)) return site.refuse("its size depends on data");
  std::vector<Tensor> operands = site.in;
  for (Tensor& t : operands) {
    if (t.valid() && t.rank() == 0 && !shape.empty()) t = site.b.broadcast(t, shape, {});
  }
  return site.b.map({site.op->scalar, site.op->scalar_words}, operands, scalars, results);
}

// A complex array is an array of its parts with a last dim of two. Only the ops that take complex
// numbers apart and put them together see it: others are decomposed into ops of the parts.
bool is_part_op(std::string_view op) {
  return op == "complex" || op == "real" || op == "imag";
}
Tensor part_of(Builder& b, const Tensor& pairs, int64_t part) {
  std::vector<ExprId> dims(pairs.dims.begin(), pairs.dims.end() - 1);
  return b.map(pairs.type, dims, [&](std::span<const ExprId> axes) {
    std::vector<ExprId> index(axes.begin(), axes.end());
    index.push_back(b.pool().integer(part));
    return b.load(pairs, index);
  });
}
Tensor pairs_of(Builder& b, const Tensor& re, const Tensor& im) {
  const Tensor parts[] = {re, im};
  std::vector<ExprId> dims = re.dims;
  dims.push_back(b.dim(1));
  Tensor columns[2];
  for (size_t i = 0; i < 2; ++i) columns[i] = b.reshape(parts[i], dims);
  return b.concat(columns, static_cast<uint32_t>(dims.size() - 1));
}
std::vector<Tensor> lower_parts(LoweringSite& site, std::string_view op) {
  if (op == "complex") return {pairs_of(site.b, site.in[0], site.in[1])};
  return {part_of(site.b, site.in[0], op == "real" ? 0 : 1)};
}

// Its scalar program rounds twice, which an implementation need not.
std::vector<Tensor> lower_fma(LoweringSite& site) {
  const DType type = site.in[0].type, computed = size_of(type) == 2 ? DType{TENON_F32} : type;
  if (!is_float(type)) return lower_elementwise(site);
  Builder& b = site.b;
  return {b.map(type, site.in[0].dims, [&](std::span<const ExprId> axes) {
    std::vector<ExprId> args;
    for (const Tensor& t : site.in) args.push_back(b.pool().convert(b.load(t, axes), computed));
    return b.pool().convert(b.pool().op(kMulAdd, args), type, kRound);
  })};
}

std::vector<Tensor> lower_node(LoweringSite& site) {
  const LoweringFn* fn = find_lowering(view(site.op->name));
  std::vector<Tensor> out;
  if (fn != nullptr) {
    out = (*fn)(site);
  } else if (view(site.op->name) == "fma") {
    out = lower_fma(site);
  } else if (is_part_op(view(site.op->name))) {
    out = lower_parts(site, view(site.op->name));
  } else if ((site.op->traits & TENON_TRAIT_ELEMENTWISE) != 0 && site.op->scalar_words != 0) {
    out = lower_elementwise(site);
  } else {
    return site.refuse("no code is generated for this op");
  }
  for (const Tensor& t : out) {
    if (!t.valid()) return site.refuse(site.b.why());
  }
  return out;
}

// State of lowering a subgraph.
class GraphLowering {
 public:
  GraphLowering(const HostTables& host, tenon_graph_t* graph, std::string* why)
      : host_(host), graph_(graph), dims_(host, graph, &builder_), why_(why) {}

  DimMap& dims() { return dims_; }
  Builder& builder() { return builder_; }

  void bind(tenon_value_t v, Tensor t) { values_[v] = std::move(t); }
  Tensor value(tenon_value_t v) const {
    const auto it = values_.find(v);
    return it == values_.end() ? Tensor{} : it->second;
  }

  bool node(tenon_node_t n, uint32_t origin) {
    tenon_node_view_t node = sized<tenon_node_view_t>();
    const tenon_op_def_t* op = nullptr;
    if (host_.graph->node_view(host_.graph->self, graph_, n, &node) != TENON_OK ||
        host_.registry->op_find(host_.registry->self, node.op, node.op_version, &op) != TENON_OK) {
      return fail("the op is not registered");
    }
    LoweringSite site{host_, graph_, builder_, dims_, op, node, {}, {}, why_, &checks_, origin};
    for (uint32_t i = 0; i < node.operand_count; ++i) {
      site.in.push_back(node.operands[i] == TENON_NONE ? Tensor{} : value(node.operands[i]));
    }
    for (uint32_t i = 0; i < node.result_count; ++i) {
      tenon_value_view_t v = sized<tenon_value_view_t>();
      host_.graph->value_view(host_.graph->self, graph_, node.results[i], &v);
      site.result_types.push_back(v.type);
    }
    builder_.set_origin(origin);
    std::vector<Tensor> results = lower_node(site);
    if (results.size() != node.result_count) {
      if (why_->empty())
        *why_ = std::string(view(op->name)) + ": gives an unexpected number of results";
      return false;
    }
    for (uint32_t i = 0; i < node.result_count; ++i) bind(node.results[i], results[i]);
    return true;
  }

  bool fail(std::string reason) {
    *why_ = std::move(reason);
    return false;
  }
  const std::vector<LoweredCheck>& checks() const { return checks_; }

 private:
  std::vector<LoweredCheck> checks_;
  HostTables host_;
  tenon_graph_t* graph_;
  Builder builder_;
  DimMap dims_;
  std::string* why_;
  // By value. A map, because one node of a large graph is tried at a time.
  std::unordered_map<tenon_value_t, Tensor> values_;
};

// Operands become immediates, constants or inputs.
bool bind_operand(const HostTables& host, tenon_graph_t* graph, GraphLowering* lowering,
                  tenon_value_t value, Tensor* out) {
  tenon_value_view_t v = sized<tenon_value_view_t>();
  host.graph->value_view(host.graph->self, graph, value, &v);
  std::vector<ExprId> dims;
  if (!lowering->dims().expressions(v.type.dims, v.type.rank, &dims))
    return lowering->fail("an operand's size depends on data");
  const DType stored = stored_type(v.type.dtype);
  if (stored != v.type.dtype) dims.push_back(lowering->builder().dim(2));
  double number = 0;
  if (v.kind == TENON_VALUE_CONSTANT && uniform_value(host, v, &number)) {
    *out = lowering->builder().fill(v.type.dtype, dims, number);
  } else if (v.kind == TENON_VALUE_CONSTANT) {
    *out = lowering->builder().constant(stored, dims);
  } else {
    *out = lowering->builder().input(stored, dims);
  }
  if (!out->valid()) return lowering->fail(lowering->builder().why());
  lowering->bind(value, *out);
  return true;
}

bool types_fit(const HostTables& host, tenon_graph_t* graph, const tenon_value_t* values,
               uint32_t count, const LoweringLimits& limits, bool parts, std::string* bad) {
  for (uint32_t i = 0; i < count; ++i) {
    if (values[i] == TENON_NONE) continue;
    tenon_value_view_t v = sized<tenon_value_view_t>();
    host.graph->value_view(host.graph->self, graph, values[i], &v);
    if (!computable(v.type, limits, parts)) {
      *bad = type_text(v.type);
      return false;
    }
  }
  return true;
}

std::vector<tenon_value_t> constants_of(const HostTables& host, tenon_graph_t* graph) {
  tenon_graph_view_t g = sized<tenon_graph_view_t>();
  host.graph->graph_view(host.graph->self, graph, &g);
  std::vector<tenon_value_t> out;
  for (tenon_value_t v = 0; v < g.value_limit; ++v) {
    tenon_value_view_t view = sized<tenon_value_view_t>();
    if (host.graph->value_view(host.graph->self, graph, v, &view) == TENON_OK &&
        view.kind == TENON_VALUE_CONSTANT) {
      out.push_back(v);
    }
  }
  return out;
}

}  // namespace

tenon_code_t open_host_tables(const tenon_host_t* host, HostTables* out) {
  out->host = host;
  tenon_code_t code = host->query(host->self, str(TENON_HOST_GRAPH_ID), 0,
                                  reinterpret_cast<const void**>(&out->graph));
  if (code != TENON_OK) return code;
  return host->query(host->self, str(TENON_HOST_REGISTRY_ID), 0,
                     reinterpret_cast<const void**>(&out->registry));
}

ExprId DimExpressions::of(tenon_dim_t dim, int depth) {
  if (dim >= 0) return pool_->integer(dim);
  if (const auto it = known_.find(dim); it != known_.end()) return it->second;
  const ExprId e = compute(dim, depth);
  if (e != kNone) known_.emplace(dim, e);
  return e;
}

ExprId DimExpressions::compute(tenon_dim_t dim, int depth) {
  tenon_dim_view_t v = sized<tenon_dim_view_t>();
  if (depth > kDimDepthMax || api_->dim_view(api_->self, graph_, dim, &v) != TENON_OK) return kNone;
  if (v.op == TENON_DIM_CONSTANT) return pool_->integer(v.constant);
  if (v.op == TENON_DIM_SYMBOL) {
    const auto it = symbols_.find(v.symbol);
    return it != symbols_.end() ? it->second : undefined(v.symbol);
  }
  const ExprId a = of(v.a, depth + 1), b = of(v.b, depth + 1);
  if (a == kNone || b == kNone) return kNone;
  switch (v.op) {
    case TENON_DIM_ADD:
      return pool_->add(a, b);
    case TENON_DIM_SUB:
      return pool_->sub(a, b);
    case TENON_DIM_MUL:
      return pool_->mul(a, b);
    case TENON_DIM_FLOORDIV:
      return pool_->floordiv(a, b);
    case TENON_DIM_MOD:
      return pool_->mod(a, b);
    case TENON_DIM_MIN:
      return pool_->min(a, b);
    case TENON_DIM_MAX:
      return pool_->max(a, b);
    default:
      return kNone;
  }
}

bool DimMap::add_symbols(tenon_region_t region, std::string* why) {
  tenon_region_view_t r = sized<tenon_region_view_t>();
  if (api_->region_view(api_->self, graph_, region, &r) != TENON_OK) {
    *why = "the region cannot be read";
    return false;
  }
  for (uint32_t i = 0; i < r.symbol_count; ++i) declare(r.symbols[i]);
  return true;
}

ExprId DimMap::declare(tenon_symbol_t s) {
  tenon_symbol_view_t v = sized<tenon_symbol_view_t>();
  if (api_->symbol_view(api_->self, graph_, s, &v) != TENON_OK) return kNone;
  const ExprId e =
      builder_->extent({v.lo < 0 ? 0 : v.lo, v.hi, v.multiple_of, v.hint > 0 ? v.hint : 0});
  define(s, e);
  return e;
}

bool DimMap::expressions(const tenon_dim_t* dims, uint64_t count, std::vector<ExprId>* out) {
  out->clear();
  for (uint64_t i = 0; i < count; ++i) {
    const ExprId e = of(dims[i]);
    if (e == kNone) return false;
    out->push_back(e);
  }
  return true;
}

const tenon_attr_t* LoweringSite::attr(std::string_view name) const {
  for (uint32_t i = 0; i < node.attr_count; ++i) {
    if (view(host.host->sym_text(host.host->self, node.attrs[i].name)) == name)
      return &node.attrs[i];
  }
  return nullptr;
}

int64_t LoweringSite::integer(std::string_view name, int64_t otherwise) const {
  const tenon_attr_t* a = attr(name);
  return a != nullptr && (a->kind == TENON_ATTR_I64 || a->kind == TENON_ATTR_DTYPE) ? a->u.i
                                                                                    : otherwise;
}

DType LoweringSite::acc() const {
  const auto asked = static_cast<DType>(integer("acc"));
  return asked == TENON_F16 || asked == TENON_BF16 ? TENON_F32 : asked;
}

std::string_view LoweringSite::text(std::string_view name) const {
  const tenon_attr_t* a = attr(name);
  return a != nullptr && a->kind == TENON_ATTR_STRING ? view(a->u.s) : std::string_view();
}

std::vector<int64_t> LoweringSite::integers(std::string_view name) const {
  const tenon_attr_t* a = attr(name);
  if (a == nullptr || a->kind != TENON_ATTR_I64S) return {};
  return {a->u.is, a->u.is + a->count};
}

std::vector<uint32_t> LoweringSite::to_ordinals(const std::vector<int64_t>& values) {
  std::vector<uint32_t> out;
  for (int64_t v : values) out.push_back(static_cast<uint32_t>(v));
  return out;
}

bool LoweringSite::sizes(std::string_view name, std::vector<ExprId>* out) const {
  const tenon_attr_t* a = attr(name);
  out->clear();
  if (a == nullptr) return true;
  if (a->kind == TENON_ATTR_DIMS) return dims.expressions(a->u.dims, a->count, out);
  for (int64_t v : integers(name)) out->push_back(b.pool().integer(v));
  return true;
}

bool LoweringSite::constants(std::string_view name, std::vector<int64_t>* out) const {
  std::vector<ExprId> values;
  if (!sizes(name, &values)) return false;
  out->clear();
  for (ExprId e : values) {
    if (!b.pool().is_const(e)) return false;
    out->push_back(*b.pool().value(e));
  }
  return true;
}

bool LoweringSite::result_dims(uint32_t i, std::vector<ExprId>* out) const {
  return dims.expressions(result_types[i].dims, result_types[i].rank, out);
}

bool LoweringSite::check_below(const Tensor& numbers, ExprId limit, std::string text) {
  ExprId count = b.pool().integer(1);
  std::vector<uint32_t> all;
  for (uint32_t d = 0; d < numbers.rank(); ++d) {
    count = b.pool().mul(count, numbers.dims[d]);
    all.push_back(d);
  }
  Tensor worst = b.convert(numbers, TENON_U64);
  if (!all.empty()) worst = b.reduce(worst, all, Fold::kMax);
  if (!worst.valid()) return false;
  if (worst.buffer == numbers.buffer) {
    const Tensor same = worst;
    worst = b.map(same.type, {}, [&](std::span<const ExprId>) { return b.load(same, {}); });
  }
  checks->push_back({worst.buffer, limit, count, origin, std::move(text)});
  b.output(worst);
  return true;
}

tenon_blob_t* LoweringSite::constant_operand(uint32_t i) const {
  tenon_value_view_t v = sized<tenon_value_view_t>();
  if (i >= node.operand_count ||
      host.graph->value_view(host.graph->self, graph, node.operands[i], &v) != TENON_OK)
    return nullptr;
  return v.kind == TENON_VALUE_CONSTANT ? v.blob : nullptr;
}

std::vector<Tensor> LoweringSite::refuse(std::string reason) const {
  *why = std::string(op->name.data, op->name.size);
  for (uint32_t i = 0; i < node.operand_count && i < 2; ++i) {
    if (node.operands[i] == TENON_NONE) continue;
    tenon_value_view_t v = sized<tenon_value_view_t>();
    host.graph->value_view(host.graph->self, graph, node.operands[i], &v);
    *why += (i == 0 ? " of " : " and ") + type_text(v.type);
  }
  *why += ": " + reason;
  return {};
}

bool can_lower(const HostTables& host, tenon_graph_t* graph, tenon_node_t node,
               const LoweringLimits& limits, std::string* why) {
  tenon_node_view_t n = sized<tenon_node_view_t>();
  if (host.graph->node_view(host.graph->self, graph, node, &n) != TENON_OK) return false;
  const std::string_view name = view(host.host->sym_text(host.host->self, n.op));
  std::string bad;
  if (n.region_count != 0) {
    *why = std::string(name) + ": control flow is not compiled by this device";
    return false;
  }
  const bool parts = is_part_op(name);
  if (!types_fit(host, graph, n.operands, n.operand_count, limits, parts, &bad) ||
      !types_fit(host, graph, n.results, n.result_count, limits, parts, &bad)) {
    *why = std::string(name) + ": " + bad + " is not computed by this device";
    return false;
  }
  if (n.symbol_count != 0 && !limits.data_dependent) {
    *why = std::string(name) + ": its size depends on data";
    return false;
  }
  if (name == "sdpa" && !limits.attention) {
    *why = "sdpa: this device computes attention from its decomposition";
    return false;
  }
  GraphLowering lowering(host, graph, why);
  lowering.dims().set_open(true);
  for (uint32_t i = 0; i < n.operand_count; ++i) {
    Tensor t;
    if (n.operands[i] == TENON_NONE || lowering.value(n.operands[i]).valid()) continue;
    if (!bind_operand(host, graph, &lowering, n.operands[i], &t)) return false;
  }
  if (!lowering.node(node, 0)) return false;
  if (!limits.refuses) return true;
  const std::string reason = limits.refuses(lowering.builder().pool());
  if (reason.empty()) return true;
  *why = std::string(name) + ": " + reason;
  return false;
}

bool lower_graph(const HostTables& host, tenon_graph_t* graph, Lowered* out, std::string* why) {
  tenon_graph_view_t g = sized<tenon_graph_view_t>();
  tenon_region_view_t main = sized<tenon_region_view_t>();
  host.graph->graph_view(host.graph->self, graph, &g);
  host.graph->region_view(host.graph->self, graph, g.main, &main);
  GraphLowering lowering(host, graph, why);
  if (!lowering.dims().add_symbols(g.main, why)) return false;
  *out = Lowered{};
  for (uint32_t i = 0; i < main.argument_count; ++i) {
    Tensor t;
    if (!bind_operand(host, graph, &lowering, main.arguments[i], &t)) return false;
    out->inputs.push_back(t.buffer);
  }
  out->constant_values = constants_of(host, graph);
  for (tenon_value_t v : out->constant_values) {
    Tensor t;
    if (!bind_operand(host, graph, &lowering, v, &t)) return false;
    out->constants.push_back(t.buffer);
  }
  for (uint32_t i = 0; i < main.node_count; ++i) {
    out->nodes.push_back(main.nodes[i]);
    if (!lowering.node(main.nodes[i], i)) return false;
  }
  // A yield that is an argument, a constant or an earlier yield needs its own memory: a copy.
  std::unordered_set<uint32_t> taken;
  for (uint32_t i = 0; i < main.yield_count; ++i) {
    Tensor t = lowering.value(main.yields[i]);
    tenon_value_view_t v = sized<tenon_value_view_t>();
    host.graph->value_view(host.graph->self, graph, main.yields[i], &v);
    const bool repeated = taken.contains(t.buffer);
    if (v.kind != TENON_VALUE_RESULT || repeated) {
      Builder& b = lowering.builder();
      t = b.map(t.type, t.dims, [&b, t](std::span<const ExprId> axes) { return b.load(t, axes); });
    }
    lowering.builder().output(t);
    taken.insert(t.buffer);
    out->outputs.push_back(t.buffer);
    out->output_ranks.push_back(v.type.rank);
  }
  if (!lowering.builder().ok()) return lowering.fail(lowering.builder().why());
  out->checks = lowering.checks();
  out->program = lowering.builder().take_program();
  // Constants that became immediates own no memory.
  for (uint32_t& c : out->constants) {
    if (out->program.buffers[c].role != Role::kConstant) c = ~0u;
  }
  return true;
}

}  // namespace tenon::kernelgen
