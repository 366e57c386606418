// SPDX-License-Identifier: Apache-2.0
#include "server_common/launches.h"

#include <dlfcn.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstddef>

#include "fake_cuda_runtime.h"

namespace server_common {
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
  const uint64_t before_ns = LaunchedNs();

  const int status = launch(&kernel, {1, 2, 3}, {4, 5, 6}, arguments.data(), 7, const_cast<int*>(&stream));

  CHECK(status == kFakeLaunchStatus);
  CHECK(LaunchedNs() - before_ns >= kFakeLaunchNs);
  const FakeLaunch seen = LastFakeLaunch();
  CHECK(seen.kernel == &kernel);
  CHECK(seen.grid_z == 3);
  CHECK(seen.block_x == 4);
  CHECK(seen.arguments == arguments.data());
  CHECK(seen.shared_bytes == 7);
  CHECK(seen.stream == &stream);
}

TEST_CASE("a launch that the runtime does not have fails, and takes no time", "[launches]") {
  const auto launch = Find<int (*)(const void*, const void*, void**)>("cudaLaunchKernelExC");
  REQUIRE(launch != nullptr);
  const uint64_t before_ns = LaunchedNs();

  CHECK(launch(nullptr, nullptr, nullptr) != 0);
  CHECK(LaunchedNs() == before_ns);
}

}  // namespace
}  // namespace server_common
