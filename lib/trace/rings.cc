// SPDX-License-Identifier: Apache-2.0
#include "trace/rings.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/mutex.h"
#include "trace/box.h"
#include "trace/bus_guard.h"
#include "trace/clock.h"
#include "trace/internal_sites.h"
#include "trace/manual.h"
#include "trace/mirror.h"
#include "trace/parent_only.h"
#include "trace/process.h"
#include "trace/usage.h"

namespace pitot::trace {

__thread Step t_step __attribute__((tls_model("initial-exec"))) = {};

namespace {

constexpr uint64_t kHeaderBytes = 4096;
static_assert(sizeof(ThreadRing) <= kHeaderBytes);
// How many rings of a size must remain possible; otherwise a thread gets a smaller one.
constexpr uint64_t kRoomForMore = 12;
// The part of the budget reserved for the smallest rings. In a server of many threads all are then recorded, if only
// briefly. By default 2,000 threads.
constexpr uint64_t kPartForSmallest = 2;

// Rings from this size on get address space to grow. Smaller ones exist only when the budget has no more for any.
constexpr uint64_t kLeastThatGrows = 64 << 10;
// Apart from the part for the smallest, one ring may take two thirds of what is left. The next finds the rest.
constexpr uint64_t kThirdsForGrowth = 2;

// What only this process needs of a ring: in memory that a child has, too. Entries are reused and never unmapped.
struct RingEntry {
  ThreadRing* ring;
  RingEntry* next;          // in the registry, or the next free entry
  RingEntry* next_retired;  // the one retired after this one
  char* memory;             // the whole mapping
  uint64_t mapped_bytes;
  uint64_t bytes;       // of the words, with those offered
  uint64_t room_bytes;  // for the words at most
  uint64_t box_offset;  // of the ring's page in the black box; 0: its memory is private
  uint32_t pins;        // snapshots that read it; it is not recycled meanwhile
  bool is_linked;       // readers of the black box find it
};

RingEntry* EntryOf(const ThreadRing* ring) { return static_cast<RingEntry*>(ring->entry); }

// In the black box the page of a ring, and its words after it, are the file's. The page before is the process's, and
// ends with the ring's first line.
constexpr uint64_t kOwnLineBytes = offsetof(detail::Ring, head);
static_assert(sizeof(ThreadRing) - kOwnLineBytes <= kBoxPage);

// The target of t_ring before a thread's first event. Its gate never equals that of a recorder.
constinit detail::Ring g_no_ring{};

constinit base::Mutex g_rings_mutex;
constinit RingEntry* g_rings PITOT_GUARDED_BY(g_rings_mutex) = nullptr;
constinit RingEntry* g_free_entries PITOT_GUARDED_BY(g_rings_mutex) = nullptr;
constinit RingEntry* g_oldest_retired PITOT_GUARDED_BY(g_rings_mutex) = nullptr;  // from here by next_retired
constinit RingEntry* g_newest_retired PITOT_GUARDED_BY(g_rings_mutex) = nullptr;
constinit Box* g_box PITOT_GUARDED_BY(g_rings_mutex) = nullptr;  // where new rings lie; null: in private memory
constinit RingLimits g_limits PITOT_GUARDED_BY(g_rings_mutex);
constinit uint64_t g_bytes_used PITOT_GUARDED_BY(g_rings_mutex) = 0;
constinit uint64_t g_bytes_parked PITOT_GUARDED_BY(g_rings_mutex) = 0;
constinit uint32_t g_next_number PITOT_GUARDED_BY(g_rings_mutex) = 1;
constinit uint64_t g_searches PITOT_GUARDED_BY(g_rings_mutex) = 0;
constinit uint64_t g_rings_recycled PITOT_GUARDED_BY(g_rings_mutex) = 0;
constinit uint64_t g_events_recycled PITOT_GUARDED_BY(g_rings_mutex) = 0;
constinit uint64_t g_former_events PITOT_GUARDED_BY(g_rings_mutex) = 0;  // by threads whose rings others have
constinit uint64_t g_recycled_exit_ticks PITOT_GUARDED_BY(g_rings_mutex) = 0;
// The n-th at n modulo the array's size.
constinit RecycledRing g_recycled[kMaxRecycledKept] PITOT_GUARDED_BY(g_rings_mutex);
constinit uint32_t g_generation PITOT_GUARDED_BY(g_rings_mutex) = 0;
constinit uint32_t g_offers PITOT_GUARDED_BY(g_rings_mutex) = 0;  // modulo what the gate has room for
constinit bool g_has_key PITOT_GUARDED_BY(g_rings_mutex) = false;
constinit pthread_key_t g_key PITOT_GUARDED_BY(g_rings_mutex) = 0;

constinit std::atomic<void (*)() noexcept> g_at_attach{nullptr};
constinit std::atomic<uint64_t> g_threads_refused{0};
constinit std::atomic<uint64_t> g_events_refused{0};
constinit std::atomic<uint64_t> g_begins_refused{0};
constinit std::atomic<uint64_t> g_closed_elsewhere{0};
constinit std::atomic<uint64_t> g_misnested{0};
constinit std::atomic<uint32_t> g_given_back{1};  // grows when a ring may have become free

__thread uint32_t t_refused_gate __attribute__((tls_model("initial-exec"))) = 0;
__thread uint32_t t_refused_at __attribute__((tls_model("initial-exec"))) = 0;  // g_given_back at that time
__thread bool t_exiting __attribute__((tls_model("initial-exec"))) = false;
__thread char t_name[kThreadNameBytes] __attribute__((tls_model("initial-exec"))) = {};

int64_t ThreadId() { return static_cast<int64_t>(syscall(SYS_gettid)); }

void StoreName(ThreadRing* ring, const char* name) {
  uint64_t words[kThreadNameBytes / 8] = {};
  std::memcpy(words, name, std::min<size_t>(std::strlen(name), kThreadNameBytes - 1));
  for (uint32_t i = 0; i < kThreadNameBytes / 8; ++i) ring->name[i].store(words[i], std::memory_order_relaxed);
}

void StoreSystemName(ThreadRing* ring) {
  char name[16] = {};
  if (pthread_getname_np(pthread_self(), name, sizeof name) == 0) StoreName(ring, name);
}

RingEntry* TakeEntry() PITOT_REQUIRES(g_rings_mutex) {
  if (g_free_entries == nullptr) {
    constexpr uint64_t kBytes = 4096;
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    auto* const entries = static_cast<RingEntry*>(memory);
    for (size_t i = 0; i < kBytes / sizeof(RingEntry); ++i)
      entries[i].next = g_free_entries, g_free_entries = &entries[i];
  }
  RingEntry* const entry = g_free_entries;
  g_free_entries = entry->next;
  *entry = {};
  return entry;
}

void FreeEntry(RingEntry* entry) PITOT_REQUIRES(g_rings_mutex) {
  entry->next = g_free_entries;
  g_free_entries = entry;
}

// Memory for a ring of `bytes`, and address space for `room_bytes`. Null: the system has none.
char* MapBytes(uint64_t bytes, uint64_t room_bytes) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
  const bool grows = room_bytes > bytes;
  void* memory = mmap(nullptr, kHeaderBytes + room_bytes, grows ? PROT_NONE : PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (!grows || mprotect(memory, kHeaderBytes + bytes, PROT_READ | PROT_WRITE) == 0) return static_cast<char*>(memory);
  munmap(memory, kHeaderBytes + room_bytes);
  return nullptr;
}

bool MapPrivate(uint64_t bytes, uint64_t room_bytes, RingEntry* entry) {
  entry->memory = MapBytes(bytes, room_bytes);
  if (entry->memory == nullptr && room_bytes > bytes)  // little address space
    entry->memory = MapBytes(bytes, room_bytes = bytes);
  if (entry->memory == nullptr) return false;
  entry->mapped_bytes = kHeaderBytes + room_bytes;
  entry->room_bytes = room_bytes;
  entry->ring = new (entry->memory) ThreadRing{};
  entry->ring->words = reinterpret_cast<uint64_t*>(entry->memory + kHeaderBytes);
  return true;
}

// The process's page, then those of the file. False: nothing is left of it.
bool MapInBox(uint64_t bytes, uint64_t room_bytes, RingEntry* entry) PITOT_REQUIRES(g_rings_mutex) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
  const uint64_t mapped_bytes = 2 * kBoxPage + room_bytes;
  void* const memory = mmap(nullptr, mapped_bytes, PROT_NONE, kFlags, -1, 0);
  if (memory == MAP_FAILED) return false;
  char* const own = static_cast<char*>(memory);
  char* const page = own + kBoxPage;
  uint64_t offset = 0;
  const bool is_mapped = mprotect(own, kBoxPage, PROT_READ | PROT_WRITE) == 0 && WipeOnFork(own, kBoxPage) &&
                         GuardRange(page, mapped_bytes - kBoxPage) &&
                         g_box->Take(kBoxPage + bytes, kBoxPage + room_bytes, &offset) &&
                         g_box->MapAt(page, offset, kBoxPage + bytes);
  if (!is_mapped) {
    UnguardRange(page);
    munmap(memory, mapped_bytes);
    return false;
  }
  entry->memory = own;
  entry->mapped_bytes = mapped_bytes;
  entry->room_bytes = room_bytes;
  entry->box_offset = offset;
  entry->ring = new (page - kOwnLineBytes) ThreadRing{};
  entry->ring->words = reinterpret_cast<uint64_t*>(page + kBoxPage);
  return true;
}

// Gives a ring that nobody reads this size.
void SetSize(RingEntry* entry, uint64_t bytes) {
  ThreadRing* const ring = entry->ring;
  entry->bytes = bytes;
  ring->mask = bytes / 8 - 1;
  ring->shape.store(RingShape::Of(bytes / 8).bits(), std::memory_order_relaxed);
  ring->offer.store(bytes / 8, std::memory_order_relaxed);
}

// The address space for a ring that begins with `bytes`.
uint64_t RoomFor(uint64_t bytes) PITOT_REQUIRES(g_rings_mutex) {
  return bytes >= kLeastThatGrows ? std::max(bytes, g_limits.max_grown_bytes) : bytes;
}

// What a ring takes apart from its words.
uint64_t HeaderBytes(const RingEntry& entry) { return entry.box_offset != 0 ? 2 * kBoxPage : kHeaderBytes; }

RingEntry* Map(uint64_t bytes) PITOT_REQUIRES(g_rings_mutex) {
  RingEntry* const entry = TakeEntry();
  if (entry == nullptr) return nullptr;
  const uint64_t room_bytes = RoomFor(bytes);
  const bool is_in_box = g_box != nullptr && MapInBox(bytes, room_bytes, entry);
  if (!is_in_box && !MapPrivate(bytes, room_bytes, entry)) {
    FreeEntry(entry);
    return nullptr;
  }
  entry->ring->entry = entry;
  SetSize(entry, bytes);
  entry->next = g_rings;
  g_rings = entry;
  return entry;
}

// Others find it from here on. After everything that a reader needs to know of it.
void LinkInBox(RingEntry* entry) PITOT_REQUIRES(g_rings_mutex) {
  BoxHeader* const header = g_box->header();
  for (std::atomic<uint32_t>& page : header->ring_pages) {
    if (page.load(std::memory_order_relaxed) != 0) continue;
    page.store(static_cast<uint32_t>(entry->box_offset / kBoxPage), std::memory_order_release);
    break;
  }
  std::atomic<uint64_t>& newest = header->newest_ring;
  entry->ring->box_next = newest.load(std::memory_order_relaxed);
  newest.store(entry->box_offset, std::memory_order_release);
  entry->is_linked = true;
}

// Private, empty memory comes in the place of the file's. The thread may be in the middle of a write: it finds its ring
// as after Dress, and what it was writing is lost.
void LeaveBox(RingEntry* entry) PITOT_REQUIRES(g_rings_mutex) {
  char* const page = entry->memory + kBoxPage;
  static_cast<void>(
      mmap(page, kBoxPage + entry->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
  UnguardRange(page);
  entry->box_offset = 0;
}

void Unmap(RingEntry* entry) PITOT_REQUIRES(g_rings_mutex) {
  for (RingEntry** link = &g_rings; *link != nullptr; link = &(*link)->next) {
    if (*link != entry) continue;
    *link = entry->next;
    break;
  }
  if (entry->box_offset != 0) UnguardRange(entry->memory + kBoxPage);
  munmap(entry->memory, entry->mapped_bytes);
  FreeEntry(entry);
}

uint64_t LeftBytes() PITOT_REQUIRES(g_rings_mutex) {
  return g_limits.budget_bytes > g_bytes_used ? g_limits.budget_bytes - g_bytes_used : 0;
}

// The size of a new ring while `left` bytes are unspent; 0: no ring.
uint64_t WantedBytes(uint64_t left) PITOT_REQUIRES(g_rings_mutex) {
  const uint64_t for_smallest = g_limits.budget_bytes / kPartForSmallest;
  uint64_t bytes = g_limits.max_bytes;
  while (bytes > g_limits.min_bytes && bytes * kRoomForMore + for_smallest > left) bytes /= 2;
  return (g_box != nullptr ? 2 * kBoxPage : kHeaderBytes) + bytes <= left ? bytes : 0;
}

void Retire(RingEntry* entry) PITOT_REQUIRES(g_rings_mutex) {
  ThreadRing* const ring = entry->ring;
  ring->exit_ticks = detail::Clock(ring->gate);
  ring->state = RingState::kRetired;  // last: a snapshot that sees this also sees the exit time
  entry->next_retired = nullptr;
  (g_newest_retired != nullptr ? g_newest_retired->next_retired : g_oldest_retired) = entry;
  g_newest_retired = entry;
}

// Takes the ring of the thread that exited first, among those without readers that suit. Looks at some only.
template <class Suits> RingEntry* TakeRetired(const Suits& suits) PITOT_REQUIRES(g_rings_mutex) {
  constexpr int kMostLooks = 16;
  int looks = 0;
  RingEntry *before = nullptr, *entry = g_oldest_retired;
  while (entry != nullptr && (entry->pins != 0 || !suits(*entry))) {
    if (entry->pins == 0 && ++looks == kMostLooks) return nullptr;
    before = entry, entry = entry->next_retired;
  }
  if (entry == nullptr) return nullptr;
  (before != nullptr ? before->next_retired : g_oldest_retired) = entry->next_retired;
  if (g_newest_retired == entry) g_newest_retired = before;
  return entry;
}

// Until the ring has a number again, a reader of the black box finds no thread in it, apart from former ones. An
// exchange: nothing below comes before.
void TakeFromThread(ThreadRing* ring) { static_cast<void>(ring->number.exchange(0, std::memory_order_acq_rel)); }

// Leaves a retired ring to its next thread without its records. Their loss is recorded.
void Recycle(ThreadRing* ring) PITOT_REQUIRES(g_rings_mutex) {
  RecycledRing& lost = g_recycled[g_rings_recycled++ % kMaxRecycledKept];
  lost = {ring->number, ring->tid, ring->events, ring->attach_ticks, ring->exit_ticks, {}};
  CopyThreadName(*ring, lost.name);
  lost.had_former_threads = ring->former_threads != 0;
  g_events_recycled += ring->events;
  g_recycled_exit_ticks = std::max(g_recycled_exit_ticks, ring->exit_ticks);
  TakeFromThread(ring);
  ring->former_threads = 0;
}

// Leaves a retired ring to its next thread with its records. That one's follow, and overwrite the oldest first.
void HandOn(ThreadRing* ring) {
  RecordWords words;
  for (const uint64_t word : {ring->number | static_cast<uint64_t>(ring->tid) << 32, ring->events,
                              ring->misnested.load(std::memory_order_relaxed), ring->request, ring->batch})
    words.Add(word);
  for (const std::atomic<uint64_t>& part : ring->name) {
    const uint64_t word = part.load(std::memory_order_relaxed);
    if (word == 0) break;
    words.Add(word);
  }
  detail::Append(ring, &kThreadEndSite, ring->attach_ticks, ring->exit_ticks, words);
  ring->former_threads.store(ring->former_threads + 1, std::memory_order_release);  // not before the record is there
}

// Not if the thread exited inside a scope, because nothing tells when that ended.
bool MayBeHandedOn(const RingEntry& entry) { return entry.ring->depth == 0; }
bool IsHalfEmpty(const ThreadRing& ring) { return (ring.head - ring.first_word) * 2 <= ring.mask + 1; }

bool AnyPinned() PITOT_REQUIRES(g_rings_mutex) {
  for (const RingEntry* entry = g_rings; entry != nullptr; entry = entry->next) {
    if (entry->pins != 0) return true;
  }
  return false;
}

// Returns a ring for a new thread: one that an exited thread left half empty; otherwise a fresh one; but that of the
// thread that exited first if only small ones are left. So those stay for many threads that live.
RingEntry* TakeRing() PITOT_REQUIRES(g_rings_mutex) {
  ++g_searches;
  const uint64_t wanted = WantedBytes(LeftBytes());
  RingEntry* entry = TakeRetired([wanted](const RingEntry& left) {
    return MayBeHandedOn(left) && left.bytes >= wanted && IsHalfEmpty(*left.ring);
  });
  const bool is_scarce = wanted < std::min(kLeastThatGrows, g_limits.max_bytes);
  if (entry == nullptr && is_scarce) entry = TakeRetired(MayBeHandedOn);
  if (entry == nullptr && wanted != 0 && (entry = Map(wanted)) != nullptr) {
    g_bytes_used += HeaderBytes(*entry) + wanted;
    return entry;
  }
  if (entry == nullptr) entry = TakeRetired([](const RingEntry&) { return true; });
  if (entry == nullptr) return nullptr;
  g_former_events += entry->ring->events;
  MayBeHandedOn(*entry) ? HandOn(entry->ring) : Recycle(entry->ring);
  return entry;
}

// Returns this thread's ring of a former recorder if it still fits, without what it had grown, otherwise unmaps it.
// Safe: its only writer is this thread.
RingEntry* TakeParked(RingEntry* own) PITOT_REQUIRES(g_rings_mutex) {
  g_bytes_parked -= own->bytes;
  const uint64_t bytes = std::min(own->bytes, g_limits.max_bytes);
  const bool fits = bytes >= g_limits.min_bytes && own->room_bytes >= RoomFor(bytes);
  if (g_box == nullptr && fits && HeaderBytes(*own) + bytes <= LeftBytes()) {
    SetSize(own, bytes);
    own->ring->former_threads = 0;
    g_bytes_used += HeaderBytes(*own) + bytes;
    return own;
  }
  Unmap(own);
  return nullptr;
}

// On the ring's thread, between two records: words from here on lie by the size it was offered. An offer may be lost
// with its page of the black box.
void TakeOffer(ThreadRing* ring) {
  const uint64_t words = ring->offer.load(std::memory_order_acquire);
  if (words <= ring->mask + 1 || !std::has_single_bit(words) || words > EntryOf(ring)->room_bytes / 8) return;
  // Before the first such word: a reader of a head beyond it sees the new shape.
  const RingShape former(ring->shape.load(std::memory_order_relaxed));
  ring->shape.store(former.ChangedAt(ring->head, words).bits(), std::memory_order_release);
  ring->mask = words - 1;
}

void Dress(ThreadRing* ring, uint32_t gate) PITOT_REQUIRES(g_rings_mutex) {
  TakeFromThread(ring);
  for (detail::OpenScope& open : ring->open) __atomic_store_n(&open.begin, 0, __ATOMIC_RELAXED);
  TakeOffer(ring);
  if (ring->former_threads == 0) ring->first_word = ring->head;
  ring->floor = ring->head;
  ring->events = 0;
  ring->depth = 0;
  ring->request = ring->batch = 0;
  ring->begun = 0;
  ring->ranges_open = ring->gaps = 0;
  ring->usage_due = 0;
  ring->step_begin.store(0, std::memory_order_relaxed);
  ring->schedstat.store(0);
  ring->begun_unrecorded = 0;
  std::memset(ring->ranges_unrecorded, 0, sizeof ring->ranges_unrecorded);
  ring->misnested.store(0, std::memory_order_relaxed);
  ring->state = RingState::kLive;
  ring->tid = ThreadId();
  ring->attach_ticks = detail::Clock(gate);
  ring->named = t_name[0] != '\0';
  if (ring->named)
    StoreName(ring, t_name);
  else
    StoreSystemName(ring);
  ring->gate = gate;
  ring->number.store(g_next_number++, std::memory_order_release);
}

ThreadRing* AttachLocked(uint32_t gate) PITOT_REQUIRES(g_rings_mutex) {
  RingEntry* entry = nullptr;
  if (detail::t_ring != &g_no_ring) {
    entry = TakeParked(EntryOf(static_cast<ThreadRing*>(detail::t_ring)));
    detail::t_ring = &g_no_ring;
  }
  if (entry == nullptr) entry = TakeRing();
  if (entry == nullptr) return nullptr;
  Dress(entry->ring, gate);
  if (entry->box_offset != 0 && !entry->is_linked) LinkInBox(entry);
  return entry->ring;
}

void DetachLocked(ThreadRing* ring) PITOT_REQUIRES(g_rings_mutex) {
  RingEntry* const entry = EntryOf(ring);
  if (ring->state == RingState::kParked) {
    g_bytes_parked -= entry->bytes;
    Unmap(entry);
    return;
  }
  if (!ring->named) StoreSystemName(ring);  // it may have been named after its first event
  Retire(entry);
  g_given_back.fetch_add(1, std::memory_order_relaxed);
}

// Reads of the clock go out of line while it is the system's, or for a mirror.
bool IsClockSlow() PITOT_REQUIRES(g_rings_mutex) {
  bool is_slow = g_is_os_clock.load(std::memory_order_relaxed);
  for (const MirrorSlot& slot : g_mirrors) is_slow |= slot.is_on.load(std::memory_order_relaxed);
  return is_slow;
}

// Every thread notices at its next event.
void SetGate() PITOT_REQUIRES(g_rings_mutex) {
  const uint32_t gate = g_offers << kOffersShift | g_generation << 1 | (IsClockSlow() ? 0 : detail::kFastClock);
  __atomic_store_n(&detail::g_gate, gate, __ATOMIC_RELEASE);
}

void OnThreadExit(void*) {
  // Runs after the thread's C++ destructors. Later events find no ring and are counted.
  t_exiting = true;
  if (IsUntoldChild()) return BecomeChild();  // the ring is its parent's
  auto* ring = static_cast<ThreadRing*>(detail::t_ring);
  detail::t_ring = &g_no_ring;
  if (ring == &g_no_ring) return;
  const base::MutexLock lock(&g_rings_mutex);
  DetachLocked(ring);
}

}  // namespace

bool OpenRings(const RingLimits& limits, bool slow_clock, Box* box) noexcept {
  const base::MutexLock lock(&g_rings_mutex);
  if (!g_has_key) g_has_key = pthread_key_create(&g_key, OnThreadExit) == 0;
  if (!g_has_key) return false;
  g_limits = limits;
  g_box = box;
  g_bytes_used = 0;
  g_searches = g_rings_recycled = g_events_recycled = g_former_events = g_recycled_exit_ticks = 0;
  g_next_number = 1;
  for (auto* counter : {&g_threads_refused, &g_events_refused, &g_begins_refused, &g_closed_elsewhere, &g_misnested})
    counter->store(0, std::memory_order_relaxed);
  constexpr uint32_t kLastGeneration = kRecorderMask >> 1;
  g_generation = g_generation % kLastGeneration + 1;
  g_is_os_clock.store(slow_clock, std::memory_order_relaxed);
  for (MirrorSlot& slot : g_mirrors) slot.is_on.store(false, std::memory_order_relaxed);
  SetGate();
  return true;
}

void SetMirror(MirrorUse use, const Mirror* mirror) noexcept {
  const base::MutexLock lock(&g_rings_mutex);
  MirrorSlot& changed = g_mirrors[static_cast<size_t>(use)];
  if (mirror != nullptr) changed.mirror.store(mirror, std::memory_order_release);
  changed.is_on.store(mirror != nullptr, std::memory_order_relaxed);
  if (__atomic_load_n(&detail::g_gate, __ATOMIC_RELAXED) != 0) SetGate();
}

void CloseGate() noexcept {
  const base::MutexLock lock(&g_rings_mutex);
  __atomic_store_n(&detail::g_gate, 0, __ATOMIC_RELEASE);
}

bool CloseRings(int64_t patience_ns) noexcept {
  CloseGate();
  base::MutexLock lock(&g_rings_mutex);
  const int64_t begin_ns = MonotonicNs();
  while (AnyPinned()) {  // someone is reading Stats just now
    if (MonotonicNs() - begin_ns > patience_ns) return false;
    lock.Unlock();
    sched_yield();
    lock.Lock();
  }
  for (RingEntry *entry = g_rings, *next; entry != nullptr; entry = next) {
    next = entry->next;
    ThreadRing* const ring = entry->ring;
    if (ring->state == RingState::kRetired) {
      Unmap(entry);
    } else if (ring->state == RingState::kLive) {
      if (entry->box_offset != 0) LeaveBox(entry);
      ring->state = RingState::kParked;
      g_bytes_parked += entry->bytes;
      madvise(ring->words, entry->bytes, MADV_DONTNEED);
    }
  }
  g_oldest_retired = g_newest_retired = nullptr;
  g_box = nullptr;
  g_bytes_used = 0;
  g_is_os_clock.store(true, std::memory_order_relaxed);
  return true;
}

void ForgetRingsAfterFork() noexcept {
  new (&g_rings_mutex) base::Mutex;
  const base::MutexLock lock(&g_rings_mutex);
  for (const RingEntry* entry = g_rings; entry != nullptr; entry = entry->next)
    munmap(entry->memory, entry->mapped_bytes);
  g_rings = g_free_entries = g_oldest_retired = g_newest_retired = nullptr;
  g_box = nullptr;
  g_bytes_used = g_bytes_parked = 0;
  g_is_os_clock.store(true, std::memory_order_relaxed);
  SetUsageReader(nullptr);
  detail::t_ring = &g_no_ring;
  if (g_has_key) pthread_setspecific(g_key, nullptr);
}

void LeaveParentsBox() noexcept {
  // For one thread: the others do not exist here.
  static uint64_t words[detail::kMaxRecordWords];
  detail::Ring* const ring = detail::t_ring;
  if (ring == &g_no_ring || ring->words != nullptr) return;
  char* const page = reinterpret_cast<char*>(ring) + kOwnLineBytes;
  static_cast<void>(mmap(page, kBoxPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
  ring->words = words;
  ring->mask = std::size(words) - 1;
}

void CloseOutOfOrder(detail::Ring* ring, uint32_t depth) noexcept {
  const bool had_holes = (ring->depth & kHoles) != 0;
  uint32_t open = ring->depth & ~kHoles;
  if (!had_holes && depth >= open) {  // opened under a former recorder: the stack has begun anew since
    g_misnested.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (open > 0) --open;
  auto* thread = static_cast<ThreadRing*>(ring);
  open -= std::min<uint32_t>(open, thread->gaps);
  thread->gaps = 0;
  if (depth < detail::kMaxOpen) __atomic_store_n(&ring->open[depth].begin, 0, __ATOMIC_RELEASE);
  uint32_t shown = 0, top = 0;
  for (uint32_t i = 0; i < detail::kMaxOpen; ++i) {
    if (ring->open[i].begin != 0) ++shown, top = i + 1;
  }
  if (depth < top) {
    g_misnested.fetch_add(1, std::memory_order_relaxed);
    thread->misnested.store(thread->misnested.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  ring->depth = shown == open && shown == top ? open : open | kHoles;
}

namespace {

bool HasOffer(const ThreadRing& ring) { return ring.offer.load() > ShapeOf(ring).words(); }

// How large the ring may become now; its present size: it may not grow. It has to turn between two changes: a reader
// knows two sizes.
uint64_t GrownBytes(const RingEntry& entry, uint64_t wanted) PITOT_REQUIRES(g_rings_mutex) {
  const ThreadRing& ring = *entry.ring;
  const uint64_t head = __atomic_load_n(&ring.head, __ATOMIC_ACQUIRE);
  if (HasOffer(ring) || !ShapeOf(ring).HasTurnedAt(head)) return entry.bytes;
  const uint64_t left = LeftBytes(), for_smallest = g_limits.budget_bytes / kPartForSmallest;
  const uint64_t spare = left > for_smallest ? (left - for_smallest) / 3 * kThirdsForGrowth : 0;
  uint64_t bytes = std::min({wanted, g_limits.max_grown_bytes, entry.room_bytes});
  while (bytes > entry.bytes + spare) bytes /= 2;
  return std::max(bytes, entry.bytes);
}

void Touch(char* first, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kBoxPage) __atomic_store_n(first + at, 0, __ATOMIC_RELAXED);
}

// Makes memory of address space. False if the system has none. In parts: other threads' mmap, munmap and thread starts
// wait for the part in progress (16 MiB at once: 2.4 ms, 128 KiB: no more than without).
bool Populate(char* first, uint64_t bytes) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE: Linux 5.14
  constexpr uint64_t kPart = 128 << 10;
  if (mprotect(first, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  uint64_t done = 0;
  while (done < bytes && madvise(first + done, std::min(kPart, bytes - done), kPopulateWrite) == 0) done += kPart;
  if (done >= bytes) return true;
  if (errno != EINVAL) return false;
  Touch(first, bytes);
  return true;
}

// A ring that grows: pinned, with its new bytes in the budget. Its thread does not touch the new pages yet.
struct Growth {
  RingEntry* entry;
  uint64_t before, bytes;
  bool has_memory;
  char* first() const { return reinterpret_cast<char*>(entry->ring->words) + before; }
};

// Where the new words of a ring in the black box lie in the file.
uint64_t BoxOffset(const Growth& growth) { return growth.entry->box_offset + kBoxPage + growth.before; }

bool MakeMemory(const Growth& growth, Box* box) {
  const uint64_t added = growth.bytes - growth.before;
  if (growth.entry->box_offset == 0) return Populate(growth.first(), added);
  if (!box->Allocate(BoxOffset(growth), added) || !box->MapAt(growth.first(), BoxOffset(growth), added)) return false;
  // Not by madvise: if the disk cannot read a page, it tries for ever in older kernels (Linux 6.1). A store is a
  // SIGBUS, and the page is replaced.
  Touch(growth.first(), added);
  return true;
}

void GiveBack(const Growth& growth) PITOT_REQUIRES(g_rings_mutex) {
  const uint64_t added = growth.bytes - growth.before;
  if (growth.entry->box_offset == 0) {
    madvise(growth.first(), added, MADV_DONTNEED);
    return;
  }
  static_cast<void>(mmap(growth.first(), added, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
  g_box->Free(BoxOffset(growth), added);
}

void Unpin(RingEntry* entry) PITOT_REQUIRES(g_rings_mutex) {
  if (--entry->pins == 0 && entry->ring->state == RingState::kRetired)
    g_given_back.fetch_add(1, std::memory_order_relaxed);
}

// Begins to grow what the budget allows. Returns whether some ring has an earlier offer still: a thread that slept may
// have missed that gate.
bool BeginGrowth(const std::vector<RingWish>& wishes, std::vector<Growth>* growing) PITOT_REQUIRES(g_rings_mutex) {
  const auto is_before = [](const RingWish& wish, uint32_t number) { return wish.number < number; };
  bool has_offer = false;
  for (RingEntry* entry = g_rings; entry != nullptr; entry = entry->next) {
    const ThreadRing& ring = *entry->ring;
    const auto wish = std::lower_bound(wishes.begin(), wishes.end(), ring.number, is_before);
    if (wish == wishes.end() || wish->number != ring.number || ring.state != RingState::kLive) continue;
    has_offer |= HasOffer(ring);
    const uint64_t before = entry->bytes, bytes = GrownBytes(*entry, wish->bytes);
    if (bytes == before) continue;
    growing->push_back({entry, before, bytes, false});
    g_bytes_used += bytes - before;
    entry->bytes = bytes;
    ++entry->pins;
  }
  return has_offer;
}

// Makes the offer, or gives everything back. Returns whether it was made.
bool EndGrowth(const Growth& growth) PITOT_REQUIRES(g_rings_mutex) {
  ThreadRing* const ring = growth.entry->ring;
  const bool is_offered = growth.has_memory && ring->state == RingState::kLive;
  if (is_offered) {
    ring->offer.store(growth.bytes / 8, std::memory_order_release);
  } else {
    GiveBack(growth);
    g_bytes_used -= growth.bytes - growth.before;
    growth.entry->bytes = growth.before;
  }
  Unpin(growth.entry);
  return is_offered;
}

}  // namespace

void GrowRings(const std::vector<RingWish>& wishes) noexcept {
  std::vector<Growth> growing;
  try {
    growing.reserve(wishes.size());
  } catch (const std::bad_alloc&) {
    return;  // the next look tries again
  }
  bool has_offer = false;
  Box* box = nullptr;
  {
    const base::MutexLock lock(&g_rings_mutex);
    has_offer = BeginGrowth(wishes, &growing);
    box = g_box;
  }
  for (Growth& growth : growing) growth.has_memory = MakeMemory(growth, box);
  const base::MutexLock lock(&g_rings_mutex);
  for (const Growth& growth : growing) has_offer |= EndGrowth(growth);
  if (!has_offer || __atomic_load_n(&detail::g_gate, __ATOMIC_RELAXED) == 0) return;
  g_offers = (g_offers + 1) % (1u << (32 - kOffersShift));
  SetGate();
}

PinnedRings::PinnedRings() {
  const base::MutexLock lock(&g_rings_mutex);
  size_t count = 0;
  for (const RingEntry* entry = g_rings; entry != nullptr; entry = entry->next) ++count;
  rings_.reserve(count);
  for (RingEntry* entry = g_rings; entry != nullptr; entry = entry->next) {
    if (entry->ring->state == RingState::kParked) continue;
    ++entry->pins;
    rings_.push_back(entry->ring);
  }
  std::sort(rings_.begin(), rings_.end(), [](auto* a, auto* b) { return a->number < b->number; });
}

PinnedRings::~PinnedRings() {
  const base::MutexLock lock(&g_rings_mutex);
  for (const ThreadRing* ring : rings_) Unpin(EntryOf(ring));
}

void CountRefusedBegin() noexcept { g_begins_refused.fetch_add(1, std::memory_order_relaxed); }

RingCounts CountRings() noexcept {
  RingCounts counts;
  counts.threads_refused = g_threads_refused.load(std::memory_order_relaxed);
  counts.events_refused = g_events_refused.load(std::memory_order_relaxed);
  counts.begins_refused = g_begins_refused.load(std::memory_order_relaxed);
  counts.closed_elsewhere = g_closed_elsewhere.load(std::memory_order_relaxed);
  counts.misnested = g_misnested.load(std::memory_order_relaxed);
  const base::MutexLock lock(&g_rings_mutex);
  counts.bytes_used = g_bytes_used;
  counts.bytes_parked = g_bytes_parked;
  counts.searches = g_searches;
  counts.rings_recycled = g_rings_recycled;
  counts.events_recycled = g_events_recycled;
  counts.events = g_former_events;
  counts.recycled_exit_ticks = g_recycled_exit_ticks;
  for (const RingEntry* entry = g_rings; entry != nullptr; entry = entry->next) {
    const RingState state = entry->ring->state;
    if (state == RingState::kParked) continue;
    ++(state == RingState::kLive ? counts.live : counts.retired);
    counts.outside_box += g_box != nullptr && entry->box_offset == 0 ? 1 : 0;
    counts.events += __atomic_load_n(&entry->ring->events, __ATOMIC_RELAXED);
  }
  return counts;
}

std::vector<RecycledRing> RecentlyRecycled() {
  const base::MutexLock lock(&g_rings_mutex);
  std::vector<RecycledRing> rings;
  const uint64_t kept = std::min<uint64_t>(g_rings_recycled, kMaxRecycledKept);
  rings.reserve(kept);
  for (uint64_t n = g_rings_recycled - kept; n != g_rings_recycled; ++n)
    rings.push_back(g_recycled[n % kMaxRecycledKept]);
  return rings;
}

void CopyStoredName(const ThreadRing& ring, char (&out)[kThreadNameBytes]) noexcept {
  uint64_t words[kThreadNameBytes / 8];
  for (uint32_t i = 0; i < kThreadNameBytes / 8; ++i) words[i] = ring.name[i].load(std::memory_order_relaxed);
  std::memcpy(out, words, sizeof out);
  out[kThreadNameBytes - 1] = '\0';
}

void CopyThreadName(const ThreadRing& ring, char (&out)[kThreadNameBytes]) noexcept {
  CopyStoredName(ring, out);
  if (ring.named || ring.state != RingState::kLive) return;
  // A running thread may have been renamed: ask the system.
  char path[48];
  std::snprintf(path, sizeof path, "/proc/self/task/%lld/comm", static_cast<long long>(ring.tid));
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t n = read(fd, out, kThreadNameBytes - 1);
  close(fd);
  if (n > 0) out[out[n - 1] == '\n' ? n - 1 : n] = '\0';
}

bool NameRing(int64_t tid, const char* name) noexcept {
  const base::MutexLock lock(&g_rings_mutex);
  for (const RingEntry* entry = g_rings; entry != nullptr; entry = entry->next) {
    ThreadRing* const ring = entry->ring;
    if (ring->tid != tid || ring->state != RingState::kLive) continue;
    if (!ring->named.exchange(true)) StoreName(ring, name);
    return true;
  }
  return false;
}

bool IsAnyStepSince(uint64_t ticks) noexcept {
  const base::MutexLock lock(&g_rings_mutex);
  for (const RingEntry* entry = g_rings; entry != nullptr; entry = entry->next) {
    const uint64_t begin = entry->ring->step_begin.load(std::memory_order_relaxed);
    if (entry->ring->state == RingState::kLive && begin != 0 && begin <= ticks) return true;
  }
  return false;
}

uint32_t ThreadsAttached() noexcept {
  const base::MutexLock lock(&g_rings_mutex);
  return g_next_number - 1;
}

void CallAtAttach(void (*function)() noexcept) noexcept { g_at_attach.store(function); }
uint64_t BytesOf(const ThreadRing& ring) noexcept {
  const base::MutexLock lock(&g_rings_mutex);
  return EntryOf(&ring)->bytes;
}

ThreadRing* SwitchThreadForTesting(ThreadRing* ring, const char* name) noexcept {
  if (ring != nullptr) {
    detail::t_ring = ring;
    return ring;
  }
  const base::MutexLock lock(&g_rings_mutex);
  detail::t_ring = &g_no_ring;
  std::snprintf(t_name, sizeof t_name, "%s", name);
  ring = AttachLocked(__atomic_load_n(&detail::g_gate, __ATOMIC_RELAXED));
  t_name[0] = '\0';
  if (ring == nullptr) return nullptr;
  ring->tid = ring->number;  // as if it were a thread of its own
  detail::t_ring = ring;
  return ring;
}

}  // namespace pitot::trace

PITOT_NAMESPACE_BEGIN
namespace detail {
inline namespace layout_2 {

__thread Ring* t_ring __attribute__((tls_model("initial-exec"))) = &trace::g_no_ring;

Ring* Attach(uint32_t gate) noexcept {
  if (trace::IsUntoldChild()) {
    trace::BecomeChild();
    return nullptr;
  }
  // The same recorder: a mirror came or went, or rings may grow. Snapshots may read the gate at the same time.
  if (trace::RecorderOf(t_ring->gate) == trace::RecorderOf(gate)) {
    __atomic_store_n(&t_ring->gate, gate, __ATOMIC_RELAXED);
    trace::TakeOffer(static_cast<trace::ThreadRing*>(t_ring));
    return t_ring;
  }
  // Refused before, and no ring was given back since: not worth the lock.
  const uint32_t given_back = trace::g_given_back.load(std::memory_order_relaxed);
  const bool is_refused = trace::RecorderOf(trace::t_refused_gate) == trace::RecorderOf(gate);
  if ((is_refused && trace::t_refused_at == given_back) || trace::t_exiting) {
    trace::g_events_refused.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  if (void (*const at_attach)() noexcept = trace::g_at_attach.load()) at_attach();
  const base::MutexLock lock(&trace::g_rings_mutex);
  const uint32_t now = __atomic_load_n(&g_gate, __ATOMIC_RELAXED);
  if (trace::RecorderOf(now) != trace::RecorderOf(gate)) return nullptr;  // stopped meanwhile
  gate = now;                                                             // a mirror came or went, or rings may grow
  trace::ThreadRing* ring = trace::AttachLocked(gate);
  if (ring != nullptr && pthread_setspecific(trace::g_key, ring) != 0) {
    // Without notice of the thread's exit the ring would never be given back.
    trace::Retire(trace::EntryOf(ring));
    ring = nullptr;
  }
  if (ring == nullptr) {
    trace::t_refused_gate = gate;
    trace::t_refused_at = given_back;
    if (!is_refused) trace::g_threads_refused.fetch_add(1, std::memory_order_relaxed);
    trace::g_events_refused.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  t_ring = ring;
  return ring;
}

void CloseElsewhere() noexcept { trace::g_closed_elsewhere.fetch_add(1, std::memory_order_relaxed); }

void ShowArgs(Ring* ring, uint32_t depth, uint64_t begin, const uint64_t* words, uint32_t count) noexcept {
  if (depth >= kMaxOpen) return;
  const auto put = [](uint64_t* word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); };
  trace::OpenArgs* args = &static_cast<trace::ThreadRing*>(ring)->open_args[depth];
  put(&args->begin, 0);
  if (count == 0) return;
  for (uint32_t i = 0; i < count && i < trace::kMaxOpenArgs; ++i) put(&args->words[i], words[i]);
  put(&args->begin, begin);
}

void CloseMisnested(Ring* ring, uint32_t depth) noexcept {
  if (!trace::CutRanges(static_cast<trace::ThreadRing*>(ring), depth)) return trace::CloseOutOfOrder(ring, depth);
  Pop(ring, depth);
}

}  // namespace layout_2
}  // namespace detail

void SetThreadName(const char* name) noexcept {
  std::snprintf(trace::t_name, sizeof trace::t_name, "%s", name == nullptr ? "" : name);
  if (detail::t_ring == &trace::g_no_ring || trace::t_name[0] == '\0') return;
  auto* ring = static_cast<trace::ThreadRing*>(detail::t_ring);
  ring->named = true;
  trace::StoreName(ring, trace::t_name);
}
PITOT_NAMESPACE_END
