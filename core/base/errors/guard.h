// Where C++ exceptions end. Every function of libtenon that is called through a C table runs its
// body in one of these. The library itself throws nothing, but std::bad_alloc and std::length_error
// of the standard library, and whatever a program's own sink or callback throws, must not unwind
// through C frames.
#pragma once
#include <cxxabi.h>

#include <string>
#include <type_traits>
#include <utility>

#include <tenon/abi/base.h>

#include "core/base/errors/failure.h"

namespace tenon {

// For a catch (...): records the message of the current exception in this thread's record and
// returns its code. T0111 (RESOURCE_EXHAUSTED) if memory or a size cannot be had, T0003 (INTERNAL)
// for everything else.
tenon_code_t failure_of_exception() noexcept;

// Runs `body`, which returns a Status or a code. A failed Status becomes this thread's record, and
// so does an exception. Success leaves the record alone: a plugin may be returning a failure of its
// own through it.
template <typename F>
tenon_code_t guarded(F&& body) {
  try {
    if constexpr (std::is_same_v<std::invoke_result_t<F>, tenon_code_t>) {
      return body();
    } else {
      return to_abi(body());
    }
  } catch (const abi::__forced_unwind&) {
    throw;  // thread cancellation: the C library requires that it be rethrown
  } catch (...) {
    return failure_of_exception();
  }
}

// The same for slots that return no code: `otherwise` is returned when the body fails.
template <typename T, typename F>
T guarded_or(T otherwise, F&& body) {
  T answer = otherwise;
  (void)guarded([&]() -> tenon_code_t {
    answer = body();
    return TENON_OK;
  });
  return answer;
}
template <typename F>
void guarded_void(F&& body) {
  (void)guarded([&]() -> tenon_code_t {
    body();
    return TENON_OK;
  });
}

// A sink that appends to `text`, which must outlive the sink. Its write function throws nothing
// into the plugin that calls it.
tenon_sink_t sink_into(std::string& text);

}  // namespace tenon
