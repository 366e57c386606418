// SPDX-License-Identifier: Apache-2.0
//
// The options that all sample servers have.
#ifndef SAMPLES_SERVER_COMMON_COMMAND_LINE_H_
#define SAMPLES_SERVER_COMMON_COMMAND_LINE_H_

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "scoreboard/fault_schedule.h"
#include "server_common/recording.h"

namespace server_common {

inline constexpr char kRecordingGroup[] = "Recording";
inline constexpr char kFaultsGroup[] = "Faults";

// `works`: what is timed on the GPU, "batches".
void AddRecordingOptions(const std::string& works, CLI::App* app, RecordingOptions* options);

// What --fault names, of which `names` says the names and doses, in words.
class FaultArguments {
 public:
  FaultArguments(const std::string& names, CLI::App* app, FaultOptions* options, bool* allow_control);
  // After app.parse. Throws CLI::ValidationError.
  void Take(Fault (*parse)(std::string_view text));

 private:
  FaultOptions* const options_;
  std::vector<std::string> texts_;
};

}  // namespace server_common

#endif  // SAMPLES_SERVER_COMMON_COMMAND_LINE_H_
