// SPDX-License-Identifier: Apache-2.0
#include "read/perfetto_own.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/depth_name.h"
#include "pitot/outcome.h"
#include "pitot/request.h"
#include "pitot/wait.h"
#include "read/decimal.h"

namespace pitot::read {

using model::kNone;
using model::kOpen;

namespace {

constexpr int64_t kFirstWithEnd = 2;  // the layout

std::string_view Without(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}
uint64_t Id(std::string_view hex) {
  uint64_t id = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), id, 16);
  return id;
}
double RealOf(std::string_view text) {
  const double value = std::strtod(std::string(text).c_str(), nullptr);
  return std::isfinite(value) ? value : 0;
}
uint32_t Small(int64_t value) { return static_cast<uint32_t>(std::clamp<int64_t>(value, 0, UINT32_MAX)); }
// The number at the beginning of a text.
uint32_t Leading(std::string_view text) {
  return Small(ParseDecimal(text.substr(0, text.find_first_not_of("0123456789")), 0).value_or(0));
}
// "98 x 2 x 1".
void TakeGridText(std::string_view text, uint32_t* axes) {
  for (int axis = 0; axis < 3; ++axis) {
    axes[axis] = Leading(text);
    const size_t next = text.find(" x ");
    text.remove_prefix(next == std::string_view::npos ? text.size() : next + 3);
  }
}
bool IsWaitKind(std::string_view kind) {
  for (int value = 1; value <= static_cast<int>(WaitKind::kOther); ++value) {
    if (kind == WaitKindName(static_cast<WaitKind>(value))) return true;
  }
  return false;
}
SiteKind SiteKindOf(std::string_view kind) {
  return kind == "operator" ? SiteKind::kOperator
         : kind == "leaf"   ? SiteKind::kLeaf
         : kind == "phase"  ? SiteKind::kPhase
         : kind == "wait"   ? SiteKind::kWait
                            : SiteKind::kScope;
}
const ChromeValue* FindArg(const PerfettoEvent& event, std::string_view key) {
  for (const ChromeValue& arg : event.args) {
    if (arg.key == key) return &arg;
  }
  return nullptr;
}
std::string_view TextOf(const PerfettoEvent& event, std::string_view key) {
  const ChromeValue* const arg = FindArg(event, key);
  return arg == nullptr ? std::string_view() : arg->text;
}

}  // namespace

int64_t OwnPerfettoTarget::NumberOf(const PerfettoEvent& event, std::string_view key) const {
  const ChromeValue* const arg = FindArg(event, key);
  return arg == nullptr ? 0 : arg->Number().value_or(0);
}

const OwnPerfettoTarget::Track* OwnPerfettoTarget::ParentOf(const Track& track) const {
  return tracks_.Find(track.parent);
}

uint32_t OwnPerfettoTarget::RequestOf(uint64_t correlation) {
  if (correlation == 0) return kNone;
  const auto [found, is_new] = requests_.try_emplace(correlation, 0);
  if (is_new) found->second = rows_.NewRequest();
  return found->second;
}

uint32_t OwnPerfettoTarget::BatchOf(std::string_view id) {
  if (id.empty()) return kNone;
  const auto [found, is_new] = batches_.try_emplace(Id(id), 0);
  if (is_new) found->second = rows_.NewBatch();
  return found->second;
}

uint32_t OwnPerfettoTarget::ThreadOf(int64_t number) const {
  const auto found = threads_.find(number);
  return found == threads_.end() ? kNone : found->second;
}

void OwnPerfettoTarget::TakeAttribute(std::string_view key, std::string_view text, int64_t number) {
  if (!text.empty()) {
    trace_.attributes.push_back({rows_.Intern(key), rows_.Intern(text)});
  } else if (key == "window_begin_ns") {
    trace_.window_begin_ns = std::clamp<int64_t>(number, 0, model::kMaxTimeNs);
  } else if (key == "window_end_ns") {
    trace_.window_end_ns = std::clamp<int64_t>(number, 0, model::kMaxTimeNs);
  } else if (key == kMark) {
    has_end_mark_ = number >= kFirstWithEnd;
  } else if (key == "pitot_end") {
    has_ended_ = true;
  } else if (key.starts_with("device ")) {
    device_facts_.emplace_back(key, number);
  }
}

void OwnPerfettoTarget::TakeTrack(const PerfettoTrack& track) {
  Track& of = tracks_[track.uuid];
  of.parent = track.parent;
  of.name = track.name;
  of.unit = track.unit;
  if (track.has_process) {
    of.kind = Track::kProcess;
    trace_.pid = std::max<int64_t>(0, track.pid);
    trace_.process_name = rows_.Intern(track.process_name);
  } else if (track.has_thread) {
    if (of.kind == Track::kThread) return;
    of.kind = Track::kThread;
    of.row = rows_.Thread(track.tid, track.thread_name);
    if (track.sort_index > 0) trace_.threads[of.row].number = Small(track.sort_index);
    threads_.try_emplace(trace_.threads[of.row].number, of.row);
  } else if (track.is_counter) {
    of.kind = Track::kCounter;
  } else {
    TakeGpuTrack(track, &of);
  }
}

void OwnPerfettoTarget::TakeGpuTrack(const PerfettoTrack& track, Track* of) {
  const Track* const parent = ParentOf(*of);
  if (parent == nullptr || of->kind != Track::kOther) return;
  if (parent->kind == Track::kProcess && track.name.starts_with("GPU ")) {
    const std::string_view rest = track.name.substr(4);
    const size_t space = rest.find(' ');
    if (rest == "(unknown)") of->kind = Track::kDevice;
    if (space == std::string_view::npos || space == 0 || rest[0] < '0' || rest[0] > '9') return;
    of->kind = Track::kDevice;
    of->row = rows_.Device(Leading(rest), rest.substr(space + 1));
  } else if (parent->kind == Track::kDevice && track.name.starts_with("stream ")) {
    const auto [found, is_new] = streams_.try_emplace({parent->row, std::string(track.name)}, 0);
    constexpr std::string_view kSpans = " by CUDA events";
    const bool has_spans =
        track.name.size() > kSpans.size() && track.name.substr(track.name.size() - kSpans.size()) == kSpans;
    if (!is_new || has_spans) return;  // another row of it
    const size_t context = track.name.find("(context "), end = track.name.find(") ");
    model::StreamRow row;
    row.device = parent->row;
    row.stream = Leading(track.name.substr(7));
    if (context != std::string_view::npos) row.context = Leading(track.name.substr(context + 9));
    if (end != std::string_view::npos) row.name = rows_.Intern(track.name.substr(end + 2));
    of->kind = Track::kStream;
    of->row = found->second = rows_.Stream(row);
  }
}

bool OwnPerfettoTarget::TakeEvent(const PerfettoEvent& event) {
  Track& track = tracks_[event.track];
  const Track& home = event.default_track == event.track ? track : tracks_[event.default_track];
  if (event.type == PerfettoEvent::kEnd) return End(event.at_ns, &track), true;
  if (!rows_.TakeTime(event.at_ns, 0)) return true;
  if (event.type == PerfettoEvent::kCounter) return AddSample(event, home, &track), true;
  return Begin(event, home, &track);
}

bool OwnPerfettoTarget::Begin(const PerfettoEvent& event, const Track& home, Track* track) {
  Open open;
  if (home.kind == Track::kThread) {
    open = AddOfThread(event, home.row);
  } else if (home.kind == Track::kStream) {
    open = AddWork(event, home.row);
  } else if (event.name.starts_with("lost: ")) {
    AddLoss(event, home, *track);
  } else {
    open = AddOfProcess(event, *track);
  }
  constexpr size_t kMostOpen = 100000;
  if (event.type == PerfettoEvent::kBegin && track->open.size() < kMostOpen) track->open.push_back(open);
  return true;
}

void OwnPerfettoTarget::End(int64_t at_ns, Track* track) {
  if (track->open.empty()) return;
  const Open open = track->open.back();
  track->open.pop_back();
  const auto end = [&](int64_t begin_ns, int64_t* duration_ns) { *duration_ns = rows_.Ended(begin_ns, at_ns); };
  switch (open.table) {
    case Table::kEvents:
      return end(trace_.events.begin_ns[open.row], &trace_.events.duration_ns[open.row]);
    case Table::kCalls:
      return end(trace_.calls.begin_ns[open.row], &trace_.calls.duration_ns[open.row]);
    case Table::kGpu:
      return end(trace_.gpu.begin_ns[open.row], &trace_.gpu.duration_ns[open.row]);
    case Table::kRequests:
      return end(trace_.requests[open.row].begin_ns, &trace_.requests[open.row].duration_ns);
    case Table::kStages: {
      model::Stage& stage = trace_.requests[open.row].stages[open.item];
      return end(stage.begin_ns, &stage.duration_ns);
    }
    case Table::kAsyncs:
      return end(trace_.asyncs[open.row].begin_ns, &trace_.asyncs[open.row].duration_ns);
    case Table::kBatches:
      return end(trace_.batches[open.row].begin_ns, &trace_.batches[open.row].duration_ns);
    case Table::kOverheads:
      return end(trace_.overheads[open.row].begin_ns, &trace_.overheads[open.row].duration_ns);
    case Table::kDepths:
    case Table::kOperatorDepths: {
      model::DepthRow& depth = (open.table == Table::kDepths ? trace_.depths : trace_.operator_depths)[open.row];
      depth.end_ns = depth.begin_ns + rows_.Ended(depth.begin_ns, at_ns);
      return;
    }
    case Table::kIgnored:
      return;
  }
}

OwnPerfettoTarget::Open OwnPerfettoTarget::AddOfThread(const PerfettoEvent& event, uint32_t thread) {
  if (TextOf(event, "kind") == "CUDA call") return AddCall(event, thread);
  // Pitot's own annotations come before the host's arguments.
  size_t own = 0;
  std::string_view kind, batch_id;
  for (; own < std::min<size_t>(event.args.size(), 2); ++own) {
    const ChromeValue& arg = event.args[own];
    const bool is_kind = arg.key == "kind" && kind.empty() && batch_id.empty() && arg.is_text &&
                         SiteKindOf(arg.text) != SiteKind::kScope;
    const bool is_batch = arg.key == "batch" && batch_id.empty() && arg.is_text && arg.text.size() == 16;
    if (!is_kind && !is_batch) break;
    (is_kind ? kind : batch_id) = arg.text;
  }
  std::vector<ChromeValue>& args = args_;
  args.assign(event.args.begin() + static_cast<ptrdiff_t>(own), event.args.end());
  int64_t duration_ns = event.type == PerfettoEvent::kInstant ? 0 : kOpen;
  Open open = {Table::kEvents, trace_.events.size(), 0};
  if (!args.empty() && args.back().key == "true_duration_ns" && event.type == PerfettoEvent::kBegin) {
    const int64_t true_ns = args.back().Number().value_or(0);
    if (true_ns >= 0 && rows_.TakeTime(event.at_ns, true_ns)) duration_ns = true_ns;
    open.table = Table::kIgnored;
    args.pop_back();
  }
  const uint32_t request = RequestOf(event.correlation), batch = BatchOf(batch_id);
  if (event.name.starts_with("wait ") && !args.empty() && args[0].key == "kind" && IsWaitKind(args[0].text)) {
    OwnRows::Wait wait = {args[0].text, event.name.substr(5)};
    wait.owner_thread = static_cast<uint64_t>(NumberOf(event, "owner_thread"));
    wait.owner_request = Id(TextOf(event, "owner_request"));
    wait.spurious = static_cast<uint64_t>(NumberOf(event, "spurious_wake_ups"));
    rows_.AddWait(thread, event.at_ns, duration_ns, request, batch, wait);
    return open;
  }
  const SiteKind of = event.type == PerfettoEvent::kInstant ? SiteKind::kInstant : SiteKindOf(kind);
  rows_.AddEvent(thread, rows_.Site(of, event.name, args), event.at_ns, duration_ns, request, batch, args);
  return open;
}

OwnPerfettoTarget::Open OwnPerfettoTarget::AddCall(const PerfettoEvent& event, uint32_t thread) {
  OwnRows::Call call = {event.at_ns, kOpen, thread, RequestOf(event.correlation), BatchOf(TextOf(event, "batch")),
                        event.name,  0};
  Open open = {Table::kCalls, trace_.calls.size(), 0};
  if (FindArg(event, "true_duration_ns") != nullptr) {
    const int64_t true_ns = NumberOf(event, "true_duration_ns");
    if (true_ns >= 0 && rows_.TakeTime(event.at_ns, true_ns)) call.duration_ns = true_ns;
    open.table = Table::kIgnored;
  }
  const std::string_view awaited = TextOf(event, "waits_for");
  constexpr std::string_view kAll = "all streams of GPU ";
  if (awaited.starts_with(kAll)) {
    for (uint32_t row = 0; row < trace_.devices.size(); ++row) {
      if (trace_.devices[row].ordinal == Leading(awaited.substr(kAll.size()))) call.device = row;
    }
  } else if (!awaited.empty()) {
    const int64_t device = NumberOf(event, "device");  // 0: there is one
    for (const auto& [key, stream] : streams_) {
      if (key.second == awaited && (device == 0 || key.first == Small(device - 1))) call.stream = stream;
    }
  }
  rows_.AddCall(call);
  for (const uint64_t flow : event.flows) rows_.NameCall(flow);
  if (const int64_t number = NumberOf(event, "call"); number != 0) rows_.NameCall(~static_cast<uint64_t>(number));
  return open;
}

OwnPerfettoTarget::Open OwnPerfettoTarget::AddWork(const PerfettoEvent& event, uint32_t stream) {
  OwnRows::Work work = {};
  work.begin_ns = event.at_ns;
  work.stream = stream;
  work.kind = GpuKind::kKernel;
  work.name = event.name;
  const std::string_view kind = TextOf(event, "kind");
  for (const GpuKind of : {GpuKind::kMemcpy, GpuKind::kMemset, GpuKind::kGraph}) {
    if (kind != model::GpuKindName(of)) continue;
    work.kind = of;
    if (of != GpuKind::kGraph)
      work.name.remove_prefix(std::min(work.name.size(), std::string_view(model::GpuKindName(of)).size() + 1));
  }
  if (kind == "from CUDA event to CUDA event") work.kind = GpuKind::kSpan;
  if (work.kind == GpuKind::kKernel && FindArg(event, "kernel") != nullptr) work.name = TextOf(event, "kernel");
  work.scope_path = TextOf(event, "scope_path");
  if (!event.flows.empty()) work.call = event.flows[0];
  if (const int64_t number = NumberOf(event, "call"); number != 0) work.call = ~static_cast<uint64_t>(number);
  work.bytes = static_cast<uint64_t>(NumberOf(event, "bytes"));
  work.graph = Small(NumberOf(event, "graph"));
  work.node = Small(NumberOf(event, "node"));
  work.has_shape = FindArg(event, "grid") != nullptr;
  TakeGridText(TextOf(event, "grid"), work.shape.grid);
  TakeGridText(TextOf(event, "block"), work.shape.block);
  work.shape.registers_per_thread = Small(NumberOf(event, "registers_per_thread"));
  work.shape.static_shared_bytes = Small(NumberOf(event, "static_shared_bytes"));
  work.shape.dynamic_shared_bytes = Small(NumberOf(event, "dynamic_shared_bytes"));
  work.shape.local_bytes_per_thread = Small(NumberOf(event, "local_bytes_per_thread"));
  rows_.AddWork(work);
  return {Table::kGpu, trace_.gpu.size() - 1, 0};
}

OwnPerfettoTarget::Open OwnPerfettoTarget::AddOfProcess(const PerfettoEvent& event, const Track& track) {
  const std::string_view kind = TextOf(event, "kind");
  const uint32_t request = RequestOf(event.correlation);
  if (kind == "CUDA call") return AddCall(event, kNone);
  if (kind == "request" && request != kNone) return AddRequest(event, track);
  if (kind == "batch") return AddBatch(event, track);
  if (kind == "queued" && request != kNone) return AddHandoff(event);
  if (kind == "stage" && request != kNone) {
    std::vector<model::Stage>& stages = trace_.requests[request].stages;
    stages.push_back({rows_.Intern(event.name), event.at_ns, kOpen});
    return {Table::kStages, request, static_cast<uint32_t>(stages.size() - 1)};
  }
  if (kind == "async" && request != kNone) {
    trace_.asyncs.push_back({rows_.Site(SiteKind::kAsyncBegin, event.name, {}), request,
                             ThreadOf(NumberOf(event, "begin_thread")), ThreadOf(NumberOf(event, "end_thread")),
                             event.at_ns, kOpen});
    return {Table::kAsyncs, static_cast<uint32_t>(trace_.asyncs.size() - 1), 0};
  }
  if (kind == "join" && request != kNone) {
    const uint32_t batch = BatchOf(TextOf(event, "batch"));
    if (batch == kNone) return {};
    model::MemberRow member = {batch, request, event.at_ns, std::max<int64_t>(0, NumberOf(event, "left_ns")), 0};
    if (const ChromeValue& last = event.args.back(); !last.is_text && last.key != "left_ns") {
      member.work = RealOf(last.text);
      if (last.key != "work") trace_.batches[batch].work_unit = rows_.Intern(last.key);
    }
    trace_.members.push_back(member);
  } else if (kind == "tokens" && request != kNone) {
    trace_.tokens.push_back(
        {request, ThreadOf(NumberOf(event, "thread")), event.at_ns, Small(NumberOf(event, "count"))});
  } else if (kind == "trigger") {
    trace_.firings.push_back({event.at_ns, Id(TextOf(event, "request")), rows_.Intern(Without(event.name, "trigger: ")),
                              rows_.Intern(TextOf(event, "detail"))});
  } else if (kind.empty()) {
    return AddRecording(event, track);
  }
  return {};
}

OwnPerfettoTarget::Open OwnPerfettoTarget::AddRequest(const PerfettoEvent& event, const Track& track) {
  const uint32_t handle = RequestOf(event.correlation);
  model::RequestRow& row = trace_.requests[handle];
  if (const Track* const group = ParentOf(track); group != nullptr)
    row.route = rows_.Intern(Without(group->name, "requests "));
  row.begin_ns = event.at_ns;
  row.duration_ns = kOpen;
  row.end_known = false;
  bool are_hosts = false;  // sizes and labels, by any name
  for (const ChromeValue& arg : event.args) {
    const auto number = [&] { return std::clamp<int64_t>(arg.Number().value_or(0), 0, model::kMaxTimeNs); };
    const bool is_host = are_hosts;
    are_hosts |= arg.key == "labels";
    if (arg.key == "kind" && !is_host) continue;
    if (are_hosts && !is_host) continue;
    if (is_host) {
      if (arg.is_text)
        row.labels.push_back({rows_.Intern(arg.key), rows_.Intern(arg.text)});
      else
        row.sizes.push_back({rows_.Intern(arg.key), RealOf(arg.text)});
    } else if (arg.key == "id") {
      row.id = Id(arg.text);
    } else if (arg.key == "host_id") {
      row.host_id = rows_.Intern(arg.text);
    } else if (arg.key == "trace_id" && arg.text.size() == 32) {
      row.trace_id_high = Id(arg.text.substr(0, 16));
      row.trace_id_low = Id(arg.text.substr(16));
    } else if (arg.key == "parent") {
      row.parent_id = Id(arg.text);
    } else if (arg.key == "outcome") {
      for (int value = 1; value <= static_cast<int>(Outcome::kAbandoned); ++value) {
        if (arg.text != OutcomeName(static_cast<Outcome>(value))) continue;
        row.outcome = static_cast<Outcome>(value);
        row.end_known = true;
      }
    } else if (arg.key == "reason") {
      row.reason = rows_.Intern(arg.text);
    } else if (arg.key == "deadline_ns") {
      row.deadline_ns = number();
    } else if (arg.key == "output_tokens") {
      row.output_tokens = Small(number());
    } else if (arg.key == "first_token_after_ns") {
      row.first_token_ns = number();
    } else if (arg.key == "max_token_gap_ns") {
      row.max_token_gap_ns = number();
    } else if (arg.key == "size_bucket") {
      row.size_bucket = Small(number());
    } else if (arg.key == "begin_unknown") {
      row.begin_known = false;
    } else if (arg.key == "begin_thread") {
      row.begin_thread = ThreadOf(number());
    } else if (arg.key == "end_thread") {
      row.end_thread = ThreadOf(number());
    } else if (arg.is_text) {
      row.labels.push_back({rows_.Intern(arg.key), rows_.Intern(arg.text)});
    } else {
      row.sizes.push_back({rows_.Intern(arg.key), RealOf(arg.text)});
    }
  }
  return {Table::kRequests, handle, 0};
}

OwnPerfettoTarget::Open OwnPerfettoTarget::AddBatch(const PerfettoEvent& event, const Track& track) {
  const uint32_t handle = BatchOf(TextOf(event, "batch_id"));
  if (handle == kNone) return {};
  model::BatchRow& row = trace_.batches[handle];
  row.id = Id(TextOf(event, "batch_id"));
  if (const Track* const group = ParentOf(track); group != nullptr)
    row.executor = rows_.Intern(Without(group->name, "batches "));
  row.thread = ThreadOf(NumberOf(event, "thread"));
  row.begin_ns = event.at_ns;
  row.duration_ns = kOpen;
  row.submitted_ns = std::clamp<int64_t>(NumberOf(event, "submitted_after_ns"), 0, model::kMaxTimeNs);
  row.launches = Small(NumberOf(event, "launches"));
  row.launch_ns = std::clamp<int64_t>(NumberOf(event, "launch_ns"), 0, model::kMaxTimeNs);
  const std::string_view reason = TextOf(event, "close_reason");
  for (uint8_t value = 0; value <= static_cast<uint8_t>(BatchClose::kStep); ++value) {
    if (reason == BatchCloseName(static_cast<BatchClose>(value))) row.close = value;
  }
  return {Table::kBatches, handle, 0};
}

OwnPerfettoTarget::Open OwnPerfettoTarget::AddHandoff(const PerfettoEvent& event) {
  const int64_t taken_ns = NumberOf(event, "taken_ns");
  trace_.handoffs.push_back({RequestOf(event.correlation), rows_.Intern(Without(event.name, "queued ")),
                             ThreadOf(NumberOf(event, "from_thread")), ThreadOf(NumberOf(event, "to_thread")),
                             event.at_ns, std::clamp<int64_t>(taken_ns, 0, model::kMaxTimeNs),
                             BatchOf(TextOf(event, "batch"))});
  return {};
}

// Depths and overheads, by their track.
OwnPerfettoTarget::Open OwnPerfettoTarget::AddRecording(const PerfettoEvent& event, const Track& track) {
  if (track.name == "overheads") {
    trace_.overheads.push_back({event.at_ns, 0, rows_.Intern(event.name)});
    return {Table::kOverheads, static_cast<uint32_t>(trace_.overheads.size() - 1), 0};
  }
  Depth depth = Depth::kScopes;
  if (!base::ParseDepth(std::string(event.name).c_str(), &depth)) return {};
  const bool is_of_operators = track.name == "recorded operators";
  if (!is_of_operators && track.name != "recorded depth") return {};
  std::vector<model::DepthRow>& depths = is_of_operators ? trace_.operator_depths : trace_.depths;
  depths.push_back({event.at_ns, event.at_ns, depth});
  return {is_of_operators ? Table::kOperatorDepths : Table::kDepths, static_cast<uint32_t>(depths.size() - 1), 0};
}

// A loss of a GPU may have several marks.
void OwnPerfettoTarget::AddLoss(const PerfettoEvent& event, const Track&, const Track& track) {
  const std::string_view reason = event.name.substr(6);
  const int64_t from_ns = NumberOf(event, "lost_from_ns"), to_ns = NumberOf(event, "lost_to_ns");
  if (from_ns < 0 || to_ns < from_ns || to_ns > model::kMaxTimeNs) return;
  if (TextOf(event, "kind") == "loss") {
    model::LossRow row;
    if (track.kind == Track::kThread) row.thread = track.row;
    row.begin_ns = from_ns;
    row.end_ns = to_ns;
    row.events = static_cast<uint64_t>(NumberOf(event, "events"));
    row.bytes = static_cast<uint64_t>(NumberOf(event, "bytes"));
    for (int value = 1; value <= static_cast<int>(model::LossReason::kTooDeepToBegin); ++value) {
      if (reason == LossReasonName(static_cast<model::LossReason>(value)))
        row.reason = static_cast<model::LossReason>(value);
    }
    trace_.losses.push_back(row);
    return;
  }
  const int64_t device = NumberOf(event, "device");
  const bool is_of_stream = device == 0 && track.kind == Track::kStream;
  const int64_t of = is_of_stream ? -1 - int64_t{track.row} : device;
  const auto [found, is_new] =
      gpu_losses_.try_emplace({std::string(reason), from_ns, to_ns, of}, trace_.gpu_losses.size());
  if (is_new) {
    model::GpuLossRow row;
    row.reason = rows_.Intern(reason);
    row.begin_ns = from_ns;
    row.end_ns = to_ns;
    if (is_of_stream) {
      row.stream = track.row;
      row.device = trace_.streams[track.row].device;
    } else if (device > 0 && static_cast<uint64_t>(device) <= trace_.devices.size()) {
      row.device = Small(device - 1);
    }
    trace_.gpu_losses.push_back(row);
  }
  trace_.gpu_losses[found->second].records += static_cast<uint64_t>(NumberOf(event, "records"));
}

void OwnPerfettoTarget::AddSample(const PerfettoEvent& event, const Track& home, Track* track) {
  if (!std::isfinite(event.value)) return;
  if (home.kind == Track::kThread) {
    char digits[40];
    snprintf(digits, sizeof digits, "%.17g", event.value);
    const std::vector<ChromeValue> args = {{"value", digits, false}};
    rows_.AddEvent(home.row, rows_.Site(SiteKind::kCounter, track->name, {{"value", "0.5", false}}), event.at_ns, 0,
                   kNone, kNone, args);
    return;
  }
  if (track->row == kNone) {
    const Track* parent = ParentOf(*track);
    if (parent != nullptr && parent->kind == Track::kOther) parent = ParentOf(*parent);  // of a group of counters
    track->row = static_cast<uint32_t>(trace_.counters.size());
    trace_.counters.push_back({parent != nullptr && parent->kind == Track::kDevice ? parent->row : kNone,
                               rows_.Intern(track->name), rows_.Intern(track->unit)});
  }
  if (track->kind != Track::kCounter) return;
  trace_.samples.counter.push_back(track->row);
  trace_.samples.at_ns.push_back(event.at_ns);
  trace_.samples.value.push_back(event.value);
}

Status OwnPerfettoTarget::Finish(const PerfettoClocks& clocks, TraceReport* report) {
  const auto time = [](int64_t ns) { return std::clamp<int64_t>(ns, 0, model::kMaxTimeNs); };
  trace_.clock.monotonic_ns = time(clocks.monotonic_ns);
  trace_.clock.realtime_ns = time(clocks.realtime_ns);
  trace_.clock.boottime_ns = time(clocks.boottime_ns);
  for (const auto& [key, number] : device_facts_) {
    const std::string_view rest = std::string_view(key).substr(7);
    const size_t space = rest.find(' ');
    if (space == std::string_view::npos || Leading(rest) >= trace_.devices.size()) continue;
    model::DeviceRow& row = trace_.devices[Leading(rest)];
    const std::string_view fact = rest.substr(space + 1);
    if (fact == "multiprocessors") row.multiprocessors = Small(number);
    if (fact == "threads_per_multiprocessor") row.threads_per_multiprocessor = Small(number);
    if (fact == "blocks_per_multiprocessor") row.blocks_per_multiprocessor = Small(number);
    if (fact == "registers_per_multiprocessor") row.registers_per_multiprocessor = Small(number);
    if (fact == "shared_bytes_per_multiprocessor") row.shared_bytes_per_multiprocessor = Small(number);
    if (fact == "threads_per_warp") row.threads_per_warp = Small(number);
  }
  const Status status = rows_.Finish(!report->complete);
  report->tool = "Pitot";
  report->how.clear();
  report->lacks = {"places in the code", "norms of the recorder's judge"};
  report->counts = {{"times_out_of_range", rows_.times_out_of_range()}};
  return status;
}

}  // namespace pitot::read
