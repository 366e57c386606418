// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/fault_control.h"

#include <catch2/catch.hpp>
#include <thread>

#include <httplib.h>
#include <nlohmann/json.hpp>

#include "scoreboard/image_server/faults.h"

namespace scoreboard {
namespace {

// A server with or without /faultz.
class Server {
 public:
  explicit Server(bool allows) {
    AllowControl({.allow_control = allows}, &faults, &listener_);
    port_ = listener_.Bind();
    serving_ = std::thread([this] { listener_.Run(); });
  }
  ~Server() {
    listener_.Stop();
    serving_.join();
  }
  httplib::Result Post(const char* body) const {
    return httplib::Client("127.0.0.1", port_).Post("/faultz", body, "application/json");
  }

  image_server::Faults faults{image_server::FaultOptions{}};

 private:
  pitot::Recorder recorder_;  // none
  server_common::HttpListener listener_{{.threads = 2}, &recorder_};
  int port_ = 0;
  std::thread serving_;
};

TEST_CASE("faults are controlled over HTTP", "[faults]") {
  Server server(/*allows=*/true);

  CHECK(nlohmann::json::parse(server.Post(R"({"active":true,"faults":["fsync:rate=0"]})")->body) ==
        nlohmann::json{{"active", true}, {"faults", {"fsync"}}});
  CHECK(server.faults.IsSet(image_server::kFsync));
  CHECK(nlohmann::json::parse(server.Post("{\"active\":false}")->body)["active"] == false);
  CHECK(server.Post("{\"active\":").operator*().status == 400);
  CHECK(server.Post(R"({"faults":["nothing"]})")->status == 400);
  CHECK(server.Post(R"({"active":"yes"})")->status == 400);
}

TEST_CASE("faults are not controlled over HTTP unless that is allowed", "[faults]") {
  Server server(/*allows=*/false);
  CHECK(server.Post(R"({"active":true})")->status == 404);
}

}  // namespace
}  // namespace scoreboard
