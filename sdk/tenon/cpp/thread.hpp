// Threads of a plugin. They block all signals, which are for the program's own threads, with two
// exceptions. Signals of a thread's own faults: if they were blocked, a fault would end the process
// without the program's crash handler. And SIGPROF, with which a profiler samples the thread that
// it interrupts. POSIX.
#ifndef TENON_CPP_THREAD_HPP_
#define TENON_CPP_THREAD_HPP_

#include <signal.h>

#include <initializer_list>
#include <thread>
#include <utility>

namespace tenon::inline sdk {

// The signals that a thread of a plugin blocks: all except those of faults and SIGPROF.
inline sigset_t signals_of_others() {
  sigset_t set;
  sigfillset(&set);
  for (int open : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF})
    sigdelset(&set, open);
  return set;
}

// Runs `work` in a new thread with those signals blocked. Restores the caller's mask, even if no
// thread can be created (std::system_error). Join the thread before the device is closed: no code
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
