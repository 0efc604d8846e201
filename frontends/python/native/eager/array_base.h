// tenon._native.ArrayBase: what of tenon.xp's array is native. Its operators try the quick path,
// and leave the rest to Python's functions.
#ifndef FRONTENDS_PYTHON_NATIVE_EAGER_ARRAY_BASE_H_
#define FRONTENDS_PYTHON_NATIVE_EAGER_ARRAY_BASE_H_

#include <nanobind/nanobind.h>

#include "frontends/python/native/eager/values.h"

namespace tenon::python {

// A name of a value.
struct ArrayBase {
  PyObject_HEAD Value* value;
  char weak;  // it takes the type of the other operand
  PyObject* references;
};

// The value of an array of Python's Array type itself that is not weak; else null. Borrowed.
Value* plain_value(PyObject* object);
// The array that names a value; takes the reference. Null with an exception.
PyObject* array_new(Value* value);

void bind_array_base(nanobind::module_& module);

}  // namespace tenon::python

#endif
