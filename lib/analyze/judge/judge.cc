// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/judge.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "analyze/judge/make_judge.h"
#include "analyze/judge/signature.h"
#include "analyze/judge/usual.h"
#include "base/columns.h"
#include "base/message.h"
#include "pitot/analyze/analyze.h"
#include "pitot/analyze/asked.h"
#include "pitot/analyze/drift.h"
#include "pitot/analyze/learn.h"
#include "pitot/analyze/report_html.h"

namespace pitot::judge {

namespace {

using model::Trace;

constexpr int64_t kAnalyzerBudgetNs = 500'000'000;  // CPU time of one analyzer
constexpr int64_t kSampleBudgetNs = 50'000'000;     // the same for a sample
constexpr int64_t kSaveNs = 300'000'000'000;        // between two writes of the baseline's file
constexpr uint32_t kOfIncident = 128;               // requests of a cell learned from an incident's window
constexpr size_t kMostDrifts = 3;
constexpr int64_t kLearnBudgetNs = 300'000'000;  // CPU time of learning from an incident
constexpr size_t kMostKnown = 4096;              // walks of requests
constexpr size_t kMostDecided = 8;               // verdicts that wait for their findings
constexpr size_t kMostBaselineBytes = 16 << 20;  // of a file
// Bytes of a cell, in the baseline and in the regimes; of a kind of what others wait for; and of a walk.
constexpr uint64_t kCellBytes = 114 << 10, kKindBytes = 11 << 10, kWalkBytes = 250;
constexpr uint64_t kLeastCells = 2, kLeastKinds = 8, kLeastWalks = 64;

// A file of text.
class TextFile final : public Serializer {
 public:
  TextFile(const char* name, std::string text) : name_(name), text_(std::move(text)) {}
  const char* FileName() const noexcept override { return name_; }
  Status Serialize(const Trace&, ByteSink& sink) override {
    return sink.Write(text_.data(), text_.size()) ? Status()
                                                  : Status(StatusCode::kIoError, "the sink accepts no more data");
  }

 private:
  const char* name_;
  std::string text_;
};

// Indexing, walking and analyzing end when the hearing does.
bool IsHearingOver(void* hearing) { return static_cast<Hearing*>(hearing)->IsOver(); }
BlameOptions Until(Hearing* hearing) {
  BlameOptions options;
  options.is_over = IsHearingOver;
  options.is_over_context = hearing;
  return options;
}

// Learning ends with the hearing, or with its own budget.
struct Learning {
  Hearing& hearing;
  const int64_t end_ns;  // CPU time
  static bool IsOver(void* learning) {
    const auto& it = *static_cast<Learning*>(learning);
    return base::ClockNs(CLOCK_THREAD_CPUTIME_ID) > it.end_ns || it.hearing.IsOver();
  }
};

Status FileError(const char* what, const std::string& path) {
  return base::Error(StatusCode::kIoError, "cannot %s %s: %s", what, path.c_str(), strerrordesc_np(errno));
}

// Reads at most `most` bytes of a regular file. Anything else is an error: opening a FIFO would wait for its writer.
Status Read(const std::string& path, size_t most, std::string* bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return errno == ENOENT ? Status(StatusCode::kNotFound, "the file does not exist") : FileError("open", path);
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return base::Error(StatusCode::kIoError, "%s is not a regular file", path.c_str());
  }
  char part[1 << 16];
  ssize_t n = 0;
  while (bytes->size() < most && (n = read(fd, part, std::min(sizeof part, most - bytes->size()))) > 0)
    bytes->append(part, static_cast<size_t>(n));
  const Status status = n < 0 ? FileError("read", path) : Status();
  close(fd);
  return status;
}

// Whether a baseline may be written there: over nothing, an empty file, or a baseline, whole or not.
Status MayReplace(const std::string& path) {
  std::string head;
  const Status status = Read(path, Baseline::kHead.size(), &head);
  if (status.code() == StatusCode::kNotFound) return Status();
  if (!status.ok() || head.empty() || head == Baseline::kHead) return status;
  return base::Error(StatusCode::kIoError, "%s is not a baseline file; left unchanged", path.c_str());
}

// Writes through a new file next to it, mode 0600: whole or not at all.
Status WriteWhole(const std::string& path, const std::string& bytes) {
  const std::string fresh = path + ".new";
  unlink(fresh.c_str());
  const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return FileError("create", fresh);
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  Status status = done == bytes.size() && fsync(fd) == 0 ? Status() : FileError("write", fresh);
  close(fd);
  if (status.ok() && rename(fresh.c_str(), path.c_str()) != 0) status = FileError("replace", path);
  if (!status.ok()) unlink(fresh.c_str());
  return status;
}

class WhyJudge final : public Judge {
 public:
  WhyJudge(const WhyJudgeOptions& options, std::vector<std::unique_ptr<Analyzer>> analyzers, base::ClockFunction clock)
      : options_(options),
        clock_(clock),
        file_(options.baseline_file != nullptr ? options.baseline_file : ""),
        analyzers_(MakeCatalogue()) {
    for (std::unique_ptr<Analyzer>& analyzer : analyzers) {
      if (analyzer != nullptr) analyzers_.push_back(std::move(analyzer));
    }
    const auto now_ns = static_cast<int64_t>(clock_());
    learn_.began_after_ns = now_ns + int64_t{options.warm_up_ms} * 1'000'000;
    if (file_.empty()) return;
    std::string bytes;
    Status status = Read(file_, kMostBaselineBytes, &bytes);
    if (status.ok() && !bytes.empty()) status = baseline_.Load(bytes, now_ns);
    if (!status.ok() && status.code() != StatusCode::kNotFound) wrong_ = status.message();
  }

  const char* Name() const noexcept override { return "why"; }
  // Cells have seven tenths, kinds two, walks one.
  void LimitMemory(uint64_t bytes) noexcept override {
    const auto cells = static_cast<uint32_t>(std::clamp<uint64_t>(bytes / 10 * 7 / kCellBytes, kLeastCells, ~0u));
    const auto kinds = static_cast<uint32_t>(std::clamp<uint64_t>(bytes / 10 * 2 / kKindBytes, kLeastKinds, ~0u));
    baseline_.Limit(cells, kinds);
    DriftOptions drift;
    drift.most_cells = std::min(drift.most_cells, cells);
    regimes_ = Regimes(drift);
    most_known_ = static_cast<size_t>(std::clamp<uint64_t>(bytes / 10 / kWalkBytes, kLeastWalks, kMostKnown));
  }
  JudgeNeeds Needs() const noexcept override {
    JudgeNeeds needs;
    needs.budget_ms = options_.budget_ms;
    needs.sample_every_ms = options_.sample_every_ms;
    needs.sample_window_ms = options_.sample_window_ms;
    needs.has_findings = true;
    return needs;
  }

  Status Learn(Hearing& hearing) override {
    BlameIndex index;
    if (Status s = BlameIndex::Make(hearing.trace(), Until(&hearing), &index); !s.ok()) return s;
    learn_.most_per_cell = LearnOptions().most_per_cell;
    const Status status = LearnFrom(index, hearing, &regimes_, kLearnBudgetNs);
    SaveIfDue(kSaveNs);
    return status.ok() && hearing.BeginFindings() && usual_.IsSampleDue() ? NoteFindings(index, hearing) : status;
  }

  Status AddNorms(Trace* trace) override {
    const auto now_ns = static_cast<int64_t>(clock_());
    const uint64_t revision = baseline_.Revision(now_ns);
    if (norms_of_ == revision) return Status(StatusCode::kUnavailable, "nothing was learned since");
    const Status status = baseline_.AddNorms(now_ns, trace);
    if (status.ok()) norms_of_ = revision;
    return status;
  }

  Status Decide(Hearing& hearing) override {
    const Trace& trace = hearing.trace();
    Decided it;
    it.incident = std::string(trace.AttributeOf("incident.number"));
    Judgement& judgement = it.judgement;
    if (Status s = Begin(hearing, &judgement); !s.ok()) return s;
    Asked asked;
    Status judged = ChooseAsked(judgement.index, &asked);
    if (judged.ok()) judged = JudgeAsked(trace, asked, &baseline_, &judgement);
    if (!judged.ok()) it.html.why_not = judged.message();
    it.html.drifts = regimes_.Find();
    if (it.html.drifts.size() > kMostDrifts) it.html.drifts.resize(kMostDrifts);
    it.html.fired = FiredSentence(judgement.index, asked, judged.ok() ? &judgement : nullptr);
    it.html.is_about_latency = judged.ok() && IsAboutLatency(trace, asked, judgement.verdict);
    OpenReport(hearing, &it);
    if (Status s = Answer(hearing, asked, it); !s.ok()) return s;
    if (hearing.IsOver()) return Status();
    if (!hearing.CanFilesWait()) {
      if (Status s = WritePage(hearing, &it); !s.ok()) return s;
    }
    judgement.index = BlameIndex();  // the trace may move
    judgement.learned = Learned();
    if (decided_.size() == kMostDecided) decided_.erase(decided_.begin());
    decided_.push_back(std::move(it));
    return Status();
  }

  Status AddFindings(Hearing& hearing) override {
    const Trace& trace = hearing.trace();
    const std::string incident(trace.AttributeOf("incident.number"));
    const auto at = std::find_if(decided_.begin(), decided_.end(), [&](auto& it) { return it.incident == incident; });
    if (at == decided_.end()) return Status(StatusCode::kNotFound, "its verdict is not kept any more");
    Decided& it = *at;
    const Status status = AddFindingsTo(hearing, &it);
    it.judgement.index = BlameIndex();
    it.judgement.learned = Learned();
    it.html.analysis = nullptr;
    if (!hearing.IsOver()) decided_.erase(at);  // otherwise it may be asked again
    return status;
  }

 private:
  // The findings of a sample, by the built-in analyzers.
  Status NoteFindings(const BlameIndex& index, Hearing& hearing) {
    AnalysisReport analysis;
    AnalyzeOptions options;
    options.budget_ns = kSampleBudgetNs;
    options.is_over = IsHearingOver;
    options.is_over_context = &hearing;
    options.index = &index;
    const Trace& trace = hearing.trace();
    const Status status = Analyze(trace, catalogue_, options, &analysis);
    if (status.ok() && !hearing.IsOver()) usual_.Note({trace.window_begin_ns, trace.window_end_ns}, analysis);
    return status;
  }

  // A verdict without findings.
  struct Decided {
    std::string incident;  // its number
    Judgement judgement;
    HtmlReport html;
    OpeningLines lines;
    bool has_page = false;
    bool HasVerdict() const { return html.why_not.empty(); }
  };

  Status AddFindingsTo(Hearing& hearing, Decided* decided) {
    const Trace& trace = hearing.trace();
    Decided& it = *decided;
    Judgement& judgement = it.judgement;
    if (Status s = Begin(hearing, &judgement); !s.ok()) return s;
    if (!it.has_page) {
      if (Status s = WritePage(hearing, &it); !s.ok()) return s;
    }
    if (it.HasVerdict()) it.html.others = OthersThatFired(trace, &baseline_, &judgement);
    AnalysisReport analysis;
    AnalyzeOptions options;
    options.budget_ns = kAnalyzerBudgetNs;
    options.is_over = IsHearingOver;
    options.is_over_context = &hearing;
    options.index = &judgement.index;
    Status analyzed = Analyze(trace, analyzers_, options, &analysis);
    // With samples, which come at any time, an incident's window says nothing about a route as a whole.
    learn_.most_per_cell = kOfIncident;
    Regimes* const regimes = options_.sample_every_ms == 0 ? &regimes_ : nullptr;
    if (Status s = LearnFrom(judgement.index, hearing, regimes, kLearnBudgetNs); !s.ok()) wrong_ = s.message();
    SaveIfDue(0);
    if (!analyzed.ok()) return analyzed;
    usual_.Mark(&analysis);  // by samples alone: windows of incidents were chosen for being slow
    it.html.analysis = &analysis;
    OpenReport(hearing, &it);
    return WritePage(hearing, &it);
  }

  Status Begin(Hearing& hearing, Judgement* judgement) {
    if (known_.size() > most_known_) known_.clear();
    judgement->learned.known = &known_;
    return BlameIndex::Make(hearing.trace(), Until(&hearing), &judgement->index);
  }

  // Gives the signature, and the verdict for programs.
  Status Answer(Hearing& hearing, const Asked& asked, const Decided& it) const {
    const Trace& trace = hearing.trace();
    const Judgement& judgement = it.judgement;
    const Judgement* const judged = it.HasVerdict() ? &judgement : nullptr;
    if (judged == nullptr && it.html.fired.empty()) return Status();
    int64_t excess_ns = judgement.verdict.latency_ns - judgement.verdict.typical_ns;
    if (asked.event != model::kNone) excess_ns = trace.EventEnd(asked.event) - trace.events.begin_ns[asked.event];
    const std::string signature = Signature(judgement.index, asked, judged);
    hearing.SetSignature(signature.c_str(), excess_ns);
    const std::string verdict =
        FiredJson(judgement.index, asked, judged, it.html.why_not, it.html.drifts.data(), it.html.drifts.size());
    TextFile json("verdict.json", WithSignature(verdict, signature, excess_ns));
    const Status status = hearing.AddFile(json);
    return status.code() == StatusCode::kUnavailable ? Status() : status;
  }

  void OpenReport(Hearing& hearing, Decided* it) {
    const Judgement& of = it->judgement;
    if (it->HasVerdict()) it->html.judgement = &of;
    if (it->html.is_about_latency) it->lines.scopes = baseline_.scopes().Text(of.index, of.blame, of.verdict);
    if (!wrong_.empty()) it->lines.troubles += "baseline    " + std::exchange(wrong_, "") + "\n";
    hearing.OpenReport(OpeningText(hearing.trace(), it->html, it->lines).c_str());
    it->html.judgement = nullptr;
  }

  Status WritePage(Hearing& hearing, Decided* it) const {
    if (!options_.html) return Status();
    if (it->HasVerdict()) it->html.judgement = &it->judgement;
    TextFile page("report.html", ReportHtml(hearing.trace(), it->html));
    it->html.judgement = nullptr;
    const Status status = hearing.AddFile(page);
    it->has_page = it->has_page || status.ok() || !hearing.IsOver();
    return status.code() == StatusCode::kUnavailable ? Status() : status;
  }

  Status LearnFrom(const BlameIndex& index, Hearing& hearing, Regimes* regimes, int64_t budget_ns) {
    Learning learning{hearing, base::ClockNs(CLOCK_THREAD_CPUTIME_ID) + budget_ns};
    const Trace& trace = hearing.trace();
    LearnOptions options = learn_;
    options.is_over = Learning::IsOver;
    options.is_over_context = &learning;
    const std::vector<uint32_t> rows = FindOrdinary(trace, options);
    learn_.ended_after_ns = std::max(learn_.ended_after_ns, trace.window_end_ns);
    for (const uint32_t row : rows) {
      if (Learning::IsOver(&learning)) return Status();
      if (Status s = LearnRequest(index, row, &baseline_, regimes); !s.ok()) return hearing.IsOver() ? Status() : s;
    }
    const Status stays = LearnStays(index, options, &baseline_);
    return Learning::IsOver(&learning) ? Status() : stays;
  }

  void SaveIfDue(int64_t every_ns) {
    const auto now_ns = static_cast<int64_t>(clock_());
    if (file_.empty() || baseline_.size() == 0 || (saved_ns_ != 0 && now_ns - saved_ns_ < every_ns)) return;
    std::string bytes;
    Status status = baseline_.Save(&bytes);
    if (status.ok()) status = MayReplace(file_);
    if (status.ok()) status = WriteWhole(file_, bytes);
    saved_ns_ = now_ns;
    if (!status.ok()) wrong_ = status.message();
  }

  const WhyJudgeOptions options_;  // its string is the host's: file_ holds the copy
  const base::ClockFunction clock_;
  const std::string file_;
  std::vector<std::unique_ptr<Analyzer>> analyzers_;                          // the built-in ones, then the host's
  const std::vector<std::unique_ptr<Analyzer>> catalogue_ = MakeCatalogue();  // for samples
  UsualFindings usual_;
  LearnOptions learn_;
  Baseline baseline_;
  Regimes regimes_;
  std::vector<Decided> decided_;
  std::unordered_map<uint64_t, BaselineRow> known_;  // walks of incidents, by request
  size_t most_known_ = kMostKnown;
  std::string wrong_;                 // an error of the file; reported once
  std::optional<uint64_t> norms_of_;  // the baseline's revision at the last AddNorms
  int64_t saved_ns_ = 0;
};

}  // namespace

std::unique_ptr<Judge> MakeJudge(const WhyJudgeOptions& options, std::vector<std::unique_ptr<Analyzer>> analyzers,
                                 base::ClockFunction clock) noexcept {
  try {
    return std::make_unique<WhyJudge>(options, std::move(analyzers), clock);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace pitot::judge

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Judge> MakeWhyJudge(const WhyJudgeOptions& options,
                                    std::vector<std::unique_ptr<Analyzer>> analyzers) noexcept {
  return judge::MakeJudge(options, std::move(analyzers), base::MonotonicNs);
}

PITOT_NAMESPACE_END
