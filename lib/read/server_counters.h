// SPDX-License-Identifier: Apache-2.0
//
// Counters of the lines in which vLLM and SGLang print numbers of an engine: "Running: 3 reqs, GPU KV cache
// usage: 1.5%".
#ifndef PITOT_LIB_READ_SERVER_COUNTERS_H_
#define PITOT_LIB_READ_SERVER_COUNTERS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "read/trace_builder.h"

namespace pitot::read {

class ServerCounters {
 public:
  // Both must outlive this.
  ServerCounters(model::Trace* trace, TraceBuilder* builder) : trace_(*trace), builder_(*builder) {}

  // Takes "NAME: VALUE UNIT, ..." of an engine. Values that are not numbers are passed over. False: there is none.
  bool Take(std::string_view engine, std::string_view fields, int64_t at_ns);

 private:
  bool TakeField(int64_t engine, std::string_view field, int64_t at_ns);

  model::Trace& trace_;
  TraceBuilder& builder_;
  std::map<std::string, int64_t> engines_;
  std::map<std::pair<int64_t, std::string>, uint32_t> counters_;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_SERVER_COUNTERS_H_
