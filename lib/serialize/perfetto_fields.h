// SPDX-License-Identifier: Apache-2.0
//
// Perfetto's field numbers for the encoder, because it does not link protobuf. A test compares them with
// proto/perfetto_trace.proto.
#ifndef PITOT_LIB_SERIALIZE_PERFETTO_FIELDS_H_
#define PITOT_LIB_SERIALIZE_PERFETTO_FIELDS_H_

#include <stdint.h>

namespace pitot::perfetto {

inline constexpr uint32_t kTracePacket = 1;

namespace packet {
enum : uint32_t {
  kClockSnapshot = 6,
  kTimestamp = 8,
  kSequenceId = 10,
  kTrackEvent = 11,
  kInternedData = 12,
  kSequenceFlags = 13,
  kTrigger = 46,
  kCompressedPackets = 50,
  kDefaults = 59,
  kTrackDescriptor = 60,
  kUiState = 78,
  kFirstOnSequence = 87,
  kTraceUuid = 89,
  kTraceAttributes = 126,
};
inline constexpr uint32_t kStateCleared = 1, kNeedsState = 2;  // sequence flags
}  // namespace packet
namespace clock_snapshot {
enum : uint32_t { kClocks = 1, kPrimaryTraceClock = 2 };
enum : uint32_t { kClockId = 1, kTimestamp = 2, kIsIncremental = 3 };
enum : uint32_t { kRealtime = 1, kMonotonic = 3, kBoottime = 6, kSequenceClock = 64 };
}  // namespace clock_snapshot
namespace defaults {
enum : uint32_t { kTrackEventDefaults = 11, kTimestampClockId = 58 };
enum : uint32_t { kTrackUuid = 11 };
}  // namespace defaults
namespace event {
enum : uint32_t {
  kDebugAnnotations = 4,
  kType = 9,
  kNameIid = 10,
  kTrackUuid = 11,
  kName = 23,
  kCounterValue = 30,
  kDoubleCounterValue = 44,
  kFlowIds = 47,
  kCorrelationId = 52,
};
enum : uint32_t { kSliceBegin = 1, kSliceEnd = 2, kInstant = 3, kCounter = 4 };
}  // namespace event
namespace annotation {
enum : uint32_t {
  kNameIid = 1,
  kBool = 2,
  kUint = 3,
  kInt = 4,
  kDouble = 5,
  kString = 6,
  kStringIid = 17,
};
}
namespace interned {
enum : uint32_t { kEventNames = 2, kAnnotationNames = 3, kAnnotationStrings = 29 };
enum : uint32_t { kIid = 1, kText = 2 };
}  // namespace interned
namespace track {
enum : uint32_t {
  kUuid = 1,
  kName = 2,
  kProcess = 3,
  kThread = 4,
  kParentUuid = 5,
  kCounter = 8,
  kOrdering = 11,
  kRank = 12
};
enum : uint32_t { kExplicitOrdering = 3 };
enum : uint32_t { kProcessPid = 1, kProcessName = 6 };
enum : uint32_t { kCounterUnit = 3, kCounterUnitName = 6 };
enum : uint32_t { kUnitBytes = 3 };
enum : uint32_t { kThreadPid = 1, kThreadTid = 2, kThreadSortIndex = 3, kThreadName = 5 };
}  // namespace track
namespace trigger {
enum : uint32_t { kName = 1 };
}
namespace ui_state {
enum : uint32_t { kBegin = 1, kEnd = 2, kHighlightProcess = 3 };
enum : uint32_t { kHighlightPid = 1 };
}  // namespace ui_state
namespace trace_uuid {
enum : uint32_t { kHigh = 1, kLow = 2 };
}
namespace trace_attributes {
enum : uint32_t { kAttribute = 1 };
enum : uint32_t { kKey = 1, kLong = 2, kString = 3 };
}  // namespace trace_attributes

}  // namespace pitot::perfetto

#endif  // PITOT_LIB_SERIALIZE_PERFETTO_FIELDS_H_
