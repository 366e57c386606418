// SPDX-License-Identifier: Apache-2.0
#include "analyze/verdict/place.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "analyze/blame/walk_waits.h"
#include "analyze/verdict/mechanism.h"
#include "analyze/verdict/verdict_words.h"
#include "base/columns.h"
#include "base/quantile.h"
#include "model/kernel_name.h"
#include "model/request_text.h"
#include "pitot/request.h"

namespace pitot::verdict {

using model::kNone;
using model::Trace;

namespace {

constexpr size_t kMostSegments = 10'000;

}  // namespace

std::string QuotedName(std::string_view name) { return "\"" + base::Cut(name, 32) + "\""; }

std::string ThreadName(const Trace& trace, uint32_t thread) {
  if (thread == kNone) return "a thread without events";
  const std::string_view name = trace.strings[trace.threads[thread].name];
  return name.empty() ? "thread " + std::to_string(trace.threads[thread].number) : std::string(name);
}

std::string ResourceName(const Trace& trace, uint32_t event) {
  blame::WaitArgs args;
  if (!blame::ReadWait(trace, event, &args) || args.resource == 0) return "";
  return std::string(trace.strings[args.resource]);
}

std::string GpuWorkName(const Trace& trace, uint32_t op) {
  if (trace.gpu.kind[op] != model::GpuKind::kKernel) return model::ShortName(model::ActivityName(trace, op));
  return model::ShortName(model::ReadKernelName(trace.strings[trace.gpu.name[op]]).brief);
}

std::string MembersText(const Trace& trace, uint32_t batch) {
  const model::BatchRow& row = trace.batches[batch];
  std::vector<uint32_t> requests;
  for (uint32_t m = row.first_member; m < row.first_member + row.member_count; ++m) {
    const uint32_t request = trace.members[m].request;
    if (request != kNone && std::find(requests.begin(), requests.end(), request) == requests.end())
      requests.push_back(request);
  }
  if (requests.empty()) return "no requests";
  const model::RequestRow& first = trace.requests[requests[0]];
  const std::string text =
      "request " + model::RequestName(trace, first) + " of " + std::string(trace.strings[first.route]);
  if (requests.size() == 1) return text;
  return text + " and " + std::to_string(requests.size() - 1) + " more";
}

std::string SpanPlace(const Trace& trace, const blame::SlowSpan& span) {
  return (span.is_stage ? "in stage " : "in span ") + QuotedName(trace.strings[span.name]) + ", usually " +
         (span.usual_ns == 0 ? "none" : base::Duration(span.usual_ns));
}

std::string SpanText(const blame::Index& index, const RequestBlame& blame) {
  const blame::SlowSpan span = index.request_spans.InUnrecorded(blame);
  const int64_t all_ns = blame.blame[Blame::kUntraced];
  const std::string time = base::Duration(span.ns), place = SpanPlace(index.trace, span);
  return IsMostOf(span.ns, all_ns) ? MechanismSeenAt({Blame::kUntraced, time}, place)
                                   : MechanismPartlyAt({Blame::kUntraced, base::Duration(all_ns)}, place, time);
}

std::string QuotaText(const blame::Index& index, const RequestBlame& blame, Blame of, int64_t ns) {
  const auto first = std::find_if(blame.segments.begin(), blame.segments.end(),
                                  [&](const BlameSegment& segment) { return segment.blame == of; });
  const uint32_t thread = first != blame.segments.end() ? first->thread : kNone;
  if (of != Blame::kHostRunqueue || index.host.ThrottledNs(thread, blame.begin_ns, blame.end_ns) < ns) return "";
  return ", because the CPU quota was used up";
}

std::string OtherLabels(const Trace& trace, uint32_t request, uint32_t asked) {
  if (asked == kNone) return "";
  const std::vector<model::Label>& known = trace.requests[asked].labels;
  std::string text;
  for (const model::Label& label : trace.requests[request].labels) {
    const bool is_shared = std::any_of(known.begin(), known.end(), [&](const model::Label& other) {
      return trace.strings[other.key] == trace.strings[label.key] &&
             trace.strings[other.value] == trace.strings[label.value];
    });
    if (!is_shared)
      text += ", " + std::string(trace.strings[label.key]) + " " + std::string(trace.strings[label.value]);
  }
  return text;
}

std::string SizeText(const Trace& trace, uint32_t request) {
  constexpr double kMuchMore = 2;
  const model::RequestRow& row = trace.requests[request];
  if (row.sizes.empty()) return "";
  std::vector<double> sizes;
  for (const model::RequestRow& other : trace.requests) {
    if (other.route == row.route && !other.sizes.empty() && other.sizes[0].name == row.sizes[0].name &&
        std::isfinite(other.sizes[0].value))
      sizes.push_back(other.sizes[0].value);
  }
  const double usual = base::Median(std::move(sizes));
  if (!(row.sizes[0].value > kMuchMore * usual)) return "";
  return base::Format("%g %s, typical %g", row.sizes[0].value, std::string(trace.strings[row.sizes[0].name]).c_str(),
                      usual);
}

std::string_view Places::CompiledBy(const BlameSegment& segment) const {
  return segment.blame != Blame::kLazyLoadJit || segment.event == kNone ? std::string_view()
                                                                        : index_.compiles.Function(segment.event);
}

std::string Places::Of(const BlameSegment& segment) { return Words(segment, ""); }

std::string Places::Text(const BlameSegment& segment) { return Words(segment, index_.arguments.Text(segment.event)); }

std::string Places::Words(const BlameSegment& segment, const std::string& arguments) {
  if (segment.handoff != kNone) return "in queue " + QuotedName(trace_.strings[trace_.handoffs[segment.handoff].queue]);
  if (segment.blame == Blame::kBatchWindow && segment.batch != kNone) {
    const model::BatchRow& batch = trace_.batches[segment.batch];
    const auto close = static_cast<BatchClose>(batch.close);
    return "a batch of " + std::string(trace_.strings[batch.executor]) +
           (close == BatchClose::kUnknown ? "" : std::string(", closed by ") + BatchCloseName(close));
  }
  if (segment.gpu != kNone && segment.blame != Blame::kGpuQueueWaitOthers && segment.blame != Blame::kLaunchLatency) {
    if (trace_.gpu.kind[segment.gpu] != model::GpuKind::kKernel) return GpuWorkName(trace_, segment.gpu);
    std::string& name = kernels_[trace_.gpu.name[segment.gpu]];
    if (name.empty()) name = GpuWorkName(trace_, segment.gpu);
    return name;
  }
  if (const std::string_view function = CompiledBy(segment); !function.empty())
    return std::string(function) + " on " + ThreadName(trace_, segment.thread);
  std::string text;
  if (const blame::Stacks::Seen seen = index_.stacks.Of(segment); seen.is_known())
    return "in " + index_.stacks.Place(seen.event) + " on " + ThreadName(trace_, segment.thread);
  if (segment.call != kNone) text = std::string(trace_.strings[trace_.calls.name[segment.call]]);
  if (segment.event != kNone) {
    const std::string resource = ResourceName(trace_, segment.event);
    if (!resource.empty())
      text += (text.empty() ? "" : " in ") + QuotedName(resource);
    else
      text += (text.empty() ? "in " : " in ") + QuotedName(trace_.EventName(segment.event)) + arguments;
  }
  if (segment.thread == kNone) return text;
  return text + (text.empty() ? "on " : " on ") + ThreadName(trace_, segment.thread);
}

Places::Most Places::Find(const std::vector<BlameSegment>& all, const std::vector<uint32_t>& segments) {
  std::map<std::string, Most> places;
  Most most;
  for (size_t i = 0; i < std::min(segments.size(), kMostSegments); ++i) {
    const BlameSegment& at = all[segments[i]];
    Most& place = places[Of(at)];
    if (place.longest == kNone) place.longest = segments[i];
    place.ns += at.end_ns - at.begin_ns;
    if (place.ns > most.ns) most = place;
  }
  return most;
}

}  // namespace pitot::verdict
