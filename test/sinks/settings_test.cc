// SPDX-License-Identifier: Apache-2.0
#include "sinks/settings.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "sinks/retry.h"

namespace {

using pitot::OtlpSinkOptions;
using pitot::Status;
using pitot::StatusCode;
using pitot::sinks::Answer;
using pitot::sinks::Fate;
using pitot::sinks::FateOf;
using pitot::sinks::MakeSettings;
using pitot::sinks::RejectedSpans;
using pitot::sinks::Settings;
using pitot::sinks::WaitMs;

// Sets variables for a block.
class Environment {
 public:
  explicit Environment(std::vector<std::pair<const char*, const char*>> variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name, value, 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) unsetenv(name);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::pair<const char*, const char*>> variables_;
};

OtlpSinkOptions Asking() {
  OtlpSinkOptions options;
  options.use_environment = true;
  return options;
}

Settings Made(const OtlpSinkOptions& options) {
  Settings settings;
  const Status status = MakeSettings(options, &settings);
  INFO(status.message());
  REQUIRE(status.ok());
  return settings;
}

std::string Refused(const OtlpSinkOptions& options) {
  Settings settings;
  const Status status = MakeSettings(options, &settings);
  REQUIRE(status.code() == StatusCode::kInvalidArgument);
  return status.message();
}

TEST_CASE("the environment counts only if the host asks for it", "[sinks]") {
  const Environment environment({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"},
                                 {"OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, tenant = 7"},
                                 {"OTEL_EXPORTER_OTLP_TIMEOUT", "250"},
                                 {"OTEL_SERVICE_NAME", "ranker"}});

  const Settings without = Made({});
  CHECK(without.url == "http://localhost:4318/v1/traces");
  CHECK(without.headers.empty());
  CHECK(without.timeout_ms == 10'000);
  CHECK(without.service_name.empty());
  CHECK(!without.uses_proxies);

  const Settings with = Made(Asking());
  CHECK(with.url == "http://collector:4318/v1/traces");
  CHECK(with.headers == std::vector<std::pair<std::string, std::string>>{{"api-key", "a b"}, {"tenant", "7"}});
  CHECK(with.timeout_ms == 250);
  CHECK(with.service_name == "ranker");
  CHECK(with.uses_proxies);
}

TEST_CASE("options come before the environment", "[sinks]") {
  const Environment environment({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"},
                                 {"OTEL_EXPORTER_OTLP_HEADERS", "api-key=theirs"},
                                 {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
                                 {"OTEL_EXPORTER_OTLP_TIMEOUT", "250"}});
  OtlpSinkOptions options = Asking();
  options.url = "https://mine/v1/traces";
  options.headers = {{"api-key", "mine"}};
  options.timeout_ms = 5;

  const Settings settings = Made(options);

  CHECK(settings.url == "https://mine/v1/traces");
  CHECK(settings.headers.at(0).second == "mine");
  CHECK(settings.timeout_ms == 5);
}

TEST_CASE("variables of spans come before the general ones, and their endpoint is taken as it is", "[sinks]") {
  const Environment environment({{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://general:4318"},
                                 {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://spans:4318/in"}});
  CHECK(Made(Asking()).url == "http://spans:4318/in");
}

TEST_CASE("a wrong variable of the environment is named", "[sinks]") {
  const std::vector<std::pair<const char*, const char*>> wrong = {{"OTEL_EXPORTER_OTLP_TIMEOUT", "soon"},
                                                                  {"OTEL_EXPORTER_OTLP_TIMEOUT", "0"},
                                                                  {"OTEL_EXPORTER_OTLP_HEADERS", "no-value"},
                                                                  {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}};
  for (const auto& variable : wrong) {
    const Environment environment({variable});
    CHECK(Refused(Asking()).find(variable.first) != std::string::npos);
  }
}

TEST_CASE("a URL is http or https, and has no password", "[sinks]") {
  for (const char* const url :
       {"", "collector:4318", "ftp://collector", "http://", "http:///v1", "http://a b/", "http://a/\r\nx: y"}) {
    OtlpSinkOptions options;
    options.url = url;
    CHECK(Refused(options).find("OtlpSinkOptions::url") == 0);
  }
  OtlpSinkOptions options;
  options.url = "http://user:secret@collector/v1/traces";
  CHECK(Refused(options).find("secret") == std::string::npos);
}

TEST_CASE("a header cannot bring another one with it, and a message does not show its value", "[sinks]") {
  OtlpSinkOptions options;
  options.headers = {{"authorization", "secret\r\nhost: other"}};
  const std::string message = Refused(options);
  CHECK(message.find("authorization") != std::string::npos);
  CHECK(message.find("secret") == std::string::npos);
  options.headers = {{"author ization", "secret"}};
  CHECK(Refused(options).find("secret") == std::string::npos);
}

TEST_CASE("options out of their limits are named", "[sinks]") {
  OtlpSinkOptions options;
  options.most_attempts = 0;
  CHECK(Refused(options).find("most_attempts") != std::string::npos);
  options = {};
  options.queue_bytes = 1000;
  CHECK(Refused(options).find("queue_bytes") != std::string::npos);
  options = {};
  options.timeout_ms = 600'001;
  CHECK(Refused(options).find("timeout_ms") != std::string::npos);
}

Fate FateOfStatus(int status) {
  Answer answer;
  answer.status = status;
  return FateOf(answer);
}

TEST_CASE("only answers that a repeat can help are tried again", "[sinks]") {
  CHECK(FateOfStatus(200) == Fate::kTaken);
  CHECK(FateOfStatus(202) == Fate::kTaken);
  for (const int status : {0, 429, 502, 503, 504}) CHECK(FateOfStatus(status) == Fate::kAgain);
  for (const int status : {301, 400, 401, 404, 413, 500, 501}) CHECK(FateOfStatus(status) == Fate::kRefused);
  Answer hopeless;
  hopeless.is_hopeless = true;
  CHECK(FateOf(hopeless) == Fate::kRefused);
}

TEST_CASE("waits double up to 30 s, and the receiver's own wish replaces them", "[sinks]") {
  constexpr uint64_t kMost = 0x8000'0000'0000'0000;
  for (uint32_t attempt = 1; attempt < 40; ++attempt) {
    const int64_t longest = attempt < 6 ? int64_t{1000} << (attempt - 1) : 30'000;
    for (const uint64_t random : {uint64_t{0}, uint64_t{12'345'678'901}, kMost}) {
      CHECK(WaitMs(attempt, 1000, 0, random) >= longest / 2);
      CHECK(WaitMs(attempt, 1000, 0, random) <= longest);
    }
  }
  CHECK(WaitMs(1, 1000, 0, 0) != WaitMs(1, 1000, 0, 499));
  CHECK(WaitMs(1, 1000, 7, 0) == 7000);
  CHECK(WaitMs(1, 1000, 1'000'000'000'000, 0) == 300'000);
  CHECK(WaitMs(1, 0, 0, 5) == 0);
}

TEST_CASE("the spans that a receiver rejects are read from its answer", "[sinks]") {
  CHECK(RejectedSpans("") == 0);
  CHECK(RejectedSpans(std::string("\x0a\x03\x08\xac\x02", 5)) == 300);
  CHECK(RejectedSpans(std::string("\x10\x01\x0a\x07\x12\x03why\x08\x05", 11)) == 5);
  for (const char* const damaged : {"\x0a", "\x0a\x05\x08", "\x0a\x02\x08\xff", "\xff\xff\xff", "{}", "\x0b\x0b"})
    CHECK(RejectedSpans(damaged) == 0);
}

}  // namespace
