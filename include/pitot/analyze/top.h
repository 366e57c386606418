// SPDX-License-Identifier: Apache-2.0
//
// Where the time of a trace went: CPU and GPU time by operator, kernel, layer, scope, call or request, self and total,
// with the meanings of torch.profiler's key_averages(). What `pitot top` shows. Link pitot::analyze; the trace of a
// file is read by pitot::reader (ReadDump of pitot/read/dump.h), that of an incident is given to a serializer of one's
// own (pitot/extend/serializer.h):
//
//   pitot::model::Trace trace;
//   pitot::DumpReport report;
//   pitot::analyze::TopTable table;
//   if (pitot::ReadDump(path, &trace, &report).ok() && pitot::analyze::FindTop(trace, {}, &table).ok())
//     for (const pitot::analyze::TopRow& row : table.rows) Print(row.name, row.self_cpu_ns, row.self_gpu_ns);
//
// Everything is of the trace's window; what reaches over its edges is cut there. Times are whole ns, and rows add up:
//  * self CPU over all rows is the time in which threads were inside anything that has a row: operators, scopes, or
//  calls;
//  * self GPU over all rows is the sum of the durations of what GPUs did (kernels, copies, sets, whole graphs); by
//    request it is the sum of batches' GPU time (model::GpuTime);
//  * GPU busy over all rows is the time in which each device worked, added up over devices.
#ifndef PITOT_ANALYZE_TOP_H_
#define PITOT_ANALYZE_TOP_H_

#include <stdint.h>

#include <string>
#include <vector>

#include "pitot/export.h"
#include "pitot/model/index.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// What has a row of its own.
enum class TopBy : uint8_t {
  kOperator = 1,  // a framework's operators by name; GPU work that none launched is in rows that say so in brackets
  kKernel = 2,    // kernels by demangled name, copies and sets by kind, whole graphs; they have no CPU time
  kLayer = 3,     // the path of the host's own scopes around operators: "forward / layer1"
  kScope = 4,     // scopes, operators and waits by name
  kRequest = 5,   // requests, with their part of the batches that they were in
  kCall = 6,      // calls of CUDA's API by name; GPU time is of what each caused
};

// Rows come in descending order of this, by name where it is equal; by name ascending.
enum class TopSort : uint8_t {
  kDefault = 0,  // self GPU time where there is any, else, and by call, self CPU time
  kSelfCpu = 1,
  kCpuTotal = 2,
  kCpuAverage = 3,
  kSelfGpu = 4,
  kGpuTotal = 5,
  kGpuAverage = 6,
  kGpuBusy = 7,
  kGpuExposed = 8,
  kCalls = 9,
  kP50 = 10,  // of kernels GPU time, else CPU time
  kP99 = 11,
  kName = 12,
  kCpuP50 = 13,
  kCpuP99 = 14,
  kGpuP50 = 15,
  kGpuP99 = 16,
  kGpuRecords = 17,
  kFlops = 18,
  kSelfWait = 19,
  kCpuMax = 20,
};

struct TopOptions {
  TopBy by = TopBy::kOperator;
  TopSort sort = TopSort::kDefault;
  // Operators apart by the shapes of their inputs, where those were recorded (TorchOptions::shapes), kernels by grid
  // and block. Not by layer, call nor request.
  bool groups_by_shape = false;
  // Only what ran for this request and for batches that it was in; of these all, not the request's part, but by
  // request. 0: everything.
  uint64_t request_id = 0;
};

// CPU time is time that passed on a thread, waits included, as torch.profiler has it; what of it was waits is said
// apart.
struct TopRow {
  static constexpr int64_t kUnset = -1;

  std::string name;
  std::string brief_name;           // of kernels: without return type, template arguments and parameters; else ""
  std::string shape;                // "" where rows are not apart by it, or none was recorded
  uint32_t request = model::kNone;  // by request: row of Trace::requests, kNone of work of none
  uint64_t calls = 0;               // that ran in the window, at least in part; by kernel what GPUs did; of a request 1
  uint64_t cut_calls = 0;           // of those, that are open or reach over an edge of what is known of their thread
  uint64_t flops = 0;  // floating point operations, as calls that began in the window estimate them (docs/guide/torch.md)
  uint64_t gpu_records = 0;  // kernels, copies, sets and graphs in self_gpu_ns; by request all of its batches'
  int64_t self_cpu_ns = 0;   // in it, in nothing within it that has a row: sum of duration - those of children
  // Of self_cpu_ns, when the thread waited: it was in a call that waits for a GPU (model::WaitingCalls), or what it was
  // in last was a wait of the host's (PITOT_WAIT). 0 by request.
  int64_t self_wait_ns = 0;
  int64_t cpu_total_ns = 0;     // in it, once where it calls itself
  int64_t self_gpu_ns = 0;      // of what was launched in it and in nothing within it that has a row
  int64_t gpu_total_ns = 0;     // of what was launched in it, once where it calls itself
  int64_t gpu_busy_ns = 0;      // of self_gpu_ns: a moment in which a device does k things counts 1/k for each
  int64_t gpu_exposed_ns = 0;   // of gpu_busy_ns: while no thread was at work for the same (FindTop)
  int64_t cpu_p50_ns = kUnset;  // of calls that are not cut, each its time in all; kUnset: there is none
  int64_t cpu_p99_ns = kUnset;
  int64_t gpu_p50_ns = kUnset;  // of the same calls, what was launched in each; of kernels their durations
  int64_t gpu_p99_ns = kUnset;
  int64_t cpu_max_ns = kUnset;  // the longest of all calls, of those that are cut what of them is known
  // In which share of resamples it is above the next row, of those in the order of self time; negative: not known.
  double above_next = -1;

  // Totals by call, rounded; kUnset where there is none.
  int64_t CpuAverageNs() const { return Average(cpu_total_ns); }
  int64_t GpuAverageNs() const { return Average(gpu_total_ns); }

 private:
  int64_t Average(int64_t total_ns) const {
    const int64_t number = static_cast<int64_t>(calls);
    return number == 0 ? kUnset : (total_ns + number / 2) / number;
  }
};

struct TopTable {
  TopBy by = TopBy::kOperator;
  std::vector<TopRow> rows;
  int64_t window_ns = 0;
  // What rows add up to.
  int64_t cpu_ns = 0;
  int64_t wait_ns = 0;  // of that
  int64_t gpu_ns = 0;
  int64_t gpu_busy_ns = 0;
  int64_t gpu_exposed_ns = 0;
  // What is not in them. Coverage is of the window, or of the request (CoverageIndex::Of), by kernel.
  bool has_gpu = false;
  bool is_damaged = false;
  model::KernelCoverage coverage;
  model::OperatorCoverage operators;  // of the window, or of the request
  uint64_t losses = 0;                // stretches in which a thread's events, or events of any, were lost
  uint64_t lost_events = 0;           // of those, where the number is known
  uint64_t gpu_losses = 0;
  uint64_t spans = 0;  // known from CUDA events alone, with gaps: in the rows by request only
  // How many batches, requests outside of batches or, without either, steps of PyTorch's profiler were drawn from, to
  // say how sure the order is; 0: it was not asked (another order, of one request, by request), or too few.
  uint64_t resampled = 0;
  uint64_t other_members = 0;  // of batches of the request that was asked for: they share its batches' time
};

// Fills `table`.
//
// Self and total of CPU time, averages and numbers of calls are those of torch.profiler's key_averages() (PyTorch 2.x,
// torch/autograd/profiler_util.py: FunctionEvent.self_cpu_time_total, self_device_time_total). Where an operator calls
// one of its own name it adds up both in "CPU total"; here each moment counts once, so that no share is above 100 %.
// (Of one whose only child has its name it makes one call, EventList._remove_dup_nodes; here they are two.) Percentiles
// are linear between ranks, as those of numpy, rounded.
//
// GPU work belongs to the innermost operator or scope that was open on the launching thread when the call was made; a
// CUDA graph's nodes to those they were captured in (GpuColumns::scope_path), and in total to those that launched the
// graph, too. "(no operator)" was launched outside of all; "(compiled: fused_add_relu)" the same by a model that
// Inductor compiled, by what the kernel's name says it fused, "(compiled: no operator)" where it says nothing; "(CUDA
// graph: operators unknown)" the same by a graph of whose nodes nobody told; "(operators not recorded)" while the depth
// did not include them, or by a thread whose events of the time were lost; "(launch unknown)" by a call that is not in
// the trace. CPU time of "(operators not recorded)" is that of threads with operators in scopes and outside of waits
// while the depth did not include them.
//
// By call a thread's time is the innermost call's, where the driver's are recorded within the runtime's; GPU work is
// the call's that caused it, "(launch unknown)" else. All of what waits for a GPU is self_wait_ns.
//
// Exposed GPU time is what only the GPU was waited for: a device works and no thread is at work for the batch that the
// work is for, or for one of its members; outside of batches for the request; for work of no request no thread at all.
// A thread is at work in a scope or call of that context, but where its innermost scope is a wait, and in calls that
// wait for a GPU (synchronisations, copies that block). This is the priority sweep of trace viewers (TensorBoard's
// plug-in, XProf) with host before device, between things that run at once divided equally.
//
// How sure the order is: requests are drawn with replacement, as many as there are (400 times; Efron's bootstrap), and
// each row's self time added up over those that were drawn; time of no request counts as it is. The first 64 rows.
//
// By request, self and total are the same: the request's part of its batches (GPU time: model::GpuTime::Request,
// which is not cut at the window; CPU time of a batch divided equally), and its own outside of them.
//
// Threads: any. Errors: kInvalidArgument (`groups_by_shape` where it means nothing), kNotFound (no such request),
// kResourceExhausted (memory). Cost: O(n log n) of the trace's rows, and the depth of scopes for each launch.
PITOT_EXPORT Status FindTop(const model::Trace& trace, const TopOptions& options, TopTable* table) noexcept;

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_TOP_H_
