// SPDX-License-Identifier: Apache-2.0
#include "analyze/verdict/mechanism.h"

#include <catch2/catch.hpp>

#include <string>

namespace {

using pitot::analyze::Blame;
using pitot::analyze::kBlames;
using pitot::verdict::Mechanism;
using pitot::verdict::MechanismAt;
using pitot::verdict::MechanismPartlyAt;

}  // namespace

TEST_CASE("each category is a predicate with the duration", "[mechanism]") {
  for (uint32_t blame = 0; blame < kBlames; ++blame) {
    const std::string text = Mechanism({static_cast<Blame>(blame), "5.00 ms"});
    INFO(text);
    CHECK((text.find("waited 5.00 ms") == 0 || text.find("spent 5.00 ms ") == 0 || text.find("lost 5.00 ms ") == 0 ||
           text == "was blocked for 5.00 ms"));
  }
  CHECK(Mechanism({static_cast<Blame>(200), "5.00 ms"}) == Mechanism({Blame::kUntraced, "5.00 ms"}));
}

TEST_CASE("a place follows its category as English has it", "[mechanism]") {
  CHECK(MechanismAt({Blame::kExecutorBusy, "1.00 ms"}, "in queue \"images\"") ==
        "waited 1.00 ms for its executor in queue \"images\"");
  CHECK(MechanismAt({Blame::kUntraced, "1.00 ms"}, "on worker") == "spent 1.00 ms for no recorded reason on worker");
  CHECK(MechanismAt({Blame::kHostBlockedUnknown, "1.00 ms"}, "\"db\" on worker") ==
        "was blocked for 1.00 ms in \"db\" on worker");
  CHECK(MechanismAt({Blame::kGpuExecExpected, "1.00 ms"}, "gemm") == "spent 1.00 ms in GPU work: gemm");
  CHECK(MechanismAt({Blame::kHandoff, "1.00 ms"}, "") == "waited 1.00 ms for an idle thread to wake up");
}

TEST_CASE("a place with a part of the time comes with that part", "[mechanism]") {
  CHECK(MechanismPartlyAt({Blame::kHostOncpuFramework, "3.00 ms"}, "in \"forward\" on executor", "2.00 ms") ==
        "spent 3.00 ms on model code, 2.00 ms of it in \"forward\" on executor");
  CHECK(MechanismPartlyAt({Blame::kGpuExecExpected, "3.00 ms"}, "gemm", "2.00 ms") ==
        "spent 3.00 ms in GPU work, 2.00 ms of it in gemm");
  CHECK(MechanismAt({Blame::kHostGc, "3.00 ms", true, false, false, true}, "on http") ==
        "stood still for 3.00 ms while the interpreter had stopped its threads on http");
  CHECK(MechanismPartlyAt({Blame::kHostGc, "3.00 ms"}, "", "2.00 ms") == "spent 3.00 ms on garbage collection");
}

TEST_CASE("code that may have slept is not called code that ran", "[mechanism]") {
  constexpr bool kIsCounted = false;
  CHECK(Mechanism({Blame::kHostOncpuPre, "3.00 ms", kIsCounted}) == "spent 3.00 ms in code, running or asleep");
  CHECK(MechanismAt({Blame::kHostOncpuPre, "3.00 ms", kIsCounted}, "in \"sleepy\" on worker") ==
        "spent 3.00 ms in \"sleepy\" on worker, running or asleep");
  CHECK(MechanismAt({Blame::kHostOncpuFramework, "3.00 ms", kIsCounted}, "cudaLaunchKernel on worker") ==
        "spent 3.00 ms in code, running or asleep: cudaLaunchKernel on worker");
  CHECK(
      MechanismPartlyAt({Blame::kHostOncpuFramework, "3.00 ms", kIsCounted}, "in \"forward\" on executor", "2.00 ms") ==
      "spent 3.00 ms in code, running or asleep, 2.00 ms of it in \"forward\" on executor");
}

TEST_CASE("a thread that did not sleep is busy, or waits for a CPU", "[mechanism]") {
  constexpr bool kIsCounted = true, kHasRun = true;
  CHECK(MechanismAt({Blame::kUntraced, "3.00 ms", kIsCounted, kHasRun}, "on worker") ==
        "was busy for 3.00 ms on worker");
  CHECK(MechanismAt({Blame::kUntraced, "3.00 ms", !kIsCounted, kHasRun}, "on worker") ==
        "was busy, or waited for a CPU, for 3.00 ms on worker");
  CHECK(MechanismAt({Blame::kUntraced, "3.00 ms", !kIsCounted}, "on worker") ==
        "spent 3.00 ms for no recorded reason on worker");
  CHECK(MechanismAt({Blame::kHostOncpuPre, "3.00 ms", !kIsCounted, kHasRun}, "in \"decode\" on worker") ==
        "spent 3.00 ms in \"decode\" on worker, running or waiting for a CPU");
  CHECK(MechanismAt({Blame::kHostOncpuPre, "3.00 ms", kIsCounted, kHasRun}, "in \"decode\" on worker") ==
        "spent 3.00 ms on host code in \"decode\" on worker");
}
