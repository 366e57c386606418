// SPDX-License-Identifier: Apache-2.0
//
// Writes a trace's requests as OpenTelemetry spans (OTLP's protobuf, the body of a POST to /v1/traces): requests with
// their stages and waits in queues, and the batches they were in. docs/reference/formats/otlp.md.
#ifndef PITOT_SERIALIZE_OTLP_H_
#define PITOT_SERIALIZE_OTLP_H_

#include <stdint.h>

#include <memory>
#include <string>
#include <vector>

#include "pitot/extend/serializer.h"

PITOT_NAMESPACE_BEGIN

// Why a request was slow.
struct OtlpCause {
  std::string name;      // "host_lock"
  std::string evidence;  // in words
  std::string advice;
  int64_t begin_ns = 0;  // of the longest part
  int64_t lost_ns = 0;
  double confidence = 0;  // 0 to 1
};
struct OtlpVerdict {
  std::string kind;      // "causes"
  std::string sentence;  // the verdict in words
  int64_t typical_ns = 0;
  std::vector<OtlpCause> causes;  // largest loss first
};

struct OtlpOptions {
  const char* file_name = "trace.otlp.pb";
  // The resource's service.name; null: the process's name.
  const char* service_name = nullptr;
  // Judges a request for which a trigger fired, by its row; false: there is no verdict. Null: none are written. This
  // library does not judge; pitot/analyze/otlp.h does.
  // Threads: that of Serialize. Lifetime: the context must outlive the serializer, the trace ends with Serialize. What
  // it throws leaves Serialize: a recorder catches it, and the file fails.
  bool (*judge)(void* context, const model::Trace& trace, uint32_t request, OtlpVerdict* verdict) = nullptr;
  void* judge_context = nullptr;
};

// Each call of the sink gets a whole message of some 256 KiB, so that they can also be sent one by one.
// Threads: any. Errors: null if there is no memory. Serialize returns kInvalidArgument for a trace without a date.
// Lifetime: the options are copied, with their texts.
// Cost of Serialize: O(n log n) of requests, batches and hand-offs, and the judge's. 256 KiB of spans are in memory.
PITOT_EXPORT std::unique_ptr<Serializer> MakeOtlpSerializer(const OtlpOptions& options = {}) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_SERIALIZE_OTLP_H_
