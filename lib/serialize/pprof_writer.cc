// SPDX-License-Identifier: Apache-2.0
#include "serialize/pprof_writer.h"

#include <algorithm>

#include "base/columns.h"
#include "model/request_text.h"
#include "serialize/pprof_fields.h"
#include "serialize/texts.h"

namespace pitot::serialize {

using model::kNone;
namespace profile = pprof::profile;

size_t PprofWriter::Hash::operator()(const Key& key) const {
  const uint64_t context = uint64_t{key.owner.request} << 32 | key.owner.batch;
  const uint64_t place = uint64_t{key.owner.thread} << 32 | key.owner.stream;
  return static_cast<size_t>(Mix(Mix(Mix(context) + place) + key.stack));
}

PprofWriter::PprofWriter(const model::Trace& trace, ByteSink* sink)
    : trace_(trace),
      sink_(*sink),
      of_requests_(trace.requests.size()),
      of_batches_(trace.batches.size()),
      of_threads_(trace.threads.size()),
      of_streams_(trace.streams.size()) {
  Text("");
  WriteHead();
}

uint64_t PprofWriter::Text(std::string_view text) {
  const auto [found, is_new] = texts_.try_emplace(std::string(text), texts_.size());
  if (is_new) buffer_.String(profile::kString, text);
  return found->second;
}

void PprofWriter::WriteHead() {
  const uint64_t ns = Text("nanoseconds");
  uint64_t first_type = 0;
  for (const char* const name : {"host", "wait", "gpu", "request_gpu"}) {
    const uint64_t type = Text(name);
    if (first_type == 0) first_type = type;
    const size_t opened = buffer_.Open(profile::kSampleType);
    buffer_.Varint(pprof::value_type::kType, type);
    buffer_.Varint(pprof::value_type::kUnit, ns);
    buffer_.Close(opened);
  }
  buffer_.Varint(profile::kDefaultSampleType, trace_.gpu.size() != 0 ? Text("gpu") : first_type);
  // The moment of the window's begin in Unix time.
  const int64_t unix_ns = trace_.clock.realtime_ns - trace_.clock.monotonic_ns;
  if (trace_.clock.realtime_ns != 0)
    buffer_.Varint(profile::kTime, static_cast<uint64_t>(unix_ns) + static_cast<uint64_t>(trace_.window_begin_ns));
  buffer_.Int(profile::kDuration, trace_.window_end_ns - trace_.window_begin_ns);
  // Without a mapping, readers look for a binary.
  const uint64_t name = Text(OrElse(trace_.strings[trace_.process_name], "process"));
  const size_t opened = buffer_.Open(profile::kMapping);
  buffer_.Varint(pprof::mapping::kId, 1);
  buffer_.Varint(pprof::mapping::kFileName, name);
  buffer_.Varint(pprof::mapping::kHasFunctions, 1);
  buffer_.Varint(pprof::mapping::kHasFileNames, 1);
  buffer_.Varint(pprof::mapping::kHasLineNumbers, 1);
  buffer_.Close(opened);
  for (const model::Attribute& attribute : trace_.attributes) {
    const std::string text =
        std::string(trace_.strings[attribute.key]) + ": " + std::string(trace_.strings[attribute.value]);
    buffer_.Varint(profile::kComment, Text(text));
  }
  if (!trace_.losses.empty() || !trace_.gpu_losses.empty())
    buffer_.Varint(profile::kComment, Text("losses: " + base::Count(trace_.losses.size()) + " of events, " +
                                           base::Count(trace_.gpu_losses.size()) + " of GPU records"));
}

PprofWriter::Frame PprofWriter::FrameOf(std::string_view name, std::string_view compiled, std::string_view file,
                                        uint32_t line) {
  const auto [found, is_new] = frames_.try_emplace(std::string(name), frames_.size() + 1);
  const Frame frame = found->second;
  if (!is_new) return frame;
  const uint64_t name_text = Text(name), compiled_text = Text(compiled), file_text = Text(file);
  size_t opened = buffer_.Open(profile::kFunction);
  buffer_.Varint(pprof::function::kId, frame);
  buffer_.Varint(pprof::function::kName, name_text);
  if (compiled_text != 0) buffer_.Varint(pprof::function::kSystemName, compiled_text);
  if (file_text != 0) buffer_.Varint(pprof::function::kFileName, file_text);
  if (line != 0) buffer_.Varint(pprof::function::kStartLine, line);
  buffer_.Close(opened);
  opened = buffer_.Open(profile::kLocation);
  buffer_.Varint(pprof::location::kId, frame);
  buffer_.Varint(pprof::location::kMapping, 1);
  const size_t opened_line = buffer_.Open(pprof::location::kLine);
  buffer_.Varint(pprof::line::kFunction, frame);
  if (line != 0) buffer_.Varint(pprof::line::kNumber, line);
  buffer_.Close(opened_line);
  buffer_.Close(opened);
  return frame;
}

PprofWriter::Stack PprofWriter::Call(Stack outer, Frame frame) {
  const auto [found, is_new] = stacks_.try_emplace(uint64_t{outer} << 32 | frame, static_cast<Stack>(entries_.size()));
  if (is_new) entries_.push_back({outer, frame});
  return found->second;
}

void PprofWriter::Add(Stack stack, const PprofOwner& owner, PprofValue value, int64_t ns) {
  if (ns == 0) return;
  const Key key = {stack, owner};
  const auto [found, is_new] = rows_.try_emplace(key, static_cast<uint32_t>(samples_.size()));
  if (is_new) samples_.push_back({key, {}});
  samples_[found->second].ns[static_cast<size_t>(value)] += ns;
  if (samples_.size() == kMostSamples) WriteSamples();
}

void PprofWriter::Finish() {
  WriteSamples();
  Flush();
}

void PprofWriter::WriteSamples() {
  for (const Sample& sample : samples_) WriteSample(sample);
  samples_.clear();
  rows_.clear();
}

void PprofWriter::WriteSample(const Sample& sample) {
  // Labels first, because new texts go to the profile itself.
  std::string labels;
  const PprofOwner& owner = sample.key.owner;
  if (owner.request != kNone) {
    const model::RequestRow& request = trace_.requests[owner.request];
    labels += Labels(&of_requests_, owner.request, [&] {
      Label("request", model::RequestName(trace_, request));
      if ((request.trace_id_high | request.trace_id_low) != 0)
        Label("trace_id", Hex(request.trace_id_high, 16) + Hex(request.trace_id_low, 16));
      Label("route", trace_.strings[request.route]);
    });
  }
  if (owner.batch != kNone) {
    labels += Labels(&of_batches_, owner.batch, [&] {
      Label("batch", Hex(trace_.batches[owner.batch].id, 16));
      Label("executor", trace_.strings[trace_.batches[owner.batch].executor]);
    });
  }
  if (owner.thread != kNone)
    labels += Labels(&of_threads_, owner.thread, [&] { Label("thread", ThreadName(trace_, owner.thread)); });
  if (owner.stream != kNone) {
    const model::StreamRow& stream = trace_.streams[owner.stream];
    labels += Labels(&of_streams_, owner.stream, [&] {
      if (stream.device != kNone) Label("device", std::to_string(trace_.devices[stream.device].ordinal));
      Label("stream", std::to_string(stream.stream));
    });
  }
  const size_t opened = buffer_.Open(profile::kSample);
  size_t packed = buffer_.Open(pprof::sample::kLocations);
  for (Stack stack = sample.key.stack; stack != kNoStack; stack = entries_[stack].outer)
    buffer_.RawVarint(entries_[stack].frame);
  buffer_.Close(packed);
  packed = buffer_.Open(pprof::sample::kValues);
  for (const int64_t ns : sample.ns) buffer_.RawVarint(static_cast<uint64_t>(ns));
  buffer_.Close(packed);
  buffer_.RawBytes(labels.data(), labels.size());
  buffer_.Close(opened);
  if (buffer_.size() >= kFlushBytes) Flush();
}

template <class Write>
const std::string& PprofWriter::Labels(std::vector<std::string>* of_rows, uint32_t row, const Write& write) {
  std::string& labels = (*of_rows)[row];
  if (labels.empty()) {
    labels_.Clear();
    write();
    labels.assign(reinterpret_cast<const char*>(labels_.data()), labels_.size());
  }
  return labels;
}

void PprofWriter::Label(const char* key, std::string_view text) {
  if (text.empty()) return;
  const uint64_t key_text = Text(key), value_text = Text(text);
  const size_t opened = labels_.Open(pprof::sample::kLabel);
  labels_.Varint(pprof::label::kKey, key_text);
  labels_.Varint(pprof::label::kText, value_text);
  labels_.Close(opened);
}

void PprofWriter::Flush() {
  ok_ = ok_ && (buffer_.size() == 0 || sink_.Write(buffer_.data(), buffer_.size()));
  buffer_.Clear();
}

}  // namespace pitot::serialize
