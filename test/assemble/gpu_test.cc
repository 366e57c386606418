// SPDX-License-Identifier: Apache-2.0
//
// Collectors' additions to a trace: in order, joined to the calls that caused them, and consistent in every case.
#include "assemble/gpu.h"

#include <catch2/catch.hpp>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "assemble/assemble.h"
#include "fakes/recording.h"
#include "pitot/extend/call.h"
#include "pitot/request.h"

namespace {

using pitot::GpuActivity;
using pitot::GpuCall;
using pitot::assemble::CallSource;
using pitot::assemble::GpuTables;
using pitot::model::GpuKind;
using pitot::model::kNone;
using pitot::model::Trace;

// A trace with calls as rings leave them: (thread, begin, correlation).
struct Call {
  uint32_t thread;
  int64_t begin_ns;
  uint32_t correlation;
};
Trace WithCalls(const std::vector<Call>& calls, std::vector<CallSource>* sources) {
  Trace trace;
  trace.window_end_ns = 100'000;
  for (uint32_t thread = 0; thread < 2; ++thread) {
    pitot::model::ThreadRow row;
    row.number = thread + 1;
    row.tid = 1000 + thread;
    trace.threads.push_back(row);
  }
  for (const Call& call : calls) {
    trace.calls.begin_ns.push_back(call.begin_ns);
    trace.calls.duration_ns.push_back(5);
    trace.calls.thread.push_back(call.thread);
    trace.calls.request.push_back(kNone);
    trace.calls.batch.push_back(kNone);
    trace.calls.name.push_back(0);
    trace.calls.stream.push_back(kNone);
    trace.calls.device.push_back(kNone);
    sources->push_back({call.correlation, 0});
  }
  return trace;
}

std::string AttributeOf(const Trace& trace, const std::string& key) {
  for (const auto& attribute : trace.attributes) {
    if (trace.strings[attribute.key] == key) return std::string(trace.strings[attribute.value]);
  }
  return "";
}

GpuActivity Kernel(uint32_t stream, int64_t begin_ns, uint32_t correlation, int64_t duration_ns = 10) {
  GpuActivity activity;
  activity.kind = GpuKind::kKernel;
  activity.stream = stream;
  activity.begin_ns = begin_ns;
  activity.duration_ns = duration_ns;
  activity.correlation = correlation;
  return activity;
}

}  // namespace

TEST_CASE("GPU activities are ordered by stream and time, each with the call that caused it", "[gpu]") {
  std::vector<CallSource> sources;
  Trace trace = WithCalls({{0, 100, 7}, {0, 200, 8}, {1, 150, 9}}, &sources);
  GpuTables gpu(&trace, sources, {});
  const uint32_t device = gpu.AddDevice({0, gpu.AddText("H100")});
  const uint32_t first = gpu.AddStream(device, 1, 7), second = gpu.AddStream(device, 1, 13);
  gpu.Add(Kernel(second, 400, 9));
  gpu.Add(Kernel(first, 300, 8));
  gpu.Add(Kernel(first, 110, 7));
  gpu.Add(Kernel(first, 120, 7));  // a graph's launch has many
  gpu.Add(Kernel(second, 390, 77));
  gpu.Finish();

  CHECK(pitot::model::FindInconsistency(trace) == "");
  CHECK(trace.gpu.begin_ns == std::vector<int64_t>{110, 120, 300, 390, 400});
  CHECK(trace.gpu.call == std::vector<uint32_t>{0, 0, 1, kNone, 2});
  CHECK(trace.streams[first].event_count == 3);
  CHECK(trace.streams[second].first_event == 3);
  CHECK(trace.strings[trace.devices[device].name] == "H100");
}

TEST_CASE("the last call before the GPU began is the cause if a correlation wrapped round", "[gpu]") {
  std::vector<CallSource> sources;
  Trace trace = WithCalls({{0, 100, 7}, {0, 5000, 7}, {0, 9000, 7}}, &sources);
  GpuTables gpu(&trace, sources, {});
  const uint32_t stream = gpu.AddStream(kNone, 1, 7);
  for (const int64_t begin_ns : {90, 4999, 5000, 8000, 9500}) gpu.Add(Kernel(stream, begin_ns, 7));
  gpu.Finish();

  // 90: a clock that is slightly early.
  CHECK(trace.gpu.call == std::vector<uint32_t>{0, 0, 1, 1, 2});
}

TEST_CASE("a GPU activity long before the only call with its correlation has another cause", "[gpu]") {
  std::vector<CallSource> sources;
  Trace trace = WithCalls({{0, 50'000'000, 7}}, &sources);
  GpuTables gpu(&trace, sources, {});
  const uint32_t stream = gpu.AddStream(kNone, 1, 7);
  for (const int64_t begin_ns : {48'999'999, 49'000'000}) gpu.Add(Kernel(stream, begin_ns, 7));  // 1 ms is tolerated
  gpu.Finish();

  CHECK(trace.gpu.call == std::vector<uint32_t>{kNone, 0});
}

TEST_CASE("no kernel of the window is tied to a call of long before", "[gpu]") {
  constexpr int64_t kSecond = 1'000'000'000;
  struct Case {
    const char* name;
    int64_t begin_s, end_s;  // before the window's begin
    bool is_kept;
  };
  const Case cases[] = {
      {"cuLaunchKernelEx", 178, 177, false},  // and a wrapped correlation
      {"cuLaunchKernelEx", 178, 0, false},    // an old beginning paired with an end of now
      {"cuLaunchKernelEx", 29, 0, true},     {"cudaMemcpy", 178, 0, true},  // it waited for the GPU
      {"cudaMemcpy", 178, 31, false},        {"cudaMemcpy", 178, 29, true},
  };
  for (const bool is_in_ring : {true, false}) {
    for (const Case& one : cases) {
      INFO(one.name << " from " << one.begin_s << " to " << one.end_s << (is_in_ring ? ", in a ring" : ""));
      std::vector<CallSource> sources;
      Trace trace = WithCalls({}, &sources);
      trace.window_begin_ns = 200 * kSecond, trace.window_end_ns = 205 * kSecond;
      const int64_t begin_ns = trace.window_begin_ns - one.begin_s * kSecond,
                    duration_ns = (one.begin_s - one.end_s) * kSecond;
      if (is_in_ring) {
        trace.calls = WithCalls({{0, begin_ns, 7}}, &sources).calls;
        trace.calls.duration_ns[0] = duration_ns;
        trace.calls.name[0] = trace.strings.Add(one.name);
        sources[0].collector = pitot::Intern("cupti").index;
      }
      GpuTables gpu(&trace, sources, {});
      gpu.BeginCollector(1 << 20, "cupti");
      if (!is_in_ring) gpu.Add(GpuCall{begin_ns, duration_ns, 1000, gpu.AddText(one.name), 7});
      gpu.Add(Kernel(gpu.AddStream(kNone, 1, 7), trace.window_begin_ns + kSecond, 7));
      gpu.Finish();

      CHECK(pitot::model::FindInconsistency(trace) == "");
      CHECK(trace.gpu.call[0] == (one.is_kept ? 0 : kNone));
      CHECK(trace.calls.size() == (one.is_kept ? 1 : 0));
      CHECK(AttributeOf(trace, "collector.cupti.stale_calls") == (one.is_kept ? "" : "1"));
    }
  }
}

TEST_CASE("a call inside one of long before is left out with it", "[gpu]") {
  constexpr int64_t kSecond = 1'000'000'000;
  Trace trace = WithCalls({}, nullptr);
  trace.window_begin_ns = 200 * kSecond, trace.window_end_ns = 205 * kSecond;
  GpuTables gpu(&trace, {}, {});
  gpu.BeginCollector(1 << 20, "cupti");
  gpu.Add(GpuCall{20 * kSecond, 181 * kSecond, 1000, gpu.AddText("cudaLaunchKernel"), 7});
  gpu.Add(GpuCall{20 * kSecond + 10, 100, 1000, gpu.AddText("cuLaunchKernel"), 8});
  gpu.Add(GpuCall{202 * kSecond, 10, 1000, gpu.AddText("cudaLaunchKernel"), 9});
  const uint32_t stream = gpu.AddStream(kNone, 1, 7);
  for (const uint32_t correlation : {8, 9}) gpu.Add(Kernel(stream, 202 * kSecond + correlation, correlation));
  gpu.Finish();

  REQUIRE(trace.calls.size() == 1);
  CHECK(trace.gpu.call == std::vector<uint32_t>{kNone, 0});
}

TEST_CASE("a call belongs to the latest thread with its number that had begun by then", "[gpu]") {
  Trace trace = WithCalls({}, nullptr);
  trace.threads[1].tid = trace.threads[0].tid;
  // The end of the first thread is unknown.
  GpuTables gpu(&trace, {}, {{100, INT64_MAX, {}}, {1000, INT64_MAX, {}}});
  for (const int64_t begin_ns : {1500, 500, 50}) gpu.Add(GpuCall{begin_ns, 5, 1000, 0, 1});
  gpu.Finish();

  REQUIRE(trace.calls.begin_ns == std::vector<int64_t>{50, 500, 1500});
  CHECK(trace.calls.thread == std::vector<uint32_t>{0, 0, 1});
}

TEST_CASE("the newest rows stay if there is no room for all, and the rest is counted by device", "[gpu]") {
  using pitot::assemble::kActivityCost;
  using pitot::assemble::kGpuCallCost;
  Trace trace = WithCalls({}, nullptr);
  GpuTables gpu(&trace, {}, {}, kActivityCost);
  const uint32_t first = gpu.AddDevice({0}), second = gpu.AddDevice({1});
  const uint32_t of_first = gpu.AddStream(first, 1, 7), of_second = gpu.AddStream(second, 2, 7);
  gpu.BeginCollector(2 * kActivityCost, "first");
  gpu.Add(Kernel(of_first, 900, 1, 10));
  gpu.Add(Kernel(of_second, 800, 2, 10));
  gpu.Add(Kernel(of_first, 700, 3, 10));  // uses the spare room
  gpu.Add(Kernel(of_first, 600, 4, 10));
  gpu.Add(Kernel(of_second, 500, 5, 10));
  gpu.Add(Kernel(of_first, 400, 6, 30));
  gpu.Add(GpuCall{300, 5, 1000, 0, 1});
  gpu.AddOverhead(310, 5, 0);
  gpu.BeginCollector(kGpuCallCost, "second");  // another has room of its own
  gpu.Add(GpuCall{200, 5, 1000, 0, 2});
  gpu.Finish();

  CHECK(pitot::model::FindInconsistency(trace) == "");
  CHECK(trace.gpu.begin_ns == std::vector<int64_t>{700, 900, 800});
  CHECK(trace.calls.begin_ns == std::vector<int64_t>{200});
  CHECK(trace.overheads.empty());
  REQUIRE(trace.gpu_losses.size() == 3);
  const auto& losses = trace.gpu_losses;
  for (const auto& loss : losses) CHECK(trace.strings[loss.reason] == "no room in the incident");
  const auto says = [](const auto& loss, uint32_t device, int64_t begin_ns, int64_t end_ns, uint64_t records) {
    return std::tuple(loss.device, loss.begin_ns, loss.end_ns, loss.records) ==
           std::tuple(device, begin_ns, end_ns, records);
  };
  CHECK(says(losses[0], first, 400, 610, 2));
  CHECK(says(losses[1], second, 500, 510, 1));
  CHECK(says(losses[2], kNone, 300, 315, 2));
}

TEST_CASE("samples without room are counted, and are no loss of GPU records", "[gpu]") {
  using pitot::assemble::kSampleCost;
  Trace trace = WithCalls({}, nullptr);
  GpuTables gpu(&trace, {}, {}, 0);
  gpu.BeginCollector(2 * pitot::assemble::kStringCost + 6 + kSampleCost, "host");
  const uint32_t power = gpu.AddCounter(kNone, "power", "W");  // two strings of 6 bytes
  for (const int64_t at_ns : {100, 200, 300, 400}) gpu.AddSample(power, at_ns, 1.5);
  gpu.Finish();

  CHECK(trace.samples.at_ns == std::vector<int64_t>{100});
  CHECK(trace.gpu_losses.empty());
  CHECK(AttributeOf(trace, "collector.host.samples_left_out") == "3");
}

TEST_CASE("nothing older takes the rest of the room once a row did not fit", "[gpu]") {
  Trace trace = WithCalls({}, nullptr);
  GpuTables gpu(&trace, {}, {}, pitot::assemble::kActivityCost + pitot::assemble::kGpuCallCost - 1);
  const uint32_t stream = gpu.AddStream(kNone, 1, 7);
  gpu.Add(Kernel(stream, 900, 1));
  gpu.Add(GpuCall{800, 5, 1000, 0, 1});
  gpu.Add(Kernel(stream, 700, 2));
  gpu.Finish();

  CHECK(trace.gpu.begin_ns == std::vector<int64_t>{900});
  CHECK(trace.calls.size() == 0);
}

TEST_CASE("a correlation is matched with calls that the same collector recorded, in rings and outside", "[gpu]") {
  std::vector<CallSource> sources;
  Trace trace = WithCalls({{0, 100, 7}, {0, 200, 7}, {0, 210, 7}}, &sources);
  sources[0].collector = pitot::Intern("cupti").index;
  sources[1].collector = pitot::Intern("opencl").index;
  sources[2].collector = pitot::Intern("not in this trace").index;
  GpuTables gpu(&trace, sources, {});
  const auto add = [&](const char* collector, uint32_t correlation) {
    gpu.BeginCollector(1 << 20, collector);
    gpu.Add(Kernel(gpu.AddStream(kNone, 1, 7), 300, correlation));
  };
  add("opencl", 7);
  gpu.Add(GpuCall{250, 5, 1000, 0, 8});
  add("cupti", 7);
  gpu.Add(GpuCall{260, 5, 1000, 0, 8});
  add("other", 7);
  add("opencl", 8);  // a second one of this name
  gpu.Finish();

  CHECK(pitot::model::FindInconsistency(trace) == "");
  CHECK(trace.gpu.call == std::vector<uint32_t>{1, 0, kNone, kNone});
}

TEST_CASE("work is tied to the call that its own collector added, not to another's of that number", "[gpu]") {
  Trace trace;
  GpuTables gpu(&trace, {}, {});
  for (const char* collector : {"first", "second"}) {
    gpu.BeginCollector(1 << 20, collector);
    const bool is_first = collector == std::string_view("first");
    gpu.Add(GpuCall{is_first ? 100 : 200, 5, 0, 0, 7});
    gpu.Add(Kernel(gpu.AddStream(kNone, 1, 7), 300, 7));
  }
  gpu.Finish();

  CHECK(trace.calls.begin_ns == std::vector<int64_t>{100, 200});
  CHECK(trace.gpu.call == std::vector<uint32_t>{0, 1});
}

TEST_CASE("a device has its UUID as an attribute, once, from whichever collector knows it", "[gpu]") {
  Trace trace;
  GpuTables gpu(&trace, {}, {});
  gpu.AddDevice({.ordinal = 1});
  for (int i = 0; i < 2; ++i) gpu.AddDevice({.ordinal = 1, .uuid = gpu.AddText("GPU-5c0f")});
  gpu.AddDevice({.ordinal = 0});

  REQUIRE(trace.attributes.size() == 1);
  CHECK(AttributeOf(trace, "gpu.1.uuid") == "GPU-5c0f");
}

TEST_CASE("collectors that add the same device share its row and its properties", "[gpu]") {
  Trace trace;
  GpuTables gpu(&trace, {}, {});
  const uint32_t first = gpu.AddDevice({1, 0, 0, 2048}), second = gpu.AddDevice({1, gpu.AddText("H100"), 132, 1});

  CHECK(first == second);
  CHECK(gpu.AddDevice({0}) != first);
  REQUIRE(trace.devices.size() == 2);
  CHECK(trace.strings[trace.devices[first].name] == "H100");
  CHECK(trace.devices[first].multiprocessors == 132);
  CHECK(trace.devices[first].threads_per_multiprocessor == 2048);
  CHECK(gpu.AddStream(first, 1, 7) == gpu.AddStream(second, 1, 7));
  CHECK(gpu.AddStream(first, 2, 7) != gpu.AddStream(first, 1, 7));
}

TEST_CASE("streams of two collectors are distinct, even with the same number", "[gpu]") {
  Trace trace;
  GpuTables gpu(&trace, {}, {});
  const uint32_t device = gpu.AddDevice({0});
  gpu.BeginCollector(1 << 20, "cuda_events");
  const uint32_t by_events = gpu.AddStream(device, 1, 7);
  GpuActivity span = Kernel(by_events, 100, 0);
  span.kind = GpuKind::kSpan;
  gpu.Add(span);
  gpu.BeginCollector(1 << 20, "cupti");
  const uint32_t by_cupti = gpu.AddStream(device, 1, 7);
  gpu.Add(Kernel(by_cupti, 105, 0));
  gpu.Finish();

  CHECK(pitot::model::FindInconsistency(trace) == "");
  REQUIRE(by_events != by_cupti);
  CHECK(trace.streams[by_events].event_count == 1);
  CHECK(trace.streams[by_cupti].event_count == 1);
}

TEST_CASE("the stream a call waited for is found by its collector's numbers, not another's", "[gpu]") {
  const bool is_cupti_first = GENERATE(true, false);
  std::vector<CallSource> sources;
  Trace trace = WithCalls({{0, 100, 1}, {0, 200, 2}, {0, 300, 3}, {0, 400, 4}}, &sources);
  const auto awaits = [&](uint32_t call, uint32_t context, uint32_t stream) {
    trace.calls.device[call] = context, trace.calls.stream[call] = stream;
  };
  awaits(0, 1, 7);
  awaits(1, 1, pitot::kAllStreams);
  awaits(2, 2, 7);  // CUPTI has no row for these two
  awaits(3, 2, pitot::kAllStreams);
  for (CallSource& source : sources) source.collector = pitot::Intern("cupti").index;
  GpuTables gpu(&trace, sources, {});
  const uint32_t device = gpu.AddDevice({0}), other = gpu.AddDevice({1});
  uint32_t stream = kNone;
  for (const bool is_cupti : {is_cupti_first, !is_cupti_first}) {
    gpu.BeginCollector(1 << 20, is_cupti ? "cupti" : "cuda_events");
    const uint32_t row = gpu.AddStream(is_cupti ? device : other, 1, 7);
    if (is_cupti)
      stream = row;
    else
      gpu.AddStream(other, 2, 7);
  }
  gpu.Finish();

  CHECK(pitot::model::FindInconsistency(trace) == "");
  CHECK(trace.calls.stream == std::vector<uint32_t>{stream, kNone, kNone, kNone});
  CHECK(trace.calls.device == std::vector<uint32_t>{kNone, device, kNone, kNone});
}

TEST_CASE("a call that is in no ring, older than its thread's known context, has the context of the scope around it",
          "[gpu]") {
  std::vector<CallSource> sources;
  Trace trace = WithCalls({{0, 500, 3}}, &sources);
  pitot::model::RequestRow request;
  request.id = 42;
  request.duration_ns = 10'000;
  trace.requests.push_back(request);
  pitot::model::SiteRow site;
  trace.sites.push_back(site);
  const auto add = [&](int64_t begin_ns, int64_t duration_ns, uint32_t of) {
    trace.events.begin_ns.push_back(begin_ns);
    trace.events.duration_ns.push_back(duration_ns);
    trace.events.site.push_back(0);
    trace.events.thread.push_back(0);
    trace.events.request.push_back(of);
    trace.events.batch.push_back(kNone);
    trace.events.args.push_back(kNone);
  };
  add(100, 800, 0);
  for (int64_t i = 0; i < 90; ++i) add(101 + i, 1, kNone);  // many before it, none around it
  trace.threads[0].event_count = trace.threads[1].first_event = 91;
  GpuTables gpu(&trace, sources, {});
  const uint32_t name = gpu.AddText("cudaLaunchKernel");
  gpu.Add(GpuCall{200, 5, 1000, name, 1});
  gpu.Add(GpuCall{2000, 5, 1000, name, 2});  // outside every scope
  gpu.Add(GpuCall{300, 5, 77, name, 4});     // of a thread without records
  gpu.Finish();

  CHECK(pitot::model::FindInconsistency(trace) == "");
  CHECK(trace.calls.begin_ns == std::vector<int64_t>{200, 500, 2000, 300});
  CHECK(trace.calls.thread == std::vector<uint32_t>{0, 0, 0, kNone});
  CHECK(trace.calls.request == std::vector<uint32_t>{0, kNone, kNone, kNone});
}

TEST_CASE("the outermost of a thread's nested calls is kept, and becomes the cause of all their activities", "[gpu]") {
  std::vector<CallSource> sources;
  Trace trace = WithCalls({{0, 50, 3}}, &sources);
  GpuTables gpu(&trace, sources, {});
  const uint32_t runtime = gpu.AddText("cudaLaunchKernel"), driver = gpu.AddText("cuLaunchKernel");
  const uint32_t stream = gpu.AddStream(kNone, 1, 7);
  // The newest first, as they ended.
  gpu.Add(GpuCall{300, 10, 1000, driver, 11});
  gpu.Add(GpuCall{110, 20, 1001, driver, 10});  // of another thread
  gpu.Add(GpuCall{100, 100, 1000, runtime, 7});
  gpu.Add(GpuCall{170, 20, 1000, driver, 7});
  gpu.Add(GpuCall{110, 50, 1000, driver, 8});
  gpu.Add(GpuCall{120, 5, 1000, driver, 9});  // inside the one above
  for (const uint32_t correlation : {3, 7, 8, 9, 10, 11}) gpu.Add(Kernel(stream, 1000 + correlation, correlation));
  gpu.Finish();

  CHECK(pitot::model::FindInconsistency(trace) == "");
  CHECK(trace.calls.begin_ns == std::vector<int64_t>{50, 100, 300, 110});
  CHECK(trace.calls.name == std::vector<uint32_t>{0, runtime, driver, driver});
  CHECK(trace.gpu.call == std::vector<uint32_t>{0, 1, 1, 1, 3, 2});
}

TEST_CASE("calls with touching or equal times are told apart from nested calls", "[gpu]") {
  struct {
    const char* what;
    GpuCall first, second;
    std::vector<std::string> kept;  // correlations
  } const cases[] = {
      {"one after another", {100, 10, 1000, 0, 1}, {110, 10, 1000, 0, 2}, {"1", "2"}},
      {"nothing after another", {100, 10, 1000, 0, 1}, {110, 0, 1000, 0, 2}, {"1", "2"}},
      {"the same end", {100, 10, 1000, 0, 1}, {109, 1, 1000, 0, 2}, {"1"}},
      {"the same begin", {100, 10, 1000, 0, 1}, {100, 3, 1000, 0, 2}, {"1"}},
      {"the same begin, no length", {100, 0, 1000, 0, 2}, {100, 10, 1000, 0, 1}, {"1"}},
      {"the same times", {100, 10, 1000, 0, 2}, {100, 10, 1000, 0, 1}, {"1"}},
      {"the same times, in the other order", {100, 10, 1000, 0, 1}, {100, 10, 1000, 0, 2}, {"1"}},
      {"the same times, no length", {100, 0, 1000, 0, 1}, {100, 0, 1000, 0, 2}, {"1"}},
      {"the same times of two threads", {100, 10, 1000, 0, 1}, {100, 10, 1001, 0, 2}, {"1", "2"}},
      {"the same times of unknown threads", {100, 10, 0, 0, 1}, {100, 10, 0, 0, 2}, {"1", "2"}},
      {"inside, except for the clock's error", {100, 10, 1000, 0, 1}, {103, 8, 1000, 0, 2}, {"1"}},
      {"one after another, except for the clock's error", {100, 10, 1000, 0, 1}, {109, 8, 1000, 0, 2}, {"1", "2"}},
  };
  for (const auto& it : cases) {
    INFO(it.what);
    Trace trace = WithCalls({}, nullptr);
    GpuTables gpu(&trace, {}, {});
    const uint32_t stream = gpu.AddStream(kNone, 1, 7);
    for (GpuCall call : {it.first, it.second}) {
      call.name = gpu.AddText(std::to_string(call.correlation).c_str());
      gpu.Add(call);
    }
    for (const uint32_t correlation : {1, 2}) gpu.Add(Kernel(stream, 200 + 100 * correlation, correlation));
    gpu.Finish();

    CHECK(pitot::model::FindInconsistency(trace) == "");
    std::vector<std::string> kept;
    for (const uint32_t name : trace.calls.name) kept.emplace_back(trace.strings[name]);
    CHECK(kept == it.kept);
    CHECK(trace.gpu.call == std::vector<uint32_t>{0, static_cast<uint32_t>(it.kept.size()) - 1});
  }
}

TEST_CASE("the first added of two equal calls is the outer: it ended last", "[gpu]") {
  Trace trace = WithCalls({}, nullptr);
  GpuTables gpu(&trace, {}, {});
  const uint32_t runtime = gpu.AddText("cudaLaunchKernel"), driver = gpu.AddText("cuLaunchKernel");
  gpu.Add(GpuCall{100, 10, 1000, runtime, 1});
  gpu.Add(GpuCall{100, 10, 1000, driver, 1});
  gpu.Finish();

  CHECK(trace.calls.name == std::vector<uint32_t>{runtime});
}

TEST_CASE("a nested call's wrapped correlation belongs to the call around it at that time", "[gpu]") {
  Trace trace = WithCalls({}, nullptr);
  GpuTables gpu(&trace, {}, {});
  const uint32_t stream = gpu.AddStream(kNone, 1, 7);
  for (const int64_t begin_ns : {100, 5000}) {
    gpu.Add(GpuCall{begin_ns, 50, 1000, 0, 7});
    gpu.Add(GpuCall{begin_ns + 10, 10, 1000, 0, 8});
    gpu.Add(Kernel(stream, begin_ns + 60, 8));
  }
  gpu.Finish();

  CHECK(trace.calls.size() == 2);
  CHECK(trace.gpu.call == std::vector<uint32_t>{0, 1});
}

TEST_CASE("the trace stays consistent with invalid additions from a collector", "[gpu]") {
  std::vector<CallSource> sources;
  Trace trace = WithCalls({{0, 100, 7}}, &sources);
  GpuTables gpu(&trace, sources, {});
  gpu.BeginCollector(1 << 20, "broken");
  const uint32_t stream = gpu.AddStream(12, 1, 7), grid[3] = {1, 2, 3};
  gpu.AddDevice({0, 1u << 30});
  gpu.AddShape(grid, grid, 0, 0, 0, 0);
  gpu.Add(Kernel(5, 100, 7));
  gpu.Add(Kernel(stream, -1, 7));
  gpu.Add(Kernel(stream, 100, 7, -1));
  gpu.Add(Kernel(stream, INT64_MAX, 7));
  GpuActivity wrong = Kernel(stream, 100, 7);
  wrong.kind = static_cast<GpuKind>(9);
  gpu.Add(wrong);
  wrong = Kernel(stream, 100, 7);
  wrong.name = wrong.shape = 1u << 30;
  gpu.Add(wrong);
  gpu.Add(GpuCall{-5, 5, 1000, 0, 1});
  gpu.Add(GpuCall{5, 5, 1000, 1u << 30, 1});
  gpu.AddOverhead(100, -1, 0);
  gpu.AddOverhead(200, 1, 1u << 30);
  gpu.AddOverhead(100, 1, 0);
  gpu.Add(pitot::GpuLoss{200, 100, stream, 0, 1});
  gpu.Add(pitot::GpuLoss{100, 200, 99, 1u << 30, 1, 99});
  gpu.AddDepth(200, 100, pitot::Depth::kKernels);
  gpu.AddDepth(1'000'000, INT64_MIN, pitot::Depth::kKernels);
  gpu.AddOperatorDepth(1'000'000, INT64_MIN, pitot::Depth::kOps);
  gpu.AddDepth(100, 200, pitot::Depth::kAuto);
  gpu.AddDepth(300, 400, pitot::Depth::kKernels);
  gpu.AddDepth(100, 200, pitot::Depth::kScopes);
  gpu.AddOperatorDepth(200, 100, pitot::Depth::kOps);
  gpu.AddOperatorDepth(200, 300, pitot::Depth::kOps);
  gpu.AddOperatorDepth(100, 200, pitot::Depth::kScopes);
  const uint32_t power = gpu.AddCounter(99, "power", "W");
  gpu.AddSample(power, 300, 2.5);
  gpu.AddSample(power, 200, 1.5);
  gpu.AddSample(power, -1, 1);
  gpu.AddSample(power, 200, std::numeric_limits<double>::quiet_NaN());
  gpu.AddSample(power + 1, 200, 1);
  gpu.AddAttribute("key\n", nullptr);
  gpu.Finish();

  CHECK(pitot::model::FindInconsistency(trace) == "");
  CHECK(trace.gpu.size() == 1);
  CHECK(trace.calls.size() == 2);
  CHECK(trace.overheads.size() == 2);
  REQUIRE(trace.gpu_losses.size() == 1);  // an invalid row makes no verdict unreliable
  CHECK(trace.gpu_losses[0].device == kNone);
  // 5 activities, a call, an overhead, a loss and 3 samples.
  CHECK(AttributeOf(trace, "collector.broken.invalid_rows") == "11");
  REQUIRE(trace.depths.size() == 2);
  CHECK(trace.depths[1].depth == pitot::Depth::kKernels);
  REQUIRE(trace.operator_depths.size() == 2);
  CHECK(trace.operator_depths[1].depth == pitot::Depth::kOps);
  CHECK(trace.samples.value == std::vector<double>{1.5, 2.5});
}

TEST_CASE("a call recorded on a thread is joined to the GPU activity that a collector reports", "[gpu]") {
  struct Collector final : pitot::Collector {
    const char* Name() const noexcept override { return "fake"; }
    pitot::Status Start() noexcept override { return {}; }
    void Stop() noexcept override {}
    void Keep(int64_t, pitot::KeepFor) noexcept override {}
    void AddTo(pitot::TraceBuilder& trace) override {
      const uint32_t stream = trace.AddStream(trace.AddDevice({0, trace.AddText("GPU")}), 1, 7);
      trace.Add(Kernel(stream, at_ns, 41));
      if (throws) throw std::runtime_error("the driver is gone");
    }
    int64_t at_ns = 0;
    bool throws = false;
  } collector;
  const fakes::Recording recording;
  REQUIRE(recording.ok());
  pitot::Request request = pitot::Request::Begin("/r");
  const uint64_t id = request.id(), begin_ticks = pitot::BeginCall();
  REQUIRE(begin_ticks != 0);
  pitot::EndCall(begin_ticks, {pitot::Intern(collector.Name()), pitot::Intern("cudaLaunchKernel"), 41});
  request.Finish(pitot::Outcome::kOk);
  const pitot::snapshot::Snapshot snapshot = recording.Snapshot();
  collector.at_ns = snapshot.clock.Ns(recording.Now());
  pitot::Collector* const collectors[] = {&collector};
  for (const bool throws : {false, true}) {
    collector.throws = throws;

    const Trace trace = pitot::assemble::Assemble(snapshot, {}, collectors);

    CHECK(pitot::model::FindInconsistency(trace) == "");
    REQUIRE(trace.gpu.size() == 1);
    REQUIRE(trace.gpu.call[0] == 0);
    CHECK(trace.strings[trace.calls.name[0]] == "cudaLaunchKernel");
    REQUIRE(trace.calls.request[0] != kNone);
    CHECK(trace.requests[trace.calls.request[0]].id == id);
    CHECK(trace.attributes.size() == (throws ? 1 : 0));
  }
}

TEST_CASE("no call is recorded while no recorder runs", "[gpu]") {
  CHECK(pitot::BeginCall() == 0);
  pitot::EndCall(0, {});
}
