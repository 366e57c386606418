// SPDX-License-Identifier: Apache-2.0
#include "base/last_library.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/safe_read.h"

#pragma weak _r_debug  // a program without a loader has none

namespace pitot::base {

bool LastLibrary::Read(const link_map* at, Mark* mark) noexcept {
  link_map map{};
  if (!ReadMemory(reinterpret_cast<uintptr_t>(at), &map, sizeof map)) return false;
  *mark = {map.l_addr, map.l_name, map.l_ld, map.l_next, {}, {}};
  // What cannot be read stays zero.
  ReadMemory(reinterpret_cast<uintptr_t>(map.l_name), mark->text, sizeof mark->text);
  ReadMemory(map.l_addr, mark->head, sizeof mark->head);
  char* const text_end = mark->text + sizeof mark->text;
  std::fill(std::find(mark->text, text_end, '\0'), text_end, '\0');
  return true;
}

bool LastLibrary::IsStillLast() const noexcept {
  Mark now;
  return at_ != nullptr && Read(at_, &now) && now.next == nullptr && std::memcmp(&now, &mark_, sizeof now) == 0;
}

// TSan does not see the loader's lock, under which this reads the list.
__attribute__((no_sanitize("thread"))) void LastLibrary::Remember() noexcept {
  at_ = &_r_debug != nullptr ? _r_debug.r_map : nullptr;
  while (at_ != nullptr && at_->l_next != nullptr) at_ = at_->l_next;
  if (at_ == nullptr || !Read(at_, &mark_)) at_ = nullptr;
}

}  // namespace pitot::base
