// SPDX-License-Identifier: Apache-2.0
#include "collect/counters/shared_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace pitot::counters {
namespace {

constexpr uint64_t kMagic = 0x31525443544f5449;
constexpr uint32_t kVersion = 1;
constexpr uint32_t kMostSharedIntervalUs = 1'000'000;
constexpr size_t kNameBytes = 32;
constexpr size_t kMostFiles = 64;

// The file: a header, a wish at 4 KiB, a need at 6 KiB, and slots from 8 KiB on. Readers write the wish and the need.
constexpr off_t kWishAt = 4096, kNeedAt = 6144, kSlotsAt = 8192;

struct ProcessPart {
  uint32_t pid, unused;
  uint64_t started, namespace_id;
  char name[kNameBytes];
};
struct Header {
  uint64_t magic;
  uint32_t version, state;
  uint64_t session;
  ProcessPart sampler;
  int64_t heartbeat_ns, newest_end_ns;
  uint32_t interval_us, columns;
  uint64_t written, lost;
  char names[kColumns][kNameBytes];  // of the counters
  uint64_t checksum;
};
static_assert(sizeof(Header) <= kWishAt);
struct Wish {
  uint64_t magic;
  int64_t asked_ns, until_ns;
  ProcessPart by;
  uint64_t checksum;
};
static_assert(kWishAt + sizeof(Wish) <= kNeedAt);
struct Need {
  uint64_t magic;
  int64_t at_ns;
  uint64_t checksum;
};
struct Slot {
  uint64_t number;
  Sample sample;
  uint64_t checksum;
};
static_assert(sizeof(Slot) == 80 && alignof(Slot) == 8);

// FNV-1a by words. Finds torn parts; a forger can compute it.
template <class Part> uint64_t ChecksumOf(const Part& part, uint64_t seed) {
  uint64_t sum = 0xcbf29ce484222325 ^ seed;
  static_assert(offsetof(Part, checksum) % 8 == 0);
  for (size_t at = 0; at < offsetof(Part, checksum); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, reinterpret_cast<const char*>(&part) + at, 8);
    sum = (sum ^ word) * 0x100000001b3;
    sum ^= sum >> 29;
  }
  return sum;
}

void SetText(char (&to)[kNameBytes], std::string_view text) {
  std::memset(to, 0, sizeof to);
  std::memcpy(to, text.data(), std::min(text.size(), sizeof to - 1));
}
// Printable ASCII only: the text comes from a file.
std::string TextIn(const char (&from)[kNameBytes]) {
  std::string text(from, strnlen(from, sizeof from));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

ProcessPart PartOf(const Process& process) {
  ProcessPart part{process.pid, 0, process.started, process.namespace_id, {}};
  SetText(part.name, process.name);
  return part;
}
Process ProcessIn(const ProcessPart& part) { return {part.pid, part.started, part.namespace_id, TextIn(part.name)}; }

// The first bytes of a small file.
std::string FirstBytes(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  char text[512];
  const ssize_t got = read(fd, text, sizeof text);
  close(fd);
  return got > 0 ? std::string(text, static_cast<size_t>(got)) : "";
}

// The start time in /proc/<pid>/stat; 0: it has ended, or the file is not there.
uint64_t StartOf(const std::string& pid) {
  const std::string stat = FirstBytes("/proc/" + pid + "/stat");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return 0;
  constexpr int kState = 3, kStart = 22;
  size_t at = name_end;
  for (int field = kState; field <= kStart; ++field) {
    at = stat.find(' ', at);
    if (at == std::string::npos) return 0;
    ++at;
    if (field == kState && (stat[at] == 'Z' || stat[at] == 'X')) return 0;
  }
  return strtoull(stat.c_str() + at, nullptr, 10);
}

uint64_t NamespaceId() {
  struct stat of {};
  return stat("/proc/self/ns/pid", &of) == 0 ? of.st_ino : 0;
}

std::string PrefixOf(uint32_t user) { return "pitot-counters-" + std::to_string(user) + "-"; }

// Only characters of UUIDs and bus ids.
std::string PathOf(const std::string& directory, const std::string& gpu_id, uint32_t user) {
  std::string id = gpu_id.substr(0, 64);
  std::replace_if(
      id.begin(), id.end(), [](char c) { return isalnum(static_cast<unsigned char>(c)) == 0 && c != '-'; }, '.');
  return directory + "/" + PrefixOf(user) + id;
}

std::string FileFailure(const char* what, const std::string& path, int error) {
  return std::string("cannot ") + what + " " + path + ": " + strerror(error);
}

// Why the file is not the user's alone; empty: it is.
std::string WhyNotOf(uint32_t user, int fd, const std::string& path) {
  struct stat of {};
  if (fstat(fd, &of) != 0) return FileFailure("examine", path, errno);
  if (!S_ISREG(of.st_mode)) return path + " is not a file: remove it";
  if (of.st_uid != user) return path + " belongs to another user: remove it";
  if ((of.st_mode & 077) != 0 || of.st_nlink > 1) return path + " is open to others: remove it";
  return "";
}

bool ReadAt(int fd, void* to, size_t bytes, off_t at) {
  return pread(fd, to, bytes, at) == static_cast<ssize_t>(bytes);
}
// False with errno.
bool WriteAt(int fd, const void* from, size_t bytes, off_t at) {
  const ssize_t written = pwrite(fd, from, bytes, at);
  if (written >= 0 && written != static_cast<ssize_t>(bytes)) errno = ENOSPC;
  return written == static_cast<ssize_t>(bytes);
}

void TakeWish(int fd, SharedView* view) {
  Wish wish;
  if (!ReadAt(fd, &wish, sizeof wish, kWishAt) || wish.magic != kMagic || wish.checksum != ChecksumOf(wish, 0)) return;
  view->asked_ns = wish.asked_ns;
  view->release_until_ns = wish.until_ns;
  view->asked_by = ProcessIn(wish.by);
}

void TakeNeed(int fd, SharedView* view) {
  Need need;
  if (!ReadAt(fd, &need, sizeof need, kNeedAt) || need.magic != kMagic || need.checksum != ChecksumOf(need, 0)) return;
  view->needed_ns = need.at_ns;
}

// Why a header cannot be used; empty: it can.
std::string WhyWrong(const Header& header) {
  if (header.magic != kMagic) return "is not a file of Pitot's";
  if (header.version != kVersion) return "is of another version of Pitot";
  const bool is_whole = header.checksum == ChecksumOf(header, 0) && header.columns <= kColumns &&
                        header.interval_us >= 1 && header.interval_us <= kMostSharedIntervalUs &&
                        header.written <= uint64_t{1} << 62 && header.state <= 2;
  return is_whole ? "" : "is damaged";
}

}  // namespace

Process ThisProcess() {
  std::string name = FirstBytes("/proc/self/comm");
  if (!name.empty() && name.back() == '\n') name.pop_back();
  return {static_cast<uint32_t>(getpid()), StartOf("self"), NamespaceId(), name};
}

bool IsRunning(const Process& process) {
  if (process.started == 0 || process.namespace_id != NamespaceId()) return true;
  const uint64_t started = StartOf(std::to_string(process.pid));
  if (started != 0) return started == process.started;
  // Another user's may be hidden (mount option hidepid): its heartbeat decides.
  return kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == EPERM;
}

std::string TextOf(const Process& process) {
  return "process " + std::to_string(process.pid) + " (" + process.name + ")";
}

bool IsSampling(const SharedView& view, int64_t realtime_ns) {
  // After a step of the clock the heartbeat may lie in the future.
  return view.is_there && view.state == SharedState::kSampling && view.heartbeat_ns > realtime_ns - kHeartbeatNs &&
         view.heartbeat_ns < realtime_ns + kHeartbeatNs && IsRunning(view.sampler);
}

bool IsReleaseAsked(const SharedView& view, int64_t realtime_ns) {
  return view.release_until_ns > realtime_ns && view.release_until_ns - kLongestReleaseNs <= realtime_ns;
}

int64_t AskedSeconds(const SharedView& view) {
  if (view.asked_ns < 0 || view.release_until_ns < view.asked_ns) return 0;
  return (view.release_until_ns - view.asked_ns) / 1'000'000'000;
}

SharedFile::SharedFile(const std::string& directory, const std::string& gpu_id)
    : SharedFile(directory, gpu_id, geteuid()) {}
SharedFile::SharedFile(const std::string& directory, const std::string& gpu_id, uint32_t user)
    : user_(user), path_(PathOf(directory, gpu_id, user)) {}

SharedFile::~SharedFile() {
  if (fd_ >= 0) close(fd_);
}

// A file descriptor, or -1 and why. A missing file is made where `flags` say so; otherwise it is no failure.
int SharedFile::Open(int flags, std::string* failure) const {
  constexpr int kAlways = O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  // First without O_CREAT: Linux refuses it to administrators for another user's file (fs.protected_regular).
  int fd = open(path_.c_str(), (flags & ~O_CREAT) | kAlways);
  if (fd < 0 && errno == ENOENT) {
    if ((flags & O_CREAT) == 0) return -1;
    fd = open(path_.c_str(), flags | O_EXCL | kAlways, 0600);
    if (fd >= 0 && user_ != geteuid() && fchown(fd, user_, static_cast<gid_t>(-1)) != 0) {
      *failure = FileFailure("give its user", path_, errno);
      unlink(path_.c_str());
      close(fd);
      return -1;
    }
  }
  if (fd < 0) {
    *failure = FileFailure("open", path_, errno);
    return -1;
  }
  *failure = WhyNotOf(user_, fd, path_);
  if (failure->empty()) return fd;
  close(fd);
  return -1;
}

SharedView SharedFile::Look() const {
  SharedView view;
  const int fd = Open(O_RDONLY, &view.failure);
  if (fd < 0) return view;
  TakeWish(fd, &view);
  TakeNeed(fd, &view);
  Header header;
  const bool is_read = ReadAt(fd, &header, sizeof header, 0);
  close(fd);
  if (!is_read) return view;  // only a wish, so far
  if (const std::string wrong = WhyWrong(header); !wrong.empty()) {
    view.failure = path_ + " " + wrong;
    return view;
  }
  view.is_there = true;
  view.sampler = ProcessIn(header.sampler);
  view.session = header.session;
  view.state = static_cast<SharedState>(header.state);
  view.heartbeat_ns = header.heartbeat_ns;
  view.interval_us = header.interval_us;
  view.written = header.written;
  view.lost = header.lost;
  view.newest_end_ns = header.newest_end_ns;
  for (uint32_t i = 0; i < header.columns; ++i) view.columns.push_back(ColumnNamed(TextIn(header.names[i])));
  return view;
}

uint64_t SharedFile::Read(const SharedView& view, uint64_t* next, std::vector<Sample>* samples) const {
  constexpr uint64_t kAtOnce = 256;
  uint64_t lost = 0;
  if (*next > view.written) *next = view.written;
  if (view.written - *next > kSharedSlots) {
    lost = view.written - *next - kSharedSlots;
    *next = view.written - kSharedSlots;
  }
  std::string failure;
  const int fd = Open(O_RDONLY, &failure);
  const auto slots = std::make_unique_for_overwrite<Slot[]>(kAtOnce);
  while (*next < view.written) {
    const uint64_t first = *next % kSharedSlots;
    const uint64_t count = std::min({view.written - *next, kAtOnce, kSharedSlots - first});
    const bool is_read =
        fd >= 0 && ReadAt(fd, slots.get(), count * sizeof(Slot), kSlotsAt + static_cast<off_t>(first * sizeof(Slot)));
    for (uint64_t i = 0; i < count; ++i) {
      if (!is_read || slots[i].number != *next + i || slots[i].checksum != ChecksumOf(slots[i], view.session)) {
        ++lost;
        continue;
      }
      Sample sample = Unmeasured(slots[i].sample.begin_ns, slots[i].sample.end_ns);
      for (size_t column = 0; column < view.columns.size(); ++column) {
        if (view.columns[column] < kColumns) sample.values[view.columns[column]] = slots[i].sample.values[column];
      }
      samples->push_back(sample);
    }
    *next += count;
  }
  if (fd >= 0) close(fd);
  return lost;
}

std::string SharedFile::OpenToWrite() {
  struct stat of {};
  if (fd_ >= 0 && (fstat(fd_, &of) != 0 || of.st_nlink == 0)) close(std::exchange(fd_, -1));
  std::string failure;
  if (fd_ < 0) fd_ = Open(O_RDWR | O_CREAT, &failure);
  return failure;
}

std::string SharedFile::WriteHeader(int64_t realtime_ns) {
  if (const std::string failure = OpenToWrite(); !failure.empty()) return failure;
  Header header{};
  header.magic = kMagic;
  header.version = kVersion;
  header.state = static_cast<uint32_t>(state_);
  header.session = session_;
  header.sampler = PartOf(sampler_);
  header.heartbeat_ns = realtime_ns;
  header.newest_end_ns = newest_end_ns_;
  header.interval_us = interval_us_;
  header.columns = kColumns;
  header.written = written_;
  header.lost = lost_;
  for (uint32_t column = 0; column < kColumns; ++column)
    SetText(header.names[column], base::NameOf(kColumnCounters[column]));
  header.checksum = ChecksumOf(header, 0);
  return WriteAt(fd_, &header, sizeof header, 0) ? "" : FileFailure("write", path_, errno);
}

std::string SharedFile::Begin(const Process& sampler, uint32_t interval_us, int64_t realtime_ns) {
  if (std::exchange(state_, SharedState::kSampling) != SharedState::kSampling) {
    const auto place = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(this));
    session_ = (static_cast<uint64_t>(realtime_ns) ^ uint64_t{sampler.pid} << 40 ^ place << 8) | 1;
    written_ = lost_ = 0;
    newest_end_ns_ = 0;
  }
  sampler_ = sampler;
  interval_us_ = interval_us;
  return WriteHeader(realtime_ns);
}

std::string SharedFile::Write(const std::vector<Sample>& samples, uint64_t lost, int64_t realtime_ns) {
  if (const std::string failure = OpenToWrite(); !failure.empty()) return failure;
  lost_ += lost;
  std::vector<Slot> slots;
  for (size_t done = 0; done < samples.size(); done += slots.size()) {
    const uint64_t first = written_ % kSharedSlots;
    const size_t count = std::min<size_t>(samples.size() - done, kSharedSlots - first);
    slots.assign(count, Slot{});
    for (size_t i = 0; i < count; ++i) {
      slots[i].number = written_ + i;
      slots[i].sample = samples[done + i];
      slots[i].checksum = ChecksumOf(slots[i], session_);
    }
    if (!WriteAt(fd_, slots.data(), count * sizeof(Slot), kSlotsAt + static_cast<off_t>(first * sizeof(Slot)))) {
      const std::string failure = FileFailure("write", path_, errno);
      lost_ += samples.size() - done;
      WriteHeader(realtime_ns);  // so that readers know the sampler is alive
      return failure;
    }
    written_ += count;
    newest_end_ns_ = samples[done + count - 1].end_ns;
  }
  return WriteHeader(realtime_ns);
}

std::string SharedFile::SetState(SharedState state, int64_t realtime_ns) {
  state_ = state;
  if (session_ == 0 || Look().session != session_) return "";
  return WriteHeader(realtime_ns);
}

template <class Part> std::string SharedFile::WriteAsReader(Part part, off_t at) const {
  std::string failure;
  const int fd = Open(O_RDWR, &failure);
  if (fd < 0) return failure.empty() ? path_ + " is gone" : failure;
  part.checksum = ChecksumOf(part, 0);
  if (!WriteAt(fd, &part, sizeof part, at)) failure = FileFailure("write", path_, errno);
  close(fd);
  return failure;
}

std::string SharedFile::AskForRelease(const Process& by, int64_t now_ns, int64_t until_ns) const {
  return WriteAsReader(Wish{kMagic, now_ns, until_ns, PartOf(by), 0}, kWishAt);
}

std::string SharedFile::AskForSamples(int64_t realtime_ns) const {
  return WriteAsReader(Need{kMagic, realtime_ns, 0}, kNeedAt);
}

std::vector<std::string> FindShared(const std::string& directory) {
  std::vector<std::string> ids;
  const std::string prefix = PrefixOf(geteuid());
  DIR* const entries = opendir(directory.c_str());
  if (entries == nullptr) return ids;
  while (const dirent* entry = readdir(entries)) {
    const std::string_view name = entry->d_name;
    if (name.substr(0, prefix.size()) == prefix && name.size() > prefix.size() && ids.size() < kMostFiles)
      ids.emplace_back(name.substr(prefix.size()));
  }
  closedir(entries);
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace pitot::counters
