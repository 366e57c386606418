// SPDX-License-Identifier: Apache-2.0
#include "cli/piped.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/files.h"
#include "pitot/read/trace.h"

namespace pitot::cli {
namespace {

constexpr std::string_view kDatabase = "SQLite format 3";
constexpr uint64_t kHeadBytes = 2 << 20;  // decide on the format

// -1: the path names none.
int DescriptorOf(const std::string& path) {
  if (path == "-" || path == "/dev/stdin") return STDIN_FILENO;
  for (const std::string folder : {"/dev/fd/", "/proc/self/fd/"}) {
    int descriptor = -1;
    if (path.substr(0, folder.size()) == folder && absl::SimpleAtoi(path.substr(folder.size()), &descriptor))
      return descriptor;
  }
  return -1;
}

// A new file without a name, or -1: see errno.
int OpenUnnamed() {
  std::error_code error;
  std::string path = std::filesystem::temp_directory_path(error) / "pitot_stdin_XXXXXX";
  if (error) return errno = error.value(), -1;
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file >= 0) unlink(path.c_str());
  return file;
}

bool WriteAll(int file, const char* data, ssize_t size) {
  while (size > 0) {
    const ssize_t written = write(file, data, static_cast<size_t>(size));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    data += written;
    size -= written;
  }
  return true;
}

}  // namespace

bool IsDescriptor(const std::string& path) { return DescriptorOf(path) >= 0; }

int KeepPiped(const std::string& path, std::string* file) {
  static std::map<int, std::string> kept;
  const int from = DescriptorOf(path);
  *file = path;
  if (from < 0) return kDone;
  if (const auto known = kept.find(from); known != kept.end()) {
    *file = known->second;
    return kDone;
  }
  *file = absl::StrCat("/proc/self/fd/", from);
  struct stat facts = {};
  if (fstat(from, &facts) == 0 && S_ISREG(facts.st_mode)) return kDone;
  const int to = OpenUnnamed();
  std::vector<char> buffer(256 << 10);
  bool is_kept = to >= 0, is_begin = true, is_known = false;
  uint64_t bytes = 0;
  while (is_kept) {
    const ssize_t got = read(from, buffer.data(), buffer.size());
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      Complain(absl::StrFormat("cannot read %s: %s.", path, base::SystemText(errno)));
      return kUnreadable;
    }
    if (is_begin &&
        std::string_view(buffer.data(), static_cast<size_t>(got)).substr(0, kDatabase.size()) == kDatabase) {
      Complain(absl::StrFormat("%s is a SQLite database, which is read by its name only. Name the file.", path));
      return kNotADump;
    }
    is_begin = false;
    is_kept = WriteAll(to, buffer.data(), got);
    bytes += static_cast<uint64_t>(got);
    if (is_kept && !is_known && bytes >= kHeadBytes) {
      is_known = LooksLikeTrace(absl::StrCat("/proc/self/fd/", to));
      if (!is_known) break;  // the reader says what it is
    }
  }
  if (!is_kept) {
    Complain(
        absl::StrFormat("cannot keep the content of %s: %s. Set TMPDIR to a folder with more room, or name a file.",
                        path, base::SystemText(errno)));
    return kNotWritten;
  }
  *file = kept[from] = absl::StrCat("/proc/self/fd/", to);
  return kDone;
}

}  // namespace pitot::cli
