// SPDX-License-Identifier: Apache-2.0
#include "pitot/stack.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>

#include "trace/rings.h"
#include "trace/system_call.h"

PITOT_NAMESPACE_BEGIN

namespace {

using StackArgs = detail::ArgList<int64_t, uint32_t, uint32_t, Name, Name, Name, Name>;
constexpr uint32_t kNative = 0x100, kOnCpu = 0x200;  // in `own`
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
  const uint32_t own = sample.own | (sample.is_native ? kNative : 0) | (sample.is_on_cpu ? kOnCpu : 0);
  args.Set(sample.tid, own, sample.missed, sample.call, sample.frames[0], sample.frames[1], sample.frames[2]);
  // Readers of rings take a record for new if it is this little older than the one before.
  const int64_t age_ns = std::clamp<int64_t>(sample.age_ns, 0, StackSample::kOldestNs);
  const uint64_t at = detail::Clock(ring->gate) - detail::TicksOf(static_cast<uint64_t>(age_ns));
  detail::Append(ring, &kStackSite, at, at, args);
}

PITOT_NAMESPACE_END
