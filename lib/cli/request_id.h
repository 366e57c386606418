// SPDX-License-Identifier: Apache-2.0
//
// Requests by their ids, as people write them.
#ifndef PITOT_LIB_CLI_REQUEST_ID_H_
#define PITOT_LIB_CLI_REQUEST_ID_H_

#include <cstdint>
#include <string>

#include "pitot/model/trace.h"

namespace pitot::cli {

// For a given option: the error for an empty text, usually a shell variable without a value.
std::string IsSomeId(const std::string& text);

// Finds the request of the file `input` with this id, otherwise the one whose id begins so; 0 for "". It is the host's
// own id, or Pitot's: hexadecimal digits in small or large letters, with or without 0x. Returns kDone. Otherwise
// returns the exit code, with a message: kNothingFound if there is none, kUsage if several match.
int FindId(const model::Trace& trace, const std::string& text, const std::string& input, uint64_t* id);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_REQUEST_ID_H_
