// SPDX-License-Identifier: Apache-2.0
#include "sinks/retry.h"

#include <algorithm>

namespace pitot::sinks {
namespace {

constexpr int64_t kMostWaitMs = 30'000, kMostRetryAfterS = 300;

// Protobuf's wire format, as far as it is here. A field with its value: a number, or bytes.
struct Field {
  uint64_t number, value;
  std::string_view bytes;
};

bool ReadVarint(std::string_view* from, uint64_t* value) {
  *value = 0;
  for (uint32_t shift = 0; shift < 64 && !from->empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(from->front());
    from->remove_prefix(1);
    *value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

bool ReadField(std::string_view* from, Field* field) {
  uint64_t tag;
  if (!ReadVarint(from, &tag)) return false;
  *field = {tag >> 3, 0, {}};
  if ((tag & 7) == 0) return ReadVarint(from, &field->value);
  uint64_t size = (tag & 7) == 1 ? 8 : 4;
  if ((tag & 7) == 2 && !ReadVarint(from, &size)) return false;
  const bool is_known = (tag & 7) == 1 || (tag & 7) == 2 || (tag & 7) == 5;
  if (!is_known || size > from->size()) return false;
  field->bytes = from->substr(0, size);
  from->remove_prefix(size);
  return true;
}

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
  constexpr uint64_t kPartialSuccess = 1, kRejected = 1;
  uint64_t rejected = 0;
  Field outer{}, inner{};
  while (ReadField(&body, &outer)) {
    if (outer.number != kPartialSuccess) continue;
    while (ReadField(&outer.bytes, &inner)) {
      if (inner.number == kRejected && inner.bytes.empty()) rejected = inner.value;
    }
  }
  return static_cast<int64_t>(rejected) < 0 ? 0 : rejected;
}

}  // namespace pitot::sinks
