// SPDX-License-Identifier: Apache-2.0
//
// The parts of a joined trace (pitot/read/join.h): its files. A part's name stands before the names of its threads, and
// of counters that are its own: "rank0: host: resident memory". Code that looks for a counter by name asks for a
// part's.
#ifndef PITOT_LIB_MODEL_PARTS_H_
#define PITOT_LIB_MODEL_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pitot/model/trace.h"

namespace pitot::model {

// The attributes of parts: "joined.0" is the name of the first one, "joined.0.format" and so on say more.
inline constexpr std::string_view kJoinedKey = "joined.";
inline constexpr std::string_view kPartFormat = ".format", kPartProcess = ".process", kPartPid = ".pid",
                                  kPartHost = ".host";

// Views of the trace's texts.
struct Part {
  std::string_view name, format, process, host;  // "": not known
  int64_t pid = 0;                               // 0: not known
};

class Parts {
 public:
  // O(attributes). The trace must outlive this.
  explicit Parts(const Trace& trace);

  bool is_joined() const { return !parts_.empty(); }
  size_t size() const { return parts_.size(); }
  const Part& operator[](size_t part) const { return parts_[part]; }
  // All parts. A trace that is not joined has one, kNone.
  std::vector<uint32_t> All() const;

  // A name without that of the part before it. kNone: it has none.
  struct Name {
    uint32_t part = kNone;
    std::string_view own;
  };
  Name Split(std::string_view name) const;
  // The name of a part's row; its own in a trace that is not joined.
  std::string NameOf(uint32_t part, std::string_view own) const;
  // The part of each thread, by row.
  std::vector<uint32_t> OfThreads() const;
  // An attribute of a part. The first one's have no name before theirs.
  std::string_view AttributeOf(uint32_t part, std::string_view key) const;

  // "a, b: dump 1.4; c: Kineto JSON", and "a, b: server (pid 7) on node1; c: (unknown)".
  std::string FormatsText() const;
  std::string ProcessesText() const;

 private:
  const Trace& trace_;
  std::vector<Part> parts_;
  std::unordered_map<std::string_view, uint32_t> by_name_;
};

// A counter of the state of a GPU (base/gpu_counters.h).
struct GpuStateCounter {
  uint32_t row = kNone;
  uint32_t part = kNone;     // kNone: of the machine, or the trace is not joined
  uint32_t index = 0;        // the driver's
  std::string_view gpu;      // "GPU 0 (NVIDIA H100)", after the part's name: "a: GPU 0 (NVIDIA H100)"
  std::string_view counter;  // "SM clock"
};
// By row. Each of a host counts once: its processes repeat them.
std::vector<GpuStateCounter> GpuStateCounters(const Trace& trace);

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_PARTS_H_
