// SPDX-License-Identifier: Apache-2.0
#include "read/xspace_own.h"

#include <algorithm>
#include <charconv>

#include "model/depth_rows.h"
#include "model/lacking.h"
#include "model/loss_rows.h"
#include "pitot/outcome.h"
#include "read/decimal.h"

namespace pitot::read {

using model::kNone;
using model::kOpen;

namespace {

constexpr std::string_view kHostPlane = "/host:CPU", kGpuPlane = "/device:GPU:", kOffsetStat = "pitot_clock_offset_ns";

constexpr int64_t kFirstWithEnd = 2;  // the layout

int64_t WholeOf(std::string_view text) { return ParseDecimal(text, 0).value_or(0); }
uint64_t IdOf(std::string_view text) {
  uint64_t id = 0;
  std::from_chars(text.data(), text.data() + text.size(), id, 16);
  return id;
}

}  // namespace

bool OwnXSpaceTarget::Knows(const std::vector<XSpacePlaneHead>& planes) {
  return !planes.empty() && !planes[0].StatOf(kOffsetStat).empty();
}

void OwnXSpaceTarget::TakeHeads(const std::vector<XSpacePlaneHead>& planes) {
  lines_.resize(planes.size());
  for (uint32_t plane = 0; plane < planes.size(); ++plane) {
    const XSpacePlaneHead& head = planes[plane];
    if (head.name.compare(0, kGpuPlane.size(), kGpuPlane) == 0) TakeDevice(head, plane);
    if (head.name != kHostPlane) continue;
    if (const std::string_view lacks = head.StatOf("pitot_not_recorded"); !lacks.empty())
      trace_.attributes.push_back({rows_.Intern(model::kNotRecorded), rows_.Intern(lacks)});
    has_end_mark_ = WholeOf(head.StatOf("pitot_layout")) >= kFirstWithEnd;
    unix_offset_ns_ = WholeOf(head.StatOf(kOffsetStat));
    trace_.window_begin_ns = std::clamp<int64_t>(WholeOf(head.StatOf("pitot_window_begin_ns")), 0, model::kMaxTimeNs);
    trace_.window_end_ns = std::clamp<int64_t>(WholeOf(head.StatOf("pitot_window_end_ns")), 0, model::kMaxTimeNs);
    has_depths_ = head.HasStat(model::kDepthsKey);
    trace_.depths = model::DepthsOf(head.StatOf(model::kDepthsKey));
    trace_.operator_depths = model::DepthsOf(head.StatOf(model::kOperatorDepthsKey));
    has_losses_ = head.HasStat(model::kLossesKey) && head.HasStat(model::kGpuLossesKey);
    losses_ = head.StatOf(model::kLossesKey);
    gpu_losses_ = head.StatOf(model::kGpuLossesKey);
    for (const auto& [id, name] : head.lines) {
      Line& line = lines_[plane][id];
      line.is_requests = id < 0 && (name == "requests" || name == "queues");
      if (!line.is_requests && (id != 0 || name != "(unknown thread)")) line.row = rows_.Thread(id, name);
    }
  }
}

void OwnXSpaceTarget::TakeDevice(const XSpacePlaneHead& head, uint32_t plane) {
  const auto ordinal =
      static_cast<uint32_t>(std::clamp<int64_t>(WholeOf(head.name.substr(kGpuPlane.size())), 0, UINT32_MAX));
  const bool is_device = head.HasStat("device_type_string");
  const uint32_t device = is_device ? rows_.Device(ordinal, head.StatOf("device_type_string")) : kNone;
  if (is_device)
    trace_.devices[device].multiprocessors =
        static_cast<uint32_t>(std::clamp<int64_t>(WholeOf(head.StatOf("core_count")), 0, UINT32_MAX));
  for (const auto& [id, name] : head.lines) {
    model::StreamRow row;
    row.device = device;
    row.context = static_cast<uint32_t>(static_cast<uint64_t>(id) >> 32);
    row.stream = static_cast<uint32_t>(id);
    lines_[plane][id].row = rows_.Stream(row);
  }
}

void OwnXSpaceTarget::Take(size_t plane, int64_t line, const ChromeEvent& event) {
  const auto found = lines_[plane].find(line);
  if (found == lines_[plane].end()) return;
  Row row = {*event.begin_ns - unix_offset_ns_, *event.duration_ns, found->second.row, kNone, kNone};
  if (event.Find("open") != nullptr) row.duration_ns = kOpen;
  if (!rows_.TakeTime(row.begin_ns, row.duration_ns)) return;
  if (plane != 0) {
    if (row.of != kNone) TakeWork(event, row);
    return;
  }
  row.request = RowOf(event.Text("request"), &requests_, &OwnRows::NewRequest);
  row.batch = RowOf(event.Text("batch"), &batches_, &OwnRows::NewBatch);
  if (found->second.is_requests) {
    if (row.request != kNone) event.Find("queue") != nullptr ? TakeStay(event, row) : TakeRequest(event, row);
  } else if (row.batch != kNone && event.Find("members") != nullptr) {
    TakeBatch(event, row);
  } else if (const ChromeValue* const id = event.Find("correlation_id"); id != nullptr) {
    rows_.AddCall({row.begin_ns, row.duration_ns, row.of, row.request, row.batch, event.name,
                   static_cast<uint64_t>(id->Number().value_or(0))});
  } else if (row.of != kNone) {
    TakeScope(event, row);
  }
}

void OwnXSpaceTarget::TakeRequest(const ChromeEvent& event, const Row& row) {
  model::RequestRow request;
  request.id = IdOf(event.Text("request"));
  request.route = rows_.Intern(event.name);
  request.begin_ns = row.begin_ns;
  request.duration_ns = row.duration_ns;
  request.begin_known = event.Find("begin_unknown") == nullptr;
  const std::string_view outcome = event.Text("outcome");
  for (int value = 1; value <= static_cast<int>(Outcome::kAbandoned); ++value) {
    if (outcome != OutcomeName(static_cast<Outcome>(value))) continue;
    request.outcome = static_cast<Outcome>(value);
    request.end_known = true;
  }
  rows_.Know(row.request, request);
}

void OwnXSpaceTarget::TakeStay(const ChromeEvent& event, const Row& row) {
  model::HandoffRow stay;
  stay.request = row.request;
  stay.queue = rows_.Intern(event.Text("queue"));
  stay.from_thread = ThreadOf(event, "from_thread");
  stay.to_thread = ThreadOf(event, "to_thread");
  stay.enqueue_ns = row.begin_ns;
  stay.take_ns = row.duration_ns == kOpen ? 0 : row.begin_ns + row.duration_ns;
  stay.batch = row.batch;
  trace_.handoffs.push_back(stay);
}

void OwnXSpaceTarget::TakeBatch(const ChromeEvent& event, const Row& row) {
  model::BatchRow batch;
  batch.id = IdOf(event.Text("batch"));
  batch.executor = rows_.Intern(event.name);
  batch.thread = row.of;
  batch.begin_ns = row.begin_ns;
  batch.duration_ns = row.duration_ns;
  rows_.KnowBatch(row.batch, batch);
  std::string_view members = event.Text("requests");
  while (!members.empty()) {
    const size_t space = std::min(members.find(' '), members.size());
    const uint32_t member = RowOf(members.substr(0, space), &requests_, &OwnRows::NewRequest);
    trace_.members.push_back({row.batch, member, row.begin_ns, 0, 0});
    members.remove_prefix(std::min(space + 1, members.size()));
  }
}

void OwnXSpaceTarget::TakeScope(const ChromeEvent& event, const Row& row) {
  const std::string_view kind = event.Text("kind");
  SiteKind of = SiteKind::kScope;
  if (kind == "operator") of = SiteKind::kOperator;
  if (kind == "leaf") of = SiteKind::kLeaf;
  if (kind == "phase") of = SiteKind::kPhase;
  if (kind != "wait") {
    rows_.AddEvent(row.of, rows_.Site(of, event.name, {}), row.begin_ns, row.duration_ns, row.request, row.batch, {});
  } else {
    rows_.AddWait(row.of, row.begin_ns, row.duration_ns, row.request, row.batch,
                  {event.Text("wait_kind"), event.Text("resource")});
  }
}

void OwnXSpaceTarget::TakeWork(const ChromeEvent& event, const Row& row) {
  OwnRows::Work work = {};
  work.begin_ns = row.begin_ns;
  work.duration_ns = row.duration_ns;
  work.stream = row.of;
  work.kind = GpuKind::kKernel;
  work.name = event.name;
  const std::string_view kind = event.Text("kind");
  for (const GpuKind one : {GpuKind::kMemcpy, GpuKind::kMemset, GpuKind::kGraph}) {
    const std::string_view prefix = model::GpuKindName(one);
    if (kind != prefix) continue;
    work.kind = one;
    if (one != GpuKind::kGraph) work.name.remove_prefix(std::min(work.name.size(), prefix.size() + 1));
  }
  work.call = static_cast<uint64_t>(event.Number("correlation_id", 0));
  work.scope_path = event.Text("scope_path");
  work.graph = static_cast<uint32_t>(event.Number("cuda_graph_exec_id", 0));
  work.node = static_cast<uint32_t>(event.Number("cuda_graph_node_id", 0));
  const std::string_view details = event.Text("kernel_details");
  if (!details.empty()) {
    work.has_shape = true;
    work.shape = launches_.Of(details);
  }
  work.bytes = CopiedBytes(event.Text("memcpy_details"));
  rows_.AddWork(work);
}

uint32_t OwnXSpaceTarget::RowOf(std::string_view id, Rows* rows, uint32_t (OwnRows::*make)()) {
  if (id.empty()) return kNone;
  const uint64_t number = IdOf(id);
  if (rows->last_row != kNone && number == rows->last_id) return rows->last_row;
  const auto [found, is_new] = rows->by_id.try_emplace(number, 0);
  if (is_new) found->second = (rows_.*make)();
  rows->last_id = number;
  return rows->last_row = found->second;
}

uint32_t OwnXSpaceTarget::ThreadOf(const ChromeEvent& event, std::string_view key) const {
  const ChromeValue* const id = event.Find(key);
  const auto found = id == nullptr ? lines_[0].end() : lines_[0].find(id->Number().value_or(0));
  return found == lines_[0].end() ? kNone : found->second.row;
}

Status OwnXSpaceTarget::Finish(TraceReport* report) {
  constexpr int64_t kIn2001 = 1'000'000'000'000'000'000;
  const int64_t end_ns = trace_.window_end_ns;
  const bool is_dated = unix_offset_ns_ != 0 || end_ns >= kIn2001;  // times may be Unix time themselves
  trace_.clock.monotonic_ns = end_ns;
  if (is_dated)
    trace_.clock.realtime_ns = end_ns + std::clamp<int64_t>(unix_offset_ns_, -end_ns, model::kMaxTimeNs - end_ns);
  model::AddLosses(losses_, 0, &trace_);
  model::AddGpuLosses(gpu_losses_, 0, &trace_);
  const Status status = rows_.Finish(!report->complete);
  report->tool = "Pitot";
  report->how.clear();
  report->lacks = {"instants, counters and stages", "triggers", "tokens", "arguments", "spans of CUDA events"};
  if (!has_losses_) report->lacks.push_back("losses");
  if (!is_dated) report->lacks.push_back("the date");
  if (!has_depths_) report->lacks.push_back("depths of recording");
  report->counts = {{"times_out_of_range", rows_.times_out_of_range()}};
  return status;
}

}  // namespace pitot::read
