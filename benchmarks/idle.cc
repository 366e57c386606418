// SPDX-License-Identifier: Apache-2.0
//
// pitot_idle: what a recorder costs while its host does nothing, what the first request after that pays, and how far
// back the history of a server reaches that starts a thread for each request. Run by hand on a quiet machine.
//
//   pitot_idle idle [seconds, 20] [threads in a wait, 0] [open requests, 0]
//                                                  wake-ups and CPU time of Pitot's threads. SCOPES in the environment:
//                                                  with a trigger on scopes
//   pitot_idle first [times, 10]                   the time of Request::Begin after a rest and later: least, quartiles
//   pitot_idle threads [seconds, 10] [at a time, 1]  history with a thread for each request
#include <dirent.h>
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "pitot/collect/gpu.h"
#include "pitot/collect/host.h"
#include "pitot/collect/stacks.h"
#include "pitot/extend/judge.h"
#include "pitot/model/trace.h"
#include "pitot/pitot.h"
#include "pitot/wait.h"

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

struct Use {
  std::string name;
  uint64_t wake_ups = 0, cpu_ns = 0;
};

// Pitot's threads, by number.
std::map<std::string, Use> OwnThreads() {
  std::map<std::string, Use> threads;
  DIR* const tasks = opendir("/proc/self/task");
  while (const dirent* task = readdir(tasks)) {
    const std::string folder = std::string("/proc/self/task/") + task->d_name;
    Use use;
    std::ifstream(folder + "/comm") >> use.name;
    if (use.name.compare(0, 6, "pitot-") != 0) continue;
    std::ifstream status(folder + "/status");
    for (std::string key; status >> key;) {
      if (key == "voluntary_ctxt_switches:") status >> use.wake_ups;
    }
    std::ifstream(folder + "/schedstat") >> use.cpu_ns;
    threads[task->d_name] = use;
  }
  closedir(tasks);
  return threads;
}

// Waits until it is over, as a thread of a pool does.
class Waiting {
 public:
  explicit Waiting(int count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        PITOT_WAIT(pitot::WaitKind::kQueue, "work", pitot::Owner{});
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return is_over_; });
      });
    }
  }
  ~Waiting() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

void MeasureIdle(int for_s, int threads, int requests) {
  const Waiting waiting(threads);
  std::vector<pitot::Request> open;
  for (int i = 0; i < requests; ++i) open.push_back(pitot::Request::Begin("/open"));
  std::this_thread::sleep_for(seconds(15));  // what was recorded before has no more effect
  const auto before = OwnThreads();
  std::this_thread::sleep_for(seconds(for_s));
  auto after = OwnThreads();
  Use all;
  for (auto& [tid, use] : after) {
    if (const auto found = before.find(tid); found != before.end())
      use.wake_ups -= found->second.wake_ups, use.cpu_ns -= found->second.cpu_ns;
    all.wake_ups += use.wake_ups, all.cpu_ns += use.cpu_ns;
    std::printf("%-16s %6.1f wake-ups/s %7.3f %% CPU\n", use.name.c_str(), static_cast<double>(use.wake_ups) / for_s,
                static_cast<double>(use.cpu_ns) / for_s * 1e-7);
  }
  std::printf("%-16s %6.1f wake-ups/s %7.3f %% CPU\n", "all", static_cast<double>(all.wake_ups) / for_s,
              static_cast<double>(all.cpu_ns) / for_s * 1e-7);
}

void MeasureFirst(int times) {
  std::vector<int64_t> first, next;
  const auto begin = [](std::vector<int64_t>* took) {
    const int64_t begin_ns = NowNs();
    pitot::Request request = pitot::Request::Begin("/first");
    took->push_back(NowNs() - begin_ns);
    request.Finish(pitot::Outcome::kOk);
  };
  std::vector<int64_t> warm;
  for (int i = 0; i < 1000; ++i) begin(&warm);
  for (int i = 0; i < times; ++i) {
    std::this_thread::sleep_for(milliseconds(3500));
    begin(&first);
    for (int at = 0; at < 5; ++at) {
      std::this_thread::sleep_for(milliseconds(100));
      begin(&next);
    }
  }
  const auto print = [](const char* what, std::vector<int64_t> of) {
    std::sort(of.begin(), of.end());
    const auto us = [&](size_t part) { return static_cast<double>(of[(of.size() - 1) * part / 4]) * 1e-3; };
    std::printf("%-24s %8.2f us, quartiles %8.2f %8.2f %8.2f us\n", what, us(0), us(1), us(2), us(3));
  };
  print("first after a rest", first);
  print("after a pause of 0.1 s", next);
  print("warm", warm);
}

// Keeps how far back a trace's events reach.
class Reach final : public pitot::Serializer {
 public:
  static inline std::atomic<int64_t> g_oldest_ns{0};
  static inline std::atomic<uint64_t> g_events{0}, g_threads{0};
  const char* FileName() const noexcept override { return "reach.txt"; }
  pitot::Status Serialize(const pitot::model::Trace& trace, pitot::ByteSink&) override {
    int64_t oldest = trace.window_end_ns;
    for (const int64_t begin_ns : trace.events.begin_ns) oldest = std::min(oldest, begin_ns);
    g_oldest_ns = trace.window_end_ns - oldest;
    g_events = trace.events.size();
    g_threads = trace.threads.size();
    return {};
  }
};

// Has the recorder take samples, as the judge of pitot::analyze does, and learns nothing from them.
class Sampled final : public pitot::Judge {
 public:
  const char* Name() const noexcept override { return "sampled"; }
  pitot::JudgeNeeds Needs() const noexcept override {
    pitot::JudgeNeeds needs;
    needs.sample_every_ms = 10'000;
    needs.sample_window_ms = 2'000;
    return needs;
  }
  pitot::Status Decide(pitot::Hearing&) override { return {}; }
};

void MeasureThreads(pitot::Recorder* recorder, int for_s, int at_a_time) {
  uint64_t begun = 0;
  const int64_t end_ns = NowNs() + int64_t{for_s} * 1'000'000'000;
  const int64_t begin_ns = NowNs();
  while (NowNs() < end_ns) {
    std::vector<std::thread> threads;
    for (int i = 0; i < at_a_time; ++i) threads.emplace_back([] { PITOT_SCOPE("request"); });
    for (std::thread& thread : threads) thread.join();
    begun += threads.size();
  }
  const double took_s = static_cast<double>(NowNs() - begin_ns) * 1e-9;
  recorder->Trigger("how far back?");
  recorder->Flush(60'000);
  const pitot::Stats stats = recorder->Stats();
  std::printf(
      "%.0f threads/s; the incident reaches %.2f s back, with %llu threads and %llu events; rings take %.1f MiB\n",
      static_cast<double>(begun) / took_s, static_cast<double>(Reach::g_oldest_ns) * 1e-9,
      static_cast<unsigned long long>(Reach::g_threads), static_cast<unsigned long long>(Reach::g_events),
      static_cast<double>(stats.ring_bytes_used) / (1 << 20));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "idle";
  const auto number = [&](int at, int otherwise) { return argc > at ? std::atoi(argv[at]) : otherwise; };
  pitot::Options options = pitot::Options::FromEnvironment();
  options.pre_window_ms = 60'000;
  pitot::Recorder recorder = pitot::Recorder::Start(options);
  if (!recorder.status().ok()) return std::fprintf(stderr, "%s\n", recorder.status().message()), 1;
  pitot::StallTriggerOptions stall;
  stall.request_open_ms = 60'000;
  if (std::getenv("SCOPES") != nullptr) stall.scope_open_ms = 60'000;
  recorder.Add(pitot::MakeStallTrigger(stall));
  recorder.Add(std::make_unique<Sampled>());
  if (what != "threads") {
    recorder.Add(pitot::MakeHostCollector());
    recorder.Add(pitot::MakeStackCollector());
    pitot::gpu::Enable(recorder);
  } else {
    recorder.Add(std::make_unique<Reach>());
  }
  if (what == "first") {
    MeasureFirst(number(2, 10));
  } else if (what == "threads") {
    MeasureThreads(&recorder, number(2, 10), number(3, 1));
  } else {
    MeasureIdle(number(2, 20), number(3, 0), number(4, 0));
  }
  recorder.Stop();
}
