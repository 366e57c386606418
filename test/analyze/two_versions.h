// SPDX-License-Identifier: Apache-2.0
//
// Two versions of a small server, with changes that a deployment may bring, for the tests of comparisons of traces.
#ifndef PITOT_TEST_ANALYZE_TWO_VERSIONS_H_
#define PITOT_TEST_ANALYZE_TWO_VERSIONS_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "serialize/sample_trace.h"

namespace pitot::test {

// A request decodes for 2 ms, then launches kernels, copies its answer back and waits for it.
struct Version {
  int requests = 120;
  int64_t gemm_us = 1000;  // and up to 2 % more or less
  int gemms = 4;
  std::string gemm = "gemm";
  int copies = 1;
  int64_t jitter_us = 0;  // of the decoding, more or less
  int large_percent = 0;  // requests of 3 times the size: as many more gemms
  int members = 1;        // of a batch
  int allocations = 0;
  int slow_requests = 0;  // the first ones: each decodes for 20 ms more
};

class VersionMaker {
 public:
  explicit VersionMaker(const Version& version) : version_(version) {
    model::Trace& trace = maker_.trace;
    trace.pid = 4242;
    trace.clock = {0, 1795228277123456789, 0, true, 2.1, 40};
    thread_ = maker_.Thread("worker");
    decode_ = maker_.Site(SiteKind::kScope, "decode");
    forward_ = maker_.Site(SiteKind::kScope, "forward");
    trace.devices.resize(1);
    trace.devices[0].name = maker_.String("GPU");
    trace.streams.resize(1);
    trace.streams[0].device = 0;
    trace.streams[0].stream = 7;
    trace.depths.push_back({0, INT64_MAX / 4, Depth::kKernels});
  }
  model::Trace Make() {
    for (int i = 0; i < version_.requests; i += version_.members) Serve(i);
    maker_.trace.window_end_ns = at_us_ * 1000;
    maker_.trace.depths[0].end_ns = at_us_ * 1000;
    return maker_.Finish();
  }

 private:
  void Serve(int i) {
    const bool is_large = i * 37 % 100 < version_.large_percent;
    const int gemms = version_.gemms * (is_large ? 3 : 1);
    const int64_t begin_us = at_us_;
    const int64_t decode_us = 2000 + (version_.jitter_us == 0 ? 0 : i * 7919 % (2 * version_.jitter_us)) +
                              (i < version_.slow_requests ? 20'000 : 0);
    int64_t at_us = begin_us + decode_us;
    uint32_t first = model::kNone;
    for (int m = 0; m < version_.members; ++m) {
      const uint32_t request = maker_.Request(0x1000 + static_cast<uint64_t>(i + m), "/classify", Ns(begin_us), 1);
      if (m == 0) first = request;
      maker_.Event(thread_, decode_, Ns(begin_us + m * decode_us / version_.members), Ns(decode_us / version_.members),
                   {request, model::kNone});
    }
    Context context{first, model::kNone};
    if (version_.members > 1) {
      context = {model::kNone, maker_.Batch(0x100000 + static_cast<uint64_t>(i), "resnet", thread_, Ns(at_us), 1)};
      for (int m = 0; m < version_.members; ++m)
        maker_.Member(context.batch, first + static_cast<uint32_t>(m), Ns(at_us));
    }
    const int64_t forward_us = at_us;
    for (int a = 0; a < version_.allocations; ++a) Call("cudaMalloc", &at_us, 20, context);
    int64_t gpu_us = at_us + 10;
    for (int k = 0; k < gemms; ++k) {
      const int64_t length_us = version_.gemm_us + version_.gemm_us * (i * 53 % 41 - 20) / 1000;
      const uint32_t call = Call("cudaLaunchKernel", &at_us, 5, context);
      gpu_us = std::max(gpu_us, at_us);
      maker_.Gpu(0, model::GpuKind::kKernel, version_.gemm, Ns(gpu_us), Ns(length_us), call);
      gpu_us += length_us;
    }
    for (int c = 0; c < version_.copies; ++c) {
      const uint32_t call = Call("cudaMemcpyAsync", &at_us, 5, context);
      maker_.Gpu(0, model::GpuKind::kMemcpy, "DtoH, device to pinned", Ns(gpu_us), Ns(200), call, model::kNone,
                 1 << 20);
      gpu_us += 200;
    }
    Call("cudaStreamSynchronize", &at_us, gpu_us - at_us + 5, context);
    maker_.Event(thread_, forward_, Ns(forward_us), Ns(at_us - forward_us), context);
    for (int m = 0; m < version_.members; ++m) {
      model::RequestRow& request = maker_.trace.requests[first + static_cast<uint32_t>(m)];
      request.duration_ns = Ns(at_us - begin_us);
      request.end_known = true;
      request.begin_thread = request.end_thread = thread_;
      request.size_bucket = is_large ? 3 : 1;
      request.sizes = {{maker_.String("pixels"), is_large ? 3.0 : 1.0}};
      request.stages = {{maker_.String("decode"), Ns(begin_us), Ns(decode_us)},
                        {maker_.String("forward"), Ns(forward_us), Ns(at_us - forward_us)}};
    }
    if (context.batch != model::kNone) maker_.trace.batches[context.batch].duration_ns = Ns(at_us - forward_us);
    at_us_ = at_us + 100;
  }
  uint32_t Call(const char* name, int64_t* at_us, int64_t length_us, Context context) {
    maker_.Call(thread_, name, Ns(*at_us), Ns(length_us), context);
    *at_us += length_us;
    return maker_.trace.calls.size() - 1;
  }
  static int64_t Ns(int64_t us) { return us * 1000; }

  const Version version_;
  TraceMaker maker_;
  uint32_t thread_, decode_, forward_;
  int64_t at_us_ = 0;
};

inline model::Trace Make(const Version& version) { return VersionMaker(version).Make(); }

}  // namespace pitot::test

#endif  // PITOT_TEST_ANALYZE_TWO_VERSIONS_H_
