// SPDX-License-Identifier: Apache-2.0
//
// Counts of callbacks of calls, on the host's threads.
#include "collect/cupti/calls.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

namespace {

namespace cupti = pitot::cupti;

constexpr uint32_t kLaunchKernel = 211;  // cudaLaunchKernel

// CUPTI's answer, and how often it was asked.
int g_asked = 0;
uint32_t g_id = 13;
cupti::Result TellStream(void*, void*, uint8_t, uint32_t* id) {
  ++g_asked;
  *id = g_id;
  return cupti::kSuccess;
}

struct Streams {
  Streams() {
    g_asked = 0, g_id = 13;
    api.get_stream_id = TellStream;
    ids.Open(&api, &until_exit);
  }
  uint32_t Of(uintptr_t handle, uint32_t context = 1) {
    return ids.Of(nullptr, context, reinterpret_cast<void*>(handle), cupti::StreamIds::Default::kLegacy);
  }
  cupti::Api api{};
  pitot::base::UntilExit until_exit;
  cupti::StreamIds ids;
};

}  // namespace

TEST_CASE("CUPTI is asked each time for a handle's stream if destroyed streams are not reported", "[cupti]") {
  Streams streams;
  CHECK(streams.Of(0x1000) == 13);
  streams.ids.SetTold(true);
  CHECK(streams.Of(0x1000) == 13);
  streams.ids.SetTold(false);
  g_id = 14;
  CHECK(streams.Of(0x1000) == 14);
  CHECK(streams.Of(0x1000) == 14);
  CHECK(g_asked == 4);
}

TEST_CASE("each stream has the right id if there are more than the table holds", "[cupti]") {
  Streams streams;
  streams.ids.SetTold(true);
  for (int round = 0; round < 2; ++round) {
    for (uint32_t stream = 1; stream <= 1000; ++stream) {
      for (const uint32_t context : {1u, 2u}) {
        g_id = stream * 2 + context;
        CHECK(streams.Of(0x1000 + stream * 64, context) == g_id);
        CHECK(streams.Of(0x1000 + stream * 64, context) == g_id);
      }
    }
  }
  CHECK(g_asked <= 4000);  // of 8,000: the second of each two was remembered
}

TEST_CASE("threads with streams in one place of the table each get theirs", "[cupti][threads]") {
  Streams streams;
  streams.api.get_stream_id = [](void*, void* handle, uint8_t, uint32_t* id) {
    *id = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(handle)) * 3;
    return cupti::kSuccess;
  };
  streams.ids.SetTold(true);
  std::atomic<int> wrong{0};
  std::atomic<bool> go{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!go) std::this_thread::yield();
      for (int round = 0; round < 50; ++round) {
        for (uint32_t handle = 1; handle <= 1000; ++handle) wrong += streams.Of(handle) != handle * 3;
        streams.ids.Forget();
      }
    });
  }
  go = true;
  for (std::thread& thread : threads) thread.join();

  CHECK(wrong == 0);
}

TEST_CASE("CUPTI is not asked for a handle's stream once the process exits", "[cupti]") {
  Streams streams;
  streams.until_exit.Close();
  CHECK(streams.Of(0x1000) == cupti::StreamIds::kUnknown);
  CHECK(g_asked == 0);
}

TEST_CASE("launches of as many threads as there are stripes are all counted", "[cupti][threads]") {
  constexpr int kThreads = 16, kLaunches = 50'000;
  const auto calls = std::make_unique<cupti::ApiCalls>();
  calls->Find(cupti::Api());  // by their numbers
  calls->SetLevel(2, false);
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
