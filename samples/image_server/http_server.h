// SPDX-License-Identifier: Apache-2.0
//
// HTTP on the loopback interface:
//   POST /classify   a JPEG; replies {"id": ..., "top": [{"class", "index", "probability"}, ...]}
// and what server_common/http_listener.h serves. Every reply to /classify carries x-request-id, by which the request is
// found in an incident.
#ifndef SAMPLES_IMAGE_SERVER_HTTP_SERVER_H_
#define SAMPLES_IMAGE_SERVER_HTTP_SERVER_H_

#include "image_server/classify.h"
#include "pitot/recorder.h"
#include "scoreboard/image_server/faults.h"
#include "server_common/http_listener.h"

namespace image_server {

using server_common::HttpOptions;

class HttpServer {
 public:
  HttpServer(const HttpOptions& options, ClassifyHandler* handler, Faults* faults, pitot::Recorder* recorder);

  // As HttpListener's.
  int Bind() { return listener_.Bind(); }
  void Run() { listener_.Run(); }
  void Stop() { listener_.Stop(); }

 private:
  ClassifyHandler* const handler_;
  server_common::HttpListener listener_;
};

}  // namespace image_server

#endif  // SAMPLES_IMAGE_SERVER_HTTP_SERVER_H_
