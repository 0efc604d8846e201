// The C table over ir::Graph: checks arguments, converts, records failures.
#include "core/ir/host_graph.h"

#include <tenon/abi/inspect.h>

#include <memory>
#include <utility>

#include "core/base/errors/guard.h"
#include "core/base/intern.h"
#include "core/base/limits.h"
#include "core/base/record.h"
#include "core/ir/graph.h"
#include "core/ir/serial/serial.h"

namespace tenon::ir {
namespace {

using tenon::guarded;  // for a Status; the overload for a Result, whose value goes to *out, follows

template <typename F, typename T>
tenon_code_t guarded(F&& body, T* out) {
  return tenon::guarded([&]() -> Status {
    TENON_ASSIGN_OR_RETURN(*out, body());
    return {};
  });
}

// Runs `view`, which fills a record of this host's size, and gives the caller as much of it as
// fits.
template <typename Record, typename F>
tenon_code_t viewed(Record* out, F&& view) {
  return guarded([&]() -> Status {
    Record full;
    TENON_RETURN_IF_ERROR(view(&full));
    return give_record(out, full);
  });
}

Graph& graph_of(tenon_graph_t* graph) {
  return *Graph::from(graph);
}
Place place_of(const tenon_builder_t* b) {
  return {b->region, b->before};
}
template <typename T>
std::span<const T> span_of(const T* data, uint64_t count) {
  return {data, static_cast<size_t>(data == nullptr ? 0 : count)};
}

// ---- Lifetime ----

tenon_code_t create(void*, tenon_str_t name, tenon_graph_t** out) {
  return guarded([&]() -> Status {
    TENON_RETURN_IF_ERROR(check_limit(Limit::kNameBytes, name.size, "a graph's name"));
    *out = Graph::create(from_abi_str(name)).detach()->abi();
    return {};
  });
}
void retain(void*, tenon_graph_t* g) {
  graph_of(g).retain();
}
void release(void*, tenon_graph_t* g) {
  if (g != nullptr) graph_of(g).release();
}
tenon_code_t clone(void*, tenon_graph_t* g, tenon_graph_t** out) {
  return guarded([&]() -> Status {
    *out = graph_of(g).clone().detach()->abi();
    return {};
  });
}
void freeze(void*, tenon_graph_t* g) {
  guarded_void([&] { graph_of(g).freeze(); });
}
tenon_code_t verify(void*, tenon_graph_t* g) {
  return guarded([&] { return graph_of(g).verify(); });
}

// ---- Views ----

tenon_code_t graph_view(void*, tenon_graph_t* g, tenon_graph_view_t* out) {
  return viewed(out, [&](auto* full) { return graph_of(g).view(full); });
}
tenon_code_t node_view(void*, tenon_graph_t* g, tenon_node_t n, tenon_node_view_t* out) {
  return viewed(out, [&](auto* full) { return graph_of(g).view_node(n, full); });
}
tenon_code_t value_view(void*, tenon_graph_t* g, tenon_value_t v, tenon_value_view_t* out) {
  return viewed(out, [&](auto* full) { return graph_of(g).view_value(v, full); });
}
tenon_code_t region_view(void*, tenon_graph_t* g, tenon_region_t r, tenon_region_view_t* out) {
  return viewed(out, [&](auto* full) { return graph_of(g).view_region(r, full); });
}
tenon_code_t value_uses(void*, tenon_graph_t* g, tenon_value_t v, const tenon_use_t** out,
                        uint32_t* out_count) {
  return guarded([&]() -> Status {
    const Graph& graph = graph_of(g);
    if (!graph.value_live(v))
      return error(TENON_INVALID_ARGUMENT, "T0301", "there is no value {} in this graph", v);
    *out = graph.uses(v).data();
    *out_count = static_cast<uint32_t>(graph.uses(v).size());
    return {};
  });
}

// ---- Structure ----

tenon_code_t argument_add(void*, tenon_graph_t* g, tenon_region_t r, const tenon_type_t* type,
                          tenon_str_t name, tenon_value_t* out) {
  return guarded([&] { return graph_of(g).add_argument(r, *type, from_abi_str(name)); }, out);
}
tenon_code_t region_yield(void*, tenon_graph_t* g, tenon_region_t r, const tenon_value_t* values,
                          uint32_t count, const tenon_str_t* names) {
  return guarded([&] {
    std::vector<std::string_view> views;
    for (uint32_t i = 0; names != nullptr && i < count; ++i)
      views.push_back(from_abi_str(names[i]));
    return graph_of(g).set_yields(r, span_of(values, count), views);
  });
}
tenon_code_t main_set(void*, tenon_graph_t* g, tenon_region_t r, const tenon_str_t* names) {
  return guarded([&]() -> Status {
    const size_t count = graph_of(g).region_live(r) ? graph_of(g).region(r).yields.size() : 0;
    std::vector<std::string_view> views;
    for (size_t i = 0; names != nullptr && i < count; ++i) views.push_back(from_abi_str(names[i]));
    return graph_of(g).set_main(r, views);
  });
}
tenon_code_t node_replace(void*, tenon_graph_t* g, tenon_node_t from, tenon_node_t to,
                          const uint32_t* results) {
  return guarded([&] {
    const Graph& graph = graph_of(g);
    const size_t count = graph.node_live(from) ? graph.results(from).size() : 0;
    return graph_of(g).replace_node(from, to, span_of(results, count));
  });
}
tenon_code_t region_begin(void*, const tenon_builder_t* b, tenon_region_t* out) {
  return guarded([&] { return graph_of(b->graph).begin_region(place_of(b)); }, out);
}
tenon_code_t region_clone(void*, const tenon_builder_t* b, tenon_graph_t* from, tenon_region_t r,
                          const tenon_value_t* values, uint32_t count, tenon_value_t* out_yields) {
  return guarded([&]() -> Status {
    const Graph& source = graph_of(from);
    const size_t yields = source.region_live(r) ? source.region(r).yields.size() : 0;
    std::vector<Value> made(yields);
    TENON_RETURN_IF_ERROR(
        graph_of(b->graph).clone_region(place_of(b), source, r, span_of(values, count), made));
    std::copy(made.begin(), made.end(), out_yields);
    return {};
  });
}
tenon_code_t node_build(void*, const tenon_builder_t* b, const tenon_node_spec_t* spec,
                        tenon_node_t* out) {
  return guarded(
      [&] {
        const NodeDraft draft{spec->op,
                              spec->op_version,
                              spec->loc != 0 ? spec->loc : b->loc,
                              span_of(spec->operands, spec->operand_count),
                              span_of(spec->attrs, spec->attr_count),
                              span_of(spec->regions, spec->region_count),
                              span_of(spec->result_types, spec->result_type_count)};
        return graph_of(b->graph).build(place_of(b), draft);
      },
      out);
}
tenon_code_t constant(void*, tenon_graph_t* g, const tenon_type_t* type, tenon_blob_t* blob,
                      tenon_value_t* out) {
  return guarded(
      [&] { return graph_of(g).add_constant(*type, Ref<Blob>::share(Blob::from(blob))); }, out);
}
tenon_code_t value_name(void*, tenon_graph_t* g, tenon_value_t v, tenon_str_t name) {
  return guarded([&] { return graph_of(g).set_name(v, from_abi_str(name)); });
}
tenon_code_t value_replace(void*, tenon_graph_t* g, tenon_value_t from, tenon_value_t to) {
  return guarded([&] { return graph_of(g).replace(from, to); });
}
tenon_code_t operand_set(void*, tenon_graph_t* g, tenon_node_t n, uint32_t index, tenon_value_t v) {
  return guarded([&] { return graph_of(g).set_operand(n, index, v); });
}
tenon_code_t node_erase(void*, tenon_graph_t* g, tenon_node_t n) {
  return guarded([&] { return graph_of(g).erase(n); });
}
tenon_code_t node_move(void*, tenon_graph_t* g, tenon_node_t n, tenon_node_t before) {
  return guarded([&] { return graph_of(g).move(n, before); });
}

// ---- Dims and symbols ----

tenon_code_t dim_make(void*, tenon_graph_t* g, uint32_t op, tenon_dim_t a, tenon_dim_t b,
                      tenon_dim_t* out) {
  return guarded([&] { return graph_of(g).make_dim(op, a, b); }, out);
}
tenon_code_t dim_view(void*, tenon_graph_t* g, tenon_dim_t d, tenon_dim_view_t* out) {
  return viewed(out, [&](auto* full) { return graph_of(g).view_dim(d, full); });
}
tenon_code_t dim_compare(void*, tenon_graph_t* g, uint32_t rel, tenon_dim_t a, tenon_dim_t b,
                         uint32_t* out) {
  return guarded([&]() -> Status {
    const DimTable& dims = std::as_const(graph_of(g)).dims();
    if (rel > TENON_REL_DIVISIBLE || !dims.valid(a) || !dims.valid(b)) {
      return error(TENON_INVALID_ARGUMENT, "T0301",
                   "no dims of this graph, or {} is not a relation", rel);
    }
    *out = dims.compare(rel, a, b);
    return {};
  });
}
tenon_code_t dim_evaluate(void*, tenon_graph_t* g, tenon_dim_t d, const int64_t* values,
                          uint32_t count, int64_t* out) {
  return guarded([&]() -> Status {
    int64_t value;
    TENON_RETURN_IF_ERROR(
        std::as_const(graph_of(g)).dims().evaluate(d, span_of(values, count), &value));
    *out = value;
    return {};
  });
}
tenon_code_t symbol_define(void*, tenon_graph_t* g, tenon_region_t r, tenon_str_t name, int64_t lo,
                           int64_t hi, int64_t multiple_of, int64_t hint, tenon_symbol_t* out) {
  return guarded(
      [&] { return graph_of(g).define_symbol(r, from_abi_str(name), lo, hi, multiple_of, hint); },
      out);
}
tenon_code_t symbol_fresh(void*, tenon_graph_t* g, int64_t lo, int64_t hi, int64_t multiple_of,
                          tenon_symbol_t* out) {
  return guarded([&] { return graph_of(g).fresh_symbol(lo, hi, multiple_of); }, out);
}
tenon_code_t symbol_assert(void*, tenon_graph_t* g, uint32_t rel, tenon_dim_t a, tenon_dim_t b) {
  return guarded([&] { return graph_of(g).assert_fact(rel, a, b); });
}
tenon_code_t symbol_view(void*, tenon_graph_t* g, tenon_symbol_t s, tenon_symbol_view_t* out) {
  return viewed(out, [&](auto* full) { return graph_of(g).view_symbol(s, full); });
}

// ---- Locations ----

tenon_code_t loc_make(void*, tenon_graph_t* g, tenon_str_t source, tenon_str_t name, uint32_t line,
                      tenon_loc_t* out) {
  return guarded(
      [&]() -> Result<Loc> {
        TENON_RETURN_IF_ERROR(
            check_limit(Limit::kNameBytes, std::max(source.size, name.size), "a location"));
        return graph_of(g).make_loc(
            Origin{intern(from_abi_str(source)), intern(from_abi_str(name)), line, false});
      },
      out);
}
tenon_code_t loc_fuse(void*, tenon_graph_t* g, const tenon_loc_t* locs, uint32_t count,
                      tenon_loc_t* out) {
  return guarded([&] { return graph_of(g).fuse_locs(span_of(locs, count)); }, out);
}
tenon_code_t loc_text(void*, tenon_graph_t* g, tenon_loc_t loc, const tenon_sink_t* sink) {
  return guarded([&]() -> tenon_code_t {
    const std::string text = graph_of(g).loc_text(loc);
    return sink->write(sink->self, text.data(), text.size());
  });
}

// ---- Blobs ----

tenon_code_t abi_blob_bytes(void*, const void* data, uint64_t size, tenon_blob_t** out) {
  return guarded([&]() -> Status {
    if (size != 0 && data == nullptr)
      return error(TENON_INVALID_ARGUMENT, "T0301", "a blob of {} bytes is made of a null pointer",
                   size);
    TENON_ASSIGN_OR_RETURN(Ref<Blob> blob, blob_bytes({static_cast<const std::byte*>(data), size}));
    *out = blob.detach()->abi();
    return {};
  });
}
tenon_code_t abi_blob_foreign(void*, const void* data, uint64_t size, void* context,
                              void (*release)(void*), tenon_blob_t** out) {
  return guarded([&]() -> Status {
    // Calls the function even if it cannot be made itself.
    std::shared_ptr<void> owner(context, [release](void* c) {
      if (release != nullptr) release(c);
    });
    if (size != 0 && data == nullptr)
      return error(TENON_INVALID_ARGUMENT, "T0301", "a blob of {} bytes is made of a null pointer",
                   size);
    *out = blob_borrowed(data, size, std::move(owner)).detach()->abi();
    return {};
  });
}
tenon_code_t abi_blob_splat(void*, const void* element, uint32_t element_bytes, uint64_t size,
                            tenon_blob_t** out) {
  return guarded([&]() -> Status {
    TENON_ASSIGN_OR_RETURN(
        Ref<Blob> blob, blob_splat({static_cast<const std::byte*>(element), element_bytes}, size));
    *out = blob.detach()->abi();
    return {};
  });
}
tenon_code_t abi_blob_range(void*, tenon_blob_t* parent, uint64_t offset, uint64_t size,
                            tenon_blob_t** out) {
  return guarded([&]() -> Status {
    TENON_ASSIGN_OR_RETURN(Ref<Blob> blob,
                           blob_range(Ref<Blob>::share(Blob::from(parent)), offset, size));
    *out = blob.detach()->abi();
    return {};
  });
}
void blob_retain(void*, tenon_blob_t* b) {
  Blob::from(b)->retain();
}
void blob_release(void*, tenon_blob_t* b) {
  if (b != nullptr) Blob::from(b)->release();
}
tenon_code_t blob_data(void*, tenon_blob_t* b, const void** out, uint64_t* out_size) {
  return guarded([&]() -> Status {
    TENON_ASSIGN_OR_RETURN(*out, Blob::from(b)->data());
    *out_size = Blob::from(b)->size_bytes();
    return {};
  });
}
uint32_t blob_is_splat(void*, tenon_blob_t* b, const void** out_element, uint32_t* out_bytes) {
  const std::span<const std::byte> element = Blob::from(b)->splat_element();
  if (element.empty()) return 0;
  *out_element = element.data();
  *out_bytes = static_cast<uint32_t>(element.size());
  return 1;
}
tenon_code_t blob_digest(void*, tenon_blob_t* b, uint64_t out[2]) {
  return guarded([&]() -> Status {
    TENON_ASSIGN_OR_RETURN(const Digest d, Blob::from(b)->digest());
    out[0] = d.lo;
    out[1] = d.hi;
    return {};
  });
}

// ---- Serial forms ----

tenon_code_t graph_write(void*, tenon_graph_t* g, uint32_t format, const tenon_sink_t* sink) {
  return guarded([&]() -> Status {
    if (format == TENON_FORMAT_TEXT) {
      TENON_ASSIGN_OR_RETURN(const TextForm form, write_text(graph_of(g)));
      return from_abi(sink->write(sink->self, form.text.data(), form.text.size()),
                      "the sink of a graph's text");
    }
    if (format == TENON_FORMAT_SIDECAR) {
      TENON_ASSIGN_OR_RETURN(const TextForm form, write_text(graph_of(g)));
      TENON_ASSIGN_OR_RETURN(const std::string bytes, sidecar_bytes(form));
      if (bytes.empty()) return {};
      return from_abi(sink->write(sink->self, bytes.data(), bytes.size()),
                      "the sink of a graph's constants");
    }
    if (format == TENON_FORMAT_BINARY) {
      TENON_ASSIGN_OR_RETURN(const std::string bytes, write_binary(graph_of(g)));
      return from_abi(sink->write(sink->self, bytes.data(), bytes.size()),
                      "the sink of a graph's bytes");
    }
    if (format == TENON_FORMAT_ELIDED || format == TENON_FORMAT_JSON) {
      const bool json = format == TENON_FORMAT_JSON;
      TENON_ASSIGN_OR_RETURN(const std::string text,
                             json ? write_json(graph_of(g)) : write_elided(graph_of(g)));
      return from_abi(sink->write(sink->self, text.data(), text.size()), "the sink of a graph");
    }
    if (format == TENON_FORMAT_NUMBERED) {
      TENON_ASSIGN_OR_RETURN(const std::string text, write_numbered(graph_of(g)));
      return from_abi(sink->write(sink->self, text.data(), text.size()), "the sink of a graph");
    }
    return error(TENON_INVALID_ARGUMENT, "T0301", "{} is not a form of graphs", format);
  });
}
tenon_code_t graph_read(void*, tenon_blob_t* bytes, tenon_str_t name, tenon_blob_t* sidecar,
                        tenon_graph_t** out) {
  return guarded([&]() -> Status {
    TENON_ASSIGN_OR_RETURN(Ref<Graph> graph,
                           read_graph(Ref<Blob>::share(Blob::from(bytes)), from_abi_str(name),
                                      Ref<Blob>::share(Blob::from(sidecar))));
    *out = graph.detach()->abi();
    return {};
  });
}
tenon_code_t graph_hash(void*, tenon_graph_t* g, uint64_t out[2]) {
  return guarded([&]() -> Status {
    TENON_ASSIGN_OR_RETURN(const Digest d, graph_of(g).structural_hash());
    out[0] = d.lo;
    out[1] = d.hi;
    return {};
  });
}

constexpr tenon_host_graph_t kTable = {
    .size_bytes = sizeof(tenon_host_graph_t),
    .self = nullptr,
    .create = create,
    .retain = retain,
    .release = release,
    .clone = clone,
    .freeze = freeze,
    .verify = verify,
    .graph_view = graph_view,
    .node_view = node_view,
    .value_view = value_view,
    .region_view = region_view,
    .value_uses = value_uses,
    .argument_add = argument_add,
    .region_yield = region_yield,
    .region_begin = region_begin,
    .region_clone = region_clone,
    .node_build = node_build,
    .constant = constant,
    .value_name = value_name,
    .value_replace = value_replace,
    .operand_set = operand_set,
    .node_erase = node_erase,
    .node_move = node_move,
    .dim_make = dim_make,
    .dim_view = dim_view,
    .dim_compare = dim_compare,
    .dim_evaluate = dim_evaluate,
    .symbol_define = symbol_define,
    .symbol_fresh = symbol_fresh,
    .symbol_assert = symbol_assert,
    .symbol_view = symbol_view,
    .loc_make = loc_make,
    .loc_fuse = loc_fuse,
    .loc_text = loc_text,
    .blob_bytes = abi_blob_bytes,
    .blob_splat = abi_blob_splat,
    .blob_range = abi_blob_range,
    .blob_retain = blob_retain,
    .blob_release = blob_release,
    .blob_data = blob_data,
    .blob_is_splat = blob_is_splat,
    .blob_digest = blob_digest,
    .graph_write = graph_write,
    .graph_read = graph_read,
    .graph_hash = graph_hash,
    .blob_foreign = abi_blob_foreign,
    .main_set = main_set,
    .node_replace = node_replace,
};

}  // namespace

const tenon_host_graph_t* host_graph_table() {
  return &kTable;
}

}  // namespace tenon::ir
