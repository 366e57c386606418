// SPDX-License-Identifier: Apache-2.0
//
// A reader copies rings while their writer laps them as fast as it can. The copies must be whole, in order and without
// gaps. Every record has its serial number, and all its other contents follow from that.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "fakes/recording.h"
#include "fakes/scale.h"
#include "fakes/wait_until.h"
#include "pitot/trace.h"

namespace {

using pitot::detail::ArgList;
using pitot::snapshot::Oldest;
using pitot::snapshot::RingCopy;
using pitot::trace::ThreadRing;

constexpr int kKinds = 8;

template <class... Args> constexpr pitot::Site SiteOf(const char* name) {
  return {
      pitot::kSiteMagic, pitot::SiteKind::kScope, sizeof...(Args), 0, 0, ArgList<Args...>::Types(), name, "", "", ""};
}
constexpr pitot::Site kSites[kKinds] = {
    SiteOf<uint64_t>("0"), SiteOf<uint64_t>("1"), SiteOf<uint64_t>("2"), SiteOf<uint64_t>("3"),
    SiteOf<uint64_t>("4"), SiteOf<uint64_t>("5"), SiteOf<uint64_t>("6"), SiteOf<uint64_t>("7"),
};

uint64_t Scramble(uint64_t x) {
  x = (x ^ x >> 31) * 0x7fb5d329728ea185;
  return (x ^ x >> 27) * 0x81dadef4bc2dd44d;
}

// Contents of record `serial` besides the serial: its site, its argument words and its duration.
struct Expected {
  const pitot::Site* site;
  uint64_t duration;
  uint32_t words;
  uint64_t args[60];
};
Expected Expect(uint64_t serial) {
  const uint64_t random = Scramble(serial);
  Expected e{};
  e.site = &kSites[random % kKinds];
  const uint64_t length = random >> 8 & 7;
  e.words = length == 7 ? static_cast<uint32_t>(7 + (random >> 16) % 53) : static_cast<uint32_t>(1 + length % 6);
  e.duration = (random >> 32 & 3) == 0 ? uint64_t{1} << 24 | (random >> 34 & 0xffff) : random >> 34 & 0xffff;
  e.args[0] = serial;
  for (uint32_t i = 1; i < e.words; ++i) e.args[i] = Scramble(serial * 64 + i);
  return e;
}

template <uint32_t kCount> struct FixedWords {
  static constexpr bool kFixed = true;
  uint32_t Words() const { return kCount; }
  const uint64_t* args;
  uint64_t words[kCount + 1];
};
struct VariableWords {
  static constexpr bool kFixed = false;
  uint32_t Words() const { return count; }
  uint32_t count;
  uint64_t words[60];
};

template <uint32_t kCount> void AppendFixed(pitot::detail::Ring* ring, const Expected& e, uint64_t end) {
  FixedWords<kCount> words{};
  std::memcpy(words.words, e.args, sizeof(uint64_t) * kCount);
  pitot::detail::Append(ring, e.site, end - e.duration, end, words);
}

void AppendSerial(pitot::detail::Ring* ring, uint64_t serial) {
  const Expected e = Expect(serial);
  const uint64_t end = pitot::detail::Clock(ring->gate);
  switch (e.words) {
    case 1:
      return AppendFixed<1>(ring, e, end);
    case 2:
      return AppendFixed<2>(ring, e, end);
    case 3:
      return AppendFixed<3>(ring, e, end);
    case 4:
      return AppendFixed<4>(ring, e, end);
    case 5:
      return AppendFixed<5>(ring, e, end);
    case 6:
      return AppendFixed<6>(ring, e, end);
    default:
      break;
  }
  VariableWords words;
  words.count = e.words;
  std::memcpy(words.words, e.args, sizeof(uint64_t) * e.words);
  pitot::detail::Append(ring, e.site, end - e.duration, end, words);
}

// The writer of one ring.
class Lapper {
 public:
  template <class Loop> explicit Lapper(Loop loop) {
    thread_ = std::thread([this, loop] {
      ring_.store(static_cast<ThreadRing*>(pitot::detail::Enter()));
      loop(ring_.load(), stop_);
    });
    fakes::WaitUntil([this] { return ring_.load() != nullptr; });
  }
  ~Lapper() {
    stop_.store(true);
    thread_.join();
  }
  ThreadRing* ring() const { return ring_.load(); }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<ThreadRing*> ring_{nullptr};
  std::thread thread_;
};

struct Verdict {
  uint64_t records = 0, copies = 0, torn = 0, missing = 0, reordered = 0, lapped = 0, empty = 0;
  uint64_t worst_serial = 0;
};

void Judge(const RingCopy& copy, Verdict* verdict) {
  pitot::snapshot::RecordCursor cursor(copy.first, copy.last, copy.now_ticks);
  pitot::snapshot::Record record;
  uint64_t newer_serial = 0, newer_end = copy.now_ticks;
  uint64_t records = 0;
  while (cursor.Next(&record)) {
    const uint64_t serial = record.args[0];
    const Expected e = Expect(serial);
    const bool whole = record.site == reinterpret_cast<uintptr_t>(e.site) && record.arg_words == e.words &&
                       std::memcmp(record.args, e.args, sizeof(uint64_t) * e.words) == 0 &&
                       record.end_ticks - record.begin_ticks == e.duration;
    if (!whole) ++verdict->torn, verdict->worst_serial = serial;
    if (records > 0 && serial + 1 != newer_serial) ++verdict->missing;
    // (The reader's own clock read may be a moment before the newest record's: another CPU, and not ordered with
    // loads.)
    if (records > 0 && record.end_ticks > newer_end) ++verdict->reordered;
    newer_serial = serial;
    newer_end = record.end_ticks;
    ++records;
  }
  if (cursor.IsBroken()) ++verdict->torn;
  // Everything was used, except possibly the words of the record that is cut off.
  if (static_cast<uint64_t>(cursor.at() - copy.first) > pitot::detail::kMaxRecordWords) ++verdict->missing;
  verdict->records += records;
  verdict->lapped += copy.oldest == Oldest::kCopying;
  verdict->empty += records == 0;
  ++verdict->copies;
}

Verdict Lap(uint64_t ring_bytes, int milliseconds) {
  fakes::Recording recording({.max_ring_bytes = ring_bytes, .min_ring_bytes = ring_bytes});
  const Lapper lapper([](pitot::detail::Ring* ring, const std::atomic<bool>& stop) {
    for (uint64_t serial = 1; !stop.load(std::memory_order_relaxed); ++serial) AppendSerial(ring, serial);
  });
  Verdict verdict;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (std::chrono::steady_clock::now() < end) {
    pitot::snapshot::Reserve reserve = recording.reserve();
    RingCopy copy;
    pitot::snapshot::CopyRing(*lapper.ring(), 0, &reserve, &copy);
    Judge(copy, &verdict);
  }
  return verdict;
}

}  // namespace

TEST_CASE("a reader under constant lapping sees no torn, missing or reordered record", "[ring][stress]") {
  for (const uint64_t ring_bytes : {4096ull, 16384ull, 65536ull, 1ull << 20}) {
    const Verdict verdict = Lap(ring_bytes, 700);
    INFO("ring of " << ring_bytes << " bytes: " << verdict.copies << " copies, " << verdict.records << " records, "
                    << verdict.lapped << " lapped, " << verdict.empty << " empty; serial " << verdict.worst_serial);
    CHECK(verdict.torn == 0);
    CHECK(verdict.missing == 0);
    CHECK(verdict.reordered == 0);
    CHECK(verdict.copies > 0);
    if (ring_bytes >= 65536) CHECK(verdict.records > verdict.copies);
  }
}

// The outer scope of the newest inner one must be there: closed, or still open.
TEST_CASE("a scope closing while its ring is copied is there once, closed or open", "[ring][stress]") {
  static constexpr pitot::Site kInner = SiteOf<uint64_t, uint64_t>("inner");
  static constexpr pitot::Site kOuter = SiteOf<uint64_t>("outer");
  using Outer = pitot::detail::Scope<pitot::detail::Keep::kOpen, ArgList<uint64_t>>;
  fakes::Recording recording({.max_ring_bytes = 1 << 20});
  const Lapper lapper([](pitot::detail::Ring* ring, const std::atomic<bool>& stop) {
    for (uint64_t serial = 1; !stop.load(std::memory_order_relaxed); ++serial) {
      const Outer outer(&kOuter, "", serial);
      pitot::detail::EmitNow(&kInner, "", serial, ring->open[0].begin);
    }
  });
  uint64_t copies = 0, neither = 0, both = 0, open_only = 0, beyond = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  while (std::chrono::steady_clock::now() < end) {
    pitot::snapshot::Reserve reserve = recording.reserve();
    reserve.first = reserve.last - 4096;  // a short copy, so many of them
    RingCopy copy;
    pitot::snapshot::CopyRing(*lapper.ring(), 0, &reserve, &copy);
    pitot::snapshot::RecordCursor cursor(copy.first, copy.last, copy.now_ticks);
    pitot::snapshot::Record record;
    uint64_t inner_serial = 0, outer_begin = 0;
    std::vector<uint64_t> closed_begins;
    for (int i = 0; i < 200 && cursor.Next(&record); ++i) {
      if (record.begin_ticks > copy.cut_ticks) continue;
      if (record.site == reinterpret_cast<uintptr_t>(&kInner) && inner_serial == 0)
        inner_serial = record.args[0], outer_begin = record.args[1];
      if (record.site == reinterpret_cast<uintptr_t>(&kOuter) && inner_serial != 0 && record.args[0] > inner_serial)
        ++beyond;
      if (record.site == reinterpret_cast<uintptr_t>(&kOuter)) closed_begins.push_back(record.begin_ticks);
    }
    if (outer_begin == 0) continue;
    const bool closed = std::count(closed_begins.begin(), closed_begins.end(), outer_begin) != 0;
    bool open = false;
    for (const auto& scope : copy.open) open = open || scope.begin_ticks == outer_begin;
    ++copies;
    neither += !open && !closed;
    both += open && closed;
    open_only += open && !closed;
  }

  INFO(copies << " copies, of which " << open_only << " while the scope was open");
  CHECK(copies > 0);
  CHECK(neither == 0);
  CHECK(both == 0);
  CHECK(beyond == 0);
}

// Scope 1 (10 to 20) closed before the open stack was read, scope 2 (30 to 40) meanwhile, scope 3 (50) not at all.
TEST_CASE("a copy keeps everything whole when its open scopes were read, and nothing newer", "[ring]") {
  constexpr uint64_t kRecordWords = 3;
  std::vector<uint64_t> words(64);
  pitot::detail::Ring ring{};
  ring.words = words.data();
  ring.mask = words.size() - 1;
  FixedWords<1> args{};
  pitot::detail::Append(&ring, &kSites[1], 10, 20, args);
  pitot::detail::Append(&ring, &kSites[2], 30, 40, args);
  const auto settled = [&](uint64_t fresh_words, uint64_t held_words) {
    RingCopy copy;
    copy.last = words.data() + ring.head;
    copy.first = copy.last - held_words;
    copy.now_ticks = 60;
    copy.open = {{reinterpret_cast<uintptr_t>(&kSites[2]), 30}, {reinterpret_cast<uintptr_t>(&kSites[3]), 50}};
    pitot::snapshot::Settle(fresh_words, &copy);
    return copy;
  };

  SECTION("a scope closed meanwhile is closed, and later ones are left out") {
    const RingCopy copy = settled(kRecordWords, 2 * kRecordWords);
    CHECK(copy.cut_ticks == 20);
    REQUIRE(copy.open.size() == 1);
    CHECK(copy.open[0].begin_ticks == 50);
  }
  SECTION("everything is kept if nothing was written meanwhile") {
    CHECK(settled(0, 2 * kRecordWords).cut_ticks == 40);
  }
  SECTION("an empty copy leaves nothing out") { CHECK(settled(0, 0).cut_ticks == 60); }
  SECTION("only open scopes of a thread begun meanwhile were whole") {
    const RingCopy copy = settled(2 * kRecordWords, 2 * kRecordWords);
    CHECK(copy.cut_ticks == 0);
    CHECK(copy.open.size() == 1);
  }
  SECTION("an open scope may have closed in the lost part if more was written meanwhile than the copy holds") {
    const RingCopy copy = settled(20 * kRecordWords, 2 * kRecordWords);
    CHECK(copy.cut_ticks == 0);
    CHECK(copy.open.empty());
  }
}

TEST_CASE("snapshots of many threads recording flat out are consistent", "[ring][stress]") {
  fakes::Recording recording({.max_ring_bytes = 64 << 10});
  std::vector<std::unique_ptr<Lapper>> lappers;
  for (int i = 0; i < 4; ++i) {
    lappers.push_back(std::make_unique<Lapper>([](pitot::detail::Ring* ring, const std::atomic<bool>& stop) {
      for (uint64_t serial = 1; !stop.load(std::memory_order_relaxed); ++serial) {
        PITOT_SCOPE("outer", serial);
        AppendSerial(ring, serial);
        PITOT_LEAF("leaf");
      }
    }));
  }
  std::string wrong;
  uint64_t events = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  while (std::chrono::steady_clock::now() < end && wrong.empty()) {
    const pitot::model::Trace trace = recording.Trace();
    wrong = pitot::model::FindInconsistency(trace);
    events += trace.events.size();
    for (const auto& loss : trace.losses) {
      if (loss.reason == pitot::model::LossReason::kUnreadable) wrong = "unreadable records";
    }
  }

  CHECK(wrong == "");
  CHECK(events > 0);
}
