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

#include "base/columns.h"
#include "base/host_counters.h"
#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

namespace pitot::report {

class HostReport {
 public:
  // `trace` must outlive this.
  explicit HostReport(const model::Trace& trace);
  bool IsKnown() const { return !counters_.empty(); }
  // Writes a few lines, and the threads with the longest waits for a CPU.
  void Write(size_t indent, base::Lines* lines) const;
  // The CPU time of a thread in `times`: exact where it was read, and even between two readings. nullopt if it was not
  // read around them.
  std::optional<int64_t> CpuNs(uint32_t thread, const model::Intervals& times) const;

 private:
  struct Values {
    double first, last, least, most;
    double Growth() const { return last > first ? last - first : 0; }
  };
  // A counter's values over the window; nullopt if it has no samples.
  std::optional<Values> Of(const std::string& name) const;
  // Its samples; an empty range: none.
  std::pair<uint32_t, uint32_t> SamplesOf(const std::string& name) const;
  std::optional<Values> OfHost(const base::CounterName& what) const { return Of(base::HostCounter(what)); }
  // The CPU time that the hypervisor took. "" if it is unknown or hardly any.
  std::string Stolen() const;
  std::string Pressure(const char* shown, const base::CounterName& some, const base::CounterName* full) const;
  void Threads(size_t indent, base::Lines* lines) const;

  const model::Trace& trace_;
  std::unordered_map<std::string_view, uint32_t> counters_;  // of the host and its threads, by name
};

}  // namespace pitot::report

#endif  // PITOT_LIB_SERIALIZE_REPORT_HOST_H_
