// SPDX-License-Identifier: Apache-2.0
//
// Options, checked and copied.
#ifndef PITOT_LIB_SESSION_OPTIONS_H_
#define PITOT_LIB_SESSION_OPTIONS_H_

#include <span>
#include <string>

#include "pitot/options.h"
#include "pitot/status.h"

namespace pitot::session {

// The host's strings are copied here; in `values` they are null.
struct OwnedOptions {
  Options values;
  std::string incident_directory;
  std::string black_box_directory;
  std::string process_name;
};

// Checks and copies options. The error names the first wrong field. May throw bad_alloc.
Status CheckAndCopy(const Options& options, OwnedOptions* out);

// The memory of open requests, names and routes once full, bytes.
uint64_t RequestAndNameBytes(const Options& options);
// The bytes up to which a ring may grow.
uint64_t LargestRingBytes(const Options& options);

// Calls the host's log if there is one. Its exceptions end here.
void CallLog(const Options& options, LogLevel level, const char* message) noexcept;

// A variable read by Options::FromEnvironment.
struct EnvironmentVariable {
  const char* name;
  const char* what;
  void (*read)(const char* text, Options* options);  // turns an unreadable text into a value refused by CheckAndCopy
};
std::span<const EnvironmentVariable> EnvironmentVariables();

// True if the environment switches the recorder off.
bool IsSwitchedOff();

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_OPTIONS_H_
