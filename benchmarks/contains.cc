// SPDX-License-Identifier: Apache-2.0
//
// pitot_contains: does an incident hold the request that fired? A server whose threads record without rest, at several
// rates and numbers of threads, with idle and with overloaded CPUs. Prints for each how many incidents hold the end of
// the request that began them, and its slow scope; and how long it took from the firing to the dump on disk. The next
// request fires when the one before is dealt with: the worker has looked into its trace.
//
//   pitot_contains DIRECTORY [firings of each row, 30] [overload: runnable threads a CPU, 16] [budget, MiB, 64]
//                  [threads, all] [millions of events a second, all]
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "pitot/extend/serializer.h"
#include "pitot/model/trace.h"
#include "pitot/pitot.h"

namespace {

using std::chrono::milliseconds;

constexpr int kScopes = 20;                    // of a request
constexpr int kEventsOfRequest = kScopes + 4;  // and its begin, its end and the thread's context

int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// What the incidents of one row hold.
struct Found {
  std::mutex mutex;
  int incidents = 0, requests = 0, scopes = 0;
  std::vector<double> window_ms, to_disk_ms;
  int64_t on_disk_ns = 0;  // of the last
  size_t done = 0;
};

// Looks into each incident, in place of writing a file.
class Look final : public pitot::Serializer {
 public:
  explicit Look(Found* found) : found_(*found) {}
  const char* FileName() const noexcept override { return "looked"; }
  pitot::Status Serialize(const pitot::model::Trace& trace, pitot::ByteSink&) override {
    const std::lock_guard lock(found_.mutex);
    ++found_.incidents;
    const int64_t fired_ns = trace.firings.at(0).at_ns;
    found_.window_ms.push_back(static_cast<double>(trace.window_end_ns - fired_ns) * 1e-6);
    found_.to_disk_ms.push_back(static_cast<double>(found_.on_disk_ns - fired_ns) * 1e-6);
    const uint64_t fired = trace.firings.at(0).request_id;
    for (uint32_t row = 0; row < trace.requests.size(); ++row) {
      if (trace.requests[row].id != fired || !trace.requests[row].end_known) continue;
      ++found_.requests;
      found_.scopes += HasSlowScope(trace, row);
    }
    return {};
  }

 private:
  static bool HasSlowScope(const pitot::model::Trace& trace, uint32_t request) {
    for (uint32_t i = 0; i < trace.events.size(); ++i) {
      if (trace.events.request[i] == request && trace.strings[trace.sites[trace.events.site[i]].name] == "slow")
        return true;
    }
    return false;
  }

  Found& found_;
};

class Server {
 public:
  // `events_per_s` by all threads together.
  Server(int threads, double events_per_s) : period_ns_(kEventsOfRequest * threads * 1e9 / events_per_s) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Serve(); });
  }
  ~Server() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  // The next request is slow.
  void BeSlow() { slow_ = true; }

 private:
  void Serve() {
    double due_ns = static_cast<double>(NowNs());
    while (!stop_) {
      const bool is_slow = slow_.exchange(false);
      pitot::Request request = pitot::Request::Begin(is_slow ? "/slow" : "/quick");
      for (int i = 0; i < kScopes; ++i) {
        PITOT_SCOPE("step", i);
      }
      if (is_slow) {
        PITOT_SCOPE("slow");
        std::this_thread::sleep_for(milliseconds(60));
      }
      request.Finish(pitot::Outcome::kOk);
      due_ns = std::max(due_ns + period_ns_, static_cast<double>(NowNs()) - 1e7);
      while (static_cast<double>(NowNs()) < due_ns && !stop_) {
        if (due_ns - static_cast<double>(NowNs()) > 200e3) std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
  }

  const double period_ns_;
  std::atomic<bool> stop_{false}, slow_{false};
  std::vector<std::thread> threads_;
};

// Keeps all CPUs busy, with this many runnable threads each.
class Load {
 public:
  explicit Load(unsigned threads_a_cpu) {
    for (unsigned i = 0; i < threads_a_cpu * std::thread::hardware_concurrency(); ++i)
      threads_.emplace_back([this] {
        while (!stop_) {}
      });
  }
  ~Load() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

// False: a minute has passed.
template <class Condition> bool Await(const Condition& condition) {
  const int64_t deadline_ns = NowNs() + 60'000'000'000;
  while (!condition()) {
    if (NowNs() > deadline_ns) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(q * static_cast<double>(values.size())))];
}

struct Setting {
  const char* directory;
  int firings;
  unsigned overload;
  uint64_t budget_bytes;
  int threads;      // 0: all
  double millions;  // 0: all
};

// False: an incident lacks what it must hold.
bool Measure(const Setting& setting, int threads, double events_per_s, bool is_overloaded) {
  Found found;
  pitot::Options options;
  options.incident_directory = setting.directory;
  options.max_incidents_per_cause_and_hour = 1'000'000;
  options.memory_budget_bytes = setting.budget_bytes;
  pitot::Recorder recorder = pitot::Recorder::Start(options);
  recorder.Add(pitot::MakeLatencyTrigger({.route = "/slow", .above_ms = 50, .cool_down_ms = 0}));
  recorder.Add(std::make_unique<Look>(&found));
  pitot::Hooks hooks;
  hooks.context = &found;
  hooks.on_incident = [](void* context, const pitot::IncidentInfo&) {
    auto* const it = static_cast<Found*>(context);
    const std::lock_guard lock(it->mutex);
    it->on_disk_ns = NowNs();
  };
  hooks.on_verdict = [](void* context, const pitot::IncidentInfo&) {
    auto* const it = static_cast<Found*>(context);
    const std::lock_guard lock(it->mutex);
    ++it->done;
  };
  recorder.SetHooks(hooks);
  if (!recorder.status().ok()) return std::fprintf(stderr, "%s\n", recorder.status().message()), false;
  double rate = 0;
  uint64_t fired = 0;
  {
    const Load load(is_overloaded ? setting.overload : 0);
    Server server(threads, events_per_s);
    std::this_thread::sleep_for(milliseconds(500));
    const uint64_t events = recorder.Stats().events_recorded;
    const int64_t begin_ns = NowNs();
    for (int i = 0; i < setting.firings; ++i) {
      const uint64_t before = recorder.Stats().triggers_fired;
      server.BeSlow();
      const auto done = [&] {
        const std::lock_guard lock(found.mutex);
        return found.done;
      };
      const size_t done_before = done();
      if (!Await([&] { return recorder.Stats().triggers_fired != before; })) continue;
      Await([&] { return done() != done_before; });  // never, if the firing is suppressed or its incident fails
      std::this_thread::sleep_for(milliseconds(50));
    }
    rate =
        static_cast<double>(recorder.Stats().events_recorded - events) / static_cast<double>(NowNs() - begin_ns) * 1e3;
    fired = recorder.Stats().triggers_fired;
  }
  recorder.Flush(60'000);
  std::printf("%-10s %7d %9.2f %9.2f | %5llu %9d %7d %6d | %7.0f %5.0f %8.0f %5.0f\n",
              is_overloaded ? "overloaded" : "quiet", threads, events_per_s * 1e-6, rate,
              static_cast<unsigned long long>(fired), found.incidents, found.requests, found.scopes,
              Quantile(found.window_ms, 0.5), Quantile(found.window_ms, 0.99), Quantile(found.to_disk_ms, 0.5),
              Quantile(found.to_disk_ms, 0.99));
  std::fflush(stdout);
  const int asked = setting.firings;
  return fired >= static_cast<uint64_t>(asked) && static_cast<uint64_t>(found.requests) == fired &&
         static_cast<uint64_t>(found.scopes) == fired;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: pitot_contains DIRECTORY [FIRINGS [OVERLOAD [MIB]]]\n"), 2;
  const auto number = [&](int at, uint64_t otherwise) {
    return argc > at ? std::strtoull(argv[at], nullptr, 10) : otherwise;
  };
  const Setting setting{argv[1],
                        static_cast<int>(number(2, 30)),
                        static_cast<unsigned>(number(3, 16)),
                        number(4, 64) << 20,
                        static_cast<int>(number(5, 0)),
                        argc > 6 ? std::strtod(argv[6], nullptr) : 0};
  std::printf("%-10s %7s %9s %9s | %5s %9s %7s %6s | %7s %5s %8s %5s\n", "CPUs", "threads", "M/s asked", "M/s", "fired",
              "incidents", "request", "scope", "to copy", "p99", "to disk", "p99, ms");
  bool is_whole = true;
  for (const bool is_overloaded : {false, true}) {
    if (is_overloaded && setting.overload == 0) continue;
    for (const int threads : {1, 2, 4, 8}) {
      for (const double millions : {0.1, 0.5, 1.0, 2.0}) {
        const bool is_asked = (setting.threads == 0 || setting.threads == threads) &&
                              (setting.millions == 0 || setting.millions == millions);
        if (is_asked) is_whole &= Measure(setting, threads, millions * 1e6, is_overloaded);
      }
    }
  }
  return is_whole ? 0 : 1;
}
