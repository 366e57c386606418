// SPDX-License-Identifier: Apache-2.0
//
// pitot_power_guest: programs for the virtual machines of tools/power_loss and tools/failing_disk. They find out what a
// loss of power or a failing disk leaves of black boxes and incidents.
//
//   pitot_power_guest record DISK MEMORY [SEED] [longest life, ms]   records for ever, in one process after the other
//   pitot_power_guest judge DISK MEMORY SLOT      reads the black boxes there, and compares
//   pitot_power_guest next DISK                   starts a recorder with the same two directories
//   pitot_power_guest endure DISK MEMORY SLOT INCIDENTS FAIL [stop]   records, runs FAIL, and goes on; then it is
//   killed
//
// MEMORY is a file that the machine's end does not change: there the processes note what they have recorded. `judge`,
// `next` and `endure` print JSON: a line for each black box, for the start, and for the observations of the process.
#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "pitot/model/trace.h"
#include "pitot/pitot.h"
#include "power_guest.h"
#include "session/post_mortem.h"

namespace power_guest {
namespace {

constexpr uint64_t kMostIncidents = 24;  // then all are removed

// ---- record ---------------------------------------------------------------------------------------------------------

Shared* g_shared = nullptr;

void NoteIncident(void*, const pitot::IncidentInfo& incident) {
  if (!incident.status.ok() || incident.directory == nullptr) return;
  const uint32_t at = g_shared->noted.load();
  if (at >= kNoted) return;
  const char* const slash = std::strrchr(incident.directory, '/');
  std::snprintf(g_shared->names[at], sizeof g_shared->names[at], "%s", slash != nullptr ? slash + 1 : "");
  g_shared->noted.store(at + 1);
}

void Live(const std::string& disk, Life* life, std::mt19937* random) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGTERM, [](int) { g_ends.store(true); });
  pitot::Recorder recorder = pitot::Recorder::Start(OptionsFor(disk));
  if (!recorder.status().ok()) {
    std::printf("the recorder did not start: %s\n", recorder.status().message());
    _exit(3);
  }
  pitot::Hooks hooks;
  hooks.on_incident = NoteIncident;
  static_cast<void>(recorder.SetHooks(hooks));
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back(RecordForEver, i, &life->threads[i], 500 + 500 * static_cast<unsigned>(i));
  }
  life->state.store(State::kRecording);
  while (!g_ends.load()) {
    usleep(200'000 + static_cast<useconds_t>((*random)() % 1'000'000));
    if (!g_ends.load()) static_cast<void>(recorder.Trigger("now and then"));
  }
  for (std::thread& thread : threads) thread.join();
  recorder.Stop();
  _exit(0);
}

uint64_t CountEntries(const std::string& path) {
  std::error_code error;
  uint64_t count = 0;
  for (std::filesystem::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) ++count;
  return count;
}

int Record(const std::string& disk, Shared* shared, uint32_t seed, uint32_t most_ms) {
  std::mt19937 random(seed);
  g_shared = shared;
  for (uint32_t number = 0;; ++number) {
    if (CountEntries(disk + "/incidents") > kMostIncidents) {
      shared->noted.store(0);
      std::filesystem::remove_all(disk + "/incidents");
    }
    Life& life = shared->lives[number % kLives];
    new (&life) Life{};
    life.state.store(State::kStarting);
    life.start_ns.store(NowNs());
    const uint32_t seed_of_life = static_cast<uint32_t>(random());
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      std::mt19937 own(seed_of_life);
      Live(disk, &life, &own);
    }
    life.pid.store(child);
    shared->lives_begun.store(number + 1);
    if (number == 0) std::printf("@ready\n"), std::fflush(stdout);
    usleep(static_cast<useconds_t>(300 + random() % most_ms) * 1000);
    if (random() % 4 == 0) sync();
    const bool is_killed = random() % 3 != 0;
    life.state.store(is_killed ? State::kKilled : State::kStopping);
    kill(child, is_killed ? SIGKILL : SIGTERM);
    int status = 0;
    waitpid(child, &status, 0);
    if (!is_killed) life.state.store(State::kEnded);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) std::printf("@failed %d\n", WEXITSTATUS(status));
  }
}

// ---- judge ----------------------------------------------------------------------------------------------------------

const Life* LifeOf(const Shared& shared, int64_t pid, bool* is_last) {
  const uint32_t begun = shared.lives_begun.load();
  for (const Life& life : shared.lives) {
    if (life.pid.load() != pid) continue;
    *is_last = begun != 0 && &life == &shared.lives[(begun - 1) % kLives];
    return &life;
  }
  return nullptr;
}

struct Found {
  uint64_t events = 0, unnamed = 0, torn = 0, invented = 0, twice = 0, missing = 0, threads = 0, requests = 0,
           open_requests = 0, misnamed = 0;
  uint64_t newest_ns = 0;
};

Found Read(const pitot::model::Trace& trace, const Life* life) {
  Found found;
  std::vector<std::vector<uint64_t>> numbers(kThreads);
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    ++found.events;
    const auto& site = trace.sites[trace.events.site[event]];
    const uint32_t args = trace.events.args[event];
    if (site.unloaded) ++found.unnamed;
    if (args == pitot::model::kNone || site.arg_types.size() != 4) continue;
    const uint64_t* const values = &trace.arg_values[args];
    const uint64_t thread = values[0], number = values[1], ns = values[2];
    if (thread >= kThreads || values[3] != SumOf(thread, number, ns)) {
      ++found.torn;
      continue;
    }
    if (life != nullptr && number > life->threads[thread].begun.load()) ++found.invented;
    numbers[thread].push_back(number);
    found.newest_ns = std::max(found.newest_ns, ns);
  }
  for (std::vector<uint64_t>& of : numbers) {
    if (of.empty()) continue;
    ++found.threads;
    std::sort(of.begin(), of.end());
    found.twice += of.size();
    of.erase(std::unique(of.begin(), of.end()), of.end());
    found.twice -= of.size();
    found.missing += of.back() - of.front() + 1 - of.size();
  }
  for (const auto& request : trace.requests) {
    ++found.requests;
    if (!request.end_known) ++found.open_requests;
    if (trace.strings[request.route] != "/numbered") ++found.misnamed;
  }
  return found;
}

// For JSON.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return quoted + "\"";
}

void JudgeBox(const std::string& path, const Shared& shared) {
  using pitot::session::FoundBox;
  static constexpr const char* kLife[] = {"alive", "ended", "dead", "broken"};
  struct stat info {};
  stat(path.c_str(), &info);
  const std::string name = path.substr(path.rfind('/') + 1);
  bool is_last = false;
  const Life* const life = LifeOf(shared, std::atoll(name.c_str()), &is_last);
  FoundBox box(path);
  const FoundBox::Life state = box.Peek();
  std::printf("@box {\"name\": %s, \"bytes\": %llu, \"is\": \"%s\", \"why\": %s, \"last\": %d", Quoted(name).c_str(),
              static_cast<unsigned long long>(info.st_size), kLife[static_cast<int>(state)], Quoted(box.why()).c_str(),
              is_last ? 1 : 0);
  uint64_t done_ns = 0, done_threads = 0;
  if (life != nullptr) {
    for (const Progress& progress : life->threads) {
      done_ns = std::max(done_ns, progress.done_ns.load());
      done_threads += progress.done.load() != 0 ? 1 : 0;
    }
    const uint64_t start_ns = life->start_ns.load();
    std::printf(", \"state\": \"%s\", \"recorded_ms\": %.1f, \"recording_threads\": %llu",
                kStates[static_cast<uint32_t>(life->state.load())],
                static_cast<double>(done_ns - std::min(done_ns, start_ns)) * 1e-6,
                static_cast<unsigned long long>(done_threads));
  }
  if (state == FoundBox::Life::kDead) {
    const pitot::model::Trace trace = pitot::session::TraceOf(&box.reader(), {}, 8 << 20, uint64_t{1} << 30);
    const Found found = Read(trace, life);
    const auto number = [](const char* key, uint64_t value) {
      std::printf(", \"%s\": %llu", key, static_cast<unsigned long long>(value));
    };
    number("events", found.events);
    number("unnamed", found.unnamed);
    number("torn", found.torn);
    number("invented", found.invented);
    number("twice", found.twice);
    number("missing", found.missing);
    number("threads", found.threads);
    number("requests", found.requests);
    number("open_requests", found.open_requests);
    number("misnamed", found.misnamed);
    number("rings_damaged", box.reader().rings_damaged());
    if (found.newest_ns != 0 && done_ns != 0)
      std::printf(", \"age_ms\": %.1f", (static_cast<double>(done_ns) - static_cast<double>(found.newest_ns)) * 1e-6);
  }
  std::printf("}\n");
}

int Judge(const std::string& disk, const Shared& shared) {
  for (const std::string& path : pitot::session::BoxesIn(disk + "/boxes")) JudgeBox(path, shared);
  return 0;
}

// ---- next -----------------------------------------------------------------------------------------------------------

int Next(const std::string& disk) {
  Logged logged{};
  pitot::Options options = OptionsFor(disk);
  LogTo(&logged, &options);
  const uint64_t begin_ns = NowNs();
  pitot::Recorder recorder = pitot::Recorder::Start(options);
  const uint64_t start_ns = NowNs() - begin_ns;
  const pitot::Status status = recorder.status();
  PITOT_INSTANT("after the cut", 1);
  // The worker looks for earlier lives before it writes an incident.
  const bool is_fired = recorder.Trigger("after the cut").ok() && recorder.Flush(120'000).ok();
  const bool is_written = is_fired && recorder.Stats().incidents_written == 1;
  const uint64_t others = pitot::session::BoxesIn(options.black_box_directory).size();
  const uint64_t all = CountEntries(options.black_box_directory);
  recorder.Stop();
  std::printf(
      "@next {\"ok\": %d, \"why\": %s, \"start_ms\": %.1f, \"own_box\": %d, \"incident\": %d, \"left\": %llu, "
      "\"warnings\": %llu, \"errors\": %llu}\n",
      status.ok() ? 1 : 0, Quoted(status.message()).c_str(), static_cast<double>(start_ns) * 1e-6,
      all == others + 1 ? 1 : 0, is_written ? 1 : 0, static_cast<unsigned long long>(others),
      static_cast<unsigned long long>(logged.warnings.load()), static_cast<unsigned long long>(logged.errors.load()));
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace power_guest

int main(int argc, char** argv) {
  using namespace power_guest;
  const std::string what = argc > 2 ? argv[1] : "", disk = argc > 2 ? argv[2] : "";
  const auto number = [&](int at, int standard) { return argc > at ? std::atoi(argv[at]) : standard; };
  if (what == "record" && argc > 3)
    return Record(disk, MapShared(argv[3], 0), static_cast<uint32_t>(number(4, 1)),
                  static_cast<uint32_t>(number(5, 3000)));
  if (what == "judge" && argc > 4) return Judge(disk, *MapShared(argv[3], static_cast<uint64_t>(number(4, 0))));
  if (what == "next") return Next(disk);
  if (what == "endure" && argc > 6)
    return Endure(disk, argv[5], MapShared(argv[3], static_cast<uint64_t>(number(4, 0))), argv[6], argc == 7);
  std::fprintf(stderr,
               "usage: pitot_power_guest record DISK MEMORY [SEED] [longest life, 3000 ms]\n"
               "       pitot_power_guest judge DISK MEMORY SLOT\n"
               "       pitot_power_guest next DISK\n"
               "       pitot_power_guest endure DISK MEMORY SLOT INCIDENTS FAIL [stop]\n");
  return 2;
}
