// SPDX-License-Identifier: Apache-2.0
//
// Whichever call of CUPTI hangs, and for however long: the host waits for it once, within its patience.
#include <catch2/catch.hpp>
#include <optional>
#include <string>

#include "base/clock.h"
#include "collect/cupti/rig.h"

namespace {

namespace cupti = pitot::cupti;
using fakes::Attribute;
using fakes::CountNamed;
using fakes::HasLoss;
using pitot::Depth;
using pitot::Status;
using pitot::StatusCode;

constexpr int64_t kPatienceNs = 30'000'000;

// A host with little patience and a CUPTI that may hang.
struct HangingHost : fakes::GpuHost {
  HangingHost() { environment.patience_ns = environment.keep_patience_ns = kPatienceNs; }
  // The thread is in CUPTI, with a buffer to be handed over.
  bool HangIn(const char* function = "cuptiActivityFlushAll") {
    cuda.HangIn(function);
    cuda.Run({.name = "pending", .is_running = true});
    return fakes::WaitUntil([&] { return cuda.is_hanging(); });
  }
  bool StartAt(Depth depth) {
    return GpuHost::StartAt(depth) && fakes::WaitUntil([&] { return IsRecording() == (depth == Depth::kKernels); });
  }
  bool IsRecording() const { return cuda.IsEnabled(cupti::kConcurrentKernel); }
};

bool DoesNotAnswer(const Status& status) {
  return status.code() == StatusCode::kUnavailable &&
         std::string(status.message()).find("CUPTI does not answer") != std::string::npos;
}

}  // namespace

TEST_CASE("Stop returns though a flush of CUPTI's hangs, and CUPTI is handed back once it returns", "[cupti]") {
  std::optional<HangingHost> host(std::in_place);
  REQUIRE(host->StartAt(Depth::kKernels));
  REQUIRE(host->HangIn());

  host->recorder.Stop();

  fakes::FakeCupti& cuda = host->cuda;
  CHECK(cuda.is_hanging());
  CHECK(host->IsRecording());
  REQUIRE(host->Start());
  CHECK(DoesNotAnswer(host->Add()));  // as long as a thread is in CUPTI
  host.reset();
  cuda.HangIn("");  // it then works on memory nobody else has any more
  REQUIRE(fakes::WaitUntil([&] { return !cuda.HasSubscriber(); }));
  CHECK_FALSE(cuda.IsEnabled(cupti::kConcurrentKernel));
  CHECK(cuda.broken_rules() == "");
}

TEST_CASE("another collector may be added once CUPTI has come back to the earlier one's thread", "[cupti]") {
  HangingHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  REQUIRE(host.HangIn());
  host.recorder.Stop();
  REQUIRE(host.Start());
  CHECK(DoesNotAnswer(host.Add()));

  host.cuda.HangIn("");

  REQUIRE(fakes::WaitUntil([&] { return host.Add().ok(); }));
  host.collector->SetDepth(Depth::kKernels);
  REQUIRE(fakes::WaitUntil([&] { return host.IsRecording(); }));
  host.cuda.Run({.name = "after"});
  CHECK(fakes::WaitUntil([&] { return CountNamed(host.Incident(), "after") == 1; }));
}

TEST_CASE("a depth set while CUPTI hangs is in force when it returns", "[cupti]") {
  HangingHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  REQUIRE(host.HangIn());

  host.collector->SetDepth(Depth::kGraphs);
  host.collector->SetDepth(Depth::kScopes);

  CHECK(host.cuda.is_hanging());
  CHECK(host.IsRecording());
  CHECK(host.collector->Depths() == 0);
  host.cuda.HangIn("");
  CHECK(fakes::WaitUntil([&] { return !host.IsRecording(); }));
  host.collector->SetDepth(Depth::kKernels);
  CHECK(fakes::WaitUntil([&] { return host.IsRecording() && host.collector->Depths() == fakes::kDepths; }));
}

TEST_CASE("handing CUPTI over while it hangs is refused, in words, and done when it returns", "[cupti]") {
  HangingHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  REQUIRE(host.HangIn());

  CHECK(DoesNotAnswer(host.recorder.Pause("cupti")));
  CHECK(DoesNotAnswer(host.recorder.Resume("cupti")));
  CHECK(DoesNotAnswer(host.recorder.Pause("cupti")));

  CHECK(host.cuda.HasSubscriber());
  host.cuda.HangIn("");
  CHECK(fakes::WaitUntil([&] { return !host.cuda.HasSubscriber(); }));
  CHECK(fakes::WaitUntil([&] { return host.recorder.Resume("cupti").ok(); }));
  CHECK(host.cuda.HasSubscriber());
}

TEST_CASE("the last of several hand-overs requested while CUPTI hangs holds", "[cupti]") {
  // Before the thread comes to hand it over, and while it does.
  for (const char* function : {"cuptiActivityFlushAll", "cuptiUnsubscribe"}) {
    INFO(function);
    HangingHost host;
    REQUIRE(host.StartAt(Depth::kKernels));
    REQUIRE((function == std::string("cuptiUnsubscribe") || host.HangIn(function)));
    host.cuda.HangIn(function);

    CHECK(DoesNotAnswer(host.recorder.Pause("cupti")));
    REQUIRE(host.cuda.is_hanging());
    CHECK(DoesNotAnswer(host.recorder.Resume("cupti")));

    host.cuda.HangIn("");
    REQUIRE(fakes::WaitUntil([&] { return host.collector->Depths() == fakes::kDepths && host.IsRecording(); }));
    host.cuda.Run({.name = "after"});
    CHECK(fakes::WaitUntil([&] { return CountNamed(host.Incident(), "after") == 1; }));
    CHECK(host.cuda.broken_rules() == "");
  }
}

TEST_CASE("an incident while CUPTI hangs is written and reports it, and the next has the missing records", "[cupti]") {
  HangingHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  REQUIRE(host.HangIn());
  host.collector->SetDepth(Depth::kKernels);  // waits as long as patience lasts

  const pitot::model::Trace trace = host.Incident();

  CHECK(host.cuda.is_hanging());
  CHECK_THAT(Attribute(trace, "cupti.not_recorded"), Catch::StartsWith("CUPTI has not answered for "));
  CHECK(HasLoss(trace, "not decoded in time"));
  CHECK(CountNamed(trace, "pending") == 0);
  host.cuda.HangIn("");
  CHECK(fakes::WaitUntil([&] { return CountNamed(host.Incident(), "pending") == 1; }));
  CHECK(fakes::WaitUntil([&] { return Attribute(host.Incident(), "cupti.not_recorded") == ""; }));
}

TEST_CASE("Add waits a bounded time for a hanging CUPTI, and gives it back when it returns", "[cupti]") {
  for (const char* function : {"cuptiSubscribe", "cuptiActivitySetAttribute", "cuptiActivityRegisterCallbacks"}) {
    INFO(function);
    HangingHost host;
    host.environment.start_patience_ns = 1'000'000'000;
    REQUIRE(host.Start());
    host.cuda.HangIn(function);

    const Status status = host.Add();

    CHECK(DoesNotAnswer(status));
    CHECK(host.cuda.is_hanging());
    host.cuda.HangIn("");
    REQUIRE(fakes::WaitUntil([&] { return host.Add().ok(); }));
  }
}

TEST_CASE("depth is set, incidents are written and Stop returns whichever other call hangs", "[cupti]") {
  for (const char* function : {"cuptiActivityEnable", "cuptiEnableCallback", "cuptiActivityDisable", "cuptiUnsubscribe",
                               "cuptiActivityGetNumDroppedRecords"}) {
    INFO(function);
    const bool is_last = function == std::string("cuptiUnsubscribe");
    HangingHost host;
    REQUIRE(host.StartAt(Depth::kScopes));
    host.cuda.HangIn(function);
    host.collector->SetDepth(Depth::kKernels);
    REQUIRE(fakes::WaitUntil([&] { return host.cuda.is_hanging() || host.IsRecording(); }));
    host.cuda.Run({});
    host.collector->SetDepth(Depth::kScopes);
    CHECK(pitot::model::FindInconsistency(host.Incident()) == "");
    CHECK((is_last || fakes::WaitUntil([&] { return host.cuda.is_hanging(); })));
    host.recorder.Stop();
    CHECK(fakes::WaitUntil([&] { return host.cuda.is_hanging(); }));
    host.cuda.HangIn("");
    REQUIRE(fakes::WaitUntil([&] { return !host.cuda.HasSubscriber(); }));
    CHECK_FALSE(host.IsRecording());
  }
}
