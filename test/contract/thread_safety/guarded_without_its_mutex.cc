// SPDX-License-Identifier: Apache-2.0
// expect: requires holding mutex
#include "base/mutex.h"

class Counter {
 public:
  void Add() {
#ifdef BAD
    ++count_;
#else
    const pitot::base::MutexLock lock(&mutex_);
    ++count_;
#endif
  }

 private:
  pitot::base::Mutex mutex_;
  int count_ PITOT_GUARDED_BY(mutex_) = 0;
};

void Use(Counter* counter) { counter->Add(); }
