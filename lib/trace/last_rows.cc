// SPDX-License-Identifier: Apache-2.0
#include "trace/last_rows.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/mutex.h"
#include "trace/parent_only.h"

namespace pitot::trace {
namespace {

constexpr size_t kMostTextBytes = 512;
constexpr uint64_t kDepthBytes = kBoxPage;  // the newest 169 changes

// Writes the rows of one kind. Threads: one at a time.
template <class Row> class Ring {
 public:
  void Begin(void* at, uint64_t bytes, uint64_t offset, BoxRowsPart* part) noexcept {
    part->room = {offset, bytes};
    slots_ = static_cast<LastSlot<Row>*>(at);
    count_ = bytes / sizeof(LastSlot<Row>);
    part_ = part;
  }
  void End() noexcept { count_ = 0; }
  // A process that ends meanwhile leaves a row without a number.
  void Add(const Row& row) noexcept {
    if (count_ == 0) return;
    const uint64_t number = part_->written.load(std::memory_order_relaxed) + 1;
    LastSlot<Row>& slot = slots_[(number - 1) % count_];
    static_cast<void>(slot.number.exchange(0, std::memory_order_acq_rel));
    std::memcpy(&slot.row, &row, sizeof row);
    slot.number.store(number, std::memory_order_release);
    part_->written.store(number, std::memory_order_release);
  }

 private:
  LastSlot<Row>* slots_ = nullptr;
  uint64_t count_ = 0;  // 0: there is no black box
  BoxRowsPart* part_ = nullptr;
};

constinit base::Mutex g_mutex;
constinit std::atomic<bool> g_are_kept{false};
Ring<LastWork> g_work PITOT_GUARDED_BY(g_mutex);
Ring<LastValue> g_values PITOT_GUARDED_BY(g_mutex);
Ring<LastDepth> g_depths PITOT_GUARDED_BY(g_mutex);
BoxLog g_texts PITOT_GUARDED_BY(g_mutex);
uint32_t g_text_count PITOT_GUARDED_BY(g_mutex) = 0;
constinit base::Mutex g_sampler_mutex;  // held while it is called
LastSampler* g_sampler PITOT_GUARDED_BY(g_sampler_mutex) = nullptr;

void End() noexcept PITOT_REQUIRES(g_mutex) {
  g_are_kept.store(false);
  g_work.End();
  g_values.End();
  g_depths.End();
  g_texts.End();
  g_text_count = 0;
}

}  // namespace

bool WriteLastRowsTo(Box* box, uint64_t bytes) noexcept {
  const base::MutexLock lock(&g_mutex);
  End();
  if (box == nullptr) return true;
  // In whole pages.
  const uint64_t of_texts = std::max(bytes / 8 / kBoxPage * kBoxPage, BoxLog::kLeastRoom);
  const uint64_t of_rows = bytes - std::min(bytes, of_texts), of_values = of_rows / 4 / kBoxPage * kBoxPage;
  const uint64_t of_all = of_rows / kBoxPage * kBoxPage, of_work = of_all - of_values - kDepthBytes;
  BoxHeader* const header = box->header();
  BoxPart rows;
  char* const at = static_cast<char*>(of_values != 0 ? box->TakePart(of_all, of_all, &rows) : nullptr);
  if (at == nullptr || !g_texts.Begin(box, of_texts, &header->last_texts)) {
    End();
    return false;
  }
  g_work.Begin(at, of_work, rows.offset, &header->last_work);
  g_values.Begin(at + of_work, of_values, rows.offset + of_work, &header->last_values);
  g_depths.Begin(at + of_all - kDepthBytes, kDepthBytes, rows.offset + of_all - kDepthBytes, &header->last_depths);
  g_are_kept.store(true);
  return true;
}

bool AreLastRowsKept() noexcept { return g_are_kept.load(std::memory_order_relaxed) && !IsUntoldChild(); }

uint32_t LastText(std::string_view text) noexcept {
  if (!AreLastRowsKept()) return 0;
  const base::MutexLock lock(&g_mutex);
  if (!g_texts.IsOpen()) return 0;
  g_texts.Add(text.data(), static_cast<uint32_t>(text.substr(0, kMostTextBytes).size()));
  return g_texts.IsOpen() ? ++g_text_count : 0;
}

void AddLast(std::span<const LastWork> rows) noexcept {
  if (!AreLastRowsKept()) return;
  const base::MutexLock lock(&g_mutex);
  for (const LastWork& row : rows) g_work.Add(row);
}

void AddLast(const LastValue& value) noexcept {
  if (!AreLastRowsKept()) return;
  const base::MutexLock lock(&g_mutex);
  g_values.Add(value);
}

void AddLast(const LastDepth& depth) noexcept {
  if (!AreLastRowsKept()) return;
  const base::MutexLock lock(&g_mutex);
  g_depths.Add(depth);
}

void SetLastSampler(LastSampler* sampler) noexcept {
  const base::MutexLock lock(&g_sampler_mutex);
  g_sampler = sampler;
}

void SampleLast(int64_t now_ns) noexcept {
  const base::MutexLock lock(&g_sampler_mutex);
  if (g_sampler != nullptr && AreLastRowsKept()) g_sampler->SampleLast(now_ns);
}

void ResetLastRowsAfterFork() noexcept {
  new (&g_sampler_mutex) base::Mutex;
  SetLastSampler(nullptr);
  new (&g_mutex) base::Mutex;
  const base::MutexLock lock(&g_mutex);
  End();
}

}  // namespace pitot::trace
