// SPDX-License-Identifier: Apache-2.0
//
// The forecast of the lasting cost of recording kernels, from calls.
#include "collect/cupti/lasting_cost.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "fakes/scale.h"

namespace {

using pitot::base::CallClass;
using pitot::cupti::LastingCost;

constexpr int64_t kUs = 1000, kLookNs = 100'000'000;

// A thread that launches, and waits at the end.
struct Worker {
  // `gap_ns` from launch to launch, of 5 us each.
  void Launch(int count, int64_t gap_ns) {
    for (int i = 0; i < count; ++i, now_ns += gap_ns) cost.Add(id, CallClass::kLaunch, now_ns, now_ns + 5 * kUs);
  }
  void Wait(int64_t ns) {
    cost.Add(id, CallClass::kSync, now_ns, now_ns + ns);
    now_ns += ns;
  }

  LastingCost& cost;
  uint64_t id;
  int64_t now_ns = 1'000'000'000;
};

void Look(LastingCost* cost, int looks, void (*work)(Worker& worker)) {
  for (int i = 0; i < looks; ++i) {
    Worker worker{*cost, 17};
    work(worker);
    cost->EndLook(kLookNs);
  }
}

std::unique_ptr<LastingCost> Make() { return std::make_unique<LastingCost>(); }

}  // namespace

TEST_CASE("a thread launching all the time pays for each launch", "[cupti]") {
  auto cost = Make();
  Look(cost.get(), 5, [](Worker& worker) { worker.Launch(1000, 14 * kUs); });
  REQUIRE(cost->is_known());
  CHECK(cost->percent() == Approx(10).epsilon(0.01));
}

TEST_CASE("a thread with long waits for the GPU waits less as its launches take longer", "[cupti]") {
  auto cost = Make();
  Look(cost.get(), 5, [](Worker& worker) {
    for (int batch = 0; batch < 5; ++batch) worker.Launch(200, 14 * kUs), worker.Wait(2800 * kUs);
  });
  CHECK(cost->percent() == Approx(0).margin(0.01));
  // A wait that hides nine tenths of the cost.
  auto most = Make();
  Look(most.get(), 5, [](Worker& worker) {
    for (int batch = 0; batch < 5; ++batch) worker.Launch(200, 5 * kUs), worker.Wait(252 * kUs);
  });
  CHECK(most->percent() == Approx(100 * 28.0 / (1000 + 252)).epsilon(0.01));
}

TEST_CASE("the time of the last kernels hides nothing, nor does a copy before launches", "[cupti]") {
  auto cost = Make();
  Look(cost.get(), 5, [](Worker& worker) {
    for (int batch = 0; batch < 5; ++batch)
      worker.Wait(500 * kUs), worker.Launch(200, 14 * kUs), worker.Wait(200 * kUs);
  });
  CHECK(cost->percent() == Approx(100 * 280.0 / (500 + 2800 + 200)).epsilon(0.01));
}

TEST_CASE("idle time between bursts does not make launches cheaper", "[cupti]") {
  auto cost = Make();
  Look(cost.get(), 5, [](Worker& worker) {
    for (int burst = 0; burst < 10; ++burst, worker.now_ns += 50'000 * kUs) worker.Launch(100, 14 * kUs);
  });
  CHECK(cost->percent() == Approx(10).epsilon(0.02));
}

TEST_CASE("a call inside another counts once", "[cupti]") {
  auto cost = Make();
  Look(cost.get(), 5, [](Worker& worker) {
    for (int i = 0; i < 1000; ++i, worker.now_ns += 14 * kUs) {
      worker.cost.Add(worker.id, CallClass::kLaunch, worker.now_ns + kUs, worker.now_ns + 4 * kUs);
      worker.cost.Add(worker.id, CallClass::kLaunch, worker.now_ns, worker.now_ns + 5 * kUs);
    }
    // One wait that hides all of the cost; two would hide as much again.
    worker.cost.Add(worker.id, CallClass::kSync, worker.now_ns + kUs, worker.now_ns + 13'000 * kUs);
    worker.cost.Add(worker.id, CallClass::kSync, worker.now_ns, worker.now_ns + 14'000 * kUs),
        worker.now_ns += 14'000 * kUs;
    worker.Launch(1000, 14 * kUs);
  });
  CHECK(cost->percent() == Approx(100 * 1400.0 / (14000 + 14000 + 14000)).epsilon(0.01));
}

TEST_CASE("knowing takes looks with launches, and the dearest of the last ones counts", "[cupti]") {
  auto cost = Make();
  Look(cost.get(), 100, [](Worker&) {});
  Look(cost.get(), 20, [](Worker& worker) { worker.Launch(19, 14 * kUs); });
  CHECK_FALSE(cost->is_known());
  Look(cost.get(), 4, [](Worker& worker) { worker.Launch(100, 700 * kUs); });
  CHECK_FALSE(cost->is_known());
  Look(cost.get(), 1, [](Worker& worker) { worker.Launch(100, 70 * kUs); });
  REQUIRE(cost->is_known());
  CHECK(cost->percent() == Approx(2).epsilon(0.02));
  Look(cost.get(), 5, [](Worker& worker) { worker.Launch(100, 700 * kUs); });
  CHECK(cost->percent() == Approx(0.2).epsilon(0.02));
}

TEST_CASE("launches that stay few cost little of the time", "[cupti]") {
  auto cost = Make();
  Look(cost.get(), 49, [](Worker& worker) { worker.Launch(10, 14 * kUs); });
  CHECK_FALSE(cost->is_known());
  Look(cost.get(), 1, [](Worker& worker) { worker.Launch(10, 14 * kUs); });
  REQUIRE(cost->is_known());
  CHECK(cost->percent() == Approx(0.014));
  // A burst shows how dense they really are.
  Look(cost.get(), 1, [](Worker& worker) { worker.Launch(100, 14 * kUs); });
  CHECK_FALSE(cost->is_known());
  Look(cost.get(), 4, [](Worker& worker) { worker.Launch(100, 14 * kUs); });
  REQUIRE(cost->is_known());
  CHECK(cost->percent() == Approx(10).epsilon(0.02));
}

TEST_CASE("the thread with the largest cost counts, and threads do not disturb each other", "[cupti]") {
  auto cost = Make();
  for (int look = 0; look < 5; ++look) {
    std::vector<std::thread> threads;
    for (uint64_t id = 1; id <= 100; ++id) {  // more than are looked at
      threads.emplace_back([&cost, id] {
        Worker worker{*cost, id};
        worker.Launch(200, id <= 3 ? 28 * kUs : 280 * kUs);
      });
      if (id <= 3) threads.back().join(), threads.pop_back();  // these are seen
    }
    for (std::thread& thread : threads) thread.join();
    cost->EndLook(kLookNs);
  }
  CHECK(cost->percent() == Approx(5).epsilon(0.02));
}

TEST_CASE("threads beginning a look at the same moment never share a row", "[cupti]") {
  auto cost = Make();
  constexpr int kLooks = fakes::kThreadSanitizer ? 2000 : 100'000;
  std::atomic<int> met{0};
  const auto meet = [&met](int times) {
    ++met;
    for (int spins = 0; met.load() < 2 * times; ++spins) {
      if (spins > 1000) std::this_thread::yield();
    }
  };
  int shared = 0;
  const auto work = [&](uint64_t id, bool ends_looks) {
    for (int look = 0; look < kLooks; ++look) {
      meet(2 * look + 1);
      Worker worker{*cost, id};
      worker.now_ns *= static_cast<int64_t>(id);  // no two of their calls are near each other
      worker.Launch(30, 14 * kUs);                // any loss or addition shows
      meet(2 * look + 2);
      if (!ends_looks) continue;
      cost->EndLook(kLookNs);
      shared += look >= 5 && std::abs(cost->percent() - 100 * 30 * 1.4 / (29 * 14 + 5)) > 0.01;
    }
  };
  // Numbers with the same place for their rows.
  std::thread other(work, 17, false);
  work(106, true);
  other.join();

  CHECK(shared == 0);
}

TEST_CASE("nonsensical times are ignored", "[cupti]") {
  auto cost = Make();
  Look(cost.get(), 5, [](Worker& worker) {
    worker.Launch(100, 14 * kUs);
    worker.cost.Add(worker.id, CallClass::kLaunch, worker.now_ns, worker.now_ns - 1);
    worker.cost.Add(0, CallClass::kLaunch, worker.now_ns, worker.now_ns + 1);
  });
  CHECK(cost->percent() == Approx(10).epsilon(0.1));
}
