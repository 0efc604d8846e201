// NumPy's arrays through NumPy's C API. NumPy is not imported here before a caller passes one of
// its arrays, or asks for one.
#ifndef FRONTENDS_PYTHON_NATIVE_ARRAYS_NUMPY_ARRAYS_H_
#define FRONTENDS_PYTHON_NATIVE_ARRAYS_NUMPY_ARRAYS_H_

#include <nanobind/nanobind.h>

#include <string>

#include "tenon/abi/base.h"

namespace tenon::python {

// An array's memory, borrowed from it. Strides are in bytes.
struct NumpyView {
  tenon_dtype_t dtype = TENON_DTYPE_NONE;  // none: `why` says what it is
  uint32_t rank = 0;
  void* data = nullptr;
  const int64_t *dims = nullptr, *strides = nullptr;
  bool dense = false, writable = false;
  std::string why;
};

// True for numpy.ndarray and its subclasses. Loads the C API when it meets the first one.
bool is_numpy(PyObject* o);
// True for numpy.ndarray itself. Never loads.
bool is_plain_numpy(PyObject* o);
NumpyView numpy_view(PyObject* array);

// An array over `data`, which `owner` keeps alive (the reference is taken, also on failure); copies
// nothing. New reference. Raises for element types that NumPy and ml_dtypes do not have.
PyObject* numpy_over(tenon_dtype_t dtype, uint32_t rank, const int64_t* dims, void* data,
                     bool writable, PyObject* owner);
// An array with memory of its own, which is not filled; `data`: where that is. New reference.
// Raises for element types that NumPy and ml_dtypes do not have.
PyObject* numpy_empty(tenon_dtype_t dtype, uint32_t rank, const int64_t* dims,
                      void** data = nullptr);
// Whether NumPy itself has the element type.
bool numpy_has(tenon_dtype_t dtype);

}  // namespace tenon::python

#endif
