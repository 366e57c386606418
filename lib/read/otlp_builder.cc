// SPDX-License-Identifier: Apache-2.0
#include "read/otlp_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/columns.h"
#include "base/mix.h"
#include "model/lacking.h"
#include "pitot/outcome.h"
#include "pitot/request.h"
#include "read/format.h"

namespace pitot::read {
namespace {

using base::Mix;
using model::kMaxTimeNs;
using model::kNone;
using model::kOpen;
using Value = OtlpAttribute::Kind;

constexpr size_t kMostLabels = 32, kMostTextBytes = 256, kMostLacksBytes = 4096, kMostParents = 256;
constexpr std::string_view kLibrary = "pitot", kOwn = "pitot.", kBatchSuffix = " batch";

uint64_t KeyOf(const OtlpSpanId& id) { return Mix(id.span + Mix(id.low + Mix(id.high))); }

double Real(const OtlpAttribute& attribute) {
  return attribute.kind == Value::kDouble ? attribute.real : static_cast<double>(attribute.integer);
}
std::string TextOf(const OtlpAttribute& attribute) {
  switch (attribute.kind) {
    case Value::kText:
      return std::string(attribute.text);
    case Value::kBool:
      return attribute.integer != 0 ? "true" : "false";
    case Value::kInt:
      return std::to_string(attribute.integer);
    case Value::kDouble:
      return std::to_string(attribute.real);
    default:
      return "";
  }
}

const OtlpAttribute* FindAttribute(const OtlpAttributes& attributes, std::string_view key) {
  for (const OtlpAttribute& attribute : attributes) {
    if (attribute.key == key) return &attribute;
  }
  return nullptr;
}
std::string_view TextAt(const OtlpAttributes& attributes, std::string_view key) {
  const OtlpAttribute* const found = FindAttribute(attributes, key);
  return found != nullptr ? found->text : std::string_view();
}

}  // namespace

model::StringId OtlpBuilder::Intern(std::string_view text) {
  return trace_.strings.Add(text.substr(0, std::min(text.size(), kMostTextBytes)));
}

void OtlpBuilder::TakeResource(const OtlpAttributes& attributes) {
  const std::string_view name = TextAt(attributes, "service.name"), host = TextAt(attributes, "host.name");
  const OtlpAttribute* const pid = FindAttribute(attributes, "process.pid");
  Process process;
  process.pid = pid != nullptr && pid->integer > 0 ? pid->integer : 0;
  if (const std::string_view lacks = TextAt(attributes, "pitot.not_recorded"); lacks_.empty())
    lacks_ = lacks.substr(0, std::min(lacks.size(), kMostLacksBytes));
  if (const OtlpAttribute* const begin = FindAttribute(attributes, "pitot.window_begin_ns");
      begin != nullptr && begin->integer > 0)
    own_begin_ns_ = std::min(own_begin_ns_, static_cast<uint64_t>(begin->integer));
  expects_more_ = FindAttribute(attributes, "pitot.more_follows") != nullptr;
  std::string key = std::string(name) + '\0' + std::string(host) + '\0' + std::to_string(process.pid);
  const auto [found, is_new] = known_processes_.try_emplace(std::move(key), static_cast<uint32_t>(processes_.size()));
  process_ = found->second;
  if (!is_new) return;
  process.name = Intern(name);
  process.host = Intern(host);
  processes_.push_back(process);
}

void OtlpBuilder::TakeLibrary(std::string_view name) {
  is_own_ = name == kLibrary;
  (is_own_ ? has_own_ : has_others_) = true;
}

void OtlpBuilder::TakeSpan(const OtlpSpan& from) {
  ++report_.events;
  constexpr auto kLast = static_cast<uint64_t>(kMaxTimeNs);
  const bool has_id = from.id.span != 0 && (from.id.high | from.id.low) != 0;
  if (!has_id || from.begin_ns == 0) {
    ++report_.events_bad;
    return;
  }
  if (from.begin_ns > kLast || from.end_ns > kLast || spans_.size() >= kNone - 1) {
    ++out_of_range_;
    return;
  }
  const auto [found, is_new] = by_key_.try_emplace(KeyOf(from.id), static_cast<uint32_t>(spans_.size()));
  if (!is_new) {
    ++repeated_;
    return;
  }
  ++processes_[process_].spans;
  const bool is_served = from.kind == OtlpSpan::kServer || from.kind == OtlpSpan::kConsumer;
  const Kind kind = is_served ? Kind::kRequest : is_own_ ? Kind::kStage : Kind::kPart;
  negative_ += from.end_ns != 0 && from.end_ns < from.begin_ns;
  Span& span = spans_.emplace_back(Span{from.id, from.parent, from.begin_ns, std::max(from.begin_ns, from.end_ns),
                                        process_, Intern(from.name), kind, from.end_ns == 0});
  if (is_served || is_own_ || from.parent == 0) TakeDetails(from, &span);
}

void OtlpBuilder::TakeDetails(const OtlpSpan& from, Span* span) {
  span->details = std::make_unique<Details>();
  model::RequestRow& row = span->details->row;
  row.end_known = true;
  if (from.status == OtlpSpan::kError) {
    row.outcome = Outcome::kFailed;
    row.reason = Intern(from.message);
  }
  for (const OtlpAttribute& attribute : from.attributes) TakeAttribute(attribute, span);
  if (!is_own_) return;
  for (const OtlpEvent& event : from.events) {
    if (event.name == "pitot.first_token") span->details->first_token_at_ns = event.at_ns;
    if (event.name == "pitot.trigger" && event.at_ns <= static_cast<uint64_t>(kMaxTimeNs))
      span->details->firings.push_back({event.at_ns, Intern(TextAt(event.attributes, "pitot.trigger.cause")),
                                        Intern(TextAt(event.attributes, "pitot.trigger.detail"))});
  }
  for (const OtlpSpanId& link : from.links) span->links.push_back(KeyOf(link));
  if (span->kind != Kind::kRequest) span->details = nullptr;
}

void OtlpBuilder::TakeAttribute(const OtlpAttribute& attribute, Span* span) {
  const std::string_view key = attribute.key;
  model::RequestRow& row = span->details->row;
  const auto take_size = [&](std::string_view name) {
    if (row.sizes.size() < kMostLabels && std::isfinite(Real(attribute)))
      row.sizes.push_back({Intern(name), Real(attribute)});
  };
  const auto tokens = [&] { return static_cast<uint32_t>(std::clamp<int64_t>(attribute.integer, 0, UINT32_MAX)); };
  if (is_own_ && key.starts_with(kOwn)) return TakeOwn(key.substr(kOwn.size()), attribute, span);
  if (is_own_ && (key == "http.route" || key == "error.type")) return;  // said twice
  if (key == "gen_ai.usage.output_tokens" || key == "gen_ai.usage.completion_tokens") {
    row.output_tokens = tokens();
  } else if (key == "gen_ai.usage.input_tokens" || key == "gen_ai.usage.prompt_tokens") {
    take_size("input tokens");
  } else if (key == "gen_ai.request.id") {
    row.host_id = Intern(attribute.text);
  } else if (key == "gen_ai.latency.time_in_queue") {
    span->details->queue_s = Real(attribute);
    has_queues_ = true;
  } else if (key == "gen_ai.latency.time_to_first_token") {
    span->details->first_token_s = Real(attribute);
  } else if (is_own_ && (key == "thread.id" || key == "thread.name")) {
    // What the thread did is not in the file.
  } else if (attribute.kind != Value::kOther && row.labels.size() < kMostLabels) {
    row.labels.push_back({Intern(key), Intern(TextOf(attribute))});
  }
}

// An attribute that Pitot's writer made, without "pitot.".
void OtlpBuilder::TakeOwn(std::string_view key, const OtlpAttribute& attribute, Span* span) {
  constexpr std::string_view kSize = "size.";
  model::RequestRow& row = span->details->row;
  const int64_t number = std::clamp<int64_t>(attribute.integer, 0, kMaxTimeNs);
  if (key == "request.id") {
    if (attribute.text != base::RequestId(span->id.span)) row.host_id = Intern(attribute.text);
  } else if (key == "outcome") {
    row.end_known = attribute.text != "open" && attribute.text != "end unknown";
    for (uint8_t outcome = 1; outcome <= static_cast<uint8_t>(Outcome::kAbandoned); ++outcome) {
      if (attribute.text == OutcomeName(static_cast<Outcome>(outcome))) row.outcome = static_cast<Outcome>(outcome);
    }
  } else if (key == "open") {
    span->is_open = true;
    row.end_known = false;
  } else if (key == "begin_unknown") {
    row.begin_known = false;
  } else if (key == "queue") {
    span->kind = Kind::kQueued;
    span->name = Intern(attribute.text);
  } else if (key == "part") {
    span->kind = Kind::kPart;
  } else if (key == "batch.members") {
    span->kind = Kind::kBatch;
  } else if (key == "batch.close_reason") {
    for (uint8_t close = 0; close <= static_cast<uint8_t>(BatchClose::kStep); ++close) {
      if (attribute.text == BatchCloseName(static_cast<BatchClose>(close))) span->close = close;
    }
  } else if (key == "max_token_gap_ns") {
    row.max_token_gap_ns = number;
  } else if (key == "deadline_ns") {
    row.deadline_ns = number;
  } else if (key.starts_with(kSize) && std::isfinite(Real(attribute)) && row.sizes.size() < kMostLabels) {
    row.sizes.push_back({Intern(key.substr(kSize.size())), Real(attribute)});
  }
}

const OtlpBuilder::Span* OtlpBuilder::Find(uint64_t key) const {
  const auto found = by_key_.find(key);
  return found != by_key_.end() ? &spans_[found->second] : nullptr;
}

const OtlpBuilder::Span* OtlpBuilder::ParentOf(const Span& span) const {
  return span.parent_id != 0 ? Find(KeyOf({span.id.high, span.id.low, span.parent_id})) : nullptr;
}

// The request that a span is in, by its parents. Ids may be wrong: parents may go round, which is taken for too deep.
const OtlpBuilder::Span* OtlpBuilder::RequestAround(const Span& span, bool* is_too_deep) const {
  const Span* around = ParentOf(span);
  for (size_t i = 0; around != nullptr && i < kMostParents; ++i, around = ParentOf(*around)) {
    if (around->kind == Kind::kRequest) return around;
  }
  if (is_too_deep != nullptr) *is_too_deep = around != nullptr;
  return nullptr;
}

// By begin.
std::vector<uint32_t> OtlpBuilder::OfKind(Kind kind) const {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < spans_.size(); ++i) {
    if (spans_[i].kind == kind) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return spans_[a].begin_ns < spans_[b].begin_ns; });
  return order;
}

// Open ones last until the window's end. Durations add up to kMaxTimeNs at most; those beyond end where they began.
int64_t OtlpBuilder::DurationOf(const Span& span) {
  const int64_t end_ns = span.is_open ? trace_.window_end_ns : At(span.end_ns);
  const int64_t duration_ns = end_ns - At(span.begin_ns);
  if (duration_ns > kMaxTimeNs - total_ns_) return ++out_of_range_, 0;
  total_ns_ += duration_ns;
  return span.is_open ? kOpen : duration_ns;
}

uint32_t OtlpBuilder::Site(model::StringId name) {
  const auto [found, is_new] = sites_.try_emplace(name, static_cast<uint32_t>(trace_.sites.size()));
  if (is_new) {
    trace_.sites.emplace_back();
    trace_.sites.back().name = name;
  }
  return found->second;
}

// The origin is before everything, because some times are none if they are 0.
void OtlpBuilder::FindWindow() {
  uint64_t begin_ns = std::numeric_limits<uint64_t>::max(), end_ns = 0;
  for (const Span& span : spans_) {
    begin_ns = std::min(begin_ns, span.begin_ns);
    end_ns = std::max(end_ns, span.end_ns);
  }
  if (spans_.empty()) return;
  base_ns_ = begin_ns - 1;
  // Pitot's may have begun before the window.
  const bool is_told = !has_others_ && own_begin_ns_ > begin_ns && own_begin_ns_ <= end_ns;
  trace_.window_begin_ns = At(is_told ? own_begin_ns_ : begin_ns);
  trace_.window_end_ns = At(end_ns);
  trace_.clock.monotonic_ns = trace_.window_end_ns;
  trace_.clock.realtime_ns = static_cast<int64_t>(end_ns);
}

void OtlpBuilder::AddRequests() {
  rows_.assign(spans_.size(), kNone);
  for (Span& span : spans_) {
    if (span.kind == Kind::kPart && ParentOf(span) == nullptr) span.kind = Kind::kRequest;
  }
  for (const uint32_t i : OfKind(Kind::kRequest)) AddRequest(&spans_[i]);
  std::stable_sort(trace_.firings.begin(), trace_.firings.end(),
                   [](const model::FiringRow& a, const model::FiringRow& b) { return a.at_ns < b.at_ns; });
}

void OtlpBuilder::AddRequest(Span* span) {
  if (span->details == nullptr) {
    span->details = std::make_unique<Details>();
    span->details->row.end_known = true;
  }
  Details& details = *span->details;
  model::RequestRow row = std::move(details.row);
  row.id = span->id.span;
  row.trace_id_high = span->id.high;
  row.trace_id_low = span->id.low;
  const Span* const around = RequestAround(*span);
  row.parent_id = around != nullptr ? around->id.span : span->parent_id;
  row.route = span->name;
  row.begin_ns = At(span->begin_ns);
  row.duration_ns = DurationOf(*span);
  if (span->is_open) row.end_known = false;
  const int64_t end_ns = At(span->end_ns) - row.begin_ns;
  const double first_token_ns = details.first_token_s * 1e9;
  if (details.first_token_at_ns > span->begin_ns && details.first_token_at_ns <= span->end_ns) {
    row.first_token_ns = At(details.first_token_at_ns) - row.begin_ns;
  } else if (first_token_ns >= 1 && first_token_ns <= static_cast<double>(end_ns)) {
    row.first_token_ns = std::min<int64_t>(std::llround(first_token_ns), end_ns);
  }
  TakeQueueTime(details.queue_s, row);
  TakeVllmStages(details.queue_s, &row);
  if (processes_.size() > 1 && row.labels.size() < kMostLabels)
    row.labels.push_back({Intern("service.name"), processes_[span->process].name});
  for (const Firing& firing : details.firings)
    trace_.firings.push_back({At(std::max(firing.at_ns, base_ns_)), row.id, firing.cause, firing.detail});
  RowOf(*span) = static_cast<uint32_t>(trace_.requests.size());
  trace_.requests.push_back(std::move(row));
}

// A stay in a queue that the request says only the length of: from its begin on.
void OtlpBuilder::TakeQueueTime(double queue_s, const model::RequestRow& request) {
  const double queue_ns = queue_s * 1e9;
  if (!(queue_ns >= 1 && queue_ns <= static_cast<double>(request.duration_ns))) return;  // or it is open
  model::HandoffRow row;
  row.request = static_cast<uint32_t>(trace_.requests.size());
  row.queue = Intern("queue");
  row.enqueue_ns = request.begin_ns;
  row.take_ns = request.begin_ns + std::min<int64_t>(std::llround(queue_ns), request.duration_ns);
  trace_.handoffs.push_back(row);
}

// vLLM's requests have no spans for their stages, but say how long they took.
void OtlpBuilder::TakeVllmStages(double queue_s, model::RequestRow* row) {
  const double queue_ns = queue_s * 1e9;
  const bool is_known = queue_ns >= 1 && queue_ns < static_cast<double>(row->first_token_ns);
  if (!is_known || row->duration_ns < row->first_token_ns) return;  // or it is open
  const int64_t queued_ns = std::min<int64_t>(std::llround(queue_ns), row->first_token_ns);
  row->stages = {{Intern("queue"), row->begin_ns, queued_ns},
                 {Intern("prefill"), row->begin_ns + queued_ns, row->first_token_ns - queued_ns},
                 {Intern("decode"), row->begin_ns + row->first_token_ns, row->duration_ns - row->first_token_ns}};
}

void OtlpBuilder::AddBatches() {
  for (const uint32_t i : OfKind(Kind::kBatch)) {
    const Span& span = spans_[i];
    const auto batch = static_cast<uint32_t>(trace_.batches.size());
    model::BatchRow row;
    row.id = span.id.low;
    std::string_view name = trace_.strings[span.name];
    if (name.size() > kBatchSuffix.size() && name.substr(name.size() - kBatchSuffix.size()) == kBatchSuffix)
      name.remove_suffix(kBatchSuffix.size());
    row.executor = Intern(std::string(name));
    row.begin_ns = At(span.begin_ns);
    row.duration_ns = DurationOf(span);
    row.close = span.close;
    row.first_member = static_cast<uint32_t>(trace_.members.size());
    for (const uint64_t link : span.links) {
      const Span* const member = Find(link);
      if (member == nullptr || member->kind != Kind::kRequest) continue;
      trace_.members.push_back({batch, RowOf(*member), row.begin_ns, 0, 0});
    }
    row.member_count = static_cast<uint32_t>(trace_.members.size()) - row.first_member;
    RowOf(span) = batch;
    trace_.batches.push_back(row);
  }
}

void OtlpBuilder::AddParts() {
  for (const Span& span : spans_) {
    if (span.kind != Kind::kPart && span.kind != Kind::kQueued && span.kind != Kind::kStage) continue;
    bool is_too_deep = false;
    const Span* const around = RequestAround(span, &is_too_deep);
    if (around == nullptr) {
      ++(is_too_deep ? too_deep_ : orphans_);
      continue;
    }
    const uint32_t request = RowOf(*around);
    if (span.kind == Kind::kPart) {
      ++parts_;
      trace_.asyncs.push_back({Site(span.name), request, kNone, kNone, At(span.begin_ns), DurationOf(span)});
    } else if (span.kind == Kind::kStage) {
      trace_.requests[request].stages.push_back({span.name, At(span.begin_ns), DurationOf(span)});
    } else {
      model::HandoffRow row;
      row.request = request;
      row.queue = span.name;
      row.enqueue_ns = At(span.begin_ns);
      row.take_ns = span.is_open ? 0 : At(span.end_ns);
      const Span* const batch = span.links.empty() ? nullptr : Find(span.links[0]);
      if (batch != nullptr && batch->kind == Kind::kBatch) row.batch = RowOf(*batch);
      trace_.handoffs.push_back(row);
    }
  }
  std::stable_sort(trace_.asyncs.begin(), trace_.asyncs.end(),
                   [](const model::AsyncRow& a, const model::AsyncRow& b) { return a.begin_ns < b.begin_ns; });
  std::stable_sort(trace_.handoffs.begin(), trace_.handoffs.end(),
                   [](const model::HandoffRow& a, const model::HandoffRow& b) { return a.enqueue_ns < b.enqueue_ns; });
}

// In order, and without overlaps.
void OtlpBuilder::OrderStages() {
  for (model::RequestRow& row : trace_.requests) {
    std::stable_sort(row.stages.begin(), row.stages.end(),
                     [](const model::Stage& a, const model::Stage& b) { return a.begin_ns < b.begin_ns; });
    for (size_t i = 0; i + 1 < row.stages.size(); ++i) {
      model::Stage& stage = row.stages[i];
      const int64_t most_ns = row.stages[i + 1].begin_ns - stage.begin_ns;
      stage.duration_ns = stage.duration_ns == kOpen ? most_ns : std::min(stage.duration_ns, most_ns);
    }
  }
}

// The trace's process is the one with most spans.
void OtlpBuilder::NameProcess() {
  const auto most = std::max_element(processes_.begin(), processes_.end(),
                                     [](const Process& a, const Process& b) { return a.spans < b.spans; });
  if (most == processes_.end()) return;
  trace_.process_name = most->name;
  trace_.pid = most->pid;
  if (most->host != 0) trace_.attributes.push_back({trace_.strings.Add("host"), most->host});
}

void OtlpBuilder::Finish() {
  FindWindow();
  AddRequests();
  AddBatches();
  AddParts();
  OrderStages();
  NameProcess();
  if (has_own_ && !has_others_) report_.tool = "Pitot";
  if (has_others_ && !has_queues_) report_.lacks.push_back("queues");
  if (!has_own_) report_.lacks.push_back("triggers");
  if (has_own_ && !lacks_.empty())
    trace_.attributes.push_back({trace_.strings.Add(model::kNotRecorded), trace_.strings.Add(lacks_)});
  if (!report_.complete)
    trace_.losses.push_back({kNone, model::LossReason::kDamaged, trace_.window_begin_ns, trace_.window_end_ns, 0, 0});
  const auto note = [&](uint64_t count, const std::string& what) {
    if (count != 0) AddProblem(base::Plural(count, "span") + what, &report_);
  };
  const auto left_out = [](uint64_t count) { return std::string(count == 1 ? " was" : " were") + " left out"; };
  note(orphans_, " within no request of the file" + left_out(orphans_));
  note(too_deep_, " more than 256 deep in others" + left_out(too_deep_));
  note(out_of_range_, " had a time beyond 2^62 ns: left out, or counted as 0");
  note(repeated_, " came again with the same id and" + left_out(repeated_));
  note(negative_, " had a negative duration, taken as 0");
  report_.counts = {{"requests", trace_.requests.size()},
                    {"parts", parts_},
                    {"batches", trace_.batches.size()},
                    {"processes", processes_.size()},
                    {"repeated", repeated_},
                    {"orphans", orphans_},
                    {"too_deep", too_deep_},
                    {"times_out_of_range", out_of_range_},
                    {"durations_negative", negative_}};
}

}  // namespace pitot::read
