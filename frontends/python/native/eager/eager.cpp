#include "frontends/python/native/eager/eager.h"

#include <nanobind/stl/string.h>

#include <vector>

#include "frontends/python/native/eager/array_base.h"
#include "frontends/python/native/eager/remembered.h"
#include "frontends/python/native/host/host.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tenon::python {
namespace {

constexpr uint32_t kNodesMax = 64;
constexpr uint64_t kBytesMax = uint64_t{1} << 28;

thread_local int t_traces = 0, t_passes = 0;

bool is_traced(const Value* value) {
  return value->trace != nullptr && value->trace != Py_None;
}

[[noreturn]] void refuse_kept() {
  raise_usage(TENON_INVALID_ARGUMENT, "T0627",
              "this array was kept from a function that was traced and has returned. Return it "
              "from the function.");
}

// ---- Waiting ----

struct Waiting {
  uint32_t count = 0;
  uint64_t bytes = 0;
};

uint64_t g_walk = uint64_t{1} << 63;  // apart from the numbers of flushes

// What waits for this value, counted once: bounds count what two operands share twice.
Waiting count_waiting(Value* value) {
  const uint64_t walk = ++g_walk;
  Waiting all;
  std::vector<Value*> stack{value};
  while (!stack.empty()) {
    Node* node = stack.back()->node;
    stack.pop_back();
    if (node == nullptr || node->flush == walk) continue;
    node->flush = walk;
    ++all.count;
    all.bytes += node->size;
    for (Value* operand : node->operands())
      if (operand != nullptr) stack.push_back(operand);
  }
  return all;
}

uint64_t sum_of(uint64_t a, uint64_t b) {
  uint64_t out = 0;
  return __builtin_add_overflow(a, b, &out) ? UINT64_MAX : out;
}

void count_operands(Node* node) {
  node->count = 1;
  node->bytes = node->size;
  for (const Value* operand : node->operands()) {
    if (operand == nullptr || operand->node == nullptr) continue;
    node->count += operand->node->count;
    node->bytes = sum_of(node->bytes, operand->node->bytes);
  }
}

bool is_much(const Node* node) {
  return node->count >= kNodesMax || node->bytes >= kBytesMax;
}

void flush_if_much(Node* node, std::span<Value* const> results) {
  if (!is_much(node) || results.empty()) return;
  const Waiting all = count_waiting(results[0]);
  node->count = all.count;
  node->bytes = all.bytes;
  if (is_much(node)) evaluate(results);
}

// ---- Numbers as operands of arrays ----

// The number as an element of this type: new reference, or null if it is not sure to fit.
PyObject* fitting(PyObject* number, const Type* type) {
  if (PyFloat_CheckExact(number)) return type->kind == Type::kFloat ? Py_NewRef(number) : nullptr;
  if (PyBool_Check(number)) return type->kind == Type::kBool ? Py_NewRef(number) : nullptr;
  if (!PyLong_CheckExact(number)) return nullptr;
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow != 0) return nullptr;
  if (type->kind == Type::kFloat) return PyFloat_FromDouble(static_cast<double>(value));
  const bool fits = type->kind == Type::kInteger && value >= type->low && value <= type->high;
  return fits ? Py_NewRef(number) : nullptr;
}

Value* number_of_type(PyObject* number, Type* type) {
  PyObject* data = fitting(number, type);
  if (data == nullptr) return nullptr;
  Type* scalar = scalar_of(type);
  Value* value = scalar == nullptr ? nullptr : value_new(scalar);
  release(scalar);
  if (value == nullptr) {
    Py_DECREF(data);
    throw nb::python_error();
  }
  value->data = data;
  value->constant = Py_NewRef(number);
  return value;
}

nb::object owned(Value* value) {
  return nb::steal(reinterpret_cast<PyObject*>(value));
}

// ---- For Python ----

// Values of a sequence; None is absent.
std::vector<Value*> values_of(const nb::sequence& sequence) {
  std::vector<Value*> list;
  for (const nb::handle item : sequence)
    list.push_back(item.is_none() ? nullptr : as_value(item.ptr()));
  return list;
}

Key result_key(const Operation* operation, std::span<Value* const> operands, const Type* all) {
  Key key{operation->id};
  for (const Value* operand : operands)
    key.push_back(operand == nullptr ? 0 : all != nullptr ? all->id : operand->type->id);
  return key;
}

nb::object waiting(Operation* operation, std::span<Value* const> operands, Type* spread,
                   const TypeList& types) {
  const TypeList copy(types);  // a flush may forget them
  for (Type* type : copy) retain(type);
  std::vector<Value*> out(copy.size());
  struct Done {
    const TypeList& types;
    ~Done() {
      for (Type* type : types) release(type);
    }
  } done{copy};
  wait_for(operation, operands, spread, copy, out.data());
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(out.size())));
  for (size_t i = 0; i < out.size(); ++i)
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), reinterpret_cast<PyObject*>(out[i]));
  return tuple;
}

// The results of an operation that waits; None if its types are not known yet, and False if they
// depend on values.
nb::object eager(const nb::str& op, const nb::sequence& operands, const nb::tuple& attrs) {
  const std::vector<Value*> values = values_of(operands);
  for (const Value* value : values)
    if (value != nullptr && is_traced(value)) refuse_kept();
  const Held<Operation> operation(operation_of(op.ptr(), attrs.ptr()));
  const auto found = memory().results.find(result_key(operation.get(), values, nullptr));
  if (found == memory().results.end()) return nb::none();
  if (found->second.empty()) return nb::bool_(false);
  return waiting(operation.get(), values, nullptr, found->second);
}

void remember_pair(const Operation* operation, std::span<Value* const> values, Type* result,
                   Type* spread) {
  if (values.size() != 2 || values[0] == nullptr || values[1] == nullptr) return;
  Key key{operation->id, values[0]->type->id, values[1]->type->id};
  if (memory().pairs.contains(key)) return;
  memory().pairs.emplace(std::move(key), Pair{retain(result), retain(spread)});
}

// The same for one result, of operands that are repeated to a shape first.
nb::object eager_spread(const nb::str& op, const nb::sequence& operands, const nb::tuple& shape,
                        const nb::tuple& attrs) {
  const std::vector<Value*> values = values_of(operands);
  const Held<Operation> operation(operation_of(op.ptr(), attrs.ptr()));
  const Held<Type> all(type_of(values.at(0)->type->dtype, shape.ptr()));
  if (all.get() == nullptr) throw nb::python_error();
  bool same = true;
  for (const Value* value : values) {
    if (is_traced(value)) refuse_kept();
    same = same && value->type == all.get();
  }
  Type* spread = same ? nullptr : all.get();
  const auto found = memory().results.find(result_key(operation.get(), values, all.get()));
  if (found == memory().results.end()) return nb::none();
  if (found->second.size() != 1) throw nb::type_error("an op of elements has one result");
  remember_pair(operation.get(), values, found->second[0], spread);
  return waiting(operation.get(), values, spread, found->second)[0];
}

// What the host inferred for operands of these types: (dtype, shape) of each result, or None if
// they depend on values.
void learn(const nb::str& op, const nb::sequence& operands, const nb::tuple& attrs,
           const nb::object& types) {
  const std::vector<Value*> values = values_of(operands);
  const Held<Operation> operation(operation_of(op.ptr(), attrs.ptr()));
  TypeList results;
  if (!types.is_none()) {
    for (const nb::handle item : types) {
      const nb::tuple pair = nb::cast<nb::tuple>(item);
      Type* type = type_of(nb::object(pair[0]).ptr(), nb::object(pair[1]).ptr());
      if (type == nullptr) throw nb::python_error();
      results.push_back(type);
    }
  }
  TypeList& kept = memory().results[result_key(operation.get(), values, nullptr)];
  kept.swap(results);
  for (Type* type : results) release(type);
}

size_t add_quick_op(const nb::str& op, const nb::tuple& attrs, uint8_t kinds) {
  memory().quick.push_back({operation_of(op.ptr(), attrs.ptr()), kinds});
  return memory().quick.size() - 1;
}

nb::object array_or_none(Value* value) {
  if (value == nullptr) return nb::none();
  PyObject* array = array_new(value);
  if (array == nullptr) throw nb::python_error();
  return nb::steal(array);
}

}  // namespace

bool is_tracing() {
  return t_traces > 0;
}

bool is_in_pass() {
  return t_passes > 0;
}

Value* quick_binary(const QuickOp& op, PyObject* x, PyObject* y) {
  if (t_traces > 0) return nullptr;
  Value *a = plain_value(x), *b = plain_value(y);
  if (a == nullptr && b == nullptr) return nullptr;
  nb::object number;
  if (a == nullptr) number = owned(a = number_of_type(x, b->type));
  if (b == nullptr) number = owned(b = number_of_type(y, a->type));
  if (a == nullptr || b == nullptr || is_traced(a) || is_traced(b)) return nullptr;
  if (a->type->dtype != b->type->dtype || (a->type->kind & op.kinds) == 0) return nullptr;
  const uint64_t key[] = {op.operation->id, a->type->id, b->type->id};
  const auto found = memory().pairs.find(Words(key));
  if (found == memory().pairs.end()) return nullptr;
  const Held<Type> result(retain(found->second.result)), spread(retain(found->second.spread));
  Value *operands[] = {a, b}, *out = nullptr;
  Type* types[] = {result.get()};
  wait_for(op.operation, operands, spread.get(), types, &out);
  return out;
}

Value* quick_values(const QuickOp& op, Value* a, Value* b) {
  if (t_traces > 0 || is_traced(a) || is_traced(b)) return nullptr;
  const uint64_t key[] = {op.operation->id, a->type->id, b->type->id};
  const auto found = memory().results.find(Words(key));
  if (found == memory().results.end() || found->second.size() != 1) return nullptr;
  const Held<Type> result(retain(found->second[0]));
  Value *operands[] = {a, b}, *out = nullptr;
  Type* types[] = {result.get()};
  wait_for(op.operation, operands, nullptr, types, &out);
  return out;
}

Value* quick_unary(const QuickOp& op, PyObject* x) {
  Value* a = t_traces > 0 ? nullptr : plain_value(x);
  if (a == nullptr || is_traced(a) || (a->type->kind & op.kinds) == 0) return nullptr;
  const uint64_t key[] = {op.operation->id, a->type->id};
  const auto found = memory().results.find(Words(key));
  if (found == memory().results.end() || found->second.size() != 1) return nullptr;
  const Held<Type> result(retain(found->second[0]));
  Value *operands[] = {a}, *out = nullptr;
  Type* types[] = {result.get()};
  wait_for(op.operation, operands, nullptr, types, &out);
  return out;
}

void wait_for(Operation* operation, std::span<Value* const> operands, Type* spread,
              std::span<Type* const> types, Value** out) {
  Node* node = node_new(operation, operands, static_cast<uint32_t>(types.size()));
  if (node == nullptr) throw nb::python_error();
  const nb::object held = nb::steal(reinterpret_cast<PyObject*>(node));
  node->spread = retain(spread);
  std::vector<nb::object> made;
  if (types.size() > 1) made.reserve(types.size());
  for (uint32_t i = 0; i < types.size(); ++i) {
    Value* value = value_new(types[i]);
    if (value == nullptr) throw nb::python_error();
    made.push_back(owned(value));
    value->node = reinterpret_cast<Node*>(Py_NewRef(node));
    value->index = i;
    node->results()[i] = value;
    node->size = sum_of(node->size, types[i]->bytes);
    out[i] = value;
  }
  count_operands(node);
  flush_if_much(node, {out, types.size()});
  for (nb::object& value : made) value.release();
}

void bind_eager(nb::module_& m) {
  m.def("traces", [](int more) { t_traces += more; }, "more"_a);
  m.def("passes", [](int more) { t_passes += more; }, "more"_a);
  m.def("eager", eager, "op"_a, "operands"_a, "attrs"_a,
        nb::sig("def eager(op: str, operands: Sequence[Value | None], attrs: tuple[tuple[str, int, "
                "Any], ...]) -> tuple[Value, ...] | bool | None"));
  m.def("eager_spread", eager_spread, "op"_a, "operands"_a, "shape"_a, "attrs"_a,
        nb::sig("def eager_spread(op: str, operands: Sequence[Value], shape: tuple[int, ...], "
                "attrs: tuple[tuple[str, int, Any], ...]) -> Value | None"));
  m.def("learn", learn, "op"_a, "operands"_a, "attrs"_a, "types"_a.none(),
        nb::sig("def learn(op: str, operands: Sequence[Value | None], attrs: tuple[tuple[str, int, "
                "Any], ...], types: Sequence[tuple[object, tuple[int, ...]]] | None) -> None"));
  m.def("forget", forget);
  m.def("make_room", forget_if_full);
  m.def("remembered", [] { return memory().results.size(); });
  m.def("quick_op", add_quick_op, "op"_a, "attrs"_a, "kinds"_a,
        nb::sig("def quick_op(op: str, attrs: tuple[tuple[str, int, Any], ...], kinds: int) -> "
                "int"));
  m.def(
      "quick_unary",
      [](size_t op, nb::handle x) { return array_or_none(quick_unary(quick_op(op), x.ptr())); },
      "op"_a, "x"_a.none(), nb::sig("def quick_unary(op: int, x: object) -> Any"));
  m.def(
      "quick_binary",
      [](size_t op, nb::handle x, nb::handle y) {
        return array_or_none(quick_binary(quick_op(op), x.ptr(), y.ptr()));
      },
      "op"_a, "x"_a.none(), "y"_a.none(),
      nb::sig("def quick_binary(op: int, x: object, y: object) -> Any"));
}

}  // namespace tenon::python
