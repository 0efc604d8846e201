// C++ as a slot of CPython: exceptions become Python's.
#ifndef FRONTENDS_PYTHON_NATIVE_HOST_GUARDED_H_
#define FRONTENDS_PYTHON_NATIVE_HOST_GUARDED_H_

#include <nanobind/nanobind.h>

#include <new>

namespace tenon::python {

// What work() gives; if it throws, `failed`, with the exception set. No exception passes.
template <class Work, class Result = PyObject*>
Result guarded(const Work& work, Result failed = Result{}) noexcept {
  try {
    return work();
  } catch (nanobind::python_error& e) {
    e.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
  return failed;
}

}  // namespace tenon::python

#endif
