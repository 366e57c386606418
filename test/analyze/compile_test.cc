// SPDX-License-Identifier: Apache-2.0
//
// Scopes named "compile: ...": code was loaded or compiled in them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "analyze/blame_of.h"
#include "base/host_counters.h"
#include "pitot/analyze/judgement.h"
#include "pitot/wait.h"
#include "serialize/sample_trace.h"

using namespace pitot;
using analyze::Blame;
using analyze::Judgement;
using analyze::VerdictKind;
using model::kNone;
using test::TraceMaker;

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr uint32_t kRequests = 150, kLate = 100;
constexpr int64_t kCompileNs = 150 * kMs;
constexpr int64_t kWorkerTid = 77;

// One request of 10 ms after the other, each in a scope "forward". In one of them code is compiled for 150 ms, 5 ms
// after its begin.
struct Server {
  Server() {
    worker = maker.Thread("engine");
    maker.trace.threads[worker].tid = kWorkerTid;
    forward = maker.Site(SiteKind::kScope, "forward");
    compile = maker.Site(SiteKind::kScope, "", {{"name", ArgType::kName}});
    maker.trace.sites[compile].name_is_first_arg = true;
    for (uint32_t i = 0; i < kRequests; ++i) {
      const int64_t length_ns = 10 * kMs + (i == kLate ? kCompileNs : (i % 7) * kMs / 50);
      const uint32_t request = maker.Request(10 + i, "/generate", at_ns, length_ns);
      maker.trace.requests[request].begin_thread = maker.trace.requests[request].end_thread = worker;
      if (i == kLate) compile_ns = at_ns + 5 * kMs;
      maker.Event(worker, forward, at_ns, length_ns, {request, kNone});
      at_ns += length_ns;
    }
    maker.trace.window_end_ns = at_ns + 100 * kMs;
  }
  void Compile(const char* name, int64_t from_ms, int64_t to_ms, uint32_t request = kLate) {
    maker.Event(worker, compile, compile_ns + from_ms * kMs, (to_ms - from_ms) * kMs, {request, kNone},
                {maker.String(name)});
  }
  // The thread's time on a CPU, read every 5 ms: it slept in part of the compilation.
  void Judge(int64_t slept_from_ms = 0, int64_t slept_to_ms = 0) {
    trace = maker.Finish();
    test::CounterValues on_cpu;
    const int64_t from_ns = compile_ns + slept_from_ms * kMs, to_ns = compile_ns + slept_to_ms * kMs;
    for (int64_t ns = 0; ns < trace.window_end_ns; ns += 5 * kMs) {
      const int64_t slept_ns = ns <= from_ns ? 0 : std::min(ns, to_ns) - from_ns;
      on_cpu.push_back({ns / kMs, static_cast<double>(ns - slept_ns)});
    }
    test::AddCounter(&trace, kNone, base::ThreadCounter(kWorkerTid, base::kOnCpu), on_cpu);
    REQUIRE(FindInconsistency(trace) == "");
    REQUIRE(JudgeRequest(trace, kLate, nullptr, &judgement).ok());
    text = VerdictText(judgement.index, judgement.blame, judgement.verdict);
    UNSCOPED_INFO(text);
    REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
  }
  std::string Sentence() { return VerdictSentence(judgement.index, judgement.blame, judgement.verdict); }
  int64_t Ns(Blame blame) const { return judgement.blame.blame.ns[static_cast<uint32_t>(blame)]; }

  TraceMaker maker;
  uint32_t worker, forward, compile;
  int64_t at_ns = 100 * kMs, compile_ns = 0;
  model::Trace trace;  // from Judge on
  Judgement judgement;
  std::string text;
};

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a verdict names the function that was compiled", "[compile]") {
  Server server;
  server.Compile("compile: Triton kernel _topk_log_softmax_kernel", 0, 150);

  server.Judge();

  const analyze::Cause& cause = server.judgement.verdict.causes[0];
  CHECK(cause.blame == Blame::kLazyLoadJit);
  CHECK(cause.confidence > 0.9);
  CHECK(Has(server.Sentence(),
            "spent 150.0 ms loading or compiling code: Triton kernel _topk_log_softmax_kernel on engine"));
  CHECK(std::string(cause.advice.code) == "warm_up");
}

TEST_CASE("a slow call for a kernel loaded code for sure only if its thread ran", "[compile]") {
  const int64_t slept_ms = GENERATE(20, 140);
  CAPTURE(slept_ms);
  Server server;
  server.maker.Call(server.worker, "__cudaGetKernel (loading)", server.compile_ns, kCompileNs, {kLate, kNone});

  server.Judge(0, slept_ms);

  const analyze::Cause& cause = server.judgement.verdict.causes[0];
  const bool is_sure = slept_ms == 20;
  CHECK(cause.blame == Blame::kLazyLoadJit);
  CHECK((cause.confidence > 0.9) == is_sure);
  CHECK(std::string(cause.unsure) == (is_sure ? "" : "it may have waited for the driver"));
  CHECK(Has(server.Sentence(), is_sure ? "spent 150.0 ms loading or compiling code: __cudaGetKernel"
                                       : "spent 150.0 ms loading code, or waiting for the driver: __cudaGetKernel"));
}

TEST_CASE("all that a thread does while it compiles is compiling, sleep for a compiler's process, too", "[compile]") {
  Server server;
  server.Compile("compile: forward (model.py:88)", 0, 150);
  server.Compile("compile: Triton kernel add", 100, 120);
  const uint32_t wait = server.maker.WaitSite();
  server.maker.Event(server.worker, wait, server.compile_ns + 20 * kMs, 40 * kMs, {kLate, kNone},
                     {static_cast<uint64_t>(WaitKind::kOther), server.maker.String("ptxas"), 0, 0});
  server.maker.Event(server.worker, server.forward, server.compile_ns + 70 * kMs, 10 * kMs, {kLate, kNone});

  server.Judge(80, 120);

  CHECK(server.Ns(Blame::kLazyLoadJit) == kCompileNs);
  CHECK(server.Ns(Blame::kHostBlockedUnknown) == 0);
  CHECK(Has(server.Sentence(), "loading or compiling code, 130.0 ms of it in forward (model.py:88) on engine"));
}

TEST_CASE("a compilation for another request is that request's", "[compile]") {
  Server server;
  server.Compile("compile: Triton kernel add", 0, 150, kLate - 1);

  server.Judge();

  CHECK(server.judgement.verdict.causes[0].blame == Blame::kQueueWaitOthers);
  CHECK(server.Ns(Blame::kLazyLoadJit) == 0);
}
