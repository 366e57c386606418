// SPDX-License-Identifier: Apache-2.0
//
// Import tables of the loaded libraries: entries for functions of CUDA are made to lead to our wrappers of them (ELF's
// relocations of kind JUMP_SLOT and GLOB_DAT).
#ifndef PITOT_LIB_COLLECT_CUDA_CALLS_IMPORTS_H_
#define PITOT_LIB_COLLECT_CUDA_CALLS_IMPORTS_H_

#include <link.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "collect/cuda_calls/function.h"

namespace pitot::cuda_calls {

struct ImportCounts {
  uint32_t libraries = 0;  // with an entry for a wrapper
  uint32_t entries = 0;    // for a wrapper
  uint32_t refused = 0;    // not changed: read-only, or without room
  uint32_t pending = 0;    // that lead to one of several functions, not known before their first call
};

class Imports {
 public:
  // Functions of libraries whose file names begin with one of `providers`. In order of their names.
  Imports(std::span<const Function> functions, std::span<const std::string_view> providers)
      : functions_(functions), providers_(providers) {}

  // Changes the entries of all loaded libraries, if libraries were loaded since the last two times, or if an entry was
  // not known then. Waits for loads of other threads; libraries not ready yet are left for the next time. Throws
  // bad_alloc.
  void Change();
  // As of the last change.
  const ImportCounts& counts() const { return counts_; }
  bool has_provider() const { return has_provider_; }

 private:
  struct Definition {
    const Function* function;
    void* address;
  };
  struct Range {
    uintptr_t begin = 0, end = 0;
    bool Has(uintptr_t address) const { return address >= begin && address < end; }
  };
  class Library;
  static bool Store(void** entry, void* value, const Range& read_only);
  struct Loads {
    unsigned long long added = 0, removed = 0;
    bool operator==(const Loads&) const = default;
  };
  static Loads LoadsNow();
  bool HasNews();
  void MakeRoom();
  void FindDefinitions();
  void FindLoaded();
  bool IsReady(const dl_phdr_info& info) const;
  bool IsLoaded(void* address) const;
  uint32_t MakeNumber(const Function& function, void* original) const;
  const Function* Find(std::string_view name) const;
  void* DefinitionOf(const Function& function) const;

  const std::span<const Function> functions_;
  const std::span<const std::string_view> providers_;
  Loads seen_;
  uint32_t looks_left_ = 2;
  std::vector<const void*> loaded_;      // headers of libraries whose loading has ended, in order
  std::vector<Definition> definitions_;  // by function
  std::vector<Range> ranges_;            // of the loaded libraries
  bool are_ranges_whole_ = true;
  bool has_provider_ = false;
  ImportCounts counts_;
};

}  // namespace pitot::cuda_calls

#endif  // PITOT_LIB_COLLECT_CUDA_CALLS_IMPORTS_H_
