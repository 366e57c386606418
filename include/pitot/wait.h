// SPDX-License-Identifier: Apache-2.0
//
// Waits: what a thread waits for and who holds it, so that reports can say "waited for request 8f0c".
#ifndef PITOT_WAIT_H_
#define PITOT_WAIT_H_

#include <condition_variable>
#include <mutex>

#include "pitot/trace.h"

PITOT_NAMESPACE_BEGIN

// The kind of a wait. The numbers are written to files.
enum class WaitKind : uint8_t {
  kLock = 1,
  kCondition = 2,
  kQueue = 3,
  kIo = 4,
  kFuture = 5,
  kSleep = 6,
  kDevice = 7,
  kOther = 8
};
PITOT_EXPORT const char* WaitKindName(WaitKind kind) noexcept;

// The holder of a resource: the thread (Pitot's number for it) and the request it works for; 0 if unknown.
struct Owner {
  uint32_t thread = 0;
  uint64_t request = 0;
};
// The calling thread and its request; zeros while no recorder runs.
PITOT_EXPORT Owner ThisOwner() noexcept;

namespace detail {
class ConditionWait;
}

// Records the block as a wait. While it is open, incidents show the resource. If the owner is known only afterwards,
// call SetOwner. A text is interned if a recorder runs. A wait for a condition goes around the whole loop: then it is
// one wait, and its owner is the thread that ended it, not one whose notification came in vain.
class Wait {
 public:
  PITOT_EXPORT Wait(const Site* site, WaitKind kind, Name resource, Owner owner) noexcept;
  PITOT_EXPORT Wait(const Site* site, WaitKind kind, const char* resource, Owner owner) noexcept;
  PITOT_EXPORT ~Wait();
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;
  void SetOwner(Owner owner) noexcept { owner_ = owner; }

 private:
  friend class detail::ConditionWait;
  Wait(const Site* site, Name resource, uint64_t begin) noexcept;
  void Open(uint64_t begin) noexcept;
  uint64_t EndTicks() const noexcept;
  void Record(uint64_t end) const noexcept;
  void Leave() noexcept;
  uint64_t End() noexcept;
  detail::Ring* ring_;
  const Site* site_;
  uint64_t begin_;
  uint32_t depth_;
  WaitKind kind_;
  Name resource_;
  uint32_t spurious_ = 0;  // wake-ups in vain
  Owner owner_;
};

PITOT_NAMESPACE_END

// PITOT_WAIT(pitot::WaitKind::kIo, "journal", pitot::Owner{}): the block waits for a resource (a literal) held by
// owner.
#ifndef PITOT_DISABLED
#define PITOT_WAIT(kind, resource, owner)                                                                            \
  using PITOT_DETAIL_CAT(PitotWaitArgs, __LINE__) =                                                                  \
      ::pitot::detail::ArgList<uint64_t, ::pitot::Name, uint64_t, uint64_t>;                                         \
  PITOT_DETAIL_SITE(PITOT_DETAIL_CAT(pitot_site_, __LINE__), PITOT_DETAIL_CAT(PitotWaitArgs, __LINE__), kWait, 0,    \
                    "wait", "\"\", kind, resource, owner_thread, owner_request");                                    \
  ::pitot::Wait PITOT_DETAIL_CAT(pitot_wait_, __LINE__)(&PITOT_DETAIL_CAT(pitot_site_, __LINE__), kind, "" resource, \
                                                        owner)
#else
#define PITOT_WAIT(kind, resource, owner) static_cast<void>(sizeof(kind) + sizeof(owner))
#endif

PITOT_NAMESPACE_BEGIN

class ConditionVariable;

// A std::mutex that knows its holder. It records only locks that had to wait, and unlocks that others waited for: an
// instant "release" with the kind and the resource of their waits. Works with std::lock_guard, std::unique_lock and
// ConditionVariable.
// Cost: uncontended 3 loads and 2 stores more than std::mutex; contended one record each.
class PITOT_EXPORT Mutex {
 public:
  // `name` is interned.
  explicit Mutex(const char* name) noexcept : name_(Intern(name)) {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock();
  bool try_lock();
  void unlock();
  Name name() const noexcept { return name_; }

 private:
  friend class detail::ConditionWait;
  static constexpr uint32_t kHolders = 8;
  // A thread's wait that may go on: it woke, and has not let go of the mutex since.
  struct Woken {
    const ConditionVariable* condition = nullptr;
    detail::Ring* ring = nullptr;
    uint64_t head = 0, begin = 0, end = 0;
    uint32_t depth = 0, spurious = 0;  // open scopes
  };
  std::mutex mutex_;
  Name name_;
  uint32_t waiters_ = 0;  // for the lock; and those asleep in a ConditionVariable, times kSleeper
  uint32_t owner_thread_ = 0;
  uint64_t owner_request_ = 0;
  // Guarded by the mutex: the last holders while threads were asleep.
  uint32_t holds_ = 0;
  Owner holders_[kHolders];
  Woken woken_;
};

namespace detail {

// A wait of a ConditionVariable: open until its predicate holds, through all wake-ups. Call it with the mutex held.
class PITOT_EXPORT ConditionWait {
 public:
  ConditionWait(ConditionVariable* condition, Mutex* mutex) noexcept;
  ~ConditionWait();
  ConditionWait(const ConditionWait&) = delete;
  ConditionWait& operator=(const ConditionWait&) = delete;
  // Sleeps until a notification, or no reason. A second sleep means that the wake-up before it was in vain.
  void Sleep();
  // The same for at most `ns`; false if they passed first.
  bool SleepFor(uint64_t ns);
  // After a sleep: finds the thread that may have made the predicate true. The host looks at it, and may wait again.
  void Wake() noexcept;
  // The same if the predicate holds.
  void Succeed() noexcept;
  // For the standard library: the mutex, as a thread releases and takes it around its sleep.
  void unlock();
  void lock();

 private:
  // How it waited for the mutex after a sleep.
  struct Relock {
    uint64_t begin, end;  // ticks; 0: it had it at once
    uint64_t events;      // of its thread, until then
    Owner owner;
  };
  class Sleeping;
  uint64_t ContinuedFrom() noexcept;
  Owner FindNotifier() const noexcept;
  ConditionVariable* condition_;
  Mutex* mutex_;
  uint32_t sleeps_ = 0, spurious_before_ = 0;
  bool is_over_ = false;
  Wait wait_;
  Relock relock_{};
  uint32_t holds_ = 0, notifications_ = 0;  // before the last sleep
};

}  // namespace detail

// A std::condition_variable_any for a Mutex. Records waits, each with its notifier: the last thread that notified, and
// had held the mutex while the waiter slept. Give the predicate: then all wake-ups are one wait, its notifier is the
// thread that made the predicate true, and those in vain are counted ("spurious"). A loop of the host's fills the ring
// with each; traces show them as one wait if the thread did nothing else in between.
class PITOT_EXPORT ConditionVariable {
 public:
  explicit ConditionVariable(const char* name) noexcept : name_(Intern(name)) {}
  ConditionVariable(const ConditionVariable&) = delete;
  ConditionVariable& operator=(const ConditionVariable&) = delete;
  void notify_one() noexcept;
  void notify_all() noexcept;
  void wait(std::unique_lock<Mutex>& lock);
  // False if `timeout_ns` passed first.
  bool wait_for(std::unique_lock<Mutex>& lock, uint64_t timeout_ns);
  template <class Predicate> void wait(std::unique_lock<Mutex>& lock, Predicate predicate) {
    if (predicate()) return;
    detail::ConditionWait wait(this, lock.mutex());
    do wait.Sleep();
    while (!predicate());
    wait.Succeed();
  }
  // Waits until the predicate holds or `timeout_ns` have passed; returns the predicate's last value.
  template <class Predicate> bool wait_for(std::unique_lock<Mutex>& lock, uint64_t timeout_ns, Predicate predicate) {
    const uint64_t begin_ns = MonotonicNs(), forever_ns = UINT64_MAX - begin_ns;
    const uint64_t deadline_ns = begin_ns + (timeout_ns < forever_ns ? timeout_ns : forever_ns);
    if (predicate()) return true;
    uint64_t now_ns = MonotonicNs();
    if (now_ns >= deadline_ns) return false;
    detail::ConditionWait wait(this, lock.mutex());
    do {
      wait.SleepFor(deadline_ns - now_ns);
      if (predicate()) return wait.Succeed(), true;
      now_ns = MonotonicNs();
    } while (now_ns < deadline_ns);
    return false;
  }

 private:
  friend class detail::ConditionWait;
  static constexpr uint32_t kNotifiers = 8;
  static uint64_t MonotonicNs() noexcept;
  void NoteNotifier() noexcept;
  // The last notifier since a number of notifications, if `thread` is 0; otherwise that thread, if it is one.
  Owner NotifierSince(uint32_t notifications, uint32_t thread) const noexcept;
  std::condition_variable_any condition_;
  Name name_;
  uint32_t notifications_ = 0;
  Owner notifiers_[kNotifiers];  // the last ones
};

PITOT_NAMESPACE_END

#endif  // PITOT_WAIT_H_
