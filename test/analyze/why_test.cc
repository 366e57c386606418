// SPDX-License-Identifier: Apache-2.0
//
// Rules of the walk, one at a time, and the sum of its segments for any rows. For the proof on whole servers see
// why_simulator_test.cc.
#include "pitot/analyze/why.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <string>

#include "analyze/blame/first_use.h"
#include "analyze/blame_of.h"
#include "analyze/soup.h"
#include "assemble/gpu.h"
#include "base/clock.h"
#include "fakes/trace_text.h"
#include "pitot/analyze/verdict.h"
#include "pitot/collect/opencl.h"
#include "pitot/wait.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

using analyze::Blame;
using analyze::BlameIndex;
using analyze::BlameOptions;
using analyze::BlameSegment;
using analyze::Culprit;
using analyze::RequestBlame;
using model::GpuKind;
using model::kNone;
using model::kOpen;
using model::Trace;

namespace {

constexpr int64_t kUs = 1'000;

// Two handlers, an executor, a device with two streams.
struct Server {
  Server() {
    maker.trace.window_end_ns = 1'000 * kUs;
    http = maker.Thread("http-1");
    other = maker.Thread("http-2");
    executor = maker.Thread("executor");
    maker.trace.devices.push_back({});
    maker.trace.streams.push_back({0, 1, 7, 0, 0, 0});
    maker.trace.streams.push_back({0, 1, 8, 0, 0, 0});
    wait = maker.WaitSite();
    decode = maker.Site(SiteKind::kScope, "decode");
    forward = maker.Site(SiteKind::kScope, "forward");
  }
  uint32_t Request(uint64_t id, int64_t begin_us, int64_t end_us, uint32_t thread) {
    const uint32_t row = maker.Request(id, "/classify", begin_us * kUs, (end_us - begin_us) * kUs);
    maker.trace.requests[row].begin_thread = maker.trace.requests[row].end_thread = thread;
    return row;
  }
  void Scope(uint32_t thread, uint32_t site, int64_t begin_us, int64_t end_us, Context context) {
    maker.Event(thread, site, begin_us * kUs, (end_us - begin_us) * kUs, context);
  }
  void Wait(uint32_t thread, WaitKind kind, const char* resource, int64_t begin_us, int64_t end_us, Context context,
            uint64_t owner_thread = 0, uint64_t owner_request = 0) {
    maker.Event(thread, wait, begin_us * kUs, (end_us - begin_us) * kUs, context,
                {static_cast<uint64_t>(kind), maker.String(resource), owner_thread, owner_request});
  }
  // A call and, if `gpu_us` has a length, its work.
  void Call(const char* name, int64_t begin_us, int64_t end_us, Context context, uint32_t stream = kNone) {
    maker.Call(executor, name, begin_us * kUs, (end_us - begin_us) * kUs, context, stream);
  }
  void Gpu(const char* name, int64_t begin_us, int64_t end_us, uint32_t stream = 0, GpuKind kind = GpuKind::kKernel) {
    maker.Gpu(stream, kind, name, begin_us * kUs, (end_us - begin_us) * kUs, maker.trace.calls.size() - 1);
  }
  // A request on the executor alone, from 100 us on, in a scope.
  uint32_t OnGpu(int64_t end_us) {
    const uint32_t row = Request(0x8f0c, 100, end_us, executor);
    Scope(executor, forward, 100, end_us, {row, kNone});
    return row;
  }
  // The same until 200 us, next to another's: its first kernel ends at `first_until_us`; the kernel it launches at
  // `launched_us` runs from `second_us` on. Call 0 is the other's, 1 its own.
  struct Two {
    uint32_t theirs, own;
  };
  Two OnGpuBesideAnother(int64_t first_until_us, int64_t launched_us, int64_t second_us, const char* second = "second",
                         GpuKind kind = GpuKind::kKernel) {
    const uint32_t theirs = Request(0xbeef, 50, 400, other), own = OnGpu(200);
    maker.Call(other, "cudaLaunchKernel", 60 * kUs, kUs, {theirs, kNone});
    Call("cudaLaunchKernel", 101, 102, {own, kNone});
    Gpu("first", 103, first_until_us);
    Call("cudaLaunchKernel", launched_us, launched_us + 1, {own, kNone});
    Gpu(second, second_us, 200, 0, kind);
    Call("cudaStreamSynchronize", launched_us + 2, 200, {own, kNone}, 0);
    return {theirs, own};
  }
  TraceMaker maker;
  uint32_t http, other, executor, wait, decode, forward;
};

Trace Shifted(Trace trace, int64_t by_ns) {
  const auto shift = [&](std::vector<int64_t>* times) {
    for (int64_t& time : *times) time += by_ns;
  };
  shift(&trace.events.begin_ns), shift(&trace.calls.begin_ns), shift(&trace.gpu.begin_ns);
  for (auto& row : trace.requests) row.begin_ns += by_ns;
  for (auto& row : trace.batches) row.begin_ns += by_ns;
  for (auto& row : trace.members) row.join_ns += by_ns, row.leave_ns += row.leave_ns != 0 ? by_ns : 0;
  for (auto& row : trace.handoffs) row.enqueue_ns += by_ns, row.take_ns += row.take_ns != 0 ? by_ns : 0;
  for (auto& row : trace.overheads) row.begin_ns += by_ns;
  for (auto& row : trace.losses) row.begin_ns += by_ns, row.end_ns += by_ns;
  for (auto& row : trace.gpu_losses) row.begin_ns += by_ns, row.end_ns += by_ns;
  trace.window_begin_ns += by_ns, trace.window_end_ns += by_ns;
  return trace;
}

}  // namespace

// ---- Threads, queues, waits

TEST_CASE("code in scopes, waits and time outside of them are told apart, and add up", "[why]") {
  Server server;
  const uint32_t row = server.Request(1, 100, 200, server.http);
  server.Scope(server.http, server.decode, 100, 150, {row, kNone});
  server.Wait(server.http, WaitKind::kIo, "disk", 120, 130, {row, kNone});
  server.Wait(server.http, WaitKind::kSleep, "sleep", 160, 165, {row, kNone});

  const RequestBlame blame = BlameOf(server.maker.Finish(), row);

  CHECK(SegmentsText(blame, 1) ==
        "host_oncpu_pre 20000; host_pagefault_io 10000; host_oncpu_pre 20000; "
        "untraced_or_unexplained 10000; host_blocked_unknown 5000; untraced_or_unexplained 35000");
  CHECK(blame.blame.Total() == 100 * kUs);
  CHECK(blame.blame[Blame::kUntraced] == 45 * kUs);
  CHECK(blame.is_reliable);
}

TEST_CASE("a request that had arrived waited for the request its thread was at work for", "[why]") {
  Server server;
  const uint32_t first = server.Request(1, 50, 180, server.http), row = server.Request(2, 100, 200, server.http);
  server.Scope(server.http, server.decode, 50, 180, {first, kNone});
  server.Scope(server.http, server.decode, 180, 200, {row, kNone});

  const RequestBlame blame = BlameOf(server.maker.Finish(), row);

  CHECK(SegmentsText(blame, 1) == "admission_queue 80000; host_oncpu_pre 20000");
  CHECK(blame.segments[0].by.request == first);
}

TEST_CASE("a request begun by its own batch's thread does not wait for that batch", "[why]") {
  Server server;
  const uint32_t row = server.Request(1, 100, 200, server.executor);
  const uint32_t batch = server.maker.Batch(7, "gpu", server.executor, 90 * kUs, 110 * kUs);
  server.maker.Member(batch, row, 100 * kUs);
  server.Scope(server.executor, server.forward, 90, 200, {kNone, batch});

  CHECK(SegmentsText(BlameOf(server.maker.Finish(), row), 1) == "host_oncpu_framework 100000");
}

TEST_CASE("requests begun by the thread of their batch share its work, waits for the GPU included", "[why]") {
  Server server;
  std::vector<uint32_t> rows;
  for (int64_t i = 0; i < 4; ++i)
    rows.push_back(server.Request(1 + static_cast<uint64_t>(i), 100 + i, 300, server.executor));
  const uint32_t batch = server.maker.Batch(7, "gpu", server.executor, 104 * kUs, 196 * kUs);
  for (const uint32_t row : rows) server.maker.Member(batch, row, 105 * kUs);
  const Context context = {rows.back(), batch};  // the last one begun stays the thread's context
  server.Scope(server.executor, server.forward, 110, 295, context);
  server.Call("cudaLaunchKernel", 120, 122, context);
  server.Gpu("gemm", 122, 278);
  server.Call("cudaStreamSynchronize", 130, 280, context, 0);

  const Trace trace = server.maker.Finish();
  for (const uint32_t row : rows) {
    const RequestBlame blame = BlameOf(trace, row);
    INFO(SegmentsText(blame, 1));
    CHECK(blame.blame[Blame::kGpuExecExpected] == 156 * kUs);
    CHECK(blame.blame[Blame::kExecutorBusy] == 0);
    CHECK(blame.blame[Blame::kAdmissionQueue] == 0);
  }
}

namespace {

// Three requests that the thread of their batch began, each decoded in its own context. The last one stays the thread's
// context in "forward".
struct DecodedOneByOne {
  DecodedOneByOne() {
    for (int64_t i = 0; i < 3; ++i)
      rows.push_back(server.Request(1 + static_cast<uint64_t>(i), 100 + i, 300, server.executor));
    batch = server.maker.Batch(7, "gpu", server.executor, 104 * kUs, 196 * kUs);
    for (const uint32_t row : rows) server.maker.Member(batch, row, 105 * kUs);
    server.Scope(server.executor, server.decode, 110, 115, {rows[0], batch});
    server.Scope(server.executor, server.decode, 115, 120, {rows[1], batch});
    server.Scope(server.executor, server.decode, 120, 160, {rows[2], batch});
    server.Scope(server.executor, server.maker.Site(SiteKind::kScope, "resize"), 125, 150, {rows[2], batch});
    server.Scope(server.executor, server.forward, 160, 295, {rows[2], batch});
  }
  Server server;
  std::vector<uint32_t> rows;
  uint32_t batch = kNone;
};

}  // namespace

TEST_CASE("a batch begun by its thread is for all members where only parts of it were for one each", "[why]") {
  DecodedOneByOne one;
  const Trace trace = one.server.maker.Finish();
  for (const size_t i : {0u, 1u}) {
    const RequestBlame blame = BlameOf(trace, one.rows[i]);
    INFO(SegmentsText(blame, 1));
    CHECK(blame.blame[Blame::kExecutorBusy] == 45 * kUs);  // the others' "decode", and "resize" in it
    CHECK(blame.blame[Blame::kHostOncpuFramework] == 140 * kUs);
  }
}

TEST_CASE("calls of a batch begun by its thread are for all members where only parts of it were for one", "[why]") {
  DecodedOneByOne one;
  const Context context = {one.rows[2], one.batch};
  one.server.Call("cudaMalloc", 130, 140, context);
  one.server.Call("cudaMalloc", 200, 240, context);

  const RequestBlame blame = BlameOf(one.server.maker.Finish(), one.rows[0]);

  INFO(SegmentsText(blame, 1));
  CHECK(blame.blame[Blame::kExecutorBusy] == 45 * kUs);
  CHECK(blame.blame[Blame::kAllocStall] == 40 * kUs);
}

TEST_CASE("input, output and sleep of a batch for one member are waits for that member", "[why]") {
  for (const WaitKind kind : {WaitKind::kIo, WaitKind::kSleep}) {
    DecodedOneByOne one;
    one.server.Wait(one.server.executor, kind, "store", 130, 140, {one.rows[2], one.batch});
    one.server.Wait(one.server.executor, kind, "weights", 200, 220, {one.rows[2], one.batch});
    const Trace trace = one.server.maker.Finish();
    const Blame own = kind == WaitKind::kIo ? Blame::kHostPagefaultIo : Blame::kHostBlockedUnknown;
    const RequestBlame blame = BlameOf(trace, one.rows[0]);
    INFO(SegmentsText(blame, 1));
    CHECK(blame.blame[Blame::kExecutorBusy] == 45 * kUs);
    CHECK(blame.blame[own] == 20 * kUs);  // in "forward", for all
    CHECK(BlameOf(trace, one.rows[2]).blame[own] == 30 * kUs);
  }
}

TEST_CASE("a request sent to its own thread stays its context, and others of the batch do not wait for it", "[why]") {
  const auto code_of = [](bool is_left_over) {
    Server server;
    const uint32_t first = server.Request(1, 80, 200, server.executor),
                   row = server.Request(2, 85, 200, server.executor);
    const uint32_t batch = server.maker.Batch(7, "gpu", server.executor, 100 * kUs, 100 * kUs);
    for (const uint32_t request : {first, row}) {
      server.maker.Member(batch, request, 100 * kUs);
      const uint32_t from = is_left_over ? server.executor : server.http;
      server.maker.trace.handoffs.push_back(
          {request, server.maker.String("q"), from, server.executor, 90 * kUs, 100 * kUs, batch});
    }
    server.Scope(server.executor, server.forward, 100, 200, {first, batch});
    return BlameOf(server.maker.Finish(), row).blame;
  };
  CHECK(code_of(true)[Blame::kHostOncpuFramework] == 100 * kUs);
  CHECK(code_of(true)[Blame::kExecutorBusy] == 0);
  CHECK(code_of(false)[Blame::kExecutorBusy] == 100 * kUs);  // the executor did the other's work alone
}

TEST_CASE("the waits of OpenCL are time on its device, as CUDA's are", "[why]") {
  Server server;
  const uint32_t row = server.OnGpu(200);
  server.Call("clEnqueueNDRangeKernel", 100, 105, {row, kNone});
  server.Gpu("gemm", 105, 150);
  server.Call("clFinish", 105, 150, {row, kNone}, 0);
  server.Call("clEnqueueReadBuffer (blocking)", 150, 200, {row, kNone}, 0);
  server.Gpu("DtoH", 160, 200, 0, GpuKind::kMemcpy);

  const RequestBlame blame = BlameOf(server.maker.Finish(), row);

  CHECK(blame.blame[Blame::kGpuExecExpected] == 45 * kUs);
  CHECK(blame.blame[Blame::kD2h] == 50 * kUs);  // the whole call
  CHECK(blame.blame[Blame::kHostOncpuFramework] == 0);
}

TEST_CASE("a blocking copy on an out-of-order queue of OpenCL is the copy's time, not a launch's", "[why]") {
  Server server;
  const uint32_t row = server.OnGpu(200);
  server.Call("clEnqueueReadBuffer (blocking)", 100, 200, {row, kNone});  // such a queue is not one stream
  server.Gpu("DtoH", 120, 200, 0, GpuKind::kMemcpy);

  const RequestBlame blame = BlameOf(server.maker.Finish(), row);

  CHECK(blame.blame[Blame::kD2h] == 100 * kUs);
  CHECK(blame.blame[Blame::kLaunchApi] == 0);
}

TEST_CASE("a wait for a lock is to blame while OpenCL is paused in a process without its devices", "[why]") {
  const std::unique_ptr<Collector> collector = MakeOpenClCollector();
  REQUIRE(collector->Start().ok());
  const int64_t begin_ns = base::ClockNs(CLOCK_MONOTONIC);
  REQUIRE(collector->Pause().ok());
  collector->Keep(0, KeepFor::kIncident);
  const int64_t end_ns = std::max(base::ClockNs(CLOCK_MONOTONIC), begin_ns + kUs);
  // The pause lies within the request.
  Server server;
  server.maker.trace.window_begin_ns = begin_ns;
  server.maker.trace.window_end_ns = end_ns;
  const uint32_t row = server.maker.Request(1, "/classify", begin_ns, end_ns - begin_ns);
  server.maker.trace.requests[row].begin_thread = server.maker.trace.requests[row].end_thread = server.http;
  server.maker.Event(server.http, server.wait, begin_ns, end_ns - begin_ns, {row, kNone},
                     {static_cast<uint64_t>(WaitKind::kLock), server.maker.String("cache"), 0, 0});
  Trace trace = server.maker.Finish();
  assemble::GpuTables tables(&trace, {}, {});
  tables.BeginCollector(1 << 20, collector->Name());
  collector->AddTo(tables);
  tables.Finish();
  collector->Stop();

  const RequestBlame blame = BlameOf(trace, row);

  CHECK(fakes::Attribute(trace, "opencl.not_recorded").substr(0, 18) == "paused by the host");
  CHECK(SegmentsText(blame, 1) == "host_lock " + std::to_string(end_ns - begin_ns));
  CHECK(blame.losses == 0);
  CHECK(blame.is_reliable);
}

TEST_CASE("a request has its thread from its first call of a GPU's API on, before any scope", "[why]") {
  Server server;
  const uint32_t row = server.Request(1, 100, 200, server.executor);
  server.Call("cudaLaunchKernel", 110, 115, {row, kNone});
  server.Gpu("gemm", 118, 180);
  server.Call("cudaStreamSynchronize", 120, 190, {row, kNone}, 0);
  server.Scope(server.executor, server.forward, 190, 200, {row, kNone});

  CHECK(SegmentsText(BlameOf(server.maker.Finish(), row), 1) ==
        "untraced_or_unexplained 10000; launch_api 5000; launch_latency 3000; gpu_exec_expected 62000; "
        "sync_return 10000; host_oncpu_post 10000");
}

TEST_CASE("a scope around a request's own work is not taken for other work", "[why]") {
  Server server;
  const uint32_t row = server.Request(2, 100, 200, server.http);
  server.Scope(server.http, server.forward, 10, 900, {});
  server.Scope(server.http, server.decode, 130, 200, {row, kNone});

  const RequestBlame blame = BlameOf(server.maker.Finish(), row);

  CHECK(SegmentsText(blame, 1) == "host_oncpu_pre 30000; host_oncpu_pre 70000");
}

TEST_CASE("a request in a batch without a recorded queue waited for its executor's work", "[why]") {
  Server server;
  const uint32_t first = server.Request(1, 50, 160, server.other), row = server.Request(2, 100, 250, server.http);
  const uint32_t before = server.maker.Batch(11, "resnet50", server.executor, 60 * kUs, 90 * kUs);
  const uint32_t own = server.maker.Batch(12, "resnet50", server.executor, 160 * kUs, 70 * kUs);
  server.maker.Member(before, first, 60 * kUs);
  server.maker.Member(own, row, 160 * kUs);
  server.Scope(server.executor, server.forward, 60, 150, {kNone, before});
  server.Scope(server.executor, server.forward, 160, 230, {kNone, own});
  server.Scope(server.http, server.decode, 100, 110, {row, kNone});
  server.Wait(server.http, WaitKind::kFuture, "result", 110, 240, {row, kNone});
  server.Scope(server.http, server.decode, 240, 250, {row, kNone});

  const RequestBlame blame = BlameOf(server.maker.Finish(), row);

  CHECK(SegmentsText(blame, 1) ==
        "host_oncpu_pre 10000; executor_busy 40000; untraced_or_unexplained 10000; "
        "host_oncpu_framework 70000; handoff 10000; host_oncpu_post 10000");
  CHECK(blame.segments[1].by.batch == before);
}

TEST_CASE("a request with a stage after its batch waited for its executor's work until then", "[why]") {
  const auto walk = [](int64_t stage_us, int64_t next_batch_us) {
    Server server;
    const uint32_t row = server.Request(1, 100, 250, server.http);
    const uint32_t own = server.maker.Batch(11, "resnet50", server.executor, 110 * kUs, 90 * kUs);
    server.maker.Batch(12, "resnet50", server.executor, next_batch_us * kUs, 60 * kUs);
    server.maker.Member(own, row, 110 * kUs);
    server.maker.trace.handoffs.push_back(
        {row, server.maker.String("images"), server.http, server.executor, 110 * kUs, 110 * kUs, own});
    server.Scope(server.executor, server.forward, 110, 200, {kNone, own});
    server.Scope(server.executor, server.decode, 200, 235, {});  // hands out results, this one last
    server.maker.trace.requests[row].stages = {{server.maker.String("return"), stage_us * kUs, (250 - stage_us) * kUs}};
    server.Scope(server.http, server.decode, 100, 110, {row, kNone});
    server.Wait(server.http, WaitKind::kFuture, "result", 110, 240, {row, kNone});
    server.Scope(server.http, server.decode, 240, 250, {row, kNone});
    return SegmentsText(BlameOf(server.maker.Finish(), row), 1);
  };
  const std::string before = "host_oncpu_pre 10000; host_oncpu_framework 90000; ";
  CHECK(walk(230, 300) == before + "host_oncpu_post 30000; handoff 10000; host_oncpu_post 10000");
  CHECK(walk(240, 300) == before + "handoff 40000; host_oncpu_post 10000");  // its own thread recorded it
  CHECK(walk(230, 225) == before + "handoff 40000; host_oncpu_post 10000");  // the executor was at work for others
}

TEST_CASE("a thread without a record waited for its batch while that was done elsewhere", "[why]") {
  Server server;
  const uint32_t row = server.Request(2, 100, 250, server.http);
  const uint32_t own = server.maker.Batch(12, "resnet50", server.executor, 130 * kUs, 100 * kUs);
  server.maker.Member(own, row, 130 * kUs);
  server.maker.trace.handoffs.push_back(
      {row, server.maker.String("images"), server.http, server.executor, 110 * kUs, 130 * kUs, own});
  server.Wait(server.executor, WaitKind::kQueue, "images", 50, 130, {});
  server.Scope(server.executor, server.forward, 130, 230, {kNone, own});
  server.Scope(server.http, server.decode, 100, 110, {row, kNone});
  server.Scope(server.http, server.decode, 240, 250, {row, kNone});

  CHECK(SegmentsText(BlameOf(server.maker.Finish(), row), 1) ==
        "host_oncpu_pre 10000; handoff 20000; host_oncpu_framework 100000; untraced_or_unexplained 10000; "
        "host_oncpu_post 10000");
}

TEST_CASE("code that a thread did for another request is a wait for that one, as in a queue", "[why]") {
  for (const bool is_in_batch : {true, false}) {
    Server server;
    const uint32_t other = server.Request(1, 50, 400, server.other), row = server.Request(2, 100, 300, server.executor);
    uint32_t batch = kNone;
    if (is_in_batch) batch = server.maker.Batch(11, "decode", server.executor, 110 * kUs, 150 * kUs);
    if (is_in_batch) server.maker.Member(batch, row, 110 * kUs);
    server.Scope(server.executor, server.decode, 100, 110, {row, kNone});
    server.Scope(server.executor, server.forward, 110, 200, {other, batch});  // its prompt, say
    server.Scope(server.executor, server.forward, 200, 260, {is_in_batch ? kNone : row, batch});
    server.Scope(server.executor, server.decode, 260, 300, {row, kNone});

    const RequestBlame blame = BlameOf(server.maker.Finish(), row);

    CHECK(SegmentsText(blame, 1) ==
          (is_in_batch ? "host_oncpu_pre 10000; executor_busy 90000; host_oncpu_framework 60000; "
                         "host_oncpu_post 40000"
                       : "host_oncpu_pre 10000; queue_wait_others 90000; host_oncpu_pre 60000; host_oncpu_pre 40000"));
    CHECK(blame.segments[1].by.request == other);
    CHECK(blame.segments[1].by.thread == server.executor);
  }
}

TEST_CASE("work of a part of the request on its thread is the request's own", "[why]") {
  Server server;
  const uint32_t row = server.Request(2, 100, 300, server.http), part = server.Request(3, 110, 200, server.http);
  server.maker.trace.requests[part].parent_id = 2;
  server.Scope(server.http, server.decode, 100, 300, {row, kNone});
  server.Scope(server.http, server.forward, 110, 200, {part, kNone});
  const Trace trace = server.maker.Finish();

  CHECK(SegmentsText(BlameOf(trace, row), 1) == "host_oncpu_pre 10000; host_oncpu_pre 90000; host_oncpu_pre 100000");
  CHECK(SegmentsText(BlameOf(trace, part), 1) == "host_oncpu_pre 90000");
}

TEST_CASE("a wait with several finished batches was for the last one to hand out a result", "[why]") {
  // The thread looks only every now and then: a first result came just after it had begun to wait. Or it was notified
  // of the last one, and the batch was over before the request.
  for (const bool is_notified : {false, true}) {
    Server server;
    const uint32_t row = server.Request(2, 100, 320, server.http);
    const uint32_t first = server.maker.Batch(11, "decode", server.executor, 110 * kUs, 30 * kUs);
    const uint32_t last = server.maker.Batch(12, "decode", server.executor, 150 * kUs, (is_notified ? 160 : 200) * kUs);
    server.maker.Member(first, row, 110 * kUs);
    server.maker.Member(last, row, 150 * kUs);
    server.maker.trace.handoffs.push_back(
        {row, server.maker.String("prompts"), server.http, server.executor, 105 * kUs, 110 * kUs, first});
    server.Scope(server.executor, server.forward, 110, 140, {kNone, first});
    server.Scope(server.executor, server.forward, 150, 280, {kNone, last});
    server.Scope(server.http, server.decode, 100, 135, {row, kNone});
    server.Wait(server.http, is_notified ? WaitKind::kCondition : WaitKind::kFuture, "token", 135, 300, {row, kNone},
                is_notified ? 3 : 0);
    server.Scope(server.http, server.decode, 300, 320, {row, kNone});

    CHECK(
        SegmentsText(BlameOf(server.maker.Finish(), row), 1) ==
        "host_oncpu_pre 5000; untraced_or_unexplained 5000; host_oncpu_framework 30000; untraced_or_unexplained 10000; "
        "host_oncpu_framework 130000; handoff 20000; " +
            std::string(is_notified ? "host_oncpu_post 20000" : "host_oncpu_framework 20000"));
  }
}

TEST_CASE("a result handed out before its batch ends is the one waited for", "[why]") {
  for (const bool is_told : {false, true}) {
    Server server;
    const uint32_t row = server.Request(2, 100, 250, server.http);
    const uint32_t own = server.maker.Batch(12, "resnet50", server.executor, 130 * kUs, 170 * kUs);
    server.maker.Member(own, row, 130 * kUs);
    server.maker.trace.handoffs.push_back(
        {row, server.maker.String("images"), server.http, server.executor, 115 * kUs, 130 * kUs, own});
    server.Wait(server.executor, WaitKind::kQueue, "images", 50, 130, {});
    server.Scope(server.executor, server.forward, 135, 230, {kNone, own});
    server.Scope(server.executor, server.decode, 243, 246, {kNone, own});  // for the next member
    server.Scope(server.http, server.decode, 100, 110, {row, kNone});
    if (is_told) server.Wait(server.http, WaitKind::kFuture, "result", 132, 240, {row, kNone});
    server.Scope(server.http, server.decode, 240, 242, {row, kNone});

    const RequestBlame blame = BlameOf(server.maker.Finish(), row);

    const std::string woken = is_told ? "handoff 10000; " : "untraced_or_unexplained 10000; ";
    CHECK(SegmentsText(blame, 1) ==
          "host_oncpu_pre 10000; untraced_or_unexplained 5000; handoff 15000; untraced_or_unexplained 5000; "
          "host_oncpu_framework 95000; " +
              woken + "host_oncpu_framework 2000; untraced_or_unexplained 8000");
    // The thread's work before it handed the request on saves all of its time.
    REQUIRE(blame.detours.size() == 1);
    CHECK(blame.detours[0].begin_ns == 115 * kUs);
    CHECK(blame.detours[0].slack_ns == (is_told ? 98 : 115) * kUs);
  }
}

TEST_CASE("a thread that went on while its batch handed out others' results did not wait for them", "[why]") {
  Server server;
  const uint32_t row = server.Request(2, 100, 300, server.http);
  const uint32_t own = server.maker.Batch(12, "resnet50", server.executor, 130 * kUs, 270 * kUs);
  server.maker.Member(own, row, 130 * kUs);
  server.maker.trace.handoffs.push_back(
      {row, server.maker.String("images"), server.http, server.executor, 115 * kUs, 130 * kUs, own});
  server.Scope(server.executor, server.forward, 130, 200, {kNone, own});
  server.Scope(server.executor, server.decode, 260, 270, {kNone, own});  // for the next member
  server.Scope(server.http, server.decode, 100, 115, {row, kNone});
  server.Scope(server.http, server.decode, 210, 220, {row, kNone});

  const RequestBlame blame = BlameOf(server.maker.Finish(), row);

  CHECK(SegmentsText(blame, 1) ==
        "host_oncpu_pre 15000; untraced_or_unexplained 15000; host_oncpu_framework 70000; "
        "untraced_or_unexplained 10000; host_oncpu_framework 10000; untraced_or_unexplained 80000");
}

TEST_CASE("a thread that looks again and again for a result waits for it in all of its waits", "[why]") {
  Server server;
  const uint32_t row = server.Request(0x8f0c, 0, 1'000, server.http);
  server.Scope(server.http, server.decode, 0, 100, {row, kNone});
  server.Wait(server.http, WaitKind::kFuture, "result", 200, 400, {row, kNone});
  server.Wait(server.http, WaitKind::kIo, "log", 400, 420, {row, kNone});
  server.Wait(server.http, WaitKind::kFuture, "result", 420, 640, {row, kNone});
  server.Scope(server.http, server.decode, 640, 660, {row, kNone});
  server.Wait(server.http, WaitKind::kFuture, "result", 660, 900, {row, kNone});
  server.Scope(server.http, server.decode, 900, 1'000, {row, kNone});
  server.Scope(server.executor, server.forward, 110, 900, {row, kNone});

  const RequestBlame blame = BlameOf(server.maker.Finish(), row);

  REQUIRE(blame.detours.size() == 1);
  CHECK(blame.detours[0].slack_ns == (200 + 220 + 240) * kUs);
}

TEST_CASE("an unrecorded hop to another thread is untraced and blames nobody", "[why]") {
  Server server;
  const uint32_t row = server.Request(2, 100, 200, server.http);
  server.maker.trace.requests[row].end_thread = server.other;
  server.Scope(server.http, server.decode, 100, 130, {row, kNone});
  server.Scope(server.other, server.decode, 100, 155, {});
  server.Scope(server.other, server.decode, 160, 200, {row, kNone});

  CHECK(SegmentsText(BlameOf(server.maker.Finish(), row), 1) ==
        "host_oncpu_pre 30000; untraced_or_unexplained 30000; host_oncpu_pre 40000");
}

TEST_CASE("a condition leads to its notifier, and to nobody if that is unknown", "[why]") {
  for (const bool is_known : {true, false}) {
    Server server;
    const uint32_t row = server.Request(2, 100, 200, server.http);
    server.Scope(server.http, server.decode, 100, 110, {row, kNone});
    server.maker.trace.handoffs.push_back(
        {row, server.maker.String("jobs"), server.http, server.other, 110 * kUs, 120 * kUs, kNone});
    server.Wait(server.other, WaitKind::kQueue, "jobs", 50, 120, {});
    server.Scope(server.other, server.decode, 120, 180, {row, kNone});
    server.Wait(server.http, WaitKind::kCondition, "done", 110, 200, {row, kNone}, is_known ? 2 : 0);

    CHECK(SegmentsText(BlameOf(server.maker.Finish(), row), 1) ==
          (is_known ? "host_oncpu_pre 10000; handoff 10000; host_oncpu_pre 60000; handoff 20000"
                    : "host_oncpu_pre 10000; host_blocked_unknown 90000"));
  }
}

TEST_CASE("a wait in a queue is unexplained if the receiving thread recorded nothing", "[why]") {
  Server server;
  const uint32_t row = server.Request(2, 100, 200, server.http);
  server.maker.trace.requests[row].end_thread = server.other;
  server.Scope(server.http, server.decode, 100, 110, {row, kNone});
  server.maker.trace.handoffs.push_back(
      {row, server.maker.String("jobs"), server.http, server.other, 110 * kUs, 150 * kUs, kNone});
  server.Scope(server.other, server.decode, 150, 200, {row, kNone});

  CHECK(SegmentsText(BlameOf(server.maker.Finish(), row), 1) ==
        "host_oncpu_pre 10000; untraced_or_unexplained 40000; host_oncpu_pre 50000");
}

TEST_CASE("a wait for a condition in a batch that has run nothing yet is for more members", "[why]") {
  for (const bool has_run : {false, true}) {
    Server server;
    const uint32_t row = server.Request(2, 100, 200, server.http);
    server.maker.trace.requests[row].end_thread = server.executor;
    const uint32_t batch = server.maker.Batch(77, "resnet50", server.executor, 110 * kUs, 90 * kUs);
    server.maker.Member(batch, row, 110 * kUs);
    server.Scope(server.http, server.decode, 100, 110, {row, kNone});
    server.maker.trace.handoffs.push_back(
        {row, server.maker.String("jobs"), server.http, server.executor, 110 * kUs, 110 * kUs, batch});
    if (has_run) server.Scope(server.executor, server.decode, 110, 120, {kNone, batch});
    server.Wait(server.executor, WaitKind::kCondition, "batch member", 120, 150, {kNone, batch});
    server.Scope(server.executor, server.forward, 150, 200, {kNone, batch});

    CHECK(SegmentsText(BlameOf(server.maker.Finish(), row), 1) ==
          (has_run ? "host_oncpu_pre 10000; host_oncpu_framework 10000; host_blocked_unknown 30000; "
                     "host_oncpu_framework 50000"
                   : "host_oncpu_pre 10000; untraced_or_unexplained 10000; batch_window 30000; "
                     "host_oncpu_framework 50000"));
  }
}

TEST_CASE("a request is not behind the batch that took it if that batch only waited for a lock", "[why]") {
  for (const bool has_run : {false, true}) {  // otherwise the executor was busy with earlier members
    Server server;
    const uint32_t row = server.Request(2, 100, 200, server.http);
    server.maker.trace.requests[row].end_thread = server.executor;
    const uint32_t own = server.maker.Batch(11, "resnet50", server.executor, 90 * kUs, 110 * kUs);
    server.maker.Member(own, row, 150 * kUs);
    server.maker.trace.handoffs.push_back(
        {row, server.maker.String("jobs"), server.http, server.executor, 110 * kUs, 150 * kUs, own});
    server.Scope(server.http, server.decode, 100, 110, {row, kNone});
    if (has_run) server.Scope(server.executor, server.forward, 90, 105, {kNone, own});
    server.Wait(server.executor, WaitKind::kLock, "batch queue", 105, 150, {kNone, own}, 2);
    server.Scope(server.executor, server.forward, 150, 200, {kNone, own});

    CHECK(SegmentsText(BlameOf(server.maker.Finish(), row), 1) ==
          (has_run ? "host_oncpu_pre 10000; executor_busy 40000; host_oncpu_framework 50000"
                   : "host_oncpu_pre 10000; handoff 40000; host_oncpu_framework 50000"));
  }
}

TEST_CASE("a request waits for a lock that its sender needs to put it into the queue", "[why]") {
  for (const bool is_own : {true, false}) {  // otherwise the sender waits for another request
    Server server;
    const uint32_t holder = server.Request(3, 10, 300, server.other), row = server.Request(2, 100, 200, server.http);
    server.maker.trace.requests[row].end_thread = server.executor;
    server.Scope(server.http, server.decode, 100, 110, {row, kNone});
    server.maker.trace.handoffs.push_back(
        {row, server.maker.String("jobs"), server.http, server.executor, 110 * kUs, 150 * kUs, kNone});
    server.Wait(server.http, WaitKind::kLock, "jobs", 112, 145, {is_own ? row : holder, kNone}, 2, 3);
    server.Wait(server.executor, WaitKind::kQueue, "jobs", 20, 150, {});
    server.Scope(server.executor, server.forward, 150, 200, {row, kNone});

    const RequestBlame blame = BlameOf(server.maker.Finish(), row);

    CHECK(SegmentsText(blame, 1) ==
          (is_own ? "host_oncpu_pre 10000; handoff 2000; host_lock 33000; handoff 5000; host_oncpu_pre 50000"
                  : "host_oncpu_pre 10000; handoff 40000; host_oncpu_pre 50000"));
    if (is_own) CHECK(blame.segments[2].by.request == holder);
  }
}

TEST_CASE("another lock of the sender kept a request out of its queue if it was taken just after", "[why]") {
  for (const int64_t granted_us : {900, 700, 1'120}) {  // and taken at 1,000
    Server server;
    const uint32_t row = server.Request(2, 100, 1'200, server.http);
    server.maker.trace.requests[row].end_thread = server.executor;
    server.Scope(server.http, server.decode, 100, 110, {row, kNone});
    server.maker.trace.handoffs.push_back(
        {row, server.maker.String("jobs"), server.http, server.executor, 110 * kUs, 1'000 * kUs, kNone});
    server.Wait(server.http, WaitKind::kLock, "cache", 110, granted_us, {row, kNone}, 2, 3);
    server.Wait(server.executor, WaitKind::kQueue, "jobs", 20, 1'000, {});
    server.Scope(server.executor, server.forward, 1'000, 1'200, {row, kNone});

    CHECK((BlameOf(server.maker.Finish(), row).blame[Blame::kHostLock] != 0) == (granted_us == 900));
  }
}

TEST_CASE("a thread awaits work if a condition is ended by a sender to its queue", "[why]") {
  for (const bool is_by_sender : {true, false}) {
    Server server;
    const uint32_t other = server.Request(3, 10, 300, server.other), row = server.Request(2, 100, 200, server.http);
    server.maker.trace.requests[row].end_thread = server.executor;
    server.Scope(server.other, server.decode, 10, 300, {other, kNone});
    server.Scope(server.http, server.decode, 100, 110, {row, kNone});
    server.maker.trace.handoffs.push_back(
        {row, server.maker.String("jobs"), server.http, server.executor, 110 * kUs, 150 * kUs, kNone});
    server.Wait(server.executor, WaitKind::kCondition, "work", 20, 150, {}, 1, is_by_sender ? 2 : 3);
    server.Scope(server.executor, server.forward, 150, 200, {row, kNone});

    CHECK(SegmentsText(BlameOf(server.maker.Finish(), row), 1) ==
          (is_by_sender ? "host_oncpu_pre 10000; handoff 40000; host_oncpu_pre 50000"
                        : "host_oncpu_pre 10000; queue_wait_others 40000; host_oncpu_pre 50000"));
  }
}

TEST_CASE("a wait for a queue without a batch is for an object of a pool, not for members", "[why]") {
  Server server;
  const uint32_t row = server.Request(2, 100, 200, server.http);
  server.Scope(server.http, server.decode, 100, 200, {row, kNone});
  server.Wait(server.http, WaitKind::kQueue, "connections", 120, 150, {row, kNone});

  CHECK(SegmentsText(BlameOf(server.maker.Finish(), row), 1) ==
        "host_oncpu_pre 20000; host_blocked_unknown 30000; host_oncpu_pre 50000");
}

TEST_CASE("a lock of an interpreter is a category of its own", "[why]") {
  Server server;
  const uint32_t owner = server.Request(1, 50, 300, server.other), row = server.Request(2, 100, 200, server.http);
  server.Scope(server.other, server.decode, 50, 300, {owner, kNone});
  server.Scope(server.http, server.decode, 100, 200, {row, kNone});
  server.Wait(server.http, WaitKind::kLock, "gil", 120, 150, {row, kNone}, 2, 1);

  const RequestBlame blame = BlameOf(server.maker.Finish(), row);

  CHECK(SegmentsText(blame, 1) == "host_oncpu_pre 20000; host_gil 30000; host_oncpu_pre 50000");
  CHECK(blame.segments[1].by.request == owner);
}

TEST_CASE("an open request is walked from the window's end, and waits in its last queue", "[why]") {
  Server server;
  const uint32_t row = server.Request(2, 900, 901, server.http);
  server.maker.trace.requests[row].duration_ns = kOpen;
  server.maker.trace.requests[row].end_known = false;
  server.maker.trace.requests[row].end_thread = kNone;
  server.Scope(server.http, server.decode, 900, 920, {row, kNone});
  server.maker.trace.handoffs.push_back({row, server.maker.String("jobs"), server.http, kNone, 920 * kUs, 0, kNone});

  CHECK(SegmentsText(BlameOf(server.maker.Finish(), row), 1) == "host_oncpu_pre 20000; queue_wait_others 80000");
}

TEST_CASE("futures that wait for each other in a circle end in unexplained time", "[why]") {
  Server server;
  const uint32_t row = server.Request(2, 100, 200, server.http);
  server.Wait(server.http, WaitKind::kFuture, "a", 100, 200, {row, kNone}, 2);
  server.Wait(server.other, WaitKind::kFuture, "b", 100, 200, {row, kNone}, 1);
  server.maker.trace.handoffs.push_back(
      {row, server.maker.String("q"), server.other, server.http, 150 * kUs, 150 * kUs, kNone});
  server.maker.trace.handoffs.push_back(
      {row, server.maker.String("q"), server.http, server.other, 150 * kUs, 150 * kUs, kNone});

  CHECK(BlameOf(server.maker.Finish(), row).blame.Total() == 100 * kUs);
}

// ---- GPUs

TEST_CASE("a synchronisation leads through the kernel to its launch", "[why]") {
  Server server;
  const uint32_t row = server.OnGpu(200);
  server.Call("cudaLaunchKernel", 110, 115, {row, kNone});
  server.Gpu("gemm", 118, 180);
  server.Call("cudaStreamSynchronize", 120, 190, {row, kNone}, 0);

  const RequestBlame blame = BlameOf(server.maker.Finish(), row);

  CHECK(SegmentsText(blame, 1) ==
        "host_oncpu_pre 10000; launch_api 5000; launch_latency 3000; gpu_exec_expected 62000; "
        "sync_return 10000; host_oncpu_post 10000");
}

TEST_CASE("work of another batch before its own on the stream is named", "[why]") {
  Server server;
  const uint32_t first = server.Request(1, 50, 160, server.other);
  const uint32_t row = server.OnGpu(200);
  const uint32_t batch = server.maker.Batch(11, "segment", server.other, 60 * kUs, 90 * kUs);
  server.maker.Member(batch, first, 60 * kUs);
  server.maker.Call(server.other, "cudaLaunchKernel", 70 * kUs, 5 * kUs, {kNone, batch});
  server.Gpu("segment", 80, 150);
  server.Call("cudaLaunchKernel", 110, 115, {row, kNone});
  server.Gpu("gemm", 152, 180);
  server.Call("cudaStreamSynchronize", 120, 180, {row, kNone}, 0);

  const RequestBlame blame = BlameOf(server.maker.Finish(), row);

  CHECK(SegmentsText(blame, 1) ==
        "host_oncpu_pre 10000; gpu_queue_wait_others 40000; gpu_queue_wait_others 2000; "
        "gpu_exec_expected 28000; host_oncpu_post 20000");
  CHECK(blame.segments[1].by.batch == batch);
  CHECK(blame.segments[1].by.gpu == 0);
}

TEST_CASE("GPU work in its batch for another request alone is a wait for that request", "[why]") {
  Server server;
  const uint32_t other = server.Request(1, 50, 400, server.other), row = server.OnGpu(200);
  const uint32_t batch = server.maker.Batch(11, "decode", server.executor, 100 * kUs, 100 * kUs);
  server.maker.Member(batch, row, 100 * kUs);
  server.Call("cudaLaunchKernel", 110, 115, {other, batch});  // its prompt, say
  server.Gpu("gemm", 118, 150);
  server.Call("cudaLaunchKernel", 116, 120, {kNone, batch});
  server.Gpu("decode", 152, 180);
  server.Call("cudaStreamSynchronize", 120, 180, {kNone, batch}, 0);

  const RequestBlame blame = BlameOf(server.maker.Finish(), row);

  CHECK(SegmentsText(blame, 1) ==
        "host_oncpu_framework 10000; executor_busy 5000; executor_busy 3000; executor_busy 32000; dispatch_gap 2000; "
        "gpu_exec_expected 28000; host_oncpu_framework 20000");
  CHECK(blame.segments[3].by.request == other);
  CHECK(blame.segments[3].by.batch == kNone);
  CHECK(blame.segments[3].by.gpu == 0);
  CHECK(blame.segments[3].gpu == kNone);  // not the request's own
}

TEST_CASE("between its own kernels are gaps: short ones the GPU's, long ones unexplained", "[why]") {
  Server server;
  const uint32_t row = server.OnGpu(300);
  server.Call("cudaLaunchKernel", 101, 102, {row, kNone});
  server.Gpu("first", 103, 120);
  server.Call("cudaLaunchKernel", 104, 105, {row, kNone});
  server.Gpu("second", 130, 140);
  server.Call("cudaLaunchKernel", 106, 107, {row, kNone});
  server.Gpu("third", 190, 300);
  server.Call("cudaDeviceSynchronize", 108, 300, {row, kNone});

  CHECK(SegmentsText(BlameOf(server.maker.Finish(), row), 1) ==
        "host_oncpu_pre 1000; launch_api 1000; launch_latency 1000; gpu_exec_expected 17000; dispatch_gap 10000; "
        "gpu_exec_expected 10000; untraced_or_unexplained 50000; gpu_exec_expected 110000");
}

TEST_CASE("another request's work on another stream is not waited for", "[why]") {
  for (const bool is_told : {true, false}) {
    Server server;
    const uint32_t row = server.OnGpu(300);
    const uint32_t theirs = server.Request(0xbeef, 101, 400, server.other);
    server.Call("cudaLaunchKernel", 101, 102, {theirs, kNone});
    server.Call("cudaLaunchKernel", 103, 104, {row, kNone});
    server.Call(is_told ? "cudaStreamSynchronize" : "cudaEventSynchronize", 110, 298, {row, kNone},
                is_told ? 0 : kNone);
    server.maker.Gpu(0, GpuKind::kKernel, "own", 105 * kUs, 170 * kUs, 1);
    server.maker.Gpu(1, GpuKind::kKernel, "another's", 105 * kUs, 190 * kUs, 0);

    const RequestBlame blame = BlameOf(server.maker.Finish(), row);

    CHECK(blame.blame[Blame::kGpuQueueWaitOthers] == 0);
    CHECK(blame.blame[Blame::kGpuExecExpected] == 170 * kUs);
    CHECK(blame.blame[Blame::kSyncReturn] == 23 * kUs);
  }
}

TEST_CASE("work on another stream that ends just before an operation of usual delay is not its cause", "[why]") {
  const auto walk = [](int64_t first_until_us, int64_t launched_us, bool is_theirs) {
    Server server;
    const uint32_t row = server.OnGpuBesideAnother(first_until_us, launched_us, 160).own;
    server.maker.Gpu(1, GpuKind::kKernel, "beside", 110 * kUs, 48 * kUs, is_theirs ? 0 : 1);
    return SegmentsText(BlameOf(server.maker.Finish(), row), 1);
  };
  for (const bool is_theirs : {false, true}) {
    CHECK(walk(150, 104, is_theirs) ==
          "host_oncpu_pre 1000; launch_api 1000; launch_latency 1000; gpu_exec_expected 47000; dispatch_gap 10000; "
          "gpu_exec_expected 40000");
    CHECK(walk(150, 151, is_theirs) ==
          "host_oncpu_pre 1000; launch_api 1000; host_oncpu_framework 49000; launch_api 1000; launch_latency 8000; "
          "gpu_exec_expected 40000");
  }
  CHECK(walk(120, 104, false) ==  // its own may have let it begin
        "host_oncpu_pre 1000; launch_api 1000; launch_latency 8000; gpu_exec_expected 48000; dispatch_gap 2000; "
        "gpu_exec_expected 40000");
  CHECK(walk(120, 104, true) ==  // it had no room before
        "host_oncpu_pre 1000; launch_api 1000; launch_latency 1000; gpu_exec_expected 17000; "
        "gpu_queue_wait_others 40000; gpu_exec_expected 40000");
}

TEST_CASE("kernels do not wait for copies of another stream, nor copies for those in the other direction", "[why]") {
  const auto others_ns = [](const char* own, GpuKind own_kind, const char* beside, GpuKind kind) {
    Server server;
    const uint32_t row = server.OnGpuBesideAnother(120, 104, 190, own, own_kind).own;
    server.maker.Gpu(1, kind, beside, 110 * kUs, 85 * kUs, 0);
    return BlameOf(server.maker.Finish(), row).blame[Blame::kGpuQueueWaitOthers];
  };
  const char *const in = "HtoD, pinned to device", *const out = "DtoH, device to pinned";
  CHECK(others_ns("gemm", GpuKind::kKernel, "wide", GpuKind::kKernel) == 70 * kUs);
  CHECK(others_ns("gemm", GpuKind::kKernel, in, GpuKind::kMemcpy) == 0);
  CHECK(others_ns(in, GpuKind::kMemcpy, in, GpuKind::kMemcpy) == 70 * kUs);
  CHECK(others_ns(in, GpuKind::kMemcpy, out, GpuKind::kMemcpy) == 0);
  CHECK(others_ns(in, GpuKind::kMemcpy, "wide", GpuKind::kKernel) == 0);
}

TEST_CASE("an operation that does not begin while another stream's work is on the device waits for room there",
          "[why]") {
  const auto walk = [](int64_t launched_us, int64_t theirs_begin_us, int64_t theirs_end_us, bool is_theirs) {
    Server server;
    const auto [theirs, row] = server.OnGpuBesideAnother(120, launched_us, 190);
    server.maker.Gpu(1, GpuKind::kKernel, "wide", theirs_begin_us * kUs, (theirs_end_us - theirs_begin_us) * kUs,
                     is_theirs ? 0 : 1);
    const RequestBlame blame = BlameOf(server.maker.Finish(), row);
    for (const BlameSegment& segment : blame.segments) {
      if (segment.blame == Blame::kGpuQueueWaitOthers) CHECK(segment.by.request == theirs);
    }
    return SegmentsText(blame, 1);
  };
  const std::string before = "host_oncpu_pre 1000; launch_api 1000; launch_latency 1000; gpu_exec_expected 17000; ";
  CHECK(walk(104, 110, 240, true) == before + "gpu_queue_wait_others 70000; gpu_exec_expected 10000");
  CHECK(walk(104, 110, 150, true) ==
        before + "gpu_queue_wait_others 30000; untraced_or_unexplained 40000; gpu_exec_expected 10000");
  CHECK(walk(104, 110, 240, false) == before + "untraced_or_unexplained 70000; gpu_exec_expected 10000");  // its own
  CHECK(
      walk(129, 130, 240, true) ==
      "host_oncpu_pre 1000; launch_api 1000; host_oncpu_framework 27000; launch_api 1000; gpu_queue_wait_others 60000; "
      "gpu_exec_expected 10000");
  CHECK(walk(174, 100, 240, true) ==  // with the usual delay
        "host_oncpu_pre 1000; launch_api 1000; host_oncpu_framework 72000; launch_api 1000; launch_latency 15000; "
        "gpu_exec_expected 10000");
}

TEST_CASE("a delay of the work before its own on the stream is blamed on the same culprit", "[why]") {
  Server server;
  const uint32_t third = server.Request(1, 40, 400, server.http);
  const uint32_t theirs = server.Request(2, 50, 160, server.other);
  const uint32_t row = server.OnGpu(180);
  server.maker.Call(server.http, "cudaLaunchKernel", 60 * kUs, kUs, {third, kNone});
  server.maker.Call(server.other, "cudaLaunchKernel", 70 * kUs, kUs, {theirs, kNone});
  server.maker.Call(server.other, "cudaLaunchKernel", 72 * kUs, kUs, {theirs, kNone});
  server.Call("cudaLaunchKernel", 110, 115, {row, kNone});
  server.maker.Gpu(0, GpuKind::kKernel, "theirs", 80 * kUs, 10 * kUs, 1);
  server.maker.Gpu(0, GpuKind::kKernel, "theirs", 140 * kUs, 10 * kUs, 2);
  server.Gpu("gemm", 152, 180);
  server.maker.Gpu(1, GpuKind::kKernel, "wide", 85 * kUs, 60 * kUs, 0);
  server.Call("cudaStreamSynchronize", 120, 180, {row, kNone}, 0);

  const RequestBlame blame = BlameOf(server.maker.Finish(), row);

  CHECK(SegmentsText(blame, 1) ==
        "host_oncpu_pre 10000; gpu_queue_wait_others 30000; gpu_queue_wait_others 10000; gpu_queue_wait_others 2000; "
        "gpu_exec_expected 28000");
  CHECK(blame.segments[1].by.request == third);
  CHECK(blame.segments[2].by.request == theirs);
}

TEST_CASE("copies, sets and collectives have categories of their own", "[why]") {
  Server server;
  const uint32_t row = server.OnGpu(200);
  server.Call("cudaMemcpyAsync", 101, 102, {row, kNone});
  server.Gpu("HtoD, pageable to device", 103, 113, 0, GpuKind::kMemcpy);
  server.Call("cudaMemsetAsync", 102, 103, {row, kNone});
  server.Gpu("memset", 113, 118, 0, GpuKind::kMemset);
  server.Call("cudaLaunchKernel", 103, 104, {row, kNone});
  server.Gpu("ncclDevKernel_AllReduce_Sum_f32", 118, 148);
  server.Call("cudaMemcpy", 105, 190, {row, kNone});
  server.Gpu("DtoH, device to pageable", 148, 188, 0, GpuKind::kMemcpy);

  const RequestBlame blame = BlameOf(server.maker.Finish(), row);

  CHECK(blame.blame[Blame::kH2d] == 11 * kUs);
  CHECK(blame.blame[Blame::kD2dMemset] == 5 * kUs);
  CHECK(blame.blame[Blame::kCommExposed] == 30 * kUs);
  CHECK(blame.blame[Blame::kD2h] == 42 * kUs);
  CHECK(blame.blame[Blame::kLaunchApi] == 0);  // only copies that are waited for were launched
}

TEST_CASE("a cudaMalloc is an allocation's own time; a cudaFree first waits for the GPU", "[why]") {
  Server server;
  const uint32_t row = server.OnGpu(300);
  server.Call("cudaLaunchKernel", 101, 102, {row, kNone});
  server.Gpu("gemm", 103, 160);
  server.Call("cudaMalloc", 110, 140, {row, kNone});
  server.Call("cudaFree", 150, 290, {row, kNone});

  CHECK(SegmentsText(BlameOf(server.maker.Finish(), row), 1) ==
        "host_oncpu_pre 1000; launch_api 1000; launch_latency 1000; gpu_exec_expected 57000; alloc_stall 130000; "
        "host_oncpu_post 10000");
}

TEST_CASE("a cudaMalloc while the GPU works does not wait for it", "[why]") {
  Server server;
  const uint32_t row = server.OnGpu(200);
  server.Call("cudaLaunchKernel", 101, 102, {row, kNone});
  server.Gpu("gemm", 103, 120);
  server.Call("cudaMalloc", 110, 150, {row, kNone});

  CHECK(BlameOf(server.maker.Finish(), row).blame[Blame::kAllocStall] == 40 * kUs);
}

TEST_CASE("a launch that loaded a module is blamed on loading", "[why]") {
  Server server;
  const uint32_t row = server.OnGpu(200);
  server.Call("cudaLaunchKernel", 110, 170, {row, kNone});
  server.Gpu("gemm", 172, 180);
  server.Call("cudaStreamSynchronize", 171, 180, {row, kNone}, 0);
  server.maker.trace.overheads.push_back({120 * kUs, 45 * kUs, server.maker.String("lazy function loading")});

  CHECK(SegmentsText(BlameOf(server.maker.Finish(), row), 1) ==
        "host_oncpu_pre 10000; launch_api 10000; lazy_load_jit 45000; launch_api 5000; launch_latency 2000; "
        "gpu_exec_expected 8000; host_oncpu_post 20000");
}

TEST_CASE("a call that only loads or compiles code is blamed on loading", "[why]") {
  const auto walk = [](const char* name) {
    Server server;
    const uint32_t row = server.OnGpu(200);
    server.Call(name, 110, 150, {row, kNone});
    return SegmentsText(BlameOf(server.maker.Finish(), row), 1);
  };
  for (const char* name : {"cuLibraryLoadData", "cuModuleLoadDataEx", "cudaLibraryLoadData", "cuLibraryGetKernel",
                           "cuKernelGetFunction", "nvrtcCompileProgram"}) {
    CAPTURE(name);
    CHECK(walk(name) == "host_oncpu_pre 10000; lazy_load_jit 40000; host_oncpu_post 50000");
  }
  CHECK(walk("cuModuleGetLoadingMode") == "host_oncpu_pre 10000; host_oncpu_framework 40000; host_oncpu_post 50000");
}

TEST_CASE("a kernel's first launch that is longer than later ones loaded its code", "[why]") {
  const auto walk = [](int64_t first_us, int launches) {
    Server server;
    const uint32_t row = server.OnGpu(900);
    for (int64_t i = 0; i < launches; ++i) {
      const int64_t begin_us = i == 0 ? 110 : 500 + 20 * i;
      server.Call("cudaLaunchKernel", begin_us, begin_us + (i == 0 ? first_us : 2), {row, kNone});
      server.Gpu("gemm", begin_us + (i == 0 ? first_us : 2) + 1, begin_us + (i == 0 ? first_us : 2) + 2);
    }
    const RequestBlame blame = BlameOf(server.maker.Finish(), row);
    return std::pair(blame.blame[Blame::kLazyLoadJit] / kUs, blame.blame[Blame::kLaunchApi] / kUs);
  };
  CHECK(walk(302, 6) == std::pair<int64_t, int64_t>(300, 12));
  CHECK(walk(199, 6) == std::pair<int64_t, int64_t>(0, 209));  // may be anything
  CHECK(walk(302, 4) == std::pair<int64_t, int64_t>(0, 308));  // the usual length is unknown
}

TEST_CASE("a kernel is new if calls were recorded before its first launch for longer than it ever pauses", "[why]") {
  const auto is_new = [](int64_t first_us, int64_t every_us, int64_t deep_since_us) {
    Server server;
    const uint32_t row = server.OnGpu(900);
    server.Call("cudaGetDevice", 101, 102, {row, kNone});
    for (int64_t i = 0; i < 6; ++i) {
      const int64_t begin_us = first_us + (i == 0 ? 0 : 300 + i * every_us);
      server.Call("cudaLaunchKernel", begin_us, begin_us + (i == 0 ? 302 : 2), {row, kNone});
      server.Gpu("gemm", begin_us + (i == 0 ? 303 : 3), begin_us + (i == 0 ? 304 : 4));
    }
    if (deep_since_us != 0)
      server.maker.trace.depths = {{0, deep_since_us * kUs, Depth::kScopes},
                                   {deep_since_us * kUs, 1'000 * kUs, Depth::kKernels}};
    const auto launches = blame::SlowFirstLaunches(server.maker.Finish(), 200'000);
    REQUIRE(launches.size() == 1);
    return launches[0].is_new;
  };
  CHECK(is_new(450, 20, 0));
  CHECK(!is_new(250, 20, 0));    // 149 us after the first call, and it paused for 320
  CHECK(!is_new(450, 20, 200));  // 250 us after recording began
  CHECK(is_new(450, 20, 120));
}

TEST_CASE("unusually long code that ends in loading code made that code", "[why]") {
  const auto walk = [](const char* call, int64_t usual_us, int64_t last_us) {
    Server server;
    server.maker.trace.window_end_ns = 10'000 * kUs;
    const uint32_t row = server.OnGpu(9'000);
    int64_t at_us = 100;
    for (int64_t i = 0; i < 5; ++i) {
      at_us += usual_us;
      server.Call("cudaLaunchKernel", at_us, at_us + 1, {row, kNone});
      server.Gpu("gemm", at_us + 1, at_us + 2);
      ++at_us;
    }
    at_us += last_us;
    server.Call(call, at_us, at_us + 10, {row, kNone});
    server.Call("cudaLaunchKernel", at_us + 12, at_us + 13, {row, kNone});
    server.Gpu("digamma", at_us + 14, at_us + 20);
    for (int64_t i = 0; i < 5; ++i)  // the rest of its code has its usual length
      server.Call("cudaGetDevice", at_us + 20 + (i + 1) * usual_us, at_us + 21 + (i + 1) * usual_us, {row, kNone});
    const Trace trace = server.maker.Finish();
    BlameIndex index;
    REQUIRE(BlameIndex::Make(trace, {}, &index).ok());
    const RequestBlame blame = BlameOf(trace, row);
    analyze::Cause cause;
    for (uint32_t i = 0; i < blame.segments.size(); ++i) {
      if (blame.segments[i].end_ns == at_us * kUs) cause.longest = {i};
    }
    return std::pair(blame.blame[Blame::kLazyLoadJit] / kUs, EvidenceText(index, blame, cause));
  };
  using Found = std::pair<int64_t, std::string>;
  const std::string where = "in \"forward\" on executor";
  CHECK(walk("cuModuleLoadData", 20, 5'000) == Found(5'010, where + "; first use of digamma"));
  CHECK(walk("cuModuleLoadData", 20, 190) == Found(10, where));        // the call alone: its code may be anything
  CHECK(walk("cuModuleLoadData", 300, 250) == Found(10, where));       // as long as ever
  CHECK(walk("cudaFuncGetAttributes", 20, 5'000) == Found(0, where));  // loads nothing
}

TEST_CASE("code that outlasts its request, and loads code only then, is not blamed on loading", "[why]") {
  Server server;
  const uint32_t row = server.Request(0x8f0c, 120, 500, server.executor);
  server.Scope(server.executor, server.forward, 100, 900, {row, kNone});
  for (int64_t i = 0; i < 5; ++i) server.Call("cudaGetDevice", 100 + 4 * i, 101 + 4 * i, {kNone, kNone});
  server.Call("cuModuleLoadData", 700, 710, {kNone, kNone});
  const Trace trace = server.maker.Finish();
  REQUIRE(BlameOf(trace, row).blame[Blame::kLazyLoadJit] == 0);
  Trace later = trace;
  later.requests[row].duration_ns = 650 * kUs;
  CHECK(BlameOf(later, row).blame[Blame::kLazyLoadJit] == 590 * kUs);
}

TEST_CASE("unusually long code before a kernel's first launch is named its first use", "[why]") {
  const auto evidence = [](const char* kernel) {
    Server server;
    const uint32_t row = server.OnGpu(990);
    for (int64_t i = 0; i < 5; ++i) {
      server.Call("cudaLaunchKernel", 120 + 20 * i, 121 + 20 * i, {row, kNone});
      server.Gpu("gemm", 122 + 20 * i, 123 + 20 * i);
    }
    server.Call("cudaLaunchKernel", 700, 701, {row, kNone});
    server.Gpu(kernel, 702, 710);
    const Trace trace = server.maker.Finish();
    BlameIndex index;
    REQUIRE(BlameIndex::Make(trace, {}, &index).ok());
    const RequestBlame blame = BlameOf(trace, row);
    CHECK(blame.blame[Blame::kLazyLoadJit] == 0);  // nobody says that it loads code
    analyze::Cause cause;
    for (uint32_t i = 0; i < blame.segments.size(); ++i) {
      if (blame.segments[i].end_ns == 700 * kUs) cause.longest = {i};
    }
    return EvidenceText(index, blame, cause);
  };
  CHECK(evidence("conv") == "in \"forward\" on executor; first use of conv");
  CHECK(evidence("gemm") == "in \"forward\" on executor");
}

TEST_CASE("code of an operator is not a first use for being longer than code of another operator", "[why]") {
  const auto evidence = [](const char* slow, int64_t usual_us) {
    Server server;
    server.maker.trace.window_end_ns = 100'000 * kUs;
    const uint32_t row = server.Request(0x8f0c, 100, 90'000, server.executor);
    const uint32_t site = server.maker.Site(SiteKind::kOperator, "operator", {{"name", ArgType::kName}});
    server.maker.trace.sites[site].name_is_first_arg = true;
    int64_t at_us = 1'000, last_us = 0;
    const auto run = [&](const char* name, int64_t code_us, const char* kernel) {
      server.maker.Event(server.executor, site, at_us * kUs, (code_us + 1) * kUs, {row, kNone},
                         {server.maker.String(name)});
      last_us = at_us + code_us;
      server.Call("cudaLaunchKernel", last_us, last_us + 1, {row, kNone});
      server.Gpu(kernel, last_us + 2, last_us + 3);
      at_us = last_us + 10;
    };
    for (int64_t i = 0; i < 1'000; ++i) run("relu", 20, "relu");
    for (int64_t i = 0; i < 5; ++i) run("conv", usual_us, "gemm");
    run(slow, 1'000, "winograd");
    const Trace trace = server.maker.Finish();
    BlameIndex index;
    REQUIRE(BlameIndex::Make(trace, {}, &index).ok());
    const RequestBlame blame = BlameOf(trace, row);
    analyze::Cause cause;
    for (uint32_t i = 0; i < blame.segments.size(); ++i) {
      if (blame.segments[i].end_ns == last_us * kUs) cause.longest = {i};
    }
    return EvidenceText(index, blame, cause);
  };
  CHECK(evidence("conv", 1'000) == "in \"conv\" on executor");  // as ever
  CHECK(evidence("conv", 100) == "in \"conv\" on executor; first use of winograd");
  CHECK(evidence("relu", 1'000) == "in \"relu\" on executor; first use of winograd");
}

TEST_CASE("a thread's unusually long first batch of a size is named as such", "[why]") {
  const auto evidence = [](int64_t first_us, uint32_t members) {
    Server server;
    std::vector<uint32_t> rows;
    for (int64_t i = 0; i < 6; ++i) {
      const int64_t begin_us = i == 0 ? 0 : 600 + 50 * i;
      rows.push_back(
          server.Request(static_cast<uint64_t>(i) + 1, begin_us, begin_us + (i == 0 ? first_us : 40), server.executor));
    }
    for (int64_t i = 0; i < 6; ++i) {
      const int64_t begin_us = i == 0 ? 0 : 600 + 50 * i, length_us = i == 0 ? first_us : 40;
      const auto batch = static_cast<uint32_t>(server.maker.trace.batches.size());
      server.maker.Batch(static_cast<uint64_t>(i) + 1, "resnet", server.executor, begin_us * kUs, length_us * kUs);
      for (uint32_t m = 0; m < (i == 0 ? members : 2); ++m)
        server.maker.Member(batch, rows[static_cast<size_t>(i)], begin_us * kUs);
      server.Scope(server.executor, server.forward, begin_us, begin_us + length_us,
                   {rows[static_cast<size_t>(i)], batch});
    }
    const Trace trace = server.maker.Finish();
    BlameIndex index;
    REQUIRE(BlameIndex::Make(trace, {}, &index).ok());
    const RequestBlame blame = BlameOf(trace, rows[0]);
    analyze::Cause cause;
    cause.longest = {static_cast<uint32_t>(blame.segments.size() - 1)};
    return EvidenceText(index, blame, cause);
  };
  CHECK(evidence(400, 2) == "in \"forward\" on executor; its thread's first batch of 2");
  CHECK(evidence(400, 4) == "in \"forward\" on executor; its thread's first batch of 4");  // next to smaller ones
  CHECK(evidence(400, 40) == "in \"forward\" on executor");  // these would have taken as long
  CHECK(evidence(190, 2) == "in \"forward\" on executor");
}

TEST_CASE("a device that stands still after an allocation delays the next launched work", "[why]") {
  struct Case {
    const char* call;
    int64_t free_end_us, gpu_us;
    bool is_busy;
    uint32_t devices = 1;
  };
  const auto walk = [](const Case& of, Culprit* by) {
    Server server;
    server.maker.trace.devices.resize(of.devices);
    const uint32_t row = server.OnGpu(900);
    if (by != nullptr) server.maker.Call(server.http, of.call, 150 * kUs, (of.free_end_us - 150) * kUs, {});
    server.Call("cudaLaunchKernel", 101, 102, {row, kNone});
    server.Gpu("gemm", 103, 104);
    if (by == nullptr) server.Call(of.call, 150, of.free_end_us, {row, kNone});
    server.Call("cudaLaunchKernel", of.free_end_us + 10, of.free_end_us + 11, {row, kNone});
    server.Gpu("gemm", of.gpu_us, of.gpu_us + 10);
    server.Call("cudaStreamSynchronize", of.free_end_us + 12, of.gpu_us + 10, {row, kNone}, 0);
    if (of.is_busy) server.maker.Gpu(1, GpuKind::kKernel, "foreign", 103 * kUs, (of.gpu_us - 133) * kUs, kNone);
    const RequestBlame blame = BlameOf(server.maker.Finish(), row);
    for (const BlameSegment& segment : blame.segments) {
      if (by != nullptr && segment.blame == Blame::kAllocStall && segment.by.IsKnown()) *by = segment.by;
    }
    return std::pair(blame.blame[Blame::kAllocStall] / kUs, blame.blame[Blame::kLaunchLatency] / kUs);
  };
  using Parts = std::pair<int64_t, int64_t>;
  CHECK(walk({"cudaFree", 250, 400, false}, nullptr) == Parts(100 + 139, 0));
  CHECK(walk({"cudaMalloc", 250, 400, false}, nullptr) == Parts(100 + 139, 0));
  CHECK(walk({"cudaFree", 250, 280, false}, nullptr) == Parts(100, 19));        // as late as anything is
  CHECK(walk({"cudaFree", 250, 460, false}, nullptr) == Parts(100, 199));       // too long after it
  CHECK(walk({"cudaFree", 250, 400, true}, nullptr).first == 100);              // the device was at work
  CHECK(walk({"cudaFreeAsync", 250, 400, false}, nullptr) == Parts(100, 139));  // in the order of a stream
  CHECK(walk({"cudaFree", 250, 400, false, 2}, nullptr) == Parts(100 + 139, 0));
  Culprit by;
  CHECK(walk({"cudaFree", 250, 400, false}, &by) == Parts(139, 0));
  CHECK(by.thread == 0);
  CHECK(walk({"cudaFree", 250, 400, false, 2}, &by) == Parts(0, 139));  // of the other device, perhaps
}

TEST_CASE("a device may stand still after another's allocation between two operations of a request, too", "[why]") {
  const auto walk = [](const char* call) {
    Server server;
    const uint32_t row = server.OnGpu(900);
    server.maker.Call(server.http, call, 105 * kUs, 145 * kUs, {});
    for (int64_t i = 0; i < 2; ++i) {
      server.Call("cudaLaunchKernel", 101 + 2 * i, 102 + 2 * i, {row, kNone});
      server.Gpu("gemm", 110 + 290 * i, 120 + 290 * i);
    }
    server.Call("cudaStreamSynchronize", 106, 410, {row, kNone}, 0);
    const RequestBlame blame = BlameOf(server.maker.Finish(), row);
    return std::pair(blame.blame[Blame::kAllocStall] / kUs, blame.blame[Blame::kUntraced] / kUs);
  };
  CHECK(walk("cudaFree") == std::pair<int64_t, int64_t>(280, 0));
  CHECK(walk("cudaEventQuery") == std::pair<int64_t, int64_t>(0, 280));
}

TEST_CASE("a launch that took long while another thread was in the driver names that thread", "[why]") {
  const auto culprit = [](const char* call, int64_t end_us, int64_t launch_us) {
    Server server;
    const uint32_t row = server.OnGpu(900);
    server.maker.Call(server.http, call, 205 * kUs, (end_us - 205) * kUs, {});
    for (int64_t i = 0; i < 9; ++i) {
      const int64_t begin_us = i < 8 ? 110 + 10 * i : 200;
      server.Call("cudaLaunchKernel", begin_us, begin_us + (i < 8 ? 2 : launch_us), {row, kNone});
    }
    const RequestBlame blame = BlameOf(server.maker.Finish(), row);
    uint32_t thread = kNone;
    for (const BlameSegment& segment : blame.segments) {
      if (segment.blame == Blame::kLaunchApi && segment.by.IsKnown()) thread = segment.by.thread;
    }
    return thread;
  };
  CHECK(culprit("cudaMalloc", 290, 100) == 0);
  CHECK(culprit("cudaMemcpy", 290, 100) == 0);
  CHECK(culprit("cudaMalloc", 280, 100) == kNone);             // three quarters of it
  CHECK(culprit("cudaMalloc", 216, 16) == kNone);              // not longer than eight launches
  CHECK(culprit("cudaStreamSynchronize", 290, 100) == kNone);  // holds up no launch
}

TEST_CASE("a slow call for a kernel that waited for the driver's lock names the thread that had it", "[why]") {
  const auto culprit = [](const char* call, int64_t begin_us, Blame blame) {
    Server server;
    const uint32_t row = server.OnGpu(900);
    server.maker.Call(server.http, call, begin_us * kUs, 90 * kUs, {});
    server.Call("__cudaGetKernel (loading)", 200, 300, {row, kNone});
    const RequestBlame found = BlameOf(server.maker.Finish(), row);
    CHECK(found.blame[blame] == 100 * kUs);
    uint32_t thread = kNone;
    for (const BlameSegment& segment : found.segments) {
      if (segment.blame == blame) thread = segment.by.thread;
    }
    return thread;
  };
  CHECK(culprit("cudaMalloc", 205, Blame::kLaunchApi) == 0);
  CHECK(culprit("cudaMalloc", 250, Blame::kLazyLoadJit) == kNone);             // half of it
  CHECK(culprit("cuModuleLoadData", 199, Blame::kLazyLoadJit) == kNone);       // not known to hold up others
  CHECK(culprit("cudaStreamSynchronize", 205, Blame::kLazyLoadJit) == kNone);  // holds up no call
}

TEST_CASE("a launch kept out of the driver by another's copy waited for the same work", "[why]") {
  const auto walk = [](bool is_own, bool is_launch_waited_for, const char* call,
                       const char* late = "cudaLaunchKernel") {
    Server server;
    const uint32_t theirs = server.Request(1, 50, 400, server.http);
    const uint32_t third = server.Request(2, 50, 400, server.other);
    const uint32_t row = server.OnGpu(320);
    server.maker.Call(server.http, call, 205 * kUs, 85 * kUs, {theirs, kNone});
    server.maker.Call(server.http, call, 292 * kUs, 20 * kUs, {theirs, kNone});
    server.maker.Call(server.other, "cudaLaunchKernel", 60 * kUs, kUs, {third, kNone});
    for (int64_t i = 0; i < 8; ++i) server.Call("cudaLaunchKernel", 110 + 10 * i, 112 + 10 * i, {row, kNone});
    const auto first = static_cast<uint32_t>(server.maker.trace.calls.size() - 8);
    server.maker.Gpu(0, GpuKind::kKernel, "long", 115 * kUs, 165 * kUs, is_own ? first : 2);
    server.maker.Gpu(0, GpuKind::kMemcpy, "device to pageable", 282 * kUs, 3 * kUs, 0);
    server.Call(late, 200, 295, {row, kNone});
    if (is_launch_waited_for) {
      server.Gpu("gemm", 310, 313, 1);
      server.Call("cudaStreamSynchronize", 297, 314, {row, kNone}, 1);
    }
    return BlameOf(server.maker.Finish(), row);
  };
  for (const bool is_launch_waited_for : {true, false}) {
    const RequestBlame blame = walk(false, is_launch_waited_for, "cudaMemcpy");
    CHECK(blame.blame[Blame::kGpuQueueWaitOthers] == 85 * kUs);  // from the launch until the copy was done
    CHECK(blame.blame[Blame::kLaunchApi] == (16 + 10) * kUs);
    const auto longest = std::max_element(
        blame.segments.begin(), blame.segments.end(), [](const BlameSegment& a, const BlameSegment& b) {
          const auto ns = [](const BlameSegment& of) {
            return of.blame == Blame::kGpuQueueWaitOthers ? of.end_ns - of.begin_ns : 0;
          };
          return ns(a) < ns(b);
        });
    CHECK(longest->by.request == 1);  // the third one's row
  }
  // Pitot's record of an event waits as launches do.
  CHECK(walk(false, false, "cudaMemcpy", "CudaEventScope").blame[Blame::kGpuQueueWaitOthers] == 85 * kUs);
  // It waited for its own, until the launch of that.
  const RequestBlame own = walk(true, false, "cudaMemcpy");
  CHECK(own.blame[Blame::kGpuExecExpected] == 165 * kUs);
  CHECK(own.blame[Blame::kGpuQueueWaitOthers] == 5 * kUs);
  // An allocation waits for nothing on a GPU.
  CHECK(walk(false, false, "cudaMalloc").blame[Blame::kLaunchApi] == (16 + 95) * kUs);
}

TEST_CASE("code between calls that went on when another's copy left the driver waited for that copy", "[why]") {
  struct Case {
    int64_t next_us = 400, copied_us = 385;
    const char* call = "cudaMemcpy";
    bool is_after_call = true, is_before_call = true;
  };
  const auto waited_us = [](const Case& of) {
    Server server;
    const uint32_t theirs = server.Request(1, 50, 700, server.http);
    const uint32_t third = server.Request(2, 50, 700, server.other);
    const int64_t end_us = of.is_before_call ? 500 : of.next_us;
    const uint32_t row = server.OnGpu(end_us);
    server.maker.Call(server.http, of.call, 113 * kUs, (of.copied_us - 113) * kUs, {theirs, kNone});
    server.maker.Call(server.other, "cudaLaunchKernel", 60 * kUs, kUs, {third, kNone});
    if (of.is_after_call) server.Call("cudaLaunchKernel", 110, 112, {row, kNone});
    if (of.is_before_call) server.Call("cudaLaunchKernel", of.next_us, of.next_us + 2, {row, kNone});
    const int64_t done_us = std::min(of.copied_us, of.next_us) - 2;
    server.maker.Gpu(0, GpuKind::kKernel, "long", 112 * kUs, (done_us - 5 - 112) * kUs, 1);
    server.maker.Gpu(0, GpuKind::kMemcpy, "device to pageable", (done_us - 3) * kUs, 3 * kUs, 0);
    const RequestBlame blame = BlameOf(server.maker.Finish(), row);
    CHECK(blame.blame.Total() == (end_us - 100) * kUs);
    return blame.blame[Blame::kGpuQueueWaitOthers] / kUs;
  };
  CHECK(waited_us({}) == 271);                           // from the call before it until the copy was done
  CHECK(waited_us({400, 345}) == 0);                     // it went on long after that
  CHECK(waited_us({400, 420}) == 0);                     // before that
  CHECK(waited_us({250, 245}) == 0);                     // as short as other code
  CHECK(waited_us({400, 385, "cudaMalloc"}) == 0);       // waits for no GPU
  CHECK(waited_us({400, 385, "cudaEventRecord"}) == 0);  // holds nobody up
  CHECK(waited_us({400, 385, "cudaMemcpy", false}) == 0);
  CHECK(waited_us({400, 385, "cudaMemcpy", true, false}) == 0);
}

TEST_CASE("a kernel's excess is its overlap with others' work, and the rest is unknown", "[why]") {
  Server server;
  const uint32_t row = server.OnGpu(900);
  server.maker.Call(server.other, "cudaLaunchKernel", 400 * kUs, kUs, {});
  for (int64_t i = 0; i < 30; ++i) {
    server.Call("cudaLaunchKernel", 101 + i, 102 + i, {row, kNone});
    server.Gpu("gemm", 140 + 10 * i, 150 + 10 * i);
  }
  server.Call("cudaLaunchKernel", 131, 132, {row, kNone});
  server.Gpu("gemm", 440, 540);
  server.maker.Gpu(1, GpuKind::kKernel, "foreign", 490 * kUs, 70 * kUs, 0);
  server.Call("cudaStreamSynchronize", 133, 540, {row, kNone}, 0);

  const RequestBlame blame = BlameOf(server.maker.Finish(), row);

  CHECK(blame.blame[Blame::kGpuExecExpected] == 310 * kUs);
  CHECK(blame.blame[Blame::kGpuContention] == 45 * kUs);  // half of its excess: half of it was overlapped
  CHECK(blame.blame[Blame::kGpuExcessUnknown] == 45 * kUs);
}

TEST_CASE("a kernel of which the window has too few is compared with what the process learned before", "[why]") {
  const auto unknown_us = [](const char* known, uint32_t much) {
    Server server;
    const uint32_t row = server.OnGpu(900);
    server.Call("cudaLaunchKernel", 101, 102, {row, kNone});
    server.Gpu("gemm", 140, 240);
    server.Call("cudaStreamSynchronize", 103, 240, {row, kNone}, 0);
    server.maker.trace.norms.push_back(
        {model::NormKind::kGpuWork, Depth::kScopes, server.maker.String(known), much, 8, 10 * kUs, {}});
    const RequestBlame blame = BlameOf(server.maker.Finish(), row);
    CHECK(blame.blame[Blame::kGpuExecExpected] + blame.blame[Blame::kGpuExcessUnknown] == 100 * kUs);
    return blame.blame[Blame::kGpuExcessUnknown] / kUs;
  };
  CHECK(unknown_us("gemm", 0) == 90);
  CHECK(unknown_us("gemm", 7) == 0);  // of another shape
  CHECK(unknown_us("conv", 0) == 0);
}

TEST_CASE("a kernel's excess at a low clock is the clock's in proportion, and the rest is unknown", "[why]") {
  const auto excess = [](double low_mhz, int64_t last_us) {
    Server server;
    const uint32_t row = server.OnGpu(900);
    for (int64_t i = 0; i < 30; ++i) {
      server.Call("cudaLaunchKernel", 101 + i, 102 + i, {row, kNone});
      server.Gpu("gemm", 140 + 10 * i, 150 + 10 * i);
    }
    server.Call("cudaLaunchKernel", 131, 132, {row, kNone});
    server.Gpu("gemm", 440, 440 + last_us);
    server.Call("cudaStreamSynchronize", 133, 440 + last_us, {row, kNone}, 0);
    model::Trace trace = server.maker.Finish();
    trace.counters.push_back({kNone, trace.strings.Add("GPU 0 (NVIDIA H100): SM clock"), trace.strings.Add("MHz")});
    for (const auto& [at_us, mhz] : {std::pair(0, 2000.0), std::pair(441, low_mhz)}) {
      trace.samples.counter.push_back(0);
      trace.samples.at_ns.push_back(at_us * kUs);
      trace.samples.value.push_back(mhz);
    }
    REQUIRE(FindInconsistency(trace) == "");
    const RequestBlame blame = BlameOf(std::move(trace), row);
    return std::pair(blame.blame[Blame::kGpuClock] / kUs, blame.blame[Blame::kGpuExcessUnknown] / kUs);
  };
  CHECK(excess(1000, 20) == std::pair<int64_t, int64_t>(10, 0));  // half the clock, twice the time
  CHECK(excess(1000, 35) == std::pair<int64_t, int64_t>(10, 15));
  CHECK(excess(1000, 14) == std::pair<int64_t, int64_t>(4, 0));   // it did not feel all of it
  CHECK(excess(1950, 20) == std::pair<int64_t, int64_t>(0, 10));  // not a low clock
  CHECK(excess(2400, 20) == std::pair<int64_t, int64_t>(0, 10));
}

TEST_CASE("a long launch latency may be earlier work that is not in the trace", "[why]") {
  const auto untraced = [](bool is_lost, bool is_waited_for, int64_t begin_us) {
    Server server;
    const uint32_t row = server.OnGpu(500);
    if (is_lost) server.Call("cudaLaunchKernel", 101, 102, {row, kNone});
    if (is_waited_for) server.Call("cudaStreamSynchronize", 103, 108, {row, kNone}, 0);
    server.Call("cudaLaunchKernel", 110, 111, {row, kNone});
    server.Gpu("gemm", begin_us, begin_us + 10);
    server.Call("cudaStreamSynchronize", 112, begin_us + 10, {row, kNone}, 0);
    const RequestBlame blame = BlameOf(server.maker.Finish(), row);
    return std::pair(blame.blame[Blame::kUntraced] / kUs, blame.blame[Blame::kLaunchLatency] / kUs);
  };
  CHECK(untraced(true, false, 200) == std::pair<int64_t, int64_t>(89, 0));
  CHECK(untraced(false, false, 200) == std::pair<int64_t, int64_t>(0, 89));
  CHECK(untraced(true, true, 200) == std::pair<int64_t, int64_t>(0, 89));   // it was done by then
  CHECK(untraced(true, false, 125) == std::pair<int64_t, int64_t>(0, 14));  // usual
}

TEST_CASE("a synchronisation longer than the recorded work may have waited for unrecorded work", "[why]") {
  const auto blame_of = [](bool is_lost) {
    Server server;
    const uint32_t row = server.OnGpu(500);
    server.Call("cudaLaunchKernel", 101, 102, {row, kNone});
    server.Gpu("gemm", 104, 120);
    if (is_lost) server.Call("cudaLaunchKernel", 103, 104, {row, kNone});
    server.Call("cudaStreamSynchronize", 105, 300, {row, kNone}, 0);
    return BlameOf(server.maker.Finish(), row).blame;
  };
  CHECK(blame_of(true)[Blame::kUntraced] == 180 * kUs);
  CHECK(blame_of(false)[Blame::kUntraced] == 0);
}

TEST_CASE("a launch into a full queue waited until an operation began", "[why]") {
  Server server;
  server.maker.trace.window_end_ns = 10'000 * kUs;
  const uint32_t row = server.OnGpu(9'000);
  for (int64_t i = 0; i < 20; ++i) {
    server.Call("cudaLaunchKernel", 101 + 2 * i, 102 + 2 * i, {row, kNone});
    server.Gpu("gemm", 400 + 100 * i, 500 + 100 * i);
  }
  server.Call("cudaLaunchKernel", 150, 610, {row, kNone});
  server.Gpu("gemm", 2'400, 2'500);
  BlameOptions options;
  options.full_queue_depth = 10;

  const RequestBlame blame = BlameOf(server.maker.Finish(), row, options);

  CHECK(blame.blame[Blame::kLaunchQueueFull] == 10 * kUs);  // from the beginning of the third
  CHECK(blame.blame[Blame::kGpuExecExpected] == 200 * kUs);
}

TEST_CASE("an operation that began before its launch is bent, counted, and makes the walk unreliable", "[why]") {
  Server server;
  const uint32_t row = server.OnGpu(200);
  server.Call("cudaLaunchKernel", 150, 155, {row, kNone});
  server.Gpu("gemm", 140, 180);
  server.Call("cudaStreamSynchronize", 156, 190, {row, kNone}, 0);

  const RequestBlame blame = BlameOf(server.maker.Finish(), row);

  CHECK(blame.clamps == 1);
  CHECK(blame.clamped_ns == 10 * kUs);
  CHECK_FALSE(blame.is_reliable);
  CHECK(blame.blame.Total() == 100 * kUs);
}

TEST_CASE("a copy of pageable memory waits, whatever its call's name, and its time is the copy's", "[why]") {
  for (const char* const memory : {"pageable", "pinned"}) {
    INFO(memory);
    Server server;
    const uint32_t row = server.OnGpu(200);
    server.Call("cudaMemcpyAsync", 110, 190, {row, kNone});
    server.maker.Gpu(0, GpuKind::kMemcpy, std::string(memory) + " to device", 112 * kUs, 70 * kUs, 0);

    const RequestBlame blame = BlameOf(server.maker.Finish(), row);

    const bool waits = std::string(memory) == "pageable";
    CHECK(blame.blame[Blame::kH2d] == (waits ? 80 : 0) * kUs);
    CHECK(blame.blame[Blame::kLaunchApi] == (waits ? 0 : 80) * kUs);
  }
}

TEST_CASE("a kernel with an unknown launch leaves the time before it unexplained", "[why]") {
  Server server;
  const uint32_t row = server.OnGpu(200);
  server.maker.Gpu(0, GpuKind::kKernel, "gemm", 110 * kUs, 60 * kUs, kNone);
  server.Call("cudaDeviceSynchronize", 115, 180, {row, kNone});

  const RequestBlame blame = BlameOf(server.maker.Finish(), row);

  CHECK(blame.blame[Blame::kGpuQueueWaitOthers] == 0);
  CHECK(blame.blame[Blame::kUntraced] >= 55 * kUs);  // it waited for a kernel of an unknown owner, from its call on
  CHECK(blame.segments[1].by.gpu == 0);
}

// ---- Whatever the rows say

TEST_CASE("segments add up to the latency and the walk ends, whatever the rows say", "[why]") {
  uint64_t walked = 0, unknown = 0;
  for (uint32_t seed = 0; seed < 3'000; ++seed) {
    const Trace trace = Soup(seed);
    INFO("seed " << seed);
    REQUIRE(FindInconsistency(trace) == "");
    BlameIndex index;
    REQUIRE(BlameIndex::Make(trace, BlameOptions(), &index).ok());
    for (uint32_t row = 0; row < trace.requests.size(); ++row) {
      RequestBlame blame;
      const Status status = FindBlame(index, row, &blame);
      INFO("row " << row << ": " << status.message());
      if (status.code() == StatusCode::kNotFound) {
        ++unknown;
        continue;
      }
      REQUIRE(status.ok());
      ++walked;
      int64_t at_ns = trace.requests[row].begin_ns;
      for (const BlameSegment& segment : blame.segments) {
        if (segment.begin_ns != at_ns || segment.end_ns <= at_ns) FAIL("a gap at " << at_ns);
        at_ns = segment.end_ns;
      }
      REQUIRE(at_ns == std::max(trace.RequestEnd(trace.requests[row]), trace.requests[row].begin_ns));
      REQUIRE(blame.blame.Total() == at_ns - trace.requests[row].begin_ns);
      REQUIRE(*std::min_element(blame.blame.ns, blame.blame.ns + analyze::kBlames) >= 0);
    }
  }
  CHECK(walked > 10'000);
  CHECK(unknown > 1'000);
}

TEST_CASE("the same an hour later is blamed the same way", "[why]") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Trace trace = Soup(seed), later = Shifted(trace, int64_t{3'600'000'000'000});
    BlameIndex index, later_index;
    REQUIRE(BlameIndex::Make(trace, BlameOptions(), &index).ok());
    REQUIRE(BlameIndex::Make(later, BlameOptions(), &later_index).ok());
    for (uint32_t row = 0; row < trace.requests.size(); ++row) {
      RequestBlame blame, later_blame;
      INFO("seed " << seed << " row " << row);
      REQUIRE(FindBlame(index, row, &blame).code() == FindBlame(later_index, row, &later_blame).code());
      REQUIRE(SegmentsText(blame, 1) == SegmentsText(later_blame, 1));
    }
  }
}

TEST_CASE("lost events in its time make a walk unreliable", "[why]") {
  Server server;
  const uint32_t row = server.OnGpu(200);
  server.maker.trace.losses.push_back(
      {server.executor, model::LossReason::kOverwritten, 150 * kUs, 160 * kUs, 12, 100});

  const RequestBlame blame = BlameOf(server.maker.Finish(), row);

  CHECK(blame.losses == 1);
  CHECK_FALSE(blame.is_reliable);
}

namespace {

// A request that goes to and fro between threads by unrecorded ways, in `n` batches that all overlap, next to as many
// of others that last until the end.
Trace Tangled(int64_t n) {
  Server server;
  const auto end_us = 10 * n + 1'000;
  server.maker.trace.window_end_ns = end_us * kUs;
  const uint32_t row = server.Request(0x8f0c, 0, end_us, server.http);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t own =
        server.maker.Batch(0x1000 + static_cast<uint64_t>(2 * i), "step", server.executor, 10 * i * kUs, 15 * kUs);
    server.maker.Member(own, row, 10 * i * kUs);
    server.maker.Batch(0x1001 + static_cast<uint64_t>(2 * i), "long", server.http, 10 * i * kUs,
                       (end_us - 10 * i) * kUs);
    server.Scope(i % 2 == 0 ? server.other : server.executor, server.decode, 10 * i, 10 * i + 8, {row, kNone});
    server.Wait(server.http, WaitKind::kCondition, "more", 10 * i, 10 * i + 5, {row, own});
  }
  return server.maker.Finish();
}

struct Asked {
  static bool Count(void* context) {
    auto* const asked = static_cast<Asked*>(context);
    return ++asked->times > asked->most;
  }
  BlameOptions Options() {
    BlameOptions options;
    options.is_over = Count;
    options.is_over_context = this;
    return options;
  }
  uint64_t times = 0, most = UINT64_MAX;
};

}  // namespace

TEST_CASE("twice the rows are twice the work, however they tangle", "[why]") {
  uint64_t before = 0;
  for (const int64_t n : {20'000, 40'000}) {
    const Trace trace = Tangled(n);
    REQUIRE(FindInconsistency(trace) == "");
    Asked asked;
    const BlameOptions options = asked.Options();
    BlameOf(trace, 0, options);
    if (before != 0) CHECK(asked.times < before * 5 / 2);
    CHECK(asked.times > 100);
    before = asked.times;
  }
}

TEST_CASE("work that is late behind twice as many operations of another stream takes twice the steps", "[why]") {
  uint64_t before = 0;
  for (const int64_t n : {5'000, 10'000}) {
    Server server;
    const uint32_t theirs = server.Request(1, 50, 60 * n, server.other);
    const uint32_t row = server.OnGpu(5 * n);
    for (int64_t i = 0; i < n; ++i)
      server.maker.Call(server.other, "cudaLaunchKernel", (60 + i) * kUs, 500, {theirs, kNone});
    server.Call("cudaLaunchKernel", 110, 115, {row, kNone});
    server.Gpu("gemm", 3 * n, 4 * n);
    for (int64_t i = 0; i < n; ++i)
      server.maker.Gpu(1, GpuKind::kKernel, "short", (200 + 2 * i) * kUs, kUs, static_cast<uint32_t>(i));
    server.Call("cudaStreamSynchronize", 120, 4 * n, {row, kNone}, 0);
    const Trace trace = server.maker.Finish();
    Asked asked;
    const BlameOptions options = asked.Options();

    const RequestBlame blame = BlameOf(trace, row, options);

    CHECK(blame.blame[Blame::kGpuQueueWaitOthers] > 0);
    if (before != 0) CHECK(asked.times < before * 5 / 2);
    before = asked.times;
  }
}

TEST_CASE("twice as many scopes in a wait for a lock that changes hands twice as often take twice the steps", "[why]") {
  uint64_t before = 0;
  for (const int64_t n : {10'000, 20'000}) {
    Server server;
    server.maker.trace.window_end_ns = 10 * n * kUs;
    const uint32_t row = server.Request(1, 0, 4 * n, server.http);
    server.Wait(server.http, WaitKind::kLock, "lock", 0, 4 * n, {row, kNone});
    for (int64_t i = 0; i < n; ++i) {
      server.Scope(server.http, server.decode, 4 * i, 4 * i + 1, {row, kNone});
      server.Wait(server.other, WaitKind::kLock, "lock", 4 * i, 4 * i + 2, {});
    }
    const Trace trace = server.maker.Finish();
    Asked asked;
    const BlameOptions options = asked.Options();

    const RequestBlame blame = BlameOf(trace, row, options);

    CHECK(blame.blame[Blame::kHostLock] == 3 * n * kUs);
    if (before != 0) CHECK(asked.times < before * 5 / 2);
    before = asked.times;
  }
}

TEST_CASE("a request handed on twice as often, to twice as many batches, takes twice the steps", "[why]") {
  uint64_t before = 0;
  for (const int64_t n : {10'000, 20'000}) {
    Server server;
    server.maker.trace.window_end_ns = 10 * n * kUs;
    const uint32_t row = server.Request(1, 0, 8 * n, server.http);
    const model::StringId jobs = server.maker.String("jobs");
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t batch =
          server.maker.Batch(static_cast<uint64_t>(i) + 1, "step", server.executor, 4 * i * kUs, 3 * kUs);
      server.maker.Member(batch, row, (4 * i + 1) * kUs);
      server.maker.trace.handoffs.push_back(
          {row, jobs, server.http, server.executor, 4 * i * kUs, (4 * i + 1) * kUs, batch});
    }
    const Trace trace = server.maker.Finish();
    Asked asked;
    const BlameOptions options = asked.Options();
    BlameIndex index;

    REQUIRE(BlameIndex::Make(trace, options, &index).ok());

    if (before != 0) CHECK(asked.times < before * 5 / 2);
    before = asked.times;
  }
}

TEST_CASE("a walk does not go through all of its threads' time in the window", "[why]") {
  constexpr uint32_t kRequests = 2'000;
  Server server;
  for (uint32_t i = 0; i < kRequests; ++i) {
    const int64_t at = 100 * (i + 1);
    const uint32_t row = server.Request(i + 2, at, at + 90, server.http);
    server.maker.trace.requests[row].end_thread = server.executor;
    const uint32_t batch = server.maker.Batch(0x10000 + i, "resnet50", server.executor, (at + 10) * kUs, 80 * kUs);
    server.maker.Member(batch, row, (at + 10) * kUs);
    server.maker.trace.handoffs.push_back(
        {row, server.maker.String("jobs"), server.http, server.executor, (at + 10) * kUs, (at + 10) * kUs, batch});
    server.Wait(server.executor, WaitKind::kCondition, "batch member", at + 20, at + 50, {kNone, batch});
    server.Scope(server.executor, server.forward, at + 50, at + 90, {kNone, batch});
  }
  server.maker.trace.window_end_ns = 100 * (kRequests + 2) * kUs;
  const Trace trace = server.maker.Finish();
  Asked asked;
  const BlameOptions options = asked.Options();
  BlameIndex index;
  REQUIRE(BlameIndex::Make(trace, options, &index).ok());
  const uint64_t of_index = asked.times;

  for (uint32_t row = 0; row < kRequests; ++row) {
    RequestBlame blame;
    REQUIRE(FindBlame(index, row, &blame).ok());
    REQUIRE(blame.blame[Blame::kBatchWindow] == 30 * kUs);
  }
  CHECK(asked.times == of_index);  // it is asked every 1,024 steps of a walk
}

TEST_CASE("indexing and walking end when the time is up", "[why]") {
  const Trace trace = Tangled(20'000);
  for (const uint64_t most : {0u, 5u, 60u}) {
    Asked asked;
    const BlameOptions options = asked.Options();
    asked.most = most;
    BlameIndex index;
    RequestBlame blame;
    Status status = BlameIndex::Make(trace, options, &index);
    if (status.ok()) status = FindBlame(index, 0, &blame);
    CHECK(status.code() == StatusCode::kResourceExhausted);
    CHECK(std::string(status.message()).find("no time left") != std::string::npos);
    CHECK(asked.times == most + 1);
  }
}

TEST_CASE("requests that cannot be walked are refused with a reason", "[why]") {
  Server server;
  const uint32_t row = server.OnGpu(200), lost = server.Request(3, 300, 400, server.http);
  server.maker.trace.requests[lost].begin_known = false;
  const Trace trace = server.maker.Finish();
  BlameIndex index, empty;
  REQUIRE(BlameIndex::Make(trace, BlameOptions(), &index).ok());
  RequestBlame blame;

  CHECK(FindBlame(index, lost, &blame).code() == StatusCode::kNotFound);
  CHECK(FindBlame(index, 2, &blame).code() == StatusCode::kInvalidArgument);
  CHECK(FindBlame(empty, row, &blame).code() == StatusCode::kInvalidArgument);
  CHECK(std::string(BlameName(Blame::kHostLock)) == "host_lock");
  CHECK(std::string(BlameName(static_cast<Blame>(99))) == "untraced_or_unexplained");
}

}  // namespace pitot::test
