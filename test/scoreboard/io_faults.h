// SPDX-License-Identifier: Apache-2.0
//
// Faults of input and output: a synced file in a handler, and memory from disk.
#ifndef PITOT_TEST_SCOREBOARD_IO_FAULTS_H_
#define PITOT_TEST_SCOREBOARD_IO_FAULTS_H_

#include <cstdint>
#include <string>

namespace scoreboard {

// Writes a file in `directory`, syncs it, and leaves none. Records the wait for it as "journal".
void WriteAndSync(const std::string& directory, uint64_t bytes);

// Memory mapped from a file, as weights may be.
class MappedFile {
 public:
  // Writes a file of so many bytes in `directory` and maps it. Throws std::runtime_error.
  MappedFile(const std::string& directory, uint64_t bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // Has the kernel forget its first `bytes`, then reads them, with one major fault for each stretch of read-ahead.
  // Returns how many major faults this thread had.
  uint64_t ForgetAndRead(uint64_t bytes);

 private:
  int file_ = -1;
  void* memory_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace scoreboard

#endif  // PITOT_TEST_SCOREBOARD_IO_FAULTS_H_
