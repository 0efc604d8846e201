#include "tenon/kernelgen/lower/node_form.h"
#include "tenon/cpp/record.hpp"

#include <algorithm>

namespace tenon::kernelgen {
namespace {

class Form {
 public:
  Form(const HostTables& host, tenon_graph_t* graph) : graph_api_(*host.graph), graph_(graph) {}

  bool node(tenon_node_t node) {
    auto n = sized<tenon_node_view_t>();
    if (graph_api_.node_view(graph_api_.self, graph_, node, &n) != TENON_OK ||
        n.region_count != 0 || n.symbol_count != 0)
      return false;
    number(n.op);
    number(n.op_version);
    number(n.operand_count);
    for (uint32_t i = 0; i < n.operand_count; ++i) {
      // Which operands are one value matters too.
      number(std::find(n.operands, n.operands + i, n.operands[i]) - n.operands);
      if (!value(n.operands[i])) return false;
    }
    number(n.result_count);
    for (uint32_t i = 0; i < n.result_count; ++i) {
      if (!value(n.results[i])) return false;
    }
    return std::all_of(n.attrs, n.attrs + n.attr_count,
                       [&](const tenon_attr_t& a) { return attribute(a); });
  }

  std::string take() { return std::move(bytes_); }

 private:
  void raw(const void* data, uint64_t size) {
    if (size != 0) bytes_.append(static_cast<const char*>(data), size);
  }
  void number(int64_t n) { raw(&n, sizeof n); }
  void text(const void* data, uint64_t size) {
    number(static_cast<int64_t>(size));
    raw(data, size);
  }

  void type(const tenon_type_t& t) {
    number(t.dtype);
    number(t.kind);
    number(t.object);
    text(t.dims, t.rank * sizeof *t.dims);
  }

  bool value(tenon_value_t id) {
    number(id == TENON_NONE);
    if (id == TENON_NONE) return true;
    auto v = sized<tenon_value_view_t>();
    if (graph_api_.value_view(graph_api_.self, graph_, id, &v) != TENON_OK) return false;
    number(v.kind == TENON_VALUE_CONSTANT);
    type(v.type);
    return v.kind != TENON_VALUE_CONSTANT || constant(v.blob);
  }

  bool constant(tenon_blob_t* blob) {
    const void* data = nullptr;
    uint32_t element = 0;
    uint64_t size = 0;
    if (graph_api_.blob_is_splat(graph_api_.self, blob, &data, &element)) {
      text(data, element);
      return true;
    }
    if (graph_api_.blob_data(graph_api_.self, blob, &data, &size) != TENON_OK) return false;
    number(static_cast<int64_t>(size));
    if (size <= kMostInlineConstantBytes) raw(data, size);
    return true;
  }

  bool attribute(const tenon_attr_t& a) {
    number(a.name);
    number(a.kind);
    switch (a.kind) {
      case TENON_ATTR_I64:
      case TENON_ATTR_F64:
      case TENON_ATTR_DTYPE:
        number(a.u.i);
        return true;
      case TENON_ATTR_STRING:
        text(a.u.s.data, a.u.s.size);
        return true;
      case TENON_ATTR_I64S:
      case TENON_ATTR_F64S:
      case TENON_ATTR_DIMS:
        text(a.u.is, a.count * sizeof *a.u.is);
        return true;
      case TENON_ATTR_STRINGS:
        number(static_cast<int64_t>(a.count));
        for (uint64_t i = 0; i < a.count; ++i) text(a.u.ss[i].data, a.u.ss[i].size);
        return true;
      case TENON_ATTR_TYPES:
        number(static_cast<int64_t>(a.count));
        for (uint64_t i = 0; i < a.count; ++i) type(a.u.types[i]);
        return true;
      default:
        return false;
    }
  }

  const tenon_host_graph_t& graph_api_;
  tenon_graph_t* graph_;
  std::string bytes_;
};

}  // namespace

std::string node_form(const HostTables& host, tenon_graph_t* graph, tenon_node_t node) {
  Form form(host, graph);
  return form.node(node) ? form.take() : std::string();
}

}  // namespace tenon::kernelgen
