// SPDX-License-Identifier: Apache-2.0
#include "trace/box.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstring>

#include "trace/bus_guard.h"

namespace pitot::trace {
namespace {

uint64_t WholePages(uint64_t bytes) { return (bytes + kBoxPage - 1) / kBoxPage * kBoxPage; }

// Beyond the limit the kernel does not only refuse: it sends SIGXFSZ, which ends the host.
bool IsWithinFileLimit(uint64_t end) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || end <= limit.rlim_cur);
}

}  // namespace

Box::~Box() {
  for (const Part& part : parts_) {
    if (part.at == nullptr) continue;
    UnguardRange(part.at);
    munmap(part.at, part.bytes);
  }
}

void Box::Leave(void* at) noexcept {
  for (Part& part : parts_) {
    if (part.at != at) continue;
    static_cast<void>(mmap(at, part.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    UnguardRange(at);
    part.at = nullptr;
  }
}

bool Box::Begin() noexcept {
  BoxPart part;
  header_ = static_cast<BoxHeader*>(TakePart(kBoxPage, kBoxPage, &part));
  return header_ != nullptr;
}

bool Box::Take(uint64_t bytes, uint64_t room_bytes, uint64_t* offset) noexcept {
  if (!Allocate(end_, bytes)) return false;
  *offset = end_;
  end_ += WholePages(room_bytes);
  return true;
}

bool Box::Allocate(uint64_t offset, uint64_t bytes) noexcept {
  bytes = WholePages(bytes);
  if (allocated_.load(std::memory_order_relaxed) + bytes > most_bytes_ || !IsWithinFileLimit(offset + bytes)) {
    errno = EFBIG;
    return false;
  }
  int failed = 0;
  do {
    failed = fallocate(fd_, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (failed != 0 && errno == EINTR);
  if (failed != 0) return false;
  allocated_.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

void Box::Free(uint64_t offset, uint64_t bytes) noexcept {
  bytes = WholePages(bytes);
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  allocated_.fetch_sub(bytes, std::memory_order_relaxed);
}

bool Box::MapAt(void* at, uint64_t offset, uint64_t bytes) const noexcept {
  constexpr int kFlags = MAP_SHARED | MAP_FIXED;
  return mmap(at, bytes, PROT_READ | PROT_WRITE, kFlags, fd_, static_cast<off_t>(offset)) != MAP_FAILED;
}

void* Box::TakePart(uint64_t bytes, uint64_t room_bytes, BoxPart* part) noexcept {
  Part* const mapped = FreePart();
  if (mapped == nullptr || !Take(bytes, room_bytes, &part->offset)) return nullptr;
  void* at = mmap(nullptr, room_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, static_cast<off_t>(part->offset));
  if (at == MAP_FAILED) return nullptr;
  if (!GuardRange(at, room_bytes)) {
    munmap(at, room_bytes);
    errno = ENOSPC;
    return nullptr;
  }
  *mapped = {at, room_bytes};
  part->bytes = room_bytes;
  return at;
}

Box::Part* Box::FreePart() noexcept {
  for (Part& part : parts_) {
    if (part.at == nullptr) return &part;
  }
  errno = ENOSPC;
  return nullptr;
}

bool BoxLog::Begin(Box* box, uint64_t room_bytes, BoxLogPart* part) noexcept {
  box_ = box;
  part_ = part;
  allocated_ = kLeastRoom;
  at_ = static_cast<char*>(box->TakePart(kLeastRoom, room_bytes, &part->room));
  return at_ != nullptr;
}

void BoxLog::Add(const void* data, uint32_t bytes) noexcept {
  if (at_ == nullptr) return;
  const uint64_t written = part_->written.load(std::memory_order_relaxed), end = written + sizeof bytes + bytes;
  if (end > allocated_ && !MakeRoom(end)) return End();
  std::memcpy(at_ + written, &bytes, sizeof bytes);
  if (bytes != 0) std::memcpy(at_ + written + sizeof bytes, data, bytes);
  part_->written.store(end, std::memory_order_release);
}

bool BoxLog::MakeRoom(uint64_t bytes) noexcept {
  const uint64_t added = (bytes - allocated_ + kLeastRoom - 1) / kLeastRoom * kLeastRoom;
  if (allocated_ + added > part_->room.bytes || !box_->Allocate(part_->room.offset + allocated_, added)) return false;
  allocated_ += added;
  return true;
}

}  // namespace pitot::trace
