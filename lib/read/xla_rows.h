// SPDX-License-Identifier: Apache-2.0
//
// Makes a trace of the records of JAX's and XLA's profiler: planes ("/host:CPU", "/device:GPU:0"), their lines (the
// host's threads, a device's streams, and derived lines: "Steps", "XLA Ops"), and events on them.
#ifndef PITOT_LIB_READ_XLA_ROWS_H_
#define PITOT_LIB_READ_XLA_ROWS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pitot/read/trace.h"
#include "read/trace_builder.h"
#include "read/xla_details.h"

namespace pitot::read {

class XlaRows {
 public:
  XlaRows(model::Trace* trace, TraceReport* report) : trace_(*trace), builder_(trace), report_(*report) {}

  TraceBuilder& builder() { return builder_; }
  // Names come before the events of any line.
  void NamePlane(int64_t plane, std::string_view name);
  void NameLine(int64_t plane, int64_t line, std::string_view name);
  // Another document has planes of its own.
  void ForgetNames();
  // `event` has a begin and a duration.
  void Take(int64_t plane, int64_t line, const ChromeEvent& event);
  void Skip() { ++unused_; }
  // Fills the report's counts.
  void Finish();

 private:
  using Planes = std::map<int64_t, std::string>;
  struct Line {
    std::string name;
    bool is_stream = false;
    uint32_t stream = model::kNone;  // its row, once it had work
  };

  void TakeOnHost(const ChromeEvent& event, const TraceBuilder::Span& span, uint32_t thread);
  void SetPlace(uint32_t site, std::string_view name);
  void TakeOnDevice(const ChromeEvent& event, const TraceBuilder::Span& span, const Planes::value_type& of, Line* line);

  model::Trace& trace_;
  TraceBuilder builder_;
  TraceReport& report_;
  Planes planes_;
  std::map<std::pair<int64_t, int64_t>, Line> lines_;  // by plane and line
  std::set<int64_t> with_streams_;                     // planes
  std::vector<ChromeValue> args_;                      // of the last event that has _src, without it
  std::string scope_path_;                             // of the last work
  XlaLaunches launches_;
  uint64_t unused_ = 0, derived_ = 0, gpu_ = 0;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_XLA_ROWS_H_
