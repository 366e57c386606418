// SPDX-License-Identifier: Apache-2.0
//
// Several processes and one GPU: one samples, and the others read its file. Each rig stands for a process, unless a
// test forks.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "collect/counters/rig.h"
#include "collect/counters/shared_file.h"
#include "fakes/child.h"
#include "fakes/not_run.h"
#include "fakes/scale.h"
#include "fakes/temp_directory.h"

using namespace fakes;
using namespace pitot::counters;
using Trace = CounterTrace;

namespace {

constexpr const char* kId = "GPU-00000000-test";

// Rigs that share a folder; their clocks go together.
struct World {
  World() {
    first.environment.shared_directory = temp.path();
    first.gpus[0].id = kId;
    second = std::make_unique<Rig>(&first);
    second->gpus[0].id = kId;
  }
  void Pass(int64_t ns) {
    for (int64_t passed = 0; passed < ns; passed += 100 * kMs) {
      for (Rig* rig : {&first, second.get()}) {
        if (rig->collector != nullptr) {
          REQUIRE(rig->timer->Pass(100 * kMs));
        } else {
          rig->timer->Set(rig->timer->NowNs() + 100 * kMs);
        }
      }
    }
  }
  int64_t RealtimeNs() { return first.timer->NowNs() + kAheadNs; }
  uint64_t Calls(const char* function) {
    const std::lock_guard lock(first.fake->mutex);
    return first.fake->calls_of[function];
  }
  std::string Path() const { return SharedFile(temp.path(), kId).path(); }

  TempDirectory temp;
  Rig first;
  std::unique_ptr<Rig> second;
};

std::string Me() { return TextOf(ThisProcess()); }

}  // namespace

TEST_CASE("a second process has the samples of the one that samples the GPU, and names it", "[counters]") {
  World world;
  const int64_t begin_ns = world.first.timer->NowNs();
  world.first.Script([&](FakePm& fake) {
    fake.value = [=](const std::string&, int64_t at_ns) { return at_ns - kAheadNs < begin_ns + 400 * kMs ? 0 : 75; };
  });
  REQUIRE(world.first.Start().ok());
  REQUIRE(world.second->Start().ok());
  world.Pass(kSecond);

  const Trace trace = world.second->AskBack(800 * kMs);

  CHECK(trace.Of("SM active") == Trace::Samples{{begin_ns + 200 * kMs, 0}, {begin_ns + 400 * kMs, 75}});
  CHECK(trace.Of("sampled") == Trace::Samples{{begin_ns + 200 * kMs, 1}, {begin_ns + kSecond, 0}});
  CHECK(trace.uuids.at(0) == kId);
  CHECK(trace.attributes.at("counters.0.sampled_by") == Me());
  CHECK(trace.attributes.at("counters.0.interval_us") == "4000");
  CHECK(trace.attributes.count("counters.0.not_recorded") == 0);
  CHECK(trace.attributes.count("counters.0.lost_samples") == 0);
  CHECK(world.Calls("cuptiPmSamplingEnable") == 1);  // the second never asked
  CHECK(world.first.AskBack(kSecond).attributes.count("counters.0.sampled_by") == 0);
}

TEST_CASE("the cost of reading is measured, and does not change the interval of a later sampling", "[counters]") {
  World world;
  world.second->cpu_share = 0.03;
  REQUIRE(world.first.Start().ok());
  REQUIRE(world.second->Start().ok());
  world.Pass(6 * kSecond);
  CHECK(world.second->AskBack(kSecond).attributes.at("counters.cpu_percent") == "3.00");
  world.first.collector->Stop();
  world.first.collector.reset();
  world.Pass(2 * kSecond);
  CHECK(world.first.Seen(&FakePm::sampling) == 1);
  CHECK(world.first.Seen(&FakePm::interval_ns) == 4'000'000);
}

TEST_CASE("an incident of a reader waits for the other's next round, which has its last moment", "[counters]") {
  World world;
  REQUIRE(world.first.Start().ok());
  REQUIRE(world.second->Start().ok());
  world.Pass(700 * kMs);  // rounds were at 500 ms
  const int64_t asked_ns = world.second->timer->NowNs();
  world.second->collector->Keep(asked_ns - kSecond, pitot::KeepFor::kIncident);
  world.Pass(500 * kMs);
  Trace trace;
  world.second->collector->AddTo(trace);
  CHECK(trace.Of("sampled").back().first >= asked_ns);
  CHECK(trace.attributes.count("counters.not_recorded") == 0);
}

TEST_CASE("an incident of a reader is written without its last moment if the other is late", "[counters]") {
  World world;
  REQUIRE(world.first.Start().ok());
  REQUIRE(world.second->Start().ok());
  world.Pass(700 * kMs);
  const int64_t asked_ns = world.second->timer->NowNs();
  world.second->collector->Keep(asked_ns - kSecond, pitot::KeepFor::kIncident);
  REQUIRE(world.second->timer->Pass(2 * kSecond));  // the first stands still
  Trace trace;
  world.second->collector->AddTo(trace);
  CHECK(trace.Of("sampled").back() == std::pair<int64_t, double>{asked_ns - 200 * kMs, 0});
  CHECK(trace.attributes.count("counters.not_recorded") == 0);
}

TEST_CASE("samples lost by the process that samples are lost to its readers, and counted", "[counters]") {
  World world;
  REQUIRE(world.first.Start().ok());
  REQUIRE(world.second->Start().ok());
  world.Pass(kSecond);
  world.first.Script([](FakePm& fake) { fake.most_kept = 100; });  // of 250
  world.first.timer->Set(world.first.timer->NowNs() + kSecond);
  REQUIRE(world.first.timer->AwaitIdle());
  REQUIRE(world.second->timer->Pass(kSecond));
  CHECK(world.first.AskBack(kSecond).attributes.at("counters.0.lost_samples") == "150");
  CHECK(world.second->AskBack(kSecond).attributes.at("counters.0.lost_samples") == "150");
}

TEST_CASE("if the sampling process is paused, a reader samples; once it resumes, it reads", "[counters]") {
  World world;
  REQUIRE(world.first.Start().ok());
  REQUIRE(world.second->Start().ok());
  world.Pass(kSecond);
  REQUIRE(world.first.collector->Pause().ok());
  world.Pass(3 * kSecond);
  CHECK(world.first.Seen(&FakePm::sampling) == 1);
  CHECK(world.second->AskBack(kSecond).attributes.count("counters.0.sampled_by") == 0);

  REQUIRE(world.first.collector->Resume().ok());
  world.Pass(kSecond);

  const Trace trace = world.first.AskBack(kSecond);
  CHECK(trace.attributes.at("counters.0.sampled_by") == Me());
  CHECK_FALSE(trace.Of("SM active").empty());
  CHECK(world.first.Seen(&FakePm::enabled) == 1);
}

TEST_CASE("if the sampling process stops, a reader takes over, and the incident names both", "[counters]") {
  World world;
  REQUIRE(world.first.Start().ok());
  REQUIRE(world.second->Start().ok());
  world.Pass(2 * kSecond);
  world.first.collector->Stop();
  world.first.collector.reset();
  world.Pass(3 * kSecond);
  CHECK(world.first.Seen(&FakePm::sampling) == 1);
  const Trace trace = world.second->AskBack(5 * kSecond);
  CHECK(trace.attributes.at("counters.0.sampled_by") == Me());
  CHECK(trace.Of("sampled").size() == 5);  // with one gap
  CHECK(trace.attributes.count("counters.0.not_recorded") == 0);
  CHECK(trace.is_newest_first);
}

TEST_CASE("a reader takes over at once from a process that was killed", "[counters][platform]") {
  if (kThreadSanitizer) {
    NOT_RUN("ThreadSanitizer's runtime hangs in one of twenty children of a fork");
    return;
  }
  World world;
  const int64_t realtime_ns = world.RealtimeNs();
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = StartChild([&] {
    SharedFile file(world.temp.path(), kId);
    std::vector<Sample> samples;
    for (int64_t at_ns = realtime_ns - 400 * kMs; at_ns < realtime_ns; at_ns += 4 * kMs) {
      samples.push_back(Unmeasured(at_ns, at_ns + 4 * kMs));
      samples.back().values[ColumnOf(pitot::base::GpuCounter::kSmActive)] = 30;
    }
    const bool is_begun =
        file.Begin(ThisProcess(), 4000, realtime_ns).empty() && file.Write(samples, 0, realtime_ns).empty();
    if (!is_begun || write(ready[1], "r", 1) != 1) return 1;
    return pause();
  });
  close(ready[1]);
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  close(ready[0]);
  REQUIRE(world.second->Start().ok());
  CHECK(world.first.Seen(&FakePm::calls) == 0);
  const Trace before = world.second->AskBack(400 * kMs);
  CHECK(before.Of("SM active").at(0).second == 30);
  CHECK(before.attributes.at("counters.0.sampled_by").find("process " + std::to_string(child)) == 0);

  REQUIRE(kill(child, SIGKILL) == 0);
  siginfo_t end{};
  REQUIRE(waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT) == 0);  // not even waited for
  world.Pass(2 * kSecond);

  CHECK(world.first.Seen(&FakePm::sampling) == 1);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(world.second->AskBack(kSecond).Of("SM active").back().second == 50);
}

TEST_CASE("while the driver has not freed the GPU of an ended process, it is asked for a few times", "[counters]") {
  World world;
  SharedFile file(world.temp.path(), kId);
  REQUIRE(file.Begin(ThisProcess(), 4000, world.RealtimeNs()).empty());
  world.first.Script([](FakePm& fake) { fake.held.insert(0); });
  REQUIRE(world.second->Start().ok());
  world.Pass(2 * kSecond);
  CHECK(world.Calls("cuptiPmSamplingGetCounterAvailability") == 0);
  world.Pass(30 * kSecond);  // without a heartbeat
  const uint64_t asked = world.Calls("cuptiPmSamplingGetCounterAvailability");
  CHECK(asked >= kTakeoverTries);
  CHECK(asked <= kTakeoverTries + 4);
  CHECK(
      world.second->AskBack(kSecond).attributes.at("counters.0.not_recorded").find("another profiler uses this GPU") ==
      0);
}

TEST_CASE("a process that lost the race for a GPU reads the winner's samples from its next round on", "[counters]") {
  World world;
  world.first.Script([](FakePm& fake) { fake.held.insert(0); });
  REQUIRE(world.second->Start().ok());
  world.first.Script([](FakePm& fake) { fake.held.clear(); });
  REQUIRE(world.first.Start().ok());
  world.Pass(kSecond);
  CHECK_FALSE(world.second->AskBack(kSecond).Of("SM active").empty());
}

TEST_CASE("a process that may not sample has the samples of one that may", "[counters]") {
  World world;
  world.first.Script([](FakePm& fake) { fake.results["cuptiPmSamplingEnable"] = kInsufficientPrivileges; });
  REQUIRE(world.second->Start().ok());
  world.first.Script([](FakePm& fake) { fake.results.clear(); });
  REQUIRE(world.first.Start().ok());
  world.Pass(kSecond);
  CHECK_FALSE(world.second->AskBack(kSecond).Of("SM active").empty());
  world.first.collector->Stop();
  world.first.collector.reset();
  world.Pass(2 * kSecond);
  CHECK(world.second->AskBack(kSecond).attributes.at("counters.0.not_recorded").find("administrators alone") !=
        std::string::npos);
}

TEST_CASE("a process whose samples cannot be shared samples for itself, and the incident says why", "[counters]") {
  World world;
  SECTION("no folder") { world.first.environment.shared_directory = "/nowhere"; }
  SECTION("a link") { REQUIRE(symlink("elsewhere", world.Path().c_str()) == 0); }
  SECTION("a folder") { REQUIRE(mkdir(world.Path().c_str(), 0700) == 0); }
  SECTION("a pipe") { REQUIRE(mkfifo(world.Path().c_str(), 0600) == 0); }
  SECTION("a file open to others") {
    std::ofstream(world.Path()) << "x";
    REQUIRE(chmod(world.Path().c_str(), 0666) == 0);
  }
  SECTION("a file with a second name") {
    std::ofstream(world.Path()) << "x";
    REQUIRE(chmod(world.Path().c_str(), 0600) == 0);
    REQUIRE(link(world.Path().c_str(), (world.temp.path() + "/other").c_str()) == 0);
  }
  REQUIRE(world.first.Start().ok());
  world.Pass(kSecond);
  const Trace trace = world.first.AskBack(kSecond);
  CHECK_FALSE(trace.Of("SM active").empty());
  CHECK(trace.attributes.at("counters.0.not_shared").find("pitot-counters-") != std::string::npos);
}

TEST_CASE("the file is for its user alone, and is made again if it was removed", "[counters]") {
  World world;
  REQUIRE(world.first.Start().ok());
  REQUIRE(world.second->Start().ok());
  world.Pass(kSecond);
  REQUIRE(unlink(world.Path().c_str()) == 0);
  world.Pass(kSecond);
  struct stat of {};
  REQUIRE(stat(world.Path().c_str(), &of) == 0);
  CHECK((of.st_mode & 07777) == 0600);
  CHECK_FALSE(world.second->AskBack(500 * kMs).Of("SM active").empty());
}

TEST_CASE("whatever is in the file, a reader neither crashes nor reads impossible times", "[counters]") {
  World world;
  REQUIRE(world.first.Start().ok());
  world.Pass(2 * kSecond);
  std::ifstream in(world.Path(), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  world.first.collector->Stop();
  world.first.collector.reset();
  world.first.Script([](FakePm& fake) { fake.held.insert(0); });
  REQUIRE(world.second->Start().ok());
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string bytes = whole;
    const size_t places = round % 10 == 0 ? 0 : 1 + random() % 64;
    for (size_t i = 0; i < places; ++i) {
      const size_t most = i % 2 == 0 ? 640 : bytes.size();
      bytes[random() % most] = static_cast<char>(random());
    }
    if (round % 3 == 0) bytes.resize(random() % bytes.size());
    {
      std::ofstream out(world.Path(), std::ios::binary);
      out << bytes;
    }
    const int64_t begin_ns = world.second->timer->NowNs();
    world.Pass(500 * kMs);
    const Trace trace = world.second->AskBack(kSecond, 1600 * kMs);
    for (const auto& [row, samples] : trace.samples) {
      for (const auto& [at_ns, value] : samples)
        CHECK((at_ns >= begin_ns - kSecond && at_ns <= begin_ns + 3 * kSecond));
    }
  }
}

TEST_CASE("samples of a forger with a right checksum are lost if their times are impossible", "[counters]") {
  World world;
  const int64_t now_ns = world.RealtimeNs();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  SharedFile file(world.temp.path(), kId);
  REQUIRE(file.Begin(ThisProcess(), 4000, now_ns).empty());
  REQUIRE(world.second->Start().ok());
  std::vector<Sample> samples;
  for (const auto& [begin_ns, end_ns] : std::vector<std::pair<int64_t, int64_t>>{
           {kLeast, kMost}, {kMost, kLeast}, {0, now_ns}, {now_ns, kMost}, {now_ns, now_ns}, {-1, 1}})
    samples.push_back(Unmeasured(begin_ns, end_ns));
  samples.push_back(Unmeasured(now_ns, now_ns + 4 * kMs));
  samples.back().values[0] = std::numeric_limits<float>::infinity();
  REQUIRE(file.Write(samples, 0, now_ns).empty());
  world.Pass(500 * kMs);
  const Trace trace = world.second->AskBack(kSecond, 1600 * kMs);
  CHECK(trace.attributes.at("counters.0.lost_samples") == "6");
  CHECK(trace.Of("sampled").size() == 3);
}

TEST_CASE("a file of another version of Pitot is not read, and said to be there", "[counters]") {
  World world;
  REQUIRE(SharedFile(world.temp.path(), kId).Begin(ThisProcess(), 4000, world.RealtimeNs()).empty());
  std::fstream file(world.Path(), std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(8);
  file.put(2).flush();
  world.first.Script([](FakePm& fake) { fake.held.insert(0); });
  REQUIRE(world.second->Start().ok());
  world.Pass(kSecond);
  CHECK(world.second->AskBack(kSecond).attributes.at("counters.0.not_shared").find("another version of Pitot") !=
        std::string::npos);
}

TEST_CASE("a GPU asked for is released until the given time, and its sampler takes it back", "[counters]") {
  World world;
  REQUIRE(world.first.Start().ok());
  REQUIRE(world.second->Start().ok());
  world.Pass(kSecond);
  const SharedFile file(world.temp.path(), kId);
  const int64_t now_ns = world.RealtimeNs();
  REQUIRE(file.AskForRelease({99, 1, 1, "pitot"}, now_ns, now_ns + 20 * kSecond).empty());
  world.Pass(600 * kMs);

  CHECK(world.first.Seen(&FakePm::enabled) == 0);
  CHECK(file.Look().state == SharedState::kReleased);  // the command waits for this
  const std::string why = "given away for 20 s: process 99 (pitot) asked for it";
  CHECK(world.first.AskBack(kSecond).attributes.at("counters.0.not_recorded") == why);
  CHECK(world.second->AskBack(kSecond).attributes.at("counters.0.not_recorded") == why);

  world.Pass(19 * kSecond);
  CHECK(world.first.Seen(&FakePm::enabled) == 0);
  world.Pass(2 * kSecond);
  CHECK(world.first.AskBack(500 * kMs).attributes.count("counters.0.sampled_by") == 0);
  CHECK_FALSE(world.first.AskBack(500 * kMs).Of("SM active").empty());
  CHECK_FALSE(world.second->AskBack(500 * kMs).Of("SM active").empty());
  CHECK(world.Calls("cuptiPmSamplingEnable") == 2);  // the reader did not even try
}

TEST_CASE("a reader samples after a release if the former sampler has ended meanwhile", "[counters]") {
  World world;
  REQUIRE(world.first.Start().ok());
  REQUIRE(world.second->Start().ok());
  world.Pass(kSecond);
  const int64_t now_ns = world.RealtimeNs();
  REQUIRE(SharedFile(world.temp.path(), kId).AskForRelease({99, 1, 1, "pitot"}, now_ns, now_ns + 5 * kSecond).empty());
  world.Pass(kSecond);
  world.first.collector->Stop();
  world.first.collector.reset();
  world.Pass(7 * kSecond);
  CHECK(world.first.Seen(&FakePm::sampling) == 1);
}

TEST_CASE("a process that starts during a release waits for its end", "[counters]") {
  World world;
  const SharedFile file(world.temp.path(), kId);
  const int64_t now_ns = world.RealtimeNs();
  REQUIRE(SharedFile(world.temp.path(), kId).Begin(ThisProcess(), 4000, now_ns - 60 * kSecond).empty());
  REQUIRE(file.AskForRelease({99, 1, 1, "pitot"}, now_ns, now_ns + 5 * kSecond).empty());
  REQUIRE(world.first.Start().ok());
  world.Pass(4 * kSecond);
  CHECK(world.first.Seen(&FakePm::calls) == 0);
  world.Pass(4 * kSecond);
  CHECK(world.first.Seen(&FakePm::sampling) == 1);
}

TEST_CASE("a wish for more than an hour, or one that has passed, is ignored", "[counters]") {
  World world;
  REQUIRE(world.first.Start().ok());
  const SharedFile file(world.temp.path(), kId);
  const int64_t now_ns = world.RealtimeNs();
  for (const int64_t until_ns : {now_ns - 1, now_ns + 3700 * kSecond, std::numeric_limits<int64_t>::max(),
                                 std::numeric_limits<int64_t>::min()}) {
    REQUIRE(file.AskForRelease({99, 1, 1, "pitot"}, now_ns, until_ns).empty());
    world.Pass(kSecond);
    CHECK(world.first.Seen(&FakePm::sampling) == 1);
  }
  REQUIRE(
      file.AskForRelease({99, 1, 1, "\x1b[31m\n"}, std::numeric_limits<int64_t>::min(), now_ns + 60 * kSecond).empty());
  world.Pass(kSecond);
  CHECK(world.first.AskBack(kSecond).attributes.at("counters.0.not_recorded") ==
        "given away for 0 s: process 99 (?[31m?) asked for it");
}

TEST_CASE("a pause does not count as lost samples, nor make a reader misread the next sampler", "[counters]") {
  World world;
  REQUIRE(world.first.Start().ok());
  REQUIRE(world.second->Start().ok());
  for (int i = 0; i < 3; ++i) {
    world.Pass(2 * kSecond);
    REQUIRE(world.first.collector->Pause().ok());
    world.Pass(3 * kSecond);
    REQUIRE(world.first.collector->Resume().ok());
    world.Pass(2 * kSecond);
    REQUIRE(world.second->collector->Pause().ok());
    world.Pass(3 * kSecond);
    REQUIRE(world.second->collector->Resume().ok());
  }
  for (Rig* rig : {&world.first, world.second.get()}) {
    const Trace trace = rig->AskBack(kSecond);
    CHECK_FALSE(trace.Of("SM active").empty());
    CHECK(trace.attributes.count("counters.0.lost_samples") == 0);
  }
}

TEST_CASE("a sampler that fails tells the others at once, and counts its loss until one of them samples",
          "[counters]") {
  World world;
  REQUIRE(world.first.Start().ok());
  REQUIRE(world.second->Start().ok());
  world.Pass(kSecond);
  world.first.Script([](FakePm& fake) { fake.fail_once["cuptiPmSamplingDecodeData"] = 3; });
  REQUIRE(world.first.timer->Pass(500 * kMs));
  CHECK(SharedFile(world.temp.path(), kId).Look().state == SharedState::kEnded);
  world.Pass(20 * kSecond);
  const Trace trace = world.first.AskBack(kSecond);
  CHECK(trace.attributes.count("counters.0.sampled_by") == 1);
  const uint64_t lost = trace.Lost();
  CHECK(lost > 0);
  CHECK(lost <= 2 * 250);
  world.second->collector->Stop();
  world.second->collector.reset();
  REQUIRE(world.first.timer->Pass(5 * kSecond));
  CHECK(world.first.Seen(&FakePm::sampling) == 1);
  CHECK(world.first.AskBack(kSecond).Lost() == lost);
}

TEST_CASE("a GPU that may still be held is not called free in the file of its samples", "[counters]") {
  World world;
  REQUIRE(world.first.Start().ok());
  world.Pass(kSecond);
  world.first.Script([](FakePm& fake) { fake.results["cuptiPmSamplingDisable"] = kUnknown; });
  const SharedFile file(world.temp.path(), kId);
  const int64_t now_ns = world.RealtimeNs();
  REQUIRE(file.AskForRelease({99, 1, 1, "pitot"}, now_ns, now_ns + 60 * kSecond).empty());
  world.Pass(5 * kSecond);
  CHECK(file.Look().state == SharedState::kSampling);
  CHECK_FALSE(IsSampling(file.Look(), world.RealtimeNs()));  // its sign of life is old
  CHECK(Has(world.first.AskBack(kSecond).NotRecorded(), "; this process may still hold the GPU: "));
}

TEST_CASE("an administrator's sampler serves another user, who alone can read its file", "[counters][platform]") {
  if (geteuid() != 0) {
    NOT_RUN("only root can sample for another user");
    return;
  }
  constexpr uint32_t kOther = 12'345;
  const TempDirectory temp;
  REQUIRE(chmod(temp.path().c_str(), 01777) == 0);
  SharedFile file(temp.path(), kId, kOther);
  const int64_t now_ns = 1'000 * kSecond;
  REQUIRE(file.Begin(ThisProcess(), 4'000, now_ns) == "");
  REQUIRE(file.Write({Unmeasured(now_ns - 4 * kMs, now_ns)}, 0, now_ns) == "");
  struct stat of {};
  REQUIRE(stat(file.path().c_str(), &of) == 0);
  CHECK(of.st_uid == kOther);
  CHECK((of.st_mode & 0777) == 0600);
  CHECK_FALSE(SharedFile(temp.path(), kId).Look().is_there);  // root's own processes have another
  CHECK(InChild([&] {
          HOLDS(setuid(kOther) == 0);
          const SharedFile read(temp.path(), kId);
          const SharedView view = read.Look();
          HOLDS(view.is_there && view.written == 1);
          HOLDS(read.AskForRelease(ThisProcess(), now_ns, now_ns + kSecond).empty());
          return 0;
        }) == 0);
  CHECK(IsReleaseAsked(file.Look(), now_ns));
  SharedFile again(temp.path(), kId, kOther);  // a restart, with the other user's file there
  CHECK(again.Begin(ThisProcess(), 4'000, now_ns) == "");
}
