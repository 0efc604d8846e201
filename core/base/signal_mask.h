// Signals are for the program's own threads: a thread inherits the mask of who starts it.
#pragma once

#include <signal.h>

namespace tenon {

// Blocks all signals of the calling thread while it lives, so that threads started meanwhile take none. Put back also when no thread
// can be had.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tenon
