// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/missing_gpu_work.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "analyze/facts/subjects.h"
#include "base/call_class.h"
#include "base/columns.h"
#include "base/gpu_loss_reason.h"

namespace pitot::facts {

using model::kNone;
using model::Trace;

namespace {

constexpr double kMostMissing = 0.1, kMostSetAside = 0.25;  // of GPU work; Pitot's
constexpr double kWorkOfGraph = 20;                         // if no launch of a graph was recorded

// GPU rows, and the launches that caused them.
struct Recorded {
  explicit Recorded(const Trace& trace) {
    std::vector<bool> is_counted(trace.calls.size());
    for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
      const uint32_t call = trace.gpu.call[row];
      if (trace.gpu.kind[row] == model::GpuKind::kSpan) continue;
      ++rows;
      if (call == kNone) continue;
      const std::string_view name = trace.strings[trace.calls.name[call]];
      const bool is_graph = base::IsGraphLaunch(name);
      rows_of_graphs += is_graph ? 1 : 0;
      if (is_counted[call] || base::CallClassOf(name) != base::CallClass::kLaunch) continue;
      is_counted[call] = true;
      ++(is_graph ? graphs : launches);
    }
  }
  double WorkOfGraph() const {
    return graphs == 0 ? kWorkOfGraph : static_cast<double>(rows_of_graphs) / static_cast<double>(graphs);
  }
  uint64_t rows = 0, rows_of_graphs = 0, graphs = 0, launches = 0;
};

// Records lost for one reason.
struct Lost {
  uint64_t records = 0;
  std::vector<model::Interval> stretches;
  std::string more;  // of the reason, after its beginning
};
// By reason and, for durations, stream.
using Losses = std::map<std::pair<std::string_view, uint32_t>, Lost>;

Losses LossesOf(const Trace& trace) {
  Losses losses;
  for (const model::GpuLossRow& loss : trace.gpu_losses) {
    std::string_view reason = trace.strings[loss.reason], more;
    if (!base::IsOfReader(reason)) continue;
    const bool is_duration = reason.starts_with(base::kImpossibleDuration);
    if (is_duration) {
      more = reason.substr(base::kImpossibleDuration.size());
      reason = base::kImpossibleDuration;
    }
    Lost& lost = losses[{reason, is_duration ? loss.stream : kNone}];
    lost.records += loss.records;
    lost.stretches.push_back({loss.begin_ns, loss.end_ns});
    lost.more = more.starts_with(", ") ? more.substr(2) : more;
  }
  return losses;
}

// A damage by `part` of `whole`.
Damage DamageOf(const char* code, std::string subject, const Lost& lost, uint64_t part, uint64_t whole) {
  Damage damage;
  damage.code = code;
  damage.subject = std::move(subject);
  damage.value = whole == 0 ? 1 : static_cast<double>(part) / static_cast<double>(whole);
  damage.spoils = kReadsGpu | kReadsCalls | kReadsLaunches;
  damage.multiplier = std::max(kLeastMultiplier, 1 - damage.value);
  damage.where = lost.stretches[0];
  return damage;
}

Damage Timeless(const Recorded& recorded, const Lost& lost) {
  Damage damage = DamageOf("a39.no_time", kAll, lost, lost.records, recorded.rows + lost.records);
  damage.caveat = base::Plural(lost.records, "thing") +
                  " that GPUs did had no time, or one far outside the trace: " + Percent(damage.value) +
                  " of the records were set aside";
  damage.advice = "The profiling library could not time them: update the driver and the profiler.";
  damage.metric = "records without time / records";
  damage.set_aside = static_cast<double>(lost.records);
  return damage;
}

Damage Impossible(const Trace& trace, uint32_t stream, const Lost& lost) {
  const uint64_t rows = lost.records + trace.streams[stream].event_count;
  Damage damage = DamageOf("a39.impossible_duration", StreamName(trace, stream), lost, lost.records, rows);
  damage.caveat = base::Count(lost.records) + " of " + base::Count(rows) + " records have an impossible duration" +
                  (lost.more.empty() ? std::string() : " (" + lost.more + ")") +
                  " and were set aside: their times are not known, at most " +
                  base::Duration(TotalNs(model::Union(lost.stretches))) + " until the next work began";
  damage.advice = "The profiling library wrote wrong ends: update the driver and the profiler.";
  damage.metric = "records with it / records of the stream";
  damage.set_aside = static_cast<double>(lost.records);
  return damage;
}

std::string Launches(uint64_t count, bool are_graphs) {
  const bool is_one = count == 1;
  const std::string launches = base::Count(count) + (is_one ? " launch" : " launches");
  if (!are_graphs) return launches;
  return launches + (is_one ? " of a graph" : " of graphs");
}

Damage WithoutWork(const Recorded& recorded, std::string_view reason, const Lost& lost) {
  const bool is_part = reason == base::kGraphInPart, is_graph = is_part || reason == base::kGraphWithoutWork;
  const uint64_t had = is_part ? recorded.rows_of_graphs : is_graph ? recorded.graphs : recorded.launches;
  const uint64_t all = lost.records + had;
  Damage damage = DamageOf("a39.lost_gpu_records", kAll, lost, lost.records, all);
  if (is_part) {
    damage.caveat = base::Count(lost.records) + " of " + base::Count(all) +
                    " records of graphs are missing: other launches of the same graphs have them";
  } else if (recorded.rows == 0) {
    damage.caveat = Launches(lost.records, is_graph) + ", and nothing that GPUs did: kernels were not recorded";
  } else {
    damage.caveat = base::Count(lost.records) + " of " + Launches(all, is_graph) + " have no work in the trace";
  }
  damage.advice =
      "The GPU may have been at work where it looks idle. Record again: with an updated driver and profiler, for a "
      "shorter time, or without graphs.";
  damage.metric = is_part ? "missing records / records of graphs" : "launches without work / launches";
  damage.missing_launches = (is_graph && !is_part ? recorded.WorkOfGraph() : 1) * static_cast<double>(lost.records);
  return damage;
}

}  // namespace

void AddMissingGpuWork(const Trace& trace, std::vector<Damage>* damages) {
  const Losses losses = LossesOf(trace);
  if (losses.empty()) return;
  const Recorded recorded(trace);
  for (const auto& [key, lost] : losses) {
    damages->push_back(key.first == base::kNoTime               ? Timeless(recorded, lost)
                       : key.first == base::kImpossibleDuration ? Impossible(trace, key.second, lost)
                                                                : WithoutWork(recorded, key.first, lost));
  }
}

MissingWork FindMissingWork(const Trace& trace, const std::vector<Damage>& damages) {
  double launches = 0, set_aside = 0;
  for (const Damage& damage : damages) {
    launches += damage.missing_launches;
    set_aside += damage.set_aside;
  }
  const double all = launches + set_aside + static_cast<double>(trace.gpu.size());
  return all == 0 ? MissingWork() : MissingWork{launches / all, set_aside / all};
}

bool IsKnownWithout(const MissingWork& missing, std::string_view code, double value, double threshold) {
  constexpr std::string_view kOfAbsence[] = {
      "a03.utilisation_low", "a03.efficiency_low", "a04.idle",         "a05.input_bound",        "a08.transfer_bound",
      "a08.transfer_heavy",  "a09.sync_stalls",    "a10.launch_bound", "a11.queue_empty",        "a11.queue_full",
      "a15.communication",   "a17.critical_path",  "a28.saturated",    "a16.serialised_streams", "a28.serial_station",
      "a34.idle_cost",       "a43.idle_energy"};
  if (std::find(std::begin(kOfAbsence), std::end(kOfAbsence), code) == std::end(kOfAbsence)) return true;
  if (missing.of_launches > kMostMissing) return false;
  if (missing.set_aside <= kMostMissing) return true;
  if (missing.set_aside > kMostSetAside) return false;
  // At twice the length of the others, the finding must still hold.
  const double rest = 1 - 2 * missing.set_aside;
  if (code == "a04.idle") return 1 - (1 - value) / rest > threshold;
  return code == "a03.utilisation_low" && value / rest < threshold;
}

}  // namespace pitot::facts
