// SPDX-License-Identifier: Apache-2.0
//
// Counters of GPUs in a trace.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "collect/nvml/rig.h"

namespace {

using fakes::FakeNvml;
using fakes::kMs;
using fakes::kOwnPid;
using fakes::kSecond;
using fakes::Rig;
using fakes::Trace;
using pitot::nvml::ProcessInfo;
using Values = std::vector<double>;

constexpr unsigned int kOtherPid = 99;

}  // namespace

TEST_CASE("each GPU's state becomes counters with units", "[nvml]") {
  Rig rig;
  rig.Script([](FakeNvml& fake) {
    fake.gpus.resize(2);
    fake.gpus[1].power_milliwatts = 99'000;
    fake.gpus[0].ecc_uncorrected = 2;
  });
  REQUIRE(rig.Start().ok());
  CHECK(rig.collector->HeldBytes() == rig.options.memory_bytes);
  REQUIRE(rig.timer->Pass(1 * kSecond));
  const Trace trace = rig.AskBack(2 * kSecond);

  const auto is = [&](const char* name, const char* unit, double value) {
    INFO(name);
    REQUIRE(trace.Has(name));
    CHECK(trace.Of(name).unit == unit);
    CHECK(trace.Of(name).last() == value);
  };
  is("utilization", "%", 50);
  is("memory utilization", "%", 20);
  is("memory used", "bytes", 3ull << 30);
  is("memory total", "bytes", 80ull << 30);
  is("SM clock", "MHz", 1980);
  is("memory clock", "MHz", 2619);
  is("power", "W", 350.5);
  is("temperature", "C", 61);
  is("clock event reasons", "", 0);
  is("ECC errors corrected", "", 0);
  is("ECC errors uncorrected", "", 2);
  is("memory of this process", "bytes", 0);
  is("memory of other processes", "bytes", 0);
  is("XID errors", "", 0);
  CHECK(trace.Of("power", 1).last() == 99);
  CHECK_FALSE(trace.has_device);
  CHECK_FALSE(trace.has_duplicate);
  CHECK(trace.attributes.at("nvml.driver") == "580.65.06");
  CHECK(trace.attributes.at("nvml.1") == "NVIDIA Fake 80GB, GPU-00000001, PCI 00000000:1B:00.0");
  CHECK(trace.attributes.count("nvml.no_answer") == 0);
}

TEST_CASE("GPUs are asked ten times a second, for errors and for others' memory, too", "[nvml]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->AwaitIdle());
  CHECK(rig.CallsOf("nvmlDeviceGetPowerUsage") == 1);
  REQUIRE(rig.timer->Pass(3 * kSecond));

  CHECK(rig.CallsOf("nvmlDeviceGetPowerUsage") == 31);
  CHECK(rig.CallsOf("nvmlDeviceGetComputeRunningProcesses_v2") == 31);
  CHECK(rig.CallsOf("nvmlDeviceGetTotalEccErrors") == 62);
  CHECK(rig.AskBack(kSecond).attributes.at("nvml.rounds") == "31");
}

TEST_CASE("a slow call is made once a second until it is faster, in a round of its own for each GPU", "[nvml]") {
  constexpr char kDear[] = "nvmlDeviceGetComputeRunningProcesses_v2", kCheap[] = "nvmlDeviceGetTotalEccErrors";
  Rig rig;
  rig.Script([&](FakeNvml& fake) {
    fake.gpus.resize(2);
    fake.takes_ns = {{kDear, 251'000}, {kCheap, 250'000}};
  });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(950 * kMs));
  CHECK(rig.CallsOf(kDear) == 2 * 2 + 1);  // known after two calls; then the second GPU's, one round before
  CHECK(rig.CallsOf(kCheap) == 2 * 2 * 10);
  CHECK(rig.AskBack(kSecond).attributes.at("nvml.0.call_us") ==
        "process_memory 251.0 (once a second), ecc_corrected 250.0, ecc_uncorrected 250.0");
  REQUIRE(rig.timer->Pass(3 * kSecond));
  CHECK(rig.CallsOf(kDear) == 2 * 2 + 1 + 2 * 3);
  CHECK(rig.CallsOf(kCheap) == 2 * 2 * 40);

  rig.Script([&](FakeNvml& fake) { fake.takes_ns.clear(); });
  REQUIRE(rig.timer->Pass(kSecond));
  const uint64_t before = rig.CallsOf(kDear);
  REQUIRE(rig.timer->Pass(kSecond));
  CHECK(rig.CallsOf(kDear) == before + 2 * 10);
  CHECK(rig.AskBack(kSecond).attributes.count("nvml.0.call_us") == 0);
}

TEST_CASE("a call slow only once, as when the thread lost its CPU, is still made in each round", "[nvml]") {
  constexpr char kCall[] = "nvmlDeviceGetPowerUsage";
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(250 * kMs));
  rig.Script([&](FakeNvml& fake) { fake.takes_ns[kCall] = 20 * kMs; });
  REQUIRE(rig.timer->Pass(100 * kMs));
  rig.Script([&](FakeNvml& fake) { fake.takes_ns.clear(); });
  REQUIRE(rig.timer->Pass(kSecond));

  CHECK(rig.CallsOf(kCall) == 14);
}

TEST_CASE("the host can choose the rate", "[nvml]") {
  Rig rig;
  rig.options.rate_hz = 50;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(2 * kSecond));

  CHECK(rig.CallsOf("nvmlDeviceGetPowerUsage") == 101);
  CHECK(rig.AskBack(kSecond).attributes.at("nvml.rate_hz") == "50");
}

TEST_CASE("an unchanged value is written once a second", "[nvml]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(10 * kSecond));
  const int64_t now_ns = rig.timer->NowNs();
  const Trace trace = rig.AskBack(5 * kSecond);

  const auto& temperature = trace.Of("temperature").samples;
  REQUIRE(temperature.size() == 6);
  for (int i = 0; i < 6; ++i) CHECK(temperature[i].first == now_ns - (5 - i) * kSecond);
}

TEST_CASE("a changed value is written with the round that sees it", "[nvml]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(150 * kMs));
  const int64_t begin_ns = rig.timer->NowNs();
  for (unsigned int celsius = 62; celsius <= 64; ++celsius) {
    rig.Script([&](FakeNvml& fake) { fake.gpus[0].temperature = celsius; });
    REQUIRE(rig.timer->Pass(100 * kMs));
  }
  const Trace trace = rig.Ask(begin_ns);

  CHECK(trace.Of("temperature").values() == Values{61, 62, 63, 64});
  CHECK(trace.Of("temperature").samples[1].first == begin_ns + 50 * kMs);
}

TEST_CASE("a window begins with a counter's value before it", "[nvml]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(3 * kSecond + 450 * kMs));
  const int64_t begin_ns = rig.timer->NowNs() - 100 * kMs;
  const Trace trace = rig.Ask(begin_ns);

  REQUIRE(trace.Of("temperature").samples.size() == 1);
  CHECK(trace.Of("temperature").samples[0] == std::pair<int64_t, double>(begin_ns, 61));
}

TEST_CASE("a value from long before a window does not hold at its beginning", "[nvml]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  rig.Script([](FakeNvml& fake) { fake.results["nvmlDeviceGetTemperature"] = pitot::nvml::kNotSupported; });
  REQUIRE(rig.timer->Pass(10 * kSecond));

  CHECK(rig.AskBack(20 * kSecond).Has("temperature"));
  CHECK_FALSE(rig.AskBack(kSecond).Has("temperature"));
}

TEST_CASE("reasons for low clocks are a mask, and a counter for each kind that was active", "[nvml]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(50 * kMs));
  const auto set = [&](unsigned long long reasons) {
    rig.Script([&](FakeNvml& fake) { fake.gpus[0].reasons = reasons; });
    REQUIRE(rig.timer->Pass(100 * kMs));
  };
  set(pitot::nvml::kReasonSoftwarePowerCap);
  set(pitot::nvml::kReasonSoftwarePowerCap | pitot::nvml::kReasonHardwareThermal);
  set(pitot::nvml::kReasonHardwareThermal | 0x400);
  set(0);
  const int64_t now_ns = rig.timer->NowNs();
  const Trace trace = rig.AskBack(kSecond);

  CHECK(trace.Of("clock event reasons").values() == Values{0, 4, 0x44, 0x440, 0});
  const auto& power = trace.Of("clocks held by SW power cap").samples;
  CHECK(trace.Of("clocks held by SW power cap").values() == Values{0, 1, 0});
  CHECK(power[1].first == now_ns - 350 * kMs);
  CHECK(power[2].first == now_ns - 150 * kMs);
  CHECK(trace.Of("clocks held by HW thermal").values() == Values{0, 1, 0});
  CHECK(trace.Of("clocks held by reason 0x400").values() == Values{0, 1, 0});
  CHECK_FALSE(trace.Has("clocks held by idle"));
  CHECK_FALSE(trace.has_duplicate);
}

TEST_CASE("time with lowered clocks is counted from the start, by the fields of the driver's version", "[nvml]") {
  Rig rig;
  const bool is_new = GENERATE(true, false);
  const unsigned int thermal = is_new ? 269 : 251;
  rig.Script([&](FakeNvml& fake) {
    fake.driver_version = is_new ? "580.65.06" : "575.51.03";
    fake.gpus[0].fields = {{74, {7'000'000'000}}, {251, {1}}, {269, {1}}};
    fake.gpus[0].fields[thermal] = {5'000'000'000};
  });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(50 * kMs));
  rig.Script([&](FakeNvml& fake) { fake.gpus[0].fields[thermal].value += 30'000'000; });
  REQUIRE(rig.timer->Pass(100 * kMs));
  const Trace trace = rig.AskBack(kSecond);

  CHECK(trace.Of("time in SW thermal slowdown").unit == "ns");
  CHECK(trace.Of("time in SW thermal slowdown").values() == Values{0, 30'000'000});
  CHECK(trace.Of("time at the power cap").values() == Values{0});
  CHECK_FALSE(trace.Has("time in HW thermal slowdown"));
  CHECK(trace.attributes.at("nvml.0.hw_thermal_time") == "NOT_SUPPORTED");
}

TEST_CASE("fields with slow answers are asked for once a second, others in each round", "[nvml]") {
  Rig rig;
  rig.Script([](FakeNvml& fake) {
    fake.driver_version = "580.65.06";
    fake.gpus[0].fields = {{269, {1}}, {270, {1}}, {271, {1}}};
    fake.takes_ns = {{"field 270", 520'000}, {"field 271", 520'000}};
  });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(150 * kMs));
  rig.Script([](FakeNvml& fake) {
    for (auto& [id, field] : fake.gpus[0].fields) field.value += 500;
  });
  REQUIRE(rig.timer->Pass(100 * kMs));
  CHECK(rig.AskBack(kSecond).Of("time in SW thermal slowdown").values() == Values{0, 500});
  CHECK(rig.AskBack(kSecond).Of("time in HW thermal slowdown").values() == Values{0});
  REQUIRE(rig.timer->Pass(kSecond));
  const Trace trace = rig.AskBack(2 * kSecond);
  for (const char* name : {"time in HW thermal slowdown", "time in HW power brake slowdown"}) {
    REQUIRE(trace.Has(name));
    CHECK(trace.Of(name).values() == Values{0, 500});
  }
}

TEST_CASE("a driver without fields for lowered clocks is not asked for other drivers' numbers", "[nvml]") {
  Rig rig;
  rig.Script([](FakeNvml& fake) {
    fake.driver_version = "570.1";
    fake.gpus[0].fields = {{251, {1}}, {269, {1}}};
  });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  const Trace trace = rig.AskBack(kSecond);

  CHECK_FALSE(trace.Has("time in SW thermal slowdown"));
  CHECK(trace.attributes.at("nvml.0.sw_thermal_time") == "FUNCTION_NOT_FOUND: the driver is older than this");
}

TEST_CASE("bytes over PCIe go on growing when the driver's narrow counter wraps", "[nvml]") {
  Rig rig;
  rig.Script([](FakeNvml& fake) { fake.gpus[0].fields[197] = {0xffffff00, pitot::nvml::kUnsignedInt}; });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(50 * kMs));
  rig.Script([](FakeNvml& fake) { fake.gpus[0].fields[197].value = 0x100; });
  REQUIRE(rig.timer->Pass(100 * kMs));

  CHECK(rig.AskBack(kSecond).Of("PCIe sent").values() == Values{0, 0x200});
}

TEST_CASE("memory is divided by owner", "[nvml]") {
  Rig rig;
  rig.Script([](FakeNvml& fake) {
    fake.gpus[0].processes = {ProcessInfo{kOtherPid, 100, 0, 0}, ProcessInfo{kOwnPid, 30, 0, 0},
                              ProcessInfo{kOtherPid + 1, 7, 0, 0}};
  });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  const Trace trace = rig.AskBack(kSecond);

  CHECK(trace.Of("memory of this process").last() == 30);
  CHECK(trace.Of("memory of other processes").last() == 107);
  CHECK(trace.Of("other processes").last() == 2);
}

TEST_CASE("nothing is claimed of indistinguishable processes in a PID namespace", "[nvml]") {
  Rig rig;
  rig.environment.own.has_global_pid = false;
  rig.Script([](FakeNvml& fake) { fake.gpus[0].processes = {ProcessInfo{kOtherPid, 100, 0, 0}}; });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(2 * kSecond));
  Trace trace = rig.AskBack(kSecond);

  CHECK_FALSE(trace.Has("memory of this process"));
  CHECK_FALSE(trace.Has("memory of other processes"));
  CHECK_THAT(trace.attributes.at("nvml.0.process_memory"), Catch::Contains("PID namespace"));

  rig.Script([](FakeNvml& fake) { fake.gpus[0].processes.push_back(ProcessInfo{kOwnPid, 5, 0, 0}); });
  REQUIRE(rig.timer->Pass(3 * kSecond));
  trace = rig.AskBack(kSecond);
  CHECK(trace.Of("memory of this process").last() == 5);
  CHECK_THAT(trace.attributes.at("nvml.0.process_memory"), Catch::Contains("works again"));
}

TEST_CASE("memory unknown to the driver is not shown as 0", "[nvml]") {
  Rig rig;
  rig.Script([](FakeNvml& fake) {
    fake.gpus[0].processes = {ProcessInfo{kOwnPid, pitot::nvml::kNotAvailable, 0, 0},
                              ProcessInfo{kOtherPid, pitot::nvml::kNotAvailable, 0, 0}};
  });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  const Trace trace = rig.AskBack(kSecond);

  CHECK_FALSE(trace.Has("memory of this process"));
  CHECK(trace.Of("other processes").last() == 1);
  CHECK_THAT(trace.attributes.at("nvml.0.process_memory"), Catch::Contains("NO_DATA"));
}

TEST_CASE("an XID comes with the round that sees it, on the right GPU", "[nvml]") {
  Rig rig;
  rig.Script([](FakeNvml& fake) { fake.gpus.resize(2); });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(50 * kMs));
  rig.Script([](FakeNvml& fake) {
    pitot::nvml::EventData xid{};
    xid.device = reinterpret_cast<void*>(uintptr_t{1});
    xid.type = pitot::nvml::kEventXid;
    for (const unsigned long long code : {13, 48}) {
      xid.data = code;
      fake.events.push_back(xid);
    }
  });
  REQUIRE(rig.timer->Pass(100 * kMs));
  const Trace trace = rig.AskBack(kSecond);

  CHECK(trace.Of("XID errors", 1).values() == Values{0, 2});
  CHECK(trace.Of("last XID", 1).values() == Values{48});
  CHECK(trace.Of("XID errors", 0).values() == Values{0});
  CHECK_FALSE(trace.Has("last XID", 0));
}

TEST_CASE("the XID of a GPU lost with it stays", "[nvml]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  rig.Script([](FakeNvml& fake) { fake.results["lost@0"] = pitot::nvml::kGpuIsLost; });
  REQUIRE(rig.timer->Pass(kSecond));
  rig.Script([](FakeNvml& fake) {
    pitot::nvml::EventData xid{};
    xid.type = pitot::nvml::kEventXid;
    xid.data = 79;
    fake.events.push_back(xid);
  });
  REQUIRE(rig.timer->Pass(kSecond));

  CHECK(rig.AskBack(kSecond).Of("last XID").last() == 79);
}

TEST_CASE("a GPM metric holds for the time between its two samples", "[nvml]") {
  Rig rig;
  rig.Script([](FakeNvml& fake) {
    fake.gpus[0].has_gpm = true;
    fake.gpus[0].gpm = {{2, 70}, {3, 33.5}, {5, 12}, {10, 55}, {20, 2}, {21, 3}};
  });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(250 * kMs));
  const int64_t start_ns = rig.timer->NowNs() - 250 * kMs;
  rig.Script([](FakeNvml& fake) { fake.gpus[0].gpm[2] = 90; });
  REQUIRE(rig.timer->Pass(200 * kMs));
  const Trace trace = rig.AskBack(kSecond);

  // More than 100 ms apart: every second round of ten a second.
  CHECK(rig.CallsOf("nvmlGpmSampleGet") == 3);
  using Samples = std::vector<std::pair<int64_t, double>>;
  CHECK(trace.Of("SM active").samples == Samples{{start_ns, 70}, {start_ns + 200 * kMs, 90}});
  CHECK(trace.Of("SM occupancy").last() == 33.5);
  CHECK(trace.Of("tensor cores active").last() == 12);
  CHECK(trace.Of("DRAM bandwidth").unit == "%");
  CHECK(trace.Of("PCIe sending").last() == 2 * 1024 * 1024);
  CHECK(trace.Of("PCIe receiving").unit == "bytes/s");
  CHECK_FALSE(trace.Has("NVLink sending"));
  CHECK(trace.attributes.at("nvml.0.gpm_nvlink_sent") == "NOT_SUPPORTED");
}

TEST_CASE("a window that begins between two of GPM's samples begins with their value", "[nvml]") {
  Rig rig;
  rig.Script([](FakeNvml& fake) {
    fake.gpus[0].has_gpm = true;
    fake.gpus[0].gpm = {{2, 70}};
  });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(250 * kMs));
  rig.Script([](FakeNvml& fake) { fake.gpus[0].gpm[2] = 90; });
  const int64_t begin_ns = rig.timer->NowNs();
  REQUIRE(rig.timer->Pass(200 * kMs));
  const Trace trace = rig.Ask(begin_ns);

  REQUIRE(trace.Of("SM active").samples.size() == 1);
  CHECK(trace.Of("SM active").samples[0] == std::pair<int64_t, double>(begin_ns, 90));
}

TEST_CASE("the newest samples survive, and incidents report overwritten ones", "[nvml]") {
  Rig rig;
  rig.options.memory_bytes = 64 << 10;
  REQUIRE(rig.Start().ok());
  for (unsigned int i = 0; i < 1200; ++i) {
    rig.Script([&](FakeNvml& fake) {
      fake.gpus[0].power_milliwatts = i * 1000;
      fake.gpus[0].sm_clock = i;
    });
    REQUIRE(rig.timer->Pass(100 * kMs));
  }
  const int64_t now_ns = rig.timer->NowNs();
  Trace trace = rig.AskBack(120 * kSecond);

  const auto& power = trace.Of("power").samples;
  CHECK(power.back() == std::pair<int64_t, double>(now_ns, 1199));
  // Half of the memory's samples, and the newest overwritten one of each series.
  CHECK(trace.sample_count() <= (32 << 10) / sizeof(pitot::nvml::Sample) + pitot::nvml::kCounterCount);
  CHECK(trace.sample_count() > (32 << 10) / sizeof(pitot::nvml::Sample) * 9 / 10);
  for (size_t i = 1; i < power.size(); ++i) CHECK(power[i].first == power[i - 1].first + 100 * kMs);
  CHECK_THAT(trace.attributes.at("nvml.overwritten"), Catch::Contains("NvmlOptions::memory_bytes"));

  trace = rig.AskBack(5 * kSecond);
  CHECK(trace.Of("power").samples.size() == 51);
  CHECK(trace.attributes.count("nvml.overwritten") == 0);
}

TEST_CASE("GPUs beyond the limit are counted", "[nvml]") {
  Rig rig;
  rig.Script([](FakeNvml& fake) { fake.gpus.resize(70); });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  const Trace trace = rig.AskBack(kSecond);

  CHECK(trace.Has("power", 63));
  CHECK_FALSE(trace.Has("power", 64));
  CHECK(trace.attributes.at("nvml.devices_left_out") == "6");
}

TEST_CASE("rounds missed because of the driver are counted, and not made up for", "[nvml]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(1050 * kMs));
  rig.Script([](FakeNvml& fake) { fake.hang_in = "nvmlDeviceGetPowerUsage"; });
  rig.timer->Set(rig.timer->NowNs() + 50 * kMs);
  REQUIRE(fakes::WaitUntil([&] { return rig.Seen(&FakeNvml::is_hanging); }));
  rig.timer->Set(rig.timer->NowNs() + 520 * kMs);
  rig.Script([](FakeNvml& fake) { fake.hang_in.clear(); });
  REQUIRE(rig.timer->AwaitIdle());
  REQUIRE(rig.timer->Pass(100 * kMs));
  const Trace trace = rig.AskBack(3 * kSecond);

  CHECK(rig.CallsOf("nvmlDeviceGetPowerUsage") == 13);
  CHECK(trace.attributes.at("nvml.missed_rounds") == "5");
}
