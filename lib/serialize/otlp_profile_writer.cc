// SPDX-License-Identifier: Apache-2.0
#include "serialize/otlp_profile_writer.h"

#include <string>

#include "pitot/version.h"
#include "serialize/otlp_profile_fields.h"
#include "serialize/otlp_span.h"
#include "serialize/texts.h"

namespace pitot::serialize {

using model::kNone;

OtlpProfileWriter::OtlpProfileWriter(const model::Trace& trace, ByteSink* sink) : ProfileWriter(trace), sink_(*sink) {
  // The first row of each table means "not set".
  Text("");
  for (const uint32_t table : {otlp::dictionary::kMapping, otlp::dictionary::kLocation, otlp::dictionary::kFunction,
                               otlp::dictionary::kLink, otlp::dictionary::kAttribute, otlp::dictionary::kStack})
    dictionary_.Bytes(table, nullptr, 0);
  WriteResource();
}

void OtlpProfileWriter::WriteResource() {
  ResourceText("service.name", OrElse(trace_.strings[trace_.process_name], "unknown_service"));
  if (const std::string_view host = trace_.AttributeOf("host"); !host.empty()) ResourceText("host.name", host);
  const size_t opened = resource_.Open(otlp::resource::kAttribute);
  resource_.String(otlp::attribute::kKey, "process.pid");
  const size_t value = resource_.Open(otlp::attribute::kValue);
  resource_.Int(otlp::value::kInt, trace_.pid);
  resource_.Close(value);
  resource_.Close(opened);
  library_.String(otlp::scope::kName, "pitot");
  library_.String(otlp::scope::kVersion, PITOT_VERSION_STRING);
  for (const model::Attribute& attribute : trace_.attributes)
    profile_attributes_.RawVarint(Attribute(trace_.strings[attribute.key], trace_.strings[attribute.value]));
  if (const std::string lost = LossesInWords(trace_); !lost.empty())
    profile_attributes_.RawVarint(Attribute("pitot.losses", lost));
}

void OtlpProfileWriter::ResourceText(std::string_view key, std::string_view text) {
  const size_t opened = resource_.Open(otlp::resource::kAttribute);
  resource_.String(otlp::attribute::kKey, key);
  const size_t value = resource_.Open(otlp::attribute::kValue);
  resource_.String(otlp::value::kText, text);
  resource_.Close(value);
  resource_.Close(opened);
}

void OtlpProfileWriter::WriteText(std::string_view text) { dictionary_.String(otlp::dictionary::kString, text); }

// A frame is the row of its function and of its location.
void OtlpProfileWriter::WriteFrame(Frame frame, const FrameText& text) {
  const uint32_t type = text.place == ProfilePlace::kGpu ? Attribute("profile.frame.type", "cuda") : 0;
  size_t opened = dictionary_.Open(otlp::dictionary::kFunction);
  dictionary_.Varint(otlp::function::kName, text.name);
  if (text.compiled != 0) dictionary_.Varint(otlp::function::kSystemName, text.compiled);
  if (text.file != 0) dictionary_.Varint(otlp::function::kFileName, text.file);
  if (text.line != 0) dictionary_.Varint(otlp::function::kStartLine, text.line);
  dictionary_.Close(opened);
  opened = dictionary_.Open(otlp::dictionary::kLocation);
  const size_t line = dictionary_.Open(otlp::location::kLine);
  dictionary_.Varint(otlp::line::kFunction, frame);
  if (text.line != 0) dictionary_.Varint(otlp::line::kNumber, text.line);
  dictionary_.Close(line);
  if (type != 0) {
    const size_t types = dictionary_.Open(otlp::location::kAttributes);
    dictionary_.RawVarint(type);
    dictionary_.Close(types);
  }
  dictionary_.Close(opened);
}

// Names of OpenTelemetry's semantic conventions where there are any. A link has the trace's id.
void OtlpProfileWriter::WriteLabel(ProfileLabel label, std::string_view text, WireBuffer* out) {
  constexpr const char* kNames[kProfileLabels] = {
      "pitot.request.id", "", "http.route", "pitot.batch.id", "pitot.executor", "thread.name", "pitot.device",
      "pitot.stream"};
  if (label != ProfileLabel::kTraceId) out->RawVarint(Attribute(kNames[static_cast<size_t>(label)], text));
}

uint32_t OtlpProfileWriter::Attribute(std::string_view key, std::string_view text) {
  const uint64_t key_text = Text(key);
  // The value is in the attribute itself: receivers of older versions know no texts by number.
  const auto [found, is_new] =
      attributes_.try_emplace({key_text, Text(text)}, static_cast<uint32_t>(attributes_.size() + 1));
  if (!is_new) return found->second;
  const size_t opened = dictionary_.Open(otlp::dictionary::kAttribute);
  dictionary_.Varint(otlp::key_value::kKey, key_text);
  const size_t value = dictionary_.Open(otlp::key_value::kValue);
  dictionary_.String(otlp::value::kText, text);
  dictionary_.Close(value);
  dictionary_.Close(opened);
  return found->second;
}

uint32_t OtlpProfileWriter::StackRow(Stack stack) {
  const auto [found, is_new] = stacks_.try_emplace(stack, static_cast<uint32_t>(stacks_.size() + 1));
  if (!is_new) return found->second;
  const size_t opened = dictionary_.Open(otlp::dictionary::kStack);
  const size_t packed = dictionary_.Open(otlp::stack::kLocations);
  VisitFrames(stack, [&](Frame frame) { dictionary_.RawVarint(frame); });
  dictionary_.Close(packed);
  dictionary_.Close(opened);
  return found->second;
}

// To the span that `--to otlp` writes of the request; 0 if the host gave no trace.
uint32_t OtlpProfileWriter::Link(uint32_t row) {
  if (row == kNone) return 0;
  const model::RequestRow& request = trace_.requests[row];
  if ((request.trace_id_high | request.trace_id_low) == 0) return 0;
  const auto [found, is_new] = links_.try_emplace(row, static_cast<uint32_t>(links_.size() + 1));
  if (!is_new) return found->second;
  const uint64_t trace_id[] = {__builtin_bswap64(request.trace_id_high), __builtin_bswap64(request.trace_id_low)};
  const uint64_t span_id = __builtin_bswap64(request.id);
  const size_t opened = dictionary_.Open(otlp::dictionary::kLink);
  dictionary_.Bytes(otlp::link::kTraceId, trace_id, sizeof trace_id);
  dictionary_.Bytes(otlp::link::kSpanId, &span_id, sizeof span_id);
  dictionary_.Close(opened);
  return found->second;
}

void OtlpProfileWriter::WriteSamples(const std::vector<Sample>& samples) {
  if (samples.empty()) return;
  WireBuffer group;
  const size_t opened = group.Open(otlp::profiles::kResourceProfiles);
  group.Bytes(otlp::resource_profiles::kResource, resource_.data(), resource_.size());
  const size_t of_scope = group.Open(otlp::resource_profiles::kScopeProfiles);
  group.Bytes(otlp::scope_profiles::kScope, library_.data(), library_.size());
  for (uint32_t value = 0; value < std::size(kProfileValues); ++value)
    WriteProfile(samples, static_cast<ProfileValue>(value), &group);
  group.Close(of_scope);
  group.Close(opened);
  ok_ = ok_ && sink_.Write(group.data(), group.size());
}

void OtlpProfileWriter::WriteProfile(const std::vector<Sample>& samples, ProfileValue value, WireBuffer* out) {
  const auto index = static_cast<size_t>(value);
  const size_t before = out->size(), profile = out->Open(otlp::scope_profiles::kProfile);
  const size_t type = out->Open(otlp::profile::kSampleType);
  out->Varint(otlp::value_type::kType, Text(kProfileValues[index]));
  out->Varint(otlp::value_type::kUnit, Text("nanoseconds"));
  out->Close(type);
  if (const uint64_t unix_ns = UnixBegin(); unix_ns != 0) out->Fixed64(otlp::profile::kTime, unix_ns);
  out->Int(otlp::profile::kDuration, trace_.window_end_ns - trace_.window_begin_ns);
  if (profile_attributes_.size() != 0)
    out->Bytes(otlp::profile::kAttributes, profile_attributes_.data(), profile_attributes_.size());
  bool has_any = false;
  for (const Sample& sample : samples) {
    if (sample.ns[index] == 0) continue;
    has_any = true;
    const std::string labels = Labels(sample.key.owner);
    const size_t opened = out->Open(otlp::profile::kSample);
    out->Varint(otlp::sample::kStack, StackRow(sample.key.stack));
    if (!labels.empty()) out->String(otlp::sample::kAttributes, labels);
    if (const uint32_t link = Link(sample.key.owner.request); link != 0) out->Varint(otlp::sample::kLink, link);
    const size_t packed = out->Open(otlp::sample::kValues);
    out->RawVarint(static_cast<uint64_t>(sample.ns[index]));
    out->Close(packed);
    out->Close(opened);
  }
  out->Close(profile);
  if (!has_any) out->Truncate(before);
}

void OtlpProfileWriter::WriteEnd() {
  WireBuffer head;
  head.RawVarint(otlp::profiles::kDictionary << 3 | 2);
  head.RawVarint(dictionary_.size());
  ok_ = ok_ && sink_.Write(head.data(), head.size()) && sink_.Write(dictionary_.data(), dictionary_.size());
}

}  // namespace pitot::serialize
