// SPDX-License-Identifier: Apache-2.0
//
// The tracks of a Perfetto trace: their identifiers and descriptors, and rows for overlapping slices.
#ifndef PITOT_LIB_SERIALIZE_PERFETTO_TRACKS_H_
#define PITOT_LIB_SERIALIZE_PERFETTO_TRACKS_H_

#include <stdint.h>

#include <functional>
#include <map>
#include <queue>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pitot/model/types.h"
#include "serialize/packet_writer.h"

namespace pitot::serialize {

inline uint64_t Mix(uint64_t value) {
  value ^= value >> 30, value *= 0xbf58476d1ce4e5b9;
  value ^= value >> 27, value *= 0x94d049bb133111eb;
  return value ^ value >> 31;
}

inline std::string Hex(uint64_t value, uint32_t digits) {
  std::string text(digits, '0');
  for (uint32_t i = digits; i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}

inline std::string_view OrElse(std::string_view text, std::string_view other) { return text.empty() ? other : text; }

// The kinds of identifiers. With the process and a number they make identifiers unique, also between processes.
enum class Of : uint64_t {
  kProcess = 1,
  kThread,
  kOverlap,
  kCounter,
  kRoute,
  kExecutor,
  kLane,
  kFlow,
  kTrace,
  kCalls,
  kDevice,
  kStream,
  kSampled,
  kLaunch,
  kRecording,
  kOtherCalls,
};

// Assigns rows: overlapping slices get different ones.
class Lanes {
 public:
  // Returns a row that is free from `begin_ns` to `end_ns`. Calls must come in the order of `begin_ns`.
  uint32_t Take(int64_t begin_ns, int64_t end_ns) {
    uint32_t lane = count_;
    if (!busy_.empty() && busy_.top().first <= begin_ns) {
      lane = busy_.top().second;
      busy_.pop();
    } else {
      ++count_;
    }
    busy_.emplace(end_ns, lane);
    return lane;
  }

 private:
  using Busy = std::pair<int64_t, uint32_t>;  // end, lane
  std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy_;
  uint32_t count_ = 0;
};

class Tracks {
 public:
  Tracks(int64_t pid, PacketWriter* out) : pid_(pid), out_(*out) {}

  // 56 bits, so that it takes eight bytes in a packet; never 0.
  uint64_t Uuid(Of of, uint64_t id) const {
    const uint64_t hash = Mix(Mix(Mix(static_cast<uint64_t>(pid_)) + static_cast<uint64_t>(of)) + id) >> 8;
    return hash != 0 ? hash : 1;
  }
  uint64_t Process() const { return Uuid(Of::kProcess, 0); }

  void Describe(uint64_t uuid, uint64_t parent, std::string_view name);
  // A track of values over time; `unit` may be empty.
  void DescribeCounter(uint64_t uuid, uint64_t parent, std::string_view name, std::string_view unit);

  // A group of tracks in the process. Describes it on the first call.
  uint64_t Group(Of of, uint64_t id, std::string_view prefix, std::string_view name);
  // A track in a group that is free from `begin_ns` to `end_ns`. Viewers show tracks of the same group and name as one.
  // Calls must come in the order of `begin_ns`.
  uint64_t Lane(uint64_t group, std::string_view name, int64_t begin_ns, int64_t end_ns);
  // Another track of a group and name.
  uint64_t NewLane(uint64_t group, std::string_view name);

 private:
  struct Rows {
    Lanes lanes;
    std::vector<uint64_t> uuids;
  };

  const int64_t pid_;
  PacketWriter& out_;
  std::map<uint64_t, bool> groups_;
  std::map<std::pair<uint64_t, std::string>, Rows, std::less<>> rows_;
  uint64_t lanes_described_ = 0;
};

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_PERFETTO_TRACKS_H_
