// Status and Result<T>: how every fallible function of core/ reports failure. A failed Status
// carries the ABI's code, a stable error code (`T0123`, see error_codes.def), one sentence, what
// was being done (context, printed outermost first) and key/value evidence.
//
// An OK status is a null pointer, so returning it costs nothing. Threads: a Status is a value; one
// thread at a time per object.
#pragma once
#include <fmt/core.h>

#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tenon/abi/base.h>

namespace tenon {

// "INVALID_ARGUMENT" and so on; "UNKNOWN" for a number outside the table.
std::string_view code_name(tenon_code_t code);

struct KeyValue {
  std::string key, value;
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  // `error_code` is the stable id ("T0301"). It may be empty only if the message already begins
  // with one.
  Status(tenon_code_t code, std::string_view error_code, std::string message);
  Status(const Status& other) : rep_(other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr) {}
  Status& operator=(const Status& other) {
    if (this != &other) rep_ = other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr;
    return *this;
  }
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  bool ok() const { return rep_ == nullptr; }
  tenon_code_t code() const { return rep_ ? rep_->code : TENON_OK; }
  std::string_view error_code() const { return rep_ ? std::string_view(rep_->error_code) : ""; }
  std::string_view message() const { return rep_ ? std::string_view(rep_->message) : ""; }
  const std::vector<std::string>& contexts() const;  // innermost first
  const std::vector<KeyValue>& evidence() const;
  // The value of an evidence key, empty if absent.
  std::string_view evidence_value(std::string_view key) const;

  // Adds what the caller was doing ("reading model.onnx"). No effect on OK.
  Status&& with_context(std::string text) &&;
  Status& add_context(std::string text) &;
  // Adds one pair of evidence. No effect on OK.
  Status&& with(std::string_view key, std::string_view value) &&;
  Status& add(std::string_view key, std::string_view value) &;

  // One paragraph for people: "T0301: sentence (while reading model.onnx; while running)".
  std::string text() const;
  // text(), then on a line of its own the advice from the table of codes, if the code has an entry.
  std::string text_with_advice() const;

 private:
  struct Rep {
    tenon_code_t code;
    std::string error_code, message;
    std::vector<std::string> contexts;
    std::vector<KeyValue> evidence;
  };
  std::unique_ptr<Rep> rep_;
};

// Makes a failed Status: error(TENON_INVALID_ARGUMENT, "T0301", "operand {} has rank {}", i, rank).
// Names that come from input are passed through quoted() (str.h).
template <typename... Args>
Status error(tenon_code_t code, std::string_view error_code, fmt::format_string<Args...> format,
             Args&&... args) {
  return Status(code, error_code, fmt::vformat(format, fmt::make_format_args(args...)));
}

// T0003, for the rare place where returning is better than TENON_CHECK.
Status internal_error(std::string message);

// A value or a failed Status. `value()` on a failure aborts (a bug of the caller).
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit by design
    if (status_.ok()) abort_ok_without_value();
  }
  template <typename U = T>
    requires(std::is_constructible_v<T, U &&> && !std::is_same_v<std::remove_cvref_t<U>, Result> &&
             !std::is_same_v<std::remove_cvref_t<U>, Status>)
  Result(U&& value) {  // NOLINT: implicit by design
    new (&value_) T(std::forward<U>(value));
    has_value_ = true;
  }
  Result(Result&& other) noexcept
      : status_(std::move(other.status_)), has_value_(other.has_value_) {
    if (has_value_) new (&value_) T(std::move(other.value_));
  }
  Result(const Result& other)
    requires std::is_copy_constructible_v<T>
      : status_(other.status_), has_value_(other.has_value_) {
    if (has_value_) new (&value_) T(other.value_);
  }
  Result& operator=(Result other) noexcept {
    this->~Result();
    return *new (this) Result(std::move(other));
  }
  ~Result() {
    if (has_value_) value_.~T();
  }

  bool ok() const { return has_value_; }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }
  T& value() & {
    require();
    return value_;
  }
  const T& value() const& {
    require();
    return value_;
  }
  T&& value() && {
    require();
    return std::move(value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T value_or(T other) && { return has_value_ ? std::move(value_) : std::move(other); }

 private:
  [[noreturn]] static void abort_ok_without_value();
  [[noreturn]] static void abort_no_value(const Status& status);
  void require() const {
    if (!has_value_) [[unlikely]]
      abort_no_value(status_);
  }
  Status status_;
  bool has_value_ = false;
  union {
    T value_;
  };
};

namespace detail {
[[noreturn]] void abort_result_ok();
[[noreturn]] void abort_result_failed(const Status& status);
template <typename... Args>
Status add_context(Status status, fmt::format_string<Args...> format, Args&&... args) {
  return std::move(status).with_context(fmt::vformat(format, fmt::make_format_args(args...)));
}
inline Status add_context(Status status) {
  return status;
}
}  // namespace detail

template <typename T>
void Result<T>::abort_ok_without_value() {
  detail::abort_result_ok();
}
template <typename T>
void Result<T>::abort_no_value(const Status& status) {
  detail::abort_result_failed(status);
}

}  // namespace tenon

#define TENON_CONCAT_IMPL(a, b) a##b
#define TENON_CONCAT(a, b) TENON_CONCAT_IMPL(a, b)

// TENON_RETURN_IF_ERROR(expr) or TENON_RETURN_IF_ERROR(expr, "reading {}", name): returns a failure
// to the caller, with the given context added.
#define TENON_RETURN_IF_ERROR(expr, ...)                                                       \
  do {                                                                                         \
    ::tenon::Status tenon_status = (expr);                                                     \
    if (!tenon_status.ok()) [[unlikely]]                                                       \
      return ::tenon::detail::add_context(std::move(tenon_status) __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)

// TENON_ASSIGN_OR_RETURN(auto file, open_file(name)), optionally with context as above.
#define TENON_ASSIGN_OR_RETURN(target, expr, ...)                            \
  TENON_ASSIGN_OR_RETURN_IMPL(TENON_CONCAT(tenon_result_, __LINE__), target, \
                              expr __VA_OPT__(, ) __VA_ARGS__)
#define TENON_ASSIGN_OR_RETURN_IMPL(result, target, expr, ...)                                  \
  auto result = (expr);                                                                         \
  if (!result.ok()) [[unlikely]]                                                                \
    return ::tenon::detail::add_context(std::move(result).status() __VA_OPT__(, ) __VA_ARGS__); \
  target = std::move(result).value()
