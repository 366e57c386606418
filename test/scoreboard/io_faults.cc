// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/io_faults.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "pitot/trace.h"
#include "pitot/wait.h"

namespace scoreboard {
namespace {

// A file without a name; -1 if that fails.
int OpenUnlinked(const std::string& directory) {
  std::string name = directory + "/sample_server_XXXXXX";
  const int file = mkostemp(name.data(), O_CLOEXEC);
  if (file >= 0) unlink(name.c_str());
  return file;
}

// False if the disk is full, say.
bool Fill(int file, uint64_t bytes) {
  const std::vector<char> block(std::min<uint64_t>(bytes, 1 << 16), 'x');
  for (uint64_t written = 0; written < bytes;) {
    const ssize_t size = write(file, block.data(), std::min<uint64_t>(block.size(), bytes - written));
    if (size <= 0) return false;
    written += static_cast<uint64_t>(size);
  }
  return fsync(file) == 0;
}

uint64_t MajorFaults() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<uint64_t>(usage.ru_majflt);
}

}  // namespace

void WriteAndSync(const std::string& directory, uint64_t bytes) {
  PITOT_WAIT(pitot::WaitKind::kIo, "journal", pitot::Owner{});
  const int file = OpenUnlinked(directory);
  if (file < 0) return;
  Fill(file, bytes);
  close(file);
}

MappedFile::MappedFile(const std::string& directory, uint64_t bytes) : file_(OpenUnlinked(directory)), bytes_(bytes) {
  if (file_ >= 0 && Fill(file_, bytes)) memory_ = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file_, 0);
  if (memory_ != nullptr && memory_ != MAP_FAILED) return;
  if (file_ >= 0) close(file_);
  throw std::runtime_error("no file of " + std::to_string(bytes) + " bytes can be mapped in " + directory);
}

MappedFile::~MappedFile() {
  munmap(memory_, bytes_);
  close(file_);
}

uint64_t MappedFile::ForgetAndRead(uint64_t bytes) {
  bytes = std::min(bytes, bytes_);
  madvise(memory_, bytes, MADV_DONTNEED);
  posix_fadvise(file_, 0, static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
  madvise(memory_, bytes, MADV_RANDOM);  // a fault a page
  const uint64_t before = MajorFaults();
  for (uint64_t at = 0; at < bytes; at += 4096) static_cast<void>(static_cast<volatile const char*>(memory_)[at]);
  return MajorFaults() - before;
}

}  // namespace scoreboard
