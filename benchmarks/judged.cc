// SPDX-License-Identifier: Apache-2.0
//
// pitot_judged: does every incident get its verdict in time? An engine with continuous batching and a GPU that is made
// up: it has a fault at a fixed interval, and each incident has some 300,000 GPU records. Prints how many incidents got
// a verdict, how long after the trigger, and the CPU time of Pitot's own threads for each.
//
//   pitot_judged DIRECTORY [incidents, 120] [ms between faults, 1000] [GPU records a window, 300000]
//                [worker_cpu_percent, 25] [kinds of faults, 1 to 3, 3] [what fires: gap or latency]
#include <dirent.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "pitot/analyze/judge.h"
#include "pitot/extend/collector.h"
#include "pitot/pitot.h"

namespace {

using std::chrono::milliseconds;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kStepNs = 20 * kMs, kKernelsNs = 17 * kMs, kWindowNs = 5'000 * kMs;
constexpr int kMembers = 8, kTokens = 25;  // of a request
constexpr uint32_t kKernelsOfCall = 12;

int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// The steps that the engine has had, for the GPU that is made up.
struct Step {
  int64_t begin_ns, gpu_begin_ns, kernel_ns, wait_ns;
  uint32_t number;
  int64_t EndNs(uint32_t kernels) const { return gpu_begin_ns + kernel_ns * kernels + kMs; }
};
struct Steps {
  std::mutex mutex;
  std::deque<Step> steps;
  int64_t tid = 0;
};

class FakeGpu final : public pitot::Collector {
 public:
  FakeGpu(Steps* steps, uint32_t kernels_of_step) : steps_(*steps), kernels_(kernels_of_step) {}
  const char* Name() const noexcept override { return "made_up"; }
  pitot::Status Start() noexcept override { return {}; }
  void Stop() noexcept override {}
  uint64_t IncidentBytes() const noexcept override { return 64 << 20; }
  void Keep(int64_t begin_ns, pitot::KeepFor) noexcept override {
    const std::lock_guard lock(steps_.mutex);
    kept_.assign(steps_.steps.begin(), steps_.steps.end());
    std::erase_if(kept_, [&](const Step& step) { return step.begin_ns < begin_ns; });
  }
  void AddTo(pitot::TraceBuilder& trace) override {
    pitot::GpuDevice device;
    device.name = trace.AddText("made up");
    const uint32_t row = trace.AddDevice(device), stream = trace.AddStream(row, 1, 7);
    const uint32_t names[] = {trace.AddText("gemm"), trace.AddText("attention"), trace.AddText("norm"),
                              trace.AddText("sample")};
    const uint32_t launch = trace.AddText("cudaGraphLaunch"), wait = trace.AddText("cudaStreamSynchronize");
    const uint32_t grid[3] = {64, 1, 1}, block[3] = {128, 1, 1};
    const uint32_t shape = trace.AddShape(grid, block, 0, 0, 0, 32);
    if (!kept_.empty()) trace.AddDepth(kept_.front().begin_ns, NowNs(), pitot::Depth::kKernels);
    for (auto step = kept_.rbegin(); step != kept_.rend(); ++step) {
      for (uint32_t k = kernels_; k-- > 0;) {
        pitot::GpuActivity kernel;
        kernel.begin_ns = step->gpu_begin_ns + k * step->kernel_ns;
        kernel.duration_ns = step->kernel_ns - step->kernel_ns / 10;
        kernel.kind = pitot::GpuKind::kKernel;
        kernel.stream = stream;
        kernel.name = names[k % 4];
        kernel.shape = shape;
        kernel.correlation = step->number * 1000 + k / kKernelsOfCall + 1;
        kernel.graph = 1;
        kernel.node = k + 1;
        trace.Add(kernel);
      }
      trace.Add(pitot::GpuCall{step->wait_ns, step->EndNs(kernels_) - step->wait_ns, steps_.tid, wait, 0});
      for (uint32_t call = (kernels_ + kKernelsOfCall - 1) / kKernelsOfCall; call-- > 0;) {
        pitot::GpuCall made;
        made.begin_ns = step->gpu_begin_ns - 900'000 + int64_t{call} * 8'000;
        made.duration_ns = 6'000;
        made.tid = steps_.tid;
        made.name = launch;
        made.correlation = step->number * 1000 + call + 1;
        trace.Add(made);
      }
    }
  }

 private:
  Steps& steps_;
  const uint32_t kernels_;
  std::vector<Step> kept_;
};

// What became of the incidents.
struct Outcome {
  std::mutex mutex;
  std::map<uint64_t, int64_t> fired_ns;  // by request
  std::vector<double> to_disk_ms, to_verdict_ms;
  std::map<std::string, int> why_not;
};

int64_t FiredNs(const Outcome& outcome, uint64_t request) {
  const auto at = outcome.fired_ns.find(request);
  return at != outcome.fired_ns.end() ? at->second : NowNs();
}

// One thread has steps with up to eight requests; each request gets a token in each of its steps.
class Engine {
 public:
  Engine(Steps* steps, Outcome* outcome, uint32_t kernels_of_step, int kinds)
      : steps_(*steps), outcome_(*outcome), kernels_(kernels_of_step), kinds_(kinds), thread_([this] { Run(); }) {}
  ~Engine() {
    stop_ = true;
    thread_.join();
  }
  void Fault() { fault_ = true; }

 private:
  struct Member {
    pitot::Request request;
    int tokens = 0;
  };

  void Run() {
    steps_.tid = gettid();
    pitot::SetThreadName("engine");
    while (!stop_) {
      while (members_.size() < kMembers) {
        // The first ones are as if they had begun one after the other.
        const int tokens = count_ == 0 ? static_cast<int>(members_.size()) * kTokens / kMembers : 0;
        members_.push_back({pitot::Request::Begin("/generate"), tokens});
        members_.back().request.SetSize("tokens", 100);
      }
      HaveStep(fault_.exchange(false));
    }
  }

  void HaveStep(bool is_faulty) {
    const int kind = is_faulty ? faults_++ % kinds_ : -1;
    Step step{NowNs(), 0, kKernelsNs / kernels_, 0, ++count_};
    pitot::Batch batch = pitot::Batch::Begin("step", "tokens");
    for (Member& member : members_) batch.Join(member.request.token(), 1);
    if (kind == 0) {
      PITOT_SCOPE("look up");
      std::this_thread::sleep_for(milliseconds(100));
    }
    if (kind == 1) {
      PITOT_SCOPE("compile");
      for (const int64_t end_ns = NowNs() + 100 * kMs; NowNs() < end_ns;) {}
    }
    if (kind == 2) step.kernel_ns *= 6;
    {
      PITOT_SCOPE("launch");
      std::this_thread::sleep_for(milliseconds(1));
      step.gpu_begin_ns = NowNs();
    }
    {
      PITOT_SCOPE("tokens");
      step.wait_ns = NowNs();
      std::this_thread::sleep_for(std::chrono::nanoseconds(step.EndNs(kernels_) - step.wait_ns));
    }
    {
      const std::lock_guard lock(steps_.mutex);
      steps_.steps.push_back(step);
      while (steps_.steps.front().begin_ns < step.begin_ns - 2 * kWindowNs) steps_.steps.pop_front();
    }
    if (is_faulty) {
      const std::lock_guard lock(outcome_.mutex);
      for (Member& member : members_) outcome_.fired_ns[member.request.id()] = NowNs();
    }
    for (Member& member : members_) {
      member.request.Emit();
      ++member.tokens;
    }
    batch.Finish();
    for (Member& member : members_) {
      if (member.tokens < kTokens) continue;
      if (!is_faulty) {
        const std::lock_guard lock(outcome_.mutex);
        outcome_.fired_ns[member.request.id()] = NowNs();
      }
      member.request.Finish(pitot::Outcome::kOk);
    }
    std::erase_if(members_, [](const Member& member) { return member.request.id() == 0; });
  }

  Steps& steps_;
  Outcome& outcome_;
  const uint32_t kernels_;
  const int kinds_;
  int faults_ = 0;
  uint32_t count_ = 0;
  std::atomic<bool> stop_{false}, fault_{false};
  std::vector<Member> members_;
  std::thread thread_;
};

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(q * static_cast<double>(values.size())))];
}

// CPU time of this process's threads of that name, s.
double CpuSeconds(const char* name) {
  double seconds = 0;
  DIR* const tasks = opendir("/proc/self/task");
  while (const dirent* task = tasks != nullptr ? readdir(tasks) : nullptr) {
    const std::string folder = std::string("/proc/self/task/") + task->d_name;
    std::string is;
    std::getline(std::ifstream(folder + "/comm") >> std::ws, is);
    double run_ns = 0;
    if (is == name && std::ifstream(folder + "/schedstat") >> run_ns) seconds += run_ns * 1e-9;
  }
  if (tasks != nullptr) closedir(tasks);
  return seconds;
}

void Listen(Outcome* outcome, pitot::Recorder* recorder) {
  pitot::Hooks hooks;
  hooks.context = outcome;
  hooks.on_incident = [](void* context, const pitot::IncidentInfo& info) {
    auto* const it = static_cast<Outcome*>(context);
    const std::lock_guard lock(it->mutex);
    it->to_disk_ms.push_back(static_cast<double>(NowNs() - FiredNs(*it, info.first_request)) * 1e-6);
  };
  hooks.on_verdict = [](void* context, const pitot::IncidentInfo& info) {
    auto* const it = static_cast<Outcome*>(context);
    const std::lock_guard lock(it->mutex);
    if (info.status.ok())
      it->to_verdict_ms.push_back(static_cast<double>(NowNs() - FiredNs(*it, info.first_request)) * 1e-6);
    else
      ++it->why_not[info.status.message()];
  };
  recorder->SetHooks(hooks);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-')
    return std::fprintf(stderr, "usage: pitot_judged DIRECTORY [INCIDENTS [MS [RECORDS [PERCENT]]]]\n"), 2;
  const auto number = [&](int at, int otherwise) { return argc > at ? std::atoi(argv[at]) : otherwise; };
  const int incidents = number(2, 120), every_ms = number(3, 1000);
  const auto kernels_of_step = static_cast<uint32_t>(number(4, 300'000) * kStepNs / kWindowNs);
  Outcome outcome;
  Steps steps;
  pitot::Options options;
  options.incident_directory = argv[1];
  options.max_incidents_per_cause_and_hour = 1'000'000;
  options.max_incident_directory_bytes = 4ull << 30;
  options.memory_budget_bytes = 512ull << 20;  // rows of GPU records are in it
  options.worker_cpu_percent = static_cast<uint32_t>(number(5, 25));
  pitot::Recorder recorder = pitot::Recorder::Start(options);
  pitot::WhyJudgeOptions why;
  why.warm_up_ms = 0;
  recorder.Add(std::make_unique<FakeGpu>(&steps, kernels_of_step));
  recorder.Add(pitot::MakeWhyJudge(why));
  if (argc > 7 && std::strcmp(argv[7], "latency") == 0)
    recorder.Add(pitot::MakeLatencyTrigger({.above_ms = (kTokens * kStepNs + 90 * kMs) * 1e-6, .cool_down_ms = 900}));
  else
    recorder.Add(pitot::MakeTokensTrigger({.gap_above_ms = 90, .cool_down_ms = 900}));
  recorder.SetDepth(pitot::Depth::kKernels);
  Listen(&outcome, &recorder);
  if (!recorder.status().ok()) return std::fprintf(stderr, "%s\n", recorder.status().message()), 1;
  double write_s = 0, work_s = 0, watch_s = 0;
  int64_t took_ns = 0;
  {
    Engine engine(&steps, &outcome, kernels_of_step, std::clamp(number(6, 3), 1, 3));
    std::this_thread::sleep_for(milliseconds(6000));
    write_s -= CpuSeconds("pitot-write"), work_s -= CpuSeconds("pitot-work"), watch_s -= CpuSeconds("pitot-watch");
    const int64_t begin_ns = NowNs();
    for (int i = 0; i < incidents; ++i) {
      engine.Fault();
      std::this_thread::sleep_until(
          std::chrono::steady_clock::time_point(std::chrono::nanoseconds(begin_ns + int64_t{i + 1} * every_ms * kMs)));
    }
    took_ns = NowNs() - begin_ns;
    write_s += CpuSeconds("pitot-write"), work_s += CpuSeconds("pitot-work"), watch_s += CpuSeconds("pitot-watch");
    recorder.Flush(60'000);
  }
  const pitot::Stats stats = recorder.Stats();
  std::printf(
      "faults %d, incidents %llu, with a verdict %llu, without %llu, files missing %llu\n", incidents,
      static_cast<unsigned long long>(stats.incidents_written), static_cast<unsigned long long>(stats.verdicts_given),
      static_cast<unsigned long long>(stats.verdicts_failed), static_cast<unsigned long long>(stats.files_failed));
  const auto print = [](const char* what, const std::vector<double>& ms) {
    std::printf("%s p50 %.0f, p95 %.0f, p99 %.0f, most %.0f ms\n", what, Quantile(ms, 0.5), Quantile(ms, 0.95),
                Quantile(ms, 0.99), Quantile(ms, 1));
  };
  print("trigger to disk    ", outcome.to_disk_ms);
  print("trigger to verdict ", outcome.to_verdict_ms);
  const double each = 1e3 / incidents, percent = 100e9 / static_cast<double>(took_ns);
  std::printf("CPU for each, ms: watcher %.0f, writer %.0f, worker %.0f; writer and worker %.1f %% of one CPU\n",
              watch_s * each, write_s * each, work_s * each, (write_s + work_s) * percent);
  for (const auto& [why_not, times] : outcome.why_not) std::printf("%4d times: %s\n", times, why_not.c_str());
  return stats.verdicts_failed == 0 && stats.verdicts_given == stats.incidents_written ? 0 : 1;
}
