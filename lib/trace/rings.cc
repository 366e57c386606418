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
#include "trace/manual.h"
#include "trace/mirror.h"
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

// The target of t_ring before a thread's first event. Its gate never equals that of a recorder.
constinit detail::Ring g_no_ring{};

constinit base::Mutex g_rings_mutex;
constinit ThreadRing* g_rings PITOT_GUARDED_BY(g_rings_mutex) = nullptr;
constinit ThreadRing* g_oldest_retired PITOT_GUARDED_BY(g_rings_mutex) = nullptr;  // from here by next_retired
constinit ThreadRing* g_newest_retired PITOT_GUARDED_BY(g_rings_mutex) = nullptr;
constinit RingLimits g_limits PITOT_GUARDED_BY(g_rings_mutex);
constinit uint64_t g_bytes_used PITOT_GUARDED_BY(g_rings_mutex) = 0;
constinit uint64_t g_bytes_parked PITOT_GUARDED_BY(g_rings_mutex) = 0;
constinit uint32_t g_next_number PITOT_GUARDED_BY(g_rings_mutex) = 1;
constinit uint64_t g_searches PITOT_GUARDED_BY(g_rings_mutex) = 0;
constinit uint64_t g_rings_recycled PITOT_GUARDED_BY(g_rings_mutex) = 0;
constinit uint64_t g_events_recycled PITOT_GUARDED_BY(g_rings_mutex) = 0;
constinit uint64_t g_recycled_exit_ticks PITOT_GUARDED_BY(g_rings_mutex) = 0;
// The n-th at n modulo the array's size.
constinit RecycledRing g_recycled[kMaxRecycledKept] PITOT_GUARDED_BY(g_rings_mutex);
constinit uint32_t g_generation PITOT_GUARDED_BY(g_rings_mutex) = 0;
constinit uint32_t g_offers PITOT_GUARDED_BY(g_rings_mutex) = 0;  // modulo what the gate has room for
constinit bool g_has_key PITOT_GUARDED_BY(g_rings_mutex) = false;
constinit pthread_key_t g_key PITOT_GUARDED_BY(g_rings_mutex) = 0;

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

// Memory for a ring of `bytes`, and address space for `room_bytes`. Null: the system has none.
void* MapBytes(uint64_t bytes, uint64_t room_bytes) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
  const bool grows = room_bytes > bytes;
  void* memory = mmap(nullptr, kHeaderBytes + room_bytes, grows ? PROT_NONE : PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (!grows || mprotect(memory, kHeaderBytes + bytes, PROT_READ | PROT_WRITE) == 0) return memory;
  munmap(memory, kHeaderBytes + room_bytes);
  return nullptr;
}

// Gives a ring that nobody reads this size.
void SetSize(ThreadRing* ring, uint64_t bytes) {
  ring->bytes = bytes;
  ring->mask = bytes / 8 - 1;
  ring->shape.store(RingShape::Of(bytes / 8).bits(), std::memory_order_relaxed);
  ring->offer.store(bytes / 8, std::memory_order_relaxed);
}

// The address space for a ring that begins with `bytes`.
uint64_t RoomFor(uint64_t bytes) PITOT_REQUIRES(g_rings_mutex) {
  return bytes >= kLeastThatGrows ? std::max(bytes, g_limits.max_grown_bytes) : bytes;
}

ThreadRing* Map(uint64_t bytes) PITOT_REQUIRES(g_rings_mutex) {
  uint64_t room_bytes = RoomFor(bytes);
  void* memory = MapBytes(bytes, room_bytes);
  if (memory == nullptr && room_bytes > bytes) memory = MapBytes(bytes, room_bytes = bytes);  // little address space
  if (memory == nullptr) return nullptr;
  auto* ring = new (memory) ThreadRing{};
  ring->words = reinterpret_cast<uint64_t*>(static_cast<char*>(memory) + kHeaderBytes);
  ring->room_bytes = room_bytes;
  SetSize(ring, bytes);
  ring->next = g_rings;
  g_rings = ring;
  return ring;
}

void Unmap(ThreadRing* ring) PITOT_REQUIRES(g_rings_mutex) {
  for (ThreadRing** link = &g_rings; *link != nullptr; link = &(*link)->next) {
    if (*link != ring) continue;
    *link = ring->next;
    break;
  }
  munmap(ring, kHeaderBytes + ring->room_bytes);
}

uint64_t LeftBytes() PITOT_REQUIRES(g_rings_mutex) {
  return g_limits.budget_bytes > g_bytes_used ? g_limits.budget_bytes - g_bytes_used : 0;
}

// The size of a new ring while `left` bytes are unspent; 0: no ring.
uint64_t WantedBytes(uint64_t left) PITOT_REQUIRES(g_rings_mutex) {
  const uint64_t for_smallest = g_limits.budget_bytes / kPartForSmallest;
  uint64_t bytes = g_limits.max_bytes;
  while (bytes > g_limits.min_bytes && bytes * kRoomForMore + for_smallest > left) bytes /= 2;
  return kHeaderBytes + bytes <= left ? bytes : 0;
}

void Retire(ThreadRing* ring) PITOT_REQUIRES(g_rings_mutex) {
  ring->exit_ticks = detail::Clock(ring->gate);
  ring->state = RingState::kRetired;  // last: a snapshot that sees this also sees the exit time
  ring->next_retired = nullptr;
  (g_newest_retired != nullptr ? g_newest_retired->next_retired : g_oldest_retired) = ring;
  g_newest_retired = ring;
}

// Takes the ring of the thread that exited first, among rings without readers. The loss of its events is recorded.
ThreadRing* Recycle() PITOT_REQUIRES(g_rings_mutex) {
  ThreadRing *before = nullptr, *ring = g_oldest_retired;
  while (ring != nullptr && ring->pins != 0) before = ring, ring = ring->next_retired;
  if (ring == nullptr) return nullptr;
  (before != nullptr ? before->next_retired : g_oldest_retired) = ring->next_retired;
  if (g_newest_retired == ring) g_newest_retired = before;
  RecycledRing& lost = g_recycled[g_rings_recycled++ % kMaxRecycledKept];
  lost = {ring->number, ring->tid, ring->events, ring->attach_ticks, ring->exit_ticks, {}};
  CopyThreadName(*ring, lost.name);
  g_events_recycled += ring->events;
  g_recycled_exit_ticks = std::max(g_recycled_exit_ticks, ring->exit_ticks);
  return ring;
}

bool AnyPinned() PITOT_REQUIRES(g_rings_mutex) {
  for (const ThreadRing* ring = g_rings; ring != nullptr; ring = ring->next) {
    if (ring->pins != 0) return true;
  }
  return false;
}

// Returns a ring for a new thread: a fresh one while there is room for any, otherwise a recycled one.
ThreadRing* TakeRing() PITOT_REQUIRES(g_rings_mutex) {
  ++g_searches;
  const uint64_t wanted = WantedBytes(LeftBytes());
  ThreadRing* ring = wanted != 0 ? Map(wanted) : nullptr;
  if (ring == nullptr) return Recycle();
  g_bytes_used += kHeaderBytes + wanted;
  return ring;
}

// Returns this thread's ring of a former recorder if it still fits, without what it had grown, otherwise unmaps it.
// Safe: its only writer is this thread.
ThreadRing* TakeParked(ThreadRing* own) PITOT_REQUIRES(g_rings_mutex) {
  g_bytes_parked -= own->bytes;
  const uint64_t bytes = std::min(own->bytes, g_limits.max_bytes);
  if (bytes >= g_limits.min_bytes && own->room_bytes >= RoomFor(bytes) && kHeaderBytes + bytes <= LeftBytes()) {
    SetSize(own, bytes);
    g_bytes_used += kHeaderBytes + bytes;
    return own;
  }
  Unmap(own);
  return nullptr;
}

// On the ring's thread, between two records: words from here on lie by the size it was offered.
void TakeOffer(ThreadRing* ring) {
  const uint64_t words = ring->offer.load(std::memory_order_acquire);
  if (words == ring->mask + 1) return;
  // Before the first such word: a reader of a head beyond it sees the new shape.
  const RingShape former(ring->shape.load(std::memory_order_relaxed));
  ring->shape.store(former.ChangedAt(ring->head, words).bits(), std::memory_order_release);
  ring->mask = words - 1;
}

void Dress(ThreadRing* ring, uint32_t gate) PITOT_REQUIRES(g_rings_mutex) {
  for (detail::OpenScope& open : ring->open) __atomic_store_n(&open.begin, 0, __ATOMIC_RELAXED);
  TakeOffer(ring);
  ring->floor = ring->head;
  ring->events = 0;
  ring->depth = 0;
  ring->request = ring->batch = 0;
  ring->begun = 0;
  ring->ranges_open = ring->gaps = 0;
  ring->usage_ticks = 0;
  ring->step_begin.store(0, std::memory_order_relaxed);
  ring->schedstat.store(0);
  ring->begun_unrecorded = 0;
  std::memset(ring->ranges_unrecorded, 0, sizeof ring->ranges_unrecorded);
  ring->misnested.store(0, std::memory_order_relaxed);
  ring->state = RingState::kLive;
  ring->number = g_next_number++;
  ring->tid = ThreadId();
  ring->attach_ticks = detail::Clock(gate);
  ring->named = t_name[0] != '\0';
  if (ring->named)
    StoreName(ring, t_name);
  else
    StoreSystemName(ring);
  ring->gate = gate;
}

ThreadRing* AttachLocked(uint32_t gate) PITOT_REQUIRES(g_rings_mutex) {
  ThreadRing* ring = nullptr;
  if (detail::t_ring != &g_no_ring) {
    ring = TakeParked(static_cast<ThreadRing*>(detail::t_ring));
    detail::t_ring = &g_no_ring;
  }
  if (ring == nullptr) ring = TakeRing();
  if (ring == nullptr) return nullptr;
  Dress(ring, gate);
  return ring;
}

void DetachLocked(ThreadRing* ring) PITOT_REQUIRES(g_rings_mutex) {
  if (ring->state == RingState::kParked) {
    g_bytes_parked -= ring->bytes;
    Unmap(ring);
    return;
  }
  if (!ring->named) StoreSystemName(ring);  // it may have been named after its first event
  Retire(ring);
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
  const uint32_t gate = g_offers << kOffersShift | g_generation << 1 | (IsClockSlow() ? 1 : 0);
  __atomic_store_n(&detail::g_gate, gate, __ATOMIC_RELEASE);
}

void OnThreadExit(void*) {
  // Runs after the thread's C++ destructors. Later events find no ring and are counted.
  t_exiting = true;
  auto* ring = static_cast<ThreadRing*>(detail::t_ring);
  detail::t_ring = &g_no_ring;
  if (ring == &g_no_ring) return;
  const base::MutexLock lock(&g_rings_mutex);
  DetachLocked(ring);
}

}  // namespace

bool OpenRings(const RingLimits& limits, bool slow_clock) noexcept {
  const base::MutexLock lock(&g_rings_mutex);
  if (!g_has_key) g_has_key = pthread_key_create(&g_key, OnThreadExit) == 0;
  if (!g_has_key) return false;
  g_limits = limits;
  g_bytes_used = 0;
  g_searches = g_rings_recycled = g_events_recycled = g_recycled_exit_ticks = 0;
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

void CloseRings() noexcept {
  base::MutexLock lock(&g_rings_mutex);
  __atomic_store_n(&detail::g_gate, 0, __ATOMIC_RELEASE);
  while (AnyPinned()) {  // someone is reading Stats just now
    lock.Unlock();
    sched_yield();
    lock.Lock();
  }
  for (ThreadRing *ring = g_rings, *next; ring != nullptr; ring = next) {
    next = ring->next;
    if (ring->state == RingState::kRetired) {
      Unmap(ring);
    } else if (ring->state == RingState::kLive) {
      ring->state = RingState::kParked;
      g_bytes_parked += ring->bytes;
      madvise(ring->words, ring->bytes, MADV_DONTNEED);
    }
  }
  g_oldest_retired = g_newest_retired = nullptr;
  g_bytes_used = 0;
  g_is_os_clock.store(true, std::memory_order_relaxed);
}

void ForgetRingsAfterFork() noexcept {
  new (&g_rings_mutex) base::Mutex;
  const base::MutexLock lock(&g_rings_mutex);
  for (ThreadRing *ring = g_rings, *next; ring != nullptr; ring = next) {
    next = ring->next;
    munmap(ring, kHeaderBytes + ring->room_bytes);
  }
  g_rings = g_oldest_retired = g_newest_retired = nullptr;
  g_bytes_used = g_bytes_parked = 0;
  g_is_os_clock.store(true, std::memory_order_relaxed);
  SetUsageReader(nullptr);
  detail::t_ring = &g_no_ring;
  if (g_has_key) pthread_setspecific(g_key, nullptr);
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

bool HasOffer(const ThreadRing& ring) { return ring.offer.load() != ShapeOf(ring).words(); }

// How large the ring may become now; its present size: it may not grow. It has to turn between two changes: a reader
// knows two sizes.
uint64_t GrownBytes(const ThreadRing& ring, uint64_t wanted) PITOT_REQUIRES(g_rings_mutex) {
  const uint64_t head = __atomic_load_n(&ring.head, __ATOMIC_ACQUIRE);
  if (HasOffer(ring) || !ShapeOf(ring).HasTurnedAt(head)) return ring.bytes;
  const uint64_t left = LeftBytes(), for_smallest = g_limits.budget_bytes / kPartForSmallest;
  const uint64_t spare = left > for_smallest ? (left - for_smallest) / 3 * kThirdsForGrowth : 0;
  uint64_t bytes = std::min({wanted, g_limits.max_grown_bytes, ring.room_bytes});
  while (bytes > ring.bytes + spare) bytes /= 2;
  return std::max(bytes, ring.bytes);
}

// Makes memory of address space. False if the system has none. In parts: other threads' mmap, munmap and thread starts
// wait for the part in progress (16 MiB at once: 2.4 ms, 128 KiB: no more than without).
bool Populate(char* first, uint64_t bytes) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE: Linux 5.14
  constexpr uint64_t kPage = 4096, kPart = 128 << 10;
  if (mprotect(first, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  uint64_t done = 0;
  while (done < bytes && madvise(first + done, std::min(kPart, bytes - done), kPopulateWrite) == 0) done += kPart;
  if (done >= bytes) return true;
  if (errno != EINVAL) return false;
  for (uint64_t at = 0; at < bytes; at += kPage) __atomic_store_n(first + at, 0, __ATOMIC_RELAXED);
  return true;
}

// A ring that grows: pinned, with its new bytes in the budget. Its thread does not touch the new pages yet.
struct Growth {
  ThreadRing* ring;
  uint64_t before, bytes;
  bool has_memory;
};

void Unpin(ThreadRing* ring) PITOT_REQUIRES(g_rings_mutex) {
  if (--ring->pins == 0 && ring->state == RingState::kRetired) g_given_back.fetch_add(1, std::memory_order_relaxed);
}

// Begins to grow what the budget allows. Returns whether some ring has an earlier offer still: a thread that slept may
// have missed that gate.
bool BeginGrowth(const std::vector<RingWish>& wishes, std::vector<Growth>* growing) PITOT_REQUIRES(g_rings_mutex) {
  const auto is_before = [](const RingWish& wish, uint32_t number) { return wish.number < number; };
  bool has_offer = false;
  for (ThreadRing* ring = g_rings; ring != nullptr; ring = ring->next) {
    const auto wish = std::lower_bound(wishes.begin(), wishes.end(), ring->number, is_before);
    if (wish == wishes.end() || wish->number != ring->number || ring->state != RingState::kLive) continue;
    has_offer |= HasOffer(*ring);
    const uint64_t before = ring->bytes, bytes = GrownBytes(*ring, wish->bytes);
    if (bytes == before) continue;
    growing->push_back({ring, before, bytes, false});
    g_bytes_used += bytes - before;
    ring->bytes = bytes;
    ++ring->pins;
  }
  return has_offer;
}

// Makes the offer, or gives everything back. Returns whether it was made.
bool EndGrowth(const Growth& growth) PITOT_REQUIRES(g_rings_mutex) {
  ThreadRing* const ring = growth.ring;
  const bool is_offered = growth.has_memory && ring->state == RingState::kLive;
  if (is_offered) {
    ring->offer.store(growth.bytes / 8, std::memory_order_release);
  } else {
    const uint64_t added = growth.bytes - growth.before;
    madvise(reinterpret_cast<char*>(ring->words) + growth.before, added, MADV_DONTNEED);
    g_bytes_used -= added;
    ring->bytes = growth.before;
  }
  Unpin(ring);
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
  {
    const base::MutexLock lock(&g_rings_mutex);
    has_offer = BeginGrowth(wishes, &growing);
  }
  for (Growth& growth : growing)
    growth.has_memory =
        Populate(reinterpret_cast<char*>(growth.ring->words) + growth.before, growth.bytes - growth.before);
  const base::MutexLock lock(&g_rings_mutex);
  for (const Growth& growth : growing) has_offer |= EndGrowth(growth);
  if (!has_offer || __atomic_load_n(&detail::g_gate, __ATOMIC_RELAXED) == 0) return;
  g_offers = (g_offers + 1) % (1u << (32 - kOffersShift));
  SetGate();
}

PinnedRings::PinnedRings() {
  const base::MutexLock lock(&g_rings_mutex);
  size_t count = 0;
  for (ThreadRing* ring = g_rings; ring != nullptr; ring = ring->next) ++count;
  rings_.reserve(count);
  for (ThreadRing* ring = g_rings; ring != nullptr; ring = ring->next) {
    if (ring->state == RingState::kParked) continue;
    ++ring->pins;
    rings_.push_back(ring);
  }
  std::sort(rings_.begin(), rings_.end(), [](auto* a, auto* b) { return a->number < b->number; });
}

PinnedRings::~PinnedRings() {
  const base::MutexLock lock(&g_rings_mutex);
  for (ThreadRing* ring : rings_) Unpin(ring);
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
  counts.events_recycled = counts.events = g_events_recycled;
  counts.recycled_exit_ticks = g_recycled_exit_ticks;
  for (ThreadRing* ring = g_rings; ring != nullptr; ring = ring->next) {
    if (ring->state == RingState::kParked) continue;
    ++(ring->state == RingState::kLive ? counts.live : counts.retired);
    counts.events += __atomic_load_n(&ring->events, __ATOMIC_RELAXED);
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

void CopyThreadName(const ThreadRing& ring, char (&out)[kThreadNameBytes]) noexcept {
  uint64_t words[kThreadNameBytes / 8];
  for (uint32_t i = 0; i < kThreadNameBytes / 8; ++i) words[i] = ring.name[i].load(std::memory_order_relaxed);
  std::memcpy(out, words, sizeof out);
  out[kThreadNameBytes - 1] = '\0';
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
  for (ThreadRing* ring = g_rings; ring != nullptr; ring = ring->next) {
    if (ring->tid != tid || ring->state != RingState::kLive) continue;
    if (!ring->named.exchange(true)) StoreName(ring, name);
    return true;
  }
  return false;
}

bool IsAnyStepSince(uint64_t ticks) noexcept {
  const base::MutexLock lock(&g_rings_mutex);
  for (const ThreadRing* ring = g_rings; ring != nullptr; ring = ring->next) {
    const uint64_t begin = ring->step_begin.load(std::memory_order_relaxed);
    if (ring->state == RingState::kLive && begin != 0 && begin <= ticks) return true;
  }
  return false;
}

uint32_t ThreadsAttached() noexcept {
  const base::MutexLock lock(&g_rings_mutex);
  return g_next_number - 1;
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
inline namespace layout_1 {

__thread Ring* t_ring __attribute__((tls_model("initial-exec"))) = &trace::g_no_ring;

Ring* Attach(uint32_t gate) noexcept {
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
  const base::MutexLock lock(&trace::g_rings_mutex);
  const uint32_t now = __atomic_load_n(&g_gate, __ATOMIC_RELAXED);
  if (trace::RecorderOf(now) != trace::RecorderOf(gate)) return nullptr;  // stopped meanwhile
  gate = now;                                                             // a mirror came or went, or rings may grow
  trace::ThreadRing* ring = trace::AttachLocked(gate);
  if (ring != nullptr && pthread_setspecific(trace::g_key, ring) != 0) {
    // Without notice of the thread's exit the ring would never be given back.
    trace::Retire(ring);
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

}  // namespace layout_1
}  // namespace detail

void SetThreadName(const char* name) noexcept {
  std::snprintf(trace::t_name, sizeof trace::t_name, "%s", name == nullptr ? "" : name);
  if (detail::t_ring == &trace::g_no_ring || trace::t_name[0] == '\0') return;
  auto* ring = static_cast<trace::ThreadRing*>(detail::t_ring);
  ring->named = true;
  trace::StoreName(ring, trace::t_name);
}
PITOT_NAMESPACE_END
