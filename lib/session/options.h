// SPDX-License-Identifier: Apache-2.0
//
// Options, checked and copied, and the split of the memory budget.
#ifndef PITOT_LIB_SESSION_OPTIONS_H_
#define PITOT_LIB_SESSION_OPTIONS_H_

#include <span>
#include <string>

#include "pitot/options.h"
#include "pitot/stats.h"
#include "pitot/status.h"

namespace pitot::session {

// The host's strings are copied here; those of `values` are null.
struct OwnedOptions {
  Options values;
  std::string incident_directory;
  std::string process_name;
};

// Names the first wrong field. May throw bad_alloc.
Status CheckAndCopy(const Options& options, OwnedOptions* out);

// What each part of the budget gets; the parts add up to it.
MemorySplit Split(const Options& options);
// What of the arena the rows of a trace get, in bytes.
uint64_t RowBytes(const MemorySplit& split);

// Calls the host's log if there is one. What that throws ends here.
void CallLog(const Options& options, LogLevel level, const char* message) noexcept;

// One that Options::FromEnvironment reads.
struct EnvironmentVariable {
  const char* name;
  const char* what;
  void (*read)(const char* text, Options* options);  // a text that it cannot read becomes what CheckAndCopy refuses
};
std::span<const EnvironmentVariable> EnvironmentVariables();

// True if the environment switches the recorder off.
bool IsSwitchedOff();

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_OPTIONS_H_
