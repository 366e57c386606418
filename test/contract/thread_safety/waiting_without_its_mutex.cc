// SPDX-License-Identifier: Apache-2.0
// expect: requires holding mutex
#include "base/mutex.h"

class Flag {
 public:
  void Await() {
    pitot::base::MutexLock lock(&mutex_);
    while (!is_set_) {
#ifdef BAD
      lock.Unlock();
      changed_.Wait(&mutex_);
      lock.Lock();
#else
      changed_.Wait(&mutex_);
#endif
    }
  }

 private:
  pitot::base::Mutex mutex_;
  pitot::base::CondVar changed_;
  bool is_set_ PITOT_GUARDED_BY(mutex_) = false;
};

void Use(Flag* flag) { flag->Await(); }
