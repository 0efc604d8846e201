// Threads of the library leave signals to the program's own threads: a thread inherits the signal
// mask of the thread that starts it. Two kinds stay unblocked on every thread. A signal raised by
// the thread's own fault cannot be delivered elsewhere; if it is blocked, it ends the process
// without the program's crash handler. SIGPROF must reach the thread that a profiler measures.
#pragma once

#include <signal.h>

#include <initializer_list>

namespace tenon {

// All signals except those of faults and profilers.
inline sigset_t signals_of_others() {
  sigset_t set;
  sigfillset(&set);
  for (int open : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF})
    sigdelset(&set, open);
  return set;
}

// Blocks them for the calling thread during its lifetime, so that threads started meanwhile inherit
// the mask. The old mask is restored even if no thread could be started.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    const sigset_t others = signals_of_others();
    pthread_sigmask(SIG_BLOCK, &others, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tenon
