// SPDX-License-Identifier: Apache-2.0
#include "serialize/sample_trace.h"

#include <string.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "model/fill_columns.h"
#include "pitot/request.h"
#include "pitot/wait.h"

namespace pitot::test {
namespace {

using model::kNone;
using model::kOpen;
using model::Trace;

model::ArgValue Bits(double value) {
  model::ArgValue bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

constexpr int64_t kMs = 1000000;

}  // namespace

uint32_t TraceMaker::Thread(std::string_view name) {
  model::ThreadRow thread;
  thread.number = static_cast<uint32_t>(trace.threads.size()) + 1;
  thread.tid = 4000 + thread.number;
  thread.name = String(name);
  trace.threads.push_back(thread);
  return thread.number - 1;
}

uint32_t TraceMaker::Site(SiteKind kind, std::string_view name,
                          const std::vector<std::pair<std::string, ArgType>>& args) {
  model::SiteRow site;
  site.kind = kind;
  site.name = String(name);
  site.file = String("server.cc");
  site.function = String("Serve");
  site.line = 10 + static_cast<uint32_t>(trace.sites.size());
  for (const auto& [arg_name, type] : args) {
    site.arg_names.push_back(String(arg_name));
    site.arg_types.push_back(type);
  }
  trace.sites.push_back(site);
  return static_cast<uint32_t>(trace.sites.size()) - 1;
}

uint32_t TraceMaker::WaitSite() {
  return Site(SiteKind::kWait, "wait",
              {{"kind", ArgType::kUint},
               {"resource", ArgType::kName},
               {"owner_thread", ArgType::kUint},
               {"owner_request", ArgType::kUint}});
}

void TraceMaker::Event(uint32_t thread, uint32_t site, int64_t begin_ns, int64_t duration_ns, Context context,
                       const std::vector<model::ArgValue>& args) {
  model::EventColumns& events = trace.events;
  events.begin_ns.push_back(begin_ns);
  events.duration_ns.push_back(duration_ns);
  events.site.push_back(site);
  events.thread.push_back(thread);
  events.request.push_back(context.request);
  events.batch.push_back(context.batch);
  events.args.push_back(args.empty() ? kNone : static_cast<uint32_t>(trace.arg_values.size()));
  trace.arg_values.insert(trace.arg_values.end(), args.begin(), args.end());
}

uint32_t TraceMaker::Request(uint64_t id, std::string_view route, int64_t begin_ns, int64_t duration_ns) {
  model::RequestRow request;
  request.id = id;
  request.route = String(route);
  request.begin_ns = begin_ns;
  request.duration_ns = duration_ns;
  request.end_known = duration_ns != kOpen;
  trace.requests.push_back(request);
  return static_cast<uint32_t>(trace.requests.size()) - 1;
}

uint32_t TraceMaker::Batch(uint64_t id, std::string_view executor, uint32_t thread, int64_t begin_ns,
                           int64_t duration_ns) {
  model::BatchRow batch;
  batch.id = id;
  batch.executor = String(executor);
  batch.thread = thread;
  batch.begin_ns = begin_ns;
  batch.duration_ns = duration_ns;
  trace.batches.push_back(batch);
  return static_cast<uint32_t>(trace.batches.size()) - 1;
}

void TraceMaker::Member(uint32_t batch, uint32_t request, int64_t join_ns, int64_t leave_ns) {
  trace.members.push_back({batch, request, join_ns, leave_ns});
}

void TraceMaker::Call(uint32_t thread, std::string_view name, int64_t begin_ns, int64_t duration_ns, Context context,
                      uint32_t stream) {
  trace.calls.begin_ns.push_back(begin_ns);
  trace.calls.duration_ns.push_back(duration_ns);
  trace.calls.thread.push_back(thread);
  trace.calls.request.push_back(context.request);
  trace.calls.batch.push_back(context.batch);
  trace.calls.name.push_back(String(name));
  trace.calls.stream.push_back(stream);
  trace.calls.device.push_back(kNone);
}

void TraceMaker::Gpu(uint32_t stream, model::GpuKind kind, std::string_view name, int64_t begin_ns, int64_t duration_ns,
                     uint32_t call, uint32_t shape, uint64_t bytes, uint32_t graph, uint32_t node) {
  trace.gpu.begin_ns.push_back(begin_ns);
  trace.gpu.duration_ns.push_back(duration_ns);
  trace.gpu.kind.push_back(kind);
  trace.gpu.stream.push_back(stream);
  trace.gpu.name.push_back(String(name));
  trace.gpu.call.push_back(call);
  trace.gpu.shape.push_back(shape);
  trace.gpu.bytes.push_back(bytes);
  trace.gpu.graph.push_back(graph);
  trace.gpu.node.push_back(node);
  trace.gpu.scope_path.push_back(0);
}

Trace TraceMaker::Finish() {
  schema::FillColumns(&trace);
  model::EventColumns& events = trace.events;
  std::vector<uint32_t> order(events.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = [&](uint32_t i) { return events.duration_ns[i] == kOpen ? INT64_MAX : events.duration_ns[i]; };
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (events.thread[a] != events.thread[b]) return events.thread[a] < events.thread[b];
    return events.begin_ns[a] != events.begin_ns[b] ? events.begin_ns[a] < events.begin_ns[b] : end(a) > end(b);
  });
  const auto reorder = [&](auto* column) {
    auto sorted = *column;
    for (size_t i = 0; i < order.size(); ++i) sorted[i] = (*column)[order[i]];
    *column = std::move(sorted);
  };
  reorder(&events.begin_ns);
  reorder(&events.duration_ns);
  reorder(&events.site);
  reorder(&events.thread);
  reorder(&events.request);
  reorder(&events.batch);
  reorder(&events.args);
  for (model::ThreadRow& thread : trace.threads) thread.first_event = thread.event_count = 0;
  for (const uint32_t thread : events.thread) ++trace.threads[thread].event_count;
  uint32_t first = 0;
  for (model::ThreadRow& thread : trace.threads) {
    thread.first_event = first;
    first += thread.event_count;
  }
  for (model::BatchRow& batch : trace.batches) batch.member_count = 0;
  for (const model::MemberRow& member : trace.members) ++trace.batches[member.batch].member_count;
  first = 0;
  for (model::BatchRow& batch : trace.batches) {
    batch.first_member = first;
    first += batch.member_count;
  }
  for (model::StreamRow& stream : trace.streams) stream.event_count = 0;
  for (const uint32_t stream : trace.gpu.stream) ++trace.streams[stream].event_count;
  first = 0;
  for (model::StreamRow& stream : trace.streams) {
    stream.first_event = first;
    first += stream.event_count;
  }
  return trace;
}

Trace SampleTrace() {
  TraceMaker maker;
  Trace& trace = maker.trace;
  trace.process_name = maker.String("sample_server");
  trace.pid = 4000;
  trace.window_begin_ns = 1000 * kMs;
  trace.window_end_ns = 1100 * kMs;
  trace.clock = {1100 * kMs, 1700000000000 * kMs, 5100 * kMs, true, 2.5, 40};

  const uint32_t http = maker.Thread("http 0"), executor = maker.Thread("executor"), idle = maker.Thread("");
  trace.threads[http].history_begin_ns = 990 * kMs;
  trace.threads[idle].exited = true;

  // Two requests share a batch; a third still waits for its turn.
  const uint32_t fast = maker.Request(0x1111222233334444, "/classify", 1010 * kMs, 30 * kMs);
  const uint32_t slow = maker.Request(0x1111222233338f0c, "/classify", 1012 * kMs, 41 * kMs);
  const uint32_t open = maker.Request(0x111122223333aaaa, "/segment", 1060 * kMs, kOpen);
  model::RequestRow& first = trace.requests[fast];
  first.host_id = maker.String("cmpl-17");
  first.trace_id_high = 0x0af7651916cd43dd;
  first.trace_id_low = 0x8448eb211c80319c;
  first.begin_thread = first.end_thread = http;
  first.labels = {{maker.String("model"), maker.String("resnet50")}};
  first.sizes = {{maker.String("pixels"), 50176.0}};
  first.size_bucket = 16;
  first.stages = {{maker.String("decode"), 1010 * kMs, 5 * kMs}, {maker.String("infer"), 1015 * kMs, 25 * kMs}};
  model::RequestRow& second = trace.requests[slow];
  second.outcome = Outcome::kTimedOut;
  second.reason = maker.String("no free slot");
  second.parent_id = first.id;
  second.begin_thread = http;
  second.deadline_ns = 40 * kMs;
  second.output_tokens = 12;
  second.first_token_ns = 20 * kMs;
  second.max_token_gap_ns = 15 * kMs;
  second.stages = {{maker.String("infer"), 1016 * kMs, 37 * kMs}};
  trace.requests[open].stages = {{maker.String("decode"), 1061 * kMs, kOpen}};
  trace.requests[open].begin_thread = http;

  const uint32_t batch = maker.Batch(0xb1, "resnet50", executor, 1018 * kMs, 20 * kMs);
  trace.batches[batch].submitted_ns = 6 * kMs;
  trace.batches[batch].close = static_cast<uint8_t>(BatchClose::kTimeout);
  maker.Member(batch, fast, 1018 * kMs + 1000);
  maker.trace.members.back().work = 150'528;
  maker.Member(batch, slow, 1025 * kMs, 1037 * kMs);
  maker.trace.members.back().work = 602'112;
  maker.trace.batches.back().work_unit = maker.String("pixels");
  maker.Batch(0xb2, "resnet50", executor, 1090 * kMs, kOpen);
  const model::StringId queue = maker.String("images");
  trace.handoffs.push_back({fast, queue, http, executor, 1016 * kMs, 1018 * kMs + 1000, batch});
  trace.handoffs.push_back({slow, queue, http, executor, 1020 * kMs, 1025 * kMs, batch});
  trace.handoffs.push_back({slow, maker.String("replies"), executor, http, 1045 * kMs, 1050 * kMs, kNone});
  trace.handoffs.push_back({open, queue, http, kNone, 1062 * kMs, 0, kNone});

  const uint32_t handle = maker.Site(SiteKind::kScope, "handle");
  const uint32_t decode = maker.Site(SiteKind::kScope, "decode",
                                     {{"bytes", ArgType::kUint},
                                      {"offset", ArgType::kInt},
                                      {"scale", ArgType::kDouble},
                                      {"cached", ArgType::kBool},
                                      {"format", ArgType::kLiteral},
                                      {"file", ArgType::kString}});
  const uint32_t forward = maker.Site(SiteKind::kPhase, "forward");
  const uint32_t leaf = maker.Site(SiteKind::kLeaf, "copy");
  const uint32_t named = maker.Site(SiteKind::kScope, "", {{"", ArgType::kName}, {"layer", ArgType::kInt}});
  trace.sites[named].name_is_first_arg = true;
  const uint32_t wait = maker.WaitSite();
  const uint32_t mark = maker.Site(SiteKind::kInstant, "cache miss", {{"key", ArgType::kString}});
  const uint32_t depth = maker.Site(SiteKind::kCounter, "queue depth", {{"depth", ArgType::kInt}});
  const uint32_t load = maker.Site(SiteKind::kCounter, "load", {{"load", ArgType::kDouble}});
  const uint32_t gone = maker.Site(SiteKind::kScope, "(unloaded 0x7f00)");
  trace.sites[gone].unloaded = true;

  maker.Event(http, handle, 1010 * kMs, 6 * kMs, {fast});
  maker.Event(http, decode, 1010 * kMs, 5 * kMs, {fast},
              {91234, static_cast<uint64_t>(int64_t{-5}), Bits(0.5), 1, maker.String("jpeg"), maker.String("cat.jpg")});
  maker.Event(http, mark, 1011 * kMs, 0, {fast}, {maker.String("cat")});
  maker.Event(http, depth, 1016 * kMs, 0, {}, {3});
  maker.Event(http, load, 1016 * kMs, 0, {}, {Bits(0.75)});
  maker.Event(http, handle, 1016 * kMs + 1, 5 * kMs, {slow});
  maker.Event(http, wait, 1017 * kMs, 2 * kMs, {slow},
              {static_cast<uint64_t>(WaitKind::kLock), maker.String("model mutex"), 2, 0x1111222233334444});
  maker.Event(http, handle, 1050 * kMs + 500, 2 * kMs, {slow});
  // Closed out of order: the second begins in the first and outlives it.
  maker.Event(http, leaf, 1070 * kMs, 4 * kMs, {open});
  maker.Event(http, gone, 1072 * kMs, 5 * kMs, {open});
  maker.Event(http, handle, 1080 * kMs, kOpen, {open});
  maker.Event(http, wait, 1085 * kMs, kOpen, {open});
  maker.Event(executor, forward, 1019 * kMs, 10 * kMs, {kNone, batch});
  maker.Event(executor, named, 1019 * kMs, 4 * kMs, {kNone, batch}, {maker.String("conv1"), 1});
  maker.Event(executor, named, 1023 * kMs, 6 * kMs, {kNone, batch}, {maker.String("conv2"), 2});
  maker.Event(executor, leaf, 1023 * kMs, 0, {kNone, batch});
  maker.Event(executor, forward, 1029 * kMs, 8 * kMs, {kNone, batch});
  maker.Event(executor, depth, 1040 * kMs, 0, {}, {0});

  const uint32_t call = maker.Site(SiteKind::kAsyncBegin, "embed call");
  trace.asyncs.push_back({call, slow, http, executor, 1021 * kMs, 9 * kMs});
  trace.asyncs.push_back({call, open, http, kNone, 1065 * kMs, kOpen});
  trace.tokens.push_back({slow, executor, 1032 * kMs, 8});
  trace.tokens.push_back({slow, executor, 1047 * kMs, 4});
  trace.devices.push_back({0, maker.String("NVIDIA H100 80GB HBM3"), 132, 2048, 32, 65536, 233472});
  trace.streams.push_back({0, 1, 7, maker.String("compute"), 0, 0});
  trace.streams.push_back({0, 1, 14, 0, 0, 0});
  trace.shapes.push_back({{98, 2, 1}, {256, 1, 1}, 1024, 49152, 0, 96});
  maker.Call(executor, "cudaMemcpyAsync", 1018 * kMs, kMs, {kNone, batch});
  maker.Call(executor, "cudaLaunchKernel", 1019 * kMs, 5'000, {slow, batch});
  maker.Call(executor, "cudaStreamSynchronize", 1024 * kMs, 5 * kMs, {kNone, batch}, 0);
  maker.Gpu(0, model::GpuKind::kMemcpy, "HtoD, pinned to device", 1018 * kMs + 1, kMs, 0, kNone, 602112);
  maker.Gpu(0, model::GpuKind::kKernel, "_Z4gemmPf", 1020 * kMs, 3 * kMs, 1, 0, 0);
  maker.Gpu(0, model::GpuKind::kMemset, "device", 1023 * kMs, 1'000, kNone, kNone, 4096);
  maker.Gpu(1, model::GpuKind::kGraph, "graph 5", 1020 * kMs, 9 * kMs, kNone, kNone, 0, 5);
  trace.overheads.push_back({1017 * kMs, kMs, maker.String("module loading")});
  trace.overheads.push_back({1018 * kMs, 7, maker.String("lazy function loading")});
  trace.gpu.scope_path.back() = maker.String("forward / attention");
  trace.depths.push_back({1000 * kMs, 1015 * kMs, Depth::kScopes});
  trace.depths.push_back({1015 * kMs, 1100 * kMs, Depth::kGraphs});
  trace.operator_depths.push_back({1002 * kMs, 1020 * kMs, Depth::kScopes});
  trace.operator_depths.push_back({1020 * kMs, 1100 * kMs, Depth::kOps});
  trace.gpu_losses.push_back({1, maker.String("buffer full"), 1030 * kMs, 1032 * kMs, 12, 0});
  trace.gpu_losses.push_back({kNone, maker.String("paused"), 1090 * kMs, 1095 * kMs, 0});
  trace.counters.push_back({0, maker.String("SM clock"), maker.String("MHz")});
  trace.counters.push_back({kNone, maker.String("allocated"), maker.String("bytes")});
  trace.samples = {{0, 0, 1}, {1010 * kMs, 1020 * kMs, 1015 * kMs}, {1980, 1755, 1.5e9}};
  trace.losses.push_back({http, model::LossReason::kOverwritten, 1000 * kMs, 1009 * kMs, 120, 2880});
  trace.losses.push_back({kNone, model::LossReason::kRefused, 1000 * kMs, 1100 * kMs, 7, 0});
  trace.firings.push_back({1053 * kMs + 200, 0x1111222233338f0c, maker.String("latency"),
                           maker.String("/classify, timed_out after 41.0 ms")});
  trace.norms.push_back({model::NormKind::kBatchOfMembers,
                         Depth::kKernels,
                         maker.String("resnet50"),
                         4,
                         64,
                         7'100'000,
                         {{4, 2'000'000}, {11, 5'000'000}}});
  trace.norms.push_back({model::NormKind::kHold, Depth::kScopes, maker.String("cache"), 0, 9, 30'000, {}});
  trace.norms.push_back({model::NormKind::kFirstToken,
                         Depth::kScopes,
                         maker.String("/classify"),
                         4,
                         1,
                         90'000'000,
                         {{11, 90'000'000}},
                         96.5});
  trace.attributes.push_back({maker.String("version"), maker.String("0.1.0")});
  trace.attributes.push_back({maker.String("host"), maker.String("gpu-\xc3\xa9t\xc3\xa9")});
  return maker.Finish();
}

Trace RandomTrace(uint32_t seed, uint32_t events) {
  std::mt19937 random(seed);
  const auto draw = [&](uint32_t limit) { return limit == 0 ? 0 : static_cast<uint32_t>(random() % limit); };
  const auto draw_or_none = [&](uint32_t limit) { return limit == 0 || draw(3) == 0 ? kNone : draw(limit); };
  TraceMaker maker;
  Trace& trace = maker.trace;
  const int64_t begin_ns = 5000, end_ns = 5000 + int64_t{events} * 20;
  const auto draw_time = [&] { return begin_ns + draw(static_cast<uint32_t>(end_ns - begin_ns)); };
  const auto draw_duration = [&]() -> int64_t {
    return draw(10) == 0 ? kOpen : draw(8) == 0 ? 0 : draw(1 << draw(12));
  };
  trace.pid = 77;
  trace.window_begin_ns = begin_ns;
  trace.window_end_ns = end_ns;
  trace.clock.realtime_ns = 1 + int64_t{seed};
  std::vector<model::StringId> names;
  for (uint32_t i = 0; i < 20; ++i) names.push_back(maker.String("name " + std::to_string(draw(1000))));
  const auto draw_name = [&] { return names[draw(static_cast<uint32_t>(names.size()))]; };

  const uint32_t threads = 1 + draw(5);
  for (uint32_t i = 0; i < threads; ++i) maker.Thread("thread " + std::to_string(i));
  const uint32_t sites = 3 + draw(10);
  for (uint32_t i = 0; i < sites; ++i) {
    const SiteKind kinds[] = {SiteKind::kScope, SiteKind::kScope,   SiteKind::kLeaf,
                              SiteKind::kPhase, SiteKind::kInstant, SiteKind::kCounter};
    std::vector<std::pair<std::string, ArgType>> args;
    for (uint32_t arg = draw(4); arg > 0; --arg) args.emplace_back("arg", static_cast<ArgType>(1 + draw(7)));
    const uint32_t site = maker.Site(kinds[i < 2 ? 0 : draw(6)], trace.strings[draw_name()], args);
    trace.sites[site].name_is_first_arg = !args.empty() && model::IsText(args[0].second) && draw(2) == 0;
  }
  const auto sorted_times = [&](uint32_t count) {
    std::vector<int64_t> times(count);
    for (int64_t& time : times) time = draw_time();
    std::sort(times.begin(), times.end());
    return times;
  };
  for (const int64_t at_ns : sorted_times(draw(events / 8 + 2))) {
    const uint32_t row =
        maker.Request(random() | uint64_t{random()} << 32, trace.strings[draw_name()], at_ns, draw_duration());
    model::RequestRow& request = trace.requests[row];
    request.begin_thread = draw_or_none(threads);
    request.end_thread = draw_or_none(threads);
    request.outcome = static_cast<Outcome>(1 + draw(6));
    request.end_known = draw(2) == 0;
    request.begin_known = draw(4) != 0;
    request.deadline_ns = draw(3) * 1000;
    request.trace_id_low = random();
    if (draw(2) == 0) request.reason = draw_name();
    if (draw(2) == 0) request.host_id = draw_name();
    for (uint32_t i = draw(3); i > 0; --i) request.labels.push_back({draw_name(), draw_name()});
    for (uint32_t i = draw(3); i > 0; --i) request.sizes.push_back({draw_name(), draw(1000) / 7.0});
    int64_t stage_ns = at_ns;
    for (uint32_t i = draw(4); i > 0 && stage_ns <= end_ns; --i) {
      request.stages.push_back({draw_name(), stage_ns, i == 1 && draw(2) == 0 ? kOpen : int64_t{draw(300)}});
      stage_ns += request.stages.back().duration_ns + draw(2) * 10;
    }
  }
  const uint32_t requests = static_cast<uint32_t>(trace.requests.size());
  for (const int64_t at_ns : sorted_times(draw(events / 16 + 2))) {
    const uint32_t batch =
        maker.Batch(random(), trace.strings[draw_name()], draw_or_none(threads), at_ns, draw_duration());
    trace.batches[batch].close = static_cast<uint8_t>(draw(5));
    trace.batches[batch].submitted_ns = draw(100);
    int64_t join_ns = at_ns;
    for (uint32_t i = requests == 0 ? 0 : draw(5); i > 0; --i) {
      join_ns += draw(50);
      maker.Member(batch, draw(requests), join_ns, draw(2) == 0 ? 0 : join_ns + draw(100));
      maker.trace.members.back().work = draw(2) == 0 ? 0 : draw(1000) * 0.25;
    }
  }
  const uint32_t batches = static_cast<uint32_t>(trace.batches.size());
  if (requests != 0) {
    for (const int64_t at_ns : sorted_times(draw(events / 8 + 2))) {
      trace.handoffs.push_back({draw(requests), draw_name(), draw_or_none(threads), draw_or_none(threads), at_ns,
                                draw(4) == 0 ? 0 : at_ns + draw(500), draw_or_none(batches)});
    }
    for (const int64_t at_ns : sorted_times(draw(events / 8 + 2))) {
      trace.asyncs.push_back(
          {draw(sites), draw(requests), draw_or_none(threads), draw_or_none(threads), at_ns, draw_duration()});
    }
    for (const int64_t at_ns : sorted_times(draw(events / 8 + 2))) {
      trace.tokens.push_back({draw(requests), draw_or_none(threads), at_ns, draw(9)});
    }
  }
  for (const int64_t at_ns : sorted_times(draw(4))) {
    const uint64_t id = requests == 0 ? 1 : trace.requests[draw(requests)].id;
    trace.firings.push_back({at_ns, id, draw_name(), draw_name()});
  }
  for (uint32_t i = draw(5); i > 0; --i) {
    const int64_t at_ns = draw_time();
    trace.losses.push_back({draw_or_none(threads), static_cast<model::LossReason>(1 + draw(10)), at_ns,
                            at_ns + draw(99), draw(50), draw(5000)});
  }
  for (uint32_t i = draw(4); i > 0; --i) trace.attributes.push_back({draw_name(), draw_name()});

  for (uint32_t i = draw(3); i > 0; --i)
    trace.devices.push_back({i, draw_name(), draw(200), draw(2049), draw(33), draw(65537), draw(300000)});
  const auto devices = static_cast<uint32_t>(trace.devices.size());
  const uint32_t streams = draw(4), shapes = draw(5);
  for (uint32_t i = 0; i < streams; ++i)
    trace.streams.push_back({draw_or_none(devices), draw(3), draw(99), draw_name(), 0, 0});
  for (uint32_t i = 0; i < shapes; ++i) {
    trace.shapes.push_back(
        {{draw(9999), draw(9), draw(9)}, {draw(1025), 1, draw(2)}, draw(9999), draw(9999), draw(99), draw(256)});
  }
  for (uint32_t thread = 0; thread <= threads; ++thread) {
    for (const int64_t at_ns : sorted_times(draw(events / 16 + 2))) {
      maker.Call(thread < threads ? thread : kNone, trace.strings[draw_name()], at_ns, draw_duration(),
                 {draw_or_none(requests), draw_or_none(batches)}, draw_or_none(streams));
      if (devices != 0 && at_ns % 4 == 0) trace.calls.device.back() = static_cast<uint32_t>(at_ns % devices);
    }
  }
  for (uint32_t stream = 0; stream < streams; ++stream) {
    for (const int64_t at_ns : sorted_times(draw(events / 8 + 2))) {
      maker.Gpu(stream, static_cast<model::GpuKind>(1 + draw(5)), trace.strings[draw_name()], at_ns, draw(5000),
                draw_or_none(trace.calls.size()), draw_or_none(shapes), random(), draw(3), draw(50));
    }
  }
  for (const int64_t at_ns : sorted_times(draw(5))) trace.overheads.push_back({at_ns, draw(500), draw_name()});

  for (uint32_t i = 0; i < events; ++i) {
    const uint32_t site = draw(sites);
    const model::SiteRow& row = trace.sites[site];
    std::vector<model::ArgValue> args;
    if (draw(5) != 0) {
      for (const ArgType type : row.arg_types) {
        args.push_back(model::IsText(type)        ? draw_name()
                       : type == ArgType::kBool   ? draw(2)
                       : type == ArgType::kDouble ? Bits(draw(1000) / 16.0)
                                                  : random() - uint64_t{1} * draw(2) * UINT32_MAX);
      }
    }
    maker.Event(draw(threads), site, draw_time(), model::IsScope(row.kind) ? draw_duration() : 0,
                {draw_or_none(requests), draw_or_none(batches)}, args);
  }

  for (size_t i = 0; i < trace.gpu.scope_path.size(); ++i) trace.gpu.scope_path[i] = draw(3) == 0 ? draw_name() : 0;
  for (const int64_t at_ns : sorted_times(draw(6)))
    trace.depths.push_back({at_ns, at_ns + draw(5000), static_cast<Depth>(draw(4))});
  for (uint32_t i = draw(5); i > 0; --i) {
    const int64_t at_ns = draw_time();
    trace.gpu_losses.push_back(
        {draw_or_none(streams), draw_name(), at_ns, at_ns + draw(900), draw(50), draw_or_none(devices)});
  }
  for (uint32_t i = draw(4); i > 0; --i) {
    trace.counters.push_back({draw_or_none(devices), draw_name(), draw_name()});
    for (const int64_t at_ns : sorted_times(draw(events / 8 + 2))) {
      trace.samples.counter.push_back(static_cast<uint32_t>(trace.counters.size()) - 1);
      trace.samples.at_ns.push_back(at_ns);
      trace.samples.value.push_back(draw(1000) / 8.0 - 50);
    }
  }
  for (uint32_t i = draw(4); i > 0; --i) {
    trace.norms.push_back({static_cast<model::NormKind>(1 + draw(10)),
                           static_cast<Depth>(draw(4)),
                           draw_name(),
                           draw(9),
                           draw(99),
                           draw(5000),
                           {},
                           draw(8) / 2.0});
    for (uint32_t part = draw(3); part > 0; --part) trace.norms.back().parts.push_back({draw(40), draw(900)});
  }
  return maker.Finish();
}

Trace LargeTrace(uint32_t events, uint32_t args_percent) {
  std::mt19937 random(1);
  TraceMaker maker;
  Trace& trace = maker.trace;
  constexpr uint32_t kThreads = 8;
  std::vector<uint32_t> sites, sites_with_args;
  for (uint32_t i = 0; i < 50; ++i) {
    const std::string name = "operation " + std::to_string(i);
    sites.push_back(maker.Site(SiteKind::kScope, name));
    sites_with_args.push_back(maker.Site(SiteKind::kScope, name, {{"bytes", ArgType::kUint}}));
  }
  trace.clock.realtime_ns = 1700000000000000000;
  const uint32_t per_thread = events / kThreads;
  const uint32_t requests = events / 100 + 1;
  int64_t last_ns = 0;
  for (uint32_t i = 0; i < requests; ++i)
    maker.Request(random() | 1ull << 40, "/classify", 1000000 + i * 20000ll, 150000);
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    maker.Thread("worker " + std::to_string(thread));
    int64_t now_ns = 1000000 + thread;
    for (uint32_t i = 0; i < per_thread;) {
      const uint32_t request = std::min(requests - 1, static_cast<uint32_t>((now_ns - 1000000) / 20000));
      // One scope of four, all inside it.
      const uint32_t inside = std::min<uint32_t>(3, per_thread - i - 1);
      int64_t child_ns = now_ns + 300;
      const int64_t outer_ns = now_ns;
      for (uint32_t k = 0; k < inside; ++k) {
        const int64_t duration_ns = 500 + random() % 5000;
        const uint32_t which = static_cast<uint32_t>(random() % 50);
        const bool has_arg = random() % 100 < args_percent;
        maker.Event(thread, has_arg ? sites_with_args[which] : sites[which], child_ns, duration_ns, {request},
                    has_arg ? std::vector<model::ArgValue>{random() % 100000} : std::vector<model::ArgValue>{});
        child_ns += duration_ns + 100 + random() % 500;
      }
      maker.Event(thread, sites[random() % 50], outer_ns, child_ns + 200 - outer_ns, {request});
      now_ns = child_ns + 400 + random() % 3000;
      i += inside + 1;
    }
    last_ns = std::max(last_ns, now_ns);
  }
  trace.window_begin_ns = 1000000;
  trace.window_end_ns = last_ns;
  return maker.Finish();
}

}  // namespace pitot::test
