// SPDX-License-Identifier: Apache-2.0
//
// Prints the rows that a Perfetto reader must find for a dump, tab-separated, straight from the trace's columns. It
// shares no code with the serializer under test.
#include <cxxabi.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pitot/model/index.h"
#include "pitot/read/dump.h"
#include "pitot/request.h"

namespace {

using pitot::SiteKind;
using namespace pitot::model;

std::string Text(std::string_view text) { return std::string(text); }

bool IsScope(SiteKind kind) {
  return kind == SiteKind::kScope || kind == SiteKind::kLeaf || kind == SiteKind::kPhase || kind == SiteKind::kWait ||
         kind == SiteKind::kOperator;
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
    std::vector<int64_t> ends;  // of the scopes open at the begin of the next
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

std::string StreamName(const Trace& trace, uint32_t row) {
  const StreamRow& stream = trace.streams[row];
  std::string name = "stream " + std::to_string(stream.stream) + " (context " + std::to_string(stream.context) + ")";
  if (stream.name != 0) name += " " + Text(trace.strings[stream.name]);
  return name;
}
std::string DeviceName(const Trace& trace, uint32_t row) {
  if (row == kNone) return "GPU (unknown)";
  return "GPU " + std::to_string(trace.devices[row].ordinal) + " " + Text(trace.strings[trace.devices[row].name]);
}
// Graphs without a name of their own are told apart by their number.
std::string GraphName(std::string name, uint32_t graph) {
  if (name.empty()) name = "graph";
  const bool has_number = name.find_first_of("0123456789") != std::string::npos;
  return graph == 0 || has_number ? name : name + " " + std::to_string(graph);
}
// The name in C++.
std::string KernelName(const std::string& compiled) {
  int status = 0;
  char* const text = abi::__cxa_demangle(compiled.c_str(), nullptr, nullptr, &status);
  const std::string name = text == nullptr ? compiled : text;
  std::free(text);
  return name;
}

void PrintGpu(const Trace& trace) {
  const GpuColumns& gpu = trace.gpu;
  const CallColumns& calls = trace.calls;
  for (uint32_t call = 0; call < calls.size(); ++call) {
    const uint32_t stream = calls.stream[call], device = calls.device[call];
    const std::string name = Text(trace.strings[calls.name[call]]);
    std::string awaited;
    if (stream != kNone)
      awaited = StreamName(trace, stream);
    else if (device != kNone)
      awaited = "all streams of GPU " + std::to_string(trace.devices[device].ordinal);
    std::printf("call\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%s\t%s\n",
                calls.thread[call] == kNone ? 0 : trace.threads[calls.thread[call]].tid, calls.begin_ns[call],
                calls.duration_ns[call], name.c_str(), awaited.c_str());
    if (stream != kNone || device != kNone)
      std::printf("wait\t%s\twaits for %s\t%" PRId64 "\t%" PRId64 "\t%s\n",
                  DeviceName(trace, stream != kNone ? trace.streams[stream].device : device).c_str(),
                  stream != kNone ? awaited.c_str() : "all streams", calls.begin_ns[call], calls.duration_ns[call],
                  name.c_str());
  }
  std::set<std::pair<uint32_t, uint32_t>> seen;  // calls and streams with their arrow
  for (uint32_t row = 0; row < gpu.size(); ++row) {
    const std::string name = Text(trace.strings[gpu.name[row]]);
    const std::string shown = gpu.kind[row] == GpuKind::kKernel   ? KernelName(name)
                              : gpu.kind[row] == GpuKind::kMemcpy ? "memcpy " + name
                              : gpu.kind[row] == GpuKind::kMemset ? "memset " + name
                              : gpu.kind[row] == GpuKind::kSpan   ? name
                                                                  : GraphName(name, gpu.graph[row]);
    const uint32_t stream = gpu.stream[row], call = gpu.call[row];
    std::printf("gpu\t%s\t%s\t%" PRId64 "\t%" PRId64 "\t%s\t%" PRIu64 "\t%u\t%s\t%s\n",
                DeviceName(trace, trace.streams[stream].device).c_str(), StreamName(trace, stream).c_str(),
                gpu.begin_ns[row], gpu.duration_ns[row], shown.c_str(), gpu.bytes[row], gpu.graph[row],
                Text(trace.strings[gpu.scope_path[row]]).c_str(), name.c_str());
    if (call != kNone)
      std::printf("caused\t%s\t%" PRId64 "\t%s\t%" PRId64 "\n", Text(trace.strings[calls.name[call]]).c_str(),
                  calls.begin_ns[call], StreamName(trace, stream).c_str(), gpu.begin_ns[row]);
    if (call != kNone && seen.emplace(call, stream).second)
      std::printf("launch\t%s\t%" PRId64 "\t%s\t%" PRId64 "\n", Text(trace.strings[calls.name[call]]).c_str(),
                  calls.begin_ns[call], StreamName(trace, stream).c_str(), gpu.begin_ns[row]);
  }
  for (uint32_t i = 0; i < trace.samples.size(); ++i) {
    const CounterRow& counter = trace.counters[trace.samples.counter[i]];
    std::printf("sample\t%" PRId64 "\t%s\t%.17g\t%s\t%s\n", trace.samples.at_ns[i],
                Text(trace.strings[counter.name]).c_str(), trace.samples.value[i],
                counter.device == kNone ? "" : DeviceName(trace, counter.device).c_str(),
                Text(trace.strings[counter.unit]).c_str());
  }
  static const char* const depths[] = {"scopes", "graphs", "kernels", "ops"};
  for (const DepthRow& row : trace.depths)
    std::printf("recording\trecorded depth\t%" PRId64 "\t%" PRId64 "\t%s\n", row.begin_ns, row.end_ns - row.begin_ns,
                depths[static_cast<int>(row.depth)]);
  for (const DepthRow& row : trace.operator_depths)
    std::printf("recording\trecorded operators\t%" PRId64 "\t%" PRId64 "\t%s\n", row.begin_ns,
                row.end_ns - row.begin_ns, depths[static_cast<int>(row.depth)]);
  for (const OverheadRow& row : trace.overheads)
    std::printf("recording\toverheads\t%" PRId64 "\t%" PRId64 "\t%s\n", row.begin_ns, row.duration_ns,
                Text(trace.strings[row.name]).c_str());
  for (const GpuLossRow& loss : trace.gpu_losses) {
    std::vector<std::string> tracks;
    for (uint32_t stream = 0; stream < trace.streams.size(); ++stream) {
      const bool is_of_device = loss.device != kNone && trace.streams[stream].device == loss.device;
      if (loss.stream != kNone ? stream == loss.stream : is_of_device) tracks.push_back(StreamName(trace, stream));
    }
    const bool has_streams = !tracks.empty();
    for (uint32_t device = 0; device < trace.devices.size(); ++device) {
      const bool is_it = loss.device != kNone ? device == loss.device && !has_streams : loss.stream == kNone;
      if (is_it) tracks.push_back(DeviceName(trace, device));
    }
    if (tracks.empty()) tracks.emplace_back("GPU recording");
    for (const std::string& track : tracks)
      std::printf("gpu_loss\t%s\t%" PRId64 "\t%" PRId64 "\t%s\n", track.c_str(), loss.begin_ns, loss.end_ns,
                  Text(trace.strings[loss.reason]).c_str());
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
  // Unix time at the origin of the other rows' times.
  std::printf("clock\t%" PRId64 "\n", trace.clock.realtime_ns - trace.clock.monotonic_ns);
  std::printf("process\t%s\t%" PRId64 "\n", Text(trace.strings[trace.process_name]).c_str(), trace.pid);
  PrintThreads(trace);
  PrintRequests(trace);
  PrintBatches(trace);
  PrintGpu(trace);
  return 0;
}
