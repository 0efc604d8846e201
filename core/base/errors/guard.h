// Where C++ exceptions end. Every function of libtenon that others call through a C table runs its
// body in one of these: the library throws nothing of its own, but the standard library's
// std::bad_alloc and std::length_error, and what a program's own sink or callback throws at us,
// must not travel through C frames.
#pragma once
#include <cxxabi.h>

#include <string>
#include <type_traits>
#include <utility>

#include <tenon/abi/base.h>

#include "core/base/errors/failure.h"

namespace tenon {

// For a catch (...): records what the exception that is being handled says in this thread's record
// and gives its code. T0111 (RESOURCE_EXHAUSTED) for memory and sizes that cannot be had, T0003
// (INTERNAL) for everything else.
tenon_code_t failure_of_exception() noexcept;

// Runs `body`, which returns a Status or a code. A failed Status becomes this thread's record, and
// so does an exception. The record is left alone on success: a plugin may be on its way out with a
// failure in it.
template <typename F>
tenon_code_t guarded(F&& body) {
  try {
    if constexpr (std::is_same_v<std::invoke_result_t<F>, tenon_code_t>) {
      return body();
    } else {
      return to_abi(body());
    }
  } catch (const abi::__forced_unwind&) {
    throw;  // a thread that is being cancelled: the C library insists
  } catch (...) {
    return failure_of_exception();
  }
}

// The same for slots that give no code: `otherwise` stands for the answer that could not be made.
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

// A sink that appends to `text`, which must live as long as the sink. Its write lets no exception
// out into the frames of the plugin that calls it.
tenon_sink_t sink_into(std::string& text);

}  // namespace tenon
