// What a plugin must leave alone in its process.
#pragma once
#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "sdk/tools/conform/runner/check.h"

namespace tenon::conform {

// Whether the runner is compiled with the thread sanitizer, which keeps threads and maps of its
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
  unsigned control = 0;  // of floating point, without the flags of what happened
};
ProcessState process_state_now();

// Memory that the process holds in pages, and that its allocator has given out.
uint64_t resident_bytes();
uint64_t allocated_bytes();

// How much longer than alone anything may take now: the processes that want a processor for each
// that this one may use, 1 to 8. Time limits are multiplied by it, so that a busy machine is no
// finding.
double load_factor();

// For how long the calling thread has wanted a processor and had none, since it began: what takes
// so much longer by the clock is no work of its own. 0 where the system does not tell.
double seconds_queued();

// Failed with what differs; `who` did it: "opening the library".
Outcome compare_process_state(const ProcessState& before, const ProcessState& after,
                              const char* who);

}  // namespace tenon::conform
