// SPDX-License-Identifier: Apache-2.0
//
// The options of every sample server.
#ifndef SAMPLES_SERVER_COMMON_SERVER_OPTIONS_H_
#define SAMPLES_SERVER_COMMON_SERVER_OPTIONS_H_

#include <string>

#include "server_common/command_line.h"
#include "server_common/http_listener.h"
#include "server_common/recording.h"

namespace server_common {

void AddHttpOptions(CommandLine* command_line, HttpOptions* options);

// Begins the group "Recording". `works`: the work of the GPU, "batches".
void AddRecordingOptions(const std::string& works, CommandLine* command_line, RecordingOptions* options);

}  // namespace server_common

#endif  // SAMPLES_SERVER_COMMON_SERVER_OPTIONS_H_
