// SPDX-License-Identifier: Apache-2.0
//
// The image server over HTTP, with a fake network.
#include "server_common/http_listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include <httplib.h>
#include <nlohmann/json.hpp>

#include "image_server/batcher.h"
#include "image_server/classify.h"
#include "load_generator/jpeg_maker.h"

namespace image_server {
namespace {

// The server with a network that answers at once, or after Answer.
class TestServer {
 public:
  explicit TestServer(bool answers_at_once = true, size_t max_queue = 100, uint64_t timeout_ns = 10'000'000'000)
      : batcher_({.workers = 1, .max_batch = 1, .max_delay_ns = 0, .max_queue = max_queue},
                 [this](std::span<const Job> jobs, pitot::Batch&) {
                   gate_.wait();
                   return std::vector<Prediction>(jobs.size(), Prediction{{42, 0.5f}});
                 }),
        server_({.threads = 8, .max_body_bytes = 20'000, .allow_incidentz = true, .model = "fake"}, &recorder, &hooks) {
    server_.Post("/classify", [this, timeout_ns](const std::string& jpeg, server_common::Exchange& exchange) {
      return image_server::Classify(jpeg, exchange, &batcher_,
                                    {.side = 8, .max_pixels = 10'000, .timeout_ns = timeout_ns});
    });
    port = server_.Bind();
    serving_ = std::thread([this] { server_.Run(); });
    if (answers_at_once) Answer();
  }
  ~TestServer() {
    server_.Stop();
    serving_.join();
  }
  void Answer() { open_.set_value(); }

  httplib::Result Classify(const std::string& body, const httplib::Headers& headers = {}) const {
    return httplib::Client("127.0.0.1", port).Post("/classify", headers, body, "image/jpeg");
  }
  nlohmann::json Statsz() const {
    return nlohmann::json::parse(httplib::Client("127.0.0.1", port).Get("/statsz")->body);
  }
  // Waits until the recorder has seen so many requests end.
  nlohmann::json StatsAfter(uint64_t finished) const {
    for (int i = 0; i < 500; ++i) {
      if (recorder.Stats().requests_finished >= finished) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return Statsz()["recorder"];
  }

  pitot::Recorder recorder = pitot::Recorder::Start({});
  class Counter : public server_common::HttpHooks {
   public:
    void Arrived() override { ++arrived; }
    void Answered(uint64_t id) override { last_answered = id; }
    std::atomic<size_t> arrived{0};
    std::atomic<uint64_t> last_answered{0};
  } hooks;
  int port = 0;

 private:
  std::promise<void> open_;
  std::shared_future<void> gate_ = open_.get_future().share();
  Batcher batcher_;
  server_common::HttpListener server_;
  std::thread serving_;
};

const std::string& Picture() {
  static const std::string picture = load_generator::MakeJpeg(32, 32, 1);
  return picture;
}

int ConnectTo(int port) {
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  return connection;
}

void SendText(int connection, const std::string& text) {
  REQUIRE(send(connection, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
}

TEST_CASE("a JPEG is classified and the reply names the request", "[http]") {
  const TestServer server;

  const httplib::Result result = server.Classify(Picture());

  REQUIRE(result);
  CHECK(result->status == 200);
  const nlohmann::json json = nlohmann::json::parse(result->body);
  CHECK(json["top"][0]["index"] == 42);
  CHECK(json["id"] == result->get_header_value("x-request-id"));
  CHECK(json["id"].get<std::string>().size() == 16);
  const nlohmann::json stats = server.StatsAfter(1);
  CHECK(stats["requests_finished"] == 1);
  CHECK(stats["requests_abandoned"] == 0);
}

TEST_CASE("health and statistics are served", "[http]") {
  const TestServer server;
  httplib::Client client("127.0.0.1", server.port);

  CHECK(client.Get("/healthz")->body == R"({"status":"ok"})");
  CHECK(server.Statsz()["recorder"]["status"] == "ok");
  CHECK(server.Statsz()["process"]["cpu_seconds"] > 0);
  CHECK(client.Get("/nowhere")->status == 404);
}

TEST_CASE("what the client does wrong is its error and abandons no request", "[http]") {
  const TestServer server;
  httplib::Client client("127.0.0.1", server.port);

  CHECK(server.Classify("not a picture")->status == 400);
  CHECK(server.Classify("")->status == 400);
  CHECK(server.Classify(Picture().substr(0, 300))->status == 400);
  CHECK(server.Classify(load_generator::MakeJpeg(101, 100, 1))->status == 400);  // more than max_pixels
  CHECK(server.Classify(std::string(20'001, 'x'))->status == 413);
  CHECK(client.Get("/classify")->status == 405);
  CHECK(client.Get("/classify")->get_header_value("Allow") == "POST");

  const nlohmann::json stats = server.StatsAfter(5);
  CHECK(stats["requests_begun"] == 5);
  CHECK(stats["requests_finished"] == 5);
  CHECK(stats["requests_abandoned"] == 0);
  CHECK(server.Classify(Picture())->status == 200);
}

TEST_CASE("a chunked body beyond the limit is refused and the connection lives on", "[http]") {
  const TestServer server;
  httplib::Client client("127.0.0.1", server.port);
  client.set_keep_alive(true);
  const auto provider = [](size_t offset, httplib::DataSink& sink) {
    const std::string block(10'000, 'x');
    if (offset < 100'000) return sink.write(block.data(), block.size());
    sink.done();
    return true;
  };

  CHECK(client.Post("/classify", provider, "image/jpeg")->status == 413);
  CHECK(client.Post("/classify", Picture(), "image/jpeg")->status == 200);
}

TEST_CASE("a body without a length is refused", "[http]") {
  const TestServer server;
  const int connection = ConnectTo(server.port);

  SendText(connection, "POST /classify HTTP/1.1\r\nHost: x\r\n\r\n");

  char reply[128] = {};
  CHECK(recv(connection, reply, sizeof reply - 1, 0) > 0);
  CHECK(std::string(reply).rfind("HTTP/1.1 411", 0) == 0);
  close(connection);
}

TEST_CASE("a client that hangs up ends its request", "[http]") {
  const TestServer server;

  SECTION("before the body is complete") {
    const int connection = ConnectTo(server.port);
    SendText(connection, "POST /classify HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc");
    close(connection);
  }
  SECTION("before it has read the reply") {
    const int connection = ConnectTo(server.port);
    const linger reset{1, 0};
    setsockopt(connection, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    SendText(connection, "POST /classify HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(Picture().size()) +
                             "\r\n\r\n" + Picture());
    close(connection);
  }

  // A reset may overtake the request's first byte and leave nothing to serve. One more request counts in either case.
  server.Classify(Picture());
  const nlohmann::json stats = server.StatsAfter(2);
  CHECK(stats["requests_begun"] == stats["requests_finished"]);
  CHECK(stats["requests_abandoned"] == 0);
  CHECK(stats["requests_open"] == 0);
}

TEST_CASE("a full queue sheds with 503 and a slow network times out with 504", "[http]") {
  TestServer server(/*answers_at_once=*/false, /*max_queue=*/1, /*timeout_ns=*/300'000'000);

  // The worker takes the first, the second fills the queue, then every other is shed at once.
  std::vector<std::future<int>> statuses;
  for (int i = 0; i < 5; ++i) {
    statuses.push_back(std::async(std::launch::async, [&] { return server.Classify(Picture())->status; }));
  }
  size_t shed = 0, timed_out = 0;
  for (std::future<int>& status : statuses) {
    const int value = status.get();
    shed += value == 503;
    timed_out += value == 504;
  }

  CHECK(shed + timed_out == 5);
  CHECK(shed >= 3);
  CHECK(timed_out >= 1);
  server.Answer();
}

TEST_CASE("small replies are not compressed", "[http]") {
  const TestServer server;

  const httplib::Result result = server.Classify(Picture(), {{"Accept-Encoding", "br, gzip"}});

  CHECK(result->get_header_value("Content-Encoding") == "");
}

TEST_CASE("an incident is asked for over HTTP, and refused where nothing records", "[http]") {
  TestServer server;
  const auto ask = [&] { return httplib::Client("127.0.0.1", server.port).Post("/incidentz", "", "text/plain"); };

  const httplib::Result written = ask();
  REQUIRE(written);
  CHECK(written->status == 200);
  CHECK(server.recorder.Stats().triggers_fired == 1);

  server.recorder.Stop();
  const httplib::Result refused = ask();
  REQUIRE(refused);
  CHECK(refused->status == 503);
}

TEST_CASE("hooks are told that a request arrived and that it was answered", "[http]") {
  const TestServer server;
  CHECK(httplib::Client("127.0.0.1", server.port).Get("/healthz")->status == 200);
  CHECK(server.hooks.arrived == 1);
  CHECK(server.hooks.last_answered == 0);  // not a request of a route

  const httplib::Result result = server.Classify(Picture());
  (void)server.StatsAfter(1);

  REQUIRE(result);
  CHECK(server.hooks.arrived >= 2);
  for (int i = 0; i < 500 && server.hooks.last_answered == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(server_common::RequestIdText(server.hooks.last_answered) == result->get_header_value("x-request-id"));
}

}  // namespace
}  // namespace image_server
