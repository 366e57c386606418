// SPDX-License-Identifier: Apache-2.0
//
// Whether libraries were loaded, without the loader's lock: a host's thread may hang while it holds that.
#ifndef PITOT_LIB_BASE_LAST_LIBRARY_H_
#define PITOT_LIB_BASE_LAST_LIBRARY_H_

#include <link.h>

namespace pitot::base {

// The last library of the loader's list: a new one goes behind it. Threads: one at a time.
class LastLibrary {
 public:
  // Whether no library was loaded since Remember. False before. Libraries may have been closed.
  // Cost: three system calls.
  bool IsStillLast() const noexcept;
  // Called inside dl_iterate_phdr, which has the loader's lock.
  void Remember() noexcept;

 private:
  // A new library may have all of another's addresses, so its name and its first bytes count, too: they have the
  // build's id as a rule.
  struct Mark {
    ElfW(Addr) address;
    const char* name;
    const void* dynamic;
    const link_map* next;
    char text[64], head[1024];
  };
  static bool Read(const link_map* at, Mark* mark) noexcept;

  const link_map* at_ = nullptr;
  Mark mark_{};
};

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_LAST_LIBRARY_H_
