// Written against CPython itself: every eager operation makes one of these.
#define PY_SSIZE_T_CLEAN  // sizes of texts
#include "frontends/python/native/eager/array_base.h"

#include <nanobind/stl/string_view.h>
#include <structmember.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "frontends/python/native/arrays/scalars.h"
#include "frontends/python/native/arrays/tensor.h"
#include "frontends/python/native/eager/eager.h"
#include "frontends/python/native/host/guarded.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tenon::python {
namespace {

PyTypeObject* g_array_type = nullptr;  // Python's Array
Type* g_place_type = nullptr;          // of the number in x[number]

ArrayBase& of(PyObject* self) {
  return *reinterpret_cast<ArrayBase*>(self);
}

// ---- Names of values ----

void name(ArrayBase& array, Value* value) {
  Value* old = array.value;
  Py_INCREF(value);
  ++value->handles;
  array.value = value;
  if (old == nullptr) return;
  --old->handles;
  Py_DECREF(old);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(of(self).value);
  return 0;
}

int clear(PyObject* self) {
  Value* value = std::exchange(of(self).value, nullptr);
  if (value != nullptr) --value->handles;
  Py_XDECREF(value);
  return 0;
}

void destroy(PyObject* self) {
  PyObject_GC_UnTrack(self);
  if (of(self).references != nullptr) PyObject_ClearWeakRefs(self);
  clear(self);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

PyObject* make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* words[] = {"value", "weak", nullptr};
  PyObject* value = nullptr;
  int weak = 0;
  if (PyArg_ParseTupleAndKeywords(args, kwargs, "O|p:Array", const_cast<char**>(words), &value,
                                  &weak) == 0)
    return nullptr;
  if (!is_value(value)) {
    PyErr_SetString(PyExc_TypeError, "arrays are made by the functions of tenon.xp, as xp.asarray");
    return nullptr;
  }
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  of(self).weak = static_cast<char>(weak);
  name(of(self), reinterpret_cast<Value*>(value));
  return self;
}

PyObject* get_value(PyObject* self, void*) {
  return Py_XNewRef(reinterpret_cast<PyObject*>(of(self).value));
}

PyObject* get_dtype(PyObject* self, void*) {
  return Py_NewRef(of(self).value->type->dtype);
}

PyObject* get_shape(PyObject* self, void*) {
  return Py_NewRef(of(self).value->type->shape);
}

PyObject* set(PyObject* self, PyObject* value) {
  if (!is_value(value)) {
    PyErr_SetString(PyExc_TypeError, "an array names a value");
    return nullptr;
  }
  name(of(self), reinterpret_cast<Value*>(value));
  return Py_NewRef(Py_None);
}

// ---- Reading ----

nb::object data_of(PyObject* self) {
  Value* value = of(self).value;
  const nb::object held = nb::borrow(reinterpret_cast<PyObject*>(value));
  if (value->data == nullptr || value->data == Py_None) evaluate({&value, 1});
  return nb::borrow(value->data);
}

PyObject* read(PyObject* self, PyObject*) {
  return guarded([&] { return data_of(self).release().ptr(); });
}

// The only element. Python's methods have checked that it is one.
PyObject* element(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    nb::object data = data_of(self);
    bool donated = false;
    const Tensor* tensor = tensor_of(data.ptr(), &donated);
    if (tensor == nullptr) return data.release().ptr();
    if (tensor->count() != 1) throw nb::type_error("only an array of one element is a number");
    return read_scalar(tensor->dtype(), tensor->data());
  });
}

// ---- Operators ----

struct Operator {
  int64_t quick = -1;        // the number of its quick operation; -1: Python alone
  PyObject* slow = nullptr;  // Python's function of the same meaning
};

enum Slot : uint8_t {
  kAdd,
  kSub,
  kMul,
  kTrueDiv,
  kFloorDiv,
  kMod,
  kPow,
  kMatMul,
  kAnd,
  kOr,
  kXor,
  kLShift,
  kRShift,
  kLt,
  kLe,
  kEq,
  kNe,
  kGt,
  kGe,
  kNeg,
  kPos,
  kAbs,
  kInvert,
  kGetItem,
  kSlots
};  // the comparisons in the order of Py_LT to Py_GE
constexpr std::array<std::string_view, kSlots> kNames = {
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow",    "matmul",
    "and", "or",  "xor", "lshift",  "rshift",   "lt",  "le",     "eq",
    "ne",  "gt",  "ge",  "neg",     "pos",      "abs", "invert", "getitem"};
std::array<Operator, kSlots> g_operators;
PyObject* g_check_in_place = nullptr;

bool is_no_operand(PyObject* object) {
  return object == Py_None || PyUnicode_Check(object) || PyBytes_Check(object) ||
         PyDict_Check(object);
}

PyObject* apply(Slot slot, PyObject* x, PyObject* y) {
  return guarded([&]() -> PyObject* {
    const Operator& op = g_operators[slot];
    if (op.quick >= 0)
      if (Value* value = quick_binary(quick_op(static_cast<size_t>(op.quick)), x, y);
          value != nullptr)
        return array_new(value);
    if (is_no_operand(x) || is_no_operand(y)) return Py_NewRef(Py_NotImplemented);
    PyObject* operands[] = {x, y};
    return PyObject_Vectorcall(op.slow, operands, 2, nullptr);
  });
}

template <Slot slot>
PyObject* binary(PyObject* x, PyObject* y) {
  return apply(slot, x, y);
}

PyObject* power(PyObject* x, PyObject* y, PyObject* modulus) {
  if (modulus != Py_None) return Py_NewRef(Py_NotImplemented);
  return apply(kPow, x, y);
}

template <Slot slot>
PyObject* unary(PyObject* x) {
  return guarded([&]() -> PyObject* {
    const Operator& op = g_operators[slot];
    if (op.quick >= 0)
      if (Value* value = quick_unary(quick_op(static_cast<size_t>(op.quick)), x); value != nullptr)
        return array_new(value);
    return PyObject_CallOneArg(op.slow, x);
  });
}

// x[number] of an array at once: the place is an operand, so one program serves all. Null if Python
// decides.
Value* quick_item(PyObject* self, PyObject* key) {
  Value* value = plain_value(self);
  if (value == nullptr || !PyLong_CheckExact(key) || PyTuple_GET_SIZE(value->type->shape) == 0)
    return nullptr;
  const int64_t size = PyLong_AsLongLong(PyTuple_GET_ITEM(value->type->shape, 0));
  int64_t at = PyLong_AsLongLong(key);
  if (PyErr_Occurred() != nullptr) return PyErr_Clear(), nullptr;
  if (at < 0) at += size;
  if (at < 0 || at >= size) return nullptr;
  const nb::object place = nb::steal(reinterpret_cast<PyObject*>(value_new(g_place_type)));
  if (!place.is_valid()) throw nb::python_error();
  set_data(reinterpret_cast<Value*>(place.ptr()), nb::int_(at).release().ptr());
  const QuickOp& op = quick_op(static_cast<size_t>(g_operators[kGetItem].quick));
  return quick_values(op, value, reinterpret_cast<Value*>(place.ptr()));
}

PyObject* subscript(PyObject* self, PyObject* key) {
  return guarded([&]() -> PyObject* {
    if (Value* value = quick_item(self, key); value != nullptr) return array_new(value);
    PyObject* operands[] = {self, key};
    return PyObject_Vectorcall(g_operators[kGetItem].slow, operands, 2, nullptr);
  });
}

PyObject* compare(PyObject* x, PyObject* y, int how) {
  return apply(static_cast<Slot>(kLt + how), x, y);
}

// The name gets the new value. Numbers cannot be changed, so a weak array stays as it is.
PyObject* in_place(Slot slot, PyObject* self, PyObject* y) {
  // CPython takes the slot of += for that of sequences too, and its NotImplemented for a result.
  if (is_no_operand(y)) {
    PyErr_Format(PyExc_TypeError, "unsupported operand types for %s in place: 'Array' and '%s'",
                 kNames[slot].data(), Py_TYPE(y)->tp_name);
    return nullptr;
  }
  PyObject* result = apply(slot, self, y);
  if (result == nullptr || of(self).weak != 0) return result;
  return guarded([&]() -> PyObject* {
    nb::object made = nb::steal(result);
    if (PyObject_TypeCheck(made.ptr(), g_array_type) == 0) return made.release().ptr();
    Value* value = of(made.ptr()).value;
    if (value->type != of(self).value->type) {
      const std::string_view op = kNames[slot];
      PyObject* checked = PyObject_CallFunction(g_check_in_place, "OOs#", self, made.ptr(),
                                                op.data(), static_cast<Py_ssize_t>(op.size()));
      if (checked == nullptr) return nullptr;
      Py_DECREF(checked);
    }
    name(of(self), value);
    return Py_NewRef(self);
  });
}

template <Slot slot>
PyObject* assign(PyObject* self, PyObject* y) {
  return in_place(slot, self, y);
}

PyObject* assign_power(PyObject* self, PyObject* y, PyObject*) {
  return in_place(kPow, self, y);
}

// The function of an operator, and the number of its quick operation or -1.
void set_operator(std::string_view name, int64_t quick, nb::callable slow) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) throw nb::value_error("there is no such operator");
  Operator& op = g_operators[static_cast<size_t>(found - kNames.begin())];
  op.quick = quick;
  op.slow = slow.release().ptr();
}

PyMemberDef kMembers[] = {
    {"_weak", T_BOOL, offsetof(ArrayBase, weak), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ArrayBase, references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef kGetSet[] = {
    {"_value", get_value, nullptr, nullptr, nullptr},
    {"dtype", get_dtype, nullptr, "The element type, such as `xp.float32`.", nullptr},
    {"shape", get_shape, nullptr,
     "The sizes of the axes. While a function is traced, some may be `Dim`s.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef kMethods[] = {{"_set", set, METH_O, nullptr},
                          {"_read", read, METH_NOARGS, nullptr},
                          {"_element", element, METH_NOARGS, nullptr},
                          {nullptr, nullptr, 0, nullptr}};

template <class F>
void* slot_of(F* function) {
  return reinterpret_cast<void*>(function);
}

PyType_Slot kSlotsOfType[] = {{Py_tp_new, slot_of(make)},
                              {Py_tp_dealloc, slot_of(destroy)},
                              {Py_tp_traverse, slot_of(traverse)},
                              {Py_tp_clear, slot_of(clear)},
                              {Py_tp_hash, slot_of(PyObject_HashNotImplemented)},
                              {Py_tp_richcompare, slot_of(compare)},
                              {Py_tp_members, kMembers},
                              {Py_tp_getset, kGetSet},
                              {Py_tp_methods, kMethods},
                              {Py_mp_subscript, slot_of(subscript)},
                              {Py_nb_add, slot_of(binary<kAdd>)},
                              {Py_nb_subtract, slot_of(binary<kSub>)},
                              {Py_nb_multiply, slot_of(binary<kMul>)},
                              {Py_nb_true_divide, slot_of(binary<kTrueDiv>)},
                              {Py_nb_floor_divide, slot_of(binary<kFloorDiv>)},
                              {Py_nb_remainder, slot_of(binary<kMod>)},
                              {Py_nb_power, slot_of(power)},
                              {Py_nb_matrix_multiply, slot_of(binary<kMatMul>)},
                              {Py_nb_and, slot_of(binary<kAnd>)},
                              {Py_nb_or, slot_of(binary<kOr>)},
                              {Py_nb_xor, slot_of(binary<kXor>)},
                              {Py_nb_lshift, slot_of(binary<kLShift>)},
                              {Py_nb_rshift, slot_of(binary<kRShift>)},
                              {Py_nb_inplace_add, slot_of(assign<kAdd>)},
                              {Py_nb_inplace_subtract, slot_of(assign<kSub>)},
                              {Py_nb_inplace_multiply, slot_of(assign<kMul>)},
                              {Py_nb_inplace_true_divide, slot_of(assign<kTrueDiv>)},
                              {Py_nb_inplace_floor_divide, slot_of(assign<kFloorDiv>)},
                              {Py_nb_inplace_remainder, slot_of(assign<kMod>)},
                              {Py_nb_inplace_power, slot_of(assign_power)},
                              {Py_nb_inplace_matrix_multiply, slot_of(assign<kMatMul>)},
                              {Py_nb_inplace_and, slot_of(assign<kAnd>)},
                              {Py_nb_inplace_or, slot_of(assign<kOr>)},
                              {Py_nb_inplace_xor, slot_of(assign<kXor>)},
                              {Py_nb_inplace_lshift, slot_of(assign<kLShift>)},
                              {Py_nb_inplace_rshift, slot_of(assign<kRShift>)},
                              {Py_nb_negative, slot_of(unary<kNeg>)},
                              {Py_nb_positive, slot_of(unary<kPos>)},
                              {Py_nb_absolute, slot_of(unary<kAbs>)},
                              {Py_nb_invert, slot_of(unary<kInvert>)},
                              {0, nullptr}};

PyType_Spec kSpec = {"tenon._native.ArrayBase", sizeof(ArrayBase), 0,
                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, kSlotsOfType};

}  // namespace

Value* plain_value(PyObject* object) {
  if (Py_TYPE(object) != g_array_type || of(object).weak != 0) return nullptr;
  return of(object).value;
}

PyObject* array_new(Value* value) {
  PyObject* self = g_array_type->tp_alloc(g_array_type, 0);
  if (self != nullptr) name(of(self), value);
  Py_DECREF(value);
  return self;
}

void bind_array_base(nb::module_& m) {
  PyObject* type = PyType_FromSpec(&kSpec);
  if (type == nullptr) throw nb::python_error();
  m.attr("ArrayBase") = nb::steal(type);
  m.def(
      "set_array_type",
      [](nb::handle array, nb::callable check_in_place, nb::handle int64) {
        g_place_type = type_of(int64.ptr(), nb::tuple().ptr());
        if (g_place_type == nullptr) throw nb::python_error();
        g_array_type = reinterpret_cast<PyTypeObject*>(array.inc_ref().ptr());  // for the process
        g_check_in_place = check_in_place.release().ptr();
      },
      "array"_a, "check_in_place"_a, "int64"_a,
      nb::sig("def set_array_type(array: type, check_in_place: Callable[[Any, Any, str], None], "
              "int64: object) -> None"));
  m.def("set_operator", set_operator, "name"_a, "quick"_a, "slow"_a,
        nb::sig("def set_operator(name: str, quick: int, slow: Callable[..., Any]) -> None"));
}

}  // namespace tenon::python
