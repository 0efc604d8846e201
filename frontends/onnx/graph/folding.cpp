// Evaluates numbers that follow from constants through any nodes, at import, where sizes, axes or
// counts need them. Shape arithmetic (extent.h) covers the few forms that exporters usually write;
// this covers the rest, such as a count that a model computes in floats.
#include "frontends/onnx/graph/folding.h"

#include <tenon/abi/host.h>
#include <algorithm>
#include <span>
#include <tenon/cpp/plugin.hpp>

#include "frontends/onnx/reader/model_limits.h"

namespace tenon::onnx {
namespace {

constexpr size_t kMaxNodes = 256;  // per computation
constexpr size_t kMaxNested = 64;

const tenon_host_registry_t* registry() {
  static const auto* table = context().query<tenon_host_registry_t>(TENON_HOST_REGISTRY_ID);
  return table;
}

// The dims of a small tensor with known sizes and an element type of whole bytes; else nothing.
std::optional<std::vector<int64_t>> small_dims(const Value& value) {
  const TypeView type = value.type();
  if (type.kind() != TENON_KIND_TENSOR || dtype_bytes(type.dtype()) == 0) return {};
  std::vector<int64_t> out;
  int64_t count = 1;
  for (const Dim d : type.dims()) {
    if (!d.is_constant() || __builtin_mul_overflow(count, d.constant(), &count)) return {};
    out.push_back(d.constant());
  }
  return count <= static_cast<int64_t>(kMaxKnownElements) ? std::optional(out) : std::nullopt;
}

uint64_t times(uint64_t a, uint64_t b) {
  return __builtin_mul_overflow(a, b, &a) ? UINT64_MAX : a;
}

// Ops with these attributes may read far more elements than their operands and results have.
bool looks_around(const tenon_op_def_t& op) {
  static constexpr std::string_view kNames[] = {"window", "size", "samples", "antialias"};
  for (uint32_t i = 0; i < op.attr_count; ++i) {
    const std::string_view name = view(tenon_op_attr(&op, i)->name);
    if (std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames)) return true;
  }
  return false;
}

// An upper bound of the elements that evaluating a node touches, counted as if no dim was 0.
// Operands and results are small, but the work need not be: in a sum of products any element may
// meet any other. Ops along a dim, such as a running sum, read each element once.
uint64_t work_of(const tenon_op_def_t& op, const std::vector<tenon_array_t>& inputs,
                 const std::vector<int64_t>& dims) {
  uint64_t sum = 0, product = 1, largest = 1, last = 1;
  const auto add = [&](std::span<const int64_t> of) {
    uint64_t count = 1;
    for (const int64_t d : of) count = times(count, static_cast<uint64_t>(std::max<int64_t>(d, 1)));
    if (__builtin_add_overflow(sum, count, &sum)) sum = UINT64_MAX;
    product = times(product, count);
    largest = std::max(largest, count);
    last = count;
  };
  for (const tenon_array_t& input : inputs) add({input.dims, input.rank});
  add(dims);
  const bool reduces = op.cost_class == TENON_COST_REDUCTION && last < largest;
  return reduces || op.cost_class == TENON_COST_CONTRACTION ? product : sum;
}

tenon_array_t array_of(const Constant& constant) {
  auto out = sized<tenon_array_t>();
  out.dtype = constant.dtype;
  out.rank = static_cast<uint32_t>(constant.dims.size());
  out.dims = constant.dims.data();
  out.data = const_cast<std::byte*>(blob_bytes(constant.blob.get()).data());
  return out;
}

}  // namespace

const Constant* Folding::of(const Value& value) {
  nodes_ = 0;
  return compute(value, 0);
}

const Constant* Folding::compute(const Value& value, size_t depth) {
  if (const auto at = known_.find(value.id()); at != known_.end()) return &at->second;
  const tenon_value_view_t view = value.view();
  const auto dims = value.valid() ? small_dims(value) : std::nullopt;
  if (!dims || depth > kMaxNested) return nullptr;
  if (view.kind == TENON_VALUE_CONSTANT) {
    return &known_.emplace(value.id(), Constant{view.type.dtype, *dims, Blob::retain(view.blob)})
                .first->second;
  }
  if (view.kind != TENON_VALUE_RESULT || registry() == nullptr || ++nodes_ > kMaxNodes)
    return nullptr;
  const Node node = value.node();
  const tenon_node_view_t all = node.view();
  if (all.region_count != 0 || all.symbol_count != 0 || all.result_count != 1) return nullptr;
  const tenon_op_def_t* op = nullptr;
  if (registry()->op_find(registry()->self, all.op, all.op_version, &op) != TENON_OK ||
      (op->traits & TENON_TRAIT_PURE) == 0)
    return nullptr;
  if (looks_around(*op) || refused_.contains(value.id())) return nullptr;
  std::vector<tenon_array_t> inputs;
  for (uint32_t i = 0; i < all.operand_count; ++i) {
    const Value operand = node.operand(i);
    const Constant* constant = operand.valid() ? compute(operand, depth + 1) : nullptr;
    if (constant == nullptr) return nullptr;
    inputs.push_back(array_of(*constant));
  }
  const uint64_t work = work_of(*op, inputs, *dims);
  if (work > work_left_) return nullptr;
  work_left_ -= work;
  const Constant* made = evaluate(value, node, *dims, inputs);
  if (made == nullptr) refused_.insert(value.id());
  return made;
}

const Constant* Folding::evaluate(const Value& value, const Node& node,
                                  const std::vector<int64_t>& dims,
                                  const std::vector<tenon_array_t>& inputs) {
  int64_t count = 1;
  for (const int64_t d : dims) count *= d;
  const tenon_dtype_t dtype = value.dtype();
  std::vector<std::byte> bytes(
      std::max<size_t>(static_cast<size_t>(count) * dtype_bytes(dtype), 1));
  auto out = sized<tenon_array_t>();
  out.dtype = dtype;
  out.rank = static_cast<uint32_t>(dims.size());
  out.dims = dims.data();
  out.data = bytes.data();
  const std::vector<int64_t> symbols(symbol_limit(value.graph()), 0);  // none is used
  if (registry()->evaluate(registry()->self, value.graph(), node.id(), symbols.data(),
                           static_cast<uint32_t>(symbols.size()), inputs.data(),
                           static_cast<uint32_t>(inputs.size()), &out, 1) != TENON_OK) {
    return nullptr;
  }
  Constant made{dtype, dims,
                Blob::bytes(bytes.data(), static_cast<size_t>(count) * dtype_bytes(dtype))};
  return &known_.emplace(value.id(), std::move(made)).first->second;
}

uint32_t Folding::symbol_limit(tenon_graph_t* graph) {
  auto view = sized<tenon_graph_view_t>();
  return graph_api().graph_view(graph_api().self, graph, &view) == TENON_OK ? view.symbol_limit : 0;
}

}  // namespace tenon::onnx
