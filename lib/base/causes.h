// SPDX-License-Identifier: Apache-2.0
//
// Words of firings that are read again: lib/trigger and lib/session write them, and lib/analyze tells by them what
// fired.
#ifndef PITOT_LIB_BASE_CAUSES_H_
#define PITOT_LIB_BASE_CAUSES_H_

#include <charconv>
#include <cstdint>
#include <string_view>

namespace pitot::base {

// Causes of the built-in triggers begin so; the route or scope follows.
inline constexpr char kTokenGap[] = "token_gap", kFirstToken[] = "first_token";
inline constexpr char kFailed[] = "failed", kTimedOut[] = "timed_out", kAbandoned[] = "abandoned";
inline constexpr char kStalledScope[] = "stall scope ";
// The cause of an incident that the host asked for.
inline constexpr char kManual[] = "manual";
// The cause of an incident that was made of a black box.
inline constexpr char kPreviousLife[] = "previous_life";
// The same of a process that hangs.
inline constexpr char kWedged[] = "wedged";

// The attribute of both with the thread that crashed or hangs, and its place.
inline constexpr char kIncidentThread[] = "incident.thread";

// In the detail of a stalled scope, in front of its thread's number.
inline constexpr char kOnThread[] = " on thread #";
// That number; 0: there is none.
inline uint32_t ThreadIn(std::string_view detail) {
  const size_t at = detail.find(kOnThread);
  if (at == std::string_view::npos) return 0;
  const std::string_view digits = detail.substr(at + sizeof kOnThread - 1);
  uint32_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_CAUSES_H_
