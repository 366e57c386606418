// SPDX-License-Identifier: Apache-2.0
#include "model/held.h"

#include <algorithm>

namespace pitot::model {

std::vector<Held> ValuesOf(const Trace& trace, uint32_t counter, int64_t holds_ns) {
  const SampleColumns& samples = trace.samples;
  const auto [first, last] = std::equal_range(samples.counter.begin(), samples.counter.end(), counter);
  std::vector<Held> values;
  for (auto at = first; at != last; ++at) {
    const auto row = static_cast<size_t>(at - samples.counter.begin());
    const int64_t next_ns = at + 1 != last ? samples.at_ns[row + 1] : trace.window_end_ns;
    const Interval when{std::max(samples.at_ns[row], trace.window_begin_ns),
                        std::min({next_ns, samples.at_ns[row] + holds_ns, trace.window_end_ns})};
    if (when.begin_ns < when.end_ns) values.push_back({samples.value[row], when});
  }
  return values;
}

}  // namespace pitot::model
