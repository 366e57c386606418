// SPDX-License-Identifier: Apache-2.0
//
// What the file of a trace could not say: a missing value is then unknown.
#ifndef PITOT_LIB_MODEL_LACKING_H_
#define PITOT_LIB_MODEL_LACKING_H_

#include <string>
#include <string_view>
#include <vector>

#include "pitot/model/trace.h"

namespace pitot::model {

// The attribute with the list. Writers keep it, because a format that can say more does not know more.
inline constexpr std::string_view kNotRecorded = "not_recorded";

// The entries of the list: what the trace's format says nothing about ("queues"). A reason may follow:
// "GPU work (the file has no stages of a GPU)".
std::vector<std::string_view> LacksOf(const Trace& trace);

// Appends an entry, unless one is about the same.
void AddLack(std::string_view lack, std::vector<std::string_view>* lacks);

// The entries as the attribute's value.
std::string LacksText(const std::vector<std::string_view>& lacks);

// Whether an entry is about `what`, with a reason or without.
bool IsLacking(const Trace& trace, std::string_view what);

// Whether nothing says what its threads lost. A reader may have found losses of GPUs, or damage.
bool AreLossesUnknown(const Trace& trace);
inline constexpr char kLossesUnknown[] = "the format does not say what was lost";

// Whether it does not say which thread worked for a request: a CPU time of 0 is then unknown.
bool IsLackingThreads(const Trace& trace);

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_LACKING_H_
