// What the slots of tenon.host.call/1 that make tensors share.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include <tenon/abi/call.h>

#include "core/base/errors/status.h"
#include "core/runtime/values/tensor.h"
#include "core/session/api/handles.h"

namespace tenon::session {

// An array's record as this host knows it, its dims and its bytes. T0603 and what limits say for a
// type or dims that cannot be. Says nothing about data and strides.
Status read_type(const tenon_array_t* record, tenon_array_t* out, std::vector<int64_t>* dims,
                 uint64_t* bytes);

// Memory that the caller lends. Returned when the last user is gone, once it was taken.
struct Lent {
  void* context = nullptr;
  void (*release)(void* context) = nullptr;
  bool taken = false;
  ~Lent() {
    if (taken && release != nullptr) release(context);
  }
};

inline void give_handle(std::shared_ptr<runtime::Tensor> tensor, HandlePtr<tenon_tensor_t> handle,
                        tenon_tensor_t** out) {
  handle->tensor = std::move(tensor);
  *out = handle.release();
}

// The slots for memory of other libraries.
void add_exchange_slots(tenon_host_call_t* table);

}  // namespace tenon::session
