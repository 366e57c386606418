// SPDX-License-Identifier: Apache-2.0
//
// A process with a real GPU that exits, forks, or unloads launched kernels. CUDA is never used before a fork if the
// child must use it.
#include <dlfcn.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "fakes/child.h"
#include "gpu/host.h"
#include "gpu/work.h"
#include "pitot/collect/cupti.h"

namespace {

namespace model = pitot::model;
using gpu::GpuHost;
using gpu::Kernels;
using gpu::Say;
using pitot::Depth;

// The module next to this program.
std::string ModulePath() {
  char path[4096] = "";
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
  const std::string program(path, size > 0 ? static_cast<size_t>(size) : 0);
  return program.substr(0, program.rfind('/') + 1) + "libgpu_module.so";
}

}  // namespace

TEST_CASE("a process that exits while GPUs work and records are flushed has its own exit code", "[gpu][exit]") {
  GpuHost host(Depth::kKernels);  // started in the child, which never stops its recorder
  const int code = fakes::InChild([&] {
    HOLDS(host.Start());
    const pitot::Status status = host.recorder.Add(pitot::MakeCuptiCollector());
    if (gpu::CountDevices() == 0) return fakes::kCannotRun;
    HOLDS(status.ok());
    const gpu::Stream stream = gpu::MakeStream();
    for (int i = 0; i < 20'000; ++i) gpu::LaunchEmpty(stream);  // many buffers, some of them full
    for (int i = 0; i < 100; ++i) gpu::LaunchSpin(stream, 5'000'000);
    std::exit(7);
    return 1;
  });
  if (code == fakes::kCannotRun) {
    WARN("skipped, there is no GPU");
    return;
  }
  CHECK(code == 7);
}

TEST_CASE("a child forked after CUDA was used goes on unharmed, and so does its parent", "[gpu][fork]") {
  GpuHost host(Depth::kKernels);
  if (!host.StartOrSkip()) return;
  const gpu::Stream stream = gpu::MakeStream();
  for (int i = 0; i < 100; ++i) gpu::LaunchEmpty(stream);
  const int code = fakes::InChild([&] {
    { PITOT_SCOPE("of the child"); }
    HOLDS(host.recorder.Pause("cupti").code() == pitot::StatusCode::kNotRunning);
    host.recorder.Stop();
    session_test::Host own;  // it may record, but no GPU
    HOLDS(own.Start());
    pitot::CuptiOptions at_start;
    at_start.attach = pitot::CuptiAttach::kAtStart;
    HOLDS(own.recorder.Add(pitot::MakeCuptiCollector(at_start)).code() == pitot::StatusCode::kUnavailable);
    HOLDS(own.TriggerAndFlush());
    own.recorder.Stop();
    return 0;
  });
  for (int i = 0; i < 100; ++i) gpu::LaunchEmpty(stream);
  gpu::SynchronizeStream(stream);
  REQUIRE(std::string(gpu::LastError()) == "");

  const model::Trace trace = host.Incident();

  Say(trace);
  CHECK(code == 0);
  std::printf("around a fork: kernels seen: %zu of 200\n", Kernels(trace, "Empty").size());
  CHECK(Kernels(trace, "Empty").size() == 200);
}

TEST_CASE("kernels of an unloaded module are recorded, with the names read before", "[gpu][unload]") {
  GpuHost host(Depth::kKernels);
  if (!host.StartOrSkip()) return;
  const gpu::Stream stream = gpu::MakeStream();
  gpu::LaunchEmpty(stream);
  gpu::SynchronizeStream(stream);
  void* const module = dlopen(ModulePath().c_str(), RTLD_NOW | RTLD_LOCAL);
  INFO(ModulePath());
  REQUIRE(module != nullptr);
  using Launch = void (*)(gpu::Stream stream);
  const auto launch = reinterpret_cast<Launch>(dlsym(module, "LaunchOfModule"));
  REQUIRE(launch != nullptr);
  for (int i = 0; i < 50; ++i) launch(stream);
  gpu::SynchronizeStream(stream);
  REQUIRE(Kernels(host.Incident(), "OfModule").size() == 50);
  for (int i = 0; i < 50; ++i) launch(stream);
  gpu::SynchronizeStream(stream);
  REQUIRE(dlclose(module) == 0);  // nobody has read their names yet
  for (int i = 0; i < 50; ++i) gpu::LaunchEmpty(stream);
  gpu::SynchronizeStream(stream);
  REQUIRE(std::string(gpu::LastError()) == "");

  const model::Trace trace = host.Incident();

  Say(trace);
  const size_t named = Kernels(trace, "OfModule").size(), others = Kernels(trace, "Empty").size();
  std::printf("of a module that was unloaded: kernels seen: %zu of 100 by name\n", named);
  CHECK(named >= 50);
  CHECK(others == 51);
  CHECK(Kernels(trace, "").size() == 151);
}
