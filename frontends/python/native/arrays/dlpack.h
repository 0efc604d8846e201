// The table of C functions for DLPack that a Python type may offer. DLPack itself is the SDK's.
#ifndef FRONTENDS_PYTHON_NATIVE_ARRAYS_DLPACK_H_
#define FRONTENDS_PYTHON_NATIVE_ARRAYS_DLPACK_H_

#include <cstdint>

#include "tenon/cpp/dlpack_types.hpp"

namespace tenon::python {

struct ExchangeHeader {
  dlpack::Version version;
  ExchangeHeader* previous;  // an older table, or null
};

// What `__dlpack_c_exchange_api__` of a type holds, in a capsule named "dlpack_exchange_api". The
// functions return 0, or -1 with a Python exception. The GIL is held.
struct ExchangeTable {
  ExchangeHeader header;
  int (*allocate)(dlpack::Tensor* prototype, dlpack::ManagedTensorVersioned** out,
                  void* error_context,
                  void (*set_error)(void* error_context, const char* kind, const char* message));
  int (*managed_of)(void* object, dlpack::ManagedTensorVersioned** out);
  // Takes the tensor.
  int (*object_of)(dlpack::ManagedTensorVersioned* tensor, void** out_object);
  int (*view_of)(void* object, dlpack::Tensor* out);  // may be null; borrows from the object
  int (*current_stream)(int32_t device_type, int32_t device_id, void** out_stream);
};

}  // namespace tenon::python

#endif
