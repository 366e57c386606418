// SPDX-License-Identifier: Apache-2.0
#include "server_common/http_listener.h"

#include <sys/socket.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "pitot/trace.h"
#include "server_common/connection_threads.h"
#include "server_common/monotonic.h"
#include "server_common/statsz.h"

namespace server_common {
namespace {

// With parameters, because cpp-httplib compresses plain "application/json" with Brotli at its slowest setting for every
// client that accepts it: 2 ms for 300 bytes.
constexpr char kJson[] = "application/json; charset=utf-8";

// How long /incidentz waits for its incident: the worker has a quarter of a CPU.
constexpr uint32_t kIncidentMs = 60'000;

thread_local Exchange t_exchange;

// Also called where a response could not be written: before the next request, and when the connection ends.
void EndExchange() {
  t_exchange.request.Finish(t_exchange.outcome);
  t_exchange = Exchange{};
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

}  // namespace

HttpListener::HttpListener(const HttpOptions& options, FaultSchedule* faults, pitot::Recorder* recorder)
    : options_(options), faults_(faults), recorder_(recorder) {
  // Defaults that cost a keep-alive client 87 ms a request: Nagle's algorithm, and closing after the fifth request.
  server_.set_tcp_nodelay(true);
  server_.set_keep_alive_max_count(1'000'000'000);
  server_.set_keep_alive_timeout(2);
  server_.set_payload_max_length(options_.max_body_bytes);
  // Of the default pool's 8 threads nobody sees the queue; of ours a request's arrival does.
  server_.new_task_queue = [this] { return new ConnectionThreads(options_.threads, EndExchange); };
  // The default, SO_REUSEPORT, lets a second server share a port that is taken.
  server_.set_socket_options([this](int socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    listening_socket_ = socket;
  });

  server_.set_pre_routing_handler([](const httplib::Request&, httplib::Response&) {
    EndExchange();
    t_exchange.arrival = ConnectionThreads::ArrivalOfThisRequest();
    t_exchange.arrival_ns = MonotonicNs();
    t_exchange.begun = ThreadUseNow();
    return httplib::Server::HandlerResponse::Unhandled;
  });
  server_.set_logger([this](const httplib::Request&, const httplib::Response&) {
    const uint64_t id = t_exchange.id;
    const ThreadUse begun = t_exchange.begun, ended = ThreadUseNow();
    EndExchange();
    Delays delays;  // it slept where it waits, too
    delays.cpu_waited_ns = ended.runqueue_ns - begun.runqueue_ns;
    if (id != 0) faults_->log().WriteDelays(begun.at_ns, id, delays);
  });
  server_.set_exception_handler([](const httplib::Request&, httplib::Response& response, std::exception_ptr) {
    Respond(ErrorReply(500, "internal error"), response);
  });

  server_.Get("/healthz", [](const httplib::Request&, httplib::Response& response) {
    response.set_content(R"({"status":"ok"})", kJson);
  });
  server_.Get("/statsz", [this](const httplib::Request&, httplib::Response& response) {
    response.set_content(StatszJson(*recorder_), kJson);
  });
  if (options_.allow_fault_control) {
    server_.Post("/faultz", [this](const httplib::Request& request, httplib::Response& response) {
      ControlFaults(request, response);
    });
    server_.Post("/incidentz",
                 [this](const httplib::Request&, httplib::Response& response) { WriteIncident(response); });
  }
}

void HttpListener::AllowOnly(const std::string& method, const char* path) {
  const auto refuse = [method](const httplib::Request&, httplib::Response& response) {
    response.set_header("Allow", method);
    Send(ErrorReply(405, "use " + method), response);
  };
  server_.Get(path, refuse).Put(path, refuse).Patch(path, refuse).Delete(path, refuse).Options(path, refuse);
}

Exchange& HttpListener::Begin(const char* route, const httplib::Request& http, httplib::Response& response) {
  const std::string traceparent = http.get_header_value("traceparent");
  t_exchange.request = pitot::Request::Begin(route, traceparent.c_str(), t_exchange.arrival);
  t_exchange.request.Stage("receive");
  t_exchange.request.SetLabel("model", options_.model.c_str());
  t_exchange.id = t_exchange.request.id() != 0 ? t_exchange.request.id() : UnrecordedId();
  response.set_header("x-request-id", RequestIdText(t_exchange.id));
  return t_exchange;
}

std::optional<Reply> HttpListener::Receive(const httplib::Request& http, const httplib::ContentReader& read,
                                           std::string* body) {
  PITOT_SCOPE("receive");
  if (!http.has_header("Content-Length") && !http.has_header("Transfer-Encoding")) {
    return ErrorReply(411, "send Content-Length");
  }
  // cpp-httplib checks the limit against Content-Length only. What is too much is read all the same: the next request
  // of the connection begins behind it.
  bool is_too_large = http.get_header_value<uint64_t>("Content-Length") > options_.max_body_bytes;
  const bool is_complete = read([&](const char* data, size_t size) {
    is_too_large = is_too_large || body->size() + size > options_.max_body_bytes;
    if (!is_too_large) body->append(data, size);
    return true;
  });
  if (is_too_large) return ErrorReply(413, "the limit is " + std::to_string(options_.max_body_bytes) + " bytes");
  if (!is_complete) return ErrorReply(400, "the body ended early");
  return std::nullopt;
}

void HttpListener::Respond(const Reply& reply, httplib::Response& response) {
  t_exchange.request.SetLabel("status", std::to_string(reply.status).c_str());
  t_exchange.outcome = reply.outcome;
  Send(reply, response);
}

int HttpListener::Bind() {
  const int port = options_.port == 0                                 ? server_.bind_to_any_port("127.0.0.1")
                   : server_.bind_to_port("127.0.0.1", options_.port) ? options_.port
                                                                      : -1;
  if (port <= 0)
    throw std::runtime_error("cannot listen on 127.0.0.1:" + std::to_string(options_.port) +
                             "; --port 0 takes a free one");
  // cpp-httplib has room for 5 connections that are not accepted yet; one more waits a second for its SYN to be
  // resent.
  listen(listening_socket_, 512);
  return port;
}

void HttpListener::Run() {
  server_.listen_after_bind();
  has_ended_ = true;
}

void HttpListener::Stop() {
  // cpp-httplib ignores a stop that comes before it runs.
  while (!server_.is_running() && !has_ended_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  server_.stop();
}

void HttpListener::ControlFaults(const httplib::Request& request, httplib::Response& response) try {
  const nlohmann::json command = nlohmann::json::parse(request.body);
  if (command.contains("faults")) {
    std::vector<Fault> faults;
    for (const nlohmann::json& text : command["faults"]) {
      faults.push_back(ParseFault(faults_->kinds(), text.get<std::string>()));
    }
    faults_->SetFaults(faults);
  }
  if (command.contains("active")) faults_->SetActive(command["active"].get<bool>());
  nlohmann::json names = nlohmann::json::array();
  for (const Fault& fault : faults_->faults()) names.push_back(faults_->NameOf(fault.kind));
  response.set_content(nlohmann::json{{"active", faults_->is_active()}, {"faults", names}}.dump(), kJson);
} catch (const std::exception& error) {
  Send(ErrorReply(400, error.what()), response);
}

void HttpListener::WriteIncident(httplib::Response& response) {
  pitot::Status status = recorder_->Trigger("asked for by /incidentz");
  if (status.ok()) status = recorder_->Flush(kIncidentMs);
  if (!status.ok()) return Send(ErrorReply(503, status.message()), response);
  response.set_content(R"({"status":"ok"})", kJson);
}

}  // namespace server_common
