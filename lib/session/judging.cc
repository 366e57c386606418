// SPDX-License-Identifier: Apache-2.0
#include "session/judging.h"

#include <cstddef>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/appendix.h"
#include "base/message.h"

namespace pitot::session {
namespace {

using base::Error;
using base::MutexLock;

constexpr char kAskLater[] = "Run `pitot why DIR` for a verdict: DIR is the directory of this incident\n";

}  // namespace

// One call of a judge.
class Judging::Call final : public Hearing {
 public:
  enum class Gives { kWay, kNoWay };  // to a verdict that is awaited
  // `judged` has its path, or "" if nothing is kept on disk, and, unless it is a sample, its incident.
  Call(Judging* judging, const model::Trace& trace, const Case& judged, const JudgeNeeds& needs,
       const IsAwaited* is_awaited, Gives gives)
      : judging_(*judging),
        trace_(trace),
        judged_(judged),
        path_(judged.path),
        has_findings_(needs.has_findings),
        budget_ns_(int64_t{needs.budget_ms} * 1'000'000),
        is_awaited_(*is_awaited),
        gives_way_(gives == Gives::kWay) {}

  const model::Trace& trace() const noexcept override { return trace_; }
  bool IsOver() noexcept override {
    CpuThrottle& throttle = judging_.throttle_;
    const bool may_go_on =
        gives_way_ ? throttle.ProceedBehindVerdicts([this] { return HasGivenWay(); }) : throttle.Proceed();
    return !may_go_on || SpentNs() > budget_ns_;
  }
  void OpenReport(const char* text) override { opening_ = text != nullptr ? text : ""; }
  void SetSignature(const char* signature, int64_t excess_ns) override {
    signature_ = signature != nullptr ? signature : "";
    excess_ns_ = excess_ns;
  }
  Status AddFile(Serializer& serializer) override {
    if (path_.empty()) return Status(StatusCode::kUnavailable, "this recorder keeps no incidents on disk");
    if (IsOver()) return Status(StatusCode::kUnavailable, "the time is up");
    return judging_.files_.AddLater(path_, &serializer, trace_);
  }
  bool BeginFindings() noexcept override {
    if (findings_from_ns_ == 0) findings_from_ns_ = judging_.throttle_.CpuNs();
    return judging_.AreFindingsDue();
  }
  bool CanFilesWait() noexcept override {
    try {
      return has_findings_ && is_awaited_() &&
             judging_.folding_.IsMilderRepeat(Kind(), trace_.clock.realtime_ns, excess_ns_);
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  // What it folds with; "": nothing.
  std::string Kind() const {
    if (signature_.empty() || judged_.incident == nullptr || judged_.incident->cause == kManual) return "";
    return judged_.incident->cause + ": " + signature_;
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
  int64_t excess_ns() const { return excess_ns_; }
  bool is_cut_off() const { return is_cut_off_; }
  bool has_given_way() const { return has_given_way_; }
  // The CPU time since BeginFindings.
  int64_t FindingsNs() const { return findings_from_ns_ != 0 ? judging_.throttle_.CpuNs() - findings_from_ns_ : 0; }

 private:
  bool HasGivenWay() { return has_given_way_ = has_given_way_ || is_awaited_(); }
  int64_t SpentNs() const { return judging_.throttle_.CpuNs() - begin_ns_; }

  Judging& judging_;
  const model::Trace& trace_;
  const Case& judged_;
  const std::string& path_;
  const bool has_findings_;
  const int64_t budget_ns_;
  const int64_t begin_ns_ = judging_.throttle_.CpuNs();
  const IsAwaited& is_awaited_;
  const bool gives_way_;
  bool has_given_way_ = false;
  std::string opening_, signature_;
  int64_t excess_ns_ = 0;
  int64_t findings_from_ns_ = 0;  // CPU time; 0: no findings are looked for
  bool is_cut_off_ = false;
};

Status Judging::Add(std::unique_ptr<Judge> judge) noexcept {
  if (judge == nullptr) return Status(StatusCode::kResourceExhausted, "the judge is null: there was no memory for it");
  try {
    AddedJudge added;  // the one before; destroyed without the lock
    added.needs = judge->Needs();
    added.judge = std::move(judge);
    added.norms = AskForNorms(added.judge.get());
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

bool Judging::AreFindingsDue() noexcept {
  const MutexLock lock(&mutex_);
  return sample_pace_.AreFindingsDue(throttle_.NowNs());
}

bool Judging::HasJudge() noexcept {
  const MutexLock lock(&mutex_);
  return judge_.judge != nullptr;
}

Judging::AddedJudge Judging::GetJudge() noexcept {
  const Awake awake(throttle_.priority());
  const MutexLock lock(&mutex_);
  return judge_;
}

// No incident fails for it.
Judging::Norms Judging::AskForNorms(Judge* judge) noexcept {
  try {
    const auto norms = std::make_shared<model::Trace>();
    return judge->AddNorms(norms.get()).ok() ? norms : nullptr;
  } catch (...) {
    return nullptr;
  }
}

void Judging::Keep(const Judge* of, Norms norms) noexcept {
  if (norms == nullptr) return;
  const MutexLock lock(&mutex_);
  if (judge_.judge.get() == of) judge_.norms.swap(norms);  // the one before is destroyed without the lock
}

void Judging::AddNorms(model::Trace* trace) {
  Norms norms;
  {
    const MutexLock lock(&mutex_);
    norms = judge_.norms;
  }
  if (norms == nullptr) return;
  trace->norms = norms->norms;
  for (model::NormRow& row : trace->norms) row.name = trace->strings.Add(norms->strings[row.name]);
}

void Judging::GiveUp(Case* unjudged, const Status& why, Reason reason) noexcept {
  if (GetJudge().judge != nullptr) counts_.AddNoVerdict(reason);
  char opening[1024 + sizeof kAskLater];
  std::snprintf(opening, sizeof opening, "%s\n%s\n", why.message(), kAskLater);
  const Status rewritten = unjudged->trace ? files_.OpenReport(unjudged, opening, IncidentFiles::Others::kNow)
                                           : files_.WriteShortReport(unjudged->path, opening);
  if (!unjudged->is_complete) files_.CountOthersMissing(*unjudged);
  throttle_.priority()->BeNormal();
  host_.Tell(&Hooks::on_verdict, *unjudged->incident, unjudged->path, rewritten.ok() ? why : rewritten, "");
}

void Judging::JudgeNow(Case* it, const IsAwaited& is_awaited) noexcept {
  const AddedJudge added = GetJudge();
  const Case& judged = *it;
  const Incident& incident = *judged.incident;
  throttle_.priority()->BeIdle();
  Call call(this, *judged.trace, judged, added.needs, &is_awaited, Call::Gives::kNoWay);
  Status status = call.Hear([&](Hearing& hearing) { return added.judge->Decide(hearing); });
  std::string opening;
  try {
    opening = call.opening();
    if (!status.ok()) {
      status = Error(status.code(), "%s: judge %s: %s", opening.empty() ? "no verdict" : "the verdict is incomplete",
                     added.judge->Name(), status.message());
      std::string lines = std::string(status.message()) + "\n";
      if (call.is_cut_off() && !judged.path.empty()) lines += kAskLater;
      base::AddToFront(&opening, lines);
    }
    if (!opening.empty()) opening += "\n";
    const bool can_wait = status.ok() && call.CanFilesWait();
    const Status opened =
        files_.OpenReport(it, opening, can_wait ? IncidentFiles::Others::kLater : IncidentFiles::Others::kNow);
    if (status.ok()) status = opened;
    if (const std::string kind = call.Kind(); status.ok() && !kind.empty()) Fold(kind, call.excess_ns(), it);
  } catch (const std::bad_alloc&) {
    status = Status(StatusCode::kResourceExhausted, "no memory for the verdict");
  }
  if (!judged.path.empty()) files_.Prune();
  throttle_.priority()->BeNormal();
  it->is_judged = true;
  it->has_findings = status.ok() && added.needs.has_findings;
  if (status.ok())
    IncidentCounts::Add(&counts_.verdicts_given);
  else if (lifetime_.HasGivenUp())
    counts_.AddNoVerdict(&IncidentCounts::verdicts_stopped);
  else if (call.is_cut_off())
    counts_.AddNoVerdict(&IncidentCounts::verdicts_cut_off);
  else
    IncidentCounts::Add(&counts_.verdicts_failed);
  if (status.ok())
    failed_.End();
  else
    host_.LogFailure(
        &failed_, LogLevel::kWarning, incident.number,
        Error(status.code(), "incident %llu: %s", static_cast<unsigned long long>(incident.number), status.message())
            .message());
  host_.Tell(&Hooks::on_verdict, incident, judged.path, status.ok() ? judged.written : status, opening.c_str());
}

// Counts it with those of the same verdict, and removes the ones that need not be kept.
void Judging::Fold(const std::string& kind, int64_t excess_ns, Case* it) {
  std::vector<std::string> folded;
  const Repeats& repeats = folding_.Add(kind,
                                        {it->incident->number, it->path, it->trace->clock.realtime_ns, excess_ns,
                                         SlowRequests(*it->incident), it->incident->more_like_it, it->incident->cause},
                                        &folded);
  it->is_repeat = repeats.again != 0;
  it->incident->again = repeats.again;
  for (const std::string& path : folded) {
    files_.Remove(path);
    IncidentCounts::Add(&counts_.incidents_folded);
  }
  if (it->is_repeat) files_.NoteRepeats(repeats);
}

bool Judging::AddFindings(Case* it, const IsAwaited& is_awaited) noexcept {
  const Case& judged = *it;
  const AddedJudge added = GetJudge();
  throttle_.priority()->BeIdle();
  Call call(this, *judged.trace, judged, added.needs, &is_awaited, Call::Gives::kWay);
  Status status = call.Hear([&](Hearing& hearing) { return added.judge->AddFindings(hearing); });
  try {
    if (!call.has_given_way() && !call.opening().empty()) {
      const Status rewritten = files_.OpenReport(it, call.opening() + "\n", IncidentFiles::Others::kNow);
      if (status.ok()) status = rewritten;
    }
  } catch (const std::bad_alloc&) {
    status = Status(StatusCode::kResourceExhausted, "no memory for the findings");
  }
  Norms norms = call.has_given_way() ? nullptr : AskForNorms(added.judge.get());
  throttle_.priority()->BeNormal();
  Keep(added.judge.get(), std::move(norms));
  if (call.has_given_way() && !lifetime_.HasGivenUp()) return false;
  IncidentCounts::Add(status.ok() ? &counts_.findings_added : &counts_.findings_left_out);
  if (!status.ok())
    host_.LogFailure(
        &failed_, LogLevel::kWarning, judged.incident->number,
        Error(status.code(), "incident %llu: no findings: judge %s: %s",
              static_cast<unsigned long long>(judged.incident->number), added.judge->Name(), status.message())
            .message());
  return true;
}

void Judging::Learn(const std::function<model::Trace()>& make_trace, const IsAwaited& is_awaited) noexcept {
  const AddedJudge added = GetJudge();
  const int64_t begin_ns = throttle_.CpuNs();
  throttle_.priority()->BeIdle();
  Status status;
  int64_t findings_ns = 0, norms_ns = 0;
  Norms norms;
  try {
    throttle_.Proceed();
    const model::Trace trace = make_trace();
    const Case sample;
    Call call(this, trace, sample, added.needs, &is_awaited, Call::Gives::kWay);
    if (added.judge != nullptr) status = call.Hear([&](Hearing& it) { return added.judge->Learn(it); });
    findings_ns = call.FindingsNs();
    if (added.judge != nullptr && status.ok() && !call.has_given_way()) {
      const int64_t from_ns = throttle_.CpuNs();
      norms = AskForNorms(added.judge.get());
      norms_ns = throttle_.CpuNs() - from_ns;
    }
  } catch (const std::exception& e) {
    status = Error(StatusCode::kResourceExhausted, "cannot make it: %s", e.what());
  }
  throttle_.priority()->BeNormal();
  Keep(added.judge.get(), std::move(norms));
  IncidentCounts::Add(status.ok() ? &counts_.samples_learned : &counts_.samples_failed);
  const int64_t cost_ns = throttle_.CpuNs() - begin_ns;
  const MutexLock lock(&mutex_);
  sample_pace_.Learned(throttle_.NowNs(), cost_ns - findings_ns - norms_ns, findings_ns, norms_ns);
}

}  // namespace pitot::session

PITOT_NAMESPACE_BEGIN

void Hearing::SetSignature(const char*, int64_t) {}
bool Hearing::BeginFindings() noexcept { return true; }
bool Hearing::CanFilesWait() noexcept { return false; }
Judge::~Judge() = default;
void Judge::LimitMemory(uint64_t) noexcept {}
Status Judge::AddFindings(Hearing&) { return Status(); }
Status Judge::Learn(Hearing&) { return Status(); }
Status Judge::AddNorms(model::Trace*) { return Status(); }

PITOT_NAMESPACE_END
