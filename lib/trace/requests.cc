// SPDX-License-Identifier: Apache-2.0
#include "trace/requests.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "base/mix.h"
#include "base/mutex.h"
#include "trace/box.h"
#include "trace/bus_guard.h"
#include "trace/clock.h"
#include "trace/lateness.h"
#include "trace/launches.h"
#include "trace/mirror.h"
#include "trace/names.h"
#include "trace/parent_only.h"
#include "trace/rest.h"
#include "trace/rings.h"
#include "trace/usage.h"

namespace pitot::trace {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;

using Word = std::atomic<uint64_t>;
using Half = std::atomic<uint32_t>;

// An open request. The thread of its handle and holders of its tokens write to it, each as a user of the slot. The last
// user gives the slot back, so a late writer never writes into another request. Snapshots and the watchdog read without
// being users: they copy, then check that the version did not change. All copied words are stored with release and
// loaded with acquire: a reader that saw a word of the next use also sees the next version.
struct alignas(64) Slot {
  Word state;      // version << 32 | users; the version is odd from Begin to Finish, and the open request is one user
  Half next_free;  // index + 1
  Word id, parent, trace_high, trace_low;
  Word begin_ticks;
  Word late_ticks;  // when it becomes late; ~0: never
  Word deadline_ns;
  Word context_after;  // the thread's context after the end: a child's parent
  Half route_name, route_index, begin_thread, size_bucket;
  Half label_claims, size_claims, stage_count;  // claims may exceed the room
  Half trace_flags;
  Half tokens;
  Word taken;                                               // the enqueue of the last take
  Word batch;                                               // the last one that it joined
  Word taken_ticks;                                         // when a thread or a batch last took it
  Word first_token_ticks, last_token_ticks, max_gap_ticks;  // first after arrival; last on the clock
  // A label is 0, and the name of a size is 0, until it is whole: several threads may add some.
  Word labels[Request::kMaxLabels];     // key + 1 | value << 32
  Half size_names[Request::kMaxSizes];  // + 1
  Word size_values[Request::kMaxSizes];
  Word stages[Request::kMaxStages];
  Half host_id_words;
  Word host_id[kRequestIdWords];  // its bytes, then zeros
};
static_assert(std::is_trivially_destructible_v<Slot>);
static_assert(sizeof(Slot) <= 512);  // as the memory budget counts

// Address space for the largest number of slots, mapped once and never unmapped: handles and tokens of a former
// recorder may still look into it. Pages are used as requests need them.
constexpr uint32_t kMostSlots = 65536;

// Batch::info_: the executor's name, the unit of its members' work, the close reason, the number of joins.
constexpr uint32_t kMembersShift = 40;
constexpr uint64_t kMostMembers = (uint64_t{1} << 24) - 1;
constexpr uint64_t kInfoMask = (uint64_t{1} << kMembersShift) - 1;  // the recorded part
static_assert(kMaxNames <= uint32_t{1} << kUnitShift);
static_assert(kMaxNames <= kFoldedReason);
static_assert(kRequestMostWords <= std::size(RecordWords{}.words));

uint32_t ExecutorOf(uint64_t info) { return static_cast<uint32_t>(info & kNameMask); }
uint64_t WithJoins(uint64_t info, uint64_t joins) {
  return info + (std::min(joins, kMostMembers - (info >> kMembersShift)) << kMembersShift);
}

struct Route {
  std::atomic<const char*> name;  // ends with a zero
  Word late_after_ns;             // 0: never
  Half name_index;
  Word ok_ticks;    // when a request of it last ended well; 0: never
  Word longest_ns;  // the longest of those lately
  Half ok_count;    // up to kFewEnded
  // Since then, as in RouteProgress.
  Half failed_count;
  Word failing_ticks, failed_ticks;
};

// Threads that are calling an observer. Each thread has a shard, so that threads do not share a cache line.
struct alignas(128) Shard {
  Half inside;
};
constexpr uint32_t kShards = 16;
constexpr uint32_t kFewEnded = 32;  // fewer do not show how long requests of a route take
constexpr uint32_t kFewFailed = 3;  // fewer do not show that a route fails

constinit base::Mutex g_requests_mutex;  // held to open, close and name a route; all else is atomic
// The table. Users of slots ask Slots, for it finds nothing in a child.
constinit Slot* g_slot_memory PITOT_GUARDED_BY(g_requests_mutex) = nullptr;
constinit uint64_t g_slot_bytes_in_box PITOT_GUARDED_BY(g_requests_mutex) = 0;
constinit Word g_free{0};   // slots used before: tag << 32 | index + 1
constinit Half g_fresh{0};  // slots never used begin here
constinit Half g_open{0};   // slots in use
constinit Half g_max_open{0};
constinit BoundedNames<kMaxRoutes> g_route_names;
constinit BoundedNames<kMaxLabelValues> g_label_values;
constinit BoundedNames<kMaxReasons> g_reasons;
constinit Route g_routes[kMaxRoutes];
constinit std::atomic<RequestObserver*> g_observer{nullptr};
constinit Shard g_shards[kShards];
constinit Word g_next_id{0};
constinit Word g_id_seed{0};
constinit Half g_process{0};            // tells tokens of this process from others'
constinit Half g_lateness_asked{0};     // how often all routes were asked
constinit Word g_taken_from_others{0};  // requests of other processes, each time
constinit Word g_open_batches{0};       // in the child of a fork also those that it inherited

constinit Word g_begun{0}, g_finished{0}, g_abandoned{0}, g_refused_requests{0}, g_labels_folded{0},
    g_details_refused{0};

void Count(Word& counter) { counter.fetch_add(1, kRelaxed); }

uint64_t NewId() {
  const uint64_t id = base::Mix(g_id_seed.load(kRelaxed) + g_next_id.fetch_add(1, kRelaxed));
  return id != 0 ? id : 1;
}

void SeedIds() {
  uint64_t seed;
  if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
    seed = static_cast<uint64_t>(MonotonicNs()) ^ static_cast<uint64_t>(getpid()) << 32;
  g_id_seed.store(seed, kRelaxed);
  g_process.store(static_cast<uint32_t>(base::Mix(seed) | 1), kRelaxed);
}

uint32_t Gate() { return __atomic_load_n(&detail::g_gate, __ATOMIC_RELAXED); }

__extension__ typedef unsigned __int128 Wide;

// Returns ~0, which never comes, for times beyond the clock.
uint64_t TicksAfter(uint64_t begin, uint64_t ns) {
  const Wide at =
      begin + (static_cast<Wide>(ns) * __atomic_load_n(&detail::g_ticks_per_ns_q32, __ATOMIC_RELAXED) >> 32);
  return at < ~uint64_t{0} ? static_cast<uint64_t>(at) : ~uint64_t{0};
}
uint64_t NsOfTicks(uint64_t ticks) {
  const uint64_t scale = __atomic_load_n(&detail::g_ticks_per_ns_q32, __ATOMIC_RELAXED);
  return static_cast<uint64_t>((static_cast<Wide>(ticks) << 32) / (scale != 0 ? scale : 1));
}

void Emit(ThreadRing* ring, const Site& site, uint64_t begin, uint64_t end, std::initializer_list<uint64_t> words) {
  if (ring == nullptr) return;
  RecordWords record;
  for (const uint64_t word : words) record.Add(word);
  detail::Append(ring, &site, begin, end, record);
}

Slot* Slots() { return static_cast<Slot*>(OfParent().slots.load(kAcquire)); }

Slot* FindSlot(uint32_t index, uint64_t id) {
  Slot* slots = Slots();
  if (id == 0 || slots == nullptr || index >= kMostSlots) return nullptr;
  return slots[index].id.load(kAcquire) == id ? &slots[index] : nullptr;
}
Slot* SlotOf(uint32_t index, uint64_t id) { return Gate() != 0 ? FindSlot(index, id) : nullptr; }

bool IsForeign(const Token& token) { return token.process != g_process.load(kRelaxed); }

Slot* TakeSlot(Slot* slots, uint32_t* index) {
  if (g_open.fetch_add(1) >= g_max_open.load(kRelaxed)) {  // as NoteWork requires
    g_open.fetch_sub(1, kRelaxed);
    return nullptr;
  }
  uint64_t head = g_free.load(kAcquire);
  while ((head & 0xffffffff) != 0) {
    Slot& slot = slots[(head & 0xffffffff) - 1];
    const uint64_t next = ((head >> 32) + 1) << 32 | slot.next_free.load(kRelaxed);
    if (g_free.compare_exchange_weak(head, next, std::memory_order_acq_rel, kAcquire)) {
      *index = static_cast<uint32_t>(head & 0xffffffff) - 1;
      return &slot;
    }
  }
  uint32_t fresh = g_fresh.load(kRelaxed);
  while (fresh < kMostSlots && !g_fresh.compare_exchange_weak(fresh, fresh + 1, kRelaxed)) {}
  if (fresh == kMostSlots) {
    g_open.fetch_sub(1, kRelaxed);
    return nullptr;
  }
  *index = fresh;
  return &slots[fresh];
}

constexpr uint64_t kOneVersion = uint64_t{1} << 32;
constexpr uint64_t kUsers = kOneVersion - 1;

uint32_t VersionOf(uint64_t state) { return static_cast<uint32_t>(state >> 32); }
bool IsOpen(uint64_t state) { return (state & kOneVersion) != 0; }

// Adds to the state while the slot belongs to the open request `id`; false if it does not. The id is read between two
// reads of the state, so it belongs to this version.
bool AddToState(Slot* slot, uint64_t id, uint64_t what) {
  uint64_t state = slot->state.load(kAcquire);
  while (IsOpen(state) && slot->id.load(kAcquire) == id) {
    if (slot->state.compare_exchange_weak(state, state + what, std::memory_order_acq_rel, kAcquire)) return true;
  }
  return false;
}

// Ends the request, once: true only for the first caller (its handle, or the end of the recorder). That caller is the
// user that the slot had from the beginning; it reads the slot and then leaves it.
bool CloseSlot(Slot* slot, uint64_t id) { return AddToState(slot, id, kOneVersion); }

// The last user gives the slot back.
void LeaveSlot(Slot* slot) {
  if ((slot->state.fetch_sub(1, std::memory_order_acq_rel) & kUsers) != 1) return;
  const auto index = static_cast<uint32_t>(slot - Slots()) + 1;
  uint64_t head = g_free.load(kRelaxed);
  do {
    slot->next_free.store(static_cast<uint32_t>(head & 0xffffffff), kRelaxed);
  } while (!g_free.compare_exchange_weak(head, ((head >> 32) + 1) << 32 | index, kRelease, kRelaxed));
  g_open.fetch_sub(1, kRelaxed);
}

void LeaveClosed(Slot* slot) {
  slot->id.store(0, kRelease);  // no token finds it
  LeaveSlot(slot);
}

// The slot of an open request. It cannot become another request's while this object lives; null if the request has
// ended.
class SlotUse {
 public:
  SlotUse(uint32_t index, uint64_t id) : slot_(SlotOf(index, id)) {
    if (slot_ != nullptr && !AddToState(slot_, id, 1)) slot_ = nullptr;
  }
  explicit SlotUse(const Token& token) : SlotUse(token.slot, IsForeign(token) ? 0 : token.request) {}
  ~SlotUse() {
    if (slot_ != nullptr) LeaveSlot(slot_);
  }
  SlotUse(const SlotUse&) = delete;
  SlotUse& operator=(const SlotUse&) = delete;
  explicit operator bool() const { return slot_ != nullptr; }
  Slot* operator->() const { return slot_; }
  Slot& operator*() const { return *slot_; }

 private:
  Slot* slot_;
};

struct EndOfRequest {
  Outcome outcome{};  // open
  uint32_t reason = 0;
};

// Copies the words described in internal_sites.h.
void CopyWords(const Slot& slot, const EndOfRequest& end, RecordWords* out) {
  const uint32_t stages = std::min<uint32_t>(slot.stage_count.load(kAcquire), Request::kMaxStages);
  const uint32_t host_id_words = std::min<uint32_t>(slot.host_id_words.load(kAcquire), kRequestIdWords);
  out->count = 0;
  out->Add(slot.id.load(kAcquire));
  out->Add(slot.parent.load(kAcquire));
  out->Add(slot.trace_high.load(kAcquire));
  out->Add(slot.trace_low.load(kAcquire));
  out->Add(slot.route_name.load(kAcquire) | static_cast<uint64_t>(end.reason) << kReasonShift |
           static_cast<uint64_t>(end.outcome) << 32 |
           static_cast<uint64_t>(slot.size_bucket.load(kAcquire)) << 40);  // the numbers of details follow
  out->Add(slot.deadline_ns.load(kAcquire));
  out->Add(slot.tokens.load(kAcquire) | static_cast<uint64_t>(slot.begin_thread.load(kAcquire)) << 32);
  out->Add(slot.first_token_ticks.load(kAcquire));
  out->Add(slot.max_gap_ticks.load(kAcquire));
  uint64_t labels = 0, sizes = 0;
  for (const Word& place : slot.labels) {
    const uint64_t label = place.load(kAcquire);
    if (label == 0) continue;
    out->Add(label - 1);
    ++labels;
  }
  for (int i = 0; i < Request::kMaxSizes; ++i) {
    const uint32_t name = slot.size_names[i].load(kAcquire);
    if (name == 0) continue;
    out->Add(name - 1);
    out->Add(slot.size_values[i].load(kAcquire));
    ++sizes;
  }
  for (uint32_t i = 0; i < stages; ++i) out->Add(slot.stages[i].load(kAcquire));
  for (uint32_t i = 0; i < host_id_words; ++i) out->Add(slot.host_id[i].load(kAcquire));
  out->words[4] |= labels << 48 | sizes << 52 | static_cast<uint64_t>(stages) << 56;
}

RequestView ViewOf(const Slot& slot, uint64_t id, Outcome outcome, uint64_t now) {
  RequestView view{};
  view.id = id;
  view.route_index = slot.route_index.load(kAcquire);
  view.route = g_routes[view.route_index].name.load(kAcquire);
  view.size_bucket = slot.size_bucket.load(kAcquire);
  view.outcome = outcome;
  const uint64_t begin = slot.begin_ticks.load(kAcquire);
  view.latency_ns = NsOfTicks(now > begin ? now - begin : 0);
  view.deadline_ns = slot.deadline_ns.load(kAcquire);
  view.output_tokens = slot.tokens.load(kAcquire);
  if (view.output_tokens != 0) {
    view.first_token_ns = NsOfTicks(slot.first_token_ticks.load(kAcquire));
    view.max_token_gap_ns = NsOfTicks(slot.max_gap_ticks.load(kAcquire));
  }
  return view;
}

// Calls the observer, if there is one, in a way that lets SetRequestObserver wait for the end of the call.
template <class Call> void Tell(Call call) {
  static constinit Half next_shard{0};
  static __thread uint32_t t_shard __attribute__((tls_model("initial-exec"))) = 0;
  if (g_observer.load(kRelaxed) == nullptr) return;
  if (t_shard == 0) t_shard = next_shard.fetch_add(1, kRelaxed) % kShards + 1;
  Half& inside = g_shards[t_shard - 1].inside;
  // Sequentially consistent, like the exchange in SetRequestObserver: either it sees us inside, or we see its null.
  inside.fetch_add(1);
  if (RequestObserver* observer = g_observer.load()) call(observer);
  inside.fetch_sub(1, kRelease);
}

const char* CopyText(std::string_view text) {
  char* copy = new (std::nothrow) char[text.size() + 1];
  if (copy == nullptr) return "(other)";
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

// Takes no lock: the observer is the host's triggers, which may begin requests. Repeats if all routes were asked
// meanwhile, so that an older answer never replaces a newer one.
void AskLateness(Route& route) {
  uint32_t asked;
  do {
    asked = g_lateness_asked.load();
    RequestObserver* observer = g_observer.load();
    const uint64_t ns = observer != nullptr ? observer->LateAfterNs(route.name.load(kRelaxed)) : 0;
    route.late_after_ns.store(ns);
  } while (asked != g_lateness_asked.load());
}

// True for the thread that named it.
bool NameRoute(Route& route, Name name) {
  const base::MutexLock lock(&g_requests_mutex);
  if (route.name.load(kAcquire) != nullptr) return false;
  route.name_index.store(name.index, kRelaxed);
  route.name.store(CopyText(NameText(name.index)), kRelease);
  return true;
}

using RoutePlace = BoundedNames<kMaxRoutes>::Place;

RoutePlace PlaceOf(const char* text) {
  const RoutePlace place = g_route_names.Put(text != nullptr ? text : "");
  if (place.position == 0) Count(g_labels_folded);
  Route& route = g_routes[place.position];
  if (route.name.load(kAcquire) == nullptr && NameRoute(route, place.name))
    Tell([&](RequestObserver*) { AskLateness(route); });
  return place;
}

// The name of a reason, or kFoldedReason; 0: none.
uint32_t ReasonOf(const char* reason) {
  std::string_view text = reason != nullptr ? reason : "";
  text = text.substr(0, text.find_first_of("\r\n"));
  if (text.empty()) return 0;
  const auto [position, name] = g_reasons.Put(text);
  if (position != 0) return name.index;
  Count(g_labels_folded);
  return kFoldedReason;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool ParseHex(const char* text, uint64_t* out) {
  *out = 0;
  for (int i = 0; i < 16; ++i) {
    const int digit = HexDigit(text[i]);
    if (digit < 0) return false;
    *out = *out << 4 | static_cast<uint64_t>(digit);
  }
  return true;
}

// W3C Trace Context, "00-<32 hex>-<16 hex>-<2 hex>". A future version may be longer, after another dash.
bool ParseTraceparent(const char* text, uint64_t* high, uint64_t* low, uint64_t* parent, uint32_t* flags) {
  if (text == nullptr || strnlen(text, 55) < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-') return false;
  for (const int at : {0, 1, 53, 54}) {
    if (HexDigit(text[at]) < 0) return false;
  }
  const bool version_0 = text[0] == '0' && text[1] == '0';
  if ((text[0] == 'f' && text[1] == 'f') || (version_0 ? text[55] != '\0' : text[55] != '\0' && text[55] != '-'))
    return false;
  *flags = static_cast<uint32_t>(HexDigit(text[53]) << 4 | HexDigit(text[54]));
  return ParseHex(text + 3, high) && ParseHex(text + 19, low) && (*high | *low) != 0 && ParseHex(text + 36, parent) &&
         *parent != 0;
}

// Tells mirrors for what the thread works from now on.
void TellWork(const ThreadRing& ring, uint64_t id, Name executor) {
  if (__builtin_expect((ring.gate & detail::kFastClock) != 0, 1)) return;
  for (const MirrorSlot& slot : g_mirrors) {
    const Mirror* const mirror = slot.mirror.load(std::memory_order_acquire);
    if (mirror != nullptr && mirror->work != nullptr && slot.is_on.load(std::memory_order_relaxed))
      mirror->work(id, executor);
  }
}

void SetContext(ThreadRing* ring, uint64_t request, uint64_t now) {
  if (ring == nullptr || ring->request == request) return;
  if (ring->batch == 0) TellWork(*ring, request, Name{0});
  Emit(ring, kContextSite, now, now, {ring->request, request});
  __atomic_store_n(&ring->request, request, __ATOMIC_RELEASE);  // after the record of the change
  NoteUsage(ring, now);
}

void SetBatchContext(ThreadRing* ring, uint64_t batch, Name executor, uint64_t now) {
  if (ring == nullptr || ring->batch == batch) return;
  TellWork(*ring, batch != 0 ? batch : ring->request, executor);
  Emit(ring, kBatchContextSite, now, now, {ring->batch, batch});
  __atomic_store_n(&ring->batch, batch, __ATOMIC_RELEASE);  // after the record of the change
  NoteUsage(ring, now);
}

// W3C's trace flags: the trace is sampled, as far as the caller knows. What begins here is left to those called.
constexpr uint32_t kSampledFlag = 1, kRandomFlag = 2;

struct Ids {
  uint64_t trace_high, trace_low, parent;
  uint64_t context_after = 0;
  uint32_t trace_flags = kSampledFlag;
};

// Fills a free slot. The id, published last, makes it valid for tokens; the version makes it valid for readers.
uint64_t BeginSlot(Slot* slot, const char* route, const Ids& ids, uint64_t begin, uint32_t gate, ThreadRing* ring) {
  const uint64_t id = NewId();
  const auto [route_index, route_name] = PlaceOf(route);
  for (Half* half : {&slot->label_claims, &slot->size_claims, &slot->stage_count, &slot->size_bucket, &slot->tokens,
                     &slot->host_id_words})
    half->store(0, kRelease);
  for (Word* word : {&slot->deadline_ns, &slot->taken, &slot->batch, &slot->taken_ticks, &slot->first_token_ticks,
                     &slot->last_token_ticks, &slot->max_gap_ticks})
    word->store(0, kRelease);
  for (Word& label : slot->labels) label.store(0, kRelease);
  for (Half& name : slot->size_names) name.store(0, kRelease);
  slot->trace_high.store(ids.trace_high, kRelease);
  slot->trace_low.store(ids.trace_low, kRelease);
  slot->trace_flags.store(ids.trace_flags, kRelease);
  slot->parent.store(ids.parent, kRelease);
  slot->context_after.store(ids.context_after, kRelease);
  slot->begin_ticks.store(begin, kRelease);
  slot->route_name.store(route_name.index, kRelease);
  slot->route_index.store(route_index, kRelease);
  slot->begin_thread.store(ring != nullptr ? ring->number.load(kRelaxed) : 0, kRelease);
  const uint64_t late_after_ns = g_routes[route_index].late_after_ns.load(kRelaxed);
  slot->late_ticks.store(late_after_ns != 0 ? TicksAfter(begin, late_after_ns) : ~uint64_t{0}, kRelease);
  slot->state.store(((slot->state.load(kRelaxed) + kOneVersion) & ~kUsers) + 1, kRelease);
  slot->id.store(id, kRelease);
  Count(g_begun);
  // Stamped last: a request that began before the table is read is then in the table.
  Emit(ring, kRequestBeginSite, begin, detail::Clock(gate),
       {id, ids.parent, ids.trace_high, ids.trace_low, route_name.index});
  return id;
}

void StampStage(const SlotUse& slot, const char* name) {
  if (!slot) return;
  const uint64_t now = detail::Clock(Gate());
  const uint64_t begin = slot->begin_ticks.load(kRelaxed);
  const uint64_t at = slot->stage_count.load(kRelaxed);
  if (at >= Request::kMaxStages) {
    // From now on the last stage also covers later ones.
    Word& last = slot->stages[Request::kMaxStages - 1];
    last.store(static_cast<uint64_t>(Intern("(later stages)").index) << 48 | (last.load(kRelaxed) & kStageTicksMask),
               kRelease);
    return Count(g_details_refused);
  }
  const uint64_t ticks = now > begin ? now - begin : 0;
  slot->stages[at].store(static_cast<uint64_t>(Intern(name).index) << 48 | (ticks & kStageTicksMask), kRelease);
  slot->stage_count.store(static_cast<uint32_t>(at) + 1, kRelease);
}

// Several threads may run these two for one request. A reader finds a detail whole or not at all.
void AddLabel(const SlotUse& slot, const char* key, const char* value) {
  if (!slot) return;
  const uint32_t at = slot->label_claims.fetch_add(1, kRelaxed);
  if (at >= Request::kMaxLabels) return Count(g_details_refused);
  const auto [position, name] = g_label_values.Put(value != nullptr ? value : "");
  if (position == 0) Count(g_labels_folded);
  slot->labels[at].store((Intern(key).index + 1) | static_cast<uint64_t>(name.index) << 32, kRelease);
}

void AddSize(const SlotUse& slot, const char* name, double value) {
  if (!slot) return;
  const uint32_t at = slot->size_claims.fetch_add(1, kRelaxed);
  if (at >= Request::kMaxSizes) return Count(g_details_refused);
  if (at == 0) {
    // 1 + floor(log2); everything below 1 (and NaN) is in bucket 1.
    uint32_t bucket = 1;
    if (value >= 1) bucket = value < 9e18 ? static_cast<uint32_t>(std::bit_width(static_cast<uint64_t>(value))) : 63;
    slot->size_bucket.store(std::min<uint32_t>(bucket, 63), kRelease);
  }
  slot->size_values[at].store(std::bit_cast<uint64_t>(value), kRelease);
  slot->size_names[at].store(Intern(name).index + 1, kRelease);
}

// Raises a word to at least `value`; returns its previous value.
uint64_t Raise(Word& word, uint64_t value) {
  uint64_t before = word.load(kRelaxed);
  while (before < value && !word.compare_exchange_weak(before, value, kRelease, kRelaxed)) {}
  return before;
}

// Several threads may run this for one request.
void MarkTokens(const SlotUse& slot, uint64_t id, uint32_t count) {
  if (!slot || count == 0) return;
  ThreadRing* ring = EnterThread();
  const uint64_t now = detail::Clock(Gate());
  const uint64_t last = Raise(slot->last_token_ticks, now);
  const uint64_t before = last != 0 ? last : slot->begin_ticks.load(kRelaxed);
  const uint64_t gap = now > before ? now - before : 0;
  if (last == 0) {
    slot->first_token_ticks.store(gap, kRelease);
  } else {
    Raise(slot->max_gap_ticks, gap);
    NoteTokenGap(slot->route_index.load(kRelaxed), NsOfTicks(gap));
  }
  slot->tokens.fetch_add(count, kRelease);
  Emit(ring, kTokensSite, now, now, {id, count});
  Tell([&](RequestObserver* observer) {
    observer->OnTokens(ViewOf(*slot, id, Outcome::kOk, now), before, NsOfTicks(gap));
  });
}

bool SlotIsLate(uint32_t index, uint64_t id, uint64_t now) {
  const Slot* slot = SlotOf(index, id);
  if (slot == nullptr) return false;
  const uint64_t late = slot->late_ticks.load(kAcquire);
  // If it came from a later request, that request's beginning came with it: the id then differs.
  return now > late && slot->id.load(kRelaxed) == id;
}
bool SlotIsLate(uint32_t index, uint64_t id) { return SlotIsLate(index, id, detail::Clock(Gate())); }

// Queue and thread of a token; 0 if they are another process's numbers.
uint32_t QueueOf(const Token& token) { return IsForeign(token) ? 0 : token.queue; }
uint32_t EnqueuerOf(const Token& token) { return IsForeign(token) ? 0 : token.thread; }

// The remaining information in a token: none, if its request has ended; no enqueue, if that was the last one taken.
struct Taken {
  bool is_over;
  uint64_t enqueued_ticks;
};
// `batch` takes the request; 0: the calling thread.
Taken Take(const Token& token, uint64_t batch, uint64_t now) {
  if (IsForeign(token)) {
    Count(g_taken_from_others);
    NoteWork();
    return {false, token.enqueued_ticks};
  }
  const SlotUse slot(token.slot, token.request);
  if (!slot) return {true, 0};
  slot->taken_ticks.store(now, kRelease);
  if (batch != 0) slot->batch.store(batch, kRelease);
  const uint64_t enqueue = token.enqueued_ticks ^ static_cast<uint64_t>(token.queue) << 48;
  const bool is_again = token.enqueued_ticks != 0 && slot->taken.exchange(enqueue, kRelaxed) == enqueue;
  return {false, is_again ? 0 : token.enqueued_ticks};
}

// Records that a request became a member of a batch. Returns whether it did.
bool JoinAt(ThreadRing* ring, uint64_t batch, const Token& token, double work, const Taken& taken, uint64_t now) {
  if (taken.is_over) return false;
  if (!IsForeign(token) && SlotIsLate(token.slot, token.request, now))
    Tell([](RequestObserver* observer) { observer->OnLateMember(); });
  const uint64_t from = QueueOf(token) | static_cast<uint64_t>(EnqueuerOf(token)) << 32;
  if (work > 0) {  // infinite work is left out by readers
    Emit(ring, kJoinSite, now, now, {batch, token.request, taken.enqueued_ticks, from, std::bit_cast<uint64_t>(work)});
  } else {
    Emit(ring, kJoinSite, now, now, {batch, token.request, taken.enqueued_ticks, from});
  }
  return true;
}

}  // namespace

namespace {
bool IsWorkMirrored(const ThreadRing& ring) {
  return (ring.gate & detail::kFastClock) == 0 &&
         std::any_of(g_mirrors.begin(), g_mirrors.end(),
                     [](const MirrorSlot& slot) { return slot.is_on.load(std::memory_order_relaxed); });
}
}  // namespace

// A reader goes backwards: events have the context before the next record of a change. So the end of a step with events
// needs a record, and its beginning only if events without a request came before.
void BeginStepContext(ThreadRing* ring, uint64_t request, uint64_t now) noexcept {
  Step* step = StepOn(ring);
  step->head = ring->head;
  const bool is_silent = ring->head == step->context_head && ring->request == 0 && !IsWorkMirrored(*ring);
  if (!is_silent) return SetContext(ring, request, now);
  __atomic_store_n(&ring->request, request, __ATOMIC_RELEASE);
}

void EndStepContext(ThreadRing* ring, uint64_t now) noexcept {
  Step* step = StepOn(ring);
  const uint64_t outer = step->outer;
  step->outer = 0;
  if (ring->request == outer) return;
  if (ring->head == step->head && !IsWorkMirrored(*ring))
    return __atomic_store_n(&ring->request, outer, __ATOMIC_RELEASE);
  SetContext(ring, outer, now);
  step->context_head = ring->head;
}

namespace {

// If two end at once, one may not count. A long one is forgotten within some thousand.
void NoteEndedWell(Route* route, uint64_t now, uint64_t latency_ns) {
  constexpr uint64_t kForgotten = 1024;
  const uint64_t before_ns = route->longest_ns.load(kRelaxed);
  route->longest_ns.store(std::max(before_ns - before_ns / kForgotten, latency_ns), kRelaxed);
  const uint32_t count = route->ok_count.load(kRelaxed);
  if (count < kFewEnded) route->ok_count.store(count + 1, kRelaxed);
  route->ok_ticks.store(now, kRelaxed);
  if (route->failed_count.load(kRelaxed) != 0) route->failed_count.store(0, kRelaxed);
}

// Its last stage or token, or its beginning.
uint64_t LastStepOf(const Slot& slot) {
  const uint64_t begin = slot.begin_ticks.load(kRelaxed);
  uint64_t last = std::max(begin, slot.last_token_ticks.load(kRelaxed));
  const uint32_t stages = std::min<uint32_t>(slot.stage_count.load(kRelaxed), Request::kMaxStages);
  if (stages != 0) last = std::max(last, begin + (slot.stages[stages - 1].load(kRelaxed) & kStageTicksMask));
  return last;
}

// A client that gives up, or is refused, is no fault of the server, unless it waited longer than is usual. If two end
// at once, one may not count.
void NoteEndedOtherwise(Route* route, Outcome outcome, uint64_t last_step, uint64_t now) {
  constexpr uint64_t kLeastNs = 1'000'000'000, kMostNs = 5'000'000'000;
  const uint64_t long_ns = std::clamp(route->longest_ns.load(kRelaxed), kLeastNs, kMostNs);
  const bool is_server = outcome == Outcome::kFailed || outcome == Outcome::kTimedOut;
  if (!is_server && NsOfTicks(now > last_step ? now - last_step : 0) < long_ns) return;
  const uint32_t count = route->failed_count.load(kRelaxed);
  if (count == 0) route->failing_ticks.store(last_step, kRelaxed);
  route->failed_ticks.store(now, kRelaxed);
  if (count < ~uint32_t{0}) route->failed_count.store(count + 1, kRelaxed);
}

// The bytes of the table that were ever used; the others are zero, and are not touched for a copy.
uint64_t UsedBytes(uint64_t bytes) { return std::min(bytes, uint64_t{g_fresh.load(kAcquire)} * sizeof(Slot)); }

// Other memory comes in the place of the table, with its content. A thread in the middle of a request loses what it
// writes meanwhile. If there is none, the table stays where it is.
void MoveIntoBox(Box* box, uint64_t bytes) PITOT_REQUIRES(g_requests_mutex) {
  BoxPart part;
  void* const to = box->TakePart(bytes, bytes, &part);
  if (to == nullptr || !GuardRange(g_slot_memory, bytes)) return;
  std::memcpy(to, static_cast<void*>(g_slot_memory), UsedBytes(bytes));
  if (!box->MapAt(g_slot_memory, part.offset, bytes)) return UnguardRange(g_slot_memory);
  g_slot_bytes_in_box = bytes;
  box->header()->slot_bytes = sizeof(Slot);
  box->header()->requests = part;
}

void MoveOutOfBox() PITOT_REQUIRES(g_requests_mutex) {
  const uint64_t bytes = g_slot_bytes_in_box;
  void* const to = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (to == MAP_FAILED) return;
  std::memcpy(to, static_cast<void*>(g_slot_memory), UsedBytes(bytes));
  if (mremap(to, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, g_slot_memory) == MAP_FAILED) return;
  UnguardRange(g_slot_memory);
  g_slot_bytes_in_box = 0;
}

}  // namespace

bool OpenRequests(uint32_t max_open, Box* box) noexcept {
  const base::MutexLock lock(&g_requests_mutex);
  if (g_id_seed.load(kRelaxed) == 0) SeedIds();
  if (g_slot_memory == nullptr) {
    void* memory = mmap(nullptr, sizeof(Slot) * kMostSlots, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    static_assert(std::is_trivially_copyable_v<uint64_t> && Half::is_always_lock_free && Word::is_always_lock_free);
    g_slot_memory = static_cast<Slot*>(memory);  // zero bytes are an unused slot
    OfParent().slots.store(memory, kRelease);
  }
  g_max_open.store(std::min(max_open, kMostSlots), kRelaxed);
  if (box != nullptr) {
    constexpr uint32_t kMore = 64;  // threads that refuse a request may hold a slot for a moment
    MoveIntoBox(box, std::min(g_max_open.load(kRelaxed) + kMore, kMostSlots) * sizeof(Slot) / kBoxPage * kBoxPage);
  }
  for (Word* counter : {&g_begun, &g_finished, &g_abandoned, &g_refused_requests, &g_labels_folded, &g_details_refused})
    counter->store(0, kRelaxed);
  for (Route& route : g_routes) {
    route.ok_ticks.store(0, kRelaxed);
    route.longest_ns.store(0, kRelaxed);
    route.ok_count.store(0, kRelaxed);
    route.failed_count.store(0, kRelaxed);
  }
  return true;
}

bool KeepRoute(const char* route) noexcept { return PlaceOf(route).position != 0; }

void CloseRequests() noexcept {
  const base::MutexLock lock(&g_requests_mutex);
  g_max_open.store(0, kRelaxed);
  for (uint32_t i = 0, used = g_fresh.load(kRelaxed); i < used; ++i) {
    const uint64_t id = g_slot_memory[i].id.load(kAcquire);
    // A request that is just being begun is ended by its handle.
    if (id != 0 && CloseSlot(&g_slot_memory[i], id)) LeaveClosed(&g_slot_memory[i]);
  }
  if (g_slot_bytes_in_box != 0) MoveOutOfBox();
}

void ForgetRequestsAfterFork() noexcept {
  new (&g_requests_mutex) base::Mutex;
  const base::MutexLock lock(&g_requests_mutex);
  g_observer.store(nullptr);
  for (Shard& shard : g_shards) shard.inside.store(0, kRelaxed);
  g_id_seed.store(0, kRelaxed);  // a child has its own ids
  if (g_slot_bytes_in_box != 0) {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    static_cast<void>(
        mmap(g_slot_memory, std::exchange(g_slot_bytes_in_box, 0), PROT_READ | PROT_WRITE, kFlags, -1, 0));
  }
  for (uint32_t i = 0, used = g_fresh.load(kRelaxed); i < used; ++i) {
    Slot& slot = g_slot_memory[i];
    slot.id.store(0, kRelaxed);
    const uint64_t state = slot.state.load(kRelaxed);
    slot.state.store((state + (state & kOneVersion)) & ~kUsers, kRelaxed);  // its users may not exist here
  }
  OfParent().slots.store(g_slot_memory, kRelease);
  g_free.store(0, kRelaxed);
  for (Half* count : {&g_fresh, &g_open, &g_max_open}) count->store(0, kRelaxed);
}

bool SetRequestObserver(RequestObserver* observer, uint64_t timeout_ns) noexcept {
  g_observer.exchange(observer);
  if (observer != nullptr) return true;
  const int64_t deadline = MonotonicNs() + static_cast<int64_t>(timeout_ns);
  for (Shard& shard : g_shards) {
    while (shard.inside.load() != 0) {
      if (MonotonicNs() > deadline) return false;
      sched_yield();
    }
  }
  return true;
}

void RefreshLateness() noexcept {
  g_lateness_asked.fetch_add(1);
  for (Route& route : g_routes) {
    if (route.name.load(kAcquire) != nullptr) AskLateness(route);
  }
}

namespace {

// Copies an open request, and has `add` do the rest. False: there is none, or it changes all the time.
template <class Add> bool CopySlot(const Slot& slot, const Add& add, OpenRequest* copy) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    const uint64_t state = slot.state.load(kAcquire);
    const uint64_t id = slot.id.load(kAcquire);
    if (id == 0) return false;
    copy->is_ending = !IsOpen(state);
    CopyWords(slot, {}, &copy->words);
    copy->begin_ticks = slot.begin_ticks.load(kAcquire);
    copy->begin_thread = slot.begin_thread.load(kAcquire);
    copy->late_ticks = slot.late_ticks.load(kAcquire);
    copy->token_ticks = slot.last_token_ticks.load(kAcquire);
    copy->batch = slot.batch.load(kAcquire);
    copy->taken_ticks = slot.taken_ticks.load(kAcquire);
    add(id);
    if (slot.id.load(kAcquire) == id && VersionOf(slot.state.load(kAcquire)) == VersionOf(state)) return true;
  }
  return false;
}

}  // namespace

void VisitOpenRequests(void (*visit)(void*, const OpenRequest&), void* context) noexcept {
  const Slot* const slots = Slots();
  const uint32_t gate = Gate();
  if (slots == nullptr || gate == 0) return;
  OpenRequest copy;
  for (uint32_t i = 0, used = g_fresh.load(kAcquire); i < used; ++i) {
    const Slot& slot = slots[i];
    const auto add_view = [&](uint64_t id) {
      const uint64_t now = detail::Clock(gate), token = slot.last_token_ticks.load(kAcquire);
      copy.token_gap_ns = token != 0 && now > token ? NsOfTicks(now - token) : 0;
      copy.view = ViewOf(slot, id, Outcome{}, now);
    };
    if (CopySlot(slot, add_view, &copy)) visit(context, copy);
  }
}

void VisitRequestsIn(const void* table, uint64_t bytes, void (*visit)(void*, const OpenRequest&),
                     void* context) noexcept {
  const auto* const slots = static_cast<const Slot*>(table);
  OpenRequest copy;
  for (uint64_t i = 0; i < bytes / sizeof(Slot); ++i) {
    if (CopySlot(
            slots[i], [](uint64_t) {}, &copy))
      visit(context, copy);
  }
}

uint32_t RequestSlotBytes() noexcept { return sizeof(Slot); }

void RequestObserver::OnBatch(uint32_t, uint32_t, uint64_t) noexcept {}
void RequestObserver::OnLateMember() noexcept {}
void RequestObserver::OnWork() noexcept {}

// Once a rest: the thread that ends it tells.
void EndRest() noexcept {
  if (g_is_anyone_resting.exchange(false)) Tell([](RequestObserver* observer) { observer->OnWork(); });
}

RequestCounts CountRequests() noexcept {
  RequestCounts counts;
  counts.begun = g_begun.load(kRelaxed);
  counts.finished = g_finished.load(kRelaxed);
  counts.abandoned = g_abandoned.load(kRelaxed);
  counts.open = g_open.load(kRelaxed);
  counts.refused = g_refused_requests.load(kRelaxed);
  counts.labels_folded = g_labels_folded.load(kRelaxed);
  counts.details_refused = g_details_refused.load(kRelaxed);
  return counts;
}

RouteProgress ProgressOfRoute(uint32_t position) noexcept {
  const Route& route = g_routes[position];
  const bool is_known = route.ok_count.load(kRelaxed) >= kFewEnded;
  RouteProgress progress{route.name_index.load(kRelaxed), route.ok_ticks.load(kRelaxed),
                         is_known ? route.longest_ns.load(kRelaxed) : 0};
  if (const uint32_t failed = route.failed_count.load(kRelaxed); failed >= kFewFailed) {
    progress.failing_ticks = route.failing_ticks.load(kRelaxed);
    progress.failed_ticks = route.failed_ticks.load(kRelaxed);
    progress.failed = failed;
  }
  return progress;
}

uint64_t CountOpenBatches() noexcept { return g_open_batches.load(kRelaxed); }

Activity CountActivity() noexcept {
  return {g_next_id.load(kRelaxed) + g_taken_from_others.load(kRelaxed), g_open.load() + g_open_batches.load()};
}

uint64_t RequestBytes() noexcept { return sizeof(Slot) * uint64_t{g_fresh.load(kRelaxed)}; }

void SeedIdsForTesting(uint64_t seed) noexcept {
  g_id_seed.store(seed + 0x9e3779b97f4a7c15, kRelaxed);  // far from 0, which Mix leaves as it is
  g_next_id.store(0, kRelaxed);
}

}  // namespace pitot::trace

PITOT_NAMESPACE_BEGIN

using namespace trace;  // NOLINT: this part only implements the public classes on what stands above

const char* OutcomeName(Outcome outcome) noexcept {
  static constexpr const char* kNames[] = {"open", "ok", "failed", "cancelled", "timed_out", "shed", "abandoned"};
  const auto i = static_cast<size_t>(outcome);
  return i < std::size(kNames) ? kNames[i] : "open";
}

const char* BatchCloseName(BatchClose close) noexcept {
  static constexpr const char* kNames[] = {"unknown", "full", "timeout", "flush", "step"};
  const auto i = static_cast<size_t>(close);
  return i < std::size(kNames) ? kNames[i] : "unknown";
}

Timestamp Now() noexcept {
  const uint32_t gate = Gate();
  return {gate != 0 ? detail::Clock(gate) : 0};
}

bool IsLate(const Token& token) noexcept { return !IsForeign(token) && SlotIsLate(token.slot, token.request); }
void Stage(const Token& token, const char* name) noexcept { StampStage(SlotUse(token), name); }
void Emit(const Token& token, uint32_t count) noexcept { MarkTokens(SlotUse(token), token.request, count); }
void SetLabel(const Token& token, const char* key, const char* value) noexcept { AddLabel(SlotUse(token), key, value); }
void SetSize(const Token& token, const char* name, double value) noexcept { AddSize(SlotUse(token), name, value); }

Token Enqueue(const Token& token, const char* queue) noexcept {
  const bool is_foreign = IsForeign(token);
  if (!is_foreign && SlotOf(token.slot, token.request) == nullptr) return {};
  Token out = token;
  ThreadRing* ring = EnterThread();
  if (token.request == 0 || Gate() == 0) return out;
  out.enqueued_ticks = detail::Clock(Gate());
  // Their numbers are this process's: a token of another one has none.
  out.queue = is_foreign ? 0 : Intern(queue).index;
  out.thread = is_foreign || ring == nullptr ? 0 : ring->number.load(kRelaxed);
  trace::Emit(ring, kEnqueueSite, out.enqueued_ticks, out.enqueued_ticks, {out.request, out.queue});
  return out;
}

namespace {
uint64_t BeginRequest(const char* route, Ids ids, uint64_t arrival, uint32_t* slot_index) {
  const uint32_t gate = Gate();
  Slot* slots = Slots();
  if (gate == 0 || slots == nullptr) return 0;
  ThreadRing* ring = EnterThread();
  Slot* slot = TakeSlot(slots, slot_index);
  if (slot == nullptr) {
    Count(g_refused_requests);
    return 0;
  }
  if ((ids.trace_high | ids.trace_low) == 0) ids.trace_high = NewId(), ids.trace_low = NewId();
  const uint64_t now = detail::Clock(gate);
  const uint64_t begin = arrival != 0 && arrival < now ? arrival : now;
  const uint64_t id = BeginSlot(slot, route, ids, begin, gate, ring);
  SetContext(ring, id, now);
  NoteWork();
  return id;
}
}  // namespace

Request Request::Begin(const char* route, const char* traceparent, Timestamp arrival) noexcept {
  Ids ids{};
  if (!ParseTraceparent(traceparent, &ids.trace_high, &ids.trace_low, &ids.parent, &ids.trace_flags)) ids = {};
  Request request;
  request.id_ = BeginRequest(route, ids, arrival.ticks, &request.slot_);
  return request;
}

Request Request::BeginChild(const char* route) noexcept {
  Request child;
  if (const SlotUse slot{slot_, id_})
    child.id_ = BeginRequest(
        route,
        {slot->trace_high.load(kRelaxed), slot->trace_low.load(kRelaxed), id_, id_, slot->trace_flags.load(kRelaxed)},
        0, &child.slot_);
  return child;
}

Request Request::BeginFrom(const Token& token, const char* route) noexcept {
  Ids ids{0, 0, token.request};
  if (const SlotUse slot{token}) {
    ids.trace_high = slot->trace_high.load(kRelaxed), ids.trace_low = slot->trace_low.load(kRelaxed);
    ids.trace_flags = slot->trace_flags.load(kRelaxed);
  }
  Request request;
  request.id_ = BeginRequest(route, ids, token.enqueued_ticks, &request.slot_);
  return request;
}

Request& Request::operator=(Request&& other) noexcept {
  if (this == &other) return *this;
  if (id_ != 0) Finish(Outcome::kAbandoned);
  slot_ = other.slot_;
  id_ = other.id_;
  other.id_ = 0;
  return *this;
}

void Request::WriteTraceparent(char (&out)[56]) const noexcept {
  out[0] = '\0';
  const SlotUse slot(slot_, id_);
  if (!slot) return;
  const auto put = [&out](int at, uint64_t value) {
    for (int i = 0; i < 16; ++i) out[at + i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
  };
  std::memcpy(out, "00-", 3);
  put(3, slot->trace_high.load(kRelaxed));
  put(19, slot->trace_low.load(kRelaxed));
  out[35] = '-';
  put(36, id_);
  std::memcpy(out + 52, "-00", 4);
  // Flags of later versions of the standard may mean what Pitot does not do.
  out[54] = static_cast<char>('0' + (slot->trace_flags.load(kRelaxed) & (kSampledFlag | kRandomFlag)));
}

void Request::SetId(const char* id) noexcept {
  const SlotUse slot(slot_, id_);
  const size_t size = id != nullptr ? strnlen(id, kMaxIdBytes + 1) : 0;
  if (!slot || size == 0) return;
  if (slot->host_id_words.load(kRelaxed) != 0) return Count(g_details_refused);
  if (size > kMaxIdBytes) Count(g_details_refused);
  uint64_t words[kRequestIdWords] = {};
  size_t kept = std::min<size_t>(size, kMaxIdBytes);
  // No part of a character of UTF-8 stays.
  while (size > kMaxIdBytes && kept > 0 && (static_cast<unsigned char>(id[kept]) & 0xc0) == 0x80) --kept;
  const size_t count = (kept + 7) / 8;
  std::memcpy(words, id, kept);
  for (size_t i = 0; i < count; ++i) slot->host_id[i].store(words[i], kRelease);
  slot->host_id_words.store(static_cast<uint32_t>(count), kRelease);
}

void Request::SetLabel(const char* key, const char* value) noexcept { AddLabel(SlotUse(slot_, id_), key, value); }
void Request::SetSize(const char* name, double value) noexcept { AddSize(SlotUse(slot_, id_), name, value); }

void Request::SetDeadline(uint64_t ns) noexcept {
  const SlotUse slot(slot_, id_);
  if (!slot || ns == 0) return;
  constexpr uint64_t kMaxNs = uint64_t{1} << 62;  // model::kMaxTimeNs: 146 years
  slot->deadline_ns.store(std::min(ns, kMaxNs), kRelease);
  const uint64_t at = TicksAfter(slot->begin_ticks.load(kRelaxed), ns);
  if (at < slot->late_ticks.load(kRelaxed)) slot->late_ticks.store(at, kRelease);
}

void Request::Stage(const char* name) noexcept { StampStage(SlotUse(slot_, id_), name); }
void Request::Emit(uint32_t count) noexcept { MarkTokens(SlotUse(slot_, id_), id_, count); }
bool Request::IsLate() const noexcept { return SlotIsLate(slot_, id_); }

Token Request::token() const noexcept {
  Token token;
  if (SlotOf(slot_, id_) == nullptr) return token;
  token.request = id_;
  token.slot = slot_;
  token.process = g_process.load(kRelaxed);
  return token;
}

Token Request::Enqueue(const char* queue) noexcept { return pitot::Enqueue(token(), queue); }

void Request::Finish(Outcome outcome, const char* reason) noexcept {
  Slot* slot = FindSlot(slot_, id_);
  const uint64_t id = id_;
  id_ = 0;
  if (slot == nullptr || !CloseSlot(slot, id)) return;
  if (Gate() == 0) return LeaveClosed(slot);  // begun while the recorder was stopping
  if (outcome < Outcome::kOk || outcome > Outcome::kAbandoned) outcome = Outcome::kAbandoned;
  ThreadRing* ring = EnterThread();
  const uint64_t now = detail::Clock(Gate());
  const uint64_t begin_ticks = slot->begin_ticks.load(kRelaxed);
  const RequestView view = ViewOf(*slot, id, outcome, now);
  if (ring != nullptr) {
    RecordWords words;
    CopyWords(*slot, {outcome, ReasonOf(reason)}, &words);
    detail::Append(ring, &kRequestEndSite, begin_ticks, now, words);
    const uint64_t after = slot->context_after.load(kRelaxed);
    if (ring->request == id) SetContext(ring, after, now);
    if (Step* step = StepOn(ring); step->outer == id) step->outer = after;
  }
  Route* const route = &g_routes[view.route_index];
  if (outcome == Outcome::kOk)
    NoteEndedWell(route, now, view.latency_ns);
  else
    NoteEndedOtherwise(route, outcome, LastStepOf(*slot), now);
  LeaveClosed(slot);
  NoteLatency(view);
  Count(g_finished);
  if (outcome == Outcome::kAbandoned) Count(g_abandoned);
  Tell([&](RequestObserver* observer) { observer->OnFinish(view, begin_ticks); });
}

Adopt::Adopt(const Token& token) noexcept : ring_(nullptr), before_(0) {
  if (token.request == 0) return;
  ThreadRing* ring = EnterThread();
  if (ring == nullptr) return;
  const uint64_t now = detail::Clock(ring->gate);
  const Taken taken = Take(token, 0, now);
  if (taken.is_over) return;
  if (taken.enqueued_ticks != 0)
    trace::Emit(ring, kTakeSite, now, now, {token.request, taken.enqueued_ticks, QueueOf(token), EnqueuerOf(token)});
  before_ = ring->request;
  SetContext(ring, token.request, now);
  ring_ = ring;
}

Adopt::~Adopt() {
  if (ring_ == nullptr) return;
  if (ring_ != detail::t_ring) {
    detail::CloseElsewhere();
  } else {
    SetContext(static_cast<ThreadRing*>(ring_), before_, detail::Clock(ring_->gate));
  }
}

Batch Batch::Begin(const char* executor) noexcept { return Begin(executor, nullptr); }

Batch Batch::Begin(const char* executor, const char* work_unit) noexcept {
  Batch batch;
  ThreadRing* ring = EnterThread();
  if (ring == nullptr) return batch;
  batch.id_ = NewId();
  g_open_batches.fetch_add(1);  // as NoteWork requires
  NoteWork();
  batch.begin_ = detail::Clock(ring->gate);
  batch.info_ = Intern(executor).index;
  if (work_unit != nullptr) batch.info_ |= uint64_t{Intern(work_unit).index} << kUnitShift;
  trace::Emit(ring, kBatchBeginSite, batch.begin_, batch.begin_, {batch.id_, batch.info_});
  SetBatchContext(ring, batch.id_, Name{ExecutorOf(batch.info_)}, batch.begin_);
  trace::t_launches = {batch.id_};
  return batch;
}

Batch& Batch::operator=(Batch&& other) noexcept {
  if (this == &other) return *this;
  if (id_ != 0) Finish();
  id_ = other.id_;
  begin_ = other.begin_;
  submitted_ = other.submitted_;
  info_ = other.info_;
  other.id_ = 0;
  return *this;
}

void Batch::Join(const Token& token) noexcept { Join(token, 0); }

void Batch::Join(const Token& token, double work) noexcept {
  ThreadRing* ring = id_ != 0 ? EnterThread() : nullptr;
  if (ring == nullptr || token.request == 0) return;
  const uint64_t now = detail::Clock(ring->gate);
  if (JoinAt(ring, id_, token, work, Take(token, id_, now), now)) info_ = WithJoins(info_, 1);
}

void Batch::JoinMany(const Token* tokens, const double* work, size_t count) noexcept {
  ThreadRing* ring = id_ != 0 && tokens != nullptr ? EnterThread() : nullptr;
  if (ring == nullptr) return;
  const uint64_t now = detail::Clock(ring->gate);
  uint64_t joins = 0;
  for (size_t i = 0; i < count; ++i) {
    if (tokens[i].request == 0) continue;
    joins += JoinAt(ring, id_, tokens[i], work != nullptr ? work[i] : 0, Take(tokens[i], id_, now), now) ? 1 : 0;
  }
  info_ = WithJoins(info_, joins);
}

void Batch::Leave(const Token& token) noexcept {
  ThreadRing* ring = id_ != 0 ? EnterThread() : nullptr;
  if (ring == nullptr || token.request == 0) return;
  const uint64_t now = detail::Clock(ring->gate);
  trace::Emit(ring, kLeaveSite, now, now, {id_, token.request});
}

void Batch::Close(BatchClose why) noexcept {
  info_ = (info_ & ~(uint64_t{0xff} << 32)) | static_cast<uint64_t>(why) << 32;
}

void Batch::Submitted() noexcept {
  ThreadRing* ring = id_ != 0 ? EnterThread() : nullptr;
  if (ring == nullptr) return;
  submitted_ = detail::Clock(ring->gate);
  // Finish records it, too; but a batch may hang before its end.
  trace::Emit(ring, kSubmittedSite, begin_, submitted_, {id_, info_ & kInfoMask});
}

void Batch::Finish() noexcept {
  const uint64_t id = std::exchange(id_, 0);
  if (id == 0) return;
  g_open_batches.fetch_sub(1, kRelaxed);
  ThreadRing* ring = EnterThread();
  if (ring == nullptr) return;
  const uint64_t now = detail::Clock(ring->gate);
  const uint64_t submitted = submitted_ != 0 ? submitted_ - begin_ : 0;
  const trace::Launches& launches = trace::t_launches;
  if (launches.batch == id && launches.count != 0) {
    trace::Emit(ring, kBatchEndSite, begin_, now, {id, info_ & kInfoMask, submitted, trace::Packed(launches)});
  } else {
    trace::Emit(ring, kBatchEndSite, begin_, now, {id, info_ & kInfoMask, submitted});
  }
  if (ring->batch == id) SetBatchContext(ring, 0, Name{0}, now);
  const uint64_t duration_ns = NsOfTicks(now > begin_ ? now - begin_ : 0);
  Tell([&](RequestObserver* observer) {
    observer->OnBatch(ExecutorOf(info_), static_cast<uint32_t>(info_ >> kMembersShift), duration_ns);
  });
}

AsyncScope::AsyncScope(const Site* begin_site, const Site* end_site, const Token& token) noexcept
    : end_site_(end_site) {
  ThreadRing* ring = EnterThread();
  if (ring == nullptr || token.request == 0) return;
  id_ = NewId();
  request_ = token.request;
  const uint64_t now = detail::Clock(ring->gate);
  trace::Emit(ring, *begin_site, now, now, {request_, id_});
}

AsyncScope& AsyncScope::operator=(AsyncScope&& other) noexcept {
  if (this == &other) return *this;
  if (id_ != 0) End();
  end_site_ = other.end_site_;
  id_ = other.id_;
  request_ = other.request_;
  other.id_ = 0;
  return *this;
}

void AsyncScope::End() noexcept {
  const uint64_t id = id_;
  id_ = 0;
  ThreadRing* ring = id != 0 ? EnterThread() : nullptr;
  if (ring == nullptr) return;
  const uint64_t now = detail::Clock(ring->gate);
  trace::Emit(ring, *end_site_, now, now, {request_, id});
}

PITOT_NAMESPACE_END
