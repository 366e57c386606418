// SPDX-License-Identifier: Apache-2.0
// expect: while mutex 'mutex_' is held
#include "base/mutex.h"

class Counter {
 public:
  void Add() PITOT_EXCLUDES(mutex_) {
    const pitot::base::MutexLock lock(&mutex_);
    ++count_;
  }
  void AddTwo() PITOT_EXCLUDES(mutex_) {
    Add();
#ifdef BAD
    const pitot::base::MutexLock lock(&mutex_);
#endif
    Add();
  }

 private:
  pitot::base::Mutex mutex_;
  int count_ PITOT_GUARDED_BY(mutex_) = 0;
};

void Use(Counter* counter) { counter->AddTwo(); }
