// SPDX-License-Identifier: Apache-2.0
//
// Does every end leave its note, and the status that it has without Pitot? Run by hand: pitot_ends [ROUNDS].
// Children with threads that record end at random instants, by each kind of end.
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "ends/death_note.h"
#include "pitot/pitot.h"

namespace {

using pitot::ends::DeathNote;
using pitot::ends::End;
using pitot::ends::NoteState;

struct Kind {
  const char* name;
  End end;
  void (*run)();
};
const Kind kKinds[] = {
    {"a write to nowhere", End::kSignal, [] { *reinterpret_cast<volatile char*>(uintptr_t{0x1234}) = 1; }},
    {"abort()", End::kSignal, [] { abort(); }},
    {"std::terminate", End::kSignal, [] { std::terminate(); }},
    {"exit(3)", End::kExit, [] { exit(3); }},
    {"SIGTERM", End::kTermination, [] { kill(getpid(), SIGTERM), sleep(60); }},
};

void RecordForEver(int thread) {
  for (int i = 0;; ++i) {
    pitot::Request request = pitot::Request::Begin("/r");
    PITOT_SCOPE("work", thread, i);
    request.Finish(pitot::Outcome::kOk);
  }
}

[[noreturn]] void Live(const Kind& kind, pitot::Ends ends, unsigned delay_us) {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(97);
  alarm(60);
  pitot::Options options;
  options.handle_ends = ends;
  static pitot::Recorder& recorder = *new pitot::Recorder(pitot::Recorder::Start(options));  // nobody destroys it
  if (!recorder.status().ok()) _exit(98);
  for (int i = 0; i < 3; ++i) std::thread(RecordForEver, i).detach();
  std::thread([&] {
    PITOT_INSTANT("before the end");
    usleep(delay_us);
    kind.run();
  }).detach();
  for (;;) pause();
}

int StatusOf(const Kind& kind, pitot::Ends ends, unsigned delay_us, int64_t* took_ns) {
  std::fflush(stdout);
  const int64_t begin_ns = pitot::base::ClockNs(CLOCK_MONOTONIC);
  const pid_t child = fork();
  if (child == 0) Live(kind, ends, delay_us);
  int status = 0;
  waitpid(child, &status, 0);
  *took_ns = pitot::base::ClockNs(CLOCK_MONOTONIC) - begin_ns;
  return status;
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 100;
  void* const memory = mmap(nullptr, sizeof(DeathNote), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* const note = new (memory) DeathNote{};
  pitot::ends::SetDeathNote(note);
  std::mt19937 random(1);
  for (const Kind& kind : kKinds) {
    int same = 0, whole = 0;
    std::vector<double> longer_ms;
    for (int i = 0; i < rounds; ++i) {
      *note = {};
      const auto delay_us = static_cast<unsigned>(random() % 20'000);
      int64_t with_ns = 0, without_ns = 0;
      const int with = StatusOf(kind, pitot::Ends::kAll, delay_us, &with_ns);
      const bool has_frames = kind.end != End::kSignal || note->frame_count >= 3;
      whole += note->state == NoteState::kWritten && note->end == kind.end && has_frames;
      same += with == StatusOf(kind, pitot::Ends::kNone, delay_us, &without_ns);
      longer_ms.push_back(static_cast<double>(with_ns - without_ns) * 1e-6);
    }
    std::sort(longer_ms.begin(), longer_ms.end());
    std::printf("%-20s of %d: %d with the same status, %d noted; median %.2f ms longer\n", kind.name, rounds, same,
                whole, longer_ms[longer_ms.size() / 2]);
  }
}
