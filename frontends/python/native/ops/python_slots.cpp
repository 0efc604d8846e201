#include "frontends/python/native/ops/python_slots.h"

#include <nanobind/stl/string.h>

#include <tuple>

#include "frontends/python/native/ops/ops.h"

namespace nb = nanobind;

namespace tenon::python {
namespace {

bool g_calls_python = false;  // with the GIL

tenon_code_t fail(tenon_code_t code, const std::string& message) {
  return g_tables.host->fail(g_tables.host->self, code, text(message), nullptr, 0);
}

// Code and message of an exception. It may be interrupted itself.
std::pair<tenon_code_t, std::string> code_and_message(const std::string& name,
                                                      nb::python_error& error) {
  try {
    const nb::object both =
        nb::module_::import_("tenon._op").attr("code_and_message")(name, error.value());
    return {nb::cast<uint32_t>(both[0]), nb::cast<std::string>(both[1])};
  } catch (nb::python_error& other) {
    keep_exception(nb::borrow(other.value()).release().ptr());
    return {TENON_CANCELLED, name + ": it was interrupted"};
  }
}

}  // namespace

tenon_code_t in_python(const std::string& name, const std::function<void()>& work) {
  if (interpreter_ended()) return fail(TENON_CANCELLED, "the interpreter has ended");
  const PyGILState_STATE state = PyGILState_Ensure();
  tenon_code_t code = TENON_OK;
  std::string message;
  try {
    work();
  } catch (nb::python_error& e) {
    if (PyErr_GivenExceptionMatches(e.type().ptr(), PyExc_Exception) == 0) {
      keep_exception(nb::borrow(e.value()).release().ptr());
      code = TENON_CANCELLED;
      message = name + ": it was interrupted";
    } else {
      std::tie(code, message) = code_and_message(name, e);
    }
  } catch (const std::exception& e) {
    code = TENON_INVALID_ARGUMENT;
    message = name + ": " + e.what();
  }
  PyGILState_Release(state);
  return code == TENON_OK ? code : fail(code, message);
}

bool host_calls_python() {
  return g_calls_python;
}

void register_plugin(const tenon_plugin_t& plugin, const std::string& manifest, bool calls_python) {
  const void* table = nullptr;
  ask([&] {
    return g_tables.host->query(g_tables.host->self, text(TENON_HOST_PLUGINS_ID), 0, &table);
  });
  const auto& host = *static_cast<const tenon_host_plugins_t*>(table);
  g_calls_python = g_calls_python || calls_python;
  ask([&] { return host.plugin_register(host.self, &plugin, text(manifest)); });
}

}  // namespace tenon::python
