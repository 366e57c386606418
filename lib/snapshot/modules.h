// SPDX-License-Identifier: Apache-2.0
//
// Since when a library lies at its addresses. A site's address in an old record may be another library's by now.
#ifndef PITOT_LIB_SNAPSHOT_MODULES_H_
#define PITOT_LIB_SNAPSHOT_MODULES_H_

#include <cstdint>
#include <vector>

#include "base/last_library.h"
#include "base/mutex.h"

namespace pitot::snapshot {

// Threads: any.
class Modules {
 public:
  // Looks whether libraries came. The watcher calls it every round, because the loader keeps no times. Libraries found
  // by the first look are as old as the recorder. It takes the loader's lock only if one was loaded since. Cost: three
  // system calls if there is none.
  void Look(bool slow_clock) noexcept PITOT_EXCLUDES(mutex_);
  // Events before that time, in ticks, are of another library, if any: what lies at `address` was loaded later. The
  // time is that of the look that found it, or, if nothing was closed meanwhile, that of the look before. 0: it was
  // always there, or belongs to no library.
  uint64_t LoadedSince(uint64_t address) const noexcept PITOT_EXCLUDES(mutex_);

 private:
  struct Module {
    uint64_t begin, end;
    uint64_t identity;  // a hash: the same file at the same place has the same
    uint64_t since;
  };
  struct Looking;

  mutable base::Mutex mutex_;
  base::LastLibrary last_ PITOT_GUARDED_BY(mutex_);
  std::vector<Module> modules_ PITOT_GUARDED_BY(mutex_);
  uint64_t subs_ PITOT_GUARDED_BY(mutex_) = 0;          // closed by the loader so far
  uint64_t looked_ticks_ PITOT_GUARDED_BY(mutex_) = 0;  // after the last look
};

}  // namespace pitot::snapshot

#endif  // PITOT_LIB_SNAPSHOT_MODULES_H_
