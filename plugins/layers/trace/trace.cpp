// The layer `trace`: writes when each call of a plugin began and ended, on which thread, with how
// many bytes. All slots are traced alike, so they are generated from a list of names.
#include <map>
#include <memory>

#include "tenon/abi/compile.h"
#include "tenon/abi/kernels.h"
#include "tenon/abi/queue.h"
#include "tenon/abi/toolchain.h"
#include "tenon/cpp/layer.hpp"
#include "writer.h"

namespace tenon::trace {
namespace {

class Trace;

// One interface: our table and the next one. It is the `self` of the slots.
template <class Api>
struct Side {
  Trace* trace = nullptr;
  const Api* next = nullptr;
  Api table = {};
};

class Trace {
 public:
  Status attach(LayerSubject& subject);
  static Status shutdown() {
    Totals::print();
    return Writer::finish_all();
  }

  void add(std::string_view name, std::string_view interface, uint64_t begin_ns, const void* handle,
           uint64_t bytes, tenon_code_t code) {
    const uint64_t end_ns = now_ns();
    std::string device;
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = names_.find(handle); handle != nullptr && known != names_.end())
        device = known->second;
    }
    const Event event = {name, interface, plugin_, device, begin_ns, end_ns, bytes, code};
    writer_ == nullptr ? Totals::add(event) : writer_->add(event);
  }
  // An object belongs to the device of the object that it was made on.
  void made(const void* from, const void* handle) {
    const std::lock_guard lock(mutex_);
    if (const auto known = names_.find(from); known != names_.end()) names_[handle] = known->second;
  }
  void opened(uint32_t ordinal, const void* handle) {
    const std::lock_guard lock(mutex_);
    names_[handle] = cat(plugin_, " ", ordinal);
  }

 private:
  std::string plugin_;
  Writer* writer_ = nullptr;  // null: only totals are collected
  Side<tenon_device_api_t> device_;
  Side<tenon_queue_api_t> queue_;
  Side<tenon_compile_api_t> compile_;
  Side<tenon_kernels_api_t> kernels_;
  Side<tenon_toolchain_api_t> toolchain_;
  std::mutex mutex_;
  std::map<const void*, std::string> names_;  // device names, by handle
};

// ---- What the arguments of a call say ----

[[maybe_unused]] const void* handle_of() {
  return nullptr;
}
template <class First, class... Rest>
const void* handle_of(First first, Rest...) {
  if constexpr (std::is_pointer_v<First>) {
    return reinterpret_cast<const void*>(first);
  } else {
    return nullptr;
  }
}

uint64_t bytes_in(const tenon_copy_t* copy) {
  return copy == nullptr ? 0 : copy->length_bytes;
}
uint64_t bytes_in(uint64_t size) {
  return size;
}
template <class Other>
uint64_t bytes_in(const Other&) {
  return 0;
}

template <class Made>
inline constexpr bool keeps_device = false;
template <>
inline constexpr bool keeps_device<tenon_queue_t> = true;
template <>
inline constexpr bool keeps_device<tenon_fence_t> = true;
template <>
inline constexpr bool keeps_device<tenon_executable_t> = true;
template <>
inline constexpr bool keeps_device<tenon_kernel_t> = true;

template <class Last>
void note_made(Trace&, const void*, uint32_t, Last) {}
template <class Made>
void note_made(Trace& trace, const void* from, uint32_t ordinal, Made** out) {
  if constexpr (std::is_same_v<Made, tenon_device_t>) {
    trace.opened(ordinal, *out);
  } else if constexpr (keeps_device<Made>) {
    trace.made(from, *out);
  }
}
[[maybe_unused]] uint32_t ordinal_of() {
  return 0;
}
template <class First, class... Rest>
uint32_t ordinal_of(First first, Rest...) {
  if constexpr (std::is_same_v<First, uint32_t>) {
    return first;
  } else {
    return 0;
  }
}
template <class... Args>
auto last_of(Args... args) {
  return std::get<sizeof...(args) - 1>(std::tuple(args...));
}

// ---- One slot ----

template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&from)[N]) {  // NOLINT: a template argument
    for (size_t i = 0; i < N; ++i) text[i] = from[i];
  }
  constexpr std::string_view view() const { return {text, N - 1}; }
};

template <Name kName, Name kInterface, bool kSized, auto Member>
struct Slot;
template <Name kName, Name kInterface, bool kSized, class Api, class Result, class... Args,
          Result (*Api::*Member)(void*, Args...)>
struct Slot<kName, kInterface, kSized, Member> {
  static Result call(void* self, Args... args) {
    auto& side = *static_cast<Side<Api>*>(self);
    uint64_t bytes = 0;
    if constexpr (kSized) ((bytes = std::max(bytes, bytes_in(args))), ...);
    const uint64_t begin = now_ns();
    if constexpr (std::is_same_v<Result, tenon_code_t>) {
      const tenon_code_t code = (side.next->*Member)(side.next->self, args...);
      side.trace->add(kName.view(), kInterface.view(), begin, handle_of(args...), bytes, code);
      if constexpr (sizeof...(Args) != 0) {
        if (code == TENON_OK)
          note_made(*side.trace, handle_of(args...), ordinal_of(args...), last_of(args...));
      }
      return code;
    } else {
      (side.next->*Member)(side.next->self, args...);
      side.trace->add(kName.view(), kInterface.view(), begin, handle_of(args...), bytes, TENON_OK);
    }
  }
};

#define SLOT(side, id, sized, slot) \
  side.table.slot =                 \
      &Slot<#slot, id, sized, &std::remove_reference_t<decltype(side.table)>::slot>::call

template <class Api>
bool begin(LayerSubject& subject, std::string_view id, Trace* trace, Side<Api>* side) {
  side->trace = trace;
  side->next = subject.next<Api>(id);
  if (side->next != nullptr) subject.put(id, &side->table, side);
  return side->next != nullptr;
}

Status Trace::attach(LayerSubject& subject) {
  const std::string_view path = subject.option("file");
  uint64_t flush = 0;
  TENON_TRY(subject.number("flush", &flush));
  TENON_TRY(subject.options_done());
  plugin_ = subject.plugin();
  if (!path.empty()) TENON_TRY(Writer::at(path, flush != 0, &writer_));
#define D(slot) SLOT(device_, TENON_DEVICE_ID, false, slot)
  if (begin(subject, TENON_DEVICE_ID, this, &device_)) {
    D(count), D(info), D(open), D(close), D(free), D(map), D(memory), D(free_behind);
    SLOT(device_, TENON_DEVICE_ID, true, alloc);
    SLOT(device_, TENON_DEVICE_ID, true, copy);
    SLOT(device_, TENON_DEVICE_ID, true, import);
  }
#define Q(slot) SLOT(queue_, TENON_QUEUE_ID, false, slot)
  if (begin(subject, TENON_QUEUE_ID, this, &queue_)) {
    Q(queue_create), Q(queue_destroy), Q(fence_create), Q(fence_destroy), Q(fence_query),
        Q(fence_signal), Q(fence_wait);
    SLOT(queue_, TENON_QUEUE_ID, true, copy_async);
  }
#define C(slot) SLOT(compile_, TENON_COMPILE_ID, false, slot)
  if (begin(subject, TENON_COMPILE_ID, this, &compile_)) {
    C(claim), C(compile), C(artifact_release), C(artifact_info), C(artifact_bytes),
        C(executable_release), C(executable_info);
    C(needs), C(execute), C(dump), C(properties);
    SLOT(compile_, TENON_COMPILE_ID, true, pack);
    SLOT(compile_, TENON_COMPILE_ID, true, load_packed);
    SLOT(compile_, TENON_COMPILE_ID, true, fits);
    SLOT(compile_, TENON_COMPILE_ID, true, load);
  }
#define K(slot) SLOT(kernels_, TENON_KERNELS_ID, false, slot)
  if (begin(subject, TENON_KERNELS_ID, this, &kernels_)) {
    K(query), K(create), K(destroy), K(run), K(save);
    SLOT(kernels_, TENON_KERNELS_ID, true, prepack);
    SLOT(kernels_, TENON_KERNELS_ID, true, restore);
  }
#define T(slot) SLOT(toolchain_, TENON_TOOLCHAIN_ID, false, slot)
  if (begin(subject, TENON_TOOLCHAIN_ID, this, &toolchain_)) {
    T(build), T(symbol), T(release);
    SLOT(toolchain_, TENON_TOOLCHAIN_ID, true, load);
  }
  return {};
}

}  // namespace
}  // namespace tenon::trace

TENON_LAYER("trace", "0.1.0", tenon::trace::Trace)
