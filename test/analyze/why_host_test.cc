// SPDX-License-Identifier: Apache-2.0
//
// Code that did not run, by counters of the threads, and how the walk divides it. All times in us.
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyze/blame/index_data.h"
#include "analyze/blame_of.h"
#include "analyze/verdict/place.h"
#include "analyze/verdict/proof.h"
#include "base/host_counters.h"
#include "pitot/analyze/verdict.h"
#include "pitot/analyze/why.h"
#include "pitot/wait.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

using analyze::Blame;
using analyze::BlameSegment;
using analyze::RequestBlame;
using model::kNone;
using model::Trace;

namespace {

constexpr int64_t kUs = 1'000;
constexpr int64_t kTid = 41;

// A request from 1,000 to 21,000 on a thread with number 41 in the operating system.
struct Server {
  Server() {
    maker.trace.window_end_ns = 100'000 * kUs;
    http = maker.Thread("http-1");
    maker.trace.threads[http].tid = kTid;
    decode = maker.Site(SiteKind::kScope, "decode");
    wait = maker.WaitSite();
    request = maker.Request(1, "/classify", 1'000 * kUs, 20'000 * kUs);
    maker.trace.requests[request].begin_thread = maker.trace.requests[request].end_thread = http;
  }
  void Scope(int64_t begin_us, int64_t end_us, uint32_t site) {
    maker.Event(http, site, begin_us * kUs, (end_us - begin_us) * kUs, {request, kNone});
  }
  void Wait(WaitKind kind, int64_t begin_us, int64_t end_us) {
    maker.Event(http, wait, begin_us * kUs, (end_us - begin_us) * kUs, {request, kNone},
                {static_cast<uint64_t>(kind), maker.String("disk"), 0, 0});
  }
  void Sample(const base::CounterName& what, int64_t at_us, int64_t value) {
    samples[base::ThreadCounter(kTid, what)].emplace_back(at_us * kUs, value);
  }
  // The thread's own reading: `cpu_us`, and the counts since its beginning.
  void Edge(int64_t at_us, int64_t cpu_us, int64_t voluntary, int64_t involuntary, int64_t major_faults = 0) {
    Sample(base::kOnCpu, at_us, cpu_us * kUs);
    Sample(base::kVoluntary, at_us, voluntary);
    Sample(base::kInvoluntary, at_us, involuntary);
    Sample(base::kMajorFaults, at_us, major_faults);
  }
  // A reading from outside.
  void Look(int64_t at_us, int64_t cpu_us, int64_t delay_us) {
    Sample(base::kOnCpu, at_us, cpu_us * kUs);
    Sample(base::kRunQueueDelay, at_us, delay_us * kUs);
  }
  RequestBlame Walk() {
    trace = maker.Finish();
    for (const auto& [name, values] : samples) {
      const auto counter = static_cast<uint32_t>(trace.counters.size());
      trace.counters.push_back({kNone, trace.strings.Add(name), trace.strings.Add("ns")});
      for (const auto& [at_ns, value] : values) {
        trace.samples.counter.push_back(counter);
        trace.samples.at_ns.push_back(at_ns);
        trace.samples.value.push_back(static_cast<double>(value));
      }
    }
    REQUIRE(FindInconsistency(trace) == "");
    REQUIRE(analyze::BlameIndex::Make(trace, {}, &index).ok());
    RequestBlame blame;
    REQUIRE(FindBlame(index, request, &blame).ok());
    CHECK(blame.blame.Total() == 20'000 * kUs);
    for (const BlameSegment& segment : blame.segments)
      proofs.push_back(segment.counter == kNone ? ""
                                                : std::string(trace.strings[trace.counters[segment.counter].name]));
    return blame;
  }

  TraceMaker maker;
  Trace trace;  // from Walk on
  analyze::BlameIndex index;
  std::map<std::string, std::vector<std::pair<int64_t, int64_t>>> samples;
  std::vector<std::string> proofs;  // of each segment: its counter
  uint32_t http, decode, wait, request;
};

}  // namespace

TEST_CASE("code that was on a CPU all the time is left as it is", "[why]") {
  Server server;
  server.Scope(1'000, 21'000, server.decode);
  server.Edge(1'000, 0, 0, 0);
  server.Edge(21'000, 19'990, 0, 3);

  CHECK(SegmentsText(server.Walk()) == "host_oncpu_pre 20000");
}

TEST_CASE("a thread that never slept and was taken off its CPU waited for one", "[why]") {
  Server server;
  server.Scope(1'000, 21'000, server.decode);
  server.Edge(1'000, 100, 5, 7);
  server.Edge(21'000, 12'100, 5, 9);

  CHECK(SegmentsText(server.Walk()) == "host_oncpu_pre 12000; host_runqueue 8000");
  CHECK(server.proofs == std::vector<std::string>{"", "thread 41: involuntary switches"});
}

TEST_CASE("code that slept is blocked, by major faults if there were some", "[why]") {
  const auto walk = [](int64_t faults) {
    Server server;
    server.Scope(1'000, 21'000, server.decode);
    server.Edge(1'000, 0, 0, 0, 1);
    server.Edge(21'000, 5'000, 4, 0, 1 + faults);
    const std::string text = SegmentsText(server.Walk());
    return text + " by " + server.proofs.back();
  };
  CHECK(walk(0) == "host_oncpu_pre 5000; host_blocked_unknown 15000 by thread 41: on-CPU time");
  CHECK(walk(2) == "host_oncpu_pre 5000; host_pagefault_io 15000 by thread 41: major faults");
}

TEST_CASE("few major faults explain as much sleep as reads of a disk take, or as the I/O pressure grew", "[why]") {
  const auto walk = [](int64_t faults, int64_t pressure_us) {
    Server server;
    server.Scope(1'000, 21'000, server.decode);
    server.Edge(1'000, 0, 0, 0, 0);
    server.Look(11'000, 1'000, 0);  // in two stretches: the faults are those of both
    server.Edge(21'000, 2'000, 4, 0, faults);
    if (pressure_us >= 0) {
      for (const auto& [at_us, value_us] :
           {std::pair<int64_t, int64_t>{500, 70}, {12'000, 80}, {90'000, 70 + pressure_us}})
        server.samples[base::HostCounter(base::kIoPressure)].emplace_back(at_us * kUs, value_us * kUs);
    }
    const RequestBlame blame = server.Walk();
    return std::to_string(blame.blame[Blame::kHostPagefaultIo] / kUs) + " of " +
           std::to_string((blame.blame[Blame::kHostPagefaultIo] + blame.blame[Blame::kHostBlockedUnknown]) / kUs);
  };
  CHECK(walk(1, -1) == "13000 of 18000");
  CHECK(walk(1, 10) == "13000 of 18000");  // a waiting thread is a small part of the pressure if others run
  CHECK(walk(1, 16'000) == "16000 of 18000");
  CHECK(walk(1, 90'000) == "18000 of 18000");
  CHECK(walk(2, -1) == "18000 of 18000");
}

TEST_CASE("the length of faults is proved by their number, or by the I/O pressure", "[why]") {
  const auto is_proved = [](int64_t faults, int64_t pressure_us) {
    Server server;
    server.Scope(1'000, 21'000, server.decode);
    server.Edge(1'000, 0, 0, 0, 0);
    server.Edge(21'000, 10'000, 4, 0, faults);
    for (const auto& [at_us, value_us] : {std::pair<int64_t, int64_t>{500, 70}, {90'000, 70 + pressure_us}})
      server.samples[base::HostCounter(base::kIoPressure)].emplace_back(at_us * kUs, value_us * kUs);
    REQUIRE(server.Walk().blame[Blame::kHostPagefaultIo] == 10'000 * kUs);
    return server.index.data()->index.host.AreFaultsProved(server.http, 1'000 * kUs, 21'000 * kUs);
  };
  CHECK(!is_proved(1, 0));
  CHECK(!is_proved(9, 4'900));
  CHECK(is_proved(10, 0));
  CHECK(is_proved(1, 5'000));
}

TEST_CASE("code that slept is run queue as far as its thread waited for a CPU meanwhile", "[why]") {
  Server server;
  server.Scope(1'000, 21'000, server.decode);
  server.Look(1'000, 0, 50);
  server.Edge(1'000, 0, 0, 0, 0);
  server.Edge(21'000, 5'000, 4, 2, 3);
  server.Look(21'000, 5'000, 6'050);

  CHECK(SegmentsText(server.Walk()) == "host_oncpu_pre 5000; host_runqueue 6000; host_pagefault_io 9000");
  CHECK(server.proofs[1] == "thread 41: run-queue delay");
}

TEST_CASE("run-queue delay tells waiting for a CPU from sleeping with readings from outside alone", "[why]") {
  Server server;
  server.Scope(1'000, 21'000, server.decode);
  server.Look(1'000, 0, 0);
  server.Look(11'000, 10'000, 0);
  server.Look(21'000, 12'000, 5'000);

  CHECK(SegmentsText(server.Walk()) == "host_oncpu_pre 12000; host_runqueue 5000; host_blocked_unknown 3000");
}

TEST_CASE("a delay counted at its end belongs to its own time", "[why]") {
  Server server;
  server.Scope(1'000, 21'000, server.decode);
  server.Look(1'000, 0, 0);
  server.Look(11'000, 2'000, 0);
  server.Look(21'000, 10'000, 10'000);

  CHECK(SegmentsText(server.Walk()) == "host_oncpu_pre 10000; host_runqueue 10000");
}

TEST_CASE("time in waits and outside of scopes is not taken for code that did not run", "[why]") {
  Server server;
  server.Scope(1'000, 5'000, server.decode);
  server.Wait(WaitKind::kIo, 5'000, 15'000);
  server.Scope(18'000, 21'000, server.decode);
  server.Edge(1'000, 0, 0, 0);
  server.Edge(21'000, 7'000, 2, 0);

  CHECK(SegmentsText(server.Walk()) ==
        "host_oncpu_pre 4000; host_pagefault_io 10000; untraced_or_unexplained 3000; "
        "host_oncpu_pre 3000");
}

TEST_CASE("missing CPU time is divided among code by its length", "[why]") {
  Server server;
  server.Scope(1'000, 5'000, server.decode);
  server.Wait(WaitKind::kIo, 5'000, 15'000);
  server.Scope(15'000, 21'000, server.decode);
  server.Edge(1'000, 0, 0, 0);
  server.Edge(21'000, 5'000, 1, 4);  // it slept once: in its wait

  CHECK(SegmentsText(server.Walk()) ==
        "host_oncpu_pre 2000; host_runqueue 2000; host_pagefault_io 10000; host_oncpu_pre 3000; host_runqueue 3000");
}

TEST_CASE("a thread that never slept waited for a CPU in proportion, also in calls that spin", "[why]") {
  Server server;
  server.Scope(1'000, 11'000, server.decode);
  server.Wait(WaitKind::kDevice, 11'000, 21'000);  // spins
  server.Edge(1'000, 0, 0, 0);
  server.Edge(21'000, 16'000, 0, 4);

  CHECK(SegmentsText(server.Walk()) == "host_oncpu_pre 8000; host_runqueue 2000; host_blocked_unknown 10000");
}

TEST_CASE("parts of a nanosecond stay with the code", "[why]") {
  Server server;
  server.Scope(1'000, 8'000, server.decode);
  server.Wait(WaitKind::kIo, 8'000, 9'000);
  server.Scope(9'000, 21'000, server.decode);
  server.Sample(base::kOnCpu, 1'000, 0);
  server.Sample(base::kOnCpu, 21'000, 12'345'678);

  const RequestBlame blame = server.Walk();

  const int64_t off_ns = 19'000'000 - 12'345'678;
  CHECK(blame.blame[Blame::kHostBlockedUnknown] <= off_ns);
  CHECK(blame.blame[Blame::kHostBlockedUnknown] >= off_ns - 2);
}

TEST_CASE("a thread that woke up late waited for a CPU as far as its run-queue delay says", "[why]") {
  const auto walk = [](int64_t granted_us, int64_t delay_us) {
    Server server;
    const uint32_t release =
        server.maker.Site(SiteKind::kInstant, "release", {{"kind", ArgType::kUint}, {"resource", ArgType::kName}});
    const uint32_t other = server.maker.Thread("http-2");
    server.maker.Event(other, release, granted_us * kUs, 0, {},
                       {static_cast<uint64_t>(WaitKind::kLock), server.maker.String("disk")});
    server.Wait(WaitKind::kLock, 1'000, 11'000);
    server.Scope(11'000, 21'000, server.decode);
    server.Look(1'000, 0, 0);
    server.Look(21'000, 10'000, delay_us);
    return SegmentsText(server.Walk());
  };
  CHECK(walk(8'000, 0) == "host_lock 7000; handoff 3000; host_oncpu_pre 10000");
  CHECK(walk(8'000, 2'500) == "host_lock 7000; handoff 500; host_runqueue 2500; host_oncpu_pre 10000");
  CHECK(walk(8'000, 9'000) == "host_lock 7000; host_runqueue 3000; host_oncpu_pre 10000");
  CHECK(walk(10'900, 9'000) == "host_lock 9900; handoff 100; host_oncpu_pre 10000");
}

TEST_CASE("a launch whose thread was taken off its CPU waited for one", "[why]") {
  Server server;
  server.Scope(1'000, 21'000, server.decode);
  server.maker.Call(server.http, "cudaLaunchKernel", 6'000 * kUs, 10'000 * kUs, {server.request, kNone});
  server.Edge(1'000, 0, 0, 0);
  server.Edge(6'000, 5'000, 0, 0);
  server.Edge(16'000, 7'000, 0, 3);
  server.Edge(21'000, 12'000, 0, 3);

  CHECK(SegmentsText(server.Walk()) ==
        "host_oncpu_pre 5000; launch_api 2000; host_runqueue 8000; host_oncpu_post 5000");
  CHECK(server.proofs[2] == "thread 41: involuntary switches");
}

TEST_CASE("a launch whose thread slept was still in the driver", "[why]") {
  Server server;
  server.Scope(1'000, 21'000, server.decode);
  server.maker.Call(server.http, "cudaLaunchKernel", 6'000 * kUs, 10'000 * kUs, {server.request, kNone});
  server.Edge(1'000, 0, 0, 0);
  server.Edge(6'000, 5'000, 0, 0);
  server.Edge(16'000, 7'000, 4, 0);
  server.Edge(21'000, 12'000, 4, 0);

  CHECK(SegmentsText(server.Walk()) == "host_oncpu_pre 5000; launch_api 10000; host_oncpu_post 5000");
}

TEST_CASE("a thread that came back late from the GPU waited for a CPU as far as its run-queue delay says", "[why]") {
  const auto walk = [](int64_t done_us, int64_t delay_us) {
    Server server;
    server.maker.trace.devices.push_back({});
    server.maker.trace.streams.push_back({0, 1, 7, 0, 0, 0});
    server.Scope(1'000, 21'000, server.decode);
    server.maker.Call(server.http, "cudaLaunchKernel", 2'000 * kUs, 1'000 * kUs, {server.request, kNone});
    server.maker.Gpu(0, model::GpuKind::kKernel, "gemm", 3'000 * kUs, (done_us - 3'000) * kUs, 0);
    server.maker.Call(server.http, "cudaStreamSynchronize", 3'000 * kUs, 17'000 * kUs, {server.request, kNone}, 0);
    server.Look(1'000, 0, 0);
    server.Look(21'000, 3'000, delay_us);
    return SegmentsText(server.Walk());
  };
  const std::string before = "host_oncpu_pre 1000; launch_api 1000; ";
  CHECK(walk(10'000, 0) == before + "gpu_exec_expected 7000; host_blocked_unknown 10000; host_oncpu_post 1000");
  CHECK(walk(10'000, 30'000) == before + "gpu_exec_expected 7000; host_runqueue 10000; host_oncpu_post 1000");
  CHECK(walk(10'000, 4'000) ==
        before + "gpu_exec_expected 7000; host_blocked_unknown 6000; host_runqueue 4000; host_oncpu_post 1000");
  CHECK(walk(19'990, 4'000) == before + "gpu_exec_expected 16990; sync_return 10; host_oncpu_post 1000");
}

TEST_CASE("a run-queue delay is counted for one late wake-up, not for each", "[why]") {
  Server server;
  const uint32_t release =
      server.maker.Site(SiteKind::kInstant, "release", {{"kind", ArgType::kUint}, {"resource", ArgType::kName}});
  const uint32_t other = server.maker.Thread("http-2");
  for (const int64_t granted_us : {3'000, 10'000}) {
    server.maker.Event(other, release, granted_us * kUs, 0, {},
                       {static_cast<uint64_t>(WaitKind::kLock), server.maker.String("disk")});
  }
  server.Wait(WaitKind::kLock, 1'000, 6'000);
  server.Wait(WaitKind::kLock, 6'000, 13'000);
  server.Scope(13'000, 21'000, server.decode);
  server.Look(1'000, 0, 0);
  server.Look(21'000, 8'000, 4'000);

  CHECK(server.Walk().blame[Blame::kHostRunqueue] == 4'000 * kUs);
}

TEST_CASE("a recorded wait is run queue as far as its thread waited for a CPU in it", "[why]") {
  for (const WaitKind kind : {WaitKind::kIo, WaitKind::kSleep, WaitKind::kOther, WaitKind::kDevice}) {
    const auto walk = [&](int64_t delay_us) {
      Server server;
      server.Wait(kind, 1'000, 5'000);
      server.Wait(kind, 5'000, 11'000);
      server.Scope(11'000, 21'000, server.decode);
      server.Look(1'000, 0, 0);
      server.Look(11'000, 0, delay_us);
      return SegmentsText(server.Walk());
    };
    const std::string wait = kind == WaitKind::kIo ? "host_pagefault_io" : "host_blocked_unknown";
    CHECK(walk(0) == wait + " 4000; " + wait + " 6000; host_oncpu_pre 10000");
    // It may all have been in the other wait: at most 4 of the 10 ms are elsewhere.
    CHECK(walk(2'500) == wait + " 4000; " + wait + " 6000; host_oncpu_pre 10000");
    // At least 3 of the 6 ms and 1 of the 4 ms; then nearly all of both.
    CHECK(walk(7'000) ==
          wait + " 3000; host_runqueue 1000; " + wait + " 3000; host_runqueue 3000; host_oncpu_pre 10000");
    CHECK(walk(9'500) == wait + " 500; host_runqueue 3500; " + wait + " 500; host_runqueue 5500; host_oncpu_pre 10000");
  }
}

TEST_CASE("a recorded wait is no run queue as far as the delay may have begun before the bracket that counts it",
          "[why]") {
  const auto walk = [](int64_t cpu_before_us, int64_t delay_before_us) {
    Server server;
    server.Scope(1'000, 6'000, server.decode);
    server.Wait(WaitKind::kIo, 6'000, 11'000);
    server.Scope(11'000, 21'000, server.decode);
    server.Look(1'000, 0, 0);
    server.Look(6'000, cpu_before_us, delay_before_us);
    server.Look(11'000, cpu_before_us, delay_before_us + 5'000);
    server.Look(21'000, cpu_before_us + 10'000, delay_before_us + 5'000);
    return server.Walk().blame[Blame::kHostRunqueue];
  };
  CHECK(walk(5'000, 0) == 5'000 * kUs);
  CHECK(walk(2'000, 0) == 2'000 * kUs);
  CHECK(walk(2'000, 3'000) == (3'000 + 5'000) * kUs);  // that time has its own delay
}

TEST_CASE("a delay longer than the thread was off its CPU began before its readings", "[why]") {
  Server server;
  server.Wait(WaitKind::kIo, 1'000, 5'000);
  server.Scope(5'000, 21'000, server.decode);
  server.Look(1'000, 0, 0);
  server.Look(21'000, 18'000, 30'000);

  CHECK(server.Walk().blame[Blame::kHostRunqueue] == 2'000 * kUs);
}

TEST_CASE("a batch's last wait for members that ended late waited for a CPU as far as its thread did", "[why]") {
  const auto walk = [](int64_t delay_us, int64_t last_us = 6'000) {
    Server server;
    const uint32_t batch = server.maker.Batch(11, "resnet50", server.http, 1'000 * kUs, 20'000 * kUs);
    server.maker.Member(batch, server.request, 1'000 * kUs);
    server.Wait(WaitKind::kQueue, 1'000, 11'000 - last_us);
    server.Wait(WaitKind::kQueue, 11'000 - last_us, 11'000);
    server.Scope(11'000, 21'000, server.decode);
    server.Look(1'000, 0, 0);
    server.Look(21'000, 10'000, delay_us);
    return SegmentsText(server.Walk());
  };
  CHECK(walk(0) == "batch_window 4000; batch_window 6000; host_oncpu_framework 10000");
  CHECK(walk(2'500) == "batch_window 4000; batch_window 3500; host_runqueue 2500; host_oncpu_framework 10000");
  CHECK(walk(5'800) == "batch_window 4000; batch_window 200; host_runqueue 5800; host_oncpu_framework 10000");
  // It waited no more after it had woken up late: its time was up.
  CHECK(walk(2'500, 100) == "batch_window 7500; host_runqueue 2400; host_runqueue 100; host_oncpu_framework 10000");
  CHECK(walk(2'500, 2'701) == "batch_window 7299; batch_window 201; host_runqueue 2500; host_oncpu_framework 10000");
}

TEST_CASE("untraced time in which a thread got no CPU and never slept is run queue", "[why]") {
  const auto walk = [](int64_t voluntary, int64_t involuntary) {
    Server server;
    server.Scope(1'000, 6'000, server.decode);
    server.Scope(16'000, 21'000, server.decode);
    server.Edge(1'000, 0, 0, 0);
    server.Edge(6'000, 5'000, 0, 0);
    server.Edge(16'000, 6'000, voluntary, involuntary);
    server.Edge(21'000, 11'000, voluntary, involuntary);
    return SegmentsText(server.Walk());
  };
  CHECK(walk(0, 2) == "host_oncpu_pre 5000; untraced_or_unexplained 1000; host_runqueue 9000; host_oncpu_pre 5000");
  CHECK(walk(1, 2) == "host_oncpu_pre 5000; untraced_or_unexplained 10000; host_oncpu_pre 5000");
  CHECK(walk(0, 0) ==  // its CPU was stolen
        "host_oncpu_pre 5000; untraced_or_unexplained 1000; host_runqueue 9000; host_oncpu_pre 5000");
}

TEST_CASE("untraced time with sleep is run queue by its run-queue delay if the thread lost its CPU", "[why]") {
  const auto walk = [](int64_t involuntary, int64_t delay_us) {
    Server server;
    server.Scope(1'000, 6'000, server.decode);
    server.Scope(16'000, 21'000, server.decode);
    server.Edge(1'000, 0, 0, 0);
    server.Look(1'000, 0, 0);
    server.Edge(21'000, 11'000, 2, involuntary);
    server.Look(21'000, 11'000, delay_us);
    return SegmentsText(server.Walk());
  };
  CHECK(walk(1, 4'000) == "host_oncpu_pre 5000; untraced_or_unexplained 6000; host_runqueue 4000; host_oncpu_pre 5000");
  CHECK(walk(0, 4'000) == "host_oncpu_pre 5000; untraced_or_unexplained 10000; host_oncpu_pre 5000");
  CHECK(walk(1, 90'000) ==
        "host_oncpu_pre 5000; untraced_or_unexplained 1000; host_runqueue 9000; host_oncpu_pre 5000");
}

TEST_CASE("code is code if its thread has no counters", "[why]") {
  Server server;
  server.Scope(1'000, 21'000, server.decode);
  server.maker.trace.threads[server.http].tid = kTid + 1;
  server.Edge(1'000, 0, 0, 0);
  server.Edge(21'000, 1'000, 0, 9);

  CHECK(SegmentsText(server.Walk()) == "host_oncpu_pre 20000");
}

TEST_CASE("an open request's time since its last sign is code only as far as counters say so", "[why]") {
  const auto walk = [](auto furnish) {
    Server server;
    server.maker.trace.window_end_ns = 21'000 * kUs;
    server.maker.trace.requests[server.request].duration_ns = model::kOpen;
    server.maker.trace.requests[server.request].end_known = false;
    server.maker.trace.requests[server.request].end_thread = kNone;
    server.maker.Event(server.http, server.decode, 1'000 * kUs, model::kOpen, {server.request, kNone});
    furnish(&server);
    return SegmentsText(server.Walk());
  };
  CHECK(walk([](Server*) {}) == "untraced_or_unexplained 20000");
  CHECK(walk([](Server* server) { server->Edge(1'000, 0, 0, 0); }) == "untraced_or_unexplained 20000");
  CHECK(walk([](Server* server) {
          server->Edge(1'000, 0, 0, 0);
          server->Look(11'000, 4'000, 0);
        }) == "host_oncpu_pre 4000; host_blocked_unknown 6000; untraced_or_unexplained 10000");
  CHECK(walk([](Server* server) {
          server->Edge(1'000, 0, 0, 0);
          server->Edge(21'100, 4'000, 1, 0);
        }) == "host_oncpu_pre 4000; host_blocked_unknown 16000");
  CHECK(walk([](Server* server) {
          server->Edge(1'000, 0, 0, 0);
          server->Edge(21'000, 4'000, 0, 2);
        }) == "host_oncpu_pre 4000; host_runqueue 16000");
  CHECK(walk([](Server* server) {
          server->Edge(1'000, 0, 0, 0);
          server->Edge(21'100, 20'100, 0, 0);
        }) == "host_oncpu_pre 20000");
  // Earlier code is the same as ever.
  CHECK(walk([](Server* server) { server->Scope(2'000, 5'000, server->decode); }) ==
        "host_oncpu_pre 1000; host_oncpu_pre 3000; untraced_or_unexplained 16000");
}

TEST_CASE("counters of a number shared by two threads belong to neither", "[why]") {
  Server server;
  server.Scope(1'000, 21'000, server.decode);
  server.maker.trace.threads[server.maker.Thread("later")].tid = kTid;
  server.Edge(1'000, 0, 0, 0);
  server.Edge(21'000, 1'000, 0, 9);

  CHECK(SegmentsText(server.Walk()) == "host_oncpu_pre 20000");
}

TEST_CASE("counters that contradict the clock divide nothing beyond the code", "[why]") {
  Server server;
  server.Scope(1'000, 21'000, server.decode);
  server.Look(1'000, 900, 0);
  server.Look(6'000, 100, 90'000'000);
  server.Look(11'000, 50'000, 10);
  server.Edge(16'000, 0, 9, 0);
  server.Edge(21'000, 0, 0, -5);

  const RequestBlame blame = server.Walk();

  for (const int64_t ns : blame.blame.ns) CHECK(ns >= 0);
}

TEST_CASE("CPU time read later than it says makes neither side look asleep", "[why]") {
  const auto walk = [](int64_t at_us, int64_t cpu_us) {
    Server server;
    server.Scope(1'000, 21'000, server.decode);
    server.Edge(1'000, 0, 0, 0);
    server.Look(at_us, cpu_us, 0);
    server.Edge(16'000, 15'000, 3, 0);
    server.Edge(21'000, 20'000, 3, 0);
    return SegmentsText(server.Walk());
  };
  CHECK(walk(6'000, 5'000) == "host_oncpu_pre 20000");
  CHECK(walk(6'000, 5'150) == "host_oncpu_pre 20000");   // the time a look takes
  CHECK(walk(6'000, 12'000) == "host_oncpu_pre 20000");  // more than the time since then
  CHECK(walk(15'800, 19'000) == "host_oncpu_pre 20000");
}

TEST_CASE("late readings divide nothing, unless they are late by only the time a look takes", "[why]") {
  const auto walk = [](int64_t cpu_us) {
    Server server;
    server.Scope(1'000, 6'000, server.decode);
    server.Scope(6'000, 21'000, server.maker.Site(SiteKind::kScope, "resize"));
    server.Look(1'000, 0, 0);
    server.Look(6'000, cpu_us, 0);
    server.Look(21'000, 16'000, 0);
    return SegmentsText(server.Walk());
  };
  CHECK(walk(5'000) == "host_oncpu_pre 5000; host_oncpu_pre 11000; host_blocked_unknown 4000");
  CHECK(walk(5'150) == walk(5'000));
  CHECK(walk(5'250) ==
        "host_oncpu_pre 4000; host_blocked_unknown 1000; host_oncpu_pre 12000; host_blocked_unknown 3000");
}

TEST_CASE("late readings of run-queue delay divide nothing either", "[why]") {
  Server server;
  const uint32_t release =
      server.maker.Site(SiteKind::kInstant, "release", {{"kind", ArgType::kUint}, {"resource", ArgType::kName}});
  server.maker.Event(server.maker.Thread("http-2"), release, 8'000 * kUs, 0, {},
                     {static_cast<uint64_t>(WaitKind::kLock), server.maker.String("disk")});
  server.Scope(1'000, 7'000, server.decode);
  server.Wait(WaitKind::kLock, 7'000, 11'000);
  server.Scope(11'000, 21'000, server.decode);
  server.Look(1'000, 0, 0);
  server.Look(6'000, 16'000, 0);
  server.Look(21'000, 16'000, 2'500);

  CHECK(SegmentsText(server.Walk()) ==
        "host_oncpu_pre 6000; host_lock 1000; handoff 500; host_runqueue 2500; host_oncpu_pre 10000");
}

TEST_CASE("CPU time above a later reading was read later than it says", "[why]") {
  Server server;
  server.Scope(1'000, 21'000, server.decode);
  server.Edge(1'000, 0, 0, 0);
  server.Look(9'000, 6'000, 0);  // slept, but was on a CPU when it was read
  server.Edge(11'000, 2'000, 3, 0);
  server.Edge(21'000, 12'000, 3, 0);

  CHECK(SegmentsText(server.Walk()) == "host_oncpu_pre 12000; host_blocked_unknown 8000");
}

TEST_CASE("run-queue delay above a later reading was read later than it says", "[why]") {
  Server server;
  server.Scope(1'000, 21'000, server.decode);
  server.Look(1'000, 0, 0);
  server.Look(6'000, 1'000, 4'000);
  server.Look(11'000, 2'000, 0);
  server.Look(21'000, 8'000, 4'000);

  CHECK(SegmentsText(server.Walk()) == "host_oncpu_pre 8000; host_runqueue 4000; host_blocked_unknown 8000");
}

TEST_CASE("readings of other threads at the moment of a late reading do not count", "[why]") {
  const auto walk = [](int64_t other_cpu_us) {
    Server server;
    server.Scope(1'000, 6'000, server.decode);
    server.Scope(6'000, 21'000, server.maker.Site(SiteKind::kScope, "resize"));
    server.Look(1'000, 0, 0);
    server.Look(6'000, 5'000, 0);
    server.Look(11'000, 6'000, 0);
    server.Look(21'000, 16'000, 0);
    server.maker.trace.threads[server.maker.Thread("http-2")].tid = kTid + 1;
    for (const auto& [at_us, cpu_us] : {std::pair<int64_t, int64_t>{1'000, 0}, {6'000, other_cpu_us}, {11'000, 10'000}})
      server.samples[base::ThreadCounter(kTid + 1, base::kOnCpu)].emplace_back(at_us * kUs, cpu_us * kUs);
    return SegmentsText(server.Walk());
  };
  CHECK(walk(5'000) == "host_oncpu_pre 5000; host_oncpu_pre 11000; host_blocked_unknown 4000");
  CHECK(walk(9'000) ==
        "host_oncpu_pre 3000; host_blocked_unknown 2000; host_oncpu_pre 13000; host_blocked_unknown 2000");
}

TEST_CASE("code of a thread that neither slept nor was switched, and got no CPU time, had its CPU stolen", "[why]") {
  const auto walk = [](int64_t voluntary, int64_t involuntary) {
    Server server;
    server.Scope(1'000, 21'000, server.decode);
    server.Edge(1'000, 0, 3, 7);
    server.Edge(21'000, 12'000, 3 + voluntary, 7 + involuntary);
    const std::string text = SegmentsText(server.Walk());
    return text + " by " + server.proofs.back();
  };
  CHECK(walk(0, 0) == "host_oncpu_pre 12000; host_runqueue 8000 by thread 41: on-CPU time");
  CHECK(walk(0, 1) == "host_oncpu_pre 12000; host_runqueue 8000 by thread 41: involuntary switches");
  CHECK(walk(1, 0) == "host_oncpu_pre 12000; host_blocked_unknown 8000 by thread 41: on-CPU time");
}

TEST_CASE("a thread without a CPU names the machine's reason: a hypervisor, a quota", "[why]") {
  // A wait of 8 ms; the counter of the host grew by `grew_us` between readings before and after.
  const auto evidence = [](int64_t involuntary, const base::CounterName& of_host, int64_t grew_us,
                           analyze::Proof proof) {
    Server server;
    server.Scope(1'000, 21'000, server.decode);
    server.Edge(1'000, 0, 0, 0);
    server.Edge(21'000, 12'000, 0, involuntary);
    for (const auto& [at_us, value] : {std::pair<int64_t, int64_t>{500, 400}, {90'000, 400 + grew_us * kUs}})
      server.samples[base::HostCounter(of_host)].emplace_back(at_us * kUs, value);
    const RequestBlame blame = server.Walk();
    analyze::Cause cause;
    cause.blame = Blame::kHostRunqueue;
    cause.longest = {1};
    CHECK(verdict::ProofOf(server.index.data()->index, blame, cause, {}) == proof);
    return EvidenceText(server.index, blame, cause) +
           verdict::QuotaText(server.index.data()->index, blame, cause.blame, 8'000 * kUs);
  };
  const std::string where = "in \"decode\" on http-1; shown by its ",
                    stolen = "on-CPU time: it neither slept nor was switched";
  CHECK(evidence(0, base::kStolenTime, 0, analyze::Proof::kStolen) == where + stolen);
  CHECK(evidence(0, base::kStolenTime, 240'000, analyze::Proof::kStolen) ==
        where + stolen + ", the hypervisor took 240.0 ms of the machine's CPUs around then");
  CHECK(evidence(9, base::kThrottledTime, 0, analyze::Proof::kNone) == where + "involuntary switches");
  CHECK(evidence(9, base::kThrottledTime, 9'000, analyze::Proof::kQuota) ==
        where +
            "involuntary switches, the CPU quota throttled the process for 9.00 ms meanwhile, because the CPU quota "
            "was used up");
  CHECK(evidence(9, base::kThrottledTime, 3'000, analyze::Proof::kQuota) ==
        where + "involuntary switches, the CPU quota throttled the process for 3.00 ms meanwhile");
}

}  // namespace pitot::test
