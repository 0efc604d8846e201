#include "frontends/python/native/eager/remembered.h"

#include <cstring>

namespace nb = nanobind;

namespace tenon::python {
namespace {

constexpr size_t kRememberedMax = 20000;

// A float as its bits: 0.0 equals -0.0, and NaN not itself. Lists by their elements.
nb::object bits_of(nb::handle value) {
  if (PyFloat_Check(value.ptr())) {
    const double number = PyFloat_AS_DOUBLE(value.ptr());
    uint64_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    return nb::make_tuple("bits", bits);
  }
  if (!PyTuple_Check(value.ptr())) return nb::borrow(value);
  nb::list parts;
  for (const nb::handle part : nb::borrow<nb::tuple>(value)) parts.append(bits_of(part));
  return nb::tuple(parts);
}

nb::object key_of(PyObject* op, PyObject* attrs) {
  if (PyTuple_GET_SIZE(attrs) == 0) return nb::borrow(op);
  return nb::make_tuple(nb::borrow(op), bits_of(attrs));
}

// Puts one into the table. Takes the reference.
void keep_operation(Operation* operation) {
  const nb::object address = nb::steal(PyLong_FromVoidPtr(operation));
  const nb::object key = key_of(operation->op, operation->attrs);
  if (address.is_valid() && PyDict_SetItem(memory().operations, key.ptr(), address.ptr()) == 0)
    return;
  release(operation);
  throw nb::python_error();
}

}  // namespace

Memory& memory() {
  static auto* all = new Memory;  // outlives the interpreter
  return *all;
}

void forget() {
  Memory& m = memory();
  KeyMap<TypeList> results;
  KeyMap<Pair> pairs;
  results.swap(m.results);
  pairs.swap(m.pairs);
  for (const auto& [key, types] : results)
    for (Type* type : types) release(type);
  for (const auto& [key, pair] : pairs) release(pair.result), release(pair.spread);
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(m.operations, &at, &key, &value) != 0)
    release(static_cast<Operation*>(PyLong_AsVoidPtr(value)));
  PyDict_Clear(m.operations);
  for (const QuickOp& op : m.quick) keep_operation(retain(op.operation));  // their numbers stay
  forget_interned_types();
  forget_programs();
}

void forget_if_full() {
  Memory& m = memory();
  if (m.results.size() > kRememberedMax || m.pairs.size() > kRememberedMax ||
      PyDict_GET_SIZE(m.operations) > static_cast<Py_ssize_t>(kRememberedMax) ||
      interned_types() > kRememberedMax) {
    forget();
  }
}

Operation* operation_of(PyObject* op, PyObject* attrs) {
  Memory& m = memory();
  const nb::object key = key_of(op, attrs);
  if (PyObject* found = PyDict_GetItemWithError(m.operations, key.ptr()); found != nullptr)
    return retain(static_cast<Operation*>(PyLong_AsVoidPtr(found)));
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  const Held<Operation> made(new Operation{Py_NewRef(op), Py_NewRef(attrs), m.next++, 1});
  keep_operation(retain(made.get()));
  return retain(made.get());
}

Operation* retain(Operation* operation) {
  ++operation->users;
  return operation;
}

void release(Operation* operation) {
  if (operation == nullptr || --operation->users > 0) return;
  Py_DECREF(operation->op);
  Py_DECREF(operation->attrs);
  delete operation;
}

const QuickOp& quick_op(size_t handle) {
  if (handle >= memory().quick.size()) throw nb::value_error("there is no such quick operation");
  return memory().quick[handle];
}

}  // namespace tenon::python
