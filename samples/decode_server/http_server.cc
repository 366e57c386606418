// SPDX-License-Identifier: Apache-2.0
#include "decode_server/http_server.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace decode_server {

using server_common::Exchange;
using server_common::HttpListener;
using server_common::Reply;

HttpServer::HttpServer(const HttpOptions& options, GenerateHandler* handler, Faults* faults, pitot::Recorder* recorder)
    : handler_(handler), listener_(options, faults, recorder) {
  listener_.server().Post("/generate", [this](const httplib::Request& http, httplib::Response& response,
                                              const httplib::ContentReader& read) { Generate(http, response, read); });
  listener_.AllowOnly("POST", "/generate");
}

void HttpServer::Generate(const httplib::Request& http, httplib::Response& response,
                          const httplib::ContentReader& read) {
  Exchange& exchange = listener_.Begin("/generate", http, response);
  std::string body;
  const std::optional<Reply> refusal = listener_.Receive(http, read, &body);
  std::unique_ptr<Generation> begun;
  const Reply reply =
      refusal ? *refusal : handler_->Begin(body, exchange.request, exchange.id, exchange.arrival_ns, &begun);
  if (!begun) {
    HttpListener::Respond(reply, response);
    return;
  }
  // cpp-httplib sends the headers when this function has returned, and calls the provider on the same thread: the
  // exchange is still this request's. The response owns the generation: if the provider is not reached, that cancels
  // it. The type is one that cpp-httplib does not compress, which would keep tokens back.
  exchange.request.SetLabel("status", "200");
  const std::shared_ptr<Generation> generation = std::move(begun);
  response.set_chunked_content_provider(
      "application/x-ndjson", [&exchange, generation](size_t, httplib::DataSink& sink) {
        exchange.outcome =
            generation->Send({[&sink](const std::string& line) { return sink.write(line.data(), line.size()); },
                              [&sink] { return sink.is_writable(); }});
        if (exchange.outcome == pitot::Outcome::kCancelled) return false;  // the connection ends
        sink.done();
        return true;
      });
}

}  // namespace decode_server
