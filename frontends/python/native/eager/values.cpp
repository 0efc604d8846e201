// Written against CPython itself: an eager operation makes two of these.
#include "frontends/python/native/eager/values.h"

#include <structmember.h>

#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontends/python/native/eager/eager.h"
#include "frontends/python/native/host/keys.h"

namespace nb = nanobind;

namespace tenon::python {
namespace {

PyTypeObject* g_value_type = nullptr;
PyTypeObject* g_node_type = nullptr;

// ---- Types ----

KeyMap<Type*>& interned() {
  static auto* map = new KeyMap<Type*>;  // outlives the interpreter
  return *map;
}

uint64_t g_next_id = 1;

bool sizes_of(PyObject* shape, std::vector<int64_t>* sizes) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); ++i) {
    PyObject* size = PyTuple_GET_ITEM(shape, i);
    if (!PyLong_Check(size)) return false;
    const int64_t n = PyLong_AsLongLong(size);
    if (n < 0) {
      PyErr_Clear();
      return false;
    }
    sizes->push_back(n);
  }
  return true;
}

// The kind and range of an element type; false with an exception.
bool describe(Type* type, uint64_t* element) {
  const nb::object kind = nb::steal(PyObject_GetAttrString(type->dtype, "kind"));
  const nb::object bits = nb::steal(PyObject_GetAttrString(type->dtype, "bits"));
  if (!kind.is_valid() || !bits.is_valid()) return false;
  const char* text = PyUnicode_AsUTF8(kind.ptr());
  const long width = PyLong_AsLong(bits.ptr());
  if (text == nullptr || width <= 0) return false;
  const std::string_view name(text);
  *element = static_cast<uint64_t>(width) / 8;
  type->kind = name == "bool"              ? Type::kBool
               : name.ends_with("integer") ? Type::kInteger
                                           : Type::kFloat;
  if (type->kind != Type::kInteger) return true;
  const bool is_signed = name.starts_with("signed");
  const int magnitude = static_cast<int>(width) - (is_signed ? 1 : 0);
  type->high = magnitude >= 63 ? INT64_MAX : (int64_t{1} << magnitude) - 1;
  type->low = is_signed ? -type->high - 1 : 0;
  return true;
}

Type* type_new(PyObject* dtype, PyObject* shape) {
  auto* type = new Type{};
  type->dtype = Py_NewRef(dtype);
  type->shape = Py_NewRef(shape);
  type->users = 1;
  uint64_t element = 0;
  if (!describe(type, &element)) {
    release(type);
    return nullptr;
  }
  type->bytes = element;
  return type;
}

// ---- Values ----

Value& of(PyObject* self) {
  return *reinterpret_cast<Value*>(self);
}

int traverse_value(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(of(self).trace);
  Py_VISIT(of(self).node);
  Py_VISIT(of(self).data);
  return 0;
}

// Ends what it waits for.
void leave_node(Value& value) {
  Node* node = std::exchange(value.node, nullptr);
  if (node == nullptr) return;
  node->results()[value.index] = nullptr;
  Py_DECREF(node);
}

int clear_value(PyObject* self) {
  Py_CLEAR(of(self).trace);
  leave_node(of(self));
  Py_CLEAR(of(self).data);
  return 0;
}

void destroy_value(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear_value(self);
  Py_CLEAR(of(self).constant);
  release(of(self).type);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

PyObject* make_value(PyTypeObject*, PyObject* args, PyObject*) {
  PyObject *dtype = nullptr, *shape = nullptr;
  if (PyArg_ParseTuple(args, "OO!:Value", &dtype, &PyTuple_Type, &shape) == 0) return nullptr;
  Type* type = type_of(dtype, shape);
  if (type == nullptr) return nullptr;
  Value* value = value_new(type);
  release(type);
  return reinterpret_cast<PyObject*>(value);
}

PyObject* get_dtype(PyObject* self, void*) {
  return Py_NewRef(of(self).type->dtype);
}

PyObject* get_shape(PyObject* self, void*) {
  return Py_NewRef(of(self).type->shape);
}

PyObject* get_data(PyObject* self, void*) {
  return Py_NewRef(of(self).data == nullptr ? Py_None : of(self).data);
}

int assign_data(PyObject* self, PyObject* data, void*) {
  if (data == nullptr) {
    PyErr_SetString(PyExc_AttributeError, "the data of a value cannot be deleted");
    return -1;
  }
  set_data(&of(self), Py_NewRef(data));
  return 0;
}

PyObject* get_waits(PyObject* self, void*) {
  return PyBool_FromLong(of(self).node != nullptr);
}

PyMemberDef kMembers[] = {{"trace", T_OBJECT, offsetof(Value, trace), 0, nullptr},
                          {"id", T_LONGLONG, offsetof(Value, id), 0, nullptr},
                          {"constant", T_OBJECT, offsetof(Value, constant), 0, nullptr},
                          {"handles", T_LONGLONG, offsetof(Value, handles), READONLY, nullptr},
                          {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef kGetSet[] = {{"dtype", get_dtype, nullptr, nullptr, nullptr},
                         {"shape", get_shape, nullptr, nullptr, nullptr},
                         {"data", get_data, assign_data, nullptr, nullptr},
                         {"waits", get_waits, nullptr, nullptr, nullptr},
                         {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot kValueSlots[] = {
    {Py_tp_new, reinterpret_cast<void*>(make_value)},
    {Py_tp_dealloc, reinterpret_cast<void*>(destroy_value)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse_value)},
    {Py_tp_clear, reinterpret_cast<void*>(clear_value)},
    {Py_tp_members, kMembers},
    {Py_tp_getset, kGetSet},
    {Py_tp_doc, const_cast<char*>("An immutable value: of a trace, waiting, or computed. Arrays "
                                  "are names of values.")},
    {0, nullptr}};

PyType_Spec kValueSpec = {"tenon._native.Value", sizeof(Value), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, kValueSlots};

// ---- Operations ----

int traverse_node(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  for (Value* operand : reinterpret_cast<Node*>(self)->operands()) Py_VISIT(operand);
  return 0;
}

int clear_node(PyObject* self) {
  for (Value*& operand : reinterpret_cast<Node*>(self)->operands()) Py_CLEAR(operand);
  return 0;
}

void destroy_node(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear_node(self);
  release(reinterpret_cast<Node*>(self)->spread);
  release(reinterpret_cast<Node*>(self)->operation);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

PyType_Slot kNodeSlots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(destroy_node)},
                            {Py_tp_traverse, reinterpret_cast<void*>(traverse_node)},
                            {Py_tp_clear, reinterpret_cast<void*>(clear_node)},
                            {0, nullptr}};

PyType_Spec kNodeSpec = {
    "tenon._native.Node", sizeof(Node) - sizeof(Value*), sizeof(Value*),
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, kNodeSlots};

}  // namespace

Type* type_of(PyObject* dtype, PyObject* shape) {
  std::vector<int64_t> sizes;
  if (!sizes_of(shape, &sizes)) return type_new(dtype, shape);
  Key key{reinterpret_cast<uint64_t>(dtype)};
  key.insert(key.end(), sizes.begin(), sizes.end());
  if (const auto found = interned().find(key); found != interned().end())
    return retain(found->second);
  Type* type = type_new(dtype, shape);
  if (type == nullptr) return nullptr;
  for (const int64_t size : sizes) {
    if (__builtin_mul_overflow(type->bytes, static_cast<uint64_t>(size), &type->bytes))
      type->bytes = UINT64_MAX;
  }
  type->id = g_next_id++;
  interned().emplace(std::move(key), retain(type));
  return type;
}

Type* scalar_of(Type* type) {
  if (type->scalar == nullptr) {
    PyObject* none = PyTuple_New(0);
    if (none == nullptr) return nullptr;
    type->scalar = type_of(type->dtype, none);
    Py_DECREF(none);
    // A type that is its own scalar would never end.
    if (type->scalar == type) release(std::exchange(type->scalar, nullptr));
  }
  return retain(type->scalar == nullptr ? type : type->scalar);
}

void release(Type* type) {
  if (type == nullptr || --type->users > 0) return;
  Py_DECREF(type->dtype);
  Py_DECREF(type->shape);
  release(type->scalar);
  delete type;
}

void forget_interned_types() {
  KeyMap<Type*> old;
  old.swap(interned());
  for (const auto& [key, type] : old) release(type);
}

size_t interned_types() {
  return interned().size();
}

Value* value_new(Type* type) {
  auto* value = reinterpret_cast<Value*>(g_value_type->tp_alloc(g_value_type, 0));
  if (value == nullptr) return nullptr;
  value->type = retain(type);
  value->id = -1;
  return value;
}

Node* node_new(Operation* operation, std::span<Value* const> operands, uint32_t results) {
  const auto slots = static_cast<Py_ssize_t>(operands.size() + results);
  auto* node = reinterpret_cast<Node*>(g_node_type->tp_alloc(g_node_type, slots));
  if (node == nullptr) return nullptr;
  node->operation = retain(operation);
  node->operand_count = static_cast<uint32_t>(operands.size());
  node->result_count = results;
  for (size_t i = 0; i < operands.size(); ++i)
    node->slots[i] = reinterpret_cast<Value*>(Py_XNewRef(operands[i]));
  return node;
}

void set_data(Value* value, PyObject* data) {
  Py_XSETREF(value->data, data);
  leave_node(*value);
}

bool is_value(PyObject* object) {
  return Py_TYPE(object) == g_value_type;
}

Value* as_value(PyObject* object) {
  if (!is_value(object)) throw nb::type_error("a value of the tracer is expected");
  return reinterpret_cast<Value*>(object);
}

void bind_values(nb::module_& m) {
  PyObject* value = PyType_FromSpec(&kValueSpec);
  PyObject* node = value == nullptr ? nullptr : PyType_FromSpec(&kNodeSpec);
  if (node == nullptr) throw nb::python_error();
  g_value_type = reinterpret_cast<PyTypeObject*>(value);  // for the process
  g_node_type = reinterpret_cast<PyTypeObject*>(node);
  m.attr("Value") = nb::borrow(value);
}

}  // namespace tenon::python
