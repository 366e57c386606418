// SPDX-License-Identifier: Apache-2.0
//
// The life of the thread: when it exists, what may stop it, and that it ends.
#include <signal.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <string>

#include "collect/nvml/rig.h"
#include "fakes/child.h"
#include "session/host.h"

namespace {

using fakes::CountSamplingThreads;
using fakes::FakeNvml;
using fakes::kMs;
using fakes::kSecond;
using fakes::Rig;
using fakes::Trace;
using pitot::StatusCode;

bool HasNoThread() {
  return fakes::WaitUntil([] { return CountSamplingThreads() == 0; });
}

// A field of the sampling thread's /proc/.../status, and its number.
std::pair<std::string, int> FieldOfThread(const std::string& field) {
  DIR* const tasks = opendir("/proc/self/task");
  std::pair<std::string, int> found;
  while (const dirent* entry = readdir(tasks)) {
    std::ifstream file(std::string("/proc/self/task/") + entry->d_name + "/status");
    std::string line, value;
    bool is_ours = false;
    while (std::getline(file, line)) {
      if (line == "Name:\tpitot-nvml") is_ours = true;
      if (line.rfind(field + ":\t", 0) == 0) value = line.substr(field.size() + 2);
    }
    if (is_ours) found = {value, std::atoi(entry->d_name)};
  }
  closedir(tasks);
  return found;
}

// A driver that hangs in `function` once the collector has started.
bool Hang(Rig* rig, const char* function) {
  rig->Script([&](FakeNvml& fake) { fake.hang_in = function; });
  rig->timer->Set(rig->timer->NowNs() + 100 * kMs);
  return fakes::WaitUntil([&] { return rig->Seen(&FakeNvml::is_hanging); });
}

}  // namespace

TEST_CASE("NVML is not touched before Start", "[nvml]") {
  Rig rig;
  auto collector = pitot::nvml::MakeCollector(rig.options, rig.environment);
  collector->Keep(0, pitot::KeepFor::kIncident);
  Trace trace;
  collector->AddTo(trace);
  collector->Stop();
  collector.reset();

  CHECK(rig.Seen(&FakeNvml::calls) == 0);
  CHECK(trace.attributes.empty());
  CHECK(CountSamplingThreads() == 0);
}

TEST_CASE("Stop ends the thread and closes everything opened", "[nvml]") {
  Rig rig;
  rig.Script([](FakeNvml& fake) {
    fake.gpus.resize(3);
    for (auto& gpu : fake.gpus) gpu.has_gpm = true;
  });
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  CHECK(CountSamplingThreads() == 1);
  CHECK(rig.Seen(&FakeNvml::gpm_samples) == 6);
  CHECK(rig.Seen(&FakeNvml::event_sets) == 1);
  rig.collector->Stop();

  CHECK(HasNoThread());
  CHECK(rig.Seen(&FakeNvml::inits) == 0);
  CHECK(rig.Seen(&FakeNvml::gpm_samples) == 0);
  CHECK(rig.Seen(&FakeNvml::event_sets) == 0);
  const uint64_t calls = rig.Seen(&FakeNvml::calls);
  rig.collector->Stop();
  CHECK(rig.Seen(&FakeNvml::calls) == calls);
}

TEST_CASE("samples up to Stop are available after it", "[nvml]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  rig.collector->Stop();

  CHECK(rig.AskBack(kSecond).Has("power"));
}

TEST_CASE("a collector starts once", "[nvml]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  CHECK(rig.collector->Start().code() == StatusCode::kAlreadyRunning);
  CHECK(CountSamplingThreads() == 1);
}

TEST_CASE("the thread takes no signal of the host's and gives way to its threads", "[nvml]") {
  Rig rig;
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  REQUIRE(rig.Start().ok());
  pthread_sigmask(SIG_SETMASK, nullptr, &after);

  const auto [blocked, tid] = FieldOfThread("SigBlk");
  const uint64_t mask = std::strtoull(blocked.c_str(), nullptr, 16);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD, SIGALRM, SIGPROF})
    CHECK((mask >> (signal - 1) & 1) == 1);
  CHECK((mask >> (SIGSEGV - 1) & 1) == 0);
  CHECK(getpriority(PRIO_PROCESS, static_cast<id_t>(tid)) >= 5);
  CHECK(sigismember(&after, SIGTERM) == sigismember(&before, SIGTERM));
}

TEST_CASE("Stop leaves a hanging driver behind, and its thread ends when it can", "[nvml]") {
  Rig rig;
  rig.environment.stop_patience_ns = 20 * kMs;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  const char* const function = GENERATE("nvmlDeviceGetPowerUsage", "nvmlEventSetWait_v2", "nvmlShutdown");
  if (std::string(function) == "nvmlShutdown") {
    rig.Script([&](FakeNvml& fake) { fake.hang_in = function; });
  } else {
    REQUIRE(Hang(&rig, function));
  }
  rig.collector->Stop();
  rig.collector.reset();
  CHECK(CountSamplingThreads() == 1);
  CHECK(rig.Seen(&FakeNvml::inits) == 1);

  rig.Script([](FakeNvml& fake) { fake.hang_in.clear(); });
  CHECK(HasNoThread());
  CHECK(rig.Seen(&FakeNvml::inits) == 0);
}

TEST_CASE("an incident while the driver hangs has the samples before, and reports the hang", "[nvml]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  REQUIRE(Hang(&rig, "nvmlDeviceGetTemperature"));
  rig.timer->Set(rig.timer->NowNs() + 4 * kSecond);
  const Trace trace = rig.AskBack(6 * kSecond);

  CHECK(trace.Has("power"));
  CHECK(trace.attributes.at("nvml.no_answer") == "GPU 0, temperature, for 4.000 s");
  rig.Script([](FakeNvml& fake) { fake.hang_in.clear(); });
}

TEST_CASE("Start waits a bounded time for a hanging driver", "[nvml]") {
  Rig rig;
  rig.environment.start_patience_ns = 20 * kMs;
  rig.Script([](FakeNvml& fake) { fake.hang_in = "nvmlInit_v2"; });
  const pitot::Status status = rig.Start();

  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK_THAT(status.message(), Catch::Contains("hangs"));
  rig.collector.reset();
  rig.Script([](FakeNvml& fake) { fake.hang_in.clear(); });
  CHECK(HasNoThread());
  CHECK(rig.Seen(&FakeNvml::inits) == 0);
}

TEST_CASE("the child of a fork touches nothing", "[nvml]") {
  Rig rig;
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(kSecond));
  // As a fork may find it: in the middle of a call, with one of the library's locks held.
  rig.Script([&](FakeNvml&) {
    const int status = fakes::InChild([&] {
      rig.collector->Keep(0, pitot::KeepFor::kIncident);
      Trace trace;
      rig.collector->AddTo(trace);
      HOLDS(trace.attributes.empty());
      rig.collector->Stop();
      rig.collector.reset();
      return 0;
    });
    CHECK(status == 0);
  });
  REQUIRE(rig.timer->Pass(kSecond));
  CHECK(rig.AskBack(kSecond).Has("power"));
}

TEST_CASE("a recorder's incident has the GPUs' counters", "[nvml]") {
  Rig rig;
  session_test::Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeNvmlCollector(rig.options)).ok());
  REQUIRE(fakes::WaitUntil([&] { return rig.CallsOf("nvmlDeviceGetPowerUsage") >= 3; }));
  REQUIRE(host.TriggerAndFlush());
  const pitot::model::Trace trace = host.traces().back();

  bool has_power = false;
  for (uint32_t i = 0; i < trace.samples.size(); ++i) {
    const auto& counter = trace.counters[trace.samples.counter[i]];
    if (trace.strings[counter.name] != "GPU 0 (NVIDIA Fake 80GB): power") continue;
    has_power = true;
    CHECK(trace.strings[counter.unit] == "W");
    CHECK(trace.samples.value[i] == 350.5);
    CHECK(trace.samples.at_ns[i] >= trace.window_begin_ns);
  }
  CHECK(has_power);
  host.recorder.Stop();
  CHECK(HasNoThread());
  CHECK(rig.Seen(&FakeNvml::inits) == 0);
}

TEST_CASE("windows are copied while samples come", "[nvml]") {
  Rig rig;
  rig.options.rate_hz = 50;
  rig.options.memory_bytes = 64 << 10;
  rig.environment.timer = std::make_shared<pitot::base::SystemTimer>();
  REQUIRE(rig.Start().ok());
  REQUIRE(fakes::WaitUntil([&] {
    const Trace trace = rig.Ask(0);
    for (const auto& [name, counter] : trace.counters) {
      for (size_t i = 1; i < counter.samples.size(); ++i) {
        if (counter.samples[i].first <= counter.samples[i - 1].first)
          FAIL("samples of " << name << " are not in order");
      }
    }
    rig.Script([](FakeNvml& fake) { ++fake.gpus[0].power_milliwatts; });
    return rig.CallsOf("nvmlDeviceGetPowerUsage") >= 20;
  }));
  CHECK(rig.Ask(0).Of("power").samples.size() > 1);
}
