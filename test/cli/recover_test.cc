// SPDX-License-Identifier: Apache-2.0
//
// pitot recover --post-mortem, on the black box of a process that was killed.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "cli/folder.h"
#include "fakes/temp_directory.h"
#include "pitot/pitot.h"

namespace {

using cli_test::Folder;
using cli_test::Result;

// Leaves the black box of a process that died with one open request.
void Die(const std::string& boxes) {
  const pid_t child = fork();
  if (child == 0) {
    pitot::Options options;
    options.memory_budget_bytes = 8 << 20;
    options.black_box_directory = boxes.c_str();
    options.process_name = "server";
    const pitot::Recorder recorder = pitot::Recorder::Start(options);
    const pitot::Request request = pitot::Request::Begin("/classify");
    PITOT_INSTANT("working");
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
}

TEST_CASE("recover --post-mortem makes an incident of a dead process, and removes its black box", "[cli]") {
  const Folder folder;
  Die(folder / "boxes");
  const Result kept = folder.Run("recover --post-mortem boxes -o kept --keep");
  CHECK(kept.exit_code == 0);
  CHECK(kept.out.find("server (process ") == 0);
  CHECK(kept.out.find("with 1 open request") != std::string::npos);
  CHECK(fakes::NamesIn(folder / "boxes").size() == 1);
  const Result taken = folder.Run("recover --post-mortem boxes -o taken");
  CHECK(taken.exit_code == 0);
  CHECK(fakes::NamesIn(folder / "boxes").empty());
  const std::string incident = "taken/" + fakes::NamesIn(folder / "taken").at(0);
  CHECK(incident.find("-previous_life") != std::string::npos);
  const Result requests = folder.Run("requests " + incident);
  CHECK(requests.exit_code == 0);
  CHECK(requests.out.find("/classify") != std::string::npos);
  const std::string report = fakes::ReadFile(folder / (incident + "/report.txt"));
  CHECK(report.find("ended without a word") != std::string::npos);
}

TEST_CASE("recover --post-mortem leaves a black box of which another process makes an incident, and says so", "[cli]") {
  const Folder folder;
  Die(folder / "boxes");
  const std::string path = folder / "boxes/" + fakes::NamesIn(folder / "boxes").at(0);
  const int file = open(path.c_str(), O_RDWR);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  REQUIRE(fcntl(file, F_SETLK, &lock) == 0);

  const Result taken = folder.Run("recover --post-mortem boxes -o .");

  CHECK(taken.exit_code == 1);
  CHECK(taken.err.find("another process makes an incident of it") != std::string::npos);
  CHECK(fakes::NamesIn(folder / "boxes").size() == 1);
  close(file);
}

TEST_CASE("recover --post-mortem says why there is nothing to recover", "[cli]") {
  const Folder folder;
  const Result none = folder.Run("recover --post-mortem .");
  CHECK(none.exit_code == 1);
  CHECK(none.err.find("no black box of a dead process in .") != std::string::npos);
  folder.Write("garbage.box", std::string(8192, 'x'));
  const Result garbage = folder.Run("recover --post-mortem .");
  CHECK(garbage.exit_code == 5);
  CHECK(garbage.err.find("not a black box of Pitot") != std::string::npos);
  folder.Write("1-1-1-01234567.box", std::string(8192, '\0'));
  const std::string unwritten = folder.Run("recover --post-mortem . --keep").err;
  CHECK(unwritten.find("nothing was written to it before its process or the machine ended") != std::string::npos);
  CHECK(folder.Run("recover --post-mortem .").err == unwritten);
  CHECK(folder.Run("recover --post-mortem .").err == garbage.err);  // removed
  CHECK(folder.Run("recover").exit_code == 2);
  CHECK(folder.Run("recover x --post-mortem .").exit_code == 2);
}

}  // namespace
