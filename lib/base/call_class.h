// SPDX-License-Identifier: Apache-2.0
//
// What a call of a device's API does, by its name. Traces of other profilers have nothing but the name. A new vendor
// adds its prefix and its names here, and nowhere else.
#ifndef PITOT_LIB_BASE_CALL_CLASS_H_
#define PITOT_LIB_BASE_CALL_CLASS_H_

#include <cstdint>
#include <string_view>

namespace pitot::base {

enum class CallClass : uint8_t {
  kOther,
  kLaunch,        // enqueues kernels: one, a graph of them
  kCopy,          // enqueues a copy or a set
  kBlockingCopy,  // copies, and returns once that is done
  kEnqueue,       // enqueues something without an activity of its own: a host function, a prefetch, a marker
  kSync,          // waits for a stream or an event
  kDeviceSync,    // waits for a whole device
  kAlloc,         // allocates, pins or maps memory
  kAllocAsync,    // allocates or frees in the order of a stream
  kFree,          // waits for the device, then frees
  kLoad,          // loads code
  kCompile,       // compiles code
  kGraph,         // captures or instantiates a CUDA graph
  kMark,          // a mark of Pitot's where a span begins, not a call
};

inline bool IsCopy(CallClass call_class) {
  return call_class == CallClass::kCopy || call_class == CallClass::kBlockingCopy;
}
inline bool IsSubmission(CallClass call_class) { return call_class == CallClass::kLaunch || IsCopy(call_class); }
inline bool IsSynchronization(CallClass call_class) {
  return call_class == CallClass::kSync || call_class == CallClass::kDeviceSync;
}
inline bool IsAllocation(CallClass call_class) {
  return call_class == CallClass::kAlloc || call_class == CallClass::kAllocAsync || call_class == CallClass::kFree;
}

// Returns "Malloc" for "cudaMalloc" and "hipMalloc", "MemAlloc_v2" for "cuMemAlloc_v2", "Finish" for "clFinish", and ""
// for calls of others.
constexpr std::string_view WithoutVendor(std::string_view call) {
  for (const std::string_view vendor : {"cuda", "hip", "cu", "cl"}) {
    if (call.starts_with(vendor)) return call.substr(vendor.size());
  }
  return {};
}

// Ends the name of a copy that waited, where the name of its function does not say it: OpenCL has an argument for it,
// and CUDA's asynchronous copies wait for pageable memory.
inline constexpr std::string_view kBlockingSuffix = " (blocking)";

// Ends the name of a call that asks for a kernel, or about one, and took long: it loaded the code first.
inline constexpr std::string_view kLoadingSuffix = " (loading)";

// Whether a call launches a graph of work: "cudaGraphLaunch", "hipGraphLaunch", SYCL's "urEnqueueCommandBufferExp".
constexpr bool IsGraphLaunch(std::string_view call) {
  const auto has = [call](std::string_view part) { return call.find(part) != std::string_view::npos; };
  return has("GraphLaunch") || has("EnqueueCommandBuffer") || has("CommandBufferEnqueue");
}

// For SYCL's Unified Runtime and Level Zero, by their specifications: "urEnqueueKernelLaunch",
// "zeCommandListAppendMemoryCopy". `name` is without "ur" or "ze".
constexpr CallClass IntelCallClassOf(std::string_view name) {
  const auto has = [name](auto... part) { return ((name.find(part) != std::string_view::npos) || ...); };
  if (has("HostSynchronize", "QueueSynchronize", "QueueFinish") || name == "EventWait") return CallClass::kSync;
  if (IsGraphLaunch(name) || has("KernelLaunch", "LaunchKernel", "LaunchCooperativeKernel", "LaunchMultiple"))
    return has("CommandBufferAppend") ? CallClass::kOther : CallClass::kLaunch;
  if (has("EnqueueUSMMemcpy", "EnqueueUSMFill", "EnqueueUSMMemcpy2D", "EnqueueMemBufferRead", "EnqueueMemBufferWrite",
          "EnqueueMemBufferCopy", "EnqueueMemBufferFill", "AppendMemoryCopy", "AppendMemoryFill"))
    return CallClass::kCopy;
  if (name.starts_with("Enqueue") || has("ExecuteCommandLists", "ListAppend")) return CallClass::kEnqueue;
  if (has("ProgramBuild", "ProgramCompile", "ProgramLink", "ModuleCreate", "ModuleDynamicLink"))
    return CallClass::kCompile;
  if (has("USMDeviceAlloc", "USMHostAlloc", "USMSharedAlloc", "USMFree", "MemAlloc", "MemFree", "MemBufferCreate"))
    return CallClass::kAlloc;
  return CallClass::kOther;
}

// For the runtime's and the driver's API of CUDA and HIP, nvrtc, OpenCL, SYCL and Level Zero: "cudaStreamSynchronize",
// "cuMemFree_v2", "clEnqueueNDRangeKernel", "clEnqueueReadBuffer (blocking)". Copies of pageable memory also wait.
constexpr CallClass CallClassOf(std::string_view call) {
  const std::string_view name = WithoutVendor(call);
  const auto has = [call](auto... part) { return ((call.find(part) != std::string_view::npos) || ...); };
  const auto begins = [name](auto... with) { return (name.starts_with(with) || ...); };
  if (call.ends_with("EventScope")) return CallClass::kMark;
  if (call.ends_with(kBlockingSuffix)) return CallClass::kBlockingCopy;
  if (call.ends_with(kLoadingSuffix)) return CallClass::kLoad;
  if (call.starts_with("cl")) {
    if (name == "Finish" || name == "WaitForEvents") return CallClass::kSync;
    if (begins("EnqueueNDRangeKernel", "EnqueueTask")) return CallClass::kLaunch;
    if (begins("EnqueueRead", "EnqueueWrite", "EnqueueCopy", "EnqueueFill", "EnqueueMap", "EnqueueUnmap",
               "EnqueueSVMMemcpy", "EnqueueSVMMemFill", "EnqueueSVMMap", "EnqueueSVMUnmap"))
      return CallClass::kCopy;
    if (begins("Enqueue")) return CallClass::kEnqueue;
    if (begins("BuildProgram", "CompileProgram", "LinkProgram")) return CallClass::kCompile;
    if (begins("CreateBuffer", "CreateImage", "SVMAlloc", "SVMFree", "ReleaseMemObject")) return CallClass::kAlloc;
    return CallClass::kOther;
  }
  if (call.starts_with("ur") || call.starts_with("ze")) return IntelCallClassOf(call.substr(2));
  if (has("nvrtcCompile", "LinkComplete", "nvPTXCompiler")) return CallClass::kCompile;
  // With lazy loading a kernel's code may also be loaded by the call that asks for it.
  if (has("ModuleLoad", "LibraryLoad", "FuncLoad", "ModuleGetFunction", "LibraryGetKernel", "KernelGetFunction"))
    return CallClass::kLoad;
  if (has("DeviceSync", "CtxSync")) return CallClass::kDeviceSync;
  if (has("Synchronize")) return CallClass::kSync;
  if (begins("GraphAdd", "GraphMem", "GraphExec", "GraphHost")) return CallClass::kOther;  // edits of a graph's nodes
  if (has("Prefetch", "HostFunc")) return CallClass::kEnqueue;
  if (has("Memset")) return CallClass::kCopy;
  if (has("Memcpy")) return has("Async") ? CallClass::kCopy : CallClass::kBlockingCopy;
  if (has("Launch")) return CallClass::kLaunch;
  if (has("GraphInstantiate", "StreamBeginCapture", "StreamEndCapture")) return CallClass::kGraph;
  const bool is_free = begins("Free", "HostFree", "MemFree");
  if (is_free || begins("Malloc", "HostAlloc", "HostMalloc", "ExtMalloc", "HostRegister", "HostUnregister", "MemAlloc",
                        "MemHostAlloc", "MemHostRegister", "MemHostUnregister", "MemCreate", "MemMap", "MemUnmap",
                        "MemRelease", "MemSetAccess", "MemAddressReserve")) {
    if (has("Async")) return CallClass::kAllocAsync;
    return is_free ? CallClass::kFree : CallClass::kAlloc;
  }
  return CallClass::kOther;
}

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_CALL_CLASS_H_
