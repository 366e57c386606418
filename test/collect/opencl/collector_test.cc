// SPDX-License-Identifier: Apache-2.0
//
// The collector and its layer, between a host and a fake driver.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collect/opencl/fake_opencl.h"
#include "collect/opencl/layer.h"
#include "fakes/child.h"
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
    driver.Reset();
    const void* const* const theirs = driver.table();
    uint32_t entries = 0;
    const void* const* const ours = pitot_opencl_layer(theirs, cl::kEntries, &entries);
    for (uint32_t i = 0; i < cl::kEntries; ++i) table[i] = i < entries && ours[i] != nullptr ? ours[i] : theirs[i];
    queue = Create();
  }
  ~Program() { Release(queue); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  cl::Handle Create(uint64_t properties = 0) {
    return Call<cl::CreateQueue>(cl::kCreateCommandQueue)(nullptr, &device, properties, nullptr);
  }
  void Retain(cl::Handle of) { (void)Call<cl::OfHandle>(cl::kRetainCommandQueue)(of); }
  void Release(cl::Handle of) { (void)Call<cl::OfHandle>(cl::kReleaseCommandQueue)(of); }
  template <class Function> Function Call(cl::Entry entry) const {
    return reinterpret_cast<Function>(const_cast<void*>(table[entry]));
  }
  cl::Result Launch(cl::Handle* event = nullptr, cl::Handle on = nullptr) {
    return Call<cl::EnqueueKernel>(cl::kEnqueueNDRangeKernel)(on != nullptr ? on : queue, &kernel, 2, nullptr, kGlobal,
                                                              kLocal, 0, nullptr, event);
  }

  FakeOpenCl& driver = FakeOpenCl::Get();
  FakeOpenCl::Kernel kernel{"scale"};
  inline static int device = 0;  // the same for each test, because a process has few
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

// Losses of a reason.
std::vector<pitot::model::GpuLossRow> Losses(const Trace& trace, const std::string& reason) {
  std::vector<pitot::model::GpuLossRow> found;
  for (const pitot::model::GpuLossRow& loss : trace.gpu_losses)
    if (trace.strings[loss.reason] == reason) found.push_back(loss);
  return found;
}

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
                                                                  {"clEnqueueReadBuffer (blocking)", stream},
                                                                  {"clEnqueueReadBuffer", kNone},
                                                                  {"clFinish", stream},
                                                                  {"clWaitForEvents", stream}};
  for (uint32_t call = 0; call < 5; ++call)
    CHECK(std::pair(Call(trace, call), trace.calls.stream[call]) == expected[call]);
  CHECK(program.driver.finished == 1);
  CHECK(program.driver.waited == 1);
}

TEST_CASE("blocking copies have a name of their own, also on an out-of-order queue", "[opencl]") {
  Rig rig;
  const Program& program = rig.program;
  const cl::Handle queue = rig.program.Create(cl::kOutOfOrder);
  const auto read = program.Call<cl::EnqueueRead>(cl::kEnqueueReadBuffer);
  const auto write = program.Call<cl::EnqueueWrite>(cl::kEnqueueWriteBuffer);
  // Their calls have no stream, because such a queue is not one: only the name tells them apart.
  for (const uint32_t is_blocking : {0, 1}) {
    CHECK(read(queue, nullptr, is_blocking, 0, 4096, nullptr, 0, nullptr, nullptr) == cl::kSuccess);
    CHECK(write(queue, nullptr, is_blocking, 0, 4096, nullptr, 0, nullptr, nullptr) == cl::kSuccess);
  }
  for (FakeOpenCl::Event& done : rig.program.driver.events) FakeOpenCl::Complete(&done, kMs, kMs);

  const Trace trace = rig.Incident();

  REQUIRE(trace.calls.size() == 4);
  const char* const expected[] = {"clEnqueueReadBuffer", "clEnqueueWriteBuffer", "clEnqueueReadBuffer (blocking)",
                                  "clEnqueueWriteBuffer (blocking)"};
  for (uint32_t call = 0; call < 4; ++call) CHECK(Call(trace, call) == expected[call]);
  const pitot::model::WaitingCalls waiting(trace);
  for (uint32_t call = 0; call < 4; ++call) CHECK(waiting.Has(call) == (call >= 2));
  rig.program.Release(queue);
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
    const cl::Handle made = create(nullptr, &program.device, properties, nullptr);
    REQUIRE(made != nullptr);
    CHECK(program.driver.queues.back().has_profiling);
    program.Release(made);
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
  program.Release(plain);
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

TEST_CASE("a command for which the driver gives no event is counted, and its slot comes back", "[opencl]") {
  Rig rig;
  rig.program.driver.gives_no_events = true;
  REQUIRE(rig.program.Launch() == cl::kSuccess);
  rig.program.driver.enqueue_result = -4;
  CHECK(rig.program.Launch() == -4);  // the host knows of this one

  const Trace trace = rig.Incident();

  CHECK(fakes::Attribute(trace, "opencl.no_times") == "1");
  CHECK(fakes::Attribute(trace, "opencl.in_flight") == "");
  REQUIRE(Losses(trace, "OpenCL gave no times").size() == 1);
  CHECK(trace.devices[Losses(trace, "OpenCL gave no times")[0].device].ordinal == 100);
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
  constexpr int kAll = 600, kRoom = (32 << 10) / static_cast<int>(sizeof(cl::Work));
  for (int i = 0; i < kAll; ++i) {
    REQUIRE(rig.program.Launch() == cl::kSuccess);
    FakeOpenCl::Complete(&rig.program.driver.events.back(), 0, 1000);
  }

  const Trace trace = rig.Incident();

  CHECK(trace.gpu.size() == kRoom);
  REQUIRE(trace.gpu_losses.size() == 1);
  CHECK(trace.strings[trace.gpu_losses[0].reason] == "OpenCL overwritten");
  REQUIRE(trace.gpu_losses[0].device != kNone);
  CHECK(trace.devices[trace.gpu_losses[0].device].ordinal == 100);
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

TEST_CASE("a device's clock is known to the narrowest call, and a step ends what was known", "[opencl]") {
  cl::DeviceClock clock;
  clock.Learn({100, 150, 1100, 1300, 2000});
  CHECK(clock.HostNs(0) == 1100);
  CHECK(clock.error_ns() == 100);
  clock.Learn({200, 300, 1290, 1400, 2100});
  CHECK(clock.HostNs(0) == 1145);
  CHECK(clock.error_ns() == 55);
  clock.Learn({300, 900, 1250, 1700, 2010});
  CHECK(clock.HostNs(0) == 1100);
  CHECK(clock.error_ns() == 10);
  clock.Learn({300, 900, 2000, 2020, 2900});
  CHECK(clock.HostNs(0) == 1710);
  CHECK(clock.error_ns() == 10);
}

TEST_CASE("clocks that drift apart widen the bounds instead of ending what was known", "[opencl]") {
  constexpr int64_t kSecond = 1'000'000'000, kStart = 1'000'000, kCall = 10'000;
  cl::DeviceClock clock;
  int64_t offset = 5000;
  const auto learn = [&](int64_t at_ns, int64_t call_ns) {
    const int64_t queued = at_ns - offset;
    clock.Learn({queued, queued + 1000, at_ns - call_ns, at_ns + call_ns, at_ns + 2 * call_ns});
  };
  learn(kStart, kCall);
  for (int i = 1; i <= 60; ++i) {
    offset += 100'000;  // 100 ppm
    learn(kStart + i * kSecond, 50 * kCall);
    INFO(i);
    if (i == 1) CHECK(clock.error_ns() < 25 * kCall);  // the first call still helps
    CHECK(std::abs(clock.HostNs(0) - offset) <= clock.error_ns());
  }
}

TEST_CASE("a late command of a stopped collector adds nothing to the next one", "[opencl]") {
  Rig rig;
  REQUIRE(rig.program.Launch() == cl::kSuccess);
  REQUIRE(rig.program.Launch() == cl::kSuccess);
  auto& events = rig.program.driver.events;
  // The driver asks about the command's end while the collector stops, and another begins.
  session_test::Host next;
  bool has_switched = false;
  rig.program.driver.on_profiling = [&] {
    if (std::exchange(has_switched, true)) return;
    rig.host.recorder.Stop();
    REQUIRE(next.Start());
    REQUIRE(next.recorder.Add(pitot::MakeOpenClCollector()).ok());
  };
  FakeOpenCl::Complete(&events[0], kMs, kMs);
  REQUIRE(has_switched);
  rig.program.driver.on_profiling = nullptr;
  FakeOpenCl::Complete(&events[1], kMs, kMs, -5);

  REQUIRE(next.TriggerAndFlush());
  const Trace trace = next.traces().back();

  CHECK(trace.gpu.size() == 0);
  CHECK(fakes::Attribute(trace, "opencl.failed") == "");
  CHECK(trace.gpu_losses.empty());
  CHECK(events[0].references == 0);
  CHECK(events[1].references == 0);
}

TEST_CASE("a loss of an earlier session does not count in the next one", "[opencl]") {
  cl::Losses losses;
  constexpr int64_t kSecond = 1'000'000'000;
  losses.Add(cl::Lost::kFailed, 0, kSecond, kSecond, 2);
  losses.Add(cl::Lost::kFailed, 0, kSecond, kSecond, 1);
  CHECK(losses.Total(cl::Lost::kFailed, 1) == 0);
  CHECK(losses.Total(cl::Lost::kFailed, 2) == 1);
  uint64_t records = 0;
  losses.ForEach(0, 2 * kSecond, 2, [&](cl::Lost, uint8_t, int64_t, int64_t, uint64_t count) { records += count; });
  CHECK(records == 1);
}

TEST_CASE("losses have a time range, and the oldest ones become one range without a number", "[opencl]") {
  cl::Losses losses;
  constexpr int64_t kSecond = 1'000'000'000, kBucket = int64_t{1} << cl::Losses::kShift;
  struct Row {
    int64_t begin_ns, end_ns;
    uint64_t records;
    bool operator==(const Row&) const = default;
  };
  const auto rows = [&](int64_t begin_ns, int64_t end_ns) {
    std::vector<Row> found;
    losses.ForEach(begin_ns, end_ns, 1, [&](cl::Lost why, uint8_t device, int64_t begin, int64_t end, uint64_t count) {
      CHECK(why == cl::Lost::kNoTimes);
      CHECK(device == 3);
      found.push_back({begin, end, count});
    });
    return found;
  };
  losses.Add(cl::Lost::kNoTimes, 3, 10 * kBucket, 12 * kBucket, 1);
  losses.Add(cl::Lost::kNoTimes, 3, 12 * kBucket, 12 * kBucket, 1);
  losses.Add(cl::Lost::kNoTimes, 3, 20 * kBucket, 20 * kBucket, 1);
  CHECK(rows(0, 60 * kSecond) == std::vector<Row>{{10 * kBucket, 13 * kBucket, 2}, {20 * kBucket, 21 * kBucket, 1}});
  CHECK(rows(11 * kBucket, 20 * kBucket + 5) ==
        std::vector<Row>{{11 * kBucket, 13 * kBucket, 2}, {20 * kBucket, 20 * kBucket + 5, 1}});
  CHECK(rows(14 * kBucket, 19 * kBucket).empty());
  // A round later the first one's bucket is used again.
  losses.Add(cl::Lost::kNoTimes, 3, 268 * kBucket, 268 * kBucket, 1);
  CHECK(rows(0, 269 * kBucket) ==
        std::vector<Row>{{0, 13 * kBucket, 0}, {20 * kBucket, 21 * kBucket, 1}, {268 * kBucket, 269 * kBucket, 1}});
}

TEST_CASE("a loss keeps its range and number as long as no newer one takes its place", "[opencl]") {
  cl::Losses losses;
  constexpr int64_t kSecond = 1'000'000'000;
  struct Row {
    int64_t begin_ns, end_ns;
    uint64_t records;
  };
  std::vector<Row> rows;
  const auto read = [&](int64_t begin_ns, int64_t end_ns) {
    rows.clear();
    losses.ForEach(begin_ns, end_ns, 1, [&](cl::Lost, uint8_t, int64_t begin, int64_t end, uint64_t count) {
      rows.push_back({begin, end, count});
    });
  };
  losses.Add(cl::Lost::kFailed, 0, 100 * kSecond, 100 * kSecond, 1);
  read(0, 300 * kSecond);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].records == 1);
  CHECK(rows[0].begin_ns <= 100 * kSecond);
  CHECK(rows[0].end_ns > 100 * kSecond);
  CHECK(rows[0].end_ns - rows[0].begin_ns <= int64_t{1} << cl::Losses::kShift);
  read(0, 90 * kSecond);
  CHECK(rows.empty());
  read(110 * kSecond, 300 * kSecond);
  CHECK(rows.empty());
  // Two rounds later, but in another bucket.
  losses.Add(cl::Lost::kFailed, 0, 250 * kSecond, 250 * kSecond, 1);
  read(0, 300 * kSecond);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].end_ns < 101 * kSecond);
  CHECK(rows[1].begin_ns > 249 * kSecond);
}

TEST_CASE("the loss of a command that took longer than all buckets covers its whole time", "[opencl]") {
  cl::Losses losses;
  constexpr int64_t kSecond = 1'000'000'000;
  losses.Add(cl::Lost::kFailed, 0, 100 * kSecond, 300 * kSecond, 1);
  // The buckets reach back 68 s; the time before has no number.
  int64_t covered_until_ns = 0;
  losses.ForEach(100 * kSecond, 300 * kSecond, 1, [&](cl::Lost, uint8_t, int64_t begin, int64_t end, uint64_t) {
    CHECK(begin == (covered_until_ns == 0 ? 100 * kSecond : covered_until_ns));
    covered_until_ns = end;
  });
  CHECK(covered_until_ns == 300 * kSecond);
}

TEST_CASE("queue 257 loses its commands with device and time, and a released queue makes room", "[opencl]") {
  Rig rig;
  Program& program = rig.program;
  std::vector<cl::Handle> queues;
  while (queues.size() < cl::kMaxQueues - 1u) queues.push_back(program.Create());
  const cl::Handle beyond = program.Create();
  REQUIRE(program.Launch(nullptr, queues.back()) == cl::kSuccess);
  FakeOpenCl::Complete(&program.driver.events.back(), kMs, kMs);
  REQUIRE(program.Launch(nullptr, beyond) == cl::kSuccess);
  CHECK(program.driver.events.size() == 1);  // the host asked for no event, and it has none
  program.Retain(queues[0]);
  program.Release(queues[0]);
  const cl::Handle not_yet = program.Create();
  REQUIRE(program.Launch(nullptr, not_yet) == cl::kSuccess);
  CHECK(program.driver.events.size() == 1);
  program.Release(queues[0]);
  const cl::Handle after = program.Create();
  REQUIRE(program.Launch(nullptr, after) == cl::kSuccess);
  FakeOpenCl::Complete(&program.driver.events.back(), kMs, kMs);

  const Trace trace = rig.Incident();

  CHECK(trace.gpu.size() == 2);
  CHECK(trace.gpu.stream[0] != trace.gpu.stream[1]);
  CHECK(fakes::Attribute(trace, "opencl.no_queue") == "2");
  const auto losses = Losses(trace, "OpenCL queue without a place");
  REQUIRE(!losses.empty());
  uint64_t records = 0;
  for (const auto& loss : losses) {
    records += loss.records;
    CHECK(loss.begin_ns < loss.end_ns);
    REQUIRE(loss.device != kNone);
    CHECK(trace.devices[loss.device].ordinal == 100);
  }
  CHECK(records == 2);
  for (size_t i = 1; i < queues.size(); ++i) program.Release(queues[i]);
  for (const cl::Handle queue : {beyond, not_yet, after}) program.Release(queue);
}

TEST_CASE("a queue in a released queue's place is another stream", "[opencl]") {
  Rig rig;
  Program& program = rig.program;
  const cl::Handle old = program.Create();
  REQUIRE(program.Launch(nullptr, old) == cl::kSuccess);
  program.Release(old);
  const cl::Handle made = program.Create();
  REQUIRE(program.Launch(nullptr, made) == cl::kSuccess);
  for (FakeOpenCl::Event& done : program.driver.events) FakeOpenCl::Complete(&done, kMs, kMs);

  const Trace trace = rig.Incident();

  REQUIRE(trace.gpu.size() == 2);
  CHECK(trace.gpu.stream[0] != trace.gpu.stream[1]);
  program.Release(made);
}

TEST_CASE("commands of an out-of-order queue share a stream only if none waited for the other", "[opencl]") {
  Rig rig;
  Program& program = rig.program;
  const uint64_t properties[] = {cl::kQueueProperties, cl::kOutOfOrder, 0};
  const auto create = program.Call<cl::CreateQueueWithProperties>(cl::kCreateCommandQueueWithProperties);
  for (const bool has_list : {false, true}) {
    INFO(has_list);
    const cl::Handle queue =
        has_list ? create(nullptr, &program.device, properties, nullptr) : program.Create(cl::kOutOfOrder);
    auto& events = program.driver.events;
    const size_t first = events.size();
    for (int i = 0; i < 2; ++i) REQUIRE(program.Launch(nullptr, queue) == cl::kSuccess);
    // One after the other, but the second may have waited for something else.
    FakeOpenCl::Complete(&events[first], 0, 500 * kMs);
    FakeOpenCl::Complete(&events[first + 1], 500 * kMs, 1000);
    CHECK(program.Call<cl::OfHandle>(cl::kFinish)(queue) == cl::kSuccess);

    const Trace trace = rig.Incident();

    REQUIRE(trace.gpu.size() == (has_list ? 4 : 2));
    for (uint32_t row = 0; row + 1 < trace.gpu.size(); ++row) CHECK(trace.gpu.stream[row] != trace.gpu.stream[row + 1]);
    CHECK(trace.calls.stream[trace.calls.size() - 1] == kNone);  // the target of clFinish
    program.Release(queue);
  }
}

TEST_CASE("commands of an out-of-order queue that was empty share a stream", "[opencl]") {
  Rig rig;
  const cl::Handle queue = rig.program.Create(cl::kOutOfOrder);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(rig.program.Launch(nullptr, queue) == cl::kSuccess);
    FakeOpenCl::Complete(&rig.program.driver.events.back(), 0, 1);
  }
  const Trace trace = rig.Incident();
  REQUIRE(trace.gpu.size() == 3);
  CHECK(trace.gpu.stream[0] == trace.gpu.stream[2]);
  rig.program.Release(queue);
}

TEST_CASE("nothing is recorded between Pause and Resume, and the incident says so", "[opencl]") {
  Rig rig;
  Program& program = rig.program;
  REQUIRE(program.Launch() == cl::kSuccess);
  REQUIRE(rig.host.recorder.Pause("opencl").ok());
  REQUIRE(rig.host.recorder.Pause("opencl").ok());
  FakeOpenCl::Complete(&program.driver.events.back(), 0, 1000);  // in flight before
  REQUIRE(program.Launch() == cl::kSuccess);
  CHECK(program.Call<cl::OfHandle>(cl::kFinish)(program.queue) == cl::kSuccess);
  CHECK(program.driver.events.size() == 1);
  const cl::Handle made = program.Create();

  const Trace paused = rig.Incident();

  CHECK(paused.gpu.size() == 1);
  CHECK(paused.calls.size() == 1);
  CHECK(fakes::Attribute(paused, "opencl.not_recorded") ==
        "paused by the host; to record kernels: Recorder::Resume(\"opencl\")");
  REQUIRE(Losses(paused, "OpenCL paused by the host").size() == 1);
  REQUIRE(Losses(paused, "OpenCL paused by the host")[0].device != kNone);
  CHECK(paused.devices[Losses(paused, "OpenCL paused by the host")[0].device].ordinal == 100);

  REQUIRE(rig.host.recorder.Resume("opencl").ok());
  REQUIRE(program.Launch(nullptr, made) == cl::kSuccess);
  FakeOpenCl::Complete(&program.driver.events.back(), 0, 1000);
  const Trace resumed = rig.Incident();
  CHECK(resumed.gpu.size() == 2);
  CHECK(fakes::Attribute(resumed, "opencl.not_recorded") == "");
  REQUIRE(Losses(resumed, "OpenCL paused by the host").size() == 1);
  CHECK(Losses(resumed, "OpenCL paused by the host")[0].end_ns < resumed.window_end_ns);
  program.Release(made);
}

TEST_CASE("the oldest of many pauses become one", "[opencl]") {
  Rig rig;
  for (int i = 0; i < 100; ++i) {
    REQUIRE(rig.host.recorder.Pause("opencl").ok());
    REQUIRE(rig.host.recorder.Resume("opencl").ok());
  }
  REQUIRE(rig.host.recorder.Pause("opencl").ok());
  const auto losses = Losses(rig.Incident(), "OpenCL paused by the host");
  CHECK(losses.size() == cl::Recording::Kept::kPauses);
}

TEST_CASE("commands beyond the 4,096 in flight are lost with device and time, and slots come back", "[opencl]") {
  Rig rig;
  Program& program = rig.program;
  constexpr int kMore = 10;
  for (uint32_t i = 0; i < cl::Recording::kMaxCommands + kMore; ++i) REQUIRE(program.Launch() == cl::kSuccess);
  CHECK(program.driver.events.size() == cl::Recording::kMaxCommands);
  const Trace full = rig.Incident();
  CHECK(fakes::Attribute(full, "opencl.no_slot") == std::to_string(kMore));
  const auto losses = Losses(full, "OpenCL command without a slot");
  uint64_t records = 0;
  for (const auto& loss : losses) {
    records += loss.records;
    REQUIRE(loss.device != kNone);
    CHECK(full.devices[loss.device].ordinal == 100);
  }
  CHECK(records == kMore);

  for (FakeOpenCl::Event& done : program.driver.events) FakeOpenCl::Complete(&done, 0, 1000);
  REQUIRE(program.Launch() == cl::kSuccess);
  FakeOpenCl::Complete(&program.driver.events.back(), 0, 1000);
  const Trace trace = rig.Incident();
  CHECK(trace.gpu.size() == cl::Recording::kMaxCommands + 1);
  CHECK(fakes::Attribute(trace, "opencl.in_flight") == "");
}

TEST_CASE("threads enqueue, and threads of the driver finish, while incidents are made and the collector changes",
          "[opencl][threads]") {
  Rig rig;
  Program& program = rig.program;
  constexpr int kThreads = 4, kEach = 500;
  std::atomic<int> left{kThreads};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kEach; ++n) {
        cl::Handle event = nullptr;
        if (program.Launch(&event) == cl::kSuccess)
          std::thread([event] { FakeOpenCl::Complete(static_cast<FakeOpenCl::Event*>(event), 0, 1000); }).join();
      }
      --left;
    });
  }
  int incidents = 0;
  while (left != 0 || incidents == 0) {
    REQUIRE(rig.host.TriggerAndFlush());
    CHECK(rig.host.recorder.Pause("opencl").ok());
    CHECK(rig.host.recorder.Resume("opencl").ok());
    ++incidents;
  }
  for (std::thread& thread : threads) thread.join();
  for (const FakeOpenCl::Event& event : program.driver.events) CHECK(event.references == 1);
  REQUIRE(program.Launch() == cl::kSuccess);
  FakeOpenCl::Complete(&program.driver.events.back(), 0, 1000);
  const Trace trace = rig.Incident();
  CHECK(trace.gpu.size() >= 1);
  CHECK(fakes::Attribute(trace, "opencl.in_flight") == "");
}

TEST_CASE("the child of a fork begins with nothing of its parent's, and records for itself", "[opencl][fork]") {
  Rig rig;
  Program& program = rig.program;
  REQUIRE(program.Launch() == cl::kSuccess);
  cl::Recording& parents_recording = *cl::Layer::Get()->Now();
  const int status = fakes::InChild([&] {
    // Without a collector of its own it records nothing, and its parent's does nothing.
    FakeOpenCl::Event& parents = program.driver.events.back();
    FakeOpenCl::Complete(&parents, 0, 1000);
    HOLDS(parents.references == 0);
    HOLDS(parents_recording.in_flight() == 1);  // untouched
    parents_recording.Keep(0);
    HOLDS(parents_recording.work().empty());
    HOLDS(program.Launch() == cl::kSuccess);
    HOLDS(program.driver.events.size() == 1);

    // Without a recorder, because ThreadSanitizer allows no threads here.
    const std::unique_ptr<pitot::Collector> collector = pitot::MakeOpenClCollector();
    HOLDS(collector->Pause().code() == StatusCode::kNotRunning);
    HOLDS(collector->Start().ok());
    HOLDS(program.Launch() == cl::kSuccess);  // on the parent's queue
    const cl::Handle own = program.Create();
    HOLDS(program.Launch(nullptr, own) == cl::kSuccess);
    cl::Recording& recording = *cl::Layer::Get()->Now();
    HOLDS(recording.in_flight() == 1);
    FakeOpenCl::Complete(&program.driver.events.back(), 0, 1000);
    collector->Keep(0, pitot::KeepFor::kIncident);
    HOLDS(recording.work().size() == 1);
    HOLDS(recording.losses.Total(cl::Lost::kNoQueue, recording.kept().session) == 1);
    HOLDS(recording.in_flight() == 0);
    return 0;
  });
  CHECK(status == 0);

  FakeOpenCl::Complete(&program.driver.events.back(), 0, 1000);
  const Trace trace = rig.Incident();
  CHECK(trace.gpu.size() == 1);
  CHECK(fakes::Attribute(trace, "opencl.no_queue") == "");
}
