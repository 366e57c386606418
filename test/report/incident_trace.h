// SPDX-License-Identifier: Apache-2.0
//
// The trace of a small incident, made by hand: one slow request that waited for a lock of another request, its batch,
// requests like it, an open scope, and losses.
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

// The same with a GPU: the batch copied its input, ran kernels on two streams and was waited for. Another device was
// idle. Recorded from 500 ms of the window on, and 10 ms of that lost.
pitot::model::Trace MakeGpuTrace();

// The output of a serializer.
std::string Serialize(pitot::Serializer& serializer, const pitot::model::Trace& trace);

}  // namespace incident

#endif  // PITOT_TEST_REPORT_INCIDENT_TRACE_H_
