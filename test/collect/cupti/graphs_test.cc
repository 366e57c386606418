// SPDX-License-Identifier: Apache-2.0
//
// CUDA graphs: by node, as a whole, and the scopes of their nodes' capture.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>

#include "collect/cupti/rig.h"
#include "fakes/scale.h"

namespace {

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
using model::kNone;
using pitot::Depth;

}  // namespace

TEST_CASE("a graph has one record a launch at graph level, one a node at node level, and leaves neither crash nor cost",
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
  // Graphs made after everything was given back must not crash either.
  host.recorder.Stop();
  host.cuda.Replay(host.cuda.Instantiate(3), "after");
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("copies and sets of a graph carry the scopes of their nodes' capture, and their bytes", "[cupti]") {
  for (const auto& generation : {fakes::kCupti12, fakes::kCupti13}) {
    INFO(generation.version);
    GpuHost host(generation);
    REQUIRE(host.StartAt(Depth::kKernels));
    {
      PITOT_SCOPE("copy in");
      host.cuda.CaptureNode(1, cupti::kMemcpy);
    }
    {
      PITOT_SCOPE("clear");
      host.cuda.CaptureNode(2, cupti::kMemset);
    }
    host.cuda.Replay(host.cuda.Instantiate(2), "");
    host.cuda.Run({.copy_bytes = 77});

    const model::Trace trace = host.Incident();

    struct Expected {
      model::GpuKind kind;
      uint64_t bytes;
      const char* path;
    };
    for (const Expected& it :
         {Expected{model::GpuKind::kMemcpy, 4096, "copy in"}, Expected{model::GpuKind::kMemset, 64, "clear"},
          Expected{model::GpuKind::kMemcpy, 77, ""}}) {
      INFO(it.bytes);
      const auto row = static_cast<uint32_t>(std::find(trace.gpu.bytes.begin(), trace.gpu.bytes.end(), it.bytes) -
                                             trace.gpu.bytes.begin());
      REQUIRE(row < trace.gpu.size());
      CHECK(trace.gpu.kind[row] == it.kind);
      CHECK(trace.strings[trace.gpu.scope_path[row]] == it.path);
    }
  }
}

TEST_CASE("kernels of a graph carry the scopes of their nodes' capture", "[cupti]") {
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

TEST_CASE("a process that captures again and again has the scopes of its newest graphs, and of the one it replays",
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
  // Forgotten nodes are reported, and not by the next recorder.
  if (!fakes::kThreadSanitizer) CHECK(Attribute(trace, "cupti.graph_nodes_forgotten") != "");
  host.recorder.Stop();
  REQUIRE(host.StartAt(Depth::kKernels));
  CHECK(Attribute(host.Incident(), "cupti.graph_nodes_forgotten") == "");
}

TEST_CASE("graphs are recorded by node without graph level, whenever they were made", "[cupti]") {
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

TEST_CASE("graph level ends for the collector's life once a graph was made while nodes were recorded", "[cupti]") {
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

TEST_CASE("graph level is refused in words if CUDA was initialised before, or LibTorch is there", "[cupti]") {
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
