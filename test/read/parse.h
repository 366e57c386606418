// SPDX-License-Identifier: Apache-2.0
//
// Reads a text as a file.
#ifndef PITOT_TEST_READ_PARSE_H_
#define PITOT_TEST_READ_PARSE_H_

#include <catch2/catch.hpp>
#include <string>

#include "pitot/read/trace.h"
#include "read/gzip.h"

namespace read_test {

struct Read {
  pitot::model::Trace trace;
  pitot::TraceReport report;
  pitot::Status status;

  std::string Name(pitot::model::StringId id) const { return std::string(trace.strings[id]); }
  // "name begin+duration" of each event, in ns; the duration of an open one is "open".
  std::string Events() const {
    std::string text;
    for (uint32_t row = 0; row < trace.events.size(); ++row) {
      const int64_t duration_ns = trace.events.duration_ns[row];
      text += (row == 0 ? "" : ", ") + std::string(trace.EventName(row)) + " " +
              std::to_string(trace.events.begin_ns[row]) + "+" +
              (duration_ns == pitot::model::kOpen ? "open" : std::to_string(duration_ns));
    }
    return text;
  }
  uint64_t Count(const std::string& name) const {
    for (const auto& [key, count] : report.counts) {
      if (key == name) return count;
    }
    FAIL("no count " << name);
    return 0;
  }
};

inline Read Parse(const std::string& bytes) {
  Read read;
  read.status = pitot::ParseTrace(bytes.data(), bytes.size(), &read.trace, &read.report);
  REQUIRE(FindInconsistency(read.trace) == "");
  return read;
}

}  // namespace read_test

#endif  // PITOT_TEST_READ_PARSE_H_
