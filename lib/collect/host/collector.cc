// SPDX-License-Identifier: Apache-2.0
#include "collect/host/collector.h"

#include <pthread.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/host_counters.h"
#include "base/message.h"
#include "base/mutex.h"
#include "base/one_in_process.h"
#include "base/patient_thread.h"
#include "collect/host/history.h"
#include "collect/host/prompt.h"
#include "collect/host/sources.h"
#include "trace/last_rows.h"
#include "trace/rest.h"

namespace pitot::host {
namespace {

using base::Error;

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kStopPatienceNs = 2 * kSecondNs;
// For the process and the machine: a twentieth of the time between two looks. A look takes 11 us, with the clocks of 16
// CPUs 0.4 ms; cpu.stat may take longer on machines with many cgroups.
constexpr int64_t kPromptNs = 5'000'000;

// The collector for which the process's threads record their usage.
constinit base::OneInProcess g_only;

// State of the thread, which keeps it alive, too.
struct Shared {
  Shared(const HostOptions& options, const Environment& environment)
      : period_ns(kSecondNs / options.rate_hz),
        thread_period_ns(kSecondNs / options.thread_rate_hz),
        timer(environment.timer),
        sources(environment.root),
        threads(environment.root, options.most_threads, environment.read_cpu),
        history(options.memory_bytes) {
    samples.reserve(kHostCounterCount + 4 * size_t{options.most_threads});
  }

  const int64_t period_ns, thread_period_ns;
  const std::shared_ptr<base::Timer> timer;
  std::atomic<bool> stop{false};
  Sources sources;
  base::Mutex threads_mutex;
  Threads threads PITOT_GUARDED_BY(threads_mutex);
  History history;

  // Used by the thread only.
  std::vector<Sample> samples;
  struct Written {
    int64_t at_ns = 0;
    double value = 0;
    trace::LastCounter last;
  } written[kHostCounterCount];
  int64_t frequency_ns = 0;  // time of the last reading
  Rounds process_rounds, thread_rounds;

  void Write(uint32_t counter, int64_t at_ns, double value);
  void LookAtProcess(int64_t now_ns);
  void Run() noexcept;
  void Keep(int64_t begin_ns, KeepFor what) noexcept;
};

// Writes the value if it changed, and once a second.
void Shared::Write(uint32_t counter, int64_t at_ns, double value) {
  Written& known = written[counter];
  if (known.at_ns != 0 && known.value == value && at_ns - known.at_ns < kSecondNs) return;
  known.at_ns = at_ns, known.value = value;
  samples.push_back({at_ns, value, 0, counter});
  const base::CounterName& what = kHostCounters[counter];
  known.last.Note(
      at_ns, value, [&] { return base::HostCounter(what); }, what.unit);
}

void Shared::LookAtProcess(int64_t now_ns) {
  const bool with_frequency = frequency_ns == 0 || now_ns - frequency_ns >= kSecondNs;
  std::optional<double> values[kHostCounterCount];
  const std::optional<int64_t> at_ns = ReadPromptly(*timer, kPromptNs, [&] {
    sources.Read(with_frequency, [&](Counter counter, double value) { values[static_cast<uint8_t>(counter)] = value; });
  });
  process_rounds.dropped += !at_ns;
  if (!at_ns) return;
  if (with_frequency) frequency_ns = now_ns;
  for (uint32_t counter = 0; counter < kHostCounterCount; ++counter) {
    if (values[counter]) Write(counter, *at_ns, *values[counter]);
  }
}

void Shared::Run() noexcept {
  pthread_setname_np(pthread_self(), "pitot-host");
  trace::Rest rest([](void* of) { static_cast<base::Timer*>(of)->Wake(); }, timer.get());
  int64_t process_due_ns = timer->NowNs(), threads_due_ns = process_due_ns;
  uint32_t left_out = 0;
  int64_t ran_ns = 0;  // when threads were last seen to run
  while (!stop.load(std::memory_order_acquire)) {
    const int64_t now_ns = timer->NowNs();
    samples.clear();
    // Rounds keep to their times; missed ones are left out, not made up for.
    const auto is_due = [now_ns](int64_t* due_ns, int64_t of_ns) {
      if (now_ns < *due_ns) return false;
      *due_ns += ((now_ns - *due_ns) / of_ns + 1) * of_ns;
      return true;
    };
    // Out of memory, the round is missed.
    try {
      if (is_due(&process_due_ns, period_ns)) {
        LookAtProcess(now_ns);
        process_rounds.Add(timer->NowNs() - now_ns);
      }
      if (is_due(&threads_due_ns, thread_period_ns)) {
        const base::MutexLock lock(&threads_mutex);
        const int64_t begin_ns = timer->NowNs();
        threads.Round(*timer, &samples);
        left_out = threads.left_out();
        if (threads.has_run()) ran_ns = begin_ns;
        thread_rounds.dropped = threads.dropped();
        thread_rounds.Add(timer->NowNs() - begin_ns);
      }
    } catch (const std::exception&) {}
    const int64_t end_ns = timer->NowNs();
    const bool is_at_rest = rest.May(end_ns) && end_ns - ran_ns >= trace::Rest::kQuietNs;
    Write(static_cast<uint32_t>(Counter::kRest), end_ns, is_at_rest ? static_cast<double>(trace::Rest::kLookNs) : 0);
    history.Commit(samples, process_rounds, thread_rounds, left_out);
    const int64_t due_ns = is_at_rest ? end_ns + trace::Rest::kLookNs : std::min(process_due_ns, threads_due_ns);
    if (!stop.load(std::memory_order_acquire)) timer->WaitUntil(due_ns);
  }
  const base::MutexLock lock(&threads_mutex);
  threads.Close();
}

// Adds the present values of threads at work for an incident. For an open request nothing else has them: its thread has
// not come to its next edge.
void Shared::Keep(int64_t begin_ns, KeepFor what) noexcept {
  std::vector<Sample> now;
  // Out of memory, threads stay as they were last seen.
  try {
    const base::MutexLock lock(&threads_mutex);
    if (what == KeepFor::kIncident && !stop.load(std::memory_order_acquire)) threads.Now(*timer, &now);
  } catch (const std::exception&) {}
  history.Keep(begin_ns, now);
}

Status Check(const HostOptions& options) {
  const auto check = [](const char* name, uint64_t value, uint64_t least, uint64_t most) -> Status {
    if (value >= least && value <= most) return {};
    return Error(StatusCode::kInvalidArgument, "HostOptions::%s is %llu; it must be %llu to %llu", name,
                 static_cast<unsigned long long>(value), static_cast<unsigned long long>(least),
                 static_cast<unsigned long long>(most));
  };
  if (Status s = check("rate_hz", options.rate_hz, 1, 50); !s.ok()) return s;
  if (Status s = check("thread_rate_hz", options.thread_rate_hz, 1, 200); !s.ok()) return s;
  if (Status s = check("most_threads", options.most_threads, 1, 1024); !s.ok()) return s;
  return check("memory_bytes", options.memory_bytes, 64 << 10, 1 << 30);
}

class HostCollector final : public Collector {
 public:
  HostCollector(const HostOptions& options, Environment environment)
      : wrong_(Check(options)), options_(options), environment_(std::move(environment)) {}
  ~HostCollector() override { HostCollector::Stop(); }

  const char* Name() const noexcept override { return "host"; }
  Status Start() noexcept override;
  void Stop() noexcept override;
  uint64_t HeldBytes() const noexcept override { return options_.memory_bytes; }
  // A sample takes 24 bytes of it, twice, and 44 in an incident.
  uint64_t IncidentBytes() const noexcept override { return options_.memory_bytes + (1 << 20); }
  void Keep(int64_t begin_ns, KeepFor what) noexcept override {
    if (IsOurs()) shared_->Keep(begin_ns, what);
  }
  void AddTo(TraceBuilder& trace) override;

 private:
  // In the child of a fork there is no thread, and locks it held are never released.
  bool IsOurs() const noexcept { return has_started_ && getpid() == pid_; }

  const Status wrong_;  // a fault of the options
  const HostOptions options_;
  const Environment environment_;
  std::shared_ptr<Shared> shared_;
  base::PatientThread thread_;
  pid_t pid_ = 0;
  bool has_started_ = false, has_stopped_ = false;
};

Status HostCollector::Start() noexcept {
  if (!wrong_.ok()) return wrong_;
  if (has_started_ || !g_only.Take())
    return Status(StatusCode::kAlreadyRunning, "this process has a host collector already");
  try {
    shared_ = std::make_shared<Shared>(options_, environment_);
    thread_.Start([shared = shared_] { shared->Run(); });
  } catch (const std::exception& e) {
    g_only.GiveBack();
    return Error(StatusCode::kResourceExhausted, "cannot start the host collector: %s", e.what());
  }
  pid_ = getpid();
  has_started_ = true;
  trace::SetUsageReader(environment_.read_usage);
  return {};
}

void HostCollector::Stop() noexcept {
  if (!IsOurs() || std::exchange(has_stopped_, true)) return;
  trace::SetUsageReader(nullptr);
  shared_->stop.store(true, std::memory_order_release);
  shared_->timer->Wake();
  thread_.End(kStopPatienceNs);
  g_only.GiveBack();
}

void HostCollector::AddTo(TraceBuilder& trace) {
  if (!IsOurs()) return;
  shared_->history.AddTo(trace);
  std::string missing;
  for (const Source& source : shared_->sources.all()) {
    if (!source.is_there) missing += (missing.empty() ? "" : "; ") + source.name + " (" + source.said + ")";
  }
  if (!missing.empty()) trace.AddAttribute("host.not_recorded", missing.c_str());
  if (const long cpus = shared_->sources.cpus(); cpus > 0)
    trace.AddAttribute(base::kCpusAttribute, std::to_string(cpus).c_str());
}

int64_t CpuNs(int64_t tid) noexcept {
  // As pthread_getcpuclockid makes it of a thread's number (<linux/posix-timers.h>): per thread 4, scheduler's clock 2.
  const auto clock = static_cast<clockid_t>(~static_cast<uint32_t>(tid) << 3 | 4 | 2);
  timespec at = {};
  if (clock_gettime(clock, &at) != 0) return -1;
  return at.tv_sec * kSecondNs + at.tv_nsec;
}

bool ReadUsage(int schedstat, trace::Usage* usage) noexcept {
  timespec cpu = {};
  rusage of_thread = {};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu) != 0 || getrusage(RUSAGE_THREAD, &of_thread) != 0) return false;
  if (schedstat >= 0) usage->runqueue_ns = ReadRunQueueDelay(schedstat).value_or(trace::Usage::kUnknown);
  usage->cpu_ns = static_cast<uint64_t>(cpu.tv_sec) * kSecondNs + static_cast<uint64_t>(cpu.tv_nsec);
  usage->voluntary_switches = static_cast<uint32_t>(of_thread.ru_nvcsw);
  usage->involuntary_switches = static_cast<uint32_t>(of_thread.ru_nivcsw);
  usage->minor_faults = static_cast<uint32_t>(of_thread.ru_minflt);
  usage->major_faults = static_cast<uint32_t>(of_thread.ru_majflt);
  return true;
}

}  // namespace

Environment SystemEnvironment() { return {"", std::make_shared<base::SystemTimer>(), CpuNs, ReadUsage}; }

std::unique_ptr<Collector> MakeCollector(const HostOptions& options, Environment environment) {
  return std::make_unique<HostCollector>(options, std::move(environment));
}

}  // namespace pitot::host

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Collector> MakeHostCollector(const HostOptions& options) noexcept {
  try {
    return host::MakeCollector(options, host::SystemEnvironment());
  } catch (...) {
    return nullptr;
  }
}

PITOT_NAMESPACE_END
