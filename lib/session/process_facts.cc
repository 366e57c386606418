// SPDX-License-Identifier: Apache-2.0
#include "session/process_facts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace pitot::session {
namespace {

// The beginning of a file; its length, or -1.
ssize_t ReadFile(const char* path, char* text, size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  const ssize_t got = read(fd, text, size - 1);
  close(fd);
  if (got >= 0) text[got] = '\0';
  return got;
}

}  // namespace

std::string_view StatFrom(std::string_view stat, int field) noexcept {
  size_t at = stat.rfind(") ");
  if (at == stat.npos) return {};
  stat.remove_prefix(at + 2);
  for (int before = 3; before < field; ++before) {
    if (at = stat.find(' '); at == stat.npos) return {};
    stat.remove_prefix(at + 1);
  }
  return stat;
}

uint64_t ProcessStart(int64_t pid) noexcept {
  char path[48], text[1024];
  std::snprintf(path, sizeof path, "/proc/%lld/stat", static_cast<long long>(pid));
  if (ReadFile(path, text, sizeof text) <= 0) return 0;
  const std::string_view start = StatFrom(text, 22);
  return !start.empty() ? std::strtoull(start.data(), nullptr, 10) : 0;
}

bool IsZombie(int64_t pid) noexcept {
  char path[48], text[1024];
  std::snprintf(path, sizeof path, "/proc/%lld/stat", static_cast<long long>(pid));
  if (ReadFile(path, text, sizeof text) <= 0) return false;
  const std::string_view state = StatFrom(text, 3), threads = StatFrom(text, 20);
  return !state.empty() && state[0] == 'Z' && !threads.empty() && std::atoll(threads.data()) <= 1;
}

uint64_t ProcessSpace() noexcept {
  struct stat space {};
  return stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
}

std::string OwnBoxName() {
  std::string name = std::to_string(getpid());
  for (const uint64_t number : {ProcessStart(getpid()), ProcessSpace()}) name += "-" + std::to_string(number);
  return name + "-" + BootId().substr(0, kBootDigits) + ".box";
}

bool IsOwnerGone(const std::string& box_name) {
  long long pid = 0;
  unsigned long long start = 0, space = 0;
  char boot[kBootDigits + 1] = {};
  int end = 0;
  if (std::sscanf(box_name.c_str(), "%lld-%llu-%llu-%8[0-9a-f].box%n", &pid, &start, &space, boot, &end) != 4 ||
      std::strlen(boot) != kBootDigits || end != static_cast<int>(box_name.size()))
    return false;
  const std::string own_boot = BootId().substr(0, kBootDigits);
  if (own_boot.empty()) return false;
  return own_boot != boot || (space == ProcessSpace() && ProcessStart(pid) != start);
}

std::string BootId() {
  char text[64];
  const ssize_t got = ReadFile("/proc/sys/kernel/random/boot_id", text, sizeof text);
  if (got <= 0) return "";
  text[std::strcspn(text, "\n")] = '\0';
  return text;
}

}  // namespace pitot::session
