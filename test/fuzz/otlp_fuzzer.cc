// SPDX-License-Identifier: Apache-2.0
#include "fuzz/reader.h"

// JSON and protobuf: the bytes decide.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::ReadAs(pitot::read::kOtlpFormat, data, size);
}

#ifdef PITOT_CORPUS_WRITER
#include "pitot/serialize/otlp.h"
#include "serialize/sample_trace.h"

namespace {

constexpr const char* kSample = R"json({"resourceSpans":[{"resource":{"attributes":[
{"key":"service.name","value":{"stringValue":"shop"}},{"key":"process.pid","value":{"intValue":"7"}}]},
"scopeSpans":[{"scope":{"name":"lib"},"spans":[
{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":"llm_request","kind":2,
"startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000","attributes":[
{"key":"gen_ai.latency.time_in_queue","value":{"doubleValue":0.25}},{"key":"ok","value":{"boolValue":true}},
{"key":"gen_ai.latency.time_to_first_token","value":{"doubleValue":0.5}}],"status":{"code":2,"message":"why"}},
{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b175","parentSpanId":"eee19b7ec3c1b174",
"name":"redis","kind":3,"startTimeUnixNano":"1544712660100000000","endTimeUnixNano":"1544712660200000000",
"events":[{"timeUnixNano":"1544712660150000000","name":"e","attributes":[]}],
"links":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174"}]}]}]}]}
)json";

// Keeps what a serializer writes.
class Bytes final : public pitot::ByteSink {
 public:
  bool Write(const void* data, uint64_t size) noexcept override {
    text.append(static_cast<const char*>(data), size);
    return true;
  }
  std::string text;
};

}  // namespace

bool fuzz::WriteCorpus(const std::string& folder) {
  // Twice: a file of a collector has several documents.
  const std::string sample = kSample;
  Bytes wire;
  return pitot::MakeOtlpSerializer()->Serialize(pitot::test::SampleTrace(), wire).ok() &&
         fuzz::WriteFile(folder + "/sample.json", sample + sample) &&
         fuzz::WriteFile(folder + "/cut.json", sample.substr(0, 900)) &&
         fuzz::WriteFile(folder + "/damaged.json", sample.substr(0, 900) + "\n" + sample) &&
         fuzz::WriteFile(folder + "/sample.pb", wire.text);
}
#endif
