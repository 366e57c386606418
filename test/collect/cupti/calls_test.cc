// SPDX-License-Identifier: Apache-2.0
//
// What the callbacks of calls count, on the host's threads.
#include "collect/cupti/calls.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

namespace {

namespace cupti = pitot::cupti;

constexpr uint32_t kLaunchKernel = 211;  // cudaLaunchKernel

}  // namespace

TEST_CASE("launches of as many threads as there are stripes are all counted", "[cupti][threads]") {
  constexpr int kThreads = 16, kLaunches = 50'000;
  const auto calls = std::make_unique<cupti::ApiCalls>();
  calls->Find(cupti::Api());  // by their numbers
  std::atomic<bool> go{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      cupti::CallbackData data{};
      while (!go) std::this_thread::yield();
      for (int launch = 1; launch <= kLaunches; ++launch) {
        data.correlation_id = static_cast<uint32_t>(launch);
        for (const int site : {cupti::kEnter, cupti::kExit}) {
          data.site = site;
          calls->OnCallback(cupti::kRuntimeApi, kLaunchKernel, data);
        }
      }
    });
  }
  go = true;
  for (std::thread& thread : threads) thread.join();

  CHECK(calls->submissions() == uint64_t{kThreads} * kLaunches);
}
