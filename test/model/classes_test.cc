// SPDX-License-Identifier: Apache-2.0
#include "pitot/model/classes.h"

#include <catch2/catch.hpp>
#include <vector>

#include "base/call_class.h"
#include "fakes/failing_allocations.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

using model::GpuClass;
using model::GpuKind;
using model::HostClass;
using model::Intervals;
using model::IntervalSets;
using model::kNone;
using model::ThreadSets;
using model::Trace;

namespace {

void AddGpu(Trace* trace, GpuKind kind, const char* name, uint32_t stream, int64_t begin_ns, int64_t duration_ns) {
  model::GpuColumns& gpu = trace->gpu;
  gpu.begin_ns.push_back(begin_ns);
  gpu.duration_ns.push_back(duration_ns);
  gpu.kind.push_back(kind);
  gpu.stream.push_back(stream);
  gpu.name.push_back(trace->strings.Add(name));
  gpu.call.push_back(kNone);
  gpu.shape.push_back(kNone);
  gpu.bytes.push_back(0);
  gpu.graph.push_back(0);
  gpu.node.push_back(0);
  gpu.scope_path.push_back(0);
  model::StreamRow& row = trace->streams[stream];
  if (row.event_count++ == 0) row.first_event = gpu.size() - 1;
}

Trace TwoStreams() {
  Trace trace;
  trace.window_end_ns = 1000;
  trace.devices.resize(1);
  trace.streams.resize(3);
  trace.streams[0].device = trace.streams[1].device = 0;  // the third stream's device is unknown
  AddGpu(&trace, GpuKind::kKernel, "gemm", 0, 100, 50);
  AddGpu(&trace, GpuKind::kKernel, "ncclDevKernel_AllReduce", 0, 150, 50);
  AddGpu(&trace, GpuKind::kSpan, "forward", 0, 150, 500);
  AddGpu(&trace, GpuKind::kKernel, "relu", 1, 120, 60);
  AddGpu(&trace, GpuKind::kMemcpy, "HtoD", 1, 300, 10);
  AddGpu(&trace, GpuKind::kMemset, "", 2, 400, 20);
  REQUIRE(FindInconsistency(trace) == "");
  return trace;
}

}  // namespace

TEST_CASE("each class of a device's GPU work is a set of intervals", "[classes]") {
  const IntervalSets sets(TwoStreams());

  CHECK(sets.Gpu(0, GpuClass::kCompute) == Intervals{{100, 180}});
  CHECK(sets.Gpu(0, GpuClass::kCommunication) == Intervals{{150, 200}});
  CHECK(sets.Gpu(0, GpuClass::kMemcpy) == Intervals{{300, 310}});
  CHECK(sets.Gpu(0, GpuClass::kMemset).empty());
  CHECK(sets.Gpu(kNone, GpuClass::kMemset) == Intervals{{400, 420}});
}

TEST_CASE("a call of CUDA, its driver, HIP, OpenCL, SYCL or Level Zero has one class, by its name", "[classes]") {
  using base::CallClass;
  const struct {
    CallClass call_class;
    std::vector<const char*> names;
  } kAll[] = {
      {CallClass::kLaunch,
       {"cudaLaunchKernel", "cuLaunchKernelEx", "cudaGraphLaunch", "hipModuleLaunchKernel", "clEnqueueNDRangeKernel",
        "hipLaunchKernel", "hipExtLaunchKernel", "hipExtModuleLaunchKernel", "hipGraphLaunch", "urEnqueueKernelLaunch",
        "urEnqueueCommandBufferExp", "zeCommandListAppendLaunchKernel"}},
      {CallClass::kCopy,
       {"cudaMemcpyAsync", "cuMemcpyHtoDAsync", "cudaMemset", "hipMemsetAsync", "clEnqueueReadBuffer",
        "clEnqueueWriteImage", "clEnqueueCopyBufferToImage", "clEnqueueFillBuffer", "clEnqueueMapBuffer",
        "clEnqueueUnmapMemObject", "clEnqueueSVMMemcpy", "clEnqueueSVMMemFill", "clEnqueueSVMMap", "clEnqueueSVMUnmap",
        "hipMemcpyAsync", "hipMemcpyDtoHAsync", "urEnqueueUSMMemcpy", "urEnqueueUSMFill",
        "zeCommandListAppendMemoryCopy"}},
      {CallClass::kBlockingCopy,
       {"cudaMemcpy", "hipMemcpy", "hipMemcpyWithStream", "cuMemcpyDtoH_v2", "clEnqueueReadBuffer (blocking)",
        "clEnqueueWriteBuffer (blocking)"}},
      {CallClass::kEnqueue,
       {"cudaLaunchHostFunc", "cudaMemPrefetchAsync", "clEnqueueMarkerWithWaitList", "clEnqueueBarrier",
        "clEnqueueWaitForEvents", "clEnqueueSVMFree", "clEnqueueSVMMigrateMem", "clEnqueueMigrateMemObjects",
        "clEnqueueAcquireGLObjects", "clEnqueueReleaseGLObjects", "clEnqueueNativeKernel", "hipLaunchHostFunc",
        "urEnqueueEventsWaitWithBarrier", "zeCommandListAppendBarrier", "zeCommandQueueExecuteCommandLists"}},
      {CallClass::kSync,
       {"cudaStreamSynchronize", "hipEventSynchronize", "cuEventSynchronize", "clFinish", "clWaitForEvents",
        "hipStreamSynchronize", "urQueueFinish", "urEventWait", "zeEventHostSynchronize", "zeCommandQueueSynchronize"}},
      {CallClass::kDeviceSync, {"cudaDeviceSynchronize", "cuCtxSynchronize", "hipDeviceSynchronize"}},
      {CallClass::kAlloc,
       {"cudaMalloc", "cuMemAlloc_v2", "cudaHostAlloc", "cudaHostRegister", "cuMemHostRegister_v2",
        "cuMemHostUnregister", "clCreateBuffer", "hipExtMallocWithFlags", "urUSMDeviceAlloc", "zeMemFree"}},
      {CallClass::kAllocAsync, {"cudaMallocAsync", "cudaFreeAsync", "cuMemAllocAsync", "cuMemFreeAsync"}},
      {CallClass::kFree, {"cudaFree", "hipFree", "cuMemFree_v2", "cudaFreeHost", "hipHostFree"}},
      {CallClass::kLoad,
       {"__cudaGetKernel (loading)", "cuModuleLoadData", "cuLibraryLoadData", "cuModuleGetFunction",
        "cuKernelGetFunction"}},
      {CallClass::kCompile,
       {"nvrtcCompileProgram", "cuLinkComplete", "clBuildProgram", "urProgramBuildExp", "zeModuleCreate"}},
      {CallClass::kGraph, {"cudaGraphInstantiateWithFlags", "cudaStreamBeginCapture", "cudaStreamEndCapture"}},
      {CallClass::kMark, {"CudaEventScope", "HipEventScope"}},
      {CallClass::kOther,
       {"cudaEventRecord", "cudaGraphAddMemcpyNode", "clFlush", "clSetKernelArg", "read", "urKernelSetArgValue",
        "urCommandBufferAppendKernelLaunchExp", "zeEventCreate", ""}},
  };
  for (const auto& [call_class, names] : kAll) {
    for (const char* const name : names) {
      INFO(name);
      CHECK(base::CallClassOf(name) == call_class);
      const bool is_copy = call_class == CallClass::kCopy || call_class == CallClass::kBlockingCopy;
      CHECK(model::IsSubmission(name) == (call_class == CallClass::kLaunch || is_copy));
      CHECK(model::IsSynchronization(name) == (call_class == CallClass::kSync || call_class == CallClass::kDeviceSync));
      CHECK(model::IsAllocation(name) == (call_class == CallClass::kAlloc || call_class == CallClass::kAllocAsync ||
                                          call_class == CallClass::kFree));
      CHECK(model::IsMark(name) == (call_class == CallClass::kMark));
    }
  }
}

TEST_CASE("kernels with names beginning with hip are not communication", "[classes]") {
  CHECK_FALSE(model::IsCommunicationKernel("hipblasLtMatmul"));
  CHECK(model::IsCommunicationKernel("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"));
  CHECK(model::IsCommunicationKernel("void rcclGenericKernel<1>(ncclDevKernelArgsStorage)"));
}

TEST_CASE("kernels that move data between GPUs are communication, by any library's name", "[classes]") {
  for (const char* const name :
       {"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals, vllm::Signal*, "
        "int)",
        "void sglang::cross_device_reduce_2stage<__half, 8>(sglang::RankData*)",
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long)",
        "void c10d::symmetric_memory::(anonymous namespace)::two_shot_all_reduce_kernel_inplace<float, 16, 8>(float*)",
        "one_shot_all_reduce_kernel",
        "void deep_ep::internode::dispatch<true, 4>(int4*, float*)",
        "void deep_ep::internode_ll::combine<true, 7168>(void*)",
        "void deep_ep::intranode::notify_dispatch<8>(int*)",
        "void dpsk::ep::internode::cached_notify<false>(int)",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<0>(int)",
        "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8, true, false>(tensorrt_llm::AllReduceParams)",
        "moeA2ADispatchKernel",
        "void mori::moe::EpCombineIntraNodeKernel<float>(int)",
        "void quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half>, __half>(__half const*)",
        "void userbuffers_fp16_sum_inplace_gpu_mc_rs_oop<16>(int)",
        "nvshmemi_proxy_quiet_entrypoint",
        "void mscclpp::allreduce8<float>(float*)",
        "oneccl_allreduce_small_kernel",
        "barrier_kernel(unsigned int**, int)",
        "all2all_dispatch_kernel<__half>",
        "_ZN4vllm26cross_device_reduce_1stageIfLi8EEEvPi"}) {
    INFO(name);
    CHECK(model::IsCommunicationKernel(name));
    CHECK_FALSE(model::IsCollectiveLibrary(name));
  }
}

TEST_CASE("kernels that only sound like communication are computing", "[classes]") {
  for (const char* const name :
       {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(at::native::ReduceOp<float>)",
        "void flash::flash_fwd_splitkv_combine_kernel<Traits>(Params)", "void cub::DeviceReduceKernel<int>(int)",
        "void moe::topk_dispatch<8>(int)", "gemm_allreduce_impl",
        "void deep_ep::layout::get_dispatch_layout<256>(int*)",
        "void at::native::elementwise_kernel<AllReduceFunctor>(int)", "triton_poi_fused_add_0", "broadcast_add",
        "fused_moe_kernel", "void vllm::gather_cached_kv(float*)"}) {
    INFO(name);
    CHECK_FALSE(model::IsCommunicationKernel(name));
  }
}

TEST_CASE("host classes contain threads' work, but neither steps nor Python's frames", "[classes]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 1000;
  const uint32_t thread = maker.Thread("main");
  const auto site = [&](SiteKind kind, const char* name, const char* file) {
    const uint32_t row = maker.Site(kind, name);
    maker.trace.sites[row].file = maker.String(file);
    return row;
  };
  const std::vector<uint32_t> sites = {site(SiteKind::kScope, "ProfilerStep#3", ""),
                                       site(SiteKind::kScope, "a.py(3): main", "a.py"),
                                       site(SiteKind::kOperator, "enumerate(DataLoader)#_Single.__next__", ""),
                                       site(SiteKind::kOperator, "aten::mm", ""),
                                       site(SiteKind::kScope, "decode", "server.cc"),
                                       site(SiteKind::kWait, "queue", "server.cc"),
                                       site(SiteKind::kScope, "train", "")};
  maker.trace.sites[sites.back()].arg_names.push_back(maker.String("step_num"));
  maker.trace.attributes.push_back({maker.String("step_argument"), maker.String("step_num")});
  maker.trace.sites[sites.back()].arg_types.push_back(pitot::ArgType::kInt);
  Trace trace = maker.trace;
  trace.threads[thread].event_count = static_cast<uint32_t>(sites.size());
  for (size_t i = 0; i < sites.size(); ++i) {
    trace.events.begin_ns.push_back(static_cast<int64_t>(100 * i));
    trace.events.duration_ns.push_back(50);
    trace.events.site.push_back(sites[i]);
    trace.events.thread.push_back(thread);
    trace.events.request.push_back(kNone);
    trace.events.batch.push_back(kNone);
    trace.events.args.push_back(kNone);
  }
  const auto call = [&](const char* name, int64_t begin_ns) {
    trace.calls.begin_ns.push_back(begin_ns);
    trace.calls.duration_ns.push_back(10);
    trace.calls.thread.push_back(thread);
    trace.calls.request.push_back(kNone);
    trace.calls.batch.push_back(kNone);
    trace.calls.name.push_back(trace.strings.Add(name));
    trace.calls.stream.push_back(kNone);
    trace.calls.device.push_back(kNone);
  };
  call("cudaLaunchKernel", 310);
  call("cudaMalloc", 320);
  call("cudaDeviceSynchronize", 330);
  REQUIRE(FindInconsistency(trace) == "");

  const IntervalSets sets(trace);

  const pitot::model::Steps steps(trace);
  for (uint32_t event = 0; event < sites.size(); ++event) CHECK(steps.Is(event) == (event == 0 || event == 6));
  CHECK(sets.Host(HostClass::kLoader) == Intervals{{200, 250}});
  CHECK(sets.Host(HostClass::kOperator) == Intervals{{300, 350}});
  CHECK(sets.Host(HostClass::kScope) == Intervals{{400, 450}});
  CHECK(sets.Host(HostClass::kApi) == Intervals{{310, 320}});
  CHECK(sets.Host(HostClass::kAllocation) == Intervals{{320, 330}});
  CHECK(sets.Host(HostClass::kSynchronization) == Intervals{{330, 340}});
  const ThreadSets threads(trace);
  CHECK(threads.Of(thread)[0] == Intervals{{330, 340}});
  CHECK(threads.Of(thread)[3] == Intervals{{200, 250}});
  CHECK(threads.Of(kNone)[0].empty());
}

TEST_CASE("the sets of a thread take nothing for each site of the trace", "[classes]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 1000;
  const uint32_t thread = maker.Thread("t");
  for (int i = 0; i < 20000; ++i) maker.Site(SiteKind::kOperator, std::to_string(i));
  maker.Event(thread, maker.Site(SiteKind::kOperator, "aten::add"), 300, 50);
  const Trace trace = maker.Finish();
  const ThreadSets threads(trace);

  fakes::g_largest_bytes = 0;
  CHECK(threads.Of(thread)[static_cast<size_t>(HostClass::kOperator)] == Intervals{{300, 350}});

  CHECK(fakes::g_largest_bytes <= 1024);
}

}  // namespace pitot::test
