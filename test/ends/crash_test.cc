// SPDX-License-Identifier: Apache-2.0
//
// Fatal signals and std::terminate: the notes, and how the process ends.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/clock.h"
#include "ends/dying.h"
#include "ends/module_map.h"
#include "fakes/scale.h"
#include "fakes/serializers.h"

namespace {

using ends_test::Death;
using ends_test::DiedOf;
using ends_test::IncidentsIn;
using ends_test::MakeHost;
using ends_test::StatusOf;
using pitot::Ends;
using pitot::ends::DeathNote;
using pitot::ends::End;

constexpr uint64_t kNowhere = 0x1234;

PITOT_TEST_FAULT void WriteNowhere() { *reinterpret_cast<volatile char*>(kNowhere) = 1; }

PITOT_TEST_FAULT void ReadBeyondFile() {
  const int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
  auto* const page = static_cast<volatile char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  page[0] = 1;
}

PITOT_TEST_FAULT void JumpNowhere() {
  static void (*volatile nowhere)() = nullptr;
  nowhere();
}

void RunWrongInstruction() {
#if defined(__x86_64__)
  asm volatile("ud2");
#else
  raise(SIGILL);
#endif
}

PITOT_TEST_FAULT void DivideByZero() {
  static volatile int zero = 0;
  static volatile int result = 1;
  result = result / zero;
  raise(SIGFPE);  // CPUs without this fault
}

void Break() {
#if defined(__x86_64__)
  asm volatile("int3");
#else
  raise(SIGTRAP);
#endif
}

void CallForbidden() { raise(SIGSYS); }

struct Crash {
  const char* what;
  int signal;
  void (*run)();
};
const Crash kCrashes[] = {
    {"a write to nowhere", SIGSEGV, WriteNowhere},
    {"a read beyond a file", SIGBUS, ReadBeyondFile},
    {"a wrong instruction", SIGILL, RunWrongInstruction},
    {"a division by zero", SIGFPE, DivideByZero},
    {"abort()", SIGABRT, abort},
    {"a forbidden call", SIGSYS, CallForbidden},
    {"a breakpoint", SIGTRAP, Break},
};

bool HasFrameIn(const DeathNote& note, void (*function)()) {
  const auto begin = reinterpret_cast<uintptr_t>(function);
  for (uint32_t i = 0; i < note.frame_count; ++i) {
    if (note.frames[i] >= begin && note.frames[i] < begin + 256) return true;
  }
  return false;
}

void Throw() { throw std::runtime_error("a secret of the user"); }
void ThrowThroughNoexcept() noexcept { Throw(); }

PITOT_TEST_FAULT int Overflow(volatile char* above) {
  volatile char frame[4096];
  frame[0] = above[0];
  return above[0] == 0 ? 0 : Overflow(frame) + frame[0];
}
void OverflowStack() {
  volatile char bottom = 1;
  Overflow(&bottom);
}

}  // namespace

TEST_CASE("a fatal signal is noted, and the process ends as without Pitot", "[ends]") {
  for (const Crash& crash : kCrashes) {
    INFO(crash.what);
    const int without = StatusOf(crash.run);
    REQUIRE(DiedOf(without, crash.signal));
    Death death;
    const int64_t before_ns = pitot::base::ClockNs(CLOCK_MONOTONIC);

    death.Run([&] {
      MakeHost(Ends::kCrash);
      pthread_setname_np(pthread_self(), "the culprit");
      crash.run();
    });

    CHECK(death.status == without);
    REQUIRE(death.IsNoted());
    const DeathNote& note = *death.note;
    CHECK(note.layout == DeathNote::kLayout);
    CHECK(note.end == End::kSignal);
    CHECK(note.signal == crash.signal);
    CHECK(note.thread == note.process);
    CHECK(std::string(note.thread_name) == "the culprit");
    CHECK(note.monotonic_ns >= before_ns);
    CHECK(note.monotonic_ns <= pitot::base::ClockNs(CLOCK_MONOTONIC));
    CHECK(note.realtime_ns > 1'000'000'000'000'000'000);
    CHECK(note.frame_count >= 3);
    CHECK(std::string(note.exception_type).empty());
  }
}

TEST_CASE("a note has the address that faulted, its instruction and its callers", "[ends]") {
  Death death;
  death.Run([] {
    MakeHost(Ends::kCrash);
    WriteNowhere();
  });

  REQUIRE(death.IsNoted());
  CHECK(death.note->code == SEGV_MAPERR);
  CHECK(death.note->fault_address == kNowhere);
  REQUIRE(death.note->frame_count >= 3);
  CHECK(HasFrameIn(*death.note, WriteNowhere));
  CHECK(death.note->frames[0] >= reinterpret_cast<uintptr_t>(WriteNowhere));
}

TEST_CASE("a note has the modules of its frames with their build ids, also of a library loaded later", "[ends]") {
  Death death;
  death.Run([] {
    MakeHost(Ends::kCrash);
    void* const plugin = dlopen(PITOT_TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) _exit(1);
    pitot::ends::LookForModules();  // as the watcher does
    reinterpret_cast<void (*)(void (*)(void*), void*)>(dlsym(plugin, "CallFromPlugin"))([](void*) { WriteNowhere(); },
                                                                                        nullptr);
  });

  CHECK(DiedOf(death.status, SIGSEGV));
  REQUIRE(death.IsNoted());
  const auto module_named = [&](const std::string& end) -> const pitot::ends::MappedModule* {
    for (uint32_t i = 0; i < death.note->module_count; ++i) {
      const std::string name = death.note->modules[i].name;
      if (name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0)
        return &death.note->modules[i];
    }
    return nullptr;
  };
  const auto* const program = module_named("/ends_test");
  REQUIRE(program != nullptr);
  CHECK(program == &death.note->modules[0]);
  CHECK(program->begin < reinterpret_cast<uintptr_t>(WriteNowhere));
  CHECK(program->end > reinterpret_cast<uintptr_t>(WriteNowhere));
  CHECK(program->build_id_bytes == sizeof program->build_id);
  CHECK(module_named("/libunload_plugin.so") != nullptr);
}

TEST_CASE("a signal that another process sent is noted with its sender", "[ends]") {
  Death death;
  const ends_test::Shared<pid_t> sender;
  death.Run([&] {
    MakeHost(Ends::kCrash);
    const pid_t host = getpid();
    if (fork() == 0) {
      *sender = getpid();
      kill(host, SIGSEGV);
      _exit(0);
    }
    for (;;) pause();
  });

  CHECK(DiedOf(death.status, SIGSEGV));
  REQUIRE(death.IsNoted());
  CHECK(death.note->code == SI_USER);
  CHECK(death.note->fault_address == 0);
  CHECK(death.note->sender_process == *sender);
  CHECK(death.note->sender_user == static_cast<int32_t>(getuid()));
}

TEST_CASE("a jump to nowhere is noted with its caller", "[ends]") {
  Death death;
  death.Run([] {
    MakeHost(Ends::kCrash);
    JumpNowhere();
  });

  CHECK(DiedOf(death.status, SIGSEGV));
  REQUIRE(death.IsNoted());
  CHECK(death.note->frames[0] == 0);
  CHECK(death.note->frame_count >= 2);
}

TEST_CASE("a stack overflow is noted on the thread that started the recorder and on those that record", "[ends]") {
  if (fakes::kAddressSanitizer || fakes::kThreadSanitizer) return;  // they give threads stacks of their own
  Death death;
  SECTION("the thread that started the recorder") {
    death.Run([] {
      const rlimit small{1 << 20, 1 << 20};
      setrlimit(RLIMIT_STACK, &small);
      MakeHost(Ends::kCrash);
      OverflowStack();
    });
  }
  SECTION("a thread that records") {
    death.Run([] {
      MakeHost(Ends::kCrash);
      std::thread([] {
        PITOT_INSTANT("first event");
        OverflowStack();
      }).join();
    });
    CHECK(death.note->thread != death.note->process);
  }

  CHECK(DiedOf(death.status, SIGSEGV));
  REQUIRE(death.IsNoted());
  CHECK(death.note->signal == SIGSEGV);
  CHECK(death.note->frame_count == DeathNote::kMostFrames);
}

TEST_CASE("a thread's stack for signals is freed when the thread ends", "[ends]") {
  if (fakes::kAddressSanitizer || fakes::kThreadSanitizer) return;
  const int status = StatusOf([] {
    MakeHost(Ends::kCrash);
    void* first = nullptr;
    for (int i = 0; i < 100; ++i) {
      std::thread([&] {
        PITOT_INSTANT("event");
        stack_t stack{};
        sigaltstack(nullptr, &stack);
        if ((stack.ss_flags & SS_DISABLE) != 0) _exit(1);
        if (first == nullptr) first = stack.ss_sp;
        unsigned char there = 0;
        if (mincore(stack.ss_sp, 1, &there) != 0) _exit(2);
      }).join();
    }
    unsigned char there = 0;
    _exit(mincore(first, 1, &there) != 0 && errno == ENOMEM ? 0 : 3);
  });

  CHECK(ends_test::ExitedWith(status, 0));
}

TEST_CASE("a stack that the thread has stays its own", "[ends]") {
  const int status = StatusOf([] {
    static char own[1 << 16];
    const stack_t mine{own, 0, sizeof own};
    sigaltstack(&mine, nullptr);
    MakeHost(Ends::kCrash);
    stack_t now{};
    sigaltstack(nullptr, &now);
    _exit(now.ss_sp == own ? 0 : 1);
  });

  CHECK(ends_test::ExitedWith(status, 0));
}

#if defined(__x86_64__)
TEST_CASE("a crash with a broken stack is noted", "[ends]") {
  Death death;
  SECTION("registers that point nowhere") {
    death.Run([] {
      MakeHost(Ends::kCrash);
      asm volatile("mov $8, %%rbp\n mov $8, %%rsp\n push %%rax" ::: "memory");
    });
  }
  SECTION("a stack whose words are all wrong") {
    death.Run([] {
      MakeHost(Ends::kCrash);
      static uint64_t words[512];
      for (uint64_t& word : words) word = 0x4141414141414141;
      asm volatile("mov %0, %%rsp\n mov %0, %%rbp\n mov $0, %%rax\n mov %%rax, (%%rax)" ::"r"(words + 256) : "memory");
    });
  }

  CHECK(DiedOf(death.status, SIGSEGV));
  REQUIRE(death.IsNoted());
  CHECK(death.note->signal == SIGSEGV);
  CHECK(death.note->frame_count >= 1);
}
#endif

TEST_CASE("an exception that nobody catches is noted with its type", "[ends]") {
  Death death;
  death.Run([] {
    MakeHost(Ends::kCrash);
    ThrowThroughNoexcept();
  });

  CHECK(DiedOf(death.status, SIGABRT));
  REQUIRE(death.IsNoted());
  CHECK(death.note->end == End::kSignal);
  CHECK(death.note->signal == SIGABRT);
  CHECK(std::string(death.note->exception_type) == typeid(std::runtime_error).name());
  CHECK(death.note->frame_count >= 3);
}

TEST_CASE("the host's terminate handler runs after the note, and keeps its way to end", "[ends]") {
  Death death;
  death.Run([] {
    std::set_terminate([] { _exit(7); });
    MakeHost(Ends::kCrash);
    std::terminate();
  });

  CHECK(ends_test::ExitedWith(death.status, 7));
  REQUIRE(death.IsNoted());
  CHECK(death.note->end == End::kException);
  CHECK(std::string(death.note->exception_type).empty());
}

TEST_CASE("what fired is on disk after abort() and std::terminate", "[ends]") {
  const fakes::TempDirectory directory;
  pitot::Options options = ends_test::OptionsFor(Ends::kCrash);
  options.post_window_ms = 60'000;  // cut short
  void (*const end)() = GENERATE(&abort, &std::terminate);

  const int status = StatusOf([&] {
    MakeHost(options, directory.path())->recorder.Trigger("before the end");
    end();
  });

  CHECK(DiedOf(status, SIGABRT));
  CHECK(IncidentsIn(directory.path()) == 1);
}

TEST_CASE("an abort() calls no log and no hook: the thread in it may hold their locks", "[ends]") {
  const fakes::TempDirectory directory;
  pitot::Options options = ends_test::OptionsFor(Ends::kCrash);
  options.end_grace_ms = 60'000;  // longer than the child may live
  options.post_window_ms = 60'000;
  static std::mutex lock;
  options.log = [](void*, pitot::LogLevel, const char*) { const std::lock_guard held(lock); };
  pitot::Hooks hooks;
  hooks.on_incident = hooks.on_verdict = [](void*, const pitot::IncidentInfo&) { const std::lock_guard held(lock); };

  const int status = StatusOf([&] {
    ends_test::Host* const host = MakeHost(options, directory.path());
    host->recorder.SetHooks(hooks);
    const std::lock_guard held(lock);
    host->recorder.Trigger("reason");
    abort();
  });

  CHECK(DiedOf(status, SIGABRT));
  CHECK(IncidentsIn(directory.path()) == 1);
}

TEST_CASE("an abort() waits no longer than its grace for a serializer that hangs", "[ends]") {
  const fakes::TempDirectory directory;
  pitot::Options options = ends_test::OptionsFor(Ends::kCrash);
  options.end_grace_ms = 50;
  ends_test::Shared<int64_t> begin_ns;

  const int status = StatusOf([&] {
    ends_test::Host* const host = MakeHost(options, directory.path());
    host->recorder.Add(fakes::MakeCallSerializer("hangs.txt", [](const pitot::model::Trace&, pitot::ByteSink&) {
      for (;;) pause();
      return pitot::Status();
    }));
    host->recorder.Trigger("reason");
    *begin_ns = pitot::base::ClockNs(CLOCK_MONOTONIC);
    abort();
  });

  CHECK(DiedOf(status, SIGABRT));
  CHECK(pitot::base::ClockNs(CLOCK_MONOTONIC) - *begin_ns >= 50'000'000);
}

TEST_CASE("a note that cannot be written changes no end", "[ends]") {
  for (const Crash& crash : kCrashes) {
    INFO(crash.what);
    const int status = StatusOf([&] {
      void* const nowhere = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      pitot::ends::SetDeathNote(static_cast<DeathNote*>(nowhere));
      MakeHost(Ends::kCrash);
      crash.run();
    });

    CHECK(DiedOf(status, crash.signal));
  }
}

TEST_CASE("a handler that hangs is ended by its signal", "[ends]") {
  const int status = StatusOf([] {
    MakeHost(Ends::kCrash);
    void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // Nobody ever answers its page faults.
    const auto faults = static_cast<int>(syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY));
    uffdio_api api{UFFD_API, 0, 0};
    uffdio_register region{{reinterpret_cast<uintptr_t>(page), 4096}, UFFDIO_REGISTER_MODE_MISSING, 0};
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0 || ioctl(faults, UFFDIO_REGISTER, &region) != 0) _exit(77);
    pitot::ends::SetDeathNote(static_cast<DeathNote*>(page));
    WriteNowhere();
  });

  if (ends_test::ExitedWith(status, 77)) {
    WARN("the system gives no userfaultfd: not tested");
    return;
  }
  CHECK(DiedOf(status, SIGSEGV));
}

TEST_CASE("threads that crash at once leave one whole note", "[ends]") {
  Death death;
  death.Run([] {
    MakeHost(Ends::kCrash);
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, nullptr, 4);
    std::thread threads[4];
    for (std::thread& thread : threads) {
      thread = std::thread([&] {
        pthread_barrier_wait(&barrier);
        WriteNowhere();
      });
    }
    for (std::thread& thread : threads) thread.join();
  });

  CHECK(DiedOf(death.status, SIGSEGV));
  REQUIRE(death.IsNoted());
  CHECK(death.note->fault_address == kNowhere);
  CHECK(HasFrameIn(*death.note, WriteNowhere));
}

TEST_CASE("a crash during exit() replaces the note of the exit", "[ends]") {
  Death death;
  death.Run([] {
    atexit(WriteNowhere);  // runs after later ones
    MakeHost(Ends::kAll);
    exit(3);
  });

  CHECK(DiedOf(death.status, SIGSEGV));
  REQUIRE(death.IsNoted());
  CHECK(death.note->end == End::kSignal);
}

TEST_CASE("a child's crash is not its parent's end", "[ends]") {
  const auto make = GENERATE(as<long>{}, 0, SIGCHLD, CLONE_VM | CLONE_VFORK | SIGCHLD);
  Death death;
  death.Run([&] {
    MakeHost(Ends::kAll);
    const pid_t child = make == 0                   ? fork()
                        : (make & CLONE_VFORK) != 0 ? vfork()
                                                    : static_cast<pid_t>(syscall(SYS_clone, make, 0, 0, 0, 0));
    if (child == 0) {
      WriteNowhere();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (!DiedOf(status, SIGSEGV)) _exit(1);
    if (pitot::ends::GetDeathNote()->state != pitot::ends::NoteState::kEmpty) _exit(2);
    _exit(0);
  });

  CHECK(ends_test::ExitedWith(death.status, 0));
  CHECK(!death.IsNoted());
}
