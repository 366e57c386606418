// SPDX-License-Identifier: Apache-2.0
//
// The sites of a trace, and the arguments of its events, for the readers of files that name both in each event.
#ifndef PITOT_LIB_READ_SITES_H_
#define PITOT_LIB_READ_SITES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pitot/model/trace.h"
#include "read/chrome_event.h"

namespace pitot::read {

class Sites {
 public:
  // `trace` must outlive it.
  explicit Sites(model::Trace* trace) : trace_(*trace) {}

  // The row of a site, by its kind, name and arguments. Only the names and types of arguments count, of the first 16.
  uint32_t Of(SiteKind kind, std::string_view name, const std::vector<ChromeValue>& args);
  // A value of that type, to find a site by.
  static std::string_view AnyOf(ArgType type);
  // Adds the arguments of an event of the site to the trace. Returns the first's row; kNone: there are none.
  uint32_t AddValues(uint32_t site, const std::vector<ChromeValue>& args);

 private:
  static constexpr size_t kRecent = 1024;

  bool IsSame(uint32_t row, SiteKind kind, std::string_view name, const std::vector<ChromeValue>& args) const;
  uint32_t Find(SiteKind kind, std::string_view name, const std::vector<ChromeValue>& args);
  model::ArgValue Value(ArgType type, const ChromeValue& arg);

  model::Trace& trace_;
  std::unordered_map<std::string, uint32_t> rows_;
  std::string key_;                                                              // of the last call of Find
  std::vector<uint32_t> recent_ = std::vector<uint32_t>(kRecent, model::kNone);  // by a hash of names
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_SITES_H_
