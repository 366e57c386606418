// SPDX-License-Identifier: Apache-2.0
//
// OpenTelemetry's spans: OTLP's TracesData in protobuf, as exporters send it and Pitot writes it, or in JSON, as a
// collector's file exporter writes it.
#include <memory>
#include <string>
#include <string_view>

#include "base/columns.h"
#include "read/formats.h"
#include "read/otlp_builder.h"
#include "read/otlp_decoders.h"

namespace pitot::read {
namespace {

bool IsOtlp(const Head& head) {
  const bool has_spans = head.json.is_json && !head.json.has_events && head.json.HasMember("resourceSpans");
  return has_spans || IsOtlpJson(head.bytes) || IsOtlpWire(head.bytes);
}

bool IsJson(const Input& input) {
  bool is_gzip;
  const std::unique_ptr<ByteSource> source = input.Open(&is_gzip);
  std::string head(256, '\0');
  size_t have = 0;
  for (size_t got = 1; got != 0 && have < head.size(); have += got)
    got = source->Read(head.data() + have, head.size() - have);
  // No message begins with a '{': it would be a group.
  return head[0] == '{' || IsOtlpJson(std::string_view(head).substr(0, have));
}

Status ReadOtlp(const Input& input, model::Trace* trace, TraceReport* report) {
  const std::unique_ptr<ByteSource> source = input.Open(&report->is_gzip);
  OtlpBuilder builder(trace, report);
  const bool is_json = IsJson(input);
  std::string loss = is_json ? ReadOtlpJson(source.get(), &builder) : ReadOtlpWire(source.get(), &builder);
  // In JSON, a collector may have put the groups in another order.
  if (loss.empty() && !is_json && builder.expects_more()) loss = "it ends between two groups of spans";
  const StatusCode code = source->status().code();
  if (code != StatusCode::kOk && code != StatusCode::kDataLoss) return source->status();
  report->complete = loss.empty() && source->status().ok() && report->events_bad == 0;
  builder.Finish();
  if (report->complete) return {};
  if (loss.empty() && !source->status().ok()) loss = source->status().message();
  if (report->events_bad != 0)
    loss += (loss.empty() ? "" : "; ") + base::Plural(report->events_bad, "span") + " of " +
            base::Count(report->events) + " could not be read";
  return Status(StatusCode::kDataLoss, loss.c_str());
}

}  // namespace

const Format kOtlpFormat = {"otlp",
                            "OpenTelemetry spans",
                            "OpenTelemetry's spans (OTLP)",
                            "an OpenTelemetry exporter",
                            "let requests end before the file is taken: a span is exported when it ends",
                            {"scopes and calls", "GPU work", "what threads did", "counters", "tokens", "losses"},
                            {{"request", "export spans that serve one: of kind SERVER, or without a parent"},
                             {"kernel", "spans have none: record with Pitot or a profiler"},
                             {"layer", "spans have none: record with Pitot or a profiler"}},
                            IsOtlp,
                            ReadOtlp};

}  // namespace pitot::read
