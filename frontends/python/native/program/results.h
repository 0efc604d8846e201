// tenon.Results: the outputs of a call, as a sequence and as a mapping.
#ifndef FRONTENDS_PYTHON_NATIVE_PROGRAM_RESULTS_H_
#define FRONTENDS_PYTHON_NATIVE_PROGRAM_RESULTS_H_

#include <nanobind/nanobind.h>

namespace tenon::python {

// A new object of `count` empty places, for results_set. `names` is a tuple of as many texts. New
// reference, or null with an exception.
PyObject* results_new(PyObject* names, Py_ssize_t count);
// Fills a place once; takes the reference.
void results_set(PyObject* results, Py_ssize_t index, PyObject* value);

void bind_results(nanobind::module_& module);

}  // namespace tenon::python

#endif
