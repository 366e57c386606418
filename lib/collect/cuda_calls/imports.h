// SPDX-License-Identifier: Apache-2.0
//
// Import tables of the loaded libraries: entries for functions of CUDA are made to lead to our wrappers of them (ELF's
// relocations of kind JUMP_SLOT and GLOB_DAT).
#ifndef PITOT_LIB_COLLECT_CUDA_CALLS_IMPORTS_H_
#define PITOT_LIB_COLLECT_CUDA_CALLS_IMPORTS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace pitot::cuda_calls {

// A process may hold several copies of a function: two versions of the runtime, or another tool's wrapper.
inline constexpr uint32_t kMostOriginals = 3;

// A wrapped function. Each wrapper calls the original of its number. Entries change from null to a function, once.
struct Function {
  std::string_view name;
  std::array<void*, kMostOriginals> wrappers;
  std::array<std::atomic<void*>, kMostOriginals>* originals;
};

struct ImportCounts {
  uint32_t libraries = 0;  // with an entry for a wrapper
  uint32_t entries = 0;    // for a wrapper
  uint32_t refused = 0;    // not changed: read-only, or without room
};

class Imports {
 public:
  // Functions of libraries whose file names begin with one of `providers`. In order of their names.
  Imports(std::span<const Function> functions, std::span<const std::string_view> providers)
      : functions_(functions), providers_(providers) {}

  // Changes the entries of all loaded libraries, if libraries were loaded since the last two times. Holds the loader's
  // lock meanwhile: none of them can go away. Throws bad_alloc.
  void Change();
  // As of the last change.
  const ImportCounts& counts() const { return counts_; }
  bool has_provider() const { return has_provider_; }

 private:
  struct Definition {
    const Function* function;
    void* address;
  };
  class Library;
  bool HasNews();
  void FindDefinitions();
  const Function* Find(std::string_view name) const;
  void* DefinitionOf(const Function& function) const;

  const std::span<const Function> functions_;
  const std::span<const std::string_view> providers_;
  uint64_t seen_loads_ = 0;
  uint32_t looks_left_ = 2;
  std::vector<Definition> definitions_;  // by function
  bool has_provider_ = false;
  ImportCounts counts_;
};

}  // namespace pitot::cuda_calls

#endif  // PITOT_LIB_COLLECT_CUDA_CALLS_IMPORTS_H_
