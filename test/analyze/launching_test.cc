// SPDX-License-Identifier: Apache-2.0
//
// Launches that were counted, and not recorded.
#include "analyze/blame/launching.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analyze/blame_of.h"
#include "base/overhead_name.h"
#include "pitot/analyze/judgement.h"
#include "serialize/sample_trace.h"

using namespace pitot;
using analyze::Blame;
using analyze::Judgement;
using analyze::RequestBlame;
using analyze::VerdictKind;
using model::kNone;
using test::TraceMaker;

namespace {

constexpr int64_t kUs = 1'000, kMs = 1'000 * kUs;
constexpr uint32_t kRequests = 200, kLate = 150;

// One request after the other, each in a batch of 10 ms with 100 launches of 5 us.
struct Server {
  struct Late {
    int64_t batch_ns = 10 * kMs;
    uint32_t launches = 100;
    int64_t launch_ns = 500 * kUs;
    int64_t slow_launch_ns = 0;  // of one launch with a record
  };
  explicit Server(const Late& late, uint32_t late_ones = 1) {
    const uint32_t thread = maker.Thread("worker"), forward = maker.Site(SiteKind::kScope, "forward");
    int64_t at_ns = kMs;
    for (uint32_t i = 0; i < kRequests; ++i) {
      const Late usual{10 * kMs + (i % 7) * 20 * kUs};
      const Late& one = i >= kLate && i < kLate + late_ones ? late : usual;
      const uint32_t request = maker.Request(10 + i, "/classify", at_ns, one.batch_ns);
      maker.trace.requests[request].begin_thread = maker.trace.requests[request].end_thread = thread;
      const uint32_t batch = maker.Batch(1'000 + i, "net", thread, at_ns, one.batch_ns);
      maker.trace.batches[batch].launches = one.launches;
      maker.trace.batches[batch].launch_ns = one.launch_ns;
      maker.Member(batch, request, at_ns);
      maker.Event(thread, forward, at_ns, one.batch_ns, {request, batch});
      if (one.slow_launch_ns != 0)
        maker.Call(thread, "cudaLaunchKernel", at_ns + kMs, one.slow_launch_ns, {kNone, batch});
      at_ns += one.batch_ns + kMs;
    }
    maker.trace.window_end_ns = at_ns;
    maker.trace.attributes.push_back({maker.String("cuda_calls.libraries"), maker.String("3")});
    trace = maker.Finish();
    REQUIRE(FindInconsistency(trace) == "");
  }
  RequestBlame Walk() const { return test::BlameOf(trace, kLate); }
  Judgement Judge() const {
    Judgement judgement;
    REQUIRE(JudgeRequest(trace, kLate, nullptr, &judgement).ok());
    return judgement;
  }

  TraceMaker maker;
  model::Trace trace;
};

}  // namespace

TEST_CASE("code of a batch is launches by their counted time, to the nanosecond", "[launching]") {
  const RequestBlame blame = Server({}).Walk();
  CHECK(blame.blame[Blame::kLaunchApi] == 500 * kUs);
  CHECK(blame.blame[Blame::kHostOncpuFramework] == 9'500 * kUs);
  CHECK(blame.blame.Total() == 10 * kMs);
}

TEST_CASE("a batch of many more launches is slow by them, and the advice is to launch less", "[launching]") {
  const Server server({40 * kMs, 6'000, 30 * kMs});
  const Judgement judgement = server.Judge();
  INFO(VerdictText(judgement.index, judgement.blame, judgement.verdict));
  REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
  CHECK(judgement.verdict.causes[0].blame == Blame::kLaunchApi);
  CHECK(judgement.verdict.more_of == "launches");
  CHECK(std::string(judgement.verdict.causes[0].advice.code) == "launch_less");
}

TEST_CASE("code around many more launches is advised like them", "[launching]") {
  const Server server({60 * kMs, 900, 15 * kMs});
  const Judgement judgement = server.Judge();
  INFO(VerdictText(judgement.index, judgement.blame, judgement.verdict));
  REQUIRE(judgement.verdict.kind == VerdictKind::kCauses);
  CHECK(judgement.verdict.causes[0].blame == Blame::kHostOncpuFramework);
  for (const analyze::Cause& cause : judgement.verdict.causes) CHECK(std::string(cause.advice.code) == "launch_less");
}

TEST_CASE("launches beyond what a stream holds wait for room if they take long", "[launching]") {
  const RequestBlame blame = Server({100 * kMs, 2'000, 90 * kMs}).Walk();
  CHECK(blame.blame[Blame::kLaunchApi] / kMs == 10);  // 2,000 of 5 us
  CHECK(blame.blame[Blame::kLaunchQueueFull] / kMs == 80);
  const RequestBlame fewer = Server({100 * kMs, 900, 90 * kMs}).Walk();
  CHECK(fewer.blame[Blame::kLaunchQueueFull] == 0);
  CHECK(fewer.blame[Blame::kLaunchApi] / kMs == 90);
}

TEST_CASE("slow launches of usual number are not called many", "[launching]") {
  const Server server({30 * kMs, 100, 20 * kMs});
  const Judgement judgement = server.Judge();
  INFO(VerdictText(judgement.index, judgement.blame, judgement.verdict));
  REQUIRE_FALSE(judgement.verdict.causes.empty());
  CHECK(judgement.verdict.causes[0].blame == Blame::kLaunchApi);
  CHECK(judgement.verdict.more_of.empty());
  CHECK(std::string(judgement.verdict.causes[0].advice.code) == "check_launches");
}

TEST_CASE("a rare slow launch into a queue with room is taken for a kernel's first use, without certainty",
          "[launching]") {
  const Server server({40 * kMs, 100, 500 * kUs, 30 * kMs});
  const Judgement judgement = server.Judge();
  const std::string text = VerdictText(judgement.index, judgement.blame, judgement.verdict);
  INFO(text);
  REQUIRE_FALSE(judgement.verdict.causes.empty());
  CHECK(judgement.blame.blame[Blame::kLazyLoadJit] == 30 * kMs);
  CHECK(judgement.verdict.causes[0].blame == Blame::kLazyLoadJit);
  CHECK(judgement.verdict.causes[0].confidence < 0.9);
  CHECK(std::string(judgement.verdict.causes[0].advice.code) == "load_early");
  CHECK(text.find("the first use of a kernel") != std::string::npos);
}

TEST_CASE("slow launches in many batches are launches, and many in a batch of too many wait for room", "[launching]") {
  const RequestBlame common = Server({40 * kMs, 100, 500 * kUs, 30 * kMs}, 20).Walk();
  CHECK(common.blame[Blame::kLazyLoadJit] == 0);
  CHECK(common.blame[Blame::kLaunchApi] >= 30 * kMs);
  // One slow launch among 2,000 as usual is a first use.
  const RequestBlame first = Server({40 * kMs, 2'000, 5 * kMs, 30 * kMs}).Walk();
  CHECK(first.blame[Blame::kLazyLoadJit] == 30 * kMs);
  CHECK(first.blame[Blame::kLaunchQueueFull] == 0);
  const RequestBlame full = Server({200 * kMs, 2'000, 100 * kMs, 30 * kMs}).Walk();
  CHECK(full.blame[Blame::kLazyLoadJit] == 0);
  CHECK(full.blame[Blame::kLaunchQueueFull] >= 30 * kMs);
}

TEST_CASE("while kernels are profiled a slow launch is no first use, and no cause is sure", "[launching]") {
  const auto judge = [](bool is_profiled) {
    Server server({40 * kMs, 100, 500 * kUs, 30 * kMs});
    const model::RequestRow& late = server.trace.requests[kLate];
    if (is_profiled)
      server.trace.overheads.push_back(
          {late.begin_ns, late.duration_ns, server.trace.strings.Add(base::kProfilingKernels)});
    const Judgement judgement = server.Judge();
    REQUIRE_FALSE(judgement.verdict.causes.empty());
    return std::pair(judgement.blame.blame[Blame::kLazyLoadJit], judgement.verdict.causes[0].confidence);
  };
  CHECK(judge(false).first == 30 * kMs);
  CHECK(judge(true).first == 0);
  CHECK(judge(true).second < 0.5);
}

TEST_CASE("a full queue of counted launches is named with less confidence than a recorded one", "[launching]") {
  const Server server({100 * kMs, 2'000, 90 * kMs});
  const Judgement judgement = server.Judge();
  INFO(VerdictText(judgement.index, judgement.blame, judgement.verdict));
  REQUIRE_FALSE(judgement.verdict.causes.empty());
  CHECK(judgement.verdict.causes[0].blame == Blame::kLaunchQueueFull);
  CHECK(std::string(judgement.verdict.causes[0].unsure) == "its launches were counted, not recorded");
}
