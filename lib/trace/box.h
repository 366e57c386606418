// SPDX-License-Identifier: Apache-2.0
//
// A black box: one file for each process, mapped shared, with what the recorder knows. It outlives the process, so
// another one finds there what this one did last (snapshot/box_reader.h). Rings lie in it, and the table of open
// requests; names and sites are copied to it as they come. The hot path stays as it is.
//
// Bytes are allocated in the file before they are mapped, so a full file system refuses here, and no store faults. If
// they are lost later (the file was truncated, the disk fails), bus_guard.h puts private memory in their place.
//
// No child writes into it: what leads there lies in parent_only.h, or in the first line of a ring, and a child finds
// both zero.
#ifndef PITOT_LIB_TRACE_BOX_H_
#define PITOT_LIB_TRACE_BOX_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "trace/clock.h"

namespace pitot::trace {

inline constexpr uint64_t kBoxPage = 4096;
inline constexpr char kBoxMagic[8] = {'P', 'I', 'T', 'B', 'O', 'X', '\r', '\n'};
inline constexpr uint32_t kBoxVersion = 3;

enum class BoxState : uint32_t {
  kIncomplete = 0,  // being made
  kRecording = 1,
  kEnded = 2,  // by Stop: nothing is to be found out
};

// A part of the file. Without bytes: it is not there.
struct BoxPart {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// A part that only grows: entries one after the other, each with its size before it (32 bits).
struct BoxLogPart {
  BoxPart room;
  std::atomic<uint64_t> written;  // bytes of whole entries
};

// Rows of one size, one after the other: the newest (trace/last_rows.h).
struct BoxRowsPart {
  BoxPart room;
  std::atomic<uint64_t> written;  // rows, ever
};

// The last time that the watcher looked. Written by one thread; `turn` is odd meanwhile, and a reader that finds it odd
// or changed has the other half of a pair.
struct BoxPulse {
  std::atomic<uint64_t> turn;
  std::atomic<uint64_t> ticks, monotonic_ns, realtime_ns, boottime_ns;
  std::atomic<uint64_t> triggers_fired, incidents_written, requests_begun, requests_finished;
  // What is not in the file: rings that had no room there, and pages that were lost since.
  std::atomic<uint64_t> rings_outside, pages_lost;
  std::atomic<uint64_t> open_batches;
};

// RouteProgress, as the watcher found it; of what failed, in BoxFailing.
struct BoxRoute {
  std::atomic<uint32_t> name, longest_us;  // at most 71 minutes
  std::atomic<uint64_t> ok_ticks;
};
inline constexpr uint32_t kBoxRoutes = 64;
// The routes that failed last. A reader that finds `failing_ticks` changed has parts of two.
struct BoxFailing {
  std::atomic<uint64_t> failing_ticks;  // 0: none
  std::atomic<uint32_t> name, failed;
  std::atomic<uint64_t> failed_ticks;
};
inline constexpr uint32_t kBoxFailing = 8;
inline constexpr uint32_t kBoxRings = 256;

// The first page of the file. Numbers are in the byte order of the machine, times in ns unless they are ticks.
struct BoxHeader {
  char magic[8];
  uint32_t version;
  uint32_t bytes;  // of this header: it grows at its end
  std::atomic<BoxState> state;
  uint32_t is_clock_slow;  // ticks are those of CLOCK_MONOTONIC
  char library[24];        // PITOT_VERSION_STRING
  int64_t pid;
  uint64_t process_start;  // in clock ticks after boot, as /proc/PID/stat has it
  char boot_id[40];
  char process_name[128];
  char incident_directory[1024];
  ClockReading start;
  std::atomic<uint64_t> newest_ring;  // offset of its page; others by ThreadRing::box_next
  BoxPart requests;                   // slots of requests.cc, of slot_bytes each
  uint32_t slot_bytes;
  BoxLogPart names;    // their texts, from index 1 on
  BoxLogPart sites;    // snapshot/site_log.h
  BoxPulse pulse[2];   // the later one counts
  BoxPart death_note;  // ends/death_note.h
  BoxRoute routes[kBoxRoutes];
  uint64_t process_space;  // the namespace of `pid`, by the number of its inode; 0: not known
  BoxRowsPart last_work, last_values;
  BoxLogPart last_texts;  // theirs, from number 1 on
  // The first rings, by the numbers of their pages; 0: there are no more. After a loss of power a ring's page may be
  // missing, and with it the way to older ones.
  std::atomic<uint32_t> ring_pages[kBoxRings];
  // Options::max_incidents_kept and max_incident_directory_bytes, for others who write its incident.
  uint64_t most_incidents, most_incident_bytes;
  BoxRowsPart last_depths;
  BoxFailing failing[kBoxFailing];
};
static_assert(sizeof(BoxHeader) <= kBoxPage);

// An open file. The session makes and closes it.
class Box {
 public:
  // `fd` is an empty file, kept open by the caller. `most_bytes` limits what is allocated.
  Box(int fd, uint64_t most_bytes) noexcept : fd_(fd), most_bytes_(most_bytes) {}
  ~Box();
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;

  // Allocates and maps the header. False: errno says why.
  bool Begin() noexcept;
  BoxHeader* header() const noexcept { return header_; }

  // The rest is for one thread at a time (rings: under their registry's lock).
  // Takes the next `bytes` of the file, and leaves room for them to become `room_bytes`. Whole pages. False: the file
  // system has no room, or the limit is reached.
  bool Take(uint64_t bytes, uint64_t room_bytes, uint64_t* offset) noexcept;
  // Allocates more of such a room.
  bool Allocate(uint64_t offset, uint64_t bytes) noexcept;
  void Free(uint64_t offset, uint64_t bytes) noexcept;
  // Maps a part of the file over the memory at `at`. False: the memory stays as it is.
  bool MapAt(void* at, uint64_t offset, uint64_t bytes) const noexcept;
  // Takes and maps a part anywhere: `bytes` of it are allocated. Null: there is no room.
  void* TakePart(uint64_t bytes, uint64_t room_bytes, BoxPart* part) noexcept;
  // A handler of a signal may still write into this part: private, empty memory stays there for ever.
  void Leave(void* at) noexcept;

 private:
  struct Part {
    void* at = nullptr;
    uint64_t bytes = 0;
  };
  Part* FreePart() noexcept;

  const int fd_;
  const uint64_t most_bytes_;
  uint64_t end_ = 0;  // of the file, with the rooms
  std::atomic<uint64_t> allocated_{0};
  BoxHeader* header_ = nullptr;
  Part parts_[8];  // by TakePart
};

// Writes a log. Threads: one at a time.
class BoxLog {
 public:
  static constexpr uint64_t kLeastRoom = 64 << 10;
  // Takes room for it. False: there is none.
  bool Begin(Box* box, uint64_t room_bytes, BoxLogPart* part) noexcept;
  bool IsOpen() const noexcept { return at_ != nullptr; }
  // Adds an entry. Once there is no room for one, it takes no more.
  void Add(const void* data, uint32_t bytes) noexcept;
  void End() noexcept { at_ = nullptr; }

 private:
  bool MakeRoom(uint64_t bytes) noexcept;

  Box* box_ = nullptr;
  BoxLogPart* part_ = nullptr;
  char* at_ = nullptr;  // null: closed
  uint64_t allocated_ = 0;
};

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_BOX_H_
