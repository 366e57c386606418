// SPDX-License-Identifier: Apache-2.0
//
// The cost of NVTX's calls once Pitot is their tool. The benchmark plays the emitting library: it has slots, and calls
// through them as NVIDIA's headers do.
#include "benchmarks/recording.h"
#include "benchmarks/register.h"
#include "benchmarks/resident.h"
#include "benchmarks/rounds.h"
#include "collect/nvtx/abi.h"
#include "pitot/collect/nvtx.h"
#include "pitot/trace.h"

namespace pitot::benchmarks {
namespace {

namespace abi = nvtx::abi;

constexpr uint64_t kRanges = 200'000;
constexpr int kRounds = 41;

abi::Slot g_slots[abi::kModules][16];
abi::Slot* g_tables[abi::kModules][16];

int GetModuleTable(uint32_t module, abi::SlotTable* table, unsigned* size) {
  for (unsigned slot = 1; slot < abi::kModuleSizes[module]; ++slot) g_tables[module][slot] = &g_slots[module][slot];
  *table = g_tables[module];
  *size = abi::kModuleSizes[module];
  return 1;
}
const void* GetTable(uint32_t id) {
  static constexpr abi::Callbacks kCallbacks = {sizeof kCallbacks, GetModuleTable};
  return id == abi::kCallbacks ? &kCallbacks : nullptr;
}

template <class Result, class... Args> Result Call(abi::Module module, uint32_t slot, Args... args) {
  const abi::Slot function = g_slots[module][slot];
  return function != nullptr ? reinterpret_cast<Result (*)(Args...)>(function)(args...) : Result();
}

double PushPop(uint64_t count) {
  auto body = [](uint64_t) {
    Call<int, const char*>(abi::kCore, abi::kRangePushA, "transformer.layer.11");
    asm volatile("" ::: "memory");
    Call<int>(abi::kCore, abi::kRangePop);
  };
  return TimeLoop(count, body);
}

// As NCCL does it.
double PushPopRegistered(uint64_t count) {
  void* const domain = Call<void*, const char*>(abi::kCore2, abi::kDomainCreateA, "NCCL");
  const uint64_t payload[] = {1, 4096, 0};
  const abi::PayloadData data = {abi::kFirstStaticSchema + 5, sizeof payload, payload};
  abi::Attributes attributes = {};
  attributes.version = abi::kVersion;
  attributes.size = sizeof attributes;
  attributes.payload_type = abi::kPayloadExtension;
  attributes.payload_count = 1;
  attributes.payload = reinterpret_cast<uintptr_t>(&data);
  attributes.message_type = abi::kRegistered;
  attributes.message =
      Call<void*, void*, const char*>(abi::kCore2, abi::kDomainRegisterStringA, domain, "ncclAllReduce");
  auto body = [&](uint64_t) {
    Call<int, void*, const abi::Attributes*>(abi::kCore2, abi::kDomainRangePushEx, domain, &attributes);
    asm volatile("" ::: "memory");
    Call<int, void*>(abi::kCore2, abi::kDomainRangePop, domain);
  };
  return TimeLoop(count, body);
}

double Nothing(uint64_t count) {
  auto body = [](uint64_t) { asm volatile("" ::: "memory"); };
  return TimeLoop(count, body);
}

// Emitting libraries are attached from here on.
bool Attach(benchmark::State& state, Recorder* recorder) {
  if (!StartOrSkip(state, Options(), recorder) || !OkOrSkip(state, recorder->Add(MakeNvtxCollector()))) return false;
  if (g_slots[abi::kCore][abi::kRangePushA] == nullptr) InitializeInjectionNvtx2(GetTable);
  return true;
}

template <double (*kLoop)(uint64_t)> void Captured(benchmark::State& state, Rounds& rounds) {
  Recorder recorder;
  if (Attach(state, &recorder)) rounds.Subtract(kRanges, Nothing, kLoop);
}

// Ranges inside one another. Without a collector they are nobody's.
void PerThread(benchmark::State& state, Rounds& rounds) {
  Recorder recorder;
  Options options;
  options.max_ring_bytes = 64 << 10;
  if (!StartOrSkip(state, options, &recorder)) return;
  const auto begin = [&] {
    if (OkOrSkip(state, recorder.Add(MakeNvtxCollector())) && g_slots[abi::kCore][abi::kRangePushA] == nullptr)
      InitializeInjectionNvtx2(GetTable);
  };
  AddPerThread(state, rounds, recorder, begin, [] {
    for (int i = 0; i < 1000; ++i) {
      for (int k = 0; k < 8; ++k) Call<int, const char*>(abi::kCore, abi::kRangePushA, "transformer.layer.11");
      for (int k = 0; k < 8; ++k) Call<int>(abi::kCore, abi::kRangePop);
    }
  });
}

// The collector's cost for a scope without an attached tool: rounds of a recorder with it and of one without it, in
// turn. A recorder that starts makes a thread attach anew; the loop does that before it is timed.
void AddedToScopes(benchmark::State& state, Rounds& rounds) {
  const auto run = [&](bool captures, uint64_t count) {
    Recorder recorder;
    if (!StartOrSkip(state, Options(), &recorder)) return 0.0;
    if (captures && !OkOrSkip(state, recorder.Add(MakeNvtxCollector()))) return 0.0;
    Scope(5000);
    return Scope(count);
  };
  rounds.Subtract(
      10 * kRanges, [&](uint64_t count) { return run(false, count); },
      [&](uint64_t count) { return run(true, count); });
}

void AfterStop(benchmark::State& state, Rounds& rounds) {
  Recorder recorder;
  if (!Attach(state, &recorder)) return;
  recorder.Stop();
  rounds.Subtract(2'000'000, Nothing, PushPop);
}

}  // namespace

void RegisterNvtx() {
  Register("NVTX push and pop", kRounds, Captured<PushPop>, "ns", 0);
  Register("NVTX push and pop, registered, NCCL's payload", kRounds, Captured<PushPopRegistered>, "ns", 0);
  Register("NVTX push and pop after Stop", kRounds, AfterStop, "ns", 0);
  Register("memory of a thread whose ranges of NVTX are captured, added", 1, PerThread, "bytes", 0);
  Register("scope, NVTX captured, no tool: added", kRounds, AddedToScopes, "ns", 2);
}

}  // namespace pitot::benchmarks
