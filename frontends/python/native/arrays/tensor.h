// tenon.Tensor: an immutable value that stays on its device, and how the outputs of calls become
// arrays of the user's kind.
#ifndef FRONTENDS_PYTHON_NATIVE_ARRAYS_TENSOR_H_
#define FRONTENDS_PYTHON_NATIVE_ARRAYS_TENSOR_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "frontends/python/native/arrays/arrays.h"
#include "frontends/python/native/arrays/dlpack.h"
#include "tenon/abi/call.h"

namespace tenon::python {

// An object whose memory a tensor uses; null once the host has given it back. With the GIL.
struct Loan {
  PyObject* object = nullptr;
};

// A stream of another library: the one on which the library worked when the tensor was made. The
// tensor's memory may be used after the work there. 0: the default stream. An empty kind: the
// memory may be used at once.
struct WorkStream {
  std::string device;
  const char* kind;
  uint64_t handle;
  // Gives the stream on which the library works now; null if the library does not say.
  const ExchangeTable* library;
  dlpack::Device place;
};

// Owns a tensor of the host.
class Tensor {
 public:
  // Takes the tensor. `array` is its record, as a call fills it.
  Tensor(tenon_tensor_t* tensor, const tenon_array_t& array);
  explicit Tensor(tenon_tensor_t* tensor, std::shared_ptr<Loan> loan = nullptr);
  // Memory of another library on a device (device_memory.h).
  Tensor(tenon_tensor_t* tensor, WorkStream stream);
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor();

  // Null once the collector of cycles has taken it apart.
  tenon_tensor_t* get() const { return tensor_; }
  tenon_dtype_t dtype() const { return dtype_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  uint64_t count() const;
  uint64_t bytes() const { return bytes_; }
  std::string places() const;
  // Its elements on the host; the first call may copy them. Raises once it was given up.
  const void* data() const;
  // A call uses it from here to end_use(): many may read it, or one may use it up. False: another
  // one stands in the way. With the GIL.
  bool begin_use(bool donated);
  void end_use() { uses_ = uses_ == kDonated ? 0 : uses_ - 1; }
  // For the collector: what it keeps alive besides its own memory, and the end of that.
  PyObject* lender() const { return loan_ == nullptr ? nullptr : loan_->object; }
  void give_up();
  // Where calls that use it have to go.
  const WorkStream* stream() const { return stream_.get(); }

 private:
  static constexpr int64_t kDonated = -1;
  void check() const;

  tenon_tensor_t* tensor_;
  // What each call asks for is in one line of the cache.
  int64_t uses_ = 0;  // calls that read it, or kDonated
  std::unique_ptr<const WorkStream> stream_;
  uint64_t bytes_;
  std::shared_ptr<Loan> loan_;
  tenon_dtype_t dtype_;
  std::vector<int64_t> dims_;
};

// A tensor that a call may use up.
struct Donated {
  nanobind::object tensor;
};

// The tensor of a tenon.Tensor, or of what donate() gave; null for other objects.
Tensor* tensor_of(PyObject* o, bool* donated);

// ---- Outputs as arrays. Each takes the tensor, also on failure, and gives a new reference. ----

PyObject* as_tensor(tenon_tensor_t* tensor, const tenon_array_t& array);
PyObject* as_numpy(tenon_tensor_t* tensor, const tenon_array_t& array);
// By the table of a type: torch and others.
PyObject* as_exchanged(tenon_tensor_t* tensor, const tenon_array_t& array,
                       const ExchangeTable& table);

// Memory that a small result was made in, instead of a tensor's.
class Block {
 public:
  static constexpr size_t kAlignment = 64;
  // Where the result goes.
  void* allocate(size_t bytes);
  explicit operator bool() const { return memory_ != nullptr; }
  void reset() { memory_.reset(); }

 private:
  std::unique_ptr<std::byte[]> memory_;
};
// The same for an array in a block.
PyObject* as_exchanged(Block block, const tenon_array_t& array, const ExchangeTable& table);

void bind_tensor(nanobind::module_& module);
// What shows most writes to memory (samples.cpp).
void bind_samples(nanobind::module_& module);

}  // namespace tenon::python

#endif
