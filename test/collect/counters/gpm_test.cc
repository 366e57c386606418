// SPDX-License-Identifier: Apache-2.0
//
// NVML's GPM in place of CUPTI, over fakes of both.
#include "collect/counters/gpm.h"

#include <dlfcn.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <limits>
#include <string>

#include "collect/counters/rig.h"
#include "collect/counters/shared_file.h"
#include "collect/nvml/abi.h"
#include "collect/nvml/fake_nvml.h"
#include "fakes/child.h"
#include "fakes/scale.h"
#include "fakes/temp_directory.h"

using namespace fakes;
using Trace = CounterTrace;
namespace counters = pitot::counters;

namespace {

// A GPU that CUPTI may not sample.
class Coarse : public Rig {
 public:
  Coarse() : driver(Open()) {
    driver->Reset();
    driver->gpus[0].has_gpm = true;
    driver->gpus[0].gpm = {
        {nvml::kGpmSmActive, 40}, {nvml::kGpmSmOccupancy, 20}, {nvml::kGpmPcieSent, 3}, {nvml::kGpmNvlinkSent, 0}};
    gpus[0].id = "GPU-00000000";
    environment.nvml = PITOT_TEST_FAKE_NVML;
    Script([](FakePm& pm) { pm.results["cuptiPmSamplingEnable"] = counters::kInsufficientPrivileges; });
  }
  uint64_t Calls(const char* function) {
    const std::lock_guard lock(driver->mutex);
    return driver->calls_of[function];
  }
  template <class Work> void ScriptDriver(Work work) {
    const std::lock_guard lock(driver->mutex);
    work(*driver);
  }
  FakeNvml* const driver;

 private:
  static FakeNvml* Open() {
    void* const handle = dlopen(PITOT_TEST_FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<FakeNvml* (*)()>(dlsym(handle, "fake_nvml"))();
  }
};

}  // namespace

TEST_CASE("a GPU that CUPTI may not sample has NVML's counters, and the incident says why they are coarse",
          "[counters]") {
  Coarse rig;
  const int64_t begin_ns = rig.timer->NowNs();
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(505 * kMs));

  const Trace trace = rig.AskBack(kSecond);

  const std::string source = trace.attributes.at("counters.0.source");
  CHECK(source.find("NVML GPM, every 101 ms, because the driver allows profiling for administrators alone") == 0);
  CHECK(source.find("NVreg_RestrictProfilingToAdminUsers=0") != std::string::npos);
  CHECK(trace.attributes.at("counters.0.interval_us") == "101000");
  CHECK(trace.attributes.count("counters.0.not_recorded") == 0);
  CHECK(trace.Of("SM active") == Trace::Samples{{begin_ns, 40}});
  CHECK(trace.Of("SM occupancy") == Trace::Samples{{begin_ns, 20}});
  CHECK(trace.Of("PCIe sending") == Trace::Samples{{begin_ns, 3.0 * 1024 * 1024}});
  CHECK(trace.Of("NVLink sending") == Trace::Samples{{begin_ns, 0}});
  CHECK(trace.Of("tensor cores active").empty());  // not measured, and not 0
  CHECK(trace.Of("engine active").empty());
  CHECK(trace.Of("sampled") ==
        Trace::Samples{{begin_ns + 505 * kMs - kSecond, 0}, {begin_ns, 1}, {begin_ns + 505 * kMs, 0}});
}

TEST_CASE("GPM is never asked twice within 101 ms, not even for incidents, for it answers 0 then", "[counters]") {
  Coarse rig;
  REQUIRE(rig.Start().ok());
  for (int i = 0; i < 20; ++i) {
    REQUIRE(rig.timer->Pass(51 * kMs));
    rig.collector->Keep(rig.timer->NowNs() - kSecond, pitot::KeepFor::kIncident);
    REQUIRE(rig.timer->AwaitIdle());
  }
  CHECK(rig.Calls("nvmlGpmSampleGet") <= 1 + 20 * 51 / 101);
  CHECK(rig.Calls("nvmlGpmSampleGet") >= 8);
}

TEST_CASE("an incident waits for the sample of NVML that has its last moment", "[counters]") {
  Coarse rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(450 * kMs));
  const int64_t asked_ns = rig.timer->NowNs();
  rig.collector->Keep(asked_ns - kSecond, pitot::KeepFor::kIncident);
  REQUIRE(rig.timer->Pass(200 * kMs));
  Trace trace;
  rig.collector->AddTo(trace);
  CHECK(trace.Of("sampled").back().first >= asked_ns);
}

TEST_CASE("a longer interval of the host's holds for GPM, too", "[counters]") {
  Coarse rig;
  rig.options.interval_us = 200'000;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  CHECK(rig.Calls("nvmlGpmSampleGet") == 6);
  CHECK(rig.AskBack(kSecond).attributes.at("counters.0.interval_us") == "200000");
}

TEST_CASE("an interval that is changed while GPM samples holds for GPM, and the incident says so", "[counters]") {
  Coarse rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  REQUIRE(pitot::SetCounterInterval(300'000).ok());
  REQUIRE(rig.timer->Pass(kSecond));
  const Trace trace = rig.AskBack(kSecond, 400 * kMs);
  CHECK(trace.Attribute("interval_us") == "300000");
  CHECK(Has(trace.Attribute("source"), "NVML GPM, every 300 ms, because "));
}

TEST_CASE("an NVML that cannot be initialised is asked again after a minute", "[counters]") {
  Coarse rig;
  rig.driver->results["nvmlInit_v2"] = nvml::kUnknown;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(55 * kSecond));
  CHECK(rig.Calls("nvmlInit_v2") == 1);
  CHECK(rig.AskBack(kSecond).attributes.at("counters.0.not_recorded").find("nvmlInit_v2 answered error 999") !=
        std::string::npos);
  rig.ScriptDriver([](FakeNvml& driver) { driver.results.clear(); });
  REQUIRE(rig.timer->Pass(10 * kSecond));
  CHECK_FALSE(rig.AskBack(kSecond, 200 * kMs).Of("SM active").empty());
}

TEST_CASE("a driver that is upgraded while GPM samples is told with the remedy", "[counters]") {
  Coarse rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  rig.ScriptDriver([](FakeNvml& driver) {
    for (const char* function : {"nvmlInit_v2", "nvmlDeviceGetHandleByUUID", "nvmlGpmSampleGet"})
      driver.results[function] = nvml::kLibraryDriverMismatch;
  });
  REQUIRE(rig.timer->Pass(10 * kSecond));
  CHECK(Has(rig.AskBack(kSecond).NotRecorded(),
            "nvmlGpmSampleGet answered LIB_RM_VERSION_MISMATCH (if the driver was upgraded, start the process again)"));
}

TEST_CASE("if GPM loses its permission, the samples end, the incident says so, and a minute later it is asked again",
          "[counters]") {
  Coarse rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  rig.ScriptDriver([](FakeNvml& driver) { driver.results["nvmlGpmSampleGet"] = nvml::kNoPermission; });
  REQUIRE(rig.timer->Pass(30 * kSecond));
  const Trace trace = rig.AskBack(kSecond, 200 * kMs);
  CHECK(trace.Of("SM active").empty());
  const auto lost = [](const Trace& of) { return std::stoi(of.attributes.at("counters.0.lost_samples")); };
  CHECK(lost(trace) >= 30'000 / 101 - 3);  // one each 101 ms
  CHECK(lost(trace) <= 31'000 / 101 + 3);
  CHECK(trace.attributes.count("counters.0.source") == 0);
  const std::string why = trace.attributes.at("counters.0.not_recorded");
  CHECK(why.find("the driver allows profiling for administrators alone") == 0);
  CHECK(why.find("; NVML's GPM does not help: nvmlGpmSampleGet answered NO_PERMISSION") != std::string::npos);
  const uint64_t asked = rig.Calls("nvmlGpmSampleGet");
  REQUIRE(rig.timer->Pass(20 * kSecond));
  CHECK(rig.Calls("nvmlGpmSampleGet") == asked);
  CHECK(rig.driver->gpm_samples == 0);

  rig.ScriptDriver([](FakeNvml& driver) { driver.results.clear(); });
  REQUIRE(rig.timer->Pass(20 * kSecond));
  const Trace again = rig.AskBack(kSecond, 200 * kMs);
  CHECK_FALSE(again.Of("SM active").empty());
  CHECK(lost(again) > lost(trace));
  CHECK(lost(again) <= 61'000 / 101);  // none any more
  REQUIRE(rig.timer->Pass(10 * kSecond));
  CHECK(lost(rig.AskBack(kSecond, 200 * kMs)) == lost(again));
}

TEST_CASE("whichever part of GPM is missing, the incident has both reasons and nothing leaks", "[counters]") {
  Coarse rig;
  const char* why = nullptr;
  SECTION("the library") {
    rig.environment.nvml = "/no/such/libnvidia-ml.so.1";
    why = "cannot load /no/such/libnvidia-ml.so.1";
  }
  SECTION("its functions") {
    rig.environment.nvml = "libm.so.6";
    why = "libm.so.6 has no nvmlInit_v2";
  }
  SECTION("the driver") {
    rig.ScriptDriver([](FakeNvml& driver) { driver.results["nvmlInit_v2"] = nvml::kDriverNotLoaded; });
    why = "nvmlInit_v2 answered error 9";
  }
  SECTION("the device") {
    rig.gpus[0].id = "GPU-unknown";
    why = "nvmlDeviceGetHandleByUUID answered NOT_FOUND";
  }
  SECTION("the support of an older GPU") {
    rig.ScriptDriver([](FakeNvml& driver) { driver.gpus[0].has_gpm = false; });
    why = "nvmlGpmQueryDeviceSupport answered NOT_SUPPORTED";
  }
  SECTION("memory") {
    rig.ScriptDriver([](FakeNvml& driver) { driver.results["nvmlGpmSampleAlloc"] = nvml::kMemory; });
    why = "nvmlGpmSampleAlloc answered error 20";
  }
  SECTION("the metrics") {
    rig.ScriptDriver([](FakeNvml& driver) { driver.results["nvmlGpmMetricsGet"] = nvml::kUnknown; });
    why = "nvmlGpmMetricsGet answered error 999";
  }
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  const std::string reason = rig.AskBack(kSecond, 200 * kMs).attributes.at("counters.0.not_recorded");
  CHECK(reason.find("administrators alone") != std::string::npos);
  CHECK(reason.find(why) != std::string::npos);
  rig.collector->Stop();
  CHECK(rig.driver->gpm_samples == 0);
}

TEST_CASE("a part of a divided GPU is sampled as such", "[counters]") {
  Coarse rig;
  rig.ScriptDriver([](FakeNvml& driver) { driver.gpus[0].has_parts = true; });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  CHECK(rig.Calls("nvmlGpmSampleGet") == 0);
  CHECK(rig.AskBack(kSecond, 200 * kMs).Of("SM active").back().second == 40);
}

TEST_CASE("Pause and a release end GPM's samples, and after them it goes on", "[counters]") {
  Coarse rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  REQUIRE(rig.collector->Pause().ok());
  const uint64_t asked = rig.Calls("nvmlGpmSampleGet");
  REQUIRE(rig.timer->Pass(kSecond));
  CHECK(rig.Calls("nvmlGpmSampleGet") == asked);
  CHECK(rig.AskBack(kSecond, 200 * kMs).attributes.at("counters.0.not_recorded") == "given away by Recorder::Pause");
  REQUIRE(rig.collector->Resume().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  CHECK(rig.AskBack(kSecond, 200 * kMs).attributes.count("counters.0.source") == 1);
}

TEST_CASE("the samples of a process that may use CUPTI are preferred, and a window has those of one source alone",
          "[counters]") {
  const TempDirectory temp;
  Coarse rig;
  rig.environment.shared_directory = temp.path();
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  counters::SharedFile file(temp.path(), rig.gpus[0].id);
  const int64_t now_ns = rig.timer->NowNs(), realtime_ns = now_ns + kAheadNs;
  REQUIRE(file.Begin(counters::ThisProcess(), 4000, realtime_ns).empty());
  REQUIRE(rig.timer->Pass(kSecond));
  counters::Sample sample = counters::Unmeasured(realtime_ns + 996 * kMs, realtime_ns + kSecond);
  sample.values[counters::ColumnOf(pitot::base::GpuCounter::kEngineActive)] = 90;
  REQUIRE(file.Write({sample}, 0, realtime_ns + kSecond).empty());
  REQUIRE(rig.timer->Pass(kSecond));
  rig.collector->Keep(now_ns - kSecond, pitot::KeepFor::kIncident);
  REQUIRE(rig.timer->Pass(2 * kSecond));
  Trace trace;
  rig.collector->AddTo(trace);
  CHECK(trace.attributes.count("counters.0.sampled_by") == 1);
  CHECK(trace.Of("engine active") == Trace::Samples{{now_ns + 996 * kMs, 90}});
  CHECK(trace.Of("SM active").empty());
  CHECK(trace.Of("sampled") == Trace::Samples{{now_ns - kSecond, 0}, {now_ns + 996 * kMs, 1}, {now_ns + kSecond, 0}});
}

TEST_CASE("a host can exit while GPM samples, and NVML is not called while it is torn down", "[counters]") {
  if (kThreadSanitizer) return;  // it loses count of locks in a child with threads
  const int code = InChild([] {
    static auto* const rig = new Coarse;
    std::atexit([] {  // runs after the collector's handler
      const int samples = rig->driver->gpm_samples;
      const uint64_t before = rig->Calls("nvmlGpmSampleGet");
      rig->timer->Set(rig->timer->NowNs() + 20 * kSecond);
      if (!rig->timer->AwaitIdle()) _exit(2);
      rig->collector.reset();
      if (rig->Calls("nvmlGpmSampleGet") != before || rig->Calls("nvmlShutdown") != 0) _exit(3);
      if (rig->driver->gpm_samples != samples) _exit(4);
    });
    HOLDS(rig->Start().ok());
    HOLDS(rig->timer->Pass(kSecond));
    std::exit(7);
    return 1;
  });
  CHECK(code == 7);
}
