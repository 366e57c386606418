// SPDX-License-Identifier: Apache-2.0
//
// Slices of a Perfetto trace, from begins and ends in any order: several writers may share a track, and a file has the
// packets of one after those of another.
#ifndef PITOT_LIB_READ_PERFETTO_SLICES_H_
#define PITOT_LIB_READ_PERFETTO_SLICES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pitot/model/trace.h"
#include "read/perfetto_file.h"
#include "read/trace_builder.h"

namespace pitot::read {

// A track is a number. Its thread may become known later: until Finish, events have the track in place of the thread.
class PerfettoSlices {
 public:
  // `trace` is the builder's. Only this class adds open events to it.
  PerfettoSlices(TraceBuilder* builder, model::Trace* trace) : builder_(*builder), trace_(*trace) {}

  void Begin(uint32_t track, const PerfettoEvent& event);
  void End(uint32_t track, const PerfettoEvent& event);
  // Ends the slices of each thread in the order of time; at the same time, in that of the file. `threads` has the row
  // of each track.
  void Finish(const std::vector<uint32_t>& threads);

  uint64_t ends_without_begin() const { return ends_without_begin_; }
  uint64_t args_left_out() const { return args_left_out_; }  // of ends

 private:
  struct Ending {
    int64_t at_ns;
    uint32_t events_before;  // in the file
    model::StringId name;    // 0: it ends the innermost slice
  };
  struct Arg {
    std::string key, text;
    bool is_text;
  };

  void KeepArgs(const std::vector<ChromeValue>& args);
  void EndInnermost(uint32_t end);

  TraceBuilder& builder_;
  model::Trace& trace_;
  std::vector<Ending> ends_;
  std::vector<uint32_t> end_tracks_;
  std::unordered_map<size_t, std::vector<Arg>> args_;  // of few ends
  std::vector<std::pair<uint32_t, int64_t>> calls_;    // events that submitted GPU work, and which
  std::vector<uint32_t> open_;                         // events of one thread
  uint64_t arg_bytes_ = 0, ends_without_begin_ = 0, args_left_out_ = 0;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_PERFETTO_SLICES_H_
