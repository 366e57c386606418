// SPDX-License-Identifier: Apache-2.0
#include "serialize/kineto_gpu.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "model/enclosing.h"
#include "model/kernel_name.h"
#include "model/occupancy.h"
#include "serialize/texts.h"

namespace pitot::serialize {

using model::GpuKind;
using model::kNone;
using model::kOpen;

namespace {

constexpr std::string_view kAllocated = "LibTorch allocated", kReserved = "LibTorch reserved",
                           kCpuAllocated = "LibTorch CPU allocated";

// By the prefixes of CUDA, HIP, SYCL's Unified Runtime and Level Zero.
std::string_view CategoryOf(std::string_view call) {
  constexpr std::pair<std::string_view, std::string_view> kCategories[] = {
      {"cuda", "cuda_runtime"}, {"cu", "cuda_driver"}, {"hip", "hip_runtime"},
      {"ur", "xpu_runtime"},    {"ze", "xpu_driver"},  {"mtia", "mtia_runtime"}};
  for (const auto& [prefix, category] : kCategories) {
    if (call.substr(0, prefix.size()) == prefix) return category;
  }
  return "cuda_runtime";
}

// The memory of an allocator, in bytes.
int64_t Whole(double bytes) { return static_cast<int64_t>(std::clamp(bytes, -9e18, 9e18)); }

std::string Capital(std::string_view text) {
  std::string capital(text);
  if (!capital.empty() && capital[0] >= 'a' && capital[0] <= 'z')
    capital[0] = static_cast<char>(capital[0] - 'a' + 'A');
  return capital;
}

// "Memcpy HtoD (Pageable -> Device)" for "pageable to device" and "HtoD, pageable to device"; other names unchanged.
std::string CopyName(std::string_view name) {
  constexpr std::string_view kComma = ", ", kTo = " to ";
  const size_t comma = name.find(kComma);
  std::string_view kind = name.substr(0, comma == std::string_view::npos ? 0 : comma);
  const std::string_view places = name.substr(kind.empty() ? 0 : comma + kComma.size());
  const size_t to = places.find(kTo);
  if (to == std::string_view::npos) return std::string(name);
  const std::string_view source = places.substr(0, to), target = places.substr(to + kTo.size());
  const char letters[] = {source == "device" ? 'D' : 'H', 't', 'o', target == "device" ? 'D' : 'H'};
  if (kind.empty()) kind = {letters, sizeof letters};
  return "Memcpy " + std::string(kind) + " (" + Capital(source) + " -> " + Capital(target) + ")";
}

std::string SetName(std::string_view name) {
  const bool has_kind = name.find('(') == std::string_view::npos;
  return has_kind ? "Memset (" + Capital(OrElse(name, "unknown")) + ")" : std::string(name);
}

}  // namespace

KinetoGpu::KinetoGpu(const model::Trace& trace, KinetoWriter* out)
    : trace_(trace), out_(*out), launches_(trace), enclosing_(model::FindEnclosing(trace)), host_pid_(trace.pid) {
  std::unordered_set<int64_t> ordinals;
  for (const model::DeviceRow& device : trace.devices) ordinals.insert(device.ordinal);
  for (const model::StreamRow& stream : trace.streams) ordinals.insert(static_cast<int64_t>(OrdinalOf(stream.device)));
  while (ordinals.count(host_pid_) != 0) ++host_pid_;
  for (const model::StreamRow& stream : trace.streams) next_tid_ = std::max(next_tid_, int64_t{stream.stream} + 1);
}

uint64_t KinetoGpu::External(uint32_t call) const {
  const bool is_known = call != kNone && enclosing_[call] != kNone;
  return is_known ? uint64_t{enclosing_[call]} + 1 : 0;
}

uint64_t KinetoGpu::OrdinalOf(uint32_t device) const { return device == kNone ? 0 : trace_.devices[device].ordinal; }

KinetoPlace KinetoGpu::PlaceOf(uint32_t stream) const {
  const model::StreamRow& row = trace_.streams[stream];
  return {static_cast<int64_t>(OrdinalOf(row.device)), row.stream};
}

KinetoPlace KinetoGpu::TakeRow(Row of, KinetoPlace place, int64_t begin_ns, int64_t end_ns) {
  Rows& rows = rows_[{of, place.pid, place.tid}];
  const uint32_t lane = rows.lanes.Take(begin_ns, end_ns);
  if (lane == rows.tids.size()) {
    const bool is_stream = of == Row::kWork && lane == 0;
    rows.tids.push_back(is_stream ? place.tid : next_tid_++);
    if (!is_stream)
      out_.Name("thread_name", {place.pid, rows.tids[lane]}, "name",
                "stream " + std::to_string(place.tid) + (of == Row::kSpan ? " by CUDA events" : " (overlapping)"));
  }
  return {place.pid, rows.tids[lane]};
}

void KinetoGpu::WriteDevices() {
  out_.json.Key("deviceProperties");
  out_.json.Open('[');
  for (const model::DeviceRow& device : trace_.devices) {
    out_.json.NewLine();
    out_.json.Open('{');
    out_.Pair("id", device.ordinal);
    out_.Pair("name", trace_.strings[device.name]);
    const auto number = [&](std::string_view key, uint32_t value) {
      if (value != 0) out_.Pair(key, value);
    };
    number("numSms", device.multiprocessors);
    number("maxThreadsPerMultiprocessor", device.threads_per_multiprocessor);
    number("maxBlocksPerMultiProcessor", device.blocks_per_multiprocessor);  // CUDA's name; Kineto does not write it
    number("regsPerMultiprocessor", device.registers_per_multiprocessor);
    number("sharedMemPerMultiprocessor", device.shared_bytes_per_multiprocessor);
    number("warpSize", device.threads_per_warp);
    out_.json.Close('}');
  }
  out_.json.Close(']');
}

void KinetoGpu::WriteNames() {
  for (const model::DeviceRow& device : trace_.devices) {
    const KinetoPlace place = {device.ordinal, 0};
    out_.Name("process_name", place, "name", OrElse(trace_.strings[trace_.process_name], "process"));
    out_.Name("process_labels", place, "labels", "GPU " + std::to_string(device.ordinal));
  }
  for (uint32_t stream = 0; stream < trace_.streams.size(); ++stream) {
    const KinetoPlace place = PlaceOf(stream);
    const std::string_view name = trace_.strings[trace_.streams[stream].name];
    out_.Name("thread_name", place, "name",
              "stream " + std::to_string(place.tid) + (name.empty() ? "" : " ") + std::string(name));
  }
}

void KinetoGpu::WriteCall(uint32_t call, KinetoPlace place) {
  const model::CallColumns& calls = trace_.calls;
  const int64_t duration_ns = trace_.CallEnd(call) - calls.begin_ns[call];
  const std::string_view name = trace_.strings[calls.name[call]];
  out_.BeginSlice(CategoryOf(name), name, place, calls.begin_ns[call], duration_ns);
  if (const uint64_t external = External(call); external != 0) out_.Pair("External id", external);
  out_.Pair("correlation", uint64_t{call} + 1);
  if (calls.duration_ns[call] == kOpen) out_.Pair("open", uint32_t{1});
  // Not as Kineto's cuda_sync: HTA takes those for work.
  if (calls.stream[call] != kNone) {
    const model::StreamRow& awaited = trace_.streams[calls.stream[call]];
    out_.Pair("waits for",
              "stream " + std::to_string(awaited.stream) + " (context " + std::to_string(awaited.context) + ")");
  } else if (calls.device[call] != kNone) {
    out_.Pair("waits for", "all streams of GPU " + std::to_string(OrdinalOf(calls.device[call])));
  }
  if (const uint32_t request = calls.request[call]; request != kNone)
    out_.Pair("request", Hex(trace_.requests[request].id, 16));
  if (const uint32_t batch = calls.batch[call]; batch != kNone) out_.Pair("batch", Hex(trace_.batches[batch].id, 16));
  out_.End();
  const model::RowRange work = launches_.Gpu(call);
  const bool has_arrow =
      std::any_of(work.begin(), work.end(), [&](uint32_t row) { return trace_.gpu.kind[row] != GpuKind::kSpan; });
  if (has_arrow) out_.Arrow("s", uint64_t{call} + 1, place, calls.begin_ns[call]);
}

void KinetoGpu::WriteWork() {
  for (uint32_t row = 0; row < trace_.gpu.size() && out_.json.ok(); ++row) WriteRow(row);
  for (const model::OverheadRow& overhead : trace_.overheads) {
    out_.BeginSlice("overhead", OrElse(trace_.strings[overhead.name], "overhead"), {-1, 0}, overhead.begin_ns,
                    overhead.duration_ns);
    out_.End();
  }
  WriteMemory();
}

std::string_view KinetoGpu::NameOf(uint32_t row) {
  const GpuKind kind = trace_.gpu.kind[row];
  if (kind == GpuKind::kGraph) return graph_name_ = model::ActivityName(trace_, row);
  const model::StringId name = trace_.gpu.name[row];
  const auto [found, is_new] = names_.try_emplace(uint64_t{name} << 8 | static_cast<uint8_t>(kind));
  if (!is_new) return found->second;
  const std::string_view text = trace_.strings[name];
  switch (kind) {
    case GpuKind::kKernel:
      found->second = OrElse(model::ReadKernelName(text).full, "(unnamed)");
      break;
    case GpuKind::kMemcpy:
      found->second = CopyName(text);
      break;
    case GpuKind::kMemset:
      found->second = SetName(text);
      break;
    default:
      found->second = text;
  }
  return found->second;
}

void KinetoGpu::WriteRow(uint32_t row) {
  static constexpr std::string_view kCategories[] = {"",           "kernel",    "gpu_memcpy",
                                                     "gpu_memset", "gpu_graph", "gpu_user_annotation"};
  const model::GpuColumns& gpu = trace_.gpu;
  const uint32_t stream = gpu.stream[row], call = gpu.call[row];
  const KinetoPlace place = PlaceOf(stream);
  const KinetoPlace shown = TakeRow(gpu.kind[row] == GpuKind::kSpan ? Row::kSpan : Row::kWork, place, gpu.begin_ns[row],
                                    gpu.begin_ns[row] + gpu.duration_ns[row]);
  out_.BeginSlice(kCategories[static_cast<size_t>(gpu.kind[row])], NameOf(row), shown, gpu.begin_ns[row],
                  gpu.duration_ns[row]);
  if (const uint64_t external = External(call); external != 0) out_.Pair("External id", external);
  out_.Pair("device", place.pid);
  out_.Pair("context", trace_.streams[stream].context);
  out_.Pair("stream", place.tid);
  if (gpu.kind[row] != GpuKind::kSpan) out_.Pair("correlation", call == kNone ? 0 : uint64_t{call} + 1);
  if (gpu.bytes[row] != 0) {
    out_.Pair("bytes", gpu.bytes[row]);
    if (gpu.duration_ns[row] != 0)
      out_.Pair("memory bandwidth (GB/s)",
                static_cast<double>(gpu.bytes[row]) / static_cast<double>(gpu.duration_ns[row]));
  }
  if (gpu.graph[row] != 0) {
    out_.Pair("graph id", gpu.graph[row]);
    out_.Pair("graph node id", gpu.node[row]);
  }
  if (gpu.scope_path[row] != 0) out_.Pair("scope path", trace_.strings[gpu.scope_path[row]]);
  if (gpu.shape[row] != kNone) WriteLaunch(row);
  out_.End();
  if (call != kNone && gpu.kind[row] != GpuKind::kSpan) out_.Arrow("f", uint64_t{call} + 1, shown, gpu.begin_ns[row]);
}

void KinetoGpu::WriteLaunch(uint32_t row) {
  const model::KernelShape& shape = trace_.shapes[trace_.gpu.shape[row]];
  const auto axes = [&](std::string_view key, const uint32_t(&size)[3]) {
    out_.json.Key(key);
    out_.json.Open('[');
    for (const uint32_t axis : size) out_.json.Number(axis);
    out_.json.Close(']');
  };
  out_.Pair("registers per thread", shape.registers_per_thread);
  out_.Pair("shared memory", shape.static_shared_bytes + shape.dynamic_shared_bytes);
  axes("grid", shape.grid);
  axes("block", shape.block);
  const uint32_t device = trace_.streams[trace_.gpu.stream[row]].device;
  if (device == kNone || trace_.devices[device].multiprocessors == 0) return;
  const auto volume = [](const uint32_t(&size)[3]) { return double{1} * size[0] * size[1] * size[2]; };
  const double blocks = volume(shape.grid) / trace_.devices[device].multiprocessors;
  out_.Pair("blocks per SM", blocks);
  out_.Pair("warps per SM", blocks * volume(shape.block) / ThreadsPerWarp(trace_.devices[device]));
  const double percent = model::TheoreticalOccupancyPercent(trace_.devices[device], shape);
  if (percent != 0) out_.Pair("est. achieved occupancy %", static_cast<int64_t>(percent + 0.5));
}

// Allocators of LibTorch are PyTorch's "[memory]" marks: the totals after each change. Other counters are counters.
void KinetoGpu::WriteMemory() {
  const model::SampleColumns& samples = trace_.samples;
  const model::CounterIndex values(trace_);
  std::unordered_map<uint32_t, uint32_t> reserved;  // by device: its counter
  for (uint32_t counter = 0; counter < trace_.counters.size(); ++counter) {
    const model::CounterRow& row = trace_.counters[counter];
    if (row.device != kNone && trace_.strings[row.name] == kReserved) reserved.try_emplace(row.device, counter);
  }
  for (uint32_t sample = 0; sample < samples.size() && out_.json.ok(); ++sample) {
    const model::CounterRow& counter = trace_.counters[samples.counter[sample]];
    const std::string_view name = trace_.strings[counter.name];
    if (name == kReserved && counter.device != kNone) continue;  // next to what is allocated
    if (name != kAllocated && name != kCpuAllocated) {
      WriteSample(sample);
      continue;
    }
    const bool is_first = sample == 0 || samples.counter[sample - 1] != samples.counter[sample];
    const bool is_cpu = counter.device == kNone;
    out_.Begin("i", "cpu_instant_event", "[memory]", {host_pid_, 0}, samples.at_ns[sample]);
    out_.Pair("s", "t");
    out_.BeginArgs();
    if (const auto found = reserved.find(counter.device); found != reserved.end()) {
      if (const auto value = values.At(found->second, samples.at_ns[sample]))
        out_.Pair("Total Reserved", Whole(*value));
    }
    out_.Pair("Total Allocated", Whole(samples.value[sample]));
    out_.Pair("Bytes", Whole(samples.value[sample] - (is_first ? 0 : samples.value[sample - 1])));
    out_.Pair("Device Id", is_cpu ? int64_t{-1} : static_cast<int64_t>(OrdinalOf(counter.device)));
    out_.Pair("Device Type", is_cpu ? uint32_t{0} : uint32_t{1});
    out_.End();
  }
}

void KinetoGpu::WriteSample(uint32_t sample) {
  const model::CounterRow& counter = trace_.counters[trace_.samples.counter[sample]];
  const std::string_view unit = trace_.strings[counter.unit];
  const int64_t pid = counter.device == kNone ? host_pid_ : static_cast<int64_t>(OrdinalOf(counter.device));
  out_.Begin("C", "counter", OrElse(trace_.strings[counter.name], "counter"), {pid, 0}, trace_.samples.at_ns[sample]);
  out_.BeginArgs();
  out_.Pair(OrElse(unit, "value"), trace_.samples.value[sample]);
  out_.End();
}

}  // namespace pitot::serialize
