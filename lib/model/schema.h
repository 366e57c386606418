// SPDX-License-Identifier: Apache-2.0
//
// The tables of a trace, stated once. The writer and the reader of dumps, FindInconsistency, the comparison of traces
// in tests, pitot_dump.proto and the columns in docs/reference/formats/dump.md all iterate this list. A new column is
// a member in pitot/model/trace.h or gpu.h and a line here; tools/approve then rewrites the last two.
//
// Add columns at the end of a table, with Since(minor version). Field numbers of dumps count up from 1 in the order of
// the columns, or from 2 in a numbered table.
#ifndef PITOT_LIB_MODEL_SCHEMA_H_
#define PITOT_LIB_MODEL_SCHEMA_H_

#include <stddef.h>
#include <stdint.h>

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "model/column.h"
#include "pitot/model/trace.h"

namespace pitot::schema {

using namespace model;  // the rows that the tables describe

// One column a line.
// clang-format off

inline constexpr Table kAttributes{{ChunkType::kAttributes, "attributes", kNotNumbered}, &Trace::attributes, std::tuple{
    Value<kString>("key", &Attribute::key),
    Value<kString>("value", &Attribute::value),
}};

inline constexpr Table kFirings{{ChunkType::kFirings, "firings", kNotNumbered}, &Trace::firings, std::tuple{
    Value<kTime>("at_ns", &FiringRow::at_ns).Key(),
    Value<kFixed>("request_id", &FiringRow::request_id),
    Value<kString>("cause", &FiringRow::cause),
    Value<kString>("detail", &FiringRow::detail),
}};

inline constexpr Table kNorms{
    {ChunkType::kNorms, "norms", kNotNumbered, 9, "what like things took before the window: medians, and single tokens"},
    &Trace::norms, std::tuple{
    Enum("kind", &NormRow::kind, NormKind::kBatchOfWork, kLastNormKind).Note("NormKind of pitot/model/trace.h"),
    Enum("depth", &NormRow::depth, Depth::kScopes, Depth::kOps).Note("Depth of pitot/depth.h"),
    Value<kString>("name", &NormRow::name),
    Value<kNumber>("much", &NormRow::much),
    Value<kNumber>("count", &NormRow::count),
    Value<kTime>("total_ns", &NormRow::total_ns),
    List("part", &NormRow::parts, std::tuple{
        Value<kNumber>("blame", &NormPart::blame).Note("Blame of pitot/analyze/why.h"),
        Value<kTime>("ns", &NormPart::ns),
    }),
    Value<kFinite>("work", &NormRow::work).Note("of a token").Since(10),
}};

inline constexpr Table kSites{{ChunkType::kSites, "sites", kNumbered}, &Trace::sites, std::tuple{
    Enum("kind", &SiteRow::kind, SiteKind::kScope, kLastSiteKind).Note("SiteKind of pitot/trace.h"),
    Value<kString>("name", &SiteRow::name),
    Value<kString>("file", &SiteRow::file),
    Value<kString>("function", &SiteRow::function),
    Value<kNumber>("line", &SiteRow::line),
    Flags("flags", &SiteRow::unloaded, &SiteRow::name_is_first_arg)
        .Note("1: its library was unloaded; 2: its name is its first argument"),
    List("arg", Nothing(), std::tuple{
        Value<kString>("name", &SiteRow::arg_names),
        Enum("type", &SiteRow::arg_types, ArgType::kInt, ArgType::kString).Note("ArgType of pitot/trace.h"),
    }),
}};

inline constexpr Table kThreads{{ChunkType::kThreads, "threads", kNumbered}, &Trace::threads, std::tuple{
    Value<kNumber>("number", &ThreadRow::number),
    Value<kNumber>("tid", &ThreadRow::tid),
    Value<kString>("name", &ThreadRow::name),
    Value<kNumber>("exited", &ThreadRow::exited),
    Value<kTime>("history_begin_ns", &ThreadRow::history_begin_ns),
    Range("events", &ThreadRow::first_event, &ThreadRow::event_count, ChunkType::kEvents, &EventColumns::thread),
}};

inline constexpr Table kLosses{{ChunkType::kLosses, "losses", kNotNumbered}, &Trace::losses, std::tuple{
    Row<kRowOrNone>("thread", &LossRow::thread, ChunkType::kThreads),
    Value<kNumber>("reason", &LossRow::reason).Note("LossReason of pitot/model/trace.h"),
    Value<kTime>("begin_ns", &LossRow::begin_ns),
    Span<kEnd>("end_ns", &LossRow::end_ns, &LossRow::begin_ns),
    Value<kNumber>("events", &LossRow::events),
    Value<kNumber>("bytes", &LossRow::bytes),
}};

inline constexpr Table kRequests{{ChunkType::kRequests, "requests", kNumbered}, &Trace::requests, std::tuple{
    Value<kFixed>("id", &RequestRow::id),
    Value<kNumber>("parent_id", &RequestRow::parent_id),
    Value<kFixed>("trace_id_high", &RequestRow::trace_id_high),
    Value<kFixed>("trace_id_low", &RequestRow::trace_id_low),
    Value<kString>("route", &RequestRow::route),
    Value<kNumber>("size_bucket", &RequestRow::size_bucket),
    Value<kMoment>("begin", &RequestRow::begin_ns).Key(),
    Span<kLength>("length", &RequestRow::duration_ns, &RequestRow::begin_ns),
    Flags("flags", &RequestRow::begin_known, &RequestRow::end_known).Note("1: begin known; 2: end known"),
    Value<kNumber>("outcome", &RequestRow::outcome).Note("Outcome of pitot/outcome.h"),
    Row<kRowOrNone>("begin_thread", &RequestRow::begin_thread, ChunkType::kThreads),
    Row<kRowOrNone>("end_thread", &RequestRow::end_thread, ChunkType::kThreads),
    Value<kTime>("deadline_ns", &RequestRow::deadline_ns).Note("after begin; 0: none"),
    Value<kNumber>("output_tokens", &RequestRow::output_tokens),
    Value<kTime>("first_token_ns", &RequestRow::first_token_ns).Note("after begin; 0: none"),
    Value<kTime>("max_token_gap_ns", &RequestRow::max_token_gap_ns),
    List("label", &RequestRow::labels, std::tuple{
        Value<kString>("key", &Label::key),
        Value<kString>("value", &Label::value),
    }),
    List("size", &RequestRow::sizes, std::tuple{
        Value<kString>("name", &Size::name),
        Value<kReal>("value", &Size::value),
    }),
    List("stage", &RequestRow::stages, std::tuple{
        Value<kString>("name", &Stage::name),
        Value<kMoment>("begin", &Stage::begin_ns),
        Span<kLength>("length", &Stage::duration_ns, &Stage::begin_ns),
    }),
    Value<kString>("reason", &RequestRow::reason).Note("of the outcome, in the host's words").Since(9),
    Value<kString>("host_id", &RequestRow::host_id).Note("the host's own id").Since(9),
}};

inline constexpr Table kBatches{{ChunkType::kBatches, "batches", kNumbered}, &Trace::batches, std::tuple{
    Value<kFixed>("id", &BatchRow::id),
    Value<kString>("executor", &BatchRow::executor),
    Row<kRowOrNone>("thread", &BatchRow::thread, ChunkType::kThreads),
    Value<kMoment>("begin", &BatchRow::begin_ns).Key(),
    Span<kLength>("length", &BatchRow::duration_ns, &BatchRow::begin_ns),
    Value<kTime>("submitted_ns", &BatchRow::submitted_ns).Note("after begin; 0: not set"),
    Value<kNumber>("close", &BatchRow::close).Note("BatchClose of pitot/request.h"),
    Range("members", &BatchRow::first_member, &BatchRow::member_count, ChunkType::kMembers, &MemberRow::batch),
    Value<kNumber>("launches", &BatchRow::launches).Note("of GPU work, counted by pitot::cuda_calls").Since(7),
    Value<kTime>("launch_ns", &BatchRow::launch_ns).Note("the time in these calls").Since(7),
    Value<kString>("work_unit", &BatchRow::work_unit).Note("of its members' work").Since(8),
}};

inline constexpr Table kMembers{{ChunkType::kMembers, "members", kNotNumbered}, &Trace::members, std::tuple{
    Row<kRow>("batch", &MemberRow::batch, ChunkType::kBatches).Key(),
    Row<kRow>("request", &MemberRow::request, ChunkType::kRequests),
    Value<kMoment>("join", &MemberRow::join_ns).Key(),
    Value<kTime>("leave_ns", &MemberRow::leave_ns).Note("0: at the batch's end"),
    Value<kFinite>("work", &MemberRow::work).Note("that it brought to the batch; 0: not known").Since(8),
}};

inline constexpr Table kHandoffs{{ChunkType::kHandoffs, "handoffs", kNotNumbered}, &Trace::handoffs, std::tuple{
    Row<kRow>("request", &HandoffRow::request, ChunkType::kRequests),
    Value<kString>("queue", &HandoffRow::queue),
    Row<kRowOrNone>("from_thread", &HandoffRow::from_thread, ChunkType::kThreads),
    Row<kRowOrNone>("to_thread", &HandoffRow::to_thread, ChunkType::kThreads),
    Value<kMoment>("enqueue", &HandoffRow::enqueue_ns).Key(),
    Value<kTime>("take_ns", &HandoffRow::take_ns).Note("0: not taken"),
    Row<kRowOrNone>("batch", &HandoffRow::batch, ChunkType::kBatches),
}};

inline constexpr Table kAsyncs{{ChunkType::kAsyncs, "asyncs", kNotNumbered}, &Trace::asyncs, std::tuple{
    Row<kRow>("site", &AsyncRow::site, ChunkType::kSites),
    Row<kRow>("request", &AsyncRow::request, ChunkType::kRequests),
    Row<kRowOrNone>("begin_thread", &AsyncRow::begin_thread, ChunkType::kThreads),
    Row<kRowOrNone>("end_thread", &AsyncRow::end_thread, ChunkType::kThreads),
    Value<kMoment>("begin", &AsyncRow::begin_ns).Key(),
    Span<kLength>("length", &AsyncRow::duration_ns, &AsyncRow::begin_ns),
}};

inline constexpr Table kTokens{{ChunkType::kTokens, "tokens", kNotNumbered}, &Trace::tokens, std::tuple{
    Row<kRow>("request", &TokenRow::request, ChunkType::kRequests),
    Row<kRowOrNone>("thread", &TokenRow::thread, ChunkType::kThreads),
    Value<kMoment>("at", &TokenRow::at_ns).Key(),
    Value<kNumber>("count", &TokenRow::count),
}};

inline constexpr Table kDevices{{ChunkType::kDevices, "devices", kNumbered, 1}, &Trace::devices, std::tuple{
    Value<kNumber>("ordinal", &DeviceRow::ordinal),
    Value<kString>("name", &DeviceRow::name),
    Value<kNumber>("multiprocessors", &DeviceRow::multiprocessors).Note("0: unknown; so below"),
    Value<kNumber>("threads", &DeviceRow::threads_per_multiprocessor),
    Value<kNumber>("blocks", &DeviceRow::blocks_per_multiprocessor),
    Value<kNumber>("registers", &DeviceRow::registers_per_multiprocessor),
    Value<kNumber>("shared_bytes", &DeviceRow::shared_bytes_per_multiprocessor),
    Value<kNumber>("warp_threads", &DeviceRow::threads_per_warp).Since(9),
}};

inline constexpr Table kStreams{{ChunkType::kStreams, "streams", kNumbered, 1}, &Trace::streams, std::tuple{
    Row<kRowOrNone>("device", &StreamRow::device, ChunkType::kDevices),
    Value<kNumber>("context", &StreamRow::context),
    Value<kNumber>("stream", &StreamRow::stream),
    Value<kString>("name", &StreamRow::name),
    Range("events", &StreamRow::first_event, &StreamRow::event_count, ChunkType::kGpu, &GpuColumns::stream),
}};

inline constexpr Table kShapes{{ChunkType::kShapes, "shapes", kNumbered, 1, "launch parameters of kernels"},
    &Trace::shapes, std::tuple{
    Value<kTriple>("grid", &KernelShape::grid),
    Value<kTriple>("block", &KernelShape::block),
    Value<kNumber>("static_shared_bytes", &KernelShape::static_shared_bytes),
    Value<kNumber>("dynamic_shared_bytes", &KernelShape::dynamic_shared_bytes),
    Value<kNumber>("local_bytes_per_thread", &KernelShape::local_bytes_per_thread),
    Value<kNumber>("registers_per_thread", &KernelShape::registers_per_thread),
}};

inline constexpr Table kOverheads{{ChunkType::kOverheads, "overheads", kNotNumbered, 1}, &Trace::overheads, std::tuple{
    Value<kMoment>("begin", &OverheadRow::begin_ns).Key(),
    Span<kDuration>("duration_ns", &OverheadRow::duration_ns, &OverheadRow::begin_ns),
    Value<kString>("name", &OverheadRow::name),
}};

inline constexpr Table kDepths{{ChunkType::kDepths, "depths", kNotNumbered, 2, "how deep GPUs were recorded"},
    &Trace::depths, std::tuple{
    Value<kMoment>("begin", &DepthRow::begin_ns).Key(),
    Span<kUntil>("duration_ns", &DepthRow::end_ns, &DepthRow::begin_ns),
    Enum("depth", &DepthRow::depth, Depth::kScopes, Depth::kOps).Note("Depth of pitot/depth.h"),
}};

inline constexpr Table kGpuLosses{{ChunkType::kGpuLosses, "gpu_losses", kNotNumbered, 2},
    &Trace::gpu_losses, std::tuple{
    Row<kRowOrNone>("stream", &GpuLossRow::stream, ChunkType::kStreams),
    Value<kString>("reason", &GpuLossRow::reason),
    Value<kTime>("begin_ns", &GpuLossRow::begin_ns),
    Span<kEnd>("end_ns", &GpuLossRow::end_ns, &GpuLossRow::begin_ns),
    Value<kNumber>("records", &GpuLossRow::records),
    Row<kRowOrNone>("device", &GpuLossRow::device, ChunkType::kDevices).Since(4),
}};

inline constexpr Table kCounters{{ChunkType::kCounters, "counters", kNumbered, 2}, &Trace::counters, std::tuple{
    Row<kRowOrNone>("device", &CounterRow::device, ChunkType::kDevices),
    Value<kString>("name", &CounterRow::name),
    Value<kString>("unit", &CounterRow::unit),
}};

inline constexpr Table kOperatorDepths{
    {ChunkType::kOperatorDepths, "operator_depths", kNotNumbered, 5, "how deep operators were recorded"},
    &Trace::operator_depths, std::tuple{
    Value<kMoment>("begin", &DepthRow::begin_ns).Key(),
    Span<kUntil>("duration_ns", &DepthRow::end_ns, &DepthRow::begin_ns),
    Enum("depth", &DepthRow::depth, Depth::kScopes, Depth::kOps).Note("3: recorded; less: not recorded"),
}};

inline constexpr Table kEvents{{ChunkType::kEvents, "events", kNotNumbered, 0, "a run of events of one thread"},
    &Trace::events, std::tuple{
    Row<kRun>("thread", &EventColumns::thread, ChunkType::kThreads).Key(),
    Value<kMoment>("begin", &EventColumns::begin_ns).Key(),
    Span<kLength>("length", &EventColumns::duration_ns, &EventColumns::begin_ns).Note("1 for instants and counters"),
    Row<kRow>("site", &EventColumns::site, ChunkType::kSites),
    Row<kNearRow>("request", &EventColumns::request, ChunkType::kRequests),
    Row<kNearRow>("batch", &EventColumns::batch, ChunkType::kBatches),
    Value<kArgs>("arg", &EventColumns::args),
}};

inline constexpr Table kCalls{
    {ChunkType::kCalls, "calls", kNumbered, 1, "calls of the CUDA API, by thread (unknown last) and begin"},
    &Trace::calls, std::tuple{
    Row<kRowOrNone>("thread", &CallColumns::thread, ChunkType::kThreads).Key(),
    Value<kMoment>("begin", &CallColumns::begin_ns).Key(),
    Span<kLength>("length", &CallColumns::duration_ns, &CallColumns::begin_ns),
    Row<kNearRow>("request", &CallColumns::request, ChunkType::kRequests),
    Row<kNearRow>("batch", &CallColumns::batch, ChunkType::kBatches),
    Value<kString>("name", &CallColumns::name),
    Row<kRowOrNone>("stream", &CallColumns::stream, ChunkType::kStreams),
    Row<kRowOrNone>("device", &CallColumns::device, ChunkType::kDevices).Since(6),
}};

inline constexpr Table kGpu{{ChunkType::kGpu, "gpu", kNotNumbered, 1, "a run of activities of one stream"},
    &Trace::gpu, std::tuple{
    Row<kRun>("stream", &GpuColumns::stream, ChunkType::kStreams).Key(),
    Value<kMoment>("begin", &GpuColumns::begin_ns).Key(),
    Span<kDuration>("duration_ns", &GpuColumns::duration_ns, &GpuColumns::begin_ns),
    Enum("kind", &GpuColumns::kind, GpuKind::kKernel, GpuKind::kSpan).Note("GpuKind of pitot/gpu_kind.h"),
    Value<kString>("name", &GpuColumns::name),
    Row<kNearRow>("call", &GpuColumns::call, ChunkType::kCalls),
    Row<kRowOrNone>("shape", &GpuColumns::shape, ChunkType::kShapes),
    Value<kNumber>("bytes", &GpuColumns::bytes),
    Value<kNumber>("graph", &GpuColumns::graph),
    Value<kNumber>("node", &GpuColumns::node),
    Value<kString>("scope_path", &GpuColumns::scope_path).Since(2),
}};

inline constexpr Table kSamples{{ChunkType::kSamples, "samples", kNotNumbered, 2, "values of counters"},
    &Trace::samples, std::tuple{
    Row<kRow>("counter", &SampleColumns::counter, ChunkType::kCounters).Key(),
    Value<kMoment>("at", &SampleColumns::at_ns).Key(),
    Value<kFinite>("value", &SampleColumns::value),
}};

// clang-format on

// The order of dumps: tables come before those that refer to them, and small ones before large ones, so that a
// truncated file still tells most.
template <const auto&... kTables> struct TableList {};
using Tables = TableList<kAttributes, kFirings, kNorms, kSites, kThreads, kLosses, kRequests, kBatches, kMembers,
                         kHandoffs, kAsyncs, kTokens, kDevices, kStreams, kShapes, kOverheads, kDepths, kGpuLosses,
                         kCounters, kOperatorDepths, kEvents, kCalls, kGpu, kSamples>;

// The type of a table's member of Trace.
template <const auto& kTable> using DataOf = std::remove_cvref_t<decltype(std::declval<Trace&>().*kTable.member)>;

// Calls f.operator()<kTable>() for each table.
template <class F, const auto&... kTables> constexpr void ForEachTable(F&& f, TableList<kTables...>) {
  (f.template operator()<kTables>(), ...);
}
template <class F> constexpr void ForEachTable(F&& f) { ForEachTable(f, Tables()); }

// The table of a type.
template <ChunkType kType, const auto& kFirst, const auto&... kRest>
constexpr const auto& TableOf(TableList<kFirst, kRest...>) {
  if constexpr (kFirst.type == kType) {
    return kFirst;
  } else {
    return TableOf<kType>(TableList<kRest...>());
  }
}
template <ChunkType kType> inline constexpr const auto& kTableOf = TableOf<kType>(Tables());

template <ChunkType kType> size_t RowsOf(const Trace& trace) {
  if constexpr (kType == ChunkType::kStrings) {
    return trace.strings.size();
  } else {
    constexpr auto kMember = kTableOf<kType>.member;
    return SizeOf<OfTable<kTableOf<kType>>>(trace.*kMember);
  }
}

// Chunk types are below this number.
inline constexpr uint32_t kTypeCount = [] {
  uint32_t last = 0;
  ForEachTable([&]<const auto & kTable>() { last = std::max(last, static_cast<uint32_t>(kTable.type)); });
  return last + 1;
}();

// The minor version of dumps: that of the newest table or column.
inline constexpr uint32_t kNewestMinor = [] {
  uint32_t newest = 0;
  ForEachTable([&]<const auto & kTable>() {
    newest = std::max(newest, kTable.since);
    ForEachColumn<OfTable<kTable>>([&](auto at) { newest = std::max(newest, at.kColumn.since); });
  });
  return newest;
}();

}  // namespace pitot::schema

#endif  // PITOT_LIB_MODEL_SCHEMA_H_
