// SPDX-License-Identifier: Apache-2.0
//
// A mutex, its lock and its condition variable: std's, annotated for clang's thread-safety analysis. The analysis
// checks at compile time: guarded state is used under its mutex, and locks are taken in order. Other compilers
// ignore the annotations. Only for headers that hosts do not include.
#ifndef PITOT_LIB_BASE_MUTEX_H_
#define PITOT_LIB_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define PITOT_THREAD_ANNOTATION(attribute) __attribute__((attribute))
#else
#define PITOT_THREAD_ANNOTATION(attribute)
#endif

// For a variable: used only with this mutex held. PT is for the object behind a pointer.
#define PITOT_GUARDED_BY(mutex) PITOT_THREAD_ANNOTATION(guarded_by(mutex))
#define PITOT_PT_GUARDED_BY(mutex) PITOT_THREAD_ANNOTATION(pt_guarded_by(mutex))
// For a mutex: the lock order.
#define PITOT_ACQUIRED_BEFORE(...) PITOT_THREAD_ANNOTATION(acquired_before(__VA_ARGS__))
#define PITOT_ACQUIRED_AFTER(...) PITOT_THREAD_ANNOTATION(acquired_after(__VA_ARGS__))
// For a function: called with the mutex held, or not held; takes it, or releases it.
#define PITOT_REQUIRES(...) PITOT_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define PITOT_EXCLUDES(...) PITOT_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define PITOT_ACQUIRE(...) PITOT_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define PITOT_TRY_ACQUIRE(...) PITOT_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define PITOT_RELEASE(...) PITOT_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
// For a function beyond the analysis. Say why.
#define PITOT_NO_THREAD_SAFETY_ANALYSIS PITOT_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace pitot::base {

class PITOT_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  constexpr Mutex() noexcept = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() PITOT_ACQUIRE() { mutex_.lock(); }
  bool TryLock() PITOT_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void Unlock() PITOT_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex for a block, except between Unlock and Lock.
class PITOT_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) PITOT_ACQUIRE(mutex) : mutex_(mutex) { mutex_->Lock(); }
  ~MutexLock() PITOT_RELEASE() {
    if (is_held_) mutex_->Unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Unlock() PITOT_RELEASE() {
    is_held_ = false;
    mutex_->Unlock();
  }
  void Lock() PITOT_ACQUIRE() {
    mutex_->Lock();
    is_held_ = true;
  }

 private:
  Mutex* const mutex_;
  bool is_held_ = true;
};

// Each wait releases the mutex meanwhile. It may end for no reason: wait in a loop that looks at the condition.
class CondVar {
 public:
  void Wait(Mutex* mutex) PITOT_REQUIRES(mutex) {
    std::unique_lock lock(mutex->mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // False once the time is up.
  bool WaitUntil(Mutex* mutex, std::chrono::steady_clock::time_point deadline) PITOT_REQUIRES(mutex) {
    std::unique_lock lock(mutex->mutex_, std::adopt_lock);
    const bool is_in_time = condition_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    lock.release();
    return is_in_time;
  }
  void NotifyAll() noexcept { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_MUTEX_H_
