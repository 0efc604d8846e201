#include "frontends/python/native/program/background.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "frontends/python/native/host/host.h"
#include "tenon/cpp/record.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tenon::python {
namespace {

// Between two looks at signals, while the main thread waits.
constexpr double kSliceSeconds = 0.05;

Run& run_of(PyObject* self) {
  return *nb::inst_ptr<Run>(nb::handle(self));
}
int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(nb::handle(self)) ? run_of(self).visit(visit, arg) : 0;
}
int clear(PyObject* self) noexcept {
  if (nb::inst_ready(nb::handle(self))) run_of(self).clear();
  return 0;
}
PyType_Slot kRunSlots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                           {Py_tp_clear, reinterpret_cast<void*>(clear)},
                           {0, nullptr}};

// The same exception once more, without a traceback. The exception itself where its class does not
// let itself be copied.
nb::object copy_of(const nb::object& exception) {
  try {
    nb::object copy = nb::module_::import_("copy").attr("copy")(exception);
    if (PyExceptionInstance_Check(copy.ptr()) == 0) return exception;
    if (PyObject* const cause = PyException_GetCause(exception.ptr()))
      PyException_SetCause(copy.ptr(), cause);
    return copy;
  } catch (nb::python_error&) {
    return exception;
  }
}

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
    const ThreadLimit limit(program_->thread_limit());
    ask([&] { return api.start_call(api.self, program_->get(), &call_->record, operation_); });
  } catch (...) {
    end();
    throw;
  }
}

Run::~Run() {
  clear();
}

int Run::visit(visitproc visit, void* arg) const {
  Py_VISIT(object_.ptr());
  Py_VISIT(values_.ptr());
  Py_VISIT(names_.ptr());
  Py_VISIT(results_.ptr());
  Py_VISIT(failure_.ptr());
  return 0;
}

void Run::clear() {
  if (operation_ != nullptr) let_go([this] { cancel(); });
  end();
  results_.reset();
  failure_.reset();
}

// Gives back what the call used: first the operation, whose thread may be at work for it. With the
// GIL, and when no other thread waits.
void Run::end() {
  if (tenon_operation_t* const operation = std::exchange(operation_, nullptr))
    let_go([&] { g_tables.operation->release(g_tables.operation->self, operation); });
  if (call_ != nullptr) program_->give_back(std::move(call_));
  values_.reset();
  names_.reset();
  object_.reset();
}

void Run::cancel() {
  if (operation_ != nullptr) g_tables.operation->cancel(g_tables.operation->self, operation_);
}

// Makes the results, or keeps the failure, once the call has ended.
void Run::take(tenon_code_t code) {
  try {
    if (code != TENON_OK) raise_failure(code);
    results_ = nb::steal(program_->results_of(*call_, Program::As::kUsers));
  } catch (nb::python_error& e) {
    failure_ = nb::borrow(e.value());
    PyException_SetTraceback(failure_.ptr(), Py_None);
  }
  end();
}

// A copy is raised: its traceback has the frames of the callers, and these have the run. An
// exception that was kept and raised would be a ring of all of them.
void Run::fail() const {
  const nb::object raised = copy_of(failure_);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised.ptr())), raised.ptr());
  throw nb::python_error();
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
  fail();
}

void bind_background(nb::module_& m) {
  nb::class_<Run>(m, "Run", nb::type_slots(kRunSlots), "A call on a thread of its own.")
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
