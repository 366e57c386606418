// SPDX-License-Identifier: Apache-2.0
//
// Losses because of missing buffers, names after their module was unloaded, and other tools.
#include <malloc.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "collect/cupti/engine.h"
#include "collect/cupti/rig.h"
#include "pitot/model/index.h"
#include "session/host.h"

namespace {

namespace cupti = pitot::cupti;
namespace model = pitot::model;
using fakes::Attribute;
using fakes::CountNamed;
using fakes::GpuHost;
using fakes::HasLoss;
using pitot::Depth;
using session_test::Contains;

// The pool of the running collector, with a size no other test has.
cupti::BufferPool& PoolOf(const GpuHost& host) {
  const auto buffers = static_cast<uint32_t>(host.cupti_options.memory_bytes / 4 / cupti::kBufferBytes);
  return *fakes::EngineOf(buffers, host.cupti_options.library)->pool;
}

// Takes all buffers, as if kernels ran so long that CUPTI held all.
uint8_t* TakeAll(cupti::BufferPool* pool) {
  uint8_t* last = nullptr;
  while (uint8_t* const buffer = pool->Take()) last = buffer;
  return last;
}

// Has CUPTI need a buffer before it was read: nobody decodes, because CUPTI hangs from here on.
void TakeUnread(GpuHost& host, cupti::BufferPool* pool) {
  host.cuda.HangIn("cuptiActivityFlushAll");
  host.cuda.Run({});
  REQUIRE(fakes::WaitUntil([&] { return host.cuda.is_hanging(); }));
  pool->Complete(TakeAll(pool), 0);
  REQUIRE(pool->Take() != nullptr);
}

size_t Allocated() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;  // 0 under a sanitizer
}

constexpr char kWithheld[] = "not handed over by CUPTI yet";

// A request in a batch that launches `work`.
template <class Work> void Serve(Work work) {
  pitot::Request request = pitot::Request::Begin("/generate");
  pitot::Batch batch = pitot::Batch::Begin("executor");
  batch.Join(request.token());
  work();
  batch.Finish();
  request.Finish(pitot::Outcome::kOk);
}

model::KernelCoverage CoverageOf(const model::Trace& trace, uint32_t request) {
  return model::CoverageIndex(trace).Of(model::RequestIndex(trace), request);
}

}  // namespace

TEST_CASE("records withheld because a kernel hangs are missing, not known to be none, until it has ended", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  Serve([&] {
    host.cuda.Run({.name = "hangs", .is_stuck = true});
    host.cuda.Run({.name = "in its buffer"});
  });

  const model::Trace while_it_hangs = host.Incident();

  CHECK(while_it_hangs.gpu.size() == 0);
  REQUIRE(HasLoss(while_it_hangs, kWithheld));
  const model::GpuLossRow& loss = while_it_hangs.gpu_losses.front();
  CHECK(while_it_hangs.gpu_losses.size() == 1);
  CHECK(loss.begin_ns >= while_it_hangs.batches.front().begin_ns);
  CHECK(loss.begin_ns <= while_it_hangs.calls.begin_ns[0] + while_it_hangs.calls.duration_ns[0]);
  CHECK(loss.end_ns >= while_it_hangs.requests.front().begin_ns + while_it_hangs.requests.front().duration_ns);
  const model::KernelCoverage of = CoverageOf(while_it_hangs, 0);
  CHECK(of.is_known);
  CHECK_FALSE(of.IsWhole());
  std::ifstream file(host.told().back().directory + "/report.txt");
  const std::string report(std::istreambuf_iterator<char>(file), {});
  INFO(report);
  CHECK(Contains(report, kWithheld));

  host.cuda.Unstick();
  const model::Trace after = host.Incident();

  CHECK(CountNamed(after, "in its buffer") == 1);
  CHECK(CountNamed(after, "hangs") == 1);
  CHECK(after.gpu_losses.empty());
  CHECK(CoverageOf(after, 0).IsWhole());
}

TEST_CASE("withheld records are not missing if nothing was recorded", "[cupti]") {
  GpuHost host;
  host.options.pre_window_ms = 1;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.is_stuck = true});
  host.collector->SetDepth(Depth::kScopes);
  const int64_t scopes_ns = pitot::base::ClockNs(CLOCK_MONOTONIC);
  REQUIRE(fakes::WaitUntil([&] { return pitot::base::ClockNs(CLOCK_MONOTONIC) > scopes_ns + 5'000'000; }));

  CHECK(host.Incident().gpu_losses.empty());

  host.cuda.Unstick();
}

TEST_CASE("records withheld while callbacks are registered again are missing", "[cupti]") {
  GpuHost host;
  fakes::g_kineto = cupti::KinetoState::kIdle;
  fakes::g_cuda = cupti::CudaState::kInUse;
  host.environment.surroundings.long_idle_ns = 30'000'000;
  REQUIRE(host.StartAt(Depth::kKernels));
  const auto registered = [&] { return host.cuda.calls_of("cuptiActivityRegisterCallbacks"); };
  int before = 0;
  Serve([&] {
    host.cuda.Run({.name = "hangs", .is_stuck = true});
    host.Round();
    before = registered();
  });
  REQUIRE(fakes::WaitUntil([&] { return registered() >= before + 2; }));  // PyTorch's profiler is long idle

  const model::Trace trace = host.Incident();

  CHECK(CountNamed(trace, "hangs") == 0);
  CHECK(HasLoss(trace, "not handed over by CUPTI"));
  CHECK_FALSE(CoverageOf(trace, 0).IsWhole());
  host.cuda.Unstick();
}

TEST_CASE("a loss that overtakes withheld records begins where they begin", "[cupti]") {
  GpuHost host;
  host.cupti_options.memory_bytes = 28 << 20;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "withheld", .is_stuck = true});
  const int64_t withheld_ns = pitot::base::ClockNs(CLOCK_MONOTONIC);
  host.Round();
  cupti::BufferPool& pool = PoolOf(host);
  TakeUnread(host, &pool);
  host.cuda.HangIn("");
  host.Round();

  const model::Trace trace = host.Incident();

  const auto late = std::find_if(trace.gpu_losses.begin(), trace.gpu_losses.end(),
                                 [&](const auto& loss) { return trace.strings[loss.reason] == "decoded too late"; });
  REQUIRE(late != trace.gpu_losses.end());
  CHECK(late->begin_ns <= withheld_ns);
  host.cuda.Unstick();
}

TEST_CASE("records without a buffer are reported as missing, even from an old CUPTI, which gets one all the same",
          "[cupti]") {
  for (const fakes::Generation* const generation : {&fakes::kCupti13, &fakes::kCupti11}) {
    INFO(generation->version);
    GpuHost host(*generation);
    host.cupti_options.memory_bytes = 26 << 20;
    REQUIRE(host.StartAt(Depth::kKernels));
    TakeAll(&PoolOf(host));

    host.cuda.Run({.name = "unseen"});
    host.Round();
    const model::Trace trace = host.Incident();

    CHECK(HasLoss(trace, "no buffer for CUPTI"));
    CHECK(CountNamed(trace, "unseen") == 0);
    CHECK(Attribute(trace, "cupti.foreign_buffers") == "");
    CHECK(host.cuda.broken_rules() == "");
  }
}

TEST_CASE("buffers reused by CUPTI before anyone read them are reported as missing", "[cupti]") {
  GpuHost host;
  host.cupti_options.memory_bytes = 27 << 20;
  REQUIRE(host.StartAt(Depth::kKernels));
  cupti::BufferPool& pool = PoolOf(host);
  TakeUnread(host, &pool);
  REQUIRE(pool.counts().overwritten == 1);
  host.cuda.HangIn("");
  host.Round();

  CHECK(HasLoss(host.Incident(), "decoded too late"));
}

TEST_CASE("records behind an unreadable one are reported as missing", "[cupti]") {
  GpuHost host;
  host.cupti_options.memory_bytes = 31 << 20;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "before"});
  REQUIRE(CountNamed(host.Incident(), "before") == 1);
  cupti::BufferPool& pool = PoolOf(host);
  uint8_t* const buffer = pool.Take();
  REQUIRE(buffer != nullptr);
  const auto now_ns = static_cast<uint64_t>(pitot::base::ClockNs(CLOCK_REALTIME));
  fakes::FakeBuffer records(fakes::kCupti13);
  records.Unknown(61, 24).Kernel("behind", now_ns, now_ns + 1000, 1);
  std::memcpy(buffer, records.bytes().data(), records.bytes().size());
  REQUIRE(pool.Complete(buffer, records.bytes().size()));

  const model::Trace trace = host.Incident();

  CHECK(CountNamed(trace, "behind") == 0);
  CHECK(HasLoss(trace, "not readable"));
  CHECK(Attribute(trace, "cupti.unreadable_bytes") == std::to_string(records.bytes().size()));
}

TEST_CASE("memory owned by records is freed if CUPTI reused their buffer before anyone read it", "[cupti]") {
  constexpr size_t kBlock = 4 << 20;  // more than everything else that comes and goes meanwhile
  GpuHost host;
  host.cupti_options.memory_bytes = 29 << 20;
  REQUIRE(host.StartAt(Depth::kKernels));
  cupti::BufferPool& pool = PoolOf(host);
  host.cuda.HangIn("cuptiActivityFlushAll");
  host.cuda.Run({});
  REQUIRE(fakes::WaitUntil([&] { return host.cuda.is_hanging(); }));
  const bool is_counted = Allocated() != 0;  // a sanitizer sees leaks itself
  const size_t before = Allocated();
  uint8_t* const buffer = TakeAll(&pool);
  fakes::FakeBuffer records(fakes::kCupti13);
  records.Kernel("gemm", 1, 2, 1).Overhead(6u << 16, 1, 2, kBlock).Overhead(6u << 16, 2, 3, kBlock);
  std::memcpy(buffer, records.bytes().data(), records.bytes().size());
  REQUIRE(pool.Complete(buffer, records.bytes().size()));

  std::thread([&] { host.cuda.Run({}); }).join();  // its thread asks for a buffer

  REQUIRE(pool.counts().overwritten == 1);
  if (is_counted) CHECK(Allocated() >= before + 2 * kBlock);  // not on the host's thread
  host.cuda.HangIn("");
  host.Round();
  CHECK(Allocated() < before + kBlock);
  CHECK(HasLoss(host.Incident(), "decoded too late"));
}

TEST_CASE("the name behind a pointer is read again: another module may lie in an unloaded one's place", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  char name[16] = "first";
  host.cuda.Run({.name = name});
  host.Round();
  std::strcpy(name, "second");

  CHECK(fakes::WaitUntil([&] {
    host.cuda.Run({.name = name});
    return CountNamed(host.Incident(), "second") != 0;
  }));
  CHECK(CountNamed(host.Incident(), "first") != 0);
}

TEST_CASE("a tool the process was told to load keeps CUPTI next to LibTorch, another's subscriber does not",
          "[cupti]") {
  for (const bool is_told : {false, true}) {
    INFO(is_told);
    GpuHost host;
    fakes::g_kineto = cupti::KinetoState::kUnused;
    host.cuda.SubscribeOther("Nsight Systems");
    if (is_told) setenv("CUDA_INJECTION64_PATH", "/opt/nsight/libinjection.so", 1);
    REQUIRE(host.Start());

    const pitot::Status status = host.Add();
    unsetenv("CUDA_INJECTION64_PATH");

    CHECK(status.ok() == !is_told);
    CHECK(Contains(status.message(), "another tool has CUPTI") == is_told);
  }
}

TEST_CASE("a profiler of PyTorch's that cannot be asked is reported, with the host's remedy", "[cupti]") {
  GpuHost host;
  fakes::g_kineto = cupti::KinetoState::kUnknown;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({});
  host.Round();

  CHECK(Contains(Attribute(host.Incident(), "cupti"), "does not announce its profiles"));
  CHECK(Contains(Attribute(host.Incident(), "cupti"), "Recorder::Pause(\"cupti\")"));
}
