// SPDX-License-Identifier: Apache-2.0
//
// Each analyzer on a trace made for its question, and on a harmless one that looks like it.
#include <catch2/catch.hpp>
#include <string>

#include "analyze/gpu_trace.h"
#include "base/host_counters.h"
#include "pitot/wait.h"

namespace pitot::test {

using model::GpuKind;
using model::kNone;

TEST_CASE("a01 tiles each device's window: its measures add up to it", "[a01]") {
  GpuTrace made(1000);
  made.Event(SiteKind::kOperator, "aten::mm", 50, 300);
  const uint32_t call = made.Call("cudaLaunchKernel", 100, 20);
  made.Call("cudaDeviceSynchronize", 150, 300);
  made.Gpu(GpuKind::kKernel, "gemm", 200, 100, call);
  made.Gpu(GpuKind::kMemcpy, "DtoH", 280, 100, kNone);

  const analyze::AnalysisReport report = made.Run("a01");

  CHECK(Measured(report, "compute") == 100);
  CHECK(Measured(report, "memcpy") == 80);
  CHECK(Measured(report, "synchronization") == 50 + 70);
  CHECK(Measured(report, "api") == 20);
  CHECK(Measured(report, "operator") == 50 + 30);
  CHECK(Measured(report, "before_first") == 200);
  CHECK(Measured(report, "after_last") == 620);
  double total = 0;
  for (const char* const name : {"compute", "communication", "memcpy", "memset", "synchronization", "allocation", "api",
                                 "loader", "operator", "scope", "untraced"})
    total += Measured(report, name);
  CHECK(total == Measured(report, "window"));
}

TEST_CASE("a01 reports the threads' work if no GPU was recorded", "[a01]") {
  GpuTrace made(100);
  made.Event(SiteKind::kScope, "decode", 10, 40);

  const analyze::AnalysisReport report = made.Run("a01");

  CHECK(Measured(report, "scope", "all") == 40);
  CHECK(Measured(report, "untraced", "all") == 60);
}

TEST_CASE("a03 reports how long kernels ran, and how much of the device they could fill", "[a03]") {
  GpuTrace made(1000);
  const auto kernel = [&](int64_t begin_us, int64_t duration_us, uint32_t blocks) {
    model::KernelShape shape;
    shape.grid[0] = blocks;
    shape.grid[1] = shape.grid[2] = shape.block[1] = shape.block[2] = 1;
    shape.block[0] = 256;
    made.Shape(made.Gpu(GpuKind::kKernel, "k", begin_us, duration_us, kNone), shape);
  };
  kernel(0, 400, 50);      // half of 100 multiprocessors
  kernel(100, 200, 30);    // next to it
  kernel(500, 200, 1000);  // more than all

  const analyze::AnalysisReport report = made.Run("a03");

  CHECK(Measured(report, "utilisation") == Approx(0.6));
  CHECK(Measured(report, "efficiency") == Approx((200 * 0.5 + 200 * 0.8 + 200 * 1) / 1000));
  CHECK_FALSE(Found(report, "a03.utilisation_low").has_value());
}

TEST_CASE("a03 finds a device that is idle most of the time", "[a03]") {
  GpuTrace made(1000);
  made.Gpu(GpuKind::kKernel, "k", 0, 200, kNone);

  const analyze::AnalysisReport report = made.Run("a03");

  const std::optional<analyze::FindingRow> finding = Found(report, "a03.utilisation_low");
  REQUIRE(finding.has_value());
  CHECK(finding->severity == Severity::kMedium);
  CHECK(finding->value == Approx(0.2));
  CHECK(finding->cost_ns == 800000);
  CHECK(finding->threshold.source == "torch-tb-profiler");
}

TEST_CASE("a03 finds kernels too small for a busy device, but not those that fill it together", "[a03]") {
  // A kernel all the time, with blocks for `blocks` of 100 multiprocessors; with `beside` as many on another stream.
  const auto run = [](uint32_t blocks, bool beside) {
    GpuTrace made(1000);
    model::KernelShape shape;
    shape.grid[0] = blocks;
    shape.grid[1] = shape.grid[2] = shape.block[1] = shape.block[2] = 1;
    shape.block[0] = 256;
    made.Shape(made.Gpu(GpuKind::kKernel, "k", 0, 900, kNone), shape);
    if (beside) {
      made.UseStream(13);
      made.Shape(made.Gpu(GpuKind::kKernel, "k", 0, 900, kNone), shape);
    }
    return made.Run("a03");
  };
  const std::optional<analyze::FindingRow> finding = Found(run(30, false), "a03.efficiency_low");
  REQUIRE(finding.has_value());
  CHECK(finding->value == Approx(0.27));
  CHECK(finding->severity == Severity::kLow);
  CHECK(finding->cost_ns == 0);  // the gain from larger batches is unknown
  CHECK(finding->summary.find("ran for 90.0 % of the window, but had blocks for 27.0 %") != std::string::npos);
  CHECK(run(30, true).analyzers[0].findings.empty());
  CHECK(run(60, false).analyzers[0].findings.empty());
}

TEST_CASE("a03 and a09 count no time without requests as a cost", "[a03][a09]") {
  const auto make = [](int64_t until_us) {
    GpuTrace made(1000);
    made.Request(0, until_us);
    made.Request(950, 50);
    made.Launch("first", 0, 5, 10, 190);
    made.Call("cudaStreamSynchronize", 20, 185);
    made.Launch("next", 950, 5, 960, 30);
    return made;
  };
  const std::optional<analyze::FindingRow> quiet = Found(make(250).Run("a03"), "a03.utilisation_low"),
                                           asked = Found(make(950).Run("a03"), "a03.utilisation_low");
  REQUIRE((quiet && asked));
  CHECK(quiet->value == Approx(0.22));
  CHECK(quiet->cost_ns == 80'000);
  CHECK(quiet->severity == Severity::kLow);
  CHECK(quiet->summary.find("73.3 % of the time with open requests") != std::string::npos);
  CHECK(asked->cost_ns == 780'000);
  CHECK(asked->severity == Severity::kMedium);

  CHECK(Measured(make(250).Run("a09"), "stalled") == 50);
  CHECK(Measured(make(950).Run("a09"), "stalled") == 185);
  CHECK(Found(make(250).Run("a09"), "a09.sync_stalls")->evidence.size() == 1);
}

TEST_CASE("a04 gives each gap to the launching thread's work until its launch", "[a04]") {
  GpuTrace made(1000);
  made.Event(SiteKind::kOperator, "enumerate(DataLoader)#_Single.__next__", 200, 300);
  made.Launch("first", 0, 10, 20, 80);
  made.Launch("second", 550, 10, 580, 20);  // launched 450 us after the first ended
  made.Launch("third", 560, 10, 610, 20);   // was queued when the second ended

  const analyze::AnalysisReport report = made.Run("a04");

  CHECK(Measured(report, "idle") == 480 + 10);
  CHECK(Measured(report, "idle_loader") == 300);
  CHECK(Measured(report, "idle_untraced") == 150);
  CHECK(Measured(report, "idle_launch") == 30);
  CHECK(Measured(report, "idle_dispatch") == 10);
  const std::optional<analyze::FindingRow> finding = Found(report, "a04.idle");
  REQUIRE(finding.has_value());
  CHECK(finding->recommendation.find("workers") != std::string::npos);
  CHECK_FALSE(finding->is_undetermined);
  REQUIRE(finding->evidence.size() == 2);
  CHECK(finding->evidence[0].begin_ns == 100000);
  CHECK(finding->evidence[0].end_ns == 580000);
}

TEST_CASE("a04 gives no reason if one hole between a call and its work is most of the time", "[a04]") {
  GpuTrace made(500000);
  made.Launch("first", 0, 10, 20, 80);
  made.Launch("after the hole", 110, 10, 400000, 100);

  const std::optional<analyze::FindingRow> finding = Found(made.Run("a04"), "a04.idle");

  REQUIRE(finding.has_value());
  CHECK(finding->is_undetermined);
  CHECK(finding->confidence < 0.5);
}

TEST_CASE("a04 does not blame a server whose GPU was idle for lack of requests", "[a04]") {
  const auto make = [](int64_t second_begins_us) {
    GpuTrace made(1000);
    made.Request(0, 110);
    made.Request(second_begins_us, 1000 - second_begins_us);
    made.Launch("first", 0, 10, 20, 80);
    made.Event(SiteKind::kScope, "executor", 0, 1000);
    made.Event(SiteKind::kWait, "wait", 150, 700);
    made.Launch("second", 900, 10, 930, 20);
    return made.Run("a04");
  };
  const analyze::AnalysisReport quiet = make(800);

  CHECK(Measured(quiet, "idle_no_request") == 650);
  CHECK(Measured(quiet, "idle_wait") == 50);
  CHECK(Measured(quiet, "idle_scope") == 50 + 50);
  CHECK(Measured(quiet, "idle_untraced") == 0);
  std::optional<analyze::FindingRow> finding = Found(quiet, "a04.idle");
  REQUIRE(finding.has_value());
  CHECK(finding->severity == Severity::kLow);
  CHECK(finding->cost_ns == 180000);
  CHECK(finding->summary.find("most of it, 650 us, was without any request") != std::string::npos);
  CHECK(finding->summary.find("; then 100 us in scopes") != std::string::npos);
  CHECK(finding->recommendation.find("there was no work") != std::string::npos);

  finding = Found(make(120), "a04.idle");  // it was there all the while, somewhere else

  REQUIRE(finding.has_value());
  CHECK(finding->severity == Severity::kHigh);
  CHECK(finding->cost_ns == 830000);
  CHECK(finding->recommendation.find("the reason for the wait") != std::string::npos);
}

TEST_CASE("a04 counts a batch as work from its first member on, also beyond its requests", "[a04]") {
  GpuTrace made(1000);
  made.Request(0, 110);
  made.Batch("unet", 0, 600, 1);
  made.Batch("unet", 800, 200, 0);  // begun, and nobody has come
  made.trace.members[0].join_ns = 50'000;
  made.Launch("first", 0, 10, 20, 80);
  made.Event(SiteKind::kWait, "wait", 150, 850);
  made.Launch("second", 1000, 0, 1000, 0);

  const analyze::AnalysisReport report = made.Run("a04");

  CHECK(Measured(report, "idle_wait") == 450);
  CHECK(Measured(report, "idle_no_request") == 400);

  made.trace.requests.clear();
  made.trace.members[0].request = made.Request(950, 50);
  made.trace.members[0].join_ns = 500'000;
  CHECK(Measured(made.Run("a04"), "idle_wait") == 100 + 50);
}

TEST_CASE("a04 says most only of more than half, and names scopes of the host as such", "[a04]") {
  GpuTrace made(1000);
  made.Launch("first", 0, 10, 0, 100);
  made.Event(SiteKind::kScope, "tokenize", 100, 400);
  made.Launch("second", 800, 10, 1000, 0);  // 300 us of nothing recorded, 200 until it ran

  const std::optional<analyze::FindingRow> finding = Found(made.Run("a04"), "a04.idle");

  REQUIRE(finding.has_value());
  CHECK(finding->summary.find("the largest part of it, 400 us, was in scopes") != std::string::npos);
  CHECK(finding->recommendation.find("--by scope") != std::string::npos);
}

TEST_CASE("a04 ignores a device that is hardly idle", "[a04]") {
  GpuTrace made(1000);
  made.Launch("first", 0, 10, 20, 400);
  made.Launch("second", 100, 10, 450, 400);

  CHECK(made.Run("a04").analyzers[0].findings.empty());
}

TEST_CASE("a05 finds a GPU that waits for data, and the number of workers needed", "[a05]") {
  GpuTrace made(1000);
  made.Event(SiteKind::kOperator, "enumerate(DataLoader)#_Single.__next__", 0, 600);
  made.Launch("k", 600, 5, 610, 390);

  const std::optional<analyze::FindingRow> finding = Found(made.Run("a05"), "a05.input_bound");

  REQUIRE(finding.has_value());
  CHECK(finding->severity == Severity::kHigh);
  CHECK(finding->value == Approx(0.6));
  CHECK(finding->cost_ns == 600000);
  CHECK(finding->recommendation.find("use 3 workers or more") != std::string::npos);
}

TEST_CASE("a05 ignores data loaded while the GPU works", "[a05]") {
  GpuTrace made(1000);
  made.Event(SiteKind::kOperator, "enumerate(DataLoader)#_Single.__next__", 100, 600);
  made.Launch("k", 0, 5, 10, 900);

  const analyze::AnalysisReport report = made.Run("a05");

  CHECK(Measured(report, "loading") == 600);
  CHECK(Measured(report, "exposed_loading") == 0);
  CHECK(report.analyzers[0].findings.empty());
}

TEST_CASE("a05 knows the names of other input pipelines", "[a05]") {
  for (const char* const name : {"IteratorGetNextOp::DoCompute", "IteratorGetNextAsOptionalOp::DoCompute",
                                 "IteratorGetNext", "[DALI][C API] daliOutputCopy", "next batch"}) {
    INFO(name);
    GpuTrace made(1000);
    made.Event(SiteKind::kScope, name, 0, 600);
    made.Launch("k", 600, 5, 610, 390);
    CHECK(Found(made.Run("a05"), "a05.input_bound").has_value());
  }
  GpuTrace other(1000);
  other.Event(SiteKind::kScope, "Iterator::Prefetch", 0, 600);  // of a thread that fetches ahead: nobody waits for it
  other.Launch("k", 600, 5, 610, 390);
  CHECK(Found(other.Run("a05"), "a05.input_bound") == std::nullopt);
}

TEST_CASE("a05 finds requests held up before they come to an idle executor", "[a05]") {
  // Requests arrive two at a time. Before their batch they take 4 ms, one after the other or at the same time.
  enum class Queued { kNo, kAtOnce };
  const auto run = [](bool one_after_the_other, Queued queued = Queued::kNo, bool is_locked = false) {
    const GpuTrace::Args lock = {
        {"kind", static_cast<uint64_t>(WaitKind::kLock)}, {"resource", 0}, {"owner_thread", 0}, {"owner_request", 0}};
    GpuTrace made(100'000);
    for (int64_t i = 0; i < 10; ++i) {
      const int64_t at_us = i * 10'000;
      for (const int64_t nth : {0, 1}) {
        const int64_t ready_us = at_us + (one_after_the_other ? 4'000 * (nth + 1) : 300);
        const uint32_t request = made.Request(at_us, ready_us + 500 - at_us);
        const uint32_t batch = made.Batch("unet", ready_us, 500, 1);
        made.trace.members[made.trace.batches[batch].first_member].request = request;
        made.For(request);
        if (is_locked && nth == 1) made.Event(SiteKind::kWait, "wait", at_us, ready_us - at_us, lock);
        made.For(model::kNone);
        if (queued == Queued::kAtOnce)
          made.trace.handoffs.push_back({request, 0, 0, 0, at_us * 1000, ready_us * 1000, batch});
      }
    }
    return made.Run("a05");
  };
  const std::optional<analyze::FindingRow> finding = Found(run(true), "a05.input_bound");
  REQUIRE(finding.has_value());
  CHECK(finding->subject == "requests");
  CHECK(finding->value == Approx(0.4));
  CHECK(finding->cost_ns == 40'000'000);
  CHECK(Found(run(false), "a05.input_bound") == std::nullopt);
  // If one of two waits for a lock, only the other is held up by its input.
  CHECK(Found(run(true, Queued::kNo, true), "a05.input_bound") == std::nullopt);
  // A request in the executor's own queue is ready: nothing waits for its input.
  CHECK(Found(run(true, Queued::kAtOnce), "a05.input_bound") == std::nullopt);
}

TEST_CASE("a05 does not take waits for an answer, or time of which nothing is known, for work on inputs", "[a05]") {
  // Two requests at once, each 4 ms before its batch: in a scope, or 1 ms in one and then in a wait, or in nothing.
  enum class Then { kScope, kWait, kNothing, kInstants };
  const auto run = [](Then then) {
    const GpuTrace::Args answer = {
        {"kind", static_cast<uint64_t>(WaitKind::kIo)}, {"resource", 0}, {"owner_thread", 0}, {"owner_request", 0}};
    GpuTrace made(100'000);
    for (int64_t i = 0; i < 20; ++i) {
      const int64_t at_us = i / 2 * 10'000;
      const uint32_t request = made.Request(at_us, 4'500);
      made.trace.members[made.trace.batches[made.Batch("unet", at_us + 4'000, 500, 1)].first_member].request = request;
    }
    for (const uint32_t first : {0u, 1u}) {  // a thread for one of each two
      if (first == 1) made.UseThread();
      for (uint32_t request = first; request < 20; request += 2) {
        const int64_t at_us = request / 2 * 10'000;
        made.For(request);
        if (then == Then::kInstants)
          made.Event(SiteKind::kInstant, "decoded", at_us + 1'000, 0);
        else
          made.Event(SiteKind::kScope, "decode", at_us, then == Then::kScope ? 4'000 : 1'000);
        if (then == Then::kWait) made.Event(SiteKind::kWait, "wait", at_us + 1'000, 3'000, answer);
      }
    }
    return *Found(made.Run("a05"), "a05.input_bound");
  };
  CHECK(run(Then::kScope).value == Approx(0.4));
  CHECK(run(Then::kWait).value == Approx(0.1));
  CHECK(run(Then::kNothing).value == Approx(0.1));
  CHECK(run(Then::kInstants).value == Approx(0.4));  // as without any record
}

TEST_CASE("a06 finds many small copies, and the time of one with all their bytes", "[a06]") {
  GpuTrace made(10000);
  for (int64_t i = 0; i < 100; ++i) {
    const uint32_t call = made.Call("cudaMemcpyAsync", 100 * i, 10);
    made.Gpu(GpuKind::kMemcpy, "HtoD, pinned to device", 100 * i + 10, 2, call, 1024);
  }
  const uint32_t call = made.Call("cudaMemcpyAsync", 9950, 1);
  made.Gpu(GpuKind::kMemcpy, "HtoD, pinned to device", 9951, 49, call, 49 * 20000);  // 20 GB/s, too small to tell

  const analyze::AnalysisReport report = made.Run("a06");

  CHECK(Measured(report, "small_copies") == 100);
  CHECK(Measured(report, "small_below") == 10000 * 25);
  CHECK(Measured(report, "small_copies_exposed") == 100 * 12);
  const std::optional<analyze::FindingRow> finding = Found(report, "a06.small_copies");
  REQUIRE(finding.has_value());
  CHECK(finding->subject == "GPU 0 HtoD");
  CHECK(finding->evidence.size() == 5);
}

TEST_CASE("a06 gathers only copies with nothing else between them on their stream", "[a06]") {
  // Ten times four copies of 1 KiB, and then a kernel, or a kernel after each.
  const auto run = [](bool kernel_after_each) {
    GpuTrace made(10'000);
    for (int64_t at_us = 0; at_us < 10'000; at_us += 1'000) {
      for (int64_t i = 0; i < 4; ++i) {
        made.Gpu(GpuKind::kMemcpy, "HtoD, pinned to device", at_us + 20 * i + 10, 2,
                 made.Call("cudaMemcpyAsync", at_us + 20 * i, 10), 1'024);
        if (kernel_after_each || i == 3) made.Launch("k", at_us + 20 * i + 12, 1, at_us + 20 * i + 14, 2);
      }
    }
    analyze::AnalyzeOptions options;
    options.thresholds = {{"a06.exposed_share", 0.01}};
    return made.Run("a06", options);
  };
  const analyze::AnalysisReport fours = run(false), each = run(true);
  CHECK(Measured(fours, "small_copies_in_runs") == 10);
  REQUIRE(Found(fours, "a06.small_copies").has_value());
  CHECK(Found(fours, "a06.small_copies")->recommendation.find("as 10 copies they take about 102 us") !=
        std::string::npos);
  CHECK(Measured(each, "small_copies_in_runs") == 40);
  REQUIRE(Found(each, "a06.small_copies").has_value());
  CHECK(Found(each, "a06.small_copies")->recommendation.find("Other work of the stream lies between any two") == 0);
}

TEST_CASE("a06 finds requests with many small copies each, however seldom they come", "[a06]") {
  const auto run = [](int64_t copies) {
    GpuTrace made(200'000);
    made.For(made.Request(0, 100'000));
    for (int64_t i = 0; i < copies; ++i)
      made.Gpu(GpuKind::kMemcpy, "HtoD, pinned to device", 5'000 * i + 10, 2,
               made.Call("cudaMemcpyAsync", 5'000 * i, 3'000), 1'024);
    return made.Run("a06");
  };
  const analyze::AnalysisReport six = run(6);
  CHECK(Measured(six, "small_copies_a_request") == 6);
  CHECK(Measured(six, "small_copies_per_second") == Approx(30));
  CHECK(Found(six, "a06.small_copies").has_value());
  CHECK(run(5).analyzers[0].findings.empty());
}

TEST_CASE("a06 ignores a few small copies and many large ones", "[a06]") {
  GpuTrace few(1000000), large(100000);
  for (int64_t i = 0; i < 10; ++i)
    few.Gpu(GpuKind::kMemcpy, "HtoD", 100 * i, 2, few.Call("cudaMemcpyAsync", 100 * i - (i > 0), 1), 1024);
  for (int64_t i = 0; i < 100; ++i)
    large.Gpu(GpuKind::kMemcpy, "HtoD", 1000 * i + 10, 900, large.Call("cudaMemcpyAsync", 1000 * i, 5), 20 << 20);

  CHECK(few.Run("a06").analyzers[0].findings.empty());
  CHECK(large.Run("a06").analyzers[0].findings.empty());
}

TEST_CASE("a07 finds asynchronous copies of pageable memory and copies that wait", "[a07]") {
  GpuTrace made(1000);
  made.Gpu(GpuKind::kMemcpy, "HtoD, pageable to device", 10, 90, made.Call("cudaMemcpyAsync", 0, 100), 1 << 20);
  made.Gpu(GpuKind::kMemcpy, "DtoH, device to pinned", 210, 90, made.Call("cudaMemcpy", 200, 110), 1 << 20);
  made.Gpu(GpuKind::kMemcpy, "HtoD, pinned to device", 410, 90, made.Call("cudaMemcpyAsync", 400, 5), 1 << 20);
  made.Gpu(GpuKind::kMemcpy, "HtoD, pageable to device", 610, 1, made.Call("cudaMemcpy", 600, 20), 4096);
  made.Gpu(GpuKind::kMemcpy, "DtoD, device to device", 710, 1, made.Call("cudaMemcpy", 700, 20), 1 << 20);

  const analyze::AnalysisReport report = made.Run("a07");

  CHECK(Measured(report, "pageable_copies") == 1);
  CHECK(Measured(report, "waiting_copies") == 1);
  const std::optional<analyze::FindingRow> pageable = Found(report, "a07.pageable");
  const std::optional<analyze::FindingRow> waiting = Found(report, "a07.waiting");
  REQUIRE((pageable.has_value() && waiting.has_value()));
  CHECK(pageable->cost_ns == 100000);
  CHECK(waiting->cost_ns == 100000);  // from the copy's beginning
}

TEST_CASE("a07 does not bill a copy for the kernels that it waited for", "[a07]") {
  const auto run = [](int64_t kernels_us) {
    GpuTrace made(10'000);
    made.Launch("k", 0, 5, 10, kernels_us);
    made.Gpu(GpuKind::kMemcpy, "DtoH, device to pageable", 9000, 2, made.Call("cudaMemcpyAsync", 10, 9010), 8);
    return made.Run("a07");
  };
  // The call ends 10 us after the kernel, or waits for nothing but itself.
  CHECK(Measured(run(9000), "blocked_in_pageable_copies") == 10);
  CHECK_FALSE(Found(run(9000), "a07.pageable").has_value());
  CHECK(Found(run(100), "a07.pageable")->cost_ns == 8'910'000);
}

TEST_CASE("a read-back on the default stream costs nothing while another stream's kernels run before it",
          "[a07][a22]") {
  // Twenty read-backs, each of them called 4.9 ms before the kernels end, or `late_us` after.
  const auto run = [](int64_t late_us) {
    GpuTrace made(120'000);
    for (int64_t i = 0; i < 20; ++i) made.Launch("k", 5'100 * i, 5, 5'100 * i + 60, 5'000 - late_us);
    made.UseStream(0);
    made.UseThread();
    for (int64_t i = 0; i < 20; ++i)
      made.Gpu(GpuKind::kMemcpy, "DtoH, device to pageable", 5'100 * i + 5'060, 2,
               made.Call("cudaMemcpyAsync", 5'100 * i + 70, 5'000), 8);
    return made;
  };
  const analyze::AnalysisReport behind = run(0).Run("a07"), after = run(2'000).Run("a07");
  CHECK_FALSE(Found(behind, "a07.pageable").has_value());
  CHECK(Found(after, "a07.pageable").has_value());
  CHECK(Found(run(0).Run("a22"), "a22.scalar_readback")->severity == Severity::kInfo);
}

TEST_CASE("a07 finds waiting sets of the host's memory, but not of a device's, nor asynchronous ones", "[a07]") {
  GpuTrace made(1000);
  made.Gpu(GpuKind::kMemset, "pinned", 110, 90, made.Call("cudaMemset", 100, 110), 1 << 20);
  made.Gpu(GpuKind::kMemset, "managed", 310, 90, made.Call("cudaMemset", 300, 110), 1 << 20);
  made.Gpu(GpuKind::kMemset, "Memset (Pinned)", 410, 90, made.Call("cudaMemset", 400, 100), 1 << 20);
  made.Gpu(GpuKind::kMemset, "device", 510, 90, made.Call("cudaMemset", 500, 110), 1 << 20);
  made.Gpu(GpuKind::kMemset, "managed", 710, 90, made.Call("cudaMemsetAsync", 700, 5), 1 << 20);

  const analyze::AnalysisReport report = made.Run("a07");

  CHECK(Measured(report, "waiting_sets") == 3);
  REQUIRE(report.analyzers[0].findings.size() == 1);
  CHECK(Found(report, "a07.waiting_set")->cost_ns == 290'000);
}

TEST_CASE("a08 tells a vector addition bound by its copies from a long kernel", "[a08]") {
  GpuTrace add(1000), train(1000);
  for (GpuTrace* const made : {&add, &train}) {
    const bool is_add = made == &add;
    made->Gpu(GpuKind::kMemcpy, "HtoD, pageable to device", 0, 200, kNone, 1 << 20);
    made->Gpu(GpuKind::kKernel, "k", 200, is_add ? 10 : 600, kNone);
    made->Gpu(GpuKind::kMemcpy, "DtoH, device to pageable", is_add ? 210 : 800, 100, kNone, 1 << 20);
  }

  const std::optional<analyze::FindingRow> bound = Found(add.Run("a08"), "a08.transfer_bound");
  REQUIRE(bound.has_value());
  CHECK(bound->severity == Severity::kHigh);
  CHECK(bound->cost_ns == 300000);
  const analyze::AnalysisReport other = train.Run("a08");
  CHECK_FALSE(Found(other, "a08.transfer_bound").has_value());
  CHECK(Found(other, "a08.transfer_heavy").has_value());
}

TEST_CASE("a09 counts the GPU's idle time after a wait, not the wait", "[a09]") {
  GpuTrace made(1000);
  made.Launch("a", 0, 5, 10, 290);
  made.Call("cudaStreamSynchronize", 20, 285);  // the GPU works until 300
  made.Launch("b", 350, 5, 360, 100);
  made.Call("cudaStreamSynchronize", 370, 95);
  made.Launch("c", 800, 5, 810, 100);  // costs as much as the wait, not the whole gap

  const analyze::AnalysisReport report = made.Run("a09");

  CHECK(Measured(report, "waits") == 2);
  CHECK(Measured(report, "waited") == 285 + 95);
  CHECK(Measured(report, "stalled") == 60 + 95);
  const std::optional<analyze::FindingRow> finding = Found(report, "a09.sync_stalls");
  REQUIRE(finding.has_value());
  CHECK(finding->cost_ns == 155000);
}

TEST_CASE("a09 counts how often and how long threads asked whether the GPU is done", "[a09]") {
  GpuTrace made(1000);
  made.Launch("a", 0, 5, 10, 290);
  for (int64_t i = 0; i < 10; ++i) made.Call(i % 2 == 0 ? "cudaEventQuery" : "cuStreamQuery", 20 + 10 * i, 7);

  const analyze::AnalysisReport report = made.Run("a09");

  CHECK(Measured(report, "polls") == 10);
  CHECK(Measured(report, "polling") == 70);
}

TEST_CASE("a09 ignores a wait while other work was queued", "[a09]") {
  GpuTrace made(1000);
  made.Launch("a", 0, 5, 10, 290);
  const uint32_t queued = made.Call("cudaLaunchKernel", 10, 5);
  made.Call("cudaEventSynchronize", 20, 285);
  made.Gpu(GpuKind::kKernel, "b", 300, 400, queued);
  made.Launch("c", 350, 5, 700, 100);

  CHECK(Measured(made.Run("a09"), "stalled") == 0);
}

TEST_CASE("a09 takes a wait as one for the thread's own work, not for other work that ended meanwhile", "[a09]") {
  GpuTrace made(1000);
  made.Launch("a", 0, 5, 10, 90);
  const uint32_t wait = made.Call("cudaEventSynchronize", 20, 185);
  made.Launch("b", 240, 5, 250, 100);
  made.UseThread();
  made.UseStream(13);
  made.Launch("another's", 1, 5, 150, 50);

  CHECK(Measured(made.Run("a09"), "stalled") == 50 + 50);
  made.trace.calls.stream[wait] = 1;
  CHECK(Measured(made.Run("a09"), "stalled") == 50);
}

TEST_CASE("a12 finds kernels that come again and again with gaps between them", "[a12]") {
  GpuTrace made(10000);
  for (int64_t i = 0; i < 20; ++i) {
    made.Gpu(GpuKind::kKernel, "gemm", 300 * i, 10, kNone);
    made.Gpu(GpuKind::kKernel, "bias", 300 * i + 30, 10, kNone);
    made.Gpu(GpuKind::kKernel, "relu", 300 * i + 60, 10, kNone);
  }

  const analyze::AnalysisReport report = made.Run("a12");

  const std::optional<analyze::FindingRow> finding = Found(report, "a12.repeated_sequence");
  REQUIRE(finding.has_value());
  CHECK(finding->cost_ns == 20 * 40000);  // within the three, not between one time and the next
  CHECK(finding->summary.find("the same 3 kernels ran 20 times: gemm, bias, ...") == 0);
}

TEST_CASE("a12 makes no sequence of kernels if their thread waited for the GPU between them", "[a12]") {
  const auto run = [](const char* between) {
    GpuTrace made(10'000);
    for (int64_t i = 0; i < 20; ++i) {
      made.Launch("gemm", 300 * i, 5, 300 * i + 10, 10);
      made.Call(between, 300 * i + 10, 20);
      made.Launch("relu", 300 * i + 35, 5, 300 * i + 50, 10);
    }
    made.UseThread();
    made.Call("cudaDeviceSynchronize", 0, 10'000);  // of another thread
    return made.Run("a12");
  };
  CHECK(Found(run("cudaGetDevice"), "a12.repeated_sequence").has_value());
  CHECK(run("cudaStreamSynchronize").analyzers[0].findings.empty());

  // One thread's wait at the end is not between its kernels and those of another.
  GpuTrace two(10'000);
  std::vector<uint32_t> calls;
  for (int64_t i = 0; i < 20; ++i) calls.push_back(two.Call("cudaLaunchKernel", 300 * i, 5));
  two.Call("cudaStreamSynchronize", 6'000, 100);
  two.UseThread();
  for (int64_t i = 0; i < 20; ++i) calls.push_back(two.Call("cudaLaunchKernel", 300 * i + 35, 5));
  for (size_t i = 0; i < 20; ++i) {
    two.Gpu(GpuKind::kKernel, "gemm", 300 * static_cast<int64_t>(i) + 10, 10, calls[i]);
    two.Gpu(GpuKind::kKernel, "relu", 300 * static_cast<int64_t>(i) + 50, 10, calls[20 + i]);
  }
  CHECK(Found(two.Run("a12"), "a12.repeated_sequence").has_value());
}

TEST_CASE("a12 ignores kernels that do not repeat or have no gaps", "[a12]") {
  GpuTrace different(1000), dense(1000);
  for (int64_t i = 0; i < 40; ++i) {
    different.Gpu(GpuKind::kKernel, "k" + std::to_string(i), 20 * i, 10, kNone);
    dense.Gpu(GpuKind::kKernel, i % 2 == 0 ? "a" : "b", 20 * i, 20, kNone);
  }

  CHECK(different.Run("a12").analyzers[0].findings.empty());
  CHECK(dense.Run("a12").analyzers[0].findings.empty());
}

TEST_CASE("a10 finds kernels shorter than their launches", "[a10]") {
  GpuTrace made(1000);
  for (int64_t i = 0; i < 40; ++i) made.Launch("tiny", 20 * i, 15, 20 * i + 16, 3);

  const analyze::AnalysisReport report = made.Run("a10");

  CHECK(Measured(report, "launches") == 40);
  CHECK(Measured(report, "shorter_than_call") == 40);
  CHECK(Measured(report, "short_kernels") == 40);
  CHECK(Measured(report, "mean_delay") == 1);
  CHECK(Measured(report, "exposed_launching") == 39 * 15);
  const std::optional<analyze::FindingRow> finding = Found(report, "a10.launch_bound");
  REQUIRE(finding.has_value());
  CHECK(finding->recommendation.find("CUDA graph") != std::string::npos);
}

TEST_CASE("a10 counts a graph's launch once, by the name of its call", "[a10]") {
  GpuTrace made(1000);
  for (int64_t i = 0; i < 3; ++i) made.Launch("node", 100 * i, 15, 100 * i + 20, 3);
  made.Gpu(GpuKind::kKernel, "node", 230, 3, 2);  // of the last launch, too
  CHECK(made.Run("a10").Find("a10", "graph_launches", "all") == nullptr);
  for (const uint32_t call : {0, 2}) made.trace.calls.name[call] = made.trace.strings.Add("hipGraphLaunch");

  CHECK(Measured(made.Run("a10"), "graph_launches") == 2);
}

TEST_CASE("a10 reports how much is launched for a request", "[a10]") {
  GpuTrace made(1000);
  made.Launch("nobody's", 0, 5, 10, 20);
  made.For(made.Request(100, 800));
  made.Request(100, 800);
  for (int64_t i = 0; i < 5; ++i) made.Launch("k", 100 + 20 * i, 5, 110 + 20 * i, 10);

  CHECK(Measured(made.Run("a10"), "launches_a_request") == 2.5);
}

TEST_CASE("a10 does not count copies of pageable memory, which wait, as launches", "[a10]") {
  for (const char* const memory : {"pageable", "pinned"}) {
    INFO(memory);
    GpuTrace made(1000);
    for (int64_t i = 0; i < 40; ++i)
      made.Gpu(GpuKind::kMemcpy, std::string(memory) + " to device", 20 * i + 16, 3,
               made.Call("cudaMemcpyAsync", 20 * i, 15));

    const analyze::AnalysisReport report = made.Run("a10");

    CHECK(Found(report, "a10.launch_bound").has_value() == (std::string(memory) == "pinned"));
  }
}

TEST_CASE("a10 does not call it launch-bound if one call took most of the time", "[a10]") {
  GpuTrace made(100000);
  made.Launch("first", 0, 5, 10, 20);
  made.Launch("loads a module", 50, 50000, 50060, 20);

  const std::optional<analyze::FindingRow> finding = Found(made.Run("a10"), "a10.launch_bound");

  REQUIRE(finding.has_value());
  CHECK(finding->is_undetermined);
  CHECK(finding->confidence < 0.5);
}

TEST_CASE("a10 reports nothing if long kernels hide their launches", "[a10]") {
  GpuTrace made(10000);
  for (int64_t i = 0; i < 20; ++i) made.Launch("long", 20 * i, 15, 100 + 400 * i, 400);

  CHECK(made.Run("a10").analyzers[0].findings.empty());
}

TEST_CASE("a11 follows how much was launched and had not begun", "[a11]") {
  GpuTrace made(1000);
  made.Launch("a", 0, 1, 100, 10);
  made.Launch("b", 50, 1, 150, 10);

  const analyze::AnalysisReport report = made.Run("a11");

  CHECK(Measured(report, "most") == 2);
  CHECK(Measured(report, "mean") == Approx((50.0 * 1 + 50 * 2 + 50 * 1) / 150));
  CHECK(Measured(report, "empty") == 0);
}

TEST_CASE("a11 tells a full queue from an empty one", "[a11]") {
  GpuTrace full(1000000), empty(1000000);
  for (int64_t i = 0; i < 2000; ++i) full.Call("cudaLaunchKernel", i, 1);
  for (uint32_t i = 0; i < 2000; ++i) full.Gpu(GpuKind::kKernel, "k", 3000 + 100 * i, 90, i);
  for (int64_t i = 0; i < 100; ++i) empty.Launch("k", 100 * i, 5, 100 * i + 10, 20);

  CHECK(Found(full.Run("a11"), "a11.queue_full").has_value());
  CHECK(Found(empty.Run("a11"), "a11.queue_empty").has_value());
}

TEST_CASE("a11 does not blame a host for an empty queue while the GPU is busy", "[a11]") {
  GpuTrace made(1'000'000);
  for (int64_t i = 0; i < 100; ++i) made.Launch("k", 1000 * i + 900, 5, 1000 * i + 1000, 990);

  CHECK(Measured(made.Run("a11"), "empty") > 80'000);
  CHECK(!Found(made.Run("a11"), "a11.queue_empty").has_value());
}

TEST_CASE("a11 does not blame a host for an empty queue while no request is open", "[a11]") {
  enum class Asked { kNever, kByRequests, kByBatches, kAllTheWhile };
  // 1 ms of work launched ahead, then 9 ms of nothing, ten times.
  const auto run = [](Asked how) {
    GpuTrace made(100'000);
    for (int64_t at_us = 0; at_us < 100'000; at_us += 10'000) {
      const uint32_t first = made.Launch("k", at_us, 1, at_us + 10, 990),
                     next = made.Launch("k", at_us + 2, 1, at_us + 1'000, 10);
      REQUIRE(next == first + 1);
      if (how == Asked::kByRequests) made.Request(at_us, 1'500);
    }
    if (how == Asked::kAllTheWhile) made.Request(0, 100'000);
    if (how == Asked::kByBatches) {
      for (int64_t at_us = 0; at_us < 100'000; at_us += 10'000) made.Batch("unet", at_us, 1'500, 0);
      made.trace.requests.clear();
    }
    return made.Run("a11");
  };

  for (const Asked how : {Asked::kByRequests, Asked::kByBatches}) {
    const analyze::AnalysisReport report = run(how);
    CHECK(Measured(report, "empty") == 9 * 500);  // from the last kernel's beginning to the request's end
    CHECK(Measured(report, "empty_no_request") == 9 * 8'500);
    CHECK(report.analyzers[0].findings.empty());
  }
  const std::optional<analyze::FindingRow> asked = Found(run(Asked::kAllTheWhile), "a11.queue_empty");
  REQUIRE(asked.has_value());
  CHECK(asked->cost_ns == 9 * 8'990'000);
  CHECK(asked->metric == "time empty / time with open requests");
  const analyze::AnalysisReport without = run(Asked::kNever);
  CHECK(Found(without, "a11.queue_empty")->cost_ns == 9 * 8'990'000);
  CHECK(without.Find("a11", "empty_no_request") == nullptr);
}

// ---- a27

namespace {

// A thread in a scope for 100 ms, of which it was on a CPU for `cpu_us`.
GpuTrace HostTrace(int64_t cpu_us, int64_t voluntary, int64_t involuntary, int64_t major_faults) {
  GpuTrace made(200'000);
  made.trace.threads[0].tid = 41;
  made.trace.threads[0].name = made.trace.strings.Add("worker");
  made.Event(SiteKind::kScope, "decode", 0, 100'000);
  const auto counter = [&](const std::string& name, int64_t at_begin, int64_t at_end) {
    const auto row = static_cast<uint32_t>(made.trace.counters.size());
    made.trace.counters.push_back({kNone, made.trace.strings.Add(name), 0});
    for (const auto& [at_us, value] : {std::pair<int64_t, int64_t>{0, at_begin}, {100'000, at_end}}) {
      made.trace.samples.counter.push_back(row);
      made.trace.samples.at_ns.push_back(at_us * 1000);
      made.trace.samples.value.push_back(static_cast<double>(value));
    }
  };
  counter(base::ThreadCounter(41, base::kOnCpu), 0, cpu_us * 1000);
  counter(base::ThreadCounter(41, base::kVoluntary), 0, voluntary);
  counter(base::ThreadCounter(41, base::kInvoluntary), 0, involuntary);
  counter(base::ThreadCounter(41, base::kMajorFaults), 0, major_faults);
  counter(base::HostCounter(base::kThrottledTime), 7, 7);
  return made;
}

}  // namespace

TEST_CASE("a27 finds code that got no CPU", "[a27]") {
  const analyze::AnalysisReport report = HostTrace(60'000, 0, 9, 0).Run("a27");

  CHECK(Measured(report, "code", "worker #1") == 100'000);
  CHECK(Measured(report, "runqueue", "worker #1") == 40'000);
  CHECK(Measured(report, "runqueue", "all") == 40'000);
  const std::optional<analyze::FindingRow> finding = Found(report, "a27.runqueue");
  REQUIRE(finding.has_value());
  CHECK(finding->value == Approx(0.4));
  CHECK(finding->cost_ns == 40'000'000);
  CHECK(finding->severity == Severity::kHigh);
  CHECK(finding->summary.find("quota") == std::string::npos);
  REQUIRE(finding->evidence.size() == 1);
  CHECK(finding->evidence[0].first_row == 0);
  CHECK_FALSE(Found(report, "a27.pagefaults").has_value());
  CHECK_FALSE(Found(report, "a27.blocked").has_value());
}

TEST_CASE("a27 names an exhausted CPU quota", "[a27]") {
  GpuTrace made = HostTrace(60'000, 0, 9, 0);
  made.trace.samples.value.back() = 30'000'007;

  const std::optional<analyze::FindingRow> finding = Found(made.Run("a27"), "a27.runqueue");

  REQUIRE(finding.has_value());
  CHECK(finding->summary.find("throttled the process for 30.0 ms") != std::string::npos);
  CHECK(finding->recommendation.find("quota") != std::string::npos);
}

TEST_CASE("a27 tells page faults from sleep", "[a27]") {
  const analyze::AnalysisReport faults = HostTrace(60'000, 5, 0, 4).Run("a27"),
                                few = HostTrace(60'000, 5, 0, 1).Run("a27"),
                                sleep = HostTrace(60'000, 5, 0, 0).Run("a27");

  CHECK(Found(faults, "a27.pagefaults").has_value());
  CHECK_FALSE(Found(faults, "a27.blocked").has_value());
  CHECK(Measured(few, "pagefaults", "all") == 13'000);
  CHECK(Measured(few, "blocked", "all") == 27'000);
  CHECK(Found(sleep, "a27.blocked").has_value());
  CHECK_FALSE(Found(sleep, "a27.pagefaults").has_value());
}

TEST_CASE("a27 does not take the watcher's waits for an interpreter, or stops, for its code", "[a27]") {
  GpuTrace made = HostTrace(10'000, 5, 0, 0);  // asleep for 90 ms
  model::SiteRow& site = made.trace.sites[0];
  site.file = made.trace.strings.Add("pitot/interpreter.h");
  site.function = made.trace.strings.Add(GENERATE(as<std::string>(), "RecordLockHeld", "RecordThreadsStopped"));
  made.trace.events.args[0] = static_cast<uint32_t>(made.trace.arg_values.size());
  for (const char* const arg : {"tid", "thread", "place", "on_cpu_ns"}) {
    site.arg_names.push_back(made.trace.strings.Add(arg));
    site.arg_types.push_back(ArgType::kInt);
    made.trace.arg_values.push_back(7);
  }

  const analyze::AnalysisReport report = made.Run("a27");

  CHECK_FALSE(Found(report, "a27.blocked").has_value());
  CHECK(report.Find("a27", "code") == nullptr);
}

TEST_CASE("a27 ignores threads that ran nine tenths of their code, and threads without counters", "[a27]") {
  const analyze::AnalysisReport report = HostTrace(91'000, 5, 9, 2).Run("a27");
  CHECK(report.analyzers.at(0).findings.empty());
  GpuTrace made(1000);
  made.Event(SiteKind::kScope, "decode", 0, 100);
  CHECK(made.Run("a27").analyzers.at(0).measures.empty());
}

}  // namespace pitot::test
