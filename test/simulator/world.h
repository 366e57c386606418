// SPDX-License-Identifier: Apache-2.0
//
// Virtual time and simulated threads. A thread is a coroutine. The world resumes one at a time, each as the owner of
// its own ring, so that scopes live in its frames and close on the thread that opened them.
#ifndef PITOT_TEST_SIMULATOR_WORLD_H_
#define PITOT_TEST_SIMULATOR_WORLD_H_

#include <coroutine>
#include <cstdint>
#include <exception>
#include <queue>
#include <utility>
#include <vector>

#include "pitot/model/trace.h"
#include "simulator/simulator.h"
#include "trace/clock.h"
#include "trace/rings.h"

namespace simulator {

namespace trace = pitot::trace;

// A thread's program, or a part of one that it awaits. Starts when it is awaited (or given to World::Start).
template <class T = void> class [[nodiscard]] Task;

namespace internal {

struct PromiseBase {
  struct Final {
    bool await_ready() noexcept { return false; }
    template <class Promise> std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) noexcept {
      if (self.promise().caller) return self.promise().caller;
      return std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };
  std::suspend_always initial_suspend() noexcept { return {}; }
  Final final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { std::terminate(); }

  std::coroutine_handle<> caller;
};

template <class T> struct Promise : PromiseBase {
  Task<T> get_return_object();
  void return_value(T result) { value = std::move(result); }
  T Take() { return std::move(value); }
  T value{};
};
template <> struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() {}
  void Take() {}
};

}  // namespace internal

template <class T> class [[nodiscard]] Task {
 public:
  using promise_type = internal::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  std::coroutine_handle<> handle() const { return handle_; }
  bool await_ready() const { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) {
    handle_.promise().caller = caller;
    return handle_;
  }
  T await_resume() { return handle_.promise().Take(); }

 private:
  Handle handle_;
};

namespace internal {
template <class T> Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}
}  // namespace internal

class World;

class Thread {
 public:
  Thread() = default;
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  uint32_t number() const { return ring_ != nullptr ? ring_->number.load() : 0; }

 private:
  friend class World;
  trace::ThreadRing* ring_ = nullptr;
  Task<> program_;
  std::coroutine_handle<> at_;
  uint64_t pauses_ = 0;  // tells wake-ups for this pause from those for earlier ones
  bool woken_ = false;
};

// Opens the recorder with its own clock, and closes it at the end.
class World {
 public:
  World(const Recording& recording, uint64_t seed);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  static int64_t now_ns();
  // Whether the end has come: the threads' unfinished work is torn down, in no order of theirs.
  static bool is_over();

  // Gives the thread a ring, and lets its program begin now. Without a name it has none: it must not record.
  void Start(Thread* thread, const char* name, Task<> program);

  // To be awaited by the thread itself. True if Wake ended the pause, false if its time was up.
  struct Pause {
    World* world;
    Thread* thread;
    int64_t until_ns;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> at);
    bool await_resume() const { return thread->woken_; }
  };
  Pause Delay(Thread* thread, int64_t ns) { return {this, thread, now_ns() + ns}; }
  Pause Park(Thread* thread, int64_t until_ns = kForever) { return {this, thread, until_ns}; }
  // Ends the thread's pause `latency_ns` from now, unless its time is up before.
  void Wake(Thread* thread, int64_t latency_ns);

  // Plays until nothing is left to happen, or that time.
  void RunUntil(int64_t ns);

  // A snapshot of the records, assembled.
  pitot::model::Trace TakeTrace() const;

 private:
  struct Resumption {
    int64_t at_ns;
    uint64_t order;
    Thread* thread;
    uint64_t pause;
    bool woken;
    bool operator<(const Resumption& other) const {  // the greatest comes first
      return at_ns != other.at_ns ? at_ns > other.at_ns : order > other.order;
    }
  };
  void Schedule(int64_t at_ns, Thread* thread, bool woken);
  void Become(Thread* thread) const;

  Recording recording_;
  pitot::detail::Ring* const home_;  // the real thread's ring before
  trace::ClockReading start_;
  std::priority_queue<Resumption> agenda_;
  uint64_t next_order_ = 0;
  std::vector<Thread*> threads_;
};

}  // namespace simulator

#endif  // PITOT_TEST_SIMULATOR_WORLD_H_
