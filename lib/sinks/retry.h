// SPDX-License-Identifier: Apache-2.0
//
// What an answer of the receiver means, and when to try again.
#ifndef PITOT_LIB_SINKS_RETRY_H_
#define PITOT_LIB_SINKS_RETRY_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace pitot::sinks {

struct Answer {
  int status = 0;             // of HTTP; 0: none came
  bool is_hopeless = false;   // none came, and none will: a wrong certificate
  int64_t retry_after_s = 0;  // 0: the receiver does not say
  std::string body;           // its beginning
  std::string error;          // why none came
};

enum class Fate { kTaken, kAgain, kRefused };

Fate FateOf(const Answer& answer);

// The wait after the attempt of this number, from 1 on, ms. `random` spreads it, so that servers do not come together.
int64_t WaitMs(uint32_t attempt, uint32_t first_wait_ms, int64_t retry_after_s, uint64_t random);

// Spans that the receiver did not take, by the body of its answer (OTLP's ExportTraceServiceResponse).
uint64_t RejectedSpans(std::string_view body);

}  // namespace pitot::sinks

#endif  // PITOT_LIB_SINKS_RETRY_H_
