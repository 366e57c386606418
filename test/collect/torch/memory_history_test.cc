// SPDX-License-Identifier: Apache-2.0
#include "collect/torch/memory_history.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

using pitot::libtorch::MemoryHistory;

namespace {

constexpr int64_t kBucket = int64_t{1} << MemoryHistory::kBucketBits;

struct History {
  MemoryHistory& operator*() { return *history; }
  MemoryHistory* operator->() { return history.get(); }
  explicit History(int64_t begin = 0) : history(std::make_unique<MemoryHistory>(begin)) {}
  std::unique_ptr<MemoryHistory> history;
};

std::vector<uint64_t> Bytes(const std::vector<MemoryHistory::Sample>& samples) {
  std::vector<uint64_t> bytes;
  for (const auto& sample : samples) bytes.push_back(sample.bytes);
  return bytes;
}

}  // namespace

TEST_CASE("a bucket keeps its maximum and its last value", "[memory]") {
  History history;
  history->Add(100, 10 * kBucket);
  history->Add(50, 12 * kBucket);
  history->Add(-140, 12 * kBucket + 5);
  history->Add(20, 12 * kBucket + 9);

  const auto samples = history->Between(10 * kBucket, 20 * kBucket);

  CHECK(Bytes(samples) == std::vector<uint64_t>{100, 150, 30});
  CHECK(samples[1].at == 12 * kBucket);
  CHECK(samples[2].at == 13 * kBucket - 1);
  CHECK(history->bytes() == 30);
  CHECK(history->most_bytes() == 150);
}

TEST_CASE("a window begins with the bytes allocated before it", "[memory]") {
  History history;
  history->Add(100, 10 * kBucket);
  history->Add(-60, 11 * kBucket);

  CHECK(Bytes(history->Between(500 * kBucket, 600 * kBucket)) == std::vector<uint64_t>{40});
  CHECK(Bytes(history->Between(100'000 * kBucket, 100'001 * kBucket)) == std::vector<uint64_t>{40});
  CHECK(history->PeakBetween(500 * kBucket, 600 * kBucket) == 40);
}

TEST_CASE("the value before a free counts in its bucket", "[memory]") {
  History history;
  history->Add(100, 10 * kBucket);
  history->Add(-60, 20 * kBucket);

  CHECK(history->PeakBetween(20 * kBucket, 21 * kBucket) == 100);
}

TEST_CASE("a value a lap old is forgotten and not taken for new", "[memory]") {
  History history;
  history->Add(1000, 10 * kBucket);
  history->Add(-1000, 11 * kBucket);
  const int64_t lap = static_cast<int64_t>(MemoryHistory::kBuckets) * kBucket;

  CHECK(history->PeakBetween(lap + 10 * kBucket, lap + 12 * kBucket) == 0);
  history->Add(7, lap + 10 * kBucket);
  CHECK(Bytes(history->Between(lap + 9 * kBucket, lap + 12 * kBucket)) == std::vector<uint64_t>{7});
}

TEST_CASE("a peak is exact from its beginning on, whoever else follows one", "[memory]") {
  History history;
  history->Add(100, 0);
  history->Add(-100, 0);
  const int outer = history->BeginPeak();
  history->Add(70, 0);
  history->Add(-50, 0);
  const int inner = history->BeginPeak();
  history->Add(10, 0);

  CHECK(history->PeakOf(outer) == 70);
  CHECK(history->PeakOf(inner) == 30);
  history->EndPeak(inner);
  CHECK(history->BeginPeak() == inner);
}

TEST_CASE("more peaks than there is room for are refused", "[memory]") {
  History history;
  for (int i = 0; i < MemoryHistory::kPeaks; ++i) CHECK(history->BeginPeak() == i);
  CHECK(history->BeginPeak() == -1);
  history->EndPeak(5);
  CHECK(history->BeginPeak() == 5);
}

TEST_CASE("an authoritative number replaces the sum", "[memory]") {
  History history;
  history->Add(1000, 10 * kBucket);
  const int peak = history->BeginPeak();
  history->SetLevel(1024);
  history->Add(500, 11 * kBucket);

  CHECK(history->bytes() == 1524);
  CHECK(history->PeakOf(peak) == 1524);
  CHECK(history->PeakBetween(11 * kBucket, 12 * kBucket) == 1524);
}

TEST_CASE("a peak misses nothing allocated by other threads after its beginning", "[memory]") {
  History history;
  std::atomic<bool> is_done{false};
  std::thread other([&] {
    while (!is_done) history->Add(1, 0);
  });
  bool is_well = true;
  for (int i = 0; i < 20'000; ++i) {
    const int peak = history->BeginPeak();
    const uint64_t now = history->bytes();
    is_well = is_well && history->PeakOf(peak) + 1 >= now;  // except for the one being added
    history->EndPeak(peak);
  }
  is_done = true;
  other.join();
  CHECK(is_well);
}

TEST_CASE("threads allocating at once lose no byte", "[memory]") {
  History history;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20'000; ++i) {
        history->Add(t + 1, i * kBucket / 100);
        if (i % 2 == 1) history->Add(-2 * (t + 1), i * kBucket / 100);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  CHECK(history->bytes() == 0);
  CHECK(history->most_bytes() >= 1);
  CHECK(history->most_bytes() <= 2 * (1 + 2 + 3 + 4));
}

TEST_CASE("neighbours become one with their peak if an incident has no room for all changes", "[memory]") {
  History history;
  for (int64_t bucket = 1; bucket <= 1000; ++bucket) history->Add(bucket == 503 ? 5000 : 1, bucket * kBucket);
  history->Add(-5000, 1001 * kBucket);
  const auto all = history->Between(kBucket, 1002 * kBucket), thin = history->Between(kBucket, 1002 * kBucket, 100);

  CHECK(all.size() > 1000);
  CHECK((thin.size() > 50 && thin.size() <= 100 && thin.capacity() <= 100));
  CHECK(thin.front().at == all.front().at);
  const std::vector<uint64_t> bytes = Bytes(thin);
  CHECK(*std::max_element(bytes.begin(), bytes.end()) == 5999);
  CHECK(history->Between(kBucket, 1002 * kBucket, all.size()).size() == all.size());
}

TEST_CASE("a machine may have been up for years before memory is watched", "[memory]") {
  const int64_t year = int64_t{1} << 57;
  History history(3 * year + 12345);
  history->Add(100, 3 * year + 20 * kBucket);
  history->Add(50, 3 * year + 40 * kBucket);

  CHECK(Bytes(history->Between(3 * year + 30 * kBucket, 3 * year + 50 * kBucket)) == std::vector<uint64_t>{100, 150});
  CHECK(history->PeakBetween(3 * year + 39 * kBucket, 3 * year + 41 * kBucket) == 150);
  CHECK(history->Between(3 * year + 30 * kBucket, 3 * year + 50 * kBucket)[1].at >= 3 * year + 39 * kBucket);
  CHECK(Bytes(history->Between(0, 3 * year + 21 * kBucket)).back() == 100);
}

TEST_CASE("memory allocated before watching may be freed", "[memory]") {
  History history;
  history->Add(10, 1 * kBucket);
  history->Add(-64, 2 * kBucket);
  history->Add(32, 3 * kBucket);

  CHECK(history->bytes() == 32);
  CHECK(Bytes(history->Between(kBucket, 4 * kBucket)) == std::vector<uint64_t>{10, 64, 0, 32});
}
