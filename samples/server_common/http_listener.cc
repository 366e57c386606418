// SPDX-License-Identifier: Apache-2.0
#include "server_common/http_listener.h"

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include <httplib.h>  // compiled with `pkg-config --cflags cpp-httplib`: without, its classes have another layout

#include "pitot/trace.h"
#include "server_common/connection_threads.h"
#include "server_common/monotonic.h"
#include "server_common/process.h"
#include "server_common/statsz.h"

namespace server_common {
namespace {

// With parameters: cpp-httplib compresses plain "application/json" for every client by Brotli's slowest setting, 2 ms
// for 300 bytes.
constexpr char kJson[] = "application/json; charset=utf-8";
// cpp-httplib does not compress it; compression would delay lines.
constexpr char kJsonLines[] = "application/x-ndjson";

// How long /incidentz waits for its incident: the worker has a quarter of a CPU.
constexpr uint32_t kIncidentMs = 60'000;

// The request of this thread. cpp-httplib serves a connection on one thread and calls, for each request: the
// pre-routing handler once the headers are there, the route's handler, and the logger once the response has been
// written. So a request begins and ends at the first and the last of them.
struct Serving : Exchange {
  pitot::Timestamp arrival;
  pitot::Outcome outcome = pitot::Outcome::kCancelled;  // until there is a reply: the client went away
};
thread_local Serving t_serving;

// Also called where a response could not be written: before the next request, and when the connection ends.
void Finish() {
  t_serving.request.Finish(t_serving.outcome);
  t_serving = Serving{};
}

// Ids for the header while no recorder gives them.
uint64_t UnrecordedId() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

void Send(const Reply& reply, httplib::Response& response) {
  response.status = reply.status;
  response.set_content(reply.json, kJson);
}

// Answers this thread's request.
void Respond(const Reply& reply, httplib::Response& response) {
  t_serving.request.SetLabel("status", std::to_string(reply.status).c_str());
  t_serving.outcome = reply.outcome;
  if (!reply.stream) return Send(reply, response);
  // cpp-httplib sends the headers when its handler has returned. Then it calls the provider on the same thread, still
  // for this request.
  response.set_chunked_content_provider(kJsonLines, [stream = reply.stream](size_t, httplib::DataSink& sink) {
    t_serving.outcome = stream({[&sink](const std::string& piece) { return sink.write(piece.data(), piece.size()); },
                                [&sink] { return sink.is_writable(); }});
    if (t_serving.outcome == pitot::Outcome::kCancelled) return false;  // the connection ends
    sink.done();
    return true;
  });
}

// Reads the body. Returns the reply if it cannot be used.
std::optional<Reply> Receive(const httplib::Request& http, const httplib::ContentReader& read, size_t most_bytes,
                             std::string* body) {
  PITOT_SCOPE("receive");
  if (!http.has_header("Content-Length") && !http.has_header("Transfer-Encoding")) {
    return ErrorReply(411, "send Content-Length");
  }
  // cpp-httplib checks the limit against Content-Length only. Too large a body is read all the same: the next request
  // of the connection begins behind it.
  bool is_too_large = http.get_header_value<uint64_t>("Content-Length") > most_bytes;
  const bool is_complete = read([&](const char* data, size_t size) {
    is_too_large = is_too_large || body->size() + size > most_bytes;
    if (!is_too_large) body->append(data, size);
    return true;
  });
  if (is_too_large) return ErrorReply(413, "the limit is " + std::to_string(most_bytes) + " bytes");
  if (!is_complete) return ErrorReply(400, "the body ended early");
  return std::nullopt;
}

Reply WriteIncident(pitot::Recorder* recorder) {
  pitot::Status status = recorder->Trigger("asked for by /incidentz");
  if (status.ok()) status = recorder->Flush(kIncidentMs);
  if (!status.ok()) return ErrorReply(503, status.message());
  return {200, R"({"status":"ok"})"};
}

}  // namespace

struct HttpListener::Connections {
  Connections(const HttpOptions& of, HttpHooks* calls) : options(of), hooks(calls != nullptr ? calls : &none) {
    SetUp();
  }
  void SetUp();

  const HttpOptions options;
  HttpHooks none{};
  HttpHooks* const hooks;
  httplib::Server server;
  int listening_socket = -1;
  std::atomic<bool> has_ended{false};
};

void HttpListener::Connections::SetUp() {
  // The defaults cost a keep-alive client 87 ms a request: Nagle's algorithm, and closing after the fifth request.
  server.set_tcp_nodelay(true);
  server.set_keep_alive_max_count(1'000'000'000);
  server.set_keep_alive_timeout(2);
  server.set_payload_max_length(options.max_body_bytes);
  // The default pool has 8 threads and does not show its queue; with ours the wait is part of a request's latency.
  server.new_task_queue = [this] { return new ConnectionThreads(options.threads, Finish); };
  // The default, SO_REUSEPORT, lets a second server share a port in use.
  server.set_socket_options([this](int socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    listening_socket = socket;
  });

  server.set_pre_routing_handler([this](const httplib::Request&, httplib::Response&) {
    Finish();
    t_serving.arrival = ConnectionThreads::ArrivalOfThisRequest();
    t_serving.arrival_ns = MonotonicNs();
    hooks->Arrived();
    return httplib::Server::HandlerResponse::Unhandled;
  });
  server.set_logger([this](const httplib::Request&, const httplib::Response&) {
    const uint64_t id = t_serving.id;
    Finish();
    if (id != 0) hooks->Answered(id);
  });
  server.set_exception_handler([](const httplib::Request&, httplib::Response& response, std::exception_ptr) {
    Respond(ErrorReply(500, "internal error"), response);
  });
}

HttpListener::HttpListener(const HttpOptions& options, pitot::Recorder* recorder, HttpHooks* hooks)
    : connections_(std::make_unique<Connections>(options, hooks)) {
  connections_->server.Get("/healthz", [](const httplib::Request&, httplib::Response& response) {
    Send({200, R"({"status":"ok"})"}, response);
  });
  connections_->server.Get("/statsz", [recorder](const httplib::Request&, httplib::Response& response) {
    Send({200, StatszJson(*recorder)}, response);
  });
  if (options.allow_incidentz)
    PostCommand("/incidentz", [recorder](const std::string&) { return WriteIncident(recorder); });
}

HttpListener::~HttpListener() = default;

void HttpListener::Post(const std::string& path, Handler handle) {
  const HttpOptions& options = connections_->options;
  const auto serve = [path, &options, handle = std::move(handle)](const httplib::Request& http,
                                                                  httplib::Response& response,
                                                                  const httplib::ContentReader& read) {
    const std::string traceparent = http.get_header_value("traceparent");
    t_serving.request = pitot::Request::Begin(path.c_str(), traceparent.c_str(), t_serving.arrival);
    t_serving.request.Stage("receive");
    t_serving.request.SetLabel("model", options.model.c_str());
    t_serving.id = t_serving.request.id() != 0 ? t_serving.request.id() : UnrecordedId();
    response.set_header("x-request-id", RequestIdText(t_serving.id));

    std::string body;
    const std::optional<Reply> refusal = Receive(http, read, options.max_body_bytes, &body);
    Respond(refusal ? *refusal : handle(body, t_serving), response);
  };
  const auto refuse = [](const httplib::Request&, httplib::Response& response) {
    response.set_header("Allow", "POST");
    Send(ErrorReply(405, "use POST"), response);
  };
  connections_->server.Post(path, serve);
  connections_->server.Get(path, refuse)
      .Put(path, refuse)
      .Patch(path, refuse)
      .Delete(path, refuse)
      .Options(path, refuse);
}

void HttpListener::PostCommand(const std::string& path, Command run) {
  connections_->server.Post(path, [run = std::move(run)](const httplib::Request& http, httplib::Response& response) {
    Send(run(http.body), response);
  });
}

void HttpListener::Serve() {
  const int port = Bind();  // from here on connections are kept for Run
  if (!connections_->options.port_file.empty()) WritePortFile(connections_->options.port_file, port);
  std::printf("listening on 127.0.0.1:%d\n", port);
  std::fflush(stdout);
  std::thread serving([this] { Run(); });
  WaitForStopSignal();
  std::printf("stopping\n");
  std::fflush(stdout);
  Stop();
  serving.join();
}

int HttpListener::Bind() {
  httplib::Server& server = connections_->server;
  const int wanted = connections_->options.port;
  const int port = wanted == 0                                ? server.bind_to_any_port("127.0.0.1")
                   : server.bind_to_port("127.0.0.1", wanted) ? wanted
                                                              : -1;
  if (port <= 0)
    throw std::runtime_error("cannot listen on 127.0.0.1:" + std::to_string(wanted) + "; --port 0 takes a free one");
  // cpp-httplib has room for 5 connections before it accepts them; one more waits a second for its SYN to be resent.
  listen(connections_->listening_socket, 512);
  return port;
}

void HttpListener::Run() {
  connections_->server.listen_after_bind();
  connections_->has_ended = true;
}

void HttpListener::Stop() {
  // cpp-httplib ignores an earlier stop.
  while (!connections_->server.is_running() && !connections_->has_ended)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  connections_->server.stop();
}

}  // namespace server_common
