// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/report_html.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>
#include <utility>

#include "analyze/blame/index_data.h"
#include "analyze/facts/html.h"
#include "analyze/facts/subjects.h"
#include "analyze/judge/lanes.h"
#include "analyze/judge/neighbours.h"
#include "analyze/judge/shown.h"
#include "analyze/verdict/depths.h"
#include "analyze/verdict/tree.h"
#include "analyze/verdict/verdict_words.h"
#include "base/add_up.h"
#include "base/columns.h"
#include "base/text.h"
#include "model/host_language.h"
#include "model/kernel_name.h"
#include "model/lacking.h"
#include "model/missing_call.h"
#include "model/moment.h"
#include "model/recorded.h"
#include "model/request_text.h"
#include "pitot/request.h"

namespace pitot::judge {
namespace {

using base::Duration;
using base::Format;
using facts::Escape;
using facts::kAll;
using model::kNone;
using model::Trace;

constexpr size_t kMostLanes = 8;            // next to the request's own
constexpr size_t kMostDrawnSegments = 400;  // of the request
constexpr size_t kMostListedFindings = 24;
constexpr size_t kMostIndent = 6;          // of a node of the tree
constexpr size_t kMostOpenFindings = 5;    // the others are folded
constexpr size_t kMostListedEvidence = 3;  // of a finding
constexpr const char* kNotRecorded = "not recorded";
constexpr double kShortRunSeconds = 10;  // in a shorter one the recorder's start weighs

constexpr char kStyle[] = R"(:root{--root:#a3123f;--mine:#3b3b3b;--stay:#c7bbe3}
@media(prefers-color-scheme:dark){:root{--root:#ff7a9c;--mine:#d0d0d0;--stay:#594c7d}}
.lane{margin:.35rem 0;break-inside:avoid}.lane p{margin:0;font-size:.8rem;line-height:1.25}
svg{display:block;width:100%;background:var(--card);border:1px solid var(--line);shape-rendering:crispEdges}
.lane svg{height:1.2rem}.lane.own svg{height:2.2rem}
.guilty p,.victim p{font-weight:600}.guilty svg{border-color:var(--root);border-width:2px}h3{font-size:.95rem;margin:1.1rem 0 .3rem}
.tree{list-style:none;padding:0;margin:.4rem 0}.tree li{margin:.35rem 0;break-inside:avoid}
.tree p{margin:0 0 0 calc(var(--d)*1.1rem);font-size:.9rem;line-height:1.3}.tree svg{height:.7rem}
.tree small,p.card small{font-weight:400;color:var(--soft)}
.tree em{font-style:normal;font-weight:600;color:var(--page);background:var(--root);border-radius:.2rem;padding:0 .3rem;font-size:.75rem}
h1{font-size:1.25rem;line-height:1.3}.root p{font-weight:600}.less{--c:none;stroke:var(--soft);stroke-dasharray:4 4}.stay{--c:var(--stay)}.bad{--c:var(--root)}.mine{--c:var(--mine)}
.axis{display:flex;justify-content:space-between;font-size:.75rem;color:var(--soft);border-top:1px solid var(--line)}
.legend{display:flex;flex-wrap:wrap;gap:.1rem 1rem;font-size:.8rem;padding:0;margin:.6rem 0;list-style:none}
.legend i{display:inline-block;width:.8rem;height:.8rem;margin-right:.35rem;vertical-align:-.08rem;background:var(--c);
print-color-adjust:exact;-webkit-print-color-adjust:exact}
.parts{display:grid;grid-template-columns:minmax(9rem,14rem) 1fr repeat(3,auto);grid-auto-flow:dense;column-gap:.8rem;
align-items:center;font-size:.875rem}
.parts>*{min-width:0;align-self:stretch}.parts .num{text-align:right}.parts svg{height:1.1rem;border:0;background:none}
.name{grid-column:1}.bar{grid-column:2;padding-top:.15rem}.it{grid-column:3}.usual{grid-column:4}.more{grid-column:5}
.head{color:var(--soft)}.sum{border-top:1px solid var(--line);margin-top:.2rem;padding-top:.2rem}
@media(max-width:36rem){.parts{grid-template-columns:1fr repeat(3,auto)}.it{grid-column:2}.usual{grid-column:3}.more{grid-column:4}
.bar{grid-column:1/-1;padding-bottom:.4rem}.bar.head,.bar.sum{display:none}}
.queue{--c:var(--queue)}.code{--c:var(--code)}.wait{--c:var(--wait)}.launch{--c:var(--launch)}.copy{--c:var(--copy)}
.gpu{--c:var(--gpu)}.trouble{--c:var(--trouble)}.unknown{--c:var(--unknown)}.other{--c:var(--other)}
rect{fill:var(--c)}.high{--c:var(--wait)}.medium{--c:var(--queue)}.low{--c:var(--copy)}
@media print{:root{color-scheme:light;--page:#fff;--text:#000;--soft:#444;--line:#bbb;--card:#fff;--other:#c4cad1;--code:#0072b2;
--wait:#d55e00;--gpu:#009e73;--trouble:#d9c800;--unknown:#7d848c}body{font-size:10.5pt;max-width:none;padding:0}h2{break-after:avoid}
details::details-content{content-visibility:visible;display:block;height:auto}}
)";

std::string ExactMs(int64_t ns) { return Format("%.3f", static_cast<double>(ns) * 1e-6); }
std::string SignedExactMs(int64_t ns) { return Format("%+.3f", static_cast<double>(ns) * 1e-6); }
std::string Ms1(int64_t ns) { return Format("%.1f ms", static_cast<double>(ns) * 1e-6); }

// Puts the category at the end of a verdict's line into small print: "waited ... (host_lock +82.5 ms, 93 %)".
std::string WithSmallPrint(const std::string& line) {
  const size_t at = line.ends_with(')') ? line.rfind(" (") : std::string::npos;
  if (at == std::string::npos) return Escape(line);
  return Escape(line.substr(0, at)) + " <small>" + Escape(line.substr(at + 1)) + "</small>";
}

// Lets a name that does not fit continue on the next line after an underscore.
std::string Breakable(std::string_view name) {
  std::string out;
  for (const char c : name) out += c == '_' ? std::string("_<wbr>") : std::string(1, c);
  return out;
}

std::string Value(double value, const std::string& unit) {
  if (std::isnan(value)) return kNotRecorded;
  if (unit == "ns") return Duration(static_cast<int64_t>(std::clamp(value, -9e18, 9e18)));
  if (unit == "bytes") return base::Bytes(static_cast<uint64_t>(std::clamp(value, 0.0, 9e18)));
  return Format("%.4g", value) + (unit == "1" ? "" : " " + unit);
}

class Page {
 public:
  Page(const Trace& trace, const HtmlReport& report) : trace_(trace), report_(report), judgement_(report.judgement) {}

  std::string Write() {
    Head();
    if (!report_.fired.empty()) out_ += "<h1>" + Escape(report_.fired) + "</h1>\n";
    if (judgement_ != nullptr) {
      if (report_.is_about_latency)
        WriteVerdict();
      else
        P("", VerdictSentence(judgement_->index, judgement_->blame, judgement_->verdict));
      WriteTimeline();
      WriteCauses();
      WriteParts();
      if (report_.is_about_latency) WriteNumbers(judgement_->verdict);
    } else {
      if (report_.fired.empty()) out_ += "<h1>No verdict</h1>\n";
      P("", report_.fired.empty() ? report_.why_not : "No verdict: " + report_.why_not + ".");
    }
    WriteOthers();
    if (report_.analysis != nullptr) WriteFindings(*report_.analysis);
    WriteQuality();
    out_ += "</body></html>\n";
    return std::move(out_);
  }

 private:
  std::string Text(model::StringId id) const { return std::string(trace_.strings[id]); }
  std::string Attribute(std::string_view key) const { return std::string(trace_.AttributeOf(key)); }
  // "handler", or "handler #2" as in report.txt if several threads have the name.
  std::string Thread(uint32_t thread) const {
    const model::ThreadRow& row = trace_.threads[thread];
    const std::string name = Text(row.name), number = std::to_string(row.number);
    if (name.empty()) return "thread " + number;
    const auto same = std::count_if(trace_.threads.begin(), trace_.threads.end(),
                                    [&row](const model::ThreadRow& other) { return other.name == row.name; });
    return same > 1 ? name + " #" + number : name;
  }
  void P(const char* style, const std::string& text) {
    out_ += std::string("<p") + (*style != '\0' ? std::string(" class=\"") + style + "\"" : "") + ">" + Escape(text) +
            "</p>\n";
  }
  void H2(const char* text) { out_ += std::string("<h2>") + text + "</h2>\n"; }

  // The judged request, otherwise the first that fired; "": there is none.
  std::string Subject() const {
    if (judgement_ != nullptr) return model::RequestName(trace_, judgement_->blame.request);
    for (const model::FiringRow& firing : trace_.firings) {
      if (firing.request_id != 0) return model::NameOfId(trace_, firing.request_id);
    }
    return "";
  }

  void Head() {
    const std::string number = Attribute("incident.number"), cause = Attribute("incident.cause");
    std::string title = number.empty() ? "trace" : "incident " + number;
    if (!cause.empty()) title += ", " + cause;
    if (const std::string subject = Subject(); !subject.empty()) title += ", request " + subject;
    out_ +=
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
        Escape(title) + "</title>\n<style>" + facts::kHtmlStyle + kStyle + "</style></head><body>\n";
    std::string of = title;
    if (const std::string process = Text(trace_.process_name); !process.empty()) of += ", " + process;
    if (const std::string host = Attribute("host"); !host.empty()) of += " on " + host;
    if (model::HasDate(trace_)) of += ", " + base::DateTime(trace_.clock.realtime_ns);
    P("soft", of);
  }

  // Opens a folded part.
  void Fold(const std::string& summary) { out_ += "<details><summary>" + Escape(summary) + "</summary>\n"; }
  void EndFold() { out_ += "</details>\n"; }

  // The headline in a word of docs/reference/why.md.
  static const char* Category(const Verdict& v) {
    if (v.root.node != kNone && v.root.hops > 0)
      return v.root.kind == NodeKind::kCycle || v.root.kind == NodeKind::kLoad ? NodeKindName(v.root.kind)
                                                                               : BlameName(v.root.blame);
    if (v.root.kind == NodeKind::kMoreWork) return NodeKindName(v.root.kind);
    const bool is_cause = !v.causes.empty() && v.kind != VerdictKind::kUniform;
    return is_cause ? BlameName(v.causes[0].blame) : VerdictKindName(v.kind);
  }

  void WriteVerdict() {
    const Verdict& v = judgement_->verdict;
    headline_ = VerdictSentence(judgement_->index, judgement_->blame, v);
    const std::string level = report_.fired.empty() ? "h1>" : "h2>";
    out_ += "<" + level + Escape(headline_) + " <small>" + Category(v) + "</small></" + level + "\n";
    for (const char* const advice : verdict::Advices(v)) P("", "\xe2\x86\x92 " + model::InHostLanguage(trace_, advice));
    std::string sure = verdict::SureText(v);
    if (!sure.empty()) sure[0] = 'C', P("soft", sure + ".");
    for (const std::string& text : {Kind(v), verdict::LikeText(v), verdict::MeanwhileText(v),
                                    verdict::ProfiledText(trace_, judgement_->blame), verdict::CoarseText(v)}) {
      if (!text.empty()) P("", text + ".");
    }
    WriteTree(v);
  }

  // What made it slow, from its wait down to the root. A child's bar is a part of its parent's.
  void WriteTree(const Verdict& v) {
    const std::vector<TreeLine> lines = TreeLines(judgement_->index, judgement_->blame, v);
    if (lines.empty()) return;
    H2("What made it slow");
    const std::vector<Range> ranges = Ranges(lines);
    int64_t most = 1;
    for (const Range& range : ranges) most = std::max(most, range.end);
    out_ += "<ul class=\"tree\">\n";
    for (size_t i = 0; i < lines.size(); ++i) WriteNode(v, lines[i], ranges[i], most);
    out_ += "</ul>\n";
    const int64_t usual = base::RoundTo(v.tree[0].normal_ns, verdict::kTenth);
    if (v.level != Baseline::Level::kNone)
      P("soft", "Bars side by side add up to the bar above them, and all of them to " +
                    verdict::SignedTenths(base::RoundTo(v.latency_ns, verdict::kTenth) - usual) + " beyond the usual " +
                    verdict::Tenths(usual) + " ms.");
  }
  struct Range {
    int64_t begin = 0, end = 0;  // tenths of a ms
  };
  // Children lie next to each other from the beginning of their parent's range on; shorter parts go back.
  static std::vector<Range> Ranges(const std::vector<TreeLine>& lines) {
    std::vector<Range> ranges;
    std::vector<int64_t> next = {0};  // by depth
    for (const TreeLine& line : lines) {
      next.resize(line.depth + 1);
      const int64_t from = next[line.depth], to = from + line.tenths;
      next[line.depth] = to;
      next.push_back(from);  // of its children
      ranges.push_back({std::max<int64_t>(0, std::min(from, to)), std::max(from, to)});
    }
    return ranges;
  }
  void WriteNode(const Verdict& v, const TreeLine& line, const Range& range, int64_t most) {
    const VerdictNode& node = v.tree[line.node];
    const bool is_root = line.node == v.root.node, is_rest = node.kind == NodeKind::kRest;
    const auto at = [&](int64_t tenths) { return kWidth * static_cast<double>(tenths) / static_cast<double>(most); };
    const double from = std::min(at(range.begin), kWidth - kLeastBar);
    const double width = std::max(at(range.end) - from, kLeastBar);
    const char* const style = line.tenths < 0 ? "less"
                              : is_root       ? "bad"
                              : is_rest       ? "other"
                                              : GroupOf(node.blame).style;
    out_ +=
        Format("<li style=\"--d:%zu\"%s><p><b class=\"num\">", std::min(line.depth, kMostIndent),
               is_root ? " class=\"root\"" : "") +
        verdict::SignedTenths(line.tenths) + "</b> " + Escape(line.text) +
        (*line.category == '\0' ? "" : std::string(" <small>") + line.category + "</small>") +
        (is_root ? " <em>the root</em>" : "") +
        "</p><svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">" +
        Format("<rect class=\"%s\" x=\"%.2f\" y=\"0\" width=\"%.2f\" height=\"10\"/></svg></li>\n", style, from, width);
  }

  // Each cause with its confidence, folded: the tree has the main things.
  void WriteCauses() {
    const Verdict& v = judgement_->verdict;
    if (v.causes.empty() && v.largest.empty()) return;
    Fold(v.causes.empty()       ? "Its largest parts"
         : v.causes.size() == 1 ? "The cause, with its confidence"
                                : "The causes, with their confidence");
    const verdict::PrintedVerdict printed(v);
    for (size_t i = 0; i < v.causes.size(); ++i) WriteCause(i + 1, v.causes[i], printed.causes[i]);
    if (v.causes.size() > 1) P("", "Fixing all of these would save at most " + Duration(v.joint_saving_ns) + ".");
    for (const Cause& part : v.largest) WriteCause(0, part, base::RoundTo(part.excess_ns, verdict::kTenth));
    EndFold();
  }

  // Numbers for statisticians.
  void WriteNumbers(const Verdict& v) {
    Fold("Numbers behind this verdict");
    const bool is_token = judgement_->blame.token != kNone;
    if (v.level != Baseline::Level::kNone)
      P("soft",
        Format("Slower than %.3g %% of %s (%s); ", 100 * v.percentile,
               base::Plural(v.baseline_size, is_token ? "other token" : "normal request").c_str(), LevelName(v.level)) +
            Ms1(v.typical_ns) + " is typical of " + verdict::TypicalOf(v, judgement_->blame) + ".");
    for (const Cause& cause : v.causes)
      P("soft", std::string(BlameName(cause.blame)) + " " + SignedExactMs(cause.excess_ns) +
                    Format(" ms, p = %.3f%s: ", std::min(cause.p, cause.p_of_launches),
                           cause.p_of_launches < cause.p ? " of its launches" : "") +
                    EvidenceText(judgement_->index, judgement_->blame, cause));
    if (!v.causes.empty() || v.common_ns != 0) {
      const verdict::PrintedVerdict printed(v);
      std::string sum;
      if (v.common_ns != 0) sum += verdict::SignedTenths(printed.common) + " common to all, ";
      for (size_t i = 0; i < v.causes.size(); ++i)
        sum += verdict::SignedTenths(printed.causes[i]) + " " + BlameName(v.causes[i].blame) + ", ";
      P("soft", sum + verdict::RestText(v) + "; together " + verdict::SignedTenths(printed.latency - printed.typical) +
                    " = " + verdict::Tenths(printed.latency) + " - " + verdict::Tenths(printed.typical));
    }
    EndFold();
  }

  std::string MoreWork(const Verdict& v) const {
    if (v.more_of.empty()) return {};
    return v.more_ns == 0 ? Format("It had %.3g times the usual ", v.more_factor) + v.more_of
                          : "There was also " + verdict::MoreWorkText(trace_, judgement_->blame, v) + ", " +
                                SignedExactMs(v.more_ns) + " ms";
  }

  // A sentence besides the headline; "": none.
  std::string Kind(const Verdict& v) const {
    switch (v.kind) {
      case VerdictKind::kCauses:
        return MoreWork(v);
      case VerdictKind::kUniform:
        return "A clock or CPU was slow, not one part" + (v.clocks.empty() ? "" : ". Clocks: " + v.clocks);
      case VerdictKind::kUndetermined:
        return headline_.find(v.why_not) != std::string::npos ? "" : "Undetermined: " + v.why_not;
      default:
        return {};
    }
  }

  // `number` is 0 for a large part of a verdict without causes.
  void WriteCause(size_t number, const Cause& cause, int64_t excess_tenths) {
    const Verdict& v = judgement_->verdict;
    const std::string sentence = verdict::SentenceText(judgement_->index, judgement_->blame, v, cause);
    const bool is_headline = number == 1 && headline_.find(sentence) != std::string::npos;
    const std::string title = !is_headline ? sentence : v.causes.size() == 1 ? "The cause" : "The largest cause";
    out_ += std::string("<div class=\"card ") + GroupOf(cause.blame).style + "\"><h3><span>" +
            (number > 1 ? std::to_string(number) + ". " : "") + Escape(title) + " <small>" + BlameName(cause.blame) +
            "</small></span><span class=\"num\">";
    const bool is_compared = v.level != Baseline::Level::kNone;
    out_ += is_compared ? verdict::SignedTenths(excess_tenths) : Ms1(cause.blame_ns);
    if (number != 0) out_ += Format(", %.0f %%", 100 * cause.share);
    out_ += "</span></h3>\n";
    if (*cause.advice.text != '\0') P("", "\xe2\x86\x92 " + model::InHostLanguage(trace_, cause.advice.text));
    if (number != 0) P("soft", verdict::ConfidenceText(cause) + "; " + verdict::SavingText(v, cause));
    if (const std::string text = verdict::ContradictionText(cause); !text.empty()) P("soft", text);
    out_ += "</div>\n";
  }

  std::string Said(const BlameSegment& segment, size_t i) const {
    Cause one;
    one.blame = segment.blame;
    one.by = segment.by;
    one.by_ns = segment.end_ns - segment.begin_ns;
    one.longest = {static_cast<uint32_t>(i)};
    const std::string evidence = EvidenceText(judgement_->index, judgement_->blame, one);
    return std::string(BlameName(segment.blame)) + ", " + Duration(segment.end_ns - segment.begin_ns) +
           (evidence.empty() ? "" : ": " + evidence);
  }

  bool IsOwn(uint32_t request, uint32_t batch) const {
    const uint32_t own = judgement_->blame.request;
    if (request == own) return true;
    if (batch == kNone) return false;
    const model::BatchRow& row = trace_.batches[batch];
    for (uint32_t m = row.first_member; m < row.first_member + row.member_count; ++m) {
      if (trace_.members[m].request == own) return true;
    }
    return false;
  }
  std::string For(uint32_t request, uint32_t batch) const {
    if (batch != kNone) return " for a batch of " + Text(trace_.batches[batch].executor);
    if (request == kNone) return "";
    return " for request " + model::RequestName(trace_, request) + " (" + Text(trace_.requests[request].route) + ")";
  }

  // Adds the thread's work for others in that time: its outermost scopes.
  void AddOthers(uint32_t thread, int64_t begin_ns, int64_t end_ns, Bars* bars) const {
    const model::ThreadRow& row = trace_.threads[thread];
    int64_t until_ns = INT64_MIN;
    for (uint32_t e = row.first_event; e < row.first_event + row.event_count; ++e) {
      const int64_t from_ns = trace_.events.begin_ns[e], to_ns = trace_.EventEnd(e);
      if (from_ns >= end_ns) break;
      if (from_ns < until_ns || to_ns <= begin_ns || to_ns == from_ns) continue;
      until_ns = to_ns;
      const uint32_t request = trace_.events.request[e], batch = trace_.events.batch[e];
      if (IsOwn(request, batch)) continue;
      bars->Add(std::max(from_ns, begin_ns), std::min(to_ns, end_ns), "other",
                std::string(trace_.EventName(e)) + For(request, batch) + ", " + Duration(to_ns - from_ns));
    }
  }
  void AddOthersOfStream(uint32_t stream, int64_t begin_ns, int64_t end_ns, Bars* bars) const {
    for (uint32_t g = 0; g < trace_.gpu.size(); ++g) {
      if (trace_.gpu.stream[g] != stream) continue;
      const int64_t from_ns = trace_.gpu.begin_ns[g], to_ns = from_ns + trace_.gpu.duration_ns[g];
      if (from_ns >= end_ns || to_ns <= begin_ns) continue;
      bars->Add(std::max(from_ns, begin_ns), std::min(to_ns, end_ns), "other",
                model::ActivityName(trace_, g) + ", " + Duration(to_ns - from_ns));
    }
  }

  void WriteTimeline() {
    const RequestBlame& blame = judgement_->blame;
    if (blame.end_ns <= blame.begin_ns) return;
    H2("Where its time went");
    Bars own(blame.begin_ns, blame.end_ns);
    uint32_t used = 0;
    bool has_kernels = false;
    // Threads and streams in the order in which the request came to them, the longest first if there are many.
    std::vector<std::pair<uint32_t, int64_t>> threads, streams;
    const auto note = [](std::vector<std::pair<uint32_t, int64_t>>* rows, uint32_t row, int64_t ns) {
      const auto at = std::find_if(rows->begin(), rows->end(), [row](auto& one) { return one.first == row; });
      if (at == rows->end())
        rows->emplace_back(row, ns);
      else
        at->second += ns;
    };
    const size_t every = 1 + blame.segments.size() / kMostDrawnSegments;
    for (size_t i = 0; i < blame.segments.size(); ++i) {
      const BlameSegment& segment = blame.segments[i];
      used |= BlameBit(segment.blame);
      has_kernels |= segment.gpu != kNone && trace_.gpu.kind[segment.gpu] != model::GpuKind::kSpan;
      const bool is_said = every == 1 || i % every == 0;
      own.Add(segment.begin_ns, segment.end_ns, GroupOf(segment.blame).style,
              is_said ? Said(segment, i) : BlameName(segment.blame));
      const int64_t ns = segment.end_ns - segment.begin_ns;
      if (segment.thread != kNone) note(&threads, segment.thread, ns);
      if (segment.by.thread != kNone) note(&threads, segment.by.thread, ns);
      for (const uint32_t gpu : {segment.gpu, segment.by.gpu}) {
        if (gpu != kNone && trace_.gpu.stream[gpu] != kNone) note(&streams, trace_.gpu.stream[gpu], ns);
      }
    }
    const size_t before = out_.size();
    out_ += Lane{"the request", "own", own.Svg(20)}.Html();
    Axis(blame.end_ns - blame.begin_ns);
    WriteLanes(MembersOfStep(*judgement_));
    WriteLanes(CulpritsMeanwhile(*judgement_));
    out_ += "<h3>Its threads and streams</h3>\n";
    for (const auto& [stream, ns] : Longest(streams)) StreamLane(stream);
    for (const auto& [thread, ns] : Longest(threads)) ThreadLane(thread);
    out_.insert(before, Legend(used, has_kernels));
  }

  std::string Legend(uint32_t used, bool has_kernels) const {
    std::string legend = "<ul class=\"legend\">";
    for (const Group& group : kGroups) {
      if ((group.blames & used) == 0) continue;
      const char* const name = group.name == kKernels && !has_kernels ? "work of GPUs" : group.name;
      legend += std::string("<li><i class=\"") + group.style + "\"></i>" + name + "</li>";
    }
    if (has_members_)
      legend +=
          "<li><i class=\"mine\"></i>this request in its batch</li><li><i class=\"stay\"></i>other members and "
          "batches</li><li><i class=\"bad\"></i>the batch, or the culprit</li>";
    if (has_others_) legend += "<li><i class=\"other\"></i>work of others</li>";
    return legend + "</ul>\n";
  }

  void WriteLanes(const Lanes& lanes) {
    if (lanes.lanes.empty()) return;
    out_ += "<h3>" + Escape(lanes.title) + "</h3>\n";
    for (const Lane& lane : lanes.lanes) out_ += lane.Html();
    if (!lanes.more.empty()) P("soft", lanes.more);
    has_others_ = has_members_ = true;
  }

  static std::vector<std::pair<uint32_t, int64_t>> Longest(std::vector<std::pair<uint32_t, int64_t>> rows) {
    std::vector<std::pair<uint32_t, int64_t>> by_time = rows;
    std::stable_sort(by_time.begin(), by_time.end(), [](auto& a, auto& b) { return a.second > b.second; });
    if (by_time.size() <= kMostLanes / 2) return rows;
    const int64_t least_ns = by_time[kMostLanes / 2 - 1].second;
    rows.erase(std::remove_if(rows.begin(), rows.end(), [least_ns](auto& row) { return row.second < least_ns; }),
               rows.end());
    if (rows.size() > kMostLanes / 2) rows.resize(kMostLanes / 2);
    return rows;
  }

  void ThreadLane(uint32_t thread) {
    const RequestBlame& blame = judgement_->blame;
    Bars others(blame.begin_ns, blame.end_ns), own(blame.begin_ns, blame.end_ns);
    AddOthers(thread, blame.begin_ns, blame.end_ns, &others);
    for (size_t i = 0; i < blame.segments.size(); ++i) {
      const BlameSegment& segment = blame.segments[i];
      // Time in a queue is spent on no thread.
      if (segment.thread == thread && segment.gpu == kNone && &GroupOf(segment.blame) != &kGroups[0])
        own.Add(segment.begin_ns, segment.end_ns, GroupOf(segment.blame).style, BlameName(segment.blame));
    }
    has_others_ |= !others.is_empty();
    out_ += Lane{Thread(thread), "", others.Svg(20) + own.Svg(20)}.Html();
  }

  void StreamLane(uint32_t stream) {
    const RequestBlame& blame = judgement_->blame;
    Bars others(blame.begin_ns, blame.end_ns), own(blame.begin_ns, blame.end_ns);
    AddOthersOfStream(stream, blame.begin_ns, blame.end_ns, &others);
    for (const BlameSegment& segment : blame.segments) {
      if (segment.gpu != kNone && trace_.gpu.stream[segment.gpu] == stream &&
          segment.blame != Blame::kGpuQueueWaitOthers && segment.blame != Blame::kDispatchGap &&
          segment.blame != Blame::kLaunchLatency)
        own.Add(segment.begin_ns, segment.end_ns, GroupOf(segment.blame).style, BlameName(segment.blame));
    }
    has_others_ |= !others.is_empty();
    const model::StreamRow& row = trace_.streams[stream];
    const uint32_t ordinal = row.device != kNone ? trace_.devices[row.device].ordinal : 0;
    out_ += Lane{Format("GPU %u, stream %u", ordinal, row.stream), "", others.Svg(20) + own.Svg(20)}.Html();
  }

  void Axis(int64_t latency_ns) {
    out_ += "<div class=\"axis\">";
    for (int i = 0; i <= 4; ++i) out_ += "<span>" + (i == 0 ? "0" : Ms1(latency_ns * i / 4)) + "</span>";
    out_ += "</div>\n";
  }

  // As the verdict compares them with usual ones.
  BlameVector Parts() const {
    BlameVector parts = judgement_->blame.blame;
    const blame::Index& index = judgement_->index.data()->index;
    const uint32_t request = judgement_->blame.request;
    if (judgement_->verdict.is_coarse)
      verdict::MakeCoarse(&parts, index.memberships.begin(request) != index.memberships.end(request));
    return parts;
  }
  // Whether the GPU work of its time was recorded, as far as there was a GPU.
  bool IsGpuWorkKnown() const {
    const RequestBlame& blame = judgement_->blame;
    return !model::HasGpu(trace_) || model::IsGpuWorkRecorded(trace_, blame.begin_ns, blame.end_ns);
  }

  void WriteParts() {
    const BlameVector of = Parts();
    const Verdict& v = judgement_->verdict;
    const bool is_compared = v.level != Baseline::Level::kNone;
    std::vector<uint32_t> parts;
    int64_t longest_ns = 1;
    for (uint32_t k = 0; k < kBlames; ++k) {
      if (of.ns[k] == 0 && v.normal.ns[k] == 0) continue;
      parts.push_back(k);
      longest_ns = std::max({longest_ns, of.ns[k], v.normal.ns[k]});
    }
    std::stable_sort(parts.begin(), parts.end(), [&](uint32_t a, uint32_t b) { return of.ns[a] > of.ns[b]; });
    Fold(is_compared ? "All parts of its time, compared with usual" : "All parts of its time");
    const auto row = [&](const char* style, const std::string& name, const std::string& bar, const std::string& time,
                         const std::string& usual, const std::string& more) {
      const std::pair<const char*, const std::string&> cells[] = {
          {"name", name}, {"num it", time}, {"num usual", usual}, {"num more", more}, {"bar", bar}};
      for (const auto& [column, content] : cells)
        out_ +=
            std::string("<div class=\"") + column + (*style != '\0' ? " " : "") + style + "\">" + content + "</div>";
      out_ += '\n';
    };
    out_ += "<div class=\"parts\">";
    row("head", "ms", "", "this", is_compared ? "usual" : "", is_compared ? "more" : "");
    for (const uint32_t k : parts) {
      const auto width = [&](int64_t ns) { return 100 * static_cast<double>(ns) / static_cast<double>(longest_ns); };
      const auto part = static_cast<Blame>(k);
      std::string bar = Format(
          "<svg viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"%s\" x=\"0\" "
          "y=\"0\" width=\"%.2f\" height=\"6\"/>",
          GroupOf(part).style, width(of.ns[k]));
      bar += Format("<rect class=\"other\" x=\"0\" y=\"7\" width=\"%.2f\" height=\"3\"/></svg>", width(v.normal.ns[k]));
      row("", Breakable(BlameName(part)), bar, ExactMs(of.ns[k]), is_compared ? ExactMs(v.normal.ns[k]) : "",
          is_compared ? SignedExactMs(of.ns[k] - v.normal.ns[k]) : "");
    }
    if (!IsGpuWorkKnown()) row("", "kernels, copies, launches", "", kNotRecorded, "", "");
    row("sum", "sum", "", ExactMs(v.latency_ns), is_compared ? ExactMs(v.typical_ns) : "",
        is_compared ? SignedExactMs(v.latency_ns - v.typical_ns) : "");
    out_ += "</div>\n";
    if (is_compared) P("soft", "Coloured: this request. Grey, below: the usual time.");
    EndFold();
  }

  void WriteOthers() {
    if (report_.others.empty() && report_.drifts.empty()) return;
    H2("Not only this request");
    for (const std::string& other : report_.others)
      out_ += "<p class=\"card\">Also fired: " + WithSmallPrint(other) + "</p>\n";
    for (const Drift& drift : report_.drifts) {
      std::string text = DriftText(drift, trace_.window_end_ns);
      // Lines of a text become a paragraph.
      std::string flat;
      for (const char c : text) {
        if (c != '\n' && (c != ' ' || (!flat.empty() && flat.back() != ' '))) flat += c;
        if (c == '\n') flat += ' ';
      }
      P("card", flat.substr(flat.find(' ') + 1));
    }
  }

  void WriteFindings(const AnalysisReport& analysis) {
    std::vector<const FindingRow*> findings = analysis.Ranked();
    findings.erase(std::remove_if(findings.begin(), findings.end(), [](auto* finding) { return !IsShown(*finding); }),
                   findings.end());
    H2(judgement_ != nullptr ? "Other findings of this window" : "Findings of this window");
    if (findings.empty()) P("soft", "None.");
    const model::Interval time = ExplainedTime(judgement_);
    const auto is_grave = [&](const FindingRow* finding) {
      return finding->severity > Severity::kLow && IsAbout(*finding, time) && !IsBelow(*finding, judgement_);
    };
    const auto grave =
        static_cast<size_t>(std::stable_partition(findings.begin(), findings.end(), is_grave) - findings.begin());
    const size_t open = std::min(grave, kMostOpenFindings), shown = std::min(findings.size(), kMostListedFindings);
    for (size_t i = 0; i < open; ++i) WriteFinding(*findings[i]);
    if (open < shown) {
      Fold(base::Plural(findings.size() - open, open == 0 ? "finding" : "more finding"));
      for (size_t i = open; i < shown; ++i) WriteFinding(*findings[i]);
      if (findings.size() > shown)
        P("soft", "and " + base::Plural(findings.size() - shown, "lesser finding") + ": pitot analyze");
      EndFold();
    }
    for (const AnalyzerReport& report : analysis.analyzers) {
      if (!report.status.ok())
        P("soft", report.name + " (" + report.title + ") gave no answer: " + report.status.message());
    }
  }

  // "1.20 s before the trigger", "3.90 s into the window".
  std::string When(int64_t at_ns) const {
    const bool has_fired = !trace_.firings.empty();
    const int64_t after_ns = at_ns - (has_fired ? trace_.firings[0].at_ns : trace_.window_begin_ns);
    if (after_ns < 0) return Duration(-after_ns) + " before the " + (has_fired ? "trigger" : "window");
    return Duration(after_ns) + (has_fired ? " after the trigger" : " into the window");
  }

  void WriteFinding(const FindingRow& finding) {
    static constexpr const char* kSeverities[] = {"info", "low", "medium", "high"};
    const bool is_named = finding.subject == kAll || finding.summary.find(finding.subject) != std::string::npos;
    const char* severity = kSeverities[static_cast<size_t>(finding.severity) % std::size(kSeverities)];
    out_ += std::string("<div class=\"card ") + severity + "\"><h3><span>" +
            (is_named ? "" : Escape(finding.subject) + ": ") + Escape(finding.summary) + "</span></h3>\n";
    if (!finding.recommendation.empty()) P("", "\xe2\x86\x92 " + finding.recommendation);
    for (const Contradiction& other : finding.contradictions) P("soft", "but " + other.why);
    if (IsUsual(finding)) P("soft", UsualText(finding));
    if (finding.IsSilent()) P("soft", PrecisionText(finding));
    if (IsExplained(finding, judgement_)) P("soft", kExplained);
    Fold(std::string(severity) + Format(" severity, confidence %.2f", finding.confidence) +
         (finding.is_undetermined ? ", undetermined" : ""));
    std::string how = finding.code + " of " + finding.subject + ": " + finding.metric + " is " +
                      Value(finding.value, finding.threshold.unit) + ", threshold " +
                      Value(finding.threshold.value, finding.threshold.unit) + " (" + finding.threshold.source + ")";
    if (finding.cost_ns != 0) how += "; costs " + Duration(finding.cost_ns) + " of the window";
    P("soft", how);
    for (const std::string& caveat : finding.caveats) P("soft", "but " + caveat);
    for (const Contradiction& other : finding.contradictions)
      P("soft", "contradicted by " + other.code + " of " + other.subject);
    if (finding.repeats != 0) P("soft", "and " + base::Plural(finding.repeats, "lesser finding") + " like it");
    for (size_t i = 0; i < finding.evidence.size() && i < kMostListedEvidence; ++i) {
      const EvidenceRow& row = finding.evidence[i];
      P("soft", When(row.begin_ns) + ", for " + Duration(row.end_ns - row.begin_ns) +
                    (row.note.empty() ? "" : ": " + row.note));
    }
    EndFold();
    out_ += "</div>\n";
  }

  void WriteQuality() {
    H2("Quality of the recording");
    std::string text;
    uint64_t lost = 0;
    for (const model::LossRow& loss : trace_.losses) lost += loss.events;
    for (const model::GpuLossRow& loss : trace_.gpu_losses) lost += loss.records;
    const size_t stretches = trace_.losses.size() + trace_.gpu_losses.size();
    const char* const none = model::AreLossesUnknown(trace_) ? "The format does not say what was lost. "
                                                             : "Nothing was lost in the window. ";
    text += stretches == 0 ? none
                           : "Events or GPU records were lost in " + base::Plural(stretches, "part") +
                                 " of the window" + (lost != 0 ? " (" + base::Count(lost) + " or more)" : "") + ". ";
    if (judgement_ != nullptr) {
      const RequestBlame& blame = judgement_->blame;
      text += base::Plural(blame.segments.size(), "segment") + " add up to the latency in whole nanoseconds";
      text += blame.clamps == 0 ? ". "
                                : "; " + base::Plural(blame.clamps, "timestamp") + " contradicted another, by " +
                                      Duration(blame.clamped_ns) + ". ";
      if (blame.is_reliable && stretches != 0) text += "Nothing was lost in the time of this verdict. ";
      if (!blame.is_reliable) text += "Too much of its time is missing or contradictory to rely on. ";
    }
    const std::string why = model::WhyNoKernels(trace_);
    if (!why.empty()) text += "Kernels were not recorded: " + model::InHostLanguage(trace_, why) + ".";
    P("soft", text);
    for (const model::Attribute& attribute : trace_.attributes) {
      if (trace_.strings[attribute.key].rfind(model::kMissingCall, 0) == 0)
        P("", "Missing calls: " + Text(attribute.value));
    }
    WriteCost();
    if (const std::string version = Attribute("pitot.version"); !version.empty())
      P("soft", "Pitot " + version + "; report.txt and dump.pitot next to this file have the rest.");
  }

  void WriteCost() {
    const std::string recording = Attribute("cost.recording"), own = Attribute("cost.own_threads"),
                      seconds = Attribute("cost.seconds");
    std::string text;
    if (!recording.empty()) text += "Recording cost on your threads: " + recording + ". ";
    if (!own.empty()) text += "Pitot's own threads: " + own + ". ";
    if (text.empty()) return;
    double ran = 0;
    const bool is_known = std::from_chars(seconds.data(), seconds.data() + seconds.size(), ran).ec == std::errc();
    if (is_known && ran < kShortRunSeconds)
      text += "The recorder had run for " + seconds + " s: a short run inflates its cost. ";
    P("soft", text);
  }

  const Trace& trace_;
  const HtmlReport& report_;
  const Judgement* const judgement_;
  std::string headline_;                           // the verdict in a sentence
  bool has_others_ = false, has_members_ = false;  // a lane has some
  std::string out_;
};

}  // namespace
}  // namespace pitot::judge

PITOT_NAMESPACE_BEGIN
namespace analyze {

std::string ReportHtml(const model::Trace& trace, const HtmlReport& report) {
  return judge::Page(trace, report).Write();
}

}  // namespace analyze
PITOT_NAMESPACE_END
