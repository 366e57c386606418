// SPDX-License-Identifier: Apache-2.0
//
// What collectors are told about their depth, and when. The clock stands still unless a test moves it.
#include "session/depths.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "fakes/serializers.h"
#include "session/parts.h"

namespace {

using pitot::BitOf;
using pitot::Depth;
using pitot::Status;
using pitot::StatusCode;
using pitot::session::Depths;
using session_test::kSecond;
using Calls = std::vector<std::string>;

uint64_t now_ns = 0;
uint64_t Clock() noexcept { return now_ns; }

// What a collector was told, in order. Outlives it.
struct Told {
  Calls calls;
  Status start, paused;
  uint32_t depths = BitOf(Depth::kGraphs) | BitOf(Depth::kKernels);
  fakes::Gate gate;  // for SetDepth, if is_gated
  bool is_gated = false;

  Calls Take() { return std::exchange(calls, {}); }
};

struct FakeCollector final : pitot::Collector {
  explicit FakeCollector(Told* to) : told(*to) {}
  const char* Name() const noexcept override { return "fake"; }
  void ExpectDepth(Depth depth) noexcept override { Note("expect ", depth); }
  void Arm(bool is_armed) noexcept override { told.calls.push_back(is_armed ? "arm" : "disarm"); }
  Status Start() noexcept override {
    told.calls.push_back("start");
    return told.start;
  }
  void Stop() noexcept override { told.calls.push_back("stop"); }
  uint32_t Depths() const noexcept override { return told.depths; }
  uint64_t HeldBytes() const noexcept override { return 7; }
  void SetDepth(Depth depth) noexcept override {
    if (told.is_gated) told.gate.Pass();
    Note("depth ", depth);
  }
  Status Pause() noexcept override {
    told.calls.push_back("pause");
    return told.paused;
  }
  void Keep(int64_t, pitot::KeepFor) noexcept override {}
  void AddTo(pitot::TraceBuilder&) override {}
  void Note(const char* what, Depth depth) {
    told.calls.push_back(what + std::string(depth == Depth::kAuto ? "auto" : pitot::base::DepthName(depth)));
  }
  Told& told;
};

struct Rig {
  explicit Rig(Depth depth = Depth::kAuto) {
    now_ns = static_cast<uint64_t>(1000 * kSecond);
    parts.options.values.depth = depth;
    depths = std::make_unique<Depths>(
        &parts.options.values, true, &parts.lifetime, &parts.host, &wake_watcher, [this] { StartTeller(); }, Clock);
  }
  void StartTeller() {
    ++tellers;
    if (!has_threads) throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  }
  Status Add(Told* told) { return depths->Add(std::make_unique<FakeCollector>(told)); }

  session_test::Parts parts;
  pitot::base::Semaphore wake_watcher;
  int tellers = 0;
  bool has_threads = true;
  std::unique_ptr<Depths> depths;
};

const auto kPast = std::chrono::steady_clock::time_point{};

}  // namespace

TEST_CASE("a collector is told the depth that the host has fixed, and each new one", "[depths]") {
  Rig rig(Depth::kKernels);
  Told told;
  REQUIRE(rig.Add(&told).ok());
  CHECK(told.Take() == Calls{"expect kernels", "start", "arm", "depth kernels"});
  CHECK(rig.depths->fixed() == Depth::kKernels);
  CHECK_FALSE(rig.depths->IsGoverned());

  REQUIRE(rig.depths->Set(Depth::kOps).ok());
  CHECK(told.Take() == Calls{"expect ops", "depth ops"});
  REQUIRE(rig.depths->Set(Depth::kOps).ok());
  CHECK(told.Take().empty());
  CHECK(rig.depths->Set(static_cast<Depth>(77)).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("a governed collector records everything while armed, and scopes before and after", "[depths]") {
  Rig rig;
  CHECK_FALSE(rig.depths->IsGoverned());  // there is nothing to govern
  Told told;
  REQUIRE(rig.Add(&told).ok());
  CHECK(told.Take() == Calls{"expect auto", "start", "depth scopes"});
  REQUIRE(rig.depths->IsGoverned());
  rig.depths->Govern();
  rig.depths->TellAll();
  CHECK(told.Take().empty());

  rig.depths->ArmFor(2 * kSecond);
  rig.depths->TellAll();
  CHECK(told.Take() == Calls{"arm", "depth kernels"});
  now_ns += static_cast<uint64_t>(kSecond);
  rig.depths->Govern();
  rig.depths->TellAll();
  CHECK(told.Take().empty());

  now_ns += static_cast<uint64_t>(kSecond);
  rig.depths->Govern();
  rig.depths->TellAll();
  CHECK(told.Take() == Calls{"disarm", "depth scopes"});
}

TEST_CASE("a collector is told only depths that it offers", "[depths]") {
  Rig rig;
  Told graphs, kernels;
  graphs.depths = BitOf(Depth::kGraphs);
  REQUIRE(rig.Add(&graphs).ok());
  REQUIRE(rig.Add(&kernels).ok());
  rig.depths->Govern();
  graphs.Take(), kernels.Take();

  rig.depths->ArmFor(kSecond);
  rig.depths->TellAll();
  CHECK(graphs.Take() == Calls{"arm", "depth graphs"});
  CHECK(kernels.Take() == Calls{"arm", "depth kernels"});
}

TEST_CASE("an incident has the depths of its window, with their reasons", "[depths]") {
  Rig rig;
  Told told;
  pitot::session::Incident incident;
  rig.depths->Keep(&incident);
  CHECK(incident.overhead == nullptr);  // nothing governs
  REQUIRE(rig.Add(&told).ok());
  rig.depths->Govern();
  now_ns += static_cast<uint64_t>(kSecond);
  rig.depths->ArmFor(kSecond);

  rig.depths->Keep(&incident);
  REQUIRE(incident.overhead != nullptr);
  CHECK(incident.overhead->depth == Depth::kKernels);
  REQUIRE(!incident.depths.empty());
  CHECK(incident.depths.back().why == std::string("armed: kernels"));
}

TEST_CASE("nothing is told or asked after the recorder's end", "[depths]") {
  Rig rig;
  Told told;
  REQUIRE(rig.Add(&told).ok());
  told.Take();
  rig.parts.lifetime.End();

  CHECK(rig.depths->Set(Depth::kOps).ok());
  CHECK(rig.depths->Ask("fake", &pitot::Collector::Pause).code() == StatusCode::kNotRunning);
  CHECK(told.Take().empty());
}

TEST_CASE("all collectors of a name are asked to pause, and the first error is returned and logged", "[depths]") {
  Rig rig;
  Told first, second;
  first.paused = Status(StatusCode::kInternal, "first");
  second.paused = Status(StatusCode::kInternal, "second");
  REQUIRE(rig.Add(&first).ok());
  REQUIRE(rig.Add(&second).ok());
  first.Take(), second.Take();

  CHECK(rig.depths->Ask("fake", &pitot::Collector::Pause).message() == std::string("first"));
  CHECK(first.Take() == Calls{"pause"});
  CHECK(second.Take() == Calls{"pause"});
  CHECK(rig.parts.log.Has(pitot::LogLevel::kError, "first"));
}

TEST_CASE("a collector for something that the machine lacks is refused without an error in the log", "[depths]") {
  Rig rig;
  Told told;
  told.start = Status(StatusCode::kNotFound, "no GPU here");
  CHECK(rig.Add(&told).code() == StatusCode::kNotFound);
  CHECK(rig.parts.log.Has(pitot::LogLevel::kInfo, "no GPU here"));
  CHECK_FALSE(rig.parts.log.Has(pitot::LogLevel::kError, "no GPU here"));
}

TEST_CASE("a collector that cannot start is refused with its reason, until one of its name starts", "[depths]") {
  Rig rig;
  Told told;
  told.start = Status(StatusCode::kUnavailable, "no device");
  CHECK(rig.Add(&told).code() == StatusCode::kUnavailable);
  CHECK(rig.depths->Refused() == std::map<std::string, std::string>{{"fake", "no device"}});
  CHECK(rig.parts.log.Has(pitot::LogLevel::kError, "no device"));
  CHECK(rig.depths->Collectors().empty());

  told.start = {};
  REQUIRE(rig.Add(&told).ok());
  CHECK(rig.depths->Refused().empty());
  CHECK(rig.depths->Collectors().size() == 1);
  CHECK(rig.depths->HeldBytes() == 7);
}

TEST_CASE("a collector is stopped again if there is no thread to tell it, or the recorder stops", "[depths]") {
  Rig rig;
  Told told;
  rig.has_threads = false;
  CHECK(rig.Add(&told).code() == StatusCode::kResourceExhausted);
  CHECK(told.Take() == Calls{"expect auto", "start", "stop"});

  rig.has_threads = true;
  rig.depths->BeginStop();
  CHECK(rig.Add(&told).code() == StatusCode::kResourceExhausted);
  CHECK(told.Take() == Calls{"expect auto", "start", "stop"});
  CHECK(rig.tellers == 1);
}

TEST_CASE("the teller is one thread for all collectors, and ends with the recorder", "[depths]") {
  Rig rig;
  CHECK(rig.depths->AwaitTeller(kPast));  // there is none
  Told first, second;
  REQUIRE(rig.Add(&first).ok());
  REQUIRE(rig.Add(&second).ok());
  CHECK(rig.tellers == 1);
  CHECK_FALSE(rig.depths->AwaitTeller(kPast));

  std::thread teller([&] { rig.depths->Tell(); });
  rig.depths->BeginStop();
  CHECK(rig.depths->AwaitTeller(std::chrono::steady_clock::now() + std::chrono::minutes(1)));
  teller.join();
}

TEST_CASE("the teller tells the depth that the governor has chosen", "[depths]") {
  Rig rig;
  Told told;
  REQUIRE(rig.Add(&told).ok());
  rig.depths->Govern();
  told.is_gated = true;
  std::thread teller([&] { rig.depths->Tell(); });
  rig.depths->ArmFor(kSecond);
  CHECK(told.gate.WaitUntilReached());

  CHECK_FALSE(rig.depths->StopCollectors(1));  // the call has not returned
  told.gate.open = true;
  rig.depths->BeginStop();
  teller.join();
  CHECK(rig.depths->StopCollectors(kSecond));
  CHECK(told.Take().back() == "stop");
}

TEST_CASE("a late request that joins a batch wakes the watcher once", "[depths]") {
  Rig rig;
  rig.depths->NoteLateMember();
  CHECK_FALSE(rig.wake_watcher.AwaitUntil(0));  // nothing governs
  Told told;
  REQUIRE(rig.Add(&told).ok());
  rig.wake_watcher.TakeAll();

  rig.depths->NoteLateMember();
  rig.depths->NoteLateMember();
  CHECK(rig.wake_watcher.AwaitUntil(0));
  CHECK_FALSE(rig.wake_watcher.AwaitUntil(0));
}
