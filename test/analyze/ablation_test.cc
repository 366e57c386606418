// SPDX-License-Identifier: Apache-2.0
//
// A verdict with missing evidence. Servers are played whose slow requests have known causes. Then kinds of rows are
// taken out of their traces, one at a time, and the same requests are judged again. The baseline is once of requests
// with the same rows missing, and once of complete ones. The cause may become coarser or unknown, but no claim surer.
// No cause is named with as much confidence unless the whole trace proves it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyze/ablations.h"
#include "analyze/small_server.h"
#include "analyze/truth.h"
#include "pitot/analyze/verdict.h"
#include "pitot/wait.h"
#include "simulator/simulator.h"

namespace pitot::test {

using namespace analyze;
using model::kNone;
using model::Trace;
using simulator::ServerSpec;
using simulator::Step;
using simulator::Time;

namespace {

constexpr int64_t kUs = 1'000, kMs = 1'000 * kUs;

// ---- Servers. Most requests are of one route. Now and then one of another route holds the lock, a thread, the
// executor or the GPU for long, and slows down whoever comes then.

ServerSpec Server(uint64_t seed, std::vector<Step> rare) {
  ServerSpec spec;
  spec.seed = seed;
  spec.requests = 500;
  spec.mean_interval_ns = 12 * kMs;
  spec.locks = {"cache"};
  spec.streams = 1;
  for (const auto& [name, threads] : {std::pair("http", 3u), std::pair("prepare", 1u), std::pair("reply", 2u)}) {
    simulator::Pool pool;
    pool.name = pool.queue.name = name;
    pool.threads = threads;
    spec.pools.push_back(pool);
  }
  simulator::Model model;
  model.name = "resnet50";
  model.queue = {.name = "images"};
  model.max_batch = 4;
  model.max_delay_ns = 200 * kUs;
  model.steps = {Step::Compute(
      "forward", {200 * kUs, 10 * kUs},
      {Step::Launch(0, "conv", {2 * kMs, 20 * kUs}, {20 * kUs, 1 * kUs}),
       Step::Launch(0, "gemm", {kMs, 20 * kUs}, {20 * kUs, 1 * kUs}), Step::Sync(0, {8 * kUs, 1 * kUs})})};
  spec.models = {model};
  spec.routes.resize(2);
  spec.routes[0].name = "/classify";
  spec.routes[0].weight = 40;
  spec.routes[0].steps = {Step::Compute("decode", {kMs, 20 * kUs}),
                          Step::Lock(0, {Step::Compute("look up", {50 * kUs, 5 * kUs})}),
                          Step::Send(1),
                          Step::Compute("resize", {300 * kUs, 10 * kUs}),
                          Step::Infer(0, 2),
                          Step::Compute("respond", {200 * kUs, 10 * kUs})};
  spec.routes[1].name = "/rare";
  spec.routes[1].weight = 2;
  spec.routes[1].steps = std::move(rare);
  return spec;
}

std::vector<ServerSpec> Servers() {
  std::vector<ServerSpec> servers;
  uint64_t seed = 1;
  const Time sync{8 * kUs, kUs}, api{20 * kUs, kUs};
  servers.push_back(Server(seed++, {Step::Lock(0, {Step::Compute("rebuild", {15 * kMs, kMs})})}));
  servers.push_back(Server(seed++, {Step::Send(1), Step::Compute("resize all", {15 * kMs, kMs})}));
  servers.push_back(
      Server(seed++, {Step::Compute("segment", {100 * kUs, kUs},
                                    {Step::Launch(0, "unet", {15 * kMs, kMs}, api), Step::Sync(0, sync)})}));
  servers.push_back(Server(seed++, {Step::Compute("decode", {kMs, kUs}), Step::Infer(0, 2)}));
  // Every handler is at work for the others: a new request has to wait to begin.
  servers.push_back(Server(seed++, {Step::Compute("archive", {40 * kMs, kMs})}));
  servers.back().routes[1].weight = 4;
  // The executor does something of its own now and then.
  servers.push_back(Server(seed++, {Step::Compute("decode", {kMs, kUs})}));
  servers.back().models[0].percent_maintenance = 3;
  return servers;
}

// ---- Judging.

struct Judged {
  RequestBlame blame;
  Verdict verdict;
};

Judged JudgeIt(const BlameIndex& index, uint32_t request, const Baseline& baseline, int64_t now_ns) {
  Judged judged;
  REQUIRE(FindBlame(index, request, &judged.blame).ok());
  REQUIRE(FindVerdict(index, judged.blame, baseline, now_ns, {}, &judged.verdict).ok());
  const Verdict& v = judged.verdict;
  REQUIRE(judged.blame.blame.Total() == judged.blame.end_ns - judged.blame.begin_ns);
  if (v.level == Baseline::Level::kNone) return judged;
  int64_t sum_ns = v.common_ns + v.rest_ns;
  for (const Cause& cause : v.causes) sum_ns += cause.excess_ns;
  REQUIRE(sum_ns == v.latency_ns - v.typical_ns);
  return judged;
}

std::string Say(const Verdict& v) {
  std::string text = std::string(VerdictKindName(v.kind)) + (v.more_of.empty() ? "" : " of " + v.more_of);
  for (const Cause& cause : v.causes)
    text += "; " + std::string(BlameName(cause.blame)) + " +" + std::to_string(cause.excess_ns / kUs) + " us (" +
            std::to_string(cause.confidence) + ")";
  return text;
}

// Behind others' work, of any kind.
bool IsCoarser(Blame blame, Blame than) { return blame == Blame::kQueueWaitOthers && than == Blame::kExecutorBusy; }

// "", or the fault of the answer with less evidence.
std::string Wrong(const Verdict& whole, const Verdict& less) {
  if (less.kind == VerdictKind::kMoreWork || less.kind == VerdictKind::kUniform)
    return less.kind == whole.kind ? "" : "another kind of verdict";
  double surest = 0;
  for (const Cause& cause : whole.causes) surest = std::max(surest, cause.confidence);
  for (const Cause& cause : less.causes) {
    const auto same = std::find_if(whole.causes.begin(), whole.causes.end(), [&](const Cause& one) {
      return one.blame == cause.blame || IsCoarser(cause.blame, one.blame);
    });
    if (same != whole.causes.end() && cause.confidence > same->confidence + 0.02)
      return "surer of " + std::string(BlameName(cause.blame));
    if (same == whole.causes.end() && cause.confidence >= surest)
      return "as sure of " + std::string(BlameName(cause.blame));
  }
  return "";
}

}  // namespace

TEST_CASE("a verdict is less sure with fewer normal requests, and where events were lost", "[verdict][ablation]") {
  const Trace trace = small_server::Server().Make(200);
  BlameIndex index;
  REQUIRE(BlameIndex::Make(trace, {}, &index).ok());
  uint32_t row = 0;
  while (trace.requests[row].id != small_server::kSlow) ++row;
  const int64_t now_ns = trace.RequestEnd(trace.requests[row]);
  const auto judge = [&](const BlameIndex& of, uint32_t normal) {
    Baseline baseline;
    for (uint32_t i = 0; i < normal; ++i) {
      RequestBlame blame;
      REQUIRE(FindBlame(index, i, &blame).ok());
      REQUIRE(baseline.Add("/classify", 0, {now_ns, blame.blame, WorkOf(index, blame)}).ok());
    }
    return JudgeIt(of, row, baseline, now_ns).verdict;
  };
  Trace lossy = trace;
  lossy.losses.push_back({kNone, model::LossReason::kOverwritten, now_ns - kMs, now_ns, 7, 0});
  BlameIndex with_loss;
  REQUIRE(BlameIndex::Make(lossy, {}, &with_loss).ok());

  const Verdict whole = judge(index, 200), few = judge(index, 100), too_few = judge(index, 10);
  const Verdict lost = judge(with_loss, 200);

  REQUIRE(whole.causes.size() == 2);
  REQUIRE(few.causes.size() == 2);
  REQUIRE(lost.causes.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(few.causes[i].confidence < whole.causes[i].confidence);
    CHECK(lost.causes[i].confidence <= 0.5 * whole.causes[i].confidence + 1e-9);
  }
  CHECK(too_few.kind == VerdictKind::kUndetermined);
  CHECK(too_few.causes.empty());
}

TEST_CASE("answers that rest on times of GPUs are less sure when these are moved", "[verdict][ablation]") {
  const simulator::Run run = Simulate(Servers()[2]);  // the GPU is taken by others
  uint32_t sure = 0, compared = 0;
  for (const int64_t later_ns : {int64_t{0}, -2 * kMs, -400 * kUs, 400 * kUs, 2 * kMs}) {
    Trace trace = run.trace;
    for (int64_t& begin_ns : trace.gpu.begin_ns) begin_ns += later_ns;
    REQUIRE(FindInconsistency(trace) == "");
    BlameIndex index;
    REQUIRE(BlameIndex::Make(trace, {}, &index).ok());
    for (uint32_t row = 0; row < trace.requests.size(); ++row) {
      const model::RequestRow& request = trace.requests[row];
      if (trace.strings[request.route] != "/classify" || !request.end_known || request.duration_ns < 8 * kMs) continue;
      Baseline baseline;
      REQUIRE(LearnBaseline(index, row, {}, &baseline).ok());
      for (const Cause& cause : JudgeIt(index, row, baseline, trace.RequestEnd(request)).verdict.causes) {
        const bool is_of_gpu = cause.blame == Blame::kGpuQueueWaitOthers || cause.blame == Blame::kGpuExecExpected ||
                               cause.blame == Blame::kLaunchLatency || cause.blame == Blame::kHostOncpuFramework;
        if (!is_of_gpu) continue;
        if (later_ns == 0) {
          sure += cause.confidence >= 0.8;
        } else {
          ++compared;
          INFO(later_ns << " ns: " << BlameName(cause.blame));
          CHECK(cause.confidence <= 0.5);
        }
      }
    }
  }
  CHECK(sure > 5);
  CHECK(compared > 20);
}

TEST_CASE("no other cause is named as surely with less evidence", "[verdict][ablation]") {
  uint32_t judged = 0;
  std::map<Blame, uint32_t> causes;
  for (const ServerSpec& server : Servers()) {
    const simulator::Run run = Simulate(server);
    REQUIRE(FindInconsistency(run.trace) == "");
    BlameIndex index;
    REQUIRE(BlameIndex::Make(run.trace, {}, &index).ok());
    std::vector<uint32_t> slow;
    std::map<uint32_t, Verdict> whole;
    std::map<uint32_t, Baseline> kept;
    for (uint32_t row = 0; row < run.trace.requests.size(); ++row) {
      const model::RequestRow& request = run.trace.requests[row];
      if (run.trace.strings[request.route] != "/classify" || !request.end_known || request.duration_ns < 8 * kMs)
        continue;
      if (slow.size() == 12) break;
      Baseline baseline;
      REQUIRE(LearnBaseline(index, row, {}, &baseline).ok());
      const Judged at = JudgeIt(index, row, baseline, run.trace.RequestEnd(request));
      if (at.verdict.causes.empty()) continue;
      slow.push_back(row);
      for (const Cause& cause : at.verdict.causes) ++causes[cause.blame];
      whole[row] = at.verdict;
      kept.emplace(row, baseline);
    }
    for (const Ablation& ablation : Ablations()) {
      Trace trace = run.trace;
      ablation.drop(&trace);
      REQUIRE(FindInconsistency(trace) == "");
      BlameIndex less;
      REQUIRE(BlameIndex::Make(trace, {}, &less).ok());
      for (const uint32_t row : slow) {
        const int64_t now_ns = trace.RequestEnd(trace.requests[row]);
        Baseline learned;
        REQUIRE(LearnBaseline(less, row, {}, &learned).ok());
        for (const Baseline* baseline : {&learned, &kept.at(row)}) {
          const Judged at = JudgeIt(less, row, *baseline, now_ns);
          ++judged;
          INFO("server " << server.seed << ", request " << row << ", without " << ablation.what << ", by "
                         << (baseline == &learned ? "its like" : "whole ones"));
          INFO("whole: " << Say(whole.at(row)));
          INFO("less:  " << Say(at.verdict));
          CHECK(Wrong(whole.at(row), at.verdict) == "");
        }
      }
    }
  }
  CHECK(judged > 1000);
  for (const Blame blame : {Blame::kAdmissionQueue, Blame::kQueueWaitOthers, Blame::kExecutorBusy, Blame::kHostLock,
                            Blame::kGpuQueueWaitOthers})
    CHECK(causes[blame] > 0);
}

}  // namespace pitot::test
