// SPDX-License-Identifier: Apache-2.0
//
// Logs how long the thread of a request's connection waited for a CPU.
#ifndef PITOT_TEST_SCOREBOARD_HTTP_DELAYS_H_
#define PITOT_TEST_SCOREBOARD_HTTP_DELAYS_H_

#include <cstdint>

#include "scoreboard/fault_log.h"
#include "server_common/http_listener.h"

namespace scoreboard {

class HttpDelays final : public server_common::HttpHooks {
 public:
  explicit HttpDelays(FaultLog* log) : log_(log) {}
  void Arrived() override;
  void Answered(uint64_t id) override;

 private:
  FaultLog* const log_;
};

}  // namespace scoreboard

#endif  // PITOT_TEST_SCOREBOARD_HTTP_DELAYS_H_
