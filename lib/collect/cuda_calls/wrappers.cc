// SPDX-License-Identifier: Apache-2.0
#include "collect/cuda_calls/wrappers.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>

#include "base/call_class.h"
#include "base/handle_table.h"
#include "collect/cuda_calls/look_ups.h"
#include "pitot/extend/call.h"
#include "pitot/trace.h"
#include "trace/launch_hook.h"
#include "trace/launches.h"
#include "trace/stream_use.h"

namespace pitot::cuda_calls {
namespace {

// The types of CUDA's parameters. Results and enumerations are ints.
using Handle = void*;
using Memory = unsigned long long;  // CUdeviceptr
struct Dim3 {
  unsigned int x, y, z;
};
// Where both kinds of launch configuration have their stream: after two Dim3 and the bytes of shared memory.
constexpr size_t kStreamInConfig = 32;

enum class Role : uint8_t {
  kWait,     // the thread may wait for a GPU in it
  kOwn,      // takes its own time: allocates, loads code
  kCopy,     // enqueues a copy, and waits if its memory is pageable
  kPool,     // takes from a pool in the order of a stream, and may have to make the pool larger
  kLaunch,   // enqueues work; a slow one loads a kernel first, or waits for room or for the driver
  kDestroy,  // destroys streams
  kCapture,  // begins or ends the capture of a graph
  kMayLoad,  // asks for a kernel or about it: a slow one loads its code first
  kRecord,   // records an event, its first parameter
  kLookUp,   // looks a function up by its name: its second parameter points to the answer
};

constexpr int kNone = -1, kConfig = -2;

struct Kind {
  std::string_view name;
  Role role;
  int stream;     // its parameter with the stream; kConfig: the first one points to it
  int direction;  // its parameter with the direction of a copy
};

// X(name, role, stream, direction, types of parameters...)
#define PITOT_CUDA_FUNCTIONS(X)                                                                                        \
  X(__cudaGetKernel, kMayLoad, kNone, kNone, Handle*, const void*)                                                     \
  X(__cudaLaunchKernel, kLaunch, 5, kNone, const void*, Dim3, Dim3, void**, size_t, Handle)                            \
  X(__cudaLaunchKernel_ptsz, kLaunch, 5, kNone, const void*, Dim3, Dim3, void**, size_t, Handle)                       \
  X(cuCtxDestroy_v2, kDestroy, kNone, kNone, Handle)                                                                   \
  X(cuCtxSynchronize, kWait, kNone, kNone)                                                                             \
  X(cuCtxSynchronize_v2, kWait, kNone, kNone, Handle)                                                                  \
  X(cuDevicePrimaryCtxRelease_v2, kDestroy, kNone, kNone, int)                                                         \
  X(cuDevicePrimaryCtxReset_v2, kDestroy, kNone, kNone, int)                                                           \
  X(cuEventRecord, kRecord, 1, kNone, Handle, Handle)                                                                  \
  X(cuEventRecordWithFlags, kRecord, 1, kNone, Handle, Handle, unsigned)                                               \
  X(cuEventRecordWithFlags_ptsz, kRecord, 1, kNone, Handle, Handle, unsigned)                                          \
  X(cuEventRecord_ptsz, kRecord, 1, kNone, Handle, Handle)                                                             \
  X(cuEventSynchronize, kWait, kNone, kNone, Handle)                                                                   \
  X(cuFuncGetAttribute, kMayLoad, kNone, kNone, int*, int, Handle)                                                     \
  X(cuFuncLoad, kMayLoad, kNone, kNone, Handle)                                                                        \
  X(cuFuncSetAttribute, kMayLoad, kNone, kNone, Handle, int, int)                                                      \
  X(cuGetProcAddress, kLookUp, kNone, kNone, const char*, void**, int, uint64_t)                                       \
  X(cuGetProcAddress_v2, kLookUp, kNone, kNone, const char*, void**, int, uint64_t, void*)                             \
  X(cuGraphInstantiateWithFlags, kOwn, kNone, kNone, Handle*, Handle, unsigned long long)                              \
  X(cuGraphLaunch, kLaunch, 1, kNone, Handle, Handle)                                                                  \
  X(cuGraphLaunch_ptsz, kLaunch, 1, kNone, Handle, Handle)                                                             \
  X(cuKernelGetFunction, kMayLoad, kNone, kNone, Handle*, Handle)                                                      \
  X(cuLaunchCooperativeKernel, kLaunch, 8, kNone, Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,  \
    unsigned, Handle, void**)                                                                                          \
  X(cuLaunchCooperativeKernel_ptsz, kLaunch, 8, kNone, Handle, unsigned, unsigned, unsigned, unsigned, unsigned,       \
    unsigned, unsigned, Handle, void**)                                                                                \
  X(cuLaunchKernel, kLaunch, 8, kNone, Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,   \
    Handle, void**, void**)                                                                                            \
  X(cuLaunchKernelEx, kLaunch, kConfig, kNone, const void*, Handle, void**, void**)                                    \
  X(cuLaunchKernelEx_ptsz, kLaunch, kConfig, kNone, const void*, Handle, void**, void**)                               \
  X(cuLaunchKernel_ptsz, kLaunch, 8, kNone, Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,        \
    unsigned, Handle, void**, void**)                                                                                  \
  X(cuLibraryGetKernel, kMayLoad, kNone, kNone, Handle*, Handle, const char*)                                          \
  X(cuLibraryLoadData, kOwn, kNone, kNone, Handle*, const void*, void*, void*, unsigned, void*, void*, unsigned)       \
  X(cuLibraryLoadFromFile, kOwn, kNone, kNone, Handle*, const char*, void*, void*, unsigned, void*, void*, unsigned)   \
  X(cuMemAddressReserve, kOwn, kNone, kNone, Memory*, size_t, size_t, Memory, unsigned long long)                      \
  X(cuMemAllocAsync, kPool, 2, kNone, Memory*, size_t, Handle)                                                         \
  X(cuMemAllocAsync_ptsz, kPool, 2, kNone, Memory*, size_t, Handle)                                                    \
  X(cuMemAllocFromPoolAsync, kPool, 3, kNone, Memory*, size_t, Handle, Handle)                                         \
  X(cuMemAllocFromPoolAsync_ptsz, kPool, 3, kNone, Memory*, size_t, Handle, Handle)                                    \
  X(cuMemAllocHost_v2, kOwn, kNone, kNone, void**, size_t)                                                             \
  X(cuMemAllocManaged, kOwn, kNone, kNone, Memory*, size_t, unsigned)                                                  \
  X(cuMemAllocPitch_v2, kOwn, kNone, kNone, Memory*, size_t*, size_t, size_t, unsigned)                                \
  X(cuMemAlloc_v2, kOwn, kNone, kNone, Memory*, size_t)                                                                \
  X(cuMemCreate, kOwn, kNone, kNone, unsigned long long*, size_t, const void*, unsigned long long)                     \
  X(cuMemFreeAsync, kPool, 1, kNone, Memory, Handle)                                                                   \
  X(cuMemFreeAsync_ptsz, kPool, 1, kNone, Memory, Handle)                                                              \
  X(cuMemFreeHost, kWait, kNone, kNone, void*)                                                                         \
  X(cuMemFree_v2, kWait, kNone, kNone, Memory)                                                                         \
  X(cuMemHostAlloc, kOwn, kNone, kNone, void**, size_t, unsigned)                                                      \
  X(cuMemHostRegister_v2, kOwn, kNone, kNone, void*, size_t, unsigned)                                                 \
  X(cuMemHostUnregister, kOwn, kNone, kNone, void*)                                                                    \
  X(cuMemMap, kOwn, kNone, kNone, Memory, size_t, size_t, unsigned long long, unsigned long long)                      \
  X(cuMemRelease, kOwn, kNone, kNone, unsigned long long)                                                              \
  X(cuMemSetAccess, kOwn, kNone, kNone, Memory, size_t, const void*, size_t)                                           \
  X(cuMemUnmap, kOwn, kNone, kNone, Memory, size_t)                                                                    \
  X(cuMemcpy, kWait, kNone, kNone, Memory, Memory, size_t)                                                             \
  X(cuMemcpyAsync, kCopy, 3, kNone, Memory, Memory, size_t, Handle)                                                    \
  X(cuMemcpyAsync_ptsz, kCopy, 3, kNone, Memory, Memory, size_t, Handle)                                               \
  X(cuMemcpyDtoDAsync_v2, kLaunch, 3, kNone, Memory, Memory, size_t, Handle)                                           \
  X(cuMemcpyDtoDAsync_v2_ptsz, kLaunch, 3, kNone, Memory, Memory, size_t, Handle)                                      \
  X(cuMemcpyDtoHAsync_v2, kCopy, 3, kNone, void*, Memory, size_t, Handle)                                              \
  X(cuMemcpyDtoHAsync_v2_ptsz, kCopy, 3, kNone, void*, Memory, size_t, Handle)                                         \
  X(cuMemcpyDtoH_v2, kWait, kNone, kNone, void*, Memory, size_t)                                                       \
  X(cuMemcpyDtoH_v2_ptds, kWait, kNone, kNone, void*, Memory, size_t)                                                  \
  X(cuMemcpyHtoDAsync_v2, kCopy, 3, kNone, Memory, const void*, size_t, Handle)                                        \
  X(cuMemcpyHtoDAsync_v2_ptsz, kCopy, 3, kNone, Memory, const void*, size_t, Handle)                                   \
  X(cuMemcpyHtoD_v2, kWait, kNone, kNone, Memory, const void*, size_t)                                                 \
  X(cuMemcpyHtoD_v2_ptds, kWait, kNone, kNone, Memory, const void*, size_t)                                            \
  X(cuMemcpy_ptds, kWait, kNone, kNone, Memory, Memory, size_t)                                                        \
  X(cuMemsetD32Async, kLaunch, 3, kNone, Memory, unsigned, size_t, Handle)                                             \
  X(cuMemsetD32Async_ptsz, kLaunch, 3, kNone, Memory, unsigned, size_t, Handle)                                        \
  X(cuMemsetD8Async, kLaunch, 3, kNone, Memory, unsigned char, size_t, Handle)                                         \
  X(cuMemsetD8Async_ptsz, kLaunch, 3, kNone, Memory, unsigned char, size_t, Handle)                                    \
  X(cuModuleGetFunction, kMayLoad, kNone, kNone, Handle*, Handle, const char*)                                         \
  X(cuModuleLoad, kOwn, kNone, kNone, Handle*, const char*)                                                            \
  X(cuModuleLoadData, kOwn, kNone, kNone, Handle*, const void*)                                                        \
  X(cuModuleLoadDataEx, kOwn, kNone, kNone, Handle*, const void*, unsigned, void*, void**)                             \
  X(cuModuleLoadFatBinary, kOwn, kNone, kNone, Handle*, const void*)                                                   \
  X(cuStreamBeginCaptureToGraph, kCapture, 0, kNone, Handle, Handle, const void*, const void*, size_t, int)            \
  X(cuStreamBeginCaptureToGraph_ptsz, kCapture, 0, kNone, Handle, Handle, const void*, const void*, size_t, int)       \
  X(cuStreamBeginCapture_v2, kCapture, 0, kNone, Handle, int)                                                          \
  X(cuStreamBeginCapture_v2_ptsz, kCapture, 0, kNone, Handle, int)                                                     \
  X(cuStreamDestroy_v2, kDestroy, kNone, kNone, Handle)                                                                \
  X(cuStreamEndCapture, kCapture, 0, kNone, Handle, Handle*)                                                           \
  X(cuStreamEndCapture_ptsz, kCapture, 0, kNone, Handle, Handle*)                                                      \
  X(cuStreamSynchronize, kWait, 0, kNone, Handle)                                                                      \
  X(cuStreamSynchronize_ptsz, kWait, 0, kNone, Handle)                                                                 \
  X(cudaDeviceReset, kDestroy, kNone, kNone)                                                                           \
  X(cudaDeviceSynchronize, kWait, kNone, kNone)                                                                        \
  X(cudaEventRecord, kRecord, 1, kNone, Handle, Handle)                                                                \
  X(cudaEventRecordWithFlags, kRecord, 1, kNone, Handle, Handle, unsigned)                                             \
  X(cudaEventRecordWithFlags_ptsz, kRecord, 1, kNone, Handle, Handle, unsigned)                                        \
  X(cudaEventRecord_ptsz, kRecord, 1, kNone, Handle, Handle)                                                           \
  X(cudaEventSynchronize, kWait, kNone, kNone, Handle)                                                                 \
  X(cudaFree, kWait, kNone, kNone, void*)                                                                              \
  X(cudaFreeAsync, kPool, 1, kNone, void*, Handle)                                                                     \
  X(cudaFreeAsync_ptsz, kPool, 1, kNone, void*, Handle)                                                                \
  X(cudaFreeHost, kWait, kNone, kNone, void*)                                                                          \
  X(cudaFuncGetAttributes, kMayLoad, kNone, kNone, void*, const void*)                                                 \
  X(cudaFuncSetAttribute, kMayLoad, kNone, kNone, const void*, int, int)                                               \
  X(cudaGetDriverEntryPoint, kLookUp, kNone, kNone, const char*, void**, unsigned long long, void*)                    \
  X(cudaGetDriverEntryPointByVersion, kLookUp, kNone, kNone, const char*, void**, unsigned, unsigned long long, void*) \
  X(cudaGetDriverEntryPointByVersion_ptsz, kLookUp, kNone, kNone, const char*, void**, unsigned, unsigned long long,   \
    void*)                                                                                                             \
  X(cudaGetDriverEntryPoint_ptsz, kLookUp, kNone, kNone, const char*, void**, unsigned long long, void*)               \
  X(cudaGraphInstantiateWithFlags, kOwn, kNone, kNone, Handle*, Handle, unsigned long long)                            \
  X(cudaGraphLaunch, kLaunch, 1, kNone, Handle, Handle)                                                                \
  X(cudaGraphLaunch_ptsz, kLaunch, 1, kNone, Handle, Handle)                                                           \
  X(cudaHostAlloc, kOwn, kNone, kNone, void**, size_t, unsigned)                                                       \
  X(cudaHostRegister, kOwn, kNone, kNone, void*, size_t, unsigned)                                                     \
  X(cudaHostUnregister, kOwn, kNone, kNone, void*)                                                                     \
  X(cudaLaunchCooperativeKernel, kLaunch, 5, kNone, const void*, Dim3, Dim3, void**, size_t, Handle)                   \
  X(cudaLaunchCooperativeKernel_ptsz, kLaunch, 5, kNone, const void*, Dim3, Dim3, void**, size_t, Handle)              \
  X(cudaLaunchKernel, kLaunch, 5, kNone, const void*, Dim3, Dim3, void**, size_t, Handle)                              \
  X(cudaLaunchKernelExC, kLaunch, kConfig, kNone, const void*, const void*, void**)                                    \
  X(cudaLaunchKernelExC_ptsz, kLaunch, kConfig, kNone, const void*, const void*, void**)                               \
  X(cudaLaunchKernel_ptsz, kLaunch, 5, kNone, const void*, Dim3, Dim3, void**, size_t, Handle)                         \
  X(cudaMalloc, kOwn, kNone, kNone, void**, size_t)                                                                    \
  X(cudaMallocAsync, kPool, 2, kNone, void**, size_t, Handle)                                                          \
  X(cudaMallocAsync_ptsz, kPool, 2, kNone, void**, size_t, Handle)                                                     \
  X(cudaMallocFromPoolAsync, kPool, 3, kNone, void**, size_t, Handle, Handle)                                          \
  X(cudaMallocFromPoolAsync_ptsz, kPool, 3, kNone, void**, size_t, Handle, Handle)                                     \
  X(cudaMallocHost, kOwn, kNone, kNone, void**, size_t)                                                                \
  X(cudaMallocManaged, kOwn, kNone, kNone, void**, size_t, unsigned)                                                   \
  X(cudaMallocPitch, kOwn, kNone, kNone, void**, size_t*, size_t, size_t)                                              \
  X(cudaMemcpy, kWait, kNone, 3, void*, const void*, size_t, int)                                                      \
  X(cudaMemcpy2D, kWait, kNone, 6, void*, size_t, const void*, size_t, size_t, size_t, int)                            \
  X(cudaMemcpy2DAsync, kCopy, 7, 6, void*, size_t, const void*, size_t, size_t, size_t, int, Handle)                   \
  X(cudaMemcpy2DAsync_ptsz, kCopy, 7, 6, void*, size_t, const void*, size_t, size_t, size_t, int, Handle)              \
  X(cudaMemcpy2D_ptds, kWait, kNone, 6, void*, size_t, const void*, size_t, size_t, size_t, int)                       \
  X(cudaMemcpy3D, kWait, kNone, kNone, const void*)                                                                    \
  X(cudaMemcpy3DAsync, kCopy, 1, kNone, const void*, Handle)                                                           \
  X(cudaMemcpy3DAsync_ptsz, kCopy, 1, kNone, const void*, Handle)                                                      \
  X(cudaMemcpy3D_ptds, kWait, kNone, kNone, const void*)                                                               \
  X(cudaMemcpyAsync, kCopy, 4, 3, void*, const void*, size_t, int, Handle)                                             \
  X(cudaMemcpyAsync_ptsz, kCopy, 4, 3, void*, const void*, size_t, int, Handle)                                        \
  X(cudaMemcpyFromSymbol, kWait, kNone, 4, void*, const void*, size_t, size_t, int)                                    \
  X(cudaMemcpyFromSymbolAsync, kCopy, 5, 4, void*, const void*, size_t, size_t, int, Handle)                           \
  X(cudaMemcpyFromSymbolAsync_ptsz, kCopy, 5, 4, void*, const void*, size_t, size_t, int, Handle)                      \
  X(cudaMemcpyFromSymbol_ptds, kWait, kNone, 4, void*, const void*, size_t, size_t, int)                               \
  X(cudaMemcpyPeer, kWait, kNone, kNone, void*, int, const void*, int, size_t)                                         \
  X(cudaMemcpyPeerAsync, kCopy, 5, kNone, void*, int, const void*, int, size_t, Handle)                                \
  X(cudaMemcpyToSymbol, kWait, kNone, 4, const void*, const void*, size_t, size_t, int)                                \
  X(cudaMemcpyToSymbolAsync, kCopy, 5, 4, const void*, const void*, size_t, size_t, int, Handle)                       \
  X(cudaMemcpyToSymbolAsync_ptsz, kCopy, 5, 4, const void*, const void*, size_t, size_t, int, Handle)                  \
  X(cudaMemcpyToSymbol_ptds, kWait, kNone, 4, const void*, const void*, size_t, size_t, int)                           \
  X(cudaMemcpy_ptds, kWait, kNone, 3, void*, const void*, size_t, int)                                                 \
  X(cudaMemset2DAsync, kLaunch, 5, kNone, void*, size_t, int, size_t, size_t, Handle)                                  \
  X(cudaMemset2DAsync_ptsz, kLaunch, 5, kNone, void*, size_t, int, size_t, size_t, Handle)                             \
  X(cudaMemsetAsync, kLaunch, 3, kNone, void*, int, size_t, Handle)                                                    \
  X(cudaMemsetAsync_ptsz, kLaunch, 3, kNone, void*, int, size_t, Handle)                                               \
  X(cudaOccupancyMaxActiveBlocksPerMultiprocessor, kMayLoad, kNone, kNone, int*, const void*, int, size_t)             \
  X(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, kMayLoad, kNone, kNone, int*, const void*, int, size_t,    \
    unsigned)                                                                                                          \
  X(cudaStreamBeginCapture, kCapture, 0, kNone, Handle, int)                                                           \
  X(cudaStreamBeginCaptureToGraph, kCapture, 0, kNone, Handle, Handle, const void*, const void*, size_t, int)          \
  X(cudaStreamBeginCaptureToGraph_ptsz, kCapture, 0, kNone, Handle, Handle, const void*, const void*, size_t, int)     \
  X(cudaStreamBeginCapture_ptsz, kCapture, 0, kNone, Handle, int)                                                      \
  X(cudaStreamDestroy, kDestroy, kNone, kNone, Handle)                                                                 \
  X(cudaStreamEndCapture, kCapture, 0, kNone, Handle, Handle*)                                                         \
  X(cudaStreamEndCapture_ptsz, kCapture, 0, kNone, Handle, Handle*)                                                    \
  X(cudaStreamSynchronize, kWait, 0, kNone, Handle)                                                                    \
  X(cudaStreamSynchronize_ptsz, kWait, 0, kNone, Handle)                                                               \
  X(nvrtcCompileProgram, kOwn, kNone, kNone, Handle, int, const char* const*)

#define PITOT_KIND(name, role, stream, direction, ...) {#name, Role::role, stream, direction},
constexpr Kind kKinds[] = {PITOT_CUDA_FUNCTIONS(PITOT_KIND)};
#undef PITOT_KIND
constexpr uint32_t kFunctions = std::size(kKinds);
static_assert(std::is_sorted(std::begin(kKinds), std::end(kKinds),
                             [](const Kind& a, const Kind& b) { return a.name < b.name; }));

constexpr bool IsRecorded(Role role) {
  return role == Role::kWait || role == Role::kOwn || role == Role::kCopy || role == Role::kPool ||
         role == Role::kMayLoad || role == Role::kLaunch;
}
static_assert(std::all_of(std::begin(kKinds), std::end(kKinds), [](const Kind& kind) {
  return !IsRecorded(kind.role) || kind.role == Role::kMayLoad ||  // their names in traces end in kLoadingSuffix
         base::CallClassOf(kind.name) != base::CallClass::kOther;
}));
static_assert(std::all_of(std::begin(kKinds), std::end(kKinds),
                          [](const Kind& kind) { return MayBeFunction(kind.name); }));

#define PITOT_NUMBER(name, ...) k_##name,
enum Number : uint32_t { PITOT_CUDA_FUNCTIONS(PITOT_NUMBER) };
#undef PITOT_NUMBER

// cudaMemcpyKind: host to host, host to device, device to host, device to device, as the addresses say.
constexpr uint32_t kDirections = 5, kNoDirection = 4;
constexpr std::string_view kDirectionNames[kDirections] = {" HtoH", " HtoD", " DtoH", " DtoD", ""};

constinit std::atomic<bool> g_is_recording{false};
constinit std::atomic<uint64_t> g_slow_copy_ticks{0}, g_slow_launch_ticks{0};
constinit std::atomic<uint32_t> g_collector_name{0};
constinit std::array<std::array<std::atomic<uint32_t>, kDirections>, kFunctions> g_names{};
constinit std::array<std::array<Original, kMostOriginals>, kFunctions> g_originals{};
constinit std::atomic<uint64_t> g_session{0};  // of the recording; streams of events from before are not known
constinit std::atomic<uint32_t> g_target_collector{0};
constinit base::HandleTable<1024> g_event_streams{};  // context and number, by event and session
__thread bool t_is_inside = false;                    // one of these calls calls another
__thread bool t_is_launching = false;
__thread uint64_t t_recorded_ticks = 0;  // of calls recorded during the launch

// Functions of programs built for the default stream of each thread.
constexpr bool IsPerThread(std::string_view name) { return name.ends_with("_ptsz") || name.ends_with("_ptds"); }

// "cuMemcpyHtoDAsync" for "cuMemcpyHtoDAsync_v2_ptsz".
constexpr std::string_view PlainName(std::string_view name) {
  for (const std::string_view end : {"_ptsz", "_ptds", "_v2"}) {
    if (name.ends_with(end)) name.remove_suffix(end.size());
  }
  return name;
}

template <uint32_t kFunction, class... Args> void* StreamOf(const std::tuple<Args...>& args) {
  constexpr Kind kKind = kKinds[kFunction];
  void* stream = nullptr;
  if constexpr (kKind.stream == kConfig) {
    if (std::get<0>(args) == nullptr) return nullptr;  // the original refuses it
    std::memcpy(&stream, static_cast<const char*>(std::get<0>(args)) + kStreamInConfig, sizeof stream);
  } else {
    stream = std::get<kKind.stream>(args);
  }
  constexpr uintptr_t kPerThreadStream = 2;  // CU_STREAM_PER_THREAD
  if (IsPerThread(kKind.name) && stream == nullptr) return reinterpret_cast<void*>(kPerThreadStream);  // NOLINT
  return stream;
}

// Tells the watcher of streams that a call begins.
template <uint32_t kFunction, class... Args> void Tell(const std::tuple<Args...>& args) {
  constexpr Kind kKind = kKinds[kFunction];
  const trace::StreamWatcher* const watcher = trace::g_stream_watcher.load(std::memory_order_acquire);
  constexpr bool kIsOfStreams = kKind.role != Role::kOwn && kKind.role != Role::kPool && kKind.role != Role::kMayLoad &&
                                kKind.role != Role::kCapture && kKind.role != Role::kRecord;
  if (!kIsOfStreams || watcher == nullptr) return;
  if constexpr (kKind.role == Role::kDestroy) {
    watcher->destroy();
  } else if constexpr (kKind.stream != kNone) {
    void* graph = nullptr;
    if constexpr (kKind.name.find("GraphLaunch") != std::string_view::npos) graph = std::get<0>(args);
    void* const stream = StreamOf<kFunction>(args);
    kKind.role == Role::kWait ? watcher->wait(stream) : watcher->launch(stream, graph);
  } else {
    // cuCtxSynchronize_v2 may be of another context than the thread's.
    constexpr bool kIsForAll = base::CallClassOf(kKind.name) == base::CallClass::kDeviceSync && sizeof...(Args) == 0;
    watcher->wait(kIsForAll ? trace::kEveryStream : trace::kNoStream);
  }
}

// A launch, as the hook sees it.
template <uint32_t kFunction, class... Args>
trace::Launch LaunchOf(const std::tuple<Args...>& args, [[maybe_unused]] void* original) {
  constexpr Kind kKind = kKinds[kFunction];
  trace::Launch launch;
  launch.original = original;
  launch.stream = StreamOf<kFunction>(args);
  if constexpr (kKind.name.find("Kernel") == std::string_view::npos) {
    return launch;
  } else if constexpr (kKind.stream == kConfig) {
    constexpr bool kIsDriver = kKind.name.starts_with("cuLaunch");
    launch.kernel = std::get<1>(args);
    launch.handle = kIsDriver ? trace::KernelHandle::kFunction : trace::KernelHandle::kSymbol;
    if (std::get<0>(args) == nullptr) return launch;
    const char* const config = static_cast<const char*>(std::get<0>(args));
    std::memcpy(launch.grid, config, sizeof launch.grid);
    std::memcpy(launch.block, config + sizeof launch.grid, sizeof launch.block);
    constexpr size_t kBytes = sizeof launch.grid + sizeof launch.block;  // the driver counts them in 4 bytes
    std::memcpy(&launch.shared_bytes, config + kBytes, kIsDriver ? sizeof(unsigned) : sizeof(size_t));
  } else if constexpr (kKind.name.starts_with("cuLaunch")) {
    launch.kernel = std::get<0>(args);
    launch.grid[0] = std::get<1>(args), launch.grid[1] = std::get<2>(args), launch.grid[2] = std::get<3>(args);
    launch.block[0] = std::get<4>(args), launch.block[1] = std::get<5>(args), launch.block[2] = std::get<6>(args);
    launch.shared_bytes = std::get<7>(args);
  } else {
    const Dim3 grid = std::get<1>(args), block = std::get<2>(args);
    launch.kernel = std::get<0>(args);
    launch.handle = kKind.name.starts_with("__") ? trace::KernelHandle::kKernel : trace::KernelHandle::kSymbol;
    launch.grid[0] = grid.x, launch.grid[1] = grid.y, launch.grid[2] = grid.z;
    launch.block[0] = block.x, launch.block[1] = block.y, launch.block[2] = block.z;
    launch.shared_bytes = std::get<4>(args);
  }
  return launch;
}

// A call that enqueued work. The recorder may have stopped in it: then there is no end.
void Count(uint64_t begin, uint64_t end) {
  if (begin == 0 || end < begin) return;
  ++trace::t_launches.count;
  trace::t_launches.ticks += end - begin;
}

// Remembers the stream of an event; context 0: it is not known from now on.
void Remember(const void* event, const DeviceCall& target) {
  if (target.context != 0) g_target_collector.store(target.collector.index, std::memory_order_relaxed);
  g_event_streams.Set(g_session.load(std::memory_order_relaxed), event, uint64_t{target.context} << 32 | target.stream);
}
void AddTargetOfEvent(const void* event, DeviceCall* call) {
  uint64_t found = 0;
  if (!g_event_streams.Find(g_session.load(std::memory_order_relaxed), event, &found) || found >> 32 == 0) return;
  call->collector = Name{g_target_collector.load(std::memory_order_relaxed)};
  call->context = static_cast<uint32_t>(found >> 32), call->stream = static_cast<uint32_t>(found);
}

// What a call waits for: its stream, that of its event, or all of the current context.
template <uint32_t kFunction, class... Args> void AddTarget(const std::tuple<Args...>& args, DeviceCall* call) {
  constexpr Kind kKind = kKinds[kFunction];
  if constexpr (kKind.name.ends_with("EventSynchronize")) return AddTargetOfEvent(std::get<0>(args), call);
  constexpr bool kIsForAll = base::CallClassOf(kKind.name) == base::CallClass::kDeviceSync && sizeof...(Args) == 0;
  const trace::StreamWatcher* const watcher = trace::g_stream_watcher.load(std::memory_order_acquire);
  if (watcher == nullptr) return;
  if constexpr (kKind.stream != kNone) {
    watcher->add_target(StreamOf<kFunction>(args), call);
  } else if constexpr (kIsForAll) {
    watcher->add_target(trace::kEveryStream, call);
  }
}

template <uint32_t kFunction, class... Args>
void RecordCall(uint64_t begin, const std::tuple<Args...>& args, DeviceCall call = {}) {
  constexpr Kind kKind = kKinds[kFunction];
  uint32_t direction = kNoDirection;
  if constexpr (kKind.direction != kNone)
    direction = std::min(static_cast<uint32_t>(std::get<kKind.direction>(args)), kNoDirection);
  // A target has the numbers of another collector.
  if (call.context == 0) call.collector = Name{g_collector_name.load(std::memory_order_relaxed)};
  call.api = Name{g_names[kFunction][direction].load(std::memory_order_relaxed)};
  EndCall(begin, call);
}

// CUDA's runtime may call the driver's function, which is not counted again; nor is the time of calls recorded inside.
// A slow launch has a record of its own: it adds to the number alone.
template <uint32_t kFunction, class... Args> int CallLaunch(int (*original)(Args...), Args... args) {
  if (t_is_launching) return original(args...);
  t_is_launching = true;
  t_recorded_ticks = 0;
  const uint64_t begin = BeginCall(), events = detail::t_ring->events;
  const int result = original(args...);
  const uint64_t end = BeginCall();
  t_is_launching = false;
  const bool is_slow = begin != 0 && end >= begin && end - begin >= g_slow_launch_ticks.load(std::memory_order_relaxed);
  if (is_slow && detail::t_ring->events == events) {
    RecordCall<kFunction>(begin, std::tuple<Args...>(args...));
    ++trace::t_launches.count;
  } else {
    Count(begin, end - std::min(t_recorded_ticks, end - begin));
  }
  return result;
}

// Calls the original with the hook around it.
template <uint32_t kFunction, class... Args>
int CallHooked(const trace::LaunchHook& hook, int (*original)(Args...), Args... args) {
  constexpr Kind kKind = kKinds[kFunction];
  if constexpr (kKind.role == Role::kLaunch) {
    const std::tuple<Args...> all(args...);
    trace::Launch launch = LaunchOf<kFunction>(all, reinterpret_cast<void*>(original));
    hook.before(&launch);
    const int result = CallLaunch<kFunction>(original, args...);
    hook.after(&launch, result);
    return result;
  } else {
    if constexpr (kKind.name.find("Reset") != std::string_view::npos) hook.interrupt(trace::Interruption::kReset);
    return original(args...);
  }
}

// Counts the captures of this process. CUDA's runtime calls the driver, which is not counted again.
template <uint32_t kFunction, class... Args> int CallCapture(int (*original)(Args...), Args... args) {
  constexpr bool kBegins = kKinds[kFunction].name.find("Begin") != std::string_view::npos;
  if constexpr (kBegins) {
    trace::g_captures.fetch_add(1);
    if (const trace::LaunchHook* const hook = trace::g_launch_hook.load())
      hook->interrupt(trace::Interruption::kCapture);
  }
  t_is_inside = true;
  const int result = original(args...);
  t_is_inside = false;
  if (kBegins && result == 0) return result;
  // One that began before the recording is not counted.
  int64_t captures = trace::g_captures.load();
  while (captures > 0 && !trace::g_captures.compare_exchange_weak(captures, captures - 1)) {}
  return result;
}

// CUDA's runtime calls the driver, which is not looked at again. The stream's number is asked for before: afterwards
// another thread may have destroyed it.
template <uint32_t kFunction, class... Args> int CallRecord(int (*original)(Args...), Args... args) {
  const std::tuple<Args...> all(args...);
  DeviceCall target;
  AddTarget<kFunction>(all, &target);
  t_is_inside = true;
  const int result = original(args...);
  t_is_inside = false;
  if (result == 0) Remember(std::get<0>(all), target);
  return result;
}

template <class... Args> int AnswerLookUp(int (*original)(Args...), Args... args) {
  const int result = original(args...);
  void** const found = std::get<1>(std::tuple<Args...>(args...));
  if (result == 0 && found != nullptr) *found = WrapperOf(*found);
  return result;
}

template <uint32_t kFunction, uint32_t kOriginal, class... Args> int Wrapper(Args... args) {
  constexpr Kind kKind = kKinds[kFunction];
  void* address = nullptr;  // stored before an entry led here
  while ((address = g_originals[kFunction][kOriginal].load(std::memory_order_acquire)) == nullptr) {}
  const auto original = reinterpret_cast<int (*)(Args...)>(address);
  if constexpr (kKind.role == Role::kLookUp) return AnswerLookUp(original, args...);
  if (!g_is_recording.load(std::memory_order_relaxed) || t_is_inside) return original(args...);
  const std::tuple<Args...> all(args...);
  Tell<kFunction>(all);
  if constexpr (kKind.role == Role::kCapture) return CallCapture<kFunction>(original, args...);
  if constexpr (kKind.role == Role::kRecord) return CallRecord<kFunction>(original, args...);
  const trace::LaunchHook* const hook = trace::g_launch_hook.load(std::memory_order_acquire);
  if constexpr (kKind.role == Role::kDestroy)
    return hook == nullptr ? original(args...) : CallHooked<kFunction>(*hook, original, args...);
  if constexpr (kKind.role == Role::kLaunch)
    return hook == nullptr ? CallLaunch<kFunction>(original, args...) : CallHooked<kFunction>(*hook, original, args...);
  if (kKind.role == Role::kCopy && hook != nullptr) hook->copy();
  DeviceCall call;
  // After its wait, another thread may destroy the stream.
  if constexpr (kKind.role == Role::kWait) AddTarget<kFunction>(all, &call);
  const uint64_t begin = BeginCall(), events = detail::t_ring->events;
  t_is_inside = true;
  const int result = original(args...);
  t_is_inside = false;
  if (detail::t_ring->events != events) return result;  // recorded in the call, by CUPTI's callback
  if constexpr (kKind.role == Role::kCopy || kKind.role == Role::kPool || kKind.role == Role::kMayLoad) {
    const uint64_t end = BeginCall();
    const std::atomic<uint64_t>& slow = kKind.role == Role::kMayLoad ? g_slow_launch_ticks : g_slow_copy_ticks;
    if (end - begin < slow.load(std::memory_order_relaxed)) {
      if (kKind.role == Role::kCopy) Count(begin, end);
      return result;
    }
  }
  if constexpr (kKind.role == Role::kCopy) AddTarget<kFunction>(all, &call);
  RecordCall<kFunction>(begin, all, call);
  if (t_is_launching) t_recorded_ticks += BeginCall() - begin;
  return result;
}

template <uint32_t kFunction, class... Args, uint32_t... kOriginal>
Function Make(std::integer_sequence<uint32_t, kOriginal...>) {
  return {kKinds[kFunction].name,
          {reinterpret_cast<void*>(&Wrapper<kFunction, kOriginal, Args...>)...},
          &g_originals[kFunction]};
}

// The names of calls in traces. base::CallClassOf knows them.
std::string CallName(const Kind& kind, uint32_t direction) {
  std::string name(PlainName(kind.name));
  name += kDirectionNames[direction];
  if (kind.role == Role::kCopy) name += base::kBlockingSuffix;
  if (kind.role == Role::kMayLoad) name += base::kLoadingSuffix;
  return name;
}

}  // namespace

std::span<const Function> Functions() {
  constexpr std::make_integer_sequence<uint32_t, kMostOriginals> kAll;
#define PITOT_MAKE(name, role, stream, direction, ...) Make<k_##name __VA_OPT__(, ) __VA_ARGS__>(kAll),
  static const std::array<Function, kFunctions + 1> functions = [=] {
    std::array<Function, kFunctions + 1> all{PITOT_CUDA_FUNCTIONS(PITOT_MAKE) DlsymFunction()};
    std::sort(all.begin(), all.end(), [](const Function& a, const Function& b) { return a.name < b.name; });
    return all;
  }();
#undef PITOT_MAKE
  return functions;
}

void BeginRecording(uint64_t slow_copy_ns, uint64_t slow_launch_ns) noexcept {
  // Streams may have been used and destroyed unseen.
  if (const trace::StreamWatcher* const watcher = trace::g_stream_watcher.load(std::memory_order_acquire))
    watcher->destroy();
  g_session.fetch_add(1);
  g_collector_name.store(Intern(kCollectorName).index, std::memory_order_relaxed);
  for (uint32_t function = 0; function < kFunctions; ++function) {
    const Kind& kind = kKinds[function];
    if (!IsRecorded(kind.role)) continue;
    for (uint32_t direction = 0; direction < kDirections; ++direction) {
      if (kind.direction == kNone && direction != kNoDirection) continue;
      g_names[function][direction].store(Intern(CallName(kind, direction).c_str()).index, std::memory_order_relaxed);
    }
  }
  g_slow_copy_ticks.store(detail::TicksOf(slow_copy_ns), std::memory_order_relaxed);
  g_slow_launch_ticks.store(detail::TicksOf(slow_launch_ns), std::memory_order_relaxed);
  trace::g_captures.store(0);  // ends may have been missed
  g_is_recording.store(true, std::memory_order_release);
  trace::g_are_launches_seen.store(true, std::memory_order_release);
}

void EndRecording() noexcept {
  trace::g_are_launches_seen.store(false, std::memory_order_relaxed);
  g_is_recording.store(false, std::memory_order_relaxed);
}

}  // namespace pitot::cuda_calls
