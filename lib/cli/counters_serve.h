// SPDX-License-Identifier: Apache-2.0
//
// `pitot counters serve`: samples all GPUs for processes that may not.
#ifndef PITOT_LIB_CLI_COUNTERS_SERVE_H_
#define PITOT_LIB_CLI_COUNTERS_SERVE_H_

#include <cstdint>
#include <string>

namespace pitot::cli {

struct ServeOptions {
  std::string user;  // a name or number; empty: the caller
  uint32_t interval_us = 0;
  std::string cupti;
  std::string directory;
};

// Until SIGINT, SIGTERM or SIGHUP. Returns the exit code.
int ServeCounters(const ServeOptions& options);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_COUNTERS_SERVE_H_
