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

// Records the block as a wait. While it is open, incidents show the resource. If the owner is known only afterwards,
// call SetOwner. A text is interned if a recorder runs.
class Wait {
 public:
  PITOT_EXPORT Wait(const Site* site, WaitKind kind, Name resource, Owner owner) noexcept;
  PITOT_EXPORT Wait(const Site* site, WaitKind kind, const char* resource, Owner owner) noexcept;
  PITOT_EXPORT ~Wait();
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;
  void SetOwner(Owner owner) noexcept { owner_ = owner; }

 private:
  void Open() noexcept;
  detail::Ring* ring_;
  const Site* site_;
  uint64_t begin_;
  uint32_t depth_;
  WaitKind kind_;
  Name resource_;
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
  std::mutex mutex_;
  Name name_;
  uint32_t waiters_ = 0;
  uint32_t owner_thread_ = 0;
  uint64_t owner_request_ = 0;
};

// A std::condition_variable_any for a Mutex. Records each wait and the notifier.
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
    while (!predicate()) wait(lock);
  }
  // Waits until the predicate holds or `timeout_ns` have passed; returns the predicate's last value.
  template <class Predicate> bool wait_for(std::unique_lock<Mutex>& lock, uint64_t timeout_ns, Predicate predicate) {
    const uint64_t begin_ns = MonotonicNs(), forever_ns = UINT64_MAX - begin_ns;
    const uint64_t deadline_ns = begin_ns + (timeout_ns < forever_ns ? timeout_ns : forever_ns);
    while (!predicate()) {
      const uint64_t now_ns = MonotonicNs();
      if (now_ns >= deadline_ns) return false;
      wait_for(lock, deadline_ns - now_ns);
    }
    return true;
  }

 private:
  static uint64_t MonotonicNs() noexcept;
  std::condition_variable_any condition_;
  Name name_;
  uint32_t notifier_thread_ = 0;
  uint64_t notifier_request_ = 0;
};

PITOT_NAMESPACE_END

#endif  // PITOT_WAIT_H_
