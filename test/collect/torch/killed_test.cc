// SPDX-License-Identifier: Apache-2.0
//
// What the black box of a killed process has of LibTorch.
#include <ATen/ATen.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "fakes/temp_directory.h"
#include "fakes/wait_until.h"
#include "pitot/collect/torch.h"
#include "pitot/model/trace.h"
#include "pitot/pitot.h"
#include "session/boxes.h"
#include "session/post_mortem.h"
#include "trace/box.h"

namespace {

constexpr int64_t kMiB = 1 << 20;

// Until a value of a counter is in the black box.
[[noreturn]] void AllocateAndDie(session_test::Boxes* boxes) {
  pitot::Options options = boxes->Options();
  options.depth = pitot::Depth::kOps;
  pitot::Recorder recorder = pitot::Recorder::Start(options);
  if (!recorder.status().ok() || !pitot::torch::Enable(recorder).ok()) _exit(3);
  const std::string own = boxes->path + "/" + fakes::NamesIn(boxes->path).at(0);
  const int file = open(own.c_str(), O_RDONLY);  // never closed: that would release the lock on it
  const bool is_there = fakes::WaitUntil([file] {
    at::empty({8 * kMiB}, at::kByte);
    pitot::trace::BoxHeader header{};
    return pread(file, static_cast<void*>(&header), sizeof header, 0) == sizeof header &&
           header.last_values.written.load() != 0;
  });
  if (!is_there) _exit(4);
  kill(getpid(), SIGKILL);
  _exit(5);
}

}  // namespace

TEST_CASE("a killed process leaves the memory that LibTorch held, and the depth of its operators", "[torch]") {
  session_test::Boxes boxes;
  const pid_t child = fork();
  if (child == 0) AllocateAndDie(&boxes);
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(WIFSIGNALED(status));
  pitot::session::FoundBox box(pitot::session::BoxesIn(boxes.path).at(0));
  REQUIRE(box.Look() == pitot::session::FoundBox::Life::kDead);

  const pitot::model::Trace trace = pitot::session::TraceOf(&box.reader(), {}, 1 << 20, 64 << 20);

  double most = 0;
  for (uint32_t i = 0; i < trace.samples.size(); ++i) {
    const pitot::model::CounterRow& counter = trace.counters[trace.samples.counter[i]];
    if (trace.strings[counter.name] == "LibTorch CPU allocated: most of each second")
      most = std::max(most, trace.samples.value[i]);
  }
  CHECK(most >= 8 * kMiB);
  REQUIRE(!trace.operator_depths.empty());
  CHECK(trace.operator_depths.back().depth == pitot::Depth::kOps);
  CHECK(trace.operator_depths.back().end_ns == trace.window_end_ns);
}
