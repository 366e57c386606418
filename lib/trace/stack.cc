// SPDX-License-Identifier: Apache-2.0
#include "pitot/stack.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cinttypes>

#include "trace/rings.h"
#include "trace/system_call.h"

PITOT_NAMESPACE_BEGIN

namespace {

using StackArgs = detail::ArgList<int64_t, uint32_t, uint32_t, Name, Name, Name, Name>;
constexpr uint32_t kNative = 0x100;  // in `own`
constexpr Site kStackSite{kSiteMagic,        SiteKind::kInstant,
                          StackArgs::kCount, 0,
                          __LINE__,          StackArgs::Types(),
                          "stack",           "pitot/stack.h",
                          "RecordStack",     "\"\", tid, own, missed, call, frame, caller, its_caller"};

}  // namespace

Name SystemCallOf(int64_t tid) noexcept {
  char path[64], text[256];
  snprintf(path, sizeof path, "/proc/self/task/%" PRId64 "/syscall", tid);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return Intern("");
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  text[length > 0 ? length : 0] = '\0';
  trace::SystemCall call;
  if (!trace::ParseSystemCall(text, &call)) return Intern("");
  return call.is_timed_futex ? Intern("timed futex") : trace::SystemCallName(call.number);
}

void RecordStack(const StackSample& sample) noexcept {
  trace::ThreadRing* ring = trace::EnterThread();
  if (ring == nullptr) return;
  StackArgs args;
  args.Set(sample.tid, sample.own | (sample.is_native ? kNative : 0), sample.missed, sample.call, sample.frames[0],
           sample.frames[1], sample.frames[2]);
  const uint64_t now = detail::Clock(ring->gate);
  detail::Append(ring, &kStackSite, now, now, args);
}

PITOT_NAMESPACE_END
