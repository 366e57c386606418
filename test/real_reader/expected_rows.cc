// SPDX-License-Identifier: Apache-2.0
//
// Prints the rows that a Perfetto reader must find for a dump, tab-separated, straight from the trace's columns: no
// code is shared with the serializer that is being checked.
#include <cinttypes>
#include <cstdio>
#include <string>
#include <vector>

#include "pitot/read/dump.h"
#include "pitot/request.h"

namespace {

using pitot::SiteKind;
using namespace pitot::model;

std::string Text(std::string_view text) { return std::string(text); }

bool IsScope(SiteKind kind) {
  return kind == SiteKind::kScope || kind == SiteKind::kLeaf || kind == SiteKind::kPhase || kind == SiteKind::kWait;
}

std::string EventName(const Trace& trace, uint32_t event) {
  const SiteRow& site = trace.sites[trace.events.site[event]];
  // What a wait that is still open waits for is not known: arguments are recorded at the end.
  if (site.kind == SiteKind::kWait && trace.events.args[event] != kNone)
    return "wait " + Text(trace.strings[static_cast<StringId>(trace.arg_values[trace.events.args[event] + 1])]);
  return Text(trace.EventName(event));
}

void PrintThreads(const Trace& trace) {
  const EventColumns& events = trace.events;
  for (uint32_t row = 0; row < trace.threads.size(); ++row) {
    const ThreadRow& thread = trace.threads[row];
    std::printf("thread\t%" PRId64 "\t%s\n", thread.tid, Text(trace.strings[thread.name]).c_str());
    std::vector<int64_t> ends;  // of the scopes that are open where the next begins
    for (uint32_t event = thread.first_event; event < thread.first_event + thread.event_count; ++event) {
      const SiteKind kind = trace.sites[events.site[event]].kind;
      const int64_t begin = events.begin_ns[event], duration = events.duration_ns[event];
      if (kind == SiteKind::kInstant) {
        std::printf("instant\t%" PRId64 "\t%" PRId64 "\t%s\n", thread.tid, begin, EventName(trace, event).c_str());
      } else if (kind == SiteKind::kCounter) {
        std::printf("counter\t%" PRId64 "\t%s\n", begin, EventName(trace, event).c_str());
      } else if (IsScope(kind)) {
        while (!ends.empty() && ends.back() <= begin) ends.pop_back();
        std::printf("slice\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%zu\t%s\n", thread.tid, begin, duration, ends.size(),
                    EventName(trace, event).c_str());
        ends.push_back(duration == kOpen ? INT64_MAX : begin + duration);
      }
    }
  }
}

void PrintRequests(const Trace& trace) {
  for (const RequestRow& request : trace.requests) {
    const std::string route = Text(trace.strings[request.route]);
    std::printf("request\t%s\t%" PRId64 "\t%" PRId64 "\t%016" PRIx64 "\t%s\n", route.c_str(), request.begin_ns,
                request.duration_ns, request.id, request.end_known ? pitot::OutcomeName(request.outcome) : "");
    for (const Stage& stage : request.stages)
      std::printf("stage\t%016" PRIx64 "\t%" PRId64 "\t%" PRId64 "\t%s\n", request.id, stage.begin_ns,
                  stage.duration_ns, Text(trace.strings[stage.name]).c_str());
  }
}

void PrintBatches(const Trace& trace) {
  for (const BatchRow& batch : trace.batches)
    std::printf("batch\t%016" PRIx64 "\t%" PRId64 "\t%" PRId64 "\t%u\n", batch.id, batch.begin_ns, batch.duration_ns,
                batch.member_count);
  for (const HandoffRow& handoff : trace.handoffs) {
    if (handoff.batch == kNone) continue;
    std::printf("arrow\t%016" PRIx64 "\t%016" PRIx64 "\t%" PRId64 "\n", trace.requests[handoff.request].id,
                trace.batches[handoff.batch].id, handoff.enqueue_ns);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: pitot_expected_rows DUMP\n");
    return 2;
  }
  Trace trace;
  pitot::DumpReport report;
  const pitot::Status status = pitot::ReadDump(argv[1], &trace, &report);
  if (!status.ok()) {
    std::fprintf(stderr, "%s: %s\n", argv[1], status.message());
    return 1;
  }
  PrintThreads(trace);
  PrintRequests(trace);
  PrintBatches(trace);
  return 0;
}
