// SPDX-License-Identifier: Apache-2.0
//
// The answer of a handler.
#ifndef SAMPLES_SERVER_COMMON_REPLY_H_
#define SAMPLES_SERVER_COMMON_REPLY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "pitot/outcome.h"

namespace server_common {

// The client of a streamed reply.
struct Client {
  std::function<bool(const std::string& piece)> write;  // false: the client is gone
  std::function<bool()> is_there;
};

struct Reply {
  int status = 200;
  std::string json;
  pitot::Outcome outcome = pitot::Outcome::kOk;
  // In place of `json` and `outcome`: writes lines of JSON as they are made, and returns the outcome.
  std::function<pitot::Outcome(const Client& client)> stream{};
};

// {"error": message}. The outcome by status:
//   400 to 499  kCancelled: the client's mistake. Not kFailed: clients must not be able to make the server write
//               incidents. And not kOk: these short requests must not enter the baseline.
//   503         kShed
//   504         kTimedOut
//   other 5xx   kFailed
Reply ErrorReply(int status, std::string_view message);

// 16 hexadecimal digits, as in the header x-request-id.
std::string RequestIdText(uint64_t id);

}  // namespace server_common

#endif  // SAMPLES_SERVER_COMMON_REPLY_H_
