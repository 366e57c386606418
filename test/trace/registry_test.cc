// SPDX-License-Identifier: Apache-2.0
//
// Rings of threads: their owners, their sizes, and their ends.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fakes/recording.h"
#include "fakes/scale.h"
#include "fakes/trace_text.h"
#include "fakes/virtual_clock.h"
#include "fakes/wait_until.h"
#include "pitot/manual.h"
#include "pitot/options.h"
#include "pitot/phase.h"
#include "pitot/trace.h"
#include "session/memory_budget.h"
#include "snapshot/former_threads.h"
#include "trace/internal_sites.h"

namespace {

using fakes::Events;
using fakes::EventsNamed;
using fakes::Recording;
using pitot::trace::CountRings;

void InThread(auto body) { std::thread(body).join(); }
// The last of a thread whose ring is not handed on with its records.
void ExitInsideScope() { pitot::BeginScope(pitot::Intern("open")); }

// Waiting threads that have recorded something.
class LivingThreads {
 public:
  explicit LivingThreads(int count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, i] {
        PITOT_INSTANT("alive", i);
        std::unique_lock lock(mutex_);
        ++recorded_;
        changed_.notify_all();
        changed_.wait(lock, [this] { return over_; });
      });
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return recorded_ == count; });
  }
  ~LivingThreads() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      changed_.notify_all();
    }
    for (auto& thread : threads_) thread.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int recorded_ = 0;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

// The rings of a recorder with default options.
fakes::RecordingOptions DefaultRings() {
  const pitot::Options options;
  return {.budget_bytes = pitot::session::Split(options).rings,
          .max_ring_bytes = options.max_ring_bytes,
          .min_ring_bytes = options.min_ring_bytes};
}

// Pages of the process: resident, and mapped.
struct Memory {
  uint64_t resident_bytes = 0, mapped_bytes = 0;
};
Memory MemoryNow() {
  std::ifstream statm("/proc/self/statm");
  Memory memory;
  statm >> memory.mapped_bytes >> memory.resident_bytes;
  memory.mapped_bytes *= 4096;
  memory.resident_bytes *= 4096;
  return memory;
}

}  // namespace

TEST_CASE("the first threads get large rings, later ones smaller, and the budget is kept", "[registry]") {
  const Recording recording({.budget_bytes = 2 << 20, .max_ring_bytes = 1 << 18, .min_ring_bytes = 1 << 14});
  const LivingThreads threads(60);

  const auto snapshot = recording.Snapshot();
  const auto counts = CountRings();

  uint64_t largest = 0, smallest = ~uint64_t{0};
  const pitot::trace::PinnedRings rings;
  for (const auto* ring : rings) {
    largest = std::max(largest, pitot::trace::BytesOf(*ring));
    smallest = std::min(smallest, pitot::trace::BytesOf(*ring));
  }
  CHECK(largest == 1 << 16);  // 12 of the next larger size and half of the budget would not fit
  CHECK(smallest == 1 << 14);
  CHECK(counts.live == 60);
  CHECK(counts.threads_refused == 0);
  CHECK(counts.bytes_used <= 2 << 20);
  CHECK(snapshot.rings.size() == 60);
}

TEST_CASE("a thread without a ring records nothing and is counted", "[registry]") {
  const Recording recording({.budget_bytes = 100 << 10, .max_ring_bytes = 1 << 14, .min_ring_bytes = 1 << 14});
  const LivingThreads threads(5);  // 20 KiB each

  InThread([] {
    for (int i = 0; i < 10; ++i) PITOT_INSTANT("refused");
  });

  const auto counts = CountRings();
  const auto trace = recording.Trace();
  CHECK(counts.threads_refused == 1);
  CHECK(counts.events_refused == 10);
  CHECK(counts.bytes_used == 5 * (20 << 10));
  CHECK(EventsNamed(trace, "refused").empty());
  REQUIRE(trace.losses.size() == 1);
  CHECK(trace.losses[0].reason == pitot::model::LossReason::kRefused);
  CHECK(trace.losses[0].events == 10);
}

TEST_CASE("a refused thread records as soon as another gives its ring back", "[registry]") {
  const Recording recording({.budget_bytes = 100 << 10, .max_ring_bytes = 1 << 14, .min_ring_bytes = 1 << 14});
  auto threads = std::make_unique<LivingThreads>(5);
  std::atomic<int> step{0};
  std::thread late([&] {
    PITOT_INSTANT("before");
    step = 1;
    fakes::WaitUntil([&] { return step == 2; });
    PITOT_INSTANT("after");
    step = 3;
    fakes::WaitUntil([&] { return step == 4; });
  });
  REQUIRE(fakes::WaitUntil([&] { return step == 1; }));
  threads.reset();
  step = 2;
  REQUIRE(fakes::WaitUntil([&] { return step == 3; }));

  const auto trace = recording.Trace();
  step = 4;
  late.join();

  CHECK(EventsNamed(trace, "before").empty());
  CHECK(EventsNamed(trace, "after").size() == 1);
  CHECK(CountRings().threads_refused == 1);
  CHECK(CountRings().events_refused == 1);
}

TEST_CASE("a thread takes over the ring of an exited one, and the records of both stay readable", "[registry]") {
  const Recording recording({.budget_bytes = 100 << 10, .max_ring_bytes = 1 << 14, .min_ring_bytes = 1 << 14});
  for (int i = 0; i < 7; ++i) {
    InThread([i] {
      pitot::SetThreadName(("the name of thread " + std::to_string(i)).c_str());
      PITOT_INSTANT("thread", i);
    });
  }
  PITOT_INSTANT("alive");

  const auto trace = recording.Trace();

  CHECK(CountRings().bytes_used == 20 << 10);
  CHECK(CountRings().events == 8);
  CHECK(CountRings().rings_recycled == 0);
  CHECK(trace.losses.empty());
  CHECK(pitot::model::FindInconsistency(trace) == "");
  REQUIRE(trace.threads.size() == 8);
  const auto events = EventsNamed(trace, "thread");
  REQUIRE(events.size() == 7);
  for (uint32_t i = 0; i < 7; ++i) {
    CHECK(trace.threads[i].number == i + 1);
    CHECK(trace.threads[i].exited);
    CHECK(trace.strings[trace.threads[i].name] == "the name of thread " + std::to_string(i));
    CHECK(events[i].thread == trace.strings[trace.threads[i].name]);
    CHECK(events[i].args[0].second == std::to_string(i));
  }
  CHECK_FALSE(trace.threads[7].exited);
}

TEST_CASE("the newest of many threads are in the ring that they had in turn, and the loss of the others is known",
          "[registry]") {
  constexpr int kThreads = fakes::kThreadSanitizer ? 500 : 2000;
  const Recording recording({.budget_bytes = 20 << 10, .max_ring_bytes = 1 << 14, .min_ring_bytes = 1 << 14});
  for (int i = 0; i < kThreads; ++i) InThread([i] { PITOT_INSTANT("thread", i); });

  const auto trace = recording.Trace();

  const auto events = EventsNamed(trace, "thread");
  REQUIRE(events.size() >= 100);
  CHECK(events.size() < kThreads);
  for (size_t i = 0; i < events.size(); ++i)
    CHECK(events[i].args[0].second == std::to_string(kThreads - events.size() + i));
  CHECK(CountRings().events == kThreads);
  CHECK(pitot::model::FindInconsistency(trace) == "");
  const auto is_of_former = [](const auto& loss) {
    return loss.thread == pitot::model::kNone && loss.reason == pitot::model::LossReason::kRecycled;
  };
  const auto loss = std::find_if(trace.losses.begin(), trace.losses.end(), is_of_former);
  REQUIRE(loss != trace.losses.end());
  CHECK(loss->begin_ns == trace.window_begin_ns);
  CHECK(loss->end_ns <= events[0].begin_ns);
}

TEST_CASE("a copy is split into as many former threads as there is room for, the newest first", "[registry]") {
  const Recording recording({.budget_bytes = 20 << 10, .max_ring_bytes = 1 << 14, .min_ring_bytes = 1 << 14});
  for (int i = 0; i < 5; ++i) InThread([i] { PITOT_INSTANT("thread", i); });
  pitot::snapshot::RingCopy copy;
  std::vector<pitot::snapshot::RingCopy> formers;
  {
    const pitot::trace::PinnedRings rings;
    REQUIRE(rings.size() == 1);
    pitot::snapshot::Reserve reserve = recording.reserve();
    pitot::snapshot::CopyRing(rings[0], 0, &reserve, &copy);
  }
  CHECK(copy.former_threads == 4);

  pitot::snapshot::SplitByThread(reinterpret_cast<uintptr_t>(&pitot::trace::kThreadEndSite), 2, &copy, &formers);

  CHECK(copy.number == 5);
  CHECK(copy.last - copy.first == 3);
  REQUIRE(formers.size() == 2);
  CHECK(formers[0].number == 4);
  CHECK(formers[1].number == 3);
  for (const pitot::snapshot::RingCopy& former : formers) CHECK(former.last - former.first == 3);
  CHECK(formers[1].oldest == pitot::snapshot::Oldest::kAttach);
  CHECK(formers[1].former_threads == 2);
  CHECK(copy.former_threads == 0);
}

TEST_CASE("former threads from before the window are no loss", "[registry]") {
  const Recording recording({.budget_bytes = 20 << 10, .max_ring_bytes = 1 << 14, .min_ring_bytes = 1 << 14});
  for (int i = 0; i < 500; ++i) InThread([] { PITOT_INSTANT("before"); });
  const uint64_t begin = recording.Now();
  InThread([] { PITOT_INSTANT("inside"); });

  const auto trace = recording.Trace(begin);

  CHECK(EventsNamed(trace, "inside").size() == 1);
  CHECK(trace.losses.empty());
}

TEST_CASE("a snapshot has the exit times of exited threads", "[registry]") {
  const Recording recording;
  PITOT_INSTANT("here");
  const uint64_t before_ticks = recording.Now();
  InThread([] { PITOT_INSTANT("gone"); });

  const pitot::snapshot::Snapshot snapshot = recording.Snapshot();

  REQUIRE(snapshot.rings.size() == 2);
  for (const pitot::snapshot::RingCopy& ring : snapshot.rings) {
    CHECK(ring.exited == (ring.exit_ticks != 0));
    if (!ring.exited) continue;
    CHECK(ring.exit_ticks > before_ticks);
    CHECK(ring.exit_ticks <= snapshot.window_end_ticks);
  }
}

TEST_CASE("the ring of a thread that exited inside a scope shows nothing of it to the next", "[registry]") {
  const Recording recording({.budget_bytes = 20 << 10, .max_ring_bytes = 1 << 14, .min_ring_bytes = 1 << 14});
  InThread([] {
    pthread_setname_np(pthread_self(), "former");
    for (int i = 0; i < 100; ++i) PITOT_INSTANT("former");
    ExitInsideScope();
  });
  InThread([] {
    pthread_setname_np(pthread_self(), "latter");
    PITOT_INSTANT("latter");
  });

  const auto trace = recording.Trace();

  REQUIRE(trace.threads.size() == 2);
  CHECK(trace.threads[0].number == 2);
  CHECK(trace.strings[trace.threads[0].name] == "latter");
  REQUIRE(Events(trace).size() == 1);
  CHECK(Events(trace)[0].name == "latter");
  // Except for a loss.
  CHECK(trace.threads[1].number == 1);
  CHECK(trace.strings[trace.threads[1].name] == "former");
  REQUIRE(trace.losses.size() == 1);
  CHECK(trace.losses[0].reason == pitot::model::LossReason::kRecycled);
  CHECK(trace.losses[0].thread == 1);
  CHECK(trace.losses[0].events == 100);
}

TEST_CASE("a ring that is recycled says whether records of former threads go with it", "[registry]") {
  const Recording recording({.budget_bytes = 40 << 10, .max_ring_bytes = 1 << 14, .min_ring_bytes = 1 << 14});
  InThread([] { PITOT_INSTANT("first"); });
  for (int i = 0; i < 2; ++i) {  // the first of them has the ring of the thread before
    InThread([] {
      PITOT_INSTANT("in a scope");
      ExitInsideScope();
    });
  }
  for (int i = 0; i < 2; ++i) InThread([] { ExitInsideScope(); });

  const auto recycled = pitot::trace::RecentlyRecycled();

  REQUIRE(recycled.size() == 2);
  CHECK(recycled[0].number == 2);
  CHECK(recycled[0].had_former_threads);
  CHECK_FALSE(recycled[1].had_former_threads);
}

TEST_CASE("the loss by recycling is known: the thread, its extent and its time", "[registry]") {
  const Recording recording({.budget_bytes = 40 << 10, .max_ring_bytes = 1 << 14, .min_ring_bytes = 1 << 14});
  const uint64_t begin = recording.Now();
  for (int i = 0; i < 2; ++i) {
    InThread([] {
      pitot::SetThreadName("former");
      for (int n = 0; n < 100; ++n) PITOT_INSTANT("former");
      ExitInsideScope();
    });
  }
  CHECK(CountRings().rings_recycled == 0);
  CHECK(pitot::trace::RecentlyRecycled().empty());
  const uint64_t middle = recording.Now();
  InThread([] { PITOT_INSTANT("latter"); });

  const auto counts = CountRings();
  const auto recycled = pitot::trace::RecentlyRecycled();

  CHECK(counts.rings_recycled == 1);
  CHECK(counts.events_recycled == 100);
  REQUIRE(recycled.size() == 1);
  CHECK(recycled[0].number == 1);
  CHECK(recycled[0].tid != 0);
  CHECK(std::string(recycled[0].name) == "former");
  CHECK(recycled[0].events == 100);
  CHECK(recycled[0].attach_ticks >= begin);
  CHECK(recycled[0].exit_ticks >= recycled[0].attach_ticks);
  CHECK(recycled[0].exit_ticks <= middle);
  CHECK(counts.recycled_exit_ticks == recycled[0].exit_ticks);
}

TEST_CASE("the last of many recycled rings are known one by one, all of them by number", "[registry]") {
  constexpr uint32_t kThreads = 200;
  const Recording recording({.budget_bytes = 20 << 10, .max_ring_bytes = 1 << 14, .min_ring_bytes = 1 << 14});
  for (uint32_t i = 0; i < kThreads; ++i) {
    InThread([] {
      PITOT_INSTANT("event");
      ExitInsideScope();
    });
  }

  const auto recycled = pitot::trace::RecentlyRecycled();

  CHECK(CountRings().rings_recycled == kThreads - 1);
  CHECK(CountRings().events_recycled == kThreads - 1);
  REQUIRE(recycled.size() == pitot::trace::kMaxRecycledKept);
  for (uint32_t i = 0; i < recycled.size(); ++i)
    CHECK(recycled[i].number == kThreads - pitot::trace::kMaxRecycledKept + i);
}

TEST_CASE("the ring of an exited thread is not recycled with default options while the budget has room", "[registry]") {
  constexpr int kThreads = 500;
  const Recording recording(DefaultRings());
  for (int i = 0; i < kThreads; ++i) InThread([i] { PITOT_INSTANT("thread", i); });

  CHECK(CountRings().rings_recycled == 0);
  CHECK(EventsNamed(recording.Trace(), "thread").size() == kThreads);
}

TEST_CASE("a ring being read is not recycled, and a refused thread gets it afterwards", "[registry]") {
  const Recording recording({.budget_bytes = 20 << 10, .max_ring_bytes = 1 << 14, .min_ring_bytes = 1 << 14});
  InThread([] { PITOT_INSTANT("former"); });
  InThread([] {
    {
      const pitot::trace::PinnedRings rings;
      PITOT_INSTANT("while it is read");
    }
    PITOT_INSTANT("afterwards");
  });

  const auto trace = recording.Trace();

  CHECK(CountRings().events_refused == 1);
  CHECK(EventsNamed(trace, "while it is read").empty());
  CHECK(EventsNamed(trace, "afterwards").size() == 1);
}

TEST_CASE("a refused thread looks for a ring only when one has become free", "[registry]") {
  const Recording recording({.budget_bytes = 20 << 10, .max_ring_bytes = 1 << 14, .min_ring_bytes = 1 << 14});
  const LivingThreads thread(1);
  uint64_t searches = 0;
  InThread([&] {
    PITOT_INSTANT("refused");
    searches = CountRings().searches;
    for (int i = 0; i < 100; ++i) {
      const pitot::trace::PinnedRings watched;  // like a watchdog, all the time
      PITOT_INSTANT("refused");
    }
  });

  CHECK(CountRings().events_refused == 101);
  CHECK(CountRings().searches == searches);
}

TEST_CASE("10,000 threads one after another stay within the default budget and none is refused", "[registry]") {
  constexpr int kThreads = fakes::kThreadSanitizer ? 1500 : fakes::Scaled(10'000);
  const auto limits = DefaultRings();
  const Recording recording(limits);
  uint64_t most_used = 0;
  for (int i = 0; i < kThreads; ++i) {
    InThread([i] {
      PITOT_SCOPE("short lived", i);
      PITOT_INSTANT("inside");
    });
    if (i % 100 == 0) most_used = std::max(most_used, CountRings().bytes_used);
  }

  const auto counts = CountRings();
  const auto trace = recording.Trace();

  CHECK(counts.threads_refused == 0);
  CHECK(counts.live == 0);
  CHECK(std::max(most_used, counts.bytes_used) <= limits.budget_bytes);
  CHECK(counts.events == 2 * kThreads);
  CHECK(counts.rings_recycled == 0);
  CHECK(pitot::model::FindInconsistency(trace) == "");
  // The newest are there, without a gap.
  const auto events = EventsNamed(trace, "short lived");
  REQUIRE(events.size() >= 1000);
  for (size_t i = 0; i < events.size(); ++i) {
    const int expected = kThreads - static_cast<int>(events.size()) + static_cast<int>(i);
    if (events[i].args[0].second != std::to_string(expected)) FAIL("thread " << expected << " is missing");
  }
}

TEST_CASE("2,000 threads alive at once record within the default budget", "[registry]") {
  constexpr int kThreads = fakes::kThreadSanitizer ? 500 : 2000;
  const auto limits = DefaultRings();
  const Recording recording(limits);
  const LivingThreads threads(kThreads);

  const auto counts = CountRings();
  const auto trace = recording.Trace();

  CHECK(counts.live == kThreads);
  CHECK(counts.threads_refused == 0);
  CHECK(counts.bytes_used <= limits.budget_bytes);
  CHECK(EventsNamed(trace, "alive").size() == kThreads);
  CHECK(pitot::model::FindInconsistency(trace) == "");
}

TEST_CASE("the system names threads, even if they are renamed after their first event", "[registry]") {
  const Recording recording;
  std::atomic<int> step{0};
  std::thread living([&] {
    PITOT_INSTANT("living");
    pthread_setname_np(pthread_self(), "renamed late");
    step = 1;
    fakes::WaitUntil([&] { return step == 2; });
  });
  InThread([] {
    PITOT_INSTANT("exited");
    pthread_setname_np(pthread_self(), "exited late");
  });
  REQUIRE(fakes::WaitUntil([&] { return step == 1; }));

  const auto trace = recording.Trace();
  step = 2;
  living.join();

  REQUIRE(EventsNamed(trace, "living").size() == 1);
  CHECK(EventsNamed(trace, "living")[0].thread == "renamed late");
  CHECK(EventsNamed(trace, "exited")[0].thread == "exited late");
}

TEST_CASE("SetThreadName names a thread before and after its first event, cut at 63 bytes", "[registry]") {
  const Recording recording;
  InThread([] {
    pitot::SetThreadName("before");
    PITOT_INSTANT("one");
  });
  InThread([] {
    PITOT_INSTANT("two");
    pitot::SetThreadName("after");
  });
  InThread([] {
    pitot::SetThreadName((std::string(62, 'x') + "yz").c_str());
    PITOT_INSTANT("three");
  });
  InThread([] {
    pthread_setname_np(pthread_self(), "system");
    pitot::SetThreadName(nullptr);
    PITOT_INSTANT("four");
    pitot::SetThreadName("");
  });
  InThread([] {
    pitot::SetThreadName("bad \xff");
    PITOT_INSTANT("five");
  });

  const auto trace = recording.Trace();

  CHECK(EventsNamed(trace, "one")[0].thread == "before");
  CHECK(EventsNamed(trace, "two")[0].thread == "after");
  CHECK(EventsNamed(trace, "three")[0].thread == std::string(62, 'x') + "y");
  CHECK(EventsNamed(trace, "four")[0].thread == "system");
  CHECK(EventsNamed(trace, "five")[0].thread == "bad \xef\xbf\xbd");
}

namespace {
struct RecordsAtExit {
  ~RecordsAtExit() { PITOT_SCOPE("thread_local destructor"); }
  void Touch() {}
};
thread_local RecordsAtExit t_records_at_exit;
pthread_key_t g_late_key;
void RecordInKeyDestructor(void*) { PITOT_INSTANT("key destructor"); }
}  // namespace

TEST_CASE("thread_local destructors record, and even later events do no harm", "[registry]") {
  REQUIRE(pthread_key_create(&g_late_key, RecordInKeyDestructor) == 0);
  const Recording recording;
  InThread([] {
    t_records_at_exit.Touch();
    PITOT_INSTANT("alive");
    pthread_setspecific(g_late_key, &g_late_key);
  });
  // A thread with its very first event in its destructor.
  InThread([] { t_records_at_exit.Touch(); });

  const auto trace = recording.Trace();
  pthread_key_delete(g_late_key);

  CHECK(EventsNamed(trace, "thread_local destructor").size() == 2);
  CHECK(EventsNamed(trace, "key destructor").size() + CountRings().events_refused == 1);
  CHECK(CountRings().live == 0);
  CHECK(pitot::model::FindInconsistency(trace) == "");
}

TEST_CASE("opening and closing 1,000 times under recording threads leaks nothing", "[registry]") {
  constexpr int kTimes = fakes::Scaled(1000);  // about 1 ms each, most of it the calibration
  constexpr int kThreads = 4;
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&over] {
      const pitot::Name name = pitot::Intern("named");
      while (!over.load(std::memory_order_relaxed)) {
        PITOT_SCOPE("outer", 1, "text");
        PITOT_SCOPE_IF_SLOWER("rarely", 100'000);
        PITOT_SCOPE_NAMED(name);
        PITOT_LEAF("leaf");
      }
    });
  }
  Memory before;
  uint64_t most_parked = 0;
  bool all_opened = true;
  for (int i = 0; i < kTimes; ++i) {
    {
      const Recording recording({.max_ring_bytes = 1 << 18});
      all_opened = all_opened && recording.ok();
      PITOT_INSTANT("main");
      InThread([] { PITOT_INSTANT("short lived"); });
      if (i % 10 == 0) (void)recording.Snapshot();
    }
    most_parked = std::max(most_parked, CountRings().bytes_parked);
    if (i == kTimes / 10) before = MemoryNow();
  }
  const Memory after = MemoryNow();
  over = true;
  for (auto& thread : threads) thread.join();

  CHECK(all_opened);
  CHECK(most_parked <= (kThreads + 1) * (1 << 18));
  if (!fakes::kThreadSanitizer && !fakes::kAddressSanitizer) {
    CHECK(after.mapped_bytes <= before.mapped_bytes + (4 << 20));
    CHECK(after.resident_bytes <= before.resident_bytes + (4 << 20));
  }
  CHECK(CountRings().bytes_parked <= 1 << 18);  // the ring of this thread
}

TEST_CASE("a parked ring is used again, and unmapped if it does not suit", "[registry]") {
  const uint64_t parked_before = CountRings().bytes_parked;  // of this thread, from other tests
  InThread([] {
    for (const uint64_t max_bytes : {1 << 16, 1 << 16, 1 << 12}) {
      const Recording recording({.budget_bytes = 4 << 20, .max_ring_bytes = max_bytes, .min_ring_bytes = 4096});
      PITOT_INSTANT("event");
    }
  });

  CHECK(CountRings().bytes_parked == parked_before);
}

TEST_CASE("a loop of phases outliving its recorder leaves its parked ring alone, and the next recorder sees it",
          "[registry]") {
  uint64_t written = 0;
  std::vector<fakes::EventText> seen;
  InThread([&] {
    auto recording = std::make_unique<Recording>();
    PITOT_PHASES(phases);
    PITOT_PHASE(phases, "recorded");
    const pitot::detail::Ring* ring = pitot::detail::t_ring;
    recording.reset();
    PITOT_PHASE(phases, "the first to find it stopped");
    const uint64_t head = ring->head;
    for (int i = 0; i < 100; ++i) {
      PITOT_PHASE(phases, "unrecorded");
    }
    written = ring->head - head;
    recording = std::make_unique<Recording>();
    PITOT_PHASE(phases, "seen");
    PITOT_PHASE(phases, "seen, too");
    PITOT_PHASES_END(phases);
    seen = Events(recording->Trace());
  });

  CHECK(written == 0);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].name == "seen");
  CHECK(seen[1].name == "seen, too");
}

TEST_CASE("events are counted across recycled rings", "[registry]") {
  const Recording recording({.budget_bytes = 20 << 10, .max_ring_bytes = 1 << 14, .min_ring_bytes = 1 << 14});
  for (int i = 0; i < 20; ++i) {
    InThread([] {
      for (int n = 0; n < 7; ++n) PITOT_INSTANT("event");
    });
  }

  CHECK(CountRings().events == 140);
}

TEST_CASE("busy threads share the snapshot reserve evenly", "[registry]") {
  const Recording recording({.budget_bytes = 8 << 20, .max_ring_bytes = 1 << 18, .reserve_bytes = 1 << 18});
  fakes::VirtualThreads threads;
  for (size_t thread = 0; thread < 8; ++thread) {
    REQUIRE(threads.Become(thread));
    const int events = thread == 7 ? 10 : 20'000;
    for (int i = 0; i < events; ++i) PITOT_INSTANT("event", i);
  }

  const auto trace = recording.Trace();

  REQUIRE(trace.threads.size() == 8);
  for (size_t thread = 0; thread < 7; ++thread) {
    INFO("thread " << thread);
    CHECK(trace.threads[thread].event_count > (1 << 18) / 24 / 8);
  }
  CHECK(trace.threads[7].event_count == 10);
  CHECK(trace.losses.size() == 7);
  for (const auto& loss : trace.losses) {
    CHECK(loss.reason == pitot::model::LossReason::kReserve);
    CHECK(loss.events > 0);
  }
}
