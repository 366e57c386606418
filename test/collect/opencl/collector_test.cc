// SPDX-License-Identifier: Apache-2.0
//
// The collector and its layer, between a host and a fake driver.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "collect/opencl/fake_opencl.h"
#include "collect/opencl/layer.h"
#include "fakes/trace_text.h"
#include "pitot/collect/opencl.h"
#include "pitot/model/index.h"
#include "session/host.h"

namespace {

namespace cl = pitot::opencl;
using fakes::FakeOpenCl;
using pitot::StatusCode;
using pitot::model::kNone;
using pitot::model::Trace;

constexpr int64_t kMs = 1'000'000;
constexpr size_t kGlobal[] = {1024, 64}, kLocal[] = {256, 1};

// The host's program: it calls the loader's table, which is our layer's where that has a function.
struct Program {
  Program() {
    driver = FakeOpenCl();
    const void* const* const theirs = driver.table();
    uint32_t entries = 0;
    const void* const* const ours = pitot_opencl_layer(theirs, cl::kEntries, &entries);
    for (uint32_t i = 0; i < cl::kEntries; ++i) table[i] = i < entries && ours[i] != nullptr ? ours[i] : theirs[i];
    queue = Call<cl::CreateQueue>(cl::kCreateCommandQueue)(nullptr, &device, 0, nullptr);
  }
  template <class Function> Function Call(cl::Entry entry) const {
    return reinterpret_cast<Function>(const_cast<void*>(table[entry]));
  }
  cl::Result Launch(cl::Handle* event = nullptr, cl::Handle on = nullptr) {
    return Call<cl::EnqueueKernel>(cl::kEnqueueNDRangeKernel)(on != nullptr ? on : queue, &kernel, 2, nullptr, kGlobal,
                                                              kLocal, 0, nullptr, event);
  }

  FakeOpenCl& driver = FakeOpenCl::Get();
  FakeOpenCl::Kernel kernel{"scale"};
  int device = 0;
  const void* table[cl::kEntries] = {};
  cl::Handle queue = nullptr;
};

struct Rig {
  explicit Rig(const pitot::OpenClOptions& options = {}) {
    REQUIRE(host.Start());
    REQUIRE(host.recorder.Add(pitot::MakeOpenClCollector(options)).ok());
  }
  Trace Incident() {
    REQUIRE(host.TriggerAndFlush());
    Trace trace = host.traces().back();
    CHECK(pitot::model::FindInconsistency(trace) == "");
    return trace;
  }

  Program program;
  session_test::Host host;
};

std::string Call(const Trace& trace, uint32_t call) { return std::string(trace.strings[trace.calls.name[call]]); }

}  // namespace

TEST_CASE("a kernel has its name, shape, queue and times, and the request that launched it", "[opencl]") {
  Rig rig;
  {
    pitot::Request request = pitot::Request::Begin("/infer");
    REQUIRE(rig.program.Launch() == cl::kSuccess);
    request.Finish(pitot::Outcome::kOk);
  }
  const int64_t launched_ns = pitot::base::ClockNs(CLOCK_MONOTONIC);
  FakeOpenCl::Complete(&rig.program.driver.events.back(), 2 * kMs, 3 * kMs);

  const Trace trace = rig.Incident();

  REQUIRE(trace.gpu.size() == 1);
  CHECK(trace.strings[trace.gpu.name[0]] == "scale");
  CHECK(trace.gpu.kind[0] == pitot::GpuKind::kKernel);
  CHECK(trace.gpu.duration_ns[0] == 3 * kMs);
  CHECK(trace.gpu.begin_ns[0] == Approx(launched_ns + 2 * kMs).margin(100 * kMs));
  REQUIRE(trace.gpu.shape[0] != kNone);
  CHECK(trace.shapes[trace.gpu.shape[0]].grid[0] == 4);
  CHECK(trace.shapes[trace.gpu.shape[0]].block[0] == 256);
  const auto& device = trace.devices[trace.streams[trace.gpu.stream[0]].device];
  CHECK(trace.strings[device.name] == "fake device");
  CHECK(device.ordinal == 100);
  REQUIRE(trace.gpu.call[0] != kNone);
  CHECK(Call(trace, trace.gpu.call[0]) == "clEnqueueNDRangeKernel");
  REQUIRE(trace.calls.request[trace.gpu.call[0]] != kNone);
  CHECK(trace.strings[trace.requests[trace.calls.request[trace.gpu.call[0]]].route] == "/infer");
}

TEST_CASE("waits know their queue: clFinish, clWaitForEvents and blocking copies", "[opencl]") {
  Rig rig;
  const Program& program = rig.program;
  cl::Handle event = nullptr;
  REQUIRE(rig.program.Launch(&event) == cl::kSuccess);
  const auto read = program.Call<cl::EnqueueRead>(cl::kEnqueueReadBuffer);
  CHECK(read(program.queue, nullptr, 1, 0, 4096, nullptr, 0, nullptr, nullptr) == cl::kSuccess);
  CHECK(read(program.queue, nullptr, 0, 0, 4096, nullptr, 0, nullptr, nullptr) == cl::kSuccess);
  for (FakeOpenCl::Event& done : rig.program.driver.events) FakeOpenCl::Complete(&done, kMs, kMs);
  CHECK(program.Call<cl::OfHandle>(cl::kFinish)(program.queue) == cl::kSuccess);
  CHECK(program.Call<cl::WaitForEvents>(cl::kWaitForEvents)(1, &event) == cl::kSuccess);

  const Trace trace = rig.Incident();

  REQUIRE(trace.calls.size() == 5);
  const uint32_t stream = trace.gpu.stream[0];
  const std::vector<std::pair<std::string, uint32_t>> expected = {{"clEnqueueNDRangeKernel", kNone},
                                                                  {"clEnqueueReadBuffer", stream},
                                                                  {"clEnqueueReadBuffer", kNone},
                                                                  {"clFinish", stream},
                                                                  {"clWaitForEvents", stream}};
  for (uint32_t call = 0; call < 5; ++call)
    CHECK(std::pair(Call(trace, call), trace.calls.stream[call]) == expected[call]);
  CHECK(program.driver.finished == 1);
  CHECK(program.driver.waited == 1);
}

TEST_CASE("copies and fills are recorded with their bytes", "[opencl]") {
  Rig rig;
  const Program& program = rig.program;
  const auto write = program.Call<cl::EnqueueWrite>(cl::kEnqueueWriteBuffer);
  const auto copy = program.Call<cl::EnqueueCopy>(cl::kEnqueueCopyBuffer);
  const auto fill = program.Call<cl::EnqueueFill>(cl::kEnqueueFillBuffer);
  CHECK(write(program.queue, nullptr, 0, 0, 100, nullptr, 0, nullptr, nullptr) == cl::kSuccess);
  CHECK(copy(program.queue, nullptr, nullptr, 0, 0, 200, 0, nullptr, nullptr) == cl::kSuccess);
  CHECK(fill(program.queue, nullptr, nullptr, 0, 0, 300, 0, nullptr, nullptr) == cl::kSuccess);
  for (FakeOpenCl::Event& done : rig.program.driver.events) FakeOpenCl::Complete(&done, kMs, kMs);

  const Trace trace = rig.Incident();

  REQUIRE(trace.gpu.size() == 3);
  CHECK(trace.gpu.bytes == std::vector<uint64_t>{100, 200, 300});
  CHECK(trace.gpu.kind[2] == pitot::GpuKind::kMemset);
  CHECK(trace.strings[trace.gpu.name[0]] == "HtoD");
}

TEST_CASE("events end with the references that the host knows of", "[opencl]") {
  Rig rig;
  cl::Handle of_host = nullptr;
  REQUIRE(rig.program.Launch(&of_host) == cl::kSuccess);
  REQUIRE(rig.program.Launch() == cl::kSuccess);
  auto& events = rig.program.driver.events;
  CHECK(events[0].references == 2);
  for (FakeOpenCl::Event& done : events) FakeOpenCl::Complete(&done, kMs, kMs);
  CHECK(events[0].references == 1);
  CHECK(events[1].references == 0);

  rig.program.driver.refuses_callbacks = true;
  REQUIRE(rig.program.Launch() == cl::kSuccess);
  CHECK(events[2].references == 0);
  rig.program.driver.enqueue_result = -4;
  CHECK(rig.program.Launch() == -4);
  const Trace trace = rig.Incident();
  CHECK(trace.gpu.size() == 2);
  CHECK(fakes::Attribute(trace, "opencl.no_times") == "1");
  CHECK(fakes::Attribute(trace, "opencl.in_flight") == "");
}

TEST_CASE("each queue profiles, and one that cannot is made without and counted", "[opencl]") {
  Rig rig;
  Program& program = rig.program;
  CHECK(program.driver.queues[0].has_profiling);
  const auto create = program.Call<cl::CreateQueueWithProperties>(cl::kCreateCommandQueueWithProperties);
  const uint64_t order[] = {cl::kQueueProperties, 1, 0};
  for (const uint64_t* properties : {static_cast<const uint64_t*>(nullptr), order}) {
    REQUIRE(create(nullptr, &program.device, properties, nullptr) != nullptr);
    CHECK(program.driver.queues.back().has_profiling);
  }
  program.driver.refuses_profiling = true;
  const cl::Handle plain = create(nullptr, &program.device, order, nullptr);
  REQUIRE(plain != nullptr);
  CHECK_FALSE(program.driver.queues.back().has_profiling);
  REQUIRE(program.Launch(nullptr, plain) == cl::kSuccess);
  FakeOpenCl::Complete(&program.driver.events.back(), kMs, kMs);

  const Trace trace = rig.Incident();

  CHECK(trace.gpu.size() == 0);
  CHECK(fakes::Attribute(trace, "opencl.no_profiling") == "1");
  CHECK(fakes::Attribute(trace, "opencl.no_times") == "1");
}

TEST_CASE("a command that fails, of an unknown queue, or still in flight is counted", "[opencl]") {
  Rig rig;
  int stranger = 0;
  REQUIRE(rig.program.Launch() == cl::kSuccess);
  FakeOpenCl::Complete(&rig.program.driver.events.back(), kMs, kMs, -5);
  REQUIRE(rig.program.Launch() == cl::kSuccess);
  REQUIRE(rig.program.Launch(nullptr, &stranger) == cl::kSuccess);

  const Trace trace = rig.Incident();

  CHECK(trace.gpu.size() == 0);
  CHECK(fakes::Attribute(trace, "opencl.failed") == "1");
  CHECK(fakes::Attribute(trace, "opencl.in_flight") == "1");
  CHECK(fakes::Attribute(trace, "opencl.no_queue") == "1");
  FakeOpenCl::Complete(&rig.program.driver.events[1], kMs, kMs);
}

TEST_CASE("a wait for a queue whose work is not done yet knows its queue", "[opencl]") {
  Rig rig;
  REQUIRE(rig.program.Launch() == cl::kSuccess);
  CHECK(rig.program.Call<cl::OfHandle>(cl::kFinish)(rig.program.queue) == cl::kSuccess);

  const Trace trace = rig.Incident();

  CHECK(trace.gpu.size() == 0);
  REQUIRE(trace.calls.size() == 2);
  CHECK(Call(trace, 1) == "clFinish");
  CHECK(trace.calls.stream[1] != kNone);
  FakeOpenCl::Complete(&rig.program.driver.events.back(), kMs, kMs);
}

TEST_CASE("the newest work is kept, and the loss of the rest is in the incident", "[opencl]") {
  Rig rig({.memory_bytes = 64 << 10});
  constexpr int kAll = 600, kRoom = (32 << 10) / 64;
  for (int i = 0; i < kAll; ++i) {
    REQUIRE(rig.program.Launch() == cl::kSuccess);
    FakeOpenCl::Complete(&rig.program.driver.events.back(), 0, 1000);
  }

  const Trace trace = rig.Incident();

  CHECK(trace.gpu.size() == kRoom);
  REQUIRE(trace.gpu_losses.size() == 1);
  CHECK(trace.strings[trace.gpu_losses[0].reason] == "overwritten");
}

TEST_CASE("work that ends after the recorder stopped is dropped, and its event released", "[opencl]") {
  Rig rig;
  REQUIRE(rig.program.Launch() == cl::kSuccess);
  rig.host.recorder.Stop();
  FakeOpenCl::Event& late = rig.program.driver.events.back();
  FakeOpenCl::Complete(&late, kMs, kMs);
  CHECK(late.references == 0);
  REQUIRE(rig.program.Launch() == cl::kSuccess);
  CHECK(rig.program.driver.events.size() == 1);  // without an event of ours
}

TEST_CASE("a collector refuses a second one, and bad options by name", "[opencl]") {
  Rig rig;
  CHECK(rig.host.recorder.Add(pitot::MakeOpenClCollector()).code() == StatusCode::kAlreadyRunning);
  rig.host.recorder.Stop();
  session_test::Host host;
  REQUIRE(host.Start());
  const pitot::Status status = host.recorder.Add(pitot::MakeOpenClCollector({.memory_bytes = 1}));
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(std::string(status.message()).find("OpenClOptions::memory_bytes is 1") != std::string::npos);
  CHECK(host.recorder.Add(pitot::MakeOpenClCollector()).ok());
}

TEST_CASE("a long kernel name is cut, and a block that the driver chooses gives no shape", "[opencl]") {
  Rig rig;
  rig.program.kernel.name = std::string(500, 'k');
  const auto launch = rig.program.Call<cl::EnqueueKernel>(cl::kEnqueueNDRangeKernel);
  REQUIRE(launch(rig.program.queue, &rig.program.kernel, 2, nullptr, kGlobal, nullptr, 0, nullptr, nullptr) == 0);
  FakeOpenCl::Complete(&rig.program.driver.events.back(), kMs, kMs);

  const Trace trace = rig.Incident();

  REQUIRE(trace.gpu.size() == 1);
  CHECK(trace.strings[trace.gpu.name[0]] == std::string(120, 'k'));
  CHECK(trace.gpu.shape[0] == kNone);
}

TEST_CASE("a layer that is named twice leaves calls to the first", "[opencl]") {
  Program program;
  uint32_t entries = 0;
  CHECK(pitot_opencl_layer(program.table, cl::kEntries, &entries) == nullptr);
  CHECK(entries == 0);
  CHECK(program.Call<cl::OfHandle>(cl::kFinish)(program.queue) == cl::kSuccess);
  CHECK(program.driver.finished == 1);
}

TEST_CASE("a loader that is too old gets no functions", "[opencl]") {
  uint32_t entries = 1;
  (void)pitot_opencl_layer(FakeOpenCl::Get().table(), cl::kEntriesOfOpenCl11 - 1, &entries);
  CHECK(entries == 0);
  const Program again;  // leaves the layer as other tests need it
}

TEST_CASE("a device's clock is known to the narrowest call, and starts anew when it contradicts", "[opencl]") {
  cl::DeviceClock clock;
  clock.Learn({100, 900, 1100, 1300, 9000});
  CHECK(clock.HostNs(0) == 1100);
  CHECK(clock.error_ns() == 100);
  clock.Learn({200, 900, 1290, 1400, 9000});
  CHECK(clock.HostNs(0) == 1145);
  CHECK(clock.error_ns() == 55);
  clock.Learn({300, 900, 1250, 1700, 2010});
  CHECK(clock.HostNs(0) == 1100);
  CHECK(clock.error_ns() == 10);
  clock.Learn({300, 900, 2000, 2020, 9000});
  CHECK(clock.HostNs(0) == 1710);
  CHECK(clock.error_ns() == 10);
}
