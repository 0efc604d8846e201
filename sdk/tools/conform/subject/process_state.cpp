#include "sdk/tools/conform/subject/process_state.h"

#include <fenv.h>
#include <locale.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "sdk/tools/conform/subject/names.h"

namespace tenon::conform {

ProcessState process_state_now() {
  ProcessState state;
  for (int signal = 1; signal < 65; ++signal) {
    struct sigaction action = {};
    if (::sigaction(signal, nullptr, &action) == 0)
      state.handlers[static_cast<size_t>(signal)] = reinterpret_cast<void*>(action.sa_sigaction);
  }
  const char* locale = ::setlocale(LC_ALL, nullptr);
  state.locale = locale == nullptr ? "" : locale;
  state.folder = real_path(".").value_or("");
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable)
    state.environment.emplace_back(*variable);
  std::sort(state.environment.begin(), state.environment.end());
  state.mask = ::umask(0);
  ::umask(state.mask);
  state.rounding = ::fegetround();
#if defined(__x86_64__)
  state.control = _mm_getcsr() & ~0x3fu;  // without the sticky flags
#endif
  return state;
}

uint64_t resident_bytes() {
  const std::string text = read_system_file("/proc/self/statm");
  const std::vector<std::string_view> fields = split(trim(text), ' ');
  uint64_t pages = 0;
  if (fields.size() > 1) (void)parse_u64(fields[1], &pages);
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

double load_factor() {
  constexpr double kMost = 8;
  const std::string text = read_system_file("/proc/loadavg");
  cpu_set_t mine;
  const int processors =
      ::sched_getaffinity(0, sizeof(mine), &mine) == 0 ? std::max(CPU_COUNT(&mine), 1) : 1;
  return std::clamp(std::strtod(text.c_str(), nullptr) / processors, 1.0, kMost);
}

double seconds_queued() {
  const std::string text = read_system_file("/proc/thread-self/schedstat");
  const std::vector<std::string_view> fields = split(trim(text), ' ');
  uint64_t ns = 0;
  if (fields.size() > 1) (void)parse_u64(fields[1], &ns);
  return 1e-9 * static_cast<double>(ns);
}

uint64_t allocated_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

Outcome compare_process_state(const ProcessState& before, const ProcessState& after,
                              const char* who) {
  for (size_t signal = 1; signal < before.handlers.size(); ++signal) {
    CONFORM_EXPECT(before.handlers[signal] == after.handlers[signal],
                   "{} changed the handler of signal {}", who, signal);
  }
  CONFORM_EXPECT(before.locale == after.locale, "{} changed the locale from {} to {}", who,
                 before.locale, after.locale);
  CONFORM_EXPECT(before.folder == after.folder, "{} changed the current folder to {}", who,
                 quoted(after.folder));
  std::vector<std::string> changed;
  std::set_symmetric_difference(before.environment.begin(), before.environment.end(),
                                after.environment.begin(), after.environment.end(),
                                std::back_inserter(changed));
  CONFORM_EXPECT(changed.empty(), "{} changed the environment: {}", who, quoted(changed[0]));
  CONFORM_EXPECT(before.mask == after.mask, "{} changed the file mode mask from {:o} to {:o}", who,
                 before.mask, after.mask);
  CONFORM_EXPECT(before.rounding == after.rounding && before.control == after.control,
                 "{} changed the floating-point state", who);
  return pass();
}

}  // namespace tenon::conform
