// What the opaque handles of sessions are, and what every slot of their tables does first.
#pragma once
#include <atomic>
#include <memory>
#include <string_view>
#include <utility>

#include "core/base/errors/guard.h"
#include "core/base/record.h"
#include "core/session/api/handle_memory.h"
#include "core/session/call/binding.h"
#include "core/session/compile/model.h"
#include "core/session/compile/variants.h"

// clear() ends what a handle holds. The handle itself stays, and may be reused.
struct tenon_model_t : tenon::session::HandleHead {
  static constexpr auto kKind = tenon::session::HandleKind::kModel;
  using HandleHead::HandleHead;
  std::shared_ptr<tenon::session::Model> model;
  void clear() { model.reset(); }
};
struct tenon_program_t : tenon::session::HandleHead {
  static constexpr auto kKind = tenon::session::HandleKind::kProgram;
  using HandleHead::HandleHead;
  tenon::session::AnyProgram program;
  void clear() { program = {}; }
};
struct tenon_tensor_t : tenon::session::HandleHead {
  static constexpr auto kKind = tenon::session::HandleKind::kTensor;
  using HandleHead::HandleHead;
  std::shared_ptr<tenon::runtime::Tensor> tensor;
  void clear() { tensor.reset(); }
};
struct tenon_binding_t : tenon::session::HandleHead {
  static constexpr auto kKind = tenon::session::HandleKind::kBinding;
  using HandleHead::HandleHead;
  std::unique_ptr<tenon::session::Binding> binding;
  std::atomic<bool> busy = false;  // a slot works with it
  void clear() { binding.reset(); }
};

namespace tenon::session {

// Runs a slot's body after clearing the failure record.
template <typename F>
tenon_code_t slot(F&& body) {
  clear_failure();
  return guarded(std::forward<F>(body));
}

inline Status null_argument(std::string_view what) {
  return error(TENON_INVALID_ARGUMENT, "T0616", "{} was called without its {}", "the session",
               what);
}
#define TENON_REQUIRE(pointer, what) \
  if ((pointer) == nullptr) return null_argument(what)
// A flag that this host does not know would be ignored.
inline Status check_flags(uint32_t flags, uint32_t known, std::string_view what) {
  if ((flags & ~known) == 0) return {};
  return error(TENON_INVALID_ARGUMENT, "T0616", "{} has no flags {:#x}", what, flags & ~known);
}
// Of what a handle is: one load.
#define TENON_REQUIRE_HANDLE(handle)                  \
  if (!::tenon::session::in_use(handle)) [[unlikely]] \
  return ::tenon::session::refuse_handle(             \
      handle, std::remove_pointer_t<std::remove_cvref_t<decltype(handle)>>::kKind)

inline Status write(const tenon_sink_t* sink, std::string_view text) {
  if (text.empty()) return {};
  return from_abi(sink->write(sink->self, text.data(), text.size()), "writing to the caller");
}

inline void give_program(AnyProgram program, tenon_program_t** out) {
  HandlePtr<tenon_program_t> handle = new_handle<tenon_program_t>();
  handle->program = std::move(program);
  *out = handle.release();
}

// The known prefix of a record that may be older or newer than this host. A record without a size
// is an error, since it would be read as empty.
template <typename T>
Result<T> prefix_of(const T* record) {
  T full{};
  if (tenon_record_take(&full, sizeof(T), record) == TENON_OK) return full;
  return error(TENON_INVALID_ARGUMENT, "T0616",
               "a record to be read claims {} bytes; set its size_bytes to sizeof",
               record->size_bytes);
}

}  // namespace tenon::session
