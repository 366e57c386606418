// SPDX-License-Identifier: Apache-2.0
//
// The cost of a request for its threads, and of the triggers when none fires.
#include "benchmarks/recording.h"
#include "benchmarks/register.h"
#include "benchmarks/rounds.h"
#include "pitot/request.h"
#include "pitot/trigger/failure.h"
#include "pitot/trigger/latency.h"
#include "pitot/trigger/predicate.h"
#include "pitot/trigger/stall.h"

namespace pitot::benchmarks {
namespace {

constexpr uint64_t kRequests = 20'000;
constexpr int kRounds = 41;

double BeginFinish(uint64_t count) {
  auto body = [](uint64_t) {
    Request request = Request::Begin("/classify");
    request.Finish(Outcome::kOk);
  };
  return TimeLoop(count, body);
}

// Like a handler: a size, four stages, one hand-over, one batch.
double Whole(uint64_t count) {
  auto body = [](uint64_t) {
    Request request = Request::Begin("/classify");
    request.SetSize("pixels", 50176);
    request.Stage("decode");
    request.Stage("queue");
    const Token token = request.Enqueue("images");
    {
      Batch batch = Batch::Begin("resnet50");
      batch.Join(token);
      Stage(token, "infer");
      batch.Submitted();
    }
    request.Stage("encode");
    request.Finish(Outcome::kOk);
  };
  return TimeLoop(count, body);
}

// Like a step of continuous batching with many members.
double Join(uint64_t count) {
  Request request = Request::Begin("/generate");
  const Token token = request.token();
  Batch batch = Batch::Begin("slots", "tokens");
  auto body = [&](uint64_t) { batch.Join(token, 1); };
  const double ns = TimeLoop(count, body);
  request.Finish(Outcome::kOk);
  return ns;
}

double LateCheck(uint64_t count) {
  Request request = Request::Begin("/classify");
  request.SetDeadline(3'600'000'000'000);
  const Token token = request.token();
  uint64_t late = 0;
  auto body = [&](uint64_t) { late += IsLate(token) ? 1 : 0; };
  const double ns = TimeLoop(count, body);
  request.Finish(late == 0 ? Outcome::kOk : Outcome::kTimedOut);
  return ns;
}

template <double (*kLoop)(uint64_t)> void Alone(benchmark::State& state, Rounds& rounds) {
  Recorder recorder;
  if (!StartOrSkip(state, Options(), &recorder)) return;
  rounds.Measure(kRequests, kLoop);
}

bool Never(void*, const RequestView&) { return false; }

bool AddTriggers(benchmark::State& state, Recorder& recorder) {
  LatencyTriggerOptions latency;
  latency.above_ms = 60'000;
  latency.or_above_quantile = 0.999;
  latency.warm_up_requests = 1'000'000'000;  // it counts every request and never fires
  StallTriggerOptions stall;
  stall.request_open_ms = 60'000;
  PredicateTriggerOptions predicate;
  predicate.predicate = Never;
  return OkOrSkip(state, recorder.Add(MakeLatencyTrigger(latency))) &&
         OkOrSkip(state, recorder.Add(MakeFailureTrigger({}))) &&
         OkOrSkip(state, recorder.Add(MakeStallTrigger(stall))) &&
         OkOrSkip(state, recorder.Add(MakePredicateTrigger(predicate)));
}

// A recorder keeps its triggers, and a process has one recorder: a round starts two, one without and one with.
void TriggersCheck(benchmark::State& state, Rounds& rounds) {
  const auto run = [&state](bool with_triggers, uint64_t count) {
    Recorder recorder;
    if (!StartOrSkip(state, Options(), &recorder)) return 0.0;
    if (with_triggers && !AddTriggers(state, recorder)) return 0.0;
    BeginFinish(1000);
    return BeginFinish(count);
  };
  rounds.Subtract(
      kRequests, [&](uint64_t count) { return run(false, count); }, [&](uint64_t count) { return run(true, count); });
}

}  // namespace

void RegisterRequests() {
  Register("request, begin and finish", kRounds, Alone<BeginFinish>, "ns", 400);
  Register("request, 4 stages, hand-over, batch", kRounds, Alone<Whole>, "ns", 0);
  Register("a member joins with its work", kRounds, Alone<Join>, "ns", 0);
  Register("check that a request is late", kRounds, Alone<LateCheck>, "ns", 0);
  Register("4 triggers that do not fire, per request", kRounds, TriggersCheck, "ns", 100);
}

}  // namespace pitot::benchmarks
