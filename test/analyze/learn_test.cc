// SPDX-License-Identifier: Apache-2.0
//
// The choice of normal requests to learn from.
#include "pitot/analyze/learn.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "pitot/wait.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

using analyze::FindOrdinary;
using analyze::LearnOptions;
using Rows = std::vector<uint32_t>;

namespace {

constexpr int64_t kMs = 1'000'000, kBegin = 100'000 * kMs;

// Eight seconds; rows are numbered in the order of Serve, by begin.
class Window {
 public:
  Window() {
    maker_.trace.window_begin_ns = kBegin;
    maker_.trace.window_end_ns = kBegin + 8'000 * kMs;
    thread_ = maker_.Thread("http");
  }
  model::RequestRow& Serve(int64_t at_ms, int64_t ms = 10, const char* route = "/classify") {
    const uint32_t row = maker_.Request(0x100 + maker_.trace.requests.size(), route, kBegin + at_ms * kMs, ms * kMs);
    maker_.trace.requests[row].begin_thread = maker_.trace.requests[row].end_thread = thread_;
    return maker_.trace.requests[row];
  }
  void Fire(uint64_t id, int64_t at_ms) {
    maker_.trace.firings.push_back({kBegin + at_ms * kMs, id, maker_.String("latency"), 0});
  }
  model::Trace Make() { return maker_.Finish(); }
  TraceMaker& maker() { return maker_; }

 private:
  TraceMaker maker_;
  uint32_t thread_;
};

}  // namespace

TEST_CASE("requests that began and ended well are learned from", "[learn]") {
  Window window;
  window.Serve(3000);
  window.Serve(3100).outcome = Outcome::kFailed;
  window.Serve(3200).begin_known = false;
  window.Serve(3300).end_known = false;
  window.Serve(3400);

  CHECK(FindOrdinary(window.Make(), {}) == Rows{0, 4});
}

TEST_CASE("requests that fired, and those that ended after one that fired had begun, are not learned from", "[learn]") {
  Window window;
  window.Serve(3000);
  const uint64_t slow = window.Serve(5000, 900).id;
  window.Serve(5000 - 5, 10);  // ended in it
  window.Serve(6500);
  window.Fire(slow, 5900);

  CHECK(FindOrdinary(window.Make(), {}) == Rows{0});
}

TEST_CASE("the length of a request has no influence on whether it is learned from", "[learn]") {
  // A request that ends in the first quarter may have begun before the window, and so may one longer than a quarter.
  Window window;
  window.Serve(0, 1900);
  window.Serve(100, 10);
  window.Serve(200, 1900);
  window.Serve(3000, 2100);
  window.Serve(3100, 10);

  CHECK(FindOrdinary(window.Make(), {}) == Rows{2, 4});
}

TEST_CASE("only the whole part of the window counts if the oldest events were left out", "[learn]") {
  Window window;
  window.Serve(3000);
  window.Serve(5500);
  window.maker().trace.losses.push_back({0, model::LossReason::kReserve, kBegin, kBegin + 4000 * kMs, 0, 0});

  CHECK(FindOrdinary(window.Make(), {}) == Rows{1});
}

TEST_CASE("a warm-up is not learned from, and nothing is learned twice", "[learn]") {
  Window window;
  for (int64_t at_ms = 3000; at_ms < 4000; at_ms += 100) window.Serve(at_ms);
  LearnOptions options;

  options.began_after_ns = kBegin + 3500 * kMs;
  CHECK(FindOrdinary(window.Make(), options) == Rows{5, 6, 7, 8, 9});
  options.ended_after_ns = kBegin + 3710 * kMs;
  CHECK(FindOrdinary(window.Make(), options) == Rows{8, 9});
}

TEST_CASE("requests right after an idle time are not learned from: clocks come up again", "[learn]") {
  Window window;
  window.Serve(0);
  window.Serve(5500);
  window.Serve(6000);
  window.Serve(6600);

  CHECK(FindOrdinary(window.Make(), {}) == Rows{3});
  // Something was open meanwhile.
  Window busy;
  busy.Serve(0, 5400);
  busy.Serve(5500);
  busy.Serve(6000);
  CHECK(FindOrdinary(busy.Make(), {}) == Rows{1, 2});
}

TEST_CASE("as many requests of a route and size are taken as asked for, from all of the window", "[learn]") {
  Window window;
  for (int i = 0; i < 400; ++i) window.Serve(2000 + 10 * i, 5, i % 4 == 0 ? "/segment" : "/classify");
  LearnOptions options;
  options.most_per_cell = 20;
  const model::Trace trace = window.Make();

  const Rows rows = FindOrdinary(trace, options);

  REQUIRE(rows.size() == 40);
  CHECK(std::count_if(rows.begin(), rows.end(), [](uint32_t row) { return row % 4 == 0; }) == 20);
  CHECK(std::is_sorted(rows.begin(), rows.end()));
  const double mean = std::accumulate(rows.begin(), rows.end(), 0.0) / 40;
  CHECK(mean > 150);
  CHECK(mean < 250);
}

TEST_CASE("batches, holds and scopes teach what is usual by the rule of requests", "[learn]") {
  Window window;
  TraceMaker& maker = window.maker();
  const uint32_t executor = maker.Thread("executor"), forward = maker.Site(SiteKind::kScope, "forward");
  const auto run = [&](int64_t at_ms, int64_t ms) {
    const uint32_t row = static_cast<uint32_t>(maker.trace.requests.size());
    window.Serve(at_ms, ms);
    const uint32_t batch = maker.Batch(0x5000 + row, "resnet50", executor, kBegin + (at_ms + 1) * kMs, (ms - 2) * kMs);
    maker.Member(batch, row, kBegin + (at_ms + 1) * kMs);
    maker.Event(executor, forward, kBegin + (at_ms + 1) * kMs, (ms - 2) * kMs, {model::kNone, batch});
    return maker.trace.requests[row].id;
  };
  for (int64_t i = 0; i < 40; ++i) run(2'100 + i * 50, 10);
  const uint64_t slow = run(4'200, 500);
  for (int64_t i = 0; i < 40; ++i) run(4'800 + i * 50, 40);  // while the fault goes on
  window.Fire(slow, 4'700);
  const model::Trace trace = window.Make();
  analyze::BlameIndex index;
  REQUIRE(analyze::BlameIndex::Make(trace, {}, &index).ok());
  analyze::Baseline baseline;
  LearnOptions options;
  for (int i = 0; i < 8; ++i) REQUIRE(LearnStays(index, options, &baseline).ok());  // two of each kind a time

  model::Trace known;
  REQUIRE(baseline.AddNorms(kBegin, &known).ok());
  REQUIRE(known.norms.size() == 4);
  for (const model::NormRow& row : known.norms) {
    CHECK(row.count == 16);
    CHECK(row.total_ns == 8 * kMs);
    CHECK(known.strings[row.name] == (row.kind == model::NormKind::kScope ? "forward" : "resnet50"));
  }
  analyze::Baseline none;
  LearnOptions over;
  over.is_over = [](void*) { return true; };
  CHECK(LearnStays(index, over, &none).code() == StatusCode::kResourceExhausted);
  CHECK(none.memory_bytes() == 0);
  analyze::Baseline later;
  options.ended_after_ns = kBegin + 4'100 * kMs;  // all of it is known
  REQUIRE(LearnStays(index, options, &later).ok());
  CHECK(later.memory_bytes() == 0);
}

TEST_CASE("stays in queues and GPU work teach what is usual, kernels by name and shape", "[learn]") {
  Window window;
  TraceMaker& maker = window.maker();
  const uint32_t executor = maker.Thread("executor");
  maker.trace.devices.push_back({});
  maker.trace.streams.push_back({0, 1, 7, 0, 0, 0});
  for (const uint32_t blocks : {4, 8}) {
    model::KernelShape shape;
    shape.grid[0] = blocks;
    maker.trace.shapes.push_back(shape);
  }
  for (int64_t i = 0; i < 40; ++i) {
    const int64_t at_ns = kBegin + (2'100 + i * 50) * kMs;
    const auto row = static_cast<uint32_t>(maker.trace.requests.size());
    window.Serve(2'100 + i * 50, 10);
    maker.trace.handoffs.push_back({row, maker.String("images"), 0, executor, at_ns, at_ns + 2 * kMs, model::kNone});
    maker.Call(executor, "cudaLaunchKernel", at_ns + 2 * kMs, 1'000, {row, model::kNone});
    maker.Gpu(0, model::GpuKind::kKernel, "gemm", at_ns + 3 * kMs, (1 + i % 2) * kMs, static_cast<uint32_t>(i),
              static_cast<uint32_t>(i % 2));
  }
  const model::Trace trace = window.Make();
  REQUIRE(FindInconsistency(trace) == "");
  analyze::BlameIndex index;
  REQUIRE(analyze::BlameIndex::Make(trace, {}, &index).ok());
  analyze::Baseline baseline;
  for (int i = 0; i < 8; ++i) REQUIRE(LearnStays(index, {}, &baseline).ok());

  model::Trace known;
  REQUIRE(baseline.AddNorms(kBegin, &known).ok());
  const auto find = [&](model::NormKind kind, int64_t total_ns) {
    for (const model::NormRow& row : known.norms) {
      if (row.kind == kind && row.total_ns == total_ns) return row;
    }
    return model::NormRow();
  };
  const model::NormRow stay = find(model::NormKind::kQueue, 2 * kMs);
  CHECK(stay.count == 16);
  CHECK(known.strings[stay.name] == "images");
  const model::NormRow small = find(model::NormKind::kGpuWork, kMs), large = find(model::NormKind::kGpuWork, 2 * kMs);
  for (const model::NormRow& row : {small, large}) {
    CHECK(row.count == 16);
    CHECK(known.strings[row.name] == "gemm");
    CHECK(row.parts.empty());
  }
  CHECK(small.much != large.much);
}

TEST_CASE("learning how long locks are held ends when its time is up", "[learn]") {
  constexpr int64_t kHolds = 20'000;
  Window window;
  TraceMaker& maker = window.maker();
  const uint32_t holder = maker.Thread("holder"), waiter = maker.Thread("waiter"), wait = maker.WaitSite();
  for (int64_t i = 0; i < kHolds; ++i)
    maker.Event(waiter, wait, kBegin + 3'000 * kMs + i * 100'000, 50'000, {},
                {static_cast<uint64_t>(WaitKind::kLock), maker.String(i % 2 == 0 ? "cache" : "journal"),
                 maker.trace.threads[holder].number, 0});
  const model::Trace trace = window.Make();
  analyze::BlameIndex index;
  REQUIRE(analyze::BlameIndex::Make(trace, {}, &index).ok());
  struct Asked {
    uint64_t times = 0, most = UINT64_MAX;
    static bool Count(void* context) {
      auto* const asked = static_cast<Asked*>(context);
      return ++asked->times > asked->most;
    }
  };
  const auto learn = [&](Asked* asked) {
    LearnOptions options;
    options.is_over = Asked::Count;
    options.is_over_context = asked;
    analyze::Baseline baseline;
    return LearnStays(index, options, &baseline);
  };

  Asked all;
  REQUIRE(learn(&all).ok());
  CHECK(all.times > kHolds / 1024);
  for (uint64_t most = 0; most < all.times; ++most) {
    Asked some{0, most};
    CHECK(learn(&some).code() == StatusCode::kResourceExhausted);
    CHECK(some.times == most + 1);
  }
}

}  // namespace pitot::test
