// Threads of a plugin. They take no signals: those are for the program's own threads. POSIX.
#ifndef TENON_CPP_THREAD_HPP_
#define TENON_CPP_THREAD_HPP_

#include <signal.h>

#include <thread>
#include <utility>

namespace tenon::inline sdk {

// Runs `work` in a thread of its own with all signals blocked. The caller's mask is what it was, also when no thread can be had
// (std::system_error). Join it before the device is closed: nothing of a plugin may run when it is unloaded.
template <typename Work>
std::thread start_thread(Work work) {
  struct Blocked {
    sigset_t before;
    Blocked() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~Blocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  } blocked;
  return std::thread(std::move(work));
}

}  // namespace tenon::inline sdk

#endif  // TENON_CPP_THREAD_HPP_
