// SPDX-License-Identifier: Apache-2.0
//
// pitot_budget: what is resident at full load? Threads fill their rings, every second a slow request begins an
// incident, and a judge and the host collector work. Prints the memory that the process gained, at most: what is
// mapped, what the allocator holds, and what is in use of it.
//
//   pitot_budget DIRECTORY [seconds, 60] [MiB of the budget, 128] [parts: any of j, h, b and s; jh] [threads, 32]
//                [scopes of a request, 1000] [ms between faults, 1000]
//
// Parts: j is the judge, h the host collector, b a black box in /dev/shm. With s each request has a scope with text of
// its own. With g each request copies to a GPU, whose driver is there before, and pitot::gpu::Enable brings its
// collectors and their libraries.
#include <dlfcn.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "pitot/analyze/judge.h"
#include "pitot/collect/gpu.h"
#include "pitot/collect/host.h"
#include "pitot/pitot.h"

namespace {

std::atomic<int64_t> g_used{0};

void* Take(size_t bytes) {
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  g_used.fetch_add(static_cast<int64_t>(malloc_usable_size(memory)), std::memory_order_relaxed);
  return memory;
}
void Give(void* memory) noexcept {
  if (memory == nullptr) return;
  g_used.fetch_sub(static_cast<int64_t>(malloc_usable_size(memory)), std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

// Counts what is in use.
void* operator new(size_t bytes) { return Take(bytes); }
void* operator new[](size_t bytes) { return Take(bytes); }
void operator delete(void* memory) noexcept { Give(memory); }
void operator delete[](void* memory) noexcept { Give(memory); }
void operator delete(void* memory, size_t) noexcept { Give(memory); }
void operator delete[](void* memory, size_t) noexcept { Give(memory); }

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr char kBoxDirectory[] = "/dev/shm/pitot_budget";

// Resident bytes by kind of mapping.
struct Resident {
  double all = 0, allocator = 0, anonymous = 0, stacks = 0, box = 0, files = 0, huge = 0;
};

// malloc's: its heap and, of other threads, regions that begin at a multiple of 64 MiB.
Resident ReadResident() {
  Resident resident;
  std::ifstream smaps("/proc/self/smaps");
  double* of = nullptr;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long begin = 0, end = 0;
    char name[256] = "", rights[8] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %7s %*s %*s %*s %255s", &begin, &end, rights, name) >= 3) {
      const bool is_arena = begin % (64 << 20) == 0 && name[0] == '\0';
      of = std::strcmp(name, "[heap]") == 0 || is_arena ? &resident.allocator
           : std::strncmp(name, "[stack", 6) == 0       ? &resident.stacks
           : std::strstr(name, kBoxDirectory) == name   ? &resident.box
           : name[0] == '/'                             ? &resident.files
                                                        : &resident.anonymous;
    }
    unsigned long kb = 0;
    if (std::sscanf(line.c_str(), "AnonHugePages: %lu kB", &kb) == 1) resident.huge += static_cast<double>(kb) * 1024;
    if (of == nullptr || std::sscanf(line.c_str(), "Rss: %lu kB", &kb) != 1) continue;
    *of += static_cast<double>(kb) * 1024;
    resident.all += static_cast<double>(kb) * 1024;
  }
  return resident;
}

// The kernel's own maximum: smaps is read in pieces, and blocks that move meanwhile may count twice.
double MostResidentBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::atof(line.c_str() + 6) * 1024;
  }
  return 0;
}

// A CUDA context of the first GPU. Its memory is the host's.
class Gpu {
 public:
  bool Open() {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (driver == nullptr) return false;
    const auto symbol = [&](const char* name, auto* out) {
      return (*out = reinterpret_cast<std::remove_pointer_t<decltype(out)>>(dlsym(driver, name))) != nullptr;
    };
    int (*init)(unsigned) = nullptr;
    int (*retain)(void**, int) = nullptr;
    int (*allocate)(uint64_t*, size_t) = nullptr;
    return symbol("cuInit", &init) && symbol("cuDevicePrimaryCtxRetain", &retain) &&
           symbol("cuCtxSetCurrent", &set_current_) && symbol("cuMemAlloc_v2", &allocate) &&
           symbol("cuMemcpyHtoD_v2", &copy_) && init(0) == 0 && retain(&context_, 0) == 0 &&
           set_current_(context_) == 0 && allocate(&memory_, kBytes) == 0 && Copy();
  }
  bool Copy() const {
    static const char bytes[kBytes] = {};
    return context_ == nullptr || (set_current_(context_) == 0 && copy_(memory_, bytes, kBytes) == 0);
  }

 private:
  static constexpr size_t kBytes = 64 << 10;
  int (*set_current_)(void*) = nullptr;
  int (*copy_)(uint64_t, const void*, size_t) = nullptr;
  void* context_ = nullptr;
  uint64_t memory_ = 0;
};

struct Load {
  Gpu gpu;
  std::atomic<bool> over{false};
  std::atomic<int> slow{0};  // requests that are to be slow
  int scopes = 1000;
  bool has_text = false;
};

void Handle(Load* load, uint64_t number) {
  pitot::Request request = pitot::Request::Begin("/work");
  request.Stage("read");
  request.SetSize("tokens", 100);
  if (load->has_text) PITOT_INSTANT("text", std::to_string(number) + std::string(30, 't'));
  request.Stage("work");
  {
    PITOT_SCOPE("handle");
    if (!load->gpu.Copy()) std::fprintf(stderr, "a copy to the GPU failed\n");
    for (int i = 0; i < load->scopes; i += 3) {
      PITOT_SCOPE("outer");
      PITOT_SCOPE("middle");
      PITOT_SCOPE("inner");
    }
    if (load->slow.load(std::memory_order_relaxed) > 0 && load->slow.fetch_sub(1) > 0) {
      PITOT_SCOPE("look up");
      std::this_thread::sleep_for(milliseconds(100));
    }
  }
  request.Finish(pitot::Outcome::kOk);
}

double Mib(double bytes) { return bytes / (1 << 20); }

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: pitot_budget DIRECTORY [SECONDS [MIB [PARTS [THREADS]]]]\n"), 2;
  const auto number = [&](int at, int otherwise) { return argc > at ? std::atoi(argv[at]) : otherwise; };
  const int seconds = number(2, 60), threads_count = number(5, 32);
  const std::string parts = argc > 4 ? argv[4] : "jh";
  const auto has = [&](char part) { return parts.find(part) != std::string::npos; };
  Load load;
  load.scopes = number(6, 1000);
  load.has_text = has('s');
  if (has('g') && !load.gpu.Open()) return std::fprintf(stderr, "there is no GPU\n"), 1;
  pitot::Options options;
  options.incident_directory = argv[1];
  options.memory_budget_bytes = static_cast<uint64_t>(number(3, 128)) << 20;
  if (has('b')) options.black_box_directory = kBoxDirectory;
  options.max_incidents_per_cause_and_hour = 1'000'000;
  // The load's own threads come first, so that their memory is not counted.
  std::atomic<bool> begun{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < threads_count; ++i) {
    threads.emplace_back([&] {
      while (!begun) std::this_thread::sleep_for(milliseconds(1));
      for (uint64_t count = 0; !load.over; ++count) {
        Handle(&load, count);
        std::this_thread::sleep_for(milliseconds(5));
      }
    });
  }
  std::this_thread::sleep_for(milliseconds(200));
  const Resident before = ReadResident();
  const int64_t used_before = g_used;
  pitot::Recorder recorder = pitot::Recorder::Start(options);
  if (!recorder.status().ok()) return std::fprintf(stderr, "%s\n", recorder.status().message()), 1;
  if (has('h')) recorder.Add(pitot::MakeHostCollector({}));
  if (has('j')) {
    pitot::WhyJudgeOptions why;
    why.warm_up_ms = 0;
    recorder.Add(pitot::MakeWhyJudge(why));
  }
  if (has('g')) {
    if (const pitot::Status status = pitot::gpu::Enable(recorder); !status.ok())
      std::fprintf(stderr, "%s\n", status.message());
  }
  recorder.Add(pitot::MakeLatencyTrigger({.above_ms = 90, .cool_down_ms = 900}));
  begun = true;
  const auto begin = steady_clock::now();
  Resident most, last;
  double most_used = 0, used_then = 0, most_rings = 0;
  auto fault_at = begin + std::chrono::seconds(2);
  while (steady_clock::now() < begin + std::chrono::seconds(seconds)) {
    if (steady_clock::now() >= fault_at) load.slow = 1, fault_at += milliseconds(number(7, 1000));
    last = ReadResident();
    if (last.all > most.all) most = last, used_then = static_cast<double>(g_used - used_before);
    most_used = std::max(most_used, static_cast<double>(g_used - used_before));
    most_rings = std::max(most_rings, static_cast<double>(recorder.Stats().ring_bytes_used));
    std::this_thread::sleep_for(milliseconds(20));
  }
  load.over = true;
  for (std::thread& thread : threads) thread.join();
  recorder.Flush(60'000);
  const pitot::Stats stats = recorder.Stats();
  const auto line = [](const char* what, double bytes) { std::printf("%-44s %8.1f MiB\n", what, Mib(bytes)); };
  line("budget", static_cast<double>(options.memory_budget_bytes));
  line("resident, gained at most", MostResidentBytes() - before.all);
  line("the same, as smaps has it", most.all - before.all);
  line("  of the allocator", most.allocator - before.allocator);
  line("  other memory (rings, reserve, large blocks)", most.anonymous - before.anonymous);
  line("  the black box", most.box - before.box);
  line("  files (the program and libraries)", most.files - before.files);
  line("  in huge pages, of all", most.huge - before.huge);
  line("  the main stack", most.stacks - before.stacks);
  line("in use by operator new then", used_then);
  line("in use by operator new, at most", most_used);
  line("in use by operator new, at the end", static_cast<double>(g_used - used_before));
  line("rings, at most", most_rings);
  line("Stats::memory.rings", static_cast<double>(stats.memory.rings));
  line("Stats::memory.requests_and_names", static_cast<double>(stats.memory.requests_and_names));
  line("Stats::memory.snapshot_reserve", static_cast<double>(stats.memory.snapshot_reserve));
  line("Stats::memory.analysis_arena", static_cast<double>(stats.memory.analysis_arena));
  line("Stats::collector_bytes", static_cast<double>(stats.collector_bytes));
  std::printf(
      "events %llu M, incidents %llu, verdicts %llu, failed %llu (displaced %llu, cut off %llu), findings %llu, "
      "samples %llu\n",
      static_cast<unsigned long long>(stats.events_recorded / 1'000'000),
      static_cast<unsigned long long>(stats.incidents_written), static_cast<unsigned long long>(stats.verdicts_given),
      static_cast<unsigned long long>(stats.verdicts_failed), static_cast<unsigned long long>(stats.verdicts_displaced),
      static_cast<unsigned long long>(stats.verdicts_cut_off), static_cast<unsigned long long>(stats.findings_added),
      static_cast<unsigned long long>(stats.samples_learned));
  return 0;
}
