// SPDX-License-Identifier: Apache-2.0
#include "sinks/retry.h"

#include <algorithm>

#include "base/wire_reader.h"

namespace pitot::sinks {
namespace {

using base::WireField;
using base::WireReader;
using base::WireType;

constexpr int64_t kMostWaitMs = 30'000, kMostRetryAfterS = 300;

}  // namespace

Fate FateOf(const Answer& answer) {
  if (answer.status >= 200 && answer.status < 300) return Fate::kTaken;
  for (const int status : {0, 429, 502, 503, 504}) {
    if (answer.status == status && !answer.is_hopeless) return Fate::kAgain;
  }
  return Fate::kRefused;
}

int64_t WaitMs(uint32_t attempt, uint32_t first_wait_ms, int64_t retry_after_s, uint64_t random) {
  if (retry_after_s > 0) return std::min(retry_after_s, kMostRetryAfterS) * 1000;
  const int64_t longest = std::min<int64_t>(int64_t{first_wait_ms} << std::min(attempt - 1, 16u), kMostWaitMs);
  return longest / 2 + static_cast<int64_t>(random % static_cast<uint64_t>(longest / 2 + 1));
}

uint64_t RejectedSpans(std::string_view body) {
  constexpr uint32_t kPartialSuccess = 1, kRejected = 1;
  uint64_t rejected = 0;
  WireReader answer(body);
  for (WireField outer; answer.Next(&outer);) {
    if (!outer.Is(kPartialSuccess, WireType::kBytes)) continue;
    WireReader success(outer.bytes);
    for (WireField inner; success.Next(&inner);) {
      if (inner.Is(kRejected, WireType::kVarint)) rejected = inner.value;
    }
  }
  return static_cast<int64_t>(rejected) < 0 ? 0 : rejected;
}

}  // namespace pitot::sinks
