// SPDX-License-Identifier: Apache-2.0
//
// File systems where a black box cannot be, or breaks: a message and private memory, and the host goes on.
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "fakes/child.h"
#include "fakes/log.h"
#include "fakes/not_run.h"
#include "fakes/own_mounts.h"
#include "fakes/temp_directory.h"
#include "pitot/pitot.h"
#include "session/boxes.h"
#include "session/post_mortem.h"
#include "trace/bus_guard.h"
#include "trace/rings.h"

namespace {

using pitot::LogLevel;
using pitot::Recorder;
using session_test::Boxes;

// From now on a system call fails on all threads if the lowest bits of its argument are those of `value`.
bool Refuse(int call, int argument, uint32_t mask, uint32_t value, int error) {
  const auto at = static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * static_cast<size_t>(argument));
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 4),
                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
                        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {std::size(code), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}
bool RefuseSharedMappings() { return Refuse(__NR_mmap, 3, MAP_SHARED | MAP_PRIVATE, MAP_SHARED, ENODEV); }
bool RefuseAllocation(int error) { return Refuse(__NR_fallocate, 1, 0, 0, error); }

// Whether it records and writes incidents.
int CheckItWorks(const Boxes& boxes, Recorder* recorder) {
  const uint64_t before = recorder->Stats().events_recorded;
  std::thread([] {
    for (int i = 0; i < 10'000; ++i) PITOT_INSTANT("event", i);
  }).join();
  HOLDS(recorder->Stats().events_recorded == before + 10'000);
  HOLDS(recorder->Trigger("on a bad day").ok());
  HOLDS(recorder->Flush(60'000).ok());
  HOLDS(fakes::NamesIn(boxes.incidents).size() == 1);
  return 0;
}

// Starts a recorder that can have no black box, because of `why`.
int CheckItRunsWithout(Boxes* boxes, const std::string& why) {
  boxes->incidents = boxes->directory / "incidents";
  Recorder recorder = Recorder::Start(boxes->Options());
  HOLDS(recorder.status().ok());
  HOLDS(boxes->log.Has(LogLevel::kWarning, "no black box"));
  HOLDS(boxes->log.Has(LogLevel::kWarning, why));
  HOLDS(fakes::NamesIn(boxes->path).empty());
  return CheckItWorks(*boxes, &recorder);
}

bool MountTmpfs(const std::string& path, unsigned long flags) {
  return mkdir(path.c_str(), 0700) == 0 && mount("tmpfs", path.c_str(), "tmpfs", flags, "size=64m,mode=0700") == 0;
}

// UFFDIO_POISON of Linux 6.6: an access to the pages is a SIGBUS, as with memory or a disk that fails.
struct Poison {
  uffdio_range range;
  uint64_t mode;
  int64_t updated;
};
constexpr unsigned long kPoison = _IOWR(UFFDIO, 0x08, Poison);

bool PoisonPages(int faults, uintptr_t begin, uintptr_t end) {
  uffdio_register pages{};
  pages.range = {begin, end - begin};
  pages.mode = UFFDIO_REGISTER_MODE_MISSING;
  Poison poison{pages.range, 0, 0};
  return ioctl(faults, UFFDIO_REGISTER, &pages) == 0 &&
         madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED) == 0 &&
         ioctl(faults, kPoison, &poison) == 0;
}

// Poisons what is mapped of the only file in the folder. kCannotRun: the kernel does not offer that.
int PoisonBox(const std::string& folder) {
  const int faults = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC));
  uffdio_api api{};
  api.api = UFFD_API;
  if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0) return fakes::kCannotRun;
  std::ifstream maps("/proc/self/maps");
  std::string line;
  int poisoned = 0;
  while (std::getline(maps, line)) {
    unsigned long begin = 0, end = 0;
    if (line.find(folder) == line.npos || sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
    if (!PoisonPages(faults, begin, end)) return fakes::kCannotRun;
    ++poisoned;
  }
  HOLDS(poisoned > 0);
  return 0;
}

// From now on an access to the first page of the only file in the folder does not return.
int HangHeader(const std::string& folder) {
  const int faults = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC));
  uffdio_api api{};
  api.api = UFFD_API;
  if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0) return fakes::kCannotRun;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0, offset = 1;
    const int read = sscanf(line.c_str(), "%lx-%lx %*s %lx", &begin, &end, &offset);
    if (line.find(folder) == line.npos || read != 3 || offset != 0) continue;
    uffdio_register page{};
    page.range = {begin, static_cast<uint64_t>(sysconf(_SC_PAGESIZE))};
    page.mode = UFFDIO_REGISTER_MODE_MISSING;
    if (ioctl(faults, UFFDIO_REGISTER, &page) != 0) return fakes::kCannotRun;
    HOLDS(madvise(reinterpret_cast<void*>(begin), page.range.len, MADV_REMOVE) == 0);
    return 0;
  }
  HOLDS(false);
  return 1;
}

void CheckIfItRan(int result) {
  if (result == fakes::kCannotRun)
    NOT_RUN("the kernel does not offer it here");
  else
    CHECK(result == 0);
}

}  // namespace

TEST_CASE("a black box works on a file system without executables", "[black_box][platform]") {
  fakes::InOwnMounts([] {
    Boxes boxes;
    const std::string folder = boxes.directory / "noexec";
    HOLDS(MountTmpfs(folder, MS_NOEXEC | MS_NOSUID | MS_NODEV));
    boxes.path = folder + "/boxes";
    const int status = session_test::Die(&boxes, [] { PITOT_INSTANT("last"); });
    HOLDS(WIFSIGNALED(status));
    pitot::session::FoundBox box(pitot::session::BoxesIn(boxes.path).at(0));
    HOLDS(box.Look() == pitot::session::FoundBox::Life::kDead);
    return 0;
  });
}

TEST_CASE("on a read-only file system a recorder runs without a black box, and says so", "[black_box][platform]") {
  fakes::InOwnMounts([] {
    Boxes boxes;
    const std::string folder = boxes.directory / "fixed";
    HOLDS(MountTmpfs(folder, 0));
    HOLDS(mkdir((folder + "/boxes").c_str(), 0700) == 0);
    HOLDS(mount(nullptr, folder.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0);
    boxes.path = folder + "/boxes";
    return CheckItRunsWithout(&boxes, "Read-only file system");
  });
}

TEST_CASE("where shared mappings are refused a recorder runs without a black box, and says so",
          "[black_box][platform]") {
  CheckIfItRan(fakes::InChild([] {
    Boxes boxes;
    if (!RefuseSharedMappings()) return fakes::kCannotRun;
    return CheckItRunsWithout(&boxes, "No such device");
  }));
}

TEST_CASE("where no space can be allocated a recorder runs without a black box, and says so", "[black_box][platform]") {
  const int error = GENERATE(ENOSPC, EDQUOT, EIO, EOPNOTSUPP);
  CAPTURE(error);
  CheckIfItRan(fakes::InChild([error] {
    Boxes boxes;
    if (!RefuseAllocation(error)) return fakes::kCannotRun;
    return CheckItRunsWithout(&boxes, strerror(error));
  }));
}

TEST_CASE("if mappings or space are refused later, new rings are in private memory", "[black_box][platform]") {
  const bool is_space = GENERATE(false, true);
  CheckIfItRan(fakes::InChild([is_space] {
    Boxes boxes;
    boxes.incidents = boxes.directory / "incidents";
    Recorder recorder = Recorder::Start(boxes.Options());
    PITOT_INSTANT("in the file");
    HOLDS(fakes::NamesIn(boxes.path).size() == 1);
    if (!(is_space ? RefuseAllocation(ENOSPC) : RefuseSharedMappings())) return fakes::kCannotRun;
    if (const int failed = CheckItWorks(boxes, &recorder)) return failed;
    HOLDS(pitot::trace::CountRings().outside_box > 0);
    return 0;
  }));
}

TEST_CASE("pages of a black box that fail later do not kill its process", "[black_box][platform]") {
  // The file is to lie in a tmpfs.
  int result = fakes::kCannotRun;
  struct stat shared {};
  const std::string folder = "/dev/shm/pitot-test-" + std::to_string(getpid());
  if (stat("/dev/shm", &shared) == 0) {
    result = fakes::InChild([&] {
      Boxes boxes;
      boxes.path = folder;
      boxes.incidents = boxes.directory / "incidents";
      Recorder recorder = Recorder::Start(boxes.Options());
      pitot::Request request = pitot::Request::Begin("/before");
      PITOT_INSTANT("before");
      const uint64_t before = pitot::trace::PagesLost();
      const int failed = PoisonBox(folder);
      if (failed == 0) {
        for (int i = 0; i < 10'000; ++i) PITOT_INSTANT("after", i);
        request.Stage("after");
        request.Finish(pitot::Outcome::kOk);
      }
      const int worked = failed != 0 ? failed : CheckItWorks(boxes, &recorder);
      const bool are_lost = pitot::trace::PagesLost() > before;
      recorder.Stop();
      if (worked != 0) return worked;
      HOLDS(are_lost);
      return 0;
    });
  }
  std::filesystem::remove_all(folder);
  CheckIfItRan(result);
}

TEST_CASE("Stop does not wait forever for a watcher that hangs in the black box", "[black_box][platform]") {
  int result = fakes::kCannotRun;
  struct stat shared {};
  const std::string folder = "/dev/shm/pitot-test-" + std::to_string(getpid());
  if (stat("/dev/shm", &shared) == 0) {
    result = fakes::InChild([&] {
      Boxes boxes;
      boxes.path = folder;
      Recorder recorder = Recorder::Start(boxes.Options());
      if (const int failed = HangHeader(folder)) return failed;
      recorder.Stop(50);
      HOLDS(boxes.log.Has(LogLevel::kWarning, "its thread is left"));
      HOLDS(Recorder::Start(boxes.Options()).status().code() == pitot::StatusCode::kAlreadyRunning);
      const uint64_t before = recorder.Stats().events_recorded;
      PITOT_INSTANT("after the end");
      HOLDS(recorder.Stats().events_recorded == before);
      return 0;
    });
  }
  std::filesystem::remove_all(folder);
  CheckIfItRan(result);
}
