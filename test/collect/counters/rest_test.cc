// SPDX-License-Identifier: Apache-2.0
//
// Nobody needs samples: the sampler leaves them to CUPTI, which keeps the newest.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>
#include <new>
#include <string>

#include "collect/counters/rig.h"
#include "fakes/temp_directory.h"
#include "fakes/virtual_server.h"
#include "pitot/request.h"

using namespace fakes;
using Trace = CounterTrace;

namespace {

constexpr int64_t kKept = 425, kIntervalNs = 4 * kMs;   // as on an H200
constexpr int64_t kBackNs = (kKept - 1) * kIntervalNs;  // the first one after a start is left out

// A host that says whether it has open work.
struct Host : Rig {
  Host() { Begin(); }
  explicit Host(Host* first) : Rig(first) { Begin(); }
  void Begin() {
    environment.is_needed = [this] { return is_at_work.load(); };
    Script([](FakePm& pm) { pm.most_kept = kKept; });
  }
  uint64_t Calls(const char* function) {
    const std::lock_guard lock(fake->mutex);
    return fake->calls_of[function];
  }
  uint64_t Decodes() { return Calls("cuptiPmSamplingDecodeData"); }
  void Rest(int64_t ns) {
    is_at_work = false;
    REQUIRE(timer->Pass(ns));
  }

  std::atomic<bool> is_at_work{false};
};

// When samples begin in a trace.
int64_t FirstSampled(const Trace& trace) {
  for (const auto& [at_ns, is_sampled] : trace.Of("sampled")) {
    if (is_sampled != 0) return at_ns;
  }
  return 0;
}

}  // namespace

TEST_CASE("while nothing is open no sample is decoded, and the first request has its own and those before",
          "[counters]") {
  Host host;
  REQUIRE(host.Start().ok());
  host.Rest(60'200 * kMs);
  CHECK(host.Decodes() == 0);
  CHECK(host.Seen(&FakePm::sampling) == 1);

  host.is_at_work = true;
  REQUIRE(host.timer->Pass(500 * kMs));  // a look
  const int64_t looked_ns = host.timer->NowNs() - 200 * kMs;
  const uint64_t decodes = host.Decodes();
  CHECK(decodes > 0);
  const Trace trace = host.AskBack(20 * kSecond);

  CHECK(FirstSampled(trace) == looked_ns - kBackNs);
  CHECK(trace.Of("sampled").back() == std::pair<int64_t, double>{host.timer->NowNs(), 0});
  CHECK(trace.Lost() == 0);
  CHECK(trace.Attribute("rested_until") ==
        "1.896 s before the end of the window: nothing was open until then, and older samples were not fetched");
  CHECK(host.AskBack(kSecond).Attribute("rested_until").empty());  // no part of this window

  host.Rest(20 * kSecond);
  CHECK(host.Decodes() <= decodes + 3);  // the two incidents and one round
}

TEST_CASE("all that CUPTI kept in a rest is decoded in one round, also at a long interval", "[counters]") {
  Host host;
  host.options.interval_us = 20'000;
  REQUIRE(host.Start().ok());
  host.Rest(120 * kSecond);
  const Trace trace = host.AskBack(60 * kSecond);
  CHECK(FirstSampled(trace) == host.timer->NowNs() - (kKept - 1) * 20 * kMs);
  CHECK(trace.Of("sampled").back().first == host.timer->NowNs());
}

TEST_CASE("a round that is 4 s late loses nothing that CUPTI kept, which drops what has no room", "[counters]") {
  Host host;
  host.Script([](FakePm& fake) { fake.most_kept = 1'000'000; });
  host.is_at_work = true;
  REQUIRE(host.Start().ok());
  REQUIRE(host.timer->Pass(2 * kSecond));
  const size_t usual = host.Seen(&FakePm::data_bytes);
  host.timer->Set(host.timer->NowNs() + 4 * kSecond);
  REQUIRE(host.timer->AwaitIdle());
  CHECK(host.Seen(&FakePm::most_data_bytes) > 4 * usual);
  const Trace trace = host.AskBack(5 * kSecond);
  CHECK(trace.Of("sampled").back().first == host.timer->NowNs());
  CHECK(trace.Lost() == 0);
  CHECK(host.Seen(&FakePm::data_bytes) == usual);  // the memory was needed once
}

TEST_CASE("an incident in a rest asks for the samples", "[counters]") {
  Host host;
  REQUIRE(host.Start().ok());
  host.Rest(30'300 * kMs);
  const Trace trace = host.AskBack(5 * kSecond);
  CHECK(FirstSampled(trace) == host.timer->NowNs() - kBackNs);
  CHECK(trace.Of("sampled").back().first == host.timer->NowNs());
  CHECK(trace.Lost() == 0);
}

TEST_CASE("a sample for the judge fetches nothing in a rest, and its last moment while a request is open",
          "[counters]") {
  Host host;
  REQUIRE(host.Start().ok());
  const auto sample = [&] {
    host.collector->Keep(host.timer->NowNs() - kSecond, pitot::KeepFor::kSample);
    Trace trace;
    host.collector->AddTo(trace);
    return trace;
  };
  host.Rest(30'300 * kMs);
  CHECK(sample().Of("SM active").empty());
  CHECK(host.Decodes() == 0);
  host.is_at_work = true;
  CHECK(sample().Of("sampled").back().first == host.timer->NowNs());
}

TEST_CASE("an incident asked for right before the stop has the samples of a rest", "[counters]") {
  Host host;
  REQUIRE(host.Start().ok());
  host.Rest(30'300 * kMs);
  const int64_t now_ns = host.timer->NowNs();
  host.collector->Keep(now_ns - 5 * kSecond, pitot::KeepFor::kIncident);
  host.collector->Stop();
  Trace trace;
  host.collector->AddTo(trace);
  CHECK(FirstSampled(trace) == now_ns - kBackNs);
  CHECK(trace.Of("sampled").back().first == now_ns);
}

TEST_CASE("a GPU given away in a rest leaves its samples in the incident", "[counters]") {
  Host host;
  REQUIRE(host.Start().ok());
  host.Rest(30'300 * kMs);
  const int64_t paused_ns = host.timer->NowNs();
  REQUIRE(host.collector->Pause().ok());
  REQUIRE(host.timer->Pass(kSecond));
  const Trace trace = host.AskBack(5 * kSecond);
  CHECK(FirstSampled(trace) == paused_ns - kBackNs);
  CHECK(trace.Of("sampled").back() == std::pair<int64_t, double>{paused_ns, 0});
  CHECK(trace.Lost() == 0);
}

TEST_CASE("samples that a late thread loses after a rest are counted, and those of the rest are not", "[counters]") {
  Host host;
  host.Script([](FakePm& fake) { fake.most_kept = 250; });
  REQUIRE(host.Start().ok());
  host.Rest(20 * kSecond);
  host.is_at_work = true;
  host.timer->Set(host.timer->NowNs() + 5 * kSecond);  // 1,250 samples, of which 250 are kept
  REQUIRE(host.timer->AwaitIdle());
  CHECK(host.AskBack(kSecond).Lost() == 1'000);
}

TEST_CASE("a step of the clock in a rest loses the samples before it, and counts none", "[counters]") {
  std::atomic<int64_t> ahead_ns{kAheadNs};
  Host host;
  host.environment.realtime_offset_ns = [&] { return ahead_ns.load(); };
  host.Script([&](FakePm& fake) { fake.realtime_ns = [&] { return host.timer->NowNs() + ahead_ns.load(); }; });
  REQUIRE(host.Start().ok());
  host.Rest(20 * kSecond);
  ahead_ns += 5 * kSecond;
  host.Rest(2'200 * kMs);
  host.is_at_work = true;
  const Trace trace = host.AskBack(10 * kSecond);
  const int64_t noticed_ns = host.timer->NowNs() - 1'700 * kMs;
  CHECK(FirstSampled(trace) >= noticed_ns - kIntervalNs);
  CHECK(FirstSampled(trace) <= noticed_ns + kIntervalNs);
  CHECK(trace.Of("sampled").back().first > host.timer->NowNs() - kIntervalNs);
  CHECK(trace.Lost() == 0);
  host.collector->Stop();
}

TEST_CASE("a clock that is slowly set right in a rest loses nothing", "[counters]") {
  std::atomic<int64_t> ahead_ns{kAheadNs};
  Host host;
  host.environment.realtime_offset_ns = [&] { return ahead_ns.load(); };
  host.Script([&](FakePm& fake) { fake.realtime_ns = [&] { return host.timer->NowNs() + ahead_ns.load(); }; });
  REQUIRE(host.Start().ok());
  for (int i = 0; i < 60; ++i) {
    host.Rest(500 * kMs);
    ahead_ns += 2 * kMs;
  }
  const Trace trace = host.AskBack(10 * kSecond);
  CHECK(FirstSampled(trace) <= host.timer->NowNs() - kBackNs + 20 * kMs);
  CHECK(trace.Lost() == 0);
  host.collector->Stop();
}

TEST_CASE("a call that fails at the end of a rest loses only what was due since", "[counters]") {
  Host host;
  REQUIRE(host.Start().ok());
  host.Rest(20 * kSecond);
  host.is_at_work = true;
  host.Script([](FakePm& fake) { fake.fail_once["cuptiPmSamplingDecodeData"] = 1; });
  REQUIRE(host.timer->Pass(500 * kMs));
  CHECK(host.AskBack(kSecond).Lost() == 125);
}

TEST_CASE("a decoding that fails after a rest without a reason begins anew at once, the second in a minute after 10 s",
          "[counters]") {
  Host host;
  REQUIRE(host.Start().ok());
  const auto fail_after_rest = [&] {
    host.Rest(5 * kSecond);
    host.is_at_work = true;
    host.Script([](FakePm& fake) { fake.results["cuptiPmSamplingDecodeData"] = counters::kUnknown; });
    REQUIRE(host.timer->Pass(500 * kMs));
    host.Script([](FakePm& fake) { fake.results.clear(); });
    REQUIRE(host.timer->Pass(1'500 * kMs));
  };
  fail_after_rest();
  CHECK(host.Seen(&FakePm::sampling) == 1);
  CHECK(host.AskBack(3 * kSecond).Lost() <= 250);
  fail_after_rest();
  CHECK(host.Seen(&FakePm::sampling) == 0);
  REQUIRE(host.timer->Pass(10 * kSecond));
  CHECK(host.Seen(&FakePm::sampling) == 1);
  host.Rest(60 * kSecond);
  fail_after_rest();
  CHECK(host.Seen(&FakePm::sampling) == 1);
}

TEST_CASE("the samples of a rest are decoded by the interval at which they were taken", "[counters]") {
  const auto change = [](uint32_t from_us, uint32_t to_us, size_t kept) {
    Host host;
    host.options.interval_us = from_us;
    host.Script([&](FakePm& fake) { fake.most_kept = kept; });
    REQUIRE(host.Start().ok());
    host.Rest(30 * kSecond);
    const int64_t changed_ns = host.timer->NowNs() + 500 * kMs;
    REQUIRE(pitot::SetCounterInterval(to_us).ok());
    host.Rest(500 * kMs);
    CHECK(host.Seen(&FakePm::most_data_bytes) < 8'000 * sizeof(int64_t));
    const Trace trace = host.AskBack(kSecond);
    int64_t last_ns = 0;  // of the samples before the change
    for (const auto& [at_ns, is_sampled] : trace.Of("sampled")) {
      if (at_ns <= changed_ns) last_ns = at_ns;
    }
    return changed_ns - last_ns;
  };
  CHECK(change(4'000, 100, kKept) <= 4 * kMs);
  CHECK(change(1'000, 20'000, 3'000) <= 4 * kMs);
}

TEST_CASE("a change of the interval in a rest leaves the samples before it", "[counters]") {
  Host host;
  REQUIRE(host.Start().ok());
  host.Rest(30 * kSecond);
  REQUIRE(pitot::SetCounterInterval(1'000).ok());
  host.Rest(500 * kMs);
  CHECK(host.Seen(&FakePm::interval_ns) == 1'000'000);
  const uint64_t decodes = host.Decodes();
  host.Rest(kSecond);
  CHECK(host.Decodes() == decodes);
  const Trace trace = host.AskBack(5 * kSecond);
  CHECK(FirstSampled(trace) == host.timer->NowNs() - kSecond - kBackNs);
  CHECK(trace.Of("sampled").back().first == host.timer->NowNs());
  CHECK(trace.Lost() == 0);
}

TEST_CASE("a round without memory for a short request's samples is made up for by the next one", "[counters]") {
  Host host;
  std::atomic<bool> has_memory{true};
  host.environment.is_needed = [&] { return host.is_at_work.exchange(false); };
  host.environment.find_gpus = [&] {
    if (!has_memory.exchange(true)) throw std::bad_alloc();
    return host.gpus;
  };
  REQUIRE(host.Start().ok());
  host.Rest(20 * kSecond);
  has_memory = false;
  host.is_at_work = true;
  REQUIRE(host.timer->Pass(500 * kMs));
  CHECK(host.Decodes() == 0);
  REQUIRE(host.timer->Pass(500 * kMs));
  CHECK(host.Decodes() > 0);
}

TEST_CASE("what the end of a rest costs is shared out over the rest", "[counters]") {
  Host host;
  host.environment.cpu_ns = [&] {
    return static_cast<int64_t>(host.Calls("cuptiProfilerHostEvaluateToGpuValues")) * 66'000;
  };
  REQUIRE(host.Start().ok());
  for (int i = 0; i < 10; ++i) {
    host.Rest(11 * kSecond);
    host.is_at_work = true;
    REQUIRE(host.timer->Pass(500 * kMs));
    const Trace trace = host.AskBack(kSecond);
    if (i > 0) CHECK(std::stod(trace.attributes.at("counters.cpu_percent")) == Approx(0.24).epsilon(0.1));
  }
  CHECK(host.Seen(&FakePm::interval_ns) == kIntervalNs);
}

TEST_CASE("an incident waits for a round after a rest as long as it makes progress", "[counters]") {
  Host host;
  host.environment.patience_ns = 500 * kMs;
  REQUIRE(host.Start().ok());
  host.Rest(30 * kSecond);
  // More than a second in all, in steps of 60 ms.
  host.Script([&](FakePm& fake) {
    fake.value = [count = 0](const std::string& metric, int64_t) mutable {
      if (metric == "dram__throughput.avg.pct_of_peak_sustained_elapsed" && ++count % 20 == 0) usleep(60'000);
      return 50.0;
    };
  });
  const Trace trace = host.AskBack(5 * kSecond);
  CHECK(trace.attributes.count("counters.not_recorded") == 0);
  CHECK(trace.Of("sampled").back().first == host.timer->NowNs());
}

namespace {

// The first samples for both. Their clocks go together.
struct Pair {
  Pair() {
    first.environment.shared_directory = temp.path();
    second = std::make_unique<Host>(&first);
    first.gpus[0].id = second->gpus[0].id = "GPU-00000000-rest";
    REQUIRE(first.Start().ok());
    REQUIRE(second->Start().ok());
    Pass(kSecond);
  }
  void Pass(int64_t ns) {
    for (int64_t passed = 0; passed < ns; passed += 100 * kMs) {
      for (Host* host : {&first, second.get()}) REQUIRE(host->timer->Pass(100 * kMs));
    }
  }

  TempDirectory temp;
  Host first;
  std::unique_ptr<Host> second;
};

}  // namespace

TEST_CASE("a process that samples for others rests while none of them needs samples, and stays theirs", "[counters]") {
  Pair pair;
  const uint64_t decodes = pair.first.Decodes();
  pair.Pass(30 * kSecond);
  CHECK(pair.first.Decodes() == decodes);
  CHECK(pair.first.Calls("cuptiPmSamplingEnable") == 1);  // nobody takes the GPU over

  pair.second->is_at_work = true;
  pair.Pass(1'100 * kMs);
  CHECK(pair.first.Decodes() > decodes);
  const Trace trace = pair.second->AskBack(20 * kSecond);
  const int64_t now_ns = pair.second->timer->NowNs();
  CHECK(FirstSampled(trace) >= now_ns - kBackNs - 1'100 * kMs);
  CHECK(FirstSampled(trace) <= now_ns - kBackNs);
  CHECK(trace.Lost() == 0);
  CHECK(Has(trace.Attribute("rested_until"), " s before the end of the window: nothing was open until then"));
}

TEST_CASE("an incident of a reader makes the sampler fetch its samples in a rest", "[counters]") {
  Pair pair;
  pair.Pass(20 * kSecond);
  const int64_t asked_ns = pair.second->timer->NowNs();
  pair.second->collector->Keep(asked_ns - 5 * kSecond, pitot::KeepFor::kIncident);
  pair.Pass(1'100 * kMs);
  Trace trace;
  pair.second->collector->AddTo(trace);
  CHECK(FirstSampled(trace) <= asked_ns - kBackNs + 1'100 * kMs);
  CHECK(trace.Of("sampled").back().first >= asked_ns);
}

TEST_CASE("a reader's sample for the judge waits for the sampler only while a request is open", "[counters]") {
  Pair pair;
  pair.second->collector->Stop();
  pair.second->environment.patience_ns = 20 * kMs;
  REQUIRE(pair.second->Start().ok());
  pair.Pass(200 * kMs);
  const auto waits = [&] {
    pair.second->collector->Keep(pair.second->timer->NowNs() - kSecond, pitot::KeepFor::kSample);
    Trace trace;
    pair.second->collector->AddTo(trace);
    return trace.attributes.count("counters.not_recorded") != 0;
  };
  CHECK_FALSE(waits());
  pair.second->is_at_work = true;
  CHECK(waits());
}

TEST_CASE("a host needs samples while a request or batch is open, and once after it began", "[counters]") {
  VirtualServer server;
  const auto is_needed = counters::NeededByHost();
  CHECK_FALSE(is_needed());
  pitot::Request::Begin("/short").Finish(pitot::Outcome::kOk);
  CHECK(is_needed());
  CHECK_FALSE(is_needed());
  pitot::Batch batch = pitot::Batch::Begin("executor");
  CHECK(is_needed());
  CHECK(is_needed());
  batch.Finish();
  CHECK_FALSE(is_needed());
}
