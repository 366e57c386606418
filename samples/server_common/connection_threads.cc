// SPDX-License-Identifier: Apache-2.0
#include "server_common/connection_threads.h"

#include <string>
#include <utility>

namespace server_common {
namespace {

// How long this thread's connection waited, in ticks; taken by its first request.
thread_local uint64_t t_waited_ticks = 0;

}  // namespace

ConnectionThreads::ConnectionThreads(size_t count, std::function<void()> on_closed) : on_closed_(std::move(on_closed)) {
  for (size_t i = 0; i < count; ++i) threads_.emplace_back([this, i] { Work(i); });
}

void ConnectionThreads::enqueue(std::function<void()> serve) {
  std::lock_guard lock(mutex_);
  waiting_.push_back({std::move(serve), pitot::Now()});
  connection_arrived_.notify_one();
}

void ConnectionThreads::shutdown() {
  {
    std::lock_guard lock(mutex_);
    is_stopping_ = true;
    connection_arrived_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

pitot::Timestamp ConnectionThreads::ArrivalOfThisRequest() {
  const pitot::Timestamp now = pitot::Now();
  const uint64_t waited_ticks = std::exchange(t_waited_ticks, 0);
  return {now.ticks > waited_ticks ? now.ticks - waited_ticks : 0};  // no recorder: 0
}

void ConnectionThreads::Work(size_t number) {
  pitot::SetThreadName(("http " + std::to_string(number)).c_str());
  std::unique_lock lock(mutex_);
  while (true) {
    connection_arrived_.wait(lock, [&] { return is_stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Connection connection = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    const uint64_t now_ticks = pitot::Now().ticks, accepted_ticks = connection.accepted.ticks;
    t_waited_ticks = accepted_ticks != 0 && now_ticks > accepted_ticks ? now_ticks - accepted_ticks : 0;
    connection.serve();
    on_closed_();
    lock.lock();
  }
}

}  // namespace server_common
