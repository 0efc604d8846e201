// What a plugin must leave unchanged in its process.
#pragma once
#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "sdk/tools/conform/runner/check.h"

namespace tenon::conform {

// Whether the runner is compiled with the thread sanitizer, which has threads and mappings of its
// own.
#if defined(__has_feature)
inline constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
#else
inline constexpr bool kThreadSanitizer = false;
#endif

struct ProcessState {
  std::array<void*, 65> handlers = {};
  std::string locale, folder;
  std::vector<std::string> environment;  // NAME=VALUE, sorted
  mode_t mask = 0;
  int rounding = 0;
  unsigned control = 0;  // floating-point control, without the sticky flags
};
ProcessState process_state_now();

// Resident memory of the process, and memory that its allocator has handed out.
uint64_t resident_bytes();
uint64_t allocated_bytes();

// How much longer anything may take now than on an idle machine: runnable processes per processor
// that this process may use, 1 to 8. Time limits are multiplied by it, so that a busy machine
// causes no findings.
double load_factor();

// How long the calling thread has been runnable without a processor since it began: a delay by the
// clock that is not its own work. 0 if the system does not report it.
double seconds_queued();

// Fails with the differences; `who` caused them: "opening the library".
Outcome compare_process_state(const ProcessState& before, const ProcessState& after,
                              const char* who);

}  // namespace tenon::conform
