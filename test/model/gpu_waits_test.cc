// SPDX-License-Identifier: Apache-2.0
#include "pitot/model/gpu_waits.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "serialize/sample_trace.h"

namespace pitot::test {

using model::GpuKind;
using model::GpuWaits;
using model::kNone;
using model::LaunchIndex;
using model::Trace;

namespace {

// Two threads, two requests, a batch, two devices of two streams: 0 and 1 of the first, 2 and 3 of the second. Calls
// and their GPU work may be added in any order.
struct TwoDevices {
  TwoDevices() {
    maker.trace.window_end_ns = 1'000'000;
    own = maker.Thread("own");
    other = maker.Thread("other");
    for (uint32_t device = 0; device < 2; ++device) {
      maker.trace.devices.push_back({device, 0, 0, 0, 0, 0, 0});
      for (uint32_t stream = 0; stream < 2; ++stream) maker.trace.streams.push_back({device, 1, 7 + stream, 0, 0, 0});
    }
    mine = maker.Request(1, "/classify", 0, 900'000);
    theirs = maker.Request(2, "/classify", 0, 900'000);
    batch = maker.Batch(3, "executor", own, 0, 900'000);
  }
  void Launch(uint32_t thread, int64_t call_ns, Context context, uint32_t stream, int64_t begin_ns, int64_t end_ns,
              GpuKind kind = GpuKind::kKernel) {
    calls.push_back({thread, call_ns, 10, "cudaLaunchKernel", context, kNone, kNone});
    kernels.push_back({stream, begin_ns, end_ns, calls.size() - 1, kind});
  }
  // A call of the own thread, from 1 us to 100 us.
  void Wait(const char* name, Context context, uint32_t stream = kNone, uint32_t device = kNone) {
    calls.push_back({own, 1'000, 99'000, name, context, stream, device});
  }

  Trace Finish() {
    std::vector<size_t> order(calls.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::pair(calls[a].thread, calls[a].begin_ns) < std::pair(calls[b].thread, calls[b].begin_ns);
    });
    std::vector<uint32_t> rows(calls.size());
    for (const size_t i : order) {
      const MadeCall& call = calls[i];
      rows[i] = maker.trace.calls.size();
      maker.Call(call.thread, call.name, call.begin_ns, call.duration_ns, call.context, call.stream);
      maker.trace.calls.device.back() = call.device;
    }
    std::sort(kernels.begin(), kernels.end(), [](const Kernel& a, const Kernel& b) {
      return std::pair(a.stream, a.begin_ns) < std::pair(b.stream, b.begin_ns);
    });
    for (const Kernel& kernel : kernels)
      maker.Gpu(kernel.stream, kernel.kind, "work", kernel.begin_ns, kernel.end_ns - kernel.begin_ns,
                rows[kernel.call]);
    Trace trace = maker.Finish();
    REQUIRE(FindInconsistency(trace) == "");
    return trace;
  }
  // The end of the work that the call of that name waited for; 0 if it waited for nothing.
  int64_t AwaitedEnd(const char* name = "cudaEventSynchronize") {
    const Trace trace = Finish();
    const LaunchIndex launches(trace);
    const GpuWaits waits(trace, launches);
    const uint32_t row = waits.Last(CallNamed(trace, name), 100'000);
    return row != kNone ? trace.gpu.begin_ns[row] + trace.gpu.duration_ns[row] : 0;
  }
  static uint32_t CallNamed(const Trace& trace, const std::string& name) {
    for (uint32_t call = 0; call < trace.calls.size(); ++call) {
      if (trace.strings[trace.calls.name[call]] == name) return call;
    }
    FAIL("no call " << name);
    return kNone;
  }

  struct MadeCall {
    uint32_t thread;
    int64_t begin_ns, duration_ns;
    std::string name;
    Context context;
    uint32_t stream, device;
  };
  struct Kernel {
    uint32_t stream;
    int64_t begin_ns, end_ns;
    size_t call;
    GpuKind kind = GpuKind::kKernel;
  };
  std::vector<MadeCall> calls;
  std::vector<Kernel> kernels;
  TraceMaker maker;
  uint32_t own, other, mine, theirs, batch;
};

}  // namespace

TEST_CASE("a call with a known stream waited for the work on that stream", "[waits]") {
  for (const uint32_t stream : {0u, 1u, 2u, 3u}) {
    INFO("stream " << stream);
    TwoDevices made;
    for (uint32_t of = 0; of < 4; ++of) {
      const int64_t end_ns = 60'000 + 10'000 * of;
      made.Launch(made.own, 100 + of, {made.mine, kNone}, of, 50'000, end_ns);
    }
    made.Wait("cudaStreamSynchronize", {made.mine, kNone}, stream);

    CHECK(made.AwaitedEnd("cudaStreamSynchronize") == 60'000 + 10'000 * stream);
  }
}

TEST_CASE("a call for a stream waits for other requests' work on it, too", "[waits]") {
  TwoDevices made;
  made.Launch(made.own, 100, {made.mine, kNone}, 0, 500, 40'000);
  made.Launch(made.other, 200, {made.theirs, kNone}, 0, 40'000, 90'000);
  made.Launch(made.other, 2'000, {made.theirs, kNone}, 0, 90'000, 99'000);  // launched while it waited
  made.Wait("cudaStreamSynchronize", {made.mine, kNone}, 0);

  CHECK(made.AwaitedEnd("cudaStreamSynchronize") == 90'000);
}

TEST_CASE("a call for a stream without fitting work waited for nothing recorded", "[waits]") {
  TwoDevices made;
  made.Launch(made.own, 100, {made.mine, kNone}, 0, 500, 40'000);
  made.Launch(made.own, 200, {made.mine, kNone}, 1, 300, 900);
  made.Wait("cudaStreamSynchronize", {made.mine, kNone}, 1);

  CHECK(made.AwaitedEnd("cudaStreamSynchronize") == 0);
}

TEST_CASE("a call for a stream waited for a span on it, or else for its request's own: not all work has a span",
          "[waits]") {
  const bool has_span = GENERATE(true, false);
  TwoDevices made;
  made.Launch(made.own, 100, {made.mine, kNone}, 0, 500, 40'000, GpuKind::kSpan);
  made.Launch(made.own, 200, {made.theirs, kNone}, 1, 300, has_span ? 30'000 : 900, GpuKind::kSpan);
  made.Wait("cudaStreamSynchronize", {made.mine, kNone}, 1);

  CHECK(made.AwaitedEnd("cudaStreamSynchronize") == (has_span ? 30'000 : 40'000));
}

TEST_CASE("a call for a stream with spans waited for kernels, wherever they were recorded", "[waits]") {
  TwoDevices made;
  made.Launch(made.own, 100, {made.mine, kNone}, 0, 500, 40'000);
  made.Launch(made.own, 200, {made.mine, kNone}, 1, 500, 50'000, GpuKind::kSpan);  // the same stream's other row
  made.Wait("cudaStreamSynchronize", {made.mine, kNone}, 1);

  CHECK(made.AwaitedEnd("cudaStreamSynchronize") == 40'000);
}

TEST_CASE("a call without a known stream waited for its request's own work, even if others' work ended later",
          "[waits]") {
  for (const uint32_t stream : {1u, 3u}) {
    TwoDevices made;
    made.Launch(made.own, 100, {made.mine, kNone}, 0, 500, 80'000);
    made.Launch(made.own, 200, {made.theirs, kNone}, 1, 500, 85'000);  // the thread's, for another request
    made.Launch(made.other, 300, {made.theirs, kNone}, stream, 90'000, 95'000);
    made.Wait("cudaEventSynchronize", {made.mine, kNone});

    CHECK(made.AwaitedEnd() == 80'000);
  }
}

TEST_CASE("a batch's own work is the work launched for the batch", "[waits]") {
  TwoDevices made;
  made.Launch(made.own, 100, {kNone, made.batch}, 0, 500, 80'000);
  made.Launch(made.own, 200, {made.mine, kNone}, 0, 80'000, 95'000);
  made.Wait("cudaEventSynchronize", {made.mine, made.batch});

  CHECK(made.AwaitedEnd() == 80'000);
}

TEST_CASE("a call without ended work of its own request waited for its thread's, then its device's, then any",
          "[waits]") {
  const auto made_with = [](bool has_threads, bool has_devices) {
    TwoDevices made;
    made.Launch(made.own, 100, {made.mine, kNone}, 0, 500, 900);  // before the call
    if (has_threads) made.Launch(made.own, 200, {kNone, kNone}, 0, 1'000, 70'000);
    if (has_devices) made.Launch(made.other, 300, {made.theirs, kNone}, 1, 500, 80'000);
    made.Launch(made.other, 400, {made.theirs, kNone}, 2, 500, 90'000);
    made.Wait("cudaEventSynchronize", {made.mine, kNone});
    return made.AwaitedEnd();
  };

  CHECK(made_with(true, true) == 70'000);
  CHECK(made_with(false, true) == 80'000);
  CHECK(made_with(false, false) == 90'000);
}

TEST_CASE("a call for a whole device waited for all work on that device only", "[waits]") {
  for (const char* const name : {"cudaDeviceSynchronize", "cuCtxSynchronize", "cudaFree"}) {
    INFO(name);
    const auto made_with = [&](uint32_t device) {
      TwoDevices made;
      made.Launch(made.own, 100, {made.mine, kNone}, 0, 500, 60'000);
      made.Launch(made.other, 200, {made.theirs, kNone}, 1, 500, 70'000);
      made.Launch(made.other, 300, {made.theirs, kNone}, 2, 500, 90'000);
      made.Wait(name, {made.mine, kNone}, kNone, device);
      return made.AwaitedEnd(name);
    };

    CHECK(made_with(kNone) == 70'000);  // the device of its thread's launches
    CHECK(made_with(0) == 70'000);
    CHECK(made_with(1) == 90'000);
  }
}

TEST_CASE("a wait for a device without ended work has no recorded cause", "[waits]") {
  TwoDevices made;
  made.Launch(made.own, 100, {made.mine, kNone}, 0, 500, 60'000);
  made.Wait("cudaDeviceSynchronize", {made.mine, kNone}, kNone, 1);

  CHECK(made.AwaitedEnd("cudaDeviceSynchronize") == 0);
}

TEST_CASE("a wait for a device has the last work of each stream, latest first", "[waits]") {
  TwoDevices made;
  made.Launch(made.own, 100, {made.mine, kNone}, 0, 500, 50'000);
  made.Launch(made.own, 200, {made.mine, kNone}, 0, 50'000, 60'000);
  made.Launch(made.other, 300, {made.theirs, kNone}, 1, 500, 70'000);
  made.Launch(made.other, 400, {made.theirs, kNone}, 2, 500, 90'000);
  made.Wait("cudaDeviceSynchronize", {made.mine, kNone});
  made.Wait("cudaEventSynchronize", {made.mine, kNone});
  const Trace trace = made.Finish();
  const LaunchIndex launches(trace);
  const GpuWaits waits(trace, launches);
  const auto ends = [&](const char* name) {
    std::vector<int64_t> result;
    for (const uint32_t row : waits.LastOfStreams(TwoDevices::CallNamed(trace, name), 100'000))
      result.push_back(trace.gpu.begin_ns[row] + trace.gpu.duration_ns[row]);
    return result;
  };

  CHECK(ends("cudaDeviceSynchronize") == std::vector<int64_t>{70'000, 60'000});
  CHECK(ends("cudaEventSynchronize") == std::vector<int64_t>{60'000});
}

TEST_CASE("a copy waits for itself", "[waits]") {
  TwoDevices made;
  made.Launch(made.own, 100, {made.mine, kNone}, 0, 500, 90'000);
  made.Wait("cudaMemcpy", {made.mine, kNone});
  TwoDevices with = made;
  with.kernels.push_back({1, 2'000, 12'000, with.calls.size() - 1});

  CHECK(made.AwaitedEnd("cudaMemcpy") == 0);  // its copy was not recorded
  CHECK(with.AwaitedEnd("cudaMemcpy") == 12'000);
}

TEST_CASE("awaited work begins before the call's end, and may end slightly after it by clock error", "[waits]") {
  const auto made_with = [](int64_t begin_ns, int64_t end_ns) {
    TwoDevices made;
    made.Launch(made.own, 100, {made.mine, kNone}, 0, begin_ns, end_ns);
    made.Wait("cudaStreamSynchronize", {made.mine, kNone}, 0);
    return made.AwaitedEnd("cudaStreamSynchronize");
  };

  CHECK(made_with(500, 100'000 + GpuWaits::kLateNs) == 100'000 + GpuWaits::kLateNs);
  CHECK(made_with(500, 100'001 + GpuWaits::kLateNs) == 0);
  CHECK(made_with(100'000, 101'000) == 0);
  CHECK(made_with(500, 1'000) == 0);  // finished when the call began
}

TEST_CASE("rows of a device are in the order of their ends", "[waits]") {
  TwoDevices made;
  made.Launch(made.own, 100, {made.mine, kNone}, 0, 500, 50'000);
  made.Launch(made.own, 200, {made.mine, kNone}, 1, 500, 40'000);
  made.Launch(made.own, 300, {made.mine, kNone}, 2, 500, 30'000);
  Trace trace = made.Finish();
  trace.gpu.kind[2] = GpuKind::kSpan;
  const LaunchIndex launches(trace);
  const GpuWaits waits(trace, launches);
  std::vector<int64_t> ends;
  for (const uint32_t row : waits.EndsOn(0)) ends.push_back(trace.gpu.begin_ns[row] + trace.gpu.duration_ns[row]);

  CHECK(ends == std::vector<int64_t>{40'000, 50'000});  // without the span
  CHECK(waits.EndsOn(1).size() == 0);
  CHECK(waits.EndsOn(kNone).size() == 0);
}

}  // namespace pitot::test
