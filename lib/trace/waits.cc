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

uint32_t ThreadNumber(detail::Ring* ring) { return static_cast<trace::ThreadRing*>(ring)->number; }

void Announce(detail::Ring* ring, uint64_t begin, const WaitArgs& args) {
  if (ring->depth >= detail::kMaxOpen) return;
  trace::OpenWait& wait = static_cast<trace::ThreadRing*>(ring)->waits[ring->depth];
  const auto put = [](uint64_t* word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); };
  put(&wait.begin, 0);
  for (uint32_t i = 0; i < trace::kWaitArgs; ++i) put(&wait.args[i], args.words[i]);
  put(&wait.begin, begin);
}

// Who holds or notifies is a hint read without a lock: relaxed words, never torn, possibly of two moments.
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
  if (ring_ == nullptr) return;
  begin_ = detail::Clock(ring_->gate);
  depth_ = ring_->depth;
  WaitArgs args;
  args.Set(static_cast<uint64_t>(kind_), resource_, owner_.thread, owner_.request);
  Announce(ring_, begin_, args);
  detail::Push(ring_, site, begin_);
}

Wait::~Wait() {
  if (ring_ == nullptr) return;
  if (ring_ != detail::t_ring) {
    detail::CloseElsewhere();
    return;
  }
  const uint64_t end = detail::Clock(ring_->gate);
  WaitArgs args;
  args.Set(static_cast<uint64_t>(kind_), resource_, owner_.thread, owner_.request);
  detail::Append(ring_, site_, begin_, end, args);
  detail::Pop(ring_, depth_);
}

void Mutex::lock() {
  if (!mutex_.try_lock()) {
    const Wait wait(&kLockSite, WaitKind::kLock, name_, Look(&owner_thread_, &owner_request_));
    mutex_.lock();
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
  mutex_.unlock();
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
  // A year is for ever, and does not overflow the clock.
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
