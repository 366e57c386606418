// SPDX-License-Identifier: Apache-2.0
#include "serialize/pprof_writer.h"

#include <string>

#include "serialize/pprof_fields.h"
#include "serialize/texts.h"

namespace pitot::serialize {

namespace profile = pprof::profile;

PprofWriter::PprofWriter(const model::Trace& trace, ByteSink* sink) : ProfileWriter(trace), sink_(*sink) {
  Text("");
  WriteHead();
}

void PprofWriter::WriteText(std::string_view text) { buffer_.String(profile::kString, text); }

void PprofWriter::WriteHead() {
  const uint64_t ns = Text("nanoseconds");
  uint64_t first_type = 0;
  for (const char* const name : kProfileValues) {
    const uint64_t type = Text(name);
    if (first_type == 0) first_type = type;
    const size_t opened = buffer_.Open(profile::kSampleType);
    buffer_.Varint(pprof::value_type::kType, type);
    buffer_.Varint(pprof::value_type::kUnit, ns);
    buffer_.Close(opened);
  }
  buffer_.Varint(profile::kDefaultSampleType, trace_.gpu.size() != 0 ? Text("gpu") : first_type);
  if (const uint64_t unix_ns = UnixBegin(); unix_ns != 0) buffer_.Varint(profile::kTime, unix_ns);
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
  if (const std::string lost = LossesInWords(trace_); !lost.empty())
    buffer_.Varint(profile::kComment, Text("losses: " + lost));
}

void PprofWriter::WriteFrame(Frame frame, const FrameText& text) {
  size_t opened = buffer_.Open(profile::kFunction);
  buffer_.Varint(pprof::function::kId, frame);
  buffer_.Varint(pprof::function::kName, text.name);
  if (text.compiled != 0) buffer_.Varint(pprof::function::kSystemName, text.compiled);
  if (text.file != 0) buffer_.Varint(pprof::function::kFileName, text.file);
  if (text.line != 0) buffer_.Varint(pprof::function::kStartLine, text.line);
  buffer_.Close(opened);
  opened = buffer_.Open(profile::kLocation);
  buffer_.Varint(pprof::location::kId, frame);
  buffer_.Varint(pprof::location::kMapping, 1);
  const size_t opened_line = buffer_.Open(pprof::location::kLine);
  buffer_.Varint(pprof::line::kFunction, frame);
  if (text.line != 0) buffer_.Varint(pprof::line::kNumber, text.line);
  buffer_.Close(opened_line);
  buffer_.Close(opened);
}

void PprofWriter::WriteSamples(const std::vector<Sample>& samples) {
  for (const Sample& sample : samples) WriteSample(sample);
}

void PprofWriter::WriteSample(const Sample& sample) {
  // Labels first, because new texts go to the profile itself.
  const std::string labels = Labels(sample.key.owner);
  const size_t opened = buffer_.Open(profile::kSample);
  size_t packed = buffer_.Open(pprof::sample::kLocations);
  VisitFrames(sample.key.stack, [&](Frame frame) { buffer_.RawVarint(frame); });
  buffer_.Close(packed);
  packed = buffer_.Open(pprof::sample::kValues);
  for (const int64_t ns : sample.ns) buffer_.RawVarint(static_cast<uint64_t>(ns));
  buffer_.Close(packed);
  buffer_.RawBytes(labels.data(), labels.size());
  buffer_.Close(opened);
  if (buffer_.size() >= kFlushBytes) Flush();
}

void PprofWriter::WriteLabel(ProfileLabel label, std::string_view text, WireBuffer* out) {
  constexpr const char* kNames[kProfileLabels] = {"request",  "trace_id", "route",  "batch",
                                                  "executor", "thread",   "device", "stream"};
  const uint64_t key_text = Text(kNames[static_cast<size_t>(label)]), value_text = Text(text);
  const size_t opened = out->Open(pprof::sample::kLabel);
  out->Varint(pprof::label::kKey, key_text);
  out->Varint(pprof::label::kText, value_text);
  out->Close(opened);
}

void PprofWriter::Flush() {
  ok_ = ok_ && (buffer_.size() == 0 || sink_.Write(buffer_.data(), buffer_.size()));
  buffer_.Clear();
}

}  // namespace pitot::serialize
