// SPDX-License-Identifier: Apache-2.0
//
// HTTP on the loopback interface:
//   POST /classify   a JPEG; replies {"id": ..., "top": [{"class", "index", "probability"}, ...]}
//   GET  /healthz    {"status": "ok"}
//   GET  /statsz     what the recorder holds, has lost and costs; CPU time and memory of the process
//   POST /faultz     {"active": true, "faults": ["lock_held:rate=0.1,dose_ms=40"]}, both optional, if allowed
// Every reply to /classify carries x-request-id, by which the request is found in an incident.
#ifndef SAMPLES_IMAGE_SERVER_HTTP_SERVER_H_
#define SAMPLES_IMAGE_SERVER_HTTP_SERVER_H_

#include <cstddef>
#include <memory>
#include <string>

#include "image_server/classify.h"
#include "image_server/faults.h"
#include "pitot/recorder.h"

namespace image_server {

struct HttpOptions {
  int port = 0;  // 0: a free one
  // Threads, one for each connection that is open. A connection that finds none waits, and its first request's latency
  // includes that wait.
  size_t threads = 64;
  size_t max_body_bytes = size_t{16} << 20;
  bool allow_fault_control = false;
  std::string model;  // label of the requests
};

class HttpServer {
 public:
  HttpServer(const HttpOptions& options, ClassifyHandler* handler, Faults* faults, const pitot::Recorder* recorder);
  ~HttpServer();

  // Returns the port. Throws std::runtime_error when it is taken.
  int Bind();
  // Serves until Stop; on return every request that was begun has been answered. REQUIRES: Bind.
  void Run();
  // Threads: any. Idle connections end within the keep-alive timeout, 2 s.
  void Stop();

 private:
  class Routes;
  std::unique_ptr<Routes> routes_;
};

}  // namespace image_server

#endif  // SAMPLES_IMAGE_SERVER_HTTP_SERVER_H_
