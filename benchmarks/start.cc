// SPDX-License-Identifier: Apache-2.0
//
// How long does Recorder::Start take, without a black box, with one, and beside that of a dead process? Run by hand:
// pitot_start [ROUNDS [DIRECTORY]]. Each Start is the first of its process.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "pitot/pitot.h"

namespace {

constexpr uint64_t kDeadBudget = uint64_t{512} << 20;  // three quarters of it are for rings
constexpr int kDeadThreads = 64;

enum class Mode : uint8_t { kNoBox, kBox, kBesideDead };
constexpr const char* kNames[] = {"without a black box", "with a black box", "beside a dead process's"};

// Runs `work` in a child and returns whether it exited with 0, or was killed if that is what it waits for.
template <class Work> int InChild(const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

// Leaves a large black box.
void Die(const std::string& boxes) {
  InChild([&] {
    pitot::Options options;
    options.black_box_directory = boxes.c_str();
    options.memory_budget_bytes = kDeadBudget;
    pitot::Recorder recorder = pitot::Recorder::Start(options);
    static std::atomic<int> full{0};
    for (int i = 0; i < kDeadThreads; ++i) {
      std::thread([] {
        pitot::Request request = pitot::Request::Begin("/r");
        for (int event = 0;; ++event) {
          PITOT_SCOPE("work", event);
          if (event == 1'000'000) full.fetch_add(1);
        }
      }).detach();
    }
    while (full.load() < kDeadThreads) usleep(1000);
    kill(getpid(), SIGKILL);
  });
}

uint64_t BytesIn(const std::string& directory) {
  uint64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(directory)) bytes += file.file_size();
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 11;
  const std::string root = std::string(argc > 2 ? argv[2] : "/dev/shm") + "/pitot_start." + std::to_string(getpid());
  auto* const took_ns = static_cast<std::atomic<int64_t>*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::vector<int64_t> all[3];
  uint64_t dead_bytes = 0;
  for (int round = 0; round < rounds; ++round) {
    for (const Mode mode : {Mode::kNoBox, Mode::kBox, Mode::kBesideDead}) {
      std::filesystem::remove_all(root);
      const std::string boxes = root + "/boxes";
      std::filesystem::create_directories(boxes);
      std::filesystem::permissions(boxes, std::filesystem::perms::owner_all);
      if (mode == Mode::kBesideDead) {
        Die(boxes);
        dead_bytes = BytesIn(boxes);
      }
      const int status = InChild([&] {
        const std::string incidents = root + "/incidents";
        pitot::Options options;
        options.incident_directory = incidents.c_str();
        if (mode != Mode::kNoBox) options.black_box_directory = boxes.c_str();
        const uint64_t begin_ns = pitot::base::MonotonicNs();
        pitot::Recorder recorder = pitot::Recorder::Start(options);
        took_ns->store(static_cast<int64_t>(pitot::base::MonotonicNs() - begin_ns));
        if (!recorder.status().ok()) _exit(1);
      });
      if (status != 0) return std::fprintf(stderr, "a recorder did not start\n"), 1;
      all[static_cast<int>(mode)].push_back(took_ns->load());
    }
  }
  std::filesystem::remove_all(root);
  std::printf("Start, ms, of %d each: median (least to most)\n", rounds);
  for (int mode = 0; mode < 3; ++mode) {
    std::vector<int64_t>& times = all[mode];
    std::sort(times.begin(), times.end());
    std::printf("  %-26s %6.2f (%.2f to %.2f)\n", kNames[mode], static_cast<double>(times[times.size() / 2]) / 1e6,
                static_cast<double>(times.front()) / 1e6, static_cast<double>(times.back()) / 1e6);
  }
  std::printf("  the black box of the dead process: %.0f MiB\n", static_cast<double>(dead_bytes) / (1 << 20));
}
