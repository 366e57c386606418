// SPDX-License-Identifier: Apache-2.0
//
// Requests by their ids, as people write them.
#ifndef PITOT_LIB_CLI_REQUEST_ID_H_
#define PITOT_LIB_CLI_REQUEST_ID_H_

#include <cstdint>
#include <string>

#include "pitot/model/trace.h"

namespace pitot::cli {

// Reads the digits of an id: without 0x and in small letters. Complains and returns false for other texts except "".
bool ReadDigits(const std::string& text, std::string* digits);

// For a given option: the error for an empty text, usually a shell variable without a value.
std::string IsSomeId(const std::string& text);

// Finds the request with this id, otherwise the one whose id begins with `digits`. 0 if there is none. Complains and
// returns false if several match.
bool FindId(const model::Trace& trace, const std::string& digits, uint64_t* id);

// The message if there is none.
std::string NoSuchRequest(const std::string& text, const std::string& input);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_REQUEST_ID_H_
