// Signals are for the program's own threads: a thread inherits the mask of who starts it. Two kinds
// stay open on every thread. A signal that the thread's own fault raises reaches nobody else:
// blocked, it ends the process without the program's crash handler. And SIGPROF: a profiler
// measures the thread that it interrupts.
#pragma once

#include <signal.h>

#include <initializer_list>

namespace tenon {

// All signals but those of a fault and of a profiler.
inline sigset_t signals_of_others() {
  sigset_t set;
  sigfillset(&set);
  for (int open : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPROF})
    sigdelset(&set, open);
  return set;
}

// Blocks them for the calling thread while it lives, so that threads started meanwhile take none.
// Put back also when no thread can be had.
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
