// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "pitot/model/index.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

using model::GpuKind;
using model::Interval;
using model::Intervals;
using model::kNone;
using model::kOpen;
using model::Trace;

namespace {

std::set<int64_t> Moments(const std::vector<Interval>& intervals) {
  std::set<int64_t> moments;
  for (const Interval& interval : intervals) {
    for (int64_t ns = interval.begin_ns; ns < interval.end_ns; ++ns) moments.insert(ns);
  }
  return moments;
}
bool IsSet(const Intervals& set) {
  for (size_t i = 0; i < set.size(); ++i) {
    if (set[i].begin_ns >= set[i].end_ns || (i > 0 && set[i - 1].end_ns >= set[i].begin_ns)) return false;
  }
  return true;
}

// Times of a set of rows of `gpu`: without spans if most kernels were recorded. All rows otherwise, or if all are
// spans.
std::vector<Interval> TimesOf(const Trace& trace, const std::vector<uint32_t>& rows, bool is_mostly_recorded) {
  const auto is_span = [&](uint32_t row) { return trace.gpu.kind[row] == GpuKind::kSpan; };
  is_mostly_recorded = is_mostly_recorded && !std::all_of(rows.begin(), rows.end(), is_span);
  std::vector<Interval> times;
  for (const uint32_t row : rows) {
    if (!is_mostly_recorded || !is_span(row))
      times.push_back({trace.gpu.begin_ns[row], trace.gpu.begin_ns[row] + trace.gpu.duration_ns[row]});
  }
  return times;
}

std::map<uint32_t, int64_t> SharesOf(const model::GpuTime& time, uint32_t batch) {
  std::map<uint32_t, int64_t> shares;
  for (const model::GpuTime::Share& share : time.Shares(batch)) shares[share.request] = share.ns;
  return shares;
}

// Two requests in one batch on one stream; calls are added by the tests.
struct OneBatch {
  OneBatch() {
    maker.trace.window_end_ns = 1000;
    thread = maker.Thread("executor");
    maker.trace.devices.push_back({});
    maker.trace.streams.push_back({0, 1, 7, 0, 0, 0});
    first = maker.Request(1, "/a", 0, 1000);
    second = maker.Request(2, "/a", 0, 1000);
    batch = maker.Batch(9, "e", thread, 100, 200);
  }
  void Gpu(int64_t begin_ns, int64_t duration_ns, Context context, GpuKind kind = GpuKind::kKernel) {
    maker.Call(thread, "cudaLaunchKernel", begin_ns, 1, context);
    maker.Gpu(0, kind, "k", begin_ns, duration_ns, maker.trace.calls.size() - 1);
  }
  TraceMaker maker;
  uint32_t thread, first, second, batch;
};

}  // namespace

TEST_CASE("sets of intervals are united, cut and subtracted moment by moment", "[index]") {
  std::mt19937 random(5);
  const auto draw = [&] {
    std::vector<Interval> intervals(random() % 8);
    for (Interval& interval : intervals) {
      interval.begin_ns = static_cast<int64_t>(random() % 40);
      interval.end_ns = interval.begin_ns + static_cast<int64_t>(random() % 10) - 1;
    }
    return intervals;
  };
  for (int round = 0; round < 2000; ++round) {
    const std::vector<Interval> some = draw(), others = draw();
    const Intervals a = model::Union(some), b = model::Union(others);
    REQUIRE(IsSet(a));
    REQUIRE(Moments(a) == Moments(some));
    std::vector<Interval> added;
    for (const Interval& interval : some) model::AddTo(&added, interval);
    REQUIRE(model::Union(added) == a);
    REQUIRE(model::TotalNs(a) == static_cast<int64_t>(Moments(some).size()));
    std::set<int64_t> both, rest;
    for (const int64_t ns : Moments(a)) (Moments(b).count(ns) != 0 ? both : rest).insert(ns);
    REQUIRE(IsSet(model::Intersection(a, b)));
    REQUIRE(Moments(model::Intersection(a, b)) == both);
    REQUIRE(IsSet(model::Difference(a, b)));
    REQUIRE(Moments(model::Difference(a, b)) == rest);
  }
}

TEST_CASE("intervals that touch the one before take no memory of their own", "[index]") {
  std::vector<Interval> added;
  model::AddTo(&added, {0, 10});
  model::AddTo(&added, {2, 5});
  model::AddTo(&added, {10, 12});
  model::AddTo(&added, {20, 30});
  model::AddTo(&added, {19, 21});
  CHECK(added == std::vector<Interval>{{0, 12}, {20, 30}, {19, 21}});
}

TEST_CASE("the GPU time of a batch with only spans is their union, and its members' shares are marked", "[index]") {
  OneBatch made;
  made.maker.Member(made.batch, made.first, 100, 0);
  made.maker.Member(made.batch, made.second, 100, 0);
  made.Gpu(100, 60, {kNone, made.batch}, GpuKind::kSpan);
  made.Gpu(150, 50, {kNone, made.batch}, GpuKind::kSpan);
  const model::GpuTime time(made.maker.Finish());

  CHECK(time.Batch(made.batch) == 100);
  CHECK(time.IsByEvents(made.batch));
  CHECK(SharesOf(time, made.batch) == std::map<uint32_t, int64_t>{{made.first, 50}, {made.second, 50}});
  CHECK(time.RequestByEvents(made.first) == 50);
}

TEST_CASE("spans add nothing to the GPU time of a batch or request with recorded kernels", "[index]") {
  OneBatch made;
  made.maker.trace.depths.push_back({0, 1000, Depth::kKernels});
  made.maker.Member(made.batch, made.first, 100, 0);
  made.Gpu(100, 90, {kNone, made.batch}, GpuKind::kSpan);
  made.Gpu(110, 20, {kNone, made.batch});
  made.Gpu(300, 90, {made.second, kNone}, GpuKind::kSpan);
  made.Gpu(310, 30, {made.second, kNone}, GpuKind::kMemcpy);
  const Trace trace = made.maker.Finish();
  const model::GpuTime time(trace);

  CHECK(time.Batch(made.batch) == 20);
  CHECK_FALSE(time.IsByEvents(made.batch));
  CHECK(time.Request(made.first) == 20);
  CHECK(time.Request(made.second) == 30);
  CHECK(time.RequestByEvents(made.first) == 0);
  CHECK(time.RequestByEvents(made.second) == 0);
  CHECK(model::DeviceBusy(trace, 0) == Intervals{{110, 130}, {310, 340}});
}

TEST_CASE("the GPU time of a batch with less than four fifths recorded includes its spans", "[index]") {
  OneBatch made;  // the batch is from 100 to 300
  made.maker.Member(made.batch, made.first, 100, 0);
  made.Gpu(100, 150, {kNone, made.batch}, GpuKind::kSpan);
  made.Gpu(240, 30, {kNone, made.batch});
  const auto time = [&] { return model::GpuTime(made.maker.Finish()); };

  SECTION("recording began in its middle") {
    made.maker.trace.depths = {{0, 141, Depth::kScopes}, {141, 1000, Depth::kKernels}};
    CHECK(time().Batch(made.batch) == 170);
    CHECK(time().IsByEvents(made.batch));
    CHECK(time().RequestByEvents(made.first) == 170);
  }
  SECTION("recording began early enough") {
    made.maker.trace.depths = {{0, 140, Depth::kScopes}, {140, 1000, Depth::kKernels}};
    CHECK(time().Batch(made.batch) == 30);
    CHECK_FALSE(time().IsByEvents(made.batch));
    CHECK(time().RequestByEvents(made.first) == 0);
  }
  SECTION("a graph recorded as a whole hides no time") {
    made.maker.trace.depths = {{0, 1000, Depth::kGraphs}};
    made.Gpu(120, 60, {kNone, made.batch}, GpuKind::kGraph);
    CHECK(time().Batch(made.batch) == 60 + 30);
  }
  SECTION("at graphs' depth there are long unattributed kernels") {
    made.maker.trace.depths = {{0, 1000, Depth::kGraphs}};
    made.maker.Gpu(0, GpuKind::kKernel, "eager", 280, 10, kNone);
    CHECK(time().Batch(made.batch) == 170);
    CHECK(time().IsByEvents(made.batch));
  }
  SECTION("unattributed kernels are short next to its own") {
    made.maker.trace.depths = {{0, 1000, Depth::kGraphs}};
    made.maker.Gpu(0, GpuKind::kKernel, "eager", 280, 7, kNone);
    CHECK(time().Batch(made.batch) == 30);
  }
  SECTION("an unattributed graph ran for more than a fifth of its time") {
    made.maker.trace.depths = {{0, 1000, Depth::kGraphs}};
    made.maker.Gpu(0, GpuKind::kGraph, "graph", 100, 41, kNone);
    CHECK(time().Batch(made.batch) == 170);
  }
  SECTION("losses count as not recorded") {
    made.maker.trace.depths = {{0, 1000, Depth::kKernels}};
    made.maker.trace.gpu_losses = {{kNone, 0, 100, 141, 0}};
    CHECK(time().Batch(made.batch) == 170);
  }
  SECTION("its kernels are unattributed") {
    made.maker.trace.depths = {{0, 1000, Depth::kKernels}};
    made.maker.trace.gpu.call[1] = kNone;
    CHECK(time().Batch(made.batch) == 150);
    CHECK(time().IsByEvents(made.batch));
  }
  SECTION("in a damaged dump the recorded share is unknown") {
    made.maker.trace.depths = {{0, 1000, Depth::kKernels}};
    made.maker.trace.losses = {{kNone, model::LossReason::kDamaged, 0, 1000, 0, 0}};
    CHECK(time().Batch(made.batch) == 170);
  }
  SECTION("without spans it has its recorded time") {
    std::fill(made.maker.trace.gpu.kind.begin(), made.maker.trace.gpu.kind.end(), GpuKind::kKernel);
    CHECK(time().Batch(made.batch) == 170);
    CHECK_FALSE(time().IsByEvents(made.batch));
  }
}

TEST_CASE("a request outside of batches has the time of its spans", "[index]") {
  OneBatch made;
  made.Gpu(300, 90, {made.second, kNone}, GpuKind::kSpan);
  const Trace trace = made.maker.Finish();
  const model::GpuTime time(trace);

  CHECK(time.Request(made.second) == 90);
  CHECK(time.RequestByEvents(made.second) == 90);
  CHECK(model::DeviceBusy(trace, 0).empty());
  CHECK(model::FindLaunchLag(trace, 0).rows == 0);
}

TEST_CASE("spans are not kernels: they cover nothing", "[index]") {
  OneBatch made;
  made.maker.Member(made.batch, made.first, 100, 0);
  made.maker.trace.depths.push_back({0, 1000, Depth::kScopes});
  made.Gpu(100, 200, {kNone, made.batch}, GpuKind::kSpan);
  const Trace trace = made.maker.Finish();
  const model::KernelCoverage coverage = model::CoverageIndex(trace).Of(model::RequestIndex(trace), made.first);

  CHECK(coverage.is_known);
  CHECK(coverage.covered_ns == 0);
  CHECK(coverage.ran_ns == 200);
}

TEST_CASE("the launch index gives each GPU row to the call that caused it", "[index]") {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    const Trace trace = RandomTrace(seed, 20 * seed);
    const model::LaunchIndex index(trace);
    size_t linked = 0;
    for (uint32_t call = 0; call < trace.calls.size(); ++call) {
      REQUIRE(std::is_sorted(index.Gpu(call).begin(), index.Gpu(call).end()));
      for (const uint32_t row : index.Gpu(call)) REQUIRE(trace.gpu.call[row] == call);
      linked += index.Gpu(call).size();
    }
    REQUIRE(linked ==
            trace.gpu.size() - static_cast<size_t>(std::count(trace.gpu.call.begin(), trace.gpu.call.end(), kNone)));
  }
}

TEST_CASE("a call waits for GPUs if it synchronises, or if it is a copy that is not asynchronous", "[index]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 1000;
  const uint32_t thread = maker.Thread("t");
  const std::pair<const char*, bool> names[] = {
      {"cudaStreamSynchronize", true}, {"cuCtxSynchronize", true},  {"cudaMemcpy", true},
      {"cuMemcpyHtoD_v2", true},       {"cudaMemcpyAsync", false},  {"cuMemsetD8Async", false},
      {"cudaMemset", false},           {"cudaLaunchKernel", false}, {"cuMemcpyDtoHAsync_v2", false},
      {"cudaMalloc", false},           {"CudaEventScope", false},   {"", false}};
  for (const auto& [name, is_wait] : names) maker.Call(thread, name, 10, 1, {});
  maker.Call(thread, "CudaEventScope", 10, 1, {}, 0);  // a call with a stream it waited for
  const model::WaitingCalls waiting(maker.trace);
  uint32_t call = 0;
  for (const auto& [name, is_wait] : names) {
    INFO(name);
    CHECK(waiting.Has(call++) == is_wait);
  }
  CHECK(waiting.Has(call));
}

TEST_CASE("an asynchronous copy waits if its memory is pageable, but not in a graph", "[index]") {
  TraceMaker maker;
  const uint32_t thread = maker.Thread("t");
  maker.trace.streams.push_back({});
  const struct {
    const char *call, *row;
    GpuKind kind;
    uint32_t graph;
    bool is_wait;
  } cases[] = {{"cudaMemcpyAsync", "pageable to device", GpuKind::kMemcpy, 0, true},
               {"cudaMemcpyAsync", "DtoH, device to pageable", GpuKind::kMemcpy, 0, true},
               {"cudaMemcpyAsync", "pinned to device", GpuKind::kMemcpy, 0, false},
               {"cudaLaunchKernel", "pageable", GpuKind::kKernel, 0, false},
               {"cudaGraphLaunch", "pageable to device", GpuKind::kMemcpy, 7, false}};
  int64_t now_ns = 100;
  for (const auto& of : cases) {
    maker.Call(thread, of.call, now_ns, 10, {});
    maker.Gpu(0, of.kind, of.row, now_ns + 5, 3, maker.trace.calls.size() - 1, kNone, 64, of.graph);
    now_ns += 20;
  }
  const model::WaitingCalls waiting(maker.trace);
  for (uint32_t call = 0; call < std::size(cases); ++call) {
    INFO(cases[call].call << " of " << cases[call].row);
    CHECK(waiting.Has(call) == cases[call].is_wait);
  }
}

TEST_CASE("a stream is busy during its work, a device during the work of any of its streams", "[index]") {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    const Trace trace = RandomTrace(seed, 5 * seed);
    std::map<uint32_t, std::set<int64_t>> devices;
    for (uint32_t stream = 0; stream < trace.streams.size(); ++stream) {
      std::vector<Interval> rows;
      const uint32_t first = trace.streams[stream].first_event;
      for (uint32_t row = first; row < first + trace.streams[stream].event_count; ++row) {
        if (trace.gpu.kind[row] != GpuKind::kSpan)
          rows.push_back({trace.gpu.begin_ns[row], trace.gpu.begin_ns[row] + trace.gpu.duration_ns[row]});
      }
      const Intervals busy = model::StreamBusy(trace, stream);
      REQUIRE(IsSet(busy));
      REQUIRE(Moments(busy) == Moments(rows));
      devices[trace.streams[stream].device].merge(Moments(rows));
    }
    for (const auto& [device, moments] : devices) REQUIRE(Moments(model::DeviceBusy(trace, device)) == moments);
  }
}

TEST_CASE("the smallest lag between calls and their GPU work bounds the error of the GPU's clock", "[index]") {
  OneBatch made;
  made.maker.Call(made.thread, "cudaLaunchKernel", 100, 5);
  made.maker.Gpu(0, GpuKind::kKernel, "k", 90, 10, 0);
  made.maker.Gpu(0, GpuKind::kKernel, "k", 130, 10, 0);
  made.maker.Gpu(0, GpuKind::kKernel, "k", 140, 10, kNone);
  const Trace trace = made.maker.Finish();

  const model::LaunchLag all = model::FindLaunchLag(trace, 0), late = model::FindLaunchLag(trace, 0, 100, 200);

  CHECK(all.rows == 2);
  CHECK(all.early == 1);
  CHECK(all.smallest_ns == -10);
  CHECK(late.rows == 1);
  CHECK(late.early == 0);
  CHECK(late.smallest_ns == 30);
  CHECK(model::FindLaunchLag(trace, kNone).rows == 0);
}

TEST_CASE("work that began late waited for nothing if its device was idle", "[index]") {
  OneBatch made;
  made.maker.Call(made.thread, "cudaLaunchKernel", 100, 5);
  made.maker.Call(made.thread, "cudaLaunchKernel", 110, 5);
  made.maker.Call(made.thread, "cudaLaunchKernel", 900, 5);
  made.maker.Gpu(0, GpuKind::kKernel, "k", 300, 200, 0);  // the device was idle before
  made.maker.Gpu(0, GpuKind::kKernel, "k", 510, 400, 1);  // it was at work for 200 of 400 ns, and idle for 10 before
  made.maker.Gpu(0, GpuKind::kKernel, "k", 1000, 10, 2);  // idle for 90 of 100 ns, and that is not late
  const Trace trace = made.maker.Finish();

  CHECK(model::FindLaunchLag(trace, 0).waited_for_nothing == 0);
  CHECK(model::FindLaunchLag(trace, 0, INT64_MIN, INT64_MAX, 101).waited_for_nothing == 2);
  CHECK(model::FindLaunchLag(trace, 0, INT64_MIN, INT64_MAX, 100).waited_for_nothing == 3);
  CHECK(model::FindLaunchLag(trace, 0, INT64_MIN, INT64_MAX, 401).waited_for_nothing == 0);
}

TEST_CASE("a batch's GPU time is divided between the members at the time", "[index]") {
  OneBatch made;
  made.maker.Member(made.batch, made.first, 100, 150);  // leaves
  made.maker.Member(made.batch, made.second, 120);      // stays
  made.Gpu(110, 60, {kNone, made.batch});               // alone to 120, both to 150, then the second
  made.Gpu(160, 40, {kNone, made.batch});               // overlaps the last by 10
  const Trace trace = made.maker.Finish();
  REQUIRE(FindInconsistency(trace) == "");

  const model::GpuTime time(trace);

  CHECK(time.Batch(made.batch) == 90);
  CHECK(time.Request(made.first) == 10 + 15);
  CHECK(time.Request(made.second) == 15 + 50);
}

TEST_CASE("GPU work after a batch's end belongs to the members who stayed, work before any joined to all", "[index]") {
  OneBatch made;
  made.maker.Member(made.batch, made.first, 150, 160);
  made.maker.Member(made.batch, made.second, 155);
  made.Gpu(100, 20, {kNone, made.batch});  // before any member joined
  made.Gpu(900, 50, {kNone, made.batch});  // the batch ended at 300
  const Trace trace = made.maker.Finish();

  const model::GpuTime time(trace);

  CHECK(time.Request(made.first) == 10);
  CHECK(time.Request(made.second) == 10 + 50);
}

TEST_CASE("GPU work of a request's own calls is its own, and work of unknown calls is unattributed", "[index]") {
  OneBatch made;
  made.maker.Member(made.batch, made.second, 100);
  made.Gpu(10, 7, {made.first});
  made.Gpu(12, 8, {made.first});
  made.Gpu(100, 30, {made.first, made.batch});  // in a batch: the batch's
  made.Gpu(200, 5, {});
  made.maker.Gpu(0, GpuKind::kKernel, "k", 300, 9, kNone);
  const Trace trace = made.maker.Finish();

  const model::GpuTime time(trace);

  CHECK(time.Request(made.first) == 10);
  CHECK(time.Request(made.second) == 30);
}

TEST_CASE("indivisible ns go to the largest fractions, then to the lower id", "[index]") {
  OneBatch made;
  const uint32_t third = made.maker.Request(0, "/a", 0, 1000);  // the lowest id
  made.maker.Member(made.batch, made.first, 100);
  made.maker.Member(made.batch, made.second, 100);
  made.maker.Member(made.batch, third, 100);
  made.Gpu(110, 11, {kNone, made.batch});  // 3 2/3 each
  const Trace trace = made.maker.Finish();

  const model::GpuTime time(trace);

  CHECK(time.Request(third) == 4);
  CHECK(time.Request(made.first) == 4);
  CHECK(time.Request(made.second) == 3);
}

TEST_CASE("shares of GPU time add up to each batch's exactly and are never off by a whole ns", "[index]") {
  size_t shared = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Trace trace = RandomTrace(seed, 10 * seed);
    const model::GpuTime time(trace);
    const model::CoverageIndex coverage(trace);
    std::vector<int64_t> sums(trace.requests.size());
    for (uint32_t batch = 0; batch < trace.batches.size(); ++batch) {
      std::vector<uint32_t> caused;
      for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
        if (trace.gpu.call[row] != kNone && trace.calls.batch[trace.gpu.call[row]] == batch) caused.push_back(row);
      }
      const std::vector<Interval> rows = TimesOf(trace, caused, coverage.IsMostlyRecorded(batch));
      // Exact except for rounding, moment by moment.
      std::map<uint32_t, double> exact;
      const model::BatchRow& of = trace.batches[batch];
      const auto members_begin = trace.members.begin() + of.first_member;
      std::set<uint32_t> all;
      std::for_each(members_begin, members_begin + of.member_count,
                    [&](const model::MemberRow& member) { all.insert(member.request); });
      for (const int64_t ns : Moments(rows)) {
        std::set<uint32_t> present;
        std::for_each(members_begin, members_begin + of.member_count, [&](const model::MemberRow& member) {
          if (member.join_ns <= ns && (member.leave_ns == 0 || ns < member.leave_ns)) present.insert(member.request);
        });
        if (present.empty()) present = all;
        for (const uint32_t request : present) exact[request] += 1.0 / static_cast<double>(present.size());
      }
      int64_t sum = 0;
      REQUIRE(time.Batch(batch) == static_cast<int64_t>(Moments(rows).size()));
      REQUIRE(time.Shares(batch).size() == all.size());
      for (const auto& [request, ns] : SharesOf(time, batch)) {
        REQUIRE(ns >= 0);
        REQUIRE(static_cast<double>(ns) == Approx(exact[request]).margin(1.0001));
        sum += ns;
        sums[request] += ns;
        shared += ns > 0;
      }
      if (!all.empty()) REQUIRE(sum == time.Batch(batch));
    }
    for (uint32_t request = 0; request < sums.size(); ++request) {
      std::vector<uint32_t> own;
      for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
        const uint32_t call = trace.gpu.call[row];
        if (call != kNone && trace.calls.batch[call] == kNone && trace.calls.request[call] == request)
          own.push_back(row);
      }
      REQUIRE(time.Request(request) ==
              sums[request] +
                  static_cast<int64_t>(Moments(TimesOf(trace, own, coverage.IsOwnMostlyRecorded(request))).size()));
    }
  }
  CHECK(shared > 100);
}

TEST_CASE("shares of GPU time do not depend on the order of members, requests or streams", "[index]") {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    // The same facts in two orders: requests, members that join together, and streams' work.
    const uint32_t members = 1 + static_cast<uint32_t>(random() % 7);
    std::vector<int64_t> leaves(members), joins(members);
    for (uint32_t i = 0; i < members; ++i) {
      joins[i] = 100 + static_cast<int64_t>(random() % 3);
      leaves[i] = random() % 2 == 0 ? 0 : 110 + static_cast<int64_t>(random() % 30);
    }
    std::vector<Interval> work(1 + random() % 6);
    for (Interval& interval : work) {
      interval.begin_ns = 90 + static_cast<int64_t>(random() % 60);
      interval.end_ns = interval.begin_ns + static_cast<int64_t>(random() % 40);
    }
    std::vector<uint32_t> order(members);
    for (uint32_t i = 0; i < members; ++i) order[i] = i;
    std::map<uint64_t, int64_t> shares[2];
    for (auto& of : shares) {
      TraceMaker maker;
      maker.trace.window_end_ns = 1000;
      const uint32_t thread = maker.Thread("t");
      std::map<uint32_t, uint32_t> rows;
      for (const uint32_t i : order) rows[i] = maker.Request(100 + i, "/a", 0, 1000);
      const uint32_t batch = maker.Batch(1, "e", thread, 100, 100);
      std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return joins[a] < joins[b]; });
      for (const uint32_t i : order) maker.Member(batch, rows[i], joins[i], leaves[i]);
      maker.Call(thread, "cudaLaunchKernel", 90, 1, {kNone, batch});
      for (uint32_t i = 0; i < work.size(); ++i) {
        maker.trace.streams.push_back({kNone, 1, i, 0, 0, 0});
        maker.Gpu(i, GpuKind::kKernel, "k", work[i].begin_ns, work[i].end_ns - work[i].begin_ns, 0);
      }
      const Trace trace = maker.Finish();
      REQUIRE(FindInconsistency(trace) == "");
      const model::GpuTime time(trace);
      for (const auto& [i, row] : rows) of[100 + i] = time.Request(row);
      std::shuffle(order.begin(), order.end(), random);
      std::shuffle(work.begin(), work.end(), random);
    }
    REQUIRE(shares[0] == shares[1]);
  }
}

TEST_CASE("a batch of many members and kernels is divided quickly", "[index]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 1000000000;
  const uint32_t thread = maker.Thread("t");
  constexpr uint32_t kMembers = 3000, kKernels = 20000;
  for (uint32_t i = 0; i < kMembers; ++i) maker.Request(i + 1, "/a", 0, 1000000);
  maker.Batch(1, "e", thread, 0, 1000000);
  for (uint32_t i = 0; i < kMembers; ++i) maker.Member(0, i, i, i % 3 == 0 ? 0 : 900000);
  maker.Call(thread, "cudaLaunchKernel", 0, 1, {kNone, 0});
  maker.trace.streams.push_back({});
  for (uint32_t i = 0; i < kKernels; ++i) maker.Gpu(0, GpuKind::kKernel, "k", 5000 + i * 100, 50, 0);
  const model::GpuTime time(maker.Finish());

  int64_t sum = 0;
  for (uint32_t i = 0; i < kMembers; ++i) sum += time.Request(i);
  CHECK(sum == int64_t{kKernels} * 50);
  CHECK(time.Request(0) > time.Request(1));
}

TEST_CASE("coverage is the share of the executor's time with recorded kernels", "[index]") {
  OneBatch made;  // the batch is from 100 to 300
  made.maker.Member(made.batch, made.first, 100);
  made.maker.trace.depths = {{0, 150, Depth::kScopes}, {150, 250, Depth::kGraphs}, {250, 400, Depth::kOps}};
  const auto coverage = [&](uint32_t request) {
    const Trace trace = made.maker.Finish();
    REQUIRE(FindInconsistency(trace) == "");
    return model::CoverageIndex(trace).Of(model::RequestIndex(trace), request);
  };

  SECTION("time at graphs' depth counts as covered while no graph ran") {
    CHECK(coverage(made.first).is_known);
    CHECK(coverage(made.first).ran_ns == 200);
    CHECK(coverage(made.first).covered_ns == 150);
  }
  SECTION("a graph recorded as a whole hides its kernels") {
    made.Gpu(200, 80, {kNone, made.batch}, GpuKind::kGraph);  // from 250 on each kernel was recorded, too
    CHECK(coverage(made.first).covered_ns == 100);
  }
  SECTION("another batch's graph does not hide this batch's kernels") {
    const uint32_t other = made.maker.Batch(10, "e", made.thread, 100, 200);
    made.Gpu(200, 80, {kNone, other}, GpuKind::kGraph);
    CHECK(coverage(made.first).covered_ns == 150);
  }
  SECTION("at graphs' depth a kernel outside graphs is unattributed: its time is not covered, and nothing is whole") {
    made.maker.Gpu(0, GpuKind::kKernel, "eager", 200, 20, kNone);
    made.maker.Gpu(0, GpuKind::kKernel, "eager", 245, 10, kNone);
    CHECK(coverage(made.first).covered_ns == 120);
    made.maker.trace.depths = {{0, 1000, Depth::kGraphs}};
    CHECK(coverage(made.first).covered_ns == 170);
    CHECK(!coverage(made.first).IsWhole());
    CHECK(!coverage(made.second).IsWhole());
  }
  SECTION("recording that began late does not cover earlier unattributed kernels") {
    made.maker.trace.depths = {{0, 200, Depth::kGraphs}, {200, 1000, Depth::kKernels}};
    made.maker.Gpu(0, GpuKind::kKernel, "eager", 110, 90, kNone);
    made.Gpu(210, 80, {kNone, made.batch});
    CHECK(coverage(made.first).covered_ns == 110);
  }
  SECTION("a graph with an unknown call may belong to any batch") {
    made.maker.Gpu(0, GpuKind::kGraph, "graph", 200, 20, kNone);
    CHECK(coverage(made.first).covered_ns == 130);
  }
  SECTION("at kernels' depth, work without a call may belong to any request, except one with all its calls recorded") {
    made.maker.trace.depths = {{0, 1000, Depth::kKernels}};
    made.maker.Gpu(0, GpuKind::kKernel, "unattributed", 150, 100, kNone);
    CHECK(coverage(made.first).covered_ns == 100);
    CHECK(!coverage(made.first).IsWhole());
    CHECK(coverage(made.second).covered_ns == 900);
    made.Gpu(260, 20, {kNone, made.batch});
    CHECK(coverage(made.first).covered_ns == 200);
    made.maker.trace.depths = {{0, 250, Depth::kKernels}, {260, 1000, Depth::kKernels}};  // a profiler in between
    CHECK(coverage(made.first).covered_ns == 200 - 100 - 10);
  }
  SECTION("losses count as not recorded, of any stream") {
    made.maker.trace.gpu_losses = {{0, 0, 160, 170, 3}, {kNone, 0, 165, 260, 0}};
    CHECK(coverage(made.first).covered_ns == 150 - 100);
  }
  SECTION("losses on a device the batch did not use do not count against it") {
    made.maker.trace.depths = {{0, 1000, Depth::kKernels}};
    made.maker.trace.devices.resize(2);
    made.maker.trace.gpu_losses = {{kNone, 0, 160, 200, 3, 1}};
    CHECK(coverage(made.first).covered_ns == 160);  // its device is unknown
    made.Gpu(110, 20, {kNone, made.batch});
    made.Gpu(120, 20, {kNone, made.batch});
    CHECK(coverage(made.first).covered_ns == 200);
    SECTION("but losses on its own device or on an unknown one do") {
      made.maker.trace.gpu_losses.push_back({kNone, 0, 120, 130, 3, 0});
      made.maker.trace.gpu_losses.push_back({kNone, 0, 140, 150, 3});
      CHECK(coverage(made.first).covered_ns == 180);
    }
    SECTION("unless a call launched work without a record") {
      made.maker.Call(made.thread, "cudaLaunchKernel", 150, 1, {kNone, made.batch});
      CHECK(coverage(made.first).covered_ns == 160);
    }
    SECTION("unless its graph ran there, too") {
      made.maker.trace.streams.push_back({1, 2, 9, 0, 0, 0});
      made.maker.Call(made.thread, "cudaGraphLaunch", 150, 1, {kNone, made.batch});
      made.maker.Gpu(0, GpuKind::kKernel, "node", 150, 5, made.maker.trace.calls.size() - 1, kNone, 0, 3, 1);
      CHECK(coverage(made.first).covered_ns == 200);
      made.maker.Gpu(1, GpuKind::kKernel, "node", 950, 5, kNone, kNone, 0, 3, 2);  // of another launch
      CHECK(coverage(made.first).covered_ns == 160);
    }
    SECTION("unless some of its calls were not recorded") {
      made.maker.trace.depths = {{0, 110, Depth::kGraphs}, {110, 1000, Depth::kKernels}};
      CHECK(coverage(made.first).covered_ns == 160);
    }
    SECTION("unless a thread lost events, possibly its calls") {
      made.maker.trace.losses = {{made.maker.Thread("other"), model::LossReason::kOverwritten, 290, 295, 0, 0}};
      CHECK(coverage(made.first).covered_ns == 160);
    }
  }
  SECTION("the coverage of a request without a batch is over its own time") {
    CHECK(coverage(made.second).ran_ns == 1000);
    CHECK(coverage(made.second).covered_ns == 250);
  }
  SECTION("where depths overlap, as of several processes, the least counts") {
    made.maker.trace.depths = {{0, 200, Depth::kKernels}, {100, 300, Depth::kGraphs}, {150, 300, Depth::kKernels}};
    made.Gpu(100, 150, {kNone, made.batch}, GpuKind::kGraph);
    CHECK(coverage(made.first).covered_ns == 50);  // the rest is a whole graph
  }
  SECTION("an open batch is covered to the window's end") {
    made.maker.trace.batches[0].duration_ns = kOpen;
    CHECK(coverage(made.first).ran_ns == 900);
    CHECK(coverage(made.first).covered_ns == 250);
  }
  SECTION("coverage is unknown in a damaged dump") {
    made.maker.trace.losses = {{kNone, model::LossReason::kDamaged, 0, 1000, 0, 77}};
    CHECK(!coverage(made.first).is_known);
    CHECK(!coverage(made.second).is_known);
    CHECK(model::CoverageIndex(made.maker.trace).IsDamaged());
  }
  SECTION("coverage is unknown for a request whose batch may have been lost by a thread") {
    made.maker.trace.losses = {{0, model::LossReason::kReserve, 900, 950, 0, 0}};
    REQUIRE(made.maker.trace.requests[made.second].begin_ns < 950);
    CHECK(!coverage(made.second).is_known);
    CHECK(coverage(made.first).is_known);
  }
  SECTION("time in which the batch's thread lost events, possibly calls, is not covered") {
    const uint32_t other = made.maker.Thread("other");
    made.maker.trace.losses = {{made.thread, model::LossReason::kOverwritten, 0, 200, 5, 0},
                               {made.thread, model::LossReason::kDepth, 240, 240, 0, 0},
                               {other, model::LossReason::kOverwritten, 0, 300, 5, 0}};
    CHECK(coverage(made.first).is_known);
    CHECK(coverage(made.first).covered_ns == 100);
    CHECK(!model::CoverageIndex(made.maker.trace).IsDamaged());
  }
  SECTION("likewise at kernels' depth, because the lost calls would attribute the kernels") {
    made.maker.trace.depths = {{0, 1000, Depth::kKernels}};
    made.maker.trace.losses = {{made.thread, model::LossReason::kOverwritten, 0, 180, 5, 0}};
    CHECK(coverage(made.first).covered_ns == 120);
  }
  SECTION("coverage is unknown if no depth is known in its time; if known for a part, the rest is not covered") {
    made.maker.trace.depths = {{0, 100, Depth::kKernels}};
    CHECK(!coverage(made.first).is_known);
    CHECK(coverage(made.second).is_known);
    CHECK(coverage(made.second).covered_ns == 100);
    CHECK(!coverage(made.second).IsWhole());
  }
  SECTION("coverage is unknown if no depth is known") {
    made.maker.trace.depths.clear();
    CHECK(!coverage(made.first).is_known);
  }
}

TEST_CASE("a trace without a GPU part has no coverage", "[index]") {
  TraceMaker maker;
  CHECK(!model::CoverageIndex(maker.trace).HasGpu());
  maker.trace.devices.push_back({});
  CHECK(model::CoverageIndex(maker.trace).HasGpu());
}

}  // namespace pitot::test
