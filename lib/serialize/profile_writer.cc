// SPDX-License-Identifier: Apache-2.0
#include "serialize/profile_writer.h"

#include "model/request_text.h"
#include "serialize/texts.h"

namespace pitot::serialize {

using model::kNone;

ProfileWriter::ProfileWriter(const model::Trace& trace)
    : trace_(trace),
      of_requests_(trace.requests.size()),
      of_batches_(trace.batches.size()),
      of_threads_(trace.threads.size()),
      of_streams_(trace.streams.size()) {}

uint64_t ProfileWriter::UnixBegin() const {
  const int64_t unix_ns = trace_.clock.realtime_ns - trace_.clock.monotonic_ns;
  return trace_.clock.realtime_ns == 0 ? 0
                                       : static_cast<uint64_t>(unix_ns) + static_cast<uint64_t>(trace_.window_begin_ns);
}

size_t ProfileWriter::Hash::operator()(const Key& key) const {
  const uint64_t context = uint64_t{key.owner.request} << 32 | key.owner.batch;
  const uint64_t place = uint64_t{key.owner.thread} << 32 | key.owner.stream;
  return static_cast<size_t>(Mix(Mix(Mix(context) + place) + key.stack));
}

uint64_t ProfileWriter::Text(std::string_view text) {
  const auto [found, is_new] = texts_.try_emplace(std::string(text), texts_.size());
  if (is_new) WriteText(text);
  return found->second;
}

ProfileWriter::Frame ProfileWriter::FrameOf(std::string_view name, ProfilePlace place, std::string_view compiled,
                                            std::string_view file, uint32_t line) {
  const auto [found, is_new] = frames_.try_emplace(std::string(name), frames_.size() + 1);
  const Frame frame = found->second;
  if (is_new) {
    const uint64_t name_text = Text(name), compiled_text = Text(compiled), file_text = Text(file);
    WriteFrame(frame, {place, name_text, compiled_text, file_text, line});
  }
  return frame;
}

ProfileWriter::Stack ProfileWriter::Call(Stack outer, Frame frame) {
  const auto [found, is_new] = stacks_.try_emplace(uint64_t{outer} << 32 | frame, static_cast<Stack>(entries_.size()));
  if (is_new) entries_.push_back({outer, frame});
  return found->second;
}

void ProfileWriter::Add(Stack stack, const ProfileOwner& owner, ProfileValue value, int64_t ns) {
  if (ns == 0) return;
  const Key key = {stack, owner};
  const auto [found, is_new] = rows_.try_emplace(key, static_cast<uint32_t>(samples_.size()));
  if (is_new) samples_.push_back({key, {}});
  samples_[found->second].ns[static_cast<size_t>(value)] += ns;
  if (samples_.size() == kMostSamples) PassSamples();
}

void ProfileWriter::PassSamples() {
  WriteSamples(samples_);
  samples_.clear();
  rows_.clear();
}

void ProfileWriter::Finish() {
  PassSamples();
  WriteEnd();
}

std::string ProfileWriter::Labels(const ProfileOwner& owner) {
  std::string labels;
  if (owner.request != kNone) {
    const model::RequestRow& request = trace_.requests[owner.request];
    labels += Labels(&of_requests_, owner.request, [&] {
      Label(ProfileLabel::kRequest, model::RequestName(trace_, request));
      if ((request.trace_id_high | request.trace_id_low) != 0)
        Label(ProfileLabel::kTraceId, Hex(request.trace_id_high, 16) + Hex(request.trace_id_low, 16));
      Label(ProfileLabel::kRoute, trace_.strings[request.route]);
    });
  }
  if (owner.batch != kNone) {
    labels += Labels(&of_batches_, owner.batch, [&] {
      Label(ProfileLabel::kBatch, Hex(trace_.batches[owner.batch].id, 16));
      Label(ProfileLabel::kExecutor, trace_.strings[trace_.batches[owner.batch].executor]);
    });
  }
  if (owner.thread != kNone)
    labels +=
        Labels(&of_threads_, owner.thread, [&] { Label(ProfileLabel::kThread, ThreadName(trace_, owner.thread)); });
  if (owner.stream != kNone) {
    const model::StreamRow& stream = trace_.streams[owner.stream];
    labels += Labels(&of_streams_, owner.stream, [&] {
      if (stream.device != kNone) Label(ProfileLabel::kDevice, std::to_string(trace_.devices[stream.device].ordinal));
      Label(ProfileLabel::kStream, std::to_string(stream.stream));
    });
  }
  return labels;
}

template <class Write>
const std::string& ProfileWriter::Labels(std::vector<std::string>* of_rows, uint32_t row, const Write& write) {
  std::string& labels = (*of_rows)[row];
  if (labels.empty()) {
    labels_.Clear();
    write();
    labels.assign(reinterpret_cast<const char*>(labels_.data()), labels_.size());
  }
  return labels;
}

}  // namespace pitot::serialize
