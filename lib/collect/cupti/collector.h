// SPDX-License-Identifier: Apache-2.0
//
// MakeCuptiCollector with what the process says of itself, for tests that play processes.
#ifndef PITOT_LIB_COLLECT_CUPTI_COLLECTOR_H_
#define PITOT_LIB_COLLECT_CUPTI_COLLECTOR_H_

#include <cstdint>
#include <memory>

#include "collect/cupti/control.h"
#include "pitot/collect/cupti.h"

namespace pitot::cupti {

// So long without a buffer while work is put on GPUs: somebody took the buffers.
inline constexpr int64_t kSilenceNs = 3'000'000'000;

// Throws bad_alloc.
std::unique_ptr<Collector> MakeCollector(const CuptiOptions& options, const Control::Surroundings& surroundings,
                                         int64_t silence_ns = kSilenceNs);

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_COLLECTOR_H_
