#include "core/session/api/handle_memory.h"

#include <pthread.h>

#include <array>
#include <mutex>
#include <utility>

#include "core/base/errors/guard.h"
#include "core/base/process/log.h"

namespace tenon::session {
namespace {

constexpr const char* kNames[kHandleKinds] = {"model", "program", "tensor", "binding", "operation"};

const char* name_of(HandleKind kind) {
  return kNames[static_cast<size_t>(kind)];
}

// Handles of one kind that were released, oldest first. Nothing else is locked under the mutex.
struct Released {
  std::mutex mutex;
  HandleHead* first = nullptr;
  HandleHead* last = nullptr;
  size_t count = 0;
};

using AllReleased = std::array<Released, kHandleKinds>;
AllReleased& all_released();

void lock_all() {
  for (Released& released : all_released()) released.mutex.lock();
}
void unlock_all() {
  for (Released& released : all_released()) released.mutex.unlock();
}

// Never destroyed: handles are released by functions that run at exit, too.
AllReleased& all_released() {
  static AllReleased* const all = [] {
    auto* const made = new AllReleased;
    // A child that is forked while another thread works with a list finds it whole.
    (void)pthread_atfork(lock_all, unlock_all, unlock_all);
    return made;
  }();
  return *all;
}

Released& released_of(HandleKind kind) {
  return all_released()[static_cast<size_t>(kind)];
}

}  // namespace

HandleHead* take_released(HandleKind kind) {
  Released& released = released_of(kind);
  const std::lock_guard lock(released.mutex);
  if (released.count <= kHandlesKept) return nullptr;
  --released.count;
  return std::exchange(released.first, released.first->next);
}

void put_released(HandleKind kind, HandleHead* handle) {
  handle->next = nullptr;
  Released& released = released_of(kind);
  const std::lock_guard lock(released.mutex);
  (released.count == 0 ? released.first : released.last->next) = handle;
  released.last = handle;
  ++released.count;
}

Status refuse_handle(const HandleHead* handle, HandleKind kind) {
  if (handle == nullptr) {
    return error(TENON_INVALID_ARGUMENT, "T0616", "the session was called without its {}",
                 name_of(kind));
  }
  if (handle->word.load(std::memory_order_relaxed) == ~word_of(kind)) {
    return error(TENON_FAILED_PRECONDITION, "T0626",
                 "the {} was released; release it after its last use, or make another one",
                 name_of(kind));
  }
  return error(TENON_INVALID_ARGUMENT, "T0616",
               "the session was called with something that is not a {}", name_of(kind));
}

bool end_handle(HandleHead* handle, HandleKind kind) {
  uint64_t expected = word_of(kind);
  if (handle->word.compare_exchange_strong(expected, ~word_of(kind), std::memory_order_relaxed))
    return true;
  guarded_void([&] {
    log_warning("host", "T0626: a {} is released that {}; the second release does nothing",
                name_of(kind), expected == ~word_of(kind) ? "was released before" : "is none");
  });
  return false;
}

}  // namespace tenon::session
