// SPDX-License-Identifier: Apache-2.0
#include "sinks/http_post.h"

#include <fcntl.h>

#include <algorithm>

#include "pitot/version.h"

namespace pitot::sinks {
namespace {

constexpr size_t kMostAnswerBytes = 64 << 10;  // more is not kept
constexpr int kLookMs = 1000;

// The rest of an answer is read and forgotten.
size_t KeepAnswer(char* data, size_t, size_t size, void* context) noexcept try {
  auto* const body = static_cast<std::string*>(context);
  body->append(data, std::min(size, kMostAnswerBytes - body->size()));
  return size;
} catch (...) {  // no memory: libcurl ends the transfer
  return 0;
}

// Programs that the host executes do not inherit the connection.
int CloseInPrograms(void*, curl_socket_t socket, curlsocktype) noexcept {
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  return CURL_SOCKOPT_OK;
}

bool IsHopeless(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE || code == CURLE_URL_MALFORMAT ||
         code == CURLE_UNSUPPORTED_PROTOCOL;
}

}  // namespace

Status HttpPost::Open() noexcept {
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return Status(StatusCode::kUnavailable, "libcurl cannot be initialised");
  multi_ = curl_multi_init();
  easy_ = curl_easy_init();
  if (multi_ == nullptr || easy_ == nullptr) return Status(StatusCode::kResourceExhausted, "no memory for libcurl");
  if (!SetOptions()) return Status(StatusCode::kUnavailable, "libcurl refuses an option: is it older than 7.87?");
  return {};
}

bool HttpPost::AddHeader(const std::string& line) noexcept {
  curl_slist* const longer = curl_slist_append(headers_, line.c_str());
  if (longer != nullptr) headers_ = longer;
  return longer != nullptr;
}

bool HttpPost::SetOptions() noexcept try {
  bool is_ok = AddHeader("Content-Type: application/x-protobuf") && AddHeader("Expect:");  // it costs a round trip
  if (settings_.is_packed) is_ok = is_ok && AddHeader("Content-Encoding: gzip");
  for (const auto& [name, value] : settings_.headers)
    is_ok = is_ok && AddHeader(value.empty() ? name + ";" : name + ": " + value);
  const auto set = [&](CURLoption option, auto value) {
    is_ok = is_ok && curl_easy_setopt(easy_, option, value) == CURLE_OK;
  };
  set(CURLOPT_URL, settings_.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_HTTPHEADER, headers_);
  set(CURLOPT_USERAGENT, "pitot/" PITOT_VERSION_STRING);
  set(CURLOPT_POST, 1L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_QUICK_EXIT, 1L);  // does not wait for a search for the host's address
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(settings_.timeout_ms));
  set(CURLOPT_ERRORBUFFER, error_);
  set(CURLOPT_WRITEFUNCTION, KeepAnswer);
  set(CURLOPT_SOCKOPTFUNCTION, CloseInPrograms);
  if (!settings_.uses_proxies) set(CURLOPT_PROXY, "");
  if (!settings_.ca_file.empty()) set(CURLOPT_CAINFO, settings_.ca_file.c_str());
  return is_ok;
} catch (...) {  // no memory
  return false;
}

Answer HttpPost::Send(const std::string& body, const std::atomic<bool>& is_over) {
  Answer answer;
  error_[0] = '\0';
  curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(easy_, CURLOPT_WRITEDATA, &answer.body);
  CURLcode result = CURLE_ABORTED_BY_CALLBACK;
  if (curl_multi_add_handle(multi_, easy_) != CURLM_OK) return answer;
  int running = 1;
  while (running != 0 && !is_over.load()) {
    if (curl_multi_perform(multi_, &running) != CURLM_OK) break;
    if (running != 0) curl_multi_poll(multi_, nullptr, 0, kLookMs, nullptr);
  }
  int left = 0;
  while (const CURLMsg* const message = curl_multi_info_read(multi_, &left)) {
    if (message->msg == CURLMSG_DONE) result = message->data.result;
  }
  curl_multi_remove_handle(multi_, easy_);
  if (result != CURLE_OK) {
    answer.is_hopeless = IsHopeless(result);
    answer.error = error_[0] != '\0' ? error_ : curl_easy_strerror(result);
    return answer;
  }
  long status = 0;
  curl_off_t retry_after_s = 0;
  curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(easy_, CURLINFO_RETRY_AFTER, &retry_after_s);
  answer.status = static_cast<int>(status);
  answer.retry_after_s = retry_after_s;
  return answer;
}

void HttpPost::Close() noexcept {
  curl_easy_cleanup(easy_);
  if (multi_ != nullptr) curl_multi_cleanup(multi_);
  curl_slist_free_all(headers_);
  easy_ = nullptr;
  multi_ = nullptr;
  headers_ = nullptr;
}

}  // namespace pitot::sinks
