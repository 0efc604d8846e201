#include <algorithm>
#include <memory>

#include "common.h"

namespace tenon::passes {
namespace {

constexpr tenon_pass_option_def_t kOptions[] = {
    {str("max_bytes"), str("largest constant that is made"), TENON_ATTR_I64, 0, str("1048576")}};
constexpr tenon_str_t kStatistics[] = {str("folded"), str("bytes")};

// Results up to this size may be larger than the operands.
constexpr int64_t kSmallBytes = 4096, kFewBytes = 256;

// The arrays of one evaluation; returns those that the host allocated.
class Arrays {
 public:
  Arrays() = default;
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;
  ~Arrays() {
    for (tenon_array_t& output : outputs) {
      if (output.data != nullptr) registry().array_free(registry().self, &output);
    }
  }
  std::vector<tenon_array_t> inputs, outputs;
};

int64_t bytes_of(const tenon_type_t& type) {
  int64_t bits = dtype_bits(type.dtype);
  for (uint32_t d = 0; d < type.rank; ++d) {
    if (type.dims[d] < 0 || __builtin_mul_overflow(bits, type.dims[d], &bits)) return -1;
  }
  return type.kind == TENON_KIND_TENSOR && bits % 8 == 0 ? bits / 8 : -1;
}

// Requires constant operands and static results. A large result is not folded, nor one that is
// beyond a few kilobytes and larger than its operands: a broadcast costs less as an op than as
// memory. Numbers that a conversion only widens stay narrow: devices that multiply narrow numbers
// need them so, and others widen them as they read them.
bool worth_folding(const Node& node, const tenon_op_def_t* op, int64_t max_bytes) {
  if (!is_removable(op) || node.operand_count() == 0 || node.view().region_count > 0) return false;
  if (has_trait(op, TENON_TRAIT_DEFINES_SYMBOL | TENON_TRAIT_NO_RECOMPUTE)) return false;
  int64_t from = 0, to = 0;
  for (uint32_t i = 0; i < node.operand_count(); ++i) {
    if (!node.operand(i).valid()) continue;
    if (!node.operand(i).is_constant()) return false;
    from += bytes_of(node.operand(i).view().type);
  }
  for (uint32_t i = 0; i < node.result_count(); ++i) {
    const int64_t bytes = bytes_of(node.result(i).view().type);
    if (bytes < 0) return false;
    to += bytes;
  }
  if (to > max_bytes) return false;
  const bool widens = to > from && node.is("convert");
  return to <= from || to <= (widens ? kFewBytes : kSmallBytes);
}

Status input_of(Value value, tenon_array_t* array) {
  *array = {};
  array->size_bytes = sizeof *array;
  if (!value.valid()) return {};
  const tenon_value_view_t view = value.view();
  const void* data = nullptr;
  uint64_t size = 0;
  TENON_TRY(graph_api().blob_data(graph_api().self, view.blob, &data, &size));
  array->dtype = view.type.dtype;
  array->rank = view.type.rank;
  array->dims = view.type.dims;
  array->data = const_cast<void*>(data);
  return {};
}

// A blob of the bytes, or of one element if all are equal.
Status blob_of(const tenon_array_t& array, int64_t bytes, tenon_blob_t** out) {
  const auto* data = static_cast<const char*>(array.data);
  const uint32_t element = dtype_bytes(array.dtype);
  const bool splat = bytes > element && std::equal(data + element, data + bytes, data);
  if (splat)
    return graph_api().blob_splat(graph_api().self, data, element, static_cast<uint64_t>(bytes),
                                  out);
  return graph_api().blob_bytes(graph_api().self, data, static_cast<uint64_t>(bytes), out);
}

Status fold(Node node, const PassContext& context) {
  tenon_graph_t* graph = node.graph();
  Arrays arrays;
  for (uint32_t i = 0; i < node.operand_count(); ++i) {
    TENON_TRY(input_of(node.operand(i), &arrays.inputs.emplace_back()));
  }
  arrays.outputs.resize(node.result_count());
  for (tenon_array_t& output : arrays.outputs) output.size_bytes = sizeof output;
  const std::vector<int64_t> symbols(graph_view(graph).symbol_limit,
                                     1);  // static results mention no symbols
  TENON_TRY(registry().evaluate(registry().self, graph, node.id(), symbols.data(),
                                static_cast<uint32_t>(symbols.size()), arrays.inputs.data(),
                                static_cast<uint32_t>(arrays.inputs.size()), arrays.outputs.data(),
                                static_cast<uint32_t>(arrays.outputs.size())));
  std::vector<Value> results;
  for (uint32_t i = 0; i < node.result_count(); ++i) results.push_back(node.result(i));
  for (size_t i = 0; i < results.size(); ++i) {
    const tenon_type_t type = results[i].view().type;
    tenon_blob_t* blob = nullptr;
    TENON_TRY(blob_of(arrays.outputs[i], bytes_of(type), &blob));
    const Blob owner(blob);
    tenon_value_t constant = TENON_NONE;
    TENON_TRY(graph_api().constant(graph_api().self, graph, &type, blob, &constant));
    TENON_TRY(replace(results[i], Value(graph, constant)));
    context.count("bytes", bytes_of(type));
  }
  context.count("folded");
  return erase(Node(graph, node.id()));
}

// In program order, so that users see a node's result as constant.
Status visit(Region region, const PassContext& context) {
  for (const tenon_node_t id : region.node_ids()) {
    if (cancelled()) return fail(TENON_CANCELLED, "T0001: stopped");
    const Node node(region.graph(), id);
    if (worth_folding(node, op_of(node), context.i64(0))) {
      // A node that evaluation refuses stays in the graph and fails, with its location, when it
      // runs.
      (void)fold(node, context);
      continue;
    }
    const tenon_node_view_t view = node.view();
    const std::vector<tenon_region_t> inner(view.regions, view.regions + view.region_count);
    for (const tenon_region_t r : inner) TENON_TRY(visit(Region(region.graph(), r), context));
  }
  return {};
}

Status run(tenon_graph_t* graph, const PassContext& context) {
  return visit(main_region(graph), context);
}

constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  %0 = const f32[2] [1, 2]
  %1 = const f32[2] [3, 5]
  %2 = add(%0, %1) : f32[2]
  %3 = mul(%x, %2) : f32[2]
  yield %3
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g(%x: f32[2]) -> (y: f32[2]) {
  %0 = const f32[2] [4, 7]
  %1 = mul(%x, %0) : f32[2]
  yield %1
}
)";

constexpr auto kPass =
    pass("fold", "Evaluates nodes that depend only on constants.")
        .describe(
            "Nodes with only constant operands are evaluated by the meaning of their "
            "op. No constant becomes larger than max_bytes, and none above 4096 bytes "
            "becomes larger than its operands.")
        .example(kBefore, kAfter)
        .options(kOptions)
        .statistics(kStatistics)
        .preserves("legal")
        .establishes("folded")
        .run<run>();

}  // namespace
}  // namespace tenon::passes

TENON_PASS(fold, tenon::passes::kPass)
