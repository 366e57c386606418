// SPDX-License-Identifier: Apache-2.0
//
// Writes a trace as text for people: the slow requests with their stages and typical times, the concurrent activity of
// every thread, losses, and the cost of recording.
#ifndef PITOT_SERIALIZE_REPORT_H_
#define PITOT_SERIALIZE_REPORT_H_

#include <stddef.h>

#include <memory>

#include "pitot/extend/serializer.h"

PITOT_NAMESPACE_BEGIN

// Words are wrapped at `columns`; rows of tables have 100 at most.
PITOT_EXPORT std::unique_ptr<Serializer> MakeReportSerializer(const char* file_name = "report.txt",
                                                              size_t columns = 100) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_SERIALIZE_REPORT_H_
