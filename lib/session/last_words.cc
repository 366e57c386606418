// SPDX-License-Identifier: Apache-2.0
#include "session/last_words.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/columns.h"
#include "base/text.h"
#include "session/process_facts.h"

namespace pitot::session {
namespace {

template <size_t kSize> std::string TextOf(const char (&text)[kSize]) {
  return std::string(text, strnlen(text, kSize));
}

std::string Hex(uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

constexpr int kBySeccomp = 1;  // the kernel's SYS_SECCOMP

struct Code {
  int signal, code;
  const char* meaning;
};
constexpr Code kCodes[] = {
    {SIGSEGV, SEGV_MAPERR, "not mapped"},
    {SIGSEGV, SEGV_ACCERR, "no permission"},
    {SIGSEGV, SEGV_PKUERR, "no permission by its protection key"},
    {SIGBUS, BUS_ADRALN, "not aligned"},
    {SIGBUS, BUS_ADRERR, "no memory there: the file was cut off, or its disk fails"},
    {SIGBUS, BUS_MCEERR_AR, "the memory is broken"},
    {SIGBUS, BUS_MCEERR_AO, "the memory is broken"},
    {SIGFPE, FPE_INTDIV, "an integer division by zero"},
    {SIGFPE, FPE_INTOVF, "an integer overflow"},
    {SIGFPE, FPE_FLTDIV, "a division by zero"},
    {SIGFPE, FPE_FLTOVF, "an overflow"},
    {SIGFPE, FPE_FLTUND, "an underflow"},
    {SIGFPE, FPE_FLTRES, "an inexact result"},
    {SIGFPE, FPE_FLTINV, "an invalid operation"},
    {SIGILL, ILL_ILLOPC, "an illegal instruction"},
    {SIGILL, ILL_ILLOPN, "an illegal operand"},
    {SIGILL, ILL_PRVOPC, "a privileged instruction"},
    {SIGTRAP, TRAP_BRKPT, "a breakpoint"},
    {SIGSYS, kBySeccomp, "a system call that a filter forbids"},
};

// siginfo_t has a sender only with these; others have other fields in its place.
bool HasSender(int code) { return code == SI_USER || code == SI_QUEUE || code == SI_TKILL; }

std::string SenderOf(const ends::DeathNote& note) {
  if (note.sender_process == note.process) return " raised by itself";
  if (note.sender_process == 0) return " sent from outside of its namespace of processes";
  return " sent by process " + std::to_string(note.sender_process) + " of user " +
         std::to_string(static_cast<uint32_t>(note.sender_user));
}

bool MayBeKilled(const SeenEnd& seen) {
  return !seen.status || (WIFSIGNALED(*seen.status) && WTERMSIG(*seen.status) == SIGKILL);
}

// As others saw it: "by SIGKILL".
std::string HowOf(const SeenEnd& seen) {
  if (!seen.status) return "without a word (killed or crashed)";
  if (WIFSIGNALED(*seen.status)) return "by " + base::SignalText(WTERMSIG(*seen.status));
  return "with exit code " + std::to_string(WEXITSTATUS(*seen.status));
}

// The name given by pitot::SetThreadName, otherwise the system's.
std::string ThreadNameOf(const ends::DeathNote& note, const model::Trace& trace) {
  for (const model::ThreadRow& thread : trace.threads) {
    if (thread.tid == note.thread && !thread.exited && !trace.strings[thread.name].empty())
      return std::string(trace.strings[thread.name]);
  }
  return TextOf(note.thread_name);
}

// "by SIGSEGV at address 0x10 (not mapped) on thread worker".
std::string HowOf(const std::optional<ends::DeathNote>& note, const SeenEnd& seen, const model::Trace& trace) {
  if (!note || (seen.status && MayBeKilled(seen))) return HowOf(seen);  // a kill may come during its last words
  const std::string on = " on thread " + ThreadNameOf(*note, trace);
  if (note->has_gone_on != 0) return HowOf(seen) + ", some time after " + SignalOf(*note) + on;
  switch (note->end) {
    case ends::End::kExit:
      return "by exit(" + std::to_string(note->exit_status) + ")";
    case ends::End::kTermination:
      return "by " + SignalOf(*note);
    case ends::End::kException:
      return "by std::terminate" + on;
    case ends::End::kSignal:
      return "by " + SignalOf(*note) + on;
    case ends::End::kNone:
      break;
  }
  return HowOf(seen);
}

uint64_t CountOpen(const model::Trace& trace) {
  return static_cast<uint64_t>(
      std::count_if(trace.requests.begin(), trace.requests.end(),
                    [](const model::RequestRow& row) { return row.duration_ns == model::kOpen; }));
}

}  // namespace

std::optional<ends::DeathNote> NoteOf(const std::string& bytes) {
  ends::DeathNote note;
  if (bytes.size() < sizeof note) return std::nullopt;
  std::memcpy(static_cast<void*>(&note), bytes.data(), sizeof note);
  if (note.state == ends::NoteState::kEmpty || note.layout != ends::DeathNote::kLayout) return std::nullopt;
  return note;
}

std::string SignalOf(const ends::DeathNote& note) {
  const std::string name = base::SignalText(note.signal);
  if (HasSender(note.code)) return name + SenderOf(note);
  if (note.code == SI_KERNEL) return name + " from the kernel, which names no address";
  if (note.code <= 0) return name;
  const auto* const code = std::find_if(std::begin(kCodes), std::end(kCodes), [&](const Code& it) {
    return it.signal == note.signal && it.code == note.code;
  });
  return name + " at address " + Hex(note.fault_address) +
         (code != std::end(kCodes) ? std::string(" (") + code->meaning + ")" : "");
}

std::string StackOf(const ends::DeathNote& note, uint32_t most) {
  std::string stack;
  for (uint32_t i = 0; i < std::min({note.frame_count, ends::DeathNote::kMostFrames, most}); ++i) {
    const uint64_t address = note.frames[i];
    const auto* const last = note.modules + std::min(note.module_count, ends::DeathNote::kMostModules);
    const auto* const module = std::find_if(note.modules, last, [address](const ends::MappedModule& it) {
      return address >= it.begin && address < it.end;
    });
    const std::string path = module != last ? TextOf(module->name) : "";
    stack += (i == 0 ? "" : ", ") + path.substr(path.rfind('/') + 1) + "+" +
             Hex(module != last ? address - module->begin : address);
  }
  return stack;
}

std::string ThreadOf(const ends::DeathNote& note, const model::Trace& trace) {
  constexpr uint32_t kFrames = 4;
  const bool is_orderly = note.end == ends::End::kExit || note.end == ends::End::kTermination;
  if (is_orderly || note.thread == 0) return "";
  const std::string stack = StackOf(note, kFrames);
  return ThreadNameOf(note, trace) + " (" + std::to_string(note.thread) + ")" + (stack.empty() ? "" : " at " + stack) +
         (note.frame_count > kFrames ? ", ..." : "");
}

std::string ExceptionOf(const ends::DeathNote& note) { return TextOf(note.exception_type); }

std::string LastWords(const snapshot::BoxFacts& facts, const std::optional<ends::DeathNote>& note, const SeenEnd& seen,
                      const model::Trace& trace) {
  const bool may_be_machine = !note && !seen.status && IsOfOtherBoot(facts);
  const std::string how =
      may_be_machine ? "without a word (killed or crashed, or its machine went down)" : HowOf(note, seen, trace);
  return facts.process_name + " (process " + std::to_string(facts.pid) + ") ended " + how + " at " +
         TimeText(seen.status ? seen.at_ns : facts.last.realtime_ns) + ", with " +
         base::Plural(CountOpen(trace), "open request") +
         (seen.had_oom_kills && MayBeKilled(seen) ? "; the kernel's OOM killer struck in its control group" : "");
}

bool IsOfOtherBoot(const snapshot::BoxFacts& facts) { return !facts.boot_id.empty() && facts.boot_id != BootId(); }

std::string TimeText(int64_t realtime_ns) {
  const time_t seconds = realtime_ns / 1'000'000'000;
  tm parts{};
  char text[40];
  gmtime_r(&seconds, &parts);
  const size_t size = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  std::snprintf(text + size, sizeof text - size, ".%03d UTC", static_cast<int>(realtime_ns / 1'000'000 % 1000));
  return text;
}

}  // namespace pitot::session
