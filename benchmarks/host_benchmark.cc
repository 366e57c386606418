// SPDX-License-Identifier: Apache-2.0
//
// The cost of the host's evidence: possible and actual readings at the edges of requests, and the collector's own
// rounds.
#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <vector>

#include "benchmarks/recording.h"
#include "benchmarks/register.h"
#include "benchmarks/rounds.h"
#include "collect/host/collector.h"
#include "collect/host/sources.h"
#include "pitot/request.h"
#include "trace/usage.h"

namespace pitot::benchmarks {
namespace {

constexpr uint64_t kReads = 20'000;
constexpr int kRounds = 41;
constexpr const char* kSchedstat = "/proc/thread-self/schedstat";

double Rusage(uint64_t count) {
  auto body = [](uint64_t) {
    rusage usage = {};
    getrusage(RUSAGE_THREAD, &usage);
  };
  return TimeLoop(count, body);
}

double ThreadClock(uint64_t count) {
  auto body = [](uint64_t) {
    timespec cpu = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  };
  return TimeLoop(count, body);
}

double Schedstat(uint64_t count) {
  const int file = open(kSchedstat, O_RDONLY | O_CLOEXEC);
  auto body = [&](uint64_t) { host::ReadRunQueueDelay(file); };
  const double ns = TimeLoop(count, body);
  close(file);
  return ns;
}

double OpenedSchedstat(uint64_t count) {
  auto body = [](uint64_t) {
    const int file = open(kSchedstat, O_RDONLY | O_CLOEXEC);
    host::ReadRunQueueDelay(file);
    close(file);
  };
  return TimeLoop(count, body);
}

template <double (*kLoop)(uint64_t)> void Alone(benchmark::State&, Rounds& rounds) { rounds.Measure(kReads, kLoop); }

// Like a thread that begins a request, and has not looked for a millisecond.
void Edge(benchmark::State& state, Rounds& rounds) {
  Recorder recorder;
  if (!StartOrSkip(state, Options(), &recorder)) return;
  const host::Environment system = host::SystemEnvironment();
  const int file = open(kSchedstat, O_RDONLY | O_CLOEXEC);
  trace::ThreadRing* const ring = trace::EnterThread();
  trace::SetSchedstat(ring, file);
  rounds.Measure(kReads, [&](uint64_t count) {
    auto body = [&](uint64_t) {
      ring->usage_due = 0;
      trace::RecordUsage(ring, system.read_usage, detail::Clock(ring->gate));
    };
    return TimeLoop(count, body);
  });
  trace::SetSchedstat(ring, -1);
  close(file);
}

double BeginFinish(uint64_t count) {
  auto body = [](uint64_t) {
    Request request = Request::Begin("/classify");
    request.Finish(Outcome::kOk);
  };
  return TimeLoop(count, body);
}

// Back to back, so that of a thousand edges few are a millisecond apart: the cost of all the others.
void AddedToRequests(benchmark::State& state, Rounds& rounds) {
  const auto run = [&](bool is_looked_at, uint64_t count) {
    Recorder recorder;
    if (!StartOrSkip(state, Options(), &recorder)) return 0.0;
    if (is_looked_at && !OkOrSkip(state, recorder.Add(MakeHostCollector()))) return 0.0;
    BeginFinish(1000);
    return BeginFinish(count);
  };
  rounds.Subtract(
      kReads, [&](uint64_t count) { return run(false, count); }, [&](uint64_t count) { return run(true, count); });
}

void ProcessRound(benchmark::State&, Rounds& rounds) {
  host::Sources sources("");
  rounds.Measure(kReads / 20, [&](uint64_t count) {
    auto body = [&](uint64_t) { sources.Read(false, [](host::Counter, double) {}); };
    return TimeLoop(count, body);
  });
}

void ThreadRound(benchmark::State& state, Rounds& rounds) {
  Recorder recorder;
  if (!StartOrSkip(state, Options(), &recorder)) return;
  PITOT_SCOPE("at work");
  host::Threads threads("", 64, host::SystemEnvironment().read_cpu);
  std::vector<host::Sample> samples;
  base::SystemTimer timer;
  rounds.Measure(kReads / 20, [&](uint64_t count) {
    auto body = [&](uint64_t) {
      samples.clear();
      threads.Round(timer, &samples);
    };
    return TimeLoop(count, body);
  });
  threads.Close();
}

}  // namespace

void RegisterHost() {
  Register("getrusage(RUSAGE_THREAD)", kRounds, Alone<Rusage>, "ns", 0);
  Register("CLOCK_THREAD_CPUTIME_ID", kRounds, Alone<ThreadClock>, "ns", 0);
  Register("schedstat, kept open", kRounds, Alone<Schedstat>, "ns", 0);
  Register("schedstat, opened and closed", kRounds, Alone<OpenedSchedstat>, "ns", 0);
  Register("edge of a request: usage recorded", kRounds, Edge, "ns", 0);
  Register("request begin and finish, host: added", kRounds, AddedToRequests, "ns", 0);
  Register("host: a look at the process and the machine", kRounds, ProcessRound, "ns", 0);
  Register("host: a look at one thread", kRounds, ThreadRound, "ns", 0);
}

}  // namespace pitot::benchmarks
