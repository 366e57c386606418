// SPDX-License-Identifier: Apache-2.0
#include "pitot/read/kineto.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "base/columns.h"
#include "base/text.h"
#include "model/depth_rows.h"
#include "model/fill_columns.h"
#include "model/loss_rows.h"
#include "read/byte_source.h"
#include "read/decimal.h"
#include "read/event_splitter.h"
#include "read/kineto_builder.h"
#include "read/kineto_event.h"
#include "read/repaired.h"

namespace pitot::read {
namespace {

using model::Trace;
using Piece = EventSplitter::Piece;

class KinetoParser {
 public:
  KinetoParser(ByteSource* source, Trace* trace, KinetoReport* report)
      : splitter_(source), builder_(trace, report), source_(*source), report_(*report) {}

  Status Parse() {
    Piece piece;
    while ((piece = splitter_.Next()) < Piece::kEnd) Take(piece);
    report_.bytes = splitter_.bytes();
    report_.complete = piece == Piece::kEnd;
    const StatusCode code = source_.status().code();
    if (code != StatusCode::kOk && code != StatusCode::kDataLoss) return source_.status();
    if (piece == Piece::kNoTrace || !splitter_.has_events()) {
      const bool is_cut = piece == Piece::kCut || code != StatusCode::kOk;
      return Status(StatusCode::kInvalidArgument, piece == Piece::kNoTrace ? splitter_.problem()
                                                  : is_cut                 ? "it ends before its events begin"
                                                                           : "it has no traceEvents");
    }
    // A list may hold other things. One named traceEvents is a trace, however damaged.
    if (splitter_.is_bare_list() && report_.events_bad == report_.events && (report_.events != 0 || !report_.complete))
      return Status(StatusCode::kInvalidArgument, ("it has no readable event: " + LossText()).c_str());
    ++report_.documents;
    TakeWindow();
    if (windows_ == report_.documents) builder_.SetWindow(window_);
    builder_.Finish(!report_.complete);
    if (report_.complete && report_.events_bad == 0 && !depth_was_exceeded_) return Status();
    return Status(StatusCode::kDataLoss, LossText().c_str());
  }

 private:
  // The parts that could not be read.
  std::string LossText() const {
    std::string problem = report_.complete ? "" : splitter_.problem();
    if (report_.events_bad != 0)
      problem += (problem.empty() ? "" : "; ") + base::Plural(report_.events_bad, "event") + " made no sense, of " +
                 base::Count(report_.events);
    if (!deep_member_.empty())
      problem += (problem.empty() ? "" : "; ") + ("its \"" + base::Cut(base::SanitizeText(deep_member_), 40)) +
                 "\" is left out";
    if (depth_was_exceeded_) problem += " (nested more than 500 deep)";
    return problem;
  }
  void Take(Piece piece) {
    if (piece == Piece::kMember) return TakeMember();
    if (piece == Piece::kDocument) return BeginDocument();
    if (piece == Piece::kBroken) return SkipBad();
    if (piece == Piece::kTooDeep || piece == Piece::kTooDeepMember) depth_was_exceeded_ = true;
    if (piece == Piece::kTooDeepMember) return void(deep_member_ = splitter_.key());
    if (piece == Piece::kTooDeep) return SkipBad();
    switch (decoder_.Event(splitter_.text(), splitter_.capacity(), &event_)) {
      case Decoded::kOk:
        return Add();
      case Decoded::kNoJson:
        return SkipBad();
      case Decoded::kNotText:
        return TakeRepaired();
    }
  }
  void Add() {
    report_.events_as_written += event_.is_as_written;
    if (later_ns_ != 0 && event_.begin_ns && *event_.begin_ns > 0 && *event_.begin_ns < model::kMaxTimeNs)
      *event_.begin_ns += later_ns_;
    builder_.Add(event_);
  }
  // The times of each document are relative to its own base.
  void BeginDocument() {
    ++report_.documents;
    TakeWindow();
    if (!first_base_ns_) first_base_ns_ = 0;
    later_ns_ = -*first_base_ns_;
    builder_.BeginDocument();
  }
  void SetBaseTime(int64_t base_ns) {
    constexpr int64_t kMost = model::kMaxTimeNs / 2;
    base_ns = std::clamp(base_ns, -kMost, kMost);
    if (!first_base_ns_) builder_.SetBaseTime(*(first_base_ns_ = base_ns));
    later_ns_ = base_ns - *first_base_ns_;
  }
  // Pitot's files say the window. That of several documents is known if all do.
  void TakeWindow() {
    if (window_begin_ns_ && window_end_ns_ && *window_begin_ns_ <= *window_end_ns_) {
      if (windows_++ == 0) window_ = {INT64_MAX, INT64_MIN};
      window_ = {std::min(window_.begin_ns, *window_begin_ns_), std::max(window_.end_ns, *window_end_ns_)};
    }
    window_begin_ns_ = window_end_ns_ = std::nullopt;
  }
  void SkipBad() {
    ++report_.events;
    ++report_.events_bad;
  }
  void TakeRepaired() {
    repaired_ = Repaired(splitter_.text());
    const size_t size = repaired_.size();
    repaired_.append(EventSplitter::kPaddingBytes, '\0');
    if (decoder_.Event({repaired_.data(), size}, repaired_.size(), &event_) != Decoded::kOk) return SkipBad();
    ++report_.events_not_text;
    Add();
  }
  void TakeMember() {
    const std::string_view key = splitter_.key();
    if (key == "deviceProperties") return builder_.AddDevices(decoder_.Devices(splitter_.text(), splitter_.capacity()));
    if (key == "baseTimeNanoseconds") return SetBaseTime(ParseDecimal(splitter_.text(), 0).value_or(0));
    if (key == "distributedInfo") {
      if (const auto rank = decoder_.Rank(splitter_.text(), splitter_.capacity())) builder_.SetRank(*rank);
      return;
    }
    const auto value = decoder_.Scalar(splitter_.text());
    if (!value) return;
    if (key == model::kDepthsKey || key == model::kOperatorDepthsKey)
      return builder_.AddDepths(model::DepthsOf(*value), key == model::kOperatorDepthsKey, later_ns_);
    if (key == model::kLossesKey || key == model::kGpuLossesKey)
      return builder_.AddLosses(*value, key == model::kGpuLossesKey, later_ns_);
    if (key == model::kWindowBeginKey || key == model::kWindowEndKey) {
      const std::optional<int64_t> ns = ParseDecimal(*value, 0);
      if (ns) (key == model::kWindowBeginKey ? window_begin_ns_ : window_end_ns_) = TimeOf(*ns);
      return;
    }
    builder_.AddAttribute(key, *value);
  }
  // On the clock of the first document, within the range of times.
  int64_t TimeOf(int64_t ns) const {
    ns = std::clamp<int64_t>(ns, 0, model::kMaxTimeNs);
    return ns + std::clamp<int64_t>(later_ns_, -ns, model::kMaxTimeNs - ns);
  }

  EventSplitter splitter_;
  KinetoDecoder decoder_;
  KinetoBuilder builder_;
  KinetoEvent event_;
  ByteSource& source_;
  KinetoReport& report_;
  std::optional<int64_t> first_base_ns_;
  int64_t later_ns_ = 0;                                    // the base of the document being read, after the first one
  std::optional<int64_t> window_begin_ns_, window_end_ns_;  // of the document being read
  model::Interval window_ = {0, 0};                         // of those before that say it
  uint64_t windows_ = 0;                                    // how many did
  std::string repaired_;
  std::string deep_member_;  // the last member that was nested too deep
  bool depth_was_exceeded_ = false;
};

Status Read(std::unique_ptr<ByteSource> packed, Trace* trace, KinetoReport* report) {
  *trace = Trace();
  *report = KinetoReport();
  const std::unique_ptr<ByteSource> source = Unpacked(std::move(packed), &report->is_gzip);
  Status status = KinetoParser(source.get(), trace, report).Parse();
  if (status.ok() || status.code() == StatusCode::kDataLoss) {
    schema::FillColumns(trace);
    const std::string wrong = model::FindInconsistency(*trace);
    if (wrong.empty()) return status;
    status = Status(StatusCode::kInternal, ("the reader made an inconsistent trace: " + wrong).c_str());
  }
  *trace = Trace();
  return status;
}

template <class Open> Status Guarded(const Open& open, Trace* trace, KinetoReport* report) noexcept {
  try {
    return Read(open(), trace, report);
  } catch (const std::bad_alloc&) {
    *trace = Trace();
    return Status(StatusCode::kResourceExhausted, "no memory for the trace");
  } catch (...) {
    *trace = Trace();
    return Status(StatusCode::kInternal, "the trace could not be read");
  }
}

}  // namespace
}  // namespace pitot::read

PITOT_NAMESPACE_BEGIN

std::string KinetoReport::Problems() const {
  std::string problems;
  const auto count_was = [](uint64_t count) { return std::string(count == 1 ? " was" : " were"); };
  const auto add = [&](uint64_t count, const char* what) {
    if (count == 0) return;
    problems += (problems.empty() ? "" : "; ") + base::Count(count) + what;
  };
  const auto add_things = [&](uint64_t count, const char* thing, const std::string& what) {
    if (count != 0) problems += (problems.empty() ? "" : "; ") + base::Plural(count, thing) + what;
  };
  const auto add_events = [&](uint64_t count, const std::string& what) { add_things(count, "event", what); };
  add_events(events_bad, " made no sense");
  add_events(events_not_text, count_was(events_not_text) + " not UTF-8");
  add_events(events_as_written,
             " had backslashes that are not escaped, or escaped control characters, read as written");
  if (!unknown_kinds.empty())
    add_events(events_unknown, count_was(events_unknown) + " of unknown kinds (" + unknown_kinds + ")");
  if (documents > 1) add(documents, " documents were read: it goes on after its end");
  add(processes > 1 ? processes : 0, " processes are in the file and were kept apart");
  add_events(times_out_of_range, " had a time before 0 or beyond 2^62 ns");
  add_events(durations_negative, " had a negative duration, taken as 0");
  add_things(correlations_shared, "call", " had the correlation id of an earlier one");
  add_things(correlations_mixed, "call",
             " of these had that of another process: work may be given to the wrong rank; take one file for each");
  add_things(gpu_unlinked, "GPU record", " had no call in the file");
  add_events(host_no_time, " of threads had no time and" + count_was(host_no_time) + " left out");
  add_things(gpu_no_time, "GPU record", " had no time and" + count_was(gpu_no_time) + " set aside");
  add_things(gpu_impossible, "GPU record",
             " had an impossible duration and" + count_was(gpu_impossible) + " set aside");
  add(launches_without_work,
      launches_without_work == 1 ? " launch had no GPU work in the file" : " launches had no GPU work in the file");
  // A few unused names are normal.
  if (names_unused > 1000) add(names_unused, " names are of threads that did nothing");
  return problems;
}

Status ReadKineto(const std::string& path, model::Trace* trace, KinetoReport* report) noexcept {
  return read::Guarded([&] { return read::FromFile(path); }, trace, report);
}

Status ParseKineto(const void* data, uint64_t size, model::Trace* trace, KinetoReport* report) noexcept {
  return read::Guarded([&] { return read::FromMemory(data, size); }, trace, report);
}

PITOT_NAMESPACE_END
