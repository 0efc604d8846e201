// What waits to be computed: types, values and operations of the eager path (ADR 0043). Python sees
// values; operations are native alone. All of it is used with the GIL only.
#ifndef FRONTENDS_PYTHON_NATIVE_EAGER_VALUES_H_
#define FRONTENDS_PYTHON_NATIVE_EAGER_VALUES_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>

namespace tenon::python {

// An element type with a shape. One object for each, as long as it is remembered, if all sizes are
// numbers; `id` is 0 if one is a symbol. Counted references.
struct Type {
  PyObject* dtype;
  PyObject* shape;  // a tuple
  enum : uint8_t { kBool = 1, kInteger = 2, kFloat = 4 };
  uint8_t kind;
  int64_t low, high;  // of integers up to 64 bits with sign; numbers beyond take the slow path
  uint64_t bytes;     // all ones if it is more than that
  uint64_t id;
  Type* scalar;  // the same elements without axes, once it was asked for; counted
  int64_t users;
};

// New references; null with an exception.
Type* type_of(PyObject* dtype, PyObject* shape);
Type* scalar_of(Type* type);
inline Type* retain(Type* type) {
  if (type != nullptr) ++type->users;
  return type;
}
void release(Type* type);
// Drops the table of types. Those in use stay, and get no new users.
void forget_interned_types();
// How many are in the table.
size_t interned_types();

struct Node;
struct Operation;

// An immutable value: of a trace, waiting, or computed. tenon._native.Value.
struct Value {
  PyObject_HEAD Type* type;
  PyObject* trace;     // a GraphTrace, or null
  int64_t id;          // in that trace
  Node* node;          // what it waits for, or null
  uint32_t index;      // among the node's results
  PyObject* data;      // a tenon.Tensor or a number, or null
  PyObject* constant;  // the number that all elements are, or null
  int64_t handles;     // arrays that are names of it
  uint64_t flush;      // the last flush that met it
  int64_t number;      // in that flush
};

// An operation that waits: its operands (null: absent), then its results, which are borrowed and
// null once dead, so that unneeded values are freed at once.
struct Node {
  PyObject_VAR_HEAD Operation* operation;  // counted
  uint32_t operand_count, result_count;
  uint32_t count;  // nodes that wait for it, itself included: a bound
  uint64_t size;   // bytes of its results
  uint64_t bytes;  // of all nodes that wait: a bound
  Type* spread;    // the shape that all operands are repeated to first, or null; counted
  uint64_t flush;
  int64_t place;    // in that flush
  Value* slots[1];  // operand_count + result_count
  std::span<Value*> operands() { return {slots, operand_count}; }
  std::span<Value*> results() { return {slots + operand_count, result_count}; }
};

// New references; null with an exception. They take no reference away from the caller.
Value* value_new(Type* type);
Node* node_new(Operation* operation, std::span<Value* const> operands, uint32_t results);

// It is computed: takes the reference to its data, and drops what it waited for.
void set_data(Value* value, PyObject* data);

bool is_value(PyObject* object);
// Raises TypeError if it is not a value.
Value* as_value(PyObject* object);

void bind_values(nanobind::module_& module);

}  // namespace tenon::python

#endif
