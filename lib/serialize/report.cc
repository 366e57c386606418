// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/report.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/appendix.h"
#include "base/causes.h"
#include "base/columns.h"
#include "base/quantile.h"
#include "model/flatten.h"
#include "model/lacking.h"
#include "model/losses.h"
#include "model/missing_call.h"
#include "model/moment.h"
#include "model/parts.h"
#include "model/recorded.h"
#include "model/request_text.h"
#include "pitot/model/index.h"
#include "pitot/model/trace.h"
#include "pitot/request.h"
#include "pitot/wait.h"
#include "serialize/report_gpu.h"
#include "serialize/report_host.h"
#include "serialize/report_usage.h"

namespace pitot::report {
namespace {

using base::Bytes;
using base::Count;
using base::Cut;
using base::DateTime;
using base::Duration;
using base::Format;
using base::Lines;
using base::Milliseconds;
using base::Number;
using base::PadLeft;
using base::PadRight;
using base::Plural;
using base::RequestId;
using model::Intervals;
using model::kNone;
using model::kOpen;
using model::RequestRow;
using model::StringId;
using model::Trace;

constexpr size_t kMaxSlow = 10;     // requests in full
constexpr size_t kMaxSlowest = 3;   // the same, if no request fired
constexpr size_t kMaxFront = 3;     // before the appendix
constexpr size_t kMaxThreads = 12;  // per request: its own threads
constexpr size_t kMaxBeside = 6;    // per request: other threads; after the first kDetailed requests kMaxBesideLater
constexpr size_t kMaxBesideLater = 1;
constexpr size_t kMaxAwaited = 6;  // per request
constexpr size_t kMaxLost = 4;     // per request
constexpr size_t kDetailed = 3;
constexpr size_t kMaxSites = 5;         // per thread
constexpr size_t kMaxScopes = 3;        // per thread
constexpr size_t kMaxWaits = 4;         // per thread
constexpr size_t kMaxWaitsForGpus = 3;  // per thread
constexpr size_t kMaxQueues = 6;        // per request
constexpr size_t kMaxBatches = 4;       // per request
constexpr size_t kMaxOthers = 10;       // other slow requests
constexpr size_t kMaxLosses = 20;
constexpr size_t kMaxOpenRequests = 5;
constexpr size_t kFewestTypical = 5;

struct StageTime {
  StringId name = 0;  // 0: before the first stage; kNone: an unnamed stage
  int64_t ns = 0;
};

// Times by stage, in the order of first appearance. They add up to the latency.
std::vector<StageTime> StageTimes(const Trace& trace, const RequestRow& request) {
  std::vector<StageTime> times;
  const int64_t end_ns = trace.RequestEnd(request);
  if (!request.stages.empty() && request.stages[0].begin_ns > request.begin_ns) {
    times.push_back({0, request.stages[0].begin_ns - request.begin_ns});
  }
  for (const model::Stage& stage : request.stages) {
    const int64_t ns = stage.duration_ns == kOpen ? end_ns - stage.begin_ns : stage.duration_ns;
    const StringId name = stage.name != 0 ? stage.name : kNone;
    const auto same = std::find_if(times.begin(), times.end(), [&](const StageTime& t) { return t.name == name; });
    if (same != times.end()) {
      same->ns += ns;
    } else {
      times.push_back({name, ns});
    }
  }
  return times;
}

// "+1.20 ms". Values that round to 0 have a plus.
std::string Difference(int64_t ns) { return (ns > -5000 ? "+" : "") + Milliseconds(ns > -5000 && ns < 0 ? 0 : ns); }

// Times and their rows.
using Ranking = std::vector<std::pair<int64_t, uint32_t>>;

std::vector<uint32_t> RowsOf(const Ranking& ranking) {
  std::vector<uint32_t> rows;
  for (const auto& [ns, row] : ranking) rows.push_back(row);
  return rows;
}

// One thread's part of a request's time.
struct ThreadWork {
  uint32_t thread = kNone;
  bool is_own = false;      // worked for the request or its batches
  bool is_awaited = false;  // such a thread waited for it to release or hand over something
  int64_t busy_ns = 0;
  int64_t waiting_ns = 0;
  Ranking sites;      // self time, an event of the site
  Ranking scopes;     // overlap, event
  Ranking waits;      // overlap, event
  Ranking gpu_waits;  // overlap, call
  std::vector<uint32_t> open;

  // The rows that it is shown with.
  using Key = std::tuple<uint32_t, std::vector<uint32_t>, std::vector<uint32_t>, std::vector<uint32_t>>;
  Key key() const { return {thread, RowsOf(scopes), RowsOf(waits), RowsOf(gpu_waits)}; }
};

// How much of a stretch lies in `set`. Stretches are asked about in order; `at` is the place in the set, the first time
// its begin.
int64_t OverlapNs(int64_t begin_ns, int64_t end_ns, const Intervals& set, Intervals::const_iterator* at) {
  int64_t ns = 0;
  for (; *at != set.end() && (*at)->begin_ns < end_ns; ++*at) {
    ns += std::max<int64_t>(0, std::min((*at)->end_ns, end_ns) - std::max((*at)->begin_ns, begin_ns));
    if ((*at)->end_ns > end_ns) break;
  }
  return ns;
}

// Adds to at most `most` rows, the largest first.
void Keep(Ranking* rows, size_t most, int64_t ns, uint32_t row) {
  const auto at = std::partition_point(rows->begin(), rows->end(), [&](const auto& other) {
    return other.first != ns ? other.first > ns : other.second < row;
  });
  if (at == rows->end() && rows->size() == most) return;
  rows->insert(at, {ns, row});
  if (rows->size() > most) rows->pop_back();
}

// How to lose less, by kind of loss. "" if no option helps.
const char* RemedyFor(model::LossReason reason) {
  switch (reason) {
    case model::LossReason::kOverwritten:
    case model::LossReason::kCopying:
      return "a larger Options::memory_budget_bytes, a quarter of which is for rings, up to max_grown_ring_bytes each";
    case model::LossReason::kReserve:
    case model::LossReason::kRefused:
    case model::LossReason::kRecycled:
    case model::LossReason::kOpenRequests:
      return "a larger Options::memory_budget_bytes";
    case model::LossReason::kDepth:
      return "no option: scopes nested more than 62 deep are not shown while open";
    case model::LossReason::kTooDeepToBegin:
      return "no option: BeginScope and NVTX record nothing within 62 open scopes";
    case model::LossReason::kClosedElsewhere:
      return "no option: use PITOT_ASYNC_SCOPE for scopes ending on another thread";
    case model::LossReason::kUnreadable:
    case model::LossReason::kDamaged:
      break;
  }
  return "";
}

class Writer {
 public:
  Writer(const Trace& trace, size_t columns)
      : trace_(trace),
        index_(trace),
        counters_(trace),
        waiting_(trace),
        gpu_(trace, index_),
        host_(trace),
        usage_(trace, index_, host_),
        lines_(columns) {
    for (uint32_t row = 0; row < trace.threads.size(); ++row) thread_rows_.emplace(trace.threads[row].number, row);
    FindReleases();
    FindSlow();
  }

  std::string Write() {
    Front();
    lines_.Blank();
    lines_.Add(0, std::string(base::kAppendix));
    AllFired();
    if (slow_.size() > kMaxFront) {
      lines_.Blank();
      lines_.Add(0, TitleOfSlow());
      Summary(slow_.size());
    }
    for (size_t i = 0; i < slow_.size(); ++i) SlowRequest(i);
    OtherSlow();
    gpu_.Write([this](int64_t begin_ns, int64_t end_ns) { return During(begin_ns, end_ns); }, &lines_);
    Host();
    StillOpen();
    Losses();
    MissingCalls();
    Attributes();
    Files();
    return lines_.text();
  }

 private:
  using Release = std::pair<int64_t, uint32_t>;  // time, event

  std::string_view Str(StringId id) const { return trace_.strings[id]; }
  // The name of a request that may be missing.
  std::string NameOf(uint64_t request) const {
    const uint32_t row = index_.Row(request);
    return row != kNone ? model::RequestName(trace_, row) : RequestId(request);
  }
  // False for an empty trace of other programs: it has neither time nor process, and no files next to it.
  bool IsRecorded() const { return HasDate(trace_) || trace_.pid != 0; }
  int64_t Realtime(int64_t ns) const { return ns - trace_.clock.monotonic_ns + trace_.clock.realtime_ns; }
  std::string At(int64_t ns) const { return model::MomentText(trace_, ns); }
  std::string Name(StringId id, const char* otherwise) const {
    return Str(id).empty() ? std::string(otherwise) : std::string(Str(id));
  }
  std::string ThreadName(uint32_t thread) const {
    if (thread >= trace_.threads.size()) return "unknown thread";
    return Name(trace_.threads[thread].name, "thread") + " #" + std::to_string(trace_.threads[thread].number);
  }
  std::string Route(const RequestRow& request) const { return Name(request.route, "(route unknown)"); }
  // Open requests count with their time so far.
  bool IsLatencyKnown(uint32_t row) const {
    return trace_.requests[row].end_known || trace_.requests[row].duration_ns == kOpen;
  }

  // The requests that fired. Without any, the slowest.
  void FindSlow() {
    std::unordered_set<uint64_t> seen;
    is_fired_row_.resize(trace_.requests.size());
    for (const model::FiringRow& firing : trace_.firings) {
      if (firing.request_id == 0 || !seen.insert(firing.request_id).second) continue;
      const uint32_t row = index_.Row(firing.request_id);
      if (row == kNone) {
        missing_.push_back(firing.request_id);
      } else {
        slow_.push_back(row);
        is_fired_row_[row] = true;
      }
    }
    if (IsEnd()) TakeOpen();
    is_fired_ = !slow_.empty();
    if (!is_fired_) {
      for (uint32_t row = 0; row < trace_.requests.size(); ++row) {
        if (trace_.requests[row].begin_known && IsLatencyKnown(row)) slow_.push_back(row);
      }
    }
    const size_t all = slow_.size(), kept = std::min(all, is_fired_ ? kMaxSlow : kMaxSlowest);
    std::partial_sort(slow_.begin(), slow_.begin() + static_cast<std::ptrdiff_t>(kept), slow_.end(),
                      [&](uint32_t a, uint32_t b) { return IsSlower(a, b); });
    slow_.resize(kept);
    for (const uint32_t row : slow_) stages_.push_back(StagesOf(row));
    left_out_ = is_fired_ ? all - kept : 0;
  }
  // An incident of a process that died or hung: what it was at is the matter, and not what was slow before.
  bool IsEnd() const {
    if (trace_.firings.empty()) return false;
    const std::string_view cause = Str(trace_.firings[0].cause);
    return cause == base::kPreviousLife || cause == base::kWedged;
  }
  // In place of the request that fired.
  void TakeOpen() {
    std::vector<uint32_t> open;
    for (uint32_t row = 0; row < trace_.requests.size(); ++row) {
      if (trace_.requests[row].duration_ns == kOpen) open.push_back(row);
    }
    are_open_ = !open.empty();
    if (!are_open_) return;
    slow_ = std::move(open);
    is_fired_row_.assign(trace_.requests.size(), false);
    for (const uint32_t row : slow_) is_fired_row_[row] = true;
  }
  int64_t Latency(uint32_t row) const {
    return trace_.RequestEnd(trace_.requests[row]) - trace_.requests[row].begin_ns;
  }
  bool IsSlower(uint32_t a, uint32_t b) const { return Latency(a) != Latency(b) ? Latency(a) > Latency(b) : a < b; }
  // Whether a request is shown as slow, or fired but was left out.
  bool IsSlow(uint32_t row) const {
    return is_fired_row_[row] || std::find(slow_.begin(), slow_.end(), row) != slow_.end();
  }

  // At most 20 lines, unless the detail is long.
  void Front() {
    Header();
    lines_.Blank();
    if (slow_.empty()) return lines_.Add(0, "There is no request in the window.");
    lines_.Add(0, TitleOfSlow() + (slow_.size() > kMaxFront ? Format(" (the first %zu of ", kMaxFront) +
                                                                  Count(slow_.size() + left_out_) + ")"
                                                            : ""));
    Summary(kMaxFront);
  }
  std::string TitleOfSlow() const {
    return are_open_          ? "REQUESTS THAT WERE OPEN, longest first"
           : is_fired_        ? "REQUESTS THAT FIRED, slowest first"
           : missing_.empty() ? "SLOWEST REQUESTS of the window (nothing fired on a request)"
                              : "SLOWEST REQUESTS of the window (nothing is left of those that fired)";
  }

  void Header() {
    const bool is_incident = !trace_.firings.empty();
    lines_.Add(0, is_incident ? "Pitot incident: " + Name(trace_.firings[0].cause, "(no cause)") : "Pitot report");
    if (is_incident && !Str(trace_.firings[0].detail).empty()) lines_.AddWrapped(2, "", Str(trace_.firings[0].detail));
    lines_.Blank();
    const int64_t at_ns = is_incident ? trace_.firings[0].at_ns : trace_.window_end_ns;
    if (IsRecorded()) {
      const bool has_date = HasDate(trace_);
      if (has_date) lines_.Add(2, "time       " + DateTime(Realtime(at_ns)));
      if (const model::Parts parts(trace_); parts.is_joined()) {
        lines_.AddWrapped(2, "files      ", Count(parts.size()) + ", joined by their clocks: " + parts.FormatsText());
        lines_.AddWrapped(2, "processes  ", parts.ProcessesText());
      } else {
        lines_.Add(2, "process    " + Name(trace_.process_name, "(unnamed)") +
                          Format(" (pid %lld)", static_cast<long long>(trace_.pid)));
      }
      lines_.Add(2, "window     " + Duration(trace_.window_end_ns - trace_.window_begin_ns) +
                        (has_date ? ", " + At(trace_.window_begin_ns) + " to " + At(trace_.window_end_ns) : ""));
    }
    lines_.Add(2, "holds      " + Plural(trace_.events.size(), "event") + " of " +
                      Plural(trace_.threads.size(), "thread") + ", " + Plural(trace_.requests.size(), "request") +
                      ", " + Count(trace_.batches.size()) + (trace_.batches.size() == 1 ? " batch" : " batches") +
                      (trace_.gpu.size() == 0 ? "" : ", " + Plural(trace_.gpu.size(), "GPU record")));
    FirstFired();
    if (const std::string_view thread = trace_.AttributeOf(base::kIncidentThread); !thread.empty())
      lines_.AddWrapped(2, "thread     ", thread);
    if (const size_t others = AsSlow().size(); others != 0)
      lines_.Add(2, "as slow    " + Plural(others, "request") + " that did not fire");
    if (const auto [scopes, requests] = OpenAtEnd(); scopes + requests != 0)
      lines_.Add(2, "still open " + Plural(scopes, "scope") + ", " + Plural(requests, "request"));
    lines_.Add(2, "lost       " + LostText());
    if (const std::string why = model::WhyNoKernels(trace_); !why.empty()) lines_.Add(2, "unrecorded kernels: " + why);
  }

  // The first one, and the number of others and of requests that are not in the trace.
  void FirstFired() {
    if (trace_.firings.empty()) return;
    const std::vector<Fired> fired = FiredTogether();
    const size_t others = fired.size() - 1 + FiringsUnlisted();
    lines_.Add(2, "fired      " + FiredText(fired[0]) + (others != 0 ? ", and " + Count(others) + " more" : ""));
    if (!missing_.empty())
      lines_.Add(2, "missing    request " + RequestId(missing_[0]) + " fired, but is not in the trace" +
                        (missing_.size() > 1 ? "; and " + Count(missing_.size() - 1) + " more" : ""));
  }

  void AllFired() {
    const std::vector<Fired> fired = FiredTogether();
    const uint64_t unlisted = FiringsUnlisted();
    if (fired.size() + unlisted + missing_.size() + left_out_ < 2) return;
    lines_.Blank();
    lines_.Add(0, "FIRED");
    lines_.Blank();
    for (size_t i = 0; i < fired.size() && i < kMaxSlow; ++i) lines_.AddWrapped(3, "", FiredText(fired[i]));
    if (fired.size() > kMaxSlow) lines_.Add(3, "and " + Count(fired.size() - kMaxSlow) + " more");
    if (unlisted != 0)
      lines_.Add(3, "and " + Count(unlisted) + " after the first " + Count(trace_.firings.size()) + ", not listed");
    if (left_out_ > 0)
      lines_.Add(3, Count(left_out_) +
                        (are_open_ ? " requests that were open for less time" : " faster requests that fired") +
                        " are not shown");
    for (size_t i = 0; i < missing_.size() && i < kMaxSlow; ++i)
      lines_.Add(3, "request " + RequestId(missing_[i]) + " fired, but is not in the trace");
    if (missing_.size() > kMaxSlow) lines_.Add(3, "and " + Count(missing_.size() - kMaxSlow) + " more");
  }

  // From the recorder's attributes.
  uint64_t FiringsUnlisted() const {
    return std::strtoull(std::string(trace_.AttributeOf("incident.firings_unlisted")).c_str(), nullptr, 10);
  }

  // Firings of one cause on one request, or of one cause and detail without a request.
  struct Fired {
    const model::FiringRow* first;
    uint64_t count;
  };
  std::vector<Fired> FiredTogether() const {
    std::vector<Fired> fired;
    std::map<std::tuple<StringId, uint64_t, StringId>, size_t> known;
    for (const model::FiringRow& firing : trace_.firings) {
      const StringId of_none = firing.request_id == 0 ? firing.detail : 0;
      const auto [at, is_new] = known.try_emplace({firing.cause, firing.request_id, of_none}, fired.size());
      if (is_new) fired.push_back({&firing, 0});
      ++fired[at->second].count;
    }
    return fired;
  }

  // Its detail is in the second line, and those that go on from it.
  bool IsHeadline(const Fired& fired) const { return fired.first == trace_.firings.data(); }
  // "02:31:16.775  latency /classify  request 0000000000008f0c  (4 times)".
  std::string FiredText(const Fired& fired) const {
    const model::FiringRow& firing = *fired.first;
    std::string text = At(firing.at_ns) + "  " + std::string(Str(firing.cause));
    if (firing.request_id != 0)
      text += "  request " + Cut(NameOf(firing.request_id), 40);
    else if (!IsHeadline(fired) && !Str(firing.detail).empty())
      text += ": " + std::string(Str(firing.detail));
    if (fired.count > 1) text += "  (" + Count(fired.count) + " times)";
    return text;
  }

  // Adds a line, unless the report has it already.
  void AddOnce(size_t indent, const std::string& text) {
    if (said_.insert(text).second) lines_.Add(indent, text);
  }

  // One line for each of the first slow requests.
  void Summary(size_t most) {
    lines_.Add(3, PadLeft("time", 9) + PadLeft("median", 9) + "  " + PadRight("largest difference", 26) + "  " +
                      PadRight("outcome", 11) + "  " + PadRight("request", 16) + "  route");
    for (size_t i = 0; i < slow_.size() && i < most; ++i) {
      const RequestRow& request = trace_.requests[slow_[i]];
      const StageTable& stages = stages_[i];
      const StageTable::Line& whole = stages.lines.back();
      std::string difference = "-";
      if (stages.largest < stages.lines.size()) {
        const StageTable::Line& stage = stages.lines[stages.largest];
        const std::string by = " +" + Duration(stage.ns - stage.typical_ns);
        difference = Cut(stage.name, 26 - by.size()) + by;
      }
      lines_.Add(0, PadRight(std::to_string(i + 1) + ")", 3) + PadLeft(Duration(whole.ns), 9) +
                        PadLeft(whole.is_known ? Duration(whole.typical_ns) : "unknown", 9) + "  " +
                        PadRight(difference, 26) + "  " + PadRight(model::OutcomeText(request), 11) + "  " +
                        PadRight(Cut(model::RequestName(trace_, request), 16), 16) + "  " + Cut(Route(request), 18));
    }
  }

  void SlowRequest(size_t number) {
    const uint32_t row = slow_[number];
    const RequestRow& request = trace_.requests[row];
    lines_.Blank();
    lines_.Add(0, Format("%zu) ", number + 1) + Duration(Latency(row)) +
                      (request.duration_ns == kOpen ? " so far  " : "  ") + Cut(Route(request), 40) + "  " +
                      model::OutcomeText(request) + "  request " + Cut(model::RequestName(trace_, request), 40));
    lines_.Blank();
    Facts(request);
    Queues(row);
    Asyncs(row);
    Batches(row);
    if (const std::string gpu = gpu_.OfRequest(row); !gpu.empty()) lines_.AddWrapped(3, "gpu        ", gpu);
    if (const std::string parts = gpu_.PartsOf(row); !parts.empty()) lines_.AddWrapped(3, "host, GPU  ", parts);
    if (const std::string operators = gpu_.OperatorsOf(row); !operators.empty())
      lines_.AddWrapped(3, "operators  ", operators);
    if (const std::string memory = MemoryOf(row); !memory.empty()) lines_.AddWrapped(3, "memory     ", memory);
    const std::vector<ThreadWork> works = WorksOf(row);
    lines_.AddWrapped(3, "usage      ", usage_.Of(row, OwnThreads(row, works)));
    Stages(number);
    Threads(number, works, number < kDetailed ? kMaxBeside : kMaxBesideLater);
  }

  // The peak memory of allocators while the request was in work.
  std::string MemoryOf(uint32_t request) const {
    std::string text;
    for (const model::MemoryPeak& peak : model::MemoryPeaksOf(trace_, index_, counters_, request)) {
      const model::CounterRow& counter = trace_.counters[peak.counter];
      if (!text.empty()) text += "; ";
      text += "at most " + Bytes(peak.most_bytes) + " " + std::string(Str(counter.name));
      if (counter.device != kNone) text += Format(" on GPU %u", trace_.devices[counter.device].ordinal);
      text += " while it was worked on, " + Bytes(peak.before_bytes) + " at the start";
    }
    return text;
  }

  void Facts(const RequestRow& request) {
    for (const Fired& fired : FiredTogether()) {
      if (fired.first->request_id != request.id || (IsHeadline(fired) && fired.count == 1)) continue;
      std::string text = std::string(Str(fired.first->cause)) + ": " + std::string(Str(fired.first->detail));
      if (fired.count > 1) text += " (and " + base::Plural(fired.count - 1, "more time") + ")";
      lines_.AddWrapped(3, "fired      ", text);
    }
    std::string when = "arrived    " + At(request.begin_ns);
    if (!request.begin_known) when += " or before (its begin is not in the window)";
    if (request.begin_thread != kNone) when += " on " + ThreadName(request.begin_thread);
    if (request.end_thread != kNone) when += ", ended on " + ThreadName(request.end_thread);
    lines_.Add(3, when);
    if (request.host_id != 0)
      lines_.AddWrapped(3, "id         ",
                        std::string(Str(request.host_id)) + " (Pitot's: " + RequestId(request.id) + ")");
    if (request.reason != 0) lines_.AddWrapped(3, "reason     ", std::string(Str(request.reason)));
    SizesAndLabels(request);
    if ((request.trace_id_high | request.trace_id_low) != 0) {
      lines_.Add(3, "trace id   " + RequestId(request.trace_id_high) + RequestId(request.trace_id_low));
    }
    if (request.parent_id != 0) lines_.Add(3, "part of    request " + Cut(NameOf(request.parent_id), 64));
    if (request.deadline_ns != 0) lines_.Add(3, "deadline   " + Duration(request.deadline_ns) + " after arrival");
    if (request.output_tokens != 0) {
      lines_.Add(3, "tokens     " + Count(request.output_tokens) + ", the first after " +
                        Duration(request.first_token_ns) + ", longest gap " + Duration(request.max_token_gap_ns));
    }
  }

  void SizesAndLabels(const RequestRow& request) {
    std::string sizes, labels;
    for (const model::Size& size : request.sizes) {
      sizes += (sizes.empty() ? "" : ", ") + std::string(Str(size.name)) + " " + Number(size.value);
    }
    for (const model::Label& label : request.labels) {
      labels += (labels.empty() ? "" : ", ") + std::string(Str(label.key)) + "=" + std::string(Str(label.value));
    }
    if (!sizes.empty()) lines_.AddWrapped(3, "sizes      ", sizes);
    if (!labels.empty()) lines_.AddWrapped(3, "labels     ", labels);
  }

  void Queues(uint32_t row) {
    const RequestRow& request = trace_.requests[row];
    const auto handoffs = index_.Handoffs(row);
    int64_t all_ns = 0;
    Ranking longest;
    for (const uint32_t handoff_row : handoffs) {
      const model::HandoffRow& handoff = trace_.handoffs[handoff_row];
      // If the request ended, it was taken and the record of that is lost.
      const int64_t until_ns = handoff.take_ns != 0 ? handoff.take_ns
                               : request.end_known  ? handoff.enqueue_ns
                                                    : std::max(trace_.RequestEnd(request), handoff.enqueue_ns);
      const int64_t ns = until_ns - handoff.enqueue_ns;
      all_ns += ns;
      Keep(&longest, kMaxQueues, ns, handoff_row);
    }
    std::sort(longest.begin(), longest.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    for (const auto& [ns, handoff_row] : longest) {
      const model::HandoffRow& handoff = trace_.handoffs[handoff_row];
      std::string text = Cut(Name(handoff.queue, "(unnamed)"), 24) + ": ";
      text += handoff.take_ns != 0 ? Duration(ns)
              : request.end_known  ? std::string("the time it was taken is lost")
                                   : "not taken yet, " + Duration(ns) + " so far";
      text += ", from " + Offset(handoff.enqueue_ns, request) + " (" + ThreadName(handoff.from_thread);
      if (handoff.to_thread != kNone) text += " to " + ThreadName(handoff.to_thread);
      lines_.AddWrapped(3, "queue      ", text + ")");
    }
    if (handoffs.size() > kMaxQueues) {
      lines_.Add(3, "           the longest of " + Count(handoffs.size()) + " waits in queues, " + Duration(all_ns) +
                        " altogether");
    }
  }

  void Batches(uint32_t row) {
    const RequestRow& request = trace_.requests[row];
    const auto batches = index_.Batches(row);
    int64_t all_ns = 0;
    Ranking longest;
    for (const uint32_t batch_row : batches) {
      const model::BatchRow& batch = trace_.batches[batch_row];
      const int64_t ns = trace_.BatchEnd(batch) - batch.begin_ns;
      all_ns += ns;
      Keep(&longest, kMaxBatches, ns, batch_row);
    }
    for (const auto& [ns, batch_row] : longest) {
      const model::BatchRow& batch = trace_.batches[batch_row];
      std::string text = Cut(Name(batch.executor, "(unnamed)"), 24) + ": " + Plural(batch.member_count, "member") +
                         ", " + Duration(ns) + (batch.duration_ns == kOpen ? " so far" : "") + " from ";
      text += Offset(batch.begin_ns, request);
      if (batch.submitted_ns != 0) text += ", launched within " + Duration(batch.submitted_ns);
      if (batch.close != 0) text += std::string(", closed: ") + BatchCloseName(static_cast<BatchClose>(batch.close));
      if (batch.thread != kNone) text += ", on " + ThreadName(batch.thread);
      lines_.AddWrapped(3, "batch      ", text);
    }
    if (batches.size() > kMaxBatches) {
      lines_.Add(
          3, "           the longest of " + Count(batches.size()) + " batches, " + Duration(all_ns) + " altogether");
    }
  }

  // The request's longest parts outside of threads.
  void Asyncs(uint32_t row) {
    Ranking longest;
    for (const uint32_t async : index_.Asyncs(row)) {
      const model::AsyncRow& of = trace_.asyncs[async];
      Keep(&longest, kMaxScopes, of.duration_ns == kOpen ? trace_.window_end_ns - of.begin_ns : of.duration_ns, async);
    }
    for (const auto& [ns, async] : longest) {
      const model::AsyncRow& of = trace_.asyncs[async];
      lines_.Add(3, "async      " + Cut(Str(trace_.sites[of.site].name), 40) + ": " + Duration(ns) +
                        (of.duration_ns == kOpen ? " so far" : "") + " from " +
                        Offset(of.begin_ns, trace_.requests[row]));
    }
  }

  // Requests of the same route that finished ok, without the slow ones; only those of its size if there are enough.
  std::vector<uint32_t> Typical(const RequestRow& request, bool* is_of_its_size) const {
    std::vector<uint32_t> same_size, same_route;
    for (uint32_t row = 0; row < trace_.requests.size(); ++row) {
      const RequestRow& other = trace_.requests[row];
      if (other.route != request.route || !other.begin_known || !other.end_known || other.duration_ns == kOpen ||
          other.outcome != Outcome::kOk || IsSlow(row)) {
        continue;
      }
      same_route.push_back(row);
      if (other.size_bucket == request.size_bucket) same_size.push_back(row);
    }
    *is_of_its_size = same_size.size() >= kFewestTypical;
    return *is_of_its_size ? same_size : same_route;
  }

  // A request's stages compared with those of typical requests. The last line is the whole request.
  struct StageTable {
    struct Line {
      std::string name;
      int64_t ns;
      int64_t typical_ns;
      bool is_known;
    };
    std::vector<Line> lines;
    size_t largest = 0;  // line with the largest difference; lines.size(): none
    size_t typical = 0;  // number of requests behind the median `typical_ns`
    bool is_of_its_size = false;
    bool has_rare = false;  // has a stage of less than half of them, whose typical time is 0
  };

  StageTable StagesOf(uint32_t row) const {
    const RequestRow& request = trace_.requests[row];
    StageTable stages;
    const std::vector<uint32_t> typical = Typical(request, &stages.is_of_its_size);
    stages.typical = typical.size();
    const bool is_known = typical.size() >= kFewestTypical;
    std::map<StringId, std::vector<int64_t>> typical_stages;
    std::vector<int64_t> typical_latencies;
    for (const uint32_t other : typical) {
      typical_latencies.push_back(Latency(other));
      for (const StageTime& time : StageTimes(trace_, trace_.requests[other]))
        typical_stages[time.name].push_back(time.ns);
    }

    std::vector<StageTable::Line>& table = stages.lines;
    for (const StageTime& time : StageTimes(trace_, request)) {
      const std::vector<int64_t>& others = typical_stages[time.name];
      const bool is_rare = is_known && 2 * others.size() < typical.size();
      stages.has_rare |= is_rare;
      table.push_back({time.name == 0 ? "(before the first stage)" : Name(time.name, "(unnamed)"), time.ns,
                       is_known && !is_rare ? base::Median(others) : 0, is_known});
    }
    // Differences below a hundredth of the request are ignored.
    const auto excess = [&](size_t at) { return table[at].ns - table[at].typical_ns; };
    size_t largest = table.size() + 1;
    for (size_t i = 0; i < table.size(); ++i) {
      if (table[i].is_known && excess(i) > Latency(row) / 100 &&
          (largest > table.size() || excess(i) > excess(largest)))
        largest = i;
    }
    table.push_back({"whole request", Latency(row), is_known ? base::Median(typical_latencies) : 0, is_known});
    stages.largest = largest;
    return stages;
  }

  void Stages(size_t number) {
    const StageTable& stages = stages_[number];
    lines_.Blank();
    lines_.Add(3, PadRight("stage", 34) + PadLeft("time", 14) + PadLeft("median", 14) + PadLeft("difference", 14));
    for (size_t i = 0; i < stages.lines.size(); ++i) {
      const StageTable::Line& line = stages.lines[i];
      const int64_t difference_ns = line.ns - line.typical_ns;
      std::string text = PadRight(line.name, 34) + PadLeft(Milliseconds(line.ns), 14) +
                         PadLeft(line.is_known ? Milliseconds(line.typical_ns) : "-", 14) +
                         PadLeft(line.is_known ? Difference(difference_ns) : "-", 14);
      if (i == stages.largest) text += "  <-- largest";
      lines_.Add(3, text);
    }
    AddOnce(3, "median of this window: " + PopulationOf(number));
    if (stages.has_rare) AddOnce(3, "0.00 ms for a stage in fewer than half of them");
  }

  // The requests behind the medians.
  std::string PopulationOf(size_t number) const {
    const StageTable& stages = stages_[number];
    const std::string requests = Plural(stages.typical, "ok request") + " of the same route";
    if (!stages.lines.back().is_known) return "unknown, only " + requests + " besides those shown here";
    if (!stages.is_of_its_size) return requests + ", any size";
    return requests + (trace_.requests[slow_[number]].size_bucket != 0 ? " and size" : "");
  }

  ThreadWork WorkOf(uint32_t thread, uint32_t row, const std::vector<bool>& is_its_batch) const {
    ThreadWork work;
    work.thread = thread;
    DivideTime(row, FindGpuWaits(row, is_its_batch, &work), &work);
    FindScopes(row, is_its_batch, &work);
    return work;
  }

  // When the thread waited for GPUs in the request's time.
  Intervals FindGpuWaits(uint32_t row, const std::vector<bool>& is_its_batch, ThreadWork* work) const {
    const int64_t begin_ns = trace_.requests[row].begin_ns, end_ns = trace_.RequestEnd(trace_.requests[row]);
    const model::CallColumns& calls = trace_.calls;
    const auto [first, last] = std::equal_range(calls.thread.begin(), calls.thread.end(), work->thread);
    std::vector<model::Interval> waits;
    for (auto of = first; of != last; ++of) {
      const auto call = static_cast<uint32_t>(of - calls.thread.begin());
      if (calls.begin_ns[call] >= end_ns) break;  // calls are sorted by begin
      const model::Interval part{std::max(calls.begin_ns[call], begin_ns), std::min(trace_.CallEnd(call), end_ns)};
      if (!waiting_.Has(call) || part.end_ns <= part.begin_ns) continue;
      waits.push_back(part);
      Keep(&work->gpu_waits, kMaxWaitsForGpus, part.end_ns - part.begin_ns, call);
      work->is_own |= calls.request[call] == row || (calls.batch[call] != kNone && is_its_batch[calls.batch[call]]);
    }
    return model::Union(std::move(waits));
  }

  // Divides the thread's part of the request's time: work of its own in each scope, and waits.
  void DivideTime(uint32_t row, const Intervals& gpu_waits, ThreadWork* work) const {
    const int64_t begin_ns = trace_.requests[row].begin_ns, end_ns = trace_.RequestEnd(trace_.requests[row]);
    work->waiting_ns = model::TotalNs(gpu_waits);
    auto gpu_wait = gpu_waits.begin();
    std::map<std::pair<uint32_t, StringId>, std::pair<int64_t, uint32_t>> by_site;
    model::VisitSegments(trace_, work->thread, {begin_ns, end_ns}, [&](const model::Segment& segment) {
      const int64_t ns =
          segment.end_ns - segment.begin_ns - OverlapNs(segment.begin_ns, segment.end_ns, gpu_waits, &gpu_wait);
      const model::SiteRow& site = trace_.sites[trace_.events.site[segment.event]];
      if (site.kind == SiteKind::kWait) {
        work->waiting_ns += ns;
        return;
      }
      work->busy_ns += ns;
      const uint32_t args = trace_.events.args[segment.event];
      const StringId named =
          site.name_is_first_arg && args != kNone ? static_cast<StringId>(trace_.arg_values[args]) : 0;
      auto& self = by_site[{trace_.events.site[segment.event], named}];
      self.first += ns;
      self.second = segment.event;
    });
    for (const auto& [site, self] : by_site) Keep(&work->sites, kMaxSites, self.first, self.second);
  }

  // Finds the longest scopes and waits, and those still open.
  void FindScopes(uint32_t row, const std::vector<bool>& is_its_batch, ThreadWork* work) const {
    const int64_t begin_ns = trace_.requests[row].begin_ns, end_ns = trace_.RequestEnd(trace_.requests[row]);
    const model::ThreadRow& of = trace_.threads[work->thread];
    for (uint32_t event = of.first_event; event < of.first_event + of.event_count; ++event) {
      if (trace_.events.begin_ns[event] >= end_ns) break;  // events are sorted by begin
      const SiteKind kind = trace_.sites[trace_.events.site[event]].kind;
      if (!model::IsScope(kind)) continue;
      const int64_t ns = std::min(trace_.EventEnd(event), end_ns) - std::max(trace_.events.begin_ns[event], begin_ns);
      if (ns <= 0) continue;
      if (kind == SiteKind::kWait)
        Keep(&work->waits, kMaxWaits, ns, event);
      else
        Keep(&work->scopes, kMaxScopes, ns, event);
      if (trace_.events.duration_ns[event] == kOpen) work->open.push_back(event);
      const uint32_t batch = trace_.events.batch[event];
      work->is_own |= trace_.events.request[event] == row || (batch != kNone && is_its_batch[batch]);
    }
  }

  // The threads where it began, was taken, ran in batches and ended: its own even without scopes in its context. A
  // scope that ends after the request has lost the context.
  std::set<uint32_t> ThreadsOf(uint32_t row) const {
    const RequestRow& request = trace_.requests[row];
    std::set<uint32_t> threads{request.begin_thread, request.end_thread};
    for (const uint32_t batch : index_.Batches(row)) threads.insert(trace_.batches[batch].thread);
    for (const uint32_t handoff : index_.Handoffs(row)) threads.insert(trace_.handoffs[handoff].to_thread);
    threads.erase(kNone);
    return threads;
  }
  std::set<uint32_t> OwnThreads(uint32_t row, const std::vector<ThreadWork>& works) const {
    std::set<uint32_t> threads = ThreadsOf(row);
    for (const ThreadWork& work : works) {
      if (work.is_own) threads.insert(work.thread);
    }
    return threads;
  }

  // The threads with scopes, or waits for GPUs, in the request's time: its own first, then those it waited for.
  std::vector<ThreadWork> WorksOf(uint32_t row) const {
    std::vector<ThreadWork> works;
    std::vector<bool> is_its_batch(trace_.batches.size());
    for (const uint32_t batch : index_.Batches(row)) is_its_batch[batch] = true;
    const std::set<uint32_t> own_threads = ThreadsOf(row);
    std::set<uint32_t> awaited;
    for (uint32_t thread = 0; thread < trace_.threads.size(); ++thread) {
      ThreadWork work = WorkOf(thread, row, is_its_batch);
      work.is_own |= own_threads.count(thread) != 0;
      if (work.is_own) AddAwaited(work, &awaited);
      if (work.busy_ns + work.waiting_ns > 0 || !work.open.empty()) works.push_back(std::move(work));
    }
    for (ThreadWork& work : works) work.is_awaited = !work.is_own && awaited.count(work.thread) != 0;
    std::stable_sort(works.begin(), works.end(), [](const ThreadWork& a, const ThreadWork& b) {
      const auto rank = [](const ThreadWork& work) { return work.is_own ? 0 : work.is_awaited ? 1 : 2; };
      return rank(a) != rank(b) ? rank(a) < rank(b) : a.busy_ns + a.waiting_ns > b.busy_ns + b.waiting_ns;
    });
    return works;
  }

  // The request's own threads, and `most_beside` others.
  void Threads(size_t number, const std::vector<ThreadWork>& works, size_t most_beside) {
    const RequestRow& request = trace_.requests[slow_[number]];
    lines_.Blank();
    if (works.empty()) {
      lines_.Add(3, "the trace has no scope of any thread at that time");
      return LostMeanwhile(request);
    }
    const bool is_first = said_.insert("all threads").second;
    lines_.Add(3, std::string("all threads at that time") +
                      (is_first ? ": * worked for it, > held or handed over a resource those waited for" : ""));
    size_t own = 0, held = 0, beside = 0;
    std::vector<const ThreadWork*> left_out;
    std::map<size_t, std::string> shown_above;  // names, by request
    for (const ThreadWork& work : works) {
      const bool is_shown = work.is_own       ? own++ < kMaxThreads
                            : work.is_awaited ? held++ < kMaxAwaited
                                              : beside++ < most_beside;
      if (!is_shown) {
        left_out.push_back(&work);
        continue;
      }
      const auto [shown, is_new] = shown_.try_emplace(work.key(), number);
      if (work.is_own || work.is_awaited || is_new) {
        Thread(work, request);
      } else {
        std::string& names = shown_above[shown->second];
        names += (names.empty() ? "" : ", ") + ThreadName(work.thread);
      }
    }
    for (const auto& [above, names] : shown_above) lines_.AddWrapped(5, Format("as under %zu): ", above + 1), names);
    LeftOut(left_out);
    const size_t idle = trace_.threads.size() - works.size();
    if (idle > 0) lines_.Add(3, "  " + Plural(idle, "thread") + (idle == 1 ? " was" : " were") + " in no scope");
    LostMeanwhile(request);
  }

  void LeftOut(const std::vector<const ThreadWork*>& works) {
    if (works.empty()) return;
    int64_t busy_ns = 0, waiting_ns = 0;
    for (const ThreadWork* work : works) busy_ns += work->busy_ns, waiting_ns += work->waiting_ns;
    lines_.Add(3, "  and " + Plural(works.size(), "thread") + " more, in scopes " + Duration(busy_ns) + ", waiting " +
                      Duration(waiting_ns));
  }

  // The arguments of a wait; nullopt if it has none.
  struct WaitArgs {
    WaitKind kind;
    StringId resource;
    uint64_t thread, request;    // the owner's; 0: unknown
    uint64_t spurious;           // wake-ups in vain
    uint32_t owner_row = kNone;  // of `thread`, if it is in the trace
  };
  std::optional<WaitArgs> ArgsOfWait(uint32_t event) const {
    const uint32_t args = trace_.events.args[event];
    const size_t count = trace_.sites[trace_.events.site[event]].arg_types.size();
    if (args == kNone || count < 4) return std::nullopt;
    const model::ArgValue* const values = &trace_.arg_values[args];
    WaitArgs wait{static_cast<WaitKind>(values[0]), static_cast<StringId>(values[1]), values[2], values[3],
                  count > 4 ? values[4] : 0};
    const auto owner = thread_rows_.find(wait.thread);
    if (wait.thread != 0 && owner != thread_rows_.end()) wait.owner_row = owner->second;
    return wait;
  }

  // The threads that held or handed over the things `work` waited for.
  void AddAwaited(const ThreadWork& work, std::set<uint32_t>* threads) const {
    for (const auto& [ns, event] : work.waits) {
      const std::optional<WaitArgs> wait = ArgsOfWait(event);
      if (!wait) continue;
      if (wait->owner_row != kNone) threads->insert(wait->owner_row);
      if (wait->kind != WaitKind::kLock) continue;
      for (const auto& [at_ns, release] :
           ReleasesWithin(wait->resource, trace_.events.begin_ns[event], trace_.EventEnd(event)))
        threads->insert(trace_.events.thread[release]);
    }
  }

  // Threads with losses during the request.
  void LostMeanwhile(const RequestRow& request) {
    std::set<uint32_t> threads;
    std::set<std::string> of_process;
    for (const model::LossRow& loss : trace_.losses) {
      if (loss.begin_ns >= trace_.RequestEnd(request) || loss.end_ns <= request.begin_ns) continue;
      if (loss.thread != kNone)
        threads.insert(loss.thread);
      else if (loss.reason != model::LossReason::kOpenRequests)
        of_process.insert(model::LossReasonName(loss.reason));
    }
    for (const std::string& reason : of_process)
      lines_.AddWrapped(3, "  ", "events of any thread from that time may be lost: " + reason + " (see LOST)");
    if (threads.empty()) return;
    std::string text;
    size_t named = 0;
    for (const uint32_t thread : threads) {
      if (named++ < kMaxLost) text += (text.empty() ? "" : ", ") + ThreadName(thread);
    }
    if (threads.size() > kMaxLost) text += " and " + Count(threads.size() - kMaxLost) + " more";
    lines_.AddWrapped(3, "  ", "events from that time were lost on " + text + " (see LOST)");
  }

  // "+3.00 ms" after the request's arrival. Negative if its record is older than its known begin.
  static std::string Offset(int64_t at_ns, const RequestRow& request) {
    return (at_ns < request.begin_ns ? "" : "+") + Duration(at_ns - request.begin_ns);
  }
  static std::string At(int64_t begin_ns, const RequestRow& request) {
    const int64_t after_ns = begin_ns - request.begin_ns;
    return after_ns >= 0 ? " at +" + Duration(after_ns) : ", begun " + Duration(-after_ns) + " before";
  }

  void Thread(const ThreadWork& work, const RequestRow& request) {
    std::string head = (work.is_own ? "* " : work.is_awaited ? "> " : "  ") + ThreadName(work.thread);
    head += ": in scopes " + Duration(work.busy_ns) + ", waiting " + Duration(work.waiting_ns);
    lines_.Add(3, head);
    std::string text;
    for (const auto& [ns, event] : IsFlat(work) ? Ranking() : work.sites) {
      text += (text.empty() ? "" : ", ") + Cut(trace_.EventName(event), 40) + " " + Duration(ns);
    }
    if (!text.empty()) lines_.AddWrapped(7, "self       ", text);
    text.clear();
    for (const auto& [ns, event] : work.scopes) {
      text += (text.empty() ? "" : ", ") + Cut(trace_.EventName(event), 40) + " " +
              Duration(trace_.EventEnd(event) - trace_.events.begin_ns[event]) +
              (trace_.events.duration_ns[event] == kOpen ? " so far" : "") + At(trace_.events.begin_ns[event], request);
    }
    if (!text.empty()) lines_.AddWrapped(7, "longest    ", text);
    for (const auto& [ns, event] : work.waits) {
      lines_.AddWrapped(7, "waited     ",
                        Duration(ns) + " for " + WaitText(event) + At(trace_.events.begin_ns[event], request) +
                            Holders(event, request) +
                            (trace_.events.duration_ns[event] == kOpen ? ", and is still waiting" : ""));
    }
    text.clear();
    for (const auto& [ns, call] : work.gpu_waits) {
      text += (text.empty() ? "for GPUs: " : ", ") + Cut(Str(trace_.calls.name[call]), 40) + " " + Duration(ns) +
              (trace_.calls.duration_ns[call] == kOpen ? " so far" : "") + At(trace_.calls.begin_ns[call], request);
    }
    if (!text.empty()) lines_.AddWrapped(7, "waited     ", text);
    if (const std::string open = OpenText(work); !open.empty()) lines_.AddWrapped(7, "still open ", open);
  }

  // Whether its longest scopes are all of its scopes, and each of them is whole and has no other in it: self times
  // would say the same.
  bool IsFlat(const ThreadWork& work) const {
    return work.sites.size() == work.scopes.size() &&
           std::all_of(work.scopes.begin(), work.scopes.end(), [&](const auto& scope) {
             return scope.first == trace_.EventEnd(scope.second) - trace_.events.begin_ns[scope.second] &&
                    std::find(work.sites.begin(), work.sites.end(), scope) != work.sites.end();
           });
  }

  // Its open scopes and waits, without those shown above.
  std::string OpenText(const ThreadWork& work) const {
    std::string text;
    for (const uint32_t event : work.open) {
      const auto is_it = [event](const auto& shown) { return shown.second == event; };
      if (std::any_of(work.waits.begin(), work.waits.end(), is_it) ||
          std::any_of(work.scopes.begin(), work.scopes.end(), is_it))
        continue;
      const bool is_wait = trace_.sites[trace_.events.site[event]].kind == SiteKind::kWait;
      text += (text.empty() ? "" : ", ") +
              (is_wait ? "waits for " + WaitText(event) : Cut(trace_.EventName(event), 40)) + " for " +
              Duration(trace_.EventEnd(event) - trace_.events.begin_ns[event]);
    }
    return text;
  }

  // The holders of a lock during a wait, by "release" instants: "; 10 ms of it held by A, then 30 ms by B".
  std::string Holders(uint32_t event, const RequestRow& request) const {
    const std::optional<WaitArgs> wait = ArgsOfWait(event);
    if (!wait || wait->kind != WaitKind::kLock) return {};
    // For the wait's part in the request, like the wait itself.
    const int64_t end_ns = std::min(trace_.EventEnd(event), trace_.RequestEnd(request));
    int64_t begin_ns = std::max(trace_.events.begin_ns[event], request.begin_ns);
    struct Held {
      int64_t ns;
      std::string by;
    };
    std::vector<Held> held;
    size_t count = 0;
    for (const auto& [at_ns, release] : ReleasesWithin(wait->resource, begin_ns, end_ns)) {
      if (at_ns <= begin_ns) continue;  // together with the one before
      ++count;
      std::string by = ThreadName(trace_.events.thread[release]);
      if (const uint32_t row = trace_.events.request[release]; row != kNone)
        by += " for request " + Cut(model::RequestName(trace_, row), 40);
      if (held.empty() || held.back().by != by) held.push_back({0, std::move(by)});
      held.back().ns += at_ns - begin_ns;
      begin_ns = at_ns;
    }
    if (count < 2) return {};
    std::string text;
    for (const Held& one : held)
      text += (text.empty() ? "; " : ", then ") + Duration(one.ns) + " of it held by " + one.by;
    return text;
  }
  void FindReleases() {
    for (uint32_t event = 0; event < trace_.events.size(); ++event) {
      const model::SiteRow& site = trace_.sites[trace_.events.site[event]];
      const uint32_t args = trace_.events.args[event];
      if (site.kind != SiteKind::kInstant || site.arg_types.size() != 2 || args == kNone || Str(site.name) != "release")
        continue;
      if (site.arg_types[1] == ArgType::kName)
        releases_[static_cast<StringId>(trace_.arg_values[args + 1])].emplace_back(trace_.events.begin_ns[event],
                                                                                   event);
    }
    for (auto& [name, of_name] : releases_) std::sort(of_name.begin(), of_name.end());
  }
  // Releases of a lock after `begin_ns`, up to `end_ns`.
  std::span<const Release> ReleasesWithin(StringId resource, int64_t begin_ns, int64_t end_ns) const {
    const auto found = releases_.find(resource);
    if (found == releases_.end() || end_ns <= begin_ns) return {};
    const auto is_by = [](int64_t ns, const Release& release) { return ns < release.first; };
    const std::vector<Release>& all = found->second;
    return {std::upper_bound(all.begin(), all.end(), begin_ns, is_by),
            std::upper_bound(all.begin(), all.end(), end_ns, is_by)};
  }

  // "lock cache, held by worker #3 for request 00000000000008f0": the holder when the wait began.
  std::string WaitText(uint32_t event) const {
    const std::optional<WaitArgs> wait = ArgsOfWait(event);
    if (!wait) return std::string(trace_.EventName(event));
    std::string text = std::string(WaitKindName(wait->kind)) + " " + Cut(Name(wait->resource, "(unnamed)"), 40);
    if (wait->spurious != 0) text += " (" + Plural(wait->spurious, "spurious wake-up") + ")";
    if (wait->thread == 0 && wait->request == 0) return text;
    text += wait->kind == WaitKind::kLock ? ", held by " : ", from ";
    text += wait->owner_row != kNone ? ThreadName(wait->owner_row) : "thread #" + std::to_string(wait->thread);
    if (wait->request != 0) {
      text += " for request " + Cut(NameOf(wait->request), 40);
      const uint32_t row = index_.Row(wait->request);
      if (row != kNone && trace_.requests[row].route != 0)
        text += " (" + Cut(Str(trace_.requests[row].route), 32) + ")";
    }
    return text;
  }

  // The latency of the fastest request that fired, by route.
  std::map<StringId, int64_t> FastestFired() const {
    std::map<StringId, int64_t> fastest;
    for (size_t i = 0; i < slow_.size(); ++i) {
      const uint32_t row = slow_[i];
      // A request that a predicate picked may be a fast one.
      const StageTable::Line& whole = stages_[i].lines.back();
      if (whole.is_known && whole.ns <= whole.typical_ns) continue;
      const auto [found, is_new] = fastest.try_emplace(trace_.requests[row].route, Latency(row));
      if (!is_new) found->second = std::min(found->second, Latency(row));
    }
    return fastest;
  }

  // Requests of the fired routes, at least as slow as the fastest one that fired. A cool-down kept them from firing, or
  // there were more firings than an incident lists.
  std::vector<uint32_t> AsSlow() const {
    std::vector<uint32_t> others;
    if (!is_fired_) return others;
    const std::map<StringId, int64_t> fastest = FastestFired();
    for (uint32_t row = 0; row < trace_.requests.size(); ++row) {
      const auto found = fastest.find(trace_.requests[row].route);
      if (found != fastest.end() && Latency(row) >= found->second && trace_.requests[row].begin_known &&
          IsLatencyKnown(row) && !IsSlow(row)) {
        others.push_back(row);
      }
    }
    std::sort(others.begin(), others.end(), [&](uint32_t a, uint32_t b) { return IsSlower(a, b); });
    return others;
  }
  void OtherSlow() {
    const std::vector<uint32_t> others = AsSlow();
    if (others.empty()) return;
    lines_.Blank();
    lines_.Add(0, "AS SLOW, but not listed above: " + Plural(others.size(), "request"));
    lines_.Blank();
    for (size_t i = 0; i < others.size() && i < kMaxOthers; ++i) {
      const RequestRow& request = trace_.requests[others[i]];
      lines_.Add(3, PadLeft(Duration(Latency(others[i])), 10) + "  " + PadRight(Route(request), 40) + "  " +
                        PadRight(model::OutcomeText(request), 11) + "  " +
                        Cut(model::RequestName(trace_, request), 40));
    }
    if (others.size() > kMaxOthers) lines_.Add(3, "and " + Count(others.size() - kMaxOthers) + " more");
  }

  // Scopes and requests.
  std::pair<size_t, size_t> OpenAtEnd() const {
    const std::vector<int64_t>& ns = trace_.events.duration_ns;
    const auto requests = std::count_if(trace_.requests.begin(), trace_.requests.end(),
                                        [](const RequestRow& request) { return request.duration_ns == kOpen; });
    return {static_cast<size_t>(std::count(ns.begin(), ns.end(), kOpen)), static_cast<size_t>(requests)};
  }

  void StillOpen() {
    const auto [all, requests] = OpenAtEnd();
    if (all + requests == 0) return;
    Ranking open;
    for (uint32_t event = 0; event < trace_.events.size(); ++event) {
      if (trace_.events.duration_ns[event] == kOpen)
        Keep(&open, kMaxOthers, trace_.EventEnd(event) - trace_.events.begin_ns[event], event);
    }
    lines_.Blank();
    lines_.Add(0,
               "STILL OPEN when the snapshot was taken: " + Plural(all, "scope") + ", " + Plural(requests, "request"));
    lines_.Blank();
    for (const auto& [ns, event] : open) {
      const bool is_wait = trace_.sites[trace_.events.site[event]].kind == SiteKind::kWait;
      lines_.Add(3, PadLeft(Duration(ns), 10) + "  " + PadRight(ThreadName(trace_.events.thread[event]), 26) + "  " +
                        (is_wait ? "waits for " + WaitText(event) : std::string(trace_.EventName(event))));
    }
    if (all > kMaxOthers) lines_.Add(3, "and " + Plural(all - kMaxOthers, "scope") + " more");
    Ranking longest;
    for (uint32_t row = 0; row < trace_.requests.size(); ++row) {
      if (trace_.requests[row].duration_ns == kOpen) Keep(&longest, kMaxOpenRequests, Latency(row), row);
    }
    for (const auto& [ns, row] : longest) {
      const RequestRow& request = trace_.requests[row];
      lines_.Add(
          3,
          PadLeft(Duration(ns), 10) + "  " + PadRight("request " + model::RequestName(trace_, request), 26) + "  " +
              Cut(Route(request), 40) +
              (request.stages.empty() ? "" : ", in stage " + Cut(Name(request.stages.back().name, "(unnamed)"), 24)));
    }
    if (requests > kMaxOpenRequests) lines_.Add(3, "and " + Plural(requests - kMaxOpenRequests, "request") + " more");
  }

  std::string LostText() const {
    if (model::AreLossesUnknown(trace_)) return model::kLossesUnknown;
    if (trace_.losses.empty())
      return (trace_.gpu_losses.empty() ? "nothing was lost"
                                        : "nothing was lost, except the records listed under GPU") +
             model::LostSamplesText(trace_);
    uint64_t events = 0, requests = 0;
    bool is_number_unknown = false;
    for (const model::LossRow& loss : trace_.losses) {
      (loss.reason == model::LossReason::kOpenRequests ? requests : events) += loss.events;
      is_number_unknown |= loss.events == 0;
    }
    return (is_number_unknown && events == 0 ? std::string("an unknown number of records")
                                             : (is_number_unknown ? "at least " : "") + Plural(events, "record")) +
           (requests != 0 ? ", " + Plural(requests, "open request") : "");
  }

  void Losses() {
    lines_.Blank();
    lines_.Add(0, "LOST: " + LostText() + (trace_.losses.empty() ? "." : ""));
    if (trace_.losses.empty()) return;
    lines_.Blank();
    lines_.Add(3, PadRight("thread", 22) + "  " + PadRight("why", 20) + "  " + PadRight("from", 12) + "  " +
                      PadRight("to", 12) + PadLeft("records", 12) + "  during");
    // Losses of the process first: they concern all threads.
    std::vector<model::LossRow> losses = trace_.losses;
    std::stable_partition(losses.begin(), losses.end(),
                          [](const model::LossRow& loss) { return loss.thread == kNone; });
    for (size_t i = 0; i < losses.size() && i < kMaxLosses; ++i) {
      const model::LossRow& loss = losses[i];
      lines_.Add(3, PadRight(loss.thread == kNone ? "(process)" : ThreadName(loss.thread), 22) + "  " +
                        PadRight(model::LossReasonName(loss.reason), 20) + "  " + PadLeft(At(loss.begin_ns), 12) +
                        "  " + PadLeft(At(loss.end_ns), 12) +
                        PadLeft(loss.events == 0 ? "unknown" : Count(loss.events), 12) + " " +
                        During(loss.begin_ns, loss.end_ns));
    }
    if (trace_.losses.size() > kMaxLosses)
      lines_.Add(3, "and " + Count(trace_.losses.size() - kMaxLosses) + " more rows");
    Remedies();
  }

  // Calls that the host forgot, with what is not known for that.
  void MissingCalls() {
    bool is_first = true;
    for (const model::Attribute& attribute : trace_.attributes) {
      if (trace_.strings[attribute.key].rfind(model::kMissingCall, 0) != 0) continue;
      if (is_first) lines_.Blank();
      lines_.AddWrapped(0, is_first ? "MISSING CALLS: " : "               ", trace_.strings[attribute.value]);
      is_first = false;
    }
  }

  // Once for each kind of loss.
  void Remedies() {
    std::map<std::string, std::string> kinds;  // their names, by remedy
    std::vector<std::string> remedies;         // in order
    std::set<model::LossReason> known;
    for (const model::LossRow& loss : trace_.losses) {
      const std::string remedy = RemedyFor(loss.reason);
      if (remedy.empty() || !known.insert(loss.reason).second) continue;
      std::string& names = kinds[remedy];
      if (names.empty()) remedies.push_back(remedy);
      names += (names.empty() ? "" : ", ") + std::string(model::LossReasonName(loss.reason));
    }
    if (remedies.empty()) return;
    lines_.Blank();
    lines_.Add(3, "to lose less");
    for (const std::string& remedy : remedies) lines_.AddWrapped(3, PadRight(kinds[remedy], 22) + "  ", remedy);
  }

  // The shown requests that ran between two moments: " 1) 3)".
  std::string During(int64_t begin_ns, int64_t end_ns) const {
    std::string during;
    for (size_t slow = 0; slow < slow_.size(); ++slow) {
      const RequestRow& request = trace_.requests[slow_[slow]];
      if (begin_ns < trace_.RequestEnd(request) && end_ns > request.begin_ns) during += Format(" %zu)", slow + 1);
    }
    return during;
  }

  // The cost of recording, the options, the machine: the recorder's attributes.
  void Attributes() {
    const auto is_of_part = [&](const model::Attribute& attribute) {  // it is in the header
      return Str(attribute.key).starts_with(model::kJoinedKey);
    };
    if (std::all_of(trace_.attributes.begin(), trace_.attributes.end(), is_of_part)) return;
    lines_.Blank();
    lines_.Add(0, "RECORDER");
    lines_.Blank();
    constexpr std::string_view kOfRequest = "depth.of_request";
    const std::string_view of_window = trace_.AttributeOf("depth.of_window");
    const std::string why = model::WhyNoKernels(trace_);
    uint64_t as_window = 0;
    for (const model::Attribute& attribute : trace_.attributes) {
      const std::string_view key = Str(attribute.key), value = Str(attribute.value);
      if (is_of_part(attribute)) continue;
      if (key == "incident.cause" && !trace_.firings.empty() && attribute.value == trace_.firings[0].cause) continue;
      if (key.substr(0, kOfRequest.size()) == kOfRequest && value == of_window) {
        ++as_window;
        continue;
      }
      AddAttribute(key, Without(why, value));
    }
    if (as_window != 0) AddAttribute(kOfRequest, "as depth.of_window, for " + Plural(as_window, "request"));
  }
  void AddAttribute(std::string_view key, std::string_view value) {
    lines_.AddWrapped(3, PadRight(key, std::max<size_t>(28, base::Width(key))) + " ", value);
  }
  // The reason for missing kernels is a line of the part GPU.
  static std::string Without(const std::string& why, std::string_view value) {
    if (why.empty() || value.size() < why.size() || value.substr(value.size() - why.size()) != why)
      return std::string(value);
    return std::string(value.substr(0, value.size() - why.size())) + "see GPU above";
  }

  void Host() {
    if (!host_.IsKnown()) return;
    lines_.Blank();
    lines_.Add(0, "HOST");
    lines_.Blank();
    host_.Write(3, &lines_);
  }

  // A trace of another format has no files of an incident next to it.
  void Files() {
    if (!IsRecorded() || !trace_.AttributeOf("format").empty()) return;
    lines_.Blank();
    lines_.Add(0, "FILES");
    lines_.Blank();
    lines_.Add(3, "Next to this report, unless they could not be written (the recorder's log gives the reason):");
    lines_.Add(3, "dump.pitot     pitot info dump.pitot; pitot requests dump.pitot");
    lines_.Add(3, "               pitot convert dump.pitot: drop the file on https://ui.perfetto.dev");
    lines_.Blank();
    lines_.Add(3, "After the verdict, if the host uses a judge:");
    lines_.Add(3, "verdict.json   the verdict for programs (pitot why --json)");
    lines_.Add(3, "report.html    the verdict with a picture of the request's time, for any browser (no network)");
  }

  const Trace& trace_;
  const model::RequestIndex index_;
  const model::CounterIndex counters_;
  const model::WaitingCalls waiting_;
  GpuReport gpu_;
  const HostReport host_;
  const UsageReport usage_;
  Lines lines_;
  std::set<std::string> said_;               // lines that are not repeated
  std::map<ThreadWork::Key, size_t> shown_;  // other threads' work, and under which request it is shown
  std::vector<uint32_t> slow_;
  std::vector<uint64_t> missing_;
  std::map<StringId, std::vector<Release>> releases_;   // of a lock, by time
  std::unordered_map<uint64_t, uint32_t> thread_rows_;  // by number
  std::vector<bool> is_fired_row_;                      // of requests
  std::vector<StageTable> stages_;                      // of slow_
  size_t left_out_ = 0;
  bool is_fired_ = false;
  bool are_open_ = false;  // slow_ are those that were open at an end
};

class ReportSerializer final : public Serializer {
 public:
  ReportSerializer(const char* file_name, size_t columns) : file_name_(file_name), columns_(columns) {}
  const char* FileName() const noexcept override { return file_name_.c_str(); }
  Status Serialize(const Trace& trace, ByteSink& sink) override {
    const std::string text = Writer(trace, columns_).Write();
    if (!sink.Write(text.data(), text.size())) return Status(StatusCode::kIoError, "the report could not be written");
    return Status();
  }

 private:
  const std::string file_name_;
  const size_t columns_;
};

}  // namespace
}  // namespace pitot::report

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Serializer> MakeReportSerializer(const char* file_name, size_t columns) noexcept {
  try {
    return std::make_unique<report::ReportSerializer>(file_name, columns);
  } catch (...) {
    return nullptr;  // no memory
  }
}

PITOT_NAMESPACE_END
