// The entry of a plugin in C++: the host's tables, looked up once, and the record that the plugin
// returns.
//
//     constexpr tenon_interface_t kInterfaces[] = {tenon::offer(TENON_OPS_ID, kOpsTable)};
//     TENON_PLUGIN("ops", "0.1.0", kInterfaces)
//
// With hidden visibility, as tenon_add_plugin() builds, each plugin has a context of its own.
#ifndef TENON_CPP_PLUGIN_HPP_
#define TENON_CPP_PLUGIN_HPP_

#include <iterator>
#include <span>
#include <string_view>
#include <type_traits>

#include "tenon/abi/graph.h"
#include "tenon/abi/note.h"
#include "tenon/abi/plugin.h"
#include "tenon/abi/record.h"
#include "tenon/cpp/status.hpp"

namespace tenon::inline sdk {

// The host's tables. Set once by the entry; afterwards read by all threads.
struct PluginContext {
  const tenon_host_t* host = nullptr;
  const tenon_host_graph_t* graph = nullptr;  // null when the host has none

  // Another host interface; null if this host lacks it. Lives as long as the process.
  template <class Table>
  const Table* query(std::string_view id, uint32_t minor = 0) const {
    const void* table = nullptr;
    if (host == nullptr || host->query(host->self, str(id), minor, &table) != TENON_OK)
      return nullptr;
    return static_cast<const Table*>(table);
  }
};

namespace detail {
inline PluginContext g_context;
}
inline const PluginContext& context() {
  return detail::g_context;
}

// Stores the host's tables. The entry calls it; a program that uses sdk/tenon/cpp without being a
// plugin calls it itself.
inline void attach(const tenon_host_t* host) {
  detail::g_context.host = host;
  detail::g_context.graph = detail::g_context.query<tenon_host_graph_t>(TENON_HOST_GRAPH_ID);
}

inline Status fail(tenon_code_t code, std::string_view message) {
  return fail(context().host, code, message);
}

// Fills as much of the host's record as fits: `return give_record(out, made);`. INVALID_ARGUMENT if
// the host did not set its size.
template <class Record>
Status give_record(Record* out, const Record& made) {
  if (tenon_record_give(out, &made, sizeof made) == TENON_OK) return {};
  return fail(TENON_INVALID_ARGUMENT, "a record to be filled has no size_bytes");
}

// The same for a record that is read first: fill(&full) gets a full-size copy. `return
// fill_record(out, [&](auto* full) {...});`.
template <class Record, class Fill>
Status fill_record(Record* out, Fill fill) {
  Record full;
  if (tenon_record_take(&full, sizeof full, out) != TENON_OK)
    return give_record(out, full);  // which refuses it
  TENON_TRY(fill(&full));
  return give_record(out, full);
}

inline tenon_sym_t intern(std::string_view text) {
  return context().host->intern(context().host->self, str(text));
}
inline std::string_view sym_text(tenon_sym_t sym) {
  return view(context().host->sym_text(context().host->self, sym));
}
inline bool cancelled() {
  return context().host->cancelled(context().host->self) != 0;
}
// How far long work of the calling operation is: progress("kernels", i, n). total 0: unknown.
inline void progress(std::string_view phase, uint64_t done, uint64_t total) {
  context().host->progress(context().host->self, str(phase), done, total);
}
inline std::string_view setting(std::string_view name) {
  return view(context().host->setting(context().host->self, str(name)));
}

// Logs if the component's level is enabled, and builds the text only then: log("cpu",
// TENON_LOG_DEBUG, "built ", n).
template <class... Parts>
void log(std::string_view component, uint32_t level, const Parts&... parts) {
  const tenon_host_t* host = context().host;
  if (host == nullptr || host->log_enabled(host->self, str(component), level) == 0) return;
  host->log(host->self, str(component), level, str(cat(parts...)));
}

// ---- C++ functions as slots of a table ----

namespace detail {
template <auto Function, class Signature>
struct Slot;
template <auto Function, class Result, class... Args>
struct Slot<Function, Result (*)(Args...)> {
  static tenon_code_t call(Args... args) noexcept {
    return guarded(context().host, [&]() -> Status { return Function(args...); });
  }
};
template <auto Function, class Class, class... Args>
struct Slot<Function, Status (Class::*)(Args...)> {
  static tenon_code_t call(void* self, Args... args) noexcept {
    return guarded(context().host,
                   [&]() -> Status { return (static_cast<Class*>(self)->*Function)(args...); });
  }
};
template <auto Function, class Class, class... Args>
struct Slot<Function, Status (Class::*)(Args...) const> {
  static tenon_code_t call(void* self, Args... args) noexcept {
    return guarded(context().host, [&]() -> Status {
      return (static_cast<const Class*>(self)->*Function)(args...);
    });
  }
};
}  // namespace detail

// The C function that calls `Function` and stops exceptions. `Function` returns Status. A free
// function keeps its arguments; a member function gets a leading `void* self`.
template <auto Function>
inline constexpr auto entry = &detail::Slot<Function, decltype(Function)>::call;

// One offered interface.
template <class Table>
constexpr tenon_interface_t offer(std::string_view id, const Table& table, uint32_t minor = 0) {
  return {str(id), minor, 0, &table};
}

// ---- What the library says of itself as static data (note.h) ----

namespace detail {

// Whether the compiler can read the ids and minors in an array of interfaces: it is constexpr.
template <const auto& Interfaces>
constexpr bool known_when_compiled =
    requires { typename std::bool_constant<(std::data(Interfaces)->minor == 0)>; };

template <size_t Bytes>
struct PluginNote {
  tenon_note_t head = {8, 4 + Bytes, TENON_NOTE_TYPE, TENON_NOTE_NAME, TENON_TARGET_ABI};
  char text[Bytes] = {};
};

// Writes the text of a note while the plugin is compiled.
class NoteText {
 public:
  constexpr explicit NoteText(char* to) : to_(to) {}
  constexpr NoteText& operator<<(std::string_view part) {
    for (char c : part) *to_++ = c;
    return *this;
  }
  constexpr NoteText& operator<<(uint32_t number) {
    if (number >= 10) *this << number / 10;
    *to_++ = static_cast<char>('0' + number % 10);
    return *this;
  }

 private:
  char* to_;
};

// Room for the text, a multiple of 4: each interface has up to 100 bytes.
template <const auto& Interfaces>
constexpr size_t note_bytes(std::string_view name, std::string_view version) {
  return (name.size() + version.size() + sizeof(__VERSION__) + 100 * std::size(Interfaces) + 64) /
             4 * 4 +
         4;
}

// Without interfaces if the array is not constexpr: such a plugin works, and cannot be
// cross-built.
template <const auto& Interfaces, size_t Bytes>
consteval PluginNote<Bytes> plugin_note(std::string_view name, std::string_view version) {
  PluginNote<Bytes> note;
  NoteText text(note.text);
  text << "name " << name << "\nversion " << version << "\nbuild_id " << __VERSION__ << "\n";
  if constexpr (known_when_compiled<Interfaces>) {
    for (const tenon_interface_t& offered : Interfaces)
      text << "interface " << std::string_view(offered.id.data, offered.id.size) << " "
           << offered.minor << "\n";
  }
  return note;
}

}  // namespace detail

}  // namespace tenon::inline sdk

// Defines the plugin's note: name and version are literals, `interfaces` is a constexpr array.
#define TENON_NOTE_OF(plugin_name, plugin_version, interfaces)                                \
  TENON_NOTE_PLACE static constexpr auto tenon_plugin_note =                                  \
      ::tenon::detail::plugin_note<interfaces, ::tenon::detail::note_bytes<interfaces>(       \
                                                   plugin_name, plugin_version)>(plugin_name, \
                                                                                 plugin_version);

// Defines the plugin's only exported symbol, and its note. `interfaces` is an array of
// tenon_interface_t, constexpr for plugins that are built for other machines.
// `accept` (optional) is a function `tenon::Status()` that checks whether the plugin can work here,
// and refuses with a reason.
#define TENON_PLUGIN(plugin_name, plugin_version, interfaces, ...) \
  TENON_PLUGIN_THAT_ENDS(plugin_name, plugin_version, interfaces,  \
                         nullptr __VA_OPT__(, ) __VA_ARGS__)

// The same with a function for tenon_plugin_t::shutdown, such as entry<end>.
#define TENON_PLUGIN_THAT_ENDS(plugin_name, plugin_version, interfaces, end, ...)             \
  TENON_NOTE_OF(plugin_name, plugin_version, interfaces)                                      \
  extern "C" TENON_EXPORT tenon_code_t tenon_plugin_query(uint32_t, const tenon_host_t* host, \
                                                          const tenon_plugin_t** out) {       \
    ::tenon::attach(host);                                                                    \
    return ::tenon::detail::guarded(host, [&]() -> ::tenon::Status {                          \
      static const tenon_plugin_t record = {sizeof(tenon_plugin_t),                           \
                                            TENON_TARGET_ABI,                                 \
                                            ::tenon::str(plugin_name),                        \
                                            ::tenon::str(plugin_version),                     \
                                            ::tenon::str(__VERSION__),                        \
                                            nullptr,                                          \
                                            std::data(interfaces),                            \
                                            std::size(interfaces),                            \
                                            end,                                              \
                                            sizeof(tenon_interface_t),                        \
                                            0};                                               \
      __VA_OPT__(TENON_TRY(__VA_ARGS__());)                                                   \
      *out = &record;                                                                         \
      return {};                                                                              \
    });                                                                                       \
  }

#endif
