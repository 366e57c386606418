// SPDX-License-Identifier: Apache-2.0
//
// The units a trace is compared by (requests or steps), and the host and GPU time of each.
#ifndef PITOT_LIB_ANALYZE_DIFF_DIFF_UNITS_H_
#define PITOT_LIB_ANALYZE_DIFF_DIFF_UNITS_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyze/diff/change.h"
#include "analyze/diff/namespace.h"
#include "pitot/analyze/diff.h"
#include "pitot/model/intervals.h"

namespace pitot::diff {

// The finest unit that both traces have.
DiffPer FindPer(const model::Trace& before, const model::Trace& after);

// Requests that began and ended in the window and are not part of another; or steps; or the whole window.
class DiffUnits {
 public:
  DiffUnits(const model::Trace& trace, DiffPer per);
  uint32_t size() const { return static_cast<uint32_t>(times_.size()); }
  model::Interval time(uint32_t unit) const { return times_[unit]; }
  uint32_t request(uint32_t unit) const { return requests_[unit]; }  // row; kNone if it is not a request
  // Units with their single values kept, evenly spaced: at most kMostSamples.
  static constexpr uint32_t kMostSamples = 512;
  const std::vector<uint32_t>& samples() const { return samples_; }
  uint32_t SampleOf(uint32_t unit) const { return sample_of_[unit]; }  // index in samples(), or kNone

  // Calls f(unit, parts) for each unit served by work of this context and moment; the work counts 1 / parts for each.
  // Work of a batch is shared by its members, and some of these may not be units.
  template <class F> void ForEach(uint32_t request, uint32_t batch, int64_t at_ns, F f) const {
    if (per_ != DiffPer::kRequest) {
      const uint32_t unit = UnitAt(at_ns);
      if (unit != model::kNone) f(unit, 1);
      return;
    }
    if (batch == model::kNone) {
      if (request != model::kNone && unit_of_[request] != model::kNone) f(unit_of_[request], 1);
      return;
    }
    const model::BatchRow& row = trace_.batches[batch];
    for (uint32_t m = row.first_member; m < row.first_member + row.member_count; ++m) {
      const uint32_t member = trace_.members[m].request;
      if (member != model::kNone && unit_of_[member] != model::kNone) f(unit_of_[member], row.member_count);
    }
  }

 private:
  uint32_t UnitAt(int64_t at_ns) const;

  const model::Trace& trace_;
  const DiffPer per_;
  std::vector<model::Interval> times_;
  std::vector<uint32_t> requests_, unit_of_, samples_, sample_of_;
};

// Amounts by name, with the ns of each sampled unit.
class Ledger {
 public:
  struct Entry {
    std::string name;
    Amount amount;
    std::vector<double> values;  // of samples; empty: all are 0
  };
  explicit Ledger(const DiffUnits& units) : units_(&units) {}
  uint32_t Of(const std::string& name);
  void Add(uint32_t entry, uint32_t unit, int64_t ns, uint32_t parts, bool is_counted = true);
  const std::vector<Entry>& entries() const { return entries_; }
  const DiffUnits& units() const { return *units_; }

 private:
  const DiffUnits* units_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, uint32_t> rows_;
};

// By kernel and kind of copy; by operator and scope, with self time on threads.
Ledger GpuLedger(const model::Trace& trace, const DiffUnits& units);
Ledger HostLedger(const model::Trace& trace, const DiffUnits& units);
// Parts of the latency, which add up to it. BlameLedger covers only the walked units, and returns their number.
Ledger SizeLedger(const model::Trace& trace, const DiffUnits& units);
Ledger StageLedger(const model::Trace& trace, const DiffUnits& units);
Ledger BlameLedger(const model::Trace& trace, const DiffUnits& units, uint64_t* walked);
// "/classify, size 4": requests with the same text are alike.
std::string LikeOf(const model::Trace& trace, uint32_t request);

// For each unit, the ns of GPU work for it: the sum of its part of GpuLedger.
std::vector<double> GpuTimesOf(const model::Trace& trace, const DiffUnits& units);
// Counts without noise, by unit.
struct Counts {
  std::vector<double> launches, bytes_copied, waits, allocations;
};
Counts CountsOf(const model::Trace& trace, const DiffUnits& units);

}  // namespace pitot::diff

#endif  // PITOT_LIB_ANALYZE_DIFF_DIFF_UNITS_H_
