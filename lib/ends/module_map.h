// SPDX-License-Identifier: Apache-2.0
//
// The loaded libraries, for handlers of signals: those may not ask the loader. The watcher copies the list whenever it
// has changed.
#ifndef PITOT_LIB_ENDS_MODULE_MAP_H_
#define PITOT_LIB_ENDS_MODULE_MAP_H_

#include <cstdint>

namespace pitot::ends {

// A library or the program, in a note. Plain memory.
struct MappedModule {
  uint64_t begin, end;  // addresses
  uint32_t build_id_bytes;
  uint8_t build_id[20];
  char name[72];  // its path, cut off at the beginning; the program's, too
};

// Copies the list if libraries were loaded since. Only then it takes the loader's lock. A call during another does
// nothing. Not in handlers.
// Cost: three system calls if there are none.
void LookForModules() noexcept;
// For the child of a fork: forgets a call that the parent's thread was in.
void ForgetLookAfterFork() noexcept;

// The module at an address, as of the last look. False: none of the first 512. Safe in handlers of signals.
bool FindModule(uint64_t address, MappedModule* module) noexcept;

}  // namespace pitot::ends

#endif  // PITOT_LIB_ENDS_MODULE_MAP_H_
