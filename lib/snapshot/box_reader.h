// SPDX-License-Identifier: Apache-2.0
//
// Reads the black box of another process, dead or alive, as snapshot.h reads this one. Any word of the file may be
// torn, old or hostile, so everything is checked, and the rest is left out. The file is mapped, not copied: a reader
// takes little memory.
#ifndef PITOT_LIB_SNAPSHOT_BOX_READER_H_
#define PITOT_LIB_SNAPSHOT_BOX_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "snapshot/signs.h"
#include "snapshot/snapshot.h"
#include "snapshot/texts.h"
#include "snapshot/torn_ring.h"
#include "trace/box.h"
#include "trace/last_rows.h"

namespace pitot::snapshot {

// Texts of another process, copied from its black box.
class BoxTexts final : public Texts {
 public:
  BoxTexts(std::vector<std::string> names, std::unordered_map<uint64_t, SiteText> sites,
           std::unordered_map<uint64_t, std::string> literals, uint64_t thread_end_site)
      : names_(std::move(names)),
        sites_(std::move(sites)),
        literals_(std::move(literals)),
        thread_end_site_(thread_end_site) {}
  std::string Name(uint32_t index) const override;
  SiteText Site(uint64_t address) const override;
  bool Literal(uint64_t address, std::string* text) const override;
  uint64_t ThreadEndSite() const override { return thread_end_site_; }
  size_t names() const { return names_.size(); }
  size_t sites() const { return sites_.size(); }
  SiteOrder OrderOf(uint64_t address) const;

 private:
  std::vector<std::string> names_;  // the first is of index 1
  std::unordered_map<uint64_t, SiteText> sites_;
  std::unordered_map<uint64_t, std::string> literals_;
  uint64_t thread_end_site_;
};

// The header, checked, with copies of its texts.
struct BoxFacts {
  trace::BoxState state = trace::BoxState::kIncomplete;
  bool is_clock_slow = false;
  std::string library, boot_id, process_name, incident_directory;
  int64_t pid = 0;
  uint64_t process_start = 0, process_space = 0;
  trace::ClockReading start, last;  // of the recorder; the watcher's last look
  uint64_t triggers_fired = 0, incidents_written = 0, requests_begun = 0, requests_finished = 0;
  uint64_t rings_outside = 0, pages_lost = 0;
  uint64_t open_batches = 0;
  uint64_t most_incidents = 0, most_incident_bytes = 0;  // the quota of its incident directory
};

class BoxReader {
 public:
  static constexpr uint32_t kMostRings = 65536;

  BoxReader() = default;
  ~BoxReader();
  BoxReader(const BoxReader&) = delete;
  BoxReader& operator=(const BoxReader&) = delete;

  // Reads the header of the file open as `fd`; the caller closes it, later. "": ok. Otherwise the reason: "not a black
  // box of Pitot".
  const char* Open(int fd) noexcept;
  const BoxFacts& facts() const { return facts_; }

  // As TakeSnapshot, with the words in `reserve`. The window ends with the newest record, or the watcher's last look.
  // `texts` gets the names. Throws bad_alloc.
  void Read(uint64_t window_begin_ticks, Reserve reserve, Snapshot* out);
  // Reads again how long the file is, the watcher's last look and names: a living process goes on writing.
  void Refresh() noexcept;
  // Before Read, for a living process: its rings may grow while they are read.
  void ExpectGrowth() noexcept { may_grow_ = true; }
  // Before Read, for a file whose pages may be of different moments (torn_ring.h).
  void ExpectTornPages() noexcept;
  // Whether the file lies in memory, and its pages are of one moment. Those of a disk that failed are not.
  bool IsInMemory() const noexcept;
  // What its open work shows of its progress, at `now_ticks` of its clock. Maps no ring. Throws bad_alloc.
  // Cost: some us for each ring.
  Signs ReadSigns(uint64_t now_ticks);
  // The words that all rings hold together. Throws bad_alloc.
  uint64_t CountWords() {
    MapRings();
    return words_held_;
  }
  // The bytes of the process's death note; "": it has none. Throws bad_alloc.
  std::string DeathNote() const;
  // The newest rows of collectors, the oldest first, without torn ones; and their texts, from number 1 on. Throws
  // bad_alloc.
  std::vector<trace::LastWork> LastWork() const;
  std::vector<trace::LastValue> LastValues() const;
  std::vector<trace::LastDepth> LastDepths() const;
  std::vector<std::string> LastTexts() const;
  // Rows of work that were there before the oldest.
  uint64_t LastWorkLost() const;
  // After Read. False: the table of open requests had no room in the file, or cannot be read.
  bool HasRequests() const { return has_requests_; }
  // Rings whose page, or whose words, the file does not have.
  uint32_t rings_damaged() const { return rings_damaged_; }
  // Lives as long as this object.
  const Texts& texts();

 private:
  struct MappedRing {
    trace::ThreadRing* ring;
    char* memory;
    uint64_t bytes;
    uint32_t number;  // when it was mapped: a living process hands it on
    bool is_copy;     // its pages may be written to: the file does not change
  };
  bool ReadHeader() noexcept;
  void ReadSize() noexcept;
  uint64_t NewestRing() noexcept;
  bool HasBytes(uint64_t offset, uint64_t bytes) const;
  class MappedRequests;
  void ReadPulse() noexcept;
  bool ReadRingPage(uint64_t offset, char* page) const;
  bool AddWorkAt(uint64_t offset, const KindOf& kind_of, uint64_t now_ticks, uint64_t* next,
                 std::vector<ThreadSign>* threads) const;
  void MapRings();
  bool MapRing(uint64_t offset, uint64_t* next);
  std::string ReadPart(uint64_t offset, uint64_t bytes) const;
  std::string ReadLog(const trace::BoxLogPart& part) const;
  std::string ReadRows(const trace::BoxRowsPart& part) const;
  void ReadRequests(Reserve* reserve, Snapshot* out);

  int fd_ = -1;
  uint64_t file_bytes_ = 0;
  trace::BoxHeader* header_ = nullptr;  // mapped, read-only
  BoxFacts facts_;
  std::vector<MappedRing> rings_;
  bool has_rings_ = false;
  bool may_grow_ = false;
  bool may_be_torn_ = false;
  uint64_t torn_bytes_left_ = 0;  // of the file's allocated ones, for rings
  uint64_t words_held_ = 0;
  bool has_requests_ = false;
  uint32_t rings_damaged_ = 0;
  uint64_t texts_bytes_ = 0;  // of the logs that the texts are of
  std::unique_ptr<BoxTexts> texts_;
};

}  // namespace pitot::snapshot

#endif  // PITOT_LIB_SNAPSHOT_BOX_READER_H_
