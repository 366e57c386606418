// SPDX-License-Identifier: Apache-2.0
//
// Losses as texts, for formats without a place for them. Threads have their ids in the file, devices and streams their
// numbers.
#ifndef PITOT_LIB_MODEL_LOSS_ROWS_H_
#define PITOT_LIB_MODEL_LOSS_ROWS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pitot/model/trace.h"

namespace pitot::model {

// The names that such formats give the texts.
inline constexpr std::string_view kLossesKey = "pitot_losses", kGpuLossesKey = "pitot_gpu_losses";

// "1002000000 1020000000 5 0 42 overwritten; ...": begin and end in ns, events, bytes, the thread's id ("-": the
// process), and the reason.
std::string LossesText(const Trace& trace, const std::vector<int64_t>& thread_ids);
// "1002000000 1020000000 9 0 1 7 overwritten; ...": begin and end in ns, records, the device's number, the context and
// number of the stream ("-": any), and the reason.
std::string GpuLossesText(const Trace& trace);

// Add the rows of such a text, until the first that makes no sense. `later_ns` is added to their times. Threads' tids
// are their ids in the file. A thread that is not in the trace becomes the process; a device or stream, any.
void AddLosses(std::string_view text, int64_t later_ns, Trace* trace);
void AddGpuLosses(std::string_view text, int64_t later_ns, Trace* trace);

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_LOSS_ROWS_H_
