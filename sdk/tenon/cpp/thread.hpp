// Threads of a plugin. They take no signals, which are for the program's own threads, but for two
// kinds. A signal that a thread's own fault raises reaches nobody else: blocked, it would end the
// process without the program's crash handler. And SIGPROF, by which a profiler measures the thread
// that it interrupts. POSIX.
#ifndef TENON_CPP_THREAD_HPP_
#define TENON_CPP_THREAD_HPP_

#include <signal.h>

#include <initializer_list>
#include <thread>
#include <utility>

namespace tenon::inline sdk {

// The signals that a thread of a plugin blocks: all but those of a fault and SIGPROF.
inline sigset_t signals_of_others() {
  sigset_t set;
  sigfillset(&set);
  for (int open : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF})
    sigdelset(&set, open);
  return set;
}

// Runs `work` in a thread of its own with those signals blocked. The caller's mask is what it was,
// also when no thread can be had (std::system_error). Join it before the device is closed: nothing
// of a plugin may run when it is unloaded.
template <typename Work>
std::thread start_thread(Work work) {
  struct Blocked {
    sigset_t before;
    Blocked() {
      const sigset_t others = signals_of_others();
      pthread_sigmask(SIG_BLOCK, &others, &before);
    }
    ~Blocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  } blocked;
  return std::thread(std::move(work));
}

}  // namespace tenon::inline sdk

#endif  // TENON_CPP_THREAD_HPP_
