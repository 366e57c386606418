// SPDX-License-Identifier: Apache-2.0
//
// A report's line on what a request used: CPU time of its threads, and allocations.
#ifndef PITOT_LIB_SERIALIZE_REPORT_USAGE_H_
#define PITOT_LIB_SERIALIZE_REPORT_USAGE_H_

#include <cstdint>
#include <set>
#include <string>

#include "pitot/model/index.h"
#include "pitot/model/trace.h"
#include "serialize/report_host.h"

namespace pitot::report {

class UsageReport {
 public:
  // All must outlive this.
  UsageReport(const model::Trace& trace, const model::RequestIndex& index, const HostReport& host);

  // What is known of `request`, and what was not recorded; `threads` worked for it. A thread of batches counts in
  // these, any other in all of the request's time.
  std::string Of(uint32_t request, const std::set<uint32_t>& threads) const;

 private:
  std::string CpuTime(uint32_t request, const std::set<uint32_t>& threads) const;
  // "" on a host without a GPU.
  std::string Allocations(uint32_t request) const;
  model::Intervals TimesOf(uint32_t thread, uint32_t request) const;

  const model::Trace& trace_;
  const model::RequestIndex& index_;
  const HostReport& host_;
  const bool has_gpu_, has_operations_, are_waits_recorded_;
};

}  // namespace pitot::report

#endif  // PITOT_LIB_SERIALIZE_REPORT_USAGE_H_
