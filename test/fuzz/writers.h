// SPDX-License-Identifier: Apache-2.0
//
// Every writer must write a trace that was read from any bytes.
#ifndef PITOT_TEST_FUZZ_WRITERS_H_
#define PITOT_TEST_FUZZ_WRITERS_H_

#include <stdint.h>

#include <nlohmann/json.hpp>

#include "fakes/string_sink.h"
#include "fuzz/fuzz.h"
#include "pitot/model/trace.h"
#include "pitot/serialize/dump.h"
#include "pitot/serialize/kineto.h"
#include "pitot/serialize/otlp.h"
#include "pitot/serialize/otlp_profiles.h"
#include "pitot/serialize/perfetto.h"
#include "pitot/serialize/pprof.h"
#include "pitot/serialize/xspace.h"

namespace fuzz {

class NullSink final : public pitot::ByteSink {
 public:
  bool Write(const void*, uint64_t) noexcept override { return true; }
};

// Leaves out traces with many rows: a fuzzer is to try many inputs.
inline void WriteAll(const pitot::model::Trace& trace) {
  constexpr size_t kMostRows = 20'000;
  if (trace.events.size() + trace.calls.size() + trace.gpu.size() + trace.samples.size() + trace.requests.size() +
          trace.asyncs.size() >
      kMostRows)
    return;
  NullSink sink;
  Require(pitot::MakePerfettoSerializer()->Serialize(trace, sink).ok(), "perfetto", "failed");
  fakes::StringSink json;
  Require(pitot::MakeKinetoSerializer()->Serialize(trace, json).ok(), "kineto", "failed");
  Require(nlohmann::json::accept(json.bytes), "kineto", "wrote no JSON");
  const bool has_date = trace.clock.realtime_ns != 0;
  Require(pitot::MakeOtlpSerializer()->Serialize(trace, sink).ok() == has_date, "otlp", "failed");
  Require(pitot::MakeOtlpProfilesSerializer()->Serialize(trace, sink).ok(), "otlp profiles", "failed");
  Require(pitot::MakePprofSerializer()->Serialize(trace, sink).ok(), "pprof", "failed");
  Require(pitot::MakeXSpaceSerializer()->Serialize(trace, sink).ok(), "xspace", "failed");
  Require(pitot::MakeDumpSerializer()->Serialize(trace, sink).ok(), "dump", "failed");
}

}  // namespace fuzz

#endif  // PITOT_TEST_FUZZ_WRITERS_H_
