// SPDX-License-Identifier: Apache-2.0
//
// The newest records of each device, in memory that is taken once. An incident pins the part it needs and reads it in
// its own time, while the rest is written on.
#ifndef PITOT_LIB_COLLECT_CUPTI_HISTORY_H_
#define PITOT_LIB_COLLECT_CUPTI_HISTORY_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "collect/cupti/records.h"

namespace pitot::cupti {

// What is missing, of any stream of a device (kNoDevice: of any).
inline constexpr uint32_t kNoDevice = ~0u;
struct Loss {
  int64_t begin_ns = 0, end_ns = 0;
  uint32_t device = kNoDevice;
  const char* reason = "";  // a literal
  uint64_t records = 0;     // 0: number unknown
};

class History {
 public:
  static constexpr uint32_t kChunkRecords = 1024;
  static constexpr uint64_t kChunkBytes = kChunkRecords * sizeof(GpuRecord);

  // Maps `bytes`, at least 16 chunks. Null if there is no memory.
  static std::unique_ptr<History> Make(uint64_t bytes) noexcept;
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  // Of one device. Where there is no room the oldest chunk of the device that has most of them gives way; where all
  // that could is pinned, the records are lost and counted. Thread: the decoding one. Throws bad_alloc.
  void Add(uint32_t device, const GpuRecord* records, size_t count);
  // Something that never came. Of each device and reason the last 128 are kept apart, those before as one. Thread: the
  // decoding one.
  void AddLoss(const Loss& loss) noexcept;

  // Makes the memory a chunk smaller, for good: the oldest of the device that has most of them gives way. False, and
  // nothing is done, where all that could is pinned. Thread: the decoding one.
  bool GiveBackChunk() noexcept;

  // The records of a window, which stay where they are until this is destroyed. The newest three quarters of the memory
  // at most; what is left out is in `losses`.
  class Pinned {
   public:
    Pinned() = default;
    ~Pinned() { Release(); }
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;
    void Release() noexcept;
    // Of each device the newest first.
    template <class Visit> void ForEach(Visit visit) const {
      for (const Part& part : parts_) {
        for (const GpuRecord* record = part.records + part.count; record-- != part.records;) {
          if (record->begin_ns + record->duration_ns >= begin_ns_) visit(*record);
        }
      }
    }
    // In order of their begin; what touches, of one device and reason, is one. What began more than a second before the
    // window has no number.
    const std::vector<Loss>& losses() const { return losses_; }

   private:
    friend class History;
    struct Part {
      const GpuRecord* records;
      uint32_t count, chunk;
    };
    History* history_ = nullptr;
    int64_t begin_ns_ = 0;
    std::vector<Part> parts_;
    std::vector<Loss> losses_;
  };
  // What ended at `begin_ns` or later. Threads: any. Throws bad_alloc.
  void Pin(int64_t begin_ns, Pinned* out);

  uint64_t records() const;  // that are held

 private:
  struct Chunk {
    uint32_t count = 0, pins = 0;
    int64_t begin_ns = 0, end_ns = 0;  // of its records
  };
  struct Lane {
    uint32_t device;
    std::deque<uint32_t> chunks;  // the newest last
  };

  History(uint8_t* memory, uint32_t chunks);
  GpuRecord* RecordsOf(uint32_t chunk) const {
    return reinterpret_cast<GpuRecord*>(memory_ + uint64_t{chunk} * kChunkBytes);
  }
  Lane& LaneOf(uint32_t device);
  bool FreeChunk();
  std::vector<Loss>& LossesOf(uint32_t device, const char* reason);
  void Remember(const Loss& loss);

  uint8_t* const memory_;
  mutable std::mutex mutex_;  // guards all that follows; no thread of the host's takes it
  std::vector<Chunk> chunks_;
  std::vector<uint32_t> free_;
  size_t given_back_ = 0;  // of chunks_
  std::deque<Lane> lanes_;
  std::vector<std::vector<Loss>> losses_;  // by device and reason, none of them empty
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_HISTORY_H_
