// SPDX-License-Identifier: Apache-2.0
#include "report/incident_trace.h"

#include <algorithm>

#include "fakes/string_sink.h"

namespace incident {
namespace {

using namespace pitot;
using namespace pitot::model;

constexpr int64_t kBegin = 1000000 * kMs;  // of the window

class Builder {
 public:
  Builder() {
    t_.clock = {kBegin + 1000 * kMs, 1795228277123456789, kBegin + 1000 * kMs, true, 2.1, 40};
    t_.process_name = S("image_server");
    t_.pid = 4242;
    t_.window_begin_ns = kBegin;
    t_.window_end_ns = kBegin + 1000 * kMs;
    decode_ = Site(SiteKind::kScope, "decode");
    resize_ = Site(SiteKind::kScope, "resize");
    forward_ = Site(SiteKind::kScope, "forward");
    store_ = Site(SiteKind::kScope, "store");
    wait_ = Site(SiteKind::kWait, "wait");
    t_.sites[wait_].arg_names = {S("kind"), S("resource"), S("owner_thread"), S("owner_request")};
    t_.sites[wait_].arg_types = {ArgType::kUint, ArgType::kName, ArgType::kUint, ArgType::kUint};
  }

  uint32_t Thread(const char* name) {
    ThreadRow row;
    row.number = static_cast<uint32_t>(t_.threads.size()) + 1;
    row.tid = 4250 + row.number;
    row.name = S(name);
    row.history_begin_ns = kBegin;
    row.first_event = t_.events.size();
    t_.threads.push_back(row);
    return row.number - 1;
  }
  // An event of the thread made last.
  void Event(uint32_t site, int64_t begin_ns, int64_t duration_ns, uint32_t request = kNone, uint32_t batch = kNone,
             uint32_t args = kNone) {
    t_.events.begin_ns.push_back(kBegin + begin_ns);
    t_.events.duration_ns.push_back(duration_ns);
    t_.events.site.push_back(site);
    t_.events.thread.push_back(static_cast<uint32_t>(t_.threads.size()) - 1);
    t_.events.request.push_back(request);
    t_.events.batch.push_back(batch);
    t_.events.args.push_back(args);
    ++t_.threads.back().event_count;
  }
  uint32_t WaitArgs(uint64_t kind, const char* resource, uint64_t thread, uint64_t request) {
    const uint32_t first = static_cast<uint32_t>(t_.arg_values.size());
    t_.arg_values.insert(t_.arg_values.end(), {kind, S(resource), thread, request});
    return first;
  }
  // Stages decode, queue, forward.
  uint32_t Request(uint64_t id, const char* route, int64_t begin_ns, int64_t decode_ns, int64_t queue_ns,
                   int64_t forward_ns) {
    RequestRow row;
    row.id = id;
    row.trace_id_high = 0x4bf92f3577b34da6, row.trace_id_low = 0xa3ce929d0e0e4700 + id;
    row.route = S(route);
    row.size_bucket = 16;
    row.begin_ns = kBegin + begin_ns;
    row.duration_ns = decode_ns + queue_ns + forward_ns;
    row.end_known = true;
    row.begin_thread = row.end_thread = 0;
    row.labels = {{S("model"), S("resnet50")}};
    row.sizes = {{S("pixels"), 50176}};
    row.stages = {{S("decode"), row.begin_ns, decode_ns},
                  {S("queue"), row.begin_ns + decode_ns, queue_ns},
                  {S("forward"), row.begin_ns + decode_ns + queue_ns, forward_ns}};
    t_.requests.push_back(row);
    return static_cast<uint32_t>(t_.requests.size()) - 1;
  }

  StringId S(const char* text) { return t_.strings.Add(text); }
  uint32_t Site(SiteKind kind, const char* name) {
    SiteRow row;
    row.kind = kind;
    row.name = S(name);
    row.file = S("server.cc");
    row.function = S("Serve");
    row.line = 10 * (static_cast<uint32_t>(t_.sites.size()) + 1);
    t_.sites.push_back(row);
    return static_cast<uint32_t>(t_.sites.size()) - 1;
  }

  Trace t_;
  uint32_t decode_, resize_, forward_, store_, wait_;
};

}  // namespace

Trace MakeTrace() {
  Builder b;
  Trace& t = b.t_;
  for (int i = 0; i < 12; ++i) {
    const int64_t jitter = (i % 4) * kMs / 10;
    b.Request(0x100 + static_cast<uint64_t>(i), "/classify", (10 + i * 40) * kMs, 2 * kMs + jitter, kMs,
              17 * kMs - jitter / 2);
  }
  const uint32_t other = b.Request(0x200, "/segment", 600 * kMs, 5 * kMs, kMs, 80 * kMs);
  const uint32_t slow = b.Request(kSlowRequest, "/classify", 610 * kMs, 3 * kMs, 21 * kMs + 300000, 17 * kMs);
  t.requests[slow].deadline_ns = 40 * kMs;

  b.Thread("http-1");
  b.Event(b.decode_, 610 * kMs, 3 * kMs, slow);
  b.Event(b.resize_, 611 * kMs, kMs + 500000, slow);
  b.Event(b.wait_, 614 * kMs, 12 * kMs, slow, kNone, b.WaitArgs(1, "cache", 2, 0x200));
  b.Thread("http-2");
  b.Event(b.store_, 605 * kMs, 21 * kMs, other);
  b.Thread("executor");
  b.Event(b.forward_, 634 * kMs, 16 * kMs, kNone, 0);
  b.Event(b.forward_, 990 * kMs, kOpen);
  b.Thread("idle");

  t.batches.push_back({0x77, b.S("resnet50"), 2, kBegin + 633 * kMs, 18 * kMs, 6 * kMs, 2, 0, 2});
  t.members.push_back({0, other, kBegin + 633 * kMs, 0});
  t.members.push_back({0, slow, kBegin + 633 * kMs + 500, 0});
  t.handoffs.push_back({other, b.S("images"), 1, 2, kBegin + 626 * kMs, kBegin + 633 * kMs, 0});
  t.handoffs.push_back({slow, b.S("images"), 0, 2, kBegin + 627 * kMs, kBegin + 633 * kMs + 500, 0});
  t.losses.push_back({1, LossReason::kOverwritten, kBegin, kBegin + 620 * kMs, 1203, 40960});
  t.losses.push_back({kNone, LossReason::kRefused, kBegin + 700 * kMs, kBegin + 800 * kMs, 0, 0});
  t.firings.push_back({kBegin + 652 * kMs, kSlowRequest, b.S("latency /classify"),
                       b.S("41.3 ms, above p99.9 = 31.2 ms of 1,203 requests of its size")});
  t.attributes.push_back({b.S("cost of recording"), b.S("0.4 % of the process's CPU time")});
  t.attributes.push_back({b.S("version"), b.S("0.1.0")});
  return t;
}

Trace MakeGpuTrace() {
  Trace t = MakeTrace();
  const auto s = [&](const char* text) { return t.strings.Add(text); };
  t.devices.push_back({0, s("NVIDIA H100 80GB HBM3"), 132, 2048, 32, 65536, 233472});
  t.devices.push_back({1, s("NVIDIA H100 80GB HBM3"), 132, 2048, 32, 65536, 233472});
  t.shapes.push_back({{64, 1, 1}, {256, 1, 1}, 0, 0, 0, 64});
  const auto call = [&](const char* name, int64_t begin_ns, int64_t duration_ns, uint32_t batch, uint32_t stream) {
    t.calls.begin_ns.push_back(kBegin + begin_ns);
    t.calls.duration_ns.push_back(duration_ns);
    t.calls.thread.push_back(2);
    t.calls.request.push_back(kNone);
    t.calls.batch.push_back(batch);
    t.calls.name.push_back(s(name));
    t.calls.stream.push_back(stream);
    t.calls.device.push_back(kNone);
    return t.calls.size() - 1;
  };
  const uint32_t copy = call("cudaMemcpyAsync", 634 * kMs, 20000, 0, kNone);
  const uint32_t launch = call("cudaLaunchKernel", 635 * kMs, 5000, 0, kNone);
  call("cudaStreamSynchronize", 637 * kMs, 12 * kMs + 500000, 0, 0);
  call("cudaDeviceSynchronize", 800 * kMs, 3 * kMs, kNone, kNone);
  const auto stream = [&](uint32_t device, uint32_t number) {
    t.streams.push_back({device, 1, number, 0, t.gpu.size(), 0});
  };
  const auto gpu = [&](GpuKind kind, const char* name, int64_t begin_ns, int64_t duration_ns, uint32_t of,
                       uint64_t bytes) {
    t.gpu.begin_ns.push_back(kBegin + begin_ns);
    t.gpu.duration_ns.push_back(duration_ns);
    t.gpu.kind.push_back(kind);
    t.gpu.stream.push_back(static_cast<uint32_t>(t.streams.size()) - 1);
    t.gpu.name.push_back(s(name));
    t.gpu.call.push_back(of);
    t.gpu.shape.push_back(kind == GpuKind::kKernel ? 0 : kNone);
    t.gpu.bytes.push_back(bytes);
    t.gpu.graph.push_back(0);
    t.gpu.node.push_back(0);
    t.gpu.scope_path.push_back(0);
    ++t.streams.back().event_count;
  };
  stream(0, 7);
  gpu(GpuKind::kMemcpy, "HtoD, pageable to device", 634 * kMs + 50000, 100000, copy, 602112);
  gpu(GpuKind::kKernel, "_ZN2at6native13reduce_kernelILi512ELi1EfEEvPT1_i", 636 * kMs, 4 * kMs, launch, 0);
  gpu(GpuKind::kKernel, "_Z4gemmPf", 640 * kMs, 9 * kMs, launch, 0);
  gpu(GpuKind::kKernel, "_Z4gemmPf", 700 * kMs, 2 * kMs, kNone, 0);
  stream(0, 13);
  gpu(GpuKind::kKernel, "_ZN2at6native13reduce_kernelILi256ELi1EfEEvPT1_i", 638 * kMs, kMs, launch, 0);
  gpu(GpuKind::kMemset, "device", 650 * kMs, 1000, kNone, 4096);
  stream(1, 7);
  t.depths.push_back({kBegin + 500 * kMs, kBegin + 640 * kMs, Depth::kGraphs});
  t.depths.push_back({kBegin + 640 * kMs, kBegin + 1000 * kMs, Depth::kKernels});
  t.gpu_losses.push_back({1, s("overwritten"), kBegin + 640 * kMs, kBegin + 650 * kMs, 12});
  t.overheads.push_back({kBegin + 510 * kMs, 3 * kMs, s("module loading")});
  t.overheads.push_back({kBegin + 520 * kMs, kMs, s("module loading")});
  t.overheads.push_back({kBegin + 530 * kMs, kMs, s("buffer flush")});
  return t;
}

std::string Serialize(Serializer& serializer, const Trace& trace) {
  fakes::StringSink sink;
  const Status status = serializer.Serialize(trace, sink);
  return status.ok() ? sink.bytes : std::string("failed: ") + status.message();
}

}  // namespace incident
