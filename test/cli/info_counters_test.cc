// SPDX-License-Identifier: Apache-2.0
//
// `pitot info --counters`: counters of GPUs over the window and during the slow request.
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "base/gpu_counters.h"
#include "cli/folder.h"
#include "fakes/scale.h"
#include "serialize/sample_trace.h"

namespace {

using cli_test::Dump;
using cli_test::Folder;
using cli_test::Result;
using nlohmann::json;
using pitot::base::GpuCounter;
using pitot::model::kNone;
using pitot::model::Trace;
using pitot::test::TraceMaker;

constexpr int64_t kMs = 1'000'000, kBegin = 1'000 * kMs;

// A window of 100 ms, and a GPU.
struct Counted {
  Counted() {
    Trace& trace = maker.trace;
    trace.window_begin_ns = kBegin;
    trace.window_end_ns = kBegin + 100 * kMs;
    trace.clock = {trace.window_end_ns, 1795228277123456789, trace.window_end_ns, true, 2.1, 40};
    trace.devices.push_back({0, maker.String("NVIDIA H100")});
  }
  uint32_t Counter(uint32_t device, const char* name, const char* unit) {
    maker.trace.counters.push_back({device, maker.String(name), maker.String(unit)});
    return static_cast<uint32_t>(maker.trace.counters.size() - 1);
  }
  void Sample(uint32_t counter, int64_t at_ms, double value) {
    maker.trace.samples.counter.push_back(counter);
    maker.trace.samples.at_ns.push_back(kBegin + at_ms * kMs);
    maker.trace.samples.value.push_back(value);
  }
  TraceMaker maker;
};

// From 10 to 90 ms GPU 0 was sampled: DRAM at 20 % until 50 ms, then at 80 %, at 90 % from 80 ms
// on. The request of 40 to 60 ms fired; a longer one did not.
struct Sampled : Counted {
  Sampled() {
    Trace& trace = maker.trace;
    maker.Thread("http");
    const uint32_t sampled = Counter(0, "sampled", "");
    Sample(sampled, 0, 0);
    Sample(sampled, 10, 1);
    Sample(sampled, 90, 0);
    const uint32_t dram = Counter(0, "DRAM bandwidth", "%");
    Sample(dram, 10, 20);
    Sample(dram, 50, 80);
    Sample(dram, 80, 90);
    const uint32_t power = Counter(kNone, "GPU 1 (NVIDIA H100): power", "W");
    Sample(power, 0, 300);
    Sample(Counter(kNone, "GPU 1 (NVIDIA H100): time at the power cap", "ns"), 0, 7);
    maker.Request(0xef01, "/slow", kBegin + 20 * kMs, 70 * kMs);
    maker.Request(0xabcd, "/classify", kBegin + 40 * kMs, 20 * kMs);
    trace.firings.push_back({kBegin + 60 * kMs, 0xabcd, maker.String("latency"), maker.String("20 ms")});
  }
};

int64_t CpuNsOfChildren() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto ns = [](const timeval& time) { return (time.tv_sec * int64_t{1'000'000} + time.tv_usec) * 1000; };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

json Counters(const Folder& folder, const std::string& options = "") {
  const Result result = folder.Run("info --counters --json dump.pitot" + options);
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return json::parse(result.out);
}

json Metric(const json& gpu, const std::string& name) {
  for (const json& metric : gpu.at("metrics")) {
    if (metric.at("name") == name) return metric;
  }
  return {};
}

}  // namespace

TEST_CASE("a GPU's counters are shown over the sampled part of the window, and during the request that fired",
          "[cli]") {
  Sampled sampled;
  const Folder folder;
  folder.Write("dump.pitot", Dump(sampled.maker.Finish()));

  const json counters = Counters(folder);

  CHECK(counters.at("request") == "000000000000abcd");
  REQUIRE(counters.at("gpus").size() == 2);
  const json& gpu = counters.at("gpus")[0];
  CHECK(gpu.at("gpu") == "GPU 0 (NVIDIA H100)");
  CHECK(gpu.at("sampled").get<double>() == Approx(0.8));
  CHECK(Metric(gpu, "DRAM bandwidth") ==
        json::parse(R"({"name": "DRAM bandwidth", "unit": "%", "min": 20.0, "median": 20.0, "max": 90.0,
                        "in_request": 50.0})"));
  CHECK(Metric(gpu, "SM active") == json::parse(R"({"name": "SM active", "unit": "%", "min": null, "median": null,
                                                    "max": null, "in_request": null})"));
  const json& nvml = counters.at("gpus")[1];
  CHECK(nvml.at("gpu") == "GPU 1 (NVIDIA H100)");
  CHECK(nvml.at("source") == "NVML");
  CHECK(Metric(nvml, "power").at("in_request") == 300.0);
  CHECK(nvml.at("metrics").size() == 1);  // a sum since the start has no median
}

TEST_CASE("the text of counters says what was not recorded", "[cli]") {
  Sampled sampled;
  const Folder folder;
  folder.Write("dump.pitot", Dump(sampled.maker.Finish()));

  const std::string text = folder.Run("info --counters dump.pitot").out;

  const auto line = [&](const std::string& name) {
    const size_t at = text.find("  " + name + " ");
    REQUIRE(at != std::string::npos);
    return text.substr(at, text.find('\n', at) - at);
  };
  CHECK(text.rfind("GPU 0 (NVIDIA H100), hardware counters, sampled 80 % of the window\n", 0) == 0);
  CHECK(line("DRAM bandwidth") ==
        "  DRAM bandwidth              %                 20.0          20.0          90.0            50.0");
  CHECK(line("SM active") ==
        "  SM active                   %         not recorded  not recorded  not recorded    not recorded");
  CHECK(text.find("the request: 000000000000abcd /classify, mean of its 20.0 ms\n") != std::string::npos);
}

TEST_CASE("counters are shown during the request asked for", "[cli]") {
  Sampled sampled;
  const Folder folder;
  folder.Write("dump.pitot", Dump(sampled.maker.Finish()));

  const json counters = Counters(folder, " --request ef01");

  CHECK(counters.at("request") == "000000000000ef01");
  CHECK(Metric(counters.at("gpus")[0], "DRAM bandwidth").at("in_request").get<double>() ==
        Approx((30 * 20 + 30 * 80 + 10 * 90) / 70.0));
  CHECK(folder.Run("info --counters dump.pitot --request 77").exit_code == 1);
  CHECK(folder.Run("info dump.pitot --request ef01").exit_code == 2);  // only with --counters
}

TEST_CASE("counters that nobody sampled are not recorded, and the reason is shown", "[cli]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 100 * kMs;
  maker.trace.devices.push_back({0, maker.String("NVIDIA H100")});
  maker.trace.attributes.push_back(
      {maker.String("counters.0.not_recorded"), maker.String("the driver forbids it: RmProfilingAdminOnly")});
  const Folder folder;
  folder.Write("dump.pitot", Dump(maker.Finish()));
  folder.Write("none.pitot", Dump(TraceMaker().Finish()));

  const json gpu = Counters(folder).at("gpus")[0];

  CHECK(gpu.at("not_recorded") == "the driver forbids it: RmProfilingAdminOnly");
  CHECK(gpu.at("sampled").is_null());
  CHECK(Metric(gpu, "DRAM bandwidth").at("median").is_null());
  CHECK(folder.Run("info --counters dump.pitot").out.find("RmProfilingAdminOnly") != std::string::npos);
  CHECK(folder.Run("info --counters none.pitot").exit_code == 1);
}

TEST_CASE("counters of a process without a GPU are not recorded, and that is the reason shown", "[cli]") {
  const std::string why = "this process has used no GPU";
  for (const char* key : {"counters.no_gpu", "counters.not_recorded"}) {  // older dumps have the second
    INFO(key);
    TraceMaker maker;
    maker.trace.window_end_ns = 100 * kMs;
    maker.trace.attributes.push_back({maker.String(key), maker.String(why)});
    const Folder folder;
    folder.Write("none.pitot", Dump(maker.trace));
    maker.trace.devices.push_back({0, maker.String("NVIDIA H100")});
    folder.Write("dump.pitot", Dump(maker.Finish()));

    CHECK(folder.Run("info --counters none.pitot").out == "no GPU in this trace: " + why + "\n");
    CHECK(Counters(folder).at("gpus")[0].at("not_recorded") == why);
  }
}

TEST_CASE("counters of a window with 100,000 values take a fraction of a second", "[cli]") {
  // In each ms in which the GPU was not sampled, the value is another.
  constexpr int kMany = 100'000;
  Counted counted;
  const uint32_t sampled = counted.Counter(0, "sampled", "");
  for (int ms = 0; ms < kMany; ++ms) counted.Sample(sampled, ms, ms % 2);
  const uint32_t dram = counted.Counter(0, "DRAM bandwidth", "%");
  for (int ms = 0; ms < kMany; ++ms) counted.Sample(dram, ms, ms % 2 == 0 ? 90 : ms < kMany / 2 ? 10 : 20);
  counted.maker.trace.window_end_ns = kBegin + kMany * kMs;
  const Folder folder;
  folder.Write("dump.pitot", Dump(counted.maker.Finish()));

  const int64_t before_ns = CpuNsOfChildren();
  const json gpu = Counters(folder).at("gpus")[0];

  CHECK(CpuNsOfChildren() - before_ns < 3'000'000'000 * fakes::kSlower);
  CHECK(gpu.at("sampled").get<double>() == Approx(0.5));
  const json metric = Metric(gpu, "DRAM bandwidth");
  CHECK((metric.at("min") == 10.0 && metric.at("max") == 20.0));
}
