// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "model/kernel_name.h"
#include "pitot/model/classes.h"
#include "tables/tables.h"

namespace pitot::tables {
namespace {

using model::GpuKind;
using model::kNone;
using model::Trace;

Table Devices(const Trace& trace) {
  const auto& rows = trace.devices;
  Table table{"devices", "GPUs", rows.size(), {}};
  Add(&table, Id("device_id"),
      Integer(
          "ordinal", [&](uint64_t row) { return rows[row].ordinal; }, "the vendor's number"),
      Text(trace, "name", [&](uint64_t row) { return rows[row].name; }),
      NotZero("multiprocessors", [&](uint64_t row) { return rows[row].multiprocessors; }),
      NotZero("threads_per_multiprocessor", [&](uint64_t row) { return rows[row].threads_per_multiprocessor; }),
      NotZero("blocks_per_multiprocessor", [&](uint64_t row) { return rows[row].blocks_per_multiprocessor; }),
      NotZero("registers_per_multiprocessor", [&](uint64_t row) { return rows[row].registers_per_multiprocessor; }),
      NotZero("shared_bytes_per_multiprocessor",
              [&](uint64_t row) { return rows[row].shared_bytes_per_multiprocessor; }),
      NotZero("threads_per_warp", [&](uint64_t row) { return rows[row].threads_per_warp; }));
  return table;
}

Table Streams(const Trace& trace) {
  const auto& rows = trace.streams;
  Table table{"streams", "", rows.size(), {}};
  Add(&table, Id("stream_id"), RowOf("device_id", [&](uint64_t row) { return rows[row].device; }),
      Integer(
          "context", [&](uint64_t row) { return rows[row].context; }, "the vendor's numbers"),
      Integer("stream", [&](uint64_t row) { return rows[row].stream; }),
      Text(trace, "name", [&](uint64_t row) { return rows[row].name; }));
  return table;
}

Table Shapes(const Trace& trace) {
  const auto& rows = trace.shapes;
  Table table{"shapes", "launch parameters of kernels", rows.size(), {}};
  Add(&table, Id("shape_id"), Integer("grid_x", [&](uint64_t row) { return rows[row].grid[0]; }),
      Integer("grid_y", [&](uint64_t row) { return rows[row].grid[1]; }),
      Integer("grid_z", [&](uint64_t row) { return rows[row].grid[2]; }),
      Integer("block_x", [&](uint64_t row) { return rows[row].block[0]; }),
      Integer("block_y", [&](uint64_t row) { return rows[row].block[1]; }),
      Integer("block_z", [&](uint64_t row) { return rows[row].block[2]; }),
      Integer("static_shared_bytes", [&](uint64_t row) { return rows[row].static_shared_bytes; }),
      Integer("dynamic_shared_bytes", [&](uint64_t row) { return rows[row].dynamic_shared_bytes; }),
      Integer("local_bytes_per_thread", [&](uint64_t row) { return rows[row].local_bytes_per_thread; }),
      Integer("registers_per_thread", [&](uint64_t row) { return rows[row].registers_per_thread; }));
  return table;
}

// The names of GPU work have keys of three parts: its kind, its graph and its string.
std::string FullName(const Trace& trace, uint32_t row) {
  if (trace.gpu.kind[row] != GpuKind::kKernel) return model::ActivityName(trace, row);
  const std::string name = model::ReadKernelName(trace.strings[trace.gpu.name[row]]).full;
  return name.empty() ? "(unnamed)" : name;
}

Table Work(const Trace& trace) {
  const model::GpuColumns& gpu = trace.gpu;
  const auto caller = [&](const std::vector<uint32_t>& of_calls, uint64_t row) {
    return gpu.call[row] == kNone ? kNone : of_calls[gpu.call[row]];
  };
  const model::CallColumns& calls = trace.calls;
  // The first row with the same name stands for it.
  struct SameName {
    GpuKind kind;
    uint32_t graph;
    model::StringId name;
  };
  struct Hash {
    size_t operator()(const SameName& key) const {
      return std::hash<uint64_t>()(uint64_t{key.name} << 32 ^ uint64_t{key.graph} << 3 ^
                                   static_cast<uint64_t>(key.kind));
    }
  };
  struct Equal {
    bool operator()(const SameName& a, const SameName& b) const {
      return a.kind == b.kind && a.graph == b.graph && a.name == b.name;
    }
  };
  const auto first_rows = std::make_shared<std::unordered_map<SameName, uint32_t, Hash, Equal>>();
  const auto name_key = [&gpu, first_rows](uint64_t row) {
    const uint32_t graph = gpu.kind[row] == GpuKind::kGraph ? gpu.graph[row] : 0;
    return first_rows->try_emplace({gpu.kind[row], graph, gpu.name[row]}, static_cast<uint32_t>(row)).first->second;
  };
  const auto classes = std::make_shared<std::map<std::pair<GpuKind, model::StringId>, uint32_t>>();
  const auto full_name = [&trace](uint64_t row, std::string* room) {
    *room = FullName(trace, static_cast<uint32_t>(row));
    return std::string_view(*room);
  };
  const auto brief_name = [&trace](uint64_t row, std::string* room) {
    *room = FullName(trace, static_cast<uint32_t>(row));
    if (trace.gpu.kind[row] == GpuKind::kKernel) *room = model::BriefName(*room);
    return std::string_view(*room);
  };
  Table table{"gpu_work", "kernels, copies, sets, graphs and spans, by stream", gpu.size(), {}};
  Add(&table, Id("gpu_work_id"), RowOf("stream_id", [&](uint64_t row) { return gpu.stream[row]; }),
      RowOf("device_id", [&](uint64_t row) { return trace.streams[gpu.stream[row]].device; }),
      Name(
          "kind", [&](uint64_t row) { return gpu.kind[row]; }, model::GpuKindName),
      TextOf(
          "class",
          [&trace, &gpu, classes](uint64_t row) -> std::optional<uint32_t> {
            if (gpu.kind[row] == GpuKind::kSpan) return std::nullopt;
            const auto [found, is_new] = classes->try_emplace({gpu.kind[row], gpu.name[row]}, 0);
            if (is_new) found->second = static_cast<uint32_t>(model::GpuClassOf(trace, static_cast<uint32_t>(row)));
            return found->second;
          },
          [](uint64_t key, std::string*) {
            return std::string_view(model::GpuClassName(static_cast<model::GpuClass>(key)));
          },
          "null: a span"),
      TextOf("name", name_key, full_name, "as `pitot top --by kernel --json`"),
      TextOf("brief_name", name_key, brief_name, "without arguments"));
  AddMoment(
      trace, "begin", [&](uint64_t row) { return gpu.begin_ns[row]; }, &table);
  Add(&table, Integer("duration_ns", [&](uint64_t row) { return gpu.duration_ns[row]; }),
      Integer(
          "window_ns",
          [&](uint64_t row) {
            const int64_t end_ns = gpu.begin_ns[row] + gpu.duration_ns[row];
            return std::max<int64_t>(
                0, std::min(end_ns, trace.window_end_ns) - std::max(gpu.begin_ns[row], trace.window_begin_ns));
          },
          "the part of it in the window, as `pitot top` counts"));
  Column call = RowOf(
      "call_id", [&](uint64_t row) { return gpu.call[row]; }, "its launch");
  call.type = Type::kInteger;  // there are many different ones
  Add(&table, std::move(call),
      RowOf(
          "thread_id", [&calls, caller](uint64_t row) { return caller(calls.thread, row); }, "of the launch, as below"),
      RowOf("request_id", [&calls, caller](uint64_t row) { return caller(calls.request, row); }),
      RowOf("batch_id", [&calls, caller](uint64_t row) { return caller(calls.batch, row); }),
      RowOf("shape_id", [&](uint64_t row) { return gpu.shape[row]; }),
      NotZero(
          "bytes", [&](uint64_t row) { return gpu.bytes[row]; }, "of copies and sets"),
      NotZero(
          "graph", [&](uint64_t row) { return gpu.graph[row]; }, "its number"),
      Make(Type::kInteger, "node",
           [&](uint64_t row) -> std::optional<uint32_t> {
             return gpu.graph[row] == 0 ? std::nullopt : std::optional(gpu.node[row]);
           }),
      Text(
          trace, "scope_path", [&](uint64_t row) { return gpu.scope_path[row]; },
          "the scopes in which its node was captured"));
  return table;
}

}  // namespace

void AddGpuTables(const Trace& trace, std::vector<Table>* tables) {
  tables->push_back(Devices(trace));
  tables->push_back(Streams(trace));
  tables->push_back(Shapes(trace));
  tables->push_back(Work(trace));
}

}  // namespace pitot::tables
