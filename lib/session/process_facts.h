// SPDX-License-Identifier: Apache-2.0
//
// What tells a process from a later one with its number.
#ifndef PITOT_LIB_SESSION_PROCESS_FACTS_H_
#define PITOT_LIB_SESSION_PROCESS_FACTS_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace pitot::session {

// A text of /proc/PID/stat from a field on, the third (the state) or a later one; "": it has none. The second is the
// name, in parentheses, and may have any.
std::string_view StatFrom(std::string_view stat, int field) noexcept;
// When the process began, in clock ticks since boot; 0: it does not exist, or /proc is not there.
uint64_t ProcessStart(int64_t pid) noexcept;
// Whether a process with that number has ended, and nobody has waited for it yet. Its first thread alone may have
// ended.
bool IsZombie(int64_t pid) noexcept;
// The namespace of this process's number, by its inode's; 0: not known.
uint64_t ProcessSpace() noexcept;
inline constexpr size_t kBootDigits = 8;
// The name of this process's black box: NUMBER-START-SPACE-BOOT.box. In containers, many processes have one number: the
// start and the namespace tell them apart. A machine that starts the same way each time gives a service the number and
// the start that it had before: the first digits of the boot tell these apart.
std::string OwnBoxName();
// Whether the name of a black box says that its process is gone: it is of an earlier boot, or the number is free or
// another's. False also if the name does not tell.
bool IsOwnerGone(const std::string& box_name);
// The machine's boot, "" if it is not known.
std::string BootId();

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_PROCESS_FACTS_H_
