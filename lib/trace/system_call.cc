// SPDX-License-Identifier: Apache-2.0
#include "trace/system_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include <cinttypes>

namespace pitot::trace {

namespace {

struct NamedCall {
  int64_t number;
  const char* name;
};
// Those in which threads sleep.
constexpr NamedCall kNamedCalls[] = {
    {SYS_futex, "futex"},
    {SYS_read, "read"},
    {SYS_readv, "readv"},
    {SYS_pread64, "pread"},
    {SYS_write, "write"},
    {SYS_writev, "writev"},
    {SYS_pwrite64, "pwrite"},
    {SYS_recvfrom, "recv"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_sendto, "send"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_connect, "connect"},
    {SYS_accept, "accept"},
    {SYS_accept4, "accept"},
    {SYS_ppoll, "poll"},
    {SYS_pselect6, "select"},
    {SYS_epoll_pwait, "epoll_wait"},
#ifdef SYS_poll  // the older calls, which only older machines have
    {SYS_poll, "poll"},
    {SYS_select, "select"},
    {SYS_epoll_wait, "epoll_wait"},
#endif
    {SYS_nanosleep, "sleep"},
    {SYS_clock_nanosleep, "sleep"},
    {SYS_fsync, "fsync"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_flock, "flock"},
    {SYS_fcntl, "fcntl"},
    {SYS_openat, "open"},
    {SYS_close, "close"},
    {SYS_ioctl, "ioctl"},
    {SYS_wait4, "wait"},
    {SYS_waitid, "wait"},
    {SYS_mmap, "mmap"},
    {SYS_munmap, "munmap"},
    {SYS_madvise, "madvise"},
    {SYS_mprotect, "mprotect"},
};

}  // namespace

// "45 0x3 0x7f58 0x1 0x0 0x0 0x0 0x7fff10 0x7f58974", "-1 0x7fff10 0x7f58974" or "running".
bool ParseSystemCall(const char* text, SystemCall* call) noexcept {
  char* end = nullptr;
  call->number = strtoll(text, &end, 10);
  if (end == text) return false;
  constexpr int kMostWords = 8;
  uint64_t words[kMostWords];
  int count = 0;
  for (const char* at = end; count < kMostWords; at = end, ++count) {
    words[count] = strtoull(at, &end, 16);
    if (end == at) break;
  }
  if (count != (call->number < 0 ? 2 : kMostWords)) return false;
  call->stack = words[count - 2];
  call->instruction = words[count - 1];
  constexpr int kTimeout = 3;  // its argument of futex; null: it waits for as long as it takes
  call->is_timed_futex = call->number == SYS_futex && words[kTimeout] != 0;
  return true;
}

Name SystemCallName(int64_t number) noexcept {
  if (number < 0) return Intern("");
  for (const NamedCall& call : kNamedCalls) {
    if (call.number == number) return Intern(call.name);
  }
  char text[40];
  snprintf(text, sizeof text, "system call %" PRId64, number);
  return Intern(text);
}

}  // namespace pitot::trace
