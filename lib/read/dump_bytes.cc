// SPDX-License-Identifier: Apache-2.0
#include "read/dump_bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace pitot::read {

DumpBytes::DumpBytes(const void* data, uint64_t size)
    : size_(size), held_data_(static_cast<const uint8_t*>(data)), held_(size) {}

// Non-blocking, so that a pipe without a writer does not block the reader.
DumpBytes::DumpBytes(const std::string& path)
    : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  struct stat facts {};
  if (descriptor_ < 0 || fstat(descriptor_, &facts) != 0) {
    Fail(errno);
  } else if (S_ISREG(facts.st_mode)) {
    size_ = static_cast<uint64_t>(facts.st_size);
  } else {
    status_ = Status(StatusCode::kInvalidArgument, (path + ": not a regular file").c_str());
  }
}

DumpBytes::~DumpBytes() {
  if (descriptor_ >= 0) close(descriptor_);
}

void DumpBytes::Fail(int error) {
  const StatusCode code = error == ENOENT ? StatusCode::kNotFound : StatusCode::kIoError;
  status_ = Status(code, (path_ + ": " + strerror(error)).c_str());
}

const uint8_t* DumpBytes::Fill(uint64_t at, uint64_t count) {
  window_.resize(std::max({window_.size(), kWindowBytes, count}));
  const uint64_t kept = at >= base_ && at - base_ < held_ ? held_ - (at - base_) : 0;
  if (kept != 0) memmove(window_.data(), window_.data() + (at - base_), kept);
  base_ = at, held_ = kept, held_data_ = window_.data();
  const uint64_t wanted = std::min<uint64_t>(window_.size(), size_ - at);
  while (held_ < wanted) {
    const ssize_t got = pread(descriptor_, window_.data() + held_, wanted - held_, static_cast<off_t>(base_ + held_));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) Fail(errno);
    if (got <= 0) {
      size_ = base_ + held_;
      break;
    }
    held_ += static_cast<uint64_t>(got);
  }
  return held_ >= count ? window_.data() : nullptr;
}

uint64_t DumpBytes::Find(uint8_t byte, uint64_t at) {
  while (at < size_) {
    const uint64_t count = std::min<uint64_t>(size_ - at, kWindowBytes / 2);
    const uint8_t* const bytes = At(at, count);
    if (bytes == nullptr) continue;  // it has shrunk
    if (const void* const found = memchr(bytes, byte, count); found != nullptr)
      return at + static_cast<uint64_t>(static_cast<const uint8_t*>(found) - bytes);
    at += count;
  }
  return size_;
}

}  // namespace pitot::read
