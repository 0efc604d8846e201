// Building graphs: attributes for a node, the builder, and owned graphs.
//
// Failures are sticky and not thrown: an operation on an invalid handle returns an invalid handle,
// and the builder keeps the first code. So a rule is straight-line code with one check at the end:
//
//     Value y = b.build("add", {x, b.build("mul", {x, z})});
//     return b.finish(out, {y});
#ifndef TENON_CPP_BUILDER_HPP_
#define TENON_CPP_BUILDER_HPP_

#include <algorithm>
#include <concepts>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/cpp/value.hpp"

namespace tenon::inline sdk {

// ---- Attributes ----
// An attribute for a node: {"dim", 1}, {"dims", {0, 1}}, {"shape", dims}, {"dtype",
// dtype(TENON_F32)}. Borrows lists and texts until the end of the full expression; a node's own
// list is copied first. Integers become I64, floating-point numbers F64; symbolic lists are Dims.
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
  // Copies an attribute unchanged; borrowed like the view it came from.
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

// The attributes of a node as they are, but for those of these names; borrowed as a view.
inline Attrs attributes_of(const Node& node, std::initializer_list<std::string_view> without = {}) {
  const tenon_node_view_t view = node.view();
  Attrs out;
  for (uint32_t i = 0; i < view.attr_count; ++i) {
    const std::string_view name = sym_text(view.attrs[i].name);
    if (std::find(without.begin(), without.end(), name) == without.end())
      out.push_back(Attr(view.attrs[i]));
  }
  return out;
}

// ---- Building ----
// The type of an argument or a constant.
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
  // Sets the place in the user's file of all following nodes. Errors show it as `source:line:
  // name`, even much later, when a device refuses the node or a run fails there. line 0: unknown;
  // the name may be empty.
  void set_loc(std::string_view source, uint32_t line, std::string_view name = {}) {
    if (status_.ok())
      status_ =
          graph_api().loc_make(graph_api().self, at_.graph, str(source), str(name), line, &at_.loc);
  }
  Status status() const { return status_; }
  Dim dim(int64_t constant) const { return Dim(at_.graph, constant); }

  // Builds one node; invalid after any failure. Operands may be absent (Value()) where the op
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
    auto spec = sized<tenon_node_spec_t>();
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
    if (is_float(dtype) || is_complex(dtype)) {
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

  // Ends a decomposition: returns the results, or the first failure.
  Status finish(tenon_value_t* out_results, std::initializer_list<Value> results) {
    return finish(out_results, std::span<const Value>(results.begin(), results.size()));
  }
  Status finish(tenon_value_t* out_results, std::span<const Value> results) {
    if (!status_.ok()) return status_;
    for (Value v : results) *out_results++ = v.id();
    return {};
  }
  // Takes over a failure from elsewhere.
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
  auto out = sized<tenon_graph_view_t>();
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
// Copies the body of a region to `at`. arguments, captures: what stands for those of the region;
// without captures they stand for themselves. Appends what the copy yields.
inline Status clone_region(Builder& at, Region from, std::span<const Value> arguments,
                           std::vector<Value>* yields, std::span<const Value> captures = {}) {
  TENON_TRY(at.status());
  const tenon_region_view_t view = from.view();
  std::vector<tenon_value_t> values;
  for (const Value v : arguments) values.push_back(v.id());
  for (const Value v : captures) values.push_back(v.id());
  if (captures.empty())
    values.insert(values.end(), view.captures, view.captures + view.capture_count);
  std::vector<tenon_value_t> made(view.yield_count, TENON_NONE);
  TENON_TRY(graph_api().region_clone(graph_api().self, &at.raw(), from.graph(), from.id(),
                                     values.data(), static_cast<uint32_t>(values.size()),
                                     made.data()));
  for (const tenon_value_t id : made) yields->push_back(Value(at.graph(), id));
  return {};
}
inline Status replace(Value from, Value to) {
  return graph_api().value_replace(graph_api().self, from.graph(), from.id(), to.id());
}
inline Status erase(const Node& node) {
  return graph_api().node_erase(graph_api().self, node.graph(), node.id());
}

}  // namespace tenon::inline sdk

#endif
