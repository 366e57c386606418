// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/graph_scopes.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "fakes/scale.h"

namespace {

using pitot::cupti::GraphScopes;

uint64_t NodeOf(uint32_t graph, uint32_t node) { return uint64_t{graph} << 32 | node; }

}  // namespace

TEST_CASE("the newest of a million nodes have their paths, and so have the requested ones", "[cupti]") {
  GraphScopes scopes(8 << 20);
  constexpr uint32_t kGraphs = 40, kNodes = 25'000;
  REQUIRE(scopes.capacity() > 600'000);
  scopes.Add(NodeOf(1000, 1), 99);
  for (uint32_t graph = 1; graph <= kGraphs; ++graph) {
    for (uint32_t node = 0; node < kNodes; ++node) scopes.Add(NodeOf(graph, node), graph);
    CHECK(scopes.PathOf(NodeOf(1000, 1)) == 99);
  }

  uint32_t newest = 0, oldest = 0;
  for (uint32_t graph = kGraphs - 5; graph <= kGraphs; ++graph) {
    for (uint32_t node = 0; node < kNodes; ++node) newest += scopes.PathOf(NodeOf(graph, node)) == graph;
  }
  for (uint32_t node = 0; node < kNodes; ++node) oldest += scopes.PathOf(NodeOf(1, node)) != 0;
  CHECK(newest == 6 * kNodes);
  CHECK(oldest < kNodes / 10);
  CHECK(scopes.PathOf(NodeOf(kGraphs, kNodes)) == 0);
  CHECK(scopes.forgotten() >= 1'000'000 - scopes.capacity());
  CHECK(scopes.bytes() <= 8 << 20);
}

TEST_CASE("a node added again has its new path, and takes no other place", "[cupti]") {
  GraphScopes scopes(1);  // one bucket
  for (uint32_t path = 1; path <= 100; ++path) scopes.Add(7, path);
  CHECK(scopes.PathOf(7) == 100);
  CHECK(scopes.forgotten() == 0);
  CHECK(scopes.PathOf(8) == 0);
}

TEST_CASE("a full bucket forgets the entry used longest ago", "[cupti]") {
  GraphScopes scopes(1);
  for (uint64_t node = 1; node <= scopes.capacity(); ++node) scopes.Add(node, 5);
  CHECK(scopes.forgotten() == 0);
  CHECK(scopes.PathOf(1) == 5);

  scopes.Add(100, 6);

  CHECK(scopes.forgotten() == 1);
  CHECK(scopes.PathOf(1) == 5);
  CHECK(scopes.PathOf(2) == 0);
  CHECK(scopes.PathOf(100) == 6);
}

TEST_CASE("threads that capture next to a reader lose nothing, and no node gets another's path", "[cupti]") {
  GraphScopes scopes(8 << 20);
  constexpr uint32_t kThreads = 4;
  const uint32_t nodes = fakes::kThreadSanitizer ? 2000 : 30'000;
  std::atomic<uint32_t> running{kThreads}, wrong{0};
  std::vector<std::thread> threads;
  for (uint32_t id = 1; id <= kThreads; ++id) {
    threads.emplace_back([&, id] {
      for (uint32_t node = 0; node < nodes; ++node) scopes.Add(NodeOf(id, node), id);
      --running;
    });
  }
  while (running > 0) {
    for (uint32_t id = 1; id <= kThreads; ++id) {
      const uint32_t path = scopes.PathOf(NodeOf(id, nodes / 2));
      wrong += path != 0 && path != id;
    }
  }
  for (std::thread& thread : threads) thread.join();

  uint32_t kept = 0;
  for (uint32_t id = 1; id <= kThreads; ++id) {
    for (uint32_t node = 0; node < nodes; ++node) kept += scopes.PathOf(NodeOf(id, node)) == id;
  }
  CHECK(kept == kThreads * nodes);
  CHECK(wrong == 0);
}
