// SPDX-License-Identifier: Apache-2.0
//
// Spans with verdicts, for `pitot convert --to otlp`.
#ifndef PITOT_LIB_CLI_OTLP_VERDICT_H_
#define PITOT_LIB_CLI_OTLP_VERDICT_H_

#include <memory>

#include "pitot/extend/serializer.h"

namespace pitot::cli {

// Judges each request that fired, if it can be judged.
std::unique_ptr<Serializer> MakeJudgedOtlp();

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_OTLP_VERDICT_H_
