// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/launches.h"

#include <dlfcn.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstddef>

#include "scoreboard/clocks.h"
#include "scoreboard/fake_cuda_runtime.h"

namespace scoreboard {
namespace {

struct Blocks {
  unsigned x, y, z;
};

// As a library looks for it: the program's own comes before the runtime's.
template <typename Call> Call Find(const char* name) { return reinterpret_cast<Call>(dlsym(RTLD_DEFAULT, name)); }

TEST_CASE("a launch reaches the runtime as it was asked for, and its time counts", "[launches]") {
  const auto launch = Find<int (*)(const void*, Blocks, Blocks, void**, size_t, void*)>("__cudaLaunchKernel");
  REQUIRE(launch != nullptr);
  const int kernel = 0, stream = 0;
  std::array<void*, 1> arguments{};
  const LaunchTime before = Launched();

  const int status = launch(&kernel, {1, 2, 3}, {4, 5, 6}, arguments.data(), 7, const_cast<int*>(&stream));

  CHECK(status == kFakeLaunchStatus);
  CHECK(Launched().ns - before.ns >= kFakeLaunchNs);
  const FakeLaunch seen = LastFakeLaunch();
  CHECK(seen.kernel == &kernel);
  CHECK(seen.grid_z == 3);
  CHECK(seen.block_x == 4);
  CHECK(seen.arguments == arguments.data());
  CHECK(seen.shared_bytes == 7);
  CHECK(seen.stream == &stream);
}

TEST_CASE("a launch that slept was not on a CPU meanwhile", "[launches]") {
  const auto launch = Find<int (*)(const void*, Blocks, Blocks, void**, size_t, void*)>("__cudaLaunchKernel");
  const LaunchTime before = Launched();

  launch(nullptr, {1, 1, 1}, {1, 1, 1}, nullptr, 0, nullptr);

  const LaunchTime after = Launched();
  CHECK(after.ns - before.ns >= kFakeLaunchNs);
  CHECK(after.cpu_ns - before.cpu_ns < after.ns - before.ns);
}

TEST_CASE("what cuDNN launches counts once", "[launches]") {
  const auto execute = Find<int (*)(void*, void*, void*)>("cudnnBackendExecute");
  int plan = 0, handle = 0;
  const LaunchTime before = Launched();
  const uint64_t begin_ns = MonotonicNs();

  const int status = execute(&handle, &plan, nullptr);

  const uint64_t took_ns = MonotonicNs() - begin_ns;
  CHECK(status == kFakeLaunchStatus);
  CHECK(LastFakeLaunch().kernel == &plan);
  CHECK(LastFakeLaunch().stream == &handle);
  CHECK(Launched().ns - before.ns >= kFakeLaunchNs);
  CHECK(Launched().ns - before.ns <= took_ns);
}

TEST_CASE("a launch that the runtime does not have fails, and takes no time", "[launches]") {
  const auto launch = Find<int (*)(const void*, const void*, void**)>("cudaLaunchKernelExC");
  REQUIRE(launch != nullptr);
  const LaunchTime before = Launched();

  CHECK(launch(nullptr, nullptr, nullptr) != 0);
  CHECK(Launched().ns == before.ns);
}

}  // namespace
}  // namespace scoreboard
