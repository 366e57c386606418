// SPDX-License-Identifier: Apache-2.0
//
// pitot_rival_lttng: Pitot's black box and LTTng's `lttng-crash`, side by side. It starts LTTng's daemons itself, with
// user space tracing alone. Needs lttng-tools, babeltrace, babeltrace2 and liblttng-ust-dev; run by hand.
//
//   pitot_rival_lttng kills FOLDER [kills, 100] [threads, 1] [ns between events, 0] [ms, 120]
//                                                    the same kills for both, some ms after the
//                                                    threads' first events: who loses what?
//   pitot_rival_lttng cost FOLDER [rounds, 41]          ns of CPU for each event, on 1 and on 2 threads
//   pitot_rival_lttng instructions FOLDER [events, 1000]   user instructions for each event, by single steps
//
// FOLDER is emptied and removed; name one on /dev/shm. LTTng's session is one for snapshots: its channel overwrites
// the oldest events, as Pitot does, and no daemon copies events to a disk meanwhile. Each CPU has 1 MiB.
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "benchmarks/rival_lttng_tracepoint.h"
// LTTng's header comes first: it defines what it needs.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pitot/model/trace.h"
#include "pitot/pitot.h"
#include "session/post_mortem.h"

namespace {

namespace fs = std::filesystem;

constexpr int kMostThreads = 16;
constexpr uint64_t kNewest = 1000;  // "gaps" are looked for in each thread's newest events, too

// Shared with the recording process.
struct Progress {
  std::atomic<uint64_t> begun, done;  // numbers of events
};
struct Shared {
  std::atomic<uint32_t> ready, counting;
  std::atomic<uint64_t> pause_ns;   // between two events of a thread
  std::atomic<uint32_t> settle_ms;  // from the first event of each thread to the earliest kill
  Progress threads[kMostThreads];
};

enum class Arm { kPitot, kLttng };
const char* NameOf(Arm arm) { return arm == Arm::kPitot ? "pitot" : "lttng-crash"; }

// -- Processes.

constexpr char kInherited[] = "-";

// Standard output goes to a file, to nothing ("") or where this process's goes (kInherited).
pid_t Spawn(const std::vector<std::string>& args, const std::string& out_path) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child != 0) return child;
  const int null = open("/dev/null", O_RDWR);
  dup2(null, 0);
  if (out_path != kInherited) {
    dup2(out_path.empty() ? null : open(out_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
  }
  if (getenv("PITOT_RIVAL_VERBOSE") == nullptr) dup2(null, 2);
  std::vector<char*> argv;
  argv.reserve(args.size() + 1);
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  _exit(127);
}

int WaitFor(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return status;
}

bool Run(const std::vector<std::string>& args, const std::string& out_path = "") {
  return WaitFor(Spawn(args, out_path)) == 0;
}

void MustRun(const std::vector<std::string>& args) {
  if (Run(args)) return;
  std::string line;
  for (const std::string& arg : args) line += arg + " ";
  std::fprintf(stderr, "failed: %s\n", line.c_str());
  exit(1);
}

// The parent of a process and its name, from /proc.
std::pair<pid_t, std::string> ParentAndName(pid_t pid) {
  std::FILE* const file = std::fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "r");
  if (file == nullptr) return {0, ""};
  char name[64] = "";
  int parent = 0;
  const int read = std::fscanf(file, "%*d (%63[^)]) %*c %d", name, &parent);
  std::fclose(file);
  return {read == 2 ? parent : 0, name};
}

std::vector<pid_t> Descendants(pid_t of) {
  std::vector<pid_t> pids;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos) pids.push_back(std::stoi(name));
  }
  std::vector<pid_t> found = {of};
  for (size_t i = 0; i < found.size(); ++i) {
    for (const pid_t pid : pids) {
      if (ParentAndName(pid).first == found[i]) found.push_back(pid);
    }
  }
  found.erase(found.begin());
  return found;
}

// -- LTTng's daemons, for one session.

class Daemons {
 public:
  explicit Daemons(const std::string& folder) : folder_(folder) {
    setenv("LTTNG_HOME", folder.c_str(), 1);
    if (Run({"lttng", "--no-sessiond", "list"})) {
      std::fprintf(stderr, "another lttng-sessiond runs: end it first\n");
      exit(1);
    }
    sessiond_ = Spawn({"lttng-sessiond", "--no-kernel"}, "");
    for (int i = 0; i < 1000 && !Run({"lttng", "--no-sessiond", "list"}); ++i) usleep(10'000);
    const auto lttng = [](std::vector<std::string> args) {
      args.insert(args.begin(), {"lttng", "--no-sessiond"});
      MustRun(args);
    };
    lttng({"create", "rival", "--snapshot", "--output=" + folder + "/snapshots", "--shm-path=" + ShmPath()});
    lttng({"enable-channel", "--userspace", "--overwrite", "--subbuf-size=256k", "--num-subbuf=4", "newest"});
    lttng({"enable-event", "--userspace", "--channel=newest", "rival:*"});
    lttng({"start"});
  }
  ~Daemons() { KillAll(0); }
  Daemons(const Daemons&) = delete;
  Daemons& operator=(const Daemons&) = delete;

  std::string ShmPath() const { return folder_ + "/shm"; }
  // Once a process records, a consumer must be there.
  bool HasConsumer() const {
    const std::vector<pid_t> pids = Descendants(sessiond_);
    return std::any_of(pids.begin(), pids.end(),
                       [](pid_t pid) { return ParentAndName(pid).second.find("consumerd") != std::string::npos; });
  }
  // Kills `app`, if it is not 0, and the daemons, as if all died at one instant. A daemon that outlived the application
  // would tidy up its buffers, and an application that outlived the daemons would stop to record. So the daemons are
  // halted first.
  void KillAll(pid_t app) {
    if (sessiond_ == 0) return;
    std::vector<pid_t> daemons = Descendants(sessiond_);
    daemons.insert(daemons.begin(), sessiond_);
    for (const pid_t pid : daemons) kill(pid, SIGSTOP);
    if (app != 0) kill(app, SIGKILL);
    for (const pid_t pid : daemons) kill(pid, SIGKILL);
    if (app != 0) WaitFor(app);
    for (const pid_t pid : daemons) WaitFor(pid);  // children of the first are this process's now: a subreaper
    sessiond_ = 0;
  }

 private:
  std::string folder_;
  pid_t sessiond_ = 0;
};

// -- The recording process.

pitot::Recorder StartPitot(const std::string& boxes) {
  pitot::Options options;
  options.max_ring_bytes = 1 << 20;
  options.max_grown_ring_bytes = 1 << 20;
  options.black_box_directory = boxes.c_str();
  return pitot::Recorder::Start(options);
}

void AwaitLttng() {
  while (!lttng_ust_tracepoint_enabled(rival, numbered)) usleep(500);
}

// What is measured, in line as in a program. Each has a place of its own in each loop.
struct Nothing {
  [[gnu::always_inline]] static void Record(uint64_t, uint64_t) {}
};
// The least: one look at the clock, and as many bytes as Pitot writes.
struct ClockAndStore {
  [[gnu::always_inline]] static void Record(uint64_t thread, uint64_t number) {
    alignas(32) static thread_local volatile uint64_t words[1 << 17];
    const uint64_t at = number * 4 & (std::size(words) - 1);
    words[at] = pitot::detail::Clock(pitot::detail::kFastClock);
    words[at + 1] = thread;
    words[at + 2] = number;
    words[at + 3] = 0;
  }
};
struct PitotInstant {
  [[gnu::always_inline]] static void Record(uint64_t thread, uint64_t number) {
    PITOT_INSTANT("numbered", thread, number);
  }
};
struct PitotScope {
  [[gnu::always_inline]] static void Record(uint64_t thread, uint64_t number) {
    PITOT_SCOPE("scope", thread, number);
    asm volatile("" ::: "memory");
  }
};
struct LttngEvent {
  [[gnu::always_inline]] static void Record(uint64_t thread, uint64_t number) {
    lttng_ust_tracepoint(rival, numbered, thread, number);
  }
};
struct LttngPair {
  [[gnu::always_inline]] static void Record(uint64_t thread, uint64_t number) {
    lttng_ust_tracepoint(rival, numbered, thread, number);
    asm volatile("" ::: "memory");
    lttng_ust_tracepoint(rival, end);
  }
};

template <class Kind> void RecordNumbers(uint64_t thread, Shared* shared) {
  Progress* const progress = &shared->threads[thread];
  const std::chrono::nanoseconds pause(shared->pause_ns.load());
  for (uint64_t number = 1;; ++number) {
    progress->begun.store(number);
    Kind::Record(thread, number);
    progress->done.store(number);
    if (pause.count() == 0) continue;
    for (const auto from = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - from < pause;) {}
  }
}

[[noreturn]] void RecordForEver(Arm arm, Shared* shared, int threads, const std::string& boxes) {
  pitot::Recorder recorder;
  if (arm == Arm::kPitot) recorder = StartPitot(boxes);
  if (arm == Arm::kLttng) AwaitLttng();
  for (int i = 0; i < threads; ++i) {
    const auto record = arm == Arm::kPitot ? RecordNumbers<PitotInstant> : RecordNumbers<LttngEvent>;
    std::thread(record, static_cast<uint64_t>(i), shared).detach();
  }
  for (int i = 0; i < threads; ++i) {
    while (shared->threads[i].done.load() == 0) usleep(100);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(shared->settle_ms.load()));
  shared->ready.store(1);
  for (;;) pause();
}

// -- Kills.

using Numbers = std::vector<std::vector<uint64_t>>;

struct Counts {
  uint64_t readable = 0, unreadable = 0, threads = 0, lost = 0, lost_events = 0, most_lost = 0, invented = 0;
  uint64_t gaps_newest = 0, gaps = 0, twice = 0, events = 0, viewer_failed = 0;
};

void Judge(Numbers numbers, int threads, const Shared& shared, Counts* counts) {
  for (int i = 0; i < threads; ++i) {
    ++counts->threads;
    std::vector<uint64_t>& of = numbers[static_cast<size_t>(i)];
    std::sort(of.begin(), of.end());
    counts->twice += std::adjacent_find(of.begin(), of.end()) != of.end() ? 1 : 0;
    of.erase(std::unique(of.begin(), of.end()), of.end());
    counts->events += of.size();
    const uint64_t newest = of.empty() ? 0 : of.back(), done = shared.threads[i].done.load();
    if (newest < done) {
      ++counts->lost, counts->lost_events += done - newest;
      counts->most_lost = std::max(counts->most_lost, done - newest);
    }
    counts->invented += newest > shared.threads[i].begun.load() ? 1 : 0;
    if (of.empty()) continue;
    counts->gaps += newest - of.front() + 1 != of.size() ? 1 : 0;
    const uint64_t of_newest = std::min<uint64_t>(kNewest, newest);
    const auto from = std::upper_bound(of.begin(), of.end(), newest - of_newest);
    counts->gaps_newest += static_cast<uint64_t>(of.end() - from) != of_newest ? 1 : 0;
  }
}

bool ReadPitot(const std::string& boxes, Numbers* numbers) {
  using pitot::session::FoundBox;
  const std::vector<std::string> paths = pitot::session::BoxesIn(boxes);
  if (paths.size() != 1) return false;
  FoundBox box(paths.front());
  if (box.Look() != FoundBox::Life::kDead) return false;
  const pitot::model::Trace trace = pitot::session::TraceOf(&box.reader(), {}, 8 << 20, uint64_t{1} << 30);
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    const uint32_t args = trace.events.args[event];
    if (args == pitot::model::kNone || trace.sites[trace.events.site[event]].arg_types.size() != 2) continue;
    const uint64_t thread = trace.arg_values[args];
    if (thread < kMostThreads) (*numbers)[thread].push_back(trace.arg_values[args + 1]);
  }
  box.Remove();
  return true;
}

bool ReadLttng(const std::string& folder, const std::string& shm_path, Numbers* numbers, Counts* counts) {
  const std::string crash = folder + "/crash", text = folder + "/text";
  if (!Run({"lttng-crash", "--extract=" + crash, shm_path})) return false;
  // babeltrace2, the viewer that lttng-crash starts, ends early at some buffers. The first babeltrace reads them.
  counts->viewer_failed += Run({"babeltrace2", crash}, text) ? 0 : 1;
  const bool is_read = Run({"babeltrace", crash}, text);
  std::FILE* const file = std::fopen(text.c_str(), "r");
  if (file == nullptr) return false;
  char line[512];
  uint64_t events = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    const char* const fields = std::strstr(line, "thread = ");
    uint64_t thread = 0, number = 0;
    if (fields == nullptr || std::sscanf(fields, "thread = %" SCNu64 ", number = %" SCNu64, &thread, &number) != 2) {
      continue;
    }
    ++events;
    if (thread < kMostThreads) (*numbers)[thread].push_back(number);
  }
  std::fclose(file);
  return is_read && events != 0;
}

struct Memory {
  int fd;
  Shared* shared;
};

Memory MakeShared() {
  const int fd = static_cast<int>(memfd_create("rival", 0));  // the recording process inherits it
  void* const memory = fd < 0 || ftruncate(fd, sizeof(Shared)) != 0
                           ? MAP_FAILED
                           : mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) exit(1);
  return {fd, static_cast<Shared*>(memory)};
}

struct Setting {
  int kills = 100, threads = 1, pause_ns = 0, settle_ms = 120;
};

void KillOnce(Arm arm, const std::string& folder, const Setting& setting, const Memory& memory, unsigned delay_us,
              Counts* counts) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  new (memory.shared) Shared{};
  memory.shared->pause_ns = static_cast<uint64_t>(setting.pause_ns);
  memory.shared->settle_ms = static_cast<uint32_t>(setting.settle_ms);
  const std::vector<std::string> record = {
      "/proc/self/exe", "record", std::to_string(memory.fd), NameOf(arm), std::to_string(setting.threads),
      folder + "/boxes"};
  Numbers numbers(kMostThreads);
  bool is_read = false;
  if (arm == Arm::kPitot) {
    const pid_t app = Spawn(record, "");
    while (memory.shared->ready.load() == 0) usleep(500);
    usleep(delay_us);
    kill(app, SIGKILL);
    WaitFor(app);
    is_read = ReadPitot(folder + "/boxes", &numbers);
  } else {
    Daemons daemons(folder);
    const pid_t app = Spawn(record, "");
    while (memory.shared->ready.load() == 0) usleep(500);
    if (!daemons.HasConsumer()) std::fprintf(stderr, "no lttng-consumerd was there to kill\n");
    usleep(delay_us);
    daemons.KillAll(app);
    is_read = ReadLttng(folder, daemons.ShmPath(), &numbers, counts);
  }
  ++(is_read ? counts->readable : counts->unreadable);
  Judge(std::move(numbers), setting.threads, *memory.shared, counts);
}

int Kills(const std::string& folder, const Setting& setting) {
  const Memory memory = MakeShared();
  std::mt19937 random(static_cast<uint32_t>(getpid()));
  Counts of[2];
  for (int round = 0; round < setting.kills; ++round) {
    for (const Arm arm : {Arm::kPitot, Arm::kLttng}) {
      KillOnce(arm, folder, setting, memory, static_cast<unsigned>(random() % 20'000), &of[static_cast<int>(arm)]);
    }
    if ((round + 1) % 10 == 0) std::fprintf(stderr, "%d of %d kills\n", round + 1, setting.kills);
  }
  fs::remove_all(folder);
  std::printf("%d kills of each, %d threads, %d ns between events, at the earliest %d ms after the first ones\n",
              setting.kills, setting.threads, setting.pause_ns, setting.settle_ms);
  std::printf("%-12s %8s %8s %7s | threads %5s %9s %6s %8s %12s %8s %6s\n", "", "readable", "not read", "events",
              "lost", "of events", "most", "invented", "newest: gaps", "any: gaps", "twice");
  for (const Arm arm : {Arm::kPitot, Arm::kLttng}) {
    const Counts& counts = of[static_cast<int>(arm)];
    std::printf("%-12s %8" PRIu64 " %8" PRIu64 " %7" PRIu64 " | %7" PRIu64 " %5" PRIu64 " %9" PRIu64 " %6" PRIu64
                " %8" PRIu64 " %12" PRIu64 " %8" PRIu64 " %6" PRIu64 "\n",
                NameOf(arm), counts.readable, counts.unreadable,
                counts.readable == 0 ? 0 : counts.events / counts.readable, counts.threads, counts.lost,
                counts.lost_events, counts.most_lost, counts.invented, counts.gaps_newest, counts.gaps, counts.twice);
  }
  std::printf("babeltrace2 failed for %" PRIu64 "; the table has what babeltrace reads\n", of[1].viewer_failed);
  const Counts& pitot = of[0];
  return pitot.unreadable == 0 && pitot.lost == 0 && pitot.invented == 0 && pitot.gaps == 0 ? 0 : 1;
}

// -- Cost.

struct Case {
  const char* name;
  void (*run)(uint64_t count);
};

template <class Kind> [[gnu::noinline]] void Loop(uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    Kind::Record(7, i);
    asm volatile("" ::: "memory");
  }
}

const Case kCases[] = {
    {"loop alone", Loop<Nothing>},          {"clock and 32 bytes", Loop<ClockAndStore>},
    {"Pitot, instant", Loop<PitotInstant>}, {"Pitot, instant again", Loop<PitotInstant>},
    {"LTTng, event", Loop<LttngEvent>},     {"LTTng, event again", Loop<LttngEvent>},
    {"Pitot, scope", Loop<PitotScope>},     {"LTTng, begin and end", Loop<LttngPair>},
};
constexpr size_t kCaseCount = std::size(kCases);
// What is compared: numerator, denominator.
constexpr std::array<std::pair<size_t, size_t>, 4> kRatios = {{{4, 2}, {7, 6}, {3, 2}, {5, 4}}};

double ThreadCpuNs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

struct Quartiles {
  double q1, median, q3;
};
Quartiles QuartilesOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 4], values[values.size() / 2], values[values.size() * 3 / 4]};
}

void MeasureCost(int threads, int rounds) {
  constexpr uint64_t kEvents = 100'000;
  std::vector<std::vector<double>> ns(kCaseCount);
  std::vector<double> of_thread(static_cast<size_t>(threads));
  const Case* running = nullptr;
  std::barrier<> gate(threads + 1);
  std::vector<std::thread> workers;
  for (size_t i = 0; i < of_thread.size(); ++i) {
    workers.emplace_back([&, i] {
      for (;;) {
        gate.arrive_and_wait();
        if (running == nullptr) return;
        const double begin_ns = ThreadCpuNs();
        running->run(kEvents);
        of_thread[i] = (ThreadCpuNs() - begin_ns) / kEvents;
        gate.arrive_and_wait();
      }
    });
  }
  for (int round = -1; round < rounds; ++round) {  // round -1 touches all pages
    for (size_t i = 0; i < kCaseCount; ++i) {
      const size_t at = (i + static_cast<size_t>(round + 1)) % kCaseCount;
      running = &kCases[at];
      gate.arrive_and_wait();
      gate.arrive_and_wait();
      double mean_ns = 0;
      for (const double each_ns : of_thread) mean_ns += each_ns / threads;
      if (round >= 0) ns[at].push_back(mean_ns);
    }
  }
  running = nullptr;
  gate.arrive_and_wait();
  for (std::thread& worker : workers) worker.join();

  std::printf("%d thread%s, %d rounds of %llu events: ns of CPU for each event, median [quartiles]\n", threads,
              threads == 1 ? "" : "s", rounds, static_cast<unsigned long long>(kEvents));
  for (size_t i = 0; i < kCaseCount; ++i) {
    const Quartiles of = QuartilesOf(ns[i]);
    std::printf("  %-24s %7.1f [%.1f, %.1f]\n", kCases[i].name, of.median, of.q1, of.q3);
  }
  for (const auto& [above, below] : kRatios) {
    std::vector<double> ratios;
    for (size_t round = 0; round < ns[above].size(); ++round) ratios.push_back(ns[above][round] / ns[below][round]);
    const Quartiles of = QuartilesOf(ratios);
    std::printf("  %-20s / %-20s %6.2f [%.2f, %.2f]\n", kCases[above].name, kCases[below].name, of.median, of.q1,
                of.q3);
  }
}

int InRecordingProcess(const std::string& folder, const std::vector<std::string>& args) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  const Daemons daemons(folder);
  return WaitFor(Spawn(args, kInherited)) == 0 ? 0 : 1;
}

// Counts the steps of a process's first thread while `counting` is 1.
uint64_t StepsOf(pid_t child, const Shared& shared) {
  uint64_t steps = 0;
  int status = 0;
  int signal = 0;
  while (waitpid(child, &status, __WALL) == child && WIFSTOPPED(status)) {
    signal = WSTOPSIG(status) == SIGTRAP || WSTOPSIG(status) == SIGSTOP ? 0 : WSTOPSIG(status);
    const uint32_t counting = shared.counting.load();
    steps += counting == 1 ? 1 : 0;
    ptrace(counting == 2 ? PTRACE_CONT : PTRACE_SINGLESTEP, child, nullptr, signal);
  }
  return steps;
}

int Instructions(const std::string& folder, uint64_t events) {
  const Memory memory = MakeShared();
  fs::remove_all(folder);
  fs::create_directories(folder);
  const Daemons daemons(folder);
  std::printf("user instructions for each of %" PRIu64 " events, less the loop's\n", events);
  double alone = 0;
  for (const size_t i : {0, 1, 2, 4, 6, 7}) {
    new (memory.shared) Shared{};
    const pid_t child = Spawn({"/proc/self/exe", "step", std::to_string(memory.fd), std::to_string(i),
                               std::to_string(events), folder + "/boxes"},
                              "");
    const double each = static_cast<double>(StepsOf(child, *memory.shared)) / static_cast<double>(events);
    if (i == 0) alone = each;
    std::printf("  %-24s %7.1f\n", kCases[i].name, i == 0 ? each : each - alone);
  }
  return 0;
}

// -- The recording process's ways to run.

int RunRecording(const std::vector<std::string>& args) {
  const int fd = std::stoi(args[1]);
  Shared* shared = nullptr;
  if (fd >= 0) {
    void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return 1;
    shared = static_cast<Shared*>(memory);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (args[0] == "record") {
    RecordForEver(args[2] == NameOf(Arm::kPitot) ? Arm::kPitot : Arm::kLttng, shared, std::stoi(args[3]), args[4]);
  }
  const pitot::Recorder recorder = StartPitot(args.back());
  AwaitLttng();
  if (args[0] == "measure") {
    for (const int threads : {1, 2}) MeasureCost(threads, std::stoi(args[2]));
  } else {
    const Case& run = kCases[std::stoul(args[2])];
    const uint64_t events = std::stoull(args[3]);
    run.run(100'000);
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return 1;
    raise(SIGSTOP);
    shared->counting.store(1);
    run.run(events);
    shared->counting.store(2);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const std::string mode = args.empty() ? "" : args[0];
  if (mode == "record" || mode == "step" || mode == "measure") return RunRecording(args);
  if (args.size() < 2) {
    std::fprintf(stderr, "usage: pitot_rival_lttng kills|cost|instructions FOLDER [how many] ...\n");
    return 2;
  }
  // What the daemons leave behind comes to this process, so that it can wait for their end.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const int many = args.size() > 2 ? std::atoi(args[2].c_str()) : 0;
  if (mode == "kills") {
    Setting setting;
    int* const fields[] = {&setting.kills, &setting.threads, &setting.pause_ns, &setting.settle_ms};
    for (size_t i = 0; i + 2 < args.size() && i < std::size(fields); ++i) *fields[i] = std::atoi(args[i + 2].c_str());
    setting.threads = std::clamp(setting.threads, 1, kMostThreads);
    return Kills(args[1], setting);
  }
  if (mode == "cost") {
    return InRecordingProcess(
        args[1], {"/proc/self/exe", "measure", "-1", std::to_string(many > 0 ? many : 41), args[1] + "/boxes"});
  }
  if (mode == "instructions") return Instructions(args[1], many > 0 ? static_cast<uint64_t>(many) : 1'000);
  return 2;
}
