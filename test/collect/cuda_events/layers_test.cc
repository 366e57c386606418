// SPDX-License-Identifier: Apache-2.0
//
// Layers of batches and requests, timed without help of the host, over a driver that needs no GPU.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "collect/cuda_events/rig.h"
#include "pitot/extend/call.h"
#include "pitot/model/classes.h"
#include "pitot/pitot.h"
#include "trace/stream_use.h"

namespace {

namespace model = pitot::model;
using fakes::Attribute;
using fakes::EventHost;
using fakes::kMs;

// The collector of CUDA calls, as this test plays it.
struct Launches {
  static void Tell(void* stream) { pitot::trace::g_stream_watcher.load()->launch(stream, nullptr); }
  static void Wait(void* stream = pitot::trace::kNoStream) { pitot::trace::g_stream_watcher.load()->wait(stream); }
  // A wait of that name, with its target.
  static void RecordWait(const char* name, void* stream) {
    pitot::DeviceCall call{pitot::Intern("cuda_calls"), {}};
    pitot::trace::g_stream_watcher.load()->add_target(stream, &call);
    call.api = pitot::Intern(name);
    pitot::EndCall(pitot::BeginCall(), call);
  }
  static void Destroy() { pitot::trace::g_stream_watcher.load()->destroy(); }
};

// Work of this length, launched where the launch is seen.
void Launch(EventHost* host, void* stream, int64_t duration_ns = kMs) {
  Launches::Tell(stream);
  host->cuda.Enqueue(stream, duration_ns);
}

std::vector<std::string> Spans(const model::Trace& trace) {
  std::vector<uint32_t> rows;
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    const std::string_view name = trace.strings[trace.gpu.name[row]];
    if (trace.gpu.kind[row] == model::GpuKind::kSpan && name != "warm up") rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [&](uint32_t a, uint32_t b) { return trace.gpu.begin_ns[a] < trace.gpu.begin_ns[b]; });
  std::vector<std::string> names;
  for (const uint32_t row : rows) names.emplace_back(trace.strings[trace.gpu.name[row]]);
  return names;
}
using Names = std::vector<std::string>;

uint32_t CallNamed(const model::Trace& trace, std::string_view name) {
  for (uint32_t call = 0; call < trace.calls.size(); ++call) {
    if (trace.strings[trace.calls.name[call]] == name) return call;
  }
  return model::kNone;
}

// The incident, once nothing is in flight.
model::Trace SettledIncident(EventHost* host) {
  REQUIRE(host->Settle());
  return host->traces().back();
}

}  // namespace

TEST_CASE("scopes of a batch whose stream is said appear as spans that follow each other", "[cuda_events][layers]") {
  EventHost host;
  REQUIRE(host.StartTiming());
  pitot::Batch batch = pitot::Batch::Begin("resnet50");
  pitot::SetWorkStream(host.stream);
  {
    PITOT_SCOPE("forward");
    host.cuda.Enqueue(host.stream, 4 * kMs);
  }
  {
    PITOT_SCOPE("head");
    host.cuda.Enqueue(host.stream, 2 * kMs);
  }
  batch.Finish();
  const model::Trace trace = SettledIncident(&host);
  CHECK(model::FindInconsistency(trace) == "");
  CHECK(EventHost::Count(trace, "forward") == 1);
  CHECK(EventHost::Count(trace, "head") == 1);
  CHECK(EventHost::Count(trace, "resnet50") == 3);  // before, between and after them
  const uint32_t forward = EventHost::Find(trace, "forward"), head = EventHost::Find(trace, "head");
  CHECK(trace.gpu.duration_ns[forward] > 3 * kMs);
  const int64_t error_ns = 1000 * EventHost::NumberOf(trace, "cuda_events.clock_error_us");
  CHECK(trace.gpu.begin_ns[head] >= trace.gpu.begin_ns[forward] + trace.gpu.duration_ns[forward] - 2 * error_ns);
  REQUIRE(trace.gpu.call[forward] != model::kNone);
  CHECK(trace.calls.batch[trace.gpu.call[forward]] != model::kNone);
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("where launches are seen, layers need nothing of the host, and code without launches has no span",
          "[cuda_events][layers]") {
  EventHost host;
  REQUIRE(host.StartTiming());
  void* const stream = nullptr;  // the default stream is always there
  pitot::Batch batch = pitot::Batch::Begin("resnet50");
  { PITOT_SCOPE("tokenize"); }
  {
    PITOT_SCOPE("forward");
    Launch(&host, stream);
  }
  {
    PITOT_SCOPE("head");
    Launch(&host, stream);
  }
  Launches::Wait();
  { PITOT_SCOPE("detokenize"); }
  batch.Finish();
  CHECK(Spans(SettledIncident(&host)) == Names{"forward", "head"});
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("a batch without scopes and a request outside of batches are timed as a whole", "[cuda_events][layers]") {
  EventHost host;
  REQUIRE(host.StartTiming());
  void* const stream = nullptr;  // the default stream is always there
  pitot::Batch batch = pitot::Batch::Begin("resnet50");
  Launch(&host, stream);
  batch.Finish();
  pitot::Request request = pitot::Request::Begin("/classify");
  Launch(&host, stream);
  Launches::Wait();
  request.Finish(pitot::Outcome::kOk);
  Launch(&host, stream);  // for nobody
  CHECK(Spans(SettledIncident(&host)) == Names{"resnet50", "request"});
}

TEST_CASE("work that goes on on another stream is timed there", "[cuda_events][layers]") {
  EventHost host;
  REQUIRE(host.StartTiming());
  void* const stream = nullptr;  // the default stream is always there
  void* const other = host.cuda.MakeStream();
  pitot::Batch batch = pitot::Batch::Begin("resnet50");
  Launch(&host, stream);
  Launch(&host, other, 3 * kMs);
  Launches::Wait(other);
  batch.Finish();
  const model::Trace trace = SettledIncident(&host);
  CHECK(Spans(trace) == Names{"resnet50", "resnet50"});
  std::vector<uint32_t> streams;
  for (uint32_t row = 0; row < trace.gpu.size(); ++row)
    if (trace.strings[trace.gpu.name[row]] == "resnet50") streams.push_back(trace.gpu.stream[row]);
  REQUIRE(streams.size() == 2);
  CHECK(streams[0] != streams[1]);
}

TEST_CASE("no event is recorded on a stream that may have been destroyed", "[cuda_events][layers]") {
  EventHost host;
  REQUIRE(host.StartTiming());
  void* const other = host.cuda.MakeStream();
  const auto run = [&](bool is_destroyed) {
    pitot::Batch batch = pitot::Batch::Begin("resnet50");
    pitot::SetWorkStream(other);
    host.cuda.Enqueue(other, kMs);
    if (is_destroyed) std::thread([] { Launches::Destroy(); }).join();  // another thread destroys some stream
    { PITOT_SCOPE("forward"); }
  };
  run(true);
  const size_t stamps = host.cuda.StampsOn(other).size();
  CHECK(stamps == 1);  // at the begin
  const model::Trace trace = SettledIncident(&host);
  CHECK(Spans(trace).empty());
  CHECK(Attribute(trace, "cuda_events.stream_unsure") == "1");
  run(false);
  CHECK(host.cuda.StampsOn(other).size() > stamps + 1);
}

TEST_CASE("a stream that the host made is used only in calls that name it", "[cuda_events][layers]") {
  EventHost host;
  REQUIRE(host.StartTiming());
  void* const other = host.cuda.MakeStream();
  const auto run = [&](void* awaited) {
    pitot::Batch batch = pitot::Batch::Begin("resnet50");
    for (const char* name : {"attention", "mlp"}) {
      const pitot::Name layer = pitot::Intern(name);
      PITOT_SCOPE_NAMED(layer);
      Launch(&host, other);
    }
    Launches::Wait(awaited);
  };
  SECTION("to launch on it, or to wait for it") {
    run(other);
    CHECK(Spans(SettledIncident(&host)) == Names{"attention", "mlp"});
  }
  SECTION("a wait for the whole device does not: it may be destroyed by then") {
    run(pitot::trace::kEveryStream);
    CHECK(Spans(SettledIncident(&host)) == Names{"attention"});
  }
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("work on a stream that is idle begins as it is launched, and takes one event", "[cuda_events][layers]") {
  EventHost host;
  REQUIRE(host.StartTiming());
  void* const other = host.cuda.MakeStream();
  const auto run = [&](int64_t duration_ns) {
    const size_t before = host.cuda.StampsOn(other).size();
    pitot::Batch batch = pitot::Batch::Begin("resnet50");
    Launch(&host, other, duration_ns);
    Launches::Wait(other);
    return host.cuda.StampsOn(other).size() - before;
  };
  CHECK(run(kMs) == 2);
  CHECK(run(5 * kMs) == 1);
  SECTION("unless it was used unseen") {
    Launches::Destroy();  // as the collector of CUDA calls does when it goes on after a pause
    CHECK(run(kMs) == 2);
  }
  SECTION("unless another thread launches on it, too") {
    std::thread([&] {
      host.cuda.MakeCurrent(host.context);
      Launch(&host, other, kMs);
    }).join();
    CHECK(run(kMs) == 2);
    CHECK(run(5 * kMs) == 2);
  }
  const model::Trace trace = SettledIncident(&host);
  const int64_t error_ns = 1000 * EventHost::NumberOf(trace, "cuda_events.clock_error_us");
  int64_t longest_ns = 0;
  for (const int64_t ns : trace.gpu.duration_ns) longest_ns = std::max(longest_ns, ns);
  CHECK(longest_ns >= 5 * kMs - error_ns);
}

TEST_CASE("a thread that ends in its work leaves no span behind", "[cuda_events][layers]") {
  EventHost host;
  host.event_options.pairs_per_context = 2;
  REQUIRE(host.StartTiming());
  for (int i = 0; i < 8; ++i) {
    pitot::Batch batch;
    std::thread([&] {
      host.cuda.MakeCurrent(host.context);
      batch = pitot::Batch::Begin("resnet50");
      Launch(&host, nullptr);
    }).join();
    batch.Finish();
  }
  pitot::Batch batch = pitot::Batch::Begin("resnet50");
  Launch(&host, nullptr);
  batch.Finish();
  const model::Trace trace = SettledIncident(&host);
  CHECK(Spans(trace) == Names{"resnet50"});
  CHECK(Attribute(trace, "cuda_events.no_pair").empty());
}

TEST_CASE("layers that cost too much of a batch's time are timed as one", "[cuda_events][layers]") {
  EventHost host;
  host.event_options.layer_cost_percent = 1e-6;
  REQUIRE(host.StartTiming());
  void* const stream = nullptr;  // the default stream is always there
  const auto run = [&] {
    pitot::Batch batch = pitot::Batch::Begin("resnet50");
    for (int i = 0; i < 3; ++i) {
      PITOT_SCOPE("layer");
      Launch(&host, stream, 0);
    }
    batch.Finish();
  };
  run();  // what they cost is known after this one
  const uint32_t known = EventHost::Count(SettledIncident(&host), "layer");
  CHECK(known == 3);
  run();
  const model::Trace trace = SettledIncident(&host);
  CHECK(EventHost::Count(trace, "layer") == known);
  CHECK(Spans(trace).back() == "resnet50");
  CHECK_THAT(Attribute(trace, "cuda_events.too_costly"),
             Catch::StartsWith("inner scopes of 2 batches or requests: in the last they would have taken ") &&
                 Catch::EndsWith(" % of its time, and may take 1e-06 %"));
}

TEST_CASE("a batch that waits very often is not timed after each wait", "[cuda_events][layers]") {
  EventHost host;
  host.event_options.layer_cost_percent = 1e-6;
  REQUIRE(host.StartTiming());
  void* const stream = nullptr;  // the default stream is always there
  for (int batches = 0; batches < 2; ++batches) {
    pitot::Batch batch = pitot::Batch::Begin("resnet50");
    for (int i = 0; i < 40; ++i) {
      for (int k = 0; k < 2; ++k) Launch(&host, stream, 0);
      Launches::Wait(stream);
    }
    batch.Finish();
  }
  const model::Trace trace = SettledIncident(&host);
  CHECK(EventHost::Count(trace, "resnet50") == 2 * 32);
  CHECK(Attribute(trace, "cuda_events.after_waits") == "16");
}

TEST_CASE("a batch that ends on another thread leaves no span behind", "[cuda_events][layers]") {
  EventHost host;
  REQUIRE(host.StartTiming());
  void* const stream = nullptr;  // the default stream is always there
  pitot::Batch batch = pitot::Batch::Begin("resnet50");
  Launch(&host, stream);
  std::thread([batch = std::move(batch)]() mutable { batch.Finish(); }).join();
  pitot::Batch next = pitot::Batch::Begin("resnet50");
  Launch(&host, stream);
  next.Finish();
  const model::Trace trace = SettledIncident(&host);
  CHECK(Spans(trace) == Names{"resnet50"});
  CHECK(Attribute(trace, "cuda_events.ended_elsewhere") == "1");
}

TEST_CASE("the record of a span's end has a call of its own if it took long", "[cuda_events][layers]") {
  const auto marks_of = [](uint64_t slow_end_ns) {
    EventHost host;
    host.environment.slow_end_ns = slow_end_ns;
    REQUIRE(host.StartTiming());
    pitot::Batch batch = pitot::Batch::Begin("resnet50");
    Launch(&host, host.stream);
    Launches::Wait(host.stream);
    batch.Finish();
    const model::Trace trace = SettledIncident(&host);
    uint32_t marks = 0;
    for (uint32_t call = 0; call < trace.calls.size(); ++call)
      marks += model::IsMark(trace.strings[trace.calls.name[call]]) && trace.calls.batch[call] != model::kNone;
    return marks;
  };
  CHECK(marks_of(UINT64_MAX >> 1) == 1);
  CHECK(marks_of(0) == 2);
}

TEST_CASE("layers can be left out", "[cuda_events][layers]") {
  EventHost host;
  host.event_options.layers = false;
  REQUIRE(host.StartTiming());
  CHECK(pitot::trace::g_stream_watcher.load() == nullptr);
  pitot::Batch batch = pitot::Batch::Begin("resnet50");
  { PITOT_SCOPE("forward"); }
  batch.Finish();
  CHECK(Spans(SettledIncident(&host)).empty());
}

TEST_CASE("a share of the time that is no share is refused", "[cuda_events][layers]") {
  EventHost host;
  REQUIRE(host.Start());
  for (const double percent : {0.0, -1.0, 100.5}) {
    host.event_options.layer_cost_percent = percent;
    CHECK(host.Add().code() == pitot::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("a wait for a stream or a device is tied to the spans on it", "[cuda_events][layers]") {
  EventHost host;
  REQUIRE(host.StartTiming());
  void* const other = host.cuda.MakeStream();
  host.Run("forward");
  {
    const pitot::CudaEventScope scope(other, "copies");
    host.cuda.Enqueue(other, 0);
  }
  Launches::RecordWait("cudaStreamSynchronize", other);
  Launches::RecordWait("cudaDeviceSynchronize", pitot::trace::kEveryStream);
  const model::Trace trace = SettledIncident(&host);

  const uint32_t copies = EventHost::Find(trace, "copies");
  const uint32_t waited = CallNamed(trace, "cudaStreamSynchronize"),
                 for_all = CallNamed(trace, "cudaDeviceSynchronize");
  REQUIRE((copies != model::kNone && waited != model::kNone && for_all != model::kNone));
  CHECK(trace.calls.stream[waited] == trace.gpu.stream[copies]);
  CHECK(trace.gpu.stream[copies] != trace.gpu.stream[EventHost::Find(trace, "forward")]);
  CHECK(trace.calls.device[waited] == model::kNone);
  CHECK(trace.calls.stream[for_all] == model::kNone);
  CHECK(trace.calls.device[for_all] == trace.streams[trace.gpu.stream[copies]].device);
}

TEST_CASE("the target of a wait is not known without a context, in a capture, or from an old driver",
          "[cuda_events][layers]") {
  for (const char* why : {"no context", "a capture", "old driver"}) {
    INFO(why);
    const std::string_view of = why;
    EventHost host(of == "old driver" ? PITOT_FAKE_CUDA_OLD : PITOT_FAKE_CUDA);
    REQUIRE(host.StartTiming());
    host.Run("forward");
    if (of == "no context") host.cuda.MakeCurrent(nullptr);
    if (of == "a capture") host.cuda.SetCapturing(host.stream, true);
    Launches::RecordWait("cudaStreamSynchronize", host.stream);
    const model::Trace trace = SettledIncident(&host);

    const uint32_t waited = CallNamed(trace, "cudaStreamSynchronize");
    REQUIRE(waited != model::kNone);
    CHECK(trace.calls.stream[waited] == model::kNone);
    CHECK(trace.calls.device[waited] == model::kNone);
    CHECK(host.cuda.broken_rules() == "");
  }
}
