// SPDX-License-Identifier: Apache-2.0
// expect: must be acquired before
#include "base/mutex.h"

class Pair {
 public:
  void Both() {
#ifdef BAD
    const pitot::base::MutexLock second(&second_);
    const pitot::base::MutexLock first(&first_);
#else
    const pitot::base::MutexLock first(&first_);
    const pitot::base::MutexLock second(&second_);
#endif
  }

 private:
  pitot::base::Mutex first_ PITOT_ACQUIRED_BEFORE(second_);
  pitot::base::Mutex second_;
};

void Use(Pair* pair) { pair->Both(); }
