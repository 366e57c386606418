// SPDX-License-Identifier: Apache-2.0
//
// The walk where CUDA events timed the layers of batches, and the calls in which threads wait were recorded, but no
// kernels.
#include <algorithm>
#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "analyze/blame_of.h"
#include "base/gpu_counters.h"
#include "pitot/analyze/judgement.h"
#include "pitot/analyze/why.h"
#include "pitot/wait.h"
#include "serialize/sample_trace.h"

using namespace pitot;
using namespace pitot::model;
using analyze::Blame;
using analyze::RequestBlame;
using test::TraceMaker;

namespace {

constexpr int64_t kMs = 1'000'000;

// A request from 100 to 200 ms, all on the executor, in the batch from 110 to 190.
struct Server {
  Server() {
    maker.trace.window_end_ns = 10'000 * kMs;
    executor = maker.Thread("executor");
    request = maker.Request(1, "/classify", 100 * kMs, 100 * kMs);
    maker.trace.requests[request].begin_thread = maker.trace.requests[request].end_thread = executor;
    batch = maker.Batch(11, "resnet50", executor, 110 * kMs, 80 * kMs);
    maker.Member(batch, request, 110 * kMs);
    maker.Event(executor, maker.Site(SiteKind::kScope, "decode"), 100 * kMs, 10 * kMs, {request, kNone});
    maker.Event(executor, maker.Site(SiteKind::kScope, "forward"), 110 * kMs, 80 * kMs, {kNone, batch});
    maker.trace.devices.push_back({0});
    maker.trace.streams.push_back({0, 1, 7, 0, 0, 0});
    maker.trace.streams.push_back({0, 1, 8, 0, 0, 0});
  }
  // A span of the batch (or of another) on a stream, in ms, enqueued 1 ms before its begin, or in ms.
  void Span(const char* name, int64_t begin_ms, int64_t end_ms, uint32_t stream = 0, uint32_t of = kNone,
            int64_t enqueued_ms = -1) {
    const int64_t enqueued_ns = (enqueued_ms >= 0 ? enqueued_ms : begin_ms - 1) * kMs;
    calls.push_back({"CudaEventScope", enqueued_ns, 500, of == kNone ? batch : of, name, begin_ms * kMs,
                     (end_ms - begin_ms) * kMs, stream});
  }
  void Wait(const char* call, int64_t begin_ms, int64_t end_ms) {
    calls.push_back({call, begin_ms * kMs, (end_ms - begin_ms) * kMs, batch, nullptr, 0, 0, 0});
  }
  // Earlier batches of one member with such a span.
  void Usual(const char* name, int64_t length_ms) {
    for (int i = 0; i < 20; ++i) {
      const uint64_t number = earlier++;
      const int64_t begin_ms = 1000 + 100 * static_cast<int64_t>(number);
      const uint32_t other = maker.Batch(100 + number, "resnet50", executor, begin_ms * kMs, 50 * kMs);
      const uint32_t member = maker.Request(1000 + number, "/classify", begin_ms * kMs, 50 * kMs);
      maker.Member(other, member, begin_ms * kMs);
      Span(name, begin_ms + 1, begin_ms + 1 + length_ms, 0, other);
    }
  }
  RequestBlame Walk() {
    const auto place = [&](const OneCall& call) { return std::pair(ThreadOf(call), call.begin_ns); };
    std::stable_sort(calls.begin(), calls.end(),
                     [&](const OneCall& a, const OneCall& b) { return place(a) < place(b); });
    std::vector<uint32_t> spans;
    for (uint32_t row = 0; row < calls.size(); ++row) {
      if (calls[row].span != nullptr) spans.push_back(row);
    }
    std::stable_sort(spans.begin(), spans.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(calls[a].stream, calls[a].span_begin_ns) < std::pair(calls[b].stream, calls[b].span_begin_ns);
    });
    for (const uint32_t row : spans) {
      const OneCall& call = calls[row];
      maker.Gpu(call.stream, GpuKind::kSpan, call.span, call.span_begin_ns, call.span_ns, row);
    }
    for (const OneCall& call : calls)
      maker.Call(ThreadOf(call), call.name, call.begin_ns, call.duration_ns, {kNone, call.batch}, call.awaited);
    return test::BlameOf(maker.Finish(), request);
  }

  struct OneCall {
    const char* name;
    int64_t begin_ns, duration_ns;
    uint32_t batch;
    const char* span;  // that it marks; null: none
    int64_t span_begin_ns, span_ns;
    uint32_t stream;
    uint32_t thread = kNone;   // kNone: the executor
    uint32_t awaited = kNone;  // stream
  };
  uint32_t ThreadOf(const OneCall& call) const { return call.thread == kNone ? executor : call.thread; }
  TraceMaker maker;
  std::vector<OneCall> calls;
  uint32_t executor, request, batch;
  uint64_t earlier = 0;  // batches by Usual
};

}  // namespace

TEST_CASE("a wait for the batch's layers is the GPU's time, and code before it stays code", "[layers]") {
  Server server;
  server.Span("forward", 112, 170);
  server.Wait("cudaStreamSynchronize", 130, 170);

  const RequestBlame blame = server.Walk();

  // The span began at 112, but until 130 the thread was not waiting.
  CHECK(blame.blame[Blame::kGpuExecExpected] == 40 * kMs);
  CHECK(blame.blame[Blame::kHostOncpuFramework] == 40 * kMs);
}

TEST_CASE("Pitot's record of an event that takes long waits in the driver, and is not model code", "[layers]") {
  Server server;
  server.Wait("CudaEventScope", 120, 150);
  const RequestBlame blame = server.Walk();
  CHECK(blame.blame[Blame::kLaunchApi] == 30 * kMs);
  CHECK(blame.blame[Blame::kHostOncpuFramework] == 50 * kMs);
}

TEST_CASE("a wait that goes on after the last layer's end is not the GPU's", "[layers]") {
  Server server;
  server.Span("forward", 112, 150);
  SECTION("beyond what a return takes, its reason is not known") {
    server.Wait("cudaStreamSynchronize", 130, 170);
    const RequestBlame blame = server.Walk();
    CHECK(blame.blame[Blame::kGpuExecExpected] == 20 * kMs);
    CHECK(blame.blame[Blame::kHostBlockedUnknown] == 20 * kMs);
  }
  SECTION("in a copy it is the copy") {
    server.Wait("cudaMemcpyAsync DtoH (blocking)", 130, 170);
    const RequestBlame blame = server.Walk();
    CHECK(blame.blame[Blame::kGpuExecExpected] == 20 * kMs);
    CHECK(blame.blame[Blame::kD2h] == 20 * kMs);
  }
}

TEST_CASE("a layer that is longer than usual beside other work was slowed down by it", "[layers]") {
  Server server;
  server.Usual("forward", 20);
  server.Span("forward", 112, 172);
  server.Wait("cudaStreamSynchronize", 122, 172);
  server.Span("side", 130, 165, 1, kNone, 115);  // of the same batch, on another stream

  const RequestBlame blame = server.Walk();

  CHECK(blame.blame[Blame::kGpuContention] == 35 * kMs);  // of 40 more than usual
  CHECK(blame.blame[Blame::kGpuExecExpected] == 15 * kMs);
}

TEST_CASE("a layer that is longer than usual waited for others' work on its stream, and the owner is known",
          "[layers]") {
  Server server;
  const uint32_t other = server.maker.Batch(12, "neighbour", server.maker.Thread("neighbour"), 112 * kMs, 50 * kMs);
  server.Usual("forward", 20);
  uint32_t stream = 0;
  Blame part = Blame::kGpuQueueWaitOthers;
  SECTION("on the same stream") {}
  SECTION("on another stream it is contention") {
    stream = 1;
    part = Blame::kGpuContention;
  }
  server.Span("neighbour", 108, 152, stream, other, 107);
  server.Span("forward", 112, 172);
  server.Wait("cudaStreamSynchronize", 122, 172);

  const RequestBlame blame = server.Walk();

  CHECK(blame.blame[part] == 30 * kMs);  // of 40 more than usual, as long as the other was there
  CHECK(blame.blame[Blame::kGpuExecExpected] == 20 * kMs);
  const auto segment = std::find_if(blame.segments.begin(), blame.segments.end(),
                                    [&](const analyze::BlameSegment& one) { return one.blame == part; });
  REQUIRE(segment != blame.segments.end());
  CHECK(segment->by.batch == other);
}

TEST_CASE("a launch behind another thread's wait for layers that overlap on a stream contradicts no time", "[layers]") {
  Server server;
  const uint32_t neighbour = server.maker.Thread("neighbour");
  const uint32_t other = server.maker.Batch(12, "neighbour", neighbour, 111 * kMs, 70 * kMs);
  const uint32_t third = server.maker.Batch(13, "third", server.maker.Thread("third"), 112 * kMs, 60 * kMs);
  server.Span("third", 100, 160, 0, third, 99);
  server.Span("neighbour", 130, 172, 0, other, 105);
  server.calls.push_back({"cudaMemcpyAsync DtoH (blocking)", 112 * kMs, 60 * kMs, other, nullptr, 0, 0, 0, neighbour});
  server.Wait("cudaLaunchKernel", 120, 172);
  for (int i = 0; i < 40; ++i)
    server.calls.push_back({"cudaLaunchKernel", (1'000 + i) * kMs, 5'000, server.batch, nullptr, 0, 0, 0});

  const RequestBlame blame = server.Walk();

  CHECK(blame.blame[Blame::kGpuQueueWaitOthers] > 10 * kMs);
  CHECK(blame.clamps == 0);
  CHECK(blame.is_reliable);
}

TEST_CASE("a layer as long as usual is not slowed down by what runs beside it", "[layers]") {
  Server server;
  server.Usual("forward", 60);
  server.Span("forward", 112, 172);
  server.Wait("cudaStreamSynchronize", 122, 172);
  server.Span("side", 130, 165, 1, kNone, 115);

  const RequestBlame blame = server.Walk();

  CHECK(blame.blame[Blame::kGpuContention] == 0);
  CHECK(blame.blame[Blame::kGpuExecExpected] == 50 * kMs);
}

TEST_CASE("a wait of which nothing else is known is for the GPU, and an allocation its own time", "[layers]") {
  Server server;
  server.Wait("cudaStreamSynchronize", 120, 160);
  server.Wait("cudaMalloc", 165, 175);

  const RequestBlame blame = server.Walk();

  CHECK(blame.blame[Blame::kGpuExecExpected] == 40 * kMs);
  CHECK(blame.blame[Blame::kAllocStall] == 10 * kMs);
  CHECK(blame.blame[Blame::kHostOncpuFramework] == 30 * kMs);
}

TEST_CASE("a copy from the GPU of which nothing else is known waited for the work before it", "[layers]") {
  Server server;
  server.Wait("cudaMemcpyAsync DtoH (blocking)", 120, 160);

  CHECK(server.Walk().blame[Blame::kGpuExecExpected] == 40 * kMs);
}

TEST_CASE("counters say what the GPU did in a wait without layers", "[layers]") {
  Server server;
  server.Wait("cudaStreamSynchronize", 120, 160);
  test::AddCounter(&server.maker.trace, 0, base::NameOf(base::GpuCounter::kSampled), {{0, 1}, {9000, 0}});
  test::AddCounter(&server.maker.trace, 0, base::NameOf(base::GpuCounter::kEngineActive),
                   {{0, 0}, {110, 100}, {150, 0}});

  const RequestBlame blame = server.Walk();

  CHECK(blame.blame[Blame::kGpuExecExpected] == 30 * kMs);
  CHECK(blame.blame[Blame::kHostBlockedUnknown] == 10 * kMs);
  CHECK(blame.blame[Blame::kHostOncpuFramework] ==
        40 * kMs);  // a recorded wait: the rest is code, however busy the GPU
}

namespace {

// A thread that put 50 ms of work onto the batch's stream before it.
struct SharedStream : Server {
  SharedStream() {
    neighbour = maker.Thread("neighbour");
    batch_ahead = maker.Batch(12, "neighbour", neighbour, 110 * kMs, 55 * kMs);
    Span("neighbour", 108, 160, 0, batch_ahead);
    calls.back().thread = neighbour;
  }
  void CheckAhead(const RequestBlame& blame, int64_t least_ms, int64_t most_ms) const {
    CHECK(blame.blame[Blame::kGpuQueueWaitOthers] >= least_ms * kMs);
    CHECK(blame.blame[Blame::kGpuQueueWaitOthers] <= most_ms * kMs);
    for (const analyze::BlameSegment& segment : blame.segments) {
      if (segment.blame == Blame::kGpuQueueWaitOthers) CHECK(segment.by.batch == batch_ahead);
    }
  }
  uint32_t neighbour, batch_ahead;
};

}  // namespace

TEST_CASE("a batch whose layer begins late waited for the work ahead of it on its stream", "[layers]") {
  SharedStream server;
  server.Span("forward", 160, 185, 0, kNone, 115);
  server.Wait("cudaStreamSynchronize", 120, 185);
  server.CheckAhead(server.Walk(), 40, 40);
}

TEST_CASE("the one of two others on the stream that ends first was ahead", "[layers]") {
  SharedStream server;
  const uint32_t thread = server.maker.Thread("also waits");
  const uint32_t waits = server.maker.Batch(13, "resnet50", thread, 110 * kMs, 60 * kMs);
  server.Span("other", 109, 163, 0, waits);  // around the neighbour's work for as long
  server.calls.back().thread = thread;
  server.Span("forward", 163, 185, 0, kNone, 115);
  server.Wait("cudaStreamSynchronize", 120, 185);

  const RequestBlame blame = server.Walk();

  CHECK(blame.blame[Blame::kGpuQueueWaitOthers] == 43 * kMs);
  const auto part =
      std::find_if(blame.segments.begin(), blame.segments.end(),
                   [](const analyze::BlameSegment& segment) { return segment.blame == Blame::kGpuQueueWaitOthers; });
  CHECK(part->by.batch == server.batch_ahead);
}

TEST_CASE("the record of a layer's begin that takes long waits for the work ahead on the stream", "[layers]") {
  SharedStream server;
  server.Span("forward", 165, 185, 0, kNone, 120);
  server.calls.back().duration_ns = 45 * kMs;

  const RequestBlame blame = server.Walk();

  server.CheckAhead(blame, 40, 40);
  CHECK(blame.blame[Blame::kLaunchApi] == 5 * kMs);
}

namespace {

// A batch whose layer took 76 ms and ended after the batch's copy from the GPU, which waited for 50 ms. The GPU worked
// all that time, and another thread waited for it, for nobody, in a call from 125 to 175 ms.
struct Contended : Server {
  explicit Contended(const char* call = "cudaStreamSynchronize") {
    warmer = maker.Thread("warmer");
    Span("forward", 112, 188);
    Wait("cudaMemcpyAsync DtoH (blocking)", 130, 180);
    test::AddCounter(&maker.trace, 0, base::NameOf(base::GpuCounter::kSampled), {{0, 1}, {9000, 0}});
    test::AddCounter(&maker.trace, 0, base::NameOf(base::GpuCounter::kEngineActive), {{0, 0}, {110, 100}, {185, 0}});
    WaitAlone(call, 125, 175);
  }
  void WaitAlone(const char* call, int64_t begin_ms, int64_t end_ms) {
    calls.push_back({call, begin_ms * kMs, (end_ms - begin_ms) * kMs, kNone, nullptr, 0, 0, 0, warmer});
  }
  uint32_t warmer;
};

const analyze::BlameSegment* Find(const RequestBlame& blame, Blame part) {
  const auto found = std::find_if(blame.segments.begin(), blame.segments.end(),
                                  [&](const analyze::BlameSegment& segment) { return segment.blame == part; });
  return found != blame.segments.end() ? &*found : nullptr;
}

}  // namespace

TEST_CASE("a batch that took longer on the GPU while a thread waited for other work there was slowed down by it",
          "[layers]") {
  const char* const call = GENERATE("cudaStreamSynchronize", "cudaEventSynchronize");
  Contended server(call);
  server.Usual("forward", 20);

  const RequestBlame blame = server.Walk();

  CHECK(blame.blame[Blame::kGpuContention] == 45 * kMs);
  CHECK(blame.blame[Blame::kGpuExecExpected] == 5 * kMs);
  const analyze::BlameSegment* const segment = Find(blame, Blame::kGpuContention);
  REQUIRE(segment != nullptr);
  CHECK(segment->by.thread == server.warmer);
  CHECK(segment->by.gpu == kNone);
}

TEST_CASE("others' work is blamed for no more than the batch took beyond the usual, in however many waits",
          "[layers]") {
  Contended server;
  server.calls.erase(server.calls.begin() + 1);
  server.Wait("cudaStreamSynchronize", 126, 150);
  server.Wait("cudaMemcpyAsync DtoH (blocking)", 151, 175);
  SECTION("without its layer's end") {}
  SECTION("and in one for its layer") {
    server.Wait("cudaStreamSynchronize", 181, 188);
    server.WaitAlone("cudaStreamSynchronize", 180, 188);
  }
  server.Usual("forward", 46);

  const RequestBlame blame = server.Walk();

  CHECK(blame.blame[Blame::kGpuContention] == 30 * kMs);
}

TEST_CASE("a batch loses no more to others' work than it took beyond the usual, in whatever order it waits for layers",
          "[layers]") {
  Contended server;
  server.calls.pop_back();
  server.calls.erase(server.calls.begin() + 1);
  server.Span("inner", 130, 150, 1);
  server.Wait("cudaMemcpyAsync DtoH (blocking)", 116, 124);
  server.Wait("cudaStreamSynchronize", 140, 150);
  server.Wait("cudaMemcpyAsync DtoH (blocking)", 160, 168);
  server.WaitAlone("cudaStreamSynchronize", 115, 180);
  server.Usual("inner", 12);
  server.Usual("forward", 65);  // 11 ms less

  const RequestBlame blame = server.Walk();

  CHECK(blame.blame[Blame::kGpuContention] == 11 * kMs);
}

TEST_CASE("others' work beside a half-busy GPU is looked for in the whole wait", "[layers]") {
  Contended server;
  server.maker.trace.counters.clear();
  server.maker.trace.samples = {};
  test::AddCounter(&server.maker.trace, 0, base::NameOf(base::GpuCounter::kSampled), {{0, 1}, {9000, 0}});
  test::AddCounter(&server.maker.trace, 0, base::NameOf(base::GpuCounter::kEngineActive),
                   {{0, 0}, {110, 50}, {185, 0}});
  server.calls.back().begin_ns = 131 * kMs;
  server.calls.back().duration_ns = 20 * kMs;
  server.Usual("forward", 20);

  const RequestBlame blame = server.Walk();

  CHECK(blame.blame[Blame::kGpuContention] == 20 * kMs);
  CHECK(blame.blame[Blame::kGpuExecExpected] == 5 * kMs);
}

TEST_CASE("a thread that waits for the batch's own layer is no sign of other work", "[layers]") {
  Contended server("cudaEventSynchronize");
  server.calls.back().duration_ns = (188 - 125) * kMs;
  server.Usual("forward", 20);

  CHECK(server.Walk().blame[Blame::kGpuContention] == 0);
}

TEST_CASE("a thread's wait with a known stream is a sign of other work on another stream of the batch's GPU",
          "[layers]") {
  const auto walk = [](uint32_t stream) {  // 0 is the batch's, 2 is of another GPU
    Contended server;
    server.maker.trace.devices.push_back({1});
    server.maker.trace.streams.push_back({1, 1, 9, 0, 0, 0});
    server.calls.back().awaited = stream;
    server.Usual("forward", 20);
    return server.Walk().blame[Blame::kGpuContention];
  };
  CHECK(walk(1) == 45 * kMs);
  CHECK(walk(0) == 0);
  CHECK(walk(2) == 0);
}

TEST_CASE("a wait for layers is divided likewise", "[layers]") {
  Contended server;
  server.Wait("cudaStreamSynchronize", 181, 188);
  server.WaitAlone("cudaStreamSynchronize", 176, 187);
  server.Usual("forward", 20);

  CHECK(server.Walk().blame[Blame::kGpuContention] == (49 + 6) * kMs);
}

TEST_CASE("a thread's wait for the GPU is no sign of other work where it says nothing of the batch", "[layers]") {
  bool has_usual = true;
  const auto walk = [&](Contended server) {
    if (has_usual) server.Usual("forward", 20);
    return server.Walk().blame[Blame::kGpuContention];
  };
  REQUIRE(walk(Contended()) > 0);

  SECTION("a wait for the whole device is one for the batch, too") {
    CHECK(walk(Contended("cudaDeviceSynchronize")) == 0);
  }
  SECTION("the thread waits so all the time") {
    Contended server;
    for (int i = 0; i < 20; ++i) server.WaitAlone("cudaStreamSynchronize", 1000 + 50 * i, 1026 + 50 * i);
    CHECK(walk(server) == 0);
  }
  SECTION("it may have waited for another device") {
    Contended server;
    server.maker.trace.devices.push_back({1});
    CHECK(walk(server) == 0);
  }
  SECTION("the usual length of the batch's layer is not known") {
    has_usual = false;
    CHECK(walk(Contended()) == 0);
  }
  SECTION("the batch took no longer than usual") {
    has_usual = false;
    Contended server;
    server.Usual("forward", 80);
    CHECK(walk(server) == 0);
  }
}

TEST_CASE("the layers of another batch on another stream held up a batch whose own layer ended after its wait",
          "[layers]") {
  Contended server("cudaMalloc");
  const uint32_t neighbour = server.maker.Thread("neighbour");
  const uint32_t other = server.maker.Batch(12, "neighbour", neighbour, 112 * kMs, 50 * kMs);
  server.Span("neighbour", 145, 195, 1, other, 107);
  server.calls.back().thread = neighbour;
  server.Usual("forward", 20);

  const RequestBlame blame = server.Walk();

  CHECK(blame.blame[Blame::kGpuContention] == 35 * kMs);
  const analyze::BlameSegment* const segment = Find(blame, Blame::kGpuContention);
  REQUIRE(segment != nullptr);
  CHECK(segment->by.batch == other);
}

namespace {

// Two batches on one stream: the work of the other one is ahead, and takes 49 ms where 30 are usual.
struct WaitingNeighbour : Server {
  WaitingNeighbour() {
    second = maker.Thread("executor 2");
    ahead = maker.Batch(12, "resnet50", second, 110 * kMs, 75 * kMs);
    maker.Member(ahead, maker.Request(2, "/other", 100 * kMs, 90 * kMs), 110 * kMs);
    maker.Event(second, maker.Site(SiteKind::kScope, "forward"), 110 * kMs, 75 * kMs, {kNone, ahead});
    Span("forward", 111, 160, 0, ahead);
    calls.back().thread = second;
    Usual("forward", 30);
    Span("forward", 160, 185, 0, kNone, 115);
    Wait("cudaStreamSynchronize", 120, 185);
  }
  analyze::Judgement Judge() {
    Walk();
    analyze::Judgement judgement;
    REQUIRE(JudgeRequest(maker.trace, request, nullptr, &judgement).ok());
    return judgement;
  }
  uint32_t second, ahead;
};

}  // namespace

TEST_CASE("behind GPU work that waited itself, the chain goes on to what it waited for", "[layers]") {
  WaitingNeighbour server;
  server.maker.Event(server.second, server.maker.WaitSite(), 112 * kMs, 38 * kMs, {kNone, server.ahead},
                     {static_cast<uint64_t>(WaitKind::kIo), server.maker.String("weights"), 0, 0});

  const analyze::Judgement judgement = server.Judge();

  const std::vector<analyze::VerdictNode>& tree = judgement.verdict.tree;
  INFO(VerdictText(judgement.index, judgement.blame, judgement.verdict));
  const auto waited = std::find_if(tree.begin(), tree.end(), [](const analyze::VerdictNode& node) {
    return node.kind == analyze::NodeKind::kPart && node.blame == Blame::kHostPagefaultIo;
  });
  REQUIRE(waited != tree.end());
  CHECK(waited->hops == 1);
  CHECK(tree[waited->parent].kind == analyze::NodeKind::kGpuWork);
  CHECK(tree[waited->parent].by.batch == server.ahead);
}
