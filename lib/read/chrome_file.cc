// SPDX-License-Identifier: Apache-2.0
#include "read/chrome_file.h"

#include <memory>
#include <string>

#include "base/columns.h"
#include "read/event_splitter.h"
#include "read/format.h"

namespace pitot::read {

Status ReadChromeFile(const Input& input, ChromeTarget* target, TraceReport* report) {
  using Piece = EventSplitter::Piece;
  const std::unique_ptr<ByteSource> source = input.Open(&report->is_gzip);
  EventSplitter splitter(source.get());
  ChromeDecoder decoder;
  ChromeEvent event;
  bool was_too_deep = false;
  uint64_t documents = 1;
  Piece piece;
  while ((piece = splitter.Next()) < Piece::kEnd) {
    was_too_deep |= piece == Piece::kTooDeep || piece == Piece::kTooDeepMember;
    if (piece == Piece::kDocument) {
      ++documents;
      target->BeginDocument();
    }
    if (piece == Piece::kMember) target->TakeMember(splitter.key(), splitter.text(), &decoder);
    if (piece != Piece::kEvent && piece != Piece::kTooDeep && piece != Piece::kBroken) continue;
    ++report->events;
    const bool is_good =
        piece == Piece::kEvent && decoder.Event(splitter.text(), splitter.capacity(), &event) && target->Take(event);
    report->events_bad += !is_good;
  }
  const bool is_unfinished_list = piece == Piece::kCut && splitter.ended_between_events() && source->status().ok();
  const bool is_whole = piece == Piece::kEnd || is_unfinished_list;
  report->complete = is_whole && report->events_bad == 0 && !was_too_deep;
  if (decoder.repaired() != 0)
    AddProblem(base::Plural(decoder.repaired(), "event") + " had text that is not UTF-8", report);
  if (documents > 1) AddProblem(base::Count(documents) + " documents were read: it goes on after its end", report);
  const StatusCode code = source->status().code();
  if (code != StatusCode::kOk && code != StatusCode::kDataLoss) return source->status();
  if (!splitter.has_events()) return Status(StatusCode::kInvalidArgument, "it has no traceEvents");
  if (report->complete) return {};
  std::string loss = is_whole ? "" : splitter.problem();
  if (report->events_bad != 0)
    loss += (loss.empty() ? "" : "; ") + base::Plural(report->events_bad, "event") + " of " +
            base::Count(report->events) + " could not be read";
  if (was_too_deep) loss += loss.empty() ? "a part is nested more than 500 deep" : " (nested more than 500 deep)";
  return Status(StatusCode::kDataLoss, loss.c_str());
}

}  // namespace pitot::read
