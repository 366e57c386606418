// SPDX-License-Identifier: Apache-2.0
//
// exit() and SIGTERM: incidents are written, and the process ends as without Pitot.
#include <sched.h>
#include <sys/syscall.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "ends/dying.h"
#include "fakes/quiet_process.h"
#include "fakes/serializers.h"
#include "fakes/wait_until.h"

namespace {

using ends_test::Death;
using ends_test::DiedOf;
using ends_test::ExitedWith;
using ends_test::IncidentsIn;
using ends_test::MakeHost;
using ends_test::OptionsFor;
using ends_test::StatusOf;
using pitot::Ends;
using pitot::ends::End;

// An incident, to wait a minute for its post window.
void Fire(Ends ends, const std::string& directory) {
  pitot::Options options = OptionsFor(ends);
  options.post_window_ms = 60'000;
  if (!MakeHost(options, directory)->recorder.Trigger("before the end").ok()) _exit(97);
}

uintptr_t HandlerOf(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return reinterpret_cast<uintptr_t>(action.sa_sigaction);
}

bool HasThread(const char* name) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string text;
    std::getline(std::ifstream(task.path() / "comm"), text);
    if (text == name) return true;
  }
  return false;
}

void WaitForEnd() {
  for (;;) pause();
}

std::atomic<bool> g_is_blocked{false};

[[noreturn]] void Block() {
  g_is_blocked = true;
  for (;;) pause();
}

// Holds up the watcher: it answers those waiting for incidents.
class BlockingCollector final : public pitot::Collector {
 public:
  const char* Name() const noexcept override { return "blocking"; }
  pitot::Status Start() noexcept override { return {}; }
  void Stop() noexcept override {}
  void Keep(int64_t, pitot::KeepFor) noexcept override { Block(); }
  void AddTo(pitot::TraceBuilder&) override {}
};

constexpr int kAllSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP, SIGTERM};

}  // namespace

TEST_CASE("exit() writes what fired, and notes its status", "[ends]") {
  const fakes::TempDirectory directory;
  Death death;
  death.Run([&] {
    Fire(Ends::kShutdown, directory.path());
    exit(3);
  });

  CHECK(ExitedWith(death.status, 3));
  CHECK(IncidentsIn(directory.path()) == 1);
  REQUIRE(death.IsNoted());
  CHECK(death.note->end == End::kExit);
  CHECK(death.note->exit_status == 3);
}

TEST_CASE("hooks are called at SIGTERM, but not at exit(), where their objects may be gone", "[ends]") {
  const bool is_exit = GENERATE(true, false);
  const ends_test::Shared<int> told;
  pitot::Hooks hooks;
  hooks.context = told.get();
  hooks.on_verdict = [](void* context, const pitot::IncidentInfo&) { ++*static_cast<int*>(context); };
  pitot::Options options = OptionsFor(Ends::kShutdown);
  options.post_window_ms = 60'000;

  const int status = StatusOf([&] {
    ends_test::Host* const host = MakeHost(options, "");
    host->recorder.SetHooks(hooks);
    host->recorder.Trigger("reason");
    if (is_exit) exit(3);
    kill(getpid(), SIGTERM);
    WaitForEnd();
  });

  CHECK((is_exit ? ExitedWith(status, 3) : DiedOf(status, SIGTERM)));
  CHECK(*told == (is_exit ? 0 : 1));
}

TEST_CASE("without the option, exit() loses what has not been written, and nothing is installed", "[ends]") {
  const fakes::TempDirectory directory;
  Death death;
  death.Run([&] {
    Fire(Ends::kNone, directory.path());
    stack_t stack{};
    sigaltstack(nullptr, &stack);
    if ((stack.ss_flags & SS_DISABLE) == 0) _exit(1);
    for (const int signal : kAllSignals) {
      if (HandlerOf(signal) != 0) _exit(2);
    }
    if (HasThread("pitot-ends")) _exit(4);
    exit(3);
  });

  CHECK(ExitedWith(death.status, 3));
  CHECK(IncidentsIn(directory.path()) == 0);
  CHECK(!death.IsNoted());
}

TEST_CASE("SIGTERM writes what fired, and then ends the process as it would have", "[ends]") {
  const fakes::TempDirectory directory;
  Death death;
  death.Run([&] {
    Fire(Ends::kShutdown, directory.path());
    kill(getpid(), SIGTERM);
    WaitForEnd();
  });

  CHECK(DiedOf(death.status, SIGTERM));
  CHECK(IncidentsIn(directory.path()) == 1);
  REQUIRE(death.IsNoted());
  CHECK(death.note->end == End::kTermination);
  CHECK(death.note->signal == SIGTERM);
  CHECK(death.note->code == SI_USER);
  CHECK(death.note->sender_process > 0);
}

TEST_CASE("a host's handler of SIGTERM stays, whenever it was installed", "[ends]") {
  const fakes::TempDirectory directory;
  const bool is_first = GENERATE(true, false);

  const int status = StatusOf([&] {
    void (*const handler)(int) = [](int) { _exit(5); };
    if (is_first) signal(SIGTERM, handler);
    Fire(Ends::kAll, directory.path());
    if (!is_first) signal(SIGTERM, handler);
    if (HandlerOf(SIGTERM) != reinterpret_cast<uintptr_t>(handler)) _exit(1);
    raise(SIGTERM);
  });

  CHECK(ExitedWith(status, 5));
}

TEST_CASE("a host that ignores SIGTERM goes on ignoring it", "[ends]") {
  const int status = StatusOf([] {
    signal(SIGTERM, SIG_IGN);
    MakeHost(Ends::kAll);
    raise(SIGTERM);
    _exit(6);
  });

  CHECK(ExitedWith(status, 6));
}

TEST_CASE("a later handler of SIGTERM that calls the former one ends the process by SIGTERM", "[ends]") {
  const fakes::TempDirectory directory;
  const int status = StatusOf([&] {
    Fire(Ends::kShutdown, directory.path());
    static struct sigaction former {};
    struct sigaction mine {};
    mine.sa_flags = SA_SIGINFO;
    mine.sa_sigaction = [](int signal, siginfo_t* info, void* context) { former.sa_sigaction(signal, info, context); };
    sigaction(SIGTERM, &mine, &former);
    kill(getpid(), SIGTERM);
    WaitForEnd();
  });

  CHECK(DiedOf(status, SIGTERM));
  CHECK(IncidentsIn(directory.path()) == 1);
}

// An end of a process, and its status.
struct EndOf {
  const char* name;
  void (*end)();
  bool (*is_so)(int status);
};
constexpr EndOf kEnds[] = {{"exit", [] { exit(3); }, [](int status) { return ExitedWith(status, 3); }},
                           {"SIGTERM",
                            [] {
                              kill(getpid(), SIGTERM);
                              WaitForEnd();
                            },
                            [](int status) { return DiedOf(status, SIGTERM); }},
                           {"abort", [] { abort(); }, [](int status) { return DiedOf(status, SIGABRT); }},
                           {"terminate", [] { std::terminate(); }, [](int status) { return DiedOf(status, SIGABRT); }}};

TEST_CASE("an end waits no longer than its grace for a thread that does not come back", "[ends]") {
  const EndOf it = kEnds[GENERATE(range(0, 4))];
  const std::string blocked = GENERATE("a serializer", "a hook", "the log", "a collector");
  CAPTURE(it.name, blocked);
  pitot::Options options = OptionsFor(Ends::kAll);
  options.end_grace_ms = 50;
  const fakes::TempDirectory directory;

  const int status = StatusOf([&] {
    if (blocked == "the log") {
      options.log = [](void*, pitot::LogLevel, const char* message) {
        if (std::string_view(message).find("incident: ") == 0) Block();
      };
    }
    ends_test::Host* const host = MakeHost(options, directory.path());
    if (blocked == "a serializer") {
      host->recorder.Add(fakes::MakeCallSerializer("hangs.txt", [](const pitot::model::Trace&, pitot::ByteSink&) {
        Block();
        return pitot::Status();
      }));
    }
    if (blocked == "a hook") {
      pitot::Hooks hooks;
      hooks.on_incident = [](void*, const pitot::IncidentInfo&) { Block(); };
      host->recorder.SetHooks(hooks);
    }
    if (blocked == "a collector") host->recorder.Add(std::make_unique<BlockingCollector>());
    host->recorder.Trigger("reason");
    if (!fakes::WaitUntil([] { return g_is_blocked.load(); })) _exit(1);
    it.end();
  });

  CHECK(it.is_so(status));
}

TEST_CASE("a hook that calls exit() ends the process at once", "[ends]") {
  pitot::Options options = OptionsFor(Ends::kShutdown);
  options.end_grace_ms = 60'000;  // longer than the child may live
  pitot::Hooks hooks;
  hooks.on_incident = [](void*, const pitot::IncidentInfo&) { exit(3); };

  const int status = StatusOf([&] {
    ends_test::Host* const host = MakeHost(options, "");
    host->recorder.SetHooks(hooks);
    host->recorder.Trigger("reason");
    WaitForEnd();
  });

  CHECK(ExitedWith(status, 3));
}

TEST_CASE("Stop takes back what is installed, and a second recorder installs it again", "[ends]") {
  const fakes::TempDirectory directory;
  const int status = StatusOf([&] {
    for (int i = 0; i < 2; ++i) {
      ends_test::Host* const host = MakeHost(Ends::kAll);
      for (const int signal : kAllSignals) {
        if (HandlerOf(signal) == 0) _exit(1);
      }
      if (!fakes::WaitUntil([] { return HasThread("pitot-ends"); })) _exit(2);
      host->recorder.Stop();
      for (const int signal : kAllSignals) {
        if (HandlerOf(signal) != 0) _exit(3);
      }
      if (HasThread("pitot-ends")) _exit(4);
    }
    Fire(Ends::kAll, directory.path());
    exit(0);
  });

  CHECK(ExitedWith(status, 0));
  CHECK(IncidentsIn(directory.path()) == 1);
}

TEST_CASE("SIGTERM during Stop waits for the incidents that Stop finishes", "[ends]") {
  const fakes::TempDirectory directory;
  const int status = StatusOf([&] {
    ends_test::Host* const host = MakeHost(Ends::kShutdown, directory.path());
    pitot::Hooks hooks;
    hooks.on_incident = [](void*, const pitot::IncidentInfo&) { kill(getpid(), SIGTERM); };
    host->recorder.SetHooks(hooks);
    host->recorder.Trigger("one");
    host->recorder.Stop();
    WaitForEnd();
  });

  CHECK(DiedOf(status, SIGTERM));
  CHECK(IncidentsIn(directory.path()) == 1);
}

TEST_CASE("the first process of a container writes what fired at each SIGTERM, and goes on", "[ends]") {
  const fakes::TempDirectory directory;
  const int status = StatusOf([&] {
    if (unshare(CLONE_NEWPID) != 0) _exit(77);
    const pid_t first = fork();
    if (first == 0) {
      alarm(60);
      if (getpid() != 1) _exit(1);
      pitot::Options options = OptionsFor(Ends::kAll);
      options.post_window_ms = 60'000;
      ends_test::Host* const host = MakeHost(options, directory.path());
      for (size_t i = 1; i <= 2; ++i) {
        host->recorder.Trigger("reason");
        kill(getpid(), SIGTERM);
        if (!fakes::WaitUntil([&] { return IncidentsIn(directory.path()) == i; })) _exit(2);
      }
      _exit(0);
    }
    int ended = 0;
    waitpid(first, &ended, 0);
    _exit(WIFEXITED(ended) ? WEXITSTATUS(ended) : 3);
  });

  if (ExitedWith(status, 77)) {
    WARN("the system gives no process namespace: not tested");
    return;
  }
  CHECK(ExitedWith(status, 0));
}

TEST_CASE("a child's end flushes nothing of its parent's, and ends it as without Pitot", "[ends]") {
  const fakes::TempDirectory directory;
  const bool is_raw = GENERATE(true, false);
  Death death;
  death.Run([&] {
    Fire(Ends::kAll, directory.path());
    for (const bool is_exit : {true, false}) {
      if (!fakes::WaitUntilOthersWait()) _exit(3);
      const pid_t child = is_raw ? static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)) : fork();
      if (child == 0) {
        alarm(60);
        if (is_exit) exit(4);
        raise(SIGTERM);
        WaitForEnd();
      }
      int status = 0;
      waitpid(child, &status, 0);
      if (is_exit ? !ExitedWith(status, 4) : !DiedOf(status, SIGTERM)) _exit(1);
    }
    if (IncidentsIn(directory.path()) != 0) _exit(2);
    _exit(0);
  });

  CHECK(ExitedWith(death.status, 0));
  CHECK(!death.IsNoted());
}

TEST_CASE("the child of a fork handles its ends once it has a recorder", "[ends]") {
  const fakes::TempDirectory directory;
  const int status = StatusOf([&] {
    MakeHost(Ends::kAll);
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      Fire(Ends::kAll, directory.path());
      kill(getpid(), SIGTERM);
      WaitForEnd();
    }
    int ended = 0;
    waitpid(child, &ended, 0);
    _exit(DiedOf(ended, SIGTERM) ? 0 : 1);
  });

  CHECK(ExitedWith(status, 0));
  CHECK(IncidentsIn(directory.path()) == 1);
}
