// SPDX-License-Identifier: Apache-2.0
//
// The counters of GPUs over a trace's window and during a request, for `pitot info --counters`.
#ifndef PITOT_LIB_CLI_INFO_COUNTERS_H_
#define PITOT_LIB_CLI_INFO_COUNTERS_H_

#include <nlohmann/json.hpp>
#include <string>

#include "pitot/model/trace.h"

namespace pitot::cli {

// A table for each GPU: least, median and most of the window, and the mean during the slow request. `request` is a row
// of the trace's requests; kNone: the first that fired, otherwise the slowest.
std::string CountersText(const model::Trace& trace, uint32_t request);
nlohmann::ordered_json CountersJson(const model::Trace& trace, uint32_t request);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_INFO_COUNTERS_H_
