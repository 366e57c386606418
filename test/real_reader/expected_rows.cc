// SPDX-License-Identifier: Apache-2.0
//
// Prints the rows that a Perfetto reader must find for a dump, tab-separated, straight from the trace's columns: no
// code is shared with the serializer that is being checked.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "pitot/model/index.h"
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
  if (site.kind == SiteKind::kWait && trace.events.args[event] != kNone)
    return "wait " + Text(trace.strings[static_cast<StringId>(trace.arg_values[trace.events.args[event] + 1])]);
  return Text(trace.EventName(event));
}

// The last argument, as a number.
double CounterValue(const Trace& trace, uint32_t event) {
  const SiteRow& site = trace.sites[trace.events.site[event]];
  const size_t last = site.arg_types.size() - 1;
  const uint64_t word = trace.arg_values[trace.events.args[event] + last];
  double value = 0;
  if (site.arg_types[last] == pitot::ArgType::kDouble)
    std::memcpy(&value, &word, sizeof value);
  else
    value = site.arg_types[last] == pitot::ArgType::kInt ? static_cast<double>(static_cast<int64_t>(word))
                                                         : static_cast<double>(word);
  return value;
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
        std::printf("counter\t%" PRId64 "\t%s\t%.17g\n", begin, EventName(trace, event).c_str(),
                    CounterValue(trace, event));
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
  const RequestIndex index(trace);
  const auto is_scope = [&](uint32_t event) { return ::IsScope(trace.sites[trace.events.site[event]].kind); };
  const auto begin = [&](uint32_t event) { return trace.events.begin_ns[event]; };
  for (uint32_t batch = 0; batch < trace.batches.size(); ++batch) {
    const BatchRow& row = trace.batches[batch];
    for (const uint32_t event : index.BatchEvents(batch)) {
      if (trace.events.thread[event] != row.thread || !is_scope(event) || begin(event) < row.begin_ns) continue;
      std::printf("to_scope\t%016" PRIx64 "\t%" PRId64 "\t%s\n", row.id, begin(event), EventName(trace, event).c_str());
      break;
    }
  }
  for (const MemberRow& member : trace.members) {
    const bool was_queued = std::any_of(trace.handoffs.begin(), trace.handoffs.end(), [&](const HandoffRow& handoff) {
      return handoff.request == member.request && handoff.batch == member.batch;
    });
    if (!was_queued)
      std::printf("joined\t%016" PRIx64 "\t%016" PRIx64 "\n", trace.requests[member.request].id,
                  trace.batches[member.batch].id);
  }
  for (const HandoffRow& handoff : trace.handoffs) {
    if (handoff.batch == kNone) {
      for (const uint32_t event : index.Events(handoff.request)) {
        if (handoff.to_thread == kNone || handoff.take_ns == 0 || trace.events.thread[event] != handoff.to_thread ||
            !is_scope(event) || begin(event) < handoff.take_ns)
          continue;
        std::printf("adopted\t%016" PRIx64 "\t%" PRId64 "\t%" PRId64 "\n", trace.requests[handoff.request].id,
                    handoff.enqueue_ns, begin(event));
        break;
      }
      continue;
    }
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
