// SPDX-License-Identifier: Apache-2.0
//
// Small traces of PyTorch's profiler, made in tests.
#ifndef PITOT_TEST_READ_KINETO_JSON_H_
#define PITOT_TEST_READ_KINETO_JSON_H_

#include <catch2/catch.hpp>
#include <string>

#include "pitot/read/kineto.h"

namespace pitot::test {

struct Read {
  model::Trace trace;
  KinetoReport report;
  Status status;
};

inline Read Parse(const std::string& json) {
  Read read;
  read.status = pitot::ParseKineto(json.data(), json.size(), &read.trace, &read.report);
  REQUIRE(FindInconsistency(read.trace) == "");
  return read;
}
inline Read ParseEvents(const std::string& events, const std::string& beside = "") {
  return Parse("{" + beside + "\"traceEvents\":[" + events + "]}");
}

inline std::string Event(const std::string& category, const std::string& name, const std::string& rest) {
  return R"({"ph":"X","cat":")" + category + R"(","name":")" + name + "\"," + rest + "}";
}
inline std::string OnCpu(const std::string& category, const std::string& name, const std::string& begin,
                         const std::string& duration, const std::string& args = "") {
  return Event(category, name,
               R"("pid":10,"tid":11,"ts":)" + begin + ",\"dur\":" + duration + ",\"args\":{" + args + "}");
}
inline std::string OnGpu(const std::string& category, const std::string& name, const std::string& begin,
                         const std::string& duration, const std::string& args) {
  return Event(category, name,
               R"("pid":0,"tid":7,"ts":)" + begin + ",\"dur\":" + duration +
                   R"(,"args":{"device":0,"context":1,"stream":7,)" + args + "}");
}

}  // namespace pitot::test

#endif  // PITOT_TEST_READ_KINETO_JSON_H_
