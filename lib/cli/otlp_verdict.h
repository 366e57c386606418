// SPDX-License-Identifier: Apache-2.0
//
// Judges requests for `pitot convert --to otlp`.
#ifndef PITOT_LIB_CLI_OTLP_VERDICT_H_
#define PITOT_LIB_CLI_OTLP_VERDICT_H_

#include "pitot/serialize/otlp.h"

namespace pitot::cli {

// OtlpOptions::judge. False if the request cannot be judged.
bool JudgeForOtlp(void*, const model::Trace& trace, uint32_t request, OtlpVerdict* verdict);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_OTLP_VERDICT_H_
