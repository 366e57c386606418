// SPDX-License-Identifier: Apache-2.0
//
// Statuses with a formatted message.
#ifndef PITOT_LIB_BASE_MESSAGE_H_
#define PITOT_LIB_BASE_MESSAGE_H_

#include <cstdarg>
#include <cstdio>

#include "pitot/status.h"

namespace pitot::base {

// Formats like snprintf; messages are cut at 1,023 bytes.
[[gnu::format(printf, 2, 3)]] inline Status Error(StatusCode code, const char* format, ...) noexcept {
  char message[1024];
  va_list args;
  va_start(args, format);
  std::vsnprintf(message, sizeof message, format, args);
  va_end(args);
  return Status(code, message);
}

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_MESSAGE_H_
