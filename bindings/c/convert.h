// SPDX-License-Identifier: Apache-2.0
//
// Converts between the structs and statuses of pitot/c.h and those of C++.
#ifndef PITOT_BINDINGS_C_CONVERT_H_
#define PITOT_BINDINGS_C_CONVERT_H_

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <typeinfo>

#include "pitot/c.h"
#include "pitot/health.h"
#include "pitot/hooks.h"
#include "pitot/stats.h"
#include "pitot/status.h"

namespace pitot::c {

// Larger than any future header's structs: a larger size was never set.
inline constexpr size_t kLargestStruct = 4096;

// Writes the message of a status and returns its code.
inline pitot_status Say(const Status& status, char* message, size_t message_size) noexcept {
  if (message != nullptr && message_size != 0) {
    const size_t kept = std::min(std::strlen(status.message()), message_size - 1);
    std::memcpy(message, status.message(), kept);
    message[kept] = '\0';
  }
  return static_cast<pitot_status>(status.code());
}

// Copies `values` to a caller's struct, which may be older or newer.
template <class Struct> void Give(Struct values, void* out, size_t size) noexcept {
  if (out == nullptr || size < sizeof values.size || size > kLargestStruct) return;
  values.size = static_cast<uint32_t>(size);
  std::memset(out, 0, size);
  std::memcpy(out, &values, std::min(size, sizeof values));
}

template <class Struct> Status Refuse(const char* what) noexcept {
  // "14pitot_counters": the mangled name of a C struct is its length and the name itself.
  const char* const mangled = typeid(Struct).name();
  const char* const name = mangled + std::strspn(mangled, "0123456789");
  char message[128];
  std::snprintf(message, sizeof message, "%s%s", name, what);
  return Status(StatusCode::kInvalidArgument, message);
}

// Copies the caller's fields over the defaults in `*values`. In a newer header's struct, unknown fields must be zero.
template <class Struct> Status Take(const Struct* given, Struct* values) noexcept {
  if (given == nullptr) return {};
  const size_t size = given->size;
  if (size <= sizeof given->size || size > kLargestStruct)
    return Refuse<Struct>("::size does not match the struct: call its pitot_..._init first");
  const char* const bytes = reinterpret_cast<const char*>(given);
  const auto is_set = [](char byte) { return byte != 0; };
  if (size > sizeof *given && std::any_of(bytes + sizeof *given, bytes + size, is_set))
    return Refuse<Struct>(" has a field set for a newer libpitot_c");
  std::memcpy(static_cast<void*>(values), bytes, std::min(size, sizeof *given));
  return {};
}

inline pitot_overhead ToC(const Overhead& from) noexcept {
  pitot_overhead to{};
  if (from.is_known) to = {1, 0, from.percent, from.low_percent, from.high_percent};
  return to;
}

// The result lives as long as `from`.
inline pitot_incident ToC(const IncidentInfo& from) noexcept {
  pitot_incident to{};
  to.size = sizeof to;
  to.status = static_cast<pitot_status>(from.status.code());
  to.message = from.status.message();
  to.cause = from.cause;
  to.detail = from.detail;
  to.directory = from.directory;
  to.number = from.number;
  to.slow_requests = from.slow_requests;
  to.first_request = from.first_request;
  to.verdict = from.verdict;
  to.again = from.again;
  return to;
}

inline pitot_stats ToC(const Stats& from) noexcept {
  pitot_stats to{};
  to.threads_recording = from.threads_recording;
  to.threads_retired = from.threads_retired;
  to.requests_open = static_cast<uint32_t>(from.requests_open);
  to.rings_bytes = from.memory.rings;
  to.requests_and_names_bytes = from.memory.requests_and_names;
  to.snapshot_reserve_bytes = from.memory.snapshot_reserve;
  to.analysis_arena_bytes = from.memory.analysis_arena;
  to.ring_bytes_used = from.ring_bytes_used;
  to.address_bytes_parked = from.address_bytes_parked;
  to.history_shortest_ms = from.history_shortest_ms;
  to.history_median_ms = from.history_median_ms;
  to.events_recorded = from.events_recorded;
  to.requests_begun = from.requests_begun;
  to.requests_finished = from.requests_finished;
  to.requests_abandoned = from.requests_abandoned;
  to.threads_refused = from.threads_refused;
  to.events_refused = from.events_refused;
  to.requests_refused = from.requests_refused;
  to.names_refused = from.names_refused;
  to.labels_folded = from.labels_folded;
  to.details_refused = from.details_refused;
  to.scopes_closed_elsewhere = from.scopes_closed_elsewhere;
  to.scopes_misnested = from.scopes_misnested;
  to.triggers_fired = from.triggers_fired;
  to.incidents_written = from.incidents_written;
  to.incidents_suppressed = from.incidents_suppressed;
  to.incidents_failed = from.incidents_failed;
  to.files_failed = from.files_failed;
  to.recording_cpu_percent = from.recording_cpu_percent;
  to.own_threads_cpu_percent = from.own_threads_cpu_percent;
  to.scope_cost_ns = from.scope_cost_ns;
  const DepthStats& depth = from.depth;
  static_assert(sizeof to.depth_state == sizeof depth.state &&
                std::size(pitot_stats{}.depth_mean) == std::size(DepthStats{}.mean));
  to.depth = static_cast<pitot_depth>(depth.depth);
  std::memcpy(to.depth_state, depth.state, sizeof to.depth_state);
  to.depth_cost = ToC(depth.cost);
  for (size_t i = 0; i < std::size(depth.mean); ++i) {
    to.depth_mean[i] = ToC(depth.mean[i]);
    to.depth_p99[i] = ToC(depth.p99[i]);
    to.depth_works[i] = depth.works[i];
  }
  to.depth_armed_percent = depth.armed_percent;
  to.depth_works_lost = depth.works_lost;
  to.incidents_folded = from.incidents_folded;
  to.verdicts_given = from.verdicts_given;
  to.verdicts_failed = from.verdicts_failed;
  to.verdicts_displaced = from.verdicts_displaced;
  to.verdicts_cut_off = from.verdicts_cut_off;
  to.verdicts_stopped = from.verdicts_stopped;
  to.findings_added = from.findings_added;
  to.findings_left_out = from.findings_left_out;
  to.samples_learned = from.samples_learned;
  to.samples_failed = from.samples_failed;
  to.judging_bytes = from.memory.judging;
  to.learned_bytes = from.memory.learned;
  to.collectors_bytes = from.memory.collectors;
  to.own_bytes = from.memory.own;
  to.collector_bytes = from.collector_bytes;
  return to;
}

inline pitot_health ToC(const Health& from) noexcept {
  pitot_health to{};
  static_assert(sizeof to.route == sizeof from.route && sizeof to.stage == sizeof from.stage &&
                sizeof to.text == sizeof from.text);
  to.state = static_cast<pitot_health_state>(from.state);
  to.requests_open = from.requests_open;
  to.requests_waiting = from.requests_waiting;
  to.request = from.request;
  to.open_ms = from.open_ms;
  to.quiet_ms = from.quiet_ms;
  std::memcpy(to.route, from.route, sizeof to.route);
  std::memcpy(to.stage, from.stage, sizeof to.stage);
  std::memcpy(to.text, from.text, sizeof to.text);
  return to;
}

}  // namespace pitot::c

#endif  // PITOT_BINDINGS_C_CONVERT_H_
