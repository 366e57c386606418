// SPDX-License-Identifier: Apache-2.0
//
// Sinks: sends the requests of each incident to a collector of OpenTelemetry's, by HTTP (OTLP). The library
// pitot::sinks uses libcurl and zlib. docs/guide/otlp.md.
//
//   pitot::OtlpSinkOptions options;
//   options.url = "http://collector:4318/v1/traces";
//   auto sink = pitot::OtlpSink::Start(options);
//   sink.AddTo(recorder);  // after Recorder::Start
//   ...
//   recorder.Stop();       // first, so that the sink gets the last incident
//   sink.Stop();
#ifndef PITOT_SINKS_OTLP_H_
#define PITOT_SINKS_OTLP_H_

#include <stdint.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pitot/export.h"
#include "pitot/status.h"

namespace pitot::sinks {
class Sender;
}

PITOT_NAMESPACE_BEGIN

class Recorder;

struct OtlpSinkOptions {
  // The receiver, http or https. Null: the environment's, or http://localhost:4318/v1/traces.
  const char* url = nullptr;
  // Added to each POST, for example {"authorization", "Bearer ..."}. No message contains the values.
  std::vector<std::pair<std::string, std::string>> headers;
  // Takes what is not set here from OpenTelemetry's variables of the environment, and proxies from curl's
  // (docs/guide/otlp.md). False: the environment is not read.
  bool use_environment = false;
  // One POST with its answer, ms, 1 to 600,000; 0: the environment's, or 10,000.
  uint32_t timeout_ms = 0;
  // How often to try one message, 1 to 100. Only failures to connect, timeouts and the answers 429, 502, 503 and 504
  // are tried again: after `first_wait_ms`, then after twice as long each time, 30 s at most. An answer's Retry-After
  // replaces the wait, up to 5 minutes.
  uint32_t most_attempts = 6;
  uint32_t first_wait_ms = 1000;
  // Memory for messages that wait, bytes, 64 KiB to 1 GiB; not part of Options::memory_budget_bytes. When it is full,
  // further messages are dropped.
  uint64_t queue_bytes = 4ull << 20;
  // Compresses with gzip, on Pitot's worker.
  bool is_packed = true;
  // The file with the certificates to trust, PEM; null: the system's.
  const char* ca_file = nullptr;
  // The resource's service.name; null: the environment's, or the process's name.
  const char* service_name = nullptr;
  // How many requests that fired get a verdict, for each incident. Each takes the worker some ms.
  uint32_t most_verdicts = 8;
};

// Messages are bodies of POSTs: some 256 KiB of spans each before compression.
struct OtlpSinkStats {
  uint64_t messages_sent = 0;
  uint64_t messages_dropped = 0;  // the queue was full, there was no memory, or Stop came first
  uint64_t messages_refused = 0;  // the receiver's answer was an error that a repeat does not help
  uint64_t messages_failed = 0;   // every attempt failed
  uint64_t retries = 0;
  uint64_t spans_rejected = 0;  // in messages sent: the receiver took the others ("partial success")
  uint64_t queued_bytes = 0;
  char last_error[200] = "";  // "503 of http://collector:4318/v1/traces"; "" if there was none
};

// A movable handle. Its functions may be called from any thread, but not Stop and a move at the same time. Nothing is
// printed or thrown. In the child of a fork it does nothing: start another one there.
class PITOT_EXPORT OtlpSink {
 public:
  // Not running: status() is kNotRunning.
  OtlpSink() noexcept;
  // Starts a thread, "pitot-otlp". Connects only once there is something to send.
  // Errors: status() is kInvalidArgument, which names the wrong option; kResourceExhausted; kUnavailable: libcurl does
  //   not work here.
  static OtlpSink Start(const OtlpSinkOptions& options) noexcept;
  OtlpSink(OtlpSink&&) noexcept;
  OtlpSink& operator=(OtlpSink&&) noexcept;
  // Stops.
  ~OtlpSink();

  // Ok while it runs; otherwise the reason.
  Status status() const noexcept;

  // Has each incident sent from now on. The incident gets a file trace.otlp.pb with the same spans, so the recorder
  // needs Options::incident_directory.
  // Errors: kNotRunning; those of Recorder::Add.
  Status AddTo(Recorder& recorder) noexcept;

  // Waits until every message so far was sent or given up, at most `timeout_ms`. Recorder::Flush comes first.
  // Errors: kNotRunning; kUnavailable if the time was up.
  Status Flush(uint32_t timeout_ms) noexcept;

  // Messages that wait are tried once more, within `timeout_ms`; the rest is dropped. A thread that hangs in libcurl is
  // left behind after another second. Idempotent.
  void Stop(uint32_t timeout_ms = 5000) noexcept;

  // Since Start; also after Stop.
  OtlpSinkStats Stats() const noexcept;

 private:
  std::shared_ptr<sinks::Sender> sender_;
  std::string service_name_;
  uint32_t most_verdicts_ = 0;
  Status status_;
};

PITOT_NAMESPACE_END

#endif  // PITOT_SINKS_OTLP_H_
