// SPDX-License-Identifier: Apache-2.0
//
// Chrome's JSON (the "Trace Event Format"), as viztracer and many other tools write it.
#include <stdlib.h>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/columns.h"
#include "read/chrome_file.h"
#include "read/decimal.h"
#include "read/formats.h"
#include "read/trace_builder.h"

namespace pitot::read {
namespace {

using model::kNone;
using model::kOpen;

class ChromeReader final : public ChromeTarget {
 public:
  ChromeReader(model::Trace* trace, TraceReport* report) : builder_(trace), report_(*report) {}

  bool Take(const ChromeEvent& event) override {
    const char phase = event.phase.size() == 1 ? event.phase[0] : '\0';
    if (phase == 'M') return TakeName(event), true;
    // JAX and others end a list with an empty object.
    if (phase == '\0') return ++unused_, !event.phase.empty() || event.name.empty();
    if (!IsKnown(phase)) return ++unused_, true;
    if (phase == 'X' && IsSummary(event)) return ++summaries_, true;
    if (!event.begin_ns || (event.has_duration && !event.duration_ns)) return false;
    if (!builder_.IsInRange(*event.begin_ns)) return true;
    switch (phase) {
      case 'X':
        return TakeSpan(event, event.duration_ns.value_or(kOpen)), true;
      case 'B':
      case 'E':
        return Keep(event), true;
      case 'i':
      case 'I':
      case 'R':
        builder_.AddEvent(Thread(event), builder_.Site(SiteKind::kInstant, event.name, event.args),
                          {*event.begin_ns, 0}, event.args);
        return true;
      case 'C':
        return TakeCounter(event);
      default:
        return TakeAsync(event, phase);
    }
  }

  void TakeMember(std::string_view key, std::string_view json, ChromeDecoder* decoder) override {
    if (json.empty()) return;
    if (key == "viztracer_metadata") {
      report_.tool = "viztracer";
      for (const ChromeValue& value : decoder->Object(json)) {
        if (value.key == "overflow") has_overflow_ = value.text == "true";
        if (value.key == "version") builder_.AddAttribute("viztracer.version", value.text);
        if (value.key == "baseTimeNanoseconds") builder_.SetUnixOffset(value.Number().value_or(0));
      }
    } else if (key == "beginningOfTime") {
      TakeUnixMicroseconds(json);
    } else if (json[0] != '{' && json[0] != '[') {
      const bool is_text = json.size() >= 2 && json[0] == '"';
      builder_.AddAttribute(key, is_text ? json.substr(1, json.size() - 2) : json);
    }
  }

  void Finish() {
    MatchMarks();
    for (auto& [key, async] : asyncs_) MatchAsyncs(&async);
    builder_.Finish(!report_.complete);
    report_.counts = {
        {"unused", unused_}, {"arrows", arrows_}, {"summaries", summaries_}, {"ends_without_begin", ends_}};
    if (summaries_ != 0)
      AddProblem(base::Plural(summaries_, "sum") + " of other events (\"Total ...\") " +
                     (summaries_ == 1 ? "was" : "were") + " left out",
                 &report_);
    if (ends_ != 0) AddProblem(base::Plural(ends_, "end") + " had no begin", &report_);
    builder_.ReportTimes(&report_);
    if (has_overflow_) {
      builder_.NoteOverwritten();
      AddProblem("viztracer's buffer was full, and the oldest events are missing: record with a larger tracer_entries",
                 &report_);
    }
  }

 private:
  // A begin or an end of a span of a thread.
  struct Mark {
    int64_t at_ns;
    uint32_t site;  // kNone: an end without a name
    bool is_begin;
    uint32_t name;
    std::vector<std::pair<std::string, std::string>> args;  // JSON or text, by key
    std::vector<bool> are_texts;
  };
  // A begin, an end or a moment of a span of an id.
  struct AsyncMark {
    int64_t at_ns;
    char phase;  // 'b', 'e' or 'n'
    uint32_t thread, site;
    std::string name;
  };
  // The spans of one id.
  struct Asyncs {
    std::string id;
    std::vector<AsyncMark> marks;
  };

  static bool IsKnown(char phase) {
    return std::string_view("XBEiIRCbneSTpFstf").find(phase) != std::string_view::npos;
  }

  // LLVM's profiler adds up its events by name, each sum on a thread of its own.
  static bool IsSummary(const ChromeEvent& event) {
    return event.name.starts_with("Total ") && event.Find("avg ms") != nullptr;
  }

  // Unix time at 0, as LLVM's profiler writes it.
  void TakeUnixMicroseconds(std::string_view json) {
    const int64_t us = ParseDecimal(json, 0).value_or(0);
    if (us <= 0 || us > model::kMaxTimeNs / 1000) return;
    builder_.SetUnixOffset(us * 1000);
    report_.tool = "LLVM's time profiler";
  }

  uint32_t Thread(const ChromeEvent& event) {
    return builder_.Thread(builder_.Number(event.pid), builder_.Number(event.tid));
  }

  void TakeName(const ChromeEvent& event) {
    if (event.name == "process_name") {
      builder_.NameProcess(builder_.Number(event.pid), event.Text("name"));
    } else if (event.name == "thread_name") {
      builder_.NameThread(builder_.Number(event.pid), builder_.Number(event.tid), event.Text("name"));
    } else {
      ++unused_;
    }
  }

  // viztracer calls a function "work (/folder/file.py:12)".
  uint32_t SiteOf(const ChromeEvent& event) {
    const uint32_t site = builder_.Site(SiteKind::kScope, event.name, event.args);
    const size_t bracket = event.name.rfind(" ("), colon = event.name.rfind(':');
    if (event.category != "FEE" || bracket == std::string_view::npos || colon == std::string_view::npos ||
        colon < bracket || event.name.back() != ')' || builder_.HasPlace(site))
      return site;
    const auto line = ParseDecimal(event.name.substr(colon + 1, event.name.size() - colon - 2), 0);
    if (line && *line >= 0 && *line <= UINT32_MAX)
      builder_.SetPlace(site, event.name.substr(0, bracket), event.name.substr(bracket + 2, colon - bracket - 2),
                        static_cast<uint32_t>(*line));
    return site;
  }

  void TakeSpan(const ChromeEvent& event, int64_t duration_ns) {
    builder_.AddEvent(Thread(event), SiteOf(event), {*event.begin_ns, duration_ns}, event.args);
  }

  void Keep(const ChromeEvent& event) {
    Mark mark = {*event.begin_ns, kNone, event.phase == "B", builder_.Intern(event.name), {}, {}};
    if (mark.is_begin) {
      mark.site = SiteOf(event);
      for (const ChromeValue& arg : event.args) {
        mark.args.emplace_back(arg.key, arg.text);
        mark.are_texts.push_back(arg.is_text);
      }
    }
    marks_[Thread(event)].push_back(std::move(mark));
  }

  // An end with a name ends the last open begin of that name, and those within it; one without a name the last open
  // begin. Begins may be out of order in the file.
  void MatchMarks() {
    for (auto& [thread, marks] : marks_) {
      std::stable_sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) { return a.at_ns < b.at_ns; });
      std::vector<const Mark*> open;
      std::unordered_map<uint32_t, size_t> counts;  // of the open begins, by name
      const auto close = [&, of = thread](int64_t end_ns) {
        const Mark& begin = *open.back();
        open.pop_back();
        --counts[begin.name];
        std::vector<ChromeValue> args;
        for (size_t i = 0; i < begin.args.size(); ++i)
          args.push_back({begin.args[i].first, begin.args[i].second, begin.are_texts[i]});
        builder_.AddEvent(of, begin.site, {begin.at_ns, end_ns == kOpen ? kOpen : end_ns - begin.at_ns}, args);
      };
      for (const Mark& mark : marks) {
        if (mark.is_begin) {
          open.push_back(&mark);
          ++counts[mark.name];
        } else if (open.empty() || (mark.name != 0 && counts[mark.name] == 0)) {
          ++ends_;
        } else {
          while (mark.name != 0 && open.back()->name != mark.name) close(mark.at_ns);
          close(mark.at_ns);
        }
      }
      while (!open.empty()) close(kOpen);
    }
    marks_.clear();
  }

  bool TakeCounter(const ChromeEvent& event) {
    std::string name(event.name);
    if (!event.id.text.empty()) name += " " + std::string(event.id.text);
    bool has_value = false;
    for (const ChromeValue& arg : event.args) {
      const std::string text(arg.text);
      char* end = nullptr;
      const double value = strtod(text.c_str(), &end);
      if (text.empty() || *end != '\0') continue;
      const bool is_only = event.args.size() == 1 && (arg.key == event.name || arg.key == "value");
      builder_.AddSample(builder_.Number(event.pid), is_only ? name : name + " " + std::string(arg.key),
                         *event.begin_ns, value);
      has_value = true;
    }
    return has_value;
  }

  // Spans of one category and id belong to no thread, and nest. The outermost is a request, the others are its parts.
  bool TakeAsync(const ChromeEvent& event, char phase) {
    if (phase == 's' || phase == 't' || phase == 'f') return ++arrows_, true;
    if (event.id.text.empty()) return false;
    std::string key =
        std::string(event.category) + '\0' + std::string(event.id.text) + '\0' + std::string(event.scope.text) + '\0';
    // The older kind is told apart by name.
    if (phase == 'S' || phase == 'T' || phase == 'p' || phase == 'F') key += event.name;
    if (event.is_local_id) key += '\0' + std::to_string(builder_.Number(event.pid));
    Asyncs& async = asyncs_[key];
    async.id = event.id.text;
    const bool is_begin = phase == 'b' || phase == 'S', is_end = phase == 'e' || phase == 'F';
    const uint32_t site = is_end ? kNone : builder_.Site(SiteKind::kAsyncBegin, event.name);
    async.marks.push_back({*event.begin_ns,
                           is_begin ? 'b'
                           : is_end ? 'e'
                                    : 'n',
                           Thread(event), site, std::string(event.name)});
    return true;
  }

  // As MatchMarks.
  void MatchAsyncs(Asyncs* async) {
    std::stable_sort(async->marks.begin(), async->marks.end(),
                     [](const AsyncMark& a, const AsyncMark& b) { return a.at_ns < b.at_ns; });
    std::vector<const AsyncMark*> open;
    std::unordered_map<std::string_view, size_t> counts;  // of the open begins, by name
    std::vector<TraceBuilder::Async> parts;               // of the outermost
    const auto close = [&](int64_t end_ns, uint32_t thread) {
      const AsyncMark& begin = *open.back();
      open.pop_back();
      --counts[begin.name];
      const TraceBuilder::Span time = {begin.at_ns, end_ns == kOpen ? kOpen : end_ns - begin.at_ns};
      const TraceBuilder::Async span = {begin.site, time, begin.thread, thread};
      if (!open.empty()) return parts.push_back(span);
      builder_.AddRequest(begin.name, async->id, span, parts);
      parts.clear();
    };
    for (const AsyncMark& mark : async->marks) {
      if (mark.phase == 'b') {
        open.push_back(&mark);
        ++counts[mark.name];
      } else if (mark.phase == 'n') {
        if (open.empty()) {
          ++unused_;  // a moment of nothing
        } else {
          parts.push_back({mark.site, {mark.at_ns, 0}, mark.thread, mark.thread});
        }
      } else if (open.empty() || (!mark.name.empty() && counts[mark.name] == 0)) {
        ++ends_;
      } else {
        while (!mark.name.empty() && open.back()->name != mark.name) close(mark.at_ns, mark.thread);
        close(mark.at_ns, mark.thread);
      }
    }
    while (!open.empty()) close(kOpen, kNone);
  }

  TraceBuilder builder_;
  TraceReport& report_;
  std::map<uint32_t, std::vector<Mark>> marks_;  // by thread
  std::map<std::string, Asyncs> asyncs_;         // by category, id, and what else tells ids apart
  uint64_t unused_ = 0, arrows_ = 0, summaries_ = 0, ends_ = 0;
  bool has_overflow_ = false;
};

bool IsChrome(const Head& head) { return head.json.events != 0 || head.IsCutJson(); }

Status ReadChrome(const Input& input, model::Trace* trace, TraceReport* report) {
  ChromeReader reader(trace, report);
  Status status = ReadChromeFile(input, &reader, report);
  if (status.ok() || status.code() == StatusCode::kDataLoss) reader.Finish();
  return status;
}

}  // namespace

const Format kChromeFormat = {"chrome",
                              "Chrome JSON",
                              "Chrome JSON",
                              "a tool that writes Chrome's JSON",
                              "it has names of threads at most: record while the program works",
                              {"the threads that work for a request", "queues", "batches", "GPU work", "operators",
                               "arrows between spans", "losses", "triggers", "tokens"},
                              {{"scope", "trace functions or name spans"}, {"request", "name asynchronous spans"}},
                              IsChrome,
                              ReadChrome};

}  // namespace pitot::read
