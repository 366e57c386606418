// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "collect/host/cgroup.h"
#include "collect/host/rig.h"

using fakes::Machine;
using pitot::host::Quota;

namespace {

constexpr const char* kV1Mount =
    "41 32 0:37 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n";
constexpr const char* kV1MemoryMount = "40 32 0:36 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
constexpr const char* kV2Mount = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";

// The growth after `change`.
template <class Change> Quota::Throttled Growth(const Machine& machine, Change change) {
  Quota quota(machine.root());
  CHECK(quota.Read().ns == 0);
  change();
  return quota.Read();
}

}  // namespace

TEST_CASE("throttled time of cgroup v1 is in nanoseconds", "[host]") {
  Machine machine;
  machine.Write("/proc/self/mountinfo", std::string(kV1MemoryMount) + kV1Mount);
  machine.Write("/proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/a/b\n");
  const char* const stat = "/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.stat";
  machine.Write(stat, "nr_periods 1\nnr_throttled 1\nthrottled_time 500\n");

  const Quota::Throttled grown =
      Growth(machine, [&] { machine.Write(stat, "nr_periods 4\nnr_throttled 3\nthrottled_time 900\n"); });

  CHECK(grown.ns == 400);
  CHECK(grown.periods == 2);
}

TEST_CASE("throttling of a cgroup above the process's own counts, too", "[host]") {
  Machine machine;
  machine.Write("/proc/self/mountinfo", kV2Mount);
  machine.Write("/proc/self/cgroup", "0::/pod/server\n");
  machine.Write("/sys/fs/cgroup/cpu.stat", "usage_usec 5\n");  // the root has no quota
  machine.Write("/sys/fs/cgroup/pod/cpu.stat", "nr_periods 1\nnr_throttled 0\nthrottled_usec 0\n");
  machine.Write("/sys/fs/cgroup/pod/server/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\n");

  const Quota::Throttled grown = Growth(machine, [&] {
    machine.Write("/sys/fs/cgroup/pod/cpu.stat", "nr_periods 2\nnr_throttled 1\nthrottled_usec 30\n");
  });

  CHECK(grown.ns == 30'000);
  CHECK(grown.periods == 1);
}

TEST_CASE("a mount in a container shows the process's own cgroup", "[host]") {
  Machine machine;
  machine.Write("/proc/self/mountinfo", "41 32 0:37 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
  machine.Write("/proc/self/cgroup", "4:cpu:/docker/abc\n");
  machine.Write("/sys/fs/cgroup/cpu/cpu.stat", "nr_throttled 1\nthrottled_time 5\n");

  const Quota::Throttled grown =
      Growth(machine, [&] { machine.Write("/sys/fs/cgroup/cpu/cpu.stat", "nr_throttled 2\nthrottled_time 7\n"); });

  CHECK(grown.ns == 2);
}

TEST_CASE("a mixed machine has its CPU controller in v1", "[host]") {
  Machine machine;
  machine.Write("/proc/self/mountinfo",
                "41 32 0:37 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n50 32 0:40 / /sys/fs/cgroup/unified rw - "
                "cgroup2 cgroup2 rw\n");
  machine.Write("/proc/self/cgroup", "1:cpu:/\n0::/\n");
  machine.Write("/sys/fs/cgroup/cpu/cpu.stat", "nr_throttled 0\nthrottled_time 0\n");
  machine.Write("/sys/fs/cgroup/unified/cpu.stat", "usage_usec 5\n");

  Quota quota(machine.root());
  quota.Read();

  CHECK(quota.is_there());
  CHECK_FALSE(quota.IsV2());
}

TEST_CASE("a process moved to another cgroup keeps its total", "[host]") {
  Machine machine;
  machine.Write("/proc/self/mountinfo", kV2Mount);
  machine.Write("/proc/self/cgroup", "0::/one\n");
  machine.Write("/sys/fs/cgroup/one/cpu.stat", "nr_throttled 0\nthrottled_usec 0\n");
  machine.Write("/sys/fs/cgroup/other/cpu.stat", "nr_throttled 8\nthrottled_usec 1000\n");
  Quota quota(machine.root());
  quota.Read();
  machine.Write("/sys/fs/cgroup/one/cpu.stat", "nr_throttled 1\nthrottled_usec 40\n");
  REQUIRE(quota.Read().ns == 40'000);

  machine.Write("/proc/self/cgroup", "0::/other\n");
  CHECK(quota.Read().ns == 40'000);
  machine.Write("/sys/fs/cgroup/other/cpu.stat", "nr_throttled 9\nthrottled_usec 1002\n");
  CHECK(quota.Read().ns == 42'000);
  CHECK(quota.Read().periods == 2);
}

TEST_CASE("a machine without cgroups has no quota", "[host]") {
  Machine machine;
  Quota quota(machine.root());
  CHECK(quota.Read().ns == 0);
  CHECK_FALSE(quota.is_there());
}
