// SPDX-License-Identifier: Apache-2.0
//
// How far back rings reach. The recorder notes now and then how far each ring has been written, and a ring's history
// begins when its oldest word was written.
#ifndef PITOT_LIB_SESSION_RING_AGES_H_
#define PITOT_LIB_SESSION_RING_AGES_H_

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace pitot::session {

// A ring at one moment. Words are counted from its beginning on: it holds the last `capacity` of [floor, head), and
// none before `grown_at`, from which on it has this capacity.
struct RingAt {
  uint32_t number;
  uint64_t attach_ticks;
  uint64_t floor, head, capacity;
  uint64_t grown_at = 0;
};

// The oldest word that a ring holds.
inline uint64_t OldestWord(const RingAt& ring) {
  return std::max({ring.floor, ring.grown_at, ring.head > ring.capacity ? ring.head - ring.capacity : 0});
}

// Not thread-safe. Memory: about 320 bytes a ring.
class RingAges {
 public:
  // Call it now and then, at best some times within a ring's history. Rings not named are forgotten.
  void Note(const std::vector<RingAt>& rings, uint64_t now_ticks) {
    ++notes_;
    for (const RingAt& ring : rings) {
      Marks& marks = rings_[ring.number];
      marks.noted = notes_;
      Add(ring, now_ticks, &marks);
    }
    std::erase_if(rings_, [this](const auto& ring) { return ring.second.noted != notes_; });
  }

  // Ticks since the ring's oldest word was written. Writing is assumed to be steady between two marks. The error is
  // about a sixth at most, unless the ring turns faster than it is noted.
  uint64_t Age(const RingAt& ring, uint64_t now_ticks) const {
    const uint64_t oldest = OldestWord(ring);
    Mark before{ring.floor, ring.attach_ticks}, after{ring.head, now_ticks};
    if (const auto found = rings_.find(ring.number); oldest != ring.floor && found != rings_.end()) {
      const Marks& marks = found->second;
      for (uint32_t i = 0; i < marks.count && after.head == ring.head; ++i) {
        if (marks.mark[i].head <= oldest)
          before = marks.mark[i];
        else
          after = marks.mark[i];
      }
    }
    double written = static_cast<double>(before.ticks);
    if (oldest != before.head && after.head != before.head)
      written += static_cast<double>(after.ticks - before.ticks) * static_cast<double>(oldest - before.head) /
                 static_cast<double>(after.head - before.head);
    const auto written_ticks = static_cast<uint64_t>(written);
    return now_ticks > written_ticks ? now_ticks - written_ticks : 0;
  }

  // A word that was written before `ticks`, as late as is known. 0: none is known.
  uint64_t WordBefore(uint32_t number, uint64_t ticks) const {
    uint64_t word = 0;
    const auto found = rings_.find(number);
    if (found == rings_.end()) return word;
    const Marks& marks = found->second;
    for (uint32_t i = 0; i < marks.count && marks.mark[i].ticks <= ticks; ++i) word = marks.mark[i].head;
    return word;
  }

 private:
  static constexpr uint32_t kMarks = 16;
  struct Mark {
    uint64_t head, ticks;
  };
  struct Marks {
    uint64_t noted = 0;
    uint32_t count = 0;
    Mark mark[kMarks];
  };

  static void Add(const RingAt& ring, uint64_t now_ticks, Marks* marks) {
    Mark* const mark = marks->mark;
    // One mark at or before the oldest word is enough.
    uint32_t past = 0;
    while (past + 1 < marks->count && mark[past + 1].head <= OldestWord(ring)) ++past;
    if (past != 0) std::copy(mark + past, mark + marks->count, mark);
    marks->count -= past;
    // A pausing thread needs two: the begin and the end of its pause.
    if (marks->count >= 2 && mark[marks->count - 2].head == ring.head) --marks->count;
    if (marks->count == kMarks) {
      for (uint32_t i = 1; i < kMarks / 2; ++i) mark[i] = mark[2 * i];
      marks->count = kMarks / 2;
    }
    mark[marks->count++] = {ring.head, now_ticks};
  }

  std::unordered_map<uint32_t, Marks> rings_;
  uint64_t notes_ = 0;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_RING_AGES_H_
