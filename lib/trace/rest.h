// SPDX-License-Identifier: Apache-2.0
//
// Rest: while the host works at nothing, Pitot's threads look rarely. The first request or batch after that wakes them.
// Its thread tells the recorder, with one system call and at most once a second. The watcher wakes the others.
#ifndef PITOT_LIB_TRACE_REST_H_
#define PITOT_LIB_TRACE_REST_H_

#include <atomic>
#include <cstdint>

namespace pitot::trace {

// For one thread of Pitot: it looks at the host again and again.
class Rest {
 public:
  // The host is quiet if nothing has begun or been open for so long.
  static constexpr int64_t kQuietNs = 1'000'000'000;
  // Between the looks of a collector at rest.
  static constexpr int64_t kLookNs = 2'000'000'000;

  // For the watcher: the recorder wakes it.
  Rest() = default;
  // `wake` ends the sleep after a call of May, or the next one. Called by the watcher until the destructor.
  Rest(void (*wake)(void* context), void* context) noexcept;
  ~Rest();
  Rest(const Rest&) = delete;
  Rest& operator=(const Rest&) = delete;

  // Whether the thread may rest: no request and no batch is open, and none has begun for kQuietNs. If so, the thread is
  // woken when one begins. `now_ns` is of a clock that does not go back. Threads: its own.
  bool May(int64_t now_ns) noexcept;

 private:
  friend void WakeResting() noexcept;

  void (*const wake_)(void*) = nullptr;
  void* const context_ = nullptr;
  Rest* next_ = nullptr;  // of those with a `wake`
  uint64_t begun_ = ~uint64_t{0};
  int64_t quiet_since_ns_ = 0;
};

// Wakes the resting threads. Called by the watcher once RequestObserver::OnWork was called.
void WakeResting() noexcept;

// Whether some thread may be resting. Its cache line is hardly ever written.
extern std::atomic<bool> g_is_anyone_resting;
void EndRest() noexcept;

// A request or a batch began, and counts as open. Sequentially consistent, as are Rest::May and the counts: either that
// sees the work, or this the rest. Cost: a load and a branch, but for the first after a rest.
inline void NoteWork() noexcept {
  if (__builtin_expect(g_is_anyone_resting.load(), 0)) EndRest();
}

// In the child of a fork: nobody rests yet.
void ForgetRestsAfterFork() noexcept;

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_REST_H_
