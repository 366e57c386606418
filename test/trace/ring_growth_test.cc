// SPDX-License-Identifier: Apache-2.0
//
// Rings that grow while their threads record.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "fakes/child.h"
#include "fakes/recording.h"
#include "fakes/scale.h"
#include "fakes/trace_text.h"
#include "fakes/virtual_clock.h"
#include "pitot/interpreter.h"
#include "pitot/trace.h"
#include "trace/mirror.h"
#include "trace/rings.h"

namespace {

using fakes::Recording;
using fakes::RecordingOptions;
using pitot::trace::CountRings;
using pitot::trace::GrowRings;
using pitot::trace::RingShape;
using pitot::trace::ThreadRing;

constexpr uint64_t kKiB = 1 << 10, kMiB = 1 << 20;
constexpr uint64_t kRecordWords = 3;  // an instant with one argument

constexpr RecordingOptions kSmall{.budget_bytes = 64 * kMiB,
                                  .max_ring_bytes = 64 * kKiB,
                                  .min_ring_bytes = 64 * kKiB,
                                  .max_grown_ring_bytes = kMiB,
                                  .reserve_bytes = 16 * kMiB};

// Records numbers, and reads them back.
class Numbers {
 public:
  explicit Numbers(const ThreadRing* ring) : ring_(ring) {}
  void Record(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) PITOT_INSTANT("number", next_++);
  }
  void RecordBytes(uint64_t bytes) { Record(bytes / 8 / kRecordWords); }
  // The numbers in a copy of the ring, if they are the newest ones without a gap; otherwise 0.
  uint64_t Held(const Recording& recording) const {
    pitot::snapshot::Reserve reserve = recording.reserve();
    pitot::snapshot::RingCopy copy;
    pitot::snapshot::CopyRing(*ring_, 0, &reserve, &copy);
    pitot::snapshot::RecordCursor cursor(copy.first, copy.last, copy.now_ticks);
    pitot::snapshot::Record record;
    uint64_t count = 0;
    while (cursor.Next(&record)) {
      if (record.arg_words != 1 || record.args[0] != next_ - ++count) return 0;
    }
    return cursor.IsBroken() ? 0 : count;
  }
  uint64_t HeldBytes(const Recording& recording) const { return Held(recording) * kRecordWords * 8; }
  uint64_t recorded() const { return next_; }

 private:
  const ThreadRing* ring_;
  uint64_t next_ = 0;
};

// One thread with a ring that has turned.
struct Server {
  explicit Server(const RecordingOptions& options = kSmall) : recording(options) {
    threads.Become(0);
    numbers.emplace(threads.ring(0));
    numbers->RecordBytes(options.max_ring_bytes * 3 / 2);
  }
  const ThreadRing* ring() const { return threads.ring(0); }
  uint64_t bytes() const { return pitot::trace::ShapeOf(*ring()).words() * 8; }
  void Grow(uint64_t to_bytes) { GrowRings({{ring()->number, to_bytes}}); }

  Recording recording;
  fakes::VirtualThreads threads;
  std::optional<Numbers> numbers;
};

// A copy leaves out what the thread may be overwriting: less than a record of the largest size, and one more record.
constexpr uint64_t kEdgeBytes = 8 * (pitot::detail::kMaxRecordWords + kRecordWords);

}  // namespace

TEST_CASE("a ring that grows loses nothing by it, and then holds more", "[growth]") {
  Server server;
  REQUIRE(server.numbers->HeldBytes(server.recording) >= 64 * kKiB - kEdgeBytes);

  server.Grow(256 * kKiB);

  CHECK(server.bytes() == 64 * kKiB);  // until its thread records again
  uint64_t written = 0;
  for (; written < 256 * kKiB; written += 999 * kRecordWords * 8) {
    server.numbers->Record(999);
    INFO("after " << written << " bytes");
    CHECK(server.numbers->HeldBytes(server.recording) >= std::max(64 * kKiB, written) - kEdgeBytes);
  }
  CHECK(server.bytes() == 256 * kKiB);
  server.numbers->RecordBytes(kMiB);
  CHECK(server.numbers->HeldBytes(server.recording) >= 256 * kKiB - kEdgeBytes);
}

TEST_CASE("rings that grow at any place and time hold their newest records, whole and in order", "[growth]") {
  for (const uint32_t seed : {1u, 2u, 3u, 4u}) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    Server server({.budget_bytes = 256 * kMiB,
                   .max_ring_bytes = 64 * kKiB,
                   .min_ring_bytes = 64 * kKiB,
                   .max_grown_ring_bytes = 4 * kMiB,
                   .reserve_bytes = 16 * kMiB});
    for (int step = 0; step < 40; ++step) {
      server.numbers->Record(random() % 20'000);
      const RingShape shape = pitot::trace::ShapeOf(*server.ring());
      const uint64_t there = server.ring()->head - shape.OldestAt(server.ring()->head + 64);
      const uint64_t held = server.numbers->Held(server.recording);
      CHECK(held >= std::min(server.numbers->recorded(), there / kRecordWords - 1));
      if (random() % 3 == 0) server.Grow(server.bytes() << (1 + random() % 3));
    }
    CHECK(server.bytes() == 4 * kMiB);
  }
}

TEST_CASE("a ring grows to its bound and no further", "[growth]") {
  Server server;
  for (int i = 0; i < 10; ++i) {
    server.Grow(64 * kMiB);
    server.numbers->RecordBytes(2 * kMiB);
  }

  CHECK(server.bytes() == kMiB);
  CHECK(CountRings().bytes_used == kMiB + 4096);
}

TEST_CASE("a ring takes two thirds of what is left beside the smallest rings' part", "[growth]") {
  RecordingOptions options = kSmall;
  options.budget_bytes = kMiB;
  Server server(options);

  for (int i = 0; i < 10; ++i) {
    server.Grow(kMiB);
    server.numbers->RecordBytes(2 * kMiB);
  }

  // 956 KiB are left, apart from 512 that is 444. It takes 192, less than 296. The next step would be 256 of 252.
  CHECK(server.bytes() == 256 * kKiB);
  CHECK(CountRings().bytes_used == 256 * kKiB + 4096);
}

TEST_CASE("without a bound above their first size rings do not grow", "[growth]") {
  RecordingOptions options = kSmall;
  options.max_grown_ring_bytes = 0;
  Server server(options);
  server.Grow(kMiB);
  server.numbers->Record(1);

  CHECK(server.bytes() == 64 * kKiB);
  CHECK(CountRings().bytes_used == 64 * kKiB + 4096);
}

TEST_CASE("a ring that has not turned since it grew does not grow again", "[growth]") {
  Server server;
  server.Grow(128 * kKiB);
  server.numbers->RecordBytes(100 * kKiB);
  server.Grow(kMiB);
  server.numbers->Record(1);
  CHECK(server.bytes() == 128 * kKiB);

  server.numbers->RecordBytes(64 * kKiB);
  server.Grow(kMiB);
  server.numbers->Record(1);
  CHECK(server.bytes() == kMiB);
}

TEST_CASE("a ring is offered its growth once", "[growth]") {
  Server server;
  server.Grow(256 * kKiB);
  server.Grow(256 * kKiB);
  server.Grow(kMiB);

  CHECK(CountRings().bytes_used == 256 * kKiB + 4096);
  server.numbers->Record(1);
  CHECK(server.bytes() == 256 * kKiB);
}

TEST_CASE("an offer that its thread has missed is made again", "[growth]") {
  Server server;
  // The gate counts offers modulo 32.
  for (int i = 0; i < 32; ++i) server.Grow(256 * kKiB);
  server.numbers->Record(1);
  CHECK(server.bytes() == 64 * kKiB);

  server.Grow(256 * kKiB);
  server.numbers->Record(1);

  CHECK(server.bytes() == 256 * kKiB);
  CHECK(CountRings().bytes_used == 256 * kKiB + 4096);
}

TEST_CASE("a thread whose ring grows takes no page fault for it", "[growth]") {
  if (fakes::kThreadSanitizer || fakes::kAddressSanitizer) return;
  const auto faults = [] {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt + usage.ru_majflt;
  };
  const Recording recording(kSmall);
  uint32_t number = 0;
  uint64_t bytes = 0;
  int64_t taken = 0;
  std::atomic<int> turn{0};
  std::thread thread([&] {
    const ThreadRing* const ring = pitot::trace::EnterThread();
    Numbers numbers(ring);
    numbers.RecordBytes(128 * kKiB);
    number = ring->number;
    turn = 1;
    turn.notify_all();
    turn.wait(1);
    (void)faults();
    const int64_t before = faults();
    numbers.RecordBytes(4 * kMiB);
    taken = faults() - before;
    bytes = pitot::trace::ShapeOf(*ring).words() * 8;
  });
  turn.wait(0);
  GrowRings({{number, kMiB}});
  turn = 2;
  turn.notify_all();
  thread.join();

  CHECK(bytes == kMiB);
  CHECK(taken == 0);
}

TEST_CASE("a thread may exit before it takes its growth, and the next one with its ring has it", "[growth]") {
  RecordingOptions options = kSmall;
  options.budget_bytes = 512 * kKiB;
  const Recording recording(options);
  // One ring of 64 KiB, and others until the budget has no more: they are recycled from here on.
  std::thread([] {
    Numbers numbers(pitot::trace::EnterThread());
    numbers.RecordBytes(128 * kKiB);
    GrowRings({{pitot::trace::EnterThread()->number, 128 * kKiB}});
  }).join();
  const uint64_t used = CountRings().bytes_used;
  REQUIRE(used == 128 * kKiB + 4096);
  std::vector<uint64_t> sizes;
  for (int i = 0; i < 40; ++i) {
    std::thread([&] {
      const ThreadRing* const ring = pitot::trace::EnterThread();
      Numbers numbers(ring);
      numbers.RecordBytes(kMiB);
      sizes.push_back(numbers.HeldBytes(recording));
    }).join();
  }

  CHECK(CountRings().bytes_used <= 512 * kKiB);
  CHECK(std::count_if(sizes.begin(), sizes.end(), [](uint64_t size) { return size >= 128 * kKiB - kEdgeBytes; }) > 0);
  CHECK(std::all_of(sizes.begin(), sizes.end(), [](uint64_t size) { return size >= 64 * kKiB - kEdgeBytes; }));
}

TEST_CASE("a recorder that stops after an offer leaves a ring of the first size to the next", "[growth]") {
  for (const bool is_taken : {false, true}) {
    INFO("taken: " << is_taken);
    std::thread([&] {
      auto recording = std::make_unique<Recording>(kSmall);
      Numbers numbers(pitot::trace::EnterThread());
      numbers.RecordBytes(128 * kKiB);
      GrowRings({{pitot::trace::EnterThread()->number, kMiB}});
      if (is_taken) numbers.RecordBytes(kMiB);
      recording.reset();
      numbers.Record(10);  // by nobody
      recording = std::make_unique<Recording>(kSmall);
      Numbers others(pitot::trace::EnterThread());
      CHECK(CountRings().bytes_used == 64 * kKiB + 4096);
      others.RecordBytes(kMiB);
      CHECK(others.HeldBytes(*recording) >= 64 * kKiB - kEdgeBytes);
      CHECK(others.HeldBytes(*recording) <= 64 * kKiB);
    }).join();
  }
}

TEST_CASE("a ring parked by a recorder without growth grows in the next", "[growth]") {
  std::thread([] {
    RecordingOptions options = kSmall;
    options.max_grown_ring_bytes = 0;
    auto recording = std::make_unique<Recording>(options);
    PITOT_INSTANT("gets a ring");
    recording.reset();
    recording = std::make_unique<Recording>(kSmall);
    Numbers numbers(pitot::trace::EnterThread());
    numbers.RecordBytes(128 * kKiB);
    GrowRings({{pitot::trace::EnterThread()->number, kMiB}});
    numbers.RecordBytes(2 * kMiB);
    CHECK(numbers.HeldBytes(*recording) >= kMiB - kEdgeBytes);
  }).join();
}

TEST_CASE("a child forked between an offer and its taking records with a ring of its own", "[growth][fork]") {
  if (fakes::kThreadSanitizer) return;
  std::thread([] {
    auto recording = std::make_unique<Recording>(kSmall);
    Numbers numbers(pitot::trace::EnterThread());
    numbers.RecordBytes(128 * kKiB);
    GrowRings({{pitot::trace::EnterThread()->number, kMiB}});
    const int failed = fakes::InChild([&] {
      pitot::trace::ForgetRingsAfterFork();
      const Recording own(kSmall);
      Numbers childs(pitot::trace::EnterThread());
      childs.RecordBytes(kMiB);
      return childs.HeldBytes(own) >= 64 * kKiB - kEdgeBytes && childs.HeldBytes(own) <= 64 * kKiB ? 0 : 1;
    });
    CHECK(failed == 0);
    numbers.RecordBytes(kMiB);
    CHECK(numbers.HeldBytes(*recording) >= kMiB - kEdgeBytes);
  }).join();
}

TEST_CASE("an offer is no new recorder: steps and mirrors stay as they are", "[growth]") {
  RecordingOptions options = kSmall;
  options.budget_bytes = 2 * (68 * kKiB) + 300 * kKiB;
  options.min_ring_bytes = 64 * kKiB;
  Server server(options);
  const pitot::trace::Step* const step = pitot::trace::StepOn(server.ring());
  pitot::trace::StepOn(server.ring())->begin = 77;
  server.Grow(128 * kKiB);
  const ThreadRing* const before = pitot::trace::AttachedRing();
  server.numbers->Record(1);

  CHECK(before == server.ring());
  REQUIRE(server.bytes() == 128 * kKiB);
  CHECK(pitot::trace::StepOn(server.ring())->begin == 77);
  CHECK(step == pitot::trace::StepOn(server.ring()));

  const pitot::trace::Mirror mirror{};
  pitot::trace::SetMirror(pitot::trace::MirrorUse::kTool, &mirror);
  CHECK((pitot::detail::g_gate & pitot::detail::kFastClock) == 0);
  pitot::trace::SetMirror(pitot::trace::MirrorUse::kTool, nullptr);
}

TEST_CASE("a refused thread does not search again because the gate changed", "[growth]") {
  RecordingOptions options = kSmall;
  options.budget_bytes = 68 * kKiB;
  const Server server(options);
  std::thread([] {
    PITOT_INSTANT("refused");
    const auto before = CountRings();
    REQUIRE(before.threads_refused == 1);
    const pitot::trace::Mirror mirror{};
    pitot::trace::SetMirror(pitot::trace::MirrorUse::kTool, &mirror);
    PITOT_INSTANT("refused");
    pitot::trace::SetMirror(pitot::trace::MirrorUse::kTool, nullptr);
    PITOT_INSTANT("refused");
    CHECK(CountRings().threads_refused == 1);
    CHECK(CountRings().searches == before.searches);
    CHECK(CountRings().events_refused == before.events_refused + 2);
  }).join();
}

TEST_CASE("a thread that begins while a ring grows gets a ring all the same", "[growth]") {
  Server server;
  const uint32_t before = pitot::detail::g_gate;
  server.Grow(128 * kKiB);
  REQUIRE(pitot::detail::g_gate != before);
  std::thread([before] {
    const auto* const ring = static_cast<const ThreadRing*>(pitot::detail::Attach(before));
    REQUIRE(ring != nullptr);
    CHECK(ring->gate == pitot::detail::g_gate);
  }).join();
  CHECK(CountRings().events_refused == 0);
}

TEST_CASE("threads that come and go while their rings grow leave the budget as it was", "[growth][stress]") {
  RecordingOptions options = kSmall;
  options.budget_bytes = 4 * kMiB;
  const Recording recording(options);
  std::atomic<bool> is_over{false};
  std::thread grower([&] {
    while (!is_over.load()) {
      std::vector<pitot::trace::RingWish> wishes;
      for (const ThreadRing* ring : pitot::trace::PinnedRings()) wishes.push_back({ring->number, 256 * kKiB});
      GrowRings(wishes);
    }
  });
  uint64_t wrong = 0, most = 0;
  for (int i = 0; i < 100; ++i) {
    std::vector<std::thread> threads;
    for (int n = 0; n < 3; ++n) {
      threads.emplace_back([&, i] {
        const ThreadRing* const ring = pitot::trace::EnterThread();
        if (ring == nullptr) return;  // all retired ones are growing just now
        const uint64_t offer = ring->offer.load();
        for (int k = 0; (i == 0 || k < 20'000) && ring->offer.load() == offer; ++k) PITOT_INSTANT("number", k);
      });
    }
    for (std::thread& thread : threads) thread.join();
    most = std::max(most, CountRings().bytes_used);
  }
  is_over = true;
  grower.join();
  uint64_t bytes = 0, grown = 0;
  for (const ThreadRing* ring : pitot::trace::PinnedRings()) {
    bytes += pitot::trace::BytesOf(*ring) + 4096;
    grown += pitot::trace::BytesOf(*ring) > 64 * kKiB;
    wrong += ring->offer.load() * 8 != pitot::trace::BytesOf(*ring);
  }

  CHECK(wrong == 0);
  CHECK(grown > 0);
  CHECK(CountRings().bytes_used == bytes);
  CHECK(most <= 4 * kMiB);
}

TEST_CASE("copies made while rings grow hold the newest records, whole and in order", "[growth][stress]") {
  const int rounds = fakes::kThreadSanitizer ? 3 : 10;
  uint64_t copies = 0, wrong = 0, changed = 0;
  for (int round = 0; round < rounds; ++round) {
    const Recording recording({.budget_bytes = 256 * kMiB,
                               .max_ring_bytes = 64 * kKiB,
                               .min_ring_bytes = 64 * kKiB,
                               .max_grown_ring_bytes = 8 * kMiB,
                               .reserve_bytes = 32 * kMiB});
    std::atomic<const ThreadRing*> shared{nullptr};
    std::atomic<bool> is_over{false};
    std::thread writer([&] {
      shared = pitot::trace::EnterThread();
      for (uint64_t number = 0; !is_over.load(std::memory_order_relaxed); ++number) {
        PITOT_INSTANT("number", number, ~number);
      }
    });
    while (shared.load() == nullptr) std::this_thread::yield();
    const ThreadRing& ring = *shared.load();
    // Another thread makes the offers: a copy is under way whenever the writer takes one.
    std::thread grower([&] {
      uint64_t bytes = 64 * kKiB;
      while (!is_over.load() && bytes < 8 * kMiB) {
        if (pitot::trace::ShapeOf(ring).words() * 8 == bytes) bytes *= 2;
        GrowRings({{ring.number, bytes}});
      }
      is_over = true;
    });
    while (!is_over.load()) {
      pitot::snapshot::Reserve reserve = recording.reserve();
      pitot::snapshot::RingCopy copy;
      const uint64_t shape = ring.shape.load();
      pitot::snapshot::CopyRing(ring, 0, &reserve, &copy);
      changed += shape != ring.shape.load();
      ++copies;
      pitot::snapshot::RecordCursor cursor(copy.first, copy.last, copy.now_ticks);
      pitot::snapshot::Record record;
      uint64_t newer = 0;
      while (cursor.Next(&record)) {
        wrong += record.arg_words != 2 || record.args[1] != ~record.args[0];
        wrong += newer != 0 && record.args[0] + 1 != newer;
        newer = record.args[0];
      }
      wrong += cursor.IsBroken();
      wrong += copy.oldest == pitot::snapshot::Oldest::kBroken;
    }
    writer.join();
    grower.join();
  }

  INFO(copies << " copies, during " << changed << " of them the ring grew");
  CHECK(wrong == 0);
  CHECK(changed > 0);
}
