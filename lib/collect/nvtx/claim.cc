// SPDX-License-Identifier: Apache-2.0
#include "collect/nvtx/claim.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/exports.h"
#include "base/message.h"
#include "base/safe_read.h"
#include "collect/nvtx/abi.h"
#include "collect/nvtx/capture.h"

namespace pitot::nvtx {
namespace {

const void* ObjectOf(const void* symbol) noexcept {
  Dl_info object = {};
  return symbol != nullptr && dladdr(symbol, &object) != 0 ? object.dli_fbase : nullptr;
}

// An address in the object of this copy of Pitot. The entry point is exported, so its address may be that of another
// tool linked to the program.
const void* Here() noexcept { return reinterpret_cast<const void*>(&ObjectOf); }

// Whether NVTX, given this value, calls this copy of Pitot.
bool LeadsHere(const char* value) noexcept {
  void* const object = dlopen(value, RTLD_LAZY | RTLD_NOLOAD);
  if (object == nullptr) return false;
  const void* const found = ObjectOf(dlsym(object, abi::kEntryPoint));
  dlclose(object);
  return found != nullptr && found == ObjectOf(Here());
}

// Whether the value names another copy of Pitot, here or in the process that set it. Such a copy takes nothing here.
bool IsInherited(const char* value) {
  // Set by a program that is the tool itself. In another program it leads nowhere, or to a tool that nobody named:
  // libcupti is one, and programs with LibTorch 2 are linked to it.
  if (value[0] == '\0') return true;
  constexpr char kMark[] = "pitot_process";  // exported by every copy (trace/process.h)
  void* const object = dlopen(value, RTLD_LAZY | RTLD_NOLOAD);
  if (object == nullptr) return base::FileExports(value, {abi::kEntryPoint, kMark});
  const void* const found = ObjectOf(dlsym(object, abi::kEntryPoint));
  const bool is_inherited = found != nullptr && found == ObjectOf(dlsym(object, kMark));
  dlclose(object);
  return is_inherited;
}

// The first words of NVTX's data in each object with its code.
struct Globals {
  uint32_t state;  // 0 until the first call
  uint32_t unused;
  abi::Callbacks callbacks;
  abi::VersionInfo version_info;
  void* mark_ex;  // the first slot

  bool IsMissed() const {
    return callbacks.struct_size == sizeof callbacks && version_info.struct_size == sizeof version_info &&
           version_info.version == abi::kVersion && version_info.reserved == 0 &&
           callbacks.get_module_table != nullptr && version_info.set_tool_version != nullptr && state != 0 &&
           state <= 2 && !IsOurSlot(mark_ex);
  }
};

constexpr size_t kChunkBytes = 64 << 10;

bool IsMissedIn(uint64_t begin, uint64_t bytes, unsigned char* chunk) {
  for (uint64_t at = 0; at + sizeof(Globals) <= bytes; at += kChunkBytes - sizeof(Globals)) {
    const uint64_t size = std::min<uint64_t>(kChunkBytes, bytes - at);
    if (!base::ReadMemory(begin + at, chunk, size)) return false;
    for (uint64_t i = 0; i + sizeof(Globals) <= size; i += 8) {
      // Nearly all words fail here.
      uint64_t word;
      std::memcpy(&word, chunk + i + offsetof(Globals, callbacks), sizeof word);
      if (word != sizeof(abi::Callbacks)) continue;
      Globals globals;
      std::memcpy(&globals, chunk + i, sizeof globals);
      if (globals.IsMissed()) return true;
    }
  }
  return false;
}

struct Search {
  std::string missed;
  std::vector<unsigned char> chunk;
};

int Visit(dl_phdr_info* object, size_t, void* context) {
  auto& search = *static_cast<Search*>(context);
  if (!HasMissed(*object, &search.chunk)) return 0;
  std::string_view name = object->dlpi_name[0] != '\0' ? object->dlpi_name : "the program";
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0
  search.missed.append(search.missed.empty() ? "" : ", ").append(name);
  return 0;
}

}  // namespace

Claim WhoseClaim() {
  const char* const value = std::getenv(abi::kVariable);
  if (value == nullptr) return Claim::kFree;
  if (LeadsHere(value)) return Claim::kOurs;
  return IsInherited(value) ? Claim::kFree : Claim::kAnothers;
}

Status TakeClaim() noexcept {
  // Empty means the program itself. Other programs that inherit it find nothing, as before, or another tool linked to
  // them (docs/guide/nvtx.md). There is no other value for a program, because its file cannot be opened a second time.
  char path[PATH_MAX] = "";
  if (!LeadsHere(path)) {
    Dl_info object = {};
    const bool is_known = dladdr(Here(), &object) != 0 && object.dli_fname != nullptr;
    if (!is_known || realpath(object.dli_fname, path) == nullptr || !LeadsHere(path))
      return base::Error(StatusCode::kUnavailable,
                         "libraries with NVTX cannot find Pitot: %s does not export %s; link it with "
                         "-Wl,--export-dynamic-symbol=%s, as pitot::nvtx does in CMake",
                         is_known ? object.dli_fname : "this program", abi::kEntryPoint, abi::kEntryPoint);
  }
  if (setenv(abi::kVariable, path, 1) != 0)
    return base::Error(StatusCode::kResourceExhausted, "no memory to set %s", abi::kVariable);
  return {};
}

bool HasMissed(const dl_phdr_info& object, std::vector<unsigned char>* chunk) {
  chunk->resize(kChunkBytes);
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& part = object.dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_W) == 0) continue;
    const uint64_t address = object.dlpi_addr + part.p_vaddr;
    const uint64_t begin = (address + 7) & ~uint64_t{7}, end = address + part.p_filesz;  // empty if it is all zeros
    if (begin < end && IsMissedIn(begin, end - begin, chunk->data())) return true;
  }
  return false;
}

std::string MissedObjects() {
  Search search;
  dl_iterate_phdr(Visit, &search);
  return std::move(search.missed);
}

}  // namespace pitot::nvtx
