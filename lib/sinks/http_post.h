// SPDX-License-Identifier: Apache-2.0
//
// POSTs of one thread to one receiver, by libcurl. The connection is kept.
#ifndef PITOT_LIB_SINKS_HTTP_POST_H_
#define PITOT_LIB_SINKS_HTTP_POST_H_

#include <curl/curl.h>

#include <atomic>
#include <string>

#include "pitot/status.h"
#include "sinks/retry.h"
#include "sinks/settings.h"

namespace pitot::sinks {

class HttpPost {
 public:
  // `settings` outlives it.
  explicit HttpPost(const Settings* settings) : settings_(*settings) {}
  ~HttpPost() { Close(); }
  HttpPost(const HttpPost&) = delete;
  HttpPost& operator=(const HttpPost&) = delete;

  Status Open() noexcept;
  // Sends, and waits for the answer until the timeout, or until Wake is called with `is_over` true. Throws bad_alloc.
  Answer Send(const std::string& body, const std::atomic<bool>& is_over);
  // Threads: any, between Open and Close.
  void Wake() noexcept { curl_multi_wakeup(multi_); }
  void Close() noexcept;

 private:
  bool AddHeader(const std::string& line) noexcept;
  bool SetOptions() noexcept;

  const Settings& settings_;
  CURLM* multi_ = nullptr;
  CURL* easy_ = nullptr;
  curl_slist* headers_ = nullptr;
  char error_[CURL_ERROR_SIZE] = "";
};

}  // namespace pitot::sinks

#endif  // PITOT_LIB_SINKS_HTTP_POST_H_
