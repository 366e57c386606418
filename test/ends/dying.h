// SPDX-License-Identifier: Apache-2.0
//
// Children that end in every way, and the notes they leave in shared memory.
#ifndef PITOT_TEST_ENDS_DYING_H_
#define PITOT_TEST_ENDS_DYING_H_

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>
#include <string>
#include <utility>

#include "ends/death_note.h"
#include "fakes/temp_directory.h"
#include "pitot/pitot.h"

// A function with a fault on purpose.
#define PITOT_TEST_FAULT __attribute__((noinline, no_sanitize("address", "undefined")))

namespace ends_test {

// Lies in memory shared with children.
template <class T> class Shared {
 public:
  Shared() : at_(new (mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) T{}) {}
  ~Shared() { munmap(at_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T* operator->() const { return at_; }
  T& operator*() const { return *at_; }
  T* get() const { return at_; }

 private:
  T* at_;
};

// As a program begins: without the handlers and the stack of the test's framework.
inline void BeginAsProgram() {
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    if (signal != SIGKILL && signal != SIGSTOP) ::signal(signal, SIG_DFL);
  }
  const stack_t none{nullptr, SS_DISABLE, 0};
  sigaltstack(&none, nullptr);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
}

// Runs `body` in a child, which begins as a program, and returns its status as of waitpid. If the body returns, the
// child ends with 99, without any handlers.
template <class Body> int StatusOf(Body body) {
  const pid_t pid = fork();
  if (pid == 0) {
    BeginAsProgram();
    alarm(60);
    body();
    _exit(99);
  }
  int status = -1;
  return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

inline bool DiedOf(int status, int signal) { return WIFSIGNALED(status) && WTERMSIG(status) == signal; }
inline bool ExitedWith(int status, int code) { return WIFEXITED(status) && WEXITSTATUS(status) == code; }

inline pitot::Options OptionsFor(pitot::Ends ends) {
  pitot::Options options;
  options.memory_budget_bytes = 8 << 20;
  options.max_ring_bytes = options.max_grown_ring_bytes = 1 << 16;
  options.max_open_requests = 256;
  options.post_window_ms = 0;
  options.worker_cpu_percent = 100;
  options.handle_ends = ends;
  return options;
}

// Never destroyed.
struct Host {
  inline static Host* last = nullptr;

  Host(pitot::Options options, const std::string& directory) {
    options.incident_directory = directory.c_str();
    recorder = pitot::Recorder::Start(options);
    if (!recorder.status().ok()) _exit(98);
    before = std::exchange(last, this);
  }
  Host* before;  // so that a leak checker finds it
  pitot::Recorder recorder;
};
inline Host* MakeHost(pitot::Ends ends, const std::string& directory = "") {
  return new Host(OptionsFor(ends), directory);
}
inline Host* MakeHost(const pitot::Options& options, const std::string& directory) {
  return new Host(options, directory);
}

// Whole incidents in a directory.
inline size_t IncidentsIn(const std::string& directory) {
  size_t count = 0;
  for (const std::string& name : fakes::NamesIn(directory))
    count += name[0] != '.' && name.find("-partial") == name.npos;
  return count;
}

// The end of a child: its note and its status.
struct Death {
  Shared<pitot::ends::DeathNote> note;
  int status = 0;

  template <class Body> void Run(Body body) {
    status = StatusOf([&] {
      pitot::ends::SetDeathNote(note.get());
      body();
    });
  }
  bool IsNoted() const { return note->state == pitot::ends::NoteState::kWritten; }
};

}  // namespace ends_test

#endif  // PITOT_TEST_ENDS_DYING_H_
