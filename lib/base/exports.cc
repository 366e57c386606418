// SPDX-License-Identifier: Apache-2.0
#include "base/exports.h"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace pitot::base {
namespace {

constexpr uint64_t kMostBytes = 64 << 20;

// A file that others may change while it is being read: every read may be short.
class File {
 public:
  explicit File(const char* path) : fd_(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool Read(uint64_t at, void* to, size_t bytes) const {
    return fd_ >= 0 && at <= INT64_MAX && pread(fd_, to, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes);
  }
  template <class T> std::vector<T> ReadAll(uint64_t at, uint64_t bytes) const {
    std::vector<T> all(bytes <= kMostBytes ? bytes / sizeof(T) : 0);
    if (!Read(at, all.data(), all.size() * sizeof(T))) all.clear();
    return all;
  }

 private:
  const int fd_;
};

}  // namespace

bool FileExports(const char* path, std::initializer_list<std::string_view> symbols) {
  const File file(path);
  Elf64_Ehdr header;
  if (!file.Read(0, &header, sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr))
    return false;
  const auto sections = file.ReadAll<Elf64_Shdr>(header.e_shoff, uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
  const auto is_table = [](const Elf64_Shdr& section) { return section.sh_type == SHT_DYNSYM; };
  const auto table = std::find_if(sections.begin(), sections.end(), is_table);
  if (table == sections.end() || table->sh_link >= sections.size()) return false;
  const Elf64_Shdr& strings = sections[table->sh_link];
  auto names = file.ReadAll<char>(strings.sh_offset, strings.sh_size);
  names.push_back('\0');  // ends the last name in any case
  const auto entries = file.ReadAll<Elf64_Sym>(table->sh_offset, table->sh_size);
  return std::all_of(symbols.begin(), symbols.end(), [&](std::string_view symbol) {
    return std::any_of(entries.begin(), entries.end(), [&](const Elf64_Sym& entry) {
      return entry.st_shndx != SHN_UNDEF && entry.st_name < names.size() && symbol == names.data() + entry.st_name;
    });
  });
}

}  // namespace pitot::base
