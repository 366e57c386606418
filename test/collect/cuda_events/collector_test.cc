// SPDX-License-Identifier: Apache-2.0
//
// What CUDA events show of batches and requests, over a driver that needs no GPU.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <vector>

#include "base/clock.h"
#include "collect/cuda_events/rig.h"
#include "fakes/own_box.h"
#include "fakes/string_sink.h"
#include "pitot/model/classes.h"
#include "pitot/model/index.h"
#include "pitot/serialize/report.h"

namespace {

namespace model = pitot::model;
using fakes::EventHost;
using fakes::kMs;
using model::kNone;
using pitot::StatusCode;

std::string Report(const model::Trace& trace) {
  fakes::StringSink sink;
  REQUIRE(pitot::MakeReportSerializer()->Serialize(trace, sink).ok());
  return sink.bytes;
}

// A kernel of 1 ms in the context of the thread that makes it.
class OneKernel final : public pitot::Collector {
 public:
  const char* Name() const noexcept override { return "one kernel"; }
  pitot::Status Start() noexcept override { return {}; }
  void Stop() noexcept override {}
  void Keep(int64_t begin_ns, pitot::KeepFor) noexcept override { kept_ns = begin_ns; }
  void AddTo(pitot::TraceBuilder& trace) override {
    pitot::GpuDevice device;
    device.ordinal = 1;
    pitot::GpuCall call;
    call.begin_ns = at_ns;
    call.tid = tid;
    call.name = trace.AddText("cudaLaunchKernel");
    call.correlation = 1;
    trace.Add(call);
    pitot::GpuActivity kernel;
    kernel.begin_ns = at_ns;
    kernel.duration_ns = kMs;
    kernel.kind = model::GpuKind::kKernel;
    kernel.stream = trace.AddStream(trace.AddDevice(device), 1, 7);
    kernel.name = trace.AddText("gemm");
    kernel.correlation = 1;
    trace.Add(kernel);
    trace.AddDepth(kept_ns, pitot::base::ClockNs(CLOCK_MONOTONIC), pitot::Depth::kKernels);
  }
  int64_t at_ns = 0, tid = 0, kept_ns = 0;
};

}  // namespace

TEST_CASE("a scope is on its stream as long as the GPU took from its first event to its last", "[cuda_events]") {
  EventHost host;
  REQUIRE(host.StartTiming());
  const size_t before = host.cuda.StampsOn(host.stream).size();
  host.cuda.Enqueue(host.stream, 2 * kMs);  // somebody else's work before
  host.Run("forward", 7 * kMs);
  model::Trace trace;
  REQUIRE(host.AwaitSpans("forward", 1, &trace));

  CHECK(model::FindInconsistency(trace) == "");
  const uint32_t row = EventHost::Find(trace, "forward");
  const std::vector<int64_t> stamps = host.cuda.StampsOn(host.stream);
  REQUIRE(stamps.size() >= before + 2);
  const int64_t begin_ns = stamps[before], error_ns = 1000 * EventHost::NumberOf(trace, "cuda_events.clock_error_us");
  const int64_t duration_ns = stamps[before + 1] - begin_ns;
  CHECK(std::abs(trace.gpu.duration_ns[row] - duration_ns) < 1000 + duration_ns / 20'000);  // the GPU's clock drifts
  CHECK(error_ns > 0);
  CHECK(std::abs(trace.gpu.begin_ns[row] - begin_ns) <= error_ns);
  const model::StreamRow& stream = trace.streams[trace.gpu.stream[row]];
  CHECK(stream.stream != 0);
  REQUIRE(stream.device != kNone);
  CHECK(trace.devices[stream.device].ordinal == 1);
  CHECK(trace.strings[trace.devices[stream.device].name] == "Fake GPU");
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("a black box has the last spans", "[cuda_events]") {
  const fakes::OwnBox box;
  EventHost host;
  REQUIRE(host.StartTiming());
  host.Run("forward", 7 * kMs);
  model::Trace trace;
  REQUIRE(host.AwaitSpans("forward", 1, &trace));
  const std::vector<fakes::OwnBox::Work> work = box.WorkNow();
  const auto span = std::find_if(work.begin(), work.end(), [](const auto& one) { return one.name == "forward"; });
  REQUIRE(span != work.end());
  CHECK(span->row.kind == static_cast<uint32_t>(model::GpuKind::kSpan));
  CHECK(span->row.device == 1);
  CHECK(span->row.begin_ns == trace.gpu.begin_ns[EventHost::Find(trace, "forward")]);
}

TEST_CASE("a report without CUPTI has the GPU time of a batch by CUDA events, shared between its members",
          "[cuda_events]") {
  EventHost host;
  REQUIRE(host.StartTiming());
  pitot::Request first = pitot::Request::Begin("/classify"), second = pitot::Request::Begin("/classify");
  {
    pitot::Batch batch = pitot::Batch::Begin("executor");
    batch.Join(first.token());
    batch.Join(second.token());
    host.Run("forward", 8 * kMs);
  }
  model::Trace trace;
  REQUIRE(host.AwaitSpans("forward", 1, &trace));
  first.Finish(pitot::Outcome::kOk);
  second.Finish(pitot::Outcome::kOk);
  trace = host.Incident();

  const uint32_t row = EventHost::Find(trace, "forward");
  REQUIRE(row != kNone);
  const uint32_t call = trace.gpu.call[row];
  REQUIRE(call != kNone);
  CHECK(trace.strings[trace.calls.name[call]] == "CudaEventScope");
  CHECK(pitot::model::IsMark(trace.strings[trace.calls.name[call]]));
  REQUIRE(trace.calls.batch[call] != kNone);
  CHECK(trace.calls.begin_ns[call] <= trace.gpu.begin_ns[row]);
  const model::GpuTime time(trace);
  CHECK(time.IsByEvents(trace.calls.batch[call]));
  CHECK(time.Batch(trace.calls.batch[call]) == trace.gpu.duration_ns[row]);
  CHECK(time.Request(0) + time.Request(1) == trace.gpu.duration_ns[row]);
  CHECK_THAT(Report(trace), Catch::Contains("gpu        at most ") &&
                                Catch::Contains("of GPU time by CUDA events, its share of at most"));
  CHECK_THAT(Report(trace), Catch::Contains("GPU 1 Fake GPU: its work was not recorded"));
}

TEST_CASE("recorded kernels of a batch replace its CUDA events as GPU time", "[cuda_events]") {
  EventHost host;
  REQUIRE(host.StartTiming());
  auto made = std::make_unique<OneKernel>();
  OneKernel& kernel = *made;
  REQUIRE(host.recorder.Add(std::move(made)).ok());
  {
    pitot::Batch batch = pitot::Batch::Begin("executor");
    PITOT_SCOPE("run");
    host.Run("forward", 8 * kMs);
    kernel.at_ns = pitot::base::ClockNs(CLOCK_MONOTONIC);
    kernel.tid = gettid();
  }
  model::Trace trace;
  REQUIRE(host.AwaitSpans("forward", 1, &trace));

  const uint32_t batch = trace.calls.batch[trace.gpu.call[EventHost::Find(trace, "forward")]];
  REQUIRE(batch != kNone);
  const model::GpuTime time(trace);
  CHECK(time.Batch(batch) == kMs);
  CHECK_FALSE(time.IsByEvents(batch));
  CHECK(trace.devices.size() == 1);
  CHECK(model::TotalNs(model::DeviceBusy(trace, 0)) == kMs);
}

TEST_CASE("a request outside of batches has the time of its scopes; names made at run time are names",
          "[cuda_events]") {
  EventHost host;
  REQUIRE(host.StartTiming());
  pitot::Request request = pitot::Request::Begin("/embed");
  {
    const pitot::CudaEventScope scope(nullptr, pitot::Intern("step 7"));
    host.cuda.Enqueue(nullptr, 3 * kMs);
  }
  model::Trace trace;
  REQUIRE(host.AwaitSpans("step 7", 1, &trace));
  CHECK(model::GpuTime(trace).RequestByEvents(0) == trace.gpu.duration_ns[EventHost::Find(trace, "step 7")]);
  request.Finish(pitot::Outcome::kOk);
}

TEST_CASE("a scope without a collector does nothing, before, after and between", "[cuda_events]") {
  EventHost host;
  host.Run("none");
  REQUIRE(host.Start());
  host.Run("none");
  CHECK(host.cuda.calls() == 0);
  REQUIRE(host.Add().ok());
  REQUIRE(host.WarmUp());
  host.recorder.Stop();
  const uint64_t calls = host.cuda.calls();
  host.Run("none");
  CHECK(host.cuda.calls() == calls);
}

TEST_CASE("the collector needs no driver until there is one, and asks a sleeping driver for nothing", "[cuda_events]") {
  EventHost host;
  host.environment.library = "libnone_of_that_name.so.1";
  REQUIRE(host.Start());
  REQUIRE(host.Add().ok());
  for (int i = 0; i < 100; ++i) host.Run("too early");
  CHECK(EventHost::NumberOf(host.Incident(), "cuda_events.before_driver") == 100);
  host.recorder.Stop();

  EventHost other;
  REQUIRE(other.StartTiming());
  model::Trace trace;
  REQUIRE(other.AwaitSpans("warm up", 1, &trace));
  other.Incident();
  const uint64_t calls = other.cuda.calls();
  for (int i = 0; i < 3; ++i) other.Round();
  CHECK(other.cuda.calls() == calls);
}

TEST_CASE("a driver without the newer functions is enough, but not one that lacks a needed function", "[cuda_events]") {
  {
    EventHost host(PITOT_FAKE_CUDA_OLD);
    REQUIRE(host.StartTiming());
    host.Run("forward", kMs);
    model::Trace trace;
    REQUIRE(host.AwaitSpans("forward", 1, &trace));
    CHECK(trace.gpu.duration_ns[EventHost::Find(trace, "forward")] >= kMs - 1000);
    CHECK(host.cuda.broken_rules() == "");
  }
  EventHost host(PITOT_FAKE_CUDA_BROKEN);
  REQUIRE(host.Start());
  REQUIRE(host.Add().ok());
  host.Run("forward");
  CHECK(EventHost::NumberOf(host.Incident(), "cuda_events.before_driver") == 1);
  CHECK(host.cuda.calls() == 0);
}

TEST_CASE("the driver is found by its own name once the process has loaded it", "[cuda_events]") {
  EventHost host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeCudaEventCollector()).ok());
  CHECK(host.WarmUp());
}

TEST_CASE("a stream being captured into a graph is left alone, and captures are not spoilt", "[cuda_events]") {
  EventHost host;
  REQUIRE(host.StartTiming());
  void* const capturing = host.cuda.MakeStream();
  host.cuda.SetCapturing(capturing, true);
  host.Run("before", kMs);  // the collector's thread asks meanwhile
  { const pitot::CudaEventScope scope(capturing, "captured"); }
  {
    const pitot::CudaEventScope scope(host.stream, "captured");
    host.cuda.SetCapturing(host.stream, true);
  }
  host.cuda.SetCapturing(host.stream, false);
  model::Trace trace;
  REQUIRE(host.AwaitSpans("before", 1, &trace));

  CHECK(EventHost::Count(trace, "captured") == 0);
  CHECK(EventHost::NumberOf(trace, "cuda_events.capturing") == 2);
  CHECK(host.cuda.broken_rules() == "");
  host.cuda.SetCapturing(capturing, false);
}

TEST_CASE("scopes that find no pair are counted, and the pairs come back", "[cuda_events]") {
  EventHost host;
  host.event_options.pairs_per_context = 4;
  REQUIRE(host.StartTiming());
  model::Trace trace;
  REQUIRE(host.AwaitSpans("warm up", 1, &trace));
  host.cuda.Hold();
  for (int i = 0; i < 10; ++i) host.Run("held");
  trace = host.Incident();
  CHECK(EventHost::Count(trace, "held") == 0);
  CHECK(EventHost::NumberOf(trace, "cuda_events.no_pair") == 6);
  CHECK_THAT(fakes::Attribute(trace, "cuda_events.under_way"), Catch::StartsWith("4, the oldest for "));
  host.cuda.Release();
  REQUIRE(host.AwaitSpans("held", 4, &trace));
  CHECK(fakes::Attribute(trace, "cuda_events.under_way") == "");
  host.Run("after");
  CHECK(host.AwaitSpans("after", 1, &trace));
}

TEST_CASE("the newest of many spans survive, and the loss is reported", "[cuda_events]") {
  EventHost host;
  host.event_options.memory_bytes = 64 << 10;  // 819 spans
  REQUIRE(host.StartTiming());
  for (int i = 0; i < 2000; ++i) {
    host.Run("many");
    if (i % 100 == 0) host.Round();
  }
  host.Run("last");
  model::Trace trace;
  REQUIRE(host.AwaitSpans("last", 1, &trace));
  CHECK(host.recorder.Stats().collector_bytes == 64 << 10);
  CHECK(trace.gpu.size() <= 819);
  CHECK(fakes::Attribute(trace, "cuda_events.overwritten") != "");
}

TEST_CASE("wrong options and a second collector are refused in words", "[cuda_events]") {
  EventHost host;
  REQUIRE(host.Start());
  host.event_options.pairs_per_context = 0;
  CHECK_THAT(host.Add().message(), Catch::Contains("pairs_per_context"));
  host.event_options = {};
  host.event_options.memory_bytes = 1;
  CHECK_THAT(host.Add().message(), Catch::Contains("memory_bytes"));
  host.event_options = {};
  CHECK(host.Add().ok());
  CHECK(host.Add().code() == StatusCode::kAlreadyRunning);
}
