// SPDX-License-Identifier: Apache-2.0
//
// The cost of a macro for its thread, against the least that anything timing a scope must do: read the clock twice and
// keep 24 bytes.
#include <barrier>
#include <memory>
#include <thread>

#include "benchmarks/recording.h"
#include "benchmarks/register.h"
#include "benchmarks/rounds.h"
#include "pitot/phase.h"
#include "pitot/trace.h"

namespace pitot::benchmarks {
namespace {

constexpr uint64_t kScopes = 200'000;
constexpr int kRounds = 41;

// The reference: as little as can be.
struct LimitRing {
  static constexpr uint64_t kWords = 1 << 17;  // 1 MiB, as a thread's ring has
  uint64_t head = 0;
  uint64_t words[kWords] = {};
};
__thread LimitRing* t_limit __attribute__((tls_model("initial-exec"))) = nullptr;

void AttachLimit() {
  thread_local const std::unique_ptr<LimitRing> ring = std::make_unique<LimitRing>();
  t_limit = ring.get();
}

uint64_t ReadClock() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#endif
}

double Limit(uint64_t count) {
  AttachLimit();
  auto body = [](uint64_t i) {
    const uint64_t begin = ReadClock();
    asm volatile("" ::: "memory");
    const uint64_t end = ReadClock();
    LimitRing* ring = t_limit;
    const uint64_t head = ring->head;
    __atomic_store_n(&ring->words[head & (LimitRing::kWords - 1)], begin, __ATOMIC_RELAXED);
    __atomic_store_n(&ring->words[(head + 1) & (LimitRing::kWords - 1)], end, __ATOMIC_RELAXED);
    __atomic_store_n(&ring->words[(head + 2) & (LimitRing::kWords - 1)], i, __ATOMIC_RELAXED);
    __atomic_store_n(&ring->head, head + 3, __ATOMIC_RELEASE);
  };
  return TimeLoop(count, body);
}

double ScopeOneArgument(uint64_t count) {
  auto body = [](uint64_t i) {
    PITOT_SCOPE("scope", i);
    asm volatile("" ::: "memory");
  };
  return TimeLoop(count, body);
}

double ScopeThreeArguments(uint64_t count) {
  auto body = [](uint64_t i) {
    PITOT_SCOPE("scope", i, 2.5, PITOT_LITERAL("jpeg"));
    asm volatile("" ::: "memory");
  };
  return TimeLoop(count, body);
}

double Leaf(uint64_t count) {
  auto body = [](uint64_t) {
    PITOT_LEAF("leaf");
    asm volatile("" ::: "memory");
  };
  return TimeLoop(count, body);
}

double ScopeIfSlower(uint64_t count) {
  auto body = [](uint64_t) {
    PITOT_SCOPE_IF_SLOWER("scope", 1'000'000);
    asm volatile("" ::: "memory");
  };
  return TimeLoop(count, body);
}

// Per boundary: seven phases have eight.
double Phase(uint64_t count) {
  auto body = [](uint64_t) {
    PITOT_PHASES(stages);
    PITOT_PHASE(stages, "queue");
    asm volatile("" ::: "memory");
    PITOT_PHASE(stages, "decode");
    asm volatile("" ::: "memory");
    PITOT_PHASE(stages, "resize");
    asm volatile("" ::: "memory");
    PITOT_PHASE(stages, "infer");
    asm volatile("" ::: "memory");
    PITOT_PHASE(stages, "encode");
    asm volatile("" ::: "memory");
    PITOT_PHASE(stages, "send");
    asm volatile("" ::: "memory");
    PITOT_PHASE(stages, "log");
    asm volatile("" ::: "memory");
  };
  return TimeLoop(count / 8 + 1, body) / 8;
}

double Instant(uint64_t count) {
  auto body = [](uint64_t) { PITOT_INSTANT("instant"); };
  return TimeLoop(count, body);
}

double Counter(uint64_t count) {
  auto body = [](uint64_t i) { PITOT_COUNTER("counter", i); };
  return TimeLoop(count, body);
}

template <double (*kLoop)(uint64_t)> void AgainstLimit(benchmark::State& state, Rounds& rounds) {
  Recorder recorder;
  if (!StartOrSkip(state, Options(), &recorder)) return;
  rounds.Compare(kScopes, Limit, kLoop);
}

// Two threads at once, against the limit on two threads at once; the mean of both.
void TwoThreads(benchmark::State& state, Rounds& rounds) {
  Recorder recorder;
  if (!StartOrSkip(state, Options(), &recorder)) return;
  enum class Work { kLimit, kScope, kExit };
  Work work = Work::kLimit;
  uint64_t count = 0;
  double ns[2] = {};
  std::barrier<> gate(3);
  std::thread threads[2];
  for (int i = 0; i < 2; ++i) {
    threads[i] = std::thread([&, i] {
      for (;;) {
        gate.arrive_and_wait();
        if (work == Work::kExit) return;
        ns[i] = work == Work::kLimit ? Limit(count) : Scope(count);
        gate.arrive_and_wait();
      }
    });
  }
  const auto run = [&](Work what, uint64_t operations) {
    work = what, count = operations;
    gate.arrive_and_wait();
    gate.arrive_and_wait();
    return (ns[0] + ns[1]) / 2;
  };
  rounds.Compare(
      kScopes, [&](uint64_t operations) { return run(Work::kLimit, operations); },
      [&](uint64_t operations) { return run(Work::kScope, operations); });
  work = Work::kExit;
  gate.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
}

double NoScope(uint64_t count) {
  auto body = [](uint64_t) { asm volatile("" ::: "memory"); };
  return TimeLoop(count, body);
}

// No recorder runs; the same loop without the scope is subtracted.
void SwitchedOff(benchmark::State&, Rounds& rounds) { rounds.Subtract(2'000'000, NoScope, Scope); }

void BytesPerScope(benchmark::State& state, Rounds& rounds) {
  Recorder recorder;
  if (!StartOrSkip(state, Options(), &recorder)) return;
  Scope(1);
  for (auto _ : state) {
    const uint64_t before = detail::t_ring->head;
    const uint64_t scopes = Scaled(100'000);
    const double ns = Scope(scopes);
    rounds.Add(static_cast<double>((detail::t_ring->head - before) * 8) / static_cast<double>(scopes), ns * 1e-9);
  }
}

}  // namespace

void RegisterScopes() {
  Register("scope", kRounds, AgainstLimit<Scope>, "x", 1.10);
  Register("leaf", kRounds, AgainstLimit<Leaf>, "x", 1.05);
  Register("phase, per boundary", kRounds, AgainstLimit<Phase>, "x", 0.60);
  Register("scope, two threads at once", kRounds, TwoThreads, "x", 1.15);
  Register("scope, 1 argument", kRounds, AgainstLimit<ScopeOneArgument>, "x", 0);
  Register("scope, 3 arguments", kRounds, AgainstLimit<ScopeThreeArguments>, "x", 0);
  Register("scope if slower, never is", kRounds, AgainstLimit<ScopeIfSlower>, "x", 0);
  Register("instant", kRounds, AgainstLimit<Instant>, "x", 0);
  Register("counter", kRounds, AgainstLimit<Counter>, "x", 0);
  Register("scope, switched off", kRounds, SwitchedOff, "ns", 2);
  Register("memory of a closed scope", 3, BytesPerScope, "B", 16);
}

}  // namespace pitot::benchmarks
