// What passes in Python read and change: uses, regions, constants as NumPy arrays, notes.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "frontends/python/native/arrays/capsules.h"
#include "frontends/python/native/arrays/numpy_arrays.h"
#include "frontends/python/native/ops/trace.h"
#include "tenon/abi/graph_notes.h"
#include "tenon/cpp/dtype.hpp"
#include "tenon/cpp/record.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tenon::python {
namespace {

const tenon_host_notes_t& notes_table() {
  static const tenon_host_notes_t* found = [] {
    const void* table = nullptr;
    ask([&] {
      return g_tables.host->query(g_tables.host->self, text(TENON_HOST_NOTES_ID), 0, &table);
    });
    return static_cast<const tenon_host_notes_t*>(table);
  }();
  return *found;
}

void release_blob(void* blob) {
  let_go([blob] {
    g_tables.graph->blob_release(g_tables.graph->self, static_cast<tenon_blob_t*>(blob));
  });
}

nb::object optional(uint32_t index) {
  return index == TENON_NONE ? nb::none() : nb::object(nb::int_(index));
}

nb::list list_of(const uint32_t* items, uint32_t count) {
  nb::list out;
  for (uint32_t i = 0; i < count; ++i) out.append(items[i]);
  return out;
}

// A note as a record, with room for what it borrows.
class NoteRecord {
 public:
  NoteRecord(const std::string& name, uint32_t kind, const nb::object& value) {
    record_.name = g_tables.host->intern(g_tables.host->self, text(name));
    record_.kind = kind;
    record_.count = 1;
    switch (kind) {
      case TENON_ATTR_I64:
        record_.u.i = nb::cast<int64_t>(value);
        break;
      case TENON_ATTR_F64:
        record_.u.f = nb::cast<double>(value);
        break;
      case TENON_ATTR_STRING:
        text_ = nb::cast<std::string>(value);
        record_.u.s = text(text_);
        break;
      default:
        list(kind, value);
        break;
    }
  }
  NoteRecord(const NoteRecord&) = delete;
  const tenon_attr_t* get() const { return &record_; }

 private:
  void list(uint32_t kind, const nb::object& value) {
    if (kind == TENON_ATTR_I64S) {
      ints_ = nb::cast<std::vector<int64_t>>(value);
      record_.u.is = ints_.data();
      record_.count = ints_.size();
    } else if (kind == TENON_ATTR_F64S) {
      floats_ = nb::cast<std::vector<double>>(value);
      record_.u.fs = floats_.data();
      record_.count = floats_.size();
    } else {
      texts_ = nb::cast<std::vector<std::string>>(value);
      for (const std::string& one : texts_) strings_.push_back(text(one));
      record_.u.ss = strings_.data();
      record_.count = strings_.size();
    }
  }

  tenon_attr_t record_ = {};
  std::string text_;
  std::vector<int64_t> ints_;
  std::vector<double> floats_;
  std::vector<std::string> texts_;
  std::vector<tenon_str_t> strings_;
};

}  // namespace

nb::list Trace::uses(uint32_t value) const {
  const tenon_use_t* uses = nullptr;
  uint32_t count = 0;
  ask_graph([&](const tenon_host_graph_t& g) {
    return g.value_uses(g.self, at_.graph, value, &uses, &count);
  });
  nb::list out;
  for (uint32_t i = 0; i < count; ++i)
    out.append(nb::make_tuple(optional(uses[i].node), optional(uses[i].region), uses[i].index));
  return out;
}

nb::object Trace::constant_array(uint32_t value) const {
  auto view = sized<tenon_value_view_t>();
  const void* data = nullptr;
  uint64_t size = 0;
  ask_graph([&](const tenon_host_graph_t& g) {
    const tenon_code_t code = g.value_view(g.self, at_.graph, value, &view);
    if (code != TENON_OK || view.kind != TENON_VALUE_CONSTANT) return code;
    return g.blob_data(g.self, view.blob, &data, &size);
  });
  if (view.kind != TENON_VALUE_CONSTANT) return nb::none();
  g_tables.graph->blob_retain(g_tables.graph->self, view.blob);
  const nb::object owner = capsule_with<release_blob>(static_cast<void*>(view.blob), "tenon.blob");
  const std::vector<int64_t> dims(view.type.dims, view.type.dims + view.type.rank);
  return nb::steal(numpy_over(view.type.dtype, view.type.rank, dims.data(), const_cast<void*>(data),
                              false, nb::object(owner).release().ptr()));
}

bool Trace::is_constant(uint32_t value) const {
  auto view = sized<tenon_value_view_t>();
  ask_graph(
      [&](const tenon_host_graph_t& g) { return g.value_view(g.self, at_.graph, value, &view); });
  return view.kind == TENON_VALUE_CONSTANT;
}

nb::object Trace::argument_place(uint32_t value) const {
  auto view = sized<tenon_value_view_t>();
  ask_graph(
      [&](const tenon_host_graph_t& g) { return g.value_view(g.self, at_.graph, value, &view); });
  if (view.kind != TENON_VALUE_ARGUMENT) return nb::none();
  return nb::make_tuple(view.region, view.index);
}

nb::tuple Trace::node_place(uint32_t node) const {
  auto view = sized<tenon_node_view_t>();
  std::string place;
  const tenon_sink_t sink = sink_to(&place);
  ask_graph([&](const tenon_host_graph_t& g) {
    const tenon_code_t code = g.node_view(g.self, at_.graph, node, &view);
    return code != TENON_OK || view.loc == 0 ? code
                                             : g.loc_text(g.self, at_.graph, view.loc, &sink);
  });
  return nb::make_tuple(optional(view.parent), list_of(view.regions, view.region_count), place);
}

nb::tuple Trace::region_parts(uint32_t region) const {
  auto view = sized<tenon_region_view_t>();
  ask_graph(
      [&](const tenon_host_graph_t& g) { return g.region_view(g.self, at_.graph, region, &view); });
  return nb::make_tuple(optional(view.owner), list_of(view.arguments, view.argument_count),
                        list_of(view.nodes, view.node_count),
                        list_of(view.yields, view.yield_count));
}

uint32_t Trace::main_region() const {
  auto view = sized<tenon_graph_view_t>();
  ask_graph([&](const tenon_host_graph_t& g) { return g.graph_view(g.self, at_.graph, &view); });
  return view.main;
}

nb::dict Trace::notes(uint32_t noted, uint32_t index) const {
  const tenon_attr_t* list = nullptr;
  uint32_t count = 0;
  const tenon_host_notes_t& api = notes_table();
  ask_graph([&](const tenon_host_graph_t&) {
    return api.notes(api.self, at_.graph, noted, index, &list, &count);
  });
  return attributes_of(list, count);
}

void Trace::set_note(uint32_t noted, uint32_t index, const std::string& name, uint32_t kind,
                     const nb::object& value) {
  const NoteRecord record(name, kind, value);
  const tenon_host_notes_t& api = notes_table();
  ask_graph([&](const tenon_host_graph_t&) {
    return api.note_set(api.self, at_.graph, noted, index, record.get());
  });
}

void Trace::erase_note(uint32_t noted, uint32_t index, const std::string& name) {
  const tenon_host_notes_t& api = notes_table();
  const tenon_sym_t sym = g_tables.host->intern(g_tables.host->self, tenon::python::text(name));
  ask_graph([&](const tenon_host_graph_t&) {
    return api.note_erase(api.self, at_.graph, noted, index, sym);
  });
}

void Trace::take_notes(uint32_t noted, uint32_t index, uint32_t from) {
  const tenon_host_notes_t& api = notes_table();
  ask_graph([&](const tenon_host_graph_t&) {
    return api.notes_take(api.self, at_.graph, noted, index, from);
  });
}

void bind_trace_pass(nb::class_<Trace>& trace) {
  trace
      .def("uses", &Trace::uses, "value"_a,
           nb::sig("def uses(self, value: int) -> list[tuple[int | None, int | None, int]]"))
      .def("constant_array", &Trace::constant_array, "value"_a)
      .def("is_constant", &Trace::is_constant, "value"_a)
      .def("argument_place", &Trace::argument_place, "value"_a,
           nb::sig("def argument_place(self, value: int) -> tuple[int, int] | None"))
      .def("node_place", &Trace::node_place, "node"_a,
           nb::sig("def node_place(self, node: int) -> tuple[int | None, list[int], str]"))
      .def("region_parts", &Trace::region_parts, "region"_a,
           nb::sig("def region_parts(self, region: int) -> "
                   "tuple[int | None, list[int], list[int], list[int]]"))
      .def("main_region", &Trace::main_region)
      .def("notes", &Trace::notes, "noted"_a, "index"_a,
           nb::sig("def notes(self, noted: int, index: int) -> dict[str, object]"))
      .def("set_note", &Trace::set_note, "noted"_a, "index"_a, "name"_a, "kind"_a, "value"_a)
      .def("erase_note", &Trace::erase_note, "noted"_a, "index"_a, "name"_a)
      .def("take_notes", &Trace::take_notes, "noted"_a, "index"_a, "of"_a);
}

}  // namespace tenon::python
