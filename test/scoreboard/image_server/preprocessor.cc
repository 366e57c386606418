// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/image_server/preprocessor.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "pitot/trace.h"
#include "scoreboard/clocks.h"

namespace image_server {

using scoreboard::MonotonicNs;

Preprocessor::Preprocessor(size_t threads, OnQueued on_queued, OnDone on_done)
    : on_queued_(std::move(on_queued)), on_done_(std::move(on_done)) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this, i] { Work(i); });
}

Preprocessor::~Preprocessor() {
  {
    std::lock_guard lock(mutex_);
    is_stopping_ = true;
    arrived_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void Preprocessor::Run(pitot::Request& request, uint64_t id, const std::function<void()>& work) {
  if (threads_.empty()) return work();
  std::future<void> done;
  {
    std::lock_guard lock(mutex_);
    Item item{std::packaged_task<void()>(work), request.Enqueue("preprocessing"), id, MonotonicNs()};
    done = item.work.get_future();
    queue_.push_back(std::move(item));
    arrived_.notify_one();
  }
  PITOT_WAIT(pitot::WaitKind::kFuture, "preprocessed", pitot::Owner{});
  done.get();
}

bool Preprocessor::has_queued() {
  std::lock_guard lock(mutex_);
  return !queue_.empty();
}

void Preprocessor::Work(size_t number) {
  pitot::SetThreadName(("preprocessor " + std::to_string(number)).c_str());
  uint64_t busy_until_ns = 0, last = 0;
  scoreboard::ThreadUse before = scoreboard::ThreadUseNow();
  while (true) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return is_stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    scoreboard::Delays delays;
    delays.handed_over_ns = MonotonicNs() - std::max(item.queued_ns, busy_until_ns);
    if (on_queued_ && busy_until_ns > item.queued_ns) on_queued_(item.id, item.queued_ns, busy_until_ns, {&last, 1});
    {
      const pitot::Adopt adopted(item.token);
      item.work();
    }
    const scoreboard::ThreadUse now = scoreboard::ThreadUseNow();
    delays.cpu_waited_ns =
        std::min(now.runqueue_ns - before.runqueue_ns, now.at_ns - std::max(item.queued_ns, busy_until_ns));
    before = now;
    if (on_done_) on_done_(item.id, delays);
    last = item.id;
    busy_until_ns = MonotonicNs();
  }
}

}  // namespace image_server
