// tenon.Tensor: an immutable value that stays on its device, and how the outputs of calls become
// arrays of the user's kind.
#ifndef FRONTENDS_PYTHON_NATIVE_TENSOR_H_
#define FRONTENDS_PYTHON_NATIVE_TENSOR_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "frontends/python/native/arrays.h"
#include "frontends/python/native/dlpack.h"
#include "tenon/abi/call.h"

namespace tenon::python {

// An object whose memory a tensor uses; null once the host has given it back. With the GIL.
struct Loan {
  PyObject* object = nullptr;
};

// Owns a tensor of the host.
class Tensor {
 public:
  // Takes the tensor. `array` is its record, as a call fills it.
  Tensor(tenon_tensor_t* tensor, const tenon_array_t& array);
  explicit Tensor(tenon_tensor_t* tensor, std::shared_ptr<Loan> loan = nullptr);
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor();

  // Null once the collector of cycles has taken it apart.
  tenon_tensor_t* get() const { return tensor_; }
  tenon_dtype_t dtype() const { return dtype_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  uint64_t count() const;
  uint64_t bytes() const;
  std::string places() const;
  // Its elements on the host; the first call may copy them. Raises once it was given up.
  const void* data() const;
  // For the collector: what it keeps alive beside its own memory, and the end of that.
  PyObject* lender() const { return loan_ == nullptr ? nullptr : loan_->object; }
  void give_up();

 private:
  void check() const;

  tenon_tensor_t* tensor_;
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
                       const dlpack::ExchangeTable& table);

void bind_tensor(nanobind::module_& module);

}  // namespace tenon::python

#endif
