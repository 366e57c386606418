// SPDX-License-Identifier: Apache-2.0
//
// The rows of a table of where time went, while they are counted.
#ifndef PITOT_LIB_ANALYZE_TOP_ROWS_H_
#define PITOT_LIB_ANALYZE_TOP_ROWS_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyze/facts/gpu_shares.h"
#include "analyze/facts/resampling.h"
#include "analyze/top/namespace.h"
#include "analyze/top/roof.h"
#include "pitot/analyze/top.h"

namespace pitot::top {

// Durations, for their quantiles. There may be one for each event of a trace, and most are 0 or below 4.3 s: those take
// no memory, or 4 bytes.
class Durations {
 public:
  void Add(int64_t ns) {
    if (ns == 0) {
      ++zeros_;
    } else if (ns <= UINT32_MAX) {
      short_.push_back(static_cast<uint32_t>(ns));
    } else {
      long_.push_back(ns);
    }
  }
  // As base::QuantileOf defines it; TopRow::kUnset without durations. O(n).
  int64_t Quantile(double q) {
    const size_t count = zeros_ + short_.size() + long_.size();
    if (count == 0) return TopRow::kUnset;
    const double rank = q * static_cast<double>(count - 1);
    const auto below = static_cast<size_t>(rank);
    const int64_t ns = At(below);
    const double part = rank - static_cast<double>(below);
    return part <= 0 ? ns : ns + std::llround(part * static_cast<double>(At(below + 1) - ns));
  }

 private:
  // The duration of this rank.
  int64_t At(size_t rank) {
    if (rank < zeros_) return 0;
    rank -= zeros_;
    return rank < short_.size() ? Nth(&short_, rank) : Nth(&long_, rank - short_.size());
  }
  template <class T> static int64_t Nth(std::vector<T>* values, size_t rank) {
    const auto at = values->begin() + static_cast<std::ptrdiff_t>(rank);
    std::nth_element(values->begin(), at, values->end());
    return *at;
  }

  size_t zeros_ = 0;
  std::vector<uint32_t> short_;
  std::vector<int64_t> long_;
};

// A row, and the sums and samples it is finished from.
struct Tally {
  TopRow row;
  facts::FineNs busy = 0, exposed = 0;
  Durations cpu_ns, gpu_ns;  // of each call that is not cut
  facts::GroupTimes self_cpu_by_unit, self_gpu_by_unit;
  Load load;  // TopOptions::finds_roofs

  void AddSelfCpu(uint32_t unit, int64_t ns) {
    row.self_cpu_ns += ns;
    self_cpu_by_unit.Add(unit, ns);
  }
  void AddSelfGpu(uint32_t unit, int64_t ns) {
    row.self_gpu_ns += ns;
    self_gpu_by_unit.Add(unit, ns);
  }

  // Adds a total; time of a row within itself counts once.
  void AddCpuTotal(uint32_t thread, int64_t begin_ns, int64_t end_ns) {
    if (thread != thread_) thread_ = thread, until_ns_ = INT64_MIN;
    row.cpu_max_ns = std::max(row.cpu_max_ns, end_ns - begin_ns);
    row.cpu_total_ns += std::max<int64_t>(0, end_ns - std::max(begin_ns, until_ns_));
    until_ns_ = std::max(until_ns_, end_ns);
  }
  void AddGpuTotal(uint32_t gpu_row, int64_t ns) {
    if (gpu_row == gpu_row_) return;
    gpu_row_ = gpu_row;
    row.gpu_total_ns += ns;
  }

 private:
  uint32_t thread_ = model::kNone, gpu_row_ = model::kNone;  // the last ones added
  int64_t until_ns_ = INT64_MIN;
};

class Rows {
 public:
  explicit Rows(const model::Trace& trace) : trace_(trace), units_(trace) {}
  // The row of this name and shape.
  uint32_t Of(std::string_view name, std::string_view shape = {}) {
    key_.assign(name).append(1, '\0').append(shape);
    const auto [found, is_new] = rows_.try_emplace(key_, static_cast<uint32_t>(tallies_.size()));
    if (is_new) {
      tallies_.emplace_back();
      tallies_.back().row.name = name;
      tallies_.back().row.shape = shape;
    }
    return found->second;
  }
  Tally& operator[](uint32_t row) { return tallies_[row]; }
  std::deque<Tally>& all() { return tallies_; }

  // The unit for resampling of an event, of GPU work and of a call.
  uint32_t UnitOfEvent(uint32_t event) const {
    return units_.Of(trace_.events.request[event], trace_.events.batch[event], trace_.events.begin_ns[event]);
  }
  uint32_t UnitOfGpu(uint32_t gpu_row) const {
    const uint32_t call = trace_.gpu.call[gpu_row];
    return call == model::kNone ? model::kNone : UnitOfCall(call);
  }
  uint32_t UnitOfCall(uint32_t call) const {
    return units_.Of(trace_.calls.request[call], trace_.calls.batch[call], trace_.calls.begin_ns[call]);
  }
  uint64_t units() const { return units_.count(); }

 private:
  const model::Trace& trace_;
  const facts::Units units_;
  std::deque<Tally> tallies_;                       // large: a vector would copy them as it grows
  std::unordered_map<std::string, uint32_t> rows_;  // by name, a zero (names have none) and shape
  std::string key_;
};

}  // namespace pitot::top

#endif  // PITOT_LIB_ANALYZE_TOP_ROWS_H_
