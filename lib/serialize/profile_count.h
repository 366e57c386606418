// SPDX-License-Identifier: Apache-2.0
//
// Adds up where a trace's time went by stack and owner, for the formats of profiles.
#ifndef PITOT_LIB_SERIALIZE_PROFILE_COUNT_H_
#define PITOT_LIB_SERIALIZE_PROFILE_COUNT_H_

#include "pitot/model/trace.h"
#include "serialize/profile_writer.h"

namespace pitot::serialize {

// Returns false if the profile could not be written.
bool CountProfile(const model::Trace& trace, ProfileWriter* writer);

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_PROFILE_COUNT_H_
