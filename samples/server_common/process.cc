// SPDX-License-Identifier: Apache-2.0
#include "server_common/process.h"

#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <stdexcept>

namespace server_common {
namespace {

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

void BlockStopSignals() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void WaitForStopSignal() {
  const sigset_t signals = StopSignals();
  int signal = 0;
  sigwait(&signals, &signal);
}

void WritePortFile(const std::string& name, int port) {
  const std::string temporary = name + ".tmp";
  std::FILE* const file = std::fopen(temporary.c_str(), "w");
  const bool is_written = file != nullptr && std::fprintf(file, "%d\n", port) > 0;
  if (file == nullptr || std::fclose(file) != 0 || !is_written || std::rename(temporary.c_str(), name.c_str()) != 0) {
    throw std::runtime_error("cannot write --port-file " + name);
  }
}

}  // namespace server_common
