// Written against CPython itself: a call makes one of these, and it has to cost less than the call.
#include "frontends/python/native/program/results.h"

#include <structmember.h>

#include "frontends/python/native/host/host.h"

namespace nb = nanobind;

namespace tenon::python {
namespace {

struct Results {
  PyObject_VAR_HEAD PyObject* names;
  PyObject* values[1];
};

PyTypeObject* g_type = nullptr;

Results& of(PyObject* self) {
  return *reinterpret_cast<Results*>(self);
}

void destroy(PyObject* self) {
  Results& r = of(self);
  for (Py_ssize_t i = 0; i < Py_SIZE(self); ++i) Py_XDECREF(r.values[i]);
  Py_XDECREF(r.names);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

Py_ssize_t length(PyObject* self) {
  return Py_SIZE(self);
}

PyObject* at(PyObject* self, Py_ssize_t i) {
  if (i < 0 || i >= Py_SIZE(self)) {
    if (Py_SIZE(self) == 1)
      PyErr_SetString(PyExc_IndexError, "there is one result, number 0");
    else
      PyErr_Format(PyExc_IndexError, "there are %zd results, numbered from 0", Py_SIZE(self));
    return nullptr;
  }
  PyObject* value = of(self).values[i];
  Py_INCREF(value);
  return value;
}

Py_ssize_t index_of(PyObject* self, PyObject* name) {
  for (Py_ssize_t i = 0; i < Py_SIZE(self); ++i)
    if (PyUnicode_Compare(PyTuple_GET_ITEM(of(self).names, i), name) == 0) return i;
  return -1;
}

void refuse_name(PyObject* self, PyObject* name) {
  PyObject* errors = PyImport_ImportModule("tenon._errors");
  if (errors == nullptr) return;
  PyObject* error = PyObject_CallMethod(errors, "no_result", "OO", name, of(self).names);
  Py_DECREF(errors);
  if (error == nullptr) return;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
}

PyObject* subscript(PyObject* self, PyObject* key) {
  if (PyUnicode_Check(key)) {
    const Py_ssize_t i = index_of(self, key);
    if (i >= 0) return at(self, i);
    refuse_name(self, key);
    return nullptr;
  }
  if (PySlice_Check(key)) {
    PyObject* all = PySequence_Tuple(self);
    PyObject* part = all == nullptr ? nullptr : PyObject_GetItem(all, key);
    Py_XDECREF(all);
    return part;
  }
  const Py_ssize_t i = PyNumber_AsSsize_t(key, PyExc_IndexError);
  if (i == -1 && PyErr_Occurred() != nullptr) return nullptr;
  return at(self, i < 0 ? i + Py_SIZE(self) : i);
}

PyObject* keys(PyObject* self, PyObject*) {
  Py_INCREF(of(self).names);
  return of(self).names;
}

PyObject* values(PyObject* self, PyObject*) {
  return PySequence_Tuple(self);
}

PyObject* items(PyObject* self, PyObject*) {
  PyObject* list = PyTuple_New(Py_SIZE(self));
  for (Py_ssize_t i = 0; list != nullptr && i < Py_SIZE(self); ++i) {
    PyObject* pair = PyTuple_Pack(2, PyTuple_GET_ITEM(of(self).names, i), of(self).values[i]);
    if (pair == nullptr) Py_CLEAR(list);
    if (list != nullptr) PyTuple_SET_ITEM(list, i, pair);
  }
  return list;
}

PyObject* get(PyObject* self, PyObject* args) {
  PyObject *name = nullptr, *otherwise = Py_None;
  if (PyArg_ParseTuple(args, "U|O:get", &name, &otherwise) == 0) return nullptr;
  const Py_ssize_t i = index_of(self, name);
  if (i >= 0) return at(self, i);
  Py_INCREF(otherwise);
  return otherwise;
}

PyObject* repr(PyObject* self) {
  PyObject* pairs = items(self, nullptr);
  PyObject* dict = pairs == nullptr ? nullptr : PyDict_New();
  if (dict != nullptr && PyDict_MergeFromSeq2(dict, pairs, 1) != 0) Py_CLEAR(dict);
  Py_XDECREF(pairs);
  PyObject* text = dict == nullptr ? nullptr : PyUnicode_FromFormat("tenon.Results(%R)", dict);
  Py_XDECREF(dict);
  return text;
}

// Pickled as names and values, whose own types see to themselves.
PyObject* reduce(PyObject* self, PyObject*) {
  PyObject* all = PySequence_Tuple(self);
  if (all == nullptr) return nullptr;
  return Py_BuildValue("O(ON)", reinterpret_cast<PyObject*>(Py_TYPE(self)), of(self).names, all);
}

PyObject* make(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* words[] = {"names", "values", nullptr};
  PyObject *names = nullptr, *list = nullptr;
  if (PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!:Results", const_cast<char**>(words),
                                  &PyTuple_Type, &names, &PyTuple_Type, &list) == 0)
    return nullptr;
  const Py_ssize_t count = PyTuple_GET_SIZE(list);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    if (!PyUnicode_Check(PyTuple_GET_ITEM(names, i))) {
      PyErr_SetString(PyExc_TypeError, "names are texts");
      return nullptr;
    }
  }
  if (PyTuple_GET_SIZE(names) != count) {
    PyErr_SetString(PyExc_ValueError, "there must be as many names as values");
    return nullptr;
  }
  PyObject* self = results_new(names, count);
  for (Py_ssize_t i = 0; self != nullptr && i < count; ++i) {
    PyObject* value = PyTuple_GET_ITEM(list, i);
    Py_INCREF(value);
    results_set(self, i, value);
  }
  return self;
}

PyMethodDef kMethods[] = {
    {"keys", keys, METH_NOARGS, "The names of the results, in the model's order."},
    {"values", values, METH_NOARGS, "The results, in the model's order."},
    {"items", items, METH_NOARGS, "Pairs of a name and a result."},
    {"get", get, METH_VARARGS, "The result of a name, or `default`."},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

constexpr const char* kDoc =
    "The outputs of a call: `y[0]`, `y[\"logits\"]`, `a, b = y`. Iterates over values.";

PyType_Slot kSlots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(destroy)},
                        {Py_tp_new, reinterpret_cast<void*>(make)},
                        {Py_tp_repr, reinterpret_cast<void*>(repr)},
                        {Py_tp_iter, reinterpret_cast<void*>(PySeqIter_New)},
                        {Py_tp_methods, kMethods},
                        {Py_tp_doc, const_cast<char*>(kDoc)},
                        {Py_sq_length, reinterpret_cast<void*>(length)},
                        {Py_sq_item, reinterpret_cast<void*>(at)},
                        {Py_mp_length, reinterpret_cast<void*>(length)},
                        {Py_mp_subscript, reinterpret_cast<void*>(subscript)},
                        {0, nullptr}};

PyType_Spec kSpec = {"tenon._native.Results", sizeof(Results) - sizeof(PyObject*),
                     sizeof(PyObject*), Py_TPFLAGS_DEFAULT, kSlots};

}  // namespace

PyObject* results_new(PyObject* names, Py_ssize_t count) {
  PyObject* self = g_type->tp_alloc(g_type, count);
  if (self == nullptr) return nullptr;
  Py_INCREF(names);
  of(self).names = names;
  return self;
}

void results_set(PyObject* results, Py_ssize_t index, PyObject* value) {
  of(results).values[index] = value;
}

void bind_results(nb::module_& m) {
  PyObject* type = PyType_FromSpec(&kSpec);
  if (type == nullptr) throw nb::python_error();
  g_type = reinterpret_cast<PyTypeObject*>(type);  // for the process; modules are not unloaded
  m.attr("Results") = nb::borrow(type);
}

}  // namespace tenon::python
