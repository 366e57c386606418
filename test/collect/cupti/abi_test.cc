// SPDX-License-Identifier: Apache-2.0
//
// Compares abi.h with the numbers in NVIDIA's headers of CUPTI's binary interface (CUDA 13.0), and with the headers
// themselves if they are installed.
#include "collect/cupti/abi.h"

#include <catch2/catch.hpp>
#include <type_traits>

#include "collect/cuda_events/driver.h"
#include "collect/cupti/driver.h"

#if __has_include(<cupti.h>)
#include <cupti.h>
#define PITOT_THEIRS(theirs, recorded) theirs
#else
#define PITOT_THEIRS(theirs, recorded) recorded
#endif
// One of our numbers, its name in NVIDIA's headers, and its value.
#define PITOT_FACT(ours, theirs, recorded) MakeFact(#ours, ours, PITOT_THEIRS(theirs, recorded), recorded)

namespace {

using namespace pitot;

#if __has_include(<cupti.h>)
static_assert(static_cast<long>(cupti::kKindCount) >= static_cast<long>(CUPTI_ACTIVITY_KIND_COUNT));
static_assert(std::is_same_v<decltype(&cuptiGetStreamIdEx), CUptiResult (*)(CUcontext, CUstream, uint8_t, uint32_t*)>);
// OwnedMemory's blocks hold a pointer.
static_assert(sizeof(CUpti_ActivityOverheadCommandBufferFullData) >= sizeof(void*));

using Kernel = CUpti_ActivityKernel10;
using Memcpy = CUpti_ActivityMemcpy6;
using Peer = CUpti_ActivityMemcpyPtoP4;
using Memset = CUpti_ActivityMemset4;
using Overhead = CUpti_ActivityOverhead3;
using Graph = CUpti_ActivityGraphTrace2;
using Jit = CUpti_ActivityJit2;
using Call = CUpti_ActivityAPI;
#endif

struct Fact {
  const char* name;
  long ours, theirs, recorded;
};
template <class Ours, class Theirs> constexpr Fact MakeFact(const char* name, Ours ours, Theirs theirs, long recorded) {
  return {name, static_cast<long>(ours), static_cast<long>(theirs), recorded};
}
constexpr Fact kFacts[] = {
    PITOT_FACT(cupti::kSuccess, CUPTI_SUCCESS, 0),
    PITOT_FACT(cupti::kMaxLimitReached, CUPTI_ERROR_MAX_LIMIT_REACHED, 12),
    PITOT_FACT(cupti::kNotCompatible, CUPTI_ERROR_NOT_COMPATIBLE, 14),
    PITOT_FACT(cupti::kNotInitialized, CUPTI_ERROR_NOT_INITIALIZED, 15),
    PITOT_FACT(cupti::kInvalidKind, CUPTI_ERROR_INVALID_KIND, 21),
    PITOT_FACT(cupti::kNotSupported, CUPTI_ERROR_NOT_SUPPORTED, 27),
    PITOT_FACT(cupti::kVirtualizedDeviceNotSupported, CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED, 33),
    PITOT_FACT(cupti::kInsufficientPrivileges, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, 35),
    PITOT_FACT(cupti::kMultipleSubscribersNotSupported, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, 39),
    PITOT_FACT(cupti::kConfidentialComputingNotSupported, CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED, 41),
    PITOT_FACT(cupti::kUnknown, CUPTI_ERROR_UNKNOWN, 999),

    PITOT_FACT(cupti::kMemcpy, CUPTI_ACTIVITY_KIND_MEMCPY, 1),
    PITOT_FACT(cupti::kMemset, CUPTI_ACTIVITY_KIND_MEMSET, 2),
    PITOT_FACT(cupti::kDriver, CUPTI_ACTIVITY_KIND_DRIVER, 4),
    PITOT_FACT(cupti::kRuntime, CUPTI_ACTIVITY_KIND_RUNTIME, 5),
    PITOT_FACT(cupti::kConcurrentKernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 10),
    PITOT_FACT(cupti::kOverhead, CUPTI_ACTIVITY_KIND_OVERHEAD, 17),
    PITOT_FACT(cupti::kMemcpyPeer, CUPTI_ACTIVITY_KIND_MEMCPY2, 22),
    PITOT_FACT(cupti::kSynchronization, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 38),
    PITOT_FACT(cupti::kGraphTrace, CUPTI_ACTIVITY_KIND_GRAPH_TRACE, 51),
    PITOT_FACT(cupti::kJit, CUPTI_ACTIVITY_KIND_JIT, 52),

    PITOT_FACT(cupti::kZeroedOutBuffer, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, 5),
    PITOT_FACT(cupti::kPerThreadBuffer, CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, 9),
    PITOT_FACT(cupti::kDriverApi, CUPTI_CB_DOMAIN_DRIVER_API, 1),
    PITOT_FACT(cupti::kRuntimeApi, CUPTI_CB_DOMAIN_RUNTIME_API, 2),
    PITOT_FACT(cupti::kResource, CUPTI_CB_DOMAIN_RESOURCE, 3),
    PITOT_FACT(cupti::kState, CUPTI_CB_DOMAIN_STATE, 6),
    PITOT_FACT(cupti::kEnter, CUPTI_API_ENTER, 0),
    PITOT_FACT(cupti::kExit, CUPTI_API_EXIT, 1),

    PITOT_FACT(cupti::kMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16),
    PITOT_FACT(cupti::kThreads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 39),
    PITOT_FACT(cupti::kShared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 81),
    PITOT_FACT(cupti::kRegistersOfMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 82),
    PITOT_FACT(cupti::kBlocks, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 106),

    PITOT_FACT(cuda_events::kSuccess, CUDA_SUCCESS, 0),
    PITOT_FACT(cuda_events::kNotInitialized, CUDA_ERROR_NOT_INITIALIZED, 3),
    PITOT_FACT(cuda_events::kDeinitialized, CUDA_ERROR_DEINITIALIZED, 4),
    PITOT_FACT(cuda_events::kInvalidContext, CUDA_ERROR_INVALID_CONTEXT, 201),
    PITOT_FACT(cuda_events::kInvalidHandle, CUDA_ERROR_INVALID_HANDLE, 400),
    PITOT_FACT(cuda_events::kNotReady, CUDA_ERROR_NOT_READY, 600),
    PITOT_FACT(cuda_events::kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED, 709),
    PITOT_FACT(cuda_events::kNonBlocking, CU_STREAM_NON_BLOCKING, 1),
    PITOT_FACT(cuda_events::kDefaultEvent, CU_EVENT_DEFAULT, 0),
    PITOT_FACT(cuda_events::kNotCapturing, CU_STREAM_CAPTURE_STATUS_NONE, 0),
    PITOT_FACT(cuda_events::kRelaxedCapture, CU_STREAM_CAPTURE_MODE_RELAXED, 2),
    PITOT_FACT(cuda_events::kBufferId, CU_POINTER_ATTRIBUTE_BUFFER_ID, 7),

    PITOT_FACT(sizeof(cupti::GraphData), sizeof(CUpti_GraphData), 56),
    PITOT_FACT(offsetof(cupti::GraphData, node), offsetof(CUpti_GraphData, node), 16),
    PITOT_FACT(offsetof(cupti::GraphData, original_node), offsetof(CUpti_GraphData, originalNode), 24),
    PITOT_FACT(offsetof(cupti::ResourceData, descriptor), offsetof(CUpti_ResourceData, resourceDescriptor), 16),
    PITOT_FACT(offsetof(cupti::ResourceData, context), offsetof(CUpti_ResourceData, context), 0),
    PITOT_FACT(cupti::kContextDestroyStarting, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, 2),
    PITOT_FACT(cupti::kStreamDestroyStarting, CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING, 4),
    PITOT_FACT(cupti::kGraphNodeCreated, CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, 13),
    PITOT_FACT(cupti::kGraphNodeCloned, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, 20),
    PITOT_FACT(cupti::kGraphExecCreateStarting, CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING, 17),
    PITOT_FACT(cupti::kGraphExecCreated, CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED, 18),
    PITOT_FACT(cupti::kFatalError, CUPTI_CBID_STATE_FATAL_ERROR, 1),
    PITOT_FACT(cupti::kSystemThreadId, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM, 1),
    PITOT_FACT(sizeof(cupti::CallbackData), sizeof(CUpti_CallbackData), 72),
    PITOT_FACT(offsetof(cupti::CallbackData, function_name), offsetof(CUpti_CallbackData, functionName), 8),
    PITOT_FACT(offsetof(cupti::CallbackData, parameters), offsetof(CUpti_CallbackData, functionParams), 16),
    PITOT_FACT(offsetof(cupti::CallbackData, return_value), offsetof(CUpti_CallbackData, functionReturnValue), 24),
    PITOT_FACT(offsetof(cupti::CallbackData, symbol_name), offsetof(CUpti_CallbackData, symbolName), 32),
    PITOT_FACT(offsetof(cupti::CallbackData, context), offsetof(CUpti_CallbackData, context), 40),
    PITOT_FACT(offsetof(cupti::CallbackData, context_id), offsetof(CUpti_CallbackData, contextUid), 48),
    PITOT_FACT(offsetof(cupti::CallbackData, correlation_data), offsetof(CUpti_CallbackData, correlationData), 56),
    PITOT_FACT(offsetof(cupti::CallbackData, correlation_id), offsetof(CUpti_CallbackData, correlationId), 64),

    PITOT_FACT(sizeof(cupti::StreamParameters), sizeof(cudaStreamSynchronize_v3020_params), 8),
    PITOT_FACT(sizeof(cupti::StreamParameters), sizeof(cudaStreamSynchronize_ptsz_v7000_params), 8),
    PITOT_FACT(sizeof(cupti::StreamParameters), sizeof(cuStreamSynchronize_params), 8),
    PITOT_FACT(sizeof(cupti::StreamParameters), sizeof(cuStreamSynchronize_ptsz_params), 8),
    PITOT_FACT(sizeof(cupti::StreamParameters::stream), sizeof(cuStreamSynchronize_params::hStream), 8),
    PITOT_FACT(offsetof(cupti::SubscriberParams, name), offsetof(CUpti_SubscriberParams, subscriberName), 8),
    PITOT_FACT(offsetof(cupti::SubscriberParams, old_name), offsetof(CUpti_SubscriberParams, oldSubscriberName), 16),
    PITOT_FACT(offsetof(cupti::SubscriberParams, old_name_size), offsetof(CUpti_SubscriberParams, oldSubscriberSize),
               24),

    PITOT_FACT(cupti::kernel::kRegisters, offsetof(Kernel, registersPerThread), 6),
    PITOT_FACT(cupti::kernel::kStart, offsetof(Kernel, start), 16),
    PITOT_FACT(cupti::kernel::kEnd, offsetof(Kernel, end), 24),
    PITOT_FACT(cupti::kernel::kDeviceId, offsetof(Kernel, deviceId), 40),
    PITOT_FACT(cupti::kernel::kContextId, offsetof(Kernel, contextId), 44),
    PITOT_FACT(cupti::kernel::kStreamId, offsetof(Kernel, streamId), 48),
    PITOT_FACT(cupti::kernel::kGridX, offsetof(Kernel, gridX), 52),
    PITOT_FACT(cupti::kernel::kBlockX, offsetof(Kernel, blockX), 64),
    PITOT_FACT(cupti::kernel::kStaticShared, offsetof(Kernel, staticSharedMemory), 76),
    PITOT_FACT(cupti::kernel::kDynamicShared, offsetof(Kernel, dynamicSharedMemory), 80),
    PITOT_FACT(cupti::kernel::kLocalPerThread, offsetof(Kernel, localMemoryPerThread), 84),
    PITOT_FACT(cupti::kernel::kCorrelation, offsetof(Kernel, correlationId), 92),
    PITOT_FACT(cupti::kernel::kName, offsetof(Kernel, name), 104),
    PITOT_FACT(cupti::kernel::kGraphNode, offsetof(Kernel, graphNodeId), 144),
    PITOT_FACT(cupti::kernel::kGraph, offsetof(Kernel, graphId), 156),

    PITOT_FACT(cupti::memcpy_record::kCopyKind, offsetof(Memcpy, copyKind), 4),
    PITOT_FACT(cupti::memcpy_record::kSource, offsetof(Memcpy, srcKind), 5),
    PITOT_FACT(cupti::memcpy_record::kDestination, offsetof(Memcpy, dstKind), 6),
    PITOT_FACT(cupti::memcpy_record::kBytes, offsetof(Memcpy, bytes), 8),
    PITOT_FACT(cupti::memcpy_record::kStart, offsetof(Memcpy, start), 16),
    PITOT_FACT(cupti::memcpy_record::kEnd, offsetof(Memcpy, end), 24),
    PITOT_FACT(cupti::memcpy_record::kDeviceId, offsetof(Memcpy, deviceId), 32),
    PITOT_FACT(cupti::memcpy_record::kContextId, offsetof(Memcpy, contextId), 36),
    PITOT_FACT(cupti::memcpy_record::kStreamId, offsetof(Memcpy, streamId), 40),
    PITOT_FACT(cupti::memcpy_record::kCorrelation, offsetof(Memcpy, correlationId), 44),
    PITOT_FACT(cupti::memcpy_record::kGraphNode, offsetof(Memcpy, graphNodeId), 64),
    PITOT_FACT(cupti::memcpy_record::kGraph, offsetof(Memcpy, graphId), 72),

    PITOT_FACT(cupti::memcpy_peer::kCopyKind, offsetof(Peer, copyKind), 4),
    PITOT_FACT(cupti::memcpy_peer::kSource, offsetof(Peer, srcKind), 5),
    PITOT_FACT(cupti::memcpy_peer::kDestination, offsetof(Peer, dstKind), 6),
    PITOT_FACT(cupti::memcpy_peer::kBytes, offsetof(Peer, bytes), 8),
    PITOT_FACT(cupti::memcpy_peer::kStart, offsetof(Peer, start), 16),
    PITOT_FACT(cupti::memcpy_peer::kEnd, offsetof(Peer, end), 24),
    PITOT_FACT(cupti::memcpy_peer::kDeviceId, offsetof(Peer, deviceId), 32),
    PITOT_FACT(cupti::memcpy_peer::kContextId, offsetof(Peer, contextId), 36),
    PITOT_FACT(cupti::memcpy_peer::kStreamId, offsetof(Peer, streamId), 40),
    PITOT_FACT(cupti::memcpy_peer::kSourceDevice, offsetof(Peer, srcDeviceId), 44),
    PITOT_FACT(cupti::memcpy_peer::kDestinationDevice, offsetof(Peer, dstDeviceId), 52),
    PITOT_FACT(cupti::memcpy_peer::kCorrelation, offsetof(Peer, correlationId), 60),
    PITOT_FACT(cupti::memcpy_peer::kGraphNode, offsetof(Peer, graphNodeId), 72),
    PITOT_FACT(cupti::memcpy_peer::kGraph, offsetof(Peer, graphId), 80),

    PITOT_FACT(cupti::memset_record::kBytes, offsetof(Memset, bytes), 8),
    PITOT_FACT(cupti::memset_record::kStart, offsetof(Memset, start), 16),
    PITOT_FACT(cupti::memset_record::kEnd, offsetof(Memset, end), 24),
    PITOT_FACT(cupti::memset_record::kDeviceId, offsetof(Memset, deviceId), 32),
    PITOT_FACT(cupti::memset_record::kContextId, offsetof(Memset, contextId), 36),
    PITOT_FACT(cupti::memset_record::kStreamId, offsetof(Memset, streamId), 40),
    PITOT_FACT(cupti::memset_record::kCorrelation, offsetof(Memset, correlationId), 44),
    PITOT_FACT(cupti::memset_record::kMemoryKind, offsetof(Memset, memoryKind), 50),
    PITOT_FACT(cupti::memset_record::kGraphNode, offsetof(Memset, graphNodeId), 64),
    PITOT_FACT(cupti::memset_record::kGraph, offsetof(Memset, graphId), 72),

    PITOT_FACT(cupti::overhead::kOverheadKind, offsetof(Overhead, overheadKind), 4),
    PITOT_FACT(cupti::overhead::kObjectKind, offsetof(Overhead, objectKind), 8),
    PITOT_FACT(cupti::overhead::kObjectId, offsetof(Overhead, objectId), 12),
    PITOT_FACT(cupti::overhead::kStart, offsetof(Overhead, start), 24),
    PITOT_FACT(cupti::overhead::kEnd, offsetof(Overhead, end), 32),
    PITOT_FACT(cupti::overhead::kOwnedData, offsetof(Overhead, overheadData), 48),

    PITOT_FACT(cupti::graph_trace::kCorrelation, offsetof(Graph, correlationId), 4),
    PITOT_FACT(cupti::graph_trace::kStart, offsetof(Graph, start), 8),
    PITOT_FACT(cupti::graph_trace::kEnd, offsetof(Graph, end), 16),
    PITOT_FACT(cupti::graph_trace::kDeviceId, offsetof(Graph, deviceId), 24),
    PITOT_FACT(cupti::graph_trace::kGraph, offsetof(Graph, graphId), 28),
    PITOT_FACT(cupti::graph_trace::kContextId, offsetof(Graph, contextId), 32),
    PITOT_FACT(cupti::graph_trace::kStreamId, offsetof(Graph, streamId), 36),

    PITOT_FACT(cupti::jit::kEntryType, offsetof(Jit, jitEntryType), 4),
    PITOT_FACT(cupti::jit::kOperation, offsetof(Jit, jitOperationType), 8),
    PITOT_FACT(cupti::jit::kDeviceId, offsetof(Jit, deviceId), 12),
    PITOT_FACT(cupti::jit::kStart, offsetof(Jit, start), 16),
    PITOT_FACT(cupti::jit::kEnd, offsetof(Jit, end), 24),
    PITOT_FACT(cupti::jit::kCorrelation, offsetof(Jit, correlationId), 32),

    PITOT_FACT(cupti::api::kCallbackId, offsetof(Call, cbid), 4),
    PITOT_FACT(cupti::api::kStart, offsetof(Call, start), 8),
    PITOT_FACT(cupti::api::kEnd, offsetof(Call, end), 16),
    PITOT_FACT(cupti::api::kThreadId, offsetof(Call, threadId), 28),
    PITOT_FACT(cupti::api::kCorrelation, offsetof(Call, correlationId), 32),
};

}  // namespace

TEST_CASE("abi.h has the numbers of CUPTI's binary interface, and of any header that is installed", "[cupti]") {
  for (const Fact& fact : kFacts) {
    INFO(fact.name);
    CHECK(fact.ours == fact.recorded);
    CHECK(fact.theirs == fact.recorded);
  }
}

TEST_CASE("every kind that is decoded says how much of it is read", "[cupti]") {
  using namespace pitot::cupti;
  for (const uint32_t kind :
       {kMemcpy, kMemset, kDriver, kRuntime, kConcurrentKernel, kOverhead, kMemcpyPeer, kGraphTrace, kJit}) {
    CHECK(BytesRead(kind) >= 36);
    CHECK(BytesRead(kind) < 216);
  }
  CHECK(BytesRead(kSynchronization) == 0);
  CHECK(BytesRead(0) == 0);
}
