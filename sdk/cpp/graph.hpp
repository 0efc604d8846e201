// Graphs in C++: cheap typed handles over tenon.host.graph/1, a builder, and patterns.
//
// Handles are indices with their graph: copy them freely; they are good as long as the graph is.
// Failures are sticky instead of thrown: an operation on an invalid handle gives an invalid handle,
// and the builder keeps the first code, so a rule is written straight on and asks once:
//
//     Value y = b.build("add", {x, b.build("mul", {x, z})});
//     return b.finish(out, {y});
//
// Threads: as the graph: one at a time, a frozen graph for all.
#ifndef TENON_CPP_GRAPH_HPP_
#define TENON_CPP_GRAPH_HPP_

#include <cstring>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tenon/abi/graph.h"
#include "tenon/cpp/dtype.hpp"
#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/status.hpp"

namespace tenon::inline sdk {

inline const tenon_host_graph_t& graph_api() {
  return *context().graph;
}

// ---- Dims
// ------------------------------------------------------------------------------------------------------

// A symbolic or constant extent. Arithmetic that fails (overflow, division by zero) gives an
// invalid dim, which every later use refuses; the host keeps the reason.
class Dim {
 public:
  constexpr Dim() = default;
  constexpr Dim(int64_t constant) : raw_(constant < 0 ? kInvalid : constant) {}
  constexpr Dim(tenon_graph_t* graph, tenon_dim_t raw) : graph_(graph), raw_(raw) {}

  constexpr tenon_dim_t raw() const { return raw_; }
  constexpr tenon_graph_t* graph() const { return graph_; }
  constexpr bool valid() const { return raw_ != kInvalid; }
  constexpr bool is_constant() const { return raw_ >= 0; }
  constexpr bool is(int64_t constant) const { return constant >= 0 && raw_ == constant; }
  constexpr int64_t constant() const { return raw_; }  // only when is_constant()

  // Identity of the expression: true means provably equal, false means not known from that alone.
  friend constexpr bool operator==(Dim a, Dim b) { return a.raw_ == b.raw_; }

  friend Dim operator+(Dim a, Dim b) { return make(TENON_DIM_ADD, a, b); }
  friend Dim operator-(Dim a, Dim b) { return make(TENON_DIM_SUB, a, b); }
  friend Dim operator*(Dim a, Dim b) { return make(TENON_DIM_MUL, a, b); }
  friend Dim operator/(Dim a, Dim b) { return make(TENON_DIM_FLOORDIV, a, b); }  // floor
  friend Dim operator%(Dim a, Dim b) { return make(TENON_DIM_MOD, a, b); }
  friend Dim min(Dim a, Dim b) { return make(TENON_DIM_MIN, a, b); }
  friend Dim max(Dim a, Dim b) { return make(TENON_DIM_MAX, a, b); }

  static Dim make(uint32_t op, Dim a, Dim b) {
    if (!a.valid() || !b.valid()) return invalid();
    tenon_graph_t* graph = a.graph_ != nullptr ? a.graph_ : b.graph_;
    if (graph == nullptr) return invalid();  // two bare constants: give one of them a graph
    tenon_dim_t out = 0;
    const tenon_code_t code =
        graph_api().dim_make(graph_api().self, graph, op, a.raw_, b.raw_, &out);
    return code == TENON_OK ? Dim(graph, out) : invalid();
  }
  static constexpr Dim invalid() { return Dim(nullptr, kInvalid); }

 private:
  static constexpr tenon_dim_t kInvalid = std::numeric_limits<int64_t>::min();
  tenon_graph_t* graph_ = nullptr;
  tenon_dim_t raw_ = kInvalid;
};

using Dims = std::vector<Dim>;

// TENON_NO, TENON_YES or TENON_MAYBE.
inline uint32_t compare(uint32_t rel, Dim a, Dim b) {
  if (!a.valid() || !b.valid()) return TENON_MAYBE;
  if (rel == TENON_REL_EQ && a == b) return TENON_YES;
  tenon_graph_t* graph = a.graph() != nullptr ? a.graph() : b.graph();
  if (graph == nullptr) {
    const int64_t x = a.constant(), y = b.constant();
    switch (rel) {
      case TENON_REL_EQ:
        return x == y ? TENON_YES : TENON_NO;
      case TENON_REL_LT:
        return x < y ? TENON_YES : TENON_NO;
      case TENON_REL_LE:
        return x <= y ? TENON_YES : TENON_NO;
      default:
        return y != 0 && x % y == 0 ? TENON_YES : TENON_NO;
    }
  }
  uint32_t answer = TENON_MAYBE;
  graph_api().dim_compare(graph_api().self, graph, rel, a.raw(), b.raw(), &answer);
  return answer;
}
inline bool surely_equal(Dim a, Dim b) {
  return compare(TENON_REL_EQ, a, b) == TENON_YES;
}

// ---- Types
// -----------------------------------------------------------------------------------------------------

// A borrowed type with its graph, so that its dims can be computed with.
class TypeView {
 public:
  TypeView() = default;
  TypeView(tenon_graph_t* graph, const tenon_type_t& type) : graph_(graph), type_(type) {}
  const tenon_type_t& raw() const { return type_; }
  tenon_dtype_t dtype() const { return type_.dtype; }
  uint16_t kind() const { return type_.kind; }
  uint32_t rank() const { return type_.rank; }
  Dim dim(uint32_t i) const { return Dim(graph_, type_.dims[i]); }
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
  // Product of the dims; invalid when it overflows.
  Dim element_count() const {
    Dim count(graph_, 1);
    for (uint32_t i = 0; i < type_.rank; ++i) count = count * dim(i);
    return count;
  }
  // Same element type and dims that are provably equal.
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

// ---- Blobs
// -----------------------------------------------------------------------------------------------------

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

// ---- Attributes
// --------------------------------------------------------------------------------------------------

// An attribute on its way into a node: {"dim", 1}, {"dims", {0, 1}}, {"shape", dims}, {"dtype",
// dtype(TENON_F32)}. Borrows lists and texts until the end of the full expression; a node's own
// list is copied first. Whole numbers become I64, floating ones F64; symbolic lists are Dims.
struct DType {
  tenon_dtype_t value;
};
inline DType dtype(tenon_dtype_t value) {
  return {value};
}

class Attr {
 public:
  template <std::integral T>
  Attr(std::string_view name, T value) : Attr(name, TENON_ATTR_I64, 1) {
    attr_.u.i = static_cast<int64_t>(value);
  }
  Attr(std::string_view name, double value) : Attr(name, TENON_ATTR_F64, 1) { attr_.u.f = value; }
  Attr(std::string_view name, DType value) : Attr(name, TENON_ATTR_DTYPE, 1) {
    attr_.u.i = value.value;
  }
  Attr(std::string_view name, std::string_view value) : Attr(name, TENON_ATTR_STRING, 1) {
    attr_.u.s = str(value);
  }
  Attr(std::string_view name, const char* value) : Attr(name, std::string_view(value)) {}
  Attr(std::string_view name, std::initializer_list<int64_t> values)
      : Attr(name, std::span<const int64_t>(values.begin(), values.size())) {}
  Attr(std::string_view name, const std::vector<int64_t>& values)
      : Attr(name, std::span<const int64_t>(values)) {}
  Attr(std::string_view name, std::span<const int64_t> values)
      : Attr(name, TENON_ATTR_I64S, values.size()) {
    attr_.u.is = values.data();
  }
  Attr(std::string_view name, const std::vector<double>& values)
      : Attr(name, TENON_ATTR_F64S, values.size()) {
    attr_.u.fs = values.data();
  }
  Attr(std::string_view name, const Dims& values) : Attr(name, TENON_ATTR_DIMS, values.size()) {
    dims_.reserve(values.size());
    for (Dim d : values) dims_.push_back(d.raw());
  }
  // Copies an attribute as it is; borrowed like the view it came from.
  explicit Attr(const tenon_attr_t& attr) : attr_(attr) {}

  tenon_attr_t raw() const {
    tenon_attr_t out = attr_;
    if (!dims_.empty()) out.u.dims = dims_.data();
    return out;
  }

 private:
  Attr(std::string_view name, uint32_t kind, uint64_t count) {
    attr_.name = intern(name);
    attr_.kind = kind;
    attr_.count = count;
  }
  tenon_attr_t attr_ = {};
  std::vector<tenon_dim_t> dims_;
};
using Attrs = std::vector<Attr>;

// ---- Values, nodes, regions
// -----------------------------------------------------------------------------------------

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

  // All of it; a zeroed view for an invalid value.
  tenon_value_view_t view() const {
    tenon_value_view_t out = {};
    out.size_bytes = sizeof out;
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
    if (graph_api().value_uses(graph_api().self, graph_, id_, &uses, &count) != TENON_OK) return {};
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

  // Asked anew at each call (about a nanosecond), so that a node may be read while its graph is
  // built; what the view points to is borrowed until the graph's next mutation. Zeroed for an
  // invalid node.
  tenon_node_view_t view() const {
    tenon_node_view_t out = {};
    out.size_bytes = sizeof out;
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
  // Invalid beyond the end and for an absent optional operand.
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
  // Attributes always carry their defaults once built, so an absent one gives the zero of its kind.
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
  tenon_region_view_t view() const {
    tenon_region_view_t out = {};
    out.size_bytes = sizeof out;
    if (graph_api().region_view(graph_api().self, graph_, id_, &out) != TENON_OK) out = {};
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

// ---- Building
// ---------------------------------------------------------------------------------------------------------

// A type to give to an argument or a constant.
struct Type {
  tenon_dtype_t dtype = TENON_DTYPE_NONE;
  Dims dims;
};

class Builder {
 public:
  explicit Builder(const tenon_builder_t& at) : at_(at) {}
  // Appends to a region.
  Builder(tenon_graph_t* graph, tenon_region_t region) : at_{graph, region, TENON_NONE, 0} {}
  // Before a node, with its location.
  static Builder before(const Node& node) {
    const tenon_node_view_t v = node.view();
    return Builder(tenon_builder_t{node.graph(), v.parent, node.id(), v.loc});
  }

  tenon_graph_t* graph() const { return at_.graph; }
  const tenon_builder_t& raw() const { return at_; }
  void set_loc(tenon_loc_t loc) { at_.loc = loc; }
  Status status() const { return status_; }
  Dim dim(int64_t constant) const { return Dim(at_.graph, constant); }

  // Builds one node; invalid once anything failed. Operands may be absent (Value()) where the op
  // allows it.
  Node build_node(std::string_view op, std::span<const Value> operands,
                  std::span<const Attr> attrs = {}, std::span<const Region> regions = {}) {
    if (!status_.ok()) return Node(at_.graph, TENON_NONE);
    std::vector<tenon_value_t> operand_ids;
    for (Value v : operands) operand_ids.push_back(v.id());
    std::vector<tenon_attr_t> raw_attrs;
    for (const Attr& a : attrs) raw_attrs.push_back(a.raw());
    std::vector<tenon_region_t> region_ids;
    for (Region r : regions) region_ids.push_back(r.id());
    tenon_node_spec_t spec = {};
    spec.size_bytes = sizeof spec;
    spec.op = intern(op);
    spec.operands = operand_ids.data();
    spec.operand_count = static_cast<uint32_t>(operand_ids.size());
    spec.attrs = raw_attrs.data();
    spec.attr_count = static_cast<uint32_t>(raw_attrs.size());
    spec.regions = region_ids.data();
    spec.region_count = static_cast<uint32_t>(region_ids.size());
    tenon_node_t out = TENON_NONE;
    status_ = graph_api().node_build(graph_api().self, &at_, &spec, &out);
    return Node(at_.graph, status_.ok() ? out : TENON_NONE);
  }
  // The usual case: the first result.
  Value build(std::string_view op, std::initializer_list<Value> operands,
              std::initializer_list<Attr> attrs = {}) {
    return build_node(op, std::span<const Value>(operands.begin(), operands.size()),
                      std::span<const Attr>(attrs.begin(), attrs.size()))
        .result(0);
  }
  Value build(std::string_view op, const std::vector<Value>& operands,
              std::initializer_list<Attr> attrs = {}) {
    return build_node(op, operands, std::span<const Attr>(attrs.begin(), attrs.size())).result(0);
  }

  // A constant from bytes in element order; dims must be static.
  Value constant(tenon_dtype_t dtype, std::span<const int64_t> dims, const void* data,
                 uint64_t size_bytes) {
    if (!status_.ok()) return Value();
    tenon_blob_t* blob = nullptr;
    status_ = graph_api().blob_bytes(graph_api().self, data, size_bytes, &blob);
    return attach_constant(dtype, dims, Blob(blob));
  }
  Value constant(tenon_dtype_t dtype, std::span<const int64_t> dims, tenon_blob_t* blob) {
    return status_.ok() ? attach_constant(dtype, dims, Blob::retain(blob)) : Value();
  }
  // One number as a rank-0 constant.
  Value scalar(tenon_dtype_t dtype, double value) {
    std::byte element[16] = {};
    store_double(dtype, element, value);
    return constant(dtype, {}, element, dtype_bytes(dtype));
  }
  Value scalar_int(tenon_dtype_t dtype, int64_t value) {
    std::byte element[16] = {};
    if (is_float(dtype)) {
      store_double(dtype, element, static_cast<double>(value));
    } else {
      store_int(dtype, element, value);
    }
    return constant(dtype, {}, element, dtype_bytes(dtype));
  }
  // A 1-D i64 constant.
  Value vector(std::span<const int64_t> values) {
    const int64_t count = static_cast<int64_t>(values.size());
    return constant(TENON_I64, {&count, 1}, values.data(), values.size_bytes());
  }
  // `value` broadcast to the dims of `like`, which may be symbolic.
  Value full_like(Value like, double value) { return full(like.dtype(), like.dims(), value); }
  Value full(tenon_dtype_t dtype, const Dims& dims, double value) {
    return splat(scalar(dtype, value), dims);
  }
  // A rank-0 value broadcast to dims.
  Value splat(Value scalar, const Dims& dims) {
    if (dims.empty()) return scalar;
    return build("broadcast", {scalar}, {{"shape", dims}});
  }
  // Operand dim i becomes result dim dims[i].
  Value broadcast(Value x, const Dims& shape, std::span<const int64_t> dims) {
    return build("broadcast", {x}, {{"shape", shape}, {"dims", dims}});
  }
  Value convert(Value x, tenon_dtype_t to) {
    return x.dtype() == to ? x : build("convert", {x}, {{"dtype", dtype(to)}});
  }

  // Ends a decomposition: hands over the results, or the first failure.
  Status finish(tenon_value_t* out_results, std::initializer_list<Value> results) {
    return finish(out_results, std::span<const Value>(results.begin(), results.size()));
  }
  Status finish(tenon_value_t* out_results, std::span<const Value> results) {
    if (!status_.ok()) return status_;
    for (Value v : results) *out_results++ = v.id();
    return {};
  }
  // Makes the failure of something else this builder's.
  void note(Status status) {
    if (status_.ok()) status_ = status;
  }

 private:
  Value attach_constant(tenon_dtype_t dtype, std::span<const int64_t> dims, Blob blob) {
    if (!status_.ok()) return Value();
    tenon_type_t type = {};
    type.dtype = dtype;
    type.kind = TENON_KIND_TENSOR;
    type.rank = static_cast<uint32_t>(dims.size());
    type.dims = dims.data();
    tenon_value_t out = TENON_NONE;
    status_ = graph_api().constant(graph_api().self, at_.graph, &type, blob.get(), &out);
    return Value(at_.graph, status_.ok() ? out : TENON_NONE);
  }

  tenon_builder_t at_;
  Status status_;
};

// Owns one reference to a graph.
class Graph {
 public:
  Graph() = default;
  explicit Graph(tenon_graph_t* owned) : graph_(owned) {}
  Graph(Graph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(graph_, other.graph_);
    return *this;
  }
  ~Graph() {
    if (graph_ != nullptr) graph_api().release(graph_api().self, graph_);
  }
  static Graph retain(tenon_graph_t* borrowed) {
    graph_api().retain(graph_api().self, borrowed);
    return Graph(borrowed);
  }
  static Status create(std::string_view name, Graph* out) {
    tenon_graph_t* graph = nullptr;
    TENON_TRY(graph_api().create(graph_api().self, str(name), &graph));
    *out = Graph(graph);
    return {};
  }
  tenon_graph_t* get() const { return graph_; }
  tenon_graph_t* release() { return std::exchange(graph_, nullptr); }

 private:
  tenon_graph_t* graph_ = nullptr;
};

inline tenon_graph_view_t graph_view(tenon_graph_t* graph) {
  tenon_graph_view_t out = {};
  out.size_bytes = sizeof out;
  graph_api().graph_view(graph_api().self, graph, &out);
  return out;
}
inline Region main_region(tenon_graph_t* graph) {
  return Region(graph, graph_view(graph).main);
}

// Appends an argument.
inline Status argument(Region region, const Type& type, std::string_view name, Value* out) {
  std::vector<tenon_dim_t> dims;
  for (Dim d : type.dims) dims.push_back(d.raw());
  tenon_type_t raw = {};
  raw.dtype = type.dtype;
  raw.rank = static_cast<uint32_t>(dims.size());
  raw.dims = dims.data();
  tenon_value_t id = TENON_NONE;
  TENON_TRY(graph_api().argument_add(graph_api().self, region.graph(), region.id(), &raw, str(name),
                                     &id));
  *out = Value(region.graph(), id);
  return {};
}
inline Status yield(Region region, std::span<const Value> values,
                    std::span<const std::string> names = {}) {
  std::vector<tenon_value_t> ids;
  for (Value v : values) ids.push_back(v.id());
  std::vector<tenon_str_t> texts;
  for (const std::string& n : names) texts.push_back(str(n));
  return graph_api().region_yield(graph_api().self, region.graph(), region.id(), ids.data(),
                                  static_cast<uint32_t>(ids.size()),
                                  texts.empty() ? nullptr : texts.data());
}
inline Status replace(Value from, Value to) {
  return graph_api().value_replace(graph_api().self, from.graph(), from.id(), to.id());
}
inline Status erase(const Node& node) {
  return graph_api().node_erase(graph_api().self, node.graph(), node.id());
}

// ---- Reading constants
// --------------------------------------------------------------------------------------------------

// The number that every element equals: a splat constant, a one-element constant, or a broadcast of
// either.
inline std::optional<double> splat_of(Value value) {
  for (Node n = value.node(); n && n.is("broadcast"); n = value.node()) value = n.operand(0);
  const tenon_value_view_t v = value.view();
  if (v.kind != TENON_VALUE_CONSTANT || dtype_bytes(v.type.dtype) == 0) return {};
  if (!is_in(v.type.dtype, kNumber | kPred)) return {};
  const void* element = nullptr;
  uint32_t size = 0;
  if (graph_api().blob_is_splat(graph_api().self, v.blob, &element, &size) == 1 &&
      size == dtype_bytes(v.type.dtype)) {
    return load_double(v.type.dtype, element);
  }
  for (uint32_t i = 0; i < v.type.rank; ++i) {
    if (v.type.dims[i] != 1) return {};
  }
  const auto bytes = blob_bytes(v.blob);
  if (bytes.size() != dtype_bytes(v.type.dtype)) return {};
  return load_double(v.type.dtype, bytes.data());
}

// ---- Patterns
// ----------------------------------------------------------------------------------------------------------

// Small objects that look at a value and may capture. Nested, they match a tree:
//
//     Value x, y;
//     if (match(node, match_op("add", bind(&x), match_op("neg", bind(&y))))) ...
namespace pattern {
struct Bind {
  Value* out;
  bool operator()(Value v) const {
    *out = v;
    return v.valid();
  }
};
struct Any {
  bool operator()(Value v) const { return v.valid(); }
};
struct Same {
  const Value* to;
  bool operator()(Value v) const { return v == *to; }
};
struct Splat {
  double number;
  bool operator()(Value v) const {
    const auto found = splat_of(v);
    return found.has_value() && *found == number;
  }
};
struct SplatAny {
  double* out;
  bool operator()(Value v) const {
    const auto found = splat_of(v);
    if (found) *out = *found;
    return found.has_value();
  }
};
struct Constant {
  Value* out;
  bool operator()(Value v) const {
    *out = v;
    return v.is_constant();
  }
};
template <class Inner>
struct OneUse {
  Inner inner;
  bool operator()(Value v) const { return v.use_count() == 1 && inner(v); }
};
template <bool kEitherOrder, class... Operands>
struct Op {
  std::string_view name;
  Node* out;
  std::tuple<Operands...> operands;
  bool node(const Node& n) const {
    if (!n || !n.is(name) || n.operand_count() != sizeof...(Operands)) return false;
    if (out != nullptr) *out = n;
    if (try_order(n, std::index_sequence_for<Operands...>{})) return true;
    if constexpr (kEitherOrder) {
      return std::get<0>(operands)(n.operand(1)) && std::get<1>(operands)(n.operand(0));
    }
    return false;
  }
  bool operator()(Value v) const { return node(v.node()); }

 private:
  template <size_t... I>
  bool try_order(const Node& n, std::index_sequence<I...>) const {
    return (std::get<I>(operands)(n.operand(I)) && ...);
  }
};
}  // namespace pattern

inline pattern::Bind bind(Value* out) {
  return {out};
}
inline pattern::Any any() {
  return {};
}
inline pattern::Same same(const Value* as) {
  return {as};
}  // equals what was bound before
inline pattern::Splat splat(double number) {
  return {number};
}  // every element is `number`
inline pattern::SplatAny splat(double* out) {
  return {out};
}  // every element is equal
inline pattern::Constant constant(Value* out) {
  return {out};
}
template <class Inner>
pattern::OneUse<Inner> one_use(Inner inner) {
  return {inner};
}
// A value made by op `name` whose operands match in order.
template <class... Operands>
pattern::Op<false, Operands...> match_op(std::string_view name, Operands... operands) {
  return {name, nullptr, {operands...}};
}
// The same, keeping the node for its attributes.
template <class... Operands>
pattern::Op<false, Operands...> match_op(Node* out, std::string_view name, Operands... operands) {
  return {name, out, {operands...}};
}
// Either order of two operands.
template <class A, class B>
pattern::Op<true, A, B> match_commutative(std::string_view name, A a, B b) {
  return {name, nullptr, {a, b}};
}
template <class Pattern>
bool match(const Node& node, const Pattern& pattern) {
  return pattern.node(node);
}

}  // namespace tenon::inline sdk

#endif
