// SPDX-License-Identifier: Apache-2.0
//
// pitot run, on this very program as the server: PITOT_TEST_SERVER says what it does.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/folder.h"
#include "fakes/child.h"
#include "fakes/memory_group.h"
#include "fakes/not_run.h"
#include "fakes/scale.h"
#include "fakes/temp_directory.h"
#include "fakes/wait_until.h"
#include "pitot/pitot.h"

namespace {

using cli_test::Folder;
using cli_test::Result;

std::string Self() {
  char path[4096] = "";
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
  return std::string(path, size > 0 ? static_cast<size_t>(size) : 0);
}

// The arguments of `run`: options, and the server that does `what`.
std::string ServerThat(const std::string& what, const std::string& options = "-o incidents") {
  return "run --memory . " + options + " -- env PITOT_TEST_SERVER='" + what + "' " + Self() + " 'a server'";
}

std::vector<std::string> Incidents(const Folder& folder) {
  std::vector<std::string> names = fakes::NamesIn(folder / "incidents");
  std::erase_if(names, [](const std::string& name) { return name[0] == '.'; });
  return names;
}

// Starts `run` with a server that waits for a signal, and waits until it does.
pid_t RunWaitingServer(const Folder& folder) {
  const pid_t runner = fork();
  if (runner == 0) {
    if (chdir((folder / "").c_str()) != 0) _exit(1);
    setenv("PITOT_TEST_SERVER", "wait", 1);
    execl(PITOT_PROGRAM, "pitot", "run", "--memory", ".", "--", Self().c_str(), "a server", nullptr);
    _exit(1);
  }
  REQUIRE(fakes::WaitUntil([&] { return access((folder / "ready").c_str(), F_OK) == 0; }));
  return runner;
}

// Whether `pitot run` has left a folder of black boxes.
bool HasLeftFolder(const Folder& folder) {
  const std::vector<std::string> names = fakes::NamesIn(folder / "");
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return name.rfind("pitot-run-", 0) == 0; });
}

}  // namespace

// Not a test: the server.
TEST_CASE("a server", "[.server]") {
  pitot::Options options = pitot::Options::FromEnvironment();
  options.memory_budget_bytes = 8 << 20;
  options.max_open_requests = 256;
  options.process_name = "server";
  const pitot::Recorder recorder = pitot::Recorder::Start(options);
  const pitot::Request request = pitot::Request::Begin("/generate");
  const std::string what = std::getenv("PITOT_TEST_SERVER");
  if (what == "kill") raise(SIGKILL);
  if (what == "stop") {  // until the incident of that is there
    const pid_t server = getpid();
    if (fork() == 0) {
      kill(server, SIGSTOP);
      fakes::WaitUntil([] {
        const std::vector<std::string> names = fakes::NamesIn("incidents");
        return std::any_of(names.begin(), names.end(), [](const std::string& name) {
          return name[0] != '.' && name.find("-wedged") != std::string::npos;
        });
      });
      kill(server, SIGKILL);
      _exit(0);
    }
    for (;;) pause();
  }
  if (what == "exit") _exit(3);
  if (what == "return") return;
  if (what == "grow") {
    for (;;) std::memset(std::malloc(1 << 20), 1, 1 << 20);
  }
  // Waits for a signal.
  static volatile sig_atomic_t got = 0;
  signal(SIGTERM, [](int) { got = 1; });
  std::ofstream("making") << getpid() << std::flush;
  std::rename("making", "ready");
  while (got == 0) usleep(1000);
  std::ofstream("terminated").close();
  _exit(0);
}

TEST_CASE("run ends as its command does, whose arguments and output are its own", "[cli]") {
  const Folder folder;
  const Result result = folder.Run(
      "run --memory . -- sh -c 'printf \"%s;\" \"$@\"; echo -n \"$PITOT_INCIDENT_DIRECTORY\" >&2; exit 5' "
      "sh '' --once '[a,b]' '[]' '[\"x y\",\"z\"]' -- '\"q\"'");
  CHECK(result.exit_code == 5);
  CHECK(result.out == ";--once;[a,b];[];[\"x y\",\"z\"];--;\"q\";");
  CHECK(result.err == "");
  CHECK(folder.Run("run --memory . -- sh -c 'test -d $PITOT_BLACK_BOX_DIRECTORY'").exit_code == 0);
  CHECK(folder.Run("run --dir here -- sh -c 'test $PITOT_BLACK_BOX_DIRECTORY = here'").exit_code == 0);
  CHECK(folder.Run("run --memory . -o there -- sh -c 'test $PITOT_INCIDENT_DIRECTORY = there'").exit_code == 0);
  const Result missing = folder.Run("run --memory . -- ./no_such_command");
  CHECK(missing.exit_code == 127);
  CHECK(missing.err == "pitot: ./no_such_command: No such file or directory\n");
  CHECK(folder.Run("run --memory . -- /dev/null").exit_code == 126);
  for (const char* const without : {"run", "run --", "run true"}) CHECK(folder.Run(without).exit_code == 2);
}

TEST_CASE("run lets servers in Python record themselves, unless the environment says otherwise", "[cli]") {
  const Folder folder;
  unsetenv("PITOT_AUTO");
  CHECK(folder.Run("run --memory . -- sh -c 'test $PITOT_AUTO = 1'").exit_code == 0);
  setenv("PITOT_AUTO", "0", 1);
  CHECK(folder.Run("run --memory . -- sh -c 'test $PITOT_AUTO = 0'").exit_code == 0);
  unsetenv("PITOT_AUTO");
}

TEST_CASE("run writes an incident of a server that was killed, and says by what", "[cli]") {
  const Folder folder;
  const Result result = folder.Run(ServerThat("kill"));
  CHECK(result.exit_code == 128 + SIGKILL);
  CHECK(result.out == "");
  INFO(result.err);
  CHECK(result.err.find("pitot: server (process ") == 0);
  CHECK(result.err.find(") ended by SIGKILL at ") != std::string::npos);
  CHECK(result.err.find(", with 1 open request\n") != std::string::npos);
  CHECK(result.err.find("env was ended by SIGKILL\n") != std::string::npos);
  REQUIRE(Incidents(folder).size() == 1);
  CHECK(folder.Run("requests incidents").out.find("/generate") != std::string::npos);
  CHECK_FALSE(HasLeftFolder(folder));
}

TEST_CASE("run says when a process ended that had been stopped before", "[cli]") {
  const Folder folder;
  const Result result = folder.Run(ServerThat("stop"));
  INFO(result.err);
  const std::string before = ") ended by SIGKILL at ", key = "post_mortem.last_look";
  REQUIRE(result.err.find(before) != std::string::npos);
  const std::string info = folder.Run("info incidents --json").out;
  REQUIRE(info.find(key) != std::string::npos);
  constexpr size_t kTimeSize = sizeof "2026-11-29 16:40:02.118" - 1;
  const std::string look = info.substr(info.find("20", info.find(key)), kTimeSize);
  INFO(look);
  CHECK(result.err.substr(result.err.find(before) + before.size(), kTimeSize) > look);
}

TEST_CASE("run tells an exit without a farewell by its code, and a good end leaves nothing", "[cli]") {
  const Folder folder;
  const Result exited = folder.Run(ServerThat("exit"));
  CHECK(exited.exit_code == 3);
  CHECK(exited.err.find(") ended with exit code 3 at ") != std::string::npos);
  CHECK(Incidents(folder).size() == 1);
  const Folder other;
  const Result good = other.Run(ServerThat("return"));
  CHECK(good.exit_code == 0);
  CHECK(good.err == "");
  CHECK(Incidents(other).empty());
}

TEST_CASE("run sees the end of a command though ends of children are ignored, and names a missing black box", "[cli]") {
  const Folder folder;
  const pid_t runner = fork();
  if (runner == 0) {
    signal(SIGCHLD, SIG_IGN);
    execl(PITOT_PROGRAM, "pitot", "run", "--", "sh", "-c", "exit 4", nullptr);
    _exit(1);
  }
  int status = 0;
  REQUIRE(waitpid(runner, &status, 0) == runner);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 4));
  const Result without = folder.Run("run --memory . -- sh -c 'kill -9 $$'");
  CHECK(without.exit_code == 128 + SIGKILL);
  CHECK(without.err.find("sh was ended by SIGKILL\npitot: no black box was seen in ./pitot-run-") != std::string::npos);
}

TEST_CASE("run makes an incident of what an earlier one left in memory", "[cli]") {
  const Folder folder;
  const pid_t runner = RunWaitingServer(folder);
  const std::string server = fakes::ReadFile(folder / "ready");
  kill(runner, SIGKILL);
  waitpid(runner, nullptr, 0);
  kill(std::stoi(server), SIGKILL);
  CHECK(fakes::WaitUntil([&] {
    const Result next = folder.Run("run --memory . -o incidents -- true");
    return next.err.find("ended without a word") != std::string::npos;
  }));
  CHECK(Incidents(folder).size() == 1);
}

TEST_CASE("run leaves the folder of another run that lives", "[cli]") {
  const Folder folder;
  const std::string held = folder / "pitot-run-held";
  REQUIRE(mkdir(held.c_str(), 0700) == 0);
  const int lock = open(held.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(flock(lock, LOCK_EX) == 0);
  CHECK(folder.Run("run --memory . -- true").exit_code == 0);
  CHECK(access(held.c_str(), F_OK) == 0);
  close(lock);
  CHECK(folder.Run("run --memory . -- true").exit_code == 0);
  CHECK(access(held.c_str(), F_OK) != 0);
}

TEST_CASE("run makes another folder if its new one is taken before it is locked", "[cli][platform]") {
  if (fakes::kAddressSanitizer) {
    NOT_RUN("the sanitizer's runtime must be the first library");
    return;
  }
  const Folder folder;
  setenv("LD_PRELOAD", PITOT_TAKEN_FOLDER, 1);
  const Result result = folder.Run("run --memory . -- sh -c 'test -d $PITOT_BLACK_BOX_DIRECTORY'");
  unsetenv("LD_PRELOAD");
  CHECK(result.exit_code == 0);
  CHECK(result.err == "");
  CHECK_FALSE(HasLeftFolder(folder));
}

TEST_CASE("run passes signals on, and waits for the command's own end", "[cli]") {
  const Folder folder;
  const pid_t runner = RunWaitingServer(folder);
  kill(runner, SIGTERM);
  int status = 0;
  REQUIRE(waitpid(runner, &status, 0) == runner);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  CHECK(access((folder / "terminated").c_str(), F_OK) == 0);
}

TEST_CASE("run tells a kill for want of memory", "[cli][platform]") {
  if (fakes::kAddressSanitizer) {
    NOT_RUN("`pitot` itself takes more than the group has");
    return;
  }
  const fakes::MemoryGroup group;
  if (!group.Exists()) {
    NOT_RUN("this machine allows no control group of memory");
    return;
  }
  const Folder folder;
  const pid_t runner = fork();
  if (runner == 0) {
    if (!group.Enter(32 << 20)) _exit(fakes::kCannotRun);
    _exit(folder.Run(ServerThat("grow")).exit_code);
  }
  int status = 0;
  REQUIRE(waitpid(runner, &status, 0) == runner);
  if (WIFEXITED(status) && WEXITSTATUS(status) == fakes::kCannotRun) {
    NOT_RUN("the control group takes no limit");
    return;
  }
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGKILL));
  const std::string said = fakes::ReadFile(folder / "err");
  INFO(said);
  CHECK(said.find(") ended by SIGKILL at ") != std::string::npos);
  CHECK(said.find("; the kernel's OOM killer struck in its control group\n") != std::string::npos);
}
