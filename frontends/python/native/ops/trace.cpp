#include "frontends/python/native/ops/trace.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <deque>
#include <memory>

#include "frontends/python/native/host/host.h"
#include "frontends/python/native/ops/ops.h"
#include "tenon/cpp/dtype.hpp"
#include "tenon/cpp/record.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tenon::python {
namespace {

tenon_sym_t intern(const std::string& name) {
  return g_tables.host->intern(g_tables.host->self, text(name));
}

tenon_dtype_t dtype_of(const std::string& name) {
  const tenon_dtype_t dtype = dtype_named(name);
  if (dtype == TENON_DTYPE_NONE)
    raise_usage(TENON_INVALID_ARGUMENT, "T0603", "there is no element type '" + name + "'.");
  return dtype;
}

// Of an attribute, which may have none: as attr_value names that.
tenon_dtype_t dtype_or_none(const std::string& name) {
  return name == dtype_name(TENON_DTYPE_NONE) ? tenon_dtype_t{TENON_DTYPE_NONE} : dtype_of(name);
}

tenon_type_t type_record(tenon_dtype_t dtype, const std::vector<int64_t>& dims) {
  tenon_type_t type = {};
  type.dtype = dtype;
  type.kind = TENON_KIND_TENSOR;
  type.rank = static_cast<uint32_t>(dims.size());
  type.dims = dims.data();
  return type;
}

nb::tuple type_tuple(uint32_t value, const tenon_type_t& type) {
  nb::list dims;
  for (uint32_t i = 0; i < type.rank; ++i) dims.append(type.dims[i]);
  return nb::make_tuple(value, dtype_name(type.dtype), nb::tuple(dims));
}

// Smaller constants are copied, which is cheaper than to keep an object.
constexpr size_t kCopiedBytesMost = 4096;

// Bytes of Python never change, so a graph can use them where they are. The array that they were
// made of may be written later, so it cannot. kept: a reference, which the blob takes over.
tenon_code_t blob_of(const tenon_host_graph_t& g, const char* data, uint64_t size_bytes,
                     nb::object& kept, tenon_blob_t** out) {
  if (size_bytes <= kCopiedBytesMost ||
      g.size_bytes <= offsetof(tenon_host_graph_t, blob_foreign))  // of an older host
    return g.blob_bytes(g.self, data, size_bytes, out);
  return g.blob_foreign(
      g.self, data, size_bytes, kept.release().ptr(),
      [](void* object) { drop_later(static_cast<PyObject*>(object)); }, out);
}

// Attributes as records, with room for what they borrow.
class AttrRecords {
 public:
  explicit AttrRecords(const nb::sequence& attrs) {
    for (const nb::handle attr : attrs) add(nb::cast<nb::tuple>(attr));
  }
  const std::vector<tenon_attr_t>& records() const { return records_; }

 private:
  void add(const nb::tuple& attr) {
    tenon_attr_t record = {};
    record.name = intern(nb::cast<std::string>(attr[0]));
    record.kind = nb::cast<uint32_t>(attr[1]);
    record.count = 1;
    const nb::object value = nb::borrow(attr[2]);
    switch (record.kind) {
      case TENON_ATTR_I64:
        record.u.i = nb::cast<int64_t>(value);
        break;
      case TENON_ATTR_F64:
        record.u.f = nb::cast<double>(value);
        break;
      case TENON_ATTR_DTYPE:
        record.u.i = dtype_or_none(nb::cast<std::string>(value));
        break;
      case TENON_ATTR_STRING:
        record.u.s = text(texts_.emplace_back(nb::cast<std::string>(value)));
        break;
      case TENON_ATTR_STRINGS: {
        std::vector<tenon_str_t>& list = text_lists_.emplace_back();
        for (const std::string& one : nb::cast<std::vector<std::string>>(value))
          list.push_back(text(texts_.emplace_back(one)));
        record.u.ss = list.data();
        record.count = list.size();
        break;
      }
      case TENON_ATTR_F64S:
        doubles_.push_back(nb::cast<std::vector<double>>(value));
        record.u.fs = doubles_.back().data();
        record.count = doubles_.back().size();
        break;
      case TENON_ATTR_I64S:
      case TENON_ATTR_DIMS:  // of the same type
        lists_.push_back(nb::cast<std::vector<int64_t>>(value));
        record.u.is = lists_.back().data();
        record.count = lists_.back().size();
        break;
      default:
        raise_usage(TENON_UNIMPLEMENTED, "T0629",
                    "Python makes no attributes of kind " + std::to_string(record.kind) + ".");
    }
    records_.push_back(record);
  }

  std::vector<tenon_attr_t> records_;
  std::deque<std::string> texts_;
  std::deque<std::vector<tenon_str_t>> text_lists_;
  std::deque<std::vector<int64_t>> lists_;
  std::deque<std::vector<double>> doubles_;
};

nb::object dtype_object(tenon_dtype_t dtype) {
  return nb::str(dtype_name(dtype));
}

// A tuple of what make(i) gives.
template <class Make>
nb::object tuple_of(uint64_t count, const Make& make) {
  nb::list list;
  for (uint64_t i = 0; i < count; ++i) list.append(make(i));
  return nb::tuple(list);
}

nb::object bytes_of(tenon_blob_t* blob) {
  const void* data = nullptr;
  uint64_t size_bytes = 0;
  const tenon_host_graph_t& g = *g_tables.graph;
  if (const tenon_code_t code = g.blob_data(g.self, blob, &data, &size_bytes)) raise_failure(code);
  return nb::bytes(data, size_bytes);
}

// Lists are tuples, types are ("f32", dims), and dims are the host's numbers.
nb::object attr_value(const tenon_attr_t& attr) {
  switch (attr.kind) {
    case TENON_ATTR_I64:
      return nb::int_(attr.u.i);
    case TENON_ATTR_F64:
      return nb::float_(attr.u.f);
    case TENON_ATTR_STRING:
      return nb::str(attr.u.s.data, attr.u.s.size);
    case TENON_ATTR_I64S:
      return tuple_of(attr.count, [&](uint64_t i) { return nb::int_(attr.u.is[i]); });
    case TENON_ATTR_F64S:
      return tuple_of(attr.count, [&](uint64_t i) { return nb::float_(attr.u.fs[i]); });
    case TENON_ATTR_STRINGS:
      return tuple_of(attr.count,
                      [&](uint64_t i) { return nb::str(attr.u.ss[i].data, attr.u.ss[i].size); });
    case TENON_ATTR_DIMS:
      return tuple_of(attr.count, [&](uint64_t i) { return nb::int_(attr.u.dims[i]); });
    case TENON_ATTR_TYPES:
      return tuple_of(attr.count, [&](uint64_t i) {
        const tenon_type_t& type = attr.u.types[i];
        return nb::make_tuple(dtype_object(type.dtype), tuple_of(type.rank, [&](uint64_t d) {
                                return nb::int_(type.dims[d]);
                              }));
      });
    case TENON_ATTR_BLOB:
      return bytes_of(attr.u.blob);
    case TENON_ATTR_DTYPE:
      return dtype_object(static_cast<tenon_dtype_t>(attr.u.i));
    default:
      raise_usage(TENON_UNIMPLEMENTED, "T0629",
                  "Python knows no attributes of kind " + std::to_string(attr.kind) + ".");
  }
}

nb::object name_of(tenon_sym_t sym) {
  const std::string_view name = view(g_tables.host->sym_text(g_tables.host->self, sym));
  return nb::str(name.data(), name.size());
}

std::vector<tenon_value_t> operand_list(const nb::sequence& operands) {
  std::vector<tenon_value_t> list;
  for (const nb::handle value : operands)
    list.push_back(value.is_none() ? TENON_NONE : nb::cast<uint32_t>(value));
  return list;
}

}  // namespace

nb::dict attributes_of(const tenon_attr_t* attrs, uint32_t count) {
  nb::dict out;
  for (uint32_t i = 0; i < count; ++i) out[name_of(attrs[i].name)] = attr_value(attrs[i]);
  return out;
}

void Trace::ask_graph(const std::function<tenon_code_t(const tenon_host_graph_t&)>& work) const {
  if (closed_ && !pass_.empty()) {
    raise_usage(TENON_FAILED_PRECONDITION, "T0630",
                "this is a part of a graph that the pass " + pass_ +
                    " worked on, and the pass has ended. Look at it within the pass, and keep "
                    "numbers, texts and copies of arrays.");
  }
  if (closed_ || g_tables.host == nullptr) {
    raise_usage(TENON_FAILED_PRECONDITION, "T0630",
                "this array belongs to a function that was traced and has returned. Return it from "
                "the function instead of keeping it.");
  }
  const auto call = [&] { return work(*g_tables.graph); };
  const tenon_code_t code = may_keep_gil() && !host_calls_python() ? call() : without_gil(call);
  if (code != TENON_OK) raise_failure(code);
}

Trace::Trace(const std::string& name) {
  ask_graph([&](const tenon_host_graph_t& g) {
    return g.create(g.self, tenon::python::text(name), &at_.graph);
  });
  owned_ = true;
  at_.before = TENON_NONE;
  auto view = sized<tenon_graph_view_t>();
  ask_graph([&](const tenon_host_graph_t& g) { return g.graph_view(g.self, at_.graph, &view); });
  at_.region = view.main;
}

Trace::Trace(const tenon_builder_t& at) : at_(at) {}

Trace::~Trace() {
  if (owned_) let_go([this] { g_tables.graph->release(g_tables.graph->self, at_.graph); });
}

int64_t Trace::symbol(const std::string& name, int64_t hint) {
  tenon_symbol_t symbol = 0;
  const tenon_region_t region = outer_.empty() ? at_.region : outer_.front().region;
  ask_graph([&](const tenon_host_graph_t& g) {
    return g.symbol_define(g.self, at_.graph, region, tenon::python::text(name), 0, INT64_MAX, 1,
                           hint, &symbol);
  });
  auto view = sized<tenon_symbol_view_t>();
  ask_graph(
      [&](const tenon_host_graph_t& g) { return g.symbol_view(g.self, at_.graph, symbol, &view); });
  return view.dim;
}

uint32_t Trace::argument(const std::string& dtype, const std::vector<int64_t>& dims,
                         const std::string& name) {
  const tenon_type_t type = type_record(dtype_of(dtype), dims);
  tenon_value_t value = TENON_NONE;
  ask_graph([&](const tenon_host_graph_t& g) {
    return g.argument_add(g.self, at_.graph, at_.region, &type, tenon::python::text(name), &value);
  });
  return value;
}

uint32_t Trace::input(const std::string& dtype, const std::vector<int64_t>& dims,
                      const std::string& name) {
  const tenon_type_t type = type_record(dtype_of(dtype), dims);
  const tenon_region_t region = outer_.empty() ? at_.region : outer_.front().region;
  tenon_value_t value = TENON_NONE;
  ask_graph([&](const tenon_host_graph_t& g) {
    return g.argument_add(g.self, at_.graph, region, &type, tenon::python::text(name), &value);
  });
  return value;
}

uint32_t Trace::constant(const std::string& dtype, const std::vector<int64_t>& dims,
                         nb::bytes bytes) {
  const tenon_type_t type = type_record(dtype_of(dtype), dims);
  const uint64_t element = dtype_bits(type.dtype) / 8;
  uint64_t size = element;
  for (const int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(size, static_cast<uint64_t>(dim), &size))
      raise_usage(TENON_OUT_OF_RANGE, "T0305", "the dims of a constant are not sizes.");
  }
  const bool splat = bytes.size() == element;
  if (!splat && bytes.size() != size)
    raise_usage(TENON_INVALID_ARGUMENT, "T0306", "the bytes of a constant do not fit its type.");
  tenon_value_t value = TENON_NONE;
  nb::object kept = bytes;
  const char* const data = bytes.c_str();
  const uint64_t size_bytes = bytes.size();
  ask_graph([&](const tenon_host_graph_t& g) {
    tenon_blob_t* blob = nullptr;
    tenon_code_t code =
        splat ? g.blob_splat(g.self, data, static_cast<uint32_t>(element), size, &blob)
              : blob_of(g, data, size_bytes, kept, &blob);
    if (code != TENON_OK) return code;
    code = g.constant(g.self, at_.graph, &type, blob, &value);
    g.blob_release(g.self, blob);
    return code;
  });
  return value;
}

uint32_t Trace::begin_region() {
  tenon_region_t region = TENON_NONE;
  ask_graph([&](const tenon_host_graph_t& g) { return g.region_begin(g.self, &at_, &region); });
  outer_.push_back(at_);
  at_.region = region;
  at_.before = TENON_NONE;
  return region;
}

void Trace::end_region(const std::vector<uint32_t>& values) {
  if (outer_.empty()) throw nb::type_error("no region was begun");
  const tenon_region_t region = at_.region;
  const tenon_loc_t loc = at_.loc;
  at_ = outer_.back();
  at_.loc = loc;
  outer_.pop_back();
  ask_graph([&](const tenon_host_graph_t& g) {
    return g.region_yield(g.self, at_.graph, region, values.data(),
                          static_cast<uint32_t>(values.size()), nullptr);
  });
}

nb::list Trace::node(const std::string& op, const nb::sequence& operands, const nb::sequence& attrs,
                     const std::vector<uint32_t>& regions) {
  const std::vector<tenon_value_t> values = operand_list(operands);
  const AttrRecords records(attrs);
  auto spec = sized<tenon_node_spec_t>();
  spec.op = intern(op);
  spec.operands = values.data();
  spec.operand_count = static_cast<uint32_t>(values.size());
  spec.attrs = records.records().data();
  spec.attr_count = static_cast<uint32_t>(records.records().size());
  spec.regions = regions.data();
  spec.region_count = static_cast<uint32_t>(regions.size());
  tenon_node_t node = TENON_NONE;
  ask_graph([&](const tenon_host_graph_t& g) { return g.node_build(g.self, &at_, &spec, &node); });
  auto view = sized<tenon_node_view_t>();
  ask_graph(
      [&](const tenon_host_graph_t& g) { return g.node_view(g.self, at_.graph, node, &view); });
  const std::vector<tenon_value_t> results(view.results, view.results + view.result_count);
  nb::list list;
  for (const tenon_value_t value : results) list.append(type_of(value));
  return list;
}

nb::tuple Trace::type_of(uint32_t value) const {
  auto view = sized<tenon_value_view_t>();
  ask_graph(
      [&](const tenon_host_graph_t& g) { return g.value_view(g.self, at_.graph, value, &view); });
  return type_tuple(value, view.type);
}

void Trace::location(const std::string& source, uint32_t line, const std::string& name) {
  ask_graph([&](const tenon_host_graph_t& g) {
    return g.loc_make(g.self, at_.graph, tenon::python::text(source), tenon::python::text(name),
                      line, &at_.loc);
  });
}

int64_t Trace::dim(uint32_t op, int64_t a, int64_t b) {
  tenon_dim_t out = 0;
  ask_graph(
      [&](const tenon_host_graph_t& g) { return g.dim_make(g.self, at_.graph, op, a, b, &out); });
  return out;
}

uint32_t Trace::compare(uint32_t relation, int64_t a, int64_t b) const {
  uint32_t answer = TENON_MAYBE;
  ask_graph([&](const tenon_host_graph_t& g) {
    return g.dim_compare(g.self, at_.graph, relation, a, b, &answer);
  });
  return answer;
}

nb::tuple Trace::dim_parts(int64_t dim) const {
  auto view = sized<tenon_dim_view_t>();
  auto symbol = sized<tenon_symbol_view_t>();
  ask_graph([&](const tenon_host_graph_t& g) {
    const tenon_code_t code = g.dim_view(g.self, at_.graph, dim, &view);
    if (code != TENON_OK || view.op != TENON_DIM_SYMBOL) return code;
    return g.symbol_view(g.self, at_.graph, view.symbol, &symbol);
  });
  const tenon_str_t name = view.op == TENON_DIM_SYMBOL
                               ? g_tables.host->sym_text(g_tables.host->self, symbol.name)
                               : tenon_str_t{};
  return nb::make_tuple(view.op, view.a, view.b, view.constant,
                        std::string(tenon::python::view(name)));
}

void Trace::yield(const std::vector<uint32_t>& values, const std::vector<std::string>& names) {
  std::vector<tenon_str_t> texts;
  for (const std::string& name : names) texts.push_back(tenon::python::text(name));
  ask_graph([&](const tenon_host_graph_t& g) {
    return g.region_yield(g.self, at_.graph, at_.region, values.data(),
                          static_cast<uint32_t>(values.size()), texts.data());
  });
}

Graph Trace::finish(const std::vector<uint32_t>& values, const std::vector<std::string>& names) {
  yield(values, names);
  tenon_model_t* model = nullptr;
  ask_graph([&](const tenon_host_graph_t&) {
    return g_tables.session->model_from_graph(g_tables.session->self, at_.graph, &model);
  });
  return Graph::of_model(model);
}

void Trace::transform(const std::vector<uint32_t>& values, const std::vector<std::string>& names,
                      const std::string& passes) {
  yield(values, names);
  finished_ = true;
  std::string prints, statistics;
  const tenon_sink_t to_prints = sink_to(&prints), to_statistics = sink_to(&statistics);
  ask_graph([&](const tenon_host_graph_t&) {
    return g_tables.session->passes_run(g_tables.session->self, at_.graph,
                                        tenon::python::text(passes), {}, 0, &to_prints,
                                        &to_statistics);
  });
}

Trace* Trace::copy() const {
  std::unique_ptr<Trace> out(new Trace());
  out->at_ = at_;
  ask_graph(
      [&](const tenon_host_graph_t& g) { return g.clone(g.self, at_.graph, &out->at_.graph); });
  out->owned_ = true;
  return out.release();
}

nb::list Trace::inline_graph(const Trace& other, const std::vector<uint32_t>& values) {
  auto graph = sized<tenon_graph_view_t>();
  auto main = sized<tenon_region_view_t>();
  ask_graph([&](const tenon_host_graph_t& g) {
    const tenon_code_t code = g.graph_view(g.self, other.at_.graph, &graph);
    return code == TENON_OK ? g.region_view(g.self, other.at_.graph, graph.main, &main) : code;
  });
  std::vector<tenon_value_t> made(main.yield_count, TENON_NONE);
  ask_graph([&](const tenon_host_graph_t& g) {
    return g.region_clone(g.self, &at_, other.at_.graph, graph.main, values.data(),
                          static_cast<uint32_t>(values.size()), made.data());
  });
  nb::list list;
  for (const tenon_value_t value : made) list.append(type_of(value));
  return list;
}

void Trace::finish_for_host(const std::vector<uint32_t>& values,
                            const std::vector<std::string>& names) {
  yield(values, names);
  finished_ = true;
}

tenon_graph_t* Trace::take() {
  if (!owned_ || !finished_) throw nb::type_error("the graph is not complete");
  owned_ = false;
  closed_ = true;
  return at_.graph;
}

std::string Trace::text() const {
  std::string out;
  const tenon_sink_t sink = sink_to(&out);
  ask_graph([&](const tenon_host_graph_t& g) {
    return g.graph_write(g.self, at_.graph, TENON_FORMAT_TEXT, &sink);
  });
  return out;
}

namespace {

void add_nodes(const tenon_host_graph_t& g, tenon_graph_t* graph, tenon_region_t region,
               std::vector<uint32_t>* out) {
  auto view = sized<tenon_region_view_t>();
  if (g.region_view(g.self, graph, region, &view) != TENON_OK) return;
  for (uint32_t i = 0; i < view.node_count; ++i) {
    auto node = sized<tenon_node_view_t>();
    out->push_back(view.nodes[i]);
    if (g.node_view(g.self, graph, view.nodes[i], &node) != TENON_OK) continue;
    for (uint32_t r = 0; r < node.region_count; ++r) add_nodes(g, graph, node.regions[r], out);
  }
}

}  // namespace

std::vector<uint32_t> Trace::nodes() const {
  std::vector<uint32_t> list;
  ask_graph([&](const tenon_host_graph_t& g) {
    add_nodes(g, at_.graph, at_.region, &list);
    return TENON_OK;
  });
  return list;
}

nb::tuple Trace::node_parts(uint32_t node) const {
  auto view = sized<tenon_node_view_t>();
  ask_graph(
      [&](const tenon_host_graph_t& g) { return g.node_view(g.self, at_.graph, node, &view); });
  nb::list operands, results;
  for (uint32_t i = 0; i < view.operand_count; ++i) {
    if (view.operands[i] == TENON_NONE) {
      operands.append(nb::none());
    } else {
      operands.append(view.operands[i]);
    }
  }
  for (uint32_t i = 0; i < view.result_count; ++i) results.append(view.results[i]);
  nb::dict attrs;
  for (uint32_t i = 0; i < view.attr_count; ++i) {
    const tenon_attr_t& attr = view.attrs[i];
    attrs[name_of(attr.name)] = nb::make_tuple(attr.kind, attr_value(attr));
  }
  const tenon_str_t op = g_tables.host->sym_text(g_tables.host->self, view.op);
  return nb::make_tuple(std::string(tenon::python::view(op)), operands, results, attrs);
}

nb::object Trace::producer(uint32_t value) const {
  auto view = sized<tenon_value_view_t>();
  ask_graph(
      [&](const tenon_host_graph_t& g) { return g.value_view(g.self, at_.graph, value, &view); });
  if (view.kind != TENON_VALUE_RESULT) return nb::none();
  return nb::int_(view.node);
}

nb::object Trace::number(uint32_t value) const {
  auto view = sized<tenon_value_view_t>();
  const void* element = nullptr;
  ask_graph([&](const tenon_host_graph_t& g) {
    const tenon_code_t code = g.value_view(g.self, at_.graph, value, &view);
    if (code != TENON_OK || view.kind != TENON_VALUE_CONSTANT) return code;
    uint32_t size = 0;
    if (g.blob_is_splat(g.self, view.blob, &element, &size) == 1) return code;
    for (uint32_t i = 0; i < view.type.rank; ++i) {
      if (view.type.dims[i] != 1) return code;
    }
    uint64_t bytes = 0;
    return g.blob_data(g.self, view.blob, &element, &bytes);
  });
  const tenon_dtype_t dtype = view.type.dtype;
  if (element == nullptr || dtype_bits(dtype) < 8) return nb::none();
  if (dtype == TENON_U64) return nb::int_(static_cast<uint64_t>(load_int(dtype, element)));
  if (is_in(dtype, kInt | kPred)) return nb::int_(load_int(dtype, element));
  return nb::float_(load_double(dtype, element));
}

void Trace::before(uint32_t node) {
  auto view = sized<tenon_node_view_t>();
  ask_graph(
      [&](const tenon_host_graph_t& g) { return g.node_view(g.self, at_.graph, node, &view); });
  at_.region = view.parent;
  at_.before = node;
  at_.loc = view.loc;
}

void Trace::replace(uint32_t from, uint32_t to) {
  ask_graph(
      [&](const tenon_host_graph_t& g) { return g.value_replace(g.self, at_.graph, from, to); });
}

void Trace::erase(uint32_t node) {
  ask_graph([&](const tenon_host_graph_t& g) { return g.node_erase(g.self, at_.graph, node); });
}

void bind_trace(nb::module_& m) {
  nb::class_<Trace> trace(m, "Trace", "A graph under construction.");
  trace.def(nb::init<const std::string&>(), "name"_a)
      .def("symbol", &Trace::symbol, "name"_a, "hint"_a)
      .def("argument", &Trace::argument, "dtype"_a, "dims"_a, "name"_a)
      .def("input", &Trace::input, "dtype"_a, "dims"_a, "name"_a)
      .def("constant", &Trace::constant, "dtype"_a, "dims"_a, "data"_a)
      .def("node", &Trace::node, "op"_a, "operands"_a, "attrs"_a,
           "regions"_a = std::vector<uint32_t>(),
           nb::sig("def node(self, op: str, operands: Sequence[int | None], attrs: "
                   "Sequence[tuple[str, int, object]], regions: Sequence[int] = ...) -> "
                   "list[tuple[int, str, tuple[int, ...]]]"))
      .def("begin_region", &Trace::begin_region)
      .def("end_region", &Trace::end_region, "values"_a)
      .def("type_of", &Trace::type_of, "value"_a,
           nb::sig("def type_of(self, value: int) -> tuple[int, str, tuple[int, ...]]"))
      .def("location", &Trace::location, "source"_a, "line"_a, "name"_a = "")
      .def("dim", &Trace::dim, "op"_a, "a"_a, "b"_a)
      .def("compare", &Trace::compare, "relation"_a, "a"_a, "b"_a)
      .def("dim_parts", &Trace::dim_parts, "dim"_a,
           nb::sig("def dim_parts(self, dim: int) -> tuple[int, int, int, int, str]"))
      .def("finish", &Trace::finish, "values"_a, "names"_a)
      .def("transform", &Trace::transform, "values"_a, "names"_a, "passes"_a)
      .def("copy", &Trace::copy, nb::rv_policy::take_ownership)
      .def("inline", &Trace::inline_graph, "graph"_a, "values"_a,
           nb::sig("def inline(self, graph: Trace, values: Sequence[int]) -> "
                   "list[tuple[int, str, tuple[int, ...]]]"))
      .def("finish_for_host", &Trace::finish_for_host, "values"_a, "names"_a)
      .def("text", &Trace::text)
      .def("nodes", &Trace::nodes)
      .def("node_parts", &Trace::node_parts, "node"_a,
           nb::sig("def node_parts(self, node: int) -> tuple[str, list[int | None], list[int], "
                   "dict[str, tuple[int, object]]]"))
      .def("producer", &Trace::producer, "value"_a,
           nb::sig("def producer(self, value: int) -> int | None"))
      .def("number", &Trace::number, "value"_a,
           nb::sig("def number(self, value: int) -> int | float | None"))
      .def("before", &Trace::before, "node"_a)
      .def("replace", &Trace::replace, "of"_a, "by"_a)
      .def("erase", &Trace::erase, "node"_a)
      .def("close", &Trace::close);
  bind_trace_pass(trace);
}

}  // namespace tenon::python
