// SPDX-License-Identifier: Apache-2.0
#include "sinks/sender.h"

#include <pthread.h>
#include <unistd.h>
#include <zlib.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/mix.h"

namespace pitot::sinks {
namespace {

using base::MutexLock;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int64_t kLastPatienceNs = 1'000'000'000;
constexpr int64_t kNsPerMs = 1'000'000;

// False: no memory.
bool Pack(const void* data, uint64_t size, std::string* packed) {
  constexpr int kGzip = 16, kWindowBits = 15, kMemoryLevel = 8, kFast = 1;
  z_stream stream = {};
  if (deflateInit2(&stream, kFast, Z_DEFLATED, kWindowBits + kGzip, kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK)
    return false;
  packed->resize(deflateBound(&stream, size));
  stream.next_in = static_cast<Bytef*>(const_cast<void*>(data));  // zlib does not write to it
  stream.avail_in = static_cast<uInt>(size);
  stream.next_out = reinterpret_cast<Bytef*>(packed->data());
  stream.avail_out = static_cast<uInt>(packed->size());
  const bool is_whole = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  packed->resize(stream.total_out);
  deflateEnd(&stream);
  return is_whole;
}

}  // namespace

Status Sender::Start(const std::shared_ptr<Sender>& sender) {
  sender->pid_ = getpid();
  if (Status status = sender->post_.Open(); !status.ok()) return status;
  sender->thread_.Start([sender] { sender->Run(); });
  return {};
}

bool Sender::IsParent() const noexcept { return pid_ == getpid(); }

void Sender::Put(const void* data, uint64_t size) noexcept try {
  if (!IsParent()) return;
  bool is_taken = !is_stopping_.load();
  auto message = std::make_unique<Message>();
  if (is_taken && settings_.is_packed) {
    is_taken = Pack(data, size, &message->body);
    message->body.shrink_to_fit();
  } else if (is_taken) {
    message->body.assign(static_cast<const char*>(data), size);
  }
  const uint64_t bytes = message->body.size();
  if (is_taken && queued_bytes_.fetch_add(bytes) + bytes > settings_.queue_bytes) {
    queued_bytes_.fetch_sub(bytes);
    is_taken = false;
  }
  if (!is_taken) {
    dropped_.fetch_add(1);
    return;
  }
  accepted_.fetch_add(1);
  message->next = arrived_.load();
  while (!arrived_.compare_exchange_weak(message->next, message.get())) {}
  static_cast<void>(message.release());
  wake_.Give();
} catch (...) {  // no memory
  dropped_.fetch_add(1);
}

void Sender::Run() noexcept {
  pthread_setname_np(pthread_self(), "pitot-otlp");
  for (;;) {
    const std::unique_ptr<Message> message = is_over_.load() ? nullptr : TakeNext();
    if (message != nullptr) {
      try {
        Deliver(*message);
      } catch (...) {  // no memory
        failed_.fetch_add(1);
      }
      Finish(*message);
    } else if (is_stopping_.load()) {
      break;
    } else {
      wake_.Await();
    }
  }
  DropWaiting();
  const MutexLock lock(&mutex_);
  has_ended_ = true;
  finished_changed_.NotifyAll();
}

std::unique_ptr<Sender::Message> Sender::TakeNext() noexcept {
  if (waiting_ == nullptr) {
    Message* newest = arrived_.exchange(nullptr);
    while (newest != nullptr) {
      Message* const older = std::exchange(newest->next, waiting_);
      waiting_ = std::exchange(newest, older);
    }
  }
  if (waiting_ == nullptr) return nullptr;
  std::unique_ptr<Message> next(waiting_);
  waiting_ = next->next;
  return next;
}

void Sender::Deliver(const Message& message) {
  bool is_last = is_stopping_.load();
  for (uint32_t attempt = 1;; ++attempt) {
    const Answer answer = post_.Send(message.body, is_over_);
    const Fate fate = FateOf(answer);
    if (fate == Fate::kTaken) {
      sent_.fetch_add(1);
      rejected_.fetch_add(RejectedSpans(answer.body));
      return;
    }
    NoteError(answer);
    if (fate == Fate::kRefused) {
      refused_.fetch_add(1);
      return;
    }
    if (attempt == settings_.most_attempts || is_last) {
      (is_last ? dropped_ : failed_).fetch_add(1);
      return;
    }
    const uint64_t random = base::Mix(static_cast<uint64_t>(steady_clock::now().time_since_epoch().count()));
    // Stop has every message tried once more.
    is_last = !WaitMs(sinks::WaitMs(attempt, settings_.first_wait_ms, answer.retry_after_s, random));
    retries_.fetch_add(1);
  }
}

// False: Stop came first. What arrives meanwhile is looked for afterwards.
bool Sender::WaitMs(int64_t ms) noexcept {
  const int64_t until_ns = base::ClockNs(CLOCK_MONOTONIC) + ms * kNsPerMs;
  while (!is_stopping_.load()) {
    if (!wake_.AwaitUntil(until_ns)) return true;
  }
  return false;
}

void Sender::NoteError(const Answer& answer) noexcept {
  const MutexLock lock(&mutex_);
  if (answer.status != 0)
    std::snprintf(last_error_, sizeof last_error_, "%d of %s", answer.status, settings_.url.c_str());
  else
    std::snprintf(last_error_, sizeof last_error_, "%s: %s", settings_.url.c_str(), answer.error.c_str());
}

void Sender::Finish(const Message& message) noexcept {
  queued_bytes_.fetch_sub(message.body.size());
  const MutexLock lock(&mutex_);
  ++finished_;
  finished_changed_.NotifyAll();
}

void Sender::DropWaiting() noexcept {
  while (const std::unique_ptr<Message> message = TakeNext()) {
    dropped_.fetch_add(1);
    Finish(*message);
  }
}

Status Sender::Flush(uint32_t timeout_ms) noexcept {
  if (!IsRunning()) return Status(StatusCode::kNotRunning, "the sink does not run");
  const auto deadline = steady_clock::now() + milliseconds(timeout_ms);
  const uint64_t accepted = accepted_.load();
  const MutexLock lock(&mutex_);
  while (finished_ < accepted) {
    if (!finished_changed_.WaitUntil(&mutex_, deadline) && finished_ < accepted)
      return Status(StatusCode::kUnavailable, "messages wait for the receiver");
  }
  return {};
}

void Sender::Stop(uint32_t timeout_ms) noexcept {
  if (!IsParent()) return;
  const MutexLock stop(&stop_mutex_);
  if (is_stopping_.exchange(true)) return;
  wake_.Give();
  const auto deadline = steady_clock::now() + milliseconds(timeout_ms);
  bool has_ended;
  {
    const MutexLock lock(&mutex_);
    while (!has_ended_ && finished_changed_.WaitUntil(&mutex_, deadline)) {}
    has_ended = has_ended_;
  }
  if (!has_ended) {
    is_over_.store(true);
    post_.Wake();
  }
  if (thread_.End(kLastPatienceNs)) post_.Close();
}

OtlpSinkStats Sender::Stats() const noexcept {
  OtlpSinkStats stats;
  if (!IsParent()) return stats;
  stats.messages_sent = sent_.load();
  stats.messages_dropped = dropped_.load();
  stats.messages_refused = refused_.load();
  stats.messages_failed = failed_.load();
  stats.retries = retries_.load();
  stats.spans_rejected = rejected_.load();
  stats.queued_bytes = queued_bytes_.load();
  const MutexLock lock(&mutex_);
  std::memcpy(stats.last_error, last_error_, sizeof last_error_);
  return stats;
}

}  // namespace pitot::sinks
