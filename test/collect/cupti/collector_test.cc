// SPDX-License-Identifier: Apache-2.0
//
// The CUPTI collector in a recorder, over a CUPTI that needs no GPU.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "collect/cupti/rig.h"
#include "fakes/child.h"
#include "fakes/scale.h"

namespace {

namespace base = pitot::base;
namespace cupti = pitot::cupti;
namespace model = pitot::model;
using cupti::CudaState;
using cupti::KinetoState;
using fakes::Attribute;
using fakes::CountNamed;
using fakes::Find;
using fakes::FindGraph;
using fakes::g_cuda;
using fakes::g_kineto;
using fakes::GpuHost;
using fakes::HasLoss;
using fakes::ImpatientHost;
using fakes::SmallMemory;
using fakes::Surroundings;
using model::kNone;
using pitot::Depth;
using pitot::Status;
using pitot::StatusCode;

// How many lines of the host's log hold it.
int64_t CountSaid(const session_test::Host& host, std::string_view part) {
  const auto lines = host.log.lines();
  return std::count_if(lines.begin(), lines.end(),
                       [&](const auto& line) { return line.text.find(part) != std::string::npos; });
}

// The most that the process ever had resident, since it was told to forget that.
uint64_t PeakBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::strtoull(line.c_str() + 6, nullptr, 10) << 10;
  }
  return 0;
}

// A kernel's, in ms of the clocks.
struct Span {
  int64_t begin, end;
  bool operator==(const Span&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Span& span) { return out << span.begin << " to " << span.end; }

// One whose CUPTI stamps with clocks that the test moves.
struct ClockHost : GpuHost {
  ClockHost() {
    options.pre_window_ms = 600'000;
    environment.read_clocks = fakes::FakeClocks::Read;
  }
  // The collector has read them.
  void MoveTo(int64_t at_ms) {
    clocks.SetMs(at_ms);
    Round();
  }
  void RunStamped(const char* name, int64_t begin, int64_t end) {
    cuda.Run({.name = name, .begin_ns = begin, .duration_ns = end - begin});
  }
  void RunAt(const char* name, int64_t begin_ms, int64_t end_ms) {
    RunStamped(name, clocks.Stamp(begin_ms), clocks.Stamp(end_ms));
  }
  Span MsOf(const model::Trace& trace, std::string_view name) const {
    const uint32_t at = Find(trace, name);
    if (at == kNone) return {-1, -1};
    const int64_t begin_ns = trace.gpu.begin_ns[at];
    return {clocks.MsOf(begin_ns), clocks.MsOf(begin_ns + static_cast<int64_t>(trace.gpu.duration_ns[at]))};
  }
  fakes::FakeClocks clocks;
};

// At the end of these kernels are to be recorded.
void Dip(GpuHost& host, Depth depth) {
  const uint32_t graph = host.cuda.Instantiate(2);
  host.cuda.Replay(graph, "node");
  host.collector->SetDepth(depth);
  host.cuda.Replay(graph, "node");
  host.Round();
  host.collector->SetDepth(Depth::kKernels);
}
void HandOver(GpuHost& host) {
  host.cuda.Run({});
  const Status status = host.collector->Pause();
  CHECK(status.ok());
  CHECK_FALSE(host.cuda.HasSubscriber());
  CHECK(host.cuda.kinds_enabled() + host.cuda.callbacks_enabled() == 0);
  if (!host.collector->Resume().ok()) host.collector->Resume();  // the host may try again
}
// It leaves on what it does not know of.
void Profile(GpuHost& host) {
  host.cuda.Run({});
  g_kineto = KinetoState::kActive;
  host.Round();
  host.cuda.RegisterOther();
  host.cuda.Run({});
  g_kineto = KinetoState::kIdle;
  host.Round();
  host.Round();
}
void UnseenProfile(GpuHost& host) {
  host.cuda.Run({});
  host.Round();
  const size_t on = host.cuda.kinds_enabled() + host.cuda.callbacks_enabled();
  host.cuda.RegisterOther();
  host.cuda.DisableAll();
  const auto is_back = [&] { return host.cuda.kinds_enabled() + host.cuda.callbacks_enabled() >= on; };
  fakes::WaitUntil([&] { return is_back() || host.collector->Depths() == 0; });
}
void LoadTorch(GpuHost& host) {
  host.cuda.Run({});
  g_cuda = CudaState::kInUse;
  g_kineto = KinetoState::kIdle;
  host.Round();
  host.Round();
}

// Of kernel, copy and call nothing is missing.
bool HasAll(const model::Trace& trace) {
  const uint32_t kernel = Find(trace, "kernel at last"), copy = Find(trace, "pageable to device");
  if (kernel == kNone || copy == kNone || trace.gpu.call[kernel] == kNone || trace.gpu.call[copy] == kNone)
    return false;
  return trace.calls.thread[trace.gpu.call[kernel]] != kNone && trace.calls.thread[trace.gpu.call[copy]] != kNone;
}
// Why something is missing.
std::set<std::string> Said(const model::Trace& trace) {
  std::set<std::string> said;
  for (const char* const key : {"cupti", "cupti.not_recorded", "cupti.unknown_records", "cupti.buffers_written_off"})
    said.insert(Attribute(trace, key));
  for (const auto& loss : trace.gpu_losses) said.emplace(trace.strings[loss.reason]);
  return said;
}

}  // namespace

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
    CHECK(trace.gpu.duration_ns[kernel] == 2000);
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
    CHECK(host.cuda.broken_rules() == "");
    host.recorder.Stop();
    CHECK_FALSE(host.cuda.HasSubscriber());
    CHECK_FALSE(host.cuda.IsEnabled(cupti::kConcurrentKernel));
    CHECK(host.cuda.callbacks_enabled() == 0);
  }
}

TEST_CASE("a wait knows its stream, by whatever handle, and one for a device its device", "[cupti]") {
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
                        {{.handle = fakes::FakeStream(99)}, 0},  // did nothing in the window
                        {{.handle = 5}, 0}};                     // CUPTI does not know it
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

TEST_CASE("where CUPTI does not say which stream a handle is, a wait's stream is unknown", "[cupti]") {
  for (const bool is_refused : {true, false}) {
    GpuHost host(fakes::kCupti11, is_refused ? PITOT_FAKE_CUPTI : PITOT_FAKE_CUPTI_OLD);
    REQUIRE(host.StartAt(Depth::kKernels));
    host.cuda.Run({});
    if (is_refused) host.cuda.Refuse("cuptiGetStreamIdEx");
    host.cuda.SynchronizeStream({});

    const model::Trace trace = host.Incident();

    REQUIRE(trace.calls.size() == (is_refused ? 2 : 1));  // an old one's launches alone
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

TEST_CASE("nothing is recorded at the depth of scopes, and the trace says when it was how deep", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kScopes));
  host.cuda.Run({.name = "unseen"});
  host.collector->SetDepth(Depth::kKernels);
  host.cuda.Run({.name = "seen"});
  host.collector->SetDepth(Depth::kScopes);
  host.cuda.Run({.name = "unseen"});

  const model::Trace trace = host.Incident();

  CHECK(CountNamed(trace, "unseen") == 0);
  CHECK(CountNamed(trace, "seen") == 1);
  REQUIRE(trace.depths.size() >= 3);
  const size_t last = trace.depths.size() - 1;
  CHECK(trace.depths[last].depth == Depth::kScopes);
  CHECK(trace.depths[last - 1].depth == Depth::kKernels);
  CHECK(trace.depths[last - 1].end_ns == trace.depths[last].begin_ns);
  CHECK(host.cuda.callbacks_enabled() == 5);  // fatal errors and graphs, which cost nothing until they happen
}

TEST_CASE("armed by a trigger CUPTI records all, and nothing again after", "[cupti]") {
  for (const KinetoState kineto : {KinetoState::kAbsent, KinetoState::kIdle}) {
    GpuHost host;
    g_kineto = kineto;
    host.options.depth = Depth::kAuto;
    host.cupti_options.lasting_cost_percent = 100;
    REQUIRE(host.Start());
    REQUIRE(host.Add().ok());
    host.cuda.Run({.name = "first"});
    const size_t quiet = kineto == KinetoState::kAbsent ? 5 : 0;
    REQUIRE(fakes::WaitUntil([&] { return host.cuda.callbacks_enabled() == quiet; }));
    REQUIRE(host.recorder.Trigger("slow").ok());
    CHECK(fakes::WaitUntil([&] { return host.cuda.IsEnabled(cupti::kConcurrentKernel); }));
    CHECK(fakes::WaitUntil([&] { return !host.cuda.IsEnabled(cupti::kConcurrentKernel); }));
    CHECK(fakes::WaitUntil([&] { return host.cuda.callbacks_enabled() == quiet; }));
    for (const uint32_t kind : {cupti::kMemcpy, cupti::kMemset, cupti::kMemcpyPeer, cupti::kOverhead, cupti::kJit})
      CHECK_FALSE(host.cuda.IsEnabled(kind));
  }
}

TEST_CASE("while it would leave too much behind no kernel is recorded at the automatic depth, and incidents say so",
          "[cupti]") {
  for (const KinetoState kineto : {KinetoState::kAbsent, KinetoState::kIdle}) {
    const bool has_callbacks = kineto == KinetoState::kAbsent;
    GpuHost host;
    g_kineto = kineto;
    host.environment.look_ns = host.environment.between_looks_ns = 1;
    REQUIRE(host.StartAt(Depth::kScopes));
    CHECK(host.collector->Depths() == 0);
    const auto forecast = [&] { return Attribute(host.Incident(), "cupti.lasting_cost"); };
    // A host that has its depth governed asks for its depths again and again.
    const auto is_said = [&](std::string_view what) {
      host.collector->Depths();
      return forecast().find(what) != std::string::npos;
    };
    REQUIRE(fakes::WaitUntil([&] { return is_said("not known yet: no kernels at the automatic depth"); }));
    std::atomic<bool> is_done{false};
    std::thread worker([&] {
      while (!is_done) host.cuda.Run({}), host.collector->Depths();
    });
    const bool is_known = fakes::WaitUntil([&] { return is_said("% forecast, above"); });
    is_done = true;
    worker.join();
    REQUIRE(is_known);
    CHECK(host.collector->Depths() == 0);
    const std::string why = Attribute(host.Incident(), "cupti.not_recorded");
    CHECK_THAT(why, Catch::Contains("% behind for good (forecast), above CuptiOptions::lasting_cost_percent = 1") &&
                        Catch::EndsWith("; to record kernels: set that to 100, or fix the depth"));
    CHECK(CountSaid(host, "above CuptiOptions::lasting_cost_percent") == 1);
    CHECK(host.Incident().gpu.size() == 0);
    CHECK(host.Incident().calls.size() == 0);  // they were looked at only
    CHECK_FALSE(host.cuda.IsEnabled(cupti::kConcurrentKernel));
    // What the host fixes is not asked for. What is recorded once has left behind what it leaves.
    host.collector->SetDepth(Depth::kKernels);
    const uint32_t correlation = host.cuda.Run({.name = "wanted"});
    const model::Trace trace = host.Incident();
    CHECK(CountNamed(trace, "wanted") == 1);
    CHECK(trace.calls.size() >= 1);
    CHECK(correlation != 0);
    CHECK_THAT(Attribute(trace, "cupti.lasting_cost"), Catch::Contains("it is being paid for good"));
    CHECK(Attribute(trace, "cupti.not_recorded").empty());
    host.collector->SetDepth(Depth::kScopes);
    CHECK(host.collector->Depths() == fakes::kDepths);
    // Nobody looks any more.
    CHECK(fakes::WaitUntil([&] { return host.cuda.callbacks_enabled() == (has_callbacks ? 5u : 0u); }));
    CHECK(host.cuda.broken_rules().empty());
  }
}

TEST_CASE("where launches are few kernels are recorded at the automatic depth", "[cupti]") {
  GpuHost host;
  host.cupti_options.lasting_cost_percent = 20;
  host.environment.look_ns = host.environment.between_looks_ns = 1;  // a round
  REQUIRE(host.StartAt(Depth::kScopes));
  CHECK(host.collector->Depths() == 0);
  const auto spin = [](int64_t ns) {
    for (const int64_t until_ns = base::ClockNs(CLOCK_MONOTONIC) + ns; base::ClockNs(CLOCK_MONOTONIC) < until_ns;) {}
  };
  // One launch in 0.2 ms would cost 0.7 %.
  CHECK(fakes::WaitUntil([&] {
    host.cuda.Run({});
    spin(200'000);
    return host.collector->Depths() == fakes::kDepths;
  }));
  const std::string forecast = Attribute(host.Incident(), "cupti.lasting_cost");
  CHECK(forecast.find("% forecast, within CuptiOptions::lasting_cost_percent (20): ") != std::string::npos);
}

TEST_CASE("what a recorder before or a profile has left behind is not forecast again", "[cupti]") {
  GpuHost host;
  SECTION("a recorder") {
    REQUIRE(host.StartAt(Depth::kKernels));
    host.recorder.Stop();
    REQUIRE(host.StartAt(Depth::kScopes));
  }
  SECTION("a profile that was running") {
    g_kineto = KinetoState::kActive;
    REQUIRE(host.StartAt(Depth::kScopes));
    g_kineto = KinetoState::kIdle;
  }
  CHECK(fakes::WaitUntil([&] { return host.collector->Depths() == fakes::kDepths; }));
  CHECK_THAT(Attribute(host.Incident(), "cupti.lasting_cost"),
             Catch::StartsWith("kernels were recorded in this process"));
}

TEST_CASE("a CUPTI that fails when depth rises is left with nothing enabled", "[cupti]") {
  for (const KinetoState kineto : {KinetoState::kAbsent, KinetoState::kIdle}) {
    GpuHost host;
    g_kineto = kineto;
    REQUIRE(host.StartAt(Depth::kScopes));
    // Beside PyTorch calls are recorded until CUDA is used.
    g_cuda = CudaState::kInUse;
    host.cuda.Run({});
    REQUIRE(fakes::WaitUntil([&] {
      host.Round();
      return host.cuda.callbacks_enabled() <= (kineto == KinetoState::kIdle ? 0u : 5u);
    }));
    host.cuda.Refuse("cuptiActivityEnable");
    host.collector->SetDepth(Depth::kKernels);
    CHECK(host.cuda.callbacks_enabled() <= (kineto == KinetoState::kIdle ? 0u : 5u));  // those go with the subscriber
    CHECK_FALSE(host.cuda.HasSubscriber());
    CHECK_THAT(Attribute(host.Incident(), "cupti.not_recorded"), Catch::StartsWith("cuptiActivityEnable failed"));
  }
}

TEST_CASE("where another tool has CUPTI the recorder says whose it is, and records the rest", "[cupti]") {
  GpuHost host;
  host.cuda.SubscribeOther("CUPTI for Nsight Systems");
  REQUIRE(host.Start());

  const Status status = host.Add();

  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK_THAT(status.message(), Catch::Contains("CUPTI for Nsight Systems"));
  CHECK(host.log.Has(pitot::LogLevel::kError, "Nsight"));
  CHECK_FALSE(host.cuda.IsEnabled(cupti::kConcurrentKernel));
  const model::Trace trace = host.Incident();
  CHECK(trace.gpu.size() == 0);
  CHECK_THAT(Attribute(trace, "collector.cupti"),
             Catch::StartsWith("refused: another tool has CUPTI: CUPTI for Nsight Systems") &&
                 Catch::EndsWith("; to record kernels: run without it"));
  // Said no more once it is there.
  host.cuda.UnsubscribeOther();
  REQUIRE(host.Add().ok());
  CHECK(Attribute(host.Incident(), "collector.cupti") == "");
}

TEST_CASE("what keeps CUPTI from being used is said with what to do about it", "[cupti]") {
  std::string not_permitted;
  GpuHost host;
  for (int at = 1; at < 200 && not_permitted.find("CUPTI cannot be used") == std::string::npos; ++at) {
    session_test::Host other;
    REQUIRE(other.Start());
    host.cuda.FailAt(at, cupti::kInsufficientPrivileges);
    not_permitted = other.recorder.Add(cupti::MakeCollector(host.cupti_options, host.environment)).message();
  }
  host.cuda.Reset(fakes::kCupti13);
  REQUIRE(host.Start());
  host.cupti_options.library = "/nonexistent/libcupti.so";
  const std::string no_library = host.Add().message();

  CHECK_THAT(not_permitted, Catch::Contains("; to record kernels: give the process CAP_SYS_ADMIN"));
  CHECK_THAT(no_library, Catch::Contains("; to record kernels: name another in CuptiOptions::library"));
  CHECK(Attribute(host.Incident(), "collector.cupti") == "refused: " + no_library);
}

TEST_CASE("no library, a wrong one, one that lacks functions, and CUPTI 13.0 are refused in words", "[cupti]") {
  GpuHost host;
  REQUIRE(host.Start());
  host.cupti_options.library = "/nonexistent/libcupti.so";
  CHECK(host.Add().code() == StatusCode::kNotFound);
  host.cupti_options.library = PITOT_FAKE_CUPTI_BROKEN;
  CHECK_THAT(host.Add().message(), Catch::Contains("no cuptiActivityEnable"));
  host.cupti_options.library = "libc.so.6";
  CHECK_THAT(host.Add().message(), Catch::Contains("no cupti"));
  fakes::Generation first = fakes::kCupti13;
  first.version = 130000;
  host.cuda.Reset(first);
  host.cupti_options.library = PITOT_FAKE_CUPTI;
  CHECK_THAT(host.Add().message(), Catch::Contains("Update 1"));
  for (const uint64_t bytes : {uint64_t{1}, (uint64_t{8} << 20) - 1, (uint64_t{4} << 30) + 1, UINT64_MAX}) {
    host.cupti_options.memory_bytes = bytes;
    CHECK_THAT(host.Add().message(), Catch::Contains("memory_bytes") && Catch::Contains("8388608 to 4294967296"));
  }
  host.cuda.Reset(fakes::kCupti13);
  host.cupti_options = SmallMemory();
  CHECK(host.Add().ok());
  CHECK(host.Add().code() == StatusCode::kAlreadyRunning);
}

TEST_CASE("a library that is no CUPTI is named", "[cupti]") {
  GpuHost host;
  host.cupti_options.library = "libm.so.6";
  REQUIRE(host.Start());
  const Status status = host.Add();
  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK(std::string(status.message()).find("libm.so.6 has no cuptiGetVersion (it is no libcupti)") !=
        std::string::npos);
}

TEST_CASE("a collector that found no GPU keeps no memory, and may be added again", "[cupti]") {
  GpuHost host;
  REQUIRE(host.Start());
  host.cuda.SubscribeOther("Nsight");
  for (int i = 0; i < 3; ++i) {
    auto options = SmallMemory();
    options.memory_bytes = (9 + i) << 20;
    CHECK(host.recorder.Add(cupti::MakeCollector(options, Surroundings())).code() == StatusCode::kUnavailable);
  }
  host.cuda.UnsubscribeOther();
  CHECK(host.Add().ok());
}

TEST_CASE("memory is taken only where CUPTI can be had", "[cupti]") {
  GpuHost host;
  REQUIRE(host.Start());
  host.cuda.SubscribeOther("Nsight");
  host.cupti_options.memory_bytes = uint64_t{1} << 30;
  if (!std::ofstream("/proc/self/clear_refs").put('5').flush()) return;  // forgets the peak; not allowed everywhere
  const uint64_t before = PeakBytes();

  CHECK(host.Add().code() == StatusCode::kUnavailable);

  CHECK(PeakBytes() - before < uint64_t{64} << 20);  // a quarter of 1 GiB is 256 MiB
}

TEST_CASE("names, streams and graphs without bound stay inside the collector's memory, and what is missing is said",
          "[cupti]") {
  GpuHost host;
  REQUIRE(host.Start());
  const uint64_t memory_bytes = host.cupti_options.memory_bytes;
  constexpr int kNames = 100'000, kLongNames = 200, kNodes = 200'000;
  std::vector<std::string> names;
  for (int i = 0; i < kLongNames; ++i) names.push_back(std::to_string(i) + std::string(1 << 20, 'x'));
  for (int i = 0; i < kNames; ++i) names.push_back("kernel " + std::to_string(i));
  PITOT_SCOPE("forward");
  const bool is_told = std::ofstream("/proc/self/clear_refs").put('5').flush().good();  // not allowed everywhere
  const uint64_t before = PeakBytes();
  REQUIRE(host.Add().ok());
  host.collector->SetDepth(Depth::kKernels);
  for (size_t i = 0; i < 2 * names.size(); ++i) {  // more than there is room for
    host.cuda.Run({.name = names[i % names.size()].c_str(), .stream = static_cast<uint32_t>(i)});
    if (i % 2000 == 0) host.Round();
  }
  for (uint32_t node = 1; node <= kNodes; ++node) host.cuda.CaptureNode(node);
  host.Round();
  const uint64_t after = PeakBytes();

  const model::Trace trace = host.Incident();

  constexpr uint64_t kFixedBytes = 2 << 20;
  if (is_told && !fakes::kAddressSanitizer && !fakes::kThreadSanitizer)
    CHECK(after - before <= memory_bytes + kFixedBytes);
  for (const char* const key : {"cupti.names_refused", "cupti.streams_refused", "cupti.graph_nodes_forgotten"}) {
    INFO(key);
    CHECK(Attribute(trace, key) != "");
  }
}

TEST_CASE("buffers that one profile after another swallows are written off within the memory, and the rest said",
          "[cupti]") {
  GpuHost host;
  host.environment.surroundings.long_idle_ns = 1'000'000;
  host.cupti_options.memory_bytes = 11 << 20;  // of a size that no test had before
  const uint32_t buffers = (11 << 20) / 4 / (256 << 10);
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kKernels));
  const auto count = [&](const char* key) { return std::atoi(Attribute(host.Incident(), key).c_str()); };
  for (uint32_t profile = 1; profile <= buffers + 1; ++profile) {
    INFO(profile);
    host.cuda.Run({.is_running = true});
    host.cuda.RegisterOther();
    g_kineto = KinetoState::kActive;
    REQUIRE(fakes::WaitUntil([&] { return host.collector->Depths() == 0; }));
    for (int i = 0; i < 1300; ++i) host.cuda.Run({});  // until the buffer is full, and the profiler gets it
    g_kineto = KinetoState::kIdle;
    const char* const key = profile <= buffers ? "cupti.buffers_written_off" : "cupti.buffers_unplaced";
    const int expected = profile <= buffers ? static_cast<int>(profile) : 1;
    REQUIRE(fakes::WaitUntil([&] { return count(key) == expected; }));
  }
  CHECK(count("cupti.buffers_written_off") == static_cast<int>(buffers));
}

TEST_CASE("whichever call of CUPTI fails the host goes on, nothing stays behind, and the reason is said", "[cupti]") {
  // What a host does with CUPTI at kernels, and is to have it at that depth again at the end.
  struct {
    const char* what;
    KinetoState kineto;
    bool graph_level;
    void (*act)(GpuHost& host);
    int64_t long_idle_ns = 60'000'000'000;
  } const scenarios[] = {
      {"depth falls and rises", KinetoState::kAbsent, false, [](GpuHost& host) { Dip(host, Depth::kScopes); }},
      {"beside PyTorch's profiler", KinetoState::kIdle, false, [](GpuHost& host) { Dip(host, Depth::kScopes); }},
      {"handed over and taken back", KinetoState::kAbsent, false, HandOver},
      {"beside PyTorch's profiler handed over", KinetoState::kIdle, false, HandOver},
      {"a profile", KinetoState::kIdle, false, Profile},
      {"a profile that nobody saw", KinetoState::kIdle, false, UnseenProfile, 30'000'000},
      {"LibTorch is loaded", KinetoState::kAbsent, false, LoadTorch},
      {"graph level", KinetoState::kAbsent, true, [](GpuHost& host) { Dip(host, Depth::kGraphs); }},
      {"graph level handed over", KinetoState::kAbsent, true, HandOver},
      {"graph level, then LibTorch", KinetoState::kAbsent, true, LoadTorch},
  };
  std::set<std::pair<KinetoState, bool>> starts;
  for (const auto& scenario : scenarios) {
    bool has_all = false;
    std::set<std::string> said;
    // First without a failure. What fails while it starts was seen with the first that starts like this.
    const bool is_start_seen = !starts.emplace(scenario.kineto, scenario.graph_level).second;
    int most = 400;
    for (int at = 0, next = 1; at <= most; at = next, next += fakes::kThreadSanitizer ? 7 : 1) {
      INFO(scenario.what << ", call " << at);
      GpuHost host;
      host.environment.surroundings.long_idle_ns = scenario.long_idle_ns;
      host.cupti_options.graph_level = scenario.graph_level;
      g_kineto = scenario.kineto;
      REQUIRE(host.Start());
      host.cuda.FailAt(at, cupti::kNotInitialized);
      const Status status = host.Add();
      if (at == 0 && is_start_seen) next = host.cuda.calls();
      if (status.ok()) {
        host.cuda.Run({});
        host.cuda.Replay(host.cuda.Instantiate(2), "node");
        host.collector->SetDepth(Depth::kKernels);
        scenario.act(host);
        {
          PITOT_SCOPE("work");
          host.cuda.Run({.name = "kernel at last"});
          host.cuda.Run({.copy_bytes = 77});
          host.cuda.Replay(host.cuda.Instantiate(2), "node");
        }
        const model::Trace trace = host.Incident();
        CHECK(model::FindInconsistency(trace) == "");
        if (at == 0) has_all = HasAll(trace), said = Said(trace);
        CHECK((HasAll(trace) == has_all || Said(trace) != said));
      } else {
        CHECK(std::string(status.message()) != "");
        CHECK(host.cuda.kinds_enabled() + host.cuda.callbacks_enabled() == 0);
        CHECK_FALSE(host.cuda.HasSubscriber());
      }
      host.recorder.Stop();
      CHECK(host.cuda.kinds_enabled() == 0);
      CHECK(host.cuda.callbacks_enabled() == 0);
      CHECK_FALSE(host.cuda.HasSubscriber());
      host.cuda.Replay(host.cuda.Instantiate(2), "node");
      CHECK(host.cuda.broken_rules() == "");
      if (at != 0 && host.cuda.calls() < at) most = at;  // it needs no more calls than that
    }
    INFO(scenario.what);
    CHECK(most < 400);
    CHECK(has_all);  // which comes after CUDA is in use: calls cannot be had
  }
}

TEST_CASE("who stops, or hands CUPTI over, as PyTorch's profiler has ended leaves nothing on", "[cupti]") {
  const bool stops = GENERATE(true, false);
  GpuHost host;
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({});
  g_kineto = KinetoState::kActive;
  REQUIRE(fakes::WaitUntil([&] { return host.collector->Depths() == 0; }));
  REQUIRE(host.cuda.kinds_enabled() != 0);

  g_kineto = KinetoState::kIdle;
  if (stops)
    host.recorder.Stop();
  else
    CHECK(host.collector->Pause().ok());

  CHECK(host.cuda.kinds_enabled() == 0);
  CHECK(host.cuda.callbacks_enabled() == 0);
}

TEST_CASE("a fatal error of CUPTI's ends recording for good, with the reason", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.FailFatally();
  REQUIRE(fakes::WaitUntil([&] { return Attribute(host.Incident(), "cupti") != ""; }));
  CHECK(Attribute(host.Incident(), "cupti") == "CUPTI met a fatal error and detached itself");
  const std::string why =
      "CUPTI met a fatal error and detached itself; to record kernels: start the process again, without what else uses "
      "CUPTI";
  CHECK(fakes::WaitUntil([&] { return Attribute(host.Incident(), "cupti.not_recorded") == why; }));
  CHECK(CountSaid(host, why) == 1);
}

TEST_CASE("the host may hand CUPTI to another and take it back", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  REQUIRE(host.collector->Pause().ok());
  CHECK_FALSE(host.cuda.HasSubscriber());
  CHECK_FALSE(host.cuda.IsEnabled(cupti::kConcurrentKernel));
  CHECK(Attribute(host.Incident(), "cupti") == "paused by the host");
  CHECK(fakes::WaitUntil([&] {
    return Attribute(host.Incident(), "cupti.not_recorded") ==
           "paused by the host; to record kernels: Recorder::ResumeCupti";
  }));
  host.cuda.RegisterOther();
  host.collector->SetDepth(Depth::kKernels);
  CHECK_FALSE(host.cuda.IsEnabled(cupti::kConcurrentKernel));
  REQUIRE(host.collector->Resume().ok());
  host.cuda.Run({.name = "after"});

  const model::Trace trace = host.Incident();

  CHECK(CountNamed(trace, "after") == 1);
  CHECK(Attribute(trace, "cupti") == "");
}

TEST_CASE("with LibTorch in the process nobody subscribes, and calls are tied through records", "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kKernels));
  CHECK_FALSE(host.cuda.HasSubscriber());
  {
    PITOT_SCOPE("forward");
    host.cuda.Run({.name = "gemm"});
  }
  const model::Trace trace = host.Incident();

  const uint32_t kernel = Find(trace, "gemm");
  REQUIRE(kernel != kNone);
  const uint32_t call = trace.gpu.call[kernel];
  REQUIRE(call != kNone);
  CHECK(trace.strings[trace.calls.name[call]] == "cudaLaunchKernel");
  REQUIRE(trace.calls.thread[call] != kNone);
  CHECK(trace.threads[trace.calls.thread[call]].tid == gettid());
  CHECK(Attribute(trace, "cupti.calls") == "API records");
}

TEST_CASE("a host that forgoes PyTorch's profiler has callbacks and the scopes of graphs beside LibTorch, too",
          "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kIdle;
  host.cupti_options.allow_torch_profiler = false;
  REQUIRE(host.StartAt(Depth::kKernels));
  CHECK(host.cuda.HasSubscriber());
  {
    PITOT_SCOPE("forward");
    host.cuda.CaptureNode(1);
  }
  host.cuda.Replay(host.cuda.Instantiate(1), "node");
  host.Round();
  CHECK(host.cuda.HasSubscriber());

  const model::Trace trace = host.Incident();

  const uint32_t node = Find(trace, "node");
  REQUIRE(node != kNone);
  CHECK(trace.strings[trace.gpu.scope_path[node]] == "forward");
  CHECK(Attribute(trace, "cupti.calls") == "API callbacks");
}

TEST_CASE("of records of a runtime's call and the driver's inside it one is kept, with what either caused", "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "first"});  // makes the context
  host.cuda.Run({.name = "of the runtime", .has_driver_call = true});
  host.cuda.Run({.name = "of the driver", .has_driver_call = true, .is_of_driver = true});

  const model::Trace trace = host.Incident();

  CHECK(model::FindInconsistency(trace) == "");
  CHECK(trace.calls.size() == 3);
  for (const char* const name : {"of the runtime", "of the driver"}) {
    INFO(name);
    const uint32_t kernel = Find(trace, name);
    REQUIRE(kernel != kNone);
    REQUIRE(trace.gpu.call[kernel] != kNone);
    CHECK(trace.strings[trace.calls.name[trace.gpu.call[kernel]]] == "cudaLaunchKernel");
  }
}

TEST_CASE("PyTorch's profiler gets CUPTI whole when it begins, and Pitot comes back when it ends", "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kKernels));
  // As Kineto does: kinds, then callbacks.
  host.cuda.RegisterOther();
  g_kineto = KinetoState::kActive;
  host.collector->SetDepth(Depth::kScopes);
  CHECK(host.cuda.IsEnabled(cupti::kConcurrentKernel));
  REQUIRE(fakes::WaitUntil([&] { return Attribute(host.Incident(), "cupti") != ""; }));
  CHECK(Attribute(host.Incident(), "cupti") == "stepped aside for PyTorch's profiler");
  host.cuda.Run({.name = "profiled"});
  CHECK(host.cuda.IsEnabled(cupti::kConcurrentKernel));
  host.collector->SetDepth(Depth::kKernels);
  g_kineto = KinetoState::kIdle;
  REQUIRE(fakes::WaitUntil([&] {
    host.cuda.Run({.name = "after"});
    return CountNamed(host.Incident(), "after") != 0;
  }));

  const model::Trace trace = host.Incident();

  CHECK(Attribute(trace, "cupti") == "");
  CHECK(CountNamed(trace, "profiled") == 0);
}

TEST_CASE("a profile of PyTorch's that nobody saw come and go is made up for", "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "before"});
  // What Kineto leaves behind.
  host.cuda.RegisterOther();
  host.cuda.DisableAll();
  CHECK(fakes::WaitUntil([&] {
    host.cuda.Run({.name = "after"});
    return CountNamed(host.Incident(), "after") != 0;
  }));
}

TEST_CASE("a profile that nobody saw is made up for at once where depth rises, unless the profiler is about to begin",
          "[cupti]") {
  for (const bool is_long_idle : {true, false}) {
    GpuHost host;
    host.environment.surroundings.long_idle_ns = is_long_idle ? 0 : int64_t{1} << 60;
    g_kineto = KinetoState::kIdle;
    REQUIRE(host.StartAt(Depth::kScopes));
    host.cuda.Run({});
    REQUIRE(fakes::WaitUntil([&] { return host.cuda.callbacks_enabled() == 0 && host.cuda.buffers_out() == 0; }));
    host.cuda.RegisterOther();
    host.collector->SetDepth(Depth::kKernels);
    host.cuda.Run({.name = "after"});
    host.cuda.Run({.name = "after"});
    CHECK(CountNamed(host.Incident(), "after") == (is_long_idle ? 2 : 0));
    CHECK(host.cuda.IsEnabled(cupti::kConcurrentKernel));
  }
}

TEST_CASE("who takes the buffers while one is being filled is noticed, too", "[cupti]") {
  GpuHost host;
  host.environment.silence_ns = 50'000'000;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.is_running = true});
  REQUIRE(fakes::WaitUntil([&] { return host.cuda.buffers_out() != 0; }));
  host.cuda.RegisterOther();
  CHECK(fakes::WaitUntil([&] {
    for (int i = 0; i < 100; ++i) host.cuda.Run({.name = "after"});
    return CountNamed(host.Incident(), "after") != 0;
  }));
}

TEST_CASE("PyTorch's profiler is left alone while it begins for the first time", "[cupti]") {
  GpuHost host;
  host.environment.surroundings.long_idle_ns = 0;
  g_kineto = KinetoState::kUnused;
  REQUIRE(host.StartAt(Depth::kScopes));
  host.cuda.Run({});
  REQUIRE(fakes::WaitUntil([&] { return host.cuda.callbacks_enabled() == 0 && host.cuda.buffers_out() == 0; }));
  host.cuda.RegisterOther();
  host.collector->SetDepth(Depth::kKernels);
  host.cuda.Run({.name = "profiled"});
  CHECK(host.cuda.IsEnabled(cupti::kConcurrentKernel));
  CHECK(CountNamed(host.Incident(), "profiled") == 0);  // it went where the profiler wants it
}

TEST_CASE("beside LibTorch calls are recorded from before CUDA is used, added after it was, and after a profile",
          "[cupti]") {
  const auto when = GENERATE(as<std::string>(), "before CUDA is used", "after it was", "after a profile",
                             "after a profile that nobody saw");
  INFO(when);
  GpuHost host;
  host.environment.surroundings.long_idle_ns = 0;
  g_kineto = KinetoState::kUnused;
  const bool is_late = when == "after it was";
  if (is_late) g_cuda = CudaState::kInUse, host.cuda.Run({.name = "first"});
  REQUIRE(host.StartAt(is_late ? Depth::kKernels : Depth::kScopes));
  if (!is_late) host.cuda.Run({.name = "first"});  // makes the context
  REQUIRE(fakes::WaitUntil([&] { return is_late || host.cuda.callbacks_enabled() == 0; }));
  if (when == "after a profile") Profile(host);
  if (when == "after a profile that nobody saw") host.cuda.RegisterOther(), g_kineto = KinetoState::kIdle;
  host.collector->SetDepth(Depth::kKernels);
  host.cuda.Run({.name = "of a call that is not kept", .api = "cudaGetDeviceCount"});
  host.cuda.Run({.name = "gemm"});

  const model::Trace trace = host.Incident();

  const uint32_t kernel = Find(trace, "gemm");
  REQUIRE(kernel != kNone);
  REQUIRE(trace.gpu.call[kernel] != kNone);
  CHECK(trace.strings[trace.calls.name[trace.gpu.call[kernel]]] == "cudaLaunchKernel");
  CHECK(Attribute(trace, "cupti.calls") == "API records");
  REQUIRE(Find(trace, "of a call that is not kept") != kNone);
  CHECK(trace.gpu.call[Find(trace, "of a call that is not kept")] == kNone);
  host.collector->SetDepth(Depth::kScopes);
  CHECK(fakes::WaitUntil([&] { return host.cuda.callbacks_enabled() + host.cuda.kinds_enabled() == 0; }));
}

TEST_CASE("calls that CUPTI does not leave out of a whole kind are not kept", "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kIdle;  // it has profiled
  REQUIRE(host.StartAt(Depth::kScopes));
  host.cuda.Refuse("cuptiActivityEnableRuntimeApi");
  host.collector->SetDepth(Depth::kKernels);
  host.cuda.Run({.name = "of a call that is not kept", .api = "cudaGetDeviceCount"});
  host.cuda.Run({.name = "gemm"});

  const model::Trace trace = host.Incident();

  REQUIRE(Find(trace, "gemm") != kNone);
  CHECK(trace.gpu.call[Find(trace, "gemm")] != kNone);
  CHECK(trace.calls.size() == 1);
}

TEST_CASE("a recorder that starts while PyTorch's profiler runs waits for it", "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kActive;
  REQUIRE(host.Start());
  REQUIRE(host.Add().ok());
  host.collector->SetDepth(Depth::kKernels);
  CHECK(host.cuda.calls() < 200);
  CHECK_FALSE(host.cuda.IsEnabled(cupti::kConcurrentKernel));
  CHECK(Attribute(host.Incident(), "cupti") == "PyTorch's profiler has CUPTI");
  g_kineto = KinetoState::kIdle;
  CHECK(fakes::WaitUntil([&] { return host.cuda.IsEnabled(cupti::kConcurrentKernel); }));
}

TEST_CASE("LibTorch that is loaded later gets the subscription", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  CHECK(host.cuda.HasSubscriber());
  g_kineto = KinetoState::kIdle;
  REQUIRE(fakes::WaitUntil([&] { return !host.cuda.HasSubscriber() && host.cuda.callbacks_enabled() > 5; }));
  host.cuda.Run({.name = "gemm"});
  const model::Trace trace = host.Incident();
  REQUIRE(Find(trace, "gemm") != kNone);
  CHECK(trace.gpu.call[Find(trace, "gemm")] != kNone);
}

TEST_CASE("a subscriber that LibTorch left behind does not keep GPUs from being recorded", "[cupti]") {
  GpuHost host;
  host.cuda.SubscribeOther("");
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "gemm"});
  CHECK(CountNamed(host.Incident(), "gemm") == 1);
}

TEST_CASE("what PyTorch's profiler left on is off again at the depth of scopes", "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "first"});
  g_kineto = KinetoState::kActive;
  REQUIRE(fakes::WaitUntil([&] { return host.collector->Depths() == 0; }));
  host.collector->SetDepth(Depth::kScopes);
  CHECK(host.cuda.IsEnabled(cupti::kConcurrentKernel));
  g_kineto = KinetoState::kIdle;
  CHECK(fakes::WaitUntil([&] { return !host.cuda.IsEnabled(cupti::kConcurrentKernel); }));
  CHECK(fakes::WaitUntil([&] { return host.cuda.callbacks_enabled() == 0; }));
  const model::Trace trace = host.Incident();
  REQUIRE_FALSE(trace.gpu_losses.empty());
  CHECK(trace.strings[trace.gpu_losses[0].reason] == "PyTorch's profiler had CUPTI");
}

TEST_CASE("a call that was under way when depth fell hides none that follows", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  const uint32_t graph = host.cuda.Instantiate(3);
  host.cuda.Begin("cudaDeviceSynchronize");  // never ends as far as callbacks say
  host.collector->SetDepth(Depth::kGraphs);
  host.cuda.Replay(graph, "node");
  const model::Trace trace = host.Incident();
  REQUIRE(Find(trace, "node") != kNone);
  CHECK(trace.gpu.call[Find(trace, "node")] != kNone);
}

TEST_CASE("CUPTI is not taken back once the recorder has stopped", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  REQUIRE(host.recorder.PauseCupti().ok());
  host.recorder.Stop();
  CHECK(host.recorder.ResumeCupti().code() == StatusCode::kNotRunning);
  CHECK_FALSE(host.cuda.HasSubscriber());
  CHECK_FALSE(host.cuda.IsEnabled(cupti::kConcurrentKernel));
}

TEST_CASE("buffers that another profiler took are noticed, said and taken back", "[cupti]") {
  ImpatientHost host(9);
  host.options.pre_window_ms = 60'000;  // incidents take long where the machine is busy
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "before"});
  REQUIRE(CountNamed(host.Incident(), "before") == 1);
  host.cuda.RegisterOther();
  for (int i = 0; i < 2000; ++i) host.cuda.Run({.name = "taken"});

  REQUIRE(fakes::WaitUntil([&] {
    for (int i = 0; i < 100; ++i) host.cuda.Run({.name = "after"});  // the other's buffer is to be full once
    return CountNamed(host.Incident(), "after") != 0;
  }));
  CHECK(HasLoss(host.Incident(), "another profiler took the buffers"));
}

TEST_CASE("a host that only synchronises is not taken for one whose buffers another took", "[cupti]") {
  ImpatientHost host(10);
  host.environment.silence_ns = 0;  // each round asks whether somebody did
  REQUIRE(host.StartAt(Depth::kKernels));
  for (int i = 0; i < 2000; ++i) host.cuda.Synchronize();
  for (int i = 0; i < 3; ++i) host.Round();

  const model::Trace trace = host.Incident();

  CHECK(trace.calls.size() == 2000);
  CHECK_FALSE(HasLoss(trace, "another profiler took the buffers"));
  CHECK(host.collector->Depths() == fakes::kDepths);
}

TEST_CASE("buffers of others are neither read nor freed", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "ours"});
  host.cuda.GiveForeign(4096);

  const model::Trace trace = host.Incident();

  CHECK(CountNamed(trace, "ours") == 1);
  CHECK(Attribute(trace, "cupti.foreign_buffers") == "1");
  CHECK(Attribute(trace, "cupti.unreadable_bytes") == "");
}

TEST_CASE("a kernel that still runs is shown once it has ended, in a later incident at the latest", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "long", .is_running = true});
  REQUIRE(fakes::WaitUntil([&] { return CountNamed(host.Incident(), "long") == 1; }));
}

TEST_CASE("of graphs one record a launch at graph level, one a node at node level, and neither crash nor cost left",
          "[cupti]") {
  GpuHost host;
  host.cupti_options.graph_level = true;
  REQUIRE(host.StartAt(Depth::kGraphs));
  const uint32_t graph = host.cuda.Instantiate(3);
  host.cuda.Replay(graph, "at graph level");
  host.cuda.Run({.name = "eager"});
  const model::Trace at_graphs = host.Incident();
  REQUIRE(FindGraph(at_graphs) != kNone);
  CHECK(CountNamed(at_graphs, "at graph level") == 0);
  CHECK(CountNamed(at_graphs, "eager") == 1);
  CHECK(at_graphs.strings[at_graphs.calls.name[at_graphs.gpu.call[FindGraph(at_graphs)]]] == "cudaGraphLaunch");

  for (int i = 0; i < 3; ++i) {
    host.collector->SetDepth(Depth::kKernels);
    host.cuda.Replay(graph, "node");
    const model::Trace trace = host.Incident();
    CHECK(CountNamed(trace, "node") == 3u * (i + 1));
    CHECK(trace.gpu.graph[Find(trace, "node")] == graph);
    CHECK(trace.strings[trace.calls.name[trace.gpu.call[Find(trace, "node")]]] == "cudaGraphLaunch");

    host.collector->SetDepth(i == 1 ? Depth::kScopes : Depth::kGraphs);
    REQUIRE(fakes::WaitUntil([&] {
      host.cuda.Replay(graph, "between");
      return host.cuda.IsEnabled(cupti::kGraphTrace);
    }));
    for (int k = 0; k < 5; ++k) host.cuda.Replay(graph, "again");
  }
  CHECK(host.cuda.dear_replays() == 0);
  CHECK(host.cuda.broken_rules() == "");
  // Graphs that are made after all was given back must not crash either.
  host.recorder.Stop();
  host.cuda.Replay(host.cuda.Instantiate(3), "after");
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("kernels of a graph carry the scopes that their nodes were captured in", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  {
    PITOT_SCOPE("forward");
    {
      PITOT_SCOPE_NAMED(pitot::Intern("layer 7"));
      host.cuda.CaptureNode(1);
    }
    host.cuda.CaptureNode(2);
  }
  host.cuda.CaptureNode(3);
  host.cuda.Replay(host.cuda.Instantiate(3), "node");
  host.cuda.Run({.name = "eager"});

  const model::Trace trace = host.Incident();

  const uint32_t first = Find(trace, "node");
  REQUIRE(first != kNone);
  CHECK(trace.strings[trace.gpu.scope_path[first]] == "forward / layer 7");
  CHECK(trace.strings[trace.gpu.scope_path[first + 1]] == "forward");
  CHECK(trace.strings[trace.gpu.scope_path[first + 2]] == "");
  CHECK(trace.strings[trace.gpu.scope_path[Find(trace, "eager")]] == "");
  CHECK(trace.gpu.bytes[first] == 0);
}

TEST_CASE("a process that captures again and again has the scopes of its newest graphs, and of one that it replays",
          "[cupti]") {
  GpuHost host;
  host.cupti_options.memory_bytes = 64 << 20;
  REQUIRE(host.StartAt(Depth::kKernels));
  constexpr uint32_t kNodes = 25'000, kGraphs = fakes::kThreadSanitizer ? 6 : 40;  // with their copies, 2 million nodes
  const auto capture = [&](const char* scope, uint32_t nodes) {
    PITOT_SCOPE_NAMED(pitot::Intern(scope));
    for (uint32_t node = 1; node <= nodes; ++node) host.cuda.CaptureNode(node);
    return host.cuda.Instantiate(nodes);
  };
  const uint32_t served = capture("served", 3);
  uint32_t newest = 0;
  for (uint32_t i = 0; i < kGraphs; ++i) {
    newest = capture(i + 1 < kGraphs ? "gone" : "newest", kNodes);
    host.cuda.Replay(served, "of the one served");
    host.Round();
  }
  host.cuda.Replay(newest, "of the newest");

  const model::Trace trace = host.Incident();

  CHECK(CountNamed(trace, "of the one served") == 3 * kGraphs);
  CHECK(CountNamed(trace, "of the newest") == kNodes);
  uint32_t with_scope = 0;
  for (uint32_t i = 0; i < trace.gpu.size(); ++i) {
    const bool is_newest = trace.strings[trace.gpu.name[i]] == "of the newest";
    with_scope += trace.strings[trace.gpu.scope_path[i]] == (is_newest ? "newest" : "served");
  }
  CHECK(with_scope == kNodes + 3 * kGraphs);
  // What had to give way is said.
  if (!fakes::kThreadSanitizer) CHECK(Attribute(trace, "cupti.graph_nodes_forgotten") != "");
}

TEST_CASE("without graph level graphs are recorded by node, whenever they were made", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kScopes));
  const uint32_t before = host.cuda.Instantiate(3);
  host.collector->SetDepth(Depth::kGraphs);
  host.cuda.Replay(before, "node");
  host.cuda.Replay(host.cuda.Instantiate(3), "node");
  CHECK(host.cuda.broken_rules() == "");
  CHECK(CountNamed(host.Incident(), "node") == 6);
  CHECK_FALSE(host.cuda.IsEnabled(cupti::kGraphTrace));
}

TEST_CASE("graph level is over for good once a graph was made while nodes were recorded", "[cupti]") {
  GpuHost host;
  host.cupti_options.graph_level = true;
  REQUIRE(host.StartAt(Depth::kKernels));
  const uint32_t graph = host.cuda.Instantiate(3);
  for (const Depth depth : {Depth::kGraphs, Depth::kScopes, Depth::kGraphs, Depth::kKernels, Depth::kGraphs}) {
    host.collector->SetDepth(depth);
    host.cuda.Replay(graph, "node");
  }
  CHECK_FALSE(host.cuda.IsEnabled(cupti::kGraphTrace));
  CHECK(CountNamed(host.Incident(), "node") == 12);
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("graph level is refused in words where CUDA was initialised before, or LibTorch is there", "[cupti]") {
  struct Case {
    CudaState cuda;
    KinetoState kineto;
  };
  for (const Case& it : {Case{CudaState::kInUse, KinetoState::kAbsent},
                         Case{CudaState::kInitialised, KinetoState::kAbsent},  // a graph in a context of its own
                         Case{CudaState::kUntouched, KinetoState::kIdle}}) {
    GpuHost host;
    host.cupti_options.graph_level = true;
    g_cuda = it.cuda;
    g_kineto = it.kineto;
    const uint32_t before = host.cuda.Instantiate(3);
    REQUIRE(host.StartAt(Depth::kGraphs));
    host.cuda.Replay(before, "node");
    CHECK(host.cuda.broken_rules() == "");
    CHECK_THAT(Attribute(host.Incident(), "cupti"), Catch::Contains("no graph level"));
  }
}

TEST_CASE("records of calls that do not come, because CUDA was in use unseen, are not promised, and had otherwise",
          "[cupti]") {
  const bool is_late = GENERATE(true, false);
  GpuHost host;
  host.environment.silence_ns = 1'000'000;
  g_kineto = KinetoState::kUnused;
  g_cuda = CudaState::kInitialised;
  if (is_late) host.cuda.Run({});  // in a context that the driver does not tell of
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "gemm"});

  const model::Trace trace = host.Incident();

  REQUIRE(Find(trace, "gemm") != kNone);
  CHECK((trace.gpu.call[Find(trace, "gemm")] == kNone) == is_late);
  CHECK(Attribute(trace, "cupti.calls") == (is_late ? "not recorded" : "API records"));
  const std::string why = Attribute(trace, "cupti");
  CHECK((why.find("what GPUs did is not tied to requests") != std::string::npos) == is_late);
  CHECK(fakes::WaitUntil([&] {
    host.cuda.Run({.name = "later"});
    const model::Trace later = host.Incident();
    for (uint32_t row = 0; row < later.gpu.size(); ++row) {
      if (later.strings[later.gpu.name[row]] == "later" && later.gpu.call[row] != kNone) return true;
    }
    return false;
  }));
}

TEST_CASE("the newest records survive, memory is bounded, and what is missing is said", "[cupti]") {
  GpuHost host;
  host.options.pre_window_ms = 600'000;
  REQUIRE(host.StartAt(Depth::kKernels));
  for (int i = 0; i < 200'000; ++i) {
    host.cuda.Run({.name = i < 199'990 ? "old" : "new", .duration_ns = 10});
    if (i % 5000 == 0) host.Round();
  }

  const model::Trace trace = host.Incident();

  CHECK(CountNamed(trace, "new") == 10);
  CHECK(trace.gpu.size() <= (6u << 20) / 48);
  REQUIRE_FALSE(trace.gpu_losses.empty());
  uint64_t missing = 0;
  for (const auto& loss : trace.gpu_losses) {
    missing += loss.records;
    if (loss.records == 0) missing += 200'000;  // decoded too late on a slow machine: the number is not known
  }
  CHECK(missing + trace.gpu.size() >= 199'990);
}

TEST_CASE("times of no clock and ends before beginnings are counted and left out", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "foreign clock", .begin_ns = 12345});
  host.cuda.Run({.name = "backwards", .duration_ns = -5});
  host.cuda.Run({.name = "well"});

  const model::Trace trace = host.Incident();

  CHECK(CountNamed(trace, "well") == 1);
  CHECK(CountNamed(trace, "foreign clock") + CountNamed(trace, "backwards") == 0);
  CHECK(Attribute(trace, "cupti.bad_timestamps") == "2");
  CHECK_FALSE(trace.gpu_losses.empty());
}

TEST_CASE("a clock that is stepped misplaces no kernel: what CUPTI errs about is left out, counted and said",
          "[cupti]") {
  struct Step {
    int64_t ns;
    const char* said;
  };
  for (const auto& [ns, said] :
       {Step{1'500'000'000, "+1.500"}, Step{-1'500'000'000, "-1.500"}, Step{-3'600'000'000'000, "-3600.000"}}) {
    ClockHost host;
    REQUIRE(host.StartAt(Depth::kKernels));
    host.MoveTo(2000);
    host.RunAt("before", 900, 910);
    host.Round();
    host.RunAt("before, read after", 1990, 1991);
    const int64_t straddles = host.clocks.Stamp(1995), unaware = host.clocks.Stamp(2020);
    host.clocks.StepBy(ns);
    host.MoveTo(2100);
    host.RunStamped("straddles", straddles, host.clocks.Stamp(2005));
    host.RunStamped("as before", unaware, unaware + 1000);
    host.RunAt("after", 2040, 2050);
    host.MoveTo(13'000);
    host.RunAt("late", 12'990, 12'991);
    host.MoveTo(15'000);
    host.RunAt("read late", 13'500, 13'510);
    host.RunAt("well", 14'500, 14'510);

    const model::Trace trace = host.Incident();

    CHECK(host.MsOf(trace, "before") == Span{900, 910});
    CHECK(host.MsOf(trace, "well") == Span{14'500, 14'510});
    // It is read while the clock is stepped.
    const uint32_t read_before = CountNamed(trace, "before, read after");
    CHECK(trace.gpu.size() == 2 + read_before);
    const std::string count = std::to_string(6 - read_before);
    CHECK(Attribute(trace, "cupti.clock") ==
          std::string("CLOCK_REALTIME stepped by ") + said + " s; " + count + " records could not be placed");
    CHECK(Attribute(trace, "cupti.bad_timestamps").empty());
    uint64_t missing = 0;
    for (const auto& loss : trace.gpu_losses) missing += loss.records;
    CHECK(missing == 6 - read_before);
    CHECK(HasLoss(trace, "the clock stepped"));
  }
}

TEST_CASE("what a buffer holds is converted by clocks that are read after it was filled", "[cupti]") {
  ClockHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.MoveTo(1000);
  host.RunAt("before", 900, 910);
  // The round has begun, and read the clocks.
  host.cuda.HangIn("cuptiActivityFlushAll");
  REQUIRE(fakes::WaitUntil([&] { return host.cuda.is_hanging(); }));
  host.clocks.StepBy(-500'000'000);
  host.clocks.SetMs(1100);
  host.RunAt("after", 1010, 1020);
  host.cuda.HangIn("");

  const model::Trace trace = host.Incident();

  CHECK(CountNamed(trace, "after") == 0);
  CHECK_THAT(Attribute(trace, "cupti.clock"), Catch::Contains("could not be placed"));
}

TEST_CASE("a step is noticed where nothing is recorded, and said in the incidents that it is in", "[cupti]") {
  ClockHost host;
  host.clocks.SetMs(-60'000);
  REQUIRE(host.StartAt(Depth::kScopes));
  host.clocks.StepBy(250'000'000);
  host.Round();
  CHECK(Attribute(host.Incident(), "cupti.clock").empty());  // it was long ago
  host.MoveTo(1000);
  host.clocks.StepBy(-250'000'000);
  host.Round();
  CHECK(Attribute(host.Incident(), "cupti.clock") ==
        "CLOCK_REALTIME stepped by -0.250 s; 0 records could not be placed");
  host.clocks.StepBy(-600'000);
  host.Round();
  CHECK(Attribute(host.Incident(), "cupti.clock") ==
        "CLOCK_REALTIME stepped 2 times, the last time by -0.000600 s; 0 records could not be placed");
}

TEST_CASE("what a step left no place for is said while it is in the window, though the step is not", "[cupti]") {
  ClockHost host;
  host.clocks.SetMs(-60'000);
  REQUIRE(host.StartAt(Depth::kKernels));
  host.MoveTo(-50'000);
  host.clocks.StepBy(-500'000'000);
  host.MoveTo(-49'900);
  host.RunAt("twice", -49'950, -49'940);

  CHECK(Attribute(host.Incident(), "cupti.clock") ==
        "CLOCK_REALTIME stepped by -0.500 s; 1 record could not be placed");
}

TEST_CASE("a clock that is slewed was not stepped", "[cupti]") {
  ClockHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  // 2 us in 20 ms, and once 40 us at once.
  for (int64_t ms = 20; ms <= 1000; ms += 20) {
    host.clocks.StepBy(ms == 500 ? -40'000 : 2000);
    host.MoveTo(ms);
    host.RunAt("slewed", ms - 10, ms - 5);
  }

  const model::Trace trace = host.Incident();

  CHECK(CountNamed(trace, "slewed") == 50);
  CHECK(Attribute(trace, "cupti.clock").empty());
  CHECK(trace.gpu_losses.empty());
}

TEST_CASE("a time later than now is none, whether the clock was stepped or not", "[cupti]") {
  ClockHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.MoveTo(1000);
  host.RunAt("to come", 1010, 1020);
  host.RunAt("goes on", 990, 1020);
  host.RunAt("well", 990, 1000);

  const model::Trace trace = host.Incident();

  CHECK(trace.gpu.size() == 1);
  CHECK(host.MsOf(trace, "well") == Span{990, 1000});
  CHECK(Attribute(trace, "cupti.bad_timestamps") == "2");
  CHECK(Attribute(trace, "cupti.clock").empty());
}

TEST_CASE("kernels that are stamped with the CPU's cycles know of no step", "[cupti]") {
  ClockHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.MoveTo(1000);
  host.RunStamped("before", host.clocks.Cycles(900), host.clocks.Cycles(910));
  host.Round();
  host.clocks.StepBy(-500'000'000);
  host.MoveTo(1100);
  host.RunStamped("straddles", host.clocks.Cycles(990), host.clocks.Cycles(1010));
  host.RunStamped("after", host.clocks.Cycles(1050), host.clocks.Cycles(1060));

  const model::Trace trace = host.Incident();

  CHECK(host.MsOf(trace, "before") == Span{900, 910});
  CHECK(host.MsOf(trace, "straddles") == Span{990, 1010});
  CHECK(host.MsOf(trace, "after") == Span{1050, 1060});
  CHECK(Attribute(trace, "cupti.clock").empty());
  CHECK(trace.gpu_losses.empty());
}

TEST_CASE("what CUPTI drops is said with its number", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Drop(17);
  const model::Trace trace = host.Incident();
  REQUIRE(trace.gpu_losses.size() == 1);
  CHECK(trace.gpu_losses[0].records == 17);
  CHECK(trace.strings[trace.gpu_losses[0].reason] == "dropped by CUPTI");
}

TEST_CASE("correlations that wrap are tied to the right launch", "[cupti]") {
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

TEST_CASE("depth may change while threads launch, and nothing breaks", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!stop) host.cuda.Run({});
    });
  }
  for (int i = 0; i < 200; ++i) host.collector->SetDepth(static_cast<Depth>(i % 3));
  const model::Trace trace = host.Incident();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(model::FindInconsistency(trace) == "");
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("a collector may follow another, with the buffers that CUPTI still has", "[cupti]") {
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
    host.collector->Keep(0);
    if (host.collector->Pause().code() != StatusCode::kNotRunning) return 1;
    host.recorder.Stop();
    return host.cuda.calls() != before ? 2 : 0;
  });
  CHECK(code == 0);
  CHECK(host.cuda.IsEnabled(cupti::kConcurrentKernel));
}

TEST_CASE("a host that exits in the middle of a flush exits, and CUPTI is not called while it is torn down",
          "[cupti]") {
  if (fakes::kThreadSanitizer) return;  // which loses count of locks in a child that has threads
  const int code = fakes::InChild([] {
    static auto* const host = new GpuHost;
    host->environment.keep_patience_ns = 10'000'000'000;
    // After the collector's, which were registered later: where CUPTI is torn down.
    std::atexit([] {
      const int before = host->cuda.calls();
      for (int i = 0; i < 3; ++i) host->Round();
      if (host->cuda.is_hanging() || host->cuda.calls() != before) _exit(2);
    });
    HOLDS(host->StartAt(Depth::kKernels));
    for (int i = 0; i < 1000; ++i) host->cuda.Run({});
    host->Round();  // CUPTI has asked for buffers
    host->cuda.HangIn("cuptiActivityFlushAll");
    host->cuda.Run({.is_running = true});
    HOLDS(fakes::WaitUntil([] { return host->cuda.is_hanging(); }));
    std::atexit([] { host->cuda.HangIn(""); });  // first of all: what was begun ends
    std::exit(7);
    return 1;
  });
  CHECK(code == 7);
}
