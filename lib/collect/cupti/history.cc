// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/history.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace pitot::cupti {
namespace {

constexpr uint32_t kLeastChunks = 16;
constexpr size_t kLossesKept = 128;         // of a device and reason
constexpr int64_t kNearNs = 1'000'000'000;  // losses further apart are two
constexpr int64_t kTouchNs = 1'000'000;     // nearer ones are one loss of an incident
constexpr int64_t kJoinedNs = 100'000'000;  // longer ones stay two, so that a window knows how many it lost

int64_t GapNs(const Loss& a, const Loss& b) { return std::max(a.begin_ns, b.begin_ns) - std::min(a.end_ns, b.end_ns); }
int64_t SpanNs(const Loss& a, const Loss& b) { return std::max(a.end_ns, b.end_ns) - std::min(a.begin_ns, b.begin_ns); }

void Join(const Loss& loss, Loss* into) {
  into->begin_ns = std::min(into->begin_ns, loss.begin_ns);
  into->end_ns = std::max(into->end_ns, loss.end_ns);
  into->records = into->records != 0 && loss.records != 0 ? into->records + loss.records : 0;
}

// Joins touching losses of one device and reason, in order of begin. Not if only one of the two has a number.
void JoinNeighbours(std::vector<Loss>* losses) {
  size_t kept = 0;
  for (const Loss& loss : *losses) {
    const auto is_alike = [&](const Loss& other) {
      return other.device == loss.device && std::strcmp(other.reason, loss.reason) == 0;
    };
    size_t after = kept;
    while (after > 0 && !is_alike((*losses)[after - 1])) --after;
    Loss* const last = after > 0 ? &(*losses)[after - 1] : nullptr;
    if (last != nullptr && GapNs(*last, loss) < kTouchNs && (last->records == 0) == (loss.records == 0))
      Join(loss, last);
    else
      (*losses)[kept++] = loss;
  }
  losses->resize(kept);
}

}  // namespace

std::unique_ptr<History> History::Make(uint64_t bytes) noexcept {
  const auto chunks = static_cast<uint32_t>(std::clamp<uint64_t>(bytes / kChunkBytes, kLeastChunks, 1u << 20));
  void* const memory =
      mmap(nullptr, chunks * kChunkBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  try {
    return std::unique_ptr<History>(new History(static_cast<uint8_t*>(memory), chunks));
  } catch (const std::bad_alloc&) {
    munmap(memory, chunks * kChunkBytes);
    return nullptr;
  }
}

History::History(uint8_t* memory, uint32_t chunks) : memory_(memory), chunks_(chunks) {
  free_.reserve(chunks);
  for (uint32_t i = chunks; i > 0; --i) free_.push_back(i - 1);
}

History::~History() { munmap(memory_, chunks_.size() * kChunkBytes); }

History::Lane& History::LaneOf(uint32_t device) {
  const auto found =
      std::find_if(lanes_.begin(), lanes_.end(), [=](const Lane& lane) { return lane.device == device; });
  if (found != lanes_.end()) return *found;
  lanes_.push_back({device, {}});
  return lanes_.back();
}

// Makes the newest of free_ an empty chunk. False: everything that could give way is pinned.
bool History::FreeChunk() {
  if (!free_.empty()) return true;
  Lane* most = nullptr;
  std::deque<uint32_t>::iterator oldest;
  for (Lane& lane : lanes_) {
    if (most != nullptr && lane.chunks.size() <= most->chunks.size()) continue;
    auto found = lane.chunks.begin();
    while (found != lane.chunks.end() && chunks_[*found].pins != 0) ++found;
    if (found != lane.chunks.end()) most = &lane, oldest = found;
  }
  if (most == nullptr) return false;
  Chunk& gone = chunks_[*oldest];
  Remember({gone.begin_ns, gone.end_ns, most->device, "overwritten", gone.count});
  gone = {};
  free_.push_back(*oldest);
  most->chunks.erase(oldest);
  return true;
}

void History::Add(uint32_t device, const GpuRecord* records, size_t count) {
  const base::MutexLock lock(&mutex_);
  Lane& lane = LaneOf(device);
  for (size_t i = 0; i < count; ++i) {
    const int64_t begin_ns = records[i].begin_ns, end_ns = begin_ns + records[i].duration_ns;
    if (lane.chunks.empty() || chunks_[lane.chunks.back()].count == kChunkRecords) {
      if (!FreeChunk()) {
        Remember({begin_ns, end_ns, device, "an incident holds the memory", 1});
        continue;
      }
      lane.chunks.push_back(free_.back());
      free_.pop_back();
    }
    const uint32_t last = lane.chunks.back();
    Chunk& chunk = chunks_[last];
    chunk.begin_ns = chunk.count == 0 ? begin_ns : std::min(chunk.begin_ns, begin_ns);
    chunk.end_ns = chunk.count == 0 ? end_ns : std::max(chunk.end_ns, end_ns);
    RecordsOf(last)[chunk.count++] = records[i];
  }
}

bool History::GiveBackChunk() noexcept {
  const base::MutexLock lock(&mutex_);
  try {
    if (!FreeChunk()) return false;
    madvise(RecordsOf(free_.back()), kChunkBytes, MADV_DONTNEED);
    free_.pop_back();
    ++given_back_;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void History::AddLoss(const Loss& loss) noexcept {
  const base::MutexLock lock(&mutex_);
  try {
    Remember(loss);
  } catch (const std::bad_alloc&) {
    // Later losses will show it.
  }
}

std::vector<Loss>& History::LossesOf(uint32_t device, const char* reason) {
  for (std::vector<Loss>& losses : losses_) {
    if (losses.front().device == device && std::strcmp(losses.front().reason, reason) == 0) return losses;
  }
  std::vector<Loss> losses;
  losses.reserve(kLossesKept + 1);
  losses_.push_back(std::move(losses));
  return losses_.back();
}

// Notes a loss by device and reason. These are few, so alternating losses need no more room than others. If there are
// too many of a kind, the oldest two become one, with the time between them: rather too much is taken for lost than too
// little.
void History::Remember(const Loss& loss) {
  std::vector<Loss>& losses = LossesOf(loss.device, loss.reason);
  const bool is_near = !losses.empty() && GapNs(losses.back(), loss) < kNearNs;
  if (is_near && (loss.records <= 1 || SpanNs(losses.back(), loss) <= kJoinedNs)) return Join(loss, &losses.back());
  losses.push_back(loss);
  if (losses.size() <= kLossesKept) return;
  Join(losses[0], &losses[1]);
  losses.erase(losses.begin());
}

void History::Pin(int64_t begin_ns, Pinned* out) {
  out->Release();
  const base::MutexLock lock(&mutex_);
  struct Candidate {
    uint32_t age, chunk, device;
  };
  size_t pinned = 0;
  for (const Chunk& chunk : chunks_) pinned += chunk.pins != 0;
  // The newest of each device come first, so that a busy one does not take the room of a quiet one.
  std::vector<Candidate> wanted;
  for (const Lane& lane : lanes_) {
    uint32_t age = 0;
    for (auto chunk = lane.chunks.rbegin(); chunk != lane.chunks.rend(); ++chunk, ++age) {
      if (chunks_[*chunk].end_ns >= begin_ns) wanted.push_back({age, *chunk, lane.device});
    }
  }
  std::stable_sort(wanted.begin(), wanted.end(), [](auto& a, auto& b) { return a.age < b.age; });
  const size_t room = (chunks_.size() - given_back_) * 3 / 4;
  out->parts_.reserve(wanted.size());
  size_t most_losses = wanted.size();
  for (const std::vector<Loss>& losses : losses_) most_losses += losses.size();
  out->losses_.reserve(most_losses);
  for (const std::vector<Loss>& losses : losses_) {
    for (const Loss& loss : losses) {
      if (loss.end_ns >= begin_ns) out->losses_.push_back(loss);
    }
  }
  for (const Candidate& candidate : wanted) {
    Chunk& chunk = chunks_[candidate.chunk];
    if (pinned >= room && chunk.pins == 0) {
      out->losses_.push_back({chunk.begin_ns, chunk.end_ns, candidate.device, "no room to keep it", chunk.count});
      continue;
    }
    pinned += chunk.pins++ == 0;
    out->parts_.push_back({RecordsOf(candidate.chunk), chunk.count, candidate.chunk});
  }
  for (Loss& loss : out->losses_) {
    const uint64_t before_ns = static_cast<uint64_t>(begin_ns) - static_cast<uint64_t>(loss.begin_ns);
    if (loss.begin_ns < begin_ns && before_ns > kNearNs) loss.records = 0;  // it is unknown how many are in the window
    loss.begin_ns = std::max(loss.begin_ns, begin_ns);
  }
  std::stable_sort(out->losses_.begin(), out->losses_.end(), [](auto& a, auto& b) { return a.begin_ns < b.begin_ns; });
  JoinNeighbours(&out->losses_);
  out->history_ = this;
  out->begin_ns_ = begin_ns;
}

void History::Pinned::Release() noexcept {
  if (history_ == nullptr) return;
  const base::MutexLock lock(&history_->mutex_);
  for (const Part& part : parts_) --history_->chunks_[part.chunk].pins;
  parts_.clear();
  losses_.clear();
  history_ = nullptr;
}

uint64_t History::records() const {
  const base::MutexLock lock(&mutex_);
  uint64_t count = 0;
  for (const Lane& lane : lanes_) {
    for (const uint32_t chunk : lane.chunks) count += chunks_[chunk].count;
  }
  return count;
}

}  // namespace pitot::cupti
