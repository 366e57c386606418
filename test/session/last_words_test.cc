// SPDX-License-Identifier: Apache-2.0
//
// Ends of processes, in words.
#include "session/last_words.h"

#include <signal.h>

#include <catch2/catch.hpp>
#include <string>

#include "ends/death_note.h"

namespace {

using pitot::ends::DeathNote;
using pitot::ends::End;
using pitot::session::SignalOf;

DeathNote NoteOf(int signal, int code) {
  DeathNote note{};
  note.end = End::kSignal;
  note.signal = signal;
  note.code = code;
  note.process = 77;
  return note;
}

std::string Fault(int signal, int code, uint64_t address) {
  DeathNote note = NoteOf(signal, code);
  note.fault_address = address;
  return SignalOf(note);
}

std::string Sent(int signal, int code, int32_t process, int32_t user) {
  DeathNote note = NoteOf(signal, code);
  note.sender_process = process;
  note.sender_user = user;
  return SignalOf(note);
}

}  // namespace

TEST_CASE("a fault is told with its address and its reason", "[last_words]") {
  CHECK(Fault(SIGSEGV, SEGV_MAPERR, 0x10) == "SIGSEGV at address 0x10 (not mapped)");
  CHECK(Fault(SIGSEGV, SEGV_ACCERR, 0xffffffffffffffff) == "SIGSEGV at address 0xffffffffffffffff (no permission)");
  CHECK(Fault(SIGFPE, FPE_INTDIV, 0x4000) == "SIGFPE at address 0x4000 (an integer division by zero)");
  CHECK(Fault(SIGBUS, BUS_ADRERR, 0x4000) ==
        "SIGBUS at address 0x4000 (no memory there: the file was cut off, or its disk fails)");
  CHECK(Fault(SIGSEGV, SI_KERNEL, 0) == "SIGSEGV from the kernel, which names no address");
  CHECK(Fault(SIGSEGV, 99, 0x10) == "SIGSEGV at address 0x10");  // a code of later kernels
}

TEST_CASE("a signal that somebody sent is told with its sender", "[last_words]") {
  CHECK(Sent(SIGTERM, SI_USER, 123, 0) == "SIGTERM sent by process 123 of user 0");
  CHECK(Sent(SIGTERM, SI_QUEUE, 123, -2) == "SIGTERM sent by process 123 of user 4294967294");
  CHECK(Sent(SIGABRT, SI_TKILL, 77, 0) == "SIGABRT raised by itself");
  CHECK(Sent(SIGTERM, SI_USER, 0, 0) == "SIGTERM sent from outside of its namespace of processes");
  CHECK(Sent(SIGTERM, SI_TIMER, 5, 0) == "SIGTERM");  // these are a timer's numbers
}
