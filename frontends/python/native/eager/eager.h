// Operations at once (ADR 0043): what was inferred before is repeated here without Python. With the
// GIL only.
#ifndef FRONTENDS_PYTHON_NATIVE_EAGER_EAGER_H_
#define FRONTENDS_PYTHON_NATIVE_EAGER_EAGER_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>

#include "frontends/python/native/eager/values.h"

namespace tenon::python {

// An op with its attributes, one object for each while it is remembered. Counted references.
struct Operation {
  PyObject* op;     // a text
  PyObject* attrs;  // a tuple of (name, kind, value)
  uint64_t id;
  int64_t users;
};

// New reference. Attributes are distinguished by the bits of their floats. Raises.
Operation* operation_of(PyObject* op, PyObject* attrs);
Operation* retain(Operation* operation);
void release(Operation* operation);

// Whether this thread traces a function, or runs a pass.
bool is_tracing();
bool is_in_pass();

// An operation of elements for the quick path: which kinds of elements it is for.
struct QuickOp {
  Operation* operation;
  uint8_t kinds;
};
// The operation with this handle, which Python holds as a number. Raises for other numbers.
const QuickOp& quick_op(size_t handle);

// The value of x op y, or of op x, if the operands are arrays already (or one is an array and the
// other a number that fits its type) and this has been done before with such types. Else null,
// without an exception: Python decides. New reference. Raises what a flush raises.
Value* quick_binary(const QuickOp& op, PyObject* x, PyObject* y);
// The same for two values, whose types decide it alone.
Value* quick_values(const QuickOp& op, Value* a, Value* b);
Value* quick_unary(const QuickOp& op, PyObject* x);

// The value of a result of an operation that waits from now on; a flush if much waits. `types`: of
// all its results, for which there is room in `out`. New references. Raises.
void wait_for(Operation* operation, std::span<Value* const> operands, Type* spread,
              std::span<Type* const> types, Value** out);

// Computes the values that wait, and all that they need, in one program. Raises.
void evaluate(std::span<Value* const> values);

// Programs of flushes are forgotten.
void forget_programs();

void bind_eager(nanobind::module_& module);
void bind_flush(nanobind::module_& module);

}  // namespace tenon::python

#endif
