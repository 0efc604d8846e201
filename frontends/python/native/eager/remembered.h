// What is remembered of operations at once: the types of their results, by the types of their
// operands. With the GIL only.
#ifndef FRONTENDS_PYTHON_NATIVE_EAGER_REMEMBERED_H_
#define FRONTENDS_PYTHON_NATIVE_EAGER_REMEMBERED_H_

#include <vector>

#include "frontends/python/native/eager/eager.h"
#include "frontends/python/native/host/keys.h"

namespace tenon::python {

// Types of results; empty if they depend on values.
using TypeList = std::vector<Type*>;

// Of an operation on two operands.
struct Pair {
  Type* result;
  Type* spread;  // null: the operands have this shape
};

// All of it, for the process. forget() empties it.
struct Memory {
  PyObject* operations = PyDict_New();  // by (op, attributes), or by op: a number of an address
  KeyMap<TypeList> results;             // by operation and types of operands
  KeyMap<Pair> pairs;                   // by operation and both types, before they are repeated
  std::vector<QuickOp> quick;
  uint64_t next = 1;
};

Memory& memory();
// Operations, types, results and programs: ids are never used again.
void forget();
// The same if there is much, so that a program whose sizes never repeat does not fill the memory.
void forget_if_full();

// Releases on every way out.
template <class T>
struct Held {
  T* held;
  explicit Held(T* taken) : held(taken) {}
  Held(const Held&) = delete;
  ~Held() { release(held); }
  T* get() const { return held; }
};

}  // namespace tenon::python

#endif
