// Single elements: Python's numbers as elements, and elements as Python's numbers.
#ifndef FRONTENDS_PYTHON_NATIVE_ARRAYS_SCALARS_H_
#define FRONTENDS_PYTHON_NATIVE_ARRAYS_SCALARS_H_

#include <nanobind/nanobind.h>

#include "tenon/abi/base.h"

namespace tenon::python {

// Writes a bool, int, float or complex as an element. False if it is not a value of the type: a
// float for integers, an integer out of range, an int for a predicate. Floats are rounded. `out`
// has 16 bytes.
bool write_scalar(PyObject* number, tenon_dtype_t dtype, void* out);

// The element as a bool, int, float or complex. New reference. Types of 4 bits are refused.
PyObject* read_scalar(tenon_dtype_t dtype, const void* at);

}  // namespace tenon::python

#endif
