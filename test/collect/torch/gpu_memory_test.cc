// SPDX-License-Identifier: Apache-2.0
//
// The account of a GPU's memory, next to an allocator with reports and numbers like LibTorch's.
#include "collect/torch/gpu_memory.h"

#include <catch2/catch.hpp>
#include <map>
#include <stdexcept>

#include "pitot/collect/torch.h"

using pitot::libtorch::GpuAccount;
using pitot::libtorch::GpuEvent;
using pitot::libtorch::GpuNumbers;

namespace {

constexpr int64_t kMiB = 1 << 20;

GpuNumbers g_numbers;
int g_reads = 0;
bool g_throws = false;
int32_t g_next_device = 0;  // memory stays watched: each test has a device of its own

GpuNumbers Read(int32_t) {
  ++g_reads;
  if (g_throws) throw std::runtime_error("no stats");
  return g_numbers;
}

struct Allocator {
  explicit Allocator(GpuNumbers before = {}, int32_t of_device = g_next_device++) : device(of_device) {
    g_numbers = before;
    REQUIRE(account.Begin(device, before, Read));
  }
  // A block may be larger than requested.
  void Allocate(int64_t bytes, int64_t given) {
    account.Note(GpuEvent::kAllocated, bytes, live.emplace(bytes, next_address += kMiB)->second, now);
    g_numbers.allocated_bytes += given;
  }
  // A moment of memory's history later.
  void Pass() { now += int64_t{1} << pitot::libtorch::MemoryHistory::kBucketBits; }
  // The block may still wait for another stream: these numbers do not.
  void Free(int64_t bytes, int64_t given) {
    g_numbers.allocated_bytes -= given;
    const auto block = live.find(bytes);
    account.Note(GpuEvent::kFreed, bytes, block != live.end() ? block->second : next_address += kMiB, now);
    if (block != live.end()) live.erase(block);
  }
  void Reserve(int64_t bytes) {
    g_numbers.reserved_bytes += bytes;
    account.Note(GpuEvent::kReserved, bytes, 0, now);
  }
  void Release(int64_t bytes) {
    account.Note(GpuEvent::kReleased, bytes, 0, now);
    g_numbers.reserved_bytes -= bytes;
  }
  pitot::torch::MemoryUse Use() const {
    pitot::torch::MemoryUse use;
    REQUIRE(pitot::torch::GetMemoryUse(device, &use));
    return use;
  }

  const int32_t device;
  GpuAccount account;
  int64_t now = pitot::libtorch::MemoryNow();
  std::multimap<int64_t, uint64_t> live;  // addresses, by requested bytes
  uint64_t next_address = 0;
};

}  // namespace

TEST_CASE("memory allocated before watching counts", "[gpu_memory]") {
  const Allocator allocator({.allocated_bytes = 5 * kMiB, .reserved_bytes = 20 * kMiB, .retries = 3});
  CHECK(allocator.Use().allocated_bytes == 5 * kMiB);
  CHECK(allocator.Use().most_allocated_bytes == 5 * kMiB);
  CHECK(allocator.Use().reserved_bytes == 20 * kMiB);
  CHECK(allocator.Use().retries == 0);
}

TEST_CASE("memory allocated while watching began is found at the next event", "[gpu_memory]") {
  Allocator allocator;
  g_numbers.allocated_bytes = 7 * kMiB;
  g_numbers.reserved_bytes = 20 * kMiB;
  allocator.Allocate(1024, 1024);
  CHECK(allocator.Use().allocated_bytes == 7 * kMiB + 1024);
  CHECK(allocator.Use().reserved_bytes == 20 * kMiB);
}

TEST_CASE("a freed block that waits for another stream no longer counts, and nothing else is missing", "[gpu_memory]") {
  Allocator allocator;
  allocator.Allocate(100 * kMiB, 100 * kMiB);
  allocator.Allocate(30 * kMiB, 30 * kMiB);
  allocator.Free(100 * kMiB, 100 * kMiB);  // another stream works on it
  allocator.Allocate(512, 512);
  CHECK(allocator.Use().allocated_bytes == 30 * kMiB + 512);
}

TEST_CASE("given bytes above the requested ones count", "[gpu_memory]") {
  Allocator allocator;
  for (int i = 0; i < 100; ++i) allocator.Allocate(1, 512);
  CHECK(allocator.Use().allocated_bytes == 100 * 512);
  allocator.Allocate(3 * kMiB, 3 * kMiB + 700'000);
  allocator.Allocate(1, 512);
  CHECK(allocator.Use().allocated_bytes == 3 * kMiB + 700'000 + 101 * 512);
  allocator.Free(3 * kMiB, 3 * kMiB + 700'000);
  CHECK(allocator.Use().allocated_bytes == 101 * 512);
  CHECK(allocator.Use().most_allocated_bytes == 3 * kMiB + 700'000 + 101 * 512);
}

TEST_CASE("peaks include the last block's given bytes when another is freed next", "[gpu_memory]") {
  Allocator allocator;
  allocator.Allocate(kMiB, kMiB);
  const pitot::torch::PeakMemory peak(allocator.device);
  allocator.Allocate(3 * kMiB, 3 * kMiB + 700'000);
  allocator.Free(kMiB, kMiB);

  CHECK(peak.bytes() == 4 * kMiB + 700'000);
  CHECK(allocator.Use().most_allocated_bytes == 4 * kMiB + 700'000);
}

TEST_CASE("peaks include a block's given bytes when it is freed, too", "[gpu_memory]") {
  Allocator allocator;
  allocator.Allocate(3 * kMiB, 3 * kMiB + 700'000);
  allocator.Allocate(5 * kMiB, 5 * kMiB + 300'000);
  allocator.Free(3 * kMiB, 3 * kMiB + 700'000);
  CHECK(allocator.Use().most_allocated_bytes == 8 * kMiB + 1'000'000);
  CHECK(allocator.Use().allocated_bytes == 5 * kMiB + 300'000);
}

TEST_CASE("the allocator's numbers are read once for each large block", "[gpu_memory]") {
  Allocator allocator;
  allocator.Allocate(512, 512);
  const int before = g_reads;
  for (int i = 0; i < 100; ++i) allocator.Allocate(3 * kMiB, 3 * kMiB + 700'000);
  for (int i = 0; i < 100; ++i) allocator.Free(3 * kMiB, 3 * kMiB + 700'000);
  CHECK(g_reads - before <= 110);  // the earlier of two in one place is forgotten
  CHECK(allocator.Use().allocated_bytes == 512);
  CHECK(allocator.Use().most_allocated_bytes == 100 * (3 * kMiB + 700'000) + 512);
}

TEST_CASE("a peak begun before its device had any memory counts all later allocations", "[gpu_memory]") {
  const pitot::torch::PeakMemory peak(g_next_device);
  CHECK(peak.bytes() == 0);
  Allocator allocator;
  allocator.Allocate(3 * kMiB, 3 * kMiB);
  allocator.Free(3 * kMiB, 3 * kMiB);
  allocator.Allocate(kMiB, kMiB);
  const pitot::torch::PeakMemory later(allocator.device);

  CHECK(peak.bytes() == 3 * kMiB);
  CHECK(later.bytes() == kMiB);
}

TEST_CASE("a watched device with no allocations reports 0 bytes", "[gpu_memory]") {
  const int32_t device = g_next_device;
  pitot::torch::MemoryUse use;
  use.allocated_bytes = 7;
  CHECK_FALSE(pitot::torch::GetMemoryUse(device, &use));
  pitot::libtorch::SetWatchedDevices(device + 1);

  CHECK(pitot::torch::GetMemoryUse(device, &use));
  CHECK(use.allocated_bytes == 0);
  CHECK_FALSE(pitot::torch::GetMemoryUse(device + 1, &use));
  CHECK_FALSE(pitot::torch::GetMemoryUse(pitot::torch::kCpu, &use));
  const Allocator allocator({.allocated_bytes = 5 * kMiB});
  CHECK(allocator.Use().allocated_bytes == 5 * kMiB);
  pitot::libtorch::SetWatchedDevices(0);
}

TEST_CASE("the allocator's numbers are not read for each small block", "[gpu_memory]") {
  Allocator allocator;
  const int before = g_reads;
  for (int i = 0; i < 10'000; ++i) {
    allocator.Allocate(512, 512);
    allocator.Free(512, 512);
  }
  CHECK(g_reads - before == 1);
}

TEST_CASE("blocks with the host's own rounding have their true size after a moment", "[gpu_memory]") {
  Allocator allocator;
  allocator.Allocate(3 * 512, 2048);
  allocator.Pass();
  allocator.Allocate(5 * 512, 4096);
  allocator.Allocate(9 * 512, 8192);
  allocator.Free(5 * 512, 4096);
  CHECK(allocator.Use().most_allocated_bytes == 2048 + 4096 + 8192);
  CHECK(allocator.Use().allocated_bytes == 2048 + 8192);
}

TEST_CASE("a large block has its true size with the host's own rounding, and peaks are not higher", "[gpu_memory]") {
  const int32_t device = g_next_device++;
  for (const bool is_next_moment : {false, true}) {
    Allocator allocator({}, device);
    allocator.Allocate(512, 512);
    const pitot::torch::PeakMemory peak(device);
    for (int i = 0; i < 100; ++i) allocator.Allocate(600 << 10, kMiB);
    allocator.Allocate(3 * kMiB, 4 * kMiB);
    allocator.Allocate(512, 512);
    CHECK(allocator.Use().allocated_bytes == 104 * kMiB + 1024);
    if (is_next_moment) allocator.Pass();
    allocator.Free(3 * kMiB, 4 * kMiB);
    CHECK(allocator.Use().allocated_bytes == 100 * kMiB + 1024);
    CHECK(peak.bytes() == 104 * kMiB + 1024);
    for (int i = 0; i < 100; ++i) allocator.Free(600 << 10, kMiB);
    CHECK(allocator.Use().allocated_bytes == 1024);
  }
}

TEST_CASE("memory found at a later event does not enlarge a block", "[gpu_memory]") {
  Allocator allocator;
  g_numbers.allocated_bytes = 7 * kMiB;  // while watching began
  allocator.Allocate(1024, 1024);
  allocator.Pass();
  g_throws = true;
  allocator.Allocate(3 * kMiB, 4 * kMiB);
  allocator.Free(3 * kMiB, 4 * kMiB);
  g_throws = false;
  allocator.Allocate(512, 512);
  allocator.Pass();
  allocator.Allocate(512, 512);
  const int before = g_reads;
  for (int i = 0; i < 100; ++i) allocator.Allocate(512, 512);
  CHECK(g_reads == before);
}

TEST_CASE("emptying the cache does not make the next cudaMalloc a retry", "[gpu_memory]") {
  Allocator allocator({.reserved_bytes = 20 * kMiB});
  allocator.Release(20 * kMiB);
  allocator.Reserve(2 * kMiB);
  CHECK(allocator.Use().retries == 0);
  CHECK(allocator.Use().reserved_bytes == 2 * kMiB);
}

TEST_CASE("a retry counts even if it ends out of memory, and after the host reset the count", "[gpu_memory]") {
  Allocator allocator({.reserved_bytes = 40 * kMiB, .retries = 1});
  allocator.Release(20 * kMiB);
  ++g_numbers.retries;
  allocator.Reserve(20 * kMiB);
  CHECK(allocator.Use().retries == 1);

  allocator.Release(20 * kMiB);
  ++g_numbers.retries;
  allocator.account.Note(GpuEvent::kOutOfMemory, 60 * kMiB, kMiB, allocator.now);
  CHECK(allocator.Use().retries == 2);
  CHECK(allocator.Use().out_of_memory == 1);

  g_numbers.retries = 1;  // of zero, since then
  allocator.Reserve(2 * kMiB);
  CHECK(allocator.Use().retries == 3);
}

TEST_CASE("unreadable numbers leave the known ones in place, until they can be read again", "[gpu_memory]") {
  Allocator allocator({.allocated_bytes = 5 * kMiB, .reserved_bytes = 20 * kMiB});
  g_throws = true;
  allocator.Reserve(4 * kMiB);
  allocator.Allocate(3 * kMiB, 4 * kMiB);
  allocator.Free(2 * kMiB, 2 * kMiB);
  allocator.account.Note(GpuEvent::kOutOfMemory, 100 * kMiB, 0, allocator.now);
  CHECK(allocator.Use().allocated_bytes == 6 * kMiB);
  CHECK(allocator.Use().reserved_bytes == 24 * kMiB);
  CHECK(allocator.Use().out_of_memory == 1);

  g_throws = false;
  allocator.Allocate(1024, 1024);
  CHECK(allocator.Use().allocated_bytes == 7 * kMiB + 1024);
}
