// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/gpu_shares.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "serialize/sample_trace.h"

namespace pitot::test {

using model::GpuKind;
using model::kNone;
using model::Trace;

namespace {

double Ns(facts::FineNs fine) { return static_cast<double>(fine) / static_cast<double>(facts::Fine(1)); }

// Whether a thread works for a kernel's batch (one of its members) or its request or, if it has neither, at all.
bool IsHidden(const Trace& trace, uint32_t row, int64_t at_ns) {
  const uint32_t call = trace.gpu.call[row];
  const uint32_t batch = call != kNone ? trace.calls.batch[call] : kNone;
  const uint32_t request = call != kNone ? trace.calls.request[call] : kNone;
  const auto is_for_it = [&](uint32_t of_request, uint32_t of_batch) {
    if (batch != kNone) {
      if (of_batch == batch) return true;
      for (const model::MemberRow& member : trace.members) {
        if (member.batch == batch && of_request != kNone && member.request == of_request) return true;
      }
      return false;
    }
    return request == kNone || of_request == request;
  };
  const auto is_wait = [&](uint32_t c) {
    return trace.calls.stream[c] != kNone ||
           trace.strings[trace.calls.name[c]].find("Synchronize") != std::string_view::npos;
  };
  const auto is_in = [&](uint32_t c) {
    const int64_t duration_ns = trace.calls.duration_ns[c];
    return trace.calls.begin_ns[c] <= at_ns &&
           (duration_ns == model::kOpen || at_ns < trace.calls.begin_ns[c] + duration_ns);
  };
  for (uint32_t c = 0; c < trace.calls.size(); ++c) {
    if (is_in(c) && !is_wait(c) && is_for_it(trace.calls.request[c], trace.calls.batch[c])) return true;
  }
  for (uint32_t thread = 0; thread < trace.threads.size(); ++thread) {
    bool waits = false;
    for (uint32_t c = 0; c < trace.calls.size(); ++c)
      waits |= trace.calls.thread[c] == thread && is_wait(c) && is_in(c);
    const auto segments = model::FlattenThread(trace, thread, at_ns, at_ns + 1);
    if (waits || segments.empty()) continue;
    const uint32_t event = segments[0].event;
    if (trace.sites[trace.events.site[event]].kind == SiteKind::kWait) continue;
    if (is_for_it(trace.events.request[event], trace.events.batch[event])) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a device's busy moment is divided among its operations, and hidden while a thread works for them", "[top]") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Trace trace = RandomTrace(seed, seed);
    if (trace.sites.size() > 2) trace.sites[1].kind = SiteKind::kWait;
    const facts::GpuShares shares = facts::FindGpuShares(trace);
    std::vector<double> busy(trace.gpu.size()), exposed(trace.gpu.size());
    for (int64_t at_ns = trace.window_begin_ns; at_ns < trace.window_end_ns; ++at_ns) {
      std::vector<uint32_t> running;
      for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
        if (trace.gpu.kind[row] != GpuKind::kSpan && trace.gpu.begin_ns[row] <= at_ns &&
            at_ns < trace.gpu.begin_ns[row] + trace.gpu.duration_ns[row])
          running.push_back(row);
      }
      for (const uint32_t row : running) {
        const auto beside = std::count_if(running.begin(), running.end(), [&](uint32_t other) {
          return trace.streams[trace.gpu.stream[other]].device == trace.streams[trace.gpu.stream[row]].device;
        });
        busy[row] += 1.0 / static_cast<double>(beside);
        if (!IsHidden(trace, row, at_ns)) exposed[row] += 1.0 / static_cast<double>(beside);
      }
    }
    for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
      INFO("seed " << seed << " row " << row);
      REQUIRE(Ns(shares.busy[row]) == Approx(busy[row]).margin(1e-6));
      REQUIRE(Ns(shares.exposed[row]) == Approx(exposed[row]).margin(1e-6));
      REQUIRE(shares.exposed[row] <= shares.busy[row]);
    }
  }
}

TEST_CASE("parts of a ns are rounded together, so that they add up", "[top]") {
  const facts::FineNs third = facts::Fine(1) / 3;
  CHECK(facts::RoundTogether({third, third, third}) == std::vector<int64_t>{1, 0, 0});
  CHECK(facts::RoundTogether({third, 2 * third, facts::Fine(5)}) == std::vector<int64_t>{0, 1, 5});
  CHECK(facts::RoundTogether({facts::Fine(2) + 2 * third, 2 * third, 2 * third}) == std::vector<int64_t>{3, 1, 0});
  CHECK(facts::RoundTogether({}).empty());

  SECTION("and a part of a part does not become more than that") {
    const std::vector<int64_t> busy_ns = facts::RoundTogether({third, 2 * third, third});
    CHECK(busy_ns == std::vector<int64_t>{0, 1, 0});
    CHECK(facts::RoundTogether({third, third, 0}, &busy_ns) == std::vector<int64_t>{0, 1, 0});
  }
  CHECK(facts::PartOf(facts::Fine(10), 1, 4) == facts::Fine(5) / 2);
  // More than 2^64 of the units.
  CHECK(facts::Round(facts::PartOf(facts::Fine(int64_t{1} << 60), int64_t{1} << 59, int64_t{1} << 60)) == int64_t{1}
                                                                                                              << 59);
}

}  // namespace pitot::test
