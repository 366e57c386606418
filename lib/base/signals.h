// SPDX-License-Identifier: Apache-2.0
//
// Blocks signals on Pitot's own threads.
#ifndef PITOT_LIB_BASE_SIGNALS_H_
#define PITOT_LIB_BASE_SIGNALS_H_

#include <pthread.h>
#include <signal.h>

namespace pitot::base {

// While this object lives, threads created by the calling thread inherit blocked signals: a host's signals are for the
// host's threads. Signals that a thread raises by its own fault stay unblocked, because the host's crash handlers must
// see ours, too.
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
