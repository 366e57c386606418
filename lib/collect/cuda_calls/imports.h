// SPDX-License-Identifier: Apache-2.0
//
// Import tables of the loaded libraries: entries for functions of CUDA are made to lead to our wrappers of them (ELF's
// relocations of kind JUMP_SLOT and GLOB_DAT).
#ifndef PITOT_LIB_COLLECT_CUDA_CALLS_IMPORTS_H_
#define PITOT_LIB_COLLECT_CUDA_CALLS_IMPORTS_H_

#include <link.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace pitot::cuda_calls {

// A process may hold several copies of a function: two versions of the runtime, or another tool's wrapper.
inline constexpr uint32_t kMostOriginals = 3;

// A function that a wrapper calls; null: none.
struct Original : std::atomic<void*> {
  using std::atomic<void*>::atomic;
  bool is_of_library = false;  // otherwise it is code that somebody made at run time. For Imports.
};

// A wrapped function. Each wrapper calls the original of its number. Entries change from null to a function, once.
struct Function {
  std::string_view name;
  std::array<void*, kMostOriginals> wrappers;
  std::array<Original, kMostOriginals>* originals;
};

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
  uint32_t NumberOf(const Function& function, void* original) const;
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
