// SPDX-License-Identifier: Apache-2.0
//
// pitot_killed: what does a black box hold after `kill -9`? Processes record numbered events in several threads, note
// in memory of the parent's how far they are, and are killed at random moments. Prints how many black boxes could be
// read, and how many threads lost their newest event, have a gap, or an event that they never recorded.
//
//   pitot_killed DIRECTORY [kills, 1000] [threads, 4] [folder of the black boxes, DIRECTORY/boxes]
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "pitot/model/trace.h"
#include "pitot/pitot.h"
#include "session/post_mortem.h"

namespace {

constexpr int kMostThreads = 64;

// Shared with the children.
struct Progress {
  std::atomic<uint64_t> begun, done;  // numbers of events
};
struct Shared {
  std::atomic<uint32_t> ready;
  Progress threads[kMostThreads];
};

void Record(uint64_t thread, uint64_t number) { PITOT_INSTANT("numbered", thread, number); }

void RunChild(const std::string& boxes, int threads, Shared* shared) {
  pitot::Options options;
  options.memory_budget_bytes = 16 << 20;
  options.black_box_directory = boxes.c_str();
  const pitot::Recorder recorder = pitot::Recorder::Start(options);
  for (int i = 0; i < threads; ++i) {
    std::thread([=] {
      Progress& progress = shared->threads[i];
      for (uint64_t number = 1;; ++number) {
        const pitot::Request request = pitot::Request::Begin("/numbered");
        progress.begun.store(number);
        Record(static_cast<uint64_t>(i), number);
        progress.done.store(number);
      }
    }).detach();
  }
  // The watcher notes the texts of sites 20 times a second.
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  shared->ready.store(1);
  for (;;) pause();
}

struct Counts {
  uint64_t readable = 0, unreadable = 0, threads = 0, lost = 0, invented = 0, gaps = 0, open_requests = 0;
};

void Judge(const std::string& path, int threads, const Shared& shared, Counts* counts) {
  using pitot::session::FoundBox;
  FoundBox box(path);
  if (box.Look() != FoundBox::Life::kDead) {
    std::printf("%s: %s\n", path.c_str(), box.why().c_str());
    ++counts->unreadable;
    return;
  }
  const pitot::model::Trace trace = pitot::session::TraceOf(&box.reader(), {}, 8 << 20, uint64_t{1} << 30);
  ++counts->readable;
  counts->open_requests += static_cast<uint64_t>(std::count_if(trace.requests.begin(), trace.requests.end(),
                                                               [](const auto& request) { return !request.end_known; }));
  std::vector<std::vector<uint64_t>> numbers(kMostThreads);
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    const uint32_t args = trace.events.args[event];
    if (args == pitot::model::kNone || trace.sites[trace.events.site[event]].arg_types.size() != 2) continue;
    const uint64_t thread = trace.arg_values[args], number = trace.arg_values[args + 1];
    if (thread < kMostThreads) numbers[thread].push_back(number);
  }
  for (int i = 0; i < threads; ++i) {
    ++counts->threads;
    std::vector<uint64_t>& of = numbers[static_cast<size_t>(i)];
    std::sort(of.begin(), of.end());
    const uint64_t newest = of.empty() ? 0 : of.back();
    counts->lost += newest < shared.threads[i].done.load() ? 1 : 0;
    counts->invented += newest > shared.threads[i].begun.load() ? 1 : 0;
    counts->gaps += !of.empty() && newest - of.front() + 1 != of.size() ? 1 : 0;
  }
  box.Remove();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: pitot_killed DIRECTORY [kills, 1000] [threads, 4] [folder of the black boxes]\n");
    return 2;
  }
  const int kills = argc > 2 ? std::atoi(argv[2]) : 1000;
  const int threads = std::min(argc > 3 ? std::atoi(argv[3]) : 4, kMostThreads);
  const std::string boxes = argc > 4 ? argv[4] : std::string(argv[1]) + "/boxes";
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto* const shared = static_cast<Shared*>(memory);
  std::mt19937 random(static_cast<uint32_t>(getpid()));
  Counts counts;
  for (int round = 0; round < kills; ++round) {
    new (shared) Shared{};
    const pid_t child = fork();
    if (child == 0) RunChild(boxes, threads, shared);
    while (shared->ready.load() == 0) usleep(500);
    usleep(static_cast<useconds_t>(random() % 20'000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::vector<std::string> paths = pitot::session::BoxesIn(boxes);
    if (paths.size() != 1) ++counts.unreadable;
    for (const std::string& path : paths) Judge(path, threads, *shared, &counts);
    if ((round + 1) % 100 == 0) std::fprintf(stderr, "%d of %d kills\n", round + 1, kills);
  }
  std::printf(
      "kills %d, read %llu, not read %llu; of %llu threads: newest event lost %llu, invented %llu, gaps %llu; "
      "open requests %llu\n",
      kills, static_cast<unsigned long long>(counts.readable), static_cast<unsigned long long>(counts.unreadable),
      static_cast<unsigned long long>(counts.threads), static_cast<unsigned long long>(counts.lost),
      static_cast<unsigned long long>(counts.invented), static_cast<unsigned long long>(counts.gaps),
      static_cast<unsigned long long>(counts.open_requests));
  return counts.unreadable == 0 && counts.lost == 0 && counts.invented == 0 && counts.gaps == 0 ? 0 : 1;
}
