// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/otlp.h"

#include <algorithm>
#include <string>
#include <vector>

#include "model/lacking.h"
#include "model/request_text.h"
#include "pitot/model/index.h"
#include "pitot/model/trace.h"
#include "pitot/request.h"
#include "pitot/version.h"
#include "serialize/otlp_span.h"
#include "serialize/texts.h"

PITOT_NAMESPACE_BEGIN
namespace {

using model::kNone;
using model::kOpen;
using model::Trace;
using serialize::Mix;
using serialize::OrElse;
using serialize::OtlpId;
using serialize::OtlpSpans;
using serialize::ThreadName;
namespace span = serialize::otlp::span;

class OtlpWriter {
 public:
  OtlpWriter(const Trace& trace, const OtlpOptions& options, std::string_view service_name, ByteSink* sink)
      : trace_(trace),
        options_(options),
        service_name_(OrElse(service_name, trace.strings[trace.process_name])),
        index_(trace),
        out_(trace.clock.realtime_ns - trace.clock.monotonic_ns, sink),
        fired_(trace.requests.size()) {
    for (uint32_t row = 0; row < trace.firings.size(); ++row) {
      const uint32_t request = index_.Row(trace.firings[row].request_id);
      if (request != kNone) fired_[request].push_back(row);
    }
  }

  bool Write() {
    WriteResource();
    for (uint32_t request = 0; request < trace_.requests.size() && out_.ok(); ++request) WriteRequest(request);
    for (uint32_t batch = 0; batch < trace_.batches.size() && out_.ok(); ++batch) WriteBatch(batch);
    out_.Finish();
    return out_.ok();
  }

 private:
  void WriteResource() {
    out_.ResourceText("service.name", OrElse(service_name_, "unknown_service"));
    out_.ResourceInt("process.pid", trace_.pid);
    if (const std::string_view host = trace_.AttributeOf("host"); !host.empty()) out_.ResourceText("host.name", host);
    out_.ResourceInt("pitot.window_begin_ns",
                     trace_.window_begin_ns + trace_.clock.realtime_ns - trace_.clock.monotonic_ns);
    // The gaps of the format before this one stay unknown.
    if (const std::string_view lacks = trace_.AttributeOf(model::kNotRecorded); !lacks.empty())
      out_.ResourceText("pitot.not_recorded", lacks);
    if (const std::string lost = serialize::LossesInWords(trace_); !lost.empty())
      out_.ResourceText("pitot.losses", lost);
    out_.Library("pitot", PITOT_VERSION_STRING);
  }

  // Requests without a trace of their own are in that of the outermost request around them.
  OtlpId IdOf(uint32_t row) const {
    const model::RequestRow* request = &trace_.requests[row];
    const uint64_t id = request->id;
    // Ids may be wrong: take no more steps than a real nesting has.
    for (int step = 0; step < 64 && (request->trace_id_high | request->trace_id_low) == 0; ++step) {
      const uint32_t parent = request->parent_id == 0 ? kNone : index_.Row(request->parent_id);
      if (parent == kNone) return {Mix(request->id + SeedOf(request->id)), NotZero(request->id), NotZero(id)};
      request = &trace_.requests[parent];
    }
    return {request->trace_id_high, request->trace_id_low, NotZero(id)};
  }
  // Ids of requests in others' traces count from 1. The trace's begin keeps them apart from those of other files.
  uint64_t SeedOf(uint64_t id) const {
    return id <= trace_.requests.size()
               ? Mix(out_.Unix(trace_.window_begin_ns) + Mix(static_cast<uint64_t>(trace_.pid)))
               : 0;
  }
  OtlpId IdOfBatch(uint32_t batch) const {
    const uint64_t id = trace_.batches[batch].id;
    return {Mix(id + 1), NotZero(id), NotZero(Mix(id))};
  }
  static uint64_t NotZero(uint64_t id) { return id != 0 ? id : 1; }
  // The id of a part of a request.
  static OtlpId PartOf(const OtlpId& request, uint64_t number) {
    return {request.high, request.low, NotZero(Mix(request.span + number))};
  }

  void WriteRequest(uint32_t row) {
    const model::RequestRow& request = trace_.requests[row];
    const OtlpId id = IdOf(row);
    const std::string_view route = OrElse(trace_.strings[request.route], "request");
    out_.Begin(id, request.parent_id, route, span::kServer, request.begin_ns, trace_.RequestEnd(request));
    WriteFacts(row);
    for (const uint32_t batch : index_.Batches(row)) out_.Link(IdOfBatch(batch));
    for (const uint32_t firing : fired_[row]) {
      out_.BeginEvent("pitot.trigger", trace_.firings[firing].at_ns);
      out_.EventText("pitot.trigger.cause", trace_.strings[trace_.firings[firing].cause]);
      out_.EventText("pitot.trigger.detail", trace_.strings[trace_.firings[firing].detail]);
      out_.EndEvent();
    }
    if (request.first_token_ns != 0) {
      out_.BeginEvent("pitot.first_token", request.begin_ns + request.first_token_ns);
      out_.EndEvent();
    }
    if (!fired_[row].empty() && options_.judge != nullptr) WriteVerdict(row);
    out_.End();
    WriteParts(row, id);
  }

  void WriteFacts(uint32_t row) {
    const model::RequestRow& request = trace_.requests[row];
    const std::string_view route = trace_.strings[request.route];
    if (!route.empty() && route[0] == '/') out_.Text("http.route", route);
    out_.Text("pitot.request.id", model::RequestName(trace_, request));
    out_.Text("pitot.outcome", model::OutcomeText(request));
    if (request.begin_thread != kNone) {
      out_.Int("thread.id", trace_.threads[request.begin_thread].tid);
      out_.Text("thread.name", ThreadName(trace_, request.begin_thread));
    }
    if (request.output_tokens != 0) out_.Int("gen_ai.usage.output_tokens", request.output_tokens);
    if (request.max_token_gap_ns != 0) out_.Int("pitot.max_token_gap_ns", request.max_token_gap_ns);
    if (request.deadline_ns != 0) out_.Int("pitot.deadline_ns", request.deadline_ns);
    for (const model::Label& label : request.labels)
      out_.Text(OrElse(trace_.strings[label.key], "label"), trace_.strings[label.value]);
    for (const model::Size& size : request.sizes)
      out_.Double("pitot.size." + std::string(trace_.strings[size.name]), size.value);
    if (request.duration_ns == kOpen) out_.Int("pitot.open", 1);
    if (!request.begin_known) out_.Int("pitot.begin_unknown", 1);
    if (!request.end_known || request.outcome == Outcome::kOk) return;
    out_.Text("error.type", OutcomeName(request.outcome));
    out_.Failed(trace_.strings[request.reason]);
  }

  void WriteVerdict(uint32_t row) {
    OtlpVerdict verdict;
    if (!options_.judge(options_.judge_context, trace_, row, &verdict)) return;
    out_.Text("pitot.verdict", verdict.kind);
    if (!verdict.sentence.empty()) out_.Text("pitot.verdict.sentence", verdict.sentence);
    if (verdict.typical_ns != 0) out_.Int("pitot.verdict.typical_ns", verdict.typical_ns);
    for (const OtlpCause& cause : verdict.causes) {
      out_.BeginEvent("pitot.cause", cause.begin_ns);
      out_.EventText("pitot.cause.name", cause.name);
      out_.EventText("pitot.cause.evidence", cause.evidence);
      out_.EventText("pitot.cause.advice", cause.advice);
      out_.EventInt("pitot.cause.lost_ns", cause.lost_ns);
      out_.EventDouble("pitot.cause.confidence", cause.confidence);
      out_.EndEvent();
    }
  }

  // Stages, waits in queues, and parts outside of threads.
  void WriteParts(uint32_t row, const OtlpId& id) {
    const model::RequestRow& request = trace_.requests[row];
    uint64_t number = 0;
    for (const model::Stage& stage : request.stages) {
      const int64_t end_ns =
          stage.duration_ns == kOpen ? trace_.RequestEnd(request) : stage.begin_ns + stage.duration_ns;
      out_.Begin(PartOf(id, ++number), id.span, OrElse(trace_.strings[stage.name], "stage"), span::kInternal,
                 stage.begin_ns, std::max(end_ns, stage.begin_ns));
      if (stage.duration_ns == kOpen) out_.Int("pitot.open", 1);
      out_.End();
    }
    for (const uint32_t handoff : index_.Handoffs(row)) {
      const model::HandoffRow& queued = trace_.handoffs[handoff];
      const int64_t end_ns = queued.take_ns != 0 ? queued.take_ns : trace_.RequestEnd(request);
      out_.Begin(PartOf(id, ++number), id.span, "queued " + std::string(trace_.strings[queued.queue]), span::kInternal,
                 queued.enqueue_ns, std::max(end_ns, queued.enqueue_ns));
      out_.Text("pitot.queue", trace_.strings[queued.queue]);
      if (queued.take_ns == 0) out_.Int("pitot.open", 1);
      if (queued.batch != kNone) out_.Link(IdOfBatch(queued.batch));
      out_.End();
    }
    for (const uint32_t async : index_.Asyncs(row)) {
      const model::AsyncRow& part = trace_.asyncs[async];
      const bool is_open = part.duration_ns == kOpen;
      const int64_t end_ns = is_open ? trace_.window_end_ns : part.begin_ns + part.duration_ns;
      out_.Begin(PartOf(id, ++number), id.span, OrElse(trace_.strings[trace_.sites[part.site].name], "part"),
                 span::kInternal, part.begin_ns, std::max(end_ns, part.begin_ns));
      out_.Int("pitot.part", 1);
      if (is_open) out_.Int("pitot.open", 1);
      out_.End();
    }
  }

  void WriteBatch(uint32_t row) {
    const model::BatchRow& batch = trace_.batches[row];
    const std::string name = std::string(OrElse(trace_.strings[batch.executor], "executor")) + " batch";
    out_.Begin(IdOfBatch(row), 0, name, span::kInternal, batch.begin_ns, trace_.BatchEnd(batch));
    out_.Int("pitot.batch.members", batch.member_count);
    out_.Text("pitot.batch.close_reason", BatchCloseName(static_cast<BatchClose>(batch.close)));
    if (batch.thread != kNone) {
      out_.Int("thread.id", trace_.threads[batch.thread].tid);
      out_.Text("thread.name", ThreadName(trace_, batch.thread));
    }
    if (batch.duration_ns == kOpen) out_.Int("pitot.open", 1);
    for (uint32_t member = batch.first_member; member < batch.first_member + batch.member_count; ++member) {
      if (trace_.members[member].request != kNone) out_.Link(IdOf(trace_.members[member].request));
    }
    out_.End();
  }

  const Trace& trace_;
  const OtlpOptions& options_;
  const std::string_view service_name_;
  const model::RequestIndex index_;
  OtlpSpans out_;
  std::vector<std::vector<uint32_t>> fired_;  // by request: its firings
};

class OtlpSerializer final : public Serializer {
 public:
  explicit OtlpSerializer(const OtlpOptions& options)
      : file_name_(options.file_name),
        service_name_(options.service_name != nullptr ? options.service_name : ""),
        options_(options) {}
  const char* FileName() const noexcept override { return file_name_.c_str(); }
  Status Serialize(const Trace& trace, ByteSink& sink) override {
    if (trace.clock.realtime_ns == 0)
      return Status(StatusCode::kInvalidArgument, "the trace has no date for its spans");
    if (OtlpWriter(trace, options_, service_name_, &sink).Write()) return Status();
    return Status(StatusCode::kIoError, "the spans could not be written");
  }

 private:
  std::string file_name_, service_name_;
  OtlpOptions options_;
};

}  // namespace

std::unique_ptr<Serializer> MakeOtlpSerializer(const OtlpOptions& options) noexcept try {
  return std::make_unique<OtlpSerializer>(options);
} catch (...) {  // no memory
  return nullptr;
}

PITOT_NAMESPACE_END
