// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/fault_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "server_common/reply.h"

namespace scoreboard {

using server_common::RequestIdText;

namespace {

constexpr uint64_t kNoticeableNs = 100'000;

}  // namespace

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

void FaultLog::WriteQueued(uint64_t from_ns, uint64_t until_ns, uint64_t request, std::span<const uint64_t> others) {
  if (until_ns - from_ns < kNoticeableNs) return;
  std::string ids;
  for (const uint64_t other : others) ids += (ids.empty() ? "\"" : ",\"") + RequestIdText(other) + "\"";
  Write(from_ns, request, "queued", until_ns - from_ns, ",\"others\":[" + ids + "]");
}

void FaultLog::WriteDelays(uint64_t time_ns, uint64_t request, const Delays& delays) {
  const std::pair<const char*, uint64_t> parts[] = {{"cpu_waited", delays.cpu_waited_ns},
                                                    {"handed_over", delays.handed_over_ns},
                                                    {"lock_waited", delays.lock_waited_ns},
                                                    {"slept", delays.slept_ns},
                                                    {"paged", delays.paged_ns}};
  for (const auto& [name, ns] : parts) {
    if (ns >= kNoticeableNs) Write(time_ns, request, name, ns);
  }
}

void FaultLog::WriteBatch(uint64_t time_ns, uint64_t request, const Work& work) {
  Write(time_ns, request, "batch_code", work.cpu_ns);
  if (work.launches.ns == 0) return;
  Write(time_ns, request, "launches", work.launches.ns, ",\"on_cpu_ns\":" + std::to_string(work.launches.cpu_ns));
}

}  // namespace scoreboard
