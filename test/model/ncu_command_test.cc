// SPDX-License-Identifier: Apache-2.0
#include "model/ncu_command.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "serialize/sample_trace.h"

namespace pitot::test {
namespace {

using model::GpuKind;
using model::kNone;
using model::Trace;

// Launches of a kernel, and a shorter one of another.
Trace Launches(std::string_view kernel, int64_t launches, int64_t batches = 0) {
  TraceMaker maker;
  maker.trace.window_end_ns = 1'000'000;
  const uint32_t thread = maker.Thread("executor");
  maker.trace.devices.push_back({});
  maker.trace.streams.push_back({0, 1, 7, 0, 0, 0});
  for (int64_t i = 0; i < batches; ++i) maker.Batch(1 + static_cast<uint64_t>(i), "e", thread, i, 1);
  maker.Gpu(0, GpuKind::kKernel, "other", 0, 1, kNone);
  for (int64_t i = 0; i < launches; ++i) maker.Gpu(0, GpuKind::kKernel, kernel, 10 * (i + 1), 5, kNone);
  return maker.Finish();
}
std::string CommandOf(const Trace& trace) { return model::NcuCommand(trace, model::LongestKernel(trace)); }
bool Has(const std::string& command, const std::string& part) { return command.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("ncu is asked for exactly one kernel, its roofline and its occupancy", "[ncu]") {
  CHECK(CommandOf(Launches("_Z4gemmIfEvPT_", 4)) ==
        "pitot counters release --for 600; ncu --target-processes all --set roofline --section Occupancy --section "
        "LaunchStats --clock-control none "
        "--cache-control none --kernel-name-base mangled --kernel-name 'regex:^_Z4gemmIfEvPT_$' --launch-skip 2 "
        "--launch-count 1 PROGRAM");
}

TEST_CASE("ncu skips ten batches' launches and measures one batch's", "[ncu]") {
  CHECK(Has(CommandOf(Launches("gemm", 300, 100)), "--launch-skip 30 --launch-count 3 "));
  CHECK(Has(CommandOf(Launches("gemm", 2500, 100)), "--launch-skip 250 --launch-count 10 "));
}

TEST_CASE("a name cannot leave its quotes or its regular expression", "[ncu]") {
  CHECK(Has(CommandOf(Launches("gemm.kd$1", 1)), "'regex:^gemm\\.kd\\$1$' "));
  const std::string command = CommandOf(Launches("a'; rm '<b>::c'd(e)", 1));
  CHECK(std::count(command.begin(), command.end(), '\'') == 2);
}

TEST_CASE("a C++ name is compared without its scopes and arguments", "[ncu]") {
  CHECK(Has(CommandOf(Launches("void at::native::reduce_kernel<512, 1>(float*)", 1)),
            "--kernel-name-base function --kernel-name 'regex:^reduce_kernel$' "));
}

TEST_CASE("a long C++ name stands for all instantiations of its template", "[ncu]") {
  std::string name = "_ZN2at6native13reduce_kernelILi512E";
  for (int i = 0; i < 20; ++i) name += "Li" + std::to_string(100 + i) + "E";
  CHECK(
      Has(CommandOf(Launches(name + "EEvv", 1)), "--kernel-name-base function --kernel-name 'regex:^reduce_kernel$' "));
}

TEST_CASE("without kernels there is none to measure", "[ncu]") {
  CHECK(model::LongestKernel(TraceMaker().Finish()) == 0);
  Trace amd = Launches("gemm", 3);
  amd.devices[0].name = amd.strings.Add("AMD Instinct MI300X");
  CHECK(model::LongestKernel(amd) == 0);
}

}  // namespace pitot::test
