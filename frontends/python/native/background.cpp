#include "frontends/python/native/background.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "frontends/python/native/host.h"
#include "tenon/cpp/record.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tenon::python {
namespace {

// Between two looks at signals, while the main thread waits.
constexpr double kSliceSeconds = 0.05;

}  // namespace

Run::Run(nb::object program, nb::args values, nb::kwargs names)
    : object_(std::move(program)),
      program_(nb::inst_ptr<Program>(object_)),
      values_(std::move(values)),
      names_(std::move(names)) {
  auto options = sized<tenon_operation_options_t>();
  options.context = this;
  options.done = [](void* self, tenon_code_t) { static_cast<Run*>(self)->done_ = true; };
  const tenon_host_operation_t& api = *g_tables.operation;
  ask([&] { return api.create(api.self, &options, &operation_); });
  try {
    call_ = program_->begin(values_, names_);
    ask([&] { return api.start_call(api.self, program_->get(), &call_->record, operation_); });
  } catch (...) {
    end();
    throw;
  }
}

Run::~Run() {
  if (call_ != nullptr) let_go([this] { cancel(); });
  end();
}

// Gives back what the call used. With the GIL, and when no other thread uses it.
void Run::end() {
  let_go([this] { g_tables.operation->release(g_tables.operation->self, operation_); });
  if (call_ != nullptr) program_->give_back(std::move(call_));
}

void Run::cancel() {
  g_tables.operation->cancel(g_tables.operation->self, operation_);
}

// Makes the results, or keeps the failure, once the call has ended.
void Run::take(tenon_code_t code) {
  try {
    if (code != TENON_OK) raise_failure(code);
    results_ = nb::steal(program_->results_of(*call_, Program::As::kUsers));
  } catch (nb::python_error& e) {
    failure_ = nb::borrow(e.value());
  }
  program_->give_back(std::move(call_));
}

// Waits for a while; false if the call has not ended. The host lets one thread wait for it: others
// wait for that one, without the GIL, which it needs when it takes the results.
bool Run::wait(double seconds) {
  const tenon_host_operation_t& api = *g_tables.operation;
  std::unique_lock waiting(waiting_, std::defer_lock);
  const tenon_code_t code = without_gil([&]() -> tenon_code_t {
    if (!waiting.try_lock_for(std::chrono::duration<double>(seconds)))
      return TENON_DEADLINE_EXCEEDED;
    return taken() ? TENON_OK
                   : api.wait(api.self, operation_, static_cast<uint64_t>(seconds * 1e9));
  });
  if (!taken() && code != TENON_DEADLINE_EXCEEDED) take(code);
  return taken();
}

nb::object Run::result(double timeout_seconds) {
  for (double left = timeout_seconds; !taken(); left -= kSliceSeconds) {
    if (wait(timeout_seconds < 0 ? kSliceSeconds : std::clamp(left, 0.0, kSliceSeconds))) break;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (timeout_seconds >= 0 && left <= 0) {
      PyErr_SetString(PyExc_TimeoutError, "the call has not ended yet");
      throw nb::python_error();
    }
  }
  if (results_.is_valid()) return results_;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(failure_.ptr())), failure_.ptr());
  throw nb::python_error();
}

void bind_background(nb::module_& m) {
  nb::class_<Run>(m, "Run", "A call on a thread of its own.")
      .def("done", &Run::done)
      .def("cancel", &Run::cancel)
      .def("result", &Run::result, "timeout"_a,
           nb::sig("def result(self, timeout: float) -> Results"));
  m.def(
      "start",
      [](nb::object program, nb::args values, nb::kwargs names) {
        return new Run(std::move(program), std::move(values), std::move(names));
      },
      "program"_a, "values"_a, "names"_a, nb::rv_policy::take_ownership,
      nb::sig("def start(program: Program, *args: object, **kwargs: object) -> Run"));
}

}  // namespace tenon::python
