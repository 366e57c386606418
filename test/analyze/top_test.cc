// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/top.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "fakes/failing_allocations.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

using analyze::FindTop;
using analyze::TopBy;
using analyze::TopOptions;
using analyze::TopRow;
using analyze::TopSort;
using analyze::TopTable;
using model::GpuKind;
using model::kNone;
using model::kOpen;
using model::Trace;

namespace {

TopTable Top(const Trace& trace, const TopOptions& options) {
  TopTable table;
  const Status status = FindTop(trace, options, &table);
  INFO(status.message());
  REQUIRE(status.ok());
  return table;
}
TopTable Top(const Trace& trace, TopBy by) { return Top(trace, TopOptions{by, TopSort::kDefault, false, 0}); }

// The row of a name and shape; all zeros if there is none.
TopRow Row(const TopTable& table, const std::string& name, const std::string& shape = "") {
  for (const TopRow& row : table.rows) {
    if (row.name == name && row.shape == shape) return row;
  }
  return {};
}
std::vector<std::string> Names(const TopTable& table) {
  std::vector<std::string> names;
  for (const TopRow& row : table.rows) names.push_back(row.name);
  return names;
}

// One thread and a device with two streams; `Launch` adds a call and its work.
struct Made {
  Made() {
    maker.trace.window_end_ns = 1000;
    thread = maker.Thread("executor");
    maker.trace.devices.push_back({});
    maker.trace.streams.push_back({0, 1, 7, 0, 0, 0});
    maker.trace.streams.push_back({0, 1, 8, 0, 0, 0});
    linear = maker.Site(SiteKind::kOperator, "aten::linear");
    addmm = maker.Site(SiteKind::kOperator, "aten::addmm");
    forward = maker.Site(SiteKind::kScope, "forward");
    layer = maker.Site(SiteKind::kScope, "layer1");
  }
  void Launch(int64_t call_ns, int64_t begin_ns, int64_t duration_ns, std::string_view kernel = "k",
              std::string_view path = "", uint32_t stream = 0, Context context = {}) {
    maker.Call(thread, "cudaLaunchKernel", call_ns, 1, context);
    maker.Gpu(stream, GpuKind::kKernel, kernel, begin_ns, duration_ns, maker.trace.calls.size() - 1);
    maker.trace.gpu.scope_path.back() = maker.String(path);
  }
  TraceMaker maker;
  uint32_t thread, linear, addmm, forward, layer;
};

// Everything with a row open on a thread at a moment, the innermost last.
std::vector<uint32_t> OpenAt(const Trace& trace, TopBy by, uint32_t thread, int64_t at_ns) {
  std::vector<uint32_t> open;
  const model::ThreadRow& row = trace.threads[thread];
  if (at_ns < std::max(trace.window_begin_ns, row.history_begin_ns) || at_ns >= trace.window_end_ns) return open;
  for (uint32_t event = row.first_event; event < row.first_event + row.event_count; ++event) {
    const SiteKind kind = trace.sites[trace.events.site[event]].kind;
    if (by == TopBy::kOperator ? kind != SiteKind::kOperator : !model::IsScope(kind)) continue;
    if (trace.events.begin_ns[event] <= at_ns && at_ns < trace.EventEnd(event)) open.push_back(event);
  }
  const auto end_ns = [&](uint32_t event) {
    return trace.events.duration_ns[event] == kOpen ? INT64_MAX : trace.EventEnd(event);
  };
  std::stable_sort(open.begin(), open.end(), [&](uint32_t a, uint32_t b) {
    const int64_t a_ns = trace.events.begin_ns[a], b_ns = trace.events.begin_ns[b];
    return a_ns != b_ns ? a_ns < b_ns : end_ns(a) > end_ns(b);
  });
  return open;
}

int64_t InWindow(const Trace& trace, uint32_t gpu_row) {
  const int64_t begin_ns = std::max(trace.gpu.begin_ns[gpu_row], trace.window_begin_ns);
  const int64_t end_ns = std::min(trace.gpu.begin_ns[gpu_row] + trace.gpu.duration_ns[gpu_row], trace.window_end_ns);
  return trace.gpu.kind[gpu_row] == GpuKind::kSpan ? 0 : std::max<int64_t>(0, end_ns - begin_ns);
}

// Half of the scopes are operators.
Trace RandomOperators(uint32_t seed) {
  Trace trace = RandomTrace(seed, 2 * seed);
  for (size_t i = 0; i < trace.sites.size(); i += 2) {
    if (model::IsScope(trace.sites[i].kind)) trace.sites[i].kind = SiteKind::kOperator;
  }
  for (size_t i = 0; i < trace.threads.size(); i += 2)
    trace.threads[i].history_begin_ns = trace.window_begin_ns + 7 * seed;
  return trace;
}

int64_t BusyNs(const Trace& trace) {
  const model::Intervals window = model::Union({{trace.window_begin_ns, trace.window_end_ns}});
  std::set<uint32_t> devices;
  for (const model::StreamRow& stream : trace.streams) devices.insert(stream.device);
  int64_t ns = 0;
  for (const uint32_t device : devices) ns += model::TotalNs(model::Intersection(window, DeviceBusy(trace, device)));
  return ns;
}

}  // namespace

TEST_CASE("self time excludes children and total time includes them, on the CPU and on the GPU", "[top]") {
  Made made;
  made.maker.Event(made.thread, made.linear, 100, 100);
  made.maker.Event(made.thread, made.addmm, 120, 50);
  made.Launch(110, 300, 5);
  made.Launch(130, 310, 40);
  const TopTable table = Top(made.maker.Finish(), TopBy::kOperator);

  const TopRow linear = Row(table, "aten::linear"), addmm = Row(table, "aten::addmm");
  CHECK(Names(table) == std::vector<std::string>{"aten::addmm", "aten::linear"});
  CHECK((linear.self_cpu_ns == 50 && linear.cpu_total_ns == 100 && linear.calls == 1));
  CHECK((addmm.self_cpu_ns == 50 && addmm.cpu_total_ns == 50));
  CHECK((linear.self_gpu_ns == 5 && linear.gpu_total_ns == 45 && linear.gpu_records == 1));
  CHECK((addmm.self_gpu_ns == 40 && addmm.gpu_total_ns == 40));
  CHECK((table.cpu_ns == 100 && table.gpu_ns == 45));
}

TEST_CASE("a watcher's wait for an interpreter's lock is no row", "[top]") {
  Made made;
  const uint32_t waited = made.maker.Site(SiteKind::kScope, "waited for the interpreter's lock");
  made.maker.trace.sites[waited].file = made.maker.String("pitot/interpreter.h");
  made.maker.trace.sites[waited].function = made.maker.String(GENERATE("RecordLockHeld", "RecordThreadsStopped"));
  made.maker.Event(made.thread, waited, 100, 300);
  made.maker.Event(made.thread, made.forward, 500, 100);
  const Trace trace = made.maker.Finish();

  for (const TopBy by : {TopBy::kLayer, TopBy::kScope})
    CHECK(Names(Top(trace, by)) == std::vector<std::string>{"forward"});
}

TEST_CASE("an operator that calls itself has each moment and kernel once in its total", "[top]") {
  Made made;
  made.maker.Event(made.thread, made.linear, 100, 100);
  made.maker.Event(made.thread, made.addmm, 110, 80);
  made.maker.Event(made.thread, made.linear, 120, 50);
  made.Launch(130, 300, 10);
  const TopTable table = Top(made.maker.Finish(), TopBy::kOperator);

  const TopRow linear = Row(table, "aten::linear");
  CHECK(linear.calls == 2);
  CHECK(linear.cpu_total_ns == 100);
  CHECK(linear.self_cpu_ns == 70);
  CHECK((linear.self_gpu_ns == 10 && linear.gpu_total_ns == 10));
  CHECK(Row(table, "aten::addmm").gpu_total_ns == 10);
}

TEST_CASE("rows equal the result of looking at every moment", "[top]") {
  for (const TopBy by : {TopBy::kOperator, TopBy::kScope}) {
    for (uint32_t seed = 0; seed < 60; ++seed) {
      Trace trace = RandomOperators(seed);
      std::fill(trace.gpu.scope_path.begin(), trace.gpu.scope_path.end(), 0);
      std::map<std::string, int64_t> self, total, self_gpu, total_gpu;
      const auto name = [&](uint32_t event) {
        return trace.EventName(event).empty() ? "(unnamed)" : std::string(trace.EventName(event));
      };
      for (uint32_t thread = 0; thread < trace.threads.size(); ++thread) {
        for (int64_t at_ns = trace.window_begin_ns; at_ns < trace.window_end_ns; ++at_ns) {
          const std::vector<uint32_t> open = OpenAt(trace, by, thread, at_ns);
          if (open.empty()) continue;
          ++self[name(open.back())];
          std::set<std::string> names;
          for (const uint32_t event : open) names.insert(name(event));
          for (const std::string& one : names) ++total[one];
        }
      }
      for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
        const uint32_t call = trace.gpu.call[row];
        if (call == kNone || trace.calls.thread[call] == kNone) continue;
        const std::vector<uint32_t> open = OpenAt(trace, by, trace.calls.thread[call], trace.calls.begin_ns[call]);
        if (open.empty()) continue;
        self_gpu[name(open.back())] += InWindow(trace, row);
        std::set<std::string> names;
        for (const uint32_t event : open) names.insert(name(event));
        for (const std::string& one : names) total_gpu[one] += InWindow(trace, row);
      }
      const TopTable table = Top(trace, by);
      for (const TopRow& row : table.rows) {
        INFO("seed " << seed << " row " << row.name);
        REQUIRE(row.self_cpu_ns == self[row.name]);
        REQUIRE(row.cpu_total_ns == total[row.name]);
        REQUIRE(row.cut_calls <= row.calls);
        if (row.name[0] == '(') continue;
        REQUIRE(row.self_gpu_ns == self_gpu[row.name]);
        REQUIRE(row.gpu_total_ns == total_gpu[row.name]);
      }
    }
  }
}

TEST_CASE("rows add up to all work of threads and GPUs in the window, however they are grouped", "[top]") {
  for (uint32_t seed = 0; seed < 120; ++seed) {
    const Trace trace = RandomOperators(seed);
    int64_t gpu_ns = 0, op_ns = 0, scope_ns = 0;
    for (uint32_t row = 0; row < trace.gpu.size(); ++row) gpu_ns += InWindow(trace, row);
    for (uint32_t thread = 0; thread < trace.threads.size(); ++thread) {
      std::vector<model::Interval> operators;
      const int64_t begin_ns =
          std::clamp(trace.threads[thread].history_begin_ns, trace.window_begin_ns, trace.window_end_ns);
      for (const model::Segment& s : model::FlattenThread(trace, thread, begin_ns, trace.window_end_ns))
        scope_ns += s.end_ns - s.begin_ns;
      const model::ThreadRow& row = trace.threads[thread];
      for (uint32_t event = row.first_event; event < row.first_event + row.event_count; ++event) {
        if (trace.sites[trace.events.site[event]].kind == SiteKind::kOperator)
          operators.push_back(
              {std::max(begin_ns, trace.events.begin_ns[event]), std::min(trace.window_end_ns, trace.EventEnd(event))});
      }
      op_ns += model::TotalNs(model::Union(operators));
    }
    int64_t call_ns = 0;
    std::map<uint32_t, std::vector<model::Interval>> calls;  // of threads; calls of no thread each on their own
    for (uint32_t call = 0; call < trace.calls.size(); ++call) {
      const uint32_t thread = trace.calls.thread[call];
      calls[thread != kNone ? thread : kNone - call].push_back(
          {std::max(trace.window_begin_ns, trace.calls.begin_ns[call]),
           std::min(trace.window_end_ns, trace.CallEnd(call))});
    }
    for (const auto& [thread, intervals] : calls) call_ns += model::TotalNs(model::Union(intervals));
    for (const TopBy by :
         {TopBy::kOperator, TopBy::kKernel, TopBy::kLayer, TopBy::kScope, TopBy::kCall, TopBy::kRequest}) {
      INFO("seed " << seed << " by " << static_cast<int>(by));
      const TopTable table = Top(trace, by);
      int64_t cpu_sum = 0, gpu_sum = 0, busy_sum = 0, exposed_sum = 0;
      for (const TopRow& row : table.rows) {
        cpu_sum += row.self_cpu_ns, gpu_sum += row.self_gpu_ns;
        busy_sum += row.gpu_busy_ns, exposed_sum += row.gpu_exposed_ns;
        REQUIRE(row.gpu_exposed_ns <= row.gpu_busy_ns + 1);  // the ns left by rounding
        REQUIRE(row.cpu_total_ns >= row.self_cpu_ns);
        REQUIRE(row.gpu_total_ns >= row.self_gpu_ns);
      }
      REQUIRE((cpu_sum == table.cpu_ns && gpu_sum == table.gpu_ns));
      REQUIRE((busy_sum == table.gpu_busy_ns && exposed_sum == table.gpu_exposed_ns));
      if (by == TopBy::kOperator) REQUIRE(table.cpu_ns == op_ns);
      if (by == TopBy::kScope) REQUIRE(table.cpu_ns == scope_ns);
      if (by == TopBy::kRequest) REQUIRE(table.cpu_ns == scope_ns);
      if (by == TopBy::kKernel) REQUIRE(table.cpu_ns == 0);
      if (by == TopBy::kCall) REQUIRE(table.cpu_ns == call_ns);
      if (by != TopBy::kRequest) {
        REQUIRE(table.gpu_ns == gpu_ns);
        REQUIRE(table.gpu_busy_ns == BusyNs(trace));
      }
    }
  }
}

TEST_CASE("GPU time not hidden by a thread's work is exposed", "[top]") {
  Made made;
  made.maker.Event(made.thread, made.linear, 100, 50);
  made.Launch(110, 120, 100);                 // until 220, alone from 150 on
  made.Launch(140, 200, 40, "other", "", 1);  // next to it for 20
  SECTION("while it does something else") {
    const TopTable table = Top(made.maker.Finish(), TopBy::kKernel);
    CHECK(Row(table, "k").gpu_busy_ns == 90);
    CHECK(Row(table, "k").gpu_exposed_ns == 60);
    CHECK(Row(table, "other").gpu_busy_ns == 30);
    CHECK(Row(table, "other").gpu_exposed_ns == 30);
    CHECK((table.gpu_ns == 140 && table.gpu_busy_ns == 120 && table.gpu_exposed_ns == 90));
  }
  SECTION("a thread that waits for the GPU hides nothing") {
    made.maker.Event(made.thread, made.forward, 160, 200);
    made.maker.Call(made.thread, "cudaStreamSynchronize", 170, 70, {}, 0);
    const TopTable table = Top(made.maker.Finish(), TopBy::kKernel);
    CHECK(table.gpu_exposed_ns == 90 - 10);
  }
  SECTION("nor does one that waits for another thread") {
    made.maker.Event(made.thread, made.maker.Site(SiteKind::kWait, "wait"), 160, 200);
    CHECK(Top(made.maker.Finish(), TopBy::kKernel).gpu_exposed_ns == 90);
  }
  SECTION("nor work for another request") {
    const uint32_t request = made.maker.Request(1, "/a", 0, 1000), other = made.maker.Request(2, "/a", 0, 1000);
    made.maker.Event(made.thread, made.forward, 160, 40, {other});
    std::fill(made.maker.trace.calls.request.begin(), made.maker.trace.calls.request.end(), request);
    CHECK(Top(made.maker.Finish(), TopBy::kKernel).gpu_exposed_ns == 120 - 1);  // except for its call
  }
}

TEST_CASE("work launched by no operator is divided by the known facts about it", "[top]") {
  Made made;
  made.maker.trace.window_begin_ns = 50;
  made.maker.trace.depths = {{0, 500, Depth::kOps}, {500, 1000, Depth::kKernels}};
  made.maker.Event(made.thread, made.linear, 100, 50);
  made.maker.Call(made.thread, "cudaLaunchKernel", 40, 1);  // before the window
  made.Launch(60, 70, 1);
  made.Launch(110, 120, 2, "triton_poi_fused_relu_0");
  made.Launch(200, 210, 4, "triton_poi_fused_relu_0");
  made.Launch(305, 310, 8);
  made.Launch(600, 610, 16);
  made.maker.Gpu(1, GpuKind::kKernel, "k", 650, 32, 0);
  made.maker.Gpu(1, GpuKind::kKernel, "k", 700, 64, kNone);
  made.maker.trace.losses.push_back({made.thread, model::LossReason::kCopying, 300, 310, 5, 0});
  const Trace trace = made.maker.Finish();
  REQUIRE(model::FindInconsistency(trace) == "");
  const TopTable table = Top(trace, TopBy::kOperator);

  CHECK(Row(table, "(no operator)").self_gpu_ns == 1);
  CHECK(Row(table, "aten::linear").self_gpu_ns == 2);
  CHECK(Row(table, "(compiled: fused_relu)").self_gpu_ns == 4);
  CHECK(Row(table, "(operators not recorded)").self_gpu_ns == 8 + 16 + 32);  // lost, not so deep, before the window
  CHECK(Row(table, "(launch unknown)").self_gpu_ns == 64);
  CHECK(table.gpu_ns == 127);
  CHECK((table.losses == 1 && table.lost_events == 5));
  CHECK(table.coverage.is_known);
  const TopTable by_scope = Top(trace, TopBy::kScope);
  CHECK(Row(by_scope, "(no scope)").self_gpu_ns == 1 + 4 + 16);
  CHECK(Row(by_scope, "(scopes not recorded)").self_gpu_ns == 8 + 32);
}

TEST_CASE("unrecorded operators have a row for their threads' work, and a share of the window", "[top]") {
  Made made;
  made.maker.trace.operator_depths = {{0, 400, Depth::kScopes}, {400, 1000, Depth::kOps}};
  made.maker.trace.depths = {{0, 1000, Depth::kKernels}};  // says nothing about operators
  const uint32_t http = made.maker.Thread("http"), wait = made.maker.Site(SiteKind::kWait, "queue");
  const uint32_t early = made.maker.Request(1, "/a", 0, 300), late = made.maker.Request(2, "/a", 0, 1000);
  const uint32_t first = made.maker.Batch(3, "model", made.thread, 0, 300),
                 second = made.maker.Batch(4, "model", made.thread, 380, 500);
  made.maker.Member(first, early, 0);
  made.maker.Member(first, late, 0);
  made.maker.Member(second, late, 380);
  made.maker.Event(http, made.layer, 50, 300, {early, kNone});
  made.maker.Event(made.thread, made.forward, 100, 200, {kNone, first});
  made.maker.Event(made.thread, wait, 150, 30, {kNone, first});
  made.maker.Event(made.thread, made.forward, 380, 120, {kNone, second});
  made.maker.Event(made.thread, made.linear, 390, 60, {kNone, second});
  const Trace trace = made.maker.Finish();
  REQUIRE(model::FindInconsistency(trace) == "");
  const TopTable table = Top(trace, TopBy::kOperator);

  const TopRow row = Row(table, "(operators not recorded)");
  CHECK(row.self_cpu_ns == 200 - 30 + 10);
  CHECK((row.cpu_total_ns == row.self_cpu_ns && row.calls == 0 && row.CpuAverageNs() == TopRow::kUnset));
  CHECK(table.cpu_ns == 180 + 60);
  CHECK((table.operators.is_known && table.operators.covered_ns == 600 && table.operators.ran_ns == 1000));
  CHECK((table.operators.recorded_batches == 1 && table.operators.batches == 2));
  const TopTable of_early = Top(trace, {TopBy::kOperator, TopSort::kDefault, false, 1});
  CHECK((of_early.operators.covered_ns == 0 && of_early.operators.ran_ns == 300));
  CHECK(Row(of_early, "(operators not recorded)").self_cpu_ns == 170);
  const TopTable of_late = Top(trace, {TopBy::kOperator, TopSort::kDefault, false, 2});
  CHECK((of_late.operators.covered_ns == 480 && of_late.operators.ran_ns == 300 + 500));
  CHECK(of_late.operators.batches == 2);
  CHECK(Row(Top(trace, TopBy::kScope), "(operators not recorded)").self_cpu_ns == 0);
  CHECK_FALSE(Top(Made().maker.Finish(), TopBy::kOperator).operators.is_known);
}

TEST_CASE("overwritten time does not count as time with recorded operators", "[top]") {
  Made made;
  made.maker.trace.operator_depths = {{0, 1000, Depth::kOps}};
  const uint32_t http = made.maker.Thread("http");
  const uint32_t request = made.maker.Request(1, "/a", 0, 1000);
  const uint32_t first = made.maker.Batch(3, "model", made.thread, 0, 300),
                 second = made.maker.Batch(4, "model", made.thread, 380, 500);
  made.maker.Member(first, request, 0);
  made.maker.Member(second, request, 380);
  made.maker.Event(made.thread, made.linear, 390, 60, {kNone, second});
  made.maker.Event(http, made.forward, 500, 100, {request, kNone});
  Trace trace = made.maker.Finish();
  trace.losses = {{made.thread, model::LossReason::kOverwritten, 0, 350, 7, 0},
                  {made.thread, model::LossReason::kDepth, 900, 950, 0, 0},
                  {http, model::LossReason::kOverwritten, 0, 480, 7, 0}};  // it runs no operators
  const TopTable table = Top(trace, TopBy::kOperator);

  CHECK((table.operators.covered_ns == 650 && table.operators.ran_ns == 1000));
  CHECK((table.operators.recorded_batches == 1 && table.operators.batches == 2));
  const TopTable of_request = Top(trace, {TopBy::kOperator, TopSort::kDefault, false, 1});
  CHECK((of_request.operators.covered_ns == 500 && of_request.operators.ran_ns == 800));
}

TEST_CASE("waits for different things are different rows among scopes", "[top]") {
  Made made;
  const uint32_t wait = made.maker.WaitSite();
  const auto add = [&](int64_t begin_ns, int64_t ns, const char* resource) {
    made.maker.Event(made.thread, wait, begin_ns, ns, {}, {1, made.maker.String(resource), 0, 0});
  };
  add(100, 10, "cache");
  add(200, 20, "queue");
  add(300, 5, "cache");
  const TopTable table = Top(made.maker.Finish(), TopBy::kScope);

  CHECK((Row(table, "wait: cache").self_wait_ns == 15 && Row(table, "wait: cache").calls == 2));
  CHECK(Row(table, "wait: queue").self_wait_ns == 20);
}

TEST_CASE("a node captured in scopes and no operator does not belong to the launching operator", "[top]") {
  Made made;
  made.maker.Event(made.thread, made.forward, 50, 1);
  made.maker.Event(made.thread, made.linear, 100, 50);
  made.Launch(110, 200, 7, "k", "forward / layer1");
  made.Launch(120, 300, 5, "k");
  const TopTable table = Top(made.maker.Finish(), TopBy::kOperator);

  CHECK(Row(table, "aten::linear").self_gpu_ns == 5);
  CHECK(Row(table, "aten::linear").gpu_total_ns == 12);
}

TEST_CASE("a layer is the path of the host's scopes, without operators", "[top]") {
  Made made;
  made.maker.Event(made.thread, made.forward, 100, 300);
  made.maker.Event(made.thread, made.layer, 120, 100);
  made.maker.Event(made.thread, made.linear, 130, 80);
  made.maker.Event(made.thread, made.addmm, 300, 20);
  made.Launch(140, 500, 10);
  made.Launch(310, 520, 20);
  const TopTable table = Top(made.maker.Finish(), TopBy::kLayer);

  CHECK(Names(table) == std::vector<std::string>{"forward", "forward / layer1"});
  CHECK((Row(table, "forward").self_cpu_ns == 200 && Row(table, "forward").cpu_total_ns == 300));
  CHECK((Row(table, "forward").self_gpu_ns == 20 && Row(table, "forward").gpu_total_ns == 30));
  CHECK((Row(table, "forward / layer1").self_cpu_ns == 100 && Row(table, "forward / layer1").self_gpu_ns == 10));
}

TEST_CASE("self time has its waiting part apart: for a GPU, and in waits of the host", "[top]") {
  Made made;
  const uint32_t lock = made.maker.Site(SiteKind::kWait, "lock");
  made.maker.Event(made.thread, made.forward, 100, 500);
  made.maker.Event(made.thread, made.linear, 110, 200);
  made.maker.Event(made.thread, made.addmm, 120, 80);
  made.maker.Event(made.thread, lock, 205, 50);
  made.maker.Event(made.thread, made.layer, 240, 10);
  made.maker.Call(made.thread, "cudaMemcpyAsync", 115, 20);
  made.maker.Call(made.thread, "cudaStreamSynchronize", 150, 70);
  made.maker.Call(made.thread, "cudaDeviceSynchronize", 300, 1000);
  const Trace trace = made.maker.Finish();

  const TopTable by_op = Top(trace, TopBy::kOperator);
  CHECK((Row(by_op, "aten::addmm").self_cpu_ns == 80 && Row(by_op, "aten::addmm").self_wait_ns == 50));
  // The rest of the call, and of the lock without the scope in it; then the other call, to the operator's end.
  CHECK(Row(by_op, "aten::linear").self_wait_ns == 55 - 10 + 10);
  CHECK(by_op.wait_ns == 50 + 55);
  const TopTable by_scope = Top(trace, TopBy::kScope);
  CHECK((Row(by_scope, "lock").self_cpu_ns == 40 && Row(by_scope, "lock").self_wait_ns == 40));
  CHECK(Row(by_scope, "layer1").self_wait_ns == 0);
  CHECK(Row(by_scope, "aten::linear").self_wait_ns == 5 + 10);
  CHECK(Row(by_scope, "forward").self_wait_ns == 290);
  TopOptions options{TopBy::kScope, TopSort::kSelfWait, false, 0};
  CHECK(Names(Top(trace, options))[0] == "forward");

  // An asynchronous copy of pageable memory waits, too.
  made.maker.Gpu(0, GpuKind::kMemcpy, "pageable to device", 118, 10, 0);
  CHECK(Row(Top(made.maker.Finish(), TopBy::kOperator), "aten::addmm").self_wait_ns == 50 + 15);
}

TEST_CASE("work of a CUDA graph belongs to the place of its capture", "[top]") {
  Made made;
  const uint32_t replay = made.maker.Site(SiteKind::kScope, "replay");
  made.maker.Event(made.thread, replay, 100, 50);
  made.maker.Event(made.thread, made.forward, 300, 1);
  made.Launch(110, 200, 7, "k", "forward / layer1 / aten::linear / aten::addmm");
  const Trace trace = made.maker.Finish();

  const TopTable by_layer = Top(trace, TopBy::kLayer);
  CHECK(Row(by_layer, "forward / layer1").self_gpu_ns == 7);
  CHECK((Row(by_layer, "forward").self_gpu_ns == 0 && Row(by_layer, "forward").gpu_total_ns == 7));
  CHECK(Row(by_layer, "replay").gpu_total_ns == 0);
  const TopTable by_op = Top(trace, TopBy::kOperator);
  CHECK(Row(by_op, "aten::addmm").self_gpu_ns == 7);
  CHECK((Row(by_op, "aten::linear").gpu_total_ns == 7 && Row(by_op, "aten::linear").calls == 0));
  const TopTable by_scope = Top(trace, TopBy::kScope);
  CHECK(Row(by_scope, "aten::addmm").self_gpu_ns == 7);
  CHECK(Row(by_scope, "layer1").gpu_total_ns == 7);
  CHECK((Row(by_scope, "replay").gpu_total_ns == 7 && Row(by_scope, "replay").gpu_p50_ns == 7));
}

TEST_CASE("averages are over all calls, percentiles over whole ones", "[top]") {
  Made made;
  made.maker.trace.window_begin_ns = 50;
  made.maker.Event(made.thread, made.linear, 0, 60);  // began before the window
  for (int64_t i = 1; i <= 100; ++i) made.maker.Event(made.thread, made.addmm, 100 + 5 * i, i % 4 + 1);
  made.maker.Event(made.thread, made.linear, 900, kOpen);
  const TopTable table = Top(made.maker.Finish(), TopBy::kOperator);

  const TopRow linear = Row(table, "aten::linear"), addmm = Row(table, "aten::addmm");
  CHECK((linear.calls == 2 && linear.cut_calls == 2));
  CHECK(linear.cpu_total_ns == 10 + 100);
  CHECK((linear.cpu_p50_ns == TopRow::kUnset && linear.cpu_p99_ns == TopRow::kUnset));
  CHECK((addmm.calls == 100 && addmm.cut_calls == 0));
  CHECK((addmm.cpu_p50_ns == 3 && addmm.cpu_p99_ns == 4));  // half are 1 or 2, half 3 or 4: 2.5, rounded
}

TEST_CASE("work of a CUDA graph with unknown nodes is in a row of its own", "[top]") {
  Made made;
  made.maker.Event(made.thread, made.forward, 100, 50);
  made.Launch(110, 200, 1);   // in a scope
  made.Launch(300, 310, 2);   // outside of all
  made.Launch(301, 320, 4);   // a copy
  made.Launch(302, 330, 8);   // the whole graph
  made.Launch(303, 340, 16);  // no graph
  made.Launch(304, 360, 32, "k", "aten::mm");
  model::GpuColumns& gpu = made.maker.trace.gpu;
  gpu.graph = {9, 9, 9, 9, 0, 9};
  gpu.kind[2] = GpuKind::kMemcpy, gpu.kind[3] = GpuKind::kGraph;
  const Trace trace = made.maker.Finish();

  const TopTable by_op = Top(trace, TopBy::kOperator);
  CHECK(Row(by_op, "(CUDA graph: operators unknown)").self_gpu_ns == 1 + 2 + 4 + 8);
  CHECK(Row(by_op, "(no operator)").self_gpu_ns == 16);
  CHECK(Row(by_op, "aten::mm").self_gpu_ns == 32);
  for (const TopBy by : {TopBy::kScope, TopBy::kLayer}) {
    const TopTable table = Top(trace, by);
    CHECK(Row(table, "forward").self_gpu_ns == 1);
    CHECK(Row(table, "(CUDA graph: scopes unknown)").self_gpu_ns == 2 + 4 + 8);
  }
}

TEST_CASE("work of a CUDA graph is known by its launch where graphs have no ids", "[top]") {
  Made made;
  made.Launch(300, 310, 2);
  made.Launch(301, 320, 4);
  Trace& trace = made.maker.trace;
  trace.calls.name[0] = trace.strings.Add("hipGraphLaunch");
  const TopTable by_op = Top(made.maker.Finish(), TopBy::kOperator);

  CHECK(Row(by_op, "(CUDA graph: operators unknown)").self_gpu_ns == 2);
  CHECK(Row(by_op, "(no operator)").self_gpu_ns == 4);
}

TEST_CASE("self time without calls is that of key_averages", "[top]") {
  Made made;
  const uint32_t python = made.maker.Site(SiteKind::kScope, "a.py(1): f");
  made.maker.trace.sites[python].file = made.maker.trace.strings.Add("a.py");
  made.maker.Event(made.thread, made.forward, 100, 500);
  made.maker.Event(made.thread, made.linear, 110, 200);
  made.maker.Event(made.thread, made.layer, 120, 60);  // a scope of the host within an operator
  made.maker.Event(made.thread, python, 190, 100);     // no child of the operator
  made.maker.Event(made.thread, made.addmm, 200, 50);
  made.maker.Call(made.thread, "cudaLaunchKernel", 112, 3);
  made.maker.Call(made.thread, "cudaLaunchKernel", 125, 5);
  made.maker.Call(made.thread, "cudaLaunchKernel", 210, 20);
  made.maker.Call(made.thread, "cuLaunchKernel", 215, 10);
  made.maker.Call(made.thread, "cudaDeviceSynchronize", 300, 1000);
  const Trace trace = made.maker.Finish();

  TopOptions options{TopBy::kOperator};
  CHECK(Row(Top(trace, options), "aten::addmm").self_no_calls_ns == 0);  // not asked for
  options.finds_no_calls = true;
  const TopTable by_op = Top(trace, options);
  CHECK(Row(by_op, "aten::addmm").self_no_calls_ns == 50 - 20);
  CHECK(Row(by_op, "aten::linear").self_no_calls_ns == 200 - 60 - 50 - 3 - 10);
  options.by = TopBy::kScope;
  const TopTable by_scope = Top(trace, options);
  CHECK(Row(by_scope, "aten::linear").self_no_calls_ns == 200 - 60 - 50 - 3 - 10);
  CHECK(Row(by_scope, "layer1").self_no_calls_ns == 60 - 5);
  CHECK(Row(by_scope, "a.py(1): f").self_no_calls_ns == 0);
  CHECK(Row(by_scope, "forward").self_no_calls_ns == 500 - 200);  // calls in no operator are no children
}

TEST_CASE("kernels generated by Inductor are named by their fused operators", "[top]") {
  const std::pair<const char*, const char*> rows[] = {
      {"triton_poi_fused_add_relu_3", "(compiled: fused_add_relu)"},
      {"triton_poi_fused_add_relu_12", "(compiled: fused_add_relu)"},
      {"triton_red_fused_native_layer_norm_0", "(compiled: fused_native_layer_norm)"},
      {"triton_fused_mean_7", "(compiled: fused_mean)"},
      {"model_triton_tem_fused_mm_1", "(compiled: fused_mm)"},
      {"triton_per__4", "(compiled: no operator)"},
      {"triton_for_fused_0", "(compiled: no operator)"},
      {"triton_", "(compiled: no operator)"},
      {"triton_attention_forward", "(no operator)"},  // written by hand
      {"triton_red_black", "(no operator)"},
      {"mytriton_poi_fused_add_3", "(no operator)"},
      {"sm90_xmma_gemm_f16f16", "(no operator)"}};
  for (const auto& [kernel, row] : rows) {
    INFO(kernel);
    Made made;
    made.Launch(110, 200, 7, kernel);
    CHECK(Names(Top(made.maker.Finish(), TopBy::kOperator)) == std::vector<std::string>{row});
  }
}

TEST_CASE("averages are by call, rounded, and unknown without a call", "[top]") {
  TopRow row;
  row.cpu_total_ns = 20;
  CHECK((row.CpuAverageNs() == TopRow::kUnset && row.GpuAverageNs() == TopRow::kUnset));
  row.calls = 3;
  row.gpu_total_ns = 19;
  CHECK((row.CpuAverageNs() == 7 && row.GpuAverageNs() == 6));
}

TEST_CASE("kernels are counted by demangled name, and by grid and block if asked", "[top]") {
  Made made;
  made.maker.trace.shapes.push_back({{64, 1, 1}, {256, 1, 1}, 0, 0, 0, 32});
  made.maker.trace.shapes.push_back({{64, 2, 1}, {8, 8, 4}, 0, 0, 0, 32});
  made.Launch(10, 20, 5, "_Z4gemmPf");
  made.Launch(11, 40, 7, "_Z4gemmPf");
  made.maker.Gpu(0, GpuKind::kMemcpy, "HtoD, pageable to device", 60, 3, kNone);
  made.maker.Gpu(0, GpuKind::kSpan, "forward", 70, 300, kNone);
  made.maker.trace.gpu.shape[0] = 0, made.maker.trace.gpu.shape[1] = 1;
  const Trace trace = made.maker.Finish();

  const TopTable table = Top(trace, TopBy::kKernel);
  CHECK(Names(table) == std::vector<std::string>{"gemm(float*)", "memcpy HtoD, pageable to device"});
  CHECK(Row(table, "gemm(float*)").brief_name == "gemm");
  CHECK((Row(table, "gemm(float*)").calls == 2 && Row(table, "gemm(float*)").self_gpu_ns == 12));
  CHECK((Row(table, "gemm(float*)").gpu_p50_ns == 6 && Row(table, "gemm(float*)").gpu_p99_ns == 7));
  CHECK(table.gpu_ns == 15);
  CHECK(table.spans == 1);
  const TopTable by_shape = Top(trace, {TopBy::kKernel, TopSort::kDefault, true, 0});
  CHECK(Row(by_shape, "gemm(float*)", "grid 64, block 256").self_gpu_ns == 5);
  CHECK(Row(by_shape, "gemm(float*)", "grid 64x2, block 8x8x4").self_gpu_ns == 7);
}

TEST_CASE("operators are divided by the shapes of their inputs if asked", "[top]") {
  Made made;
  const uint32_t shaped =
      made.maker.Site(SiteKind::kOperator, "operator", {{"", ArgType::kName}, {"shapes", ArgType::kString}});
  made.maker.trace.sites[shaped].name_is_first_arg = true;
  const auto mm = made.maker.String("aten::mm");
  made.maker.Event(made.thread, shaped, 100, 10, {}, {mm, made.maker.String("3x5 f32, 5x7 f32")});
  made.maker.Event(made.thread, shaped, 200, 20, {}, {mm, made.maker.String("1x5 f32, 5x7 f32")});
  made.maker.Event(made.thread, shaped, 300, 40, {}, {mm, made.maker.String("3x5 f32, 5x7 f32")});
  const Trace trace = made.maker.Finish();

  CHECK(Row(Top(trace, TopBy::kOperator), "aten::mm").cpu_total_ns == 70);
  const TopTable table = Top(trace, {TopBy::kOperator, TopSort::kDefault, true, 0});
  CHECK(Row(table, "aten::mm", "3x5 f32, 5x7 f32").calls == 2);
  CHECK(Row(table, "aten::mm", "1x5 f32, 5x7 f32").cpu_total_ns == 20);
  TopTable refused;
  CHECK(FindTop(trace, {TopBy::kLayer, TopSort::kDefault, true, 0}, &refused).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("an operator's floating point operations are those of its calls that began in the window", "[top]") {
  Made made;
  made.maker.trace.window_begin_ns = 50;
  const uint32_t costly = made.maker.Site(SiteKind::kOperator, "aten::mm", {{"flops", ArgType::kUint}});
  made.maker.Event(made.thread, costly, 40, 20, {}, {1'000});
  made.maker.Event(made.thread, costly, 100, 10, {}, {200});
  made.maker.Event(made.thread, costly, 200, 10, {}, {30});
  made.maker.Event(made.thread, made.linear, 300, 10);
  const Trace trace = made.maker.Finish();

  const TopTable table = Top(trace, {TopBy::kOperator, TopSort::kFlops, false, 0});
  CHECK(Row(table, "aten::mm").flops == 230);
  CHECK(Row(table, "aten::linear").flops == 0);
  CHECK(Names(table) == std::vector<std::string>{"aten::mm", "aten::linear"});
}

TEST_CASE("requests share the time of their batches, and a chosen one has only its own", "[top]") {
  Made made;
  const uint32_t first = made.maker.Request(0x11, "/a", 0, 900), second = made.maker.Request(0x22, "/b", 0, 900);
  const uint32_t batch = made.maker.Batch(9, "e", made.thread, 100, 300);
  made.maker.Member(batch, first, 100);
  made.maker.Member(batch, second, 100);
  const uint32_t alone = made.maker.Batch(10, "e", made.thread, 500, 100);
  made.maker.Member(alone, second, 500);
  made.maker.Event(made.thread, made.forward, 10, 20, {first});
  made.maker.Event(made.thread, made.linear, 100, 51, {kNone, batch});
  made.maker.Event(made.thread, made.addmm, 500, 30, {kNone, alone});
  made.maker.Event(made.thread, made.layer, 700, 5);
  made.Launch(110, 200, 101, "k", "", 0, {kNone, batch});
  made.Launch(510, 520, 40, "k", "", 0, {kNone, alone});
  made.Launch(702, 710, 3);
  const Trace trace = made.maker.Finish();

  const TopTable table = Top(trace, TopBy::kRequest);
  const TopRow a = Row(table, "0000000000000011 /a"), b = Row(table, "0000000000000022 /b"),
               none = Row(table, "(no request)");
  CHECK((a.request == first && b.request == second && none.request == kNone));
  CHECK((a.self_gpu_ns == 51 && b.self_gpu_ns == 50 + 40 && none.self_gpu_ns == 3));
  CHECK((a.self_cpu_ns == 20 + 26 && b.self_cpu_ns == 25 + 30 && none.self_cpu_ns == 5));
  CHECK(a.gpu_exposed_ns + b.gpu_exposed_ns == 101 + 40 - 10);
  CHECK(table.gpu_ns == model::GpuTime(trace).Batch(batch) + 40 + 3);

  const TopTable of_first = Top(trace, {TopBy::kScope, TopSort::kName, false, 0x11});
  CHECK(Names(of_first) == std::vector<std::string>{"aten::linear", "forward"});
  CHECK((of_first.gpu_ns == 101 && of_first.cpu_ns == 71));
  CHECK(of_first.other_members == 1);
  CHECK(Top(trace, {TopBy::kRequest, TopSort::kName, false, 0x22}).rows.size() == 1);
  TopTable nothing;
  CHECK(FindTop(trace, {TopBy::kScope, TopSort::kName, false, 0x33}, &nothing).code() == StatusCode::kNotFound);
}

TEST_CASE("the GPU time of a request is known if all of its time was recorded, or some of its work was", "[top]") {
  Made made;
  const uint32_t before = made.maker.Request(0x11, "/a", 0, 100), both = made.maker.Request(0x33, "/c", 150, 100),
                 some = made.maker.Request(0x44, "/d", 160, 100), after = made.maker.Request(0x22, "/b", 500, 100);
  made.Launch(230, 240, 5, "k", "", 0, {some, kNone});
  Trace trace = made.maker.Finish();
  trace.depths = {{trace.window_begin_ns, trace.window_begin_ns + 200, Depth::kScopes},
                  {trace.window_begin_ns + 200, trace.window_end_ns, Depth::kKernels}};

  const TopTable table = Top(trace, TopBy::kRequest);

  for (const TopRow& row : table.rows) {
    CAPTURE(row.name);
    CHECK(row.is_gpu_known == (row.request == after || row.request == some));
    CHECK((row.is_gpu_known || row.request == before || row.request == both));
  }
}

TEST_CASE("calls are counted with their longest time and their GPU work", "[top]") {
  Made made;
  made.maker.Call(made.thread, "cudaMalloc", 100, 10);
  made.maker.Call(made.thread, "cudaMalloc", 200, 30);
  made.Launch(300, 310, 50);  // 1 ns of cudaLaunchKernel
  made.maker.Call(made.thread, "cudaStreamSynchronize", 310, 50);
  made.maker.Call(made.thread, "cudaMalloc", 990, kOpen);
  made.maker.Gpu(0, GpuKind::kKernel, "k", 400, 20, kNone);

  const TopTable table = Top(made.maker.Finish(), TopBy::kCall);

  CHECK(table.rows.size() == 4);
  const TopRow allocate = Row(table, "cudaMalloc"), launch = Row(table, "cudaLaunchKernel");
  CHECK((allocate.calls == 3 && allocate.cut_calls == 1));
  CHECK((allocate.self_cpu_ns == 50 && allocate.cpu_total_ns == 50 && allocate.CpuAverageNs() == 17));
  CHECK((allocate.cpu_max_ns == 30 && allocate.cpu_p50_ns == 20));
  CHECK((launch.calls == 1 && launch.gpu_records == 1 && launch.self_gpu_ns == 50 && launch.gpu_total_ns == 50));
  CHECK(Row(table, "cudaStreamSynchronize").self_wait_ns == 50);
  CHECK((Row(table, "(launch unknown)").self_gpu_ns == 20 && Row(table, "(launch unknown)").calls == 0));
  CHECK((table.cpu_ns == 101 && table.wait_ns == 50 && table.gpu_ns == 70));
}

TEST_CASE("a driver's call within one of the runtime's has its time, and both have it in total", "[top]") {
  Made made;
  made.maker.Call(made.thread, "cudaLaunchKernel", 100, 50);
  made.maker.Call(made.thread, "cuLaunchKernel", 110, 30);

  const TopTable table = Top(made.maker.Finish(), TopBy::kCall);

  const TopRow outer = Row(table, "cudaLaunchKernel"), inner = Row(table, "cuLaunchKernel");
  CHECK((outer.self_cpu_ns == 20 && outer.cpu_total_ns == 50));
  CHECK((inner.self_cpu_ns == 30 && inner.cpu_total_ns == 30));
  CHECK(table.cpu_ns == 50);
}

TEST_CASE("a call open over the whole window is the longest, and other threads' calls do not hide it", "[top]") {
  Made made;
  made.maker.Call(made.thread, "cudaFree", -50, kOpen);
  made.maker.Call(kNone, "cudaFree", 100, 300);
  made.maker.Call(kNone, "cudaFree", 200, 300);  // of another unknown thread

  const TopRow row = Row(Top(made.maker.Finish(), TopBy::kCall), "cudaFree");

  CHECK((row.calls == 3 && row.cut_calls == 1));
  CHECK((row.self_cpu_ns == 1600 && row.cpu_total_ns == 1600 && row.cpu_max_ns == 1000));
}

TEST_CASE("rows can be in the order of any column", "[top]") {
  Made made;
  made.maker.Event(made.thread, made.linear, 100, 50);
  made.maker.Event(made.thread, made.addmm, 200, 20);
  made.maker.Event(made.thread, made.addmm, 300, 10);
  made.Launch(210, 220, 30);
  const Trace trace = made.maker.Finish();
  const auto first = [&](TopSort sort) { return Top(trace, {TopBy::kOperator, sort, false, 0}).rows[0].name; };

  for (const TopSort sort : {TopSort::kDefault, TopSort::kSelfGpu, TopSort::kGpuTotal, TopSort::kGpuAverage,
                             TopSort::kGpuBusy, TopSort::kGpuExposed, TopSort::kCalls, TopSort::kName})
    CHECK(first(sort) == "aten::addmm");
  for (const TopSort sort : {TopSort::kSelfCpu, TopSort::kCpuTotal, TopSort::kCpuAverage, TopSort::kP50, TopSort::kP99})
    CHECK(first(sort) == "aten::linear");
}

TEST_CASE("an order is sure if requests agree on it, and not if as many have it the other way round", "[top]") {
  const auto table_of = [](int requests, TopOptions options) {
    Made made;
    made.maker.trace.window_end_ns = 1'000'000;
    const auto at = [](int i) { return 1000 * int64_t{i}; };
    for (int i = 0; i < requests; ++i) made.maker.Request(1 + static_cast<uint64_t>(i), "r", at(i), 900);
    for (int i = 0; i < requests; ++i) {
      const Context context = {static_cast<uint32_t>(i), kNone};
      made.maker.Event(made.thread, made.linear, at(i), 500 + i % 3, context);
      made.maker.Event(made.thread, made.addmm, at(i), 100, context);
      made.Launch(at(i), at(i) + 100, 200 + i % 7, "dear", "", 0, context);
      made.Launch(at(i) + 1, at(i) + 400, i % 2 == 0 ? 90 : 100, "even", "", 0, context);
      made.Launch(at(i) + 2, at(i) + 500, i % 2 == 0 ? 100 : 90, "odd", "", 0, context);
      made.Launch(at(i) + 3, at(i) + 600, 10, "cheap", "", 0, context);
    }
    return Top(made.maker.Finish(), options);
  };

  const TopTable kernels = table_of(300, {TopBy::kKernel, TopSort::kDefault, false, 0});
  CHECK(kernels.resampled == 300);
  CHECK(kernels.rows[0].above_next == 1);
  CHECK((kernels.rows[1].above_next > 0.2 && kernels.rows[1].above_next < 0.8));
  CHECK(kernels.rows[2].above_next == 1);
  CHECK(kernels.rows[3].above_next < 0);  // there is no next
  const TopTable operators = table_of(300, {TopBy::kOperator, TopSort::kSelfCpu, false, 0});
  CHECK(operators.rows[0].above_next == 1);

  const auto is_known = [&](int requests, TopOptions options) { return table_of(requests, options).resampled != 0; };
  CHECK(is_known(10, {TopBy::kKernel, TopSort::kDefault, false, 0}));
  CHECK_FALSE(is_known(9, {TopBy::kKernel, TopSort::kDefault, false, 0}));
  CHECK_FALSE(is_known(300, {TopBy::kKernel, TopSort::kCalls, false, 0}));
  CHECK_FALSE(is_known(300, {TopBy::kKernel, TopSort::kDefault, false, 7}));
  CHECK_FALSE(is_known(300, {TopBy::kRequest, TopSort::kDefault, false, 0}));
}

TEST_CASE("the steps of PyTorch's profiler say how sure an order is if there are no requests", "[top]") {
  Made made;
  made.maker.trace.window_end_ns = 1'000'000;
  const uint32_t step = made.maker.Site(SiteKind::kScope, "ProfilerStep#1");
  for (int64_t i = 0; i < 20; ++i) {
    made.maker.Event(made.thread, step, 1000 * i, 900);
    made.Launch(1000 * i + 10, 1000 * i + 20, 200, "dear");
    made.Launch(1000 * i + 11, 1000 * i + 300, i == 3 ? 800 : 150, "once");  // less than the other, except in one step
  }
  made.Launch(21'000, 21'100, 1000, "dear");  // in no step

  const TopTable table = Top(made.maker.Finish(), TopBy::kKernel);

  CHECK(table.resampled == 20);
  CHECK(Names(table) == std::vector<std::string>{"dear", "once"});
  CHECK((table.rows[0].above_next > 0.9 && table.rows[0].above_next < 1));
}

TEST_CASE("an empty trace has an empty table", "[top]") {
  for (const TopBy by : {TopBy::kOperator, TopBy::kKernel, TopBy::kLayer, TopBy::kScope, TopBy::kRequest}) {
    const TopTable table = Top(Trace(), by);
    CHECK(table.rows.empty());
    CHECK_FALSE(table.coverage.is_known);
  }
}

// pitot_analyze_benchmarks measures how long these two take.
TEST_CASE("a trace of very many threads is counted", "[top]") {
  Made made;
  for (uint32_t i = 0; i < 50'000; ++i) {
    const uint32_t thread = made.maker.Thread("worker");
    made.maker.Event(thread, made.linear, 100, 50);
    made.maker.Call(thread, "cudaLaunchKernel", 110, 1);
  }
  const TopTable table = Top(made.maker.Finish(), TopBy::kOperator);

  CHECK(Row(table, "aten::linear").calls == 50'000);
}

TEST_CASE("a trace of two million events is counted", "[top]") {
  Trace trace = LargeTrace(1200000);
  for (model::SiteRow& site : trace.sites) site.kind = SiteKind::kOperator;
  trace.devices.push_back({});
  trace.streams.push_back({0, 1, 7, 0, 0, 400000});
  for (uint32_t i = 0; i < 400000; ++i) {  // a launch in every third event
    const uint32_t event = 3 * i;
    trace.calls.begin_ns.push_back(trace.events.begin_ns[event] + 1);
    trace.calls.duration_ns.push_back(100);
    trace.calls.thread.push_back(trace.events.thread[event]);
    trace.calls.request.push_back(trace.events.request[event]);
    trace.calls.batch.push_back(kNone);
    trace.calls.name.push_back(0);
    trace.calls.stream.push_back(kNone);
    trace.calls.device.push_back(kNone);
    trace.gpu.begin_ns.push_back(trace.window_begin_ns + 1000 * i);
    trace.gpu.duration_ns.push_back(1500);
    trace.gpu.kind.push_back(GpuKind::kKernel);
    trace.gpu.stream.push_back(0);
    trace.gpu.name.push_back(0);
    trace.gpu.call.push_back(i);
    trace.gpu.shape.push_back(kNone);
    trace.gpu.bytes.push_back(0);
    trace.gpu.graph.push_back(0);
    trace.gpu.node.push_back(0);
    trace.gpu.scope_path.push_back(0);
  }
  REQUIRE(model::FindInconsistency(trace) == "");
  const TopTable table = Top(trace, TopBy::kOperator);

  CHECK(table.rows.size() == 50);
  uint64_t calls = 0;
  for (const auto& row : table.rows) calls += row.calls;
  CHECK(calls == trace.events.size());
}

TEST_CASE("a table of operators takes at most 8 bytes at once for each operator", "[top]") {
  TraceMaker maker;
  constexpr uint32_t kOperators = 50000;
  maker.trace.window_end_ns = 10 * kOperators;
  const uint32_t thread = maker.Thread("t"), site = maker.Site(SiteKind::kOperator, "aten::add");
  for (uint32_t i = 0; i < kOperators; ++i) maker.Event(thread, site, 10 * i, i % 5 == 0 ? 0 : 5);
  const Trace trace = maker.Finish();

  fakes::g_largest_bytes = 0;
  const TopTable table = Top(trace, TopBy::kOperator);

  CHECK(fakes::g_largest_bytes <= size_t{8} * kOperators);
  REQUIRE(table.rows.size() == 1);
  CHECK(table.rows[0].calls == kOperators);
  CHECK(table.rows[0].cpu_p50_ns == 5);
  CHECK(table.rows[0].gpu_p50_ns == 0);
}

TEST_CASE("quantiles of durations below and above 4 seconds are those of all", "[top]") {
  Made made;
  constexpr int64_t kSecond = 1'000'000'000;
  made.maker.trace.window_end_ns = 100 * kSecond;
  for (const int64_t duration_ns : {0 * kSecond, 1 * kSecond, 4 * kSecond, 5 * kSecond})
    made.maker.Event(made.thread, made.linear, 10 * duration_ns, duration_ns);
  const TopRow row = Row(Top(made.maker.Finish(), TopBy::kOperator), "aten::linear");
  CHECK(row.cpu_p50_ns == kSecond * 5 / 2);
  CHECK(row.cpu_p99_ns == 4 * kSecond + kSecond * 97 / 100);
}

}  // namespace pitot::test
