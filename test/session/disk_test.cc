// SPDX-License-Identifier: Apache-2.0
//
// A recorder on bad disks: read-only, full, and taken away. If no disk can be mounted, these tests report that they did
// not run.
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>

#include "fakes/child.h"
#include "fakes/own_mounts.h"
#include "fakes/wait_until.h"
#include "session/host.h"

namespace {

using fakes::NamesIn;
using fakes::TempDirectory;
using pitot::Recorder;
using pitot::StatusCode;
using session_test::Contains;
using session_test::Host;
using session_test::SmallOptions;
namespace fs = std::filesystem;

// A small disk, gone with this, at the latest with the process that mounts it.
class SmallDisk {
 public:
  explicit SmallDisk(const char* size)
      : ok_(mount("tmpfs", path().c_str(), "tmpfs", 0, (std::string("mode=700,") + size).c_str()) == 0) {}
  ~SmallDisk() { umount2(path().c_str(), MNT_DETACH); }
  bool ok() const { return ok_; }
  bool MakeReadOnly() { return mount(nullptr, path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0; }
  const std::string& path() const { return directory_.path(); }

 private:
  TempDirectory directory_;
  bool ok_;
};

// Runs `body` on a disk of this size, in a child; it returns 0 if all holds.
void OnSmallDisk(const char* size, int (*body)(SmallDisk& disk)) {
  fakes::InOwnMounts([&] {
    SmallDisk disk(size);
    return disk.ok() ? body(disk) : fakes::kCannotRun;
  });
}

// Limits files of this process to so many bytes for as long as it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    former_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, former_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*former_)(int);
};

// Writes 16 MiB while `is_large`, otherwise a byte.
std::unique_ptr<pitot::Serializer> MakeLarge(const bool* is_large) {
  return fakes::MakeCallSerializer("large", [is_large](const auto&, pitot::ByteSink& sink) {
    const std::string bytes(*is_large ? 16 << 20 : 1, 'x');
    sink.Write(bytes.data(), bytes.size());
    return pitot::Status();
  });
}

}  // namespace

TEST_CASE("a recorder does not start on a read-only disk, and names it", "[disk][platform]") {
  OnSmallDisk("size=1m", [](SmallDisk& disk) {
    fs::create_directory(disk.path() + "/incidents");
    HOLDS(disk.MakeReadOnly());
    for (const char* name : {"/incidents", "/missing"}) {
      const std::string path = disk.path() + name;
      pitot::Options options = SmallOptions();
      options.incident_directory = path.c_str();

      const pitot::Status status = Recorder::Start(options).status();

      HOLDS(status.code() == StatusCode::kIoError);
      HOLDS(Contains(status.message(), path));
      HOLDS(Contains(status.message(), "Read-only"));
    }
    return 0;
  });
}

TEST_CASE("a recorder does not start without its user's right to write, and names the place", "[disk]") {
  const TempDirectory parent;
  fs::permissions(parent.path(), fs::perms{0755});
  fs::create_directory(parent / "incidents");
  fs::permissions(parent / "incidents", fs::perms{0555});
  // Root may write everywhere, so this is done as somebody else.
  const int result = fakes::InChild([&] {
    if (getuid() == 0) HOLDS(setgid(65534) == 0 && setuid(65534) == 0);
    for (const char* name : {"incidents", "incidents/missing"}) {
      const std::string path = parent / name;
      pitot::Options options = SmallOptions();
      options.incident_directory = path.c_str();

      const pitot::Status status = Recorder::Start(options).status();

      HOLDS(status.code() == StatusCode::kIoError);
      HOLDS(Contains(status.message(), path));
      HOLDS(Contains(status.message(), "Permission denied"));
    }
    return 0;
  });
  CHECK(result == 0);
}

TEST_CASE("a disk that becomes read-only fails incidents, and the recorder goes on", "[disk][platform]") {
  OnSmallDisk("size=8m", [](SmallDisk& disk) {
    Host host;
    host.options.incident_directory = disk.path().c_str();
    HOLDS(host.Start());
    HOLDS(host.TriggerAndFlush());
    HOLDS(disk.MakeReadOnly());
    HOLDS(host.TriggerAndFlush());

    HOLDS(host.recorder.Stats().incidents_written == 1);
    HOLDS(host.recorder.Stats().incidents_failed == 1);
    HOLDS(host.recorder.status().ok());
    HOLDS(host.log.Has(pitot::LogLevel::kError, "Read-only"));
    HOLDS(host.told().size() == 4);
    HOLDS(host.told()[2].directory.empty());
    HOLDS(host.told()[2].code == StatusCode::kIoError);
    return 0;
  });
}

TEST_CASE("a full disk costs only the files that do not fit", "[disk][platform]") {
  OnSmallDisk("size=4m", [](SmallDisk& disk) {
    Host host;
    host.options.incident_directory = disk.path().c_str();
    HOLDS(host.Start());
    HOLDS(host.TriggerAndFlush());
    const auto before = NamesIn(disk.path());
    HOLDS(before.size() == 1);
    bool is_large = true;
    HOLDS(host.recorder.Add(MakeLarge(&is_large)).ok());
    HOLDS(host.TriggerAndFlush());

    const auto after = NamesIn(disk.path());
    HOLDS(after.size() == 2);
    HOLDS(after[0] == before[0]);
    HOLDS(NamesIn(disk.path() + "/" + after[0]).size() == 3);
    const std::vector<std::string> kept{"dump.pitot", "keep", "report.txt"};
    HOLDS(NamesIn(disk.path() + "/" + after[1]) == kept);
    HOLDS(host.recorder.Stats().incidents_failed == 0);
    HOLDS(host.recorder.Stats().files_failed == 1);
    HOLDS(host.told()[2].code == StatusCode::kOk);  // its dump is on disk
    HOLDS(host.told()[3].code == StatusCode::kResourceExhausted);
    HOLDS(!host.told()[3].directory.empty());
    HOLDS(host.log.Has(pitot::LogLevel::kError, "lacks large"));
    HOLDS(host.log.Has(pitot::LogLevel::kError, "No space left"));
    is_large = false;
    HOLDS(host.TriggerAndFlush());
    HOLDS(NamesIn(disk.path()).size() == 3);
    return 0;
  });
}

TEST_CASE("a disk without room for any file fails the incident and leaves nothing of it", "[disk]") {
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder
              .Add(fakes::MakeCallSerializer("keep",
                                             [](const auto&, pitot::ByteSink& sink) {
                                               sink.Write("two", 2);
                                               return pitot::Status();
                                             }))
              .ok());
  REQUIRE(host.TriggerAndFlush());
  const auto before = host.incidents();
  {
    const FileSizeLimit limit(1);
    REQUIRE(host.TriggerAndFlush());
  }

  CHECK(host.incidents() == before);
  CHECK(host.recorder.Stats().incidents_failed == 1);
  CHECK(host.told()[2].code == StatusCode::kIoError);
  CHECK(host.log.Has(pitot::LogLevel::kError, "File too large"));
  REQUIRE(host.TriggerAndFlush());
  CHECK(host.incidents().size() == 2);
}

TEST_CASE("a disk that stays full does not fill the log, and the number of lost incidents is logged", "[disk]") {
  Host host;
  REQUIRE(host.Start());
  bool is_full = true;
  const auto refuse = [&](const auto&, pitot::ByteSink& sink) {
    sink.Write("two", 2);
    return is_full ? pitot::Status(StatusCode::kIoError, "No space left") : pitot::Status();
  };
  REQUIRE(host.recorder.Add(fakes::MakeCallSerializer("large", refuse)).ok());
  for (int i = 0; i < 9; ++i) REQUIRE(host.TriggerAndFlush());

  std::vector<std::string> said;
  for (const fakes::LogLine& line : host.log.lines()) {
    if (line.level == pitot::LogLevel::kError) said.push_back(line.text);
  }
  REQUIRE(said.size() == 4);
  CHECK(Contains(said[0], "incident 1 lacks large"));
  CHECK_FALSE(Contains(said[0], "in a row"));
  CHECK(Contains(said[3], "incident 8 lacks large"));
  CHECK(Contains(said[3], "8 failures in a row"));
  CHECK(host.recorder.Stats().files_failed == 9);
  is_full = false;
  REQUIRE(host.TriggerAndFlush());
  CHECK(host.log.Has(pitot::LogLevel::kInfo, "the incident is complete, after 9 failures in a row"));
  is_full = true;
  REQUIRE(host.TriggerAndFlush());
  CHECK(host.log.Has(pitot::LogLevel::kError, "incident 11 lacks large"));
}

TEST_CASE("a disk without room for any file fails each incident, logged ever more rarely", "[disk]") {
  Host host;
  REQUIRE(host.Start());
  const auto two = [](const auto&, pitot::ByteSink& sink) { return sink.Write("two", 2), pitot::Status(); };
  REQUIRE(host.recorder.Add(fakes::MakeCallSerializer("keep", two)).ok());
  {
    const FileSizeLimit limit(1);
    for (int i = 0; i < 9; ++i) REQUIRE(host.TriggerAndFlush());
  }
  int failures = 0;
  for (const fakes::LogLine& line : host.log.lines())
    failures += Contains(line.text, "none of its files could be written") ? 1 : 0;
  CHECK(failures == 4);
  CHECK(host.recorder.Stats().incidents_failed == 9);
}

TEST_CASE("a directory removed while an incident is completed costs only that one", "[disk]") {
  const TempDirectory parent;
  const std::string path = parent / "incidents";
  Host host;
  host.options.incident_directory = path.c_str();
  REQUIRE(host.Start());
  bool remove = true;
  REQUIRE(host.recorder
              .Add(fakes::MakeCallSerializer("removes",
                                             [&](const auto&, pitot::ByteSink&) {
                                               if (remove) fs::remove_all(path);
                                               return pitot::Status();
                                             }))
              .ok());
  REQUIRE(host.TriggerAndFlush());
  remove = false;
  REQUIRE(host.TriggerAndFlush());

  CHECK(host.recorder.Stats().incidents_failed == 0);
  CHECK(host.recorder.Stats().incidents_written == 2);
  CHECK(host.told()[0].code == StatusCode::kOk);
  CHECK(host.told()[1].code == StatusCode::kNotFound);
  REQUIRE(NamesIn(path).size() == 1);
  CHECK(Contains(NamesIn(path)[0], "Z-0002-manual"));
  CHECK(NamesIn(path + "/" + NamesIn(path)[0]).size() == 4);
}

TEST_CASE("a directory replaced by a link fails incidents, and nothing is written through the link", "[disk]") {
  const TempDirectory parent, target;
  const std::string path = parent / "incidents";
  Host host;
  host.options.incident_directory = path.c_str();
  REQUIRE(host.Start());
  fs::rename(path, parent / "moved away");
  fs::create_directory_symlink(target.path(), path);
  REQUIRE(host.TriggerAndFlush());

  CHECK(host.recorder.Stats().incidents_failed == 1);
  CHECK(NamesIn(target.path()).empty());
  CHECK(NamesIn(parent / "moved away").empty());
}

TEST_CASE("a process killed while it completes an incident leaves whole files, and no half one after the next start",
          "[disk]") {
  const TempDirectory directory;
  const auto names = [&] { return NamesIn(directory.path()); };
  Host host;  // including its own directory, left behind by a killed child
  const pid_t child = fakes::StartChild([&] {
    if (fakes::kThreadSanitizer) return 0;  // it cannot start threads here
    host.options.incident_directory = directory.path().c_str();
    if (!host.Start() || !host.TriggerAndFlush()) return 1;
    (void)host.recorder.Add(fakes::MakeCallSerializer("hangs", [](const auto&, pitot::ByteSink& sink) {
      sink.Write("half", 4);
      for (;;) pause();
      return pitot::Status();
    }));
    if (!host.recorder.Trigger("killed").ok()) return 2;
    for (;;) pause();
  });
  if (fakes::kThreadSanitizer) {
    CHECK(fakes::WaitForChild(child) == 0);
    return;
  }
  // The first incident with its three files, and the second with the same and the half-written one.
  const bool hangs =
      fakes::WaitUntil([&] { return names().size() == 2 && NamesIn(directory / names()[1]).size() == 4; });
  kill(child, SIGKILL);
  CHECK(fakes::WaitForChild(child) == 1000 + SIGKILL);
  REQUIRE(hangs);

  host.options.incident_directory = directory.path().c_str();
  REQUIRE(host.Start());

  REQUIRE(names().size() == 2);
  for (const std::string& name : names()) {
    CHECK(Contains(name, "-manual"));
    CHECK(NamesIn(directory / name).size() == 3);
  }
  REQUIRE(host.TriggerAndFlush());
  CHECK(names().size() == 3);
}
