// SPDX-License-Identifier: Apache-2.0
//
// The newest records of each device, in memory taken once. An incident pins its part and reads it in its own time,
// while writing goes on in the rest.
#ifndef PITOT_LIB_COLLECT_CUPTI_HISTORY_H_
#define PITOT_LIB_COLLECT_CUPTI_HISTORY_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "collect/cupti/records.h"

namespace pitot::cupti {

// A loss on any stream of a device (kNoDevice: of any device).
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

  // Adds records of one device. Without room, the oldest chunk of the device with most chunks gives way. If all that
  // could is pinned, the records are lost and counted. Thread: the decoding one. Throws bad_alloc.
  void Add(uint32_t device, const GpuRecord* records, size_t count);
  // Notes records that never came. For each device and reason, the last 128 losses are kept apart, earlier ones as one.
  // Thread: the decoding one.
  void AddLoss(const Loss& loss) noexcept;

  // Makes the memory a chunk smaller, for the life of the history: the oldest chunk of the device with most chunks
  // gives way. False, and nothing is done, if all that could is pinned. Thread: the decoding one.
  bool GiveBackChunk() noexcept;

  // The records of a window, in their place until this is destroyed. At most the newest three quarters of the memory;
  // the rest is in `losses`.
  class Pinned {
   public:
    Pinned() = default;
    ~Pinned() { Release(); }
    Pinned(const Pinned&) = delete;
    Pinned& operator=(const Pinned&) = delete;
    void Release() noexcept;
    // Visits the newest of each device first.
    template <class Visit> void ForEach(Visit visit) const {
      for (const Part& part : parts_) {
        for (const GpuRecord* record = part.records + part.count; record-- != part.records;) {
          if (record->begin_ns + record->duration_ns >= begin_ns_) visit(*record);
        }
      }
    }
    // Losses in order of their begin; touching ones of one device and reason are joined. If a loss began more than a
    // second before the window, its number is unknown.
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
  // Pins the records ending at `begin_ns` or later. Threads: any. Throws bad_alloc.
  void Pin(int64_t begin_ns, Pinned* out);

  uint64_t records() const;  // held now

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
  Lane& LaneOf(uint32_t device) PITOT_REQUIRES(mutex_);
  bool FreeChunk() PITOT_REQUIRES(mutex_);
  std::vector<Loss>& LossesOf(uint32_t device, const char* reason) PITOT_REQUIRES(mutex_);
  void Remember(const Loss& loss) PITOT_REQUIRES(mutex_);

  uint8_t* const memory_;
  mutable base::Mutex mutex_;  // no thread of the host's takes it
  std::vector<Chunk> chunks_ PITOT_GUARDED_BY(mutex_);
  std::vector<uint32_t> free_ PITOT_GUARDED_BY(mutex_);
  size_t given_back_ PITOT_GUARDED_BY(mutex_) = 0;  // of chunks_
  std::deque<Lane> lanes_ PITOT_GUARDED_BY(mutex_);
  std::vector<std::vector<Loss>> losses_ PITOT_GUARDED_BY(mutex_);  // by device and reason; none is empty
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_HISTORY_H_
