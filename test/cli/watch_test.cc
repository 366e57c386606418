// SPDX-License-Identifier: Apache-2.0
//
// pitot watch, on processes that hang, stop and die.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/folder.h"
#include "cli/living.h"
#include "fakes/not_run.h"
#include "fakes/own_mounts.h"
#include "fakes/temp_directory.h"
#include "fakes/wait_until.h"
#include "pitot/pitot.h"
#include "trace/box.h"

namespace {

using cli_test::Folder;
using cli_test::Living;
using cli_test::Result;

// `pitot watch` with these arguments, in a folder, until this object's end.
class Watcher {
 public:
  Watcher(
      const Folder& folder, std::vector<std::string> arguments, bool (*enter)() = [] { return true; }) {
    const std::string out = folder / "watch.out";
    pid_ = fork();
    if (pid_ == 0) {
      const int fd = open(out.c_str(), O_WRONLY | O_CREAT, 0600);
      dup2(fd, 1);
      dup2(fd, 2);
      if (!enter() || chdir((folder / "").c_str()) != 0) _exit(1);
      std::vector<char*> all{const_cast<char*>(PITOT_PROGRAM), const_cast<char*>("watch")};
      for (std::string& argument : arguments) all.push_back(argument.data());
      all.push_back(nullptr);
      execv(PITOT_PROGRAM, all.data());
      _exit(1);
    }
  }
  ~Watcher() { Stop(); }
  // As it ended.
  int Stop() {
    if (pid_ < 0) return 0;
    kill(pid_, SIGTERM);
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

 private:
  pid_t pid_;
};

std::vector<std::string> IncidentsOf(const std::string& folder, const std::string& cause) {
  std::vector<std::string> names = fakes::NamesIn(folder);
  std::erase_if(names, [&](const std::string& name) {
    return name[0] == '.' || name.find("-0000-" + cause) == std::string::npos;
  });
  return names;
}

bool Await(const std::string& folder, const std::string& cause) {
  return fakes::WaitUntil([&] { return IncidentsOf(folder, cause).size() == 1; });
}

TEST_CASE("watch writes an incident of a stopped process from outside, with the kernel's view of its threads",
          "[cli]") {
  const Folder folder;
  const Living stopped(folder / "boxes", [] {
    pitot::SetThreadName("the engine's loop");
    static pitot::Request request = pitot::Request::Begin("/generate");
    request.Stage("prefill");
  });
  REQUIRE(fakes::WaitUntil([&] { return folder.Run("health boxes --json").out.find("prefill") != std::string::npos; }));
  const Watcher watcher(folder, {"--dir", "boxes", "-o", "incidents"});
  kill(stopped.pid(), SIGSTOP);
  REQUIRE(Await(folder / "incidents", "wedged"));
  const std::string incident = "incidents/" + IncidentsOf(folder / "incidents", "wedged")[0];
  const std::string report = fakes::ReadFile(folder / (incident + "/report.txt"));
  CHECK(report.find("is stopped by a signal for ") != std::string::npos);
  CHECK(folder.Run("requests " + incident).out.find("/generate") != std::string::npos);
  const std::string threads = fakes::ReadFile(folder / (incident + "/threads.txt"));
  INFO(threads);
  CHECK(threads.find("The kernel's view of the process: 4 threads: 4 T\n") == 0);
  CHECK(threads.find("pitot-watch") != std::string::npos);
  CHECK(threads.find("do_signal_stop") != std::string::npos);
  const bool can_read = threads.find("install libdw1") == std::string::npos &&
                        threads.find("ptrace is not allowed") == std::string::npos &&
                        threads.find("x86-64 only") == std::string::npos;
  if (can_read)
    CHECK(threads.find("              pause (libc.so.6)\n") != std::string::npos);  // in its own code
  else
    WARN("stacks are left out: " << threads.substr(0, threads.find("\n\n")));
  const std::string info = folder.Run("info " + incident).out;
  CHECK(info.find("4 threads: 4 T") != std::string::npos);
  // The one of the request, in the report and in `pitot why`.
  const std::string thread =
      "  the engine's loop (" + std::to_string(stopped.pid()) + "), state T, waits in do_signal_stop";
  CHECK(report.find(thread) != std::string::npos);
  CHECK(folder.Run("why " + incident).out.find(thread) != std::string::npos);
}

TEST_CASE("an incident of a process that hangs has NVML's view of the GPUs, if there are any", "[cli]") {
  const Folder folder;
  const Living stopped(folder / "boxes", [] {});
  kill(stopped.pid(), SIGSTOP);
  CHECK(folder.Run("watch --dir boxes --once -o with --nvml " PITOT_FAKE_NVML).exit_code == 1);
  const std::string gpus =
      fakes::ReadFile(folder / ("with/" + IncidentsOf(folder / "with", "wedged").at(0) + "/gpus.txt"));
  INFO(gpus);
  CHECK(gpus.find("NVML's view of the GPUs:\n\nGPU 0  ") == 0);
  CHECK(gpus.find("busy 50 %, memory 3.0 of 80.0 GiB, SM 1980 MHz, 350 W, 61 C\n") != std::string::npos);

  CHECK(folder.Run("watch --dir boxes --once -o without --nvml ./nothing.so").exit_code == 1);
  CHECK(fakes::NamesIn(folder / ("without/" + IncidentsOf(folder / "without", "wedged").at(0))) ==
        std::vector<std::string>{"dump.pitot", "report.txt", "threads.txt"});
}

TEST_CASE("watch reports a request that stands still, and the death of its process", "[cli]") {
  const Folder folder;
  const std::string incidents = folder / "incidents";
  {
    const Watcher watcher(folder, {"--dir", "boxes", "--stalled-after", "0.3", "--interval", "20"});
    {
      const Living stuck(
          folder / "boxes",
          [] {
            for (int i = 0; i < 3; ++i) pitot::Request::Begin("/healthy").Finish(pitot::Outcome::kOk);
            static pitot::Request request = pitot::Request::Begin("/generate");
            request.Stage("prefill");
          },
          incidents);
      REQUIRE(Await(incidents, "wedged"));
    }
    REQUIRE(Await(incidents, "previous_life"));
    CHECK(fakes::WaitUntil([&] { return fakes::NamesIn(folder / "boxes").empty(); }));
  }
  CHECK(fakes::NamesIn(incidents).size() == 2);
  const std::string said = fakes::ReadFile(folder / "watch.out");
  CHECK(said.find("server (process ") != std::string::npos);  // it may have waited for the folder first
  CHECK(said.find(" is stalled: request ") != std::string::npos);
  CHECK(said.find(" of /generate (open ") != std::string::npos);
  CHECK(said.find("ended without a word") != std::string::npos);
  const std::string wedged = fakes::ReadFile(incidents + "/" + IncidentsOf(incidents, "wedged")[0] + "/report.txt");
  CHECK(wedged.find("is stalled: request ") != std::string::npos);
  // What the process was at comes first, and not what was slow before.
  const std::string dead = IncidentsOf(incidents, "previous_life")[0];
  for (const std::string& report : {wedged, fakes::ReadFile(incidents + "/" + dead + "/report.txt")}) {
    const std::string first = report.substr(0, report.find("APPENDIX"));
    CHECK(first.find("REQUESTS THAT WERE OPEN, longest first") != std::string::npos);
    CHECK(first.find("/generate") != std::string::npos);
    CHECK(first.find("/healthy") == std::string::npos);
  }
  const std::string why = folder.Run("why incidents/" + dead).out;
  CHECK(why.find("/generate") != std::string::npos);
}

TEST_CASE("watch forgets a recorder that was stopped, and sees the process's next one", "[cli]") {
  const Folder folder;
  const Living again(folder / "boxes", [] {
    raise(SIGSTOP);
    Living::recorder->Stop();
    *Living::recorder = pitot::Recorder::Start(*Living::options);
    static const pitot::Request request = pitot::Request::Begin("/second");
    for (;;) pause();
  });
  Watcher watcher(folder, {"--dir", "boxes", "--stalled-after", "0.3", "-o", "incidents"});
  REQUIRE(Await(folder / "incidents", "wedged"));  // it is stopped
  kill(again.pid(), SIGCONT);
  CHECK(fakes::WaitUntil([&] { return IncidentsOf(folder / "incidents", "wedged").size() == 2; }));
  CHECK(watcher.Stop() == 0);
  CHECK(fakes::ReadFile(folder / "watch.out").find("of /second (open ") != std::string::npos);
}

// A cgroup of its own with the freezer, version 1 or 2, if this machine allows one.
class Freezer {
 public:
  Freezer() {
    for (const char* const root : {"/sys/fs/cgroup/freezer", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"}) {
      path_ = std::string(root) + "/pitot-test-" + std::to_string(getpid());
      if (mkdir(path_.c_str(), 0755) != 0) continue;
      for (const auto& [file, frozen, thawed] :
           {std::tuple("/freezer.state", "FROZEN", "THAWED"), std::tuple("/cgroup.freeze", "1", "0")}) {
        if (access((path_ + file).c_str(), W_OK) != 0) continue;
        file_ = path_ + file, frozen_ = frozen, thawed_ = thawed;
        return;
      }
      rmdir(path_.c_str());
    }
  }
  ~Freezer() { rmdir(path_.c_str()); }
  Freezer(const Freezer&) = delete;
  Freezer& operator=(const Freezer&) = delete;
  bool Freeze(pid_t pid) const {
    return !file_.empty() && fakes::WriteFile(path_ + "/cgroup.procs", std::to_string(pid)) &&
           fakes::WriteFile(file_, frozen_);
  }
  void Thaw() const { CHECK(fakes::WriteFile(file_, thawed_)); }

 private:
  std::string path_, file_, frozen_, thawed_;
};

TEST_CASE("watch reports a frozen process", "[cli][platform]") {
  const Folder folder;
  const Freezer freezer;
  const Living frozen(folder / "boxes", [] {});
  if (!freezer.Freeze(frozen.pid())) {
    NOT_RUN("this machine allows no cgroup with a freezer");
    return;
  }
  const Result result = folder.Run("watch --dir boxes --once -o incidents");
  CHECK(result.exit_code == 1);
  CHECK(result.out.find(" is frozen for ") != std::string::npos);
  CHECK(result.out.find("before that it was idle: nothing is open") != std::string::npos);
  freezer.Thaw();
}

// As two containers of a pod with a shared folder.
TEST_CASE("watch sees a process of another namespace of processes hang and die", "[cli][platform]") {
  if (fakes::InChild([] { return fakes::EnterOwnProcesses() ? 0 : fakes::kCannotRun; }) == fakes::kCannotRun) {
    NOT_RUN("this machine allows no namespace of processes");
    return;
  }
  const Folder folder;
  const std::string incidents = folder / "incidents";
  const Watcher watcher(folder, {"--dir", "boxes", "--stalled-after", "0.3"}, fakes::EnterOwnProcesses);
  {
    const Living stuck(
        folder / "boxes", [] { static const pitot::Request request = pitot::Request::Begin("/generate"); }, incidents,
        fakes::EnterOwnProcesses);
    REQUIRE(Await(incidents, "wedged"));
    CHECK(IncidentsOf(incidents, "previous_life").empty());
  }
  REQUIRE(Await(incidents, "previous_life"));
  const std::string wedged = incidents + "/" + IncidentsOf(incidents, "wedged").at(0);
  CHECK(fakes::ReadFile(wedged + "/threads.txt").find("share the namespace of processes") != std::string::npos);
}

TEST_CASE("watch --once says whether all is well", "[cli]") {
  const Folder folder;
  const Result missing = folder.Run("watch --dir boxes --once");
  CHECK(missing.exit_code == 3);
  CHECK(missing.err.find("boxes: No such file or directory") != std::string::npos);
  REQUIRE(mkdir((folder / "boxes").c_str(), 0700) == 0);
  CHECK(folder.Run("watch --dir boxes --once").exit_code == 0);
  const Living well(folder / "boxes", [] {});
  CHECK(folder.Run("watch --dir boxes --once").exit_code == 0);
  const Living working(folder / "boxes", [] {
    static pitot::Request request = pitot::Request::Begin("/generate");
    for (;;) {
      PITOT_SCOPE("step");
      usleep(1000);
    }
  });
  CHECK(folder.Run("watch --dir boxes --once --stalled-after 1").exit_code == 0);
  {
    const Living dies(folder / "boxes", [] {});
    kill(dies.pid(), SIGKILL);
  }
  const Result dead = folder.Run("watch --dir boxes --once -o incidents");
  CHECK(dead.exit_code == 1);
  CHECK(dead.out.find("ended without a word") != std::string::npos);
  CHECK(IncidentsOf(folder / "incidents", "previous_life").size() == 1);
  kill(well.pid(), SIGSTOP);
  CHECK(folder.Run("watch --dir boxes --once -o incidents").exit_code == 1);
  CHECK(IncidentsOf(folder / "incidents", "wedged").size() == 1);
  kill(well.pid(), SIGCONT);
  CHECK(folder.Run("watch").exit_code == 2);
}

TEST_CASE("watch writes the incident of a process that hangs once its folder can be written", "[cli]") {
  const Folder folder;
  const Living stuck(folder / "boxes",
                     [] { static const pitot::Request request = pitot::Request::Begin("/generate"); });
  folder.Write("incidents", "not a folder");
  const Watcher watcher(folder, {"--dir", "boxes", "--stalled-after", "0.3", "-o", "incidents"});
  REQUIRE(fakes::WaitUntil(
      [&] { return fakes::ReadFile(folder / "watch.out").find("name another folder by -o") != std::string::npos; }));
  REQUIRE(unlink((folder / "incidents").c_str()) == 0);
  CHECK(Await(folder / "incidents", "wedged"));
}

TEST_CASE("watch --once names a black box that it may not read", "[cli]") {
  const Folder folder;
  const Living other(folder / "boxes", [] {});
  const std::string box = "boxes/" + fakes::NamesIn(folder / "boxes").at(0);
  REQUIRE(chmod((folder / box).c_str(), 0) == 0);
  // As another user's, also to root.
  const std::string own = getuid() == 0 ? "--version >/dev/null; setpriv --bounding-set "
                                          "-dac_override,-dac_read_search " PITOT_PROGRAM " "
                                        : "";
  const Result result = folder.Run(own + "watch --dir boxes --once");
  CHECK(result.exit_code == 3);
  CHECK(result.err == "pitot: " + box + ": Permission denied\n");
}

// Makes it another user's, whose incident directory keeps one incident of one byte.
void GiveAway(const std::string& path, const std::string& shared) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  pitot::trace::BoxHeader header{};
  REQUIRE(pread(file, static_cast<void*>(&header), sizeof header, 0) == sizeof header);
  header.most_incidents = header.most_incident_bytes = 1;
  REQUIRE(pwrite(file, static_cast<const void*>(&header), sizeof header, 0) == sizeof header);
  constexpr uid_t kNobody = 65534;
  REQUIRE(fchown(file, kNobody, kNobody) == 0);
  close(file);
  REQUIRE(rename(path.c_str(), shared.c_str()) == 0);
}

TEST_CASE("a place for incidents named by another user's black box is left alone", "[cli][platform]") {
  if (geteuid() != 0) {
    NOT_RUN("only root can make a file of another user");
    return;
  }
  const Folder folder;
  const std::string victim = folder / "victim";
  for (int i = 0; i < 4; ++i) {
    if (i != 0) folder.Run("recover --post-mortem boxes");
    const Living dies(
        folder / "boxes", [] {}, victim);
  }
  const std::vector<std::string> before = fakes::NamesIn(victim);
  REQUIRE(IncidentsOf(victim, "previous_life").size() == 3);
  REQUIRE(mkdir((folder / "shared").c_str(), 0700) == 0);
  REQUIRE(chmod((folder / "shared").c_str(), 01777) == 0);
  GiveAway(folder / "boxes/" + fakes::NamesIn(folder / "boxes").at(0), folder / "shared/hostile.box");
  const std::string owner = "pitot: shared/hostile.box: it belongs to user 65534: name a place for its incident (-o)\n";

  const std::string doubt = "pitot: shared is not safe for black boxes: every user may write to it\n";

  CHECK(folder.Run("watch --dir shared --once --interval 50").err == doubt + owner);
  const Result recovered = folder.Run("recover --post-mortem shared");
  CHECK(recovered.exit_code == 3);
  CHECK(recovered.err == doubt + owner);
  CHECK(folder.Run("run --dir shared -- true").err == doubt);
  CHECK(fakes::NamesIn(victim) == before);
  CHECK(fakes::NamesIn(folder / "shared").size() == 1);

  CHECK(folder.Run("recover --post-mortem shared -o named").exit_code == 0);
  CHECK(IncidentsOf(folder / "named", "previous_life").size() == 1);
  CHECK(fakes::NamesIn(victim) == before);
}

TEST_CASE("watch leaves what is not a black box, and says so once", "[cli]") {
  const Folder folder;
  folder.Write("garbage.box", std::string(8192, 'x'));
  const Result result = folder.Run("watch --dir . --once --interval 50");
  CHECK(result.exit_code == 3);
  CHECK(result.err == "pitot: ./garbage.box: not a black box of Pitot\n");
  CHECK(fakes::ReadFile(folder / "garbage.box").size() == 8192);
}

TEST_CASE("names of files in messages cannot forge lines or drive a terminal", "[cli]") {
  const Folder folder;
  REQUIRE(mkdir((folder / "boxes").c_str(), 0700) == 0);
  folder.Write("boxes/x\x1b[2J: no\npitot: all is well.box", std::string(8192, 'x'));
  const std::string message =
      "pitot: boxes/x\xef\xbf\xbd[2J: no\xef\xbf\xbdpitot: all is well.box: not a black box of Pitot\n";
  CHECK(folder.Run("watch --dir boxes --once --interval 50").err == message);
  CHECK(folder.Run("recover --post-mortem boxes").err.find(message) == 0);
  CHECK(folder.Run("health boxes").err.find(message) == 0);
}

}  // namespace
