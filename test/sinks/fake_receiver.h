// SPDX-License-Identifier: Apache-2.0
//
// A receiver of POSTs on the loopback interface. It answers each as it was told to.
#ifndef PITOT_TEST_SINKS_FAKE_RECEIVER_H_
#define PITOT_TEST_SINKS_FAKE_RECEIVER_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace fakes {

struct Reply {
  int status = 200;
  std::string headers = {};  // lines
  std::string body = {};
  bool never_comes = false;
};
using Replies = std::vector<Reply>;
struct Received {
  std::string path;
  std::map<std::string, std::string> headers;  // by name in lower case
  std::string body;
};

class FakeReceiver {
 public:
  // The first POSTs get these replies, further ones 200.
  explicit FakeReceiver(Replies replies = {}) : replies_(std::move(replies)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    is_open_ =
        bind(listener_, plain, size) == 0 && listen(listener_, 16) == 0 && getsockname(listener_, plain, &size) == 0;
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeReceiver() {
    is_over_ = true;
    shutdown(listener_, SHUT_RDWR);
    if (const int connection = connection_.load(); connection >= 0) shutdown(connection, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  FakeReceiver(const FakeReceiver&) = delete;
  FakeReceiver& operator=(const FakeReceiver&) = delete;

  bool is_open() const { return is_open_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/v1/traces"; }
  std::vector<Received> received() const {
    const std::lock_guard lock(mutex_);
    return received_;
  }

 private:
  void Serve() {
    while (!is_over_) {
      const int connection = accept(listener_, nullptr, nullptr);
      if (connection < 0) continue;
      connection_ = connection;
      std::string bytes;
      while (!is_over_ && ServeOne(connection, &bytes)) {}
      connection_ = -1;
      close(connection);
    }
  }

  static bool ReadMore(int connection, std::string* bytes) {
    char chunk[4096];
    const ssize_t count = read(connection, chunk, sizeof chunk);
    if (count > 0) bytes->append(chunk, static_cast<size_t>(count));
    return count > 0;
  }

  // False: the connection ended.
  bool ServeOne(int connection, std::string* bytes) {
    size_t end;
    while ((end = bytes->find("\r\n\r\n")) == std::string::npos) {
      if (!ReadMore(connection, bytes)) return false;
    }
    Received received = ParseHead(bytes->substr(0, end + 2));
    const size_t size = std::stoul("0" + received.headers["content-length"]);
    while (bytes->size() < end + 4 + size) {
      if (!ReadMore(connection, bytes)) return false;
    }
    received.body = bytes->substr(end + 4, size);
    bytes->erase(0, end + 4 + size);
    return Answer(connection, std::move(received));
  }

  static Received ParseHead(const std::string& head) {
    Received received;
    size_t at = head.find("\r\n") + 2;
    const size_t path = head.find(' ') + 1;
    received.path = head.substr(path, head.find(' ', path) - path);
    while (at < head.size()) {
      const size_t end = head.find("\r\n", at), colon = head.find(':', at);
      std::string name = head.substr(at, colon - at);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      const size_t value = head.find_first_not_of(' ', colon + 1);
      received.headers[name] = head.substr(value, end - value);
      at = end + 2;
    }
    return received;
  }

  bool Answer(int connection, Received received) {
    Reply reply;
    {
      const std::lock_guard lock(mutex_);
      if (received_.size() < replies_.size()) reply = replies_[received_.size()];
      received_.push_back(std::move(received));
    }
    if (reply.never_comes) {
      std::string ignored;
      while (ReadMore(connection, &ignored)) {}
      return false;
    }
    const std::string text = "HTTP/1.1 " + std::to_string(reply.status) + " reason\r\n" + reply.headers +
                             "Content-Length: " + std::to_string(reply.body.size()) + "\r\n\r\n" + reply.body;
    return send(connection, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }

  const Replies replies_;
  int listener_ = -1;
  uint16_t port_ = 0;
  bool is_open_ = false;
  std::atomic<bool> is_over_{false};
  std::atomic<int> connection_{-1};
  mutable std::mutex mutex_;
  std::vector<Received> received_;
  std::thread thread_;
};

}  // namespace fakes

#endif  // PITOT_TEST_SINKS_FAKE_RECEIVER_H_
