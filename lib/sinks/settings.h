// SPDX-License-Identifier: Apache-2.0
//
// What a sender is told: the options, with what the environment says.
#ifndef PITOT_LIB_SINKS_SETTINGS_H_
#define PITOT_LIB_SINKS_SETTINGS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pitot/sinks/otlp.h"
#include "pitot/status.h"

namespace pitot::sinks {

struct Settings {
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string ca_file;  // "": the system's
  std::string service_name;
  uint32_t timeout_ms;
  uint32_t most_attempts, first_wait_ms;
  uint64_t queue_bytes;
  bool is_packed;
  bool uses_proxies;  // of the environment
};

// Checks everything. Throws bad_alloc.
Status MakeSettings(const OtlpSinkOptions& options, Settings* settings);

}  // namespace pitot::sinks

#endif  // PITOT_LIB_SINKS_SETTINGS_H_
