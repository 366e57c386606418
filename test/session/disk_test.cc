// SPDX-License-Identifier: Apache-2.0
//
// A recorder on bad disks: read-only, full, and taken away. What cannot be had here (mounts) is skipped and said.
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <string>

#include "fakes/child.h"
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

// A small tmpfs for as long as it lives.
class SmallDisk {
 public:
  explicit SmallDisk(const char* size) {
    mounted_ = mount("tmpfs", directory_.path().c_str(), "tmpfs", 0, size) == 0;
    if (!mounted_) WARN("mounting is not allowed here: not tested");
  }
  ~SmallDisk() {
    if (mounted_) umount2(directory_.path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool ok() const { return mounted_; }
  bool MakeReadOnly() {
    return mount(nullptr, directory_.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  }
  bool Resize(const char* size) { return mount(nullptr, directory_.path().c_str(), nullptr, MS_REMOUNT, size) == 0; }
  const std::string& path() const { return directory_.path(); }

 private:
  TempDirectory directory_;
  bool mounted_ = false;
};

}  // namespace

TEST_CASE("a recorder does not start on a read-only directory, and says which", "[disk]") {
  SmallDisk disk("size=1m");
  if (!disk.ok()) return;
  fs::create_directory(disk.path() + "/incidents");
  REQUIRE(disk.MakeReadOnly());
  for (const char* name : {"/incidents", "/missing"}) {
    const std::string path = disk.path() + name;
    pitot::Options options = SmallOptions();
    options.incident_directory = path.c_str();

    const pitot::Status status = Recorder::Start(options).status();

    INFO(status.message());
    CHECK(status.code() == StatusCode::kIoError);
    CHECK(Contains(status.message(), path));
    CHECK(Contains(status.message(), "Read-only"));
  }
}

TEST_CASE("a disk that becomes read-only fails incidents, and the recorder goes on", "[disk]") {
  SmallDisk disk("size=8m");
  if (!disk.ok()) return;
  Host host;
  host.options.incident_directory = disk.path().c_str();
  REQUIRE(host.Start());
  REQUIRE(host.TriggerAndFlush());
  REQUIRE(disk.MakeReadOnly());
  REQUIRE(host.TriggerAndFlush());

  CHECK(host.recorder.Stats().incidents_written == 1);
  CHECK(host.recorder.Stats().incidents_failed == 1);
  CHECK(host.recorder.status().ok());
  CHECK(host.log.Has(pitot::LogLevel::kError, "Read-only"));
  REQUIRE(host.told().size() == 4);
  CHECK(host.told()[2].directory.empty());
  CHECK(host.told()[2].code == StatusCode::kIoError);
}

TEST_CASE("a full disk fails the incident, leaves nothing of it, and those before it stay", "[disk]") {
  SmallDisk disk("size=4m");
  if (!disk.ok()) return;
  Host host;
  host.options.incident_directory = disk.path().c_str();
  REQUIRE(host.Start());
  REQUIRE(host.TriggerAndFlush());
  const auto before = NamesIn(disk.path());
  REQUIRE(before.size() == 1);
  bool fill = true;
  REQUIRE(host.recorder
              .Add(fakes::MakeCallSerializer("large",
                                             [&fill](const auto&, pitot::ByteSink& sink) {
                                               const std::string bytes(fill ? 16 << 20 : 1, 'x');
                                               sink.Write(bytes.data(), bytes.size());
                                               return pitot::Status();
                                             }))
              .ok());
  REQUIRE(host.TriggerAndFlush());

  CHECK(NamesIn(disk.path()) == before);
  CHECK(NamesIn(disk.path() + "/" + before[0]).size() == 4);
  CHECK(host.recorder.Stats().incidents_failed == 1);
  CHECK(host.told()[2].code == StatusCode::kResourceExhausted);
  CHECK(host.log.Has(pitot::LogLevel::kError, "No space left"));
  fill = false;
  REQUIRE(host.TriggerAndFlush());
  CHECK(NamesIn(disk.path()).size() == 2);
}

TEST_CASE("a directory that is removed while an incident is written fails that one only", "[disk]") {
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

  CHECK(host.recorder.Stats().incidents_failed == 1);
  CHECK(host.recorder.Stats().incidents_written == 1);
  CHECK(host.told()[0].code == StatusCode::kNotFound);
  CHECK(NamesIn(path).size() == 1);
}

TEST_CASE("a directory whose place a link took fails incidents and nothing is written through the link", "[disk]") {
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

TEST_CASE("a process killed while it writes leaves no half incident after the next start", "[disk]") {
  const TempDirectory directory;
  const auto names = [&] { return NamesIn(directory.path()); };
  const pid_t child = fakes::StartChild([&] {
    if (fakes::kThreadSanitizer) return 0;  // which cannot start threads here
    Host host;
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
  // The first incident, and the half one with its four files.
  const bool hangs =
      fakes::WaitUntil([&] { return names().size() == 2 && NamesIn(directory / names()[0]).size() == 5; });
  kill(child, SIGKILL);
  CHECK(fakes::WaitForChild(child) == 1000 + SIGKILL);
  REQUIRE(hangs);
  CHECK(names()[0][0] == '.');

  Host host;
  host.options.incident_directory = directory.path().c_str();
  REQUIRE(host.Start());

  REQUIRE(names().size() == 1);
  CHECK(Contains(names()[0], "Z-0001-manual"));
  CHECK(NamesIn(directory / names()[0]).size() == 4);
  REQUIRE(host.TriggerAndFlush());
  CHECK(names().size() == 2);
}
