// SPDX-License-Identifier: Apache-2.0
//
// A kernel that samples threads as a test says: rings in memory, filled with records of perf_event_open(2).
#ifndef PITOT_TEST_COLLECT_STACKS_FAKE_KERNEL_H_
#define PITOT_TEST_COLLECT_STACKS_FAKE_KERNEL_H_

#include <linux/perf_event.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "collect/stacks/sampler.h"

namespace fakes {

// The bytes of a record.
class RecordBytes {
 public:
  explicit RecordBytes(uint32_t type) { Put(perf_event_header{type, 0, sizeof(perf_event_header)}); }
  template <class T> RecordBytes& Put(const T& value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    memcpy(&bytes_[at], &value, sizeof value);
    const auto size = static_cast<uint16_t>(bytes_.size());
    memcpy(&bytes_[offsetof(perf_event_header, size)], &size, sizeof size);
    return *this;
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

// A sample with a stack of `words`, of which `valid_bytes` could be copied. The registers AX, BX, CX and so on have the
// values 100, 101, 102 and so on; SP is 107 and IP 108.
inline RecordBytes SampleRecord(uint32_t tid, int64_t at_ns, const std::vector<uint64_t>& words, uint64_t valid_bytes) {
  RecordBytes record(PERF_RECORD_SAMPLE);
  record.Put(uint32_t{1}).Put(tid).Put(at_ns).Put(uint64_t{PERF_SAMPLE_REGS_ABI_64});
  for (uint64_t i = 0; i < 17; ++i) record.Put(100 + i);
  record.Put(uint64_t{8 * words.size()});
  for (const uint64_t word : words) record.Put(word);
  if (!words.empty()) record.Put(valid_bytes);
  return record;
}

// State of the fake, shared with the test. Threads: any.
struct KernelPlay {
  struct Ring {
    std::vector<uint8_t> bytes;
    // As the kernel does.
    bool Add(const RecordBytes& record) {
      using pitot::stacks::Sampler;
      auto* const head = reinterpret_cast<perf_event_mmap_page*>(bytes.data());
      const uint64_t begin = head->data_head, end = begin + record.bytes().size();
      if (end - __atomic_load_n(&head->data_tail, __ATOMIC_ACQUIRE) > Sampler::kDataBytes) return false;
      for (uint64_t i = begin; i < end; ++i)
        bytes[Sampler::kHeadBytes + i % Sampler::kDataBytes] = record.bytes()[i - begin];
      __atomic_store_n(&head->data_head, end, __ATOMIC_RELEASE);
      return true;
    }
  };
  // Adds a record to the ring of a thread; false: it is not sampled, or has no room.
  bool Add(int64_t tid, const RecordBytes& record) {
    const std::lock_guard lock(mutex);
    const auto at = rings.find(tid);
    return at != rings.end() && at->second->Add(record);
  }
  size_t Sampled() {
    const std::lock_guard lock(mutex);
    return rings.size();
  }

  std::mutex mutex;
  std::map<int64_t, std::unique_ptr<Ring>> rings;
  std::map<int, int64_t> files;
  std::vector<RecordBytes> first;  // records of a new ring
  bool is_filtered = false;
  int open_error = 0, map_error = 0, opened = 0;
};

class FakeKernel final : public pitot::stacks::Kernel {
 public:
  explicit FakeKernel(std::shared_ptr<KernelPlay> play) : play_(std::move(play)) {}
  bool IsFiltered() override { return play_->is_filtered; }
  int Open(const perf_event_attr& /*attributes*/, int64_t tid) override {
    const std::lock_guard lock(play_->mutex);
    ++play_->opened;
    if (play_->open_error != 0) return -play_->open_error;
    play_->files[play_->opened] = tid;
    return play_->opened;
  }
  int Map(int file, size_t bytes, void** ring) override {
    const std::lock_guard lock(play_->mutex);
    if (play_->map_error != 0) return -play_->map_error;
    auto made = std::make_unique<KernelPlay::Ring>();
    made->bytes.resize(bytes);
    for (const RecordBytes& record : play_->first) made->Add(record);
    *ring = made->bytes.data();
    play_->rings[play_->files[file]] = std::move(made);
    return 0;
  }
  void Unmap(void* ring, size_t /*bytes*/) override {
    const std::lock_guard lock(play_->mutex);
    std::erase_if(play_->rings, [&](const auto& at) { return at.second->bytes.data() == ring; });
  }
  void Close(int file) override {
    const std::lock_guard lock(play_->mutex);
    play_->files.erase(file);
  }

 private:
  const std::shared_ptr<KernelPlay> play_;
};

}  // namespace fakes

#endif  // PITOT_TEST_COLLECT_STACKS_FAKE_KERNEL_H_
