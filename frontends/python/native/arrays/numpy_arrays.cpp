#include "frontends/python/native/arrays/numpy_arrays.h"

#define NPY_NO_DEPRECATED_API NPY_1_20_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL tenon_python_numpy
#include <nanobind/stl/string.h>
#include <numpy/arrayobject.h>

#include <array>
#include <cstring>

#include "frontends/python/native/arrays/arrays.h"
#include "frontends/python/native/host/host.h"
#include "tenon/cpp/elements.hpp"

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

// NumPy's numbers of types; the first one of a type is for arrays that are made here.
struct Numbered {
  int number;
  tenon_dtype_t dtype;
};
constexpr Numbered kNumbered[] = {
    {NPY_BOOL, TENON_PRED},   {NPY_INT8, TENON_I8},       {NPY_INT16, TENON_I16},
    {NPY_INT32, TENON_I32},   {NPY_INT64, TENON_I64},     {NPY_LONGLONG, TENON_I64},
    {NPY_UINT8, TENON_U8},    {NPY_UINT16, TENON_U16},    {NPY_UINT32, TENON_U32},
    {NPY_UINT64, TENON_U64},  {NPY_ULONGLONG, TENON_U64}, {NPY_HALF, TENON_F16},
    {NPY_FLOAT, TENON_F32},   {NPY_DOUBLE, TENON_F64},    {NPY_CFLOAT, TENON_C64},
    {NPY_CDOUBLE, TENON_C128}};
constexpr size_t kNumbersMax = 32;  // of NumPy's own types

// Every call asks for this, so it is a table.
tenon_dtype_t dtype_of_number(int number) {
  static constexpr auto table = [] {
    std::array<tenon_dtype_t, kNumbersMax> all{};
    for (const Numbered& type : kNumbered) all[static_cast<size_t>(type.number)] = type.dtype;
    return all;
  }();
  const auto at = static_cast<size_t>(number);
  return at < table.size() ? table[at] : TENON_DTYPE_NONE;
}

// The same the other way.
int number_of_dtype(tenon_dtype_t dtype) {
  static constexpr auto table = [] {
    std::array<int, elements::kDtypeEnd> all{};
    all.fill(-1);
    for (size_t i = std::size(kNumbered); i-- > 0;) all[kNumbered[i].dtype] = kNumbered[i].number;
    return all;
  }();
  return dtype < table.size() ? table[dtype] : -1;
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

bool numpy_has(tenon_dtype_t dtype) {
  return number_of_dtype(dtype) >= 0;
}

PyObject* numpy_empty(tenon_dtype_t dtype, uint32_t rank, const int64_t* dims, void** data) {
  load();
  PyArray_Descr* descr = descr_of(dtype);
  PyObject* array =
      PyArray_NewFromDescr(&PyArray_Type, descr, static_cast<int>(rank),
                           reinterpret_cast<const npy_intp*>(dims), nullptr, nullptr, 0, nullptr);
  if (array == nullptr) throw nb::python_error();
  if (data != nullptr) *data = PyArray_DATA(reinterpret_cast<PyArrayObject*>(array));
  return array;
}

}  // namespace tenon::python
