// SPDX-License-Identifier: Apache-2.0
//
// Builds a plane of an XSpace: lines of events, and the tables of names that they refer to.
#ifndef PITOT_LIB_SERIALIZE_XSPACE_PLANE_H_
#define PITOT_LIB_SERIALIZE_XSPACE_PLANE_H_

#include <stdint.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

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
enum : uint32_t { kName = 1, kUint = 3, kText = 5, kReference = 7 };
}
namespace entry {  // of a map
enum : uint32_t { kKey = 1, kValue = 2 };
}
namespace metadata {
enum : uint32_t { kId = 1, kName = 2 };
}
}  // namespace xspace

// A length comes before its contents, and a plane may have millions of events. So its contents are made twice: first
// they are only measured.
class XSpacePlane {
 public:
  // `base_ns` is Unix time at the origin of the trace's clock.
  XSpacePlane(int64_t id, std::string_view name, int64_t base_ns);

  // Writes the plane. `make()` calls the functions below, the same ones each time. False once writing failed.
  template <class Make> bool Write(ByteSink* sink, const Make& make) {
    make();
    WriteHead(sink);
    make();
    return WriteRest();
  }

  // A line: BeginLine, events in the order of their begins, EndLine. Begins are not before `begin_ns`.
  void BeginLine(int64_t id, std::string_view name, int64_t begin_ns);
  void EndLine();

  // An event: BeginEvent, its stats, EndEvent.
  void BeginEvent(std::string_view name, int64_t begin_ns, int64_t duration_ns);
  void EndEvent();
  void Stat(std::string_view name, uint64_t value);
  // A text, kept once in the plane.
  void Stat(std::string_view name, std::string_view text);

  // Stats of the plane itself; before Write.
  void PlaneStat(std::string_view name, uint64_t value);
  void PlaneStat(std::string_view name, std::string_view text);

 private:
  static constexpr size_t kFlushBytes = 64 << 10;
  using Names = std::unordered_map<std::string, uint64_t>;

  static uint64_t IdOf(std::string_view name, Names* names);
  void AddNames(uint32_t field, const Names& names);
  void WriteHead(ByteSink* sink);
  bool WriteRest();
  // Measures or writes the buffer.
  void Flush();

  const int64_t base_ns_;
  WireBuffer head_;           // the plane's id, name and stats; after the first round its names, too
  WireBuffer buffer_;         // of lines
  ByteSink* sink_ = nullptr;  // null: the first round
  bool ok_ = true;
  std::vector<uint64_t> line_bytes_;  // by line, as measured
  size_t line_ = 0, event_ = 0;
  int64_t line_begin_ns_ = 0;
  Names event_names_, stat_names_;
};

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_XSPACE_PLANE_H_
