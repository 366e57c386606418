// SPDX-License-Identifier: Apache-2.0
//
// How other tools count where they differ from Pitot: their rows, units and steps. Each policy is in one place, so that
// equality with a tool is exact, not approximate.
#ifndef PITOT_LIB_PEERS_PEERS_H_
#define PITOT_LIB_PEERS_PEERS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "pitot/model/indexes.h"
#include "pitot/model/trace.h"

namespace pitot::peers {

// HolisticTraceAnalysis, at f4d0062c.
enum class HtaType { kComputation, kCommunication, kMemory, kOther };
// A time in whole us: the begin rounded up and the end rounded down, computed in doubles as pandas does. So a time
// shorter than a us may have a duration of -1.
struct HtaTime {
  int64_t begin_us = 0;
  int64_t duration_us = 0;
  int64_t EndUs() const { return begin_us + duration_us; }
};
HtaTime ToHta(int64_t begin_ns, int64_t duration_ns);
struct HtaRow {
  HtaTime time;
  HtaType type = HtaType::kOther;
  uint32_t gpu_row = model::kNone;  // kNone: a synchronisation, counted by HTA as work of the stream
};
// HTA's GPU kernels, by beginning. With two or more ProfilerSteps in the trace only rows with a call.
std::vector<HtaRow> HtaRows(const model::Trace& trace);
// Rows merged where they meet: first begin, last end and total.
struct HtaMerged {
  int64_t begin_us = 0, end_us = 0, total_us = 0;
};
HtaMerged HtaMerge(const std::vector<HtaRow>& rows);
// Whether HTA takes the call for a launch.
bool HtaLaunches(std::string_view call);

// TraceLens, at 171dd747: rows with a call; all rows if none has one.
std::vector<uint32_t> TraceLensRows(const model::Trace& trace);
// Computed in doubles of us, as TraceLens does: for times long after the epoch this loses about a ns per merged
// stretch.
struct TraceLensTotals {
  double total_us = 0, busy_us = 0;
};
TraceLensTotals TraceLensMerge(const model::Trace& trace, const std::vector<uint32_t>& rows);

// PyTorch's TensorBoard plug-in, at 041e7ce99: its steps, extended to the end of the work they launched. Last steps
// without enough kernels are dropped; a trace without steps is one step.
model::Intervals TbSteps(const model::Trace& trace, const model::LaunchIndex& launches);
// Its roles, in order: a moment counts for the first that applies. The last is "other".
inline constexpr uint32_t kTbRoles = 7;
inline constexpr const char* kTbRoleNames[kTbRoles + 1] = {"kernel",  "memcpy",     "memset",   "communication",
                                                           "runtime", "dataloader", "cpu_exec", "other"};
std::vector<model::Intervals> TbRoles(const model::Trace& trace, const model::IntervalSets& sets);

}  // namespace pitot::peers

#endif  // PITOT_LIB_PEERS_PEERS_H_
