// SPDX-License-Identifier: Apache-2.0
//
// A report's lines on the host over the window: the reasons why threads stopped (docs/guide/host.md).
#ifndef PITOT_LIB_SERIALIZE_REPORT_HOST_H_
#define PITOT_LIB_SERIALIZE_REPORT_HOST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/columns.h"
#include "base/host_counters.h"
#include "model/parts.h"
#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

namespace pitot::report {

class HostReport {
 public:
  // `trace` must outlive this.
  explicit HostReport(const model::Trace& trace);
  bool IsKnown() const { return !counters_.empty(); }
  // Writes a few lines, and the threads with the longest waits for a CPU. Those of a joined trace: for each part.
  void Write(size_t indent, base::Lines* lines) const;
  // The CPU time of a thread in `times`: exact where it was read, and even between two readings. nullopt if it was not
  // read around them.
  std::optional<int64_t> CpuNs(uint32_t thread, const model::Intervals& times) const;

 private:
  struct Values {
    double first, last, least, most;
    int64_t span_ns;  // from the first to the last reading
    double Growth() const { return last > first ? last - first : 0; }
  };
  void WritePart(uint32_t part, size_t indent, base::Lines* lines) const;
  std::string ThreadCounter(uint32_t thread, const base::CounterName& what) const {
    return parts_.NameOf(of_threads_[thread], base::ThreadCounter(trace_.threads[thread].tid, what));
  }
  // A counter's values over the window; nullopt if it has no samples.
  std::optional<Values> Of(const std::string& name) const;
  // Its samples; an empty range: none.
  std::pair<uint32_t, uint32_t> SamplesOf(const std::string& name) const;
  std::optional<Values> OfHost(uint32_t part, const base::CounterName& what) const {
    return Of(parts_.NameOf(part, base::HostCounter(what)));
  }
  // The time of the growth of a part's counter: the window, or in a joined trace the part's share of it.
  double WindowNs(const Values& values) const {
    return static_cast<double>(parts_.is_joined() ? values.span_ns : trace_.window_end_ns - trace_.window_begin_ns);
  }
  // The CPU time that the hypervisor took. "" if it is unknown or hardly any.
  std::string Stolen(uint32_t part) const;
  std::string Pressure(uint32_t part, const char* shown, const base::CounterName& some,
                       const base::CounterName* full) const;
  void Threads(uint32_t part, size_t indent, base::Lines* lines) const;

  const model::Trace& trace_;
  const model::Parts parts_;
  const std::vector<uint32_t> of_threads_;                   // their parts
  std::unordered_map<std::string_view, uint32_t> counters_;  // of the host and its threads, by name
};

}  // namespace pitot::report

#endif  // PITOT_LIB_SERIALIZE_REPORT_HOST_H_
