// SPDX-License-Identifier: Apache-2.0
#include "session/incident_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/message.h"
#include "base/text.h"
#include "session/retention.h"

namespace pitot::session {
namespace {

// Text allocated by the C library.
struct Free {
  void operator()(char* text) const noexcept { free(text); }
};
using Freed = std::unique_ptr<char, Free>;

using base::Error;

constexpr char kPartialPrefix[] = ".pitot-partial-", kPartialSuffix[] = ".partial";
constexpr size_t kVerdictBytes = 4096;  // of a verdict's beginning, with its signature

Status SystemError(const char* what, const std::string& path, int error) {
  const StatusCode code = error == ENOSPC || error == EDQUOT ? StatusCode::kResourceExhausted
                          : error == ENOENT                  ? StatusCode::kNotFound
                                                             : StatusCode::kIoError;
  return Error(code, "cannot %s %s: %s", what, path.c_str(), base::SystemText(error).c_str());
}

// The error for ENOENT: the parent is missing, or takes no folders (/proc).
Status NoPlace(const std::string& path) {
  const bool has_parent = access(ParentOf(path).c_str(), F_OK) == 0;
  return Error(
      StatusCode::kNotFound, "cannot create Options::incident_directory %s: its parent folder %s", path.c_str(),
      has_parent ? "exists, and the system answers: No such file or directory" : "does not exist; create that first");
}

std::string NameOf(uint64_t number, int64_t realtime_ns, const std::string& cause) {
  const time_t seconds = static_cast<time_t>(realtime_ns / 1'000'000'000);
  tm utc{};
  gmtime_r(&seconds, &utc);
  char stamp[64];
  strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc);
  char counted[96];
  std::snprintf(counted, sizeof counted, "%s-%04llu-", stamp, static_cast<unsigned long long>(number));
  return counted + FileSafe(cause);
}

// Calls `visit(name)` for each entry of the directory except "." and "..".
template <class Visit> void ForEachEntry(int directory_fd, Visit visit) {
  const int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  DIR* directory = fdopendir(fd);
  if (directory == nullptr) {
    close(fd);
    return;
  }
  const struct Closed {
    ~Closed() { closedir(directory); }  // even if `visit` throws
    DIR* directory;
  } closed{directory};
  while (const dirent* entry = readdir(directory)) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) visit(entry->d_name);
  }
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

// Removes files that a killed writer was adding. A live one holds the lock of their directory.
void RemoveHalfFiles(int parent_fd, const std::string& name) {
  const int fd = openat(parent_fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  const bool is_locked = flock(fd, LOCK_EX | LOCK_NB) != 0;
  if (!is_locked) {
    ForEachEntry(fd, [fd](const char* file) {
      if (file[0] == '.') unlinkat(fd, file, 0);
    });
  }
  close(fd);
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

// Renames an incident to that name, or if it exists to that name with a number behind it, which `name` becomes.
// Returns an error number, or 0.
int RenameToFree(int parent_fd, const std::string& from, std::string* name) {
  const std::string wanted = *name;
  int error = EEXIST;
  // Processes with the same directory may have incidents of one name.
  for (int copy = 1; copy <= 1000 && (error == EEXIST || error == ENOTEMPTY); ++copy) {
    if (copy > 1) *name = wanted + "." + std::to_string(copy);
    error = renameat2(parent_fd, from.c_str(), parent_fd, name->c_str(), RENAME_NOREPLACE) == 0 ? 0 : errno;
    // If the file system does not know the flag, an existing directory is not replaced unless it is empty. Sandboxes
    // answer calls that they do not know with EPERM.
    if (error == EINVAL || error == ENOSYS || error == EPERM || error == ENOTSUP)
      error = renameat(parent_fd, from.c_str(), parent_fd, name->c_str()) == 0 ? 0 : errno;
  }
  return error;
}

// The first kVerdictBytes of a plain file; "" if it cannot be read.
std::string BeginningOf(int parent_fd, const std::string& name) {
  const int fd = openat(parent_fd, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return "";
  char text[kVerdictBytes];
  const ssize_t size = read(fd, text, sizeof text);
  close(fd);
  return std::string(text, size > 0 ? static_cast<size_t>(size) : 0);
}

// The string or number of that member; "" if there is none. Such a text is written by this library alone.
std::string MemberOf(const std::string& json, const char* name) {
  const std::string key = std::string("\"") + name + "\": ";
  const size_t at = json.find(key);
  if (at == std::string::npos) return "";
  const size_t begin = at + key.size();
  return json.substr(begin, json.find_first_of("\n", begin) - begin);
}

// Lets a block use the spare descriptors.
class Spared {
 public:
  explicit Spared(SpareDescriptors* spare) : spare_(*spare) { spare_.Free(); }
  ~Spared() { spare_.Fill(); }
  Spared(const Spared&) = delete;
  Spared& operator=(const Spared&) = delete;

 private:
  SpareDescriptors& spare_;
};

// Holds the lock of a directory, if it can, until the end of the scope. Nobody holds one for long: it looks up to
// `looks` times, a millisecond apart. Some file systems know no locks.
class Locked {
 public:
  static constexpr int kPatient = 100;
  Locked(int fd, int how, int looks) : fd_(fd) {
    const timespec pause = {0, 1'000'000};
    for (int look = 0; !is_held_ && (look == 0 || (look < looks && errno == EWOULDBLOCK)); ++look) {
      if (look != 0) nanosleep(&pause, nullptr);
      is_held_ = flock(fd, how | LOCK_NB) == 0;
    }
    is_others_ = !is_held_ && errno == EWOULDBLOCK;
  }
  ~Locked() {
    if (is_held_) flock(fd_, LOCK_UN);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  // Whether somebody else holds it.
  bool is_others() const { return is_others_; }

 private:
  const int fd_;
  bool is_held_ = false, is_others_ = false;
};

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

// Writes a file whole, or leaves what was there. `path` is its directory's.
Status WriteFile(int directory_fd, const std::string& path, Serializer* serializer, const model::Trace& trace,
                 Throttle* throttle) {
  const std::string name = serializer->FileName(), fresh = "." + name;
  unlinkat(directory_fd, fresh.c_str(), 0);
  const int fd = openat(directory_fd, fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return SystemError("create", path + "/" + name, errno);
  FileSink sink(fd, throttle);
  Status status;
  try {
    status = serializer->Serialize(trace, sink);
  } catch (const std::exception& e) {
    status = Error(StatusCode::kInternal, "the serializer threw an exception: %s", e.what());
  } catch (...) {
    status = Status(StatusCode::kInternal, "the serializer threw an exception");
  }
  int error = sink.error();
  if (error == 0 && status.ok() && fsync(fd) != 0 && errno != EINVAL && errno != EROFS) error = errno;
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == ECANCELED)
    status = Status(StatusCode::kUnavailable, "cut off: the recorder was stopped");
  else if (error != 0)
    status = SystemError("write", path + "/" + name, error);
  if (status.ok() && renameat(directory_fd, fresh.c_str(), directory_fd, name.c_str()) != 0)
    status = SystemError("rename a file to", path + "/" + name, errno);
  if (!status.ok()) unlinkat(directory_fd, fresh.c_str(), 0);
  return status;
}

}  // namespace

bool IsPartial(const std::string& path) { return path.find(kPartialSuffix, path.rfind('/') + 1) != std::string::npos; }

std::string ParentOf(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// The same of an open directory, whose links are followed already.
std::string DoubtOf(const struct stat& info) {
  if (info.st_uid != 0 && info.st_uid != geteuid()) return "it belongs to user " + std::to_string(info.st_uid);
  return (info.st_mode & S_IWOTH) != 0 ? "every user may write to it" : "";
}

std::string DoubtAbout(const std::string& path) {
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  struct stat link {
  }, info{};
  if (lstat(name.c_str(), &link) != 0 || stat(name.c_str(), &info) != 0) return "";
  const bool is_others_link = S_ISLNK(link.st_mode) && link.st_uid != 0 && link.st_uid != geteuid();
  return is_others_link ? "it is another user's link" : DoubtOf(info);
}

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

void SpareDescriptors::Fill() noexcept {
  for (int& fd : fds_) {
    if (fd < 0) fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  }
}

void SpareDescriptors::Free() noexcept {
  for (int& fd : fds_) {
    if (fd >= 0) close(std::exchange(fd, -1));
  }
}

IncidentDirectory::~IncidentDirectory() {
  Abandon();
  if (fd_ >= 0) close(fd_);
}

std::string AbsolutePath(const std::string& path) {
  if (path.empty() || path[0] == '/') return path;
  const Freed cwd(getcwd(nullptr, 0));
  return cwd != nullptr ? std::string(cwd.get()) + "/" + path : path;
}

Status IncidentDirectory::Open(const std::string& path, DirectoryTrust trust) {
  path_ = AbsolutePath(path);
  trust_ = trust;
  if (path.empty()) return {};
  spare_.Fill();
  real_path_.clear();
  doubt_ = DoubtAbout(path_);
  if (!doubt_.empty() && trust == DirectoryTrust::kOwn) return Unsafe(doubt_);
  if (Status s = Reopen(); !s.ok()) return s;
  const Freed real_path(realpath(path_.c_str(), nullptr));
  if (real_path == nullptr) return SystemError("open Options::incident_directory", path_, errno);
  real_path_ = real_path.get();
  if (faccessat(fd_, ".", W_OK | X_OK, AT_EACCESS) != 0)
    return SystemError("write to Options::incident_directory", path_, errno);
  KeepRemains();
  return {};
}

Status IncidentDirectory::Unsafe(const std::string& why) const {
  return Error(StatusCode::kInvalidArgument,
               "Options::incident_directory %s is not safe: %s. Name a folder inside it, which Start creates for this "
               "user alone, or set Options::accept_unsafe_directory",
               path_.c_str(), why.c_str());
}

// Process ids would not tell who lives: those of two containers may be the same. A live writer holds the lock of its
// incident, and takes the directory's until it does. On file systems without locks, age has to do.
void IncidentDirectory::KeepRemains() {
  std::vector<std::string> partial, whole;
  StoredIncident named;
  ForEachEntry(fd_, [&](const char* name) {
    if (std::strncmp(name, kPartialPrefix, sizeof kPartialPrefix - 1) == 0) partial.push_back(name);
    if (ParseIncidentName(name, &named)) whole.push_back(name);
  });
  for (const std::string& name : whole) RemoveHalfFiles(fd_, name);
  if (partial.empty()) return;
  const Locked alone(fd_, LOCK_EX, 1);
  if (alone.is_others()) return;  // another start does it, or an incident begins
  for (const std::string& name : partial) {
    const int fd = openat(fd_, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) continue;
    struct stat info {};
    const bool is_locked = flock(fd, LOCK_EX | LOCK_NB) != 0;
    const bool is_dead =
        !is_locked || (errno != EWOULDBLOCK && fstat(fd, &info) == 0 && info.st_mtime < time(nullptr) - 3600);
    // A file has its name once it is whole.
    const bool has_dump = is_dead && faccessat(fd, kDumpName, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    close(fd);
    const size_t at = name.find('-', sizeof kPartialPrefix - 1);
    std::string kept = at == std::string::npos ? "" : name.substr(at + 1) + kPartialSuffix;
    if (has_dump && ParseIncidentName(kept, &named)) {
      if (RenameToFree(fd_, name, &kept) != 0) continue;  // the next start tries again
      RemoveHalfFiles(fd_, kept);
      kept_partial_.push_back(path_ + "/" + kept);
    } else if (is_dead) {
      RemoveFlat(fd_, name);
    }
  }
}

Status IncidentDirectory::Reopen() {
  const std::string& path = real_path_.empty() ? path_ : real_path_;
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return errno == ENOENT ? NoPlace(path_) : SystemError("create Options::incident_directory", path_, errno);
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | (real_path_.empty() ? 0 : O_NOFOLLOW));
  if (fd < 0) return SystemError("open Options::incident_directory", path_, errno);
  struct stat info {};
  const std::string doubt = trust_ == DirectoryTrust::kAny || fstat(fd, &info) != 0 ? "" : DoubtOf(info);
  if (!doubt.empty()) {  // others may have put theirs in its place
    close(fd);
    return Unsafe(doubt);
  }
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
  return {};
}

Status IncidentDirectory::Begin(uint64_t number, int64_t realtime_ns, const std::string& cause) {
  name_ = NameOf(number, realtime_ns, cause);
  spare_.Free();
  const Status status = MakePartial();
  if (!status.ok()) spare_.Fill();
  return status;
}

std::vector<std::string> IncidentDirectory::Find(uint64_t number, int64_t realtime_ns, const std::string& cause,
                                                 const char* file, const std::string& text) const {
  const std::string name = NameOf(number, realtime_ns, cause);
  std::vector<std::string> found;
  ForEachEntry(fd_, [&](const std::string& entry) {
    if (entry.compare(0, name.size(), name) == 0 && BeginningOf(fd_, entry + "/" + file) == text)
      found.push_back(path_ + "/" + entry);
  });
  return found;
}

Status IncidentDirectory::MakePartial() {
  if (Status s = Reopen(); !s.ok()) return s;
  // A start that looks for remains meanwhile must not see this incident without its lock.
  const Locked shared(fd_, LOCK_SH, Locked::kPatient);
  // Another process with this directory may have this one's id: ids of two containers are often equal.
  int error = EEXIST;
  for (uint64_t attempt = 0; attempt < 100 && error == EEXIST; ++attempt) {
    partial_ = kPartialPrefix + std::to_string(getpid()) + "." + std::to_string(attempt) + "-" + name_;
    error = mkdirat(fd_, partial_.c_str(), 0700) == 0 ? 0 : errno;
  }
  if (error != 0) return SystemError("create", path_ + "/" + partial_, error);
  partial_fd_ = openat(fd_, partial_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (partial_fd_ < 0) {
    error = errno;
    RemoveFlat(fd_, partial_);
    return SystemError("open", path_ + "/" + partial_, error);
  }
  flock(partial_fd_, LOCK_EX | LOCK_NB);  // shows that its writer lives; some file systems know no locks
  return {};
}

Status IncidentDirectory::AddFile(Serializer* serializer, const model::Trace& trace, Throttle* throttle) {
  return WriteFile(partial_fd_, path_ + "/" + partial_, serializer, trace, throttle);
}

bool IncidentDirectory::Has(const std::string& path) const noexcept {
  return faccessat(fd_, path.c_str() + path.rfind('/') + 1, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

Status IncidentDirectory::AddLater(const std::string& path, Serializer* serializer, const model::Trace& trace,
                                   Throttle* throttle) {
  const Spared spared(&spare_);
  const std::string incident = path.substr(path.rfind('/') + 1);
  const int fd = openat(fd_, incident.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return SystemError("open", path, errno);
  Status status;
  {
    // Shows that its writer lives. A start that looks for half files has the lock for a moment.
    const Locked alive(fd, LOCK_EX, Locked::kPatient);
    status = WriteFile(fd, path, serializer, trace, throttle);
    fsync(fd);
  }
  close(fd);
  return status;
}

Status IncidentDirectory::Read(const std::string& path, const char* name, size_t most, std::string* text) const {
  const std::string file = path.substr(path.rfind('/') + 1) + "/" + name;
  const int fd = openat(fd_, file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return SystemError("open", path + "/" + name, errno);
  const struct Closed {
    ~Closed() { close(fd); }  // even if there is no memory
    int fd;
  } closed{fd};
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) > most)
    return SystemError("read", path + "/" + name, EFBIG);
  text->resize(static_cast<size_t>(info.st_size));
  size_t done = 0;
  while (done < text->size()) {
    const ssize_t n = read(fd, text->data() + done, text->size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return SystemError("read", path + "/" + name, n < 0 ? errno : EIO);
    done += static_cast<size_t>(n);
  }
  return {};
}

Status IncidentDirectory::Commit(std::string* path) {
  constexpr size_t kLongestCopy = 8;  // "-1000"
  path->reserve(path_.size() + 1 + name_.size() +
                kLongestCopy);  // once it is renamed, nothing fails for want of memory
  const int error = RenameToFree(fd_, partial_, &name_);
  if (error != 0) {
    Abandon();
    return SystemError("rename an incident to", path_ + "/" + name_, error);
  }
  close(partial_fd_);
  partial_fd_ = -1;
  spare_.Fill();
  fsync(fd_);
  path->assign(path_).append("/").append(name_);
  return {};
}

void IncidentDirectory::Abandon() noexcept {
  if (partial_fd_ >= 0) {
    close(partial_fd_);
    partial_fd_ = -1;
    RemoveFlat(fd_, partial_);
  }
  spare_.Fill();
}

void IncidentDirectory::Remove(const std::string& path) noexcept {
  try {
    RemoveFlat(fd_, path.substr(path.rfind('/') + 1));
  } catch (const std::bad_alloc&) {
    // It stays until the quota removes it.
  }
}

void IncidentDirectory::Prune(uint64_t most, uint64_t most_bytes, const std::string& newest) noexcept {
  const Spared spared(&spare_);
  try {
    std::vector<StoredIncident> stored;
    uint64_t bytes = 0;
    ForEachEntry(fd_, [&](const char* name) {
      StoredIncident incident;
      if (!ParseIncidentName(name, &incident)) return;
      incident.bytes = FlatBytes(fd_, name);
      bytes += incident.bytes;
      stored.push_back(std::move(incident));
    });
    if (stored.size() <= most && bytes <= most_bytes) return;
    for (StoredIncident& it : stored) {
      const std::string verdict = BeginningOf(fd_, it.name + "/" + kVerdictName);
      it.signature = MemberOf(verdict, "signature");
      it.excess_ns = std::atoll(MemberOf(verdict, "excess_ns").c_str());
    }
    for (const std::string& name : Retain(most, most_bytes, newest.substr(newest.rfind('/') + 1), &stored))
      RemoveFlat(fd_, name);
  } catch (const std::bad_alloc&) {
    // The next incident tries again.
  }
}

}  // namespace pitot::session
