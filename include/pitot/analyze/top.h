// SPDX-License-Identifier: Apache-2.0
//
// Sums up where the time of a trace went: CPU and GPU time by operator, kernel, layer, scope, call or request. Both
// self and total time have the meanings of torch.profiler's key_averages(). `pitot top` prints the table. Link
// pitot::analyze. To get a trace, read a file with pitot::reader (ReadDump of pitot/read/dump.h), or take an incident's
// in your own serializer (pitot/extend/serializer.h):
//
//   pitot::model::Trace trace;
//   pitot::DumpReport report;
//   pitot::analyze::TopTable table;
//   if (pitot::ReadDump(path, &trace, &report).ok() && pitot::analyze::FindTop(trace, {}, &table).ok())
//     for (const pitot::analyze::TopRow& row : table.rows) Print(row.name, row.self_cpu_ns, row.self_gpu_ns);
//
// Everything refers to the trace's window and is cut at its edges. Times are whole ns, and rows add up:
//  * Self CPU over all rows is the time that threads spent inside anything with a row: operators, scopes, or calls.
//  * Self GPU over all rows is the sum of the durations of GPU activities (kernels, copies, sets, whole graphs). By
//    request it is the sum of the batches' GPU time (model::GpuTime).
//  * GPU busy over all rows is the time in which each device worked, added up over devices.
#ifndef PITOT_ANALYZE_TOP_H_
#define PITOT_ANALYZE_TOP_H_

#include <stdint.h>

#include <string>
#include <utility>
#include <vector>

#include "pitot/export.h"
#include "pitot/model/index.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// What each row stands for.
enum class TopBy : uint8_t {
  kOperator = 1,  // a framework's operators by name; GPU work not launched by an operator is in rows named in brackets
  kKernel = 2,    // kernels by demangled name, copies and sets by kind, whole graphs; without CPU time
  kLayer = 3,     // the path of the host's own scopes around operators: "forward / layer1"
  kScope = 4,     // scopes, operators and waits by name
  kRequest = 5,   // requests, with their share of their batches
  kCall = 6,      // calls of CUDA's API by name; GPU time is that caused by each call
};

// Order of the rows: by this value, descending, then by name. kName sorts by name, ascending.
enum class TopSort : uint8_t {
  // Self GPU time if there is any, otherwise layers by their spans, otherwise and by call self CPU time.
  kDefault = 0,
  kSelfCpu = 1,
  kCpuTotal = 2,
  kCpuAverage = 3,
  kSelfGpu = 4,
  kGpuTotal = 5,
  kGpuAverage = 6,
  kGpuBusy = 7,
  kGpuExposed = 8,
  kCalls = 9,
  kP50 = 10,  // GPU time for kernels, otherwise CPU time
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
  kSelfNoCalls = 21,
};

struct TopOptions {
  TopBy by = TopBy::kOperator;
  TopSort sort = TopSort::kDefault;
  // Separates operators by the shapes of their inputs, if recorded (TorchOptions::shapes), and kernels by grid and
  // block. Not available by layer, call or request.
  bool groups_by_shape = false;
  // Counts only work for this request and for its batches. Batches count in full, except by request, where the
  // request's share counts. 0: everything.
  uint64_t request_id = 0;
  // Fills TopRow::roof, by operator and by layer.
  bool finds_roofs = false;
  // Measured peaks of the devices, for all number types; 0: those of the data sheets, if known.
  double peak_flop_per_s = 0;
  double peak_bytes_per_s = 0;
  // Fills TopRow::self_no_calls_ns, by operator and by scope; another pass over the events.
  bool finds_no_calls = false;
};

// Where a value comes from: operations and least bytes of recorded operators (TorchOptions::shapes), or samples of
// hardware counters (pitot/collect/counters.h).
enum class TopEvidence : uint8_t { kNone = 0, kOperators = 1, kCounters = 2 };
enum class TopBound : uint8_t { kUnknown = 0, kCompute = 1, kMemory = 2 };

// How close GPU work comes to the peaks of its device. An unmeasured value is negative, never 0.
//
// By operators, a rate is that of the operators with recorded shapes, over the GPU time of all kernels that they
// launched outside of CUDA graphs. Bytes are the least, as if caches held everything else.
// By counters, a value is the mean over all samples that the work fills to four fifths; at least two. Other work on the
// device at that time counts, too.
struct TopRoof {
  static constexpr double kUnknown = -1;

  uint32_t device = model::kNone;     // row of Trace::devices with most of the work; kNone: there is no GPU work
  int64_t gpu_ns = 0;                 // time in which kernels, whole graphs or spans of it were on that device
  bool has_spans = false;             // partly known by CUDA events: then an upper bound
  const char* precision = "";         // of most operations: "f16"; "": unknown
  double flop_per_s = kUnknown;       // by operators
  double peak_flop_per_s = kUnknown;  // the roof for the operations' number types
  double bytes_per_s = kUnknown;      // DRAM
  double flop_per_byte = kUnknown;
  double compute_share = kUnknown;  // of the roof of computing: by operators, otherwise tensor_share
  double memory_share = kUnknown;   // of the roof of memory: by counters, otherwise by operators
  double tensor_share = kUnknown;   // of the time, tensor cores were active: by counters
  double sm_share = kUnknown;       // of the SMs' time, they were active: by counters
  uint64_t samples = 0;             // of counters
  TopEvidence compute_from = TopEvidence::kNone;
  TopEvidence bytes_from = TopEvidence::kNone;
  TopBound bound = TopBound::kUnknown;  // the roof with the larger share, if both are known

  // The share of the binding roof; kUnknown without one.
  double BoundShare() const {
    return bound == TopBound::kUnknown ? kUnknown : bound == TopBound::kMemory ? memory_share : compute_share;
  }
};

// The peaks that roofs refer to.
struct TopDevice {
  std::string name;
  bool is_given = false;                                   // peaks of TopOptions
  double bytes_per_s = 0;                                  // 0: unknown
  std::vector<std::pair<std::string, double>> flop_per_s;  // by number type, the known ones: {"f16", 989e12}
};

// CPU time is elapsed time on a thread, including waits, as in torch.profiler. Waits are also given separately.
struct TopRow {
  static constexpr int64_t kUnset = -1;

  std::string name;
  std::string brief_name;           // kernels: without return type, template arguments and parameters; otherwise ""
  std::string shape;                // "" if rows are not separated by shape, or none was recorded
  uint32_t request = model::kNone;  // by request: row of Trace::requests, kNone for unattributed work
  // By request: GPU times of 0 are known only if GPU work was recorded all of its time.
  bool is_gpu_known = true;
  // By request: CPU times of 0 are unknown if the file's format does not say which thread worked for a request.
  bool is_cpu_known = true;
  uint64_t calls = 0;  // number that ran in the window, at least in part; by kernel: GPU activities; for a request 1
  uint64_t cut_calls = 0;  // those still open, or reaching over an edge of the known time of their thread
  // Floating point operations, as estimated for calls that began in the window (docs/guide/torch.md).
  uint64_t flops = 0;
  uint64_t gpu_records = 0;  // kernels, copies, sets and graphs in self_gpu_ns; by request: those of all its batches
  int64_t self_cpu_ns = 0;   // inside it but in no child with a row: sum of duration - children's durations
  // The part of self_cpu_ns that the thread spent waiting, in a call that waits for a GPU (model::WaitingCalls) or with
  // a host wait (PITOT_WAIT) innermost. 0 by request.
  int64_t self_wait_ns = 0;
  // TopOptions::finds_no_calls: as "Self CPU" of key_averages(), where calls of the device's API have rows of their
  // own. What is inside it but in no operator, no scope of the host and, in an operator, no call. Python functions are
  // no children.
  int64_t self_no_calls_ns = 0;
  int64_t cpu_total_ns = 0;     // inside it; recursive calls count once
  int64_t self_gpu_ns = 0;      // GPU time launched in it but in no child with a row
  int64_t gpu_total_ns = 0;     // GPU time launched in it; recursive calls count once
  int64_t gpu_busy_ns = 0;      // of self_gpu_ns: a moment in which a device does k things counts 1/k for each
  int64_t gpu_exposed_ns = 0;   // of gpu_busy_ns: the part while no thread was at work for the same (FindTop)
  int64_t cpu_p50_ns = kUnset;  // total time of calls that are not cut; kUnset: there are none
  int64_t cpu_p99_ns = kUnset;
  int64_t gpu_p50_ns = kUnset;  // GPU time launched in each of the same calls; for kernels their durations
  int64_t gpu_p99_ns = kUnset;
  int64_t cpu_max_ns = kUnset;  // the longest call; a cut call counts with its known part
  // The share of resamples in which its self time exceeds that of the next row by self time; negative: not known.
  double above_next = -1;
  // By kernel: the theoretical occupancy of its launch shapes in percent, a mean by time, and what limits most of them:
  // "block size", "blocks", "registers" or "shared memory". Negative: unknown; "": unknown, or 100 %.
  double occupancy_percent = -1;
  const char* occupancy_limit = "";
  // By layer: the spans of CUDA events that timed it, and their time. They include gaps, and are no part of the other
  // GPU times.
  uint64_t spans = 0;
  int64_t span_ns = 0;
  TopRoof roof;  // TopOptions::finds_roofs

  // Total by call, rounded; kUnset if there are no calls.
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
  // Sums over the rows.
  int64_t cpu_ns = 0;
  int64_t wait_ns = 0;  // part of cpu_ns
  int64_t gpu_ns = 0;
  int64_t gpu_busy_ns = 0;
  int64_t gpu_exposed_ns = 0;
  // Data missing from the rows. `coverage` is how much was recorded by kernel, in the window or for the request
  // (CoverageIndex::Of).
  bool has_gpu = false;
  bool is_damaged = false;
  model::KernelCoverage coverage;
  model::OperatorCoverage operators;  // of the window, or of the request
  uint64_t losses = 0;                // stretches in which events of a thread, or of an unknown one, were lost
  uint64_t lost_events = 0;           // lost events, as far as the number is known
  uint64_t gpu_losses = 0;
  uint64_t spans = 0;   // spans known only from CUDA events, with gaps: in the rows by request and by layer only
  int64_t span_ns = 0;  // sum over the rows
  std::vector<TopDevice> devices;  // in the order of Trace::devices; TopOptions::finds_roofs
  // Number of units that were resampled to tell how certain the order is: batches, requests outside of batches or,
  // without either, steps of PyTorch's profiler. 0: not done (another order, a single request, by request), or too few.
  uint64_t resampled = 0;
  uint64_t other_members = 0;  // other members of the selected request's batches: they share the batches' time
};

// Fills `table`.
//
// Self and total CPU time, averages and numbers of calls equal those of torch.profiler's key_averages() (PyTorch 2.x,
// torch/autograd/profiler_util.py: FunctionEvent.self_cpu_time_total, self_device_time_total). Self CPU time includes
// calls of the device's API, which have rows of their own there: self_no_calls_ns is without them. There are two
// exceptions. If an operator calls one of its own name, "CPU total" there adds up both; here each moment counts once,
// so that no share exceeds 100 %. If its only child has its name, EventList._remove_dup_nodes merges both into one
// call; here they are two calls. Percentiles are linear between ranks, as in numpy, and rounded.
//
// GPU work belongs to the innermost operator or scope that was open on the launching thread at the call. A CUDA graph's
// nodes belong to those they were captured in (GpuColumns::scope_path); in totals they also count for those that
// launched the graph. Unattributed work has rows of its own:
//  * "(no operator)": launched outside of all operators.
//  * "(compiled: fused_add_relu)": likewise, by a model compiled with Inductor; named after the operators in the
//    kernel's name, "(compiled: no operator)" if it names none.
//  * "(CUDA graph: operators unknown)": likewise, by a graph whose nodes are unknown.
//  * "(operators not recorded)": the depth did not include operators, or the thread's events of that time were lost.
//    Its CPU time is that of threads with operators: time in scopes and outside of waits, while the depth excluded
//    them.
//  * "(launch unknown)": the launching call is not in the trace.
//
// By call, a thread's time belongs to the innermost call if driver calls are recorded within runtime calls. GPU work
// belongs to the call that caused it, otherwise to "(launch unknown)". The whole time of a call that waits for a GPU is
// self_wait_ns.
//
// Exposed GPU time is time in which only the GPU was waited for: a device works, and no thread is at work for the same
// purpose. That purpose is the work's batch or one of its members; outside of batches its request. For unattributed
// work no thread at all may be at work. A thread is at work in a scope or call of that context. It is not at work if
// its innermost scope is a wait, or in calls that wait for a GPU (synchronisations, copies that block). This is the
// priority sweep of trace viewers (TensorBoard's plug-in, XProf), with host before device. Concurrent activities share
// the time equally.
//
// For the certainty of the order, as many requests as there are get drawn with replacement, 400 times (Efron's
// bootstrap). Each row's self time is added up over the drawn requests; unattributed time counts as it is. This covers
// the first 64 rows.
//
// By request, self and total are the same: the request's share of its batches, and its own work outside of them. GPU
// shares are those of model::GpuTime::Request, which does not cut at the window; a batch's CPU time is divided equally.
//
// Threads: any.
// Errors: kInvalidArgument (`groups_by_shape` is set where it is not available), kNotFound (no such request),
//   kResourceExhausted (memory).
// Cost: O(n log n) of the trace's rows, and the depth of scopes for each launch.
PITOT_EXPORT Status FindTop(const model::Trace& trace, const TopOptions& options, TopTable* table) noexcept;

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_TOP_H_
