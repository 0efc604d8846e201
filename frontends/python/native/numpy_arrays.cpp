#include "frontends/python/native/numpy_arrays.h"

#define NPY_NO_DEPRECATED_API NPY_1_20_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL tenon_python_numpy
#include <nanobind/stl/string.h>
#include <numpy/arrayobject.h>

#include <cstring>

#include "frontends/python/native/arrays.h"
#include "frontends/python/native/host.h"

namespace nb = nanobind;

namespace tenon::python {
namespace {

static_assert(sizeof(npy_intp) == sizeof(int64_t));

PyTypeObject* g_ndarray = nullptr;

void load() {
  if (g_ndarray != nullptr) return;
  if (_import_array() < 0) throw nb::python_error();
  g_ndarray = &PyArray_Type;
}

bool is_named_numpy(PyTypeObject* type) {
  return std::strcmp(type->tp_name, "numpy.ndarray") == 0;
}

tenon_dtype_t dtype_of_number(int number) {
  switch (number) {
    case NPY_BOOL:
      return TENON_PRED;
    case NPY_BYTE:
      return TENON_I8;
    case NPY_SHORT:
      return TENON_I16;
    case NPY_INT:
      return TENON_I32;
    case NPY_LONG:
    case NPY_LONGLONG:
      return TENON_I64;
    case NPY_UBYTE:
      return TENON_U8;
    case NPY_USHORT:
      return TENON_U16;
    case NPY_UINT:
      return TENON_U32;
    case NPY_ULONG:
    case NPY_ULONGLONG:
      return TENON_U64;
    case NPY_HALF:
      return TENON_F16;
    case NPY_FLOAT:
      return TENON_F32;
    case NPY_DOUBLE:
      return TENON_F64;
    case NPY_CFLOAT:
      return TENON_C64;
    case NPY_CDOUBLE:
      return TENON_C128;
    default:
      return TENON_DTYPE_NONE;
  }
}

int number_of_dtype(tenon_dtype_t dtype) {
  switch (dtype) {
    case TENON_PRED:
      return NPY_BOOL;
    case TENON_I8:
      return NPY_INT8;
    case TENON_I16:
      return NPY_INT16;
    case TENON_I32:
      return NPY_INT32;
    case TENON_I64:
      return NPY_INT64;
    case TENON_U8:
      return NPY_UINT8;
    case TENON_U16:
      return NPY_UINT16;
    case TENON_U32:
      return NPY_UINT32;
    case TENON_U64:
      return NPY_UINT64;
    case TENON_F16:
      return NPY_HALF;
    case TENON_F32:
      return NPY_FLOAT;
    case TENON_F64:
      return NPY_DOUBLE;
    case TENON_C64:
      return NPY_CFLOAT;
    case TENON_C128:
      return NPY_CDOUBLE;
    default:
      return -1;
  }
}

// Types that ml_dtypes adds have no number of their own.
struct Added {
  const char* name;
  tenon_dtype_t dtype;
};
constexpr Added kAdded[] = {
    {"bfloat16", TENON_BF16}, {"float8_e4m3fn", TENON_F8E4M3FN}, {"float8_e5m2", TENON_F8E5M2}};

tenon_dtype_t dtype_of_added(PyArray_Descr* descr) {
  const char* full = descr->typeobj->tp_name;
  const char* dot = std::strrchr(full, '.');
  const std::string_view name = dot == nullptr ? full : dot + 1;
  for (const Added& added : kAdded)
    if (name == added.name) return added.dtype;
  return TENON_DTYPE_NONE;
}

std::string name_of(PyArray_Descr* descr) {
  return nb::cast<std::string>(nb::str(nb::handle(reinterpret_cast<PyObject*>(descr))));
}

std::string why_not(PyArray_Descr* descr) {
  const std::string name = name_of(descr);
  if (descr->type_num == NPY_OBJECT)
    return "has elements of type object, which are references to Python objects: convert it, as in "
           "x.astype(\"float32\")";
  if (!PyArray_ISNBO(descr->byteorder))
    return "has elements of type " + name +
           " in the other byte order: x.astype(x.dtype.newbyteorder(\"=\")) converts it";
  return "has elements of type " + name + ", which Tenon does not have";
}

// New reference; null for a type that NumPy lacks, with an exception.
PyArray_Descr* descr_of(tenon_dtype_t dtype) {
  if (const int number = number_of_dtype(dtype); number >= 0) return PyArray_DescrFromType(number);
  for (const Added& added : kAdded) {
    if (added.dtype != dtype) continue;
    PyArray_Descr* descr = nullptr;
    try {
      const nb::object type = nb::module_::import_("ml_dtypes").attr(added.name);
      if (PyArray_DescrConverter(type.ptr(), &descr) != NPY_SUCCEED) throw nb::python_error();
      return descr;
    } catch (nb::python_error& e) {
      if (!e.matches(PyExc_ImportError)) throw;
      raise_usage(TENON_UNIMPLEMENTED, "T0624",
                  std::string("NumPy has no ") + added.name +
                      ": install ml_dtypes, or ask for results=\"tensor\".");
    }
  }
  raise_usage(TENON_UNIMPLEMENTED, "T0624",
              std::string("NumPy has no type for elements of ") + dtype_name(dtype) +
                  ": ask for results=\"tensor\".");
}

}  // namespace

bool is_plain_numpy(PyObject* o) {
  return Py_TYPE(o) == g_ndarray;
}

bool is_numpy(PyObject* o) {
  if (is_plain_numpy(o)) return true;
  if (g_ndarray != nullptr) return PyType_IsSubtype(Py_TYPE(o), g_ndarray) != 0;
  PyObject* order = Py_TYPE(o)->tp_mro;
  for (Py_ssize_t i = 0; order != nullptr && i < PyTuple_GET_SIZE(order); ++i) {
    if (!is_named_numpy(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(order, i)))) continue;
    load();
    return PyType_IsSubtype(Py_TYPE(o), g_ndarray) != 0;
  }
  return false;
}

NumpyView numpy_view(PyObject* o) {
  auto* array = reinterpret_cast<PyArrayObject*>(o);
  NumpyView view;
  PyArray_Descr* descr = PyArray_DESCR(array);
  view.dtype = dtype_of_number(descr->type_num);
  if (view.dtype == TENON_DTYPE_NONE && descr->type_num != NPY_OBJECT)
    view.dtype = dtype_of_added(descr);
  if (!PyArray_ISNBO(descr->byteorder)) view.dtype = TENON_DTYPE_NONE;
  if (view.dtype == TENON_DTYPE_NONE) view.why = why_not(descr);
  view.rank = static_cast<uint32_t>(PyArray_NDIM(array));
  view.data = PyArray_DATA(array);
  view.dims = reinterpret_cast<const int64_t*>(PyArray_DIMS(array));
  view.strides = reinterpret_cast<const int64_t*>(PyArray_STRIDES(array));
  view.dense = PyArray_IS_C_CONTIGUOUS(array);
  view.writable = PyArray_ISWRITEABLE(array);
  return view;
}

PyObject* numpy_over(tenon_dtype_t dtype, uint32_t rank, const int64_t* dims, void* data,
                     bool writable, PyObject* owner) {
  nb::object owned = nb::steal(owner);
  load();
  PyArray_Descr* descr = descr_of(dtype);
  PyObject* array = PyArray_NewFromDescr(&PyArray_Type, descr, static_cast<int>(rank),
                                         reinterpret_cast<const npy_intp*>(dims), nullptr, data,
                                         writable ? NPY_ARRAY_WRITEABLE : 0, nullptr);
  if (array == nullptr) throw nb::python_error();
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array), owned.release().ptr()) != 0) {
    Py_DECREF(array);
    throw nb::python_error();
  }
  return array;
}

PyObject* numpy_empty(tenon_dtype_t dtype, uint32_t rank, const int64_t* dims) {
  load();
  PyArray_Descr* descr = descr_of(dtype);
  PyObject* array =
      PyArray_NewFromDescr(&PyArray_Type, descr, static_cast<int>(rank),
                           reinterpret_cast<const npy_intp*>(dims), nullptr, nullptr, 0, nullptr);
  if (array == nullptr) throw nb::python_error();
  return array;
}

}  // namespace tenon::python
