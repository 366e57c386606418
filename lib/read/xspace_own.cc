// SPDX-License-Identifier: Apache-2.0
#include "read/xspace_own.h"

#include <algorithm>
#include <cstdlib>

#include "pitot/outcome.h"
#include "read/decimal.h"

namespace pitot::read {

using model::kNone;
using model::kOpen;

namespace {

constexpr std::string_view kHostPlane = "/host:CPU", kGpuPlane = "/device:GPU:", kOffsetStat = "pitot_clock_offset_ns";

int64_t WholeOf(std::string_view text) { return ParseDecimal(text, 0).value_or(0); }
uint64_t IdOf(std::string_view text) { return std::strtoull(std::string(text).c_str(), nullptr, 16); }

// The value of "regs:96" in kernel_details, and of the three in "grid:98,2,1".
std::string_view LaunchDetail(std::string_view details, std::string_view key) {
  const size_t at = details.find(key);
  return at == std::string_view::npos ? std::string_view()
                                      : details.substr(at + key.size(), details.find(' ', at) - at - key.size());
}
uint32_t LaunchNumber(std::string_view details, std::string_view key) {
  return static_cast<uint32_t>(std::clamp<int64_t>(WholeOf(LaunchDetail(details, key)), 0, UINT32_MAX));
}
void LaunchAxes(std::string_view text, uint32_t (&axes)[3]) {
  for (uint32_t& axis : axes) {
    const size_t comma = std::min(text.find(','), text.size());
    axis = static_cast<uint32_t>(std::clamp<int64_t>(WholeOf(text.substr(0, comma)), 0, UINT32_MAX));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
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
    unix_offset_ns_ = WholeOf(head.StatOf(kOffsetStat));
    trace_.window_begin_ns = std::clamp<int64_t>(WholeOf(head.StatOf("pitot_window_begin_ns")), 0, model::kMaxTimeNs);
    trace_.window_end_ns = std::clamp<int64_t>(WholeOf(head.StatOf("pitot_window_end_ns")), 0, model::kMaxTimeNs);
    for (const auto& [id, name] : head.lines) {
      Line& line = lines_[plane][id];
      line.is_requests = id < 0 && name == "requests";
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

void OwnXSpaceTarget::Take(size_t plane, int64_t line, const ChromeEvent& written) {
  const auto found = lines_[plane].find(line);
  if (found == lines_[plane].end()) return;
  ChromeEvent event = written;
  *event.begin_ns -= unix_offset_ns_;
  if (event.Find("open") != nullptr) *event.duration_ns = kOpen;
  if (!rows_.TakeTime(*event.begin_ns, *event.duration_ns)) return;
  if (plane != 0) {
    if (found->second.row != kNone) TakeWork(event, found->second.row);
    return;
  }
  const std::string_view request_id = event.Text("request"), batch_id = event.Text("batch");
  const uint32_t request = request_id.empty() ? kNone : RequestOf(request_id);
  if (found->second.is_requests) {
    if (request == kNone) return;
    model::RequestRow row;
    row.id = IdOf(request_id);
    row.route = rows_.Intern(event.name);
    row.begin_ns = *event.begin_ns;
    row.duration_ns = *event.duration_ns;
    const std::string_view outcome = event.Text("outcome");
    for (int value = 1; value <= static_cast<int>(Outcome::kAbandoned); ++value) {
      if (outcome != OutcomeName(static_cast<Outcome>(value))) continue;
      row.outcome = static_cast<Outcome>(value);
      row.end_known = true;
    }
    rows_.Know(request, row);
    return;
  }
  const uint32_t batch = batch_id.empty() ? kNone : BatchOf(batch_id), thread = found->second.row;
  if (event.Find("members") != nullptr && batch != kNone) {
    model::BatchRow row;
    row.id = IdOf(batch_id);
    row.executor = rows_.Intern(event.name);
    row.thread = thread;
    row.begin_ns = *event.begin_ns;
    row.duration_ns = *event.duration_ns;
    rows_.KnowBatch(batch, row);
    std::string_view members = event.Text("requests");
    while (!members.empty()) {
      const size_t space = std::min(members.find(' '), members.size());
      trace_.members.push_back({batch, RequestOf(members.substr(0, space)), row.begin_ns, 0, 0});
      members.remove_prefix(std::min(space + 1, members.size()));
    }
  } else if (event.Find("correlation_id") != nullptr) {
    rows_.AddCall({*event.begin_ns, *event.duration_ns, thread, request, batch, event.name,
                   static_cast<uint64_t>(event.Number("correlation_id", 0))});
  } else if (thread != kNone) {
    TakeScope(event, thread, request, batch);
  }
}

void OwnXSpaceTarget::TakeScope(const ChromeEvent& event, uint32_t thread, uint32_t request, uint32_t batch) {
  const std::string_view kind = event.Text("kind");
  SiteKind of = SiteKind::kScope;
  if (kind == "operator") of = SiteKind::kOperator;
  if (kind == "leaf") of = SiteKind::kLeaf;
  if (kind == "phase") of = SiteKind::kPhase;
  if (kind != "wait") {
    rows_.AddEvent(thread, rows_.Site(of, event.name, {}), *event.begin_ns, *event.duration_ns, request, batch, {});
  } else {
    rows_.AddWait(thread, *event.begin_ns, *event.duration_ns, request, batch,
                  {event.Text("wait_kind"), event.Text("resource")});
  }
}

void OwnXSpaceTarget::TakeWork(const ChromeEvent& event, uint32_t stream) {
  OwnRows::Work work = {};
  work.begin_ns = *event.begin_ns;
  work.duration_ns = *event.duration_ns;
  work.stream = stream;
  work.kind = GpuKind::kKernel;
  work.name = event.name;
  for (const GpuKind kind : {GpuKind::kMemcpy, GpuKind::kMemset}) {
    const std::string_view prefix = model::GpuKindName(kind);
    if (event.Text("kind") != prefix) continue;
    work.kind = kind;
    work.name.remove_prefix(std::min(work.name.size(), prefix.size() + 1));
  }
  if (event.Text("kind") == model::GpuKindName(GpuKind::kGraph)) work.kind = GpuKind::kGraph;
  work.call = static_cast<uint64_t>(event.Number("correlation_id", 0));
  work.scope_path = event.Text("scope_path");
  work.graph = static_cast<uint32_t>(event.Number("cuda_graph_exec_id", 0));
  work.node = static_cast<uint32_t>(event.Number("cuda_graph_node_id", 0));
  const std::string_view details = event.Text("kernel_details");
  if (!details.empty()) {
    work.has_shape = true;
    LaunchAxes(LaunchDetail(details, "grid:"), work.shape.grid);
    LaunchAxes(LaunchDetail(details, "block:"), work.shape.block);
    work.shape.registers_per_thread = LaunchNumber(details, "regs:");
    work.shape.static_shared_bytes = LaunchNumber(details, "static_shared:");
    work.shape.dynamic_shared_bytes = LaunchNumber(details, "dynamic_shared:");
  }
  work.bytes =
      static_cast<uint64_t>(std::max<int64_t>(0, WholeOf(LaunchDetail(event.Text("memcpy_details"), "size:"))));
  rows_.AddWork(work);
}

uint32_t OwnXSpaceTarget::RequestOf(std::string_view id) {
  const auto [found, is_new] = requests_.try_emplace(std::string(id), 0);
  if (is_new) found->second = rows_.NewRequest();
  return found->second;
}

uint32_t OwnXSpaceTarget::BatchOf(std::string_view id) {
  const auto [found, is_new] = batches_.try_emplace(std::string(id), 0);
  if (is_new) found->second = rows_.NewBatch();
  return found->second;
}

Status OwnXSpaceTarget::Finish(TraceReport* report) {
  const int64_t end_ns = trace_.window_end_ns;
  trace_.clock.monotonic_ns = end_ns;
  if (unix_offset_ns_ != 0)
    trace_.clock.realtime_ns = end_ns + std::clamp<int64_t>(unix_offset_ns_, -end_ns, model::kMaxTimeNs - end_ns);
  if (trace_.gpu.begin_ns.size() != 0 && end_ns >= trace_.window_begin_ns) {
    const bool has_operators = std::any_of(trace_.sites.begin(), trace_.sites.end(),
                                           [](const model::SiteRow& site) { return site.kind == SiteKind::kOperator; });
    trace_.depths.push_back({trace_.window_begin_ns, end_ns, has_operators ? Depth::kOps : Depth::kKernels});
  }
  const Status status = rows_.Finish(!report->complete);
  report->tool = "Pitot";
  report->how.clear();
  report->lacks = {"instants, counters, stages, queues and tokens", "arguments", "losses", "spans of CUDA events"};
  if (unix_offset_ns_ == 0) report->lacks.push_back("the date");
  report->counts = {{"times_out_of_range", rows_.times_out_of_range()}};
  return status;
}

}  // namespace pitot::read
