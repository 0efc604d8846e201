// Capsules: objects that Python owns, and DLPack's tensors on their way between libraries.
#ifndef FRONTENDS_PYTHON_NATIVE_ARRAYS_CAPSULES_H_
#define FRONTENDS_PYTHON_NATIVE_ARRAYS_CAPSULES_H_

#include <nanobind/nanobind.h>

#include <memory>
#include <string_view>
#include <type_traits>

#include "frontends/python/native/arrays/dlpack.h"
#include "frontends/python/native/arrays/tensor.h"
#include "frontends/python/native/host/host.h"

namespace tenon::python {

// A capsule of this name with an object, on which it calls End when it goes. Takes the object, also
// when it raises. Who takes a tensor out of DLPack's capsules renames them: "used_...".
template <auto End, class T>
nanobind::object capsule_with(T* object, const char* name) {
  PyObject* capsule = PyCapsule_New(object, name, [](PyObject* self) {
    const char* now = PyCapsule_GetName(self);
    if (now == nullptr || std::string_view(now).starts_with("used")) return;
    End(static_cast<T*>(PyCapsule_GetPointer(self, now)));
  });
  if (capsule == nullptr) {
    End(object);
    throw nanobind::python_error();
  }
  return nanobind::steal(capsule);
}

template <class Managed>
constexpr const char* kCapsuleName =
    std::is_same_v<Managed, dlpack::ManagedTensorVersioned> ? "dltensor_versioned" : "dltensor";

template <class Managed>
nanobind::object capsule_of(Managed* managed) {
  return capsule_with<dlpack::call_deleter<Managed>>(managed, kCapsuleName<Managed>);
}

// A tensor that a capsule goes on owning.
struct InCapsule {
  const dlpack::Tensor* tensor;  // null: it comes in another version of DLPack
  bool writable;
};

// Of either kind. Raises for other capsules.
inline InCapsule in_capsule(const nanobind::object& capsule) {
  const auto of = [](const auto& managed) {
    return InCapsule{dlpack::readable(managed) ? &managed.tensor : nullptr,
                     !dlpack::read_only(managed)};
  };
  using New = dlpack::ManagedTensorVersioned;
  using Old = dlpack::ManagedTensor;
  PyObject* const object = capsule.ptr();
  if (PyCapsule_IsValid(object, kCapsuleName<New>) != 0)
    return of(*static_cast<New*>(PyCapsule_GetPointer(object, kCapsuleName<New>)));
  auto* const old = static_cast<Old*>(PyCapsule_GetPointer(object, kCapsuleName<Old>));
  if (old == nullptr) throw nanobind::python_error();
  return of(*old);
}

// A capsule of DLPack with memory of a tensor. `owner` keeps the memory, and goes on any thread.
template <class Owner>
nanobind::object capsule_over(const Tensor& tensor, const dlpack::Memory& memory, bool versioned,
                              Owner owner) {
  if (versioned) {
    return capsule_of(dlpack::manage<dlpack::ManagedTensorVersioned>(
        memory, tensor.dtype(), tensor.dims(), dlpack::kReadOnly, std::move(owner)));
  }
  return capsule_of(dlpack::manage<dlpack::ManagedTensor>(memory, tensor.dtype(), tensor.dims(), 0,
                                                          std::move(owner)));
}

// An object of Python that keeps memory which was handed out. It is released on any thread.
struct DropLater {
  void operator()(PyObject* object) const { drop_later(object); }
};
using Keeper = std::unique_ptr<PyObject, DropLater>;

}  // namespace tenon::python

#endif
