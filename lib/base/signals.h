// SPDX-License-Identifier: Apache-2.0
//
// Signals and the threads of Pitot's own.
#ifndef PITOT_LIB_BASE_SIGNALS_H_
#define PITOT_LIB_BASE_SIGNALS_H_

#include <pthread.h>
#include <signal.h>

namespace pitot::base {

// While it lives, threads that the calling thread creates inherit blocked signals: a host's signals are for the host's
// threads. Those that a thread raises by a mistake of its own stay as they are: its handlers of crashes must see ours,
// too.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&all, signal);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_SIGNALS_H_
