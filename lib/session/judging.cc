// SPDX-License-Identifier: Apache-2.0
//
// Session on the worker: has incidents judged once they are on disk, and samples learned from.
#include <algorithm>
#include <cstdio>
#include <string_view>

#include "base/clock.h"
#include "base/message.h"
#include "pitot/extend/judge.h"
#include "session/options.h"
#include "session/session.h"

namespace pitot::session {
namespace {

using base::ClockNs;
using base::Error;

constexpr char kAskLater[] = "Run `pitot why DIR` for a verdict: DIR is the directory of this incident\n";

// Incidents waiting for verdicts at once. Their traces stay in memory, so together they also take no more than the rows
// of one incident may.
constexpr size_t kMostWaiting = 8;

// The approximate size of a trace's tables that grow with the recorded data, in bytes: rows as in model/trace.h.
uint64_t RowBytesOf(const model::Trace& trace) {
  constexpr uint64_t kEvent = 36, kCall = 40, kOperation = 80, kSample = 20, kRequest = 256;
  return kEvent * trace.events.size() + sizeof(model::ArgValue) * trace.arg_values.size() + kCall * trace.calls.size() +
         kOperation * trace.gpu.size() + kSample * trace.samples.counter.size() + kRequest * trace.requests.size() +
         sizeof(model::BatchRow) * trace.batches.size() + sizeof(model::MemberRow) * trace.members.size() +
         sizeof(model::HandoffRow) * trace.handoffs.size() + sizeof(model::TokenRow) * trace.tokens.size();
}

}  // namespace

// One call of a judge.
class Session::SessionHearing final : public Hearing {
 public:
  SessionHearing(Session* session, const model::Trace& trace, const std::string& path, uint32_t budget_ms)
      : session_(session), trace_(trace), path_(path), budget_ns_(int64_t{budget_ms} * 1'000'000) {}

  const model::Trace& trace() const noexcept override { return trace_; }
  bool IsOver() noexcept override {
    session_->WriteWaiting();
    return !session_->pace_.Proceed() || SpentNs() > budget_ns_;
  }
  void OpenReport(const char* text) override { opening_ = text != nullptr ? text : ""; }
  Status AddFile(Serializer& serializer) override {
    if (path_.empty()) return Status(StatusCode::kUnavailable, "this recorder keeps no incidents on disk");
    if (IsOver()) return Status(StatusCode::kUnavailable, "the time is up");
    return session_->files_.AddLater(path_, &serializer, trace_);
  }

  // Calls `judge` and returns the error of the call.
  template <class Call> Status Hear(const Call& call) noexcept {
    Status status;
    try {
      if (!session_->lifetime_.HasGivenUp()) status = call(*this);
    } catch (const std::exception& e) {
      status = Error(StatusCode::kInternal, "it threw an exception: %s", e.what());
    } catch (...) {
      status = Status(StatusCode::kInternal, "it threw an exception");
    }
    is_cut_off_ = session_->lifetime_.HasGivenUp() || SpentNs() > budget_ns_;
    if (session_->lifetime_.HasGivenUp()) return Status(StatusCode::kUnavailable, "cut off: the recorder was stopped");
    if (is_cut_off_)
      return Error(StatusCode::kResourceExhausted, "cut off: it took %.0f ms of CPU time, and its limit is %.0f ms",
                   static_cast<double>(SpentNs()) * 1e-6, static_cast<double>(budget_ns_) * 1e-6);
    return status;
  }
  const std::string& opening() const { return opening_; }
  bool is_cut_off() const { return is_cut_off_; }
  int64_t SpentNs() const {
    return session_->pace_.CpuNs() - begin_ns_ - (session_->nested_cpu_ns_ - nested_begin_ns_);
  }

 private:
  Session* const session_;
  const model::Trace& trace_;
  const std::string& path_;
  const int64_t budget_ns_;
  const int64_t begin_ns_ = session_->pace_.CpuNs(), nested_begin_ns_ = session_->nested_cpu_ns_;
  std::string opening_;
  bool is_cut_off_ = false;
};

Status Session::AddJudge(std::unique_ptr<Judge> judge) noexcept {
  if (Status s = status(); !s.ok()) return s;
  if (judge == nullptr)
    return host_.LogError(Status(StatusCode::kResourceExhausted, "the judge is null: there was no memory for it"));
  try {
    AddedJudge added;
    added.needs = judge->Needs();
    added.judge = std::move(judge);
    const std::lock_guard lock(mutex_);
    sample_pace_.Begin(added.needs);
    std::swap(judge_, added);
  } catch (const std::bad_alloc&) {
    return host_.LogError(Status(StatusCode::kResourceExhausted, "no memory for a judge"));
  }
  wake_.Give();
  return {};
}

Session::AddedJudge Session::GetJudge() noexcept {
  const Awake awake(pace_.priority());
  const std::lock_guard lock(mutex_);
  return judge_;
}

// Writes a waiting incident, because it does not wait for a verdict. Called by the judge's question whether its time is
// up.
void Session::WriteWaiting() noexcept {
  const Awake awake(pace_.priority());
  std::unique_ptr<Incident> waiting = handover_.TakeWaiting();
  if (waiting == nullptr) return;
  const int64_t begin_ns = pace_.CpuNs();
  TakeCopied(std::move(waiting));
  pace_.Calm();
  nested_cpu_ns_ += pace_.CpuNs() - begin_ns;
}

// Judges it now, or after those before it. Without room it displaces those that have waited longest: the host looks at
// the latest.
void Session::JudgeLater(Case to_judge) noexcept {
  if (!is_judging_) return JudgeCase(to_judge);
  to_judge.bytes = RowBytesOf(*to_judge.trace);
  const auto has_room = [&] {
    uint64_t bytes = to_judge.bytes;
    for (const Case& waiting : to_judge_) bytes += waiting.bytes;
    return to_judge_.size() < kMostWaiting && bytes <= RowBytes(split_);
  };
  while (!to_judge_.empty() && !has_room()) {
    const Case displaced = std::move(to_judge_.front());
    to_judge_.pop_front();
    GiveUpVerdict(displaced, Status(StatusCode::kResourceExhausted,
                                    "no verdict: too many newer incidents were waiting for theirs"));
  }
  try {
    to_judge_.push_back(std::move(to_judge));
  } catch (const std::bad_alloc&) {
    GiveUpVerdict(to_judge,
                  Status(StatusCode::kResourceExhausted, "no verdict: no memory to let the incident wait for one"));
  }
}

// Works even without memory: the text takes none.
void Session::GiveUpVerdict(const Case& unjudged, const Status& why) noexcept {
  IncidentCounts::Add(&counts_.verdicts_failed);
  char opening[1024 + sizeof kAskLater];
  std::snprintf(opening, sizeof opening, "%s\n%s\n", why.message(), kAskLater);
  const Status rewritten = files_.OpenReport(unjudged.path, opening, *unjudged.trace);
  host_.Tell(&Hooks::on_verdict, *unjudged.incident, unjudged.path, rewritten.ok() ? why : rewritten, "");
}

void Session::JudgeCase(const Case& judged) noexcept {
  const AddedJudge added = GetJudge();
  const Incident& incident = *judged.incident;
  is_judging_ = true;
  pace_.priority()->BeIdle();
  SessionHearing hearing(this, *judged.trace, judged.path, added.needs.budget_ms);
  Status status = hearing.Hear([&](Hearing& it) { return added.judge->Decide(it); });
  std::string opening;
  try {
    opening = hearing.opening();
    if (!status.ok()) {
      status = Error(status.code(), "%s: judge %s: %s", opening.empty() ? "no verdict" : "the verdict is incomplete",
                     added.judge->Name(), status.message());
      opening += std::string(status.message()) + "\n";
      if (hearing.is_cut_off() && !judged.path.empty()) opening += kAskLater;
    }
    if (!opening.empty()) opening += "\n";
    const Status rewritten = files_.OpenReport(judged.path, opening, *judged.trace);
    if (status.ok()) status = rewritten;
  } catch (const std::bad_alloc&) {
    status = Status(StatusCode::kResourceExhausted, "no memory for the verdict");
  }
  if (!judged.path.empty()) files_.Prune();
  pace_.priority()->BeNormal();
  is_judging_ = false;
  (status.ok() ? counts_.verdicts_given : counts_.verdicts_failed).fetch_add(1, std::memory_order_relaxed);
  if (status.ok())
    failed_verdicts_.End();
  else
    host_.LogFailure(
        &failed_verdicts_, LogLevel::kWarning, incident.number,
        Error(status.code(), "incident %llu: %s", static_cast<unsigned long long>(incident.number), status.message())
            .message());
  host_.Tell(&Hooks::on_verdict, incident, judged.path, status.ok() ? judged.written : status, opening.c_str());
}

void Session::LearnFrom(Incident* sample) noexcept {
  const AddedJudge added = GetJudge();
  const int64_t begin_ns = pace_.CpuNs(), nested_begin_ns = nested_cpu_ns_;
  pace_.priority()->BeIdle();
  Status status;
  try {
    pace_.Proceed();
    const model::Trace trace = TakeTrace(sample);
    pace_.EndWriting();
    const std::string nowhere;
    is_judging_ = true;
    SessionHearing hearing(this, trace, nowhere, added.needs.budget_ms);
    if (added.judge != nullptr) status = hearing.Hear([&](Hearing& it) { return added.judge->Learn(it); });
  } catch (const std::exception& e) {
    status = Error(StatusCode::kResourceExhausted, "cannot make it: %s", e.what());
  }
  is_judging_ = false;
  pace_.EndWriting();
  pace_.priority()->BeNormal();
  (status.ok() ? counts_.samples_learned : counts_.samples_failed).fetch_add(1, std::memory_order_relaxed);
  const int64_t cost_ns = pace_.CpuNs() - begin_ns - (nested_cpu_ns_ - nested_begin_ns);
  const std::lock_guard lock(mutex_);
  sample_pace_.Learned(ClockNs(CLOCK_MONOTONIC), cost_ns);
}

}  // namespace pitot::session

PITOT_NAMESPACE_BEGIN

Judge::~Judge() = default;
Status Judge::Learn(Hearing&) { return Status(); }

PITOT_NAMESPACE_END
