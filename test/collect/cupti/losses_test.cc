// SPDX-License-Identifier: Apache-2.0
//
// What is missing because buffers were, what a name is after its module was unloaded, and other tools.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <string>

#include "collect/cupti/engine.h"
#include "collect/cupti/rig.h"
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

// Of the collector that runs, whose size no other test has.
cupti::BufferPool& PoolOf(const GpuHost& host) {
  cupti::Api api;
  cupti::Engine* engine = nullptr;
  REQUIRE(cupti::LoadCupti(host.cupti_options.library, &api).ok());
  const auto buffers = static_cast<uint32_t>(host.cupti_options.memory_bytes / 4 / cupti::kBufferBytes);
  REQUIRE(cupti::FindEngine(api, buffers, &engine).ok());
  return *engine->pool;
}

// As where kernels run so long that CUPTI holds all there are.
uint8_t* TakeAll(cupti::BufferPool* pool) {
  uint8_t* last = nullptr;
  while (uint8_t* const buffer = pool->Take()) last = buffer;
  return last;
}

}  // namespace

TEST_CASE(
    "records for which CUPTI found no buffer are said to be missing, of an old CUPTI, too, which gets one all the same",
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

TEST_CASE("buffers that CUPTI had to have again before anyone read them are said to be missing", "[cupti]") {
  GpuHost host;
  host.cupti_options.memory_bytes = 27 << 20;
  REQUIRE(host.StartAt(Depth::kKernels));
  cupti::BufferPool& pool = PoolOf(host);
  host.cuda.HangIn("cuptiActivityFlushAll");
  host.cuda.Run({});
  REQUIRE(fakes::WaitUntil([&] { return host.cuda.is_hanging(); }));  // nobody decodes
  pool.Complete(TakeAll(&pool), 0);
  REQUIRE(pool.Take() != nullptr);
  REQUIRE(pool.counts().overwritten == 1);
  host.cuda.HangIn("");
  host.Round();

  CHECK(HasLoss(host.Incident(), "decoded too late"));
}

TEST_CASE("the name behind a pointer is read again: another module may lie where one was unloaded", "[cupti]") {
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

TEST_CASE("beside LibTorch a tool that the process was told to load keeps CUPTI, another's subscriber does not",
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

TEST_CASE("that PyTorch's profiler cannot be asked is said, with what the host can do", "[cupti]") {
  GpuHost host;
  fakes::g_kineto = cupti::KinetoState::kUnknown;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({});
  host.Round();

  CHECK(Contains(Attribute(host.Incident(), "cupti"), "does not say when it profiles"));
  CHECK(Contains(Attribute(host.Incident(), "cupti"), "Recorder::PauseCupti"));
}
