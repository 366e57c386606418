// SPDX-License-Identifier: Apache-2.0
//
// Messages on their way to a receiver: a queue bounded in bytes, and a thread that sends them in order and tries again.
#ifndef PITOT_LIB_SINKS_SENDER_H_
#define PITOT_LIB_SINKS_SENDER_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/patient_thread.h"
#include "base/semaphore.h"
#include "pitot/sinks/otlp.h"
#include "pitot/status.h"
#include "sinks/http_post.h"
#include "sinks/settings.h"

namespace pitot::sinks {

class Sender {
 public:
  explicit Sender(const Settings& settings) : settings_(settings), post_(&settings_) {}
  ~Sender() { DropWaiting(); }
  // Starts the thread, which keeps `sender` alive. Throws bad_alloc and system_error.
  static Status Start(const std::shared_ptr<Sender>& sender);

  // Takes a message, or drops it. Takes no lock: held by an idle thread, one would block others.
  void Put(const void* data, uint64_t size) noexcept;
  Status Flush(uint32_t timeout_ms) noexcept PITOT_EXCLUDES(mutex_);
  void Stop(uint32_t timeout_ms) noexcept PITOT_EXCLUDES(mutex_, stop_mutex_);
  OtlpSinkStats Stats() const noexcept PITOT_EXCLUDES(mutex_);
  bool IsRunning() const noexcept { return IsParent() && !is_stopping_.load(); }

 private:
  struct Message {
    std::string body;
    Message* next;
  };

  // False in the child of a fork. Its thread does not exist, and its mutexes may be held for ever.
  bool IsParent() const noexcept;

  void Run() noexcept;
  std::unique_ptr<Message> TakeNext() noexcept;
  void Deliver(const Message& message);
  bool WaitMs(int64_t ms) noexcept;
  void NoteError(const Answer& answer) noexcept PITOT_EXCLUDES(mutex_);
  void Finish(const Message& message) noexcept PITOT_EXCLUDES(mutex_);
  void DropWaiting() noexcept PITOT_EXCLUDES(mutex_);

  const Settings settings_;
  pid_t pid_ = 0;
  HttpPost post_;
  base::PatientThread thread_;
  base::Semaphore wake_;
  std::atomic<bool> is_stopping_{false};  // no wait, and no second attempt
  std::atomic<bool> is_over_{false};      // no attempt

  std::atomic<Message*> arrived_{nullptr};  // the newest first
  Message* waiting_ = nullptr;              // the oldest first; the thread's
  std::atomic<uint64_t> accepted_{0}, queued_bytes_{0};
  std::atomic<uint64_t> sent_{0}, dropped_{0}, refused_{0}, failed_{0}, retries_{0}, rejected_{0};

  base::Mutex stop_mutex_ PITOT_ACQUIRED_BEFORE(mutex_);  // held by Stop
  mutable base::Mutex mutex_;
  base::CondVar finished_changed_;
  uint64_t finished_ PITOT_GUARDED_BY(mutex_) = 0;  // of the accepted
  bool has_ended_ PITOT_GUARDED_BY(mutex_) = false;
  char last_error_[sizeof OtlpSinkStats::last_error] PITOT_GUARDED_BY(mutex_) = "";
};

}  // namespace pitot::sinks

#endif  // PITOT_LIB_SINKS_SENDER_H_
