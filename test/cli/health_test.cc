// SPDX-License-Identifier: Apache-2.0
//
// pitot health, on black boxes of living processes.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/folder.h"
#include "cli/living.h"
#include "fakes/temp_directory.h"
#include "fakes/wait_until.h"
#include "pitot/pitot.h"

namespace {

using cli_test::Folder;
using cli_test::Living;
using cli_test::Result;

TEST_CASE("health says what a living process is about, without its help", "[cli]") {
  const Folder folder;
  Living idle(folder / "idle", [] {});
  const Result quiet = folder.Run("health idle");
  CHECK(quiet.exit_code == 0);
  CHECK(quiet.out == "server (process " + std::to_string(idle.pid()) + ") is idle: nothing is open\n");
  Living stuck(folder / "stuck", [] {
    static pitot::Request request = pitot::Request::Begin("/generate");
    request.Stage("prefill");
    for (;;) pause();
  });
  CHECK(folder.Run("health stuck").exit_code == 0);  // not yet
  Result result{};
  CHECK(fakes::WaitUntil([&] {
    result = folder.Run("health stuck --stalled-after 0.05");
    return result.exit_code == 1;
  }));
  CHECK(result.out.find("is stalled: request ") != std::string::npos);
  CHECK(result.out.find("of /generate (open ") != std::string::npos);
  CHECK(result.out.find("stage prefill) made no progress for ") != std::string::npos);
  const auto json = nlohmann::json::parse(folder.Run("health stuck --stalled-after 0.05 --json").out);
  REQUIRE(json.size() == 1);
  CHECK(json[0]["state"] == "stalled");
  CHECK(json[0]["pid"] == stuck.pid());
  CHECK(json[0]["route"] == "/generate");
  CHECK(json[0]["requests_waiting"] == 0);
}

TEST_CASE("health of a process whose threads work for its request is good", "[cli]") {
  const Folder folder;
  const Living working(folder / "boxes", [] {
    static pitot::Request request = pitot::Request::Begin("/generate");
    for (;;) {
      PITOT_SCOPE("step");
      usleep(1000);
    }
  });
  // A look without a sign within the limit would be bad luck a thousand times over.
  usleep(2'100'000);
  const Result result = folder.Run("health boxes --stalled-after 2");
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("is progressing: 1 open request\n") != std::string::npos);
}

TEST_CASE("health of a process whose requests all time out is bad, and watch agrees", "[cli]") {
  const Folder folder;
  const Living failing(folder / "boxes", [] {
    for (;;) {
      pitot::Request request = pitot::Request::Begin("/generate");
      usleep(5'000);
      request.Finish(pitot::Outcome::kTimedOut);
    }
  });
  Result result{};
  CHECK(fakes::WaitUntil([&] {
    result = folder.Run("health boxes --stalled-after 1");
    return result.exit_code == 1;
  }));
  CHECK(result.out.find(" is stalled: no request of /generate ended well for ") != std::string::npos);
  const Result watched = folder.Run("watch --dir boxes --once --stalled-after 1 --no-stacks -o incidents");
  CHECK(watched.exit_code == 1);
  CHECK(watched.out.find(" is stalled: no request of /generate ended well for ") != std::string::npos);
}

TEST_CASE("health of long requests on a route of short ones: one is good, two are good while a thread computes",
          "[cli]") {
  const Folder folder;
  enum class Kind { kOne, kTwo, kTwoComputing };
  for (const Kind kind : {Kind::kOne, Kind::kTwo, Kind::kTwoComputing}) {
    const Living serving(folder / "boxes", [kind] {
      for (int i = 0; i < 60; ++i) pitot::Request::Begin("/classify").Finish(pitot::Outcome::kOk);
      static pitot::Request first = pitot::Request::Begin("/classify");
      static pitot::Request second;
      if (kind != Kind::kOne) second = pitot::Request::Begin("/classify");
      while (kind == Kind::kTwoComputing) {}
    });
    Result result{};
    nlohmann::json json;
    // It is of the request without progress for the longest time.
    CHECK(fakes::WaitUntil([&] {
      result = folder.Run("health boxes --stalled-after 1000 --json");
      json = nlohmann::json::parse(result.out);
      return json.size() == 1 && json[0]["quiet_ms"] >= 2500;
    }));
    CHECK(json[0]["state"] == (kind == Kind::kTwo ? "stalled" : "progressing"));
    CHECK(result.exit_code == (kind == Kind::kTwo ? 1 : 0));
  }
}

TEST_CASE("health of a stopped process is bad, also of an idle one", "[cli]") {
  const Folder folder;
  const Living idle(folder / "boxes", [] {});
  kill(idle.pid(), SIGSTOP);
  Result result{};
  CHECK(fakes::WaitUntil([&] {
    result = folder.Run("health boxes");
    return result.exit_code == 1;
  }));
  // At once, and not for want of a sign of life.
  CHECK(result.out.find(" is stalled: the process is stopped by a signal; before that: idle: nothing is open\n") !=
        std::string::npos);
  kill(idle.pid(), SIGCONT);
  CHECK(fakes::WaitUntil([&] { return folder.Run("health boxes").exit_code == 0; }));
}

TEST_CASE("health and recover name a folder or black box that they may not read", "[cli]") {
  const Folder folder;
  for (const char* const command : {"health ", "recover --post-mortem "}) {
    const Result missing = folder.Run(std::string(command) + "boxes");
    CHECK(missing.exit_code == 3);
    CHECK(missing.err == "pitot: boxes: No such file or directory\n");
  }
  const Living other(folder / "boxes", [] {});
  const std::string box = "boxes/" + fakes::NamesIn(folder / "boxes").at(0);
  // As another user's, also to root.
  const std::string own = getuid() == 0 ? "--version >/dev/null; setpriv --bounding-set "
                                          "-dac_override,-dac_read_search " PITOT_PROGRAM " "
                                        : "";
  for (const std::string& unreadable : {box, std::string("boxes")}) {
    REQUIRE(chmod((folder / unreadable).c_str(), 0) == 0);
    for (const char* const command : {"health boxes", "recover --post-mortem boxes"}) {
      const Result result = folder.Run(own + command);
      CHECK(result.exit_code == 3);
      CHECK(result.err == "pitot: " + unreadable + ": Permission denied\n");
    }
  }
  REQUIRE(chmod((folder / "boxes").c_str(), 0700) == 0);
}

TEST_CASE("health without a living process says so, and leaves the dead one's black box alone", "[cli]") {
  const Folder folder;
  CHECK(folder.Run("health .").exit_code == 0);  // a probe must not restart a server that has no black box
  CHECK(folder.Run("health . --fail-when unknown").exit_code == 3);
  CHECK(folder.Run("health . --fail-when dead").exit_code == 2);
  {
    const Living dies(folder / "boxes", [] {});
    kill(dies.pid(), SIGKILL);
  }
  const Result dead = folder.Run("health boxes --fail-when unknown");
  CHECK(dead.exit_code == 3);
  CHECK(dead.err.find("its process is dead") != std::string::npos);
  CHECK(dead.err.find("no black box of a living process in boxes") != std::string::npos);
  CHECK(folder.Run("recover --post-mortem boxes -o .").exit_code == 0);
}

}  // namespace
