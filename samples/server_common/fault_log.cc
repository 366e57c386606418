// SPDX-License-Identifier: Apache-2.0
#include "server_common/fault_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <stdexcept>
#include <system_error>

namespace server_common {

std::string RequestIdText(uint64_t id) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, id);
  return text;
}

FaultLog::FaultLog(const std::string& file) {
  if (file.empty()) return;
  file_ = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file_ < 0) throw std::runtime_error("--fault-log " + file + ": " + std::generic_category().message(errno));
}

FaultLog::~FaultLog() {
  if (file_ >= 0) close(file_);
}

void FaultLog::Write(uint64_t time_ns, uint64_t request, const char* fault, uint64_t injected_ns,
                     const std::string& more) {
  if (file_ < 0) return;
  const std::string line = "{\"time_ns\":" + std::to_string(time_ns) + ",\"request\":\"" + RequestIdText(request) +
                           "\",\"fault\":\"" + fault + "\",\"injected_ns\":" + std::to_string(injected_ns) + more +
                           "}\n";
  if (write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    std::fprintf(stderr, "fault log: a line was lost: %s\n", std::generic_category().message(errno).c_str());
  }
}

}  // namespace server_common
