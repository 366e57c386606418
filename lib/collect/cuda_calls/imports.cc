// SPDX-License-Identifier: Apache-2.0
#include "collect/cuda_calls/imports.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <type_traits>

#include "collect/cuda_calls/look_ups.h"
#include "trace/own_look_up.h"

namespace pitot::cuda_calls {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kJumpSlot = R_X86_64_JUMP_SLOT, kGlobalData = R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
constexpr uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT, kGlobalData = R_AARCH64_GLOB_DAT;
#else
constexpr uint32_t kJumpSlot = ~0u, kGlobalData = ~0u;  // none: nothing is changed
#endif

// Look-ups of NVIDIA's own libraries are left alone: they call one another.
bool IsOfCuda(std::string_view name) {
  constexpr std::string_view kNames[] = {"libcuda.so", "libcudart.so", "libcupti.so", "libnvidia-", "libnvperf_"};
  return std::any_of(std::begin(kNames), std::end(kNames), [name](auto one) { return name.starts_with(one); });
}

// False: there is no room.
template <class T> bool PushIfRoom(std::vector<T>* to, const std::type_identity_t<T>& one) {
  if (to->size() == to->capacity()) return false;
  to->push_back(one);
  return true;
}

}  // namespace

// An entry of a table that the loader has made read-only is writable for one store.
bool Imports::Store(void** entry, void* value, const Range& read_only) {
  const auto address = reinterpret_cast<uintptr_t>(entry);
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = address & ~(page - 1), end = (address + sizeof(void*) + page - 1) & ~(page - 1);
  void* const pages = reinterpret_cast<void*>(begin);  // NOLINT(performance-no-int-to-ptr)
  const bool is_read_only = read_only.Has(address);
  if (is_read_only && mprotect(pages, end - begin, PROT_READ | PROT_WRITE) != 0) return false;
  __atomic_store_n(entry, value, __ATOMIC_RELEASE);
  if (is_read_only) mprotect(pages, end - begin, PROT_READ);
  return true;
}

// The tables of one loaded library.
class Imports::Library {
 public:
  explicit Library(const dl_phdr_info& info) : base_(info.dlpi_addr) {
    const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const ElfW(Dyn)* dynamic = nullptr;
    for (const ElfW(Phdr) & header : std::span(info.dlpi_phdr, info.dlpi_phnum)) {
      const uintptr_t begin = base_ + header.p_vaddr;
      if (header.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);  // NOLINT
      // The loader protects whole pages within it.
      if (header.p_type == PT_GNU_RELRO) read_only_ = {begin & ~(page - 1), (begin + header.p_memsz) & ~(page - 1)};
      if (header.p_type != PT_LOAD) continue;
      mapped_.begin = mapped_.end == 0 ? begin : std::min(mapped_.begin, begin);
      mapped_.end = std::max(mapped_.end, begin + header.p_memsz);
    }
    for (; dynamic != nullptr && dynamic->d_tag != DT_NULL; ++dynamic) Read(*dynamic);
  }

  bool IsReadable() const { return symbols_ != nullptr && names_ != nullptr; }
  // The name that it gives itself (DT_SONAME); empty: none. The path it was loaded from is the loader's memory.
  std::string_view OwnName() const {
    return names_ == nullptr || own_name_ >= names_size_ ? "" : std::string_view(names_ + own_name_);
  }
  const Range& mapped() const { return mapped_; }
  const Range& read_only() const { return read_only_; }

  // The address of a function that it defines; null: it has none, or one that the loader chooses (IFUNC).
  void* Find(std::string_view name) const {
    if (hashes_ == nullptr || !IsReadable()) return nullptr;
    // The table of the GNU tools: numbers of buckets, of the first symbol and of the filter's words; then these.
    const uint32_t buckets = hashes_[0], first = hashes_[1], filter_words = hashes_[2];
    if (buckets == 0) return nullptr;
    const uint32_t* const bucket = hashes_ + 4 + size_t{2} * filter_words;
    const uint32_t* const chain = bucket + buckets;
    uint32_t hash = 5381;
    for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
    for (uint32_t i = bucket[hash % buckets]; i >= first; ++i) {
      const ElfW(Sym)& symbol = symbols_[i];
      const bool is_named = (chain[i - first] | 1) == (hash | 1) && symbol.st_name < names_size_ &&
                            name == std::string_view(names_ + symbol.st_name);
      if (is_named && symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
        return reinterpret_cast<void*>(base_ + symbol.st_value);  // NOLINT(performance-no-int-to-ptr)
      if ((chain[i - first] & 1) != 0) break;
    }
    return nullptr;
  }

  // Visits each entry for a function that another library defines: visit(name, entry).
  template <class Visit> void VisitImports(const Visit& visit) const {
    for (const std::span<const ElfW(Rela)> table : {jumps_, relocations_}) {
      for (const ElfW(Rela) & one : table) {
        const auto type = static_cast<uint32_t>(ELF64_R_TYPE(one.r_info));
        if (type != kJumpSlot && type != kGlobalData) continue;
        const ElfW(Sym)& symbol = symbols_[ELF64_R_SYM(one.r_info)];
        if (symbol.st_shndx != SHN_UNDEF || symbol.st_name >= names_size_) continue;
        visit(std::string_view(names_ + symbol.st_name),
              reinterpret_cast<void**>(base_ + one.r_offset));  // NOLINT(performance-no-int-to-ptr)
      }
    }
  }

 private:
  template <class T> const T* At(uintptr_t address) const {
    // glibc has relocated the addresses of most libraries; not those of the kernel's, nor does every libc.
    return reinterpret_cast<const T*>(address >= base_ ? address : base_ + address);  // NOLINT
  }
  void Read(const ElfW(Dyn) & entry) {
    const auto sized = [](std::span<const ElfW(Rela)> table, size_t bytes) {
      return std::span(table.data(), bytes / sizeof(ElfW(Rela)));
    };
    switch (entry.d_tag) {
      case DT_SYMTAB:
        symbols_ = At<ElfW(Sym)>(entry.d_un.d_ptr);
        break;
      case DT_STRTAB:
        names_ = At<char>(entry.d_un.d_ptr);
        break;
      case DT_GNU_HASH:
        hashes_ = At<uint32_t>(entry.d_un.d_ptr);
        break;
      case DT_STRSZ:
        names_size_ = entry.d_un.d_val;
        break;
      case DT_SONAME:
        own_name_ = entry.d_un.d_val;
        break;
      case DT_JMPREL:
        jumps_ = std::span(At<ElfW(Rela)>(entry.d_un.d_ptr), jumps_.size());
        break;
      case DT_PLTRELSZ:
        jumps_ = sized(jumps_, entry.d_un.d_val);
        break;
      case DT_RELA:
        relocations_ = std::span(At<ElfW(Rela)>(entry.d_un.d_ptr), relocations_.size());
        break;
      case DT_RELASZ:
        relocations_ = sized(relocations_, entry.d_un.d_val);
        break;
      default:
        break;
    }
  }

  const uintptr_t base_;
  Range mapped_, read_only_;
  const ElfW(Sym) * symbols_ = nullptr;
  const uint32_t* hashes_ = nullptr;
  const char* names_ = nullptr;
  size_t names_size_ = 0, own_name_ = SIZE_MAX;
  std::span<const ElfW(Rela)> jumps_, relocations_;
};

Imports::Loads Imports::LoadsNow() {
  Loads loads;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        *static_cast<Loads*>(out) = {info->dlpi_adds, info->dlpi_subs};
        return 1;
      },
      &loads);
  return loads;
}

bool Imports::HasNews() {
  // Once more after a change: the loader may have bound an entry while we changed it.
  const Loads loads = LoadsNow();
  if (loads != seen_ || counts_.pending != 0) looks_left_ = 2;
  seen_ = loads;
  if (looks_left_ == 0) return false;
  --looks_left_;
  return true;
}

// Makes room for all loaded libraries. While the loader lists them, nothing may throw through it or allocate: its lock
// is held, and an allocator may need the loader.
void Imports::MakeRoom() {
  size_t count = 0;
  dl_iterate_phdr([](dl_phdr_info*, size_t, void* out) { return ++*static_cast<size_t*>(out), 0; }, &count);
  loaded_.clear(), ranges_.clear(), definitions_.clear();
  loaded_.reserve(count), ranges_.reserve(count);
  definitions_.reserve(2 * kMostOriginals * functions_.size());
}

// Libraries are listed before the loader has relocated them. Those listed now are ready once no load is under way: the
// loader's lock is held for a whole load, and dladdr takes it.
void Imports::FindLoaded() {
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        PushIfRoom(static_cast<std::vector<const void*>*>(out), info->dlpi_phdr);
        return 0;
      },
      &loaded_);
  std::sort(loaded_.begin(), loaded_.end());
  Dl_info own;
  dladdr(reinterpret_cast<void*>(&Store), &own);
}

// Whether a loaded library was among those, and none went away since: another may be in its place.
bool Imports::IsReady(const dl_phdr_info& info) const {
  return info.dlpi_subs == seen_.removed && std::binary_search(loaded_.begin(), loaded_.end(), info.dlpi_phdr);
}

// Where CUDA's functions are, and which libraries are there. No library is opened for it: closing it might then be its
// end, on this thread.
void Imports::FindDefinitions() {
  has_provider_ = false;
  are_ranges_whole_ = true;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        auto& self = *static_cast<Imports*>(to);
        const Library library(*info);
        self.are_ranges_whole_ &= PushIfRoom(&self.ranges_, library.mapped());
        const auto is_provider = [name = library.OwnName()](auto provider) { return name.starts_with(provider); };
        if (!std::any_of(self.providers_.begin(), self.providers_.end(), is_provider) || !self.IsReady(*info)) return 0;
        self.has_provider_ = true;
        for (const Function& function : self.functions_) {
          if (void* const address = library.Find(function.name)) PushIfRoom(&self.definitions_, {&function, address});
        }
        return 0;
      },
      this);
  if (const Function* const dlsym_here = Find(kDlsym))
    definitions_.push_back({dlsym_here, dlsym(RTLD_DEFAULT, kDlsym.data())});  // no wrapper answers for itself
  // Another library's function of this name comes first for those who see it: a second interposer.
  for (size_t i = 0, count = definitions_.size(); i < count; ++i) {
    void* first = nullptr;
    if (trace::FindOwn(RTLD_DEFAULT, definitions_[i].function->name.data(), &first) && first != definitions_[i].address)
      definitions_.push_back({definitions_[i].function, first});
  }
  // The driver's functions have numbers before anybody asks cuGetProcAddress for them.
  for (const Definition& definition : definitions_) {
    const std::string_view name = definition.function->name;
    if (name.starts_with("cu") && !name.starts_with("cuda")) NumberOf(*definition.function, definition.address);
  }
  std::stable_sort(definitions_.begin(), definitions_.end(),
                   [](const Definition& a, const Definition& b) { return a.function < b.function; });
}

const Function* Imports::Find(std::string_view name) const {
  if (!MayBeFunction(name) && name != kDlsym) return nullptr;
  const auto at = std::lower_bound(functions_.begin(), functions_.end(), name,
                                   [](const Function& one, std::string_view other) { return one.name < other; });
  return at != functions_.end() && at->name == name ? &*at : nullptr;
}

// The only definition of a function; null: there are none, or several.
void* Imports::DefinitionOf(const Function& function) const {
  const auto is_before = [](const Definition& one, const Function* other) { return one.function < other; };
  const auto at = std::lower_bound(definitions_.begin(), definitions_.end(), &function, is_before);
  if (at == definitions_.end() || at->function != &function) return nullptr;
  const auto next = at + 1;
  return next != definitions_.end() && next->function == &function ? nullptr : at->address;
}

bool Imports::IsLoaded(void* address) const {
  return !are_ranges_whole_ || std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
    return range.Has(reinterpret_cast<uintptr_t>(address));
  });
}

// As NumberOf, which finds room also where the library of an original went away: nobody calls it any more.
uint32_t Imports::MakeNumber(const Function& function, void* original) const {
  uint32_t number = NumberOf(function, original);
  for (uint32_t i = 0; number == kMostOriginals && i < kMostOriginals; ++i) {
    Original& there = (*function.originals)[i];
    void* former = there.load(std::memory_order_relaxed);
    if (!there.is_of_library.load(std::memory_order_relaxed) || IsLoaded(former)) continue;
    if (there.compare_exchange_strong(former, original)) number = i;
  }
  if (number != kMostOriginals) (*function.originals)[number].is_of_library.store(IsLoaded(original));
  return number;
}

void Imports::Change() {
  if (!HasNews()) return;
  MakeRoom();
  FindLoaded();
  FindDefinitions();
  counts_ = {};
  const auto change = [this](const dl_phdr_info& info) {
    if (!IsReady(info)) return;
    const Library library(info);
    if (!library.IsReadable()) return;
    bool is_changed = false;
    library.VisitImports([&](std::string_view name, void** entry) {
      const Function* const function = Find(name);
      const bool is_look_up = name == kDlsym;
      if (function == nullptr || function->wrappers[0] == nullptr) return;
      if (is_look_up && IsOfCuda(library.OwnName())) return;
      void* original = __atomic_load_n(entry, __ATOMIC_ACQUIRE);
      const auto& wrappers = function->wrappers;
      if (std::find(wrappers.begin(), wrappers.end(), original) == wrappers.end()) {
        // Until its first call an entry leads back into its own library, to the code that asks the loader.
        if (original == nullptr || library.mapped().Has(reinterpret_cast<uintptr_t>(original)))
          original = DefinitionOf(*function);
        if (original == nullptr) {
          ++counts_.pending;
          return;
        }
        const uint32_t number = MakeNumber(*function, original);
        if (number == kMostOriginals || !Store(entry, wrappers[number], library.read_only())) {
          ++counts_.refused;
          return;
        }
      }
      if (is_look_up) return;  // most libraries have one
      ++counts_.entries;
      is_changed = true;
    });
    counts_.libraries += is_changed;
  };
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* to) {
        (*static_cast<decltype(change)*>(to))(*info);
        return 0;
      },
      const_cast<void*>(static_cast<const void*>(&change)));
}

}  // namespace pitot::cuda_calls
