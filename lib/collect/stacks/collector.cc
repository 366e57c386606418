// SPDX-License-Identifier: Apache-2.0
#include "collect/stacks/collector.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/message.h"
#include "base/mutex.h"
#include "base/one_in_process.h"
#include "base/patient_thread.h"
#include "pitot/stack.h"
#include "trace/names.h"
#include "trace/requests.h"
#include "trace/rest.h"
#include "trace/system_call.h"

namespace pitot::stacks {
namespace {

using base::Error;

constexpr int64_t kMs = 1'000'000, kStopPatienceNs = 2'000 * kMs;
constexpr int64_t kTickNs = 10 * kMs, kIdleTickNs = 50 * kMs;  // while a request is open; while none is
// A pause is this part of the time since requests are late, up to a limit: many stacks of a short delay, some of a
// long.
constexpr int64_t kPausePart = 8, kMostPauseNs = 50 * kMs;
constexpr int64_t kRefillNs = 5'000 * kMs;                // of StackOptions::most_stacks
constexpr int64_t kMostCpuNs = 50 * kMs, kCpuPart = 100;  // CPU time at once, and its share of the time
constexpr int64_t kFreshNs = 10'000 * kMs;                // then modules may have been unloaded
constexpr uint32_t kMostNames = 1000;                     // of frames, for the life of the process

constinit base::OneInProcess g_only;
constinit trace::NameQuota g_names;

// Why a stack is missing, counted since the start.
enum Missing : uint32_t { kRan, kWentOn, kOverBudget, kNotUnwound, kNoRoom, kTooOld, kMissingKinds };
constexpr const char* kMissingWords[kMissingKinds] = {
    "threads ran",
    "threads went on meanwhile",
    "stacks were beyond the budget",
    "stacks could not be unwound",
    "running threads were beyond the limit of descriptors, locked memory or 16",
    "stacks came too late"};

// A small file of /proc. An error: errno; the text is then empty.
struct ProcFile {
  explicit ProcFile(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    char bytes[512];
    const ssize_t length = file >= 0 ? read(file, bytes, sizeof bytes) : -1;
    if (length < 0) error = errno;
    if (length > 0) text.assign(bytes, static_cast<size_t>(length));
    if (file >= 0) close(file);
  }
  std::string text;
  int error = 0;
};

std::string WhyNoCalls(int error) { return std::string("cannot read /proc/self/task/*/syscall: ") + strerror(error); }

// State of the thread, which keeps it alive, too.
struct Shared {
  Shared(const StackOptions& of, Environment with)
      : options(of),
        environment(std::move(with)),
        tids(options.most_threads),
        stacks_left(static_cast<double>(options.most_stacks)),
        refused(environment.why_not) {}

  const StackOptions options;
  const Environment environment;
  std::atomic<bool> stop{false};

  // Used by the thread only.
  std::vector<int64_t> tids;
  double stacks_left;
  int64_t cpu_left_ns = kMostCpuNs, refilled_ns = 0;
  int64_t late_since_ns = 0, due_ns = 0;  // 0: no request is late
  int64_t fresh_ns = 0;                   // what is known of modules and threads is not older
  uint32_t missed = 0;                    // since the last record
  // What a thread had when it was last seen: if it has not run since, its stack is the same.
  struct Seen {
    std::string state;
    std::vector<Frame> frames;
  };
  std::unordered_map<int64_t, Seen> seen;
  std::vector<int64_t> running;  // threads of this look
  Sample sample;
  trace::Rest resting{[](void* timer) { static_cast<base::Timer*>(timer)->Wake(); }, environment.timer.get()};

  base::Mutex mutex;
  std::string refused PITOT_GUARDED_BY(mutex);          // why no stack can be had; "": they can
  std::string refused_running PITOT_GUARDED_BY(mutex);  // why none of running threads
  uint64_t missing[kMissingKinds] PITOT_GUARDED_BY(mutex) = {};

  void Run() noexcept;
  int64_t Look(int64_t now_ns);
  void Refill(int64_t now_ns);
  bool HasBudget() const { return stacks_left >= 1 && cpu_left_ns > 0; }
  template <class Work> void Spend(const Work& work);
  void Take(int64_t tid);
  void TakeSamples();
  void TakeSample();
  void SampleRunning();
  void EndSamples(uint32_t but = 0);
  void Record(const std::vector<Frame>& frames, StackSample stack);
  void EndLateness();
  void Forget(int64_t now_ns) {
    fresh_ns = now_ns;
    seen.clear();
    environment.unwinder->Reset();
  }
  void Miss(Missing why, uint32_t count = 1) {
    if (why != kRan) missed += count;
    const base::MutexLock lock(&mutex);
    missing[why] += count;
  }
  void Refuse(const std::string& why) {
    const base::MutexLock lock(&mutex);
    refused = why;
  }
  void RefuseRunning(const std::string& why) {
    const base::MutexLock lock(&mutex);
    refused_running = why;
  }
};

void Shared::Run() noexcept {
  pthread_setname_np(pthread_self(), "pitot-stacks");
  while (!stop.load(std::memory_order_acquire)) {
    int64_t next_ns = environment.timer->NowNs() + kIdleTickNs;
    try {
      next_ns = Look(environment.timer->NowNs());
    } catch (const std::exception&) {}  // out of memory, the look is missed
    if (!stop.load(std::memory_order_acquire)) environment.timer->WaitUntil(next_ns);
  }
  EndSamples();
}

// Returns when to look again.
int64_t Shared::Look(int64_t now_ns) {
  const uint32_t found = environment.find_late(tids.data(), options.most_threads);
  if (found == 0) {
    if (late_since_ns != 0) EndLateness();
    if (resting.May(now_ns)) return now_ns + trace::Rest::kLookNs;
    return now_ns + (trace::CountRequests().open != 0 ? kTickNs : kIdleTickNs);
  }
  if (late_since_ns == 0) late_since_ns = due_ns = now_ns;
  if (now_ns < due_ns) return now_ns + kTickNs;
  if (now_ns - fresh_ns > kFreshNs) Forget(now_ns);
  Refill(now_ns);
  const uint32_t taken = std::min(found, options.most_threads);
  if (found > taken) Miss(kOverBudget, found - taken);
  TakeSamples();
  running.clear();
  for (uint32_t i = 0; i < taken; ++i) {
    if (!HasBudget()) {
      Miss(kOverBudget, taken - i);
      break;
    }
    Spend([&] { Take(tids[i]); });
  }
  EndSamples(HasBudget() ? taken : 0);
  SampleRunning();
  due_ns = now_ns + std::min((now_ns - late_since_ns) / kPausePart, kMostPauseNs);
  return now_ns + kTickNs;
}

template <class Work> void Shared::Spend(const Work& work) {
  const int64_t before_ns = environment.cpu_ns();
  work();
  cpu_left_ns -= environment.cpu_ns() - before_ns;
}

void Shared::Refill(int64_t now_ns) {
  const int64_t passed_ns = std::min(now_ns - refilled_ns, kRefillNs);
  const auto most = static_cast<double>(options.most_stacks);
  stacks_left = std::min(most, stacks_left + most * static_cast<double>(passed_ns) / kRefillNs);
  cpu_left_ns = std::min(kMostCpuNs, cpu_left_ns + passed_ns / kCpuPart);
  refilled_ns = now_ns;
}

// The thread runs on meanwhile. It has not if its state is the same afterwards: its system call with the stack pointer,
// and its time on a CPU.
void Shared::Take(int64_t tid) {
  const std::string folder = environment.root + "/proc/self/task/" + std::to_string(tid);
  const auto state = [&](const ProcFile& call) { return call.text + ProcFile(folder + "/schedstat").text; };
  const ProcFile file(folder + "/syscall");
  if (file.error == ENOENT || file.error == ESRCH) return;  // it has ended
  if (file.error != 0) return Refuse(WhyNoCalls(file.error));
  trace::SystemCall call;
  if (!trace::ParseSystemCall(file.text.c_str(), &call)) return running.push_back(tid);
  const std::string before = state(file);
  Seen& last = seen[tid];
  if (last.state != before) {
    last.state.clear();
    last.frames = environment.unwinder->Unwind(call.stack, call.instruction);
  }
  if (state(ProcFile(folder + "/syscall")) != before) return Miss(kWentOn);
  last.state = before;
  stacks_left -= 1;
  if (last.frames.empty()) return Miss(kNotUnwound);
  StackSample stack;
  stack.tid = tid;
  stack.call = trace::SystemCallName(call.number);
  Record(last.frames, stack);
}

// The samples of running threads since the last look, one of each at most.
void Shared::TakeSamples() {
  if (environment.sampler == nullptr) return;
  for (size_t i = 0; i < Sampler::kMostThreads && environment.sampler->Take(&sample); ++i) {
    if (HasBudget())
      Spend([&] { TakeSample(); });
    else
      Miss(kOverBudget);
  }
}

void Shared::TakeSample() {
  StackSample stack;
  stack.tid = sample.tid;
  stack.call = Intern("");
  stack.is_on_cpu = true;
  stack.age_ns = environment.timer->NowNs() - sample.at_ns;
  if (stack.age_ns > StackSample::kOldestNs) return Miss(kTooOld);
  stacks_left -= 1;
  const std::vector<Frame> frames = environment.unwinder->UnwindSample(sample);
  if (frames.empty()) return Miss(kNotUnwound);
  Record(frames, stack);
}

// Begins to sample threads that ran in this look. The first one after a pause may wait for the kernel.
void Shared::SampleRunning() {
  for (const int64_t tid : running) {
    if (!HasBudget()) {
      Miss(kOverBudget);
      continue;
    }
    auto begun = Sampler::Begun::kRefused;
    if (environment.sampler != nullptr) Spend([&] { begun = environment.sampler->Begin(tid); });
    if (begun == Sampler::Begun::kNoRoom) Miss(kNoRoom);
    if (begun == Sampler::Begun::kRefused) Miss(kRan);
  }
  if (environment.sampler != nullptr) RefuseRunning(environment.sampler->why_not());
}

// Ends the sampling of all threads but the first ones of `tids`.
void Shared::EndSamples(uint32_t but) {
  if (environment.sampler == nullptr) return;
  Spend([&] { environment.sampler->EndAllBut(tids.data(), but); });
}

// The innermost frame, the innermost outside of the runtime, and its callers.
void Shared::Record(const std::vector<Frame>& frames, StackSample stack) {
  const auto own = static_cast<size_t>(
      std::find_if(frames.begin(), frames.end(), [](const Frame& frame) { return !frame.is_runtime; }) -
      frames.begin());
  stack.is_native = true;
  stack.own = own == frames.size() ? StackSample::kFrames : own == 0 ? 0 : 1;
  stack.missed = std::exchange(missed, 0);
  for (Name& name : stack.frames) name = Intern("");
  stack.frames[0] = g_names.Intern(frames[0].text, kMostNames);
  for (size_t i = 1; i < StackSample::kFrames; ++i) {
    const size_t from = (own == 0 || own == frames.size() ? 0 : own - 1) + i;
    if (from < frames.size()) stack.frames[i] = g_names.Intern(frames[from].text, kMostNames);
  }
  RecordStack(stack);
}

void Shared::EndLateness() {
  TakeSamples();
  EndSamples();
  late_since_ns = due_ns = 0;
  Forget(0);
  if (missed == 0) return;
  StackSample rest;
  rest.missed = std::exchange(missed, 0);
  for (Name* name : {&rest.call, &rest.frames[0], &rest.frames[1], &rest.frames[2]}) *name = Intern("");
  RecordStack(rest);
}

Status Check(const StackOptions& options) {
  const auto check = [](const char* name, uint32_t value, uint32_t most) -> Status {
    if (value >= 1 && value <= most) return {};
    return Error(StatusCode::kInvalidArgument, "StackOptions::%s is %u; it must be 1 to %u", name, value, most);
  };
  if (Status s = check("most_stacks", options.most_stacks, 1024); !s.ok()) return s;
  if (Status s = check("most_threads", options.most_threads, 64); !s.ok()) return s;
  if (options.running_threads <= RunningThreads::kNever) return {};
  return Error(StatusCode::kInvalidArgument, "StackOptions::running_threads is %u; it must be 0 to 2",
               static_cast<unsigned>(options.running_threads));
}

class StackCollector final : public Collector {
 public:
  StackCollector(const StackOptions& options, Environment environment)
      : wrong_(Check(options)), shared_(std::make_shared<Shared>(options, std::move(environment))) {}
  ~StackCollector() override { StackCollector::Stop(); }

  const char* Name() const noexcept override { return "stacks"; }
  Status Start() noexcept override;
  void Stop() noexcept override;
  uint64_t IncidentBytes() const noexcept override { return 0; }
  uint64_t HeldBytes() const noexcept override { return kNamesBytes + kSampleBytes; }
  void Keep(int64_t /*begin_ns*/, KeepFor /*what*/) noexcept override {}  // stacks are events of its thread
  void AddTo(TraceBuilder& trace) override;

 private:
  static constexpr uint64_t kNamesBytes = 256 << 10;  // names of frames by instruction, at most
  static constexpr uint64_t kSampleBytes = Sampler::kMostThreads * Sampler::kRingBytes;

  // In the child of a fork there is no thread, and locks it held are never released.
  bool IsOurs() const noexcept { return has_started_ && getpid() == pid_; }

  const Status wrong_;  // a fault of the options
  const std::shared_ptr<Shared> shared_;
  base::PatientThread thread_;
  pid_t pid_ = 0;
  bool has_started_ = false, has_stopped_ = false;
};

Status StackCollector::Start() noexcept {
  if (!wrong_.ok()) return wrong_;
  if (has_started_ || !g_only.Take())
    return Status(StatusCode::kAlreadyRunning, "this process has a collector of stacks already");
  try {
    if (shared_->environment.unwinder != nullptr) thread_.Start([shared = shared_] { shared->Run(); });
  } catch (const std::exception& e) {
    g_only.GiveBack();
    return Error(StatusCode::kResourceExhausted, "cannot start the collector of stacks: %s", e.what());
  }
  pid_ = getpid();
  has_started_ = true;
  if (shared_->environment.unwinder != nullptr) WatchLateRequests(true);
  return {};
}

void StackCollector::Stop() noexcept {
  if (!IsOurs() || std::exchange(has_stopped_, true)) return;
  if (shared_->environment.unwinder != nullptr) {
    WatchLateRequests(false);
    shared_->stop.store(true, std::memory_order_release);
    shared_->environment.timer->Wake();
    thread_.End(kStopPatienceNs);
  }
  g_only.GiveBack();
}

void StackCollector::AddTo(TraceBuilder& trace) {
  if (!IsOurs()) return;
  std::string refused, left_out;
  {
    const base::MutexLock lock(&shared_->mutex);
    refused = shared_->refused;
    if (refused.empty() && !shared_->refused_running.empty())
      refused = "of running threads: " + shared_->refused_running;
    for (uint32_t why = 0; why < kMissingKinds; ++why) {
      if (shared_->missing[why] == 0) continue;
      left_out += (left_out.empty() ? "" : ", ") + std::to_string(shared_->missing[why]) + " " + kMissingWords[why];
    }
  }
  if (!refused.empty()) trace.AddAttribute("stacks.not_recorded", refused.c_str());
  if (!left_out.empty()) trace.AddAttribute("stacks.left_out", left_out.c_str());
}

int64_t OwnCpuNs() noexcept {
  timespec at = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
  return at.tv_sec * 1'000 * kMs + at.tv_nsec;
}

}  // namespace

Environment SystemEnvironment(RunningThreads running_threads) {
  Environment environment;
  environment.timer = std::make_shared<base::SystemTimer>();
  environment.unwinder = OpenUnwinder(&environment.why_not);
  if (running_threads != RunningThreads::kNever)
    environment.sampler = std::make_unique<Sampler>(SystemKernel(), running_threads);
  environment.find_late = FindLateThreads;
  environment.cpu_ns = OwnCpuNs;
  return environment;
}

std::string WhyNoStacks() {
  std::string why_not;
  if (OpenUnwinder(&why_not) == nullptr) return why_not;
  const ProcFile own("/proc/self/task/" + std::to_string(gettid()) + "/syscall");
  return own.error == 0 ? "" : WhyNoCalls(own.error);
}

std::unique_ptr<Collector> MakeCollector(const StackOptions& options, Environment environment) {
  return std::make_unique<StackCollector>(options, std::move(environment));
}

}  // namespace pitot::stacks

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Collector> MakeStackCollector(const StackOptions& options) noexcept {
  try {
    return stacks::MakeCollector(options, stacks::SystemEnvironment(options.running_threads));
  } catch (...) {
    return nullptr;
  }
}

PITOT_NAMESPACE_END
