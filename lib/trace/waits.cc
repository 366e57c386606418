// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include <chrono>
#include <iterator>

#include "pitot/wait.h"
#include "trace/rings.h"

PITOT_NAMESPACE_BEGIN
namespace {

using WaitArgs = detail::ArgList<uint64_t, Name, uint64_t, uint64_t>;

constexpr Site kLockSite{
    kSiteMagic,        SiteKind::kWait, WaitArgs::kCount, 0,      __LINE__,
    WaitArgs::Types(), "wait",          "pitot/wait.h",   "lock", "\"\", kind, resource, owner_thread, owner_request"};
constexpr Site kConditionSite{
    kSiteMagic,        SiteKind::kWait, WaitArgs::kCount, 0,      __LINE__,
    WaitArgs::Types(), "wait",          "pitot/wait.h",   "wait", "\"\", kind, resource, owner_thread, owner_request"};

using ReleaseArgs = detail::ArgList<uint64_t, Name>;
constexpr Site kReleaseSite{kSiteMagic, SiteKind::kInstant,    ReleaseArgs::kCount, 0,
                            __LINE__,   ReleaseArgs::Types(),  "release",           "pitot/wait.h",
                            "unlock",   "\"\", kind, resource"};

static_assert(WaitArgs::kCount <= trace::kMaxOpenArgs);

uint32_t ThreadNumber(detail::Ring* ring) { return static_cast<trace::ThreadRing*>(ring)->number; }

// The holder or notifier is a hint, read without a lock: relaxed words, never torn, possibly of two moments.
void Publish(uint32_t* thread, uint64_t* request, Owner owner) {
  __atomic_store_n(thread, owner.thread, __ATOMIC_RELAXED);
  __atomic_store_n(request, owner.request, __ATOMIC_RELAXED);
}
Owner Look(const uint32_t* thread, const uint64_t* request) {
  return {__atomic_load_n(thread, __ATOMIC_RELAXED), __atomic_load_n(request, __ATOMIC_RELAXED)};
}

}  // namespace

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
  if (ring_ != nullptr) Open();
}

Wait::Wait(const Site* site, WaitKind kind, const char* resource, Owner owner) noexcept
    : ring_(detail::Enter()), site_(site), begin_(0), depth_(0), kind_(kind), resource_{0}, owner_(owner) {
  if (ring_ == nullptr) return;
  resource_ = Intern(resource);
  Open();
}

void Wait::Open() noexcept {
  begin_ = detail::Clock(ring_->gate, detail::Edge::kBegin, site_);
  depth_ = ring_->depth;
  WaitArgs args;
  args.Set(static_cast<uint64_t>(kind_), resource_, owner_.thread, owner_.request);
  detail::ShowArgs(ring_, depth_, begin_, args.words, WaitArgs::kCount);
  detail::Push(ring_, site_, begin_);
}

Wait::~Wait() {
  if (ring_ == nullptr) return;
  if (ring_ != detail::t_ring) {
    detail::CloseElsewhere();
    return;
  }
  // It began in an earlier step of its task (EndStep), which counted it.
  if (depth_ < detail::kMaxOpen && ring_->open[depth_].begin != begin_) return;
  const uint64_t end = detail::Clock(ring_->gate, detail::Edge::kEnd);
  WaitArgs args;
  args.Set(static_cast<uint64_t>(kind_), resource_, owner_.thread, owner_.request);
  detail::Append(ring_, site_, begin_, end, args);
  detail::ShowArgs(ring_, depth_, 0, nullptr, 0);
  detail::Pop(ring_, depth_);
}

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
  const bool is_awaited = __atomic_load_n(&waiters_, __ATOMIC_RELAXED) != 0;
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

void ConditionVariable::notify_one() noexcept {
  Publish(&notifier_thread_, &notifier_request_, ThisOwner());
  condition_.notify_one();
}

void ConditionVariable::notify_all() noexcept {
  Publish(&notifier_thread_, &notifier_request_, ThisOwner());
  condition_.notify_all();
}

void ConditionVariable::wait(std::unique_lock<Mutex>& lock) {
  Wait wait(&kConditionSite, WaitKind::kCondition, name_, {});
  condition_.wait(lock);
  wait.SetOwner(Look(&notifier_thread_, &notifier_request_));
}

bool ConditionVariable::wait_for(std::unique_lock<Mutex>& lock, uint64_t timeout_ns) {
  // A year counts as for ever, and does not overflow the clock.
  constexpr uint64_t kLongestNs = uint64_t{365} * 86'400 * 1'000'000'000;
  Wait wait(&kConditionSite, WaitKind::kCondition, name_, {});
  const auto timeout = std::chrono::nanoseconds(timeout_ns < kLongestNs ? timeout_ns : kLongestNs);
  if (condition_.wait_for(lock, timeout) == std::cv_status::timeout) return false;
  wait.SetOwner(Look(&notifier_thread_, &notifier_request_));
  return true;
}

uint64_t ConditionVariable::MonotonicNs() noexcept {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

PITOT_NAMESPACE_END
