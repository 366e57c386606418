// SPDX-License-Identifier: Apache-2.0
//
// A29: what makes tokens late, where one batch follows another and requests join and leave? The time to the first token
// is the wait for the first iteration, then reading the prompt. Between tokens, an iteration is long because it reads
// prompts of others, or it was not the request's: the request had to leave (preemption).
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/catalogue/serving.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/patience.h"
#include "base/quantile.h"
#include "pitot/model/index.h"

namespace pitot::catalogue {
namespace a29 {
namespace {

using facts::Add;
using facts::AddNumber;
using facts::Conclude;
using facts::EachOf;
using facts::InfoOf;
using facts::Judged;
using facts::Longest;
using facts::Percent;
using facts::SeverityOf;
using facts::Share;
using model::Interval;
using model::kNone;
using model::Trace;

// A share of the time to first tokens. If events of more of it were lost, the first known iteration may be a later one.
constexpr double kMostLost = 0.1;

constexpr Threshold kThresholds[] = {
    {"least_tokens", 50, "1", "pitot"},       // gaps between tokens
    {"queue_share", 0.5, "1", "pitot"},       // of the time to the first token
    {"mixed_share", 0.05, "1", "pitot"},      // of the time between tokens
    {"preempted_share", 0.05, "1", "pitot"},  // likewise
    {"gap_share", 0.05, "1", "pitot"},        // likewise, of unexplained time
    {"spike", 3, "1", "pitot"},               // times the usual gap
};

// Time between two tokens of a request.
struct Gap {
  uint32_t request;
  Interval time;
  bool is_mixed = false;   // another's prompt was read meanwhile
  int64_t outside_ns = 0;  // in no iteration
  int64_t Length() const { return time.end_ns - time.begin_ns; }
};

struct Route {
  uint64_t requests = 0;
  int64_t first_token_ns = 0, waited_ns = 0, between_ns = 0;
  int64_t lost_ns = 0;  // of first_token_ns: events were lost, or no iteration is known until it was over
  std::map<std::string, int64_t> stages_ns;  // before the first iteration
  std::vector<Gap> gaps;
  Longest waits{EvidenceTable::kWindow, "waited for its first iteration"};
};

class LlmServing final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override {
    return InfoOf("a29", "late tokens", kThresholds, kReadsRequests | kReadsEvents);
  }

  Status Run(Analysis& analysis) override {
    const Trace& trace = analysis.trace();
    const bool has_tokens = std::any_of(trace.requests.begin(), trace.requests.end(),
                                        [](const model::RequestRow& row) { return row.output_tokens > 1; });
    if (!has_tokens) return Status();
    if (trace.tokens.empty() || trace.batches.empty()) {
      AddNotKnown(
          analysis, "a29.not_known",
          "requests put out tokens, but their times or iterations were not recorded: the reason for late tokens is not "
          "known",
          "Mark tokens (pitot::Emit) and iterations (pitot::Batch, close kStep).");
      return Status();
    }
    const model::RequestIndex index(trace);
    const std::vector<bool> has_prompts = FindPrompts(trace);
    std::vector<std::vector<int64_t>> tokens(trace.requests.size());
    for (const model::TokenRow& token : trace.tokens) {
      if (token.request != kNone) tokens[token.request].push_back(token.at_ns);
    }
    const std::vector<Interval> lost = FindLost(trace);
    std::map<std::string, Route> routes;
    for (const uint32_t row : EachOf(analysis, trace.requests.size())) {
      if (trace.requests[row].output_tokens == 0 || !trace.requests[row].begin_known) continue;
      Count(trace, index, has_prompts, lost, row, tokens[row], &routes[RouteName(trace, trace.requests[row].route)]);
    }
    for (const auto& [name, route] : routes) Judge(analysis, name, route);
    return Status();
  }

 private:
  // Whether `request` had no token when the batch began: its prompt is being read.
  static bool IsReading(const Trace& trace, uint32_t batch, uint32_t request) {
    const model::RequestRow& row = trace.requests[request];
    return row.begin_known &&
           (row.first_token_ns == 0 || row.begin_ns + row.first_token_ns > trace.batches[batch].begin_ns);
  }
  static std::vector<bool> FindPrompts(const Trace& trace) {
    std::vector<bool> has(trace.batches.size());
    for (const model::MemberRow& member : trace.members) {
      if (member.request != kNone && IsReading(trace, member.batch, member.request)) has[member.batch] = true;
    }
    return has;
  }

  // When events of any thread were lost: iterations may have begun then.
  static std::vector<Interval> FindLost(const Trace& trace) {
    std::vector<Interval> lost;
    for (const model::LossRow& loss : trace.losses) {
      if (loss.reason != model::LossReason::kOpenRequests && loss.reason != model::LossReason::kClosedElsewhere)
        lost.push_back({loss.begin_ns, loss.end_ns});
    }
    return model::Union(std::move(lost));
  }

  static void Count(const Trace& trace, const model::RequestIndex& index, const std::vector<bool>& has_prompts,
                    const std::vector<Interval>& lost, uint32_t row, const std::vector<int64_t>& tokens, Route* route) {
    const model::RequestRow& request = trace.requests[row];
    const model::RowRange batches = index.Batches(row);  // by begin
    ++route->requests;
    if (request.first_token_ns != 0 && batches.size() != 0) {
      const int64_t joined_ns = std::max(trace.batches[*batches.begin()].begin_ns, request.begin_ns);
      const int64_t waited_ns = std::min(joined_ns - request.begin_ns, request.first_token_ns);
      route->first_token_ns += request.first_token_ns;
      route->waited_ns += waited_ns;
      const Interval until_token = {request.begin_ns, request.begin_ns + request.first_token_ns};
      route->lost_ns += joined_ns >= until_token.end_ns ? request.first_token_ns
                                                        : model::TotalNs(model::Intersection({until_token}, lost));
      for (const model::Stage& stage : request.stages) {
        const int64_t until_ns = stage.duration_ns == model::kOpen ? joined_ns : stage.begin_ns + stage.duration_ns;
        route->stages_ns[std::string(trace.strings[stage.name])] +=
            std::max<int64_t>(0, std::min(until_ns, request.begin_ns + waited_ns) - stage.begin_ns);
      }
      route->waits.Show(0, {request.begin_ns, request.begin_ns + waited_ns});
    }
    const uint32_t* batch = batches.begin();
    for (size_t i = 1; i < tokens.size(); ++i) {
      Gap gap = {row, {tokens[i - 1], tokens[i]}, false, 0};
      while (batch != batches.end() && trace.BatchEnd(trace.batches[*batch]) <= gap.time.begin_ns) ++batch;
      int64_t covered_ns = 0;
      for (const uint32_t* at = batch; at != batches.end() && trace.batches[*at].begin_ns < gap.time.end_ns; ++at) {
        covered_ns += std::min(trace.BatchEnd(trace.batches[*at]), gap.time.end_ns) -
                      std::max(trace.batches[*at].begin_ns, gap.time.begin_ns);
        // The iteration at whose end the gap begins belongs to the token before.
        gap.is_mixed |= has_prompts[*at] && trace.batches[*at].begin_ns >= gap.time.begin_ns;
      }
      gap.outside_ns = std::max<int64_t>(0, gap.Length() - covered_ns);
      route->between_ns += gap.Length();
      route->gaps.push_back(gap);
    }
  }

  static void Judge(Analysis& analysis, const std::string& name, const Route& route) {
    Add(analysis, "time to first token", name, route.first_token_ns / static_cast<int64_t>(route.requests));
    Add(analysis, "of that before the first iteration", name, route.waited_ns / static_cast<int64_t>(route.requests));
    JudgeQueue(analysis, name, route);
    if (static_cast<double>(route.gaps.size()) < std::max(1.0, analysis.threshold("least_tokens").value)) return;
    std::vector<double> plain, mixed;
    for (const Gap& gap : route.gaps) (gap.is_mixed ? mixed : plain).push_back(static_cast<double>(gap.Length()));
    Add(analysis, "time per output token", name, route.between_ns / static_cast<int64_t>(route.gaps.size()));
    if (!plain.empty()) AddNumber(analysis, "usual gap, no prompt", name, base::Median(plain), "ns");
    if (!mixed.empty()) AddNumber(analysis, "usual gap, with a prompt", name, base::Median(mixed), "ns");
    AddNumber(analysis, "gaps with a prompt", name, static_cast<double>(mixed.size()));
    // Without a plain gap the usual length is unknown.
    if (plain.empty()) return;
    const auto usual_ns = static_cast<int64_t>(base::Median(plain));
    const double spike = analysis.threshold("spike").value;
    int64_t mixed_ns = 0, preempted_ns = 0, unknown_ns = 0;
    Longest longest_mixed(EvidenceTable::kWindow, "a prompt was read between two tokens"),
        longest_preempted(EvidenceTable::kWindow, "in no iteration between two tokens"),
        longest_unknown(EvidenceTable::kWindow, "between two tokens");
    for (const Gap& gap : route.gaps) {
      const int64_t excess_ns = std::max<int64_t>(0, gap.Length() - usual_ns);
      const bool is_spike = static_cast<double>(gap.Length()) >= spike * static_cast<double>(usual_ns);
      if (is_spike && 2 * gap.outside_ns > gap.Length()) {
        preempted_ns += excess_ns;
        longest_preempted.Show(0, gap.time);
      } else if (gap.is_mixed) {
        mixed_ns += excess_ns;
        longest_mixed.Show(0, gap.time);
      } else if (is_spike) {
        unknown_ns += excess_ns;
        longest_unknown.Show(0, gap.time);
      }
    }
    const auto say = [&](const char* code, const char* threshold, int64_t ns, const char* what, const char* advice,
                         const Longest& evidence, bool is_undetermined) {
      const Threshold least = analysis.threshold(threshold);
      const double share = Share(ns, route.between_ns);
      AddNumber(analysis, threshold, name, share);
      if (share < least.value || ns == 0) return;
      const std::string summary = Percent(share) + " of the time between tokens of " + name + ", " +
                                  base::Duration(ns) + " in all, " + what + "; a usual gap is " +
                                  base::Duration(usual_ns);
      Conclude(analysis, Judged(code, name.c_str(), "excess over usual gaps / time between tokens", share, least),
               {.severity = SeverityOf(share, least.value),
                .confidence = is_undetermined ? 0.3 : 0.9,
                .is_undetermined = is_undetermined,
                .cost_ns = ns,
                .summary = summary,
                .recommendation = advice},
               evidence);
    };
    say("a29.prefill_mixed", "mixed_share", mixed_ns, "went to prompts read in the same iterations",
        "Read prompts in smaller chunks per iteration, or on other GPUs.", longest_mixed, false);
    say("a29.preemption", "preempted_share", preempted_ns,
        "passed while running requests were in no iteration: they were preempted, or the server stood still",
        "Make room in the KV cache, or run fewer or shorter requests at once; see the counters of the cache.",
        longest_preempted, false);
    say("a29.long_gaps", "gap_share", unknown_ns, "went to long gaps in iterations without prompts",
        "`pitot why --request` explains long iterations if operators and kernels are recorded.", longest_unknown, true);
  }

  static void JudgeQueue(Analysis& analysis, const std::string& name, const Route& route) {
    const Threshold least = analysis.threshold("queue_share");
    const double share = Share(route.waited_ns, route.first_token_ns);
    if (route.requests < 10 || share < least.value) return;
    if (const double lost = Share(route.lost_ns, route.first_token_ns); lost > kMostLost) {
      Conclude(
          analysis,
          Judged("a29.queueing", name.c_str(), "waited for the first iteration / time to first token", share, least),
          {.confidence = 0.3,
           .is_undetermined = true,
           .summary = "events were lost in " + Percent(lost) + " of the time to the first token of " + name +
                      ", or no iteration until then is known: the share before the first "
                      "iteration is not known",
           .recommendation = "Use larger rings (Options::memory_budget_bytes), a shorter window or "
                             "fewer scopes, then look again."},
          route.waits);
      return;
    }
    const auto longest = std::max_element(route.stages_ns.begin(), route.stages_ns.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
    std::string summary =
        Percent(share) + " of the time to the first token of " + name + " passes before the first iteration";
    if (longest != route.stages_ns.end() && longest->second > 0)
      summary +=
          ", most of it in the stage \"" + longest->first + "\" (" + base::Duration(longest->second) + " in all)";
    Conclude(analysis,
             Judged("a29.queueing", name.c_str(), "waited for the first iteration / time to first token", share, least),
             {.severity = share >= 0.75 ? Severity::kHigh : Severity::kMedium,
              .confidence = 0.95,
              .cost_ns = route.waited_ns,
              .summary = summary,
              .recommendation = "Run more requests at once if memory allows, add a server, or limit admission: reading "
                                "prompts faster would not help."},
             route.waits);
  }
};

}  // namespace
}  // namespace a29

std::unique_ptr<Analyzer> MakeLlmServing() { return std::make_unique<a29::LlmServing>(); }

}  // namespace pitot::catalogue
