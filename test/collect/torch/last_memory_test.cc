// SPDX-License-Identifier: Apache-2.0
#include "collect/torch/last_memory.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "fakes/own_box.h"
#include "pitot/collect/torch.h"
#include "trace/clock.h"

namespace {

using pitot::libtorch::LastMemory;
using pitot::libtorch::Memory;
using pitot::libtorch::MemoryNow;

constexpr int64_t kSecondNs = 1'000'000'000;

// Looks as the watcher does, a second later each time.
struct Looks {
  void Next() { last.SampleLast(now_ns += kSecondNs); }
  LastMemory last;
  int64_t now_ns = pitot::trace::MonotonicNs();
};

}  // namespace

TEST_CASE("the most memory that LibTorch held in a second is in the black box, not what is left of it", "[memory]") {
  const fakes::OwnBox box;
  Memory* const cpu = pitot::libtorch::MakeMemory(pitot::torch::kCpu);
  Memory* const gpu = pitot::libtorch::MakeMemory(3, 1000, 4000);
  REQUIRE(cpu != nullptr);
  REQUIRE(gpu != nullptr);
  const auto before = static_cast<double>(cpu->allocated.bytes());
  Looks looks;
  looks.Next();
  CHECK(box.ValuesNow().empty());

  cpu->allocated.Add(500, MemoryNow());
  cpu->allocated.Add(-400, MemoryNow());
  gpu->allocated.Add(50, MemoryNow());
  looks.last.SampleLast(looks.now_ns + kSecondNs / 2);  // the second is not over
  looks.Next();

  auto values = box.ValuesNow();
  CHECK(values["LibTorch CPU allocated: most of each second, bytes"] == std::vector<double>{before + 500});
  CHECK(values["LibTorch allocated on GPU 3: most of each second, bytes"] == std::vector<double>{1050});
  CHECK(values["LibTorch reserved on GPU 3: most of each second, bytes"] == std::vector<double>{4000});
}

TEST_CASE("memory that LibTorch uses first while it runs gets into the black box from then on", "[memory]") {
  const fakes::OwnBox box;
  constexpr const char* kName = "LibTorch allocated on GPU 4: most of each second, bytes";
  Looks looks;
  looks.Next();
  looks.Next();
  CHECK(box.ValuesNow().count(kName) == 0);
  REQUIRE(pitot::libtorch::MakeMemory(4, 70, 90) != nullptr);
  looks.Next();
  looks.Next();
  CHECK(box.ValuesNow()[kName] == std::vector<double>{70, 70});
}
