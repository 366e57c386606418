// SPDX-License-Identifier: Apache-2.0
#include "image_server/http_server.h"

#include <optional>
#include <string>

namespace image_server {

using server_common::Exchange;
using server_common::HttpListener;

HttpServer::HttpServer(const HttpOptions& options, ClassifyHandler* handler, Faults* faults, pitot::Recorder* recorder)
    : handler_(handler), listener_(options, faults, recorder) {
  listener_.server().Post("/classify", [this](const httplib::Request& http, httplib::Response& response,
                                              const httplib::ContentReader& read) {
    Exchange& exchange = listener_.Begin("/classify", http, response);
    std::string body;
    const std::optional<Reply> refusal = listener_.Receive(http, read, &body);
    HttpListener::Respond(refusal ? *refusal : handler_->Handle(body, exchange.request, exchange.id), response);
  });
  listener_.AllowOnly("POST", "/classify");
}

}  // namespace image_server
