// SPDX-License-Identifier: Apache-2.0
#include "session/judging.h"

#include <cstddef>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/message.h"

namespace pitot::session {
namespace {

using base::Error;
using base::MutexLock;

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
class Judging::Call final : public Hearing {
 public:
  // `path` is the incident's, or "" if nothing is kept on disk.
  Call(Judging* judging, const model::Trace& trace, const std::string& path, uint32_t budget_ms)
      : judging_(*judging), trace_(trace), path_(path), budget_ns_(int64_t{budget_ms} * 1'000'000) {}

  const model::Trace& trace() const noexcept override { return trace_; }
  bool IsOver() noexcept override {
    judging_.WriteWaiting();
    return !judging_.pace_.Proceed() || SpentNs() > budget_ns_;
  }
  void OpenReport(const char* text) override { opening_ = text != nullptr ? text : ""; }
  Status AddFile(Serializer& serializer) override {
    if (path_.empty()) return Status(StatusCode::kUnavailable, "this recorder keeps no incidents on disk");
    if (IsOver()) return Status(StatusCode::kUnavailable, "the time is up");
    return judging_.files_.AddLater(path_, &serializer, trace_);
  }

  // Calls `judge` and returns the error of the call.
  template <class Ask> Status Hear(const Ask& ask) noexcept {
    Status status;
    try {
      if (!judging_.lifetime_.HasGivenUp()) status = ask(*this);
    } catch (const std::exception& e) {
      status = Error(StatusCode::kInternal, "it threw an exception: %s", e.what());
    } catch (...) {
      status = Status(StatusCode::kInternal, "it threw an exception");
    }
    const bool has_given_up = judging_.lifetime_.HasGivenUp();
    is_cut_off_ = has_given_up || SpentNs() > budget_ns_;
    if (has_given_up) return Status(StatusCode::kUnavailable, "cut off: the recorder was stopped");
    if (is_cut_off_)
      return Error(StatusCode::kResourceExhausted, "cut off: it took %.0f ms of CPU time, and its limit is %.0f ms",
                   static_cast<double>(SpentNs()) * 1e-6, static_cast<double>(budget_ns_) * 1e-6);
    return status;
  }
  const std::string& opening() const { return opening_; }
  bool is_cut_off() const { return is_cut_off_; }

 private:
  int64_t SpentNs() const { return judging_.pace_.CpuNs() - begin_ns_ - (judging_.nested_cpu_ns_ - nested_begin_ns_); }

  Judging& judging_;
  const model::Trace& trace_;
  const std::string& path_;
  const int64_t budget_ns_;
  const int64_t begin_ns_ = judging_.pace_.CpuNs(), nested_begin_ns_ = judging_.nested_cpu_ns_;
  std::string opening_;
  bool is_cut_off_ = false;
};

Judging::Judging(uint64_t most_bytes, const Lifetime* lifetime, HostCalls* host, WorkerPace* pace, IncidentFiles* files,
                 IncidentCounts* counts, std::function<bool()> write_waiting)
    : most_bytes_(most_bytes),
      lifetime_(*lifetime),
      host_(*host),
      pace_(*pace),
      files_(*files),
      counts_(*counts),
      write_waiting_(std::move(write_waiting)) {}

Status Judging::Add(std::unique_ptr<Judge> judge) noexcept {
  if (judge == nullptr) return Status(StatusCode::kResourceExhausted, "the judge is null: there was no memory for it");
  try {
    AddedJudge added;  // the one before; destroyed without the lock
    added.needs = judge->Needs();
    added.judge = std::move(judge);
    const MutexLock lock(&mutex_);
    sample_pace_.Begin(added.needs);
    std::swap(judge_, added);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory for a judge");
  }
  return {};
}

std::optional<Judging::SampleSize> Judging::TakeSampleIfDue(int64_t now_ns) noexcept {
  const MutexLock lock(&mutex_);
  if (judge_.judge == nullptr || !sample_pace_.IsDue(now_ns)) return std::nullopt;
  const SampleSize size{sample_pace_.window_ms(), sample_pace_.most_bytes()};
  sample_pace_.Take(now_ns);
  return size;
}

Judging::AddedJudge Judging::GetJudge() noexcept {
  const Awake awake(pace_.priority());
  const MutexLock lock(&mutex_);
  return judge_;
}

// Writes a waiting incident, because it does not wait for a verdict. Called by the judge's question whether its time is
// up, and not at the expense of its budget.
void Judging::WriteWaiting() {
  const int64_t begin_ns = pace_.CpuNs();
  if (write_waiting_()) nested_cpu_ns_ += pace_.CpuNs() - begin_ns;
}

void Judging::Take(Case to_judge) noexcept {
  if (!is_judging_) return JudgeNow(to_judge);
  to_judge.bytes = RowBytesOf(*to_judge.trace);
  const auto has_room = [&] {
    uint64_t bytes = to_judge.bytes;
    for (const Case& waiting : waiting_) bytes += waiting.bytes;
    return waiting_.size() < kMostWaiting && bytes <= most_bytes_;
  };
  while (!waiting_.empty() && !has_room()) {
    const Case displaced = std::move(waiting_.front());
    waiting_.pop_front();
    GiveUp(displaced,
           Status(StatusCode::kResourceExhausted, "no verdict: too many newer incidents were waiting for theirs"));
  }
  try {
    waiting_.push_back(std::move(to_judge));
  } catch (const std::bad_alloc&) {
    GiveUp(to_judge, Status(StatusCode::kResourceExhausted, "no verdict: no memory to let the incident wait for one"));
  }
}

void Judging::JudgeWaiting() noexcept {
  while (!waiting_.empty()) {
    const Case next = std::move(waiting_.front());
    waiting_.pop_front();
    if (!pace_.IsFinishing())
      JudgeNow(next);
    else
      GiveUp(next, Status(StatusCode::kUnavailable, "no verdict: the recorder was stopped"));
  }
}

// Works even without memory: the text takes none.
void Judging::GiveUp(const Case& unjudged, const Status& why) noexcept {
  IncidentCounts::Add(&counts_.verdicts_failed);
  char opening[1024 + sizeof kAskLater];
  std::snprintf(opening, sizeof opening, "%s\n%s\n", why.message(), kAskLater);
  const Status rewritten = files_.OpenReport(unjudged.path, opening, *unjudged.trace);
  host_.Tell(&Hooks::on_verdict, *unjudged.incident, unjudged.path, rewritten.ok() ? why : rewritten, "");
}

void Judging::JudgeNow(const Case& judged) noexcept {
  const AddedJudge added = GetJudge();
  const Incident& incident = *judged.incident;
  is_judging_ = true;
  pace_.priority()->BeIdle();
  Call call(this, *judged.trace, judged.path, added.needs.budget_ms);
  Status status = call.Hear([&](Hearing& it) { return added.judge->Decide(it); });
  std::string opening;
  try {
    opening = call.opening();
    if (!status.ok()) {
      status = Error(status.code(), "%s: judge %s: %s", opening.empty() ? "no verdict" : "the verdict is incomplete",
                     added.judge->Name(), status.message());
      opening += std::string(status.message()) + "\n";
      if (call.is_cut_off() && !judged.path.empty()) opening += kAskLater;
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
  IncidentCounts::Add(status.ok() ? &counts_.verdicts_given : &counts_.verdicts_failed);
  if (status.ok())
    failed_.End();
  else
    host_.LogFailure(
        &failed_, LogLevel::kWarning, incident.number,
        Error(status.code(), "incident %llu: %s", static_cast<unsigned long long>(incident.number), status.message())
            .message());
  host_.Tell(&Hooks::on_verdict, incident, judged.path, status.ok() ? judged.written : status, opening.c_str());
}

void Judging::Learn(const std::function<model::Trace()>& make_trace) noexcept {
  const AddedJudge added = GetJudge();
  const int64_t begin_ns = pace_.CpuNs(), nested_begin_ns = nested_cpu_ns_;
  pace_.priority()->BeIdle();
  Status status;
  try {
    pace_.Proceed();
    const model::Trace trace = make_trace();
    pace_.EndWriting();
    const std::string nowhere;
    is_judging_ = true;
    Call call(this, trace, nowhere, added.needs.budget_ms);
    if (added.judge != nullptr) status = call.Hear([&](Hearing& it) { return added.judge->Learn(it); });
  } catch (const std::exception& e) {
    status = Error(StatusCode::kResourceExhausted, "cannot make it: %s", e.what());
  }
  is_judging_ = false;
  pace_.EndWriting();
  pace_.priority()->BeNormal();
  IncidentCounts::Add(status.ok() ? &counts_.samples_learned : &counts_.samples_failed);
  const int64_t cost_ns = pace_.CpuNs() - begin_ns - (nested_cpu_ns_ - nested_begin_ns);
  const MutexLock lock(&mutex_);
  sample_pace_.Learned(pace_.NowNs(), cost_ns);
}

}  // namespace pitot::session

PITOT_NAMESPACE_BEGIN

Judge::~Judge() = default;
Status Judge::Learn(Hearing&) { return Status(); }

PITOT_NAMESPACE_END
