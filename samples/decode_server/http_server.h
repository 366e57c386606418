// SPDX-License-Identifier: Apache-2.0
//
// HTTP on the loopback interface:
//   POST /generate   {"prompt_tokens": [17, 4]} or {"prompt_length": 64}, and {"max_tokens": 32, "temperature": 0,
//                    "seed": 1}, which are optional; replies a JSON line per token as it is made, and one with what it
//                    took. A client that closes its connection cancels its request.
// and what server_common/http_listener.h serves. Every reply to /generate carries x-request-id, by which the request is
// found in an incident.
#ifndef SAMPLES_DECODE_SERVER_HTTP_SERVER_H_
#define SAMPLES_DECODE_SERVER_HTTP_SERVER_H_

#include "decode_server/generate.h"
#include "pitot/recorder.h"
#include "scoreboard/decode_server/faults.h"
#include "server_common/http_listener.h"

namespace decode_server {

using server_common::HttpOptions;

class HttpServer {
 public:
  HttpServer(const HttpOptions& options, GenerateHandler* handler, Faults* faults, pitot::Recorder* recorder);

  // As HttpListener's.
  int Bind() { return listener_.Bind(); }
  void Run() { listener_.Run(); }
  void Stop() { listener_.Stop(); }

 private:
  void Generate(const httplib::Request& http, httplib::Response& response, const httplib::ContentReader& read);

  GenerateHandler* const handler_;
  server_common::HttpListener listener_;
};

}  // namespace decode_server

#endif  // SAMPLES_DECODE_SERVER_HTTP_SERVER_H_
