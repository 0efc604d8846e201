#include "frontends/python/native/program/program.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "frontends/python/native/host/guarded.h"
#include "frontends/python/native/host/host.h"
#include "tenon/cpp/record.hpp"
#include "tenon/cpp/text.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tenon::python {
namespace {

std::vector<tenon_key_value_t> pairs_of(const Pairs& pairs) {
  std::vector<tenon_key_value_t> out;
  for (const auto& [key, value] : pairs) out.push_back({text(key), text(value)});
  return out;
}

// Texts are never freed: compilations without the GIL may read an earlier one.
const tenon_str_t* g_pipeline = new tenon_str_t{};

// The record borrows from the options and from `room`.
tenon_session_options_t session_options(const CompileOptions& options,
                                        std::vector<tenon_key_value_t>* room) {
  *room = pairs_of(options.options);
  auto record = sized<tenon_session_options_t>();
  record.device = text(options.device);
  record.no_fallback = options.no_fallback ? 1 : 0;
  record.deterministic = options.deterministic ? 1 : 0;
  record.autotune = options.autotune ? 1 : 0;
  record.pipeline = *g_pipeline;
  record.options = room->data();
  record.option_count = static_cast<uint32_t>(room->size());
  record.stable_inputs = options.stable_inputs.data();
  record.stable_count = static_cast<uint32_t>(options.stable_inputs.size());
  return record;
}

Port port_of(const tenon_port_t& record, const char* what) {
  Port port{std::string(view(record.name)), record.dtype, {}, {}, {}};
  for (uint32_t i = 0; i < record.rank; ++i) {
    port.dims.push_back(record.dims[i]);
    port.dim_texts.emplace_back(view(record.dim_texts[i]));
  }
  port.expected = {std::string(what) + " '" + port.name + "'", port.dtype, record.rank, false};
  return port;
}

// Above this, what a tensor costs no longer counts.
constexpr size_t kSmallBytes = 4096;

size_t small_bytes_of(const Port& port) {
  size_t bytes = dtype_bits(port.dtype) / 8;
  for (const int64_t dim : port.dims) {
    if (dim < 0 || __builtin_mul_overflow(bytes, static_cast<size_t>(dim), &bytes)) return 0;
  }
  return bytes <= kSmallBytes ? bytes : 0;
}

// (name, dtype, dims): a dim is a number or, if it is symbolic, its text.
nb::list port_list(const std::vector<Port>& ports) {
  nb::list list;
  for (const Port& port : ports) {
    nb::list dims;
    for (size_t i = 0; i < port.dims.size(); ++i) {
      if (port.dims[i] >= 0) {
        dims.append(port.dims[i]);
      } else {
        dims.append(port.dim_texts[i]);
      }
    }
    list.append(nb::make_tuple(port.name, dtype_name(port.dtype), nb::tuple(dims)));
  }
  return list;
}

std::string text_from(const std::function<tenon_code_t(const tenon_sink_t*)>& write) {
  std::string out;
  const tenon_sink_t sink = sink_to(&out);
  ask([&] { return write(&sink); });
  return out;
}

}  // namespace

void set_pipeline(const std::string& passes) {
  g_pipeline = new tenon_str_t(text(*new std::string(passes)));
}

// ---- Graphs ----

Graph Graph::load(const std::string& path, const Pairs& options) {
  tenon_model_t* model = nullptr;
  const auto pairs = pairs_of(options);
  ask([&] {
    return g_tables.session->model_load(g_tables.session->self, text(path), pairs.data(),
                                        static_cast<uint32_t>(pairs.size()), &model);
  });
  return Graph(model);
}

Graph Graph::of_bytes(std::string_view bytes, const std::string& name) {
  tenon_model_t* model = nullptr;
  ask([&] {
    const tenon_host_graph_t& graph = *g_tables.graph;
    tenon_blob_t* blob = nullptr;
    if (const tenon_code_t code = graph.blob_bytes(graph.self, bytes.data(), bytes.size(), &blob))
      return code;
    const tenon_code_t code =
        g_tables.session->model_load_bytes(g_tables.session->self, blob, text(name), {}, &model);
    graph.blob_release(graph.self, blob);
    return code;
  });
  return Graph(model);
}

Graph::~Graph() {
  if (model_ != nullptr)
    let_go([this] { g_tables.session->model_release(g_tables.session->self, model_); });
}

std::string Graph::write() const {
  tenon_graph_t* graph = nullptr;
  ask([&] { return g_tables.session->model_graph(g_tables.session->self, model_, &graph); });
  std::string out;
  const tenon_sink_t sink = sink_to(&out);
  const tenon_code_t code = without_gil([&] {
    const tenon_code_t written =
        g_tables.graph->graph_write(g_tables.graph->self, graph, TENON_FORMAT_BINARY, &sink);
    if (written == TENON_OK) g_tables.graph->release(g_tables.graph->self, graph);
    return written;
  });
  if (code != TENON_OK) {
    try {
      raise_failure(code);
    } catch (...) {
      let_go([&] { g_tables.graph->release(g_tables.graph->self, graph); });
      throw;
    }
  }
  return out;
}

void Graph::save(const std::string& path, const CompileOptions& options,
                 const std::string& target) const {
  std::vector<tenon_key_value_t> room;
  const tenon_session_options_t session = session_options(options, &room);
  auto record = sized<tenon_package_options_t>();
  record.session = &session;
  record.target = text(target);
  ask([&] { return g_tables.package->save(g_tables.package->self, model_, &record, text(path)); });
}

// ---- Programs ----

Program::Program(const Graph& graph, const CompileOptions& options, const Sizes& sizes) {
  std::vector<tenon_key_value_t> room;
  const tenon_session_options_t record = session_options(options, &room);
  ask([&] {
    return g_tables.session->compile(g_tables.session->self, graph.get(), &record, &program_);
  });
  describe();
  by_value_ = placement().find("\"by_value\"") != std::string::npos;
  set_sizes(sizes);
}

Program::Program(const std::string& package, const Sizes& sizes) {
  ask([&] {
    return g_tables.package->load(g_tables.package->self, text(package), nullptr, &program_);
  });
  describe();
  set_sizes(sizes);
}

Program::~Program() {
  spare_.clear();
  release();
}

void Program::release() {
  tenon_program_t* program = std::exchange(program_, nullptr);
  if (program != nullptr)
    let_go([program] { g_tables.session->program_release(g_tables.session->self, program); });
}

void Program::close() {
  closed_ = true;
  if (active_ == 0) release();
}

void Program::describe() {
  auto info = sized<tenon_model_info_t>();
  ask([&] { return g_tables.package->ports(g_tables.package->self, program_, &info); });
  for (uint32_t i = 0; i < info.input_count; ++i)
    inputs_.push_back(port_of(info.inputs[i], "input"));
  nb::list names;
  for (uint32_t i = 0; i < info.output_count; ++i) {
    outputs_.push_back(port_of(info.outputs[i], "result"));
    outputs_.back().small_bytes = small_bytes_of(outputs_.back());
    names.append(outputs_.back().name);
  }
  output_names_ = nb::tuple(names);
  for (uint32_t i = 0; i < info.symbol_count; ++i)
    symbols_.emplace_back(view(info.symbol_names[i]));
}

void Program::set_sizes(const Sizes& sizes) {
  for (const auto& [name, value] : sizes) {
    if (std::find(symbols_.begin(), symbols_.end(), name) == symbols_.end()) {
      raise_usage(
          TENON_NOT_FOUND, "T0602",
          "the model has no size " + text::quoted(name) + text::did_you_mean(name, symbols_) +
              " (sizes: " + (symbols_.empty() ? "none" : text::join_names(symbols_)) + ").");
    }
    given_sizes_.emplace_back(name, value);
  }
  for (const auto& [name, value] : given_sizes_) sizes_.push_back({text(name), value});
}

std::string Program::placement() {
  const Use use(*this);
  return text_from([this](const tenon_sink_t* sink) {
    return g_tables.session->placement(g_tables.session->self, program_, sink);
  });
}

std::string Program::summary() {
  const Use use(*this);
  return text_from([this](const tenon_sink_t* sink) {
    return g_tables.session->placement_summary(g_tables.session->self, program_, sink);
  });
}

std::string Program::dump(const std::string& what) {
  const Use use(*this);
  return text_from([&](const tenon_sink_t* sink) {
    return g_tables.session->dump(g_tables.session->self, program_, text(what), sink);
  });
}

nb::dict Program::info() {
  const Use use(*this);
  auto info = sized<tenon_program_info_t>();
  ask([&] { return g_tables.session->program_info(g_tables.session->self, program_, &info); });
  nb::dict out;
  out["compile_ms"] = info.compile_ms;
  out["load_ms"] = info.load_ms;
  out["kernels_compiled"] = info.kernels_compiled;
  out["kernels_from_cache"] = info.kernels_from_cache;
  out["kernels"] = info.kernel_count;
  out["nodes"] = info.node_count;
  out["copies"] = info.copy_count;
  out["code_bytes"] = info.code_bytes;
  out["constant_bytes"] = info.constant_bytes;
  return out;
}

// Without the GIL.
tenon_code_t Program::bind(tenon_binding_t* binding, const Call& call) const {
  const tenon_host_session_t& s = *g_tables.session;
  tenon_code_t code = TENON_OK;
  for (size_t i = 0; code == TENON_OK && i < inputs_.size(); ++i) {
    tenon_array_t array = call.arguments[i].array;
    if (call.arguments[i].tensor != nullptr) {
      array = sized<tenon_array_t>();
      code = g_tables.call->tensor_array(g_tables.call->self, call.arguments[i].tensor, &array);
    }
    if (code == TENON_OK) code = s.bind_input(s.self, binding, text(inputs_[i].name), &array);
  }
  for (const tenon_size_t& size : sizes_)
    if (code == TENON_OK) code = s.bind_size(s.self, binding, size.name, size.value);
  return code;
}

nb::tuple Program::profile(const nb::args& values, const nb::kwargs& names) {
  const Use use(*this);
  Call call(*this);
  std::vector<PyObject*> list;
  for (const nb::handle value : values) list.push_back(value.ptr());
  read_arguments(call, list.data(), list.size(), names.ptr());
  std::string trace, table;
  const tenon_sink_t to_trace = sink_to(&trace), to_table = sink_to(&table);
  const tenon_host_session_t& s = *g_tables.session;
  struct Binding {
    tenon_binding_t* handle = nullptr;
    ~Binding() {
      if (handle != nullptr)
        let_go([this] { g_tables.session->binding_release(g_tables.session->self, handle); });
    }
  } binding;
  ask([&] { return s.binding_create(s.self, program_, &binding.handle); });
  ask([&] { return bind(binding.handle, call); });
  ask([&] { return s.run(s.self, binding.handle); });  // once without: first runs differ
  ask([&] { return s.profile_enable(s.self, binding.handle, 1); });
  ask([&] { return s.run(s.self, binding.handle); });
  ask([&] { return s.profile_write(s.self, binding.handle, TENON_PROFILE_PERFETTO, &to_trace); });
  ask([&] { return s.profile_write(s.self, binding.handle, TENON_PROFILE_TABLE, &to_table); });
  return nb::make_tuple(trace, table);
}

// ---- Python ----

namespace {

PyObject* call_slot(PyObject* self, PyObject* args, PyObject* kwargs) noexcept {
  Program* program = nb::inst_ptr<Program>(self);
  if (!nb::inst_ready(self)) {
    PyErr_SetString(PyExc_TypeError, "the model was not initialised");
    return nullptr;
  }
  return guarded([&] {
    return program->call(reinterpret_cast<PyTupleObject*>(args)->ob_item,
                         static_cast<size_t>(PyTuple_GET_SIZE(args)), kwargs, Program::As::kUsers);
  });
}

PyType_Slot kProgramSlots[] = {{Py_tp_call, reinterpret_cast<void*>(call_slot)}, {0, nullptr}};

nb::object run(Program& program, const nb::tuple& values, const nb::dict& names,
               const std::string& results, const nb::list& given, const Sizes& sizes,
               bool in_place) {
  using As = Program::As;
  const As as = results == "numpy"    ? As::kNumpy
                : results == "tensor" ? As::kTensor
                : results == "device" ? As::kDevice
                                      : As::kUsers;
  if (as == As::kNumpy) nb::module_::import_("numpy");
  std::vector<PyObject*> list, memory;
  for (const nb::handle value : values) list.push_back(value.ptr());
  for (const nb::handle value : given) memory.push_back(value.ptr());
  return nb::steal(
      program.call(list.data(), list.size(), names.ptr(), as, {memory, in_place}, sizes));
}

}  // namespace

void bind_program(nb::module_& m) {
  nb::class_<Graph>(m, "Graph", "A loaded graph. Immutable.")
      .def_static("load", &Graph::load, "path"_a, "options"_a)
      .def_static(
          "of_bytes",
          [](nb::bytes bytes, const std::string& name) {
            return Graph::of_bytes({bytes.c_str(), bytes.size()}, name);
          },
          "data"_a, "name"_a)
      .def("write",
           [](const Graph& graph) {
             const std::string bytes = graph.write();
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def(
          "save",
          [](const Graph& graph, const std::string& path, const std::string& device,
             bool no_fallback, bool deterministic, const Pairs& options,
             const std::string& target) {
            graph.save(path, {device, no_fallback, deterministic, options}, target);
          },
          "path"_a, "device"_a, "no_fallback"_a, "deterministic"_a, "options"_a, "target"_a);
  nb::class_<Program>(m, "Program", nb::type_slots(kProgramSlots), nb::is_weak_referenceable(),
                      "A compiled program.")
      .def(
          "__init__",
          [](Program* self, const Graph& graph, const std::string& device, bool no_fallback,
             bool deterministic, const Pairs& options, const Sizes& sizes,
             const std::vector<uint32_t>& stable_inputs, bool autotune) {
            new (self) Program(
                graph, {device, no_fallback, deterministic, options, stable_inputs, autotune},
                sizes);
          },
          "graph"_a, "device"_a, "no_fallback"_a, "deterministic"_a, "options"_a, "sizes"_a,
          "stable_inputs"_a = std::vector<uint32_t>(), "autotune"_a = false)
      .def(
          "__init__",
          [](Program* self, const std::string& package, const Sizes& sizes) {
            new (self) Program(package, sizes);
          },
          "package"_a, "sizes"_a)
      .def(
          "input_ports", [](const Program& p) { return port_list(p.inputs()); },
          nb::sig("def input_ports(self) -> list[tuple[str, str, tuple[int | str, ...]]]"))
      .def(
          "output_ports", [](const Program& p) { return port_list(p.outputs()); },
          nb::sig("def output_ports(self) -> list[tuple[str, str, tuple[int | str, ...]]]"))
      .def("close", &Program::close)
      .def("limit_threads", &Program::limit_threads, "count"_a)
      .def("thread_limit", &Program::thread_limit)
      .def("closed", &Program::closed)
      .def("placement", &Program::placement)
      .def("summary", &Program::summary)
      .def("dump_text", &Program::dump, "what"_a)
      .def("counts", &Program::info, nb::sig("def counts(self) -> dict[str, float]"))
      .def("profile_texts", &Program::profile,
           nb::sig("def profile_texts(self, *args: object, **kwargs: object) -> tuple[str, str]"))
      .def("run_as", run, "values"_a, "names"_a, "results"_a, "given"_a, "sizes"_a = nb::list(),
           "in_place"_a = false,
           nb::sig("def run_as(self, values: tuple[object, ...], names: dict[str, object], "
                   "results: str, given: list[object], sizes: Sequence[tuple[str, int]] = ..., "
                   "in_place: bool = False) -> Results"))
      .def(
          "last_counts",
          [](const Program& p) {
            const LastRun& run = p.last_run();
            return nb::make_tuple(run.ms, run.repacked_bytes, run.transferred_bytes,
                                  run.copied_out_bytes);
          },
          nb::sig("def last_counts(self) -> tuple[float, int, int, int]"));
}

}  // namespace tenon::python
