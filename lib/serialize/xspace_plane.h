// SPDX-License-Identifier: Apache-2.0
//
// Builds a plane of an XSpace: lines of events, and the tables of names that they refer to.
#ifndef PITOT_LIB_SERIALIZE_XSPACE_PLANE_H_
#define PITOT_LIB_SERIALIZE_XSPACE_PLANE_H_

#include <stdint.h>

#include <string>
#include <string_view>
#include <unordered_map>

#include "serialize/wire.h"

namespace pitot::serialize {

// Field numbers of xplane.proto, because the encoder does not link protobuf. The real reader's test reads what is
// written with them.
namespace xspace {
enum : uint32_t { kPlane = 1, kHostName = 4 };
namespace plane {
enum : uint32_t { kId = 1, kName = 2, kLine = 3, kEventName = 4, kStatName = 5, kStat = 6 };
}
namespace line {
enum : uint32_t { kId = 1, kName = 2, kBegin = 3, kEvent = 4 };
}
namespace event {
enum : uint32_t { kName = 1, kOffset = 2, kDuration = 3, kStat = 4 };
}
namespace stat {
enum : uint32_t { kName = 1, kDouble = 2, kUint = 3, kInt = 4, kText = 5, kReference = 7 };
}
namespace entry {  // of a map
enum : uint32_t { kKey = 1, kValue = 2 };
}
namespace metadata {
enum : uint32_t { kId = 1, kName = 2 };
}
}  // namespace xspace

class XSpacePlane {
 public:
  // `base_ns` is Unix time at the origin of the trace's clock.
  XSpacePlane(int64_t id, std::string_view name, int64_t base_ns);

  // A line: BeginLine, events in the order of their begins, EndLine. Begins are not before `begin_ns`.
  void BeginLine(int64_t id, std::string_view name, int64_t begin_ns);
  void EndLine() { plane_.Close(line_); }

  // An event: BeginEvent, its stats, EndEvent.
  void BeginEvent(std::string_view name, int64_t begin_ns, int64_t duration_ns);
  void EndEvent() { plane_.Close(event_); }
  void Stat(std::string_view name, uint64_t value);
  void Stat(std::string_view name, double value);
  // A text, kept once in the plane.
  void Stat(std::string_view name, std::string_view text);

  // A stat of the plane itself, outside of lines.
  void PlaneStat(std::string_view name, uint64_t value);
  void PlaneStat(std::string_view name, std::string_view text);

  // Writes it as a member of the XSpace. Nothing may follow.
  bool Write(ByteSink* sink);

 private:
  using Names = std::unordered_map<std::string, uint64_t>;
  static uint64_t IdOf(std::string_view name, Names* names);
  void AddNames(uint32_t field, const Names& names);

  const int64_t base_ns_;
  WireBuffer plane_;
  size_t line_ = 0, event_ = 0;
  int64_t line_begin_ns_ = 0;
  Names event_names_, stat_names_;
};

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_XSPACE_PLANE_H_
