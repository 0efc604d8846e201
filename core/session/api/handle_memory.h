// Memory of the handles that programs hold. It is never returned to the system, and a handle is
// reused only after many others of its kind were released later, so that the use of a released one
// is seen: each begins with a word that says what it is.
//
// Threads: safe. A forked child may make and release handles.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/errors/status.h"

namespace tenon::session {

enum class HandleKind : uint8_t { kModel, kProgram, kTensor, kBinding, kOperation };
inline constexpr size_t kHandleKinds = 5;

// So many handles of a kind are released after a handle before it is reused.
inline constexpr size_t kHandlesKept = 1024;

// Only new_handle makes handles: one that is made elsewhere would be no handle to any slot.
class HandleKey {
  HandleKey() = default;
  friend struct HandleMaker;
};

// What every handle begins with.
struct HandleHead {
  explicit HandleHead(HandleKey) {}
  std::atomic<uint64_t> word{0};
  HandleHead* next = nullptr;  // that was released after this one
};

// The word of a handle in use. Its complement is that of one that was released.
constexpr uint64_t word_of(HandleKind kind) {
  return 0x656c646e61686e54 + static_cast<uint64_t>(kind);  // "Tnhandle"
}

// The oldest one that was released, out of use, or null while few were.
HandleHead* take_released(HandleKind kind);
void put_released(HandleKind kind, HandleHead* handle);

// Why the handle cannot be used: T0616 for null and for what is not a handle of this kind, T0626
// for one that was released.
Status refuse_handle(const HandleHead* handle, HandleKind kind);

// Marks the handle as released. False, with a line in the log, if it is not in use.
bool end_handle(HandleHead* handle, HandleKind kind);

// Below, T is one of the structs of handles.h.

template <typename T>
bool in_use(const T* handle) {
  return handle != nullptr && handle->word.load(std::memory_order_relaxed) == word_of(T::kKind);
}

template <typename T>
void release_handle(T* handle) {
  if (handle == nullptr || !end_handle(handle, T::kKind)) return;
  handle->clear();
  put_released(T::kKind, handle);
}

template <typename T>
struct ReleaseHandle {
  void operator()(T* handle) const { release_handle(handle); }
};
template <typename T>
using HandlePtr = std::unique_ptr<T, ReleaseHandle<T>>;

struct HandleMaker {
  template <typename T>
  static T* make() {
    return new T(HandleKey());
  }
};

// A handle without content.
template <typename T>
HandlePtr<T> new_handle() {
  HandleHead* const released = take_released(T::kKind);
  T* const handle = released == nullptr ? HandleMaker::make<T>() : static_cast<T*>(released);
  handle->word.store(word_of(T::kKind), std::memory_order_relaxed);
  return HandlePtr<T>(handle);
}

}  // namespace tenon::session
