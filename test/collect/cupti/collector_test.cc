// SPDX-License-Identifier: Apache-2.0
//
// The CUPTI collector in a recorder, over a CUPTI that needs no GPU.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "collect/cupti/rig.h"
#include "fakes/child.h"
#include "fakes/own_box.h"
#include "fakes/scale.h"
#include "fakes/temp_directory.h"
#include "fakes/wait_until.h"
#include "session/post_mortem.h"
#include "snapshot/box_reader.h"

namespace {

namespace cupti = pitot::cupti;
namespace model = pitot::model;
using fakes::Attribute;
using fakes::CountNamed;
using fakes::Find;
using fakes::GpuHost;
using model::kNone;
using pitot::Depth;
using pitot::StatusCode;

}  // namespace

namespace {
constinit std::atomic<int64_t> g_kernels_end_ns{0}, g_kernels{0};
}

TEST_CASE("collectors that come and go leave no more exit handlers than the first", "[cupti]") {
  uint32_t of_first = 0;
  for (int i = 0; i < 3; ++i) {
    GpuHost host;
    fakes::g_kineto = pitot::cupti::KinetoState::kUnused;
    REQUIRE(host.StartAt(Depth::kKernels));
    host.cuda.Run({});
    for (int round = 0; round < 2; ++round) host.Round();
    if (i == 0) of_first = pitot::cupti::ExitHandlers();
    CHECK(pitot::cupti::ExitHandlers() == of_first);
  }
  CHECK(of_first <= 3);  // for CUPTI, the driver and PyTorch's profiler
}

TEST_CASE("a measurer of records' age gets each once it is in the history, with its times", "[cupti]") {
  GpuHost host;
  host.environment.on_records = [](const cupti::GpuRecord* records, size_t count) noexcept {
    for (size_t i = 0; i < count; ++i) {
      if (records[i].activity != cupti::Activity::kKernel) continue;
      ++g_kernels;
      g_kernels_end_ns = records[i].begin_ns + records[i].duration_ns;
    }
  };
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "gemm"});
  host.cuda.Run({.name = "norm"});
  host.Round();

  CHECK(g_kernels == 2);
  const model::Trace trace = host.Incident();
  const uint32_t last = Find(trace, "norm");
  REQUIRE(last != kNone);
  CHECK(g_kernels_end_ns == trace.gpu.begin_ns[last] + trace.gpu.duration_ns[last]);
}

TEST_CASE("a kernel is tied to its launch, and the launch to the scope's request and batch, with every CUPTI",
          "[cupti]") {
  for (const auto& generation : {fakes::kCupti11, fakes::kCupti12, fakes::kCupti13}) {
    INFO(generation.version);
    GpuHost host(generation);
    REQUIRE(host.StartAt(Depth::kKernels));
    pitot::Request request = pitot::Request::Begin("/classify");
    const uint64_t id = request.id();
    {
      pitot::Batch batch = pitot::Batch::Begin("executor");
      batch.Join(request.token());
      PITOT_SCOPE("forward");
      host.cuda.Run({.name = "gemm", .duration_ns = 2000, .has_driver_call = true});
      host.cuda.Run({.copy_bytes = 4096});
      host.cuda.Synchronize();
    }
    request.Finish(pitot::Outcome::kOk);

    const model::Trace trace = host.Incident();

    CHECK(model::FindInconsistency(trace) == "");
    const uint32_t kernel = Find(trace, "gemm"), copy = Find(trace, "pageable to device");
    REQUIRE(kernel != kNone);
    REQUIRE(copy != kNone);
    CHECK(std::llabs(trace.gpu.duration_ns[kernel] - 2000) <= 1);  // both ends move with a slewed clock
    CHECK(trace.gpu.kind[copy] == model::GpuKind::kMemcpy);
    CHECK(trace.gpu.bytes[copy] == 4096);
    const uint32_t call = trace.gpu.call[kernel];
    REQUIRE(call != kNone);
    CHECK(trace.strings[trace.calls.name[call]] == "cudaLaunchKernel");
    REQUIRE(trace.calls.batch[call] != kNone);
    CHECK(trace.members[trace.batches[trace.calls.batch[call]].first_member].request == 0);
    CHECK(trace.requests[0].id == id);
    CHECK(trace.strings[trace.calls.name[trace.gpu.call[copy]]] == "cudaMemcpyAsync");
    CHECK(trace.calls.size() == 3);  // the driver's call inside the runtime's is not another
    CHECK(trace.streams[trace.gpu.stream[kernel]].stream == 7);
    CHECK(trace.shapes[trace.gpu.shape[kernel]].block[0] == 128);
    CHECK(Attribute(trace, "cupti.calls") == "API callbacks");
    CHECK(Attribute(trace, "cupti") == "");
    CHECK(std::atoll(Attribute(trace, "cupti.clock_error_ns").c_str()) > 0);
    CHECK(host.cuda.broken_rules() == "");
    host.recorder.Stop();
    CHECK_FALSE(host.cuda.HasSubscriber());
    CHECK_FALSE(host.cuda.IsEnabled(cupti::kConcurrentKernel));
    CHECK(host.cuda.callbacks_enabled() == 0);
  }
}

TEST_CASE("a black box has the last kernels, copies and sets", "[cupti]") {
  const fakes::OwnBox box;
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "gemm", .duration_ns = 2000});
  host.cuda.Run({.copy_bytes = 4096});
  host.cuda.Run({.name = "gemm"});
  host.Round();
  const std::vector<fakes::OwnBox::Work> work = box.WorkNow();
  REQUIRE(work.size() == 3);
  CHECK(work[0].name == "gemm");
  CHECK(work[0].row.kind == static_cast<uint32_t>(model::GpuKind::kKernel));
  CHECK(work[0].row.stream == 7);
  CHECK(work[1].name == "pageable to device");
  CHECK(work[1].row.bytes == 4096);
  CHECK(work[2].row.name == work[0].row.name);
  const model::Trace trace = host.Incident();
  CHECK(work[0].row.begin_ns == trace.gpu.begin_ns[Find(trace, "gemm")]);
}

TEST_CASE("in a black box a kernel is tied to its launch", "[cupti]") {
  const fakes::TempDirectory directory;
  const std::string path = directory.path() + "/boxes";
  GpuHost host;
  host.options.black_box_directory = path.c_str();
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "gemm"});
  host.Round();
  const std::vector<std::string> boxes = fakes::NamesIn(path);
  REQUIRE(boxes.size() == 1);
  const int fd = open((path + "/" + boxes[0]).c_str(), O_RDONLY | O_CLOEXEC);
  model::Trace trace;
  uint32_t kernel = kNone;
  // The watcher has to see the first call of its kind.
  CHECK(fakes::WaitUntil([&] {
    pitot::snapshot::BoxReader reader;
    REQUIRE(std::string(reader.Open(fd)) == "");
    trace = pitot::session::TraceOf(&reader, {}, 1 << 20, 64 << 20);
    kernel = Find(trace, "gemm");
    return kernel != kNone && trace.gpu.call[kernel] != kNone;
  }));
  close(fd);
  CHECK(model::FindInconsistency(trace) == "");
  REQUIRE(kernel != kNone);
  REQUIRE(trace.gpu.call[kernel] != kNone);
  CHECK(trace.strings[trace.calls.name[trace.gpu.call[kernel]]] == "cudaLaunchKernel");
}

TEST_CASE("a wait has its stream, by whatever handle, and a wait for a device its device", "[cupti]") {
  struct Wait {
    fakes::FakeSync sync;
    uint32_t stream;  // 0: unknown
  };
  const char* const per_thread = "cudaStreamSynchronize_ptsz_v7000";
  const Wait waits[] = {{{.handle = fakes::FakeStream(13)}, 13},
                        {{.handle = fakes::FakeStream(13), .api = "cuStreamSynchronize"}, 13},
                        {{.handle = fakes::FakeStream(14), .context = 2}, 14},
                        {{.handle = 0}, 7},
                        {{.handle = cupti::kLegacyHandle}, 7},
                        {{.handle = cupti::kPerThreadHandle}, 8},
                        {{.handle = 0, .api = per_thread}, 8},
                        {{.handle = cupti::kLegacyHandle, .api = per_thread}, 7},
                        {{.handle = fakes::FakeStream(13), .api = per_thread}, 13},
                        {{.handle = fakes::FakeStream(13), .result = 700}, 0},
                        {{.handle = fakes::FakeStream(99)}, 0},  // without work in the window
                        {{.handle = 5}, 0}};                     // unknown to CUPTI
  for (const Wait& wait : waits) {
    INFO(wait.sync.api << " of " << wait.sync.handle << " in " << wait.sync.context);
    GpuHost host;
    REQUIRE(host.StartAt(Depth::kKernels));
    for (const uint32_t stream : {7u, 8u, 13u}) host.cuda.Run({.stream = stream});
    host.cuda.Run({.stream = 14, .device = 1, .context = 2});
    host.cuda.SynchronizeStream(wait.sync);
    host.cuda.Synchronize();

    const model::Trace trace = host.Incident();

    REQUIRE(model::FindInconsistency(trace) == "");
    REQUIRE(trace.calls.size() == 6);
    for (uint32_t call = 0; call < 6; ++call) {
      const std::string_view name = trace.strings[trace.calls.name[call]];
      const uint32_t stream = trace.calls.stream[call], device = trace.calls.device[call];
      const bool is_of_stream = name.find("StreamSynchronize") != std::string_view::npos;
      REQUIRE((stream != kNone) == (is_of_stream && wait.stream != 0));
      if (stream != kNone) {
        CHECK(trace.streams[stream].stream == wait.stream);
        CHECK(trace.streams[stream].context == wait.sync.context);
      }
      REQUIRE((device != kNone) == (name == "cudaDeviceSynchronize"));
      if (device != kNone) CHECK(trace.devices[device].ordinal == 0);
    }
  }
}

TEST_CASE("CUPTI is asked once for a handle's stream, and again once it may be another", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  for (const uint32_t stream : {7u, 8u, 13u, 14u, 15u, 16u}) host.cuda.Run({.stream = stream});
  const uintptr_t handle = fakes::FakeStream(13);
  const auto asked = [&] { return host.cuda.calls_of("cuptiGetStreamIdEx"); };
  const auto wait = [&](int times) {
    for (int i = 0; i < times; ++i) host.cuda.SynchronizeStream({.handle = handle});
  };

  wait(5);
  CHECK(asked() == 1);
  for (int i = 0; i < 5; ++i) host.cuda.SynchronizeStream({.handle = 0});
  CHECK(asked() == 2);
  host.cuda.SynchronizeStream({.handle = handle, .context = 2});
  CHECK(asked() == 3);
  for (int i = 0; i < 5; ++i) host.cuda.SynchronizeStream({.handle = cupti::kPerThreadHandle});
  CHECK(asked() == 8);  // each thread has one of its own
  host.cuda.Remake(handle, 14);
  wait(5);
  CHECK(asked() == 9);
  host.cuda.RemakeContext(handle, 15);
  wait(5);
  CHECK(asked() == 10);
  REQUIRE(host.recorder.Pause("cupti").ok());
  host.cuda.Remake(handle, 16);  // without a report
  REQUIRE(host.recorder.Resume("cupti").ok());
  wait(5);
  CHECK(asked() == 11);

  const model::Trace trace = host.Incident();

  std::vector<uint32_t> streams;
  for (uint32_t call = 0; call < trace.calls.size(); ++call) {
    if (trace.calls.stream[call] != kNone) streams.push_back(trace.streams[trace.calls.stream[call]].stream);
  }
  std::vector<uint32_t> expected;
  for (const uint32_t stream : {13, 7, 8, 14, 15, 16}) expected.insert(expected.end(), 5, stream);
  CHECK(streams == expected);
}

TEST_CASE("a wait's stream is unknown if CUPTI does not tell the handle's stream", "[cupti]") {
  for (const bool is_refused : {true, false}) {
    GpuHost host(fakes::kCupti11, is_refused ? PITOT_FAKE_CUPTI : PITOT_FAKE_CUPTI_OLD);
    REQUIRE(host.StartAt(Depth::kKernels));
    host.cuda.Run({});
    if (is_refused) host.cuda.Refuse("cuptiGetStreamIdEx");
    host.cuda.SynchronizeStream({});

    const model::Trace trace = host.Incident();

    REQUIRE(trace.calls.size() == (is_refused ? 2 : 1));  // only launches with an old one
    CHECK(std::all_of(trace.calls.stream.begin(), trace.calls.stream.end(), [](uint32_t row) { return row == kNone; }));
    CHECK(Attribute(trace, "cupti") == "");
  }
}

TEST_CASE("a CUPTI without the newer functions records launches by their known numbers", "[cupti]") {
  GpuHost host(fakes::kCupti11, PITOT_FAKE_CUPTI_OLD);
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "gemm"});

  const model::Trace trace = host.Incident();

  const uint32_t kernel = Find(trace, "gemm");
  REQUIRE(kernel != kNone);
  REQUIRE(trace.gpu.call[kernel] != kNone);
  CHECK(trace.strings[trace.calls.name[trace.gpu.call[kernel]]] == "cudaLaunchKernel");
}

TEST_CASE("a running kernel is shown once it has ended, in a later incident at the latest", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "long", .is_running = true});
  REQUIRE(fakes::WaitUntil([&] { return CountNamed(host.Incident(), "long") == 1; }));
}

TEST_CASE("records dropped by CUPTI are reported with their number", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Drop(17);
  const model::Trace trace = host.Incident();
  REQUIRE(trace.gpu_losses.size() == 1);
  CHECK(trace.gpu_losses[0].records == 17);
  CHECK(trace.strings[trace.gpu_losses[0].reason] == "dropped by CUPTI");
}

TEST_CASE("wrapped correlations are tied to the right launch", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.SetCorrelation(0xffffffff);
  host.cuda.Run({.name = "last"});
  host.cuda.Run({.name = "first again"});
  host.cuda.SetCorrelation(0xffffffff);
  host.cuda.Run({.name = "same again"});

  const model::Trace trace = host.Incident();

  const uint32_t last = Find(trace, "last"), again = Find(trace, "same again");
  REQUIRE(trace.gpu.call[last] != kNone);
  REQUIRE(trace.gpu.call[again] != kNone);
  CHECK(trace.gpu.call[last] < trace.gpu.call[Find(trace, "first again")]);
  CHECK(trace.gpu.call[Find(trace, "first again")] < trace.gpu.call[again]);
}

TEST_CASE("many threads launch at once, and every kernel finds its thread", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) host.cuda.Run({.name = t % 2 == 0 ? "even" : "odd"});
    });
  }
  for (int i = 0; i < 50; ++i) host.collector->SetDepth(Depth::kKernels);
  for (std::thread& thread : threads) thread.join();

  const model::Trace trace = host.Incident();

  CHECK(CountNamed(trace, "even") == 1000);
  CHECK(CountNamed(trace, "odd") == 1000);
  for (uint32_t i = 0; i < trace.gpu.size(); ++i) {
    CHECK(trace.gpu.call[i] != kNone);
  }
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("a collector may follow another while CUPTI still has its buffers", "[cupti]") {
  for (int i = 0; i < 3; ++i) {
    GpuHost host;
    REQUIRE(host.StartAt(Depth::kKernels));
    host.cuda.Run({.name = "gemm", .is_running = true});
    REQUIRE(fakes::WaitUntil([&] { return CountNamed(host.Incident(), "gemm") == 1; }));
  }
}

TEST_CASE("the child of a fork touches nothing of CUPTI", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({});
  const int code = fakes::InChild([&] {
    const int before = host.cuda.calls();  // the parent's go on meanwhile, this process's do not
    host.collector->SetDepth(Depth::kScopes);
    host.collector->Keep(0, pitot::KeepFor::kIncident);
    if (host.collector->Pause().code() != StatusCode::kNotRunning) return 1;
    host.recorder.Stop();
    return host.cuda.calls() != before ? 2 : 0;
  });
  CHECK(code == 0);
  CHECK(host.cuda.IsEnabled(cupti::kConcurrentKernel));
}

TEST_CASE("a host can exit in the middle of a flush, and CUPTI is not called while it is torn down", "[cupti]") {
  if (fakes::kThreadSanitizer) return;  // it loses count of locks in a child with threads
  const int code = fakes::InChild([] {
    static auto* const host = new GpuHost;
    host->environment.keep_patience_ns = 10'000'000'000;
    // Runs after the collector's handlers, because they were registered later: CUPTI is then torn down.
    std::atexit([] {
      const int before = host->cuda.calls();
      for (int i = 0; i < 3; ++i) host->Round();
      {
        PITOT_SCOPE("at exit");
        host->cuda.SynchronizeStream({.handle = fakes::FakeStream(13)});
        host->cuda.CaptureNode(1);
      }
      std::filesystem::remove_all(host->directory.path());  // nobody deletes the host
      if (host->cuda.is_hanging() || host->cuda.calls() != before) _exit(2);
    });
    HOLDS(host->StartAt(Depth::kKernels));
    for (int i = 0; i < 1000; ++i) host->cuda.Run({});
    host->Round();  // CUPTI has asked for buffers
    host->cuda.HangIn("cuptiActivityFlushAll");
    host->cuda.Run({.is_running = true});
    HOLDS(fakes::WaitUntil([] { return host->cuda.is_hanging(); }));
    std::atexit([] { host->cuda.HangIn(""); });  // runs first: the begun call ends
    std::exit(7);
    return 1;
  });
  CHECK(code == 7);
}
