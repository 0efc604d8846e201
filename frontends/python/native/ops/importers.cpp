// Importers of file formats that are Python functions: frontends, registered while the program
// runs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <string_view>

#include "frontends/python/native/host/host.h"
#include "frontends/python/native/ops/ops.h"
#include "frontends/python/native/ops/python_slots.h"
#include "frontends/python/native/ops/trace.h"
#include "tenon/abi/frontend.h"
#include "tenon/cpp/record.hpp"
#include "tenon/cpp/text.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tenon::python {
namespace {

// As a manifest provides it.
std::string in_json(const std::string& name, std::string_view extensions) {
  std::string out;
  for (std::string_view rest = extensions; !rest.empty();) {
    const size_t end = rest.find(',');
    out += (out.empty() ? "" : ", ") + tenon::text::json_quoted(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  return "{\"name\": " + tenon::text::json_quoted(name) + ", \"extensions\": [" + out + "]}";
}

// It lives as long as the process, as the host requires.
struct PythonImporter {
  std::string name, extensions, plugin_name, manifest;
  PyObject* load = nullptr;
  tenon_frontend_api_t table = {};
  tenon_interface_t interface = {};
  tenon_plugin_t plugin = {};
};

// By the extension alone: the first bytes are not looked at, since that needs Python.
uint32_t accepts_slot(void* self, tenon_str_t name, const void*, uint64_t) noexcept {
  std::string_view rest = static_cast<const PythonImporter*>(self)->extensions;
  while (!rest.empty()) {
    const size_t end = rest.find(',');
    if (view(name).ends_with(rest.substr(0, end))) return 60;
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  return 0;
}

nb::dict options_of(const tenon_source_t& source) {
  nb::dict out;
  for (uint32_t i = 0; i < source.option_count; ++i) {
    const std::string_view key = view(source.options[i].key), value = view(source.options[i].value);
    out[nb::str(key.data(), key.size())] = nb::str(value.data(), value.size());
  }
  return out;
}

tenon_code_t load_slot(void* self, const tenon_source_t* source,
                       tenon_graph_t** out_graph) noexcept {
  const auto& importer = *static_cast<PythonImporter*>(self);
  const tenon_host_graph_t& g = *g_tables.graph;
  return in_python(importer.name, [&] {
    const void* bytes = nullptr;
    uint64_t size = 0;
    if (const tenon_code_t code = g.blob_data(g.self, source->bytes, &bytes, &size))
      raise_failure(code);
    const nb::bytes data(bytes, size);
    const std::string_view name = view(source->name);
    const nb::object made =
        nb::borrow(importer.load)(nb::str(name.data(), name.size()), data, options_of(*source));
    *out_graph = nb::cast<Trace&>(made).take();
  });
}

void register_frontend(const std::string& name, const std::string& extensions,
                       const nb::callable& load) {
  auto made = std::make_unique<PythonImporter>();
  made->name = name;
  made->extensions = extensions;
  made->load = load.ptr();
  made->table.size_bytes = sizeof made->table;
  made->table.self = made.get();
  made->table.name = text(made->name);
  made->table.extensions = text(made->extensions);
  made->table.accepts = accepts_slot;
  made->table.load = load_slot;
  describe_plugin(*made, TENON_FRONTEND_ID, &made->table, "frontends",
                  in_json(made->name, made->extensions));
  register_plugin(made->plugin, made->manifest);
  Py_INCREF(made->load);
  (void)made.release();  // the host keeps it
}

}  // namespace

void bind_importers(nb::module_& m) {
  m.def("register_frontend", register_frontend, "name"_a, "extensions"_a, "load"_a,
        nb::sig("def register_frontend(name: str, extensions: str, load: Callable[[str, bytes, "
                "dict[str, str]], Trace]) -> None"));
}

}  // namespace tenon::python
