// How the records of a call lie in the caller's memory, whatever edition of them it has. Only for
// the files that read them.
#pragma once
#include <cstddef>
#include <type_traits>

#include <tenon/abi/call.h>
#include <tenon/abi/record.h>

namespace tenon::session {

// Where the first edition of each record ends.
inline constexpr uint32_t kInputBytesLeast =
    offsetof(tenon_input_t, tensor) + sizeof(tenon_tensor_t*);
inline constexpr uint32_t kOutputBytesLeast =
    offsetof(tenon_output_t, tensor) + sizeof(tenon_tensor_t*);
inline constexpr uint32_t kNativeBytesLeast = sizeof(tenon_call_native_t);

// The i-th record of an array whose records have the size that the first one says.
template <typename T>
T* record_at(T* first, size_t i) {
  if constexpr (std::is_const_v<T>)
    return static_cast<T*>(tenon_record_at(first, i, first->size_bytes));
  else
    return static_cast<T*>(tenon_record_in(first, i, first->size_bytes));
}

}  // namespace tenon::session
