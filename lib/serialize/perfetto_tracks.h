// SPDX-License-Identifier: Apache-2.0
//
// The tracks of a Perfetto trace: their identifiers and descriptors, and rows for overlapping slices.
#ifndef PITOT_LIB_SERIALIZE_PERFETTO_TRACKS_H_
#define PITOT_LIB_SERIALIZE_PERFETTO_TRACKS_H_

#include <stdint.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pitot/model/types.h"
#include "serialize/lanes.h"
#include "serialize/packet_writer.h"
#include "serialize/texts.h"

namespace pitot::serialize {

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
  kCounters,
  kDeviceCounters,
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

  // A group of tracks in the process, or in another group. Describes it on the first call.
  uint64_t Group(Of of, uint64_t id, std::string_view prefix, std::string_view name, uint64_t parent = 0);
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
  std::set<uint64_t> groups_;
  // By name, the places of tracks in groups that are in the order of their descriptions.
  std::map<uint64_t, std::map<std::string, uint64_t>> ranks_;
  std::map<std::pair<uint64_t, std::string>, Rows, std::less<>> rows_;
  uint64_t lanes_described_ = 0;
};

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_PERFETTO_TRACKS_H_
