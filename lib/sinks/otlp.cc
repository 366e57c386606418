// SPDX-License-Identifier: Apache-2.0
#include "pitot/sinks/otlp.h"

#include <new>

#include "pitot/analyze/otlp.h"
#include "pitot/recorder.h"
#include "sinks/sender.h"
#include "sinks/settings.h"

PITOT_NAMESPACE_BEGIN
namespace {

// To the file and to the receiver. A full disk does not end the second.
class Tee final : public ByteSink {
 public:
  Tee(ByteSink* file, sinks::Sender* sender) : file_(*file), sender_(*sender) {}
  bool is_whole() const { return is_whole_; }
  bool Write(const void* data, uint64_t size) noexcept override {
    sender_.Put(data, size);
    is_whole_ = is_whole_ && file_.Write(data, size);
    return true;
  }

 private:
  ByteSink& file_;
  sinks::Sender& sender_;
  bool is_whole_ = true;
};

class SentSpans final : public Serializer {
 public:
  SentSpans(std::unique_ptr<Serializer> spans, std::shared_ptr<sinks::Sender> sender)
      : spans_(std::move(spans)), sender_(std::move(sender)) {}
  const char* FileName() const noexcept override { return spans_->FileName(); }
  Status Serialize(const model::Trace& trace, ByteSink& file) override {
    Tee tee(&file, sender_.get());
    const Status status = spans_->Serialize(trace, tee);
    if (!status.ok() || tee.is_whole()) return status;
    return Status(StatusCode::kIoError, "the spans could not be written");
  }

 private:
  const std::unique_ptr<Serializer> spans_;
  const std::shared_ptr<sinks::Sender> sender_;
};

}  // namespace

OtlpSink::OtlpSink() noexcept : status_(StatusCode::kNotRunning, "the sink was not started") {}

OtlpSink OtlpSink::Start(const OtlpSinkOptions& options) noexcept {
  OtlpSink sink;
  try {
    sinks::Settings settings;
    sink.status_ = sinks::MakeSettings(options, &settings);
    if (!sink.status_.ok()) return sink;
    auto sender = std::make_shared<sinks::Sender>(settings);
    sink.status_ = sinks::Sender::Start(sender);
    if (!sink.status_.ok()) return sink;
    sink.service_name_ = settings.service_name;
    sink.most_verdicts_ = options.most_verdicts;
    sink.sender_ = std::move(sender);
  } catch (...) {
    sink.status_ = Status(StatusCode::kResourceExhausted, "no memory or no thread for the sink");
  }
  return sink;
}

OtlpSink::OtlpSink(OtlpSink&&) noexcept = default;

OtlpSink& OtlpSink::operator=(OtlpSink&& other) noexcept {
  if (this == &other) return *this;
  Stop();
  sender_ = std::move(other.sender_);
  service_name_ = std::move(other.service_name_);
  most_verdicts_ = other.most_verdicts_;
  status_ = std::move(other.status_);
  return *this;
}

OtlpSink::~OtlpSink() { Stop(); }

Status OtlpSink::status() const noexcept {
  if (sender_ == nullptr ? !status_.ok() : sender_->IsRunning()) return status_;
  return Status(StatusCode::kNotRunning, "the sink was stopped, or belongs to the parent of a fork");
}

Status OtlpSink::AddTo(Recorder& recorder) noexcept {
  if (Status running = status(); !running.ok()) return running;
  OtlpOptions options;
  if (!service_name_.empty()) options.service_name = service_name_.c_str();
  try {
    auto spans = MakeJudgedOtlpSerializer(options, most_verdicts_);
    if (spans != nullptr) return recorder.Add(std::make_unique<SentSpans>(std::move(spans), sender_));
  } catch (const std::bad_alloc&) {}
  return Status(StatusCode::kResourceExhausted, "no memory for the sink's serializer");
}

Status OtlpSink::Flush(uint32_t timeout_ms) noexcept {
  return sender_ != nullptr ? sender_->Flush(timeout_ms) : status();
}

void OtlpSink::Stop(uint32_t timeout_ms) noexcept {
  if (sender_ != nullptr) sender_->Stop(timeout_ms);
}

OtlpSinkStats OtlpSink::Stats() const noexcept { return sender_ != nullptr ? sender_->Stats() : OtlpSinkStats(); }

PITOT_NAMESPACE_END
