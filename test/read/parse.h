// SPDX-License-Identifier: Apache-2.0
//
// Reads a text as a file, and packs one.
#ifndef PITOT_TEST_READ_PARSE_H_
#define PITOT_TEST_READ_PARSE_H_

#include <zlib.h>

#include <catch2/catch.hpp>
#include <string>

#include "pitot/read/trace.h"

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

inline std::string Gzip(const std::string& text) {
  z_stream stream = {};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace read_test

#endif  // PITOT_TEST_READ_PARSE_H_
