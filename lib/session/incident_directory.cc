// SPDX-License-Identifier: Apache-2.0
#include "session/incident_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/message.h"

namespace pitot::session {
namespace {

using base::Error;

constexpr char kPartialPrefix[] = ".pitot-partial-";

// strerror_r in its two forms.
[[maybe_unused]] const char* Said(int, const char* buffer) { return buffer; }
[[maybe_unused]] const char* Said(const char* text, const char*) { return text; }

Status SystemError(const char* what, const std::string& path, int error) {
  char buffer[128] = "";
  const StatusCode code = error == ENOSPC || error == EDQUOT ? StatusCode::kResourceExhausted
                          : error == ENOENT                  ? StatusCode::kNotFound
                                                             : StatusCode::kIoError;
  return Error(code, "cannot %s %s: %s", what, path.c_str(), Said(strerror_r(error, buffer, sizeof buffer), buffer));
}

// Calls `visit(name)` for each entry of the directory but "." and "..".
template <class Visit> void ForEachEntry(int directory_fd, Visit visit) {
  const int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  DIR* directory = fdopendir(fd);
  if (directory == nullptr) {
    close(fd);
    return;
  }
  while (const dirent* entry = readdir(directory)) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) visit(entry->d_name);
  }
  closedir(directory);
}

// Removes an incident: a directory of plain files.
void RemoveFlat(int parent_fd, const std::string& name) noexcept {
  const int fd = openat(parent_fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd >= 0) {
    ForEachEntry(fd, [fd](const char* file) { unlinkat(fd, file, 0); });
    close(fd);
  }
  unlinkat(parent_fd, name.c_str(), AT_REMOVEDIR);
}

uint64_t FlatBytes(int parent_fd, const std::string& name) {
  const int fd = openat(parent_fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return 0;
  uint64_t bytes = 0;
  ForEachEntry(fd, [&](const char* file) {
    struct stat info;
    if (fstatat(fd, file, &info, AT_SYMLINK_NOFOLLOW) == 0) bytes += static_cast<uint64_t>(info.st_blocks) * 512;
  });
  close(fd);
  return bytes;
}

// "20261121T015359Z-0007-cause"
bool IsIncidentName(const char* name) {
  static constexpr char kShape[] = "ddddddddTddddddZ-dddd";
  for (size_t i = 0; kShape[i] != '\0'; ++i) {
    const bool digit = name[i] >= '0' && name[i] <= '9';
    if (kShape[i] == 'd' ? !digit : name[i] != kShape[i]) return false;
  }
  return true;
}

class FileSink final : public ByteSink {
 public:
  FileSink(int fd, Throttle* throttle) : fd_(fd), throttle_(throttle) {}

  bool Write(const void* data, uint64_t size) noexcept override {
    const auto* at = static_cast<const char*>(data);
    while (size > 0 && error_ == 0) {
      if (!throttle_->Proceed()) {
        error_ = ECANCELED;
        break;
      }
      const ssize_t n = write(fd_, at, std::min<uint64_t>(size, 1 << 18));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        error_ = n < 0 ? errno : EIO;
        break;
      }
      at += n;
      size -= static_cast<uint64_t>(n);
    }
    return error_ == 0;
  }
  int error() const { return error_; }

 private:
  int fd_;
  Throttle* throttle_;
  int error_ = 0;
};

}  // namespace

std::string FileSafe(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (plain)
      safe += c;
    else if (!safe.empty() && safe.back() != '-')
      safe += '-';
    if (safe.size() == 40) break;
  }
  while (!safe.empty() && safe.back() == '-') safe.pop_back();
  return safe.empty() ? "incident" : safe;
}

IncidentDirectory::~IncidentDirectory() {
  Abandon();
  if (fd_ >= 0) close(fd_);
}

Status IncidentDirectory::Open(const std::string& path) {
  path_ = path;
  if (path.empty()) return {};
  if (path[0] != '/') {
    char* cwd = getcwd(nullptr, 0);  // the host may change its directory later
    if (cwd != nullptr) path_ = std::string(cwd) + "/" + path;
    free(cwd);
  }
  if (Status s = Reopen(); !s.ok()) return s;
  if (faccessat(fd_, ".", W_OK | X_OK, AT_EACCESS) != 0)
    return SystemError("write to Options::incident_directory", path_, errno);
  // What a killed process left half-written.
  std::vector<std::string> dead;
  ForEachEntry(fd_, [&dead](const char* name) {
    if (std::strncmp(name, kPartialPrefix, sizeof kPartialPrefix - 1) != 0) return;
    const long pid = std::strtol(name + sizeof kPartialPrefix - 1, nullptr, 10);
    if (pid == getpid() || (kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH)) dead.push_back(name);
  });
  for (const std::string& name : dead) RemoveFlat(fd_, name);
  return {};
}

// Opens the directory, which may have been removed or replaced since.
Status IncidentDirectory::Reopen() {
  if (mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST)
    return SystemError("create Options::incident_directory", path_, errno);
  const int fd = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return SystemError("open Options::incident_directory", path_, errno);
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
  return {};
}

Status IncidentDirectory::Begin(uint64_t number, int64_t realtime_ns, const std::string& cause) {
  const time_t seconds = static_cast<time_t>(realtime_ns / 1'000'000'000);
  tm utc{};
  gmtime_r(&seconds, &utc);
  char stamp[64];
  strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc);
  char counted[96];
  std::snprintf(counted, sizeof counted, "%s-%04llu-", stamp, static_cast<unsigned long long>(number));
  name_ = counted + FileSafe(cause);
  partial_ = kPartialPrefix + std::to_string(getpid()) + "-" + std::to_string(number);
  if (Status s = Reopen(); !s.ok()) return s;
  RemoveFlat(fd_, partial_);
  if (mkdirat(fd_, partial_.c_str(), 0700) != 0) return SystemError("create", path_ + "/" + partial_, errno);
  partial_fd_ = openat(fd_, partial_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (partial_fd_ < 0) return SystemError("open", path_ + "/" + partial_, errno);
  return {};
}

Status IncidentDirectory::AddFile(Serializer* serializer, const model::Trace& trace, Throttle* throttle) {
  const std::string name = serializer->FileName();
  const int fd = openat(partial_fd_, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return SystemError("create", path_ + "/" + partial_ + "/" + name, errno);
  FileSink sink(fd, throttle);
  Status status;
  try {
    status = serializer->Serialize(trace, sink);
  } catch (...) {
    status = Error(StatusCode::kInternal, "%s: the serializer threw an exception", name.c_str());
  }
  int error = sink.error();
  if (error == 0 && status.ok() && fsync(fd) != 0 && errno != EINVAL && errno != EROFS) error = errno;
  if (close(fd) != 0 && error == 0) error = errno;
  if (error != 0) return SystemError("write", path_ + "/" + partial_ + "/" + name, error);
  return status;
}

Status IncidentDirectory::Commit(std::string* path) {
  close(partial_fd_);
  partial_fd_ = -1;
  if (renameat(fd_, partial_.c_str(), fd_, name_.c_str()) != 0) {
    const int error = errno;
    RemoveFlat(fd_, partial_);
    return SystemError("rename an incident to", path_ + "/" + name_, error);
  }
  fsync(fd_);
  *path = path_ + "/" + name_;
  return {};
}

void IncidentDirectory::Abandon() noexcept {
  if (partial_fd_ < 0) return;
  close(partial_fd_);
  partial_fd_ = -1;
  RemoveFlat(fd_, partial_);
}

void IncidentDirectory::Prune(uint64_t most, uint64_t most_bytes) noexcept {
  try {
    std::vector<std::string> names;
    ForEachEntry(fd_, [&names](const char* name) {
      if (IsIncidentName(name)) names.push_back(name);
    });
    std::sort(names.begin(), names.end());  // by time
    std::vector<uint64_t> bytes;
    uint64_t total = 0;
    for (const std::string& name : names) {
      bytes.push_back(FlatBytes(fd_, name));
      total += bytes.back();
    }
    for (size_t i = 0; i + 1 < names.size() && (names.size() - i > most || total > most_bytes); ++i) {
      RemoveFlat(fd_, names[i]);
      total -= bytes[i];
    }
  } catch (const std::bad_alloc&) {
    // The next incident tries again.
  }
}

}  // namespace pitot::session
