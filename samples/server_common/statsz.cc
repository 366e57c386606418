// SPDX-License-Identifier: Apache-2.0
#include "server_common/statsz.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

#include <nlohmann/json.hpp>

namespace server_common {
namespace {

uint64_t ResidentBytes() {
  uint64_t all_pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> all_pages >> resident_pages;
  return resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

nlohmann::json ProcessJson() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {{"cpu_seconds", Seconds(usage.ru_utime) + Seconds(usage.ru_stime)}, {"resident_bytes", ResidentBytes()}};
}

nlohmann::json PercentJson(const pitot::Overhead& overhead) {
  if (!overhead.is_known) return "unknown";
  return {overhead.percent, overhead.low_percent, overhead.high_percent};
}

nlohmann::json DepthJson(const pitot::DepthStats& depth) {
  return {{"state", depth.state}, {"cost_percent", PercentJson(depth.cost)}, {"armed_percent", depth.armed_percent}};
}

nlohmann::json RecorderJson(const pitot::Recorder& recorder) {
  const pitot::Status status = recorder.status();
  nlohmann::json json = {{"status", pitot::StatusCodeName(status.code())}, {"message", status.message()}};
  if (!status.ok()) return json;
  const pitot::Stats stats = recorder.Stats();
  json["memory"] = {{"rings", stats.memory.rings},
                    {"requests_and_names", stats.memory.requests_and_names},
                    {"snapshot_reserve", stats.memory.snapshot_reserve},
                    {"analysis_arena", stats.memory.analysis_arena},
                    {"judging", stats.memory.judging},
                    {"learned", stats.memory.learned},
                    {"collectors", stats.memory.collectors},
                    {"own", stats.memory.own}};
  json["depth"] = DepthJson(stats.depth);
#define ADD(field) json[#field] = stats.field
  ADD(ring_bytes_used);
  ADD(address_bytes_parked);
  ADD(threads_recording);
  ADD(threads_retired);
  ADD(history_shortest_ms);
  ADD(history_median_ms);
  ADD(events_recorded);
  ADD(requests_begun);
  ADD(requests_finished);
  ADD(requests_abandoned);
  ADD(requests_open);
  ADD(threads_refused);
  ADD(events_refused);
  ADD(requests_refused);
  ADD(names_refused);
  ADD(labels_folded);
  ADD(details_refused);
  ADD(scopes_closed_elsewhere);
  ADD(scopes_misnested);
  ADD(triggers_fired);
  ADD(incidents_written);
  ADD(incidents_suppressed);
  ADD(incidents_failed);
  ADD(recording_cpu_percent);
  ADD(own_threads_cpu_percent);
  ADD(scope_cost_ns);
#undef ADD
  return json;
}

}  // namespace

std::string StatszJson(const pitot::Recorder& recorder) {
  return nlohmann::json{{"recorder", RecorderJson(recorder)}, {"process", ProcessJson()}}.dump();
}

}  // namespace server_common
