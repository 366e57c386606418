// SPDX-License-Identifier: Apache-2.0
#include "session/memory_budget.h"

#include <algorithm>

namespace pitot::session {
namespace {

// Bytes for each byte of a copy. Tests hold incidents to them.
constexpr uint64_t kReservePerCopy = 2;    // a copy takes half of what is free
constexpr uint64_t kRowsPerCopy = 3;       // of the trace, as it is made; nested scopes without arguments take 2.8
constexpr uint64_t kSortPerCopy = 1;       // while the events of one ring are sorted; of such scopes 0.75
constexpr uint64_t kCompletedPerCopy = 5;  // a trace whose other files are written, and one that waits
constexpr uint64_t kJudgedPerCopy = 10;    // a trace that is judged: made of such scopes, it takes 2.25 by itself
constexpr uint64_t kJudgedPerTrace = 4;    // bytes for each byte of a trace: itself, and the judge's work on it

constexpr uint64_t kBudgetPerRings = 4;     // rings have a quarter
constexpr uint64_t kRestPerCollectors = 2;  // collectors have at most half of what rings, requests and names leave
constexpr uint64_t kMostOwnBytes = 1 << 20;
constexpr uint64_t kLeastLearnedBytes = 1 << 20, kMostLearnedBytes = 11 << 20;
// Names and places in the code, a second time, in the file of a black box. The rest of it is rings and requests.
constexpr uint64_t kBudgetPerBoxTexts = 16, kMostBoxTextBytes = 6 << 20;
// The newest rows of collectors, in the file as well.
constexpr uint64_t kBudgetPerBoxRows = 32, kMostBoxRowBytes = 8 << 20;
constexpr uint64_t kPage = 4096;

uint64_t LearnedBytes(uint64_t rest) {
  return std::clamp(rest / 8, std::min(kLeastLearnedBytes, rest / 4), kMostLearnedBytes);
}

}  // namespace

uint64_t BoxRowBytes(const Options& options) {
  return std::min(options.memory_budget_bytes / kBudgetPerBoxRows, kMostBoxRowBytes);
}

MemorySplit Split(const Options& options, const AddedParts& added) {
  MemorySplit split{};
  split.rings = options.memory_budget_bytes / kBudgetPerRings;
  split.requests_and_names = RequestAndNameBytes(options);
  if (added.has_black_box)
    split.requests_and_names +=
        std::min(options.memory_budget_bytes / kBudgetPerBoxTexts, kMostBoxTextBytes) + BoxRowBytes(options);
  const uint64_t rest = options.memory_budget_bytes - split.rings - split.requests_and_names;
  split.own = std::min(rest / 16, kMostOwnBytes);
  split.learned = added.has_judge ? LearnedBytes(rest) : 0;
  split.collectors = std::min(added.collector_bytes, rest / kRestPerCollectors);
  const uint64_t incidents = rest - split.own - split.learned - split.collectors;
  const uint64_t arena_per_copy = kRowsPerCopy + kSortPerCopy;
  const uint64_t judging_per_copy = added.has_judge ? kJudgedPerCopy : kCompletedPerCopy;
  const uint64_t copy = incidents / (kReservePerCopy + arena_per_copy + judging_per_copy);
  split.snapshot_reserve = std::max(kReservePerCopy * copy / kPage, uint64_t{1}) * kPage;
  split.judging = judging_per_copy * copy;
  split.analysis_arena = incidents - split.snapshot_reserve - split.judging;
  return split;
}

uint64_t BudgetFor(const Options& options, const AddedParts& added) {
  const uint64_t texts = added.has_black_box ? kMostBoxTextBytes + kMostBoxRowBytes : 0;
  const uint64_t other = kRestPerCollectors * added.collector_bytes + RequestAndNameBytes(options) + texts;
  return other * kBudgetPerRings / (kBudgetPerRings - 1) + kPage;
}

uint64_t RowBytes(const MemorySplit& split) { return kRowsPerCopy * split.snapshot_reserve / kReservePerCopy; }
CaseRoom RoomForCases(const MemorySplit& split) { return {split.judging, split.learned != 0 ? kJudgedPerTrace : 1}; }

uint64_t MemoryBudget::AddJudge() noexcept {
  has_judge_ = true;
  return Now().learned;
}

MemorySplit MemoryBudget::Now() noexcept { return With(depths_.HeldBytes()); }

MemorySplit MemoryBudget::AtStart() const noexcept {
  AddedParts added = Added(0);
  added.has_judge = true;
  return Split(options_.values, added);
}

uint64_t MemoryBudget::Enough(uint64_t collector_bytes) const noexcept {
  return BudgetFor(options_.values, Added(collector_bytes));
}

AddedParts MemoryBudget::Added(uint64_t collector_bytes) const noexcept {
  return {has_judge_, collector_bytes, !options_.black_box_directory.empty()};
}

}  // namespace pitot::session
