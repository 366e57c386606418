// SPDX-License-Identifier: Apache-2.0
//
// Writes the two files of a made-up incident with a GPU part into a directory, for machines without a GPU.
// check_incident.py reads them.
#include <cinttypes>
#include <cstdio>
#include <string>

#include "fakes/string_sink.h"
#include "pitot/serialize/dump.h"
#include "pitot/serialize/perfetto.h"
#include "serialize/sample_trace.h"

namespace {

using pitot::Depth;
using pitot::model::GpuKind;
using pitot::model::kNone;
using pitot::model::kOpen;
using pitot::model::Trace;
using pitot::test::TraceMaker;

constexpr int64_t kUs = 1000, kMs = 1000000;

// Two devices, three streams; eager kernels, a graph launched on two streams, overlaps, a call that straddles its
// scope, calls of a thread without events and of an unknown thread.
Trace MakeTrace() {
  TraceMaker maker;
  Trace& trace = maker.trace;
  trace.process_name = maker.String("gpu_server");
  trace.pid = 5000;
  trace.window_begin_ns = 1000 * kMs;
  trace.window_end_ns = 1100 * kMs;
  trace.clock = {1100 * kMs, 1700000000000 * kMs, 5100 * kMs, true, 2.5, 40};
  const uint32_t executor = maker.Thread("executor"), quiet = maker.Thread("launcher");
  const uint32_t forward = maker.Site(pitot::SiteKind::kScope, "forward");
  const uint32_t linear = maker.Site(pitot::SiteKind::kOperator, "aten::linear", {{"shapes", pitot::ArgType::kString}});
  const uint32_t wait = maker.WaitSite();
  const uint32_t request = maker.Request(0xa1, "/generate", 1005 * kMs, 60 * kMs);
  trace.requests[request].trace_id_high = 0x0af7651916cd43dd;
  trace.requests[request].trace_id_low = 0x8448eb211c80319c;
  trace.requests[request].stages = {{maker.String("decode"), 1005 * kMs, 5 * kMs},
                                    {maker.String("execute"), 1010 * kMs, 55 * kMs}};
  const uint32_t batch = maker.Batch(0xb1, "model", executor, 1010 * kMs, 30 * kMs);
  maker.Member(batch, request, 1010 * kMs);

  trace.devices.push_back({0, maker.String("NVIDIA H100 80GB HBM3"), 132, 2048, 32, 65536, 233472});
  trace.devices.push_back({1, maker.String("NVIDIA H100 80GB HBM3"), 132, 2048, 32, 65536, 233472});
  trace.streams.push_back({0, 1, 7, 0, 0, 0});
  trace.streams.push_back({0, 1, 13, maker.String("copies"), 0, 0});
  trace.streams.push_back({1, 2, 7, 0, 0, 0});
  trace.shapes.push_back({{1024, 1, 1}, {256, 1, 1}, 0, 49152, 0, 64});

  for (int i = 0; i < 20; ++i) {
    const int64_t at_ns = 1010 * kMs + i * kMs;
    maker.Event(executor, forward, at_ns, 900 * kUs, {kNone, batch});
    maker.Event(executor, linear, at_ns + 5 * kUs, 100 * kUs, {kNone, batch}, {maker.String("8x512 f16, 512x512 f16")});
    maker.Call(executor, "cudaLaunchKernel", at_ns + 10 * kUs, 5 * kUs, {kNone, batch});
  }
  maker.Event(quiet, wait, 1020 * kMs, 2 * kMs, {request}, {4, maker.String("journal"), 0, 0});
  maker.Call(executor, "cudaGraphLaunch", 1030 * kMs + 50 * kUs, 20 * kUs, {request, batch});
  maker.Call(executor, "cudaStreamSynchronize", 1031 * kMs - 200 * kUs, 400 * kUs, {kNone, batch}, 0);
  maker.Event(executor, forward, 1030 * kMs, 900 * kUs, {kNone, batch});
  maker.Event(executor, forward, 1031 * kMs, 900 * kUs, {kNone, batch});
  maker.Event(executor, forward, 1090 * kMs, kOpen);
  maker.Call(executor, "cudaEventSynchronize", 1091 * kMs, kOpen);
  maker.Call(quiet, "cudaMemcpyAsync", 1012 * kMs, 30 * kUs, {request});
  maker.Call(kNone, "cudaFree", 1013 * kMs, 2 * kMs);
  maker.Call(kNone, "cudaMalloc", 1014 * kMs, 2 * kMs);

  const char* const kernels[] = {"_ZN2at6native13reduce_kernelILi512ELi1EfEEvPT1_i", "_Z4gemmPf", "sm90_xmma_gemm"};
  for (uint32_t i = 0; i < 20; ++i) {
    // They overlap: the next begins before the previous one ends.
    maker.Gpu(0, GpuKind::kKernel, kernels[i % 3], 1010 * kMs + i * kMs + 100 * kUs,
              i % 5 == 4 ? 1200 * kUs : 800 * kUs, i, 0);
  }
  for (uint32_t i = 0; i < 3; ++i)
    maker.Gpu(0, GpuKind::kKernel, "_Z4gemmPf", 1031 * kMs + i * 300 * kUs, 250 * kUs, 20, 0, 0, 3, i);
  trace.gpu.scope_path.back() = maker.String("forward / attention");
  maker.Gpu(1, GpuKind::kMemcpy, "HtoD, pinned to device", 1012 * kMs + 50 * kUs, 40 * kUs, 23, kNone, 1000000);
  maker.Gpu(1, GpuKind::kMemset, "device", 1012 * kMs + 50 * kUs, 10 * kUs, kNone, kNone, 4096);
  maker.Gpu(1, GpuKind::kKernel, "_Z4gemmPf", 1031 * kMs + 10 * kUs, 100 * kUs, 20, 0, 0, 3, 7);
  maker.Gpu(2, GpuKind::kGraph, "graph 9", 1040 * kMs, 5 * kMs, kNone, kNone, 0, 9);

  trace.overheads.push_back({1001 * kMs, 3 * kMs, maker.String("module loading")});
  trace.depths.push_back({1000 * kMs, 1020 * kMs, Depth::kGraphs});
  trace.depths.push_back({1020 * kMs, 1100 * kMs, Depth::kKernels});
  trace.gpu_losses.push_back({0, maker.String("overwritten"), 1050 * kMs, 1051 * kMs, 17});
  trace.gpu_losses.push_back({kNone, maker.String("paused"), 1060 * kMs, 1070 * kMs, 0});
  trace.gpu_losses.push_back({kNone, maker.String("overwritten"), 1080 * kMs, 1090 * kMs, 1024, 0});
  trace.counters.push_back({0, maker.String("SM clock"), maker.String("MHz")});
  trace.counters.push_back({1, maker.String("SM clock"), maker.String("MHz")});
  trace.counters.push_back({kNone, maker.String("allocated"), maker.String("bytes")});
  for (uint32_t counter = 0; counter < 3; ++counter) {
    for (int i = 0; i < 10; ++i) {
      trace.samples.counter.push_back(counter);
      trace.samples.at_ns.push_back(1000 * kMs + i * 10 * kMs + counter);
      trace.samples.value.push_back(counter == 2 ? 1e9 + i : 1980.5 - i * 100);
    }
  }
  trace.firings.push_back({1065 * kMs, 0xa1, maker.String("latency /generate"), maker.String("60.0 ms")});
  return maker.Finish();
}

bool Write(pitot::Serializer& serializer, const Trace& trace, const std::string& path) {
  fakes::StringSink sink;
  if (!serializer.Serialize(trace, sink).ok()) return false;
  FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  const bool written = std::fwrite(sink.bytes.data(), 1, sink.bytes.size(), file) == sink.bytes.size();
  return std::fclose(file) == 0 && written;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: pitot_gpu_incident DIRECTORY\n");
    return 2;
  }
  const Trace trace = MakeTrace();
  if (const std::string wrong = FindInconsistency(trace); !wrong.empty()) {
    std::fprintf(stderr, "%s\n", wrong.c_str());
    return 1;
  }
  const std::string directory = argv[1];
  return Write(*pitot::MakeDumpSerializer(), trace, directory + "/dump.pitot") &&
                 Write(*pitot::MakePerfettoSerializer(), trace, directory + "/trace.pftrace")
             ? 0
             : 1;
}
