// SPDX-License-Identifier: Apache-2.0
//
// A host with several GPUs and contexts.
#include <dlfcn.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "collect/cupti/fake_driver.h"
#include "collect/cupti/rig.h"
#include "pitot/model/index.h"

namespace {

namespace model = pitot::model;
using fakes::Find;
using fakes::GpuHost;
using model::kNone;
using pitot::Depth;

fakes::FakeDriver& LoadDriver() {
  void* const handle = dlopen(PITOT_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle != nullptr);
  return *reinterpret_cast<fakes::FakeDriver* (*)()>(dlsym(handle, "fake_driver"))();
}

const model::StreamRow& StreamOf(const model::Trace& trace, const char* name) {
  REQUIRE(Find(trace, name) != kNone);
  return trace.streams[trace.gpu.stream[Find(trace, name)]];
}

}  // namespace

TEST_CASE("records of two devices and two contexts in one buffer get their own streams and their device's facts",
          "[cupti]") {
  LoadDriver().is_initialised = true;
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "a", .stream = 7, .device = 0, .context = 1});
  host.cuda.Run({.name = "b", .stream = 7, .device = 1, .context = 2});
  host.cuda.Run({.name = "c", .stream = 7, .device = 0, .context = 3});
  host.cuda.Run({.name = "d", .stream = 9, .device = 1, .context = 2});
  host.cuda.Run({.stream = 9, .device = 1, .context = 2, .copy_bytes = 4096});

  const model::Trace trace = host.Incident();

  CHECK(model::FindInconsistency(trace) == "");
  REQUIRE(trace.devices.size() == 2);
  CHECK(trace.streams.size() == 4);
  struct Expected {
    const char* name;
    uint32_t ordinal, context, stream;
  };
  for (const Expected& it : {Expected{"a", 0, 1, 7}, Expected{"b", 1, 2, 7}, Expected{"c", 0, 3, 7},
                             Expected{"d", 1, 2, 9}, Expected{"pageable to device", 1, 2, 9}}) {
    INFO(it.name);
    const model::StreamRow& stream = StreamOf(trace, it.name);
    const model::DeviceRow& device = trace.devices[stream.device];
    CHECK(device.ordinal == it.ordinal);
    CHECK(stream.context == it.context);
    CHECK(stream.stream == it.stream);
    CHECK(trace.strings[device.name] == "Fake " + std::to_string(it.ordinal));
    CHECK(device.multiprocessors == 100 + it.ordinal);
  }
  CHECK(trace.AttributeOf("gpu.0.uuid") == "GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0");
  CHECK(trace.AttributeOf("gpu.1.uuid") == "GPU-a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1");
}

TEST_CASE("a device overwriting its records leaves a request on another covered", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  const uint32_t graph = host.cuda.Instantiate(1000);
  const auto serve = [&](const char* route, const auto& work) {
    pitot::Request request = pitot::Request::Begin(route);
    pitot::Batch batch = pitot::Batch::Begin("executor");
    batch.Join(request.token());
    work();
    batch.Finish();
    request.Finish(pitot::Outcome::kOk);
  };
  const auto launch = [&] { host.cuda.Run({.name = "quiet", .device = 1, .context = 2}); };
  serve("on both", [&] {
    launch();
    for (int i = 0; i < 150; ++i) {
      host.cuda.Replay(graph, "busy");  // of the first device
      if (i % 5 == 0) host.Round();
      if (i == 10) serve("on the quiet one", launch);
    }
  });

  const model::Trace trace = host.Incident();

  REQUIRE(trace.losses.empty());
  REQUIRE(trace.requests.size() == 2);
  uint32_t of_first = 0;
  for (const model::GpuLossRow& loss : trace.gpu_losses) {
    REQUIRE(loss.device != kNone);
    of_first += trace.devices[loss.device].ordinal == 0;
  }
  CHECK(of_first != 0);
  CHECK(of_first == trace.gpu_losses.size());
  const model::RequestIndex index(trace);
  const model::CoverageIndex coverage(trace);
  for (uint32_t row = 0; row < trace.requests.size(); ++row) {
    const model::KernelCoverage of = coverage.Of(index, row);
    const std::string route(trace.strings[trace.requests[row].route]);
    INFO(route << ": " << of.covered_ns << " of " << of.ran_ns);
    CHECK(of.IsWhole() == (route == "on the quiet one"));
  }
}
