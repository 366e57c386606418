// SPDX-License-Identifier: Apache-2.0
//
// Writes where a trace's time went as OpenTelemetry's profiles, which is a signal in development:
// docs/reference/formats/otlp_profiles.md. The sums are those of pprof's file.
#ifndef PITOT_SERIALIZE_OTLP_PROFILES_H_
#define PITOT_SERIALIZE_OTLP_PROFILES_H_

#include <memory>

#include "pitot/extend/serializer.h"

PITOT_NAMESPACE_BEGIN

// Threads: any. Errors: null if there is no memory. Lifetime: `file_name` is copied.
// Cost of Serialize: O(n log n) of the trace's rows. In memory are each stack and name, and 32,768 samples at
// most.
PITOT_EXPORT std::unique_ptr<Serializer> MakeOtlpProfilesSerializer(
    const char* file_name = "profiles.otlp.pb") noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_SERIALIZE_OTLP_PROFILES_H_
