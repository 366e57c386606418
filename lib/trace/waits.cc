// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "pitot/wait.h"
#include "trace/internal_sites.h"
#include "trace/rings.h"

PITOT_NAMESPACE_BEGIN
namespace {

using WaitArgs = detail::ArgList<uint64_t, Name, uint64_t, uint64_t>;
using ConditionArgs = detail::ArgList<uint64_t, Name, uint64_t, uint64_t, uint64_t>;

constexpr char kLockText[] = "\"\", kind, resource, owner_thread, owner_request";
constexpr Site kLockSite{kSiteMagic,        SiteKind::kWait, WaitArgs::kCount, 0,      __LINE__,
                         WaitArgs::Types(), "wait",          "pitot/wait.h",   "lock", kLockText};

using ReleaseArgs = detail::ArgList<uint64_t, Name>;
constexpr Site kReleaseSite{kSiteMagic, SiteKind::kInstant,    ReleaseArgs::kCount, 0,
                            __LINE__,   ReleaseArgs::Types(),  "release",           "pitot/wait.h",
                            "unlock",   "\"\", kind, resource"};

static_assert(WaitArgs::kCount <= trace::kMaxOpenArgs);

// A thread asleep in a ConditionVariable, in Mutex::waiters_.
constexpr uint32_t kSleeper = 1 << 16;
// In the owner's number: it has held the mutex since its wait for a condition.
constexpr uint32_t kHasWoken = uint32_t{1} << 31;
// A host needs no longer to look at its predicate.
constexpr uint64_t kLookNs = 100'000;

uint32_t ThreadNumber(detail::Ring* ring) { return static_cast<trace::ThreadRing*>(ring)->number; }

// The holder or notifier is a hint, read without a lock: relaxed words, never torn, possibly of two moments.
void Publish(uint32_t* thread, uint64_t* request, Owner owner) {
  __atomic_store_n(thread, owner.thread, __ATOMIC_RELAXED);
  __atomic_store_n(request, owner.request, __ATOMIC_RELAXED);
}
Owner Look(const uint32_t* thread, const uint64_t* request) {
  return {__atomic_load_n(thread, __ATOMIC_RELAXED) & ~kHasWoken, __atomic_load_n(request, __ATOMIC_RELAXED)};
}

}  // namespace

PITOT_NAMESPACE_END

namespace pitot::trace {

constexpr Site kConditionSite{kSiteMagic,
                              SiteKind::kWait,
                              ConditionArgs::kCount,
                              0,
                              __LINE__,
                              ConditionArgs::Types(),
                              "wait",
                              "pitot/wait.h",
                              "wait",
                              "\"\", kind, resource, owner_thread, owner_request, spurious"};
constexpr Site kRelockSite{kSiteMagic,        SiteKind::kWait, WaitArgs::kCount, 0,      __LINE__,
                           WaitArgs::Types(), "wait",          "pitot/wait.h",   "wait", kLockText};

}  // namespace pitot::trace

PITOT_NAMESPACE_BEGIN

const char* WaitKindName(WaitKind kind) noexcept {
  static constexpr const char* kNames[] = {"other",  "lock",  "condition", "queue", "io",
                                           "future", "sleep", "device",    "other"};
  const auto i = static_cast<size_t>(kind);
  return i < std::size(kNames) ? kNames[i] : "other";
}

Owner ThisOwner() noexcept {
  detail::Ring* ring = detail::Enter();
  return ring != nullptr ? Owner{ThreadNumber(ring), ring->request} : Owner{};
}

Wait::Wait(const Site* site, WaitKind kind, Name resource, Owner owner) noexcept
    : ring_(detail::Enter()), site_(site), begin_(0), depth_(0), kind_(kind), resource_(resource), owner_(owner) {
  if (ring_ != nullptr) Open(0);
}

Wait::Wait(const Site* site, WaitKind kind, const char* resource, Owner owner) noexcept
    : ring_(detail::Enter()), site_(site), begin_(0), depth_(0), kind_(kind), resource_{0}, owner_(owner) {
  if (ring_ == nullptr) return;
  resource_ = Intern(resource);
  Open(0);
}

// A wait for a condition, since `begin` if it goes on (0: it does not).
Wait::Wait(const Site* site, Name resource, uint64_t begin) noexcept
    : ring_(detail::Enter()), site_(site), begin_(0), depth_(0), kind_(WaitKind::kCondition), resource_(resource) {
  if (ring_ != nullptr) Open(begin);
}

void Wait::Open(uint64_t begin) noexcept {
  const uint64_t now = detail::Clock(ring_->gate, detail::Edge::kBegin, site_);
  begin_ = begin != 0 ? begin : now;
  depth_ = ring_->depth;
  WaitArgs args;
  args.Set(static_cast<uint64_t>(kind_), resource_, owner_.thread, owner_.request);
  detail::ShowArgs(ring_, depth_, begin_, args.words, WaitArgs::kCount);
  detail::Push(ring_, site_, begin_);
}

// Reads the clock at the end; 0: it is not open.
uint64_t Wait::EndTicks() const noexcept {
  if (ring_ == nullptr) return 0;
  if (ring_ != detail::t_ring) return detail::CloseElsewhere(), 0;
  // It began in an earlier step of its task (EndStep), which counted it.
  if (depth_ < detail::kMaxOpen && ring_->open[depth_].begin != begin_) return 0;
  return detail::Clock(ring_->gate, detail::Edge::kEnd);
}

void Wait::Record(uint64_t end) const noexcept {
  const auto append = [&](auto args, auto... more) {
    args.Set(static_cast<uint64_t>(kind_), resource_, owner_.thread, owner_.request, more...);
    detail::Append(ring_, site_, begin_, end, args);
  };
  site_ == &trace::kConditionSite ? append(ConditionArgs(), uint64_t{spurious_}) : append(WaitArgs());
}

void Wait::Leave() noexcept {
  detail::ShowArgs(ring_, depth_, 0, nullptr, 0);
  detail::Pop(ring_, depth_);
}

uint64_t Wait::End() noexcept {
  const uint64_t end = EndTicks();
  if (end != 0) Record(end), Leave();
  ring_ = nullptr;
  return end;
}

Wait::~Wait() { End(); }

void Mutex::lock() {
  if (!mutex_.try_lock()) {
    __atomic_fetch_add(&waiters_, 1, __ATOMIC_RELAXED);
    const Wait wait(&kLockSite, WaitKind::kLock, name_, Look(&owner_thread_, &owner_request_));
    mutex_.lock();
    __atomic_fetch_sub(&waiters_, 1, __ATOMIC_RELAXED);
  }
  Publish(&owner_thread_, &owner_request_, ThisOwner());
}

bool Mutex::try_lock() {
  if (!mutex_.try_lock()) return false;
  Publish(&owner_thread_, &owner_request_, ThisOwner());
  return true;
}

void Mutex::unlock() {
  Publish(&owner_thread_, &owner_request_, {});
  const uint32_t waiters = __atomic_load_n(&waiters_, __ATOMIC_RELAXED);
  if (waiters >= kSleeper) holders_[holds_++ % kHolders] = ThisOwner();
  const bool is_awaited = waiters % kSleeper != 0;
  detail::Ring* ring = is_awaited ? detail::Enter() : nullptr;
  if (ring == nullptr) return mutex_.unlock();
  // Stamped before the next owner can have the lock, recorded after the unlock. The next owner may destroy the mutex.
  const Name name = name_;
  const uint64_t now = detail::Clock(ring->gate);
  mutex_.unlock();
  ReleaseArgs args;
  args.Set(static_cast<uint64_t>(WaitKind::kLock), name);
  detail::Append(ring, &kReleaseSite, now, now, args);
}

namespace detail {

ConditionWait::ConditionWait(ConditionVariable* condition, Mutex* mutex) noexcept
    : condition_(condition), mutex_(mutex), wait_(&trace::kConditionSite, condition->name_, ContinuedFrom()) {}

// The beginning of the wait that this one continues, 0 if none. That is one of the same condition and thread, if the
// thread has held the mutex since, has recorded nothing, and had time for no more than a look at the predicate. The
// continuation begins a tick later: its record contains the end of the one before, which it replaces.
uint64_t ConditionWait::ContinuedFrom() noexcept {
  const Ring* const ring = Enter();
  const Mutex::Woken& woken = mutex_->woken_;
  const bool has_held = (__atomic_load_n(&mutex_->owner_thread_, __ATOMIC_RELAXED) & kHasWoken) != 0;
  if (ring == nullptr || !has_held || woken.condition != condition_ || woken.ring != ring || woken.head != ring->head ||
      woken.depth != ring->depth || woken.end <= woken.begin + 1 || Clock(ring->gate) - woken.end > TicksOf(kLookNs))
    return 0;
  spurious_before_ = woken.spurious + 1;
  return woken.begin + 1;
}

ConditionWait::~ConditionWait() {
  Ring* const ring = wait_.ring_;
  // Not if the host has recorded something since, in its predicate: records are in the order of their ends.
  if (relock_.end != 0 && ring == t_ring && ring->events == relock_.events) {
    WaitArgs args;
    args.Set(static_cast<uint64_t>(WaitKind::kLock), mutex_->name_, relock_.owner.thread, relock_.owner.request);
    Append(ring, &trace::kRelockSite, relock_.begin, relock_.end, args);
  }
  const uint64_t end = wait_.End();
  if (end == 0 || is_over_) return;
  mutex_->woken_ = {condition_, ring, ring->head, wait_.begin_, end, ring->depth, wait_.spurious_};
  __atomic_fetch_or(&mutex_->owner_thread_, kHasWoken, __ATOMIC_RELAXED);
}

// A sleep ends by an exception, too: a thread may be cancelled in it.
class ConditionWait::Sleeping {
 public:
  explicit Sleeping(ConditionWait* wait) noexcept : waiters_(&wait->mutex_->waiters_) {
    wait->wait_.spurious_ = wait->spurious_before_ + wait->sleeps_++;
    wait->holds_ = wait->mutex_->holds_ + (wait->sleeps_ == 1 ? 1 : 0);  // its own
    wait->notifications_ = __atomic_load_n(&wait->condition_->notifications_, __ATOMIC_RELAXED);
    __atomic_fetch_add(waiters_, kSleeper, __ATOMIC_RELAXED);
  }
  ~Sleeping() { __atomic_fetch_sub(waiters_, kSleeper, __ATOMIC_RELAXED); }
  Sleeping(const Sleeping&) = delete;
  Sleeping& operator=(const Sleeping&) = delete;

 private:
  uint32_t* const waiters_;
};

void ConditionWait::Sleep() {
  const Sleeping sleeping(this);
  condition_->condition_.wait(*this);
}

bool ConditionWait::SleepFor(uint64_t ns) {
  // A year counts as for ever, and does not overflow the clock.
  constexpr uint64_t kLongestNs = uint64_t{365} * 86'400 * 1'000'000'000;
  const Sleeping sleeping(this);
  const auto timeout = std::chrono::nanoseconds(ns < kLongestNs ? ns : kLongestNs);
  return condition_->condition_.wait_for(*this, timeout) == std::cv_status::no_timeout;
}

// A thread that only looked at its predicate has changed nothing: it is not noted as a holder, and nobody waited for
// it.
void ConditionWait::unlock() {
  if (sleeps_ == 1) return mutex_->unlock();
  Publish(&mutex_->owner_thread_, &mutex_->owner_request_, {});
  mutex_->mutex_.unlock();
}

// A wait for the mutex matters only after the last sleep. The destructor records it.
void ConditionWait::lock() {
  relock_ = {};
  if (!mutex_->mutex_.try_lock()) {
    __atomic_fetch_add(&mutex_->waiters_, 1, __ATOMIC_RELAXED);
    Wait wait(&trace::kRelockSite, WaitKind::kLock, mutex_->name_,
              Look(&mutex_->owner_thread_, &mutex_->owner_request_));
    mutex_->mutex_.lock();
    __atomic_fetch_sub(&mutex_->waiters_, 1, __ATOMIC_RELAXED);
    if (const uint64_t end = wait.EndTicks(); end != 0) {
      relock_ = {wait.begin_, end, wait.ring_->events, wait.owner_};
      wait.Leave();
    }
    wait.ring_ = nullptr;
  }
  Publish(&mutex_->owner_thread_, &mutex_->owner_request_, ThisOwner());
}

void ConditionWait::Wake() noexcept { wait_.SetOwner(FindNotifier()); }

void ConditionWait::Succeed() noexcept {
  Wake();
  is_over_ = true;
}

// Only a holder of the mutex can have made the predicate true since the waiter looked at it last. It is the last one
// that notified; or the only one, if the waiter woke before its notification. A predicate that no holder changed is not
// guarded by the mutex: then it is the last notifier.
Owner ConditionWait::FindNotifier() const noexcept {
  const uint32_t holders = mutex_->holds_ - holds_;
  if (holders == 0) return condition_->NotifierSince(notifications_, 0);
  const auto holder = [&](uint32_t age) { return mutex_->holders_[(mutex_->holds_ - age) % Mutex::kHolders]; };
  bool is_only = holders <= Mutex::kHolders;
  for (uint32_t age = 1; age <= std::min(holders, Mutex::kHolders); ++age) {
    const Owner one = holder(age);
    if (one.thread != 0 && condition_->NotifierSince(notifications_, one.thread).thread != 0) return one;
    is_only &= one.thread == holder(1).thread;
  }
  return is_only ? holder(1) : Owner{};
}

}  // namespace detail

void ConditionVariable::NoteNotifier() noexcept {
  Owner* const next = &notifiers_[__atomic_fetch_add(&notifications_, 1, __ATOMIC_RELAXED) % kNotifiers];
  Publish(&next->thread, &next->request, ThisOwner());
}

Owner ConditionVariable::NotifierSince(uint32_t notifications, uint32_t thread) const noexcept {
  const uint32_t now = __atomic_load_n(&notifications_, __ATOMIC_RELAXED);
  for (uint32_t age = 1; age <= std::min(now - notifications, kNotifiers); ++age) {
    const Owner* const one = &notifiers_[(now - age) % kNotifiers];
    const Owner notifier = Look(&one->thread, &one->request);
    if (thread == 0 || notifier.thread == thread) return notifier;
  }
  return {};
}

void ConditionVariable::notify_one() noexcept {
  NoteNotifier();
  condition_.notify_one();
}

void ConditionVariable::notify_all() noexcept {
  NoteNotifier();
  condition_.notify_all();
}

void ConditionVariable::wait(std::unique_lock<Mutex>& lock) {
  detail::ConditionWait wait(this, lock.mutex());
  wait.Sleep();
  wait.Wake();
}

bool ConditionVariable::wait_for(std::unique_lock<Mutex>& lock, uint64_t timeout_ns) {
  detail::ConditionWait wait(this, lock.mutex());
  if (!wait.SleepFor(timeout_ns)) return false;
  wait.Wake();
  return true;
}

uint64_t ConditionVariable::MonotonicNs() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

PITOT_NAMESPACE_END
