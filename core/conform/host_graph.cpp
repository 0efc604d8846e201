#include "core/conform/host_graph.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "core/base/str.h"
#include "core/conform/session.h"
#include "core/ir/dtype.h"
#include "core/tools/tensors.h"

namespace tenon::conform {
namespace {

template <typename Table>
bool ask(const tenon_host_t* host, std::string_view id, const Table** out) {
  const void* table = nullptr;
  if (host->query(host->self, {id.data(), id.size()}, 0, &table) != TENON_OK) return false;
  *out = static_cast<const Table*>(table);
  return true;
}

tenon_code_t append(void* self, const void* data, uint64_t size) {
  static_cast<std::string*>(self)->append(static_cast<const char*>(data), size);
  return TENON_OK;
}

tools::Dense dense_of(const Array& array) {
  return {array.dtype, array.dims, array.bytes.data()};
}

tenon_array_t view_of(const Array& array) {
  tenon_array_t view = {};
  view.size_bytes = sizeof(view);
  view.dtype = array.dtype;
  view.rank = static_cast<uint32_t>(array.dims.size());
  view.dims = array.dims.data();
  if (array.dtype != TENON_DTYPE_NONE) view.data = const_cast<unsigned char*>(array.bytes.data());
  return view;
}

double tolerance_of(tenon_dtype_t dtype) {
  switch (dtype) {
    case TENON_F16:
      return 4e-3;
    case TENON_BF16:
      return 3e-2;
    case TENON_F8E4M3FN:
    case TENON_F8E5M2:
      return 0.13;
    case TENON_F32:
    case TENON_C64:
      return 1e-5;
    case TENON_F64:
    case TENON_C128:
      return 1e-12;
    default:
      return 0;
  }
}

// The real parts.
Array as_f64(const Array& array) {
  Array out = make_array(TENON_F64, array.dims);
  for (int64_t i = 0; i < array.count(); ++i) {
    const double value = tools::element(dense_of(array), i);
    std::memcpy(out.bytes.data() + i * 8, &value, 8);
  }
  return out;
}

// What the nodes of one main region made so far.
class Evaluation {
 public:
  Evaluation(const HostTables& host, tenon_graph_t* graph) : host_(host), graph_(graph) {
    tenon_graph_view_t view = {};
    view.size_bytes = sizeof(view);
    (void)host.graph->graph_view(host.graph->self, graph, &view);
    symbols_.assign(view.symbol_limit, 0);
  }

  void bind(tenon_value_t value, Array array) {
    const tenon_type_t type = value_view(host_, graph_, value).type;
    for (uint32_t d = 0; d < type.rank && d < array.dims.size(); ++d) {
      tenon_dim_view_t dim = {};
      dim.size_bytes = sizeof(dim);
      if (host_.graph->dim_view(host_.graph->self, graph_, type.dims[d], &dim) == TENON_OK &&
          dim.op == TENON_DIM_SYMBOL && dim.symbol < symbols_.size())
        symbols_[dim.symbol] = array.dims[d];
    }
    arrays_[value] = std::move(array);
  }

  const Array* array(tenon_value_t value) {
    static const Array kAbsent;
    if (value == TENON_NONE) return &kAbsent;
    if (const auto found = arrays_.find(value); found != arrays_.end()) return &found->second;
    Array array;
    if (!constant_array(host_, graph_, value, &array)) return nullptr;
    return &(arrays_[value] = std::move(array));
  }

  bool run(tenon_node_t node, std::string* why) {
    const tenon_node_view_t view = node_view(host_, graph_, node);
    std::vector<tenon_value_t> reads(view.operands, view.operands + view.operand_count);
    for (uint32_t r = 0; r < view.region_count; ++r) {
      tenon_region_view_t region = {};
      region.size_bytes = sizeof(region);
      (void)host_.graph->region_view(host_.graph->self, graph_, view.regions[r], &region);
      reads.insert(reads.end(), region.captures, region.captures + region.capture_count);
    }
    std::vector<tenon_array_t> inputs, outputs(view.result_count);
    for (tenon_value_t value : reads) {
      const Array* found = array(value);
      if (found == nullptr) return *why = "a value that nothing made is used", false;
      inputs.push_back(view_of(*found));
    }
    for (tenon_array_t& output : outputs) output.size_bytes = sizeof(output);
    if (host_.registry->evaluate(host_.registry->self, graph_, node, symbols_.data(),
                                 static_cast<uint32_t>(symbols_.size()), inputs.data(),
                                 static_cast<uint32_t>(inputs.size()), outputs.data(),
                                 static_cast<uint32_t>(outputs.size())) != TENON_OK)
      return *why = last_failure(host_).text, false;
    for (uint32_t i = 0; i < view.result_count; ++i) {
      Array made{outputs[i].dtype, {outputs[i].dims, outputs[i].dims + outputs[i].rank}, {}};
      const uint64_t size = dense_of(made).size_bytes();
      made.bytes.assign(static_cast<unsigned char*>(outputs[i].data),
                        static_cast<unsigned char*>(outputs[i].data) + size);
      made.bytes.resize(size + 8);
      host_.registry->array_free(host_.registry->self, &outputs[i]);
      bind(view.results[i], std::move(made));
    }
    return true;
  }

 private:
  const HostTables& host_;
  tenon_graph_t* graph_;
  std::vector<int64_t> symbols_;
  std::map<tenon_value_t, Array> arrays_;
};

}  // namespace

Outcome find_host(HostTables* out) {
  std::string why;
  out->host = installed_host(&why);
  if (out->host == nullptr) return skipped("the installed host does not start: " + why);
  if (!ask(out->host, TENON_HOST_GRAPH_ID, &out->graph) ||
      !ask(out->host, TENON_HOST_REGISTRY_ID, &out->registry) ||
      !ask(out->host, TENON_HOST_SESSION_ID, &out->session))
    return skipped("the installed host has no graphs");
  return pass();
}

Failure last_failure(const HostTables& host) {
  tenon_failure_t failure = {};
  failure.size_bytes = sizeof(failure);
  Failure out;
  if (host.host->last_failure(host.host->self, &failure) != TENON_OK) return out;
  out.code = failure.code;
  out.id = view(failure.id);
  out.text = printable(view(failure.message), 600);
  for (uint32_t i = 0; i < failure.detail_count; ++i) {
    if (view(failure.details[i].key) == "constraint")
      out.constraint = view(failure.details[i].value);
  }
  return out;
}

int64_t Array::count() const {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  return count;
}

Array make_array(tenon_dtype_t dtype, std::vector<int64_t> dims) {
  Array array{dtype, std::move(dims), {}};
  array.bytes.resize(dense_of(array).size_bytes() + 8);
  return array;
}

void fill_tame(Array* array, uint64_t seed) {
  std::mt19937_64 random(seed);
  const uint32_t width = ir::dtype_bits(array->dtype) / 8;
  if (width == 0 || array->dtype == TENON_F8E4M3FN || array->dtype == TENON_F8E5M2 ||
      array->dtype >= TENON_C64) {
    tools::fill_random(array->dtype, seed, 0, array->count(), array->bytes.data());
    return;
  }
  for (int64_t i = 0; i < array->count(); ++i) {
    unsigned char* at = array->bytes.data() + i * width;
    const double wide = std::uniform_real_distribution<double>(0.05, 0.95)(random);
    const auto narrow = static_cast<float>(wide);
    const uint16_t half =
        array->dtype == TENON_F16 ? ir::f32_to_f16(narrow) : ir::f32_to_bf16(narrow);
    const auto integer = static_cast<int64_t>(random() % (array->dtype == TENON_PRED ? 2 : 4));
    if (array->dtype == TENON_F64)
      std::memcpy(at, &wide, 8);
    else if (array->dtype == TENON_F32)
      std::memcpy(at, &narrow, 4);
    else if (array->dtype == TENON_F16 || array->dtype == TENON_BF16)
      std::memcpy(at, &half, 2);
    else
      std::memcpy(at, &integer, std::min<size_t>(width, 8));
  }
}

void fill_signed(Array* array, uint64_t seed) {
  tools::fill_random(array->dtype, seed, 0, array->count(), array->bytes.data());
  const uint32_t width = ir::dtype_bits(array->dtype) / 8;
  if (array->dtype < TENON_I8 || array->dtype > TENON_I64) return;
  for (int64_t i = 0; i < array->count(); i += 2) {
    int64_t value = 0;
    std::memcpy(&value, array->bytes.data() + i * width, width);
    value = -value;
    std::memcpy(array->bytes.data() + i * width, &value, width);
  }
}

bool read_graph(const HostTables& host, const std::string& text, GraphRef* out, Failure* why) {
  tenon_blob_t* blob = nullptr;
  tenon_graph_t* graph = nullptr;
  tenon_code_t code = host.graph->blob_bytes(host.graph->self, text.data(), text.size(), &blob);
  if (code == TENON_OK) {
    constexpr std::string_view kName = "conform.tir";
    code = host.graph->graph_read(host.graph->self, blob, {kName.data(), kName.size()}, nullptr,
                                  &graph);
    if (code != TENON_OK) *why = last_failure(host);
    host.graph->blob_release(host.graph->self, blob);
  }
  if (code == TENON_OK) *out = GraphRef(host, graph);
  return code == TENON_OK;
}

std::string write_graph(const HostTables& host, tenon_graph_t* graph) {
  std::string text;
  const tenon_sink_t sink = {&text, append};
  if (host.graph->graph_write(host.graph->self, graph, TENON_FORMAT_TEXT, &sink) != TENON_OK)
    return "";
  return text;
}

GraphRef clone_graph(const HostTables& host, tenon_graph_t* graph) {
  tenon_graph_t* copy = nullptr;
  (void)host.graph->clone(host.graph->self, graph, &copy);
  return GraphRef(host, copy);
}

bool same_structure(const HostTables& host, tenon_graph_t* a, tenon_graph_t* b) {
  uint64_t first[2] = {}, second[2] = {};
  return host.graph->graph_hash(host.graph->self, a, first) == TENON_OK &&
         host.graph->graph_hash(host.graph->self, b, second) == TENON_OK &&
         std::equal(first, first + 2, second);
}

tenon_node_view_t node_view(const HostTables& host, tenon_graph_t* graph, tenon_node_t node) {
  tenon_node_view_t view = {};
  view.size_bytes = sizeof(view);
  (void)host.graph->node_view(host.graph->self, graph, node, &view);
  return view;
}

tenon_value_view_t value_view(const HostTables& host, tenon_graph_t* graph, tenon_value_t value) {
  tenon_value_view_t view = {};
  view.size_bytes = sizeof(view);
  (void)host.graph->value_view(host.graph->self, graph, value, &view);
  return view;
}

tenon_region_view_t main_region(const HostTables& host, tenon_graph_t* graph) {
  tenon_graph_view_t whole = {};
  whole.size_bytes = sizeof(whole);
  tenon_region_view_t view = {};
  view.size_bytes = sizeof(view);
  if (host.graph->graph_view(host.graph->self, graph, &whole) == TENON_OK)
    (void)host.graph->region_view(host.graph->self, graph, whole.main, &view);
  return view;
}

std::string_view op_name(const HostTables& host, const tenon_node_view_t& node) {
  return view(host.host->sym_text(host.host->self, node.op));
}

std::string type_text(const HostTables& host, tenon_graph_t* graph, const tenon_type_t& type) {
  if (type.kind != TENON_KIND_TENSOR) return type.kind == TENON_KIND_TOKEN ? "token" : "object";
  std::string text = fmt::format("{}[", ir::dtype_name(type.dtype));
  for (uint32_t d = 0; d < type.rank; ++d) {
    tenon_dim_view_t dim = {};
    dim.size_bytes = sizeof(dim);
    (void)host.graph->dim_view(host.graph->self, graph, type.dims[d], &dim);
    text += d == 0 ? "" : ", ";
    text += dim.op == TENON_DIM_CONSTANT ? std::to_string(dim.constant)
                                         : fmt::format("dim {}", ~type.dims[d]);
  }
  return text + "]";
}

bool constant_array(const HostTables& host, tenon_graph_t* graph, tenon_value_t value, Array* out) {
  const tenon_value_view_t v = value_view(host, graph, value);
  if (v.kind != TENON_VALUE_CONSTANT) return false;
  *out = make_array(v.type.dtype, {v.type.dims, v.type.dims + v.type.rank});
  const void* data = nullptr;
  uint64_t size = 0;
  if (host.graph->blob_data(host.graph->self, v.blob, &data, &size) != TENON_OK) return false;
  if (size != 0) std::memcpy(out->bytes.data(), data, std::min<uint64_t>(size, out->bytes.size()));
  return true;
}

bool replace_node(const HostTables& host, tenon_graph_t* graph, tenon_node_t node,
                  std::span<const tenon_value_t> results) {
  const tenon_node_view_t view = node_view(host, graph, node);
  const std::vector<tenon_value_t> old(view.results, view.results + view.result_count);
  for (size_t i = 0; i < old.size(); ++i) {
    if (host.graph->value_replace(host.graph->self, graph, old[i], results[i]) != TENON_OK)
      return false;
  }
  return host.graph->node_erase(host.graph->self, graph, node) == TENON_OK;
}

bool evaluate_graph(const HostTables& host, tenon_graph_t* graph, std::span<const Array> inputs,
                    std::vector<Array>* outputs, std::string* why) {
  Evaluation evaluation(host, graph);
  const tenon_region_view_t main = main_region(host, graph);
  for (uint32_t i = 0; i < main.argument_count && i < inputs.size(); ++i)
    evaluation.bind(main.arguments[i], inputs[i]);
  for (uint32_t i = 0; i < main.node_count; ++i) {
    if (!evaluation.run(main.nodes[i], why)) return false;
  }
  for (uint32_t i = 0; i < main.yield_count; ++i) {
    const Array* found = evaluation.array(main.yields[i]);
    if (found == nullptr) return *why = "an output is a value that nothing made", false;
    outputs->push_back(*found);
  }
  return true;
}

std::string difference(const Array& found, const Array& expected, double factor) {
  const auto inexact = [](tenon_dtype_t dtype) { return tolerance_of(dtype) > 0; };
  if (found.dtype != expected.dtype && inexact(found.dtype) && inexact(expected.dtype) &&
      (found.dtype >= TENON_C64) == (expected.dtype >= TENON_C64)) {
    const double narrow = std::max(tolerance_of(found.dtype), tolerance_of(expected.dtype));
    return difference(as_f64(found), as_f64(expected), factor * narrow / tolerance_of(TENON_F64));
  }
  const tools::Dense a = dense_of(found), b = dense_of(expected);
  if (a.dtype != b.dtype || a.dims != b.dims)
    return fmt::format("it is {}, and {} was expected", tools::type_text(a), tools::type_text(b));
  const tools::Comparison compared = tools::compare(a, b, factor * tolerance_of(b.dtype));
  if (compared.ok) return "";
  return fmt::format(
      "element {} is {}, and {} was expected", tools::index_text(b.dims, compared.worst),
      tools::element_text(a, compared.worst), tools::element_text(b, compared.worst));
}

}  // namespace tenon::conform
