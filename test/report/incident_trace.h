// SPDX-License-Identifier: Apache-2.0
//
// The trace of a small incident, made by hand: one slow request that waited for a lock another request held, its batch,
// requests like it, a scope still open, and losses.
#ifndef PITOT_TEST_REPORT_INCIDENT_TRACE_H_
#define PITOT_TEST_REPORT_INCIDENT_TRACE_H_

#include <string>

#include "pitot/extend/serializer.h"
#include "pitot/model/trace.h"

namespace incident {

inline constexpr int64_t kMs = 1000000;
inline constexpr uint64_t kSlowRequest = 0x8f0c;

// 12 typical requests of /classify, one of /segment, the slow one.
pitot::model::Trace MakeTrace();

// The same with a GPU: the batch copied its input, ran kernels on two streams and was waited for; another device did
// nothing; recorded from 500 ms of the window on, and 10 ms of that lost.
pitot::model::Trace MakeGpuTrace();

// What a serializer writes.
std::string Serialize(pitot::Serializer& serializer, const pitot::model::Trace& trace);

}  // namespace incident

#endif  // PITOT_TEST_REPORT_INCIDENT_TRACE_H_
