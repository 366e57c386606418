// SPDX-License-Identifier: Apache-2.0
//
// What the black box of a process that is killed has of its GPU work. PITOT_KILLS says how often (3).
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "fakes/child.h"
#include "fakes/wait_until.h"
#include "gpu/host.h"
#include "gpu/work.h"
#include "pitot/collect/cuda_events.h"
#include "pitot/collect/cupti.h"
#include "session/post_mortem.h"

namespace {

namespace session = pitot::session;
using gpu::GpuHost;
using pitot::Depth;

// Shared with the process that is killed.
struct Progress {
  std::atomic<uint64_t> begun, done;  // steps, each with one kernel
  std::atomic<int64_t> begin_ns;      // when the first one began
};

int64_t Now() { return pitot::base::ClockNs(CLOCK_MONOTONIC); }

// A server with one GPU: it computes until it is killed. Returns at once if it cannot.
template <class Step> int Serve(Progress* progress, Step step) {
  const gpu::Stream stream = gpu::MakeStream();
  progress->begin_ns = Now();
  for (;;) {
    const pitot::Request request = pitot::Request::Begin("/infer");
    ++progress->begun;
    step(stream);
    gpu::SynchronizeStream(stream);
    if (*gpu::LastError() != 0) return 1;
    ++progress->done;
  }
}

// What one black box had of the GPU.
struct Found {
  size_t rows = 0, named = 0, outside = 0, overlapping = 0;
  uint64_t lost = 0;        // rows that were overwritten
  int64_t age_ns = 0;       // of the end of the newest one, when the process was killed
  uint64_t unrecorded = 0;  // steps that were done, and whose row was not handed over yet
};

Found Look(const std::string& path, pitot::model::GpuKind kind, const char* name, const Progress& progress,
           int64_t killed_ns) {
  session::FoundBox box(path);
  REQUIRE(box.Look() == session::FoundBox::Life::kDead);
  std::vector<pitot::trace::LastWork> rows = box.reader().LastWork();
  const std::vector<std::string> texts = box.reader().LastTexts();
  std::erase_if(
      rows, [&](const auto& row) { return row.name == 0 || texts.at(row.name - 1).find(name) == std::string::npos; });
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  Found found;
  found.rows = rows.size();
  found.lost = box.reader().LastWorkLost();
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t end_ns = rows[i].begin_ns + rows[i].duration_ns;
    // The clocks of the GPU and of the host differ by some us.
    if (rows[i].begin_ns < progress.begin_ns - 1'000'000 || end_ns > killed_ns + 1'000'000) ++found.outside;
    if (i != 0 && rows[i].begin_ns < rows[i - 1].begin_ns + rows[i - 1].duration_ns - 2'000) ++found.overlapping;
  }
  if (!rows.empty()) found.age_ns = killed_ns - rows.back().begin_ns - rows.back().duration_ns;
  const uint64_t handed = found.lost + found.rows;
  found.unrecorded = progress.done > handed ? progress.done - handed : 0;
  // The trace that the incident is made of has the same.
  const pitot::model::Trace trace = session::TraceOf(&box.reader(), {}, 8 << 20, uint64_t{1} << 30);
  CHECK(pitot::model::FindInconsistency(trace) == "");
  for (uint32_t i = 0; i < trace.gpu.size(); ++i)
    found.named += trace.gpu.kind[i] == kind && gpu::Name(trace, i).find(name) != std::string_view::npos;
  box.Remove();
  return found;
}

template <class Add, class Step>
void KillOften(pitot::model::GpuKind kind, const char* name, Depth depth, Add add, Step step) {
  const char* const wanted = std::getenv("PITOT_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 3;
  void* const memory = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto* const progress = static_cast<Progress*>(memory);
  std::mt19937 random(20261129);
  std::vector<int64_t> ages_ns;
  uint64_t steps = 0, rows = 0, unrecorded = 0;
  for (int round = 0; round < kills; ++round) {
    new (progress) Progress{};
    GpuHost host(depth);
    const std::string boxes = host.directory.path() + "/boxes";
    host.options.black_box_directory = boxes.c_str();
    const pid_t child = fakes::StartChild([&] {
      HOLDS(host.Start());
      const pitot::Status status = add(host.recorder);
      if (gpu::CountDevices() == 0) return fakes::kCannotRun;
      HOLDS(status.ok());
      return Serve(progress, step);
    });
    REQUIRE(child > 0);
    int status = 0;
    pid_t ended = 0;
    REQUIRE(fakes::WaitUntil([&] {
      ended = waitpid(child, &status, WNOHANG);
      return ended != 0 || progress->done >= 1000;
    }));
    if (ended == child && WIFEXITED(status) && WEXITSTATUS(status) == fakes::kCannotRun) {
      WARN("skipped, there is no GPU");
      munmap(memory, sizeof(Progress));
      return;
    }
    REQUIRE(ended == 0);
    usleep(static_cast<useconds_t>(random() % 50'000));
    kill(child, SIGKILL);
    const int64_t killed_ns = Now();
    REQUIRE(fakes::WaitForChild(child) == 1000 + SIGKILL);

    const std::vector<std::string> paths = session::BoxesIn(boxes);
    REQUIRE(paths.size() == 1);
    const Found found = Look(paths[0], kind, name, *progress, killed_ns);

    INFO("kill " << round << ": " << progress->done << " steps, " << found.rows << " rows, " << found.lost << " lost, "
                 << found.named << " in the trace");
    CHECK(found.rows > 0);
    CHECK(found.named == found.rows);
    CHECK(found.rows <= progress->begun);
    CHECK(found.outside == 0);
    CHECK(found.overlapping == 0);
    ages_ns.push_back(found.age_ns);
    steps += progress->done;
    rows += found.rows;
    unrecorded += found.unrecorded;
  }
  munmap(memory, sizeof(Progress));
  std::sort(ages_ns.begin(), ages_ns.end());
  std::printf(
      "killed: %d times, %s: %llu of %llu steps kept, %llu not handed over; newest is %.1f ms old (most %.1f)\n", kills,
      name, static_cast<unsigned long long>(rows), static_cast<unsigned long long>(steps),
      static_cast<unsigned long long>(unrecorded), static_cast<double>(ages_ns[ages_ns.size() / 2]) / 1e6,
      static_cast<double>(ages_ns.back()) / 1e6);
}

}  // namespace

TEST_CASE("the black box of a process that was killed has its last kernels, and none that never ran", "[gpu][killed]") {
  KillOften(
      pitot::model::GpuKind::kKernel, "Spin", Depth::kKernels,
      [](pitot::Recorder& recorder) {
        pitot::CuptiOptions options;
        options.attach = pitot::CuptiAttach::kAtStart;
        return recorder.Add(pitot::MakeCuptiCollector(options));
      },
      [](gpu::Stream stream) { gpu::LaunchSpin(stream, 50'000); });
}

TEST_CASE("the black box of a process that was killed has its last spans between CUDA events", "[gpu][killed]") {
  KillOften(
      pitot::model::GpuKind::kSpan, "forward", Depth::kScopes,
      [](pitot::Recorder& recorder) { return recorder.Add(pitot::MakeCudaEventCollector()); },
      [](gpu::Stream stream) {
        const pitot::CudaEventScope scope(stream, "forward");
        gpu::LaunchSpin(stream, 50'000);
      });
}
