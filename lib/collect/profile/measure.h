// SPDX-License-Identifier: Apache-2.0
//
// Measures kernels as ProfileKernels does.
#ifndef PITOT_LIB_COLLECT_PROFILE_MEASURE_H_
#define PITOT_LIB_COLLECT_PROFILE_MEASURE_H_

#include <cstdint>

#include "collect/profile/api.h"
#include "pitot/collect/profile.h"
#include "pitot/status.h"

namespace pitot::profile {

// The world of a measurement. Tests pass their own.
struct Environment {
  Driver driver{};
  int64_t patience_ns = 2'000'000'000;  // for a thread in a measured launch; real time
};

// Measures as ProfileKernels does, without the recorder. Throws bad_alloc.
Status Measure(const ProfileOptions& options, const Environment& environment, Profile* profile);

// Measures while the recorder's counter collector is paused, if options.pauses_counters. Throws bad_alloc.
Status MeasureBesideCounters(Recorder& recorder, const ProfileOptions& options, const Environment& environment,
                             Profile* profile);

}  // namespace pitot::profile

#endif  // PITOT_LIB_COLLECT_PROFILE_MEASURE_H_
