// Status and text for plugins written in C++: a code, a macro that propagates it, a way to say why,
// and the trampoline that keeps C++ exceptions on this side of the boundary. Used by everything in
// sdk/tenon/cpp.
#ifndef TENON_CPP_STATUS_HPP_
#define TENON_CPP_STATUS_HPP_

#include <charconv>
#include <concepts>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tenon/abi/base.h"
#include "tenon/abi/plugin.h"
#include "tenon/cpp/record.hpp"

namespace tenon::inline sdk {

// ---- Strings ----

constexpr tenon_str_t str(std::string_view text) {
  return {text.data(), text.size()};
}
constexpr std::string_view view(tenon_str_t text) {
  return text.size == 0 ? std::string_view() : std::string_view(text.data, text.size);
}

namespace detail {
inline void append(std::string& out, std::string_view part) {
  out.append(part);
}
inline void append(std::string& out, tenon_str_t part) {
  out.append(view(part));
}
inline void append(std::string& out, char part) {
  out.push_back(part);
}
template <class T>
  requires std::integral<T> || std::floating_point<T>
void append(std::string& out, T part) {
  char digits[40];
  auto [end, error] = std::to_chars(digits, digits + sizeof digits, part);
  out.append(digits, error == std::errc() ? end : digits);
}
}  // namespace detail

// Joins texts and numbers: cat("dim ", 3, " is ", -1).
template <class... Parts>
std::string cat(const Parts&... parts) {
  std::string out;
  (detail::append(out, parts), ...);
  return out;
}

// Text that came from input, for use in a message: quoted, unprintable bytes replaced, cut at 256
// bytes.
inline std::string quoted(std::string_view text) {
  constexpr size_t kLimit = 256;
  std::string out = "'";
  for (char c : text.substr(0, kLimit)) {
    const auto byte = static_cast<unsigned char>(c);
    out.push_back(byte < 0x20 || byte == 0x7f ? '?' : c);
  }
  return out + (text.size() > kLimit ? "...'" : "'");
}

// ---- Status ----

// A code. The reason, if there is one, is with the host (tenon_host_t::last_failure).
class [[nodiscard]] Status {
 public:
  constexpr Status() = default;
  constexpr Status(tenon_code_t code) : code_(code) {}
  constexpr bool ok() const { return code_ == TENON_OK; }
  constexpr tenon_code_t code() const { return code_; }

 private:
  tenon_code_t code_ = TENON_OK;
};

// Leaves the function with the code when the expression (a Status or a tenon_code_t) is not OK. The
// function may return either of the two.
#ifndef TENON_TRY
#define TENON_TRY(...)                                                                    \
  do {                                                                                    \
    if (const ::tenon::Status tenon_try_status = (__VA_ARGS__); !tenon_try_status.ok()) { \
      return tenon_try_status.code();                                                     \
    }                                                                                     \
  } while (false)
#endif

// Records a failure for this thread and gives its code: `return fail(host, TENON_NOT_FOUND,
// "...")`.
template <class Code = tenon_code_t>
Status fail(const tenon_host_t* host, tenon_code_t code, std::string_view message) {
  return host == nullptr ? Status(code)
                         : Status(host->fail(host->self, code, str(message), nullptr, 0));
}

// ---- Trampolines ----

namespace detail {
inline tenon_code_t code_of(Status status) {
  return status.code();
}

// Runs `body`, which gives a Status, and turns every exception into a code with a reason.
template <class Body>
tenon_code_t guarded(const tenon_host_t* host, Body&& body) noexcept {
  try {
    return code_of(body());
  } catch (const std::bad_alloc&) {
    return fail(host, TENON_RESOURCE_EXHAUSTED, "There is not enough memory.").code();
  } catch (const std::exception& error) {
    try {
      return fail(host, TENON_INTERNAL,
                  cat("An exception reached the plugin's boundary: ", error.what()))
          .code();
    } catch (...) {
      return TENON_INTERNAL;
    }
  } catch (...) {
    return fail(host, TENON_INTERNAL, "An exception of unknown type reached the plugin's boundary.")
        .code();
  }
}
}  // namespace detail

}  // namespace tenon::inline sdk

#endif
