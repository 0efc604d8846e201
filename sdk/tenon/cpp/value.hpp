// Views of types, blobs, values, nodes and regions of a graph. Handles are indices with their
// graph: copy them freely; they are valid as long as the graph. Threads: one at a time; any thread
// for a frozen graph.
//
// Reading an invalid handle gives what an empty one would have: rank 0, no operands, invalid dims.
// So a rule may go on after a failed build; the builder keeps the failure.
#ifndef TENON_CPP_VALUE_HPP_
#define TENON_CPP_VALUE_HPP_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/cpp/dim.hpp"
#include "tenon/cpp/dtype.hpp"

namespace tenon::inline sdk {

// ---- Types ----
// A borrowed type with its graph, which makes arithmetic on its dims possible.
class TypeView {
 public:
  TypeView() = default;
  TypeView(tenon_graph_t* graph, const tenon_type_t& type) : graph_(graph), type_(type) {}
  const tenon_type_t& raw() const { return type_; }
  tenon_dtype_t dtype() const { return type_.dtype; }
  uint16_t kind() const { return type_.kind; }
  uint32_t rank() const { return type_.rank; }
  // Invalid beyond the rank.
  Dim dim(uint32_t i) const { return i < type_.rank ? Dim(graph_, type_.dims[i]) : Dim(); }
  Dims dims() const {
    Dims out;
    out.reserve(type_.rank);
    for (uint32_t i = 0; i < type_.rank; ++i) out.push_back(dim(i));
    return out;
  }
  bool is_static() const {
    for (uint32_t i = 0; i < type_.rank; ++i) {
      if (type_.dims[i] < 0) return false;
    }
    return true;
  }
  // The symbols that the dims mention, with repetitions.
  std::vector<tenon_symbol_t> symbols() const {
    std::vector<tenon_symbol_t> out;
    std::vector<tenon_dim_t> stack(type_.dims, type_.dims + type_.rank);
    while (!stack.empty()) {
      const tenon_dim_t dim = stack.back();
      stack.pop_back();
      auto view = sized<tenon_dim_view_t>();
      if (dim >= 0 || graph_api().dim_view(graph_api().self, graph_, dim, &view) != TENON_OK) {
        continue;
      }
      if (view.op == TENON_DIM_SYMBOL) out.push_back(view.symbol);
      if (view.op > TENON_DIM_SYMBOL) stack.insert(stack.end(), {view.a, view.b});
    }
    return out;
  }
  // Product of the dims; invalid on overflow.
  Dim element_count() const {
    Dim count(graph_, 1);
    for (uint32_t i = 0; i < type_.rank; ++i) count = count * dim(i);
    return count;
  }
  // Same element type, and provably equal dims.
  friend bool operator==(const TypeView& a, const TypeView& b) {
    if (a.type_.kind != b.type_.kind || a.type_.dtype != b.type_.dtype ||
        a.type_.rank != b.type_.rank)
      return false;
    for (uint32_t i = 0; i < a.type_.rank; ++i) {
      if (!surely_equal(a.dim(i), b.dim(i))) return false;
    }
    return true;
  }

 private:
  tenon_graph_t* graph_ = nullptr;
  tenon_type_t type_ = {};
};

// ---- Blobs ----
// Owns one reference to a blob.
class Blob {
 public:
  Blob() = default;
  explicit Blob(tenon_blob_t* owned) : blob_(owned) {}
  Blob(Blob&& other) noexcept : blob_(std::exchange(other.blob_, nullptr)) {}
  Blob& operator=(Blob&& other) noexcept {
    std::swap(blob_, other.blob_);
    return *this;
  }
  ~Blob() {
    if (blob_ != nullptr) graph_api().blob_release(graph_api().self, blob_);
  }
  static Blob retain(tenon_blob_t* borrowed) {
    if (borrowed != nullptr) graph_api().blob_retain(graph_api().self, borrowed);
    return Blob(borrowed);
  }
  static Blob bytes(const void* data, uint64_t size_bytes) {
    tenon_blob_t* out = nullptr;
    return graph_api().blob_bytes(graph_api().self, data, size_bytes, &out) == TENON_OK ? Blob(out)
                                                                                        : Blob();
  }
  // The caller's bytes where they are; `release` gets `context` once, also on failure: see
  // tenon_host_graph_t::blob_foreign.
  static Blob foreign(const void* data, uint64_t size_bytes, void* context,
                      void (*release)(void* context)) {
    if (graph_api().size_bytes <= offsetof(tenon_host_graph_t, blob_foreign)) {  // an older host
      Blob copy = bytes(data, size_bytes);
      if (release != nullptr) release(context);
      return copy;
    }
    tenon_blob_t* out = nullptr;
    return graph_api().blob_foreign(graph_api().self, data, size_bytes, context, release, &out) ==
                   TENON_OK
               ? Blob(out)
               : Blob();
  }
  tenon_blob_t* get() const { return blob_; }
  tenon_blob_t* release() { return std::exchange(blob_, nullptr); }
  explicit operator bool() const { return blob_ != nullptr; }

 private:
  tenon_blob_t* blob_ = nullptr;
};

// The bytes of a blob, expanded or mapped on first use; empty on failure (the host keeps the
// reason).
inline std::span<const std::byte> blob_bytes(tenon_blob_t* blob) {
  const void* data = nullptr;
  uint64_t size = 0;
  if (blob == nullptr || graph_api().blob_data(graph_api().self, blob, &data, &size) != TENON_OK)
    return {};
  return {static_cast<const std::byte*>(data), size};
}

// ---- Values, nodes, regions ----
class Node;

class Value {
 public:
  Value() = default;
  Value(tenon_graph_t* graph, tenon_value_t id) : graph_(graph), id_(id) {}
  tenon_value_t id() const { return id_; }
  tenon_graph_t* graph() const { return graph_; }
  bool valid() const { return id_ != TENON_NONE; }
  explicit operator bool() const { return valid(); }
  friend bool operator==(Value a, Value b) { return a.id_ == b.id_; }

  // Zeroed for an invalid value.
  tenon_value_view_t view() const {
    auto out = sized<tenon_value_view_t>();
    out.node = TENON_NONE;
    if (valid() && graph_api().value_view(graph_api().self, graph_, id_, &out) != TENON_OK) {
      out = {};
      out.node = TENON_NONE;
    }
    return out;
  }
  TypeView type() const { return TypeView(graph_, view().type); }
  tenon_dtype_t dtype() const { return view().type.dtype; }
  uint32_t rank() const { return view().type.rank; }
  Dim dim(uint32_t i) const { return type().dim(i); }
  Dims dims() const { return type().dims(); }
  uint32_t use_count() const { return view().use_count; }
  bool is_constant() const { return view().kind == TENON_VALUE_CONSTANT; }
  tenon_blob_t* blob() const { return view().blob; }  // borrowed; null unless constant
  inline Node node() const;  // the defining node, invalid for arguments and constants
  std::span<const tenon_use_t> uses() const {
    const tenon_use_t* uses = nullptr;
    uint32_t count = 0;
    if (!valid() ||
        graph_api().value_uses(graph_api().self, graph_, id_, &uses, &count) != TENON_OK)
      return {};
    return {uses, count};
  }

 private:
  tenon_graph_t* graph_ = nullptr;
  tenon_value_t id_ = TENON_NONE;
};

class Node {
 public:
  Node() = default;
  Node(tenon_graph_t* graph, tenon_node_t id) : graph_(graph), id_(id) {}
  tenon_node_t id() const { return id_; }
  tenon_graph_t* graph() const { return graph_; }
  bool valid() const { return id_ != TENON_NONE; }
  explicit operator bool() const { return valid(); }
  bool erased() const { return view().parent == TENON_NONE; }

  // Read again at each call (about a nanosecond), so that a node can be read while its graph is
  // built. Pointers in the view are borrowed until the graph's next mutation. Zeroed for an invalid
  // node.
  tenon_node_view_t view() const {
    auto out = sized<tenon_node_view_t>();
    out.parent = TENON_NONE;
    if (valid() && graph_api().node_view(graph_api().self, graph_, id_, &out) != TENON_OK) {
      out = {};
      out.parent = TENON_NONE;
    }
    return out;
  }
  std::string_view op() const { return valid() ? sym_text(view().op) : std::string_view(); }
  bool is(std::string_view name) const { return op() == name; }
  uint32_t operand_count() const { return view().operand_count; }
  uint32_t result_count() const { return view().result_count; }
  // Invalid beyond the end, and for an absent optional operand.
  Value operand(uint32_t i) const {
    const tenon_node_view_t v = view();
    return i < v.operand_count ? Value(graph_, v.operands[i]) : Value(graph_, TENON_NONE);
  }
  std::vector<Value> operands() const {
    const tenon_node_view_t v = view();
    std::vector<Value> out;
    for (uint32_t i = 0; i < v.operand_count; ++i) out.push_back(Value(graph_, v.operands[i]));
    return out;
  }
  Value result(uint32_t i = 0) const {
    const tenon_node_view_t v = view();
    return i < v.result_count ? Value(graph_, v.results[i]) : Value(graph_, TENON_NONE);
  }

  // Borrowed until the graph's next mutation.
  const tenon_attr_t* attr(std::string_view name) const {
    const tenon_node_view_t v = view();
    for (uint32_t i = 0; i < v.attr_count; ++i) {
      if (sym_text(v.attrs[i].name) == name) return &v.attrs[i];
    }
    return nullptr;
  }
  // Built nodes always carry all attributes with their defaults. An attribute that the op does not
  // declare reads as the zero of its kind.
  int64_t i64(std::string_view name) const {
    const tenon_attr_t* a = attr(name);
    return a != nullptr ? a->u.i : 0;
  }
  double f64(std::string_view name) const {
    const tenon_attr_t* a = attr(name);
    return a != nullptr ? a->u.f : 0;
  }
  tenon_dtype_t dtype(std::string_view name) const { return static_cast<tenon_dtype_t>(i64(name)); }
  std::string text(std::string_view name) const {
    const tenon_attr_t* a = attr(name);
    return a != nullptr ? std::string(tenon::view(a->u.s)) : std::string();
  }
  std::vector<int64_t> i64s(std::string_view name) const {
    const tenon_attr_t* a = attr(name);
    return a != nullptr ? std::vector<int64_t>(a->u.is, a->u.is + a->count)
                        : std::vector<int64_t>();
  }
  std::vector<double> f64s(std::string_view name) const {
    const tenon_attr_t* a = attr(name);
    return a != nullptr ? std::vector<double>(a->u.fs, a->u.fs + a->count) : std::vector<double>();
  }
  Dims dims(std::string_view name) const {
    Dims out;
    if (const tenon_attr_t* a = attr(name)) {
      for (uint64_t i = 0; i < a->count; ++i) out.push_back(Dim(graph_, a->u.dims[i]));
    }
    return out;
  }

 private:
  tenon_graph_t* graph_ = nullptr;
  tenon_node_t id_ = TENON_NONE;
};

inline Node Value::node() const {
  return Node(graph_, view().node);
}

class Region {
 public:
  Region() = default;
  Region(tenon_graph_t* graph, tenon_region_t id) : graph_(graph), id_(id) {}
  tenon_region_t id() const { return id_; }
  tenon_graph_t* graph() const { return graph_; }
  bool valid() const { return id_ != TENON_NONE; }
  explicit operator bool() const { return valid(); }
  // Zeroed for an invalid region.
  tenon_region_view_t view() const {
    auto out = sized<tenon_region_view_t>();
    if (!valid() || graph_api().region_view(graph_api().self, graph_, id_, &out) != TENON_OK)
      out = {};
    return out;
  }
  // Snapshots: safe to iterate while the graph changes.
  std::vector<Node> nodes() const {
    std::vector<Node> out;
    for (tenon_node_t id : node_ids()) out.push_back(Node(graph_, id));
    return out;
  }
  std::vector<tenon_node_t> node_ids() const {
    const tenon_region_view_t v = view();
    return {v.nodes, v.nodes + v.node_count};
  }
  std::vector<Value> arguments() const {
    const tenon_region_view_t v = view();
    return wrap(v.arguments, v.argument_count);
  }
  std::vector<Value> yields() const {
    const tenon_region_view_t v = view();
    return wrap(v.yields, v.yield_count);
  }

 private:
  std::vector<Value> wrap(const tenon_value_t* ids, uint32_t count) const {
    std::vector<Value> out;
    for (uint32_t i = 0; i < count; ++i) out.push_back(Value(graph_, ids[i]));
    return out;
  }
  tenon_graph_t* graph_ = nullptr;
  tenon_region_t id_ = TENON_NONE;
};

}  // namespace tenon::inline sdk

#endif
