#include <algorithm>
#include <unordered_map>

#include "common.h"

namespace tenon::passes {
namespace {

constexpr tenon_str_t kStatistics[] = {str("merged"), str("merged-constants")};

// Larger constants are merged only when they share their blob: hashing would read mapped weights
// from disk.
constexpr uint64_t kHashedBytesMax = 4096;

using Key = std::string;

template <class T>
void put(Key& key, const T& value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_text(Key& key, std::string_view text) {
  put(key, text.size());
  key += text;
}

void put_blob(Key& key, tenon_blob_t* blob) {
  const void* data = nullptr;
  uint64_t size = 0, digest[2] = {};
  const void* element = nullptr;
  uint32_t element_bytes = 0;
  const auto& api = graph_api();
  const bool splat = api.blob_is_splat(api.self, blob, &element, &element_bytes) == 1;
  if (!splat &&
      (api.blob_data(api.self, blob, &data, &size) != TENON_OK || size > kHashedBytesMax)) {
    return put(key, blob);
  }
  if (api.blob_digest(api.self, blob, digest) != TENON_OK) return put(key, blob);
  put(key, digest);
}

void put_type(Key& key, const tenon_type_t& type) {
  put(key, type.dtype);
  put(key, type.kind);
  put(key, type.object);
  put(key, type.rank);
  for (uint32_t i = 0; i < type.rank; ++i) put(key, type.dims[i]);
}

void put_attr(Key& key, const tenon_attr_t& attr) {
  put(key, attr.name);
  put(key, attr.kind);
  put(key, attr.count);
  for (uint64_t i = 0; i < attr.count; ++i) {
    switch (attr.kind) {
      case TENON_ATTR_I64S:
        put(key, attr.u.is[i]);
        break;
      case TENON_ATTR_F64S:
        put(key, attr.u.fs[i]);
        break;
      case TENON_ATTR_DIMS:
        put(key, attr.u.dims[i]);
        break;
      case TENON_ATTR_STRING:
        put_text(key, view(attr.u.s));
        break;
      case TENON_ATTR_STRINGS:
        put_text(key, view(attr.u.ss[i]));
        break;
      case TENON_ATTR_TYPES:
        put_type(key, attr.u.types[i]);
        break;
      case TENON_ATTR_BLOB:
        put_blob(key, attr.u.blob);
        break;
      case TENON_ATTR_F64:
        put(key, attr.u.f);
        break;
      default:
        put(key, attr.u.i);
        break;
    }
  }
}

class Cse {
 public:
  Cse(tenon_graph_t* graph, const PassContext& context) : graph_(graph), context_(context) {}

  // `seen` has one table per enclosing region, so every value found in it is visible here.
  Status visit(Region region) {
    seen_.emplace_back();
    for (const tenon_node_t id : region.node_ids()) TENON_TRY(visit(Node(graph_, id)));
    const std::vector<Value> yields = region.yields();
    for (const Value yield : yields) TENON_TRY(merge_constant(yield));
    seen_.pop_back();
    return {};
  }

 private:
  Status visit(Node node) {
    for (const Value operand : node.operands()) TENON_TRY(merge_constant(operand));
    node = Node(graph_, node.id());  // merging changed the graph below the view
    const tenon_node_view_t& view = node.view();
    const std::vector<tenon_region_t> regions(view.regions, view.regions + view.region_count);
    for (const tenon_region_t inner : regions) TENON_TRY(visit(Region(graph_, inner)));
    const tenon_op_def_t* op = op_of(node);
    // Two definitions of a symbol are two symbols, even with equal operands.
    const bool defines = has_trait(op, TENON_TRAIT_DEFINES_SYMBOL) || view.symbol_count > 0;
    if (!regions.empty() || defines || !is_removable(op)) return {};
    const Key key = key_of(node, has_trait(op, TENON_TRAIT_COMMUTATIVE));
    for (const auto& table : seen_) {
      if (const auto found = table.find(key); found != table.end())
        return merge(node, Node(graph_, found->second));
    }
    seen_.back().emplace(key, node.id());
    return {};
  }

  Status merge(const Node& node, const Node& earlier) {
    const uint32_t count = node.result_count();
    std::vector<Value> from, to;
    for (uint32_t i = 0; i < count; ++i) {
      from.push_back(node.result(i));
      to.push_back(earlier.result(i));
    }
    for (uint32_t i = 0; i < count; ++i) TENON_TRY(replace(from[i], to[i]));
    context_.count("merged");
    return erase(Node(graph_, node.id()));
  }

  Status merge_constant(Value value) {
    if (!value.is_constant()) return {};
    const tenon_value_view_t view = value.view();
    Key key;
    put_type(key, view.type);
    put_blob(key, view.blob);
    const auto [found, inserted] = constants_.try_emplace(std::move(key), value.id());
    if (inserted || found->second == value.id()) return {};
    context_.count("merged-constants");
    return replace(value, Value(graph_, found->second));
  }

  Key key_of(const Node& node, bool commutative) const {
    const tenon_node_view_t& view = node.view();
    Key key;
    put(key, view.op);
    put(key, view.op_version);
    std::vector<tenon_value_t> operands(view.operands, view.operands + view.operand_count);
    if (commutative && operands.size() == 2) std::sort(operands.begin(), operands.end());
    for (const tenon_value_t operand : operands) put(key, operand);
    for (uint32_t i = 0; i < view.attr_count; ++i) put_attr(key, view.attrs[i]);
    const tenon_node_view_t again = Node(graph_, node.id()).view();
    for (uint32_t i = 0; i < again.result_count; ++i)
      put_type(key, Value(graph_, again.results[i]).view().type);
    return key;
  }

  tenon_graph_t* graph_;
  const PassContext& context_;
  std::vector<std::unordered_map<Key, tenon_node_t>> seen_;
  std::unordered_map<Key, tenon_value_t> constants_;  // constants are in no region
};

Status run(tenon_graph_t* graph, const PassContext& context) {
  return Cse(graph, context).visit(main_region(graph));
}

constexpr std::string_view kBefore = R"(tenon.tir 1
graph @g(%x: f32[2], %y: f32[2]) -> (z: f32[2]) {
  %0 = add(%x, %y) : f32[2]
  %1 = add(%y, %x) : f32[2]
  %2 = mul(%0, %1) : f32[2]
  yield %2
}
)";
constexpr std::string_view kAfter = R"(tenon.tir 1
graph @g(%x: f32[2], %y: f32[2]) -> (z: f32[2]) {
  %0 = add(%x, %y) : f32[2]
  %1 = mul(%0, %0) : f32[2]
  yield %1
}
)";

constexpr auto kPass =
    pass("cse", "Computes equal nodes once.")
        .describe(
            "Merges nodes with the same op, attributes and operands (in either order "
            "for commutative ops) where the first is visible from the second, and "
            "constants with equal bytes. Ops with effects and ops that define a "
            "symbol are never merged.")
        .example(kBefore, kAfter)
        .statistics(kStatistics)
        .preserves("legal, folded")
        .run<run>();

}  // namespace
}  // namespace tenon::passes

TENON_PASS(cse, tenon::passes::kPass)
