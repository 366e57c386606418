// SPDX-License-Identifier: Apache-2.0
//
// What the sample servers have in common on HTTP: cpp-httplib set up for the loopback interface, the life of a request
// from its arrival to the last byte of its response, and the routes
//   GET  /healthz    {"status": "ok"}
//   GET  /statsz     what the recorder holds, has lost and costs; CPU time and memory of the process
//   POST /faultz     {"active": true, "faults": ["lock_held:rate=0.1,dose_ms=40"]}, both optional, if allowed
//   POST /incidentz  asks for an incident and replies when it is on disk, if faults may be controlled
#ifndef SAMPLES_SERVER_COMMON_HTTP_LISTENER_H_
#define SAMPLES_SERVER_COMMON_HTTP_LISTENER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <httplib.h>  // compiled with `pkg-config --cflags cpp-httplib`: without, its classes have another layout

#include "pitot/outcome.h"
#include "pitot/recorder.h"
#include "pitot/request.h"
#include "scoreboard/delays.h"
#include "scoreboard/fault_schedule.h"
#include "server_common/reply.h"

namespace server_common {

struct HttpOptions {
  int port = 0;  // 0: a free one
  // Threads, one for each connection that is open. A connection that finds none waits, and its first request's latency
  // includes that wait.
  size_t threads = 64;
  size_t max_body_bytes = size_t{16} << 20;
  bool allow_fault_control = false;
  std::string model;  // label of the requests
};

// A request that is being served by this thread. cpp-httplib serves a connection on one thread and calls, for each
// request: the pre-routing handler once the headers are there, the route's handler, and the logger once the response
// has been written. So a request begins and ends at the first and the last of them.
struct Exchange {
  pitot::Timestamp arrival;
  uint64_t arrival_ns = 0;  // CLOCK_MONOTONIC; when the headers were there
  ThreadUse begun;          // of its thread, at the same time
  uint64_t id = 0;          // as the client knows it
  pitot::Request request;
  pitot::Outcome outcome = pitot::Outcome::kCancelled;  // what it is until there is a reply: the client went away
};

class HttpListener {
 public:
  HttpListener(const HttpOptions& options, FaultSchedule* faults, pitot::Recorder* recorder);

  // For more routes, before Bind.
  httplib::Server& server() { return server_; }
  // Other methods of a route that has one get 405. To be called after that one is set.
  void AllowOnly(const std::string& method, const char* path);

  // In a handler: this thread's exchange, begun for `route`. The response gets its id as x-request-id.
  Exchange& Begin(const char* route, const httplib::Request& http, httplib::Response& response);
  // Reads the body; returns the reply if it cannot be used.
  std::optional<Reply> Receive(const httplib::Request& http, const httplib::ContentReader& read, std::string* body);
  // Answers the exchange.
  static void Respond(const Reply& reply, httplib::Response& response);

  // Returns the port. Throws std::runtime_error when it is taken.
  int Bind();
  // Serves until Stop; on return every request that was begun has been answered. REQUIRES: Bind.
  void Run();
  // Threads: any. Idle connections end within the keep-alive timeout, 2 s.
  void Stop();

 private:
  void ControlFaults(const httplib::Request& request, httplib::Response& response);
  void WriteIncident(httplib::Response& response);

  const HttpOptions options_;
  FaultSchedule* const faults_;
  pitot::Recorder* const recorder_;
  httplib::Server server_;
  int listening_socket_ = -1;
  std::atomic<bool> has_ended_{false};
};

}  // namespace server_common

#endif  // SAMPLES_SERVER_COMMON_HTTP_LISTENER_H_
