// SPDX-License-Identifier: Apache-2.0
//
// The counter collector over a fake CUPTI and a clock that steps from round to round.
#include "collect/counters/collector.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collect/counters/fake_pm.h"
#include "collect/counters/rig.h"
#include "fakes/temp_directory.h"
#include "fakes/wait_until.h"

using namespace fakes;
using pitot::CounterOptions;
using pitot::Status;
using pitot::StatusCode;
using Trace = CounterTrace;

TEST_CASE("counters of a used GPU are in the incident up to its last moment, on the host's clock", "[counters]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  const int64_t begin_ns = rig.timer->NowNs();
  rig.Script([&](FakePm& fake) {
    fake.value = [=](const std::string& metric, int64_t at_ns) {
      const bool is_busy = at_ns - kAheadNs >= begin_ns + 400 * kMs;
      if (metric == "gpc__cycles_elapsed.avg.per_second") return 1.98e9;
      if (metric == "pcie__read_bytes.sum") return is_busy ? 4e6 : 0;
      return is_busy ? 75.0 : 0;
    };
  });
  REQUIRE(rig.timer->Pass(700 * kMs));  // the last round was at 500 ms

  const Trace trace = rig.AskBack(600 * kMs);

  CHECK(trace.devices.at(0) == "NVIDIA H100");
  CHECK(trace.Of("SM active") == Trace::Samples{{begin_ns + 100 * kMs, 0}, {begin_ns + 400 * kMs, 75}});
  CHECK(trace.Of("SM clock") == Trace::Samples{{begin_ns + 100 * kMs, 1980}});
  CHECK(trace.Of("PCIe receiving").back() == std::pair<int64_t, double>{begin_ns + 400 * kMs, 1e9});
  CHECK(trace.Of("sampled") == Trace::Samples{{begin_ns + 100 * kMs, 1}, {begin_ns + 700 * kMs, 0}});
  CHECK(trace.attributes.at("counters.0.interval_us") == "4000");
  CHECK(trace.is_newest_first);
}

TEST_CASE("nothing is opened before the process uses a GPU, and each GPU is sampled from then on", "[counters]") {
  Rig rig;
  rig.gpus.clear();
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(2 * kSecond));
  CHECK(rig.Seen(&FakePm::calls) == 0);
  const Trace unused = rig.AskBack(kSecond);
  CHECK(unused.attributes.at("counters.no_gpu") == "this process has used no GPU");
  CHECK(unused.attributes.count("counters.not_recorded") == 0);  // it would be a warning, and nothing is missing

  rig.Script([&](FakePm&) { rig.gpus = {{0, "first"}, {3, "second"}}; });
  REQUIRE(rig.timer->Pass(2 * kSecond));

  CHECK(rig.Seen(&FakePm::sampling) == 2);
  const Trace trace = rig.AskBack(kSecond);
  CHECK_FALSE(trace.Of("SM active", 0).empty());
  CHECK_FALSE(trace.Of("SM active", 3).empty());
  rig.collector->Stop();
  CHECK(rig.Seen(&FakePm::enabled) == 0);
  CHECK(rig.Seen(&FakePm::hosts) == 0);
}

TEST_CASE("the first sample of a start is not whole, and left out", "[counters]") {
  Rig rig;
  const int64_t begin_ns = rig.timer->NowNs();
  rig.Script([&](FakePm& fake) {
    fake.value = [=](const std::string&, int64_t at_ns) { return at_ns - kAheadNs < begin_ns + 4 * kMs ? 4e-8 : 50; };
  });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  const Trace trace = rig.AskBack(2 * kSecond);
  CHECK(trace.Of("SM active") == Trace::Samples{{begin_ns + 4 * kMs, 50}});
  CHECK(trace.attributes.count("counters.0.lost_samples") == 0);
}

TEST_CASE("a value that was not measured is missing, never 0", "[counters]") {
  Rig rig;
  rig.Script([](FakePm& fake) {
    fake.value = [](const std::string& metric, int64_t) {
      return metric.find("tensor") != std::string::npos ? std::numeric_limits<double>::quiet_NaN() : 10;
    };
  });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));

  const Trace trace = rig.AskBack(kSecond);

  CHECK(trace.Of("tensor cores active").empty());
  CHECK_FALSE(trace.Of("SM active").empty());
}

TEST_CASE("a thread that comes too late loses the oldest samples, counts them, and says when", "[counters]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  const int64_t since_ns = rig.timer->NowNs();
  rig.Script([](FakePm& fake) { fake.most_kept = 250; });  // of 1,250
  rig.timer->Set(since_ns + 5 * kSecond);
  REQUIRE(rig.timer->AwaitIdle());

  const Trace trace = rig.AskBack(6 * kSecond);

  CHECK(trace.attributes.at("counters.0.lost_samples") == "1000");
  CHECK(trace.Of("sampled") == Trace::Samples{{since_ns - kSecond, 0},
                                              {since_ns - kSecond + 4 * kMs, 1},
                                              {since_ns, 0},
                                              {since_ns + 4 * kSecond, 1},
                                              {since_ns + 5 * kSecond, 0}});
}

TEST_CASE("the interval grows until the thread keeps to its share of a CPU", "[counters]") {
  Rig rig;
  rig.cpu_share = 0.05;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(6 * kSecond));
  CHECK(rig.Seen(&FakePm::interval_ns) == 4'000'000);  // once may be an incident
  REQUIRE(rig.timer->Pass(5 * kSecond));
  CHECK(rig.Seen(&FakePm::interval_ns) == 10'000'000);  // 4 ms * 5 % / 2 %
  CHECK(rig.AskBack(kSecond).attributes.at("counters.cpu_percent") == "5.00");
}

TEST_CASE("the interval does not grow beyond what shows a slow request", "[counters]") {
  Rig rig;
  // The share stays above the limit, whatever the interval: another program takes the CPU's caches, for example.
  rig.cpu_share = 0.5;
  REQUIRE(rig.Start().ok());
  // Two measurements for each step, and a start between them.
  REQUIRE(rig.timer->Pass(40 * kSecond));
  CHECK(rig.Seen(&FakePm::interval_ns) == 20'000'000);
}

TEST_CASE("starting, which takes long once, does not lengthen the interval", "[counters]") {
  Rig rig;
  int64_t starting_ns = 0;
  rig.environment.cpu_ns = [&] {
    const std::lock_guard lock(rig.fake->mutex);
    starting_ns = rig.fake->calls_of["cuptiPmSamplingStart"] != 0 ? 500 * kMs : 0;
    return rig.timer->NowNs() / 100 + starting_ns;
  };
  rig.gpus.clear();
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(2 * kSecond));
  rig.Script([&](FakePm&) { rig.gpus = {{0, "NVIDIA H100"}}; });
  REQUIRE(rig.timer->Pass(7 * kSecond));
  CHECK(rig.Seen(&FakePm::interval_ns) == 4'000'000);
  CHECK(rig.AskBack(kSecond).attributes.at("counters.cpu_percent") == "1.00");
}

TEST_CASE("the samples that a longer interval costs while sampling starts again are counted", "[counters]") {
  Rig rig;
  rig.cpu_share = 0.05;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(6 * kSecond));
  rig.Script([](FakePm& fake) { fake.start_takes_ns = 200 * kMs; });
  REQUIRE(rig.timer->Pass(6 * kSecond));
  CHECK(rig.Seen(&FakePm::interval_ns) == 10'000'000);
  CHECK(rig.AskBack(kSecond).Lost() == 20);
}

TEST_CASE("an interval chosen by the host stays, whatever it costs", "[counters]") {
  Rig rig;
  rig.cpu_share = 0.5;
  rig.options.interval_us = 1000;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(6 * kSecond));
  CHECK(rig.Seen(&FakePm::interval_ns) == 1'000'000);
}

TEST_CASE("the interval can be changed while it samples, and chosen again by the cost", "[counters]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(700 * kMs));
  const uint64_t starts = rig.fake->calls_of["cuptiPmSamplingStart"];
  rig.Script([](FakePm& fake) { fake.start_takes_ns = 200 * kMs; });
  REQUIRE(pitot::SetCounterInterval(1'000).ok());
  CHECK(rig.Seen(&FakePm::interval_ns) == 4'000'000);  // until the next round
  REQUIRE(rig.timer->Pass(300 * kMs));
  CHECK(rig.Seen(&FakePm::interval_ns) == 1'000'000);
  const int64_t changed_ns = rig.timer->NowNs();
  REQUIRE(rig.timer->Pass(kSecond));
  Trace trace = rig.AskBack(1'500 * kMs);
  CHECK(trace.Attribute("interval_us") == "1000");
  CHECK(trace.Lost() == 200);
  CHECK(trace.Of("sampled") ==
        Trace::Samples{
            {changed_ns - 500 * kMs, 1}, {changed_ns, 0}, {changed_ns + 201 * kMs, 1}, {changed_ns + kSecond, 0}});

  rig.Script([](FakePm& fake) { fake.start_takes_ns = 0; });
  REQUIRE(pitot::SetCounterInterval(1'000).ok());  // no change
  REQUIRE(rig.timer->Pass(kSecond));
  CHECK(rig.fake->calls_of["cuptiPmSamplingStart"] == starts + 1);

  REQUIRE(pitot::SetCounterInterval(0).ok());
  rig.cpu_share = 0.05;
  REQUIRE(rig.timer->Pass(kSecond));
  CHECK(rig.Seen(&FakePm::interval_ns) == 4'000'000);
  REQUIRE(rig.timer->Pass(11 * kSecond));
  CHECK(rig.Seen(&FakePm::interval_ns) == 10'000'000);  // 4 ms * 5 % / 2 %
}

TEST_CASE("an interval set during a pause holds from the resumption on, with one start", "[counters]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.collector->Pause().ok());
  const uint64_t starts = rig.fake->calls_of["cuptiPmSamplingStart"];
  REQUIRE(pitot::SetCounterInterval(500).ok());
  REQUIRE(rig.timer->Pass(kSecond));
  REQUIRE(rig.collector->Resume().ok());
  CHECK(rig.Seen(&FakePm::interval_ns) == 500'000);
  CHECK(rig.fake->calls_of["cuptiPmSamplingStart"] == starts + 1);
}

TEST_CASE("an interval is refused if it is out of range, or no collector runs, and is not for the next one",
          "[counters]") {
  Rig rig;
  CHECK(pitot::SetCounterInterval(1'000).code() == StatusCode::kUnavailable);
  REQUIRE(rig.Start().ok());
  CHECK(pitot::SetCounterInterval(99).code() == StatusCode::kInvalidArgument);
  CHECK(pitot::SetCounterInterval(1'000'001).code() == StatusCode::kInvalidArgument);
  REQUIRE(pitot::SetCounterInterval(100).ok());
  rig.collector->Stop();
  CHECK(pitot::SetCounterInterval(1'000).code() == StatusCode::kUnavailable);
  Rig next;
  REQUIRE(next.Start().ok());
  REQUIRE(next.timer->Pass(kSecond));
  CHECK(next.Seen(&FakePm::interval_ns) == 4'000'000);
}

TEST_CASE("a chip without a metric, or with too few counters for one pass, gives the others", "[counters]") {
  Rig rig;
  SECTION("without NVLink") {
    rig.Script([](FakePm& fake) { fake.unknown = {"nvlrx__bytes.sum", "nvltx__bytes.sum"}; });
    REQUIRE(rig.Start().ok());
    CHECK(rig.Seen(&FakePm::metrics).size() == 9);
  }
  SECTION("without the names of Hopper") {
    rig.Script([](FakePm& fake) {
      fake.unknown = {"sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed"};
    });
    REQUIRE(rig.Start().ok());
    CHECK(rig.Seen(&FakePm::metrics).size() == 11);
  }
  SECTION("with room for four") {
    rig.Script([](FakePm& fake) { fake.most_in_a_pass = 4; });
    REQUIRE(rig.Start().ok());
    CHECK(rig.Seen(&FakePm::metrics).size() == 4);
  }
  CHECK(rig.Seen(&FakePm::sampling) == 1);
  CHECK(rig.Seen(&FakePm::hosts) == 1);
}

TEST_CASE("a chip that samples by its clock alone is sampled so, and the incident says it", "[counters]") {
  for (const pitot::counters::Result refusal : {pitot::counters::kNotSupported, pitot::counters::kInvalidParameter}) {
    Rig rig;
    rig.Script([&](FakePm& fake) {
      fake.megahertz = 800;  // half of the fastest: samples are twice as long
      fake.refuses_time_with = refusal;
    });
    REQUIRE(rig.Start().ok());
    REQUIRE(rig.timer->Pass(kSecond));
    CHECK(rig.Seen(&FakePm::interval_ns) == 8'000'000);
    const Trace trace = rig.AskBack(500 * kMs);
    CHECK(trace.Of("SM active") == Trace::Samples{{trace.Of("sampled").front().first, 50}});
    CHECK(trace.Of("sampled").front().second == 1);
    CHECK(trace.attributes.at("counters.0.source") == "CUPTI by the GPU's clock, every 4000 us or more");
    CHECK(trace.attributes.count("counters.0.lost_samples") == 0);
    CHECK(trace.attributes.count("counters.0.not_recorded") == 0);
  }
}

TEST_CASE("a GPU held by another profiler is taken once it is free, and the incident says so", "[counters]") {
  Rig rig;
  const char* const function = GENERATE("cuptiPmSamplingGetCounterAvailability", "cuptiPmSamplingEnable");
  rig.Script([&](FakePm& fake) { fake.results[function] = counters::kHardwareBusy; });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(5 * kSecond));
  CHECK(rig.AskBack(kSecond).attributes.at("counters.0.not_recorded") ==
        "another profiler uses this GPU's counters (CUPTI_ERROR_HARDWARE_BUSY): it is asked for again every 10 s");
  const uint64_t asked = rig.fake->calls_of[function];
  CHECK(asked == 1);

  rig.Script([](FakePm& fake) { fake.results.clear(); });
  REQUIRE(rig.timer->Pass(7 * kSecond));

  const Trace trace = rig.AskBack(kSecond);
  CHECK(trace.attributes.count("counters.0.not_recorded") == 0);
  CHECK_FALSE(trace.Of("SM active").empty());
}

TEST_CASE("a GPU that the driver forbids to profile is asked once, and the incident says how to allow it",
          "[counters]") {
  Rig rig;
  rig.Script([](FakePm& fake) { fake.results["cuptiPmSamplingEnable"] = counters::kInsufficientPrivileges; });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(60 * kSecond));
  CHECK(rig.fake->calls_of["cuptiPmSamplingEnable"] == 1);
  CHECK(rig.AskBack(kSecond).attributes.at("counters.0.not_recorded").find("NVreg_RestrictProfilingToAdminUsers=0") !=
        std::string::npos);
}

TEST_CASE("Pause gives the GPU away before it returns, and Resume takes it back", "[counters]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  REQUIRE(rig.collector->Pause().ok());
  CHECK(rig.Seen(&FakePm::enabled) == 0);
  const int64_t paused_ns = rig.timer->NowNs();
  REQUIRE(rig.timer->Pass(kSecond));
  CHECK(rig.AskBack(kSecond).attributes.at("counters.0.not_recorded") == "given away by Recorder::Pause");
  REQUIRE(rig.collector->Resume().ok());
  CHECK(rig.Seen(&FakePm::sampling) == 1);
  REQUIRE(rig.timer->Pass(kSecond));

  const Trace trace = rig.AskBack(3 * kSecond);
  CHECK(trace.Of("sampled") == Trace::Samples{{paused_ns - kSecond, 0},
                                              {paused_ns - kSecond + 4 * kMs, 1},
                                              {paused_ns, 0},
                                              {paused_ns + kSecond + 4 * kMs, 1},
                                              {paused_ns + 2 * kSecond, 0}});
}

namespace {

// Samples, gives the GPU away and takes it back, three times, and stops. Returns all that incidents and Pause said.
std::string Live(Rig& rig) {
  std::string said;
  const auto ask = [&] {
    for (const auto& [key, value] : rig.AskBack(kSecond).attributes) said += key + " = " + value + "\n";
  };
  REQUIRE(rig.Start().ok());
  for (int i = 0; i < 3; ++i) {
    REQUIRE(rig.timer->Pass(600 * kMs));
    ask();
    said += std::string("Pause: ") + rig.collector->Pause().message() + "\n";
    ask();
    REQUIRE(rig.collector->Resume().ok());
  }
  REQUIRE(rig.timer->Pass(12 * kSecond));
  ask();
  return said;
}

}  // namespace

TEST_CASE("whichever call of CUPTI fails is told by name and counted, and sampling goes on", "[counters]") {
  for (const std::string function : kPmFunctions) {
    for (uint64_t number = 1; number <= 3; ++number) {
      INFO(function << ", call " << number);
      Rig rig;
      rig.Script([&](FakePm& fake) {
        fake.fail_once[function] = number;
        if (function == "cuptiProfilerHostDeinitialize") fake.unknown = {"nvlrx__bytes.sum"};
      });
      const std::string said = Live(rig);
      INFO(said);
      const bool frees = function == "cuptiPmSamplingDisable";
      CHECK(rig.Seen(&FakePm::sampling) == (frees ? 0 : 1));
      const bool has_failed = rig.fake->calls_of[function] >= number;
      CHECK((has_failed || number > 1));
      CHECK(Has(said, function + ": CUPTI_ERROR_OTHER") == has_failed);
      // Another choice of metrics is counted by its metrics.
      CHECK((Has(said, "counters.0.failed_calls = 1, the newest " + function) ||
             Has(said, "counters.0.other_metrics = " + function)) == has_failed);
      if (frees)
        CHECK(Has(said, "not_recorded = another profiler uses this GPU's counters (CUPTI_ERROR_HARDWARE_BUSY)"));
      rig.collector->Stop();
      CHECK(rig.Seen(&FakePm::enabled) == (frees ? 1 : 0));
      CHECK(rig.Seen(&FakePm::sampling) == 0);
      const bool keeps_host = function == "cuptiProfilerHostDeinitialize" && rig.fake->calls_of[function] >= number;
      CHECK(rig.Seen(&FakePm::hosts) == (keeps_host ? 1 : 0));
    }
  }
}

TEST_CASE("a function of CUPTI that fails from a moment on is told, and asked no more than every 10 s", "[counters]") {
  for (const std::string function : kPmFunctions) {
    INFO(function);
    Rig rig;
    rig.Script([](FakePm& fake) { fake.unknown = {"nvlrx__bytes.sum"}; });
    const bool is_of_first_start =
        (Has(function, "cuptiProfiler") && !Has(function, "Evaluate")) || Has(function, "Availability");
    if (is_of_first_start) rig.fake->results[function] = counters::kUnknown;
    REQUIRE(rig.Start().ok());
    REQUIRE(rig.timer->Pass(kSecond));
    rig.Script([&](FakePm& fake) { fake.results[function] = counters::kUnknown, fake.calls_of.clear(); });
    CHECK(rig.collector->Pause().ok() == (function != "cuptiPmSamplingDisable"));
    REQUIRE(rig.collector->Resume().ok());
    REQUIRE(rig.timer->Pass(25 * kSecond));
    const Trace trace = rig.AskBack(kSecond);
    CHECK((Has(trace.NotRecorded(), function) || Has(trace.Attribute("failed_calls"), function)));
    const bool is_sampling = rig.Seen(&FakePm::sampling) == 1;
    CHECK((is_sampling || !trace.NotRecorded().empty()));
    if (!is_sampling) CHECK(rig.fake->calls_of[function] <= 4);
    rig.collector->Stop();
    if (function != "cuptiPmSamplingDisable") CHECK(rig.Seen(&FakePm::enabled) == 0);
  }
}

TEST_CASE("calls that fail while the collector stops are counted, and Stop returns", "[counters]") {
  for (const std::string function :
       {"cuptiPmSamplingStop", "cuptiPmSamplingDisable", "cuptiProfilerHostDeinitialize"}) {
    INFO(function);
    Rig rig;
    REQUIRE(rig.Start().ok());
    REQUIRE(rig.timer->Pass(kSecond));
    rig.Script([&](FakePm& fake) { fake.results[function] = counters::kUnknown; });
    CHECK(rig.collector->Stopped().ok());
    rig.collector->Stop();
    CHECK(rig.AskBack(kSecond).Attribute("failed_calls") == "1, the newest " + function + ": CUPTI_ERROR_OTHER");
    CHECK(rig.collector->Stopped().message() ==
          "counters: 1 call failed while sampling stopped, the newest " + function + ": CUPTI_ERROR_OTHER");
  }
}

TEST_CASE("a Stop without failures tells none", "[counters]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  rig.collector->Stop();
  CHECK(rig.collector->Stopped().ok());
}

TEST_CASE("Pause tells that the GPU may not be free, and so does the incident", "[counters]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  rig.Script([](FakePm& fake) { fake.results["cuptiPmSamplingDisable"] = counters::kUnknown; });
  const Status paused = rig.collector->Pause();
  CHECK(paused.code() == StatusCode::kUnavailable);
  CHECK(paused.message() ==
        std::string("this process may still hold GPU 0: cuptiPmSamplingDisable: CUPTI_ERROR_OTHER"));
  CHECK(rig.AskBack(kSecond).NotRecorded() ==
        "given away by Recorder::Pause; this process may still hold the GPU: cuptiPmSamplingDisable: "
        "CUPTI_ERROR_OTHER");
  CHECK_FALSE(rig.collector->Pause().ok());  // it is as it was
  rig.Script([](FakePm& fake) { fake.results.clear(), fake.held.clear(); });
  REQUIRE(rig.collector->Resume().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  CHECK(rig.collector->Pause().ok());
}

TEST_CASE("an initialisation of CUPTI that fails is tried again after 10 s", "[counters]") {
  Rig rig;
  rig.Script([](FakePm& fake) { fake.results["cuptiProfilerInitialize"] = counters::kUnknown; });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(9 * kSecond));
  CHECK(rig.fake->calls_of["cuptiProfilerInitialize"] == 1);
  CHECK(rig.AskBack(kSecond).NotRecorded() == "cuptiProfilerInitialize: CUPTI_ERROR_OTHER");
  rig.Script([](FakePm& fake) { fake.results.clear(); });
  REQUIRE(rig.timer->Pass(2 * kSecond));
  CHECK(rig.Seen(&FakePm::sampling) == 1);
  CHECK(rig.fake->calls_of["cuptiProfilerInitialize"] == 2);
}

TEST_CASE("samples that a failure costs are counted, also while it lasts", "[counters]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  rig.Script([](FakePm& fake) { fake.results["cuptiPmSamplingDecodeData"] = counters::kUnknown; });
  REQUIRE(rig.timer->Pass(6 * kSecond));
  CHECK(rig.AskBack(kSecond).Lost() == 1500);  // of 4 ms
  rig.Script([](FakePm& fake) { fake.results.clear(); });
  REQUIRE(rig.timer->Pass(6 * kSecond));
  // It failed at 1.5 s, and started again 10 s later.
  CHECK(rig.AskBack(kSecond).Lost() == 2625);
  CHECK(rig.AskBack(kSecond).NotRecorded().empty());
  REQUIRE(rig.collector->Pause().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  REQUIRE(rig.collector->Resume().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  CHECK(rig.AskBack(kSecond).Lost() == 2625);  // a pause costs none
}

TEST_CASE("the last samples that a failure costs before a pause are counted", "[counters]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(1200 * kMs));  // the last round was at 1,000 ms
  rig.Script([](FakePm& fake) { fake.results["cuptiPmSamplingDecodeData"] = counters::kUnknown; });
  REQUIRE(rig.collector->Pause().ok());
  REQUIRE(rig.timer->Pass(5 * kSecond));
  CHECK(rig.AskBack(kSecond).Lost() == 50);
}

TEST_CASE("no samples are lost while another profiler has the GPU", "[counters]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  rig.Script([](FakePm& fake) {
    fake.results["cuptiPmSamplingDecodeData"] = counters::kUnknown;
    fake.results["cuptiPmSamplingEnable"] = counters::kHardwareBusy;
  });
  REQUIRE(rig.timer->Pass(40 * kSecond));
  CHECK(rig.AskBack(kSecond).Lost() == 2625);  // until the GPU was asked for again, at 11.5 s
}

TEST_CASE("samples of before a step of the clock are lost, and not in the future", "[counters]") {
  std::atomic<int64_t> ahead_ns{kAheadNs};
  Rig rig;
  rig.environment.realtime_offset_ns = [&] { return ahead_ns.load(); };
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(2 * kSecond));
  ahead_ns -= 5 * kSecond;
  REQUIRE(rig.timer->Pass(kSecond));
  const uint64_t lost = rig.AskBack(kSecond).Lost();
  CHECK(lost > 0);
  CHECK(lost < 1'000);  // those taken meanwhile, and not 5 s
  rig.Script([&](FakePm& fake) {
    fake.realtime_ns = [&] { return rig.timer->NowNs() + ahead_ns.load(); };
    fake.value = [](const std::string&, int64_t at_ns) { return at_ns / (4 * kMs) % 2 == 0 ? 40.0 : 60.0; };
  });
  REQUIRE(rig.timer->Pass(11 * kSecond));  // the fake goes on at its last time
  const Trace trace = rig.AskBack(2 * kSecond);
  CHECK(trace.Of("SM active").size() > 400);
  for (const auto& sample : trace.Of("SM active")) CHECK(sample.first <= rig.timer->NowNs());
  rig.collector->Stop();
}

TEST_CASE("incidents have samples again once a CUPTI that hung answers", "[counters]") {
  Rig rig;
  rig.environment.patience_ns = 20 * kMs;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  rig.Script([](FakePm& fake) { fake.hang_in = "cuptiPmSamplingDecodeData"; });
  for (int i = 0; i < 3; ++i) CHECK(rig.AskBack(kSecond).attributes.count("counters.not_recorded") == 1);
  rig.Script([](FakePm& fake) { fake.hang_in.clear(); });
  CHECK(WaitUntil([&] { return rig.AskBack(kSecond).attributes.count("counters.not_recorded") == 0; }));
}

TEST_CASE("a decoder that hangs costs incidents its samples, not their time, and Stop leaves the thread behind",
          "[counters]") {
  Rig rig;
  rig.environment.patience_ns = 20 * kMs;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  rig.Script([](FakePm& fake) { fake.hang_in = "cuptiPmSamplingDecodeData"; });
  const Trace trace = rig.AskBack(kSecond);
  CHECK(trace.attributes.at("counters.not_recorded") == "CUPTI does not answer");
  CHECK_FALSE(trace.Of("SM active").empty());  // what was there before
  CHECK(rig.collector->Pause().code() == StatusCode::kUnavailable);
  rig.collector->Stop();
  rig.Script([](FakePm& fake) { fake.hang_in.clear(); });
  CHECK(WaitUntil([&] { return rig.Seen(&FakePm::enabled) == 0; }));  // the thread ends itself
}

TEST_CASE("a library that cannot sample is refused with the reason", "[counters]") {
  Rig rig;
  SECTION("none of that name") {
    rig.options.library = "libcupti-no-such.so";
    REQUIRE(rig.Start().ok());
    CHECK(rig.AskBack(kSecond).attributes.at("counters.0.not_recorded").find("cannot load CUPTI") != std::string::npos);
  }
  SECTION("one without the functions") {
    rig.options.library = "libm.so.6";
    REQUIRE(rig.Start().ok());
    CHECK(rig.AskBack(kSecond).attributes.at("counters.0.not_recorded") ==
          "this process's CUPTI has no cuptiProfilerInitialize: use the one of CUDA 12.6 or later");
  }
}

TEST_CASE("a path without a library is refused at the start", "[counters]") {
  Rig rig;
  rig.options.library = "/nowhere/libcupti.so.13";
  const Status status = rig.Start();
  CHECK(status.code() == StatusCode::kNotFound);
  CHECK_THAT(status.message(), Catch::StartsWith("CounterOptions::library is /nowhere/libcupti.so.13: No such file"));
}

TEST_CASE("a library is not opened next to another CUPTI of the process, and the reason says so", "[counters]") {
  Rig rig;
  const fakes::TempDirectory directory;
  const std::string other = std::string(directory.path()) + "/libcupti-other.so.13";
  std::filesystem::copy_file(PITOT_TEST_FAKE_PM, other);
  void* const handle = dlopen(other.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle != nullptr);
  rig.options.library = "libcupti-nowhere.so.13";
  REQUIRE(rig.Start().ok());
  CHECK(
      rig.AskBack(kSecond).attributes.at("counters.0.not_recorded") ==
      "CounterOptions::library is libcupti-nowhere.so.13, and this process has loaded another CUPTI: leave the option "
      "out to use that one");
  rig.collector->Stop();
  dlclose(handle);
}

TEST_CASE("a process has one counter collector at a time", "[counters]") {
  Rig first;
  Rig second(&first);
  first.environment.is_only = second.environment.is_only = true;
  REQUIRE(first.Start().ok());
  CHECK(second.Start().code() == StatusCode::kAlreadyRunning);
  first.collector->Stop();
  CHECK(second.Start().ok());
}

TEST_CASE("the child of a fork has no samples, and its parent goes on", "[counters]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  const pid_t child = fork();
  if (child == 0) {
    Trace trace;
    rig.collector->Keep(0, pitot::KeepFor::kIncident);
    rig.collector->AddTo(trace);
    const bool is_silent = trace.samples.empty() && !rig.collector->Pause().ok();
    rig.collector->Stop();
    _exit(is_silent ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  REQUIRE(rig.timer->Pass(kSecond));
  CHECK_FALSE(rig.AskBack(kSecond).Of("SM active").empty());
}

TEST_CASE("options out of range are refused by name", "[counters]") {
  Rig rig;
  SECTION("interval") { rig.options.interval_us = 50; }
  SECTION("share") { rig.options.most_cpu_percent = 0; }
  SECTION("memory") { rig.options.memory_bytes = 1 << 10; }
  const Status status = rig.Start();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(std::string(status.message()).find("CounterOptions::") == 0);
}

TEST_CASE("only the newest samples are kept, within the given memory", "[counters]") {
  Rig rig;
  rig.options.memory_bytes = 64 << 10;  // 1,024 samples, 4.1 s
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(10 * kSecond));
  const int64_t now_ns = rig.timer->NowNs();
  const Trace trace = rig.AskBack(8 * kSecond);
  CHECK(rig.collector->HeldBytes() <= 64 << 10);
  const Trace::Samples sampled = trace.Of("sampled");
  REQUIRE(sampled.size() == 3);
  CHECK(sampled[0] == std::pair<int64_t, double>{now_ns - 8 * kSecond, 0});
  CHECK(sampled[1].second == 1);
  CHECK(sampled[1].first == now_ns - 1024 * 4 * kMs);
}
