// SPDX-License-Identifier: Apache-2.0
#include "model/occupancy.h"

#include <catch2/catch.hpp>

namespace pitot::test {

using model::DeviceRow;
using model::KernelShape;

namespace {

constexpr DeviceRow kCapability90{0, 0, 132, 2048, 32, 65536, 233472};

double Percent(uint32_t threads, uint32_t registers, uint32_t dynamic_shared_bytes = 0,
               uint32_t static_shared_bytes = 0, const DeviceRow& device = kCapability90) {
  return model::TheoreticalOccupancyPercent(
      device, {{1, 1, 1}, {threads, 1, 1}, static_shared_bytes, dynamic_shared_bytes, 0, registers});
}

}  // namespace

// Answers of NVIDIA's occupancy calculator for compute capability 9.0.
TEST_CASE("occupancy agrees with NVIDIA's calculator", "[occupancy]") {
  SECTION("warps limit it") {
    CHECK(Percent(256, 32) == 100);
    CHECK(Percent(1024, 32) == 100);
    CHECK(Percent(768, 32) == 75);        // 2 blocks of 24 warps
    CHECK(Percent(33, 32) == 100);        // 32 blocks of 2 warps
    CHECK(Percent(96, 32) == 63 / 0.64);  // 21 blocks of 3 warps
  }
  SECTION("blocks limit it") {
    CHECK(Percent(32, 16) == 50);
    CHECK(Percent(1, 16) == 50);
  }
  SECTION("registers limit it, by sub-partitions and units of 256 a warp") {
    CHECK(Percent(256, 33) == 75);  // 1280 a warp: 48 warps
    CHECK(Percent(256, 64) == 50);
    CHECK(Percent(256, 96) == 25);      // 20 warps fit: 2 blocks of 8
    CHECK(Percent(128, 96) == 31.25);   // and 5 of 4
    CHECK(Percent(128, 168) == 18.75);  // 12 warps
    CHECK(Percent(128, 255) == 12.5);
    CHECK(Percent(1024, 64) == 50);
  }
  SECTION("shared memory limits it, with 1 KiB for each block's system") {
    CHECK(Percent(128, 32, 48 << 10) == 25);           // 4 blocks
    CHECK(Percent(128, 32, 100 << 10) == 12.5);        // 2
    CHECK(Percent(128, 32, 227 << 10) == 6.25);        // 1, with all of the memory
    CHECK(Percent(128, 32, (113 << 10)) == 12.5);      // 2 x 114 KiB
    CHECK(Percent(128, 32, (113 << 10) + 1) == 6.25);  // one unit more than half
    CHECK(Percent(128, 32, 24 << 10, 24 << 10) == 25);
    CHECK(Percent(256, 32, 49152, 1024) == 50);
  }
}

TEST_CASE("the limit is what allows the fewest blocks", "[occupancy]") {
  using model::OccupancyLimit;
  const auto limit = [](uint32_t threads, uint32_t registers, uint32_t shared_bytes) {
    return model::TheoreticalOccupancy(kCapability90, {{1, 1, 1}, {threads, 1, 1}, 0, shared_bytes, 0, registers})
        .limit;
  };
  CHECK(limit(256, 32, 0) == OccupancyLimit::kWarps);
  CHECK(limit(32, 16, 0) == OccupancyLimit::kBlocks);
  CHECK(limit(256, 64, 0) == OccupancyLimit::kRegisters);
  CHECK(limit(128, 32, 48 << 10) == OccupancyLimit::kSharedMemory);
  CHECK(limit(128, 32, 1 << 20) == OccupancyLimit::kUnknown);  // no block fits
  CHECK(limit(256, 0, 0) == OccupancyLimit::kUnknown);         // registers are not known
}

TEST_CASE("all of a block's axes count", "[occupancy]") {
  CHECK(model::TheoreticalOccupancyPercent(kCapability90, {{1, 1, 1}, {16, 8, 6}, 0, 0, 0, 32}) == 75);
}

TEST_CASE("occupancy counts wavefronts of 64 threads where the device has them", "[occupancy]") {
  DeviceRow instinct = kCapability90;
  instinct.threads_per_warp = 64;
  CHECK(Percent(33, 32, 0, 0, kCapability90) == 100);  // 2 of 64 warps, 32 times
  CHECK(Percent(33, 32, 0, 0, instinct) == 100);       // 1 of 32 wavefronts, 32 times
  CHECK(Percent(96, 32, 0, 0, kCapability90) == 63 / 0.64);
  CHECK(Percent(96, 32, 0, 0, instinct) == 100);    // 2 of 32, 16 times
  CHECK(Percent(65, 256, 0, 0, instinct) == 12.5);  // 4 of 32 by registers
}

TEST_CASE("the occupancy of AMD's compute units follows their own units", "[occupancy]") {
  const DeviceRow mi300x{2, 0, 304, 2048, 32, 131072, 65536, 64};
  CHECK(Percent(1024, 64, 0, 0, mi300x) == 100);       // 8 waves a SIMD
  CHECK(Percent(256, 65, 0, 0, mi300x) == 87.5);       // 72 registers of 512: 7 waves a SIMD
  CHECK(Percent(256, 128, 0, 0, mi300x) == 50);        // 4 waves a SIMD
  CHECK(Percent(64, 32, 0, 0, mi300x) == 100);         // 32 blocks of one wave
  CHECK(Percent(65, 32, 1, 0, mi300x) == 100);         // 16 blocks of two
  CHECK(Percent(256, 32, 32 << 10, 0, mi300x) == 25);  // 2 blocks by shared memory
  CHECK(Percent(256, 32, (32 << 10) + 1, 0, mi300x) == 12.5);
  DeviceRow mi100 = mi300x;
  mi100.threads_per_multiprocessor = 2560, mi100.registers_per_multiprocessor = 65536;
  CHECK(Percent(256, 33, 0, 0, mi100) == 70);  // 36 registers of 256: 7 of 10 waves a SIMD
}

TEST_CASE("devices before compute capability 8.0 reserve no shared memory for the system", "[occupancy]") {
  const DeviceRow v100{0, 0, 80, 2048, 32, 65536, 98304};
  CHECK(Percent(128, 32, 48 << 10, 0, v100) == 12.5);
  CHECK(Percent(256, 32, 0, 0, v100) == 100);
}

TEST_CASE("occupancy is missing if a limit is unknown or no block fits", "[occupancy]") {
  for (uint32_t DeviceRow::*limit :
       {&DeviceRow::threads_per_multiprocessor, &DeviceRow::blocks_per_multiprocessor,
        &DeviceRow::registers_per_multiprocessor, &DeviceRow::shared_bytes_per_multiprocessor}) {
    DeviceRow device = kCapability90;
    device.*limit = 0;
    CHECK(Percent(256, 32, 0, 0, device) == 0);
  }
  CHECK(Percent(0, 32) == 0);
  CHECK(Percent(256, 0) == 0);
  CHECK(Percent(256, 32, (227 << 10) + 1) == 0);
  CHECK(Percent(1 << 31, 32) == 0);
  CHECK(Percent(256, UINT32_MAX) == 0);
  CHECK(Percent(256, 32, UINT32_MAX, UINT32_MAX) == 0);
  const uint32_t most = UINT32_MAX;
  CHECK(model::TheoreticalOccupancyPercent(kCapability90, {{most, most, most}, {most, most, most}, 0, 0, 0, 32}) == 0);
}

}  // namespace pitot::test
