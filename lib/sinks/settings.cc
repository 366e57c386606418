// SPDX-License-Identifier: Apache-2.0
#include "sinks/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/message.h"

namespace pitot::sinks {
namespace {

using base::Error;

constexpr uint32_t kMostTimeoutMs = 600'000;

// That of spans comes before the general one. "": neither is set.
struct Variable {
  const char* name;
  const char* value;
};
Variable Ask(const char* of_spans, const char* general) {
  for (const char* name : {of_spans, general}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && value[0] != '\0') return {name, value};
  }
  return {general, ""};
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = static_cast<char>(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
std::string PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape =
        text[i] == '%' && i + 2 < text.size() && HexDigit(text[i + 1]) >= 0 && HexDigit(text[i + 2]) >= 0;
    decoded += is_escape ? static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2])) : text[i];
    if (is_escape) i += 2;
  }
  return decoded;
}

// "name=value,name=value"; values are percent-encoded.
Status AddHeaders(const Variable& variable, Settings* settings) {
  std::string_view rest = variable.value;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view pair = Trimmed(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos)
      return Error(StatusCode::kInvalidArgument, "%s must be name=value pairs with commas between", variable.name);
    settings->headers.emplace_back(Trimmed(pair.substr(0, equals)), PercentDecoded(Trimmed(pair.substr(equals + 1))));
  }
  return {};
}

Status ReadEnvironment(const OtlpSinkOptions& options, Settings* settings) {
  if (options.url == nullptr) {
    const Variable url = Ask("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT");
    settings->url = url.value;
    if (!settings->url.empty() && std::string_view(url.name) == "OTEL_EXPORTER_OTLP_ENDPOINT")
      settings->url += settings->url.back() == '/' ? "v1/traces" : "/v1/traces";
    const Variable protocol = Ask("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL");
    if (protocol.value[0] != '\0' && std::string_view(protocol.value) != "http/protobuf")
      return Error(StatusCode::kInvalidArgument, "%s is %s, but only http/protobuf is spoken: set OtlpSinkOptions::url",
                   protocol.name, protocol.value);
  }
  if (options.headers.empty()) {
    const Status status = AddHeaders(Ask("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"), settings);
    if (!status.ok()) return status;
  }
  if (options.timeout_ms == 0) {
    const Variable timeout = Ask("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT");
    const std::string_view text = timeout.value;
    const char* const end = text.data() + text.size();
    const auto [parsed, error] = std::from_chars(text.data(), end, settings->timeout_ms);
    if (!text.empty() && (error != std::errc() || parsed != end || settings->timeout_ms == 0))
      return Error(StatusCode::kInvalidArgument, "%s must be ms, 1 to %u", timeout.name, kMostTimeoutMs);
  }
  if (options.service_name == nullptr) settings->service_name = Ask("OTEL_SERVICE_NAME", "OTEL_SERVICE_NAME").value;
  return {};
}

bool IsToken(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}
bool IsPlain(std::string_view value) {
  return std::none_of(value.begin(), value.end(), [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 127; });
}

// Credentials in a URL would appear in messages.
Status CheckUrl(const std::string& url) {
  const bool is_http = url.starts_with("http://"), is_https = url.starts_with("https://");
  const std::string_view rest = std::string_view(url).substr(is_http ? 7 : is_https ? 8 : url.size());
  const std::string_view host = rest.substr(0, rest.find_first_of("/?#"));
  if (host.empty() || !IsPlain(url) || url.find(' ') != std::string::npos)
    return Status(StatusCode::kInvalidArgument, "OtlpSinkOptions::url must be http://HOST... or https://HOST...");
  if (host.find('@') != std::string_view::npos)
    return Status(StatusCode::kInvalidArgument,
                  "OtlpSinkOptions::url must not contain a user or password: use OtlpSinkOptions::headers");
  return {};
}

Status Check(const Settings& settings) {
  if (Status status = CheckUrl(settings.url); !status.ok()) return status;
  for (const auto& [name, value] : settings.headers) {
    if (!IsToken(name))
      return Status(StatusCode::kInvalidArgument, "OtlpSinkOptions::headers: a name must be letters, digits or '-'");
    if (!IsPlain(value))
      return Error(StatusCode::kInvalidArgument, "OtlpSinkOptions::headers: the value of %s has control characters",
                   name.c_str());
  }
  if (settings.timeout_ms > kMostTimeoutMs)
    return Error(StatusCode::kInvalidArgument, "OtlpSinkOptions::timeout_ms must be 1 to %u", kMostTimeoutMs);
  if (settings.most_attempts == 0 || settings.most_attempts > 100)
    return Status(StatusCode::kInvalidArgument, "OtlpSinkOptions::most_attempts must be 1 to 100");
  if (settings.queue_bytes < 64 << 10 || settings.queue_bytes > 1 << 30)
    return Status(StatusCode::kInvalidArgument, "OtlpSinkOptions::queue_bytes must be 64 KiB to 1 GiB");
  return {};
}

std::string OrEmpty(const char* text) { return text != nullptr ? text : ""; }

}  // namespace

Status MakeSettings(const OtlpSinkOptions& options, Settings* settings) {
  *settings = {OrEmpty(options.url), options.headers,        OrEmpty(options.ca_file), OrEmpty(options.service_name),
               options.timeout_ms,   options.most_attempts,  options.first_wait_ms,    options.queue_bytes,
               options.is_packed,    options.use_environment};
  if (options.use_environment) {
    if (Status status = ReadEnvironment(options, settings); !status.ok()) return status;
  }
  if (options.url == nullptr && settings->url.empty()) settings->url = "http://localhost:4318/v1/traces";
  if (settings->timeout_ms == 0) settings->timeout_ms = 10'000;
  return Check(*settings);
}

}  // namespace pitot::sinks
