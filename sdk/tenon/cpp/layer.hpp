// A layer in C++: a class whose instances each wrap one plugin, with member functions for the slots
// that it intercepts. Calls of other slots bypass it (tenon/abi/layer.h).
//
//     class Counter {
//      public:
//       tenon::Status attach(tenon::LayerSubject& subject) {
//         TENON_TRY(subject.options_done());                       // takes none
//         if ((next_ = subject.next<tenon_device_api_t>(TENON_DEVICE_ID)) == nullptr) return {};
//         table_.alloc = tenon::layer_slot<&Counter::alloc>;
//         subject.put(TENON_DEVICE_ID, &table_, this);
//         return {};
//       }
//       tenon_code_t alloc(tenon_device_t* device, uint64_t size, tenon_buffer_t** out) {
//         ++allocations_;
//         return next_->alloc(next_->self, device, size, out);
//       }
//      private:
//       const tenon_device_api_t* next_ = nullptr;
//       tenon_device_api_t table_ = {};
//       std::atomic<uint64_t> allocations_ = 0;
//     };
//     TENON_LAYER("counter", "0.1.0", Counter)
//
// If the class has a static function `tenon::Status shutdown()`, it is called before the process
// ends.
#ifndef TENON_CPP_LAYER_HPP_
#define TENON_CPP_LAYER_HPP_

#include <charconv>
#include <string>
#include <vector>

#include "tenon/abi/compile.h"
#include "tenon/abi/layer.h"
#include "tenon/abi/queue.h"
#include "tenon/cpp/plugin.hpp"
#include "tenon/cpp/record.hpp"

namespace tenon::inline sdk {

// The plugin to wrap, during attach.
class LayerSubject {
 public:
  LayerSubject(std::string_view layer, const tenon_layer_subject_t* subject, const void** tables)
      : layer_(layer), subject_(subject), tables_(tables), taken_(subject->option_count) {}

  std::string_view layer() const { return layer_; }
  std::string_view plugin() const { return view(subject_->plugin); }
  std::string_view version() const { return view(subject_->version); }
  uint32_t position() const { return subject_->position; }

  // The table below of an interface; null when the plugin has none. Lives as long as the process.
  template <class Table>
  const Table* next(std::string_view id) const {
    static_assert(sizeof(Table) <= TENON_LAYER_TABLE_BYTES);
    const int i = index_of(id);
    return i < 0 ? nullptr
                 : static_cast<const Table*>(
                       tenon_layer_interface(subject_, static_cast<uint32_t>(i))->table);
  }
  // Routes calls of that interface through `table`, with `self`. Both live as long as the process.
  template <class Table>
  void put(std::string_view id, Table* table, void* self) {
    const int i = index_of(id);
    if (i < 0) return;
    table->size_bytes = sizeof(Table);
    table->self = self;
    tables_[i] = table;
  }

  // The value of an option; empty if it was not given. The last one wins.
  std::string_view option(std::string_view key) {
    std::string_view value;
    each_option(key, [&](std::string_view text) {
      value = text;
      return Status();
    }).code();
    return value;
  }
  // Calls `take` with every value of an option, in order, until one is refused.
  template <class Take>
  Status each_option(std::string_view key, Take take) {
    for (uint32_t i = 0; i < subject_->option_count; ++i) {
      if (view(subject_->options[i].key) != key) continue;
      taken_[i] = true;
      if (Status s = take(view(subject_->options[i].value)); !s.ok()) return s;
    }
    return {};
  }
  // A whole number; `out` is unchanged if the option was not given.
  Status number(std::string_view key, uint64_t* out) {
    return each_option(key, [&](std::string_view text) -> Status {
      const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), *out);
      if (problem == std::errc() && end == text.data() + text.size()) return {};
      return refuse(cat("the option ", key, " is a whole number, and not ", quoted(text)));
    });
  }
  // Refuses the first option that was not read. Call it after reading all options in attach.
  Status options_done() const {
    for (uint32_t i = 0; i < subject_->option_count; ++i) {
      if (!taken_[i])
        return refuse(cat("there is no option ", quoted(view(subject_->options[i].key))));
    }
    return {};
  }
  Status refuse(std::string_view why) const {
    return fail(TENON_INVALID_ARGUMENT, cat(layer_, ": ", why));
  }

 private:
  int index_of(std::string_view id) const {
    for (uint32_t i = 0; i < subject_->interface_count; ++i) {
      if (view(tenon_layer_interface(subject_, i)->id) == id) return static_cast<int>(i);
    }
    return -1;
  }
  std::string_view layer_;
  const tenon_layer_subject_t* subject_;
  const void** tables_;
  std::vector<bool> taken_;
};

// ---- Member functions as slots ----

namespace detail {
template <auto Function, class Signature>
struct LayerSlot;
template <auto Function, class Class, class Result, class... Args>
struct LayerSlot<Function, Result (Class::*)(Args...)> {
  // A slot without a code cannot report an error: an exception there ends the process.
  static Result call(void* self, Args... args) noexcept {
    if constexpr (std::is_same_v<Result, tenon_code_t>) {
      return guarded(context().host,
                     [&]() -> Status { return (static_cast<Class*>(self)->*Function)(args...); });
    } else {
      return (static_cast<Class*>(self)->*Function)(args...);
    }
  }
};

template <class Layer>
tenon_code_t layer_attach(void* name, const tenon_layer_subject_t* subject, const void** tables) {
  return guarded(context().host, [&]() -> Status {
    // Lives as long as the process, even if it wraps nothing; never called concurrently.
    static auto* kept = new std::vector<Layer*>;
    auto* layer = new Layer;
    LayerSubject of(static_cast<const char*>(name), subject, tables);
    Status status = layer->attach(of);
    if (status.ok()) {
      kept->push_back(layer);
    } else {
      delete layer;
    }
    return status;
  });
}
template <class Layer>
tenon_code_t layer_shutdown(void*) {
  if constexpr (requires { Layer::shutdown(); }) {
    return guarded(context().host, []() -> Status { return Layer::shutdown(); });
  } else {
    return TENON_OK;
  }
}
}  // namespace detail

// The C function of a slot: calls a member function of `self` with the slot's other arguments.
template <auto Function>
inline constexpr auto layer_slot = &detail::LayerSlot<Function, decltype(Function)>::call;

// ---- Calls on a queue, for layers that look at memory ----

// A buffer that the call names; null if it names none.
inline tenon_buffer_t* any_buffer(const tenon_call_t& call) {
  for (uint32_t i = 0; i < call.input_count; ++i) {
    if (tenon_call_input(&call, i)->buffer != nullptr) return tenon_call_input(&call, i)->buffer;
  }
  for (uint32_t i = 0; i < call.output_count; ++i) {
    if (tenon_call_output(&call, i)->buffer != nullptr) return tenon_call_output(&call, i)->buffer;
  }
  return call.workspace;
}

// Blocks until all that was submitted to the queue is over, whether it failed or not. A copy of no
// bytes comes after it. `any`: a buffer of the device, which is not touched. Fails if the device
// makes no fence or takes no such copy.
inline Status await_queue(const tenon_queue_api_t& api, tenon_device_t* device,
                          tenon_queue_t* queue, tenon_buffer_t* any) {
  static constexpr char kNothing = 0;
  tenon_fence_t* fence = nullptr;
  TENON_TRY(api.fence_create(api.self, device, 0, &fence));
  auto copy = sized<tenon_copy_t>();
  copy.direction = TENON_COPY_HOST_TO_DEVICE;
  copy.to = any;
  copy.host_from = &kNothing;
  tenon_code_t code = api.copy_async(api.self, queue, &copy, nullptr, 0, {fence, 1});
  if (code == TENON_OK) code = api.fence_wait(api.self, fence, 1, UINT64_MAX);
  (void)api.fence_destroy(api.self, fence);
  return code;
}

}  // namespace tenon::inline sdk

// Defines a plugin that provides one layer.
#define TENON_LAYER(layer_name, layer_version, Layer)                                          \
  static constexpr tenon_interface_t tenon_layer_note[] = {                                    \
      {::tenon::str(TENON_LAYER_ID), 0, 0, nullptr}};                                          \
  TENON_NOTE_OF(layer_name, layer_version, tenon_layer_note)                                   \
  extern "C" TENON_EXPORT tenon_code_t tenon_plugin_query(uint32_t, const tenon_host_t* host,  \
                                                          const tenon_plugin_t** out) {        \
    static const tenon_layer_api_t table = {                                                   \
        sizeof(tenon_layer_api_t), 0, const_cast<char*>(layer_name), ::tenon::str(layer_name), \
        &::tenon::detail::layer_attach<Layer>};                                                \
    static const tenon_interface_t interfaces[] = {::tenon::offer(TENON_LAYER_ID, table)};     \
    static const tenon_plugin_t record = {sizeof(tenon_plugin_t),                              \
                                          TENON_TARGET_ABI,                                    \
                                          ::tenon::str(layer_name),                            \
                                          ::tenon::str(layer_version),                         \
                                          ::tenon::str(__VERSION__),                           \
                                          nullptr,                                             \
                                          interfaces,                                          \
                                          1,                                                   \
                                          &::tenon::detail::layer_shutdown<Layer>,             \
                                          sizeof(tenon_interface_t),                           \
                                          0};                                                  \
    ::tenon::attach(host);                                                                     \
    *out = &record;                                                                            \
    return TENON_OK;                                                                           \
  }

#endif
