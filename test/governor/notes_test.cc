// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "fakes/scale.h"
#include "governor/governor.h"
#include "governor/notes.h"

using pitot::governor::Governor;
using pitot::governor::Note;
using pitot::governor::NoteQueue;

namespace {

std::vector<Note> DrainAll(NoteQueue* queue) {
  std::vector<Note> notes;
  queue->Drain([&](const Note& note) { notes.push_back(note); });
  return notes;
}

}  // namespace

TEST_CASE("notes come out as they went in", "[governor]") {
  NoteQueue queue;

  CHECK(queue.Push({1, 2, 3}));
  CHECK(queue.Push({4, 5, 6}));
  const std::vector<Note> notes = DrainAll(&queue);

  REQUIRE(notes.size() == 2);
  CHECK(notes[0].begin_ns == 1);
  CHECK(notes[0].end_ns == 2);
  CHECK(notes[0].work_class == 3);
  CHECK(notes[1].work_class == 6);
  CHECK(DrainAll(&queue).empty());
}

TEST_CASE("a full queue refuses notes, counts them, and takes notes again once drained", "[governor]") {
  NoteQueue queue;

  uint32_t taken = 0;
  for (uint32_t i = 0; i < 2 * NoteQueue::kCells; ++i) taken += queue.Push({i, i, i});

  CHECK(taken == NoteQueue::kCells);
  CHECK(queue.lost() == NoteQueue::kCells);
  CHECK(DrainAll(&queue).size() == taken);
  CHECK(queue.Push({0, 0, 0}));
}

TEST_CASE("no note of many threads is lost uncounted, and each thread's keep their order", "[governor]") {
  constexpr uint32_t kThreads = 8;
  const auto note_count = static_cast<int64_t>(fakes::Scaled(200000));
  NoteQueue queue;
  std::vector<int64_t> last(kThreads, -1);
  uint64_t drained = 0, torn = 0, out_of_order = 0;
  const auto drain = [&] {
    queue.Drain([&](const Note& note) {
      ++drained;
      torn += note.end_ns != note.begin_ns + note.work_class;
      out_of_order += note.begin_ns <= last[note.work_class];
      last[note.work_class] = note.begin_ns;
    });
  };

  std::atomic<uint32_t> running{kThreads};
  std::atomic<uint64_t> pushed{0};
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      uint64_t taken = 0;
      for (int64_t i = 0; i < note_count; ++i) taken += queue.Push({i, i + thread, thread});
      pushed.fetch_add(taken);
      running.fetch_sub(1);
    });
  }
  while (running.load() != 0) drain();
  for (std::thread& thread : threads) thread.join();
  drain();

  CHECK(drained == pushed.load());
  CHECK(drained + queue.lost() == static_cast<uint64_t>(kThreads * note_count));
  CHECK(torn == 0);
  CHECK(out_of_order == 0);
}

TEST_CASE("threads may note works while the watcher ticks, arms and reports", "[governor]") {
  constexpr uint32_t kThreads = 4;
  const auto note_count = static_cast<int64_t>(fakes::Scaled(100000));
  const std::unique_ptr<Governor> governor = Governor::Make({});
  REQUIRE(governor != nullptr);

  std::atomic<uint32_t> running{kThreads};
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int64_t i = 0; i < note_count; ++i) governor->Note(thread, 1000 * i, 1000 * i + 500);
      running.fetch_sub(1);
    });
  }
  int64_t now_ns = 1000 * note_count;
  while (running.load() != 0) {
    governor->Tick(now_ns += 10'000'000);
    if (now_ns % 70'000'000 == 0) governor->Arm(now_ns, now_ns + 20'000'000);
    governor->GetReport();
  }
  for (std::thread& thread : threads) thread.join();
  governor->Tick(now_ns);

  const pitot::governor::Report report = governor->GetReport();
  CHECK(report.notes_taken + report.notes_lost == static_cast<uint64_t>(kThreads * note_count));
  CHECK(report.notes_refused == 0);
}
