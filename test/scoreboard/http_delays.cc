// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/http_delays.h"

namespace scoreboard {
namespace {

thread_local ThreadUse t_arrived;

}  // namespace

void HttpDelays::Arrived() { t_arrived = ThreadUseNow(); }

void HttpDelays::Answered(uint64_t id) {
  Delays delays;  // no time asleep: the handler waits for the network in between
  delays.cpu_waited_ns = ThreadUseNow().runqueue_ns - t_arrived.runqueue_ns;
  log_->WriteDelays(t_arrived.at_ns, id, delays);
}

}  // namespace scoreboard
