// SPDX-License-Identifier: Apache-2.0
//
// Scopes in the capture of a graph, which divide its replays, over a driver that needs no GPU.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "collect/cuda_events/divide.h"
#include "collect/cuda_events/rig.h"
#include "pitot/model/classes.h"
#include "pitot/pitot.h"
#include "trace/stream_use.h"

namespace {

namespace model = pitot::model;
namespace cuda_events = pitot::cuda_events;
using cuda_events::Replayed;
using fakes::Attribute;
using fakes::EventHost;
using fakes::kMs;

struct GraphHost : EventHost {
  explicit GraphHost(uint32_t scopes = 8, const char* library = PITOT_FAKE_CUDA) : EventHost(library) {
    event_options.graph_scopes = scopes;
  }
  // A graph with work of 2 ms in each of two scopes, and 1 ms before, between and after them.
  void* Capture() {
    cuda.BeginCapture(stream);
    cuda.Enqueue(stream, kMs);
    Run("attention", 2 * kMs);
    cuda.Enqueue(stream, kMs);
    Run("mlp", 2 * kMs);
    cuda.Enqueue(stream, kMs);
    return cuda.EndCapture(stream);
  }
  void Replay(void* graph, void* on) {
    pitot::trace::g_stream_watcher.load()->launch(on, graph);
    cuda.Replay(graph, on);
  }
  // In a batch, up to the end of the replay. Its stream is not known to be idle, so the span has both events: it is
  // known how long it took, however late the thread measures its anchor.
  void ReplayInBatch(void* graph) {
    pitot::trace::g_stream_watcher.load()->launch(stream, nullptr);
    pitot::Batch batch = pitot::Batch::Begin("decoder");
    Replay(graph, stream);
    pitot::trace::g_stream_watcher.load()->wait(stream);
    batch.Finish();
  }
  // Starts timing. A graph of which it is known, by one replay, which scopes are in it.
  void* BeginWithGraph() {
    REQUIRE(StartTiming());
    void* const graph = Capture();
    ReplayInBatch(graph);
    REQUIRE(Settle());
    return graph;
  }
  model::Trace Settled() {
    REQUIRE(Settle());
    return traces().back();
  }
};

// The spans by their begin: names, and lengths in ms. Those of the launch have 0, because they include time of the
// host. Those of less than half a ms are left out.
struct Piece {
  std::string name;
  int64_t ms;
  bool operator==(const Piece& other) const { return name == other.name && ms == other.ms; }
};
std::ostream& operator<<(std::ostream& out, const Piece& piece) {
  return out << piece.name << " " << piece.ms << " ms";
}

std::vector<Piece> Pieces(const model::Trace& trace) {
  std::vector<uint32_t> rows;
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    if (trace.strings[trace.gpu.name[row]] != "warm up") rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [&](uint32_t a, uint32_t b) { return trace.gpu.begin_ns[a] < trace.gpu.begin_ns[b]; });
  std::vector<Piece> pieces;
  for (const uint32_t row : rows) {
    const int64_t ms = (trace.gpu.duration_ns[row] + kMs / 2) / kMs;
    const std::string name(trace.strings[trace.gpu.name[row]]);
    if (ms != 0) pieces.push_back({name, name == "decoder" ? 0 : ms});
  }
  return pieces;
}

// A span of 100 ns named 1, divided by `scopes`.
std::string Divided(const std::vector<Replayed>& scopes) {
  cuda_events::History history(64 << 10);
  std::vector<const Replayed*> open;
  cuda_events::Span whole{};
  whole.begin_ns = 1000, whole.duration_ns = 100, whole.name = 1;
  AddDivided(whole, scopes, &open, &history);
  history.Keep(0);
  std::string text;
  for (const cuda_events::Span& span : history.kept())
    text += (text.empty() ? "" : ", ") + std::to_string(span.name) + ":" + std::to_string(span.begin_ns - 1000) + "+" +
            std::to_string(span.duration_ns);
  return text;
}

}  // namespace

TEST_CASE("scopes in the capture of a graph divide the spans of its launches", "[cuda_events][graphs]") {
  GraphHost host;
  REQUIRE(host.StartTiming());
  void* const graph = host.Capture();
  host.ReplayInBatch(graph);
  const model::Trace trace = host.Settled();
  CHECK(model::FindInconsistency(trace) == "");
  const std::vector<Piece> once = {{"decoder", 0}, {"attention", 2}, {"decoder", 0}, {"mlp", 2}, {"decoder", 0}};
  CHECK(Pieces(trace) == once);
  // All are tied to the launch, and so to its batch.
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    if (trace.strings[trace.gpu.name[row]] == "warm up") continue;
    REQUIRE(trace.gpu.call[row] != model::kNone);
    CHECK(trace.calls.batch[trace.gpu.call[row]] == 0);
  }
  CHECK(host.cuda.broken_rules() == "");

  host.ReplayInBatch(graph);
  std::vector<Piece> twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  CHECK(Pieces(host.Settled()) == twice);
}

TEST_CASE("the first scope of the process may be in a capture: it waits for its events", "[cuda_events][graphs]") {
  GraphHost host;
  REQUIRE(host.Start());
  REQUIRE(host.Add().ok());
  host.ReplayInBatch(host.Capture());
  CHECK(EventHost::Count(host.Settled(), "attention") == 1);
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("captures on a machine without a driver wait once, and not for long", "[cuda_events][graphs]") {
  GraphHost host;
  host.environment.library = "libnone_of_that_name.so.1";
  REQUIRE(host.Start());
  REQUIRE(host.Add().ok());
  const int64_t begin_ns = pitot::base::ClockNs(CLOCK_MONOTONIC);
  for (int i = 0; i < 1000; ++i) host.Run("attention");
  CHECK(pitot::base::ClockNs(CLOCK_MONOTONIC) - begin_ns < 20'000 * kMs);  // not 0.1 s for each
  CHECK(EventHost::NumberOf(host.Incident(), "cuda_events.before_driver") == 1000);
}

TEST_CASE("a scope in a captured scope has the names of both", "[cuda_events][graphs]") {
  GraphHost host;
  REQUIRE(host.StartTiming());
  host.cuda.BeginCapture(host.stream);
  {
    const pitot::CudaEventScope layer(host.stream, "layer 3");
    host.Run("attention", 2 * kMs);
    host.cuda.Enqueue(host.stream, 3 * kMs);
  }
  host.Run("head", kMs);
  host.ReplayInBatch(host.cuda.EndCapture(host.stream));
  CHECK(Pieces(host.Settled()) == std::vector<Piece>{{"layer 3 / attention", 2}, {"layer 3", 3}, {"head", 1}});
}

TEST_CASE("graphs stay as they are unless the host asks", "[cuda_events][graphs]") {
  GraphHost host(/*scopes=*/0);
  REQUIRE(host.StartTiming());
  void* const graph = host.Capture();
  CHECK(host.cuda.CallsOf("cuEventRecordWithFlags") == 0);
  host.ReplayInBatch(graph);
  CHECK(Pieces(host.Settled()) == std::vector<Piece>{{"decoder", 0}});
  CHECK(EventHost::NumberOf(host.traces().back(), "cuda_events.capturing") == 2);
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("a driver that cannot say when a graph is gone gets no nodes", "[cuda_events][graphs]") {
  GraphHost host(/*scopes=*/8, PITOT_FAKE_CUDA_OLD);
  REQUIRE(host.StartTiming());
  host.Capture();
  CHECK(host.cuda.CallsOf("cuEventRecordWithFlags") == 0);
}

TEST_CASE("scopes of graphs beyond their number are counted", "[cuda_events][graphs]") {
  GraphHost host(/*scopes=*/1);
  REQUIRE(host.StartTiming());
  host.ReplayInBatch(host.Capture());
  const model::Trace trace = host.Settled();
  CHECK(Pieces(trace) == std::vector<Piece>{{"decoder", 0}, {"attention", 2}, {"decoder", 0}});
  CHECK(Attribute(trace, "cuda_events.graph_scopes_refused") == "1");
}

TEST_CASE("events of a graph serve the next one only once it is gone", "[cuda_events][graphs]") {
  GraphHost host(/*scopes=*/2);
  REQUIRE(host.StartTiming());
  void* const first = host.Capture();
  void* const refused = host.Capture();
  host.cuda.DestroyGraph(refused);
  host.ReplayInBatch(first);
  CHECK(Pieces(host.Settled()).size() == 5);
  host.cuda.DestroyGraph(first);
  host.ReplayInBatch(host.Capture());
  CHECK(Pieces(host.Settled()).size() == 10);
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("a graph may be replayed and destroyed after the recorder has stopped", "[cuda_events][graphs]") {
  GraphHost host;
  REQUIRE(host.StartTiming());
  void* const graph = host.Capture();
  REQUIRE(host.Settle());
  host.recorder.Stop();
  host.cuda.Replay(graph, host.stream);
  host.cuda.DestroyGraph(graph);
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("each call of a captured scope may fail, and the host's graph is whole", "[cuda_events][graphs]") {
  for (const char* function :
       {"cuStreamGetCaptureInfo", "cuUserObjectCreate", "cuGraphRetainUserObject", "cuEventRecordWithFlags"}) {
    for (const uint64_t but : {0, 1}) {
      INFO(function << " but " << but);
      GraphHost host;
      REQUIRE(host.StartTiming());
      host.cuda.FailIn(function, 1, but);
      void* const graph = host.Capture();
      host.cuda.FailIn("", 0, 0);
      host.ReplayInBatch(graph);
      const model::Trace trace = host.Settled();
      int64_t ns = 0;
      for (uint32_t row = 0; row < trace.gpu.size(); ++row) ns += trace.gpu.duration_ns[row];
      CHECK(ns >= 7 * kMs);
      CHECK(Attribute(host.traces().back(), "cuda_events.failed") != "");
      host.cuda.DestroyGraph(graph);
      host.recorder.Stop();
      CHECK(host.cuda.events() == 0);  // none is kept for a graph that is gone
      CHECK(host.cuda.broken_rules() == "");
    }
  }
}

TEST_CASE("a scope that outlives its capture divides nothing", "[cuda_events][graphs]") {
  GraphHost host;
  REQUIRE(host.StartTiming());
  host.cuda.BeginCapture(host.stream);
  void* graph = nullptr;
  {
    const pitot::CudaEventScope scope(host.stream, "attention");
    host.cuda.Enqueue(host.stream, kMs);
    graph = host.cuda.EndCapture(host.stream);
  }
  host.ReplayInBatch(graph);
  CHECK(Pieces(host.Settled()) == std::vector<Piece>{{"decoder", 0}});
  CHECK(EventHost::NumberOf(host.traces().back(), "cuda_events.record_failed") == 1);
}

TEST_CASE("replays that follow each other at once are divided", "[cuda_events][graphs]") {
  GraphHost host;
  void* const graph = host.BeginWithGraph();
  constexpr uint32_t kReplays = 8;
  for (uint32_t i = 0; i < kReplays; ++i) {
    host.ReplayInBatch(graph);
    REQUIRE(fakes::WaitUntil([&] { return host.cuda.IsIdle(host.stream); }));
  }
  const model::Trace trace = host.Settled();
  // Missed at most: those read by the collector's thread at the moment of the next launch.
  const uint32_t found = EventHost::Count(trace, "attention") + EventHost::Count(trace, "mlp");
  const int missed = EventHost::NumberOf(trace, "cuda_events.replays_missed");
  CHECK(found + static_cast<uint32_t>(missed) == 2 * (1 + kReplays));
  CHECK(missed < static_cast<int>(kReplays));
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("the thread that reads a replay before its next launch spoils no capture", "[cuda_events][graphs]") {
  GraphHost host;
  void* const graph = host.BeginWithGraph();
  host.cuda.HangIn("cuCtxPushCurrent");  // the collector's thread reads nothing
  host.ReplayInBatch(graph);
  REQUIRE(fakes::WaitUntil([&] { return host.cuda.IsIdle(host.stream); }));
  void* const other = host.cuda.MakeStream();
  host.cuda.BeginCapture(other);
  host.ReplayInBatch(graph);
  host.cuda.EndCapture(other);
  host.cuda.HangIn("");
  CHECK(EventHost::Count(host.Settled(), "attention") == 3);
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("several replays between two waits: the last one is divided, and the others are counted",
          "[cuda_events][graphs]") {
  GraphHost host;
  void* const graph = host.BeginWithGraph();
  pitot::Batch batch = pitot::Batch::Begin("decoder");
  for (int i = 0; i < 3; ++i) host.Replay(graph, host.stream);
  pitot::trace::g_stream_watcher.load()->wait(host.stream);
  batch.Finish();
  const model::Trace trace = host.Settled();
  CHECK(EventHost::Count(trace, "attention") == 2);
  CHECK(Attribute(trace, "cuda_events.replays_missed") == "4");
}

TEST_CASE("a graph launched in no batch is not taken for another's", "[cuda_events][graphs]") {
  GraphHost host;
  REQUIRE(host.StartTiming());
  void* const graph = host.Capture();
  host.cuda.BeginCapture(host.stream);
  host.cuda.Enqueue(host.stream, 50 * kMs);
  void* const long_graph = host.cuda.EndCapture(host.stream);
  void* const other = host.cuda.MakeStream();
  {
    pitot::Batch batch = pitot::Batch::Begin("sampling");
    host.Replay(long_graph, other);
    std::thread([&] {
      host.cuda.MakeCurrent(host.context);
      host.Replay(graph, host.stream);
    }).join();
    pitot::trace::g_stream_watcher.load()->wait(other);
    batch.Finish();
  }
  CHECK(EventHost::Count(host.Settled(), "attention") == 0);
}

TEST_CASE("a graph on another stream than the said one does not divide its span", "[cuda_events][graphs]") {
  GraphHost host;
  void* const graph = host.BeginWithGraph();
  void* const other = host.cuda.MakeStream();
  pitot::Batch batch = pitot::Batch::Begin("said");
  pitot::SetWorkStream(host.stream);
  pitot::trace::g_stream_watcher.load()->launch(host.stream, nullptr);
  host.cuda.Enqueue(host.stream, 20 * kMs);
  host.Replay(graph, other);
  pitot::trace::g_stream_watcher.load()->wait(host.stream);
  batch.Finish();
  CHECK(EventHost::Count(host.Settled(), "attention") == 1);
}

TEST_CASE("a scope around a replay outside of batches is divided, too", "[cuda_events][graphs]") {
  GraphHost host;
  REQUIRE(host.StartTiming());
  void* const graph = host.Capture();
  for (int i = 1; i <= 2; ++i) {
    {
      const pitot::CudaEventScope step(host.stream, "step");
      host.Replay(graph, host.stream);
    }
    CHECK(EventHost::Count(host.Settled(), "attention") == static_cast<uint32_t>(i));
  }
}

TEST_CASE("a second collector without layers divides what a scope is placed around", "[cuda_events][graphs]") {
  GraphHost host;
  void* const graph = host.BeginWithGraph();
  host.recorder.Stop();
  host.cuda.DestroyGraph(graph);
  host.event_options.layers = false;
  REQUIRE(host.StartTiming());
  void* const again = host.Capture();
  {
    const pitot::CudaEventScope step(host.stream, "step");
    host.cuda.Replay(again, host.stream);
  }
  CHECK(EventHost::Count(host.Settled(), "attention") == 1);
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("a graph that outlives its collector is divided by the next one, also without layers",
          "[cuda_events][graphs]") {
  GraphHost host;
  void* const graph = host.BeginWithGraph();
  host.recorder.Stop();
  host.event_options.layers = false;
  REQUIRE(host.StartTiming());
  {
    const pitot::CudaEventScope step(host.stream, "step");
    host.cuda.Replay(graph, host.stream);
  }
  CHECK(EventHost::Count(host.Settled(), "attention") == 1);
}

TEST_CASE("a part that did not run in its graph is found again in another one made of the same",
          "[cuda_events][graphs]") {
  GraphHost host;
  void* const graph = host.BeginWithGraph();
  const auto in_batch = [&](void* executable, const auto& run) {
    pitot::trace::g_stream_watcher.load()->launch(host.stream, nullptr);
    pitot::Batch batch = pitot::Batch::Begin("decoder");
    pitot::trace::g_stream_watcher.load()->launch(host.stream, executable);
    run();
    pitot::trace::g_stream_watcher.load()->wait(host.stream);
    batch.Finish();
    REQUIRE(host.Settle());
  };
  in_batch(graph, [&] { host.cuda.Enqueue(host.stream, kMs); });  // its nodes were left out
  void* const second = &host;                                     // made of the same
  in_batch(second, [&] { host.cuda.Replay(graph, host.stream); });
  CHECK(EventHost::Count(host.traces().back(), "attention") == 2);
}

TEST_CASE("a graph without parts takes none of another's", "[cuda_events][graphs]") {
  GraphHost host;
  REQUIRE(host.StartTiming());
  void* const graph = host.Capture();
  host.cuda.BeginCapture(host.stream);
  host.cuda.Enqueue(host.stream, kMs);
  void* const plain = host.cuda.EndCapture(host.stream);
  host.ReplayInBatch(graph);
  REQUIRE(host.Settle());
  for (int i = 0; i < 4; ++i) {
    host.cuda.HangIn("cuCtxPushCurrent");  // the collector's thread comes late
    for (void* one : {graph, plain}) {
      host.ReplayInBatch(one);
      REQUIRE(fakes::WaitUntil([&] { return host.cuda.IsIdle(host.stream); }));
    }
    host.cuda.HangIn("");
    REQUIRE(host.Settle());
  }
  CHECK(EventHost::Count(host.traces().back(), "attention") == 5);
}

TEST_CASE("a replay after an inner scope belongs to the outer one", "[cuda_events][graphs]") {
  GraphHost host;
  REQUIRE(host.StartTiming());
  void* const graph = host.Capture();
  {
    const pitot::CudaEventScope step(host.stream, "step");
    host.Run("embed", kMs);
    host.Replay(graph, host.stream);
  }
  CHECK(EventHost::Count(host.Settled(), "attention") == 1);
}

TEST_CASE("graphs in turn in a scope whose launches are not seen miss nothing", "[cuda_events][graphs]") {
  GraphHost host;
  REQUIRE(host.StartTiming());
  void* const graphs[] = {host.Capture(), host.Capture()};
  for (int i = 0; i < 4; ++i) {
    {
      const pitot::CudaEventScope step(host.stream, "step");
      host.cuda.Replay(graphs[i % 2], host.stream);
    }
    REQUIRE(host.Settle());
  }
  const model::Trace trace = host.traces().back();
  CHECK(EventHost::Count(trace, "attention") == 4);
  CHECK(Attribute(trace, "cuda_events.replays_missed") == "");
}

TEST_CASE("replays whose next one begins before they are over are counted", "[cuda_events][graphs]") {
  GraphHost host;
  void* const graph = host.BeginWithGraph();
  host.cuda.Enqueue(host.stream, 1'000 * kMs);
  host.ReplayInBatch(graph);
  host.ReplayInBatch(graph);
  const model::Trace trace = host.Settled();
  CHECK(EventHost::Count(trace, "attention") == 2);  // the first and the last
  CHECK(Attribute(trace, "cuda_events.replays_missed") == "2");
}

TEST_CASE("graphs on two streams at once are divided by their own scopes", "[cuda_events][graphs]") {
  GraphHost host;
  REQUIRE(host.StartTiming());
  void* const graph = host.Capture();
  host.cuda.BeginCapture(host.stream);
  host.Run("sampler", 3 * kMs);
  void* const other_graph = host.cuda.EndCapture(host.stream);
  void* const other = host.cuda.MakeStream();
  for (void* first : {graph, other_graph}) {
    host.ReplayInBatch(first);
    REQUIRE(host.Settle());
  }
  std::thread thread([&] {
    host.cuda.MakeCurrent(host.context);
    pitot::Batch batch = pitot::Batch::Begin("sampling");
    host.Replay(other_graph, other);
    pitot::trace::g_stream_watcher.load()->wait(other);
    batch.Finish();
  });
  host.ReplayInBatch(graph);
  thread.join();
  const model::Trace trace = host.Settled();
  for (const char* name : {"attention", "mlp", "sampler"}) CHECK(EventHost::Count(trace, name) == 2);
}

TEST_CASE("where launches are not seen, two streams with graphs at once are not divided", "[cuda_events][graphs]") {
  GraphHost host;
  REQUIRE(host.StartTiming());
  void* const graph = host.Capture();
  const auto replay = [&] {
    const pitot::CudaEventScope whole(host.stream, "step");
    host.cuda.Replay(graph, host.stream);
  };
  replay();
  CHECK(EventHost::Count(host.Settled(), "attention") == 1);
  void* const other = host.cuda.MakeStream();
  {
    const pitot::CudaEventScope around(other, "other");
    host.cuda.Enqueue(other, 50 * kMs);
    replay();
  }
  const model::Trace trace = host.Settled();
  CHECK(EventHost::Count(trace, "attention") == 1);
  CHECK(EventHost::NumberOf(trace, "cuda_events.replays_unsure") >= 1);
}

TEST_CASE("more scopes of graphs than pairs are refused", "[cuda_events][graphs]") {
  GraphHost host(/*scopes=*/257);
  REQUIRE(host.Start());
  const pitot::Status status = host.Add();
  CHECK(status.code() == pitot::StatusCode::kInvalidArgument);
  CHECK_THAT(status.message(), Catch::StartsWith("CudaEventOptions::graph_scopes is 257"));
}

TEST_CASE("a span is divided into pieces that follow each other", "[cuda_events][graphs]") {
  CHECK(Divided({}) == "1:0+100");
  CHECK(Divided({{1010, 1030, 2}}) == "1:0+10, 2:10+20, 1:30+70");
  CHECK(Divided({{1000, 1100, 2}}) == "2:0+100");
  // One scope in another, and one after it.
  CHECK(Divided({{1010, 1060, 2}, {1020, 1030, 3}, {1070, 1080, 4}}) ==
        "1:0+10, 2:10+10, 3:20+10, 2:30+30, 1:60+10, 4:70+10, 1:80+20");
  // Two branches of a graph.
  CHECK(Divided({{1010, 1040, 2}, {1030, 1060, 3}}) == "1:0+10, 2:10+20, 3:30+30, 1:60+40");
  // Beyond the span, by the errors of clocks.
  CHECK(Divided({{999, 1020, 2}, {1090, 1102, 3}}) == "2:0+20, 1:20+70, 3:90+10");
}
