// SPDX-License-Identifier: Apache-2.0
//
// The collector without some of its sources in LibTorch, or with another clock than the recorder's.
#include "collect/torch/collector.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "collect/torch/gpu_memory.h"
#include "collect/torch/memory.h"
#include "collect/torch/memory_history.h"
#include "collect/torch/rig.h"
#include "collect/torch/thread_state.h"
#include "fakes/child.h"
#include "fakes/trace_text.h"
#include "pitot/analyze/top.h"
#include "pitot/collect/torch.h"
#include "trace/mirror.h"
#include "trace/names.h"

namespace {

namespace model = pitot::model;
using fakes::Attribute;
using fakes::Count;
using fakes::TorchHost;
using pitot::Depth;
using pitot::StatusCode;
using pitot::libtorch::GetSources;
using pitot::libtorch::MemoryNow;
using pitot::libtorch::SetSourcesForTesting;

constexpr int64_t kMiB = 1 << 20;
constexpr uint64_t kBlock = 0x7f0000000000;  // an address

// Replaces LibTorch's sources until the end of its scope.
struct Other {
  explicit Other(const pitot::libtorch::Sources& sources) { SetSourcesForTesting(sources); }
  ~Other() { SetSourcesForTesting(was); }
  const pitot::libtorch::Sources was = GetSources();
};

// Upper bound of one moment in memory's history: for a clock of 1 GHz.
constexpr int64_t kBucketNs = 3'000'000;

// When a counter was first at `least` or more; -1: never.
int64_t FirstAt(const model::Trace& trace, std::string_view name, double least) {
  for (uint32_t i = 0; i < trace.samples.size(); ++i) {
    const model::CounterRow& counter = trace.counters[trace.samples.counter[i]];
    if (trace.strings[counter.name] == name && trace.samples.value[i] >= least) return trace.samples.at_ns[i];
  }
  return -1;
}

double Allocated() {
  pitot::torch::MemoryUse use;
  REQUIRE(pitot::torch::GetMemoryUse(pitot::torch::kCpu, &use));
  return static_cast<double>(use.allocated_bytes);
}

}  // namespace

TEST_CASE("a LibTorch of another version is refused, and left alone", "[torch]") {
  auto sources = GetSources();
  sources.configuration = [] { return std::string("Build settings: TORCH_VERSION=1.2.3, USE_CUDA=0"); };
  const Other other(sources);
  TorchHost host;
  const pitot::Status status = host.Enable();
  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK(session_test::Contains(status.message(), "1.2.3"));
  CHECK_FALSE(at::hasGlobalCallbacks());
}

TEST_CASE("the rest is recorded if one kind of memory cannot be watched, and the trace says why", "[torch]") {
  auto sources = GetSources();
  sources.watch_cuda = []() -> std::string { TORCH_CHECK(false, "Found no NVIDIA driver on your system."); };
  const Other other(sources);
  TorchHost host;
  REQUIRE(host.Enable().ok());
  const double before = Allocated();
  { const at::Tensor tensor = at::empty({8 * kMiB}, at::kByte).zero_(); }
  const model::Trace trace = host.Incident();

  CHECK(Attribute(trace, "torch.memory.not_recorded") == "CUDA: Found no NVIDIA driver on your system.");
  CHECK(FirstAt(trace, "LibTorch CPU allocated", before + 8 * kMiB) > 0);
  CHECK(Count(trace, "aten::zero_") == 1);
}

TEST_CASE("reports of a GPU's allocator are in incidents: instants, counters and attributes", "[torch]") {
  using pitot::libtorch::GpuAccount;
  using pitot::libtorch::GpuEvent;
  static GpuAccount account;
  static pitot::libtorch::GpuNumbers numbers = {5 * kMiB, 20 * kMiB, 7, 3 * kMiB};
  auto sources = GetSources();
  sources.watch_cuda = []() -> std::string {
    return account.Begin(2, numbers, [](int32_t) { return numbers; }) ? "" : "no memory";
  };
  const Other other(sources);
  TorchHost host;
  REQUIRE(host.Enable().ok());
  numbers.reserved_bytes += 2 * kMiB;
  account.Note(GpuEvent::kReserved, 2 * kMiB, 0, MemoryNow());
  account.Note(GpuEvent::kAllocated, kMiB, kBlock, MemoryNow());
  numbers.allocated_bytes += kMiB;
  numbers.allocated_bytes -= kMiB;
  account.Note(GpuEvent::kFreed, kMiB, kBlock, MemoryNow());
  account.Note(GpuEvent::kReleased, 2 * kMiB, 0, MemoryNow());
  numbers.reserved_bytes -= 2 * kMiB;
  ++numbers.retries;
  numbers.reserved_bytes += 4 * kMiB;
  account.Note(GpuEvent::kReserved, 4 * kMiB, 0, MemoryNow());
  account.Note(GpuEvent::kOutOfMemory, 64 * kMiB, kMiB, MemoryNow());
  const model::Trace trace = host.Incident();

  using Args = std::vector<std::pair<std::string, std::string>>;
  const auto args_of = [&](const std::string& name) {
    std::vector<Args> all;
    for (const fakes::EventText& event : fakes::Events(trace)) {
      if (event.name == name) all.push_back(event.args);
    }
    return all;
  };
  const auto mib = [](int64_t count) { return std::to_string(count * kMiB); };
  const auto segment = [&](int64_t bytes, int64_t reserved, int64_t allocated) {
    return std::vector<Args>{{{"bytes", mib(bytes)},
                              {"device", "2"},
                              {"reserved", mib(reserved)},
                              {"allocated", mib(allocated)},
                              {"inactive_split", mib(3)}}};
  };
  CHECK(args_of("cudaMalloc") == segment(2, 22, 5));
  CHECK(args_of("allocate on GPU") == std::vector<Args>{{{"bytes", mib(1)}, {"device", "2"}, {"allocated", mib(6)}}});
  CHECK(args_of("free on GPU") == std::vector<Args>{{{"bytes", mib(1)}, {"device", "2"}, {"allocated", mib(5)}}});
  CHECK(args_of("cudaFree of cached memory") == segment(2, 20, 5));
  CHECK(args_of("cudaMalloc after cached memory was freed") == segment(4, 24, 5));
  CHECK(args_of("out of GPU memory") == std::vector<Args>{{{"bytes", mib(64)},
                                                           {"device", "2"},
                                                           {"free_bytes", mib(1)},
                                                           {"reserved", mib(24)},
                                                           {"allocated", mib(5)},
                                                           {"inactive_split", mib(3)}}});
  CHECK(FirstAt(trace, "LibTorch allocated", 6 * kMiB) > 0);
  CHECK(FirstAt(trace, "LibTorch allocated", 6 * kMiB + 1) == -1);
  CHECK(FirstAt(trace, "LibTorch reserved", 24 * kMiB) > 0);
  CHECK(Attribute(trace, "torch.gpu2.retries") == "1");
  CHECK(Attribute(trace, "torch.gpu2.out_of_memory") == "1");
}

TEST_CASE("a GPU's block has the same size when freed as when allocated, whatever it was given", "[torch]") {
  using pitot::libtorch::GpuEvent;
  static pitot::libtorch::GpuAccount account;
  static pitot::libtorch::GpuNumbers numbers;
  auto sources = GetSources();
  sources.watch_cuda = []() -> std::string {
    return account.Begin(4, numbers, [](int32_t) { return numbers; }) ? "" : "no memory";
  };
  const Other other(sources);
  TorchHost host;
  REQUIRE(host.Enable().ok());
  account.Note(GpuEvent::kAllocated, 3 * kMiB, kBlock, MemoryNow());
  numbers.allocated_bytes += 4 * kMiB;
  account.Note(GpuEvent::kAllocated, 512, kBlock + 4 * kMiB, MemoryNow());
  numbers.allocated_bytes += 512;
  numbers.allocated_bytes -= 4 * kMiB;
  account.Note(GpuEvent::kFreed, 3 * kMiB, kBlock, MemoryNow());
  const model::Trace trace = host.Incident();

  std::string told;
  for (const fakes::EventText& event : fakes::Events(trace)) {
    if (event.name == "allocate on GPU" || event.name == "free on GPU")
      told += event.name + " " + event.args.at(0).second + ", " + event.args.at(2).second + "; ";
  }
  const std::string bytes = std::to_string(3 * kMiB);
  CHECK(told == "allocate on GPU " + bytes + ", " + bytes + "; free on GPU " + bytes + ", 512; ");
}

TEST_CASE("memory over time is in its place while scopes are mirrored to another tool", "[torch]") {
  TorchHost host(Depth::kScopes);
  REQUIRE(host.Enable().ok());
  static const pitot::trace::Mirror mirror{[](const pitot::Site*, pitot::Name) noexcept {}, []() noexcept {}};
  pitot::trace::SetMirror(pitot::trace::MirrorUse::kTool, &mirror);
  const double before = Allocated();
  {
    PITOT_SCOPE("forward");
    const at::Tensor tensor = at::empty({8 * kMiB}, at::kByte);
  }
  const model::Trace trace = host.Incident();
  pitot::trace::SetMirror(pitot::trace::MirrorUse::kTool, nullptr);

  const int64_t at = FirstAt(trace, "LibTorch CPU allocated", before + 8 * kMiB);
  REQUIRE(Count(trace, "forward") == 1);
  CHECK(at >= trace.events.begin_ns[0] - kBucketNs);
  CHECK(at <= trace.EventEnd(0));
}

TEST_CASE("a mirror of scopes gets operators at their depth, and ranges at every depth", "[torch]") {
  static std::vector<std::string> told;  // no other thread runs operators
  static const pitot::trace::Mirror mirror{
      [](const pitot::Site*, pitot::Name name) noexcept { told.emplace_back(pitot::trace::NameText(name.index)); },
      []() noexcept { told.emplace_back("end"); }};
  TorchHost host(Depth::kScopes);
  REQUIRE(host.Enable().ok());
  const at::Tensor tensor = at::ones({8});
  const auto told_at = [&](Depth depth) {
    REQUIRE(host.recorder.SetDepth(depth).ok());
    told.clear();
    pitot::trace::SetMirror(pitot::trace::MirrorUse::kTool, &mirror);
    {
      RECORD_USER_SCOPE("layer 7");
      tensor.neg();
    }
    pitot::trace::SetMirror(pitot::trace::MirrorUse::kTool, nullptr);
    return told;
  };

  CHECK(told_at(Depth::kScopes) == std::vector<std::string>{"layer 7", "end"});
  CHECK(told_at(Depth::kOps) == std::vector<std::string>{"layer 7", "aten::neg", "end", "end"});
}

TEST_CASE("memory over time outlives recorders with any clock", "[torch]") {
  for (const auto clock :
       {pitot::ClockSource::kOperatingSystem, pitot::ClockSource::kAuto, pitot::ClockSource::kOperatingSystem}) {
    TorchHost host(Depth::kScopes);
    host.options.clock = clock;
    REQUIRE(host.Enable().ok());
    const double before = Allocated();
    {
      PITOT_SCOPE("forward");
      const at::Tensor tensor = at::empty({8 * kMiB}, at::kByte);
    }
    const model::Trace trace = host.Incident();
    const int64_t at = FirstAt(trace, "LibTorch CPU allocated", before + 8 * kMiB);
    REQUIRE(Count(trace, "forward") == 1);
    CHECK(at >= trace.events.begin_ns[0] - kBucketNs);
    CHECK(at <= trace.EventEnd(0));
    host.recorder.Stop();
    { const at::Tensor tensor = at::empty({kMiB}, at::kByte); }  // while no recorder runs
  }
}

TEST_CASE("the child of a fork records LibTorch for itself, and nothing twice through its parent's callbacks",
          "[torch]") {
  const Depth depth = GENERATE(Depth::kScopes, Depth::kOps);
  TorchHost host(depth);
  REQUIRE(host.Enable().ok());

  CHECK(fakes::InChild([&] {
          TorchHost childs;
          HOLDS(childs.Start());
          at::ones({1 << 14}).neg();  // LibTorch calls the parent's functions; 64 KiB: an allocation is recorded
          HOLDS(childs.TriggerAndFlush());
          HOLDS(Count(childs.traces().back(), "aten::neg") == 0);
          HOLDS(Count(childs.traces().back(), "allocate") == 0);
          HOLDS(Count(childs.traces().back(), "free") == 0);
          HOLDS(pitot::torch::Enable(childs.recorder).ok());
          at::ones({1 << 14}).neg();
          HOLDS(childs.TriggerAndFlush());
          HOLDS(Count(childs.traces().back(), "aten::neg") == 1);
          HOLDS(Count(childs.traces().back(), "allocate") == 2);
          childs.recorder.Stop();
          HOLDS(!at::hasGlobalCallbacks());
          HOLDS(childs.Enable().ok());
          return 0;
        }) == 0);
  at::ones({8}).neg();
  CHECK(Count(host.Incident(), "aten::neg") == (depth == Depth::kOps ? 1 : 0));
}

TEST_CASE("a child forked in the middle of a change is refused LibTorch, with the reason", "[torch]") {
  static int status = -1;
  auto sources = GetSources();
  sources.watch_cpu = []() -> std::string {
    status = fakes::InChild([] {
      TorchHost childs;
      const pitot::Status refused = childs.Enable();
      HOLDS(refused.code() == StatusCode::kUnavailable);
      HOLDS(session_test::Contains(refused.message(), "forked while its parent"));
      HOLDS(childs.TriggerAndFlush());
      return 0;
    });
    return {};
  };
  const Other other(sources);
  TorchHost host;
  REQUIRE(host.Enable().ok());
  CHECK(status == 0);
}

TEST_CASE("the child of a fork leaves GPUs alone if its parent watches their memory, and reports it", "[torch]") {
  static int asked;
  asked = 0;
  auto sources = GetSources();
  sources.watch_cuda = []() -> std::string {
    pitot::libtorch::SetWatchedDevices(4);
    pitot::libtorch::Memory* const memory = pitot::libtorch::MakeMemory(3, 5 * kMiB, 20 * kMiB);
    if (memory == nullptr) return "no memory";
    memory->retries = 1;
    return ++asked, "";
  };
  const Other other(sources);
  TorchHost host;
  REQUIRE(host.Enable().ok());
  pitot::torch::MemoryUse use;
  REQUIRE(pitot::torch::GetMemoryUse(0, &use));
  REQUIRE(pitot::torch::GetMemoryUse(3, &use));
  REQUIRE(use.allocated_bytes == 5 * kMiB);

  CHECK(fakes::InChild([&] {
          HOLDS(!pitot::torch::GetMemoryUse(0, &use));
          HOLDS(!pitot::torch::GetMemoryUse(3, &use));
          HOLDS(pitot::torch::PeakMemory(3).bytes() == 0);
          HOLDS(pitot::torch::GetMemoryUse(pitot::torch::kCpu, &use));
          TorchHost childs;
          HOLDS(childs.Enable().ok());
          HOLDS(childs.TriggerAndFlush());
          HOLDS(asked == 1);
          const model::Trace trace = childs.traces().back();
          HOLDS(session_test::Contains(Attribute(trace, "torch.memory.not_recorded"), "CUDA: the process was forked"));
          HOLDS(FirstAt(trace, "LibTorch CPU allocated", 0) > 0);
          HOLDS(FirstAt(trace, "LibTorch allocated", 0) == -1);
          HOLDS(FirstAt(trace, "LibTorch reserved", 0) == -1);
          HOLDS(Attribute(trace, "torch.gpu3.retries").empty());
          return 0;
        }) == 0);
  const model::Trace trace = host.Incident();
  CHECK(FirstAt(trace, "LibTorch reserved", 20 * kMiB) > 0);
  CHECK(Attribute(trace, "torch.gpu3.retries") == "1");
  host.recorder.Stop();
  REQUIRE(host.Enable().ok());
  CHECK(asked == 2);
  pitot::libtorch::SetWatchedDevices(0);
}

TEST_CASE("an incident has the time of recorded operators, without a GPU, and top counts the rest apart", "[torch]") {
  const auto forward = [] {
    PITOT_SCOPE("forward");
    at::ones({8}).neg();
  };
  TorchHost host(Depth::kScopes);
  REQUIRE(host.Enable().ok());
  forward();
  REQUIRE(host.recorder.SetDepth(Depth::kOps).ok());
  forward();
  REQUIRE(host.recorder.SetDepth(Depth::kScopes).ok());
  const model::Trace trace = host.Incident();

  REQUIRE(trace.operator_depths.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK((trace.operator_depths[i].depth == Depth::kOps) == (i == 1));
    CHECK((i == 0 || trace.operator_depths[i].begin_ns == trace.operator_depths[i - 1].end_ns));
  }
  CHECK(trace.operator_depths[0].begin_ns >= trace.window_begin_ns);
  CHECK(trace.depths.empty());
  pitot::analyze::TopTable table;
  REQUIRE(pitot::analyze::FindTop(trace, {}, &table).ok());
  CHECK(table.operators.covered_ns > 0);
  const auto row = [&](const char* name) {
    return *std::find_if(table.rows.begin(), table.rows.end(), [&](const auto& one) { return one.name == name; });
  };
  CHECK(row("aten::neg").calls == 1);
  CHECK(row("(operators not recorded)").self_cpu_ns > 0);
}

TEST_CASE("the thread that enabled it may end", "[torch]") {
  TorchHost host;
  pitot::Status status;
  std::thread([&] {
    status = host.Enable();
    at::ones({1 << 16}).neg();
  }).join();
  REQUIRE(status.ok());
  at::ones({1 << 16}).neg();
  const model::Trace trace = host.Incident();

  CHECK(Count(trace, "aten::neg") == 2);
  CHECK(Count(trace, "allocate") == 4);
}

TEST_CASE("a depth fixed during Stop leaves LibTorch nobody to call", "[torch]") {
  TorchHost host(Depth::kScopes);  // for its folder
  int left = 0;
  for (int i = 0; i < 100; ++i) {
    host.recorder = pitot::Recorder::Start(host.options);
    REQUIRE(pitot::torch::Enable(host.recorder).ok());
    std::atomic<bool> has_begun{false}, is_done{false};
    std::thread fixing([&] {
      for (int round = 0; !is_done; ++round) {
        host.recorder.SetDepth(round % 2 == 0 ? Depth::kOps : Depth::kScopes);
        has_begun = true;
      }
    });
    while (!has_begun) std::this_thread::yield();
    host.recorder.Stop();
    is_done = true;
    fixing.join();
    left += at::hasGlobalCallbacks();
  }
  CHECK(left == 0);
}

TEST_CASE("memory held by the collector is in Stats: histories, an incident's copy, and threads' states", "[torch]") {
  TorchHost host;
  REQUIRE(host.Enable().ok());
  at::ones({8}).neg();
  const uint64_t before = host.recorder.Stats().collector_bytes;
  uint64_t beside = 0;
  std::thread([&] {
    at::ones({8}).neg();
    beside = host.recorder.Stats().collector_bytes;
  }).join();

  CHECK(before >= sizeof(pitot::libtorch::MemoryHistory) + sizeof(pitot::libtorch::ThreadState));
  CHECK(beside >= before + sizeof(pitot::libtorch::ThreadState));
  CHECK(host.recorder.Stats().collector_bytes < beside);
}

TEST_CASE("the depth can change any number of times without new memory", "[torch]") {
  TorchHost host;
  REQUIRE(host.Enable().ok());
  at::ones({8}).neg();
  const uint64_t before = host.recorder.Stats().collector_bytes;
  for (int i = 0; i < 2100; ++i) {
    host.recorder.SetDepth(Depth::kScopes);
    host.recorder.SetDepth(Depth::kOps);
  }
  at::ones({8}).sigmoid();

  CHECK(host.recorder.Stats().collector_bytes == before);
  CHECK(Count(host.Incident(), "aten::sigmoid") == 1);
}

TEST_CASE("recorders may come and go while threads run operators", "[torch]") {
  std::atomic<bool> is_done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!is_done) at::ones({1 << 15}).neg();
    });
  }
  bool is_well = true;
  {
    TorchHost host;  // for its folder
    for (int i = 0; i < 1000; ++i) {
      host.recorder = pitot::Recorder::Start(host.options);
      is_well = is_well && pitot::torch::Enable(host.recorder).ok();
      at::ones({2}).neg();
      host.recorder.Stop();
    }
  }
  is_done = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(is_well);
  CHECK_FALSE(at::hasGlobalCallbacks());
  TorchHost host;
  REQUIRE(host.Enable().ok());
  at::ones({8}).neg();
  CHECK(Count(host.Incident(), "aten::neg") == 1);
}
