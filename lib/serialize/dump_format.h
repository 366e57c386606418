// SPDX-License-Identifier: Apache-2.0
//
// The native format's numbers, for the encoder, which links no protobuf: chunk framing, and the fields of
// proto/pitot_dump.proto. A test holds both together.
#ifndef PITOT_LIB_SERIALIZE_DUMP_FORMAT_H_
#define PITOT_LIB_SERIALIZE_DUMP_FORMAT_H_

#include <stdint.h>

namespace pitot::dump_format {

inline constexpr uint32_t kVersionMajor = 1;
inline constexpr uint32_t kVersionMinor = 6;

// chunk := magic u32 | type u16 | flags u16 | payload size u32 | sequence u32 | crc32c u32 | payload; little endian.
// The CRC is that of the 16 bytes before it and the payload.
inline constexpr uint32_t kMagic = 0x54495089;  // 0x89 "PIT"
inline constexpr uint32_t kChunkHeaderBytes = 20;
// Writers end a chunk soon after it reaches the first; readers refuse more than the second, but of strings.
inline constexpr uint32_t kPayloadGoalBytes = 56 << 10;
inline constexpr uint32_t kBigRowsGoalBytes = 4 << 10;  // of sites and requests: a damaged chunk costs few
inline constexpr uint32_t kPayloadMaxBytes = 1 << 20;

enum class ChunkType : uint16_t {
  kHeader = 1,
  kStrings = 2,
  kSites = 3,
  kThreads = 4,
  kRequests = 5,
  kBatches = 6,
  kMembers = 7,
  kHandoffs = 8,
  kAsyncs = 9,
  kTokens = 10,
  kLosses = 11,
  kFirings = 12,
  kAttributes = 13,
  kEvents = 14,
  kTrailer = 15,
  // From minor version 1 on.
  kDevices = 16,
  kStreams = 17,
  kShapes = 18,
  kCalls = 19,
  kGpu = 20,
  kOverheads = 21,
  // From minor version 2 on.
  kDepths = 22,
  kGpuLosses = 23,
  kCounters = 24,
  kSamples = 25,
  // From minor version 5 on.
  kOperatorDepths = 26,
};
inline constexpr uint32_t kTableCount = 27;  // of Trailer.rows

// Field numbers, by message. Those of columns count up from 2, or 1 where there is no first_row, in the order of the
// enum.
namespace header {
enum : uint32_t {
  kVersionMajor = 1,
  kVersionMinor = 2,
  kPid = 3,
  kProcessName = 4,
  kWindowBegin = 5,
  kWindowEnd = 6,
  kMonotonic = 7,
  kRealtime = 8,
  kBoottime = 9,
  kCycleCounter = 10,
  kTicksPerNs = 11,
  kPairWidth = 12,
};
}
inline constexpr uint32_t kFirstRow = 1;
namespace strings {
enum : uint32_t { kSize = 2, kText };
}
namespace sites {
enum : uint32_t { kKind = 2, kName, kFile, kFunction, kLine, kFlags, kArgCount, kArgName, kArgType, kEnd };
inline constexpr uint32_t kUnloaded = 1, kNameIsFirstArg = 2;
}  // namespace sites
namespace threads {
enum : uint32_t { kNumber = 2, kTid, kName, kExited, kHistoryBegin, kEnd };
}
namespace requests {
enum : uint32_t {
  kId = 2,
  kParentId,
  kTraceIdHigh,
  kTraceIdLow,
  kRoute,
  kSizeBucket,
  kBegin,
  kLength,
  kFlags,
  kOutcome,
  kBeginThread,
  kEndThread,
  kDeadline,
  kOutputTokens,
  kFirstToken,
  kMaxTokenGap,
  kLabelCount,
  kLabelKey,
  kLabelValue,
  kSizeCount,
  kSizeName,
  kSizeValue,
  kStageCount,
  kStageName,
  kStageBegin,
  kStageLength,
  kEnd
};
inline constexpr uint32_t kBeginKnown = 1, kEndKnown = 2;
}  // namespace requests
namespace batches {
enum : uint32_t { kId = 2, kExecutor, kThread, kBegin, kLength, kSubmitted, kClose, kEnd };
}
namespace members {
enum : uint32_t { kBatch = 1, kRequest, kJoin, kLeave, kEnd };
}
namespace handoffs {
enum : uint32_t { kRequest = 1, kQueue, kFromThread, kToThread, kEnqueue, kTake, kBatch, kEnd };
}
namespace asyncs {
enum : uint32_t { kSite = 1, kRequest, kBeginThread, kEndThread, kBegin, kLength, kEnd };
}
namespace tokens {
enum : uint32_t { kRequest = 1, kThread, kAt, kCount, kEnd };
}
namespace losses {
enum : uint32_t { kThread = 1, kReason, kBegin, kEndNs, kEvents, kBytes, kEnd };
}
namespace firings {
enum : uint32_t { kAt = 1, kRequestId, kCause, kDetail, kEnd };
}
namespace attributes {
enum : uint32_t { kKey = 1, kValue, kEnd };
}
namespace events {
enum : uint32_t { kThread = 1, kBegin, kLength, kSite, kRequest, kBatch, kArgCount, kArg, kEnd };
}
namespace devices {
enum : uint32_t { kOrdinal = 2, kName, kMultiprocessors, kThreads, kBlocks, kRegisters, kShared, kEnd };
}
namespace streams {
enum : uint32_t { kDevice = 2, kContext, kStream, kName, kEnd };
}
namespace shapes {
enum : uint32_t { kGrid = 2, kBlock, kStaticShared, kDynamicShared, kLocal, kRegisters, kEnd };
}
namespace calls {
enum : uint32_t { kThread = 2, kBegin, kLength, kRequest, kBatch, kName, kStream, kDevice, kEnd };
}
namespace gpu {
enum : uint32_t {
  kStream = 1,
  kBegin,
  kDuration,
  kKind,
  kName,
  kCall,
  kShape,
  kBytes,
  kGraph,
  kNode,
  kScopePath,
  kEnd
};
}
namespace overheads {
enum : uint32_t { kBegin = 1, kDuration, kName, kEnd };
}
namespace depths {
enum : uint32_t { kBegin = 1, kDuration, kDepth, kEnd };
}
namespace gpu_losses {
enum : uint32_t { kStream = 1, kReason, kBegin, kEndNs, kRecords, kDevice, kEnd };
}
namespace counters {
enum : uint32_t { kDevice = 2, kName, kUnit, kEnd };
}
namespace samples {
enum : uint32_t { kCounter = 1, kAt, kValue, kEnd };
}
namespace trailer {
enum : uint32_t { kChunks = 1, kRows = 2 };
}

}  // namespace pitot::dump_format

#endif  // PITOT_LIB_SERIALIZE_DUMP_FORMAT_H_
