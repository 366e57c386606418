// SPDX-License-Identifier: Apache-2.0
//
// Outcomes of errors.
#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "collect/nvml/rig.h"
#include "fakes/temp_directory.h"

namespace {

using fakes::CountSamplingThreads;
using fakes::FakeNvml;
using fakes::kMs;
using fakes::kSecond;
using fakes::Rig;
using fakes::Trace;
using pitot::Status;
using pitot::StatusCode;
using pitot::nvml::Result;

bool HasNoThread() {
  return fakes::WaitUntil([] { return CountSamplingThreads() == 0; });
}

}  // namespace

TEST_CASE("Start without a driver says where NVML comes from", "[nvml]") {
  Rig rig;
  rig.options.library = "/nowhere/libnvidia-ml.so.1";
  const Status status = rig.Start();

  CHECK(status.code() == StatusCode::kNotFound);
  CHECK_THAT(status.message(), Catch::Contains("NVIDIA's driver") && Catch::Contains("/nowhere/libnvidia-ml.so.1"));
  CHECK(HasNoThread());
}

TEST_CASE("a file that is not a library is refused", "[nvml]") {
  const fakes::TempDirectory directory;
  const std::string path = directory / "libnvidia-ml.so.1";
  std::ofstream(path) << "not a library";
  Rig rig;
  rig.options.library = path.c_str();
  const Status status = rig.Start();

  CHECK(status.code() == StatusCode::kNotFound);
  CHECK_THAT(status.message(), Catch::Contains("libnvidia-ml.so.1"));
}

TEST_CASE("a library that is not NVML is refused by the name of a missing function", "[nvml]") {
  Rig rig;
  rig.options.library = PITOT_TEST_FAKE_NVML_EMPTY;
  const Status status = rig.Start();

  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK_THAT(status.message(), Catch::Contains("no nvmlInit_v2"));
}

TEST_CASE("Start names the remedy for a driver that does not work", "[nvml]") {
  Rig rig;
  const auto [result, code, advice] = GENERATE(table<Result, StatusCode, const char*>({
      {pitot::nvml::kDriverNotLoaded, StatusCode::kNotFound, "DRIVER_NOT_LOADED: NVIDIA's kernel driver"},
      {pitot::nvml::kNoPermission, StatusCode::kUnavailable, "NO_PERMISSION: give the process access to /dev/nvidia"},
      {pitot::nvml::kLibraryDriverMismatch, StatusCode::kUnavailable, "have different versions"},
      {pitot::nvml::kGpuNotFound, StatusCode::kNotFound, "no GPU"},
      {static_cast<Result>(1234), StatusCode::kUnavailable, "nvmlInit_v2 failed with error 1234"},
  }));
  rig.Script([init = result](FakeNvml& fake) { fake.results["nvmlInit_v2"] = init; });
  const Status status = rig.Start();

  CHECK(status.code() == code);
  CHECK_THAT(status.message(), Catch::Contains(advice));
  CHECK(HasNoThread());
}

TEST_CASE("a driver that sees no GPU is left alone", "[nvml]") {
  Rig rig;
  rig.Script([](FakeNvml& fake) { fake.gpus.clear(); });

  CHECK(rig.Start().code() == StatusCode::kNotFound);
  CHECK(rig.Seen(&FakeNvml::inits) == 0);
  CHECK(HasNoThread());
}

TEST_CASE("GPUs that may not be used are reported", "[nvml]") {
  Rig rig;
  rig.Script([](FakeNvml& fake) {
    fake.gpus.resize(2);
    fake.results["nvmlDeviceGetHandleByIndex_v2@0"] = pitot::nvml::kNoPermission;
  });
  SECTION("one of them") {
    REQUIRE(rig.Start().ok());
    REQUIRE(rig.timer->Pass(kSecond));
    const Trace trace = rig.AskBack(kSecond);
    CHECK(trace.Has("power", 1));
    CHECK(trace.attributes.at("nvml.0.utilization") == "NO_PERMISSION");
  }
  SECTION("all of them") {
    rig.Script([](FakeNvml& fake) { fake.results["nvmlDeviceGetHandleByIndex_v2"] = pitot::nvml::kNoPermission; });
    const Status status = rig.Start();
    CHECK(status.code() == StatusCode::kUnavailable);
    CHECK_THAT(status.message(), Catch::Contains("/dev/nvidia"));
    CHECK(rig.Seen(&FakeNvml::inits) == 0);
  }
}

TEST_CASE("impossible options are refused by name", "[nvml]") {
  Rig rig;
  SECTION("never") { rig.options.rate_hz = 0; }
  SECTION("too often") { rig.options.rate_hz = 51; }
  SECTION("too little memory") { rig.options.memory_bytes = 1000; }
  SECTION("too much memory") { rig.options.memory_bytes = ~0ull; }
  const Status status = rig.Start();

  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK_THAT(status.message(), Catch::Contains("NvmlOptions::"));
  CHECK(rig.Seen(&FakeNvml::calls) == 0);
}

TEST_CASE("an unsupported call is made once, and reported", "[nvml]") {
  Rig rig;
  rig.Script([](FakeNvml& fake) { fake.results["nvmlDeviceGetPowerUsage"] = pitot::nvml::kNotSupported; });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(120 * kSecond));
  const Trace trace = rig.AskBack(kSecond);

  CHECK(rig.CallsOf("nvmlDeviceGetPowerUsage") == 1);
  CHECK_FALSE(trace.Has("power"));
  CHECK(trace.attributes.at("nvml.0.power") == "NOT_SUPPORTED");
  CHECK(trace.attributes.count("nvml.0.temperature") == 0);
}

TEST_CASE("a call without permission is made again each minute", "[nvml]") {
  Rig rig;
  rig.Script([](FakeNvml& fake) { fake.results["nvmlDeviceGetPowerUsage"] = pitot::nvml::kNoPermission; });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(121 * kSecond));
  CHECK(rig.CallsOf("nvmlDeviceGetPowerUsage") == 3);
  CHECK(rig.AskBack(kSecond).attributes.at("nvml.0.power") == "NO_PERMISSION, failed 3 times, is asked again");

  rig.Script([](FakeNvml& fake) { fake.results.clear(); });
  REQUIRE(rig.timer->Pass(61 * kSecond));
  const Trace trace = rig.AskBack(kSecond);
  CHECK(trace.Of("power").last() == 350.5);
  CHECK(trace.attributes.at("nvml.0.power") == "NO_PERMISSION, failed 3 times, works again");
}

TEST_CASE("another error costs a second of its counter", "[nvml]") {
  Rig rig;
  rig.Script([](FakeNvml& fake) { fake.results["nvmlDeviceGetPowerUsage"] = pitot::nvml::kUnknown; });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(3050 * kMs));

  CHECK(rig.CallsOf("nvmlDeviceGetPowerUsage") == 4);
  CHECK(rig.CallsOf("nvmlDeviceGetTemperature") == 31);
}

TEST_CASE("a lost GPU ends, and the others go on", "[nvml]") {
  Rig rig;
  rig.Script([](FakeNvml& fake) { fake.gpus.resize(2); });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(950 * kMs));
  rig.Script([](FakeNvml& fake) { fake.results["lost@0"] = pitot::nvml::kGpuIsLost; });
  REQUIRE(rig.timer->Pass(4050 * kMs));
  Trace trace = rig.AskBack(10 * kSecond);
  const uint64_t calls = rig.Seen(&FakeNvml::calls);

  CHECK(trace.attributes.at("nvml.0.utilization") ==
        "GPU_IS_LOST 4.000 s before the end of the window: nothing of this GPU since");
  CHECK(trace.Has("power", 0));
  CHECK(trace.Of("power", 1).samples.size() == 6);
  REQUIRE(rig.timer->Pass(50 * kMs));
  CHECK(rig.AskBack(kSecond).Has("power", 0) == false);
  CHECK(rig.Seen(&FakeNvml::calls) == calls);

  rig.Script([](FakeNvml& fake) { fake.results.clear(); });
  REQUIRE(rig.timer->Pass(120 * kSecond));
  CHECK_FALSE(rig.AskBack(kSecond).Has("power", 0));
}

TEST_CASE("GPM is tried again each minute after it stops working, and counted", "[nvml]") {
  Rig rig;
  rig.Script([](FakeNvml& fake) {
    fake.gpus[0].has_gpm = true;
    fake.gpus[0].gpm = {{2, 70}};
  });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(2 * kSecond));
  const char* const function = GENERATE("nvmlGpmSampleGet", "nvmlGpmMetricsGet");
  const Result result = GENERATE(pitot::nvml::kNoPermission, pitot::nvml::kNotSupported, pitot::nvml::kUnknown);
  rig.Script([&](FakeNvml& fake) { fake.results[function] = result; });
  REQUIRE(rig.timer->Pass(130 * kSecond));
  CHECK_FALSE(rig.AskBack(kSecond).Has("SM active"));
  CHECK(rig.AskBack(kSecond).attributes.at("nvml.0.gpm") ==
        pitot::nvml::ResultName(result) + ", failed 3 times, is asked again");
  CHECK(rig.AskBack(kSecond).Has("power"));

  rig.Script([](FakeNvml& fake) { fake.results.clear(); });
  REQUIRE(rig.timer->Pass(61 * kSecond));
  const Trace trace = rig.AskBack(kSecond);
  CHECK(trace.Of("SM active").last() == 70);
  CHECK_THAT(trace.attributes.at("nvml.0.gpm"), Catch::Contains("works again"));
}

TEST_CASE("a GPU without GPM is asked once", "[nvml]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(130 * kSecond));

  CHECK(rig.CallsOf("nvmlGpmQueryDeviceSupport") == 1);
  CHECK(rig.AskBack(kSecond).attributes.at("nvml.0.gpm") == "NOT_SUPPORTED");
}

TEST_CASE("a broken set of events is made again after a minute", "[nvml]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  rig.Script([](FakeNvml& fake) { fake.results["nvmlEventSetWait_v2"] = pitot::nvml::kUnknown; });
  REQUIRE(rig.timer->Pass(kSecond));
  CHECK(rig.Seen(&FakeNvml::event_sets) == 0);
  CHECK(rig.AskBack(kSecond).attributes.at("nvml.0.xid") == "UNKNOWN, failed once, is asked again");

  rig.Script([](FakeNvml& fake) { fake.results.clear(); });
  REQUIRE(rig.timer->Pass(61 * kSecond));
  CHECK(rig.Seen(&FakeNvml::event_sets) == 1);
  CHECK(rig.AskBack(kSecond).Has("XID errors"));
}

TEST_CASE("an old driver costs only its missing counters", "[nvml]") {
  Rig rig(PITOT_TEST_FAKE_NVML_OLD);
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(2 * kSecond));
  const Trace trace = rig.AskBack(kSecond);

  CHECK(trace.counters.empty());
  for (const char* source : {"utilization", "memory", "sm_clock", "power", "temperature", "clock_event_reasons",
                             "power_cap_time", "pcie_sent", "process_memory", "ecc_corrected", "xid", "gpm"})
    CHECK(trace.attributes.at(std::string("nvml.0.") + source) == "FUNCTION_NOT_FOUND: the driver is older than this");
  rig.collector->Stop();
  CHECK(rig.Seen(&FakeNvml::inits) == 0);
}

TEST_CASE("an error in any call costs only the values of that call", "[nvml]") {
  const Result result = GENERATE(pitot::nvml::kUnknown, pitot::nvml::kGpuIsLost, pitot::nvml::kNoPermission,
                                 pitot::nvml::kNotSupported, pitot::nvml::kUninitialized, static_cast<Result>(-5));
  uint64_t calls = 0;
  // None fails the first time.
  for (uint64_t n = 0; n <= calls; ++n) {
    INFO("call " << n << " fails with " << result);
    Rig rig;
    rig.Script([&](FakeNvml& fake) {
      fake.gpus.resize(2);
      for (auto& gpu : fake.gpus) {
        gpu.has_gpm = true;
        gpu.gpm = {{2, 70}};
        gpu.fields = {{74, {1}}, {269, {1}}, {197, {1}}};
      }
      fake.fail_at_call = n;
      fake.fail_with = result;
    });
    if (const Status status = rig.Start(); status.ok()) {
      REQUIRE(rig.timer->Pass(350 * kMs));
      const Trace trace = rig.AskBack(kSecond);
      const bool has_either = trace.Has("temperature", 0) || trace.Has("temperature", 1);
      // The names may have failed.
      CHECK((has_either || trace.sample_count() > 20));
      CHECK_FALSE(trace.has_duplicate);
      rig.collector->Stop();
    } else {
      CHECK(std::string(status.message()).size() > 10);
    }
    if (n == 0) calls = rig.Seen(&FakeNvml::calls);
    // A failed init opened nothing; everything else is closed again.
    CHECK(rig.Seen(&FakeNvml::inits) == 0);
    CHECK(rig.Seen(&FakeNvml::event_sets) == 0);
    CHECK(rig.Seen(&FakeNvml::gpm_samples) == 0);
  }
  CHECK(calls > 100);
  CHECK(HasNoThread());
}
