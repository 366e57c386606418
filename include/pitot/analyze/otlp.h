// SPDX-License-Identifier: Apache-2.0
//
// Writes requests as OpenTelemetry spans (pitot/serialize/otlp.h) with the verdict on each request that fired.
#ifndef PITOT_ANALYZE_OTLP_H_
#define PITOT_ANALYZE_OTLP_H_

#include <stdint.h>

#include <memory>

#include "pitot/export.h"
#include "pitot/extend/serializer.h"
#include "pitot/serialize/otlp.h"

PITOT_NAMESPACE_BEGIN

// As MakeOtlpSerializer, but judges each request that fired and can be judged, up to `most_verdicts`, in place of
// OtlpOptions::judge. Null without memory.
PITOT_EXPORT std::unique_ptr<Serializer> MakeJudgedOtlpSerializer(const OtlpOptions& options = {},
                                                                  uint32_t most_verdicts = UINT32_MAX) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_OTLP_H_
