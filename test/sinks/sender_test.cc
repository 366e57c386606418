// SPDX-License-Identifier: Apache-2.0
#include "sinks/sender.h"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "fakes/child.h"
#include "fakes/wait_until.h"
#include "sinks/fake_receiver.h"
#include "sinks/settings.h"

namespace {

using fakes::FakeReceiver;
using fakes::Replies;
using fakes::Reply;
using fakes::WaitUntil;
using pitot::OtlpSinkOptions;
using pitot::StatusCode;
using pitot::sinks::Sender;
using pitot::sinks::Settings;

constexpr uint32_t kLongMs = 60'000;
const Reply kNever{200, "", "", true};

// Stops at its end.
class Started {
 public:
  explicit Started(const std::string& url, OtlpSinkOptions options = {}) {
    options.url = url.c_str();
    options.first_wait_ms = 0;
    Settings settings;
    REQUIRE(MakeSettings(options, &settings).ok());
    sender_ = std::make_shared<Sender>(settings);
    REQUIRE(Sender::Start(sender_).ok());
  }
  ~Started() { sender_->Stop(kLongMs); }
  Sender* operator->() const { return sender_.get(); }
  void Put(const std::string& text) const { sender_->Put(text.data(), text.size()); }

 private:
  std::shared_ptr<Sender> sender_;
};

std::string Unpacked(const std::string& packed) {
  std::string text(1 << 20, '\0');
  z_stream stream = {};
  REQUIRE(inflateInit2(&stream, 15 + 16) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  REQUIRE(inflate(&stream, Z_FINISH) == Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

TEST_CASE("messages arrive in their order, packed, with the host's headers", "[sinks]") {
  const FakeReceiver receiver;
  OtlpSinkOptions options;
  options.headers = {{"authorization", "Bearer secret"}, {"x-empty", ""}};
  const Started sender(receiver.url(), options);

  for (const char* const text : {"one", "two", "three"}) sender.Put(text);
  REQUIRE(sender->Flush(kLongMs).ok());

  const auto received = receiver.received();
  REQUIRE(received.size() == 3);
  CHECK(Unpacked(received[0].body) == "one");
  CHECK(Unpacked(received[1].body) == "two");
  CHECK(Unpacked(received[2].body) == "three");
  auto headers = received[0].headers;
  CHECK(received[0].path == "/v1/traces");
  CHECK(headers["content-type"] == "application/x-protobuf");
  CHECK(headers["content-encoding"] == "gzip");
  CHECK(headers["authorization"] == "Bearer secret");
  CHECK(headers.count("x-empty") == 1);
  CHECK(headers.count("expect") == 0);
  CHECK(sender->Stats().messages_sent == 3);
  CHECK(sender->Stats().queued_bytes == 0);
  CHECK(std::string(sender->Stats().last_error).empty());
}

TEST_CASE("messages are not packed if the host does not want it", "[sinks]") {
  const FakeReceiver receiver;
  OtlpSinkOptions options;
  options.is_packed = false;
  const Started sender(receiver.url(), options);

  sender.Put("plain");
  REQUIRE(sender->Flush(kLongMs).ok());

  CHECK(receiver.received().at(0).body == "plain");
  CHECK(receiver.received().at(0).headers.count("content-encoding") == 0);
}

TEST_CASE("a message is sent again until the receiver takes it", "[sinks]") {
  const FakeReceiver receiver(Replies{{503}, {429}, {502}, {200}});
  const Started sender(receiver.url());

  sender.Put("one");
  REQUIRE(sender->Flush(kLongMs).ok());

  CHECK(receiver.received().size() == 4);
  CHECK(sender->Stats().messages_sent == 1);
  CHECK(sender->Stats().retries == 3);
  CHECK(std::string(sender->Stats().last_error) == "502 of " + receiver.url());
}

TEST_CASE("a message that the receiver refuses is not sent again", "[sinks]") {
  const FakeReceiver receiver(Replies{{400}});
  const Started sender(receiver.url());

  sender.Put("wrong");
  sender.Put("right");
  REQUIRE(sender->Flush(kLongMs).ok());

  CHECK(receiver.received().size() == 2);
  CHECK(sender->Stats().messages_refused == 1);
  CHECK(sender->Stats().messages_sent == 1);
  CHECK(sender->Stats().retries == 0);
}

TEST_CASE("a message is given up after the last attempt", "[sinks]") {
  const FakeReceiver receiver(Replies{{503}, {503}, {503}, {200}});
  OtlpSinkOptions options;
  options.most_attempts = 3;
  const Started sender(receiver.url(), options);

  sender.Put("unlucky");
  sender.Put("lucky");
  REQUIRE(sender->Flush(kLongMs).ok());

  CHECK(receiver.received().size() == 4);
  CHECK(sender->Stats().messages_failed == 1);
  CHECK(sender->Stats().messages_sent == 1);
}

TEST_CASE("a receiver that is not there costs attempts, and is named without the headers", "[sinks]") {
  std::string url;
  {
    const FakeReceiver gone;
    url = gone.url();
  }
  OtlpSinkOptions options;
  options.most_attempts = 2;
  options.headers = {{"authorization", "secret"}};
  const Started sender(url, options);

  sender.Put("one");
  REQUIRE(sender->Flush(kLongMs).ok());

  CHECK(sender->Stats().messages_failed == 1);
  CHECK(sender->Stats().retries == 1);
  const std::string error = sender->Stats().last_error;
  CHECK(error.find(url) == 0);
  CHECK(error.find("secret") == std::string::npos);
}

TEST_CASE("an answer that does not come is not waited for longer than the timeout", "[sinks]") {
  const FakeReceiver receiver(Replies{kNever, {200}});
  OtlpSinkOptions options;
  options.timeout_ms = 50;
  const Started sender(receiver.url(), options);

  sender.Put("one");
  REQUIRE(sender->Flush(kLongMs).ok());

  CHECK(sender->Stats().messages_sent == 1);
  CHECK(sender->Stats().retries >= 1);
}

TEST_CASE("a full queue drops further messages, and counts them", "[sinks]") {
  const FakeReceiver receiver(Replies{kNever});
  OtlpSinkOptions options;
  options.is_packed = false;
  options.queue_bytes = 64 << 10;
  options.timeout_ms = kLongMs;
  const Started sender(receiver.url(), options);

  for (int i = 0; i < 100; ++i) sender.Put(std::string(10'000, 'x'));
  sender.Put(std::string(70'000, 'x'));

  CHECK(sender->Stats().queued_bytes <= 64 << 10);
  CHECK(sender->Stats().messages_dropped == 101 - 6);
  CHECK(sender->Flush(0).code() == StatusCode::kUnavailable);
  sender->Stop(0);
  CHECK(sender->Stats().messages_dropped == 101);
}

TEST_CASE("a stop does not wait for a receiver that hangs, and drops the rest", "[sinks]") {
  const FakeReceiver receiver(Replies{kNever});
  OtlpSinkOptions options;
  options.timeout_ms = 600'000;
  const Started sender(receiver.url(), options);
  sender.Put("one");
  sender.Put("two");
  REQUIRE(WaitUntil([&] { return receiver.received().size() == 1; }));

  sender->Stop(0);

  CHECK(sender->Stats().messages_dropped == 2);
  CHECK(sender->Stats().messages_sent == 0);
  CHECK(sender->Flush(kLongMs).code() == StatusCode::kNotRunning);
  sender.Put("late");
  CHECK(sender->Stats().messages_dropped == 3);
}

TEST_CASE("a stop sends what waits", "[sinks]") {
  const FakeReceiver receiver;
  const Started sender(receiver.url());
  for (int i = 0; i < 20; ++i) sender.Put("x");

  sender->Stop(kLongMs);

  CHECK(receiver.received().size() == 20);
  CHECK(sender->Stats().messages_sent == 20);
}

TEST_CASE("a stop ends the wait for the next attempt, and tries once more", "[sinks]") {
  const bool is_taken = GENERATE(true, false);
  const FakeReceiver receiver(Replies{{503, "Retry-After: 300\r\n"}, {is_taken ? 200 : 503, "Retry-After: 300\r\n"}});
  const Started sender(receiver.url());
  sender.Put("one");
  REQUIRE(WaitUntil([&] { return std::string(sender->Stats().last_error) != ""; }));

  sender->Stop(kLongMs);

  CHECK(receiver.received().size() == 2);
  CHECK(sender->Stats().messages_sent == (is_taken ? 1 : 0));
  CHECK(sender->Stats().messages_dropped == (is_taken ? 0 : 1));
}

TEST_CASE("spans that the receiver rejects are counted", "[sinks]") {
  const FakeReceiver receiver(Replies{{200, "", std::string("\x0a\x02\x08\x07", 4)}});
  const Started sender(receiver.url());

  sender.Put("one");
  REQUIRE(sender->Flush(kLongMs).ok());

  CHECK(sender->Stats().messages_sent == 1);
  CHECK(sender->Stats().spans_rejected == 7);
}

TEST_CASE("an endless answer is not kept", "[sinks]") {
  const FakeReceiver receiver(Replies{{200, "", std::string(5 << 20, 'x')}});
  const Started sender(receiver.url());

  sender.Put("one");
  REQUIRE(sender->Flush(kLongMs).ok());

  CHECK(sender->Stats().messages_sent == 1);
}

TEST_CASE("in the child of a fork a sink does nothing, and the parent's goes on", "[sinks]") {
  const FakeReceiver receiver(Replies{kNever});
  OtlpSinkOptions options;
  options.timeout_ms = 600'000;
  const Started sender(receiver.url(), options);
  sender.Put("one");
  REQUIRE(WaitUntil([&] { return receiver.received().size() == 1; }));

  const int child = fakes::InChild([&] {
    sender.Put("two");
    HOLDS(sender->Flush(kLongMs).code() == StatusCode::kNotRunning);
    sender->Stop(kLongMs);
    HOLDS(sender->Stats().messages_dropped == 0);
    return 0;
  });

  CHECK(child == 0);
  CHECK(sender->IsRunning());
  sender->Stop(0);
  CHECK(sender->Stats().messages_dropped == 1);
}

}  // namespace
