// SPDX-License-Identifier: Apache-2.0
//
// The used part of CUPTI's binary interface, declared here so that Pitot builds without CUDA and runs with any CUPTI
// from 11.0 on. The numbers are those of NVIDIA's headers, which add but do not change. A test compares all of this
// with the real headers if they are installed.
//
// Records are read by byte offset. A newer library fills a longer record with the same beginning, whatever header a
// program was compiled with; strides.h finds out how long.
#ifndef PITOT_LIB_COLLECT_CUPTI_ABI_H_
#define PITOT_LIB_COLLECT_CUPTI_ABI_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace pitot::cupti {

enum Result : int {
  kSuccess = 0,
  kMaxLimitReached = 12,  // no more records in a buffer
  kNotCompatible = 14,
  kNotInitialized = 15,
  kInvalidKind = 21,
  kNotSupported = 27,
  kVirtualizedDeviceNotSupported = 33,
  kInsufficientPrivileges = 35,
  kMultipleSubscribersNotSupported = 39,
  kConfidentialComputingNotSupported = 41,
  kUnknown = 999,  // among others: there is no driver
};

enum Kind : uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kDriver = 4,
  kRuntime = 5,
  kConcurrentKernel = 10,
  kOverhead = 17,
  kMemcpyPeer = 22,
  kSynchronization = 38,  // never enabled: control.cc
  kGraphTrace = 51,
  kJit = 52,
  kKindCount = 64,  // beyond all used ones
};

enum Attribute : int {
  kZeroedOutBuffer = 5,
  kPerThreadBuffer = 9,
};

enum Domain : int { kDriverApi = 1, kRuntimeApi = 2, kResource = 3, kState = 6 };
// Callbacks of kResource and kState.
enum ResourceCallback : uint32_t {
  kContextDestroyStarting = 2,
  kStreamDestroyStarting = 4,
  kGraphNodeCreated = 13,
  kGraphExecCreateStarting = 17,
  kGraphExecCreated = 18,
  kGraphNodeCloned = 20
};
enum StateCallback : uint32_t { kFatalError = 1 };
enum ThreadIdType : int { kSystemThreadId = 1 };  // gettid's; the default is pthread_self's
enum CallbackSite : int { kEnter = 0, kExit = 1 };

using Subscriber = void*;

// Data of a callback of the driver's or runtime's API.
struct CallbackData {
  int site;
  const char* function_name;
  const void* parameters;
  void* return_value;
  const char* symbol_name;  // of launches
  void* context;
  uint32_t context_id;
  uint64_t* correlation_data;  // the caller's, from kEnter to kExit
  uint32_t correlation_id;
};

// The parameters of cudaStreamSynchronize and cuStreamSynchronize, in both ways of compiling them.
struct StreamParameters {
  void* stream;
};
// Handles of a stream in every context.
inline constexpr uintptr_t kLegacyHandle = 1, kPerThreadHandle = 2;

// Data of a callback of kResource; for a graph, behind two pointers.
struct GraphData {
  void* graph;
  void* original_graph;
  void* node;
  void* original_node;  // of a copy
  int node_type;
  void* dependency;
  void* exec;
};
struct ResourceData {
  void* context;
  void* resource;
  void* descriptor;  // GraphData of callbacks about graphs
};

struct SubscriberParams {
  size_t size;
  const char* name;
  char* old_name;  // filled if there is another subscriber
  size_t old_name_size;
};

using CallbackFunction = void (*)(void* context, int domain, uint32_t callback_id, const void* data);
using RequestBuffer = void (*)(uint8_t** buffer, size_t* size, size_t* most_records);
using CompleteBuffer = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);

// Offsets of the fields of a record, and how many of its bytes are read.
namespace kernel {
inline constexpr uint32_t kRegisters = 6, kStart = 16, kEnd = 24, kDeviceId = 40, kContextId = 44, kStreamId = 48,
                          kGridX = 52, kBlockX = 64, kStaticShared = 76, kDynamicShared = 80, kLocalPerThread = 84,
                          kCorrelation = 92, kName = 104, kGraphNode = 144, kRead = 152;
inline constexpr uint32_t kGraph = 156, kReadWithGraph = 160;  // from CUPTI 11.1 on
}  // namespace kernel
namespace memcpy_record {
inline constexpr uint32_t kCopyKind = 4, kSource = 5, kDestination = 6, kBytes = 8, kStart = 16, kEnd = 24,
                          kDeviceId = 32, kContextId = 36, kStreamId = 40, kCorrelation = 44, kGraphNode = 64,
                          kGraph = 72, kRead = 76;
}
namespace memcpy_peer {
inline constexpr uint32_t kCopyKind = 4, kSource = 5, kDestination = 6, kBytes = 8, kStart = 16, kEnd = 24,
                          kDeviceId = 32, kContextId = 36, kStreamId = 40, kSourceDevice = 44, kDestinationDevice = 52,
                          kCorrelation = 60, kGraphNode = 72, kGraph = 80, kRead = 84;
}
namespace memset_record {
inline constexpr uint32_t kBytes = 8, kStart = 16, kEnd = 24, kDeviceId = 32, kContextId = 36, kStreamId = 40,
                          kCorrelation = 44, kMemoryKind = 50, kGraphNode = 64, kGraph = 72, kRead = 76;
}
namespace overhead {
inline constexpr uint32_t kOverheadKind = 4, kObjectKind = 8, kObjectId = 12, kStart = 24, kEnd = 32, kRead = 40;
inline constexpr uint32_t kOwnedData = 48, kReadWithData = 56;  // allocated; the reader frees it
}  // namespace overhead
namespace graph_trace {
inline constexpr uint32_t kCorrelation = 4, kStart = 8, kEnd = 16, kDeviceId = 24, kGraph = 28, kContextId = 32,
                          kStreamId = 36, kRead = 40;
}
namespace jit {
inline constexpr uint32_t kEntryType = 4, kOperation = 8, kDeviceId = 12, kStart = 16, kEnd = 24, kCorrelation = 32,
                          kRead = 36;
}
namespace api {
inline constexpr uint32_t kCallbackId = 4, kStart = 8, kEnd = 16, kThreadId = 28, kCorrelation = 32, kRead = 40;
}

// A field of a record.
template <class T> T Field(const uint8_t* record, uint32_t offset) {
  T value;
  memcpy(&value, record + offset, sizeof value);
  return value;
}

// The least number of bytes read of a record of `kind`; 0: the kind is not read.
constexpr uint32_t BytesRead(uint32_t kind) {
  switch (kind) {
    case kConcurrentKernel:
      return kernel::kRead;
    case kMemcpy:
      return memcpy_record::kRead;
    case kMemcpyPeer:
      return memcpy_peer::kRead;
    case kMemset:
      return memset_record::kRead;
    case kOverhead:
      return overhead::kRead;
    case kGraphTrace:
      return graph_trace::kRead;
    case kJit:
      return jit::kRead;
    case kDriver:
    case kRuntime:
      return api::kRead;
    default:
      return 0;
  }
}

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_ABI_H_
