// Arrays of other libraries as arrays of a call, without copies. Which values are read, and which
// are refused with a reason, is here.
#ifndef FRONTENDS_PYTHON_NATIVE_ARRAYS_ARRAYS_H_
#define FRONTENDS_PYTHON_NATIVE_ARRAYS_ARRAYS_H_

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "frontends/python/native/arrays/dlpack.h"
#include "tenon/abi/call.h"

namespace tenon::python {

class Tensor;

// Whose array it was; results are of the same kind.
// Later ones win over earlier ones: torch's users expect torch's tensors although a mask may have
// come from NumPy.
enum class Kind : uint8_t { kNone, kTensor, kNamespace, kNumpy, kExchange };

// What an argument has to be: for messages, and for Python's scalars, which have no type of their
// own.
struct Expected {
  std::string where;  // "input 'x'"
  tenon_dtype_t dtype = TENON_DTYPE_NONE;
  uint32_t rank = 0;
  bool any = false;  // dtype and rank are open
};

// An argument while a call uses it. What it holds is released by release(), with the GIL.
// A tensor's argument needs its first line of the cache alone: a call may have hundreds.
struct alignas(64) Argument {
  tenon_tensor_t* tensor = nullptr;  // instead of the array
  PyObject* user = nullptr;          // borrowed: the array, of a kind with a table or a namespace
  Kind kind = Kind::kNone;
  bool donated = false;
  bool writable = false;

 private:
  bool has_buffer_ = false;
  Tensor* used_ = nullptr;  // the tensor, as long as the call uses it
  PyObject* held_ = nullptr;

 public:
  tenon_array_t array{};

  // Fails with a Python exception. `o` lives until release(), which the caller sees to.
  void read(PyObject* o, const Expected& expected);
  void release();
  // The tensor, if it is one that the call uses.
  const Tensor* used() const { return used_; }
  uint64_t bytes() const;
  // As read, for an array that is used longer than its library knows: torch could replace the
  // memory of a tensor meanwhile, but not of one that it handed out.
  void read_owning(PyObject* o, const Expected& expected);

  Argument() = default;
  Argument(const Argument&) = delete;
  Argument& operator=(const Argument&) = delete;
  ~Argument() { release(); }

 private:
  bool read_quickly(PyObject* o, const Expected& expected);
  void read_numpy(PyObject* o, const Expected& expected);
  void read_exchange(PyObject* o, const ExchangeTable& table, const Expected& expected);
  bool read_dlpack(PyObject* o, const Expected& expected);
  bool read_buffer(PyObject* o, const Expected& expected);
  bool read_scalar(PyObject* o, const Expected& expected);
  void take(const dlpack::Tensor& tensor, const Expected& expected);
  void use(tenon_dtype_t dtype, uint32_t rank, void* data, const int64_t* dims,
           const int64_t* strides_bytes);
  int64_t* room(uint32_t rank);

  int64_t small_[16];  // dims, then strides, of up to 8 axes
  std::vector<int64_t> large_;
  alignas(16) unsigned char scalar_[16];
  Py_buffer buffer_{};
};

// "f32"; "no type" for 0.
const char* dtype_name(tenon_dtype_t dtype);
uint32_t dtype_bits(tenon_dtype_t dtype);
// 0 if there is none of this name.
tenon_dtype_t dtype_named(std::string_view name);
// "(2, 3)"
std::string shape_text(const int64_t* dims, uint32_t rank);
// True if the strides say that it is dense and row-major.
bool is_dense(const tenon_array_t& array);

// The table of a type, or null. Kept for the last types; the types live as long as the process.
const ExchangeTable* exchange_of(PyTypeObject* type);

}  // namespace tenon::python

#endif
