// SPDX-License-Identifier: Apache-2.0
//
// What happens to a server's GPUs and driver while their counters are sampled. Each day ends in a message, a counted
// loss, and a server that runs on.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "collect/counters/rig.h"
#include "fakes/child.h"
#include "fakes/scale.h"
#include "fakes/temp_directory.h"
#include "fakes/wait_until.h"
#include "pitot/collect/counters.h"

using namespace fakes;
using Trace = CounterTrace;

namespace {

std::vector<counters::Gpu> ManyGpus(uint32_t count) {
  std::vector<counters::Gpu> gpus;
  for (uint32_t i = 0; i < count; ++i) gpus.push_back({i, "NVIDIA H100", "GPU-00000000-" + std::to_string(i)});
  return gpus;
}

uint64_t Calls(Rig& rig) { return rig.Seen(&FakePm::calls); }

}  // namespace

TEST_CASE("a GPU that falls off the bus is told and its loss counted, while others are sampled", "[counters]") {
  Rig rig;
  rig.gpus = {{0, "first"}, {1, "second"}};
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  rig.Script([](FakePm& fake) { fake.lost = {1}; });
  REQUIRE(rig.timer->Pass(5 * kSecond));
  Trace trace = rig.AskBack(kSecond);
  CHECK(trace.NotRecorded(1) ==
        "cuptiPmSamplingDecodeData: CUPTI_ERROR_OTHER; this process may still hold the GPU: cuptiPmSamplingDisable: "
        "CUPTI_ERROR_OTHER");
  CHECK(trace.Lost(1) == 1250);
  CHECK(trace.Attribute("failed_calls", 1) == "3, the newest cuptiPmSamplingDisable: CUPTI_ERROR_OTHER");
  CHECK(trace.Of("SM active", 1).empty());
  REQUIRE(rig.timer->Pass(60 * kSecond));
  trace = rig.AskBack(kSecond);
  CHECK(Has(trace.NotRecorded(1), "cuptiDeviceGetChipName: CUPTI_ERROR_OTHER"));
  CHECK(trace.Lost(1) == 65 * 250);
  CHECK(trace.Attribute("failed_calls", 1).find("9, ") == 0);  // one more every 10 s
  CHECK(trace.Lost(0) == 0);
  CHECK_FALSE(trace.Of("SM active", 0).empty());
  CHECK_FALSE(rig.collector->Pause().ok());
  REQUIRE(rig.collector->Resume().ok());

  rig.Script([](FakePm& fake) { fake.lost.clear(), fake.held.erase(1); });  // reset by an administrator
  REQUIRE(rig.timer->Pass(11 * kSecond));
  trace = rig.AskBack(500 * kMs);
  CHECK(trace.NotRecorded(1).empty());
  CHECK_FALSE(trace.Of("SM active", 1).empty());
  rig.collector->Stop();
}

TEST_CASE("a driver that is upgraded while it samples is told, its loss counted, and CUPTI left in peace",
          "[counters]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  rig.Script([](FakePm& fake) { fake.all_fail_with = counters::kNotCompatible; });
  REQUIRE(rig.timer->Pass(2 * kSecond));
  const uint64_t calls = Calls(rig);
  REQUIRE(rig.timer->Pass(60 * kSecond));
  CHECK(Calls(rig) - calls == 6);  // one every 10 s
  const Trace trace = rig.AskBack(kSecond);
  CHECK(trace.NotRecorded().find("CUPTI and the driver do not fit together (CUPTI_ERROR_NOT_COMPATIBLE): if the driver "
                                 "was upgraded, start the process again") == 0);
  CHECK(trace.Lost() == 62 * 250);
  CHECK_FALSE(rig.collector->Pause().ok());
  rig.collector->Stop();
}

TEST_CASE("one process samples eight GPUs for all, and another takes all over", "[counters]") {
  const TempDirectory temp;
  Rig first;
  first.environment.shared_directory = temp.path();
  Rig second(&first);
  first.gpus = second.gpus = ManyGpus(8);
  const auto pass = [&](int64_t ns) {
    for (int64_t passed = 0; passed < ns; passed += 100 * kMs) {
      if (first.collector != nullptr) REQUIRE(first.timer->Pass(100 * kMs));
      if (first.collector == nullptr) first.timer->Set(first.timer->NowNs() + 100 * kMs);
      REQUIRE(second.timer->Pass(100 * kMs));
    }
  };
  REQUIRE(first.Start().ok());
  REQUIRE(second.Start().ok());
  pass(2 * kSecond);
  CHECK(first.Seen(&FakePm::held).size() == 8);
  CHECK(first.fake->calls_of["cuptiPmSamplingEnable"] == 8);  // the second never asked
  const Trace trace = second.AskBack(kSecond);
  for (uint32_t gpu = 0; gpu < 8; ++gpu) {
    INFO(gpu);
    CHECK_FALSE(trace.Of("SM active", gpu).empty());
    CHECK(trace.Lost(gpu) == 0);
    CHECK(Has(trace.Attribute("sampled_by", gpu), "process "));
  }

  first.collector->Stop();
  first.collector.reset();
  CHECK(first.Seen(&FakePm::held).empty());
  pass(3 * kSecond);
  CHECK(first.Seen(&FakePm::sampling) == 8);
  const Trace later = second.AskBack(500 * kMs);
  for (uint32_t gpu = 0; gpu < 8; ++gpu) CHECK_FALSE(later.Of("SM active", gpu).empty());
}

TEST_CASE("eight GPUs together keep to one share of a CPU", "[counters]") {
  Rig rig;
  rig.gpus = ManyGpus(8);
  rig.cpu_share = 0.08;  // four times too much
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(12 * kSecond));
  CHECK(rig.Seen(&FakePm::interval_ns) == 16'000'000);
  const Trace trace = rig.AskBack(500 * kMs);
  for (uint32_t gpu = 0; gpu < 8; ++gpu) CHECK(trace.Attribute("interval_us", gpu) == "16000");
}

TEST_CASE("a device reset by the host that ends its sampler is told, counted, and sampled again", "[counters]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  rig.Script([](FakePm& fake) { fake.ResetDevice(0); });
  REQUIRE(rig.timer->Pass(kSecond));
  CHECK(rig.AskBack(kSecond).NotRecorded().find("cuptiPmSamplingDecodeData: CUPTI_ERROR_OTHER") == 0);
  REQUIRE(rig.timer->Pass(11 * kSecond));
  CHECK(rig.Seen(&FakePm::sampling) == 1);
  const Trace trace = rig.AskBack(kSecond);
  CHECK(trace.NotRecorded().empty());
  CHECK(trace.Lost() == 2625);  // from the last round before to 10 s after the next one
  CHECK_FALSE(trace.Of("SM active").empty());
  CHECK(rig.collector->Pause().ok());
  CHECK(rig.Seen(&FakePm::enabled) == 0);
}

TEST_CASE("while a graph is captured only functions are called that were tried in a capture on a GPU", "[counters]") {
  // docs/lab/counters.md, "Behaviour": sampling was started, read and stopped while a graph was captured.
  const std::set<std::string> tried(std::begin(kPmFunctions), std::end(kPmFunctions));
  Rig rig;
  rig.Script([](FakePm& fake) { fake.is_capturing = true; });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  CHECK_FALSE(rig.AskBack(kSecond).Of("SM active").empty());
  REQUIRE(rig.collector->Pause().ok());
  REQUIRE(rig.collector->Resume().ok());
  rig.collector->Stop();
  CHECK(rig.Seen(&FakePm::in_a_capture) == tried);
}

TEST_CASE("the collector knows no function of CUDA's driver that a capture forbids", "[counters]") {
  // The driver is opened at run time: a function that is called has its name in the program. The last two are for
  // `pitot counters serve`, which has no other work.
  const std::set<std::string> harmless = {
      "cuDeviceGetCount",           "cuDeviceGet",        "cuDeviceGetName",    "cuDeviceGetUuid",
      "cuDevicePrimaryCtxGetState", "cuDriverGetVersion", "cuDeviceGetUuid_v2", "cuInit",
      "cuDevicePrimaryCtxRetain"};
  Dl_info info{};
  REQUIRE(dladdr(reinterpret_cast<void*>(&pitot::MakeCounterCollector), &info) != 0);
  std::ifstream file(info.dli_fname, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  std::set<std::string> named;
  for (size_t at = bytes.find(std::string("\0cu", 3)); at != std::string::npos;
       at = bytes.find(std::string("\0cu", 3), at + 1)) {
    const std::string name = bytes.c_str() + at + 1;
    const auto is_letter = [](char c) { return isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    if (name.size() > 5 && isupper(static_cast<unsigned char>(name[2])) != 0 &&
        std::all_of(name.begin(), name.end(), is_letter))
      named.insert(name);
  }
  CHECK(named == harmless);
}

TEST_CASE("a host can exit while samples are decoded, and CUPTI is not called while it is torn down", "[counters]") {
  if (kThreadSanitizer) return;  // it loses count of locks in a child with threads
  const int code = InChild([] {
    static auto* const rig = new Rig;
    // Runs after the collector's handler, because that was registered later: CUPTI is then torn down.
    std::atexit([] {
      const uint64_t before = Calls(*rig);
      rig->timer->Set(rig->timer->NowNs() + 20 * kSecond);
      if (!rig->timer->AwaitIdle()) _exit(2);
      rig->collector.reset();
      if (Calls(*rig) != before) _exit(3);
    });
    HOLDS(rig->Start().ok());
    HOLDS(rig->timer->Pass(kSecond));
    rig->Script([](FakePm& fake) { fake.hang_in = "cuptiPmSamplingDecodeData"; });
    rig->timer->Set(rig->timer->NowNs() + kSecond);
    HOLDS(WaitUntil([] { return rig->Seen(&FakePm::is_hanging); }));
    std::atexit([] { rig->Script([](FakePm& fake) { fake.hang_in.clear(); }); });  // runs first: the begun call ends
    std::exit(7);
    return 1;
  });
  CHECK(code == 7);
}
