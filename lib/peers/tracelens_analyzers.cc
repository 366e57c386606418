// SPDX-License-Identifier: Apache-2.0
//
// TraceLens' timeline of the GPU.
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "analyze/facts/subjects.h"
#include "peers/catalogue.h"
#include "peers/instead.h"
#include "peers/peers.h"
#include "pitot/model/sweep.h"

namespace pitot::peers {
namespace {

using facts::Add;
using facts::AddNumber;
using facts::kAll;
using model::GpuClass;
using model::Interval;
using model::Intervals;
using model::Trace;

// A01.
void TileAsTraceLens(Analysis& analysis) {
  const Trace& trace = analysis.trace();
  const std::vector<uint32_t> rows = TraceLensRows(trace);
  std::vector<Interval> compute, communication, memcpy;
  for (const uint32_t row : rows) {
    const Interval time = {trace.gpu.begin_ns[row], trace.gpu.begin_ns[row] + trace.gpu.duration_ns[row]};
    // TraceLens knows the collectives' libraries only.
    const bool communicates = model::IsCollectiveLibrary(trace.strings[trace.gpu.name[row]]);
    const GpuClass of = GpuClassOf(trace, row);
    (of == GpuClass::kMemcpy ? memcpy : communicates ? communication : compute).push_back(time);
  }
  if (rows.empty()) return;
  const Intervals computes = Union(std::move(compute)), communicates = Union(std::move(communication));
  const Intervals copies = Union(std::move(memcpy));
  const std::vector<int64_t> totals =
      model::TotalsByPriority({&computes, &communicates, &copies}, {0, model::kMaxTimeNs});
  const TraceLensTotals sums = TraceLensMerge(trace, rows);
  AddNumber(analysis, "total", kAll, sums.total_us * 1000, "ns");
  AddNumber(analysis, "busy", kAll, sums.busy_us * 1000, "ns");
  AddNumber(analysis, "idle", kAll, (sums.total_us - sums.busy_us) * 1000, "ns");
  AddNumber(analysis, "idle_share", kAll, sums.total_us == 0 ? 0 : (sums.total_us - sums.busy_us) / sums.total_us);
  Add(analysis, "computation", kAll, totals[0]);
  Add(analysis, "exposed_communication", kAll, totals[1]);
  Add(analysis, "exposed_memcpy", kAll, totals[2]);
}

}  // namespace

std::vector<std::unique_ptr<Analyzer>> MakeTraceLensCatalogue() { return With({{"a01", TileAsTraceLens}}); }

}  // namespace pitot::peers
