// SPDX-License-Identifier: Apache-2.0
//
// What a handler answers.
#ifndef SAMPLES_SERVER_COMMON_REPLY_H_
#define SAMPLES_SERVER_COMMON_REPLY_H_

#include <string>
#include <string_view>

#include "pitot/outcome.h"

namespace server_common {

struct Reply {
  int status = 200;
  std::string json;
  pitot::Outcome outcome = pitot::Outcome::kOk;
};

// {"error": message}. What the outcome of a status is:
//   400 to 499  kCancelled: the client's mistake. Not kFailed, so that nobody outside can make the server write
//               incidents about failures; and not kOk, so that these short requests do not teach what is normal.
//   503         kShed
//   504         kTimedOut
//   other 5xx   kFailed
Reply ErrorReply(int status, std::string_view message);

}  // namespace server_common

#endif  // SAMPLES_SERVER_COMMON_REPLY_H_
