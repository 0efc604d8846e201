#include "core/op/evaluate.h"

#include <tenon/cpp/record.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <unordered_map>

#include "core/base/checked.h"
#include "core/base/errors/guard.h"
#include "core/base/process/memory.h"
#include "core/base/process/operation.h"
#include "core/base/str.h"
#include "core/ir/dtype.h"
#include "core/op/registry.h"

namespace tenon::op {
namespace {

using ir::Graph;
using ir::Node;
using ir::Value;

constexpr int kDepthMax = 32;  // composites in composites, regions in regions

// Whether a value of the node is complex, and the op has a meaning for that.
bool is_by_parts(const Graph& graph, Node node, const tenon_op_def_t& def) {
  const auto is_complex = [&](Value v) {
    return v != ir::kNone && ir::dtype_is_complex(graph.type(v).dtype);
  };
  return def.decompose_complex != nullptr &&
         (std::ranges::any_of(graph.operands(node), is_complex) ||
          std::ranges::any_of(graph.results(node), is_complex));
}

// State of one evaluation of a node; its address is the `host` of the op's callbacks.
struct Call {
  Graph* graph;
  Node node;
  const tenon_op_def_t* def;
  std::span<const int64_t> symbols;
  std::span<const tenon_array_t> inputs;
  std::vector<tenon_attr_t> attrs;           // dims evaluated
  std::deque<std::vector<int64_t>> storage;  // what attrs point to
  std::vector<HostArray> outputs;
  tenon_array_t* given = nullptr;  // outputs as the reference sees them
  // By region: outputs of its last two runs.
  std::unordered_map<uint32_t, std::deque<std::vector<HostArray>>> regions;
  Status failure;
  int depth;
  bool by_parts;
  tenon_code_t decompose(const tenon_builder_t* builder, Node whole, tenon_value_t* results) const {
    const auto function = by_parts ? def->decompose_complex : def->decompose;
    return function(def->self, builder, whole, results);
  }
};

Result<std::vector<HostArray>> evaluate_at(Graph& graph, Node node,
                                           std::span<const int64_t> symbols,
                                           std::span<const tenon_array_t> inputs, Meaning meaning,
                                           int depth);

Status evaluate_attrs(Call& call) {
  const ir::NodeData node = call.graph->node(call.node);
  call.attrs = declared_attrs(*call.def, {node.attrs, node.attr_count});
  for (tenon_attr_t& a : call.attrs) {
    if (a.kind != TENON_ATTR_DIMS) continue;
    std::vector<int64_t>& values = call.storage.emplace_back(a.count);
    for (uint64_t i = 0; i < a.count; ++i) {
      TENON_RETURN_IF_ERROR(call.graph->dims().evaluate(a.u.dims[i], call.symbols, &values[i]));
    }
    a.u.dims = values.data();
  }
  return {};
}

// Allocates the results whose dims are known in advance; the op allocates the others.
Status allocate_outputs(Call& call) {
  const std::span<const ir::Symbol> own = call.graph->symbols(call.node);
  for (Value v : call.graph->results(call.node)) {
    const tenon_type_t& type = call.graph->type(v);
    bool all_known = type.kind == TENON_KIND_TENSOR;
    std::vector<int64_t> dims(type.rank, -1);
    for (uint32_t d = 0; d < type.rank; ++d) {
      std::vector<ir::Symbol> used;
      call.graph->dims().symbols_of(type.dims[d], &used);
      bool known = true;
      for (ir::Symbol s : used) known = known && std::find(own.begin(), own.end(), s) == own.end();
      if (known)
        TENON_RETURN_IF_ERROR(call.graph->dims().evaluate(type.dims[d], call.symbols, &dims[d]));
      all_known = all_known && known;
    }
    if (all_known) {
      TENON_ASSIGN_OR_RETURN(HostArray array, HostArray::create(type.dtype, dims));
      call.outputs.push_back(std::move(array));
    } else {
      call.outputs.push_back(HostArray::unknown(type.dtype, dims));
    }
  }
  return {};
}

// ---- By reference ----

tenon_code_t alloc_output(void* host, uint32_t i, const int64_t* dims, uint32_t rank) {
  return guarded([&]() -> Status {
    Call& call = *static_cast<Call*>(host);
    if (i >= call.outputs.size())
      return internal_error("a reference allocates a result that it has not");
    TENON_ASSIGN_OR_RETURN(call.outputs[i],
                           HostArray::create(call.outputs[i].view().dtype, {dims, rank}));
    call.given[i] = call.outputs[i].view();
    return {};
  });
}
uint32_t is_cancelled(void*) {
  return cancelled() ? 1 : 0;
}
tenon_code_t run_region(void* host, uint32_t region, const tenon_array_t* inputs,
                        uint32_t input_count, tenon_array_t* outputs, uint32_t output_count);

Status by_reference(Call& call) {
  std::vector<tenon_array_t> outputs;
  for (HostArray& o : call.outputs) outputs.push_back(o.view());
  auto eval = sized<tenon_eval_t>();
  eval.input_count = static_cast<uint32_t>(call.graph->operands(call.node).size());
  eval.region_count = static_cast<uint32_t>(call.graph->regions(call.node).size());
  eval.output_count = static_cast<uint32_t>(outputs.size());
  eval.attr_count = static_cast<uint32_t>(call.attrs.size());
  eval.op = call.def;
  eval.inputs = call.inputs.data();
  eval.outputs = outputs.data();
  eval.attrs = call.attrs.data();
  eval.host = &call;
  eval.alloc_output = alloc_output;
  call.given = outputs.data();
  eval.run_region = run_region;
  eval.cancelled = is_cancelled;
  clear_failure();
  const tenon_code_t code = call.def->reference(call.def->self, &eval);
  if (!call.failure.ok()) return call.failure;
  return from_abi(code, fmt::format("the reference of {}", from_abi_str(call.def->name)));
}

// ---- By decomposition, and whole bodies ----

// Evaluates the nodes of a region one after another, and keeps their results until the end.
class Body {
 public:
  Body(Graph& graph, std::span<const int64_t> symbols, int depth)
      : graph_(graph), symbols_(symbols.begin(), symbols.end()), depth_(depth) {}

  void bind(Value value, const tenon_array_t& array) { arrays_[value] = array; }

  Result<tenon_array_t> array(Value value) {
    if (value == ir::kNone) return sized<tenon_array_t>();
    if (const auto it = arrays_.find(value); it != arrays_.end()) return it->second;
    if (graph_.value(value).kind != TENON_VALUE_CONSTANT) {
      return error(TENON_UNIMPLEMENTED, "T0321",
                   "a body that uses values from outside of itself cannot be evaluated on its own; "
                   "make them arguments");
    }
    TENON_ASSIGN_OR_RETURN(tenon_array_t found,
                           constant_array(graph_, value, &shapes_.emplace_back()));
    arrays_[value] = found;
    return found;
  }

  Status run(Node node) {
    TENON_RETURN_IF_ERROR(check_cancelled());
    std::vector<tenon_array_t> inputs;
    for (Value v : values_read(graph_, node)) {
      TENON_ASSIGN_OR_RETURN(tenon_array_t input, array(v));
      inputs.push_back(input);
    }
    TENON_ASSIGN_OR_RETURN(
        std::vector<HostArray> outputs,
        evaluate_at(graph_, node, symbols_, inputs, Meaning::kFirst, depth_ + 1));
    const auto results = graph_.results(node);
    std::vector<HostArray>& kept = made_.emplace_back(std::move(outputs));
    for (size_t i = 0; i < kept.size(); ++i) {
      arrays_[results[i]] = kept[i].view();
      learn_symbols(results[i], kept[i].dims(), graph_.symbols(node));
    }
    return {};
  }

  // Learns those symbols of `defined` that are a dim of the value.
  void learn_symbols(Value value, std::span<const int64_t> dims,
                     std::span<const ir::Symbol> defined) {
    const tenon_type_t& type = graph_.type(value);
    symbols_.resize(std::max<size_t>(symbols_.size(), graph_.dims().symbol_count()), 0);
    for (ir::Symbol s : defined) {
      for (uint32_t d = 0; d < type.rank; ++d) {
        if (type.dims[d] == graph_.dims().symbol(s).dim) symbols_[s] = dims[d];
      }
    }
  }

 private:
  Graph& graph_;
  std::vector<int64_t> symbols_;
  int depth_;
  std::unordered_map<Value, tenon_array_t> arrays_;
  std::deque<std::vector<HostArray>> made_;
  std::deque<std::vector<int64_t>> shapes_;
};

bool is_dense(const tenon_array_t& array, size_t width) {
  int64_t stride = static_cast<int64_t>(width);
  for (uint32_t d = array.rank; d-- > 0; stride *= array.dims[d]) {
    if (array.dims[d] != 1 && array.strides_bytes[d] != stride) return false;
  }
  return true;
}

Result<HostArray> copy_of(const tenon_array_t& from) {
  TENON_ASSIGN_OR_RETURN(HostArray to, HostArray::create(from.dtype, {from.dims, from.rank}));
  const size_t width = ir::dtype_bits(from.dtype) / 8;
  if (width == 0 || to.size_bytes() == 0) return to;
  if (is_dense(from, width)) {
    std::memcpy(to.view().data, from.data, to.size_bytes());
    return to;
  }
  std::vector<int64_t> index(from.rank, 0);
  auto* out = static_cast<std::byte*>(to.view().data);
  for (uint64_t n = to.size_bytes() / width; n-- > 0; out += width) {
    const std::byte* in = static_cast<const std::byte*>(from.data);
    for (uint32_t d = 0; d < from.rank; ++d) in += index[d] * from.strides_bytes[d];
    std::memcpy(out, in, width);
    for (uint32_t d = from.rank; d-- > 0;) {
      if (++index[d] < from.dims[d]) break;
      index[d] = 0;
    }
  }
  return to;
}

tenon_code_t run_region(void* host, uint32_t region, const tenon_array_t* inputs,
                        uint32_t input_count, tenon_array_t* outputs, uint32_t output_count) {
  Call& call = *static_cast<Call*>(host);
  const auto run = [&]() -> Status {
    const auto regions = call.graph->regions(call.node);
    if (region >= regions.size())
      return internal_error("a reference runs a region that its node has not");
    const ir::RegionData& data = call.graph->region(regions[region]);
    if (data.arguments.size() != input_count || data.yields.size() != output_count) {
      return internal_error("a reference runs a region with a wrong number of values");
    }
    Body body(*call.graph, call.symbols, call.depth);
    TENON_ASSIGN_OR_RETURN(const std::vector<tenon_array_t> given,
                           arrays_of(inputs, input_count, "a region's arguments"));
    TENON_RETURN_IF_ERROR(arrays_of(outputs, output_count, "a region's results").status());
    for (uint32_t i = 0; i < input_count; ++i) {
      body.bind(data.arguments[i], given[i]);
      body.learn_symbols(data.arguments[i], {given[i].dims, given[i].rank}, data.symbols);
    }
    const std::vector<Value> reads = values_read(*call.graph, call.node);
    for (size_t i = call.graph->operands(call.node).size(); i < reads.size(); ++i) {
      body.bind(reads[i], call.inputs[i]);
    }
    for (Node n : call.graph->nodes(regions[region])) TENON_RETURN_IF_ERROR(body.run(n));
    std::deque<std::vector<HostArray>>& runs = call.regions[region];
    if (runs.size() == 2) runs.pop_front();
    std::vector<HostArray>& kept = runs.emplace_back();
    for (uint32_t i = 0; i < output_count; ++i) {
      TENON_ASSIGN_OR_RETURN(tenon_array_t found, body.array(data.yields[i]));
      TENON_ASSIGN_OR_RETURN(HostArray copy, copy_of(found));
      kept.push_back(std::move(copy));
      give_array(kept.back().view(), tenon_array_in(outputs, i));
    }
    return {};
  };
  return guarded([&]() -> tenon_code_t {
    call.failure = run();
    return call.failure.code();
  });
}

Status take_results(Call& call, const Graph& graph, Body& body, std::span<const Value> results) {
  call.outputs.clear();
  for (Value v : results) {
    if (!graph.value_live(v)) {
      return internal_error(
          fmt::format("the decomposition of {} leaves a result out", from_abi_str(call.def->name)));
    }
    TENON_ASSIGN_OR_RETURN(tenon_array_t found, body.array(v));
    TENON_ASSIGN_OR_RETURN(HostArray copy, copy_of(found));
    call.outputs.push_back(std::move(copy));
  }
  return {};
}

// A node with regions is decomposed in place, in a copy of its graph.
Status by_decomposition_in_place(Call& call) {
  ir::Ref<Graph> scratch = call.graph->clone();
  const ir::Region parent = scratch->node(call.node).parent;
  const Node limit = scratch->node_limit();
  const tenon_builder_t builder = {scratch->abi(), parent, call.node, 0};
  std::vector<Value> results(call.graph->results(call.node).size(), ir::kNone);
  clear_failure();
  const tenon_code_t code = call.decompose(&builder, call.node, results.data());
  TENON_RETURN_IF_ERROR(
      from_abi(code, fmt::format("the decomposition of {}", from_abi_str(call.def->name))));
  Body body(*scratch, call.symbols, call.depth);
  const std::vector<Value> reads = values_read(*call.graph, call.node);
  for (size_t i = 0; i < reads.size(); ++i) {
    if (reads[i] != ir::kNone) body.bind(reads[i], call.inputs[i]);
  }
  const auto nodes = scratch->nodes(parent);
  for (Node n : std::vector<Node>(nodes.begin(), nodes.end())) {
    if (n >= limit) TENON_RETURN_IF_ERROR(body.run(n));
  }
  return take_results(call, *scratch, body, results);
}

// Builds the node alone on arguments of the given shapes, decomposes it there and evaluates the
// result.
Status by_decomposition(Call& call) {
  if (!call.graph->regions(call.node).empty()) return by_decomposition_in_place(call);
  ir::Ref<Graph> scratch = Graph::create("decomposition");
  std::vector<Value> operands;
  for (const tenon_array_t& a : call.inputs) {
    if (a.dtype == TENON_DTYPE_NONE) {
      operands.push_back(ir::kNone);
      continue;
    }
    const tenon_type_t type = {a.dtype, TENON_KIND_TENSOR, a.rank, a.dims, 0};
    TENON_ASSIGN_OR_RETURN(Value argument, scratch->add_argument(scratch->main(), type, {}));
    operands.push_back(argument);
  }
  ir::NodeDraft draft;
  draft.op = call.graph->node(call.node).op;
  draft.op_version = call.graph->node(call.node).op_version;
  draft.operands = operands;
  draft.attrs = call.attrs;
  TENON_ASSIGN_OR_RETURN(Node whole, scratch->build({scratch->main(), ir::kNone}, draft));
  const tenon_builder_t builder = {scratch->abi(), scratch->main(), whole, 0};
  std::vector<Value> results(call.graph->results(call.node).size(), ir::kNone);
  clear_failure();
  const tenon_code_t code = call.decompose(&builder, whole, results.data());
  TENON_RETURN_IF_ERROR(
      from_abi(code, fmt::format("the decomposition of {}", from_abi_str(call.def->name))));

  Body body(*scratch, {}, call.depth);
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] != ir::kNone) body.bind(operands[i], call.inputs[i]);
  }
  const auto nodes = scratch->nodes(scratch->main());
  for (Node n : std::vector<Node>(nodes.begin(), nodes.end())) {
    if (n != whole) TENON_RETURN_IF_ERROR(body.run(n));
  }
  return take_results(call, *scratch, body, results);
}

Result<std::vector<HostArray>> evaluate_at(Graph& graph, Node node,
                                           std::span<const int64_t> symbols,
                                           std::span<const tenon_array_t> inputs, Meaning meaning,
                                           int depth) {
  if (depth > kDepthMax)
    return error(TENON_RESOURCE_EXHAUSTED, "T0321", "composites are nested deeper than {}",
                 kDepthMax);
  Call call = {};
  call.graph = &graph;
  call.node = node;
  call.symbols = symbols;
  call.inputs = inputs;
  call.depth = depth;
  call.def = ir::op_set()->find(graph.node(node).op, graph.node(node).op_version);
  if (call.def == nullptr)
    return ir::op_set()->unknown(graph.node(node).op, graph.node(node).op_version);
  const tenon_op_def_t& def = *call.def;
  call.by_parts = is_by_parts(graph, node, def);
  if (meaning == Meaning::kFirst) {
    meaning = call.by_parts              ? Meaning::kDecomposition
              : def.reference != nullptr ? Meaning::kReference
              : def.scalar_words != 0    ? Meaning::kScalar
                                         : Meaning::kDecomposition;
  }
  const bool has = meaning == Meaning::kDecomposition ? call.by_parts || def.decompose != nullptr
                   : call.by_parts                    ? false
                   : meaning == Meaning::kReference   ? def.reference != nullptr
                                                      : def.scalar_words != 0;
  if (!has) {
    return error(TENON_FAILED_PRECONDITION, "T0321", "the op {} has no {}",
                 quoted(from_abi_str(def.name)),
                 meaning == Meaning::kReference ? "reference"
                 : meaning == Meaning::kScalar  ? "scalar program"
                                                : "decomposition");
  }
  TENON_RETURN_IF_ERROR(evaluate_attrs(call));
  TENON_RETURN_IF_ERROR(allocate_outputs(call));
  Status done = meaning == Meaning::kReference ? by_reference(call)
                : meaning == Meaning::kScalar  ? run_scalar(def, call.attrs, inputs, call.outputs)
                                               : by_decomposition(call);
  TENON_RETURN_IF_ERROR(std::move(done));
  return std::move(call.outputs);
}

}  // namespace

Result<std::vector<tenon_array_t>> arrays_of(const tenon_array_t* first, uint32_t count,
                                             std::string_view what) {
  std::vector<tenon_array_t> all(count);
  if (count == 0) return all;
  constexpr uint32_t kLeast = offsetof(tenon_array_t, strides_bytes) + sizeof(int64_t*);
  if (first == nullptr || first->size_bytes < kLeast)
    return error(TENON_INVALID_ARGUMENT, "T0671",
                 "{} are arrays whose first record claims {} bytes: set size_bytes to sizeof", what,
                 first == nullptr ? 0 : first->size_bytes);
  for (uint32_t i = 0; i < count; ++i) {
    tenon_record_read(&all[i], sizeof all[i], first, i, first->size_bytes);
    all[i].size_bytes = sizeof all[i];
  }
  return all;
}

// Record i of an array that arrays_of has checked.
void give_array(const tenon_array_t& array, tenon_array_t* out) {
  (void)tenon_record_give(out, &array, sizeof array);
}

std::vector<Value> values_read(const Graph& graph, Node node) {
  const auto operands = graph.operands(node);
  std::vector<Value> out(operands.begin(), operands.end());
  for (ir::Region r : graph.regions(node)) {
    const auto captures = graph.captures(r);
    out.insert(out.end(), captures.begin(), captures.end());
  }
  return out;
}

void FreeCounted::operator()(std::byte* data) const {
  delete[] data;
  memory_return(bytes);
}

HostArray HostArray::unknown(tenon_dtype_t dtype, std::span<const int64_t> dims) {
  HostArray out;
  out.shape_ = std::make_unique<int64_t[]>(2 * dims.size());
  std::copy(dims.begin(), dims.end(), out.shape_.get());
  out.view_.size_bytes = sizeof(tenon_array_t);
  out.view_.dtype = dtype;
  out.view_.rank = static_cast<uint32_t>(dims.size());
  out.view_.dims = out.shape_.get();
  return out;
}

Result<HostArray> HostArray::create(tenon_dtype_t dtype, std::span<const int64_t> dims) {
  TENON_ASSIGN_OR_RETURN(uint64_t count, element_count(dims));
  TENON_ASSIGN_OR_RETURN(uint64_t bytes, packed_bytes(count, ir::dtype_bits(dtype)));
  HostArray out;
  out.size_bytes_ = bytes;
  out.shape_ = std::make_unique<int64_t[]>(2 * dims.size());
  TENON_RETURN_IF_ERROR(memory_reserve(bytes, "an array of the reference"));
  out.data_ = std::unique_ptr<std::byte[], FreeCounted>(
      new (std::nothrow) std::byte[std::max<uint64_t>(bytes, 1)](), FreeCounted{bytes});
  if (!out.data_) {
    memory_return(bytes);
    return error(TENON_RESOURCE_EXHAUSTED, "T0111", "not enough memory for an array of {} bytes",
                 bytes);
  }
  int64_t stride = ir::dtype_bits(dtype) / 8;
  for (size_t d = dims.size(); d-- > 0;) {
    out.shape_[d] = dims[d];
    out.shape_[dims.size() + d] = stride;
    stride *= std::max<int64_t>(dims[d], 1);
  }
  out.view_.size_bytes = sizeof(tenon_array_t);
  out.view_.dtype = dtype;
  out.view_.rank = static_cast<uint32_t>(dims.size());
  out.view_.data = out.data_.get();
  out.view_.dims = out.shape_.get();
  out.view_.strides_bytes = out.shape_.get() + dims.size();
  return out;
}

Result<tenon_array_t> constant_array(const Graph& graph, Value value, std::vector<int64_t>* shape) {
  const tenon_type_t& type = graph.type(value);
  ir::Blob& blob = *graph.value(value).blob;
  const std::span<const std::byte> splat = blob.splat_element();
  auto out = sized<tenon_array_t>();
  out.dtype = type.dtype;
  out.rank = type.rank;
  shape->resize(2 * type.rank);
  int64_t stride = ir::dtype_bits(type.dtype) / 8;
  for (uint32_t d = type.rank; d-- > 0;) {
    (*shape)[d] = type.dims[d];
    (*shape)[type.rank + d] = splat.empty() ? stride : 0;
    stride *= std::max<int64_t>(type.dims[d], 1);
  }
  out.dims = shape->data();
  out.strides_bytes = shape->data() + type.rank;
  if (!splat.empty()) {
    out.data = const_cast<std::byte*>(splat.data());
    return out;
  }
  TENON_ASSIGN_OR_RETURN(const void* data, blob.data());
  out.data = const_cast<void*>(data);
  return out;
}

Result<std::vector<HostArray>> evaluate(Graph& graph, Node node, std::span<const int64_t> symbols,
                                        std::span<const tenon_array_t> inputs, Meaning meaning) {
  // Arrays without strides are dense; ops always get strides.
  std::vector<tenon_array_t> strided(inputs.begin(), inputs.end());
  std::deque<std::vector<int64_t>> storage;
  for (tenon_array_t& a : strided) {
    if (a.strides_bytes != nullptr) continue;
    std::vector<int64_t>& strides = storage.emplace_back(a.rank);
    int64_t stride = ir::dtype_bits(a.dtype) / 8;
    for (uint32_t d = a.rank; d-- > 0;) {
      strides[d] = stride;
      stride *= std::max<int64_t>(a.dims[d], 1);
    }
    a.strides_bytes = strides.data();
  }
  return evaluate_at(graph, node, symbols, strided, meaning, 0);
}

}  // namespace tenon::op
