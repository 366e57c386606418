// SPDX-License-Identifier: Apache-2.0
//
// HTTP for the sample servers: cpp-httplib set up for the loopback interface, and the life of a request from its
// arrival to the last byte of its response. A server adds its own routes to these:
//   GET  /healthz    {"status": "ok"}
//   GET  /statsz     contents, losses and cost of the recorder; CPU time and memory of the process
//   POST /incidentz  if allowed: asks for an incident and replies when it is on disk
#ifndef SAMPLES_SERVER_COMMON_HTTP_LISTENER_H_
#define SAMPLES_SERVER_COMMON_HTTP_LISTENER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "pitot/recorder.h"
#include "pitot/request.h"
#include "server_common/reply.h"

namespace server_common {

struct HttpOptions {
  int port = 0;  // 0: a free one
  std::string port_file{};
  // Threads, one for each open connection. A connection without a thread waits, and the latency of its first request
  // includes the wait.
  size_t threads = 64;
  size_t max_body_bytes = size_t{16} << 20;
  bool allow_incidentz = false;
  std::string model{};  // label of the requests
};

// A request, on the thread of its connection.
struct Exchange {
  pitot::Request request;
  uint64_t id = 0;          // as the client knows it: the header x-request-id
  uint64_t arrival_ns = 0;  // CLOCK_MONOTONIC; when the headers were there
};

// For an access log, for example: called on the threads of connections.
class HttpHooks {
 public:
  virtual ~HttpHooks() = default;
  // The headers of a request are there.
  virtual void Arrived() {}
  // The response has been written and the request finished. Not called if the client has gone away.
  virtual void Answered(uint64_t /*id*/) {}
};

class HttpListener {
 public:
  // `recorder` and `hooks` outlive it. `hooks` may be null.
  HttpListener(const HttpOptions& options, pitot::Recorder* recorder, HttpHooks* hooks = nullptr);
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  // `handle` answers each POST to `path`; other methods get 405. Pitot records it as a request of the route `path`. Its
  // response has the header x-request-id, to find it in an incident. To be called before Bind.
  using Handler = std::function<Reply(const std::string& body, Exchange& exchange)>;
  void Post(const std::string& path, Handler handle);
  // The same for operators, not recorded.
  using Command = std::function<Reply(const std::string& body)>;
  void PostCommand(const std::string& path, Command run);

  // Binds, writes the port file, says so on standard output, and serves until the process gets SIGTERM or SIGINT.
  // REQUIRES: BlockStopSignals.
  void Serve();

  // Serve's parts, for tests. Bind returns the port, or throws std::runtime_error when the port is taken.
  int Bind();
  // Serves until Stop. On return every request has been answered. REQUIRES: Bind.
  void Run();
  // Threads: any. Idle connections end within the keep-alive timeout, 2 s.
  void Stop();

 private:
  struct Connections;
  const std::unique_ptr<Connections> connections_;
};

}  // namespace server_common

#endif  // SAMPLES_SERVER_COMMON_HTTP_LISTENER_H_
