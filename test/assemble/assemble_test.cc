// SPDX-License-Identifier: Apache-2.0
//
// Snapshots made by hand: with records cut off by the window, lost, or senseless.
#include "assemble/assemble.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "fakes/trace_text.h"
#include "pitot/request.h"
#include "trace/internal_sites.h"
#include "trace/names.h"

namespace {

using fakes::Events;
using pitot::Outcome;
using pitot::model::kNone;
using pitot::model::kOpen;
using pitot::model::LossReason;
using pitot::model::Trace;
using pitot::snapshot::Oldest;
using pitot::snapshot::RingCopy;
using pitot::snapshot::Snapshot;

constexpr pitot::Site kInstant{pitot::kSiteMagic, pitot::SiteKind::kInstant, 0, 0, 1, 0, "instant", "file", "function",
                               "\"instant\""};
constexpr pitot::Site kScope{pitot::kSiteMagic, pitot::SiteKind::kScope, 0, 0, 2, 0, "scope", "file", "function",
                             "\"scope\""};

// A ring's words, written by the writer's own code into a ring that never wraps.
class Ring {
 public:
  Ring() : words_(4096) {
    ring_.words = words_.data();
    ring_.mask = words_.size() - 1;
  }
  Ring& Add(const pitot::Site& site, uint64_t begin, uint64_t end, std::initializer_list<uint64_t> args = {}) {
    pitot::trace::RecordWords words;
    for (const uint64_t arg : args) words.Add(arg);
    pitot::detail::Append(&ring_, &site, begin, end, words);
    return *this;
  }
  Ring& AddWord(uint64_t word) {
    words_[ring_.head++] = word;
    return *this;
  }
  RingCopy Copy(uint32_t number, uint64_t now = 1000) const {
    RingCopy copy;
    copy.number = number;
    copy.tid = 100 + number;
    copy.first = words_.data();
    copy.last = words_.data() + ring_.head;
    copy.now_ticks = copy.cut_ticks = now;
    copy.attach_ticks = 1;
    copy.events = ring_.events;
    copy.oldest = Oldest::kAttach;
    return copy;
  }

 private:
  std::vector<uint64_t> words_;
  pitot::detail::Ring ring_{};
};

Snapshot Of(std::vector<RingCopy> rings, uint64_t window_begin = 0) {
  Snapshot snapshot;
  snapshot.clock.first.ticks = snapshot.clock.first.monotonic_ns = 0;
  snapshot.clock.last.ticks = 1000;
  snapshot.clock.last.monotonic_ns = 1000;
  snapshot.window_begin_ticks = window_begin;
  snapshot.window_end_ticks = 1000;
  snapshot.rings = std::move(rings);
  return snapshot;
}

Trace Assembled(const Snapshot& snapshot) {
  Trace trace = pitot::assemble::Assemble(snapshot);
  CHECK(pitot::model::FindInconsistency(trace) == "");
  return trace;
}

// Calls from a collector, each 2 ns long and named by its number.
struct CallsOf final : pitot::Collector {
  CallsOf(int64_t of, std::vector<int64_t> begins_ns) : tid(of), begin_ns(std::move(begins_ns)) {}
  const char* Name() const noexcept override { return "calls"; }
  pitot::Status Start() noexcept override { return {}; }
  void Stop() noexcept override {}
  void Keep(int64_t, pitot::KeepFor) noexcept override {}
  void AddTo(pitot::TraceBuilder& builder) override {
    for (uint32_t i = 0; i < begin_ns.size(); ++i)
      builder.Add(pitot::GpuCall{begin_ns[i], 2, tid, builder.AddText(std::to_string(i).c_str()), i + 1});
  }
  // The column's value for each call, in order of the calls' numbers.
  std::vector<uint32_t> Sorted(const Trace& trace, const std::vector<uint32_t>& column) const {
    std::vector<uint32_t> values(begin_ns.size());
    for (uint32_t call = 0; call < trace.calls.size(); ++call)
      values[std::stoul(std::string(trace.strings[trace.calls.name[call]]))] = column[call];
    return values;
  }
  int64_t tid;
  std::vector<int64_t> begin_ns;
};
Trace Assembled(const Snapshot& snapshot, CallsOf& calls) {
  pitot::Collector* const collectors[] = {&calls};
  Trace trace = pitot::assemble::Assemble(snapshot, {}, collectors);
  CHECK(pitot::model::FindInconsistency(trace) == "");
  return trace;
}

// Samples of a counter, the newest first.
struct SamplesOf final : pitot::Collector {
  explicit SamplesOf(int64_t of) : count(of) {}
  const char* Name() const noexcept override { return "samples"; }
  pitot::Status Start() noexcept override { return {}; }
  void Stop() noexcept override {}
  void Keep(int64_t, pitot::KeepFor) noexcept override {}
  void AddTo(pitot::TraceBuilder& builder) override {
    const uint32_t counter = builder.AddCounter(pitot::kNoRow, "memory", "bytes");
    for (int64_t at_ns = count; at_ns > 0; --at_ns) builder.AddSample(counter, at_ns, 1);
  }
  const int64_t count;
};

uint64_t NameWord(const char* name) { return pitot::Intern(name).index; }

}  // namespace

TEST_CASE("a snapshot of nothing is an empty trace", "[assemble]") {
  const Trace trace = Assembled(Of({}));

  CHECK(trace.threads.empty());
  CHECK(trace.events.size() == 0);
  CHECK(trace.window_end_ns == 1000);
}

TEST_CASE("what a torn black box has after the window's end began at its end", "[assemble]") {
  Ring ring;
  ring.Add(pitot::trace::kRequestBeginSite, 10, 10, {7, 0, 1, 2, NameWord("/r")}).Add(kScope, 20, 30);
  RingCopy copy = ring.Copy(1);
  copy.open = {{reinterpret_cast<uintptr_t>(&kScope), 2000}};
  Snapshot snapshot = Of({copy});
  const uint64_t open[] = {9, 0, 0, 1, NameWord("/open"), 0, 0, 0, 0};
  snapshot.open_requests.push_back({9, 5000, 1, 9, open});

  const Trace trace = Assembled(snapshot);

  REQUIRE(trace.events.size() == 2);
  CHECK(trace.events.begin_ns[1] == trace.window_end_ns);
  CHECK(trace.requests.back().begin_ns == trace.window_end_ns);
}

TEST_CASE("a trace holds no room for samples beyond those that it has", "[assemble]") {
  SamplesOf samples(700);
  pitot::Collector* const collectors[] = {&samples};
  const Trace trace = pitot::assemble::Assemble(Of({}), {}, collectors);

  CHECK(pitot::model::FindInconsistency(trace) == "");
  REQUIRE(trace.samples.value.size() == 700);
  CHECK(trace.samples.counter.capacity() == 700);
  CHECK(trace.samples.at_ns.capacity() == 700);
  CHECK(trace.samples.value.capacity() == 700);
}

TEST_CASE("an open scope of a site at address 0 has no name", "[assemble]") {
  RingCopy copy = Ring().Copy(1);
  copy.open = {{0, 20}};

  const Trace trace = Assembled(Of({copy}));

  REQUIRE(trace.sites.size() == 1);
  CHECK(trace.sites[0].unloaded);
}

TEST_CASE("context from before the window holds until a record in the window changes it", "[assemble]") {
  Ring ring;
  ring.Add(pitot::trace::kRequestBeginSite, 10, 10, {7, 0, 1, 2, NameWord("/r")})
      .Add(pitot::trace::kContextSite, 10, 10, {0, 7})
      .Add(kInstant, 20, 20)
      .Add(kInstant, 120, 120)
      .Add(pitot::trace::kRequestEndSite, 10, 130, {7, 0, 1, 2, NameWord("/r") | uint64_t{1} << 32, 0, 0, 0, 0})
      .Add(pitot::trace::kContextSite, 130, 130, {7, 0})
      .Add(kInstant, 140, 140);

  const Trace trace = Assembled(Of({ring.Copy(1)}, 100));

  REQUIRE(trace.events.size() == 2);
  CHECK(Events(trace)[0].request_id == 7);
  CHECK(Events(trace)[1].request_id == 0);
  REQUIRE(trace.requests.size() == 1);
  CHECK(trace.requests[0].begin_ns == 10);
  CHECK(trace.requests[0].duration_ns == 120);
}

TEST_CASE("the context is the thread's at the time of the copy if the copy has no context record", "[assemble]") {
  Ring ring;
  ring.Add(kInstant, 20, 20);
  RingCopy copy = ring.Copy(1);
  copy.request = 7;
  copy.batch = 9;
  Snapshot snapshot = Of({copy});
  const uint64_t open[] = {7, 0, 0, 1, NameWord("/open"), 0, 0, 0, 0};
  snapshot.open_requests.push_back({7, 5, 1, 9, open});

  const Trace trace = Assembled(snapshot);

  CHECK(Events(trace)[0].request_id == 7);
  CHECK(Events(trace)[0].batch_id == 0);  // batch 9 has no record
  CHECK(trace.requests[0].begin_ns == 5);
  CHECK(trace.requests[0].duration_ns == kOpen);
}

TEST_CASE("a context word older than the newest context record does not count", "[assemble]") {
  Ring ring;
  ring.Add(pitot::trace::kRequestBeginSite, 10, 10, {7, 0, 1, 2, NameWord("/r")})
      .Add(pitot::trace::kContextSite, 10, 10, {0, 7})
      .Add(kInstant, 20, 20);
  RingCopy copy = ring.Copy(1);
  copy.request = 0;  // read before the record was written

  CHECK(Events(Assembled(Of({copy})))[0].request_id == 7);
}

TEST_CASE("finished scopes begun after the copy's cut are left out, open ones are kept", "[assemble]") {
  Ring ring;
  ring.Add(kScope, 10, 60).Add(kInstant, 70, 70).Add(kScope, 40, 80);
  RingCopy copy = ring.Copy(1);
  copy.cut_ticks = 60;
  copy.open.push_back({reinterpret_cast<uintptr_t>(&kScope), 75});

  const auto events = Events(Assembled(Of({copy})));

  REQUIRE(events.size() == 3);
  CHECK(events[0].begin_ns == 10);
  CHECK(events[1].begin_ns == 40);
  CHECK(events[2].duration_ns == kOpen);
}

TEST_CASE("every loss is reported with its reason and interval", "[assemble]") {
  for (const auto& [oldest, reason] :
       std::vector<std::pair<Oldest, LossReason>>{{Oldest::kOverwritten, LossReason::kOverwritten},
                                                  {Oldest::kCopying, LossReason::kCopying},
                                                  {Oldest::kReserve, LossReason::kReserve},
                                                  {Oldest::kBroken, LossReason::kUnreadable}}) {
    Ring ring;
    ring.Add(kInstant, 400, 400).Add(kInstant, 500, 500);
    RingCopy copy = ring.Copy(3);
    copy.oldest = oldest;
    copy.attach_ticks = 50;
    copy.events = 12;
    copy.lapped_words = oldest == Oldest::kCopying ? 8 : 0;

    const Trace of_all = Assembled(Of({copy}));
    const Trace of_window = Assembled(Of({copy}, 100));

    INFO(pitot::model::LossReasonName(reason));
    REQUIRE(of_all.losses.size() == 1);
    CHECK(of_all.losses[0].reason == reason);
    CHECK(of_all.losses[0].thread == 0);
    CHECK(of_all.losses[0].begin_ns == 50);
    CHECK(of_all.losses[0].end_ns == 400);
    CHECK(of_all.losses[0].events == 10);
    CHECK(of_all.losses[0].bytes == 0);  // the bytes of the copy alone would cover only some of the ten events
    CHECK(of_all.threads[0].history_begin_ns == 400);
    REQUIRE(of_window.losses.size() == 1);
    CHECK(of_window.losses[0].begin_ns == 100);
    CHECK(of_window.losses[0].events == 0);  // the number of the ten inside the window is unknown
    CHECK(of_window.losses[0].bytes == copy.lapped_words * 8);
  }
}

TEST_CASE("a thread whose copy is empty lost its whole window", "[assemble]") {
  Ring ring;
  RingCopy copy = ring.Copy(1);
  copy.oldest = Oldest::kCopying;
  copy.events = 1000;

  const Trace trace = Assembled(Of({copy}, 100));

  REQUIRE(trace.losses.size() == 1);
  CHECK(trace.losses[0].begin_ns == 100);
  CHECK(trace.losses[0].end_ns == 1000);
}

TEST_CASE("a senseless record cuts off the thread's history before it", "[assemble]") {
  Ring ring;
  ring.Add(kInstant, 10, 10).AddWord(0).AddWord(0).Add(kInstant, 500, 500);

  const Trace trace = Assembled(Of({ring.Copy(1)}));

  CHECK(trace.events.size() == 1);
  REQUIRE(trace.losses.size() == 1);
  CHECK(trace.losses[0].reason == LossReason::kUnreadable);
  CHECK(trace.losses[0].end_ns == 500);
}

TEST_CASE("words of any value are read without harm", "[assemble]") {
  uint64_t random = 88172645463325252ull;
  for (int i = 0; i < 2000; ++i) {
    Ring ring;
    ring.Add(kInstant, 10, 10);
    for (int n = 0; n < 40; ++n) {
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      // Every other header points at a real site, so that the words after it are decoded.
      const uint64_t site = reinterpret_cast<uintptr_t>(n % 3 == 0 ? &kScope : &pitot::trace::kRequestEndSite);
      ring.AddWord(random % 2 == 0 ? site << 16 | (random & 0xffff) : random >> (random % 60));
    }
    const std::string wrong = pitot::model::FindInconsistency(pitot::assemble::Assemble(Of({ring.Copy(1)})));
    if (!wrong.empty()) FAIL("round " << i << ": " << wrong);
  }
}

TEST_CASE("internal records that are too short or impossible are left out", "[assemble]") {
  Ring ring;
  const uint64_t many = ~uint64_t{0};
  ring.Add(pitot::trace::kRequestBeginSite, 1, 1, {7})
      .Add(pitot::trace::kTokensSite, 2, 2, {})
      .Add(pitot::trace::kJoinSite, 3, 3, {1, 2})
      // Counts more labels, sizes and stages than the record holds.
      .Add(pitot::trace::kRequestEndSite, 4, 5, {8, 0, 0, 1, many << 40, 0, 0, 0, 0})
      .Add(pitot::trace::kTakeSite, 6, 6, {8, 900, many, many})  // enqueued after it was taken
      .Add(pitot::trace::kBatchEndSite, 7, 8, {9, many, many})
      .Add(pitot::trace::kLeaveSite, 9, 9, {77, 78});

  const Trace trace = Assembled(Of({ring.Copy(1)}));

  REQUIRE(trace.requests.size() == 1);
  CHECK(trace.requests[0].id == 8);
  CHECK(trace.requests[0].stages.empty());
  REQUIRE(trace.handoffs.size() == 1);
  CHECK(trace.handoffs[0].take_ns >= trace.handoffs[0].enqueue_ns);
  CHECK(trace.batches.size() == 1);
  CHECK(trace.members.empty());
}

TEST_CASE("work that is not finite is unknown", "[assemble]") {
  Ring ring;
  const uint64_t infinite = uint64_t{0x7ff} << 52;
  ring.Add(pitot::trace::kJoinSite, 3, 3, {1, 2, 0, 0, infinite});

  const Trace trace = Assembled(Of({ring.Copy(1)}));

  REQUIRE(trace.members.size() == 1);
  CHECK(trace.members[0].work == 0);
}

TEST_CASE("stages stamped out of order by two threads stay in order and inside the request", "[assemble]") {
  Ring ring;
  const uint64_t stages = uint64_t{4} << 56;
  const auto stage = [](const char* name, uint64_t after) { return NameWord(name) << 48 | after; };
  ring.Add(pitot::trace::kRequestEndSite, 100, 200,
           {8, 0, 0, 1, NameWord("/r") | uint64_t{1} << 32 | stages, 0, 0, 0, 0, stage("a", 20), stage("b", 50),
            stage("c", 40), stage("d", 500)});

  const Trace trace = Assembled(Of({ring.Copy(1)}));

  const auto& row = trace.requests[0];
  REQUIRE(row.stages.size() == 4);
  CHECK(row.stages[0].begin_ns == 120);
  CHECK(row.stages[0].duration_ns == 30);
  CHECK(row.stages[1].duration_ns == 0);
  CHECK(row.stages[2].begin_ns == 150);
  CHECK(row.stages[2].duration_ns == 50);
  CHECK(row.stages[3].begin_ns == 200);
  CHECK(row.stages[3].duration_ns == 0);
}

TEST_CASE("a request that is only mentioned in the window was open in it", "[assemble]") {
  Ring ring;
  ring.Add(pitot::trace::kTokensSite, 150, 150, {42, 3}).Add(pitot::trace::kEnqueueSite, 160, 160, {43, NameWord("q")});

  const Trace trace = Assembled(Of({ring.Copy(1)}, 100));

  REQUIRE(trace.requests.size() == 2);
  for (const auto& row : trace.requests) {
    CHECK(!row.begin_known);
    CHECK(!row.end_known);
    CHECK(row.begin_ns == 100);
    CHECK(row.duration_ns == kOpen);
  }
}

TEST_CASE("a request mentioned only by a stale token or context had ended before the window", "[assemble]") {
  Ring ring;
  ring.Add(pitot::trace::kTakeSite, 150, 150, {42, 50, NameWord("q"), 1})
      .Add(pitot::trace::kContextSite, 150, 150, {0, 42})
      .Add(kInstant, 160, 160);

  const Trace trace = Assembled(Of({ring.Copy(1)}, 100));

  REQUIRE(trace.requests.size() == 1);
  CHECK(!trace.requests[0].end_known);
  CHECK(trace.requests[0].duration_ns == 0);
  CHECK(Events(trace)[0].request_id == 0);
  CHECK(trace.handoffs.size() == 1);
}

TEST_CASE("a request whose end was lost is not mistaken for an open one", "[assemble]") {
  Ring ring;
  // Three requests begin and have no end record. The first was gone when the table of open requests was read, and the
  // second was in it. The third began after that, although it had arrived before.
  ring.Add(pitot::trace::kRequestBeginSite, 100, 100, {1, 0, 0, 0, NameWord("/r")})
      .Add(pitot::trace::kRequestBeginSite, 110, 110, {2, 0, 0, 0, NameWord("/r")})
      .Add(pitot::trace::kTokensSite, 300, 300, {1, 1})
      .Add(pitot::trace::kRequestBeginSite, 400, 600, {3, 0, 0, 0, NameWord("/r")});
  Snapshot snapshot = Of({ring.Copy(1)});
  snapshot.requests_ticks = 500;
  const uint64_t open[9] = {2};
  snapshot.open_requests.push_back({2, 110, 0, 9, open});

  const Trace trace = Assembled(snapshot);

  REQUIRE(trace.requests.size() == 3);
  CHECK(!trace.requests[0].end_known);
  CHECK(trace.requests[0].duration_ns == 200);  // until its last record
  CHECK(trace.requests[1].duration_ns == kOpen);
  CHECK(trace.requests[2].duration_ns == kOpen);
}

TEST_CASE("rows over the memory limit are left out, oldest first on each thread, and counted", "[assemble]") {
  Ring first, second;
  for (uint64_t i = 1; i <= 100; ++i) {
    first.Add(kInstant, i * 10, i * 10);
    second.Add(pitot::trace::kEnqueueSite, i * 10, i * 10, {i, NameWord("queue")});
  }
  const Snapshot snapshot = Of({first.Copy(1), second.Copy(2)});

  const Trace whole = pitot::assemble::Assemble(snapshot);
  const Trace part = pitot::assemble::Assemble(snapshot, {20'000});

  CHECK(whole.losses.empty());
  CHECK(whole.events.size() + whole.handoffs.size() == 200);
  CHECK(pitot::model::FindInconsistency(part) == "");
  CHECK(part.events.size() == 100);  // they are cheap, and the other thread got the rest of their share
  REQUIRE(!part.handoffs.empty());
  CHECK(part.handoffs.size() < 100);
  CHECK(part.handoffs.back().enqueue_ns == 1000);
  CHECK(part.handoffs.front().enqueue_ns == 1000 - 10 * (static_cast<int64_t>(part.handoffs.size()) - 1));
  REQUIRE(part.losses.size() == 1);
  CHECK(part.losses[0].thread == 1);
  CHECK(part.losses[0].reason == pitot::model::LossReason::kReserve);
  CHECK(part.losses[0].events == 100 - part.handoffs.size());
}

TEST_CASE("open requests without room are counted, and none of them is reported as ended", "[assemble]") {
  std::vector<std::array<uint64_t, 9>> words;
  for (uint64_t id = 1; id <= 100; ++id) words.push_back({id});
  Ring ring;
  // The rings mention some of the requests without room.
  for (const uint64_t id : {90, 95, 101})
    ring.Add(pitot::trace::kRequestBeginSite, 100 + id, 100 + id, {id, 0, 0, 0, NameWord("/r")});
  Snapshot snapshot = Of({ring.Copy(1)});
  snapshot.requests_ticks = 500;
  for (const auto& open : words) snapshot.open_requests.push_back({open[0], 100, 0, 9, open.data()});
  snapshot.open_requests.push_back({101, 100, 0, 0, nullptr});  // the reserve had no room for its words
  snapshot.open_requests.push_back({102, 100, 0, 0, nullptr});

  const Trace trace = pitot::assemble::Assemble(snapshot, {50'000});

  CHECK(pitot::model::FindInconsistency(trace) == "");
  CHECK(trace.requests.size() > 10);
  CHECK(trace.requests.size() < 100);
  std::set<uint64_t> ids;
  for (const auto& request : trace.requests) {
    CHECK(request.duration_ns == kOpen);
    ids.insert(request.id);
  }
  // The first requests of the snapshot matter most.
  for (const uint64_t id : {1, 2, 90, 95, 101}) CHECK(ids.count(id) == 1);
  CHECK(ids.count(102) == 0);
  REQUIRE(trace.losses.size() == 1);
  CHECK(trace.losses[0].reason == pitot::model::LossReason::kOpenRequests);
  CHECK(trace.losses[0].events == 102 - (trace.requests.size() - 3));
}

TEST_CASE("a request that ended while the open ones were copied does not count as one without room", "[assemble]") {
  Ring ring;
  ring.Add(pitot::trace::kRequestEndSite, 100, 200, {8, 0, 0, 1, NameWord("/r") | uint64_t{1} << 32, 0, 0, 0, 0});
  Snapshot snapshot = Of({ring.Copy(1)});
  snapshot.open_requests.push_back({8, 100, 0, 0, nullptr});

  const Trace trace = Assembled(snapshot);

  REQUIRE(trace.requests.size() == 1);
  CHECK(trace.requests[0].end_known);
  CHECK(trace.losses.empty());
}

TEST_CASE("a request in the table of open ones has ended if its end was recorded", "[assemble]") {
  Ring ring;
  ring.Add(pitot::trace::kRequestEndSite, 100, 200, {8, 0, 0, 1, NameWord("/r") | uint64_t{2} << 32, 0, 0, 0, 0});
  Snapshot snapshot = Of({ring.Copy(1)});
  const uint64_t open[9] = {8};
  snapshot.open_requests.push_back({8, 100, 0, 9, open});

  const Trace trace = Assembled(snapshot);

  REQUIRE(trace.requests.size() == 1);
  CHECK(trace.requests[0].end_known);
  CHECK(trace.requests[0].duration_ns == 100);
  CHECK(trace.requests[0].outcome == Outcome::kFailed);
}

TEST_CASE("threads missing from the snapshot have no rows", "[assemble]") {
  Ring ring;
  ring.Add(pitot::trace::kTakeSite, 160, 160, {43, 100, NameWord("q"), 777});

  const Trace trace = Assembled(Of({ring.Copy(5)}));

  REQUIRE(trace.handoffs.size() == 1);
  CHECK(trace.handoffs[0].from_thread == kNone);
  CHECK(trace.handoffs[0].to_thread == 0);
  CHECK(trace.threads[0].number == 5);
  CHECK(trace.threads[0].tid == 105);
}

TEST_CASE("an asynchronous scope that began before the window is left out", "[assemble]") {
  static constexpr pitot::Site begin{pitot::kSiteMagic, pitot::SiteKind::kAsyncBegin, 2, 0, 1, 0x22, "a", "", "", ""};
  static constexpr pitot::Site end{pitot::kSiteMagic, pitot::SiteKind::kAsyncEnd, 2, 0, 1, 0x22, "a", "", "", ""};
  Ring ring;
  ring.Add(begin, 50, 50, {7, 1}).Add(begin, 150, 150, {7, 2}).Add(end, 160, 160, {7, 1}).Add(end, 170, 170, {7, 2});

  const Trace trace = Assembled(Of({ring.Copy(1)}, 100));

  REQUIRE(trace.asyncs.size() == 1);
  CHECK(trace.asyncs[0].begin_ns == 150);
  CHECK(trace.asyncs[0].duration_ns == 20);
}

TEST_CASE("refused events and scopes closed elsewhere are losses of the process", "[assemble]") {
  Snapshot snapshot = Of({}, 100);
  snapshot.ring_counts.events_refused = 5;
  snapshot.ring_counts.begins_refused = 4;
  snapshot.ring_counts.closed_elsewhere = 6;

  const Trace trace = Assembled(snapshot);

  REQUIRE(trace.losses.size() == 3);
  CHECK(trace.losses[0].reason == LossReason::kRefused);
  CHECK(trace.losses[0].events == 5);
  CHECK(trace.losses[0].thread == kNone);
  CHECK(trace.losses[1].reason == LossReason::kTooDeepToBegin);
  CHECK(trace.losses[1].events == 4);
  CHECK(trace.losses[2].reason == LossReason::kClosedElsewhere);
  CHECK(trace.losses[2].events == 6);
  // Counted since the start, which may be long before the window.
  CHECK(trace.losses[0].begin_ns == 0);
  CHECK(trace.losses[0].end_ns == trace.window_end_ns);
}

TEST_CASE("events of a thread that exited in the window are lost if its ring was reused", "[assemble]") {
  Snapshot snapshot = Of({}, 100);
  const auto recycled = [](uint32_t number, uint64_t events, uint64_t attach, uint64_t exit) {
    pitot::trace::RecycledRing ring{};
    ring.number = number;
    ring.tid = 100 + number;
    ring.events = events;
    ring.attach_ticks = attach;
    ring.exit_ticks = exit;
    std::strcpy(ring.name, "short-lived");
    return ring;
  };
  SECTION("each with its thread and interval") {
    snapshot.recycled = {recycled(1, 10, 20, 90), recycled(2, 11, 30, 110), recycled(3, 12, 120, 130)};
    snapshot.ring_counts.rings_recycled = 3;

    const Trace trace = Assembled(snapshot);

    REQUIRE(trace.losses.size() == 2);
    for (const auto& loss : trace.losses) CHECK(loss.reason == LossReason::kRecycled);
    CHECK(trace.threads[trace.losses[0].thread].number == 2);
    CHECK(trace.strings[trace.threads[trace.losses[0].thread].name] == "short-lived");
    CHECK(trace.losses[0].begin_ns == 100);
    CHECK(trace.losses[0].end_ns == 110);
    CHECK(trace.losses[0].events == 11);
    CHECK(trace.losses[1].begin_ns == 120);
    CHECK(trace.losses[1].events == 12);
  }
  SECTION("and those of the threads that had the ring before, of any thread until it began") {
    snapshot.recycled = {recycled(3, 12, 120, 130)};
    snapshot.recycled[0].had_former_threads = true;
    snapshot.ring_counts.rings_recycled = 1;

    const Trace trace = Assembled(snapshot);

    REQUIRE(trace.losses.size() == 2);
    CHECK(trace.losses[1].thread == kNone);
    CHECK(trace.losses[1].begin_ns == 100);
    CHECK(trace.losses[1].end_ns == 120);
  }
  SECTION("and the earlier ones together, if more rings were reused than are remembered") {
    snapshot.recycled = {recycled(7, 10, 120, 130)};
    snapshot.ring_counts.rings_recycled = 5;

    const Trace trace = Assembled(snapshot);

    REQUIRE(trace.losses.size() == 2);
    CHECK(trace.losses[1].thread == kNone);
    CHECK(trace.losses[1].end_ns == 130);
    CHECK(trace.losses[1].events == 0);
  }
}

TEST_CASE("a call is in the trace with its thread's request", "[assemble]") {
  const uint64_t api = NameWord("cudaLaunchKernel") << 32;
  Ring first, second;
  first.Add(pitot::trace::kRequestBeginSite, 10, 10, {7, 0, 0, 0, NameWord("/r")})
      .Add(pitot::trace::kContextSite, 10, 10, {0, 7})
      .Add(pitot::trace::kCallSite, 20, 25, {api | 41})
      .Add(pitot::trace::kRequestEndSite, 10, 100, {7, 0, 0, 1, NameWord("/r") | uint64_t{1} << 32, 0, 0, 0, 0})
      .Add(pitot::trace::kContextSite, 100, 100, {7, 0})
      .Add(pitot::trace::kCallSite, 200, 230, {api | 42});
  second.Add(pitot::trace::kCallSite, 50, 60, {api | 43});

  const Trace trace = Assembled(Of({second.Copy(1), first.Copy(2)}));

  REQUIRE(trace.calls.size() == 3);
  CHECK(trace.calls.begin_ns == std::vector<int64_t>{50, 20, 200});
  CHECK(trace.calls.duration_ns == std::vector<int64_t>{10, 5, 30});
  CHECK(trace.calls.thread == std::vector<uint32_t>{0, 1, 1});
  CHECK(trace.calls.request == std::vector<uint32_t>{kNone, 0, kNone});
  CHECK(trace.strings[trace.calls.name[1]] == "cudaLaunchKernel");
}

TEST_CASE("a call belongs to the context of its time, even if the copy begins later", "[assemble]") {
  Ring ring;
  ring.Add(pitot::trace::kCallSite, 20, 25, {NameWord("cudaLaunchKernel") << 32 | 1})
      .Add(pitot::trace::kContextSite, 30, 30, {7, 0});
  RingCopy copy = ring.Copy(1);
  copy.request = 9;  // a moment older than the newest record
  Snapshot snapshot = Of({copy});
  const uint64_t open[9] = {7};
  snapshot.open_requests.push_back({7, 5, 1, 9, open});

  const Trace trace = Assembled(snapshot);

  REQUIRE(trace.calls.size() == 1);
  REQUIRE(trace.calls.request[0] != kNone);
  CHECK(trace.requests[trace.calls.request[0]].id == 7);
}

TEST_CASE("a collector's call has its thread's context at that time, inside a scope or not", "[assemble]") {
  Ring ring;
  ring.Add(pitot::trace::kRequestBeginSite, 10, 10, {7, 0, 0, 0, NameWord("/r")})
      .Add(pitot::trace::kContextSite, 10, 10, {0, 7})
      .Add(pitot::trace::kBatchBeginSite, 20, 20, {3, NameWord("executor")})
      .Add(pitot::trace::kBatchContextSite, 20, 20, {0, 3})
      .Add(pitot::trace::kBatchContextSite, 60, 60, {3, 0})
      .Add(kScope, 12, 90)  // begun before the batch, ended after it
      .Add(pitot::trace::kRequestEndSite, 10, 100, {7, 0, 0, 1, NameWord("/r") | uint64_t{1} << 32, 0, 0, 0, 0})
      .Add(pitot::trace::kContextSite, 100, 100, {7, 0});
  CallsOf calls(101, {5, 15, 30, 70, 95, 150});

  const Trace trace = Assembled(Of({ring.Copy(1)}), calls);

  CHECK(calls.Sorted(trace, trace.calls.request) == std::vector<uint32_t>{kNone, 0, 0, 0, 0, kNone});
  CHECK(calls.Sorted(trace, trace.calls.batch) == std::vector<uint32_t>{kNone, kNone, 0, kNone, kNone, kNone});
}

TEST_CASE("a collector's call has a context set before the copy begins, unless the request had ended", "[assemble]") {
  Ring ring, other;
  ring.Add(kInstant, 20, 20).Add(pitot::trace::kBatchContextSite, 60, 60, {3, 0});
  other.Add(pitot::trace::kRequestBeginSite, 10, 10, {7, 0, 0, 0, NameWord("/r")})
      .Add(pitot::trace::kBatchBeginSite, 15, 15, {3, NameWord("executor")})
      .Add(pitot::trace::kRequestEndSite, 10, 50, {7, 0, 0, 1, NameWord("/r") | uint64_t{1} << 32, 0, 0, 0, 0});
  RingCopy copy = ring.Copy(1);
  copy.request = 7;  // still
  copy.batch = 9;    // a moment older than the newest record
  copy.oldest = Oldest::kOverwritten;
  CallsOf calls(101, {5, 30, 55, 70});

  const Trace trace = Assembled(Of({copy, other.Copy(2)}), calls);

  CHECK(calls.Sorted(trace, trace.calls.request) == std::vector<uint32_t>{kNone, 0, kNone, kNone});
  CHECK(calls.Sorted(trace, trace.calls.batch) == std::vector<uint32_t>{kNone, 0, 0, kNone});
}

TEST_CASE("a collector's call belongs to the thread alive at the time, if several had the same number", "[assemble]") {
  Ring ring;
  RingCopy first = ring.Copy(1), second = ring.Copy(2);
  first.tid = second.tid = 55;
  first.exited = true;
  first.attach_ticks = 10;
  first.exit_ticks = 400;
  second.attach_ticks = 500;
  CallsOf calls(55, {5, 300, 450, 600});

  SECTION("in either order of reading") {
    Trace trace = Assembled(Of({first, second}), calls);
    CHECK(calls.Sorted(trace, trace.calls.thread) == std::vector<uint32_t>{0, 0, 1, 1});
    trace = Assembled(Of({second, first}), calls);
    CHECK(calls.Sorted(trace, trace.calls.thread) == std::vector<uint32_t>{1, 1, 0, 0});
  }
  SECTION("no known thread, if none was alive any more") {
    const Trace trace = Assembled(Of({first}), calls);
    CHECK(calls.Sorted(trace, trace.calls.thread) == std::vector<uint32_t>{0, 0, kNone, kNone});
  }
  SECTION("even if the first thread's ring was given to another") {
    Snapshot snapshot = Of({second});
    pitot::trace::RecycledRing recycled{};
    recycled.number = 1;
    recycled.tid = 55;
    recycled.attach_ticks = 10;
    recycled.exit_ticks = 400;
    snapshot.recycled = {recycled};
    const Trace trace = Assembled(snapshot, calls);
    CHECK(calls.Sorted(trace, trace.calls.thread) == std::vector<uint32_t>{1, 1, 0, 0});
  }
}
