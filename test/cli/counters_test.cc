// SPDX-License-Identifier: Apache-2.0
//
// `pitot counters` over the files that sampling processes share. This process stands for one.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cli/folder.h"
#include "collect/counters/shared_file.h"
#include "fakes/wait_until.h"

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

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

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

namespace {

// A machine with two fake GPUs, and `pitot counters serve` on it.
class Serving {
 public:
  explicit Serving(const Folder& folder, const std::string& environment = "") : folder_(folder) {
    std::filesystem::create_symlink(PITOT_FAKE_DRIVER, folder / "libcuda.so.1");
    pid_ = fork();
    if (pid_ == 0) {
      const std::string command = "cd " + (folder / "") + " && FAKE_GPUS=First,Second LD_LIBRARY_PATH=. " +
                                  environment +
                                  " exec " PITOT_PROGRAM " counters serve --directory . --cupti " PITOT_FAKE_PM
                                  " >served 2>complained </dev/null";
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
  }
  ~Serving() {
    if (pid_ > 0) End(SIGKILL);
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

  // The exit code.
  int End(int signal = 0) {
    if (signal != 0) kill(pid_, signal);
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string Read(const char* name) const { return fakes::ReadFile(folder_ / name); }

 private:
  const Folder& folder_;
  pid_t pid_ = 0;
};

}  // namespace

TEST_CASE("counters serve samples all GPUs for processes of the user, until it is told to end", "[cli]") {
  Folder folder;
  Serving serving(folder);
  nlohmann::json gpus;
  const auto look = [&] {
    gpus = nlohmann::json::parse(folder.Run("counters status --json --directory .").out)["gpus"];
    return gpus.size() == 2 && gpus[0]["state"] == "sampling" && gpus[1]["state"] == "sampling";
  };
  REQUIRE(fakes::WaitUntil(look));
  CHECK_FALSE(gpus[0].contains("newest_sample_age_s"));
  CHECK(Has(folder.Run("counters status --directory .").out, "needed"));
  REQUIRE(SharedFile(folder / "", gpus[0]["gpu"]).AskForSamples(NowNs()).empty());
  REQUIRE(fakes::WaitUntil([&] { return look() && gpus[0].contains("newest_sample_age_s"); }));
  CHECK_FALSE(gpus[1].contains("newest_sample_age_s"));
  const std::string user = std::to_string(geteuid());
  CHECK(serving.Read("served").find("GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0 (First): sampled every 4000 us for "
                                    "processes of user " +
                                    user) == 0);
  CHECK(folder.Run("counters release --for 30 --directory .").exit_code == 0);
  CHECK(serving.End(SIGTERM) == 0);
  CHECK(serving.Read("complained").empty());
}

TEST_CASE("counters serve ends with the reason where the driver forbids it", "[cli]") {
  Folder folder;
  Serving serving(folder, "FAKE_PM_FORBIDS=1");
  CHECK(serving.End() == 1);
  CHECK(serving.Read("served").find("NVreg_RestrictProfilingToAdminUsers=0") != std::string::npos);
  CHECK(serving.Read("complained") == "pitot: no GPU can be sampled here; the lines above say why\n");
}

TEST_CASE("counters serve without a driver or with a wrong option says so", "[cli]") {
  const Folder folder;
  CHECK(folder.Run("counters serve --user nobody-of-this-name --directory .").err ==
        "pitot: --user: there is no user nobody-of-this-name\n");
  const Result wrong = folder.Run("counters serve --interval 99 --directory .");
  CHECK(wrong.exit_code == 2);
  CHECK(wrong.err ==
        "pitot: --interval: 99 was given; allowed: a whole number, 0, or 100 to 1000000. "
        "See `pitot --help`, or `pitot COMMAND --help`.\n");
  CHECK(folder.Run("counters serve --help").out.find("--interval UINT:0, or 100 to 1000000") != std::string::npos);
  folder.Write("libcuda.so.1", "no library");
  setenv("LD_LIBRARY_PATH", (folder / "").c_str(), 1);
  const Result none = folder.Run("counters serve --directory .");
  unsetenv("LD_LIBRARY_PATH");
  CHECK(none.exit_code == 1);
  CHECK(none.err.find("pitot: there is no NVIDIA driver here: ") == 0);
}
