// SPDX-License-Identifier: Apache-2.0
//
// `pitot counters` over the files that sampling processes share. This process stands for one.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "cli/folder.h"
#include "collect/counters/shared_file.h"

using namespace cli_test;
using namespace pitot::counters;

namespace {

int64_t NowNs() { return pitot::base::ClockNs(CLOCK_REALTIME); }

// A process that samples a GPU, and gives it away if it is asked to.
class Server {
 public:
  Server(const Folder& folder, const std::string& gpu, bool gives_away = true) : file_(folder / "", gpu) {
    const int64_t now_ns = NowNs();
    REQUIRE(file_.Begin(ThisProcess(), 4000, now_ns).empty());
    REQUIRE(file_.Write({Unmeasured(now_ns - 4'000'000, now_ns)}, 0, now_ns).empty());
    thread_ = std::thread([this, gives_away] {
      while (!stop_) {
        const bool is_released = gives_away && IsReleaseAsked(file_.Look(), NowNs());
        file_.SetState(is_released ? SharedState::kReleased : SharedState::kSampling, NowNs());
        usleep(1000);
      }
    });
  }
  ~Server() {
    stop_ = true;
    thread_.join();
  }

 private:
  SharedFile file_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

std::string Me() { return TextOf(ThisProcess()); }

}  // namespace

TEST_CASE("counters status names the sampling process of each GPU", "[cli]") {
  Folder folder;
  const Server server(folder, "GPU-aa");
  REQUIRE(SharedFile(folder / "", "GPU-bb").Begin({77, 1, ThisProcess().namespace_id, "gone"}, 8000, NowNs()).empty());

  const Result result = folder.Run("counters status --directory .");

  CHECK(result.exit_code == 0);
  CHECK(result.out.find("GPU-aa is sampled by " + Me() + ", every 4 ms; its newest sample is 0.") == 0);
  CHECK(result.out.find("\nGPU-bb is not sampled; process 77 (gone) was the last to sample it\n") != std::string::npos);
  const auto gpus = nlohmann::json::parse(folder.Run("counters status --json --directory .").out)["gpus"];
  REQUIRE(gpus.size() == 2);
  CHECK(gpus[0]["gpu"] == "GPU-aa");
  CHECK(gpus[0]["state"] == "sampling");
  CHECK(gpus[0]["pid"] == getpid());
  CHECK(gpus[0]["interval_us"] == 4000);
  CHECK(gpus[0]["newest_sample_age_s"] >= 0);
  CHECK(gpus[1]["state"] == "ended");
}

TEST_CASE("counters status says that no GPU is sampled, and names files that cannot be read", "[cli]") {
  Folder folder;
  Result result = folder.Run("counters status --directory .");
  CHECK(result.exit_code == 1);
  CHECK(result.err == "pitot: no process of this user samples a GPU with pitot::counters\n");
  CHECK(nlohmann::json::parse(folder.Run("counters status --json --directory .").out)["gpus"].empty());

  folder.Write("pitot-counters-" + std::to_string(geteuid()) + "-GPU-aa", "not Pitot's");
  result = folder.Run("counters status --directory .");
  CHECK(result.exit_code == 1);
  CHECK(result.out.find("GPU-aa: ./pitot-counters-") == 0);
}

TEST_CASE("counters release returns once the GPUs are released, for the time given", "[cli]") {
  Folder folder;
  const Server one(folder, "GPU-aa"), two(folder, "GPU-bb");

  const Result result = folder.Run("counters release --for 30 --directory .");

  CHECK(result.exit_code == 0);
  CHECK(result.out == "GPU-aa was released by " + Me() + " for 30 s\nGPU-bb was released by " + Me() + " for 30 s\n");
  const SharedView view = SharedFile(folder / "", "GPU-bb").Look();
  CHECK(view.state == SharedState::kReleased);
  CHECK(view.asked_by.name == "pitot");
  const Result status = folder.Run("counters status --directory .");
  CHECK(status.exit_code == 1);
  CHECK(status.out.find("GPU-aa is given away for another 30 s: process ") == 0);

  CHECK(folder.Run("counters release --for 0 --directory .").out ==
        "GPU-aa may be sampled again\nGPU-bb may be sampled again\n");
  CHECK_FALSE(IsReleaseAsked(SharedFile(folder / "", "GPU-aa").Look(), NowNs()));
}

TEST_CASE("counters release names the process that holds its GPU, and exits with 1", "[cli]") {
  Folder folder;
  const Server server(folder, "GPU-aa", false);
  const Result result = folder.Run("counters release --patience 0.1 --directory .");
  CHECK(result.exit_code == 1);
  CHECK(result.err.find("pitot: not released: GPU-aa is sampled by " + Me()) == 0);
}

TEST_CASE("counters release succeeds where no GPU is sampled, and none will be", "[cli]") {
  Folder folder;
  CHECK(folder.Run("counters release --directory .").exit_code == 0);
  REQUIRE(SharedFile(folder / "", "GPU-bb").Begin({77, 1, ThisProcess().namespace_id, "gone"}, 8000, NowNs()).empty());
  const Result result = folder.Run("counters release --directory .");
  CHECK(result.exit_code == 0);
  CHECK(result.out == "GPU-bb was not sampled, and will not be for 60 s\n");
}
