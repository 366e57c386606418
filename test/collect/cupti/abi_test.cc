// SPDX-License-Identifier: Apache-2.0
//
// Compares abi.h with NVIDIA's headers of CUPTI's binary interface.
#include "collect/cupti/abi.h"

#include <catch2/catch.hpp>
#include <type_traits>

#include "collect/cuda_events/driver.h"
#include "collect/cupti/driver.h"

#if __has_include(<cupti.h>)
#include <cupti.h>

namespace {

using namespace pitot;

template <auto ours, auto theirs> constexpr bool kSame = static_cast<long>(ours) == static_cast<long>(theirs);

static_assert(kSame<cupti::kSuccess, CUPTI_SUCCESS>);
static_assert(kSame<cupti::kMaxLimitReached, CUPTI_ERROR_MAX_LIMIT_REACHED>);
static_assert(kSame<cupti::kNotCompatible, CUPTI_ERROR_NOT_COMPATIBLE>);
static_assert(kSame<cupti::kNotInitialized, CUPTI_ERROR_NOT_INITIALIZED>);
static_assert(kSame<cupti::kInvalidKind, CUPTI_ERROR_INVALID_KIND>);
static_assert(kSame<cupti::kNotSupported, CUPTI_ERROR_NOT_SUPPORTED>);
static_assert(kSame<cupti::kVirtualizedDeviceNotSupported, CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED>);
static_assert(kSame<cupti::kInsufficientPrivileges, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES>);
static_assert(kSame<cupti::kMultipleSubscribersNotSupported, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED>);
static_assert(kSame<cupti::kConfidentialComputingNotSupported, CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED>);
static_assert(kSame<cupti::kUnknown, CUPTI_ERROR_UNKNOWN>);

static_assert(kSame<cupti::kMemcpy, CUPTI_ACTIVITY_KIND_MEMCPY>);
static_assert(kSame<cupti::kMemset, CUPTI_ACTIVITY_KIND_MEMSET>);
static_assert(kSame<cupti::kDriver, CUPTI_ACTIVITY_KIND_DRIVER>);
static_assert(kSame<cupti::kRuntime, CUPTI_ACTIVITY_KIND_RUNTIME>);
static_assert(kSame<cupti::kConcurrentKernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL>);
static_assert(kSame<cupti::kOverhead, CUPTI_ACTIVITY_KIND_OVERHEAD>);
static_assert(kSame<cupti::kMemcpyPeer, CUPTI_ACTIVITY_KIND_MEMCPY2>);
static_assert(kSame<cupti::kSynchronization, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION>);
static_assert(kSame<cupti::kGraphTrace, CUPTI_ACTIVITY_KIND_GRAPH_TRACE>);
static_assert(kSame<cupti::kJit, CUPTI_ACTIVITY_KIND_JIT>);
static_assert(static_cast<long>(cupti::kKindCount) >= static_cast<long>(CUPTI_ACTIVITY_KIND_COUNT));

static_assert(kSame<cupti::kZeroedOutBuffer, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER>);
static_assert(kSame<cupti::kPerThreadBuffer, CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER>);
static_assert(kSame<cupti::kDriverApi, CUPTI_CB_DOMAIN_DRIVER_API>);
static_assert(kSame<cupti::kRuntimeApi, CUPTI_CB_DOMAIN_RUNTIME_API>);
static_assert(kSame<cupti::kResource, CUPTI_CB_DOMAIN_RESOURCE>);
static_assert(kSame<cupti::kState, CUPTI_CB_DOMAIN_STATE>);
static_assert(kSame<cupti::kEnter, CUPTI_API_ENTER>);
static_assert(kSame<cupti::kExit, CUPTI_API_EXIT>);

static_assert(kSame<cupti::kMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT>);
static_assert(kSame<cupti::kThreads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR>);
static_assert(kSame<cupti::kShared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR>);
static_assert(kSame<cupti::kRegisters, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR>);
static_assert(kSame<cupti::kBlocks, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR>);

static_assert(kSame<cuda_events::kSuccess, CUDA_SUCCESS>);
static_assert(kSame<cuda_events::kNotInitialized, CUDA_ERROR_NOT_INITIALIZED>);
static_assert(kSame<cuda_events::kDeinitialized, CUDA_ERROR_DEINITIALIZED>);
static_assert(kSame<cuda_events::kInvalidContext, CUDA_ERROR_INVALID_CONTEXT>);
static_assert(kSame<cuda_events::kInvalidHandle, CUDA_ERROR_INVALID_HANDLE>);
static_assert(kSame<cuda_events::kNotReady, CUDA_ERROR_NOT_READY>);
static_assert(kSame<cuda_events::kContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED>);
static_assert(kSame<cuda_events::kNonBlocking, CU_STREAM_NON_BLOCKING>);
static_assert(kSame<cuda_events::kDefaultEvent, CU_EVENT_DEFAULT>);
static_assert(kSame<cuda_events::kNotCapturing, CU_STREAM_CAPTURE_STATUS_NONE>);
static_assert(kSame<cuda_events::kRelaxedCapture, CU_STREAM_CAPTURE_MODE_RELAXED>);
static_assert(kSame<cuda_events::kBufferId, CU_POINTER_ATTRIBUTE_BUFFER_ID>);

static_assert(sizeof(cupti::GraphData) == sizeof(CUpti_GraphData));
static_assert(offsetof(cupti::GraphData, node) == offsetof(CUpti_GraphData, node));
static_assert(offsetof(cupti::GraphData, original_node) == offsetof(CUpti_GraphData, originalNode));
static_assert(offsetof(cupti::ResourceData, descriptor) == offsetof(CUpti_ResourceData, resourceDescriptor));
static_assert(offsetof(cupti::ResourceData, context) == offsetof(CUpti_ResourceData, context));
static_assert(static_cast<int>(cupti::kContextDestroyStarting) == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING);
static_assert(static_cast<int>(cupti::kStreamDestroyStarting) == CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING);
static_assert(static_cast<int>(cupti::kGraphNodeCreated) == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
static_assert(static_cast<int>(cupti::kGraphNodeCloned) == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
static_assert(static_cast<int>(cupti::kGraphExecCreateStarting) == CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING);
static_assert(static_cast<int>(cupti::kGraphExecCreated) == CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED);
static_assert(static_cast<int>(cupti::kFatalError) == CUPTI_CBID_STATE_FATAL_ERROR);
static_assert(static_cast<int>(cupti::kSystemThreadId) == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
static_assert(sizeof(cupti::CallbackData) == sizeof(CUpti_CallbackData));
static_assert(offsetof(cupti::CallbackData, function_name) == offsetof(CUpti_CallbackData, functionName));
static_assert(offsetof(cupti::CallbackData, parameters) == offsetof(CUpti_CallbackData, functionParams));
static_assert(offsetof(cupti::CallbackData, return_value) == offsetof(CUpti_CallbackData, functionReturnValue));
static_assert(offsetof(cupti::CallbackData, symbol_name) == offsetof(CUpti_CallbackData, symbolName));
static_assert(offsetof(cupti::CallbackData, context) == offsetof(CUpti_CallbackData, context));
static_assert(offsetof(cupti::CallbackData, context_id) == offsetof(CUpti_CallbackData, contextUid));
static_assert(offsetof(cupti::CallbackData, correlation_data) == offsetof(CUpti_CallbackData, correlationData));
static_assert(offsetof(cupti::CallbackData, correlation_id) == offsetof(CUpti_CallbackData, correlationId));

static_assert(sizeof(cupti::StreamParameters) == sizeof(cudaStreamSynchronize_v3020_params));
static_assert(sizeof(cupti::StreamParameters) == sizeof(cudaStreamSynchronize_ptsz_v7000_params));
static_assert(sizeof(cupti::StreamParameters) == sizeof(cuStreamSynchronize_params));
static_assert(sizeof(cupti::StreamParameters) == sizeof(cuStreamSynchronize_ptsz_params));
static_assert(sizeof(cupti::StreamParameters::stream) == sizeof(cuStreamSynchronize_params::hStream));
static_assert(std::is_same_v<decltype(&cuptiGetStreamIdEx), CUptiResult (*)(CUcontext, CUstream, uint8_t, uint32_t*)>);
static_assert(offsetof(cupti::SubscriberParams, name) == offsetof(CUpti_SubscriberParams, subscriberName));
static_assert(offsetof(cupti::SubscriberParams, old_name) == offsetof(CUpti_SubscriberParams, oldSubscriberName));
static_assert(offsetof(cupti::SubscriberParams, old_name_size) == offsetof(CUpti_SubscriberParams, oldSubscriberSize));

using Kernel = CUpti_ActivityKernel10;
static_assert(cupti::kernel::kRegisters == offsetof(Kernel, registersPerThread));
static_assert(cupti::kernel::kStart == offsetof(Kernel, start));
static_assert(cupti::kernel::kEnd == offsetof(Kernel, end));
static_assert(cupti::kernel::kDeviceId == offsetof(Kernel, deviceId));
static_assert(cupti::kernel::kContextId == offsetof(Kernel, contextId));
static_assert(cupti::kernel::kStreamId == offsetof(Kernel, streamId));
static_assert(cupti::kernel::kGridX == offsetof(Kernel, gridX));
static_assert(cupti::kernel::kBlockX == offsetof(Kernel, blockX));
static_assert(cupti::kernel::kStaticShared == offsetof(Kernel, staticSharedMemory));
static_assert(cupti::kernel::kDynamicShared == offsetof(Kernel, dynamicSharedMemory));
static_assert(cupti::kernel::kLocalPerThread == offsetof(Kernel, localMemoryPerThread));
static_assert(cupti::kernel::kCorrelation == offsetof(Kernel, correlationId));
static_assert(cupti::kernel::kName == offsetof(Kernel, name));
static_assert(cupti::kernel::kGraphNode == offsetof(Kernel, graphNodeId));
static_assert(cupti::kernel::kGraph == offsetof(Kernel, graphId));

using Memcpy = CUpti_ActivityMemcpy6;
static_assert(cupti::memcpy_record::kCopyKind == offsetof(Memcpy, copyKind));
static_assert(cupti::memcpy_record::kSource == offsetof(Memcpy, srcKind));
static_assert(cupti::memcpy_record::kDestination == offsetof(Memcpy, dstKind));
static_assert(cupti::memcpy_record::kBytes == offsetof(Memcpy, bytes));
static_assert(cupti::memcpy_record::kStart == offsetof(Memcpy, start));
static_assert(cupti::memcpy_record::kEnd == offsetof(Memcpy, end));
static_assert(cupti::memcpy_record::kDeviceId == offsetof(Memcpy, deviceId));
static_assert(cupti::memcpy_record::kContextId == offsetof(Memcpy, contextId));
static_assert(cupti::memcpy_record::kStreamId == offsetof(Memcpy, streamId));
static_assert(cupti::memcpy_record::kCorrelation == offsetof(Memcpy, correlationId));
static_assert(cupti::memcpy_record::kGraphNode == offsetof(Memcpy, graphNodeId));
static_assert(cupti::memcpy_record::kGraph == offsetof(Memcpy, graphId));

using Peer = CUpti_ActivityMemcpyPtoP4;
static_assert(cupti::memcpy_peer::kCopyKind == offsetof(Peer, copyKind));
static_assert(cupti::memcpy_peer::kSource == offsetof(Peer, srcKind));
static_assert(cupti::memcpy_peer::kDestination == offsetof(Peer, dstKind));
static_assert(cupti::memcpy_peer::kBytes == offsetof(Peer, bytes));
static_assert(cupti::memcpy_peer::kStart == offsetof(Peer, start));
static_assert(cupti::memcpy_peer::kEnd == offsetof(Peer, end));
static_assert(cupti::memcpy_peer::kDeviceId == offsetof(Peer, deviceId));
static_assert(cupti::memcpy_peer::kContextId == offsetof(Peer, contextId));
static_assert(cupti::memcpy_peer::kStreamId == offsetof(Peer, streamId));
static_assert(cupti::memcpy_peer::kSourceDevice == offsetof(Peer, srcDeviceId));
static_assert(cupti::memcpy_peer::kDestinationDevice == offsetof(Peer, dstDeviceId));
static_assert(cupti::memcpy_peer::kCorrelation == offsetof(Peer, correlationId));
static_assert(cupti::memcpy_peer::kGraphNode == offsetof(Peer, graphNodeId));
static_assert(cupti::memcpy_peer::kGraph == offsetof(Peer, graphId));

using Memset = CUpti_ActivityMemset4;
static_assert(cupti::memset_record::kBytes == offsetof(Memset, bytes));
static_assert(cupti::memset_record::kStart == offsetof(Memset, start));
static_assert(cupti::memset_record::kEnd == offsetof(Memset, end));
static_assert(cupti::memset_record::kDeviceId == offsetof(Memset, deviceId));
static_assert(cupti::memset_record::kContextId == offsetof(Memset, contextId));
static_assert(cupti::memset_record::kStreamId == offsetof(Memset, streamId));
static_assert(cupti::memset_record::kCorrelation == offsetof(Memset, correlationId));
static_assert(cupti::memset_record::kMemoryKind == offsetof(Memset, memoryKind));
static_assert(cupti::memset_record::kGraphNode == offsetof(Memset, graphNodeId));
static_assert(cupti::memset_record::kGraph == offsetof(Memset, graphId));

using Overhead = CUpti_ActivityOverhead3;
static_assert(cupti::overhead::kOverheadKind == offsetof(Overhead, overheadKind));
static_assert(cupti::overhead::kObjectKind == offsetof(Overhead, objectKind));
static_assert(cupti::overhead::kObjectId == offsetof(Overhead, objectId));
static_assert(cupti::overhead::kStart == offsetof(Overhead, start));
static_assert(cupti::overhead::kEnd == offsetof(Overhead, end));
static_assert(cupti::overhead::kOwnedData == offsetof(Overhead, overheadData));
// Each of OwnedMemory's blocks holds a pointer.
static_assert(sizeof(CUpti_ActivityOverheadCommandBufferFullData) >= sizeof(void*));

using Graph = CUpti_ActivityGraphTrace2;
static_assert(cupti::graph_trace::kCorrelation == offsetof(Graph, correlationId));
static_assert(cupti::graph_trace::kStart == offsetof(Graph, start));
static_assert(cupti::graph_trace::kEnd == offsetof(Graph, end));
static_assert(cupti::graph_trace::kDeviceId == offsetof(Graph, deviceId));
static_assert(cupti::graph_trace::kGraph == offsetof(Graph, graphId));
static_assert(cupti::graph_trace::kContextId == offsetof(Graph, contextId));
static_assert(cupti::graph_trace::kStreamId == offsetof(Graph, streamId));

using Jit = CUpti_ActivityJit2;
static_assert(cupti::jit::kEntryType == offsetof(Jit, jitEntryType));
static_assert(cupti::jit::kOperation == offsetof(Jit, jitOperationType));
static_assert(cupti::jit::kDeviceId == offsetof(Jit, deviceId));
static_assert(cupti::jit::kStart == offsetof(Jit, start));
static_assert(cupti::jit::kEnd == offsetof(Jit, end));
static_assert(cupti::jit::kCorrelation == offsetof(Jit, correlationId));

using Call = CUpti_ActivityAPI;
static_assert(cupti::api::kCallbackId == offsetof(Call, cbid));
static_assert(cupti::api::kStart == offsetof(Call, start));
static_assert(cupti::api::kEnd == offsetof(Call, end));
static_assert(cupti::api::kThreadId == offsetof(Call, threadId));
static_assert(cupti::api::kCorrelation == offsetof(Call, correlationId));

}  // namespace
#else
TEST_CASE("abi.h agrees with NVIDIA's headers", "[cupti]") { WARN("skipped, there is no cupti.h"); }
#endif

TEST_CASE("every decoded kind has the number of bytes read of it", "[cupti]") {
  using namespace pitot::cupti;
  for (const uint32_t kind :
       {kMemcpy, kMemset, kDriver, kRuntime, kConcurrentKernel, kOverhead, kMemcpyPeer, kGraphTrace, kJit}) {
    CHECK(BytesRead(kind) >= 36);
    CHECK(BytesRead(kind) < 216);
  }
  CHECK(BytesRead(kSynchronization) == 0);
  CHECK(BytesRead(0) == 0);
}
