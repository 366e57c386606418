// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/xspace.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "model/depth_rows.h"
#include "model/enclosing.h"
#include "model/kernel_name.h"
#include "model/lacking.h"
#include "model/loss_rows.h"
#include "model/occupancy.h"
#include "model/request_text.h"
#include "pitot/model/trace.h"
#include "pitot/wait.h"
#include "serialize/lanes.h"
#include "serialize/texts.h"
#include "serialize/thread_ids.h"
#include "serialize/xspace_plane.h"

PITOT_NAMESPACE_BEGIN
namespace {

using model::kNone;
using model::StringId;
using model::Trace;
using serialize::Hex;
using serialize::Lanes;
using serialize::OrElse;
using serialize::ThreadName;
using serialize::WireBuffer;
using serialize::XSpacePlane;
namespace xspace = serialize::xspace;

// A row of the host's plane.
struct HostEvent {
  enum Kind : uint8_t { kBatch, kScope, kCall, kRequest };
  int64_t begin_ns, end_ns;
  uint32_t row;
  Kind kind;
};
bool IsBefore(const HostEvent& a, const HostEvent& b) {
  if (a.begin_ns != b.begin_ns) return a.begin_ns < b.begin_ns;
  return a.end_ns != b.end_ns ? a.end_ns > b.end_ns : a.kind < b.kind;
}

// What of a thread is not written yet: rows of its batches, events and calls.
struct HostRows {
  const uint32_t *batch, *last_batch;
  uint32_t event, last_event, call, last_call;
};

class XSpaceWriter {
 public:
  XSpaceWriter(const Trace& trace, ByteSink* sink)
      : trace_(trace),
        sink_(*sink),
        base_ns_(trace.clock.realtime_ns - trace.clock.monotonic_ns),
        enclosing_(FindEnclosing(trace)),
        vendor_(VendorOf(trace)),
        lines_(LinesOf(trace)),
        thread_ids_(serialize::ThreadIds(trace)) {}

  bool Write() {
    if (!WriteHost()) return false;
    for (uint32_t device = 0; device < trace_.devices.size(); ++device) {
      if (!WriteDevice(device)) return false;
    }
    const bool has_more = std::any_of(trace_.streams.begin(), trace_.streams.end(),
                                      [](const model::StreamRow& row) { return row.device == kNone; });
    if (has_more && !WriteDevice(kNone)) return false;
    WireBuffer end;
    end.String(xspace::kHostName, OrElse(trace_.AttributeOf("host"), "localhost"));
    return sink_.Write(end.data(), end.size());
  }

 private:
  using Rows = std::vector<std::vector<uint32_t>>;

  bool WriteHost() {
    XSpacePlane plane(0, "/host:CPU", base_ns_);
    plane.PlaneStat("pitot_clock_offset_ns", static_cast<uint64_t>(base_ns_));
    plane.PlaneStat("pitot_layout", uint64_t{2});  // from 2 on the host's name is the end of the file
    plane.PlaneStat("pitot_window_begin_ns", static_cast<uint64_t>(trace_.window_begin_ns));
    plane.PlaneStat("pitot_window_end_ns", static_cast<uint64_t>(trace_.window_end_ns));
    plane.PlaneStat(model::kDepthsKey, model::DepthsText(trace_.depths));
    plane.PlaneStat(model::kOperatorDepthsKey, model::DepthsText(trace_.operator_depths));
    plane.PlaneStat(model::kLossesKey, model::LossesText(trace_, thread_ids_));
    plane.PlaneStat(model::kGpuLossesKey, model::GpuLossesText(trace_));
    // The gaps of the format before this one stay unknown.
    if (const std::string_view lacks = trace_.AttributeOf(model::kNotRecorded); !lacks.empty())
      plane.PlaneStat("pitot_not_recorded", lacks);
    std::vector<std::vector<uint32_t>> batches(trace_.threads.size() + 1);  // the last: of unknown threads
    for (uint32_t batch = 0; batch < trace_.batches.size(); ++batch)
      batches[std::min<size_t>(trace_.batches[batch].thread, trace_.threads.size())].push_back(batch);
    const auto begin_of = [&](uint32_t row) { return trace_.requests[row].begin_ns; };
    const auto end_of = [&](uint32_t row) { return trace_.RequestEnd(trace_.requests[row]); };
    const Rows requests = LanesOf(static_cast<uint32_t>(trace_.requests.size()), begin_of, end_of);
    const auto enqueue_of = [&](uint32_t row) { return trace_.handoffs[row].enqueue_ns; };
    const auto take_of = [&](uint32_t row) { return TakenAt(trace_.handoffs[row]); };
    const Rows stays = LanesOf(static_cast<uint32_t>(trace_.handoffs.size()), enqueue_of, take_of);
    std::unordered_set<int64_t> taken(thread_ids_.begin(), thread_ids_.end());
    const auto free_id = [&](int64_t id) {
      while (!taken.insert(id).second) --id;
      return id;
    };
    const int64_t unknown_id = free_id(0);
    std::vector<int64_t> lane_ids(requests.size() + stays.size(), -1);
    for (int64_t& id : lane_ids) id = free_id(id);
    return plane.Write(&sink_, [&] {
      uint32_t call = 0;
      for (uint32_t thread = 0; thread <= trace_.threads.size(); ++thread) {
        HostRows rows = {batches[thread].data(), batches[thread].data() + batches[thread].size(), 0, 0, call, call};
        if (thread < trace_.threads.size()) {
          rows.event = trace_.threads[thread].first_event;
          rows.last_event = rows.event + trace_.threads[thread].event_count;
          while (call < trace_.calls.size() && trace_.calls.thread[call] == thread) ++call;
          rows.last_call = call;
          WriteThread(thread_ids_[thread], ThreadName(trace_, thread), rows, &plane);
        } else {
          rows.last_call = trace_.calls.size();
          WriteThread(unknown_id, "(unknown thread)", rows, &plane);
        }
      }
      size_t lane = 0;
      for (const std::vector<uint32_t>& rows : requests) WriteRequests(lane_ids[lane++], rows, &plane);
      for (const std::vector<uint32_t>& rows : stays) WriteStays(lane_ids[lane++], rows, &plane);
    });
  }

  // The first of the rows left, outer ones first; false if there is none.
  bool Take(HostRows* rows, HostEvent* first) const {
    const model::EventColumns& events = trace_.events;
    while (rows->event < rows->last_event && !model::IsScope(trace_.sites[events.site[rows->event]].kind))
      ++rows->event;
    HostEvent of[3];
    size_t count = 0;
    if (rows->batch != rows->last_batch)
      of[count++] = {trace_.batches[*rows->batch].begin_ns, trace_.BatchEnd(trace_.batches[*rows->batch]), *rows->batch,
                     HostEvent::kBatch};
    if (rows->event < rows->last_event)
      of[count++] = {events.begin_ns[rows->event], trace_.EventEnd(rows->event), rows->event, HostEvent::kScope};
    if (rows->call < rows->last_call)
      of[count++] = {trace_.calls.begin_ns[rows->call], trace_.CallEnd(rows->call), rows->call, HostEvent::kCall};
    if (count == 0) return false;
    *first = *std::min_element(of, of + count, IsBefore);
    if (first->kind == HostEvent::kBatch) ++rows->batch;
    if (first->kind == HostEvent::kScope) ++rows->event;
    if (first->kind == HostEvent::kCall) ++rows->call;
    return true;
  }
  void WriteThread(int64_t id, const std::string& name, HostRows rows, XSpacePlane* plane) const {
    HostEvent event;
    if (!Take(&rows, &event)) return;
    plane->BeginLine(id, name, event.begin_ns);
    do WriteEvent(event, plane);
    while (Take(&rows, &event));
    plane->EndLine();
  }
  void WriteEvent(const HostEvent& event, XSpacePlane* plane) const {
    plane->BeginEvent(NameOf(event), event.begin_ns, event.end_ns - event.begin_ns);
    if (IsOpen(event)) plane->Stat("open", uint64_t{1});
    WriteStats(event, plane);
    plane->EndEvent();
  }

  // As many lines as rows overlap: a line's events nest.
  template <class Begin, class End> static Rows LanesOf(uint32_t rows, const Begin& begin_of, const End& end_of) {
    Rows lanes;
    Lanes free;
    for (uint32_t row = 0; row < rows; ++row) {
      const uint32_t lane = free.Take(begin_of(row), end_of(row));
      if (lane == lanes.size()) lanes.emplace_back();
      lanes[lane].push_back(row);
    }
    return lanes;
  }
  void WriteRequests(int64_t id, const std::vector<uint32_t>& rows, XSpacePlane* plane) const {
    plane->BeginLine(id, "requests", trace_.requests[rows[0]].begin_ns);
    for (const uint32_t row : rows) {
      const model::RequestRow& request = trace_.requests[row];
      WriteEvent({request.begin_ns, trace_.RequestEnd(request), row, HostEvent::kRequest}, plane);
    }
    plane->EndLine();
  }
  int64_t TakenAt(const model::HandoffRow& stay) const {
    const int64_t end_ns = stay.take_ns != 0 ? stay.take_ns : trace_.RequestEnd(trace_.requests[stay.request]);
    return std::max(end_ns, stay.enqueue_ns);
  }
  // Requests' stays in queues.
  void WriteStays(int64_t id, const std::vector<uint32_t>& rows, XSpacePlane* plane) const {
    plane->BeginLine(id, "queues", trace_.handoffs[rows[0]].enqueue_ns);
    for (const uint32_t row : rows) {
      const model::HandoffRow& stay = trace_.handoffs[row];
      const std::string_view queue = trace_.strings[stay.queue];
      plane->BeginEvent(OrElse(queue, "(unnamed)"), stay.enqueue_ns, TakenAt(stay) - stay.enqueue_ns);
      if (stay.take_ns == 0) plane->Stat("open", uint64_t{1});
      plane->Stat("queue", queue);
      if (stay.from_thread != kNone) plane->Stat("from_thread", static_cast<uint64_t>(thread_ids_[stay.from_thread]));
      if (stay.to_thread != kNone) plane->Stat("to_thread", static_cast<uint64_t>(thread_ids_[stay.to_thread]));
      WriteContext(stay.request, stay.batch, plane);
      plane->EndEvent();
    }
    plane->EndLine();
  }

  bool IsOpen(const HostEvent& event) const {
    switch (event.kind) {
      case HostEvent::kBatch:
        return trace_.batches[event.row].duration_ns == model::kOpen;
      case HostEvent::kScope:
        return trace_.events.duration_ns[event.row] == model::kOpen;
      case HostEvent::kCall:
        return trace_.calls.duration_ns[event.row] == model::kOpen;
      case HostEvent::kRequest:
        return trace_.requests[event.row].duration_ns == model::kOpen;
    }
    return false;
  }
  std::string_view NameOf(const HostEvent& event) const {
    switch (event.kind) {
      case HostEvent::kBatch:
        return OrElse(trace_.strings[trace_.batches[event.row].executor], "executor");
      case HostEvent::kScope:
        return OrElse(trace_.EventName(event.row), "(unnamed)");
      case HostEvent::kCall:
        return trace_.strings[trace_.calls.name[event.row]];
      case HostEvent::kRequest:
        return OrElse(trace_.strings[trace_.requests[event.row].route], "request");
    }
    return {};
  }
  void WriteStats(const HostEvent& event, XSpacePlane* plane) const {
    switch (event.kind) {
      case HostEvent::kBatch: {
        // The root of a group, so that XProf takes batches for steps.
        const model::BatchRow& batch = trace_.batches[event.row];
        plane->Stat("_r", uint64_t{1});
        plane->Stat("step_num", uint64_t{event.row});
        plane->Stat("batch", Hex(batch.id, 16));
        plane->Stat("members", uint64_t{batch.member_count});
        plane->Stat("requests", MembersOf(batch));
        break;
      }
      case HostEvent::kScope:
        WriteKind(event.row, plane);
        WriteContext(trace_.events.request[event.row], trace_.events.batch[event.row], plane);
        break;
      case HostEvent::kCall:
        plane->Stat("correlation_id", uint64_t{event.row} + 1);
        WriteContext(trace_.calls.request[event.row], trace_.calls.batch[event.row], plane);
        break;
      case HostEvent::kRequest:
        plane->Stat("request", Hex(trace_.requests[event.row].id, 16));
        plane->Stat("outcome", std::string_view(model::OutcomeText(trace_.requests[event.row])));
        if (!trace_.requests[event.row].begin_known) plane->Stat("begin_unknown", uint64_t{1});
        break;
    }
  }
  // The ids of its requests.
  std::string MembersOf(const model::BatchRow& batch) const {
    std::string ids;
    for (uint32_t member = batch.first_member; member < batch.first_member + batch.member_count; ++member)
      ids += (ids.empty() ? "" : " ") + Hex(trace_.requests[trace_.members[member].request].id, 16);
    return ids;
  }
  // Names kinds other than plain scopes, and the resource of a wait.
  void WriteKind(uint32_t event, XSpacePlane* plane) const {
    const model::SiteRow& site = trace_.sites[trace_.events.site[event]];
    if (site.kind == SiteKind::kOperator) plane->Stat("kind", std::string_view("operator"));
    if (site.kind == SiteKind::kLeaf) plane->Stat("kind", std::string_view("leaf"));
    if (site.kind == SiteKind::kPhase) plane->Stat("kind", std::string_view("phase"));
    if (site.kind != SiteKind::kWait) return;
    plane->Stat("kind", std::string_view("wait"));
    const uint32_t args = trace_.events.args[event];
    if (args == kNone || site.arg_types.size() < 2 || !model::IsText(site.arg_types[1])) return;
    plane->Stat("wait_kind", std::string_view(WaitKindName(static_cast<WaitKind>(trace_.arg_values[args]))));
    plane->Stat("resource", trace_.strings[static_cast<StringId>(trace_.arg_values[args + 1])]);
  }
  void WriteContext(uint32_t request, uint32_t batch, XSpacePlane* plane) const {
    if (request != kNone) plane->Stat("request", Hex(trace_.requests[request].id, 16));
    if (batch != kNone) plane->Stat("batch", Hex(trace_.batches[batch].id, 16));
  }

  bool WriteDevice(uint32_t device) {
    const int64_t ordinal = OrdinalOf(device);
    const bool is_tpu = device != kNone && trace_.strings[trace_.devices[device].name].substr(0, 3) == "TPU";
    XSpacePlane plane(1 + ordinal, (is_tpu ? "/device:TPU:" : "/device:GPU:") + std::to_string(ordinal), base_ns_);
    if (!vendor_.empty()) plane.PlaneStat("device_vendor", vendor_);
    if (device != kNone) {
      const model::DeviceRow& row = trace_.devices[device];
      plane.PlaneStat("device_type_string", trace_.strings[row.name]);
      if (row.multiprocessors != 0) plane.PlaneStat("core_count", uint64_t{row.multiprocessors});
    }
    return plane.Write(&sink_, [&] {
      for (uint32_t stream = 0; stream < trace_.streams.size(); ++stream) {
        const model::StreamRow& row = trace_.streams[stream];
        if (row.device != device || row.event_count == 0) continue;
        const std::string number = "Stream #" + std::to_string(row.stream);
        const std::string_view name = is_tpu ? OrElse(trace_.strings[row.name], number) : number;
        plane.BeginLine(lines_[stream], name, trace_.gpu.begin_ns[row.first_event]);
        for (uint32_t work = row.first_event; work < row.first_event + row.event_count; ++work) WriteWork(work, &plane);
        plane.EndLine();
      }
    });
  }

  // Streams without a device get the number after all devices.
  int64_t OrdinalOf(uint32_t device) const {
    if (device != kNone) return trace_.devices[device].ordinal;
    int64_t ordinal = 0;
    for (const model::DeviceRow& row : trace_.devices) ordinal = std::max(ordinal, int64_t{row.ordinal} + 1);
    return ordinal;
  }
  // XProf's name of who made the devices, by their names or the first call of CUDA or HIP; "": unknown.
  static std::string_view VendorOf(const Trace& trace) {
    for (const model::DeviceRow& device : trace.devices) {
      if (trace.strings[device.name].find("NVIDIA") != std::string_view::npos) return "Nvidia";
    }
    for (const StringId name : trace.calls.name) {
      const std::string_view call = trace.strings[name];
      if (call.substr(0, 2) == "cu") return "Nvidia";
      if (call.substr(0, 3) == "hip") return "AMD";
    }
    return {};
  }
  // By stream: its number; with its context, or the next that is free, if another one of the device has that, too.
  static std::vector<int64_t> LinesOf(const Trace& trace) {
    std::set<std::pair<uint32_t, int64_t>> taken;
    std::vector<int64_t> lines;
    for (const model::StreamRow& row : trace.streams) {
      int64_t line = row.stream;
      if (taken.count({row.device, line}) != 0) line |= int64_t{row.context & INT32_MAX} << 32;
      while (!taken.emplace(row.device, line).second) ++line;
      lines.push_back(line);
    }
    return lines;
  }

  void WriteWork(uint32_t row, XSpacePlane* plane) {
    const model::GpuColumns& gpu = trace_.gpu;
    if (gpu.kind[row] == model::GpuKind::kSpan) return;  // it contains others, and gaps
    plane->BeginEvent(NameOfWork(row), gpu.begin_ns[row], gpu.duration_ns[row]);
    if (gpu.kind[row] != model::GpuKind::kKernel)
      plane->Stat("kind", std::string_view(model::GpuKindName(gpu.kind[row])));
    if (gpu.scope_path[row] != 0) plane->Stat("scope_path", trace_.strings[gpu.scope_path[row]]);
    const uint32_t call = gpu.call[row];
    if (call != kNone) {
      plane->Stat("correlation_id", uint64_t{call} + 1);
      if (enclosing_[call] != kNone) plane->Stat("tf_op", OrElse(trace_.EventName(enclosing_[call]), "(unnamed)"));
      WriteContext(trace_.calls.request[call], trace_.calls.batch[call], plane);
    }
    if (gpu.shape[row] != kNone) plane->Stat("kernel_details", DetailsOf(row));
    if (gpu.bytes[row] != 0) plane->Stat("memcpy_details", "size:" + std::to_string(gpu.bytes[row]));
    if (gpu.graph[row] != 0) plane->Stat("cuda_graph_exec_id", uint64_t{gpu.graph[row]});
    if (gpu.node[row] != 0) plane->Stat("cuda_graph_node_id", uint64_t{gpu.node[row]});
    plane->EndEvent();
  }
  std::string_view NameOfWork(uint32_t row) {
    if (trace_.gpu.kind[row] != model::GpuKind::kKernel) return name_ = model::ActivityName(trace_, row);
    const auto [found, is_new] = kernels_.try_emplace(trace_.gpu.name[row]);
    if (is_new) found->second = OrElse(model::ReadKernelName(trace_.strings[trace_.gpu.name[row]]).full, "(unnamed)");
    return found->second;
  }
  // The launch in the words of XProf's own tracer.
  std::string_view DetailsOf(uint32_t row) {
    const uint32_t device = trace_.streams[trace_.gpu.stream[row]].device, number = trace_.gpu.shape[row];
    const auto [found, is_new] = details_.try_emplace(uint64_t{device} << 32 | number);
    if (!is_new) return found->second;
    const model::KernelShape& shape = trace_.shapes[number];
    const double percent = device == kNone ? 0 : model::TheoreticalOccupancyPercent(trace_.devices[device], shape);
    const auto axes = [](const uint32_t(&size)[3]) {
      return std::to_string(size[0]) + "," + std::to_string(size[1]) + "," + std::to_string(size[2]);
    };
    found->second = "regs:" + std::to_string(shape.registers_per_thread) +
                    " static_shared:" + std::to_string(shape.static_shared_bytes) +
                    " dynamic_shared:" + std::to_string(shape.dynamic_shared_bytes) + " grid:" + axes(shape.grid) +
                    " block:" + axes(shape.block) + " occ_pct:" + std::to_string(static_cast<int>(percent + 0.5));
    return found->second;
  }

  const Trace& trace_;
  ByteSink& sink_;
  const int64_t base_ns_;
  const std::vector<uint32_t> enclosing_;
  const std::string_view vendor_;
  const std::vector<int64_t> lines_;
  const std::vector<int64_t> thread_ids_;  // of the lines of threads
  std::unordered_map<StringId, std::string> kernels_;
  std::unordered_map<uint64_t, std::string> details_;
  std::string name_;
};

class XSpaceSerializer final : public Serializer {
 public:
  explicit XSpaceSerializer(const char* file_name) : file_name_(file_name) {}
  const char* FileName() const noexcept override { return file_name_.c_str(); }
  Status Serialize(const Trace& trace, ByteSink& sink) override {
    if (XSpaceWriter(trace, &sink).Write()) return Status();
    return Status(StatusCode::kIoError, "the XSpace could not be written");
  }

 private:
  std::string file_name_;
};

}  // namespace

std::unique_ptr<Serializer> MakeXSpaceSerializer(const char* file_name) noexcept try {
  return std::make_unique<XSpaceSerializer>(file_name);
} catch (...) {  // no memory
  return nullptr;
}

PITOT_NAMESPACE_END
