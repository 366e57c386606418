// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/subjects.h"

#include <set>

namespace pitot::facts {

std::vector<uint32_t> DevicesAtWork(const model::Trace& trace) {
  std::set<uint32_t> devices;
  for (const model::StreamRow& stream : trace.streams) {
    if (stream.event_count != 0) devices.insert(stream.device);
  }
  return {devices.begin(), devices.end()};
}

}  // namespace pitot::facts
