// SPDX-License-Identifier: Apache-2.0
#include "server_common/reply.h"

#include <cinttypes>
#include <cstdio>

#include <nlohmann/json.hpp>

namespace server_common {

Reply ErrorReply(int status, std::string_view message) {
  pitot::Outcome outcome = pitot::Outcome::kFailed;
  if (status < 500) outcome = pitot::Outcome::kCancelled;
  if (status == 503) outcome = pitot::Outcome::kShed;
  if (status == 504) outcome = pitot::Outcome::kTimedOut;
  return {status, nlohmann::json{{"error", message}}.dump(), outcome};
}

std::string RequestIdText(uint64_t id) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, id);
  return text;
}

}  // namespace server_common
