// SPDX-License-Identifier: Apache-2.0
//
// Being started and stopped by scripts.
#ifndef SAMPLES_SERVER_COMMON_PROCESS_H_
#define SAMPLES_SERVER_COMMON_PROCESS_H_

#include <string>

namespace server_common {

// Every thread leaves SIGTERM and SIGINT to WaitForStopSignal. To be called before the first thread, Pitot's included,
// is started.
void BlockStopSignals();
void WaitForStopSignal();

// The file is complete whenever it is there. Throws std::runtime_error.
void WritePortFile(const std::string& name, int port);

}  // namespace server_common

#endif  // SAMPLES_SERVER_COMMON_PROCESS_H_
