// SPDX-License-Identifier: Apache-2.0
//
// Recorders that start at once with one folder of black boxes: each dead process gets one incident, and nobody touches
// the box of a living one.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/semaphore.h"
#include "fakes/child.h"
#include "fakes/temp_directory.h"
#include "session/boxes.h"
#include "session/depths.h"
#include "session/memory_budget.h"
#include "session/parts.h"
#include "session/post_mortem.h"
#include "session/previous_lives.h"
#include "session/process_facts.h"

namespace {

using pitot::Recorder;
using pitot::session::BoxesIn;
using pitot::session::FoundBox;
using session_test::Boxes;
using session_test::Die;

// The processes whose last life has an incident in that directory, as often as it has one, sorted.
std::vector<pid_t> LivesIn(const std::string& incidents) {
  std::vector<pid_t> lives;
  for (const std::string& name : fakes::NamesIn(incidents)) {
    if (name.find("-previous_life") == std::string::npos) continue;
    const std::string report = fakes::ReadFile(incidents + "/" + name + "/report.txt");
    const size_t at = report.find("(process ");
    lives.push_back(at != report.npos ? std::atoi(report.c_str() + at + sizeof "(process " - 1) : 0);
  }
  std::sort(lives.begin(), lives.end());
  return lives;
}

// Processes whose recorders start at one moment, and live on once they have looked for dead ones.
class Starters {
 public:
  // One for each directory of incidents.
  Starters(Boxes* boxes, const std::vector<std::string>& incidents) {
    int gate[2], done[2];
    REQUIRE(pipe(gate) == 0);
    REQUIRE(pipe(done) == 0);
    for (const std::string& directory : incidents) {
      pids_.push_back(fakes::StartChild(
          [&] {
            close(gate[1]);
            char byte = 0;
            boxes->incidents = directory;
            if (read(gate[0], &byte, 1) != 0) return 1;  // until it is closed
            Recorder recorder = Recorder::Start(boxes->Options());
            PITOT_INSTANT("started");
            // Its worker looks for dead ones before it has an incident finished.
            HOLDS(recorder.Trigger("has it looked").ok());
            HOLDS(recorder.Flush(60'000).ok());
            if (write(done[1], "x", 1) != 1) return 1;
            for (;;) pause();
          },
          120));
    }
    close(gate[0]);
    close(gate[1]);
    close(done[1]);
    char bytes[64];
    size_t got = 0;
    for (ssize_t n = 1; got < incidents.size() && n > 0; got += static_cast<size_t>(n))
      n = read(done[0], bytes, sizeof bytes);
    close(done[0]);
    CHECK(got == incidents.size());
  }
  ~Starters() {
    for (const pid_t pid : pids_) kill(pid, SIGKILL);
    for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
  }
  Starters(const Starters&) = delete;
  Starters& operator=(const Starters&) = delete;

 private:
  std::vector<pid_t> pids_;
};

// Processes that die one after the other, each with a black box for `server`. None looks for those before it.
std::vector<pid_t> DieEach(Boxes* boxes, const std::string& server, int count) {
  const std::string shared = boxes->path;
  mkdir(shared.c_str(), 0700);
  boxes->path = boxes->directory / "alone";
  boxes->incidents = server;
  std::vector<pid_t> dead;
  for (int i = 0; i < count; ++i) {
    Die(boxes, [] { PITOT_INSTANT("worked"); });
    const std::string path = BoxesIn(boxes->path).at(0), name = path.substr(path.rfind('/'));
    REQUIRE(rename(path.c_str(), (shared + name).c_str()) == 0);
    dead.push_back(std::atoi(name.c_str() + 1));
  }
  boxes->path = shared;
  std::sort(dead.begin(), dead.end());
  return dead;
}

}  // namespace

TEST_CASE("each dead process gets one incident from recorders that start at once", "[black_box]") {
  Boxes boxes;
  const std::string one = boxes.directory / "one", other = boxes.directory / "other";
  const std::vector<pid_t> of_one = DieEach(&boxes, one, 8), of_other = DieEach(&boxes, other, 8);

  const Starters starters(&boxes, {one, other, one, other});

  CHECK(LivesIn(one) == of_one);
  CHECK(LivesIn(other) == of_other);
  const std::vector<std::string> left = BoxesIn(boxes.path);
  CHECK(left.size() == 4);
  for (const std::string& path : left) CHECK(FoundBox(path).Peek() == FoundBox::Life::kAlive);
}

TEST_CASE("of threads that start a recorder at once one has a black box, and the others leave it alone",
          "[black_box]") {
  constexpr size_t kThreads = 8;
  const int result = fakes::InChild([] {
    Boxes boxes;
    std::vector<Recorder> recorders(kThreads);
    std::vector<std::thread> threads;
    std::atomic<size_t> ready{0};
    for (Recorder& recorder : recorders) {
      threads.emplace_back([&] {
        ++ready;
        while (ready != kThreads) {}
        recorder = Recorder::Start(boxes.Options());
      });
    }
    for (std::thread& thread : threads) thread.join();
    HOLDS(std::count_if(recorders.begin(), recorders.end(), [](const auto& it) { return it.status().ok(); }) == 1);
    HOLDS(fakes::NamesIn(boxes.path).size() == 1);
    return fakes::InChild([&] {
      const std::vector<std::string> paths = BoxesIn(boxes.path);
      HOLDS(paths.size() == 1);
      HOLDS(FoundBox(paths[0]).Look() == FoundBox::Life::kAlive);
      return 0;
    });
  });
  CHECK(result == 0);
}

TEST_CASE("a black box that another server looks at is not missed by its own", "[black_box]") {
  Boxes boxes;
  const std::string own = boxes.directory / "own";
  const std::vector<pid_t> dead = DieEach(&boxes, own, 20);
  const pid_t looking = fakes::StartChild(
      [&] {
        session_test::Parts parts;
        parts.options.black_box_directory = boxes.path;
        parts.options.incident_directory = boxes.directory / "other";
        pitot::base::Semaphore wake;
        pitot::session::Depths depths(&parts.options.values, false, &parts.lifetime, &parts.host, &wake, [] {});
        const pitot::session::MemoryBudget budget(&parts.options, &depths);
        pitot::session::PreviousLives lives(&parts.options, &budget, &parts.host, parts.throttle.get());
        for (;;) lives.Recover();
        return 0;
      },
      120);

  { const Starters starter(&boxes, {own}); }

  kill(looking, SIGKILL);
  waitpid(looking, nullptr, 0);
  CHECK(LivesIn(own) == dead);
}

// As if readers had been killed before they removed the box.
TEST_CASE("killed readers of a black box leave one incident of it", "[black_box]") {
  using Left = std::vector<std::string>;
  const Left left = GENERATE(Left{""}, Left{".partial"}, Left{".partial", ".partial.2"}, Left{"", ".partial"});
  Boxes boxes;
  const std::string own = boxes.directory / "own";
  const std::vector<pid_t> dead = DieEach(&boxes, own, 1);
  const std::string box = BoxesIn(boxes.path).at(0), kept = boxes.directory / "kept";
  REQUIRE(link(box.c_str(), kept.c_str()) == 0);
  { const Starters starter(&boxes, {own}); }
  REQUIRE(LivesIn(own) == dead);
  for (const std::string& path : BoxesIn(boxes.path)) unlink(path.c_str());  // of the starter
  REQUIRE(rename(kept.c_str(), box.c_str()) == 0);
  const std::string incident = own + "/" + fakes::NamesIn(own).at(0);
  REQUIRE(rename(incident.c_str(), kept.c_str()) == 0);
  for (const std::string& suffix : left)
    std::filesystem::copy(kept, incident + suffix, std::filesystem::copy_options::recursive);

  { const Starters starter(&boxes, {own}); }

  CHECK(LivesIn(own) == dead);
  CHECK(access(incident.c_str(), F_OK) == 0);
  CHECK(access(box.c_str(), F_OK) != 0);
}

// Between its making and its lock, another's look must not take the lock.
TEST_CASE("a black box that a living process just makes is not locked by others who look at it", "[black_box]") {
  const fakes::TempDirectory directory;
  int go[2];
  REQUIRE(pipe(go) == 0);
  const pid_t maker = fakes::StartChild([&] {
    char byte = 0;
    const int file = open((directory / pitot::session::OwnBoxName()).c_str(), O_RDWR | O_CREAT, 0600);
    HOLDS(file >= 0);
    HOLDS(write(go[1], "x", 1) == 1);
    HOLDS(read(go[0], &byte, 0) == 0);
    for (;;) pause();
  });
  char byte = 0;
  REQUIRE(read(go[0], &byte, 1) == 1);

  FoundBox box(BoxesIn(directory.path()).at(0));
  CHECK(box.Look() == FoundBox::Life::kBroken);
  CHECK_FALSE(box.IsUnwritten());

  const int locked = fakes::InChild([&] {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    return fcntl(open(box.path().c_str(), O_RDWR), F_SETLK, &lock) == 0 ? 0 : 1;
  });
  CHECK(locked == 0);
  kill(maker, SIGKILL);
  waitpid(maker, nullptr, 0);
  close(go[0]);
  close(go[1]);
}
