// SPDX-License-Identifier: Apache-2.0
#include "serialize/perfetto_gpu.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "base/depth_name.h"
#include "model/occupancy.h"

namespace pitot::serialize {

using model::kNone;
using model::kOpen;
namespace event_field = perfetto::event;

namespace {

std::string Axes(const uint32_t size[3]) {
  return std::to_string(size[0]) + " x " + std::to_string(size[1]) + " x " + std::to_string(size[2]);
}

// Open slices, by their ends.
class OpenSlices {
 public:
  explicit OpenSlices(PacketWriter* out) : out_(*out) {}
  void Add(int64_t end_ns, uint64_t track) { ends_.emplace(end_ns, track); }
  void CloseUntil(int64_t until_ns) {
    for (; !ends_.empty() && ends_.top().first <= until_ns; ends_.pop()) {
      out_.BeginEvent(ends_.top().first, event_field::kSliceEnd, ends_.top().second);
      out_.EndEvent();
    }
  }

 private:
  using End = std::pair<int64_t, uint64_t>;  // time, track
  PacketWriter& out_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace

GpuTracks::GpuTracks(const model::Trace& trace, Tracks* tracks, PacketWriter* out)
    : trace_(trace),
      tracks_(*tracks),
      out_(*out),
      launches_(trace),
      calls_(trace.threads.size() + 1),
      kinds_(out->ManyTexts(3 + static_cast<size_t>(model::GpuKind::kSpan))),
      full_names_(out->ManyTexts(trace.strings.size())),
      grids_(out->ManyTexts(trace.shapes.size())),
      blocks_(out->ManyTexts(trace.shapes.size())),
      requests_(out->ManyTexts(trace.requests.size())),
      batches_(out->ManyTexts(trace.batches.size())),
      awaited_(out->ManyTexts(trace.streams.size() + trace.devices.size())) {
  const model::CallColumns& calls = trace.calls;
  for (uint32_t call = 0; call < calls.size(); ++call) {
    Calls& of = calls.thread[call] != kNone ? calls_[calls.thread[call]] : calls_.back();
    if (of.last == 0) of.first = call;
    of.last = call + 1;
  }
}

int64_t GpuTracks::CallEnd(uint32_t call) const {
  const int64_t duration_ns = trace_.calls.duration_ns[call];
  return duration_ns == kOpen ? INT64_MAX : trace_.calls.begin_ns[call] + duration_ns;
}

std::string GpuTracks::StreamName(uint32_t stream) const {
  const model::StreamRow& row = trace_.streams[stream];
  const std::string number = "stream " + std::to_string(row.stream) + " (context " + std::to_string(row.context) + ")";
  const std::string_view name = trace_.strings[row.name];
  return name.empty() ? number : number + " " + std::string(name);
}

uint64_t GpuTracks::DeviceGroup(uint32_t device) {
  if (device == kNone) return tracks_.Group(Of::kDevice, device, "GPU ", "(unknown)");
  const model::DeviceRow& row = trace_.devices[device];
  return tracks_.Group(Of::kDevice, device, "GPU " + std::to_string(row.ordinal) + " ", trace_.strings[row.name]);
}

uint64_t GpuTracks::RecordingGroup() { return tracks_.Group(Of::kRecording, 0, "GPU recording", ""); }

void GpuTracks::Describe() {
  for (uint32_t device = 0; device < trace_.devices.size(); ++device) DeviceGroup(device);
  for (uint32_t stream = 0; stream < trace_.streams.size(); ++stream) {
    tracks_.Describe(tracks_.Uuid(Of::kStream, stream), DeviceGroup(trace_.streams[stream].device), StreamName(stream));
  }
  for (uint32_t counter = 0; counter < trace_.counters.size(); ++counter) {
    const model::CounterRow& row = trace_.counters[counter];
    tracks_.DescribeCounter(tracks_.Uuid(Of::kSampled, counter), CounterGroup(row),
                            OrElse(trace_.strings[row.name], "counter"), trace_.strings[row.unit]);
  }
}

// Counters of a device have a group in its group. Others are grouped by the first word of names like `thread 12: major
// faults`. Otherwise there would be hundreds between the rows of threads and requests.
uint64_t GpuTracks::CounterGroup(const model::CounterRow& row) {
  if (row.device != kNone)
    return tracks_.Group(Of::kDeviceCounters, row.device, "counters", "", DeviceGroup(row.device));
  const std::string_view name = trace_.strings[row.name];
  const size_t colon = name.find(": ");
  if (colon == std::string_view::npos) return tracks_.Process();
  const std::string_view word = name.substr(0, std::min(colon, name.find(' ')));
  const auto group = counter_groups_.try_emplace(std::string(word), counter_groups_.size()).first;
  return tracks_.Group(Of::kCounters, group->second, "counters ", word);
}

void GpuTracks::Write(uint32_t first_sequence) {
  WriteRecording(first_sequence);
  WriteOtherCalls(first_sequence + 1);
  WriteCounters(first_sequence + 2);
  for (uint32_t stream = 0; stream < trace_.streams.size() && out_.ok(); ++stream)
    WriteStream(first_sequence + 3 + stream, stream);
  WriteWaits(first_sequence + 3 + static_cast<uint32_t>(trace_.streams.size()));
}

const model::KernelName& GpuTracks::NameOf(model::StringId compiled) {
  const auto [name, is_new] = names_.try_emplace(compiled);
  if (is_new) name->second = model::ReadKernelName(trace_.strings[compiled]);
  return name->second;
}

uint64_t GpuTracks::FlowTo(uint32_t row) const {
  const uint32_t call = trace_.gpu.call[row], stream = trace_.gpu.stream[row];
  if (call == kNone) return 0;
  const model::RowRange caused = launches_.Gpu(call);
  const uint32_t* const first = std::partition_point(caused.begin(), caused.end(),
                                                     [&](uint32_t other) { return trace_.gpu.stream[other] < stream; });
  return *first == row ? Mix(tracks_.Uuid(Of::kLaunch, row)) : 0;
}

bool GpuTracks::HasOnlySpans(uint32_t stream) const {
  const model::StreamRow& of = trace_.streams[stream];
  const auto first = trace_.gpu.kind.begin() + of.first_event;
  return std::all_of(first, first + of.event_count, [](model::GpuKind kind) { return kind == model::GpuKind::kSpan; });
}

void GpuTracks::WriteStream(uint32_t sequence, uint32_t stream) {
  const model::StreamRow& of = trace_.streams[stream];
  if (of.event_count == 0) return;
  const model::GpuColumns& gpu = trace_.gpu;
  // The first row is the stream's own track. Overlapping work needs more rows. Spans surround other activities only to
  // within a few us, so they have rows of their own if there are other activities.
  std::vector<uint64_t> rows{tracks_.Uuid(Of::kStream, stream)}, span_rows;
  const bool has_only_spans = HasOnlySpans(stream);
  const std::string span_name = StreamName(stream) + (has_only_spans ? "" : " by CUDA events");
  if (has_only_spans) span_rows = rows;
  Lanes lanes, span_lanes;
  OpenSlices open(&out_);
  out_.BeginSequence(sequence, rows[0], gpu.begin_ns[of.first_event]);
  for (uint32_t row = of.first_event; row < of.first_event + of.event_count && out_.ok(); ++row) {
    const int64_t begin_ns = gpu.begin_ns[row], end_ns = begin_ns + gpu.duration_ns[row];
    open.CloseUntil(begin_ns);
    const bool is_span = gpu.kind[row] == model::GpuKind::kSpan;
    std::vector<uint64_t>& tracks = is_span ? span_rows : rows;
    const uint32_t lane = (is_span ? span_lanes : lanes).Take(begin_ns, end_ns);
    if (lane == tracks.size())
      tracks.push_back(tracks_.NewLane(DeviceGroup(of.device), is_span ? span_name : StreamName(stream)));
    const uint64_t track = tracks[lane] == rows[0] ? 0 : tracks[lane];
    out_.BeginEvent(begin_ns, event_field::kSliceBegin, track);
    WriteRow(row);
    out_.EndEvent();
    open.Add(end_ns, track);
  }
  open.CloseUntil(INT64_MAX);
}

void GpuTracks::WriteRow(uint32_t row) {
  const model::GpuColumns& gpu = trace_.gpu;
  const model::StringId name = gpu.name[row];
  const bool is_kernel = gpu.kind[row] == model::GpuKind::kKernel;
  if (is_kernel) {
    out_.BriefName(name, OrElse(NameOf(name).brief, "kernel"));
  } else {
    out_.Name(model::ActivityName(trace_, row), "");
  }
  const uint64_t flow = FlowTo(row);
  if (flow != 0) out_.Flow(flow);
  const uint32_t call = gpu.call[row];
  if (call != kNone) out_.Correlation(trace_.calls.request[call]);
  if (gpu.kind[row] == model::GpuKind::kSpan)
    out_.Annotate(Word::kKind, &kinds_, 1, [] { return "from CUDA event to CUDA event"; });
  else if (!is_kernel)
    out_.Annotate(Word::kKind, &kinds_, 3 + static_cast<uint32_t>(gpu.kind[row]),
                  [&] { return model::GpuKindName(gpu.kind[row]); });
  if (call != kNone && flow == 0) out_.Annotate(Word::kCall, uint64_t{call} + 1);
  if (is_kernel) {
    if (const model::KernelName& of = NameOf(name); of.full != of.brief)
      out_.Annotate(Word::kKernel, &full_names_, name, [&] { return std::string_view(of.full); });
    if (gpu.shape[row] != kNone) WriteShape(row);
  }
  if (gpu.bytes[row] != 0) {
    out_.Annotate(Word::kBytes, gpu.bytes[row]);
    if (gpu.duration_ns[row] != 0)
      out_.Annotate(Word::kGbPerS, static_cast<double>(gpu.bytes[row]) / static_cast<double>(gpu.duration_ns[row]));
  }
  if (gpu.graph[row] != 0) {
    out_.Annotate(Word::kGraph, uint64_t{gpu.graph[row]});
    if (gpu.kind[row] != model::GpuKind::kGraph) out_.Annotate(Word::kNode, uint64_t{gpu.node[row]});
  }
  if (gpu.scope_path[row] != 0) out_.AnnotateText(Word::kScopePath, gpu.scope_path[row]);
  if (call != kNone) WriteContext(call);
}

void GpuTracks::WriteShape(uint32_t row) {
  const uint32_t number = trace_.gpu.shape[row];
  const model::KernelShape& shape = trace_.shapes[number];
  out_.Annotate(Word::kGrid, &grids_, number, [&] { return Axes(shape.grid); });
  out_.Annotate(Word::kBlock, &blocks_, number, [&] { return Axes(shape.block); });
  out_.Annotate(Word::kRegisters, uint64_t{shape.registers_per_thread});
  out_.Annotate(Word::kStaticShared, uint64_t{shape.static_shared_bytes});
  out_.Annotate(Word::kDynamicShared, uint64_t{shape.dynamic_shared_bytes});
  if (shape.local_bytes_per_thread != 0) out_.Annotate(Word::kLocal, uint64_t{shape.local_bytes_per_thread});
  const uint32_t device = trace_.streams[trace_.gpu.stream[row]].device;
  const double percent = device == kNone ? 0 : model::TheoreticalOccupancyPercent(trace_.devices[device], shape);
  if (percent != 0) out_.Annotate(Word::kOccupancy, percent);
}

// The request and the batch of a call.
void GpuTracks::WriteContext(uint32_t call) {
  if (const uint32_t request = trace_.calls.request[call]; request != kNone)
    out_.Annotate(Word::kRequest, &requests_, request, [&] { return Hex(trace_.requests[request].id, 16); });
  if (const uint32_t batch = trace_.calls.batch[call]; batch != kNone)
    out_.Annotate(Word::kBatch, &batches_, batch, [&] { return Hex(trace_.batches[batch].id, 16); });
}

void GpuTracks::WriteCall(uint32_t call) {
  out_.Name(trace_.calls.name[call]);
  uint32_t stream = kNone;
  bool has_more = false;  // work without an arrow, which names the call
  for (const uint32_t row : launches_.Gpu(call)) {
    has_more |= trace_.gpu.stream[row] == stream;
    if (trace_.gpu.stream[row] == stream) continue;
    stream = trace_.gpu.stream[row];
    out_.Flow(FlowTo(row));
  }
  out_.Correlation(trace_.calls.request[call]);
  out_.Annotate(Word::kKind, &kinds_, 0, [] { return "CUDA call"; });
  if (has_more) out_.Annotate(Word::kCall, uint64_t{call} + 1);
  const uint32_t awaited = trace_.calls.stream[call], device = trace_.calls.device[call];
  // Streams of several devices have the same names.
  if (awaited != kNone && trace_.devices.size() > 1)
    out_.Annotate(Word::kDevice, uint64_t{trace_.streams[awaited].device} + 1);
  if (awaited != kNone)
    out_.Annotate(Word::kWaitsFor, &awaited_, awaited, [&] { return StreamName(awaited); });
  else if (device != kNone)
    out_.Annotate(Word::kWaitsFor, &awaited_, static_cast<uint32_t>(trace_.streams.size()) + device,
                  [&] { return "all streams of GPU " + std::to_string(trace_.devices[device].ordinal); });
  WriteContext(call);
}

void GpuTracks::WriteOtherCalls(uint32_t sequence) {
  const Calls calls = calls_.back();
  if (calls.first == calls.last) return;
  const uint64_t group = tracks_.Group(Of::kOtherCalls, 0, "CUDA calls of unknown threads", "");
  OpenSlices open(&out_);
  out_.BeginSequence(sequence, group, trace_.calls.begin_ns[calls.first]);
  for (uint32_t call = calls.first; call < calls.last && out_.ok(); ++call) {
    const int64_t begin_ns = trace_.calls.begin_ns[call];
    open.CloseUntil(begin_ns);
    const uint64_t track = tracks_.Lane(group, "CUDA calls", begin_ns, CallEnd(call));
    out_.BeginEvent(begin_ns, event_field::kSliceBegin, track);
    WriteCall(call);
    out_.EndEvent();
    if (CallEnd(call) != INT64_MAX) open.Add(CallEnd(call), track);
  }
  open.CloseUntil(INT64_MAX);
}

// Repeats waiting calls next to the awaited work: in rows of the stream, or of the device for waits for all streams.
void GpuTracks::WriteWaits(uint32_t sequence) {
  const model::CallColumns& calls = trace_.calls;
  std::vector<uint32_t> waits;
  for (uint32_t call = 0; call < calls.size(); ++call) {
    if (calls.stream[call] != kNone || calls.device[call] != kNone) waits.push_back(call);
  }
  if (waits.empty()) return;
  std::stable_sort(waits.begin(), waits.end(),
                   [&](uint32_t a, uint32_t b) { return calls.begin_ns[a] < calls.begin_ns[b]; });
  OpenSlices open(&out_);
  out_.BeginSequence(sequence, tracks_.Process(), calls.begin_ns[waits[0]]);
  for (const uint32_t call : waits) {
    if (!out_.ok()) break;
    const int64_t begin_ns = calls.begin_ns[call];
    open.CloseUntil(begin_ns);
    const uint32_t stream = calls.stream[call];
    const uint64_t group = DeviceGroup(stream != kNone ? trace_.streams[stream].device : calls.device[call]);
    const std::string name = "waits for " + (stream != kNone ? StreamName(stream) : "all streams");
    const uint64_t track = tracks_.Lane(group, name, begin_ns, CallEnd(call));
    out_.BeginEvent(begin_ns, event_field::kSliceBegin, track);
    out_.Name(calls.name[call]);
    out_.Correlation(calls.request[call]);
    out_.Annotate(Word::kKind, &kinds_, 2, [] { return "CUDA wait"; });
    WriteContext(call);
    out_.EndEvent();
    if (CallEnd(call) != INT64_MAX) open.Add(CallEnd(call), track);
  }
  open.CloseUntil(INT64_MAX);
}

void GpuTracks::WriteCounters(uint32_t sequence) {
  const model::SampleColumns& samples = trace_.samples;
  if (samples.size() == 0) return;
  // Sequences are in the order of time, but samples are sorted by counter first.
  std::vector<uint32_t> order(samples.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return samples.at_ns[a] < samples.at_ns[b]; });
  out_.BeginSequence(sequence, tracks_.Process(), samples.at_ns[order[0]]);
  for (const uint32_t i : order) {
    out_.BeginEvent(samples.at_ns[i], event_field::kCounter, tracks_.Uuid(Of::kSampled, samples.counter[i]));
    out_.Counter(samples.value[i]);
    out_.EndEvent();
  }
}

// Depths and overheads are slices of a group.
void GpuTracks::AddRecording(const RecordingMark& mark, int64_t end_ns, const char* name,
                             std::vector<RecordingMark>* marks) {
  const uint64_t track = tracks_.Lane(RecordingGroup(), name, mark.at_ns, end_ns);
  marks->push_back({mark.at_ns, track, mark.kind, mark.row, false});
  marks->push_back({end_ns, track, RecordingMark::kEnd, 0, false});
}

// A loss is a mark at its begin: on its stream, on all streams of its device, or on all devices if it may be of any.
// Only one of its marks has the number of records, so that they add up.
void GpuTracks::AddLoss(uint32_t row, std::vector<RecordingMark>* marks) {
  const model::GpuLossRow& loss = trace_.gpu_losses[row];
  const size_t before = marks->size();
  const auto mark = [&](uint64_t track) {
    marks->push_back({loss.begin_ns, track, RecordingMark::kLoss, row, marks->size() == before && loss.records != 0});
  };
  for (uint32_t stream = 0; stream < trace_.streams.size(); ++stream) {
    const bool is_it = loss.stream != kNone ? stream == loss.stream
                                            : loss.device != kNone && trace_.streams[stream].device == loss.device;
    if (is_it) mark(tracks_.Uuid(Of::kStream, stream));
  }
  for (uint32_t device = 0; device < trace_.devices.size(); ++device) {
    const bool is_it = loss.device != kNone ? device == loss.device && marks->size() == before : loss.stream == kNone;
    if (is_it) mark(DeviceGroup(device));
  }
  if (marks->size() == before) mark(RecordingGroup());
}

void GpuTracks::WriteRecordingMark(const RecordingMark& mark) {
  switch (mark.kind) {
    case RecordingMark::kDepth:
      out_.BeginEvent(mark.at_ns, event_field::kSliceBegin, mark.track);
      out_.Name(base::DepthName(trace_.depths[mark.row].depth), "");
      break;
    case RecordingMark::kOperators:
      out_.BeginEvent(mark.at_ns, event_field::kSliceBegin, mark.track);
      out_.Name(base::DepthName(trace_.operator_depths[mark.row].depth), "");
      break;
    case RecordingMark::kOverhead:
      out_.BeginEvent(mark.at_ns, event_field::kSliceBegin, mark.track);
      out_.Name(OrElse(trace_.strings[trace_.overheads[mark.row].name], "overhead"), "");
      break;
    case RecordingMark::kLoss: {
      const model::GpuLossRow& loss = trace_.gpu_losses[mark.row];
      out_.BeginEvent(mark.at_ns, event_field::kInstant, mark.track);
      out_.Name("lost: ", trace_.strings[loss.reason]);
      if (loss.stream == kNone && loss.device != kNone) out_.Annotate(Word::kDevice, uint64_t{loss.device} + 1);
      out_.Annotate(Word::kLostFromNs, loss.begin_ns);
      out_.Annotate(Word::kLostToNs, loss.end_ns);
      if (mark.has_number) out_.Annotate(Word::kRecords, loss.records);
      break;
    }
    case RecordingMark::kEnd:
      out_.BeginEvent(mark.at_ns, event_field::kSliceEnd, mark.track);
      break;
  }
  out_.EndEvent();
}

void GpuTracks::WriteRecording(uint32_t sequence) {
  std::vector<RecordingMark> marks;
  for (uint32_t row = 0; row < trace_.depths.size(); ++row) {
    const model::DepthRow& depth = trace_.depths[row];
    AddRecording({depth.begin_ns, 0, RecordingMark::kDepth, row, false}, depth.end_ns, "recorded depth", &marks);
  }
  for (uint32_t row = 0; row < trace_.operator_depths.size(); ++row) {
    const model::DepthRow& depth = trace_.operator_depths[row];
    AddRecording({depth.begin_ns, 0, RecordingMark::kOperators, row, false}, depth.end_ns, "recorded operators",
                 &marks);
  }
  for (uint32_t row = 0; row < trace_.overheads.size(); ++row) {
    const model::OverheadRow& overhead = trace_.overheads[row];
    AddRecording({overhead.begin_ns, 0, RecordingMark::kOverhead, row, false}, overhead.begin_ns + overhead.duration_ns,
                 "overheads", &marks);
  }
  for (uint32_t row = 0; row < trace_.gpu_losses.size(); ++row) AddLoss(row, &marks);
  if (marks.empty()) return;
  std::stable_sort(marks.begin(), marks.end(),
                   [](const RecordingMark& a, const RecordingMark& b) { return a.at_ns < b.at_ns; });
  out_.BeginSequence(sequence, tracks_.Process(), marks.front().at_ns);
  for (const RecordingMark& mark : marks) WriteRecordingMark(mark);
}

}  // namespace pitot::serialize
