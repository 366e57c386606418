// SPDX-License-Identifier: Apache-2.0
//
// A black box on a disk that begins to fail: reads and writes of its pages are EIO.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <thread>

#include "fakes/child.h"
#include "fakes/failing_disk.h"
#include "fakes/own_mounts.h"
#include "fakes/wait_until.h"
#include "pitot/pitot.h"
#include "session/boxes.h"
#include "trace/bus_guard.h"

namespace {

using pitot::Recorder;
using session_test::Boxes;

bool has_grown = false;

}  // namespace

TEST_CASE("a black box on a disk that fails does not kill its process, which goes on recording",
          "[black_box][platform]") {
  fakes::InOwnMounts([] {
    Boxes boxes;
    boxes.path = boxes.directory / "disk";
    boxes.incidents = boxes.directory / "incidents";
    HOLDS(mkdir(boxes.path.c_str(), 0700) == 0);
    const fakes::FailingDisk disk(boxes.path);
    if (!disk.IsMounted()) return fakes::kCannotRun;
    Recorder recorder = Recorder::Start(boxes.Options());
    HOLDS(recorder.status().ok());
    HOLDS(!boxes.log.Has(pitot::LogLevel::kWarning, "no black box"));
    pitot::Request request = pitot::Request::Begin("/before");
    for (int i = 0; i < 10'000; ++i) PITOT_INSTANT("before", i);

    HOLDS(disk.Fail());
    for (int i = 0; i < 10'000; ++i) PITOT_INSTANT("after", i);
    std::thread([] { PITOT_INSTANT("on a new thread"); }).join();
    request.Stage("after");
    request.Finish(pitot::Outcome::kOk);

    HOLDS(disk.errors() > 0);
    HOLDS(pitot::trace::PagesLost() > 0);
    // A ring grows into pages without a readable sector.
    std::thread([] {
      PITOT_INSTANT("first");
      const uint64_t first_mask = pitot::detail::t_ring->mask;
      has_grown = fakes::WaitUntil([first_mask] {
        for (int i = 0; i < 1000; ++i) PITOT_INSTANT("until it grows");
        return pitot::detail::t_ring->mask > first_mask;
      });
    }).join();
    HOLDS(has_grown);
    const uint64_t before = recorder.Stats().events_recorded;  // rings that lost their pages count anew
    for (int i = 0; i < 10'000; ++i) PITOT_INSTANT("later", i);
    HOLDS(recorder.Stats().events_recorded == before + 10'000);
    HOLDS(recorder.Trigger("on a failing disk").ok());
    HOLDS(recorder.Flush(60'000).ok());
    HOLDS(fakes::NamesIn(boxes.incidents).size() == 1);
    recorder.Stop();
    return 0;
  });
}
