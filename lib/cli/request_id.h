// SPDX-License-Identifier: Apache-2.0
//
// Requests by their ids, as people write them.
#ifndef PITOT_LIB_CLI_REQUEST_ID_H_
#define PITOT_LIB_CLI_REQUEST_ID_H_

#include <cstdint>
#include <string>

#include "pitot/model/trace.h"

namespace pitot::cli {

// The digits of an id: without 0x and in small letters. Complains and returns false of what is none, but for "".
bool ReadDigits(const std::string& text, std::string* digits);

// For an option that is given: what is wrong with an empty text, which a shell makes of a variable that is not set.
std::string IsSomeId(const std::string& text);

// The request that `digits` mean: the one that they are, else the one whose id begins with them. 0 where there is none.
// Complains and returns false where they may mean several.
bool FindId(const model::Trace& trace, const std::string& digits, uint64_t* id);

// What to say where there is none.
std::string NoSuchRequest(const std::string& text, const std::string& input);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_REQUEST_ID_H_
