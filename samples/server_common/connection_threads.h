// SPDX-License-Identifier: Apache-2.0
//
// The threads of cpp-httplib's connections, one thread for each open connection. Unlike cpp-httplib's own pool, this
// one knows when a connection was accepted: its wait for a thread is not lost.
#ifndef SAMPLES_SERVER_COMMON_CONNECTION_THREADS_H_
#define SAMPLES_SERVER_COMMON_CONNECTION_THREADS_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <httplib.h>

#include "pitot/request.h"

namespace server_common {

class ConnectionThreads : public httplib::TaskQueue {
 public:
  // `on_closed` is called on the connection's thread when it has ended.
  ConnectionThreads(size_t count, std::function<void()> on_closed);

  void enqueue(std::function<void()> serve) override;
  void shutdown() override;

  // Called when this thread has read the headers of a request: its arrival is now, minus the connection's wait for a
  // thread if the request is the connection's first.
  static pitot::Timestamp ArrivalOfThisRequest();

 private:
  struct Connection {
    std::function<void()> serve;
    pitot::Timestamp accepted;
  };
  void Work(size_t number);

  const std::function<void()> on_closed_;
  std::mutex mutex_;
  std::condition_variable connection_arrived_;
  std::deque<Connection> waiting_;
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace server_common

#endif  // SAMPLES_SERVER_COMMON_CONNECTION_THREADS_H_
