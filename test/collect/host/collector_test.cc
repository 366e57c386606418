// SPDX-License-Identifier: Apache-2.0
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collect/host/rig.h"
#include "fakes/own_box.h"
#include "fakes/recording.h"
#include "pitot/pitot.h"
#include "trace/rest.h"
#include "trace/usage.h"

using fakes::HostRig;
using fakes::kMs;
using fakes::kSecond;
using fakes::Machine;
using fakes::Trace;

namespace {

using Samples = std::vector<std::pair<int64_t, double>>;

constexpr const char* kPressure =
    "some avg10=1.00 avg60=0.50 avg300=0.10 total=2000\nfull avg10=0.10 avg60=0.00 avg300=0.00 total=300\n";

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

int64_t OwnTid() { return syscall(SYS_gettid); }
std::string OwnThread(const std::string& what) { return "thread " + std::to_string(OwnTid()) + ": " + what; }

// A clock that may hold up its caller after a look.
class HoldingUp final : public pitot::base::Timer {
 public:
  explicit HoldingUp(std::shared_ptr<fakes::StepTimer> timer) : timer_(std::move(timer)) {}
  // Sets how long after each of the next looks the caller is held up, ns; while nobody looks.
  void After(std::vector<int64_t> looks) { looks_ = std::move(looks); }

  int64_t NowNs() noexcept override {
    const int64_t now_ns = timer_->NowNs();
    if (!looks_.empty()) {
      timer_->Set(now_ns + looks_.front());
      looks_.erase(looks_.begin());
    }
    return now_ns;
  }
  void WaitUntil(int64_t at_ns) noexcept override { timer_->WaitUntil(at_ns); }
  void Wake() noexcept override { timer_->Wake(); }

 private:
  const std::shared_ptr<fakes::StepTimer> timer_;
  std::vector<int64_t> looks_;
};

// A clock without waiting. Threads that look at it learn nothing else of each other.
class FreeTimer final : public pitot::base::Timer {
 public:
  int64_t NowNs() noexcept override { return now_ns_.fetch_add(1, std::memory_order_relaxed); }
  void WaitUntil(int64_t at_ns) noexcept override {
    now_ns_.store(at_ns, std::memory_order_relaxed);
    rounds_.fetch_add(1, std::memory_order_relaxed);
  }
  void Wake() noexcept override {}
  int rounds() const { return rounds_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> now_ns_{1000 * kSecond};
  std::atomic<int> rounds_{0};
};

// Threads on a CPU all the time; and how many of the next readers are held up for 7 ms before they read.
fakes::StepTimer* g_timer = nullptr;
std::atomic<int> g_hold_ups{0};
int64_t ReadBusyCpu(int64_t) noexcept {
  if (g_hold_ups > 0) {
    --g_hold_ups;
    g_timer->Set(g_timer->NowNs() + 7 * kMs);
  }
  return g_timer->NowNs();
}

// A host whose threads are on a CPU all the time.
struct BusyRig : HostRig {
  BusyRig() {
    g_timer = timer.get();
    environment.read_cpu = ReadBusyCpu;
  }
};

// A machine with all sources.
void Furnish(Machine* machine) {
  machine->Write("/proc/self/schedstat", "1 2 3\n");
  machine->Write("/proc/self/cgroup", "0::/server\n");
  machine->Write("/proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  machine->Write("/sys/fs/cgroup/server/cpu.stat", "usage_usec 5\nnr_periods 9\nnr_throttled 2\nthrottled_usec 70\n");
  for (const char* resource : {"cpu", "io", "memory"})
    machine->Write(std::string("/proc/pressure/") + resource, kPressure);
  machine->Write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2400000\n");
  machine->Write("/proc/stat", "cpu  1 2 3 4 5 6 7 30 8 9\ncpu0 1 2 3 4 5 6 7 30 8 9\n");
}

}  // namespace

TEST_CASE("pressures, throttling and clocks become counters of the host", "[host]") {
  HostRig rig;
  Furnish(&rig.machine);
  REQUIRE(rig.Start().ok());
  CHECK(rig.collector->HeldBytes() == rig.options.memory_bytes);
  const int64_t begin_ns = rig.timer->NowNs();
  REQUIRE(rig.timer->Pass(100 * kMs));
  rig.machine.Write("/sys/fs/cgroup/server/cpu.stat", "nr_periods 19\nnr_throttled 5\nthrottled_usec 90\n");
  rig.machine.Write("/proc/pressure/cpu", "some avg10=1.00 avg60=0.50 avg300=0.10 total=2500\n");
  rig.machine.Write("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1200000\n");
  rig.machine.Write("/proc/stat", "cpu  1 2 3 4 5 6 7 50 8 9\ncpu0 1 2 3 4 5 6 7 50 8 9\n");
  REQUIRE(rig.timer->Pass(900 * kMs));

  const Trace trace = rig.Ask(begin_ns);

  const auto of = [&](const char* name) { return trace.counters.at(std::string("host: ") + name).samples; };
  CHECK(of("throttled by the CPU quota") == Samples{{begin_ns, 0}, {begin_ns + 200 * kMs, 20'000}});
  CHECK(of("periods throttled by the CPU quota") == Samples{{begin_ns, 0}, {begin_ns + 200 * kMs, 3}});
  CHECK(of("CPU pressure (some)") == Samples{{begin_ns, 2'000'000}, {begin_ns + 200 * kMs, 2'500'000}});
  CHECK(of("I/O pressure (some)").front() == std::pair(begin_ns, 2'000'000.0));
  CHECK(of("I/O pressure (full)").front() == std::pair(begin_ns, 300'000.0));
  CHECK(of("memory pressure (full)").front() == std::pair(begin_ns, 300'000.0));
  CHECK(of("mean CPU frequency") == Samples{{begin_ns, 2400}, {begin_ns + kSecond, 1200}});
  CHECK(of("lowest CPU frequency") == Samples{{begin_ns, 2400}, {begin_ns + kSecond, 1200}});
  const double tick_ns = 1e9 / static_cast<double>(sysconf(_SC_CLK_TCK));
  CHECK(of("CPU time stolen by the hypervisor") ==
        Samples{{begin_ns, 30 * tick_ns}, {begin_ns + kSecond, 50 * tick_ns}});
  CHECK(trace.counters.count("host: major faults") == 1);
  CHECK(trace.counters.at("host: throttled by the CPU quota").unit == "ns");
  CHECK(trace.attributes.count("host.not_recorded") == 0);
  CHECK(trace.attributes.at("host.cpus") == std::to_string(sysconf(_SC_NPROCESSORS_ONLN)));
  CHECK_FALSE(trace.has_duplicate);
}

TEST_CASE("a black box has the host's memory and its other counters once a second", "[host]") {
  const fakes::OwnBox box;
  HostRig rig;
  Furnish(&rig.machine);
  rig.machine.Write("/proc/self/statm", "900 500 1 2 0 3 0\n");
  REQUIRE(rig.Start().ok());
  for (int pages = 501; pages <= 530; ++pages) {
    REQUIRE(rig.timer->Pass(100 * kMs));
    rig.machine.Write("/proc/self/statm", "900 " + std::to_string(pages) + " 1 2 0 3 0\n");
  }
  const auto values = box.ValuesNow();
  const std::vector<double>& resident = values.at("host: resident memory, bytes");
  CHECK(resident.size() == 3);
  CHECK(resident.front() == 500.0 * static_cast<double>(sysconf(_SC_PAGESIZE)));
  CHECK(resident.back() >= 518.0 * static_cast<double>(sysconf(_SC_PAGESIZE)));
  CHECK(values.count("host: memory pressure (some), ns") == 1);
}

TEST_CASE("missing sources of a machine are named once, and are not an error", "[host]") {
  HostRig rig;
  REQUIRE(rig.Start().ok());
  const int64_t begin_ns = rig.timer->NowNs();
  REQUIRE(rig.timer->Pass(kSecond));

  const Trace trace = rig.Ask(begin_ns);

  const std::string missing = trace.attributes.at("host.not_recorded");
  for (const char* part :
       {"run-queue delay (no /proc/self/schedstat", "CPU quota (no cpu.stat", "/proc/pressure/cpu", "/proc/pressure/io",
        "/proc/pressure/memory", "CPU frequency (no cpufreq", "stolen CPU time (none in /proc/stat"})
    CHECK(Contains(missing, part));
  CHECK(trace.counters.count("host: voluntary switches") == 1);
  CHECK(trace.counters.count("host: CPU pressure (some)") == 0);
  CHECK(trace.counters.count("host: throttled by the CPU quota") == 0);
  CHECK(trace.counters.count("host: CPU time stolen by the hypervisor") == 0);
  CHECK(trace.attributes.count("host.cpus") == 0);
}

TEST_CASE("a kernel without stolen time has no counter of it", "[host]") {
  HostRig rig;
  rig.machine.Write("/proc/stat", "cpu  1 2 3 4\ncpu0 1 2 3 4\n");
  REQUIRE(rig.Start().ok());
  const int64_t begin_ns = rig.timer->NowNs();
  REQUIRE(rig.timer->Pass(kSecond));

  const Trace trace = rig.Ask(begin_ns);

  CHECK(trace.counters.count("host: voluntary switches") == 1);
  CHECK(trace.counters.count("host: CPU time stolen by the hypervisor") == 0);
}

TEST_CASE("the last value before a window counts at its beginning", "[host]") {
  HostRig rig;
  Furnish(&rig.machine);
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->Pass(500 * kMs));
  const int64_t begin_ns = rig.timer->NowNs() - 50 * kMs;
  REQUIRE(rig.timer->Pass(100 * kMs));

  const Trace trace = rig.Ask(begin_ns);

  CHECK(trace.counters.at("host: CPU pressure (some)").samples == Samples{{begin_ns, 2'000'000}});
}

TEST_CASE("on-CPU time and run-queue delay of threads at work are read", "[host]") {
  const fakes::Recording recording;
  REQUIRE(recording.ok());
  HostRig rig;
  Furnish(&rig.machine);
  rig.machine.WriteSchedstat(OwnTid(), 0, 300);
  rig.cpu_ns = 1000;
  PITOT_SCOPE("at work");
  REQUIRE(rig.Start().ok());
  const int64_t begin_ns = rig.timer->NowNs() - 1;
  REQUIRE(rig.timer->AwaitIdle());
  rig.cpu_ns = 2000;
  REQUIRE(rig.timer->Pass(20 * kMs));
  rig.machine.WriteSchedstat(OwnTid(), 0, 5300);
  REQUIRE(rig.timer->Pass(20 * kMs));

  const Trace trace = rig.Ask(begin_ns);

  const int64_t first_ns = begin_ns + 1;
  const Samples cpu = {{first_ns, 1000}, {first_ns + 20 * kMs, 2000}, {first_ns + 40 * kMs, 2000}};
  CHECK(trace.counters.at(OwnThread("on-CPU time")).samples == cpu);
  const Samples delay = {{first_ns, 300}, {first_ns + 20 * kMs, 300}, {first_ns + 40 * kMs, 5300}};
  CHECK(trace.counters.at(OwnThread("run-queue delay")).samples == delay);
}

TEST_CASE("a standing thread has samples at the first moment, the last, and sometimes between", "[host]") {
  const fakes::Recording recording;
  HostRig rig;
  rig.machine.WriteSchedstat(OwnTid(), 0, 300);
  PITOT_SCOPE("at work");
  REQUIRE(rig.Start().ok());
  const int64_t first_ns = rig.timer->NowNs();
  REQUIRE(rig.timer->Pass(140 * kMs));
  rig.cpu_ns = 50;
  REQUIRE(rig.timer->Pass(20 * kMs));

  const Trace trace = rig.Ask(first_ns - 1);

  const Samples cpu = {{first_ns, 0}, {first_ns + 100 * kMs, 0}, {first_ns + 140 * kMs, 0}, {first_ns + 160 * kMs, 50}};
  CHECK(trace.counters.at(OwnThread("on-CPU time")).samples == cpu);
}

TEST_CASE("threads at work are read once more for an incident, as fully as they read themselves", "[host]") {
  const fakes::Recording recording;
  HostRig rig;
  const std::string folder = "/proc/self/task/" + std::to_string(OwnTid());
  rig.machine.WriteSchedstat(OwnTid(), 0, 300);
  rig.machine.Write(folder + "/status", "Name:\tserver\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t9\n");
  rig.machine.Write(folder + "/stat", "41 (a) name) S 1 2 3 4 5 6 700 800 11 12 13 14\n");
  PITOT_SCOPE("at work");
  REQUIRE(rig.Start().ok());
  const int64_t first_ns = rig.timer->NowNs();
  REQUIRE(rig.timer->Pass(20 * kMs));
  rig.timer->Set(first_ns + 33 * kMs);

  const Trace sample = rig.Ask(first_ns - 1);
  const Trace incident = rig.Ask(first_ns - 1, pitot::KeepFor::kIncident);

  CHECK(sample.counters.at(OwnThread("on-CPU time")).samples == Samples{{first_ns, 0}});
  CHECK(sample.counters.count(OwnThread("voluntary switches")) == 0);
  const int64_t now_ns = first_ns + 33 * kMs;
  CHECK(incident.counters.at(OwnThread("on-CPU time")).samples == Samples{{first_ns, 0}, {now_ns, 0}});
  CHECK(incident.counters.at(OwnThread("run-queue delay")).samples == Samples{{first_ns, 300}, {now_ns, 300}});
  CHECK(incident.counters.at(OwnThread("voluntary switches")).samples == Samples{{now_ns, 7}});
  CHECK(incident.counters.at(OwnThread("involuntary switches")).samples == Samples{{now_ns, 9}});
  CHECK(incident.counters.at(OwnThread("major faults")).samples == Samples{{now_ns, 11}});
}

TEST_CASE("a reader held up before a thread's time does not date it to a moment before", "[host]") {
  const fakes::Recording recording;
  BusyRig rig;
  PITOT_SCOPE("at work");
  REQUIRE(rig.Start().ok());
  const int64_t first_ns = rig.timer->NowNs();
  const auto moments_with = [&](int hold_ups) {
    REQUIRE(rig.timer->AwaitIdle());
    g_hold_ups = hold_ups;
    REQUIRE(rig.timer->Pass(40 * kMs));
    std::vector<int64_t> moments;
    const Trace trace = rig.Ask(first_ns - 1);
    for (const auto& [at_ns, cpu_ns] : trace.counters.at(OwnThread("on-CPU time")).samples) {
      CHECK(static_cast<int64_t>(cpu_ns) == at_ns);
      moments.push_back((at_ns - first_ns) / kMs);
    }
    return std::pair(moments, trace.attributes.count("host.readings_dropped") != 0
                                  ? trace.attributes.at("host.readings_dropped")
                                  : "");
  };
  using Moments = std::vector<int64_t>;
  CHECK(moments_with(0) == std::pair(Moments{0, 20, 40}, std::string()));
  CHECK(moments_with(1) == std::pair(Moments{0, 20, 40, 67, 80}, std::string()));
  CHECK(moments_with(2) ==
        std::pair(Moments{0, 20, 40, 67, 80, 120},
                  std::string("1 of threads, 0 of the process: delayed at every attempt to read them")));
}

TEST_CASE("a thread is read up to five times for an incident", "[host]") {
  const fakes::Recording recording;
  BusyRig rig;
  rig.machine.Write("/proc/self/task/" + std::to_string(OwnTid()) + "/status", "voluntary_ctxt_switches:\t7\n");
  PITOT_SCOPE("at work");
  REQUIRE(rig.Start().ok());
  const auto is_read = [&](int hold_ups) {
    REQUIRE(rig.timer->AwaitIdle());
    const int64_t now_ns = rig.timer->NowNs();
    g_hold_ups = hold_ups;
    return rig.Ask(now_ns, pitot::KeepFor::kIncident).counters.count(OwnThread("voluntary switches")) != 0;
  };
  CHECK(is_read(4));
  CHECK_FALSE(is_read(5));

  REQUIRE(rig.timer->Pass(40 * kMs));
  CHECK(Contains(rig.Ask(0).attributes.at("host.readings_dropped"), "1 of threads"));
}

TEST_CASE("a reader held up before the machine's values does not date them to a moment before", "[host]") {
  HostRig rig;
  Furnish(&rig.machine);
  const auto timer = std::make_shared<HoldingUp>(rig.timer);
  rig.environment.timer = timer;
  rig.options.thread_rate_hz = 1;
  REQUIRE(rig.Start().ok());
  const int64_t begin_ns = rig.timer->NowNs();
  const auto pass = [&](int total_us, std::vector<int64_t> held_up_ns) {
    REQUIRE(rig.timer->AwaitIdle());
    rig.machine.Write("/proc/pressure/cpu", "some total=" + std::to_string(total_us) + "\n");
    timer->After(std::move(held_up_ns));
    REQUIRE(rig.timer->Pass(100 * kMs));
  };
  pass(2'001, {0, 4 * kMs});              // like a machine with slow answers
  pass(2'002, {0, 6 * kMs});              // once
  pass(2'003, {0, 6 * kMs, 0, 6 * kMs});  // twice
  pass(2'004, {});

  const Trace trace = rig.Ask(begin_ns);

  CHECK(trace.counters.at("host: CPU pressure (some)").samples == Samples{{begin_ns, 2'000'000},
                                                                          {begin_ns + 100 * kMs, 2'001'000},
                                                                          {begin_ns + 206 * kMs, 2'002'000},
                                                                          {begin_ns + 400 * kMs, 2'004'000}});
  CHECK(Contains(trace.attributes.at("host.readings_dropped"), "0 of threads, 1 of the process"));
}

TEST_CASE("an idle thread is not read", "[host]") {
  const fakes::Recording recording;
  HostRig rig;
  PITOT_INSTANT("a ring is made");
  REQUIRE(rig.Start().ok());
  const int64_t first_ns = rig.timer->NowNs();
  REQUIRE(rig.timer->AwaitIdle());
  rig.cpu_ns = 1000;
  REQUIRE(rig.timer->Pass(kSecond));

  const Trace trace = rig.Ask(first_ns - 1);

  CHECK(trace.counters.at(OwnThread("on-CPU time")).samples == Samples{{first_ns, 0}});
}

TEST_CASE("a thread that stands for long is read less often, and at once when it records something", "[host]") {
  const fakes::Recording recording;
  const pitot::Batch batch = pitot::Batch::Begin("executor");  // the collector must not rest
  HostRig rig;
  REQUIRE(rig.Start().ok());
  const int64_t first_ns = rig.timer->NowNs();
  const auto readings = [&](int64_t from_ns) {
    const Trace trace = rig.Ask(0);
    const Samples& samples = trace.counters.at(OwnThread("on-CPU time")).samples;
    return std::count_if(samples.begin(), samples.end(), [=](const auto& sample) { return sample.first > from_ns; });
  };
  REQUIRE(rig.timer->Pass(20 * kSecond));
  CHECK(readings(first_ns + 10 * kSecond) == 10);

  const int64_t recorded_ns = rig.timer->NowNs();
  PITOT_INSTANT("recorded");
  rig.cpu_ns = 5;
  REQUIRE(rig.timer->Pass(20 * kMs));
  CHECK(readings(recorded_ns) == 1);
  REQUIRE(rig.timer->Pass(60 * kMs));
  rig.cpu_ns = 6;  // without a record: it has stood for a short time only
  REQUIRE(rig.timer->Pass(20 * kMs));
  CHECK(readings(recorded_ns) == 3);  // with the last of the equal ones
}

TEST_CASE("the collector rests while the host works at nothing, and says so", "[host]") {
  const fakes::Recording recording;
  HostRig rig;
  Furnish(&rig.machine);
  PITOT_INSTANT("a ring is made");
  REQUIRE(rig.Start().ok());
  const int64_t begin_ns = rig.timer->NowNs();
  REQUIRE(rig.timer->Pass(9 * kSecond));
  const Trace trace = rig.Ask(begin_ns);
  const Samples rest = trace.counters.at("host: length of a rest").samples;
  CHECK(rest == Samples{{begin_ns, 0},
                        {begin_ns + kSecond, 2e9},
                        {begin_ns + 3 * kSecond, 2e9},
                        {begin_ns + 5 * kSecond, 2e9},
                        {begin_ns + 7 * kSecond, 2e9},
                        {begin_ns + 9 * kSecond, 2e9}});

  rig.timer->Set(begin_ns + 9 * kSecond + 500 * kMs);
  const pitot::Request request = pitot::Request::Begin("/a");
  pitot::trace::WakeResting();  // as the watcher does
  REQUIRE(fakes::WaitUntil([&] {
    const Samples now = rig.Ask(begin_ns).counters.at("host: length of a rest").samples;
    return now.back() == std::pair(begin_ns + 9 * kSecond + 500 * kMs, 0.0);
  }));
  REQUIRE(rig.timer->Pass(5 * kSecond));
  CHECK(rig.Ask(begin_ns).counters.at("host: length of a rest").samples.back().second == 0);
}

TEST_CASE("the collector does not rest while a thread runs in a scope", "[host]") {
  const fakes::Recording recording;
  BusyRig rig;
  PITOT_SCOPE("at work");
  REQUIRE(rig.Start().ok());
  const int64_t begin_ns = rig.timer->NowNs();
  REQUIRE(rig.timer->Pass(5 * kSecond));

  CHECK(rig.Ask(begin_ns).counters.at("host: length of a rest").samples.back().second == 0);
}

TEST_CASE("a kernel without schedstat still has on-CPU time", "[host]") {
  const fakes::Recording recording;
  HostRig rig;
  PITOT_SCOPE("at work");
  REQUIRE(rig.Start().ok());
  const int64_t first_ns = rig.timer->NowNs();
  REQUIRE(rig.timer->AwaitIdle());

  const Trace trace = rig.Ask(first_ns - 1);

  CHECK(trace.counters.count(OwnThread("on-CPU time")) == 1);
  CHECK(trace.counters.count(OwnThread("run-queue delay")) == 0);
}

TEST_CASE("threads can read their run-queue delay while the collector runs", "[host]") {
  const fakes::Recording recording;
  HostRig rig;
  rig.machine.WriteSchedstat(OwnTid(), 0, 300);
  PITOT_SCOPE("at work");
  const pitot::trace::ThreadRing* const ring = pitot::trace::EnterThread();
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->AwaitIdle());
  pitot::trace::Usage usage;
  REQUIRE(pitot::host::SystemEnvironment().read_usage(ring->schedstat - 1, &usage));

  CHECK(usage.runqueue_ns == 300);
  rig.collector->Stop();
  CHECK(ring->schedstat == 0);
}

TEST_CASE("threads at work beyond the limit are counted", "[host]") {
  const fakes::Recording recording;
  fakes::VirtualThreads threads;
  HostRig rig;
  rig.options.most_threads = 2;
  for (size_t i = 0; i < 5; ++i) {
    REQUIRE(threads.Become(i));
    BeginScope(pitot::Intern("at work"));
  }
  REQUIRE(rig.Start().ok());
  REQUIRE(rig.timer->AwaitIdle());

  CHECK(Contains(rig.Ask(0).attributes.at("host.threads_left_out"), "3 at work"));
}

// ThreadSanitizer judges more than this asserts.
TEST_CASE("incidents are taken while rounds go on", "[host]") {
  const fakes::Recording recording;
  HostRig rig;
  const auto timer = std::make_shared<FreeTimer>();
  rig.environment.timer = timer;
  rig.options.thread_rate_hz = 1;
  PITOT_SCOPE("at work");
  REQUIRE(rig.Start().ok());

  CHECK(fakes::WaitUntil([&] {
    rig.collector->Keep(0, pitot::KeepFor::kIncident);
    return timer->rounds() >= 200;
  }));
}

TEST_CASE("a ring without the window's beginning is reported", "[host]") {
  HostRig rig;
  Furnish(&rig.machine);
  rig.options.memory_bytes = 64 << 10;
  const fakes::Recording recording;
  const pitot::Batch batch = pitot::Batch::Begin("executor");  // the collector must not rest
  REQUIRE(rig.Start().ok());
  const int64_t begin_ns = rig.timer->NowNs() - 1;
  for (int i = 0; i < 600; ++i) {
    rig.machine.Write("/proc/pressure/io",
                      "some total=" + std::to_string(i) + "\nfull total=" + std::to_string(i) + "\n");
    rig.machine.Write("/proc/pressure/cpu", "some total=" + std::to_string(i) + "\n");
    REQUIRE(rig.timer->Pass(100 * kMs));
  }

  const Trace trace = rig.Ask(begin_ns);

  CHECK(trace.attributes.count("host.overwritten") == 1);
  CHECK(trace.counters.at("host: CPU pressure (some)").last() == 599'000);
}

TEST_CASE("options out of range are named", "[host]") {
  const auto message = [](auto change) {
    HostRig rig;
    change(&rig.options);
    const pitot::Status status = rig.Start();
    CHECK(status.code() == pitot::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  CHECK(Contains(message([](auto* options) { options->rate_hz = 0; }), "rate_hz"));
  CHECK(Contains(message([](auto* options) { options->thread_rate_hz = 201; }), "thread_rate_hz"));
  CHECK(Contains(message([](auto* options) { options->most_threads = 0; }), "most_threads"));
  CHECK(Contains(message([](auto* options) { options->memory_bytes = 1; }), "memory_bytes"));
}

TEST_CASE("one host collector runs in a process at a time", "[host]") {
  HostRig first, second, third;
  REQUIRE(first.Start().ok());
  CHECK(second.Start().code() == pitot::StatusCode::kAlreadyRunning);
  first.collector->Stop();
  CHECK(third.Start().ok());
}

TEST_CASE("threads record their usage from the collector's start to its end", "[host]") {
  HostRig rig;
  rig.environment.read_usage = [](int, pitot::trace::Usage*) noexcept { return true; };
  REQUIRE(rig.Start().ok());
  CHECK(pitot::trace::g_read_usage.load() == rig.environment.read_usage);
  rig.collector->Stop();
  CHECK(pitot::trace::g_read_usage.load() == nullptr);
}

TEST_CASE("the system tells a thread's time on a CPU", "[host]") {
  const pitot::host::Environment system = pitot::host::SystemEnvironment();
  pitot::trace::Usage usage;
  REQUIRE(system.read_usage(-1, &usage));
  const int64_t later_ns = system.read_cpu(OwnTid());

  CHECK(usage.cpu_ns > 0);
  CHECK(later_ns >= static_cast<int64_t>(usage.cpu_ns));
  CHECK(usage.minor_faults > 0);
  CHECK(usage.runqueue_ns == pitot::trace::Usage::kUnknown);
  CHECK(system.read_cpu((1 << 22) + 1) < 0);  // beyond all thread numbers
}
